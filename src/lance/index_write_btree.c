/*
 * index_write_btree.c - the files of a BTREE segment (index_btree.c): new rows are sorted, the entries of old segments
 * are in order already and are merged with them.
 */
#include "arrow/schema.h"
#include "lance/index_sort.h"
#include "lance/index_write.h"

#include <stdlib.h>

enum { PAGE_ROWS = 4096, READ_ROWS = 64 * 1024 };

/* -- entries of an old segment ----------------------------------------------------------------------------- */
typedef struct old_run {
    lk_index_run          base;
    const lk_index_build *build;
    const lk_index       *index;
    lk_index_table        table;
    size_t                values, ids;
    uint64_t              at;
} old_run;

static lk_rc keep_entries(old_run *self, struct ArrowArray *values, struct ArrowArray *ids, lk_err *err)
{
    size_t            count = (size_t)ids->length, kept = 0;
    struct ArrowArray few = {0}, few_ids = {0};
    uint64_t         *numbers = (uint64_t *)(uintptr_t)ids->buffers[1] + ids->offset; /* just decoded: ours */
    uint8_t          *keeps = malloc(count + 1);
    LK_ASSERT(keeps != NULL);
    lk_rc rc = lk_index_build_keeps(self->build, self->index, numbers, count, keeps, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        kept += keeps[i];
    }
    if (rc == LK_OK && kept < count) {
        rc = lk_array_filter(
            lk_index_table_field(&self->table, self->values), values, keeps, (int64_t)kept, &few, err);
        if (rc == LK_OK) {
            rc = lk_array_filter(
                lk_index_table_field(&self->table, self->ids), ids, keeps, (int64_t)kept, &few_ids, err);
        }
        lk_array_release(values);
        lk_array_release(ids);
        lk_array_move(&few, values);
        lk_array_move(&few_ids, ids);
    }
    free(keeps);
    return rc;
}

static lk_rc next_of_old(lk_index_run *run, struct ArrowArray *values, struct ArrowArray *ids, lk_err *err)
{
    old_run *self = (old_run *)run;
    uint64_t rows = lk_file_reader_rows(self->table.file);
    lk_rc    rc = LK_OK;
    while (rc == LK_OK && self->at < rows && (values->release == NULL || values->length == 0)) {
        uint64_t count = rows - self->at < READ_ROWS ? rows - self->at : READ_ROWS;
        lk_array_release(values);
        lk_array_release(ids);
        rc = lk_index_table_read(
            &self->table, self->values, self->at, count, self->build->source.pool, values, err);
        if (rc == LK_OK) {
            rc = lk_index_table_read(
                &self->table, self->ids, self->at, count, self->build->source.pool, ids, err);
        }
        self->at += count;
        if (rc == LK_OK) {
            rc = keep_entries(self, values, ids, err);
        }
    }
    if (rc == LK_OK && values->release != NULL && values->length == 0) { /* nothing was kept at the end */
        lk_array_release(values);
        lk_array_release(ids);
    }
    return rc;
}

static void close_old(lk_index_run *run)
{
    old_run *self = (old_run *)run;
    lk_index_table_close(&self->table);
    free(self);
}

