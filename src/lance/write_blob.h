#ifndef LK_LANCE_WRITE_BLOB_H
#define LK_LANCE_WRITE_BLOB_H
/*
 * write_blob.h - where the bytes of blobs go while a data file is written (blob.h: how they are found again): small
 * ones into the data file, larger ones into files beside it, which are durable before the data file is.
 *
 * Invariant: a side file is named by the data file alone; abandoning the writer removes those that were made.
 * Threads: confined.
 */
#include "base/bytes.h"
#include "lance/blob.h"

/* Writes bytes into the data file, at a multiple of 64. */
typedef lk_rc lk_blob_put(void *file, lk_bytes bytes, uint64_t *position, lk_err *err);

typedef struct lk_blob_writer {
    lk_store        *store;
    lk_bytes         key; /* of the data file */
    lk_blob_put     *put;
    void            *file;
    lk_store_writer *pack;      /* the packed file at hand */
    uint32_t         pack_id;   /* of it */
    uint64_t         pack_size; /* so far */
    uint32_t         last_id;   /* side files are numbered from 1 */
} lk_blob_writer;

/* Sizes that decide, by the field's metadata or the reference's defaults. */
typedef struct lk_blob_limits {
    uint64_t inline_max, packed_max, pack_bytes_max;
} lk_blob_limits;
lk_blob_limits lk_blob_limits_of(const struct ArrowSchema *field);

/* Stores bytes and describes where. */
LK_MUST_CHECK lk_rc lk_blob_writer_put(lk_blob_writer *writer, const lk_blob_limits *limits, lk_bytes bytes,
    lk_blob_descriptor *out, lk_err *err);

/* Ends the packed file at hand: everything is durable. */
LK_MUST_CHECK lk_rc lk_blob_writer_finish(lk_blob_writer *writer, lk_err *err);
void lk_blob_writer_abandon(lk_blob_writer *writer); /* removes side files; accepts a zero writer */

/* Descriptors for the rows of a blob column: 16 bytes each in files before 2.2, else rows of a packed struct with
 * offsets. validity: the rows that are there. */
struct lk_shape_rows;
LK_MUST_CHECK lk_rc lk_blob_rows(lk_blob_writer *writer, const struct ArrowSchema *field,
    const struct lk_shape_rows *rows, const uint8_t *validity, lk_buf *bytes, lk_buf *offsets, lk_err *err);

#endif
