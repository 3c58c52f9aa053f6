#ifndef LK_SERVE_ROLLOUT_ADD_H
#define LK_SERVE_ROLLOUT_ADD_H
/*
 * rollout_add.h - one add on its way: rollout_add.c makes it ready and answers it, rollout_group.c stores it together with
 * others, rollout_repeat.c knows whether it came before.
 *
 * Threads: an add is confined to its worker until rollout_group_add, then to the worker that stores its group.
 */
#include "serve/rollout_service_priv.h"

typedef struct rollout_add_call {
    lk_rollout_submission    submission;
    struct rollout_add_call *next; /* of its group */
    rollout_call            *call;
    lk_rollout_store        *store;
    lk_records              *records;
    lk_buf                   decoded, ids; /* ids: a JSON array */
    size_t                   count, charged;
    uint64_t                 queued;
    struct rollout_repeat   *repeat; /* NULL: without an Idempotency-Key */
    bool                     payloads_due, flush;
    bool                     is_small; /* its body is not read yet: rollout_together.c does, with others' */
} rollout_add_call;

uint64_t rollout_now_us(void); /* wall time, for records without a created_at */

/* Reads the add's body by itself and finishes its submission. */
LK_MUST_CHECK lk_rc rollout_add_read(rollout_add_call *add, lk_err *err);

/* The records [first, first + count) of a builder are the add's: notes their ids for the answer. */
void rollout_add_note_ids(rollout_add_call *add, const lk_records *records, size_t first, size_t count);

/* Releases what the add holds and answers it; err is read when rc is a failure. The add is gone. */
void rollout_add_answer(rollout_add_call *add, lk_rc rc, uint64_t version, const lk_err *err);

/* -- rollout_together.c --------------------------------------------------------------------------------------- */
/* Reads the small bodies of a group into one batch. Those that are refused are answered; the others, all of them ready to be
 * stored, are returned. */
rollout_add_call *rollout_read_together(rollout_add_call *adds);

/* -- rollout_group.c ------------------------------------------------------------------------------------------ */
/* Stores the add together with others for its store, here or on the worker that does so already, and answers it. */
void rollout_group_add(lk_rollout_service *service, rollout_add_call *add);

/* -- rollout_repeat.c ----------------------------------------------------------------------------------------- */
/* Looks for the request's Idempotency-Key: *answered when an earlier request of that key answers this one, now or when it is
 * done. Otherwise *out (NULL without a key) is to be finished. LK_E_INVALID_REQUEST; LK_E_CONFLICT: another body. */
LK_MUST_CHECK lk_rc rollout_repeat_begin(
    rollout_call *call, struct rollout_repeat **out, bool *answered, lk_err *err);
/* The answer of a request that began; those that came meanwhile get it too. Accepts NULL. */
void rollout_repeat_finish(
    lk_rollout_service *service, struct rollout_repeat *repeat, int status, lk_bytes body);

struct rollout_repeats *rollout_repeats_new(void);
void rollout_repeats_free(struct rollout_repeats *repeats); /* accepts NULL; nobody waits */

struct rollout_groups *rollout_groups_new(void);
void                   rollout_groups_free(struct rollout_groups *groups); /* accepts NULL; none is left */

#endif
