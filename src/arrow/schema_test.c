/* schema_test.c - types as text, building, comparing and limits (schema.h). */
#include "arrow/schema.h"

#include "arrow/array_fixture.h"
#include "base/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
/* after the above: cmocka.h needs them */
#include <cmocka.h>

/* Formats as the Arrow C data interface writes them. */
static void every_type_name_gives_its_format(void **state)
{
    static const char *const types[][2] = {{"null", "n"}, {"bool", "b"}, {"int8", "c"}, {"uint64", "L"},
        {"i64", "l"}, {"f64", "g"}, {"float16", "e"}, {"utf8", "u"}, {"large_utf8", "U"}, {"binary", "z"},
        {"large_binary", "Z"}, {"fixed_size_binary(16)", "w:16"}, {"date32", "tdD"}, {"date64", "tdm"},
        {"time32[s]", "tts"}, {"time32[ms]", "ttm"}, {"time64[us]", "ttu"}, {"time64[ns]", "ttn"},
        {"timestamp[s]", "tss:"}, {"timestamp[us,UTC]", "tsu:UTC"},
        {"timestamp[ns, America/New_York]", "tsn:America/New_York"}, {"duration[us]", "tDu"},
        {"decimal(10,2)", "d:10,2"}, {"decimal128(38,-3)", "d:38,-3"}, {"decimal256(76,10)", "d:76,10,256"},
        {"decimal32(9,1)", "d:9,1,32"}, {"decimal64(18,0)", "d:18,0,64"}, {"month_interval", "tiM"},
        {"day_time_interval", "tiD"}, {"month_day_nano_interval", "tin"}, {"list<int8>", "+l"},
        {"large_list<utf8?>", "+L"}, {"fixed_size_list<float32>(768)", "+w:768"}, {"struct<a:int64>", "+s"},
        {"map<utf8,int32?>", "+m"}, {"dictionary<int16,utf8>", "s"}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct ArrowSchema field = make_field(types[i][0], "x");
        assert_string_equal(field.format, types[i][1]);
        assert_string_equal(field.name, "x");
        assert_int_equal(field.flags, 0);
        lk_schema_release(&field);
    }
}

static void text_reads_back_as_it_was_written(void **state)
{
    static const char *const types[] = {"int64", "decimal(10,2)", "decimal256(76,10)", "timestamp[us,UTC]",
        "timestamp[ms]", "fixed_size_list<float32?>(768)", "list<list<utf8>?>", "map<utf8,list<int8?>?>",
        "struct<a:int64,\"b c\":utf8?,\"say \"\"so\"\"\":bool>", "dictionary<int8,large_utf8>",
        "struct<f:file?,g:fixed_size_binary(3)>", "file", "month_day_nano_interval"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct ArrowSchema field = make_field(types[i], "x");
        lk_buf             text = {0};
        lk_type_format(&field, &text);
        assert_string_equal(text.data, types[i]);
        lk_buf_deinit(&text);
        lk_schema_release(&field);
    }
}

static void a_question_mark_makes_a_field_nullable_at_its_place_only(void **state)
{
    struct ArrowSchema field = make_field("struct<a:int64,b:utf8?>?", "s");
    assert_int_equal(field.flags, ARROW_FLAG_NULLABLE);
    assert_int_equal(field.children[0]->flags, 0);
    assert_int_equal(field.children[1]->flags, ARROW_FLAG_NULLABLE);
    lk_schema_release(&field);
}

static void a_column_is_a_name_and_a_type(void **state)
{
    struct ArrowSchema column = {0};
    lk_err             err = {0};
    assert_int_equal(lk_column_parse(LK_LITERAL("a.b c:int8?"), &column, &err), LK_OK);
    assert_string_equal(column.name, "a.b c");
    lk_schema_release(&column);
    assert_int_equal(lk_column_parse(LK_LITERAL("\"x:\"\"y\":utf8"), &column, &err), LK_OK);
    assert_string_equal(column.name, "x:\"y");
    lk_schema_release(&column);
}

