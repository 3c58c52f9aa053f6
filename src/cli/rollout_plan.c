/* rollout_plan.c - see rollout_plan.h. */
#include "cli/rollout_plan.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/lance_env.h"
#include "cli/rollout_live.h"
#include "net/address.h"
#include "rollout/shard_manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MEMORY_SHARE = 4 };

/* -- who -------------------------------------------------------------------------------------------------------- */
static void name_instance(lk_rollout_plan *plan, const lk_rollout_flags *flags)
{
    const lk_config *c = plan->config;
    size_t           setting = LK_SETTING(instance_id);
    plan->instance_id = "default";
    plan->instance_source = "default";
    if (c->instance_id != NULL) {
        bool given = flags != NULL && lk_rollout_flags_given(flags, setting);
        plan->instance_id = c->instance_id;
        plan->instance_source = given ? lk_rollout_flag_of(setting) : lk_config_setting(setting).env;
    } else if (c->hostname != NULL) {
        plan->instance_id = c->hostname;
        plan->instance_source = lk_config_setting(LK_SETTING(hostname)).env;
    }
    plan->shard = lk_shard_of_instance(lk_bytes_of(plan->instance_id));
}

static lk_rc check_instance(const lk_rollout_plan *plan, lk_err *err)
{
    bool nameless = strcmp(plan->instance_id, "default") == 0;
    if (nameless && strcmp(plan->config->rollout_require_instance_id, "1") == 0) {
        return lk_refuse(err, LK_E_INVALID_CONFIG,
            "an instance id is required: set %s to a name that no "
            "other running instance has",
            lk_config_setting(LK_SETTING(instance_id)).env);
    }
    if (strcmp(plan->config->rollout_visibility, "deferred") == 0 &&
        strcmp(plan->config->rollout_wal, "never") == 0) {
        return lk_refuse(err, LK_E_INVALID_CONFIG,
            "deferred visibility rests on log entries; it does not go with %s never",
            lk_rollout_flag_of(LK_SETTING(rollout_wal)));
    }
    if (!lk_bytes_are_utf8(lk_bytes_of(plan->instance_id))) {
        return lk_refuse(err, LK_E_INVALID_CONFIG, "%s is not UTF-8", plan->instance_source);
    }
    return LK_OK;
}

/* -- how much ------------------------------------------------------------------------------------------------------ */

/* What this process may use: its control group's bound, else the machine's memory. */
static uint64_t memory_bytes(void)
{
    enum { TEXT_MAX = 64 };
    uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES), size = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t bytes = pages * size;
    lk_buf   text = {0};
    lk_err   err = {0};
    if (lk_file_read("/sys/fs/cgroup/memory.max", TEXT_MAX, &text, &err) == LK_OK) {
        lk_buf_append(&text, "", 1);
        uint64_t bound = strtoull(text.data, NULL, 10); /* "max": 0 */
        bytes = bound > 0 && bound < bytes ? bound : bytes;
    }
    lk_buf_deinit(&text);
    return bytes;
}

static lk_rc bound_blobs(lk_rollout_plan *plan, lk_err *err)
{
    const char *text = plan->config->rollout_max_inflight_blob_bytes;
    char       *end = NULL;
    errno = 0;
    if (strcmp(text, "auto") == 0) {
        plan->blob_bytes_max = memory_bytes() / MEMORY_SHARE;
        return LK_OK;
    }
    plan->blob_bytes_max = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0) {
        return lk_refuse(err, LK_E_INVALID_CONFIG, "%s must be auto or a number of bytes",
            lk_config_setting(LK_SETTING(rollout_max_inflight_blob_bytes)).env);
    }
    plan->blob_bytes_max = plan->blob_bytes_max == 0 ? UINT64_MAX : plan->blob_bytes_max;
    return LK_OK;
}

