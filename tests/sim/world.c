/* world.c - see world.h. */
#include "world.h"

#include "base/limits.h"
#include "checks.h"
#include "kv/mem.h"
#include "meta/lease.h"
#include "sim.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

const lk_table_ref steady_table = {{"ns", 2}, {"steady", 6}};
const lk_table_ref other_table = {{"ns", 2}, {"other", 5}};

void world_network(world *w)
{
    uint64_t delay = sim_random(12);
    if (w->chaos && sim_chance(150)) {
        delay = sim_random(3 * LK_LEASE_TTL_MS); /* one slow message, perhaps for longer than a lease */
    }
    if (w->chaos && sim_chance(400) && sim_group() != SIM_NO_GROUP) {
        sim_pause(sim_group(), sim_random(3 * LK_LEASE_TTL_MS)); /* a stopped process */
    }
    sim_sleep(delay);
}

/* -- the network to the KV --------------------------------------------------------------------------- */
static node *node_of_kv(lk_kv *kv)
{
    return (node *)(void *)((char *)kv - offsetof(node, kv));
}

static lk_rc lost(bool write, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_KV_UNAVAILABLE, "simulated");
    err->maybe_applied = write;
    return rc;
}

static bool is_record(lk_bytes key)
{
    return lk_bytes_starts(key, LK_LITERAL("append-operation/")) ||
           lk_bytes_starts(key, LK_LITERAL("append-expiry/"));
}

static lk_rc kv_get(lk_kv *kv, lk_bytes key, lk_arena *arena, lk_bytes *value, bool *found, lk_err *err)
{
    world *w = node_of_kv(kv)->w;
    world_network(w);
    lk_rc rc = lk_kv_get(w->kv, key, arena, value, found, err);
    if (w->broken == SIM_NO_RECORD && is_record(key)) {
        *found = false;
    }
    world_network(w);
    return rc == LK_OK && w->chaos && sim_chance(100) ? lost(false, err) : rc;
}

static lk_rc kv_scan(lk_kv *kv, lk_bytes prefix, lk_bytes after, size_t limit, lk_arena *arena,
    lk_kv_item **items, size_t *count, lk_bytes *next, lk_err *err)
{
    world *w = node_of_kv(kv)->w;
    world_network(w);
    lk_rc rc = lk_kv_scan(w->kv, prefix, after, limit, arena, items, count, next, err);
    world_network(w);
    return rc == LK_OK && w->chaos && sim_chance(100) ? lost(false, err) : rc;
}

/* Takes the broken rule out of a write. changes has room. */
static void weaken(world *w, lk_kv_write *write, lk_kv_change *changes)
{
    size_t kept = 0;
    bool   commits = false;
    for (size_t i = 0; i < write->change_count; i++) {
        commits = commits || lk_bytes_starts(write->changes[i].key, LK_LITERAL("lance-manifest-latest/"));
    }
    for (size_t i = 0; i < write->change_count; i++) {
        lk_kv_change change = write->changes[i];
        change.any = change.any || (w->broken == SIM_NO_RECORD && is_record(change.key));
        bool pointer = lk_bytes_starts(change.key, LK_LITERAL("lance-manifest"));
        if (w->broken != SIM_TORN_WRITE || !commits || pointer) {
            changes[kept++] = change;
        }
    }
    write->changes = changes;
    write->change_count = kept;
    if (w->broken == SIM_NO_GUARD) {
        write->guard_key = (lk_bytes){0};
    }
}

/* Whoever writes as the leader must be the leader at that very moment. */
static void check_guard(world *w, const lk_kv_write *asked)
{
    lk_arena arena = {0};
    lk_err   err = {0};
    lk_bytes value = {0};
    bool     found = false;
    bool     guarded = lk_bytes_equal(asked->guard_key, LK_LEASE_KEY);
    LK_ASSERT(lk_kv_get(w->kv, LK_LEASE_KEY, &arena, &value, &found, &err) == LK_OK);
    if (guarded && !(found && lk_bytes_equal(value, asked->guard_value))) {
        sim_fail(&w->report, "a deposed leader wrote %.*s", LK_FMT(asked->changes[0].key));
    }
    lk_arena_close(&arena);
}

