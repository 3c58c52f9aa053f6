/* write_leaf.c - see write_leaf.h. */
#include "lance/write_leaf.h"

#include "arrow/bits.h"
#include "arrow/schema.h"
#include "lance/cpu.h"

enum {
    /* Booleans in a list stay in mini-blocks, two rows to a chunk of 32 KiB. */
    LIST_BITS_MAX = 64 * 1024
};

/* Lists of a fixed number of nulls: they have a length, and each its validity, but no values. */
static bool of_nulls(const lk_leaf *leaf)
{
    return leaf->type.layout == LK_LAYOUT_NULL && leaf->level_count > 0;
}

/* -- shape ----------------------------------------------------------------------------------------- */
static lk_rc unsupported(const struct ArrowSchema *field, lk_err *err)
{
    lk_buf text = {0};
    lk_type_format(field, &text);
    const char *name = field->name == NULL ? "" : field->name;
    lk_rc       rc = lk_fail(err, LK_E_INVALID_SCHEMA, "column %s: cannot store %s", name, field->format);
    lk_detail(err, "column %s: this build does not store the type %.*s", name, LK_FMT(lk_buf_view(&text)));
    lk_buf_deinit(&text);
    return rc;
}

static bool storable(const lk_type *type)
{
    bool interval = type->id >= LK_TYPE_INTERVAL_MONTH && type->id <= LK_TYPE_INTERVAL_NANO;
    bool small_decimal = type->id == LK_TYPE_DECIMAL32 || type->id == LK_TYPE_DECIMAL64;
    return !interval && !small_decimal && !type->dictionary;
}

/* Before the first row: items of type null are null. */
static void begin_items(lk_leaf *leaf)
{
    for (size_t level = 0; level < leaf->level_count; level++) {
        leaf->levels[level].has_nulls = of_nulls(leaf) && level + 1 == leaf->level_count;
    }
}

lk_rc lk_leaf_init(lk_leaf *leaf, const struct ArrowSchema *field, size_t layer_count, lk_err *err)
{
    const struct ArrowSchema *at = field;
    uint64_t                  items = 1;
    *leaf = (lk_leaf){.layer_count = layer_count};
    while (lk_type_of(at, &leaf->type) && leaf->type.layout == LK_LAYOUT_FIXED_LIST) {
        int64_t size = leaf->type.list_size;
        if (leaf->level_count == LK_LIST_LEVELS_MAX || size <= 0 || size > INT32_MAX / 64 / (int64_t)items) {
            return unsupported(field, err);
        }
        items *= (uint64_t)size;
        leaf->levels[leaf->level_count++] = (lk_leaf_level){.size = (uint32_t)size, .items = items};
        at = at->children[0];
    }
    if (!lk_type_of(at, &leaf->type) || !storable(&leaf->type) || layer_count > LK_LAYERS_MAX) {
        return unsupported(field, err);
    }
    lk_layout layout = leaf->type.layout;
    bool      variable = layout == LK_LAYOUT_BYTES32 || layout == LK_LAYOUT_BYTES64;
    bool      fixed = layout == LK_LAYOUT_BITS || layout == LK_LAYOUT_FIXED;
    if (!fixed && layout != LK_LAYOUT_NULL && !(variable && leaf->level_count == 0)) {
        return unsupported(field, err);
    }
    leaf->offset_bytes = layout == LK_LAYOUT_BYTES32 ? 4 : layout == LK_LAYOUT_BYTES64 ? 8 : 0;
    uint64_t bits = !fixed ? 0 : items * (layout == LK_LAYOUT_BITS ? 1 : leaf->type.width * 8ULL);
    if (bits > INT32_MAX || (fixed && bits == 0) || (layout == LK_LAYOUT_BITS && bits > LIST_BITS_MAX)) {
        return unsupported(field, err);
    }
    if (of_nulls(leaf) && items > LIST_BITS_MAX) {
        return unsupported(field, err);
    }
    leaf->row_bits = (uint32_t)bits;
    begin_items(leaf);
    return lk_field_options_read(field, field, &leaf->options, err);
}

