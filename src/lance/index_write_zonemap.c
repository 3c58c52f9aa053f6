/*
 * index_write_zonemap.c - the file of a ZONEMAP segment (index_zonemap.c): a zone is LK_INDEX_ZONE_ROWS neighbouring row
 * offsets. Zones of old segments are copied.
 */
#include "arrow/schema.h"
#include "lance/index_order.h"
#include "lance/index_write.h"

#include <stdlib.h>

enum { MIN, MAX, NULL_COUNT, NAN_COUNT, FRAGMENT_ID, ZONE_START, ZONE_LENGTH, COLUMNS };

typedef struct writing {
    lk_index_build    *build;
    struct ArrowSchema arrow;
    lk_lance_schema   *schema;
    lk_type            type;
    bool               has_bounds;
    lk_file_writer    *writer;
    size_t             fragment; /* number of the one whose rows came last */
} writing;

/* -- zones of new rows ------------------------------------------------------------------------------------ */
enum { ZONES_MAX = 64 }; /* of a stretch */

typedef struct zones {
    size_t   count;
    int64_t  least[ZONES_MAX], greatest[ZONES_MAX]; /* rows of the stretch; -1: all null */
    uint32_t nulls[ZONES_MAX], nans[ZONES_MAX];
    uint64_t fragments[ZONES_MAX], starts[ZONES_MAX], lengths[ZONES_MAX];
} zones;

/* Rows come fragment by fragment. */
static uint64_t physical_rows(writing *w, uint64_t fragment_id)
{
    const lk_manifest *manifest = w->build->source.dataset->manifest;
    while (manifest->fragments[w->fragment].id != fragment_id) {
        w->fragment = (w->fragment + 1) % manifest->fragment_count;
    }
    return manifest->fragments[w->fragment].physical_rows;
}

static void open_zone(writing *w, uint64_t address, zones *out)
{
    size_t   at = out->count++;
    uint64_t start = (address & UINT32_MAX) / LK_INDEX_ZONE_ROWS * LK_INDEX_ZONE_ROWS;
    uint64_t rows = physical_rows(w, address >> 32);
    out->least[at] = out->greatest[at] = -1;
    out->nulls[at] = out->nans[at] = 0;
    out->fragments[at] = address >> 32;
    out->starts[at] = start;
    out->lengths[at] = rows - start < LK_INDEX_ZONE_ROWS ? rows - start : LK_INDEX_ZONE_ROWS;
}

static void add_row(const writing *w, const struct ArrowArray *values, int64_t row, zones *out)
{
    size_t at = out->count - 1;
    if (lk_index_is_null(values, row)) {
        out->nulls[at]++;
        return;
    }
    out->nans[at] += lk_index_is_nan(&w->type, values, row);
    if (!w->has_bounds) {
        return;
    }
    if (out->least[at] < 0) {
        out->least[at] = out->greatest[at] = row;
    } else if (lk_index_compare(&w->type, values, row, values, out->least[at]) < 0) {
        out->least[at] = row;
    } else if (lk_index_compare(&w->type, values, row, values, out->greatest[at]) > 0) {
        out->greatest[at] = row;
    }
}

static lk_rc write_zones(writing *w, const struct ArrowArray *values, const zones *all, lk_err *err)
{
    const void *numbers[COLUMNS] = {
        NULL, NULL, all->nulls, all->nans, all->fragments, all->starts, all->lengths};
    const void       *buffers[COLUMNS][2] = {0};
    struct ArrowArray columns[COLUMNS] = {0}, *children[COLUMNS];
    struct ArrowArray batch = {.length = (int64_t)all->count, .n_children = COLUMNS, .children = children};
    for (size_t i = 0; i < COLUMNS; i++) {
        children[i] = &columns[i];
        buffers[i][1] = numbers[i];
        if (i >= NULL_COUNT) {
            columns[i] = (struct ArrowArray){.length = batch.length, .n_buffers = 2, .buffers = buffers[i]};
        }
    }
    lk_rc rc = lk_array_take(w->arrow.children[MIN], values, all->least, batch.length, &columns[MIN], err);
    if (rc == LK_OK) {
        rc = lk_array_take(w->arrow.children[MAX], values, all->greatest, batch.length, &columns[MAX], err);
    }
    if (rc == LK_OK) {
        rc = lk_file_writer_write(w->writer, &batch, err);
    }
    lk_array_release(&columns[MIN]);
    lk_array_release(&columns[MAX]);
    return rc;
}

static lk_rc add_rows(void *context, struct ArrowArray *values, struct ArrowArray *ids, lk_err *err)
{
    writing        *w = context;
    zones           all = {0};
    uint64_t        zone = UINT64_MAX;
    const uint64_t *addresses = (const uint64_t *)ids->buffers[1] + ids->offset;
    for (int64_t row = 0; row < ids->length; row++) {
        if (addresses[row] / LK_INDEX_ZONE_ROWS != zone) {
            zone = addresses[row] / LK_INDEX_ZONE_ROWS;
            LK_ASSERT(all.count < ZONES_MAX);
            open_zone(w, addresses[row], &all);
        }
        add_row(w, values, row, &all);
    }
    return write_zones(w, values, &all, err);
}

