/*
 * index_order.c - see index_order.h. Every value has a 64-bit key that keeps the order; values that do not fit into it
 * are compared further where keys are equal. Sorting is by the keys' bytes.
 */
#include "lance/index_order.h"

#include "base/err.h"

#include <stdlib.h>

enum { BUCKETS = 256 };

bool lk_index_orders(const struct ArrowSchema *field)
{
    lk_type type;
    if (!lk_type_of(field, &type) || type.dictionary) {
        return false;
    }
    return type.layout == LK_LAYOUT_BITS || type.layout == LK_LAYOUT_BYTES32 ||
           type.layout == LK_LAYOUT_BYTES64 || (type.layout == LK_LAYOUT_FIXED && type.width > 0);
}

bool lk_index_is_null(const struct ArrowArray *array, int64_t row)
{
    const uint8_t *bits = array->null_count == 0 ? NULL : array->buffers[0];
    int64_t        at = array->offset + row;
    return bits != NULL && ((bits[at >> 3] >> (at & 7)) & 1) == 0;
}

/* -- keys ------------------------------------------------------------------------------------------------ */
static bool is_text(const lk_type *type)
{
    return type->layout == LK_LAYOUT_BYTES32 || type->layout == LK_LAYOUT_BYTES64;
}

/* Bytes that compare as such. */
static bool is_bytes(const lk_type *type)
{
    return is_text(type) || type->id == LK_TYPE_FIXED_BINARY;
}

static bool fits_key(const lk_type *type)
{
    return !is_bytes(type) && type->width <= 8;
}

static lk_bytes bytes_at(const lk_type *type, const struct ArrowArray *array, int64_t row)
{
    int64_t     at = array->offset + row;
    const char *data = array->n_buffers > 2 ? array->buffers[2] : NULL;
    if (type->layout == LK_LAYOUT_BYTES32) {
        const int32_t *offsets = (const int32_t *)array->buffers[1] + at;
        return (lk_bytes){data + offsets[0], (size_t)(offsets[1] - offsets[0])};
    }
    if (type->layout == LK_LAYOUT_BYTES64) {
        const int64_t *offsets = (const int64_t *)array->buffers[1] + at;
        return (lk_bytes){data + offsets[0], (size_t)(offsets[1] - offsets[0])};
    }
    return (lk_bytes){(const char *)array->buffers[1] + (size_t)at * type->width, type->width};
}

static uint64_t load(const char *at, uint32_t width)
{
    switch (width) {
    case 1:
        return (uint8_t)*at;
    case 2:
        return lk_load_u16(at);
    case 4:
        return lk_load_u32(at);
    default:
        return lk_load_u64(at);
    }
}

/* The most significant 8 bytes of a wider number are its key. */
static uint64_t number_key(const lk_type *type, const char *at)
{
    uint32_t width = type->width < 8 ? type->width : 8;
    uint64_t value = load(at + (type->width - width), width);
    uint64_t sign = UINT64_C(1) << (8 * width - 1), all = sign | (sign - 1);
    if (lk_type_is_float(type->id)) {
        return (value & sign) != 0 ? ~value & all : value | sign;
    }
    return lk_type_is_unsigned(type->id) ? value : value ^ sign;
}

/* The first bytes after `skip` that all values share. */
static uint64_t text_key(lk_bytes text, size_t skip)
{
    uint64_t key = 0;
    size_t   size = text.size - skip < 8 ? text.size - skip : 8;
    for (size_t i = 0; i < size; i++) {
        key |= (uint64_t)(uint8_t)text.data[skip + i] << (56 - 8 * i);
    }
    return key;
}

static uint64_t key_at(const lk_type *type, const struct ArrowArray *array, int64_t row, size_t skip)
{
    int64_t at = array->offset + row;
    if (is_bytes(type)) {
        return text_key(bytes_at(type, array, row), skip);
    }
    if (type->layout == LK_LAYOUT_BITS) {
        return (((const uint8_t *)array->buffers[1])[at >> 3] >> (at & 7)) & 1;
    }
    return number_key(type, (const char *)array->buffers[1] + (size_t)at * type->width);
}

/* What the keys, which are equal, leave open. */
static int compare_rest(
    const lk_type *type, const struct ArrowArray *a, int64_t row_a, const struct ArrowArray *b, int64_t row_b)
{
    if (fits_key(type)) {
        return 0;
    }
    lk_bytes x = bytes_at(type, a, row_a), y = bytes_at(type, b, row_b);
    if (is_bytes(type)) {
        int order = lk_bytes_compare(x, y);
        return (order > 0) - (order < 0);
    }
    for (size_t at = type->width - 8; at > 0; at -= 8) { /* the lower words of a wide number */
        uint64_t p = lk_load_u64(x.data + at - 8), q = lk_load_u64(y.data + at - 8);
        if (p != q) {
            return p < q ? -1 : 1;
        }
    }
    return 0;
}

int lk_index_compare(
    const lk_type *type, const struct ArrowArray *a, int64_t row_a, const struct ArrowArray *b, int64_t row_b)
{
    bool null_a = lk_index_is_null(a, row_a), null_b = lk_index_is_null(b, row_b);
    if (null_a || null_b) {
        return null_b - null_a;
    }
    uint64_t x = key_at(type, a, row_a, 0), y = key_at(type, b, row_b, 0);
    return x < y ? -1 : x > y ? 1 : compare_rest(type, a, row_a, b, row_b);
}

