/*
 * writer_test.c - group commit: what is acknowledged is listed and readable, whole and once; fencing; log entries that a dead
 * writer left; a fault at every store call. LK_TSAN: adds come from several threads.
 */
#include "rollout/writer.h"

#include "arrow/schema.h"
#include "base/fault.h"
#include "base/file.h"
#include "io/faulty.h"
#include "io/local.h"
#include "io/prefix.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- a table of one text column ---------------------------------------------------------------------------------- */

static char               root[64];
static struct ArrowSchema schema;
static atomic_int         listed; /* generations that flushed was told of */

static lk_store *open_root(void)
{
    lk_err    err = {0};
    lk_store *store = NULL;
    assert_int_equal(lk_local_store_open(&store, lk_bytes_of(root), false, &err), LK_OK);
    return store;
}

static lk_uuid shard_id(void)
{
    return lk_shard_of_instance(LK_LITERAL("default"));
}

static lk_shared_array *rows_of(const lk_bytes *ids, size_t count)
{
    struct ArrowArray batch = {0};
    assert_int_equal(ArrowArrayInitFromSchema(&batch, &schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&batch), NANOARROW_OK);
    for (size_t i = 0; i < count; i++) {
        struct ArrowStringView view = {ids[i].data, (int64_t)ids[i].size};
        assert_int_equal(ArrowArrayAppendString(batch.children[0], view), NANOARROW_OK);
    }
    batch.length = (int64_t)count;
    assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), NANOARROW_OK);
    return lk_array_share(&batch);
}

static void one_batch(lk_arena *arena, lk_bytes *ids, size_t count, lk_generation_rows *out)
{
    lk_shared_array **batches = lk_arena_take(arena, sizeof(lk_shared_array *));
    batches[0] = rows_of(ids, count);
    *out = (lk_generation_rows){
        .schema = &schema, .batches = batches, .batch_count = 1, .ids = ids, .row_count = count};
}

/* what: a text of ids with blanks between them; "bad" is refused. */
static lk_rc prepare(
    void *context, lk_rollout_add *adds, lk_arena *arena, lk_generation_rows *out, lk_err *err)
{
    lk_bytes *ids = lk_arena_take(arena, 1000 * sizeof *ids);
    size_t    count = 0;
    for (lk_rollout_add *add = adds; add != NULL; add = add->next) {
        const char *at = add->what;
        if (strcmp(at, "bad") == 0) {
            add->rc = lk_refuse(&add->err, LK_E_INVALID_REQUEST, "bad");
            continue;
        }
        while (*at != '\0') {
            size_t size = strcspn(at, " ");
            ids[count++] = lk_arena_copy(arena, (lk_bytes){at, size});
            at += size + (at[size] == ' ');
        }
    }
    if (count > 0) {
        one_batch(arena, ids, count, out);
    }
    return LK_OK;
}

static lk_bytes id_at(const struct ArrowArray *batch, int64_t row)
{
    const int32_t *offsets = (const int32_t *)batch->children[0]->buffers[1] + batch->children[0]->offset;
    const char    *data = batch->children[0]->buffers[2];
    return (lk_bytes){data + offsets[row], (size_t)(offsets[row + 1] - offsets[row])};
}

static lk_rc replay(void *context, lk_batches *entry, lk_arena *arena, lk_generation_rows *out, lk_err *err)
{
    lk_bytes         *ids = lk_arena_take(arena, 1000 * sizeof *ids);
    size_t            count = 0;
    struct ArrowArray batch = {0};
    lk_rc             rc = lk_batches_next(entry, &batch, err);
    while (rc == LK_OK && batch.release != NULL) {
        for (int64_t i = 0; i < batch.length; i++) {
            ids[count++] = lk_arena_copy(arena, id_at(&batch, i));
        }
        lk_array_release(&batch);
        rc = lk_batches_next(entry, &batch, err);
    }
    if (rc == LK_OK) {
        one_batch(arena, ids, count, out);
    }
    return rc;
}

