/* column.c - see column.h. */
#include "lance/column.h"

#include "arrow/bits.h"

#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* -- shape ----------------------------------------------------------------------------------------- */
static lk_rc unsupported(const struct ArrowSchema *field, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "column type %s", field->format);
    lk_detail(
        err, "column %s has a type that this build does not read", field->name == NULL ? "" : field->name);
    return rc;
}

/* Walks through fixed-size lists down to the values. */
static lk_rc shape(lk_column *column, lk_err *err)
{
    const struct ArrowSchema *field = column->field;
    uint64_t                  items = 1;
    for (;;) {
        if (!lk_type_of(field, &column->type) || column->type.dictionary) {
            return unsupported(column->field, err);
        }
        if (column->type.layout != LK_LAYOUT_FIXED_LIST) {
            break;
        }
        if (column->level_count == LK_LIST_LEVELS_MAX || column->type.list_size <= 0 ||
            column->type.list_size > UINT32_MAX / 64 / (int64_t)items) {
            return unsupported(column->field, err);
        }
        items *= (uint64_t)column->type.list_size;
        column->levels[column->level_count++] =
            (lk_list_level){(uint32_t)column->type.list_size, items, {{0}, 0}};
        field = field->children[0];
    }
    lk_layout layout = column->type.layout;
    bool      fixed = layout == LK_LAYOUT_BITS || layout == LK_LAYOUT_FIXED;
    if (fixed) {
        uint64_t bits = items * (layout == LK_LAYOUT_BITS ? 1 : column->type.width * 8ULL);
        column->row_bits = (uint32_t)bits;
        return bits == 0 || bits > UINT32_MAX ? unsupported(column->field, err) : LK_OK;
    }
    if (column->level_count > 0 && layout != LK_LAYOUT_NULL) {
        return unsupported(column->field, err);
    }
    column->offset_bytes = layout == LK_LAYOUT_BYTES32 ? 4 : layout == LK_LAYOUT_BYTES64 ? 8 : 0;
    return column->offset_bytes > 0 || layout == LK_LAYOUT_NULL ? LK_OK : unsupported(column->field, err);
}

/* Bytes of values of `rows` rows; a whole word may be written at the end. */
static bool values_size(const lk_column *column, uint64_t rows, uint64_t *size)
{
    bool overflow = column->offset_bytes > 0 ? __builtin_mul_overflow(rows + 1, column->offset_bytes, size)
                                             : __builtin_mul_overflow(rows, column->row_bits, size);
    *size = column->offset_bytes > 0 ? *size : *size / 8 + 8;
    return !overflow;
}

static lk_rc allocate(lk_column *column, lk_err *err)
{
    uint64_t size = 0;
    if (column->type.layout == LK_LAYOUT_NULL) {
        return LK_OK;
    }
    if (!values_size(column, column->capacity, &size)) {
        return lk_fail(err, LK_E_LIMIT, "a column of %llu rows", (unsigned long long)column->capacity);
    }
    lk_rc rc = lk_buffer_take(column->pool, size, &column->values, err);
    if (rc == LK_OK && column->offset_bytes > 0) {
        memset(column->values.data, 0, 8 < size ? 8 : size);
    }
    return rc;
}

static lk_rc extend_bits(
    const lk_column *column, lk_validity *validity, uint64_t items, uint64_t rows, lk_err *err)
{
    return validity->bits.data == NULL ? LK_OK
                                       : lk_buffer_grow(column->pool, &validity->bits,
                                             (column->rows * items + 7) / 8, rows * items / 8 + 8, err);
}

lk_rc lk_column_extend(lk_column *column, uint64_t more, lk_err *err)
{
    uint64_t used = 0, size = 0, rows = column->rows + more;
    if (rows <= column->capacity) {
        return LK_OK;
    }
    rows = rows < 2 * column->capacity ? 2 * column->capacity : rows;
    lk_rc rc = LK_OK;
    if (column->type.layout != LK_LAYOUT_NULL) {
        if (!values_size(column, column->rows, &used) || !values_size(column, rows, &size)) {
            return lk_fail(err, LK_E_LIMIT, "a column of %llu rows", (unsigned long long)rows);
        }
        used = used < column->values.capacity ? used : column->values.capacity;
        rc = lk_buffer_grow(column->pool, &column->values, used, size, err);
    }
    if (rc == LK_OK) {
        rc = extend_bits(column, &column->validity, 1, rows, err);
    }
    for (size_t level = 0; rc == LK_OK && level < column->level_count; level++) {
        lk_list_level *list = &column->levels[level];
        rc = extend_bits(column, &list->validity, list->items, rows, err);
    }
    column->capacity = rc == LK_OK ? rows : column->capacity;
    return rc;
}

