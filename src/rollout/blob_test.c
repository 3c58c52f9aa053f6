/* blob_test.c - payloads read range by range, before and after they were merged, from files that we or others wrote. */
#include "rollout/blob.h"

#include "base/hash.h"
#include "lance/alter.h"
#include "rollout/collect.h"
#include "rollout/merge.h"
#include "rollout/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { LONG = 3 * 1024 * 1024 + 17 };

/* Byte i of the payload of a seed; not random, so that a compression would find much. */
static char byte_at(uint64_t i, int seed)
{
    return (char)(i / 1000 + (uint64_t)seed + i % 7);
}

static void put_payload(lk_buf *lines, const char *id, size_t size, int seed)
{
    lk_buf bytes = {0};
    for (size_t i = 0; i < size; i++) {
        char c = byte_at(i, seed);
        lk_buf_append(&bytes, &c, 1);
    }
    lk_buf_format(lines,
        "{\"id\":\"%s\",\"rollout_id\":\"r\",\"content_type\":\"image/%s\",\"binary_payload\":\"", id, id);
    lk_base64_append(lines, lk_buf_view(&bytes));
    lk_buf_append_text(lines, "\"}\n");
    lk_buf_deinit(&bytes);
}

static void expect_bytes(lk_rollout_blob *blob, uint64_t offset, size_t size, int seed)
{
    lk_err err = {0};
    char  *bytes = malloc(size + 1);
    assert_non_null(bytes);
    if (lk_rollout_blob_read(blob, offset, bytes, size, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != byte_at(offset + i, seed)) {
            fail_msg("byte %zu of [%zu, %zu)", (size_t)(offset + i), (size_t)offset, (size_t)offset + size);
        }
    }
    free(bytes);
}

static lk_rollout_blob *open_blob(const char *id)
{
    lk_err               err = {0};
    lk_rollout_snapshot *snapshot = NULL;
    lk_rollout_blob     *blob = NULL;
    bool                 found;
    assert_int_equal(lk_rollout_view_take(fixture.view, &snapshot, &err), LK_OK);
    if (lk_rollout_blob_open(snapshot, lk_bytes_of(id), NULL, &blob, &found, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    assert_int_equal(found, blob != NULL);
    lk_rollout_snapshot_unref(snapshot);
    return blob;
}

static void expect_blob(const char *id, size_t size, int seed)
{
    lk_buf           type = {0};
    lk_rollout_blob *blob = open_blob(id);
    assert_non_null(blob);
    assert_false(lk_rollout_blob_is_null(blob));
    assert_int_equal(lk_rollout_blob_size(blob), size);
    lk_buf_format(&type, "image/%s", id);
    assert_true(lk_bytes_equal(lk_rollout_blob_content_type(blob), lk_buf_view(&type)));
    assert_int_equal(lk_rollout_blob_checksum(blob).size, 0);
    expect_bytes(blob, 0, size, seed);
    expect_bytes(blob, size, 0, seed);
    expect_bytes(blob, size / 2, size - size / 2, seed);
    expect_bytes(blob, size / 3, size / 3, seed);
    lk_rollout_blob_close(blob);
    lk_buf_deinit(&type);
}

static void expect_all(void)
{
    expect_blob("long", LONG, 1);
    expect_blob("same", LONG, 1);
    expect_blob("middle", 100000, 2);
    expect_blob("short", 300, 3);
    expect_blob("tiny", 1, 4);
    expect_blob("empty", 0, 5);
    lk_rollout_blob *none = open_blob("none");
    assert_true(lk_rollout_blob_is_null(none));
    lk_rollout_blob_close(none);
    assert_null(open_blob("nobody"));
}

static void ranges_are_read_wherever_the_row_is(void **state)
{
    lk_err                         err = {0};
    lk_buf                         lines = {0};
    lk_rollout_writer             *writer = fixture_writer("rollout-0");
    lk_rollout_merge_report        report;
    const lk_rollout_merge_options all = {0};
    const lk_compact_options       fold = {0};
    lk_compact_report              folded;
    lk_dataset                    *base = NULL, *next = NULL;
    put_payload(&lines, "long", LONG, 1);
    put_payload(&lines, "middle", 100000, 2);
    put_payload(&lines, "empty", 0, 5);
    lk_buf_append_text(&lines, "{\"id\":\"none\",\"rollout_id\":\"r\"}\n");
    put_payload(&lines, "same", LONG, 1);
    fixture_add(writer, lines.data);
    lk_buf_clear(&lines);
    put_payload(&lines, "short", 300, 3);
    put_payload(&lines, "tiny", 1, 4);
    fixture_add(writer, lines.data);
    expect_all();
    lk_rollout_blob *open = open_blob("long");
    lk_uuid          shard = lk_shard_of_instance(LK_LITERAL("rollout-0"));
    assert_int_equal(lk_rollout_merge(&fixture.env, fixture.view, writer, shard, &all, &report, &err), LK_OK);
    expect_all();
    lk_rollout_collect_report collected = {0};
    assert_int_equal(lk_rollout_collect(&fixture.env, shard, 0, false, &collected, &err), LK_OK);
    expect_bytes(open, 0, LONG, 1); /* its generation is gone, its file is open */
    lk_rollout_blob_close(open);
    fixture_append_to_base("other");
    assert_int_equal(lk_dataset_open(&fixture.env, 0, &base, &err), LK_OK);
    assert_int_equal(
        lk_dataset_compact(base, lk_direct_committer(), &fold, NULL, &folded, &next, &err), LK_OK);
    assert_int_equal(folded.fragments_after, 1);
    lk_dataset_unref(base);
    lk_dataset_unref(next);
    expect_all();
    lk_rollout_writer_free(writer);
    lk_buf_deinit(&lines);
}

/* What is held while it is open: of a long value nothing, though it would compress well. */
static void a_long_payload_is_not_held(void **state)
{
    lk_err             err = {0};
    lk_buf             lines = {0};
    lk_budget          budget;
    lk_rollout_writer *writer = fixture_writer("rollout-0");
    put_payload(&lines, "long", LONG, 1);
    fixture_add(writer, lines.data);
    lk_budget_init(&budget, "blobs", 512 * 1024, NULL);
    lk_lance_env env = fixture.env;
    env.budget = &budget;
    lk_rollout_view     *view = lk_rollout_view_new(&env, fixture.base);
    lk_rollout_snapshot *snapshot = NULL;
    lk_rollout_blob     *blob = NULL;
    bool                 found;
    assert_int_equal(lk_rollout_view_take(view, &snapshot, &err), LK_OK);
    if (lk_rollout_blob_open(snapshot, LK_LITERAL("long"), NULL, &blob, &found, &err) != LK_OK) {
        fail_msg("%s", err.context);
    }
    expect_bytes(blob, LONG - 4, 4, 1);
    lk_rollout_blob_close(blob);
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_view_free(view);
    assert_int_equal(budget.used_bytes, 0);
    lk_rollout_writer_free(writer);
    lk_buf_deinit(&lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            ranges_are_read_wherever_the_row_is, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(a_long_payload_is_not_held, fixture_open_store, fixture_close_store),
    };
    return cmocka_run_group_tests_name("blob", tests, NULL, NULL);
}
