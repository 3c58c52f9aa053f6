/*
 * manifest_test.c - versions that pylance 14 wrote (tests/golden/lance) and what their index.json says of
 * them; features we must refuse; fields we must keep; damage.
 */
#include "lance/manifest.h"

#include "lance/pb_table.h"
#include "lance/table_fixture.h"
#include "lance/versions.h"
#include "lance/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static lk_manifest *read_version(lk_store *store, uint64_t version, lk_manifest_naming naming)
{
    lk_arena     arena = {0};
    lk_err       err = {0};
    lk_manifest *manifest = NULL;
    if (lk_manifest_read(store, lk_manifest_key(version, naming, &arena), &manifest, &err) != LK_OK) {
        fail_msg("version %llu: %s", (unsigned long long)version, err.context);
    }
    lk_arena_close(&arena);
    return manifest;
}

static bool is_named(const struct ArrowSchema *field, const char *name, const char *format)
{
    return strcmp(field->name, name) == 0 && strcmp(field->format, format) == 0;
}

/* -- what pylance wrote ------------------------------------------------------------------------------ */

static void every_version_has_the_rows_that_the_reference_counts(void **state)
{
    static const struct {
        uint64_t version, rows;
    } expected[] = {{1, 100}, {2, 150}, {3, 135}, {4, 135}, {5, 135}, {6, 135}, {7, 135}, {8, 135}, {9, 135},
        {10, 136}, {12, 136}, {13, 150}};
    lk_store *store = fixture_golden("lifecycle_2.1");
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        lk_manifest *manifest = read_version(store, expected[i].version, LK_MANIFEST_V2);
        assert_int_equal(manifest->version, expected[i].version);
        assert_int_equal(lk_manifest_rows(manifest), expected[i].rows);
        assert_int_equal(manifest->file_minor, 1);
        assert_true(lk_bytes_equal(manifest->writer_library, LK_LITERAL("lance")));
        lk_manifest_close(manifest);
    }
    lk_store_close(store);
}

static void columns_follow_add_drop_rename_and_cast(void **state)
{
    lk_store    *store = fixture_golden("lifecycle_2.1");
    lk_manifest *first = read_version(store, 1, LK_MANIFEST_V2);
    assert_true(is_named(first->schema->arrow.children[0], "id", "l"));
    int64_t columns = first->schema->arrow.n_children;

    lk_manifest *renamed =
        read_version(store, 7, LK_MANIFEST_V2); /* added y and z, dropped x, s is now str */
    assert_int_equal(renamed->schema->arrow.n_children, columns + 1);
    bool has_renamed = false;
    for (int64_t i = 0; i < renamed->schema->arrow.n_children; i++) {
        has_renamed |= is_named(renamed->schema->arrow.children[i], "str", "u");
        assert_string_not_equal(renamed->schema->arrow.children[i]->name, "x");
    }
    assert_true(has_renamed);
    lk_manifest_close(renamed);
    lk_manifest_close(first);
    lk_store_close(store);
}

static void a_cast_column_is_found_in_its_new_file_and_a_null_column_in_none(void **state)
{
    lk_store    *store = fixture_golden("lifecycle_2.1");
    lk_manifest *cast =
        read_version(store, 8, LK_MANIFEST_V2); /* y became int32 under a new id; z is all null */
    for (size_t i = 0; i < cast->schema->field_count; i++) {
        const lk_lance_field *field = &cast->schema->fields[i];
        for (size_t f = 0; f < cast->fragment_count; f++) {
            size_t  file = 0;
            int32_t column = -1;
            bool    found = lk_fragment_find(&cast->fragments[f], field->id, &file, &column);
            assert_int_equal(found, strcmp(field->arrow->name, "z") != 0);
            if (strcmp(field->arrow->name, "y") == 0) {
                assert_string_equal(field->arrow->format, "i");
                assert_int_not_equal(file, 0);
            }
        }
    }
    lk_manifest_close(cast);
    lk_store_close(store);
}

static void version_1_names_are_read_and_kept(void **state)
{
    lk_store  *store = fixture_golden("v1_manifest_names");
    lk_version latest = {0};
    lk_err     err = {0};
    bool       found = false;
    assert_int_equal(lk_versions_latest(store, &latest, &found, &err), LK_OK);
    assert_true(found);
    assert_int_equal(latest.number, 2);
    assert_int_equal(latest.naming, LK_MANIFEST_V1);
    lk_manifest *manifest = read_version(store, 2, LK_MANIFEST_V1);
    assert_int_equal(lk_manifest_rows(manifest), 15);
    assert_int_equal(lk_manifest_key_naming(manifest->key), LK_MANIFEST_V1);
    lk_manifest_close(manifest);
    lk_store_close(store);
}