lk_rc lk_column_init(lk_column *column, const struct ArrowSchema *field, uint64_t rows, lk_buffer_pool *pool,
    lk_validity *parents, size_t parent_count, lk_err *err)
{
    *column = (lk_column){
        .field = field, .pool = pool, .capacity = rows, .parents = parents, .parent_count = parent_count};
    lk_rc rc = shape(column, err);
    return rc == LK_OK ? allocate(column, err) : rc;
}

void lk_column_deinit(lk_column *column)
{
    lk_buffer_give(&column->values);
    lk_buffer_give(&column->data);
    lk_buffer_give(&column->validity.bits);
    for (size_t level = 0; level < column->level_count; level++) {
        lk_buffer_give(&column->levels[level].validity.bits);
    }
}

lk_rc lk_column_reserve(lk_column *column, uint64_t more, lk_err *err)
{
    uint64_t size = column->data_size + more;
    if (size < more || (column->offset_bytes == 4 && size > INT32_MAX)) {
        return lk_fail(err, LK_E_LIMIT, "more than 2 GiB of text in one batch");
    }
    return lk_buffer_grow(column->pool, &column->data, column->data_size, size, err);
}

/* -- bits ------------------------------------------------------------------------------------------ */
/* Writes `count` (1 to 8) bits at bit `at`; what follows in the last byte becomes zero. */
static void put_byte(uint8_t *bits, uint64_t at, unsigned value, unsigned count)
{
    uint8_t *to = bits + at / 8;
    unsigned shift = (unsigned)(at % 8);
    unsigned kept = to[0] & ((1U << shift) - 1);
    to[0] = (uint8_t)(kept | value << shift);
    if (shift + count > 8) {
        to[1] = (uint8_t)(value >> (8 - shift));
    }
}

static unsigned get_byte(const uint8_t *bits, uint64_t from, unsigned count)
{
    unsigned shift = (unsigned)(from % 8);
    unsigned value = (unsigned)bits[from / 8] >> shift;
    if (shift + count > 8) {
        value |= (unsigned)bits[from / 8 + 1] << (8 - shift);
    }
    return value & ((1U << count) - 1);
}

/* Copies bits; the target's bits from `at` on need not be zero. Returns how many were zero. */
static uint64_t copy_bits(uint8_t *to, uint64_t at, const uint8_t *from, uint64_t start, uint64_t count)
{
    uint64_t ones = 0, done = 0;
    if (at % 8 == 0 && start % 8 == 0) {
        done = count / 8 * 8;
        memcpy(to + at / 8, from + start / 8, done / 8);
        ones = (uint64_t)lk_bits_count(from, (int64_t)start, (int64_t)done);
    }
    while (done < count) {
        unsigned some = count - done < 8 ? (unsigned)(count - done) : 8;
        unsigned value = get_byte(from, start + done, some);
        put_byte(to, at + done, value, some);
        ones += (unsigned)__builtin_popcount(value);
        done += some;
    }
    return count - ones;
}

static void fill_bits(uint8_t *to, uint64_t at, unsigned value, uint64_t count)
{
    uint64_t done = 0;
    while (done < count) {
        unsigned some = count - done < 8 ? (unsigned)(count - done) : 8;
        if ((at + done) % 8 == 0 && count - done >= 8) {
            uint64_t whole = (count - done) / 8;
            memset(to + (at + done) / 8, (int)value, whole);
            done += whole * 8;
            continue;
        }
        put_byte(to, at + done, value & ((1U << some) - 1), some);
        done += some;
    }
}

void lk_column_put_bits(lk_column *column, const uint8_t *bits, uint64_t from, uint64_t count)
{
    if (column->row_bits == 0) { /* lists of nulls */
        return;
    }
    if (column->row_bits % 8 == 0) {
        memcpy(lk_column_next(column), bits + from / 8, count * (column->row_bits / 8));
        return;
    }
    (void)copy_bits(
        column->values.data, column->rows * column->row_bits, bits, from, count * column->row_bits);
}

