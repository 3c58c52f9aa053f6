/*
 * store_contract_test.c - the rules of io/store.h, one suite for every body: local (durable, not, and late),
 * faulty without faults, a prefix, a gate (all three stand on io/wrap.h), and S3 when one is named on the command line
 * (tests/interop/test_s3.py does). LK_TSAN: writers race for one name, and readers share an open object.
 */
#include "base/fault.h"
#include "base/file.h"
#include "io/faulty.h"
#include "io/gate.h"
#include "io/local.h"
#include "io/prefix.h"
#include "io/s3.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    char          root[64];
    lk_store     *store, *under; /* under: of a prefix or a gate */
    lk_fault_plan plan;
    lk_arena      arena;
    lk_err        err;
} fixture;

enum body { LOCAL, LOCAL_UNSYNCED, LOCAL_LATE, FAULTY, PREFIX, GATE };

static const char   *s3_uri; /* s3://BUCKET/PREFIX that is empty; NULL: no server was named */
static lk_s3_options s3_options;

static int open_body(void **state, enum body body)
{
    fixture *f = calloc(1, sizeof *f);
    (void)snprintf(f->root, sizeof f->root, "/tmp/lk-store-XXXXXX");
    if (mkdtemp(f->root) == NULL) {
        return 1;
    }
    lk_fault_plan_init(&f->plan);
    lk_bytes root = lk_arena_format(&f->arena, "%s/root", f->root); /* does not exist yet */
    lk_rc    rc = body == LOCAL_LATE ? lk_local_store_open_late(&f->store, root, NULL, &f->err)
                                     : lk_local_store_open(&f->store, root, body != LOCAL_UNSYNCED, &f->err);
    if (rc != LK_OK) {
        return 1;
    }
    f->store = body == FAULTY ? lk_faulty_store_new(f->store, &f->plan) : f->store;
    if (body == PREFIX) {
        f->under = f->store;
        f->store = lk_prefix_store_new(f->under, LK_LITERAL("a/directory"));
    }
    if (body == GATE) {
        f->under = f->store;
        f->store = lk_gate_store_new(f->under, NULL);
    }
    *state = f;
    return 0;
}

static int open_local(void **state)
{
    return open_body(state, LOCAL);
}

static int open_unsynced(void **state)
{
    return open_body(state, LOCAL_UNSYNCED);
}

static int open_late(void **state)
{
    return open_body(state, LOCAL_LATE);
}

static int open_faulty(void **state)
{
    return open_body(state, FAULTY);
}

static int open_prefix(void **state)
{
    return open_body(state, PREFIX);
}

static int open_gate(void **state)
{
    return open_body(state, GATE);
}

/* Each test under a prefix of its own. */
static int open_s3(void **state)
{
    static int number;
    fixture   *f = calloc(1, sizeof *f);
    lk_fault_plan_init(&f->plan);
    *state = f;
    lk_bytes uri = lk_arena_format(&f->arena, "%s/%d", s3_uri, number++);
    return lk_s3_store_open(&f->store, uri, &s3_options, &f->err) != LK_OK;
}

static int close_body(void **state)
{
    fixture *f = *state;
    lk_store_close(f->store);
    lk_store_close(f->under);
    lk_fault_plan_deinit(&f->plan);
    lk_rc rc = f->root[0] == '\0' ? LK_OK : lk_directory_remove(f->root, &f->err);
    lk_arena_close(&f->arena);
    free(f);
    return rc != LK_OK;
}

static void put(fixture *f, const char *key, lk_bytes bytes)
{
    bool created = false;
    assert_int_equal(lk_store_put_if_absent(f->store, lk_bytes_of(key), bytes, &created, &f->err), LK_OK);
    assert_true(created);
}

/* The whole object, in the arena; fails the test when it is absent. */
static lk_bytes get(fixture *f, const char *key)
{
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    assert_int_equal(lk_store_open_object(f->store, lk_bytes_of(key), &reader, &size, &f->err), LK_OK);
    lk_store_range range = {0, (size_t)size, lk_arena_take(&f->arena, (size_t)size + 1)};
    assert_int_equal(lk_store_read(reader, &range, 1, &f->err), LK_OK);
    lk_store_reader_close(reader);
    return (lk_bytes){range.out, (size_t)size};
}

