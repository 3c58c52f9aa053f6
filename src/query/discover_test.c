/* discover_test.c - catalogs, schemas, tables and types; columns and codes are those of FlightSql.proto (Apache Arrow)
 * and java.sql.Types. */
#include "query/discover.h"

#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "query/authority_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const lk_principal admin = {.id = {"admin", 5}, .tenant = {"lab", 3}, .role = LK_ROLE_ADMIN};
static lk_bytes           granted[] = {{"arm", 3}, {"leg", 3}};
static const lk_principal user = {.id = {"user", 4},
    .tenant = {"lab", 3},
    .role = LK_ROLE_USER,
    .namespaces = granted,
    .namespace_count = 2};

typedef struct fixture {
    fake_authority    authority;
    lk_manual_clock   clock;
    lk_config         config;
    lk_catalog_cache *cache;
    lk_query         *query;
    lk_err            err;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    fake_authority_init(&f->authority);
    fake_authority_add(&f->authority, "arm", "grips", "n:int64 s:utf8?");
    fake_authority_add(&f->authority, "arm", "stepsX1", "n:int64");
    fake_authority_add(&f->authority, "arm", "steps_1", "n:int64");
    fake_authority_add(&f->authority, "head", "eyes", "n:int64");
    fake_authority_add(&f->authority, "leg", "steps", "n:int64");
    lk_manual_clock_init(&f->clock, 1764492300000u);
    f->config = (lk_config){.discovery_rows_max = 4,
        .query_max_concurrent = 1,
        .query_max_per_tenant = 1,
        .query_queue_timeout_ms = 1};
    const lk_catalog_cache_options cache = {&f->authority.base, &admin, &f->clock.base};
    assert_int_equal(lk_catalog_cache_open(&f->cache, &cache, &f->err), LK_OK);
    const lk_query_options options = {.authority = &f->authority.base,
        .cache = f->cache,
        .clock = &f->clock.base,
        .random = lk_random_os(),
        .config = &f->config};
    f->query = lk_query_open(&options);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    lk_query_close(f->query);
    lk_catalog_cache_close(f->cache);
    fake_authority_deinit(&f->authority);
    free(f);
    return 0;
}

/* The rows' texts, columns apart by '.', rows by ' '; binary columns are checked to be schemas and left out. */
static lk_rc read_texts(lk_batches *rows, lk_buf *out, lk_err *err)
{
    lk_buf_append_text(out, "");
    for (;;) {
        struct ArrowArray     batch = {0};
        struct ArrowArrayView view;
        lk_rc                 rc = lk_batches_next(rows, &batch, err);
        if (rc != LK_OK || batch.release == NULL) {
            return rc;
        }
        assert_int_equal(ArrowArrayViewInitFromSchema(&view, &rows->schema, NULL), NANOARROW_OK);
        assert_int_equal(ArrowArrayViewSetArray(&view, &batch, NULL), NANOARROW_OK);
        assert_int_equal(ArrowArrayViewValidate(&view, NANOARROW_VALIDATION_LEVEL_FULL, NULL), NANOARROW_OK);
        for (int64_t row = 0; row < batch.length; row++) {
            lk_buf_append_text(out, out->size > 0 ? " " : "");
            for (int64_t i = 0; i < batch.n_children; i++) {
                struct ArrowStringView text = ArrowArrayViewGetStringUnsafe(view.children[i], row);
                if (view.children[i]->storage_type == NANOARROW_TYPE_BINARY) {
                    struct ArrowSchema schema = {0};
                    lk_bytes           message = {text.data, (size_t)text.size_bytes};
                    assert_int_equal(lk_ipc_schema_decode(message, &schema, err), LK_OK);
                    assert_string_equal(schema.children[0]->name, "n");
                    lk_schema_release(&schema);
                } else {
                    lk_buf_format(out, "%s%.*s", i > 0 ? "." : "", (int)text.size_bytes, text.data);
                }
            }
        }
        ArrowArrayViewReset(&view);
        lk_array_release(&batch);
    }
}

