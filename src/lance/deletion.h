#ifndef LK_LANCE_DELETION_H
#define LK_LANCE_DELETION_H
/*
 * deletion.h - which rows of a fragment are deleted: read from an Arrow file (`.arrow`, one uint32 column)
 * or a 32-bit Roaring bitmap in its portable form (`.bin`).
 * Invariant: as many rows as the manifest says, all below the fragment's row count. Threads: immutable.
 */
#include "io/store.h"
#include "lance/manifest.h"

typedef struct lk_deletion lk_deletion;

/* Reads the deletion file of `fragment` (which has one) from its base's store. LK_E_CORRUPT_FILE when it contradicts the manifest. */
LK_MUST_CHECK lk_rc lk_deletion_read(
    lk_store *store, const lk_fragment *fragment, lk_deletion **out, lk_err *err);
/* The same from memory: `count` distinct rows, all below `rows` (at most UINT32_MAX). */
LK_MUST_CHECK lk_rc lk_deletion_parse(
    lk_deletion_kind kind, lk_bytes file, uint64_t rows, uint64_t count, lk_deletion **out, lk_err *err);
void lk_deletion_close(lk_deletion *deletion); /* accepts NULL */

uint64_t lk_deletion_count(const lk_deletion *deletion);
size_t   lk_deletion_bytes(const lk_deletion *deletion);

/* Deleted rows in [first, first + count). NULL has none. */
uint64_t lk_deletion_count_range(const lk_deletion *deletion, uint64_t first, uint64_t count);

/* Sets live[i] = 0 for every deleted row first + i of the range and leaves the others; returns how many it
 * cleared. NULL clears none. */
uint64_t lk_deletion_clear(const lk_deletion *deletion, uint64_t first, uint64_t count, uint8_t *live);

/* One bit for every row of the fragment, from the lowest up: set = deleted. Borrowed. */
const uint64_t *lk_deletion_bits(const lk_deletion *deletion);

#endif
