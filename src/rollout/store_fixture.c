/* store_fixture.c - see store_fixture.h. */
#include "rollout/store_fixture.h"

#include "arrow/schema.h"
#include "base/file.h"
#include "io/local.h"
#include "rollout/base_table.h"
#include "rollout/cell.h"
#include "rollout/records_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

fixture_store fixture;

int fixture_open_store(void **state)
{
    lk_err err = {0};
    (void)snprintf(fixture.root, sizeof fixture.root, "%s/lake-rollout-XXXXXX", P_tmpdir);
    fixture.env = (lk_lance_env){.clock = lk_clock_real(), .random = lk_random_os()};
    if (mkdtemp(fixture.root) == NULL ||
        lk_local_store_open(&fixture.store, lk_bytes_of(fixture.root), false, &err) != LK_OK) {
        return -1;
    }
    fixture.env.store = fixture.store;
    if (lk_base_table_create(&fixture.env, true, &fixture.base, &err) != LK_OK) {
        return -1;
    }
    fixture.view = lk_rollout_view_new(&fixture.env, fixture.base);
    return 0;
}

int fixture_close_store(void **state)
{
    lk_err err = {0};
    lk_rollout_view_free(fixture.view);
    lk_dataset_unref(fixture.base);
    lk_store_close(fixture.store);
    return lk_directory_remove(fixture.root, &err) == LK_OK ? 0 : -1;
}

/* One line of JSON for each word. */
static void put_lines(const char *text, lk_buf *lines)
{
    while (*text != '\0') {
        size_t      size = strcspn(text, " ");
        const char *equals = memchr(text, '=', size);
        size_t      id_size = equals == NULL ? size : (size_t)(equals - text);
        lk_buf_format(lines, "{\"id\":\"%.*s\",\"rollout_id\":\"r\"", (int)id_size, text);
        if (equals != NULL) {
            lk_buf_format(lines, ",\"content\":\"%.*s\"", (int)(size - id_size - 1), equals + 1);
        }
        lk_buf_append_text(lines, "}\n");
        text += size + (text[size] == ' ');
    }
}

struct ArrowArray fixture_records(const char *text)
{
    lk_err             err = {0};
    lk_buf             lines = {0};
    lk_records        *r = NULL;
    struct ArrowArray  batch = {0}, aligned = {0};
    struct ArrowSchema schema = {0};
    if (*text == '{') {
        lk_buf_append_text(&lines, text);
    } else {
        put_lines(text, &lines);
    }
    assert_int_equal(lk_records_open(1, NULL, &r, &err), LK_OK);
    assert_int_equal(lk_records_read_ndjson(r, lk_buf_view(&lines), &err), LK_OK);
    assert_int_equal(lk_records_finish(r, false, &batch, &err), LK_OK);
    lk_record_schema(true, &schema);
    lk_shared_array *shared = lk_array_share(&batch);
    assert_int_equal(
        lk_base_table_align(lk_dataset_schema(fixture.base), &schema, shared, &aligned, &err), LK_OK);
    lk_shared_array_unref(shared);
    lk_schema_release(&schema);
    lk_records_close(r);
    lk_buf_deinit(&lines);
    return aligned;
}

lk_bytes fixture_id(const struct ArrowArray *batch, int64_t row)
{
    return lk_cell_text(batch->children[0], row);
}

/* Adds of these tests come one at a time. */
static lk_rc prepare(
    void *context, lk_rollout_add *adds, lk_arena *arena, lk_generation_rows *out, lk_err *err)
{
    struct ArrowArray batch = fixture_records(adds->what);
    lk_bytes         *ids = lk_arena_take(arena, (size_t)batch.length * sizeof *ids);
    *out = (lk_generation_rows){
        .schema = lk_dataset_schema(fixture.base), .row_count = (size_t)batch.length, .ids = ids};
    for (int64_t i = 0; i < batch.length; i++) {
        ids[i] = lk_arena_copy(arena, fixture_id(&batch, i));
    }
    lk_shared_array **batches = lk_arena_take(arena, sizeof(lk_shared_array *));
    batches[0] = lk_array_share(&batch);
    out->batches = batches;
    out->batch_count = 1;
    return LK_OK;
}

static lk_rc replay(void *context, lk_batches *entry, lk_arena *arena, lk_generation_rows *out, lk_err *err)
{
    return lk_fail(err, LK_E_INTERNAL, "no entry is left behind here");
}

static void flushed(void *context, const lk_shard_manifest *manifest, const lk_shard_generation *generation,
    const lk_generation_rows *rows)
{
}

static const lk_rollout_writer_ops ops = {prepare, replay, flushed, NULL};

lk_rollout_writer *fixture_writer(const char *instance)
{
    const lk_rollout_writer_options options = {
        .env = &fixture.env, .shard = lk_shard_of_instance(lk_bytes_of(instance)), .log = true, .ops = &ops};
    return lk_rollout_writer_new(&options);
}

void fixture_add(lk_rollout_writer *writer, const char *text)
{
    lk_err         err = {0};
    lk_rollout_add a = {.what = (void *)text};
    assert_int_equal(lk_rollout_writer_add(writer, &a, &err), LK_OK);
}

void fixture_append_to_base(const char *text)
{
    lk_err             err = {0};
    struct ArrowSchema schema = {0};
    struct ArrowArray  batch = fixture_records(text);
    lk_dataset        *tip = NULL, *next = NULL;
    assert_int_equal(lk_schema_copy(lk_dataset_schema(fixture.base), &schema, &err), LK_OK);
    lk_batches *rows = lk_batches_of(&schema, &batch, 1);
    assert_int_equal(lk_dataset_open(&fixture.env, 0, &tip, &err), LK_OK);
    assert_int_equal(lk_dataset_append(tip, lk_direct_committer(), rows, NULL, &next, &err), LK_OK);
    lk_batches_close(rows);
    lk_dataset_unref(tip);
    lk_dataset_unref(next);
}