static lk_bytes find_pair(const lk_metadata_pair *pairs, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++) {
        if (lk_bytes_equal(pairs[i].key, lk_bytes_of(key))) {
            return pairs[i].value;
        }
    }
    return (lk_bytes){0};
}

static void config_metadata_and_the_commit_message_are_there(void **state)
{
    lk_store    *store = fixture_golden("config_metadata");
    lk_manifest *manifest = read_version(store, 3, LK_MANIFEST_V2);
    assert_true(lk_bytes_equal(
        find_pair(manifest->config, manifest->config_count, "my.key"), LK_LITERAL("my value")));
    assert_true(lk_bytes_equal(
        find_pair(manifest->table_metadata, manifest->table_metadata_count, "tbl"), LK_LITERAL("meta")));
    struct ArrowStringView value = {0};
    assert_int_equal(
        ArrowMetadataGetValue(manifest->schema->arrow.metadata, ArrowCharView("schema_key"), &value), 0);
    assert_memory_equal(value.data, "schema_val", 10);
    assert_int_equal(
        ArrowMetadataGetValue(manifest->schema->arrow.children[0]->metadata, ArrowCharView("k"), &value), 0);
    assert_memory_equal(value.data, "fieldmeta", 9);
    assert_false((manifest->schema->arrow.children[0]->flags & ARROW_FLAG_NULLABLE) != 0);
    lk_manifest_close(manifest);

    lk_manifest   *first = read_version(store, 1, LK_MANIFEST_V2);
    lk_arena       arena = {0};
    lk_err         err = {0};
    lk_bytes       message = {0};
    lk_transaction transaction = {0};
    bool           found = false;
    assert_int_equal(lk_manifest_transaction(store, first, &arena, &message, &found, &err), LK_OK);
    assert_true(found);
    assert_int_equal(lk_pb_transaction_decode(message, &arena, &transaction, &err), LK_OK);
    assert_int_equal(transaction.operation, LK_OPERATION_OVERWRITE);
    assert_true(lk_bytes_equal(
        find_pair(transaction.properties, transaction.property_count, "__lance_commit_message"),
        LK_LITERAL("hello")));
    lk_arena_close(&arena);
    lk_manifest_close(first);
    lk_store_close(store);
}

static void operations_are_told_apart(void **state)
{
    static const struct {
        uint64_t     version;
        lk_operation operation;
    } expected[] = {{1, LK_OPERATION_OVERWRITE}, {2, LK_OPERATION_APPEND}, {3, LK_OPERATION_DELETE},
        {4, LK_OPERATION_MERGE}, {6, LK_OPERATION_PROJECT}, {7, LK_OPERATION_PROJECT},
        {9, LK_OPERATION_UPDATE}, {11, LK_OPERATION_RESERVE_FRAGMENTS}, {12, LK_OPERATION_REWRITE},
        {13, LK_OPERATION_RESTORE}};
    lk_store *store = fixture_golden("lifecycle_2.1");
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        lk_manifest   *manifest = read_version(store, expected[i].version, LK_MANIFEST_V2);
        lk_arena       arena = {0};
        lk_err         err = {0};
        lk_bytes       message = {0};
        lk_transaction transaction = {0};
        bool           found = false;
        assert_int_equal(lk_manifest_transaction(store, manifest, &arena, &message, &found, &err), LK_OK);
        assert_int_equal(lk_pb_transaction_decode(message, &arena, &transaction, &err), LK_OK);
        assert_string_equal(
            lk_operation_name(transaction.operation), lk_operation_name(expected[i].operation));
        lk_arena_close(&arena);
        lk_manifest_close(manifest);
    }
    lk_store_close(store);
}

/* -- names ------------------------------------------------------------------------------------------- */

static void names_of_both_schemes_are_told_apart_from_the_rest(void **state)
{
    uint64_t           version = 0;
    lk_manifest_naming naming = LK_MANIFEST_V1;
    assert_true(lk_manifest_parse_name(LK_LITERAL("18446744073709551614.manifest"), &version, &naming));
    assert_int_equal(version, 1);
    assert_int_equal(naming, LK_MANIFEST_V2);
    assert_true(lk_manifest_parse_name(LK_LITERAL("7.manifest"), &version, &naming));
    assert_int_equal(version, 7);
    assert_int_equal(naming, LK_MANIFEST_V1);
    static const char *const others[] = {"d9223372036854775809.manifest", ".tmp7.manifest", "7.manifest.tmp",
        ".manifest", "latest_version_hint.json", "18446744073709551616.manifest", "-1.manifest",
        "7a.manifest"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(lk_manifest_parse_name(lk_bytes_of(others[i]), &version, &naming));
    }
}

/* -- features ---------------------------------------------------------------------------------------- */

