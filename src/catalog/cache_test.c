/*
 * cache_test.c - what reaches the authority, what is shown while it is away, and that versions never go back
 * (LK_TSAN). The authority is a puppet; its clock is moved by hand.
 */
#include "catalog/cache.h"

#include "base/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct puppet {
    lk_authority    base; /* first */
    lk_manual_clock clock;
    lk_mutex        mutex;
    lk_cond         released;
    /* Guarded by mutex. */
    bool              down, absent, held;
    uint64_t          version, generation;
    const char       *incarnation;
    int               resolves, directories, waiting;
    lk_catalog_cache *cache;
} puppet;

static const lk_table_ref table = {{"ns", 2}, {"t", 1}};
static const lk_principal who = {.id = {"query", 5}, .role = LK_ROLE_QUERY_SERVICE};

/* Counts the call and, while held, waits in it. */
static bool enter(puppet *p, int *calls)
{
    ++*calls;
    p->waiting++;
    while (p->held) {
        lk_cond_wait(&p->released, &p->mutex);
    }
    p->waiting--;
    return !p->down;
}

static lk_rc resolve(lk_authority *base, const lk_principal *asker, lk_table_ref asked, lk_arena *arena,
    lk_registration *out, lk_err *err)
{
    puppet *p = (puppet *)base;
    assert_ptr_equal(asker, &who);
    lk_mutex_lock(&p->mutex);
    /* What is answered was true when the question arrived, however long the answer takes. */
    lk_registration r = {.table = asked,
        .location = LK_LITERAL("/d"),
        .engine = LK_LITERAL("lance"),
        .incarnation = lk_bytes_of(p->incarnation),
        .version = p->version,
        .schema_ipc = LK_LITERAL("schema")};
    bool            absent = p->absent;
    bool            up = enter(p, &p->resolves);
    lk_mutex_unlock(&p->mutex);
    if (!up) {
        return lk_fail(err, LK_E_AUTHORITY_UNAVAILABLE, "down");
    }
    if (absent) {
        return lk_fail(err, LK_E_TABLE_NOT_FOUND, "absent");
    }
    (void)arena;
    *out = r;
    return LK_OK;
}

static lk_rc directory(lk_authority *base, lk_bytes known, lk_arena *arena, bool *modified,
    lk_bytes *generation, lk_registration **items, size_t *count, lk_err *err)
{
    puppet *p = (puppet *)base;
    lk_mutex_lock(&p->mutex);
    uint64_t number = p->generation;
    bool     up = enter(p, &p->directories);
    lk_mutex_unlock(&p->mutex);
    if (!up) {
        return lk_fail(err, LK_E_AUTHORITY_UNAVAILABLE, "down");
    }
    *generation = lk_arena_format(arena, "g%llu", (unsigned long long)number);
    *modified = !lk_bytes_equal(*generation, known);
    *items = lk_arena_take(arena, sizeof **items);
    (*items)[0] = (lk_registration){.table = table, .version = 1};
    *count = 1;
    return LK_OK;
}

static const struct lk_authority_ops ops = {.resolve = resolve, .directory = directory};

static puppet *open_puppet(void)
{
    puppet *p = calloc(1, sizeof *p);
    lk_err  err = {0};
    p->base.ops = &ops;
    p->version = 5;
    p->generation = 1;
    p->incarnation = "first";
    lk_manual_clock_init(&p->clock, 1764500000000);
    p->clock.monotonic_ms = 1000000;
    lk_mutex_init(&p->mutex, LK_RANK_LEAF);
    lk_cond_init(&p->released);
    const lk_catalog_cache_options options = {&p->base, &who, &p->clock.base};
    assert_int_equal(lk_catalog_cache_open(&p->cache, &options, &err), LK_OK);
    return p;
}

static void close_puppet(puppet *p)
{
    lk_catalog_cache_close(p->cache);
    lk_cond_deinit(&p->released);
    lk_mutex_deinit(&p->mutex);
    free(p);
}

/* The version shown; fails the test on an error. */
static uint64_t shown(puppet *p)
{
    lk_arena        arena = {0};
    lk_err          err = {0};
    lk_registration r;
    assert_int_equal(lk_catalog_cache_resolve(p->cache, table, &arena, &r, &err), LK_OK);
    uint64_t version = r.version;
    assert_true(lk_bytes_equal(r.schema_ipc, LK_LITERAL("schema")));
    lk_arena_close(&arena);
    return version;
}