static void expect(fixture *f, const lk_principal *who, lk_discovery what, const lk_discover_filter *filter,
    lk_rc expected_rc, const char *expected)
{
    lk_batches *rows = NULL;
    lk_buf      text = {0};
    f->err = (lk_err){0};
    assert_int_equal(lk_discover(f->query, who, what, filter, &rows, &f->err), LK_OK);
    assert_int_equal(read_texts(rows, &text, &f->err), expected_rc);
    assert_string_equal(text.data == NULL ? "" : text.data, expected);
    lk_buf_deinit(&text);
    lk_batches_close(rows);
}

static void there_is_one_catalog_and_one_table_type(void **state)
{
    expect(*state, &user, LK_DISCOVER_CATALOGS, NULL, LK_OK, "lake");
    expect(*state, &user, LK_DISCOVER_TABLE_TYPES, NULL, LK_OK, "TABLE");
    expect(*state, &user, LK_DISCOVER_PRIMARY_KEYS, NULL, LK_OK, "");
    expect(*state, &user, LK_DISCOVER_FOREIGN_KEYS, NULL, LK_OK, "");
}

static void schemas_are_named_once_and_only_those_granted(void **state)
{
    expect(*state, &admin, LK_DISCOVER_SCHEMAS, NULL, LK_OK, "lake.arm lake.head lake.leg");
    expect(*state, &user, LK_DISCOVER_SCHEMAS, NULL, LK_OK, "lake.arm lake.leg");
    const lk_discover_filter legs = {.schema_pattern = LK_LITERAL("l_g")};
    expect(*state, &user, LK_DISCOVER_SCHEMAS, &legs, LK_OK, "lake.leg");
    const lk_discover_filter other = {.catalog = LK_LITERAL("iceberg")},
                             ours = {.catalog = LK_LITERAL("lake")};
    expect(*state, &user, LK_DISCOVER_SCHEMAS, &other, LK_OK, "");
    expect(*state, &user, LK_DISCOVER_SCHEMAS, &ours, LK_OK, "lake.arm lake.leg");
}

static void tables_are_filtered_by_grant_pattern_and_type(void **state)
{
    expect(*state, &user, LK_DISCOVER_TABLES, NULL, LK_OK,
        "lake.arm.grips.TABLE lake.arm.stepsX1.TABLE lake.arm.steps_1.TABLE lake.leg.steps.TABLE");
    const lk_discover_filter arm = {
        .schema_pattern = LK_LITERAL("arm"), .table_pattern = LK_LITERAL("steps%")};
    expect(*state, &user, LK_DISCOVER_TABLES, &arm, LK_OK, "lake.arm.stepsX1.TABLE lake.arm.steps_1.TABLE");
    const lk_discover_filter escaped = {.table_pattern = LK_LITERAL("steps\\_1")};
    expect(*state, &user, LK_DISCOVER_TABLES, &escaped, LK_OK, "lake.arm.steps_1.TABLE");
    const lk_discover_filter denied = {.schema_pattern = LK_LITERAL("head")};
    expect(*state, &user, LK_DISCOVER_TABLES, &denied, LK_OK, "");
    const lk_bytes           types[] = {LK_LITERAL("VIEW"), LK_LITERAL("TABLE")};
    const lk_discover_filter views = {.table_types = types, .table_type_count = 1};
    expect(*state, &user, LK_DISCOVER_TABLES, &views, LK_OK, "");
    const lk_discover_filter both = {
        .table_types = types, .table_type_count = 2, .schema_pattern = LK_LITERAL("leg")};
    expect(*state, &user, LK_DISCOVER_TABLES, &both, LK_OK, "lake.leg.steps.TABLE");
    const lk_discover_filter empty = {
        .table_pattern = LK_LITERAL("")}; /* matches the empty name, which none has */
    expect(*state, &user, LK_DISCOVER_TABLES, &empty, LK_OK, "");
}

static void schemas_of_tables_come_when_asked_for(void **state)
{
    const lk_discover_filter with = {.include_schema = true, .schema_pattern = LK_LITERAL("arm")};
    expect(*state, &user, LK_DISCOVER_TABLES, &with, LK_OK,
        "lake.arm.grips.TABLE lake.arm.stepsX1.TABLE lake.arm.steps_1.TABLE");
}

