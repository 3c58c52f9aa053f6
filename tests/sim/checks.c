/* checks.c - see checks.h. */
#include "checks.h"

#include "catalog/registry.h"
#include "engine/mem_rows.h"
#include "engine/pointer.h"
#include "meta/create.h"
#include "meta/operation.h"
#include "sim.h"

#include <stdio.h>

static bool load(world *w, lk_table_ref table, lk_arena *arena, lk_registration *out)
{
    lk_err          err = {0};
    lk_table_record record;
    bool            found = false;
    if (lk_registry_load(w->kv, table, arena, &record, &found, &err) != LK_OK) {
        sim_fail(&w->report, "the registry cannot be read: %s", err.context);
        return false;
    }
    *out = record.registration;
    return found;
}

static void check_table(world *w, lk_table_ref table, lk_arena *arena)
{
    lk_err          err = {0};
    lk_registration r;
    lk_pointer      head;
    if (!load(w, table, arena, &r)) {
        return;
    }
    if (lk_pointer_load(w->kv, r.location, arena, &head, &err) != LK_OK || head.state != LK_POINTER_LIVE ||
        !lk_bytes_equal(head.incarnation, r.incarnation)) {
        sim_fail(&w->report, "table %.*s is registered but has no live head", LK_FMT(table.name));
    } else if (head.version != r.version) {
        sim_fail(&w->report, "%.*s: published is %d, the engine has %d", LK_FMT(table.name), (int)r.version,
            (int)head.version);
    }
    if (lk_bytes_equal(table.name, steady_table.name)) {
        if (r.version < w->seen_version) {
            sim_fail(&w->report, "a version went back from %d to %d", (int)w->seen_version, (int)r.version);
        }
        w->seen_version = r.version;
    }
}

static bool touches_tables(const lk_kv_write *write)
{
    for (size_t i = 0; i < write->change_count; i++) {
        lk_bytes key = write->changes[i].key;
        if (lk_bytes_starts(key, LK_LITERAL("tbl")) ||
            lk_bytes_starts(key, LK_LITERAL("lance-manifest-latest/"))) {
            return true;
        }
    }
    return false;
}

void check_always(world *w, const lk_kv_write *made)
{
    lk_arena arena = {0};
    int      leaders = 0;
    if (touches_tables(made)) {
        check_table(w, steady_table, &arena);
        check_table(w, other_table, &arena);
    }
    for (int i = 0; i < NODES; i++) {
        lk_meta_status status = {0};
        if (w->nodes[i].meta != NULL) {
            lk_meta_status_get(w->nodes[i].meta, &status);
        }
        leaders += status.leader;
    }
    if (leaders > 1) {
        sim_fail(&w->report, "%d nodes may write at once", leaders);
    }
    lk_arena_close(&arena);
}

void check_told(world *w, const operation *op)
{
    lk_arena        arena = {0};
    lk_err          err = {0};
    lk_registration r;
    lk_operation    record;
    lk_bytes        raw = {0}, key = {0};
    bool            found = false;
    if (!load(w, steady_table, &arena, &r) || r.version < op->acked) {
        sim_fail(
            &w->report, "client %d was told version %d, which is not published", op->client, (int)op->acked);
    }
    key = lk_operation_key(&arena, LK_LITERAL("acme"), steady_table, lk_bytes_of(op->id));
    if (lk_operation_load(w->kv, key, &arena, &record, &raw, &found, &err) != LK_OK || !found ||
        record.result_version != op->acked) {
        sim_fail(&w->report, "client %d was told version %d, its record says otherwise", op->client,
            (int)op->acked);
    }
    lk_arena_close(&arena);
}

/* -- at last ------------------------------------------------------------------------------------------ */
static lk_engine *open_engine(world *w)
{
    lk_err                      err = {0};
    lk_engine                  *engine = NULL;
    const lk_mem_engine_options options = {
        .kv = w->kv, .disk = w->disk, .clock = lk_clock_real(), .random = &w->random};
    LK_ASSERT(lk_mem_engine_open(&engine, &options, &err) == LK_OK);
    return engine;
}

