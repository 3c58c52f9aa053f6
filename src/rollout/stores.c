/* stores.c - see stores.h. */
#include "rollout/stores.h"

#include "base/file.h"
#include "base/hash.h"
#include "lance/buffer_pool.h"
#include "rollout/store_priv.h"

#include <stdlib.h>
#include <unistd.h>

enum { SCAN_QUEUE_MAX = 1024, S3_THREADS = 64, OPEN_FILES_MAX = 4096, REMOVALS = 4096 };

typedef struct entry {
    lk_rollouts      *owner;
    lk_buf            name;
    lk_data_place     place;
    lk_lance_env      env;
    lk_rollout_store *store;    /* the table's reference */
    bool              busy;     /* is opened, made or removed; guarded by the owner's mutex, as is the rest */
    bool              checking; /* a task looks whether it is still there */
    uint64_t          checked_ms, used_ms; /* monotonic */
} entry;

struct lk_rollouts {
    lk_rollouts_options    options;
    lk_buf                 instance_id;
    lk_data_dir           *dir;
    lk_budget              budget, open_files;
    lk_pool               *pool;
    struct lk_buffer_pool *buffers;
    lk_generation_forms   *forms;
    lk_rollout_maintainer *maintainer;

    lk_mutex               mutex;
    lk_cond                changed;            /* an entry is not busy any more, or one was freed */
    entry                **entries;            /* by name; guarded by mutex, as are the following */
    size_t                 count, room, alive; /* alive: entries that were not freed, listed or not */
    size_t                 checks;             /* tasks that look at one */
    atomic_ullong          removals[REMOVALS]; /* by name */
    atomic_ullong          disk_low_bytes;
    lk_rollout_store_stats gone; /* of stores that are not listed any more; guarded by mutex */
};

/* -- the table ---------------------------------------------------------------------------------------------------- */

/* Where the name is, or belongs. Called with the mutex. */
static size_t place_of(const lk_rollouts *r, lk_bytes name, bool *found)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lk_bytes_compare(lk_buf_view(&r->entries[middle]->name), name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *found = low < r->count && lk_bytes_equal(lk_buf_view(&r->entries[low]->name), name);
    return low;
}

static void list_entry(lk_rollouts *r, entry *e)
{
    bool   found;
    size_t at = place_of(r, lk_buf_view(&e->name), &found);
    LK_ASSERT(!found);
    if (r->count == r->room) {
        r->room = r->room == 0 ? 16 : r->room * 2;
        r->entries = realloc(r->entries, r->room * sizeof *r->entries);
        LK_ASSERT(r->entries != NULL);
    }
    memmove(&r->entries[at + 1], &r->entries[at], (r->count - at) * sizeof *r->entries);
    r->entries[at] = e;
    r->count++;
}

static void add_stats(lk_rollout_store_stats *sum, const lk_rollout_store_stats *one)
{
    sum->writer.flushes += one->writer.flushes;
    sum->writer.adds += one->writer.adds;
    sum->writer.rows += one->writer.rows;
    sum->writer.fenced += one->writer.fenced;
    sum->writer.replayed += one->writer.replayed;
    sum->writer.pending_generations += one->writer.pending_generations;
    sum->merges += one->merges;
    sum->merge_failures += one->merge_failures;
    sum->merged_generations += one->merged_generations;
    sum->merged_rows += one->merged_rows;
    sum->generations_wanted += one->generations_wanted;
    sum->generations_loaded += one->generations_loaded;
}

/* What it counted stays counted. */
static void unlist_entry(lk_rollouts *r, const entry *e)
{
    if (e->store != NULL) {
        lk_rollout_store_stats last;
        lk_rollout_store_read_stats(e->store, &last);
        last.writer.pending_generations = 0;
        add_stats(&r->gone, &last);
    }
    bool   found;
    size_t at = place_of(r, lk_buf_view(&e->name), &found);
    LK_ASSERT(found && r->entries[at] == e);
    r->count--;
    memmove(&r->entries[at], &r->entries[at + 1], (r->count - at) * sizeof *r->entries);
}

static entry *new_entry(lk_rollouts *r, lk_bytes name)
{
    entry *e = calloc(1, sizeof *e);
    LK_ASSERT(e != NULL);
    e->owner = r;
    e->busy = true;
    lk_buf_append_bytes(&e->name, name);
    r->alive++;
    return e;
}

