/* clients.c - see clients.h. */
#include "clients.h"

#include "base/uuid.h"
#include "checks.h"
#include "engine/mem_rows.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

typedef enum question { CREATE, DROP, APPEND } question;

typedef struct call { /* one request on its way; never freed, for a dead server may still hold it */
    lk_authority *authority;
    question      question;
    lk_table_ref  table;
    const char   *operation;
    char          operation_copy[LK_UUID_TEXT_SIZE + 1];
    int64_t       row;
    bool          done;
    lk_rc         rc;
    uint64_t      version;
} call;

static const lk_principal caller = {.id = {"sim", 3}, .tenant = {"acme", 4}, .role = LK_ROLE_ADMIN};

static lk_bytes digest_of(int64_t row, char out[65])
{
    snprintf(out, 65, "%064llx", (unsigned long long)row);
    return lk_bytes_of(out);
}

/* Runs as a fiber of the node that was asked. */
static void serve(void *context)
{
    call                          *c = context;
    lk_err                         err = {0};
    char                           digest[65];
    struct ArrowSchema             schema = {0};
    const struct lk_authority_ops *ops = c->authority->ops;
    switch (c->question) {
    case CREATE:
        lk_mem_rows_schema(&schema);
        c->rc = ops->create_table(c->authority, &caller, c->table, &schema, &err);
        lk_schema_release(&schema);
        break;
    case DROP:
        c->rc = ops->drop_table(c->authority, &caller, c->table, &err);
        break;
    case APPEND: {
        lk_batches             *rows = lk_mem_rows_open(c->row, 1, 1);
        const lk_append_command command = {c->table, lk_bytes_of(c->operation), digest_of(c->row, digest)};
        c->rc = ops->append(c->authority, &caller, &command, rows, NULL, &c->version, &err);
        lk_batches_close(rows);
        break;
    }
    }
    c->done = true;
    sim_wake(c);
}

/* One attempt; LK_E_UNREACHABLE when nobody answered in time. */
static lk_rc ask(world *w, const call *what, uint64_t *version)
{
    node    *n = &w->nodes[sim_random(NODES)];
    uint64_t deadline_ms = sim_now_ms() + 1000 + sim_random(8000);
    call    *c = malloc(sizeof *c);
    LK_ASSERT(c != NULL);
    *c = *what;
    if (what->operation != NULL) { /* served perhaps when the client has long gone */
        snprintf(c->operation_copy, sizeof c->operation_copy, "%s", what->operation);
        c->operation = c->operation_copy;
    }
    world_network(w);
    if (n->meta != NULL && !(w->chaos && sim_chance(30))) {
        c->authority = lk_meta_authority(n->meta);
        sim_spawn(n->group, serve, c);
        while (!c->done && sim_wait(c, deadline_ms)) {}
    }
    bool heard = c->done && !(w->chaos && sim_chance(30));
    *version = c->version;
    return heard ? c->rc : LK_E_UNREACHABLE;
}

static void backoff(void)
{
    sim_sleep(50 + sim_random(500));
}

/* -- appenders ---------------------------------------------------------------------------------------- */
typedef struct appender {
    world *w;
    int    number;
} appender;

static void append_one(world *w, operation *op)
{
    uint64_t   version = 0;
    const call what = {
        .question = APPEND, .table = steady_table, .operation = op->id, .row = op->client * 100 + op->number};
    for (lk_rc rc = LK_E_UNREACHABLE; rc != LK_OK; backoff()) {
        rc = ask(w, &what, &version);
        if (rc == LK_E_OPERATION_CONFLICT || rc == LK_E_OPERATION_RECREATED || rc == LK_E_FOREIGN_COMMIT ||
            rc == LK_E_CORRUPT_RECORD) {
            sim_fail(&w->report, "append of client %d answered %s", op->client, lk_rc_name(rc));
            return;
        }
    }
    sim_trace(&w->report, "client %d: operation %d is version %d", op->client, op->number, (int)version);
    op->acked = version;
    check_told(w, op);
}

static void append_all(void *context)
{
    const appender *a = context;
    world          *w = a->w;
    for (int i = 0; i < OPERATIONS; i++) {
        operation *op = &w->operations[a->number][i];
        *op = (operation){.client = a->number, .number = i + 1};
        snprintf(op->id, sizeof op->id, "019ad3f7-7000-7000-8000-%06d%06d", a->number, i + 1);
        append_one(w, op);
        sim_sleep(sim_random(4000));
    }
    w->clients_done++;
}

/* -- the one that creates and drops --------------------------------------------------------------------- */
static void insist(world *w, const call *what, lk_rc also)
{
    uint64_t version = 0;
    lk_rc    rc = LK_E_UNREACHABLE;
    while (rc != LK_OK && rc != also) {
        rc = ask(w, what, &version);
        backoff();
    }
}

static void create_and_drop(void *context)
{
    world     *w = context;
    char       id[37];
    uint64_t   version = 0;
    const call steady = {.question = CREATE, .table = steady_table};
    const call create = {.question = CREATE, .table = other_table},
               drop = {.question = DROP, .table = other_table};
    insist(w, &steady, LK_E_TABLE_EXISTS);
    for (int round = 0; round < 4; round++) {
        insist(w, &create, LK_E_TABLE_EXISTS);
        snprintf(id, sizeof id, "019ad3f7-7000-7000-8000-aaaaaa%06d", round);
        const call append = {.question = APPEND, .table = other_table, .operation = id, .row = round};
        (void)ask(w, &append, &version);
        if (round < 3) {
            insist(w, &drop, LK_OK);
        }
    }
    w->ddl_done = true;
}

/* -- chaos ---------------------------------------------------------------------------------------------- */
static void kill_and_start(void *context)
{
    world *w = context;
    while (sim_now_ms() < 100000 + CHAOS_END_MS) {
        sim_sleep(sim_random(6000));
        node *n = &w->nodes[sim_random(NODES)];
        world_stop(w, n);
        sim_sleep(sim_random(1000));
        world_start(w, n);
    }
    w->chaos = false;
    sim_trace(&w->report, "chaos ends");
}

void clients_start(world *w)
{
    for (int i = 0; i < CLIENTS; i++) {
        appender *a = malloc(sizeof *a);
        LK_ASSERT(a != NULL);
        *a = (appender){w, i};
        sim_spawn(SIM_NO_GROUP, append_all, a);
    }
    sim_spawn(SIM_NO_GROUP, create_and_drop, w);
    sim_spawn(SIM_NO_GROUP, kill_and_start, w);
}

bool clients_done(const world *w)
{
    return w->clients_done == CLIENTS && w->ddl_done && !w->chaos;
}
