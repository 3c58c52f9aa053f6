/*
 * predicate.c - see predicate.h. The tree is walked once per LK_TRUTH_ROWS rows, so that truth stays in the
 * first-level cache; a conjunction stops at the first child that leaves no row.
 *
 * Pruning asks of every node two questions at once: may it be true, may it be false. So NOT is a swap and no
 * rule is written twice.
 */
#include "arrow/predicate_priv.h"

#include <stdlib.h>

/* -- pruning ----------------------------------------------------------------------------------------- */

typedef struct may {
    bool be_true, be_false;
} may;

typedef struct pruning {
    const lk_column_stats *(*stats)(size_t column, void *context);
    void *context;
} pruning;

static const may anything = {true, true};

/* How a bound stands to the value: order, or unknown. */
typedef struct bound {
    bool known;
    int  order;
} bound;

static bound bound_to(bool has, const lk_value *limit, const lk_value *value)
{
    bound b = {0};
    if (has) {
        b.order = lk_value_compare(limit, value, &b.known);
    }
    return b;
}

static may flipped(may m)
{
    return (may){m.be_false, m.be_true};
}

/* NaN is above every number: equal to NaN values only. */
static may compare_with_nan(const lk_column_stats *stats, lk_compare compare)
{
    may equal = {stats->has_nan, true};
    switch (compare) {
    case LK_EQ:
    case LK_GE:
        return equal;
    case LK_NE:
    case LK_LT:
        return flipped(equal);
    case LK_LE:
        return (may){true, false};
    case LK_GT:
        return (may){false, true};
    }
    return anything;
}

static may compare_bounds(lk_compare compare, bound min, bound max, bool nan)
{
    may m = anything;
    switch (compare) {
    case LK_EQ:
        m.be_true = !(min.known && min.order > 0) && !(max.known && max.order < 0);
        m.be_false = nan || !(min.known && max.known && min.order == 0 && max.order == 0);
        return m;
    case LK_LT:
        m.be_true = !(min.known && min.order >= 0);
        m.be_false = nan || !(max.known && max.order < 0);
        return m;
    case LK_LE:
        m.be_true = !(min.known && min.order > 0);
        m.be_false = nan || !(max.known && max.order <= 0);
        return m;
    case LK_NE:
        return flipped(compare_bounds(LK_EQ, min, max, nan));
    case LK_GE:
        return flipped(compare_bounds(LK_LT, min, max, nan));
    case LK_GT:
        return flipped(compare_bounds(LK_LE, min, max, nan));
    }
    return m;
}

static may may_compare(const lk_column_stats *stats, lk_compare compare, const lk_value *value)
{
    if (stats->null_count != UINT64_MAX && stats->null_count >= stats->row_count) {
        return (may){false, false}; /* every answer is null */
    }
    if (lk_value_is_nan(value)) {
        return compare_with_nan(stats, compare);
    }
    bool nan = value->kind == LK_VALUE_F64 && stats->has_nan;
    return compare_bounds(compare, bound_to(stats->has_min, &stats->min, value),
        bound_to(stats->has_max, &stats->max, value), nan);
}

static may may_in(const lk_column_stats *stats, const lk_predicate *p)
{
    may any = {false, true};
    for (size_t i = 0; i < p->value_count; i++) {
        may one = may_compare(stats, LK_EQ, &p->values[i]);
        any.be_true |= one.be_true;
        any.be_false &= one.be_false;
    }
    return any;
}

static may may_prefix(const lk_column_stats *stats, lk_bytes prefix)
{
    if (!stats->has_min || !stats->has_max || stats->min.kind != LK_VALUE_BYTES ||
        stats->max.kind != LK_VALUE_BYTES) {
        return anything;
    }
    lk_bytes min = stats->min.as.bytes, max = stats->max.as.bytes;
    lk_bytes head = {min.data, min.size < prefix.size ? min.size : prefix.size};
    bool     below = lk_bytes_compare(max, prefix)<0, above = lk_bytes_compare(head, prefix)> 0;
    return (may){!below && !above, !(lk_bytes_starts(min, prefix) && lk_bytes_starts(max, prefix))};
}

