/* update_test.c - rows that change in place of others, others' commits meanwhile, faults at every step; merges, which are
 * updates; and overwriting. (That pylance agrees: tests/interop.) */
#include "arrow/schema.h"
#include "lance/alter.h"
#include "lance/fault_fixture.h"
#include "lance/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* -- a changer: rows of the fixture with other ids ---------------------------------------------------------------- */

/* Gives the rows of [first, first + count), whose ids become id + shift; those without an address are new. */
typedef struct shift {
    lk_row_changer base;
    int64_t        first, count, shift;
    bool           as_new;
    uint64_t       removes; /* an address that goes as well; UINT64_MAX: none */
    int            asked;
    void (*meanwhile)(const lk_lance_env *env); /* between the choice and the commit, the first time */
    const lk_lance_env *env;
} shift;

typedef struct shifted {
    lk_batches   base;
    lk_batches  *rows; /* id, name, address */
    const shift *shift;
} shifted;

static lk_rc next_shifted(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    shifted          *self = (shifted *)batches;
    struct ArrowArray batch = {0}, columns[4] = {{0}};
    lk_rc             rc = lk_batches_next(self->rows, &batch, err);
    if (rc != LK_OK || batch.release == NULL) {
        return rc;
    }
    int64_t                  length = batch.length, kept = 0;
    int64_t                  picks[64];
    lk_shared_array         *shared = lk_array_share(&batch);
    struct ArrowArray        all = {0};
    const struct ArrowArray *ids = lk_shared_array_get(shared)->children[0];
    const int64_t           *values =
        (const int64_t *)ids->buffers[1] + ids->offset + lk_shared_array_get(shared)->offset;
    for (int64_t i = 0; i < length; i++) {
        if (values[i] >= self->shift->first && values[i] < self->shift->first + self->shift->count) {
            picks[kept++] = i;
        }
    }
    lk_shared_array_slice(shared, 0, length, &all);
    struct ArrowArray taken = {0};
    rc = lk_array_take(&self->rows->schema, &all, picks, kept, &taken, err);
    lk_array_release(&all);
    lk_shared_array_unref(shared);
    assert_int_equal(rc, LK_OK);
    shared = lk_array_share(&taken);
    size_t last = (size_t)self->base.schema.n_children - 1;
    for (size_t i = 0; i <= last; i++) {
        lk_shared_batch_column(shared, i, &columns[i]);
    }
    int64_t *mine = (int64_t *)(uintptr_t)columns[0].buffers[1];
    for (int64_t i = 0; i < kept; i++) {
        mine[columns[0].offset + i] += self->shift->shift; /* the copy is ours alone */
    }
    if (self->shift->as_new) {
        lk_array_release(&columns[last]);
        assert_int_equal(lk_array_nulls(self->base.schema.children[last], kept, &columns[last], err), LK_OK);
    }
    lk_batch_of_columns(columns, last + 1, kept, out);
    lk_shared_array_unref(shared);
    return LK_OK;
}

static void close_shifted(lk_batches *batches)
{
    shifted *self = (shifted *)batches;
    lk_batches_close(self->rows);
    lk_schema_release(&self->base.schema);
    free(self);
}

static lk_rc change(void *context, lk_dataset *version, lk_row_set *removed, lk_batches **out, lk_err *err)
{
    shift          *s = context;
    lk_scan_options options = {.limit = UINT64_MAX, .meta = LK_META_ROW_ADDRESS, .batch_rows = 64};
    shifted        *self = calloc(1, sizeof *self);
    assert_non_null(self);
    if (s->removes != UINT64_MAX) {
        lk_row_set_add(removed, &s->removes, 1);
    }
    self->base.next = next_shifted;
    self->base.close = close_shifted;
    self->shift = s;
    lk_rc rc = lk_dataset_scan(version, &options, &self->rows, err);
    if (rc == LK_OK) {
        rc = lk_schema_copy(&self->rows->schema, &self->base.schema, err);
    }
    if (rc == LK_OK && s->asked++ == 0 && s->meanwhile != NULL) {
        s->meanwhile(s->env);
    }
    if (rc != LK_OK) {
        close_shifted(&self->base);
        return rc;
    }
    *out = &self->base;
    return LK_OK;
}

static shift shift_of(int64_t first, int64_t count, int64_t by)
{
    return (shift){
        .base = {.change = change}, .first = first, .count = count, .shift = by, .removes = UINT64_MAX};
}

