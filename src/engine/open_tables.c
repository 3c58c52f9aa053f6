/* open_tables.c - see open_tables.h. A few hundred entries: a scan over their hashes is a microsecond. */
#include "engine/open_tables.h"

#include "base/limits.h"
#include "lance/file_cache.h"

#include <stdlib.h>

typedef struct entry {
    uint64_t        hash; /* of the location; 0 with dataset NULL: free */
    lk_buf          key;  /* location, NUL, incarnation */
    size_t          location_size;
    uint64_t        version, used;
    size_t          bytes; /* of the dataset when it came in */
    lk_dataset     *dataset;
    lk_table_files *files;
} entry;

struct lk_open_tables {
    lk_mutex mutex;
    entry    entries[LK_ENGINE_OPEN_MAX]; /* guarded by mutex */
    size_t   count;                       /* slots ever used */
    uint64_t tick;
    size_t   bytes; /* of all entries */
};

lk_table_files *lk_table_files_new(lk_store *store, const lk_lance_env *env)
{
    lk_table_files *files = calloc(1, sizeof *files);
    LK_ASSERT(files != NULL);
    atomic_init(&files->refs, 1);
    atomic_init(&files->settled, 0);
    files->store = store;
    files->env = *env;
    files->env.store = store;
    files->env.files = lk_file_cache_new(store, env->budget, env->open_files);
    return files;
}

lk_table_files *lk_table_files_ref(lk_table_files *files)
{
    /* Relaxed: the caller holds a reference, so the object cannot be on its way out. */
    unsigned before = atomic_fetch_add_explicit(&files->refs, 1, memory_order_relaxed);
    LK_ASSERT(before > 0);
    return files;
}

void lk_table_files_unref(lk_table_files *files)
{
    if (files == NULL) {
        return;
    }
    unsigned before = atomic_fetch_sub_explicit(&files->refs, 1, memory_order_acq_rel);
    LK_ASSERT(before > 0);
    if (before == 1) {
        lk_file_cache_unref(files->env.files);
        lk_store_close(files->store);
        free(files);
    }
}

lk_open_tables *lk_open_tables_new(void)
{
    lk_open_tables *tables = calloc(1, sizeof *tables);
    LK_ASSERT(tables != NULL);
    lk_mutex_init(&tables->mutex, LK_RANK_ENGINE);
    return tables;
}

/* Moves what the entry held out, to be let go without the mutex: closing a dataset closes files. */
typedef struct released {
    lk_dataset     *dataset;
    lk_table_files *files;
} released;

static released clear(lk_open_tables *tables, entry *e)
{
    released out = {e->dataset, e->files};
    tables->bytes -= e->bytes;
    lk_buf_deinit(&e->key);
    *e = (entry){0};
    return out;
}

static void let_go(released r)
{
    lk_dataset_unref(r.dataset);
    lk_table_files_unref(r.files);
}

void lk_open_tables_free(lk_open_tables *tables)
{
    if (tables == NULL) {
        return;
    }
    for (size_t i = 0; i < tables->count; i++) {
        let_go(clear(tables, &tables->entries[i]));
    }
    lk_mutex_deinit(&tables->mutex);
    free(tables);
}

static uint64_t hash_location(lk_bytes location)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < location.size; i++) {
        hash = (hash ^ (uint8_t)location.data[i]) * 0x100000001b3u; /* FNV-1a */
    }
    return hash;
}

static bool is_of(const entry *e, uint64_t hash, lk_bytes location)
{
    return e->dataset != NULL && e->hash == hash &&
           lk_bytes_equal((lk_bytes){e->key.data, e->location_size}, location);
}

static bool has_incarnation(const entry *e, lk_bytes incarnation)
{
    size_t skip = e->location_size + 1;
    return lk_bytes_equal((lk_bytes){e->key.data + skip, e->key.size - skip}, incarnation);
}

