#ifndef LK_LANCE_DATASET_H
#define LK_LANCE_DATASET_H
/*
 * dataset.h - one Lance dataset at one version: open, scan, and append as a new version.
 * Format facts: the Lance table format and file format 2.0 to 2.2 (lance.org, lance-format/lance protos).
 *
 * Invariants:
 *   1. An open dataset is one version for ever; commits by others do not change it.
 *   2. A commit is visible only through the committer's last step; before it, files are unreferenced.
 *   3. Feature flags we do not know refuse to open (reader) or to commit (writer), by name.
 *
 * Ownership: _open/_ref/_unref shared. Threads: a dataset is immutable and shared; a scan is confined to
 * its caller, inside it works on the given pool.
 */
#include "arrow/batch.h"
#include "arrow/predicate.h"
#include "base/clock.h"
#include "base/rand.h"
#include "base/thread.h"
#include "io/store.h"
#include "lance/commit.h"
#include "lance/view.h"

typedef struct lk_dataset lk_dataset;

typedef struct lk_lance_env { /* what Lance code needs from outside; all borrowed, outlive the datasets */
    lk_store  *store;         /* rooted at the dataset's own directory */
    lk_clock  *clock;
    lk_random *random;
    lk_pool   *pool;       /* scan and decode workers; NULL: work on the caller's thread */
    lk_budget *budget;     /* scan memory; NULL: unlimited */
    lk_budget *open_files; /* how many data files may stay open, one each; NULL: as many as a table keeps */
    struct lk_buffer_pool
        *buffers; /* shared by scans and takes (lance/buffer_pool.h), of the same budget; NULL: one each */
    struct lk_file_cache
        *files; /* shared by versions of this dataset (lance/file_cache.h); NULL: one's own */
    /* Opens the store over a directory outside this table's (a shallow clone's rows lie in its source's); the
     * dataset closes it. NULL: such tables open, but their foreign rows are refused. */
    lk_rc (*open_base)(void *context, lk_bytes path, lk_store **out, lk_err *err);
    void *open_base_context;
    const struct lk_blob_outside
        *blob_outside; /* opens blobs that lie outside of tables (lance/blob.h); NULL: refused by name */
} lk_lance_env;

/* version 0: the latest by the directory listing. LK_E_NOT_FOUND when there is no such dataset or version,
 * LK_E_UNSUPPORTED_FORMAT (which feature) or LK_E_CORRUPT_FILE (which file) when it cannot be read. */
LK_MUST_CHECK lk_rc lk_dataset_open(const lk_lance_env *env, uint64_t version, lk_dataset **out, lk_err *err);

/* Opens the manifest at an exact key (a pointer names it), without any listing. */
LK_MUST_CHECK lk_rc lk_dataset_open_manifest(
    const lk_lance_env *env, lk_bytes manifest_key, lk_dataset **out, lk_err *err);
/* The same of a table that is probably made like another (NULL: none), see lance/alike.h. */
LK_MUST_CHECK lk_rc lk_dataset_open_like(
    const lk_lance_env *env, lk_bytes manifest_key, const lk_dataset *like, lk_dataset **out, lk_err *err);

lk_dataset *lk_dataset_ref(lk_dataset *dataset);
void        lk_dataset_unref(lk_dataset *dataset); /* accepts NULL */

uint64_t                  lk_dataset_version(const lk_dataset *dataset);
const struct ArrowSchema *lk_dataset_schema(const lk_dataset *dataset);    /* borrowed */
uint64_t                  lk_dataset_row_count(const lk_dataset *dataset); /* deletions subtracted */
size_t                    lk_dataset_bytes(const lk_dataset *dataset);     /* memory this handle holds */

/* What the manifest says, for `lake lance info` and the like (lance/manifest.h). Borrowed. */
const struct lk_manifest *lk_dataset_manifest(const lk_dataset *dataset);

/* Which versions exist, ascending, in the arena (directory listing). */
LK_MUST_CHECK lk_rc lk_dataset_versions(
    const lk_lance_env *env, lk_arena *arena, uint64_t **versions, size_t *count, lk_err *err);

/* -- scan ------------------------------------------------------------------------------------------ */
/* Columns that a version knows of every row, all uint64; a scan puts the ones asked for behind its fields, in this
 * order. */
typedef enum lk_meta_column {
    LK_META_ROW_ID = 1 << 0,      /* _rowid: what stays the same when the row moves (lance/row_ids.h), if the
                                       table has stable row ids; else the address */
    LK_META_ROW_ADDRESS = 1 << 1, /* _rowaddr: fragment << 32 | row offset */
    LK_META_ROW_OFFSET =
        1 << 2, /* _rowoffset: rows before it in the table's order, deleted ones not counted */
    LK_META_CREATED_AT = 1 << 3, /* _row_created_at_version; 1 in tables without stable row ids */
    LK_META_UPDATED_AT = 1 << 4, /* _row_last_updated_at_version; likewise */
    LK_META_ALL = (1 << 5) - 1
} lk_meta_column;

/* 0 when no meta column is called so. */
unsigned lk_meta_column_find(lk_bytes name);

