/* admit_test.c - repeated records, other records with an id that is taken, and several adds in one group. */
#include "rollout/admit.h"

#include "rollout/records_json.h"
#include "rollout/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { ADDS_MAX = 4 };

typedef struct group {
    lk_rollout_add     adds[ADDS_MAX];
    lk_rollout_request requests[ADDS_MAX];
    bool               has_time[ADDS_MAX][16];
    size_t             count;
} group;

/* Another add, whose records are lines of JSON. */
static void with(group *g, const char *lines)
{
    lk_err            err = {0};
    lk_records       *r = NULL;
    struct ArrowArray batch = {0};
    size_t            i = g->count++;
    assert_int_equal(lk_records_open(77000000, NULL, &r, &err), LK_OK);
    assert_int_equal(lk_records_read_ndjson(r, lk_bytes_of(lines), &err), LK_OK);
    for (size_t row = 0; row < lk_records_count(r); row++) {
        g->has_time[i][row] = lk_records_has_time(r, row);
    }
    assert_int_equal(lk_records_finish(r, false, &batch, &err), LK_OK);
    lk_records_close(r);
    int64_t length = batch.length;
    g->requests[i] = (lk_rollout_request){lk_array_share(&batch), g->has_time[i], 0, length};
    g->adds[i] = (lk_rollout_add){.what = &g->requests[i]};
    if (i > 0) {
        g->adds[i - 1].next = &g->adds[i];
    }
}

/* The ids that are written, and "!" for every add that is refused. */
static void expect(group *g, lk_rollout_conflict policy, const char *expected)
{
    lk_err               err = {0};
    lk_arena             arena = {0};
    lk_buf               text = {0};
    lk_generation_rows   rows = {0};
    lk_rollout_snapshot *snapshot = NULL;
    assert_int_equal(lk_rollout_view_take(fixture.view, &snapshot, &err), LK_OK);
    assert_int_equal(lk_rollout_admit(snapshot, policy, g->adds, &arena, &rows, &err), LK_OK);
    size_t total = 0;
    for (size_t i = 0; i < rows.batch_count; i++) {
        const struct ArrowArray *batch = lk_shared_array_get(rows.batches[i]);
        assert_int_equal(lk_array_validate(rows.schema, batch, &err), LK_OK);
        total += (size_t)batch->length;
    }
    assert_int_equal(total, rows.row_count);
    for (size_t i = 0; i < rows.row_count; i++) {
        lk_buf_format(&text, "%.*s ", LK_FMT(rows.ids[i]));
    }
    for (size_t i = 0; i < g->count; i++) {
        lk_buf_append_text(&text, g->adds[i].rc == LK_OK ? "" : "!");
        lk_shared_array_unref(g->requests[i].records);
    }
    assert_string_equal(text.size == 0 ? "" : text.data, expected);
    for (size_t i = 0; i < rows.batch_count; i++) {
        lk_shared_array_unref(rows.batches[i]);
    }
    lk_rollout_snapshot_unref(snapshot);
    lk_buf_deinit(&text);
    lk_arena_close(&arena);
}

#define REC(id, more) "{\"id\":\"" id "\",\"rollout_id\":\"r\"" more "}\n"

/* a and b in the base table, c (with a payload) and d in a generation. */
static int open_filled(void **state)
{
    if (fixture_open_store(state) != 0) {
        return -1;
    }
    lk_rollout_writer *writer = fixture_writer("rollout-0");
    fixture_append_to_base(REC("a", ",\"reward\":1") REC("b", ",\"created_at\":\"2026-01-01T00:00:00Z\""));
    fixture_add(writer, REC("c", ",\"binary_payload\":\"AAEC\"") REC("d", ""));
    lk_rollout_writer_free(writer);
    return 0;
}

static void a_record_that_is_there_already_is_left_out(void **state)
{
    group g = {0};
    with(&g, REC("a", ",\"reward\":1.0") REC("x", "") REC("d", "") REC("c", ",\"binary_payload\":\"AAEC\""));
    with(&g, REC("b", ",\"created_at\":\"2026-01-01T01:00:00+01:00\"")); /* the same instant */
    expect(&g, LK_ROLLOUT_CONFLICT_REFUSE, "x ");
}

static void another_record_with_a_taken_id_is_a_conflict(void **state)
{
    static const char *const others[] = {REC("a", ",\"reward\":2"), REC("a", ""),
        REC("b", ",\"created_at\":\"2026-01-02T00:00:00Z\""), REC("c", ",\"binary_payload\":\"AAED\""),
        REC("c", ""), REC("d", ",\"role\":\"tool\"")};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        group refused = {0}, kept = {0}, accepted = {0};
        char  id[4] = {others[i][7], ' ', '\0'};
        with(&refused, others[i]);
        expect(&refused, LK_ROLLOUT_CONFLICT_REFUSE, "!");
        assert_int_equal(refused.adds[0].rc, LK_E_CONFLICT);
        assert_non_null(strchr(refused.adds[0].err.detail, id[0]));
        with(&kept, others[i]);
        expect(&kept, LK_ROLLOUT_CONFLICT_KEEP, "");
        with(&accepted, others[i]);
        expect(&accepted, LK_ROLLOUT_CONFLICT_ACCEPT, id);
    }
}

