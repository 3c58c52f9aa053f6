/*
 * schema_test.c - logical types as pylance spells them (taken from manifests it wrote) and the Arrow types
 * it reads them as; field ids; what a table cannot hold.
 */
#include "lance/schema.h"

#include "arrow/schema.h"
#include "lance/logical_type.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
    const char *logical, *arrow;
} pairs[] = {
    {"null", "null"},
    {"bool", "bool"},
    {"int8", "int8"},
    {"uint16", "uint16"},
    {"int64", "int64"},
    {"halffloat", "float16"},
    {"float", "float32"},
    {"double", "float64"},
    {"string", "utf8"},
    {"large_string", "large_utf8"},
    {"binary", "binary"},
    {"large_binary", "large_binary"},
    {"date32:day", "date32"},
    {"date64:ms", "date64"},
    {"time32:ms", "time32[ms]"},
    {"time64:us", "time64[us]"},
    {"timestamp:us:-", "timestamp[us]"},
    {"timestamp:ns:Europe/Paris", "timestamp[ns,Europe/Paris]"},
    {"timestamp:s:+02:00", "timestamp[s,+02:00]"},
    {"duration:ms", "duration[ms]"},
    {"decimal:128:10:2", "decimal128(10,2)"},
    {"decimal:256:50:-3", "decimal256(50,-3)"},
    {"fixed_size_binary:16", "fixed_size_binary(16)"},
    {"fixed_size_list:float:768", "fixed_size_list<float32?>(768)"},
    {"fixed_size_list:fixed_size_list:uint8:4:3", "fixed_size_list<fixed_size_list<uint8?>(4)?>(3)"},
};

static void every_logical_type_has_its_arrow_type_and_back(void **state)
{
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        lk_arena           arena = {0};
        lk_err             err = {0};
        struct ArrowSchema parsed = {0}, expected = {0};
        bool               has_fields = true;
        lk_bytes           name = {0};
        assert_int_equal(lk_type_parse(lk_bytes_of(pairs[i].arrow), LK_LITERAL("c"), &expected, &err), LK_OK);
        ArrowSchemaInit(&parsed);
        assert_int_equal(
            lk_logical_type_parse(lk_bytes_of(pairs[i].logical), &parsed, &has_fields, &err), LK_OK);
        assert_false(has_fields);
        assert_string_equal(parsed.format, expected.format);
        assert_int_equal(parsed.n_children, expected.n_children);
        assert_true(lk_logical_type_of(&expected, &arena, &name, &has_fields));
        assert_int_equal(name.size, strlen(pairs[i].logical));
        assert_memory_equal(name.data, pairs[i].logical, name.size);
        lk_schema_release(&parsed);
        lk_schema_release(&expected);
        lk_arena_close(&arena);
    }
}

static void names_we_do_not_know_are_refused(void **state)
{
    static const char *const names[] = {"", "int128", "timestamp:", "timestamp:h:-", "decimal:64:5:2",
        "decimal:128:39:0", "decimal:128:x:0", "fixed_size_list:float", "fixed_size_list:list:3", "time32:us",
        "fixed_size_binary:-1", "fixed_size_list:float:99999999999", "dict:string:double:false", "dict:int8",
        "fixed_size_list:fixed_size_list:fixed_size_list:fixed_size_list:fixed_size_list:fixed_size_list:"
        "fixed_size_list:fixed_size_list:fixed_size_list:fixed_size_list:int8:1:1:1:1:1:1:1:1:1:1"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        lk_err             err = {0};
        bool               has_fields = false;
        struct ArrowSchema out = {0};
        ArrowSchemaInit(&out);
        assert_int_equal(
            lk_logical_type_parse(lk_bytes_of(names[i]), &out, &has_fields, &err), LK_E_UNSUPPORTED_FORMAT);
        lk_schema_release(&out);
    }
}

static void parse_columns(const char *const *columns, size_t count, struct ArrowSchema *out)
{
    lk_err err = {0};
    lk_schema_start(out, count);
    for (size_t i = 0; i < count; i++) {
        if (lk_column_parse(lk_bytes_of(columns[i]), out->children[i], &err) != LK_OK) {
            fail_msg("%s: %s", columns[i], err.detail);
        }
    }
}

