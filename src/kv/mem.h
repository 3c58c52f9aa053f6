#ifndef LK_KV_MEM_H
#define LK_KV_MEM_H
/* mem.h - a KV in memory, sorted, for tests and simulation. Threads: shared; one mutex of rank KV. */
#include "base/fault.h"
#include "kv/kv.h"

/* plan is borrowed and may be NULL; with one, calls fail as kv/faulty.h says. */
lk_kv *lk_kv_mem_open(lk_fault_plan *plan);

#endif
