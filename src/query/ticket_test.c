/* ticket_test.c - a ticket opens for its owner, unchanged and in time, and for nobody else. */
#include "query/ticket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const lk_principal alice = {.id = {"alice", 5}, .tenant = {"lab", 3}, .role = LK_ROLE_ADMIN};
static const lk_principal bob = {.id = {"bob", 3}, .tenant = {"lab", 3}, .role = LK_ROLE_ADMIN};
static const lk_principal other_tenant = {.id = {"alice", 5}, .tenant = {"mill", 4}, .role = LK_ROLE_ADMIN};

typedef struct fixture {
    lk_ticket_keys *keys;
    lk_manual_clock clock;
    lk_arena        arena;
    lk_buf          sealed;
    lk_err          err;
} fixture;

static const lk_ticket_table tables[] = {
    {{"a", 1}, {"t", 1}, {"lance", 5}, {"/data/a/t/1.lance", 17}, {"i1", 2}, 7},
    {{"a", 1}, {"u", 1}, {"lance", 5}, {"/data/a/u/1.lance", 17}, {"i2", 2}, 1},
};
static const lk_ticket ticket = {.sql = {"SELECT secret FROM a.t", 22}, .tables = tables, .table_count = 2};

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    lk_manual_clock_init(&f->clock, 1764492300000u);
    assert_int_equal(lk_ticket_keys_open(&f->keys, NULL, lk_random_os(), &f->err), LK_OK);
    lk_ticket_seal(f->keys, LK_AUDIENCE_STATEMENT, &alice, &ticket, &f->clock.base, 300, &f->sealed);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    lk_ticket_keys_close(f->keys);
    lk_arena_close(&f->arena);
    lk_buf_deinit(&f->sealed);
    free(f);
    return 0;
}

static lk_rc open_as(fixture *f, const lk_principal *who, lk_bytes sealed, lk_ticket *out)
{
    return lk_ticket_open(
        f->keys, LK_AUDIENCE_STATEMENT, who, sealed, &f->clock.base, &f->arena, out, &f->err);
}

static void the_owner_gets_everything_back(void **state)
{
    fixture  *f = *state;
    lk_ticket out = {0};
    assert_int_equal(open_as(f, &alice, lk_buf_view(&f->sealed), &out), LK_OK);
    assert_true(lk_bytes_equal(out.sql, ticket.sql));
    assert_int_equal(out.table_count, 2);
    assert_int_equal(out.tables[0].version, 7);
    assert_true(lk_bytes_equal(out.tables[1].location, tables[1].location));
    assert_int_equal(out.expires_at_secs - out.issued_at_secs, 300);
}

static void nothing_in_it_can_be_read(void **state)
{
    fixture *f = *state;
    assert_null(memmem(f->sealed.data, f->sealed.size, "secret", 6));
    assert_null(memmem(f->sealed.data, f->sealed.size, "/data", 5));
    assert_null(memmem(f->sealed.data, f->sealed.size, "alice", 5));
}

static void another_caller_is_refused(void **state)
{
    fixture  *f = *state;
    lk_ticket out = {0};
    assert_int_equal(open_as(f, &bob, lk_buf_view(&f->sealed), &out), LK_E_INVALID_TICKET);
    assert_int_equal(open_as(f, &other_tenant, lk_buf_view(&f->sealed), &out), LK_E_INVALID_TICKET);
}

static void every_flipped_bit_is_refused(void **state)
{
    fixture  *f = *state;
    lk_ticket out = {0};
    for (size_t bit = 0; bit < f->sealed.size * 8; bit++) {
        f->sealed.data[bit / 8] = (char)(f->sealed.data[bit / 8] ^ (1 << bit % 8));
        assert_int_equal(open_as(f, &alice, lk_buf_view(&f->sealed), &out), LK_E_INVALID_TICKET);
        f->sealed.data[bit / 8] = (char)(f->sealed.data[bit / 8] ^ (1 << bit % 8));
    }
}

static void every_truncation_is_refused(void **state)
{
    fixture  *f = *state;
    lk_ticket out = {0};
    for (size_t size = 0; size < f->sealed.size; size++) {
        char *copy = malloc(size + 1); /* its own block, so that ASan sees a read past the end */
        memcpy(copy, f->sealed.data, size);
        assert_int_equal(open_as(f, &alice, (lk_bytes){copy, size}, &out), LK_E_INVALID_TICKET);
        free(copy);
    }
}

static void it_expires(void **state)
{
    fixture  *f = *state;
    lk_ticket out = {0};
    f->clock.wall_ms += 299999;
    assert_int_equal(open_as(f, &alice, lk_buf_view(&f->sealed), &out), LK_OK);
    f->clock.wall_ms += 1;
    assert_int_equal(open_as(f, &alice, lk_buf_view(&f->sealed), &out), LK_E_INVALID_TICKET);
}

