/* rollout_service_test.c - requests of the rollout service as clients send them, over sockets. (LK_TSAN) */
#include "serve/rollout_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#define RL "/api/v1/rollouts/rl"

static int open_with_store(void **state)
{
    if (fixture_open_service(state) != 0) {
        return -1;
    }
    fixture_expect(fixture_post("/api/v1/rollouts", "{\"name\":\"rl\"}"), 201, "\"name\":\"rl\"");
    return 0;
}

static void health_is_open_and_constant(void **state)
{
    fixture_expect(fixture_get("/api/v1/health"), 200, "{\"status\":\"ok\"}");
    fixture_expect(fixture_get("/api/v1/ready"), 200, "c4118b9c-7f79-523d-9bad-381e42232c1d");
}

static void a_store_is_made_once_found_listed_and_removed(void **state)
{
    fixture_expect(fixture_post("/api/v1/rollouts", "{\"name\":\"rl\"}"), 409, "ALREADY_EXISTS");
    fixture_expect(fixture_get(RL), 200, "rl.rollout.lance\",\"version\":");
    fixture_expect(fixture_get("/api/v1/rollouts"), 200, "{\"stores\":[{\"name\":\"rl\",\"uri\":\"");
    fixture_expect(fixture_get("/api/v1/rollouts/nope"), 404, "NOT_FOUND");
    fixture_expect(fixture_get("/api/v1/rollouts/%2e%2e"), 400, "INVALID_REQUEST");
    fixture_expect(fixture_send("DELETE", RL, "", (lk_bytes){0}), 204, NULL);
    fixture_expect(fixture_send("DELETE", RL, "", (lk_bytes){0}), 404, "NOT_FOUND");
    fixture_expect(fixture_post("/api/v1/rollouts", "{\"name\":\"rl\",\"storage_options\":{}}"), 201, NULL);
    fixture_expect(fixture_post("/api/v1/rollouts", "{\"name\":\"_stats\"}"), 400, "INVALID_REQUEST");
    fixture_expect(fixture_post("/api/v1/rollouts", "[1]"), 400, "INVALID_REQUEST");
}

static void a_minimal_record_comes_back_with_its_defaults(void **state)
{
    fixture_expect(fixture_post(RL "/records", "{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\"}]}"), 201,
        "\"ids\":[\"a\"],\"count\":1}");
    fixture_answer a = fixture_get(RL "/records/a");
    assert_non_null(
        strstr(a.body.data, "{\"record\":{\"id\":\"a\",\"rollout_id\":\"r\",\"problem_id\":\"r\","));
    assert_non_null(strstr(a.body.data, "\"role\":\"assistant\""));
    assert_non_null(strstr(a.body.data, "\"content_type\":\"text/plain\""));
    assert_non_null(strstr(a.body.data, "\"sequence_order\":0"));
    assert_null(strstr(a.body.data, "null"));
    fixture_answer_deinit(&a);
    fixture_expect(fixture_get(RL "/records/b"), 200, "{\"record\":null}");
    fixture_expect(fixture_get("/api/v1/rollouts/nope/records/a"), 404, "NOT_FOUND");
    fixture_expect(fixture_get(RL "/records"), 200, "{\"records\":[{\"id\":\"a\",");
    fixture_expect(fixture_get("/rollouts/rl/a"), 200, "{\"record\":{\"id\":\"a\",");
    fixture_expect(
        fixture_post("/rollouts/rl", "{\"records\":[{\"id\":\"b\",\"rollout_id\":\"r\"}]}"), 201, NULL);
    fixture_expect(fixture_get(RL "/records?limit=1&offset=1"), 200, "{\"records\":[{\"id\":\"b\",");
}

static void what_is_not_a_list_of_records_changes_nothing(void **state)
{
    static const char *const bodies[] = {"{\"records\":[]}", "{\"records\":[{\"id\":\"a\"", "{}",
        "{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\",\"input_tokens\":[2147483648]}]}",
        "{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\",\"loss_mask\":[200]}]}",
        "{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\",\"reward\":NaN}]}"};
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        fixture_expect(fixture_post(RL "/records", bodies[i]), 400, "INVALID_REQUEST");
    }
    fixture_expect(fixture_get(RL "/records"), 200, "{\"records\":[]}");
}

static void a_payload_comes_with_a_form_and_goes_as_a_blob(void **state)
{
    lk_bytes body = LK_LITERAL(
        "--X\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n"
        "{\"records\":[{\"id\":\"a\",\"rollout_id\":\"r\"},{\"id\":\"b\",\"rollout_id\":\"r\"}]}\r\n"
        "--X\r\nContent-Disposition: form-data; name=\"1\"\r\n\r\nbytes\r\n--X--\r\n");
    fixture_expect(
        fixture_send("POST", RL "/records", "Content-Type: multipart/form-data; boundary=X\r\n", body), 201,
        "\"count\":2");
    fixture_expect(fixture_get(RL "/records/b/blob"), 200, "bytes");
    fixture_expect(fixture_get(RL "/records/a/blob"), 404, "NOT_FOUND");
    fixture_expect(fixture_get(RL "/records/c/blob"), 404, "NOT_FOUND");
    fixture_expect(fixture_get(RL "/records/b"), 200, "\"payload_size\":5");
}

static void other_types_methods_and_paths_are_refused_with_their_codes(void **state)
{
    fixture_expect(fixture_send("POST", RL "/records", "Content-Type: text/csv\r\n", LK_LITERAL("a,b")), 415,
        "UNSUPPORTED_MEDIA_TYPE");
    fixture_answer a = fixture_send("PUT", RL "/records", "", (lk_bytes){0});
    assert_non_null(strstr(a.head.data, "Allow: POST, GET, HEAD\r\n"));
    fixture_expect(a, 405, "METHOD_NOT_ALLOWED");
    fixture_expect(fixture_get("/api/v1/nothing"), 404, "{\"error\":{\"code\":\"NOT_FOUND\",\"message\":\"");
}

int main(void)
{
#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, open_with_store, fixture_close_service)
    const struct CMUnitTest tests[] = {
        WITH_STORE(health_is_open_and_constant),
        WITH_STORE(a_store_is_made_once_found_listed_and_removed),
        WITH_STORE(a_minimal_record_comes_back_with_its_defaults),
        WITH_STORE(what_is_not_a_list_of_records_changes_nothing),
        WITH_STORE(a_payload_comes_with_a_form_and_goes_as_a_blob),
        WITH_STORE(other_types_methods_and_paths_are_refused_with_their_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
