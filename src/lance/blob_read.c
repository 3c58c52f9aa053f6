/*
 * blob_read.c - the bytes of many blobs: neighbours in one object are read together, gaps between them included, as
 * long as these are small; the rest range by range.
 */
#include "lance/blob.h"

#include "lance/column.h"
#include "lance/file_priv.h"

#include <stdlib.h>

enum {
    GAP_BYTES = 4096,
    TOGETHER_BYTES = 1024 * 1024, /* a run of neighbours, gaps included */
    RANGES_MAX = 256              /* asked for at once */
};

/* Bytes of one object that go to one place, or through `gather` to several. */
typedef struct piece {
    uint64_t offset;
    size_t   size;
    uint8_t *out;
} piece;

typedef struct batch {
    lk_file_reader        *file;
    const lk_blob_outside *outside;
    lk_blob               *open; /* the side file at hand */
    lk_blob_kind           kind; /* of it */
    uint32_t               id;
    lk_store_reader       *object; /* where the pieces lie; NULL: the data file */
    piece                 *pieces; /* neighbours of a run, ascending */
    size_t                 count, room;
    lk_buffer              gather;
    lk_buffer_pool        *pool;
    bool                   inside; /* external blobs count as null */
} batch;

static lk_rc read_ranges(batch *self, const lk_store_range *ranges, size_t count, lk_err *err)
{
    return self->object != NULL ? lk_store_read(self->object, ranges, count, err)
                                : lk_file_bytes(self->file, ranges, count, err);
}

/* Pieces [first, end) are one run: read as one. */
static lk_rc read_run(batch *self, size_t first, size_t end, lk_err *err)
{
    uint64_t from = self->pieces[first].offset;
    size_t   size = (size_t)(self->pieces[end - 1].offset + self->pieces[end - 1].size - from);
    lk_rc    rc = lk_buffer_grow(self->pool, &self->gather, 0, size, err);
    if (rc == LK_OK) {
        rc = read_ranges(self, &(lk_store_range){from, size, self->gather.data}, 1, err);
    }
    for (size_t index = first; rc == LK_OK && index < end; index++) {
        const piece *one = &self->pieces[index];
        memcpy(one->out, self->gather.data + (one->offset - from), one->size);
    }
    return rc;
}

/* How far the run goes that begins at piece `first`. */
static size_t run_end(const batch *self, size_t first)
{
    size_t end = first + 1;
    for (; end < self->count; end++) {
        const piece *last = &self->pieces[end - 1], *next = &self->pieces[end];
        uint64_t     behind = last->offset + last->size;
        if (next->offset < behind || next->offset - behind > GAP_BYTES ||
            next->offset + next->size - self->pieces[first].offset > TOGETHER_BYTES) {
            break;
        }
    }
    return end;
}

static lk_rc flush(batch *self, lk_err *err)
{
    lk_store_range ranges[RANGES_MAX];
    size_t         count = 0;
    lk_rc          rc = LK_OK;
    for (size_t first = 0; rc == LK_OK && first < self->count;) {
        size_t end = run_end(self, first);
        if (end - first > 1) {
            rc = read_run(self, first, end, err);
        } else {
            const piece *one = &self->pieces[first];
            ranges[count++] = (lk_store_range){one->offset, one->size, one->out};
        }
        if (rc == LK_OK && count == RANGES_MAX) {
            rc = read_ranges(self, ranges, count, err);
            count = 0;
        }
        first = end;
    }
    if (rc == LK_OK && count > 0) {
        rc = read_ranges(self, ranges, count, err);
    }
    self->count = 0;
    return rc;
}

static void add(batch *self, uint64_t offset, size_t size, uint8_t *out)
{
    if (self->count == self->room) {
        self->room = self->room == 0 ? 64 : self->room * 2;
        self->pieces = realloc(self->pieces, self->room * sizeof *self->pieces);
        LK_ASSERT(self->pieces != NULL);
    }
    self->pieces[self->count++] = (piece){offset, size, out};
}

