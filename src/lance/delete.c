/*
 * delete.c - rows go by being listed in deletion files; data files stay as they are.
 *
 * A fragment's deletion file names all its deleted rows, so it is made from what the newest version has and what is
 * to be deleted. A fragment whose rows are all deleted leaves the version. When another's commit comes first, the
 * files are made again only for the fragments that it touched.
 */
#include "arrow/schema.h"
#include "base/limits.h"
#include "lance/alter.h"
#include "lance/change.h"
#include "lance/dataset_priv.h"
#include "lance/deletion_write.h"
#include "lance/fragment_same.h"
#include "lance/wire.h"

#include <inttypes.h>
#include <roaring/roaring.h>
#include <stdlib.h>

typedef struct touched {         /* a fragment that loses rows */
    const lk_fragment *fragment; /* in base */
    size_t             index;
    roaring_bitmap_t  *rows; /* to be deleted: none of them is in base; owned */
    bool             made; /* the rest is decided, on top of a fragment with the deletion file `on_top_of` */
    lk_deletion_file on_top_of;
    bool             removed; /* no row is left */
    lk_deletion_file file;
    bool             found; /* in this try's tip */
} touched;

typedef struct delete_change {
    lk_change   base; /* first: plan_delete gets this */
    lk_dataset *dataset;
    touched    *fragments; /* ascending by id */
    size_t      count;
    lk_bytes    text;
    bool        moved; /* rows changed meanwhile: choosing them anew may help */
} delete_change;

/* -- which rows ---------------------------------------------------------------------------------------- */

static lk_rc no_such_row(uint64_t fragment, uint64_t offset, lk_err *err)
{
    return lk_refuse(
        err, LK_E_INVALID_REQUEST, "there is no row %" PRIu64 " of fragment %" PRIu64, offset, fragment);
}

static void add_bits(roaring_bitmap_t *to, const lk_deletion *deletion, uint64_t rows)
{
    enum { RUN = 1024 };
    uint32_t        offsets[RUN];
    size_t          size = 0;
    const uint64_t *bits = lk_deletion_bits(deletion);
    for (uint64_t index = 0; index <= rows / 64; index++) {
        for (uint64_t word = bits[index]; word != 0; word &= word - 1) {
            offsets[size++] = (uint32_t)(index * 64 + (uint64_t)__builtin_ctzll(word));
        }
        if (size > RUN - 64 || index == rows / 64) {
            roaring_bitmap_add_many(to, size, offsets);
            size = 0;
        }
    }
}

static roaring_bitmap_t *bitmap_of(const lk_deletion *deletion, uint64_t rows)
{
    roaring_bitmap_t *out = roaring_bitmap_create();
    LK_ASSERT(out != NULL);
    if (deletion != NULL) {
        add_bits(out, deletion, rows);
    }
    return out;
}

/* Takes fragment number `index` in when it has rows to lose. */
static lk_rc touch(delete_change *d, size_t index, const roaring_bitmap_t *rows, lk_err *err)
{
    const lk_fragment *fragment = &d->base.base->fragments[index];
    const lk_deletion *deletion = NULL;
    if (roaring_bitmap_maximum(rows) >= fragment->physical_rows) {
        return no_such_row(fragment->id, roaring_bitmap_maximum(rows), err);
    }
    lk_rc rc = lk_dataset_deletion(d->dataset, index, &deletion, err);
    if (rc != LK_OK) {
        return rc;
    }
    roaring_bitmap_t *old = bitmap_of(deletion, fragment->physical_rows);
    roaring_bitmap_t *left = roaring_bitmap_andnot(rows, old);
    roaring_bitmap_free(old);
    if (roaring_bitmap_is_empty(left)) {
        roaring_bitmap_free(left);
        return LK_OK;
    }
    d->fragments[d->count++] = (touched){.fragment = fragment, .index = index, .rows = left};
    return LK_OK;
}

typedef struct place {
    uint64_t id;
    size_t   index;
} place;

static int compare_places(const void *a, const void *b)
{
    const place *left = a, *right = b;
    return (left->id > right->id) - (left->id < right->id);
}

/* The fragments of base by id: a table's order is another. */
static place *places_of(const lk_manifest *manifest, lk_arena *arena)
{
    place *places = lk_arena_take(arena, (manifest->fragment_count + 1) * sizeof *places);
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        places[i] = (place){manifest->fragments[i].id, i};
    }
    qsort(places, manifest->fragment_count, sizeof *places, compare_places);
    return places;
}

