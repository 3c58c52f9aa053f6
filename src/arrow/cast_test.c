/*
 * cast_test.c - what casts share, refuse and report (cast.h). The values themselves are compared with pyarrow's
 * by tests/interop/test_arrow_cast.py.
 */
#include "arrow/cast.h"

#include "arrow/array_fixture.h"
#include "arrow/array_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* after the above: cmocka.h needs them */
#include <cmocka.h>

static const int64_t NUMBERS[] = {1, 300, NONE, 4};

static struct ArrowArray one_column(struct ArrowArray column)
{
    struct ArrowArray batch;
    lk_batch_of_columns(&column, 1, column.length, &batch);
    return batch;
}

static void a_column_that_needs_no_cast_is_shared_not_copied(void **state)
{
    struct ArrowSchema from = make_schema((const char *[]){"a:int64?", NULL}),
                       to = make_schema((const char *[]){"a:int64?", "b:utf8?", NULL});
    struct ArrowArray batch = one_column(make_integers("int64?", NUMBERS, 4)), out;
    const void       *data = batch.children[0]->buffers[1];
    lk_err            err = {0};
    lk_shared_array  *shared = lk_array_share(&batch);
    assert_int_equal(lk_batch_cast(&from, shared, &to, 0, &out, &err), LK_OK);
    lk_shared_array_unref(shared);
    assert_ptr_equal(out.children[0]->buffers[1], data);
    assert_values(&to, &out, "{1,null} {300,null} {null,null} {4,null}");
    lk_array_release(&out);
    lk_schema_release(&from);
    lk_schema_release(&to);
}

static void a_sliced_batch_is_cast_within_its_slice(void **state)
{
    struct ArrowSchema from = make_schema((const char *[]){"a:int64?", NULL}),
                       to = make_schema((const char *[]){"a:uint8?", NULL});
    struct ArrowArray batch = one_column(make_integers("int64?", NUMBERS, 4)), slice, out;
    lk_err            err = {0};
    lk_shared_array  *whole = lk_array_share(&batch);
    lk_shared_array_slice(whole, 2, 2, &slice); /* without 300, which does not fit */
    lk_shared_array *shared = lk_array_share(&slice);
    assert_int_equal(lk_batch_cast(&from, shared, &to, 0, &out, &err), LK_OK);
    assert_values(&to, &out, "{null} {4}");
    lk_array_release(&out);
    assert_int_equal(lk_batch_cast(&from, whole, &to, 1000, &out, &err), LK_E_SCHEMA_MISMATCH);
    assert_string_equal(err.detail, "column 'a', row 1001: the value does not fit the column's type");
    assert_null(out.release);
    lk_shared_array_unref(shared);
    lk_shared_array_unref(whole);
    lk_schema_release(&from);
    lk_schema_release(&to);
}

static void pairs_without_a_meaning_are_refused_by_type(void **state)
{
    static const char *const pairs[][3] = {{"x:int64", "x:utf8", "column 'x': int64 cannot become utf8"},
        {"x:int64", "x:timestamp[us]", "column 'x': int64 cannot become timestamp[us]"},
        {"x:list<int8>", "x:int8", "column 'x': list<int8> cannot become int8"},
        {"x:float64", "x:bool", "column 'x': float64 cannot become bool"},
        {"x:struct<a:utf8>", "x:struct<a:list<utf8>>", "column 'x': utf8 cannot become list<utf8>"},
        {"x:map<utf8,int8>", "x:list<int8>", "column 'x': map<utf8,int8> cannot become list<int8>"},
        {"x:utf8", "x:month_interval", "column 'x': utf8 cannot become month_interval"},
        {"x:struct<a:int8,b:int8>", "x:struct<a:int8>", "column 'x' has a member that is not in the table"},
        {"x:struct<a:int8>", "x:struct<a:int8,b:int8>", "column 'x' lacks a member that is not nullable"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct ArrowSchema from = make_schema((const char *[]){pairs[i][0], NULL});
        struct ArrowSchema to = make_schema((const char *[]){pairs[i][1], NULL});
        lk_err             err = {0};
        assert_int_equal(lk_schema_castable(&from, &to, &err), LK_E_SCHEMA_MISMATCH);
        assert_string_equal(err.detail, pairs[i][2]);
        lk_schema_release(&from);
        lk_schema_release(&to);
    }
}

static void nulls_under_null_parents_are_nobodys(void **state)
{
    static const uint8_t valid[] = {1};
    static const int64_t values[] = {7, NONE};
    struct ArrowSchema   schema = make_schema((const char *[]){"s:struct<a:int64>?", NULL});
    struct ArrowArray    inner = make_integers("int64?", values, 2), outer, batch;
    lk_err               err = {0};
    lk_array_start(&outer, 2, 1, 1, false);
    lk_array_move(&inner, outer.children[0]);
    lk_array_borrow(&outer, 0, valid);
    outer.null_count = 1;
    lk_batch_of_columns(&outer, 1, 2, &batch);
    assert_int_equal(lk_batch_check_nulls(&schema, &batch, 0, &err), LK_OK);
    batch.children[0]->buffers[0] = NULL; /* now both rows are there */
    batch.children[0]->null_count = 0;
    assert_int_equal(lk_batch_check_nulls(&schema, &batch, 10, &err), LK_E_SCHEMA_MISMATCH);
    assert_string_equal(err.detail, "column 's', row 11: null inside it, but it is not nullable");
    lk_array_release(&batch);
    lk_schema_release(&schema);
}

static void a_bitmap_without_nulls_forbids_nothing(void **state)
{
    static const uint8_t valid[] = {0x0F};
    struct ArrowSchema   schema = make_schema((const char *[]){"a:int64", NULL});
    struct ArrowArray    column = make_integers("int64", (const int64_t[]){1, 2, 3, 4}, 4), batch;
    lk_err               err = {0};
    column.null_count = -1;
    column.buffers[0] = valid;
    lk_batch_of_columns(&column, 1, 4, &batch);
    assert_int_equal(lk_batch_check_nulls(&schema, &batch, 0, &err), LK_OK);
    lk_array_release(&batch);
    lk_schema_release(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_column_that_needs_no_cast_is_shared_not_copied),
        cmocka_unit_test(a_sliced_batch_is_cast_within_its_slice),
        cmocka_unit_test(pairs_without_a_meaning_are_refused_by_type),
        cmocka_unit_test(nulls_under_null_parents_are_nobodys),
        cmocka_unit_test(a_bitmap_without_nulls_forbids_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
