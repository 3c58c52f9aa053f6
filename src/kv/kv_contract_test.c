/*
 * kv_contract_test.c - the rules of kv/kv.h, one suite for every body: mem, local, faulty without faults.
 * LK_TSAN: threads race for one key.
 */
#include "base/fault.h"
#include "base/file.h"
#include "base/limits.h"
#include "kv/faulty.h"
#include "kv/local.h"
#include "kv/mem.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    char          root[64];
    lk_kv        *kv;
    lk_fault_plan plan;
    lk_arena      arena;
    lk_err        err;
} fixture;

enum body { MEM, LOCAL, FAULTY };

static int open_body(void **state, enum body body)
{
    fixture *f = calloc(1, sizeof *f);
    (void)snprintf(f->root, sizeof f->root, "/tmp/lk-kv-XXXXXX");
    if (mkdtemp(f->root) == NULL) {
        return 1;
    }
    lk_fault_plan_init(&f->plan);
    if (body != LOCAL) {
        f->kv = lk_kv_mem_open(body == FAULTY ? &f->plan : NULL);
    } else if (lk_kv_local_open(&f->kv, lk_arena_format(&f->arena, "%s/meta", f->root).data, true, &f->err) !=
               LK_OK) {
        return 1;
    }
    *state = f;
    return 0;
}

static int open_mem(void **state)
{
    return open_body(state, MEM);
}

static int open_local(void **state)
{
    return open_body(state, LOCAL);
}

static int open_faulty(void **state)
{
    return open_body(state, FAULTY);
}

static int close_body(void **state)
{
    fixture *f = *state;
    lk_kv_close(f->kv);
    lk_fault_plan_deinit(&f->plan);
    lk_rc rc = lk_directory_remove(f->root, &f->err);
    lk_arena_close(&f->arena);
    free(f);
    return rc != LK_OK;
}

/* One change; NULL stands for "absent" on either side. */
static bool change(fixture *f, const char *key, const char *expected, const char *value)
{
    lk_bytes     from = lk_bytes_of(expected), to = lk_bytes_of(value);
    lk_kv_change change = {.key = lk_bytes_of(key),
        .expected = expected == NULL ? NULL : &from,
        .value = value == NULL ? NULL : &to};
    lk_kv_write  write = {.changes = &change, .change_count = 1};
    bool         applied = false;
    assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_OK);
    return applied;
}

static bool holds(fixture *f, const char *key, const char *value)
{
    lk_bytes present = {0};
    bool     found = false;
    assert_int_equal(lk_kv_get(f->kv, lk_bytes_of(key), &f->arena, &present, &found, &f->err), LK_OK);
    return value == NULL ? !found : found && lk_bytes_equal(present, lk_bytes_of(value));
}

static void a_condition_decides_and_a_miss_changes_nothing(void **state)
{
    fixture *f = *state;
    assert_true(holds(f, "k", NULL));
    assert_false(change(f, "k", "anything", "1"));
    assert_true(change(f, "k", NULL, "1"));
    assert_false(change(f, "k", NULL, "2"));
    assert_false(change(f, "k", "wrong", "2"));
    assert_false(change(f, "k", "1x", "2"));
    assert_true(holds(f, "k", "1"));
    assert_true(change(f, "k", "1", "2"));
    assert_true(holds(f, "k", "2"));
    assert_false(change(f, "k", "1", NULL));
    assert_true(change(f, "k", "2", NULL));
    assert_true(holds(f, "k", NULL));
    assert_true(change(f, "k", NULL, NULL)); /* asserting absence is allowed, and holds */
}