/* The last one who had it gave it back. */
static void free_entry(void *context)
{
    entry       *e = context;
    lk_rollouts *r = e->owner;
    lk_data_place_close(&e->place);
    lk_buf_deinit(&e->name);
    free(e);
    lk_mutex_lock(&r->mutex);
    r->alive--;
    lk_cond_broadcast(&r->changed);
    lk_mutex_unlock(&r->mutex);
}

/* The entry of a name that is not busy, or NULL. Called with the mutex, which it may let go meanwhile. */
static entry *wait_for(lk_rollouts *r, lk_bytes name)
{
    for (;;) {
        bool   found;
        size_t at = place_of(r, name, &found);
        if (!found || !r->entries[at]->busy) {
            return found ? r->entries[at] : NULL;
        }
        lk_cond_wait(&r->changed, &r->mutex);
    }
}

/* A new entry of this name, listed and busy; NULL when there is one, which *present is then. */
static entry *reserve(lk_rollouts *r, lk_bytes name, entry **present)
{
    entry *e = NULL;
    *present = wait_for(r, name);
    if (*present == NULL) {
        e = new_entry(r, name);
        list_entry(r, e);
    }
    return e;
}

/* -- opening -------------------------------------------------------------------------------------------------------- */

static lk_rc may_write(void *context, lk_err *err)
{
    const lk_rollouts *r = ((entry *)context)->owner;
    return lk_data_dir_room(r->dir, atomic_load(&r->disk_low_bytes), err);
}

static void merge_due(void *context, lk_rollout_store *store)
{
    lk_rollout_maintainer_merge_due(((entry *)context)->owner->maintainer, store);
}

static void merged(void *context, lk_rollout_store *store)
{
    lk_rollout_maintainer_merged(((entry *)context)->owner->maintainer, store);
}

static lk_rc open_store(lk_rollouts *r, entry *e, bool create, lk_rollout_store **out, lk_err *err)
{
    lk_rollout_options options = r->options.store;
    options.merge_late = e->place.merge_late;
    options.keeper = (lk_rollout_keeper){.may_write = may_write,
        .merge_due = r->options.maintenance.background ? merge_due : NULL,
        .merged = merged,
        .released = free_entry,
        .context = e};
    lk_rc rc = lk_data_dir_place(r->dir, lk_buf_view(&e->name), &e->place, err);
    if (rc != LK_OK) {
        return rc;
    }
    e->env = (lk_lance_env){.store = e->place.store,
        .clock = lk_clock_real(),
        .random = lk_random_os(),
        .pool = r->pool,
        .budget = &r->budget,
        .open_files = &r->open_files,
        .buffers = r->buffers};
    return create ? lk_rollout_store_create(&e->env, e->place.late, &options, out, err)
                  : lk_rollout_store_open(&e->env, e->place.late, &options, out, err);
}

/* Ends what reserve began: the store is there for all, or the entry is gone. */
static lk_rc publish(lk_rollouts *r, entry *e, lk_rollout_store *store, lk_rc rc)
{
    if (rc == LK_OK) {
        lk_rollout_maintainer_watch(r->maintainer, store);
    }
    lk_mutex_lock(&r->mutex);
    if (rc == LK_OK) {
        e->store = store;
        e->busy = false;
        e->checked_ms = e->used_ms = lk_thread_now_ms();
        (void)lk_rollout_store_ref(store); /* the caller's */
    } else {
        unlist_entry(r, e);
    }
    lk_cond_broadcast(&r->changed);
    lk_mutex_unlock(&r->mutex);
    if (rc != LK_OK) {
        free_entry(e);
    }
    return rc;
}

/* The table lets go of a store that is not listed any more. */
static void let_go(lk_rollouts *r, lk_rollout_store *store)
{
    lk_rollout_maintainer_forget(r->maintainer, store);
    lk_rollout_store_unref(store);
}

/* Takes an entry that nobody uses out of the table when there are too many; the one that was used longest ago. */
static void evict(lk_rollouts *r)
{
    entry *oldest = NULL;
    lk_mutex_lock(&r->mutex);
    size_t most = r->options.open_max == 0 ? LK_ROLLOUT_OPEN_MAX : r->options.open_max;
    for (size_t i = 0; r->count > most && i < r->count; i++) {
        entry *e = r->entries[i];
        bool   idle = !e->busy && lk_rollout_store_is_idle(e->store);
        if (idle && (oldest == NULL || e->used_ms < oldest->used_ms)) {
            oldest = e;
        }
    }
    if (oldest != NULL) {
        unlist_entry(r, oldest);
    }
    lk_mutex_unlock(&r->mutex);
    if (oldest != NULL) {
        let_go(r, oldest->store);
    }
}

