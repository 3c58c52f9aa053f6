#ifndef LK_LANCE_INDEX_H
#define LK_LANCE_INDEX_H
/*
 * index.h - the scalar indices of a table: which there are, which rows a filter can find through them, and how they
 * are made and kept. BTREE, BITMAP and ZONEMAP are read; BTREE and ZONEMAP are made; what else a table has is listed
 * and carried along.
 *
 * An index covers fragments, and says nothing of the others: those are scanned.
 *
 * Invariants:
 *   1. An index never adds rows to an answer: what it finds is tested again, and deleted rows are left out.
 *   2. It never loses rows either: a fragment is covered only while its rows, and the files that hold the column, are
 *      what they were when it was indexed. lk_index_keep sees to that at every commit.
 *   3. An index is one or more segments of one name, each with fragments of its own.
 *
 * Threads: stateless, but for the dataset's caches, which are shared.
 */
#include "base/uuid.h"
#include "lance/dataset.h"
#include "lance/manifest.h"

typedef enum lk_index_kind {
    LK_INDEX_OTHER, /* a kind we do not read, or a newer version of one that we do */
    LK_INDEX_BTREE,
    LK_INDEX_BITMAP,
    LK_INDEX_ZONEMAP
} lk_index_kind;

const char *lk_index_kind_name(lk_index_kind kind); /* "btree" */

typedef struct lk_index_file {
    lk_bytes path; /* inside the index's directory */
    uint64_t size_bytes;
} lk_index_file;

/* One segment of an index, as a version lists it. */
typedef struct lk_index {
    lk_index_kind        kind;
    lk_bytes             name;
    lk_bytes             type; /* the kind in Lance's words: "BTreeIndexDetails" */
    lk_bytes             details;
    bool                 addresses; /* its ids are addresses, also in a table with stable row ids */
    lk_uuid              uuid;
    const int32_t       *fields; /* field ids; the column that it is over is the first */
    size_t               field_count;
    uint64_t             dataset_version, created_at_ms;
    bool                *covers; /* by number of the version's fragment */
    size_t               covered_count;
    bool                 lists_fragments; /* false: it does not say what it covers, so nothing */
    const lk_index_file *files;
    size_t               file_count;
    const lk_base_path  *base; /* NULL: the table's own directory */
    lk_bytes             raw;  /* the IndexMetadata message */
} lk_index;

/* The segments of a version, in its order; all memory in the arena. LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_index_list(
    lk_dataset *dataset, lk_arena *arena, const lk_index **out, size_t *count, lk_err *err);

/* -- finding rows ---------------------------------------------------------------------------------------- */
struct roaring_bitmap_s; /* <roaring/roaring.h> */

typedef struct lk_index_hits lk_index_hits; /* rows that may match, of the fragments that are covered */

/*
 * Asks the indices. *out = NULL: none helps, or reading the rows costs less than reading the index. The caller tests
 * the rows again and leaves the deleted ones out. Not to be called for rows by themselves: use a scan, which does.
 */
LK_MUST_CHECK lk_rc lk_index_lookup(
    lk_dataset *dataset, const lk_predicate *predicate, lk_cancel *cancel, lk_index_hits **out, lk_err *err);
void lk_index_hits_free(lk_index_hits *hits); /* accepts NULL */

/* False: nothing is known of that fragment (by number), scan it all. *rows: offsets of the rows that may match, below
 * its physical_rows; NULL: none. Borrowed. */
bool lk_index_hits_fragment(const lk_index_hits *hits, size_t fragment, const struct roaring_bitmap_s **rows);

/* -- making ---------------------------------------------------------------------------------------------- */
typedef struct lk_index_options {
    lk_index_kind kind;   /* LK_INDEX_BTREE or LK_INDEX_ZONEMAP */
    lk_bytes      column; /* a path: names of struct fields joined by dots */
    lk_bytes      name;   /* "": the column's path and "_idx" */
    lk_cancel    *cancel; /* NULL: never */
    void (*progress)(void *context, uint64_t rows, uint64_t rows_total); /* NULL: not told */
    void *progress_context;
} lk_index_options;

typedef struct lk_index_report {
    uint64_t rows, fragments, size_bytes; /* rows: that were read; size_bytes: of the new files */
} lk_index_report;

/*
 * Makes an index over all fragments of base and commits it; one of that name is replaced. Memory is bounded: sorted
 * runs go to the store. LK_E_NOT_FOUND when there is no such column, LK_E_INVALID_REQUEST for a type that has no order
 * or a name that another column's index has. Fragments that others changed meanwhile are left uncovered.
 */
LK_MUST_CHECK lk_rc lk_index_create(lk_dataset *base, lk_committer *committer, const lk_index_options *index,
    const lk_write_options *options, lk_index_report *report, lk_dataset **out, lk_err *err);

/* Makes the index of this name cover every fragment, one segment; what it has is kept. *out is base again when it does
 * already. LK_E_NOT_FOUND; LK_E_UNSUPPORTED_FORMAT for a kind that is not made here. */
LK_MUST_CHECK lk_rc lk_index_update(lk_dataset *base, lk_committer *committer, lk_bytes name,
    const lk_index_options *index /* cancel and progress; NULL: none */, const lk_write_options *options,
    lk_index_report *report, lk_dataset **out, lk_err *err);

/* Drops the index of this name, whatever its kind. LK_E_NOT_FOUND. */
LK_MUST_CHECK lk_rc lk_index_drop(lk_dataset *base, lk_committer *committer, lk_bytes name,
    const lk_write_options *options, lk_dataset **out, lk_err *err);

/* -- keeping --------------------------------------------------------------------------------------------- */

/* Rows that a change moved to fragments of their own, under the ids they had (tables with stable row ids). */
typedef struct lk_index_moves {
    uint64_t       first; /* fragment; the others follow */
    size_t         count;
    const int32_t *same; /* top-level fields whose values the rows kept */
    size_t         same_count;
} lk_index_moves;

/*
 * The index section that goes with `next`, the version that grows out of `from`, whose section this is: a fragment
 * stays covered if next has it with the same rows, in the same files where the index's columns are concerned; an index
 * whose column is gone goes. An index that covers nothing any more stays, so that it can be brought up to date. moves
 * (NULL: none): indices that find rows by id, and covered all fragments that lost some, cover where the rows are now.
 * Sections without fields (of other purposes) are carried. change.c calls it for every commit.
 */
LK_MUST_CHECK lk_rc lk_index_keep(const lk_manifest *from, const lk_manifest *next,
    const lk_index_moves *moves, lk_bytes section, lk_arena *arena, lk_bytes *out, lk_err *err);

/* Brings the indices up to date (lk_index_update) that covered fragments of `before` which *dataset, a later version of
 * the same rows, has rewritten. *dataset becomes the newest version; *versions counts what was committed. */
LK_MUST_CHECK lk_rc lk_index_follow(lk_dataset *before, lk_dataset **dataset, lk_committer *committer,
    const lk_write_options *options, uint64_t *versions, lk_err *err);

/* -- verifying ------------------------------------------------------------------------------------------- */
typedef struct lk_index_damage {
    lk_bytes name;
    uint64_t entries, missing, extra, wrong; /* rows without an entry, entries without a row, other values */
} lk_index_damage;

/* Reads all of one segment and checks every entry against the rows, and every row of a covered fragment against the
 * entries. LK_OK also when they differ: *out says. Kinds we do not read: all zero. */
LK_MUST_CHECK lk_rc lk_index_verify(
    lk_dataset *dataset, const lk_index *index, lk_cancel *cancel, lk_index_damage *out, lk_err *err);

#endif
