/*
 * compact.c - neighbouring fragments that are small, or have lost many rows, become full ones.
 *
 * Groups of neighbours are rewritten one after another, each as a stream of batches: memory does not depend on how
 * much there is. A commit takes a few groups, so that what is done stays done. Fragment ids are given at the commit.
 * An index goes on answering for the fragments that it covers and that are still there; the new ones are scanned
 * until it is brought up to date, as after any append.
 *
 * A group never grows beyond the target and is rewritten into one fragment, so a second run finds nothing to do.
 */
#include "lance/alter.h"
#include "lance/change.h"
#include "lance/dataset_priv.h"
#include "lance/fragment_same.h"
#include "lance/fragment_write.h"
#include "lance/wire.h"

#include <inttypes.h>
#include <stdlib.h>

enum { TARGET_ROWS = 1 << 20, GROUPS_PER_COMMIT = 16, DELETED_PERCENT = 10 };

typedef struct group { /* neighbours in base, and the fragments (of the writer's) that take their place */
    size_t first, count, new_first, new_count;
} group;

typedef struct old_fragment {
    uint64_t id;
    size_t   index, group; /* in base; which group */
    bool     found;
} old_fragment;

typedef struct compaction {
    lk_change          base; /* first: plan_rewrite gets this */
    lk_dataset        *dataset;
    lk_fragment_writer writer;
    group              groups[GROUPS_PER_COMMIT];
    size_t             group_count;
    old_fragment      *old; /* all fragments of the groups, by id */
    size_t             old_count;
} compaction;

/* -- which fragments ------------------------------------------------------------------------------------- */

static uint64_t live_rows(const lk_fragment *fragment)
{
    return fragment->physical_rows - fragment->deletion.count;
}

static bool has_lost_many(const lk_fragment *fragment)
{
    return fragment->deletion.count * 100 > fragment->physical_rows * DELETED_PERCENT;
}

static bool is_candidate(const lk_fragment *fragment, uint64_t target_rows)
{
    return live_rows(fragment) <= target_rows &&
           (fragment->physical_rows < target_rows || has_lost_many(fragment));
}

/* The neighbours from `first` on that make one fragment together. */
static size_t count_neighbours(const lk_manifest *manifest, size_t first, uint64_t target_rows)
{
    uint64_t rows = 0;
    size_t   at = first;
    for (; at < manifest->fragment_count; at++) {
        const lk_fragment *fragment = &manifest->fragments[at];
        if (!is_candidate(fragment, target_rows) || rows + live_rows(fragment) > target_rows) {
            break;
        }
        rows += live_rows(fragment);
    }
    return at - first;
}

static void find_groups(compaction *c, uint64_t target_rows)
{
    const lk_manifest *base = c->base.base;
    for (size_t at = 0; at < base->fragment_count && c->group_count < GROUPS_PER_COMMIT;) {
        size_t count = count_neighbours(base, at, target_rows);
        if (count > 1 || (count == 1 && has_lost_many(&base->fragments[at]))) {
            c->groups[c->group_count++] = (group){.first = at, .count = count};
            c->old_count += count;
        }
        at += count == 0 ? 1 : count;
    }
}

static int compare_old(const void *a, const void *b)
{
    const old_fragment *left = a, *right = b;
    return (left->id > right->id) - (left->id < right->id);
}

static void list_old(compaction *c)
{
    size_t at = 0;
    c->old = lk_arena_take(&c->base.arena, (c->old_count + 1) * sizeof *c->old);
    for (size_t g = 0; g < c->group_count; g++) {
        for (size_t i = c->groups[g].first; i < c->groups[g].first + c->groups[g].count; i++) {
            c->old[at++] = (old_fragment){c->base.base->fragments[i].id, i, g, false};
        }
    }
    qsort(c->old, c->old_count, sizeof *c->old, compare_old);
}

/* -- rewriting -------------------------------------------------------------------------------------------- */