static void check_operations(world *w, lk_engine *engine, const lk_registration *r)
{
    const lk_table_at first = {r->location, r->incarnation, 1};
    for (int i = 0; i < CLIENTS * OPERATIONS; i++) {
        const operation *op = &w->operations[i / OPERATIONS][i % OPERATIONS];
        char             digest[65];
        lk_err           err = {0};
        lk_reconciled    found = LK_RECONCILED_UNKNOWN;
        uint64_t         version = 0;
        snprintf(digest, sizeof digest, "%064llx", (unsigned long long)(op->client * 100 + op->number));
        lk_rc rc = engine->ops->reconcile(engine, first, LK_LITERAL("acme"), lk_bytes_of(op->id),
            lk_bytes_of(digest), &found, &version, &err);
        if (rc != LK_OK || found != LK_RECONCILED_COMMITTED || version != op->acked) {
            sim_fail(&w->report, "operation %d of client %d is version %d, but was told %d", op->number,
                op->client, (int)version, (int)op->acked);
        }
    }
    if (r->version != 1 + CLIENTS * OPERATIONS) {
        sim_fail(&w->report, "%d operations made version %d", CLIENTS * OPERATIONS, (int)r->version);
    }
}

static void check_rows(world *w, lk_engine *engine, const lk_registration *r)
{
    lk_err                err = {0};
    lk_table_snapshot    *snapshot = NULL;
    lk_batches           *batches = NULL;
    uint64_t              rows = 0;
    int64_t               sum = 0, expected = 0;
    const lk_scan_options all = {.limit = UINT64_MAX};
    for (int i = 0; i < CLIENTS * OPERATIONS; i++) {
        expected += i / OPERATIONS * 100 + i % OPERATIONS + 1;
    }
    bool read = engine->ops->open(engine, (lk_table_at){r->location, r->incarnation, r->version}, &snapshot,
                    &err) == LK_OK &&
                snapshot->ops->scan(snapshot, &all, &batches, &err) == LK_OK &&
                lk_mem_rows_sum(batches, &rows, &sum, &err) == LK_OK;
    if (!read || rows != CLIENTS * OPERATIONS || sum != expected) {
        sim_fail(&w->report, "the table has %d rows of sum %d: %s", (int)rows, (int)sum, err.context);
    }
    lk_table_snapshot_unref(snapshot);
}

static void check_empty(world *w, lk_bytes prefix)
{
    lk_arena    arena = {0};
    lk_err      err = {0};
    lk_kv_item *items = NULL;
    size_t      count = 0;
    lk_bytes    next = {0};
    LK_ASSERT(lk_kv_scan(w->kv, prefix, (lk_bytes){0}, 100, &arena, &items, &count, &next, &err) == LK_OK);
    if (count > 0) {
        sim_fail(&w->report, "left after recovery: %.*s", LK_FMT(items[0].key));
    }
    lk_arena_close(&arena);
}

/* The head lies under its final name: whoever reads in place sees it. (A process that was stopped while it
 * wrote rows may have written them after its table was removed. Nothing names such files; collecting them is
 * not recovery's work, so they are not looked for here.) */
static void check_files(world *w, lk_table_ref table)
{
    lk_arena         arena = {0};
    lk_err           err = {0};
    lk_registration  r = {0};
    lk_store        *store = NULL;
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    if (load(w, table, &arena, &r)) {
        lk_bytes final = lk_pointer_final_path(&arena, r.version);
        LK_ASSERT(lk_mem_store_open(&store, w->disk, r.location, (lk_mem_hook){0}, &err) == LK_OK);
        bool named = lk_store_open_object(store, final, &reader, &size, &err) == LK_OK;
        if (!named) {
            sim_fail(&w->report, "the head of %.*s has no final name after recovery", LK_FMT(table.name));
        }
    }
    lk_store_reader_close(reader);
    lk_store_close(store);
    lk_arena_close(&arena);
}

/* The last life: all are stopped, one starts again and recovers. */
static bool restart_one(world *w)
{
    for (int i = 0; i < NODES; i++) {
        world_stop(w, &w->nodes[i]);
    }
    world_start(w, &w->nodes[0]);
    for (int i = 0; i < 300; i++) {
        lk_meta_status status = {0};
        sim_sleep(100);
        if (w->nodes[0].meta != NULL) {
            lk_meta_status_get(w->nodes[0].meta, &status);
        }
        if (status.leader && status.ready) {
            return true;
        }
    }
    sim_fail(&w->report, "the last node does not get ready");
    return false;
}

void check_at_last(world *w)
{
    lk_arena        arena = {0};
    lk_registration r;
    if (!restart_one(w)) {
        return;
    }
    lk_engine *engine = open_engine(w);
    if (load(w, steady_table, &arena, &r)) {
        check_operations(w, engine, &r);
        check_rows(w, engine, &r);
    } else {
        sim_fail(&w->report, "the steady table is gone");
    }
    check_empty(w, LK_CREATE_PREFIX);
    check_empty(w, LK_DROP_PREFIX);
    check_files(w, steady_table);
    check_files(w, other_table);
    engine->ops->close(engine);
    lk_arena_close(&arena);
}
