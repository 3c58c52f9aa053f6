/*
 * filter.c - the optimiser's bound filter expressions as lk_predicate.
 *
 * A translation is exact, or wider: true for every row that the original is true for (BETWEEN, whose
 * bounds the API does not tell apart). A wider one prunes and is applied again by DuckDB; under NOT only
 * exact ones count. Comparisons are taken only when the constant has the column's own type. Threads:
 * confined to planning.
 */
#include "arrow/schema.h"
#include "arrow/type.h"
#include "base/limits.h"
#include "sql/run_priv.h"

typedef struct translator {
    lk_arena                                            *arena;
    const struct ArrowSchema                            *schema;
    duckdb_v2_table_function_filter_pushdown_info_handle info;
} translator;

static const lk_predicate *translate(translator *t, duckdb_v2_expression_handle e, bool *exact);

static DUCKDB_V2_EXPRESSION_TYPE type_of(duckdb_v2_expression_handle e)
{
    DUCKDB_V2_EXPRESSION_TYPE type = DUCKDB_V2_EXPRESSION_TYPE_INVALID;
    (void)duckdb_v2_expression_get_type(e, &type, NULL);
    return type;
}

static size_t child_count(duckdb_v2_expression_handle e)
{
    idx_t count = 0;
    (void)duckdb_v2_expression_get_child_count(e, &count, NULL);
    return count;
}

static duckdb_v2_expression_handle child(duckdb_v2_expression_handle e, size_t i)
{
    duckdb_v2_expression_handle out = NULL;
    (void)duckdb_v2_expression_get_child(e, i, &out, NULL);
    return out;
}

/* A column, or a member of one that is a struct. */
typedef struct target {
    size_t                    column;
    size_t                    path[LK_SCHEMA_DEPTH_MAX];
    size_t                    path_count;
    const struct ArrowSchema *field;
} target;

static bool read_column(translator *t, duckdb_v2_expression_handle e, target *out)
{
    idx_t at = 0, declared = 0;
    if (e == NULL || type_of(e) != DUCKDB_V2_EXPRESSION_TYPE_BOUND_COLUMN_REF ||
        duckdb_v2_expression_column_ref_get_index(e, &at, NULL) != DUCKDB_V2_ERROR_NONE ||
        duckdb_v2_table_function_filter_pushdown_get_column_index(t->info, at, &declared, NULL) !=
            DUCKDB_V2_ERROR_NONE ||
        declared >= (idx_t)t->schema->n_children) {
        return false;
    }
    *out = (target){.column = declared, .field = t->schema->children[declared]};
    return true;
}

/* The one member of that name in any letter case. */
static bool find_member(const struct ArrowSchema *field, lk_bytes name, size_t *out)
{
    size_t found = 0;
    for (int64_t i = 0; strcmp(field->format, "+s") == 0 && i < field->n_children; i++) {
        if (lk_same_name(lk_bytes_of(field->children[i]->name), name)) {
            *out = (size_t)i;
            found++;
        }
    }
    return found == 1;
}

/* x, or struct_extract(x, 'member'), x likewise. */
static bool read_target(translator *t, duckdb_v2_expression_handle e, target *out)
{
    duckdb_v2_str          name = {0}, member = {0};
    duckdb_v2_value_handle value = NULL;
    size_t                 index = 0;
    if (e == NULL || type_of(e) != DUCKDB_V2_EXPRESSION_TYPE_BOUND_FUNCTION) {
        return read_column(t, e, out);
    }
    if (duckdb_v2_expression_function_get_name(e, &name, NULL) != DUCKDB_V2_ERROR_NONE ||
        !lk_bytes_equal(lk_duck_bytes(name), LK_LITERAL("struct_extract")) || child_count(e) != 2 ||
        !read_target(t, child(e, 0), out) || out->path_count == LK_SCHEMA_DEPTH_MAX ||
        type_of(child(e, 1)) != DUCKDB_V2_EXPRESSION_TYPE_VALUE_CONSTANT ||
        duckdb_v2_expression_constant_get_value(child(e, 1), &value, NULL) != DUCKDB_V2_ERROR_NONE) {
        return false;
    }
    bool found = duckdb_v2_value_get_varchar(value, &member, NULL) == DUCKDB_V2_ERROR_NONE &&
                 find_member(out->field, lk_duck_bytes(member), &index);
    (void)duckdb_v2_value_destroy(&value);
    if (found) {
        out->path[out->path_count++] = index;
        out->field = out->field->children[index];
    }
    return found;
}

