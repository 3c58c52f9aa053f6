#ifndef LK_META_NODE_FIXTURE_H
#define LK_META_NODE_FIXTURE_H
/*
 * node_fixture.h - a world with one KV and one disk, and metadata nodes in it that lead without threads.
 * One fault plan sits under all of them: "the n-th outside call" counts KV and store calls together.
 */
#include "base/fault.h"
#include "engine/mem_engine.h"
#include "engine/mem_rows.h"
#include "meta/append.h"
#include "meta/create.h"
#include "meta/recover.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct world {
    lk_fault_plan    plan;
    lk_manual_clock  clock;
    lk_seeded_random random;
    lk_kv           *kv;
    lk_mem_disk     *disk;
    bool             dead;       /* every call fails: the process is gone */
    bool             dies;       /* from the armed fault on, the world is dead */
    bool             reply_lost; /* of the store call that is running */
} world;

typedef struct node {
    world         *world;
    lk_engine     *engine;
    lk_elect       elect;
    lk_table_locks locks;
    lk_meta_env    env;
    lk_arena       arena;
    lk_err         err;
    char           id[8];
} node;

void world_init(world *w);
void world_deinit(world *w);

/* A node that takes the lead at once (the one before it is deposed). */
void node_init(node *n, world *w, const char *id);
void node_deinit(node *n);

extern const lk_table_ref the_table; /* ns.t */
extern const char *const digest_a, *const digest_b;

/* A v7 id whose clock is `ahead_secs` from the world's now, and that ends in `serial`. */
lk_bytes operation_id(node *n, int64_t ahead_secs, unsigned serial);

lk_rc make_table(node *n);
lk_rc drop_the_table(node *n, bool *dropped);
/* Rows first .. first + count - 1 under tenant "acme". */
lk_rc append_rows(
    node *n, lk_bytes operation, const char *digest, int64_t first, int64_t count, uint64_t *version);

/* The published version, and the rows there; fails the test when the table is absent. */
uint64_t published(node *n);
void     check_published(node *n, uint64_t version, uint64_t rows, int64_t sum);
size_t   count_keys(world *w, lk_bytes prefix);
lk_bytes value_of(node *n, lk_bytes key); /* empty when absent */
void     put_value(world *w, lk_bytes key, lk_bytes value);

/* Arms the plan: the call after n others fails; with dies, so does everything after it. */
void arm(world *w, lk_fault kind, int n, bool dies);
/* Disarms and brings the world back; whether the fault was met. */
bool disarm(world *w);

#endif