static lk_rc update(
    const lk_lance_env *env, lk_committer *committer, shift *s, lk_update_report *report, lk_err *err)
{
    lk_dataset *base = NULL, *next = NULL;
    lk_rc       rc = lk_dataset_open(env, 0, &base, err);
    s->base.context = s;
    s->env = s->env == NULL ? env : s->env;
    if (rc == LK_OK) {
        rc = lk_dataset_update(base, committer, &s->base, NULL, report, &next, err);
    }
    lk_dataset_unref(next);
    lk_dataset_unref(base);
    return rc;
}

/* -- what is there --------------------------------------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    const int64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* "first-last,.." of the newest version's ids, in their own order. */
static void expect_ids(const lk_lance_env *env, const char *expected)
{
    lk_buf         buffer = fixture_ids(env, 0), text = {0};
    const int64_t *ids = (const int64_t *)(void *)buffer.data;
    size_t         count = buffer.size / sizeof *ids;
    qsort(buffer.data, count, sizeof *ids, compare_ids);
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && ids[end] == ids[end - 1] + 1) {
            end++;
        }
        lk_buf_format(&text, "%s%lld-%lld", i == 0 ? "" : ",", (long long)ids[i], (long long)ids[end - 1]);
        i = end;
    }
    assert_string_equal(text.data, expected);
    lk_buf_deinit(&text);
    lk_buf_deinit(&buffer);
}

static void expect_version(const lk_lance_env *env, uint64_t version)
{
    lk_dataset *latest = fixture_open(env, 0);
    assert_int_equal(lk_dataset_version(latest), version);
    lk_dataset_unref(latest);
}

/* -- updating -------------------------------------------------------------------------------------------------------- */