/* -- constants ------------------------------------------------------------------------------------- */

#define READ(function, ctype)                                       \
    do {                                                            \
        ctype raw = 0;                                              \
        good = function(value, &raw, NULL) == DUCKDB_V2_ERROR_NONE; \
        out->as.i64 = (int64_t)raw;                                 \
    } while (0)

static bool read_unsigned(const lk_type *type, duckdb_v2_value_handle value, lk_value *out)
{
    uint64_t        u64 = 0;
    uint32_t        u32 = 0;
    uint16_t        u16 = 0;
    uint8_t         u8 = 0;
    DUCKDB_V2_ERROR code = DUCKDB_V2_ERROR_NONE;
    out->kind = LK_VALUE_U64;
    if (type->id == LK_TYPE_UINT8) {
        code = duckdb_v2_value_get_utinyint(value, &u8, NULL);
    } else if (type->id == LK_TYPE_UINT16) {
        code = duckdb_v2_value_get_usmallint(value, &u16, NULL);
    } else if (type->id == LK_TYPE_UINT32) {
        code = duckdb_v2_value_get_uint(value, &u32, NULL);
    } else {
        code = duckdb_v2_value_get_ubigint(value, &u64, NULL);
    }
    out->as.u64 = u64 | u32 | u16 | u8;
    return code == DUCKDB_V2_ERROR_NONE;
}

static bool read_timestamp(const lk_type *type, duckdb_v2_value_handle value, int64_t *out)
{
    DUCKDB_V2_ERROR code = DUCKDB_V2_ERROR_INPUT_INVALID;
    bool            zoned = type->zone.size > 0;
    switch (type->unit) {
    case LK_UNIT_SECOND:
        code = zoned ? code : duckdb_v2_value_get_timestamp_sec(value, out, NULL);
        break;
    case LK_UNIT_MILLI:
        code = zoned ? code : duckdb_v2_value_get_timestamp_ms(value, out, NULL);
        break;
    case LK_UNIT_MICRO:
        code = zoned ? duckdb_v2_value_get_timestamp_tz(value, out, NULL)
                     : duckdb_v2_value_get_timestamp(value, out, NULL);
        break;
    case LK_UNIT_NANO:
        code = zoned ? duckdb_v2_value_get_timestamp_tz_ns(value, out, NULL)
                     : duckdb_v2_value_get_timestamp_ns(value, out, NULL);
        break;
    default:
        break;
    }
    return code == DUCKDB_V2_ERROR_NONE;
}

static bool read_bytes(translator *t, const lk_type *type, duckdb_v2_value_handle value, lk_value *out)
{
    duckdb_v2_str   text = {0};
    bool            utf8 = type->id == LK_TYPE_UTF8 || type->id == LK_TYPE_LARGE_UTF8;
    DUCKDB_V2_ERROR code =
        utf8 ? duckdb_v2_value_get_varchar(value, &text, NULL) : duckdb_v2_value_get_blob(value, &text, NULL);
    out->kind = LK_VALUE_BYTES;
    if (code != DUCKDB_V2_ERROR_NONE) {
        return false;
    }
    out->as.bytes = lk_arena_copy(t->arena, lk_duck_bytes(text));
    return true;
}

