/*
 * cmd_rollout_care.c - `lake rollout fsck|adopt|gc`: what operators do to rollout stores, in place, without a server. All but
 * adopt may run beside servers that are at work.
 */
#include "base/json.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/rollout_target.h"
#include "rollout/upkeep.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { FSCK, ADOPT, GC };

/* -- over one store or all of them ----------------------------------------------------------------------------------- */
typedef lk_rc (*visitor)(void *context, const char *name, lk_rollout_store *store, lk_err *err);

static lk_rc visit_one(lk_rollout_target *target, const char *name, visitor visit, void *context, lk_err *err)
{
    lk_rollout_store *store = NULL;
    lk_rc             rc = lk_rollout_target_store(target, name, &store, err);
    if (rc == LK_OK) {
        rc = visit(context, name, store, err);
    }
    lk_rollout_store_unref(store);
    return rc;
}

/* One that cannot be looked at is told of, and does not keep the others from it. A directory without a table is no store yet,
 * or no more. */
static lk_rc visit_all(lk_rollout_target *target, visitor visit, void *context, lk_arena *arena, lk_err *err)
{
    lk_bytes *names = NULL;
    size_t    count = 0, failed = 0;
    lk_rc     rc = lk_rollouts_list(target->stores, arena, &names, &count, err), first = LK_OK;
    for (size_t i = 0; i < count && rc == LK_OK; i++) {
        lk_err      one = {0};
        const char *name = lk_arena_text(arena, names[i]);
        lk_rc       done = visit_one(target, name, visit, context, &one);
        if (done == LK_E_NOT_FOUND) {
            fprintf(stderr, "%s: no store; it was not created to the end, or not removed: do either again\n",
                name);
        } else if (done != LK_OK) {
            fflush(stdout);
            fprintf(stderr, "%s:\n", name);
            (void)lk_cli_fail(&one);
            first = failed++ == 0 ? done : first;
        }
    }
    return rc != LK_OK || first == LK_OK
               ? rc
               : lk_refuse(err, first, "%zu of %zu stores failed, named above", failed, count);
}

/* name NULL: every store of the data directory. */
static lk_rc visit_stores(lk_cli *cli, const lk_rollout_target_args *where, const char *name, visitor visit,
    void *context, lk_err *err)
{
    lk_rollout_target target = {0};
    lk_rc             rc = lk_rollout_target_open(&target, cli, where, err);
    if (rc == LK_OK) {
        rc = name != NULL ? visit_one(&target, name, visit, context, err)
                          : visit_all(&target, visit, context, &cli->arena, err);
    }
    lk_rollout_target_close(&target);
    return rc;
}

/* -- fsck ------------------------------------------------------------------------------------------------------------ */
typedef struct fsck {
    lk_rollout_fsck_options options;
    bool                    json;
    const char             *name; /* of the store at hand */
    uint64_t                damages, stores;
    lk_buf                  shards, found; /* json: elements */
    lk_json_writer          shard_writer, found_writer;
} fsck;

static void number(lk_json_writer *w, const char *key, uint64_t value)
{
    lk_json_key(w, key);
    lk_json_u64(w, value);
}

static void shard_text(const lk_rollout_shard_state *s, const char *id)
{
    printf("  shard %s  manifest %" PRIu64 "  epoch %" PRIu64 "  next generation %" PRIu64
           "  pending %" PRIu64 " (%" PRIu64 " rows)  to replay %" PRIu64 "  orphans %" PRIu64 "\n",
        id, s->version, s->writer_epoch, s->current_generation, s->pending_generations, s->pending_rows,
        s->log_entries, s->orphans);
}

static void on_shard(void *context, const lk_rollout_shard_state *s)
{
    fsck *f = context;
    char  id[LK_UUID_TEXT_SIZE + 1];
    lk_uuid_format(s->id, id);
    if (!f->json) {
        shard_text(s, id);
        return;
    }
    lk_json_writer *w = &f->shard_writer;
    lk_json_object(w);
    lk_json_key(w, "shard");
    lk_json_text(w, lk_bytes_of(id));
    number(w, "version", s->version);
    number(w, "writer_epoch", s->writer_epoch);
    number(w, "current_generation", s->current_generation);
    number(w, "pending_generations", s->pending_generations);
    number(w, "pending_rows", s->pending_rows);
    number(w, "replay_after", s->replay_after);
    number(w, "log_entries", s->log_entries);
    number(w, "orphans", s->orphans);
    lk_json_object_end(w);
}

static void on_damage(void *context, lk_bytes object, const char *reason)
{
    fsck *f = context;
    if (!f->json) {
        printf("  DAMAGED %.*s: %s\n", LK_FMT(object), reason);
        return;
    }
    lk_json_writer *w = &f->found_writer;
    lk_json_object(w);
    lk_json_key(w, "object");
    lk_json_text(w, object);
    lk_json_key(w, "reason");
    lk_json_text(w, lk_bytes_of(reason));
    lk_json_object_end(w);
}