/* Moves on to the object of this descriptor, when it is another one. */
static lk_rc turn_to(batch *self, const lk_blob_descriptor *descriptor, lk_err *err)
{
    bool same = self->open != NULL && self->kind == descriptor->kind && self->id == descriptor->id &&
                descriptor->kind != LK_BLOB_EXTERNAL;
    bool stays = descriptor->kind == LK_BLOB_INLINE && self->open == NULL;
    if (same || stays) {
        return LK_OK;
    }
    lk_rc rc = flush(self, err);
    lk_blob_close(self->open);
    self->open = NULL;
    self->object = NULL;
    if (rc == LK_OK && descriptor->kind != LK_BLOB_INLINE) {
        rc = lk_blob_open(self->file, self->outside, descriptor, &self->open, err);
        self->kind = descriptor->kind;
        self->id = descriptor->id;
    }
    if (rc == LK_OK && self->open != NULL) {
        self->object = lk_blob_object(self->open);
    }
    return rc;
}

/* The descriptor of a row whose bytes are asked for; false: it has none. */
static bool find(
    const batch *self, const struct ArrowArray *descriptors, int64_t row, lk_blob_descriptor *out)
{
    return lk_blob_descriptor_at(descriptors, row, out) && !(self->inside && out->kind == LK_BLOB_EXTERNAL);
}

/* What a row takes: external blobs may not say. */
static lk_rc size_of(batch *self, const lk_blob_descriptor *descriptor, uint64_t *size, lk_err *err)
{
    *size = descriptor->size;
    if (descriptor->kind != LK_BLOB_EXTERNAL || descriptor->size > 0) {
        return LK_OK;
    }
    lk_blob *open = NULL;
    lk_rc    rc = lk_blob_open(self->file, self->outside, descriptor, &open, err);
    *size = rc == LK_OK ? lk_blob_size(open) : 0;
    lk_blob_close(open);
    return rc;
}

/* Where each row's bytes go: offsets. */
static lk_rc lay_out(batch *self, const struct ArrowArray *descriptors, lk_buffer *offsets, lk_err *err)
{
    uint64_t at = 0, size = 0;
    lk_rc    rc = lk_buffer_take(self->pool, (size_t)(descriptors->length + 1) * 8, offsets, err);
    for (int64_t row = 0; rc == LK_OK && row < descriptors->length; row++) {
        lk_blob_descriptor descriptor;
        lk_store_u64(offsets->data + row * 8, at);
        if (find(self, descriptors, row, &descriptor)) {
            rc = size_of(self, &descriptor, &size, err);
            if (rc == LK_OK && __builtin_add_overflow(at, size, &at)) {
                rc = lk_fail(err, LK_E_CORRUPT_FILE, "blobs of more bytes than can be counted");
            }
        }
    }
    if (rc == LK_OK) {
        lk_store_u64(offsets->data + descriptors->length * 8, at);
    }
    return rc;
}

static lk_rc read_rows(
    batch *self, const struct ArrowArray *descriptors, const uint8_t *offsets, uint8_t *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (int64_t row = 0; rc == LK_OK && row < descriptors->length; row++) {
        lk_blob_descriptor descriptor;
        uint64_t           at = lk_load_u64(offsets + row * 8);
        size_t             size = (size_t)(lk_load_u64(offsets + row * 8 + 8) - at);
        if (size == 0 || !find(self, descriptors, row, &descriptor)) {
            continue;
        }
        rc = turn_to(self, &descriptor, err);
        if (rc == LK_OK) {
            add(self, descriptor.position, size, out + at);
        }
    }
    return rc == LK_OK ? flush(self, err) : rc;
}

static lk_rc mark_valid(batch *self, const struct ArrowArray *descriptors, lk_validity *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (int64_t row = 0; rc == LK_OK && row < descriptors->length; row++) {
        lk_blob_descriptor ignored;
        uint16_t           level = !find(self, descriptors, row, &ignored);
        rc = lk_validity_append(
            out, self->pool, (uint64_t)descriptors->length, (uint64_t)row, &level, 1, 1, err);
    }
    return rc;
}