static void a_schema_that_cannot_be_decoded_fails_only_those_who_ask_for_it(void **state)
{
    fixture *f = *state;
    fake_authority_add(&f->authority, "leg", "torn", NULL);
    lk_discover_filter legs = {.schema_pattern = LK_LITERAL("leg")};
    expect(f, &user, LK_DISCOVER_TABLES, &legs, LK_OK, "lake.leg.steps.TABLE lake.leg.torn.TABLE");
    legs.include_schema = true;
    expect(f, &user, LK_DISCOVER_TABLES, &legs, LK_E_CORRUPT_RECORD, "");
}

static void more_rows_than_allowed_end_in_an_error_that_says_what_to_do(void **state)
{
    fixture *f = *state;
    expect(f, &admin, LK_DISCOVER_TABLES, NULL, LK_E_DISCOVERY_ROWS,
        "lake.arm.grips.TABLE lake.arm.stepsX1.TABLE lake.arm.steps_1.TABLE lake.head.eyes.TABLE");
    assert_non_null(strstr(f->err.detail, "narrow"));
}

static void a_new_table_is_listed_once_the_cache_was_told(void **state)
{
    fixture                 *f = *state;
    const lk_discover_filter legs = {.schema_pattern = LK_LITERAL("leg")};
    expect(f, &user, LK_DISCOVER_TABLES, &legs, LK_OK, "lake.leg.steps.TABLE");
    fake_authority_add(&f->authority, "leg", "toes", "n:int64");
    lk_catalog_cache_changed(f->cache, (lk_table_ref){LK_LITERAL("leg"), LK_LITERAL("toes")});
    expect(f, &user, LK_DISCOVER_TABLES, &legs, LK_OK, "lake.leg.steps.TABLE lake.leg.toes.TABLE");
}

static void the_columns_are_those_of_the_specification(void **state)
{
    (void)state;
    static const struct {
        lk_discovery what;
        bool         include_schema;
        const char  *columns;
    } rows[] = {
        {LK_DISCOVER_CATALOGS, false, "catalog_name:utf8"},
        {LK_DISCOVER_SCHEMAS, false, "catalog_name:utf8? db_schema_name:utf8"},
        {LK_DISCOVER_TABLES, false,
            "catalog_name:utf8? db_schema_name:utf8? table_name:utf8 table_type:utf8"},
        {LK_DISCOVER_TABLES, true,
            "catalog_name:utf8? db_schema_name:utf8? table_name:utf8 table_type:utf8 table_schema:binary"},
        {LK_DISCOVER_TABLE_TYPES, false, "table_type:utf8"},
        {LK_DISCOVER_PRIMARY_KEYS, false,
            "catalog_name:utf8? db_schema_name:utf8? table_name:utf8 column_name:utf8 key_name:utf8? "
            "key_sequence:int32"},
        {LK_DISCOVER_FOREIGN_KEYS, false,
            "pk_catalog_name:utf8? pk_db_schema_name:utf8? pk_table_name:utf8 pk_column_name:utf8 "
            "fk_catalog_name:utf8? "
            "fk_db_schema_name:utf8? fk_table_name:utf8 fk_column_name:utf8 key_sequence:int32 "
            "fk_key_name:utf8? "
            "pk_key_name:utf8? update_rule:uint8 delete_rule:uint8"},
        {LK_DISCOVER_TYPE_INFO, false,
            "type_name:utf8 data_type:int32 column_size:int32? literal_prefix:utf8? literal_suffix:utf8? "
            "create_params:list<utf8>? nullable:int32 case_sensitive:bool searchable:int32 "
            "unsigned_attribute:bool? "
            "fixed_prec_scale:bool auto_increment:bool? local_type_name:utf8? minimum_scale:int32? "
            "maximum_scale:int32? "
            "sql_data_type:int32 datetime_subcode:int32? num_prec_radix:int32? interval_precision:int32?"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct ArrowSchema schema = {0};
        lk_buf             text = {0};
        lk_discover_schema(rows[i].what, rows[i].include_schema, &schema);
        for (int64_t c = 0; c < schema.n_children; c++) {
            lk_buf_format(&text, "%s%s:", c > 0 ? " " : "", schema.children[c]->name);
            lk_type_format(schema.children[c], &text);
            lk_buf_append_text(&text, schema.children[c]->flags & ARROW_FLAG_NULLABLE ? "?" : "");
        }
        assert_string_equal(text.data, rows[i].columns);
        lk_buf_deinit(&text);
        lk_schema_release(&schema);
    }
}

static void patterns_match_as_like_does(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *text;
        bool        matches;
    } rows[] = {
        {"", "", true},
        {"", "a", false},
        {"%", "", true},
        {"%", "abc", true},
        {"a", "a", true},
        {"a", "A", false},
        {"a_c", "abc", true},
        {"a_c", "ac", false},
        {"_", "\xc3\xbc", true},
        {"__", "\xc3\xbc", false},
        {"%b%", "abc", true},
        {"%b", "abc", false},
        {"a%c%e", "abcde", true},
        {"a%c%e", "abcdef", false},
        {"%aab", "aaab", true},
        {"a\\%", "a%", true},
        {"a\\%", "ab", false},
        {"a\\\\", "a\\", true},
        {"\\", "\\", true},
        {"%%%a", "a", true},
        {"a%%", "a", true},
        {"%a%a%a%a%a%a%a%ab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (lk_pattern_matches(lk_bytes_of(rows[i].pattern), lk_bytes_of(rows[i].text)) != rows[i].matches) {
            fail_msg("'%s' against '%s'", rows[i].pattern, rows[i].text);
        }
    }
}

