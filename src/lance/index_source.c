/* index_source.c - see index_source.h. */
#include "lance/index_source.h"

#include "lance/column.h"
#include "lance/row_ids.h"

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
    const lk_deletion     *deletion;
    const lk_row_ids      *row_ids; /* NULL: addresses */
    uint8_t               *live;
    uint64_t               first, count;
} reading;

static lk_rc make_ids(const reading *r, struct ArrowArray *out, lk_err *err)
{
    lk_buffer buffers[2] = {0};
    uint64_t  address = r->source->dataset->manifest->fragments[r->fragment].id << 32 | r->first;
    lk_rc     rc = lk_buffer_take(r->source->pool, r->count * 8 + 8, &buffers[1], err);
    if (rc != LK_OK) {
        return rc;
    }
    uint64_t *ids = (uint64_t *)(void *)buffers[1].data;
    if (r->row_ids != NULL) {
        lk_row_ids_read(r->row_ids, r->first, r->count, ids);
    }
    for (uint64_t i = 0; r->row_ids == NULL && i < r->count; i++) {
        ids[i] = address + i;
    }
    lk_column_node(out, r->count, 0, buffers, 2, 0);
    return LK_OK;
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
        rc = keep_live(r, r->field.field, &values, err);
    }
    if (rc == LK_OK) {
        rc = make_ids(r, &ids, err);
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
        rc = lk_dataset_deletion(dataset, r->fragment, &r->deletion, err);
    }
    if (rc == LK_OK && !r->source->addresses && lk_dataset_has_stable_row_ids(dataset)) {
        rc = lk_dataset_row_ids(dataset, r->fragment, &r->row_ids, err);
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