static void flushed(void *context, const lk_shard_manifest *manifest, const lk_shard_generation *generation,
    const lk_generation_rows *rows)
{
    assert_non_null(generation);
    assert_true(manifest->version > 0);
    assert_int_equal(manifest->generations[manifest->generation_count - 1].number, generation->number);
    assert_true(rows->row_count > 0);
    atomic_fetch_add(&listed, 1);
}

static const lk_rollout_writer_ops ops = {prepare, replay, flushed, NULL};

static lk_lance_env env_of(lk_store *store)
{
    return (lk_lance_env){.store = store, .clock = lk_clock_real(), .random = lk_random_os()};
}

static lk_rollout_writer *writer_on(const lk_lance_env *env)
{
    const lk_rollout_writer_options options = {.env = env, .shard = shard_id(), .log = true, .ops = &ops};
    return lk_rollout_writer_new(&options);
}

static lk_rc add(lk_rollout_writer *writer, const char *ids, lk_err *err)
{
    lk_rollout_add a = {.what = (void *)ids};
    return lk_rollout_writer_add(writer, &a, err);
}

/* -- what readers see -------------------------------------------------------------------------------------------- */

static void read_generation(lk_store *store, lk_bytes path, lk_buf *out)
{
    lk_err       err = {0};
    lk_arena     arena = {0};
    lk_store    *inside = lk_prefix_store_new(store, lk_shard_key(shard_id(), path, &arena));
    lk_lance_env env = env_of(inside);
    lk_dataset  *dataset = NULL;
    lk_batches  *batches = NULL;
    assert_int_equal(lk_dataset_open(&env, 0, &dataset, &err), LK_OK);
    assert_int_equal(lk_dataset_version(dataset), 1);
    const lk_scan_options options = {.limit = UINT64_MAX};
    assert_int_equal(lk_dataset_scan(dataset, &options, &batches, &err), LK_OK);
    struct ArrowArray batch = {0};
    while (lk_batches_next(batches, &batch, &err) == LK_OK && batch.release != NULL) {
        for (int64_t i = 0; i < batch.length; i++) {
            lk_buf_format(out, "%.*s ", LK_FMT(id_at(&batch, i)));
        }
        lk_array_release(&batch);
    }
    lk_batches_close(batches);
    lk_dataset_unref(dataset);
    lk_store_close(inside);
    lk_arena_close(&arena);
}

/* "a b | c " for generations of two and one rows. */
static size_t read_all(lk_store *store, lk_buf *out)
{
    lk_err            err = {0};
    lk_arena          arena = {0};
    lk_shard_manifest latest = {0};
    bool              found;
    lk_buf_clear(out);
    lk_buf_append_text(out, "");
    assert_int_equal(lk_shard_latest(store, shard_id(), 0, &arena, &latest, &found, &err), LK_OK);
    for (size_t i = 0; i < latest.generation_count; i++) {
        lk_buf_append_text(out, i == 0 ? "" : "| ");
        read_generation(store, latest.generations[i].path, out);
    }
    size_t count = latest.generation_count;
    lk_arena_close(&arena);
    return count;
}

static void expect_rows(const char *expected)
{
    lk_store *store = open_root();
    lk_buf    rows = {0};
    read_all(store, &rows);
    assert_string_equal(rows.size == 0 ? "" : rows.data, expected);
    lk_buf_deinit(&rows);
    lk_store_close(store);
}

/* -- tests ------------------------------------------------------------------------------------------------------- */

