/* discover.c - see discover.h. Column lists follow the comments of FlightSql.proto (Apache Arrow). */
#include "query/discover.h"

#include "query/listing.h"
#include "query/rows.h"

#include <stdlib.h>

enum { COLUMNS_MAX = 20 };

#define TEXT(name)                         \
    {                                      \
        name, NANOARROW_TYPE_STRING, false \
    }
#define TEXT_OR_NULL(name)                \
    {                                     \
        name, NANOARROW_TYPE_STRING, true \
    }
#define INT(name)                         \
    {                                     \
        name, NANOARROW_TYPE_INT32, false \
    }
#define INT_OR_NULL(name)                \
    {                                    \
        name, NANOARROW_TYPE_INT32, true \
    }
#define BOOL(name)                       \
    {                                    \
        name, NANOARROW_TYPE_BOOL, false \
    }
#define BOOL_OR_NULL(name)              \
    {                                   \
        name, NANOARROW_TYPE_BOOL, true \
    }
#define BYTE(name)                        \
    {                                     \
        name, NANOARROW_TYPE_UINT8, false \
    }

static const lk_row_column shapes[][COLUMNS_MAX] = {
    [LK_DISCOVER_CATALOGS] = {TEXT("catalog_name")},
    [LK_DISCOVER_SCHEMAS] = {TEXT_OR_NULL("catalog_name"), TEXT("db_schema_name")},
    [LK_DISCOVER_TABLES] = {TEXT_OR_NULL("catalog_name"), TEXT_OR_NULL("db_schema_name"), TEXT("table_name"),
        TEXT("table_type"), {"table_schema", NANOARROW_TYPE_BINARY, false}},
    [LK_DISCOVER_TABLE_TYPES] = {TEXT("table_type")},
    [LK_DISCOVER_TYPE_INFO] = {TEXT("type_name"), INT("data_type"), INT_OR_NULL("column_size"),
        TEXT_OR_NULL("literal_prefix"), TEXT_OR_NULL("literal_suffix"),
        {"create_params", NANOARROW_TYPE_LIST, true}, INT("nullable"), BOOL("case_sensitive"),
        INT("searchable"), BOOL_OR_NULL("unsigned_attribute"), BOOL("fixed_prec_scale"),
        BOOL_OR_NULL("auto_increment"), TEXT_OR_NULL("local_type_name"), INT_OR_NULL("minimum_scale"),
        INT_OR_NULL("maximum_scale"), INT("sql_data_type"), INT_OR_NULL("datetime_subcode"),
        INT_OR_NULL("num_prec_radix"), INT_OR_NULL("interval_precision")},
    [LK_DISCOVER_PRIMARY_KEYS] = {TEXT_OR_NULL("catalog_name"), TEXT_OR_NULL("db_schema_name"),
        TEXT("table_name"), TEXT("column_name"), TEXT_OR_NULL("key_name"), INT("key_sequence")},
    [LK_DISCOVER_FOREIGN_KEYS] = {TEXT_OR_NULL("pk_catalog_name"), TEXT_OR_NULL("pk_db_schema_name"),
        TEXT("pk_table_name"), TEXT("pk_column_name"), TEXT_OR_NULL("fk_catalog_name"),
        TEXT_OR_NULL("fk_db_schema_name"), TEXT("fk_table_name"), TEXT("fk_column_name"), INT("key_sequence"),
        TEXT_OR_NULL("fk_key_name"), TEXT_OR_NULL("pk_key_name"), BYTE("update_rule"), BYTE("delete_rule")},
};

void lk_discover_schema(lk_discovery what, bool include_schema, struct ArrowSchema *out)
{
    size_t count = 0;
    while (count < COLUMNS_MAX && shapes[what][count].name != NULL) {
        count++;
    }
    lk_rows_schema(shapes[what], what == LK_DISCOVER_TABLES && !include_schema ? count - 1 : count, out);
}

