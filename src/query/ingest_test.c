/* ingest_test.c - a stream of any shape becomes operations within their bounds; a repeat adds nothing. */
#include "query/ingest.h"

#include "base/limits.h"
#include "query/authority_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct fixture {
    fake_authority authority;
    lk_ingest      ingest;
    lk_ingested    done;
    lk_err         err;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    fake_authority_init(&f->authority);
    fake_authority_add(&f->authority, "a", "t", "n:int64");
    fake_authority_add(&f->authority, "a", "wide", "n:int64 s:utf8?");
    f->ingest = (lk_ingest){.table = {{"a", 1}, {"t", 1}}, .if_exists = LK_IF_EXISTS_APPEND};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    fake_authority_deinit(&f->authority);
    free(f);
    return 0;
}

/* Batches of these sizes, ended by 0, with n counting from 0. */
static lk_batches *numbers(const int64_t *sizes)
{
    struct ArrowSchema schema = {0};
    struct ArrowArray  batches[8] = {0};
    size_t             count = 0;
    int64_t            n = 0;
    schema_of("n:int64", &schema);
    for (; sizes[count] > 0; count++) {
        assert_int_equal(ArrowArrayInitFromSchema(&batches[count], &schema, NULL), NANOARROW_OK);
        assert_int_equal(ArrowArrayStartAppending(&batches[count]), NANOARROW_OK);
        for (int64_t i = 0; i < sizes[count]; i++) {
            assert_int_equal(ArrowArrayAppendInt(batches[count].children[0], n++), NANOARROW_OK);
            assert_int_equal(ArrowArrayFinishElement(&batches[count]), NANOARROW_OK);
        }
        assert_int_equal(ArrowArrayFinishBuildingDefault(&batches[count], NULL), NANOARROW_OK);
    }
    return lk_batches_of(&schema, batches, count);
}

static lk_rc run(fixture *f, lk_batches *rows)
{
    f->err = (lk_err){0};
    lk_rc rc = lk_ingest_run(&f->authority.base, NULL, &f->ingest, rows, &f->done, &f->err);
    lk_batches_close(rows);
    return rc;
}

static lk_rc run_numbers(fixture *f, const int64_t *sizes)
{
    return run(f, numbers(sizes));
}

/* The sum of n in [first, first + count). */
static int64_t sum_of(int64_t first, int64_t count)
{
    return count * first + count * (count - 1) / 2;
}

static void rows_are_cut_into_operations_of_ten_thousand_in_order(void **state)
{
    fixture *f = *state;
    assert_int_equal(run_numbers(f, (const int64_t[]){7000, 1, 17999, 0}), LK_OK);
    assert_int_equal(f->done.rows, 25000);
    assert_int_equal(f->done.operations, 3);
    assert_int_equal(f->authority.operation_count, 3);
    static const int64_t rows[] = {10000, 10000, 5000};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(f->authority.operations[i].rows, rows[i]);
        assert_int_equal(f->authority.operations[i].sum, sum_of((int64_t)i * 10000, rows[i]));
    }
    assert_int_equal(f->authority.tables[0].version, 4);
}

static void every_operation_has_its_own_id_of_version_7_and_the_same_time(void **state)
{
    fixture *f = *state;
    assert_int_equal(run_numbers(f, (const int64_t[]){30001, 0}), LK_OK);
    assert_int_equal(f->authority.operation_count, 4);
    assert_string_equal(f->authority.operations[0].id, f->done.operation_id);
    lk_uuid first = {0}, id = {0};
    assert_true(lk_uuid_parse(lk_bytes_of(f->done.operation_id), &first));
    for (size_t i = 0; i < 4; i++) {
        assert_true(lk_uuid_parse(lk_bytes_of(f->authority.operations[i].id), &id));
        assert_int_equal(lk_uuid_version(id), 7);
        assert_int_equal(id.bytes[8] & 0xC0, 0x80);
        assert_int_equal(lk_uuid_v7_ms(id), lk_uuid_v7_ms(first));
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(f->authority.operations[i].id, f->authority.operations[j].id);
        }
    }
}

