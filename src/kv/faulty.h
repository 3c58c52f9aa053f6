#ifndef LK_KV_FAULTY_H
#define LK_KV_FAULTY_H
/*
 * faulty.h - an lk_kv that fails by plan, over any other. Without a fault it changes nothing.
 *
 *   LOST        the request never arrives; like every fault, told as LK_E_KV_UNAVAILABLE
 *   REPLY_LOST  the request is done, the caller hears an error
 *   TORN        as LOST: a write is atomic, so half of it is none
 *   FULL        nothing is done, and the caller knows it: LK_E_STORE_FULL
 *   DENIED      nothing is done, and the caller knows it: LK_E_IO
 *
 * A write that met LOST, REPLY_LOST or TORN says maybe_applied: nobody could tell them apart.
 * Every call asks the plan once; its hook may delay. Threads: shared.
 */
#include "base/fault.h"
#include "kv/kv.h"

/* Borrows plan; takes under, closed with the result. */
lk_kv *lk_kv_faulty_new(lk_kv *under, lk_fault_plan *plan);

#endif