/* -- validity -------------------------------------------------------------------------------------- */
/* The bitmap comes into being: everything before bit `at` was valid. */
static lk_rc begin(lk_validity *validity, lk_buffer_pool *pool, uint64_t capacity, uint64_t at, lk_err *err)
{
    lk_rc rc = lk_buffer_take(pool, capacity / 8 + 8, &validity->bits, err);
    if (rc == LK_OK) {
        fill_bits(validity->bits.data, 0, 0xff, at);
    }
    return rc;
}

/* The valid bits of eight levels. */
static unsigned below8(const uint16_t *levels, uint16_t threshold)
{
#ifdef __SSE2__
    /* levels and thresholds are far below 2^15, so a signed compare is right */
    __m128i eight = _mm_loadu_si128((const __m128i *)(const void *)levels);
    __m128i below = _mm_cmplt_epi16(eight, _mm_set1_epi16((int16_t)threshold));
    return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(below, _mm_setzero_si128()));
#else
    unsigned bits = 0;
    for (unsigned i = 0; i < 8; i++) {
        bits |= (unsigned)(levels[i] < threshold) << i;
    }
    return bits;
#endif
}

static uint64_t put_levels(
    uint8_t *bits, uint64_t at, const uint16_t *levels, uint64_t count, uint16_t threshold)
{
    uint64_t ones = 0, done = 0;
    for (; done + 8 <= count; done += 8) {
        unsigned eight = below8(levels + done, threshold);
        put_byte(bits, at + done, eight, 8);
        ones += (unsigned)__builtin_popcount(eight);
    }
    for (; done < count; done++) {
        unsigned one = levels[done] < threshold;
        put_byte(bits, at + done, one, 1);
        ones += one;
    }
    return count - ones;
}

static bool all_below(const uint16_t *levels, uint64_t count, uint16_t threshold)
{
    uint16_t highest = 0;
    for (uint64_t at = 0; at < count; at++) {
        highest = levels[at] > highest ? levels[at] : highest;
    }
    return highest < threshold;
}

lk_rc lk_validity_append(lk_validity *validity, lk_buffer_pool *pool, uint64_t capacity, uint64_t at,
    const uint16_t *levels, uint64_t count, uint16_t threshold, lk_err *err)
{
    if (validity->bits.data == NULL) {
        if (all_below(levels, count, threshold)) {
            return LK_OK;
        }
        lk_rc rc = begin(validity, pool, capacity, at, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    validity->null_count += put_levels(validity->bits.data, at, levels, count, threshold);
    return LK_OK;
}

static void append_valid(lk_validity *validity, uint64_t at, uint64_t count)
{
    if (validity->bits.data != NULL) {
        fill_bits(validity->bits.data, at, 0xff, count);
    }
}

static lk_rc append_null(lk_validity *validity, lk_column *column, uint64_t count, lk_err *err)
{
    lk_rc rc = validity->bits.data == NULL
                   ? begin(validity, column->pool, column->capacity, column->rows, err)
                   : LK_OK;
    if (rc == LK_OK) {
        fill_bits(validity->bits.data, column->rows, 0, count);
        validity->null_count += count;
    }
    return rc;
}

lk_rc lk_column_valid(lk_column *column, uint64_t count, lk_err *err)
{
    if (column->type.layout == LK_LAYOUT_NULL && column->level_count == 0) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "values in a column of type null");
    }
    append_valid(&column->validity, column->rows, count);
    for (size_t parent = 0; parent < column->parent_count; parent++) {
        append_valid(&column->parents[parent], column->rows, count);
    }
    column->rows += count;
    return LK_OK;
}

lk_rc lk_column_validity(
    lk_column *column, const uint16_t *levels, uint64_t count, const lk_thresholds *thresholds, lk_err *err)
{
    if (!all_below(levels, count, (uint16_t)(thresholds->max + 1))) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a definition level above %u", thresholds->max);
    }
    lk_rc rc = lk_validity_append(&column->validity, column->pool, column->capacity, column->rows, levels,
        count, thresholds->leaf, err);
    for (size_t parent = 0; rc == LK_OK && parent < column->parent_count; parent++) {
        rc = lk_validity_append(&column->parents[parent], column->pool, column->capacity, column->rows,
            levels, count, thresholds->parents[parent], err);
    }
    column->rows += count;
    return rc;
}

