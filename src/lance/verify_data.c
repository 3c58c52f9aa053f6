/*
 * verify_data.c - the rows of a fragment (verify_priv.h): every column of the schema is decoded from its first row to
 * its last, deleted ones included, validated, and compared with what the file's statistics say of it; every blob is
 * opened; of columns that the schema has no more, the description is read.
 */
#include "arrow/schema.h"
#include "arrow/type.h"
#include "lance/blob.h"
#include "lance/column.h"
#include "lance/file_priv.h"
#include "lance/verify_priv.h"

#include <inttypes.h>
#include <stdlib.h>

enum { STRETCH_BYTES = 8 * 1024 * 1024, STRETCH_ZONES_MAX = 8 };

/* -- statistics ----------------------------------------------------------------------------------------- */

static bool same_value(const lk_value *a, const lk_value *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    switch (a->kind) {
    case LK_VALUE_BYTES:
        return lk_bytes_equal(a->as.bytes, b->as.bytes);
    case LK_VALUE_DECIMAL128:
        return a->as.decimal128.low == b->as.decimal128.low && a->as.decimal128.high == b->as.decimal128.high;
    case LK_VALUE_I64:
    case LK_VALUE_U64:
    case LK_VALUE_F64:
        break;
    }
    return a->as.u64 == b->as.u64;
}

static bool same_stats(const lk_column_stats *a, const lk_column_stats *b)
{
    return a->has_min == b->has_min && a->has_max == b->has_max && a->has_nan == b->has_nan &&
           a->null_count == b->null_count && a->row_count == b->row_count &&
           (!a->has_min || same_value(&a->min, &b->min)) && (!a->has_max || same_value(&a->max, &b->max));
}

/* What the statistics of a column should say of the rows of `array`, which begin with a zone. */
static lk_rc count_again(const lk_type *type, const struct ArrowArray *array, lk_stats **out, lk_err *err)
{
    lk_stats_writer *writer = lk_stats_writer_new(1);
    lk_buf           buffer = {0};
    lk_stats_writer_column(writer, 0, type);
    lk_stats_writer_add(writer, 0, array->null_count == 0 ? NULL : array->buffers[0], array->buffers[1],
        array->n_buffers > 2 ? array->buffers[2] : NULL, (uint64_t)array->offset, (uint64_t)array->length);
    lk_stats_writer_encode(writer, (uint64_t)array->length, &buffer);
    lk_stats_writer_free(writer);
    lk_rc rc = lk_stats_parse(lk_buf_view(&buffer), out, err);
    lk_buf_deinit(&buffer);
    return rc;
}

typedef struct column_check {
    lk_verify            *v;
    size_t                fragment;
    lk_field_source       source;
    const lk_lance_field *field;
    lk_stats             *stats; /* NULL: none */
    size_t                stats_column;
    lk_type               type;
    lk_bytes              what; /* the file, for messages */
    bool                  told_stats, told_null;
} column_check;

static lk_rc check_stats(column_check *c, const struct ArrowArray *array, uint64_t first, lk_err *err)
{
    lk_stats *again = NULL;
    lk_rc     rc = count_again(&c->type, array, &again, err);
    for (size_t zone = 0; rc == LK_OK && zone < lk_stats_zone_count(again) && !c->told_stats; zone++) {
        lk_column_stats says = {0}, is = {0};
        size_t          in_file = (size_t)(first / LK_STATS_ZONE_ROWS) + zone;
        if (lk_stats_zone(c->stats, c->stats_column, in_file, &says) && lk_stats_zone(again, 0, zone, &is) &&
            !same_stats(&says, &is)) {
            c->told_stats = true;
            lk_verify_damage(c->v, c->what,
                "column %s: the statistics of rows from %zu on are not those of its values",
                c->field->arrow->name, in_file * LK_STATS_ZONE_ROWS);
        }
    }
    lk_stats_unref(again);
    return rc;
}

/* -- blobs ---------------------------------------------------------------------------------------------- */

