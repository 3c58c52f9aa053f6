#ifndef LK_LANCE_REFS_H
#define LK_LANCE_REFS_H
/*
 * refs.h - tags and branches of a table, as `_refs/` has them. Threads: stateless.
 */
#include "io/store.h"

typedef enum lk_ref_kind { LK_REF_TAG, LK_REF_BRANCH } lk_ref_kind;

typedef struct lk_ref {
    lk_ref_kind kind;
    lk_bytes    name;
    uint64_t    version; /* a tag: the version it names; a branch: the version of the parent it grew from */
    lk_bytes    branch;  /* a tag: the branch of that version; a branch: its parent. "" = main */
} lk_ref;

/* Tags, then branches, each by name, in the arena. LK_E_CORRUPT_FILE names the file. */
LK_MUST_CHECK lk_rc lk_refs_list(lk_store *store, lk_arena *arena, lk_ref **refs, size_t *count, lk_err *err);

#endif