static lk_rc touch_all(delete_change *d, lk_row_set *rows, lk_err *err)
{
    size_t                  count = 0;
    const lk_manifest      *base = d->base.base;
    const lk_fragment_rows *chosen = lk_row_set_fragments(rows, &count);
    const place            *places = places_of(base, &d->base.arena);
    d->fragments = lk_arena_take(&d->base.arena, (count + 1) * sizeof *d->fragments);
    for (size_t i = 0; i < count; i++) {
        place        wanted = {chosen[i].fragment_id, 0};
        const place *found = bsearch(&wanted, places, base->fragment_count, sizeof *places, compare_places);
        if (found == NULL) {
            return no_such_row(wanted.id, roaring_bitmap_minimum(chosen[i].rows), err);
        }
        lk_rc rc = touch(d, found->index, chosen[i].rows, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

/* -- on top of a version --------------------------------------------------------------------------------- */

static bool goes_with_delete(lk_operation other)
{
    switch (other) {
    case LK_OPERATION_APPEND:
    case LK_OPERATION_DELETE: /* these four if our fragments are as they were: plan_delete looks */
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

static lk_rc moved(delete_change *d, const lk_fragment *fragment, const char *how, lk_err *err)
{
    d->moved = true;
    lk_rc rc = lk_fail(err, LK_E_CONFLICT, "fragment %" PRIu64 " %s", fragment->id, how);
    lk_detail(err, "rows that were to be deleted %s meanwhile", how);
    return rc;
}

/* The rows that are deleted in tip's fragment already; *out is the caller's. */
static lk_rc old_rows(
    delete_change *d, const touched *t, const lk_fragment *now, roaring_bitmap_t **out, lk_err *err)
{
    const lk_deletion *known = NULL;
    lk_deletion       *read = NULL;
    lk_rc              rc = LK_OK;
    if (lk_fragment_same_deletion(&t->fragment->deletion, &now->deletion)) {
        rc = lk_dataset_deletion(d->dataset, t->index, &known, err);
    } else if (now->deletion.kind == LK_DELETION_NONE || now->deletion.base != NULL) {
        return moved(d, now, "were changed", err);
    } else {
        rc = lk_deletion_read(d->base.env->store, now, &read, err);
        known = read;
    }
    if (rc == LK_OK) {
        *out = bitmap_of(known, now->physical_rows);
    }
    lk_deletion_close(read);
    return rc;
}

/* Decides what becomes of the fragment and writes its deletion file. */
static lk_rc make_file(delete_change *d, touched *t, const lk_fragment *now, lk_err *err)
{
    lk_change        *change = &d->base;
    roaring_bitmap_t *all = NULL;
    if (t->made && lk_fragment_same_deletion(&t->on_top_of, &now->deletion)) {
        return LK_OK; /* an earlier try did */
    }
    if (!lk_fragment_same_files(t->fragment, now)) {
        return moved(d, now, "were changed", err);
    }
    lk_rc rc = old_rows(d, t, now, &all, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (roaring_bitmap_intersect(all, t->rows)) {
        roaring_bitmap_free(all);
        return moved(d, now, "were deleted or updated", err);
    }
    roaring_bitmap_or_inplace(all, t->rows);
    if (t->made && !t->removed) {
        lk_change_discard(change, lk_deletion_key(now->id, &t->file, &change->arena));
    }
    t->made = true;
    t->on_top_of = now->deletion;
    t->removed = roaring_bitmap_get_cardinality(all) == now->physical_rows;
    if (!t->removed) {
        t->file = lk_deletion_name(all, change->base->version, change->env->random);
        lk_change_wrote(change, lk_deletion_key(now->id, &t->file, &change->arena));
        rc = lk_deletion_write(change->env->store, now->id, &t->file, all, err);
    }
    roaring_bitmap_free(all);
    return rc;
}

static touched *find_touched(const delete_change *d, uint64_t id)
{
    size_t low = 0, high = d->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (d->fragments[middle].fragment->id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < d->count && d->fragments[low].fragment->id == id ? &d->fragments[low] : NULL;
}

/* What of the new version is being put together. */
typedef struct outcome {
    lk_buf    removed; /* ids as packed varints */
    lk_buf    updated; /* the transaction's list */
    lk_bytes *raw;
    size_t    count;
} outcome;

enum { UPDATED_FRAGMENTS = 1, DELETED_FRAGMENT_IDS = 2, PREDICATE = 3 }; /* of Delete */

static lk_rc plan_fragment(
    delete_change *d, const lk_fragment *now, lk_arena *arena, outcome *out, lk_err *err)
{
    touched *t = find_touched(d, now->id);
    if (t == NULL) {
        out->raw[out->count++] = now->raw;
        return LK_OK;
    }
    lk_rc rc = make_file(d, t, now, err);
    t->found = true;
    if (rc != LK_OK) {
        return rc;
    }
    if (t->removed) {
        lk_wire_put_u64(&out->removed, DELETED_FRAGMENT_IDS, now->id);
        return LK_OK;
    }
    lk_buf message = {0};
    rc = lk_pb_fragment_with_deletion(now, &t->file, &message, err);
    if (rc == LK_OK) {
        lk_bytes raw = lk_arena_copy(arena, lk_buf_view(&message));
        lk_wire_put_bytes(&out->updated, UPDATED_FRAGMENTS, raw);
        out->raw[out->count++] = raw;
    }
    lk_buf_deinit(&message);
    return rc;
}

/* All touched fragments must still be there. */
static lk_rc check_found(delete_change *d, lk_err *err)
{
    for (size_t i = 0; i < d->count; i++) {
        if (!d->fragments[i].found) {
            return moved(d, d->fragments[i].fragment, "were deleted or moved", err);
        }
    }
    return LK_OK;
}

static lk_rc plan_fragments(
    delete_change *d, const lk_manifest *tip, lk_arena *arena, outcome *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    out->raw = lk_arena_take(arena, (tip->fragment_count + 1) * sizeof *out->raw);
    for (size_t i = 0; i < d->count; i++) {
        d->fragments[i].found = false;
    }
    for (size_t i = 0; i < tip->fragment_count && rc == LK_OK; i++) {
        rc = plan_fragment(d, &tip->fragments[i], arena, out, err);
    }
    return rc == LK_OK ? check_found(d, err) : rc;
}

static lk_rc plan_delete(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    delete_change     *d = (delete_change *)change;
    lk_pb_new_version *version = &plan->version;
    outcome            out = {0};
    lk_rc              rc = plan_fragments(d, tip, arena, &out, err);
    if (rc == LK_OK) {
        lk_buf_append_bytes(&out.updated, lk_buf_view(&out.removed));
        if (d->text.size > 0) {
            lk_wire_put_bytes(&out.updated, PREDICATE, d->text);
        }
        plan->operation = lk_arena_copy(arena, lk_buf_view(&out.updated));
        version->replaces_fragments = true;
        version->raw_fragments = out.raw;
        version->raw_fragment_count = out.count;
    }
    lk_buf_deinit(&out.removed);
    lk_buf_deinit(&out.updated);
    return rc;
}

static const lk_change_ops delete_ops = {LK_OPERATION_DELETE, goes_with_delete, plan_delete};

/* -- deleting -------------------------------------------------------------------------------------------- */

static void make_report(const delete_change *d, lk_delete_report *report)
{
    for (size_t i = 0; i < d->count; i++) {
        report->rows += roaring_bitmap_get_cardinality(d->fragments[i].rows);
        report->fragments_changed += !d->fragments[i].removed;
        report->fragments_removed += d->fragments[i].removed;
    }
}

static lk_rc delete_once(
    delete_change *d, lk_row_set *rows, lk_delete_report *report, lk_dataset **out, lk_err *err)
{
    const lk_manifest *base = d->base.base;
    lk_manifest       *committed = NULL;
    lk_rc              rc = lk_manifest_check_writable(base, err);
    if (rc == LK_OK) {
        rc = touch_all(d, rows, err);
    }
    if (rc == LK_OK && d->count > 0) {
        rc = lk_change_commit(&d->base, &committed, err);
    }
    if (rc == LK_OK) {
        *out = d->count == 0 ? lk_dataset_ref(d->dataset)
                             : lk_dataset_new(&d->dataset->env, committed, d->dataset->files);
        make_report(d, report);
    } else {
        lk_change_undo(&d->base, err);
        lk_context(
            err, "delete from version %" PRIu64 " of %.*s", base->version, LK_FMT(d->base.env->store->uri));
    }
    for (size_t i = 0; i < d->count; i++) {
        roaring_bitmap_free(d->fragments[i].rows);
    }
    lk_change_deinit(&d->base);
    return rc;
}

static delete_change new_delete(
    lk_dataset *base, lk_committer *committer, lk_bytes text, const lk_write_options *options)
{
    return (delete_change){
        .base = {.ops = &delete_ops,
            .env = &base->env,
            .committer = committer,
            .options = options,
            .base = base->manifest},
        .dataset = base,
        .text = text,
    };
}

lk_rc lk_dataset_delete_rows(lk_dataset *base, lk_committer *committer, lk_row_set *rows, lk_bytes text,
    const lk_write_options *options, lk_delete_report *report, lk_dataset **out, lk_err *err)
{
    lk_delete_report ignored;
    delete_change    d = new_delete(base, committer, text, options);
    report = report == NULL ? &ignored : report;
    *report = (lk_delete_report){0};
    return delete_once(&d, rows, report, out, err);
}

/* -- by choice ------------------------------------------------------------------------------------------- */

static lk_rc choose_and_delete(lk_dataset *base, lk_committer *committer, const lk_row_selector *selector,
    const lk_write_options *options, lk_delete_report *report, bool *again, lk_dataset **out, lk_err *err)
{
    lk_row_set *rows = lk_row_set_new();
    *again = false;
    lk_rc rc = selector->select(selector->context, base, rows, err);
    if (rc == LK_OK) {
        delete_change d = new_delete(base, committer, selector->text, options);
        rc = delete_once(&d, rows, report, out, err);
        *again = rc == LK_E_CONFLICT && d.moved && !err->maybe_applied;
    }
    lk_row_set_free(rows);
    return rc;
}

lk_rc lk_dataset_delete(lk_dataset *base, lk_committer *committer, const lk_row_selector *selector,
    const lk_write_options *options, lk_delete_report *report, lk_dataset **out, lk_err *err)
{
    lk_delete_report ignored;
    lk_dataset      *version = lk_dataset_ref(base);
    lk_rc            rc = LK_OK;
    report = report == NULL ? &ignored : report;
    for (unsigned attempt = 0;; attempt++) {
        bool again = false;
        *report = (lk_delete_report){0};
        rc = choose_and_delete(version, committer, selector, options, report, &again, out, err);
        if (!again || !committer->stands_alone || attempt + 1 == LK_COMMIT_ATTEMPTS_MAX) {
            break;
        }
        *err = (lk_err){0};
        lk_dataset_unref(version);
        version = NULL;
        rc = lk_dataset_open(&base->env, 0, &version, err);
        if (rc != LK_OK) {
            break;
        }
    }
    lk_dataset_unref(version);
    return rc;
}

static lk_rc add_rows(lk_batches *scan, lk_row_set *rows, lk_err *err)
{
    for (;;) {
        struct ArrowArray batch = {0};
        lk_rc             rc = lk_batches_next(scan, &batch, err);
        if (rc != LK_OK || batch.release == NULL) {
            return rc;
        }
        const struct ArrowArray *ids = batch.children[0];
        lk_row_set_add(
            rows, (const uint64_t *)ids->buffers[1] + ids->offset + batch.offset, (size_t)batch.length);
        lk_array_release(&batch);
    }
}

static lk_rc check_columns(const lk_predicate_selector *selector, const lk_dataset *version, lk_err *err)
{
    lk_err difference = {0};
    if (lk_schema_compare(selector->schema, lk_dataset_schema(version), LK_SCHEMA_APPEND, &difference) ==
        LK_OK) {
        return LK_OK;
    }
    lk_rc rc = lk_fail(err, LK_E_CONFLICT, "%s", difference.detail);
    lk_detail(err, "the table's columns were changed meanwhile");
    return rc;
}

static lk_rc select_by_predicate(void *context, lk_dataset *version, lk_row_set *rows, lk_err *err)
{
    const lk_predicate_selector *selector = context;
    lk_batches                  *scan = NULL;
    size_t                       no_column = 0;
    lk_scan_options              options = {
                     .columns = &no_column,
                     .meta = LK_META_ROW_ADDRESS,
                     .predicate = selector->predicate,
                     .limit = UINT64_MAX,
                     .unordered = true,
                     .cancel = selector->cancel,
    };
    lk_rc rc = check_columns(selector, version, err);
    if (rc == LK_OK) {
        rc = lk_dataset_scan(version, &options, &scan, err);
    }
    if (rc == LK_OK) {
        rc = add_rows(scan, rows, err);
    }
    lk_batches_close(scan);
    return rc;
}

void lk_predicate_selector_init(lk_predicate_selector *selector, lk_dataset *base,
    const lk_predicate *predicate, lk_bytes text, lk_cancel *cancel)
{
    *selector = (lk_predicate_selector){
        .base = {select_by_predicate, selector, text},
        .schema = lk_dataset_schema(base),
        .predicate = predicate,
        .cancel = cancel,
    };
}
