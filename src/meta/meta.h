#ifndef LK_META_META_H
#define LK_META_META_H
/*
 * meta.h - one metadata node: the authority over a KV and an engine, its election and its recovery.
 *
 * lk_meta_open starts campaigning at once and serves reads right away; writes answer LK_E_NOT_LEADER until
 * the node leads. lk_meta_close stops taking writes, waits for those that run, resigns and joins.
 *
 * Invariants:
 *   1. Every write of the authority is conditional on the leader record that this node installed.
 *   2. A table's published version is one that the engine has completely; it is written in the same
 *      atomic step that decides it (append.h).
 *   3. No I/O of its own: everything outside comes in through lk_meta_options.
 *
 * Threads: shared. Two threads inside: election (elect.h) and recovery (recover.h).
 */
#include "base/clock.h"
#include "base/rand.h"
#include "catalog/authority.h"
#include "engine/engine.h"
#include "kv/kv.h"

typedef struct lk_meta lk_meta;

typedef struct lk_meta_options {
    lk_kv     *kv; /* borrowed, as all that follow; outlive the node */
    lk_engine *engine;
    lk_clock  *clock;
    lk_random *random; /* shared */
    lk_bytes
        tables_root; /* copied: tables lie at <root>/<ns>/<table>/<uuidv7>.lance; the engine's root, too */
    /* The KV is held by a lock that dies with its process, so whoever holds the lease now is dead:
     * take over at once instead of waiting for the lease to run out. Only for RocksDB on one host. */
    bool     sole_owner;
    uint64_t append_max_concurrent; /* 0: default of the setting, here and below */
    uint64_t append_queue_timeout_ms;
    uint64_t append_max_stream_bytes;
    uint64_t append_retention_secs;
} lk_meta_options;

LK_MUST_CHECK lk_rc lk_meta_open(lk_meta **out, const lk_meta_options *options, lk_err *err);
void                lk_meta_close(lk_meta *meta); /* accepts NULL */

/* The authority of this node; borrowed, valid until lk_meta_close (its own close does nothing). */
lk_authority *lk_meta_authority(lk_meta *meta);

typedef struct lk_meta_status {
    bool     leader; /* this node may write now */
    bool     ready;  /* it leads and has taken up what its predecessor left, or knows a live leader */
    uint64_t epoch;  /* of the leader record last seen; 0: none */
    uint64_t appends_running;
} lk_meta_status;
void lk_meta_status_get(lk_meta *meta, lk_meta_status *out);

/* Waits until ready. LK_E_AUTHORITY_UNAVAILABLE when deadline_ms (absolute monotonic) passes first. */
LK_MUST_CHECK lk_rc lk_meta_wait_ready(lk_meta *meta, uint64_t deadline_ms, lk_err *err);

#endif