static void an_empty_value_is_not_absence_and_nuls_are_bytes(void **state)
{
    fixture     *f = *state;
    lk_bytes     value = LK_LITERAL("a\0b"), present = {0}, cut = LK_LITERAL("a");
    bool         found = false, applied = false;
    lk_kv_change one = {.key = LK_LITERAL("nul"), .value = &value};
    lk_kv_write  write = {.changes = &one, .change_count = 1};
    assert_true(change(f, "k", NULL, ""));
    assert_true(holds(f, "k", ""));
    assert_false(change(f, "k", NULL, "x"));
    assert_true(change(f, "k", "", "x"));
    assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_OK);
    assert_int_equal(lk_kv_get(f->kv, one.key, &f->arena, &present, &found, &f->err), LK_OK);
    assert_true(lk_bytes_equal(present, value));
    one.expected = &cut;
    assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_OK);
    assert_false(applied);
}

static void several_changes_land_together_or_not_at_all(void **state)
{
    fixture     *f = *state;
    lk_bytes     old = LK_LITERAL("old"), new = LK_LITERAL("new");
    lk_kv_change changes[LK_KV_CHANGES_MAX] = {0};
    lk_kv_write  write = {.changes = changes, .change_count = LK_KV_CHANGES_MAX};
    bool         applied = true;
    for (size_t i = 0; i < LK_KV_CHANGES_MAX; i++) {
        changes[i] = (lk_kv_change){.key = lk_arena_format(&f->arena, "k%zu", i), .value = &new};
    }
    assert_true(change(f, "k15", NULL, "in the way"));
    assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_OK);
    assert_false(applied);
    assert_true(holds(f, "k0", NULL));
    assert_true(change(f, "k15", "in the way", "old"));
    changes[15].expected = &old;
    changes[15].value = NULL;
    assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_OK);
    assert_true(applied);
    assert_true(holds(f, "k0", "new"));
    assert_true(holds(f, "k14", "new"));
    assert_true(holds(f, "k15", NULL));
}

static void a_guard_must_hold_exactly(void **state)
{
    fixture     *f = *state;
    lk_bytes     value = LK_LITERAL("1");
    lk_kv_change one = {.key = LK_LITERAL("target"), .value = &value};
    lk_kv_write  write = {.changes = &one,
         .change_count = 1,
         .guard_key = LK_LITERAL("lease"),
         .guard_value = LK_LITERAL("me")};
    bool         applied = true;
    assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_OK);
    assert_false(applied); /* no lease at all */
    assert_true(change(f, "lease", NULL, "other"));
    assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_OK);
    assert_false(applied);
    assert_true(holds(f, "target", NULL));
    assert_true(change(f, "lease", "other", "me"));
    assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_OK);
    assert_true(applied);
    one.expected = &value;
    one.value = NULL;
    write.guard_value = LK_LITERAL("m");
    assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_OK);
    assert_false(applied); /* a delete is guarded too */
    assert_true(holds(f, "target", "1"));
    assert_true(holds(f, "lease", "me"));
}

static void a_signal_is_written_whatever_it_held(void **state)
{
    fixture     *f = *state;
    lk_bytes     value = LK_LITERAL("v"), beat = LK_LITERAL("beat");
    lk_kv_change changes[] = {{.key = LK_LITERAL("target"), .value = &value},
        {.key = LK_LITERAL("signal"), .value = &beat, .any = true}};
    lk_kv_write  write = {.changes = changes, .change_count = 2};
    bool         applied = false;
    assert_true(change(f, "signal", NULL, "anything"));
    assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_OK);
    assert_true(applied);
    assert_true(holds(f, "signal", "beat"));
    assert_true(change(f, "signal", "beat", "older"));
    assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_OK);
    assert_false(applied); /* the target exists now: the signal stays as well */
    assert_true(holds(f, "signal", "older"));
}