/* -- from where, and by whom ------------------------------------------------------------------------------------------ */
static lk_rc load_secrets(lk_rollout_plan *plan, lk_err *err)
{
    const lk_config *c = plan->config;
    const char      *tokens = c->rollout_auth_token_file;
    bool             own = c->rollout_tls_cert != NULL || c->rollout_tls_key != NULL;
    if (own && (c->rollout_tls_cert == NULL || c->rollout_tls_key == NULL)) {
        return lk_refuse(err, LK_E_INVALID_CONFIG, "%s and %s go together",
            lk_rollout_flag_of(LK_SETTING(rollout_tls_cert)),
            lk_rollout_flag_of(LK_SETTING(rollout_tls_key)));
    }
    lk_rc rc = lk_tls_identity_load(&plan->tls, own ? c->rollout_tls_cert : c->tls_cert_file,
        own ? c->rollout_tls_key : c->tls_key_file, err);
    if (rc == LK_OK && tokens == NULL && c->auth_principals_file != NULL) {
        return lk_refuse(err, LK_E_INVALID_CONFIG,
            "callers are named in a principals file, which a rollout store cannot use: give it tokens of its "
            "own with %s",
            lk_rollout_flag_of(LK_SETTING(rollout_auth_token_file)));
    }
    return rc != LK_OK
               ? rc
               : lk_rollout_tokens_load(&plan->tokens, tokens != NULL ? tokens : c->auth_token_file, err);
}

static lk_rc check_exposure(const lk_rollout_plan *plan, lk_err *err)
{
    lk_address  address = {0};
    const char *allow = plan->config->allow_insecure;
    lk_rc       rc = lk_address_parse(plan->address, &address, err);
    bool        tls = lk_tls_identity_present(&plan->tls), tokens = plan->tokens.count > 0;
    if (rc != LK_OK || address.loopback || (tls && tokens)) {
        return rc;
    }
    if (allow == NULL || strcmp(allow, "1") != 0) {
        return lk_refuse(err, LK_E_INSECURE,
            "%s is off loopback and needs %s%s%s; or LAKE_ALLOW_INSECURE=1, if the network is trusted",
            plan->address, tls ? "" : "--tls-cert and --tls-key", tls || tokens ? "" : ", and ",
            tokens ? "" : "--auth-token-file");
    }
    lk_log(LK_LOG_INSECURE_LISTENER, LK_LOG_T("address", lk_bytes_of(plan->address)));
    return LK_OK;
}

/* Where stores may lie, without making anything. */
static lk_rc check_place(lk_rollout_plan *plan, lk_err *err)
{
    const lk_config *c = plan->config;
    lk_data_dir     *dir = NULL;
    plan->s3 = lk_cli_s3_options(c);
    plan->s3.endpoint = c->rollout_storage_endpoint != NULL ? c->rollout_storage_endpoint : plan->s3.endpoint;
    lk_rc       rc = lk_data_dir_open(&dir, lk_bytes_of(plan->data_dir), &plan->s3, true, err);
    const char *path = rc == LK_OK ? lk_data_dir_path(dir) : NULL;
    plan->directory = path == NULL ? NULL : lk_arena_text(&plan->arena, lk_bytes_of(path));
    lk_data_dir_close(dir);
    struct stat about;
    if (plan->directory != NULL && stat(plan->directory, &about) == 0 && !S_ISDIR(about.st_mode)) {
        return lk_refuse(err, LK_E_INVALID_CONFIG,
            "%s is a file; the data directory must be a directory, or a path where one can be made",
            plan->directory);
    }
    return rc;
}

lk_rc lk_rollout_plan_place(lk_rollout_plan *out, const lk_config *config, const lk_rollout_flags *flags,
    const char *data_dir, lk_err *err)
{
    *out = (lk_rollout_plan){.config = config};
    out->data_dir = data_dir != NULL ? data_dir : config->rollout_data_dir;
    name_instance(out, flags);
    lk_rc rc = check_place(out, err);
    return rc != LK_OK ? rc : check_instance(out, err);
}

