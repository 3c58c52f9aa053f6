/* err_test.c - what the client is told, what operators see, and that nothing overruns. */
#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void a_failure_carries_cause_then_frames(void **state)
{
    lk_err err = {0};
    assert_int_equal(lk_fail(&err, LK_E_TABLE_NOT_FOUND, "no key %s", "registry/a.b"), LK_E_TABLE_NOT_FOUND);
    lk_context(&err, "load table %s", "a.b");
    assert_string_equal(err.context, "no key registry/a.b <load table a.b");
    assert_false(err.maybe_applied);
}

static void the_client_sees_the_constant_text_and_the_detail_only(void **state)
{
    lk_err err = {0};
    char   message[128];
    assert_int_equal(lk_fail(&err, LK_E_TABLE_NOT_FOUND, "secret path"), LK_E_TABLE_NOT_FOUND);
    assert_string_equal(lk_err_message(&err, message, sizeof message), "table not found");
    assert_int_equal(lk_detail(&err, "%s", "look at a.b"), LK_E_TABLE_NOT_FOUND);
    assert_string_equal(lk_err_message(&err, message, sizeof message), "table not found: look at a.b");
}

static void a_refusal_tells_both_the_same(void **state)
{
    lk_err err = {.maybe_applied = true, .detail = "old"};
    assert_int_equal(lk_refuse(&err, LK_E_INVALID_REQUEST, "field %d", 7), LK_E_INVALID_REQUEST);
    assert_string_equal(err.context, "field 7");
    assert_string_equal(err.detail, "field 7");
    assert_false(err.maybe_applied);
}

static void a_second_failure_starts_over_and_may_quote_the_first(void **state)
{
    lk_err err = {0};
    assert_int_equal(lk_refuse(&err, LK_E_IO, "first"), LK_E_IO);
    assert_int_equal(lk_fail(&err, LK_E_CONFLICT, "after %s", err.context), LK_E_CONFLICT);
    assert_string_equal(err.context, "after first");
    assert_string_equal(err.detail, "");
}

static void long_texts_are_cut_at_a_character(void **state)
{
    lk_err err = {0};
    char   text[LK_ERR_CONTEXT_BYTES * 2 + 1];
    for (size_t i = 0; i < sizeof text - 1; i += 2) {
        memcpy(text + i, "\xC3\xA9", 2); /* e acute */
    }
    text[sizeof text - 1] = '\0';
    assert_int_equal(lk_fail(&err, LK_E_INTERNAL, "%s", text), LK_E_INTERNAL);
    assert_int_equal(strlen(err.context), LK_ERR_CONTEXT_BYTES - 2); /* 511 bytes would end in half of one */
    for (int i = 0; i < 20; i++) {
        lk_context(&err, "%s", text);
    }
    assert_true(strlen(err.context) < sizeof err.context);
    assert_int_equal(lk_detail(&err, "%s", text), LK_E_INTERNAL);
    assert_int_equal(strlen(err.detail), LK_ERR_DETAIL_BYTES - 2);
}

static void every_row_has_a_name_a_text_and_a_status(void **state)
{
    for (int rc = LK_OK; rc < LK_RC_COUNT; rc++) {
        assert_true(strlen(lk_rc_name((lk_rc)rc)) > 0);
        assert_true(strlen(lk_rc_text((lk_rc)rc)) > 0);
        assert_in_range(lk_rc_code((lk_rc)rc), LK_CODE_OK, LK_CODE_UNAUTHENTICATED);
        assert_true((rc == LK_OK) == (lk_rc_code((lk_rc)rc) == LK_CODE_OK));
    }
    assert_string_equal(lk_rc_name(LK_E_TABLE_NOT_FOUND), "TABLE_NOT_FOUND");
    assert_int_equal(lk_rc_code(LK_E_TABLE_NOT_FOUND), LK_CODE_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_carries_cause_then_frames),
        cmocka_unit_test(the_client_sees_the_constant_text_and_the_detail_only),
        cmocka_unit_test(a_refusal_tells_both_the_same),
        cmocka_unit_test(a_second_failure_starts_over_and_may_quote_the_first),
        cmocka_unit_test(long_texts_are_cut_at_a_character),
        cmocka_unit_test(every_row_has_a_name_a_text_and_a_status),
    };
    return cmocka_run_group_tests_name("err", tests, NULL, NULL);
}
