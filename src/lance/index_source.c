/* index_source.c - see index_source.h. */
#include "lance/index_source.h"

#include "arrow/bits.h"
#include "lance/column.h"

#include <stdlib.h>

enum { STRETCH_BYTES = 16 * 1024 * 1024, STRETCH_ZONES_MAX = 8 };

/* Rows to read at once, by the stored bytes of a row of all columns. */
static uint64_t stretch_rows(const lk_fragment *fragment)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < fragment->file_count; i++) {
        bytes += fragment->files[i].size_bytes;
    }
    uint64_t width = fragment->physical_rows == 0 ? 0 : bytes / fragment->physical_rows;
    uint64_t zones = width == 0 ? STRETCH_ZONES_MAX : STRETCH_BYTES / width / LK_INDEX_ZONE_ROWS;
    zones = zones < 1 ? 1 : zones > STRETCH_ZONES_MAX ? STRETCH_ZONES_MAX : zones;
    return zones * LK_INDEX_ZONE_ROWS;
}

typedef struct reading {
    const lk_index_source *source;
    size_t                 fragment;
    lk_field_source        field;
    size_t                 depth; /* structs around the field */
    const lk_deletion     *deletion;
    uint8_t               *live;
    uint64_t               first, count;
} reading;

static lk_rc make_addresses(const reading *r, struct ArrowArray *out, lk_err *err)
{
    lk_buffer buffers[2] = {0};
    uint64_t  address = r->source->dataset->manifest->fragments[r->fragment].id << 32 | r->first;
    lk_rc     rc = lk_buffer_take(r->source->pool, r->count * 8 + 8, &buffers[1], err);
    if (rc != LK_OK) {
        return rc;
    }
    uint64_t *ids = (uint64_t *)(void *)buffers[1].data;
    for (uint64_t i = 0; i < r->count; i++) {
        ids[i] = address + i;
    }
    lk_column_node(out, r->count, 0, buffers, 2, 0);
    return LK_OK;
}

/* -- fields of structs ------------------------------------------------------------------------------------- */

/* Puts the structs around a field (of the schema, at field_index) around its source: their nulls are its. */
static void wrap(reading *r, const lk_lance_schema *schema, size_t field_index, lk_arena *arena)
{
    const lk_lance_field *field = &schema->fields[field_index];
    for (int32_t parent = field->parent_id; parent != LK_FIELD_NONE;
         parent = schema->fields[lk_lance_schema_find(schema, parent)].parent_id) {
        struct ArrowSchema  *as = lk_arena_take(arena, sizeof *as);
        struct ArrowSchema **children = lk_arena_take(arena, sizeof *children);
        lk_field_source     *inner = lk_arena_take(arena, sizeof *inner);
        *inner = r->field;
        *children = (struct ArrowSchema *)(uintptr_t)inner->field; /* it is only read */
        *as = (struct ArrowSchema){
            .format = "+s", .name = "", .flags = ARROW_FLAG_NULLABLE, .n_children = 1, .children = children};
        r->field = (lk_field_source){.field = as, .children = inner, .child_count = 1};
        r->depth++;
    }
}

/* Makes the field null where the struct around it is. Both were just decoded: nobody shares their bitmaps. */
static lk_rc add_nulls(const reading *r, const uint8_t *outer, struct ArrowArray *inner, lk_err *err)
{
    size_t      size = lk_bits_size((int64_t)r->count);
    lk_validity validity = {0};
    if (inner->buffers[0] == NULL) {
        lk_rc rc = lk_buffer_take(r->source->pool, size, &validity.bits, err);
        if (rc != LK_OK) {
            return rc;
        }
        memcpy(validity.bits.data, outer, size);
        lk_column_set_validity(inner, &validity);
    } else {
        uint8_t *own = (uint8_t *)(uintptr_t)inner->buffers[0];
        for (size_t i = 0; i < size; i++) {
            own[i] = (uint8_t)(own[i] & outer[i]);
        }
    }
    inner->null_count = (int64_t)r->count - lk_bits_count(inner->buffers[0], 0, (int64_t)r->count);
    return LK_OK;
}

