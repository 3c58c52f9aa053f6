#ifndef LK_IO_FAULTY_H
#define LK_IO_FAULTY_H
/*
 * faulty.h - an lk_store that fails by plan, over any other. Without a fault it changes nothing.
 *
 *   LOST, DENIED, FULL  nothing is done: LK_E_STORE_UNAVAILABLE, LK_E_IO, LK_E_STORE_FULL
 *   REPLY_LOST          done, then LK_E_STORE_UNAVAILABLE (writes: maybe_applied)
 *   TORN                half of a write is done, then LK_E_IO; a put leaves a ".tmp" object behind
 *
 * Every store call asks the plan once, reads included; closing and abandoning never fail.
 * Threads: as the store beneath.
 */
#include "base/fault.h"
#include "io/store.h"

/* Borrows plan; takes under, closed with the result. */
lk_store *lk_faulty_store_new(lk_store *under, lk_fault_plan *plan);

#endif