lk_rc lk_column_nulls(
    lk_column *column, uint64_t count, uint16_t level, const lk_thresholds *thresholds, lk_err *err)
{
    lk_column_put_empty(column, count);
    lk_rc rc = LK_OK;
    if (column->type.layout != LK_LAYOUT_NULL || column->level_count > 0) {
        rc = append_null(&column->validity, column, count, err);
    }
    for (size_t parent = 0; rc == LK_OK && parent < column->parent_count; parent++) {
        if (level >= thresholds->parents[parent]) {
            rc = append_null(&column->parents[parent], column, count, err);
        } else {
            append_valid(&column->parents[parent], column->rows, count);
        }
    }
    for (size_t list = 0; rc == LK_OK && list < column->level_count; list++) {
        rc = lk_column_items(column, list, NULL, 0, count, err);
    }
    column->rows += count;
    return rc;
}

static void repeat_offset(lk_column *column, uint64_t count)
{
    uint8_t *to = column->values.data + (column->rows + 1) * column->offset_bytes;
    for (uint64_t row = 0; row < count; row++) {
        memcpy(to + row * column->offset_bytes, &column->data_size, column->offset_bytes);
    }
}

void lk_column_put_empty(lk_column *column, uint64_t count)
{
    if (column->offset_bytes > 0) {
        repeat_offset(column, count);
    } else if (column->row_bits % 8 == 0 && column->row_bits > 0) {
        memset(lk_column_next(column), 0, count * (column->row_bits / 8));
    } else if (column->row_bits > 0) {
        fill_bits(column->values.data, column->rows * column->row_bits, 0, count * column->row_bits);
    }
}

