/* rows_load.c - see rows.h: generations read from storage, one or many. */
#include "arrow/schema.h"
#include "base/each.h"
#include "lance/manifest.h"
#include "rollout/cell.h"
#include "rollout/id_map.h"
#include "rollout/rows_priv.h"

#include <stdlib.h>

#define TOMBSTONE "_tombstone"

/* -- reading ----------------------------------------------------------------------------------------------------- */

typedef struct loading {
    lk_rollout_rows   *rows;
    struct lk_row_set *only; /* NULL: all rows */
    lk_dataset        *dataset;
    struct ArrowSchema schema; /* of what is scanned: some of the dataset's columns, and the address last */
    struct ArrowArray  batch;
} loading;

static lk_rc scan_all(loading *l, lk_err *err)
{
    const struct ArrowSchema *schema = lk_dataset_schema(l->dataset);
    size_t                   *columns = calloc((size_t)schema->n_children + 1, sizeof *columns), count = 0;
    lk_batches               *batches = NULL;
    lk_buf                    list = {0}; /* of struct ArrowArray */
    LK_ASSERT(columns != NULL);
    for (int64_t i = 0; i < schema->n_children; i++) {
        lk_bytes name = lk_bytes_of(schema->children[i]->name);
        bool     payload = lk_bytes_equal(name, LK_LITERAL("binary_payload"));
        bool     known = lk_record_column_of(name, (lk_record_column)i) != LK_RECORD_COLUMNS;
        if (!payload && (known || lk_bytes_equal(name, LK_LITERAL(TOMBSTONE)))) {
            columns[count++] = (size_t)i;
        }
    }
    const lk_scan_options options = {.columns = columns,
        .column_count = count,
        .meta = LK_META_ROW_ADDRESS,
        .dictionary_values = true,
        .rows = l->only,
        .limit = UINT64_MAX};
    lk_rc                 rc = lk_dataset_scan(l->dataset, &options, &batches, err);
    if (rc == LK_OK) {
        rc = lk_schema_copy(&batches->schema, &l->schema, err);
    }
    for (bool more = rc == LK_OK; more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        if (more) {
            lk_buf_append(&list, &batch, sizeof batch);
        }
    }
    struct ArrowArray *arrays = (struct ArrowArray *)(void *)list.data;
    size_t             array_count = list.size / sizeof *arrays;
    if (rc == LK_OK && array_count == 1) {
        lk_array_move(&arrays[0], &l->batch);
    } else if (rc == LK_OK) {
        rc = lk_array_concat(&l->schema, arrays, array_count, &l->batch, err);
    }
    for (size_t i = 0; i < array_count; i++) {
        lk_array_release(&arrays[i]);
    }
    lk_buf_deinit(&list);
    lk_batches_close(batches);
    free(columns);
    return rc;
}

lk_rc lk_rollout_rows_check(const struct ArrowSchema *schema, lk_err *err)
{
    int64_t id_at = lk_schema_find(schema, LK_LITERAL("id"));
    int64_t tombstone_at = lk_schema_find(schema, LK_LITERAL(TOMBSTONE));
    if (id_at < 0 || strcmp(schema->children[id_at]->format, "u") != 0) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "it has no column id of texts");
    }
    if (tombstone_at >= 0 && strcmp(schema->children[tombstone_at]->format, "b") != 0) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "its column " TOMBSTONE " is not true or false");
    }
    return LK_OK;
}

/* Which rows count: selection is one byte a row. */
static size_t select_rows(const loading *l, bool last_counts, uint8_t *selection)
{
    int64_t                  id_at = lk_schema_find(&l->schema, LK_LITERAL("id"));
    int64_t                  tombstone_at = lk_schema_find(&l->schema, LK_LITERAL(TOMBSTONE));
    const struct ArrowArray *ids = l->batch.children[id_at];
    const struct ArrowArray *tombstones = tombstone_at < 0 ? NULL : l->batch.children[tombstone_at];
    int64_t                  count = l->batch.length;
    lk_id_map               *seen = lk_id_map_new((size_t)count);
    size_t                   selected = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = last_counts ? count - 1 - i : i;
        bool    first = lk_id_map_add(seen, lk_cell_text(ids, row), (lk_id_place){0});
        bool dead = tombstones != NULL && ArrowBitGet(tombstones->buffers[1], tombstones->offset + row) != 0;
        selection[row] = first && !dead;
        selected += selection[row];
    }
    lk_id_map_free(seen);
    return selected;
}