/* The object with `extra` behind its Manifest message; protobuf takes the last of a repeated scalar. */
static lk_buf with_extra(const lk_buf *object, lk_bytes extra)
{
    uint64_t position = lk_load_u64(object->data + object->size - 16);
    lk_buf   out = {0};
    lk_buf_append(&out, object->data, object->size - 16);
    lk_buf_append_bytes(&out, extra);
    lk_store_u32(out.data + position, (uint32_t)(out.size - position - 4));
    lk_buf_append(&out, object->data + object->size - 16, 16);
    return out;
}

static lk_rc parse_with(lk_bytes extra, lk_manifest **out, lk_err *err)
{
    lk_store *store = fixture_golden("lifecycle_2.1");
    lk_buf    object = fixture_object(store, "_versions/18446744073709551614.manifest");
    lk_buf    changed = with_extra(&object, extra);
    lk_rc     rc = lk_manifest_parse(lk_buf_view(&changed), LK_LITERAL("a test"), out, err);
    lk_buf_deinit(&changed);
    lk_buf_deinit(&object);
    lk_store_close(store);
    return rc;
}

static void expect_refused(lk_bytes extra, const char *feature)
{
    lk_manifest *manifest = NULL;
    lk_err       err = {0};
    assert_int_equal(parse_with(extra, &manifest, &err), LK_E_UNSUPPORTED_FORMAT);
    assert_non_null(strstr(err.detail, feature));
}

static void features_we_do_not_know_are_refused_by_name(void **state)
{
    expect_refused(LK_LITERAL("\x48\x40"), "data overlay files"); /* reader flag 6 */
    expect_refused(LK_LITERAL("\x48\x80\x20"), "fragment tree");  /* reader flag 12 */
    expect_refused(LK_LITERAL("\x48\x80\x80\x80\x01"), "unknown feature 21");
    expect_refused(LK_LITERAL("\xb2\x01\x00"), "a fragment tree"); /* field 22 present */
    expect_refused(LK_LITERAL("\x7a\x05\x12\x03"
                              "2.3"),
        "file version 2.3");
    expect_refused(LK_LITERAL("\x7a\x06\x0a\x04"
                              "lanc"),
        "data files other than Lance 2");
    expect_refused(LK_LITERAL("\x12\x06\x12\x02\x20\x00\x20\x01"), "data files of version 0.0");
    expect_refused(
        LK_LITERAL("\x12\x04\x5a\x00\x20\x01"), "data overlay files"); /* a fragment with field 11 */
}

static void writer_features_refuse_the_commit_not_the_reading(void **state)
{
    lk_manifest *manifest = NULL;
    lk_err       err = {0};
    assert_int_equal(parse_with(LK_LITERAL("\x50\x80\x80\x08"), &manifest, &err), LK_OK); /* writer flag 17 */
    assert_int_equal(lk_manifest_check_writable(manifest, &err), LK_E_UNSUPPORTED_FORMAT);
    assert_non_null(strstr(err.detail, "object metadata"));
    lk_manifest_close(manifest);
}

static void paths_that_leave_the_table_are_refused(void **state)
{
    static const char *const paths[] = {"../x", "a/../../x", "/etc/passwd", "a/..", ""};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        lk_manifest *manifest = NULL;
        lk_err       err = {0};
        char         fragment[64];
        size_t       length = strlen(paths[i]);
        int size = snprintf(fragment, sizeof fragment, "\x12%c\x12%c\x0a%c%s\x20\x02\x28\x01\x20\x01",
            (char)(length + 10), (char)(length + 6), (char)length, paths[i]);
        assert_int_equal(parse_with((lk_bytes){fragment, (size_t)size}, &manifest, &err), LK_E_CORRUPT_FILE);
    }
}

/* -- rewriting --------------------------------------------------------------------------------------- */

/* The fields of a message that a commit does not set, in order. */
static lk_buf kept_fields(lk_bytes message)
{
    static const uint32_t set[] = {3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 21, 23};
    lk_buf                out = {0};
    lk_wire_field         field = {0};
    while (message.size > 0) {
        assert_true(lk_wire_next(&message, &field));
        bool kept = true;
        for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) {
            kept &= field.number != set[i];
        }
        if (kept) {
            lk_buf_append_bytes(&out, field.whole);
        }
    }
    return out;
}

