/*
 * shard_test.c - a shard's chain of manifests: claims, commits, fencing, what readers find when hints are wrong, and a fault
 * at every store call.
 */
#include "rollout/shard.h"

#include "base/fault.h"
#include "base/file.h"
#include "io/faulty.h"
#include "io/local.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- helpers ----------------------------------------------------------------------------------------------------- */

static char root[64];

static lk_store *open_root(void)
{
    lk_err    err = {0};
    lk_store *store = NULL;
    assert_int_equal(lk_local_store_open(&store, lk_bytes_of(root), false, &err), LK_OK);
    return store;
}

static int make_root(void **state)
{
    (void)snprintf(root, sizeof root, "%s/lake-shard-XXXXXX", P_tmpdir);
    assert_non_null(mkdtemp(root));
    return 0;
}

static int remove_root(void **state)
{
    lk_err err = {0};
    return lk_directory_remove(root, &err) == LK_OK ? 0 : -1;
}

static lk_uuid shard_id(void)
{
    return lk_shard_of_instance(LK_LITERAL("default"));
}

/* Adds a generation with the next number. */
static lk_rc add_generation(void *context, lk_arena *arena, lk_shard_manifest *next, lk_err *err)
{
    size_t               count = next->generation_count;
    lk_shard_generation *generations = lk_arena_take(arena, (count + 1) * sizeof *generations);
    for (size_t i = 0; i < count; i++) {
        generations[i] = next->generations[i];
    }
    generations[count] = (lk_shard_generation){.number = next->current_generation,
        .path = lk_arena_format(arena, "%s_gen_%" PRIu64, (const char *)context, next->current_generation)};
    next->generations = generations;
    next->generation_count = count + 1;
    next->current_generation++;
    return LK_OK;
}

static lk_rc add(lk_shard_writer *writer, const char *name, lk_err *err)
{
    return lk_shard_commit(writer, add_generation, (void *)name, err);
}

/* How many generations readers see, after checking the chain from 1 on. */
static size_t generations(lk_store *store, uint64_t *version)
{
    lk_err            err = {0};
    lk_arena          arena = {0};
    lk_shard_manifest latest = {0};
    bool              found;
    assert_int_equal(lk_shard_latest(store, shard_id(), 0, &arena, &latest, &found, &err), LK_OK);
    for (uint64_t v = 1; v <= latest.version; v++) {
        char             digits[LK_SHARD_POSITION_DIGITS + 1];
        uint64_t         size;
        lk_store_reader *reader = NULL;
        lk_shard_position_format(v, digits);
        lk_bytes key = lk_shard_key(shard_id(), lk_arena_format(&arena, "manifest/%s.binpb", digits), &arena);
        assert_int_equal(lk_store_open_object(store, key, &reader, &size, &err), LK_OK);
        lk_store_reader_close(reader);
    }
    size_t count = latest.generation_count;
    *version = latest.version;
    lk_arena_close(&arena);
    return count;
}

static void put(lk_store *store, const char *name, const char *text)
{
    lk_err   err = {0};
    lk_arena arena = {0};
    assert_int_equal(
        lk_store_replace(store, lk_shard_key(shard_id(), lk_bytes_of(name), &arena), lk_bytes_of(text), &err),
        LK_OK);
    lk_arena_close(&arena);
}

/* -- tests ------------------------------------------------------------------------------------------------------- */

static void a_shard_is_claimed_and_extended(void **state)
{
    lk_err          err = {0};
    uint64_t        version;
    lk_store       *store = open_root();
    lk_shard_writer writer = {0};
    assert_int_equal(generations(store, &version), 0);
    assert_int_equal(version, 0);
    assert_int_equal(lk_shard_claim(store, shard_id(), &writer, &err), LK_OK);
    assert_int_equal(writer.epoch, 1);
    for (uint64_t i = 1; i <= 20; i++) {
        assert_int_equal(add(&writer, "a", &err), LK_OK);
        assert_int_equal(generations(store, &version), i);
        assert_int_equal(version, i + 1);
    }
    lk_shard_writer_deinit(&writer);

    lk_arena arena = {0};
    lk_uuid *shards;
    size_t   count;
    assert_int_equal(lk_shard_list(store, &arena, &shards, &count, &err), LK_OK);
    assert_int_equal(count, 1);
    lk_uuid expected = shard_id();
    assert_memory_equal(&shards[0], &expected, sizeof expected);
    lk_arena_close(&arena);
    lk_store_close(store);
}

