#ifndef LK_LANCE_ROW_IDS_PRIV_H
#define LK_LANCE_ROW_IDS_PRIV_H
/*
 * row_ids_priv.h - what the files of row identity share: row_ids.c (sequences), row_id_list.c (new ones),
 * row_versions.c,
 * row_identity.c (of a dataset). Threads: stateless.
 */
#include "lance/row_ids.h"

typedef enum lk_id_segment_kind { /* by the field number in U64Segment */
    LK_ID_UNKNOWN = 0,
    LK_ID_RANGE = 1,
    LK_ID_HOLES = 2,
    LK_ID_BITMAP = 3,
    LK_ID_SORTED_ARRAY = 4,
    LK_ID_ARRAY = 5
} lk_id_segment_kind;

typedef struct lk_id_segment lk_id_segment;

/* How many ids a U64Segment message holds. LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_id_segment_count(lk_bytes message, uint64_t *count, lk_err *err);

/* Ids in a row from `offset` on, as far as is cheap to see; false at the end. */
bool lk_row_ids_run(const lk_row_ids *ids, uint64_t offset, uint64_t *start, uint64_t *count);

#endif
