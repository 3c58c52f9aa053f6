/*
 * verify_test.c - tables of the reference are whole; with any one byte of them changed nothing crashes, hangs or keeps
 * memory, and what is still called whole has its rows. Each kind of damage has a test in
 * tests/interop/test_lance_verify.py. An argument: every byte, not one in PRIME.
 */
#include "lance/verify.h"

#include "lance/table_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

enum { PRIME = 61, BUDGET_BYTES = 64 << 20 };

static bool every_byte;

typedef struct fixture {
    fixture_scratch scratch;
    lk_store       *store;
    lk_lance_env    env;
    lk_budget       budget;
    lk_arena        arena;
    uint64_t        rows;
} fixture;

static void open_golden(fixture *f, const char *name)
{
    *f = (fixture){0};
    lk_store *golden = fixture_golden(name);
    f->store = fixture_scratch_open(&f->scratch);
    fixture_copy(golden, f->store);
    lk_store_close(golden);
    lk_budget_init(&f->budget, "verify", BUDGET_BYTES, NULL);
    f->env = fixture_env(f->store);
    f->env.budget = &f->budget;
}

static void close_golden(fixture *f)
{
    lk_store_close(f->store);
    fixture_scratch_remove(&f->scratch);
    lk_arena_close(&f->arena);
}

/* Rows that a scan gives; *rc: how it ended. */
static uint64_t scan_rows(fixture *f, lk_rc *rc)
{
    lk_err          err = {0};
    lk_dataset     *dataset = NULL;
    lk_batches     *batches = NULL;
    lk_scan_options options = {.limit = UINT64_MAX};
    uint64_t        rows = 0;
    *rc = lk_dataset_open(&f->env, 0, &dataset, &err);
    if (*rc == LK_OK) {
        *rc = lk_dataset_scan(dataset, &options, &batches, &err);
    }
    while (*rc == LK_OK) {
        struct ArrowArray batch = {0};
        *rc = lk_batches_next(batches, &batch, &err);
        if (*rc != LK_OK || batch.release == NULL) {
            break;
        }
        rows += (uint64_t)batch.length;
        batch.release(&batch);
    }
    lk_batches_close(batches);
    lk_dataset_unref(dataset);
    return rows;
}

/* Whether a table is whole: true or false; the looking itself may fail for a damaged table only. */
static bool is_whole(fixture *f)
{
    lk_err            err = {0};
    lk_verify_report  report = {0};
    lk_verify_options options = {0};
    lk_rc             rc = lk_dataset_verify(&f->env, &options, &report, &err);
    assert_int_equal(f->budget.used_bytes, 0);
    return rc == LK_OK && report.damages == 0;
}

static void check_change(fixture *f, int file, off_t at, unsigned char bits)
{
    unsigned char byte = 0;
    lk_rc         rc = LK_OK;
    assert_int_equal(pread(file, &byte, 1, at), 1);
    byte ^= bits;
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    bool     whole = is_whole(f);
    uint64_t rows = scan_rows(f, &rc);
    if (whole) {
        assert_int_equal(rc, LK_OK);
        assert_int_equal(rows, f->rows);
    }
    byte ^= bits;
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
}

static void change_file(fixture *f, const char *path, size_t *turn)
{
    int   file = open(path, O_RDWR);
    off_t size = file < 0 ? 0 : lseek(file, 0, SEEK_END);
    assert_true(file >= 0);
    for (off_t at = 0; at < size; at++) {
        if (every_byte || (*turn)++ % PRIME == 0) {
            check_change(f, file, at, (unsigned char)(1U << at % 8));
        }
    }
    (void)close(file);
}

static void change_directory(fixture *f, lk_bytes directory, size_t *turn)
{
    lk_err          err = {0};
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    assert_int_equal(lk_store_list(f->store, directory, &f->arena, &entries, &count, &err), LK_OK);
    for (size_t i = 0; i < count; i++) {
        lk_bytes key = lk_arena_format(&f->arena, "%.*s%s%.*s", LK_FMT(directory),
            directory.size > 0 ? "/" : "", LK_FMT(entries[i].name));
        if (entries[i].is_directory) {
            change_directory(f, key, turn);
        } else {
            change_file(f, lk_arena_format(&f->arena, "%s/%.*s", f->scratch.path, LK_FMT(key)).data, turn);
        }
    }
}

static void change_every_byte(const char *name)
{
    fixture f;
    lk_rc   rc = LK_OK;
    size_t  turn = 0;
    open_golden(&f, name);
    assert_true(is_whole(&f));
    f.rows = scan_rows(&f, &rc);
    assert_int_equal(rc, LK_OK);
    change_directory(&f, LK_LITERAL(""), &turn);
    assert_true(is_whole(&f));
    close_golden(&f);
}

static void a_changed_byte_of_a_table_with_a_history_does_no_harm(void **state)
{
    change_every_byte("lifecycle_2.1");
}

static void a_changed_byte_of_files_of_2_0_does_no_harm(void **state)
{
    change_every_byte("every_2.0");
}

static void a_changed_byte_of_an_old_table_does_no_harm(void **state)
{
    change_every_byte("v1_manifest_names");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_changed_byte_of_a_table_with_a_history_does_no_harm),
        cmocka_unit_test(a_changed_byte_of_files_of_2_0_does_no_harm),
        cmocka_unit_test(a_changed_byte_of_an_old_table_does_no_harm),
    };
    (void)argv;
    every_byte = argc > 1;
    return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