static void a_later_claim_fences_the_earlier_writer(void **state)
{
    lk_err          err = {0};
    uint64_t        version;
    lk_store       *store = open_root();
    lk_shard_writer first = {0}, second = {0};
    assert_int_equal(lk_shard_claim(store, shard_id(), &first, &err), LK_OK);
    assert_int_equal(add(&first, "a", &err), LK_OK);
    assert_int_equal(lk_shard_claim(store, shard_id(), &second, &err), LK_OK);
    assert_int_equal(second.epoch, 2);
    assert_int_equal(add(&first, "a", &err), LK_E_SHARD_FENCED);
    assert_false(err.maybe_applied);
    assert_int_equal(generations(store, &version), 1);
    err = (lk_err){0};
    assert_int_equal(add(&second, "b", &err), LK_OK);
    assert_int_equal(second.manifest.generation_count, 2); /* numbers go on */
    assert_int_equal(second.manifest.generations[1].number, 2);
    assert_int_equal(add(&first, "a", &err), LK_E_SHARD_FENCED);
    lk_shard_writer_deinit(&first);
    lk_shard_writer_deinit(&second);
    lk_store_close(store);
}

static void a_sealed_shard_is_not_claimed(void **state)
{
    lk_err            err = {0};
    lk_store         *store = open_root();
    lk_arena          arena = {0};
    lk_buf            bytes = {0};
    char              digits[LK_SHARD_POSITION_DIGITS + 1];
    lk_shard_writer   writer = {0};
    bool              created;
    lk_shard_manifest sealed = {
        .version = 1, .writer_epoch = 3, .current_generation = 1, .shard = shard_id(), .sealed = true};
    lk_shard_manifest_encode(&sealed, &bytes);
    lk_shard_position_format(1, digits);
    lk_bytes key = lk_shard_key(shard_id(), lk_arena_format(&arena, "manifest/%s.binpb", digits), &arena);
    assert_int_equal(lk_store_put_if_absent(store, key, lk_buf_view(&bytes), &created, &err), LK_OK);
    assert_int_equal(lk_shard_claim(store, shard_id(), &writer, &err), LK_E_PRECONDITION);
    lk_buf_deinit(&bytes);
    lk_arena_close(&arena);
    lk_store_close(store);
}

static void a_wrong_hint_costs_a_look_and_nothing_else(void **state)
{
    static const char *const hints[] = {"{\"version\":1}", "{\"version\":4}", "{\"version\":900}",
        "{\"version\":0}", "{\"version\":-1}", "nonsense", ""};
    lk_err                   err = {0};
    uint64_t                 version;
    lk_store                *store = open_root();
    lk_shard_writer          writer = {0};
    assert_int_equal(lk_shard_claim(store, shard_id(), &writer, &err), LK_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(add(&writer, "a", &err), LK_OK);
    }
    for (size_t i = 0; i < sizeof hints / sizeof hints[0]; i++) {
        put(store, "manifest/version_hint.json", hints[i]);
        assert_int_equal(generations(store, &version), 5);
        assert_int_equal(version, 6);
    }
    lk_shard_writer_deinit(&writer);
    lk_store_close(store);
}

static void a_damaged_manifest_is_named(void **state)
{
    lk_err            err = {0};
    lk_store         *store = open_root();
    lk_arena          arena = {0};
    lk_shard_manifest latest;
    bool              found;
    put(store, "manifest/1000000000000000000000000000000000000000000000000000000000000000.binpb", "damaged");
    assert_int_equal(lk_shard_latest(store, shard_id(), 0, &arena, &latest, &found, &err), LK_E_CORRUPT_FILE);
    assert_non_null(strstr(err.context, "_mem_wal/02e81b29-f150-54b9-9a08-ce75944f6889/manifest/1000"));
    lk_arena_close(&arena);
    lk_store_close(store);
}

/* -- versions that are empty, or missing ---------------------------------------------------------------------------- */

