/* bind.c - see bind.h. Entries hang in hash chains and in one list by last use; an entry that is being opened is
 * in neither the byte count nor reach of eviction. */
#include "sql/bind.h"

#include <stdlib.h>

enum { BUCKETS = 4096, DEFAULT_BYTES_MAX = 256 * 1024 * 1024 };

typedef struct entry {
    struct entry      *chain;
    struct entry      *newer, *older; /* by last use; open entries only */
    lk_table_snapshot *snapshot;      /* NULL while opening */
    size_t             bytes;
    unsigned           waiting; /* threads that wait for the open */
    bool               failed;
    uint64_t           version;
    size_t             location_size, incarnation_size;
    char               text[]; /* location, incarnation */
} entry;

struct lk_bind {
    lk_engine        *engine;
    lk_catalog_cache *cache;
    size_t            bytes_max;
    lk_mutex          mutex; /* guards all below */
    lk_cond           opened;
    size_t            count, bytes;
    entry            *newest, *oldest;
    entry            *buckets[BUCKETS];
};

lk_bind *lk_bind_open(lk_engine *engine, lk_catalog_cache *cache, size_t bytes_max)
{
    lk_bind *bind = calloc(1, sizeof *bind);
    LK_ASSERT(bind != NULL);
    bind->engine = engine;
    bind->cache = cache;
    bind->bytes_max = bytes_max > 0 ? bytes_max : DEFAULT_BYTES_MAX;
    lk_mutex_init(&bind->mutex, LK_RANK_SQL);
    lk_cond_init(&bind->opened);
    return bind;
}

/* -- the table of entries (under the mutex) --------------------------------------------------------- */
static size_t bucket_of(const lk_bound_table *table)
{
    uint64_t hash = UINT64_C(14695981039346656037) ^ table->version; /* FNV-1a */
    for (size_t i = 0; i < table->location.size; i++) {
        hash = (hash ^ (unsigned char)table->location.data[i]) * UINT64_C(1099511628211);
    }
    return (hash ^ hash >> 32) % BUCKETS;
}

static bool same(const entry *e, const lk_bound_table *table)
{
    return e->version == table->version &&
           lk_bytes_equal((lk_bytes){e->text, e->location_size}, table->location) &&
           lk_bytes_equal((lk_bytes){e->text + e->location_size, e->incarnation_size}, table->incarnation);
}

static entry *find(lk_bind *bind, const lk_bound_table *table)
{
    entry *e = bind->buckets[bucket_of(table)];
    while (e != NULL && !same(e, table)) {
        e = e->chain;
    }
    return e;
}

static entry *add(lk_bind *bind, const lk_bound_table *table)
{
    entry *e = calloc(1, sizeof *e + table->location.size + table->incarnation.size);
    LK_ASSERT(e != NULL);
    e->version = table->version;
    e->location_size = table->location.size;
    e->incarnation_size = table->incarnation.size;
    memcpy(e->text, table->location.data, table->location.size);
    memcpy(e->text + table->location.size, table->incarnation.data, table->incarnation.size);
    entry **bucket = &bind->buckets[bucket_of(table)];
    e->chain = *bucket;
    *bucket = e;
    return e;
}

static void unchain(lk_bind *bind, entry *e)
{
    lk_bound_table key = {.location = {e->text, e->location_size}, .version = e->version};
    entry        **at = &bind->buckets[bucket_of(&key)];
    while (*at != e) {
        at = &(*at)->chain;
    }
    *at = e->chain;
}

static void unlink_use(lk_bind *bind, entry *e)
{
    *(e->newer != NULL ? &e->newer->older : &bind->newest) = e->older;
    *(e->older != NULL ? &e->older->newer : &bind->oldest) = e->newer;
    e->newer = e->older = NULL;
}

static void link_newest(lk_bind *bind, entry *e)
{
    e->older = bind->newest;
    *(e->older != NULL ? &e->older->newer : &bind->oldest) = e;
    bind->newest = e;
}

/* Takes entries out until the bounds hold; the caller frees the returned chain without the mutex. Stops at one
 * that a thread has not yet taken its reference of; the next open goes on. */
static entry *evict(lk_bind *bind)
{
    entry *out = NULL;
    while (bind->oldest != bind->newest && bind->oldest->waiting == 0 &&
           (bind->count > LK_BIND_ENTRIES_MAX || bind->bytes > bind->bytes_max)) {
        entry *e = bind->oldest;
        unlink_use(bind, e);
        unchain(bind, e);
        bind->count--;
        bind->bytes -= e->bytes;
        e->chain = out;
        out = e;
    }
    return out;
}

static void free_chain(entry *e)
{
    while (e != NULL) {
        entry *next = e->chain;
        lk_table_snapshot_unref(e->snapshot);
        free(e);
        e = next;
    }
}

