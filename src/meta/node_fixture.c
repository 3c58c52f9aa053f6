/* node_fixture.c - see the header. */
#include "meta/node_fixture.h"

#include "base/uuid.h"
#include "kv/mem.h"

const lk_table_ref the_table = {{"ns", 2}, {"t", 1}};
const char *const  digest_a = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const char *const  digest_b = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

static lk_rc store_hook(void *context, const char *call, bool after, lk_err *err)
{
    world   *w = context;
    bool     writes = strcmp(call, "open") != 0 && strcmp(call, "read") != 0 && strcmp(call, "list") != 0;
    lk_fault fault = LK_FAULT_NONE;
    if (!after) {
        fault = lk_fault_plan_next(&w->plan, call);
        w->reply_lost = writes && fault == LK_FAULT_REPLY_LOST;
    }
    bool fails = after ? w->reply_lost : fault != LK_FAULT_NONE && !w->reply_lost;
    if (!fails) {
        return LK_OK;
    }
    w->reply_lost = false;
    err->maybe_applied = writes;
    return lk_fail(err, LK_E_STORE_UNAVAILABLE, "injected: %s", call);
}

/* Ahead of every call: once the armed fault was met, a dying world answers nobody. */
static void die(void *context, const char *call)
{
    (void)call;
    world *w = context;
    if (w->dies && !w->dead && lk_fault_plan_fired(&w->plan)) {
        w->dead = true;
        lk_fault_plan_chance(&w->plan, 1000, 1u << LK_FAULT_LOST, 1);
    }
}

void world_init(world *w)
{
    *w = (world){0};
    lk_fault_plan_init(&w->plan);
    lk_fault_plan_hook(&w->plan, die, w);
    lk_manual_clock_init(&w->clock, 1764500000000);
    lk_seeded_random_init(&w->random, 7);
    w->kv = lk_kv_mem_open(&w->plan);
    w->disk = lk_mem_disk_new();
}

void world_deinit(world *w)
{
    lk_kv_close(w->kv);
    lk_mem_disk_free(w->disk);
    lk_fault_plan_deinit(&w->plan);
}

void node_init(node *n, world *w, const char *id)
{
    *n = (node){.world = w};
    for (size_t i = 0; id[i] != '\0' && i + 1 < sizeof n->id; i++) {
        n->id[i] = id[i];
    }
    const lk_mem_engine_options options = {.kv = w->kv,
        .disk = w->disk,
        .hook = {store_hook, w},
        .clock = &w->clock.base,
        .random = &w->random.base};
    assert_int_equal(lk_mem_engine_open(&n->engine, &options, &n->err), LK_OK);
    lk_table_locks_init(&n->locks, &w->clock.base);
    lk_elect_init(&n->elect, w->kv, &w->clock.base, lk_bytes_of(n->id), true, NULL, NULL);
    lk_elect_round(&n->elect);
    n->env = (lk_meta_env){.kv = w->kv,
        .engine = n->engine,
        .clock = &w->clock.base,
        .random = &w->random.base,
        .fence = {.kv = w->kv, .elect = &n->elect},
        .locks = &n->locks,
        .tables_root = LK_LITERAL("/tables"),
        .retention_secs = 604800};
}

void node_deinit(node *n)
{
    n->engine->ops->close(n->engine);
    lk_elect_deinit(&n->elect);
    lk_table_locks_deinit(&n->locks);
    lk_arena_close(&n->arena);
}

lk_bytes operation_id(node *n, int64_t ahead_secs, unsigned serial)
{
    uint64_t ms = (uint64_t)((int64_t)n->world->clock.wall_ms + ahead_secs * 1000);
    return lk_arena_format(&n->arena, "%08llx-%04llx-7000-8000-%012x", (unsigned long long)(ms >> 16),
        (unsigned long long)(ms & 0xffff), serial);
}

lk_rc make_table(node *n)
{
    struct ArrowSchema schema;
    n->err = (lk_err){0};
    lk_mem_rows_schema(&schema);
    lk_rc rc = lk_create_run(&n->env, &n->arena, the_table, &schema, &n->err);
    lk_schema_release(&schema);
    return rc;
}

lk_rc drop_the_table(node *n, bool *dropped)
{
    n->err = (lk_err){0};
    return lk_drop_run(&n->env, &n->arena, the_table, dropped, &n->err);
}

