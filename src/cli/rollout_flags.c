/* rollout_flags.c - see rollout_flags.h. */
#include "cli/rollout_flags.h"

#include "cli/rollout_live.h"

#include <inttypes.h>
#include <string.h>

/* A flag without a value (NULL) sets its setting to 1. */
static const struct flag {
    const char *name, *value;
    size_t      setting;
} table[] = {
#define FLAG(name, field, value) {name, value, LK_SETTING(field)},
    /* clang-format off */
    FLAG("--host", rollout_host, "ADDRESS")
    FLAG("--port", rollout_port, "N")
    FLAG("--data-dir", rollout_data_dir, "DIR|s3://..")
    FLAG("--instance-id", instance_id, "ID")
    FLAG("--require-instance-id", rollout_require_instance_id, NULL)
    FLAG("--rollout-merge-after-generations", rollout_merge_after, "N")
    FLAG("--merge-mode", rollout_merge_mode, "inline|background")
    FLAG("--rollout-cleanup-interval-secs", rollout_cleanup_interval_secs, "N")
    FLAG("--rollout-cleanup-min-generations", rollout_cleanup_min_generations, "N")
    FLAG("--rollout-merge-max-generations", rollout_merge_max_generations, "N")
    FLAG("--rollout-merge-max-bytes", rollout_merge_max_bytes, "N")
    FLAG("--keep-versions-hours", rollout_keep_versions_hours, "N")
    FLAG("--collect-grace-secs", rollout_collect_grace_secs, "N")
    FLAG("--visibility", rollout_visibility, "immediate|deferred")
    FLAG("--rollout-flush-interval-secs", rollout_flush_interval_secs, "N")
    FLAG("--group-commit-us", rollout_group_commit_us, "N")
    FLAG("--fsync", rollout_fsync, "always|never")
    FLAG("--wal", rollout_wal, "auto|always|never")
    FLAG("--wal-gc", rollout_wal_gc, NULL)
    FLAG("--on-conflict", rollout_on_conflict, "error|keep|accept")
    FLAG("--strict-alignment", rollout_strict_alignment, NULL)
    FLAG("--schema-profile", rollout_schema_profile, "v036|v031")
    FLAG("--checkout-scope", rollout_checkout_scope, "request|shared")
    FLAG("--rollout-wal-pending-warn-generations", rollout_wal_pending_warn, "N")
    FLAG("--rollout-wal-pending-max-generations", rollout_wal_pending_max, "N")
    FLAG("--max-body", rollout_max_body_bytes, "BYTES")
    FLAG("--request-body-idle-timeout-secs", request_body_idle_secs, "N")
    FLAG("--max-queued-bytes", rollout_max_queued_bytes, "BYTES")
    FLAG("--rollout-max-inflight-blob-bytes", rollout_max_inflight_blob_bytes, "auto|BYTES")
    FLAG("--max-answer-bytes", rollout_max_answer_bytes, "BYTES")
    FLAG("--answer-idle-secs", rollout_answer_idle_secs, "N")
    FLAG("--limits-file", rollout_limits_file, "FILE")
    FLAG("--rollout-cache-bytes", rollout_cache_bytes, "BYTES")
    FLAG("--rollout-cache-capacity", rollout_cache_capacity, "N")
    FLAG("--disk-low-bytes", rollout_disk_low_bytes, "BYTES")
    FLAG("--drain-secs", rollout_drain_secs, "N")
    FLAG("--storage-endpoint", rollout_storage_endpoint, "URL")
    FLAG("--tls-cert", rollout_tls_cert, "FILE")
    FLAG("--tls-key", rollout_tls_key, "FILE")
    FLAG("--auth-token-file", rollout_auth_token_file, "FILE")
    FLAG("--cors", rollout_cors, "auto|always|never")
/* clang-format on */
#undef FLAG
};

enum { FLAGS = sizeof table / sizeof table[0] };
_Static_assert(
    sizeof table / sizeof table[0] <= LK_ROLLOUT_FLAGS_MAX, "lk_rollout_flags has room for every flag");

/* What it does, and in brackets its variable, default and range. What 1 does, a switch does without a value. */
static const char *help_of(const lk_setting *about, bool is_switch, lk_arena *arena)
{
    if (is_switch) {
        LK_ASSERT(strncmp(about->help, "1 ", 2) == 0);
        return lk_arena_format(arena, "%s [%s=1]", about->help + 2, about->env).data;
    }
    if (about->is_text) {
        return lk_arena_format(arena, "%s [%s%s%s]", about->help, about->env,
            about->def_text != NULL ? ", " : "", about->def_text != NULL ? about->def_text : "")
            .data;
    }
    return lk_arena_format(arena, "%s [%s, %" PRIu64 "%s%s; %" PRIu64 " to %" PRIu64 "]", about->help,
        about->env, about->def, about->unit[0] != '\0' ? " " : "", about->unit, about->min, about->max)
        .data;
}

