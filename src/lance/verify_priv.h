#ifndef LK_LANCE_VERIFY_PRIV_H
#define LK_LANCE_VERIFY_PRIV_H
/* verify_priv.h - between the files that verify. Threads: confined. */
#include "lance/dataset_priv.h"
#include "lance/name_set.h"
#include "lance/verify.h"

typedef struct lk_verify {
    const lk_lance_env      *env;
    const lk_verify_options *options;
    lk_verify_report        *report;
    lk_name_set              done; /* what was looked at in an earlier version */
    uint64_t                 version;
    lk_dataset              *dataset;
    struct ArrowSchema       view; /* of dataset: blobs as descriptors */
} lk_verify;

/* Tells of damage; so does lk_verify_note for an error that means damage: LK_OK then, else rc (looking ends). */
void                lk_verify_damage(lk_verify *v, lk_bytes what, const char *format, ...) LK_PRINTF(3, 4);
LK_MUST_CHECK lk_rc lk_verify_note(lk_verify *v, lk_rc rc, lk_bytes what, lk_err *err);
/* False the first time that this name is asked for. */
bool lk_verify_seen(lk_verify *v, lk_bytes name);

/* verify_data.c: the rows of a fragment, and the other columns of its files. */
LK_MUST_CHECK lk_rc lk_verify_fragment_data(lk_verify *v, size_t fragment, lk_err *err);

#endif
