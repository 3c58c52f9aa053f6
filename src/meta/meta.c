/* meta.c - wires one metadata node together; see meta.h. */
#include "meta/meta.h"

#include "base/limits.h"
#include "base/uuid.h"
#include "meta/local_authority.h"

#include <stdlib.h>

enum { READY_POLL_MS = 20, DDL_SLOTS = 1024 };

struct lk_meta {
    lk_arena           arena; /* what outlives requests: names */
    lk_meta_env        env;
    lk_elect           elect;
    lk_recovery        recovery;
    lk_table_locks     locks;
    lk_admit           appends, ddl;
    lk_local_authority authority;
};

static uint64_t or_default(uint64_t value, uint64_t usual)
{
    return value == 0 ? usual : value;
}

static void recheck(void *context)
{
    lk_recovery_kick(&((lk_meta *)context)->recovery);
}

static void build(lk_meta *meta, const lk_meta_options *o)
{
    uint64_t wait_ms = or_default(o->append_queue_timeout_ms, LK_APPEND_QUEUE_TIMEOUT_MS);
    uint64_t slots = or_default(o->append_max_concurrent, LK_APPEND_MAX_CONCURRENT);
    uint64_t stream_bytes = or_default(o->append_max_stream_bytes, LK_APPEND_STREAM_BYTES_MAX);
    lk_table_locks_init(&meta->locks, o->clock);
    lk_admit_init(&meta->appends, o->clock, slots, slots * stream_bytes);
    lk_admit_init(&meta->ddl, o->clock, DDL_SLOTS, 0);
    meta->env = (lk_meta_env){.kv = o->kv,
        .engine = o->engine,
        .clock = o->clock,
        .random = o->random,
        .fence = {.kv = o->kv, .elect = &meta->elect},
        .locks = &meta->locks,
        .tables_root = lk_arena_copy(&meta->arena, o->tables_root),
        .lock_wait_ms = wait_ms,
        .retention_secs = or_default(o->append_retention_secs, LK_APPEND_RETENTION_SECS)};
    lk_local_authority_init(
        &meta->authority, &meta->env, &meta->appends, &meta->ddl, &meta->recovery, wait_ms, stream_bytes);
}

lk_rc lk_meta_open(lk_meta **out, const lk_meta_options *options, lk_err *err)
{
    char     text[LK_UUID_TEXT_SIZE + 1];
    lk_meta *meta = calloc(1, sizeof *meta);
    LK_ASSERT(meta != NULL);
    build(meta, options);
    lk_uuid_format(lk_uuid_v7(options->clock, options->random), text);
    lk_bytes node_id = lk_arena_copy(&meta->arena, lk_bytes_of(text));
    /* Recovery asks the election who leads, and the election wakes recovery: both exist before either runs.
     * */
    lk_elect_init(&meta->elect, options->kv, options->clock, node_id, options->sole_owner, recheck, meta);
    lk_rc rc = lk_recovery_start(&meta->recovery, &meta->env, &meta->elect, err);
    rc = rc == LK_OK ? lk_elect_start(&meta->elect, err) : rc;
    if (rc != LK_OK) {
        lk_meta_close(meta);
        return rc;
    }
    *out = meta;
    return LK_OK;
}

void lk_meta_close(lk_meta *meta)
{
    if (meta == NULL) {
        return;
    }
    lk_admit_close(&meta->appends);
    lk_admit_close(&meta->ddl);
    lk_elect_halt(&meta->elect); /* its callback uses recovery */
    lk_recovery_stop(&meta->recovery);
    lk_elect_deinit(&meta->elect); /* resigns: nothing of ours writes any more */
    lk_admit_deinit(&meta->ddl);
    lk_admit_deinit(&meta->appends);
    lk_table_locks_deinit(&meta->locks);
    lk_arena_close(&meta->arena);
    free(meta);
}

lk_authority *lk_meta_authority(lk_meta *meta)
{
    return &meta->authority.base;
}

void lk_meta_status_get(lk_meta *meta, lk_meta_status *out)
{
    lk_elect_view view;
    lk_elect_view_get(&meta->elect, &view);
    bool recovered = lk_recovery_epoch(&meta->recovery) == view.epoch;
    *out = (lk_meta_status){.leader = view.leader,
        .ready = view.leader ? recovered : view.leader_known,
        .epoch = view.epoch,
        .appends_running = lk_admit_running(&meta->appends)};
}

lk_rc lk_meta_wait_ready(lk_meta *meta, uint64_t deadline_ms, lk_err *err)
{
    lk_clock      *clock = meta->env.clock;
    lk_meta_status status;
    for (lk_meta_status_get(meta, &status); !status.ready; lk_meta_status_get(meta, &status)) {
        uint64_t now = lk_clock_monotonic_ms(clock);
        if (now >= deadline_ms) {
            return lk_fail(err, LK_E_AUTHORITY_UNAVAILABLE, "no leader within the deadline");
        }
        uint64_t poll_ms = now + READY_POLL_MS;
        lk_recovery_wait(&meta->recovery, poll_ms < deadline_ms ? poll_ms : deadline_ms);
    }
    return LK_OK;
}