static lk_bytes key_of(uint64_t version, lk_arena *arena)
{
    return lk_shard_manifest_key(shard_id(), version, arena);
}

static void empty(lk_store *store, uint64_t version)
{
    lk_err   err = {0};
    lk_arena arena = {0};
    assert_int_equal(lk_store_replace(store, key_of(version, &arena), (lk_bytes){0}, &err), LK_OK);
    lk_arena_close(&arena);
}

static void take_away(lk_store *store, uint64_t version)
{
    lk_err   err = {0};
    lk_arena arena = {0};
    assert_int_equal(lk_store_remove(store, key_of(version, &arena), &err), LK_OK);
    lk_arena_close(&arena);
}

static lk_rc look(lk_store *store, uint64_t known, size_t *count, lk_err *err)
{
    lk_arena          arena = {0};
    lk_shard_manifest latest = {0};
    bool              found = false;
    lk_rc             rc = lk_shard_latest(store, shard_id(), known, &arena, &latest, &found, err);
    *count = rc == LK_OK && found ? latest.generation_count : 0;
    lk_arena_close(&arena);
    return rc;
}

static void a_writer_that_stood_still_never_makes_a_version_again(void **state)
{
    lk_err          err = {0};
    size_t          count = 0;
    lk_store       *store = open_root();
    lk_shard_writer stalled = {0}, next = {0};
    assert_int_equal(lk_shard_claim(store, shard_id(), &stalled, &err), LK_OK);
    assert_int_equal(add(&stalled, "a", &err), LK_OK);
    assert_int_equal(lk_shard_claim(store, shard_id(), &next, &err), LK_OK);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(add(&next, "b", &err), LK_OK);
    }
    for (uint64_t version = 1; version < 43; version++) {
        empty(store, version);
    }
    assert_int_equal(add(&stalled, "a", &err), LK_E_SHARD_FENCED);
    assert_false(err.maybe_applied);
    err = (lk_err){0};
    for (uint64_t known = 0; known < 43; known++) { /* wherever a reader begins */
        assert_int_equal(look(store, known, &count, &err), LK_OK);
        assert_int_equal(count, 41);
    }
    put(store, "manifest/version_hint.json", "{\"version\":2}"); /* of the writer that stood still */
    assert_int_equal(look(store, 0, &count, &err), LK_OK);
    assert_int_equal(count, 41);
    assert_int_equal(add(&next, "b", &err), LK_OK);
    lk_shard_writer_deinit(&stalled);
    lk_shard_writer_deinit(&next);
    lk_store_close(store);
}

static void versions_behind_a_gap_are_told_and_an_empty_object_closes_it(void **state)
{
    lk_err          err = {0};
    size_t          count = 0;
    lk_store       *store = open_root();
    lk_shard_writer writer = {0}, other = {0};
    assert_int_equal(lk_shard_claim(store, shard_id(), &writer, &err), LK_OK);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(add(&writer, "a", &err), LK_OK);
    }
    put(store, "manifest/version_hint.json", "{\"version\":3}");
    for (uint64_t missing = 4; missing < 9; missing++) {
        take_away(store, missing);
        assert_int_equal(look(store, 0, &count, &err), LK_E_CORRUPT_FILE);
        assert_non_null(strstr(err.context, "(version 4) is missing, and there is version "));
        assert_int_equal(lk_shard_claim(store, shard_id(), &other, &err), LK_E_CORRUPT_FILE);
    }
    err = (lk_err){0};
    for (uint64_t missing = 4; missing < 9; missing++) {
        empty(store, missing);
    }
    assert_int_equal(look(store, 0, &count, &err), LK_OK);
    assert_int_equal(count, 8);
    lk_shard_writer_deinit(&writer);
    lk_store_close(store);
}

static void a_newest_manifest_without_bytes_is_damage(void **state)
{
    lk_err          err = {0};
    size_t          count = 0;
    lk_store       *store = open_root();
    lk_shard_writer writer = {0};
    assert_int_equal(lk_shard_claim(store, shard_id(), &writer, &err), LK_OK);
    assert_int_equal(add(&writer, "a", &err), LK_OK);
    empty(store, 2);
    assert_int_equal(look(store, 0, &count, &err), LK_E_CORRUPT_FILE);
    assert_non_null(strstr(err.context, "is empty, and the newest"));
    lk_shard_writer_deinit(&writer);
    lk_store_close(store);
}

