/*
 * compact.c - neighbouring fragments that are small, or have lost many rows, become full ones.
 *
 * Groups of neighbours are rewritten one after another, each as a stream of batches: memory does not depend on how
 * much there is, nor on how wide a row is. There are two kinds of commits:
 *   reserve   takes as many fragment ids as there are groups
 *   rewrite   puts the fragments with these ids in the place of a few groups, the last groups first
 * so that what is done stays done, and what others append meanwhile, with higher ids, stays behind what was there.
 *
 * A version's fragments are in the order of their ids: the reference library puts them so at every commit, and its
 * deletes fail on a table where they are not. So rewritten rows come after the rows of fragments that are left alone.
 *
 * An index goes on answering for the fragments that it covers and that are still there; at the end those that lost some
 * are brought up to date (index_follow.c).
 *
 * A group never grows beyond the target and is rewritten into one fragment, so a second run finds nothing to do.
 */
#include "lance/alter.h"
#include "lance/change.h"
#include "lance/dataset_priv.h"
#include "lance/fragment_same.h"
#include "lance/fragment_write.h"
#include "lance/index.h"
#include "lance/rebase.h"
#include "lance/row_lineage.h"
#include "lance/wire.h"

#include <inttypes.h>
#include <stdlib.h>

enum { TARGET_ROWS = 1 << 20, GROUPS_PER_COMMIT = 16, DELETED_PERCENT = 10 };
enum { BATCH_BYTES = 4 << 20, BATCH_ROWS_MAX = 1 << 16, PROBE_ROWS = 4 };
static const uint64_t TARGET_BYTES = 16ULL << 30;

typedef struct target { /* of a new fragment, at most */
    uint64_t rows, bytes;
    uint64_t first_id; /* of the old ones that may be rewritten */
    uint64_t gather_rows, gather_bytes;
} target;

typedef struct
    group { /* neighbours in a version, and the fragment (of the writer's) that takes their place */
    uint64_t       first_id, id; /* of the first neighbour; of the fragment: reserved for it */
    size_t         first, count;
    size_t         new_first, new_count; /* none when no row is left, else one */
    lk_row_lineage lineage;
} group;

typedef struct group_list {
    group *items; /* ascending */
    size_t count;
} group_list;

typedef struct old_fragment {
    uint64_t id;
    size_t   index, group; /* in base; which group */
    bool     found;
} old_fragment;

typedef struct compaction {
    lk_change          base; /* first: plan_rewrite gets this */
    lk_dataset        *dataset;
    lk_fragment_writer writer;
    group             *groups;
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

static uint64_t stored_bytes(const lk_fragment *fragment)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < fragment->file_count; i++) {
        bytes += fragment->files[i].size_bytes;
    }
    return bytes;
}

/* Fragments are taken by their size and not by their neighbours. */
static bool gathers(const target *most)
{
    return most->gather_rows > 0;
}

static bool is_candidate(const lk_fragment *fragment, const target *most)
{
    if (gathers(most) &&
        (fragment->physical_rows >= most->gather_rows || stored_bytes(fragment) >= most->gather_bytes)) {
        return false;
    }
    return fragment->id >= most->first_id && live_rows(fragment) <= most->rows &&
           stored_bytes(fragment) <= most->bytes &&
           (fragment->physical_rows < most->rows || has_lost_many(fragment));
}

/* The neighbours from `first` on that make one fragment together. */
static size_t count_neighbours(const lk_manifest *manifest, size_t first, const target *most)
{
    uint64_t rows = 0, bytes = 0;
    size_t   at = first;
    for (; at < manifest->fragment_count; at++) {
        const lk_fragment *fragment = &manifest->fragments[at];
        if (!is_candidate(fragment, most) || rows + live_rows(fragment) > most->rows ||
            bytes + stored_bytes(fragment) > most->bytes) {
            break;
        }
        rows += live_rows(fragment);
        bytes += stored_bytes(fragment);
    }
    return at - first;
}

/* A fragment that is alone is rewritten when it has lost many rows, or when its neighbours in front are: it would
 * come before them else. Those that are gathered are rewritten as neighbours of each other, and become one in the next
 * round. */
