#ifndef LK_SQL_SPILL_PRIV_H
#define LK_SQL_SPILL_PRIV_H
/*
 * spill_priv.h - our private spill directory: <parent>/lake-spill-XXXXXX, mode 0700, with a marker file
 * whose lock its owner holds. A directory whose owner is dead is removed at start; anything else in parent
 * is left alone.
 * Threads: confined to open and close.
 */
#include "base/bytes.h"
#include "base/err.h"

typedef struct lk_spill {
    char *path; /* NULL: none */
    int   lock; /* the marker's descriptor */
} lk_spill;

/* Makes parent when it is missing, removes orphans, creates ours. LK_E_IO, LK_E_STORE_FULL. */
LK_MUST_CHECK lk_rc lk_spill_open(lk_bytes parent, lk_spill *out, lk_err *err);
void                lk_spill_close(lk_spill *spill); /* removes the directory; accepts zero */

#endif
