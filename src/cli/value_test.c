/* value_test.c - values as text; the expected texts are those of RFC 3339, RFC 4648 and the Arrow specification. */
#include "cli/value.h"

#include "arrow/schema.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* One value of a type, as JSON and as plain text. */
static void check(
    const char *type, void (*append)(struct ArrowArray *array), const char *json, const char *plain)
{
    struct ArrowSchema field = {0};
    struct ArrowArray  array = {0};
    lk_printer        *printer = NULL;
    lk_err             err = {0};
    lk_buf             text = {0};
    assert_int_equal(lk_type_parse(lk_bytes_of(type), LK_LITERAL("x"), &field, &err), LK_OK);
    assert_int_equal(ArrowArrayInitFromSchema(&array, &field, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&array), NANOARROW_OK);
    append(&array);
    assert_int_equal(ArrowArrayFinishBuildingDefault(&array, NULL), NANOARROW_OK);
    assert_int_equal(lk_printer_open(&printer, &field, &err), LK_OK);
    assert_int_equal(lk_printer_bind(printer, &array, &err), LK_OK);
    lk_printer_json(printer, array.length - 1, &text);
    assert_string_equal(text.data, json);
    lk_buf_clear(&text);
    lk_buf_append_text(&text, "");
    lk_printer_plain(printer, array.length - 1, &text);
    assert_string_equal(text.data == NULL ? "" : text.data, plain);
    lk_buf_deinit(&text);
    lk_printer_close(printer);
    lk_array_release(&array);
    lk_schema_release(&field);
}

#define OK(call) assert_int_equal(call, NANOARROW_OK)
static void null(struct ArrowArray *a)
{
    OK(ArrowArrayAppendNull(a, 1));
}
static void seven(struct ArrowArray *a)
{
    OK(ArrowArrayAppendInt(a, 7));
}
static void minus_one(struct ArrowArray *a)
{
    OK(ArrowArrayAppendInt(a, -1));
}
static void big(struct ArrowArray *a)
{
    OK(ArrowArrayAppendInt(a, INT64_MIN));
}
static void exact(struct ArrowArray *a)
{
    OK(ArrowArrayAppendInt(a, INT64_C(9007199254740992)));
}
static void unsigned_big(struct ArrowArray *a)
{
    OK(ArrowArrayAppendUInt(a, UINT64_MAX));
}
static void tenth(struct ArrowArray *a)
{
    OK(ArrowArrayAppendDouble(a, 0.1));
}
static void not_a_number(struct ArrowArray *a)
{
    OK(ArrowArrayAppendDouble(a, (double)NAN));
}
static void quote(struct ArrowArray *a)
{
    OK(ArrowArrayAppendString(a, ArrowCharView("say \"hi\"\n")));
}
static void foobar(struct ArrowArray *a)
{
    OK(ArrowArrayAppendBytes(a, (struct ArrowBufferView){{"foobar"}, 6}));
}
static void leap_day(struct ArrowArray *a)
{
    OK(ArrowArrayAppendInt(a, 19782));
} /* 2024-02-29 */
static void before_epoch(struct ArrowArray *a)
{
    OK(ArrowArrayAppendInt(a, -1));
}
static void instant(struct ArrowArray *a)
{
    OK(ArrowArrayAppendInt(a, INT64_C(482196050520000)));
} /* RFC 3339, 5.8 */

static void three(struct ArrowArray *a)
{
    for (int row = 0; row < 2; row++) {
        for (int i = 0; i < 3; i++) {
            OK(ArrowArrayAppendDouble(a->children[0], row + i));
        }
        OK(ArrowArrayFinishElement(a));
    }
}

static void pair(struct ArrowArray *a)
{
    OK(ArrowArrayAppendInt(a->children[0], 1));
    OK(ArrowArrayAppendNull(a->children[1], 1));
    OK(ArrowArrayFinishElement(a));
}

static void every_type_has_its_text(void **state)
{
    (void)state;
    check("int64?", null, "null", "");
    check("int32", seven, "7", "7");
    check("bool", seven, "true", "true");
    check("int64", big, "\"-9223372036854775808\"", "-9223372036854775808");
    check("int64", exact, "9007199254740992", "9007199254740992");
    check("uint64", unsigned_big, "\"18446744073709551615\"", "18446744073709551615");
    check("float64", tenth, "0.1", "0.1");
    check("float32", tenth, "0.1", "0.1");
    check("float64", not_a_number, "\"NaN\"", "NaN");
    check("utf8", quote, "\"say \\\"hi\\\"\\n\"", "say \"hi\"\n");
    check("binary", foobar, "\"Zm9vYmFy\"", "666f6f626172");
    check("date32", leap_day, "\"2024-02-29\"", "2024-02-29");
    check("date32", before_epoch, "\"1969-12-31\"", "1969-12-31");
    check("timestamp[us,UTC]", instant, "\"1985-04-12T23:20:50.520000Z\"", "1985-04-12T23:20:50.520000Z");
    check("timestamp[s]", minus_one, "\"1969-12-31T23:59:59\"", "1969-12-31T23:59:59");
    check("time32[s]", seven, "\"00:00:07\"", "00:00:07");
    check("fixed_size_list<float32>(3)", three, "[1,2,3]", "[1, 2, 3]");
    check("list<float32>", three, "[1,2,3]", "[1, 2, 3]");
    check("struct<a:int64,b:utf8?>", pair, "{\"a\":1,\"b\":null}", "{a: 1, b: null}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_type_has_its_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