static void assert_absent(fixture *f, const char *key)
{
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    assert_int_equal(
        lk_store_open_object(f->store, lk_bytes_of(key), &reader, &size, &f->err), LK_E_NOT_FOUND);
}

/* How many entries a directory has, temporaries included. */
static size_t entries_of(fixture *f, const char *directory)
{
    lk_store_entry *entries = NULL;
    size_t          count = 99;
    assert_int_equal(
        lk_store_list(f->store, lk_bytes_of(directory), &f->arena, &entries, &count, &f->err), LK_OK);
    return count;
}

static void a_put_object_reads_back(void **state)
{
    fixture *f = *state;
    put(f, "a/b/c.bin", LK_LITERAL("x\0y"));
    assert_true(lk_bytes_equal(get(f, "a/b/c.bin"), LK_LITERAL("x\0y")));
    put(f, "empty", (lk_bytes){0});
    assert_int_equal(get(f, "empty").size, 0);
    assert_int_equal(entries_of(f, "a/b"), 1);
}

static void the_second_put_loses_and_changes_nothing(void **state)
{
    fixture *f = *state;
    bool     created = true;
    put(f, "d/name", LK_LITERAL("first"));
    assert_int_equal(
        lk_store_put_if_absent(f->store, LK_LITERAL("d/name"), LK_LITERAL("second"), &created, &f->err),
        LK_OK);
    assert_false(created);
    assert_true(lk_bytes_equal(get(f, "d/name"), LK_LITERAL("first")));
    assert_int_equal(entries_of(f, "d"), 1);
}

static void a_replaced_object_is_the_old_or_the_new_one_whole(void **state)
{
    fixture         *f = *state;
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    char             seen[5];
    put(f, "d/name", LK_LITERAL("first"));
    assert_int_equal(lk_store_open_object(f->store, LK_LITERAL("d/name"), &reader, &size, &f->err), LK_OK);
    assert_int_equal(lk_store_replace(f->store, LK_LITERAL("d/name"), LK_LITERAL("another"), &f->err), LK_OK);
    lk_store_range range = {0, sizeof seen, seen};
    assert_int_equal(lk_store_read(reader, &range, 1, &f->err), LK_OK);
    lk_store_reader_close(reader);
    assert_memory_equal(seen, "first", sizeof seen);
    assert_true(lk_bytes_equal(get(f, "d/name"), LK_LITERAL("another")));
    assert_int_equal(lk_store_replace(f->store, LK_LITERAL("e/new"), LK_LITERAL("x"), &f->err), LK_OK);
    assert_true(lk_bytes_equal(get(f, "e/new"), LK_LITERAL("x")));
    assert_int_equal(entries_of(f, "d"), 1);
    assert_int_equal(entries_of(f, "e"), 1);
}

static void a_staged_object_is_put_when_it_is_published(void **state)
{
    fixture         *f = *state;
    lk_store_staged *first = NULL, *second = NULL, *third = NULL;
    bool             created = false;
    assert_int_equal(lk_store_stage(f->store, LK_LITERAL("g/a"), LK_LITERAL("one"), &first, &f->err), LK_OK);
    assert_int_equal(lk_store_stage(f->store, LK_LITERAL("g/a"), LK_LITERAL("two"), &second, &f->err), LK_OK);
    assert_int_equal(lk_store_stage(f->store, LK_LITERAL("g/b"), LK_LITERAL("x"), &third, &f->err), LK_OK);
    assert_int_equal(lk_store_sync(f->store, &f->err), LK_OK);
    assert_int_equal(lk_store_publish(second, &created, &f->err), LK_OK);
    assert_true(created);
    assert_int_equal(lk_store_publish(first, &created, &f->err), LK_OK);
    assert_false(created);
    lk_store_discard(third);
    assert_true(lk_bytes_equal(get(f, "g/a"), LK_LITERAL("two")));
    assert_int_equal(entries_of(f, "g"), 1);
}

