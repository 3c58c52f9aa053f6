/*
 * records_json_test.c - records in and out. What comes out was taken from lance-context 0.6.3 for the same input, but for
 * the spelling of numbers, which is any that reads back the same.
 */
#include "rollout/records_json.h"

#include "arrow/schema.h"
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define NOW_US UINT64_C(1796024103064554) /* 2026-11-30T07:35:03.064554Z */

typedef struct outcome {
    lk_rc              rc;
    lk_err             err;
    struct ArrowSchema schema;
    struct ArrowArray  batch;
} outcome;

static outcome read_body(const char *body, lk_rc (*read)(lk_records *r, lk_bytes body, lk_err *err))
{
    outcome     o = {0};
    lk_records *records = NULL;
    assert_int_equal(lk_records_open(NOW_US, NULL, &records, &o.err), LK_OK);
    o.rc = read(records, lk_bytes_of(body), &o.err);
    if (o.rc == LK_OK) {
        o.rc = lk_records_finish(records, false, &o.batch, &o.err);
    }
    if (o.rc == LK_OK) {
        lk_record_schema(true, &o.schema);
        assert_int_equal(lk_array_validate(&o.schema, &o.batch, &o.err), LK_OK);
    }
    lk_records_close(records);
    return o;
}

static void end(outcome *o)
{
    lk_schema_release(&o->schema);
    lk_array_release(&o->batch);
}

static void row_is(const outcome *o, int64_t row, const char *expected)
{
    lk_buf text = {0};
    lk_record_write_json(&o->schema, &o->batch, row, &text);
    assert_string_equal(text.data, expected);
    lk_buf_deinit(&text);
}

static void body_gives(const char *body, const char *expected)
{
    outcome o = read_body(body, lk_records_read_json);
    assert_int_equal(o.rc, LK_OK);
    row_is(&o, 0, expected);
    end(&o);
}

static void a_minimal_record_gets_the_defaults(void **state)
{
    body_gives("{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r1\"}]}",
        "{\"id\":\"a\",\"rollout_id\":\"r1\",\"problem_id\":\"r1\",\"sequence_order\":0,\"role\":"
        "\"assistant\","
        "\"created_at\":\"2026-11-30T07:35:03.064554Z\",\"content_type\":\"text/plain\"}");
    body_gives("{\"records\":[{\"id\":\"a\",\"rollout_id\":\"\"}]}", /* copied from where no byte is yet */
        "{\"id\":\"a\",\"rollout_id\":\"\",\"problem_id\":\"\",\"sequence_order\":0,\"role\":\"assistant\","
        "\"created_at\":\"2026-11-30T07:35:03.064554Z\",\"content_type\":\"text/plain\"}");
}

