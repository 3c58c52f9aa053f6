#ifndef LK_LANCE_VALUE_PLACE_H
#define LK_LANCE_VALUE_PLACE_H
/*
 * value_place.h - where one value of a binary column lies in its data file, so that ranges of it are read without the rest.
 *
 * Only values that are stored as they are have a place: in pages of whole rows that are not compressed, which is how this
 * writer stores binary values from LK_VALUE_PLAIN_BYTES on, unless the field asks for a compression.
 * Threads: a place may be read by many threads at once.
 */
#include "lance/dataset.h"
#include "lance/file_read.h"

enum { LK_VALUE_PLAIN_BYTES = 1024 * 1024 }; /* of the longest in a page */

typedef struct lk_value_place {
    bool            null;  /* there is no value */
    bool            plain; /* it has a place: the following are set; else take the row (lance/take.h) */
    lk_file_reader *file;  /* a reference */
    uint64_t        offset, size;
} lk_value_place;

/* Of a top-level column of large or small binary, in the row of this address, which must be one of the version's.
 * LK_E_CORRUPT_FILE names the file; LK_E_SNAPSHOT_GONE. */
LK_MUST_CHECK lk_rc lk_value_place_find(
    lk_dataset *dataset, uint64_t address, size_t column, lk_value_place *out, lk_err *err);

/* Bytes [offset, offset + size) of a plain value, which must lie inside. */
LK_MUST_CHECK lk_rc lk_value_place_read(
    const lk_value_place *place, uint64_t offset, void *out, size_t size, lk_err *err);
void lk_value_place_deinit(lk_value_place *place); /* accepts zero */

#endif
