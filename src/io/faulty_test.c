/* faulty_test.c - what each fault does to the store and tells the caller. */
#include "io/faulty.h"

#include "base/file.h"
#include "io/local.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char          root[64];
static lk_store     *store;
static lk_fault_plan plan;

static int set_up(void **state)
{
    lk_err    err = {0};
    lk_store *local = NULL;
    (void)snprintf(root, sizeof root, "/tmp/lk-faulty-XXXXXX");
    if (mkdtemp(root) == NULL || lk_local_store_open(&local, lk_bytes_of(root), false, &err) != LK_OK) {
        return 1;
    }
    lk_fault_plan_init(&plan);
    store = lk_faulty_store_new(local, &plan);
    return 0;
}

static int tear_down(void **state)
{
    lk_err err = {0};
    lk_store_close(store);
    lk_fault_plan_deinit(&plan);
    return lk_directory_remove(root, &err) != LK_OK;
}

static lk_rc put(const char *key, lk_err *err)
{
    bool created = false;
    return lk_store_put_if_absent(store, lk_bytes_of(key), LK_LITERAL("12345678"), &created, err);
}

static bool exists(const char *key)
{
    lk_err           err = {0};
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    lk_rc            rc = lk_store_open_object(store, lk_bytes_of(key), &reader, &size, &err);
    lk_store_reader_close(reader);
    return rc == LK_OK;
}

static void each_fault_has_its_error_and_its_effect_on_a_put(void **state)
{
    static const struct {
        lk_fault fault;
        lk_rc    rc;
        bool     maybe_applied, exists;
    } cases[] = {
        {LK_FAULT_LOST, LK_E_STORE_UNAVAILABLE, true, false},
        {LK_FAULT_REPLY_LOST, LK_E_STORE_UNAVAILABLE, true, true},
        {LK_FAULT_TORN, LK_E_IO, false, false},
        {LK_FAULT_FULL, LK_E_STORE_FULL, false, false},
        {LK_FAULT_DENIED, LK_E_IO, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_err err = {0};
        char   key[16];
        (void)snprintf(key, sizeof key, "d%zu/f", i);
        lk_fault_plan_arm(&plan, cases[i].fault, 0);
        assert_int_equal(put(key, &err), cases[i].rc);
        assert_int_equal(err.maybe_applied, cases[i].maybe_applied);
        assert_int_equal(exists(key), cases[i].exists);
    }
}

static void a_torn_put_leaves_half_under_a_temporary_name(void **state)
{
    lk_arena        arena = {0};
    lk_err          err = {0};
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    lk_fault_plan_arm(&plan, LK_FAULT_TORN, 0);
    assert_int_equal(put("d/f", &err), LK_E_IO);
    assert_int_equal(lk_store_list(store, LK_LITERAL("d"), &arena, &entries, &count, &err), LK_OK);
    assert_int_equal(count, 1);
    assert_true(lk_bytes_starts(entries[0].name, LK_LITERAL(".tmp")));
    assert_int_equal(entries[0].size, 4);
    lk_arena_close(&arena);
}

/* One object through a writer: create, two writes, finish. */
static lk_rc write_object(const char *key, lk_err *err)
{
    lk_store_writer *writer = NULL;
    lk_rc            rc = lk_store_create(store, lk_bytes_of(key), &writer, err);
    for (int i = 0; rc == LK_OK && i < 2; i++) {
        rc = lk_store_write(writer, "12345678", 8, err);
    }
    if (rc == LK_OK) {
        return lk_store_finish(writer, err);
    }
    lk_store_abandon(writer);
    return rc;
}

static void any_call_of_a_writer_may_fail_and_the_retry_succeeds(void **state)
{
    static const lk_fault kinds[] = {
        LK_FAULT_LOST, LK_FAULT_REPLY_LOST, LK_FAULT_TORN, LK_FAULT_FULL, LK_FAULT_DENIED};
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        bool fired = true;
        for (int n = 0; fired; n++) {
            lk_err err = {0};
            char   key[32];
            (void)snprintf(key, sizeof key, "k%zu/n%d", kind, n);
            lk_fault_plan_arm(&plan, kinds[kind], n);
            lk_rc rc = write_object(key, &err);
            fired = lk_fault_plan_fired(&plan);
            assert_int_equal(rc == LK_OK, !fired);
            lk_fault_plan_arm(&plan, LK_FAULT_NONE, -1);
            bool there = exists(key);
            assert_int_equal(there, rc == LK_OK || (kinds[kind] == LK_FAULT_REPLY_LOST && n == 3));
            assert_int_equal(write_object(key, &err), there ? LK_E_CONFLICT : LK_OK);
            assert_true(exists(key));
            assert_in_range(n, 0, 4); /* create, write, write, finish, and none */
        }
    }
}

static void reads_and_removals_fail_by_plan(void **state)
{
    lk_err           err = {0};
    lk_arena         arena = {0};
    lk_store_reader *reader = NULL;
    lk_store_entry  *entries = NULL;
    uint64_t         size = 0;
    size_t           count = 0;
    char             byte = 0;
    lk_store_range   range = {0, 1, &byte};
    assert_int_equal(put("f", &err), LK_OK);
    lk_fault_plan_arm(&plan, LK_FAULT_LOST, 0);
    assert_int_equal(
        lk_store_open_object(store, LK_LITERAL("f"), &reader, &size, &err), LK_E_STORE_UNAVAILABLE);
    assert_false(err.maybe_applied);
    assert_int_equal(lk_store_open_object(store, LK_LITERAL("f"), &reader, &size, &err), LK_OK);
    lk_fault_plan_arm(&plan, LK_FAULT_DENIED, 0);
    assert_int_equal(lk_store_read(reader, &range, 1, &err), LK_E_IO);
    lk_store_reader_close(reader);
    lk_fault_plan_arm(&plan, LK_FAULT_LOST, 0);
    assert_int_equal(
        lk_store_list(store, LK_LITERAL(""), &arena, &entries, &count, &err), LK_E_STORE_UNAVAILABLE);
    lk_fault_plan_arm(&plan, LK_FAULT_LOST, 0);
    assert_int_equal(lk_store_remove(store, LK_LITERAL("f"), &err), LK_E_STORE_UNAVAILABLE);
    assert_true(exists("f"));
    lk_fault_plan_arm(&plan, LK_FAULT_REPLY_LOST, 0);
    assert_int_equal(lk_store_remove(store, LK_LITERAL("f"), &err), LK_E_STORE_UNAVAILABLE);
    assert_true(err.maybe_applied);
    assert_false(exists("f"));
    lk_fault_plan_arm(&plan, LK_FAULT_LOST, 0);
    assert_int_equal(lk_store_remove_tree(store, LK_LITERAL("f"), &err), LK_E_STORE_UNAVAILABLE);
    lk_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_fault_has_its_error_and_its_effect_on_a_put, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_torn_put_leaves_half_under_a_temporary_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            any_call_of_a_writer_may_fail_and_the_retry_succeeds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_and_removals_fail_by_plan, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("faulty store", tests, NULL, NULL);
}
