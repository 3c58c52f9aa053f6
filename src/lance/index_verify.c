/*
 * index_verify.c - every entry of an index against the rows, and every row against the entries.
 *
 * The rows of as many fragments as fit are kept as hashes of their values; then all entries go by. An entry of a row
 * that is deleted, moved or not covered is none: such are left behind by changes and do no harm.
 */
#include "lance/index_order.h"
#include "lance/index_search.h"
#include "lance/index_source.h"
#include "lance/row_ids.h"
#include "lance/row_tree.h"

#include <stdlib.h>

enum { GROUP_ROWS = 16 * 1024 * 1024, SOME_ROWS = 4096 };

typedef struct rows { /* of a covered fragment */
    uint64_t *hashes; /* by offset; NULL: not in the group */
    uint8_t  *state;  /* by offset: DEAD, or how many entries were seen */
} rows;

enum { DEAD = 255, SEEN_MAX = 254 };

typedef struct verifying {
    lk_dataset               *dataset;
    const lk_index           *index;
    lk_cancel                *cancel;
    lk_buffer_pool           *pool;
    lk_arena                  arena;
    const lk_fragment_number *numbers;
    size_t                    field;
    lk_type                   type;
    rows                     *rows; /* by number of the fragment */
    bool                      first_pass;
    lk_index_damage          *out;
} verifying;

/* -- rows ------------------------------------------------------------------------------------------------ */
static rows *rows_at(const verifying *v, uint64_t address)
{
    size_t number = lk_fragment_number_of(v->numbers, v->dataset->manifest->fragment_count, address >> 32);
    return number == SIZE_MAX || v->rows[number].hashes == NULL ? NULL : &v->rows[number];
}

static lk_rc keep_hashes(void *context, struct ArrowArray *values, struct ArrowArray *ids, lk_err *err)
{
    const verifying *v = context;
    const uint64_t  *addresses = (const uint64_t *)ids->buffers[1] + ids->offset;
    (void)err;
    for (int64_t i = 0; i < ids->length; i++) {
        rows    *of = rows_at(v, addresses[i]);
        uint64_t row = addresses[i] & UINT32_MAX;
        of->hashes[row] = lk_index_hash(&v->type, values, i);
        of->state[row] = 0;
    }
    return LK_OK;
}

static void drop_rows(verifying *v, size_t fragment)
{
    size_t count = (size_t)v->dataset->manifest->fragments[fragment].physical_rows;
    if (v->rows[fragment].hashes != NULL && v->dataset->env.budget != NULL) {
        lk_budget_give(v->dataset->env.budget, count * 9 + 1);
    }
    free(v->rows[fragment].hashes);
    free(v->rows[fragment].state);
    v->rows[fragment] = (rows){0};
}

static lk_rc load_rows(verifying *v, size_t fragment, lk_err *err)
{
    size_t          count = (size_t)v->dataset->manifest->fragments[fragment].physical_rows;
    lk_index_source source = {v->dataset, v->field, v->cancel, v->pool};
    lk_rc           rc =
        v->dataset->env.budget == NULL ? LK_OK : lk_budget_take(v->dataset->env.budget, count * 9 + 1, err);
    if (rc != LK_OK) {
        return rc;
    }
    v->rows[fragment].hashes = malloc((count + 1) * sizeof(uint64_t));
    v->rows[fragment].state = malloc(count + 1);
    LK_ASSERT(v->rows[fragment].hashes != NULL && v->rows[fragment].state != NULL);
    memset(v->rows[fragment].state, DEAD, count);
    return lk_index_source_read(&source, fragment, keep_hashes, v, err);
}

static void count_missing(verifying *v, size_t fragment)
{
    uint64_t count = v->dataset->manifest->fragments[fragment].physical_rows;
    for (uint64_t row = 0; row < count; row++) {
        v->out->missing += v->rows[fragment].state[row] == 0;
    }
}

