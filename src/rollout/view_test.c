/*
 * view_test.c - what readers of a store see while instances write, drain and collect: over a real directory, written by
 * writer.h. LK_TSAN: readers and a writer at once.
 */
#include "rollout/view.h"

#include "arrow/schema.h"
#include "base/fault.h"
#include "io/faulty.h"
#include "io/local.h"
#include "rollout/records_json.h"
#include "rollout/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- a reader ---------------------------------------------------------------------------------------------------- */

static lk_rollout_snapshot *take(void)
{
    lk_err               err = {0};
    lk_rollout_snapshot *snapshot = NULL;
    if (lk_rollout_view_take(fixture.view, &snapshot, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    return snapshot;
}

/* What is found of "a b c": "a b=x", in the order asked for; NULL context content is not shown. */
static void expect_found(lk_rollout_snapshot *snapshot, const char *asked, const char *expected)
{
    lk_err             err = {0};
    lk_bytes           ids[64] = {{0}};
    size_t             count = 0, wanted[64];
    const char        *texts[64] = {0};
    lk_arena           arena = {0};
    lk_buf             found = {0};
    struct ArrowArray  rows = {0};
    struct ArrowSchema schema = {0};
    for (; *asked != '\0'; count++) {
        size_t size = strcspn(asked, " ");
        ids[count] = (lk_bytes){asked, size};
        asked += size + (asked[size] == ' ');
    }
    assert_int_equal(lk_rollout_snapshot_find(snapshot, ids, count, NULL, &rows, wanted, &err), LK_OK);
    lk_rollout_rows_schema(&schema);
    for (int64_t i = 0; i < rows.length; i++) {
        lk_buf line = {0};
        assert_true(lk_bytes_equal(fixture_id(&rows, i), ids[wanted[i]]));
        lk_record_write_json(&schema, &rows, i, &line);
        const char *content = strstr(line.data, "\"content\":\"");
        lk_bytes    id = ids[wanted[i]];
        texts[wanted[i]] = content == NULL ? lk_arena_text(&arena, id)
                                           : lk_arena_format(&arena, "%.*s=%.*s", LK_FMT(id),
                                                 (int)strcspn(content + 11, "\""), content + 11)
                                                 .data;
        lk_buf_deinit(&line);
    }
    for (size_t i = 0; i < count; i++) {
        if (texts[i] != NULL) {
            lk_buf_format(&found, "%s%s", found.size == 0 ? "" : " ", texts[i]);
        }
    }
    assert_string_equal(found.size == 0 ? "" : found.data, expected);
    lk_array_release(&rows);
    lk_schema_release(&schema);
    lk_buf_deinit(&found);
    lk_arena_close(&arena);
}

static void expect_now(const char *asked, const char *expected)
{
    lk_rollout_snapshot *snapshot = take();
    expect_found(snapshot, asked, expected);
    lk_rollout_snapshot_unref(snapshot);
}

static lk_rc drain_oldest(void *context, lk_arena *arena, lk_shard_manifest *next, lk_err *err)
{
    *(lk_bytes *)context = lk_arena_copy(arena, next->generations[0].path);
    next->generations++;
    next->generation_count--;
    return LK_OK;
}

/* -- tests ------------------------------------------------------------------------------------------------------- */

static void a_snapshot_has_what_was_acknowledged_before_it(void **state)
{
    lk_rollout_writer *first = fixture_writer("rollout-0"), *second = fixture_writer("rollout-1");
    expect_now("a b", "");
    fixture_add(first, "a=1");
    lk_rollout_snapshot *early = take();
    fixture_add(second, "b=2 c");
    fixture_add(first, "d");
    expect_found(early, "a b c d", "a=1");
    expect_now("d c b a x", "d c b=2 a=1");
    lk_rollout_snapshot *same = take(), *again = take();
    assert_ptr_equal(same, again); /* nothing moved */
    assert_int_equal(same->row_count, 4);
    lk_rollout_snapshot_unref(same);
    lk_rollout_snapshot_unref(again);
    lk_rollout_snapshot_unref(early);
    lk_rollout_writer_free(first);
    lk_rollout_writer_free(second);
}

/* Shard ids: rollout-0 is c4..., rollout-1 is 56..., rollout-2 is 3a.... */
static void of_unequal_copies_the_stated_one_counts(void **state)
{
    lk_rollout_writer *high = fixture_writer("rollout-0"), *low = fixture_writer("rollout-1");
    fixture_append_to_base("a=base e=base");
    expect_now("a e", "a=base e=base");
    fixture_add(low, "a=low1 b=low1 c=low1");
    expect_now("a b c e", "a=low1 b=low1 c=low1 e=base");
    fixture_add(high, "a=high1");
    fixture_add(low, "a=low2 b=low2");
    expect_now("a b c e", "a=high1 b=low2 c=low1 e=base");
    lk_rollout_writer_free(high);
    lk_rollout_writer_free(low);
}

static void merged_rows_are_there_at_every_moment(void **state)
{
    lk_err             err = {0};
    lk_arena           arena = {0};
    lk_bytes           path = {0};
    lk_uuid            shard = lk_shard_of_instance(LK_LITERAL("rollout-0"));
    lk_rollout_writer *writer = fixture_writer("rollout-0");
    fixture_add(writer, "a=1");
    fixture_add(writer, "b=2");
    lk_rollout_snapshot *before = take();
    fixture_append_to_base("a=1");
    expect_now("a b", "a=1 b=2");
    lk_bytes first = lk_arena_copy(&arena, before->sources[1]->path);
    assert_int_equal(lk_rollout_writer_commit(writer, drain_oldest, &path, &err), LK_OK);
    expect_now("a b", "a=1 b=2");
    assert_int_equal(lk_generation_remove(fixture.store, shard, first, &err), LK_OK);
    expect_now("a b", "a=1 b=2");
    expect_found(before, "a b", "a=1 b=2"); /* its rows are in memory */
    lk_rollout_snapshot_unref(before);

    lk_rollout_snapshot *at = NULL;
    assert_int_equal(lk_rollout_view_at(fixture.view, 3, &at, &err), LK_OK);
    expect_found(at, "a b", "a=1");
    lk_rollout_snapshot_unref(at);
    assert_int_equal(lk_rollout_view_at(fixture.view, 9, &at, &err), LK_E_NOT_FOUND);
    assert_string_equal(err.detail, "the base table has no version 9");
    lk_arena_close(&arena);
    lk_rollout_writer_free(writer);
}

/* A version that was committed here is only where looking begins: newer ones are found, an older one changes nothing. */
static void a_version_that_is_given_hides_no_newer_one(void **state)
{
    lk_err      err = {0};
    lk_dataset *older = NULL, *newer = NULL;
    fixture_append_to_base("a=1");
    assert_int_equal(lk_dataset_open(&fixture.env, 0, &older, &err), LK_OK);
    fixture_append_to_base("b=2");
    assert_int_equal(lk_dataset_open(&fixture.env, 0, &newer, &err), LK_OK);
    fixture_append_to_base("c=3");
    expect_now("a b c", "a=1 b=2 c=3");
    lk_rollout_view_give_base(fixture.view, older);
    expect_now("a b c", "a=1 b=2 c=3");
    fixture_append_to_base("d=4");
    lk_rollout_view_give_base(fixture.view, newer);
    lk_rollout_view_give_base(fixture.view, older);
    expect_now("a b c d", "a=1 b=2 c=3 d=4");
    lk_rollout_view *fresh = lk_rollout_view_new(&fixture.env, older);
    lk_rollout_view_give_base(fresh, newer);
    lk_rollout_snapshot *snapshot = NULL;
    assert_int_equal(lk_rollout_view_take(fresh, &snapshot, &err), LK_OK);
    expect_found(snapshot, "a b c d", "a=1 b=2 c=3 d=4");
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_view_give_base(fresh, newer); /* and nobody looks */
    lk_rollout_view_free(fresh);
    lk_dataset_unref(older);
    lk_dataset_unref(newer);
}

static void a_listed_generation_that_is_gone_is_no_empty_one(void **state)
{
    lk_err             err = {0};
    lk_rollout_writer *writer = fixture_writer("rollout-0");
    fixture_add(writer, "a=1");
    lk_rollout_snapshot *snapshot = take();
    fixture_add(writer, "b=2");
    lk_rollout_view *fresh = lk_rollout_view_new(&fixture.env, fixture.base);
    assert_int_equal(
        lk_generation_remove(fixture.store, snapshot->sources[0]->shard, snapshot->sources[0]->path, &err),
        LK_OK);
    lk_rollout_snapshot *none = NULL;
    assert_int_equal(lk_rollout_view_take(fresh, &none, &err), LK_E_STORE_UNAVAILABLE);
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_view_free(fresh);
    lk_rollout_writer_free(writer);
}

/* -- a store whose first reader of a generation comes too late ------------------------------------------------------- */
typedef struct late_store {
    lk_store           base;
    lk_store          *under;
    lk_rollout_writer *writer; /* merges, once; NULL: did */
    lk_bytes           generation;
} late_store;

/* What a merge and, after the time of grace, a collection do. */
static void merge_and_collect(late_store *late)
{
    lk_err             err = {0};
    lk_bytes           drained = {0};
    lk_rollout_writer *writer = late->writer;
    late->writer = NULL;
    fixture_append_to_base("a=1");
    assert_int_equal(lk_rollout_writer_commit(writer, drain_oldest, &drained, &err), LK_OK);
    assert_int_equal(lk_generation_remove(fixture.store, lk_shard_of_instance(LK_LITERAL("rollout-0")),
                         late->generation, &err),
        LK_OK);
}

static lk_rc late_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    late_store *late = (late_store *)store;
    if (late->writer != NULL && memmem(key.data, key.size, "_gen_1/", 7) != NULL) {
        merge_and_collect(late);
    }
    return lk_store_open_object(late->under, key, out, size, err);
}

static lk_rc late_list(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    return lk_store_list(((late_store *)store)->under, directory, arena, entries, count, err);
}

static void a_generation_that_is_collected_while_it_is_read_is_read_from_the_table(void **state)
{
    static const struct lk_store_ops ops = {.open = late_open, .list = late_list};
    lk_rollout_writer               *writer = fixture_writer("rollout-0");
    fixture_add(writer, "a=1");
    fixture_add(writer, "b=2");
    lk_rollout_snapshot *before = take();
    late_store           late = {.base = {.ops = &ops, .uri = fixture.store->uri},
                  .under = fixture.store,
                  .writer = writer,
                  .generation = before->sources[1]->path};
    lk_lance_env         env = fixture.env;
    lk_err               err = {0};
    lk_rollout_snapshot *snapshot = NULL;
    env.store = &late.base;
    lk_rollout_view *fresh = lk_rollout_view_new(&env, fixture.base);
    assert_int_equal(lk_rollout_view_take(fresh, &snapshot, &err), LK_OK);
    assert_null(late.writer); /* it came too late, and began again */
    assert_int_equal(snapshot->source_count, 1);
    expect_found(snapshot, "a b", "a=1 b=2");
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_snapshot_unref(before);
    lk_rollout_view_free(fresh);
    lk_rollout_writer_free(writer);
}

static lk_rc list_foreign(void *context, lk_arena *arena, lk_shard_manifest *next, lk_err *err)
{
    next->generations = lk_arena_take(arena, sizeof *next->generations);
    next->generations[0] = (lk_shard_generation){.number = 1, .path = *(const lk_bytes *)context};
    next->generation_count = 1;
    next->current_generation = 2;
    return LK_OK;
}

/* One row of zeros and empty texts, as a generation that another program might have written. */
static void list_generation_of(const lk_bytes *columns, size_t count)
{
    lk_err             err = {0};
    lk_arena           arena = {0};
    lk_bytes           path, id = LK_LITERAL("");
    struct ArrowSchema schema = {0};
    struct ArrowArray  batch = {0};
    lk_shard_writer    shard = {0};
    lk_uuid            uuid = lk_shard_of_instance(LK_LITERAL("foreign"));
    assert_int_equal(lk_columns_parse(columns, count, &schema, &err), LK_OK);
    assert_int_equal(ArrowArrayInitFromSchema(&batch, &schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&batch), NANOARROW_OK);
    assert_int_equal(ArrowArrayAppendEmpty(&batch, 1), NANOARROW_OK);
    assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), NANOARROW_OK);
    lk_shared_array         *shared = lk_array_share(&batch);
    const lk_generation_rows rows = {
        .schema = &schema, .batches = &shared, .batch_count = 1, .ids = &id, .row_count = 1};
    lk_generation_forms *forms = lk_generation_forms_new();
    assert_int_equal(lk_generation_write(&fixture.env, forms, uuid, 1, &rows, &arena, &path, &err), LK_OK);
    lk_generation_forms_free(forms);
    assert_int_equal(lk_shard_claim(fixture.store, uuid, &shard, &err), LK_OK);
    assert_int_equal(lk_shard_commit(&shard, list_foreign, &path, &err), LK_OK);
    lk_shard_writer_deinit(&shard);
    lk_shared_array_unref(shared);
    lk_schema_release(&schema);
    lk_arena_close(&arena);
}

