/*
 * carrier_test.c - every type lake carries goes through the engine and comes back as it was, nested ones too.
 * The reference is the input itself: a plain reference must return it bit by bit.
 */
#include "arrow/schema.h"
#include "arrow/type.h"
#include "sql/table_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static sql_fixture fixture;

static int set_up(void **state)
{
    (void)state;
    sql_fixture_open(&fixture, 256 << 20, 256 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sql_fixture_close(&fixture);
    return 0;
}

static const char *const types[] = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "float16", "float32", "float64", "utf8", "large_utf8", "binary", "large_binary",
    "fixed_size_binary(3)", "date32", "date64", "time32[s]", "time32[ms]", "time64[us]", "time64[ns]",
    "timestamp[s]", "timestamp[ms]", "timestamp[us]", "timestamp[ns]", "timestamp[s,UTC]",
    "timestamp[ms,Europe/Berlin]", "timestamp[us,+02:00]", "timestamp[ns,America/New_York]", "duration[s]",
    "duration[ms]", "duration[us]", "duration[ns]", "decimal(5,2)", "decimal(38,10)", "list<float16?>",
    "list<utf8?>", "large_list<int32?>", "fixed_size_list<float32>(3)", "fixed_size_list<float16>(2)",
    "list<fixed_size_binary(3)?>", "struct<a:int64,b:utf8?>",
    "struct<h:float16?,d:duration[ns]?,f:fixed_size_binary(3)?,l:list<large_utf8?>?>", "file",
    "list<struct<t:timestamp[ms,UTC]?,x:date64?>?>", "map<utf8,float16?>"};

/* Any value of a type, from a number; small ones, so that every unit of time holds them. */
static void append(const struct ArrowSchema *field, struct ArrowArray *array, int64_t n);

static void append_bytes(struct ArrowArray *array, const lk_type *type, int64_t n)
{
    char    text[24];
    int64_t size = snprintf(text, sizeof text, "%03lld", (long long)(n % 1000));
    if (type->id == LK_TYPE_UTF8 || type->id == LK_TYPE_LARGE_UTF8) {
        assert_int_equal(ArrowArrayAppendString(array, (struct ArrowStringView){text, size}), 0);
    } else {
        struct ArrowBufferView view = {.data.as_char = text, .size_bytes = size};
        assert_int_equal(ArrowArrayAppendBytes(array, view), 0);
    }
}

static void append_nested(
    const struct ArrowSchema *field, const lk_type *type, struct ArrowArray *array, int64_t n)
{
    int64_t count = type->id == LK_TYPE_FIXED_LIST ? type->list_size : type->id == LK_TYPE_STRUCT ? 1 : n % 4;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t c = 0; c < field->n_children; c++) {
            append(field->children[c], array->children[c], n * 5 + i + c);
        }
    }
    assert_int_equal(ArrowArrayFinishElement(array), 0);
}

static void append(const struct ArrowSchema *field, struct ArrowArray *array, int64_t n)
{
    lk_type type;
    assert_true(lk_type_of(field, &type));
    if ((field->flags & ARROW_FLAG_NULLABLE) != 0 && n % 5 == 2) {
        assert_int_equal(ArrowArrayAppendNull(array, 1), 0);
    } else if (lk_type_is_float(type.id)) {
        assert_int_equal(ArrowArrayAppendDouble(array, (double)(n % 100) / 4), 0);
    } else if (lk_type_is_bytes(type.id) || type.id == LK_TYPE_FIXED_BINARY) {
        append_bytes(array, &type, n);
    } else if (type.id == LK_TYPE_DECIMAL128) {
        struct ArrowDecimal decimal;
        ArrowDecimalInit(&decimal, 128, type.precision, type.scale);
        ArrowDecimalSetInt(&decimal, n * 7 - 50);
        assert_int_equal(ArrowArrayAppendDecimal(array, &decimal), 0);
    } else if (field->n_children > 0) {
        append_nested(field, &type, array, n);
    } else {
        int64_t value = type.id == LK_TYPE_BOOL ? n & 1 : type.id == LK_TYPE_DATE64 ? n * 86400000 : n;
        if (ArrowArrayAppendInt(array, value) != 0) {
            fail_msg("cannot append to %s", field->format);
        }
    }
}

