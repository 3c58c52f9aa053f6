/*
 * create_test.c - creates and drops with every outside call failing once and with the process dying at every
 * call: afterwards the name is either taken by a whole table or free, and no file is left that nobody names.
 */
#include "meta/node_fixture.h"

#include "catalog/directory.h"

static bool exists(node *n)
{
    lk_table_record record;
    bool            found = false;
    assert_int_equal(lk_registry_load(n->world->kv, the_table, &n->arena, &record, &found, &n->err), LK_OK);
    return found;
}

static void recover(node *n)
{
    lk_recovered done;
    n->err = (lk_err){0};
    assert_int_equal(lk_recover_pass(&n->env, true, NULL, &done, &n->err), LK_OK);
    assert_int_equal(done.failed, 0);
}

/* Everything that is stored belongs to the one table, or there is nothing. */
static void check_tidy(node *n)
{
    world *w = n->world;
    bool   found = exists(n);
    assert_int_equal(count_keys(w, LK_CREATE_PREFIX), 0);
    assert_int_equal(count_keys(w, LK_DROP_PREFIX), 0);
    assert_int_equal(count_keys(w, LK_REGISTRY_DESCRIPTORS), found);
    assert_int_equal(count_keys(w, LK_REGISTRY_VERSIONS), found);
    assert_int_equal(count_keys(w, LK_REGISTRY_NAMESPACES), found);
    if (found) {
        check_published(n, 1, 0, 0);
    }
    size_t objects = lk_mem_disk_object_count(w->disk); /* schema; manifest, perhaps by both of its names */
    assert_true(found ? objects == 2 || objects == 3 : objects == 0);
}

static bool one_create(lk_fault kind, int n, bool dies)
{
    world w;
    node  a, b;
    world_init(&w);
    node_init(&a, &w, "a");
    arm(&w, kind, n, dies);
    lk_rc rc = make_table(&a);
    bool  fired = disarm(&w);
    assert_true(rc == LK_OK || fired);
    node_init(&b, &w, "b");
    bool found = exists(&b);
    assert_true(found || rc != LK_OK);
    recover(&b);
    assert_int_equal(exists(&b), found);
    check_tidy(&b);
    assert_int_equal(make_table(&b), found ? LK_E_TABLE_EXISTS : LK_OK);
    recover(&b);
    check_tidy(&b);
    node_deinit(&b);
    node_deinit(&a);
    world_deinit(&w);
    return fired;
}

static bool one_drop(lk_fault kind, int n, bool dies)
{
    world        w;
    node         a, b;
    bool         dropped = false;
    uint64_t     version = 0;
    lk_recovered done;
    world_init(&w);
    node_init(&a, &w, "a");
    assert_int_equal(make_table(&a), LK_OK);
    assert_int_equal(append_rows(&a, operation_id(&a, 0, 1), digest_a, 0, 10, &version), LK_OK);
    lk_bytes generation = value_of(&a, LK_REGISTRY_GENERATION);
    arm(&w, kind, n, dies);
    lk_rc rc = drop_the_table(&a, &dropped);
    if (rc == LK_OK) {
        lk_err ignored = {0};
        (void)!lk_recover_pass(&a.env, false, NULL, &done, &ignored);
    }
    bool fired = disarm(&w);
    node_init(&b, &w, "b");
    bool found = exists(&b);
    assert_true(!found || rc != LK_OK);
    assert_int_equal(lk_bytes_equal(value_of(&b, LK_REGISTRY_GENERATION), generation), found);
    if (!found) { /* the name is free at once, whatever is left of the old table */
        assert_int_equal(make_table(&b), LK_OK);
    }
    recover(&b);
    assert_int_equal(drop_the_table(&b, &dropped), LK_OK);
    assert_true(dropped);
    recover(&b);
    check_tidy(&b);
    assert_int_equal(drop_the_table(&b, &dropped), LK_OK); /* absent is success */
    assert_false(dropped);
    node_deinit(&b);
    node_deinit(&a);
    world_deinit(&w);
    return fired;
}

static void each_fault(bool (*one)(lk_fault kind, int n, bool dies), int calls)
{
    const lk_fault kinds[] = {LK_FAULT_LOST, LK_FAULT_REPLY_LOST, LK_FAULT_FULL};
    for (unsigned variant = 0; variant < 6; variant++) {
        int n = 0;
        while (one(kinds[variant / 2], n, variant % 2 == 1)) {
            n++;
        }
        assert_true(n >= calls); /* retries inside may add some */
    }
}

static void a_create_that_fails_anywhere_leaves_a_table_or_nothing(void **state)
{
    (void)state;
    each_fault(one_create, 9);
}

static void a_drop_that_fails_anywhere_frees_the_name_or_does_nothing(void **state)
{
    (void)state;
    each_fault(one_drop, 14);
}

static void a_second_create_is_refused_and_leaves_no_files(void **state)
{
    (void)state;
    world w;
    node  a;
    world_init(&w);
    node_init(&a, &w, "a");
    assert_int_equal(make_table(&a), LK_OK);
    size_t objects = lk_mem_disk_object_count(w.disk);
    assert_int_equal(make_table(&a), LK_E_TABLE_EXISTS);
    assert_int_equal(lk_mem_disk_object_count(w.disk), objects);
    node_deinit(&a);
    world_deinit(&w);
}

