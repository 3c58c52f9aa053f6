/* rollout_live.c - see rollout_live.h. */
#include "cli/rollout_live.h"

#include "base/file.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = 64 * 1024 };

static const size_t live[] = {LK_SETTING(rollout_max_body_bytes), LK_SETTING(request_body_idle_secs),
    LK_SETTING(rollout_max_queued_bytes), LK_SETTING(rollout_max_inflight_blob_bytes),
    LK_SETTING(rollout_max_answer_bytes), LK_SETTING(rollout_answer_idle_secs),
    LK_SETTING(rollout_group_commit_us), LK_SETTING(rollout_disk_low_bytes)};

enum { LIVE = sizeof live / sizeof live[0] };

bool lk_rollout_live_index(size_t setting, unsigned *index)
{
    for (*index = 0; *index < LIVE && live[*index] != setting; ++*index) {}
    return *index < LIVE;
}

static lk_bytes trimmed(lk_bytes text)
{
    while (text.size > 0 && strchr(" \t\r", text.data[0]) != NULL) {
        text = (lk_bytes){text.data + 1, text.size - 1};
    }
    while (text.size > 0 && strchr(" \t\r", text.data[text.size - 1]) != NULL) {
        text.size--;
    }
    return text;
}

/* Every limit there is, for whoever wrote another name. */
static lk_rc refuse_name(const char *where, lk_bytes name, lk_err *err)
{
    char   all[200] = "";
    size_t size = 0;
    for (size_t i = 0; i < LIVE && size < sizeof all; i++) {
        size += (size_t)snprintf(
            all + size, sizeof all - size, "%s%s", i == 0 ? "" : ", ", lk_config_setting(live[i]).env);
    }
    lk_rc rc = lk_refuse(err, LK_E_INVALID_CONFIG, "%s: %.*s cannot change while a server runs", where,
        (int)(name.size < 60 ? name.size : 60), name.data);
    lk_context(err, "these can: %s", all);
    return rc;
}

static lk_rc take_line(
    const char *where, lk_bytes line, lk_config *config, lk_arena *arena, uint64_t *from_file, lk_err *err)
{
    const char *equals = memchr(line.data, '=', line.size);
    if (equals == NULL) {
        return lk_refuse(err, LK_E_INVALID_CONFIG, "%s is not NAME=VALUE", where);
    }
    lk_bytes name = trimmed((lk_bytes){line.data, (size_t)(equals - line.data)});
    lk_bytes value = trimmed((lk_bytes){equals + 1, line.size - (size_t)(equals + 1 - line.data)});
    for (unsigned i = 0; i < LIVE; i++) {
        const char *env = lk_config_setting(live[i]).env;
        if (lk_bytes_equal(name, lk_bytes_of(env))) {
            *from_file |= UINT64_C(1) << i;
            return lk_config_set(config, live[i], lk_arena_format(arena, "%s: %s", where, env).data,
                lk_arena_text(arena, value), err);
        }
    }
    return refuse_name(where, name, err);
}

lk_rc lk_rollout_live_load(
    const char *path, lk_config *config, lk_arena *arena, uint64_t *from_file, lk_err *err)
{
    lk_buf text = {0};
    *from_file = 0;
    if (path == NULL) {
        return LK_OK;
    }
    lk_rc rc = lk_file_read(path, FILE_BYTES_MAX, &text, err);
    if (rc == LK_E_NOT_FOUND) {
        rc = lk_refuse(err, LK_E_INVALID_CONFIG, "there is no limits file %.160s", path);
    }
    lk_bytes rest = lk_buf_view(&text);
    for (size_t number = 1; rc == LK_OK && rest.size > 0; number++) {
        const char *end = memchr(rest.data, '\n', rest.size);
        size_t      size = end == NULL ? rest.size : (size_t)(end - rest.data), used = size + (end != NULL);
        lk_bytes    line = trimmed((lk_bytes){rest.data, size});
        rest = (lk_bytes){rest.data + used, rest.size - used};
        if (line.size > 0 && line.data[0] != '#') {
            rc = take_line(lk_arena_format(arena, "%s line %zu", path, number).data, line, config, arena,
                from_file, err);
        }
    }
    lk_buf_deinit(&text);
    return rc;
}

size_t lk_rollout_live_log(const lk_config *before, const lk_config *after)
{
    size_t changed = 0;
    for (size_t i = 0; i < LIVE; i++) {
        char        old_scratch[24], new_scratch[24];
        const char *from = lk_config_shown(before, live[i], old_scratch);
        const char *to = lk_config_shown(after, live[i], new_scratch);
        if (strcmp(from, to) != 0) {
            lk_log(LK_LOG_SETTING_CHANGED, LK_LOG_T("setting", lk_bytes_of(lk_config_setting(live[i]).env)),
                LK_LOG_T("from", lk_bytes_of(from)), LK_LOG_T("to", lk_bytes_of(to)));
            changed++;
        }
    }
    return changed;
}