static void a_staged_object_that_is_shown_is_there_at_once_unless_its_name_is_taken(void **state)
{
    fixture         *f = *state;
    lk_store_staged *first = NULL, *second = NULL;
    bool             created = false;
    assert_int_equal(lk_store_stage(f->store, LK_LITERAL("h/a"), LK_LITERAL("one"), &first, &f->err), LK_OK);
    assert_int_equal(lk_store_stage(f->store, LK_LITERAL("h/a"), LK_LITERAL("two"), &second, &f->err), LK_OK);
    assert_int_equal(lk_store_sync(f->store, &f->err), LK_OK);
    assert_int_equal(lk_store_show(first, &created, &f->err), LK_OK);
    assert_true(created);
    assert_true(lk_bytes_equal(get(f, "h/a"), LK_LITERAL("one")));
    assert_int_equal(lk_store_show(second, &created, &f->err), LK_OK);
    assert_false(created);
    assert_true(lk_bytes_equal(get(f, "h/a"), LK_LITERAL("one")));
    assert_int_equal(entries_of(f, "h"), 1);
}

static void a_hint_is_there_afterwards(void **state)
{
    fixture *f = *state;
    lk_store_hint(f->store, LK_LITERAL("h/hint"), LK_LITERAL("1"));
    lk_store_hint(f->store, LK_LITERAL("h/hint"), LK_LITERAL("23"));
    assert_true(lk_bytes_equal(get(f, "h/hint"), LK_LITERAL("23")));
    assert_int_equal(entries_of(f, "h"), 1);
}

static void an_object_is_invisible_until_finished(void **state)
{
    fixture         *f = *state;
    lk_store_writer *writer = NULL;
    lk_buf           whole = {0};
    assert_int_equal(lk_store_create(f->store, LK_LITERAL("t/data/f.lance"), &writer, &f->err), LK_OK);
    for (unsigned i = 0; i < 300; i++) { /* pieces below, at and above any buffer */
        size_t from = whole.size;
        lk_buf_append_zeros(&whole, i * i * 7 % 150000);
        memset(whole.data + from, (int)i, whole.size - from);
        assert_int_equal(lk_store_write(writer, whole.data + from, whole.size - from, &f->err), LK_OK);
    }
    assert_absent(f, "t/data/f.lance");
    assert_int_equal(lk_store_finish(writer, &f->err), LK_OK);
    assert_true(lk_bytes_equal(get(f, "t/data/f.lance"), lk_buf_view(&whole)));
    assert_int_equal(entries_of(f, "t/data"), 1);
    lk_buf_deinit(&whole);
}

static void an_abandoned_object_leaves_nothing(void **state)
{
    fixture         *f = *state;
    lk_store_writer *writer = NULL;
    assert_int_equal(lk_store_create(f->store, LK_LITERAL("t/f"), &writer, &f->err), LK_OK);
    assert_int_equal(lk_store_write(writer, "abc", 3, &f->err), LK_OK);
    lk_store_abandon(writer);
    lk_store_abandon(NULL);
    assert_absent(f, "t/f");
    assert_int_equal(entries_of(f, "t"), 0);
}

static void finishing_under_a_taken_name_is_a_conflict(void **state)
{
    fixture         *f = *state;
    lk_store_writer *writer = NULL;
    put(f, "t/f", LK_LITERAL("first"));
    assert_int_equal(lk_store_create(f->store, LK_LITERAL("t/f"), &writer, &f->err), LK_OK);
    assert_int_equal(lk_store_write(writer, "second", 6, &f->err), LK_OK);
    assert_int_equal(lk_store_finish(writer, &f->err), LK_E_CONFLICT);
    assert_true(lk_bytes_equal(get(f, "t/f"), LK_LITERAL("first")));
    assert_int_equal(entries_of(f, "t"), 1);
}

