/* engine_contract_fixture.c - see the header. Rows come from mem_rows; sums are computed by hand there. */
#include "engine/engine_contract_fixture.h"

#include "engine/mem_rows.h"
#include "engine/pointer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define INCARNATION LK_LITERAL("0197f0f4-7b2a-7000-8000-0000000000aa")
#define GUARD       LK_LITERAL("election/leader")
#define TENANT      LK_LITERAL("acme")

static const char digest_a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
static const char digest_b[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

static lk_table_at at(contract *c, uint64_t version)
{
    return (lk_table_at){c->location, INCARNATION, version};
}

static lk_rc create(contract *c, lk_commit_terms terms)
{
    struct ArrowSchema schema;
    uint64_t           version = 0;
    lk_mem_rows_schema(&schema);
    const lk_create_request request = {
        .location = c->location, .incarnation = INCARNATION, .schema = &schema, .terms = terms};
    c->err = (lk_err){0};
    lk_rc rc = c->engine->ops->create(c->engine, &request, &version, &c->err);
    if (rc == LK_OK) {
        assert_int_equal(version, 1);
    }
    lk_schema_release(&schema);
    return rc;
}

static lk_rc append_as(contract *c, uint64_t base, const char *operation, const char *digest,
    lk_batches *rows, lk_commit_terms terms, uint64_t *version)
{
    const lk_append_request request = {.at = at(c, base),
        .tenant = TENANT,
        .operation_id = lk_bytes_of(operation),
        .payload_sha256 = lk_bytes_of(digest),
        .rows = rows,
        .terms = terms};
    c->err = (lk_err){0};
    lk_rc rc = c->engine->ops->append(c->engine, &request, version, &c->err);
    lk_batches_close(rows);
    return rc;
}

static lk_rc append(
    contract *c, uint64_t base, const char *operation, int64_t first, int64_t count, uint64_t *version)
{
    return append_as(
        c, base, operation, digest_a, lk_mem_rows_open(first, count, 100), (lk_commit_terms){0}, version);
}

static void must_append(contract *c, uint64_t base, const char *operation, int64_t first, int64_t count)
{
    uint64_t version = 0;
    assert_int_equal(append(c, base, operation, first, count, &version), LK_OK);
    assert_int_equal(version, base + 1);
}

static lk_rc open_at(contract *c, uint64_t version, lk_table_snapshot **out)
{
    c->err = (lk_err){0};
    return c->engine->ops->open(c->engine, at(c, version), out, &c->err);
}

static void check_rows(contract *c, uint64_t version, uint64_t rows, int64_t sum)
{
    lk_table_snapshot    *snapshot = NULL;
    lk_batches           *batches = NULL;
    const lk_scan_options all = {.limit = UINT64_MAX};
    uint64_t              got_rows = 0;
    int64_t               got_sum = 0;
    assert_int_equal(open_at(c, version, &snapshot), LK_OK);
    assert_int_equal(snapshot->ops->row_count(snapshot), rows);
    assert_int_equal(snapshot->ops->scan(snapshot, &all, &batches, &c->err), LK_OK);
    assert_int_equal(lk_mem_rows_sum(batches, &got_rows, &got_sum, &c->err), LK_OK);
    assert_int_equal(got_rows, rows);
    assert_int_equal(got_sum, sum);
    lk_table_snapshot_unref(snapshot);
}

static uint64_t head(contract *c)
{
    uint64_t version = 0;
    assert_int_equal(c->engine->ops->head(c->engine, at(c, 0), &version, &c->err), LK_OK);
    return version;
}

static bool has_object(contract *c, uint64_t version)
{
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    lk_err           err = {0};
    lk_rc            rc =
        lk_store_open_object(c->store, lk_pointer_final_path(&c->arena, version), &reader, &size, &err);
    assert_true(rc == LK_OK || rc == LK_E_NOT_FOUND);
    lk_store_reader_close(reader);
    return rc == LK_OK;
}

static void put_foreign(contract *c, uint64_t version)
{
    bool     created = false;
    lk_bytes bytes = LK_LITERAL("somebody else's manifest");
    assert_int_equal(
        lk_store_put_if_absent(c->store, lk_pointer_final_path(&c->arena, version), bytes, &created, &c->err),
        LK_OK);
    assert_true(created);
}

static void put_key(contract *c, lk_bytes key, lk_bytes value)
{
    bool               applied = false;
    const lk_kv_change change = {.key = key, .value = &value, .any = true};
    const lk_kv_write  write = {.changes = &change, .change_count = 1};
    assert_int_equal(lk_kv_put(c->kv, &write, &applied, &c->err), LK_OK);
}

static bool has_key(contract *c, lk_bytes key)
{
    lk_bytes value = {0};
    bool     found = false;
    assert_int_equal(lk_kv_get(c->kv, key, &c->arena, &value, &found, &c->err), LK_OK);
    return found;
}

/* -- the suite --------------------------------------------------------------------------------------- */
static void a_new_table_is_an_empty_version_one(void **state)
{
    contract          *c = *state;
    struct ArrowSchema expected;
    lk_table_snapshot *snapshot = NULL;
    assert_int_equal(create(c, (lk_commit_terms){0}), LK_OK);
    check_rows(c, 1, 0, 0);
    assert_int_equal(head(c), 1);
    assert_true(has_object(c, 1));
    assert_int_equal(open_at(c, 1, &snapshot), LK_OK);
    const struct ArrowSchema *schema = snapshot->ops->schema(snapshot);
    lk_mem_rows_schema(&expected);
    assert_int_equal(schema->n_children, 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(schema->children[i]->name, expected.children[i]->name);
        assert_string_equal(schema->children[i]->format, expected.children[i]->format);
        assert_int_equal(schema->children[i]->flags & ARROW_FLAG_NULLABLE, expected.children[i]->flags);
    }
    lk_schema_release(&expected);
    lk_table_snapshot_unref(snapshot);
}

static void a_location_is_created_once(void **state)
{
    contract *c = *state;
    assert_int_equal(create(c, (lk_commit_terms){0}), LK_OK);
    must_append(c, 1, "op1", 0, 10);
    lk_rc rc = create(c, (lk_commit_terms){0});
    assert_true(rc == LK_E_CONFLICT || rc == LK_E_TABLE_EXISTS);
    check_rows(c, 2, 10, 45);
}

static void every_version_keeps_its_rows_for_ever(void **state)
{
    contract *c = *state;
    assert_int_equal(create(c, (lk_commit_terms){0}), LK_OK);
    must_append(c, 1, "op1", 0, 250);
    must_append(c, 2, "op2", 1000, 3);
    must_append(c, 3, "op3", 5, 1);
    check_rows(c, 1, 0, 0);
    check_rows(c, 2, 250, 31125); /* 0 + ... + 249 */
    check_rows(c, 3, 253, 34128);
    check_rows(c, 4, 254, 34133);
}

static void a_stale_base_commits_nothing(void **state)
{
    contract *c = *state;
    uint64_t  version = 0;
    assert_int_equal(create(c, (lk_commit_terms){0}), LK_OK);
    must_append(c, 1, "op1", 0, 10);
    assert_int_equal(append(c, 1, "op2", 0, 10, &version), LK_E_CONFLICT);
    assert_false(c->err.maybe_applied);
    assert_int_equal(head(c), 2);
    check_rows(c, 2, 10, 45);
}

static void a_repeated_operation_returns_its_version(void **state)
{
    contract *c = *state;
    uint64_t  version = 0;
    assert_int_equal(create(c, (lk_commit_terms){0}), LK_OK);
    must_append(c, 1, "op1", 0, 10);
    must_append(c, 2, "op2", 0, 10);
    assert_int_equal(append(c, 1, "op1", 0, 10, &version), LK_OK);
    assert_int_equal(version, 2);
    lk_batches *rows = lk_mem_rows_open(0, 10, 10);
    assert_int_equal(
        append_as(c, 1, "op1", digest_b, rows, (lk_commit_terms){0}, &version), LK_E_OPERATION_CONFLICT);
    assert_int_equal(head(c), 3);
}

static void the_callers_changes_are_in_the_same_write(void **state)
{
    contract             *c = *state;
    uint64_t              version = 0;
    lk_bytes              value = LK_LITERAL("v");
    const lk_kv_change    with = {.key = LK_LITERAL("mine"), .value = &value};
    const lk_commit_terms terms = {.with = &with, .with_count = 1};
    assert_int_equal(create(c, (lk_commit_terms){0}), LK_OK);
    lk_batches *rows = lk_mem_rows_open(0, 10, 10);
    assert_int_equal(append_as(c, 1, "op1", digest_a, rows, terms, &version), LK_OK);
    assert_true(has_key(c, with.key));
    /* The key exists now: the next commit with the same condition loses, whole. */
    rows = lk_mem_rows_open(0, 10, 10);
    assert_int_equal(append_as(c, 2, "op2", digest_a, rows, terms, &version), LK_E_CONFLICT);
    assert_false(c->err.maybe_applied);
    assert_int_equal(head(c), 2);
    assert_false(has_object(c, 3));
    must_append(c, 2, "op3", 0, 1);
}

static void a_lost_guard_commits_nothing(void **state)
{
    contract *c = *state;
    uint64_t  version = 0;
    put_key(c, GUARD, LK_LITERAL("other"));
    const lk_commit_terms mine = {.guard_key = GUARD, .guard_value = LK_LITERAL("me")};
    assert_int_not_equal(create(c, mine), LK_OK);
    put_key(c, GUARD, LK_LITERAL("me"));
    assert_int_equal(create(c, mine), LK_OK);
    put_key(c, GUARD, LK_LITERAL("other"));
    lk_batches *rows = lk_mem_rows_open(0, 10, 10);
    assert_int_equal(append_as(c, 1, "op1", digest_a, rows, mine, &version), LK_E_CONFLICT);
    assert_int_equal(head(c), 1);
}

static void rows_that_do_not_fit_are_refused_before_the_commit(void **state)
{
    contract         *c = *state;
    uint64_t          version = 0;
    struct ArrowArray batch = {0};
    assert_int_equal(create(c, (lk_commit_terms){0}), LK_OK);
    lk_batches *rows = lk_mem_rows_open(0, 1, 1);
    assert_int_equal(ArrowSchemaSetName(rows->schema.children[0], "other"), NANOARROW_OK);
    assert_int_equal(
        append_as(c, 1, "op1", digest_a, rows, (lk_commit_terms){0}, &version), LK_E_SCHEMA_MISMATCH);
    assert_false(c->err.maybe_applied);
    assert_int_equal(head(c), 1);
    must_append(c, 1, "op1", 0, 1); /* nothing is left of it */
    lk_array_release(&batch);
}

static lk_reconciled reconcile(
    contract *c, uint64_t base, const char *operation, const char *digest, lk_rc expected)
{
    lk_reconciled out = LK_RECONCILED_UNKNOWN;
    uint64_t      version = 0;
    c->err = (lk_err){0};
    assert_int_equal(c->engine->ops->reconcile(c->engine, at(c, base), TENANT, lk_bytes_of(operation),
                         lk_bytes_of(digest), &out, &version, &c->err),
        expected);
    if (out == LK_RECONCILED_COMMITTED) {
        assert_int_equal(version, 3);
    }
    return out;
}

static void reconcile_finds_a_commit_above_the_base_or_proves_that_there_is_none(void **state)
{
    contract *c = *state;
    assert_int_equal(create(c, (lk_commit_terms){0}), LK_OK);
    must_append(c, 1, "op1", 0, 1);
    must_append(c, 2, "op2", 0, 1);
    must_append(c, 3, "op3", 0, 1);
    assert_int_equal(reconcile(c, 1, "op2", digest_a, LK_OK), LK_RECONCILED_COMMITTED);
    assert_int_equal(reconcile(c, 1, "op4", digest_a, LK_OK), LK_RECONCILED_ABSENT);
    assert_int_equal(reconcile(c, 4, "op2", digest_a, LK_OK), LK_RECONCILED_ABSENT);
    (void)reconcile(c, 1, "op2", digest_b, LK_E_OPERATION_CONFLICT);
    assert_int_equal(reconcile(c, 9, "op2", digest_a, LK_OK), LK_RECONCILED_UNKNOWN);
    /* A version of the chain that cannot be found is not evidence of absence. */
    assert_int_equal(lk_store_remove(c->store, lk_pointer_final_path(&c->arena, 2), &c->err), LK_OK);
    assert_int_equal(reconcile(c, 1, "op4", digest_a, LK_OK), LK_RECONCILED_UNKNOWN);
}

static void an_exact_version_is_opened_or_it_is_gone(void **state)
{
    contract          *c = *state;
    lk_table_snapshot *snapshot = NULL;
    assert_int_equal(create(c, (lk_commit_terms){0}), LK_OK);
    must_append(c, 1, "op1", 0, 1);
    assert_int_equal(open_at(c, 3, &snapshot), LK_E_SNAPSHOT_GONE);
    assert_int_equal(open_at(c, 0, &snapshot), LK_E_SNAPSHOT_GONE);
    const lk_table_at other = {c->location, LK_LITERAL("0197f0f4-7b2a-7000-8000-0000000000bb"), 2};
    c->err = (lk_err){0};
    assert_int_equal(c->engine->ops->open(c->engine, other, &snapshot, &c->err), LK_E_SNAPSHOT_GONE);
}

static void a_removed_table_is_gone_and_removing_it_again_is_harmless(void **state)
{
    contract             *c = *state;
    lk_table_snapshot    *snapshot = NULL;
    const lk_commit_terms none = {0};
    assert_int_equal(c->engine->ops->remove(c->engine, at(c, 0), none, &c->err), LK_OK); /* never made */
    assert_int_equal(create(c, none), LK_OK);
    must_append(c, 1, "op1", 0, 1);
    assert_int_equal(c->engine->ops->remove(c->engine, at(c, 0), none, &c->err), LK_OK);
    assert_int_equal(c->engine->ops->remove(c->engine, at(c, 0), none, &c->err), LK_OK);
    assert_int_equal(open_at(c, 2, &snapshot), LK_E_SNAPSHOT_GONE);
    assert_false(has_object(c, 1));
    assert_false(has_object(c, 2));
}

static void a_foreign_manifest_above_the_head_stops_appends(void **state)
{
    contract *c = *state;
    uint64_t  version = 0;
    assert_int_equal(create(c, (lk_commit_terms){0}), LK_OK);
    must_append(c, 1, "op1", 0, 10);
    put_foreign(c, 3);
    assert_int_equal(append(c, 2, "op2", 0, 10, &version), LK_E_FOREIGN_COMMIT);
    assert_false(c->err.maybe_applied);
    assert_int_equal(head(c), 2);
    check_rows(c, 2, 10, 45);
    assert_int_equal(lk_store_remove(c->store, lk_pointer_final_path(&c->arena, 3), &c->err), LK_OK);
    must_append(c, 2, "op2", 10, 1); /* discarded by hand: appends go on */
}

static void a_version_without_its_final_name_is_read_and_then_named(void **state)
{
    contract *c = *state;
    assert_int_equal(create(c, (lk_commit_terms){0}), LK_OK);
    must_append(c, 1, "op1", 0, 10);
    /* As after a crash between the atomic write and the name. */
    assert_int_equal(lk_store_remove(c->store, lk_pointer_final_path(&c->arena, 2), &c->err), LK_OK);
    check_rows(c, 2, 10, 45);
    assert_int_equal(c->engine->ops->recover(c->engine, (lk_commit_terms){0}, NULL, &c->err), LK_OK);
    assert_true(has_object(c, 2));
    check_rows(c, 2, 10, 45);
    must_append(c, 2, "op2", 10, 1);
    check_rows(c, 3, 11, 55);
    assert_int_equal(c->engine->ops->recover(c->engine, (lk_commit_terms){0}, NULL, &c->err), LK_OK);
    must_append(c, 3, "op3", 11, 1);
    check_rows(c, 4, 12, 66);
}

static void a_scan_projects_and_limits(void **state)
{
    contract          *c = *state;
    lk_table_snapshot *snapshot = NULL;
    lk_batches        *batches = NULL;
    const size_t       columns[] = {0};
    uint64_t           rows = 0;
    int64_t            sum = 0;
    assert_int_equal(create(c, (lk_commit_terms){0}), LK_OK);
    must_append(c, 1, "op1", 0, 250);
    assert_int_equal(open_at(c, 2, &snapshot), LK_OK);
    const lk_scan_options some = {.columns = columns, .column_count = 1, .limit = 101};
    assert_int_equal(snapshot->ops->scan(snapshot, &some, &batches, &c->err), LK_OK);
    assert_int_equal(batches->schema.n_children, 1);
    assert_int_equal(lk_mem_rows_sum(batches, &rows, &sum, &c->err), LK_OK);
    assert_int_equal(rows, 101);
    assert_int_equal(sum, 5050);
    const lk_scan_options count = {.no_columns = true, .limit = UINT64_MAX};
    assert_int_equal(snapshot->ops->scan(snapshot, &count, &batches, &c->err), LK_OK);
    assert_int_equal(lk_mem_rows_sum(batches, &rows, &sum, &c->err), LK_OK);
    assert_int_equal(rows, 250);
    lk_table_snapshot_unref(snapshot);
}

int engine_contract_run(const char *name, int (*setup)(void **state), int (*teardown)(void **state))
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_new_table_is_an_empty_version_one),
        CASE(a_location_is_created_once),
        CASE(every_version_keeps_its_rows_for_ever),
        CASE(a_stale_base_commits_nothing),
        CASE(a_repeated_operation_returns_its_version),
        CASE(the_callers_changes_are_in_the_same_write),
        CASE(a_lost_guard_commits_nothing),
        CASE(rows_that_do_not_fit_are_refused_before_the_commit),
        CASE(reconcile_finds_a_commit_above_the_base_or_proves_that_there_is_none),
        CASE(an_exact_version_is_opened_or_it_is_gone),
        CASE(a_removed_table_is_gone_and_removing_it_again_is_harmless),
        CASE(a_foreign_manifest_above_the_head_stops_appends),
        CASE(a_version_without_its_final_name_is_read_and_then_named),
        CASE(a_scan_projects_and_limits),
    };
#undef CASE
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}
