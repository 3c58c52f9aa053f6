/* value_place.c - see value_place.h. */
#include "lance/value_place.h"

#include "lance/buffer_pool.h"
#include "lance/dataset_priv.h"
#include "lance/decode_priv.h"

enum { HEAD_BYTES_MAX = 4 + 8 }; /* a control word and a length */

static uint64_t little(const uint8_t *at, size_t width)
{
    uint64_t word = 0;
    memcpy(&word, at, width);
    return word;
}

/* The first and last byte of a row of a page of whole rows, in its first buffer. */
static lk_rc find_row(const lk_page_rows *rows, uint64_t row, uint64_t ends[2], lk_err *err)
{
    const lk_page_meta *meta = rows->page->meta;
    uint8_t             bytes[16];
    uint64_t            width = meta->rows == UINT64_MAX ? 0 : meta->buffers[1].size / (meta->rows + 1);
    if ((width != 1 && width != 2 && width != 4 && width != 8) || row >= meta->rows) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "row positions of an odd width");
    }
    const lk_store_range range = {meta->buffers[1].offset + row * width, (size_t)width * 2, bytes};
    lk_rc                rc = lk_file_bytes(rows->file, &range, 1, err);
    if (rc == LK_OK) {
        ends[0] = little(bytes, (size_t)width);
        ends[1] = little(bytes + width, (size_t)width);
        if (ends[0] > ends[1] || ends[1] > meta->buffers[0].size) {
            rc = lk_fail(err, LK_E_CORRUPT_FILE, "row positions lie outside of it");
        }
    }
    return rc;
}

static lk_rc find_value(const lk_page_rows *rows, lk_value_place *out, lk_err *err)
{
    const lk_page_layout *layout = &rows->page->layout;
    unsigned              bits = layout->bits_rep + layout->bits_def;
    size_t                control = bits == 0 ? 0 : bits <= 8 ? 1 : bits <= 16 ? 2 : 4;
    size_t                width = layout->bits_per_offset / 8, head = control + width;
    uint8_t               bytes[HEAD_BYTES_MAX] = {0};
    uint64_t              ends[2] = {0};
    lk_rc                 rc = find_row(rows, rows->ranges[0].start, ends, err);
    if (rc != LK_OK) {
        return rc;
    }
    uint64_t entry = ends[1] - ends[0];
    if (entry < control || head > sizeof bytes) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a row is too short");
    }
    const lk_store_range range = {
        rows->page->meta->buffers[0].offset + ends[0], entry < head ? (size_t)entry : head, bytes};
    rc = lk_file_bytes(rows->file, &range, 1, err);
    if (rc != LK_OK) {
        return rc;
    }
    out->null = control > 0 && little(bytes, control) != 0;
    if (out->null) {
        return LK_OK;
    }
    out->size = entry < head ? UINT64_MAX : little(bytes + control, width);
    if (entry < head || out->size != entry - head) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a value is not as long as its row");
    }
    out->plain = true;
    out->offset = range.offset + head;
    out->file = lk_file_reader_ref(rows->file);
    return LK_OK;
}

static lk_rc visit(void *context, lk_page_rows *rows, lk_err *err)
{
    lk_value_place       *out = context;
    const lk_page_layout *layout = &rows->page->layout;
    if (lk_file_is_v20(rows->file) || layout->is_blob || lk_has_lists(layout)) {
        return LK_OK;
    }
    if (layout->kind == LK_PAGE_CONSTANT && !layout->has_inline_value) {
        out->null = rows->page->meta->buffer_count == 0; /* of rows that are all null */
        return LK_OK;
    }
    bool plain = layout->kind == LK_PAGE_FULLZIP && layout->bits_per_offset > 0 && layout->values != NULL &&
                 layout->values->kind == LK_ENCODING_VARIABLE && rows->page->packed == NULL;
    return plain ? find_value(rows, out, err) : LK_OK;
}

static bool find_fragment(const lk_manifest *manifest, uint64_t address, size_t *out)
{
    for (*out = 0; *out < manifest->fragment_count; ++*out) {
        const lk_fragment *fragment = &manifest->fragments[*out];
        if (fragment->id == address >> 32) {
            return (address & UINT32_MAX) < fragment->physical_rows;
        }
    }
    return false;
}

lk_rc lk_value_place_find(
    lk_dataset *dataset, uint64_t address, size_t column, lk_value_place *out, lk_err *err)
{
    const lk_manifest *manifest = dataset->manifest;
    const lk_row_range range = {address & UINT32_MAX, 1};
    lk_row_range       local;
    lk_decoder decoder = {.ranges = &range, .range_count = 1, .rows = 1, .rows_each = 1, .local = &local};
    lk_arena   arena = {0};
    lk_field_source source = {0};
    size_t          fragment = 0;
    *out = (lk_value_place){0};
    if (!find_fragment(manifest, address, &fragment)) {
        return lk_fail(err, LK_E_INVALID_REQUEST, "no row has the address %llu", (unsigned long long)address);
    }
    lk_buffer_pool *own = dataset->env.buffers == NULL ? lk_buffer_pool_new(dataset->env.budget) : NULL;
    decoder.scratch.pool = own != NULL ? own : dataset->env.buffers;
    lk_rc rc = lk_dataset_source(dataset, fragment, manifest->schema->top[column],
        lk_dataset_schema(dataset)->children[column], &arena, &source, err);
    if (rc == LK_OK && source.file == NULL) {
        out->null = true;
    } else if (rc == LK_OK) {
        rc = lk_decode_each_page(&decoder, &source, visit, out, err);
    }
    if (rc != LK_OK) {
        lk_value_place_deinit(out);
    }
    lk_scratch_deinit(&decoder.scratch);
    lk_buffer_pool_close(own);
    lk_dataset_source_close(&source);
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_value_place_read(const lk_value_place *place, uint64_t offset, void *out, size_t size, lk_err *err)
{
    const lk_store_range range = {place->offset + offset, size, out};
    LK_ASSERT(place->plain && offset <= place->size && size <= place->size - offset);
    return size == 0 ? LK_OK : lk_file_bytes(place->file, &range, 1, err);
}

void lk_value_place_deinit(lk_value_place *place)
{
    lk_file_reader_unref(place->file);
    *place = (lk_value_place){0};
}
