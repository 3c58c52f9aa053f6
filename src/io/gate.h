#ifndef LK_IO_GATE_H
#define LK_IO_GATE_H
/*
 * gate.h - a store that can be shut: whoever holds it then reads and writes nothing any more through it. For a place that is
 * about to be removed, and perhaps used again by others, while requests to it are under way.
 *
 * Invariants:
 *   1. After lk_gate_shut nothing that came through the gate changes the store beneath: a call is either over, or refused
 *      with LK_E_TABLE_NOT_FOUND.
 *   2. An object that was open stays readable; an object that was being written cannot be finished.
 * Otherwise it keeps the rules of the store beneath (store.h) and can what that one can.
 *
 * Threads: shared; mutex guards the count of calls and is not held during one.
 */
#include "io/wrap.h"

#include <stdatomic.h>

typedef enum lk_store_result {
    LK_STORE_DONE,
    LK_STORE_ABSENT,
    LK_STORE_FAILED,
    LK_STORE_RESULTS
} lk_store_result;

/* Operations that went through gates, by what they were and how they ended: an object that is written in pieces is one, several
 * that are fetched or removed at once are several. Threads: shared. */
typedef struct lk_store_counts {
    atomic_ullong calls[LK_STORE_KINDS][LK_STORE_RESULTS];
} lk_store_counts;

/* Borrows under and counts (NULL: not counted), which must outlive the result and everything opened through it. lk_store_close
 * frees it. */
lk_store *lk_gate_store_new(lk_store *under, lk_store_counts *counts);

/* Of a store that lk_gate_store_new made: refuses from now on, and waits for the calls that are under way. Idempotent. */
void lk_gate_shut(lk_store *gate);
bool lk_gate_is_shut(lk_store *gate);

#endif
