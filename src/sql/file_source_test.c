/* file_source_test.c - files of each kind as batches. Expected values are what stands in the files (CSV and NDJSON by
 * hand, types.parquet by pyarrow: tests/golden/sql/gen_parquet.py). */
#include "sql/file_source.h"

#include "arrow/schema.h"
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char                      directory[64], path[256];
static const lk_sql_file_options typed = {0}, text_only = {.text_only = true};

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(directory, sizeof directory, "/tmp/lake-file-source-XXXXXX");
    return mkdtemp(directory) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    lk_err err = {0};
    return lk_directory_remove(directory, &err) != LK_OK;
}

static void write_file(const char *name, const char *text)
{
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static lk_batches *open_source(lk_sql_file_kind kind, const lk_sql_file_options *options)
{
    lk_err      err = {0};
    lk_batches *batches = NULL;
    if (lk_sql_file_open(path, kind, options, &batches, &err) != LK_OK) {
        fail_msg("%s: %s | %s", path, err.context, err.detail);
    }
    return batches;
}

/* The stream's columns as "name:type? ...". */
static void expect_columns(const lk_batches *batches, const char *expected)
{
    lk_buf text = {0};
    for (int64_t i = 0; i < batches->schema.n_children; i++) {
        const struct ArrowSchema *field = batches->schema.children[i];
        lk_buf_format(&text, "%s%s:", i > 0 ? " " : "", field->name);
        lk_type_format(field, &text);
        lk_buf_append_text(&text, field->flags & ARROW_FLAG_NULLABLE ? "?" : "");
    }
    assert_string_equal(text.data, expected);
    lk_buf_deinit(&text);
}

static void append_cell(const struct ArrowArrayView *view, int64_t row, lk_buf *out)
{
    if (ArrowArrayViewIsNull(view, row)) {
        lk_buf_append_text(out, "null");
        return;
    }
    switch ((int)view->storage_type) {
    case NANOARROW_TYPE_STRING:
    case NANOARROW_TYPE_BINARY: {
        struct ArrowStringView text = ArrowArrayViewGetStringUnsafe(view, row);
        lk_buf_format(out, "'%.*s'", (int)text.size_bytes, text.data);
        return;
    }
    case NANOARROW_TYPE_FLOAT:
    case NANOARROW_TYPE_DOUBLE:
        lk_buf_format(out, "%g", ArrowArrayViewGetDoubleUnsafe(view, row));
        return;
    case NANOARROW_TYPE_LIST:
        lk_buf_append_text(out, "[");
        for (int64_t i = ArrowArrayViewListChildOffset(view, row),
                     end = ArrowArrayViewListChildOffset(view, row + 1);
             i < end; i++) {
            append_cell(view->children[0], i, out);
            lk_buf_append_text(out, i + 1 < end ? " " : "");
        }
        lk_buf_append_text(out, "]");
        return;
    case NANOARROW_TYPE_STRUCT:
        lk_buf_append_text(out, "{");
        for (int64_t i = 0; i < view->n_children; i++) {
            lk_buf_append_text(out, i > 0 ? " " : "");
            append_cell(view->children[i], row, out);
        }
        lk_buf_append_text(out, "}");
        return;
    case NANOARROW_TYPE_DECIMAL128: {
        struct ArrowDecimal value;
        struct ArrowBuffer  digits;
        ArrowDecimalInit(&value, 128, 38, 0);
        ArrowArrayViewGetDecimalUnsafe(view, row, &value);
        ArrowBufferInit(&digits);
        assert_int_equal(ArrowDecimalAppendDigitsToBuffer(&value, &digits), NANOARROW_OK);
        lk_buf_format(out, "%.*s", (int)digits.size_bytes, digits.data);
        ArrowBufferReset(&digits);
        return;
    }
    default:
        lk_buf_format(out, "%lld", (long long)ArrowArrayViewGetIntUnsafe(view, row));
        return;
    }
}

/* All rows, columns apart by blanks and rows by " | "; closes the stream. */
static void expect_rows(lk_batches *batches, const char *expected)
{
    lk_err err = {0};
    lk_buf text = {0};
    for (;;) {
        struct ArrowArray     batch = {0};
        struct ArrowArrayView view;
        assert_int_equal(lk_batches_next(batches, &batch, &err), LK_OK);
        if (batch.release == NULL) {
            break;
        }
        assert_int_equal(ArrowArrayViewInitFromSchema(&view, &batches->schema, NULL), NANOARROW_OK);
        assert_int_equal(ArrowArrayViewSetArray(&view, &batch, NULL), NANOARROW_OK);
        for (int64_t row = 0; row < batch.length; row++) {
            lk_buf_append_text(&text, text.size > 0 ? " | " : "");
            for (int64_t i = 0; i < batch.n_children; i++) {
                lk_buf_append_text(&text, i > 0 ? " " : "");
                append_cell(view.children[i], row, &text);
            }
        }
        ArrowArrayViewReset(&view);
        lk_array_release(&batch);
    }
    assert_string_equal(text.data == NULL ? "" : text.data, expected);
    lk_buf_deinit(&text);
    lk_batches_close(batches);
}

/* Opening fails, or reading to the end does; the detail holds this text. */
static void expect_failure(
    lk_sql_file_kind kind, const lk_sql_file_options *options, lk_rc expected, const char *detail)
{
    lk_err      err = {0};
    lk_batches *batches = NULL;
    lk_rc       rc = lk_sql_file_open(path, kind, options, &batches, &err);
    for (bool more = rc == LK_OK; more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, &err);
        more = rc == LK_OK && batch.release != NULL;
        lk_array_release(&batch);
    }
    lk_batches_close(batches);
    assert_int_equal(rc, expected);
    if (strstr(err.detail, detail) == NULL || strstr(err.detail, "/proc/") != NULL) {
        fail_msg("\"%s\" is not in \"%s\"", detail, err.detail);
    }
}