static void a_generation_whose_ids_are_no_texts_is_damaged(void **state)
{
    lk_err               err = {0};
    lk_rollout_snapshot *none = NULL;
    const lk_bytes       columns[] = {LK_LITERAL("id:int64")};
    list_generation_of(columns, 1);
    assert_int_equal(lk_rollout_view_take(fixture.view, &none, &err), LK_E_CORRUPT_FILE);
    assert_non_null(strstr(err.context, "_gen_1"));
}

static void a_generation_whose_tombstones_are_no_truth_values_is_damaged(void **state)
{
    lk_err               err = {0};
    lk_rollout_snapshot *none = NULL;
    const lk_bytes       columns[] = {LK_LITERAL("id:utf8"), LK_LITERAL("_tombstone:utf8")};
    list_generation_of(columns, 2);
    assert_int_equal(lk_rollout_view_take(fixture.view, &none, &err), LK_E_CORRUPT_FILE);
    assert_non_null(strstr(err.context, "_gen_1"));
}

/* -- at once ------------------------------------------------------------------------------------------------------- */

enum { READERS = 3, ROUNDS = 20 };

typedef struct reader {
    lk_thread    thread;
    atomic_int  *acknowledged;
    atomic_bool *stop;
    bool         good;
} reader;

static void read_on(void *context)
{
    reader *r = context;
    r->good = true;
    while (!atomic_load(r->stop)) {
        lk_err               err = {0};
        int                  least = atomic_load(r->acknowledged);
        lk_rollout_snapshot *snapshot = NULL;
        r->good = r->good && lk_rollout_view_take(fixture.view, &snapshot, &err) == LK_OK &&
                  snapshot->row_count >= (size_t)least;
        lk_rollout_snapshot_unref(snapshot);
    }
}

