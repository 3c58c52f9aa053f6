/*
 * view_test.c - what readers of a store see while instances write, drain and collect: over a real directory, written by
 * writer.h. LK_TSAN: readers and a writer at once.
 */
#include "rollout/view.h"

#include "arrow/schema.h"
#include "base/file.h"
#include "io/local.h"
#include "rollout/base_table.h"
#include "rollout/records_json.h"
#include "rollout/writer.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- a store ----------------------------------------------------------------------------------------------------- */

static char             root[64];
static lk_store        *store;
static lk_lance_env     env;
static lk_dataset      *base;
static lk_rollout_view *view;

static int open_store(void **state)
{
    lk_err err = {0};
    (void)snprintf(root, sizeof root, "%s/lake-view-XXXXXX", P_tmpdir);
    env = (lk_lance_env){.clock = lk_clock_real(), .random = lk_random_os()};
    if (mkdtemp(root) == NULL || lk_local_store_open(&store, lk_bytes_of(root), false, &err) != LK_OK) {
        return -1;
    }
    env.store = store;
    if (lk_base_table_create(&env, true, &base, &err) != LK_OK) {
        return -1;
    }
    view = lk_rollout_view_new(&env, base);
    return 0;
}

static int close_store(void **state)
{
    lk_err err = {0};
    lk_rollout_view_free(view);
    lk_dataset_unref(base);
    lk_store_close(store);
    return lk_directory_remove(root, &err) == LK_OK ? 0 : -1;
}

/* "a b=x" becomes records a with content null and b with content x, in the table's columns. */
static struct ArrowArray records(const char *text)
{
    lk_err             err = {0};
    lk_buf             lines = {0};
    lk_records        *r = NULL;
    struct ArrowArray  batch = {0}, aligned = {0};
    struct ArrowSchema schema = {0};
    while (*text != '\0') {
        size_t      size = strcspn(text, " ");
        const char *equals = memchr(text, '=', size);
        size_t      id_size = equals == NULL ? size : (size_t)(equals - text);
        lk_buf_format(&lines, "{\"id\":\"%.*s\",\"rollout_id\":\"r\"", (int)id_size, text);
        if (equals != NULL) {
            lk_buf_format(&lines, ",\"content\":\"%.*s\"", (int)(size - id_size - 1), equals + 1);
        }
        lk_buf_append_text(&lines, "}\n");
        text += size + (text[size] == ' ');
    }
    assert_int_equal(lk_records_open(1, NULL, &r, &err), LK_OK);
    assert_int_equal(lk_records_read_ndjson(r, lk_buf_view(&lines), &err), LK_OK);
    assert_int_equal(lk_records_finish(r, false, &batch, &err), LK_OK);
    lk_record_schema(true, &schema);
    lk_shared_array *shared = lk_array_share(&batch);
    assert_int_equal(lk_base_table_align(lk_dataset_schema(base), &schema, shared, &aligned, &err), LK_OK);
    lk_shared_array_unref(shared);
    lk_schema_release(&schema);
    lk_records_close(r);
    lk_buf_deinit(&lines);
    return aligned;
}

static lk_bytes id_at(const struct ArrowArray *batch, int64_t row)
{
    const struct ArrowArray *column = batch->children[0];
    const int32_t           *offsets = (const int32_t *)column->buffers[1] + column->offset + row;
    return (lk_bytes){(const char *)column->buffers[2] + offsets[0], (size_t)(offsets[1] - offsets[0])};
}

static lk_rc prepare(
    void *context, lk_rollout_add *adds, lk_arena *arena, lk_generation_rows *out, lk_err *err)
{
    struct ArrowArray batch = records(adds->what);
    lk_bytes         *ids = lk_arena_take(arena, (size_t)batch.length * sizeof *ids);
    *out = (lk_generation_rows){
        .schema = lk_dataset_schema(base), .row_count = (size_t)batch.length, .ids = ids};
    for (int64_t i = 0; i < batch.length; i++) {
        ids[i] = lk_arena_copy(arena, id_at(&batch, i));
    }
    lk_shared_array **batches = lk_arena_take(arena, sizeof(lk_shared_array *));
    batches[0] = lk_array_share(&batch);
    out->batches = batches;
    out->batch_count = 1;
    return LK_OK;
}

static lk_rc replay(void *context, lk_batches *entry, lk_arena *arena, lk_generation_rows *out, lk_err *err)
{
    return lk_fail(err, LK_E_INTERNAL, "no entry is left behind here");
}

static void flushed(void *context, const lk_shard_generation *generation, const lk_generation_rows *rows) {}

static const lk_rollout_writer_ops ops = {prepare, replay, flushed};

static lk_rollout_writer *writer_of(const char *instance)
{
    const lk_rollout_writer_options options = {
        .env = &env, .shard = lk_shard_of_instance(lk_bytes_of(instance)), .log = true, .ops = &ops};
    return lk_rollout_writer_new(&options);
}

static void add(lk_rollout_writer *writer, const char *text)
{
    lk_err         err = {0};
    lk_rollout_add a = {.what = (void *)text};
    assert_int_equal(lk_rollout_writer_add(writer, &a, &err), LK_OK);
}

