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

void lk_schema_release(struct ArrowSchema *schema); /* accepts released and zero */
void lk_array_release(struct ArrowArray *array);
void lk_array_move(struct ArrowArray *from, struct ArrowArray *to); /* clears *from */
void lk_schema_move(struct ArrowSchema *from, struct ArrowSchema *to);
LK_MUST_CHECK lk_rc lk_schema_copy(const struct ArrowSchema *from, struct ArrowSchema *to, lk_err *err);

/* A new array that shares array's buffers (reference counted underneath) over rows [offset, offset+length).
 * *array must be owned by a shared holder (lk_array_share) or outlive the slice. */
typedef struct lk_shared_array lk_shared_array;
lk_shared_array *lk_array_share(struct ArrowArray *take); /* moves in; refs = 1 */
lk_shared_array *lk_shared_array_ref(lk_shared_array *shared);
void             lk_shared_array_unref(lk_shared_array *shared); /* accepts NULL */
const struct ArrowArray *lk_shared_array_get(const lk_shared_array *shared);
void lk_shared_array_slice(lk_shared_array *shared, int64_t offset, int64_t length, struct ArrowArray *out);

/* Bytes that the array's buffers keep alive, children included. */
size_t lk_array_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array);

/* Checks lengths, offsets and UTF-8 so that later readers need not (foreign arrays). LK_E_INVALID_IPC. */
LK_MUST_CHECK lk_rc lk_array_validate(const struct ArrowSchema *schema, const struct ArrowArray *array, lk_err *err);

/* Keeps the rows whose selection byte is 1, in order (count of them given). Types: all that Arrow has
 * but unions and views. Buffers are new. */
LK_MUST_CHECK lk_rc lk_array_filter(const struct ArrowSchema *schema, const struct ArrowArray *array,
    const uint8_t *selection, int64_t selected_count, struct ArrowArray *out, lk_err *err);

/* Concatenates arrays of one schema into one. */
LK_MUST_CHECK lk_rc lk_array_concat(const struct ArrowSchema *schema, struct ArrowArray *const *arrays,
    size_t count, struct ArrowArray *out, lk_err *err);

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

#endif
