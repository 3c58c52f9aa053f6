/* store.c - see store.h: the writer's questions answered from the view, and merges set off by adds. */
#include "rollout/store_priv.h"

#include "arrow/schema.h"
#include "base/each.h"
#include "base/log.h"
#include "lance/manifest.h"
#include "rollout/base_table.h"
#include "rollout/cell.h"
#include "rollout/id_map.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    RECALL_MS = 1000,
    MANY_ROWS = 128 /* more than single rows of many clients that came together */
};

/* -- the writer's questions ------------------------------------------------------------------------------------------- */

/* Far away an add does not wait for what others did a moment ago: two instances that add one id at once may both
 * succeed, and readers see one. */
static lk_rc look(lk_rollout_store *s, lk_err *err)
{
    lk_rollout_snapshot *snapshot = NULL;
    lk_rc rc = s->env.store->far && !s->anew ? lk_rollout_view_recall(s->view, RECALL_MS, &snapshot, err)
                                             : lk_rollout_view_take(s->view, &snapshot, err);
    s->anew = false;
    if (rc == LK_OK) {
        lk_rollout_snapshot_unref(s->admitted);
        s->admitted = snapshot;
        atomic_store(&s->base_version, lk_dataset_version(snapshot->base));
    }
    return rc;
}

static lk_rc prepare(
    void *context, lk_rollout_add *adds, lk_arena *arena, lk_generation_rows *out, lk_err *err)
{
    enum { TRIES = 4 };
    lk_rollout_store *s = context;
    lk_rc             rc = LK_E_SNAPSHOT_GONE;
    for (int i = 0; i < TRIES && rc == LK_E_SNAPSHOT_GONE; i++) {
        s->anew = s->anew || i > 0;
        *err = (lk_err){0};
        for (lk_rollout_add *add = adds; add != NULL; add = add->next) {
            add->rc = s->options.strict_alignment ? lk_rollout_check_alignment(add->what, &add->err) : LK_OK;
        }
        rc = look(s, err);
        if (rc == LK_OK) {
            rc = lk_rollout_admit(s->admitted, s->options.on_conflict, adds, arena, out, err);
        }
    }
    if (rc == LK_E_SNAPSHOT_GONE) {
        const lk_err cause = *err;
        *err = (lk_err){0};
        return lk_refuse(err, LK_E_STORE_UNAVAILABLE,
            "files of the store are missing, or were collected while records were compared, again and again: "
            "%s",
            cause.context);
    }
    return rc;
}

/* Rows of a log entry that are no tombstones, and whose ids nobody has yet. */
static lk_rc select_new(const lk_rollout_store *s, const struct ArrowSchema *schema,
    const struct ArrowArray *batch, lk_id_map *seen, uint8_t *selection, size_t *selected, lk_err *err)
{
    int64_t id_at = lk_schema_find(schema, LK_LITERAL("id"));
    int64_t tombstone_at = lk_schema_find(schema, LK_LITERAL("_tombstone"));
    *selected = 0;
    for (int64_t row = 0; row < batch->length; row++) {
        const struct ArrowArray *dead = tombstone_at < 0 ? NULL : batch->children[tombstone_at];
        lk_bytes                 id = lk_cell_text(batch->children[id_at], row);
        struct ArrowArray        found = {0};
        lk_rollout_place         place;
        size_t                   wanted;
        selection[row] = 0;
        if ((dead != NULL && ArrowBitGet(dead->buffers[1], dead->offset + row) != 0) ||
            !lk_id_map_add(seen, id, (lk_id_place){0}) ||
            lk_rollout_snapshot_place(s->admitted, id, &place)) { /* that it is there is enough */
            continue;
        }
        lk_rc rc = lk_rollout_snapshot_find(s->admitted, &id, 1, NULL, &found, &wanted, err);
        if (rc != LK_OK) {
            return rc;
        }
        selection[row] = found.length == 0;
        *selected += selection[row];
        lk_array_release(&found);
    }
    return LK_OK;
}