/* Of a store that cannot: the same, seen from outside after its end. */
static void an_object_created_in_place_is_there_afterwards_or_gone(void **state)
{
    fixture         *f = *state;
    lk_store_writer *writer = NULL;
    char             large[100000];
    memset(large, 7, sizeof large);
    for (int abandoned = 0; abandoned < 2; abandoned++) {
        const char *name = abandoned ? "new/deep/gone" : "new/deep/there";
        assert_int_equal(lk_store_create_in_place(f->store, lk_bytes_of(name), &writer, &f->err), LK_OK);
        assert_int_equal(lk_store_write(writer, "abc", 3, &f->err), LK_OK);
        assert_int_equal(lk_store_write(writer, large, sizeof large, &f->err), LK_OK);
        if (abandoned) {
            lk_store_abandon(writer);
        } else {
            assert_int_equal(lk_store_finish(writer, &f->err), LK_OK);
        }
    }
    lk_bytes there = get(f, "new/deep/there");
    assert_int_equal(there.size, 3 + sizeof large);
    assert_memory_equal(there.data, "abc", 3);
    assert_memory_equal(there.data + 3, large, sizeof large);
    assert_absent(f, "new/deep/gone");
    assert_int_equal(entries_of(f, "new/deep"), 1);
    /* a taken name is refused at the beginning or at the end, and what has it stays */
    lk_rc rc = lk_store_create_in_place(f->store, LK_LITERAL("new/deep/there"), &writer, &f->err);
    if (rc == LK_OK) {
        assert_int_equal(lk_store_write(writer, "other", 5, &f->err), LK_OK);
        rc = lk_store_finish(writer, &f->err);
    }
    assert_int_equal(rc, LK_E_CONFLICT);
    assert_int_equal(get(f, "new/deep/there").size, there.size);
    assert_int_equal(lk_store_sync(f->store, &f->err), LK_OK);
}

/* What a writer of a directory of its own sees: the contract of put_if_absent and create stays. */
static void a_prefix_in_place_puts_and_creates(void **state)
{
    fixture         *f = *state;
    lk_store        *inside = lk_prefix_store_new_in_place(f->store, LK_LITERAL("own/x"));
    lk_store_writer *writer = NULL;
    bool             created = false;
    assert_int_equal(
        lk_store_put_if_absent(inside, LK_LITERAL("d/a"), LK_LITERAL("first"), &created, &f->err), LK_OK);
    assert_true(created);
    assert_int_equal(
        lk_store_put_if_absent(inside, LK_LITERAL("d/a"), LK_LITERAL("second"), &created, &f->err), LK_OK);
    assert_false(created);
    assert_int_equal(lk_store_create(inside, LK_LITERAL("d/b"), &writer, &f->err), LK_OK);
    assert_int_equal(lk_store_write(writer, "bytes", 5, &f->err), LK_OK);
    assert_int_equal(lk_store_finish(writer, &f->err), LK_OK);
    lk_store_close(inside);
    assert_true(lk_bytes_equal(get(f, "own/x/d/a"), LK_LITERAL("first")));
    assert_true(lk_bytes_equal(get(f, "own/x/d/b"), LK_LITERAL("bytes")));
    assert_int_equal(entries_of(f, "own/x/d"), 2);
    assert_int_equal(lk_store_sync(f->store, &f->err), LK_OK);
}

static void ranges_are_read_whole_or_not_at_all(void **state)
{
    fixture         *f = *state;
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    char             a[3] = {0}, b[4] = {0};
    put(f, "f", LK_LITERAL("0123456789"));
    assert_int_equal(lk_store_open_object(f->store, LK_LITERAL("f"), &reader, &size, &f->err), LK_OK);
    assert_int_equal(size, 10);
    const lk_store_range good[] = {{7, 3, a}, {2, 4, b}, {10, 0, NULL}};
    assert_int_equal(lk_store_read(reader, good, 3, &f->err), LK_OK);
    assert_memory_equal(a, "789", 3);
    assert_memory_equal(b, "2345", 4);
    const lk_store_range bad[] = {
        {8, 3, a}, {11, 0, a}, {UINT64_MAX, 2, a}, {UINT64_MAX - 1, 3, a}, {0, SIZE_MAX, a}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(lk_store_read(reader, &bad[i], 1, &f->err), LK_E_CORRUPT_FILE);
    }
    lk_store_reader_close(reader);
    lk_store_reader_close(NULL);
}