lk_rc lk_rollouts_create(lk_rollouts *r, lk_bytes name, lk_rollout_store **out, lk_err *err)
{
    entry *present = NULL;
    lk_rc  rc = lk_rollout_name_check(name, err);
    if (rc != LK_OK) {
        return rc;
    }
    evict(r);
    lk_mutex_lock(&r->mutex);
    entry *e = reserve(r, name, &present);
    lk_mutex_unlock(&r->mutex);
    if (e == NULL) {
        return lk_refuse(err, LK_E_TABLE_EXISTS, "there is a rollout store %.*s already", LK_FMT(name));
    }
    rc = open_store(r, e, true, out, err);
    return publish(r, e, rc == LK_OK ? *out : NULL, rc);
}

static atomic_ullong *removals_of(lk_rollouts *r, lk_bytes name)
{
    return &r->removals[lk_crc32c(0, name.data, name.size) % REMOVALS];
}

uint64_t lk_rollouts_removals(const lk_rollouts *r, lk_bytes name)
{
    return atomic_load(removals_of((lk_rollouts *)(uintptr_t)r, name));
}

/* Removes an entry whose place is not what it was: its holders are refused from now on. */
static void drop(lk_rollouts *r, entry *e)
{
    atomic_fetch_add(removals_of(r, lk_buf_view(&e->name)), 1);
    lk_data_place_shut(&e->place);
    lk_mutex_lock(&r->mutex);
    unlist_entry(r, e);
    lk_cond_broadcast(&r->changed);
    lk_mutex_unlock(&r->mutex);
    let_go(r, e->store);
}

/* Whether the open store is still the one that lies there; asked for now and then. */
static lk_rc check_present(lk_rollouts *r, entry *e, lk_err *err)
{
    bool  present = false;
    lk_rc rc = lk_rollout_store_is_present(e->store, &present, err);
    if (rc == LK_OK && !present) {
        drop(r, e);
        return LK_OK;
    }
    lk_mutex_lock(&r->mutex);
    e->busy = false;
    e->checked_ms = lk_thread_now_ms();
    lk_cond_broadcast(&r->changed);
    lk_mutex_unlock(&r->mutex);
    return rc;
}

/* A task of the pool. What it cannot affirm is left to the next who asks when the time is over. */
static void check_ahead(void *context)
{
    entry            *e = context;
    lk_rollouts      *r = e->owner;
    lk_rollout_store *store = e->store;
    bool              present = false;
    lk_err            ignored = {0};
    lk_rc             rc = lk_rollout_store_is_present(store, &present, &ignored);
    lk_mutex_lock(&r->mutex);
    e->checking = false;
    e->checked_ms = rc == LK_OK && present ? lk_thread_now_ms() : e->checked_ms;
    lk_mutex_unlock(&r->mutex);
    lk_rollout_store_unref(store); /* e may be gone */
    lk_mutex_lock(&r->mutex);
    r->checks--;
    lk_cond_broadcast(&r->changed);
    lk_mutex_unlock(&r->mutex);
}

/* Far away a look takes so long that nobody should wait for it while the store is in use. Called with the mutex; true: the
 * caller submits the check. */
static bool begin_check_ahead(lk_rollouts *r, entry *e, uint64_t now_ms)
{
    bool begins = now_ms - e->checked_ms >= LK_ROLLOUT_STALE_MS / 2 && !e->checking &&
                  lk_rollout_store_is_far(e->store);
    if (begins) {
        e->checking = true;
        r->checks++;
        (void)lk_rollout_store_ref(e->store);
    }
    return begins;
}