static void twice_in_one_request_is_once_or_wrong(void **state)
{
    group once = {0}, wrong = {0};
    with(&once, REC("x", "") REC("y", "") REC("x", ""));
    expect(&once, LK_ROLLOUT_CONFLICT_REFUSE, "x y ");
    with(&wrong, REC("x", "") REC("x", ",\"reward\":1"));
    expect(&wrong, LK_ROLLOUT_CONFLICT_ACCEPT, "!");
    assert_int_equal(wrong.adds[0].rc, LK_E_INVALID_REQUEST);
}

static void adds_of_a_group_are_told_apart(void **state)
{
    group g = {0};
    with(&g, REC("x", "") REC("a", ",\"reward\":9")); /* refused, so its x is nobody's */
    with(&g, REC("x", ",\"reward\":1") REC("y", ""));
    with(&g, REC("x", "")); /* not the x of the second */
    with(&g, REC("y", "") REC("z", ""));
    expect(&g, LK_ROLLOUT_CONFLICT_REFUSE, "x y z !!");
    assert_int_equal(g.adds[0].rc, LK_E_CONFLICT);
    assert_int_equal(g.adds[1].rc, LK_OK);
    assert_int_equal(g.adds[2].rc, LK_E_CONFLICT);
    assert_int_equal(g.adds[3].rc, LK_OK);
}

static void lists_of_tokens_are_as_long_as_they_must_be(void **state)
{
    static const char *const wrong[] = {REC("x", ",\"output_tokens\":[1,2],\"output_logprobs\":[-1]"),
        REC("x", ",\"output_tokens\":[1,2],\"loss_mask\":[1,1,1]"), REC("x", ",\"ref_logprobs\":[-1]")};
    group                    right = {0};
    with(&right,
        REC("x", "") REC("y", ",\"output_tokens\":[1,2],\"output_logprobs\":[-1,-2],\"loss_mask\":[1,0]")
            REC("z", ",\"output_tokens\":[1],\"ref_logprobs\":[]"));
    lk_err err = {0};
    assert_int_equal(lk_rollout_check_alignment(&right.requests[0], &err), LK_E_INVALID_REQUEST);
    assert_non_null(strstr(err.detail, "record 2: ref_logprobs has 0 values and output_tokens 1"));
    lk_shared_array_unref(right.requests[0].records);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        group g = {0};
        err = (lk_err){0};
        with(&g, wrong[i]);
        assert_int_equal(lk_rollout_check_alignment(&g.requests[0], &err), LK_E_INVALID_REQUEST);
        lk_shared_array_unref(g.requests[0].records);
    }
    group fine = {0};
    err = (lk_err){0};
    with(&fine,
        REC("x", "") REC("y", ",\"output_tokens\":[1,2],\"output_logprobs\":[-1,-2],\"loss_mask\":[1,0]"));
    assert_int_equal(lk_rollout_check_alignment(&fine.requests[0], &err), LK_OK);
    lk_shared_array_unref(fine.requests[0].records);
}

static void an_add_that_was_refused_before_stays_refused_and_its_rows_are_nobodys(void **state)
{
    (void)state;
    group g = {0};
    with(&g, REC("x", ""));
    with(&g, REC("x", ",\"reward\":1") REC("y", ""));
    g.adds[0].rc = lk_refuse(&g.adds[0].err, LK_E_INVALID_REQUEST, "for a reason of the caller's");
    expect(&g, LK_ROLLOUT_CONFLICT_REFUSE, "x y !");
    assert_int_equal(g.adds[0].rc, LK_E_INVALID_REQUEST);
}

static void only_the_records_of_the_add_itself_are_measured(void **state)
{
    (void)state;
    group  g = {0};
    lk_err err = {0};
    with(&g, REC("x", "") REC("y", ",\"ref_logprobs\":[-1]") REC("z", ""));
    lk_rollout_request parts[] = {g.requests[0], g.requests[0], g.requests[0]};
    for (int i = 0; i < 3; i++) {
        parts[i].first = i;
        parts[i].count = 1;
    }
    assert_int_equal(lk_rollout_check_alignment(&parts[0], &err), LK_OK);
    assert_int_equal(lk_rollout_check_alignment(&parts[1], &err), LK_E_INVALID_REQUEST);
    assert_non_null(strstr(err.detail, "record 0: ref_logprobs"));
    assert_int_equal(lk_rollout_check_alignment(&parts[2], &err), LK_OK);
    lk_shared_array_unref(g.requests[0].records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_that_is_there_already_is_left_out),
        cmocka_unit_test(another_record_with_a_taken_id_is_a_conflict),
        cmocka_unit_test(twice_in_one_request_is_once_or_wrong),
        cmocka_unit_test(adds_of_a_group_are_told_apart),
        cmocka_unit_test(lists_of_tokens_are_as_long_as_they_must_be),
        cmocka_unit_test(an_add_that_was_refused_before_stays_refused_and_its_rows_are_nobodys),
        cmocka_unit_test(only_the_records_of_the_add_itself_are_measured),
    };
    return cmocka_run_group_tests_name("admit", tests, open_filled, fixture_close_store);
}
