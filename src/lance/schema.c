/*
 * schema.c - see schema.h. A schema is always built from records, so a table that was just made and the same
 * table opened again have equal schemas.
 */
#include "lance/schema.h"

#include "arrow/schema.h"
#include "base/limits.h"
#include "lance/logical_type.h"
#include "lance/pb_table.h"

#include <stdlib.h>

/* -- Arrow to records -------------------------------------------------------------------------------- */

typedef struct record_list {
    lk_arena        *arena;
    lk_field_record *records;
    size_t           count;
    const int32_t   *ids; /* in pre-order; NULL: count from first_id */
    int32_t          first_id;
} record_list;

static size_t count_fields(const struct ArrowSchema *schema)
{
    size_t count = 1;
    for (int64_t i = 0; i < schema->n_children; i++) {
        count += count_fields(schema->children[i]);
    }
    return count;
}

static void read_metadata(const char *encoded, lk_arena *arena, const lk_metadata_pair **out, size_t *count)
{
    struct ArrowMetadataReader reader;
    struct ArrowStringView     key, value;
    *out = NULL;
    *count = 0;
    if (encoded == NULL || ArrowMetadataReaderInit(&reader, encoded) != NANOARROW_OK) {
        return;
    }
    lk_metadata_pair *pairs = lk_arena_take(arena, (size_t)reader.remaining_keys * sizeof *pairs);
    while (ArrowMetadataReaderRead(&reader, &key, &value) == NANOARROW_OK) {
        pairs[*count].key = lk_arena_copy(arena, (lk_bytes){key.data, (size_t)key.size_bytes});
        pairs[(*count)++].value = lk_arena_copy(arena, (lk_bytes){value.data, (size_t)value.size_bytes});
    }
    *out = pairs;
}

static lk_rc refuse_type(const struct ArrowSchema *field, lk_err *err)
{
    lk_buf type = {0};
    lk_type_format(field, &type);
    lk_rc rc = lk_fail(err, LK_E_INVALID_SCHEMA, "no logical type for %.*s", LK_FMT(lk_buf_view(&type)));
    lk_detail(err, "column \"%.60s\": a table cannot hold %.*s", field->name == NULL ? "" : field->name,
        type.size > 100 ? 100 : (int)type.size, type.data);
    lk_buf_deinit(&type);
    return rc;
}

