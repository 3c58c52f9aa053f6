/*
 * gather.c - see gather_priv.h. Two passes per buffer: how much, then the copy; so every buffer is taken
 * once at its final size.
 *
 * Short ranges dominate real filters, so they are copied in whole vectors (and offsets four at once) while the
 * source has that many left: the surplus is overwritten by the next range, or lands in the block's slack and is
 * cleared at the end. This trades mispredicted branches for a few stores.
 */
#include "arrow/gather_priv.h"

#include "arrow/bits.h"

#include <stdlib.h>

enum { VECTOR_BYTES = 32, SHORT_BYTES = 256, ENDS_AT_ONCE = 4 };

static inline int64_t first_row(const lk_segment *segment, size_t r)
{
    return segment->ranges[r].start * segment->scale + segment->shift + segment->array->offset;
}

static inline int64_t range_rows(const lk_segment *segment, size_t r)
{
    return segment->ranges[r].length * segment->scale;
}

static inline bool range_is_null(const lk_segment *segment, size_t r)
{
    return segment->ranges[r].start < 0;
}

/* Copies size bytes from in + at; in holds in_size. Whole vectors while the source has them. */
static inline void copy_short(uint8_t *out, const uint8_t *in, size_t in_size, size_t at, size_t size)
{
    if (size <= SHORT_BYTES && at + size + VECTOR_BYTES <= in_size) {
        for (size_t done = 0; done < size; done += VECTOR_BYTES) {
            memcpy(out + done, in + at + done, VECTOR_BYTES);
        }
    } else if (size > 0) {
        memcpy(out, in + at, size);
    }
}

/* -- bits -------------------------------------------------------------------------------------------- */

/* bits == NULL: ones. Null ranges leave zeros. */
static void copy_bits(const lk_segment *segment, const uint8_t *bits, uint8_t *out, int64_t at)
{
    for (size_t r = 0; r < segment->count; r++) {
        int64_t rows = range_rows(segment, r);
        if (!range_is_null(segment, r)) {
            lk_bits_copy(bits, first_row(segment, r), out, at, rows);
        }
        at += rows;
    }
}

static bool needs_validity(const lk_segment *segments, size_t count)
{
    for (size_t s = 0; s < count; s++) {
        if (segments[s].nulls || (segments[s].array != NULL && lk_array_may_hold_nulls(segments[s].array))) {
            return true;
        }
    }
    return false;
}

static lk_rc gather_validity(const lk_segment *segments, size_t count, struct ArrowArray *out, lk_err *err)
{
    if (!needs_validity(segments, count)) {
        return LK_OK;
    }
    void *block = NULL;
    lk_rc rc = lk_block_zero(lk_bits_size(out->length), &block, err);
    if (rc != LK_OK) {
        return rc;
    }
    int64_t at = 0;
    for (size_t s = 0; s < count; s++) {
        copy_bits(
            &segments[s], segments[s].array == NULL ? NULL : lk_array_validity(segments[s].array), block, at);
        at += segments[s].rows;
    }
    out->null_count = out->length - lk_bits_count(block, 0, out->length);
    if (out->null_count == 0) {
        free(block);
    } else {
        lk_array_own(out, 0, block);
    }
    return LK_OK;
}