static bool read_float(const lk_type *type, duckdb_v2_value_handle value, lk_value *out)
{
    float narrow = 0;
    out->kind = LK_VALUE_F64;
    if (type->id == LK_TYPE_FLOAT64) {
        return duckdb_v2_value_get_double(value, &out->as.f64, NULL) == DUCKDB_V2_ERROR_NONE;
    }
    bool good = duckdb_v2_value_get_float(value, &narrow, NULL) == DUCKDB_V2_ERROR_NONE;
    out->as.f64 = (double)narrow;
    return good;
}

static bool read_integer(const lk_type *type, duckdb_v2_value_handle value, lk_value *out)
{
    bool good = false;
    out->kind = LK_VALUE_I64;
    if (type->id == LK_TYPE_BOOL) {
        READ(duckdb_v2_value_get_bool, bool);
    } else if (type->id == LK_TYPE_INT8) {
        READ(duckdb_v2_value_get_tinyint, int8_t);
    } else if (type->id == LK_TYPE_INT16) {
        READ(duckdb_v2_value_get_smallint, int16_t);
    } else if (type->id == LK_TYPE_INT32) {
        READ(duckdb_v2_value_get_int, int32_t);
    } else if (type->id == LK_TYPE_INT64 || type->id == LK_TYPE_DURATION) {
        READ(duckdb_v2_value_get_bigint, int64_t);
    } else if (type->id == LK_TYPE_DATE32) {
        READ(duckdb_v2_value_get_date, int32_t);
    } else if (type->id == LK_TYPE_TIME64 && type->unit == LK_UNIT_MICRO) {
        READ(duckdb_v2_value_get_time, int64_t);
    } else if (type->id == LK_TYPE_TIME64) {
        READ(duckdb_v2_value_get_time_ns, int64_t);
    } else if (type->id == LK_TYPE_TIMESTAMP) {
        good = read_timestamp(type, value, &out->as.i64);
    }
    return good;
}

static bool read_value(
    translator *t, const struct ArrowSchema *field, duckdb_v2_value_handle value, lk_value *out)
{
    lk_type type;
    if (!lk_predicate_supports(field) || !lk_type_of(field, &type) || type.dictionary) {
        return false;
    }
    if (lk_type_is_unsigned(type.id)) {
        return read_unsigned(&type, value, out);
    }
    if (lk_type_is_float(type.id)) {
        return read_float(&type, value, out);
    }
    if (lk_type_is_bytes(type.id) || type.id == LK_TYPE_FIXED_BINARY) {
        return read_bytes(t, &type, value, out);
    }
    if (type.id == LK_TYPE_DECIMAL128) {
        duckdb_v2_hugeint_t huge = {0};
        uint8_t             width = 0, scale = 0;
        bool good = duckdb_v2_value_get_decimal(value, &huge, &width, &scale, NULL) == DUCKDB_V2_ERROR_NONE &&
                    (int32_t)scale == type.scale;
        out->kind = LK_VALUE_DECIMAL128;
        out->as.decimal128.low = huge.lower;
        out->as.decimal128.high = huge.upper;
        return good;
    }
    return read_integer(&type, value, out);
}

static DUCKDB_V2_LOGICAL_TYPE_ID result_type(duckdb_v2_expression_handle e)
{
    duckdb_v2_logical_type_handle type = NULL;
    DUCKDB_V2_LOGICAL_TYPE_ID     id = DUCKDB_V2_LOGICAL_TYPE_ID_INVALID;
    if (duckdb_v2_expression_get_return_type(e, &type, NULL) == DUCKDB_V2_ERROR_NONE) {
        (void)duckdb_v2_logical_type_get_id(type, &id, NULL);
    }
    (void)duckdb_v2_logical_type_destroy(&type);
    return id;
}

/* `e` as a value of the column that `column_ref` names. DuckDB's getters convert, so the types are
 * compared first. */
