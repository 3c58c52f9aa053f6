/* sql_info_test.c - the answers are valid Arrow, of the kinds that enum SqlInfo of FlightSql.proto (Apache Arrow)
 * demands, and only those asked for. */
#include "query/discover.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { TEXT, BOOLEAN, BIGINT, INTEGER, TEXTS, MAP };

typedef struct answers {
    lk_batches           *rows;
    struct ArrowArray     batch;
    struct ArrowArrayView view;
} answers;

static void open_answers(answers *a, const uint32_t *ids, size_t count)
{
    lk_err err = {0};
    *a = (answers){.rows = lk_sql_info_rows(ids, count)};
    assert_int_equal(lk_batches_next(a->rows, &a->batch, &err), LK_OK);
    if (a->batch.release != NULL) {
        assert_int_equal(ArrowArrayViewInitFromSchema(&a->view, &a->rows->schema, NULL), NANOARROW_OK);
        assert_int_equal(ArrowArrayViewSetArray(&a->view, &a->batch, NULL), NANOARROW_OK);
        assert_int_equal(
            ArrowArrayViewValidate(&a->view, NANOARROW_VALIDATION_LEVEL_FULL, NULL), NANOARROW_OK);
    }
}

static void close_answers(answers *a)
{
    if (a->batch.release != NULL) {
        ArrowArrayViewReset(&a->view);
        lk_array_release(&a->batch);
    }
    lk_batches_close(a->rows);
}

static int64_t id_at(const answers *a, int64_t row)
{
    return ArrowArrayViewGetIntUnsafe(a->view.children[0], row);
}

static int kind_at(const answers *a, int64_t row)
{
    return ArrowArrayViewUnionChildIndex(a->view.children[1], row);
}

static int64_t number_at(const answers *a, int64_t row)
{
    const struct ArrowArrayView *value = a->view.children[1];
    return ArrowArrayViewGetIntUnsafe(
        value->children[kind_at(a, row)], ArrowArrayViewUnionChildOffset(value, row));
}

static void all_answers_ascend_and_have_the_kind_of_their_id(void **state)
{
    (void)state;
    /* Of the specification, where it says: string, bool, int32 bitmask, int64, list<string>, map. */
    static const struct {
        uint32_t id;
        int      kind;
    } kinds[] = {{0, TEXT}, {1, TEXT}, {2, TEXT}, {3, BOOLEAN}, {4, BOOLEAN}, {5, BOOLEAN}, {8, INTEGER},
        {9, BOOLEAN}, {10, BOOLEAN}, {11, BOOLEAN}, {100, INTEGER}, {101, INTEGER}, {500, BOOLEAN},
        {501, BOOLEAN}, {502, BOOLEAN}, {503, INTEGER}, {504, TEXT}, {505, INTEGER}, {506, BOOLEAN},
        {507, INTEGER}, {508, TEXTS}, {509, TEXTS}, {510, TEXTS}, {511, TEXTS}, {512, TEXTS}, {513, TEXT},
        {514, TEXT}, {515, BOOLEAN}, {516, BOOLEAN}, {517, MAP}, {518, BOOLEAN}, {519, BOOLEAN},
        {520, BOOLEAN}, {521, BOOLEAN}, {522, INTEGER}, {523, BOOLEAN}, {524, BOOLEAN}, {525, INTEGER},
        {526, INTEGER}, {527, BOOLEAN}, {528, INTEGER}, {529, TEXT}, {531, TEXT}, {532, BOOLEAN},
        {533, INTEGER}, {534, INTEGER}, {535, INTEGER}, {536, BOOLEAN}, {537, BOOLEAN}, {538, INTEGER},
        {539, BOOLEAN}, {540, INTEGER}, {541, BIGINT}, {542, BIGINT}, {543, BIGINT}, {544, BIGINT},
        {562, INTEGER}, {563, BOOLEAN}, {564, INTEGER}, {565, BOOLEAN}, {566, BOOLEAN}, {567, INTEGER},
        {572, BOOLEAN}, {573, BOOLEAN}, {574, BOOLEAN}, {575, BOOLEAN}, {576, BOOLEAN}};
    answers a;
    size_t  checked = 0;
    open_answers(&a, NULL, 0);
    for (int64_t row = 0; row < a.batch.length; row++) {
        assert_true(row == 0 || id_at(&a, row - 1) < id_at(&a, row));
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            if (kinds[i].id == id_at(&a, row)) {
                assert_int_equal(kind_at(&a, row), kinds[i].kind);
                checked++;
            }
        }
    }
    assert_int_equal(checked, sizeof kinds / sizeof kinds[0]);
    close_answers(&a);
}

static void only_what_was_asked_for_is_answered_and_unknown_ids_are_not(void **state)
{
    (void)state;
    const uint32_t ids[] = {9, 3, 99999, 8, 3};
    answers        a;
    open_answers(&a, ids, 5);
    assert_int_equal(a.batch.length, 3);
    assert_int_equal(id_at(&a, 0), 3);
    assert_int_equal(number_at(&a, 0), 1); /* SQL is read-only */
    assert_int_equal(id_at(&a, 1), 8);
    assert_int_equal(number_at(&a, 1), 0); /* SQL_SUPPORTED_TRANSACTION_NONE */
    assert_int_equal(id_at(&a, 2), 9);
    assert_int_equal(number_at(&a, 2), 1); /* running statements can be cancelled */
    close_answers(&a);

    const uint32_t unknown = 99999;
    open_answers(&a, &unknown, 1);
    assert_null(a.batch.release);
    close_answers(&a);
}

static void the_server_says_its_name(void **state)
{
    (void)state;
    const uint32_t name = 0;
    answers        a;
    open_answers(&a, &name, 1);
    struct ArrowStringView text = ArrowArrayViewGetStringUnsafe(a.view.children[1]->children[TEXT], 0);
    assert_int_equal(text.size_bytes, 4);
    assert_memory_equal(text.data, "lake", 4);
    close_answers(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_answers_ascend_and_have_the_kind_of_their_id),
        cmocka_unit_test(only_what_was_asked_for_is_answered_and_unknown_ids_are_not),
        cmocka_unit_test(the_server_says_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
