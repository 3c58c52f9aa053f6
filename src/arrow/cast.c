/*
 * cast.c - see cast.h: which columns, nesting, and how a fault is told. Leaves are cast_value.c.
 *
 * A nested array is first rewritten by lk_array_take, with its null rows taken as null: then nothing outside
 * its rows or under a null is left to convert, and it starts at offset 0. Threads: stateless.
 */
#include "arrow/cast.h"

#include "arrow/bits.h"
#include "arrow/cast_priv.h"
#include "arrow/gather_priv.h"
#include "arrow/schema.h"

#include <stdlib.h>

/* The list a value lies in, to find the row of the table again. */
typedef struct frame {
    const struct frame *parent;
    const void         *offsets; /* NULL: list_size values a row */
    bool                wide;
    int64_t             list_size, length;
} frame;

typedef struct casting {
    const char  *column;
    const frame *inside; /* NULL: rows are the table's */
    int64_t      row_base;
    lk_err      *err;
} casting;

/* -- telling ----------------------------------------------------------------------------------------- */

static int64_t row_of_item(const frame *f, int64_t item)
{
    if (f->offsets == NULL) {
        return f->list_size == 0 ? 0 : item / f->list_size;
    }
    int64_t row = 0;
    while (row < f->length - 1 && (f->wide ? ((const int64_t *)f->offsets)[row + 1]
                                           : ((const int32_t *)f->offsets)[row + 1]) <= item) {
        row++;
    }
    return row;
}

static lk_rc faulty(const casting *c, int64_t row, const char *fault)
{
    for (const frame *f = c->inside; f != NULL; f = f->parent) {
        row = row_of_item(f, row);
    }
    lk_rc rc = lk_fail(c->err, LK_E_SCHEMA_MISMATCH, "cast: %s", fault);
    return lk_detail(
               c->err, "column '%.100s', row %lld: %s", c->column, (long long)(row + c->row_base), fault),
           rc;
}

static lk_rc refused(
    const char *column, const struct ArrowSchema *from, const struct ArrowSchema *to, lk_err *err)
{
    lk_buf have = {0}, want = {0};
    lk_type_format(from, &have);
    lk_type_format(to, &want);
    lk_rc rc = lk_fail(err, LK_E_SCHEMA_MISMATCH, "cast refused by type");
    lk_detail(err, "column '%.80s': %.60s cannot become %.60s", column, have.data, want.data);
    lk_buf_deinit(&have);
    lk_buf_deinit(&want);
    return rc;
}

static lk_rc missing(const char *column, const char *what, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_SCHEMA_MISMATCH, "cast: %s", what);
    return lk_detail(err, "column '%.100s' %s", column, what), rc;
}

/* -- types ------------------------------------------------------------------------------------------- */

static bool is_list(const lk_type *type)
{
    return !type->dictionary && (type->layout == LK_LAYOUT_LIST32 || type->layout == LK_LAYOUT_LIST64 ||
                                    type->layout == LK_LAYOUT_FIXED_LIST);
}

/* Lists convert to lists, maps to maps. */
static bool both_lists(const lk_type *a, const lk_type *b)
{
    return is_list(a) && is_list(b) && (a->id == LK_TYPE_MAP) == (b->id == LK_TYPE_MAP);
}

/* The same buffers mean the same thing: formats equal all the way down, members in the same order. */
static bool same_type(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    bool same = strcmp(a->format, b->format) == 0 && a->n_children == b->n_children &&
                (a->dictionary == NULL) == (b->dictionary == NULL);
    bool named = strcmp(a->format, "+s") == 0;
    for (int64_t i = 0; same && i < a->n_children; i++) {
        same =
            same_type(a->children[i], b->children[i]) &&
            (!named || lk_bytes_equal(lk_bytes_of(a->children[i]->name), lk_bytes_of(b->children[i]->name)));
    }
    return same && (a->dictionary == NULL || same_type(a->dictionary, b->dictionary));
}

/* The member of that name; the one at `guess` is tried first, since order mostly agrees. */
static int64_t find_member(const struct ArrowSchema *schema, const struct ArrowSchema *wanted, int64_t guess)
{
    lk_bytes name = lk_bytes_of(wanted->name);
    bool     right =
        guess < schema->n_children && lk_bytes_equal(lk_bytes_of(schema->children[guess]->name), name);
    return right ? guess : lk_schema_find(schema, name);
}