static lk_rc add_old(lk_index_build *build, const lk_index *index, lk_index_sorter *sorter,
    const struct ArrowSchema *field, lk_err *err)
{
    old_run *run = calloc(1, sizeof *run);
    LK_ASSERT(run != NULL);
    *run = (old_run){.base = {next_of_old, close_old}, .build = build, .index = index};
    lk_rc rc = lk_index_table_open(build->source.dataset, index, "page_data.lance", &run->table, err);
    if (rc == LK_OK) {
        rc = lk_index_table_find(&run->table, "values", field->format, &run->values, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_table_find(&run->table, "ids", "L", &run->ids, err);
    }
    lk_index_sorter_add_run(sorter, &run->base);
    return rc;
}

/* -- writing ---------------------------------------------------------------------------------------------- */
typedef struct writing {
    lk_file_writer    *data;
    struct ArrowSchema field;
    uint64_t           rows;
    uint32_t           nulls;       /* of the page that is open */
    lk_buf             min, max;    /* of struct ArrowArray: a value for each page that began, ended */
    lk_buf             null_counts; /* of u32 */
    struct ArrowArray  last;        /* the last value of all */
} writing;

static lk_rc keep_values(
    writing *w, const struct ArrowArray *values, const int64_t *rows, size_t count, lk_buf *list, lk_err *err)
{
    struct ArrowArray some = {0};
    lk_rc rc = count == 0 ? LK_OK : lk_array_take(&w->field, values, rows, (int64_t)count, &some, err);
    if (rc == LK_OK && count > 0) {
        lk_buf_append(list, &some, sizeof some);
    }
    return rc;
}

/* Notes where pages begin and end among these rows. */
static lk_rc note_pages(writing *w, const struct ArrowArray *values, lk_err *err)
{
    size_t   count = (size_t)values->length, begins = 0, ends = 0;
    int64_t *rows = malloc((2 * (count / PAGE_ROWS) + 4) * sizeof *rows),
            *end_rows = rows + count / PAGE_ROWS + 2;
    LK_ASSERT(rows != NULL);
    for (size_t i = 0; i < count; i++, w->rows++) {
        if (w->rows % PAGE_ROWS == 0) {
            rows[begins++] = (int64_t)i;
        }
        w->nulls += lk_index_is_null(values, (int64_t)i);
        if (w->rows % PAGE_ROWS == PAGE_ROWS - 1) {
            end_rows[ends++] = (int64_t)i;
            lk_buf_append(&w->null_counts, &w->nulls, sizeof w->nulls);
            w->nulls = 0;
        }
    }
    lk_rc rc = keep_values(w, values, rows, begins, &w->min, err);
    if (rc == LK_OK) {
        rc = keep_values(w, values, end_rows, ends, &w->max, err);
    }
    if (rc == LK_OK) {
        rows[0] = values->length - 1;
        lk_array_release(&w->last);
        rc = lk_array_take(&w->field, values, rows, 1, &w->last, err);
    }
    free(rows);
    return rc;
}

static lk_rc write_pairs(
    void *context, const struct ArrowArray *values, const struct ArrowArray *ids, lk_err *err)
{
    writing           *w = context;
    struct ArrowArray  columns[2] = {*values, *ids}; /* borrowed */
    struct ArrowArray *children[2] = {&columns[0], &columns[1]};
    struct ArrowArray  batch = {.length = values->length, .n_children = 2, .children = children};
    lk_rc              rc = values->length == 0 ? LK_OK : note_pages(w, values, err);
    return rc == LK_OK ? lk_file_writer_write(w->data, &batch, err) : rc;
}

/* The last page, if it is not full. */
static void end_page(writing *w)
{
    if (w->rows % PAGE_ROWS != 0) {
        lk_buf_append(&w->null_counts, &w->nulls, sizeof w->nulls);
        lk_buf_append(&w->max, &w->last, sizeof w->last);
        w->last = (struct ArrowArray){0};
    }
}

static lk_rc write_data(lk_index_build *build, writing *w, lk_index_sorter *sorter, lk_err *err)
{
    struct ArrowSchema pairs = {0};
    lk_lance_schema   *schema = NULL;
    lk_index_pair_schema(&w->field, &pairs);
    lk_rc rc = lk_lance_schema_from_arrow(&pairs, &schema, err);
    if (rc == LK_OK) {
        rc = lk_index_build_open(build, "page_data.lance", schema, &w->data, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_sorter_finish(sorter, write_pairs, w, err);
        if (rc == LK_OK) {
            rc = lk_index_build_finish(build, "page_data.lance", w->data, err);
        } else {
            lk_file_writer_abandon(w->data);
        }
    }
    lk_lance_schema_close(schema);
    lk_schema_release(&pairs);
    return rc;
}

/* -- the lookup -------------------------------------------------------------------------------------------- */
static void set_metadata(struct ArrowSchema *schema)
{
    struct ArrowBuffer metadata = {0};
    LK_ASSERT(ArrowMetadataBuilderInit(&metadata, NULL) == NANOARROW_OK &&
              ArrowMetadataBuilderAppend(&metadata, ArrowCharView("batch_size"), ArrowCharView("4096")) ==
                  NANOARROW_OK &&
              ArrowMetadataBuilderAppend(
                  &metadata, ArrowCharView("range_partitioned"), ArrowCharView("false")) == NANOARROW_OK &&
              ArrowSchemaSetMetadata(schema, (const char *)metadata.data) == NANOARROW_OK);
    ArrowBufferReset(&metadata);
}

static lk_rc lookup_schema(const struct ArrowSchema *field, struct ArrowSchema *out, lk_err *err)
{
    lk_schema_start(out, 4);
    lk_rc rc = lk_schema_copy(field, out->children[0], err);
    if (rc == LK_OK) {
        rc = lk_schema_copy(field, out->children[1], err);
    }
    if (rc == LK_OK) {
        rc = lk_column_parse(LK_LITERAL("null_count:uint32"), out->children[2], err);
    }
    if (rc == LK_OK) {
        rc = lk_column_parse(LK_LITERAL("page_idx:uint32"), out->children[3], err);
    }
    LK_ASSERT(rc != LK_OK || (ArrowSchemaSetName(out->children[0], "min") == NANOARROW_OK &&
                                 ArrowSchemaSetName(out->children[1], "max") == NANOARROW_OK));
    set_metadata(out);
    return rc;
}

static lk_rc join(const struct ArrowSchema *field, const lk_buf *list, struct ArrowArray *out, lk_err *err)
{
    const struct ArrowArray *arrays = (const struct ArrowArray *)(const void *)list->data;
    return lk_array_concat(field, arrays, list->size / sizeof *arrays, out, err);
}

static lk_rc write_pages(writing *w, lk_file_writer *writer, lk_err *err)
{
    uint32_t           pages = (uint32_t)(w->null_counts.size / sizeof(uint32_t));
    uint32_t          *numbers = malloc(pages * sizeof *numbers + 1);
    struct ArrowArray  min = {0}, max = {0};
    const void        *counts[2] = {NULL, w->null_counts.data}, *indices[2] = {NULL, numbers};
    struct ArrowArray  nulls = {.length = pages, .n_buffers = 2, .buffers = counts};
    struct ArrowArray  page_idx = {.length = pages, .n_buffers = 2, .buffers = indices};
    struct ArrowArray *children[4] = {&min, &max, &nulls, &page_idx};
    struct ArrowArray  batch = {.length = pages, .n_children = 4, .children = children};
    LK_ASSERT(numbers != NULL);
    for (uint32_t i = 0; i < pages; i++) {
        numbers[i] = i;
    }
    lk_rc rc = pages == 0 ? LK_OK : join(&w->field, &w->min, &min, err);
    if (rc == LK_OK && pages > 0) {
        rc = join(&w->field, &w->max, &max, err);
    }
    if (rc == LK_OK && pages > 0) {
        rc = lk_file_writer_write(writer, &batch, err);
    }
    lk_array_release(&min);
    lk_array_release(&max);
    free(numbers);
    return rc;
}

static lk_rc write_lookup(lk_index_build *build, writing *w, lk_err *err)
{
    struct ArrowSchema arrow = {0};
    lk_lance_schema   *schema = NULL;
    lk_file_writer    *writer = NULL;
    lk_rc              rc = lookup_schema(&w->field, &arrow, err);
    if (rc == LK_OK) {
        rc = lk_lance_schema_from_arrow(&arrow, &schema, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_build_open(build, "page_lookup.lance", schema, &writer, err);
    }
    if (rc == LK_OK) {
        rc = write_pages(w, writer, err);
        if (rc == LK_OK) {
            rc = lk_index_build_finish(build, "page_lookup.lance", writer, err);
        } else {
            lk_file_writer_abandon(writer);
        }
    }
    lk_lance_schema_close(schema);
    lk_schema_release(&arrow);
    return rc;
}

/* -- all ---------------------------------------------------------------------------------------------------- */
static lk_rc add_rows(void *context, struct ArrowArray *values, struct ArrowArray *ids, lk_err *err)
{
    return lk_index_sorter_add(context, values, ids, err);
}

static void release_all(lk_buf *list)
{
    struct ArrowArray *arrays = (struct ArrowArray *)(void *)list->data;
    for (size_t i = 0; i < list->size / sizeof *arrays; i++) {
        lk_array_release(&arrays[i]);
    }
    lk_buf_deinit(list);
}

lk_rc lk_index_build_btree(lk_index_build *build, lk_err *err)
{
    const lk_lance_schema *schema = build->source.dataset->manifest->schema;
    struct ArrowSchema     pairs = {0};
    writing                w = {0};
    lk_rc                  rc = LK_OK;
    lk_index_pair_schema(schema->fields[build->source.field].arrow, &pairs);
    lk_schema_move(pairs.children[0], &w.field);
    lk_schema_release(&pairs);
    lk_index_sorter *sorter = lk_index_sorter_new(
        build->change, build->directory, &w.field, build->run_bytes, build->source.cancel);
    for (size_t i = 0; rc == LK_OK && i < build->old_count; i++) {
        rc = add_old(build, build->old[i], sorter, &w.field, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_build_read(build, add_rows, sorter, err);
    }
    if (rc == LK_OK) {
        rc = write_data(build, &w, sorter, err);
    }
    lk_index_sorter_close(sorter);
    if (rc == LK_OK) {
        end_page(&w);
        rc = write_lookup(build, &w, err);
    }
    release_all(&w.min);
    release_all(&w.max);
    lk_buf_deinit(&w.null_counts);
    lk_array_release(&w.last);
    lk_schema_release(&w.field);
    return rc;
}