static group_list find_groups(const lk_manifest *manifest, const target *most, lk_arena *arena)
{
    group_list out = {lk_arena_take(arena, (manifest->fragment_count + 1) * sizeof *out.items), 0};
    bool       rewriting = false;
    for (size_t at = 0; at < manifest->fragment_count;) {
        const lk_fragment *first = &manifest->fragments[at];
        size_t             count = count_neighbours(manifest, at, most);
        rewriting = count > 1 || (count == 1 && (rewriting || has_lost_many(first) || gathers(most)));
        if (rewriting) {
            out.items[out.count++] = (group){.first_id = first->id, .first = at, .count = count};
        }
        at += count == 0 ? 1 : count;
    }
    if (gathers(most) && out.count == 1 && out.items[0].count == 1) { /* all that was small is in this one */
        out.count = 0;
    }
    return out;
}

static int compare_old(const void *a, const void *b)
{
    const old_fragment *left = a, *right = b;
    return (left->id > right->id) - (left->id < right->id);
}

static void list_old(compaction *c)
{
    size_t at = 0;
    for (size_t g = 0; g < c->group_count; g++) {
        c->old_count += c->groups[g].count;
    }
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

/* The bytes of a row as stored, and as read: the more of both. */
static lk_rc row_width(lk_dataset *part, uint64_t *width, lk_err *err)
{
    const lk_manifest *manifest = part->manifest;
    lk_scan_options    options = {.limit = PROBE_ROWS, .batch_rows = PROBE_ROWS, .blobs = LK_BLOBS_STORED};
    lk_batches        *rows = NULL;
    struct ArrowArray  batch = {0};
    uint64_t           bytes = 0;
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        bytes += stored_bytes(&manifest->fragments[i]);
    }
    lk_rc rc = lk_dataset_scan(part, &options, &rows, err);
    if (rc == LK_OK) {
        rc = lk_batches_next(rows, &batch, err);
    }
    if (rc == LK_OK && batch.length > 0) {
        const struct ArrowSchema *schema = &rows->schema;
        uint64_t read = lk_array_range_bytes(schema, &batch, 0, batch.length) / (uint64_t)batch.length;
        uint64_t stored = bytes / manifest->physical_rows;
        *width = 1 + (read > stored ? read : stored);
    }
    lk_array_release(&batch);
    lk_batches_close(rows);
    return rc;
}

static lk_rc copy_rows(compaction *c, lk_dataset *part, size_t batch_rows, lk_err *err)
{
    lk_batches     *rows = NULL;
    lk_scan_options options = {.limit = UINT64_MAX,
        .batch_rows = batch_rows,
        .blobs = LK_BLOBS_STORED,
        .alone = c->base.options != NULL && c->base.options->alone};
    lk_rc           rc = lk_dataset_scan(part, &options, &rows, err);
    if (rc == LK_OK) {
        rc = lk_fragment_writer_write(&c->writer, rows, err);
    }
    lk_batches_close(rows);
    return rc;
}

/* Wide rows are read in small batches, and when memory is short all the same in smaller ones. */
static lk_rc copy_part(compaction *c, lk_dataset *part, lk_err *err)
{
    uint64_t width = 1;
    lk_rc    rc = row_width(part, &width, err);
    uint64_t fit = BATCH_BYTES / width;
    size_t   batch_rows = fit == 0 ? 1 : fit > BATCH_ROWS_MAX ? BATCH_ROWS_MAX : (size_t)fit;
    if (rc == LK_OK) {
        rc = copy_rows(c, part, batch_rows, err);
    }
    while (rc == LK_E_LIMIT && batch_rows > 1) {
        *err = (lk_err){0};
        lk_fragment_writer_abandon(&c->writer);
        batch_rows /= 4;
        rc = copy_rows(c, part, batch_rows == 0 ? 1 : batch_rows, err);
    }
    return rc;
}

static lk_rc rewrite_group(compaction *c, group *g, lk_err *err)
{
    lk_dataset *part = NULL;
    g->new_first = written(c);
    lk_rc rc = part_of(c, g, &part, err);
    for (size_t i = 0; i < g->count && rc == LK_OK; i++) {
        uint64_t all = part->manifest->fragments[i].physical_rows;
        rc = lk_row_lineage_keep(&g->lineage, part, i, 0, all, err);
    }
    if (rc == LK_OK && lk_dataset_row_count(part) > 0) {
        rc = copy_part(c, part, err);
    }
    g->new_count = written(c) - g->new_first;
    lk_dataset_unref(part);
    return rc;
}

