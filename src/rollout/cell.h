#ifndef LK_ROLLOUT_CELL_H
#define LK_ROLLOUT_CELL_H
/* cell.h - one value of a column of an Arrow array: what keys, ids and conditions are read with. Threads: stateless. */
#include "arrow/batch.h"

/* Whether the row has a value. */
static inline bool lk_cell_valid(const struct ArrowArray *column, int64_t row)
{
    const uint8_t *valid = column->null_count == 0 ? NULL : column->buffers[0];
    return valid == NULL || ArrowBitGet(valid, column->offset + row) != 0;
}

/* The bytes of a row of a utf8 column; borrowed. */
static inline lk_bytes lk_cell_text(const struct ArrowArray *column, int64_t row)
{
    const int32_t *offsets = (const int32_t *)column->buffers[1] + column->offset + row;
    return (lk_bytes){(const char *)column->buffers[2] + offsets[0], (size_t)(offsets[1] - offsets[0])};
}

/* The bytes of a row of a large_binary or large_utf8 column; borrowed. */
static inline lk_bytes lk_cell_large(const struct ArrowArray *column, int64_t row)
{
    const int64_t *offsets = (const int64_t *)column->buffers[1] + column->offset + row;
    return (lk_bytes){(const char *)column->buffers[2] + offsets[0], (size_t)(offsets[1] - offsets[0])};
}

#endif