static lk_rc read_batch(
    batch *self, const struct ArrowArray *descriptors, struct ArrowArray *out, lk_err *err)
{
    lk_buffer   buffers[3] = {0};
    lk_validity validity = {0};
    lk_rc       rc = lay_out(self, descriptors, &buffers[1], err);
    if (rc == LK_OK) {
        rc = mark_valid(self, descriptors, &validity, err);
    }
    if (rc == LK_OK) {
        uint64_t total = lk_load_u64(buffers[1].data + descriptors->length * 8);
        rc = lk_buffer_take(self->pool, (size_t)total + 8, &buffers[2], err);
    }
    if (rc == LK_OK) {
        rc = read_rows(self, descriptors, buffers[1].data, buffers[2].data, err);
    }
    buffers[0] = validity.bits;
    if (rc == LK_OK) {
        lk_column_node(out, (uint64_t)descriptors->length, validity.null_count, buffers, 3, 0);
    }
    for (size_t buffer = 0; buffer < 3; buffer++) {
        lk_buffer_give(&buffers[buffer]);
    }
    lk_blob_close(self->open);
    lk_buffer_give(&self->gather);
    free(self->pieces);
    return rc;
}

lk_rc lk_blob_read_all(lk_file_reader *file, const lk_blob_outside *outside,
    const struct ArrowArray *descriptors, lk_buffer_pool *pool, struct ArrowArray *out, lk_err *err)
{
    batch self = {.file = file, .outside = outside, .pool = pool};
    return read_batch(&self, descriptors, out, err);
}

/* -- as a table stores them ------------------------------------------------------------------------------- */
/* Member `child` of the table's type: uri, position or size, where the blob is external and it says so. */
static lk_rc read_member(const struct ArrowSchema *field, const struct ArrowArray *descriptors, size_t child,
    lk_buffer_pool *pool, struct ArrowArray *out, lk_err *err)
{
    const lk_thresholds levels = {.leaf = 1, .max = 1};
    lk_column           column = {0};
    lk_rc               rc =
        lk_column_init(&column, field->children[child], (uint64_t)descriptors->length, pool, NULL, 0, err);
    for (int64_t row = 0; rc == LK_OK && row < descriptors->length; row++) {
        lk_blob_descriptor found = {0};
        bool     there = lk_blob_descriptor_at(descriptors, row, &found) && found.kind == LK_BLOB_EXTERNAL;
        uint64_t word = child == 2 ? found.position : found.size;
        there = there && (child == 1 || found.size > 0);
        lk_bytes value = child == 1 ? found.uri : (lk_bytes){(const char *)&word, sizeof word};
        uint16_t level = !there;
        if (there) {
            rc = lk_column_put(&column, value, err);
        } else {
            lk_column_put_empty(&column, 1);
        }
        if (rc == LK_OK) {
            rc = lk_column_validity(&column, &level, 1, &levels, err);
        }
    }
    if (rc == LK_OK) {
        lk_column_finish(&column, out);
    }
    lk_column_deinit(&column);
    return rc;
}

static lk_rc copy_nulls(
    const struct ArrowArray *descriptors, lk_buffer_pool *pool, struct ArrowArray *out, lk_err *err)
{
    lk_validity validity = {0};
    lk_rc       rc = LK_OK;
    for (int64_t row = 0; rc == LK_OK && row < descriptors->length; row++) {
        lk_blob_descriptor ignored;
        uint16_t           level = !lk_blob_descriptor_at(descriptors, row, &ignored);
        rc = lk_validity_append(
            &validity, pool, (uint64_t)descriptors->length, (uint64_t)row, &level, 1, 1, err);
    }
    if (rc == LK_OK) {
        lk_column_set_validity(out, &validity);
    }
    lk_buffer_give(&validity.bits);
    return rc;
}

lk_rc lk_blob_read_stored(lk_file_reader *file, const struct ArrowSchema *field,
    const struct ArrowArray *descriptors, lk_buffer_pool *pool, struct ArrowArray *out, lk_err *err)
{
    batch self = {.file = file, .pool = pool, .inside = true};
    lk_column_node(out, (uint64_t)descriptors->length, 0, &(lk_buffer){0}, 1, (size_t)field->n_children);
    lk_rc rc = read_batch(&self, descriptors, out->children[0], err);
    for (size_t child = 1; rc == LK_OK && child < (size_t)field->n_children; child++) {
        rc = read_member(field, descriptors, child, pool, out->children[child], err);
    }
    if (rc == LK_OK) {
        rc = copy_nulls(descriptors, pool, out, err);
    }
    if (rc != LK_OK) {
        out->release(out);
    }
    return rc;
}
