#ifndef LK_LANCE_TAKE_PRIV_H
#define LK_LANCE_TAKE_PRIV_H
/* take_priv.h - which rows a take means (take_rows.c), for take.c which reads them. */
#include "lance/scan_priv.h"
#include "lance/take.h"

typedef struct lk_live_address {
    uint32_t fragment; /* its number in the manifest, not its id */
    uint32_t row;
} lk_live_address;

/* The live ones of the rows, in request order; to be freed. Deletion files are read as needed. */
LK_MUST_CHECK lk_rc lk_take_resolve(
    lk_dataset *dataset, const lk_take_rows *rows, lk_live_address **out, size_t *count, lk_err *err);

#endif
