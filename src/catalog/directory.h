#ifndef LK_CATALOG_DIRECTORY_H
#define LK_CATALOG_DIRECTORY_H
/*
 * directory.h - the registry read as a whole: one generation, or page by page.
 *
 * Invariant: a directory is of one generation. It is read between two equal readings of the generation; if
 * that moved, everything is thrown away and read again, LK_DIRECTORY_ATTEMPTS times, then
 * LK_E_AUTHORITY_UNAVAILABLE. Never a mixture.
 * Threads: stateless functions over a shared lk_kv.
 */
#include "catalog/registry.h"

/* The current generation's token; a fixed one before the first table. In the arena. */
LK_MUST_CHECK lk_rc lk_directory_generation(lk_kv *kv, lk_arena *arena, lk_bytes *generation, lk_err *err);

/* As lk_authority_ops.directory. When known is current this is one point read. LK_E_LIMIT beyond
 * LK_CATALOG_ENTRIES_MAX tables. */
LK_MUST_CHECK lk_rc lk_directory_read(lk_kv *kv, lk_bytes known, lk_arena *arena, bool *modified,
    lk_bytes *generation, lk_registration **items, size_t *count, lk_err *err);

/* One page of names. limit 1 .. LK_PAGE_ITEMS_MAX, continuation up to LK_CONTINUATION_BYTES_MAX and from an
 * earlier page of the same listing (else LK_E_INVALID_REQUEST). A page may be short while continuation is not
 * empty. */
LK_MUST_CHECK lk_rc lk_directory_tables(lk_kv *kv, lk_bytes ns, lk_bytes continuation, size_t limit,
    lk_arena *arena, lk_name_page *out, lk_err *err);
LK_MUST_CHECK lk_rc lk_directory_namespaces(
    lk_kv *kv, lk_bytes continuation, size_t limit, lk_arena *arena, lk_name_page *out, lk_err *err);

/* The bounds above, for listings that do not come from the store. */
LK_MUST_CHECK lk_rc lk_directory_check_page(lk_bytes continuation, size_t limit, lk_err *err);

#endif