/* Between a reader's looks: the end of the chain moves on, and what was the end is emptied. */
typedef struct hurry {
    lk_store       *store;
    lk_shard_writer writer;
    int             calls, at;
} hurry;

static void go_on(void *context, const char *call)
{
    hurry *h = context;
    lk_err err = {0};
    (void)call;
    if (h->calls++ == h->at) {
        assert_int_equal(add(&h->writer, "b", &err), LK_OK);
        assert_int_equal(add(&h->writer, "b", &err), LK_OK);
        for (uint64_t version = 1; version < h->writer.manifest.version; version++) {
            empty(h->store, version);
        }
    }
}

static void a_chain_that_moves_on_and_is_emptied_meanwhile_is_read_to_its_end(void **state)
{
    hurry h = {.at = 0};
    for (bool fired = true; fired; h.at++) {
        lk_fault_plan plan;
        lk_err        err = {0};
        size_t        count = 0;
        make_root(NULL);
        h.store = open_root();
        h.calls = 0;
        assert_int_equal(lk_shard_claim(h.store, shard_id(), &h.writer, &err), LK_OK);
        assert_int_equal(add(&h.writer, "a", &err), LK_OK);
        lk_fault_plan_init(&plan);
        lk_fault_plan_hook(&plan, go_on, &h);
        lk_store *faulty = lk_faulty_store_new(open_root(), &plan);
        assert_int_equal(look(faulty, 0, &count, &err), LK_OK);
        fired = h.calls > h.at;
        assert_true(count == 1 || count == 3);
        assert_int_equal(look(faulty, 0, &count, &err), LK_OK);
        assert_true(!fired || count == 3);
        lk_shard_writer_deinit(&h.writer);
        lk_store_close(faulty);
        lk_fault_plan_deinit(&plan);
        lk_store_close(h.store);
        remove_root(NULL);
    }
    assert_true(h.at > 5);
}

typedef struct rival {
    lk_store       *store;
    lk_shard_writer writer;
} rival;

static void claim_first(void *context, const char *call)
{
    rival *r = context;
    lk_err err = {0};
    if (strncmp(call, "put", 3) == 0 && r->writer.epoch == 0) {
        assert_int_equal(lk_shard_claim(r->store, shard_id(), &r->writer, &err), LK_OK);
    }
}

/* Two instances with one id claim a new shard at once: the first manifest of both is the same, byte for byte, so finding it
 * after a put without an answer says nothing about whose it is. */
static void two_that_claim_at_once_never_have_one_epoch(void **state)
{
    bool fired = true;
    for (int64_t call = 0; fired; call++) {
        lk_err          err = {0};
        lk_fault_plan   plan;
        lk_shard_writer late = {0};
        assert_int_equal(make_root(NULL), 0);
        rival     r = {.store = open_root()};
        lk_store *faulty = lk_faulty_store_new(open_root(), &plan);
        lk_fault_plan_init(&plan);
        lk_fault_plan_hook(&plan, claim_first, &r);
        lk_fault_plan_arm(&plan, LK_FAULT_LOST, call);
        lk_rc rc = lk_shard_claim(faulty, shard_id(), &late, &err);
        fired = lk_fault_plan_fired(&plan);
        assert_true(fired || rc == LK_E_SHARD_FENCED);
        assert_true(rc != LK_OK || r.writer.epoch != late.epoch);
        lk_shard_writer_deinit(&late);
        lk_shard_writer_deinit(&r.writer);
        lk_store_close(faulty);
        lk_store_close(r.store);
        lk_fault_plan_deinit(&plan);
        assert_int_equal(remove_root(NULL), 0);
    }
}

