/* rollout_tokens_test.c - token files that are taken, and those that are refused by line, never by text. */
#include "cli/rollout_tokens.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static lk_rc parse(const char *text, lk_rollout_tokens *out, lk_err *err)
{
    *out = (lk_rollout_tokens){0};
    return lk_rollout_tokens_parse(out, "FILE", lk_bytes_of(text), err);
}

static void roles_come_before_tokens_and_a_lone_token_is_an_admins(void **state)
{
    lk_rollout_tokens tokens;
    lk_err            err = {0};
    const char *const text = "# who may what\n\nread r-1\n  write\tw-1  \r\nadmin a-1\nlone";
    assert_int_equal(parse(text, &tokens, &err), LK_OK);
    static const struct {
        const char     *secret;
        lk_rollout_role role;
    } expected[] = {{"r-1", LK_ROLLOUT_READ}, {"w-1", LK_ROLLOUT_WRITE}, {"a-1", LK_ROLLOUT_ADMIN},
        {"lone", LK_ROLLOUT_ADMIN}};
    assert_int_equal(tokens.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_true(lk_bytes_equal(tokens.items[i].secret, lk_bytes_of(expected[i].secret)));
        assert_int_equal(tokens.items[i].role, expected[i].role);
    }
    lk_rollout_tokens_deinit(&tokens);
}

static void what_is_wrong_is_told_by_line_and_never_shows_a_token(void **state)
{
    static const struct {
        const char *text, *detail;
    } cases[] = {
        {"", "FILE has no token"},
        {"# nothing\n\n", "FILE has no token"},
        {"read", "FILE: line 1 has a role and no token"},
        {"read ok\nowner s3cret", "FILE: line 2 begins with a role: read, write or admin"},
        {"Read s3cret", "FILE: line 1 begins with a role: read, write or admin"},
        {"read s3cret x", "FILE: line 1 has more than a role and a token"},
        {"read s3cr\xc3\xa9t", "FILE: line 1 has a token that is not printable ASCII"},
        {"read s3cret\n\nwrite s3cret", "FILE: line 3 has a token that an earlier line has"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_rollout_tokens tokens;
        lk_err            err = {0};
        assert_int_equal(parse(cases[i].text, &tokens, &err), LK_E_INVALID_CONFIG);
        assert_string_equal(err.detail, cases[i].detail);
        assert_null(strstr(err.context, "s3c"));
        lk_rollout_tokens_deinit(&tokens);
    }
}

static void a_file_that_others_can_read_is_refused(void **state)
{
    char              path[] = "/tmp/lake-tokens-XXXXXX";
    lk_rollout_tokens tokens = {0};
    lk_err            err = {0};
    int               fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "write w-1\n", 10), 10);
    assert_int_equal(close(fd), 0);
    assert_int_equal(lk_rollout_tokens_load(&tokens, path, &err), LK_OK);
    assert_int_equal(tokens.count, 1);
    lk_rollout_tokens_deinit(&tokens);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(lk_rollout_tokens_load(&tokens, path, &err), LK_E_INVALID_CONFIG);
    assert_non_null(strstr(err.detail, "make it mode 0600"));
    lk_rollout_tokens_deinit(&tokens);
    assert_int_equal(unlink(path), 0);
    err = (lk_err){0};
    assert_int_equal(lk_rollout_tokens_load(&tokens, path, &err), LK_E_INVALID_CONFIG);
    lk_rollout_tokens_deinit(&tokens);
    err = (lk_err){0};
    assert_int_equal(lk_rollout_tokens_load(&tokens, NULL, &err), LK_OK);
    assert_int_equal(tokens.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roles_come_before_tokens_and_a_lone_token_is_an_admins),
        cmocka_unit_test(what_is_wrong_is_told_by_line_and_never_shows_a_token),
        cmocka_unit_test(a_file_that_others_can_read_is_refused),
    };
    return cmocka_run_group_tests_name("rollout_tokens", tests, NULL, NULL);
}