/* Iterative, with one backtracking point: the last % that matched so far. */
bool lk_pattern_matches(lk_bytes pattern, lk_bytes text)
{
    size_t p = 0, t = 0, star = SIZE_MAX, resume = 0;
    while (t < text.size) {
        bool escaped = p + 1 < pattern.size && pattern.data[p] == '\\';
        char want = p < pattern.size ? pattern.data[p + escaped] : '\0';
        if (p < pattern.size && !escaped && want == '%') {
            star = p++;
            resume = t;
        } else if (p < pattern.size && ((!escaped && want == '_') || want == text.data[t])) {
            bool any = !escaped && want == '_';
            p += 1 + (size_t)escaped;
            do { /* one character of UTF-8 for _, one byte else */
                t++;
            } while (any && t < text.size && ((unsigned char)text.data[t] & 0xC0) == 0x80);
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++resume;
        } else {
            return false;
        }
    }
    while (p < pattern.size && pattern.data[p] == '%') {
        p++;
    }
    return p == pattern.size;
}

/* -- schemas and tables from the listing ------------------------------------------------------------- */
typedef struct walk {
    lk_listing         *listing;
    const lk_principal *who;
    lk_arena            arena; /* the filter's texts */
    lk_discover_filter  filter;
    lk_bytes            last_namespace;
    size_t              at;
} walk;

static bool passes(lk_bytes pattern, lk_bytes text)
{
    return pattern.data == NULL || lk_pattern_matches(pattern, text);
}

static const lk_registration *next_visible(walk *w)
{
    while (w->at < lk_listing_count(w->listing)) {
        const lk_registration *item = lk_listing_at(w->listing, w->at++);
        if (lk_principal_may_use(w->who, item->table.ns) &&
            passes(w->filter.schema_pattern, item->table.ns)) {
            return item;
        }
    }
    return NULL;
}

static lk_rc next_schema(void *context, struct ArrowArray *batch, bool *more, lk_err *err)
{
    (void)err;
    walk                  *w = context;
    const lk_registration *item = next_visible(w);
    while (item != NULL && lk_bytes_equal(item->table.ns, w->last_namespace)) {
        item = next_visible(w);
    }
    *more = item != NULL;
    if (item != NULL) {
        w->last_namespace = item->table.ns;
        lk_row_text(batch->children[0], LK_LITERAL("lake"));
        lk_row_text(batch->children[1], item->table.ns);
    }
    return LK_OK;
}

static lk_rc next_table(void *context, struct ArrowArray *batch, bool *more, lk_err *err)
{
    walk                  *w = context;
    const lk_registration *item = next_visible(w);
    while (item != NULL && !passes(w->filter.table_pattern, item->table.name)) {
        item = next_visible(w);
    }
    *more = item != NULL;
    if (item == NULL) {
        return LK_OK;
    }
    if (w->filter.include_schema && lk_listing_schema(w->listing, w->at - 1) == NULL) {
        return lk_fail(err, LK_E_CORRUPT_RECORD, "a table's schema cannot be decoded");
    }
    lk_row_text(batch->children[0], LK_LITERAL("lake"));
    lk_row_text(batch->children[1], item->table.ns);
    lk_row_text(batch->children[2], item->table.name);
    lk_row_text(batch->children[3], LK_LITERAL("TABLE"));
    if (w->filter.include_schema) {
        lk_row_text(batch->children[4], item->schema_ipc);
    }
    return LK_OK;
}

static void walk_close(void *context)
{
    walk *w = context;
    lk_listing_unref(w->listing);
    lk_arena_close(&w->arena);
    free(w);
}

static lk_bytes keep(lk_arena *arena, lk_bytes text)
{
    return text.data == NULL ? text : lk_arena_copy(arena, text);
}

