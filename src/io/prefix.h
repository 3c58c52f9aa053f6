#ifndef LK_IO_PREFIX_H
#define LK_IO_PREFIX_H
/*
 * prefix.h - a store seen from one of its directories: the same objects, under keys relative to it. It keeps the rules of
 * the store beneath (store.h) and can what that one can. Threads: as the store beneath.
 */
#include "io/store.h"

/* Borrows under, which must outlive the result and everything opened through it. directory: a legal key. */
lk_store *lk_prefix_store_new(lk_store *under, lk_bytes directory);

/* The same for the one writer of a directory into which nobody looks before an object elsewhere names it: objects have their
 * names while they are written, where the store beneath can do so (lk_store_create_in_place). */
lk_store *lk_prefix_store_new_in_place(lk_store *under, lk_bytes directory);

#endif
