/*
 * row_loss.c - see row_loss.h.
 */
#include "lance/row_loss.h"

#include "lance/dataset_priv.h"
#include "lance/deletion_write.h"
#include "lance/fragment_same.h"
#include "lance/wire.h"

#include <inttypes.h>
#include <roaring/roaring.h>
#include <stdlib.h>

typedef struct lk_touched {      /* a fragment that loses rows */
    const lk_fragment *fragment; /* in base */
    size_t             index;
    roaring_bitmap_t  *rows; /* to be deleted: none of them is in base; owned */
    bool             made; /* the rest is decided, on top of a fragment with the deletion file `on_top_of` */
    lk_deletion_file on_top_of;
    bool             removed; /* no row is left */
    lk_deletion_file file;
    bool             found; /* in this try's tip */
} touched;

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
static lk_rc touch(lk_row_loss *loss, size_t index, const roaring_bitmap_t *rows, lk_err *err)
{
    const lk_fragment *fragment = &loss->change->base->fragments[index];
    const lk_deletion *deletion = NULL;
    if (roaring_bitmap_maximum(rows) >= fragment->physical_rows) {
        return no_such_row(fragment->id, roaring_bitmap_maximum(rows), err);
    }
    lk_rc rc = lk_dataset_deletion(loss->dataset, index, &deletion, err);
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
    loss->fragments[loss->count++] = (touched){.fragment = fragment, .index = index, .rows = left};
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

static lk_rc touch_all(lk_row_loss *loss, lk_row_set *rows, lk_err *err)
{
    size_t                  count = 0;
    const lk_manifest      *base = loss->change->base;
    const lk_fragment_rows *chosen = lk_row_set_fragments(rows, &count);
    const place            *places = places_of(base, &loss->change->arena);
    loss->fragments = lk_arena_take(&loss->change->arena, (count + 1) * sizeof *loss->fragments);
    for (size_t i = 0; i < count; i++) {
        place        wanted = {chosen[i].fragment_id, 0};
        const place *found = bsearch(&wanted, places, base->fragment_count, sizeof *places, compare_places);
        if (found == NULL) {
            return no_such_row(wanted.id, roaring_bitmap_minimum(chosen[i].rows), err);
        }
        lk_rc rc = touch(loss, found->index, chosen[i].rows, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

/* -- on top of a version --------------------------------------------------------------------------------- */

static lk_rc moved(lk_row_loss *loss, const lk_fragment *fragment, const char *how, lk_err *err)
{
    loss->moved = true;
    lk_rc rc = lk_fail(err, LK_E_CONFLICT, "fragment %" PRIu64 " %s", fragment->id, how);
    lk_detail(err, "rows that were to be deleted %s meanwhile", how);
    return rc;
}

/* The rows that are deleted in tip's fragment already; *out is the caller's. */
static lk_rc old_rows(
    lk_row_loss *loss, const touched *t, const lk_fragment *now, roaring_bitmap_t **out, lk_err *err)
{
    const lk_deletion *known = NULL;
    lk_deletion       *read = NULL;
    lk_rc              rc = LK_OK;
    if (lk_fragment_same_deletion(&t->fragment->deletion, &now->deletion)) {
        rc = lk_dataset_deletion(loss->dataset, t->index, &known, err);
    } else if (now->deletion.kind == LK_DELETION_NONE || now->deletion.base != NULL) {
        return moved(loss, now, "were changed", err);
    } else {
        rc = lk_deletion_read(loss->change->env->store, now, &read, err);
        known = read;
    }
    if (rc == LK_OK) {
        *out = bitmap_of(known, now->physical_rows);
    }
    lk_deletion_close(read);
    return rc;
}

/* Decides what becomes of the fragment and writes its deletion file. */
static lk_rc make_file(lk_row_loss *loss, touched *t, const lk_fragment *now, lk_err *err)
{
    lk_change        *change = loss->change;
    roaring_bitmap_t *all = NULL;
    if (t->made && lk_fragment_same_deletion(&t->on_top_of, &now->deletion)) {
        return LK_OK; /* an earlier try did */
    }
    if (!lk_fragment_same_files(t->fragment, now)) {
        return moved(loss, now, "were changed", err);
    }
    lk_rc rc = old_rows(loss, t, now, &all, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (roaring_bitmap_intersect(all, t->rows)) {
        roaring_bitmap_free(all);
        return moved(loss, now, "were deleted or updated", err);
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

static touched *find_touched(const lk_row_loss *loss, uint64_t id)
{
    size_t low = 0, high = loss->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (loss->fragments[middle].fragment->id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < loss->count && loss->fragments[low].fragment->id == id ? &loss->fragments[low] : NULL;
}

/* What of the new version is being put together. */
typedef struct outcome {
    lk_row_loss_fields fields;
    lk_buf            *operation;
    lk_bytes          *raw;
    size_t             count;
} outcome;

static lk_rc plan_fragment(
    lk_row_loss *loss, const lk_fragment *now, lk_arena *arena, outcome *out, lk_err *err)
{
    touched *t = find_touched(loss, now->id);
    if (t == NULL) {
        out->raw[out->count++] = now->raw;
        return LK_OK;
    }
    lk_rc rc = make_file(loss, t, now, err);
    t->found = true;
    if (rc != LK_OK) {
        return rc;
    }
    if (t->removed) {
        lk_wire_put_u64(out->operation, out->fields.removed, now->id);
        return LK_OK;
    }
    lk_buf message = {0};
    rc = lk_pb_fragment_with_deletion(now, &t->file, &message, err);
    if (rc == LK_OK) {
        lk_bytes raw = lk_arena_copy(arena, lk_buf_view(&message));
        lk_wire_put_bytes(out->operation, out->fields.updated, raw);
        out->raw[out->count++] = raw;
    }
    lk_buf_deinit(&message);
    return rc;
}

/* All touched fragments must still be there. */
static lk_rc check_found(lk_row_loss *loss, lk_err *err)
{
    for (size_t i = 0; i < loss->count; i++) {
        if (!loss->fragments[i].found) {
            return moved(loss, loss->fragments[i].fragment, "were deleted or moved", err);
        }
    }
    return LK_OK;
}

static lk_rc plan_fragments(
    lk_row_loss *loss, const lk_manifest *tip, lk_arena *arena, outcome *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    out->raw = lk_arena_take(arena, (tip->fragment_count + 1) * sizeof *out->raw);
    for (size_t i = 0; i < loss->count; i++) {
        loss->fragments[i].found = false;
    }
    for (size_t i = 0; i < tip->fragment_count && rc == LK_OK; i++) {
        rc = plan_fragment(loss, &tip->fragments[i], arena, out, err);
    }
    return rc == LK_OK ? check_found(loss, err) : rc;
}

lk_rc lk_row_loss_init(
    lk_row_loss *loss, lk_change *change, lk_dataset *dataset, lk_row_set *rows, lk_err *err)
{
    *loss = (lk_row_loss){.change = change, .dataset = dataset};
    return touch_all(loss, rows, err);
}

void lk_row_loss_deinit(lk_row_loss *loss)
{
    for (size_t i = 0; i < loss->count; i++) {
        roaring_bitmap_free(loss->fragments[i].rows);
    }
    *loss = (lk_row_loss){0};
}

lk_rc lk_row_loss_plan(lk_row_loss *loss, const lk_manifest *tip, lk_row_loss_fields fields, lk_arena *arena,
    lk_change_plan *plan, lk_buf *operation, lk_err *err)
{
    lk_pb_new_version *version = &plan->version;
    outcome            out = {.fields = fields, .operation = operation};
    lk_rc              rc = plan_fragments(loss, tip, arena, &out, err);
    if (rc == LK_OK) {
        version->replaces_fragments = true;
        version->raw_fragments = out.raw;
        version->raw_fragment_count = out.count;
    }
    return rc;
}

void lk_row_loss_count(const lk_row_loss *loss, uint64_t *rows, uint64_t *changed, uint64_t *removed)
{
    *rows = *changed = *removed = 0;
    for (size_t i = 0; i < loss->count; i++) {
        *rows += roaring_bitmap_get_cardinality(loss->fragments[i].rows);
        *changed += !loss->fragments[i].removed;
        *removed += loss->fragments[i].removed;
    }
}
