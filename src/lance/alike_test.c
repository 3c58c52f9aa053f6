/* alike_test.c - tables made alike give their own rows, whatever they share; tables that differ are left to a scan. */
#include "lance/alike.h"
#include "lance/alter.h"
#include "lance/commit.h"
#include "lance/manifest.h"
#include "lance/row_set.h"
#include "lance/table_fixture.h"

#include "arrow/schema.h"
#include "base/thread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Version 1 + appends of a new table of rows first, first + 1 ..; the caller closes the store behind *env. */
typedef struct table {
    fixture_scratch scratch;
    lk_lance_env    env;
    lk_dataset     *dataset;
} table;

static void make(table *t, int64_t first, int64_t rows, int64_t appends, const lk_dataset *like)
{
    lk_err   err = {0};
    lk_arena arena = {0};
    t->env = fixture_env(fixture_scratch_open(&t->scratch));
    fixture_table(&t->env, first, rows, appends);
    lk_bytes key = lk_manifest_key((uint64_t)appends + 1, LK_MANIFEST_V2, &arena);
    if (lk_dataset_open_like(&t->env, key, like, &t->dataset, &err) != LK_OK) {
        fail_msg("open: %s", err.context);
    }
    lk_arena_close(&arena);
}

static void drop(table *t)
{
    lk_dataset_unref(t->dataset);
    lk_store_close(t->env.store);
    fixture_scratch_remove(&t->scratch);
}

static lk_alike *alike_of(table *t)
{
    lk_err             err = {0};
    lk_alike          *alike = NULL;
    struct ArrowSchema to = {0};
    fixture_schema(&to);
    assert_int_equal(lk_alike_new(t->dataset, &to, &alike, &err), LK_OK);
    lk_schema_release(&to);
    return alike;
}

/* What table_fixture.h says of these rows. */
static void expect_rows(const struct ArrowArray *batch, int64_t first, int64_t rows)
{
    assert_int_equal(batch->length, rows);
    const struct ArrowArray *ids = batch->children[0], *names = batch->children[1];
    const int64_t           *id = (const int64_t *)ids->buffers[1] + ids->offset;
    const int32_t           *ends = names->buffers[1];
    const char              *text = names->buffers[2];
    for (int64_t row = 0; row < rows; row++) {
        char    expected[32];
        int64_t at = names->offset + row;
        bool    valid = names->buffers[0] == NULL || ArrowBitGet(names->buffers[0], at) != 0;
        assert_int_equal(id[row], first + row);
        assert_int_equal(valid, (first + row) % 5 != 3);
        if (valid) {
            int size = snprintf(expected, sizeof expected, "n%lld", (long long)(first + row));
            assert_int_equal(ends[at + 1] - ends[at], size);
            assert_memory_equal(text + ends[at], expected, (size_t)size);
        }
    }
}

static void expect_read(const lk_alike *alike, table *t, int64_t first, int64_t rows)
{
    lk_err            err = {0};
    bool              fits = false;
    struct ArrowArray batch = {0};
    assert_int_equal(lk_alike_read(alike, t->dataset, &fits, &batch, &err), LK_OK);
    assert_true(fits);
    expect_rows(&batch, first, rows);
    lk_array_release(&batch);
}

static void expect_unlike(const lk_alike *alike, table *t)
{
    lk_err            err = {0};
    bool              fits = true;
    struct ArrowArray batch = {0};
    assert_int_equal(lk_alike_read(alike, t->dataset, &fits, &batch, &err), LK_OK);
    assert_false(fits);
    assert_null(batch.release);
}

static void tables_alike_give_their_own_rows(void **state)
{
    (void)state;
    table a = {0}, b = {0}, c = {0};
    make(&a, 10, 5, 1, NULL);
    make(&b, 20, 5, 1, a.dataset);
    make(&c, 31, 9, 1, a.dataset);
    assert_ptr_equal(lk_dataset_schema(a.dataset), lk_dataset_schema(b.dataset));
    lk_alike *alike = alike_of(&a);
    assert_non_null(alike);
    expect_read(alike, &a, 10, 5);
    expect_read(alike, &b, 20, 5);
    expect_read(alike, &c, 31, 9);
    lk_alike_free(alike);
    drop(&c);
    drop(&b);
    drop(&a);
}