static may may_null(const lk_column_stats *stats)
{
    if (stats->null_count == UINT64_MAX) {
        return anything;
    }
    return (may){stats->null_count > 0, stats->null_count < stats->row_count};
}

static may may_leaf(const lk_predicate *p, const lk_column_stats *stats)
{
    switch (p->kind) {
    case LK_PREDICATE_COMPARE:
        return may_compare(stats, p->compare, p->values);
    case LK_PREDICATE_IN:
        return may_in(stats, p);
    case LK_PREDICATE_PREFIX:
        return may_prefix(stats, p->values->as.bytes);
    case LK_PREDICATE_IS_NULL:
        return may_null(stats);
    case LK_PREDICATE_IS_NOT_NULL:
        return flipped(may_null(stats));
    case LK_PREDICATE_AND:
    case LK_PREDICATE_OR:
    case LK_PREDICATE_NOT:
        break;
    }
    return anything;
}

static may may_be(const lk_predicate *p, const pruning *with)
{
    bool is_and = p->kind == LK_PREDICATE_AND;
    if (p->kind == LK_PREDICATE_NOT) {
        return flipped(may_be(p->children[0], with));
    }
    if (!is_and && p->kind != LK_PREDICATE_OR) {
        const lk_column_stats *stats = p->path_count > 0 ? NULL : with->stats(p->column, with->context);
        return stats == NULL ? anything : stats->row_count == 0 ? (may){false, false} : may_leaf(p, stats);
    }
    may all = {is_and, !is_and};
    for (size_t i = 0; i < p->child_count; i++) {
        may one = may_be(p->children[i], with);
        all.be_true = is_and ? all.be_true && one.be_true : all.be_true || one.be_true;
        all.be_false = is_and ? all.be_false || one.be_false : all.be_false && one.be_false;
    }
    return all;
}

bool lk_predicate_may_match(const lk_predicate *predicate,
    const lk_column_stats *(*stats)(size_t column, void *context), void *context)
{
    pruning with = {stats, context};
    return may_be(predicate, &with).be_true;
}

/* -- IN with many values: a hash set ------------------------------------------------------------------- */

enum { SMALL_IN = 8 };

/* Of keys where the column has them, else of values. Open addressing, at most half full. */
typedef struct value_set {
    const lk_predicate *node;
    bool                by_key;
    uint64_t           *keys;
    uint32_t           *slots; /* index of the value + 1; 0: empty */
    size_t              mask;
    struct value_set   *next;
} value_set;

static inline uint64_t mix(uint64_t x)
{
    x *= 0x9E3779B97F4A7C15ULL;
    return x ^ x >> 32;
}

static uint64_t hash_bytes(lk_bytes bytes)
{
    uint64_t hash = bytes.size, last = 0;
    size_t   at = 0;
    for (; at + 8 <= bytes.size; at += 8) {
        hash = mix(hash ^ lk_load_u64(bytes.data + at));
    }
    if (at < bytes.size) {
        memcpy(&last, bytes.data + at, bytes.size - at);
    }
    return mix(hash ^ last);
}

/* Equal values hash alike whatever their kinds: numbers by their low 64 bits. */
static uint64_t hash_value(const lk_value *value)
{
    switch ((int)value->kind) {
    case LK_VALUE_BYTES:
        return hash_bytes(value->as.bytes);
    case LK_VALUE_DECIMAL128:
        return mix(value->as.decimal128.low);
    default:
        return mix(value->as.u64);
    }
}

static bool equal_values(const lk_value *a, const lk_value *b)
{
    bool comparable = false;
    return lk_value_compare(a, b, &comparable) == 0 && comparable;
}

static void *must_calloc(size_t count, size_t size)
{
    void *block = calloc(count, size);
    LK_ASSERT(block != NULL);
    return block;
}

static void set_add(value_set *set, const lk_column_rows *column, size_t index)
{
    const lk_value *value = &set->node->values[index];
    uint64_t        key = 0;
    if (set->by_key && !lk_value_key(column, value, &key)) {
        return;
    }
    size_t at = (set->by_key ? mix(key) : hash_value(value)) & set->mask;
    while (set->slots[at] != 0) {
        at = (at + 1) & set->mask;
    }
    set->slots[at] = (uint32_t)index + 1;
    set->keys[at] = key;
}