/* A dataset of these fragments alone. It is never committed. */
static lk_rc part_of(const compaction *c, const group *g, lk_dataset **out, lk_err *err)
{
    const lk_manifest *base = c->base.base;
    lk_arena           arena = {0};
    lk_buf             object = {0};
    lk_manifest       *manifest = NULL;
    lk_bytes          *raw = lk_arena_take(&arena, g->count * sizeof *raw);
    lk_pb_new_version  version = {
         .version = base->version,
         .timestamp_ms = base->timestamp_ms,
         .reader_flags = base->reader_flags,
         .writer_flags = base->writer_flags,
         .replaces_fragments = true,
         .raw_fragments = raw,
         .raw_fragment_count = g->count,
    };
    for (size_t i = 0; i < g->count; i++) {
        raw[i] = base->fragments[g->first + i].raw;
    }
    lk_rc rc = lk_change_object(base->body, &version, &object, err);
    if (rc == LK_OK) {
        rc = lk_manifest_parse(lk_buf_view(&object), base->key, &manifest, err);
    }
    if (rc == LK_OK) {
        *out = lk_dataset_new(&c->dataset->env, manifest, c->dataset->files);
    }
    lk_buf_deinit(&object);
    lk_arena_close(&arena);
    return rc;
}

static size_t written(const compaction *c)
{
    size_t count = 0;
    (void)lk_fragment_writer_fragments(&c->writer, &count);
    return count;
}

static lk_rc rewrite_group(compaction *c, group *g, lk_err *err)
{
    lk_dataset     *part = NULL;
    lk_batches     *rows = NULL;
    lk_scan_options options = {.limit = UINT64_MAX};
    g->new_first = written(c);
    lk_rc rc = part_of(c, g, &part, err);
    if (rc == LK_OK && lk_dataset_row_count(part) > 0) {
        rc = lk_dataset_scan(part, &options, &rows, err);
        if (rc == LK_OK) {
            rc = lk_fragment_writer_write(&c->writer, rows, err);
        }
    }
    g->new_count = written(c) - g->new_first;
    lk_batches_close(rows);
    lk_dataset_unref(part);
    return rc;
}

/* -- on top of a version ------------------------------------------------------------------------------------ */

static bool goes_with_rewrite(lk_operation other)
{
    switch (other) {
    case LK_OPERATION_APPEND:
    case LK_OPERATION_DELETE: /* these if our fragments are as they were: plan_rewrite looks */
    case LK_OPERATION_UPDATE:
    case LK_OPERATION_REWRITE:
    case LK_OPERATION_MERGE:
    case LK_OPERATION_DATA_REPLACEMENT:
    case LK_OPERATION_CREATE_INDEX:
    case LK_OPERATION_RESERVE_FRAGMENTS:
    case LK_OPERATION_PROJECT:
    case LK_OPERATION_UPDATE_CONFIG:
    case LK_OPERATION_CLONE:
    case LK_OPERATION_UPDATE_BASES:
        return true;
    case LK_OPERATION_UNKNOWN:
    case LK_OPERATION_OVERWRITE:
    case LK_OPERATION_RESTORE:
    case LK_OPERATION_UPDATE_MEM_WAL_STATE:
    case LK_OPERATION_DATA_OVERLAY:
        break;
    }
    return false;
}

static lk_rc changed(uint64_t fragment_id, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_CONFLICT, "fragment %" PRIu64 " changed", fragment_id);
    lk_detail(err, "fragments that were being rewritten were changed meanwhile");
    return rc;
}

static lk_bytes encode_fragment(const lk_fragment *fragment, lk_arena *arena)
{
    lk_buf message = {0};
    lk_pb_fragment_encode(fragment, &message);
    lk_bytes out = lk_arena_copy(arena, lk_buf_view(&message));
    lk_buf_deinit(&message);
    return out;
}