static lk_bytes incarnation(node *n)
{
    lk_table_record record;
    bool            found = false;
    lk_err          err = {0};
    lk_rc           rc = lk_registry_load(n->world->kv, the_table, &n->arena, &record, &found, &err);
    return rc == LK_OK && found ? record.registration.incarnation : (lk_bytes){0};
}

lk_rc append_rows(
    node *n, lk_bytes operation, const char *digest, int64_t first, int64_t count, uint64_t *version)
{
    struct ArrowSchema schema;
    lk_rows            rows;
    lk_batches        *source = lk_mem_rows_open(first, count, 100);
    n->err = (lk_err){0};
    lk_mem_rows_schema(&schema);
    lk_rc     rc = lk_rows_collect(&rows, &schema, source, 1 << 26, NULL, &n->err);
    lk_append a = {.env = &n->env,
        .arena = &n->arena,
        .table = the_table,
        .tenant = LK_LITERAL("acme"),
        .operation_id = operation,
        .payload_sha256 = lk_bytes_of(digest),
        .incarnation = incarnation(n),
        .rows = &rows};
    rc = rc == LK_OK ? lk_append_run(&a, &n->err) : rc;
    *version = a.version;
    lk_rows_deinit(&rows);
    lk_batches_close(source);
    lk_schema_release(&schema);
    return rc;
}

static lk_registration registration(node *n)
{
    lk_table_record record;
    bool            found = false;
    assert_int_equal(lk_registry_load(n->world->kv, the_table, &n->arena, &record, &found, &n->err), LK_OK);
    assert_true(found);
    return record.registration;
}

uint64_t published(node *n)
{
    return registration(n).version;
}

void check_published(node *n, uint64_t version, uint64_t rows, int64_t sum)
{
    lk_registration       r = registration(n);
    lk_table_snapshot    *snapshot = NULL;
    lk_batches           *batches = NULL;
    uint64_t              head = 0, got_rows = 0;
    int64_t               got_sum = 0;
    const lk_table_at     at = {r.location, r.incarnation, r.version};
    const lk_scan_options all = {.limit = UINT64_MAX};
    assert_int_equal(r.version, version);
    assert_int_equal(n->engine->ops->head(n->engine, at, &head, &n->err), LK_OK);
    assert_int_equal(head, version); /* nothing unpublished lies above */
    assert_int_equal(n->engine->ops->open(n->engine, at, &snapshot, &n->err), LK_OK);
    assert_int_equal(snapshot->ops->scan(snapshot, &all, &batches, &n->err), LK_OK);
    assert_int_equal(lk_mem_rows_sum(batches, &got_rows, &got_sum, &n->err), LK_OK);
    assert_int_equal(got_rows, rows);
    assert_int_equal(got_sum, sum);
    lk_table_snapshot_unref(snapshot);
}

size_t count_keys(world *w, lk_bytes prefix)
{
    lk_arena    arena = {0};
    lk_err      err = {0};
    lk_kv_item *items = NULL;
    lk_bytes    next = {0};
    size_t      count = 0;
    assert_int_equal(
        lk_kv_scan(w->kv, prefix, (lk_bytes){0}, 10000, &arena, &items, &count, &next, &err), LK_OK);
    assert_int_equal(next.size, 0);
    lk_arena_close(&arena);
    return count;
}

lk_bytes value_of(node *n, lk_bytes key)
{
    lk_bytes value = {0};
    bool     found = false;
    assert_int_equal(lk_kv_get(n->world->kv, key, &n->arena, &value, &found, &n->err), LK_OK);
    return found ? value : (lk_bytes){0};
}

void put_value(world *w, lk_bytes key, lk_bytes value)
{
    bool               applied = false;
    lk_err             err = {0};
    const lk_kv_change change = {.key = key, .value = &value, .any = true};
    const lk_kv_write  write = {.changes = &change, .change_count = 1};
    assert_int_equal(lk_kv_put(w->kv, &write, &applied, &err), LK_OK);
}

void arm(world *w, lk_fault kind, int n, bool dies)
{
    w->dies = dies;
    lk_fault_plan_arm(&w->plan, kind, n);
}

bool disarm(world *w)
{
    bool fired = w->dead || lk_fault_plan_fired(&w->plan);
    w->dead = w->dies = w->reply_lost = false;
    lk_fault_plan_chance(&w->plan, 0, 0, 0);
    lk_fault_plan_arm(&w->plan, LK_FAULT_NONE, -1);
    return fired;
}