static void a_repeat_with_the_same_id_adds_nothing_however_far_the_first_came(void **state)
{
    fixture      *f = *state;
    const int64_t sizes[] = {12000, 13000, 0};
    f->ingest.operation_id = LK_LITERAL("01890a5d-ac96-774b-bcce-b302099a8057");
    for (int fail_at = 1; fail_at <= 3; fail_at++) {
        f->authority.operation_count = f->authority.append_calls = 0;
        f->authority.fail_append_at = fail_at;
        assert_int_equal(run_numbers(f, sizes), LK_E_AUTHORITY_UNAVAILABLE);
        assert_int_equal(f->done.rows, (fail_at - 1) * 10000);
        assert_int_equal(f->done.operations, fail_at - 1);
        assert_non_null(strstr(f->err.detail, "01890a5d-ac96-774b-bcce-b302099a8057"));
        char committed[64];
        (void)snprintf(committed, sizeof committed, "%d rows are committed", (fail_at - 1) * 10000);
        assert_non_null(strstr(f->err.detail, committed));

        assert_int_equal(run_numbers(f, sizes), LK_OK);
        assert_int_equal(f->authority.operation_count, 3);
        assert_int_equal(f->done.rows, 25000);
        assert_string_equal(f->authority.operations[0].id, "01890a5d-ac96-774b-bcce-b302099a8057");
    }
}

static void batches_cut_elsewhere_make_the_same_operations(void **state)
{
    fixture *f = *state;
    f->ingest.operation_id = LK_LITERAL("01890a5d-ac96-774b-bcce-b302099a8057");
    assert_int_equal(run_numbers(f, (const int64_t[]){25000, 0}), LK_OK);
    assert_int_equal(run_numbers(f, (const int64_t[]){1, 9999, 2, 14998, 0}), LK_OK);
    assert_int_equal(f->authority.operation_count, 3);
}

/* Texts of these sizes, one row each; n is the row's number. */
static lk_batches *texts(const size_t *sizes, size_t count)
{
    struct ArrowSchema schema = {0};
    struct ArrowArray  batch = {0};
    schema_of("n:int64 s:utf8?", &schema);
    assert_int_equal(ArrowArrayInitFromSchema(&batch, &schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&batch), NANOARROW_OK);
    for (size_t i = 0; i < count; i++) {
        char *text = malloc(sizes[i] + 1);
        memset(text, 'x', sizes[i]);
        assert_int_equal(ArrowArrayAppendInt(batch.children[0], (int64_t)i), NANOARROW_OK);
        assert_int_equal(
            ArrowArrayAppendString(batch.children[1], (struct ArrowStringView){text, (int64_t)sizes[i]}),
            NANOARROW_OK);
        assert_int_equal(ArrowArrayFinishElement(&batch), NANOARROW_OK);
        free(text);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), NANOARROW_OK);
    return lk_batches_of(&schema, &batch, 1);
}

static void large_rows_make_operations_of_few_and_uneven_ones_never_pass_the_bound(void **state)
{
    fixture *f = *state;
    enum { LARGE = 60, SMALL = 5000, MIB = 1024 * 1024 };
    size_t *sizes = calloc(LARGE + SMALL, sizeof *sizes);
    for (size_t i = 0; i < LARGE; i++) {
        sizes[i] = MIB;
    }
    f->ingest.table.name = LK_LITERAL("wide");
    assert_int_equal(run(f, texts(sizes, LARGE + SMALL)), LK_OK);
    assert_int_equal(f->done.rows, LARGE + SMALL);
    assert_int_equal(f->authority.operation_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_in_range(f->authority.operations[i].bytes, 1, LK_INGEST_OPERATION_BYTES);
    }
    free(sizes);
}

static void one_row_above_the_bound_goes_alone_and_the_authority_judges(void **state)
{
    fixture     *f = *state;
    const size_t sizes[] = {1, LK_INGEST_OPERATION_BYTES + 1, 1};
    f->ingest.table.name = LK_LITERAL("wide");
    assert_int_equal(run(f, texts(sizes, 3)), LK_OK);
    assert_int_equal(f->authority.operation_count, 3);
    assert_int_equal(f->authority.operations[1].rows, 1);
}

static void without_rows_nothing_is_appended(void **state)
{
    fixture *f = *state;
    assert_int_equal(run_numbers(f, (const int64_t[]){0}), LK_OK);
    assert_int_equal(f->done.operations, 0);
    assert_int_equal(f->authority.append_calls, 0);
    assert_int_equal(strlen(f->done.operation_id), LK_UUID_TEXT_SIZE);
}

static void the_mode_says_what_a_table_that_is_there_or_not_means(void **state)
{
    fixture      *f = *state;
    const int64_t one[] = {1, 0};
    f->ingest.if_exists = LK_IF_EXISTS_FAIL;
    assert_int_equal(run_numbers(f, one), LK_E_TABLE_EXISTS);
    f->ingest.table.name = LK_LITERAL("z");
    assert_int_equal(run_numbers(f, one), LK_E_TABLE_NOT_FOUND);
    assert_int_equal(f->authority.create_calls, 0);
    f->ingest.if_absent = LK_IF_ABSENT_CREATE;
    assert_int_equal(run_numbers(f, one), LK_OK);
    assert_int_equal(f->authority.create_calls, 1);
    assert_int_equal(f->authority.operation_count, 1);
}

