/* fsck.c - see upkeep.h: whether a store is what its manifests say. */
#include "io/prefix.h"
#include "lance/manifest.h"
#include "lance/mem_wal.h"
#include "lance/verify.h"
#include "rollout/rows.h"
#include "rollout/store_priv.h"
#include "rollout/wal.h"

#include <inttypes.h>

typedef struct checking {
    lk_rollout_store              *store;
    const lk_rollout_fsck_options *options;
    lk_rollout_fsck_report        *report;
    lk_bytes directory; /* of the dataset at hand, below the store's; "": the base table */
} checking;

static void tell_damage(const checking *c, lk_bytes object, const char *reason)
{
    c->report->damages++;
    if (c->options->damage != NULL) {
        c->options->damage(c->options->context, object, reason);
    }
}

/* Errors that say something about the data; the others stop the looking. */
static bool is_damage(lk_rc rc)
{
    return rc == LK_E_CORRUPT_FILE || rc == LK_E_CORRUPT_RECORD || rc == LK_E_NOT_FOUND ||
           rc == LK_E_UNSUPPORTED_FORMAT;
}

/* Damage goes into the report, and the looking goes on. */
static lk_rc note(const checking *c, lk_bytes object, lk_rc rc, lk_err *err)
{
    if (!is_damage(rc)) {
        return rc;
    }
    tell_damage(c, object, err->detail[0] != '\0' ? err->detail : err->context);
    *err = (lk_err){0};
    return LK_OK;
}

/* -- datasets ------------------------------------------------------------------------------------------------------- */

static void file_damaged(void *context, uint64_t version, lk_bytes what, const char *reason)
{
    const checking *c = context;
    lk_arena        arena = {0};
    (void)version;
    lk_bytes object = c->directory.size == 0
                          ? what
                          : lk_arena_format(&arena, "%.*s/%.*s", LK_FMT(c->directory), LK_FMT(what));
    tell_damage(c, object, reason);
    lk_arena_close(&arena);
}

static lk_rc verify(checking *c, const lk_lance_env *env, lk_verify_report *done, lk_err *err)
{
    const lk_verify_options options = {.cancel = c->options->cancel, .damage = file_damaged, .context = c};
    lk_rc                   rc = lk_dataset_verify(env, &options, done, err);
    return note(c, c->directory.size == 0 ? LK_LITERAL("_versions") : c->directory, rc, err);
}

static lk_rc check_base(checking *c, lk_err *err)
{
    lk_verify_report done = {0};
    lk_dataset      *base = NULL;
    bool             indexed = true;
    c->directory = (lk_bytes){0};
    lk_rc rc = verify(c, &c->store->env, &done, err);
    if (rc == LK_OK) {
        rc = lk_dataset_open(&c->store->env, 0, &base, err);
    }
    if (rc == LK_OK) {
        c->report->base_version = lk_dataset_version(base);
        c->report->base_rows = lk_dataset_row_count(base);
        c->report->base_fragments = lk_dataset_manifest(base)->fragment_count;
        rc = lk_mem_wal_found(base, &indexed, err);
    }
    if (rc == LK_OK && !indexed) {
        tell_damage(
            c, LK_LITERAL("_versions"), "the newest version has no MemWAL index: readers ignore the shards");
    }
    lk_dataset_unref(base);
    return note(c, LK_LITERAL("_versions"), rc, err);
}

static lk_rc check_generation(checking *c, lk_uuid shard, const lk_shard_generation *generation,
    lk_rollout_shard_state *state, lk_err *err)
{
    lk_arena         arena = {0};
    lk_verify_report done = {0};
    lk_rollout_rows *rows = NULL;
    lk_lance_env     inside = c->store->env;
    uint64_t         before = c->report->damages;
    c->directory = lk_shard_key(shard, generation->path, &arena);
    inside.store = lk_prefix_store_new(c->store->env.store, c->directory);
    inside.files = NULL;
    lk_rc rc = verify(c, &inside, &done, err);
    if (rc == LK_OK && c->report->damages == before) { /* whole; and is it a generation? */
        rc = note(c, c->directory,
            lk_rollout_rows_load(
                &c->store->env, lk_rollout_view_form(c->store->view), shard, generation, &rows, err),
            err);
    }
    if (rows != NULL) {
        state->pending_rows += rows->count;
    }
    lk_rollout_rows_unref(rows);
    lk_store_close(inside.store);
    lk_arena_close(&arena);
    return rc;
}

/* -- shards --------------------------------------------------------------------------------------------------------- */

static lk_rc read_all(lk_batches *batches, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (bool more = true; rc == LK_OK && more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = batch.release != NULL;
        lk_array_release(&batch);
    }
    return rc;
}

