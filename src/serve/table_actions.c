/* table_actions.c - see table_actions.h. */
#include "serve/table_actions.h"

#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "base/json.h"
#include "base/limits.h"

/* -- create ------------------------------------------------------------------------------------------ */
static lk_rc requested_schema(const lk_json_texts *columns, bool has_columns, lk_bytes ipc, bool has_ipc,
    struct ArrowSchema *out, lk_err *err)
{
    if (has_columns == has_ipc) {
        lk_rc rc = lk_fail(err, LK_E_INVALID_REQUEST, "columns and schema_ipc_base64");
        lk_detail(err, "give either columns or schema_ipc_base64");
        return rc;
    }
    if (has_columns) {
        return lk_columns_parse(columns->items, columns->count, out, err);
    }
    if (ipc.size > LK_SCHEMA_IPC_BYTES_MAX) {
        lk_rc rc = lk_fail(err, LK_E_INVALID_SCHEMA, "schema of %zu bytes", ipc.size);
        lk_detail(err, "the schema may have at most %d bytes", LK_SCHEMA_IPC_BYTES_MAX);
        return rc;
    }
    return lk_ipc_schema_decode(ipc, out, err);
}

static lk_rc create_table(lk_authority *authority, const lk_principal *who, lk_bytes body, lk_arena *arena,
    lk_buf *result, lk_err *err)
{
    (void)result;
    lk_table_ref        table = {0};
    lk_json_texts       columns = {0};
    lk_bytes            ipc = {0};
    bool                has_columns = false, has_ipc = false;
    struct ArrowSchema  schema = {0};
    const lk_json_field fields[] = {
        {.name = "namespace", .type = LK_JSON_TEXT, .target = &table.ns},
        {.name = "name", .type = LK_JSON_TEXT, .target = &table.name},
        {.name = "columns",
            .type = LK_JSON_TEXTS,
            .target = &columns,
            .optional = true,
            .found = &has_columns},
        {.name = "schema_ipc_base64",
            .type = LK_JSON_BASE64,
            .target = &ipc,
            .optional = true,
            .found = &has_ipc},
    };
    lk_rc rc = lk_json_read(body, fields, sizeof fields / sizeof fields[0], arena, err);
    if (rc == LK_OK) {
        rc = requested_schema(&columns, has_columns, ipc, has_ipc, &schema, err);
    }
    if (rc == LK_OK) {
        rc = authority->ops->create_table(authority, who, table, &schema, err);
    }
    lk_schema_release(&schema);
    return rc;
}

/* -- drop and resolve -------------------------------------------------------------------------------- */
static lk_rc read_table(lk_bytes body, lk_arena *arena, lk_table_ref *out, lk_err *err)
{
    const lk_json_field fields[] = {
        {.name = "namespace", .type = LK_JSON_TEXT, .target = &out->ns},
        {.name = "name", .type = LK_JSON_TEXT, .target = &out->name},
    };
    return lk_json_read(body, fields, sizeof fields / sizeof fields[0], arena, err);
}

static lk_rc drop_table(lk_authority *authority, const lk_principal *who, lk_bytes body, lk_arena *arena,
    lk_buf *result, lk_err *err)
{
    (void)result;
    lk_table_ref table = {0};
    lk_rc        rc = read_table(body, arena, &table, err);
    return rc != LK_OK ? rc : authority->ops->drop_table(authority, who, table, err);
}

void lk_registration_write(const lk_registration *registration, lk_buf *out)
{
    lk_json_writer w = {.out = out};
    lk_json_object(&w);
    lk_json_key(&w, "location");
    lk_json_text(&w, registration->location);
    lk_json_key(&w, "engine");
    lk_json_text(&w, registration->engine);
    lk_json_key(&w, "current_version");
    lk_json_u64(&w, registration->version);
    lk_json_key(&w, "incarnation_id");
    lk_json_text(&w, registration->incarnation);
    lk_json_key(&w, "schema_ipc_base64");
    lk_json_base64(&w, registration->schema_ipc);
    lk_json_object_end(&w);
}

