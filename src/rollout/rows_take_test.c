/* rows_take_test.c - generations whose lists are too large to be kept in memory: they are read as before, from the files. */
#include "arrow/schema.h"
#include "rollout/generation.h"
#include "rollout/query.h"
#include "rollout/records_json.h"
#include "rollout/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LARGE_ROWS = 3, TOKENS = 40000 };

static char
    *large; /* three records, r0 to r2, of TOKENS tokens each, the first of which is the record's number */

static int open_large(void **state)
{
    lk_buf text = {0};
    for (int row = 0; row < LARGE_ROWS; row++) {
        lk_buf_format(
            &text, "{\"id\":\"r%d\",\"rollout_id\":\"x\",\"reward\":%d,\"output_tokens\":[%d", row, row, row);
        for (int i = 1; i < TOKENS; i++) {
            lk_buf_format(&text, ",%d", i);
        }
        lk_buf_append_text(&text, "]}\n");
    }
    large = text.data;
    if (fixture_open_store(state) != 0) {
        return -1;
    }
    lk_rollout_writer *writer = fixture_writer("rollout-0");
    fixture_add(writer, large);
    fixture_add(writer, "{\"id\":\"r3\",\"rollout_id\":\"x\",\"output_tokens\":[3,4]}\n");
    lk_rollout_writer_free(writer);
    return 0;
}

static int close_large(void **state)
{
    free(large);
    return fixture_close_store(state);
}