void lk_leaf_deinit(lk_leaf *leaf)
{
    lk_buf_deinit(&leaf->values);
    lk_buf_deinit(&leaf->ends);
    lk_buf_deinit(&leaf->marks);
    lk_buf_deinit(&leaf->reps);
    lk_buf_deinit(&leaf->defs);
    for (size_t level = 0; level < leaf->level_count; level++) {
        lk_buf_deinit(&leaf->levels[level].bits);
    }
}

void lk_leaf_clear(lk_leaf *leaf)
{
    lk_buf_clear(&leaf->values);
    lk_buf_clear(&leaf->ends);
    lk_buf_clear(&leaf->marks);
    lk_buf_clear(&leaf->reps);
    lk_buf_clear(&leaf->defs);
    for (size_t level = 0; level < leaf->level_count; level++) {
        lk_buf_clear(&leaf->levels[level].bits);
    }
    begin_items(leaf);
    leaf->rows = leaf->longest = leaf->list_rows = leaf->hidden = 0;
    leaf->has_marks = false;
}

void lk_leaf_take(lk_leaf *leaf, lk_leaf *into)
{
    lk_leaf before = *into;
    *into = *leaf;
    leaf->values = before.values;
    leaf->ends = before.ends;
    leaf->marks = before.marks;
    leaf->reps = before.reps;
    leaf->defs = before.defs;
    for (size_t level = 0; level < LK_LIST_LEVELS_MAX; level++) {
        if (level < leaf->level_count) {
            leaf->levels[level].bits = before.levels[level].bits;
        } else {
            lk_buf_deinit(&before.levels[level].bits);
        }
    }
    lk_leaf_clear(leaf);
}

size_t lk_leaf_bytes(const lk_leaf *leaf)
{
    return leaf->values.size + leaf->reps.size / 4 +
           leaf->ends.size / 2; /* an offset in the file is half as wide */
}

size_t lk_leaf_capacity(const lk_leaf *leaf)
{
    size_t capacity = leaf->values.capacity + leaf->ends.capacity + leaf->marks.capacity +
                      leaf->reps.capacity + leaf->defs.capacity;
    for (size_t level = 0; level < leaf->level_count; level++) {
        capacity += leaf->levels[level].bits.capacity;
    }
    return capacity;
}

/* -- nulls ----------------------------------------------------------------------------------------- */
static const uint8_t *bitmap_of(const struct ArrowArray *array)
{
    return array->n_buffers > 0 && array->null_count != 0 ? array->buffers[0] : NULL;
}

static bool has_null(const struct ArrowArray *array, int64_t start, int64_t count)
{
    const uint8_t *bits = bitmap_of(array);
    return bits != NULL && lk_bits_count(bits, start, count) != count;
}

bool lk_leaf_parent_has_null(const lk_leaf_parent *parent, int64_t count)
{
    int64_t first = lk_leaf_parent_row(parent, 0);
    return count > 0 && has_null(parent->array, first, lk_leaf_parent_row(parent, count - 1) + 1 - first);
}

/* The leaf's rows in nulls of a parent. */
static void mark_parent(lk_leaf *leaf, const lk_leaf_parent *parent, int64_t count, uint8_t value)
{
    const uint8_t *bits = bitmap_of(parent->array);
    uint8_t       *marks = (uint8_t *)leaf->marks.data + leaf->rows;
    for (int64_t row = 0; row < count; row++) {
        if (!lk_bit(bits, lk_leaf_parent_row(parent, row))) {
            marks[row] = value;
        }
    }
}

static void mark(lk_leaf *leaf, const uint8_t *bits, int64_t start, int64_t count, uint8_t value)
{
    uint8_t *marks = (uint8_t *)leaf->marks.data + leaf->rows;
    for (int64_t row = 0; row < count; row++) {
        if (!lk_bit(bits, start + row)) {
            marks[row] = value;
        }
    }
}