/* Entries behind the last flush: rows that only the log has. */
static lk_rc check_log(checking *c, lk_uuid shard, lk_rollout_shard_state *state, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (bool found = true; rc == LK_OK && found;) {
        lk_arena     arena = {0};
        lk_wal_entry entry = {0};
        uint64_t     position = state->replay_after + state->log_entries + 1;
        rc = lk_wal_read(c->store->env.store, shard, position, &arena, &entry, &found, err);
        if (rc == LK_OK && entry.batches != NULL) {
            rc = read_all(entry.batches, err);
        }
        state->log_entries += found;
        found = found && rc == LK_OK;
        lk_batches_close(entry.batches);
        rc = note(c, lk_shard_key(shard, LK_LITERAL("wal"), &arena), rc, err);
        lk_arena_close(&arena);
    }
    return rc;
}

static lk_rc check_listed(
    checking *c, const lk_shard_manifest *latest, lk_rollout_shard_state *state, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < latest->generation_count; i++) {
        rc = lk_cancel_check(c->options->cancel, err);
        if (rc == LK_OK) {
            rc = check_generation(c, latest->shard, &latest->generations[i], state, err);
        }
    }
    if (rc == LK_OK) {
        rc = check_log(c, latest->shard, state, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_count_orphans(&c->store->env, latest, &state->orphans, err);
    }
    return rc;
}

static lk_rc tell_gap(checking *c, lk_uuid shard, uint64_t before, uint64_t after, lk_err *err)
{
    lk_arena          arena = {0};
    lk_shard_manifest newer;
    bool              found = false;
    /* A listing may have missed what came while it was made. */
    lk_rc rc = lk_shard_newer(c->store->env.store, shard, before, 0, &arena, &newer, &found, err);
    if (rc == LK_OK && !found) {
        tell_damage(c, lk_shard_manifest_key(shard, before + 1, &arena),
            lk_arena_format(&arena,
                "version %" PRIu64 " is missing, and there is version %" PRIu64
                "; an empty object in its place makes readers go on",
                before + 1, after)
                .data);
    }
    lk_arena_close(&arena);
    return rc;
}

/* Readers follow the manifests one by one: what lies behind one that is missing may be hidden from them. Other software may
 * have removed the first ones. */
static lk_rc check_chain(checking *c, lk_uuid shard, lk_err *err)
{
    lk_arena  arena = {0};
    uint64_t *versions = NULL;
    size_t    count = 0;
    lk_rc     rc = lk_shard_versions(c->store->env.store, shard, &arena, &versions, &count, err);
    for (size_t i = 1; rc == LK_OK && i < count; i++) {
        if (versions[i] != versions[i - 1] + 1) {
            rc = tell_gap(c, shard, versions[i - 1], versions[i], err);
        }
    }
    lk_arena_close(&arena);
    return rc;
}

/* The newest manifest as good as it can be told, where there is a gap, too. */
static lk_rc find_latest(
    const checking *c, lk_uuid shard, lk_arena *arena, lk_shard_manifest *latest, bool *found, lk_err *err)
{
    lk_store *store = c->store->env.store;
    uint64_t  highest = 0;
    lk_rc     rc = lk_shard_highest(store, shard, arena, &highest, err);
    *found = false;
    return rc == LK_OK && highest > 0 ? lk_shard_latest(store, shard, highest, arena, latest, found, err)
                                      : rc;
}

static lk_rc check_shard(checking *c, lk_uuid shard, lk_err *err)
{
    lk_arena               arena = {0};
    lk_shard_manifest      latest = {0};
    lk_rollout_shard_state state = {.id = shard};
    bool                   found = false;
    lk_rc                  rc = find_latest(c, shard, &arena, &latest, &found, err);
    rc = note(c, lk_shard_key(shard, LK_LITERAL("manifest"), &arena), rc, err);
    state.own = memcmp(&shard, &c->store->shard, sizeof shard) == 0;
    if (rc == LK_OK) {
        rc = check_chain(c, shard, err);
    }
    if (rc == LK_OK && found) {
        state.version = latest.version;
        state.writer_epoch = latest.writer_epoch;
        state.current_generation = latest.current_generation;
        state.replay_after = latest.replay_after;
        state.pending_generations = latest.generation_count;
    }
    if (rc == LK_OK && found) {
        rc = check_listed(c, &latest, &state, err);
    }
    if (rc == LK_OK) {
        c->report->shards++;
        c->report->generations += state.pending_generations;
        c->report->generation_rows += state.pending_rows;
        c->report->orphans += state.orphans;
    }
    if (rc == LK_OK && c->options->shard != NULL) {
        c->options->shard(c->options->context, &state);
    }
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_rollout_store_fsck(
    lk_rollout_store *s, const lk_rollout_fsck_options *options, lk_rollout_fsck_report *report, lk_err *err)
{
    checking c = {.store = s, .options = options, .report = report};
    lk_arena arena = {0};
    lk_uuid *shards = NULL;
    size_t   count = 0;
    *report = (lk_rollout_fsck_report){0};
    lk_rc rc = lk_shard_list(s->env.store, &arena, &shards, &count, err); /* before the table: see view.h */
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = check_shard(&c, shards[i], err);
    }
    if (rc == LK_OK) {
        rc = check_base(&c, err);
    }
    lk_arena_close(&arena);
    return rc;
}
