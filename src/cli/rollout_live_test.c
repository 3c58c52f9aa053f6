/* rollout_live_test.c - limits out of a file: what it may name, and what is said of the rest. */
#include "cli/rollout_live.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *no_variable(const char *name, void *context)
{
    return NULL;
}

typedef struct loaded {
    lk_config config;
    lk_arena  arena;
    uint64_t  from_file;
    lk_err    err;
    lk_rc     rc;
} loaded;

static loaded load(const char *text)
{
    loaded l = {0};
    char   path[] = P_tmpdir "/lake-limits-XXXXXX";
    int    fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(lk_file_replace(path, lk_bytes_of(text), 0644, &l.err), LK_OK);
    assert_int_equal(lk_config_load(&l.config, no_variable, NULL, &l.err), LK_OK);
    l.rc = lk_rollout_live_load(path, &l.config, &l.arena, &l.from_file, &l.err);
    unlink(path);
    return l;
}

static void a_file_sets_the_limits_that_it_names(void **state)
{
    unsigned index;
    loaded   l = load("# live\n\n ROLLOUT_MAX_BODY = "
                        "4096\r\nROLLOUT_MAX_INFLIGHT_BLOB_BYTES=auto\nROLLOUT_GROUP_COMMIT_US=0");
    assert_int_equal(l.rc, LK_OK);
    assert_int_equal(l.config.rollout_max_body_bytes, 4096);
    assert_string_equal(l.config.rollout_max_inflight_blob_bytes, "auto");
    assert_int_equal(l.config.rollout_max_queued_bytes, 1073741824);
    assert_true(lk_rollout_live_index(LK_SETTING(rollout_max_body_bytes), &index));
    assert_true((l.from_file >> index & 1) == 1);
    assert_true(lk_rollout_live_index(LK_SETTING(rollout_max_queued_bytes), &index));
    assert_true((l.from_file >> index & 1) == 0);
    assert_false(lk_rollout_live_index(LK_SETTING(rollout_port), &index));
    lk_arena_close(&l.arena);
}

static void what_is_wrong_is_told_by_line_and_name(void **state)
{
    static const char *const cases[][2] = {
        {"\nROLLOUT_MAX_BODY=1\n", "line 2: ROLLOUT_MAX_BODY must be 1024..4294967296 bytes"},
        {"ROLLOUT_MAX_BODY\n", "line 1 is not NAME=VALUE"},
        {"ROLLOUT_LISTEN_PORT=1\n", "line 1: ROLLOUT_LISTEN_PORT cannot change while a server runs"},
        {"ROLLOUT_ANSWER_IDLE_SECS=\n", "line 1: ROLLOUT_ANSWER_IDLE_SECS must be 1..86400 seconds"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char   message[LK_ERR_DETAIL_BYTES + 128];
        loaded l = load(cases[i][0]);
        assert_int_equal(l.rc, LK_E_INVALID_CONFIG);
        if (strstr(lk_err_message(&l.err, message, sizeof message), cases[i][1]) == NULL) {
            fail_msg("expected %s, heard %s", cases[i][1], message);
        }
        lk_arena_close(&l.arena);
    }
}

static void a_file_that_is_not_there_is_an_error_and_none_is_not(void **state)
{
    lk_config config;
    lk_arena  arena = {0};
    uint64_t  from_file = 1;
    lk_err    err = {0};
    assert_int_equal(lk_rollout_live_load(NULL, &config, &arena, &from_file, &err), LK_OK);
    assert_int_equal(from_file, 0);
    assert_int_equal(
        lk_rollout_live_load("/nowhere/limits", &config, &arena, &from_file, &err), LK_E_INVALID_CONFIG);
    lk_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_sets_the_limits_that_it_names),
        cmocka_unit_test(what_is_wrong_is_told_by_line_and_name),
        cmocka_unit_test(a_file_that_is_not_there_is_an_error_and_none_is_not),
    };
    return cmocka_run_group_tests_name("rollout_live", tests, NULL, NULL);
}