static bool read_constant(translator *t, const target *column, duckdb_v2_expression_handle column_ref,
    duckdb_v2_expression_handle e, lk_value *out)
{
    duckdb_v2_value_handle value = NULL;
    bool                   null = true;
    if (e == NULL || type_of(e) != DUCKDB_V2_EXPRESSION_TYPE_VALUE_CONSTANT ||
        result_type(e) != result_type(column_ref) ||
        duckdb_v2_expression_constant_get_value(e, &value, NULL) != DUCKDB_V2_ERROR_NONE) {
        return false;
    }
    bool good = duckdb_v2_value_is_null(value, &null, NULL) == DUCKDB_V2_ERROR_NONE && !null &&
                read_value(t, column->field, value, out);
    (void)duckdb_v2_value_destroy(&value);
    return good;
}

/* -- expressions ----------------------------------------------------------------------------------- */

static lk_predicate *new_node(translator *t, lk_predicate_kind kind, const target *column)
{
    lk_predicate *node = lk_arena_take(t->arena, sizeof *node);
    node->kind = kind;
    if (column != NULL) {
        size_t *path = lk_arena_take(t->arena, (column->path_count + 1) * sizeof *path);
        memcpy(path, column->path, column->path_count * sizeof *path);
        node->column = column->column;
        node->path = path;
        node->path_count = column->path_count;
    }
    return node;
}

static const lk_predicate *compare(translator *t, const target *column, lk_compare op, lk_value value)
{
    lk_predicate *node = new_node(t, LK_PREDICATE_COMPARE, column);
    lk_value     *copy = lk_arena_take(t->arena, sizeof *copy);
    *copy = value;
    node->compare = op;
    node->values = copy;
    node->value_count = 1;
    return node;
}

static const lk_predicate *group(
    translator *t, lk_predicate_kind kind, const lk_predicate **children, size_t count)
{
    lk_predicate *node = new_node(t, kind, NULL);
    node->children = children;
    node->child_count = count;
    return node;
}

static const lk_predicate *comparison(translator *t, duckdb_v2_expression_handle e, lk_compare op)
{
    static const lk_compare mirrored[] = {
        [LK_EQ] = LK_EQ, [LK_NE] = LK_NE, [LK_LT] = LK_GT, [LK_LE] = LK_GE, [LK_GT] = LK_LT, [LK_GE] = LK_LE};
    target   column = {0};
    lk_value value = {0};
    if (read_target(t, child(e, 0), &column) && read_constant(t, &column, child(e, 0), child(e, 1), &value)) {
        return compare(t, &column, op, value);
    }
    if (read_target(t, child(e, 1), &column) && read_constant(t, &column, child(e, 1), child(e, 0), &value)) {
        return compare(t, &column, mirrored[op], value);
    }
    return NULL;
}

static const lk_predicate *in_list(translator *t, duckdb_v2_expression_handle e)
{
    target column = {0};
    size_t count = child_count(e);
    if (count < 2 || !read_target(t, child(e, 0), &column)) {
        return NULL;
    }
    lk_value *values = lk_arena_take(t->arena, (count - 1) * sizeof *values);
    for (size_t i = 1; i < count; i++) {
        if (!read_constant(t, &column, child(e, 0), child(e, i), &values[i - 1])) {
            return NULL;
        }
    }
    lk_predicate *node = new_node(t, LK_PREDICATE_IN, &column);
    node->values = values;
    node->value_count = count - 1;
    return node;
}

/* Closed on both sides: DuckDB's node hides whether its own bounds are open. */
static const lk_predicate *between(translator *t, duckdb_v2_expression_handle e, bool *exact)
{
    target   column = {0};
    lk_value lower = {0}, upper = {0};
    *exact = false;
    if (!read_target(t, child(e, 0), &column) ||
        !read_constant(t, &column, child(e, 0), child(e, 1), &lower) ||
        !read_constant(t, &column, child(e, 0), child(e, 2), &upper)) {
        return NULL;
    }
    const lk_predicate **both = lk_arena_take(t->arena, 2 * sizeof *both);
    both[0] = compare(t, &column, LK_GE, lower);
    both[1] = compare(t, &column, LK_LE, upper);
    return group(t, LK_PREDICATE_AND, both, 2);
}