/* -- entries --------------------------------------------------------------------------------------------- */
static void check_entry(const verifying *v, uint64_t address, uint64_t hash)
{
    rows    *of = address == LK_ROW_ID_NONE ? NULL : rows_at(v, address);
    uint64_t row = address & UINT32_MAX;
    if (of == NULL) {
        return;
    }
    size_t number = (size_t)(of - v->rows);
    if (row >= v->dataset->manifest->fragments[number].physical_rows) {
        v->out->extra++;
    } else if (of->state[row] != DEAD) {
        v->out->extra += of->state[row] > 0;
        v->out->wrong += of->hashes[row] != hash;
        of->state[row] = (uint8_t)(of->state[row] < SEEN_MAX ? of->state[row] + 1 : SEEN_MAX);
    }
}

/* SOME_ROWS at most. hashes NULL: `hash` for all. */
static lk_rc check_entries(
    const verifying *v, const uint64_t *ids, const uint64_t *hashes, uint64_t hash, size_t count, lk_err *err)
{
    uint64_t addresses[SOME_ROWS];
    lk_rc    rc = LK_OK;
    v->out->entries += v->first_pass ? count : 0;
    if (!v->index->addresses && lk_dataset_has_stable_row_ids(v->dataset)) {
        rc = lk_dataset_find_rows(v->dataset, ids, count, addresses, err);
        ids = addresses;
    }
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        check_entry(v, ids[i], hashes == NULL ? hash : hashes[i]);
    }
    return rc;
}

/* -- btree ----------------------------------------------------------------------------------------------- */
typedef struct pages { /* page_lookup */
    struct ArrowArray min, max, page_idx;
    uint64_t          count, rows; /* rows of a page */
} pages;

/* Whether the page says where these values lie. */
static bool page_holds(const verifying *v, const pages *all, uint64_t first, const struct ArrowArray *values)
{
    const uint32_t *numbers = (const uint32_t *)all->page_idx.buffers[1] + all->page_idx.offset;
    for (uint64_t i = 0; i < all->count; i++) {
        if (numbers[i] * all->rows == first) {
            int64_t at = (int64_t)i, last = values->length - 1;
            return lk_index_compare(&v->type, &all->min, at, values, 0) <= 0 &&
                   lk_index_compare(&v->type, values, last, &all->max, at) <= 0;
        }
    }
    return false;
}

static lk_rc check_page(const verifying *v, const pages *all, uint64_t first, struct ArrowArray *values,
    const uint64_t *ids, lk_err *err)
{
    uint64_t hashes[SOME_ROWS];
    lk_rc    rc = lk_cancel_check(v->cancel, err);
    bool     ordered = !v->first_pass || page_holds(v, all, first, values);
    for (int64_t i = 1; v->first_pass && i < values->length; i++) {
        ordered = ordered && lk_index_compare(&v->type, values, i - 1, values, i) <= 0;
    }
    v->out->wrong += !ordered;
    for (int64_t at = 0; rc == LK_OK && at < values->length; at += SOME_ROWS) {
        size_t some = (size_t)(values->length - at < SOME_ROWS ? values->length - at : SOME_ROWS);
        for (size_t i = 0; i < some; i++) {
            hashes[i] = lk_index_hash(&v->type, values, at + (int64_t)i);
        }
        rc = check_entries(v, ids + at, hashes, 0, some, err);
    }
    return rc;
}

static lk_rc check_pages(verifying *v, const lk_index_table *data, const pages *all, lk_err *err)
{
    size_t   value_column = 0, id_column = 0;
    uint64_t total = lk_file_reader_rows(data->file);
    lk_rc    rc = lk_index_table_find(
           data, "values", v->dataset->manifest->schema->fields[v->field].arrow->format, &value_column, err);
    if (rc == LK_OK) {
        rc = lk_index_table_find(data, "ids", "L", &id_column, err);
    }
    for (uint64_t first = 0; rc == LK_OK && first < total; first += all->rows) {
        uint64_t          count = total - first < all->rows ? total - first : all->rows;
        struct ArrowArray values = {0}, ids = {0};
        rc = lk_index_table_read(data, value_column, first, count, v->pool, &values, err);
        if (rc == LK_OK) {
            rc = lk_index_table_read(data, id_column, first, count, v->pool, &ids, err);
        }
        if (rc == LK_OK) {
            rc = check_page(v, all, first, &values, (const uint64_t *)ids.buffers[1] + ids.offset, err);
        }
        lk_array_release(&values);
        lk_array_release(&ids);
    }
    return rc;
}