static void keys_and_values_have_bounds(void **state)
{
    fixture     *f = *state;
    lk_buf       long_key = {0}, value = {0};
    lk_bytes     present = {0}, bytes = LK_LITERAL("v");
    lk_kv_change one = {.value = &bytes};
    lk_kv_write  write = {.changes = &one, .change_count = 1};
    bool         found = false, applied = false;
    lk_buf_append_zeros(&long_key, LK_KV_KEY_BYTES_MAX + 1);
    memset(long_key.data, 'k', long_key.size);
    const lk_bytes bad[] = {
        LK_LITERAL(""), LK_LITERAL("a\xFF"), LK_LITERAL("\xC0\xAF"), lk_buf_view(&long_key)};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        one.key = bad[i];
        assert_int_equal(
            lk_kv_get(f->kv, bad[i], &f->arena, &present, &found, &f->err), LK_E_INVALID_REQUEST);
        if (i > 0) { /* an empty key equals "no guard", which is asserted on */
            assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_E_INVALID_REQUEST);
        }
    }
    one.key = (lk_bytes){long_key.data, LK_KV_KEY_BYTES_MAX};
    lk_buf_append_zeros(&value, LK_KV_VALUE_BYTES_MAX + 1);
    bytes = lk_buf_view(&value);
    assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_E_LIMIT);
    assert_false(f->err.maybe_applied);
    bytes.size--;
    assert_int_equal(lk_kv_put(f->kv, &write, &applied, &f->err), LK_OK);
    assert_int_equal(lk_kv_get(f->kv, one.key, &f->arena, &present, &found, &f->err), LK_OK);
    assert_true(found && lk_bytes_equal(present, bytes));
    lk_buf_deinit(&long_key);
    lk_buf_deinit(&value);
}

typedef struct page {
    lk_kv_item *items;
    size_t      count;
    lk_bytes    next;
} page;

static page scan(fixture *f, const char *prefix, lk_bytes after, size_t limit)
{
    page p = {0};
    assert_int_equal(
        lk_kv_scan(f->kv, lk_bytes_of(prefix), after, limit, &f->arena, &p.items, &p.count, &p.next, &f->err),
        LK_OK);
    assert_true(p.count <= limit);
    return p;
}

static void fill(fixture *f, int count)
{
    for (int i = 0; i < count; i++) {
        assert_true(change(f, lk_arena_format(&f->arena, "tbl/%02d", i).data, NULL,
            lk_arena_format(&f->arena, "v%d", i).data));
    }
    assert_true(change(f, "tbl", NULL, "before"));
    assert_true(change(f, "tbl0", NULL, "after"));
    assert_true(change(f, "tbk/99", NULL, "before"));
    assert_true(change(f, "zzz", NULL, "after"));
}

static void pages_give_every_key_once_in_order(void **state)
{
    fixture *f = *state;
    fill(f, 5);
    for (size_t limit = 1; limit <= 7; limit++) {
        size_t   seen = 0;
        lk_bytes after = {0};
        do {
            page p = scan(f, "tbl/", after, limit);
            for (size_t i = 0; i < p.count; i++, seen++) {
                assert_string_equal(p.items[i].key.data, lk_arena_format(&f->arena, "tbl/%02zu", seen).data);
                assert_string_equal(p.items[i].value.data, lk_arena_format(&f->arena, "v%zu", seen).data);
            }
            after = p.next;
        } while (after.size > 0);
        assert_int_equal(seen, 5);
    }
    assert_int_equal(scan(f, "tbl/", (lk_bytes){0}, 5).next.size, 0); /* exactly full is the end */
    assert_int_equal(scan(f, "none/", (lk_bytes){0}, 5).count, 0);
    assert_int_equal(scan(f, "", (lk_bytes){0}, 100).count, 9);
}

static void keys_deleted_between_pages_skip_and_repeat_nothing(void **state)
{
    fixture *f = *state;
    size_t   seen = 0;
    lk_bytes after = {0};
    fill(f, 9);
    do {
        page p = scan(f, "tbl/", after, 2);
        for (size_t i = 0; i < p.count; i++, seen++) {
            const char *key = p.items[i].key.data;
            assert_string_equal(key, lk_arena_format(&f->arena, "tbl/%02zu", seen).data);
            assert_true(change(f, key, p.items[i].value.data, NULL)); /* the cursor's own key as well */
        }
        after = p.next;
    } while (after.size > 0);
    assert_int_equal(seen, 9);
}