void lk_bind_close(lk_bind *bind)
{
    if (bind == NULL) {
        return;
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        free_chain(bind->buckets[i]);
    }
    lk_cond_deinit(&bind->opened);
    lk_mutex_deinit(&bind->mutex);
    free(bind);
}

/* -- resolving ------------------------------------------------------------------------------------- */
static lk_rc check_version(const lk_sql_table *wanted, const lk_registration *now, lk_err *err)
{
    if (wanted->when == LK_SQL_REVISION && !lk_bytes_equal(wanted->incarnation, now->incarnation)) {
        return lk_fail(err, LK_E_REVISION_GONE, "the table was dropped and made again");
    }
    if (wanted->when != LK_SQL_CURRENT && (wanted->version == 0 || wanted->version > now->version)) {
        lk_rc rc = lk_fail(err, LK_E_SNAPSHOT_GONE, "version above the published one");
        lk_detail(err, "version %llu does not exist; the newest is %llu", (unsigned long long)wanted->version,
            (unsigned long long)now->version);
        return rc;
    }
    return LK_OK;
}

lk_rc lk_bind_resolve(
    lk_bind *bind, const lk_sql_table *table, lk_arena *arena, lk_bound_table *out, lk_err *err)
{
    lk_registration now = {0};
    lk_err          check = {0};
    if (lk_table_ref_check(table->table, &check) != LK_OK) {
        return lk_fail(err, LK_E_TABLE_NOT_FOUND, "no table can have this name");
    }
    lk_rc rc = lk_catalog_cache_resolve(bind->cache, table->table, arena, &now, err);
    if (rc == LK_OK) {
        rc = check_version(table, &now, err);
    }
    if (rc == LK_OK && !lk_bytes_equal(now.engine, bind->engine->kind)) {
        rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "table engine '%.*s'", LK_FMT(now.engine));
    }
    if (rc == LK_OK) {
        *out = (lk_bound_table){.table = now.table,
            .engine = now.engine,
            .location = now.location,
            .incarnation = now.incarnation,
            .version = table->when == LK_SQL_CURRENT ? now.version : table->version};
    }
    return rc;
}

/* -- pinning --------------------------------------------------------------------------------------- */

/* Waits for the thread that opens e. NULL: it failed, try yourself. */
static lk_table_snapshot *await(lk_bind *bind, entry *e)
{
    e->waiting++;
    while (e->snapshot == NULL && !e->failed) {
        lk_cond_wait(&bind->opened, &bind->mutex);
    }
    e->waiting--;
    lk_table_snapshot *snapshot = e->snapshot != NULL ? lk_table_snapshot_ref(e->snapshot) : NULL;
    if (e->failed && e->waiting == 0) {
        free(e); /* already out of its chain */
    }
    return snapshot;
}

static lk_rc open_entry(
    lk_bind *bind, entry *e, const lk_bound_table *table, lk_table_snapshot **out, lk_err *err)
{
    lk_table_snapshot *snapshot = NULL;
    lk_table_at        at = {table->location, table->incarnation, table->version};
    lk_rc              rc = bind->engine->ops->open(bind->engine, at, &snapshot, err);
    size_t             bytes = rc == LK_OK ? snapshot->ops->bytes(snapshot) : 0;

    lk_mutex_lock(&bind->mutex);
    entry *old = NULL;
    if (rc == LK_OK) {
        e->snapshot = lk_table_snapshot_ref(snapshot);
        e->bytes = bytes;
        bind->count++;
        bind->bytes += bytes;
        link_newest(bind, e);
        old = evict(bind);
        *out = snapshot;
    } else {
        unchain(bind, e);
        e->failed = true;
        old = e->waiting == 0 ? e : NULL;
        if (old != NULL) {
            old->chain = NULL;
        }
    }
    lk_cond_broadcast(&bind->opened);
    lk_mutex_unlock(&bind->mutex);
    free_chain(old);
    return rc;
}

lk_rc lk_bind_pin(lk_bind *bind, const lk_bound_table *table, lk_table_snapshot **out, lk_err *err)
{
    for (;;) {
        lk_mutex_lock(&bind->mutex);
        entry             *e = find(bind, table);
        bool               mine = e == NULL;
        lk_table_snapshot *snapshot = NULL;
        if (mine) {
            e = add(bind, table);
        } else if (e->snapshot != NULL) {
            unlink_use(bind, e);
            link_newest(bind, e);
            snapshot = lk_table_snapshot_ref(e->snapshot);
        } else {
            snapshot = await(bind, e);
        }
        lk_mutex_unlock(&bind->mutex);
        if (mine) {
            return open_entry(bind, e, table, out, err);
        }
        if (snapshot != NULL) {
            *out = snapshot;
            return LK_OK;
        }
    }
}