bool lk_open_tables_find(lk_open_tables *tables, lk_bytes location, lk_bytes incarnation, uint64_t version,
    lk_dataset **dataset, lk_table_files **files)
{
    uint64_t hash = hash_location(location);
    *dataset = NULL;
    *files = NULL;
    lk_mutex_lock(&tables->mutex);
    for (size_t i = 0; i < tables->count && *dataset == NULL; i++) {
        entry *e = &tables->entries[i];
        if (!is_of(e, hash, location)) {
            continue;
        }
        if (*files == NULL) {
            *files = lk_table_files_ref(e->files);
        }
        if (e->version == version && has_incarnation(e, incarnation)) {
            *dataset = lk_dataset_ref(e->dataset);
            e->used = ++tables->tick;
        }
    }
    lk_mutex_unlock(&tables->mutex);
    return *dataset != NULL;
}

/* The slot to fill: a free one, the version before last of the same table, or the least recently used. */
static entry *choose(lk_open_tables *tables, uint64_t hash, lk_bytes location, uint64_t version)
{
    entry *oldest = NULL;
    for (size_t i = 0; i < tables->count; i++) {
        entry *e = &tables->entries[i];
        if (e->dataset == NULL || (is_of(e, hash, location) && e->version + 1 < version)) {
            return e;
        }
        if (oldest == NULL || e->used < oldest->used) {
            oldest = e;
        }
    }
    return tables->count < LK_ENGINE_OPEN_MAX ? &tables->entries[tables->count++] : oldest;
}

/* While all entries together hold too much, the least recently used goes; but never the last. */
static bool shed(lk_open_tables *tables)
{
    entry   *oldest = NULL;
    released out = {0};
    size_t   held = 0;
    lk_mutex_lock(&tables->mutex);
    for (size_t i = 0; tables->bytes > LK_ENGINE_OPEN_BYTES_MAX && i < tables->count; i++) {
        entry *e = &tables->entries[i];
        held += e->dataset != NULL;
        if (e->dataset != NULL && (oldest == NULL || e->used < oldest->used)) {
            oldest = e;
        }
    }
    if (held > 1) {
        out = clear(tables, oldest);
    }
    lk_mutex_unlock(&tables->mutex);
    let_go(out);
    return held > 1;
}

void lk_open_tables_add(lk_open_tables *tables, lk_bytes location, lk_bytes incarnation, uint64_t version,
    lk_dataset *dataset, lk_table_files *files)
{
    uint64_t hash = hash_location(location);
    size_t   bytes = lk_dataset_bytes(dataset);
    released out = {0};
    lk_mutex_lock(&tables->mutex);
    bool present = false;
    for (size_t i = 0; i < tables->count && !present; i++) {
        const entry *e = &tables->entries[i];
        present = is_of(e, hash, location) && e->version == version && has_incarnation(e, incarnation);
    }
    if (!present) {
        entry *e = choose(tables, hash, location, version);
        out = clear(tables, e);
        e->hash = hash;
        e->location_size = location.size;
        lk_buf_append_bytes(&e->key, location);
        lk_buf_append_zeros(&e->key, 1);
        lk_buf_append_bytes(&e->key, incarnation);
        e->version = version;
        e->used = ++tables->tick;
        e->bytes = bytes;
        tables->bytes += bytes;
        e->dataset = lk_dataset_ref(dataset);
        e->files = lk_table_files_ref(files);
    }
    lk_mutex_unlock(&tables->mutex);
    let_go(out);
    while (shed(tables)) {}
}

void lk_open_tables_forget(lk_open_tables *tables, lk_bytes location)
{
    uint64_t hash = hash_location(location);
    for (bool more = true; more;) {
        released out = {0};
        more = false;
        lk_mutex_lock(&tables->mutex);
        for (size_t i = 0; i < tables->count && !more; i++) {
            if (is_of(&tables->entries[i], hash, location)) {
                out = clear(tables, &tables->entries[i]);
                more = true;
            }
        }
        lk_mutex_unlock(&tables->mutex);
        let_go(out);
    }
}
