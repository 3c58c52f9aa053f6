/*
 * meta_test.c - a whole metadata node with its threads (LK_TSAN): concurrent appends through the authority,
 * who may do what, a follower, and handing the lead over by closing.
 */
#include "meta/meta.h"

#include "base/limits.h"
#include "base/uuid.h"
#include "engine/mem_engine.h"
#include "engine/mem_rows.h"
#include "kv/mem.h"
#include "meta/lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const lk_table_ref table = {{"ns", 2}, {"t", 1}};
static const char         digest_a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
static const char         digest_b[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

static lk_bytes           granted[] = {{"ns", 2}};
static const lk_principal admin = {.id = {"root", 4}, .tenant = {"acme", 4}, .role = LK_ROLE_ADMIN};
static const lk_principal user = {
    .id = {"u", 1}, .tenant = {"acme", 4}, .role = LK_ROLE_USER, .namespaces = granted, .namespace_count = 1};
static const lk_principal stranger = {.id = {"s", 1}, .tenant = {"evil", 4}, .role = LK_ROLE_USER};
static const lk_principal service = {.id = {"q", 1}, .tenant = {"none", 4}, .role = LK_ROLE_QUERY_SERVICE};

typedef struct fixture {
    lk_kv       *kv;
    lk_mem_disk *disk;
    lk_engine   *engine;
    lk_meta     *meta;
    lk_arena     arena;
    lk_err       err;
} fixture;

static lk_meta *open_node(fixture *f, bool sole_owner)
{
    lk_meta              *meta = NULL;
    const lk_meta_options options = {.kv = f->kv,
        .engine = f->engine,
        .clock = lk_clock_real(),
        .random = lk_random_os(),
        .tables_root = LK_LITERAL("/tables/"),
        .sole_owner = sole_owner,
        .append_queue_timeout_ms = 20000};
    assert_int_equal(lk_meta_open(&meta, &options, &f->err), LK_OK);
    return meta;
}

static uint64_t in_ms(uint64_t ms)
{
    return lk_clock_monotonic_ms(lk_clock_real()) + ms;
}

static fixture *open_fixture(void)
{
    fixture           *f = calloc(1, sizeof *f);
    struct ArrowSchema schema;
    f->kv = lk_kv_mem_open(NULL);
    f->disk = lk_mem_disk_new();
    const lk_mem_engine_options options = {
        .kv = f->kv, .disk = f->disk, .clock = lk_clock_real(), .random = lk_random_os()};
    assert_int_equal(lk_mem_engine_open(&f->engine, &options, &f->err), LK_OK);
    f->meta = open_node(f, true);
    assert_int_equal(lk_meta_wait_ready(f->meta, in_ms(10000), &f->err), LK_OK);
    lk_mem_rows_schema(&schema);
    lk_authority *a = lk_meta_authority(f->meta);
    assert_int_equal(a->ops->create_table(a, &admin, table, &schema, &f->err), LK_OK);
    lk_schema_release(&schema);
    return f;
}

static void close_fixture(fixture *f)
{
    lk_meta_close(f->meta);
    f->engine->ops->close(f->engine);
    lk_kv_close(f->kv);
    lk_mem_disk_free(f->disk);
    lk_arena_close(&f->arena);
    free(f);
}

static lk_bytes fresh_id(fixture *f)
{
    char text[LK_UUID_TEXT_SIZE + 1];
    lk_uuid_format(lk_uuid_v7(lk_clock_real(), lk_random_os()), text);
    return lk_arena_copy(&f->arena, lk_bytes_of(text));
}

static lk_rc append(lk_meta *meta, const lk_principal *who, lk_bytes id, const char *digest, int64_t first,
    uint64_t *version, lk_err *err)
{
    lk_authority           *a = lk_meta_authority(meta);
    lk_batches             *rows = lk_mem_rows_open(first, 1, 1);
    const lk_append_command command = {table, id, lk_bytes_of(digest)};
    lk_rc                   rc = a->ops->append(a, who, &command, rows, NULL, version, err);
    lk_batches_close(rows);
    return rc;
}

static uint64_t published(fixture *f, lk_meta *meta)
{
    lk_registration r;
    lk_authority   *a = lk_meta_authority(meta);
    assert_int_equal(a->ops->resolve(a, &admin, table, &f->arena, &r, &f->err), LK_OK);
    return r.version;
}

/* -- concurrency --------------------------------------------------------------------------------------- */
enum { WRITERS = 8, EACH = 5 };

typedef struct writer {
    lk_meta *meta;
    lk_bytes id[EACH];
    int64_t  first;
    uint64_t version[EACH];
    lk_rc    rc;
} writer;

static void write_all(void *context)
{
    writer *w = context;
    for (int i = 0; w->rc == LK_OK && i < EACH; i++) {
        lk_err err = {0};
        w->rc = append(w->meta, &admin, w->id[i], digest_a, w->first, &w->version[i], &err);
    }
}

static void run_writers(fixture *f, writer *writers)
{
    lk_thread threads[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(lk_thread_start(&threads[i], "writer", write_all, &writers[i], &f->err), LK_OK);
    }
    for (int i = 0; i < WRITERS; i++) {
        lk_thread_join(&threads[i]);
        assert_int_equal(writers[i].rc, LK_OK);
    }
}

static void concurrent_repeats_of_one_operation_make_one_version(void **state)
{
    (void)state;
    fixture *f = open_fixture();
    writer   writers[WRITERS];
    lk_bytes id = fresh_id(f);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (writer){.meta = f->meta, .id = {id, id, id, id, id}, .first = 7};
    }
    run_writers(f, writers);
    for (int i = 0; i < WRITERS * EACH; i++) {
        assert_int_equal(writers[i / EACH].version[i % EACH], 2);
    }
    assert_int_equal(published(f, f->meta), 2);
    uint64_t version = 0;
    lk_err   err = {0};
    assert_int_equal(append(f->meta, &admin, id, digest_b, 8, &version, &err), LK_E_OPERATION_CONFLICT);
    close_fixture(f);
}

