/* json_test.c - canonical bytes out; in, exactly RFC 8259 and exactly the known fields. */
#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void the_writer_is_compact_and_in_order(void **state)
{
    lk_buf         out = {0};
    lk_json_writer w = {&out, false};
    lk_json_object(&w);
    lk_json_key(&w, "b");
    lk_json_u64(&w, UINT64_MAX);
    lk_json_key(&w, "a");
    lk_json_array(&w);
    lk_json_i64(&w, INT64_MIN);
    lk_json_bool(&w, true);
    lk_json_null(&w);
    lk_json_object(&w);
    lk_json_object_end(&w);
    lk_json_array(&w);
    lk_json_array_end(&w);
    lk_json_array_end(&w);
    lk_json_key(&w, "c");
    lk_json_base64(&w, LK_LITERAL("foobar"));
    lk_json_key(&w, "d");
    lk_json_raw(&w, LK_LITERAL("1.5"));
    lk_json_object_end(&w);
    assert_string_equal(out.data, "{\"b\":18446744073709551615,\"a\":[-9223372036854775808,true,null,{},[]],"
                                  "\"c\":\"Zm9vYmFy\",\"d\":1.5}");
    lk_buf_deinit(&out);
}

static void only_quotes_backslashes_and_controls_are_escaped(void **state)
{
    lk_buf         out = {0};
    lk_json_writer w = {&out, false};
    lk_json_text(&w, LK_LITERAL("\"\\/\b\f\n\r\t\x01\x1f\x7f\xC3\xA9"));
    assert_string_equal(out.data, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xC3\xA9\"");
    lk_buf_deinit(&out);
}

struct record {
    lk_bytes      name, raw, bytes;
    uint64_t      count;
    bool          on, has_on;
    lk_json_texts tags;
};

static lk_rc read_record(const char *text, lk_arena *arena, struct record *out, lk_err *err)
{
    *out = (struct record){.on = true};
    const lk_json_field fields[] = {
        {.name = "name", .type = LK_JSON_TEXT, .target = &out->name},
        {.name = "count", .type = LK_JSON_U64, .target = &out->count, .optional = true},
        {.name = "on", .type = LK_JSON_BOOL, .target = &out->on, .optional = true, .found = &out->has_on},
        {.name = "raw", .type = LK_JSON_RAW, .target = &out->raw, .optional = true},
        {.name = "bytes", .type = LK_JSON_BASE64, .target = &out->bytes, .optional = true},
        {.name = "tags", .type = LK_JSON_TEXTS, .target = &out->tags, .optional = true},
    };
    return lk_json_read(lk_bytes_of(text), fields, sizeof fields / sizeof fields[0], arena, err);
}

static void known_fields_are_read_in_any_order(void **state)
{
    lk_arena      arena = {0};
    lk_err        err = {0};
    struct record r;
    assert_int_equal(
        read_record(
            " {\"raw\" : { \"a\":[1, 2] } ,\"bytes\":\"Zm9v\",\"tags\":[\"x\", \"y\\n\"],\"on\":false,"
            "\"count\":18446744073709551615,\"name\":\"\\u00e9\\ud83d\\ude00\\/\"}\n",
            &arena, &r, &err),
        LK_OK);
    assert_string_equal(r.name.data, "\xC3\xA9\xF0\x9F\x98\x80/");
    assert_int_equal(r.name.size, 7);
    assert_int_equal(r.count, UINT64_MAX);
    assert_true(r.has_on);
    assert_false(r.on);
    assert_string_equal(r.raw.data, "{ \"a\":[1, 2] }");
    assert_string_equal(r.bytes.data, "foo");
    assert_int_equal(r.tags.count, 2);
    assert_string_equal(r.tags.items[1].data, "y\n");
    lk_arena_close(&arena);
}

static void absent_or_null_leaves_an_optional_target_alone(void **state)
{
    lk_arena      arena = {0};
    lk_err        err = {0};
    struct record r;
    assert_int_equal(read_record("{\"name\":\"\",\"on\":null}", &arena, &r, &err), LK_OK);
    assert_true(r.on);
    assert_false(r.has_on);
    assert_int_equal(r.name.size, 0);
    lk_arena_close(&arena);
}