/* An AND may leave out what it cannot translate and is then wider; an OR may not. */
static const lk_predicate *conjunction(translator *t, duckdb_v2_expression_handle e, bool all, bool *exact)
{
    size_t               count = child_count(e), kept = 0;
    const lk_predicate **children = lk_arena_take(t->arena, (count + 1) * sizeof *children);
    for (size_t i = 0; i < count; i++) {
        bool                part_exact = true;
        const lk_predicate *part = translate(t, child(e, i), &part_exact);
        *exact = *exact && part_exact && part != NULL;
        if (part != NULL) {
            children[kept++] = part;
        } else if (!all) {
            return NULL;
        }
    }
    return kept == 0 ? NULL : group(t, all ? LK_PREDICATE_AND : LK_PREDICATE_OR, children, kept);
}

static const lk_predicate *negation(translator *t, duckdb_v2_expression_handle e)
{
    bool                 exact = true;
    const lk_predicate **inner = lk_arena_take(t->arena, sizeof *inner);
    inner[0] = translate(t, child(e, 0), &exact);
    return inner[0] == NULL || !exact ? NULL : group(t, LK_PREDICATE_NOT, inner, 1);
}

static const lk_predicate *null_test(translator *t, duckdb_v2_expression_handle e, lk_predicate_kind kind)
{
    target column = {0};
    return read_target(t, child(e, 0), &column) ? new_node(t, kind, &column) : NULL;
}

static const lk_predicate *function(translator *t, duckdb_v2_expression_handle e)
{
    duckdb_v2_str name = {0};
    target        column = {0};
    lk_value      value = {0};
    if (duckdb_v2_expression_function_get_name(e, &name, NULL) != DUCKDB_V2_ERROR_NONE ||
        !lk_bytes_equal(lk_duck_bytes(name), LK_LITERAL("prefix")) || !read_target(t, child(e, 0), &column) ||
        !read_constant(t, &column, child(e, 0), child(e, 1), &value) || value.kind != LK_VALUE_BYTES) {
        return NULL;
    }
    lk_predicate *node = new_node(t, LK_PREDICATE_PREFIX, &column);
    lk_value     *copy = lk_arena_take(t->arena, sizeof *copy);
    *copy = value;
    node->values = copy;
    node->value_count = 1;
    return node;
}

static const lk_predicate *flag(translator *t, duckdb_v2_expression_handle e)
{
    target  column = {0};
    lk_type type;
    if (!read_target(t, e, &column) || !lk_type_of(column.field, &type) || type.id != LK_TYPE_BOOL) {
        return NULL;
    }
    return compare(t, &column, LK_EQ, (lk_value){.kind = LK_VALUE_I64, .as.i64 = 1});
}