/* Every blob that the descriptors name is there, whole. */
static lk_rc open_blobs(const lk_field_source *source, const struct ArrowArray *array, lk_err *err)
{
    lk_rc rc = LK_OK;
    if (source->kind == LK_COLUMN_BLOB && source->file != NULL) {
        for (int64_t row = 0; rc == LK_OK && row < array->length; row++) {
            lk_blob_descriptor descriptor = {0};
            lk_blob           *blob = NULL;
            if (lk_blob_descriptor_at(array, row, &descriptor) &&
                (descriptor.kind != LK_BLOB_EXTERNAL || source->outside != NULL)) {
                rc = lk_blob_open(source->file, source->outside, &descriptor, &blob, err);
                lk_blob_close(blob);
            }
        }
        return rc;
    }
    for (size_t i = 0; rc == LK_OK && i < source->child_count && i < (size_t)array->n_children; i++) {
        rc = open_blobs(&source->children[i], array->children[i], err);
    }
    return rc;
}

/* -- one column ----------------------------------------------------------------------------------------- */

/* Rows to decode at once: whole zones, by the stored bytes of a row. */
static uint64_t stretch_rows(const lk_fragment *fragment)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < fragment->file_count; i++) {
        bytes += fragment->files[i].size_bytes;
    }
    uint64_t width = fragment->physical_rows == 0 ? 0 : bytes / fragment->physical_rows;
    uint64_t zones = width == 0 ? STRETCH_ZONES_MAX : STRETCH_BYTES / width / LK_STATS_ZONE_ROWS;
    zones = zones < 1 ? 1 : zones > STRETCH_ZONES_MAX ? STRETCH_ZONES_MAX : zones;
    return zones * LK_STATS_ZONE_ROWS;
}

