/* resume_test.c - a cursor resumed and a tail read over storage that fails at every call: never other rows, never a leak. */
#include "base/fault.h"
#include "base/file.h"
#include "io/faulty.h"
#include "io/local.h"
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

static char         root[64];
static lk_store    *store;
static lk_lance_env env;
static lk_buf       list, tail; /* cursors from before the merge */

static const lk_rollout_query query = {.limit = 3, .order = LK_ROLLOUT_BY_ID};

static lk_rollout_store *open_store(const lk_lance_env *of, bool create)
{
    lk_err                   err = {0};
    lk_rollout_store        *s = NULL;
    const lk_rollout_options options = {.instance_id = LK_LITERAL("rollout-0")};
    lk_rc                    rc = create ? lk_rollout_store_create(of, NULL, &options, &s, &err)
                                         : lk_rollout_store_open(of, NULL, &options, &s, &err);
    return rc == LK_OK ? s : NULL;
}

static void add(lk_rollout_store *s, const char *id)
{
    lk_err      err = {0};
    lk_buf      line = {0};
    lk_records *records = NULL;
    lk_buf_format(&line, "{\"id\":\"%s\",\"rollout_id\":\"r\"}\n", id);
    assert_int_equal(lk_records_open(77000000, NULL, &records, &err), LK_OK);
    assert_int_equal(lk_records_read_ndjson(records, lk_buf_view(&line), &err), LK_OK);
    assert_int_equal(lk_rollout_store_add(s, records, false, NULL, &err), LK_OK);
    lk_records_close(records);
    lk_buf_deinit(&line);
}

/* Five rows and the cursors of a page and of a tail; then three more, a merge of all, directories collected, one more row. */
static int open_filled(void **state)
{
    static const char *const before[] = {"a", "b", "c", "d", "e"}, *const after[] = {"aa", "f", "g"};
    const lk_rollout_merge_options all = {0};
    lk_rollout_merge_report        report;
    lk_rollout_collect_report      collected = {0};
    lk_rollout_snapshot           *snapshot = NULL, *told = NULL;
    lk_batches                    *rows = NULL;
    lk_rollout_key                 last;
    lk_err                         err = {0};
    (void)snprintf(root, sizeof root, "%s/lake-resume-XXXXXX", P_tmpdir);
    env = (lk_lance_env){.clock = lk_clock_real(), .random = lk_random_os()};
    if (mkdtemp(root) == NULL || lk_local_store_open(&store, lk_bytes_of(root), false, &err) != LK_OK) {
        return -1;
    }
    env.store = store;
    lk_rollout_store *s = open_store(&env, true);
    assert_non_null(s);
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        add(s, before[i]);
    }
    assert_int_equal(lk_rollout_store_snapshot(s, 0, &snapshot, &err), LK_OK);
    assert_int_equal(lk_rollout_query_open(snapshot, &query, &rows, &err), LK_OK);
    assert_true(lk_rollout_query_last(rows, &last));
    assert_int_equal(lk_rollout_store_cursor(s, snapshot, &query, &last, &list, &err), LK_OK);
    assert_int_equal(lk_rollout_store_tail(s, (lk_bytes){0}, 0, NULL, &told, &tail, &err), LK_OK);
    lk_batches_close(rows);
    lk_rollout_snapshot_unref(told);
    lk_rollout_snapshot_unref(snapshot);
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        add(s, after[i]);
    }
    assert_int_equal(lk_rollout_store_merge(s, &all, &report, &err), LK_OK);
    assert_int_equal(lk_rollout_collect(&env, lk_rollout_store_shard(s), 0, false, &collected, &err), LK_OK);
    assert_int_equal(collected.directories, 8);
    add(s, "h");
    lk_rollout_store_unref(s);
    return 0;
}

static int close_filled(void **state)
{
    lk_err err = {0};
    lk_buf_deinit(&list);
    lk_buf_deinit(&tail);
    lk_store_close(store);
    return lk_directory_remove(root, &err) == LK_OK ? 0 : -1;
}