static bool has_deletions(const lk_dataset *dataset)
{
    const lk_manifest *manifest = lk_dataset_manifest(dataset);
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        if (manifest->fragments[i].deletion.kind != LK_DELETION_NONE) {
            return true;
        }
    }
    return false;
}

/* Whether the columns that were scanned are the form's as they are, with the address behind them. */
static bool is_form(const loading *l)
{
    const struct ArrowSchema *form = l->rows->schema;
    bool                      same = l->schema.n_children == form->n_children + 1;
    for (int64_t i = 0; same && i < form->n_children; i++) {
        same = strcmp(l->schema.children[i]->name, form->children[i]->name) == 0 &&
               lk_rollout_same_type(l->schema.children[i], form->children[i]);
    }
    return same;
}

/* The live rows, in the form. Takes them. */
static lk_rc take_form(const loading *l, struct ArrowArray *live, struct ArrowArray *out, lk_err *err)
{
    if (!is_form(l)) {
        return lk_rollout_rows_align(&l->schema, live, l->rows->schema, out, err);
    }
    int64_t            count = l->rows->schema->n_children, length = live->length;
    struct ArrowArray *columns = calloc((size_t)count + 1, sizeof *columns);
    LK_ASSERT(columns != NULL);
    for (int64_t i = 0; i < count; i++) {
        lk_array_move(live->children[i], &columns[i]);
    }
    lk_batch_of_columns(columns, (size_t)count, length, out);
    lk_array_release(live);
    free(columns);
    return LK_OK;
}

