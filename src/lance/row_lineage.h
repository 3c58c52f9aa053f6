#ifndef LK_LANCE_ROW_LINEAGE_H
#define LK_LANCE_ROW_LINEAGE_H
/*
 * row_lineage.h - who the rows of a new fragment are, in a table with stable row ids: what every change that writes
 * fragments tells of them before it commits.
 *
 *   append        nothing: all rows are new
 *   update        ids and created of the rows that moved, in front; rows behind them are new (merge-insert).
 *                 All of them were changed in the new version
 *   cast, fill    nothing of the rows, which stay: all of them were changed (lk_row_lineage_touch)
 *   compaction    ids, created and updated of every row: nobody sees that it moved
 *
 * Threads: confined.
 */
#include "lance/pb_table.h"
#include "lance/row_ids.h"

typedef struct lk_row_lineage { /* of a fragment's rows from the first on; starts as zero */
    lk_id_list      ids;
    lk_version_list created, updated;
} lk_row_lineage;

void lk_row_lineage_deinit(lk_row_lineage *lineage); /* accepts zero */

/* Adds rows [first, first + count) of a version's fragment as compaction keeps them, those deleted left out. */
LK_MUST_CHECK lk_rc lk_row_lineage_keep(
    lk_row_lineage *lineage, lk_dataset *from, size_t fragment, uint64_t first, uint64_t count, lk_err *err);

/* Adds rows of a version as an update moves them: by address, in the order in which they are written. The rows are
 * there (not deleted). Of a table without stable row ids nothing is added. */
LK_MUST_CHECK lk_rc lk_row_lineage_move(
    lk_row_lineage *lineage, lk_dataset *from, const uint64_t *addresses, size_t count, lk_err *err);

/*
 * Sets the fragment's sequences for version->version, which follows tip, and counts on version->next_row_id for the
 * rows that are new (lineage NULL: all of them). Call it in every plan: on top of another tip the numbers are
 * others. The sequences live in the arena. Does nothing in a table without stable row ids.
 * LK_E_LIMIT when the row ids are used up.
 */
LK_MUST_CHECK lk_rc lk_row_lineage_finish(const lk_row_lineage *lineage, const lk_manifest *tip,
    lk_pb_new_version *version, lk_arena *arena, lk_fragment *fragment, lk_err *err);

/* The DataFragment `message` of a fragment whose rows stay and got other values in `version`; in the arena, or the
 * message itself in a table without stable row ids. LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_row_lineage_touch(const lk_manifest *tip, const lk_fragment *fragment,
    lk_bytes message, uint64_t version, lk_arena *arena, lk_bytes *out, lk_err *err);

#endif