static void readers_never_miss_an_acknowledged_row(void **state)
{
    lk_err             err = {0};
    atomic_int         acknowledged = 0;
    atomic_bool        stop = false;
    reader             readers[READERS];
    lk_rollout_writer *writer = fixture_writer("rollout-0");
    for (int i = 0; i < READERS; i++) {
        readers[i] = (reader){.acknowledged = &acknowledged, .stop = &stop};
        assert_int_equal(lk_thread_start(&readers[i].thread, "reader", read_on, &readers[i], &err), LK_OK);
    }
    for (int i = 0; i < ROUNDS; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "id-%d", i);
        fixture_add(writer, id);
        atomic_fetch_add(&acknowledged, 1);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++) {
        lk_thread_join(&readers[i].thread);
        assert_true(readers[i].good);
    }
    lk_rollout_writer_free(writer);
}

/* -- faults ------------------------------------------------------------------------------------------------------ */

/* A reader that knows a store falls behind it, and one call of its next look fails: the look fails, or sees everything; the
 * one after sees everything. */
static bool round_of(lk_fault kind, int64_t calls_until)
{
    lk_err               err = {0};
    lk_fault_plan        plan;
    lk_store            *under = NULL;
    lk_rollout_snapshot *snapshot = NULL;
    assert_int_equal(fixture_open_store(NULL), 0);
    lk_rollout_writer *first = fixture_writer("rollout-0"), *second = fixture_writer("rollout-1");
    fixture_add(first, "a");
    lk_fault_plan_init(&plan);
    assert_int_equal(lk_local_store_open(&under, lk_bytes_of(fixture.root), false, &err), LK_OK);
    lk_lance_env env = fixture.env;
    env.store = lk_faulty_store_new(under, &plan);
    lk_rollout_view *view = lk_rollout_view_new(&env, fixture.base);
    assert_int_equal(lk_rollout_view_take(view, &snapshot, &err), LK_OK);
    lk_rollout_snapshot_unref(snapshot);
    fixture_add(first, "b");
    fixture_add(second, "c");
    fixture_append_to_base("d");

    lk_fault_plan_arm(&plan, kind, calls_until);
    lk_rc rc = lk_rollout_view_take(view, &snapshot, &err);
    bool  fired = lk_fault_plan_fired(&plan);
    lk_fault_plan_arm(&plan, kind, -1);
    assert_true(rc == LK_OK || fired);
    if (rc != LK_OK) {
        assert_int_equal(lk_rollout_view_take(view, &snapshot, &err), LK_OK);
    }
    expect_found(snapshot, "a b c d", "a b c d");
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_view_free(view);
    lk_store_close(env.store);
    lk_fault_plan_deinit(&plan);
    lk_rollout_writer_free(first);
    lk_rollout_writer_free(second);
    assert_int_equal(fixture_close_store(NULL), 0);
    return fired;
}

