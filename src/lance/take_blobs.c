/* take_blobs.c - see take_blobs.h: descriptors and addresses are taken, then each blob is opened. */
#include "lance/take_blobs.h"

#include "lance/dataset_priv.h"
#include "lance/file_priv.h"

#include <stdlib.h>

typedef struct opened {
    lk_dataset        *dataset;
    size_t             column;
    struct ArrowSchema view; /* blobs as descriptors */
    lk_blob          **blobs;
    size_t             count, room;
} opened;

void lk_blobs_close(lk_blob **blobs, size_t count)
{
    for (size_t index = 0; blobs != NULL && index < count; index++) {
        lk_blob_close(blobs[index]);
    }
    free(blobs);
}

static lk_rc find_fragment(const lk_dataset *dataset, uint64_t address, size_t *out, lk_err *err)
{
    const lk_manifest *manifest = dataset->manifest;
    for (*out = 0; *out < manifest->fragment_count; (*out)++) {
        if (manifest->fragments[*out].id == address >> 32) {
            return LK_OK;
        }
    }
    return lk_fail(err, LK_E_CORRUPT_FILE, "no fragment %llu", (unsigned long long)(address >> 32));
}

static lk_rc open_one(
    opened *self, uint64_t address, const lk_blob_descriptor *descriptor, lk_blob **out, lk_err *err)
{
    lk_dataset     *dataset = self->dataset;
    lk_arena        arena = {0};
    lk_field_source source = {0};
    size_t          fragment = 0;
    lk_rc           rc = find_fragment(dataset, address, &fragment, err);
    if (rc == LK_OK) {
        rc = lk_dataset_source(dataset, fragment, dataset->manifest->schema->top[self->column],
            self->view.children[self->column], &arena, &source, err);
    }
    bool null =
        rc == LK_OK && lk_file_is_v20(source.file) && descriptor->size == 0 && descriptor->position != 0;
    if (rc == LK_OK && !null) {
        rc = lk_blob_open(source.file, source.outside, descriptor, out, err);
    }
    lk_dataset_source_close(&source);
    lk_arena_close(&arena);
    return rc;
}

/* A batch of descriptors and addresses. */
static lk_rc open_batch(opened *self, const struct ArrowArray *batch, lk_err *err)
{
    const struct ArrowArray *addresses = batch->children[1];
    const uint64_t          *words = (const uint64_t *)addresses->buffers[1] + addresses->offset;
    self->room = self->count + (size_t)batch->length;
    self->blobs = realloc(self->blobs, (self->room + 1) * sizeof *self->blobs);
    LK_ASSERT(self->blobs != NULL);
    for (int64_t row = 0; row < batch->length; row++) {
        lk_blob_descriptor found;
        lk_blob           *blob = NULL;
        if (lk_blob_descriptor_at(batch->children[0], row, &found)) {
            lk_rc rc = open_one(self, words[row], &found, &blob, err);
            if (rc != LK_OK) {
                return rc;
            }
        }
        self->blobs[self->count++] = blob;
    }
    return LK_OK;
}

static lk_rc open_all(opened *self, const lk_take_rows *rows, lk_err *err)
{
    const lk_scan_options options = {
        .columns = &self->column, .column_count = 1, .meta = LK_META_ROW_ADDRESS, .limit = UINT64_MAX};
    lk_batches *batches = NULL;
    lk_rc       rc = lk_dataset_take(self->dataset, rows, &options, &batches, err);
    while (rc == LK_OK) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        if (rc != LK_OK || batch.release == NULL) {
            break;
        }
        rc = open_batch(self, &batch, err);
        lk_array_release(&batch);
    }
    lk_batches_close(batches);
    return rc;
}

lk_rc lk_dataset_take_blobs(
    lk_dataset *dataset, const lk_take_rows *rows, size_t column, lk_blob ***out, size_t *count, lk_err *err)
{
    const struct ArrowSchema *table = lk_dataset_schema(dataset);
    opened                    self = {.dataset = dataset, .column = column};
    if (column >= (size_t)table->n_children || !lk_is_blob(table->children[column])) {
        lk_rc rc = lk_fail(err, LK_E_INVALID_REQUEST, "column %zu holds no blobs", column);
        lk_detail(err, "the column holds no blobs");
        return rc;
    }
    lk_rc rc = lk_view_schema(table, (lk_view){0}, &self.view, err);
    if (rc == LK_OK) {
        rc = open_all(&self, rows, err);
    }
    lk_schema_release(&self.view);
    if (rc != LK_OK) {
        lk_blobs_close(self.blobs, self.count);
        return rc;
    }
    *out = self.blobs;
    *count = self.count;
    return LK_OK;
}
