#ifndef LK_LANCE_VERSIONS_H
#define LK_LANCE_VERSIONS_H
/*
 * versions.h - which versions a table has, by the listing of _versions/. Threads: stateless.
 */
#include "lance/manifest.h"

typedef struct lk_version {
    uint64_t           number;
    lk_manifest_naming naming;
} lk_version;

/* All versions, ascending, in the arena. None is not an error. */
LK_MUST_CHECK lk_rc lk_versions_list(
    lk_store *store, lk_arena *arena, lk_version **versions, size_t *count, lk_err *err);

/* The highest version; *found = false when there is none. */
LK_MUST_CHECK lk_rc lk_versions_latest(lk_store *store, lk_version *latest, bool *found, lk_err *err);

#endif
