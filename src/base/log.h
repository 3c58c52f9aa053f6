#ifndef LK_BASE_LOG_H
#define LK_BASE_LOG_H
/*
 * log.h - structured lines on stderr: a constant event from log.def and typed fields.
 * Text form `2026-11-30T09:00:00.000Z info serving address=127.0.0.1:50051`, or JSON (LAKE_LOG_FORMAT).
 * Fields never hold secrets, SQL or rows. A line is cut at LK_LOG_LINE_BYTES_MAX.
 * Threads: shared; each line is one write(2).
 */
#include "base/bytes.h"
#include "base/err.h"

typedef enum lk_log_level { LK_LOG_DEBUG, LK_LOG_INFO, LK_LOG_WARN, LK_LOG_ERROR, LK_LOG_OFF } lk_log_level;

typedef enum lk_log_event {
#define X(name, level, text) LK_LOG_##name,
#include "base/log.def"
#undef X
    LK_LOG_EVENT_COUNT
} lk_log_event;

typedef struct lk_log_field {
    const char *name; /* NULL ends the list */
    enum { LK_LOG_FIELD_TEXT, LK_LOG_FIELD_U64 } type;
    lk_bytes text;
    uint64_t number;
} lk_log_field;

#define LK_LOG_T(name, bytes) ((lk_log_field){(name), LK_LOG_FIELD_TEXT, (bytes), 0})
#define LK_LOG_N(name, value) ((lk_log_field){(name), LK_LOG_FIELD_U64, {0}, (value)})
/* lk_log(LK_LOG_SERVING, LK_LOG_T("address", address), LK_LOG_N("pid", pid)); at least one field */
#define lk_log(event, ...) lk_log_write((event), (const lk_log_field[]){__VA_ARGS__, {0}})

void lk_log_init(lk_log_level minimum, bool json);            /* until then: info, text */
bool lk_log_level_parse(const char *name, lk_log_level *out); /* debug, info, warn, error, off */
void lk_log_write(lk_log_event event, const lk_log_field *fields);
void lk_log_error(lk_log_event event, const lk_err *err); /* code name and context as fields */

#endif
