/* lance_engine_test.c - the Lance engine passes the contract of engine.h on local files, and keeps tables
 * open. */
#include "engine/engine_contract_fixture.h"

#include "base/file.h"
#include "engine/lance_engine.h"
#include "engine/mem_rows.h"
#include "engine/pointer.h"
#include "io/faulty.h"
#include "io/local.h"
#include "kv/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    contract contract; /* first */
    char     root[64];
    char     location[128];
} fixture;

static int setup(void **state)
{
    fixture  *f = calloc(1, sizeof *f);
    contract *c = &f->contract;
    snprintf(f->root, sizeof f->root, "/tmp/lake-engine-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    snprintf(f->location, sizeof f->location, "%s/ns/t/x.lance", f->root);
    c->location = lk_bytes_of(f->location);
    c->kv = lk_kv_mem_open(NULL);
    const lk_lance_engine_options options = {.kv = c->kv, .clock = lk_clock_real(), .random = lk_random_os()};
    assert_int_equal(lk_lance_engine_open(&c->engine, &options, &c->err), LK_OK);
    assert_int_equal(lk_local_store_open(&c->store, c->location, true, &c->err), LK_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    lk_err   err = {0};
    f->contract.engine->ops->close(f->contract.engine);
    lk_store_close(f->contract.store);
    lk_kv_close(f->contract.kv);
    lk_arena_close(&f->contract.arena);
    assert_int_equal(lk_directory_remove(f->root, &err), LK_OK);
    free(f);
    return 0;
}

/* -- a process that dies at any outside call of an append ------------------------------------------------ */
typedef struct deathly {
    lk_store_opener base; /* first */
    lk_fault_plan   plan; /* under the KV and every store */
    lk_kv          *kv;
    lk_engine      *engine;
    char            root[64], location[128];
    bool            dies;
    lk_err          err;
} deathly;

#define INCARNATION LK_LITERAL("0197f0f4-7b2a-7000-8000-0000000000aa")

static lk_rc open_faulty(lk_store_opener *opener, lk_bytes root, lk_store **out, lk_err *err)
{
    lk_store *under = NULL;
    lk_rc     rc = lk_local_store_open(&under, root, false, err);
    if (rc == LK_OK) {
        *out = lk_faulty_store_new(under, &((deathly *)opener)->plan);
    }
    return rc;
}

/* Once the armed fault was met, nobody answers: the process is gone. */
static void die(void *context, const char *call)
{
    (void)call;
    deathly *d = context;
    if (d->dies && lk_fault_plan_fired(&d->plan)) {
        d->dies = false;
        lk_fault_plan_chance(&d->plan, 1000, 1u << LK_FAULT_LOST, 1);
    }
}

static void start_process(deathly *d)
{
    const lk_lance_engine_options options = {
        .kv = d->kv, .clock = lk_clock_real(), .random = lk_random_os(), .opener = &d->base};
    d->err = (lk_err){0};
    assert_int_equal(lk_lance_engine_open(&d->engine, &options, &d->err), LK_OK);
}

static lk_rc append(deathly *d, uint64_t base, const char *operation, int64_t first, uint64_t *version)
{
    lk_batches             *rows = lk_mem_rows_open(first, 10, 10);
    const lk_append_request request = {.at = {lk_bytes_of(d->location), INCARNATION, base},
        .tenant = LK_LITERAL("acme"),
        .operation_id = lk_bytes_of(operation),
        .payload_sha256 = LK_LITERAL("digest"),
        .rows = rows};
    d->err = (lk_err){0};
    lk_rc rc = d->engine->ops->append(d->engine, &request, version, &d->err);
    lk_batches_close(rows);
    return rc;
}

static void check_sum(deathly *d, uint64_t version, uint64_t expected_rows, int64_t expected_sum)
{
    const lk_table_at     at = {lk_bytes_of(d->location), INCARNATION, version};
    const lk_scan_options all = {.limit = UINT64_MAX};
    lk_table_snapshot    *snapshot = NULL;
    lk_batches           *batches = NULL;
    uint64_t              rows = 0;
    int64_t               sum = 0;
    assert_int_equal(d->engine->ops->open(d->engine, at, &snapshot, &d->err), LK_OK);
    assert_int_equal(snapshot->ops->scan(snapshot, &all, &batches, &d->err), LK_OK);
    assert_int_equal(lk_mem_rows_sum(batches, &rows, &sum, &d->err), LK_OK);
    assert_int_equal(rows, expected_rows);
    assert_int_equal(sum, expected_sum);
    lk_table_snapshot_unref(snapshot);
}

static void make_world(deathly *d)
{
    struct ArrowSchema schema;
    uint64_t           version = 0;
    *d = (deathly){.base.open = open_faulty};
    lk_fault_plan_init(&d->plan);
    lk_fault_plan_hook(&d->plan, die, d);
    snprintf(d->root, sizeof d->root, "/tmp/lake-engine-XXXXXX");
    assert_non_null(mkdtemp(d->root));
    snprintf(d->location, sizeof d->location, "%s/x.lance", d->root);
    d->kv = lk_kv_mem_open(&d->plan);
    start_process(d);
    lk_mem_rows_schema(&schema);
    const lk_create_request request = {
        .location = lk_bytes_of(d->location), .incarnation = INCARNATION, .schema = &schema};
    assert_int_equal(d->engine->ops->create(d->engine, &request, &version, &d->err), LK_OK);
    lk_schema_release(&schema);
    assert_int_equal(append(d, 1, "op1", 0, &version), LK_OK);
}

static void end_world(deathly *d)
{
    d->engine->ops->close(d->engine);
    lk_kv_close(d->kv);
    lk_fault_plan_deinit(&d->plan);
    assert_int_equal(lk_directory_remove(d->root, &d->err), LK_OK);
}

static bool one_death(lk_fault kind, int n)
{
    deathly       d;
    uint64_t      version = 0, head = 0;
    lk_reconciled found = LK_RECONCILED_UNKNOWN;
    make_world(&d);
    const lk_table_at base = {lk_bytes_of(d.location), INCARNATION, 2};
    d.dies = true;
    lk_fault_plan_arm(&d.plan, kind, n);
    bool told = append(&d, 2, "op2", 10, &version) == LK_OK;
    bool fired = lk_fault_plan_fired(&d.plan);
    bool unknown = d.err.maybe_applied;
    d.dies = false;
    lk_fault_plan_chance(&d.plan, 0, 0, 0);
    lk_fault_plan_arm(&d.plan, LK_FAULT_NONE, -1);

    d.engine->ops->close(d.engine);
    start_process(&d);
    assert_int_equal(d.engine->ops->recover(d.engine, (lk_commit_terms){0}, NULL, &d.err), LK_OK);
    assert_int_equal(d.engine->ops->head(d.engine, base, &head, &d.err), LK_OK);
    assert_true(head == 3 ? told || unknown : !told); /* what was told is so, and nothing came from nowhere */
    assert_int_equal(d.engine->ops->reconcile(d.engine, base, LK_LITERAL("acme"), LK_LITERAL("op2"),
                         LK_LITERAL("digest"), &found, &version, &d.err),
        LK_OK);
    assert_int_equal(found, head == 3 ? LK_RECONCILED_COMMITTED : LK_RECONCILED_ABSENT);
    assert_int_equal(append(&d, 2, "op2", 10, &version), LK_OK); /* the client repeats */
    assert_int_equal(version, 3);
    assert_int_equal(append(&d, 3, "op3", 20, &version), LK_OK);
    check_sum(&d, 2, 10, 45);
    check_sum(&d, 3, 20, 190);
    check_sum(&d, 4, 30, 435);
    end_world(&d);
    return fired;
}

static void whatever_call_a_process_dies_at_an_append_is_whole_or_nothing(void **state)
{
    (void)state;
    const lk_fault kinds[] = {LK_FAULT_LOST, LK_FAULT_REPLY_LOST, LK_FAULT_TORN};
    for (size_t k = 0; k < 3; k++) {
        int n = 0;
        while (one_death(kinds[k], n)) {
            n++;
        }
        assert_in_range(n, 10, 60);
    }
}

/* -- tables that stay open --------------------------------------------------------------------------------- */
typedef struct counted {
    int opens, lists, kv_reads, syncs;
} counted;

static void count_call(void *context, const char *call)
{
    counted *c = context;
    c->opens += strcmp(call, "open") == 0;
    c->lists += strcmp(call, "list") == 0;
    c->kv_reads += strcmp(call, "get") == 0;
    c->syncs += strcmp(call, "sync") == 0;
}

static void an_append_to_an_open_table_lists_nothing_opens_one_name_and_syncs_once(void **state)
{
    (void)state;
    deathly  d;
    counted  calls = {0};
    uint64_t version = 0;
    make_world(&d);
    lk_fault_plan_hook(&d.plan, count_call, &calls);
    assert_int_equal(append(&d, 2, "op2", 10, &version), LK_OK);
    lk_fault_plan_hook(&d.plan, NULL, NULL);
    assert_int_equal(calls.lists, 0);
    assert_int_equal(calls.opens, 1);    /* is there a manifest above the head? */
    assert_int_equal(calls.kv_reads, 1); /* the pointer */
    assert_int_equal(calls.syncs, 1);
    end_world(&d);
}

static uint64_t rows_at(lk_engine *engine, lk_bytes location, uint64_t version)
{
    lk_err             err = {0};
    lk_table_snapshot *snapshot = NULL;
    const lk_table_at  at = {location, INCARNATION, version};
    assert_int_equal(engine->ops->open(engine, at, &snapshot, &err), LK_OK);
    uint64_t rows = snapshot->ops->row_count(snapshot);
    lk_table_snapshot_unref(snapshot);
    return rows;
}

/* -- a reader apart ---------------------------------------------------------------------------------------- */
typedef struct late_name {
    deathly *d;
    char     hidden[200], final[200];
} late_name;

static void name_later(void *context)
{
    late_name *l = context;
    lk_clock_sleep_ms(lk_clock_real(), 30);
    assert_int_equal(rename(l->hidden, l->final), 0);
}

static void a_reader_without_the_pointer_opens_final_names_and_gives_a_new_one_its_moment(void **state)
{
    (void)state;
    deathly    d;
    lk_engine *apart = NULL;
    uint64_t   version = 0;
    lk_thread  thread;
    make_world(&d);
    const lk_lance_engine_options options = {.clock = lk_clock_real(), .random = lk_random_os()};
    assert_int_equal(lk_lance_engine_open(&apart, &options, &d.err), LK_OK);
    assert_int_equal(rows_at(apart, lk_bytes_of(d.location), 2), 10);
    assert_int_equal(append(&d, 2, "op2", 10, &version), LK_OK);
    late_name late = {.d = &d};
    snprintf(late.hidden, sizeof late.hidden, "%s/hidden", d.root);
    snprintf(late.final, sizeof late.final, "%s/_versions/%020llu.manifest", d.location, ~3ull);
    assert_int_equal(rename(late.final, late.hidden), 0);
    assert_int_equal(lk_thread_start(&thread, "name", name_later, &late, &d.err), LK_OK);
    assert_int_equal(rows_at(apart, lk_bytes_of(d.location), 3), 20);
    lk_thread_join(&thread);
    lk_table_snapshot *snapshot = NULL;
    const lk_table_at  none = {lk_bytes_of(d.location), INCARNATION, 9};
    assert_int_equal(apart->ops->open(apart, none, &snapshot, &d.err), LK_E_SNAPSHOT_GONE);
    d.err = (lk_err){0};
    assert_int_equal(apart->ops->recover(apart, (lk_commit_terms){0}, NULL, &d.err), LK_E_UNIMPLEMENTED);
    apart->ops->close(apart);
    end_world(&d);
}

/* -- tables below a root ----------------------------------------------------------------------------------- */
static void a_table_below_the_root_is_one_by_either_name_and_survives_a_move(void **state)
{
    (void)state;
    char               old_root[80], new_root[96];
    lk_err             err = {0};
    lk_arena           arena = {0};
    struct ArrowSchema schema;
    uint64_t           version = 0, head = 0;
    lk_bytes           below = LK_LITERAL("ns/t/x.lance");
    lk_kv             *kv = lk_kv_mem_open(NULL);
    lk_engine         *engine = NULL;
    snprintf(old_root, sizeof old_root, "/tmp/lake-engine-XXXXXX");
    assert_non_null(mkdtemp(old_root));
    snprintf(new_root, sizeof new_root, "%s-moved", old_root);
    lk_lance_engine_options options = {
        .kv = kv, .clock = lk_clock_real(), .random = lk_random_os(), .root = lk_bytes_of(old_root)};
    assert_int_equal(lk_lance_engine_open(&engine, &options, &err), LK_OK);
    lk_mem_rows_schema(&schema);
    const lk_create_request create = {.location = below, .incarnation = INCARNATION, .schema = &schema};
    assert_int_equal(engine->ops->create(engine, &create, &version, &err), LK_OK);
    lk_schema_release(&schema);
    lk_bytes                whole = lk_arena_format(&arena, "%s/ns/t/x.lance", old_root);
    lk_batches             *rows = lk_mem_rows_open(0, 7, 7);
    const lk_append_request append = {.at = {whole, INCARNATION, 1},
        .tenant = LK_LITERAL("acme"),
        .operation_id = LK_LITERAL("op"),
        .payload_sha256 = LK_LITERAL("d"),
        .rows = rows};
    assert_int_equal(engine->ops->append(engine, &append, &version, &err), LK_OK);
    lk_batches_close(rows);
    assert_int_equal(rows_at(engine, below, 2), 7);
    assert_int_equal(rows_at(engine, whole, 2), 7);
    engine->ops->close(engine);

    assert_int_equal(rename(old_root, new_root), 0);
    options.root = lk_arena_format(&arena, "%s//", new_root);
    assert_int_equal(lk_lance_engine_open(&engine, &options, &err), LK_OK);
    assert_int_equal(rows_at(engine, below, 2), 7);
    assert_int_equal(engine->ops->head(engine, (lk_table_at){below, INCARNATION, 0}, &head, &err), LK_OK);
    assert_int_equal(head, 2);
    assert_int_equal(
        engine->ops->remove(engine, (lk_table_at){below, INCARNATION, 0}, (lk_commit_terms){0}, &err), LK_OK);
    assert_int_not_equal(access(lk_arena_format(&arena, "%s/ns/t/x.lance", new_root).data, F_OK), 0);
    engine->ops->close(engine);
    lk_kv_close(kv);
    lk_arena_close(&arena);
    assert_int_equal(lk_directory_remove(new_root, &err), LK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_without_the_pointer_opens_final_names_and_gives_a_new_one_its_moment),
        cmocka_unit_test(a_table_below_the_root_is_one_by_either_name_and_survives_a_move),
        cmocka_unit_test(whatever_call_a_process_dies_at_an_append_is_whole_or_nothing),
        cmocka_unit_test(an_append_to_an_open_table_lists_nothing_opens_one_name_and_syncs_once),
    };
    int failed = engine_contract_run("lance_engine", setup, teardown);
    return failed + cmocka_run_group_tests_name("lance_engine deaths", tests, NULL, NULL);
}
