#ifndef LK_KV_KV_PRIV_H
#define LK_KV_KV_PRIV_H
/* kv_priv.h - what the bodies of lk_kv share: checks of requests, and cursors. Threads: stateless. */
#include "kv/kv.h"

LK_MUST_CHECK lk_rc lk_kv_key_check(lk_bytes key, lk_err *err);

/* Asserts rule 3 of kv.h (distinct keys) and checks rule 5. */
LK_MUST_CHECK lk_rc lk_kv_write_check(const lk_kv_write *write, lk_err *err);

/* What a write may rely on: whether the present value (found = false: none) meets its condition. */
bool lk_kv_change_holds(const lk_kv_change *change, bool found, lk_bytes present);

/* A cursor is text: its version, a digest of the prefix it belongs to, and the last key returned. */
lk_bytes lk_kv_cursor_make(lk_bytes prefix, lk_bytes last_key, lk_arena *arena);

/* Checks prefix, limit and cursor of a scan; *last is the key to resume after (empty: from the start). */
LK_MUST_CHECK lk_rc lk_kv_scan_check(
    lk_bytes prefix, lk_bytes cursor, size_t limit, lk_bytes *last, lk_err *err);

#endif