static void a_schema_that_may_not_be_stored_is_refused_with_a_reason(void **state)
{
    (void)state;
    world              w;
    node               a;
    struct ArrowSchema schema;
    world_init(&w);
    node_init(&a, &w, "a");
    lk_mem_rows_schema(&schema);
    assert_int_equal(ArrowSchemaSetName(schema.children[1], "id"), NANOARROW_OK); /* twice */
    assert_int_equal(lk_create_run(&a.env, &a.arena, the_table, &schema, &a.err), LK_E_INVALID_SCHEMA);
    assert_int_not_equal(a.err.detail[0], '\0');
    assert_int_equal(lk_mem_disk_object_count(w.disk), 0);
    assert_int_equal(count_keys(&w, LK_CREATE_PREFIX), 0);
    lk_schema_release(&schema);
    node_deinit(&a);
    world_deinit(&w);
}

/* Two nodes, one name: the deposed one is between its steps when the other makes the table. */
typedef struct race {
    world      *w;
    node        successor;
    const char *at;
    bool        happened;
} race;

static void make_first(const char *step, void *context)
{
    race *r = context;
    if (!r->happened && strcmp(step, r->at) == 0) {
        r->happened = true;
        node_init(&r->successor, r->w, "b");
        assert_int_equal(make_table(&r->successor), LK_OK);
    }
}

static void a_create_that_lost_the_lead_registers_nothing(void **state)
{
    (void)state;
    const char *const at[] = {"check", "intend", "commit"};
    for (size_t i = 0; i < 3; i++) {
        world w;
        node  a;
        world_init(&w);
        node_init(&a, &w, "a");
        race r = {.w = &w, .at = at[i]};
        a.env.crash_point = make_first;
        a.env.crash_context = &r;
        lk_rc rc = make_table(&a);
        assert_true(rc == LK_E_NOT_LEADER || rc == LK_E_TABLE_EXISTS);
        recover(&r.successor);
        check_tidy(&r.successor);
        node_deinit(&r.successor);
        node_deinit(&a);
        world_deinit(&w);
    }
}

static void a_deposed_remover_leaves_the_new_table_alone(void **state)
{
    (void)state;
    world        w;
    node         a;
    bool         dropped = false;
    uint64_t     version = 0;
    lk_recovered done;
    world_init(&w);
    node_init(&a, &w, "a");
    assert_int_equal(make_table(&a), LK_OK);
    assert_int_equal(drop_the_table(&a, &dropped), LK_OK);
    race r = {.w = &w, .at = "remove"};
    a.env.crash_point = make_first;
    a.env.crash_context = &r;
    assert_int_equal(lk_recover_pass(&a.env, false, NULL, &done, &a.err), LK_E_NOT_LEADER);
    assert_int_equal(append_rows(&r.successor, operation_id(&a, 0, 1), digest_a, 0, 10, &version), LK_OK);
    recover(&r.successor);
    check_published(&r.successor, 2, 10, 45);
    node_deinit(&r.successor);
    node_deinit(&a);
    world_deinit(&w);
}

static void a_stale_intent_of_a_live_create_is_left_to_it(void **state)
{
    (void)state;
    world          w;
    node           a;
    lk_recovered   done;
    lk_table_lock *lock = NULL;
    world_init(&w);
    node_init(&a, &w, "a");
    const lk_remains remains = {the_table, LK_LITERAL("/tables/ns/t/x.lance"), LK_LITERAL("x")};
    lk_bytes         key = lk_remains_key(&a.arena, LK_CREATE_PREFIX, &remains);
    put_value(&w, key, lk_remains_encode(&a.arena, &remains));
    assert_int_equal(lk_table_locks_take(&a.locks, the_table, 0, NULL, &lock, &a.err), LK_OK);
    assert_int_equal(lk_recover_pass(&a.env, false, NULL, &done, &a.err), LK_OK);
    assert_int_equal(done.abandoned + done.failed, 0);
    lk_table_locks_release(&a.locks, lock);
    assert_int_equal(lk_recover_pass(&a.env, false, NULL, &done, &a.err), LK_OK);
    assert_int_equal(done.abandoned, 1);
    assert_int_equal(value_of(&a, key).size, 0);
    node_deinit(&a);
    world_deinit(&w);
}

static void a_corrupt_tombstone_is_kept_and_stops_nobody(void **state)
{
    (void)state;
    world        w;
    node         a;
    bool         dropped = false;
    lk_recovered done;
    world_init(&w);
    node_init(&a, &w, "a");
    put_value(&w, LK_LITERAL("drop/v1/a/b/c"), LK_LITERAL("{}"));
    assert_int_equal(make_table(&a), LK_OK);
    assert_int_equal(drop_the_table(&a, &dropped), LK_OK);
    assert_int_equal(lk_recover_pass(&a.env, false, NULL, &done, &a.err), LK_OK);
    assert_int_equal(done.failed, 1);
    assert_int_equal(done.finished, 1);
    assert_int_equal(count_keys(&w, LK_DROP_PREFIX), 1);
    node_deinit(&a);
    world_deinit(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_create_that_fails_anywhere_leaves_a_table_or_nothing),
        cmocka_unit_test(a_drop_that_fails_anywhere_frees_the_name_or_does_nothing),
        cmocka_unit_test(a_second_create_is_refused_and_leaves_no_files),
        cmocka_unit_test(a_schema_that_may_not_be_stored_is_refused_with_a_reason),
        cmocka_unit_test(a_create_that_lost_the_lead_registers_nothing),
        cmocka_unit_test(a_deposed_remover_leaves_the_new_table_alone),
        cmocka_unit_test(a_stale_intent_of_a_live_create_is_left_to_it),
        cmocka_unit_test(a_corrupt_tombstone_is_kept_and_stops_nobody),
    };
    return cmocka_run_group_tests_name("create", tests, NULL, NULL);
}