static lk_rc read_pages(const verifying *v, const lk_index_table *table, pages *out, lk_err *err)
{
    static const char *const names[] = {"min", "max", "page_idx"};
    struct ArrowArray       *arrays[] = {&out->min, &out->max, &out->page_idx};
    const char              *format = v->dataset->manifest->schema->fields[v->field].arrow->format;
    lk_rc                    rc = LK_OK;
    out->count = lk_file_reader_rows(table->file);
    for (size_t i = 0; rc == LK_OK && i < 3; i++) {
        size_t column = 0;
        rc = lk_index_table_find(table, names[i], i == 2 ? "I" : format, &column, err);
        if (rc == LK_OK) {
            rc = lk_index_table_read(table, column, 0, out->count, v->pool, arrays[i], err);
        }
    }
    if (rc == LK_OK && (!lk_index_table_number(table, "batch_size", &out->rows) || out->rows == 0)) {
        rc = lk_refuse(err, LK_E_UNSUPPORTED_FORMAT, "an index without a size of its pages");
    }
    return rc;
}

static lk_rc check_btree(verifying *v, lk_err *err)
{
    lk_index_table lookup = {0}, data = {0};
    pages          all = {0};
    lk_rc          rc = lk_index_table_open(v->dataset, v->index, "page_lookup.lance", &lookup, err);
    if (rc == LK_OK) {
        rc = lk_index_table_open(v->dataset, v->index, "page_data.lance", &data, err);
    }
    if (rc == LK_OK) {
        rc = read_pages(v, &lookup, &all, err);
    }
    if (rc == LK_OK) {
        rc = check_pages(v, &data, &all, err);
    }
    lk_array_release(&all.min);
    lk_array_release(&all.max);
    lk_array_release(&all.page_idx);
    lk_index_table_close(&lookup);
    lk_index_table_close(&data);
    return rc;
}

/* -- bitmap ---------------------------------------------------------------------------------------------- */
typedef struct set_of {
    verifying *verifying;
    uint64_t   hash;
} set_of;

static lk_rc check_run(void *context, uint64_t first, uint64_t count, lk_err *err)
{
    const set_of    *set = context;
    const verifying *v = set->verifying;
    uint64_t         ids[SOME_ROWS];
    lk_rc            rc = lk_cancel_check(v->cancel, err);
    if (count > UINT32_MAX) { /* all of a fragment */
        size_t number = lk_fragment_number_of(v->numbers, v->dataset->manifest->fragment_count, first >> 32);
        count = number == SIZE_MAX ? 0 : v->dataset->manifest->fragments[number].physical_rows;
    }
    while (rc == LK_OK && count > 0) {
        size_t some = count < SOME_ROWS ? (size_t)count : SOME_ROWS;
        for (size_t i = 0; i < some; i++) {
            ids[i] = first + i;
        }
        rc = check_entries(v, ids, NULL, set->hash, some, err);
        first += some;
        count -= some;
    }
    return rc;
}

static lk_rc check_sets(verifying *v, const struct ArrowArray *keys, const struct ArrowSchema *field,
    const struct ArrowArray *sets, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (int64_t row = 0; rc == LK_OK && row < keys->length; row++) {
        lk_value bytes = {0};
        set_of   set = {v, lk_index_hash(&v->type, keys, row)};
        if (!lk_value_read(field, sets, row, &bytes) || bytes.kind != LK_VALUE_BYTES) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "a value without a set of rows");
        }
        rc = lk_row_tree_read(bytes.as.bytes, check_run, &set, err);
    }
    return rc;
}