size_t lk_rollout_flags_args(lk_rollout_flags *flags, lk_arena *arena, lk_arg *args)
{
    *flags = (lk_rollout_flags){.count = FLAGS};
    for (size_t i = 0; i < FLAGS; i++) {
        lk_setting about = lk_config_setting(table[i].setting);
        bool       is_switch = table[i].value == NULL;
        args[i] = (lk_arg){.name = table[i].name,
            .kind = is_switch ? LK_ARG_FLAG : LK_ARG_TEXT,
            .target = is_switch ? (void *)&flags->switches[i] : (void *)&flags->texts[i],
            .value = table[i].value,
            .help = help_of(&about, is_switch, arena)};
    }
    return FLAGS;
}

static const char *given_text(const lk_rollout_flags *flags, size_t i)
{
    const char *text = flags->switches[i] ? "1" : flags->texts[i];
    bool        unset = text != NULL && text[0] == '\0' && table[i].setting == LK_SETTING(instance_id);
    return unset ? NULL : text;
}

lk_rc lk_rollout_flags_apply(const lk_rollout_flags *flags, lk_config *config, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; i < flags->count && rc == LK_OK; i++) {
        const char *text = given_text(flags, i);
        rc = text == NULL ? LK_OK : lk_config_set(config, table[i].setting, table[i].name, text, err);
    }
    return rc;
}

static const struct flag *flag_of(size_t setting, size_t *index)
{
    for (*index = 0; *index < FLAGS; ++*index) {
        if (table[*index].setting == setting) {
            return &table[*index];
        }
    }
    return NULL;
}

bool lk_rollout_flags_given(const lk_rollout_flags *flags, size_t setting)
{
    size_t index = 0;
    return flag_of(setting, &index) != NULL && index < flags->count && given_text(flags, index) != NULL;
}

const char *lk_rollout_flag_of(size_t setting)
{
    size_t             index = 0;
    const struct flag *flag = flag_of(setting, &index);
    return flag == NULL ? NULL : flag->name;
}

/* The limits file, the flag, the variable, or default. */
static const char *source_of(
    const lk_rollout_flags *flags, size_t i, const lk_setting *about, uint64_t from_file, lk_getenv get)
{
    unsigned index;
    if (lk_rollout_live_index(table[i].setting, &index) && (from_file >> index & 1) != 0) {
        return "limits file";
    }
    if (given_text(flags, i) != NULL) {
        return table[i].name;
    }
    const char *text = get(about->env, NULL);
    return text != NULL && text[0] != '\0' ? about->env : "default";
}

void lk_rollout_flags_print(
    const lk_rollout_flags *flags, const lk_config *config, uint64_t from_file, lk_getenv get, FILE *out)
{
    for (size_t i = 0; i < flags->count; i++) {
        char        scratch[24];
        lk_setting  about = lk_config_setting(table[i].setting);
        const char *value = lk_config_shown(config, table[i].setting, scratch);
        fprintf(out, "%-40s %-24s %s\n", table[i].name, value == NULL ? "(unset)" : value,
            source_of(flags, i, &about, from_file, get));
    }
}

static void text_or_null(lk_json_writer *w, const char *key, const char *text)
{
    lk_json_key(w, key);
    if (text == NULL) {
        lk_json_null(w);
    } else {
        lk_json_text(w, lk_bytes_of(text));
    }
}

void lk_rollout_flags_json(const lk_rollout_flags *flags, const lk_config *config, uint64_t from_file,
    lk_getenv get, lk_json_writer *w)
{
    lk_json_array(w);
    for (size_t i = 0; i < flags->count; i++) {
        char       scratch[24];
        lk_setting about = lk_config_setting(table[i].setting);
        lk_json_object(w);
        text_or_null(w, "flag", table[i].name);
        text_or_null(w, "variable", about.env);
        text_or_null(w, "value", lk_config_shown(config, table[i].setting, scratch));
        text_or_null(w, "source", source_of(flags, i, &about, from_file, get));
        lk_json_object_end(w);
    }
    lk_json_array_end(w);
}