static void small_objects_are_fetched_together_and_large_ones_are_told_of(void **state)
{
    fixture        *f = *state;
    lk_buf          large = {0};
    lk_store_wanted wanted[] = {{.key = LK_LITERAL("d/one")}, {.key = LK_LITERAL("d/absent")},
        {.key = LK_LITERAL("d/empty")}, {.key = LK_LITERAL("d/large")}, {.key = LK_LITERAL("d/largest")}};
    lk_buf_append_zeros(&large, LK_STORE_SMALL_BYTES + 1);
    put(f, "d/one", LK_LITERAL("first"));
    put(f, "d/empty", (lk_bytes){"", 0});
    put(f, "d/large", lk_buf_view(&large));
    put(f, "d/largest", (lk_bytes){large.data, LK_STORE_SMALL_BYTES});
    wanted[1].bytes = LK_LITERAL("left over"); /* what stood there before does not count */
    assert_int_equal(lk_store_fetch(f->store, wanted, 5, &f->arena, &f->err), LK_OK);
    assert_true(wanted[0].found && wanted[0].whole && lk_bytes_equal(wanted[0].bytes, LK_LITERAL("first")));
    assert_true(!wanted[1].found && !wanted[1].whole && wanted[1].bytes.size == 0);
    assert_true(wanted[2].found && wanted[2].whole && wanted[2].bytes.size == 0);
    assert_true(wanted[3].found && !wanted[3].whole);
    assert_true(wanted[4].found && wanted[4].whole && wanted[4].bytes.size == LK_STORE_SMALL_BYTES);
    assert_int_equal(lk_store_fetch(f->store, wanted, 0, &f->arena, &f->err), LK_OK);
    wanted[0].key = LK_LITERAL("../out");
    assert_int_equal(lk_store_fetch(f->store, wanted, 1, &f->arena, &f->err), LK_E_INVALID_REQUEST);
    lk_buf_deinit(&large);
}

static void an_open_object_survives_its_removal(void **state)
{
    fixture         *f = *state;
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    char             a[3] = {0};
    put(f, "f", LK_LITERAL("abc"));
    assert_int_equal(lk_store_open_object(f->store, LK_LITERAL("f"), &reader, &size, &f->err), LK_OK);
    assert_int_equal(lk_store_remove(f->store, LK_LITERAL("f"), &f->err), LK_OK);
    assert_absent(f, "f");
    const lk_store_range range = {0, 3, a};
    assert_int_equal(lk_store_read(reader, &range, 1, &f->err), LK_OK);
    assert_memory_equal(a, "abc", 3);
    lk_store_reader_close(reader);
}

static void absence_is_not_found_for_open_and_nothing_for_remove(void **state)
{
    fixture *f = *state;
    assert_absent(f, "nowhere/f");
    assert_int_equal(lk_store_remove(f->store, LK_LITERAL("nowhere/f"), &f->err), LK_OK);
    assert_int_equal(lk_store_remove_tree(f->store, LK_LITERAL("nowhere"), &f->err), LK_OK);
    assert_int_equal(entries_of(f, ""), 0);
    assert_int_equal(entries_of(f, "nowhere/at/all"), 0);
    put(f, "dir/f", LK_LITERAL("x"));
    assert_absent(f, "dir");        /* a directory is no object */
    assert_absent(f, "dir/f/more"); /* nor does an object hold others */
}

static void a_list_shows_one_level_with_sizes(void **state)
{
    fixture        *f = *state;
    lk_store_entry *entries = NULL;
    size_t          count = 0, seen = 0;
    put(f, "t/a", LK_LITERAL("12345"));
    put(f, "t/sub/b", LK_LITERAL("1"));
    put(f, "u", LK_LITERAL("1"));
    assert_int_equal(lk_store_list(f->store, LK_LITERAL("t"), &f->arena, &entries, &count, &f->err), LK_OK);
    for (size_t i = 0; i < count; i++) {
        if (lk_bytes_equal(entries[i].name, LK_LITERAL("a"))) {
            assert_false(entries[i].is_directory);
            assert_int_equal(entries[i].size, 5);
            assert_true(entries[i].modified_ms > 1577836800000); /* 2020 */
            seen++;
        } else {
            assert_true(lk_bytes_equal(entries[i].name, LK_LITERAL("sub")));
            assert_true(entries[i].is_directory);
        }
    }
    assert_int_equal(count, 2);
    assert_int_equal(seen, 1);
    assert_int_equal(entries_of(f, ""), 2);
}

