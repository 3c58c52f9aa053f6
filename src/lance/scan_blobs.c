/*
 * scan_blobs.c - morsels of a scan that hands out bytes of blobs: cut by what these take, which only the descriptors
 * say.
 */
#include "lance/blob.h"
#include "lance/decode_priv.h"
#include "lance/scan_priv.h"

#include <stdlib.h>

enum {
    BLOB_MORSEL_BYTES = 16 * 1024 * 1024,
    UNKNOWN_BYTES = 1024 * 1024 /* of an external blob that does not say its size */
};

static void add_bytes(const struct ArrowSchema *table, const struct ArrowArray *array, uint64_t *bytes);

/* Where the items of a list, or of a fixed-size list, begin. */
static uint64_t items_before(const struct ArrowSchema *table, const struct ArrowArray *array, int64_t row)
{
    size_t   width = table->format[1] == 'L' ? 8 : 4;
    uint64_t at = 0;
    if (!lk_is_list(table)) {
        return (uint64_t)row *
               (uint64_t)(array->length == 0 ? 0 : array->children[0]->length / array->length);
    }
    memcpy(&at, (const uint8_t *)array->buffers[1] + (size_t)row * width, width);
    return at;
}

static void add_items(const struct ArrowSchema *table, const struct ArrowArray *array, uint64_t *bytes)
{
    const struct ArrowArray *items = array->children[0];
    uint64_t                *inner = calloc((size_t)items->length + 1, sizeof *inner);
    LK_ASSERT(inner != NULL);
    add_bytes(table->children[0], items, inner);
    for (int64_t row = 0; row < array->length; row++) {
        uint64_t end = items_before(table, array, row + 1);
        for (uint64_t at = items_before(table, array, row); at < end; at++) {
            bytes[row] += inner[at];
        }
    }
    free(inner);
}

/* Adds what the blobs of each row take; `array` is the column seen as descriptors. */
static void add_bytes(const struct ArrowSchema *table, const struct ArrowArray *array, uint64_t *bytes)
{
    if (lk_is_blob(table)) {
        for (int64_t row = 0; row < array->length; row++) {
            lk_blob_descriptor found;
            if (lk_blob_descriptor_at(array, row, &found)) {
                bytes[row] += found.kind == LK_BLOB_EXTERNAL && found.size == 0 ? UNKNOWN_BYTES : found.size;
            }
        }
        return;
    }
    if (lk_is_list(table) || lk_is_vector(table)) {
        add_items(table, array, bytes);
        return;
    }
    for (int64_t child = 0; child < table->n_children; child++) {
        if (lk_schema_has_blob(table->children[child])) {
            add_bytes(table->children[child], array->children[child], bytes);
        }
    }
}

/* The bytes of each row of a morsel, in the columns that are handed out. */
static lk_rc count_bytes(lk_morsel_scan *scan, const lk_morsel *morsel, uint64_t *bytes, lk_err *err)
{
    const struct ArrowSchema *table = lk_dataset_schema(scan->dataset);
    lk_rc                     rc = LK_OK;
    memset(bytes, 0, morsel->rows * sizeof *bytes);
    for (size_t index = 0; rc == LK_OK && index < scan->column_count; index++) {
        const struct ArrowSchema *field = table->children[scan->columns[index]];
        struct ArrowArray         array = {0};
        if (lk_schema_has_blob(field)) {
            rc = lk_morsel_decode(scan, morsel->fragment, scan->columns[index], scan->plain,
                scan->ranges + morsel->first_range, morsel->range_count, &array, err);
            if (rc == LK_OK) {
                add_bytes(field, &array, bytes);
            }
            lk_array_release(&array);
        }
    }
    return rc;
}

/* Plans a morsel's rows anew, a few at a time. */
static void cut(lk_plan *plan, const lk_row_range *ranges, const lk_morsel *morsel, const uint64_t *bytes)
{
    uint64_t row = 0, held = 0;
    for (size_t index = 0; index < morsel->range_count; index++) {
        const lk_row_range *range = &ranges[morsel->first_range + index];
        for (uint64_t at = 0; at < range->count; at++, row++) {
            bool fits = row > 0 && held + bytes[row] <= BLOB_MORSEL_BYTES;
            held = fits ? held + bytes[row] : bytes[row];
            lk_plan_rows(plan, morsel->fragment, range->start + at, 1, fits ? UINT64_MAX : 1);
        }
    }
}

/* The new plan grows beside the old one. */
static lk_rc plan_anew(lk_morsel_scan *scan, lk_morsel_scan *made, lk_err *err)
{
    lk_plan plan = {.scan = made};
    lk_rc   rc = LK_OK;
    for (size_t index = 0; rc == LK_OK && index < scan->morsel_count; index++) {
        uint64_t *bytes = malloc((scan->morsels[index].rows + 1) * sizeof *bytes);
        LK_ASSERT(bytes != NULL);
        rc = count_bytes(scan, &scan->morsels[index], bytes, err);
        if (rc == LK_OK) {
            cut(&plan, scan->ranges, &scan->morsels[index], bytes);
        }
        free(bytes);
    }
    return rc;
}

lk_rc lk_plan_cut_blobs(lk_morsel_scan *scan, lk_err *err)
{
    const struct ArrowSchema *table = lk_dataset_schema(scan->dataset);
    lk_morsel_scan            made = {0};
    bool                      any = false;
    for (size_t index = 0; scan->reads_blobs && index < scan->column_count; index++) {
        any = any || lk_schema_has_blob(table->children[scan->columns[index]]);
    }
    lk_rc rc = any ? plan_anew(scan, &made, err) : LK_OK;
    if (rc != LK_OK || !any) {
        free(made.morsels);
        free(made.ranges);
        return rc;
    }
    free(scan->morsels);
    free(scan->ranges);
    scan->morsels = made.morsels;
    scan->morsel_count = made.morsel_count;
    scan->ranges = made.ranges;
    scan->range_count = made.range_count;
    return LK_OK;
}
