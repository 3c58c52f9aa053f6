/*
 * query_merge_test.c - what a list answers is the same, byte for byte, while rows move: in generations, merged, folded. And
 * what filters answer is what a reader of the whole list would have picked.
 */
#include "lance/alter.h"
#include "rollout/cell.h"
#include "rollout/merge.h"
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

enum { ROWS = 300, ADDS = 10 };

static lk_rollout_writer *writers[2];

/* Row i: policy version v0 to v3 or none, included, excluded or neither, a payload in every tenth. */
static void put_row(int i, lk_buf *lines)
{
    lk_buf_format(lines,
        "{\"id\":\"id-%03d\",\"rollout_id\":\"r%d\",\"sequence_order\":%d,\"created_at\":\"1970-01-01T00:%"
        "02d:%02d.5Z\"",
        i * 7 % ROWS, i / 6, i % 6, i * 11 % ROWS / 60, i * 11 % ROWS % 60);
    if (i % 5 != 4) {
        lk_buf_format(lines, ",\"policy_version\":\"v%d\"", i % 5);
    }
    if (i % 3 != 2) {
        lk_buf_format(lines, ",\"include_in_training\":%s", i % 3 == 0 ? "true" : "false");
    }
    lk_buf_format(lines,
        ",\"output_tokens\":[%d,%d],\"output_logprobs\":[-0.%d,-1.5],\"role\":\"%s\",\"metadata\":{\"n\":%d}",
        i, i + 1, i + 1, i % 2 == 0 ? "assistant" : "tool", i);
    if (i % 10 == 0) {
        lk_buf_format(lines, ",\"binary_payload\":\"AAEC\",\"artifact_type\":\"image\"");
    }
    lk_buf_append_text(lines, "}\n");
}

static int open_filled(void **state)
{
    if (fixture_open_store(state) != 0) {
        return -1;
    }
    writers[0] = fixture_writer("rollout-0");
    writers[1] = fixture_writer("rollout-1");
    for (int add = 0; add < ADDS; add++) {
        lk_buf lines = {0};
        for (int i = add * (ROWS / ADDS); i < (add + 1) * (ROWS / ADDS); i++) {
            put_row(i, &lines);
        }
        fixture_add(writers[add % 2], lines.data);
        lk_buf_deinit(&lines);
    }
    return 0;
}

static int close_filled(void **state)
{
    lk_rollout_writer_free(writers[0]);
    lk_rollout_writer_free(writers[1]);
    return fixture_close_store(state);
}

static void merge(int instance, size_t most)
{
    const lk_rollout_merge_options options = {.generations_max = most};
    lk_rollout_merge_report        report;
    lk_err                         err = {0};
    lk_uuid shard = lk_shard_of_instance(lk_bytes_of(instance == 0 ? "rollout-0" : "rollout-1"));
    if (lk_rollout_merge(&fixture.env, fixture.view, writers[instance], shard, &options, &report, &err) !=
        LK_OK) {
        fail_msg("%s", err.context);
    }
}

static void fold(void)
{
    const lk_compact_options all = {0};
    lk_compact_report        report;
    lk_dataset              *base = NULL, *next = NULL;
    lk_err                   err = {0};
    assert_int_equal(lk_dataset_open(&fixture.env, 0, &base, &err), LK_OK);
    assert_int_equal(
        lk_dataset_compact(base, lk_direct_committer(), &all, NULL, &report, &next, &err), LK_OK);
    assert_int_equal(report.fragments_after, 1);
    lk_dataset_unref(base);
    lk_dataset_unref(next);
}

