/* rollout_target.c - see rollout_target.h. */
#include "cli/rollout_target.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* Opening makes a directory. A mistyped one would look like one without stores, and a check of it like success. */
static lk_rc look_for(const char *place, lk_err *err)
{
    static const char scheme[] = "file://";
    struct stat       about;
    const char *path = strncmp(place, scheme, sizeof scheme - 1) == 0 ? place + sizeof scheme - 1 : place;
    if (strstr(path, "://") != NULL || stat(path, &about) == 0 || errno != ENOENT) {
        return LK_OK;
    }
    return lk_refuse(err, LK_E_NOT_FOUND, "there is no directory %.200s", path);
}

static lk_rc open_place(lk_rollout_target *out, const lk_rollout_target_args *args, lk_err *err)
{
    out->config.instance_id = args->instance_id != NULL ? args->instance_id : "cli";
    if (out->config.instance_id[0] == '\0') {
        return lk_cli_usage(err, "--instance-id is empty; leave it out for cli");
    }
    lk_rc rc = args->make ? LK_OK : look_for(args->data_dir, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = lk_rollout_plan_place(&out->plan, &out->config, NULL, args->data_dir, err);
    if (rc == LK_OK) {
        lk_rollouts_options options = lk_rollout_plan_stores(&out->plan);
        options.maintenance =
            (lk_rollout_maintenance){.off = true}; /* a command does what it is told, and no more */
        options.store.deferred = false;            /* nobody would flush behind it */
        rc = lk_rollouts_open(&options, &out->stores, err);
    }
    return rc;
}

lk_rc lk_rollout_target_open(
    lk_rollout_target *out, const lk_cli *cli, const lk_rollout_target_args *args, lk_err *err)
{
    *out = (lk_rollout_target){.config = *cli->config};
    if (args->data_dir != NULL && args->url != NULL) {
        return lk_cli_usage(err, "--url is a server's, --data-dir works without one: leave one of them out");
    }
    if (args->data_dir != NULL) {
        return open_place(out, args, err);
    }
    const lk_rollout_remote_options options = {.url = args->url,
        .token_file = args->token_file,
        .ca_file = args->ca_file,
        .retry_secs = args->retry_secs};
    return lk_rollout_remote_open(&out->remote, &out->config, &options, err);
}

void lk_rollout_target_close(lk_rollout_target *target)
{
    lk_rollout_remote_close(target->remote);
    lk_rollouts_close(target->stores);
    lk_rollout_plan_deinit(&target->plan);
    *target = (lk_rollout_target){0};
}

lk_rc lk_rollout_target_store(
    lk_rollout_target *target, const char *name, lk_rollout_store **out, lk_err *err)
{
    lk_rc rc = lk_rollouts_get(target->stores, lk_bytes_of(name), out, err);
    if (rc == LK_E_NOT_FOUND) {
        lk_detail(err,
            "there is no rollout store %.60s in %.120s; `lake rollout list --data-dir …` shows them", name,
            target->plan.data_dir);
    }
    return rc;
}

const char *lk_rollout_target_path(lk_arena *arena, const char *name, const char *rest)
{
    lk_buf text = {0};
    lk_buf_append_text(&text, "/rollouts/");
    lk_rollout_path_escape(lk_bytes_of(name), &text);
    lk_buf_append_text(&text, rest);
    const char *path = lk_arena_text(arena, lk_buf_view(&text));
    lk_buf_deinit(&text);
    return path;
}
