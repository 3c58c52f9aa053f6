/* write_blob.c - see write_blob.h. */
#include "lance/write_blob.h"

#include "arrow/bits.h"
#include "lance/write_shape.h"

#include <stdlib.h>

enum { DESCRIPTOR_BYTES = 25 /* of 2.2: all but the uri */ };

/* -- where bytes go ----------------------------------------------------------------------------------- */
static uint64_t limit_of(const struct ArrowSchema *field, const char *key, uint64_t standard)
{
    struct ArrowStringView text = {0};
    uint64_t               value = 0;
    if (ArrowMetadataGetValue(field->metadata, ArrowCharView(key), &text) != NANOARROW_OK ||
        text.data == NULL || text.size_bytes == 0) {
        return standard;
    }
    for (int64_t at = 0; at < text.size_bytes; at++) {
        char digit = text.data[at];
        if (digit < '0' || digit > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(digit - '0'), &value)) {
            return standard;
        }
    }
    return value;
}

lk_blob_limits lk_blob_limits_of(const struct ArrowSchema *field)
{
    return (lk_blob_limits){
        .inline_max = limit_of(field, "lance-encoding:blob-inline-size-threshold", LK_BLOB_INLINE_BYTES_MAX),
        .packed_max =
            limit_of(field, "lance-encoding:blob-dedicated-size-threshold", LK_BLOB_PACKED_BYTES_MAX),
        .pack_bytes_max =
            limit_of(field, "lance-encoding:blob-pack-file-size-threshold", LK_BLOB_PACK_BYTES_MAX)};
}