/* A line a store: an object. */
static void fsck_json(fsck *f, const lk_rollout_fsck_report *r)
{
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_object(&w);
    lk_json_key(&w, "store");
    lk_json_text(&w, lk_bytes_of(f->name));
    number(&w, "version", r->base_version);
    number(&w, "base_rows", r->base_rows);
    number(&w, "base_fragments", r->base_fragments);
    number(&w, "generations", r->generations);
    number(&w, "generation_rows", r->generation_rows);
    number(&w, "orphans", r->orphans);
    lk_json_key(&w, "shards");
    lk_json_raw(&w, lk_buf_view(&f->shards));
    lk_json_key(&w, "damage");
    lk_json_raw(&w, lk_buf_view(&f->found));
    lk_json_object_end(&w);
    printf("%.*s\n", LK_FMT(lk_buf_view(&text)));
    lk_buf_deinit(&text);
}

static lk_rc fsck_store(void *context, const char *name, lk_rollout_store *store, lk_err *err)
{
    fsck                  *f = context;
    lk_rollout_fsck_report report = {0};
    lk_buf_clear(&f->shards);
    lk_buf_clear(&f->found);
    f->name = name;
    f->shard_writer = (lk_json_writer){.out = &f->shards};
    f->found_writer = (lk_json_writer){.out = &f->found};
    lk_json_array(&f->shard_writer);
    lk_json_array(&f->found_writer);
    if (!f->json) {
        printf("%s\n", name);
    }
    lk_rc rc = lk_rollout_store_fsck(store, &f->options, &report, err);
    lk_json_array_end(&f->shard_writer);
    lk_json_array_end(&f->found_writer);
    f->damages += report.damages;
    f->stores++;
    if (rc == LK_OK && f->json) {
        fsck_json(f, &report);
    } else if (rc == LK_OK) {
        printf("  base version %" PRIu64 ", %" PRIu64 " rows in %" PRIu64 " fragments; %" PRIu64
               " shards, %" PRIu64 " generations pending with %" PRIu64 " rows; %s\n",
            report.base_version, report.base_rows, report.base_fragments, report.shards, report.generations,
            report.generation_rows, report.damages == 0 ? "sound" : "DAMAGED");
    }
    return rc;
}

