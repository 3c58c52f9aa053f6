/* log_test.c - the form of a line, what is quoted, and what is cut. */
#include "base/log.h"

#include "base/json.h"
#include "base/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int  saved = -1, ends[2];
static char line[LK_LOG_LINE_BYTES_MAX + 1];

static void capture(void)
{
    assert_int_equal(pipe(ends), 0);
    saved = dup(STDERR_FILENO);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(close(ends[1]), 0);
}

/* Ends the capture; what was written is in line. */
static size_t captured(void)
{
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(close(saved), 0);
    ssize_t size = read(ends[0], line, sizeof line - 1);
    assert_true(size >= 0);
    line[size] = '\0';
    assert_int_equal(close(ends[0]), 0);
    return (size_t)size;
}

static void a_text_line_is_time_level_event_fields(void **state)
{
    lk_log_init(LK_LOG_INFO, false);
    capture();
    lk_log(LK_LOG_SERVING, LK_LOG_T("address", LK_LITERAL("127.0.0.1:50051")), LK_LOG_N("pid", 7));
    assert_int_equal(captured(),
        strlen("2026-11-30T09:00:00.000Z") + strlen(" info serving address=127.0.0.1:50051 pid=7\n"));
    assert_int_equal(line[10], 'T');
    assert_string_equal(
        line + strlen("2026-11-30T09:00:00.000Z"), " info serving address=127.0.0.1:50051 pid=7\n");
}

static void values_cannot_forge_fields_or_lines(void **state)
{
    lk_log_init(LK_LOG_INFO, false);
    capture();
    lk_log(LK_LOG_SERVING, LK_LOG_T("a", LK_LITERAL("x\ny=\"1\"")), LK_LOG_T("b", LK_LITERAL("")),
        LK_LOG_T("c", LK_LITERAL("\xFF")));
    (void)captured();
    assert_string_equal(
        line + strlen("2026-11-30T09:00:00.000Z"), " info serving a=\"x\\ny=\\\"1\\\"\" b=\"\" c=\\xff\n");
}

static void a_json_line_is_one_object(void **state)
{
    lk_arena            arena = {0};
    lk_err              err = {0};
    lk_bytes            time = {0}, level = {0}, event = {0}, code = {0}, context = {0}, detail = {0};
    const lk_json_field fields[] = {
        {.name = "time", .type = LK_JSON_TEXT, .target = &time},
        {.name = "level", .type = LK_JSON_TEXT, .target = &level},
        {.name = "event", .type = LK_JSON_TEXT, .target = &event},
        {.name = "code", .type = LK_JSON_TEXT, .target = &code},
        {.name = "context", .type = LK_JSON_TEXT, .target = &context},
        {.name = "detail", .type = LK_JSON_TEXT, .target = &detail},
    };
    lk_log_init(LK_LOG_INFO, true);
    assert_int_equal(lk_fail(&err, LK_E_KV_UNAVAILABLE, "a \"b\""), LK_E_KV_UNAVAILABLE);
    capture();
    lk_log_error(LK_LOG_REQUEST_FAILED, &err);
    (void)captured();
    assert_int_equal(lk_json_read(lk_bytes_of(line), fields, 6, &arena, &err), LK_OK);
    assert_string_equal(level.data, "warn");
    assert_string_equal(event.data, "request failed");
    assert_string_equal(code.data, "KV_UNAVAILABLE");
    assert_string_equal(context.data, "a \"b\"");
    lk_arena_close(&arena);
}

static void lines_below_the_minimum_are_not_written(void **state)
{
    lk_log_init(LK_LOG_WARN, false);
    capture();
    lk_log(LK_LOG_SERVING, LK_LOG_N("pid", 7));
    assert_int_equal(captured(), 0);
    lk_log_init(LK_LOG_OFF, false);
    capture();
    lk_log(LK_LOG_FOREIGN_COMMIT, LK_LOG_N("pid", 7));
    assert_int_equal(captured(), 0);
}

static void a_long_line_is_cut_and_still_ends(void **state)
{
    char *text = malloc(10000);
    memset(text, 'x', 10000);
    lk_log_init(LK_LOG_INFO, false);
    capture();
    lk_log(LK_LOG_SERVING, LK_LOG_T("a", ((lk_bytes){text, 10000})));
    assert_int_equal(captured(), LK_LOG_LINE_BYTES_MAX);
    assert_int_equal(line[LK_LOG_LINE_BYTES_MAX - 1], '\n');
    free(text);
}

static void level_names_are_parsed(void **state)
{
    lk_log_level level = LK_LOG_OFF;
    assert_true(lk_log_level_parse("warn", &level));
    assert_int_equal(level, LK_LOG_WARN);
    assert_false(lk_log_level_parse("WARN", &level));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_line_is_time_level_event_fields),
        cmocka_unit_test(values_cannot_forge_fields_or_lines),
        cmocka_unit_test(a_json_line_is_one_object),
        cmocka_unit_test(lines_below_the_minimum_are_not_written),
        cmocka_unit_test(a_long_line_is_cut_and_still_ends),
        cmocka_unit_test(level_names_are_parsed),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