static void every_field_comes_back(void **state)
{
    body_gives(
        " { \"records\" : [ {\"id\":\"x/\\u00e9\\ud83e\\udd16\\n\",\"rollout_id\":\"r\",\"problem_id\":\"p\","
        "\"dataset\":\"d\",\"sequence_order\":-3,\"role\":\"tool\",\"created_at\":\"2026-01-01T00:00:00.120+"
        "02:00\","
        "\"content\":\"hi \\\"you\\\"\",\"content_type\":\"application/json\",\"model_input_string\":\"mi\","
        "\"model_output_string\":\"mo\",\"rationale\":\"why\",\"problem_text\":\"pt\",\"user_metadata\":"
        "\"um\","
        "\"input_tokens\":[1, 2,null, -2147483648],\"output_tokens\":[],\"num_input_tokens\":4,"
        "\"num_output_tokens\":0,\"output_logprobs\":[-0.1,0,1e-45,null],\"input_logprobs\":[3.4e38],"
        "\"ref_logprobs\":[null],\"loss_mask\":[-128,127,0],\"advantage\":0.1,\"reward\":1,\"raw_reward\":-0."
        "0,"
        "\"grader_id\":\"g\",\"score\":16777217,\"include_in_training\":true,\"exclude_reason\":\"\","
        "\"policy_version\":\"v7\",\"relationships\":[{\"target_id\":\"t\",\"relation\":\"rel\",\"weight\":0."
        "5},"
        "{\"relation\":\"\",\"weight\":null,\"target_id\":\"u\",\"more\":[1]}],\"payload_checksum\":\"md5:"
        "x\","
        "\"artifact_type\":\"png\",\"metadata\":{\"b\" : [1.0, {\"c\":null}], \"a\":\"\\u0041\"},"
        "\"unknown\":{\"deep\":[[[]]]}} ] , \"other\":1 } ",
        "{\"id\":\"x/"
        "\xc3\xa9\xf0\x9f\xa4\x96\\n\",\"rollout_id\":\"r\",\"problem_id\":\"p\",\"dataset\":\"d\","
        "\"sequence_order\":-3,\"role\":\"tool\",\"created_at\":\"2025-12-31T22:00:00.120Z\","
        "\"content\":\"hi \\\"you\\\"\",\"content_type\":\"application/json\",\"model_input_string\":\"mi\","
        "\"model_output_string\":\"mo\",\"rationale\":\"why\",\"problem_text\":\"pt\",\"user_metadata\":"
        "\"um\","
        "\"input_tokens\":[1,2,null,-2147483648],\"output_tokens\":[],\"num_input_tokens\":4,"
        "\"num_output_tokens\":0,\"output_logprobs\":[-0.1,0.0,1e-45,null],\"input_logprobs\":[3.4e38],"
        "\"ref_logprobs\":[null],\"loss_mask\":[-128,127,0],\"advantage\":0.1,\"reward\":1.0,\"raw_reward\":-"
        "0.0,"
        "\"grader_id\":\"g\",\"score\":16777216.0,\"include_in_training\":true,\"exclude_reason\":\"\","
        "\"policy_version\":\"v7\",\"relationships\":[{\"target_id\":\"t\",\"relation\":\"rel\",\"weight\":0."
        "5},"
        "{\"target_id\":\"u\",\"relation\":\"\"}],\"payload_checksum\":\"md5:x\","
        "\"artifact_type\":\"png\",\"metadata\":{\"b\":[1.0,{\"c\":null}],\"a\":\"\\u0041\"}}");
}

static void null_is_as_if_it_were_not_there(void **state)
{
    body_gives("{\"records\":[{\"role\":null,\"id\":\"a\",\"rollout_id\":\"r\",\"problem_id\":null,"
               "\"created_at\":null,\"relationships\":null,\"metadata\":null,\"input_tokens\":null}]}",
        "{\"id\":\"a\",\"rollout_id\":\"r\",\"problem_id\":\"r\",\"sequence_order\":0,\"role\":\"assistant\","
        "\"created_at\":\"2026-11-30T07:35:03.064554Z\",\"content_type\":\"text/plain\"}");
}

static void a_payload_gives_its_size_and_is_checked(void **state)
{
    outcome o = read_body("{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\",\"binary_payload\":\"AAEC\"},{"
                          "\"id\":\"b\",\"rollout_id\":"
                          "\"r\",\"binary_payload\":\"\",\"payload_checksum\":"
                          "\"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}]}",
        lk_records_read_json);
    assert_int_equal(o.rc, LK_OK);
    const struct ArrowArray *payload = o.batch.children[LK_RECORD_COLUMN_binary_payload];
    const struct ArrowArray *size = o.batch.children[LK_RECORD_COLUMN_payload_size];
    assert_memory_equal(payload->buffers[2], "\0\1\2", 3);
    assert_int_equal(payload->null_count, 0);
    assert_int_equal(((const int64_t *)size->buffers[1])[0], 3);
    assert_int_equal(((const int64_t *)size->buffers[1])[1], 0);
    end(&o);
}