lk_rc lk_rollout_plan_make(lk_rollout_plan *out, const lk_config *config, const lk_rollout_flags *flags,
    const char *address, const char *data_dir, lk_err *err)
{
    lk_rc rc = lk_rollout_plan_place(out, config, flags, data_dir, err);
    out->given = config;
    out->flags = flags;
    out->given_address = address;
    out->given_data_dir = data_dir;
    out->own = *config;
    if (rc == LK_OK) {
        rc = lk_rollout_live_load(config->rollout_limits_file, &out->own, &out->arena, &out->from_file, err);
    }
    out->config = &out->own;
    bool v6 = strchr(config->rollout_host, ':') != NULL && config->rollout_host[0] != '[';
    out->address = address != NULL ? address
                                   : lk_arena_format(&out->arena, v6 ? "[%s]:%u" : "%s:%u",
                                         config->rollout_host, (unsigned)config->rollout_port)
                                         .data;
    if (rc == LK_OK) {
        rc = bound_blobs(out, err);
    }
    if (rc == LK_OK) {
        rc = load_secrets(out, err);
    }
    return rc != LK_OK ? rc : check_exposure(out, err);
}

/* The index of a setting's word among those of an enum, in its order. */
static unsigned word_index(const char *word, const char *const *words)
{
    unsigned i = 0;
    while (strcmp(words[i], word) != 0) {
        i++; /* base/config.c refused every other word */
    }
    return i;
}

lk_rollouts_options lk_rollout_plan_stores(const lk_rollout_plan *plan)
{
    static const char *const logs[] = {
        [LK_ROLLOUT_LOG_AUTO] = "auto", [LK_ROLLOUT_LOG_ALWAYS] = "always", [LK_ROLLOUT_LOG_NEVER] = "never"};
    static const char *const conflicts[] = {[LK_ROLLOUT_CONFLICT_REFUSE] = "error",
        [LK_ROLLOUT_CONFLICT_KEEP] = "keep",
        [LK_ROLLOUT_CONFLICT_ACCEPT] = "accept"};
    const lk_config         *c = plan->config;
    return (lk_rollouts_options){
        .data_dir = lk_bytes_of(plan->data_dir),
        .s3 = &plan->s3,
        .durable = strcmp(c->rollout_fsync, "always") == 0,
        .cache_bytes = c->rollout_cache_bytes,
        .open_max = c->rollout_cache_capacity,
        .disk_low_bytes = c->rollout_disk_low_bytes,
        .store = {.instance_id = lk_bytes_of(plan->instance_id),
            .merge_after = c->rollout_merge_after,
            .on_conflict = (lk_rollout_conflict)word_index(c->rollout_on_conflict, conflicts),
            .log = (lk_rollout_log)word_index(c->rollout_wal, logs),
            .deferred = strcmp(c->rollout_visibility, "deferred") == 0,
            .flush_interval_ms = c->rollout_flush_interval_secs * 1000,
            .strict_alignment = strcmp(c->rollout_strict_alignment, "1") == 0,
            .pending_warn = c->rollout_wal_pending_warn,
            .pending_max = c->rollout_wal_pending_max,
            .older_columns = strcmp(c->rollout_schema_profile, "v031") == 0},
        .maintenance = {.background = strcmp(c->rollout_merge_mode, "background") == 0,
            .collect_log = strcmp(c->rollout_wal_gc, "1") == 0,
            .interval_ms = c->rollout_cleanup_interval_secs * 1000,
            .generations_min = c->rollout_cleanup_min_generations,
            .generations_max = c->rollout_merge_max_generations,
            .bytes_max = c->rollout_merge_max_bytes,
            .keep_ms = c->rollout_keep_versions_hours * 3600 * 1000,
            .grace_ms = c->rollout_collect_grace_secs * 1000},
    };
}

void lk_rollout_plan_deinit(lk_rollout_plan *plan)
{
    lk_tls_identity_deinit(&plan->tls);
    lk_rollout_tokens_deinit(&plan->tokens);
    lk_arena_close(&plan->arena);
    *plan = (lk_rollout_plan){0};
}