/* -- zones of old segments ---------------------------------------------------------------------------------- */
static lk_rc copy_kept(writing *w, struct ArrowArray *columns, const lk_index *old, lk_err *err)
{
    lk_arena                  arena = {0};
    const lk_manifest        *manifest = w->build->source.dataset->manifest;
    const lk_fragment_number *numbers = lk_fragment_numbers(manifest, &arena);
    int64_t                   count = columns[FRAGMENT_ID].length, kept = 0;
    const uint64_t           *ids = (const uint64_t *)columns[FRAGMENT_ID].buffers[1];
    struct ArrowArray         few[COLUMNS] = {0}, *children[COLUMNS];
    uint8_t                  *keeps = lk_arena_take(&arena, (size_t)count + 1);
    lk_rc                     rc = LK_OK;
    for (int64_t i = 0; i < count; i++) {
        size_t number = lk_fragment_number_of(numbers, manifest->fragment_count, ids[i]);
        keeps[i] = number != SIZE_MAX && old->covers[number];
        kept += keeps[i];
    }
    for (size_t i = 0; rc == LK_OK && i < COLUMNS; i++) {
        children[i] = &few[i];
        rc = lk_array_filter(w->arrow.children[i], &columns[i], keeps, kept, &few[i], err);
    }
    if (rc == LK_OK && kept > 0) {
        struct ArrowArray batch = {.length = kept, .n_children = COLUMNS, .children = children};
        rc = lk_file_writer_write(w->writer, &batch, err);
    }
    for (size_t i = 0; i < COLUMNS; i++) {
        lk_array_release(&few[i]);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc copy_zones(writing *w, const lk_index *old, lk_err *err)
{
    lk_index_table    table = {0};
    struct ArrowArray columns[COLUMNS] = {0};
    lk_rc             rc = lk_index_table_open(w->build->source.dataset, old, "zonemap.lance", &table, err);
    for (size_t i = 0; rc == LK_OK && i < COLUMNS; i++) {
        const struct ArrowSchema *field = w->arrow.children[i];
        size_t                    column = 0;
        rc = lk_index_table_find(&table, field->name, field->format, &column, err);
        if (rc == LK_OK) {
            rc = lk_index_table_read(
                &table, column, 0, lk_file_reader_rows(table.file), w->build->source.pool, &columns[i], err);
        }
    }
    if (rc == LK_OK) {
        rc = copy_kept(w, columns, old, err);
    }
    for (size_t i = 0; i < COLUMNS; i++) {
        lk_array_release(&columns[i]);
    }
    lk_index_table_close(&table);
    return rc;
}

/* -- all ---------------------------------------------------------------------------------------------------- */
static lk_rc zone_schema(const struct ArrowSchema *field, struct ArrowSchema *out, lk_err *err)
{
    static const char *const names[COLUMNS] = {"min", "max", "null_count:uint32", "nan_count:uint32",
        "fragment_id:uint64", "zone_start:uint64", "zone_length:uint64"};
    struct ArrowBuffer       metadata = {0};
    lk_rc                    rc = LK_OK;
    lk_schema_start(out, COLUMNS);
    for (size_t i = 0; rc == LK_OK && i < COLUMNS; i++) {
        rc = i >= NULL_COUNT ? lk_column_parse(lk_bytes_of(names[i]), out->children[i], err)
                             : lk_schema_copy(field, out->children[i], err);
        if (rc == LK_OK && i < NULL_COUNT) {
            LK_ASSERT(ArrowSchemaSetName(out->children[i], names[i]) == NANOARROW_OK &&
                      ArrowSchemaSetMetadata(out->children[i], NULL) == NANOARROW_OK);
            out->children[i]->flags |= ARROW_FLAG_NULLABLE;
        }
    }
    LK_ASSERT(ArrowMetadataBuilderInit(&metadata, NULL) == NANOARROW_OK &&
              ArrowMetadataBuilderAppend(&metadata, ArrowCharView("rows_per_zone"), ArrowCharView("8192")) ==
                  NANOARROW_OK &&
              ArrowSchemaSetMetadata(out, (const char *)metadata.data) == NANOARROW_OK);
    ArrowBufferReset(&metadata);
    return rc;
}

static lk_rc write_all(writing *w, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < w->build->old_count; i++) {
        rc = copy_zones(w, w->build->old[i], err);
    }
    return rc == LK_OK ? lk_index_build_read(w->build, add_rows, w, err) : rc;
}

lk_rc lk_index_build_zonemap(lk_index_build *build, lk_err *err)
{
    const struct ArrowSchema *field =
        build->source.dataset->manifest->schema->fields[build->source.field].arrow;
    writing w = {.build = build};
    LK_ASSERT(lk_type_of(field, &w.type));
    w.has_bounds = w.type.id != LK_TYPE_FIXED_BINARY; /* the reference writes none for these */
    lk_rc rc = zone_schema(field, &w.arrow, err);
    if (rc == LK_OK) {
        rc = lk_lance_schema_from_arrow(&w.arrow, &w.schema, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_build_open(build, "zonemap.lance", w.schema, &w.writer, err);
    }
    if (rc == LK_OK) {
        rc = write_all(&w, err);
        if (rc == LK_OK) {
            rc = lk_index_build_finish(build, "zonemap.lance", w.writer, err);
        } else {
            lk_file_writer_abandon(w.writer);
        }
    }
    lk_lance_schema_close(w.schema);
    lk_schema_release(&w.arrow);
    return rc;
}