static void an_add_is_a_generation_that_anyone_can_read(void **state)
{
    lk_err                  err = {0};
    lk_store               *store = open_root();
    lk_lance_env            env = env_of(store);
    lk_rollout_writer      *writer = writer_on(&env);
    lk_rollout_writer_stats stats;
    assert_int_equal(add(writer, "a b", &err), LK_OK);
    assert_int_equal(add(writer, "c", &err), LK_OK);
    expect_rows("a b | c ");
    assert_int_equal(add(writer, "bad", &err), LK_E_INVALID_REQUEST);
    err = (lk_err){0};
    assert_int_equal(add(writer, "", &err), LK_OK);
    expect_rows("a b | c ");
    lk_rollout_writer_read_stats(writer, &stats);
    assert_int_equal(stats.epoch, 1);
    assert_int_equal(stats.flushes, 2);
    assert_int_equal(stats.rows, 3);
    assert_int_equal(stats.pending_generations, 2);
    lk_rollout_writer_free(writer);
    lk_store_close(store);
}

static void a_fenced_writer_says_so_and_loses_nothing(void **state)
{
    lk_err             err = {0};
    lk_store          *store = open_root();
    lk_lance_env       env = env_of(store);
    lk_rollout_writer *first = writer_on(&env), *second = writer_on(&env);
    assert_int_equal(add(first, "a", &err), LK_OK);
    assert_int_equal(add(second, "b", &err), LK_OK);
    assert_int_equal(add(first, "x", &err), LK_E_SHARD_FENCED);
    assert_false(err.maybe_applied);
    err = (lk_err){0};
    assert_int_equal(add(first, "y", &err), LK_E_SHARD_FENCED); /* it does not take the shard back at once */
    err = (lk_err){0};
    assert_int_equal(add(second, "c", &err), LK_OK);
    expect_rows("a | b | c ");
    lk_rollout_writer_free(first);
    lk_rollout_writer_free(second);
    lk_store_close(store);
}

static void a_fenced_writer_takes_its_shard_back_after_a_while(void **state)
{
    lk_err          err = {0};
    lk_manual_clock clock;
    lk_store       *store = open_root();
    lk_lance_env    env = env_of(store);
    lk_manual_clock_init(&clock, 1);
    env.clock = &clock.base;
    lk_rollout_writer      *first = writer_on(&env), *second = writer_on(&env);
    lk_rollout_writer_stats stats;
    assert_int_equal(add(first, "a", &err), LK_OK);
    assert_int_equal(add(second, "b", &err), LK_OK);
    assert_int_equal(add(first, "x", &err), LK_E_SHARD_FENCED);
    lk_clock_sleep_ms(env.clock, LK_ROLLOUT_RECLAIM_MS / 2 - 1); /* whatever the jitter is */
    err = (lk_err){0};
    assert_int_equal(add(first, "y", &err), LK_E_SHARD_FENCED);
    lk_clock_sleep_ms(env.clock, LK_ROLLOUT_RECLAIM_MS + 1);
    err = (lk_err){0};
    assert_int_equal(add(first, "c", &err), LK_OK);
    assert_int_equal(add(second, "z", &err), LK_E_SHARD_FENCED);
    lk_rollout_writer_read_stats(first, &stats);
    assert_int_equal(stats.epoch, 3);
    assert_int_equal(stats.fenced, 1);
    expect_rows("a | b | c ");
    lk_rollout_writer_free(first);
    lk_rollout_writer_free(second);
    lk_store_close(store);
}

/* A log entry that another writer left, of rows with these ids; without any, a fence. */
static void leave_entry(lk_store *store, uint64_t position, uint64_t epoch, lk_bytes *ids, size_t count)
{
    lk_err           err = {0};
    bool             created = false;
    lk_bytes         entry;
    lk_wal_form      form = {0};
    lk_shared_array *rows = rows_of(ids, count);
    assert_int_equal(lk_wal_encode(&form, &schema, &rows, count > 0 ? 1 : 0, epoch, &entry, &err), LK_OK);
    assert_int_equal(lk_wal_put(store, shard_id(), position, entry, &created, &err), LK_OK);
    assert_true(created);
    lk_shared_array_unref(rows);
    lk_wal_form_deinit(&form);
}

