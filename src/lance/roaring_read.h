#ifndef LK_LANCE_ROARING_READ_H
#define LK_LANCE_ROARING_READ_H
/*
 * roaring_read.h - 32-bit Roaring bitmaps in their portable form (RoaringFormatSpec), from outside: every count is
 * checked against what is there, and nothing is built from it but what the caller builds.
 * Threads: stateless.
 */
#include "base/bytes.h"
#include "base/err.h"

/* One run of values, count >= 1. */
typedef lk_rc lk_roaring_add(void *context, uint32_t first, uint32_t count, lk_err *err);

/* Gives every value to add, ascending within each block of 65,536. As many calls at most as the bytes have bits.
 * LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_roaring_read(lk_bytes bytes, lk_roaring_add *add, void *context, lk_err *err);

#endif
