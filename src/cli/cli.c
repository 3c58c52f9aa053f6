/* cli.c - see cli.h. */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>

bool lk_cli_parse(lk_cli *cli, const lk_cli_command *command, const lk_arg *args, size_t count, int argc,
    char **argv, int *exit_code)
{
    lk_err err = {0};
    bool   help = false;
    if (lk_args_parse(args, count, argc, argv, &cli->arena, &help, &err) != LK_OK) {
        *exit_code = lk_cli_fail(&err);
        return false;
    }
    if (help) {
        lk_args_help(&command->about, args, count, stdout);
        *exit_code = 0;
        return false;
    }
    return true;
}

static int exit_code_of(lk_rc rc)
{
    static const unsigned char by_code[] = {
        [LK_CODE_OK] = 0,
        [LK_CODE_UNAUTHENTICATED] = 3,
        [LK_CODE_PERMISSION_DENIED] = 3,
        [LK_CODE_NOT_FOUND] = 4,
        [LK_CODE_UNAVAILABLE] = 5,
        [LK_CODE_DEADLINE_EXCEEDED] = 5,
        [LK_CODE_ALREADY_EXISTS] = 6,
        [LK_CODE_ABORTED] = 6,
    };
    if (rc == LK_E_USAGE || rc == LK_E_INVALID_CONFIG || rc == LK_E_INSECURE) {
        return 2;
    }
    lk_code code = lk_rc_code(rc);
    bool    listed = code == LK_CODE_OK || ((size_t)code < sizeof by_code && by_code[code] != 0);
    return listed ? by_code[code] : 1;
}

/* A bad setting is one line; others have what only the operator needs on a second one. */
int lk_cli_fail(const lk_err *err)
{
    char message[LK_ERR_DETAIL_BYTES + 128];
    bool said = lk_bytes_equal((lk_bytes){err->context, err->len}, lk_bytes_of(err->detail));
    bool setting = err->rc == LK_E_INVALID_CONFIG || err->rc == LK_E_INSECURE;
    bool in_the_way = err->rc == LK_E_CONFLICT && err->detail[0] != '\0'; /* known: not that it may pass */
    fprintf(stderr, "lake: %s", in_the_way ? err->detail : lk_err_message(err, message, sizeof message));
    if (err->len > 0 && !said && err->rc != LK_E_USAGE) { /* the operator is the user here */
        fprintf(stderr, "%s(%.*s)", setting ? " " : "\n  ", (int)err->len, err->context);
    }
    fputs("\n", stderr);
    return exit_code_of(err->rc);
}

lk_rc lk_cli_usage(lk_err *err, const char *format, ...)
{
    char    text[LK_ERR_DETAIL_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lk_rc rc = lk_fail(err, LK_E_USAGE, "%s", text);
    lk_detail(err, "%s", text);
    return rc;
}