/* Claims and adds once, with one call failing. Whatever is said is true, and a retry by the same process gets through. */
static bool round_of(lk_fault kind, int64_t calls_until)
{
    lk_err          err = {0}, again = {0};
    uint64_t        version;
    lk_fault_plan   plan;
    lk_shard_writer writer = {0}, retry = {0};
    assert_int_equal(make_root(NULL), 0);
    lk_store *plain = open_root();
    lk_fault_plan_init(&plan);
    lk_store *faulty = lk_faulty_store_new(open_root(), &plan);
    lk_fault_plan_arm(&plan, kind, calls_until);
    lk_rc rc = lk_shard_claim(faulty, shard_id(), &writer, &err);
    bool  claimed = rc == LK_OK;
    if (claimed) {
        rc = add(&writer, "a", &err);
    }
    bool fired = lk_fault_plan_fired(&plan);
    lk_fault_plan_arm(&plan, kind, -1);
    size_t count = generations(plain, &version);
    if (rc == LK_OK) {
        assert_int_equal(count, 1); /* a fault in a hint, or one that was looked into, is no failure */
    } else {
        assert_true(fired);
        assert_true(count == 0 || err.maybe_applied);
        assert_int_equal(lk_shard_claim(faulty, shard_id(), &retry, &again), LK_OK);
        assert_int_equal(add(&retry, "a", &again), LK_OK);
        assert_int_equal(generations(plain, &version), count + 1);
        if (claimed) {
            assert_int_equal(add(&writer, "a", &again), LK_E_SHARD_FENCED);
        }
    }
    lk_shard_writer_deinit(&writer);
    lk_shard_writer_deinit(&retry);
    lk_store_close(faulty);
    lk_store_close(plain);
    lk_fault_plan_deinit(&plan);
    assert_int_equal(remove_root(NULL), 0);
    return fired;
}

static void a_fault_at_every_store_call_leaves_a_true_answer(void **state)
{
    for (lk_fault kind = LK_FAULT_NONE + 1; kind < LK_FAULT_COUNT; kind++) {
        int64_t calls = 0;
        while (round_of(kind, calls)) {
            calls++;
            assert_true(calls < 100);
        }
        assert_true(calls >= 5);
    }
}

/* Which generations a reader of a far store finds, and the version. */
static size_t far_latest(uint64_t known, uint64_t *version)
{
    lk_err            err = {0};
    lk_arena          arena = {0};
    lk_shard_manifest latest = {0};
    bool              found = false;
    lk_store         *store = open_root();
    store->far = true;
    assert_int_equal(lk_shard_latest(store, shard_id(), known, &arena, &latest, &found, &err), LK_OK);
    size_t count = found ? latest.generation_count : 0;
    *version = found ? latest.version : 0;
    lk_arena_close(&arena);
    lk_store_close(store);
    return count;
}

static void far_away_the_newest_is_found_wherever_one_begins(void **state)
{
    lk_err          err = {0};
    uint64_t        version = 7;
    lk_store       *store = open_root();
    lk_shard_writer writer = {0};
    assert_int_equal(far_latest(0, &version), 0);
    assert_int_equal(version, 0);
    assert_int_equal(lk_shard_claim(store, shard_id(), &writer, &err), LK_OK);
    for (uint64_t i = 1; i <= 40; i++) { /* behind the hint, at it, a window of some, of many */
        assert_int_equal(add(&writer, "a", &err), LK_OK);
        assert_int_equal(far_latest(0, &version), i);
        assert_int_equal(version, i + 1);
    }
    for (uint64_t known = 1; known <= 45; known++) { /* the last ones are not there: the hint is asked */
        assert_int_equal(far_latest(known, &version), 40);
        assert_int_equal(version, 41);
    }
    put(store, "manifest/version_hint.json", "{\"version\":3}");
    assert_int_equal(far_latest(0, &version), 40);
    put(store, "manifest/version_hint.json", "{\"version\":300}");
    assert_int_equal(far_latest(0, &version), 40);
    put(store, "manifest/version_hint.json", "nothing");
    assert_int_equal(far_latest(0, &version), 40);
    lk_shard_writer_deinit(&writer);
    lk_store_close(store);
}

static void assert_newer(bool far, uint64_t known, uint64_t told, uint64_t expected)
{
    lk_err            err = {0};
    lk_arena          arena = {0};
    lk_shard_manifest newer = {0};
    bool              found = true;
    lk_store         *store = open_root();
    store->far = far;
    assert_int_equal(lk_shard_newer(store, shard_id(), known, told, &arena, &newer, &found, &err), LK_OK);
    assert_int_equal(found, expected > 0);
    assert_int_equal(found ? newer.version : 0, expected);
    lk_arena_close(&arena);
    lk_store_close(store);
}