typedef struct lk_scan_options {
    const size_t *columns; /* top-level fields to return, in this order; NULL: all */
    size_t        column_count;
    unsigned      meta;              /* lk_meta_column, added up */
    bool          dictionary_values; /* dictionary columns as their values; else as dictionaries */
    lk_blob_view  blobs;             /* as descriptors, bytes, or what a writer takes */
    bool          no_columns;        /* count only: batches with length and no children */
    const lk_predicate
        *predicate; /* NULL: every row; borrowed until close. Exact: rows that fail are dropped */
    struct lk_row_set
            *rows;  /* NULL: all; only these (lance/row_set.h), in row order; borrowed for the call. Rows that
                              are deleted or that the version does not have are left out */
    uint64_t limit; /* UINT64_MAX: none */
    bool     unordered;  /* batches may come in any order */
    size_t   batch_rows; /* target; 0: default (64 Ki) */
    bool     alone;      /* all is done on the thread that asks for batches, nothing on the pool */
    lk_cancel *cancel;   /* NULL: never */
} lk_scan_options;

/* Batches of projected, filtered rows, read in parallel by page ranges with bounded read-ahead, in row order
 * unless unordered. Closing early stops the workers. LK_E_SNAPSHOT_GONE when the version was
 * removed meanwhile. */
LK_MUST_CHECK lk_rc lk_dataset_scan(
    lk_dataset *dataset, const lk_scan_options *options, lk_batches **out, lk_err *err);

/*
 * The same scan cut into independent morsels, for engines with their own threads (DuckDB): open once, then
 * many threads call lk_scan_morsel_next; each morsel is a contiguous row range with increasing number.
 */
typedef struct lk_morsel_scan lk_morsel_scan;
LK_MUST_CHECK lk_rc           lk_dataset_morsel_scan(
              lk_dataset *dataset, const lk_scan_options *options, lk_morsel_scan **out, lk_err *err);
size_t lk_morsel_scan_count(const lk_morsel_scan *scan); /* upper bound after pruning */
/* Decodes the next morsel on the calling thread. *done when none is left. A morsel whose rows were all
 * filtered out comes as a batch of length 0, without columns. Threads: shared. */
LK_MUST_CHECK lk_rc lk_morsel_scan_next(
    lk_morsel_scan *scan, struct ArrowArray *out, size_t *morsel_number, bool *done, lk_err *err);
const struct ArrowSchema *lk_morsel_scan_schema(const lk_morsel_scan *scan);
void                      lk_morsel_scan_close(lk_morsel_scan *scan);

/* What a scan would touch, for EXPLAIN and tests: pages (of statistics: zones of 8,192 rows, or whole fragments
 * that have none) considered, and kept after pruning. */
typedef struct lk_scan_stats {
    uint64_t fragments, fragments_kept, pages, pages_kept, rows_decoded;
} lk_scan_stats;
void lk_morsel_scan_stats(const lk_morsel_scan *scan, lk_scan_stats *out);

/* -- write ----------------------------------------------------------------------------------------- */
typedef struct lk_commit_property {
    lk_bytes key, value;
} lk_commit_property;

typedef enum lk_file_version { /* of data files: the footer says (2, n) */
    LK_FILE_VERSION_DEFAULT =
        0, /* what the table has; 2.1 for a new one, which every release of the reference reads */
    LK_FILE_VERSION_2_0 = 1,
    LK_FILE_VERSION_2_1 = 2,
    LK_FILE_VERSION_2_2 = 3
} lk_file_version;

typedef struct lk_write_options {
    const lk_commit_property *properties; /* into Transaction.transaction_properties */
    size_t                    property_count;
    size_t                    max_rows_per_file; /* 0: 1,048,576 */
    lk_file_version           file_version;      /* of a new table; one that exists keeps its own */
    bool stable_row_ids; /* of a new table: rows keep their ids when they move (lance/row_ids.h) */
    bool alone;          /* pages are encoded on the calling thread, none on the pool */
    bool outside_blobs;  /* blobs may be uris of objects outside of the table; else such rows are refused */
    /* Of an append: the table's place again, through which everything is written; what it puts off, the committer makes
     * durable (lk_late_committer). NULL: the table's own store. */
    lk_store *late;
    /* Of an append: asked before it is tried on top of a version that another writer made after base. LK_E_CONFLICT ends
     * the append: what it adds depends on what was there. NULL: it does not. */
    lk_rc (*accepts)(void *context, uint64_t version, lk_err *err);
    void *accepts_context;
} lk_write_options;

/* Creates an empty dataset with this schema as version 1. LK_E_INVALID_SCHEMA names the type that Lance
 * cannot hold; LK_E_TABLE_EXISTS when a version exists. */
LK_MUST_CHECK lk_rc lk_dataset_create(const lk_lance_env *env, lk_committer *committer,
    const struct ArrowSchema *schema, const lk_write_options *options, lk_dataset **out, lk_err *err);

/* The same with the rows of source: version 1 has them all, or there is none. */
LK_MUST_CHECK lk_rc lk_dataset_create_filled(const lk_lance_env *env, lk_committer *committer,
    lk_batches *source, const lk_write_options *options, lk_dataset **out, lk_err *err);

/* Writes all of source as new fragments and commits base+1 through the committer. *out is the new version.
 * When another commit took base+1: rebased if it was compatible and the committer stands alone, else
 * LK_E_CONFLICT. Schema names, order and types must match (LK_E_SCHEMA_MISMATCH names the column), but for other
 * forms of the same (lance/adapt.h); metadata is ignored; nulls in a non-null column are refused by value. No visible change on any error, except that
 * err->maybe_applied says that the commit step itself is unknown. */
LK_MUST_CHECK lk_rc lk_dataset_append(lk_dataset *base, lk_committer *committer, lk_batches *source,
    const lk_write_options *options, lk_dataset **out, lk_err *err);

/* The transaction properties of this version ("" when absent): recovery looks its operation up here. */
LK_MUST_CHECK lk_rc lk_dataset_property(
    lk_dataset *dataset, lk_bytes key, lk_arena *arena, lk_bytes *value, bool *found, lk_err *err);

#endif
