/* config_test.c - defaults, ranges, words, and what is refused by name. */
#include "base/config.h"

#include "base/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct one {
    const char *name, *value;
};

static const char *get_one(const char *name, void *context)
{
    const struct one *one = context;
    return strcmp(name, one->name) == 0 ? one->value : NULL;
}

static lk_rc load(const char *name, const char *value, lk_config *config, lk_err *err)
{
    struct one one = {name, value};
    return lk_config_load(config, get_one, &one, err);
}

static void unset_settings_have_their_defaults(void **state)
{
    lk_config config;
    lk_err    err = {0};
    assert_int_equal(load("NONE", NULL, &config, &err), LK_OK);
    assert_int_equal(config.ticket_ttl_secs, 300);
    assert_string_equal(config.endpoint, "grpc://127.0.0.1:50051");
    assert_null(config.tls_cert_file);
}

static void numbers_are_digits_in_range(void **state)
{
    static const struct {
        const char *text;
        lk_rc       rc;
    } cases[] = {
        {"1", LK_OK},
        {"3600", LK_OK},
        {"0", LK_E_INVALID_CONFIG},
        {"3601", LK_E_INVALID_CONFIG},
        {"", LK_E_INVALID_CONFIG},
        {"60s", LK_E_INVALID_CONFIG},
        {"-1", LK_E_INVALID_CONFIG},
        {" 1", LK_E_INVALID_CONFIG},
        {"99999999999999999999999", LK_E_INVALID_CONFIG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_config config;
        lk_err    err = {0};
        assert_int_equal(load("LAKE_QUERY_TICKET_TTL_SECS", cases[i].text, &config, &err), cases[i].rc);
        if (cases[i].rc == LK_OK) {
            assert_int_equal(config.ticket_ttl_secs, strtoull(cases[i].text, NULL, 10));
        } else {
            assert_string_equal(err.detail, "LAKE_QUERY_TICKET_TTL_SECS must be 1..3600 seconds");
        }
    }
}

static void words_are_one_of_the_list_and_never_empty(void **state)
{
    lk_config config;
    lk_err    err = {0};
    assert_int_equal(load("LAKE_LOG_FORMAT", "json", &config, &err), LK_OK);
    assert_string_equal(config.log_format, "json");
    assert_int_equal(load("LAKE_LOG_LEVEL", "loud", &config, &err), LK_E_INVALID_CONFIG);
    assert_string_equal(err.detail, "LAKE_LOG_LEVEL must be one of debug info warn error off");
    assert_int_equal(load("LAKE_AUTH_TOKEN_FILE", "", &config, &err), LK_E_INVALID_CONFIG);
    assert_string_equal(err.detail, "LAKE_AUTH_TOKEN_FILE must not be empty; unset it instead");
}

static char *printed(void (*print)(const lk_config *, FILE *), const lk_config *config)
{
    char  *text = NULL;
    size_t size = 0;
    FILE  *out = open_memstream(&text, &size);
    print(config, out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void the_printout_shows_what_is_in_force(void **state)
{
    lk_config config;
    lk_err    err = {0};
    assert_int_equal(load("LAKE_GRPC_THREADS", "7", &config, &err), LK_OK);
    char *text = printed(lk_config_print, &config);
    assert_non_null(strstr(text, "LAKE_GRPC_THREADS"));
    assert_non_null(strstr(text, "7 threads"));
    free(text);
}

static void the_json_printout_is_a_list_of_settings(void **state)
{
    lk_config     config;
    lk_err        err = {0};
    lk_arena      arena = {0};
    lk_json_texts items = {0};
    assert_int_equal(load("LAKE_GRPC_THREADS", "7", &config, &err), LK_OK);
    char *text = printed(lk_config_print_json, &config);
    assert_int_equal(lk_json_elements(lk_bytes_of(text), 1000, &arena, &items, &err), LK_OK);
    bool seen = false;
    for (size_t i = 0; i < items.count; i++) {
        lk_bytes            name = {0}, value = {0}, unit = {0}, help = {0};
        const lk_json_field fields[] = {
            {.name = "name", .type = LK_JSON_TEXT, .target = &name},
            {.name = "value", .type = LK_JSON_RAW, .target = &value},
            {.name = "unit", .type = LK_JSON_TEXT, .target = &unit},
            {.name = "help", .type = LK_JSON_TEXT, .target = &help},
        };
        assert_int_equal(lk_json_read(items.items[i], fields, 4, &arena, &err), LK_OK);
        if (lk_bytes_equal(name, LK_LITERAL("LAKE_GRPC_THREADS"))) {
            assert_string_equal(value.data, "7");
            seen = true;
        }
    }
    assert_true(seen);
    free(text);
    lk_arena_close(&arena);
}

static void a_secret_is_never_printed(void **state)
{
    lk_config config;
    lk_err    err = {0};
    char     *text = NULL, *json = NULL;
    size_t    size = 0;
    assert_int_equal(load("AWS_SECRET_ACCESS_KEY", "hush", &config, &err), LK_OK);
    assert_string_equal(config.aws_secret_access_key, "hush");
    FILE *out = open_memstream(&text, &size);
    lk_config_print(&config, out);
    (void)fclose(out);
    out = open_memstream(&json, &size);
    lk_config_print_json(&config, out);
    (void)fclose(out);
    assert_non_null(strstr(text, "(set)"));
    assert_non_null(strstr(json, "(set)"));
    assert_null(strstr(text, "hush"));
    assert_null(strstr(json, "hush"));
    free(text);
    free(json);
}

static void an_empty_setting_of_other_tools_is_unset_and_ours_is_refused(void **state)
{
    lk_config config;
    lk_err    err = {0};
    assert_int_equal(load("AWS_SESSION_TOKEN", "", &config, &err), LK_OK);
    assert_null(config.aws_session_token);
    assert_int_equal(load("LAKE_S3_ADDRESSING", "", &config, &err), LK_E_INVALID_CONFIG);
}

static void a_flag_sets_a_setting_under_its_own_name(void **state)
{
    lk_config config;
    lk_err    err = {0};
    char      scratch[24];
    size_t    port = LK_SETTING(rollout_port), fsync = LK_SETTING(rollout_fsync);
    assert_int_equal(load("ROLLOUT_LISTEN_PORT", "4000", &config, &err), LK_OK);
    assert_int_equal(config.rollout_port, 4000);
    assert_int_equal(lk_config_set(&config, port, "--port", "4001", &err), LK_OK);
    assert_int_equal(config.rollout_port, 4001);
    assert_string_equal(lk_config_shown(&config, port, scratch), "4001");
    assert_int_equal(lk_config_set(&config, port, "--port", "65536", &err), LK_E_INVALID_CONFIG);
    assert_string_equal(err.detail, "--port must be 0..65535");
    assert_int_equal(config.rollout_port, 4001);
    err = (lk_err){0};
    assert_int_equal(lk_config_set(&config, fsync, "--fsync", "sometimes", &err), LK_E_INVALID_CONFIG);
    assert_string_equal(err.detail, "--fsync must be one of always never");
    assert_string_equal(config.rollout_fsync, "always");
    assert_string_equal(lk_config_setting(fsync).env, "ROLLOUT_FSYNC");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unset_settings_have_their_defaults),
        cmocka_unit_test(numbers_are_digits_in_range),
        cmocka_unit_test(words_are_one_of_the_list_and_never_empty),
        cmocka_unit_test(the_printout_shows_what_is_in_force),
        cmocka_unit_test(the_json_printout_is_a_list_of_settings),
        cmocka_unit_test(a_secret_is_never_printed),
        cmocka_unit_test(a_flag_sets_a_setting_under_its_own_name),
        cmocka_unit_test(an_empty_setting_of_other_tools_is_unset_and_ours_is_refused),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