static lk_rc keep_rows(loading *l, lk_err *err)
{
    lk_rollout_rows  *rows = l->rows;
    int64_t           count = l->batch.length;
    uint8_t          *selection = calloc(1, (size_t)count + 1);
    struct ArrowArray live = {0}, aligned = {0};
    LK_ASSERT(selection != NULL);
    bool   last_counts = lk_schema_find(&l->schema, LK_LITERAL(TOMBSTONE)) >= 0 || has_deletions(l->dataset);
    size_t selected = select_rows(l, last_counts, selection);
    lk_rc  rc = LK_OK;
    if (selected == (size_t)count) {
        lk_array_move(&l->batch, &live);
    } else {
        rc = lk_array_filter(&l->schema, &l->batch, selection, (int64_t)selected, &live, err);
    }
    free(selection);
    if (rc != LK_OK) {
        return rc;
    }
    const struct ArrowArray *addresses = live.children[live.n_children - 1];
    lk_buf_append(&rows->storage, (const uint64_t *)addresses->buffers[1] + addresses->offset,
        selected * sizeof(uint64_t));
    rc = take_form(l, &live, &aligned, err);
    if (rc == LK_OK && rows->base == NULL) {
        rc = lk_rollout_rows_leave_out(rows, &aligned, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_rows_keep(rows, &aligned, err);
    }
    lk_array_release(&aligned);
    return rc;
}

/* Whether no id is there twice. */
static bool all_count(const struct ArrowArray *batch)
{
    const struct ArrowArray *ids = batch->children[LK_RECORD_COLUMN_id];
    lk_id_map               *seen = lk_id_map_new((size_t)batch->length);
    bool                     distinct = true;
    for (int64_t row = 0; distinct && row < batch->length; row++) {
        distinct = lk_id_map_add(seen, lk_cell_text(ids, row), (lk_id_place){0});
    }
    lk_id_map_free(seen);
    return distinct;
}

/* *done false: another way must be found. */
static lk_rc read_alike(
    lk_rollout_rows *rows, lk_dataset *dataset, const lk_alike *alike, bool *done, lk_err *err)
{
    struct ArrowArray batch = {0};
    lk_rc             rc = lk_alike_read(alike, dataset, done, &batch, err);
    if (rc != LK_OK || !*done) {
        return rc;
    }
    *done = batch.length < 2 || all_count(&batch);
    if (*done) {
        uint64_t first = lk_dataset_manifest(dataset)->fragments[0].id << 32;
        for (uint64_t row = 0; row < (uint64_t)batch.length; row++) {
            const uint64_t address = first + row;
            lk_buf_append(&rows->storage, &address, sizeof address);
        }
        rc = lk_rollout_rows_leave_out(rows, &batch, err);
    }
    if (rc == LK_OK && *done) {
        rc = lk_rollout_rows_keep(rows, &batch, err);
    }
    lk_array_release(&batch);
    return rc;
}

lk_rc lk_rollout_rows_alike(const lk_rollout_rows *rows, lk_alike **out, lk_err *err)
{
    lk_dataset *dataset = NULL;
    *out = NULL;
    lk_rc rc = lk_rollout_rows_dataset(rows, &dataset, err);
    if (rc == LK_OK && lk_schema_find(lk_dataset_schema(dataset), LK_LITERAL(TOMBSTONE)) < 0) {
        rc = lk_alike_new(dataset, rows->schema, out, err);
    }
    lk_dataset_unref(dataset);
    return rc;
}

lk_rc lk_rollout_rows_read(
    lk_rollout_rows *rows, lk_dataset *dataset, struct lk_row_set *only, const lk_alike *alike, lk_err *err)
{
    loading l = {.rows = rows, .dataset = dataset, .only = only};
    bool    done = false;
    lk_rc   rc = alike == NULL ? LK_OK : read_alike(rows, dataset, alike, &done, err);
    if (rc != LK_OK || done) {
        return rc;
    }
    rc = scan_all(&l, err);
    if (rc == LK_OK) {
        rc = lk_rollout_rows_check(&l.schema, err);
    }
    if (rc == LK_OK) {
        rc = keep_rows(&l, err);
    }
    lk_array_release(&l.batch);
    lk_schema_release(&l.schema);
    return rc;
}

/* -- many --------------------------------------------------------------------------------------------------------- */

enum { WISHES_MIN = 8 }; /* fewer are loaded before a thread is awake */

typedef struct crew {
    lk_lance_env     env; /* without a pool: each generation is one thread's */
    lk_rollout_form *form;
    lk_rollout_wish *wishes;
    lk_alike        *alike; /* of the first; NULL: few wishes, or each is its own */
} crew;

static lk_rc load_one(void *context, size_t part, lk_err *err)
{
    const crew      *c = context;
    lk_rollout_wish *wish = &c->wishes[part];
    lk_err           reason = {0};
    if (wish->rows != NULL) { /* the first, or fetched with others */
        return LK_OK;
    }
    lk_rc rc = lk_rollout_rows_load_like(
        &c->env, c->form, wish->shard, wish->generation, c->alike, &wish->rows, &reason);
    if (rc == LK_OK || rc == LK_E_NOT_FOUND) {
        return LK_OK;
    }
    *err = reason;
    return rc;
}

/* The first, and what the others probably share with it; that they could not is no error. */
static lk_rc load_first(crew *c, lk_err *err)
{
    lk_err ignored = {0};
    lk_rc  rc = load_one(c, 0, err);
    if (rc == LK_OK && c->wishes[0].rows != NULL &&
        lk_rollout_rows_alike(c->wishes[0].rows, &c->alike, &ignored) != LK_OK) {
        c->alike = NULL;
    }
    return rc;
}

lk_rc lk_rollout_rows_load_all(
    const lk_lance_env *env, lk_rollout_form *form, lk_rollout_wish *wishes, size_t count, lk_err *err)
{
    crew     c = {.env = *env, .form = form, .wishes = wishes};
    lk_pool *pool = env->store->far || count >= WISHES_MIN ? env->pool : NULL;
    c.env.pool = NULL;
    bool  first = count >= WISHES_MIN && !env->store->far; /* of a far one all are asked for at once */
    lk_rc rc = first ? load_first(&c, err) : LK_OK;
    if (env->store->far) {
        rc = lk_rollout_rows_fetch(&c.env, form, pool, wishes, count, err);
    }
    rc = rc == LK_OK ? lk_each(pool, count, load_one, &c, err) : rc;
    lk_alike_free(c.alike);
    for (size_t i = 0; rc != LK_OK && i < count; i++) {
        lk_rollout_rows_unref(wishes[i].rows);
        wishes[i].rows = NULL;
    }
    return rc;
}
