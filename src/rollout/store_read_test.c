/*
 * store_read_test.c - lists that go on while rows are added, merged and collected by others; tails; what a cursor may be.
 * What is expected is what was added.
 */
#include "base/file.h"
#include "io/local.h"
#include "lance/alter.h"
#include "rollout/collect.h"
#include "rollout/records_json.h"
#include "rollout/store.h"
#include "rollout/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char              root[64];
static lk_store         *store;
static lk_lance_env      env;
static lk_rollout_store *first, *second;

static lk_rollout_store *open_store(bool create, const char *instance)
{
    lk_err                   err = {0};
    lk_rollout_store        *s = NULL;
    const lk_rollout_options options = {.instance_id = lk_bytes_of(instance)};
    lk_rc                    rc = create ? lk_rollout_store_create(&env, NULL, &options, &s, &err)
                                         : lk_rollout_store_open(&env, NULL, &options, &s, &err);
    return rc == LK_OK ? s : NULL;
}

static int open_stores(void **state)
{
    lk_err err = {0};
    (void)snprintf(root, sizeof root, "%s/lake-read-XXXXXX", P_tmpdir);
    env = (lk_lance_env){.clock = lk_clock_real(), .random = lk_random_os()};
    if (mkdtemp(root) == NULL || lk_local_store_open(&store, lk_bytes_of(root), false, &err) != LK_OK) {
        return -1;
    }
    env.store = store;
    first = open_store(true, "rollout-0");
    second = open_store(false, "rollout-1");
    return first != NULL && second != NULL ? 0 : -1;
}

static int close_stores(void **state)
{
    lk_err err = {0};
    lk_rollout_store_unref(first);
    lk_rollout_store_unref(second);
    lk_store_close(store);
    return lk_directory_remove(root, &err) == LK_OK ? 0 : -1;
}