static void concurrent_operations_get_a_version_each(void **state)
{
    (void)state;
    fixture *f = open_fixture();
    writer   writers[WRITERS];
    bool     seen[2 + WRITERS * EACH] = {false};
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (writer){.meta = f->meta, .first = i};
        for (int k = 0; k < EACH; k++) {
            writers[i].id[k] = fresh_id(f);
        }
    }
    run_writers(f, writers);
    for (int i = 0; i < WRITERS * EACH; i++) {
        uint64_t version = writers[i / EACH].version[i % EACH];
        assert_in_range(version, 2, 1 + WRITERS * EACH);
        assert_false(seen[version]);
        seen[version] = true;
    }
    assert_int_equal(published(f, f->meta), 1 + WRITERS * EACH);
    close_fixture(f);
}

static void a_closed_node_resigned_so_the_next_one_leads_at_once(void **state)
{
    (void)state;
    fixture *f = open_fixture();
    uint64_t version = published(f, f->meta);
    lk_meta_close(f->meta);
    f->meta = open_node(f, false); /* no wait of a TTL: the first one resigned */
    assert_int_equal(lk_meta_wait_ready(f->meta, in_ms(5000), &f->err), LK_OK);
    assert_int_equal(published(f, f->meta), version);
    lk_meta_status status;
    lk_meta_status_get(f->meta, &status);
    assert_int_equal(status.epoch, 2);
    close_fixture(f);
}

static void a_second_node_follows_and_refuses_writes_but_reads(void **state)
{
    (void)state;
    fixture *f = open_fixture();
    lk_meta *second = open_node(f, false);
    uint64_t version = 0;
    lk_err   err = {0};
    assert_int_equal(lk_meta_wait_ready(second, in_ms(5000), &f->err), LK_OK); /* it knows a leader */
    lk_meta_status status;
    lk_meta_status_get(second, &status);
    assert_false(status.leader);
    assert_int_equal(append(second, &admin, fresh_id(f), digest_a, 1, &version, &err), LK_E_NOT_LEADER);
    assert_int_equal(published(f, second), 1);
    lk_meta_close(second);
    close_fixture(f);
}

