/*
 * rows_fetch_test.c - generations of far storage: those of ours come by one request each, and whatever is loaded, together or
 * alone, is the same. What the store is asked for is counted at a gate.
 */
#include "arrow/schema.h"
#include "base/file.h"
#include "io/gate.h"
#include "lance/manifest.h"
#include "rollout/cell.h"
#include "rollout/generation.h"
#include "rollout/records.h"
#include "rollout/rows.h"
#include "rollout/shard.h"
#include "rollout/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { GENERATIONS = 32 }; /* four parts of eight */

static lk_store_counts   counts;
static lk_arena          arena;
static lk_shard_manifest manifest;

static uint64_t opened(lk_store_result result)
{
    return atomic_load(&counts.calls[LK_STORE_OPEN][result]);
}

static void add_generations(size_t count)
{
    lk_rollout_writer *writer = fixture_writer("one");
    for (size_t i = 0; i < count; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "id%zu=content%zu other%zu", i, i, i);
        fixture_add(writer, text);
    }
    lk_rollout_writer_free(writer);
}

/* One whose content is no small file. */
static void add_large(const char *id)
{
    lk_rollout_writer *writer = fixture_writer("one");
    lk_buf             text = {0};
    uint64_t           state = 1;
    lk_buf_format(&text, "%s=", id);
    for (size_t i = 0; i < 3 * (size_t)LK_STORE_SMALL_BYTES; i++) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        lk_buf_format(&text, "%c", 'a' + (int)(state >> 33) % 26);
    }
    fixture_add(writer, text.data);
    lk_buf_deinit(&text);
    lk_rollout_writer_free(writer);
}

static void read_manifest(void)
{
    lk_err  err = {0};
    bool    found = false;
    lk_uuid shard = lk_shard_of_instance(LK_LITERAL("one"));
    assert_int_equal(lk_shard_latest(fixture.store, shard, 0, &arena, &manifest, &found, &err), LK_OK);
    assert_true(found);
}

static lk_rollout_wish *wishes(void)
{
    lk_rollout_wish *list = lk_arena_take(&arena, manifest.generation_count * sizeof *list);
    for (size_t i = 0; i < manifest.generation_count; i++) {
        list[i] = (lk_rollout_wish){manifest.shard, &manifest.generations[i], NULL};
    }
    return list;
}

/* Loads everything from a far store. */
static lk_rc load_far(lk_rollout_wish *list, lk_budget *budget, lk_err *err)
{
    lk_lance_env     env = fixture.env;
    lk_rollout_form *form = lk_rollout_form_new();
    lk_rc            rc;
    counts = (lk_store_counts){0};
    env.store = lk_gate_store_new(fixture.store, &counts);
    env.store->far = true;
    env.budget = budget;
    rc = lk_rollout_rows_load_all(&env, form, list, manifest.generation_count, err);
    lk_rollout_form_unref(form);
    lk_store_close(env.store);
    return rc;
}

/* As the same generation that is loaded from near. */
static void assert_same(const lk_rollout_wish *wish)
{
    lk_err           err = {0};
    lk_rollout_rows *near = NULL;
    lk_rollout_form *form = lk_rollout_form_new();
    assert_int_equal(
        lk_rollout_rows_load(&fixture.env, form, wish->shard, wish->generation, &near, &err), LK_OK);
    assert_non_null(wish->rows);
    assert_int_equal(wish->rows->count, near->count);
    assert_int_equal(wish->rows->number, near->number);
    const struct ArrowArray *a = lk_shared_array_get(wish->rows->batch),
                            *b = lk_shared_array_get(near->batch);
    for (size_t row = 0; row < near->count; row++) {
        size_t content = LK_RECORD_COLUMN_content;
        assert_true(lk_bytes_equal(lk_rollout_rows_id(wish->rows, row), lk_rollout_rows_id(near, row)));
        assert_true(wish->rows->addresses[row] == near->addresses[row]);
        assert_true(lk_bytes_equal(lk_cell_large(a->children[content], (int64_t)row),
            lk_cell_large(b->children[content], (int64_t)row)));
    }
    lk_rollout_rows_unref(near);
    lk_rollout_form_unref(form);
}

static void end(lk_rollout_wish *list)
{
    for (size_t i = 0; list != NULL && i < manifest.generation_count; i++) {
        lk_rollout_rows_unref(list[i].rows);
    }
    lk_arena_close(&arena);
}

