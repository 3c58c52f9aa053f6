/*
 * file_read.c - see file_read.h: footer, tables, columns and pages of a file; decoding is decode.c.
 *
 *   pages .. global buffers .. column metadata .. (position, size) of each column's metadata ..
 *   (position, size) of each global buffer .. footer: u64 metadata, u64 column table, u64 global table,
 *   u32 globals, u32 columns, u16 major, u16 minor, "LANC"
 */
#include "lance/file_priv.h"
#include "lance/pb_file.h"

#include <stdlib.h>

enum { FOOTER_BYTES = 40, TABLE_ENTRY_BYTES = 16 };

static lk_rc damaged(const lk_file_reader *file, const char *what, lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: %s", LK_FMT(file->key), what);
}

/* -- memory that is kept ----------------------------------------------------------------------------- */
static lk_rc charge(lk_file_reader *file, size_t size, size_t *charged, lk_err *err)
{
    lk_rc rc = file->budget == NULL ? LK_OK : lk_budget_take(file->budget, size, err);
    if (rc == LK_OK) {
        *charged += size;
    }
    return rc;
}

static void discharge(lk_file_reader *file, size_t charged)
{
    if (file->budget != NULL && charged > 0) {
        lk_budget_give(file->budget, charged);
    }
}

/* -- bytes ----------------------------------------------------------------------------------------- */
static bool inside(const lk_file_reader *file, uint64_t offset, uint64_t size)
{
    return offset <= file->size && size <= file->size - offset;
}

lk_rc lk_file_bytes(lk_file_reader *file, const lk_store_range *ranges, size_t count, lk_err *err)
{
    bool kept = true;
    for (size_t range = 0; range < count; range++) {
        if (!inside(file, ranges[range].offset, ranges[range].size)) {
            return damaged(file, "a page lies outside the file", err);
        }
        kept = kept && ranges[range].offset >= file->window_start;
    }
    if (!kept && file->object->store->far && lk_file_ahead_serve(file, ranges, count)) {
        return LK_OK;
    }
    if (!kept) {
        lk_rc rc = lk_store_read(file->object, ranges, count, err);
        if (rc != LK_OK) {
            lk_context(err, "read %.*s", LK_FMT(file->key));
        }
        return rc;
    }
    for (size_t range = 0; range < count; range++) {
        memcpy(ranges[range].out, file->window + (ranges[range].offset - file->window_start),
            ranges[range].size);
    }
    return LK_OK;
}

/* A view of bytes that the window must hold. */
static bool window_view(const lk_file_reader *file, uint64_t offset, uint64_t size, lk_bytes *out)
{
    if (offset < file->window_start || !inside(file, offset, size)) {
        return false;
    }
    *out = (lk_bytes){(const char *)file->window + (offset - file->window_start), (size_t)size};
    return true;
}

/* -- open ------------------------------------------------------------------------------------------ */
/* Makes the window begin at `start`. */
static lk_rc load_window(lk_file_reader *file, uint64_t start, lk_err *err)
{
    size_t old = file->charged, size = (size_t)(file->size - start);
    if (size > LK_FILE_METADATA_BYTES_MAX) {
        return damaged(file, "its metadata is larger than 256 MiB", err);
    }
    lk_rc rc = charge(file, size, &file->charged, err);
    if (rc != LK_OK) {
        return rc;
    }
    uint8_t *bytes = malloc(size + 1);
    if (bytes == NULL) {
        return lk_fail(err, LK_E_LIMIT, "no memory for %zu bytes", size);
    }
    size_t         have = file->window == NULL ? 0 : (size_t)(file->size - file->window_start);
    lk_store_range range = {start, size, bytes};
    if (size <= have) {
        memcpy(bytes, file->window + (have - size), size);
    } else {
        rc = lk_store_read(file->object, &range, 1, err);
    }
    if (rc != LK_OK) {
        free(bytes);
        return rc;
    }
    free(file->window);
    discharge(file, old);
    file->charged -= old;
    file->window = bytes;
    file->window_start = start;
    return LK_OK;
}

