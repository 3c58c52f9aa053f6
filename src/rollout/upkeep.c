/* upkeep.c - see upkeep.h: compaction and folding. */
#include "rollout/upkeep.h"

#include "lance/alter.h"
#include "lance/manifest.h"
#include "rollout/store_priv.h"

#include <stdlib.h>

/* A fragment with more bytes is not small, whatever its rows are: reading them takes longer than finding them. */
static const uint64_t SMALL_BYTES = 64 << 20;

/* -- one at a time ------------------------------------------------------------------------------------------------- */

static lk_rc begin(lk_rollout_store *s, lk_err *err)
{
    lk_mutex_lock(&s->mutex);
    bool begins = !s->compacting;
    s->compacting = true;
    lk_mutex_unlock(&s->mutex);
    return begins ? LK_OK
                  : lk_refuse(err, LK_E_COMPACTION_IN_PROGRESS, "wait for it, or look at its statistics");
}

static void end(lk_rollout_store *s, lk_rc rc, bool changed, const lk_err *err)
{
    lk_mutex_lock(&s->mutex);
    s->compacting = false;
    s->compact.total_compactions += rc == LK_OK && changed;
    s->compact.last_ms = lk_clock_wall_ms(s->env.clock);
    s->compact.last_error[0] = '\0';
    if (rc != LK_OK) {
        (void)lk_err_message(err, s->compact.last_error, sizeof s->compact.last_error);
    }
    lk_mutex_unlock(&s->mutex);
}

/* -- compaction ------------------------------------------------------------------------------------------------------ */

/* Of base's fragments the ones that next has no more, and their files. Both are in the order of their ids. */
static void count_removed(const lk_manifest *base, const lk_manifest *next, lk_rollout_compact_report *report)
{
    size_t at = 0;
    for (size_t i = 0; i < base->fragment_count; i++) {
        const lk_fragment *fragment = &base->fragments[i];
        while (at < next->fragment_count && next->fragments[at].id < fragment->id) {
            at++;
        }
        if (at == next->fragment_count || next->fragments[at].id != fragment->id) {
            report->fragments_removed++;
            report->files_removed += fragment->file_count + (fragment->deletion.kind != LK_DELETION_NONE);
        }
    }
}

/* alone: on this thread, so that others have the rest of the machine. */
static lk_rc compact(lk_dataset *base, const lk_compact_options *options, bool alone,
    lk_rollout_compact_report *report, lk_err *err)
{
    const lk_write_options how = {.alone = alone};
    lk_compact_report      done = {0};
    lk_dataset            *next = NULL;
    lk_rc rc = lk_dataset_compact(base, lk_direct_committer(), options, &how, &done, &next, err);
    if (rc == LK_OK) {
        count_removed(lk_dataset_manifest(base), lk_dataset_manifest(next), report);
        report->fragments_added = report->files_added = done.fragments_written;
        report->base_version = lk_dataset_version(next);
    }
    lk_dataset_unref(next);
    return rc;
}

lk_rc lk_rollout_store_compact(
    lk_rollout_store *s, uint64_t target_rows, lk_rollout_compact_report *report, lk_err *err)
{
    const lk_compact_options options = {.target_rows = target_rows};
    lk_dataset              *base = NULL;
    *report = (lk_rollout_compact_report){0};
    lk_rc rc = begin(s, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = lk_dataset_open(&s->env, 0, &base, err);
    if (rc == LK_OK) {
        rc = compact(base, &options, false, report, err);
    }
    end(s, rc, report->fragments_removed > 0, err);
    lk_dataset_unref(base);
    return rc;
}

/* -- folding --------------------------------------------------------------------------------------------------------- */

static bool is_small(const lk_fragment *fragment)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < fragment->file_count; i++) {
        bytes += fragment->files[i].size_bytes;
    }
    return fragment->physical_rows < LK_ROLLOUT_FOLD_ROWS && bytes < SMALL_BYTES;
}

/*
 * The first of the newest fragments that are folded, by index; the count when there are too few. The newest half of them
 * always is; an older one comes along while it is not much larger than all after it. So there are never many small
 * ones, and a row is rewritten about as often as its fragment doubles.
 */