static void ids_are_given_in_pre_order_and_leaves_own_columns(void **state)
{
    static const char *const columns[] = {"a:int64",
        "s:struct<x:int32?,t:struct<y:utf8>?,v:fixed_size_list<float32?>(4)>?", "b:timestamp[us,UTC]?"};
    static const struct {
        const char *name;
        int32_t     id, parent;
        size_t      end;
        unsigned    depth;
        bool        leaf;
    } expected[] = {
        {"a", 0, -1, 1, 0, true},
        {"s", 1, -1, 6, 0, false},
        {"x", 2, 1, 3, 1, true},
        {"t", 3, 1, 5, 1, false},
        {"y", 4, 3, 5, 2, true},
        {"v", 5, 1, 6, 1, true},
        {"b", 6, -1, 7, 0, true},
    };
    struct ArrowSchema arrow = {0};
    lk_lance_schema   *schema = NULL;
    lk_err             err = {0};
    parse_columns(columns, 3, &arrow);
    assert_int_equal(lk_lance_schema_from_arrow(&arrow, &schema, &err), LK_OK);
    assert_int_equal(schema->field_count, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < schema->field_count; i++) {
        const lk_lance_field *field = &schema->fields[i];
        assert_string_equal(field->arrow->name, expected[i].name);
        assert_int_equal(field->id, expected[i].id);
        assert_int_equal(field->parent_id, expected[i].parent);
        assert_int_equal(field->end, expected[i].end);
        assert_int_equal(field->depth, expected[i].depth);
        assert_int_equal(field->leaf, expected[i].leaf);
        assert_int_equal(lk_lance_schema_find(schema, expected[i].id), i);
    }
    assert_int_equal(schema->top[0], 0);
    assert_int_equal(schema->top[1], 1);
    assert_int_equal(schema->top[2], 6);
    assert_int_equal(lk_schema_compare(&arrow, &schema->arrow, LK_SCHEMA_EXACT, &err), LK_OK);
    lk_lance_schema_close(schema);
    lk_schema_release(&arrow);
}

static void a_type_that_lance_cannot_hold_is_refused_by_column(void **state)
{
    static const char *const columns[] = {"ok:int64", "gap:month_interval?"};
    struct ArrowSchema       arrow = {0};
    lk_lance_schema         *schema = NULL;
    lk_err                   err = {0};
    parse_columns(columns, 2, &arrow);
    assert_int_equal(lk_lance_schema_from_arrow(&arrow, &schema, &err), LK_E_INVALID_SCHEMA);
    assert_non_null(strstr(err.detail, "gap"));
    lk_schema_release(&arrow);
}

static lk_rc from_records(const lk_field_record *records, size_t count)
{
    lk_lance_schema *schema = NULL;
    lk_err           err = {0};
    lk_rc            rc = lk_lance_schema_from_records(records, count, NULL, 0, &schema, &err);
    lk_lance_schema_close(schema);
    return rc;
}

#define FIELD(field_id, parent, type)                                                   \
    {                                                                                   \
        .name = {"f", 1}, .logical_type = {(type), sizeof(type) - 1}, .id = (field_id), \
        .parent_id = (parent)                                                           \
    }

static void records_that_make_no_tree_are_corrupt(void **state)
{
    const lk_field_record twice[] = {FIELD(0, -1, "int64"), FIELD(0, -1, "int64")};
    const lk_field_record negative[] = {FIELD(-2, -1, "int64")};
    const lk_field_record orphan[] = {FIELD(0, 7, "int64")};
    const lk_field_record own_parent[] = {FIELD(3, 3, "struct")};
    const lk_field_record cycle[] = {FIELD(0, 1, "struct"), FIELD(1, 0, "struct")};
    const lk_field_record two_items[] = {FIELD(0, -1, "list"), FIELD(1, 0, "int8"), FIELD(2, 0, "int8")};
    const lk_field_record no_item[] = {FIELD(0, -1, "list")};
    const lk_field_record leaf_with_child[] = {FIELD(0, -1, "int8"), FIELD(1, 0, "int8")};
    assert_int_equal(from_records(twice, 2), LK_E_CORRUPT_FILE);
    assert_int_equal(from_records(negative, 1), LK_E_CORRUPT_FILE);
    assert_int_equal(from_records(orphan, 1), LK_E_CORRUPT_FILE);
    assert_int_equal(from_records(own_parent, 1), LK_E_CORRUPT_FILE);
    assert_int_equal(from_records(cycle, 2), LK_E_CORRUPT_FILE);
    assert_int_equal(from_records(two_items, 3), LK_E_CORRUPT_FILE);
    assert_int_equal(from_records(no_item, 1), LK_E_CORRUPT_FILE);
    assert_int_equal(from_records(leaf_with_child, 2), LK_E_CORRUPT_FILE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_logical_type_has_its_arrow_type_and_back),
        cmocka_unit_test(names_we_do_not_know_are_refused),
        cmocka_unit_test(ids_are_given_in_pre_order_and_leaves_own_columns),
        cmocka_unit_test(a_type_that_lance_cannot_hold_is_refused_by_column),
        cmocka_unit_test(records_that_make_no_tree_are_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