static value_set *set_new(const lk_predicate *node, const lk_column_rows *column)
{
    size_t room = 16;
    while (room < node->value_count * 2) {
        room *= 2;
    }
    value_set *set = must_calloc(1, sizeof *set);
    set->slots = must_calloc(room, sizeof *set->slots);
    set->keys = must_calloc(room, sizeof *set->keys);
    set->node = node;
    set->mask = room - 1;
    set->by_key = lk_has_key(column);
    for (size_t i = 0; i < node->value_count; i++) {
        set_add(set, column, i);
    }
    return set;
}

static void set_free(value_set *set)
{
    free(set->slots);
    free(set->keys);
    free(set);
}

static bool set_holds_value(const value_set *set, const lk_value *value)
{
    for (size_t at = hash_value(value) & set->mask; set->slots[at] != 0; at = (at + 1) & set->mask) {
        if (equal_values(&set->node->values[set->slots[at] - 1], value)) {
            return true;
        }
    }
    return false;
}

static inline bool set_holds_key(const value_set *set, uint64_t key)
{
    for (size_t at = mix(key) & set->mask; set->slots[at] != 0; at = (at + 1) & set->mask) {
        if (set->keys[at] == key) {
            return true;
        }
    }
    return false;
}

/* -- evaluating --------------------------------------------------------------------------------------- */

typedef struct evaluation {
    const struct ArrowSchema *schema;
    const struct ArrowArray  *batch;
    const size_t             *columns;
    size_t                    column_count;
    value_set                *sets;
    lk_err                   *err;
} evaluation;

static bool is_leaf(const lk_predicate *p)
{
    return p->kind != LK_PREDICATE_AND && p->kind != LK_PREDICATE_OR && p->kind != LK_PREDICATE_NOT;
}

static lk_rc find_child(const evaluation *e, const lk_predicate *p, size_t *out)
{
    for (size_t child = 0; child < e->column_count && p->column < (size_t)e->schema->n_children; child++) {
        if (e->columns[child] == p->column) {
            *out = child;
            return LK_OK;
        }
    }
    return lk_fail(e->err, LK_E_INTERNAL, "column %zu of the predicate is not in the batch", p->column);
}

/* Rows of the leaf's column, or of a struct around it: after `depth` steps of its path. */
static lk_rc find_rows(const evaluation *e, const lk_predicate *p, size_t depth, int64_t start, size_t count,
    lk_column_rows *out)
{
    size_t child = 0;
    lk_rc  rc = find_child(e, p, &child);
    if (rc != LK_OK) {
        return rc;
    }
    const struct ArrowSchema *field = e->schema->children[p->column];
    *out = (lk_column_rows){.array = e->batch->children[child], .count = count};
    out->start = out->array->offset + e->batch->offset + start;
    for (size_t step = 0; step < depth; step++) {
        if (p->path[step] >= (size_t)field->n_children || strcmp(field->format, "+s") != 0) {
            return lk_fail(e->err, LK_E_INTERNAL, "column %zu has no such member", p->column);
        }
        field = field->children[p->path[step]];
        out->array = out->array->children[p->path[step]];
        out->start += out->array->offset;
    }
    if (!lk_type_of(field, &out->type)) {
        return lk_fail(e->err, LK_E_UNSUPPORTED_FORMAT, "predicate on format %s", field->format);
    }
    out->comparable = lk_comparable_of(&out->type);
    return LK_OK;
}

static bool kind_fits(lk_comparable comparable, const lk_value *value)
{
    switch (comparable) {
    case LK_COMPARABLE_BOOL:
    case LK_COMPARABLE_SIGNED:
    case LK_COMPARABLE_UNSIGNED:
    case LK_COMPARABLE_DECIMAL128:
        return value->kind == LK_VALUE_I64 || value->kind == LK_VALUE_U64 ||
               value->kind == LK_VALUE_DECIMAL128;
    case LK_COMPARABLE_FLOAT:
        return value->kind == LK_VALUE_F64;
    case LK_COMPARABLE_BYTES:
    case LK_COMPARABLE_FIXED_BYTES:
        return value->kind == LK_VALUE_BYTES;
    case LK_COMPARABLE_NONE:
        break;
    }
    return false;
}

