/* clients.c - see clients.h. */
#include "clients.h"

#include "checks.h"
#include "rollout/collect.h"
#include "rollout/records_json.h"
#include "rollout/upkeep.h"
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

/* -- adding ----------------------------------------------------------------------------------------------------------- */

typedef struct request { /* on its way; never freed, for a dead process may still hold it */
    process *p;
    int      client, number, contents;
    bool     done;
    lk_rc    rc;
} request;

static add *add_of(const request *q)
{
    return &q->p->w->adds[q->client][q->number];
}

static void write_lines(const request *q, lk_buf *out)
{
    for (int row = 0; row < add_of(q)->rows; row++) {
        char id[24];
        row_id(q->client, q->number, row, id);
        lk_buf_format(
            out, "{\"id\":\"%s\",\"rollout_id\":\"r%d\",\"content\":\"%d\"}\n", id, q->client, q->contents);
    }
}

/* What a caller may hear of an add. */
static void check_answer(const request *q, const lk_err *err)
{
    bool stated = q->rc == LK_OK || q->rc == LK_E_STORE_UNAVAILABLE || q->rc == LK_E_SHARD_FENCED ||
                  (q->rc == LK_E_CONFLICT && add_of(q)->two_contents);
    if (!stated) {
        sim_fail(&q->p->w->report, "an add hears %s: %s", lk_rc_name(q->rc), err->context);
    }
}

/* Runs in the process that was asked. */
static void serve_add(void *context)
{
    request    *q = context;
    world      *w = q->p->w;
    lk_err      err = {0};
    lk_buf      lines = {0};
    lk_records *records = NULL;
    write_lines(q, &lines);
    q->rc = lk_records_open(lk_clock_wall_ms(&q->p->clock.base) * 1000, NULL, &records, &err);
    if (q->rc == LK_OK) {
        q->rc = lk_records_read_ndjson(records, lk_buf_view(&lines), &err);
    }
    if (q->rc == LK_OK) {
        q->rc = lk_rollout_store_add(q->p->store, records, false, NULL, &err);
    }
    sim_trace(&w->report, "add c%d-%d with %d: %d %s", q->client, q->number, q->contents, (int)q->rc,
        q->rc == LK_OK ? "" : err.context);
    check_answer(q, &err);
    check_owner(q->p);
    if (q->rc == LK_OK) {
        check_told(w, add_of(q), q->contents);
    }
    lk_records_close(records);
    lk_buf_deinit(&lines);
    q->done = true;
    sim_wake(q);
}

static bool ask(process *p, int client, int number, int contents, lk_rc *rc)
{
    request *q = calloc(1, sizeof *q);
    LK_ASSERT(q != NULL);
    *q = (request){.p = p, .client = client, .number = number, .contents = contents};
    add_of(q)->tried[contents]++;
    sim_spawn(p->group, serve_add, q);
    uint64_t until = sim_now_ms() + 20000;
    while (!q->done && sim_now_ms() < until) {
        (void)sim_wait(q, until);
    }
    *rc = q->rc;
    return q->done;
}

/* One add until it is acknowledged, or its client gives up. */
static void insist(world *w, int client, int number)
{
    add *a = &w->adds[client][number];
    int  home = (int)sim_random(PODS), contents = 1;
    while (!a->done) {
        int      pod = a->two_contents || sim_chance(2) ? home : (int)sim_random(PODS);
        process *p = w->pods[pod];
        lk_rc    rc = LK_OK;
        if (p->store == NULL) {
            sim_sleep(200 + sim_random(1000));
            continue;
        }
        bool answered = ask(p, client, number, contents, &rc);
        a->done = answered && rc == LK_OK;
        if (!a->done && w->chaos && sim_chance(8)) {
            a->given_up = a->done = true;
        }
        if (!a->done && a->two_contents && (sim_chance(2) || (answered && rc == LK_E_CONFLICT))) {
            contents = 3 - contents;
        }
        sim_sleep(sim_random(3000));
    }
}

typedef struct person {
    world *w;
    int    number;
} person;

static void live(void *context)
{
    person *me = context;
    for (int number = 0; number < ADDS; number++) {
        sim_sleep(sim_random(10000));
        insist(me->w, me->number, number);
    }
    me->w->clients_done++;
    free(me);
}

void clients_start(world *w)
{
    for (int client = 0; client < CLIENTS; client++) {
        person *me = calloc(1, sizeof *me);
        LK_ASSERT(me != NULL);
        *me = (person){w, client};
        for (int number = 0; number < ADDS; number++) {
            add *a = &w->adds[client][number];
            a->rows = 1 + (int)sim_random(ROWS_MAX);
            a->two_contents = sim_chance(4);
        }
        sim_spawn(SIM_NO_GROUP, live, me);
    }
}

bool clients_done(const world *w)
{
    return w->clients_done == CLIENTS && !w->chaos;
}

/* -- reading, merging, collecting: in the process --------------------------------------------------------------------- */