/* -- CSV --------------------------------------------------------------------------------------------- */

static void types_of_a_csv_are_those_that_every_row_has(void **state)
{
    (void)state;
    write_file("a.csv", "id,name,x,at\n1,a,0.5,1970-01-01T00:00:00Z\n2,NA,NA,2023-11-14T22:13:20Z\n");
    const lk_sql_file_options na = {.null_text = "NA"};
    lk_batches               *batches = open_source(LK_SQL_FILE_CSV, &na);
    expect_columns(batches, "id:int64? name:utf8? x:float64? at:timestamp[us,UTC]?");
    expect_rows(batches, "1 'a' 0.5 0 | 2 null null 1700000000000000");
}

static void a_text_after_thousands_of_numbers_makes_the_column_text(void **state)
{
    (void)state;
    lk_buf text = {0};
    lk_buf_append_text(&text, "n\n");
    for (int i = 0; i < 60000; i++) {
        lk_buf_append_text(&text, "1\n");
    }
    lk_buf_append_text(&text, "x\n");
    write_file("late.csv", text.data);
    lk_buf_deinit(&text);
    lk_batches *batches = open_source(LK_SQL_FILE_CSV, &typed);
    expect_columns(batches, "n:utf8?");
    lk_batches_close(batches);
}

static void text_only_leaves_every_field_as_it_stands(void **state)
{
    (void)state;
    write_file("text.csv", "a,b\n01,1.50\n +1 ,2024-02-29\n");
    lk_batches *batches = open_source(LK_SQL_FILE_CSV, &text_only);
    expect_columns(batches, "a:utf8? b:utf8?");
    expect_rows(batches, "'01' '1.50' | ' +1 ' '2024-02-29'");
}

static void what_is_quoted_is_text_and_never_null(void **state)
{
    (void)state;
    write_file("quoted.csv", "a,b\n,\"\"\nNA,\"NA\"\n\"say \"\"hi\"\", ok\",\"two\nlines\"\n");
    const lk_sql_file_options na = {.null_text = "NA", .text_only = true};
    expect_rows(open_source(LK_SQL_FILE_CSV, &na), "null '' | null 'NA' | 'say \"hi\", ok' 'two\nlines'");
}

static void the_null_text_may_hold_quotes(void **state)
{
    (void)state;
    write_file("odd.csv", "a,b\no'clock,1\n");
    const lk_sql_file_options odd = {.null_text = "o'clock", .text_only = true};
    expect_rows(open_source(LK_SQL_FILE_CSV, &odd), "null '1'");
}

static void a_line_that_looks_like_a_comment_is_a_row(void **state)
{
    (void)state;
    write_file("hash.csv", "a,b\n#1,2\n3,4\n");
    expect_rows(open_source(LK_SQL_FILE_CSV, &text_only), "'#1' '2' | '3' '4'");
}

static void tabs_separate_a_tsv(void **state)
{
    (void)state;
    write_file("t.tsv", "a\tb\n1,5\tx\n");
    expect_rows(open_source(LK_SQL_FILE_CSV, &text_only), "'1,5' 'x'");
}