/* Notes the nulls of the next rows: the leaf's, then its structs' outwards. */
static void append_marks(lk_leaf *leaf, const struct ArrowArray *array, int64_t start, int64_t count,
    const lk_leaf_parent *parents)
{
    bool   nulls = leaf->type.layout == LK_LAYOUT_NULL && leaf->level_count == 0;
    bool   any = nulls || has_null(array, start, count);
    size_t layers = leaf->lists > 0 ? 1 : leaf->layer_count; /* the others are entries' business */
    for (size_t parent = 0; parent + 1 < layers; parent++) {
        any = any || lk_leaf_parent_has_null(&parents[parent], count);
    }
    if (any && !leaf->has_marks) {
        lk_buf_append_zeros(&leaf->marks, (size_t)leaf->rows);
        leaf->has_marks = true;
    }
    if (!leaf->has_marks) {
        return;
    }
    lk_buf_append_zeros(&leaf->marks, (size_t)count);
    if (nulls) {
        memset(leaf->marks.data + leaf->rows, 1, (size_t)count);
    } else if (has_null(array, start, count)) {
        mark(leaf, bitmap_of(array), start, count, 1);
    }
    for (size_t parent = 0; parent + 1 < layers; parent++) {
        if (lk_leaf_parent_has_null(&parents[parent], count)) {
            mark_parent(leaf, &parents[parent], count, (uint8_t)(parent + 2));
        }
    }
}

static bool is_null(const lk_leaf *leaf, uint64_t row)
{
    return leaf->has_marks && leaf->marks.data[row] != 0;
}

/* -- values ---------------------------------------------------------------------------------------- */
static void append_bits(lk_buf *out, uint64_t at, const uint8_t *from, int64_t start, int64_t count)
{
    size_t size = (size_t)(at + (uint64_t)count + 7) / 8;
    lk_buf_append_zeros(out, size - out->size);
    if (count > 0) {
        lk_bits_copy(from, start, (uint8_t *)out->data, (int64_t)at, count);
    }
}

/* Bits behind the last of a buffer are zero. */
static void append_zero_bits(lk_buf *out, uint64_t at, uint64_t count)
{
    lk_buf_append_zeros(out, (size_t)(at + count + 7) / 8 - out->size);
}

static void clear_bit(uint8_t *bits, uint64_t index)
{
    bits[index / 8] = (uint8_t)(bits[index / 8] & ~(1U << (index % 8)));
}

/* Whether a null holds the value before it: runs go on. Else it holds zeros. */
static bool continues(const lk_leaf *leaf)
{
    return leaf->level_count == 0 && leaf->row_bits % 8 == 0 && leaf->row_bits <= 64;
}

static void hide_nulls(lk_leaf *leaf, int64_t count)
{
    uint8_t *values = (uint8_t *)leaf->values.data;
    uint64_t bits = leaf->row_bits;
    for (uint64_t row = leaf->rows; row < leaf->rows + (uint64_t)count; row++) {
        if (!is_null(leaf, row)) {
            continue;
        }
        if (bits % 8 == 0) {
            size_t width = (size_t)bits / 8;
            if (row > 0 && continues(leaf)) {
                memcpy(values + row * width, values + (row - 1) * width, width);
            } else {
                memset(values + row * width, 0, width);
            }
        }
        for (uint64_t bit = 0; bits % 8 != 0 && bit < bits; bit++) {
            clear_bit(values, row * bits + bit);
        }
    }
}

/* Item validity of a list level for `count` items from `start`. */
static void append_items(
    lk_leaf *leaf, lk_leaf_level *level, const struct ArrowArray *items, int64_t start, int64_t count)
{
    uint64_t at = leaf->rows * level->items;
    bool     nulls = has_null(items, start, count);
    if (of_nulls(leaf) && level == &leaf->levels[leaf->level_count - 1]) {
        append_zero_bits(&level->bits, at, (uint64_t)count);
        return;
    }
    if (nulls && !level->has_nulls) {
        append_bits(&level->bits, 0, NULL, 0, (int64_t)at);
        level->has_nulls = true;
    }
    if (level->has_nulls) {
        append_bits(&level->bits, at, nulls ? bitmap_of(items) : NULL, start, count);
    }
}