static lk_rc add_record(record_list *list, const struct ArrowSchema *field, int32_t parent_id, lk_err *err)
{
    bool             has_fields = false;
    size_t           index = list->count++;
    lk_field_record *record = &list->records[index];
    *record = (lk_field_record){
        .name = lk_arena_copy(list->arena, lk_bytes_of(field->name)),
        .id = list->ids == NULL ? list->first_id + (int32_t)index : list->ids[index],
        .parent_id = parent_id,
        .nullable = (field->flags & ARROW_FLAG_NULLABLE) != 0,
    };
    if (!lk_logical_type_of(field, list->arena, &record->logical_type, &has_fields)) {
        return refuse_type(field, err);
    }
    read_metadata(field->metadata, list->arena, &record->metadata, &record->metadata_count);
    for (int64_t i = 0; has_fields && i < field->n_children; i++) {
        lk_rc rc = add_record(list, field->children[i], record->id, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

static lk_rc list_records(const struct ArrowSchema *schema, record_list *list, lk_err *err)
{
    list->records = lk_arena_take(list->arena, count_fields(schema) * sizeof *list->records);
    for (int64_t i = 0; i < schema->n_children; i++) {
        lk_rc rc = add_record(list, schema->children[i], LK_FIELD_NONE, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

/* -- records to a tree ------------------------------------------------------------------------------- */

typedef struct by_id {
    int32_t id;
    size_t  index;
} by_id;

typedef struct builder {
    const lk_field_record *records;
    size_t                 count;
    by_id                 *ids;         /* ascending */
    size_t                *first_child; /* SIZE_MAX: none */
    size_t                *last_child;
    size_t                *next_sibling;
    size_t                *children; /* how many */
    lk_lance_schema       *out;
} builder;

static int compare_ids(const void *a, const void *b)
{
    const by_id *left = a, *right = b;
    return (left->id > right->id) - (left->id < right->id);
}

static size_t find_record(const builder *b, int32_t id)
{
    by_id        key = {id, 0};
    const by_id *found = b->count == 0 ? NULL : bsearch(&key, b->ids, b->count, sizeof key, compare_ids);
    return found == NULL ? SIZE_MAX : found->index;
}

static lk_rc index_ids(builder *b, lk_arena *arena, lk_err *err)
{
    b->ids = lk_arena_take(arena, b->count * sizeof *b->ids);
    for (size_t i = 0; i < b->count; i++) {
        b->ids[i] = (by_id){b->records[i].id, i};
    }
    qsort(b->ids, b->count, sizeof *b->ids, compare_ids);
    for (size_t i = 0; i < b->count; i++) {
        if (b->ids[i].id < 0 || (i > 0 && b->ids[i].id == b->ids[i - 1].id)) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "field id %d is negative or given twice", b->ids[i].id);
        }
    }
    return LK_OK;
}

/* Hangs every record below its parent, in the order given; slot `count` stands for the top. */
static lk_rc link_records(builder *b, lk_arena *arena, lk_err *err)
{
    size_t slots = b->count + 1;
    b->first_child = lk_arena_take(arena, slots * sizeof(size_t));
    b->last_child = lk_arena_take(arena, slots * sizeof(size_t));
    b->next_sibling = lk_arena_take(arena, slots * sizeof(size_t));
    b->children = lk_arena_take(arena, slots * sizeof(size_t));
    memset(b->first_child, 0xff, slots * sizeof(size_t));
    memset(b->next_sibling, 0xff, slots * sizeof(size_t));
    for (size_t index = 0; index < b->count; index++) {
        int32_t parent_id = b->records[index].parent_id;
        size_t  parent = parent_id == LK_FIELD_NONE ? b->count : find_record(b, parent_id);
        if (parent == SIZE_MAX || (parent >= index && parent != b->count)) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "field %d comes before its parent %d, or has none",
                b->records[index].id, parent_id);
        }
        if (b->children[parent] == 0) {
            b->first_child[parent] = index;
        } else {
            b->next_sibling[b->last_child[parent]] = index;
        }
        b->last_child[parent] = index;
        b->children[parent]++;
    }
    return LK_OK;
}

static lk_rc set_metadata(
    struct ArrowSchema *schema, const lk_metadata_pair *pairs, size_t count, lk_err *err)
{
    if (count == 0) {
        return LK_OK;
    }
    struct ArrowBuffer buffer;
    int                rc = ArrowMetadataBuilderInit(&buffer, NULL);
    for (size_t i = 0; i < count && rc == NANOARROW_OK; i++) {
        struct ArrowStringView key = {pairs[i].key.data, (int64_t)pairs[i].key.size};
        struct ArrowStringView value = {pairs[i].value.data, (int64_t)pairs[i].value.size};
        rc = ArrowMetadataBuilderAppend(&buffer, key, value);
    }
    if (rc == NANOARROW_OK) {
        rc = ArrowSchemaSetMetadata(schema, (const char *)buffer.data);
    }
    ArrowBufferReset(&buffer);
    return rc == NANOARROW_OK ? LK_OK : lk_fail(err, LK_E_LIMIT, "no memory for field metadata");
}

static bool record_says(const lk_field_record *record, const char *key, const char *value)
{
    for (size_t i = 0; i < record->metadata_count; i++) {
        if (lk_bytes_equal(record->metadata[i].key, lk_bytes_of(key)) &&
            lk_bytes_equal(record->metadata[i].value, lk_bytes_of(value))) {
            return true;
        }
    }
    return false;
}

/* A packed struct and a blob are one column whatever they look like. */
static bool is_one_column(const lk_field_record *record)
{
    return record_says(record, "packed", "true") || record_says(record, "lance-encoding:packed", "true") ||
           record_says(record, "ARROW:extension:name", "lance.blob.v2");
}

static bool child_count_fits(const char *format, size_t count)
{
    return strcmp(format, "+s") == 0 || count == 1; /* lists, maps and fixed-size lists have one child */
}

static lk_rc build_node(
    builder *b, size_t record_index, unsigned depth, struct ArrowSchema *node, lk_err *err);

static lk_rc build_children(builder *b, size_t slot, unsigned depth, struct ArrowSchema *node, lk_err *err)
{
    if (ArrowSchemaAllocateChildren(node, (int64_t)b->children[slot]) != NANOARROW_OK) {
        return lk_fail(err, LK_E_LIMIT, "no memory for %zu fields", b->children[slot]);
    }
    struct ArrowSchema **child = node->children;
    for (size_t next = b->first_child[slot]; next != SIZE_MAX; next = b->next_sibling[next]) {
        lk_rc rc = build_node(b, next, depth, *child++, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

static lk_rc describe(const lk_field_record *record, struct ArrowSchema *node, bool *has_fields, lk_err *err)
{
    lk_arena arena = {0};
    ArrowSchemaInit(node);
    node->flags = 0; /* it starts nullable */
    lk_rc rc = lk_logical_type_parse(record->logical_type, node, has_fields, err);
    if (rc == LK_OK && memchr(record->name.data, '\0', record->name.size) != NULL) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "a column name holds a NUL");
    }
    if (rc == LK_OK && ArrowSchemaSetName(node, lk_arena_text(&arena, record->name)) != NANOARROW_OK) {
        rc = lk_fail(err, LK_E_LIMIT, "no memory for a name");
    }
    node->flags |= record->nullable ? ARROW_FLAG_NULLABLE : 0;
    if (rc == LK_OK) {
        rc = set_metadata(node, record->metadata, record->metadata_count, err);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc build_node(
    builder *b, size_t record_index, unsigned depth, struct ArrowSchema *node, lk_err *err)
{
    const lk_field_record *record = &b->records[record_index];
    size_t                 index = b->out->field_count++;
    bool                   has_fields = false;

    lk_rc rc = describe(record, node, &has_fields, err);
    if (rc == LK_OK && depth >= LK_SCHEMA_DEPTH_MAX) {
        rc = lk_fail(err, LK_E_LIMIT, "fields nest deeper than %d", LK_SCHEMA_DEPTH_MAX);
    }
    if (rc == LK_OK && has_fields != (b->children[record_index] > 0) && strcmp(node->format, "+s") != 0) {
        rc = lk_fail(
            err, LK_E_CORRUPT_FILE, "%zu child fields do not fit the type", b->children[record_index]);
    }
    if (rc == LK_OK && has_fields && !child_count_fits(node->format, b->children[record_index])) {
        rc = lk_fail(
            err, LK_E_CORRUPT_FILE, "%zu child fields do not fit the type", b->children[record_index]);
    }
    if (rc != LK_OK) {
        lk_context(err, "column '%.*s' of type '%.*s'", LK_FMT(record->name), LK_FMT(record->logical_type));
        return rc;
    }
    if (has_fields) {
        rc = build_children(b, record_index, depth + 1, node, err);
    }
    b->out->fields[index] = (lk_lance_field){
        .arrow = node,
        .id = record->id,
        .parent_id = record->parent_id,
        .end = b->out->field_count,
        .depth = depth,
        .leaf = !has_fields || is_one_column(record),
    };
    return rc;
}

/* Every type must have its way back, which a rewrite takes. */
static lk_rc check_names(const lk_lance_schema *schema, lk_arena *arena, lk_err *err)
{
    record_list list = {.arena = arena};
    lk_rc       rc = list_records(&schema->arrow, &list, err);
    if (rc == LK_OK && list.count == schema->field_count) {
        return LK_OK;
    }
    lk_err again = {0};
    rc = lk_fail(&again, LK_E_UNSUPPORTED_FORMAT, "a logical type cannot be written back");
    *err = again;
    return rc;
}

static void find_top(lk_lance_schema *schema)
{
    schema->top = calloc((size_t)schema->arrow.n_children + 1, sizeof *schema->top);
    LK_ASSERT(schema->top != NULL);
    size_t count = 0;
    for (size_t index = 0; index < schema->field_count; index = schema->fields[index].end) {
        schema->top[count++] = index;
    }
    LK_ASSERT(count == (size_t)schema->arrow.n_children);
}

lk_rc lk_lance_schema_from_records(const lk_field_record *records, size_t count,
    const lk_metadata_pair *metadata, size_t metadata_count, lk_lance_schema **out, lk_err *err)
{
    lk_arena         arena = {0};
    lk_lance_schema *schema = calloc(1, sizeof *schema);
    LK_ASSERT(schema != NULL);
    atomic_init(&schema->refs, 1);
    builder b = {.records = records, .count = count, .out = schema};
    lk_rc   rc = LK_OK;

    schema->fields = calloc(count + 1, sizeof *schema->fields);
    ArrowSchemaInit(&schema->arrow);
    if (schema->fields == NULL || ArrowSchemaSetFormat(&schema->arrow, "+s") != NANOARROW_OK) {
        rc = lk_fail(err, LK_E_LIMIT, "no memory for %zu fields", count);
        goto done;
    }
    if ((rc = index_ids(&b, &arena, err)) != LK_OK || (rc = link_records(&b, &arena, err)) != LK_OK ||
        (rc = build_children(&b, count, 0, &schema->arrow, err)) != LK_OK) {
        goto done;
    }
    if ((rc = check_names(schema, &arena, err)) == LK_OK) {
        rc = set_metadata(&schema->arrow, metadata, metadata_count, err);
    }

done:
    lk_arena_close(&arena);
    if (rc != LK_OK) {
        lk_lance_schema_close(schema);
        return rc;
    }
    find_top(schema);
    *out = schema;
    return LK_OK;
}

lk_lance_schema *lk_lance_schema_ref(lk_lance_schema *schema)
{
    atomic_fetch_add_explicit(&schema->refs, 1, memory_order_relaxed);
    return schema;
}

void lk_lance_schema_close(lk_lance_schema *schema)
{
    if (schema == NULL || atomic_fetch_sub_explicit(&schema->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    lk_schema_release(&schema->arrow);
    free(schema->fields);
    free(schema->top);
    free(schema);
}

lk_rc lk_lance_schema_from_arrow(const struct ArrowSchema *arrow, lk_lance_schema **out, lk_err *err)
{
    return lk_lance_schema_from_arrow_at(arrow, 0, out, err);
}

lk_rc lk_lance_schema_from_arrow_at(
    const struct ArrowSchema *arrow, int32_t first_id, lk_lance_schema **out, lk_err *err)
{
    lk_arena                arena = {0};
    record_list             list = {.arena = &arena, .first_id = first_id};
    const lk_metadata_pair *metadata = NULL;
    size_t                  metadata_count = 0;

    lk_rc rc = lk_schema_check_stored(arrow, err);
    if (rc == LK_OK && count_fields(arrow) > (size_t)(INT32_MAX - first_id)) {
        rc = lk_fail(err, LK_E_LIMIT, "field ids of the table are used up");
    }
    if (rc == LK_OK) {
        rc = list_records(arrow, &list, err);
    }
    if (rc == LK_OK) {
        read_metadata(arrow->metadata, &arena, &metadata, &metadata_count);
        rc = lk_lance_schema_from_records(list.records, list.count, metadata, metadata_count, out, err);
    }
    lk_arena_close(&arena);
    return rc;
}

void lk_lance_schema_records(const lk_lance_schema *schema, lk_arena *arena, const lk_field_record **records,
    size_t *count, const lk_metadata_pair **metadata, size_t *metadata_count)
{
    int32_t *ids = lk_arena_take(arena, schema->field_count * sizeof *ids);
    for (size_t i = 0; i < schema->field_count; i++) {
        ids[i] = schema->fields[i].id;
    }
    record_list list = {.arena = arena, .ids = ids};
    lk_err      err = {0};
    lk_rc       rc = list_records(&schema->arrow, &list, &err);
    LK_ASSERT(rc == LK_OK && list.count == schema->field_count); /* check_names saw to it */
    *records = list.records;
    *count = list.count;
    read_metadata(schema->arrow.metadata, arena, metadata, metadata_count);
}

size_t lk_lance_schema_find(const lk_lance_schema *schema, int32_t id)
{
    for (size_t i = 0; i < schema->field_count; i++) {
        if (schema->fields[i].id == id) {
            return i;
        }
    }
    return SIZE_MAX;
}

void lk_lance_schema_descriptor(const lk_lance_schema *schema, uint64_t rows, lk_buf *out)
{
    lk_pb_file_descriptor(schema, rows, out);
}
