/* sql_info.c - what this server says of itself (CommandGetSqlInfo). Ids and value kinds are those of enum SqlInfo in
 * FlightSql.proto (Apache Arrow); one row of the table is one answer. */
#include "base/limits.h"
#include "query/discover.h"
#include "query/rows.h"

#include <stdlib.h>

#ifndef LK_VERSION
#define LK_VERSION "0.1.0"
#endif

/* The children of the dense union `value`, in the specification's order. */
typedef enum kind { KIND_TEXT, KIND_BOOL, KIND_BIGINT, KIND_INT, KIND_TEXTS, KIND_MAP, KINDS } kind;

typedef struct info {
    uint32_t    id;
    kind        kind;
    const char *text; /* KIND_TEXTS: comma-separated */
    int64_t     number;
} info;

#define KEYWORDS "ANTI,ASOF,PIVOT,POSITIONAL,QUALIFY,SEMI,SUMMARIZE,UNPIVOT"
#define NUMERIC                                                                                             \
    "ABS,ACOS,ASIN,ATAN,ATAN2,CEILING,COS,COT,DEGREES,EXP,FLOOR,LOG,LOG10,MOD,PI,POWER,RADIANS,ROUND,SIGN," \
    "SIN,"                                                                                                  \
    "SQRT,TAN"
#define STRINGS                                                                                       \
    "ASCII,CHR,CONCAT,LEFT,LENGTH,LOWER,LPAD,LTRIM,POSITION,REPEAT,REPLACE,REVERSE,RIGHT,RPAD,RTRIM," \
    "SUBSTRING,"                                                                                      \
    "TRIM,UPPER"
#define DATES \
    "DATE_DIFF,DATE_PART,DATE_TRUNC,DAYNAME,EXTRACT,HOUR,MINUTE,MONTH,MONTHNAME,SECOND,STRFTIME,WEEK,YEAR"