static void keys_added_behind_the_cursor_appear_later_only(void **state)
{
    fixture *f = *state;
    fill(f, 4);
    page first = scan(f, "tbl/", (lk_bytes){0}, 2);
    assert_true(change(f, "tbl/00a", NULL, "x"));
    assert_true(change(f, "tbl/02a", NULL, "x"));
    page second = scan(f, "tbl/", first.next, 9);
    assert_int_equal(second.count, 3);
    assert_string_equal(second.items[1].key.data, "tbl/02a");
}

static void a_cursor_of_another_scan_is_refused(void **state)
{
    fixture *f = *state;
    fill(f, 5);
    page     p = scan(f, "tbl/", (lk_bytes){0}, 2);
    lk_buf   longer = {0};
    lk_bytes cut = {p.next.data, p.next.size - strlen("tbl/01")};
    lk_buf_append_bytes(&longer, p.next);
    longer.data[0] ^= 1; /* another version */
    const struct {
        const char *prefix;
        lk_bytes    cursor;
    } bad[] = {
        {"tbl", p.next},
        {"tb", p.next},
        {"zzz", p.next},
        {"", p.next},
        {"tbl/", cut},
        {"tbl/", LK_LITERAL("x")},
        {"tbl/", LK_LITERAL("tbl/01")},
        {"tbl/", lk_buf_view(&longer)},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        page out = {0};
        assert_int_equal(lk_kv_scan(f->kv, lk_bytes_of(bad[i].prefix), bad[i].cursor, 2, &f->arena,
                             &out.items, &out.count, &out.next, &f->err),
            LK_E_INVALID_REQUEST);
    }
    lk_buf_deinit(&longer);
}

static void a_page_has_bounds_of_items_and_of_bytes(void **state)
{
    fixture *f = *state;
    page     p = {0};
    lk_buf   value = {0};
    lk_buf_append_zeros(&value, 300 * 1024);
    memset(value.data, 'v', value.size);
    for (int i = 0; i < 6; i++) {
        assert_true(change(f, lk_arena_format(&f->arena, "big/%d", i).data, NULL, value.data));
    }
    static const size_t limits[] = {0, LK_KV_PAGE_ITEMS_MAX + 1};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(lk_kv_scan(f->kv, LK_LITERAL("big/"), (lk_bytes){0}, limits[i], &f->arena, &p.items,
                             &p.count, &p.next, &f->err),
            LK_E_INVALID_REQUEST);
    }
    size_t seen = 0, pages = 0;
    do { /* shorter than asked for, and complete */
        p = scan(f, "big/", p.next, LK_KV_PAGE_ITEMS_MAX);
        assert_true(p.count * value.size <= LK_KV_PAGE_BYTES_MAX + value.size);
        seen += p.count;
        pages++;
    } while (p.next.size > 0);
    assert_int_equal(seen, 6);
    assert_true(pages > 1);
    lk_buf_deinit(&value);
}