static void a_list_of_names_has_the_same_names(void **state)
{
    fixture        *f = *state;
    lk_store_entry *entries = NULL, *names = NULL;
    size_t          count = 0, name_count = 0;
    put(f, "t/a", LK_LITERAL("12345"));
    put(f, "t/sub/b", LK_LITERAL("1"));
    assert_int_equal(lk_store_list(f->store, LK_LITERAL("t"), &f->arena, &entries, &count, &f->err), LK_OK);
    assert_int_equal(
        lk_store_list_names(f->store, LK_LITERAL("t"), &f->arena, &names, &name_count, &f->err), LK_OK);
    assert_int_equal(count, 2);
    assert_int_equal(name_count, 2);
    for (size_t i = 0; i < count; i++) {
        assert_true(
            lk_bytes_equal(entries[i].name, names[0].name) || lk_bytes_equal(entries[i].name, names[1].name));
    }
    assert_int_equal(
        lk_store_list_names(f->store, LK_LITERAL("absent"), &f->arena, &names, &name_count, &f->err), LK_OK);
    assert_int_equal(name_count, 0);
}

static void a_removed_tree_is_gone_and_can_be_made_again(void **state)
{
    fixture *f = *state;
    put(f, "t/a", LK_LITERAL("1"));
    put(f, "t/sub/b", LK_LITERAL("1"));
    put(f, "kept", LK_LITERAL("1"));
    assert_int_equal(lk_store_remove_tree(f->store, LK_LITERAL("t"), &f->err), LK_OK);
    assert_absent(f, "t/sub/b");
    assert_int_equal(entries_of(f, ""), 1);
    put(f, "t/sub/b", LK_LITERAL("2"));
    assert_true(lk_bytes_equal(get(f, "t/sub/b"), LK_LITERAL("2")));
}

static void many_are_removed_and_absence_is_nothing(void **state)
{
    fixture       *f = *state;
    const lk_bytes keys[] = {
        LK_LITERAL("t/a"), LK_LITERAL("t/absent"), LK_LITERAL("t/b <&>"), LK_LITERAL("u")};
    put(f, "t/a", LK_LITERAL("1"));
    put(f, "t/b <&>", LK_LITERAL("1"));
    put(f, "t/c", LK_LITERAL("1"));
    put(f, "u", LK_LITERAL("1"));
    assert_int_equal(lk_store_remove_many(f->store, keys, 4, &f->err), LK_OK);
    assert_int_equal(lk_store_remove_many(f->store, keys, 0, &f->err), LK_OK);
    assert_absent(f, "t/a");
    assert_absent(f, "t/b <&>");
    assert_absent(f, "u");
    assert_int_equal(entries_of(f, "t"), 1);
    assert_int_equal(
        lk_store_remove_many(f->store, &(lk_bytes){"../x", 4}, 1, &f->err), LK_E_INVALID_REQUEST);
}

static void a_whole_object_is_loaded_if_it_is_there_and_not_too_large(void **state)
{
    fixture *f = *state;
    lk_bytes bytes = {0};
    uint64_t size = 1;
    bool     found = true;
    put(f, "d/o", LK_LITERAL("12345678"));
    put(f, "d/empty", (lk_bytes){0});
    assert_int_equal(lk_store_load(f->store, LK_LITERAL("d/o"), 8, &f->arena, &bytes, &f->err), LK_OK);
    assert_true(lk_bytes_equal(bytes, LK_LITERAL("12345678")));
    assert_int_equal(lk_store_load(f->store, LK_LITERAL("d/empty"), 0, &f->arena, &bytes, &f->err), LK_OK);
    assert_int_equal(bytes.size, 0);
    assert_int_equal(lk_store_load(f->store, LK_LITERAL("d/o"), 7, &f->arena, &bytes, &f->err), LK_E_LIMIT);
    assert_int_equal(
        lk_store_load(f->store, LK_LITERAL("d/none"), 8, &f->arena, &bytes, &f->err), LK_E_NOT_FOUND);
    f->err = (lk_err){0};
    assert_int_equal(
        lk_store_load_if_there(f->store, LK_LITERAL("d/none"), 8, &f->arena, &bytes, &found, &f->err), LK_OK);
    assert_false(found);
    assert_int_equal(lk_store_look(f->store, LK_LITERAL("d/none"), &found, &size, &f->err), LK_OK);
    assert_true(!found && size == 0 && f->err.rc == LK_OK);
    assert_int_equal(lk_store_look(f->store, LK_LITERAL("d/o"), &found, &size, &f->err), LK_OK);
    assert_true(found && size == 8);
}