static const info infos[] = {
    /* ascending by id */
    {0, KIND_TEXT, "lake", 0},
    {1, KIND_TEXT, LK_VERSION, 0},
    {2, KIND_TEXT, "1.5.0", 0}, /* Arrow columnar format */
    {3, KIND_BOOL, NULL, 1},    /* read-only: no SQL text changes anything */
    {4, KIND_BOOL, NULL, 1},    /* SQL */
    {5, KIND_BOOL, NULL, 0},    /* Substrait */
    {8, KIND_INT, NULL, 0},     /* no transactions */
    {9, KIND_BOOL, NULL, 1},    /* cancel */
    {10, KIND_BOOL, NULL, 1},   /* bulk ingestion */
    {11, KIND_BOOL, NULL, 0},   /* in transactions */
    {100, KIND_INT, NULL, 0},   /* statement timeout: the server's own */
    {101, KIND_INT, NULL, 0},
    {500, KIND_BOOL, NULL, 0}, /* DDL of catalogs, schemas, tables: by action, not by SQL */
    {501, KIND_BOOL, NULL, 0},
    {502, KIND_BOOL, NULL, 0},
    {503, KIND_INT, NULL, 1}, /* unquoted identifiers: columns fold */
    {504, KIND_TEXT, "\"", 0},
    {505, KIND_INT, NULL, 1},
    {506, KIND_BOOL, NULL, 0}, /* grants decide */
    {507, KIND_INT, NULL, 3},  /* nulls at the end, both ways */
    {508, KIND_TEXTS, KEYWORDS, 0},
    {509, KIND_TEXTS, NUMERIC, 0},
    {510, KIND_TEXTS, STRINGS, 0},
    {511, KIND_TEXTS, "COALESCE,IFNULL,NULLIF", 0},
    {512, KIND_TEXTS, DATES, 0},
    {513, KIND_TEXT, "\\", 0},
    {514, KIND_TEXT, "", 0},
    {515, KIND_BOOL, NULL, 1}, /* column aliases */
    {516, KIND_BOOL, NULL, 1}, /* null + null is null */
    {517, KIND_MAP, NULL, 0},  /* CONVERT: none; CAST is SQL */
    {518, KIND_BOOL, NULL, 1},
    {519, KIND_BOOL, NULL, 0},
    {520, KIND_BOOL, NULL, 1}, /* expressions in ORDER BY */
    {521, KIND_BOOL, NULL, 1},
    {522, KIND_INT, NULL, 3}, /* GROUP BY unrelated, beyond select */
    {523, KIND_BOOL, NULL, 1},
    {524, KIND_BOOL, NULL, 1},
    {525, KIND_INT, NULL, 7}, /* minimum, core, extended grammar */
    {526, KIND_INT, NULL, 1}, /* ANSI-92 entry level */
    {527, KIND_BOOL, NULL, 0},
    {528, KIND_INT, NULL, 4}, /* full outer joins */
    {529, KIND_TEXT, "namespace", 0},
    {531, KIND_TEXT, "catalog", 0},
    {532, KIND_BOOL, NULL, 1},
    {533, KIND_INT, NULL, 0},
    {534, KIND_INT, NULL, 0},
    {535, KIND_INT, NULL, 0},
    {536, KIND_BOOL, NULL, 0},
    {537, KIND_BOOL, NULL, 0},
    {538, KIND_INT, NULL, 15}, /* subqueries in comparisons, EXISTS, IN, quantified */
    {539, KIND_BOOL, NULL, 1},
    {540, KIND_INT, NULL, 3}, /* UNION, UNION ALL */
    {541, KIND_BIGINT, NULL, 0},
    {542, KIND_BIGINT, NULL, 0},
    {543, KIND_BIGINT, NULL, LK_SQL_IDENTIFIER_BYTES_MAX},
    {544, KIND_BIGINT, NULL, 0},
    {546, KIND_BIGINT, NULL, 0},
    {547, KIND_BIGINT, NULL, 0},
    {548, KIND_BIGINT, NULL, LK_COLUMNS_MAX},
    {549, KIND_BIGINT, NULL, 0},
    {552, KIND_BIGINT, NULL, LK_NAMESPACE_BYTES_MAX},
    {554, KIND_BIGINT, NULL, 0},
    {555, KIND_BIGINT, NULL, 0},
    {556, KIND_BOOL, NULL, 0},
    {557, KIND_BIGINT, NULL, 1024 * 1024},
    {558, KIND_BIGINT, NULL, 0},
    {559, KIND_BIGINT, NULL, LK_TABLE_NAME_BYTES_MAX},
    {560, KIND_BIGINT, NULL, LK_STATEMENT_TABLES_MAX},
    {562, KIND_INT, NULL, 0},
    {563, KIND_BOOL, NULL, 0},
    {564, KIND_INT, NULL, 0},
    {565, KIND_BOOL, NULL, 0},
    {566, KIND_BOOL, NULL, 0},
    {567, KIND_INT, NULL, 0},
    {572, KIND_BOOL, NULL, 0},
    {573, KIND_BOOL, NULL, 0},
    {574, KIND_BOOL, NULL, 0},
    {575, KIND_BOOL, NULL, 0},
    {576, KIND_BOOL, NULL, 0},
};
enum { INFOS = sizeof infos / sizeof infos[0] };

static void must(ArrowErrorCode code)
{
    LK_ASSERT(code == NANOARROW_OK);
}

static void name_child(struct ArrowSchema *child, const char *name, enum ArrowType type, bool nullable)
{
    must(ArrowSchemaSetType(child, type));
    must(ArrowSchemaSetName(child, name));
    child->flags = nullable ? ARROW_FLAG_NULLABLE : 0;
}

