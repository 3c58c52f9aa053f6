/* table_fixture.c - see table_fixture.h. */
#include "lance/table_fixture.h"

#include "arrow/schema.h"
#include "base/file.h"
#include "io/local.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static lk_store *open_store(const char *path)
{
    lk_err    err = {0};
    lk_store *store = NULL;
    if (lk_local_store_open(&store, lk_bytes_of(path), false, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    return store;
}

lk_store *fixture_golden(const char *name)
{
    char path[1024];
    (void)snprintf(path, sizeof path, LK_SOURCE_DIR "/tests/golden/lance/%s.lance", name);
    return open_store(path);
}

lk_store *fixture_scratch_open(fixture_scratch *scratch)
{
    const char *base = P_tmpdir;
    (void)snprintf(scratch->path, sizeof scratch->path, "%s/lake-lance-XXXXXX", base);
    assert_non_null(mkdtemp(scratch->path));
    return open_store(scratch->path);
}

lk_store *fixture_scratch_reopen(fixture_scratch *scratch)
{
    return open_store(scratch->path);
}

void fixture_scratch_remove(fixture_scratch *scratch)
{
    lk_err err = {0};
    assert_int_equal(lk_directory_remove(scratch->path, &err), LK_OK);
}

lk_lance_env fixture_env(lk_store *store)
{
    return (lk_lance_env){.store = store, .clock = lk_clock_real(), .random = lk_random_os()};
}

void fixture_schema(struct ArrowSchema *out)
{
    lk_err err = {0};
    lk_schema_start(out, 2);
    assert_int_equal(lk_column_parse(LK_LITERAL("id:int64"), out->children[0], &err), LK_OK);
    assert_int_equal(lk_column_parse(LK_LITERAL("name:utf8?"), out->children[1], &err), LK_OK);
}

typedef struct counter {
    lk_batches base;
    int64_t    next_id, rows, batches;
} counter;

static lk_rc counter_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    (void)err;
    counter *self = (counter *)batches;
    memset(out, 0, sizeof *out);
    if (self->batches-- <= 0) {
        return LK_OK;
    }
    assert_int_equal(ArrowArrayInitFromSchema(out, &batches->schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(out), NANOARROW_OK);
    for (int64_t i = 0; i < self->rows; i++) {
        char    name[32];
        int64_t id = self->next_id++;
        (void)snprintf(name, sizeof name, "n%lld", (long long)id);
        assert_int_equal(ArrowArrayAppendInt(out->children[0], id), NANOARROW_OK);
        assert_int_equal(id % 5 == 3 ? ArrowArrayAppendNull(out->children[1], 1)
                                     : ArrowArrayAppendString(out->children[1], ArrowCharView(name)),
            NANOARROW_OK);
        assert_int_equal(ArrowArrayFinishElement(out), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(out, NULL), NANOARROW_OK);
    return LK_OK;
}

static void counter_close(lk_batches *batches)
{
    lk_schema_release(&batches->schema);
    free(batches);
}

lk_batches *fixture_rows(int64_t first, int64_t rows, int64_t batches)
{
    counter *self = calloc(1, sizeof *self);
    assert_non_null(self);
    self->base.next = counter_next;
    self->base.close = counter_close;
    fixture_schema(&self->base.schema);
    self->next_id = first;
    self->rows = rows;
    self->batches = batches;
    return &self->base;
}

lk_buf fixture_object(lk_store *store, const char *key)
{
    lk_err           err = {0};
    lk_buf           out = {0};
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    if (lk_store_open_object(store, lk_bytes_of(key), &reader, &size, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    lk_buf_append_zeros(&out, (size_t)size);
    lk_store_range range = {0, (size_t)size, out.data};
    assert_int_equal(size == 0 ? LK_OK : lk_store_read(reader, &range, 1, &err), LK_OK);
    lk_store_reader_close(reader);
    return out;
}

lk_dataset *fixture_open(const lk_lance_env *env, uint64_t version)
{
    lk_err      err = {0};
    lk_dataset *dataset = NULL;
    if (lk_dataset_open(env, version, &dataset, &err) != LK_OK) {
        fail_msg("open version %llu: %s", (unsigned long long)version, err.context);
    }
    return dataset;
}

void fixture_table(const lk_lance_env *env, int64_t first, int64_t rows, int64_t appends)
{
    struct ArrowSchema schema = {0};
    lk_err             err = {0};
    lk_dataset        *tip = NULL;
    fixture_schema(&schema);
    assert_int_equal(lk_dataset_create(env, lk_direct_committer(), &schema, NULL, &tip, &err), LK_OK);
    lk_schema_release(&schema);
    for (int64_t i = 0; i < appends; i++) {
        lk_dataset *next = NULL;
        lk_batches *source = fixture_rows(first + i * rows, rows, 1);
        assert_int_equal(lk_dataset_append(tip, lk_direct_committer(), source, NULL, &next, &err), LK_OK);
        lk_batches_close(source);
        lk_dataset_unref(tip);
        tip = next;
    }
    lk_dataset_unref(tip);
}

lk_buf fixture_ids(const lk_lance_env *env, uint64_t version)
{
    lk_err          err = {0};
    lk_buf          ids = {0};
    lk_batches     *scan = NULL;
    lk_dataset     *dataset = fixture_open(env, version);
    size_t          column = 0;
    lk_scan_options options = {.limit = UINT64_MAX, .columns = &column, .column_count = 1};
    if (lk_dataset_scan(dataset, &options, &scan, &err) != LK_OK) {
        fail_msg("scan: %s", err.context);
    }
    for (;;) {
        struct ArrowArray batch = {0};
        if (lk_batches_next(scan, &batch, &err) != LK_OK) {
            fail_msg("scan: %s", err.context);
        }
        if (batch.release == NULL) {
            break;
        }
        const struct ArrowArray *in = batch.children[0];
        lk_buf_append(&ids, (const int64_t *)in->buffers[1] + in->offset + batch.offset,
            (size_t)batch.length * sizeof(int64_t));
        lk_array_release(&batch);
    }
    lk_batches_close(scan);
    assert_int_equal(ids.size / sizeof(int64_t), lk_dataset_row_count(dataset));
    lk_dataset_unref(dataset);
    return ids;
}

size_t fixture_count(lk_store *store, const char *directory)
{
    lk_arena        arena = {0};
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    lk_err          err = {0};
    assert_int_equal(lk_store_list(store, lk_bytes_of(directory), &arena, &entries, &count, &err), LK_OK);
    lk_arena_close(&arena);
    return count;
}

static void copy_directory(lk_store *from, lk_store *to, const char *directory)
{
    lk_arena        arena = {0};
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    lk_err          err = {0};
    assert_int_equal(lk_store_list(from, lk_bytes_of(directory), &arena, &entries, &count, &err), LK_OK);
    for (size_t i = 0; i < count; i++) {
        bool     created = false;
        lk_bytes key = lk_arena_format(&arena, "%s/%.*s", directory, LK_FMT(entries[i].name));
        lk_buf   object = fixture_object(from, key.data);
        assert_int_equal(lk_store_put_if_absent(to, key, lk_buf_view(&object), &created, &err), LK_OK);
        lk_buf_deinit(&object);
    }
    lk_arena_close(&arena);
}

void fixture_copy(lk_store *from, lk_store *to)
{
    static const char *const directories[] = {
        "_versions", "_transactions", "_deletions", "_refs/tags", "data"};
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++) {
        copy_directory(from, to, directories[i]);
    }
}