lk_rc lk_validity_put(lk_validity *validity, lk_buffer_pool *pool, uint64_t capacity, uint64_t at,
    const uint8_t *bits, uint64_t from, uint64_t count, lk_err *err)
{
    if (bits == NULL) {
        append_valid(validity, at, count);
        return LK_OK;
    }
    if (validity->bits.data == NULL) {
        if (lk_bits_count(bits, (int64_t)from, (int64_t)count) == (int64_t)count) {
            return LK_OK;
        }
        lk_rc rc = begin(validity, pool, capacity, at, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    validity->null_count += copy_bits(validity->bits.data, at, bits, from, count);
    return LK_OK;
}

lk_rc lk_column_items(
    lk_column *column, size_t level, const uint8_t *bits, uint64_t from, uint64_t rows, lk_err *err)
{
    lk_list_level *list = &column->levels[level];
    return lk_validity_put(&list->validity, column->pool, column->capacity * list->items,
        column->rows * list->items, bits, from, rows * list->items, err);
}

static uint64_t offset_of(const lk_column *column, uint64_t row)
{
    uint64_t offset = 0;
    memcpy(&offset, column->values.data + row * column->offset_bytes, column->offset_bytes);
    return offset;
}

/* The offsets of the texts' ends, `width` bytes each, moved to where the column's data ends. */
static inline __attribute__((always_inline)) void copy_ends(
    lk_column *column, const lk_column *from, uint64_t start, uint64_t count, uint32_t width)
{
    uint64_t       shift = column->data_size - offset_of(from, start);
    const uint8_t *in = from->values.data + (start + 1) * width;
    uint8_t       *out = column->values.data + (column->rows + 1) * width;
    for (uint64_t row = 0; row < count; row++) {
        uint64_t end = 0;
        memcpy(&end, in + row * width, width);
        end += shift;
        memcpy(out + row * width, &end, width);
    }
}

static lk_rc copy_text(lk_column *column, const lk_column *from, uint64_t start, uint64_t count, lk_err *err)
{
    uint64_t first = offset_of(from, start), last = offset_of(from, start + count);
    lk_rc    rc = lk_column_reserve(column, last - first, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (column->offset_bytes == 4) {
        copy_ends(column, from, start, count, 4);
    } else {
        copy_ends(column, from, start, count, 8);
    }
    memcpy(column->data.data + column->data_size, from->data.data + first, (size_t)(last - first));
    column->data_size += last - first;
    return LK_OK;
}

lk_rc lk_column_copy(lk_column *column, const lk_column *from, uint64_t start, uint64_t count, lk_err *err)
{
    for (size_t level = 0; level < from->level_count; level++) {
        const lk_list_level *list = &from->levels[level];
        lk_rc rc = lk_column_items(column, level, list->validity.bits.data, start * list->items, count, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    if (column->offset_bytes > 0) {
        return copy_text(column, from, start, count, err);
    }
    lk_column_put_bits(column, from->values.data, start * from->row_bits, count);
    return LK_OK;
}

lk_rc lk_column_put(lk_column *column, lk_bytes value, lk_err *err)
{
    if (column->offset_bytes > 0) {
        lk_rc rc = lk_column_reserve(column, value.size, err);
        if (rc != LK_OK) {
            return rc;
        }
        if (value.size > 0) {
            memcpy(column->data.data + column->data_size, value.data, value.size);
        }
        column->data_size += value.size;
        repeat_offset(column, 1);
        return LK_OK;
    }
    if (value.size != (column->row_bits + 7) / 8 || value.size == 0) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a value of %zu bytes in a column of %u bits", value.size,
            column->row_bits);
    }
    lk_column_put_bits(column, (const uint8_t *)value.data, 0, 1);
    return LK_OK;
}

/* -- arrays ---------------------------------------------------------------------------------------- */
typedef struct node {
    lk_buffer          buffers[3];
    const void        *pointers[3];
    struct ArrowArray  dictionary;
    struct ArrowArray *children[];
} node;

static void release(struct ArrowArray *array)
{
    node *self = array->private_data;
    for (int64_t child = 0; child < array->n_children; child++) {
        if (array->children[child]->release != NULL) {
            array->children[child]->release(array->children[child]);
        }
        free(array->children[child]);
    }
    if (self->dictionary.release != NULL) {
        self->dictionary.release(&self->dictionary);
    }
    for (size_t i = 0; i < 3; i++) {
        lk_buffer_give(&self->buffers[i]);
    }
    free(self);
    array->release = NULL;
}

void lk_column_node(struct ArrowArray *out, uint64_t length, uint64_t null_count, lk_buffer *buffers,
    size_t buffer_count, size_t child_count)
{
    node *self = calloc(1, sizeof *self + child_count * sizeof self->children[0]);
    LK_ASSERT(self != NULL);
    for (size_t i = 0; i < buffer_count; i++) {
        self->buffers[i] = buffers[i];
        self->pointers[i] = buffers[i].data;
        buffers[i] = (lk_buffer){0};
    }
    for (size_t child = 0; child < child_count; child++) {
        self->children[child] = calloc(1, sizeof *self->children[child]);
        LK_ASSERT(self->children[child] != NULL);
    }
    *out = (struct ArrowArray){.length = (int64_t)length,
        .null_count = (int64_t)null_count,
        .n_buffers = (int64_t)buffer_count,
        .n_children = (int64_t)child_count,
        .buffers = self->pointers,
        .children = child_count > 0 ? self->children : NULL,
        .release = release,
        .private_data = self};
}

void lk_column_set_validity(struct ArrowArray *array, lk_validity *validity)
{
    node *self = array->private_data;
    self->buffers[0] = validity->bits;
    self->pointers[0] = validity->bits.data;
    array->null_count = (int64_t)validity->null_count;
    *validity = (lk_validity){0};
}

void lk_column_set_dictionary(struct ArrowArray *array, struct ArrowArray *dictionary)
{
    node *self = array->private_data;
    self->dictionary = *dictionary;
    dictionary->release = NULL;
    array->dictionary = &self->dictionary;
}

static void finish_values(lk_column *column, lk_validity *validity, uint64_t length, struct ArrowArray *out)
{
    if (column->type.layout ==
        LK_LAYOUT_NULL) { /* nulls have no bitmap, items of a list that are nulls had one */
        lk_buffer_give(&validity->bits);
    }
    lk_buffer buffers[3] = {validity->bits, column->values, column->data};
    size_t    count = column->type.layout == LK_LAYOUT_NULL ? 0 : column->offset_bytes > 0 ? 3 : 2;
    lk_column_node(out, length, count == 0 ? length : validity->null_count, buffers, count, 0);
    validity->bits = column->values = column->data = (lk_buffer){0};
}

void lk_column_finish(lk_column *column, struct ArrowArray *out)
{
    lk_validity *validity = &column->validity;
    uint64_t     length = column->rows;
    for (size_t level = 0; level < column->level_count; level++) {
        lk_column_node(out, length, validity->null_count, &validity->bits, 1, 1);
        validity = &column->levels[level].validity;
        length = column->rows * column->levels[level].items;
        out = out->children[0];
    }
    finish_values(column, validity, length, out);
    lk_column_deinit(column);
}