/* -- tests ------------------------------------------------------------------------------------------------------- */

static void a_generation_of_ours_is_one_request(void **state)
{
    lk_err err = {0};
    add_generations(GENERATIONS);
    read_manifest();
    lk_rollout_wish *list = wishes();
    assert_int_equal(load_far(list, NULL, &err), LK_OK);
    assert_int_equal(opened(LK_STORE_DONE), GENERATIONS + 4); /* and a manifest for each of four parts */
    assert_int_equal(opened(LK_STORE_ABSENT), 0);
    for (size_t i = 0; i < GENERATIONS; i++) {
        assert_same(&list[i]);
    }
    end(list);
}

static void more_than_fit_into_the_parts_are_all_loaded(void **state)
{
    lk_err err = {0};
    add_generations(270); /* parts of 64: one fetcher has two */
    read_manifest();
    lk_rollout_wish *list = wishes();
    assert_int_equal(load_far(list, NULL, &err), LK_OK);
    assert_int_equal(opened(LK_STORE_DONE), 270 + 5);
    for (size_t i = 0; i < manifest.generation_count; i += 17) {
        assert_same(&list[i]);
    }
    for (size_t i = 0; i < manifest.generation_count; i++) {
        assert_non_null(list[i].rows);
    }
    end(list);
}

static void the_manifest_that_is_made_again_is_the_one_that_lies_there(void **state)
{
    lk_err       err = {0};
    lk_manifest *first = NULL, *second = NULL, *again = NULL;
    lk_buf       object = {0};
    add_generations(1);
    lk_rollout_writer *writer = fixture_writer("two");
    fixture_add(writer, "a b=x c"); /* another number of rows, another size */
    lk_rollout_writer_free(writer);
    lk_uuid           two = lk_shard_of_instance(LK_LITERAL("two"));
    lk_shard_manifest other = {0};
    bool              found = false;
    read_manifest();
    assert_int_equal(lk_shard_latest(fixture.store, two, 0, &arena, &other, &found, &err), LK_OK);
    lk_bytes keys[2] = {manifest.generations[0].path, other.generations[0].path};
    keys[0] = lk_shard_key(
        manifest.shard, lk_arena_format(&arena, "%.*s/" LK_GENERATION_MANIFEST, LK_FMT(keys[0])), &arena);
    keys[1] =
        lk_shard_key(two, lk_arena_format(&arena, "%.*s/" LK_GENERATION_MANIFEST, LK_FMT(keys[1])), &arena);
    assert_int_equal(lk_manifest_read(fixture.store, keys[0], &first, &err), LK_OK);
    assert_int_equal(lk_manifest_read(fixture.store, keys[1], &second, &err), LK_OK);
    const lk_fragment *truth = &second->fragments[0];
    assert_int_equal(
        lk_generation_manifest_like(first, truth->physical_rows, truth->files[0].size_bytes, &object, &err),
        LK_OK);
    assert_int_equal(lk_manifest_parse(lk_buf_view(&object), keys[1], &again, &err), LK_OK);
    assert_int_equal(again->fragment_count, 1);
    assert_int_equal(truth->physical_rows, 3);
    assert_true(lk_bytes_equal(again->fragments[0].raw, truth->raw));
    again->timestamp_ms = second->timestamp_ms; /* nobody reads it of a generation */
    assert_int_equal(again->version, second->version);
    assert_int_equal(again->fragment_id_max, second->fragment_id_max);
    assert_int_equal(again->reader_flags, second->reader_flags);
    assert_int_equal(again->writer_flags, second->writer_flags);
    assert_int_equal(again->schema->arrow.n_children, second->schema->arrow.n_children);
    lk_manifest_close(first);
    lk_manifest_close(second);
    lk_manifest_close(again);
    lk_buf_deinit(&object);
    end(NULL);
}

