#ifndef LK_KV_KV_H
#define LK_KV_KV_H
/*
 * kv.h - the only door to durable coordination state.
 *
 * Every backend keeps these; kv_contract_test.c runs them against each one:
 *   1. Every write is conditional. There is no blind put.
 *   2. A condition that does not hold is LK_OK with *applied = false and nothing changed. It is
 *      never an error, and an error is never reported as false.
 *   3. One write call is one atomic step: guard, every target's condition, every target, durable before
 *      it returns. All keys of a call are distinct, and none equals the guard key (else asserted).
 *   4. A failed write sets err->maybe_applied unless the backend knows that nothing happened.
 *   5. Keys are non-empty UTF-8 of at most LK_KV_KEY_BYTES_MAX (else LK_E_INVALID_REQUEST), values at most
 *      LK_KV_VALUE_BYTES_MAX (else LK_E_LIMIT). Scans return keys in byte order.
 *
 * Threads: shared; any call from any thread. Calls block, so no lock may be held across one.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/thread.h"

typedef struct lk_kv lk_kv;

/* One key's transition. */
typedef struct lk_kv_change {
    lk_bytes        key;
    const lk_bytes *expected; /* NULL: the key must not exist; else its exact present bytes */
    const lk_bytes *value;    /* NULL: delete the key */
    bool            any;      /* ignore expected: only for signals, whose old value does not matter */
} lk_kv_change;

enum { LK_KV_CHANGES_MAX = 16 };

typedef struct lk_kv_write {
    const lk_kv_change *changes; /* 1 .. LK_KV_CHANGES_MAX, applied together or not at all */
    size_t              change_count;
    lk_bytes            guard_key;   /* empty: unguarded */
    lk_bytes            guard_value; /* exact bytes the guard key must hold */
} lk_kv_write;

typedef struct lk_kv_item {
    lk_bytes key, value; /* in the arena of the call */
} lk_kv_item;

struct lk_kv_ops {
    lk_rc (*get)(lk_kv *kv, lk_bytes key, lk_arena *arena, lk_bytes *value, bool *found, lk_err *err);
    lk_rc (*write)(lk_kv *kv, const lk_kv_write *write, bool *applied, lk_err *err);
    lk_rc (*scan)(lk_kv *kv, lk_bytes prefix, lk_bytes after, size_t limit, lk_arena *arena,
        lk_kv_item **items, size_t *count, lk_bytes *next, lk_err *err);
    void (*close)(lk_kv *kv);
};

struct lk_kv {
    const struct lk_kv_ops *ops; /* first member of every backend's own struct */
};

/* Reads one key. *value lives in arena and is valid only when *found. */
static inline LK_MUST_CHECK lk_rc lk_kv_get(
    lk_kv *kv, lk_bytes key, lk_arena *arena, lk_bytes *value, bool *found, lk_err *err)
{
    lk_assert_no_mutex();
    return kv->ops->get(kv, key, arena, value, found, err);
}

/* Writes under its conditions (rules 1-4). Borrows everything in *write. */
static inline LK_MUST_CHECK lk_rc lk_kv_put(lk_kv *kv, const lk_kv_write *write, bool *applied, lk_err *err)
{
    lk_assert_no_mutex();
    return kv->ops->write(kv, write, applied, err);
}

/*
 * One page of keys with the prefix, strictly after `after` (an opaque cursor that an earlier page of
 * the same prefix returned in *next; empty: from the start), at most limit items (1 .. 10000). *next is
 * empty when nothing is left. A page may be short, even empty, while *next is not: loop on *next. Keys
 * deleted between pages make no other key skipped or repeated. A foreign cursor is LK_E_INVALID_REQUEST.
 */
static inline LK_MUST_CHECK lk_rc lk_kv_scan(lk_kv *kv, lk_bytes prefix, lk_bytes after, size_t limit,
    lk_arena *arena, lk_kv_item **items, size_t *count, lk_bytes *next, lk_err *err)
{
    lk_assert_no_mutex();
    return kv->ops->scan(kv, prefix, after, limit, arena, items, count, next, err);
}

static inline void lk_kv_close(lk_kv *kv)
{
    if (kv != NULL) {
        kv->ops->close(kv);
    }
}

#endif
