/* adapt.c - see adapt.h. Below the top only values for a dictionary are taken; other forms must agree there. */
#include "lance/adapt.h"

#include "arrow/bits.h"
#include "arrow/cast.h"
#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "lance/blob.h"
#include "lance/column.h"
#include "lance/nested.h"

#include <stdlib.h>

typedef enum form {
    FORM_SAME,
    FORM_VALUES, /* plain values for a dictionary: the writer takes them as they are */
    FORM_CAST,   /* to the type in `plain` */
    FORM_BYTES   /* bytes of a blob: cast to large binary, then the data of a struct */
} form;

typedef struct adapted {
    lk_batches                base; /* first; its schema is the table's */
    lk_batches               *source;
    const struct ArrowSchema *table;
    struct ArrowSchema        large; /* large binary */
    form                     *forms;
    bool                      outside, any;
    int64_t                   rows;
} adapted;

/* -- schemas --------------------------------------------------------------------------------------- */
static bool is_binary(const struct ArrowSchema *field)
{
    return field->dictionary == NULL && (strcmp(field->format, "z") == 0 || strcmp(field->format, "Z") == 0);
}

static form form_of(const struct ArrowSchema *table, const struct ArrowSchema *rows)
{
    if (lk_is_blob_v2(table)) {
        return is_binary(rows) ? FORM_BYTES : FORM_SAME;
    }
    if (table->dictionary != NULL && rows->dictionary == NULL) {
        return strcmp(table->dictionary->format, rows->format) == 0 ? FORM_VALUES : FORM_SAME;
    }
    if (rows->dictionary != NULL && strcmp(rows->format, table->format) != 0) {
        const struct ArrowSchema *values = table->dictionary != NULL ? table->dictionary : table;
        return strcmp(values->format, rows->dictionary->format) == 0 ? FORM_CAST : FORM_SAME;
    }
    bool blob = lk_is_blob(table) && is_binary(rows) && strcmp(table->format, rows->format) != 0;
    return blob ? FORM_CAST : FORM_SAME;
}

/* Plain values stand for dictionaries inside structs and lists too: `looks` becomes what is given there. */
static lk_rc accept_values(
    struct ArrowSchema *looks, const struct ArrowSchema *given, bool *accepted, lk_err *err)
{
    if (looks->dictionary != NULL) {
        if (form_of(looks, given) != FORM_VALUES) {
            return LK_OK;
        }
        *accepted = true;
        lk_schema_release(looks);
        return lk_schema_copy(given, looks, err);
    }
    lk_rc rc = LK_OK;
    for (int64_t child = 0; rc == LK_OK && child < looks->n_children && child < given->n_children; child++) {
        rc = accept_values(looks->children[child], given->children[child], accepted, err);
    }
    return rc;
}

/* Whether the columns are the table's, once adapted. */
static lk_rc compare(adapted *self, lk_err *err)
{
    const struct ArrowSchema *table = self->table, *rows = &self->source->schema;
    struct ArrowSchema        looks;
    lk_rc                     rc = lk_schema_copy(table, &looks, err);
    for (int64_t index = 0; rc == LK_OK && index < table->n_children && index < rows->n_children; index++) {
        const struct ArrowSchema *field = table->children[index], *given = rows->children[index];
        bool                      named =
            strcmp(field->name == NULL ? "" : field->name, given->name == NULL ? "" : given->name) == 0;
        self->forms[index] = named ? form_of(field, given) : FORM_SAME;
        self->any = self->any || self->forms[index] != FORM_SAME || (lk_is_blob_v2(field) && !self->outside);
        if (self->forms[index] != FORM_SAME) {
            lk_schema_release(looks.children[index]);
            rc = lk_schema_copy(given, looks.children[index], err);
        } else if (named) {
            rc = accept_values(looks.children[index], given, &self->any, err);
        }
    }
    if (rc == LK_OK) {
        rc = lk_schema_compare(&looks, rows, LK_SCHEMA_APPEND, err);
    }
    lk_schema_release(&looks);
    return rc;
}