static bool aborts(fixture *f, const lk_kv_write *write)
{
    pid_t child = fork();
    if (child == 0) {
        bool applied = false;
        (void)freopen("/dev/null", "w", stderr);
        (void)signal(SIGABRT, SIG_DFL);
        _exit((int)lk_kv_put(f->kv, write, &applied, &f->err));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void a_write_that_names_a_key_twice_is_a_mistake(void **state)
{
    fixture     *f = *state;
    lk_bytes     value = LK_LITERAL("v");
    lk_kv_change changes[LK_KV_CHANGES_MAX + 1] = {
        {.key = LK_LITERAL("a"), .value = &value}, {.key = LK_LITERAL("a"), .value = &value}};
    lk_kv_write twice = {.changes = changes, .change_count = 2};
    lk_kv_write guard = {.changes = changes, .change_count = 1, .guard_key = LK_LITERAL("a")};
    lk_kv_write none = {.changes = changes, .change_count = 0};
    lk_kv_write many = {.changes = changes, .change_count = LK_KV_CHANGES_MAX + 1};
    assert_true(aborts(f, &twice));
    assert_true(aborts(f, &guard));
    assert_true(aborts(f, &none));
    assert_true(aborts(f, &many));
    assert_true(holds(f, "a", NULL));
}

enum { TURNS = 40 };

struct racer {
    fixture  *f;
    lk_thread thread;
    int       wins;
    bool      failed;
};

/* Adds one to a counter by compare and set until TURNS of its own landed. */
static void count_up(void *context)
{
    struct racer *self = context;
    while (self->wins < TURNS && !self->failed) {
        lk_arena     arena = {0};
        lk_err       err = {0};
        lk_bytes     present = {0}, next = {0};
        bool         found = false, applied = false;
        lk_kv_change one = {.key = LK_LITERAL("counter")};
        lk_kv_write  write = {.changes = &one, .change_count = 1};
        lk_rc        rc = lk_kv_get(self->f->kv, one.key, &arena, &present, &found, &err);
        long         value = found ? strtol(present.data, NULL, 10) : 0;
        next = lk_arena_format(&arena, "%ld", value + 1);
        one.expected = found ? &present : NULL;
        one.value = &next;
        rc = rc == LK_OK ? lk_kv_put(self->f->kv, &write, &applied, &err) : rc;
        self->wins += rc == LK_OK && applied;
        self->failed = rc != LK_OK;
        lk_arena_close(&arena);
    }
}

static void racing_writers_lose_no_update(void **state)
{
    fixture     *f = *state;
    struct racer racers[3] = {0};
    for (int i = 0; i < 3; i++) {
        racers[i].f = f;
        assert_int_equal(lk_thread_start(&racers[i].thread, "racer", count_up, &racers[i], &f->err), LK_OK);
    }
    for (int i = 0; i < 3; i++) {
        lk_thread_join(&racers[i].thread);
        assert_false(racers[i].failed);
    }
    assert_true(holds(f, "counter", lk_arena_format(&f->arena, "%d", 3 * TURNS).data));
}

#define CONTRACT(open)                                                                                       \
    cmocka_unit_test_setup_teardown(a_condition_decides_and_a_miss_changes_nothing, open, close_body),       \
        cmocka_unit_test_setup_teardown(an_empty_value_is_not_absence_and_nuls_are_bytes, open, close_body), \
        cmocka_unit_test_setup_teardown(several_changes_land_together_or_not_at_all, open, close_body),      \
        cmocka_unit_test_setup_teardown(a_guard_must_hold_exactly, open, close_body),                        \
        cmocka_unit_test_setup_teardown(a_signal_is_written_whatever_it_held, open, close_body),             \
        cmocka_unit_test_setup_teardown(keys_and_values_have_bounds, open, close_body),                      \
        cmocka_unit_test_setup_teardown(pages_give_every_key_once_in_order, open, close_body),               \
        cmocka_unit_test_setup_teardown(                                                                     \
            keys_deleted_between_pages_skip_and_repeat_nothing, open, close_body),                           \
        cmocka_unit_test_setup_teardown(keys_added_behind_the_cursor_appear_later_only, open, close_body),   \
        cmocka_unit_test_setup_teardown(a_cursor_of_another_scan_is_refused, open, close_body),              \
        cmocka_unit_test_setup_teardown(a_page_has_bounds_of_items_and_of_bytes, open, close_body),          \
        cmocka_unit_test_setup_teardown(a_write_that_names_a_key_twice_is_a_mistake, open, close_body),      \
        cmocka_unit_test_setup_teardown(racing_writers_lose_no_update, open, close_body)

int main(void)
{
    const struct CMUnitTest tests[] = {CONTRACT(open_mem), CONTRACT(open_local), CONTRACT(open_faulty)};
    return cmocka_run_group_tests_name("kv contract", tests, NULL, NULL);
}