static const lk_predicate *translate(translator *t, duckdb_v2_expression_handle e, bool *exact)
{
    *exact = true;
    if (e == NULL) {
        return NULL;
    }
    switch ((int)type_of(e)) {
    case DUCKDB_V2_EXPRESSION_TYPE_COMPARE_EQUAL:
        return comparison(t, e, LK_EQ);
    case DUCKDB_V2_EXPRESSION_TYPE_COMPARE_NOTEQUAL:
        return comparison(t, e, LK_NE);
    case DUCKDB_V2_EXPRESSION_TYPE_COMPARE_LESSTHAN:
        return comparison(t, e, LK_LT);
    case DUCKDB_V2_EXPRESSION_TYPE_COMPARE_GREATERTHAN:
        return comparison(t, e, LK_GT);
    case DUCKDB_V2_EXPRESSION_TYPE_COMPARE_LESSTHANOREQUALTO:
        return comparison(t, e, LK_LE);
    case DUCKDB_V2_EXPRESSION_TYPE_COMPARE_GREATERTHANOREQUALTO:
        return comparison(t, e, LK_GE);
    case DUCKDB_V2_EXPRESSION_TYPE_COMPARE_IN:
        return in_list(t, e);
    case DUCKDB_V2_EXPRESSION_TYPE_COMPARE_BETWEEN:
        return between(t, e, exact);
    case DUCKDB_V2_EXPRESSION_TYPE_CONJUNCTION_AND:
        return conjunction(t, e, true, exact);
    case DUCKDB_V2_EXPRESSION_TYPE_CONJUNCTION_OR:
        return conjunction(t, e, false, exact);
    case DUCKDB_V2_EXPRESSION_TYPE_OPERATOR_NOT:
        return negation(t, e);
    case DUCKDB_V2_EXPRESSION_TYPE_OPERATOR_IS_NULL:
        return null_test(t, e, LK_PREDICATE_IS_NULL);
    case DUCKDB_V2_EXPRESSION_TYPE_OPERATOR_IS_NOT_NULL:
        return null_test(t, e, LK_PREDICATE_IS_NOT_NULL);
    case DUCKDB_V2_EXPRESSION_TYPE_BOUND_FUNCTION: {
        const lk_predicate *node = function(t, e);
        return node != NULL ? node : flag(t, e);
    }
    case DUCKDB_V2_EXPRESSION_TYPE_BOUND_COLUMN_REF:
        return flag(t, e);
    default:
        return NULL;
    }
}

/* -- collecting ------------------------------------------------------------------------------------ */

static void push(
    lk_arena *arena, const lk_predicate ***list, size_t *count, size_t *room, const lk_predicate *node)
{
    if (*count == *room) {
        *room = *room == 0 ? 8 : *room * 2;
        const lk_predicate **grown = lk_arena_take(arena, *room * sizeof *grown);
        if (*count > 0) {
            memcpy(grown, *list, *count * sizeof *grown);
        }
        *list = grown;
    }
    (*list)[(*count)++] = node;
}

bool lk_scan_filters_offer(lk_scan_filters *filters, const struct ArrowSchema *schema, bool keeps,
    duckdb_v2_table_function_filter_pushdown_info_handle info)
{
    translator t = {&filters->arena, schema, info};
    idx_t      count = 0;
    bool       any = false;
    (void)duckdb_v2_table_function_filter_pushdown_get_filter_count(info, &count, NULL);
    filters->wider_count = 0; /* what was not accepted is offered again */
    for (idx_t i = 0; i < count; i++) {
        duckdb_v2_expression_handle e = NULL;
        bool                        exact = true;
        (void)duckdb_v2_table_function_filter_pushdown_get_filter(info, i, &e, NULL);
        const lk_predicate *node = translate(&t, e, &exact);
        if (node == NULL) {
            continue;
        }
        if (exact && !keeps &&
            duckdb_v2_table_function_filter_pushdown_accept(info, i, NULL) == DUCKDB_V2_ERROR_NONE) {
            push(&filters->arena, &filters->exact, &filters->exact_count, &filters->exact_room, node);
            any = true;
        } else {
            push(&filters->arena, &filters->wider, &filters->wider_count, &filters->wider_room, node);
        }
    }
    return any;
}

const lk_predicate *lk_scan_filters_all(lk_scan_filters *filters)
{
    size_t count = filters->exact_count + filters->wider_count;
    if (count == 0) {
        return NULL;
    }
    lk_predicate *all = lk_arena_take(&filters->arena, sizeof *all);
    all->kind = LK_PREDICATE_AND;
    all->children = lk_arena_take(&filters->arena, count * sizeof *all->children);
    all->child_count = count;
    if (filters->exact_count > 0) {
        memcpy(all->children, filters->exact, filters->exact_count * sizeof *all->children);
    }
    if (filters->wider_count > 0) {
        memcpy(all->children + filters->exact_count, filters->wider,
            filters->wider_count * sizeof *all->children);
    }
    return all;
}