static void what_is_told_of_a_version_is_only_a_place_to_begin(void **state)
{
    lk_err          err = {0};
    lk_store       *store = open_root();
    lk_shard_writer writer = {0};
    assert_int_equal(lk_shard_claim(store, shard_id(), &writer, &err), LK_OK);
    for (uint64_t i = 1; i <= 9; i++) {
        assert_int_equal(add(&writer, "a", &err), LK_OK);
    }
    for (int far = 0; far < 2; far++) {
        for (uint64_t told = 0; told <= 12; told++) { /* 11 and 12 were never there */
            assert_newer(far == 1, 2, told, 10);
            assert_newer(far == 1, 10, told, 0);
        }
    }
    lk_shard_writer_deinit(&writer);
    lk_store_close(store);
}

enum { MANY = 3000 }; /* generations, whose manifest is no small object */

static lk_rc list_many(void *context, lk_arena *arena, lk_shard_manifest *next, lk_err *err)
{
    lk_shard_generation *generations = lk_arena_take(arena, MANY * sizeof *generations);
    next->current_generation = MANY + 1;
    next->generation_count = MANY;
    for (uint64_t i = 0; i < MANY; i++) {
        generations[i] = (lk_shard_generation){
            .number = i + 1, .path = lk_arena_format(arena, "0123abcd_gen_%" PRIu64, i + 1)};
    }
    next->generations = generations;
    return LK_OK;
}

static void far_away_what_was_emptied_is_passed_over_and_a_large_manifest_is_read_all_the_same(void **state)
{
    lk_err          err = {0};
    uint64_t        version = 0;
    lk_arena        arena = {0};
    lk_store       *store = open_root();
    lk_shard_writer writer = {0};
    assert_int_equal(lk_shard_claim(store, shard_id(), &writer, &err), LK_OK);
    for (uint64_t i = 1; i <= 5; i++) {
        assert_int_equal(add(&writer, "a", &err), LK_OK);
    }
    for (uint64_t emptied = 1; emptied <= 5; emptied++) {
        assert_int_equal(lk_store_replace(store, lk_shard_manifest_key(shard_id(), emptied, &arena),
                             (lk_bytes){"", 0}, &err),
            LK_OK);
    }
    put(store, "manifest/version_hint.json", "{\"version\":2}");
    assert_int_equal(far_latest(0, &version), 5);
    assert_int_equal(version, 6);
    assert_int_equal(lk_shard_commit(&writer, list_many, NULL, &err), LK_OK);
    assert_int_equal(far_latest(0, &version), MANY);
    assert_int_equal(version, 7);
    lk_shard_writer_deinit(&writer);
    lk_store_close(store);
    lk_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_shard_is_claimed_and_extended, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_later_claim_fences_the_earlier_writer, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_sealed_shard_is_not_claimed, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_wrong_hint_costs_a_look_and_nothing_else, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_damaged_manifest_is_named, make_root, remove_root),
        cmocka_unit_test_setup_teardown(
            far_away_the_newest_is_found_wherever_one_begins, make_root, remove_root),
        cmocka_unit_test_setup_teardown(
            what_is_told_of_a_version_is_only_a_place_to_begin, make_root, remove_root),
        cmocka_unit_test_setup_teardown(
            far_away_what_was_emptied_is_passed_over_and_a_large_manifest_is_read_all_the_same, make_root,
            remove_root),
        cmocka_unit_test_setup_teardown(
            a_writer_that_stood_still_never_makes_a_version_again, make_root, remove_root),
        cmocka_unit_test_setup_teardown(
            versions_behind_a_gap_are_told_and_an_empty_object_closes_it, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_newest_manifest_without_bytes_is_damage, make_root, remove_root),
        cmocka_unit_test(a_chain_that_moves_on_and_is_emptied_meanwhile_is_read_to_its_end),
        cmocka_unit_test(two_that_claim_at_once_never_have_one_epoch),
        cmocka_unit_test(a_fault_at_every_store_call_leaves_a_true_answer),
    };
    return cmocka_run_group_tests_name("shard", tests, NULL, NULL);
}
