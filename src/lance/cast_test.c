/* cast_test.c - columns that get another type or computed values: deleted rows, others' commits meanwhile, faults at every
 * step. (That pylance reads them: tests/interop.) */
#include "arrow/schema.h"
#include "lance/alter.h"
#include "lance/fault_fixture.h"
#include "lance/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static lk_rc cast_id(const lk_lance_env *env, lk_committer *committer, const char *type, lk_err *err)
{
    lk_dataset *base = NULL, *next = NULL;
    lk_rc       rc = lk_dataset_open(env, 0, &base, err);
    if (rc == LK_OK) {
        rc = lk_dataset_cast_column(base, committer, LK_LITERAL("id"), lk_bytes_of(type), NULL, &next, err);
    }
    lk_dataset_unref(next);
    lk_dataset_unref(base);
    return rc;
}

/* The sum of the newest version's int32 ids, how many there are, and that each still stands beside its name. */
static void expect_int32_ids(const lk_lance_env *env, int64_t count, int64_t sum)
{
    lk_err          err = {0};
    lk_dataset     *latest = fixture_open(env, 0);
    lk_batches     *rows = NULL;
    lk_scan_options options = {.limit = UINT64_MAX};
    int64_t         seen = 0, total = 0;
    assert_string_equal(lk_dataset_schema(latest)->children[0]->format, "i");
    assert_int_equal(lk_dataset_scan(latest, &options, &rows, &err), LK_OK);
    for (;;) {
        struct ArrowArray batch = {0};
        assert_int_equal(lk_batches_next(rows, &batch, &err), LK_OK);
        if (batch.release == NULL) {
            break;
        }
        const struct ArrowArray *ids = batch.children[0], *names = batch.children[1];
        for (int64_t i = 0; i < batch.length; i++) {
            int64_t        at = names->offset + batch.offset + i;
            int32_t        id = ((const int32_t *)ids->buffers[1])[ids->offset + batch.offset + i];
            const int32_t *ends = names->buffers[1];
            char           name[24];
            int            size = snprintf(name, sizeof name, "n%d", id);
            if (id % 5 != 3) {
                assert_int_equal(ends[at + 1] - ends[at], size);
                assert_memory_equal((const char *)names->buffers[2] + ends[at], name, (size_t)size);
            }
            total += id;
            seen++;
        }
        lk_array_release(&batch);
    }
    assert_int_equal(seen, count);
    assert_int_equal(total, sum);
    lk_batches_close(rows);
    lk_dataset_unref(latest);
}

static void delete_rows(const lk_lance_env *env, uint64_t fragment, uint64_t first, uint64_t count)
{
    lk_err      err = {0};
    lk_dataset *base = fixture_open(env, 0), *next = NULL;
    lk_row_set *rows = lk_row_set_new();
    for (uint64_t i = first; i < first + count; i++) {
        uint64_t address = fragment << 32 | i;
        lk_row_set_add(rows, &address, 1);
    }
    assert_int_equal(
        lk_dataset_delete_rows(base, lk_direct_committer(), rows, (lk_bytes){0}, NULL, NULL, &next, &err),
        LK_OK);
    lk_row_set_free(rows);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
}

