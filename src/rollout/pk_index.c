/* pk_index.c - see pk_index.h. */
#include "rollout/pk_index.h"

#include "arrow/schema.h"
#include "lance/file_write.h"

#include <stdlib.h>

enum { PAGE_ROWS = 8192, FILE_MINOR = 0 };

typedef struct entry {
    lk_bytes id;
    uint64_t row;
} entry;

static int by_id(const void *a, const void *b)
{
    return lk_bytes_compare(((const entry *)a)->id, ((const entry *)b)->id);
}

static void set_metadata(struct ArrowSchema *schema)
{
    struct ArrowBuffer metadata = {0};
    LK_ASSERT(ArrowMetadataBuilderInit(&metadata, NULL) == NANOARROW_OK &&
              ArrowMetadataBuilderAppend(&metadata, ArrowCharView("batch_size"), ArrowCharView("8192")) ==
                  NANOARROW_OK &&
              ArrowMetadataBuilderAppend(
                  &metadata, ArrowCharView("range_partitioned"), ArrowCharView("false")) == NANOARROW_OK &&
              ArrowSchemaSetMetadata(schema, (const char *)metadata.data) == NANOARROW_OK);
    ArrowBufferReset(&metadata);
}

lk_rc lk_pk_index_form_init(lk_pk_index_form *form, lk_err *err)
{
    static const lk_bytes data[] = {{"values:utf8?", 12}, {"ids:uint64", 10}};
    static const lk_bytes lookup[] = {
        {"min:utf8?", 9}, {"max:utf8?", 9}, {"null_count:uint32", 17}, {"page_idx:uint32", 15}};
    *form = (lk_pk_index_form){0};
    lk_rc rc = lk_columns_parse(data, 2, &form->data_columns, err);
    if (rc == LK_OK) {
        rc = lk_lance_schema_from_arrow(&form->data_columns, &form->data, err);
    }
    if (rc == LK_OK) {
        rc = lk_columns_parse(lookup, 4, &form->lookup_columns, err);
    }
    if (rc == LK_OK) {
        set_metadata(&form->lookup_columns);
        rc = lk_lance_schema_from_arrow(&form->lookup_columns, &form->lookup, err);
    }
    return rc;
}

void lk_pk_index_form_deinit(lk_pk_index_form *form)
{
    lk_lance_schema_close(form->data);
    lk_lance_schema_close(form->lookup);
    lk_file_writer_close(form->data_file);
    lk_file_writer_close(form->lookup_file);
    lk_schema_release(&form->data_columns);
    lk_schema_release(&form->lookup_columns);
    *form = (lk_pk_index_form){0};
}

/* A batch to be filled for these columns. */
static lk_rc begin(const struct ArrowSchema *schema, struct ArrowArray *batch, lk_err *err)
{
    bool begun = ArrowArrayInitFromSchema(batch, schema, NULL) == NANOARROW_OK &&
                 ArrowArrayStartAppending(batch) == NANOARROW_OK;
    return begun ? LK_OK : lk_fail(err, LK_E_LIMIT, "no memory for an index");
}

static bool add_text(struct ArrowArray *column, lk_bytes text)
{
    return ArrowArrayAppendString(column, (struct ArrowStringView){text.data, (int64_t)text.size}) ==
           NANOARROW_OK;
}

/* Takes the batch. *kept: the writer of the last such file, or NULL. */
static lk_rc write_file(lk_store *store, lk_bytes key, const lk_lance_schema *lance, lk_file_writer **kept,
    struct ArrowArray *batch, lk_err *err)
{
    lk_arena        arena = {0};
    lk_file_writer *writer = *kept;
    lk_file_written written;
    *kept = NULL;
    lk_rc rc = ArrowArrayFinishBuildingDefault(batch, NULL) == NANOARROW_OK
                   ? LK_OK
                   : lk_fail(err, LK_E_LIMIT, "an index could not be built");
    if (rc == LK_OK) {
        rc = writer == NULL ? lk_file_writer_open(store, key, lance, FILE_MINOR, NULL, &writer, err)
                            : lk_file_writer_again(writer, store, key, err);
    }
    if (rc == LK_OK) {
        lk_file_writer_compact(writer);
        lk_file_writer_keep(writer);
        rc = lk_file_writer_write(writer, batch, err);
    }
    if (rc == LK_OK) {
        rc = lk_file_writer_finish(writer, &arena, &written, err);
        *kept = rc == LK_OK ? writer : NULL;
    } else {
        lk_file_writer_abandon(writer);
    }
    lk_array_release(batch);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc write_data(
    lk_store *store, lk_pk_index_form *form, const entry *entries, size_t count, lk_err *err)
{
    struct ArrowArray batch = {0};
    lk_rc             rc = begin(&form->data_columns, &batch, err);
    bool              added = true;
    for (size_t i = 0; rc == LK_OK && added && i < count; i++) {
        added = add_text(batch.children[0], entries[i].id) &&
                ArrowArrayAppendUInt(batch.children[1], entries[i].row) == NANOARROW_OK;
    }
    if (rc == LK_OK && !added) {
        rc = lk_fail(err, LK_E_LIMIT, "no memory for an index");
    }
    if (rc == LK_OK) {
        batch.length = (int64_t)count;
        rc = write_file(
            store, LK_LITERAL("_pk_index/page_data.lance"), form->data, &form->data_file, &batch, err);
    }
    lk_array_release(&batch);
    return rc;
}

static lk_rc write_lookup(
    lk_store *store, lk_pk_index_form *form, const entry *entries, size_t count, lk_err *err)
{
    struct ArrowArray batch = {0};
    lk_rc             rc = begin(&form->lookup_columns, &batch, err);
    bool              added = true;
    for (size_t at = 0, page = 0; rc == LK_OK && added && at < count; at += PAGE_ROWS, page++) {
        size_t last = count - at < PAGE_ROWS ? count - 1 : at + PAGE_ROWS - 1;
        added = add_text(batch.children[0], entries[at].id) &&
                add_text(batch.children[1], entries[last].id) &&
                ArrowArrayAppendUInt(batch.children[2], 0) == NANOARROW_OK &&
                ArrowArrayAppendUInt(batch.children[3], page) == NANOARROW_OK;
        batch.length++;
    }
    if (rc == LK_OK && !added) {
        rc = lk_fail(err, LK_E_LIMIT, "no memory for an index");
    }
    if (rc == LK_OK) {
        rc = write_file(
            store, LK_LITERAL("_pk_index/page_lookup.lance"), form->lookup, &form->lookup_file, &batch, err);
    }
    lk_array_release(&batch);
    return rc;
}

lk_rc lk_pk_index_write(
    lk_store *store, lk_pk_index_form *form, const lk_bytes *ids, size_t count, lk_err *err)
{
    entry *entries = calloc(count + 1, sizeof *entries);
    LK_ASSERT(entries != NULL);
    for (size_t i = 0; i < count; i++) {
        entries[i] = (entry){ids[i], i};
    }
    qsort(entries, count, sizeof *entries, by_id);
    lk_rc rc = write_data(store, form, entries, count, err);
    if (rc == LK_OK) {
        rc = write_lookup(store, form, entries, count, err);
    }
    free(entries);
    return rc;
}