static void a_header_alone_is_a_table_without_rows(void **state)
{
    (void)state;
    write_file("header.csv", "a,b\n");
    lk_batches *batches = open_source(LK_SQL_FILE_CSV, &text_only);
    expect_columns(batches, "a:utf8? b:utf8?");
    expect_rows(batches, "");
}

static void characters_of_patterns_and_partitions_in_a_path_mean_nothing(void **state)
{
    (void)state;
    write_file("g1.csv", "a\nwrong\n");
    write_file("k=v [1]*'.csv", "a\nright\n");
    lk_batches *batches = open_source(LK_SQL_FILE_CSV, &text_only);
    expect_columns(batches, "a:utf8?");
    expect_rows(batches, "'right'");
}

static void rows_keep_the_order_of_the_file(void **state)
{
    (void)state;
    enum { ROWS = 200000 };
    lk_buf text = {0};
    lk_buf_append_text(&text, "n,pad\n");
    for (int i = 0; i < ROWS; i++) {
        lk_buf_format(&text, "%d,%0*d\n", i, 200 + i % 7, 0);
    }
    write_file("order.csv", text.data);
    lk_buf_deinit(&text);
    lk_batches *batches = open_source(LK_SQL_FILE_CSV, &typed);
    lk_err      err = {0};
    int64_t     expected = 0;
    for (struct ArrowArray batch = {0};; lk_array_release(&batch)) {
        assert_int_equal(lk_batches_next(batches, &batch, &err), LK_OK);
        if (batch.release == NULL) {
            break;
        }
        const int64_t *values = batch.children[0]->buffers[1];
        for (int64_t row = 0; row < batch.length; row++) {
            assert_int_equal(values[row + batch.children[0]->offset], expected++);
        }
    }
    assert_int_equal(expected, ROWS);
    lk_batches_close(batches);
}

/* -- NDJSON ------------------------------------------------------------------------------------------ */

static void types_of_ndjson_are_detected(void **state)
{
    (void)state;
    write_file("a.ndjson", "{\"id\":1,\"at\":\"1970-01-01T00:00:01Z\",\"q\":[0.5,1]}\n{\"id\":2,\"q\":null,"
                           "\"more\":{\"k\":true}}\n");
    lk_batches *batches = open_source(LK_SQL_FILE_NDJSON, &typed);
    expect_columns(batches, "id:int64? at:timestamp[us,UTC]? q:list<float64?>? more:struct<k:bool?>?");
    expect_rows(batches, "1 1000000 [0.5 1] null | 2 null null {1}");
}

static void text_only_leaves_the_texts_of_ndjson_as_they_stand(void **state)
{
    (void)state;
    write_file("b.jsonl",
        "{\"u\":\"6BA7B810-9DAD-11D1-80B4-00C04FD430C8\",\"d\":\"2024-1-2\",\"n\":18446744073709551615,"
        "\"o\":{\"a 'b\\\"\":[\"12:00:00\"]},\"m\":\"x\"}\n{\"m\":7}\n");
    lk_batches *batches = open_source(LK_SQL_FILE_NDJSON, &text_only);
    expect_columns(batches, "u:utf8? d:utf8? n:decimal(38,0)? o:struct<\"a 'b\"\"\":list<utf8?>?>? m:utf8?");
    expect_rows(batches,
        "'6BA7B810-9DAD-11D1-80B4-00C04FD430C8' '2024-1-2' 18446744073709551615 {['12:00:00']} 'x' | "
        "null null null null '7'");
}

static void an_array_of_objects_is_read_as_well(void **state)
{
    (void)state;
    write_file("c.json", "[{\"a\":1},\n {\"a\":2}]");
    expect_rows(open_source(LK_SQL_FILE_NDJSON, &text_only), "1 | 2");
}

/* -- Parquet ----------------------------------------------------------------------------------------- */