static lk_rc resolve_code(puppet *p)
{
    lk_arena        arena = {0};
    lk_err          err = {0};
    lk_registration r;
    lk_rc           rc = lk_catalog_cache_resolve(p->cache, table, &arena, &r, &err);
    lk_arena_close(&arena);
    return rc;
}

static lk_bytes shown_generation(puppet *p, lk_arena *arena)
{
    lk_snapshot *snapshot = NULL;
    lk_err       err = {0};
    assert_int_equal(lk_catalog_cache_directory(p->cache, &snapshot, &err), LK_OK);
    lk_bytes copy = lk_arena_copy(arena, lk_snapshot_generation(snapshot));
    lk_snapshot_unref(snapshot);
    return copy;
}

static void set(puppet *p, bool *flag, bool value)
{
    lk_mutex_lock(&p->mutex);
    *flag = value;
    lk_cond_broadcast(&p->released);
    lk_mutex_unlock(&p->mutex);
}

static int count_of(puppet *p, const int *counter)
{
    lk_mutex_lock(&p->mutex);
    int value = *counter;
    lk_mutex_unlock(&p->mutex);
    return value;
}

static void wait_for(puppet *p, const int *counter, int value)
{
    for (int i = 0; i < 5000 && count_of(p, counter) != value; i++) {
        lk_clock_sleep_ms(lk_clock_real(), 1);
    }
    assert_int_equal(count_of(p, counter), value);
}

static void wait_until_quiet(puppet *p)
{
    lk_catalog_health health = {.refreshing = true};
    for (int i = 0; i < 5000 && health.refreshing; i++) {
        lk_clock_sleep_ms(lk_clock_real(), 1);
        lk_catalog_cache_health(p->cache, &health);
    }
    assert_false(health.refreshing);
}

/* -- registrations ------------------------------------------------------------------------------------- */
static void a_fresh_registration_costs_nothing_and_a_stale_one_one_question(void **state)
{
    (void)state;
    puppet *p = open_puppet();
    assert_int_equal(shown(p), 5);
    p->version = 6;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(shown(p), 5);
    }
    assert_int_equal(p->resolves, 1);
    p->clock.monotonic_ms += LK_CATALOG_STALE_MS + 1;
    assert_int_equal(shown(p), 6);
    assert_int_equal(p->resolves, 2);
    close_puppet(p);
}

static void absence_is_remembered_for_a_second(void **state)
{
    (void)state;
    puppet *p = open_puppet();
    p->absent = true;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(resolve_code(p), LK_E_TABLE_NOT_FOUND);
    }
    assert_int_equal(p->resolves, 1);
    p->absent = false;
    p->clock.monotonic_ms += LK_CATALOG_ABSENT_MS + 1;
    assert_int_equal(shown(p), 5);
    close_puppet(p);
}

static void names_that_cannot_exist_are_refused_without_asking(void **state)
{
    (void)state;
    puppet            *p = open_puppet();
    lk_arena           arena = {0};
    lk_err             err = {0};
    lk_registration    r;
    const lk_table_ref bad = {LK_LITERAL("a.b"), LK_LITERAL("t")};
    assert_int_equal(lk_catalog_cache_resolve(p->cache, bad, &arena, &r, &err), LK_E_INVALID_IDENTIFIER);
    assert_int_equal(p->resolves, 0);
    close_puppet(p);
}

static void the_last_good_answer_is_shown_while_the_authority_is_away(void **state)
{
    (void)state;
    puppet *p = open_puppet();
    p->down = true;
    assert_int_equal(resolve_code(p), LK_E_AUTHORITY_UNAVAILABLE); /* nothing was known */
    p->down = false;
    p->clock.monotonic_ms += LK_CATALOG_RETRY_MS;
    assert_int_equal(shown(p), 5);
    p->down = true;
    p->clock.monotonic_ms += 3600 * 1000;
    int before = p->resolves;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(shown(p), 5);
    }
    assert_int_equal(p->resolves, before + 1); /* one try a second */
    p->clock.monotonic_ms += LK_CATALOG_RETRY_MS;
    assert_int_equal(shown(p), 5);
    assert_int_equal(p->resolves, before + 2);
    p->down = false;
    p->version = 9;
    p->clock.monotonic_ms += LK_CATALOG_RETRY_MS;
    assert_int_equal(shown(p), 9);
    close_puppet(p);
}