static void read_on(void *context)
{
    process *p = context;
    while (!p->w->over) {
        lk_err   err = {0};
        bool     calm = !p->w->chaos;
        uint64_t began = sim_now_ms();
        sim_sleep(sim_random(4000));
        lk_rc rc = check_read(p, &err);
        bool  slow = sim_now_ms() - began > GRACE_MS / 2; /* what it read may have been collected */
        if (rc != LK_OK && (calm || (rc != LK_E_STORE_UNAVAILABLE && !(rc == LK_E_SNAPSHOT_GONE && slow)))) {
            sim_fail(&p->w->report, "a reader hears %s: %s", lk_rc_name(rc), err.context);
        }
    }
}

static lk_rc merge(process *p, size_t most, lk_err *err)
{
    const lk_rollout_merge_options options = {.generations_max = most};
    lk_rollout_merge_report        report;
    lk_rc                          rc = lk_rollout_store_merge(p->store, &options, &report, err);
    p->w->merges += rc == LK_OK && report.generations > 0;
    if (rc == LK_OK ? report.generations > 0 : true) {
        sim_trace(&p->w->report, "merge: %d, %zu generations, %d rows %s", (int)rc, report.generations,
            (int)report.rows, rc == LK_OK ? "" : err->context);
    }
    return rc;
}

static lk_rc collect(process *p, uint64_t grace_ms, lk_err *err)
{
    lk_rollout_collect_report report = {0};
    lk_rc rc = lk_rollout_collect(&p->env, lk_rollout_store_shard(p->store), grace_ms, false, &report, err);
    p->w->collected += (unsigned)report.directories;
    p->w->emptied += (unsigned)report.manifests;
    return rc;
}

static lk_rc compact(process *p, lk_err *err)
{
    lk_rollout_compact_report report = {0};
    lk_rc                     rc = lk_rollout_store_compact(p->store, 0, &report, err);
    p->w->compacted += rc == LK_OK && report.fragments_removed > 0;
    sim_trace(&p->w->report, "compaction: %d, %d fragments %s", (int)rc, (int)report.fragments_removed,
        rc == LK_OK ? "" : err->context);
    return rc;
}

static void keep_house(void *context)
{
    process *p = context;
    while (!p->w->over) {
        lk_err err = {0};
        sim_sleep(sim_random(8000));
        uint64_t what = sim_random(5);
        lk_rc    rc = what < 2   ? merge(p, sim_random(4), &err)
                      : what < 4 ? collect(p, GRACE_MS, &err)
                                 : compact(p, &err);
        if (rc == LK_E_CORRUPT_FILE || rc == LK_E_INTERNAL) {
            sim_fail(&p->w->report, "housekeeping hears %s: %s", lk_rc_name(rc), err.context);
        }
        check_owner(p);
    }
}

void clients_serve(process *p)
{
    sim_spawn(p->group, read_on, p);
    if (p->pod < PODS) {
        sim_spawn(p->group, keep_house, p);
    }
}

/* -- the end ---------------------------------------------------------------------------------------------------------- */

static void finish(process *p)
{
    lk_rc rc = LK_E_CONFLICT;
    while (rc != LK_OK) {
        lk_err err = {0};
        rc = lk_rollout_store_flush(p->store, &err);
        rc = rc == LK_OK ? merge(p, 0, &err) : rc;
        if (rc != LK_OK && rc != LK_E_CONFLICT && rc != LK_E_SHARD_FENCED) {
            sim_fail(&p->w->report, "the last merge hears %s: %s", lk_rc_name(rc), err.context);
            return;
        }
        sim_sleep(rc == LK_OK ? 0 : 5000);
    }
}

/* Runs in the last process of each pod. */
static void end_pod(void *context)
{
    process *p = context;
    world   *w = p->w;
    lk_err   err = {0};
    finish(p);
    p->clock.skew_ms = 0;
    sim_sleep(10 * GRACE_MS);
    if (collect(p, GRACE_MS, &err) != LK_OK) {
        sim_fail(&w->report, "the last sweep fails: %s", err.context);
    }
    w->clients_done++;
}

/* One more add through each pod: directories of flushes that died have numbers that were given by then. */
static void last_adds(world *w)
{
    for (int pod = 0; pod < PODS; pod++) {
        add  *a = &w->adds[pod][ADDS];
        bool  answered = false;
        lk_rc rc = LK_OK;
        a->rows = 1;
        while (!answered || rc != LK_OK) {
            answered = w->pods[pod]->store != NULL && ask(w->pods[pod], pod, ADDS, 1, &rc);
            sim_sleep(1000);
        }
    }
}

void clients_end(void *context)
{
    world *w = context;
    sim_sleep(60000); /* what was sent late has arrived, or never will */
    last_adds(w);
    for (int pod = 0; pod < PODS; pod++) {
        sim_spawn(w->pods[pod]->group, end_pod, w->pods[pod]);
    }
    while (w->clients_done < CLIENTS + PODS) {
        sim_sleep(1000);
    }
    w->flushed = true;
    check_at_last(w->pods[PODS]);
    w->over = true;
}
