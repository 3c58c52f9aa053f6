/* blob.c - see blob.h: which fields are blobs, their descriptors, and one blob as a range of an object. */
#include "lance/blob.h"

#include "arrow/bits.h"
#include "arrow/schema.h"
#include "lance/file_priv.h"

#include <stdlib.h>
#include <strings.h>

/* -- fields ---------------------------------------------------------------------------------------- */
static bool says(const struct ArrowSchema *field, const char *key, const char *value)
{
    struct ArrowStringView found = {0};
    bool there = ArrowMetadataGetValue(field->metadata, ArrowCharView(key), &found) == NANOARROW_OK;
    return there && found.data != NULL && (size_t)found.size_bytes == strlen(value) &&
           strncasecmp(found.data, value, strlen(value)) == 0;
}

bool lk_is_blob_v2(const struct ArrowSchema *field)
{
    return strcmp(field->format, "+s") == 0 && says(field, "ARROW:extension:name", "lance.blob.v2");
}

bool lk_is_blob(const struct ArrowSchema *field)
{
    bool binary = strcmp(field->format, "Z") == 0 || strcmp(field->format, "z") == 0;
    return lk_is_blob_v2(field) || (binary && says(field, "lance-encoding:blob", "true"));
}

bool lk_is_packed(const struct ArrowSchema *field)
{
    return strcmp(field->format, "+s") == 0 && !lk_is_blob_v2(field) &&
           (says(field, "packed", "true") || says(field, "lance-encoding:packed", "true"));
}

static lk_rc set_name(const struct ArrowSchema *field, struct ArrowSchema *out, lk_err *err)
{
    int rc = ArrowSchemaSetName(out, field->name == NULL ? "" : field->name);
    out->flags = field->flags;
    return rc == NANOARROW_OK ? LK_OK : lk_fail(err, LK_E_LIMIT, "no memory for a schema");
}

static int descriptor_metadata(unsigned file_minor, struct ArrowSchema *out)
{
    struct ArrowBuffer buffer;
    int                rc = ArrowMetadataBuilderInit(&buffer, NULL);
    if (rc == NANOARROW_OK) {
        rc = ArrowMetadataBuilderAppend(&buffer, ArrowCharView("lance-encoding:blob"), ArrowCharView("true"));
    }
    if (rc == NANOARROW_OK && file_minor >= 2) {
        rc = ArrowMetadataBuilderAppend(
            &buffer, ArrowCharView("lance-encoding:packed"), ArrowCharView("true"));
    }
    if (rc == NANOARROW_OK) {
        rc = ArrowSchemaSetMetadata(out, (const char *)buffer.data);
    }
    ArrowBufferReset(&buffer);
    return rc;
}

lk_rc lk_blob_descriptor_schema(
    const struct ArrowSchema *field, unsigned file_minor, struct ArrowSchema *out, lk_err *err)
{
    static const struct member {
        const char    *name;
        enum ArrowType type;
    } members[] = {{"kind", NANOARROW_TYPE_UINT8}, {"position", NANOARROW_TYPE_UINT64},
        {"size", NANOARROW_TYPE_UINT64}, {"blob_id", NANOARROW_TYPE_UINT32},
        {"blob_uri", NANOARROW_TYPE_STRING}};
    size_t first = file_minor >= 2 ? 0 : 1, count = file_minor >= 2 ? 5 : 2;
    ArrowSchemaInit(out);
    int rc = ArrowSchemaSetTypeStruct(out, (int64_t)count);
    for (size_t index = 0; rc == NANOARROW_OK && index < count; index++) {
        struct ArrowSchema *child = out->children[index];
        rc = ArrowSchemaSetType(child, members[first + index].type);
        if (rc == NANOARROW_OK) {
            rc = ArrowSchemaSetName(child, members[first + index].name);
        }
        child->flags = file_minor >= 2 ? 0 : ARROW_FLAG_NULLABLE;
    }
    if (rc == NANOARROW_OK) {
        rc = descriptor_metadata(file_minor, out);
    }
    lk_rc done =
        rc == NANOARROW_OK ? set_name(field, out, err) : lk_fail(err, LK_E_LIMIT, "no memory for a schema");
    if (done != LK_OK) {
        lk_schema_release(out);
    }
    return done;
}

lk_rc lk_blob_bytes_schema(const struct ArrowSchema *field, struct ArrowSchema *out, lk_err *err)
{
    ArrowSchemaInit(out);
    lk_rc rc = ArrowSchemaSetType(out, NANOARROW_TYPE_LARGE_BINARY) == NANOARROW_OK
                   ? set_name(field, out, err)
                   : lk_fail(err, LK_E_LIMIT, "no memory for a schema");
    if (rc != LK_OK) {
        lk_schema_release(out);
    }
    return rc;
}

/* -- descriptors ----------------------------------------------------------------------------------- */
static uint64_t word_at(const struct ArrowArray *child, int64_t row)
{
    return ((const uint64_t *)child->buffers[1])[child->offset + row];
}