static void an_own_append_is_seen_at_once_and_versions_never_go_back(void **state)
{
    (void)state;
    puppet *p = open_puppet();
    assert_int_equal(shown(p), 5);
    lk_catalog_cache_appended(p->cache, table, 8);
    assert_int_equal(shown(p), 8);
    lk_catalog_cache_appended(p->cache, table, 7); /* an older acknowledgement, late */
    assert_int_equal(shown(p), 8);
    p->version = 6; /* a follower that lags */
    p->clock.monotonic_ms += LK_CATALOG_STALE_MS + 1;
    assert_int_equal(shown(p), 8);
    p->incarnation = "second"; /* recreated: another table, its own versions */
    p->version = 1;
    p->clock.monotonic_ms += LK_CATALOG_STALE_MS + 1;
    assert_int_equal(shown(p), 1);
    close_puppet(p);
}

typedef struct asker {
    puppet  *p;
    uint64_t version;
    lk_rc    rc;
} asker;

static void ask(void *context)
{
    asker          *a = context;
    lk_arena        arena = {0};
    lk_err          err = {0};
    lk_registration r = {0};
    a->rc = lk_catalog_cache_resolve(a->p->cache, table, &arena, &r, &err);
    a->version = r.version;
    lk_arena_close(&arena);
}

enum { ASKERS = 16 };

static void start_askers(puppet *p, asker *askers, lk_thread *threads)
{
    lk_err err = {0};
    for (int i = 0; i < ASKERS; i++) {
        askers[i] = (asker){.p = p};
        assert_int_equal(lk_thread_start(&threads[i], "ask", ask, &askers[i], &err), LK_OK);
    }
}

static void join_askers(lk_thread *threads)
{
    for (int i = 0; i < ASKERS; i++) {
        lk_thread_join(&threads[i]);
    }
}

static void many_who_ask_at_once_share_one_question(void **state)
{
    (void)state;
    puppet   *p = open_puppet();
    asker     askers[ASKERS];
    lk_thread threads[ASKERS];
    set(p, &p->held, true);
    start_askers(p, askers, threads);
    wait_for(p, &p->waiting, 1);
    lk_clock_sleep_ms(lk_clock_real(), 20);
    set(p, &p->held, false);
    join_askers(threads);
    assert_int_equal(p->resolves, 1);
    for (int i = 0; i < ASKERS; i++) {
        assert_int_equal(askers[i].rc, LK_OK);
        assert_int_equal(askers[i].version, 5);
    }
    close_puppet(p);
}

static void many_who_ask_at_once_share_one_failure(void **state)
{
    (void)state;
    puppet   *p = open_puppet();
    asker     askers[ASKERS];
    lk_thread threads[ASKERS];
    p->down = true;
    set(p, &p->held, true);
    start_askers(p, askers, threads);
    wait_for(p, &p->waiting, 1);
    lk_clock_sleep_ms(lk_clock_real(), 50);
    set(p, &p->held, false);
    join_askers(threads);
    for (int i = 0; i < ASKERS; i++) {
        assert_int_equal(askers[i].rc, LK_E_AUTHORITY_UNAVAILABLE);
    }
    assert_in_range(p->resolves, 1, 3); /* one, unless a thread came very late */
    close_puppet(p);
}

static void an_answer_from_before_an_own_append_is_not_kept(void **state)
{
    (void)state;
    puppet   *p = open_puppet();
    lk_thread thread;
    lk_err    err = {0};
    asker     early = {.p = p};
    set(p, &p->held, true);
    assert_int_equal(lk_thread_start(&thread, "early", ask, &early, &err), LK_OK);
    wait_for(p, &p->waiting, 1);
    p->version = 6; /* the append happens, and is acknowledged, while the old answer is on its way */
    lk_catalog_cache_appended(p->cache, table, 6);
    set(p, &p->held, false);
    lk_thread_join(&thread);
    assert_int_equal(early.version, 6);
    assert_int_equal(shown(p), 6);
    close_puppet(p);
}

