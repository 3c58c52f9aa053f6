/* listing.c - see listing_priv.h. data_type is the SQL type that the column has inside a query (its
 * carrier). */
#include "sql/listing_priv.h"

#include "arrow/type.h"

typedef struct column {
    const char *name;
    bool        number;
} column;

/* -- building rows --------------------------------------------------------------------------------- */

typedef struct builder {
    struct ArrowArray *rows;
    bool               failed;
    int64_t            at; /* the column that comes next */
} builder;

static void put_text(builder *b, lk_bytes text)
{
    struct ArrowStringView view = {text.data, (int64_t)text.size};
    b->failed = b->failed || ArrowArrayAppendString(b->rows->children[b->at], view) != NANOARROW_OK;
    b->at++;
}

static void put_number(builder *b, int64_t number)
{
    b->failed = b->failed || ArrowArrayAppendInt(b->rows->children[b->at], number) != NANOARROW_OK;
    b->at++;
}

static void end_row(builder *b)
{
    b->failed = b->failed || ArrowArrayFinishElement(b->rows) != NANOARROW_OK;
    b->at = 0;
}

static lk_rc start(
    const column *columns, size_t count, struct ArrowSchema *schema, struct ArrowArray *rows, lk_err *err)
{
    ArrowSchemaInit(schema);
    bool failed = ArrowSchemaSetTypeStruct(schema, (int64_t)count) != NANOARROW_OK;
    for (size_t i = 0; !failed && i < count; i++) {
        enum ArrowType type = columns[i].number ? NANOARROW_TYPE_INT32 : NANOARROW_TYPE_STRING;
        failed = ArrowSchemaSetType(schema->children[i], type) != NANOARROW_OK ||
                 ArrowSchemaSetName(schema->children[i], columns[i].name) != NANOARROW_OK;
    }
    failed = failed || ArrowArrayInitFromSchema(rows, schema, NULL) != NANOARROW_OK ||
             ArrowArrayStartAppending(rows) != NANOARROW_OK;
    return failed ? lk_fail(err, LK_E_LIMIT, "listing") : LK_OK;
}

/* -- types by their SQL names ------------------------------------------------------------------------ */

static void type_name(const struct ArrowSchema *field, lk_buf *out);

static void members(const struct ArrowSchema *field, const char *open, lk_buf *out)
{
    lk_buf_append_text(out, open);
    for (int64_t i = 0; i < field->n_children; i++) {
        lk_buf_format(out, "%s\"%s\" ", i == 0 ? "" : ", ", field->children[i]->name);
        type_name(field->children[i], out);
    }
    lk_buf_append_text(out, ")");
}

static const char *timestamp_name(const lk_type *type)
{
    static const char *const plain[] = {"TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS"};
    return type->zone.size > 0 ? "TIMESTAMP WITH TIME ZONE" : plain[type->unit];
}

static const char *scalar_name(const lk_type *type)
{
    static const char *const names[] = {[LK_TYPE_NULL] = "\"NULL\"",
        [LK_TYPE_BOOL] = "BOOLEAN",
        [LK_TYPE_INT8] = "TINYINT",
        [LK_TYPE_INT16] = "SMALLINT",
        [LK_TYPE_INT32] = "INTEGER",
        [LK_TYPE_INT64] = "BIGINT",
        [LK_TYPE_UINT8] = "UTINYINT",
        [LK_TYPE_UINT16] = "USMALLINT",
        [LK_TYPE_UINT32] = "UINTEGER",
        [LK_TYPE_UINT64] = "UBIGINT",
        [LK_TYPE_FLOAT16] = "FLOAT",
        [LK_TYPE_FLOAT32] = "FLOAT",
        [LK_TYPE_FLOAT64] = "DOUBLE",
        [LK_TYPE_UTF8] = "VARCHAR",
        [LK_TYPE_LARGE_UTF8] = "VARCHAR",
        [LK_TYPE_BINARY] = "BLOB",
        [LK_TYPE_LARGE_BINARY] = "BLOB",
        [LK_TYPE_FIXED_BINARY] = "BLOB",
        [LK_TYPE_DATE32] = "DATE",
        [LK_TYPE_DATE64] = "DATE",
        [LK_TYPE_TIME32] = "TIME",
        [LK_TYPE_DURATION] = "BIGINT",
        [LK_TYPE_INTERVAL_MONTH] = "INTERVAL",
        [LK_TYPE_INTERVAL_DAY] = "INTERVAL",
        [LK_TYPE_INTERVAL_NANO] = "INTERVAL"};
    if (type->id == LK_TYPE_TIMESTAMP) {
        return timestamp_name(type);
    }
    if (type->id == LK_TYPE_TIME64) {
        return type->unit == LK_UNIT_NANO ? "TIME_NS" : "TIME";
    }
    return (size_t)type->id < sizeof names / sizeof names[0] ? names[type->id] : NULL;
}