/* -- on top of a version ------------------------------------------------------------------------------------ */

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

typedef struct placed {
    uint64_t id;
    lk_bytes raw;
} placed;

static int compare_placed(const void *a, const void *b)
{
    const placed *left = a, *right = b;
    return (left->id > right->id) - (left->id < right->id);
}

typedef struct outcome {
    placed *fragments;
    size_t  count;
} outcome;

/* Old fragments must be as they were; the others stay. */
static lk_rc keep_others(compaction *c, const lk_manifest *tip, outcome *out, lk_err *err)
{
    for (size_t i = 0; i < c->old_count; i++) {
        c->old[i].found = false;
    }
    for (size_t i = 0; i < tip->fragment_count; i++) {
        const lk_fragment *now = &tip->fragments[i];
        old_fragment       wanted = {.id = now->id};
        old_fragment      *old = bsearch(&wanted, c->old, c->old_count, sizeof wanted, compare_old);
        if (old == NULL) {
            out->fragments[out->count++] = (placed){now->id, now->raw};
            continue;
        }
        const lk_fragment *then = &c->base.base->fragments[old->index];
        if (!lk_fragment_same_files(then, now) ||
            !lk_fragment_same_deletion(&then->deletion, &now->deletion)) {
            return changed(now->id, err);
        }
        old->found = true;
    }
    for (size_t i = 0; i < c->old_count; i++) {
        if (!c->old[i].found) {
            return changed(c->old[i].id, err);
        }
    }
    return LK_OK;
}

static const lk_bytes *sort_all(lk_arena *arena, outcome *out)
{
    qsort(out->fragments, out->count, sizeof *out->fragments, compare_placed);
    lk_bytes *raw = lk_arena_take(arena, (out->count + 1) * sizeof *raw);
    for (size_t i = 0; i < out->count; i++) {
        raw[i] = out->fragments[i].raw;
    }
    return raw;
}

enum { REWRITE_GROUPS = 3, GROUP_OLD = 1, GROUP_NEW = 2 };

/* Says in the operation what the group was and is, and places what it is. */
static lk_rc place_group(const compaction *c, const group *one, const lk_manifest *tip, lk_arena *arena,
    lk_pb_new_version *version, outcome *out, lk_buf *operation, lk_err *err)
{
    size_t             count = 0;
    const lk_fragment *fragments = lk_fragment_writer_fragments(&c->writer, &count);
    lk_buf             message = {0};
    lk_rc              rc = LK_OK;
    for (size_t i = 0; i < one->count; i++) {
        lk_wire_put_bytes(&message, GROUP_OLD, c->base.base->fragments[one->first + i].raw);
    }
    for (size_t i = 0; i < one->new_count && rc == LK_OK; i++) {
        lk_fragment fragment = fragments[one->new_first + i];
        rc = lk_row_lineage_finish(&one->lineage, tip, version, arena, &fragment, err);
        placed done = {fragment.id, encode_fragment(&fragment, arena)};
        lk_wire_put_bytes(&message, GROUP_NEW, done.raw);
        out->fragments[out->count++] = done;
    }
    lk_wire_put_bytes(operation, REWRITE_GROUPS, lk_buf_view(&message));
    lk_buf_deinit(&message);
    return rc;
}

static lk_rc plan_rewrite(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    compaction        *c = (compaction *)change;
    lk_pb_new_version *version = &plan->version;
    outcome            out = {0};
    out.fragments = lk_arena_take(arena, (tip->fragment_count + c->group_count + 1) * sizeof *out.fragments);
    lk_buf operation = {0};
    lk_rc  rc = keep_others(c, tip, &out, err);
    for (size_t g = 0; g < c->group_count && rc == LK_OK; g++) {
        rc = place_group(c, &c->groups[g], tip, arena, version, &out, &operation, err);
    }
    plan->operation = lk_arena_copy(arena, lk_buf_view(&operation));
    version->replaces_fragments = true;
    version->raw_fragments = sort_all(arena, &out);
    version->raw_fragment_count = out.count;
    lk_buf_deinit(&operation);
    return rc;
}