/* id int64, v TYPE? of 40 rows in two batches. */
static lk_table_snapshot *table_of(const char *type)
{
    lk_err             err = {0};
    struct ArrowSchema columns[2] = {{0}}, schema;
    struct ArrowArray  batches[2] = {{0}};
    lk_buf             text = {0};
    lk_buf_format(&text, "v:%s?", type);
    assert_int_equal(lk_column_parse(LK_LITERAL("id:int64"), &columns[0], &err), LK_OK);
    if (lk_column_parse(lk_buf_view(&text), &columns[1], &err) != LK_OK) {
        fail_msg("%s: %s", type, err.detail);
    }
    lk_buf_deinit(&text);
    lk_schema_of_columns(columns, 2, &schema);
    for (int64_t b = 0; b < 2; b++) {
        assert_int_equal(ArrowArrayInitFromSchema(&batches[b], &schema, NULL), 0);
        assert_int_equal(ArrowArrayStartAppending(&batches[b]), 0);
        for (int64_t i = b * 20; i < b * 20 + 20; i++) {
            append(schema.children[0], batches[b].children[0], i);
            append(schema.children[1], batches[b].children[1], i);
            assert_int_equal(ArrowArrayFinishElement(&batches[b]), 0);
        }
        assert_int_equal(ArrowArrayFinishBuildingDefault(&batches[b], NULL), 0);
    }
    return table_new(&schema, batches, 2);
}

/* Two arrays as text, children and all. */
static void dump(const struct ArrowSchema *field, const struct ArrowArrayView *view, int64_t row, lk_buf *out)
{
    lk_type type;
    assert_true(lk_type_of(field, &type));
    if (ArrowArrayViewIsNull(view, row)) {
        lk_buf_append_text(out, "null");
    } else if (type.layout == LK_LAYOUT_STRUCT) {
        for (int64_t c = 0; c < field->n_children; c++) {
            lk_buf_format(out, "%s%s=", c == 0 ? "{" : ",", field->children[c]->name);
            dump(field->children[c], view->children[c], row + view->offset, out);
        }
        lk_buf_append_text(out, "}");
    } else if (field->n_children > 0) {
        bool    fixed = type.id == LK_TYPE_FIXED_LIST;
        int64_t from =
            fixed ? (row + view->offset) * type.list_size : ArrowArrayViewListChildOffset(view, row);
        int64_t to = fixed ? from + type.list_size : ArrowArrayViewListChildOffset(view, row + 1);
        lk_buf_append_text(out, "[");
        for (int64_t i = from; i < to; i++) {
            dump(field->children[0], view->children[0], i, out);
            lk_buf_append_text(out, ",");
        }
        lk_buf_append_text(out, "]");
    } else if (lk_type_is_bytes(type.id) || type.id == LK_TYPE_FIXED_BINARY) {
        struct ArrowBufferView bytes = ArrowArrayViewGetBytesUnsafe(view, row);
        lk_buf_append(out, bytes.data.data, (size_t)bytes.size_bytes);
    } else if (type.id == LK_TYPE_DECIMAL128) {
        struct ArrowDecimal decimal;
        ArrowDecimalInit(&decimal, 128, type.precision, type.scale);
        ArrowArrayViewGetDecimalUnsafe(view, row, &decimal);
        lk_buf_format(out, "%lld", (long long)ArrowDecimalGetIntUnsafe(&decimal));
    } else if (lk_type_is_float(type.id)) {
        lk_buf_format(out, "%g", ArrowArrayViewGetDoubleUnsafe(view, row));
    } else {
        lk_buf_format(out, "%lld", (long long)ArrowArrayViewGetIntUnsafe(view, row));
    }
}

static char *dump_column(const struct ArrowSchema *schema, const struct ArrowArray *rows, int64_t column)
{
    struct ArrowArrayView view;
    lk_buf                out = {0};
    assert_int_equal(ArrowArrayViewInitFromSchema(&view, schema, NULL), 0);
    assert_int_equal(ArrowArrayViewSetArray(&view, rows, NULL), 0);
    for (int64_t row = 0; row < rows->length; row++) {
        dump(schema->children[column], view.children[column], row, &out);
        lk_buf_append_text(&out, "\n");
    }
    ArrowArrayViewReset(&view);
    return out.data;
}