static void a_log_entry_of_a_dead_writer_is_replayed(void **state)
{
    lk_err             err = {0};
    lk_store          *store = open_root();
    lk_lance_env       env = env_of(store);
    lk_rollout_writer *first = writer_on(&env);
    assert_int_equal(add(first, "a", &err), LK_OK);
    lk_bytes ids[] = {LK_LITERAL("l"), LK_LITERAL("m")};
    leave_entry(store, 2, 1, ids, 2);
    lk_rollout_writer *second = writer_on(&env);
    assert_int_equal(add(second, "b", &err), LK_OK);
    expect_rows("a | l m | b ");
    lk_rollout_writer_free(first);
    lk_rollout_writer_free(second);
    lk_store_close(store);
}

/* Rows of many adds that a dead writer acknowledged come to light together, in their order; a fence among them is passed. */
static void log_entries_of_a_dead_writer_become_one_generation(void **state)
{
    static const char *const ids[] = {"l", "m", NULL, "n", "o"};
    lk_err                   err = {0};
    lk_store                *store = open_root();
    lk_lance_env             env = env_of(store);
    lk_rollout_writer       *first = writer_on(&env);
    lk_rollout_writer_stats  stats;
    assert_int_equal(add(first, "a", &err), LK_OK);
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        lk_bytes id = lk_bytes_of(ids[i] == NULL ? "" : ids[i]);
        leave_entry(store, 2 + i, 1, &id, ids[i] != NULL);
    }
    lk_rollout_writer *second = writer_on(&env);
    assert_int_equal(add(second, "b", &err), LK_OK);
    expect_rows("a | l m n o | b ");
    lk_rollout_writer_read_stats(second, &stats);
    assert_int_equal(stats.replayed, 4);
    lk_rollout_writer_free(first);
    lk_rollout_writer_free(second);
    lk_store_close(store);
}

/* What stands before an entry that is cut comes to light; it and what follows wait, and the shard is not written to. */
static void a_damaged_log_entry_hides_none_before_it(void **state)
{
    lk_err             err = {0};
    bool               created = false;
    lk_wal_form        form = {0};
    lk_bytes           entry, l = LK_LITERAL("l"), m = LK_LITERAL("m"), n = LK_LITERAL("n");
    lk_store          *store = open_root();
    lk_lance_env       env = env_of(store);
    lk_rollout_writer *first = writer_on(&env);
    lk_shared_array   *rows = rows_of(&m, 1);
    assert_int_equal(add(first, "a", &err), LK_OK);
    leave_entry(store, 2, 1, &l, 1);
    assert_int_equal(lk_wal_encode(&form, &schema, &rows, 1, 1, &entry, &err), LK_OK);
    entry.size -= 24;
    assert_int_equal(lk_wal_put(store, shard_id(), 3, entry, &created, &err), LK_OK);
    leave_entry(store, 4, 1, &n, 1);
    lk_rollout_writer *second = writer_on(&env);
    assert_int_not_equal(add(second, "b", &err), LK_OK);
    expect_rows("a | l ");
    err = (lk_err){0};
    assert_int_not_equal(add(second, "b", &err), LK_OK);
    expect_rows("a | l ");
    lk_shared_array_unref(rows);
    lk_rollout_writer_free(first);
    lk_rollout_writer_free(second);
    lk_wal_form_deinit(&form);
    lk_store_close(store);
}

static void rows_that_a_fenced_writer_logged_where_our_entry_belongs_are_kept(void **state)
{
    lk_err             err = {0};
    lk_store          *store = open_root();
    lk_lance_env       env = env_of(store);
    lk_rollout_writer *first = writer_on(&env), *second = writer_on(&env);
    assert_int_equal(add(first, "a", &err), LK_OK);
    assert_int_equal(add(second, "b", &err), LK_OK);
    lk_bytes ids[] = {LK_LITERAL("l"), LK_LITERAL("m")};
    leave_entry(store, 3, 1, ids, 2);
    assert_int_equal(add(second, "c", &err), LK_OK);
    assert_int_equal(add(second, "d", &err), LK_OK);
    expect_rows("a | b | c | l m | d ");
    lk_rollout_writer_free(first);
    lk_rollout_writer_free(second);
    lk_store_close(store);
}

