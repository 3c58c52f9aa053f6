/*
 * fuzz_rollout_store.c - a whole store as others may have written it: its table, its shards' manifests, hints and log entries,
 * its generations. Opened, listed, payloads read; then claimed, which replays the log, and merged; then listed again.
 *
 * The input is a row of objects: u8 size of the key, key, u32 size of the bytes (little-endian), bytes.
 */
#include "rollout/query.h"
#include "rollout/store.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OBJECTS_MAX = 200 };

typedef struct object {
    lk_buf key, bytes;
} object;

typedef struct bucket {
    lk_store base;
    object   objects[OBJECTS_MAX];
    size_t   count;
} bucket;

typedef struct bucket_reader {
    lk_store_reader base;
    const object   *of;
} bucket_reader;

typedef struct bucket_writer {
    lk_store_writer base;
    lk_buf          key, bytes;
} bucket_writer;

static object *find(bucket *b, lk_bytes key)
{
    for (size_t i = 0; i < b->count; i++) {
        if (lk_bytes_equal(lk_buf_view(&b->objects[i].key), key)) {
            return &b->objects[i];
        }
    }
    return NULL;
}

static lk_rc put(bucket *b, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    if (b->count == OBJECTS_MAX) {
        return lk_fail(err, LK_E_STORE_FULL, "%d objects", OBJECTS_MAX);
    }
    object *made = &b->objects[b->count++];
    lk_buf_append_bytes(&made->key, key);
    lk_buf_append_bytes(&made->bytes, bytes);
    return LK_OK;
}

static lk_rc bucket_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    const object *found = find((bucket *)store, key);
    if (found == NULL) {
        return lk_fail(err, LK_E_NOT_FOUND, "%.*s", LK_FMT(key));
    }
    bucket_reader *reader = calloc(1, sizeof *reader);
    LK_ASSERT(reader != NULL);
    *reader = (bucket_reader){{store}, found};
    *size = found->bytes.size;
    *out = &reader->base;
    return LK_OK;
}

static lk_rc bucket_read(lk_store_reader *base, const lk_store_range *ranges, size_t count, lk_err *err)
{
    lk_bytes bytes = lk_buf_view(&((const bucket_reader *)base)->of->bytes);
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].offset > bytes.size || ranges[i].size > bytes.size - ranges[i].offset) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "past the end");
        }
        memcpy(ranges[i].out, bytes.data + ranges[i].offset, ranges[i].size);
    }
    return LK_OK;
}

static void bucket_reader_close(lk_store_reader *base)
{
    free(base);
}

static lk_rc bucket_create(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    (void)err;
    bucket_writer *writer = calloc(1, sizeof *writer);
    LK_ASSERT(writer != NULL);
    writer->base.store = store;
    lk_buf_append_bytes(&writer->key, key);
    *out = &writer->base;
    return LK_OK;
}

static lk_rc bucket_write(lk_store_writer *base, const void *data, size_t size, lk_err *err)
{
    (void)err;
    lk_buf_append(&((bucket_writer *)base)->bytes, data, size);
    return LK_OK;
}

static void bucket_abandon(lk_store_writer *base)
{
    bucket_writer *writer = (bucket_writer *)base;
    lk_buf_deinit(&writer->key);
    lk_buf_deinit(&writer->bytes);
    free(writer);
}

static lk_rc bucket_put(lk_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    *created = find((bucket *)store, key) == NULL;
    return *created ? put((bucket *)store, key, bytes, err) : LK_OK;
}

static lk_rc bucket_finish(lk_store_writer *base, lk_err *err)
{
    bucket_writer *writer = (bucket_writer *)base;
    bool           created = false;
    lk_rc rc = bucket_put(base->store, lk_buf_view(&writer->key), lk_buf_view(&writer->bytes), &created, err);
    if (rc == LK_OK && !created) {
        rc = lk_fail(err, LK_E_CONFLICT, "it is there");
    }
    bucket_abandon(base);
    return rc;
}

static lk_rc bucket_replace(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    object *found = find((bucket *)store, key);
    if (found == NULL) {
        return put((bucket *)store, key, bytes, err);
    }
    lk_buf_clear(&found->bytes);
    lk_buf_append_bytes(&found->bytes, bytes);
    return LK_OK;
}

static bool listed(const lk_store_entry *entries, size_t count, lk_bytes name)
{
    for (size_t i = 0; i < count; i++) {
        if (lk_bytes_equal(entries[i].name, name)) {
            return true;
        }
    }
    return false;
}

static lk_rc bucket_list(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    const bucket *b = (const bucket *)store;
    (void)err;
    *entries = lk_arena_take(arena, (b->count + 1) * sizeof **entries);
    *count = 0;
    for (size_t i = 0; i < b->count; i++) {
        lk_bytes key = lk_buf_view(&b->objects[i].key);
        size_t   skip = directory.size + (directory.size > 0);
        bool     below = lk_bytes_starts(key, directory) && key.size > skip &&
                     (directory.size == 0 || key.data[directory.size] == '/');
        if (!below) {
            continue;
        }
        lk_bytes    rest = {key.data + skip, key.size - skip};
        const char *slash = memchr(rest.data, '/', rest.size);
        lk_bytes    name = {rest.data, slash == NULL ? rest.size : (size_t)(slash - rest.data)};
        if (name.size > 0 && !listed(*entries, *count, name)) {
            (*entries)[(*count)++] = (lk_store_entry){.name = lk_arena_copy(arena, name),
                .is_directory = slash != NULL,
                .size = b->objects[i].bytes.size};
        }
    }
    return LK_OK;
}