static const lk_change_ops rewrite_ops = {LK_OPERATION_REWRITE, lk_rebase_keeps_rows, plan_rewrite};

/* -- reserving ids ------------------------------------------------------------------------------------------- */

typedef struct reservation {
    lk_change base; /* first: plan_reserve gets this */
    uint32_t  count;
} reservation;

static bool goes_with_reserve(lk_operation other)
{
    return other != LK_OPERATION_UNKNOWN && other != LK_OPERATION_OVERWRITE && other != LK_OPERATION_RESTORE;
}

static lk_rc plan_reserve(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    enum { RESERVE_COUNT = 1 };
    const reservation *r = (const reservation *)change;
    uint64_t           next = tip->has_fragment_id_max ? (uint64_t)tip->fragment_id_max + 1 : 0;
    lk_buf             message = {0};
    if (next + r->count > UINT32_MAX) {
        return lk_fail(err, LK_E_LIMIT, "fragment ids of the table are used up");
    }
    lk_wire_put_u64(&message, RESERVE_COUNT, r->count);
    plan->operation = lk_arena_copy(arena, lk_buf_view(&message));
    plan->version.has_fragment_id_max = true;
    plan->version.fragment_id_max = (uint32_t)(next + r->count - 1);
    lk_buf_deinit(&message);
    return LK_OK;
}

static const lk_change_ops reserve_ops = {LK_OPERATION_RESERVE_FRAGMENTS, goes_with_reserve, plan_reserve};

/* The new version's highest ids are ours. */
static lk_rc reserve(
    lk_dataset *version, lk_committer *committer, size_t count, lk_dataset **out, lk_err *err)
{
    lk_manifest *committed = NULL;
    reservation  r = {
         .base = {.ops = &reserve_ops,
             .env = &version->env,
             .committer = committer,
             .base = version->manifest},
         .count = (uint32_t)count,
    };
    lk_rc rc = lk_change_commit(&r.base, &committed, err);
    if (rc == LK_OK) {
        *out = lk_dataset_new(&version->env, committed, version->files);
    } else {
        lk_change_undo(&r.base, err);
    }
    lk_change_deinit(&r.base);
    return rc;
}

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

/* The groups lie in this version where they lay in the one they were found in, or further to the front. */
static lk_rc find_again(compaction *c, lk_err *err)
{
    const lk_manifest *base = c->base.base;
    size_t             at = 0;
    for (size_t g = 0; g < c->group_count; g++) {
        group *one = &c->groups[g];
        while (at < base->fragment_count && base->fragments[at].id != one->first_id) {
            at++;
        }
        if (one->count > base->fragment_count - at) {
            return changed(one->first_id, err);
        }
        one->first = at;
        at += one->count;
    }
    return LK_OK;
}

static void number_fragments(compaction *c)
{
    size_t       count = 0;
    lk_fragment *fragments = lk_fragment_writer_fragments(&c->writer, &count);
    for (size_t g = 0; g < c->group_count; g++) {
        LK_ASSERT(c->groups[g].new_count <= 1); /* a group fits one fragment */
        if (c->groups[g].new_count == 1) {
            fragments[c->groups[g].new_first].id = c->groups[g].id;
        }
    }
}

/* Rewrites these groups of `version` and commits. */
static lk_rc rewrite_groups(lk_dataset *version, lk_committer *committer, const target *most, group *groups,
    size_t count, const lk_write_options *options, lk_compact_report *report, lk_dataset **out, lk_err *err)
{
    lk_manifest *committed = NULL;
    compaction   c = {
          .base = {.ops = &rewrite_ops,
              .env = &version->env,
              .committer = committer,
              .options = options,
              .base = version->manifest},
          .dataset = version,
          .groups = groups,
          .group_count = count,
    };
    lk_fragment_writer_init(&c.writer, &c.base, version->manifest->schema, most->rows);
    lk_rc rc = find_again(&c, err);
    if (rc == LK_OK) {
        list_old(&c);
    }
    for (size_t g = 0; g < count && rc == LK_OK; g++) {
        rc = rewrite_group(&c, &groups[g], err);
        err->maybe_applied = false; /* files alone change nothing */
    }
    if (rc == LK_OK) {
        number_fragments(&c);
        rc = lk_change_commit(&c.base, &committed, err);
    }
    if (rc == LK_OK) {
        *out = lk_dataset_new(&version->env, committed, version->files);
        add_to_report(&c, report);
    } else {
        lk_change_undo(&c.base, err);
    }
    for (size_t g = 0; g < count; g++) {
        lk_row_lineage_deinit(&groups[g].lineage);
    }
    lk_fragment_writer_deinit(&c.writer);
    lk_change_deinit(&c.base);
    return rc;
}

