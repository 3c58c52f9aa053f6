/* gate_test.c - what a shut gate still allows, and what it counts. */
#include "io/gate.h"

#include "base/file.h"
#include "io/local.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static char            root[64];
static lk_store       *local, *gate;
static lk_store_counts counts;

static int set_up(void **state)
{
    lk_err err = {0};
    (void)state;
    (void)snprintf(root, sizeof root, "/tmp/lk-gate-XXXXXX");
    if (mkdtemp(root) == NULL || lk_local_store_open(&local, lk_bytes_of(root), false, &err) != LK_OK) {
        return 1;
    }
    counts = (lk_store_counts){0};
    gate = lk_gate_store_new(local, &counts);
    return 0;
}

static int tear_down(void **state)
{
    lk_err err = {0};
    (void)state;
    lk_store_close(gate);
    lk_store_close(local);
    return lk_directory_remove(root, &err) != LK_OK;
}

static lk_rc put(const char *key, bool *created)
{
    lk_err err = {0};
    return lk_store_put_if_absent(gate, lk_bytes_of(key), LK_LITERAL("12345678"), created, &err);
}

static lk_rc open_of(lk_store *store, const char *key, lk_store_reader **reader)
{
    lk_err   err = {0};
    uint64_t size = 0;
    return lk_store_open_object(store, lk_bytes_of(key), reader, &size, &err);
}

static lk_rc read_first(lk_store_reader *reader, uint64_t offset)
{
    char           byte = 0;
    lk_err         err = {0};
    lk_store_range range = {offset, 1, &byte};
    lk_rc          rc = lk_store_read(reader, &range, 1, &err);
    assert_true(rc != LK_OK || byte == '1');
    return rc;
}

static void what_was_begun_before_it_shut_is_not_finished_and_what_is_open_stays_readable(void **state)
{
    lk_err           err = {0};
    lk_store_writer *writer = NULL, *abandoned = NULL;
    lk_store_staged *staged = NULL, *discarded = NULL;
    lk_store_reader *reader = NULL, *none = NULL;
    bool             created = false;
    (void)state;
    assert_int_equal(put("a", &created), LK_OK);
    assert_int_equal(open_of(gate, "a", &reader), LK_OK);
    assert_int_equal(lk_store_create(gate, LK_LITERAL("b"), &writer, &err), LK_OK);
    assert_int_equal(lk_store_create(gate, LK_LITERAL("c"), &abandoned, &err), LK_OK);
    assert_int_equal(lk_store_stage(gate, LK_LITERAL("d"), LK_LITERAL("d"), &staged, &err), LK_OK);
    assert_int_equal(lk_store_stage(gate, LK_LITERAL("e"), LK_LITERAL("e"), &discarded, &err), LK_OK);
    lk_gate_shut(gate);
    assert_true(lk_gate_is_shut(gate));
    assert_int_equal(lk_store_write(writer, "b", 1, &err), LK_E_TABLE_NOT_FOUND);
    assert_int_equal(lk_store_finish(writer, &err), LK_E_TABLE_NOT_FOUND);
    lk_store_abandon(abandoned);
    assert_int_equal(lk_store_publish(staged, &created, &err), LK_E_TABLE_NOT_FOUND);
    assert_false(created);
    lk_store_discard(discarded);
    assert_int_equal(put("f", &created), LK_E_TABLE_NOT_FOUND);
    assert_int_equal(open_of(gate, "a", &none), LK_E_TABLE_NOT_FOUND);
    assert_int_equal(read_first(reader, 0), LK_OK);
    lk_store_reader_close(reader);
    for (const char *key = "bcdef"; *key != '\0'; key++) {
        char name[2] = {*key, '\0'};
        assert_int_equal(open_of(local, name, &none), LK_E_NOT_FOUND);
    }
}

static void calls_are_counted_by_what_they_are_and_how_they_ended(void **state)
{
    lk_err           err = {0};
    lk_arena         arena = {0};
    lk_store_entry  *entries = NULL;
    size_t           count = 0;
    lk_store_reader *reader = NULL, *none = NULL;
    lk_store_writer *writer = NULL;
    bool             created = false;
    (void)state;
    assert_int_equal(put("a", &created), LK_OK);
    assert_int_equal(put("a", &created), LK_OK); /* lost the race, and was told so */
    assert_int_equal(open_of(gate, "a", &reader), LK_OK);
    assert_int_equal(open_of(gate, "b", &none), LK_E_NOT_FOUND);
    assert_int_equal(read_first(reader, 0), LK_OK);
    assert_int_equal(read_first(reader, 100), LK_E_CORRUPT_FILE);
    lk_store_reader_close(reader);
    assert_int_equal(lk_store_list(gate, LK_LITERAL(""), &arena, &entries, &count, &err), LK_OK);
    assert_int_equal(lk_store_remove(gate, LK_LITERAL("a"), &err), LK_OK);
    assert_int_equal(
        lk_store_create(gate, LK_LITERAL("b"), &writer, &err), LK_OK); /* one object, in four calls */
    assert_int_equal(lk_store_write(writer, "b", 1, &err), LK_OK);
    assert_int_equal(lk_store_write(writer, "b", 1, &err), LK_OK);
    assert_int_equal(lk_store_finish(writer, &err), LK_OK);
    lk_arena_close(&arena);
    static const unsigned expected[LK_STORE_KINDS][LK_STORE_RESULTS] = {
        [LK_STORE_OPEN] = {1, 1, 0},
        [LK_STORE_READ] = {1, 0, 1},
        [LK_STORE_WRITE] = {3, 0, 0},
        [LK_STORE_LIST] = {1, 0, 0},
        [LK_STORE_REMOVE] = {1, 0, 0},
    };
    for (int kind = 0; kind < LK_STORE_KINDS; kind++) {
        for (int result = 0; result < LK_STORE_RESULTS; result++) {
            assert_int_equal(atomic_load(&counts.calls[kind][result]), expected[kind][result]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            what_was_begun_before_it_shut_is_not_finished_and_what_is_open_stays_readable, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            calls_are_counted_by_what_they_are_and_how_they_ended, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