static void changed_rows_take_the_place_of_the_old_ones(void **state)
{
    fixture_scratch  scratch;
    lk_store        *store = fixture_scratch_open(&scratch);
    lk_lance_env     env = fixture_env(store);
    lk_err           err = {0};
    lk_update_report report;
    fixture_table(&env, 0, 10, 3); /* version 4 */
    shift s = shift_of(5, 8, 1000);
    assert_int_equal(update(&env, lk_direct_committer(), &s, &report, &err), LK_OK);
    assert_int_equal(report.rows_updated, 8);
    assert_int_equal(report.rows_inserted + report.rows_deleted, 0);
    assert_int_equal(report.fragments_changed, 2);
    assert_int_equal(report.fragments_written, 1);
    expect_ids(&env, "0-4,13-29,1005-1012");
    shift whole = shift_of(20, 10, 500); /* all rows of a fragment: it goes */
    assert_int_equal(update(&env, lk_direct_committer(), &whole, &report, &err), LK_OK);
    assert_int_equal(report.fragments_removed, 1);
    expect_ids(&env, "0-4,13-19,520-529,1005-1012");
    expect_version(&env, 6);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void new_rows_and_rows_that_go_are_part_of_one_version(void **state)
{
    fixture_scratch  scratch;
    lk_store        *store = fixture_scratch_open(&scratch);
    lk_lance_env     env = fixture_env(store);
    lk_err           err = {0};
    lk_update_report report;
    fixture_table(&env, 0, 10, 2);
    shift s = shift_of(0, 3, 100);
    s.as_new = true;
    s.removes = 1ULL << 32 | 4; /* id 14 */
    assert_int_equal(update(&env, lk_direct_committer(), &s, &report, &err), LK_OK);
    assert_int_equal(report.rows_inserted, 3);
    assert_int_equal(report.rows_deleted, 1);
    assert_int_equal(report.rows_updated, 0);
    expect_ids(&env, "0-13,15-19,100-102");
    expect_version(&env, 4);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void nothing_to_change_makes_no_version(void **state)
{
    fixture_scratch  scratch;
    lk_store        *store = fixture_scratch_open(&scratch);
    lk_lance_env     env = fixture_env(store);
    lk_err           err = {0};
    lk_update_report report;
    fixture_table(&env, 0, 10, 2);
    shift s = shift_of(50, 3, 100);
    assert_int_equal(update(&env, lk_direct_committer(), &s, &report, &err), LK_OK);
    expect_version(&env, 3);
    assert_int_equal(fixture_count(store, "data"), 2);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- others at the same time --------------------------------------------------------------------------------------- */

static void append_three(const lk_lance_env *env)
{
    lk_err      err = {0};
    lk_dataset *base = fixture_open(env, 0), *next = NULL;
    lk_batches *rows = fixture_rows(20, 3, 1);
    assert_int_equal(lk_dataset_append(base, lk_direct_committer(), rows, NULL, &next, &err), LK_OK);
    lk_batches_close(rows);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
}

static void delete_address(const lk_lance_env *env, uint64_t address)
{
    lk_err      err = {0};
    lk_dataset *base = fixture_open(env, 0), *next = NULL;
    lk_row_set *rows = lk_row_set_new();
    lk_row_set_add(rows, &address, 1);
    assert_int_equal(
        lk_dataset_delete_rows(base, lk_direct_committer(), rows, (lk_bytes){0}, NULL, NULL, &next, &err),
        LK_OK);
    lk_row_set_free(rows);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
}

static void delete_one_of_ours(const lk_lance_env *env)
{
    delete_address(env, 6);
}

static void delete_a_neighbour(const lk_lance_env *env)
{
    delete_address(env, 1);
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

static void restore_first(const lk_lance_env *env)
{
    lk_err      err = {0};
    lk_dataset *base = fixture_open(env, 0), *next = NULL;
    assert_int_equal(lk_dataset_restore(base, lk_direct_committer(), 2, NULL, &next, &err), LK_OK);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
}

static lk_rc overwrite(
    const lk_lance_env *env, lk_committer *committer, uint64_t at, int64_t first, lk_err *err)
{
    lk_dataset *base = NULL, *next = NULL;
    lk_batches *rows = fixture_rows(first, 5, 2);
    lk_rc       rc = lk_dataset_open(env, at, &base, err);
    if (rc == LK_OK) {
        rc = lk_dataset_overwrite(base, committer, rows, NULL, &next, err);
    }
    lk_batches_close(rows);
    lk_dataset_unref(next);
    lk_dataset_unref(base);
    return rc;
}

static void overwrite_all(const lk_lance_env *env)
{
    lk_err err = {0};
    assert_int_equal(overwrite(env, lk_direct_committer(), 0, 700, &err), LK_OK);
}

/* What an update of ids 5 to 12 by 1000 is on top of each of these. */
static void an_update_meets_every_kind_of_commit(void **state)
{
    static const struct {
        void (*meanwhile)(const lk_lance_env *env);
        bool        by_key;
        lk_rc       rc;
        int         asked; /* the changer, in all */
        const char *ids;
    } cases[] = {
        {append_three, false, LK_OK, 1, "0-4,13-22,1005-1012"},
        {append_three, true, LK_OK, 2, "0-4,13-22,1005-1012"}, /* the new rows may have the keys */
        {delete_a_neighbour, false, LK_OK, 1, "0-0,2-4,13-19,1005-1012"},
        {delete_one_of_ours, false, LK_OK, 2, "0-4,13-19,1005-1005,1007-1012"},
        {compact_all, false, LK_OK, 2, "0-4,13-19,1005-1012"},
        {add_column, false, LK_OK, 2, "0-4,13-19,1005-1012"},
        {restore_first, false, LK_E_CONFLICT, 1, "0-9"},
        {overwrite_all, false, LK_E_CONFLICT, 1, "700-709"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_scratch  scratch;
        lk_store        *store = fixture_scratch_open(&scratch);
        lk_lance_env     env = fixture_env(store);
        lk_err           err = {0};
        lk_update_report report;
        fixture_table(&env, 0, 10, 2);
        shift s = shift_of(5, 8, 1000);
        s.meanwhile = cases[i].meanwhile;
        s.base.by_key = cases[i].by_key;
        lk_rc rc = update(&env, lk_direct_committer(), &s, &report, &err);
        if (rc != cases[i].rc) {
            fail_msg("case %zu: %d, %s; %s", i, rc, err.context, err.detail);
        }
        assert_int_equal(s.asked, cases[i].asked);
        expect_ids(&env, cases[i].ids);
        lk_store_close(store);
        fixture_scratch_remove(&scratch);
    }
}

static void an_owned_table_is_not_updated_on_top_of_another_version(void **state)
{
    fixture_scratch  scratch;
    lk_store        *store = fixture_scratch_open(&scratch);
    lk_lance_env     env = fixture_env(store);
    lk_err           err = {0};
    lk_update_report report;
    lk_committer     owned = *lk_direct_committer();
    owned.stands_alone = false;
    fixture_table(&env, 0, 10, 2);
    shift s = shift_of(5, 8, 1000);
    s.meanwhile = append_three;
    assert_int_equal(update(&env, &owned, &s, &report, &err), LK_E_CONFLICT);
    expect_ids(&env, "0-22");
    assert_int_equal(fixture_count(store, "data"), 3);
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- overwriting -------------------------------------------------------------------------------------------------- */

static void an_overwritten_table_has_the_new_rows_and_the_old_versions(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0};
    fixture_table(&env, 0, 10, 2);
    delete_a_neighbour(&env);
    assert_int_equal(overwrite(&env, lk_direct_committer(), 0, 50, &err), LK_OK);
    expect_ids(&env, "50-59");
    lk_dataset *latest = fixture_open(&env, 0);
    assert_int_equal(lk_dataset_manifest(latest)->fragments[0].id, 2); /* one that was never given out */
    assert_int_equal(lk_dataset_manifest(latest)->reader_flags, 0);
    lk_dataset_unref(latest);
    lk_buf old = fixture_ids(&env, 3);
    assert_int_equal(old.size / sizeof(int64_t), 20);
    lk_buf_deinit(&old);
    append_three(&env);
    expect_ids(&env, "20-22,50-59");
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

static void an_overwrite_goes_with_everything_but_another(void **state)
{
    fixture_scratch scratch;
    lk_store       *store = fixture_scratch_open(&scratch);
    lk_lance_env    env = fixture_env(store);
    lk_err          err = {0}, second = {0};
    fixture_table(&env, 0, 10, 2); /* version 3 */
    append_three(&env);
    delete_a_neighbour(&env);
    restore_first(&env);
    assert_int_equal(overwrite(&env, lk_direct_committer(), 3, 50, &err), LK_OK);
    expect_ids(&env, "50-59");
    assert_int_equal(overwrite(&env, lk_direct_committer(), 3, 80, &second), LK_E_CONFLICT);
    expect_ids(&env, "50-59");
    lk_store_close(store);
    fixture_scratch_remove(&scratch);
}

/* -- every store call fails in turn -------------------------------------------------------------------------------- */

/* Nothing of a change that failed for certain is left. */
static void expect_clean(fixture_faults *f, bool failed)
{
    if (failed && f->kind != LK_FAULT_TORN) {
        assert_int_equal(fixture_count(f->plain, "data"), 2);
        assert_int_equal(fixture_count(f->plain, "_deletions"), 0);
        assert_int_equal(fixture_count(f->plain, "_transactions"), 3);
    }
}

static void round_of_update(fixture_faults *f)
{
    lk_err           err = {0}, again = {0};
    lk_update_report report;
    fixture_table(&f->env, 0, 10, 2);
    shift s = shift_of(5, 8, 1000);
    s.env = &f->env;
    fixture_arm(f);
    lk_rc rc = update(&f->faulty_env, lk_direct_committer(), &s, &report, &err);
    expect_clean(f, fixture_disarm(f, rc, &err));
    shift retry = shift_of(5, 8, 1000); /* rows that were changed are not there any more */
    assert_int_equal(update(&f->faulty_env, lk_direct_committer(), &retry, &report, &again), LK_OK);
    expect_ids(&f->env, "0-4,13-19,1005-1012");
}

static void an_update_survives_a_fault_at_every_store_call(void **state)
{
    (void)state;
    fixture_every_call_fails(round_of_update, NULL, 10);
}

static void round_of_overwrite(fixture_faults *f)
{
    lk_err err = {0}, again = {0};
    fixture_table(&f->env, 0, 10, 2);
    fixture_arm(f);
    lk_rc rc = overwrite(&f->faulty_env, lk_direct_committer(), 0, 50, &err);
    expect_clean(f, fixture_disarm(f, rc, &err));
    assert_int_equal(overwrite(&f->faulty_env, lk_direct_committer(), 0, 50, &again), LK_OK);
    expect_ids(&f->env, "50-59");
}

static void an_overwrite_survives_a_fault_at_every_store_call(void **state)
{
    (void)state;
    fixture_every_call_fails(round_of_overwrite, NULL, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed_rows_take_the_place_of_the_old_ones),
        cmocka_unit_test(new_rows_and_rows_that_go_are_part_of_one_version),
        cmocka_unit_test(nothing_to_change_makes_no_version),
        cmocka_unit_test(an_update_meets_every_kind_of_commit),
        cmocka_unit_test(an_owned_table_is_not_updated_on_top_of_another_version),
        cmocka_unit_test(an_overwritten_table_has_the_new_rows_and_the_old_versions),
        cmocka_unit_test(an_overwrite_goes_with_everything_but_another),
        cmocka_unit_test(an_update_survives_a_fault_at_every_store_call),
        cmocka_unit_test(an_overwrite_survives_a_fault_at_every_store_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