static void keys_cannot_leave_the_root(void **state)
{
    fixture       *f = *state;
    const lk_bytes bad[] = {
        LK_LITERAL(""),
        LK_LITERAL("/etc/passwd"),
        LK_LITERAL(".."),
        LK_LITERAL("../x"),
        LK_LITERAL("a/../../x"),
        LK_LITERAL("a//b"),
        LK_LITERAL("a/"),
        LK_LITERAL("./a"),
        LK_LITERAL("a/."),
        LK_LITERAL("a\0b"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lk_store_reader *reader = NULL;
        lk_store_writer *writer = NULL;
        lk_store_entry  *entries = NULL;
        uint64_t         size = 0;
        size_t           count = 0;
        bool             created = false;
        lk_err          *err = &f->err;
        assert_int_equal(lk_store_open_object(f->store, bad[i], &reader, &size, err), LK_E_INVALID_REQUEST);
        assert_int_equal(lk_store_create(f->store, bad[i], &writer, err), LK_E_INVALID_REQUEST);
        assert_int_equal(
            lk_store_put_if_absent(f->store, bad[i], bad[i], &created, err), LK_E_INVALID_REQUEST);
        assert_int_equal(lk_store_remove(f->store, bad[i], err), LK_E_INVALID_REQUEST);
        assert_int_equal(lk_store_remove_tree(f->store, bad[i], err), LK_E_INVALID_REQUEST);
        if (bad[i].size > 0) { /* the root itself may be listed */
            assert_int_equal(
                lk_store_list(f->store, bad[i], &f->arena, &entries, &count, err), LK_E_INVALID_REQUEST);
        }
    }
    put(f, "..a/b..", LK_LITERAL("dots inside are fine"));
}

struct racer {
    fixture  *f;
    lk_thread thread;
    char      text[8];
    unsigned  wins;
};

static void race(void *context)
{
    struct racer *self = context;
    for (int i = 0; i < 20; i++) {
        char   key[32];
        bool   created = false;
        lk_err err = {0};
        (void)snprintf(key, sizeof key, "race-%d/name", i);
        lk_rc rc =
            lk_store_put_if_absent(self->f->store, lk_bytes_of(key), lk_bytes_of(self->text), &created, &err);
        self->wins += rc == LK_OK && created;
        self->wins += rc != LK_OK ? 1000 : 0;
    }
}

static void of_racing_puts_one_wins(void **state)
{
    fixture     *f = *state;
    struct racer racers[3] = {0};
    for (int i = 0; i < 3; i++) {
        racers[i].f = f;
        (void)snprintf(racers[i].text, sizeof racers[i].text, "%d", i);
        assert_int_equal(lk_thread_start(&racers[i].thread, "racer", race, &racers[i], &f->err), LK_OK);
    }
    for (int i = 0; i < 3; i++) {
        lk_thread_join(&racers[i].thread);
    }
    assert_int_equal(racers[0].wins + racers[1].wins + racers[2].wins, 20);
    assert_int_equal(entries_of(f, "race-7"), 1);
}

struct sharer {
    lk_store_reader *reader;
    lk_thread        thread;
    bool             good;
};

static void read_all_over(void *context)
{
    struct sharer *self = context;
    self->good = true;
    for (unsigned i = 0; i < 2000; i++) {
        unsigned char  byte = 0;
        lk_err         err = {0};
        lk_store_range range = {i * 31 % 256, 1, &byte};
        self->good =
            self->good && lk_store_read(self->reader, &range, 1, &err) == LK_OK && byte == range.offset;
    }
}

static void one_reader_serves_many_threads(void **state)
{
    fixture      *f = *state;
    char          bytes[256];
    uint64_t      size = 0;
    struct sharer sharers[3] = {0};
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
    }
    put(f, "f", (lk_bytes){bytes, sizeof bytes});
    lk_store_reader *reader = NULL;
    assert_int_equal(lk_store_open_object(f->store, LK_LITERAL("f"), &reader, &size, &f->err), LK_OK);
    for (int i = 0; i < 3; i++) {
        sharers[i].reader = reader;
        assert_int_equal(
            lk_thread_start(&sharers[i].thread, "sharer", read_all_over, &sharers[i], &f->err), LK_OK);
    }
    for (int i = 0; i < 3; i++) {
        lk_thread_join(&sharers[i].thread);
        assert_true(sharers[i].good);
    }
    lk_store_reader_close(reader);
}

