#ifndef LK_LANCE_DATASET_PRIV_H
#define LK_LANCE_DATASET_PRIV_H
/*
 * dataset_priv.h - what stands behind lk_dataset, for the files of this room: dataset.c (open, versions),
 * append.c (create, append), scan.c (lk_dataset_scan and the morsels).
 *
 * What scan.c uses: dataset->manifest (schema, fragments in order), dataset->env (pool, budget) and the
 * accessors below. It does not touch the slots itself.
 *
 * Invariant: manifest, env and files never change after open.
 * Threads: shared; mutex (rank SCAN) guards the deletion slots and is never held across I/O.
 */
#include "base/thread.h"
#include "lance/dataset.h"
#include "lance/deletion.h"
#include "lance/file_cache.h"
#include "lance/file_read.h"
#include "lance/manifest.h"

#include <stdatomic.h>

typedef struct lk_base_store { /* another table's directory, whose files this one refers to */
    lk_store      *store;
    lk_file_cache *files;
} lk_base_store;

struct lk_dataset {
    atomic_uint             refs;
    lk_lance_env            env;
    lk_manifest            *manifest;
    lk_file_cache          *files;
    lk_mutex                mutex;
    lk_deletion           **deletions;      /* by mutex; one slot per fragment, NULL until read */
    lk_base_store          *bases;          /* by mutex; one slot per base path, store NULL until opened */
    size_t                  deletion_bytes; /* by mutex */
    struct lk_row_identity *identity;       /* lance/row_identity.h */
};

/* A dataset over this manifest (moved in), with a new cache or one more reference to files. */
lk_dataset *lk_dataset_new(const lk_lance_env *env, lk_manifest *manifest, lk_file_cache *files);

/* The store and the open files of a base path; of the table itself for NULL. Borrowed from the dataset. */
LK_MUST_CHECK lk_rc lk_dataset_place(
    lk_dataset *dataset, const lk_base_path *base, lk_base_store *out, lk_err *err);

/* The open data file number `file` of fragment number `fragment`, from the cache. *out is a new reference.
 * LK_E_SNAPSHOT_GONE when it is not there: the version was removed. */
LK_MUST_CHECK lk_rc lk_dataset_file(
    lk_dataset *dataset, size_t fragment, size_t file, lk_file_reader **out, lk_err *err);

/* The zone statistics of the file that holds a leaf field in this fragment, and its column there. *out is a new
 * reference; NULL: the field is in no file, so all null. The arena is for what the search needs. */
LK_MUST_CHECK lk_rc lk_dataset_stats(lk_dataset *dataset, size_t fragment, size_t field, lk_arena *arena,
    lk_stats **out, size_t *column, lk_err *err);

/*
 * Where a field's rows lie: fills *out for `field` (index in manifest->schema->fields) in this fragment. Leaves
 * found in no file get file = NULL (all null); a struct gets its children. Sources live in the arena, files are
 * references held until lk_dataset_source_close. as: the field in the view (view.h) that is wanted; it must live as
 * long as the source.
 */
LK_MUST_CHECK lk_rc lk_dataset_source(lk_dataset *dataset, size_t fragment, size_t field,
    const struct ArrowSchema *as, lk_arena *arena, lk_field_source *out, lk_err *err);
void                lk_dataset_source_close(lk_field_source *source); /* accepts zero; lets the files go */

/* The deleted rows of a fragment, read on first use; *out = NULL when none. Borrowed from the dataset. */
LK_MUST_CHECK lk_rc lk_dataset_deletion(
    lk_dataset *dataset, size_t fragment, const lk_deletion **out, lk_err *err);

#endif
