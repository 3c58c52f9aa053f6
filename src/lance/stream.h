#ifndef LK_LANCE_STREAM_H
#define LK_LANCE_STREAM_H
/*
 * stream.h - a leaf column inside lists, on its way to an Arrow array: one entry a value, and one for every null
 * or empty list, each with a repetition and a definition level.
 *
 * Levels here do not depend on the page they came from. Layers are counted from the leaf (0) outwards.
 *   rep: `lists` starts a row, k a list of the k-th list layer from inside (1 = innermost), 0 the next item
 *   def: 0 valid; 1 + 2 * layer: null at that layer; 2 + 2 * layer: an empty list there
 *
 * Invariants: the first entry starts a row; values has a row for every entry whose def lies below the innermost
 * list (visible). A *slot* of a layer is an entry that starts one of the layer's values. Where there is one list
 * around the leaf the stream is *flat*: its entries become offsets and validity as they come (list_rows.h).
 * Threads: confined.
 */
#include "lance/list_rows.h"

typedef struct lk_stream {
    bool      is_list[LK_LAYERS_MAX]; /* by layer */
    size_t    layer_count;
    unsigned  lists;    /* how many of the layers are lists */
    lk_buffer rep, def; /* u16 */
    uint64_t  count;    /* entries */
    bool      has_defs; /* some entry is no valid value: a null or an empty list */
    uint64_t  rows;     /* entries that start one */
    lk_column values;

    bool         is_flat; /* one list around the leaf: its rows grow here, and no level is kept */
    lk_list_rows flat;
    lk_buffer    marks; /* of pages that have levels word by word */
} lk_stream;

/* Layers are set; `rows` of the field will come, in an array whose innermost list has offsets of so many bytes. */
LK_MUST_CHECK lk_rc lk_stream_begin(
    lk_stream *stream, uint64_t rows, unsigned offset_bytes, lk_buffer_pool *pool, lk_err *err);

void lk_stream_deinit(lk_stream *stream); /* idempotent */

/* Whether a page's layers are the stream's. LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_stream_check(const lk_stream *stream, const lk_page_layout *layout, lk_err *err);

/* Appends entries of a page; rep and def as it has them, NULL: all zero. There is room for their values. */
LK_MUST_CHECK lk_rc lk_stream_append(lk_stream *stream, const lk_page_layout *layout, const uint16_t *rep,
    const uint16_t *def, uint64_t count, lk_err *err);

/* The same of a flat stream: entries [first, end) of marks. */
LK_MUST_CHECK lk_rc lk_stream_append_marks(
    lk_stream *stream, const lk_marks *marks, uint64_t first, uint64_t end, lk_err *err);

/* How many slots a layer has. */
uint64_t lk_stream_slots(const lk_stream *stream, size_t layer);

/* The validity of a layer's slots. Of a flat stream it can be had once. */
LK_MUST_CHECK lk_rc lk_stream_validity(lk_stream *stream, size_t layer, lk_validity *out, lk_err *err);

/* The offsets of a list layer's slots, 4 or 8 bytes each: one more than there are. Of a flat stream they can be had
 * once. LK_E_LIMIT when they do not fit. */
LK_MUST_CHECK lk_rc lk_stream_offsets(
    lk_stream *stream, size_t layer, unsigned width, lk_buffer *out, lk_err *err);

#endif