static void type_name(const struct ArrowSchema *field, lk_buf *out)
{
    lk_type type;
    if (field->dictionary != NULL) {
        type_name(field->dictionary, out);
        return;
    }
    if (!lk_type_of(field, &type)) {
        lk_buf_append_text(out, field->format);
        return;
    }
    const char *name = scalar_name(&type);
    if (name != NULL) {
        lk_buf_append_text(out, name);
    } else if (lk_type_is_decimal(type.id)) {
        lk_buf_format(out, "DECIMAL(%d,%d)", type.precision, type.scale);
    } else if (type.id == LK_TYPE_STRUCT) {
        members(field, "STRUCT(", out);
    } else if (type.id == LK_TYPE_MAP) {
        lk_buf_append_text(out, "MAP(");
        type_name(field->children[0]->children[0], out);
        lk_buf_append_text(out, ", ");
        type_name(field->children[0]->children[1], out);
        lk_buf_append_text(out, ")");
    } else {
        type_name(field->children[0], out);
        if (type.id == LK_TYPE_FIXED_LIST) {
            lk_buf_format(out, "[%lld]", (long long)type.list_size);
        } else {
            lk_buf_append_text(out, "[]");
        }
    }
}

/* -- the listings ---------------------------------------------------------------------------------- */

static const lk_bytes catalog = {"lake", 4};

static void schemata(builder *b, const lk_sql_listed *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || !lk_bytes_equal(items[i].table.ns, items[i - 1].table.ns)) {
            put_text(b, catalog);
            put_text(b, items[i].table.ns);
            end_row(b);
        }
    }
}

static void tables(builder *b, const lk_sql_listed *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put_text(b, catalog);
        put_text(b, items[i].table.ns);
        put_text(b, items[i].table.name);
        put_text(b, LK_LITERAL("BASE TABLE"));
        end_row(b);
    }
}

static void columns(builder *b, const lk_sql_listed *items, size_t count)
{
    lk_buf type = {0};
    for (size_t i = 0; i < count; i++) {
        const struct ArrowSchema *schema = items[i].schema;
        for (int64_t k = 0; schema != NULL && k < schema->n_children; k++) {
            const struct ArrowSchema *field = schema->children[k];
            lk_buf_clear(&type);
            type_name(field, &type);
            put_text(b, catalog);
            put_text(b, items[i].table.ns);
            put_text(b, items[i].table.name);
            put_text(b, lk_bytes_of(field->name));
            put_number(b, k + 1);
            put_text(b, (field->flags & ARROW_FLAG_NULLABLE) != 0 ? LK_LITERAL("YES") : LK_LITERAL("NO"));
            put_text(b, lk_buf_view(&type));
            end_row(b);
        }
    }
    lk_buf_deinit(&type);
}

/* SHOW TABLES gives names that can be used as they stand; SHOW TABLES FROM ns leaves the namespace out. */
static void show_tables(builder *b, lk_bytes ns, const lk_sql_listed *items, size_t count)
{
    lk_buf name = {0};
    for (size_t i = 0; i < count; i++) {
        if (ns.size > 0 && !lk_bytes_equal(ns, items[i].table.ns)) {
            continue;
        }
        lk_buf_clear(&name);
        if (ns.size == 0) {
            lk_buf_append_bytes(&name, items[i].table.ns);
            lk_buf_append_text(&name, ".");
        }
        lk_buf_append_bytes(&name, items[i].table.name);
        put_text(b, lk_buf_view(&name));
        end_row(b);
    }
    lk_buf_deinit(&name);
}

static const struct shape {
    column columns[8];
    size_t count;
} shapes[] = {
    [LK_LISTING_SCHEMATA] = {{{"catalog_name", false}, {"schema_name", false}}, 2},
    [LK_LISTING_TABLES] = {{{"table_catalog", false}, {"table_schema", false}, {"table_name", false},
                               {"table_type", false}},
        4},
    [LK_LISTING_COLUMNS] = {{{"table_catalog", false}, {"table_schema", false}, {"table_name", false},
                                {"column_name", false}, {"ordinal_position", true}, {"is_nullable", false},
                                {"data_type", false}},
        7},
    [LK_LISTING_SHOW_TABLES] = {{{"name", false}}, 1},
    [LK_LISTING_SHOW_DATABASES] = {{{"database_name", false}}, 1},
};

static void fill(builder *b, const lk_sql_source *source, const lk_sql_listed *items, size_t count)
{
    switch (source->listing) {
    case LK_LISTING_SCHEMATA:
        schemata(b, items, count);
        break;
    case LK_LISTING_TABLES:
        tables(b, items, count);
        break;
    case LK_LISTING_COLUMNS:
        columns(b, items, count);
        break;
    case LK_LISTING_SHOW_TABLES:
        show_tables(b, source->ns, items, count);
        break;
    case LK_LISTING_SHOW_DATABASES:
        put_text(b, catalog);
        end_row(b);
        break;
    case LK_LISTING_NONE:
    default:
        break;
    }
}

lk_rc lk_listing_make(const lk_sql_source *source, const lk_sql_directory *directory,
    struct ArrowSchema *schema, struct ArrowArray *rows, lk_err *err)
{
    lk_arena             arena = {0};
    const lk_sql_listed *items = NULL;
    size_t               count = 0;
    const struct shape  *shape = &shapes[source->listing];
    lk_rc                rc =
        directory->list == NULL ? LK_OK : directory->list(directory->context, &arena, &items, &count, err);
    if (rc == LK_OK) {
        rc = start(shape->columns, shape->count, schema, rows, err);
    }
    builder b = {.rows = rows};
    if (rc == LK_OK) {
        fill(&b, source, items, count);
        if (b.failed || ArrowArrayFinishBuildingDefault(rows, NULL) != NANOARROW_OK) {
            rc = lk_fail(err, LK_E_LIMIT, "listing");
        }
    }
    lk_arena_close(&arena);
    if (rc != LK_OK) {
        lk_schema_release(schema);
        lk_array_release(rows);
    }
    return rc;
}