static lk_rollout_snapshot *take(void)
{
    lk_err               err = {0};
    lk_rollout_snapshot *snapshot = NULL;
    if (lk_rollout_view_take(fixture.view, &snapshot, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    assert_int_equal(snapshot->source_count, 2);
    return snapshot;
}

/* The generation of the three. */
static lk_rollout_rows *large_of(const lk_rollout_snapshot *snapshot)
{
    size_t at = snapshot->sources[0]->count == LARGE_ROWS ? 0 : 1;
    assert_int_equal(snapshot->sources[1 - at]->left_out, 0);
    return snapshot->sources[at];
}

static void expect_left_out(const lk_rollout_rows *rows)
{
    int64_t                  at = lk_schema_find(rows->schema, LK_LITERAL("output_tokens"));
    const struct ArrowArray *tokens = lk_shared_array_get(rows->batch)->children[at];
    assert_true((rows->left_out >> at & 1) != 0);
    assert_true(rows->bytes < 64 * 1024);
    assert_in_range(rows->left_out_bytes, LARGE_ROWS * TOKENS * 4, LARGE_ROWS * TOKENS * 5);
    assert_int_equal(tokens->length, LARGE_ROWS);
    assert_int_equal(tokens->null_count, LARGE_ROWS);
}

/* Of each row of these columns the id's digit, and the first and the last token. */
static lk_rc list(lk_rollout_snapshot *snapshot, uint64_t columns, lk_buf *out, lk_err *err)
{
    lk_batches            *rows = NULL;
    struct ArrowArray      batch = {0};
    const lk_rollout_query query = {.order = LK_ROLLOUT_BY_ID, .columns = columns, .limit = UINT64_MAX};
    lk_rc                  rc = lk_rollout_query_open(snapshot, &query, &rows, err);
    for (bool more = rc == LK_OK; more;) {
        rc = lk_batches_next(rows, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        int64_t at = more ? lk_schema_find(&rows->schema, LK_LITERAL("output_tokens")) : -1;
        for (int64_t row = 0; more && row < batch.length; row++) {
            lk_buf_format(out, "%.*s", LK_FMT(fixture_id(&batch, row)));
            if (at >= 0) {
                const struct ArrowArray *lists = batch.children[at];
                const int32_t           *ends = (const int32_t *)lists->buffers[1] + lists->offset;
                const int32_t           *tokens =
                    (const int32_t *)lists->children[0]->buffers[1] + lists->children[0]->offset;
                lk_buf_format(out, ":%d-%d", (int)tokens[ends[row]], (int)tokens[ends[row + 1] - 1]);
            }
            lk_buf_append_text(out, " ");
        }
        if (more) {
            lk_array_release(&batch);
        }
    }
    lk_batches_close(rows);
    return rc;
}

static void expect(lk_rollout_snapshot *snapshot, uint64_t columns, const char *expected)
{
    lk_err err = {0};
    lk_buf out = {0};
    if (list(snapshot, columns, &out, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    assert_string_equal(out.data, expected);
    lk_buf_deinit(&out);
}

#define COLUMN(name) (UINT64_C(1) << LK_RECORD_COLUMN_##name)

static void lists_come_from_the_files_when_they_are_asked_for(void **state)
{
    lk_rollout_snapshot *snapshot = take();
    expect_left_out(large_of(snapshot));
    expect(snapshot, COLUMN(id) | COLUMN(output_tokens), "r0:0-39999 r1:1-39999 r2:2-39999 r3:3-4 ");
    expect(snapshot, 0, "r0:0-39999 r1:1-39999 r2:2-39999 r3:3-4 ");
    expect(snapshot, COLUMN(id) | COLUMN(reward), "r0 r1 r2 r3 ");
    lk_rollout_snapshot_unref(snapshot);
}

static void rows_are_found_whole_by_their_ids(void **state)
{
    lk_err               err = {0};
    lk_rollout_snapshot *snapshot = take();
    const lk_bytes       ids[] = {
              LK_LITERAL("r2"), LK_LITERAL("none"), LK_LITERAL("r3"), LK_LITERAL("r0"), LK_LITERAL("r1")};
    size_t             wanted[5], from[] = {0, 0, 0, 0};
    struct ArrowArray  found = {0}, right = fixture_records(large);
    struct ArrowSchema schema = {0};
    lk_rollout_rows_schema(&schema);
    assert_int_equal(lk_rollout_snapshot_find(snapshot, ids, 5, NULL, &found, wanted, &err), LK_OK);
    assert_int_equal(found.length, 4);
    int64_t at = lk_schema_find(lk_dataset_schema(fixture.base), LK_LITERAL("output_tokens"));
    int64_t in = lk_schema_find(&schema, LK_LITERAL("output_tokens"));
    for (int64_t row = 0; row < 4; row++) {
        lk_bytes id = fixture_id(&found, row);
        assert_true(lk_bytes_equal(id, ids[wanted[row]]));
        from[id.data[1] - '0']++;
        if (id.data[1] == '3') {
            continue;
        }
        const struct ArrowArray *lists = found.children[in], *lists_right = right.children[at];
        int64_t                  number = id.data[1] - '0';
        const int32_t           *ends = (const int32_t *)lists->buffers[1] + lists->offset;
        const int32_t *tokens = (const int32_t *)lists->children[0]->buffers[1] + lists->children[0]->offset;
        const int32_t *tokens_right = lists_right->children[0]->buffers[1];
        const int32_t *ends_right = lists_right->buffers[1];
        assert_int_equal(ends[row + 1] - ends[row], TOKENS);
        assert_memory_equal(tokens + ends[row], tokens_right + ends_right[number], TOKENS * sizeof *tokens);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(from[i], 1);
    }
    lk_array_release(&found);
    lk_array_release(&right);
    lk_schema_release(&schema);
    lk_rollout_snapshot_unref(snapshot);
}

static void rows_just_written_are_left_out_as_well(void **state)
{
    lk_err                    err = {0};
    lk_rollout_snapshot      *snapshot = take();
    lk_rollout_rows          *loaded = large_of(snapshot), *made = NULL;
    lk_rollout_form          *form = lk_rollout_form_new();
    struct ArrowArray         batch = fixture_records(large), taken = {0};
    lk_shared_array          *shared = lk_array_share(&batch);
    const lk_shard_generation generation = {.number = loaded->number, .path = loaded->path};
    const uint64_t            last[] = {2, 0};
    assert_int_equal(lk_rollout_rows_of(&fixture.env, form, loaded->shard, &generation,
                         lk_dataset_schema(fixture.base), &shared, 1, &made, &err),
        LK_OK);
    expect_left_out(made);
    assert_int_equal(made->left_out, loaded->left_out);
    assert_int_equal(lk_rollout_rows_take(made, last, 2, made->schema, NULL, &taken, &err), LK_OK);
    assert_int_equal(taken.length, 2);
    assert_true(lk_bytes_equal(fixture_id(&taken, 0), LK_LITERAL("r2")));
    assert_true(lk_bytes_equal(fixture_id(&taken, 1), LK_LITERAL("r0")));
    lk_array_release(&taken);
    lk_shared_array_unref(shared);
    lk_rollout_rows_unref(made);
    lk_rollout_form_unref(form);
    lk_rollout_snapshot_unref(snapshot);
}

static void (*release_batch)(struct ArrowArray *array);
static bool batch_released;

static void note_release(struct ArrowArray *array)
{
    batch_released = true;
    release_batch(array);
}

/* Narrow columns that are large themselves are copied: those of the request would keep its lists, which nobody counts. */
static void what_is_left_out_is_let_go_of(void **state)
{
    lk_err           err = {0};
    lk_buf           text = {0};
    lk_rollout_rows *made = NULL;
    lk_rollout_form *form = lk_rollout_form_new();
    lk_buf_append_text(&text, "{\"id\":\"w\",\"rollout_id\":\"x\",\"output_tokens\":[0");
    for (int i = 1; i < 3 * TOKENS; i++) {
        lk_buf_append_text(&text, ",1");
    }
    lk_buf_append_text(&text, "],\"content\":\"");
    for (int i = 0; i < 10 * TOKENS; i++) {
        lk_buf_append_text(&text, "c");
    }
    lk_buf_append_text(&text, "\"}\n");
    struct ArrowArray batch = fixture_records(text.data);
    batch_released = false;
    release_batch = batch.release;
    batch.release = note_release;
    lk_shared_array          *shared = lk_array_share(&batch);
    const lk_shard_generation generation = {.number = 1, .path = LK_LITERAL("0_gen_1")};
    assert_int_equal(lk_rollout_rows_of(&fixture.env, form, (lk_uuid){0}, &generation,
                         lk_dataset_schema(fixture.base), &shared, 1, &made, &err),
        LK_OK);
    assert_true(made->left_out != 0 && made->bytes > 10 * TOKENS);
    lk_shared_array_unref(shared);
    assert_true(batch_released);
    lk_rollout_rows_unref(made);
    lk_rollout_form_unref(form);
    lk_buf_deinit(&text);
}

/* The last test: afterwards the store lacks a generation. */
static void a_generation_that_is_gone_is_said_to_be(void **state)
{
    lk_err               err = {0};
    lk_buf               out = {0};
    lk_rollout_snapshot *snapshot = take();
    lk_rollout_rows     *rows = large_of(snapshot);
    struct ArrowArray    found = {0};
    size_t               wanted;
    const lk_bytes       id = LK_LITERAL("r1");
    assert_int_equal(lk_generation_remove(fixture.store, rows->shard, rows->path, &err), LK_OK);
    expect(snapshot, COLUMN(id) | COLUMN(reward), "r0 r1 r2 r3 ");
    assert_int_equal(list(snapshot, COLUMN(id) | COLUMN(output_tokens), &out, &err), LK_E_SNAPSHOT_GONE);
    err = (lk_err){0};
    assert_int_equal(
        lk_rollout_snapshot_find(snapshot, &id, 1, NULL, &found, &wanted, &err), LK_E_SNAPSHOT_GONE);
    lk_buf_deinit(&out);
    lk_rollout_snapshot_unref(snapshot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_come_from_the_files_when_they_are_asked_for),
        cmocka_unit_test(rows_are_found_whole_by_their_ids),
        cmocka_unit_test(rows_just_written_are_left_out_as_well),
        cmocka_unit_test(what_is_left_out_is_let_go_of),
        cmocka_unit_test(a_generation_that_is_gone_is_said_to_be),
    };
    return cmocka_run_group_tests_name("rows_take", tests, open_large, close_large);
}
