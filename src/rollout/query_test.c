/* query_test.c - records of a store with rows in the base table and in generations of two shards, listed in every way. */
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

/* -- a store ----------------------------------------------------------------------------------------------------- */

static lk_rollout_snapshot *snapshot;

/* Ten records r0 .. r9 at seconds 9 .. 0, in three places; r3 and r7 are copies with other roles, of which one counts. */
static int open_filled(void **state)
{
    lk_err err = {0};
    if (fixture_open_store(state) != 0) {
        return -1;
    }
    lk_rollout_writer *high = fixture_writer("rollout-0"), *low = fixture_writer("rollout-1");
    fixture_append_to_base(
        "{\"id\":\"r0\",\"rollout_id\":\"x\",\"created_at\":\"1970-01-01T00:00:09Z\",\"policy_version\":"
        "\"v1\",\"reward\":0}\n"
        "{\"id\":\"r1\",\"rollout_id\":\"x\",\"created_at\":\"1970-01-01T00:00:08Z\",\"policy_version\":"
        "\"v2\",\"reward\":1}\n"
        "{\"id\":\"r2\",\"rollout_id\":\"y\",\"created_at\":\"1970-01-01T00:00:07Z\",\"role\":\"tool\"}\n"
        "{\"id\":\"r3\",\"rollout_id\":\"y\",\"created_at\":\"1970-01-01T00:00:06Z\",\"role\":\"tool\"}\n");
    fixture_add(low,
        "{\"id\":\"r3\",\"rollout_id\":\"y\",\"created_at\":\"1970-01-01T00:00:06Z\",\"role\":\"grade\"}\n"
        "{\"id\":\"r4\",\"rollout_id\":\"z\",\"created_at\":\"1970-01-01T00:00:05Z\",\"include_in_training\":"
        "true}\n"
        "{\"id\":\"r7\",\"rollout_id\":\"z\",\"created_at\":\"1970-01-01T00:00:02Z\",\"role\":\"grade\"}\n");
    fixture_add(low, "{\"id\":\"r5\",\"rollout_id\":\"z\",\"created_at\":\"1970-01-01T00:00:04Z\",\"include_"
                     "in_training\":false}\n"
                     "{\"id\":\"r6\",\"rollout_id\":\"z\",\"created_at\":\"1970-01-01T00:00:03Z\",\"policy_"
                     "version\":\"v2\"}\n");
    fixture_add(high,
        "{\"id\":\"r7\",\"rollout_id\":\"z\",\"created_at\":\"1970-01-01T00:00:02Z\",\"role\":\"tool\"}\n"
        "{\"id\":\"r8\",\"rollout_id\":\"b\",\"created_at\":\"1970-01-01T00:00:01Z\",\"sequence_order\":1}\n"
        "{\"id\":\"r9\",\"rollout_id\":\"b\",\"created_at\":\"1970-01-01T00:00:01Z\"}\n");
    lk_rollout_writer_free(high);
    lk_rollout_writer_free(low);
    return lk_rollout_view_take(fixture.view, &snapshot, &err) == LK_OK ? 0 : -1;
}

static int close_filled(void **state)
{
    lk_rollout_snapshot_unref(snapshot);
    return fixture_close_store(state);
}

/* -- listing ----------------------------------------------------------------------------------------------------- */