lk_rc lk_registration_read(
    lk_bytes json, lk_table_ref table, lk_arena *arena, lk_registration *out, lk_err *err)
{
    *out = (lk_registration){.table = table};
    const lk_json_field fields[] = {
        {.name = "location", .type = LK_JSON_TEXT, .target = &out->location},
        {.name = "engine", .type = LK_JSON_TEXT, .target = &out->engine},
        {.name = "current_version", .type = LK_JSON_U64, .target = &out->version},
        {.name = "incarnation_id", .type = LK_JSON_TEXT, .target = &out->incarnation},
        {.name = "schema_ipc_base64", .type = LK_JSON_BASE64, .target = &out->schema_ipc},
    };
    return lk_json_read(json, fields, sizeof fields / sizeof fields[0], arena, err);
}

static lk_rc resolve(lk_authority *authority, const lk_principal *who, lk_bytes body, lk_arena *arena,
    lk_buf *result, lk_err *err)
{
    lk_table_ref    table = {0};
    lk_registration registration = {0};
    lk_rc           rc = read_table(body, arena, &table, err);
    if (rc == LK_OK) {
        rc = authority->ops->resolve(authority, who, table, arena, &registration, err);
    }
    if (rc == LK_OK) {
        lk_registration_write(&registration, result);
    }
    return rc;
}

/* -- listings ----------------------------------------------------------------------------------------- */
static void write_names(lk_json_writer *w, const lk_name_page *page)
{
    lk_json_array(w);
    for (size_t i = 0; i < page->count; i++) {
        lk_json_text(w, page->names[i]);
    }
    lk_json_array_end(w);
}

static void write_page(const lk_name_page *page, lk_buf *out)
{
    lk_json_writer w = {.out = out};
    lk_json_object(&w);
    lk_json_key(&w, "names");
    write_names(&w, page);
    lk_json_key(&w, "continuation");
    if (page->continuation.size > 0) {
        lk_json_text(&w, page->continuation);
    } else {
        lk_json_null(&w);
    }
    lk_json_object_end(&w);
}

/* The one-shot forms never show a part: more than a page is refused. */
static lk_rc write_whole(const lk_name_page *page, const char *paged_action, lk_buf *out, lk_err *err)
{
    if (page->continuation.size > 0) {
        lk_rc rc = lk_fail(err, LK_E_LIMIT, "more than one page of names");
        lk_detail(err, "more than %d names; use %s", LK_PAGE_ITEMS_MAX, paged_action);
        return rc;
    }
    write_names(&(lk_json_writer){.out = out}, page);
    return LK_OK;
}

static lk_rc check_page(uint64_t limit, lk_bytes continuation, lk_err *err)
{
    if (limit < 1 || limit > LK_PAGE_ITEMS_MAX) {
        lk_rc rc = lk_fail(err, LK_E_INVALID_REQUEST, "limit %llu", (unsigned long long)limit);
        lk_detail(err, "limit must be 1 to %d", LK_PAGE_ITEMS_MAX);
        return rc;
    }
    if (continuation.size > LK_CONTINUATION_BYTES_MAX) {
        return lk_fail(err, LK_E_INVALID_REQUEST, "continuation of %zu bytes", continuation.size);
    }
    return LK_OK;
}

static lk_rc list_tables(lk_authority *authority, const lk_principal *who, lk_bytes body, lk_arena *arena,
    lk_buf *result, lk_err *err)
{
    lk_bytes            ns = {0};
    lk_name_page        page = {0};
    const lk_json_field fields[] = {{.name = "namespace", .type = LK_JSON_TEXT, .target = &ns}};
    lk_rc               rc = lk_json_read(body, fields, 1, arena, err);
    if (rc == LK_OK) {
        rc = authority->ops->list_tables(
            authority, who, ns, (lk_bytes){0}, LK_PAGE_ITEMS_MAX, arena, &page, err);
    }
    return rc != LK_OK ? rc : write_whole(&page, "list_tables_page", result, err);
}

