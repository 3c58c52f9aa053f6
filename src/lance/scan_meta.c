/*
 * scan_meta.c - the columns that a version knows of its rows without reading them: _rowid, _rowaddr, _rowoffset and the
 * versions that made and changed them.
 */
#include "arrow/schema.h"
#include "lance/column.h"
#include "lance/row_ids.h"
#include "lance/scan_priv.h"

static const struct meta {
    lk_meta_column column;
    const char    *name;
} metas[] = {
    {LK_META_ROW_ID, "_rowid"},
    {LK_META_ROW_ADDRESS, "_rowaddr"},
    {LK_META_ROW_OFFSET, "_rowoffset"},
    {LK_META_CREATED_AT, "_row_created_at_version"},
    {LK_META_UPDATED_AT, "_row_last_updated_at_version"},
};

enum { META_COUNT = sizeof metas / sizeof metas[0] };

unsigned lk_meta_column_find(lk_bytes name)
{
    for (size_t i = 0; i < META_COUNT; i++) {
        if (lk_bytes_equal(name, lk_bytes_of(metas[i].name))) {
            return metas[i].column;
        }
    }
    return 0;
}

size_t lk_meta_count(unsigned meta)
{
    return (size_t)__builtin_popcount(meta);
}

lk_rc lk_meta_schema(unsigned meta, struct ArrowSchema **children, lk_err *err)
{
    lk_arena arena = {0};
    lk_rc    rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < META_COUNT; i++) {
        if ((meta & metas[i].column) != 0) {
            rc = lk_column_parse(lk_arena_format(&arena, "%s:uint64", metas[i].name), *children++, err);
        }
    }
    lk_arena_close(&arena);
    return rc;
}

void lk_meta_prepare(lk_morsel_scan *scan)
{
    const lk_manifest *manifest = scan->dataset->manifest;
    uint64_t           before = 0;
    if ((scan->meta & LK_META_ROW_OFFSET) == 0) {
        return;
    }
    uint64_t *live_before = lk_arena_take(&scan->arena, (manifest->fragment_count + 1) * sizeof *live_before);
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        live_before[i] = before;
        before += manifest->fragments[i].physical_rows - manifest->fragments[i].deletion.count;
    }
    scan->live_before = live_before;
}

/* The row offsets of the rows that are kept. */
static void kept_offsets(const lk_kept_rows *rows, uint64_t *out)
{
    uint64_t at = 0, kept = 0;
    for (size_t index = 0; index < rows->range_count; index++) {
        const lk_row_range *range = &rows->ranges[index];
        for (uint64_t row = 0; row < range->count; row++, at++) {
            if (rows->selection == NULL || rows->selection[at] != 0) {
                out[kept++] = range->start + row;
            }
        }
    }
    LK_ASSERT(kept == rows->count);
}

/* How many of the rows from `at` on follow one on the other. */
static uint64_t row_length(const uint64_t *rows, uint64_t at, uint64_t count)
{
    uint64_t length = 1;
    while (at + length < count && rows[at + length] == rows[at] + length) {
        length++;
    }
    return length;
}

/* All of these replace row offsets by what the column says of the rows. */
static lk_rc put_ids(lk_morsel_scan *scan, size_t fragment, uint64_t *rows, uint64_t count, lk_err *err)
{
    const lk_row_ids *ids = NULL;
    lk_rc             rc = lk_dataset_row_ids(scan->dataset, fragment, &ids, err);
    for (uint64_t at = 0, some = 0; rc == LK_OK && at < count; at += some) {
        some = row_length(rows, at, count);
        lk_row_ids_read(ids, rows[at], some, rows + at);
    }
    return rc;
}

static lk_rc put_versions(lk_morsel_scan *scan, size_t fragment, lk_row_version_kind kind, uint64_t *rows,
    uint64_t count, lk_err *err)
{
    const lk_row_versions *versions = NULL;
    lk_rc                  rc = lk_dataset_row_versions(scan->dataset, fragment, kind, &versions, err);
    for (uint64_t at = 0, some = 0; rc == LK_OK && at < count; at += some) {
        some = row_length(rows, at, count);
        lk_row_versions_read(versions, rows[at], some, rows + at);
    }
    return rc;
}

static lk_rc put_positions(lk_morsel_scan *scan, size_t fragment, uint64_t *rows, uint64_t count, lk_err *err)
{
    const lk_deletion *deletion = NULL;
    lk_rc              rc = lk_dataset_deletion(scan->dataset, fragment, &deletion, err);
    uint64_t           done = 0, deleted = 0; /* deleted rows before row `done` */
    for (uint64_t at = 0; rc == LK_OK && at < count; at++) {
        deleted += lk_deletion_count_range(deletion, done, rows[at] - done);
        done = rows[at];
        rows[at] = scan->live_before[fragment] + done - deleted;
    }
    return rc;
}

static void add(uint64_t *rows, uint64_t count, uint64_t base)
{
    for (uint64_t at = 0; at < count; at++) {
        rows[at] |= base;
    }
}

static void fill(uint64_t *rows, uint64_t count, uint64_t value)
{
    for (uint64_t at = 0; at < count; at++) {
        rows[at] = value;
    }
}

static lk_rc put_column(
    lk_morsel_scan *scan, lk_meta_column column, size_t fragment, uint64_t *rows, uint64_t count, lk_err *err)
{
    uint64_t base = scan->dataset->manifest->fragments[fragment].id << 32;
    bool     stable = lk_dataset_has_stable_row_ids(scan->dataset);
    if (column == LK_META_ROW_OFFSET) {
        return put_positions(scan, fragment, rows, count, err);
    }
    if (column == LK_META_ROW_ADDRESS || (column == LK_META_ROW_ID && !stable)) {
        add(rows, count, base);
        return LK_OK;
    }
    if (column == LK_META_ROW_ID) {
        return put_ids(scan, fragment, rows, count, err);
    }
    if (!stable) {
        fill(rows, count, 1);
        return LK_OK;
    }
    lk_row_version_kind kind = column == LK_META_CREATED_AT ? LK_ROW_CREATED_AT : LK_ROW_UPDATED_AT;
    return put_versions(scan, fragment, kind, rows, count, err);
}

lk_rc lk_meta_columns(
    lk_morsel_scan *scan, const lk_kept_rows *rows, struct ArrowArray **children, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < META_COUNT; i++) {
        lk_buffer buffers[2] = {0};
        if ((scan->meta & metas[i].column) == 0) {
            continue;
        }
        rc = lk_buffer_take(scan->pool, rows->count * 8 + 8, &buffers[1], err);
        if (rc == LK_OK) {
            uint64_t *values = (uint64_t *)(void *)buffers[1].data;
            kept_offsets(rows, values);
            rc = put_column(scan, metas[i].column, rows->fragment, values, rows->count, err);
            lk_column_node(*children++, rows->count, 0, buffers, 2, 0);
        }
    }
    return rc;
}
