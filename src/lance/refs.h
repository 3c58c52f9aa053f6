#ifndef LK_LANCE_REFS_H
#define LK_LANCE_REFS_H
/*
 * refs.h - tags and branches of a table, as `_refs/` has them. A tag is a name that may move from one version to
 * another; it keeps its version from being cleaned up. Threads: stateless.
 */
#include "base/clock.h"
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

/* LK_E_INVALID_REQUEST (which rule) unless name is 1 to LK_TAG_NAME_BYTES_MAX of A-Z a-z 0-9 . - _ that neither
 * begins nor ends with a dot, has no two dots in a row and does not end in ".lock". */
LK_MUST_CHECK lk_rc lk_tag_check_name(lk_bytes name, lk_err *err);

/* Each is done, or not, as a whole. LK_E_NOT_FOUND (with a detail) when the version, or the tag that is to be
 * moved or deleted, is not there; LK_E_PRECONDITION when a tag of this name exists already. */
LK_MUST_CHECK lk_rc lk_tag_create(
    lk_store *store, lk_clock *clock, lk_bytes name, uint64_t version, lk_err *err);
LK_MUST_CHECK lk_rc lk_tag_move(
    lk_store *store, lk_clock *clock, lk_bytes name, uint64_t version, lk_err *err);
LK_MUST_CHECK lk_rc lk_tag_delete(lk_store *store, lk_bytes name, lk_err *err);

#endif