static void after_a_look_that_failed_anywhere_the_next_one_sees_everything(void **state)
{
    static const lk_fault kinds[] = {LK_FAULT_LOST, LK_FAULT_DENIED}; /* reads: the others are the same */
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        int64_t calls = 0;
        while (round_of(kinds[i], calls)) {
            calls++;
            assert_true(calls < 200);
        }
        assert_true(calls >= 8);
    }
}

static void an_open_reader_hears_of_a_gap_before_later_manifests(void **state)
{
    lk_err               err = {0};
    lk_arena             arena = {0};
    lk_manual_clock      clock;
    lk_rollout_snapshot *snapshot = NULL;
    lk_manual_clock_init(&clock, 1764500000000);
    fixture.env.clock = &clock.base;
    lk_rollout_view   *open_view = lk_rollout_view_new(&fixture.env, fixture.base);
    lk_rollout_writer *writer = fixture_writer("rollout-0");
    fixture_add(writer, "a");
    assert_int_equal(lk_rollout_view_take(open_view, &snapshot, &err), LK_OK);
    lk_rollout_snapshot_unref(snapshot);
    fixture_add(writer, "b");
    fixture_add(writer, "c");
    lk_bytes lost = lk_shard_manifest_key(lk_shard_of_instance(LK_LITERAL("rollout-0")), 3, &arena);
    assert_int_equal(lk_store_remove(fixture.store, lost, &err), LK_OK);
    clock.monotonic_ms += 10000;
    assert_int_equal(lk_rollout_view_take(open_view, &snapshot, &err), LK_E_CORRUPT_FILE);
    assert_non_null(memmem(err.context, err.len, lost.data, lost.size));
    err = (lk_err){0};
    assert_int_equal(
        lk_rollout_view_take(open_view, &snapshot, &err), LK_E_CORRUPT_FILE); /* until it is closed */
    err = (lk_err){0};
    assert_int_equal(lk_store_replace(fixture.store, lost, (lk_bytes){0}, &err), LK_OK);
    assert_int_equal(lk_rollout_view_take(open_view, &snapshot, &err), LK_OK);
    assert_int_equal(snapshot->row_count, 3);
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_writer_free(writer);
    lk_rollout_view_free(open_view);
    lk_arena_close(&arena);
    fixture.env.clock = lk_clock_real();
}