static lk_rc check_rows(column_check *c, const lk_row_range *rows, lk_buffer_pool *pool, lk_err *err)
{
    struct ArrowArray array = {0};
    lk_rc             rc = lk_file_decode(&c->source, rows, 1, pool, &array, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = array.length == (int64_t)rows->count
             ? lk_array_validate(c->source.field, &array, err)
             : lk_fail(
                   err, LK_E_CORRUPT_FILE, "%" PRId64 " rows instead of %" PRIu64, array.length, rows->count);
    bool nullable = (c->field->arrow->flags & ARROW_FLAG_NULLABLE) != 0;
    if (rc == LK_OK && !nullable && array.null_count > 0 && !c->told_null) {
        c->told_null = true;
        lk_verify_damage(c->v, c->what,
            "column %s: %" PRId64 " nulls from row %" PRIu64 " on, where none may be", c->field->arrow->name,
            array.null_count, rows->start);
    }
    if (rc == LK_OK && c->stats != NULL) {
        rc = check_stats(c, &array, rows->start, err);
    }
    if (rc == LK_OK) {
        rc = open_blobs(&c->source, &array, err);
    }
    c->v->report->values += rows->count;
    lk_array_release(&array);
    return rc;
}

static lk_rc check_all_rows(column_check *c, lk_err *err)
{
    const lk_fragment *in = &c->v->dataset->manifest->fragments[c->fragment];
    uint64_t           step = stretch_rows(in);
    lk_buffer_pool    *pool = lk_buffer_pool_new(c->v->env->budget);
    lk_rc              rc = LK_OK;
    for (uint64_t at = 0; rc == LK_OK && at < in->physical_rows; at += step) {
        lk_row_range rows = {at, in->physical_rows - at < step ? in->physical_rows - at : step};
        rc = lk_cancel_check(c->v->options->cancel, err);
        if (rc == LK_OK) {
            rc = check_rows(c, &rows, pool, err);
        }
    }
    lk_buffer_pool_close(pool);
    return rc;
}

/* Statistics are told of top-level columns of one leaf only. */
static lk_rc find_stats(column_check *c, size_t column, lk_arena *arena, lk_err *err)
{
    const lk_lance_schema *schema = c->v->dataset->manifest->schema;
    bool plain = c->field->leaf && c->field->arrow->dictionary == NULL && c->source.kind == LK_COLUMN_PLAIN &&
                 lk_type_of(c->field->arrow, &c->type) && c->type.layout != LK_LAYOUT_NULL &&
                 c->field->arrow->n_children == 0;
    return plain ? lk_dataset_stats(c->v->dataset, c->fragment, schema->top[column], arena, &c->stats,
                       &c->stats_column, err)
                 : LK_OK;
}

/* Where a column's rows lie, to be named and to be read once: the file and the field's id. */
static lk_bytes name_of(const lk_verify *v, size_t fragment, const lk_lance_field *field, lk_arena *arena)
{
    const lk_lance_schema *schema = v->dataset->manifest->schema;
    const lk_fragment     *in = &v->dataset->manifest->fragments[fragment];
    size_t                 file = 0;
    int32_t                column = 0;
    for (const lk_lance_field *at = field; at < schema->fields + field->end; at++) {
        if (lk_fragment_find(in, at->id, &file, &column)) {
            return lk_data_file_key(&in->files[file], arena);
        }
    }
    return v->dataset->manifest->key;
}

static lk_rc check_column(lk_verify *v, size_t fragment, size_t column, lk_err *err)
{
    lk_arena              arena = {0};
    const lk_manifest    *m = v->dataset->manifest;
    const lk_lance_field *field = &m->schema->fields[m->schema->top[column]];
    column_check          c = {.v = v, .fragment = fragment, .field = field};
    c.what = name_of(v, fragment, field, &arena);
    lk_rc rc = LK_OK;
    if (!lk_verify_seen(
            v, lk_arena_format(&arena, "%.*s#%" PRId32 "/%zu", LK_FMT(c.what), field->id, field->end))) {
        rc = lk_dataset_source(
            v->dataset, fragment, m->schema->top[column], v->view.children[column], &arena, &c.source, err);
        if (rc == LK_OK) {
            rc = find_stats(&c, column, &arena, err);
        }
        if (rc == LK_OK) {
            rc = check_all_rows(&c, err);
        }
        if (rc != LK_OK) {
            lk_context(err, "column %s", field->arrow->name);
        }
        rc = lk_verify_note(v, rc, c.what, err);
    }
    lk_stats_unref(c.stats);
    lk_dataset_source_close(&c.source);
    lk_arena_close(&arena);
    return rc;
}

/* -- one file ------------------------------------------------------------------------------------------- */

/* Footer, row count, and the description of every column, those that no schema has any more included. */
static lk_rc check_file(lk_verify *v, size_t fragment, size_t file, lk_err *err)
{
    lk_arena            arena = {0};
    const lk_data_file *data_file = &v->dataset->manifest->fragments[fragment].files[file];
    lk_bytes            key = lk_data_file_key(data_file, &arena);
    lk_file_reader     *reader = NULL;
    lk_rc               rc = LK_OK;
    if (!lk_verify_seen(v, key)) {
        v->report->data_files++;
        v->report->rows += file == 0 ? v->dataset->manifest->fragments[fragment].physical_rows : 0;
        rc = lk_dataset_file(v->dataset, fragment, file, &reader, err);
        for (size_t column = 0; rc == LK_OK && column < lk_file_reader_column_count(reader); column++) {
            lk_file_column_state *state = NULL;
            rc = lk_file_column(reader, column, &state, err);
        }
        if (rc == LK_OK && data_file->minor != lk_file_reader_minor(reader) &&
            lk_file_reader_major(reader) == 2) {
            rc = lk_fail(err, LK_E_CORRUPT_FILE, "the version calls it a 2.%" PRIu32 " file, its footer 2.%u",
                data_file->minor, lk_file_reader_minor(reader));
        }
        rc = lk_verify_note(v, rc, key, err);
    }
    lk_file_reader_unref(reader);
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_verify_fragment_data(lk_verify *v, size_t fragment, lk_err *err)
{
    const lk_manifest *m = v->dataset->manifest;
    uint64_t           before = v->report->damages;
    lk_rc              rc = LK_OK;
    for (size_t file = 0; rc == LK_OK && file < m->fragments[fragment].file_count; file++) {
        rc = check_file(v, fragment, file, err);
    }
    if (v->report->damages != before) {
        return rc; /* each of its columns would say the same */
    }
    for (size_t column = 0; rc == LK_OK && column < (size_t)m->schema->arrow.n_children; column++) {
        rc = check_column(v, fragment, column, err);
    }
    return rc;
}