static void a_column_of_nulls_is_not_taken_for_one_of_values_or_of_more_rows(void **state)
{
    (void)state;
    table a = {0}, nulls = {0}, values = {0}, more = {0};
    make(&a, 3, 1, 1, NULL); /* its name is null */
    make(&nulls, 8, 1, 1, a.dataset);
    make(&values, 9, 1, 1, a.dataset);
    make(&more, 13, 2, 1, a.dataset);
    lk_alike *alike = alike_of(&a);
    assert_non_null(alike);
    expect_read(alike, &nulls, 8, 1);
    expect_read(alike, &values, 9, 1);
    expect_read(alike, &more, 13, 2);
    lk_alike_free(alike);
    drop(&more);
    drop(&values);
    drop(&nulls);
    drop(&a);
}

static void a_table_of_several_files_is_left_to_a_scan(void **state)
{
    (void)state;
    table a = {0}, two = {0};
    make(&a, 0, 2, 1, NULL);
    make(&two, 0, 2, 2, a.dataset);
    lk_alike *alike = alike_of(&a);
    expect_unlike(alike, &two);
    assert_null(alike_of(&two));
    lk_alike_free(alike);
    drop(&two);
    drop(&a);
}

static void a_table_with_deletions_is_left_to_a_scan(void **state)
{
    (void)state;
    table       a = {0}, b = {0};
    lk_err      err = {0};
    lk_dataset *whole = NULL;
    lk_row_set *rows = lk_row_set_new();
    make(&a, 0, 2, 1, NULL);
    make(&b, 0, 2, 1, a.dataset);
    whole = b.dataset;
    lk_row_set_add(rows, (const uint64_t[]){1}, 1);
    assert_int_equal(lk_dataset_delete_rows(whole, lk_direct_committer(), rows, LK_LITERAL("row 1"), NULL,
                         NULL, &b.dataset, &err),
        LK_OK);
    lk_dataset *deleted = b.dataset;
    lk_arena    arena = {0};
    lk_bytes    key = lk_manifest_key(3, LK_MANIFEST_V2, &arena);
    assert_int_equal(lk_dataset_open_like(&b.env, key, a.dataset, &b.dataset, &err), LK_OK);
    lk_alike *alike = alike_of(&a);
    assert_int_equal(lk_dataset_row_count(b.dataset), 1);
    expect_unlike(alike, &b);
    assert_null(alike_of(&b));
    lk_alike_free(alike);
    lk_arena_close(&arena);
    lk_row_set_free(rows);
    lk_dataset_unref(deleted);
    lk_dataset_unref(whole);
    drop(&b);
    drop(&a);
}

static void another_schema_is_not_shared(void **state)
{
    (void)state;
    table a = {0}, b = {0};
    make(&a, 0, 2, 1, NULL);
    make(&b, 0, 2, 1, NULL); /* equal, but read by itself */
    lk_alike *alike = alike_of(&a);
    expect_unlike(alike, &b);
    struct ArrowSchema to = {0};
    lk_alike          *other = NULL;
    lk_err             err = {0};
    fixture_schema(&to);
    assert_int_equal(ArrowSchemaSetFormat(to.children[1], "U"), NANOARROW_OK);
    assert_int_equal(lk_alike_new(a.dataset, &to, &other, &err), LK_OK);
    assert_null(other);
    assert_int_equal(ArrowSchemaSetName(to.children[1], "absent"), NANOARROW_OK);
    assert_int_equal(lk_alike_new(a.dataset, &to, &other, &err), LK_OK);
    assert_null(other);
    lk_schema_release(&to);
    lk_alike_free(alike);
    drop(&b);
    drop(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_alike_give_their_own_rows),
        cmocka_unit_test(a_column_of_nulls_is_not_taken_for_one_of_values_or_of_more_rows),
        cmocka_unit_test(a_table_of_several_files_is_left_to_a_scan),
        cmocka_unit_test(a_table_with_deletions_is_left_to_a_scan),
        cmocka_unit_test(another_schema_is_not_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