/* Hints are read before there is a view; what came since, and what they are wrong about, is found all the same. */
static void a_far_store_is_seen_whole_whatever_was_expected(void **state)
{
    lk_err               err = {0};
    lk_rollout_outlook   outlook = {0};
    lk_rollout_snapshot *snapshot = NULL;
    lk_rollout_writer   *first = fixture_writer("rollout-0"), *second = fixture_writer("rollout-1");
    fixture.store->far = true;
    assert_int_equal(lk_rollout_look_out(&fixture.env, &outlook, &err), LK_OK);
    assert_int_equal(outlook.count, 0);
    lk_rollout_outlook_deinit(&outlook);
    fixture_add(first, "a");
    fixture_add(first, "b");
    assert_int_equal(lk_rollout_look_out(&fixture.env, &outlook, &err), LK_OK);
    assert_int_equal(outlook.count, 1);
    fixture_add(first, "c");
    fixture_add(second, "d"); /* a shard that nobody expects */
    for (int wrong = 0; wrong < 3; wrong++) {
        lk_rollout_view *view = lk_rollout_view_new(&fixture.env, fixture.base);
        outlook.versions[0] = wrong == 1 ? 0 : wrong == 2 ? 1000 : outlook.versions[0];
        lk_rollout_view_expect(view, &outlook);
        assert_int_equal(lk_rollout_view_take(view, &snapshot, &err), LK_OK);
        assert_int_equal(snapshot->row_count, 4);
        assert_int_equal(snapshot->pin_count, 2);
        lk_rollout_snapshot_unref(snapshot);
        lk_rollout_view_free(view);
    }
    lk_rollout_outlook_deinit(&outlook);
    lk_rollout_writer_free(first);
    lk_rollout_writer_free(second);
}