/* Walks down fixed-size lists to the values; start and count become those of the items. */
static lk_rc descend(
    lk_leaf *leaf, const struct ArrowArray **array, int64_t *start, int64_t *count, lk_err *err)
{
    for (size_t level = 0; level < leaf->level_count; level++) {
        lk_leaf_level           *list = &leaf->levels[level];
        const struct ArrowArray *items = (*array)->children[0];
        *start = *start * list->size + items->offset;
        *count *= list->size;
        if (*start + *count > items->length + items->offset) {
            return lk_fail(err, LK_E_INVALID_IPC, "a fixed-size list has fewer items than rows");
        }
        append_items(leaf, list, items, *start, *count);
        *array = items;
    }
    return LK_OK;
}

/* Null items inside a list hold zeros, like null rows. */
static void zero_items(lk_leaf *leaf, int64_t rows)
{
    uint32_t bits = leaf->type.layout == LK_LAYOUT_BITS ? 1 : leaf->type.width * 8;
    uint8_t *values = (uint8_t *)leaf->values.data;
    for (size_t level = 0; level < leaf->level_count; level++) {
        const lk_leaf_level *list = &leaf->levels[level];
        uint64_t             first = leaf->rows * list->items, end = first + (uint64_t)rows * list->items;
        uint64_t run = leaf->levels[leaf->level_count - 1].items / list->items * bits; /* bits an item */
        for (uint64_t item = first; list->has_nulls && item < end; item++) {
            if (lk_bit((const uint8_t *)list->bits.data, (int64_t)item)) {
                continue;
            }
            for (uint64_t bit = item * run; bit < (item + 1) * run; bit += bits) {
                if (bits == 1) {
                    clear_bit(values, bit);
                } else {
                    memset(values + bit / 8, 0, bits / 8);
                }
            }
        }
    }
}

static lk_rc append_fixed(
    lk_leaf *leaf, const struct ArrowArray *array, int64_t start, int64_t count, lk_err *err)
{
    int64_t rows = count;
    lk_rc   rc = descend(leaf, &array, &start, &count, err);
    if (rc != LK_OK) {
        return rc;
    }
    const uint8_t *from = array->buffers[1];
    if (leaf->type.layout == LK_LAYOUT_BITS) {
        append_bits(&leaf->values, leaf->rows * leaf->row_bits, from, start, count);
    } else {
        lk_buf_append(
            &leaf->values, from + (size_t)start * leaf->type.width, (size_t)count * leaf->type.width);
    }
    if (leaf->has_marks) {
        hide_nulls(leaf, rows);
    }
    zero_items(leaf, rows);
    return LK_OK;
}

static uint64_t offset_at(const lk_leaf *leaf, const struct ArrowArray *array, int64_t row)
{
    const uint8_t *offsets = array->buffers[1];
    return leaf->offset_bytes == 4 ? lk_load_u32(offsets + row * 4) : lk_load_u64(offsets + row * 8);
}

/* Where values end, as u64, from offsets of each width; returns the longest of them. */
LK_VECTOR static uint64_t widen32(const uint8_t *offsets, int64_t count, uint64_t shift, char *ends)
{
    uint32_t longest = 0;
    for (int64_t row = 0; row < count; row++) {
        uint32_t before = lk_load_u32(offsets + row * 4), end = lk_load_u32(offsets + row * 4 + 4);
        longest = end - before > longest ? end - before : longest;
        lk_store_u64(ends + row * 8, end + shift);
    }
    return longest;
}

LK_VECTOR static uint64_t widen64(const uint8_t *offsets, int64_t count, uint64_t shift, char *ends)
{
    uint64_t longest = 0;
    for (int64_t row = 0; row < count; row++) {
        uint64_t before = lk_load_u64(offsets + row * 8), end = lk_load_u64(offsets + row * 8 + 8);
        longest = end - before > longest ? end - before : longest;
        lk_store_u64(ends + row * 8, end + shift);
    }
    return longest;
}

static void append_ends(lk_leaf *leaf, const struct ArrowArray *array, int64_t start, int64_t count)
{
    uint64_t       shift = leaf->values.size - offset_at(leaf, array, start);
    const uint8_t *offsets = (const uint8_t *)array->buffers[1] + (size_t)start * leaf->offset_bytes;
    lk_buf_reserve(&leaf->ends, (size_t)count * 8);
    char    *ends = leaf->ends.data + leaf->ends.size;
    uint64_t longest =
        leaf->offset_bytes == 4 ? widen32(offsets, count, shift, ends) : widen64(offsets, count, shift, ends);
    leaf->longest = longest > leaf->longest ? longest : leaf->longest;
    leaf->ends.size += (size_t)count * 8;
}

