#ifndef LK_SIM_ROLLOUT_WORLD_H
#define LK_SIM_ROLLOUT_WORLD_H
/*
 * world.h - everything outside the instances of a rollout store: one bucket, a network to it that delays, loses and
 * repeats nothing but delivers late, processes that are killed, stopped and doubled, clocks that step.
 *
 * Invariant: instances run the product's code unchanged; only the interfaces under them are made here.
 */
#include "disk.h"
#include "outside.h"
#include "rollout/store.h"

/* Which safety rule is left out, to prove that the checkers bite. */
typedef enum sim_rule {
    RULE_NONE,
    RULE_ORDER,   /* readers look at the base table before the shards */
    RULE_DRAIN,   /* a merge's rows reach the base table after their generations are taken off */
    RULE_FENCE,   /* a writer does not see that another claimed its shard */
    RULE_ABSENT,  /* a shard's manifest is put whether or not there is one */
    RULE_UNKNOWN, /* an answer that got lost is taken for a no */
    RULE_FILES,   /* a generation is listed before its files are there */
    RULE_NAMES,   /* a superseded manifest goes with its name, not only its contents */
    RULE_COUNT
} sim_rule;

enum {
    PODS = 3,
    PODS_AND_READER = PODS + 1, /* the last one only reads */
    ZOMBIES_MAX = 8,
    CLIENTS = 5,
    ADDS = 6, /* of each client */
    ROWS_MAX = 3,
    GRACE_MS = 8000,
    CHAOS_END_MS = 220000, /* the simulation begins at 100 s */
    END_MS = 2000000
};

typedef struct world world;

typedef struct process {
    world            *w;
    int               pod;
    unsigned          group;
    lk_store          gate; /* the network to the bucket */
    sim_clock         clock;
    lk_lance_env      env;
    lk_rollout_store *store;       /* once it is open */
    uint64_t          claimed;     /* the epoch of its last claim (RULE_FENCE) */
    uint64_t          base_before; /* the table's version when it last looked for shards (RULE_ORDER) */
} process;

typedef struct add {
    int      rows;
    int      tried[3]; /* attempts, by contents (1, 2) */
    int      told;     /* the contents that somebody was told are stored; 0: nothing yet */
    int      seen;     /* the contents that some reader saw */
    uint64_t told_at, seen_at;
    bool     two_contents, given_up, done;
} add;

typedef struct shard_tip {
    lk_uuid           id;
    lk_arena          arena;
    lk_shard_manifest manifest;
} shard_tip;

struct world {
    disk       bucket;
    lk_random  random;
    process   *pods[PODS_AND_READER]; /* NULL: down */
    process   *zombies[ZOMBIES_MAX];  /* of pods that were started anew while they ran */
    sim_rule   rule;
    bool       chaos, log;
    bool       deferred, flushed; /* acknowledged is logged; everything is flushed at last */
    uint64_t   merge_after, events;
    unsigned   next_group, clients_done, reads, merges, collected, emptied, compacted, late;
    unsigned   owners[PODS][512]; /* by epoch: the group that had it */
    shard_tip  tips[PODS];
    uint64_t   base_version;
    add        adds[CLIENTS][ADDS + 1]; /* and the last ones, of each pod */
    bool       over;
    sim_report report;
};

void world_open(world *w, sim_rule rule, bool trace);
void world_close(world *w);

void world_start(world *w, int pod); /* a new process of this pod, beside what runs already */
void world_kill(world *w, process *p);

void world_network(world *w);    /* a hop: others run; under chaos perhaps for long */
void world_chaos(void *context); /* a fiber: kills, stops, doubles, until the end of chaos */
void gate_open(process *p);      /* sets p->gate up (gate.c) */

#endif
