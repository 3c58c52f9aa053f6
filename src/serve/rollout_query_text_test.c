/* rollout_query_text_test.c - parameters of lists. */
#include "serve/rollout_query_text.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static lk_arena              arena;
static lk_rollout_list_query query;

static lk_rc read_text(const char *text)
{
    lk_err err = {0};
    lk_arena_close(&arena);
    lk_rc rc = lk_rollout_list_query_read(lk_bytes_of(text), &arena, &query, &err);
    assert_true(rc == LK_OK || err.detail[0] != '\0');
    return rc;
}

static void nothing_asks_for_everything_in_order_of_time(void **state)
{
    assert_int_equal(read_text(""), LK_OK);
    assert_true(query.query.limit == UINT64_MAX && query.query.offset == 0 && query.query.filter_count == 0);
    assert_int_equal(query.query.order, LK_ROLLOUT_BY_TIME);
    assert_true(query.query.columns == 0 && query.version == 0 && !query.has_cursor && !query.has_format);
}

static void every_parameter_is_taken(void **state)
{
    assert_int_equal(
        read_text("limit=10&offset=3&order=id&columns=id,reward&version=7&format=ndjson"), LK_OK);
    assert_true(query.query.limit == 10 && query.query.offset == 3 && query.version == 7);
    assert_int_equal(query.query.order, LK_ROLLOUT_BY_ID);
    assert_int_equal(
        query.query.columns, UINT64_C(1) << LK_RECORD_COLUMN_id | UINT64_C(1) << LK_RECORD_COLUMN_reward);
    assert_int_equal(query.format, LK_ROLLOUT_AS_NDJSON);
    assert_int_equal(read_text("cursor=abc&limit=1"), LK_OK);
    assert_true(query.has_cursor && lk_bytes_equal(query.cursor, LK_LITERAL("abc")));
    assert_int_equal(read_text("columns=id,binary_payload&payload=inline"), LK_OK);
}

static void filters_are_conditions_of_named_columns(void **state)
{
    assert_int_equal(read_text("filters=%7B%22policy_version%22%3A%22p%221%7D"), LK_E_INVALID_REQUEST);
    assert_int_equal(read_text("filters={\"policy_version\":\"p+1\",\"include_in_training\":true}"), LK_OK);
    assert_int_equal(query.query.filter_count, 2);
    assert_int_equal(query.query.filters[0].column, LK_RECORD_COLUMN_policy_version);
    assert_true(lk_bytes_equal(query.query.filters[0].texts[0], LK_LITERAL("p 1"))); /* a plus is a blank */
    assert_true(query.query.filters[1].truth);
    assert_int_equal(
        read_text("filters={\"id\":{\"in\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\",\"i\"]}}"),
        LK_OK);
    assert_int_equal(query.query.filters[0].text_count, 9);
    assert_true(lk_bytes_equal(query.query.filters[0].texts[8], LK_LITERAL("i")));
    assert_int_equal(read_text("filters={\"role\":{\"in\":[]}}"), LK_OK);
    assert_int_equal(query.query.filters[0].text_count, 0);
    assert_int_equal(read_text("filters={\"created_at\":{\"gte\":\"1970-01-01T00:00:01Z\"}}"), LK_OK);
    assert_true(query.query.filters[0].from == 1000000 && query.query.filters[0].to == INT64_MAX);
    assert_int_equal(read_text("filters={}"), LK_OK);
    assert_int_equal(query.query.filter_count, 0);
}

static void what_is_wrong_is_named(void **state)
{
    static const char *const wrong[] = {"limit=", "limit=-1", "limit=1.5", "limit=18446744073709551616",
        "offset=x", "order=size", "columns=", "columns=id,", "columns=nothing", "columns=binary_payload",
        "version=0", "version=a", "format=csv", "payload=all", "cursor=a&offset=1", "cursor=a&version=1",
        "cursor=&order=none", "limit=%zz", "filters=", "filters=[]", "filters={", "filters={}x",
        "filters={\"reward\":1}", "filters={\"nothing\":\"a\"}", "filters={\"include_in_training\":\"true\"}",
        "filters={\"role\":true}", "filters={\"role\":{\"in\":[1]}}", "filters={\"role\":{\"out\":[]}}",
        "filters={\"role\":{\"in\":[],\"in\":[]}}", "filters={\"role\":\"a\",\"role\":\"b\"}",
        "filters={\"created_at\":\"1970-01-01T00:00:01Z\"}", "filters={\"created_at\":{}}",
        "filters={\"created_at\":{\"gte\":\"yesterday\"}}", "filters={\"id\":null}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (read_text(wrong[i]) != LK_E_INVALID_REQUEST) {
            fail_msg("%s was taken", wrong[i]);
        }
    }
    lk_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_asks_for_everything_in_order_of_time),
        cmocka_unit_test(every_parameter_is_taken),
        cmocka_unit_test(filters_are_conditions_of_named_columns),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