/* Takes the field out of an array of structs. */
static lk_rc unwrap(const reading *r, struct ArrowArray *array, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t depth = 0; rc == LK_OK && depth < r->depth; depth++) {
        const uint8_t    *outer = array->null_count == 0 ? NULL : array->buffers[0];
        struct ArrowArray inner = {0};
        lk_array_move(array->children[0], &inner);
        rc = outer == NULL ? LK_OK : add_nulls(r, outer, &inner, err);
        lk_array_release(array);
        lk_array_move(&inner, array);
    }
    return rc;
}

/* Leaves the deleted rows out. */
static lk_rc keep_live(
    const reading *r, const struct ArrowSchema *field, struct ArrowArray *array, lk_err *err)
{
    struct ArrowArray kept = {0};
    uint64_t          live = 0;
    for (uint64_t i = 0; i < r->count; i++) {
        live += r->live[i];
    }
    if (live == r->count) {
        return LK_OK;
    }
    lk_rc rc = lk_array_filter(field, array, r->live, (int64_t)live, &kept, err);
    lk_array_release(array);
    lk_array_move(&kept, array);
    return rc;
}

static lk_rc read_stretch(reading *r, lk_index_take *take, void *context, lk_err *err)
{
    struct ArrowArray  values = {0}, ids = {0};
    struct ArrowSchema id_field = {.format = "L"};
    lk_row_range       range = {r->first, r->count};
    lk_rc              rc = lk_cancel_check(r->source->cancel, err);
    memset(r->live, 1, r->count);
    (void)lk_deletion_clear(r->deletion, r->first, r->count, r->live);
    if (rc == LK_OK) {
        rc = lk_file_decode(&r->field, &range, 1, r->source->pool, &values, err);
    }
    if (rc == LK_OK) {
        rc = unwrap(r, &values, err);
    }
    if (rc == LK_OK) {
        const lk_lance_schema *schema = r->source->dataset->manifest->schema;
        rc = keep_live(r, schema->fields[r->source->field].arrow, &values, err);
    }
    if (rc == LK_OK) {
        rc = make_addresses(r, &ids, err);
    }
    if (rc == LK_OK) {
        rc = keep_live(r, &id_field, &ids, err);
    }
    if (rc == LK_OK && ids.length > 0) {
        rc = take(context, &values, &ids, err);
    }
    lk_array_release(&values);
    lk_array_release(&ids);
    return rc;
}

static lk_rc open_fragment(reading *r, lk_arena *arena, lk_err *err)
{
    lk_dataset *dataset = r->source->dataset;
    lk_rc       rc = lk_dataset_source(dataset, r->fragment, r->source->field,
              dataset->manifest->schema->fields[r->source->field].arrow, arena, &r->field, err);
    if (rc == LK_OK) {
        wrap(r, dataset->manifest->schema, r->source->field, arena);
        rc = lk_dataset_deletion(dataset, r->fragment, &r->deletion, err);
    }
    return rc;
}

lk_rc lk_index_source_read(
    const lk_index_source *source, size_t fragment, lk_index_take *take, void *context, lk_err *err)
{
    const lk_fragment *of = &source->dataset->manifest->fragments[fragment];
    lk_arena           arena = {0};
    uint64_t           step = stretch_rows(of);
    reading            r = {.source = source, .fragment = fragment, .live = malloc(step)};
    LK_ASSERT(r.live != NULL);
    lk_rc rc = open_fragment(&r, &arena, err);
    while (rc == LK_OK && r.first < of->physical_rows) {
        r.count = of->physical_rows - r.first < step ? of->physical_rows - r.first : step;
        rc = read_stretch(&r, take, context, err);
        r.first += r.count;
    }
    lk_dataset_source_close(&r.field);
    lk_arena_close(&arena);
    free(r.live);
    return rc;
}