/* Codes of the rows, and their names apart by blanks. */
static size_t read_types(int64_t wanted, int64_t *codes, lk_buf *names)
{
    lk_err                err = {0};
    struct ArrowArray     batch = {0};
    struct ArrowArrayView view;
    lk_batches           *rows = lk_discover_type_info(wanted);
    assert_int_equal(lk_batches_next(rows, &batch, &err), LK_OK);
    size_t count = batch.release == NULL ? 0 : (size_t)batch.length;
    lk_buf_append_text(names, "");
    if (count > 0) {
        assert_int_equal(ArrowArrayViewInitFromSchema(&view, &rows->schema, NULL), NANOARROW_OK);
        assert_int_equal(ArrowArrayViewSetArray(&view, &batch, NULL), NANOARROW_OK);
        assert_int_equal(ArrowArrayViewValidate(&view, NANOARROW_VALIDATION_LEVEL_FULL, NULL), NANOARROW_OK);
        for (size_t i = 0; i < count; i++) {
            struct ArrowStringView name = ArrowArrayViewGetStringUnsafe(view.children[0], (int64_t)i);
            codes[i] = ArrowArrayViewGetIntUnsafe(view.children[1], (int64_t)i);
            lk_buf_format(names, "%s%.*s", i > 0 ? " " : "", (int)name.size_bytes, name.data);
        }
        ArrowArrayViewReset(&view);
        lk_array_release(&batch);
    }
    lk_batches_close(rows);
    return count;
}

static void types_ascend_by_their_code_and_one_code_can_be_asked_for(void **state)
{
    (void)state;
    enum { INTEGER = 4, VARCHAR = 12, NONE = 2000 };
    int64_t codes[64];
    lk_buf  names = {0};
    size_t  count = read_types(INT64_MAX, codes, &names);
    assert_in_range(count, 10, 64);
    for (size_t i = 1; i < count; i++) {
        assert_true(codes[i - 1] <= codes[i]);
    }
    lk_buf_clear(&names);
    assert_int_equal(read_types(VARCHAR, codes, &names), 1);
    assert_string_equal(names.data, "VARCHAR");
    lk_buf_clear(&names);
    assert_int_equal(read_types(INTEGER, codes, &names), 2);
    assert_string_equal(names.data, "INTEGER UINTEGER");
    assert_int_equal(read_types(NONE, codes, &names), 0);
    lk_buf_deinit(&names);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(there_is_one_catalog_and_one_table_type),
        T(schemas_are_named_once_and_only_those_granted),
        T(tables_are_filtered_by_grant_pattern_and_type),
        T(schemas_of_tables_come_when_asked_for),
        T(a_schema_that_cannot_be_decoded_fails_only_those_who_ask_for_it),
        T(more_rows_than_allowed_end_in_an_error_that_says_what_to_do),
        T(a_new_table_is_listed_once_the_cache_was_told),
        cmocka_unit_test(the_columns_are_those_of_the_specification),
        cmocka_unit_test(patterns_match_as_like_does),
        cmocka_unit_test(types_ascend_by_their_code_and_one_code_can_be_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
