/*
 * directory_test.c - the registry's records and changes, and the directory read from them: one generation or
 * none, names once and in order.
 */
#include "catalog/directory.h"

#include "base/limits.h"
#include "catalog/snapshot.h"
#include "kv/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct fixture {
    lk_fault_plan plan;
    lk_kv        *kv;
    lk_arena      arena;
    lk_err        err;
    int           serial;
    int           writes_during_scans; /* hook: this many scans meet a concurrent create */
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    lk_fault_plan_init(&f->plan);
    f->kv = lk_kv_mem_open(&f->plan);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    lk_kv_close(f->kv);
    lk_fault_plan_deinit(&f->plan);
    lk_arena_close(&f->arena);
    free(f);
    return 0;
}

static bool write(fixture *f, const lk_kv_change *changes, size_t count)
{
    bool              applied = false;
    const lk_kv_write w = {.changes = changes, .change_count = count};
    assert_int_equal(lk_kv_put(f->kv, &w, &applied, &f->err), LK_OK);
    return applied;
}

static lk_registration registration(fixture *f, const char *ns, const char *name)
{
    int serial = ++f->serial;
    return (lk_registration){.table = {lk_bytes_of(ns), lk_bytes_of(name)},
        .location = lk_arena_format(&f->arena, "/d/%s/%s/%d.lance", ns, name, serial),
        .engine = LK_LITERAL("lance"),
        .incarnation = lk_arena_format(&f->arena, "incarnation-%d", serial),
        .version = 1,
        .schema_ipc = LK_LITERAL("\x00\xff schema bytes")};
}

static bool insert(fixture *f, const char *ns, const char *name)
{
    lk_kv_change          changes[LK_REGISTRY_CHANGES_MAX];
    size_t                count = 0;
    const lk_registration r = registration(f, ns, name);
    lk_bytes              generation = lk_arena_format(&f->arena, "generation-%d", f->serial);
    assert_int_equal(lk_registry_insert(f->kv, &r, generation, &f->arena, changes, &count, &f->err), LK_OK);
    assert_int_equal(count, LK_REGISTRY_CHANGES_MAX);
    return write(f, changes, count);
}

static lk_table_record load(fixture *f, const char *ns, const char *name)
{
    lk_table_record    record;
    bool               found = false;
    const lk_table_ref table = {lk_bytes_of(ns), lk_bytes_of(name)};
    assert_int_equal(lk_registry_load(f->kv, table, &f->arena, &record, &found, &f->err), LK_OK);
    assert_true(found);
    return record;
}

static bool erase(fixture *f, const lk_table_record *record)
{
    lk_kv_change changes[LK_REGISTRY_CHANGES_MAX];
    size_t       count = 0;
    lk_bytes     generation = lk_arena_format(&f->arena, "generation-e%d", ++f->serial);
    assert_int_equal(
        lk_registry_erase(f->kv, record, generation, &f->arena, changes, &count, &f->err), LK_OK);
    return write(f, changes, count);
}

static lk_bytes generation(fixture *f)
{
    lk_bytes value = {0};
    assert_int_equal(lk_directory_generation(f->kv, &f->arena, &value, &f->err), LK_OK);
    return value;
}

static void what_is_registered_is_loaded_back(void **state)
{
    fixture *f = *state;
    assert_true(insert(f, "ns", "t"));
    lk_table_record r = load(f, "ns", "t");
    assert_true(lk_bytes_equal(r.registration.location, LK_LITERAL("/d/ns/t/1.lance")));
    assert_true(lk_bytes_equal(r.registration.schema_ipc, LK_LITERAL("\x00\xff schema bytes")));
    assert_int_equal(r.registration.version, 1);
    /* Base64 by hand of 00 ff 20 ...: schemas are never number arrays. */
    assert_non_null(memmem(r.descriptor_raw.data, r.descriptor_raw.size, "\"AP8gc2NoZW1hIGJ5dGVz\"", 22));
    assert_null(memmem(r.descriptor_raw.data, r.descriptor_raw.size, "current_version", 15));
    bool               found = true;
    const lk_table_ref absent = {LK_LITERAL("ns"), LK_LITERAL("u")};
    assert_int_equal(lk_registry_load(f->kv, absent, &f->arena, &r, &found, &f->err), LK_OK);
    assert_false(found);
}

