/*
 * behind_test.c - writes behind the caller's back are there after sync, or sync says why not; a removal waits for them, and
 * what the pool has no room for is written by the caller (LK_TSAN).
 */
#include "base/fault.h"
#include "io/behind.h"
#include "io/faulty.h"
#include "io/local.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { OBJECTS = 40 };

typedef struct place {
    char          root[64];
    lk_fault_plan plan;
    lk_store     *under, *behind;
    lk_pool      *pool;
} place;

static int open_place(void **state)
{
    place    *self = calloc(1, sizeof *self);
    lk_err    err = {0};
    lk_store *local = NULL;
    (void)snprintf(self->root, sizeof self->root, "/tmp/behind-XXXXXX");
    assert_non_null(mkdtemp(self->root));
    assert_int_equal(lk_local_store_open(&local, lk_bytes_of(self->root), false, &err), LK_OK);
    lk_fault_plan_init(&self->plan);
    self->under = lk_faulty_store_new(local, &self->plan);
    assert_int_equal(lk_pool_open(&self->pool, "behind", 4, 8, &err), LK_OK);
    self->behind = lk_behind_store_new(self->under, self->pool);
    *state = self;
    return 0;
}

static int close_place(void **state)
{
    place *self = *state;
    lk_err err = {0};
    lk_store_close(self->behind);
    assert_int_equal(lk_store_remove_tree(self->under, LK_LITERAL("d"), &err), LK_OK);
    lk_store_close(self->under);
    assert_int_equal(rmdir(self->root), 0);
    lk_pool_close(self->pool);
    lk_fault_plan_deinit(&self->plan);
    free(self);
    return 0;
}

static void put(lk_store *store, const char *key)
{
    bool   created = false;
    lk_err err = {0};
    assert_int_equal(
        lk_store_put_if_absent(store, lk_bytes_of(key), LK_LITERAL("text"), &created, &err), LK_OK);
    assert_true(created);
}

static void create(lk_store *store, const char *key)
{
    lk_store_writer *writer = NULL;
    lk_err           err = {0};
    assert_int_equal(lk_store_create(store, lk_bytes_of(key), &writer, &err), LK_OK);
    assert_int_equal(lk_store_write(writer, "text", 4, &err), LK_OK);
    assert_int_equal(lk_store_finish(writer, &err), LK_OK);
}

static size_t count(lk_store *store, const char *directory)
{
    lk_arena        arena = {0};
    lk_store_entry *entries = NULL;
    size_t          found = 0;
    lk_err          err = {0};
    assert_int_equal(
        lk_store_list_names(store, lk_bytes_of(directory), &arena, &entries, &found, &err), LK_OK);
    lk_arena_close(&arena);
    return found;
}

static void everything_that_was_written_is_there_after_a_sync(void **state)
{
    place *self = *state;
    lk_err err = {0};
    for (int i = 0; i < OBJECTS; i++) { /* more than the pool has room for */
        char key[32];
        (void)snprintf(key, sizeof key, "d/%d", i);
        (i % 2 == 0 ? put : create)(self->behind, key);
    }
    assert_int_equal(lk_store_sync(self->behind, &err), LK_OK);
    assert_int_equal(count(self->under, "d"), OBJECTS);
    assert_int_equal(lk_store_sync(self->behind, &err), LK_OK);
}

static void a_name_that_was_taken_is_a_conflict_of_the_sync(void **state)
{
    place *self = *state;
    lk_err err = {0};
    put(self->behind, "d/a");
    assert_int_equal(lk_store_sync(self->behind, &err), LK_OK);
    put(self->behind, "d/a");
    put(self->behind, "d/b");
    assert_int_equal(lk_store_sync(self->behind, &err), LK_E_CONFLICT);
    assert_int_equal(lk_store_sync(self->behind, &err), LK_OK); /* it was told */
    assert_int_equal(count(self->under, "d"), 2);
}

static void whichever_write_fails_the_sync_says_so(void **state)
{
    place *self = *state;
    for (int at = 0; at < 4; at++) { /* of two calls */
        lk_err err = {0};
        char   a[32], b[32];
        (void)snprintf(a, sizeof a, "d/a%d", at);
        (void)snprintf(b, sizeof b, "d/b%d", at);
        lk_fault_plan_arm(&self->plan, LK_FAULT_LOST, at);
        put(self->behind, a);
        put(self->behind, b);
        assert_int_equal(lk_store_sync(self->behind, &err), at < 2 ? LK_E_STORE_UNAVAILABLE : LK_OK);
        lk_fault_plan_arm(&self->plan, LK_FAULT_NONE, -1);
    }
}

/* Also where the store beneath has no staging of its own, as S3 and this one. */
static void what_is_staged_is_published_before_its_caller_goes_on(void **state)
{
    place           *self = *state;
    lk_store_staged *staged = NULL;
    lk_err           err = {0};
    bool             created = false;
    assert_null(self->under->ops->stage);
    assert_int_equal(
        lk_store_stage(self->behind, LK_LITERAL("d/m"), LK_LITERAL("text"), &staged, &err), LK_OK);
    lk_fault_plan_arm(&self->plan, LK_FAULT_LOST, 0);
    assert_int_equal(lk_store_publish(staged, &created, &err), LK_E_STORE_UNAVAILABLE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            lk_store_stage(self->behind, LK_LITERAL("d/m"), LK_LITERAL("text"), &staged, &err), LK_OK);
        assert_int_equal(lk_store_publish(staged, &created, &err), LK_OK);
        assert_int_equal(created, i == 0);
    }
    assert_int_equal(lk_store_sync(self->behind, &err), LK_OK);
}

static void a_removal_waits_for_what_was_written_and_forgets_how_it_ended(void **state)
{
    place *self = *state;
    lk_err err = {0};
    put(self->behind, "d/a");
    put(self->behind, "d/a");
    for (int i = 0; i < OBJECTS; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "d/%d", i);
        put(self->behind, key);
    }
    assert_int_equal(lk_store_remove_tree(self->behind, LK_LITERAL("d"), &err), LK_OK);
    assert_int_equal(count(self->under, "d"), 0);
    assert_int_equal(lk_store_sync(self->behind, &err), LK_OK);
}

int main(void)
{
#define WITH_PLACE(test) cmocka_unit_test_setup_teardown(test, open_place, close_place)
    const struct CMUnitTest tests[] = {
        WITH_PLACE(everything_that_was_written_is_there_after_a_sync),
        WITH_PLACE(a_name_that_was_taken_is_a_conflict_of_the_sync),
        WITH_PLACE(whichever_write_fails_the_sync_says_so),
        WITH_PLACE(what_is_staged_is_published_before_its_caller_goes_on),
        WITH_PLACE(a_removal_waits_for_what_was_written_and_forgets_how_it_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