static void a_table_that_another_client_made_meanwhile_is_appended_to_if_the_mode_allows(void **state)
{
    fixture *f = *state;
    f->ingest = (lk_ingest){.table = {{"a", 1}, {"y", 1}}, .if_absent = LK_IF_ABSENT_CREATE};
    f->authority.created_meanwhile = true;
    assert_int_equal(run_numbers(f, (const int64_t[]){1, 0}), LK_E_TABLE_EXISTS);
    f->ingest.table.name = LK_LITERAL("z");
    f->ingest.if_exists = LK_IF_EXISTS_APPEND;
    assert_int_equal(run_numbers(f, (const int64_t[]){1, 0}), LK_OK);
}

static void rows_of_another_schema_are_refused_before_any_append(void **state)
{
    fixture *f = *state;
    f->ingest.table.name = LK_LITERAL("wide");
    assert_int_equal(run_numbers(f, (const int64_t[]){5, 0}), LK_E_SCHEMA_MISMATCH);
    assert_int_equal(f->authority.append_calls, 0);
}

static void bad_names_and_ids_are_refused_before_anything_is_asked(void **state)
{
    fixture      *f = *state;
    const int64_t one[] = {1, 0};
    f->ingest.operation_id = LK_LITERAL("6ba7b810-9dad-11d1-80b4-00c04fd430c8"); /* version 1 */
    assert_int_equal(run_numbers(f, one), LK_E_INVALID_REQUEST);
    f->ingest.operation_id = LK_LITERAL("nonsense");
    assert_int_equal(run_numbers(f, one), LK_E_INVALID_REQUEST);
    f->ingest.operation_id = (lk_bytes){0};
    f->ingest.table.name = LK_LITERAL("with.dot");
    assert_int_equal(run_numbers(f, one), LK_E_INVALID_IDENTIFIER);
    assert_int_equal(f->authority.append_calls + f->authority.create_calls, 0);
}

static void a_set_cancel_flag_stops_it(void **state)
{
    fixture  *f = *state;
    lk_cancel cancel = {.set = true};
    f->ingest.cancel = &cancel;
    assert_int_equal(run_numbers(f, (const int64_t[]){5, 0}), LK_E_CANCELLED);
    assert_int_equal(f->authority.append_calls, 0);
}

static void count_up(void *context, uint64_t rows)
{
    uint64_t *seen = context;
    assert_true(rows > *seen);
    *seen = rows;
}

static void progress_is_told_after_every_operation(void **state)
{
    fixture *f = *state;
    uint64_t seen = 0;
    f->ingest.progress = count_up;
    f->ingest.progress_context = &seen;
    assert_int_equal(run_numbers(f, (const int64_t[]){10001, 0}), LK_OK);
    assert_int_equal(seen, 10001);
}

static lk_rc fail_later(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    (void)batches;
    *out = (struct ArrowArray){0};
    return lk_fail(err, LK_E_IO, "the client went away");
}

static void a_stream_that_breaks_commits_nothing_of_the_open_operation(void **state)
{
    fixture    *f = *state;
    lk_batches *rows = numbers((const int64_t[]){5, 0});
    rows->next = fail_later;
    assert_int_equal(run(f, rows), LK_E_IO);
    assert_int_equal(f->authority.append_calls, 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(rows_are_cut_into_operations_of_ten_thousand_in_order),
        T(every_operation_has_its_own_id_of_version_7_and_the_same_time),
        T(a_repeat_with_the_same_id_adds_nothing_however_far_the_first_came),
        T(batches_cut_elsewhere_make_the_same_operations),
        T(large_rows_make_operations_of_few_and_uneven_ones_never_pass_the_bound),
        T(one_row_above_the_bound_goes_alone_and_the_authority_judges),
        T(without_rows_nothing_is_appended),
        T(the_mode_says_what_a_table_that_is_there_or_not_means),
        T(a_table_that_another_client_made_meanwhile_is_appended_to_if_the_mode_allows),
        T(rows_of_another_schema_are_refused_before_any_append),
        T(bad_names_and_ids_are_refused_before_anything_is_asked),
        T(a_set_cancel_flag_stops_it),
        T(progress_is_told_after_every_operation),
        T(a_stream_that_breaks_commits_nothing_of_the_open_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
