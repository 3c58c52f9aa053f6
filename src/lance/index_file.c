/* index_file.c - see index_file.h. */
#include "lance/index_file.h"

#include "lance/pb_table.h"
#include "lance/wire.h"

#include <inttypes.h>

static lk_rc decode_schema(lk_index_table *table, lk_err *err)
{
    enum { DESCRIPTOR_SCHEMA = 1 };
    lk_field_record  *records = NULL;
    lk_metadata_pair *metadata = NULL;
    size_t            count = 0;
    lk_buf            descriptor = {0};
    lk_wire_put_bytes(&descriptor, DESCRIPTOR_SCHEMA, lk_file_reader_schema_bytes(table->file));
    lk_rc rc = lk_pb_file_descriptor_decode(
        lk_buf_view(&descriptor), &table->arena, &records, &count, &metadata, &table->metadata_count, err);
    if (rc == LK_OK) {
        table->metadata = metadata;
        rc = lk_lance_schema_from_records(records, count, NULL, 0, &table->schema, err);
    }
    if (rc == LK_OK && (size_t)table->schema->arrow.n_children > lk_file_reader_column_count(table->file)) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "fewer columns than fields");
    }
    lk_buf_deinit(&descriptor);
    return rc;
}

static uint64_t size_of(const lk_index *index, const char *name)
{
    for (size_t i = 0; i < index->file_count; i++) {
        if (lk_bytes_equal(index->files[i].path, lk_bytes_of(name))) {
            return index->files[i].size_bytes;
        }
    }
    return 0;
}

lk_rc lk_index_table_open(
    lk_dataset *dataset, const lk_index *index, const char *name, lk_index_table *out, lk_err *err)
{
    lk_base_store place = {0};
    char          uuid[LK_UUID_TEXT_SIZE + 1];
    *out = (lk_index_table){0};
    lk_uuid_format(index->uuid, uuid);
    lk_bytes key = lk_arena_format(&out->arena, "_indices/%s/%s", uuid, name);
    lk_rc    rc = lk_dataset_place(dataset, index->base, &place, err);
    if (rc == LK_OK) {
        rc = lk_file_cache_open(place.files, key, size_of(index, name), &out->file, err);
    }
    if (rc == LK_E_NOT_FOUND) {
        lk_err cause = *err;
        *err = (lk_err){0};
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "%.*s", (int)cause.len, cause.context);
    }
    if (rc == LK_OK) {
        rc = decode_schema(out, err);
    }
    if (rc != LK_OK) {
        lk_context(err, "index %.*s, %.*s", LK_FMT(index->name), LK_FMT(key));
        lk_index_table_close(out);
    }
    return rc;
}

void lk_index_table_close(lk_index_table *table)
{
    lk_file_reader_unref(table->file);
    lk_lance_schema_close(table->schema);
    lk_arena_close(&table->arena);
    *table = (lk_index_table){0};
}

const struct ArrowSchema *lk_index_table_field(const lk_index_table *table, size_t column)
{
    return table->schema->arrow.children[column];
}

lk_rc lk_index_table_find(
    const lk_index_table *table, const char *name, const char *format, size_t *column, lk_err *err)
{
    for (int64_t i = 0; i < table->schema->arrow.n_children; i++) {
        const struct ArrowSchema *field = table->schema->arrow.children[i];
        if (strcmp(field->name, name) == 0 && field->dictionary == NULL && field->n_children == 0 &&
            (format == NULL || strcmp(field->format, format) == 0)) {
            *column = (size_t)i;
            return LK_OK;
        }
    }
    return lk_fail(err, LK_E_CORRUPT_FILE, "%.*s has no column %s as an index of its kind has",
        LK_FMT(lk_file_reader_key(table->file)), name);
}

lk_bytes lk_index_table_text(const lk_index_table *table, const char *key)
{
    for (size_t i = 0; i < table->metadata_count; i++) {
        if (lk_bytes_equal(table->metadata[i].key, lk_bytes_of(key))) {
            return table->metadata[i].value;
        }
    }
    return (lk_bytes){0};
}

bool lk_index_table_number(const lk_index_table *table, const char *key, uint64_t *out)
{
    lk_bytes text = lk_index_table_text(table, key);
    uint64_t number = 0;
    if (text.size == 0 || text.size > 18) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    }
    *out = number;
    return true;
}

lk_rc lk_index_table_read(const lk_index_table *table, size_t column, uint64_t first, uint64_t count,
    lk_buffer_pool *pool, struct ArrowArray *out, lk_err *err)
{
    lk_row_range    range = {first, count};
    lk_field_source source = {
        .field = lk_index_table_field(table, column), .file = table->file, .column = column};
    lk_rc rc = lk_file_decode(&source, &range, count > 0, pool, out, err);
    if (rc != LK_OK) {
        lk_context(err, "rows %" PRIu64 " to %" PRIu64 " of an index", first, first + count);
    }
    return rc;
}