static void a_rewrite_keeps_unknown_fields_byte_for_byte(void **state)
{
    /* Field 200 at the top, and a fragment with unknown fields 77 (bytes) and 78 (varint) inside. */
    lk_bytes     extra = LK_LITERAL("\xc2\x0c\x03xyz\x12\x0b\x08\x63\x20\x05\xea\x04\x01Q\xf0\x04\x07");
    lk_manifest *manifest = NULL;
    lk_err       err = {0};
    assert_int_equal(parse_with(extra, &manifest, &err), LK_OK);
    assert_int_equal(manifest->fragments[manifest->fragment_count - 1].id, 99);

    lk_pb_new_version version = {.version = 2, .timestamp_ms = 1000};
    lk_buf            next = {0};
    assert_int_equal(lk_pb_manifest_append(manifest->body, &version, &next, &err), LK_OK);
    lk_buf before = kept_fields(manifest->body), after = kept_fields(lk_buf_view(&next));
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
    assert_non_null(memmem(next.data, next.size, extra.data, extra.size));
    lk_buf_deinit(&before);
    lk_buf_deinit(&after);
    lk_buf_deinit(&next);
    lk_manifest_close(manifest);
}

/* -- damage ------------------------------------------------------------------------------------------ */

static void a_cut_manifest_is_an_error(void **state)
{
    lk_store *store = fixture_golden("lifecycle_2.1");
    lk_buf    object = fixture_object(store, "_versions/18446744073709551606.manifest");
    for (size_t size = 0; size < object.size; size++) {
        lk_manifest *manifest = NULL;
        lk_err       err = {0};
        lk_bytes     cut = {object.data + (object.size - size), size};
        assert_int_equal(lk_manifest_parse((lk_bytes){object.data, size}, LK_LITERAL("cut"), &manifest, &err),
            LK_E_CORRUPT_FILE);
        err = (lk_err){0};
        lk_rc rc = lk_manifest_parse(cut, LK_LITERAL("cut"), &manifest, &err);
        assert_true(rc == LK_E_CORRUPT_FILE);
    }
    lk_buf_deinit(&object);
    lk_store_close(store);
}

static void a_flipped_byte_is_an_error_or_another_manifest_but_no_crash(void **state)
{
    lk_store *store = fixture_golden("lifecycle_2.1");
    lk_buf    object = fixture_object(store, "_versions/18446744073709551606.manifest");
    for (size_t i = 0; i < object.size * 8; i++) {
        lk_manifest *manifest = NULL;
        lk_err       err = {0};
        object.data[i / 8] = (char)(object.data[i / 8] ^ (1 << (i % 8)));
        if (lk_manifest_parse(lk_buf_view(&object), LK_LITERAL("flip"), &manifest, &err) == LK_OK) {
            lk_pb_new_version version = {.version = 2};
            lk_buf            next = {0};
            assert_int_equal(lk_pb_manifest_append(manifest->body, &version, &next, &err), LK_OK);
            lk_buf_deinit(&next);
            lk_manifest_close(manifest);
        }
        object.data[i / 8] = (char)(object.data[i / 8] ^ (1 << (i % 8)));
    }
    lk_buf_deinit(&object);
    lk_store_close(store);
}

static void a_message_that_asks_for_much_memory_is_refused(void **state)
{
    enum { COUNT = 1 << 20 }; /* a million empty fragments, two bytes each, would want 200 MB */
    lk_buf object = {0};
    lk_buf_append_zeros(&object, 4);
    for (size_t i = 0; i < COUNT; i++) {
        lk_buf_append(&object, "\x12\x00", 2);
    }
    lk_store_u32(object.data, (uint32_t)object.size - 4);
    lk_buf_append(&object, "\0\0\0\0\0\0\0\0\0\0\2\0LANC", 16);
    lk_manifest *manifest = NULL;
    lk_err       err = {0};
    assert_int_equal(
        lk_manifest_parse(lk_buf_view(&object), LK_LITERAL("bomb"), &manifest, &err), LK_E_CORRUPT_FILE);
    lk_buf_deinit(&object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version_has_the_rows_that_the_reference_counts),
        cmocka_unit_test(columns_follow_add_drop_rename_and_cast),
        cmocka_unit_test(a_cast_column_is_found_in_its_new_file_and_a_null_column_in_none),
        cmocka_unit_test(version_1_names_are_read_and_kept),
        cmocka_unit_test(config_metadata_and_the_commit_message_are_there),
        cmocka_unit_test(operations_are_told_apart),
        cmocka_unit_test(names_of_both_schemes_are_told_apart_from_the_rest),
        cmocka_unit_test(features_we_do_not_know_are_refused_by_name),
        cmocka_unit_test(writer_features_refuse_the_commit_not_the_reading),
        cmocka_unit_test(paths_that_leave_the_table_are_refused),
        cmocka_unit_test(a_rewrite_keeps_unknown_fields_byte_for_byte),
        cmocka_unit_test(a_cut_manifest_is_an_error),
        cmocka_unit_test(a_flipped_byte_is_an_error_or_another_manifest_but_no_crash),
        cmocka_unit_test(a_message_that_asks_for_much_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