static lk_rc walk_open(
    lk_query *query, const lk_principal *who, const lk_discover_filter *filter, walk **out, lk_err *err)
{
    walk *w = calloc(1, sizeof *w);
    LK_ASSERT(w != NULL);
    w->who = who;
    if (filter != NULL) {
        w->filter.schema_pattern = keep(&w->arena, filter->schema_pattern);
        w->filter.table_pattern = keep(&w->arena, filter->table_pattern);
        w->filter.include_schema = filter->include_schema;
    }
    lk_rc rc = lk_listing_get(query, &w->listing, err);
    if (rc != LK_OK) {
        walk_close(w);
        return rc;
    }
    *out = w;
    return LK_OK;
}

static bool wants_tables(const lk_discover_filter *filter)
{
    bool wanted = filter == NULL || filter->table_type_count == 0;
    for (size_t i = 0; !wanted && i < filter->table_type_count; i++) {
        wanted = lk_bytes_equal(filter->table_types[i], LK_LITERAL("TABLE"));
    }
    return wanted;
}

/* -- one-row answers -------------------------------------------------------------------------------- */
static lk_rc next_word(void *context, struct ArrowArray *batch, bool *more, lk_err *err)
{
    (void)err;
    const char **word = context;
    *more = *word != NULL;
    if (*more) {
        lk_row_text(batch->children[0], lk_bytes_of(*word));
        *word = NULL;
    }
    return LK_OK;
}

static lk_batches *one_word(struct ArrowSchema *schema, const char *word)
{
    const char **context = malloc(sizeof *context);
    LK_ASSERT(context != NULL);
    *context = word;
    return lk_rows_open(schema, (lk_row_source){next_word, free, context}, 1);
}

lk_rc lk_discover(lk_query *query, const lk_principal *who, lk_discovery what,
    const lk_discover_filter *filter, lk_batches **out, lk_err *err)
{
    struct ArrowSchema schema = {0};
    lk_discover_schema(what, filter != NULL && filter->include_schema, &schema);
    bool ours =
        filter == NULL || filter->catalog.data == NULL || lk_bytes_equal(filter->catalog, LK_LITERAL("lake"));
    bool walks =
        ours && (what == LK_DISCOVER_SCHEMAS || (what == LK_DISCOVER_TABLES && wants_tables(filter)));
    if (what == LK_DISCOVER_CATALOGS || what == LK_DISCOVER_TABLE_TYPES) {
        *out = one_word(&schema, what == LK_DISCOVER_CATALOGS ? "lake" : "TABLE");
        return LK_OK;
    }
    if (!walks) {
        *out = lk_rows_none(&schema);
        return LK_OK;
    }
    walk *w = NULL;
    lk_rc rc = walk_open(query, who, filter, &w, err);
    if (rc != LK_OK) {
        lk_schema_release(&schema);
        return rc;
    }
    lk_row_source source = {what == LK_DISCOVER_SCHEMAS ? next_schema : next_table, walk_close, w};
    *out = lk_rows_open(&schema, source, query->options.config->discovery_rows_max);
    return LK_OK;
}

/* -- types ------------------------------------------------------------------------------------------ */
/* XDBC codes: java.sql.Types and ODBC agree on these. column_size and radix as ODBC counts them. */
typedef struct type_row {
    const char *name;
    int32_t     code, size;
    const char *quote, *parameters;
    int32_t     radix, subcode;
    int8_t      is_unsigned; /* -1: not a number */
} type_row;