static void every_row_is_converted_and_deleted_ones_have_a_stand_in(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    fixture_table(&env, 0, 10, 4);
    delete_rows(&env, 0, 0, 3); /* in front, in the middle, at the end: id is never null */
    delete_rows(&env, 1, 4, 2);
    delete_rows(&env, 2, 7, 3);
    assert_int_equal(cast_id(&env, lk_direct_committer(), "int32", &err), LK_OK);
    expect_int32_ids(&env, 32, 780 - (0 + 1 + 2) - (14 + 15) - (27 + 28 + 29));
    assert_int_equal(fixture_count(store, "data"), 8);
    lk_dataset *latest = fixture_open(&env, 0);
    assert_int_equal(lk_dataset_manifest(latest)->fragments[0].file_count, 2);
    assert_int_equal(lk_dataset_manifest(latest)->schema->fields[0].id, 2); /* an id that no file had */
    lk_dataset_unref(latest);
    lk_buf old = fixture_ids(&env, 5);
    assert_int_equal(old.size / sizeof(int64_t), 40);
    lk_buf_deinit(&old);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void what_cannot_be_converted_changes_nothing(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    fixture_table(&env, 0, 300, 1);
    static const struct {
        const char *type;
        lk_rc       rc;
    } cases[] = {{"int8", LK_E_SCHEMA_MISMATCH}, {"list<int8>", LK_E_SCHEMA_MISMATCH},
        {"no_type", LK_E_INVALID_SCHEMA}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_err err = {0};
        assert_int_equal(cast_id(&env, lk_direct_committer(), cases[i].type, &err), cases[i].rc);
    }
    assert_int_equal(fixture_count(store, "data"), 1);
    assert_int_equal(fixture_count(store, "_transactions"), 2);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- others at the same time ------------------------------------------------------------------------------------- */

/* A committer with an accident: just before its first commit, somebody else does something. */
typedef struct interfering {
    lk_committer        base;
    const lk_lance_env *env;
    bool                done;
    void (*act)(const lk_lance_env *env);
} interfering;

static lk_rc interfere_and_commit(lk_committer *committer, lk_store *store, uint64_t version, lk_bytes key,
    lk_bytes manifest, bool *won, lk_err *err)
{
    interfering *self = (interfering *)committer;
    if (!self->done) {
        self->done = true;
        self->act(self->env);
    }
    return lk_direct_committer()->commit(lk_direct_committer(), store, version, key, manifest, won, err);
}

static void append_ten(const lk_lance_env *env)
{
    lk_err      err = {0};
    lk_dataset *base = fixture_open(env, 0), *next = NULL;
    lk_batches *rows = fixture_rows(20, 10, 1);
    assert_int_equal(lk_dataset_append(base, lk_direct_committer(), rows, NULL, &next, &err), LK_OK);
    lk_batches_close(rows);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
}

static void delete_two(const lk_lance_env *env)
{
    delete_rows(env, 0, 4, 2);
}

static void compact_all(const lk_lance_env *env)
{
    lk_err            err = {0};
    lk_compact_report report;
    lk_dataset       *base = fixture_open(env, 0), *next = NULL;
    assert_int_equal(
        lk_dataset_compact(base, lk_direct_committer(), NULL, NULL, &report, &next, &err), LK_OK);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
}

static void add_column(const lk_lance_env *env)
{
    lk_err             err = {0};
    struct ArrowSchema columns = {0};
    lk_bytes           text = LK_LITERAL("more:int32?");
    lk_dataset        *base = fixture_open(env, 0), *next = NULL;
    assert_int_equal(lk_columns_parse(&text, 1, &columns, &err), LK_OK);
    assert_int_equal(lk_dataset_add_columns(base, lk_direct_committer(), &columns, NULL, &next, &err), LK_OK);
    lk_schema_release(&columns);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
}

static void cast_too(const lk_lance_env *env)
{
    lk_err err = {0};
    assert_int_equal(cast_id(env, lk_direct_committer(), "uint16", &err), LK_OK);
}

static void a_cast_takes_in_what_others_commit_meanwhile(void **state)
{
    static const struct {
        void (*act)(const lk_lance_env *env);
        int64_t count, sum;
        size_t  files; /* none is left over */
    } cases[] = {{append_ten, 30, 435, 6}, {delete_two, 18, 190 - 4 - 5, 4}, {compact_all, 20, 190, 4},
        {add_column, 20, 190, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_scratch scratch;
        lk_store       *store = fixture_scratch_open(&scratch);
        lk_lance_env    env = fixture_env(store);
        lk_err          err = {0};
        interfering     committer = {{interfere_and_commit, true}, &env, false, cases[i].act};
        fixture_table(&env, 0, 10, 2);
        assert_int_equal(cast_id(&env, &committer.base, "int32", &err), LK_OK);
        expect_int32_ids(&env, cases[i].count, cases[i].sum);
        assert_int_equal(fixture_count(store, "data"), cases[i].files);
        lk_store_close(store);
        fixture_scratch_remove(&scratch);
    }
}

static void a_column_that_another_cast_is_a_conflict(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    interfering     committer = {{interfere_and_commit, true}, &env, false, cast_too};
    fixture_table(&env, 0, 10, 2);
    assert_int_equal(cast_id(&env, &committer.base, "int32", &err), LK_E_CONFLICT);
    assert_int_equal(fixture_count(store, "data"), 4);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- every store call fails in turn -------------------------------------------------------------------------------- */

static void round_of_cast(fixture_faults *f)
{
    lk_err err = {0}, again = {0};
    fixture_table(&f->env, 0, 10, 2);
    fixture_arm(f);
    lk_rc rc = cast_id(&f->faulty_env, lk_direct_committer(), "int32", &err);
    if (fixture_disarm(f, rc, &err) && f->kind != LK_FAULT_TORN) {
        assert_int_equal(fixture_count(f->plain, "data"), 2);
        assert_int_equal(fixture_count(f->plain, "_transactions"), 3);
    }
    assert_int_equal(cast_id(&f->faulty_env, lk_direct_committer(), "int32", &again), LK_OK);
    expect_int32_ids(&f->env, 20, 190);
}

static void a_cast_survives_a_fault_at_every_store_call(void **state)
{
    (void)state;
    fixture_every_call_fails(round_of_cast, NULL, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_converted_and_deleted_ones_have_a_stand_in),
        cmocka_unit_test(what_cannot_be_converted_changes_nothing),
        cmocka_unit_test(a_cast_takes_in_what_others_commit_meanwhile),
        cmocka_unit_test(a_column_that_another_cast_is_a_conflict),
        cmocka_unit_test(a_cast_survives_a_fault_at_every_store_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
