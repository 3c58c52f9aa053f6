/* authenticate_test.c - the exposure rule, and what a failure looks like on the wire. (Tokens, Basic and Handshake
 * are tested over a real server by meta_service_test.c.) */
#include "serve/authenticate.h"

#include "flight/pb.h"
#include "serve/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include <cmocka.h>

static lk_rc check(const char *address, const char *allow, bool credentials, bool tls)
{
    static char    path[] = "/tmp/lake-token-XXXXXX";
    lk_err         err = {0};
    lk_config      config = {.allow_insecure = allow};
    lk_principals *principals = NULL;
    (void)snprintf(path, sizeof path, "/tmp/lake-token-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, "token\n", 6) == 6);
    close(fd);
    assert_int_equal(lk_principals_load(&principals, credentials ? path : NULL, NULL, &err), LK_OK);
    unlink(path);
    lk_rc rc = lk_exposure_check(address, &config, principals, tls, &err);
    lk_principals_close(principals);
    return rc;
}

static void loopback_may_do_anything(void **state)
{
    assert_int_equal(check("127.0.0.1:0", NULL, false, false), LK_OK);
    assert_int_equal(check("[::1]:0", NULL, false, false), LK_OK);
    assert_int_equal(check("localhost:0", NULL, false, false), LK_OK);
}

static void off_loopback_needs_credentials_and_tls(void **state)
{
    assert_int_equal(check("0.0.0.0:0", NULL, false, false), LK_E_INSECURE);
    assert_int_equal(check("0.0.0.0:0", NULL, false, true), LK_E_INSECURE);
    assert_int_equal(check("0.0.0.0:0", NULL, true, false), LK_E_INSECURE);
    assert_int_equal(check("[::]:0", NULL, true, true), LK_OK);
}

static void the_override_waives_tls_but_never_credentials(void **state)
{
    assert_int_equal(check("0.0.0.0:0", "1", true, false), LK_OK);
    assert_int_equal(check("0.0.0.0:0", "TRUE", true, false), LK_OK);
    assert_int_equal(check("0.0.0.0:0", "1", false, false), LK_E_INSECURE);
    assert_int_equal(check("0.0.0.0:0", "false", true, false), LK_E_INSECURE);
    assert_int_equal(check("127.0.0.1:0", "yes", true, true), LK_E_INVALID_CONFIG);
}

/* The bytes that Google's library gives for Status{5, "table not found: robots.arm", [Any(ErrorInfo{reason
 * "TABLE_NOT_FOUND", domain "lake"})]} (google.rpc, serialised once with python's protobuf). */
static const char golden[] =
    "\x08\x05\x12\x1btable not found: robots.arm\x1a\x43\n("
    "type.googleapis.com/google.rpc.ErrorInfo\x12\x17\n\x0fTABLE_NOT_FOUND\x12\x04lake";

static void a_status_tells_text_detail_and_code_but_no_context(void **state)
{
    lk_arena       arena = {0};
    lk_err         err = {0};
    lk_grpc_status status;
    assert_int_equal(lk_fail(&err, LK_E_TABLE_NOT_FOUND, "/secret/place"), LK_E_TABLE_NOT_FOUND);
    lk_detail(&err, "robots.arm");
    lk_status_translate(&err, &arena, &status);
    assert_int_equal(status.code, LK_CODE_NOT_FOUND);
    assert_true(lk_bytes_equal(status.message, LK_LITERAL("table not found: robots.arm")));
    assert_true(lk_bytes_equal(status.lake_code, LK_LITERAL("TABLE_NOT_FOUND")));
    assert_int_equal(status.details_bin.size, sizeof golden - 1);
    assert_memory_equal(status.details_bin.data, golden, sizeof golden - 1);
    lk_arena_close(&arena);
}

static void every_error_translates_to_its_own_code(void **state)
{
    for (lk_rc rc = LK_OK + 1; rc < LK_RC_COUNT; rc++) {
        lk_arena       arena = {0};
        lk_err         err = {0}, back = {0};
        lk_grpc_status status;
        assert_int_equal(lk_fail(&err, rc, "x"), rc);
        lk_detail(&err, "why");
        lk_status_translate(&err, &arena, &status);
        assert_int_equal(status.code, lk_rc_code(rc));
        assert_int_equal(lk_grpc_status_to_err(&status, true, &back), rc); /* and comes back as it was */
        assert_string_equal(back.detail, "why");
        lk_arena_close(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_may_do_anything),
        cmocka_unit_test(off_loopback_needs_credentials_and_tls),
        cmocka_unit_test(the_override_waives_tls_but_never_credentials),
        cmocka_unit_test(a_status_tells_text_detail_and_code_but_no_context),
        cmocka_unit_test(every_error_translates_to_its_own_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
