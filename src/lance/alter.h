#ifndef LK_LANCE_ALTER_H
#define LK_LANCE_ALTER_H
/*
 * alter.h - what may be done to a table besides adding rows. Every call makes at most one new version (invariant 2 of
 * dataset.h) and returns it in *out; options may be NULL.
 *
 * When others committed since base, a committer that stands alone is tried on top of their versions as rebase.h
 * allows; else, and where it does not allow it: LK_E_CONFLICT with a detail, nothing visible, and the caller may
 * open the newest version and start again. err->maybe_applied says that the commit step itself is unknown.
 * Threads: as dataset.h.
 */
#include "lance/dataset.h"

/* Commits the content of `version` again, as the version after base (the newest): its rows and schema, index
 * included. What others committed meanwhile does not matter; it stays in the history. LK_E_NOT_FOUND. */
LK_MUST_CHECK lk_rc lk_dataset_restore(lk_dataset *base, lk_committer *committer, uint64_t version,
    const lk_write_options *options, lk_dataset **out, lk_err *err);

#endif
