#ifndef LK_LANCE_TAKE_BLOBS_H
#define LK_LANCE_TAKE_BLOBS_H
/*
 * take_blobs.h - blobs of chosen rows, opened: ranges of them are read one by one, whatever their size. Threads: an
 * opened blob may be read by many threads at once.
 */
#include "lance/blob.h"
#include "lance/take.h"

/*
 * Opens the blobs of a top-level column in these rows, in request order: *out is an array of *count, NULL where the row
 * is null. Rows that lk_dataset_take leaves out are left out. LK_E_INVALID_REQUEST when the column holds no blobs. Free
 * with lk_blobs_close.
 */
LK_MUST_CHECK lk_rc lk_dataset_take_blobs(
    lk_dataset *dataset, const lk_take_rows *rows, size_t column, lk_blob ***out, size_t *count, lk_err *err);
void lk_blobs_close(lk_blob **blobs, size_t count); /* accepts NULL */

#endif