static void a_log_entry_of_a_later_epoch_fences(void **state)
{
    lk_err             err = {0};
    lk_store          *store = open_root();
    lk_lance_env       env = env_of(store);
    lk_bytes           id = LK_LITERAL("l");
    lk_rollout_writer *writer = writer_on(&env);
    leave_entry(store, 1, 7, &id, 1);
    assert_int_equal(add(writer, "b", &err), LK_E_SHARD_FENCED);
    expect_rows("");
    lk_rollout_writer_free(writer);
    lk_store_close(store);
}

/* -- many at once ------------------------------------------------------------------------------------------------ */

enum { THREADS = 8, ADDS = 25 };

typedef struct client {
    lk_thread          thread;
    lk_rollout_writer *writer;
    int                number;
    bool               good;
} client;

static void run_client(void *context)
{
    client *c = context;
    c->good = true;
    for (int i = 0; i < ADDS; i++) {
        lk_err err = {0};
        char   ids[64];
        (void)snprintf(ids, sizeof ids, "%d-%d %d-%d", c->number, 2 * i, c->number, 2 * i + 1);
        c->good = c->good && add(c->writer, ids, &err) == LK_OK;
    }
}

static void adds_that_come_together_share_generations(void **state)
{
    client             clients[THREADS] = {0};
    lk_err             err = {0};
    lk_buf             rows = {0};
    lk_store          *store = open_root();
    lk_lance_env       env = env_of(store);
    lk_rollout_writer *writer = writer_on(&env);
    atomic_store(&listed, 0);
    for (int i = 0; i < THREADS; i++) {
        clients[i] = (client){.writer = writer, .number = i};
        assert_int_equal(lk_thread_start(&clients[i].thread, "client", run_client, &clients[i], &err), LK_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        lk_thread_join(&clients[i].thread);
        assert_true(clients[i].good);
    }
    size_t generations = read_all(store, &rows);
    assert_int_equal(generations, atomic_load(&listed));
    assert_true(generations < THREADS * ADDS);
    for (int i = 0; i < THREADS; i++) {
        for (int k = 0; k < ADDS; k++) { /* both rows of an add, side by side */
            char text[64];
            (void)snprintf(text, sizeof text, "%d-%d %d-%d ", i, 2 * k, i, 2 * k + 1);
            assert_non_null(strstr(rows.data, text));
        }
    }
    lk_buf_deinit(&rows);
    lk_rollout_writer_free(writer);
    lk_store_close(store);
}

/* -- faults ------------------------------------------------------------------------------------------------------ */

static int make_root(void **state)
{
    (void)snprintf(root, sizeof root, "%s/lake-writer-XXXXXX", P_tmpdir);
    assert_non_null(mkdtemp(root));
    return 0;
}

static int remove_root(void **state)
{
    lk_err err = {0};
    return lk_directory_remove(root, &err) == LK_OK ? 0 : -1;
}

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        count++;
    }
    return count;
}