static void a_second_insert_and_a_stale_change_lose(void **state)
{
    fixture *f = *state;
    assert_true(insert(f, "ns", "t"));
    assert_false(insert(f, "ns", "t"));
    lk_table_record before = load(f, "ns", "t");
    lk_kv_change    advance = lk_registry_advance(&before, 2, &f->arena);
    assert_true(write(f, &advance, 1));
    assert_false(write(f, &advance, 1));
    assert_int_equal(load(f, "ns", "t").registration.version, 2);
    assert_false(erase(f, &before)); /* its version has moved */
}

static void a_change_built_for_a_dropped_table_never_matches_its_replacement(void **state)
{
    fixture *f = *state;
    assert_true(insert(f, "ns", "t"));
    lk_table_record old = load(f, "ns", "t");
    assert_true(erase(f, &old));
    assert_true(insert(f, "ns", "t"));
    assert_false(erase(f, &old));
    lk_kv_change advance = lk_registry_advance(&old, 2, &f->arena);
    assert_false(write(f, &advance, 1));
    assert_int_equal(load(f, "ns", "t").registration.version, 1);
}

static void only_creates_and_drops_that_happened_move_the_generation(void **state)
{
    fixture *f = *state;
    lk_bytes g0 = generation(f);
    assert_true(insert(f, "ns", "t"));
    lk_bytes g1 = generation(f);
    assert_false(lk_bytes_equal(g0, g1));
    lk_table_record r = load(f, "ns", "t");
    lk_kv_change    advance = lk_registry_advance(&r, 2, &f->arena);
    assert_true(write(f, &advance, 1));
    assert_false(insert(f, "ns", "t"));
    assert_false(erase(f, &r));
    assert_true(lk_bytes_equal(generation(f), g1));
    r = load(f, "ns", "t");
    assert_true(erase(f, &r));
    assert_false(lk_bytes_equal(generation(f), g1));
}

static void a_namespace_exists_as_long_as_it_has_tables(void **state)
{
    fixture          *f = *state;
    lk_name_page      page;
    const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        assert_true(insert(f, "ns", names[i]));
    }
    assert_true(insert(f, "other", "a"));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lk_directory_namespaces(f->kv, (lk_bytes){0}, 10, &f->arena, &page, &f->err), LK_OK);
        assert_int_equal(page.count, 2);
        lk_table_record r = load(f, "ns", names[i]);
        assert_true(erase(f, &r));
    }
    assert_int_equal(lk_directory_namespaces(f->kv, (lk_bytes){0}, 10, &f->arena, &page, &f->err), LK_OK);
    assert_int_equal(page.count, 1);
    assert_true(lk_bytes_equal(page.names[0], LK_LITERAL("other")));
}

static void names_are_paged_once_each_within_their_namespace(void **state)
{
    fixture *f = *state;
    char     name[16];
    lk_bytes after = {0};
    int      seen = 0;
    for (int i = 0; i < 5; i++) {
        assert_true(insert(f, "ns", lk_arena_format(&f->arena, "t%d%c", i, '\0').data));
    }
    assert_true(insert(f, "ns-2", "hidden")); /* a neighbour in key order */
    do {
        lk_name_page page;
        assert_int_equal(
            lk_directory_tables(f->kv, LK_LITERAL("ns"), after, 2, &f->arena, &page, &f->err), LK_OK);
        assert_true(page.count <= 2);
        for (size_t i = 0; i < page.count; i++) {
            snprintf(name, sizeof name, "t%d", seen++);
            assert_true(lk_bytes_equal(page.names[i], lk_bytes_of(name)));
        }
        after = page.continuation;
    } while (after.size > 0);
    assert_int_equal(seen, 5);
}

