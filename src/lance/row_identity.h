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

/* The number of the fragment with this id; false: there is none. */
bool lk_dataset_fragment_number(lk_dataset *dataset, uint32_t id, size_t *number);

#endif