static void wrong_text_is_told_with_its_place(void **state)
{
    static const char *const texts[][2] = {
        {"c:in64", "at 'in64': a type such as int64, utf8 or timestamp[us,UTC] is expected"},
        {"c:timestamp", "the type ends where '[' is expected"},
        {"c:timestamp[m]", "at 'm]': s, ms, us or ns is expected"},
        {"c:decimal(39,2)", "at '39,2)': a precision of 1 to 38 is expected"},
        {"c:list<int8", "the type ends where '>' is expected"},
        {"c:int8 x", "at 'x': the end of the type is expected"},
        {"c:fixed_size_binary(0)", "at '0)': a size of at least 1 is expected"},
        {"c", "at 'c': name:type is expected"}, {":int8", "at ':int8': name:type is expected"},
        {"\"c:int8", "the type ends where a closing quote is expected"},
        {"c:map<utf8?,int8>", "at ',int8>': a key that is not nullable before this is expected"},
        {"c:dictionary<utf8,utf8>", "at 'utf8,utf8>': an integer type is expected"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct ArrowSchema column = {0};
        lk_err             err = {0};
        assert_int_equal(lk_column_parse(lk_bytes_of(texts[i][0]), &column, &err), LK_E_INVALID_SCHEMA);
        assert_string_equal(err.detail, texts[i][1]);
        assert_null(column.release);
    }
}

static void nesting_in_text_is_bounded(void **state)
{
    lk_buf             text = {0};
    struct ArrowSchema field = {0};
    lk_err             err = {0};
    for (int i = 0; i < 100000; i++) {
        lk_buf_append_text(&text, "list<");
    }
    assert_int_equal(lk_type_parse(lk_buf_view(&text), LK_LITERAL("x"), &field, &err), LK_E_INVALID_SCHEMA);
    lk_buf_deinit(&text);
}

static void a_file_column_has_its_members_and_its_mark(void **state)
{
    struct ArrowSchema file = {0};
    lk_bytes           value = {0};
    lk_schema_file(LK_LITERAL("clip"), true, &file);
    assert_string_equal(file.name, "clip");
    assert_int_equal(file.n_children, 4);
    assert_string_equal(file.children[2]->name, "size_bytes");
    assert_string_equal(file.children[2]->format, "L");
    assert_int_equal(file.children[3]->flags, 0);
    assert_true(lk_schema_metadata(&file, "lake.type", &value));
    assert_true(lk_bytes_equal(value, LK_LITERAL("FILE")));
    assert_true(lk_schema_is_file(&file));
    assert_int_equal(ArrowSchemaSetMetadata(&file, NULL), NANOARROW_OK);
    assert_false(lk_schema_is_file(&file));
    lk_schema_release(&file);
}

static void expect_match(const char *a, const char *b, lk_schema_match match, const char *detail)
{
    const char        *first[] = {"id:int64", a, NULL}, *second[] = {"id:int64", b, NULL};
    struct ArrowSchema expected = make_schema(first), actual = make_schema(second);
    lk_err             err = {0};
    lk_rc              rc = lk_schema_compare(&expected, &actual, match, &err);
    assert_int_equal(rc, detail == NULL ? LK_OK : LK_E_SCHEMA_MISMATCH);
    if (detail != NULL) {
        assert_string_equal(err.detail, detail);
    }
    lk_schema_release(&expected);
    lk_schema_release(&actual);
}

static void append_looks_at_names_order_and_types_only(void **state)
{
    expect_match("a:int8", "a:int8?", LK_SCHEMA_APPEND, NULL);
    expect_match("a:int8", "a:int8?", LK_SCHEMA_EXACT, "column 'a': nullability differs from the table's");
    expect_match("a:int8", "a:int16", LK_SCHEMA_APPEND, "column 'a' is int16, but the table has int8");
    expect_match("a:int8", "b:int8", LK_SCHEMA_APPEND, "column 2 is 'b', but the table has 'a'");
    expect_match("a:int8", NULL, LK_SCHEMA_APPEND, "column 'a' is missing");
    expect_match(NULL, "a:int8", LK_SCHEMA_APPEND, "column 'a' is not in the table");
    expect_match("a:timestamp[us,UTC]", "a:timestamp[us]", LK_SCHEMA_APPEND,
        "column 'a' is timestamp[us], but the table has timestamp[us,UTC]");
    expect_match("a:struct<x:int8>", "a:struct<y:int8>", LK_SCHEMA_APPEND,
        "column 'a': the name of a member differs from the table's");
    expect_match("a:list<int8>", "a:list<int8?>?", LK_SCHEMA_APPEND, NULL);
    expect_match("f:file", "f:struct<uri:utf8,content_type:utf8,size_bytes:uint64,sha256:utf8>",
        LK_SCHEMA_APPEND, NULL);
    expect_match("f:file", "f:struct<uri:utf8,content_type:utf8,size_bytes:uint64,sha256:utf8>",
        LK_SCHEMA_EXACT, "column 'f': metadata differs from the table's");
}

static void item_names_are_no_part_of_a_list_type(void **state)
{
    struct ArrowSchema one = make_schema((const char *[]){"l:list<int8>", NULL});
    struct ArrowSchema two = make_schema((const char *[]){"l:list<int8>", NULL});
    lk_err             err = {0};
    assert_int_equal(ArrowSchemaSetName(two.children[0]->children[0], "element"), NANOARROW_OK);
    assert_int_equal(lk_schema_compare(&one, &two, LK_SCHEMA_APPEND, &err), LK_OK);
    assert_int_equal(lk_schema_compare(&one, &two, LK_SCHEMA_EXACT, &err), LK_E_SCHEMA_MISMATCH);
    lk_schema_release(&one);
    lk_schema_release(&two);
}

static void check_gives(struct ArrowSchema schema, const char *detail)
{
    lk_err err = {0};
    lk_rc  rc = lk_schema_check(&schema, &err);
    assert_int_equal(rc, detail == NULL ? LK_OK : LK_E_INVALID_SCHEMA);
    if (detail != NULL) {
        assert_string_equal(err.detail, detail);
    }
    lk_schema_release(&schema);
}

static void a_table_may_have_any_names_but_not_twice_nor_none(void **state)
{
    check_gives(
        make_schema((const char *[]){"a.b\"c d'e:int8", "\xC3\xA9:list<struct<x:int8>>", NULL}), NULL);
    check_gives(make_schema((const char *[]){"x:int8", "y:int8", "x:utf8", NULL}),
        "column 'x': two fields have this name");
    check_gives(make_schema((const char *[]){"s:struct<a:int8,a:int8>", NULL}),
        "column 'a': two fields have this name");
    check_gives(make_schema((const char *[]){NULL}), "a table needs at least one column");
    check_gives(make_schema((const char *[]){"\"\":int8", NULL}), "column '': a name is empty");
    struct ArrowSchema schema = make_schema((const char *[]){"x:int8", NULL});
    assert_int_equal(ArrowSchemaSetName(schema.children[0], "\xFF"), NANOARROW_OK);
    check_gives(schema, "column '': a name is not UTF-8");
    schema = make_schema((const char *[]){"x:int8", NULL});
    assert_int_equal(ArrowSchemaSetFormat(schema.children[0], "vu"), NANOARROW_OK);
    check_gives(schema, "column 'x': the type is not supported (unions, views and run-end encoding are not)");
}

static void only_a_dataset_may_hold_a_struct_without_members(void **state)
{
    lk_err             err = {0};
    struct ArrowSchema schema = make_schema((const char *[]){"s:int8", NULL});
    assert_int_equal(ArrowSchemaSetFormat(schema.children[0], "+s"), NANOARROW_OK);
    assert_int_equal(lk_schema_check_stored(&schema, &err), LK_OK);
    check_gives(schema, "column 's': a struct needs at least one member");
}

static void columns_and_depth_are_bounded(void **state)
{
    struct ArrowSchema schema, *at = NULL;
    lk_schema_start(&schema, LK_COLUMNS_MAX + 1);
    for (int64_t i = 0; i < schema.n_children; i++) {
        char name[24];
        snprintf(name, sizeof name, "c%d", (int)i);
        *schema.children[i] = make_field("int8", name);
    }
    check_gives(schema, "column 'c10000': the schema has more than 10000 fields");

    schema = make_schema((const char *[]){"deep:int8", NULL});
    at = schema.children[0];
    for (int i = 0; i < LK_SCHEMA_DEPTH_MAX; i++) {
        assert_int_equal(ArrowSchemaSetFormat(at, "+l"), NANOARROW_OK);
        assert_int_equal(ArrowSchemaAllocateChildren(at, 1), NANOARROW_OK);
        *at->children[0] = make_field("int8", "item");
        at = at->children[0];
    }
    check_gives(schema, "column 'deep': types nest deeper than 32");
    char name[LK_COLUMN_NAME_BYTES_MAX + 16];
    memset(name, 'n', sizeof name);
    memcpy(name + LK_COLUMN_NAME_BYTES_MAX + 1, ":int8", 6);
    lk_err err = {0};
    schema = make_schema((const char *[]){name, NULL});
    assert_int_equal(lk_schema_check(&schema, &err), LK_E_INVALID_SCHEMA);
    lk_schema_release(&schema);
}

static void projection_keeps_order_and_metadata(void **state)
{
    static const size_t columns[] = {2, 0};
    struct ArrowSchema  schema = make_schema((const char *[]){"a:int8", "b:utf8", "f:file", NULL}), out;
    lk_err              err = {0};
    assert_int_equal(lk_schema_project(&schema, columns, 2, &out, &err), LK_OK);
    assert_true(lk_schema_is_file(out.children[0]));
    assert_int_equal(lk_schema_find(&out, LK_LITERAL("a")), 1);
    assert_int_equal(lk_schema_find(&out, LK_LITERAL("b")), -1);
    lk_schema_release(&out);
    lk_schema_release(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_name_gives_its_format),
        cmocka_unit_test(text_reads_back_as_it_was_written),
        cmocka_unit_test(a_question_mark_makes_a_field_nullable_at_its_place_only),
        cmocka_unit_test(a_column_is_a_name_and_a_type),
        cmocka_unit_test(wrong_text_is_told_with_its_place),
        cmocka_unit_test(nesting_in_text_is_bounded),
        cmocka_unit_test(a_file_column_has_its_members_and_its_mark),
        cmocka_unit_test(append_looks_at_names_order_and_types_only),
        cmocka_unit_test(item_names_are_no_part_of_a_list_type),
        cmocka_unit_test(a_table_may_have_any_names_but_not_twice_nor_none),
        cmocka_unit_test(only_a_dataset_may_hold_a_struct_without_members),
        cmocka_unit_test(columns_and_depth_are_bounded),
        cmocka_unit_test(projection_keeps_order_and_metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