/* -- the directory ------------------------------------------------------------------------------------- */
static void a_directory_is_shown_while_it_is_refreshed_behind(void **state)
{
    (void)state;
    puppet  *p = open_puppet();
    lk_arena arena = {0};
    assert_true(lk_bytes_equal(shown_generation(p, &arena), LK_LITERAL("g1")));
    p->generation = 2;
    assert_true(lk_bytes_equal(shown_generation(p, &arena), LK_LITERAL("g1")));
    assert_int_equal(p->directories, 1);
    p->clock.monotonic_ms += LK_CATALOG_FRESH_MS + 1;
    set(p, &p->held, true);
    for (int i = 0; i < 50; i++) { /* nobody waits, one refresh runs */
        assert_true(lk_bytes_equal(shown_generation(p, &arena), LK_LITERAL("g1")));
    }
    wait_for(p, &p->directories, 2);
    set(p, &p->held, false);
    wait_until_quiet(p);
    assert_true(lk_bytes_equal(shown_generation(p, &arena), LK_LITERAL("g2")));
    lk_arena_close(&arena);
    close_puppet(p);
}

static void a_stale_directory_and_one_that_this_process_changed_are_waited_for(void **state)
{
    (void)state;
    puppet  *p = open_puppet();
    lk_arena arena = {0};
    (void)shown_generation(p, &arena);
    p->generation = 2;
    p->clock.monotonic_ms += LK_CATALOG_STALE_MS + 1;
    assert_true(lk_bytes_equal(shown_generation(p, &arena), LK_LITERAL("g2")));
    p->generation = 3;
    lk_catalog_cache_changed(p->cache, table);
    assert_true(lk_bytes_equal(shown_generation(p, &arena), LK_LITERAL("g3")));
    lk_arena_close(&arena);
    close_puppet(p);
}

static void the_last_good_directory_is_shown_while_the_authority_is_away(void **state)
{
    (void)state;
    puppet           *p = open_puppet();
    lk_arena          arena = {0};
    lk_snapshot      *snapshot = NULL;
    lk_catalog_health health;
    lk_err            err = {0};
    p->down = true;
    assert_int_equal(lk_catalog_cache_directory(p->cache, &snapshot, &err), LK_E_AUTHORITY_UNAVAILABLE);
    p->down = false;
    assert_true(lk_bytes_equal(shown_generation(p, &arena), LK_LITERAL("g1")));
    p->down = true;
    p->clock.monotonic_ms += 3600 * 1000;
    for (int i = 0; i < 100; i++) {
        assert_true(lk_bytes_equal(shown_generation(p, &arena), LK_LITERAL("g1")));
    }
    wait_until_quiet(p);
    assert_int_equal(count_of(p, &p->directories), 3);
    lk_catalog_cache_health(p->cache, &health);
    assert_true(health.warmed);
    assert_int_equal(health.consecutive_failures, 1);
    assert_int_equal(health.directory_age_ms, 3600 * 1000);
    p->down = false;
    p->generation = 2;
    p->clock.monotonic_ms += LK_CATALOG_RETRY_MS;
    (void)shown_generation(p, &arena); /* starts the one try of this second */
    wait_until_quiet(p);
    assert_true(lk_bytes_equal(shown_generation(p, &arena), LK_LITERAL("g2")));
    lk_arena_close(&arena);
    close_puppet(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fresh_registration_costs_nothing_and_a_stale_one_one_question),
        cmocka_unit_test(absence_is_remembered_for_a_second),
        cmocka_unit_test(names_that_cannot_exist_are_refused_without_asking),
        cmocka_unit_test(the_last_good_answer_is_shown_while_the_authority_is_away),
        cmocka_unit_test(an_own_append_is_seen_at_once_and_versions_never_go_back),
        cmocka_unit_test(many_who_ask_at_once_share_one_question),
        cmocka_unit_test(many_who_ask_at_once_share_one_failure),
        cmocka_unit_test(an_answer_from_before_an_own_append_is_not_kept),
        cmocka_unit_test(a_directory_is_shown_while_it_is_refreshed_behind),
        cmocka_unit_test(a_stale_directory_and_one_that_this_process_changed_are_waited_for),
        cmocka_unit_test(the_last_good_directory_is_shown_while_the_authority_is_away),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
