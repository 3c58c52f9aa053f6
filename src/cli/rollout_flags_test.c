/* rollout_flags_test.c - a flag goes before its variable, which goes before the default; what is wrong is told of the flag. */
#include "cli/rollout_flags.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *get(const char *name, void *context)
{
    static const char *const set[][2] = {
        {"ROLLOUT_ON_CONFLICT", "keep"}, {"INSTANCE_ID", "rollout-7"}, {"ROLLOUT_DRAIN_SECS", "9"}};
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) {
        if (strcmp(set[i][0], name) == 0) {
            return set[i][1];
        }
    }
    return NULL;
}

typedef struct parsed {
    lk_rollout_flags flags;
    lk_config        config;
    lk_arena         arena;
    lk_err           err;
    lk_rc            rc;
} parsed;

static void parse(parsed *p, int argc, char **argv)
{
    lk_arg args[LK_ROLLOUT_FLAGS_MAX];
    bool   help = false;
    *p = (parsed){0};
    size_t count = lk_rollout_flags_args(&p->flags, &p->arena, args);
    p->rc = lk_args_parse(args, count, argc, argv, &p->arena, &help, &p->err);
    if (p->rc == LK_OK) {
        p->rc = lk_config_load(&p->config, get, NULL, &p->err);
    }
    if (p->rc == LK_OK) {
        p->rc = lk_rollout_flags_apply(&p->flags, &p->config, &p->err);
    }
}

#define PARSE(p, ...)                                      \
    do {                                                   \
        char *words[] = {__VA_ARGS__};                     \
        parse((p), sizeof words / sizeof words[0], words); \
    } while (0)

static void a_flag_goes_before_its_variable_and_that_before_the_default(void **state)
{
    parsed p;
    PARSE(&p, "--on-conflict", "accept", "--strict-alignment", "--port=0");
    assert_int_equal(p.rc, LK_OK);
    assert_string_equal(p.config.rollout_on_conflict, "accept"); /* the flag */
    assert_int_equal(p.config.rollout_drain_secs, 9);            /* the variable */
    assert_string_equal(p.config.rollout_fsync, "always");       /* the default */
    assert_string_equal(p.config.rollout_strict_alignment, "1");
    assert_int_equal(p.config.rollout_port, 0);
    assert_true(lk_rollout_flags_given(&p.flags, LK_SETTING(rollout_port)));
    assert_false(lk_rollout_flags_given(&p.flags, LK_SETTING(rollout_drain_secs)));
    lk_arena_close(&p.arena);
}

static void an_empty_instance_id_is_none(void **state)
{
    parsed p;
    PARSE(&p, "--instance-id", "");
    assert_int_equal(p.rc, LK_OK);
    assert_string_equal(p.config.instance_id, "rollout-7");
    assert_false(lk_rollout_flags_given(&p.flags, LK_SETTING(instance_id)));
    lk_arena_close(&p.arena);
    PARSE(&p, "--instance-id=rollout-8");
    assert_string_equal(p.config.instance_id, "rollout-8");
    lk_arena_close(&p.arena);
    PARSE(&p, "--data-dir=");
    assert_int_equal(p.rc, LK_E_INVALID_CONFIG);
    assert_string_equal(p.err.detail, "--data-dir must not be empty; unset it instead");
    lk_arena_close(&p.arena);
}

static void a_bad_value_is_told_of_the_flag(void **state)
{
    parsed p;
    PARSE(&p, "--rollout-flush-interval-secs", "0");
    assert_int_equal(p.rc, LK_E_INVALID_CONFIG);
    assert_string_equal(p.err.detail, "--rollout-flush-interval-secs must be 1..3600 seconds");
    lk_arena_close(&p.arena);
    PARSE(&p, "--wal", "sometimes");
    assert_int_equal(p.rc, LK_E_INVALID_CONFIG);
    assert_string_equal(p.err.detail, "--wal must be one of auto always never");
    lk_arena_close(&p.arena);
    PARSE(&p, "--walrus", "1");
    assert_int_equal(p.rc, LK_E_USAGE);
    lk_arena_close(&p.arena);
}

static void every_flag_names_its_variable_and_default_in_its_help(void **state)
{
    lk_rollout_flags flags;
    lk_arena         arena = {0};
    lk_arg           args[LK_ROLLOUT_FLAGS_MAX];
    size_t           count = lk_rollout_flags_args(&flags, &arena, args);
    bool             seen = false;
    assert_true(count > 30);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(strstr(args[i].help, "["));
        seen = seen || (strcmp(args[i].name, "--rollout-merge-max-generations") == 0 &&
                           strstr(args[i].help,
                               "[ROLLOUT_MERGE_MAX_GENERATIONS, 8 generations; 1 to 1000000]") != NULL);
    }
    assert_true(seen);
    lk_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flag_goes_before_its_variable_and_that_before_the_default),
        cmocka_unit_test(an_empty_instance_id_is_none),
        cmocka_unit_test(a_bad_value_is_told_of_the_flag),
        cmocka_unit_test(every_flag_names_its_variable_and_default_in_its_help),
    };
    return cmocka_run_group_tests_name("rollout_flags", tests, NULL, NULL);
}