static lk_rc castable(
    const char *column, const struct ArrowSchema *from, const struct ArrowSchema *to, lk_err *err);

/* Every member of `from` is wanted, every wanted one is there or may be null. */
static lk_rc castable_members(
    const char *column, const struct ArrowSchema *from, const struct ArrowSchema *to, lk_err *err)
{
    for (int64_t i = 0; i < from->n_children; i++) {
        if (find_member(to, from->children[i], i) < 0) {
            return missing(column == NULL ? from->children[i]->name : column,
                column == NULL ? "is not in the table" : "has a member that is not in the table", err);
        }
    }
    for (int64_t i = 0; i < to->n_children; i++) {
        const struct ArrowSchema *wanted = to->children[i];
        int64_t                   at = find_member(from, wanted, i);
        const char               *name = column == NULL ? wanted->name : column;
        lk_rc                     rc =
            at >= 0 ? castable(name, from->children[at], wanted, err)
                                : wanted->flags & ARROW_FLAG_NULLABLE
                                    ? LK_OK
                                    : missing(name,
                      column == NULL ? "is missing and not nullable" : "lacks a member that is not nullable",
                                          err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

/* A map's keys and values have their places, whatever they are called. */
static lk_rc castable_entries(
    const char *column, const struct ArrowSchema *from, const struct ArrowSchema *to, lk_err *err)
{
    lk_rc rc = castable(column, from->children[0], to->children[0], err);
    return rc == LK_OK ? castable(column, from->children[1], to->children[1], err) : rc;
}

static lk_rc castable(
    const char *column, const struct ArrowSchema *from, const struct ArrowSchema *to, lk_err *err)
{
    lk_type source, target;
    if (!lk_type_of(from, &source) || !lk_type_of(to, &target)) {
        return refused(column, from, to, err);
    }
    if (same_type(from, to) || source.id == LK_TYPE_NULL) {
        return LK_OK;
    }
    if (source.dictionary) {
        return castable(column, from->dictionary, to, err);
    }
    if (source.id == LK_TYPE_MAP && target.id == LK_TYPE_MAP) {
        return castable_entries(column, from->children[0], to->children[0], err);
    }
    if (both_lists(&source, &target)) {
        return castable(column, from->children[0], to->children[0], err);
    }
    if (source.id == LK_TYPE_STRUCT && target.id == LK_TYPE_STRUCT) {
        return castable_members(column, from, to, err);
    }
    return lk_leaf_castable(&source, &target) ? LK_OK : refused(column, from, to, err);
}

lk_rc lk_schema_castable(const struct ArrowSchema *from, const struct ArrowSchema *to, lk_err *err)
{
    return castable_members(NULL, from, to, err);
}

/* -- arrays ------------------------------------------------------------------------------------------ */

static lk_rc cast_array(const casting *c, const struct ArrowSchema *from, lk_shared_array *array,
    const struct ArrowSchema *to, struct ArrowArray *out);

/* The rows alone, from offset 0, with nothing under nulls. */
static lk_rc compacted(
    const casting *c, const struct ArrowSchema *schema, const struct ArrowArray *array, lk_shared_array **out)
{
    int64_t *rows = malloc((size_t)(array->length + 1) * sizeof *rows);
    if (rows == NULL) {
        return lk_fail(c->err, LK_E_LIMIT, "no memory to cast %lld rows", (long long)array->length);
    }
    const uint8_t *validity = lk_array_validity(array);
    for (int64_t i = 0; i < array->length; i++) {
        rows[i] = lk_bit_or_one(validity, array->offset + i) ? i : -1;
    }
    struct ArrowArray taken;
    lk_rc             rc = lk_array_take(schema, array, rows, array->length, &taken, c->err);
    free(rows);
    if (rc == LK_OK) {
        *out = lk_array_share(&taken);
    }
    return rc;
}

/* One child of a shared, compacted parent, itself shareable. */
static lk_shared_array *share_child(lk_shared_array *parent, int64_t child)
{
    struct ArrowArray mirror;
    lk_array_mirror(lk_shared_array_get(parent)->children[child], lk_shared_array_keeper(parent), &mirror);
    return lk_array_share(&mirror);
}

static lk_rc cast_child(const casting *c, const struct ArrowSchema *from, lk_shared_array *parent,
    int64_t child, const struct ArrowSchema *to, struct ArrowArray *out)
{
    lk_shared_array *shared = share_child(parent, child);
    lk_rc            rc = cast_array(c, from, shared, to, out);
    lk_shared_array_unref(shared);
    return rc;
}

/* Starts *out like the compacted parent, with its bitmap. */
static void start_like(lk_shared_array *parent, int64_t buffers, int64_t children, struct ArrowArray *out)
{
    const struct ArrowArray *array = lk_shared_array_get(parent);
    lk_array_start(out, array->length, buffers, children, false);
    out->null_count = array->null_count;
    lk_array_borrow(out, 0, array->buffers[0]);
    lk_array_keep(out, lk_shared_array_keeper(parent));
}

static lk_rc cast_struct(const casting *c, const struct ArrowSchema *from, lk_shared_array *array,
    const struct ArrowSchema *to, bool by_name, struct ArrowArray *out)
{
    lk_rc rc = LK_OK;
    start_like(array, 1, to->n_children, out);
    for (int64_t i = 0; rc == LK_OK && i < to->n_children; i++) {
        int64_t at = by_name ? find_member(from, to->children[i], i) : i;
        rc = at < 0 ? lk_array_nulls(to->children[i], out->length, out->children[i], c->err)
                    : cast_child(c, from->children[at], array, at, to->children[i], out->children[i]);
    }
    return rc;
}

/* -- lists ------------------------------------------------------------------------------------------- */

static int64_t item_offset(const lk_type *type, const struct ArrowArray *array, int64_t row)
{
    switch ((int)type->layout) {
    case LK_LAYOUT_LIST32:
        return ((const int32_t *)array->buffers[1])[row];
    case LK_LAYOUT_LIST64:
        return ((const int64_t *)array->buffers[1])[row];
    default:
        return row * type->list_size;
    }
}

static lk_rc make_offsets(const casting *c, const lk_type *source, const lk_type *target,
    const struct ArrowArray *array, struct ArrowArray *out)
{
    bool  wide = target->layout == LK_LAYOUT_LIST64;
    void *block = NULL;
    lk_rc rc = lk_block_zero((size_t)(array->length + 1) * (wide ? 8 : 4), &block, c->err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_array_own(out, 1, block);
    for (int64_t row = 0; row < array->length; row++) {
        int64_t end = item_offset(source, array, row + 1);
        if (wide) {
            ((int64_t *)block)[row + 1] = end;
        } else if (end <= INT32_MAX) {
            ((int32_t *)block)[row + 1] = (int32_t)end;
        } else {
            return faulty(c, row, "a batch holds more than 2^31 items of this list; use large_list");
        }
    }
    return LK_OK;
}

/* Lists of the wanted size to a fixed-size list; a null row gets null items. *out is the items, uncast. */
static lk_rc fixed_items(const casting *c, const struct ArrowSchema *from, const lk_type *source,
    int64_t size, const struct ArrowArray *array, struct ArrowArray *out)
{
    const uint8_t *validity = lk_array_validity(array);
    lk_segment     items = {.array = array->children[0], .scale = 1, .nulls = validity != NULL};
    lk_range      *ranges = malloc((size_t)(array->length + 1) * sizeof *ranges);
    if (ranges == NULL || __builtin_mul_overflow(array->length, size, &items.rows)) {
        free(ranges);
        return lk_fail(c->err, LK_E_LIMIT, "no memory to cast %lld lists", (long long)array->length);
    }
    lk_rc rc = LK_OK;
    for (int64_t row = 0; rc == LK_OK && row < array->length; row++) {
        int64_t first = item_offset(source, array, row);
        bool    valid = lk_bit_or_one(validity, row);
        if (valid && item_offset(source, array, row + 1) - first != size) {
            rc = faulty(c, row, "the list has another number of items than the column");
        }
        ranges[items.count++] = (lk_range){valid ? first : -1, size};
    }
    items.ranges = ranges;
    if (rc == LK_OK) {
        rc = lk_gather(from->children[0], &items, 1, out, c->err);
    }
    free(ranges);
    return rc;
}

static lk_rc cast_to_fixed(const casting *c, const struct ArrowSchema *from, const lk_type *source,
    lk_shared_array *array, const struct ArrowSchema *to, const lk_type *target, struct ArrowArray *out)
{
    const struct ArrowArray *rows = lk_shared_array_get(array);
    frame                    inside = {c->inside, NULL, false, target->list_size, rows->length};
    casting                  below = {c->column, &inside, c->row_base, c->err};
    struct ArrowArray        items;
    start_like(array, 1, 1, out);
    lk_rc rc = fixed_items(c, from, source, target->list_size, rows, &items);
    if (rc != LK_OK) {
        return rc;
    }
    lk_shared_array *shared = lk_array_share(&items);
    rc = cast_array(&below, from->children[0], shared, to->children[0], out->children[0]);
    lk_shared_array_unref(shared);
    return rc;
}

static lk_rc cast_list(const casting *c, const struct ArrowSchema *from, const lk_type *source,
    lk_shared_array *array, const struct ArrowSchema *to, const lk_type *target, struct ArrowArray *out)
{
    if (target->layout == LK_LAYOUT_FIXED_LIST) {
        return cast_to_fixed(c, from, source, array, to, target, out);
    }
    const struct ArrowArray *rows = lk_shared_array_get(array);
    frame   inside = {c->inside, source->layout == LK_LAYOUT_FIXED_LIST ? NULL : rows->buffers[1],
          source->layout == LK_LAYOUT_LIST64, source->list_size, rows->length};
    casting below = {c->column, &inside, c->row_base, c->err};
    start_like(array, 2, 1, out);
    lk_rc rc = make_offsets(c, source, target, rows, out);
    if (rc != LK_OK || source->id != LK_TYPE_MAP) {
        return rc == LK_OK
                   ? cast_child(&below, from->children[0], array, 0, to->children[0], out->children[0])
                   : rc;
    }
    lk_shared_array *entries = share_child(array, 0);
    rc = cast_struct(&below, from->children[0], entries, to->children[0], false, out->children[0]);
    lk_shared_array_unref(entries);
    return rc;
}

/* -- all types --------------------------------------------------------------------------------------- */

static lk_rc cast_leaf(const casting *c, const struct ArrowSchema *from, const lk_type *source,
    const struct ArrowArray *array, const struct ArrowSchema *to, const lk_type *target,
    struct ArrowArray *out)
{
    int64_t       row = 0;
    lk_cast_fault fault = NULL;
    if (!lk_leaf_castable(source, target)) {
        return refused(c->column, from, to, c->err);
    }
    lk_rc rc = lk_leaf_cast(array, source, target, out, &row, &fault, c->err);
    return rc == LK_OK && fault != NULL ? faulty(c, row, fault) : rc;
}

/* A dictionary's values are taken out first. */
static lk_rc cast_dictionary(const casting *c, const struct ArrowSchema *from, const struct ArrowArray *array,
    const struct ArrowSchema *to, struct ArrowArray *out)
{
    lk_type  type;
    int64_t *rows = malloc((size_t)(array->length + 1) * sizeof *rows);
    LK_ASSERT(lk_type_of(from, &type));
    if (rows == NULL) {
        return lk_fail(c->err, LK_E_LIMIT, "no memory to cast %lld rows", (long long)array->length);
    }
    const uint8_t *validity = lk_array_validity(array);
    for (int64_t i = 0; i < array->length; i++) {
        const uint8_t *at = (const uint8_t *)array->buffers[1] + (size_t)(array->offset + i) * type.width;
        uint64_t       index = 0;
        memcpy(&index, at, type.width);
        rows[i] = lk_bit_or_one(validity, array->offset + i) ? (int64_t)index : -1;
    }
    struct ArrowArray values;
    lk_rc rc = lk_array_take(from->dictionary, array->dictionary, rows, array->length, &values, c->err);
    free(rows);
    if (rc != LK_OK) {
        return rc;
    }
    lk_shared_array *shared = lk_array_share(&values);
    rc = cast_array(c, from->dictionary, shared, to, out);
    lk_shared_array_unref(shared);
    return rc;
}

static lk_rc cast_nested(const casting *c, const struct ArrowSchema *from, const lk_type *source,
    const struct ArrowArray *array, const struct ArrowSchema *to, const lk_type *target,
    struct ArrowArray *out)
{
    lk_shared_array *rows = NULL;
    lk_rc            rc = compacted(c, from, array, &rows);
    if (rc == LK_OK) {
        rc = source->layout == LK_LAYOUT_STRUCT ? cast_struct(c, from, rows, to, true, out)
                                                : cast_list(c, from, source, rows, to, target, out);
    }
    lk_shared_array_unref(rows);
    return rc;
}

static lk_rc cast_array(const casting *c, const struct ArrowSchema *from, lk_shared_array *shared,
    const struct ArrowSchema *to, struct ArrowArray *out)
{
    const struct ArrowArray *array = lk_shared_array_get(shared);
    lk_type                  source, target;
    struct ArrowArray        made = {0};
    lk_rc                    rc = LK_OK;
    if (same_type(from, to)) {
        lk_array_mirror(array, lk_shared_array_keeper(shared), out);
        return LK_OK;
    }
    if (!lk_type_of(from, &source) || !lk_type_of(to, &target)) {
        return refused(c->column, from, to, c->err);
    }
    bool lists = both_lists(&source, &target);
    if (source.id == LK_TYPE_NULL) {
        rc = lk_array_nulls(to, array->length, &made, c->err);
    } else if (source.dictionary) {
        rc = cast_dictionary(c, from, array, to, &made);
    } else if (lists || (source.id == LK_TYPE_STRUCT && target.id == LK_TYPE_STRUCT)) {
        rc = cast_nested(c, from, &source, array, to, &target, &made);
    } else {
        rc = cast_leaf(c, from, &source, array, to, &target, &made);
    }
    if (rc != LK_OK) {
        lk_array_release(&made);
        return rc;
    }
    lk_array_move(&made, out);
    return LK_OK;
}

lk_rc lk_array_cast(const struct ArrowSchema *from, lk_shared_array *array, const struct ArrowSchema *to,
    int64_t row_base, struct ArrowArray *out, lk_err *err)
{
    casting c = {to->name == NULL ? "" : to->name, NULL, row_base, err};
    out->release = NULL;
    lk_rc rc = castable(c.column, from, to, err);
    return rc == LK_OK ? cast_array(&c, from, array, to, out) : rc;
}

/* -- batches ----------------------------------------------------------------------------------------- */

static lk_rc cast_column(const struct ArrowSchema *from, lk_shared_array *batch, const struct ArrowSchema *to,
    int64_t guess, int64_t row_base, struct ArrowArray *out, lk_err *err)
{
    casting c = {to->name, NULL, row_base, err};
    int64_t at = find_member(from, to, guess);
    if (at < 0) {
        return lk_array_nulls(to, lk_shared_array_get(batch)->length, out, err);
    }
    struct ArrowArray column;
    lk_shared_batch_column(batch, (size_t)at, &column);
    lk_shared_array *shared = lk_array_share(&column);
    lk_rc            rc = cast_array(&c, from->children[at], shared, to, out);
    lk_shared_array_unref(shared);
    return rc;
}

lk_rc lk_batch_cast(const struct ArrowSchema *from, lk_shared_array *batch, const struct ArrowSchema *to,
    int64_t row_base, struct ArrowArray *out, lk_err *err)
{
    struct ArrowArray made;
    out->release = NULL;
    lk_rc rc = lk_schema_castable(from, to, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_array_start(&made, lk_shared_array_get(batch)->length, 1, to->n_children, false);
    for (int64_t i = 0; rc == LK_OK && i < to->n_children; i++) {
        rc = cast_column(from, batch, to->children[i], i, row_base, made.children[i], err);
    }
    if (rc == LK_OK) {
        rc = lk_batch_check_nulls(to, &made, row_base, err);
    }
    if (rc != LK_OK) {
        lk_array_release(&made);
        return rc;
    }
    lk_array_move(&made, out);
    return LK_OK;
}
