/*
 * index_keep.c - what a version's indices still say of the version that follows it.
 */
#include "lance/index_priv.h"
#include "lance/roaring_read.h"
#include "lance/wire.h"

#include <roaring/roaring.h>
#include <stdlib.h>

typedef struct keeping {
    const lk_manifest    *from, *next;
    const lk_index_moves *moves;     /* NULL: none */
    const lk_fragment   **followers; /* by number in from: the same fragment in next; NULL: gone */
    lk_arena             *arena;
    lk_err               *err;
} keeping;

/* -- fragments ------------------------------------------------------------------------------------------- */
static int by_id(const void *a, const void *b)
{
    uint64_t left = (*(const lk_fragment *const *)a)->id, right = (*(const lk_fragment *const *)b)->id;
    return (left > right) - (left < right);
}

static const lk_fragment **sorted(const lk_manifest *manifest, lk_arena *arena)
{
    const lk_fragment **out = lk_arena_take(arena, (manifest->fragment_count + 1) * sizeof(lk_fragment *));
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        out[i] = &manifest->fragments[i];
    }
    qsort(out, manifest->fragment_count, sizeof *out, by_id);
    return out;
}

static void find_followers(keeping *k)
{
    const lk_fragment **old = sorted(k->from, k->arena), **new = sorted(k->next, k->arena);
    k->followers = lk_arena_take(k->arena, (k->from->fragment_count + 1) * sizeof(lk_fragment *));
    for (size_t i = 0, at = 0; i < k->from->fragment_count; i++) {
        while (at < k->next->fragment_count && new[at]->id < old[i]->id) {
            at++;
        }
        if (at < k->next->fragment_count && new[at]->id == old[i]->id) {
            k->followers[old[i] - k->from->fragments] = new[at];
        }
    }
}

static bool same_place(const lk_fragment *old, const lk_fragment *new, int32_t field)
{
    size_t  old_file = 0, new_file = 0;
    int32_t old_column = -1, new_column = -1;
    bool    was = lk_fragment_find(old, field, &old_file, &old_column);
    bool    is = lk_fragment_find(new, field, &new_file, &new_column);
    if (!was || !is) {
        return was == is;
    }
    const lk_data_file *a = &old->files[old_file], *b = &new->files[new_file];
    bool                same_base = (a->base == NULL) == (b->base == NULL) &&
                     (a->base == NULL || lk_bytes_equal(a->base->path, b->base->path));
    return same_base && old_column == new_column && lk_bytes_equal(a->path, b->path);
}

/* Whether what was indexed of a fragment is still so. A column of structs is what its leaves are. */
static bool is_same(const keeping *k, size_t fragment, const lk_index *index)
{
    const lk_fragment     *old = &k->from->fragments[fragment], *new = k->followers[fragment];
    const lk_lance_schema *schema = k->from->schema;
    bool                   same = new != NULL && old->physical_rows == new->physical_rows;
    for (size_t i = 0; same && i < index->field_count; i++) {
        size_t top = lk_lance_schema_find(schema, index->fields[i]);
        size_t end = top == SIZE_MAX ? 0 : schema->fields[top].end;
        for (size_t field = top; same && field < end; field++) {
            same = same_place(old, new, schema->fields[field].id);
        }
    }
    return same;
}

/* -- one index ------------------------------------------------------------------------------------------- */
static lk_rc add_run(void *context, uint32_t first, uint32_t count, lk_err *err)
{
    (void)err;
    roaring_bitmap_add_range(context, first, (uint64_t)first + count);
    return LK_OK;
}

/* The message with another bitmap. */
static lk_rc with_bitmap(const keeping *k, lk_bytes message, roaring_bitmap_t *covered, lk_buf *out)
{
    lk_buf bitmap = {0};
    roaring_bitmap_run_optimize(covered);
    lk_buf_append_zeros(&bitmap, roaring_bitmap_portable_size_in_bytes(covered));
    roaring_bitmap_portable_serialize(covered, bitmap.data);
    bool good = lk_wire_copy_without(message, LK_INDEX_BITMAP_OF_FRAGMENTS, out);
    lk_wire_put_bytes(out, LK_INDEX_BITMAP_OF_FRAGMENTS, lk_buf_view(&bitmap));
    lk_buf_deinit(&bitmap);
    return good ? LK_OK : lk_fail(k->err, LK_E_CORRUPT_FILE, "an index is malformed");
}

/* A fragment that is no more stays covered: readers know of those that an index has and its version has not that their
 * rows are gone, and pylance 7 looks for the rows of others. Its number is never given out again. */
static bool is_gone(const keeping *k, size_t fragment)
{
    return k->followers[fragment] == NULL && k->next->has_fragment_id_max &&
           k->next->fragment_id_max >= k->from->fragments[fragment].id;
}

