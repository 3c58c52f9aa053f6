/* rows_test.c - small answers: batch sizes, the row limit, failures, and that a source is closed once. */
#include "query/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct counting {
    int64_t at, end, fail_at; /* fail_at: -1 never */
    int     closed;
} counting;

static lk_rc next_number(void *context, struct ArrowArray *batch, bool *more, lk_err *err)
{
    counting *c = context;
    if (c->at == c->fail_at) {
        return lk_fail(err, LK_E_IO, "at %lld", (long long)c->at);
    }
    *more = c->at < c->end;
    if (*more) {
        lk_row_int(batch->children[0], c->at);
        lk_row_text(batch->children[1], c->at % 2 == 0 ? LK_LITERAL("even") : (lk_bytes){0});
        c->at++;
    }
    return LK_OK;
}

static void note_close(void *context)
{
    ((counting *)context)->closed++;
}

static lk_batches *open_rows(counting *c, uint64_t rows_max)
{
    static const lk_row_column columns[] = {
        {"n", NANOARROW_TYPE_INT64, false}, {"s", NANOARROW_TYPE_STRING, true}};
    struct ArrowSchema schema = {0};
    lk_rows_schema(columns, 2, &schema);
    return lk_rows_open(&schema, (lk_row_source){next_number, note_close, c}, rows_max);
}

/* Reads to the end or to a failure; checks values; returns the rows. */
static int64_t read_all(lk_batches *rows, lk_rc *rc)
{
    lk_err  err = {0};
    int64_t total = 0;
    for (;;) {
        struct ArrowArray     batch = {0};
        struct ArrowArrayView view;
        *rc = lk_batches_next(rows, &batch, &err);
        if (*rc != LK_OK || batch.release == NULL) {
            assert_null(batch.release);
            return total;
        }
        assert_in_range(batch.length, 1, LK_ROWS_BATCH);
        assert_int_equal(ArrowArrayViewInitFromSchema(&view, &rows->schema, NULL), NANOARROW_OK);
        assert_int_equal(ArrowArrayViewSetArray(&view, &batch, NULL), NANOARROW_OK);
        assert_int_equal(ArrowArrayViewValidate(&view, NANOARROW_VALIDATION_LEVEL_FULL, NULL), NANOARROW_OK);
        for (int64_t i = 0; i < batch.length; i++, total++) {
            assert_int_equal(ArrowArrayViewGetIntUnsafe(view.children[0], i), total);
            assert_int_equal(ArrowArrayViewIsNull(view.children[1], i), total % 2);
        }
        ArrowArrayViewReset(&view);
        lk_array_release(&batch);
    }
}

static void rows_come_in_batches_and_the_source_is_closed_once(void **state)
{
    (void)state;
    static const int64_t sizes[] = {
        0, 1, LK_ROWS_BATCH - 1, LK_ROWS_BATCH, LK_ROWS_BATCH + 1, 3 * LK_ROWS_BATCH};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        counting    c = {.end = sizes[i], .fail_at = -1};
        lk_rc       rc = LK_OK;
        lk_batches *rows = open_rows(&c, UINT64_MAX);
        assert_int_equal(read_all(rows, &rc), sizes[i]);
        assert_int_equal(rc, LK_OK);
        assert_int_equal(read_all(rows, &rc), 0); /* the end stays the end */
        lk_batches_close(rows);
        assert_int_equal(c.closed, 1);
    }
}

static void exactly_the_limit_is_allowed_and_one_more_is_an_error_after_the_last(void **state)
{
    (void)state;
    static const int64_t limits[] = {1, LK_ROWS_BATCH - 1, LK_ROWS_BATCH, LK_ROWS_BATCH + 1};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        for (int64_t beyond = 0; beyond < 2; beyond++) {
            counting    c = {.end = limits[i] + beyond, .fail_at = -1};
            lk_rc       rc = LK_OK;
            lk_batches *rows = open_rows(&c, (uint64_t)limits[i]);
            assert_int_equal(read_all(rows, &rc), limits[i]);
            assert_int_equal(rc, beyond == 0 ? LK_OK : LK_E_DISCOVERY_ROWS);
            lk_batches_close(rows);
        }
    }
}

static void a_failure_of_the_source_is_passed_on_and_leaks_nothing(void **state)
{
    (void)state;
    for (int64_t fail_at = 0; fail_at < 600; fail_at += 199) {
        counting    c = {.end = 600, .fail_at = fail_at};
        lk_rc       rc = LK_OK;
        lk_batches *rows = open_rows(&c, UINT64_MAX);
        assert_int_equal(read_all(rows, &rc), fail_at / LK_ROWS_BATCH * LK_ROWS_BATCH);
        assert_int_equal(rc, LK_E_IO);
        lk_batches_close(rows);
        assert_int_equal(c.closed, 1);
    }
}

static void an_empty_answer_has_its_schema(void **state)
{
    (void)state;
    static const lk_row_column columns[] = {
        {"a", NANOARROW_TYPE_INT32, false}, {"l", NANOARROW_TYPE_LIST, true}};
    struct ArrowSchema schema = {0};
    lk_rc              rc = LK_OK;
    lk_rows_schema(columns, 2, &schema);
    lk_batches *rows = lk_rows_none(&schema);
    assert_string_equal(rows->schema.children[0]->format, "i");
    assert_int_equal(rows->schema.children[0]->flags, 0);
    assert_string_equal(rows->schema.children[1]->format, "+l");
    assert_string_equal(rows->schema.children[1]->children[0]->format, "u");
    assert_int_equal(read_all(rows, &rc), 0);
    lk_batches_close(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_in_batches_and_the_source_is_closed_once),
        cmocka_unit_test(exactly_the_limit_is_allowed_and_one_more_is_an_error_after_the_last),
        cmocka_unit_test(a_failure_of_the_source_is_passed_on_and_leaks_nothing),
        cmocka_unit_test(an_empty_answer_has_its_schema),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