/* -- authorization ------------------------------------------------------------------------------------- */
static void who_may_do_what(void **state)
{
    (void)state;
    fixture           *f = open_fixture();
    lk_authority      *a = lk_meta_authority(f->meta);
    const lk_table_ref hidden = {{"other", 5}, {"t", 1}}, none = {{"ns", 2}, {"none", 4}};
    struct ArrowSchema schema;
    lk_registration    r;
    lk_name_page       page;
    uint64_t           version = 0;
    lk_err             e = {0};
    lk_mem_rows_schema(&schema);
    assert_int_equal(a->ops->create_table(a, &admin, hidden, &schema, &e), LK_OK);
    /* A user: the granted namespace only; what is hidden and what is absent look the same. */
    assert_int_equal(append(f->meta, &user, fresh_id(f), digest_a, 1, &version, &e), LK_OK);
    assert_int_equal(a->ops->resolve(a, &user, none, &f->arena, &r, &e), LK_E_TABLE_NOT_FOUND);
    assert_int_equal(a->ops->resolve(a, &user, hidden, &f->arena, &r, &e), LK_E_DENIED);
    const lk_table_ref absent = {{"other", 5}, {"none", 4}};
    assert_int_equal(a->ops->resolve(a, &user, absent, &f->arena, &r, &e), LK_E_DENIED);
    assert_int_equal(a->ops->create_table(a, &user, absent, &schema, &e), LK_E_DENIED);
    assert_int_equal(a->ops->drop_table(a, &user, hidden, &e), LK_E_DENIED);
    assert_int_equal(
        a->ops->list_tables(a, &user, hidden.ns, (lk_bytes){0}, 10, &f->arena, &page, &e), LK_E_DENIED);
    assert_int_equal(append(f->meta, &stranger, fresh_id(f), digest_a, 1, &version, &e), LK_E_DENIED);
    /* A query service may read everything to fill its cache, and write nothing by itself. */
    assert_int_equal(a->ops->resolve(a, &service, hidden, &f->arena, &r, &e), LK_OK);
    assert_int_equal(a->ops->drop_table(a, &service, hidden, &e), LK_E_DENIED);
    assert_int_equal(append(f->meta, &service, fresh_id(f), digest_a, 1, &version, &e), LK_E_DENIED);
    /* Namespaces: a user's grants; all for an admin. */
    assert_int_equal(a->ops->list_namespaces(a, &user, (lk_bytes){0}, 10, &f->arena, &page, &e), LK_OK);
    assert_int_equal(page.count, 1);
    assert_int_equal(a->ops->list_namespaces(a, &admin, (lk_bytes){0}, 10, &f->arena, &page, &e), LK_OK);
    assert_int_equal(page.count, 2);
    lk_schema_release(&schema);
    close_fixture(f);
}

static void a_users_namespaces_are_paged_in_order(void **state)
{
    (void)state;
    fixture      *f = open_fixture();
    lk_authority *a = lk_meta_authority(f->meta);
    lk_bytes grants[] = {LK_LITERAL("a"), LK_LITERAL("b"), LK_LITERAL("c"), LK_LITERAL("d"), LK_LITERAL("e")};
    const lk_principal many = {
        .id = {"m", 1}, .tenant = {"acme", 4}, .namespaces = grants, .namespace_count = 5};
    lk_bytes after = {0};
    size_t   seen = 0;
    do {
        lk_name_page page;
        assert_int_equal(a->ops->list_namespaces(a, &many, after, 2, &f->arena, &page, &f->err), LK_OK);
        for (size_t i = 0; i < page.count; i++) {
            assert_true(lk_bytes_equal(page.names[i], grants[seen++]));
        }
        after = page.continuation;
    } while (after.size > 0);
    assert_int_equal(seen, 5);
    close_fixture(f);
}

static void names_and_ids_are_checked_at_the_door(void **state)
{
    (void)state;
    fixture           *f = open_fixture();
    lk_authority      *a = lk_meta_authority(f->meta);
    const lk_table_ref dotted = {{"n.s", 3}, {"t", 1}};
    struct ArrowSchema schema;
    uint64_t           version = 0;
    lk_err             e = {0};
    lk_mem_rows_schema(&schema);
    assert_int_equal(a->ops->create_table(a, &admin, dotted, &schema, &e), LK_E_INVALID_IDENTIFIER);
    lk_bytes v4 = LK_LITERAL("0197f0f4-7b2a-4000-8000-0000000000ab");
    assert_int_equal(append(f->meta, &admin, v4, digest_a, 1, &version, &e), LK_E_INVALID_REQUEST);
    assert_int_not_equal(append(f->meta, &admin, fresh_id(f), "AAAA", 1, &version, &e), LK_OK);
    assert_int_equal(published(f, f->meta), 1);
    lk_schema_release(&schema);
    close_fixture(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(concurrent_repeats_of_one_operation_make_one_version),
        cmocka_unit_test(concurrent_operations_get_a_version_each),
        cmocka_unit_test(a_closed_node_resigned_so_the_next_one_leads_at_once),
        cmocka_unit_test(a_second_node_follows_and_refuses_writes_but_reads),
        cmocka_unit_test(who_may_do_what),
        cmocka_unit_test(a_users_namespaces_are_paged_in_order),
        cmocka_unit_test(names_and_ids_are_checked_at_the_door),
    };
    return cmocka_run_group_tests_name("meta", tests, NULL, NULL);
}