static void anything_but_the_known_object_is_refused_by_name(void **state)
{
    static const struct {
        const char *text, *detail;
    } cases[] = {
        {"{}", "field \"name\" is missing"},
        {"{\"name\":\"a\",\"nme\":1}", "field \"nme\" is unknown"},
        {"{\"name\":\"a\",\"name\":\"b\"}", "field \"name\" appears twice"},
        {"{\"name\":\"a\",\"raw\":{\"x\":1,\"x\":2}}", "field \"x\" appears twice"},
        {"{\"name\":\"a\",\"raw\":{\"x\":1,\"\\u0078\":2}}", "field \"x\" appears twice"},
        {"{\"name\":1}", "field \"name\" must be a text"},
        {"{\"name\":null}", "field \"name\" must not be null"},
        {"{\"name\":\"a\",\"count\":1.0}", "field \"count\" must be an integer from 0 to 2^64-1"},
        {"{\"name\":\"a\",\"count\":-1}", "field \"count\" must be an integer from 0 to 2^64-1"},
        {"{\"name\":\"a\",\"count\":18446744073709551616}",
            "field \"count\" must be an integer from 0 to 2^64-1"},
        {"{\"name\":\"a\",\"on\":\"true\"}", "field \"on\" must be true or false"},
        {"{\"name\":\"a\",\"bytes\":\"Zh==\"}", "field \"bytes\" is not base64"},
        {"{\"name\":\"a\",\"tags\":[\"x\",1]}", "field \"tags\" must be an array of texts"},
        {"{\"name\":\"a\",\"\xC3\xA9\":1}", "a field is unknown"},
        {"[]", "JSON: an object was expected at byte 0"},
        {"{\"name\":\"a\"} x", "JSON: more after the value at byte 13"},
        {"", "JSON: an object was expected at byte 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_arena      arena = {0};
        lk_err        err = {0};
        struct record r;
        assert_int_equal(read_record(cases[i].text, &arena, &r, &err), LK_E_INVALID_REQUEST);
        assert_string_equal(err.detail, cases[i].detail);
        lk_arena_close(&arena);
    }
}

static lk_rc read_value(lk_bytes value, lk_bytes *out, lk_arena *arena, lk_err *err)
{
    lk_buf text = {0};
    lk_buf_append_text(&text, "{\"v\":");
    lk_buf_append_bytes(&text, value);
    lk_buf_append_text(&text, "}");
    const lk_json_field field = {.name = "v", .type = LK_JSON_RAW, .target = out};
    lk_rc               rc = lk_json_read(lk_buf_view(&text), &field, 1, arena, err);
    lk_buf_deinit(&text);
    return rc;
}

/* Each text as a whole value: read as it stands, or refused. */
static void check_values(const char *const *texts, size_t count, lk_rc expected)
{
    for (size_t i = 0; i < count; i++) {
        lk_arena arena = {0};
        lk_err   err = {0};
        lk_bytes value = {0};
        assert_int_equal(read_value(lk_bytes_of(texts[i]), &value, &arena, &err), expected);
        if (expected == LK_OK) {
            assert_string_equal(value.data, texts[i]);
        }
        lk_arena_close(&arena);
    }
}

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* The grammar of RFC 8259, by its own productions. */
static void values_of_rfc_8259_are_read(void **state)
{
    static const char *const good[] = {"0", "-0", "1", "10", "-1.5", "1e5", "1E+5", "1.25e-7", "true",
        "false", "null", "\"\"", "[]", "{}", "[ ]", "{ }", "[[],{}]", "[1,2 , 3]",
        "\"\\\\\\\"\\/\\b\\f\\n\\r\\t\\u0041\"", "\"\\uD834\\uDD1E\"", "{\"\":0}"};
    check_values(good, COUNT(good), LK_OK);
}

static void everything_else_is_refused(void **state)
{
    static const char *const numbers[] = {
        "00", "01", "-", "-a", "+1", ".5", "1.", "1e", "1e+", "0x1", "NaN", "Infinity"};
    static const char *const structure[] = {"", "True", "nul", "[1,]", "[,1]", "[1 2]", "{\"a\"}", "{\"a\":}",
        "{\"a\":1,}", "{a:1}", "{1:1}", "[", "{", "[1}", "{\"a\":1]", "// x", "1/**/", "\xEF\xBB\xBF 1"};
    static const char *const texts[] = {"'a'", "\"\\x\"", "\"\\u12\"", "\"\\u00g0\"", "\"\\ud800\"",
        "\"\\ud800\\u0041\"", "\"\\udc00\"", "\"\\u0000\"", "\"a\nb\"", "\"\xFF\"", "\"\xED\xA0\x80\"", "\"",
        "\"\\"};
    check_values(numbers, COUNT(numbers), LK_E_INVALID_REQUEST);
    check_values(structure, COUNT(structure), LK_E_INVALID_REQUEST);
    check_values(texts, COUNT(texts), LK_E_INVALID_REQUEST);
}

static void nesting_is_bounded(void **state)
{
    for (size_t depth = LK_JSON_DEPTH_MAX - 2; depth <= LK_JSON_DEPTH_MAX; depth++) {
        lk_arena arena = {0};
        lk_err   err = {0};
        lk_bytes value = {0};
        lk_buf   text = {0};
        for (size_t i = 0; i < depth; i++) {
            lk_buf_append_text(&text, "[");
        }
        for (size_t i = 0; i < depth; i++) {
            lk_buf_append_text(&text, "]");
        }
        bool fits = depth < LK_JSON_DEPTH_MAX; /* the outer object is one level */
        assert_int_equal(
            read_value(lk_buf_view(&text), &value, &arena, &err), fits ? LK_OK : LK_E_INVALID_REQUEST);
        lk_buf_deinit(&text);
        lk_arena_close(&arena);
    }
}

static void objects_have_a_bounded_number_of_fields(void **state)
{
    for (int count = LK_JSON_KEYS_MAX; count <= LK_JSON_KEYS_MAX + 1; count++) {
        lk_arena       arena = {0};
        lk_err         err = {0};
        lk_bytes       value = {0};
        lk_buf         text = {0}, name = {0};
        lk_json_writer w = {&text, false};
        lk_json_object(&w);
        for (int i = 0; i < count; i++) {
            lk_buf_clear(&name);
            lk_buf_format(&name, "k%d", i);
            lk_json_key(&w, name.data);
            lk_json_null(&w);
        }
        lk_json_object_end(&w);
        assert_int_equal(read_value(lk_buf_view(&text), &value, &arena, &err),
            count <= LK_JSON_KEYS_MAX ? LK_OK : LK_E_INVALID_REQUEST);
        lk_buf_deinit(&text);
        lk_buf_deinit(&name);
        lk_arena_close(&arena);
    }
}

static void every_cut_of_a_good_text_is_refused(void **state)
{
    static const char good[] = "{\"name\":\"\\u00e9\\\\\",\"raw\":[1.5e3,{\"a\":true}],\"tags\":[\"x\"]}";
    for (size_t size = 0; size < sizeof good - 1; size++) {
        lk_arena arena = {0};
        lk_err   err = {0};
        char    *cut =
            lk_arena_text(&arena, (lk_bytes){good, size}); /* its own allocation: ASan sees an overrun */
        struct record r;
        assert_int_equal(read_record(cut, &arena, &r, &err), LK_E_INVALID_REQUEST);
        lk_arena_close(&arena);
    }
}

static void elements_are_raw_and_counted(void **state)
{
    lk_arena      arena = {0};
    lk_err        err = {0};
    lk_json_texts items = {0};
    assert_int_equal(
        lk_json_elements(LK_LITERAL(" [1, \"a\" ,{\"b\": 2}] "), 3, &arena, &items, &err), LK_OK);
    assert_int_equal(items.count, 3);
    assert_string_equal(items.items[0].data, "1");
    assert_string_equal(items.items[1].data, "\"a\"");
    assert_string_equal(items.items[2].data, "{\"b\": 2}");
    assert_int_equal(lk_json_elements(LK_LITERAL("[]"), 3, &arena, &items, &err), LK_OK);
    assert_int_equal(items.count, 0);
    assert_int_equal(lk_json_elements(LK_LITERAL("[1,2,3,4]"), 3, &arena, &items, &err), LK_E_LIMIT);
    assert_int_equal(lk_json_elements(LK_LITERAL("{}"), 3, &arena, &items, &err), LK_E_INVALID_REQUEST);
    lk_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_writer_is_compact_and_in_order),
        cmocka_unit_test(only_quotes_backslashes_and_controls_are_escaped),
        cmocka_unit_test(known_fields_are_read_in_any_order),
        cmocka_unit_test(absent_or_null_leaves_an_optional_target_alone),
        cmocka_unit_test(anything_but_the_known_object_is_refused_by_name),
        cmocka_unit_test(values_of_rfc_8259_are_read),
        cmocka_unit_test(everything_else_is_refused),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(objects_have_a_bounded_number_of_fields),
        cmocka_unit_test(every_cut_of_a_good_text_is_refused),
        cmocka_unit_test(elements_are_raw_and_counted),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