static void one_from_the_future_is_refused_beyond_the_skew(void **state)
{
    fixture  *f = *state;
    lk_ticket out = {0};
    f->clock.wall_ms -= 30000;
    assert_int_equal(open_as(f, &alice, lk_buf_view(&f->sealed), &out), LK_OK);
    f->clock.wall_ms -= 1000;
    assert_int_equal(open_as(f, &alice, lk_buf_view(&f->sealed), &out), LK_E_INVALID_TICKET);
}

static void a_prepared_handle_is_not_a_statement_ticket(void **state)
{
    fixture  *f = *state;
    lk_ticket out = {0};
    lk_buf    handle = {0};
    lk_ticket_seal(f->keys, LK_AUDIENCE_PREPARED, &alice, &ticket, &f->clock.base, 300, &handle);
    assert_int_equal(open_as(f, &alice, lk_buf_view(&handle), &out), LK_E_INVALID_TICKET);
    assert_int_equal(lk_ticket_open(f->keys, LK_AUDIENCE_PREPARED, &alice, lk_buf_view(&handle),
                         &f->clock.base, &f->arena, &out, &f->err),
        LK_OK);
    lk_buf_deinit(&handle);
}

static void unsorted_or_repeated_tables_are_refused(void **state)
{
    fixture                     *f = *state;
    lk_ticket                    out = {0};
    const lk_ticket_table        swapped[] = {tables[1], tables[0]}, repeated[] = {tables[0], tables[0]};
    const lk_ticket_table *const bad[] = {swapped, repeated};
    for (size_t i = 0; i < 2; i++) {
        lk_ticket t = {.sql = ticket.sql, .tables = bad[i], .table_count = 2};
        lk_buf    sealed = {0};
        lk_ticket_seal(f->keys, LK_AUDIENCE_STATEMENT, &alice, &t, &f->clock.base, 300, &sealed);
        assert_int_equal(open_as(f, &alice, lk_buf_view(&sealed), &out), LK_E_INVALID_TICKET);
        lk_buf_deinit(&sealed);
    }
}

static void write_ring(const char *path, const char *text, unsigned mode)
{
    (void)unlink(path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

static void a_ring_rotates_and_bad_rings_are_refused(void **state)
{
    fixture *f = *state;
    char     path[] = "/tmp/lake-ring-XXXXXX";
    (void)close(mkstemp(path));
    const char *const a = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", *const b = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    lk_ticket_keys *old = NULL, *new = NULL, *none = NULL;
    lk_buf          text = {0}, sealed = {0};
    lk_ticket       out = {0};

    lk_buf_format(&text, "{\"active\":\"%s\"}", a);
    write_ring(path, text.data, 0600);
    assert_int_equal(lk_ticket_keys_open(&old, path, lk_random_os(), &f->err), LK_OK);
    lk_ticket_seal(old, LK_AUDIENCE_STATEMENT, &alice, &ticket, &f->clock.base, 300, &sealed);

    lk_buf_clear(&text);
    lk_buf_format(&text, "{\"active\":\"%s\",\"verification\":[\"%s\"]}", b, a);
    write_ring(path, text.data, 0600);
    assert_int_equal(lk_ticket_keys_open(&new, path, lk_random_os(), &f->err), LK_OK);
    assert_int_equal(lk_ticket_open(new, LK_AUDIENCE_STATEMENT, &alice, lk_buf_view(&sealed), &f->clock.base,
                         &f->arena, &out, &f->err),
        LK_OK);
    write_ring(path, text.data, 0644);
    assert_int_equal(lk_ticket_keys_open(&none, path, lk_random_os(), &f->err), LK_E_INVALID_CONFIG);
    static const char *const bad[] = {"{\"active\":\"short\"}", "{}", "{\"active\":1}",
        "{\"active\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"verification\":["
        "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"]}",
        "{\"active\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\",\"more\":1}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_ring(path, bad[i], 0600);
        assert_int_equal(lk_ticket_keys_open(&none, path, lk_random_os(), &f->err), LK_E_INVALID_CONFIG);
    }
    (void)unlink(path);
    lk_ticket_keys_close(old);
    lk_ticket_keys_close(new);
    lk_buf_deinit(&text);
    lk_buf_deinit(&sealed);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(the_owner_gets_everything_back),
        T(nothing_in_it_can_be_read),
        T(another_caller_is_refused),
        T(every_flipped_bit_is_refused),
        T(every_truncation_is_refused),
        T(it_expires),
        T(one_from_the_future_is_refused_beyond_the_skew),
        T(a_prepared_handle_is_not_a_statement_ticket),
        T(unsorted_or_repeated_tables_are_refused),
        T(a_ring_rotates_and_bad_rings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
