#ifndef LK_IO_TRICKLE_H
#define LK_IO_TRICKLE_H
/*
 * trickle.h - a large file goes to the disk while it is written, a step at a time and never more than two at once.
 *
 * What is left for the sync at its end is little, and so is what others wait for who sync meanwhile: a file system that
 * journals commits all that happened so far together, and the new bytes of every file with it.
 * Invariant: an error of the disk is returned by whichever call hears of it; the sync at the end need not repeat it.
 * Threads: confined.
 */
#include "base/bytes.h"
#include "base/err.h"

typedef struct lk_trickle {
    uint64_t written, sent; /* bytes of the file; of them that are on their way */
} lk_trickle;

/* Appends to a file that nobody else writes, from its beginning on. Durable it is only after a sync. */
LK_MUST_CHECK lk_rc lk_trickle_write(
    lk_trickle *trickle, int fd, const char *path, lk_bytes bytes, lk_err *err);

/* The same for a file that somebody waits for: what is large is sent on its way, so that the sync at the end finds less to
 * do, and nothing is awaited. */
LK_MUST_CHECK lk_rc lk_trickle_send(
    lk_trickle *trickle, int fd, const char *path, lk_bytes bytes, lk_err *err);

#endif