static const type_row types[] = {
    /* ascending by code, as the specification asks */
    {"BIT", -7, 1, NULL, NULL, 0, 0, -1},
    {"TINYINT", -6, 3, NULL, NULL, 10, 0, 0},
    {"UTINYINT", -6, 3, NULL, NULL, 10, 0, 1},
    {"BIGINT", -5, 19, NULL, NULL, 10, 0, 0},
    {"UBIGINT", -5, 20, NULL, NULL, 10, 0, 1},
    {"BLOB", -3, INT32_MAX, "'", NULL, 0, 0, -1},
    {"DECIMAL", 3, 38, NULL, "precision,scale", 10, 0, 0},
    {"INTEGER", 4, 10, NULL, NULL, 10, 0, 0},
    {"UINTEGER", 4, 10, NULL, NULL, 10, 0, 1},
    {"SMALLINT", 5, 5, NULL, NULL, 10, 0, 0},
    {"USMALLINT", 5, 5, NULL, NULL, 10, 0, 1},
    {"FLOAT", 7, 24, NULL, NULL, 2, 0, 0},
    {"DOUBLE", 8, 53, NULL, NULL, 2, 0, 0},
    {"VARCHAR", 12, INT32_MAX, "'", NULL, 0, 0, -1},
    {"DATE", 91, 10, "'", NULL, 0, 1, -1},
    {"TIME", 92, 15, "'", NULL, 0, 2, -1},
    {"TIMESTAMP", 93, 29, "'", NULL, 0, 3, -1},
};

typedef struct type_walk {
    size_t  at;
    int64_t wanted;
} type_walk;

static void type_parameters(struct ArrowArray *list, const char *parameters)
{
    if (parameters == NULL) {
        lk_row_null(list);
        return;
    }
    const char *comma = strchr(parameters, ',');
    lk_row_text(list->children[0], (lk_bytes){parameters, (size_t)(comma - parameters)});
    lk_row_text(list->children[0], lk_bytes_of(comma + 1));
    LK_ASSERT(ArrowArrayFinishElement(list) == NANOARROW_OK);
}

static void int_or_null(struct ArrowArray *child, bool present, int64_t value)
{
    if (present) {
        lk_row_int(child, value);
    } else {
        lk_row_null(child);
    }
}

static void append_type(struct ArrowArray **c, const type_row *t)
{
    enum { NULLABLE = 1, SEARCHABLE = 3, DATETIME = 9 };
    lk_row_text(c[0], lk_bytes_of(t->name));
    lk_row_int(c[1], t->code);
    lk_row_int(c[2], t->size);
    lk_row_text(c[3], lk_bytes_of(t->quote));
    lk_row_text(c[4], lk_bytes_of(t->quote));
    type_parameters(c[5], t->parameters);
    lk_row_int(c[6], NULLABLE);
    lk_row_int(c[7], t->code == 12);
    lk_row_int(c[8], SEARCHABLE);
    int_or_null(c[9], t->is_unsigned >= 0, t->is_unsigned);
    lk_row_int(c[10], 0);
    lk_row_null(c[11]);
    lk_row_text(c[12], lk_bytes_of(t->name));
    int_or_null(c[13], t->parameters != NULL, 0);
    int_or_null(c[14], t->parameters != NULL, 38);
    lk_row_int(c[15], t->subcode > 0 ? DATETIME : t->code);
    int_or_null(c[16], t->subcode > 0, t->subcode);
    int_or_null(c[17], t->radix > 0, t->radix);
    lk_row_null(c[18]);
}

static lk_rc next_type(void *context, struct ArrowArray *batch, bool *more, lk_err *err)
{
    (void)err;
    type_walk *w = context;
    while (
        w->at < sizeof types / sizeof types[0] && w->wanted != INT64_MAX && types[w->at].code != w->wanted) {
        w->at++;
    }
    *more = w->at < sizeof types / sizeof types[0];
    if (*more) {
        append_type(batch->children, &types[w->at++]);
    }
    return LK_OK;
}

lk_batches *lk_discover_type_info(int64_t data_type)
{
    struct ArrowSchema schema = {0};
    type_walk         *w = calloc(1, sizeof *w);
    LK_ASSERT(w != NULL);
    w->wanted = data_type;
    lk_discover_schema(LK_DISCOVER_TYPE_INFO, false, &schema);
    return lk_rows_open(&schema, (lk_row_source){next_type, free, w}, UINT64_MAX);
}
