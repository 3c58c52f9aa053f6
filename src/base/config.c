/* config.c - see config.h. The rows are in config.def; this file is only the reader and the printers. */
#include "base/config.h"

#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct row {
    size_t     offset;
    lk_setting about;
} rows[] = {
#define N(field, env, def, min, max, unit, help) \
    {offsetof(lk_config, field), {env, unit, help, NULL, def, min, max, false, false}},
#define S(field, env, def, help) {offsetof(lk_config, field), {env, "", help, def, 0, 0, 0, true, false}},
#define P(field, env, help)      {offsetof(lk_config, field), {env, "", help, NULL, 0, 0, 0, true, true}},
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
    {offsetof(lk_config, rollout_require_instance_id), {"0", "1"}},
    {offsetof(lk_config, rollout_merge_mode), {"inline", "background"}},
    {offsetof(lk_config, rollout_visibility), {"immediate", "deferred"}},
    {offsetof(lk_config, rollout_fsync), {"always", "never"}},
    {offsetof(lk_config, rollout_wal), {"auto", "always", "never"}},
    {offsetof(lk_config, rollout_wal_gc), {"0", "1"}},
    {offsetof(lk_config, rollout_on_conflict), {"error", "keep", "accept"}},
    {offsetof(lk_config, rollout_strict_alignment), {"0", "1"}},
    {offsetof(lk_config, rollout_schema_profile), {"v036", "v031"}},
    {offsetof(lk_config, rollout_checkout_scope), {"request", "shared"}},
    {offsetof(lk_config, rollout_cors), {"auto", "always", "never"}},
};

static lk_rc refuse(lk_err *err, const char *name, const char *rule)
{
    return lk_refuse(err, LK_E_INVALID_CONFIG, "%s %s", name, rule);
}

static lk_rc parse_number(
    const lk_setting *about, const char *name, const char *text, uint64_t *out, lk_err *err)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    bool               digits = text[0] >= '0' && text[0] <= '9';
    if (!digits || *end != '\0' || errno != 0 || value < about->min || value > about->max) {
        char rule[96];
        (void)snprintf(rule, sizeof rule, "must be %" PRIu64 "..%" PRIu64 "%s%s", about->min, about->max,
            about->unit[0] != '\0' ? " " : "", about->unit);
        return refuse(err, name, rule);
    }
    *out = value;
    return LK_OK;
}

static lk_rc check_text(const struct row *row, const char *name, const char *text, lk_err *err)
{
    if (text[0] == '\0') {
        return refuse(err, name, "must not be empty; unset it instead");
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
        return refuse(err, name, rule);
    }
    return LK_OK;
}

static lk_rc set(lk_config *config, const struct row *row, const char *name, const char *text, lk_err *err)
{
    void *field = (char *)config + row->offset;
    if (!row->about.is_text) {
        return parse_number(&row->about, name, text, field, err);
    }
    lk_rc rc = check_text(row, name, text, err);
    *(const char **)field = rc == LK_OK ? text : *(const char **)field;
    return rc;
}

lk_rc lk_config_load(lk_config *out, lk_getenv get, void *context, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; i < ROWS && rc == LK_OK; i++) {
        const lk_setting *about = &rows[i].about;
        void             *field = (char *)out + rows[i].offset;
        if (about->is_text) {
            *(const char **)field = about->def_text;
        } else {
            *(uint64_t *)field = about->def;
        }
        const char *text = get(about->env, context);
        bool        unset = text == NULL || (text[0] == '\0' && strncmp(about->env, "LAKE_", 5) != 0);
        rc = unset ? LK_OK : set(out, &rows[i], about->env, text, err);
    }
    return rc;
}

static const struct row *row_of(size_t setting)
{
    const struct row *found = NULL;
    for (size_t i = 0; i < ROWS && found == NULL; i++) {
        found = rows[i].offset == setting ? &rows[i] : NULL;
    }
    LK_ASSERT(found != NULL);
    return found;
}

lk_setting lk_config_setting(size_t setting)
{
    return row_of(setting)->about;
}

lk_rc lk_config_set(lk_config *config, size_t setting, const char *name, const char *text, lk_err *err)
{
    return set(config, row_of(setting), name, text, err);
}

static const void *field_of(const lk_config *config, const struct row *row)
{
    return (const char *)config + row->offset;
}

/* What may be shown of a text setting; NULL: unset. */
static const char *shown(const lk_config *config, const struct row *row)
{
    const char *text = *(const char *const *)field_of(config, row);
    return text != NULL && row->about.is_secret ? "(set)" : text;
}

const char *lk_config_shown(const lk_config *config, size_t setting, char scratch[24])
{
    const struct row *row = row_of(setting);
    if (row->about.is_text) {
        return shown(config, row);
    }
    (void)snprintf(scratch, 24, "%" PRIu64, *(const uint64_t *)field_of(config, row));
    return scratch;
}

void lk_config_print(const lk_config *config, FILE *out)
{
    for (size_t i = 0; i < ROWS; i++) {
        const lk_setting *about = &rows[i].about;
        if (about->is_text) {
            const char *text = shown(config, &rows[i]);
            (void)fprintf(out, "%-38s %-24s %s\n", about->env, text == NULL ? "(unset)" : text, about->help);
        } else {
            char value[48];
            (void)snprintf(value, sizeof value, "%" PRIu64 " %s",
                *(const uint64_t *)field_of(config, &rows[i]), about->unit);
            (void)fprintf(out, "%-38s %-24s %s (%" PRIu64 "..%" PRIu64 ")\n", about->env, value, about->help,
                about->min, about->max);
        }
    }
}

static void row_json(const lk_config *config, const struct row *row, lk_json_writer *w)
{
    const lk_setting *about = &row->about;
    lk_json_object(w);
    lk_json_key(w, "name");
    lk_json_text(w, lk_bytes_of(about->env));
    lk_json_key(w, "value");
    if (!about->is_text) {
        lk_json_u64(w, *(const uint64_t *)field_of(config, row));
    } else if (shown(config, row) == NULL) {
        lk_json_null(w);
    } else {
        lk_json_text(w, lk_bytes_of(shown(config, row)));
    }
    lk_json_key(w, "unit");
    lk_json_text(w, lk_bytes_of(about->unit));
    lk_json_key(w, "help");
    lk_json_text(w, lk_bytes_of(about->help));
    lk_json_object_end(w);
}

void lk_config_print_json(const lk_config *config, FILE *out)
{
    lk_buf         buf = {0};
    lk_json_writer w = {&buf, false};
    lk_json_array(&w);
    for (size_t i = 0; i < ROWS; i++) {
        row_json(config, &rows[i], &w);
    }
    lk_json_array_end(&w);
    lk_buf_append_text(&buf, "\n");
    (void)fwrite(buf.data, 1, buf.size, out);
    lk_buf_deinit(&buf);
}