/* A generation of two columns, of an instance with other software. */
static void add_narrow(const char *id)
{
    static const lk_bytes columns[] = {{"id:utf8", 7}, {"content:large_utf8?", 19}};
    lk_err                err = {0};
    struct ArrowSchema    schema = {0};
    struct ArrowArray     batch = {0};
    lk_generation_forms  *forms = lk_generation_forms_new();
    lk_bytes              ids[] = {lk_bytes_of(id)}, path = {0};
    assert_int_equal(lk_columns_parse(columns, 2, &schema, &err), LK_OK);
    assert_int_equal(ArrowArrayInitFromSchema(&batch, &schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&batch), NANOARROW_OK);
    for (int64_t i = 0; i < 2; i++) {
        assert_int_equal(ArrowArrayAppendString(batch.children[i], ArrowCharView(id)), NANOARROW_OK);
    }
    batch.length = 1;
    assert_int_equal(ArrowArrayFinishBuildingDefault(&batch, NULL), NANOARROW_OK);
    lk_shared_array         *shared = lk_array_share(&batch);
    const lk_generation_rows rows = {&schema, &shared, 1, ids, 1};
    assert_int_equal(lk_generation_write(&fixture.env, forms, manifest.shard, manifest.current_generation,
                         &rows, &arena, &path, &err),
        LK_OK);
    lk_shard_generation *more = lk_arena_take(&arena, (manifest.generation_count + 1) * sizeof *more);
    memcpy(more, manifest.generations, manifest.generation_count * sizeof *more);
    more[manifest.generation_count++] =
        (lk_shard_generation){.number = manifest.current_generation, .path = path};
    manifest.generations = more;
    lk_shared_array_unref(shared);
    lk_schema_release(&schema);
    lk_generation_forms_free(forms);
}

static void what_is_large_or_of_other_columns_is_loaded_all_the_same(void **state)
{
    lk_err err = {0};
    add_large("first");
    add_generations(9);
    add_large("middle");
    read_manifest();
    add_narrow("narrow");
    lk_rollout_wish *list = wishes();
    assert_int_equal(load_far(list, NULL, &err), LK_OK);
    for (size_t i = 0; i < manifest.generation_count; i++) {
        assert_same(&list[i]);
    }
    end(list);
}

static void without_memory_for_many_they_come_one_by_one(void **state)
{
    lk_err    err = {0};
    lk_budget budget;
    lk_budget_init(&budget, "few", 8 * (size_t)LK_STORE_SMALL_BYTES, NULL);
    add_generations(GENERATIONS);
    read_manifest();
    lk_rollout_wish *list = wishes();
    assert_int_equal(load_far(list, &budget, &err), LK_OK);
    assert_int_equal(opened(LK_STORE_DONE), 2 * GENERATIONS);
    for (size_t i = 0; i < GENERATIONS; i++) {
        assert_same(&list[i]);
    }
    end(list);
}

static void what_is_gone_has_no_rows_and_what_is_damaged_is_named(void **state)
{
    lk_err err = {0};
    add_generations(GENERATIONS);
    read_manifest();
    lk_bytes gone = lk_shard_key(manifest.shard, manifest.generations[0].path, &arena);
    assert_int_equal(lk_store_remove_tree(fixture.store, gone, &err), LK_OK);
    lk_rollout_wish *list = wishes();
    assert_int_equal(load_far(list, NULL, &err), LK_OK);
    assert_null(list[0].rows);
    for (size_t i = 1; i < GENERATIONS; i++) {
        assert_same(&list[i]);
        lk_rollout_rows_unref(list[i].rows);
    }
    lk_bytes file = lk_shard_key(manifest.shard,
        lk_arena_format(&arena, "%.*s/data/" LK_GENERATION_FILE, LK_FMT(manifest.generations[7].path)),
        &arena);
    assert_int_equal(lk_store_replace(fixture.store, file, LK_LITERAL("no file at all"), &err), LK_OK);
    list = wishes();
    assert_int_equal(load_far(list, NULL, &err), LK_E_CORRUPT_FILE);
    assert_non_null(strstr(err.context, manifest.generations[7].path.data));
    for (size_t i = 0; i < GENERATIONS; i++) {
        assert_null(list[i].rows);
    }
    end(list);
}

int main(void)
{
#define WITH_STORE(test) cmocka_unit_test_setup_teardown(test, fixture_open_store, fixture_close_store)
    const struct CMUnitTest tests[] = {
        WITH_STORE(a_generation_of_ours_is_one_request),
        WITH_STORE(more_than_fit_into_the_parts_are_all_loaded),
        WITH_STORE(the_manifest_that_is_made_again_is_the_one_that_lies_there),
        WITH_STORE(what_is_large_or_of_other_columns_is_loaded_all_the_same),
        WITH_STORE(without_memory_for_many_they_come_one_by_one),
        WITH_STORE(what_is_gone_has_no_rows_and_what_is_damaged_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