/* The open store of this name, or a new entry for it, or neither: then it was dropped, and whoever asks looks again. */
static lk_rc look_up(lk_rollouts *r, lk_bytes name, entry **made, lk_rollout_store **out, lk_err *err)
{
    entry *known = NULL;
    *out = NULL;
    lk_mutex_lock(&r->mutex);
    *made = reserve(r, name, &known);
    uint64_t now_ms = lk_thread_now_ms();
    bool     checks = known != NULL && now_ms - known->checked_ms >= LK_ROLLOUT_STALE_MS;
    bool     ahead = known != NULL && !checks && begin_check_ahead(r, known, now_ms);
    if (known != NULL) {
        known->busy = checks;
        known->used_ms = now_ms;
        *out = checks ? NULL : lk_rollout_store_ref(known->store);
    }
    lk_mutex_unlock(&r->mutex);
    lk_err full = {0};
    if (ahead && lk_pool_submit(r->pool, check_ahead, known, &full) != LK_OK) {
        check_ahead(known);
    }
    return checks ? check_present(r, known, err) : LK_OK;
}

lk_rc lk_rollouts_get(lk_rollouts *r, lk_bytes name, lk_rollout_store **out, lk_err *err)
{
    entry            *made = NULL;
    lk_rollout_store *store = NULL;
    lk_rc             rc = lk_rollout_name_check(name, err);
    while (rc == LK_OK && store == NULL && made == NULL) {
        rc = look_up(r, name, &made, &store, err);
    }
    if (made != NULL) {
        evict(r);
        rc = open_store(r, made, false, &store, err);
        rc = publish(r, made, store, rc);
    }
    if (rc == LK_E_NOT_FOUND) {
        *err = (lk_err){0};
        return lk_refuse(err, LK_E_NOT_FOUND, "there is no rollout store %.*s", LK_FMT(name));
    }
    if (rc == LK_OK) {
        *out = store;
    }
    return rc;
}

/* -- all of them ------------------------------------------------------------------------------------------------------ */

lk_rc lk_rollouts_list(lk_rollouts *r, lk_arena *arena, lk_bytes **names, size_t *count, lk_err *err)
{
    return lk_data_dir_list(r->dir, arena, names, count, err);
}

