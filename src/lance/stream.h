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
 * list (visible). A *slot* of a layer is an entry that starts one of the layer's values.
 * Threads: confined.
 */
#include "lance/column.h"

typedef struct lk_stream {
    bool      is_list[LK_LAYERS_MAX]; /* by layer */
    size_t    layer_count;
    unsigned  lists;    /* how many of the layers are lists */
    lk_buffer rep, def; /* u16 */
    uint64_t  count;    /* entries */
    bool      has_defs; /* some entry is no valid value: a null or an empty list */
    uint64_t  rows;     /* entries that start one */
    lk_column values;
} lk_stream;

void lk_stream_deinit(lk_stream *stream); /* idempotent */

/* Whether a page's layers are the stream's. LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_stream_check(const lk_stream *stream, const lk_page_layout *layout, lk_err *err);

/* Appends entries of a page; rep and def as it has them, NULL: all zero. */
LK_MUST_CHECK lk_rc lk_stream_append(lk_stream *stream, const lk_page_layout *layout, const uint16_t *rep,
    const uint16_t *def, uint64_t count, lk_err *err);

/* Which entries are slots of a layer: rep of at least `rep`, def below `def`. */
typedef struct lk_slots {
    uint16_t rep, def;
} lk_slots;
lk_slots lk_stream_slots(const lk_stream *stream, size_t layer);
uint64_t lk_stream_count(const lk_stream *stream, lk_slots slots);

/* The validity of a layer's slots. */
LK_MUST_CHECK lk_rc lk_stream_validity(const lk_stream *stream, size_t layer, lk_validity *out, lk_err *err);

/* The offsets of a list layer's slots, 4 or 8 bytes each: one more than there are. LK_E_LIMIT when they do
 * not fit. */
LK_MUST_CHECK lk_rc lk_stream_offsets(
    const lk_stream *stream, size_t layer, unsigned width, lk_buffer *out, lk_err *err);

#endif
