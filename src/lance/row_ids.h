#ifndef LK_LANCE_ROW_IDS_H
#define LK_LANCE_ROW_IDS_H
/*
 * row_ids.h - the identity of rows in a table with stable row ids (flag bit 1): the ids of a fragment's rows, the
 * versions they were made and last changed in, and the way back from an id to the row's address.
 *
 * A fragment's ids are one for every physical row, deleted ones included, in row order: a pb RowIdSequence of
 * segments. The versions are a pb RowDatasetVersionSequence: runs of rows. Deleting rows leaves both as they are;
 * whoever moves rows puts new sequences together from pieces of the old ones (lk_id_list, lk_version_list).
 *
 * Invariants:
 *   1. A parsed sequence is sound: every offset below count has an id, segments are as ordered as they claim.
 *   2. It borrows the message's bytes, which must outlive it. No segment is unpacked.
 *   3. UINT64_MAX is never an id nor an address.
 * Threads: a parsed sequence is immutable; lists are confined.
 */
#include "base/arena.h"
#include "base/err.h"
#include "lance/dataset.h"

#define LK_ROW_ID_NONE UINT64_MAX /* no such row */

/* -- ids ----------------------------------------------------------------------------------------------- */

typedef struct lk_row_ids {
    const struct lk_id_segment *segments; /* row_ids.c */
    size_t                      segment_count;
    uint64_t                    count; /* ids in all */
} lk_row_ids;

/* `rows` is how many ids there must be. Memory for segments comes from the arena: at most 16 times the message.
 * LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_row_ids_parse(
    lk_bytes message, uint64_t rows, lk_arena *arena, lk_row_ids *out, lk_err *err);

/* The id at a row offset below count. */
uint64_t lk_row_ids_at(const lk_row_ids *ids, uint64_t offset);

/* The ids of rows [first, first + count), which are there, into out[count]. */
void lk_row_ids_read(const lk_row_ids *ids, uint64_t first, uint64_t count, uint64_t *out);

/* -- versions ------------------------------------------------------------------------------------------ */

typedef enum lk_row_version_kind { LK_ROW_CREATED_AT, LK_ROW_UPDATED_AT } lk_row_version_kind;

typedef struct lk_version_run {
    uint64_t end; /* offset after its last row */
    uint64_t version;
} lk_version_run;

typedef struct lk_row_versions {
    const lk_version_run *runs; /* ascending */
    size_t                run_count;
} lk_row_versions;

/* An empty message says version 1 for every row, as the reference does. LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_row_versions_parse(
    lk_bytes message, uint64_t rows, lk_arena *arena, lk_row_versions *out, lk_err *err);

uint64_t lk_row_versions_at(const lk_row_versions *versions, uint64_t offset);
void     lk_row_versions_read(const lk_row_versions *versions, uint64_t first, uint64_t count, uint64_t *out);

/* -- new sequences --------------------------------------------------------------------------------------- */

/* Ids in the order of the rows of a fragment to be; starts as zero. */
typedef struct lk_id_list {
    lk_buf   runs; /* of {start, count} */
    uint64_t count;
} lk_id_list;

void lk_id_list_add_range(lk_id_list *list, uint64_t start, uint64_t count);
void lk_id_list_add(lk_id_list *list, const uint64_t *ids, size_t count);
/* The ids of rows [first, first + count) but those deleted: bit `row` of `deleted` (lk_deletion_bits; NULL: none). */
void lk_id_list_add_slice(
    lk_id_list *list, const lk_row_ids *from, uint64_t first, uint64_t count, const uint64_t *deleted);
/* Appends the RowIdSequence message, each stretch in its smallest form. */
void lk_id_list_encode(const lk_id_list *list, lk_buf *out);
void lk_id_list_deinit(lk_id_list *list); /* accepts zero */

/* Versions likewise. */
typedef struct lk_version_list {
    lk_buf   runs; /* of lk_version_run */
    uint64_t count;
} lk_version_list;

void lk_version_list_add(lk_version_list *list, uint64_t version, uint64_t count);
void lk_version_list_add_slice(lk_version_list *list, const lk_row_versions *from, uint64_t first,
    uint64_t count, const uint64_t *deleted);
void lk_version_list_encode(const lk_version_list *list, lk_buf *out);
void lk_version_list_deinit(lk_version_list *list); /* accepts zero */

/* -- of a version -------------------------------------------------------------------------------------- */

bool lk_dataset_has_stable_row_ids(const lk_dataset *dataset);

/* The ids and versions of fragment number `fragment`, of a table with stable row ids, read on first use and kept
 * (charged to the dataset's budget). Borrowed from the dataset. LK_E_CORRUPT_FILE, LK_E_LIMIT. */
LK_MUST_CHECK lk_rc lk_dataset_row_ids(
    lk_dataset *dataset, size_t fragment, const lk_row_ids **out, lk_err *err);
LK_MUST_CHECK lk_rc lk_dataset_row_versions(
    lk_dataset *dataset, size_t fragment, lk_row_version_kind kind, const lk_row_versions **out, lk_err *err);

/* Where the rows of these ids live in this version: addresses[i] for ids[i], LK_ROW_ID_NONE when there is no such
 * row (any more). Any table: without stable row ids an id is an address. The way back is built on first use and
 * kept. LK_E_CORRUPT_FILE (an id of two rows), LK_E_LIMIT. */
LK_MUST_CHECK lk_rc lk_dataset_find_rows(
    lk_dataset *dataset, const uint64_t *ids, size_t count, uint64_t *addresses, lk_err *err);

/* The other way: ids[i] of the row at addresses[i], LK_ROW_ID_NONE when there is no such row or it is deleted.
 * `addresses` and `ids` may be the same array. */
LK_MUST_CHECK lk_rc lk_dataset_row_ids_at(
    lk_dataset *dataset, const uint64_t *addresses, size_t count, uint64_t *ids, lk_err *err);

#endif