/* A record a line. */
static void answer(const lk_rollout_query *query, lk_buf *out)
{
    lk_err               err = {0};
    lk_rollout_snapshot *snapshot = NULL;
    lk_batches          *rows = NULL;
    struct ArrowArray    batch = {0};
    assert_int_equal(lk_rollout_view_take(fixture.view, &snapshot, &err), LK_OK);
    if (lk_rollout_query_open(snapshot, query, &rows, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    lk_rc rc = lk_batches_next(rows, &batch, &err);
    for (; rc == LK_OK && batch.release != NULL; rc = lk_batches_next(rows, &batch, &err)) {
        assert_int_equal(lk_array_validate(&rows->schema, &batch, &err), LK_OK);
        for (int64_t i = 0; i < batch.length; i++) {
            lk_record_write_json(&rows->schema, &batch, i, out);
            lk_buf_append_text(out, "\n");
        }
        lk_array_release(&batch);
    }
    assert_int_equal(rc, LK_OK);
    lk_batches_close(rows);
    lk_rollout_snapshot_unref(snapshot);
}

/* The lines that have all of these texts. */
static void pick(const lk_buf *lines, const char *const *texts, lk_buf *out)
{
    for (const char *line = lines->data; *line != '\0'; line = strchr(line, '\n') + 1) {
        lk_buf one = {0};
        bool   has = true;
        lk_buf_append(&one, line, (size_t)(strchr(line, '\n') + 1 - line));
        for (size_t i = 0; texts[i] != NULL; i++) {
            has = has && strstr(one.data, texts[i]) != NULL;
        }
        if (has) {
            lk_buf_append_bytes(out, lk_buf_view(&one));
        }
        lk_buf_deinit(&one);
    }
}

static int by_line(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort_lines(lk_buf *lines)
{
    const char *all[ROWS];
    size_t      count = 0;
    lk_buf      sorted = {0};
    for (char *line = lines->data, *end; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        *end = '\0';
        assert_true(count < ROWS);
        all[count++] = line;
    }
    qsort(all, count, sizeof *all, by_line);
    for (size_t i = 0; i < count; i++) {
        lk_buf_format(&sorted, "%s\n", all[i]);
    }
    lk_buf_deinit(lines);
    *lines = sorted;
}

/* -- tests ----------------------------------------------------------------------------------------------------------- */

static const lk_bytes          v1 = {"v1", 2}, versions[] = {{"v2", 2}, {"v3", 2}};
static const lk_rollout_filter included_v1[] = {
    {.column = LK_RECORD_COLUMN_policy_version, .texts = &v1, .text_count = 1},
    {.column = LK_RECORD_COLUMN_include_in_training, .truth = true}};
static const lk_rollout_filter late_versions[] = {
    {.column = LK_RECORD_COLUMN_policy_version, .texts = versions, .text_count = 2},
    {.column = LK_RECORD_COLUMN_created_at, .from = 60000000, .to = 120500000}};

static const lk_rollout_query questions[] = {{.limit = UINT64_MAX},
    {.limit = UINT64_MAX, .order = LK_ROLLOUT_BY_ID}, {.limit = 20, .offset = 30},
    {.limit = 7, .offset = 290, .order = LK_ROLLOUT_BY_ID},
    {.limit = UINT64_MAX, .filters = included_v1, .filter_count = 2},
    {.limit = UINT64_MAX, .filters = late_versions, .filter_count = 2},
    {.limit = 5, .offset = 2, .filters = late_versions, .filter_count = 2, .order = LK_ROLLOUT_BY_ID},
    {.limit = UINT64_MAX, .columns = UINT64_C(1) << LK_RECORD_COLUMN_id, .order = LK_ROLLOUT_BY_ID},
    {.limit = UINT64_MAX,
        .columns = UINT64_C(1) << LK_RECORD_COLUMN_output_tokens | UINT64_C(1) << LK_RECORD_COLUMN_reward}};
enum { QUESTIONS = sizeof questions / sizeof *questions };

static void expect_answers(lk_buf *before)
{
    for (size_t i = 0; i < QUESTIONS; i++) {
        lk_buf now = {0};
        answer(&questions[i], &now);
        assert_string_equal(now.data, before[i].data);
        lk_buf_deinit(&now);
    }
}

/* The same rows in any order. */
static void expect_streams(const lk_buf *all)
{
    lk_buf           now = {0}, sorted = {0}, some = {0};
    lk_rollout_query any = {.limit = UINT64_MAX, .order = LK_ROLLOUT_ANY};
    answer(&any, &now);
    lk_buf_append_bytes(&sorted, lk_buf_view(all));
    sort_lines(&now);
    sort_lines(&sorted);
    assert_string_equal(now.data, sorted.data);
    for (uint64_t at = 0; at < ROWS; at += 70) { /* pages of one snapshot follow one another */
        any.offset = at;
        any.limit = 70;
        answer(&any, &some);
    }
    sort_lines(&some);
    assert_string_equal(some.data, sorted.data);
    lk_buf_deinit(&now);
    lk_buf_deinit(&some);
    lk_buf_deinit(&sorted);
}

static void answers_are_the_same_wherever_rows_are(void **state)
{
    lk_buf before[QUESTIONS] = {0};
    for (size_t i = 0; i < QUESTIONS; i++) {
        answer(&questions[i], &before[i]);
    }
    expect_streams(&before[0]);
    merge(0, 3);
    expect_answers(before);
    expect_streams(&before[0]);
    merge(1, 0);
    merge(0, 0);
    expect_answers(before);
    fold();
    expect_answers(before);
    expect_streams(&before[0]);
    for (size_t i = 0; i < QUESTIONS; i++) {
        lk_buf_deinit(&before[i]);
    }
}

static void filters_pick_what_a_reader_of_everything_would(void **state)
{
    static const char *const texts[] = {"\"policy_version\":\"v1\"", "\"include_in_training\":true", NULL};
    lk_buf                   all = {0}, some = {0}, expected = {0};
    answer(&questions[0], &all);
    answer(&questions[4], &some);
    pick(&all, texts, &expected);
    assert_string_equal(some.data, expected.data);
    assert_int_equal(lk_bytes_compare(lk_buf_view(&some), lk_buf_view(&all)) == 0, false);
    lk_buf_deinit(&all);
    lk_buf_deinit(&some);
    lk_buf_deinit(&expected);
}

/* Asked for by name, payloads come with their rows. */
static void payloads_come_with_rows_when_they_are_asked_for(void **state)
{
    lk_rollout_query query = {.limit = UINT64_MAX,
        .order = LK_ROLLOUT_BY_ID,
        .columns = UINT64_C(1) << LK_RECORD_COLUMN_id | UINT64_C(1) << LK_RECORD_COLUMN_binary_payload |
                   UINT64_C(1) << LK_RECORD_COLUMN_artifact_type};
    for (int round = 0; round < 6; round++) {
        lk_err               err = {0};
        lk_rollout_snapshot *snapshot = NULL;
        lk_batches          *rows = NULL;
        struct ArrowArray    batch = {0};
        int                  seen = 0, payloads = 0;
        query.order = round % 2 == 0 ? LK_ROLLOUT_BY_ID : LK_ROLLOUT_ANY;
        assert_int_equal(lk_rollout_view_take(fixture.view, &snapshot, &err), LK_OK);
        assert_int_equal(lk_rollout_query_open(snapshot, &query, &rows, &err), LK_OK);
        assert_int_equal(rows->schema.n_children, 3);
        assert_string_equal(rows->schema.children[1]->name, "binary_payload");
        lk_rc rc = lk_batches_next(rows, &batch, &err);
        for (; rc == LK_OK && batch.release != NULL; rc = lk_batches_next(rows, &batch, &err)) {
            for (int64_t i = 0; i < batch.length; i++) {
                const struct ArrowArray *values = batch.children[1];
                bool typed = lk_cell_valid(batch.children[2], i), has = lk_cell_valid(values, i);
                assert_int_equal(typed, has);
                assert_true(!has || lk_bytes_equal(lk_cell_large(values, i), (lk_bytes){"\0\1\2", 3}));
                payloads += has;
            }
            seen += (int)batch.length;
            lk_array_release(&batch);
        }
        assert_int_equal(rc, LK_OK);
        assert_int_equal(seen, ROWS);
        assert_int_equal(payloads, ROWS / 10);
        lk_batches_close(rows);
        lk_rollout_snapshot_unref(snapshot);
        if (round == 1) {
            merge(0, 2);
        } else if (round == 3) {
            merge(0, 0);
            merge(1, 0);
        }
    }
}

#define FILLED(test) cmocka_unit_test_setup_teardown(test, open_filled, close_filled)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILLED(answers_are_the_same_wherever_rows_are),
        FILLED(filters_pick_what_a_reader_of_everything_would),
        FILLED(payloads_come_with_rows_when_they_are_asked_for),
    };
    return cmocka_run_group_tests_name("query_merge", tests, NULL, NULL);
}