/* Before any row: each leaf's column is there, of a type that compares with the leaf's values; sets are built. */
static lk_rc prepare(evaluation *e, const lk_predicate *p)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && !is_leaf(p) && i < p->child_count; i++) {
        rc = prepare(e, p->children[i]);
    }
    if (!is_leaf(p)) {
        return rc;
    }
    lk_column_rows rows;
    rc = find_rows(e, p, p->path_count, 0, 0, &rows);
    if (rc != LK_OK) {
        return rc;
    }
    bool only_nulls = p->kind == LK_PREDICATE_IS_NULL || p->kind == LK_PREDICATE_IS_NOT_NULL ||
                      rows.type.layout == LK_LAYOUT_NULL;
    for (size_t i = 0; rc == LK_OK && !only_nulls && i < p->value_count; i++) {
        if (!kind_fits(rows.comparable, &p->values[i])) {
            rc = lk_fail(
                e->err, LK_E_UNSUPPORTED_FORMAT, "column %zu cannot be compared with its value", p->column);
        }
    }
    if (rc == LK_OK && p->kind == LK_PREDICATE_IN && p->value_count > SMALL_IN) {
        value_set *set = set_new(p, &rows);
        set->next = e->sets;
        e->sets = set;
    }
    return rc;
}

static void truth_in_set(const value_set *set, const lk_column_rows *rows, uint8_t *truth)
{
    uint64_t keys[LK_TRUTH_ROWS];
    if (set->by_key) {
        lk_column_keys(rows, keys);
        for (size_t i = 0; i < rows->count; i++) {
            truth[i] = set_holds_key(set, keys[i]) ? LK_TRUE : LK_FALSE;
        }
        return;
    }
    for (size_t i = 0; i < rows->count; i++) {
        lk_value value = lk_value_at(rows, i);
        truth[i] = set_holds_value(set, &value) ? LK_TRUE : LK_FALSE;
    }
}

static void truth_in(const evaluation *e, const lk_predicate *p, const lk_column_rows *rows, uint8_t *truth)
{
    uint8_t one[LK_TRUTH_ROWS];
    if (p->value_count > SMALL_IN) {
        const value_set *set = e->sets;
        while (set->node != p) {
            set = set->next;
        }
        truth_in_set(set, rows, truth);
        return;
    }
    memset(truth, LK_FALSE, rows->count);
    for (size_t i = 0; i < p->value_count; i++) {
        lk_truth_compare(rows, LK_EQ, &p->values[i], one);
        lk_truth_or(one, rows->count, truth);
    }
}

/* A member is null where it or a struct around it is. */
static void truth_null(
    const evaluation *e, const lk_predicate *p, int64_t start, const lk_column_rows *rows, uint8_t *truth)
{
    bool    wanted = p->kind == LK_PREDICATE_IS_NULL;
    uint8_t other[LK_TRUTH_ROWS];
    lk_truth_is_null(rows, wanted, truth);
    for (size_t depth = 0; depth < p->path_count; depth++) {
        lk_column_rows around;
        lk_rc          rc = find_rows(e, p, depth, start, rows->count, &around);
        LK_ASSERT(rc == LK_OK);
        lk_truth_is_null(&around, wanted, other);
        (wanted ? lk_truth_or : lk_truth_and)(other, rows->count, truth);
    }
}

static void truth_leaf(
    const evaluation *e, const lk_predicate *p, int64_t start, size_t count, uint8_t *truth)
{
    lk_column_rows rows;
    lk_rc          rc = find_rows(e, p, p->path_count, start, count, &rows);
    LK_ASSERT(rc == LK_OK); /* prepare saw it */
    if (p->kind == LK_PREDICATE_IS_NULL || p->kind == LK_PREDICATE_IS_NOT_NULL) {
        truth_null(e, p, start, &rows, truth);
        return;
    }
    if (rows.type.layout == LK_LAYOUT_NULL) {
        memset(truth, LK_NULL, count);
        return;
    }
    if (p->kind == LK_PREDICATE_COMPARE) {
        lk_truth_compare(&rows, p->compare, p->values, truth);
    } else if (p->kind == LK_PREDICATE_PREFIX) {
        lk_truth_prefix(&rows, p->values->as.bytes, truth);
    } else {
        truth_in(e, p, &rows, truth);
    }
    lk_truth_nulls(&rows, truth);
    for (size_t depth = 0; depth < p->path_count; depth++) {
        rc = find_rows(e, p, depth, start, count, &rows);
        LK_ASSERT(rc == LK_OK);
        lk_truth_nulls(&rows, truth);
    }
}