static lk_rc bucket_remove(lk_store *store, lk_bytes key, lk_err *err)
{
    object *found = find((bucket *)store, key);
    (void)err;
    if (found != NULL) { /* nobody has it open who reads it */
        lk_buf_clear(&found->key);
        lk_buf_append_text(&found->key, ".gone");
    }
    return LK_OK;
}

static lk_rc bucket_remove_tree(lk_store *store, lk_bytes directory, lk_err *err)
{
    (void)store;
    (void)directory;
    (void)err;
    return LK_OK;
}

static void bucket_close(lk_store *store)
{
    (void)store;
}

static const struct lk_store_ops ops = {
    .open = bucket_open,
    .read = bucket_read,
    .reader_close = bucket_reader_close,
    .create = bucket_create,
    .write = bucket_write,
    .finish = bucket_finish,
    .abandon = bucket_abandon,
    .put_if_absent = bucket_put,
    .list = bucket_list,
    .replace = bucket_replace,
    .remove = bucket_remove,
    .remove_tree = bucket_remove_tree,
    .close = bucket_close,
};

static void unpack(const uint8_t *data, size_t size, bucket *b)
{
    while (size > 0 && b->count < OBJECTS_MAX / 2) {
        size_t key_size = data[0];
        lk_err err = {0};
        if (size < 1 + key_size + 4 ||
            lk_store_key_check((lk_bytes){(const char *)data + 1, key_size}, &err) != LK_OK) {
            return;
        }
        uint32_t bytes_size = lk_load_u32(data + 1 + key_size);
        size_t   left = size - 1 - key_size - 4, taken = bytes_size < left ? bytes_size : left;
        if (put(b, (lk_bytes){(const char *)data + 1, key_size},
                (lk_bytes){(const char *)data + 5 + key_size, taken}, &err) != LK_OK) {
            return;
        }
        data += 5 + key_size + taken;
        size = left - taken;
    }
}

static void read_payload(lk_rollout_snapshot *snapshot, lk_bytes id)
{
    lk_err           err = {0};
    lk_rollout_blob *blob = NULL;
    bool             found = false;
    char             some[64];
    if (lk_rollout_blob_open(snapshot, id, NULL, &blob, &found, &err) == LK_OK && found &&
        !lk_rollout_blob_is_null(blob)) {
        uint64_t size = lk_rollout_blob_size(blob), left = size - size / 2;
        lk_rc rc = lk_rollout_blob_read(blob, size / 2, some, left < sizeof some ? left : sizeof some, &err);
        (void)rc;
    }
    lk_rollout_blob_close(blob);
}

/* Every column of every row, and payloads. */
static void read_all(lk_rollout_store *store)
{
    const lk_rollout_query query = {.limit = UINT64_MAX};
    lk_err                 err = {0};
    lk_rollout_snapshot   *snapshot = NULL;
    lk_batches            *rows = NULL;
    if (lk_rollout_store_snapshot(store, 0, &snapshot, &err) == LK_OK &&
        lk_rollout_query_open(snapshot, &query, &rows, &err) == LK_OK) {
        for (bool more = true; more;) {
            struct ArrowArray batch = {0};
            more = lk_batches_next(rows, &batch, &err) == LK_OK && batch.release != NULL;
            lk_array_release(&batch);
        }
    }
    lk_batches_close(rows);
    if (snapshot != NULL) {
        read_payload(snapshot, LK_LITERAL("a"));
        read_payload(snapshot, LK_LITERAL("b"));
    }
    lk_rollout_snapshot_unref(snapshot);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bucket                         b = {.base = {.ops = &ops, .uri = LK_LITERAL("fuzz")}};
    lk_budget                      budget;
    lk_err                         err = {0};
    lk_rollout_store              *store = NULL;
    lk_rollout_merge_report        report;
    lk_seeded_random               random;
    const lk_rollout_merge_options all = {0};
    const lk_rollout_options options = {.instance_id = LK_LITERAL("default"), .log = LK_ROLLOUT_LOG_ALWAYS};
    lk_seeded_random_init(&random, 1);
    lk_budget_init(&budget, "fuzz", 256 << 20, NULL);
    const lk_lance_env env = {
        .store = &b.base, .clock = lk_clock_real(), .random = &random.base, .budget = &budget};
    unpack(data, size, &b);
    if (lk_rollout_store_open(&env, NULL, &options, &store, &err) == LK_OK) {
        read_all(store);
        if (lk_rollout_store_merge(store, &all, &report, &err) == LK_OK) {
            read_all(store);
        }
    }
    lk_rollout_store_unref(store);
    for (size_t i = 0; i < b.count; i++) {
        lk_buf_deinit(&b.objects[i].key);
        lk_buf_deinit(&b.objects[i].bytes);
    }
    LK_ASSERT(budget.used_bytes == 0);
    return 0;
}