static lk_rc create_side(lk_blob_writer *self, uint32_t id, lk_store_writer **out, lk_err *err)
{
    lk_arena arena = {0};
    lk_rc    rc = lk_store_create(self->store, lk_blob_key(self->key, id, &arena), out, err);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc end_pack(lk_blob_writer *self, lk_err *err)
{
    lk_store_writer *pack = self->pack;
    self->pack = NULL;
    self->pack_size = 0;
    return pack == NULL ? LK_OK : lk_store_finish(pack, err);
}

static lk_rc put_packed(
    lk_blob_writer *self, const lk_blob_limits *limits, lk_bytes bytes, lk_blob_descriptor *out, lk_err *err)
{
    bool  full = self->pack != NULL && self->pack_size + bytes.size > limits->pack_bytes_max;
    lk_rc rc = full ? end_pack(self, err) : LK_OK;
    if (rc == LK_OK && self->pack == NULL) {
        self->pack_id = ++self->last_id;
        rc = create_side(self, self->pack_id, &self->pack, err);
    }
    if (rc == LK_OK) {
        rc = lk_store_write(self->pack, bytes.data, bytes.size, err);
    }
    *out = (lk_blob_descriptor){
        .kind = LK_BLOB_PACKED, .position = self->pack_size, .size = bytes.size, .id = self->pack_id};
    self->pack_size += bytes.size;
    return rc;
}

static lk_rc put_dedicated(lk_blob_writer *self, lk_bytes bytes, lk_blob_descriptor *out, lk_err *err)
{
    lk_store_writer *side = NULL;
    uint32_t         id = ++self->last_id;
    lk_rc            rc = create_side(self, id, &side, err);
    if (rc == LK_OK && (rc = lk_store_write(side, bytes.data, bytes.size, err)) != LK_OK) {
        lk_store_abandon(side);
        return rc;
    }
    *out = (lk_blob_descriptor){.kind = LK_BLOB_DEDICATED, .size = bytes.size, .id = id};
    return rc == LK_OK ? lk_store_finish(side, err) : rc;
}

lk_rc lk_blob_writer_put(
    lk_blob_writer *self, const lk_blob_limits *limits, lk_bytes bytes, lk_blob_descriptor *out, lk_err *err)
{
    if (bytes.size > limits->packed_max) {
        return put_dedicated(self, bytes, out, err);
    }
    if (bytes.size > limits->inline_max) {
        return put_packed(self, limits, bytes, out, err);
    }
    *out = (lk_blob_descriptor){.kind = LK_BLOB_INLINE, .size = bytes.size};
    return bytes.size == 0 ? LK_OK : self->put(self->file, bytes, &out->position, err);
}

lk_rc lk_blob_writer_finish(lk_blob_writer *self, lk_err *err)
{
    return end_pack(self, err);
}

void lk_blob_writer_abandon(lk_blob_writer *self)
{
    lk_arena arena = {0};
    lk_err   ignored = {0};
    lk_store_abandon(self->pack);
    for (uint32_t id = 1; id <= self->last_id; id++) { /* what stays is removed by the next cleanup */
        if (self->pack == NULL || id != self->pack_id) {
            (void)!lk_store_remove(self->store, lk_blob_key(self->key, id, &arena), &ignored);
        }
    }
    lk_arena_close(&arena);
    *self = (lk_blob_writer){0};
}

/* -- rows ------------------------------------------------------------------------------------------- */
static bool is_null(const struct ArrowArray *array, int64_t row)
{
    return array->null_count != 0 && array->buffers[0] != NULL && !lk_bit(array->buffers[0], row);
}

static lk_bytes value_at(const struct ArrowArray *array, int64_t row, bool large)
{
    uint64_t start = 0, end = 0;
    size_t   width = large ? 8 : 4;
    memcpy(&start, (const uint8_t *)array->buffers[1] + (size_t)row * width, width);
    memcpy(&end, (const uint8_t *)array->buffers[1] + (size_t)(row + 1) * width, width);
    return (lk_bytes){(const char *)array->buffers[2] + start, (size_t)(end - start)};
}

static uint64_t word_at(const struct ArrowArray *parent, int64_t child, int64_t row)
{
    if (child >= parent->n_children ||
        is_null(parent->children[child], row + parent->children[child]->offset)) {
        return 0;
    }
    return ((const uint64_t *)parent->children[child]->buffers[1])[row + parent->children[child]->offset];
}

/* A row of struct<data, uri[, position, size]>: exactly one of the two is there. */
static lk_rc describe(lk_blob_writer *self, const struct ArrowSchema *field, const lk_blob_limits *limits,
    const struct ArrowArray *array, int64_t row, lk_blob_descriptor *out, lk_err *err)
{
    const struct ArrowArray *data = array->children[0], *uri = array->children[1];
    bool bytes = !is_null(data, row + data->offset), outside = !is_null(uri, row + uri->offset);
    if (bytes == outside) {
        lk_rc rc = lk_fail(err, LK_E_SCHEMA_MISMATCH, "a blob of data and uri, or of neither");
        lk_detail(
            err, "column '%s': a blob has either data or a uri", field->name == NULL ? "" : field->name);
        return rc;
    }
    if (bytes) {
        return lk_blob_writer_put(self, limits, value_at(data, row + data->offset, true), out, err);
    }
    *out = (lk_blob_descriptor){.kind = LK_BLOB_EXTERNAL,
        .position = word_at(array, 2, row),
        .size = word_at(array, 3, row),
        .uri = value_at(uri, row + uri->offset, false)};
    return LK_OK;
}

static void put_descriptor(const lk_blob_descriptor *found, lk_buf *bytes)
{
    char fixed[DESCRIPTOR_BYTES];
    fixed[0] = (char)found->kind;
    lk_store_u64(fixed + 1, found->position);
    lk_store_u64(fixed + 9, found->size);
    lk_store_u32(fixed + 17, found->id);
    lk_store_u32(fixed + 21, (uint32_t)found->uri.size);
    lk_buf_append(bytes, fixed, sizeof fixed);
    lk_buf_append_bytes(bytes, found->uri);
}

static lk_rc rows_2_2(lk_blob_writer *self, const struct ArrowSchema *field, const lk_shape_rows *rows,
    const uint8_t *validity, lk_buf *bytes, lk_buf *offsets, lk_err *err)
{
    lk_blob_limits limits = lk_blob_limits_of(field);
    uint32_t       end = 0;
    lk_buf_append(offsets, &end, 4);
    for (int64_t row = 0; row < rows->count; row++) {
        lk_blob_descriptor found;
        if (lk_bit(validity, row)) {
            lk_rc rc = describe(self, field, &limits, rows->array, rows->start + row, &found, err);
            if (rc == LK_OK && bytes->size + found.uri.size > INT32_MAX - DESCRIPTOR_BYTES) {
                rc = lk_fail(err, LK_E_LIMIT, "more than 2 GiB of blob uris in one batch");
            }
            if (rc != LK_OK) {
                return rc;
            }
            put_descriptor(&found, bytes);
        }
        end = (uint32_t)bytes->size;
        lk_buf_append(offsets, &end, 4);
    }
    return LK_OK;
}

lk_rc lk_blob_rows(lk_blob_writer *self, const struct ArrowSchema *field, const lk_shape_rows *rows,
    const uint8_t *validity, lk_buf *bytes, lk_buf *offsets, lk_err *err)
{
    if (lk_is_blob_v2(field)) {
        return rows_2_2(self, field, rows, validity, bytes, offsets, err);
    }
    for (int64_t row = 0; row < rows->count; row++) {
        uint64_t words[2] = {0};
        if (lk_bit(validity, row)) {
            lk_bytes value = value_at(rows->array, rows->start + row, field->format[0] == 'Z');
            lk_rc    rc = value.size == 0 ? LK_OK : self->put(self->file, value, &words[0], err);
            words[1] = value.size;
            if (rc != LK_OK) {
                return rc;
            }
        }
        lk_buf_append(bytes, words, sizeof words);
    }
    return LK_OK;
}