static bool round_of(lk_fault kind, int64_t calls_until)
{
    lk_err        err = {0}, again = {0};
    lk_fault_plan plan;
    lk_buf        rows = {0};
    assert_int_equal(make_root(NULL), 0);
    lk_fault_plan_init(&plan);
    lk_store          *plain = open_root(), *faulty = lk_faulty_store_new(open_root(), &plan);
    lk_lance_env       env = env_of(faulty);
    lk_rollout_writer *writer = writer_on(&env);
    assert_int_equal(add(writer, "first ", &err), LK_OK);
    lk_fault_plan_arm(&plan, kind, calls_until);
    lk_rc rc = add(writer, "second ", &err);
    bool  fired = lk_fault_plan_fired(&plan);
    lk_fault_plan_arm(&plan, kind, -1);
    read_all(plain, &rows);
    assert_int_equal(count_of(rows.data, "first "), 1);
    size_t there = count_of(rows.data, "second ");
    assert_true(there == 1 || (there == 0 && rc != LK_OK && fired));
    assert_true(rc == LK_OK || there == 0 || err.maybe_applied);
    assert_int_equal(add(writer, "third ", &again), LK_OK); /* the writer goes on by itself */
    read_all(plain, &rows);
    assert_int_equal(count_of(rows.data, "first "), 1);
    assert_int_equal(count_of(rows.data, "third "), 1);
    assert_true(count_of(rows.data, "second ") <= 1); /* a log entry may bring it back, once */
    lk_rollout_writer_free(writer);
    lk_store_close(faulty);
    lk_store_close(plain);
    lk_fault_plan_deinit(&plan);
    lk_buf_deinit(&rows);
    assert_int_equal(remove_root(NULL), 0);
    return fired;
}

static void a_fault_at_every_store_call_loses_nothing_acknowledged(void **state)
{
    for (lk_fault kind = LK_FAULT_NONE + 1; kind < LK_FAULT_COUNT; kind++) {
        int64_t calls = 0;
        while (round_of(kind, calls)) {
            calls++;
            assert_true(calls < 200);
        }
        assert_true(calls >= 8);
    }
}

/* What it writes lies where a successor tidies. */
static void a_fenced_writer_whose_files_are_gone_says_that_it_is_fenced(void **state)
{
    lk_err        err = {0};
    lk_fault_plan plan;
    lk_fault_plan_init(&plan);
    lk_store          *plain = open_root(), *faulty = lk_faulty_store_new(open_root(), &plan);
    lk_lance_env       env = env_of(plain), env_of_first = env_of(faulty);
    lk_rollout_writer *first = writer_on(&env_of_first), *second = writer_on(&env);
    assert_int_equal(add(first, "a", &err), LK_OK);
    assert_int_equal(add(second, "b", &err), LK_OK);
    lk_fault_plan_arm(&plan, LK_FAULT_DENIED, 2);
    assert_int_equal(add(first, "x", &err), LK_E_SHARD_FENCED);
    assert_true(lk_fault_plan_fired(&plan));
    expect_rows("a | b ");
    lk_rollout_writer_free(first);
    lk_rollout_writer_free(second);
    lk_store_close(faulty);
    lk_store_close(plain);
    lk_fault_plan_deinit(&plan);
}

static int open_schema(void **state)
{
    lk_err   err = {0};
    lk_bytes column = LK_LITERAL("id:utf8");
    return lk_columns_parse(&column, 1, &schema, &err) == LK_OK ? 0 : -1;
}

static int close_schema(void **state)
{
    lk_schema_release(&schema);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_add_is_a_generation_that_anyone_can_read, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_fenced_writer_says_so_and_loses_nothing, make_root, remove_root),
        cmocka_unit_test_setup_teardown(
            a_fenced_writer_takes_its_shard_back_after_a_while, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_log_entry_of_a_dead_writer_is_replayed, make_root, remove_root),
        cmocka_unit_test_setup_teardown(
            log_entries_of_a_dead_writer_become_one_generation, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_damaged_log_entry_hides_none_before_it, make_root, remove_root),
        cmocka_unit_test_setup_teardown(
            rows_that_a_fenced_writer_logged_where_our_entry_belongs_are_kept, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_log_entry_of_a_later_epoch_fences, make_root, remove_root),
        cmocka_unit_test_setup_teardown(adds_that_come_together_share_generations, make_root, remove_root),
        cmocka_unit_test_setup_teardown(
            a_fenced_writer_whose_files_are_gone_says_that_it_is_fenced, make_root, remove_root),
        cmocka_unit_test(a_fault_at_every_store_call_loses_nothing_acknowledged),
    };
    return cmocka_run_group_tests_name("writer", tests, open_schema, close_schema);
}