static lk_rc check_version(const lk_file_reader *file, lk_err *err)
{
    bool known = (file->major == 2 && file->minor <= 2) || (file->major == 0 && file->minor == 3);
    if (known) {
        return LK_OK;
    }
    lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "%.*s: file version %u.%u", LK_FMT(file->key),
        file->major, file->minor);
    lk_detail(err, "Lance data files of version %u.%u", file->major, file->minor);
    return rc;
}

/* Reads the footer; *start: where the metadata begins that must be in the window. */
static lk_rc read_footer(lk_file_reader *file, uint64_t *start, lk_err *err)
{
    const uint8_t *footer = file->window + (file->size - file->window_start - FOOTER_BYTES);
    if (memcmp(footer + 36, "LANC", 4) != 0) {
        return damaged(file, "it does not end like a Lance file", err);
    }
    *start = lk_load_u64(footer);
    file->column_table = lk_load_u64(footer + 8);
    file->global_table = lk_load_u64(footer + 16);
    file->global_count = lk_load_u32(footer + 24);
    file->column_count = lk_load_u32(footer + 28);
    file->major = lk_load_u16(footer + 32);
    file->minor = lk_load_u16(footer + 34);
    lk_rc rc = check_version(file, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (!inside(file, file->column_table, (uint64_t)file->column_count * TABLE_ENTRY_BYTES) ||
        !inside(file, file->global_table, (uint64_t)file->global_count * TABLE_ENTRY_BYTES)) {
        return damaged(file, "its tables lie outside of it", err);
    }
    *start = *start < file->column_table ? *start : file->column_table;
    *start = *start < file->global_table ? *start : file->global_table;
    return LK_OK;
}

/* Position and size of a column's metadata or of a global buffer. */
static lk_rc table_entry(
    const lk_file_reader *file, uint64_t table, size_t index, uint64_t *offset, uint64_t *size, lk_err *err)
{
    lk_bytes entry;
    if (!window_view(file, table + index * TABLE_ENTRY_BYTES, TABLE_ENTRY_BYTES, &entry)) {
        return damaged(file, "its tables lie outside of it", err);
    }
    *offset = lk_load_u64(entry.data);
    *size = lk_load_u64(entry.data + 8);
    return inside(file, *offset, *size) ? LK_OK : damaged(file, "a table entry points outside of it", err);
}

/* A global buffer, in the arena (charged to the file). */
static lk_rc global_buffer(lk_file_reader *file, size_t index, lk_arena *arena, lk_bytes *out, lk_err *err)
{
    uint64_t offset = 0, size = 0;
    lk_rc    rc = table_entry(file, file->global_table, index, &offset, &size, err);
    if (rc == LK_OK && size > LK_FILE_METADATA_BYTES_MAX) {
        rc = damaged(file, "a global buffer is too large", err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    char          *bytes = lk_arena_take(arena, (size_t)size + 1);
    lk_store_range range = {offset, (size_t)size, bytes};
    *out = (lk_bytes){bytes, (size_t)size};
    return lk_file_bytes(file, &range, 1, err);
}

static lk_rc read_descriptor(lk_file_reader *file, lk_err *err)
{
    lk_bytes message = {0};
    if (file->global_count == 0) {
        return damaged(file, "it has no descriptor", err);
    }
    uint64_t offset = 0, size = 0;
    lk_rc    rc = table_entry(file, file->global_table, 0, &offset, &size, err);
    if (rc == LK_OK) {
        rc = charge(file, (size_t)size, &file->charged, err);
    }
    if (rc == LK_OK) {
        rc = global_buffer(file, 0, &file->arena, &message, err);
    }
    if (rc == LK_OK) {
        rc = lk_pb_descriptor(message, &file->arena, &file->schema, &file->rows, err);
    }
    return rc;
}

static lk_rc read_tail(lk_file_reader *file, uint64_t size_bytes, lk_err *err)
{
    uint64_t start = 0;
    if (size_bytes != 0 && size_bytes != file->size) {
        return damaged(file, "its size is not what the manifest says", err);
    }
    if (file->size < FOOTER_BYTES) {
        return damaged(file, "it is shorter than a footer", err);
    }
    lk_rc rc = load_window(file, file->size > LK_FILE_TAIL_BYTES ? file->size - LK_FILE_TAIL_BYTES : 0, err);
    if (rc == LK_OK) {
        rc = read_footer(file, &start, err);
    }
    if (rc == LK_OK && file->window_start > 0) {
        rc = load_window(file, start, err);
    }
    if (rc == LK_OK) {
        rc = charge(file, file->column_count * sizeof *file->columns, &file->charged, err);
    }
    if (rc == LK_OK) {
        rc = read_descriptor(file, err);
    }
    if (rc == LK_OK) {
        file->columns = calloc(file->column_count + 1, sizeof *file->columns);
        LK_ASSERT(file->columns != NULL);
    }
    return rc;
}

lk_rc lk_file_reader_open(
    lk_store *store, lk_bytes key, uint64_t size_bytes, lk_budget *budget, lk_file_reader **out, lk_err *err)
{
    lk_file_reader *file = calloc(1, sizeof *file);
    LK_ASSERT(file != NULL);
    atomic_init(&file->refs, 1);
    file->budget = budget;
    file->key = lk_arena_copy(&file->arena, key);
    lk_rc rc = lk_store_open_object(store, key, &file->object, &file->size, err);
    if (rc == LK_OK && store->far) {
        lk_mutex_init(&file->mutex, LK_RANK_LEAF);
    }
    if (rc == LK_OK) {
        rc = read_tail(file, size_bytes, err);
    }
    if (rc != LK_OK) {
        lk_context(err, "open data file %.*s", LK_FMT(key));
        lk_file_reader_unref(file);
        return rc;
    }
    *out = file;
    return LK_OK;
}

lk_file_reader *lk_file_reader_ref(lk_file_reader *file)
{
    (void)atomic_fetch_add_explicit(&file->refs, 1, memory_order_relaxed);
    return file;
}

void lk_page_free(lk_page *page)
{
    if (page != NULL) {
        free(page->chunk_starts);
        free(page->value_starts);
        free(page->row_starts);
        free(page->continues);
        lk_arena_close(&page->arena);
        free(page);
    }
}

static void free_column(lk_file_reader *file, lk_file_column_state *column)
{
    if (column == NULL) {
        return;
    }
    for (size_t index = 0; index < column->meta.page_count; index++) {
        lk_page *page = atomic_load_explicit(&column->pages[index], memory_order_relaxed);
        if (page != NULL) {
            discharge(file, page->charged);
        }
        lk_page_free(page);
    }
    discharge(file, column->charged);
    lk_arena_close(&column->arena);
    free(column);
}

void lk_file_reader_unref(lk_file_reader *file)
{
    if (file == NULL || atomic_fetch_sub_explicit(&file->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t column = 0; file->columns != NULL && column < file->column_count; column++) {
        free_column(file, atomic_load_explicit(&file->columns[column], memory_order_relaxed));
    }
    lk_stats_unref(atomic_load_explicit(&file->stats, memory_order_relaxed));
    discharge(file, file->charged);
    if (file->mutex.body != NULL) {
        lk_mutex_deinit(&file->mutex);
    }
    lk_store_reader_close(file->object);
    lk_arena_close(&file->arena);
    free(file->columns);
    free(file->window);
    free(file);
}

uint64_t lk_file_reader_rows(const lk_file_reader *file)
{
    return file->rows;
}
unsigned lk_file_reader_major(const lk_file_reader *file)
{
    return file->major;
}
unsigned lk_file_reader_minor(const lk_file_reader *file)
{
    return file->minor;
}
size_t lk_file_reader_column_count(const lk_file_reader *file)
{
    return file->column_count;
}
lk_bytes lk_file_reader_key(const lk_file_reader *file)
{
    return file->key;
}
lk_bytes lk_file_reader_schema_bytes(const lk_file_reader *file)
{
    return file->schema;
}

size_t lk_file_reader_bytes(lk_file_reader *file)
{
    size_t bytes = sizeof *file + file->charged;
    for (size_t index = 0; index < file->column_count; index++) {
        lk_file_column_state *column = atomic_load_explicit(&file->columns[index], memory_order_acquire);
        for (size_t page = 0; column != NULL && page < column->meta.page_count; page++) {
            lk_page *loaded = atomic_load_explicit(&column->pages[page], memory_order_acquire);
            bytes += loaded == NULL ? 0 : loaded->charged;
        }
        bytes += column == NULL ? 0 : column->charged;
    }
    return bytes;
}

/* -- columns --------------------------------------------------------------------------------------- */
/* The rows of a column: the file's, or items of fixed-size lists of structs. Items of a 2.0 file are a column too. */
static bool fits(const lk_file_reader *file, uint64_t rows)
{
    return rows == file->rows || lk_file_is_v20(file) ||
           (file->minor >= 2 && file->rows > 0 && rows % file->rows == 0);
}

bool lk_file_has_rows(const lk_file_reader *file, const lk_file_column_state *column, uint64_t rows_each)
{
    uint64_t rows = 0;
    return lk_file_is_v20(file) ||
           (!__builtin_mul_overflow(file->rows, rows_each, &rows) && column->meta.rows == rows);
}

static lk_rc parse_column(lk_file_reader *file, size_t index, lk_file_column_state **out, lk_err *err)
{
    uint64_t       offset = 0, size = 0;
    lk_bytes       message = {0};
    lk_arena       arena = {0};
    lk_column_meta meta = {0};
    size_t         charged = 0;
    lk_rc          rc = table_entry(file, file->column_table, index, &offset, &size, err);
    if (rc == LK_OK && !window_view(file, offset, size, &message)) {
        rc = damaged(file, "column metadata lies outside of its place", err);
    }
    if (rc == LK_OK) {
        rc = lk_pb_column_meta(message, &arena, &meta, err);
    }
    if (rc == LK_OK && !fits(file, meta.rows)) {
        rc = damaged(file, "a column has another number of rows than the file", err);
    }
    if (rc == LK_OK) {
        rc = charge(file, arena.used_bytes + meta.page_count * sizeof(void *), &charged, err);
    }
    if (rc != LK_OK) {
        lk_context(err, "column %zu of %.*s", index, LK_FMT(file->key));
        lk_arena_close(&arena);
        return rc;
    }
    lk_file_column_state *column = calloc(1, sizeof *column + meta.page_count * sizeof column->pages[0]);
    LK_ASSERT(column != NULL);
    column->arena = arena;
    column->meta = meta;
    column->charged = charged;
    *out = column;
    return LK_OK;
}

lk_rc lk_file_column(lk_file_reader *file, size_t index, lk_file_column_state **out, lk_err *err)
{
    if (index >= file->column_count) {
        return damaged(file, "the manifest names a column that it does not have", err);
    }
    *out = atomic_load_explicit(&file->columns[index], memory_order_acquire);
    if (*out != NULL) {
        return LK_OK;
    }
    lk_file_column_state *mine = NULL, *theirs = NULL;
    lk_rc                 rc = parse_column(file, index, &mine, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (atomic_compare_exchange_strong_explicit(
            &file->columns[index], &theirs, mine, memory_order_acq_rel, memory_order_acquire)) {
        *out = mine;
    } else {
        free_column(file, mine);
        *out = theirs;
    }
    return LK_OK;
}

static bool column_bytes(const lk_file_reader *file, size_t index, lk_bytes *out)
{
    uint64_t offset = 0, size = 0;
    lk_err   ignored = {0};
    return index < file->column_count &&
           table_entry(file, file->column_table, index, &offset, &size, &ignored) == LK_OK &&
           window_view(file, offset, size, out);
}

bool lk_file_same_column(lk_file_reader *known, const lk_file_reader *file, size_t index)
{
    lk_file_column_state *column = NULL;
    lk_err                ignored = {0};
    lk_bytes              a = {0}, b = {0};
    bool same = file->rows == known->rows && file->minor == known->minor && column_bytes(known, index, &a) &&
                column_bytes(file, index, &b) && lk_bytes_equal(a, b) &&
                lk_file_column(known, index, &column, &ignored) == LK_OK;
    for (size_t page = 0; same && page < column->meta.page_count; page++) {
        const lk_page_meta *meta = &column->meta.pages[page];
        for (size_t i = 0; same && i < meta->buffer_count; i++) {
            same = window_view(known, meta->buffers[i].offset, meta->buffers[i].size, &a) &&
                   window_view(file, meta->buffers[i].offset, meta->buffers[i].size, &b) &&
                   lk_bytes_equal(a, b);
        }
    }
    return same;
}

/* -- pages ----------------------------------------------------------------------------------------- */
static lk_rc load_page(
    lk_file_reader *file, const lk_page_meta *meta, lk_scratch *scratch, lk_page **out, lk_err *err)
{
    lk_page *page = calloc(1, sizeof *page);
    LK_ASSERT(page != NULL);
    page->meta = meta;
    bool  v20 = lk_file_is_v20(file);
    lk_rc rc =
        v20 ? lk_v20_load(page, err) : lk_pb_page_layout(meta->encoding, &page->arena, &page->layout, err);
    for (size_t buffer = 0; rc == LK_OK && buffer < meta->buffer_count; buffer++) {
        if (!inside(file, meta->buffers[buffer].offset, meta->buffers[buffer].size)) {
            rc = damaged(file, "a page lies outside the file", err);
        }
    }
    if (rc == LK_OK && page->layout.kind == LK_PAGE_MINIBLOCK) {
        rc = lk_miniblock_load(file, page, scratch, err);
    }
    if (rc == LK_OK && page->layout.kind == LK_PAGE_FULLZIP) {
        rc = lk_fullzip_load(page, err);
    }
    if (rc == LK_OK) {
        size_t tables = (page->row_starts != NULL ? 4 : 2) * (page->chunk_count + 1) * sizeof(uint32_t);
        rc = charge(file, sizeof *page + page->arena.used_bytes + tables, &page->charged, err);
    }
    if (rc != LK_OK) {
        lk_page_free(page);
        return rc;
    }
    *out = page;
    return LK_OK;
}

lk_rc lk_file_page(lk_file_reader *file, lk_file_column_state *column, size_t index, lk_scratch *scratch,
    const lk_page **out, lk_err *err)
{
    lk_page *page = atomic_load_explicit(&column->pages[index], memory_order_acquire);
    if (page != NULL) {
        *out = page;
        return LK_OK;
    }
    lk_page *theirs = NULL;
    lk_rc    rc = load_page(file, &column->meta.pages[index], scratch, &page, err);
    if (rc != LK_OK) {
        lk_context(err, "page %zu of %.*s", index, LK_FMT(file->key));
        return rc;
    }
    if (!atomic_compare_exchange_strong_explicit(
            &column->pages[index], &theirs, page, memory_order_acq_rel, memory_order_acquire)) {
        discharge(file, page->charged);
        lk_page_free(page);
        page = theirs;
    }
    *out = page;
    return LK_OK;
}

/* -- statistics ------------------------------------------------------------------------------------ */
static lk_stats *load_stats(lk_file_reader *file)
{
    lk_stats *stats = NULL;
    lk_bytes  buffer = {0};
    lk_arena  arena = {0};
    lk_err    ignored = {0}; /* statistics that cannot be read are statistics that are not there */
    uint64_t  offset = 0, size = 0;
    if (file->global_count < 2 ||
        table_entry(file, file->global_table, 1, &offset, &size, &ignored) != LK_OK ||
        size > LK_FILE_TAIL_BYTES * 64 || global_buffer(file, 1, &arena, &buffer, &ignored) != LK_OK ||
        lk_stats_parse(buffer, &stats, &ignored) != LK_OK) {
        stats = lk_stats_none();
    }
    lk_arena_close(&arena);
    return stats;
}

lk_stats *lk_file_stats(lk_file_reader *file)
{
    lk_stats *stats = atomic_load_explicit(&file->stats, memory_order_acquire);
    if (stats != NULL) {
        return stats;
    }
    lk_stats *theirs = NULL, *mine = load_stats(file);
    if (atomic_compare_exchange_strong_explicit(
            &file->stats, &theirs, mine, memory_order_acq_rel, memory_order_acquire)) {
        return mine;
    }
    lk_stats_unref(mine);
    return theirs;
}