static lk_rc gather_bools(const lk_segment *segments, size_t count, struct ArrowArray *out, lk_err *err)
{
    void *block = NULL;
    lk_rc rc = lk_block_zero(lk_bits_size(out->length), &block, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_array_own(out, 1, block);
    int64_t at = 0;
    for (size_t s = 0; s < count; s++) {
        if (segments[s].array != NULL) {
            copy_bits(&segments[s], segments[s].array->buffers[1], block, at);
        }
        at += segments[s].rows;
    }
    return LK_OK;
}

/* -- fixed width ------------------------------------------------------------------------------------- */

static uint8_t *copy_fixed(const lk_segment *segment, size_t width, uint8_t *out)
{
    const struct ArrowArray *array = segment->array;
    const uint8_t           *in = array == NULL ? NULL : array->buffers[1];
    size_t                   in_size = array == NULL ? 0 : (size_t)(array->offset + array->length) * width;
    for (size_t r = 0; r < segment->count; r++) {
        size_t size = (size_t)range_rows(segment, r) * width;
        if (range_is_null(segment, r)) {
            memset(out, 0, size);
        } else {
            copy_short(out, in, in_size, (size_t)first_row(segment, r) * width, size);
        }
        out += size;
    }
    return out;
}

static lk_rc gather_fixed(
    const lk_segment *segments, size_t count, size_t width, struct ArrowArray *out, lk_err *err)
{
    void  *block = NULL;
    size_t size = 0;
    if (__builtin_mul_overflow((size_t)out->length, width, &size)) {
        return lk_fail(err, LK_E_LIMIT, "%lld values of %zu bytes", (long long)out->length, width);
    }
    lk_rc rc = lk_block_new(size, &block, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_array_own(out, 1, block);
    uint8_t *at = block;
    for (size_t s = 0; s < count; s++) {
        at = copy_fixed(&segments[s], width, at);
    }
    memset(at, 0, VECTOR_BYTES);
    return LK_OK;
}

/* -- offsets ----------------------------------------------------------------------------------------- */

static inline int64_t offset_at(const void *offsets, bool wide, int64_t index)
{
    return wide ? ((const int64_t *)offsets)[index] : ((const int32_t *)offsets)[index];
}

static inline __attribute__((always_inline)) void write_end(
    void *out, bool wide, int64_t row, int64_t position)
{
    if (wide) {
        ((int64_t *)out)[row + 1] = position;
    } else {
        ((int32_t *)out)[row + 1] = (int32_t)position;
    }
}

/* The ends of rows [first, first + rows), moved by shift; rows before `limit` may be read. */
static inline __attribute__((always_inline)) void copy_ends(const void *offsets, bool wide, int64_t first,
    int64_t rows, int64_t limit, int64_t shift, void *out, int64_t row)
{
    int64_t done = 0;
    if (first + rows + ENDS_AT_ONCE <= limit) {
        for (; done < rows; done += ENDS_AT_ONCE) {
            for (int64_t i = 0; i < ENDS_AT_ONCE; i++) {
                write_end(out, wide, row + done + i, offset_at(offsets, wide, first + done + i + 1) + shift);
            }
        }
        return;
    }
    for (; done < rows; done++) {
        write_end(out, wide, row + done, offset_at(offsets, wide, first + done + 1) + shift);
    }
}

/* Writes the offsets of the segment's rows (ends only) and returns the position after them. */
static inline __attribute__((always_inline)) int64_t write_ends(
    const lk_segment *segment, bool wide, void *out, int64_t row, int64_t position)
{
    const struct ArrowArray *array = segment->array;
    for (size_t r = 0; r < segment->count; r++) {
        int64_t rows = range_rows(segment, r);
        if (range_is_null(segment, r)) {
            for (int64_t i = 0; i < rows; i++) {
                write_end(out, wide, row + i, position);
            }
        } else if (rows > 0) {
            const void *offsets = array->buffers[1];
            int64_t     first = first_row(segment, r), start = offset_at(offsets, wide, first);
            copy_ends(offsets, wide, first, rows, array->offset + array->length, position - start, out, row);
            position += offset_at(offsets, wide, first + rows) - start;
        }
        row += rows;
    }
    return position;
}

/* Fills buffers[1]; *total is the last offset. Narrow ends that overflow are written wrong, and then refused. */
static lk_rc gather_offsets(
    const lk_segment *segments, size_t count, bool wide, struct ArrowArray *out, int64_t *total, lk_err *err)
{
    size_t size = ((size_t)out->length + 1) * (wide ? 8 : 4);
    void  *block = NULL;
    lk_rc  rc = lk_block_new(size, &block, err);
    *total = 0;
    if (rc != LK_OK) {
        return rc;
    }
    lk_array_own(out, 1, block);
    memset(block, 0, wide ? 8 : 4);
    int64_t row = 0;
    for (size_t s = 0; s < count; s++) {
        *total = wide ? write_ends(&segments[s], true, block, row, *total)
                      : write_ends(&segments[s], false, block, row, *total);
        row += segments[s].rows;
    }
    memset((char *)block + size, 0, VECTOR_BYTES);
    if (*total > (wide ? LK_ARRAY_ROWS_MAX : INT32_MAX)) {
        return lk_fail(err, LK_E_LIMIT, "%lld bytes or items in one array", (long long)*total);
    }
    return LK_OK;
}

static inline __attribute__((always_inline)) uint8_t *copy_bytes(
    const lk_segment *segment, bool wide, uint8_t *out)
{
    const struct ArrowArray *array = segment->array;
    if (array == NULL || array->length == 0) {
        return out;
    }
    const void    *offsets = array->buffers[1];
    const uint8_t *in = array->buffers[2];
    size_t         in_size = (size_t)offset_at(offsets, wide, array->offset + array->length);
    for (size_t r = 0; r < segment->count; r++) {
        if (range_is_null(segment, r)) {
            continue;
        }
        int64_t first = first_row(segment, r);
        size_t  from = (size_t)offset_at(offsets, wide, first);
        size_t  size = (size_t)offset_at(offsets, wide, first + range_rows(segment, r)) - from;
        copy_short(out, in, in_size, from, size);
        out += size;
    }
    return out;
}

static lk_rc gather_bytes(
    const lk_segment *segments, size_t count, bool wide, struct ArrowArray *out, lk_err *err)
{
    int64_t total = 0;
    void   *block = NULL;
    lk_rc   rc = gather_offsets(segments, count, wide, out, &total, err);
    if (rc == LK_OK) {
        rc = lk_block_new((size_t)total, &block, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    lk_array_own(out, 2, block);
    uint8_t *at = block;
    for (size_t s = 0; s < count; s++) {
        at = wide ? copy_bytes(&segments[s], true, at) : copy_bytes(&segments[s], false, at);
    }
    memset(at, 0, VECTOR_BYTES);
    return LK_OK;
}

/* -- nested ------------------------------------------------------------------------------------------ */

static lk_segment *segments_new(size_t count)
{
    lk_segment *segments = calloc(count + 1, sizeof *segments);
    if (segments == NULL) {
        abort();
    }
    return segments;
}

/* One segment's rows in a child that holds `factor` rows for each; false when they are too many. */
static bool scale_segment(const lk_segment *segment, int64_t child, int64_t factor, lk_segment *out)
{
    const struct ArrowArray *array = segment->array;
    *out = *segment;
    out->array = array == NULL ? NULL : array->children[child];
    out->shift = segment->shift + (array == NULL ? 0 : array->offset);
    return !__builtin_mul_overflow(out->shift, factor, &out->shift) &&
           !__builtin_mul_overflow(segment->scale, factor, &out->scale) &&
           !__builtin_mul_overflow(segment->rows, factor, &out->rows);
}

/* Rows of a child that lies under each row `factor` times: 1 for structs, list_size for fixed lists. */
static lk_rc gather_scaled(const struct ArrowSchema *schema, const lk_segment *segments, size_t count,
    int64_t child, int64_t factor, struct ArrowArray *out, lk_err *err)
{
    lk_segment *below = segments_new(count);
    bool        fits = true;
    for (size_t s = 0; fits && s < count; s++) {
        fits = scale_segment(&segments[s], child, factor, &below[s]);
    }
    lk_rc rc = fits ? lk_gather(schema->children[child], below, count, out->children[child], err)
                    : lk_fail(err, LK_E_LIMIT, "fixed-size lists of %lld items", (long long)factor);
    free(below);
    return rc;
}

static lk_rc gather_struct(const struct ArrowSchema *schema, const lk_segment *segments, size_t count,
    struct ArrowArray *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (int64_t i = 0; rc == LK_OK && i < schema->n_children; i++) {
        rc = gather_scaled(schema, segments, count, i, 1, out, err);
    }
    return rc;
}

/* The item ranges of a list segment; *ranges is a new block. */
static lk_rc item_ranges(
    const lk_segment *segment, bool wide, lk_segment *out, lk_range **ranges, lk_err *err)
{
    lk_range *to = malloc((segment->count + 1) * sizeof *to);
    if (to == NULL) {
        return lk_fail(err, LK_E_LIMIT, "no memory for %zu ranges", segment->count);
    }
    *ranges = to;
    *out = (lk_segment){.ranges = to, .scale = 1};
    if (segment->array == NULL) {
        return LK_OK;
    }
    const void *offsets = segment->array->buffers[1];
    out->array = segment->array->children[0];
    for (size_t r = 0; r < segment->count; r++) {
        int64_t rows = range_rows(segment, r);
        if (range_is_null(segment, r) || rows == 0) {
            continue;
        }
        int64_t start = offset_at(offsets, wide, first_row(segment, r));
        int64_t end = offset_at(offsets, wide, first_row(segment, r) + rows);
        if (end > start) {
            to[out->count++] = (lk_range){start, end - start};
            out->rows += end - start;
        }
    }
    return LK_OK;
}

static lk_rc gather_list(const struct ArrowSchema *schema, const lk_segment *segments, size_t count,
    bool wide, struct ArrowArray *out, lk_err *err)
{
    int64_t total = 0;
    lk_rc   rc = gather_offsets(segments, count, wide, out, &total, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_segment *below = segments_new(count);
    lk_range  **ranges = calloc(count + 1, sizeof *ranges);
    if (ranges == NULL) {
        abort();
    }
    for (size_t s = 0; rc == LK_OK && s < count; s++) {
        rc = item_ranges(&segments[s], wide, &below[s], &ranges[s], err);
    }
    if (rc == LK_OK) {
        rc = lk_gather(schema->children[0], below, count, out->children[0], err);
    }
    for (size_t s = 0; s < count; s++) {
        free(ranges[s]);
    }
    free(ranges);
    free(below);
    return rc;
}

/* -- dictionaries ------------------------------------------------------------------------------------ */

static bool same_dictionary(const struct ArrowArray *a, const struct ArrowArray *b)
{
    if (a == b) {
        return true;
    }
    if (a->length != b->length || a->offset != b->offset || a->n_buffers != b->n_buffers) {
        return false;
    }
    for (int64_t i = 0; i < a->n_buffers; i++) {
        if (a->buffers[i] != b->buffers[i]) {
            return false;
        }
    }
    return a->n_children == 0 && a->dictionary == NULL;
}

static void add_base(const lk_type *type, void *indices, int64_t start, int64_t rows, uint64_t base)
{
    for (int64_t i = start; i < start + rows; i++) {
        switch (type->width) {
        case 1: {
            uint8_t *at = (uint8_t *)indices + i;
            *at = (uint8_t)(*at + base);
            break;
        }
        case 2: {
            uint16_t *at = (uint16_t *)indices + i;
            *at = (uint16_t)(*at + base);
            break;
        }
        case 4:
            ((uint32_t *)indices)[i] += (uint32_t)base;
            break;
        default:
            ((uint64_t *)indices)[i] += base;
        }
    }
}

/* How many values the index type can name. */
static uint64_t index_capacity(const lk_type *type)
{
    unsigned bits = type->width * 8 - (lk_type_is_signed(type->id) ? 1 : 0);
    return bits >= 63 ? INT64_MAX : 1ULL << bits;
}

/* One entry per run of segments that share a dictionary; indices are moved up by what lies before. */
static lk_rc gather_dictionary(const struct ArrowSchema *schema, const lk_type *type,
    const lk_segment *segments, size_t count, struct ArrowArray *out, lk_err *err)
{
    lk_segment *parts = segments_new(count);
    lk_range   *whole = calloc(count + 1, sizeof *whole);
    if (whole == NULL) {
        abort();
    }
    size_t                   part_count = 0;
    int64_t                  row = 0, base = 0, next = 0;
    const struct ArrowArray *last = NULL;
    for (size_t s = 0; s < count; s++) {
        const struct ArrowArray *values = segments[s].array == NULL ? NULL : segments[s].array->dictionary;
        if (values != NULL && (last == NULL || !same_dictionary(last, values))) {
            base = next;
            next += values->length;
            whole[part_count] = (lk_range){0, values->length};
            parts[part_count] = (lk_segment){.array = values,
                .ranges = &whole[part_count],
                .count = 1,
                .scale = 1,
                .rows = values->length};
            part_count++;
            last = values;
        }
        if (values != NULL && base > 0) {
            add_base(type, (void *)(uintptr_t)out->buffers[1], row, segments[s].rows, (uint64_t)base);
        }
        row += segments[s].rows;
    }
    lk_rc rc = LK_OK;
    if ((uint64_t)next > index_capacity(type)) {
        rc = lk_fail(
            err, LK_E_LIMIT, "%lld dictionary values, more than the index type can name", (long long)next);
    } else {
        rc = lk_gather(schema->dictionary, parts, part_count, out->dictionary, err);
    }
    free(whole);
    free(parts);
    return rc;
}

/* -- all types --------------------------------------------------------------------------------------- */

static lk_rc gather_values(const struct ArrowSchema *schema, const lk_type *type, const lk_segment *segments,
    size_t count, struct ArrowArray *out, lk_err *err)
{
    switch (type->layout) {
    case LK_LAYOUT_NULL:
        out->null_count = out->length;
        return LK_OK;
    case LK_LAYOUT_BITS:
        return gather_bools(segments, count, out, err);
    case LK_LAYOUT_FIXED:
        return gather_fixed(segments, count, type->width, out, err);
    case LK_LAYOUT_BYTES32:
    case LK_LAYOUT_BYTES64:
        return gather_bytes(segments, count, type->layout == LK_LAYOUT_BYTES64, out, err);
    case LK_LAYOUT_LIST32:
    case LK_LAYOUT_LIST64:
        return gather_list(schema, segments, count, type->layout == LK_LAYOUT_LIST64, out, err);
    case LK_LAYOUT_FIXED_LIST:
        return gather_scaled(schema, segments, count, 0, type->list_size, out, err);
    case LK_LAYOUT_STRUCT:
        return gather_struct(schema, segments, count, out, err);
    }
    return lk_fail(err, LK_E_INTERNAL, "layout %d", (int)type->layout);
}

lk_rc lk_gather(const struct ArrowSchema *schema, const lk_segment *segments, size_t count,
    struct ArrowArray *out, lk_err *err)
{
    lk_type type;
    out->release = NULL;
    if (!lk_type_of(schema, &type)) {
        return lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "Arrow format %s", schema->format);
    }
    int64_t rows = 0;
    for (size_t s = 0; s < count; s++) {
        rows += segments[s].rows;
    }
    if (rows > LK_ARRAY_ROWS_MAX) {
        return lk_fail(err, LK_E_LIMIT, "%lld rows in one array", (long long)rows);
    }
    struct ArrowArray array;
    lk_array_start(&array, rows, lk_layout_buffers(type.layout), type.dictionary ? 0 : schema->n_children,
        type.dictionary);
    lk_rc rc = type.layout == LK_LAYOUT_NULL ? LK_OK : gather_validity(segments, count, &array, err);
    if (rc == LK_OK) {
        rc = gather_values(schema, &type, segments, count, &array, err);
    }
    if (rc == LK_OK && type.dictionary) {
        rc = gather_dictionary(schema, &type, segments, count, &array, err);
    }
    if (rc != LK_OK) {
        lk_array_release(&array);
        return rc;
    }
    lk_array_move(&array, out);
    return LK_OK;
}