/* The digits of the ids, in order. */
static void expect_ids(const lk_rollout_query *query, const char *expected)
{
    lk_err            err = {0};
    lk_batches       *rows = NULL;
    lk_buf            digits = {0};
    struct ArrowArray batch = {0};
    if (lk_rollout_query_open(snapshot, query, &rows, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    uint64_t count = lk_rollout_query_count(rows), all = strlen(expected);
    assert_true(query->order == LK_ROLLOUT_ANY ? count <= all && (count > 0) == (all > 0) : count == all);
    lk_rc rc = lk_batches_next(rows, &batch, &err);
    for (; rc == LK_OK && batch.release != NULL; rc = lk_batches_next(rows, &batch, &err)) {
        assert_int_equal(lk_array_validate(&rows->schema, &batch, &err), LK_OK);
        for (int64_t i = 0; i < batch.length; i++) {
            lk_bytes id = fixture_id(&batch, i);
            lk_buf_append(&digits, id.data + 1, id.size - 1);
        }
        lk_array_release(&batch);
    }
    assert_int_equal(rc, LK_OK);
    assert_int_equal(lk_rollout_query_count(rows), 0);
    assert_string_equal(digits.size == 0 ? "" : digits.data, expected);
    lk_buf_deinit(&digits);
    lk_batches_close(rows);
}

static void each_id_is_listed_once_in_the_stated_order(void **state)
{
    expect_ids(&(lk_rollout_query){.limit = UINT64_MAX}, "9876543210");
    expect_ids(&(lk_rollout_query){.order = LK_ROLLOUT_BY_ID, .limit = UINT64_MAX}, "0123456789");
    lk_rollout_query any = {.order = LK_ROLLOUT_ANY, .limit = UINT64_MAX};
    expect_ids(&any, "7895634012");
}

static void pages_follow_one_another(void **state)
{
    expect_ids(&(lk_rollout_query){.limit = 3}, "987");
    expect_ids(&(lk_rollout_query){.limit = 3, .offset = 3}, "654");
    expect_ids(&(lk_rollout_query){.limit = 30, .offset = 9}, "0");
    expect_ids(&(lk_rollout_query){.limit = 3, .offset = 10}, "");
    expect_ids(&(lk_rollout_query){.limit = 0}, "");

    lk_buf         all = {0};
    lk_rollout_key after = {0};
    lk_arena       arena = {0};
    bool           more = true;
    for (int page = 0; more; page++) {
        lk_err                 err = {0};
        lk_batches            *rows = NULL;
        lk_rollout_key         last;
        const lk_rollout_query query = {.limit = 4, .after = page == 0 ? NULL : &after};
        assert_int_equal(lk_rollout_query_open(snapshot, &query, &rows, &err), LK_OK);
        more = lk_rollout_query_last(rows, &last);
        if (more) {
            after = last;
            after.id = lk_arena_copy(&arena, last.id);
            after.rollout_id = lk_arena_copy(&arena, last.rollout_id);
            lk_buf_format(&all, "%zu:%.*s ", (size_t)lk_rollout_query_count(rows), LK_FMT(last.id));
        }
        lk_batches_close(rows);
    }
    assert_string_equal(all.data, "4:r6 4:r2 2:r0 ");
    lk_buf_deinit(&all);
    lk_arena_close(&arena);
}

static void filter(const lk_rollout_filter *filters, size_t count, const char *expected)
{
    expect_ids(&(lk_rollout_query){.filters = filters, .filter_count = count, .limit = UINT64_MAX}, expected);
}

static void filters_judge_the_row_that_counts(void **state)
{
    const lk_bytes tool = LK_LITERAL("tool"), grade = LK_LITERAL("grade"), nobody = LK_LITERAL("nobody");
    const lk_bytes versions[] = {LK_LITERAL("v1"), LK_LITERAL("v2")};
    const lk_rollout_filter tools = {.column = LK_RECORD_COLUMN_role, .texts = &tool, .text_count = 1};
    const lk_rollout_filter grades = {.column = LK_RECORD_COLUMN_role, .texts = &grade, .text_count = 1};
    const lk_rollout_filter nothing = {.column = LK_RECORD_COLUMN_role, .texts = &nobody, .text_count = 1};
    const lk_rollout_filter either = {
        .column = LK_RECORD_COLUMN_policy_version, .texts = versions, .text_count = 2};
    const lk_rollout_filter yes = {.column = LK_RECORD_COLUMN_include_in_training, .truth = true};
    const lk_rollout_filter no = {.column = LK_RECORD_COLUMN_include_in_training, .truth = false};
    const lk_rollout_filter early = {.column = LK_RECORD_COLUMN_created_at, .from = 1000000, .to = 4000000};
    filter(&tools, 1, "72"); /* r3's older copy in the base was a tool's */
    filter(&grades, 1, "3"); /* r7's copy in the lower shard was a grade */
    filter(&nothing, 1, "");
    filter(&either, 1, "610"); /* null is none of them */
    filter(&yes, 1, "4");
    filter(&no, 1, "5");
    filter(&early, 1, "9876");
    const lk_rollout_filter both[] = {tools, early};
    filter(both, 2, "7");
}

static void only_the_asked_columns_are_given(void **state)
{
    lk_err                 err = {0};
    lk_batches            *rows = NULL;
    struct ArrowArray      batch = {0};
    lk_buf                 text = {0};
    const lk_rollout_query query = {
        .columns = UINT64_C(1) << LK_RECORD_COLUMN_reward | UINT64_C(1) << LK_RECORD_COLUMN_id,
        .limit = UINT64_MAX};
    assert_int_equal(lk_rollout_query_open(snapshot, &query, &rows, &err), LK_OK);
    assert_int_equal(rows->schema.n_children, 2);
    assert_int_equal(lk_batches_next(rows, &batch, &err), LK_OK);
    for (int64_t i = 7; i < 10; i++) {
        lk_record_write_json(&rows->schema, &batch, i, &text);
    }
    assert_string_equal(
        text.data, "{\"id\":\"r2\"}{\"id\":\"r1\",\"reward\":1.0}{\"id\":\"r0\",\"reward\":0.0}");
    lk_array_release(&batch);
    lk_batches_close(rows);
    lk_buf_deinit(&text);
}

static void keys_are_charged(void **state)
{
    lk_err           err = {0};
    lk_budget        budget;
    lk_batches      *rows = NULL;
    lk_rollout_query query = {.limit = 1, .budget = &budget};
    lk_budget_init(&budget, "keys", 100, NULL);
    assert_int_equal(lk_rollout_query_open(snapshot, &query, &rows, &err), LK_E_LIMIT);
    assert_non_null(strstr(err.detail, "--max-answer-bytes"));
    assert_int_equal(budget.used_bytes, 0);
    lk_budget_init(&budget, "keys", 1 << 20, NULL);
    err = (lk_err){0};
    assert_int_equal(lk_rollout_query_open(snapshot, &query, &rows, &err), LK_OK);
    assert_true(budget.used_bytes > 0);
    lk_batches_close(rows);
    assert_int_equal(budget.used_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_id_is_listed_once_in_the_stated_order),
        cmocka_unit_test(pages_follow_one_another),
        cmocka_unit_test(filters_judge_the_row_that_counts),
        cmocka_unit_test(only_the_asked_columns_are_given),
        cmocka_unit_test(keys_are_charged),
    };
    return cmocka_run_group_tests_name("query", tests, open_filled, close_filled);
}