static lk_rc kv_write(lk_kv *kv, const lk_kv_write *asked, bool *applied, lk_err *err)
{
    world       *w = node_of_kv(kv)->w;
    lk_kv_change changes[LK_KV_CHANGES_MAX];
    lk_kv_write  write = *asked;
    weaken(w, &write, changes);
    world_network(w);
    bool  request_lost = w->chaos && sim_chance(40);
    lk_rc rc = request_lost ? LK_OK : lk_kv_put(w->kv, &write, applied, err);
    if (!request_lost && rc == LK_OK && *applied) {
        check_guard(w, asked);
        check_always(w, &write);
        sim_trace(&w->report, "wrote %.*s (+%zu)", LK_FMT(asked->changes[0].key), asked->change_count - 1);
    }
    world_network(w);
    bool reply_lost = w->chaos && sim_chance(40);
    return request_lost || reply_lost ? lost(true, err) : rc;
}

static const struct lk_kv_ops kv_ops = {.get = kv_get, .write = kv_write, .scan = kv_scan};

/* -- the network to the disk ------------------------------------------------------------------------- */
static lk_rc store_hook(void *context, const char *call, bool after, lk_err *err)
{
    world *w = ((node *)context)->w;
    world_network(w);
    if (w->chaos && sim_chance(120)) {
        lk_rc rc = lk_fail(err, LK_E_STORE_UNAVAILABLE, "simulated: %s%s", call, after ? ", reply lost" : "");
        err->maybe_applied = strcmp(call, "open") != 0 && strcmp(call, "read") != 0;
        return rc;
    }
    return LK_OK;
}

/* -- processes --------------------------------------------------------------------------------------- */
static void process(void *context)
{
    node                       *n = context;
    world                      *w = n->w;
    lk_err                      err = {0};
    lk_engine                  *engine = NULL;
    lk_meta                    *meta = NULL;
    const lk_mem_engine_options engine_options = {.kv = &n->kv,
        .disk = w->disk,
        .hook = {store_hook, n},
        .clock = &n->clock.base,
        .random = &w->random};
    LK_ASSERT(lk_mem_engine_open(&engine, &engine_options, &err) == LK_OK);
    const lk_meta_options options = {.kv = &n->kv,
        .engine = engine,
        .clock = &n->clock.base,
        .random = &w->random,
        .tables_root = LK_LITERAL("/tables"),
        .sole_owner = w->broken == SIM_NO_WATCH};
    LK_ASSERT(lk_meta_open(&meta, &options, &err) == LK_OK);
    n->engine = engine;
    n->meta = meta;
    sim_trace(&w->report, "node %d is up", (int)(n - w->nodes));
}

void world_start(world *w, node *n)
{
    n->w = w;
    n->meta = NULL;
    n->group = ++w->next_group;
    n->clock.skew_ms = (int64_t)sim_random(7200000) - 3600000;
    sim_spawn(n->group, process, n);
}

void world_stop(world *w, node *n)
{
    if (n->group != SIM_NO_GROUP) {
        sim_trace(&w->report, "node %d is killed", (int)(n - w->nodes));
        sim_kill(n->group);
        n->group = SIM_NO_GROUP;
        n->meta = NULL;
    }
}

void world_open(world *w, sim_broken broken, bool trace)
{
    *w = (world){.broken = broken, .report = {.trace = trace}, .chaos = true, .random = sim_random_of_run()};
    w->kv = lk_kv_mem_open(NULL);
    w->disk = lk_mem_disk_new();
    for (int i = 0; i < NODES; i++) {
        w->nodes[i].kv.ops = &kv_ops;
        sim_clock_init(&w->nodes[i].clock);
        world_start(w, &w->nodes[i]);
    }
}

void world_close(world *w)
{
    lk_kv_close(w->kv);
    lk_mem_disk_free(w->disk);
}