/* Whether no later child can change the outcome: all false under AND, all true under OR. */
static bool settled(const uint8_t *truth, size_t count, uint8_t value)
{
    return truth[0] == value && memcmp(truth, truth + 1, count - 1) == 0;
}

static void truth_of(const evaluation *e, const lk_predicate *p, int64_t start, size_t count, uint8_t *truth)
{
    uint8_t other[LK_TRUTH_ROWS];
    bool    is_and = p->kind == LK_PREDICATE_AND;
    if (is_leaf(p)) {
        truth_leaf(e, p, start, count, truth);
        return;
    }
    if (p->kind == LK_PREDICATE_NOT) {
        truth_of(e, p->children[0], start, count, truth);
        lk_truth_not(count, truth);
        return;
    }
    memset(truth, is_and ? LK_TRUE : LK_FALSE, count);
    for (size_t i = 0; i < p->child_count; i++) {
        truth_of(e, p->children[i], start, count, i == 0 ? truth : other);
        if (i > 0) {
            (is_and ? lk_truth_and : lk_truth_or)(other, count, truth);
        }
        if (settled(truth, count, is_and ? LK_FALSE : LK_TRUE)) {
            return;
        }
    }
}

lk_rc lk_predicate_evaluate(const lk_predicate *predicate, const struct ArrowSchema *schema,
    const struct ArrowArray *batch, const size_t *columns, size_t column_count, uint8_t *selection,
    lk_err *err)
{
    uint8_t    truth[LK_TRUTH_ROWS];
    evaluation e = {schema, batch, columns, column_count, NULL, err};
    lk_rc      rc = prepare(&e, predicate);
    for (int64_t start = 0; rc == LK_OK && start < batch->length; start += LK_TRUTH_ROWS) {
        int64_t left = batch->length - start;
        size_t  count = left < LK_TRUTH_ROWS ? (size_t)left : LK_TRUTH_ROWS;
        truth_of(&e, predicate, start, count, truth);
        lk_truth_select(truth, count, selection + start);
    }
    while (e.sets != NULL) {
        value_set *next = e.sets->next;
        set_free(e.sets);
        e.sets = next;
    }
    return rc;
}

bool lk_predicate_supports(const struct ArrowSchema *field)
{
    lk_type type;
    return lk_type_of(field, &type) && lk_comparable_of(&type) != LK_COMPARABLE_NONE;
}

/* -- columns ------------------------------------------------------------------------------------------ */

static size_t count_leaves(const lk_predicate *p)
{
    size_t count = is_leaf(p) ? 1 : 0;
    for (size_t i = 0; !is_leaf(p) && i < p->child_count; i++) {
        count += count_leaves(p->children[i]);
    }
    return count;
}

static void list_columns(const lk_predicate *p, size_t *out, size_t *count)
{
    if (is_leaf(p)) {
        out[(*count)++] = p->column;
    }
    for (size_t i = 0; !is_leaf(p) && i < p->child_count; i++) {
        list_columns(p->children[i], out, count);
    }
}

static int by_number(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

size_t lk_predicate_columns(const lk_predicate *predicate, lk_arena *arena, size_t **columns)
{
    size_t  count = 0, kept = 0;
    size_t *list = lk_arena_take(arena, (count_leaves(predicate) + 1) * sizeof *list);
    list_columns(predicate, list, &count);
    qsort(list, count, sizeof *list, by_number);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || list[i] != list[i - 1]) {
            list[kept++] = list[i];
        }
    }
    *columns = list;
    return kept;
}