typedef struct outcome {
    lk_bytes *raw;
    size_t    count;
    bool      any_deletion;
    bool      placed[GROUPS_PER_COMMIT];
} outcome;

/* The group's new fragments stand where the first of its old ones stood. */
static void place_group(const compaction *c, size_t number, lk_arena *arena, outcome *out)
{
    size_t             count = 0;
    const group       *g = &c->groups[number];
    const lk_fragment *fragments = lk_fragment_writer_fragments(&c->writer, &count);
    for (size_t i = 0; !out->placed[number] && i < g->new_count; i++) {
        out->raw[out->count++] = encode_fragment(&fragments[g->new_first + i], arena);
    }
    out->placed[number] = true;
}

static lk_rc place_all(compaction *c, const lk_manifest *tip, lk_arena *arena, outcome *out, lk_err *err)
{
    out->raw = lk_arena_take(arena, (tip->fragment_count + written(c) + 1) * sizeof *out->raw);
    for (size_t i = 0; i < c->old_count; i++) {
        c->old[i].found = false;
    }
    for (size_t i = 0; i < tip->fragment_count; i++) {
        const lk_fragment *now = &tip->fragments[i];
        old_fragment       wanted = {.id = now->id};
        old_fragment      *old = bsearch(&wanted, c->old, c->old_count, sizeof wanted, compare_old);
        if (old == NULL) {
            out->raw[out->count++] = now->raw;
            out->any_deletion |= now->deletion.kind != LK_DELETION_NONE;
            continue;
        }
        const lk_fragment *then = &c->base.base->fragments[old->index];
        if (!lk_fragment_same_files(then, now) ||
            !lk_fragment_same_deletion(&then->deletion, &now->deletion)) {
            return changed(now->id, err);
        }
        old->found = true;
        place_group(c, old->group, arena, out);
    }
    for (size_t i = 0; i < c->old_count; i++) {
        if (!c->old[i].found) {
            return changed(c->old[i].id, err);
        }
    }
    return LK_OK;
}

static lk_bytes encode_operation(const compaction *c, lk_arena *arena)
{
    enum { REWRITE_GROUPS = 3, GROUP_OLD = 1, GROUP_NEW = 2 };
    size_t             count = 0;
    const lk_fragment *fragments = lk_fragment_writer_fragments(&c->writer, &count);
    lk_buf             operation = {0}, message = {0};
    for (size_t g = 0; g < c->group_count; g++) {
        const group *one = &c->groups[g];
        lk_buf_clear(&message);
        for (size_t i = 0; i < one->count; i++) {
            lk_wire_put_bytes(&message, GROUP_OLD, c->base.base->fragments[one->first + i].raw);
        }
        for (size_t i = 0; i < one->new_count; i++) {
            lk_wire_put_bytes(&message, GROUP_NEW, encode_fragment(&fragments[one->new_first + i], arena));
        }
        lk_wire_put_bytes(&operation, REWRITE_GROUPS, lk_buf_view(&message));
    }
    lk_bytes out = lk_arena_copy(arena, lk_buf_view(&operation));
    lk_buf_deinit(&operation);
    lk_buf_deinit(&message);
    return out;
}