/* -- columns --------------------------------------------------------------------------------------- */
/* struct<data, uri, ...> of these bytes; null where they are. */
static lk_rc wrap(
    const struct ArrowSchema *table, struct ArrowArray *data, struct ArrowArray *out, lk_err *err)
{
    lk_buffer_pool *pool = lk_buffer_pool_new(NULL);
    lk_buffer       validity = {0};
    lk_rc           rc = LK_OK;
    uint64_t        length = (uint64_t)data->length;
    if (data->null_count != 0 && data->buffers[0] != NULL) {
        rc = lk_buffer_take(pool, length / 8 + 8, &validity, err);
        if (rc == LK_OK) {
            memset(validity.data, 0, length / 8 + 1);
            lk_bits_copy(data->buffers[0], data->offset, validity.data, 0, data->length);
        }
    }
    if (rc == LK_OK) {
        uint64_t nulls =
            validity.data == NULL ? 0 : length - (uint64_t)lk_bits_count(validity.data, 0, data->length);
        lk_column_node(out, length, nulls, &validity, 1, (size_t)table->n_children);
        lk_array_move(data, out->children[0]);
    }
    for (int64_t child = 1; rc == LK_OK && child < table->n_children; child++) {
        rc = lk_array_nulls(table->children[child], (int64_t)length, out->children[child], err);
        if (rc != LK_OK) {
            lk_array_release(out);
        }
    }
    lk_buffer_give(&validity);
    lk_buffer_pool_close(pool);
    return rc;
}

static lk_rc cast(const adapted *self, size_t index, const struct ArrowSchema *to, struct ArrowArray *take,
    struct ArrowArray *out, lk_err *err)
{
    lk_shared_array *shared = lk_array_share(take);
    lk_rc rc = lk_array_cast(self->source->schema.children[index], shared, to, self->rows, out, err);
    lk_shared_array_unref(shared);
    return rc;
}

static lk_rc refuse_outside(const struct ArrowSchema *field, const struct ArrowArray *blobs, lk_err *err)
{
    for (int64_t row = 0; row < blobs->length; row++) {
        const struct ArrowArray *uri = blobs->children[1];
        int64_t                  at = blobs->offset + row;
        bool there = blobs->null_count == 0 || blobs->buffers[0] == NULL || lk_bit(blobs->buffers[0], at);
        at += uri->offset;
        if (there && (uri->null_count == 0 || uri->buffers[0] == NULL || lk_bit(uri->buffers[0], at))) {
            lk_rc rc = lk_fail(err, LK_E_INVALID_REQUEST, "a blob outside of the table");
            lk_detail(err,
                "column '%s': a blob is the uri of an object outside of the table, which was not allowed",
                field->name == NULL ? "" : field->name);
            return rc;
        }
    }
    return LK_OK;
}

/* Moves *take; *out is the table's column. */
static lk_rc adapt_column(
    const adapted *self, size_t index, struct ArrowArray *take, struct ArrowArray *out, lk_err *err)
{
    const struct ArrowSchema *field = self->table->children[index];
    form                      how = self->forms[index];
    if (how == FORM_CAST) {
        return cast(self, index, field->dictionary != NULL ? field->dictionary : field, take, out, err);
    }
    if (how == FORM_BYTES) {
        struct ArrowArray data = {0};
        lk_rc             rc = cast(self, index, &self->large, take, &data, err);
        return rc == LK_OK ? wrap(field, &data, out, err) : rc;
    }
    lk_rc rc = lk_is_blob_v2(field) && !self->outside ? refuse_outside(field, take, err) : LK_OK;
    lk_array_move(take, out);
    return rc;
}

static lk_rc adapt_batch(adapted *self, struct ArrowArray *take, struct ArrowArray *out, lk_err *err)
{
    size_t             count = (size_t)self->table->n_children, made = 0;
    struct ArrowArray *columns = calloc(count + 1, sizeof *columns);
    LK_ASSERT(columns != NULL);
    int64_t          length = take->length;
    lk_shared_array *shared = lk_array_share(take);
    lk_rc            rc = LK_OK;
    for (; rc == LK_OK && made < count; made++) {
        struct ArrowArray column = {0};
        lk_shared_batch_column(shared, made, &column);
        rc = adapt_column(self, made, &column, &columns[made], err);
        lk_array_release(&column);
    }
    if (rc == LK_OK) {
        lk_batch_of_columns(columns, count, length, out);
        self->rows += length;
    }
    for (size_t index = 0; rc != LK_OK && index < made; index++) {
        lk_array_release(&columns[index]);
    }
    lk_shared_array_unref(shared);
    free(columns);
    return rc;
}

/* -- the stream -------------------------------------------------------------------------------------- */
static lk_rc next_adapted(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    adapted          *self = (adapted *)batches;
    struct ArrowArray batch = {0};
    lk_rc             rc = lk_batches_next(self->source, &batch, err);
    if (rc != LK_OK || batch.release == NULL) {
        *out = batch;
        return rc;
    }
    return adapt_batch(self, &batch, out, err);
}

static void close_adapted(lk_batches *batches)
{
    adapted *self = (adapted *)batches;
    lk_schema_release(&self->base.schema);
    lk_schema_release(&self->large);
    free(self->forms);
    free(self);
}