static void run(
    const char *text, lk_table_snapshot *table, struct ArrowSchema *schema, struct ArrowArray *rows)
{
    lk_err err = {0};
    lk_rc  rc = fixture_query(&fixture, text, &table, false, schema, rows, &err);
    if (rc != LK_OK) {
        fail_msg("%s: %s %s (%s)", text, lk_rc_name(rc), err.detail, err.context);
    }
}

static void every_type_comes_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        lk_err             err = {0};
        lk_table_snapshot *table = table_of(types[i]);
        struct ArrowSchema straight_schema, schema;
        struct ArrowArray  straight, rows;
        run("SELECT id, v FROM ns.t", table, &straight_schema, &straight);
        run("SELECT id, v FROM (SELECT * FROM ns.t) ORDER BY id", table, &schema, &rows);
        if (lk_schema_compare(table->ops->schema(table), &schema, LK_SCHEMA_EXACT, &err) != LK_OK) {
            fail_msg("%s: %s", types[i], err.detail);
        }
        char *got = dump_column(&schema, &rows, 1), *want = dump_column(&straight_schema, &straight, 1);
        if (strcmp(got, want) != 0) {
            fail_msg("%s\n%s\nnot\n%s", types[i], got, want);
        }
        free(got);
        free(want);
        lk_array_release(&rows);
        lk_array_release(&straight);
        lk_schema_release(&schema);
        lk_schema_release(&straight_schema);
        lk_table_snapshot_unref(table);
    }
}

static void filters_on_carried_types_agree_with_their_sql_value(void **state)
{
    (void)state;
    static const struct {
        const char *type, *condition, *expected;
    } cases[] = {
        {"float16", "v > 9.5", "39\n"},
        {"duration[s]", "v >= 35", "35\n36\n38\n39\n"},
        {"timestamp[ms]", "v = TIMESTAMP_MS '1970-01-01 00:00:00.005'", "5\n"},
        {"timestamp[s,UTC]", "v = TIMESTAMPTZ '1970-01-01 00:00:33+00'", "33\n"},
        {"timestamp[us,+02:00]", "v < TIMESTAMPTZ '1970-01-01 00:00:00.000003+00'", "0\n1\n"},
        {"fixed_size_binary(3)", "v = '004'::BLOB", "4\n"},
        {"large_utf8", "v LIKE '03%' AND v > '035'", "36\n38\n39\n"},
        {"date64", "v = DATE '1970-01-05'", "4\n"},
        {"date32", "v BETWEEN DATE '1970-01-04' AND '1970-01-05'", "3\n4\n"},
        {"time32[s]", "v = TIME '00:00:06'", "6\n"},
        {"time64[ns]", "v IS NULL AND id < 10", "2\n7\n"},
        {"decimal(5,2)", "v > 2.10", "38\n39\n"},
        {"bool", "v AND id > 35", "39\n"},
        {"struct<a:int64,b:utf8?>", "v.a = 195", "39\n"},
        {"list<float16?>", "v[1] > 23.5", "19\n39\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_err             err = {0};
        lk_table_snapshot *table = table_of(cases[i].type);
        lk_buf             text = {0};
        lk_buf_format(&text, "SELECT id FROM ns.t WHERE %s ORDER BY id", cases[i].condition);
        char *got = fixture_text(&fixture, text.data, &table, false, &err);
        if (strcmp(got, cases[i].expected) != 0) {
            fail_msg("%s on %s gave %s (%s), not %s", cases[i].condition, cases[i].type, got, err.context,
                cases[i].expected);
        }
        free(got);
        lk_buf_deinit(&text);
        lk_table_snapshot_unref(table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_comes_back),
        cmocka_unit_test(filters_on_carried_types_agree_with_their_sql_value),
    };
    return cmocka_run_group_tests_name("sql carriers", tests, set_up, tear_down);
}