static lk_rc list_tables_page(lk_authority *authority, const lk_principal *who, lk_bytes body,
    lk_arena *arena, lk_buf *result, lk_err *err)
{
    lk_bytes            ns = {0}, continuation = {0};
    uint64_t            limit = 0;
    lk_name_page        page = {0};
    const lk_json_field fields[] = {
        {.name = "namespace", .type = LK_JSON_TEXT, .target = &ns},
        {.name = "limit", .type = LK_JSON_U64, .target = &limit},
        {.name = "continuation", .type = LK_JSON_TEXT, .target = &continuation, .optional = true},
    };
    lk_rc rc = lk_json_read(body, fields, sizeof fields / sizeof fields[0], arena, err);
    if (rc == LK_OK) {
        rc = check_page(limit, continuation, err);
    }
    if (rc == LK_OK) {
        rc = authority->ops->list_tables(authority, who, ns, continuation, limit, arena, &page, err);
    }
    if (rc == LK_OK) {
        write_page(&page, result);
    }
    return rc;
}

static lk_rc list_namespaces(lk_authority *authority, const lk_principal *who, lk_bytes body, lk_arena *arena,
    lk_buf *result, lk_err *err)
{
    lk_name_page page = {0};
    if (body.size > 0 && !lk_bytes_equal(body, LK_LITERAL("{}"))) {
        return lk_fail(err, LK_E_INVALID_REQUEST, "list_namespaces takes no body");
    }
    lk_rc rc =
        authority->ops->list_namespaces(authority, who, (lk_bytes){0}, LK_PAGE_ITEMS_MAX, arena, &page, err);
    return rc != LK_OK ? rc : write_whole(&page, "list_namespaces_page", result, err);
}

static lk_rc list_namespaces_page(lk_authority *authority, const lk_principal *who, lk_bytes body,
    lk_arena *arena, lk_buf *result, lk_err *err)
{
    lk_bytes            continuation = {0};
    uint64_t            limit = 0;
    lk_name_page        page = {0};
    const lk_json_field fields[] = {
        {.name = "limit", .type = LK_JSON_U64, .target = &limit},
        {.name = "continuation", .type = LK_JSON_TEXT, .target = &continuation, .optional = true},
    };
    lk_rc rc = lk_json_read(body, fields, sizeof fields / sizeof fields[0], arena, err);
    if (rc == LK_OK) {
        rc = check_page(limit, continuation, err);
    }
    if (rc == LK_OK) {
        rc = authority->ops->list_namespaces(authority, who, continuation, limit, arena, &page, err);
    }
    if (rc == LK_OK) {
        write_page(&page, result);
    }
    return rc;
}

const lk_table_action lk_table_actions[] = {
    {"create_table", "create a table: {namespace, name, columns | schema_ipc_base64}", true, create_table},
    {"drop_table", "drop a table: {namespace, name}", true, drop_table},
    {"resolve", "a table's registration: {namespace, name}", true, resolve},
    {"list_tables", "names of a namespace's tables, at most one page: {namespace}", true, list_tables},
    {"list_tables_page", "one page of table names: {namespace, limit, continuation?}", true,
        list_tables_page},
    {"list_namespaces", "names of the namespaces, at most one page", false, list_namespaces},
    {"list_namespaces_page", "one page of namespaces: {limit, continuation?}", false, list_namespaces_page},
};
const size_t lk_table_action_count = sizeof lk_table_actions / sizeof lk_table_actions[0];

const lk_table_action *lk_table_action_find(lk_bytes type)
{
    for (size_t i = 0; i < lk_table_action_count; i++) {
        if (lk_bytes_equal(type, lk_bytes_of(lk_table_actions[i].type))) {
            return &lk_table_actions[i];
        }
    }
    return NULL;
}
