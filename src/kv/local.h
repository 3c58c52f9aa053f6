#ifndef LK_KV_LOCAL_H
#define LK_KV_LOCAL_H
/*
 * local.h - a durable KV on one host: RocksDB in a directory that one process owns.
 *
 * Invariants:
 *   1. A write that was answered is on disk: its log record was synced before (durable = false: it
 *      survives the process, not the machine).
 *   2. Writes take turns; each checks its conditions and lands in one batch, so no other is between.
 *   3. After a write failed (full disk, bad disk) later writes are refused until the files opened again
 *      and replayed cleanly; reads go on.
 * Threads: shared.
 */
#include "kv/kv.h"

/*
 * Makes directory when absent. LK_E_LOCKED when another process (or this one) has it open,
 * LK_E_CORRUPT_RECORD when its files are damaged, LK_E_STORE_FULL, LK_E_IO.
 */
LK_MUST_CHECK lk_rc lk_kv_local_open(lk_kv **out, const char *directory, bool durable, lk_err *err);

#endif