#define CONTRACT(open)                                                                                   \
    cmocka_unit_test_setup_teardown(a_put_object_reads_back, open, close_body),                          \
        cmocka_unit_test_setup_teardown(the_second_put_loses_and_changes_nothing, open, close_body),     \
        cmocka_unit_test_setup_teardown(                                                                 \
            a_replaced_object_is_the_old_or_the_new_one_whole, open, close_body),                        \
        cmocka_unit_test_setup_teardown(a_staged_object_is_put_when_it_is_published, open, close_body),  \
        cmocka_unit_test_setup_teardown(                                                                 \
            a_staged_object_that_is_shown_is_there_at_once_unless_its_name_is_taken, open, close_body),  \
        cmocka_unit_test_setup_teardown(a_hint_is_there_afterwards, open, close_body),                   \
        cmocka_unit_test_setup_teardown(an_object_is_invisible_until_finished, open, close_body),        \
        cmocka_unit_test_setup_teardown(an_abandoned_object_leaves_nothing, open, close_body),           \
        cmocka_unit_test_setup_teardown(finishing_under_a_taken_name_is_a_conflict, open, close_body),   \
        cmocka_unit_test_setup_teardown(                                                                 \
            an_object_created_in_place_is_there_afterwards_or_gone, open, close_body),                   \
        cmocka_unit_test_setup_teardown(a_prefix_in_place_puts_and_creates, open, close_body),           \
        cmocka_unit_test_setup_teardown(ranges_are_read_whole_or_not_at_all, open, close_body),          \
        cmocka_unit_test_setup_teardown(                                                                 \
            small_objects_are_fetched_together_and_large_ones_are_told_of, open, close_body),            \
        cmocka_unit_test_setup_teardown(an_open_object_survives_its_removal, open, close_body),          \
        cmocka_unit_test_setup_teardown(                                                                 \
            absence_is_not_found_for_open_and_nothing_for_remove, open, close_body),                     \
        cmocka_unit_test_setup_teardown(a_list_shows_one_level_with_sizes, open, close_body),            \
        cmocka_unit_test_setup_teardown(a_list_of_names_has_the_same_names, open, close_body),           \
        cmocka_unit_test_setup_teardown(a_removed_tree_is_gone_and_can_be_made_again, open, close_body), \
        cmocka_unit_test_setup_teardown(many_are_removed_and_absence_is_nothing, open, close_body),      \
        cmocka_unit_test_setup_teardown(                                                                 \
            a_whole_object_is_loaded_if_it_is_there_and_not_too_large, open, close_body),                \
        cmocka_unit_test_setup_teardown(keys_cannot_leave_the_root, open, close_body),                   \
        cmocka_unit_test_setup_teardown(of_racing_puts_one_wins, open, close_body),                      \
        cmocka_unit_test_setup_teardown(one_reader_serves_many_threads, open, close_body)

/* test_io_store_contract [s3://BUCKET/PREFIX ENDPOINT ACCESS-KEY SECRET-KEY]: against a server that runs. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {CONTRACT(open_local), CONTRACT(open_unsynced), CONTRACT(open_late),
        CONTRACT(open_faulty), CONTRACT(open_prefix), CONTRACT(open_gate)};
    const struct CMUnitTest on_s3[] = {CONTRACT(open_s3)};
    if (argc == 5) {
        s3_uri = argv[1];
        s3_options = (lk_s3_options){.endpoint = argv[2],
            .access_key = argv[3],
            .secret_key = argv[4],
            .timeout_ms = 20000,
            .clock = lk_clock_real(),
            .random = lk_random_os()};
        return cmocka_run_group_tests_name("store contract on S3", on_s3, NULL, NULL);
    }
    return cmocka_run_group_tests_name("store contract", tests, NULL, NULL);
}
