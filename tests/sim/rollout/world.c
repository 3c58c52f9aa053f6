/* world.c - see world.h: time, randomness, processes and what befalls them. */
#include "world.h"

#include "clients.h"
#include "sim.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

void world_network(world *w)
{
    uint64_t delay = sim_random(12);
    if (w->chaos && sim_chance(400)) {
        delay = sim_random(20000); /* one slow message */
    }
    if (w->chaos && sim_chance(1500) && sim_group() != SIM_NO_GROUP) {
        sim_trace(&w->report, "stops for a while");
        sim_pause(sim_group(), sim_random(60000));
    }
    sim_sleep(delay);
}

/* -- processes -------------------------------------------------------------------------------------------------------- */

static const char *const names[PODS_AND_READER] = {"rollout-0", "rollout-1", "rollout-2", "reader"};

/* Opens the store, or creates it: all the first processes try to, at once. */
static void boot(void *context)
{
    process                 *p = context;
    world                   *w = p->w;
    const lk_rollout_options options = {.instance_id = lk_bytes_of(names[p->pod]),
        .merge_after = w->merge_after,
        .on_conflict = LK_ROLLOUT_CONFLICT_REFUSE,
        .log = w->log ? LK_ROLLOUT_LOG_ALWAYS : LK_ROLLOUT_LOG_NEVER,
        .deferred = w->deferred,
        .flush_interval_ms = 2000};
    lk_rollout_store        *store = NULL;
    while (store == NULL) {
        lk_err err = {0};
        lk_rc  rc = lk_rollout_store_open(&p->env, NULL, &options, &store, &err);
        if (rc == LK_E_NOT_FOUND && p->pod < PODS) {
            err = (lk_err){0};
            rc = lk_rollout_store_create(&p->env, NULL, &options, &store, &err);
        }
        if (rc != LK_OK) {
            if (rc != LK_E_NOT_FOUND && rc != LK_E_TABLE_EXISTS && rc != LK_E_STORE_UNAVAILABLE &&
                rc != LK_E_CONFLICT) {
                sim_fail(&w->report, "a store does not open: %s %s", lk_rc_name(rc), err.context);
            }
            sim_sleep(100 + sim_random(500));
        }
    }
    p->store = store;
    sim_trace(&w->report, "%s is up", names[p->pod]);
    clients_serve(p);
}

void world_start(world *w, int pod)
{
    process *p = calloc(1, sizeof *p);
    LK_ASSERT(p != NULL);
    *p = (process){.w = w, .pod = pod, .group = ++w->next_group};
    sim_clock_init(&p->clock);
    gate_open(p);
    p->env = (lk_lance_env){.store = &p->gate, .clock = &p->clock.base, .random = &w->random};
    p->clock.skew_ms = (int64_t)sim_random(7200000) - 3600000;
    w->pods[pod] = p;
    sim_spawn(p->group, boot, p);
}

void world_kill(world *w, process *p)
{
    sim_trace(&w->report, "g%u (%s) is killed", p->group, names[p->pod]);
    sim_kill(p->group);
    p->store = NULL;
}

static void befall(world *w)
{
    int      pod = (int)sim_random(PODS_AND_READER);
    process *p = w->pods[pod];
    uint64_t what = sim_random(5), slot = sim_random(ZOMBIES_MAX);
    if (what <= 1) {
        world_kill(w, p);
        world_start(w, pod);
    } else if (what == 2 && w->zombies[slot] == NULL) {
        sim_trace(&w->report, "a second %s is started", names[pod]);
        w->zombies[slot] = p;
        if (sim_chance(2)) {
            sim_pause(p->group, sim_random(60000));
        }
        world_start(w, pod);
    } else if (what == 3) {
        sim_trace(&w->report, "g%u (%s) is stopped for a while", p->group, names[pod]);
        sim_pause(p->group, sim_random(40000));
    } else {
        p->clock.skew_ms = (int64_t)sim_random(7200000) - 3600000;
    }
}

static void kill_zombies(world *w)
{
    for (int i = 0; i < ZOMBIES_MAX; i++) {
        if (w->zombies[i] != NULL) {
            world_kill(w, w->zombies[i]);
            w->zombies[i] = NULL;
        }
    }
}

void world_chaos(void *context)
{
    world *w = context;
    while (sim_now_ms() < CHAOS_END_MS) {
        sim_sleep(sim_random(10000));
        befall(w);
        if (sim_chance(5)) {
            kill_zombies(w);
        }
    }
    kill_zombies(w);
    for (int i = 0; i < PODS_AND_READER; i++) {
        sim_pause(w->pods[i]->group, 0);
    }
    w->chaos = false;
    sim_trace(&w->report, "the storm is over");
}

void world_open(world *w, sim_rule rule, bool trace)
{
    *w = (world){.rule = rule, .report = {.trace = trace}, .chaos = true, .random = sim_random_of_run()};
    w->deferred = false;
    w->log = w->deferred || sim_chance(2);
    w->merge_after = sim_random(5);
    for (int i = 0; i < PODS; i++) {
        w->tips[i].id = lk_shard_of_instance(lk_bytes_of(names[i]));
        w->tips[i].manifest.current_generation = 1;
    }
    for (int i = 0; i < PODS_AND_READER; i++) {
        world_start(w, i);
    }
    sim_spawn(SIM_NO_GROUP, world_chaos, w);
}

void world_close(world *w)
{
    for (int i = 0; i < PODS; i++) {
        lk_arena_close(&w->tips[i].arena);
    }
    disk_free(&w->bucket);
}