/* -- a reader ---------------------------------------------------------------------------------------------------- */

static lk_rollout_snapshot *take(void)
{
    lk_err               err = {0};
    lk_rollout_snapshot *snapshot = NULL;
    if (lk_rollout_view_take(view, &snapshot, &err) != LK_OK) {
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
        assert_true(lk_bytes_equal(id_at(&rows, i), ids[wanted[i]]));
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

/* What a merge does to the base table and to a shard's manifest. */
static void append_to_base(const char *text)
{
    lk_err             err = {0};
    struct ArrowSchema schema = {0};
    struct ArrowArray  batch = records(text);
    lk_dataset        *tip = NULL, *next = NULL;
    assert_int_equal(lk_schema_copy(lk_dataset_schema(base), &schema, &err), LK_OK);
    lk_batches *rows = lk_batches_of(&schema, &batch, 1);
    assert_int_equal(lk_dataset_open(&env, 0, &tip, &err), LK_OK);
    assert_int_equal(lk_dataset_append(tip, lk_direct_committer(), rows, NULL, &next, &err), LK_OK);
    lk_batches_close(rows);
    lk_dataset_unref(tip);
    lk_dataset_unref(next);
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
    lk_rollout_writer *first = writer_of("rollout-0"), *second = writer_of("rollout-1");
    expect_now("a b", "");
    add(first, "a=1");
    lk_rollout_snapshot *early = take();
    add(second, "b=2 c");
    add(first, "d");
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
    lk_rollout_writer *high = writer_of("rollout-0"), *low = writer_of("rollout-1");
    append_to_base("a=base e=base");
    expect_now("a e", "a=base e=base");
    add(low, "a=low1 b=low1 c=low1");
    expect_now("a b c e", "a=low1 b=low1 c=low1 e=base");
    add(high, "a=high1");
    add(low, "a=low2 b=low2");
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
    lk_rollout_writer *writer = writer_of("rollout-0");
    add(writer, "a=1");
    add(writer, "b=2");
    lk_rollout_snapshot *before = take();
    append_to_base("a=1");
    expect_now("a b", "a=1 b=2");
    lk_bytes first = lk_arena_copy(&arena, before->sources[1]->path);
    assert_int_equal(lk_rollout_writer_commit(writer, drain_oldest, &path, &err), LK_OK);
    expect_now("a b", "a=1 b=2");
    assert_int_equal(lk_generation_remove(store, shard, first, &err), LK_OK);
    expect_now("a b", "a=1 b=2");
    expect_found(before, "a b", "a=1 b=2"); /* its rows are in memory */
    lk_rollout_snapshot_unref(before);

    lk_rollout_snapshot *at = NULL;
    assert_int_equal(lk_rollout_view_at(view, 3, &at, &err), LK_OK);
    expect_found(at, "a b", "a=1");
    lk_rollout_snapshot_unref(at);
    assert_int_equal(lk_rollout_view_at(view, 9, &at, &err), LK_E_NOT_FOUND);
    lk_arena_close(&arena);
    lk_rollout_writer_free(writer);
}

static void a_listed_generation_that_is_gone_is_no_empty_one(void **state)
{
    lk_err             err = {0};
    lk_rollout_writer *writer = writer_of("rollout-0");
    add(writer, "a=1");
    lk_rollout_snapshot *snapshot = take();
    add(writer, "b=2");
    lk_rollout_view *fresh = lk_rollout_view_new(&env, base);
    assert_int_equal(
        lk_generation_remove(store, snapshot->sources[0]->shard, snapshot->sources[0]->path, &err), LK_OK);
    lk_rollout_snapshot *none = NULL;
    assert_int_equal(lk_rollout_view_take(fresh, &none, &err), LK_E_STORE_UNAVAILABLE);
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_view_free(fresh);
    lk_rollout_writer_free(writer);
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
        r->good = r->good && lk_rollout_view_take(view, &snapshot, &err) == LK_OK &&
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
    lk_rollout_writer *writer = writer_of("rollout-0");
    for (int i = 0; i < READERS; i++) {
        readers[i] = (reader){.acknowledged = &acknowledged, .stop = &stop};
        assert_int_equal(lk_thread_start(&readers[i].thread, "reader", read_on, &readers[i], &err), LK_OK);
    }
    for (int i = 0; i < ROUNDS; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "id-%d", i);
        add(writer, id);
        atomic_fetch_add(&acknowledged, 1);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < READERS; i++) {
        lk_thread_join(&readers[i].thread);
        assert_true(readers[i].good);
    }
    lk_rollout_writer_free(writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_snapshot_has_what_was_acknowledged_before_it, open_store, close_store),
        cmocka_unit_test_setup_teardown(of_unequal_copies_the_stated_one_counts, open_store, close_store),
        cmocka_unit_test_setup_teardown(merged_rows_are_there_at_every_moment, open_store, close_store),
        cmocka_unit_test_setup_teardown(
            a_listed_generation_that_is_gone_is_no_empty_one, open_store, close_store),
        cmocka_unit_test_setup_teardown(readers_never_miss_an_acknowledged_row, open_store, close_store),
    };
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
