#ifndef LK_LANCE_REFERENCES_H
#define LK_LANCE_REFERENCES_H
/*
 * references.h - which objects of a table's own directory a version refers to: data files, deletion files, index
 * directories, its transaction. What lies under another base is not listed. Threads: stateless.
 */
#include "lance/manifest.h"
#include "lance/name_set.h"

/*
 * Adds their keys: "data/x.lance" and its side directory "data/x", "_deletions/...", "_indices/<uuid>",
 * "_transactions/...". LK_E_CORRUPT_FILE when the index section cannot be read.
 */
LK_MUST_CHECK lk_rc lk_references_add(
    lk_store *store, const lk_manifest *manifest, lk_name_set *keys, lk_err *err);

#endif
