/*
 * concurrent_test.c - two readers hold version N of a Lance table while a writer commits N+1 ... N+50, and others open
 * whatever is newest (LK_TSAN): everybody sees the rows of the version asked for, to the end.
 */
#include "base/file.h"
#include "engine/lance_engine.h"
#include "engine/mem_rows.h"
#include "kv/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define INCARNATION LK_LITERAL("0197f0f4-7b2a-7000-8000-0000000000aa")
#define LOCATION    LK_LITERAL("ns/t/x.lance")

enum { PINNED = 2, COMMITS = 50, ROWS = 10, READERS = 2, FOLLOWERS = 2 };

typedef struct shared {
    lk_kv               *kv;
    lk_engine           *engine;
    atomic_uint_fast64_t head; /* acknowledged */
    atomic_bool          done;
    atomic_int           wrong;
} shared;

static lk_rc append(shared *s, uint64_t base)
{
    char                    id[32];
    lk_err                  err = {0};
    uint64_t                version = 0;
    lk_batches             *rows = lk_mem_rows_open((int64_t)(base - 1) * ROWS, ROWS, ROWS);
    const lk_append_request request = {.at = {LOCATION, INCARNATION, base},
        .tenant = LK_LITERAL("acme"),
        .operation_id = lk_bytes_of(id),
        .payload_sha256 = LK_LITERAL("d"),
        .rows = rows};
    snprintf(id, sizeof id, "op%llu", (unsigned long long)base);
    lk_rc rc = s->engine->ops->append(s->engine, &request, &version, &err);
    lk_batches_close(rows);
    return rc;
}

/* Version v holds the ids 0 .. (v - 1) * ROWS - 1. */
static bool holds_its_rows(lk_table_snapshot *snapshot, uint64_t version)
{
    const lk_scan_options all = {.limit = UINT64_MAX};
    lk_batches           *batches = NULL;
    lk_err                err = {0};
    uint64_t              rows = 0;
    int64_t               sum = 0, count = (int64_t)(version - 1) * ROWS;
    return snapshot->ops->scan(snapshot, &all, &batches, &err) == LK_OK &&
           lk_mem_rows_sum(batches, &rows, &sum, &err) == LK_OK && rows == (uint64_t)count &&
           sum == count * (count - 1) / 2;
}

static lk_table_snapshot *open_at(shared *s, uint64_t version)
{
    lk_table_snapshot *snapshot = NULL;
    lk_err             err = {0};
    const lk_table_at  at = {LOCATION, INCARNATION, version};
    return s->engine->ops->open(s->engine, at, &snapshot, &err) == LK_OK ? snapshot : NULL;
}

static void hold(void *context)
{
    shared            *s = context;
    lk_table_snapshot *snapshot = open_at(s, PINNED);
    bool               right = snapshot != NULL;
    while (right && !atomic_load(&s->done)) {
        right = holds_its_rows(snapshot, PINNED);
    }
    right = right && holds_its_rows(snapshot, PINNED);
    atomic_fetch_add(&s->wrong, !right);
    lk_table_snapshot_unref(snapshot);
}

static void follow(void *context)
{
    shared *s = context;
    for (bool last = false; !last;) {
        last = atomic_load(&s->done);
        uint64_t           version = atomic_load(&s->head);
        lk_table_snapshot *snapshot = open_at(s, version);
        atomic_fetch_add(&s->wrong, snapshot == NULL || !holds_its_rows(snapshot, version));
        lk_table_snapshot_unref(snapshot);
    }
}

static void write_versions(void *context)
{
    shared *s = context;
    for (uint64_t base = PINNED; base < PINNED + COMMITS; base++) {
        if (append(s, base) != LK_OK) {
            atomic_fetch_add(&s->wrong, 1);
            break;
        }
        atomic_store(&s->head, base + 1);
    }
    atomic_store(&s->done, true);
}

static void readers_keep_their_version_while_a_writer_commits(void **state)
{
    (void)state;
    shared             s = {0};
    char               root[64];
    lk_err             err = {0};
    lk_pool           *pool = NULL;
    struct ArrowSchema schema;
    uint64_t           version = 0;
    lk_thread          threads[1 + READERS + FOLLOWERS];
    snprintf(root, sizeof root, "/tmp/lake-engine-XXXXXX");
    assert_non_null(mkdtemp(root));
    s.kv = lk_kv_mem_open(NULL);
    assert_int_equal(lk_pool_open(&pool, "scan", 2, 64, &err), LK_OK);
    const lk_lance_engine_options options = {.kv = s.kv,
        .clock = lk_clock_real(),
        .random = lk_random_os(),
        .pool = pool,
        .root = lk_bytes_of(root)};
    assert_int_equal(lk_lance_engine_open(&s.engine, &options, &err), LK_OK);
    lk_mem_rows_schema(&schema);
    const lk_create_request create = {.location = LOCATION, .incarnation = INCARNATION, .schema = &schema};
    assert_int_equal(s.engine->ops->create(s.engine, &create, &version, &err), LK_OK);
    lk_schema_release(&schema);
    assert_int_equal(append(&s, 1), LK_OK);
    atomic_store(&s.head, PINNED);

    assert_int_equal(lk_thread_start(&threads[0], "write", write_versions, &s, &err), LK_OK);
    for (int i = 0; i < READERS; i++) {
        assert_int_equal(lk_thread_start(&threads[1 + i], "hold", hold, &s, &err), LK_OK);
    }
    for (int i = 0; i < FOLLOWERS; i++) {
        assert_int_equal(lk_thread_start(&threads[1 + READERS + i], "follow", follow, &s, &err), LK_OK);
    }
    for (int i = 0; i < 1 + READERS + FOLLOWERS; i++) {
        lk_thread_join(&threads[i]);
    }
    assert_int_equal(atomic_load(&s.wrong), 0);
    assert_int_equal(atomic_load(&s.head), PINNED + COMMITS);
    s.engine->ops->close(s.engine);
    lk_pool_close(pool);
    lk_kv_close(s.kv);
    assert_int_equal(lk_directory_remove(root, &err), LK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(readers_keep_their_version_while_a_writer_commits)};
    return cmocka_run_group_tests_name("concurrent", tests, NULL, NULL);
}