static size_t recall(lk_rollout_view *view)
{
    lk_err               err = {0};
    lk_rollout_snapshot *snapshot = NULL;
    assert_int_equal(lk_rollout_view_recall(view, 1000, &snapshot, &err), LK_OK);
    size_t rows = snapshot->row_count;
    lk_rollout_snapshot_unref(snapshot);
    return rows;
}

static void what_is_recalled_is_renewed_before_it_is_too_old(void **state)
{
    lk_err             err = {0};
    lk_manual_clock    clock;
    lk_lance_env       env = fixture.env;
    lk_rollout_writer *writer = fixture_writer("rollout-0");
    lk_manual_clock_init(&clock, 1764500000000);
    env.clock = &clock.base;
    assert_int_equal(lk_pool_open(&env.pool, "renew", 1, 4, &err), LK_OK);
    lk_rollout_view *view = lk_rollout_view_new(&env, fixture.base);
    fixture_add(writer, "a");
    assert_int_equal(recall(view), 1);
    fixture_add(writer, "b");
    assert_int_equal(recall(view), 1); /* as good as new */
    lk_clock_sleep_ms(&clock.base, 600);
    assert_int_equal(recall(view), 1); /* nobody waits, and it is looked again */
    size_t rows = 1;
    for (uint64_t until = lk_thread_now_ms() + 10000; rows == 1 && lk_thread_now_ms() < until;) {
        lk_rollout_snapshot *last = lk_rollout_view_last(view);
        rows = last->row_count;
        lk_rollout_snapshot_unref(last);
        lk_clock_sleep_ms(lk_clock_real(), 1);
    }
    assert_int_equal(rows, 2);
    fixture_add(writer, "c");
    lk_clock_sleep_ms(&clock.base, 1001);
    assert_int_equal(recall(view), 3); /* too old: this one waits */
    lk_clock_sleep_ms(&clock.base, 600);
    assert_int_equal(recall(view), 3);
    lk_rollout_view_free(view); /* while it may still be looked */
    lk_pool_close(env.pool);
    lk_rollout_writer_free(writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_far_store_is_seen_whole_whatever_was_expected, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(
            what_is_recalled_is_renewed_before_it_is_too_old, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(
            an_open_reader_hears_of_a_gap_before_later_manifests, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(
            a_snapshot_has_what_was_acknowledged_before_it, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(
            of_unequal_copies_the_stated_one_counts, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(
            merged_rows_are_there_at_every_moment, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(
            a_version_that_is_given_hides_no_newer_one, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(
            a_listed_generation_that_is_gone_is_no_empty_one, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(
            a_generation_whose_ids_are_no_texts_is_damaged, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(a_generation_whose_tombstones_are_no_truth_values_is_damaged,
            fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(
            readers_never_miss_an_acknowledged_row, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(
            a_generation_that_is_collected_while_it_is_read_is_read_from_the_table, fixture_open_store,
            fixture_close_store),
        cmocka_unit_test(after_a_look_that_failed_anywhere_the_next_one_sees_everything),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
