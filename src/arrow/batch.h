#ifndef LK_ARROW_BATCH_H
#define LK_ARROW_BATCH_H
/*
 * batch.h - Arrow C Data Interface values: who owns, how they move, how they are shared and sliced.
 * (Arrow Columnar Format, C data interface: whoever holds a non-NULL release owns.)
 *
 * A batch is a struct array (format "+s") whose children are the columns, top-level validity absent.
 * Buffers we allocate are 64-byte aligned and padded to 64 bytes. Threads: confined while mutable;
 * immutable and shareable once built.
 */
#include "base/arena.h"
#include "base/budget.h"
#include "base/bytes.h"
#include "base/err.h"

#include <nanoarrow/nanoarrow.h>

void                lk_schema_release(struct ArrowSchema *schema); /* accepts released and zero */
void                lk_array_release(struct ArrowArray *array);
void                lk_array_move(struct ArrowArray *from, struct ArrowArray *to); /* clears *from */
void                lk_schema_move(struct ArrowSchema *from, struct ArrowSchema *to);
LK_MUST_CHECK lk_rc lk_schema_copy(const struct ArrowSchema *from, struct ArrowSchema *to, lk_err *err);

/* An array behind a reference count, so that slices and messages can share its buffers. */
typedef struct lk_shared_array lk_shared_array;
lk_shared_array               *lk_array_share(struct ArrowArray *take); /* moves in; refs = 1 */
lk_shared_array               *lk_shared_array_ref(lk_shared_array *shared);
void                           lk_shared_array_unref(lk_shared_array *shared); /* accepts NULL */
const struct ArrowArray       *lk_shared_array_get(const lk_shared_array *shared);
/* A new array over rows [offset, offset + length) that shares the buffers and keeps them alive. As the C
 * Data Interface has it, the offset sits on the root and children are not cut. */
void lk_shared_array_slice(lk_shared_array *shared, int64_t offset, int64_t length, struct ArrowArray *out);
/* The same for a batch, for readers that look at columns only: the root's offset is 0, the columns are cut. */
void lk_shared_batch_slice(lk_shared_array *shared, int64_t offset, int64_t length, struct ArrowArray *out);
/* The same for one column of a batch (or member of a struct without nulls), cut by the batch's offset. */
void lk_shared_batch_column(lk_shared_array *shared, size_t column, struct ArrowArray *out);
/* Moves columns (count of them, each `length` rows) into a new batch. */
void lk_batch_of_columns(struct ArrowArray *columns, size_t count, int64_t length, struct ArrowArray *out);

/* Bytes that the array's buffers keep alive, children included. */
size_t lk_array_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array);

/* Bytes of the values of rows [start, start + count) alone, as a copy of them would hold (bitmaps left out). */
uint64_t lk_array_range_bytes(
    const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t start, int64_t count);

/* Checks lengths, offsets and UTF-8 so that later readers need not (foreign arrays). LK_E_INVALID_IPC. */
LK_MUST_CHECK lk_rc lk_array_validate(
    const struct ArrowSchema *schema, const struct ArrowArray *array, lk_err *err);

/* Keeps the rows whose selection byte is 1, in order (count of them given). Types: all that Arrow has
 * but unions and views. Buffers are new. */
LK_MUST_CHECK lk_rc lk_array_filter(const struct ArrowSchema *schema, const struct ArrowArray *array,
    const uint8_t *selection, int64_t selected_count, struct ArrowArray *out, lk_err *err);

/* The rows at indices, in that order; -1 gives null. Indices must be in range. */
LK_MUST_CHECK lk_rc lk_array_take(const struct ArrowSchema *schema, const struct ArrowArray *array,
    const int64_t *indices, int64_t count, struct ArrowArray *out, lk_err *err);

/* Rows of several arrays of one schema, in the order of the picks; each must be in range. */
typedef struct lk_pick {
    size_t  array;
    int64_t row;
} lk_pick;
LK_MUST_CHECK lk_rc lk_array_pick(const struct ArrowSchema *schema, const struct ArrowArray *arrays,
    const lk_pick *picks, size_t count, struct ArrowArray *out, lk_err *err);

/* length nulls of a field's type (also of a field that is not nullable: the caller judges). */
LK_MUST_CHECK lk_rc lk_array_nulls(
    const struct ArrowSchema *schema, int64_t length, struct ArrowArray *out, lk_err *err);

/* Concatenates arrays of one schema into one. Dictionaries that differ are joined; LK_E_LIMIT when 32-bit
 * offsets or the index type cannot hold the result. */
LK_MUST_CHECK lk_rc lk_array_concat(const struct ArrowSchema *schema, const struct ArrowArray *arrays,
    size_t count, struct ArrowArray *out, lk_err *err);

/* The same rows in one block of memory, for arrays of few rows that are kept for long. Without dictionaries
 * (LK_E_UNIMPLEMENTED). */
LK_MUST_CHECK lk_rc lk_array_pack(
    const struct ArrowSchema *schema, const struct ArrowArray *array, struct ArrowArray *out, lk_err *err);

/* A stream of batches, pulled: the shape every scan, query and file reader returns. */
typedef struct lk_batches lk_batches;
struct lk_batches {
    /* *out gets the next batch (released: end of stream). The schema is fixed at open. */
    lk_rc (*next)(lk_batches *batches, struct ArrowArray *out, lk_err *err);
    void (*close)(lk_batches *batches);
    struct ArrowSchema schema; /* owned by the stream */
};
static inline LK_MUST_CHECK lk_rc lk_batches_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    return batches->next(batches, out, err);
}
static inline void lk_batches_close(lk_batches *batches)
{
    if (batches != NULL) {
        batches->close(batches);
    }
}

/* A stream over count batches in memory. Moves *schema and every array in. */
lk_batches *lk_batches_of(struct ArrowSchema *schema, struct ArrowArray *batches, size_t count);

#endif