/* Takes *batch, rows of an entry; adds what is new of it to out. */
static lk_rc replay_batch(const lk_rollout_store *s, const struct ArrowSchema *schema,
    struct ArrowArray *batch, lk_id_map *seen, lk_arena *arena, lk_buf *batches, lk_buf *ids, lk_err *err)
{
    const struct ArrowSchema *table = lk_dataset_schema(s->admitted->base);
    lk_shared_array          *whole = lk_array_share(batch);
    const struct ArrowArray  *rows = lk_shared_array_get(whole);
    uint8_t                  *selection = calloc(1, (size_t)rows->length + 1);
    struct ArrowArray         few = {0}, aligned = {0};
    size_t                    selected = 0;
    LK_ASSERT(selection != NULL);
    lk_rc rc = select_new(s, schema, rows, seen, selection, &selected, err);
    if (rc == LK_OK && selected > 0) {
        rc = lk_array_filter(schema, rows, selection, (int64_t)selected, &few, err);
    }
    if (rc == LK_OK && selected > 0) {
        rc = lk_rollout_rows_align(schema, &few, table, &aligned, err);
    }
    if (rc == LK_OK && selected > 0) {
        int64_t          id_at = lk_schema_find(table, LK_LITERAL("id"));
        lk_shared_array *kept = lk_array_share(&aligned);
        lk_buf_append(batches, &kept, sizeof(lk_shared_array *));
        for (size_t row = 0; row < selected; row++) {
            lk_bytes id =
                lk_arena_copy(arena, lk_cell_text(lk_shared_array_get(kept)->children[id_at], (int64_t)row));
            lk_buf_append(ids, &id, sizeof id);
        }
    }
    lk_array_release(&few);
    lk_shared_array_unref(whole);
    free(selection);
    return rc;
}

/* The lists move into the arena, where the writer wants them. */
static void give_rows(
    const lk_rollout_store *s, lk_buf *batches, lk_buf *ids, lk_arena *arena, lk_generation_rows *out)
{
    *out = (lk_generation_rows){.schema = lk_dataset_schema(s->admitted->base),
        .batches = (lk_shared_array *const *)(const void *)lk_arena_copy(arena, lk_buf_view(batches)).data,
        .batch_count = batches->size / sizeof(lk_shared_array *),
        .ids = (const lk_bytes *)(const void *)lk_arena_copy(arena, lk_buf_view(ids)).data,
        .row_count = ids->size / sizeof(lk_bytes)};
}