static void move_on(lk_dataset **version, lk_dataset *next)
{
    lk_dataset_unref(*version);
    *version = next;
}

/* Reserves an id for every group of the newest version. What is appended just before gets ids as well. */
static lk_rc reserve_for_all(lk_dataset **version, lk_committer *committer, const target *most,
    lk_arena *arena, group_list *groups, lk_compact_report *report, lk_err *err)
{
    *groups = find_groups((*version)->manifest, most, arena);
    for (size_t reserved = 0; groups->count > reserved;) {
        lk_dataset *next = NULL;
        reserved = groups->count;
        lk_rc rc = reserve(*version, committer, reserved, &next, err);
        if (rc != LK_OK) {
            return rc;
        }
        report->versions++;
        move_on(version, next);
        *groups = find_groups(next->manifest, most, arena);
        for (size_t g = 0; g < groups->count; g++) {
            groups->items[g].id = next->manifest->fragment_id_max + 1 - reserved + g;
        }
    }
    return LK_OK;
}

/* One round: every group there is. *version moves on to the newest. */
static lk_rc compact_groups(lk_dataset **version, lk_committer *committer, const target *most,
    const lk_write_options *options, lk_compact_report *report, bool *more, lk_err *err)
{
    lk_arena   arena = {0};
    group_list groups = {0};
    lk_rc      rc = reserve_for_all(version, committer, most, &arena, &groups, report, err);
    *more = groups.count > 0;
    for (size_t left = groups.count; left > 0 && rc == LK_OK;) {
        lk_dataset *next = NULL;
        size_t      count = left < GROUPS_PER_COMMIT ? left : GROUPS_PER_COMMIT;
        left -= count;
        rc = rewrite_groups(
            *version, committer, most, &groups.items[left], count, options, report, &next, err);
        if (rc == LK_OK) {
            move_on(version, next);
        }
    }
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_dataset_compact(lk_dataset *base, lk_committer *committer, const lk_compact_options *compact,
    const lk_write_options *options, lk_compact_report *report, lk_dataset **out, lk_err *err)
{
    target most = {
        .rows = compact == NULL || compact->target_rows == 0 ? TARGET_ROWS : compact->target_rows,
        .bytes = compact == NULL || compact->target_bytes == 0 ? TARGET_BYTES : compact->target_bytes,
        .first_id = compact == NULL ? 0 : compact->first_id,
        .gather_rows = compact == NULL ? 0 : compact->gather_rows,
        .gather_bytes = compact == NULL ? 0 : compact->gather_bytes,
    };
    lk_dataset *version = lk_dataset_ref(base);
    *report = (lk_compact_report){.fragments_before = base->manifest->fragment_count};
    lk_rc rc = lk_manifest_check_writable(base->manifest, err);
    if (rc == LK_OK) {
        rc = lk_change_check_files(base->manifest, err);
    }
    if (rc == LK_OK) {
        rc = lk_fragment_writer_check(base->manifest->schema, base->manifest->file_minor, err);
    }
    for (bool more = true; more && rc == LK_OK;) { /* groups may have become neighbours */
        rc = compact_groups(&version, committer, &most, options, report, &more, err);
    }
    if (rc == LK_OK && report->versions > 0) {
        rc = lk_index_follow(base, &version, committer, options, &report->versions, err);
    }
    if (rc != LK_OK) {
        lk_context(err, "compact version %" PRIu64 " of %.*s", version->manifest->version,
            LK_FMT(version->env.store->uri));
    }
    report->fragments_after = version->manifest->fragment_count;
    report->rows = lk_dataset_row_count(version);
    if (rc == LK_OK) {
        *out = lk_dataset_ref(version);
    }
    lk_dataset_unref(version);
    return rc;
}