static size_t first_to_fold(const lk_manifest *manifest, size_t run)
{
    size_t   count = manifest->fragment_count, taken = 0;
    uint64_t rows = 0;
    if (run < LK_ROLLOUT_FOLD_FRAGMENTS) {
        return count;
    }
    while (taken < run) {
        uint64_t next = manifest->fragments[count - 1 - taken].physical_rows;
        if (taken >= LK_ROLLOUT_FOLD_FRAGMENTS / 2 && next > 2 * rows) {
            break;
        }
        rows += next;
        taken++;
    }
    return count - taken;
}

/* Large fragments part small ones from each other; when many stand between them, all small ones become one. So of small
 * fragments there are never more than twice as many as make a fold due, whatever came in whatever order. */
bool lk_rollout_plan_fold(const lk_manifest *manifest, lk_compact_options *out)
{
    size_t count = manifest->fragment_count, run = 0, parted = 0;
    while (run < count && is_small(&manifest->fragments[count - 1 - run])) {
        run++;
    }
    size_t first = first_to_fold(manifest, run);
    if (first < count) {
        *out = (lk_compact_options){.first_id = manifest->fragments[first].id};
        return true;
    }
    for (size_t i = 0; i < count - run; i++) {
        parted += is_small(&manifest->fragments[i]);
    }
    *out = (lk_compact_options){.gather_rows = LK_ROLLOUT_FOLD_ROWS, .gather_bytes = SMALL_BYTES};
    return parted >= LK_ROLLOUT_FOLD_FRAGMENTS;
}

lk_rc lk_rollout_store_fold(lk_rollout_store *s, bool *folded, lk_err *err)
{
    lk_rollout_compact_report report = {0};
    lk_dataset               *base = NULL;
    *folded = false;
    lk_rc rc = lk_dataset_open(&s->env, 0, &base, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_compact_options options;
    bool               due = lk_rollout_plan_fold(lk_dataset_manifest(base), &options);
    rc = due ? begin(s, err) : LK_OK; /* else no compaction is said to run */
    if (due && rc == LK_OK) {
        rc = compact(base, &options, !s->env.store->far, &report, err);
        *folded = rc == LK_OK && report.fragments_removed > 0;
        end(s, rc, *folded, err);
    }
    lk_dataset_unref(base);
    return rc;
}

lk_rc lk_rollout_store_compact_stats(lk_rollout_store *s, lk_rollout_compact_stats *out, lk_err *err)
{
    lk_rollout_snapshot *snapshot = NULL;
    lk_rc                rc = lk_rollout_view_take(s->view, &snapshot, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_mutex_lock(&s->mutex);
    *out = s->compact;
    out->is_compacting = s->compacting;
    lk_mutex_unlock(&s->mutex);
    out->total_fragments = lk_dataset_manifest(snapshot->base)->fragment_count;
    lk_rollout_snapshot_unref(snapshot);
    return LK_OK;
}

/* -- collection ------------------------------------------------------------------------------------------------------ */

static lk_rc collect_one(lk_rollout_store *s, lk_uuid shard, const lk_rollout_gc_options *options,
    lk_rollout_gc_report *report, lk_err *err)
{
    lk_rc rc = lk_rollout_collect(&s->env, shard, options->grace_ms, options->dry_run, report, err);
    if (rc == LK_OK && options->log) {
        rc = lk_rollout_collect_log(&s->env, shard, options->dry_run, report, err);
    }
    return rc;
}

lk_rc lk_rollout_store_collect(
    lk_rollout_store *s, const lk_rollout_gc_options *options, lk_rollout_gc_report *report, lk_err *err)
{
    lk_arena arena = {0};
    lk_uuid *shards = NULL;
    size_t   count = 0;
    *report = (lk_rollout_gc_report){0};
    if (!options->all_shards) {
        return collect_one(s, s->shard, options, report, err);
    }
    lk_rc rc = lk_shard_list(s->env.store, &arena, &shards, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = collect_one(s, shards[i], options, report, err);
    }
    lk_arena_close(&arena);
    return rc;
}