static lk_rc replay(void *context, lk_batches *entry, lk_arena *arena, lk_generation_rows *out, lk_err *err)
{
    lk_rollout_store *s = context;
    lk_id_map        *seen = lk_id_map_new(0);
    s->anew = true;
    lk_buf batches = {0}, ids = {0}, kept = {0}; /* kept: entries' batches, whose ids seen refers to */
    lk_rc  rc = look(s, err);
    if (rc == LK_OK) {
        rc = lk_rollout_rows_check(&entry->schema, err);
    }
    for (bool more = rc == LK_OK; more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(entry, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        if (more) {
            struct ArrowArray again = {0};
            lk_shared_array  *shared = lk_array_share(&batch);
            lk_shared_batch_slice(shared, 0, lk_shared_array_get(shared)->length, &again);
            lk_buf_append(&kept, &shared, sizeof(lk_shared_array *));
            rc = replay_batch(s, &entry->schema, &again, seen, arena, &batches, &ids, err);
            more = rc == LK_OK;
        }
    }
    if (s->admitted != NULL) { /* also after a failure: the writer lets go of them */
        give_rows(s, &batches, &ids, arena, out);
    }
    for (size_t i = 0; i < kept.size / sizeof(lk_shared_array *); i++) {
        lk_shared_array_unref(((lk_shared_array **)(void *)kept.data)[i]);
    }
    lk_id_map_free(seen);
    lk_buf_deinit(&batches);
    lk_buf_deinit(&ids);
    lk_buf_deinit(&kept);
    return rc;
}

/* The view gets them from memory; where that fails, it reads them. */
static void flushed(void *context, const lk_shard_manifest *manifest, const lk_shard_generation *generation,
    const lk_generation_rows *rows)
{
    lk_rollout_store *s = context;
    lk_rollout_rows  *made = NULL;
    lk_err            ignored = {0};
    if (lk_rollout_rows_of(&s->env, lk_rollout_view_form(s->view), s->shard, generation, rows->schema,
            rows->batches, rows->batch_count, &made, &ignored) == LK_OK) {
        lk_rollout_view_give(s->view, made);
    }
    lk_rollout_view_tell(s->view, manifest, generation);
    if (rows->row_count >= MANY_ROWS) { /* their ids, while the answer is under way */
        lk_rollout_view_renew(s->view);
    }
    lk_rollout_view_stir(s->view);
}

static void claimed(void *context)
{
    ((lk_rollout_store *)context)->anew = true;
}

static const lk_rollout_writer_ops writer_ops = {prepare, replay, flushed, claimed};

/* -- life -------------------------------------------------------------------------------------------------------------- */

static lk_rollout_store *new_store(
    const lk_lance_env *env, lk_store *late, const lk_rollout_options *options, lk_dataset *base)
{
    lk_rollout_store *s = calloc(1, sizeof *s);
    LK_ASSERT(s != NULL);
    atomic_init(&s->refs, 1);
    s->env = *env;
    s->options = *options;
    lk_buf_append_bytes(&s->instance_id, options->instance_id);
    s->options.instance_id = lk_buf_view(&s->instance_id);
    s->known_version = lk_dataset_version(base);
    lk_buf_append_bytes(&s->known_as, lk_dataset_manifest(base)->transaction_file);
    s->shard = lk_shard_of_instance(s->options.instance_id);
    s->view = lk_rollout_view_new(&s->env, base);
    lk_mutex_init(&s->mutex, LK_RANK_ENGINE);
    lk_cond_init(&s->merged);
    const lk_rollout_writer_options writer = {.env = &s->env,
        .late = late,
        .forms = options->forms,
        .shard = s->shard,
        .log = options->log == LK_ROLLOUT_LOG_ALWAYS || options->deferred,
        .deferred = options->deferred,
        .flush_interval_ms = options->flush_interval_ms,
        .group_commit_us = options->group_commit_us,
        .ops = &writer_ops,
        .context = s};
    s->writer = lk_rollout_writer_new(&writer);
    return s;
}

static lk_rc check_options(const lk_rollout_options *options, lk_err *err)
{
    LK_ASSERT(options->instance_id.size > 0);
    if (options->deferred && options->flush_interval_ms == 0) {
        return lk_refuse(err, LK_E_INVALID_REQUEST,
            "deferred visibility needs a flush interval: rows would never be seen");
    }
    if (options->deferred && options->log == LK_ROLLOUT_LOG_NEVER) {
        return lk_refuse(
            err, LK_E_INVALID_REQUEST, "deferred visibility rests on log entries, which are switched off");
    }
    return LK_OK;
}

static lk_rc is_marked(const lk_lance_env *env, bool *marked, lk_err *err)
{
    uint64_t size = 0;
    return lk_store_look(env->store, LK_LITERAL(LK_ROLLOUT_REMOVED_MARK), marked, &size, err);
}

lk_rc lk_rollout_store_create(const lk_lance_env *env, lk_store *late, const lk_rollout_options *options,
    lk_rollout_store **out, lk_err *err)
{
    lk_dataset *base = NULL;
    bool        marked = false;
    lk_rc       rc = check_options(options, err);
    if (rc == LK_OK) {
        rc = is_marked(env, &marked, err);
    }
    if (rc == LK_OK && marked) {
        rc = lk_refuse(err, LK_E_TABLE_EXISTS,
            "a rollout store of this name is being removed; should that have been stopped, remove it again");
    }
    if (rc != LK_OK) {
        return rc;
    }
    rc = lk_base_table_create(env, !options->older_columns, &base, err);
    if (rc == LK_OK) {
        *out = new_store(env, late, options, base);
    }
    lk_dataset_unref(base);
    return rc;
}

typedef struct opening {
    const lk_lance_env *env;
    lk_dataset         *base;
    lk_rollout_outlook  outlook;
} opening;

enum { OPEN_MARK, OPEN_TABLE, OPEN_SHARDS, OPEN_PARTS };

/* Whether it is being removed; the table; and, where that takes long, where its shards are likely to be. */
static lk_rc open_part(void *context, size_t part, lk_err *err)
{
    opening *o = context;
    lk_err   ignored = {0};
    if (part == OPEN_TABLE) {
        return lk_base_table_open(o->env, &o->base, err);
    }
    if (part == OPEN_MARK) {
        bool  marked = false;
        lk_rc rc = is_marked(o->env, &marked, err);
        return rc == LK_OK && marked ? lk_fail(err, LK_E_NOT_FOUND, "it is being removed") : rc;
    }
    if (lk_rollout_look_out(o->env, &o->outlook, &ignored) != LK_OK) {
        o->outlook =
            (lk_rollout_outlook){0}; /* the first snapshot looks for itself, and says what is wrong */
    }
    return LK_OK;
}

/* The mark goes last, so who looks for it after the table may miss both. Far away they are asked for at once: a removal takes
 * longer than one answer. */
static lk_rc open_parts(opening *o, lk_err *err)
{
    if (o->env->store->far) {
        return lk_each(o->env->pool, OPEN_PARTS, open_part, o, err);
    }
    lk_rc rc = open_part(o, OPEN_MARK, err);
    return rc == LK_OK ? open_part(o, OPEN_TABLE, err) : rc;
}

lk_rc lk_rollout_store_open(const lk_lance_env *env, lk_store *late, const lk_rollout_options *options,
    lk_rollout_store **out, lk_err *err)
{
    opening o = {.env = env};
    lk_rc   rc = check_options(options, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = open_parts(&o, err);
    if (rc == LK_OK) {
        *out = new_store(env, late, options, o.base);
        lk_rollout_view_expect((*out)->view, &o.outlook);
    }
    lk_rollout_outlook_deinit(&o.outlook);
    lk_dataset_unref(o.base);
    return rc;
}

lk_rollout_store *lk_rollout_store_ref(lk_rollout_store *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void lk_rollout_store_unref(lk_rollout_store *s)
{
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) > 1) {
        return;
    }
    const lk_rollout_keeper keeper = s->options.keeper;
    LK_ASSERT(!s->merging);
    lk_rollout_writer_free(s->writer);
    lk_rollout_snapshot_unref(s->admitted);
    lk_rollout_view_free(s->view);
    lk_cond_deinit(&s->merged);
    lk_mutex_deinit(&s->mutex);
    lk_buf_deinit(&s->instance_id);
    lk_buf_deinit(&s->known_as);
    free(s);
    if (keeper.released != NULL) {
        keeper.released(keeper.context);
    }
}

bool lk_rollout_store_is_idle(const lk_rollout_store *s)
{
    return atomic_load(&s->refs) == 1;
}

/* Old versions are removed some day, so the table is known by a newer one: of a snapshot from before it was seen to be there. */
static void know_by(lk_rollout_store *s, const lk_rollout_snapshot *last)
{
    lk_mutex_lock(&s->mutex);
    if (last != NULL && lk_dataset_version(last->base) > s->known_version) {
        s->known_version = lk_dataset_version(last->base);
        lk_buf_clear(&s->known_as);
        lk_buf_append_bytes(&s->known_as, lk_dataset_manifest(last->base)->transaction_file);
    }
    lk_mutex_unlock(&s->mutex);
}

lk_rc lk_rollout_store_is_present(lk_rollout_store *s, bool *present, lk_err *err)
{
    lk_dataset          *base = NULL;
    lk_err               looking = {0};
    bool                 marked = false;
    lk_buf               known_as = {0};
    lk_rollout_snapshot *last = lk_rollout_view_last(s->view);
    lk_mutex_lock(&s->mutex);
    uint64_t known_version = s->known_version;
    lk_buf_append_bytes(&known_as, lk_buf_view(&s->known_as));
    lk_mutex_unlock(&s->mutex);
    lk_rc rc = is_marked(&s->env, &marked, &looking);
    if (rc == LK_OK) {
        rc = lk_dataset_open(&s->env, known_version, &base, &looking);
    }
    *present = rc == LK_OK && !marked &&
               lk_bytes_equal(lk_dataset_manifest(base)->transaction_file, lk_buf_view(&known_as));
    if (*present) {
        know_by(s, last);
    }
    lk_buf_deinit(&known_as);
    lk_rollout_snapshot_unref(last);
    lk_dataset_unref(base);
    if (rc != LK_OK && rc != LK_E_NOT_FOUND) {
        *err = looking;
        return rc;
    }
    return LK_OK;
}

lk_uuid lk_rollout_store_shard(const lk_rollout_store *s)
{
    return s->shard;
}

bool lk_rollout_store_is_far(const lk_rollout_store *s)
{
    return s->env.store->far;
}

/* -- merging ------------------------------------------------------------------------------------------------------------ */

/* false: another one runs, and was not waited for. */
static bool begin_merge(lk_rollout_store *s, bool waits)
{
    lk_mutex_lock(&s->mutex);
    while (s->merging && waits) {
        lk_cond_wait(&s->merged, &s->mutex);
    }
    bool begins = !s->merging;
    s->merging = true;
    lk_mutex_unlock(&s->mutex);
    return begins;
}

static void end_merge(lk_rollout_store *s, lk_rc rc, const lk_rollout_merge_report *report)
{
    lk_mutex_lock(&s->mutex);
    s->merging = false;
    s->stats.merges += rc == LK_OK && report->generations > 0;
    s->stats.merge_failures += rc != LK_OK;
    s->stats.merged_generations += report->generations;
    s->stats.merged_rows += rc == LK_OK ? report->rows : 0;
    lk_cond_broadcast(&s->merged);
    lk_mutex_unlock(&s->mutex);
    if (report->generations > 0 && s->options.keeper.merged != NULL) {
        s->options.keeper.merged(s->options.keeper.context, s);
    }
}

lk_rc lk_rollout_store_merge(lk_rollout_store *s, const lk_rollout_merge_options *options,
    lk_rollout_merge_report *report, lk_err *err)
{
    *report = (lk_rollout_merge_report){0};
    if (!begin_merge(s, false)) {
        return lk_refuse(err, LK_E_CONFLICT, "another merge is running");
    }
    lk_rollout_merge_options with = *options;
    with.late = s->options.merge_late;
    lk_rc rc = lk_rollout_merge(&s->env, s->view, s->writer, s->shard, &with, report, err);
    end_merge(s, rc, report);
    return rc;
}

lk_rc lk_rollout_store_claim(lk_rollout_store *s, lk_err *err)
{
    return lk_rollout_writer_commit(s->writer, NULL, NULL, err);
}

static uint64_t pending_of(lk_rollout_store *s)
{
    lk_rollout_writer_stats writer;
    lk_rollout_writer_read_stats(s->writer, &writer);
    return writer.pending_generations;
}

/* All that is pending, unless another add's merge did that meanwhile. waits: for one that runs. */
static void merge_here(lk_rollout_store *s, uint64_t least, bool waits)
{
    const lk_rollout_merge_options all = {.late = s->options.merge_late};
    lk_rollout_merge_report        report = {0};
    lk_err                         ignored = {0};
    if (begin_merge(s, waits)) {
        lk_rc rc = pending_of(s) < least
                       ? LK_OK
                       : lk_rollout_merge(&s->env, s->view, s->writer, s->shard, &all, &report, &ignored);
        end_merge(s, rc, &report); /* counted; the next add tries again */
    }
}

/*
 * The rows of the add that sets it off are durable already: what becomes of the merge is no concern of theirs. When merges
 * in the background do not keep up, adds wait for them and help.
 */
static void merge_if_due(lk_rollout_store *s)
{
    enum { BEHIND = 4 };
    uint64_t least = s->options.merge_after;
    if (least == 0 || pending_of(s) < least) {
        return;
    }
    if (s->options.keeper.merge_due == NULL) {
        merge_here(s, least, false);
    } else if (pending_of(s) < BEHIND * least) {
        s->options.keeper.merge_due(s->options.keeper.context, s);
    } else {
        merge_here(s, BEHIND * least, true);
    }
}

/* -- adds and reads ------------------------------------------------------------------------------------------------------ */

/* Before the first add: a table that others made may lack the index. */
static lk_rc ensure_index(lk_rollout_store *s, lk_err *err)
{
    lk_dataset *base = NULL;
    if (atomic_load(&s->indexed)) {
        return LK_OK;
    }
    lk_rc rc = lk_base_table_open(&s->env, &base, err);
    if (rc == LK_OK) {
        rc = lk_base_table_writable(lk_dataset_schema(base), err);
    }
    if (rc == LK_OK) {
        rc = lk_base_table_index(&base, err);
    }
    atomic_store(&s->indexed, rc == LK_OK);
    lk_dataset_unref(base);
    return rc;
}

lk_rc lk_rollout_submissions_init(lk_rollout_submission *const *submissions, const size_t *counts,
    size_t count, lk_records *records, bool payloads_due, lk_err *err)
{
    struct ArrowArray batch = {0};
    size_t            row = 0;
    lk_rc             rc = lk_records_finish(records, payloads_due, &batch, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_shared_array *shared = lk_array_share(&batch);
    for (size_t i = 0; i < count; i++) {
        lk_rollout_submission *one = submissions[i];
        bool                  *has_time = calloc(counts[i] + 1, sizeof *has_time);
        LK_ASSERT(has_time != NULL);
        *one = (lk_rollout_submission){.has_time = has_time};
        one->request =
            (lk_rollout_request){lk_shared_array_ref(shared), has_time, (int64_t)row, (int64_t)counts[i]};
        for (size_t j = 0; j < counts[i]; j++) {
            has_time[j] = lk_records_has_time(records, row++);
        }
    }
    lk_shared_array_unref(shared);
    return LK_OK;
}

lk_rc lk_rollout_submission_init(
    lk_rollout_submission *out, lk_records *records, bool payloads_due, lk_err *err)
{
    size_t count = lk_records_count(records);
    *out = (lk_rollout_submission){0};
    return lk_rollout_submissions_init(&out, &count, 1, records, payloads_due, err);
}

void lk_rollout_submission_deinit(lk_rollout_submission *submission)
{
    lk_shared_array_unref(submission->request.records);
    free(submission->has_time);
    *submission = (lk_rollout_submission){0};
}

void lk_rollout_store_submit(lk_rollout_store *s, lk_rollout_submission *submissions, uint64_t *base_version)
{
    const lk_rollout_keeper *keeper = &s->options.keeper;
    lk_err                   err = {0};
    lk_rc                    rc = ensure_index(s, &err);
    bool                     added = false;
    if (rc == LK_OK && keeper->may_write != NULL) {
        rc = keeper->may_write(keeper->context, &err);
    }
    for (lk_rollout_submission *one = submissions; one != NULL; one = one->next) {
        one->rc = rc;
        one->err = err;
        one->add =
            (lk_rollout_add){.what = &one->request, .next = one->next == NULL ? NULL : &one->next->add};
    }
    if (rc == LK_OK) {
        lk_rollout_writer_add_all(s->writer, &submissions->add);
        for (lk_rollout_submission *one = submissions; one != NULL; one = one->next) {
            one->rc = one->add.rc;
            one->err = one->add.err;
            added = added || one->rc == LK_OK;
        }
    }
    if (added) {
        merge_if_due(s);
    }
    if (base_version != NULL) {
        *base_version = atomic_load(&s->base_version);
    }
}

lk_rc lk_rollout_store_add(
    lk_rollout_store *s, lk_records *records, bool payloads_due, uint64_t *base_version, lk_err *err)
{
    lk_rollout_submission one = {0};
    lk_rc                 rc = lk_rollout_submission_init(&one, records, payloads_due, err);
    if (rc == LK_OK) {
        lk_rollout_store_submit(s, &one, base_version);
        rc = one.rc;
        if (rc != LK_OK) {
            *err = one.err;
        }
    }
    lk_rollout_submission_deinit(&one);
    return rc;
}

lk_rc lk_rollout_store_flush(lk_rollout_store *s, lk_err *err)
{
    return s->options.deferred ? lk_rollout_writer_seal(s->writer, err) : LK_OK;
}

/* The shard with the most unmerged generations. */
static size_t most_pending(const lk_rollout_snapshot *snapshot, lk_uuid *shard)
{
    size_t most = 0, run = 0;
    for (size_t i = 0; i < snapshot->source_count; i++) { /* a shard's stand together */
        const lk_uuid *id = &snapshot->sources[i]->shard;
        run = i > 0 && memcmp(id, &snapshot->sources[i - 1]->shard, sizeof *id) == 0 ? run + 1 : 1;
        *shard = run > most ? *id : *shard;
        most = run > most ? run : most;
    }
    return most;
}

/* Many generations make every read slow: told once until they are merged, refused where the operator set a bound. */
static lk_rc guard(lk_rollout_store *s, const lk_rollout_snapshot *snapshot, lk_err *err)
{
    uint64_t warn = s->options.pending_warn, max = s->options.pending_max;
    lk_uuid  shard = {0};
    char     text[LK_UUID_TEXT_SIZE + 1];
    size_t   bound = warn == 0 || (max > 0 && max < warn) ? (size_t)max : (size_t)warn;
    size_t   pending = bound == 0 || snapshot->source_count < bound ? 0 : most_pending(snapshot, &shard);
    lk_uuid_format(shard, text);
    bool many = warn > 0 && pending >= warn;
    if (atomic_exchange(&s->told_pending, many) != many && many) {
        lk_log(LK_LOG_ROLLOUT_PENDING, LK_LOG_T("store", s->env.store->uri),
            LK_LOG_T("shard", lk_bytes_of(text)), LK_LOG_N("generations", pending));
    }
    if (max > 0 && pending > max) {
        return lk_refuse(err, LK_E_STORE_UNAVAILABLE,
            "shard %s has %zu unmerged generations, and this server reads no more than %" PRIu64
            "; merge it, or adopt it when its instance is gone",
            text, pending, max);
    }
    return LK_OK;
}

lk_rc lk_rollout_store_snapshot(
    lk_rollout_store *s, uint64_t base_version, lk_rollout_snapshot **out, lk_err *err)
{
    if (base_version != 0) {
        return lk_rollout_view_at(s->view, base_version, out, err);
    }
    lk_rollout_snapshot *snapshot = NULL;
    lk_rc                rc = lk_rollout_view_take(s->view, &snapshot, err);
    if (rc == LK_OK) {
        rc = guard(s, snapshot, err);
    }
    if (rc != LK_OK) {
        lk_rollout_snapshot_unref(snapshot);
        return rc;
    }
    *out = snapshot;
    return LK_OK;
}

void lk_rollout_store_read_stats(lk_rollout_store *s, lk_rollout_store_stats *out)
{
    lk_mutex_lock(&s->mutex);
    *out = s->stats;
    lk_mutex_unlock(&s->mutex);
    lk_rollout_writer_read_stats(s->writer, &out->writer);
    lk_rollout_view_count(s->view, &out->generations_wanted, &out->generations_loaded);
}