lk_rc lk_rollouts_delete(lk_rollouts *r, lk_bytes name, lk_err *err)
{
    bool              found = false;
    entry            *known = NULL;
    lk_rollout_store *store = NULL;
    lk_rc             rc = lk_rollout_name_check(name, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_mutex_lock(&r->mutex);
    entry *e = reserve(r, name, &known);
    if (known != NULL) {
        known->busy = true;
        store = known->store;
        e = known;
    }
    lk_mutex_unlock(&r->mutex);
    atomic_fetch_add(removals_of(r, name), 1); /* before anything of it fails */
    if (known != NULL) {
        lk_data_place_shut(&known->place);
    }
    rc = lk_data_dir_remove(r->dir, name, LK_ROLLOUT_STALE_MS + LK_ROLLOUT_STALE_MS / 2, &found, err);
    lk_mutex_lock(&r->mutex);
    unlist_entry(r, e);
    lk_cond_broadcast(&r->changed);
    lk_mutex_unlock(&r->mutex);
    if (store != NULL) {
        let_go(r, store);
    } else {
        free_entry(e);
    }
    if (rc == LK_OK && !found) {
        rc = lk_refuse(err, LK_E_NOT_FOUND, "there is no rollout store %.*s", LK_FMT(name));
    }
    return rc;
}

lk_bytes lk_rollouts_uri(lk_rollouts *r, lk_bytes name, lk_arena *arena)
{
    return lk_data_dir_uri(r->dir, name, arena);
}

/* -- storage options -------------------------------------------------------------------------------------------------- */

/* What this server has for an option of the object store, by the names that the published client's users write. */
static const char *setting_of(const lk_s3_options *s3, lk_bytes key)
{
    const struct {
        const char *name, *value;
    } known[] = {{"aws_access_key_id", s3->access_key}, {"access_key_id", s3->access_key},
        {"aws_secret_access_key", s3->secret_key}, {"secret_access_key", s3->secret_key},
        {"aws_session_token", s3->session_token}, {"session_token", s3->session_token},
        {"aws_region", s3->region}, {"region", s3->region}, {"aws_default_region", s3->region},
        {"aws_endpoint", s3->endpoint}, {"endpoint", s3->endpoint}, {"aws_endpoint_url", s3->endpoint},
        {"endpoint_url", s3->endpoint}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (lk_bytes_equal(key, lk_bytes_of(known[i].name))) {
            return known[i].value;
        }
    }
    return NULL;
}

lk_rc lk_rollouts_check_storage_option(lk_rollouts *r, lk_bytes key, lk_bytes value, lk_err *err)
{
    lk_buf lower = {0};
    bool   agrees = lk_data_dir_is_local(r->dir);
    lk_buf_append_bytes(&lower, key);
    for (size_t i = 0; i < lower.size; i++) {
        lower.data[i] =
            (char)(lower.data[i] >= 'A' && lower.data[i] <= 'Z' ? lower.data[i] + 32 : lower.data[i]);
    }
    if (!agrees && r->options.s3 != NULL) {
        const char *setting = setting_of(r->options.s3, lk_buf_view(&lower));
        agrees = setting != NULL && lk_bytes_equal(value, lk_bytes_of(setting));
    }
    lk_buf_deinit(&lower);
    return agrees ? LK_OK
                  : lk_refuse(err, LK_E_INVALID_REQUEST,
                        "storage option %.*s differs from the servers' own; set it on every server instead",
                        (int)(key.size < 64 ? key.size : 64), key.data);
}

/* -- life ------------------------------------------------------------------------------------------------------------- */

/* On an object store threads mostly wait. */
static size_t thread_count(const lk_rollouts *r)
{
    long   cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = cores > 2 ? (size_t)cores - 1 : 1; /* who asks works, too */
    return lk_data_dir_is_local(r->dir) || count > S3_THREADS ? count : S3_THREADS;
}

lk_rc lk_rollouts_open(const lk_rollouts_options *options, lk_rollouts **out, lk_err *err)
{
    lk_rollouts *r = calloc(1, sizeof *r);
    LK_ASSERT(r != NULL && options->store.instance_id.size > 0);
    r->options = *options;
    lk_rollouts_set_disk_low(r, options->disk_low_bytes);
    lk_buf_append_bytes(&r->instance_id, options->store.instance_id);
    r->options.store.instance_id = lk_buf_view(&r->instance_id);
    r->options.store.forms = r->forms = lk_generation_forms_new();
    uint64_t cache = options->cache_bytes == 0 ? LK_ROLLOUT_CACHE_BYTES : options->cache_bytes;
    size_t   files = lk_file_limit_raise() / 2;
    lk_budget_init(&r->budget, "rollout", (size_t)cache, NULL);
    lk_budget_init(&r->open_files, "rollout files", files < OPEN_FILES_MAX ? files : OPEN_FILES_MAX, NULL);
    lk_mutex_init(&r->mutex, LK_RANK_CATALOG);
    lk_cond_init(&r->changed);
    lk_rc rc = LK_OK;
    if (options->root != NULL) {
        r->dir = lk_data_dir_over(options->root, options->data_dir);
    } else {
        rc = lk_data_dir_open(&r->dir, options->data_dir, options->s3, options->durable, err);
    }
    if (rc == LK_OK) {
        rc = lk_pool_open(&r->pool, "rollout", thread_count(r), SCAN_QUEUE_MAX, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_maintainer_open(
            &options->maintenance, lk_clock_real(), lk_random_os(), &r->maintainer, err);
    }
    r->buffers = lk_buffer_pool_new(&r->budget);
    if (rc == LK_OK) {
        *out = r;
    } else {
        lk_rollouts_close(r);
    }
    return rc;
}

void lk_rollouts_close(lk_rollouts *r)
{
    if (r == NULL) {
        return;
    }
    lk_mutex_lock(&r->mutex);
    while (r->checks > 0) {
        lk_cond_wait(&r->changed, &r->mutex);
    }
    lk_mutex_unlock(&r->mutex);
    for (size_t i = 0; i < r->count; i++) {
        LK_ASSERT(!r->entries[i]->busy);
        let_go(r, r->entries[i]->store);
    }
    LK_ASSERT(r->alive == 0);
    lk_rollout_maintainer_close(r->maintainer);
    lk_buffer_pool_close(r->buffers);
    lk_generation_forms_free(r->forms);
    lk_pool_close(r->pool);
    lk_data_dir_close(r->dir);
    lk_cond_deinit(&r->changed);
    lk_mutex_deinit(&r->mutex);
    lk_buf_deinit(&r->instance_id);
    free(r->entries);
    free(r);
}

/* -- adoption ---------------------------------------------------------------------------------------------------------- */

/* Round after round, until nothing is pending. */
static lk_rc merge_all(
    const lk_rollouts *r, lk_rollout_store *store, lk_rollout_merge_report *report, lk_err *err)
{
    const lk_rollout_maintenance  *m = &r->options.maintenance;
    const lk_rollout_merge_options options = {.generations_max = m->generations_max == 0
                                                                     ? LK_ROLLOUT_MERGE_GENERATIONS
                                                                     : (size_t)m->generations_max,
        .bytes_max = m->bytes_max == 0 ? LK_ROLLOUT_MERGE_BYTES : m->bytes_max};
    lk_rollout_merge_report        round = {0};
    lk_rc                          rc = lk_rollout_store_claim(store, err);
    do {
        rc = rc == LK_OK ? lk_rollout_store_merge(store, &options, &round, err) : rc;
        if (rc == LK_OK && round.generations > 0) {
            report->generations += round.generations;
            report->rows += round.rows;
            report->base_version = round.base_version;
        }
    } while (rc == LK_OK && round.generations > 0);
    return rc;
}

static lk_rc shard_exists(const lk_rollout_store *store, lk_uuid shard, lk_bytes instance_id, lk_err *err)
{
    lk_arena          arena = {0};
    lk_shard_manifest latest = {0};
    bool              found = false;
    lk_rc             rc = lk_shard_latest(store->env.store, shard, 0, &arena, &latest, &found, err);
    if (rc == LK_OK && !found) {
        rc = lk_refuse(err, LK_E_NOT_FOUND, "no instance %.*s has written to this store",
            (int)(instance_id.size < 100 ? instance_id.size : 100), instance_id.data);
    }
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_rollouts_adopt(
    lk_rollouts *r, lk_bytes name, lk_bytes instance_id, lk_rollout_merge_report *report, lk_err *err)
{
    lk_rollout_store *own = NULL, *theirs = NULL;
    *report = (lk_rollout_merge_report){0};
    if (instance_id.size == 0 || lk_bytes_equal(instance_id, r->options.store.instance_id)) {
        return lk_refuse(
            err, LK_E_INVALID_REQUEST, "only the shard of another instance can be adopted; merge one's own");
    }
    lk_rc rc = lk_rollouts_get(r, name, &own, err);
    if (rc == LK_OK) {
        rc = shard_exists(own, lk_shard_of_instance(instance_id), instance_id, err);
    }
    if (rc == LK_OK) {
        const entry       *e = own->options.keeper.context;
        lk_rollout_options options = r->options.store;
        options.instance_id = instance_id;
        /* Not with the late files of the shard that adds go to. */
        rc = lk_rollout_store_open(&e->env, NULL, &options, &theirs, err);
    }
    if (rc == LK_OK) {
        rc = merge_all(r, theirs, report, err);
    }
    if (report->generations > 0) {
        lk_rollout_maintainer_merged(r->maintainer, own);
    }
    lk_rollout_store_unref(theirs);
    lk_rollout_store_unref(own);
    return rc;
}

/* -- figures ----------------------------------------------------------------------------------------------------------- */

void lk_rollouts_read_stats(lk_rollouts *r, lk_rollouts_stats *out)
{
    *out = (lk_rollouts_stats){
        .cache_bytes = atomic_load(&r->budget.used_bytes), .cache_peak = atomic_load(&r->budget.peak_bytes)};
    lk_buffer_pool_count(r->buffers, &out->pages_found, &out->pages_missed);
    lk_mutex_lock(&r->mutex);
    out->open = r->count;
    lk_mutex_unlock(&r->mutex);
    lk_rollout_maintainer_read_stats(r->maintainer, &out->maintenance);
    lk_store_counts *counts = lk_data_dir_counts(r->dir);
    for (size_t kind = 0; kind < LK_STORE_KINDS; kind++) {
        for (size_t result = 0; result < LK_STORE_RESULTS; result++) {
            out->calls[kind][result] = atomic_load(&counts->calls[kind][result]);
        }
    }
}

void lk_rollouts_set_disk_low(lk_rollouts *r, uint64_t bytes)
{
    atomic_store(&r->disk_low_bytes, bytes);
}

void lk_rollouts_read_store_stats(lk_rollouts *r, lk_rollout_store_stats *out)
{
    lk_mutex_lock(&r->mutex);
    *out = r->gone;
    for (size_t i = 0; i < r->count; i++) {
        if (r->entries[i]->store != NULL) {
            lk_rollout_store_stats one;
            lk_rollout_store_read_stats(r->entries[i]->store, &one);
            add_stats(out, &one);
        }
    }
    lk_mutex_unlock(&r->mutex);
}