static int fsck_command(lk_cli *cli, int argc, char **argv)
{
    fsck                   f = {.options = {.shard = on_shard, .damage = on_damage}};
    lk_rollout_target_args where = {0};
    const char            *name = NULL;
    lk_err                 err = {0};
    int                    code = 0;
    const lk_arg           args[] = {
                  {"NAME", LK_ARG_OPTIONAL_OPERAND, &name, NULL, "the store; without it every one", false},
                  {"--json", LK_ARG_FLAG, &f.json, NULL, "one JSON object a store", false},
                  {"--data-dir", LK_ARG_TEXT, &where.data_dir, "DIR|s3://..", "where the stores lie", true},
    };
    if (!lk_cli_parse(cli, &lk_cli_rollout_care_commands[FSCK], args, sizeof args / sizeof args[0], argc,
            argv, &code)) {
        return code;
    }
    f.options.context = &f;
    lk_rc rc = visit_stores(cli, &where, name, fsck_store, &f, &err);
    lk_buf_deinit(&f.shards);
    lk_buf_deinit(&f.found);
    if (rc == LK_OK && f.damages > 0) {
        fflush(stdout);
        rc = lk_refuse(&err, LK_E_CORRUPT_FILE, "%" PRIu64 " damaged object%s, named above", f.damages,
            f.damages == 1 ? "" : "s");
    }
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

/* -- adopt ----------------------------------------------------------------------------------------------------------- */
static lk_rc confirm(bool yes, const char *name, const char *instance, lk_err *err)
{
    char answer[8] = "";
    if (yes) {
        return LK_OK;
    }
    if (isatty(STDIN_FILENO) == 0) {
        return lk_cli_usage(
            err, "adopting fences a running instance %.60s: say --yes once it is gone for good", instance);
    }
    fprintf(stderr,
        "Instance %s must be gone for good: its shard of %s is taken over and merged. Go on? [y/N] ",
        instance, name);
    bool read = fgets(answer, sizeof answer, stdin) != NULL;
    return read && (answer[0] == 'y' || answer[0] == 'Y') ? LK_OK : lk_cli_usage(err, "nothing was done");
}

static int adopt_command(lk_cli *cli, int argc, char **argv)
{
    lk_rollout_target_args  where = {0};
    lk_rollout_target       target = {0};
    lk_rollout_merge_report done = {0};
    const char             *name = NULL, *instance = NULL;
    bool                    yes = false, json = false;
    lk_err                  err = {0};
    int                     code = 0;
    const lk_arg            args[] = {
                   {"NAME", LK_ARG_OPERAND, &name, NULL, "the store", false},
                   {"INSTANCE", LK_ARG_OPERAND, &instance, NULL, "id of the instance that is gone: rollout-5", false},
                   {"--yes", LK_ARG_FLAG, &yes, NULL, "do not ask: no instance of that id runs any more", false},
                   {"--json", LK_ARG_FLAG, &json, NULL, "one JSON object", false},
                   {"--data-dir", LK_ARG_TEXT, &where.data_dir, "DIR|s3://..", "where the stores lie", true},
    };
    if (!lk_cli_parse(cli, &lk_cli_rollout_care_commands[ADOPT], args, sizeof args / sizeof args[0], argc,
            argv, &code)) {
        return code;
    }
    lk_rc rc = confirm(yes, name, instance, &err);
    if (rc == LK_OK) {
        rc = lk_rollout_target_open(&target, cli, &where, &err);
    }
    if (rc == LK_OK) {
        rc = lk_rollouts_adopt(target.stores, lk_bytes_of(name), lk_bytes_of(instance), &done, &err);
    }
    lk_rollout_target_close(&target);
    if (rc == LK_OK) {
        const lk_report_number numbers[] = {
            {"reclaimed", done.generations}, {"rows", done.rows}, {"version", done.base_version}};
        lk_report(json,
            lk_arena_format(&cli->arena,
                "adopted %s: %zu generation%s, %" PRIu64 " rows are in the base table", instance,
                done.generations, done.generations == 1 ? "" : "s", done.rows)
                .data,
            numbers, 3);
    }
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

/* -- gc -------------------------------------------------------------------------------------------------------------- */
typedef struct gc {
    lk_rollout_gc_options options;
    lk_rollout_gc_report  total;
} gc;

static lk_rc gc_store(void *context, const char *name, lk_rollout_store *store, lk_err *err)
{
    gc                  *g = context;
    lk_rollout_gc_report report = {0};
    lk_rc                rc = lk_rollout_store_collect(store, &g->options, &report, err);
    g->total.directories += report.directories;
    g->total.log_entries += report.log_entries;
    g->total.manifests += report.manifests;
    if (rc != LK_OK) {
        lk_context(err, "store %s", name);
    }
    return rc;
}

static int gc_command(lk_cli *cli, int argc, char **argv)
{
    gc                     g = {.options = {.all_shards = true}};
    lk_rollout_target_args where = {0};
    const char            *name = NULL;
    uint64_t               grace_secs = cli->config->rollout_collect_grace_secs;
    bool                   json = false;
    lk_err                 err = {0};
    int                    code = 0;
    const lk_arg           args[] = {
                  {"NAME", LK_ARG_OPTIONAL_OPERAND, &name, NULL, "the store; without it every one", false},
                  {"--dry-run", LK_ARG_FLAG, &g.options.dry_run, NULL, "only say how much would go", false},
                  {"--log", LK_ARG_FLAG, &g.options.log, NULL, "log entries that no writer needs, too", false},
                  {"--grace-secs", LK_ARG_U64, &grace_secs, "N",
                      "only what is older; longer than the longest read (ROLLOUT_COLLECT_GRACE_SECS, 60)", false},
                  {"--json", LK_ARG_FLAG, &json, NULL, "one JSON object", false},
                  {"--data-dir", LK_ARG_TEXT, &where.data_dir, "DIR|s3://..", "where the stores lie", true},
    };
    if (!lk_cli_parse(
            cli, &lk_cli_rollout_care_commands[GC], args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    g.options.grace_ms = grace_secs * 1000;
    lk_rc rc = visit_stores(cli, &where, name, gc_store, &g, &err);
    if (rc == LK_OK) {
        const lk_report_number numbers[] = {{"directories", g.total.directories},
            {"log_entries", g.total.log_entries}, {"manifests", g.total.manifests}};
        lk_report(json,
            lk_arena_format(&cli->arena,
                "%s %" PRIu64 " generation directories, %" PRIu64 " log entries, the contents of %" PRIu64
                " superseded shard manifests",
                g.options.dry_run ? "would remove" : "removed", g.total.directories, g.total.log_entries,
                g.total.manifests)
                .data,
            numbers, 3);
    }
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

const lk_cli_command lk_cli_rollout_care_commands[] = {
    [FSCK] = {{"rollout fsck", "check rollout stores in place",
                  "Looks at every shard's manifests and opens every generation that one lists; says what is "
                  "damaged, by its "
                  "path, and\nthen exits 1. Changes nothing; servers may be at work. Examples:\n"
                  "  lake rollout fsck --data-dir ./rollouts\n"
                  "  lake rollout fsck rl --json --data-dir s3://bucket/rollouts"},
        fsck_command},
    [ADOPT] = {{"rollout adopt", "merge the shard of an instance that is gone for good",
                   "After scaling down, the rows of a retired instance stay readable for ever; adopting "
                   "moves them into "
                   "the base table,\nso that reading does not pay for its generations. It claims the shard: "
                   "an instance "
                   "that still runs under that id\nis fenced. Example:\n"
                   "  lake rollout adopt rl rollout-5 --data-dir s3://bucket/rollouts --yes"},
        adopt_command},
    [GC] = {{"rollout gc", "remove what merges and crashes left behind",
                "Directories of generations that were merged or never listed, once they are older than "
                "--grace-secs. "
                "Servers do so\nfor their own shards; this is for all of them. Example:\n"
                "  lake rollout gc --dry-run --data-dir ./rollouts"},
        gc_command},
    {{NULL, NULL, NULL}, NULL},
};