/* With nulls among them: value by value, nulls left out. */
static void append_some(lk_leaf *leaf, const struct ArrowArray *array, int64_t start, int64_t count)
{
    const char *bytes = array->buffers[2];
    for (int64_t row = 0; row < count; row++) {
        uint64_t first = offset_at(leaf, array, start + row), last = offset_at(leaf, array, start + row + 1);
        if (!is_null(leaf, leaf->rows + (uint64_t)row) && last > first) {
            lk_buf_append(&leaf->values, bytes + first, (size_t)(last - first));
            leaf->longest = last - first > leaf->longest ? last - first : leaf->longest;
        }
        uint64_t end = leaf->values.size;
        lk_buf_append(&leaf->ends, &end, 8);
    }
}

static void append_text(lk_leaf *leaf, const struct ArrowArray *array, int64_t start, int64_t count)
{
    if (leaf->has_marks) {
        append_some(leaf, array, start, count);
        return;
    }
    uint64_t first = offset_at(leaf, array, start), last = offset_at(leaf, array, start + count);
    append_ends(leaf, array, start, count);
    if (last > first) {
        lk_buf_append(&leaf->values, (const char *)array->buffers[2] + first, (size_t)(last - first));
    }
}

lk_rc lk_leaf_append(lk_leaf *leaf, const struct ArrowArray *array, int64_t start, int64_t count,
    const lk_leaf_parent *parents, lk_err *err)
{
    lk_rc rc = LK_OK;
    append_marks(leaf, array, start, count, parents);
    if (leaf->row_bits > 0) {
        rc = append_fixed(leaf, array, start, count, err);
    } else if (leaf->level_count > 0) {
        int64_t items = count;
        rc = descend(leaf, &array, &start, &items, err);
    } else if (leaf->offset_bytes > 0 && count > 0) {
        append_text(leaf, array, start, count);
    }
    leaf->rows += (uint64_t)count;
    return rc;
}

void lk_leaf_append_null(lk_leaf *leaf)
{
    if (!leaf->has_marks) {
        lk_buf_append_zeros(&leaf->marks, (size_t)leaf->rows);
        leaf->has_marks = true;
    }
    lk_buf_append(&leaf->marks, "\1", 1);
    if (leaf->offset_bytes > 0) {
        uint64_t end = leaf->values.size;
        lk_buf_append(&leaf->ends, &end, 8);
    } else if (leaf->rows > 0 && continues(leaf)) {
        uint64_t before = 0;
        size_t   width = leaf->row_bits / 8;
        memcpy(&before, leaf->values.data + leaf->values.size - width, width);
        lk_buf_append(&leaf->values, &before, width);
    } else {
        append_zero_bits(&leaf->values, leaf->rows * leaf->row_bits, leaf->row_bits);
    }
    for (size_t level = 0; level < leaf->level_count; level++) {
        lk_leaf_level *list = &leaf->levels[level];
        if (list->has_nulls) { /* items under a null are valid, like those of a null row */
            append_bits(&list->bits, leaf->rows * list->items, NULL, 0, (int64_t)list->items);
        }
    }
    leaf->rows++;
}

int64_t lk_leaf_room(
    const lk_leaf *leaf, const struct ArrowArray *array, int64_t start, int64_t count, size_t page_bytes)
{
    size_t  have = lk_leaf_bytes(leaf), room = have < page_bytes ? page_bytes - have : 0;
    int64_t low = 1, high = count;
    if (leaf->row_bits > 0) {
        uint64_t rows = (uint64_t)room * 8 / leaf->row_bits;
        return rows == 0 ? 1 : rows < (uint64_t)count ? (int64_t)rows : count;
    }
    if (leaf->offset_bytes == 0) {
        return count;
    }
    uint64_t first = offset_at(leaf, array, start);
    while (low < high) { /* the most rows that fit */
        int64_t middle = low + (high - low + 1) / 2;
        if (offset_at(leaf, array, start + middle) - first + (uint64_t)middle * 4 <= room) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}
