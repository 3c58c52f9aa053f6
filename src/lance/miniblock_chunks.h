#ifndef LK_LANCE_MINIBLOCK_CHUNKS_H
#define LK_LANCE_MINIBLOCK_CHUNKS_H
/*
 * miniblock_chunks.h - the chunks of a mini-block page that hold some rows, read in groups and opened one after the
 * other: what pages with lists (miniblock_lists.c) and without (miniblock.c) share.
 *
 * Invariants:
 *   1. Only chunks that a range touches are read, and what lies between two of them that are close together.
 *   2. At most LK_CHUNK_GROUP_BYTES are held at a time, or one chunk.
 * Threads: confined.
 */
#include "lance/file_priv.h"

enum { LK_CHUNK_GROUP_BYTES = 256 * 1024 };

/* Chunks [first, end). */
typedef struct lk_chunk_run {
    size_t first, end;
    size_t at; /* of runs that are read: in scratch->bytes */
} lk_chunk_run;

typedef struct lk_chunks {
    const lk_page_rows *rows;
    lk_chunk_run       *wanted; /* by range */
    lk_chunk_run       *read;   /* the group in scratch->bytes */
    lk_chunk_run        one[2]; /* where both lie when there is one range */
    size_t              read_count, run;
    size_t              chunk; /* the open one; SIZE_MAX: none */
    lk_chunk            parts; /* its values and levels */
    lk_chunk_levels     levels;
    bool                whole; /* it is decoded, into `decoded` */
    lk_column           decoded;
} lk_chunks;

/* Gives the chunks that a range of rows touches; *first < *end <= chunk_count. */
typedef lk_rc (*lk_chunks_locate)(
    const lk_page_rows *rows, const lk_row_range *range, size_t *first, size_t *end, lk_err *err);

/* rows is borrowed until deinit. On error nothing is held. */
LK_MUST_CHECK lk_rc lk_chunks_init(
    lk_chunks *self, const lk_page_rows *rows, lk_chunks_locate locate, lk_err *err);
void lk_chunks_deinit(lk_chunks *self);

/* Opens a chunk that range number `range` touches: never one before the last. *fresh: it was not open already. */
LK_MUST_CHECK lk_rc lk_chunks_open(lk_chunks *self, size_t range, size_t chunk, bool *fresh, lk_err *err);

/* Writes values [start, start + count) of the open chunk behind the column's rows, for range number `range`. */
LK_MUST_CHECK lk_rc lk_chunks_append(
    lk_chunks *self, size_t range, uint32_t start, uint32_t count, lk_err *err);

#endif