static void page_bounds_are_checked(void **state)
{
    fixture     *f = *state;
    lk_name_page page;
    char         big[LK_CONTINUATION_BYTES_MAX + 1];
    memset(big, 'A', sizeof big);
    lk_bytes ns = LK_LITERAL("ns"), none = {0};
    assert_int_equal(
        lk_directory_tables(f->kv, ns, none, 0, &f->arena, &page, &f->err), LK_E_INVALID_REQUEST);
    assert_int_equal(
        lk_directory_tables(f->kv, ns, none, 257, &f->arena, &page, &f->err), LK_E_INVALID_REQUEST);
    assert_int_equal(lk_directory_tables(f->kv, ns, none, 256, &f->arena, &page, &f->err), LK_OK);
    lk_bytes long_one = {big, sizeof big};
    assert_int_equal(
        lk_directory_tables(f->kv, ns, long_one, 1, &f->arena, &page, &f->err), LK_E_INVALID_REQUEST);
    assert_int_equal(
        lk_directory_tables(f->kv, ns, LK_LITERAL("?!"), 1, &f->arena, &page, &f->err), LK_E_INVALID_REQUEST);
    assert_int_equal(lk_directory_tables(f->kv, LK_LITERAL("a.b"), none, 1, &f->arena, &page, &f->err),
        LK_E_INVALID_IDENTIFIER);
}

static lk_rc read_directory(
    fixture *f, lk_bytes known, bool *modified, lk_registration **items, size_t *count)
{
    lk_bytes got = {0};
    f->err = (lk_err){0};
    return lk_directory_read(f->kv, known, &f->arena, modified, &got, items, count, &f->err);
}

static void a_directory_is_in_order_whole_and_asked_for_by_generation(void **state)
{
    fixture         *f = *state;
    lk_registration *items = NULL;
    size_t           count = 9;
    bool             modified = false;
    assert_int_equal(read_directory(f, (lk_bytes){0}, &modified, &items, &count), LK_OK);
    assert_true(modified);
    assert_int_equal(count, 0);
    /* Key order and (namespace, name) order differ here: '-' sorts before '/'. */
    assert_true(insert(f, "a", "z"));
    assert_true(insert(f, "a-b", "a"));
    assert_true(insert(f, "a", "b"));
    assert_int_equal(read_directory(f, (lk_bytes){0}, &modified, &items, &count), LK_OK);
    assert_int_equal(count, 3);
    assert_true(lk_bytes_equal(items[0].table.name, LK_LITERAL("b")));
    assert_true(lk_bytes_equal(items[1].table.name, LK_LITERAL("z")));
    assert_true(lk_bytes_equal(items[2].table.ns, LK_LITERAL("a-b")));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(items[i].version, 1);
    }
    uint64_t calls = lk_fault_plan_calls(&f->plan);
    assert_int_equal(read_directory(f, generation(f), &modified, &items, &count), LK_OK);
    assert_false(modified);
    assert_int_equal(lk_fault_plan_calls(&f->plan) - calls, 2); /* ours, and one point read */
    lk_snapshot *snapshot = lk_snapshot_new(LK_LITERAL("g"), items, 3);
    size_t       first = 9;
    assert_int_equal(lk_snapshot_namespace(snapshot, LK_LITERAL("a"), &first), 2);
    assert_int_equal(first, 0);
    assert_int_equal(lk_snapshot_namespace(snapshot, LK_LITERAL("a-b"), &first), 1);
    assert_int_equal(first, 2);
    assert_int_equal(lk_snapshot_namespace(snapshot, LK_LITERAL("b"), &first), 0);
    const lk_table_ref there = {LK_LITERAL("a"), LK_LITERAL("z")},
                       absent = {LK_LITERAL("a"), LK_LITERAL("c")};
    assert_ptr_equal(lk_snapshot_find(snapshot, there), lk_snapshot_at(snapshot, 1));
    assert_null(lk_snapshot_find(snapshot, absent));
    lk_snapshot *second = lk_snapshot_ref(snapshot);
    lk_snapshot_unref(snapshot);
    assert_int_equal(lk_snapshot_count(second), 3);
    lk_snapshot_unref(second);
    lk_snapshot_unref(NULL);
}

