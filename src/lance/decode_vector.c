/*
 * decode_vector.c - fixed-size lists of structs: each leaf below has `size` rows for every row of the list, and
 * knows, as of the structs around it, whether the list is null.
 *
 * Invariant: all rows of one list say the same of the list and of what is around it; its first is believed.
 */
#include "lance/decode_priv.h"

#include "arrow/bits.h"

#include <stdlib.h>

bool lk_source_is_vector(const lk_field_source *source)
{
    return source->kind == LK_COLUMN_PLAIN && source->child_count == 1 && lk_is_vector(source->field);
}

/* Of the bits of items those of the first item of each list. */
static lk_rc thin(
    lk_decoder *self, lk_validity *validity, uint64_t size, uint64_t rows, lk_validity *out, lk_err *err)
{
    lk_validity made = {0};
    if (validity->bits.data == NULL) {
        *out = made;
        return LK_OK;
    }
    lk_rc rc = lk_buffer_take(self->scratch.pool, rows / 8 + 8, &made.bits, err);
    if (rc != LK_OK) {
        return rc;
    }
    memset(made.bits.data, 0, rows / 8 + 8);
    for (uint64_t row = 0; row < rows; row++) {
        unsigned one = lk_bit(validity->bits.data, (int64_t)(row * size));
        made.bits.data[row / 8] = (uint8_t)(made.bits.data[row / 8] | one << (row % 8));
        made.null_count += !one;
    }
    *out = made;
    return LK_OK;
}

/* A decoder of the lists' items. */
static lk_rc open_items(lk_decoder *self, uint64_t size, lk_decoder *items, lk_err *err)
{
    lk_row_range *ranges = calloc(self->range_count + 1, sizeof *ranges);
    LK_ASSERT(ranges != NULL);
    *items = (lk_decoder){.ranges = ranges,
        .range_count = self->range_count,
        .rows = self->rows * size,
        .rows_each = self->rows_each * size,
        .scratch = self->scratch,
        .local = self->local};
    for (size_t index = 0; index < self->range_count; index++) {
        if (__builtin_mul_overflow(self->ranges[index].start, size, &ranges[index].start)) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "more items of fixed-size lists than can be");
        }
        ranges[index].count = self->ranges[index].count * size;
    }
    return LK_OK;
}

static void close_items(lk_decoder *self, lk_decoder *items)
{
    self->scratch = items->scratch; /* what grew is kept */
    free((void *)(uintptr_t)items->ranges);
}

/* What the items say of the list and of the structs around it, in `told`, becomes what the list's rows say. */
static lk_rc tell(lk_decoder *self, lk_validity *told, uint64_t size, lk_validity *parents,
    size_t parent_count, struct ArrowArray *out, lk_err *err)
{
    lk_validity own = {0};
    lk_rc       rc = thin(self, &told[0], size, self->rows, &own, err);
    if (rc == LK_OK) {
        lk_column_set_validity(out, &own);
    }
    for (size_t parent = 0; rc == LK_OK && parent < parent_count; parent++) {
        lk_buffer_give(&parents[parent].bits);
        rc = thin(self, &told[parent + 1], size, self->rows, &parents[parent], err);
    }
    return rc;
}

lk_rc lk_decode_vector(lk_decoder *self, const lk_field_source *source, lk_validity *parents,
    size_t parent_count, struct ArrowArray *out, lk_err *err)
{
    lk_decoder items = {0};
    lk_buffer  none = {0};
    uint64_t   size = 0;
    if (!lk_source_present(source)) {
        return lk_decode_nulls(self, source->field, self->rows, out, err);
    }
    lk_validity *told = calloc(parent_count + 1, sizeof *told);
    LK_ASSERT(told != NULL);
    lk_rc rc = lk_vector_size(source->field, self->rows, &size, err);
    if (rc == LK_OK) {
        lk_column_node(out, self->rows, 0, &none, 1, 1);
        rc = open_items(self, size, &items, err);
        if (rc == LK_OK) {
            rc = lk_decode_field(&items, &source->children[0], told, parent_count + 1, out->children[0], err);
        }
        close_items(self, &items);
    }
    if (rc == LK_OK) {
        rc = tell(self, told, size, parents, parent_count, out, err);
    }
    for (size_t parent = 0; parent <= parent_count; parent++) {
        lk_buffer_give(&told[parent].bits);
    }
    free(told);
    return rc;
}
