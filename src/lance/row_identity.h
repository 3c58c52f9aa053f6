#ifndef LK_LANCE_ROW_IDENTITY_H
#define LK_LANCE_ROW_IDENTITY_H
/*
 * row_identity.h - what an open version keeps about the identity of its rows, for the files of this room; what it
 * answers is in row_ids.h. Threads: as the dataset.
 */
#include "lance/dataset_priv.h"

typedef struct lk_row_identity lk_row_identity;

lk_row_identity *lk_row_identity_new(const lk_manifest *manifest);
void             lk_row_identity_free(lk_row_identity *identity, const lk_dataset *dataset);

/* row_column.c: the sequence that a fragment keeps in a hidden column (LK_FIELD_ROW_IDS ...), as the message that its
 * manifest could have held; in the arena. */
LK_MUST_CHECK lk_rc lk_row_column_read(
    lk_dataset *dataset, size_t fragment, int32_t field_id, lk_arena *arena, lk_bytes *out, lk_err *err);

/* The number of the fragment with this id; false: there is none. */
bool lk_dataset_fragment_number(lk_dataset *dataset, uint32_t id, size_t *number);

#endif