/* Takes *snapshot. */
static lk_rc put_ids(lk_rollout_snapshot *snapshot, const lk_rollout_key *after, lk_buf *out, lk_err *err)
{
    lk_rollout_query all = {.limit = UINT64_MAX, .order = LK_ROLLOUT_BY_ID, .after = after};
    lk_batches      *rows = NULL;
    lk_rc            rc = lk_rollout_query_open(snapshot, &all, &rows, err);
    for (bool more = rc == LK_OK; more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        for (int64_t i = 0; more && i < batch.length; i++) {
            lk_buf_format(out, "%.*s ", LK_FMT(fixture_id(&batch, i)));
        }
        lk_array_release(&batch);
    }
    lk_batches_close(rows);
    lk_rollout_snapshot_unref(snapshot);
    return rc;
}

static lk_rc resume(lk_rollout_store *s, lk_buf *ids, lk_err *err)
{
    lk_arena             arena = {0};
    lk_rollout_snapshot *snapshot = NULL;
    lk_rollout_key       after;
    lk_buf_clear(ids);
    lk_rc rc = lk_rollout_store_resume(s, lk_buf_view(&list), &query, &arena, &snapshot, &after, err);
    rc = rc == LK_OK ? put_ids(snapshot, &after, ids, err) : rc;
    lk_arena_close(&arena);
    return rc;
}

static lk_rc follow(lk_rollout_store *s, lk_buf *ids, lk_err *err)
{
    lk_rollout_snapshot *told = NULL;
    lk_buf               next = {0};
    lk_buf_clear(ids);
    lk_rc rc = lk_rollout_store_tail(s, lk_buf_view(&tail), 0, NULL, &told, &next, err);
    rc = rc == LK_OK ? put_ids(told, NULL, ids, err) : rc;
    lk_buf_deinit(&next);
    return rc;
}

/* False when the read met no fault. */
static bool round_of(lk_rc (*read)(lk_rollout_store *s, lk_buf *ids, lk_err *err), const char *expected,
    lk_fault kind, int64_t calls_until)
{
    lk_fault_plan plan;
    lk_store     *under = NULL;
    lk_lance_env  faulty = env;
    lk_buf        ids = {0};
    lk_err        err = {0};
    lk_fault_plan_init(&plan);
    assert_int_equal(lk_local_store_open(&under, lk_bytes_of(root), false, &err), LK_OK);
    faulty.store = lk_faulty_store_new(under, &plan);
    lk_rollout_store *s = open_store(&faulty, false);
    assert_non_null(s);
    lk_fault_plan_arm(&plan, kind, calls_until);
    lk_rc rc = read(s, &ids, &err);
    bool  fired = lk_fault_plan_fired(&plan);
    lk_fault_plan_arm(&plan, kind, -1);
    assert_int_equal(rc == LK_OK, !fired);
    assert_true(rc == LK_OK || (rc != LK_E_SNAPSHOT_GONE && rc != LK_E_INVALID_REQUEST)); /* it is there */
    err = (lk_err){0};
    if (read(s, &ids, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    assert_string_equal(ids.data, expected);
    lk_rollout_store_unref(s);
    lk_store_close(faulty.store);
    lk_fault_plan_deinit(&plan);
    lk_buf_deinit(&ids);
    return fired;
}

static void all_rounds(lk_rc (*read)(lk_rollout_store *s, lk_buf *ids, lk_err *err), const char *expected)
{
    const lk_fault kinds[] = {LK_FAULT_LOST, LK_FAULT_DENIED};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int64_t calls = 0;
        while (round_of(read, expected, kinds[i], calls)) {
            calls++;
            assert_true(calls < 400);
        }
        assert_true(calls >= 8);
    }
}

static void a_page_goes_on_after_any_fault(void **state)
{
    all_rounds(resume, "d e ");
}

static void a_tail_goes_on_after_any_fault(void **state)
{
    all_rounds(follow, "aa f g h ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_goes_on_after_any_fault),
        cmocka_unit_test(a_tail_goes_on_after_any_fault),
    };
    return cmocka_run_group_tests_name("resume", tests, open_filled, close_filled);
}