bool lk_blob_descriptor_at(const struct ArrowArray *array, int64_t row, lk_blob_descriptor *out)
{
    const uint8_t *validity = array->null_count == 0 ? NULL : array->buffers[0];
    bool           old = array->n_children == 2;
    row += array->offset;
    if (validity != NULL && !lk_bit(validity, row)) {
        return false;
    }
    *out = (lk_blob_descriptor){
        .position = word_at(array->children[!old], row), .size = word_at(array->children[old ? 1 : 2], row)};
    if (!old) {
        const struct ArrowArray *kind = array->children[0], *id = array->children[3],
                                *uri = array->children[4];
        const int32_t *ends = (const int32_t *)uri->buffers[1] + uri->offset + row;
        out->kind = (lk_blob_kind)((const uint8_t *)kind->buffers[1])[kind->offset + row];
        out->id = ((const uint32_t *)id->buffers[1])[id->offset + row];
        out->uri = (lk_bytes){(const char *)uri->buffers[2] + ends[0], (size_t)(ends[1] - ends[0])};
    }
    return true;
}

lk_bytes lk_blob_key(lk_bytes data_file, uint32_t id, lk_arena *arena)
{
    static const char suffix[] = ".lance";
    char              digits[33] = {0};
    for (unsigned bit = 0; bit < 32; bit++) {
        digits[bit] = (char)('0' + (id >> bit & 1));
    }
    if (data_file.size > sizeof suffix - 1 &&
        memcmp(data_file.data + data_file.size - (sizeof suffix - 1), suffix, sizeof suffix - 1) == 0) {
        data_file.size -= sizeof suffix - 1;
    }
    return lk_arena_format(arena, "%.*s/%s.blob", LK_FMT(data_file), digits);
}

/* -- one blob ---------------------------------------------------------------------------------------- */
struct lk_blob {
    lk_file_reader  *file;   /* inline: whose bytes they are */
    lk_store_reader *object; /* else */
    uint64_t         position, size;
};

static lk_rc refuse(const char *what, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "%s", what);
    lk_detail(err, "%s", what);
    return rc;
}

static lk_rc open_side(lk_blob *self, lk_file_reader *file, uint32_t id, uint64_t *size, lk_err *err)
{
    lk_arena arena = {0};
    lk_bytes key = lk_blob_key(file->key, id, &arena);
    lk_rc    rc = lk_store_open_object(file->object->store, key, &self->object, size, err);
    if (rc == LK_E_NOT_FOUND) {
        lk_err gone = {0};
        rc = lk_fail(&gone, LK_E_CORRUPT_FILE, "blob file %.*s is not there", LK_FMT(key));
        *err = gone;
    }
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_blob_open(lk_file_reader *file, const lk_blob_outside *outside, const lk_blob_descriptor *descriptor,
    lk_blob **out, lk_err *err)
{
    lk_blob *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    uint64_t size = file->size;
    lk_rc    rc = LK_OK;
    self->position = descriptor->position;
    self->size = descriptor->size;
    if (descriptor->kind == LK_BLOB_INLINE) {
        self->file = lk_file_reader_ref(file);
    } else if (descriptor->kind == LK_BLOB_PACKED || descriptor->kind == LK_BLOB_DEDICATED) {
        rc = open_side(self, file, descriptor->id, &size, err);
    } else if (descriptor->kind == LK_BLOB_EXTERNAL) {
        rc = outside == NULL ? refuse("a blob outside of the table, which is not read from here", err)
                             : outside->open(outside->context, descriptor->uri, &self->object, &size, err);
        if (rc == LK_OK && self->size == 0) {
            self->size = size - (self->position < size ? self->position : size);
        }
    } else {
        rc = refuse("a blob of a kind that this build does not know", err);
    }
    if (rc == LK_OK && (self->position > size || self->size > size - self->position)) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: a blob lies outside of its file", LK_FMT(file->key));
    }
    if (rc != LK_OK) {
        lk_blob_close(self);
        return rc;
    }
    *out = self;
    return LK_OK;
}

uint64_t lk_blob_size(const lk_blob *blob)
{
    return blob->size;
}

lk_store_reader *lk_blob_object(const lk_blob *blob)
{
    return blob->object;
}

lk_rc lk_blob_read(lk_blob *self, uint64_t offset, void *out, size_t size, lk_err *err)
{
    if (offset > self->size || size > self->size - offset) {
        return lk_fail(err, LK_E_INVALID_REQUEST, "bytes behind the end of a blob");
    }
    lk_store_range range = {self->position + offset, size, out};
    return size == 0              ? LK_OK
           : self->object != NULL ? lk_store_read(self->object, &range, 1, err)
                                  : lk_file_bytes(self->file, &range, 1, err);
}

void lk_blob_close(lk_blob *self)
{
    if (self != NULL) {
        lk_store_reader_close(self->object);
        lk_file_reader_unref(self->file);
        free(self);
    }
}
