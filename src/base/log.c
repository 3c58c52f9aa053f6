/*
 * log.c - see log.h. A line is built whole and leaves in one write(2) of at most LK_LOG_LINE_BYTES_MAX,
 * which a pipe keeps in one piece; so lines of several threads never mix, and no mutex is needed.
 */
#include "base/log.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const struct event {
    const char  *name, *text;
    lk_log_level level;
} events[LK_LOG_EVENT_COUNT] = {
#define X(name, level, text) [LK_LOG_##name] = {#name, text, LK_LOG_##level},
#include "base/log.def"
#undef X
};

static const char *const level_names[] = {"debug", "info", "warn", "error", "off"};

static atomic_int  minimum_level = LK_LOG_INFO;
static atomic_bool as_json;

void lk_log_init(lk_log_level minimum, bool json)
{
    atomic_store(&minimum_level, (int)minimum);
    atomic_store(&as_json, json);
}

bool lk_log_level_parse(const char *name, lk_log_level *out)
{
    for (int level = LK_LOG_DEBUG; level <= LK_LOG_OFF; level++) {
        if (strcmp(name, level_names[level]) == 0) {
            *out = (lk_log_level)level;
            return true;
        }
    }
    return false;
}

static void append_time(lk_buf *line)
{
    uint64_t  ms = lk_clock_wall_ms(lk_clock_real());
    time_t    seconds = (time_t)(ms / 1000u);
    struct tm utc;
    char      text[32];
    if (gmtime_r(&seconds, &utc) != NULL && strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc) > 0) {
        lk_buf_format(line, "%s.%03uZ", text, (unsigned)(ms % 1000u));
    }
}

static bool needs_quotes(lk_bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7F) {
            return true;
        }
    }
    return text.size == 0;
}

/* Log readers take UTF-8: anything else is shown byte by byte. */
static lk_bytes printable(lk_bytes text, lk_buf *spare)
{
    if (lk_bytes_are_utf8(text)) {
        return text;
    }
    lk_buf_clear(spare);
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        lk_buf_format(spare, c < 0x80 ? "%c" : "\\x%02x", c);
    }
    return lk_buf_view(spare);
}

static void append_text_line(
    lk_buf *line, const struct event *event, const lk_log_field *fields, lk_buf *spare)
{
    append_time(line);
    lk_buf_format(line, " %s %s", level_names[event->level], event->text);
    for (const lk_log_field *field = fields; field->name != NULL; field++) {
        lk_buf_format(line, " %s=", field->name);
        lk_json_writer w = {line, false};
        if (field->type == LK_LOG_FIELD_U64) {
            lk_buf_format(line, "%" PRIu64, field->number);
        } else if (needs_quotes(field->text)) {
            lk_json_text(&w, printable(field->text, spare));
        } else {
            lk_buf_append_bytes(line, printable(field->text, spare));
        }
    }
}

static void append_json_line(
    lk_buf *line, const struct event *event, const lk_log_field *fields, lk_buf *spare)
{
    lk_json_writer w = {line, false};
    lk_json_object(&w);
    lk_json_key(&w, "time");
    append_time(spare);
    lk_json_text(&w, lk_buf_view(spare));
    lk_json_key(&w, "level");
    lk_json_text(&w, lk_bytes_of(level_names[event->level]));
    lk_json_key(&w, "event");
    lk_json_text(&w, lk_bytes_of(event->text));
    for (const lk_log_field *field = fields; field->name != NULL; field++) {
        lk_json_key(&w, field->name);
        if (field->type == LK_LOG_FIELD_U64) {
            lk_json_u64(&w, field->number);
        } else {
            lk_json_text(&w, printable(field->text, spare));
        }
    }
    lk_json_object_end(&w);
}

void lk_log_write(lk_log_event event, const lk_log_field *fields)
{
    LK_ASSERT(event < LK_LOG_EVENT_COUNT);
    if ((int)events[event].level < atomic_load_explicit(&minimum_level, memory_order_relaxed)) {
        return;
    }
    lk_buf line = {0}, spare = {0};
    if (atomic_load_explicit(&as_json, memory_order_relaxed)) {
        append_json_line(&line, &events[event], fields, &spare);
    } else {
        append_text_line(&line, &events[event], fields, &spare);
    }
    size_t size = line.size < LK_LOG_LINE_BYTES_MAX ? line.size : LK_LOG_LINE_BYTES_MAX - 1;
    line.data[size] = '\n'; /* over the NUL */
    ssize_t written = write(STDERR_FILENO, line.data, size + 1);
    (void)written; /* nobody is left to tell */
    lk_buf_deinit(&line);
    lk_buf_deinit(&spare);
}

void lk_log_error(lk_log_event event, const lk_err *err)
{
    lk_log(event, LK_LOG_T("code", lk_bytes_of(lk_rc_name(err->rc))),
        LK_LOG_T("context", lk_bytes_of(err->context)), LK_LOG_T("detail", lk_bytes_of(err->detail)));
}