void lk_sql_info_schema(struct ArrowSchema *out)
{
    ArrowSchemaInit(out);
    must(ArrowSchemaSetTypeStruct(out, 2));
    name_child(out->children[0], "info_name", NANOARROW_TYPE_UINT32, false);
    struct ArrowSchema *value = out->children[1];
    must(ArrowSchemaSetTypeUnion(value, NANOARROW_TYPE_DENSE_UNION, KINDS));
    must(ArrowSchemaSetName(value, "value"));
    value->flags = 0;
    name_child(value->children[KIND_TEXT], "string_value", NANOARROW_TYPE_STRING, true);
    name_child(value->children[KIND_BOOL], "bool_value", NANOARROW_TYPE_BOOL, true);
    name_child(value->children[KIND_BIGINT], "bigint_value", NANOARROW_TYPE_INT64, true);
    name_child(value->children[KIND_INT], "int32_bitmask", NANOARROW_TYPE_INT32, true);
    name_child(value->children[KIND_TEXTS], "string_list", NANOARROW_TYPE_LIST, true);
    must(ArrowSchemaSetType(value->children[KIND_TEXTS]->children[0], NANOARROW_TYPE_STRING));
    struct ArrowSchema *map = value->children[KIND_MAP];
    name_child(map, "int32_to_int32_list_map", NANOARROW_TYPE_MAP, true);
    must(ArrowSchemaSetType(map->children[0]->children[0], NANOARROW_TYPE_INT32));
    map->children[0]->children[0]->flags = 0;
    must(ArrowSchemaSetType(map->children[0]->children[1], NANOARROW_TYPE_LIST));
    must(ArrowSchemaSetType(map->children[0]->children[1]->children[0], NANOARROW_TYPE_INT32));
}

static void append_texts(struct ArrowArray *list, const char *text)
{
    while (text != NULL) {
        const char *comma = strchr(text, ',');
        size_t      size = comma != NULL ? (size_t)(comma - text) : strlen(text);
        lk_row_text(list->children[0], (lk_bytes){text, size});
        text = comma != NULL ? comma + 1 : NULL;
    }
    must(ArrowArrayFinishElement(list));
}

static void append_info(struct ArrowArray *batch, const info *i)
{
    struct ArrowArray *value = batch->children[1], *child = value->children[i->kind];
    lk_row_int(batch->children[0], i->id);
    switch (i->kind) {
    case KIND_TEXT:
        lk_row_text(child, lk_bytes_of(i->text));
        break;
    case KIND_TEXTS:
        append_texts(child, i->text);
        break;
    case KIND_MAP:
        must(ArrowArrayFinishElement(child)); /* empty */
        break;
    case KIND_BOOL:
    case KIND_BIGINT:
    case KIND_INT:
    case KINDS:
        lk_row_int(child, i->number);
        break;
    }
    must(ArrowArrayFinishUnionElement(value, (int8_t)i->kind));
}

typedef struct walk {
    size_t   at, id_count;
    uint32_t ids[];
} walk;

static bool wanted(const walk *w, uint32_t id)
{
    bool found = w->id_count == 0;
    for (size_t i = 0; !found && i < w->id_count; i++) {
        found = w->ids[i] == id;
    }
    return found;
}

static lk_rc next_info(void *context, struct ArrowArray *batch, bool *more, lk_err *err)
{
    (void)err;
    walk *w = context;
    while (w->at < INFOS && !wanted(w, infos[w->at].id)) {
        w->at++;
    }
    *more = w->at < INFOS;
    if (*more) {
        append_info(batch, &infos[w->at++]);
    }
    return LK_OK;
}

lk_batches *lk_sql_info_rows(const uint32_t *ids, size_t id_count)
{
    struct ArrowSchema schema = {0};
    walk              *w = calloc(1, sizeof *w + id_count * sizeof *ids);
    LK_ASSERT(w != NULL);
    w->id_count = id_count;
    if (id_count > 0) {
        memcpy(w->ids, ids, id_count * sizeof *ids);
    }
    lk_sql_info_schema(&schema);
    return lk_rows_open(&schema, (lk_row_source){next_info, free, w}, UINT64_MAX);
}