/* Ahead of a scan of versions: another table is created, so what was scanned so far is of an older
 * generation. */
static void interfere(void *context, const char *call)
{
    fixture *f = context;
    char     name[32];
    if (strcmp(call, "scan") != 0 || f->writes_during_scans == 0) {
        return;
    }
    f->writes_during_scans--;
    lk_fault_plan_hook(&f->plan, NULL, NULL);
    snprintf(name, sizeof name, "late%d", f->writes_during_scans);
    lk_bytes kept = lk_arena_copy(&f->arena, (lk_bytes){name, strlen(name) + 1});
    assert_true(insert(f, "ns", kept.data));
    lk_fault_plan_hook(&f->plan, interfere, f);
}

static void a_directory_that_moves_during_the_scan_is_read_again_or_refused_never_mixed(void **state)
{
    fixture         *f = *state;
    lk_registration *items = NULL;
    size_t           count = 0;
    bool             modified = false;
    assert_true(insert(f, "ns", "t"));
    f->writes_during_scans = 1;
    lk_fault_plan_hook(&f->plan, interfere, f);
    assert_int_equal(read_directory(f, (lk_bytes){0}, &modified, &items, &count), LK_OK);
    assert_int_equal(count, 2);
    f->writes_during_scans = 100;
    modified = true;
    assert_int_equal(read_directory(f, (lk_bytes){0}, &modified, &items, &count), LK_E_AUTHORITY_UNAVAILABLE);
    assert_false(modified);
    lk_fault_plan_hook(&f->plan, NULL, NULL);
}

static void a_record_that_cannot_be_read_is_named_never_skipped(void **state)
{
    fixture         *f = *state;
    lk_table_record  record;
    lk_registration *items = NULL;
    size_t           count = 0;
    bool             found = false, modified = false;
    assert_true(insert(f, "ns", "t"));
    lk_bytes bad = LK_LITERAL("{\"location\":\"x\",\"engine\":\"lance\",\"incarnation_id\":\"i\",\"schema_"
                              "ipc_base64\":\"\",\"new\":1}");
    const lk_kv_change change = {.key = LK_LITERAL("tbl/ns/t"), .value = &bad, .any = true};
    assert_true(write(f, &change, 1));
    const lk_table_ref table = {LK_LITERAL("ns"), LK_LITERAL("t")};
    assert_int_equal(
        lk_registry_load(f->kv, table, &f->arena, &record, &found, &f->err), LK_E_CORRUPT_RECORD);
    assert_non_null(strstr(f->err.context, "tbl/ns/t"));
    assert_int_equal(read_directory(f, (lk_bytes){0}, &modified, &items, &count), LK_E_CORRUPT_RECORD);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_is_registered_is_loaded_back),
        CASE(a_second_insert_and_a_stale_change_lose),
        CASE(a_change_built_for_a_dropped_table_never_matches_its_replacement),
        CASE(only_creates_and_drops_that_happened_move_the_generation),
        CASE(a_namespace_exists_as_long_as_it_has_tables),
        CASE(names_are_paged_once_each_within_their_namespace),
        CASE(page_bounds_are_checked),
        CASE(a_directory_is_in_order_whole_and_asked_for_by_generation),
        CASE(a_directory_that_moves_during_the_scan_is_read_again_or_refused_never_mixed),
        CASE(a_record_that_cannot_be_read_is_named_never_skipped),
    };
    return cmocka_run_group_tests_name("directory", tests, NULL, NULL);
}