static lk_rc check_bitmap(verifying *v, lk_err *err)
{
    enum { SETS_AT_ONCE = 64 };
    lk_index_table table = {0};
    size_t         keys = 0, bitmaps = 0;
    lk_rc          rc = lk_index_table_open(v->dataset, v->index, "bitmap_page_lookup.lance", &table, err);
    if (rc == LK_OK) {
        rc = lk_index_table_find(
            &table, "keys", v->dataset->manifest->schema->fields[v->field].arrow->format, &keys, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_table_find(&table, "bitmaps", NULL, &bitmaps, err);
    }
    uint64_t total = rc == LK_OK ? lk_file_reader_rows(table.file) : 0;
    for (uint64_t first = 0; rc == LK_OK && first < total; first += SETS_AT_ONCE) {
        uint64_t          count = total - first < SETS_AT_ONCE ? total - first : SETS_AT_ONCE;
        struct ArrowArray values = {0}, sets = {0};
        rc = lk_index_table_read(&table, keys, first, count, v->pool, &values, err);
        if (rc == LK_OK) {
            rc = lk_index_table_read(&table, bitmaps, first, count, v->pool, &sets, err);
        }
        if (rc == LK_OK) {
            rc = check_sets(v, &values, lk_index_table_field(&table, bitmaps), &sets, err);
        }
        lk_array_release(&values);
        lk_array_release(&sets);
    }
    lk_index_table_close(&table);
    return rc;
}

/* -- all kinds of entries ---------------------------------------------------------------------------------- */
static lk_rc check_group(verifying *v, lk_err *err)
{
    lk_rc rc = v->index->kind == LK_INDEX_BTREE ? check_btree(v, err) : check_bitmap(v, err);
    for (size_t i = 0; i < v->dataset->manifest->fragment_count; i++) {
        if (rc == LK_OK && v->rows[i].hashes != NULL) {
            count_missing(v, i);
        }
        drop_rows(v, i);
    }
    v->first_pass = false;
    return rc;
}

static lk_rc check_all(verifying *v, lk_err *err)
{
    const lk_manifest *manifest = v->dataset->manifest;
    uint64_t           held = 0;
    lk_rc              rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < manifest->fragment_count; i++) {
        if (v->index->covers[i]) {
            rc = load_rows(v, i, err);
            held += manifest->fragments[i].physical_rows;
        }
        if (rc == LK_OK && held >= GROUP_ROWS) {
            rc = check_group(v, err);
            held = 0;
        }
    }
    if (rc == LK_OK && (held > 0 || v->first_pass)) {
        rc = check_group(v, err);
    }
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        drop_rows(v, i);
    }
    return rc;
}

lk_rc lk_index_verify(
    lk_dataset *dataset, const lk_index *index, lk_cancel *cancel, lk_index_damage *out, lk_err *err)
{
    const lk_lance_schema *schema = dataset->manifest->schema;
    verifying v = {.dataset = dataset, .index = index, .cancel = cancel, .first_pass = true, .out = out};
    *out = (lk_index_damage){.name = index->name};
    v.field = index->kind == LK_INDEX_OTHER ? SIZE_MAX : lk_lance_schema_find(schema, index->fields[0]);
    if (v.field == SIZE_MAX || !lk_index_orders(schema->fields[v.field].arrow) ||
        !lk_type_of(schema->fields[v.field].arrow, &v.type)) {
        return LK_OK;
    }
    v.numbers = lk_fragment_numbers(dataset->manifest, &v.arena);
    v.rows = lk_arena_take(&v.arena, (dataset->manifest->fragment_count + 1) * sizeof *v.rows);
    v.pool = lk_buffer_pool_new(dataset->env.budget);
    lk_rc rc = index->kind == LK_INDEX_ZONEMAP
                   ? lk_index_zonemap_verify(dataset, index, v.field, cancel, v.pool, out, err)
                   : check_all(&v, err);
    lk_buffer_pool_close(v.pool);
    lk_arena_close(&v.arena);
    if (rc != LK_OK) {
        lk_context(err, "index %.*s", LK_FMT(index->name));
    }
    return rc;
}