static lk_rc plan_rewrite(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    compaction        *c = (compaction *)change;
    lk_pb_new_version *version = &plan->version;
    outcome            out = {0};
    uint64_t           next = tip->has_fragment_id_max ? (uint64_t)tip->fragment_id_max + 1 : 0;
    lk_rc              rc = lk_fragment_writer_number(&c->writer, next, err);
    if (rc == LK_OK) {
        rc = place_all(c, tip, arena, &out, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    uint64_t flag = out.any_deletion ? LK_FLAG_DELETION_FILES : 0;
    next += written(c);
    plan->operation = encode_operation(c, arena);
    version->replaces_fragments = true;
    version->raw_fragments = out.raw;
    version->raw_fragment_count = out.count;
    version->has_fragment_id_max = next > 0;
    version->fragment_id_max = (uint32_t)(next - (next > 0));
    version->reader_flags = (tip->reader_flags & ~(uint64_t)LK_FLAG_DELETION_FILES) | flag;
    version->writer_flags = (tip->writer_flags & ~(uint64_t)LK_FLAG_DELETION_FILES) | flag;
    return LK_OK;
}

static const lk_change_ops rewrite_ops = {LK_OPERATION_REWRITE, goes_with_rewrite, plan_rewrite};

/* -- compacting --------------------------------------------------------------------------------------------- */

static void add_to_report(const compaction *c, lk_compact_report *report)
{
    report->versions++;
    report->fragments_rewritten += c->old_count;
    report->fragments_written += written(c);
    for (size_t i = 0; i < c->old_count; i++) {
        report->deleted_rows_dropped += c->base.base->fragments[c->old[i].index].deletion.count;
    }
}

/* Rewrites and commits the next few groups; *out stays NULL when there are none. */
static lk_rc compact_some(lk_dataset *version, lk_committer *committer, uint64_t target_rows,
    const lk_write_options *options, lk_compact_report *report, lk_dataset **out, lk_err *err)
{
    const lk_manifest *manifest = version->manifest;
    lk_manifest       *committed = NULL;
    lk_rc              rc = LK_OK;
    compaction         c = {
                .base = {.ops = &rewrite_ops,
                    .env = &version->env,
                    .committer = committer,
                    .options = options,
                    .base = manifest},
                .dataset = version,
    };
    lk_fragment_writer_init(&c.writer, &c.base, manifest->schema, target_rows);
    find_groups(&c, target_rows);
    list_old(&c);
    for (size_t g = 0; g < c.group_count && rc == LK_OK; g++) {
        rc = rewrite_group(&c, &c.groups[g], err);
        err->maybe_applied = false; /* files alone change nothing */
    }
    if (rc == LK_OK && c.group_count > 0) {
        rc = lk_change_commit(&c.base, &committed, err);
    }
    if (rc != LK_OK) {
        lk_change_undo(&c.base, err);
        lk_context(
            err, "compact version %" PRIu64 " of %.*s", manifest->version, LK_FMT(version->env.store->uri));
    } else if (committed != NULL) {
        *out = lk_dataset_new(&version->env, committed, version->files);
        add_to_report(&c, report);
    }
    lk_fragment_writer_deinit(&c.writer);
    lk_change_deinit(&c.base);
    return rc;
}

lk_rc lk_dataset_compact(lk_dataset *base, lk_committer *committer, const lk_compact_options *compact,
    const lk_write_options *options, lk_compact_report *report, lk_dataset **out, lk_err *err)
{
    uint64_t target_rows = compact == NULL || compact->target_rows == 0 ? TARGET_ROWS : compact->target_rows;
    lk_dataset *version = lk_dataset_ref(base);
    *report = (lk_compact_report){.fragments_before = base->manifest->fragment_count};
    lk_rc rc = lk_manifest_check_writable(base->manifest, err);
    if (rc == LK_OK) {
        rc = lk_change_check_files(base->manifest, err);
    }
    if (rc == LK_OK) {
        rc = lk_fragment_writer_check(base->manifest->schema, base->manifest->file_minor, err);
    }
    for (bool more = rc == LK_OK; more;) {
        lk_dataset *next = NULL;
        rc = compact_some(version, committer, target_rows, options, report, &next, err);
        more = rc == LK_OK && next != NULL;
        if (more) {
            lk_dataset_unref(version);
            version = next;
        }
    }
    report->fragments_after = version->manifest->fragment_count;
    report->rows = lk_dataset_row_count(version);
    if (rc == LK_OK) {
        *out = lk_dataset_ref(version);
    }
    lk_dataset_unref(version);
    return rc;
}