static bool keeps_field(const keeping *k, int32_t id)
{
    const lk_lance_schema *schema = k->from->schema;
    size_t                 at = lk_lance_schema_find(schema, id);
    while (at != SIZE_MAX && schema->fields[at].parent_id != LK_FIELD_NONE) {
        at = lk_lance_schema_find(schema, schema->fields[at].parent_id);
    }
    for (size_t i = 0; at != SIZE_MAX && i < k->moves->same_count; i++) {
        if (k->moves->same[i] == schema->fields[at].id) {
            return true;
        }
    }
    return false;
}

/* Whether an index finds the rows that moved: by their ids, under the values they kept. A zone knows places only. */
static bool follows_moves(const keeping *k, const lk_index *index, const roaring_bitmap_t *covered)
{
    bool by_value = index->kind == LK_INDEX_BTREE || index->kind == LK_INDEX_BITMAP;
    bool follows = k->moves != NULL && by_value && !index->addresses;
    for (size_t i = 0; follows && i < index->field_count; i++) {
        follows = keeps_field(k, index->fields[i]);
    }
    for (size_t i = 0; follows && i < k->from->fragment_count; i++) {
        const lk_fragment *old = &k->from->fragments[i], *new = k->followers[i];
        bool               lost_rows = new == NULL || new->deletion.count != old->deletion.count;
        follows = !lost_rows || roaring_bitmap_contains(covered, (uint32_t)old->id);
    }
    return follows;
}

/* Appends the message, its bitmap without the fragments that changed, and with those where rows went. */
static lk_rc uncover(const keeping *k, const lk_index *index, lk_bytes message, lk_bytes bitmap, lk_buf *out)
{
    roaring_bitmap_t *covered = roaring_bitmap_create();
    lk_rc             rc = lk_roaring_read(bitmap, add_run, covered, k->err);
    bool              changed = rc == LK_OK && follows_moves(k, index, covered);
    for (size_t i = 0; changed && i < k->moves->count; i++) {
        roaring_bitmap_add(covered, (uint32_t)(k->moves->first + i));
    }
    for (size_t i = 0; rc == LK_OK && i < k->from->fragment_count; i++) {
        uint32_t id = (uint32_t)k->from->fragments[i].id;
        if (roaring_bitmap_contains(covered, id) && !is_same(k, i, index) && !is_gone(k, i)) {
            roaring_bitmap_remove(covered, id);
            changed = true;
        }
    }
    if (rc == LK_OK && changed) {
        rc = with_bitmap(k, message, covered, out);
    } else if (rc == LK_OK) {
        lk_buf_append_bytes(out, message);
    }
    roaring_bitmap_free(covered);
    return rc;
}

/* Appends what is left of an index; nothing when its column is gone. */
static lk_rc keep_index(const keeping *k, lk_bytes message, lk_buf *section)
{
    lk_index index;
    lk_bytes bitmap = {0};
    uint32_t base = 0;
    bool     has_base = false;
    lk_buf   kept = {0};
    if (!lk_index_parse(message, k->arena, &index, &bitmap, &base, &has_base)) {
        return lk_fail(k->err, LK_E_CORRUPT_FILE, "an index is malformed");
    }
    for (size_t i = 0; i < index.field_count; i++) {
        if (lk_lance_schema_find(k->next->schema, index.fields[i]) == SIZE_MAX) {
            return LK_OK;
        }
    }
    lk_rc rc = LK_OK;
    if (index.field_count == 0 || bitmap.size == 0) {
        lk_buf_append_bytes(&kept, message);
    } else {
        rc = uncover(k, &index, message, bitmap, &kept);
    }
    lk_wire_put_bytes(section, LK_INDEX_SECTION_INDICES, lk_buf_view(&kept));
    lk_buf_deinit(&kept);
    return rc;
}

lk_rc lk_index_keep(const lk_manifest *from, const lk_manifest *next, const lk_index_moves *moves,
    lk_bytes section, lk_arena *arena, lk_bytes *out, lk_err *err)
{
    keeping       k = {.from = from, .next = next, .moves = moves, .arena = arena, .err = err};
    lk_buf        kept = {0};
    lk_wire_field part = {0};
    lk_rc         rc = LK_OK;
    find_followers(&k);
    while (rc == LK_OK && section.size > 0) {
        if (!lk_wire_next(&section, &part)) {
            rc = lk_fail(err, LK_E_CORRUPT_FILE, "the index section is malformed");
        } else if (part.number == LK_INDEX_SECTION_INDICES) {
            rc = keep_index(&k, part.value, &kept);
        } else {
            lk_buf_append_bytes(&kept, part.whole);
        }
    }
    *out = lk_arena_copy(arena, lk_buf_view(&kept));
    lk_buf_deinit(&kept);
    if (rc != LK_OK) {
        lk_context(err, "index section of %.*s", LK_FMT(from->key));
    }
    return rc;
}