static void what_is_wrong_is_named(void **state)
{
    static const char *const bad[][2] = {
        {"", "expected an object with \"records\""},
        {"[]", "expected an object with \"records\""},
        {"{}", "there are no \"records\""},
        {"{\"records\":[]}", "\"records\" is empty"},
        {"{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\"}]} x", "something follows the object"},
        {"{\"records\":[{\"id\":\"a\"}]}", "record 0: field \"rollout_id\": it is missing"},
        {"{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\"},{\"rollout_id\":\"r\"}]}",
            "record 1: field \"id\": it is missing"},
        {"{\"records\":[{\"id\":\"\"}]}", "record 0: field \"id\": it must have 1 to 1024 bytes"},
        {"{\"records\":[{\"id\":7}]}", "record 0: field \"id\": expected a text"},
        {"{\"records\":[{\"id\":\"a\",\"id\":\"a\"}]}", "record 0: field \"id\": it is given twice"},
        {"{\"records\":[{\"input_tokens\":[1,2147483648]}]}",
            "field \"input_tokens\": an integer that is out of range"},
        {"{\"records\":[{\"input_tokens\":[1.0]}]}",
            "field \"input_tokens\": a number that is not written as an integer"},
        {"{\"records\":[{\"input_tokens\":[01]}]}", "a number with a leading zero"},
        {"{\"records\":[{\"loss_mask\":[200]}]}", "field \"loss_mask\": an integer that is out of range"},
        {"{\"records\":[{\"reward\":NaN}]}", "field \"reward\": expected a number that fits a 32-bit float"},
        {"{\"records\":[{\"reward\":1e39}]}", "expected a number that fits a 32-bit float"},
        {"{\"records\":[{\"content\":\"\\ud800\"}]}", "half of a surrogate pair"},
        {"{\"records\":[{\"content\":\"\\udc00\"}]}", "half of a surrogate pair"},
        {"{\"records\":[{\"content\":\"\xff\"}]}", "a text is not UTF-8"},
        {"{\"records\":[{\"content\":\"a\nb\"}]}", "a control character in a text"},
        {"{\"records\":[{\"content\":\"a\\x\"}]}", "an unknown escape"},
        {"{\"records\":[{\"binary_payload\":\"AAE\"}]}", "expected base64"},
        {"{\"records\":[{\"created_at\":\"yesterday\"}]}", "expected an RFC 3339 time"},
        {"{\"records\":[{\"include_in_training\":\"true\"}]}", "expected true or false"},
        {"{\"records\":[{\"relationships\":[{\"target_id\":\"t\"}]}]}",
            "a relationship needs target_id and relation"},
        {"{\"records\":[{\"metadata\":{\"a\":}}]}", "expected a value"},
        {"{\"records\":[{\"metadata\":[1,]}]}", "expected a value"},
        {"{\"records\":[{\"payload_size\":-1}]}", "it must not be negative"},
        {"{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\",\"binary_payload\":\"AAEC\",\"payload_size\":4}]}",
            "record 0: field \"payload_size\": it is not the payload's"},
        {"{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\",\"binary_payload\":\"AAEC\",\"payload_checksum\":"
         "\"sha256:00\"}]}",
            "record 0: field \"payload_checksum\": it is not the payload's"},
        {"{\"records\":[{\"id\":\"a\"", "expected a comma or }"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        outcome o = read_body(bad[i][0], lk_records_read_json);
        assert_int_equal(o.rc, LK_E_INVALID_REQUEST);
        if (strstr(o.err.detail, bad[i][1]) == NULL) {
            fail_msg("%s: got \"%s\"", bad[i][0], o.err.detail);
        }
        end(&o);
    }
}

static void deep_nesting_ends_at_the_limit(void **state)
{
    lk_buf body = {0};
    for (int depth = 64; depth <= 65; depth++) {
        lk_buf_clear(&body);
        lk_buf_append_text(&body, "{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\",\"metadata\":");
        for (int i = 0; i < depth; i++) {
            lk_buf_append_text(&body, "[");
        }
        for (int i = 0; i < depth; i++) {
            lk_buf_append_text(&body, "]");
        }
        lk_buf_append_text(&body, "}]}");
        outcome o = read_body(body.data, lk_records_read_json);
        assert_int_equal(o.rc, depth == 64 ? LK_OK : LK_E_INVALID_REQUEST);
        end(&o);
    }
    lk_buf_deinit(&body);
}

static void a_request_has_128_roles_at_most(void **state)
{
    lk_buf body = {0};
    for (int roles = 128; roles <= 129; roles++) {
        lk_buf_clear(&body);
        for (int i = 0; i < roles; i++) {
            lk_buf_format(&body, "{\"id\":\"%d\",\"rollout_id\":\"r\",\"role\":\"role-%d\"}\n\n", i, i);
        }
        outcome o = read_body(body.data, lk_records_read_ndjson);
        assert_int_equal(o.rc, roles == 128 ? LK_OK : LK_E_INVALID_REQUEST);
        assert_int_equal(o.batch.length, roles == 128 ? 128 : 0);
        end(&o);
    }
    lk_buf_deinit(&body);
}

static void lines_hold_one_record_each(void **state)
{
    outcome o = read_body("{\"id\":\"a\",\"rollout_id\":\"r\"}\r\n\n{\"id\":\"b\",\"rollout_id\":\"s\"}",
        lk_records_read_ndjson);
    assert_int_equal(o.rc, LK_OK);
    assert_int_equal(o.batch.length, 2);
    row_is(&o, 1,
        "{\"id\":\"b\",\"rollout_id\":\"s\",\"problem_id\":\"s\",\"sequence_order\":0,\"role\":\"assistant\","
        "\"created_at\":\"2026-11-30T07:35:03.064554Z\",\"content_type\":\"text/plain\"}");
    end(&o);
    static const char *const bad[] = {
        "", "\n\n", "{\"id\":\"a\",\"rollout_id\":\"r\"} 1", "{\"id\":\"a\",\n\"rollout_id\":\"r\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        o = read_body(bad[i], lk_records_read_ndjson);
        assert_int_equal(o.rc, LK_E_INVALID_REQUEST);
        end(&o);
    }
}

static void memory_is_charged_and_given_back(void **state)
{
    lk_budget   budget;
    lk_err      err = {0};
    lk_records *records = NULL;
    lk_buf      body = {0};
    lk_budget_init(&budget, "records", 1024 * 1024, NULL);
    lk_buf_append_text(&body, "{\"records\":[");
    for (int i = 0; i < 2000; i++) {
        lk_buf_format(
            &body, "%s{\"id\":\"%d\",\"rollout_id\":\"r\",\"content\":\"%0800d\"}", i == 0 ? "" : ",", i, i);
    }
    lk_buf_append_text(&body, "]}");
    assert_int_equal(lk_records_open(NOW_US, &budget, &records, &err), LK_OK);
    assert_int_equal(lk_records_read_json(records, lk_buf_view(&body), &err), LK_E_LIMIT);
    assert_true(budget.peak_bytes > 512 * 1024);
    lk_records_close(records);
    assert_int_equal(budget.used_bytes, 0);
    lk_buf_deinit(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_minimal_record_gets_the_defaults),
        cmocka_unit_test(every_field_comes_back),
        cmocka_unit_test(null_is_as_if_it_were_not_there),
        cmocka_unit_test(a_payload_gives_its_size_and_is_checked),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(deep_nesting_ends_at_the_limit),
        cmocka_unit_test(a_request_has_128_roles_at_most),
        cmocka_unit_test(lines_hold_one_record_each),
        cmocka_unit_test(memory_is_charged_and_given_back),
    };
    return cmocka_run_group_tests_name("records_json", tests, NULL, NULL);
}
