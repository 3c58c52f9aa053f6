/* config.c - see config.h. The rows are in config.def; this file is only the reader and the printers. */
#include "base/config.h"

#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
    const char *env, *unit, *help;
    const char *def_text; /* of a text setting; NULL: unset */
    size_t      offset;
    uint64_t    def, min, max;
    bool        is_text, is_secret;
} rows[] = {
#define N(field, env, def, min, max, unit, help) \
    {env, unit, help, NULL, offsetof(lk_config, field), def, min, max, false, false},
#define S(field, env, def, help) {env, "", help, def, offsetof(lk_config, field), 0, 0, 0, true, false},
#define P(field, env, help)      {env, "", help, NULL, offsetof(lk_config, field), 0, 0, 0, true, true},
#include "base/config.def"
#undef N
#undef S
#undef P
};

enum { ROWS = sizeof rows / sizeof rows[0] };

/* Text settings that take one of a few words. */
static const struct words {
    size_t      offset;
    const char *accepted[6];
} choices[] = {
    {offsetof(lk_config, log_format), {"text", "json"}},
    {offsetof(lk_config, log_level), {"debug", "info", "warn", "error", "off"}},
    {offsetof(lk_config, allow_insecure), {"0", "1"}},
    {offsetof(lk_config, s3_addressing), {"path", "virtual"}},
};

static lk_rc refuse(lk_err *err, const char *env, const char *rule)
{
    return lk_refuse(err, LK_E_INVALID_CONFIG, "%s %s", env, rule);
}

static lk_rc parse_number(const struct row *row, const char *text, uint64_t *out, lk_err *err)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    bool               digits = text[0] >= '0' && text[0] <= '9';
    if (!digits || *end != '\0' || errno != 0 || value < row->min || value > row->max) {
        char rule[96];
        (void)snprintf(
            rule, sizeof rule, "must be %" PRIu64 "..%" PRIu64 " %s", row->min, row->max, row->unit);
        return refuse(err, row->env, rule);
    }
    *out = value;
    return LK_OK;
}

static lk_rc check_text(const struct row *row, const char *text, lk_err *err)
{
    if (text[0] == '\0') {
        return refuse(err, row->env, "must not be empty; unset it instead");
    }
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++) {
        if (choices[i].offset != row->offset) {
            continue;
        }
        char rule[96] = "must be one of";
        for (const char *const *word = choices[i].accepted; *word != NULL; word++) {
            if (strcmp(*word, text) == 0) {
                return LK_OK;
            }
            size_t size = strlen(rule);
            (void)snprintf(rule + size, sizeof rule - size, " %s", *word);
        }
        return refuse(err, row->env, rule);
    }
    return LK_OK;
}

lk_rc lk_config_load(lk_config *out, lk_getenv get, void *context, lk_err *err)
{
    for (size_t i = 0; i < ROWS; i++) {
        void       *field = (char *)out + rows[i].offset;
        const char *text = get(rows[i].env, context);
        lk_rc       rc = LK_OK;
        bool        ours = strncmp(rows[i].env, "LAKE_", 5) == 0;
        text = text != NULL && text[0] == '\0' && !ours ? NULL : text;
        if (rows[i].is_text) {
            *(const char **)field = text == NULL ? rows[i].def_text : text;
            rc = text == NULL ? LK_OK : check_text(&rows[i], text, err);
        } else {
            *(uint64_t *)field = rows[i].def;
            rc = text == NULL ? LK_OK : parse_number(&rows[i], text, field, err);
        }
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

/* What may be shown of a text setting; NULL: unset. */
static const char *shown(const lk_config *config, size_t row)
{
    const char *text = *(const char *const *)(const void *)((const char *)config + rows[row].offset);
    return text != NULL && rows[row].is_secret ? "(set)" : text;
}

static const void *field_of(const lk_config *config, size_t row)
{
    return (const char *)config + rows[row].offset;
}

void lk_config_print(const lk_config *config, FILE *out)
{
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].is_text) {
            const char *text = shown(config, i);
            (void)fprintf(
                out, "%-38s %-24s %s\n", rows[i].env, text == NULL ? "(unset)" : text, rows[i].help);
        } else {
            char value[48];
            (void)snprintf(
                value, sizeof value, "%" PRIu64 " %s", *(const uint64_t *)field_of(config, i), rows[i].unit);
            (void)fprintf(out, "%-38s %-24s %s (%" PRIu64 "..%" PRIu64 ")\n", rows[i].env, value,
                rows[i].help, rows[i].min, rows[i].max);
        }
    }
}

static void row_json(const lk_config *config, size_t row, lk_json_writer *w)
{
    lk_json_object(w);
    lk_json_key(w, "name");
    lk_json_text(w, lk_bytes_of(rows[row].env));
    lk_json_key(w, "value");
    if (!rows[row].is_text) {
        lk_json_u64(w, *(const uint64_t *)field_of(config, row));
    } else if (shown(config, row) == NULL) {
        lk_json_null(w);
    } else {
        lk_json_text(w, lk_bytes_of(shown(config, row)));
    }
    lk_json_key(w, "unit");
    lk_json_text(w, lk_bytes_of(rows[row].unit));
    lk_json_key(w, "help");
    lk_json_text(w, lk_bytes_of(rows[row].help));
    lk_json_object_end(w);
}

void lk_config_print_json(const lk_config *config, FILE *out)
{
    lk_buf         buf = {0};
    lk_json_writer w = {&buf, false};
    lk_json_array(&w);
    for (size_t i = 0; i < ROWS; i++) {
        row_json(config, i, &w);
    }
    lk_json_array_end(&w);
    lk_buf_append_text(&buf, "\n");
    (void)fwrite(buf.data, 1, buf.size, out);
    lk_buf_deinit(&buf);
}