/* Rows "<prefix><number>" of so many seconds after 1970, from number `from` to before `to`. */
static void add(lk_rollout_store *s, const char *prefix, int from, int to)
{
    lk_err      err = {0};
    lk_buf      lines = {0};
    lk_records *records = NULL;
    for (int i = from; i < to; i++) {
        lk_buf_format(&lines,
            "{\"id\":\"%s%05d\",\"rollout_id\":\"r\",\"created_at\":\"1970-01-01T%02d:%02d:%02dZ\",\"policy_"
            "version\":\"v%d\"}\n",
            prefix, i, i / 3600, i / 60 % 60, i % 60, i % 3);
    }
    assert_int_equal(lk_records_open(77000000, NULL, &records, &err), LK_OK);
    assert_int_equal(lk_records_read_ndjson(records, lk_buf_view(&lines), &err), LK_OK);
    if (lk_rollout_store_add(s, records, false, NULL, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    lk_records_close(records);
    lk_buf_deinit(&lines);
}

static void merge_and_collect(lk_rollout_store *s)
{
    const lk_rollout_merge_options all = {0};
    lk_rollout_merge_report        report;
    lk_rollout_collect_report      collected = {0};
    lk_err                         err = {0};
    if (lk_rollout_store_merge(s, &all, &report, &err) != LK_OK ||
        lk_rollout_collect(&env, lk_rollout_store_shard(s), 0, false, &collected, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
}

static void fold(void)
{
    const lk_compact_options all = {0};
    lk_compact_report        report;
    lk_dataset              *base = NULL, *next = NULL;
    lk_err                   err = {0};
    assert_int_equal(lk_dataset_open(&env, 0, &base, &err), LK_OK);
    assert_int_equal(
        lk_dataset_compact(base, lk_direct_committer(), &all, NULL, &report, &next, &err), LK_OK);
    lk_dataset_unref(base);
    lk_dataset_unref(next);
}

static void put_ids(lk_batches *rows, lk_buf *out)
{
    lk_err            err = {0};
    struct ArrowArray batch = {0};
    while (lk_batches_next(rows, &batch, &err) == LK_OK && batch.release != NULL) {
        for (int64_t i = 0; i < batch.length; i++) {
            lk_buf_format(out, "%.*s ", LK_FMT(fixture_id(&batch, i)));
        }
        lk_array_release(&batch);
    }
    assert_string_equal(err.context, "");
}

/* One page behind the cursor (empty: from the start): ids are appended, the cursor is replaced by the next; false: the last. */
static bool read_page(lk_rollout_store *s, lk_rollout_query query, lk_buf *cursor, lk_buf *ids)
{
    lk_err               err = {0};
    lk_arena             arena = {0};
    lk_rollout_snapshot *snapshot = NULL;
    lk_batches          *rows = NULL;
    lk_rollout_key       after, last;
    lk_rc                rc = cursor->size == 0
                                  ? lk_rollout_store_snapshot(s, 0, &snapshot, &err)
                                  : lk_rollout_store_resume(s, lk_buf_view(cursor), &query, &arena, &snapshot, &after, &err);
    query.after = cursor->size == 0 ? NULL : &after;
    if (rc != LK_OK || lk_rollout_query_open(snapshot, &query, &rows, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    bool full = lk_rollout_query_count(rows) == query.limit;
    lk_buf_clear(cursor);
    if (lk_rollout_query_last(rows, &last)) {
        assert_int_equal(lk_rollout_store_cursor(s, snapshot, &query, &last, cursor, &err), LK_OK);
    }
    put_ids(rows, ids);
    lk_batches_close(rows);
    lk_rollout_snapshot_unref(snapshot);
    lk_arena_close(&arena);
    return full;
}

/* -- cursors ------------------------------------------------------------------------------------------------------- */

/* 10,000 rows by two instances, some of them merged already; between pages everything moves. */
static void pages_are_exactly_the_snapshot_whatever_goes_on(void **state)
{
    const lk_rollout_query query = {.limit = 777};
    lk_buf                 cursor = {0}, ids = {0}, expected = {0};
    for (int i = 0; i < 10; i++) {
        add(i % 2 == 0 ? first : second, "x", i * 1000, i * 1000 + 1000);
        if (i == 3) {
            merge_and_collect(first);
        }
    }
    for (int i = 0; i < 10000; i++) {
        lk_buf_format(&expected, "x%05d ", i);
    }
    int page = 0;
    while (read_page(page % 3 == 0 ? first : second, query, &cursor, &ids)) {
        add(page % 2 == 0 ? first : second, page % 3 == 0 ? "a" : "z", page * 700, page * 700 + 50);
        if (page == 2 || page == 7) {
            merge_and_collect(first);
        } else if (page == 4 || page == 9) {
            merge_and_collect(second);
        } else if (page == 5) {
            fold();
        }
        page++;
    }
    assert_int_equal(page, 12);
    assert_string_equal(ids.data, expected.data);
    lk_buf_deinit(&cursor);
    lk_buf_deinit(&ids);
    lk_buf_deinit(&expected);
}

static void a_cursor_is_good_for_its_own_question_only(void **state)
{
    lk_err               err = {0};
    lk_arena             arena = {0};
    lk_rollout_snapshot *snapshot = NULL;
    lk_rollout_key       after;
    lk_buf               cursor = {0}, ids = {0};
    const lk_bytes       v1 = LK_LITERAL("v1"), v2 = LK_LITERAL("v2");
    lk_rollout_filter    filter = {.column = LK_RECORD_COLUMN_policy_version, .texts = &v1, .text_count = 1};
    lk_rollout_query     query = {.limit = 5, .filters = &filter, .filter_count = 1};
    add(first, "x", 0, 30);
    assert_true(read_page(first, query, &cursor, &ids));
    assert_string_equal(ids.data, "x00001 x00004 x00007 x00010 x00013 ");
    assert_true(read_page(second, query, &cursor, &ids));
    assert_string_equal(ids.data + 35, "x00016 x00019 x00022 x00025 x00028 ");

    filter.texts = &v2;
    assert_int_equal(
        lk_rollout_store_resume(first, lk_buf_view(&cursor), &query, &arena, &snapshot, &after, &err),
        LK_E_INVALID_REQUEST);
    assert_non_null(strstr(err.context, "other filters"));
    filter.texts = &v1;
    query.order = LK_ROLLOUT_BY_ID;
    err = (lk_err){0};
    assert_int_equal(
        lk_rollout_store_resume(first, lk_buf_view(&cursor), &query, &arena, &snapshot, &after, &err),
        LK_E_INVALID_REQUEST);
    query.order = LK_ROLLOUT_BY_TIME;
    for (size_t i = 0; i < cursor.size; i++) { /* any damage is found */
        char was = cursor.data[i];
        cursor.data[i] = was == 'A' ? 'B' : 'A';
        err = (lk_err){0};
        assert_int_equal(
            lk_rollout_store_resume(first, lk_buf_view(&cursor), &query, &arena, &snapshot, &after, &err),
            LK_E_INVALID_REQUEST);
        cursor.data[i] = was;
    }
    query.order = LK_ROLLOUT_ANY;
    err = (lk_err){0};
    assert_int_equal(lk_rollout_store_snapshot(first, 0, &snapshot, &err), LK_OK);
    assert_int_equal(
        lk_rollout_store_cursor(first, snapshot, &query, &after, &ids, &err), LK_E_INVALID_REQUEST);
    lk_rollout_snapshot_unref(snapshot);
    lk_buf_deinit(&cursor);
    lk_buf_deinit(&ids);
    lk_arena_close(&arena);
}

static void a_cursor_of_another_store_is_refused(void **state)
{
    lk_err                 err = {0};
    lk_arena               arena = {0};
    lk_rollout_snapshot   *snapshot = NULL;
    lk_rollout_key         after;
    lk_buf                 cursor = {0}, ids = {0};
    const lk_rollout_query query = {.limit = 5};
    add(first, "x", 0, 30);
    assert_true(read_page(first, query, &cursor, &ids));
    assert_int_equal(close_stores(state), 0);
    assert_int_equal(open_stores(state), 0);
    add(first, "x", 0, 30);
    assert_int_equal(
        lk_rollout_store_resume(first, lk_buf_view(&cursor), &query, &arena, &snapshot, &after, &err),
        LK_E_INVALID_REQUEST);
    assert_non_null(strstr(err.context, "another store"));
    lk_buf_deinit(&cursor);
    lk_buf_deinit(&ids);
    lk_arena_close(&arena);
}

/* A merge by other software says nothing of what it merged. */
static void rows_that_cannot_be_told_apart_any_more_are_gone(void **state)
{
    lk_err                    err = {0};
    lk_arena                  arena = {0};
    lk_rollout_snapshot      *snapshot = NULL;
    lk_rollout_key            after;
    lk_rollout_collect_report collected = {0};
    lk_buf                    cursor = {0}, ids = {0};
    const lk_rollout_query    query = {.limit = 5};
    add(first, "x", 0, 30);
    assert_true(read_page(first, query, &cursor, &ids));
    lk_shard_writer writer = {0};
    assert_int_equal(lk_shard_claim(store, lk_rollout_store_shard(first), &writer, &err), LK_OK);
    writer.manifest.generation_count = 0;
    lk_buf manifest = {0};
    char   digits[LK_SHARD_POSITION_DIGITS + 1];
    bool   created;
    writer.manifest.version++;
    lk_shard_manifest_encode(&writer.manifest, &manifest);
    lk_shard_position_format(writer.manifest.version, digits);
    lk_bytes key = lk_shard_key(
        lk_rollout_store_shard(first), lk_arena_format(&arena, "manifest/%s.binpb", digits), &arena);
    assert_int_equal(lk_store_put_if_absent(store, key, lk_buf_view(&manifest), &created, &err), LK_OK);
    assert_true(created);
    assert_int_equal(
        lk_rollout_store_resume(second, lk_buf_view(&cursor), &query, &arena, &snapshot, &after, &err),
        LK_OK);
    lk_rollout_snapshot_unref(snapshot); /* its directory is still there */
    assert_int_equal(
        lk_rollout_collect(&env, lk_rollout_store_shard(first), 0, false, &collected, &err), LK_OK);
    assert_int_equal(collected.directories, 1);
    assert_int_equal(
        lk_rollout_store_resume(second, lk_buf_view(&cursor), &query, &arena, &snapshot, &after, &err),
        LK_E_SNAPSHOT_GONE);
    lk_shard_writer_deinit(&writer);
    lk_buf_deinit(&manifest);
    lk_buf_deinit(&cursor);
    lk_buf_deinit(&ids);
    lk_arena_close(&arena);
}

static void the_base_table_at_a_version_has_cursors_too(void **state)
{
    lk_err               err = {0};
    lk_arena             arena = {0};
    lk_rollout_snapshot *snapshot = NULL, *again = NULL;
    lk_batches          *rows = NULL;
    lk_rollout_key       after, last;
    lk_buf               cursor = {0}, ids = {0};
    lk_rollout_query     query = {.limit = 3};
    add(first, "x", 0, 5);
    merge_and_collect(first); /* version 3 */
    add(first, "x", 5, 9);
    merge_and_collect(first);
    assert_int_equal(lk_rollout_store_snapshot(first, 3, &snapshot, &err), LK_OK);
    assert_int_equal(lk_rollout_query_open(snapshot, &query, &rows, &err), LK_OK);
    assert_true(lk_rollout_query_last(rows, &last));
    assert_int_equal(lk_rollout_store_cursor(first, snapshot, &query, &last, &cursor, &err), LK_OK);
    lk_batches_close(rows);
    assert_int_equal(
        lk_rollout_store_resume(second, lk_buf_view(&cursor), &query, &arena, &again, &after, &err), LK_OK);
    query.after = &after;
    assert_int_equal(lk_rollout_query_open(again, &query, &rows, &err), LK_OK);
    put_ids(rows, &ids);
    assert_string_equal(ids.data, "x00003 x00004 ");
    lk_batches_close(rows);
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_snapshot_unref(again);
    lk_buf_deinit(&cursor);
    lk_buf_deinit(&ids);
    lk_arena_close(&arena);
}

/* -- tails ----------------------------------------------------------------------------------------------------------- */

/* The ids that a tail tells, and its next cursor in place of the one given. */
static void expect_tail(lk_rollout_store *s, lk_buf *cursor, uint64_t wait_ms, const char *expected)
{
    lk_err                 err = {0};
    lk_rollout_snapshot   *told = NULL;
    lk_batches            *rows = NULL;
    lk_buf                 next = {0}, ids = {0};
    const lk_rollout_query query = {.order = LK_ROLLOUT_BY_ID, .limit = UINT64_MAX};
    lk_rc                  rc =
        lk_rollout_store_tail(s, lk_buf_view(cursor), lk_thread_now_ms() + wait_ms, NULL, &told, &next, &err);
    if (rc != LK_OK || lk_rollout_query_open(told, &query, &rows, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    put_ids(rows, &ids);
    assert_string_equal(ids.size == 0 ? "" : ids.data, expected);
    lk_batches_close(rows);
    lk_rollout_snapshot_unref(told);
    lk_buf_deinit(cursor);
    lk_buf_deinit(&ids);
    *cursor = next;
}

static void a_tail_tells_what_was_added_since_merged_or_not(void **state)
{
    lk_buf cursor = {0};
    add(first, "a", 0, 2);
    expect_tail(second, &cursor, 0, "");
    expect_tail(second, &cursor, 0, "");
    add(first, "b", 0, 2);
    add(second, "c", 0, 1);
    expect_tail(second, &cursor, 0, "b00000 b00001 c00000 ");
    expect_tail(first, &cursor, 0, "");
    add(first, "d", 0, 1);
    merge_and_collect(first);
    merge_and_collect(second);
    fold();
    add(first, "e", 0, 1);
    expect_tail(second, &cursor, 0, "d00000 e00000 ");
    expect_tail(second, &cursor, 0, "");
    lk_buf_deinit(&cursor);
}

static void a_tail_that_is_far_behind_catches_up_in_steps(void **state)
{
    enum { GENERATIONS = 262 }; /* more than one answer has */
    lk_buf cursor = {0}, expected = {0};
    expect_tail(second, &cursor, 0, "");
    for (int i = 0; i < GENERATIONS; i++) {
        add(first, "n", i, i + 1);
    }
    for (int i = 0; i < 256; i++) {
        lk_buf_format(&expected, "n%05d ", i);
    }
    merge_and_collect(first);
    expect_tail(second, &cursor, 0, expected.data);
    expect_tail(second, &cursor, 0, "n00256 n00257 n00258 n00259 n00260 n00261 ");
    expect_tail(second, &cursor, 0, "");
    lk_buf_deinit(&cursor);
    lk_buf_deinit(&expected);
}

static void add_soon(void *context)
{
    lk_clock_sleep_ms(lk_clock_real(), 30);
    add(context, "late", 0, 1);
}

static void add_soon_after(void *context)
{
    lk_clock_sleep_ms(lk_clock_real(), 30);
    add(context, "later", 0, 1);
}

/* By this instance: at once. By another: at the next look. */
static void who_waits_is_woken_by_rows(void **state)
{
    lk_rollout_store *writers[] = {first, second};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        lk_err    err = {0};
        lk_thread thread;
        lk_buf    cursor = {0};
        uint64_t  began = lk_thread_now_ms();
        expect_tail(first, &cursor, 0, "");
        expect_tail(first, &cursor, 10, "");
        assert_int_equal(
            lk_thread_start(&thread, "adds", i == 0 ? add_soon : add_soon_after, writers[i], &err), LK_OK);
        expect_tail(first, &cursor, 20000, i == 0 ? "late00000 " : "later00000 ");
        lk_thread_join(&thread);
        assert_true(lk_thread_now_ms() - began < 10000);
        lk_buf_deinit(&cursor);
    }
}

static void a_list_cursor_is_no_tail_cursor(void **state)
{
    lk_err               err = {0};
    lk_arena             arena = {0};
    lk_rollout_snapshot *snapshot = NULL;
    lk_rollout_key       after;
    lk_buf               list = {0}, tail = {0}, ids = {0};
    lk_rollout_query     query = {.limit = 1};
    add(first, "x", 0, 3);
    assert_true(read_page(first, query, &list, &ids));
    expect_tail(first, &tail, 0, "");
    assert_int_equal(lk_rollout_store_tail(first, lk_buf_view(&list), 0, NULL, &snapshot, &ids, &err),
        LK_E_INVALID_REQUEST);
    err = (lk_err){0};
    assert_int_equal(
        lk_rollout_store_resume(first, lk_buf_view(&tail), &query, &arena, &snapshot, &after, &err),
        LK_E_INVALID_REQUEST);
    lk_buf_deinit(&list);
    lk_buf_deinit(&tail);
    lk_buf_deinit(&ids);
    lk_arena_close(&arena);
}

/* -- counts ---------------------------------------------------------------------------------------------------------- */

static void expect_counts(lk_rollout_store *s, const char *expected)
{
    lk_err                 err = {0};
    lk_arena               arena = {0};
    lk_rollout_snapshot   *snapshot = NULL;
    lk_rollout_group      *groups = NULL;
    size_t                 count = 0;
    lk_buf                 text = {0};
    const lk_rollout_query query = {0};
    assert_int_equal(lk_rollout_store_snapshot(s, 0, &snapshot, &err), LK_OK);
    assert_int_equal(
        lk_rollout_count_by(snapshot, LK_RECORD_COLUMN_policy_version, &query, &arena, &groups, &count, &err),
        LK_OK);
    for (size_t i = 0; i < count; i++) {
        lk_buf_format(&text, "%.*s:%d@%d-%d ", LK_FMT(groups[i].value), (int)groups[i].rows,
            (int)(groups[i].first_created_at / 1000000), (int)(groups[i].last_created_at / 1000000));
    }
    assert_string_equal(text.data, expected);
    lk_rollout_snapshot_unref(snapshot);
    lk_buf_deinit(&text);
    lk_arena_close(&arena);
}

static void rows_are_counted_by_policy_version(void **state)
{
    lk_err            err = {0};
    lk_rollout_group *groups;
    size_t            count;
    lk_arena          arena = {0};
    add(first, "x", 0, 10);
    add(second, "x", 10, 15);
    expect_counts(first, "v0:5@0-12 v1:5@1-13 v2:5@2-14 ");
    merge_and_collect(first);
    add(first, "y", 100, 101);
    expect_counts(first, "v0:5@0-12 v1:6@1-100 v2:5@2-14 ");
    lk_rollout_snapshot   *snapshot = NULL;
    const lk_rollout_query query = {0};
    assert_int_equal(lk_rollout_store_snapshot(first, 0, &snapshot, &err), LK_OK);
    assert_int_equal(
        lk_rollout_count_by(snapshot, LK_RECORD_COLUMN_reward, &query, &arena, &groups, &count, &err),
        LK_E_INVALID_REQUEST);
    lk_rollout_snapshot_unref(snapshot);
    lk_arena_close(&arena);
}

#define WITH_STORES(test) cmocka_unit_test_setup_teardown(test, open_stores, close_stores)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORES(pages_are_exactly_the_snapshot_whatever_goes_on),
        WITH_STORES(a_cursor_is_good_for_its_own_question_only),
        WITH_STORES(a_cursor_of_another_store_is_refused),
        WITH_STORES(rows_that_cannot_be_told_apart_any_more_are_gone),
        WITH_STORES(the_base_table_at_a_version_has_cursors_too),
        WITH_STORES(a_tail_tells_what_was_added_since_merged_or_not),
        WITH_STORES(a_tail_that_is_far_behind_catches_up_in_steps),
        WITH_STORES(who_waits_is_woken_by_rows),
        WITH_STORES(a_list_cursor_is_no_tail_cursor),
        WITH_STORES(rows_are_counted_by_policy_version),
    };
    return cmocka_run_group_tests_name("store_read", tests, NULL, NULL);
}