lk_rc lk_adapt_rows(
    const struct ArrowSchema *table, lk_batches *source, bool outside, lk_batches **out, lk_err *err)
{
    adapted *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    *self = (adapted){.base = {.next = next_adapted, .close = close_adapted},
        .source = source,
        .table = table,
        .outside = outside};
    self->forms = calloc((size_t)table->n_children + 1, sizeof *self->forms);
    LK_ASSERT(self->forms != NULL);
    lk_rc rc = compare(self, err);
    if (rc == LK_OK && self->any) {
        rc = lk_column_parse(LK_LITERAL("data:large_binary?"), &self->large, err);
    }
    if (rc == LK_OK && self->any) {
        rc = lk_schema_copy(table, &self->base.schema, err);
    }
    if (rc != LK_OK || !self->any) {
        close_adapted(&self->base);
        *out = source;
        return rc;
    }
    *out = &self->base;
    return LK_OK;
}

bool lk_schema_needs_2_2(const struct ArrowSchema *schema)
{
    bool needs = strcmp(schema->format, "+m") == 0 || lk_is_blob_v2(schema) || lk_is_vector(schema);
    for (int64_t child = 0; !needs && child < schema->n_children; child++) {
        needs = lk_schema_needs_2_2(schema->children[child]);
    }
    return needs;
}

/* -- new tables -------------------------------------------------------------------------------------- */
/* The field's metadata, but for what made plain bytes a blob, and with the extension's name. */
static int extension_metadata(const char *from, struct ArrowSchema *out)
{
    struct ArrowMetadataReader reader;
    struct ArrowStringView     key, value;
    struct ArrowBuffer         buffer;
    int                        rc = ArrowMetadataBuilderInit(&buffer, NULL);
    if (rc == NANOARROW_OK) {
        rc = ArrowMetadataBuilderAppend(
            &buffer, ArrowCharView("ARROW:extension:name"), ArrowCharView("lance.blob.v2"));
    }
    if (rc == NANOARROW_OK && from != NULL && ArrowMetadataReaderInit(&reader, from) == NANOARROW_OK) {
        while (rc == NANOARROW_OK && ArrowMetadataReaderRead(&reader, &key, &value) == NANOARROW_OK) {
            lk_bytes name = {key.data, (size_t)key.size_bytes};
            if (!lk_bytes_equal(name, LK_LITERAL("lance-encoding:blob"))) {
                rc = ArrowMetadataBuilderAppend(&buffer, key, value);
            }
        }
    }
    if (rc == NANOARROW_OK) {
        rc = ArrowSchemaSetMetadata(out, (const char *)buffer.data);
    }
    ArrowBufferReset(&buffer);
    return rc;
}

static lk_rc make_extension(struct ArrowSchema *field, lk_err *err)
{
    struct ArrowSchema made;
    ArrowSchemaInit(&made);
    int rc = ArrowSchemaSetTypeStruct(&made, 2);
    if (rc == NANOARROW_OK) {
        rc = ArrowSchemaSetType(made.children[0], NANOARROW_TYPE_LARGE_BINARY);
    }
    if (rc == NANOARROW_OK) {
        rc = ArrowSchemaSetType(made.children[1], NANOARROW_TYPE_STRING);
    }
    if (rc == NANOARROW_OK) {
        rc = ArrowSchemaSetName(made.children[0], "data");
    }
    if (rc == NANOARROW_OK) {
        rc = ArrowSchemaSetName(made.children[1], "uri");
    }
    if (rc == NANOARROW_OK) {
        rc = ArrowSchemaSetName(&made, field->name == NULL ? "" : field->name);
    }
    if (rc == NANOARROW_OK) {
        rc = extension_metadata(field->metadata, &made);
    }
    made.flags = field->flags;
    if (rc != NANOARROW_OK) {
        lk_schema_release(&made);
        return lk_fail(err, LK_E_LIMIT, "no memory for a schema");
    }
    lk_schema_release(field);
    lk_schema_move(&made, field);
    return LK_OK;
}

static lk_rc make_extensions(struct ArrowSchema *field, lk_err *err)
{
    if (lk_is_blob(field)) {
        return lk_is_blob_v2(field) ? LK_OK : make_extension(field, err);
    }
    lk_rc rc = LK_OK;
    for (int64_t child = 0; rc == LK_OK && child < field->n_children; child++) {
        rc = make_extensions(field->children[child], err);
    }
    return rc;
}

lk_rc lk_adapt_schema(
    const struct ArrowSchema *asked, uint32_t file_minor, struct ArrowSchema *out, lk_err *err)
{
    lk_rc rc = lk_schema_copy(asked, out, err);
    if (rc == LK_OK && file_minor >= 2 && (rc = make_extensions(out, err)) != LK_OK) {
        lk_schema_release(out);
    }
    return rc;
}