static void parquet_by_pyarrow_has_its_types_and_values(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof path, LK_SOURCE_DIR "/tests/golden/sql/types.parquet");
    lk_batches *batches = open_source(LK_SQL_FILE_PARQUET, &typed);
    expect_columns(batches, "i:int64? u:uint32? x:float64? s:utf8? b:binary? t:timestamp[us,UTC]? d:date32? "
                            "m:decimal(10,2)? l:list<float32?>?");
    struct ArrowArray batch = {0};
    lk_err            err = {0};
    assert_int_equal(lk_batches_next(batches, &batch, &err), LK_OK);
    const struct ArrowArray *binary = batch.children[4];
    const int32_t           *offsets = binary->buffers[1];
    assert_int_equal(offsets[1] - offsets[0], 2);
    assert_memory_equal((const char *)binary->buffers[2] + offsets[0], "\x00\xff", 2);
    lk_array_release(&batch);
    lk_batches_close(batches);

    lk_buf text = {0}; /* the binary value holds a NUL, which ends what is printed of it */
    lk_buf_append_text(&text,
        "1 0 0.5 '' '' 1709208000000000 null 1234 [1 2] | null 4294967295 null 'gr\xc3\xbcn' null "
        "null -1 null [] | -9223372036854775808 null -1e+300 null '' null null -1 null");
    expect_rows(open_source(LK_SQL_FILE_PARQUET, &typed), text.data);
    lk_buf_deinit(&text);
}

/* -- failures ---------------------------------------------------------------------------------------- */

static void what_is_not_there_is_not_found(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof path, "%s/nothing.csv", directory);
    expect_failure(LK_SQL_FILE_CSV, &typed, LK_E_NOT_FOUND, "nothing.csv");
    (void)snprintf(path, sizeof path, "%s", directory);
    expect_failure(LK_SQL_FILE_CSV, &typed, LK_E_INVALID_REQUEST, "not a regular file");
}

static void bad_files_are_refused_with_a_reason(void **state)
{
    (void)state;
    write_file("empty.csv", "");
    expect_failure(LK_SQL_FILE_CSV, &typed, LK_E_INVALID_REQUEST, "is empty");
    write_file("ragged.csv", "a,b\n1,2\n3\n");
    expect_failure(LK_SQL_FILE_CSV, &text_only, LK_E_INVALID_REQUEST, "as many fields as the first");
    write_file("latin.csv", "a,b\n\xff\xfe,2\n");
    expect_failure(LK_SQL_FILE_CSV, &text_only, LK_E_INVALID_REQUEST, "utf-8");
    write_file("bad.ndjson", "{\"a\":1}\n{\"a\":2\n");
    expect_failure(
        LK_SQL_FILE_NDJSON, &typed, LK_E_INVALID_REQUEST, "Malformed JSON in file, at byte 8 in line 3");
    write_file("bad.parquet", "PAR1 this is no Parquet file PAR1");
    expect_failure(LK_SQL_FILE_PARQUET, &typed, LK_E_INVALID_REQUEST, "Footer length error in file");
}

static void a_bad_line_far_down_is_named(void **state)
{
    (void)state;
    lk_buf text = {0};
    lk_buf_append_text(&text, "a,b\n");
    for (int i = 0; i < 60000; i++) {
        lk_buf_append_text(&text, "1,2\n");
    }
    lk_buf_append_text(&text, "3\n");
    write_file("far.csv", text.data);
    lk_buf_deinit(&text);
    expect_failure(LK_SQL_FILE_CSV, &text_only, LK_E_INVALID_REQUEST, "Line: 60002");
}

static void closing_early_ends_the_reading(void **state)
{
    (void)state;
    write_file("early.csv", "a\n1\n2\n");
    lk_batches_close(open_source(LK_SQL_FILE_CSV, &typed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_of_a_csv_are_those_that_every_row_has),
        cmocka_unit_test(a_text_after_thousands_of_numbers_makes_the_column_text),
        cmocka_unit_test(text_only_leaves_every_field_as_it_stands),
        cmocka_unit_test(what_is_quoted_is_text_and_never_null),
        cmocka_unit_test(the_null_text_may_hold_quotes),
        cmocka_unit_test(a_line_that_looks_like_a_comment_is_a_row),
        cmocka_unit_test(tabs_separate_a_tsv),
        cmocka_unit_test(a_header_alone_is_a_table_without_rows),
        cmocka_unit_test(characters_of_patterns_and_partitions_in_a_path_mean_nothing),
        cmocka_unit_test(rows_keep_the_order_of_the_file),
        cmocka_unit_test(types_of_ndjson_are_detected),
        cmocka_unit_test(text_only_leaves_the_texts_of_ndjson_as_they_stand),
        cmocka_unit_test(an_array_of_objects_is_read_as_well),
        cmocka_unit_test(parquet_by_pyarrow_has_its_types_and_values),
        cmocka_unit_test(what_is_not_there_is_not_found),
        cmocka_unit_test(bad_files_are_refused_with_a_reason),
        cmocka_unit_test(a_bad_line_far_down_is_named),
        cmocka_unit_test(closing_early_ends_the_reading),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
