#ifndef LK_LANCE_DATASET_PRIV_H
#define LK_LANCE_DATASET_PRIV_H
/*
 * dataset_priv.h - what stands behind lk_dataset, for the files of this room: dataset.c (open, versions),
 * append.c (create, append), scan.c (lk_dataset_scan and the morsels).
 *
 * What scan.c uses: dataset->manifest (fragments in order, schema), dataset->env (pool, budget), and the two
 * accessors below. It must not touch the slots itself.
 *
 * Invariants:
 *   1. manifest and env never change after open.
 *   2. At most LK_DATASET_OPEN_FILES_MAX file readers are kept open per dataset; whoever uses one holds a
 *      reference, so an evicted reader lives until its last user lets go.
 * Threads: shared; mutex (rank SCAN) guards the slots and is never held across I/O.
 */
#include "base/thread.h"
#include "lance/dataset.h"
#include "lance/deletion.h"
#include "lance/manifest.h"

#include <stdatomic.h>

/* One open file each; a process may hold thousands of datasets, so this stays small. */
enum { LK_DATASET_OPEN_FILES_MAX = 64 };

typedef struct lk_file_reader lk_file_reader; /* lance/file_read.h: shared, _ref/_unref, immutable */

struct lk_dataset {
    atomic_uint       refs;
    lk_lance_env      env;
    lk_manifest      *manifest;
    lk_mutex          mutex;
    lk_file_reader  **readers;    /* by mutex; one slot per data file (fragment->file_slot + index), or NULL */
    size_t            open_count; /* by mutex; slots in use */
    size_t            evict_hand; /* by mutex; where the search for a victim goes on */
    lk_deletion     **deletions;  /* by mutex; one slot per fragment, or NULL until read */
};

/*
 * The open reader of one data file; opens it on first use through
 *   lk_rc lk_file_reader_open(lk_store *store, lk_bytes key, uint64_t size_or_0, lk_file_reader **out, lk_err *err);
 * which file_read.h provides with lk_file_reader_ref / lk_file_reader_unref. *out is a new reference.
 */
LK_MUST_CHECK lk_rc lk_dataset_file(
    lk_dataset *dataset, size_t fragment, size_t file, lk_file_reader **out, lk_err *err);

/* The deleted rows of a fragment, read on first use; *out = NULL when none. Borrowed from the dataset. */
LK_MUST_CHECK lk_rc lk_dataset_deletion(
    lk_dataset *dataset, size_t fragment, const lk_deletion **out, lk_err *err);

#endif