bool lk_index_is_nan(const lk_type *type, const struct ArrowArray *array, int64_t row)
{
    if (!lk_type_is_float(type->id)) {
        return false;
    }
    const char *at = (const char *)array->buffers[1] + (size_t)(array->offset + row) * type->width;
    uint64_t    value = load(at, type->width);
    uint64_t    infinity = type->width == 2   ? 0x7c00
                           : type->width == 4 ? UINT64_C(0x7f800000)
                                              : UINT64_C(0x7ff0000000000000);
    uint64_t    sign = UINT64_C(1) << (8 * type->width - 1);
    return (value & ~sign) > infinity;
}

uint64_t lk_index_hash(const lk_type *type, const struct ArrowArray *array, int64_t row)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    char     bit = 0;
    lk_bytes bytes = {&bit, 1};
    if (lk_index_is_null(array, row)) {
        return 1;
    }
    if (type->layout == LK_LAYOUT_BITS) {
        bit = (char)key_at(type, array, row, 0);
    } else {
        bytes = bytes_at(type, array, row);
    }
    if (lk_type_is_float(type->id)) { /* every NaN is one value, and so are -0.0 and 0.0 */
        uint64_t sign = UINT64_C(1) << (8 * type->width - 1);
        if (lk_index_is_nan(type, array, row) || (load(bytes.data, type->width) & ~sign) == 0) {
            return lk_index_is_nan(type, array, row) ? 2 : 3;
        }
    }
    for (size_t i = 0; i < bytes.size; i++) {
        hash = (hash ^ (uint8_t)bytes.data[i]) * UINT64_C(1099511628211);
    }
    return hash ^ hash >> 32;
}

/* -- sorting --------------------------------------------------------------------------------------------- */
typedef struct entry {
    uint64_t key;
    int64_t  row;
} entry;

/* How many bytes all values that are not null begin with. */
static size_t shared_prefix(
    const lk_type *type, const struct ArrowArray *array, const entry *entries, size_t count)
{
    if (!is_bytes(type) || count == 0) {
        return 0;
    }
    lk_bytes first = bytes_at(type, array, entries[0].row);
    size_t   shared = first.size;
    for (size_t i = 1; i < count && shared > 0; i++) {
        lk_bytes text = bytes_at(type, array, entries[i].row);
        size_t   same = 0;
        shared = text.size < shared ? text.size : shared;
        while (same < shared && text.data[same] == first.data[same]) {
            same++;
        }
        shared = same;
    }
    return shared;
}

/* By one byte of the key, keeping the order of equal ones; false: it is the same in all. */
static bool sort_byte(const entry *from, entry *to, size_t count, unsigned shift)
{
    size_t starts[BUCKETS] = {0};
    for (size_t i = 0; i < count; i++) {
        starts[from[i].key >> shift & 255]++;
    }
    if (starts[from[0].key >> shift & 255] == count) {
        return false;
    }
    size_t at = 0;
    for (size_t bucket = 0; bucket < BUCKETS; bucket++) {
        size_t size = starts[bucket];
        starts[bucket] = at;
        at += size;
    }
    for (size_t i = 0; i < count; i++) {
        to[starts[from[i].key >> shift & 255]++] = from[i];
    }
    return true;
}

/* Returns which of the two holds the result. */
static entry *sort_keys(entry *entries, entry *spare, size_t count)
{
    for (unsigned shift = 0; shift < 64 && count > 1; shift += 8) {
        if (sort_byte(entries, spare, count, shift)) {
            entry *swapped = entries;
            entries = spare;
            spare = swapped;
        }
    }
    return entries;
}

typedef struct rows {
    const lk_type           *type;
    const struct ArrowArray *array;
} rows;

static int by_rest(const void *a, const void *b, void *context)
{
    const entry *x = a, *y = b;
    const rows  *of = context;
    int          order = compare_rest(of->type, of->array, x->row, of->array, y->row);
    return order != 0 ? order : (x->row > y->row) - (x->row < y->row);
}

static void sort_ties(const lk_type *type, const struct ArrowArray *array, entry *entries, size_t count)
{
    rows of = {type, array};
    for (size_t first = 0, end = 0; first < count; first = end) {
        for (end = first + 1; end < count && entries[end].key == entries[first].key;) {
            end++;
        }
        if (end - first > 1) {
            qsort_r(entries + first, end - first, sizeof *entries, by_rest, &of);
        }
    }
}

void lk_index_sort(const lk_type *type, const struct ArrowArray *array, int64_t *order)
{
    size_t count = (size_t)array->length, nulls = 0, values = 0;
    entry *entries = malloc((2 * count + 1) * sizeof *entries);
    LK_ASSERT(entries != NULL);
    for (int64_t row = 0; row < array->length; row++) {
        if (lk_index_is_null(array, row)) {
            order[nulls++] = row;
        } else {
            entries[values++].row = row;
        }
    }
    size_t skip = shared_prefix(type, array, entries, values);
    for (size_t i = 0; i < values; i++) {
        entries[i].key = key_at(type, array, entries[i].row, skip);
    }
    entry *sorted = sort_keys(entries, entries + count, values);
    if (!fits_key(type)) {
        sort_ties(type, array, sorted, values);
    }
    for (size_t i = 0; i < values; i++) {
        order[nulls + i] = sorted[i].row;
    }
    free(entries);
}
