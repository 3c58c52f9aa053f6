#ifndef LK_SIM_WORLD_H
#define LK_SIM_WORLD_H
/*
 * world.h - everything outside the nodes: one KV, one disk, a network that delays, loses and pauses, clocks
 * that disagree; and what was seen by somebody who is everywhere (the checkers' evidence).
 *
 * Invariant: the nodes run the product's code unchanged; only the interfaces under them are made here.
 */
#include "engine/mem_engine.h"
#include "kv/kv.h"
#include "meta/meta.h"
#include "outside.h"

/* Which safety rule is left out, to prove that the checkers bite. */
typedef enum sim_broken {
    SIM_WHOLE,
    SIM_NO_GUARD,   /* writes are not conditional on the leader record */
    SIM_NO_RECORD,  /* operation records are neither read nor a condition */
    SIM_TORN_WRITE, /* the pointer moves, the changes that belong to it do not */
    SIM_NO_WATCH,   /* a live lease is stolen without watching it for a TTL */
    SIM_BROKEN_COUNT
} sim_broken;

enum { NODES = 3, CLIENTS = 5, OPERATIONS = 4, CHAOS_END_MS = 60000, END_MS = 500000 };

typedef struct world world;

typedef struct node { /* one metadata process after another, at one address */
    world     *w;
    unsigned   group; /* of the present process; SIM_NO_GROUP: down */
    lk_meta   *meta;  /* of the present process, once it is open */
    lk_kv      kv;    /* the network to the KV */
    sim_clock  clock;
    lk_engine *engine;
} node;

typedef struct operation {
    char     id[37];
    int      client, number;
    uint64_t acked; /* 0: not yet */
} operation;

struct world {
    node         nodes[NODES];
    lk_kv       *kv; /* the real one, memory */
    lk_mem_disk *disk;
    lk_random    random;
    sim_broken   broken;
    bool         chaos;
    unsigned     next_group;
    operation    operations[CLIENTS][OPERATIONS];
    unsigned     clients_done;
    bool         ddl_done;
    uint64_t     seen_version; /* of the table that is never dropped */
    sim_report   report;
};

void world_open(world *w, sim_broken broken, bool trace);
void world_close(world *w);

void world_start(world *w, node *n); /* a new process at this address */
void world_stop(world *w, node *n);  /* kill -9 */

void world_network(world *w); /* a hop: others run; under chaos perhaps for long */

extern const lk_table_ref steady_table,
    other_table; /* ns.steady is only appended to; ns.other comes and goes */

#endif
