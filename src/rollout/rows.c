/* rows.c - see rows.h. */
#include "rollout/rows.h"

#include "arrow/cast.h"
#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "io/prefix.h"
#include "lance/manifest.h"
#include "rollout/cell.h"
#include "rollout/id_map.h"
#include "rollout/shard.h"

#include <inttypes.h>
#include <stdlib.h>

#define FIRST_VERSION "_versions/18446744073709551614.manifest"
#define TOMBSTONE     "_tombstone"

/* -- columns ----------------------------------------------------------------------------------------------------- */

void lk_rollout_rows_schema(struct ArrowSchema *out)
{
    struct ArrowSchema records = {0}, values = {0};
    lk_err             err = {0};
    size_t             chosen[LK_RECORD_COLUMNS], count = 0;
    lk_record_schema(true, &records);
    lk_rc rc = lk_schema_decode_dictionaries(&records, &values, &err);
    for (size_t i = 0; i < LK_RECORD_COLUMNS; i++) {
        if (i != LK_RECORD_COLUMN_binary_payload) {
            chosen[count++] = i;
        }
    }
    if (rc == LK_OK) {
        rc = lk_schema_project(&values, chosen, count, out, &err);
    }
    LK_ASSERT(rc == LK_OK);
    for (int64_t i = 0; i < out->n_children; i++) {
        out->children[i]->flags |= ARROW_FLAG_NULLABLE;
    }
    lk_schema_release(&records);
    lk_schema_release(&values);
}

lk_rc lk_rollout_rows_align(const struct ArrowSchema *schema, struct ArrowArray *batch,
    const struct ArrowSchema *to, struct ArrowArray *out, lk_err *err)
{
    size_t             count = 0, column_count = (size_t)schema->n_children;
    int64_t            length = batch->length;
    struct ArrowSchema few_schema = {0};
    struct ArrowArray  few = {0};
    size_t            *chosen = calloc(column_count + 1, sizeof *chosen);
    struct ArrowArray *columns = calloc(column_count + 1, sizeof *columns);
    LK_ASSERT(chosen != NULL && columns != NULL);
    for (size_t i = 0; i < column_count; i++) {
        if (lk_schema_find(to, lk_bytes_of(schema->children[i]->name)) >= 0) {
            chosen[count++] = i;
        }
    }
    lk_shared_array *shared = lk_array_share(batch);
    lk_rc            rc = lk_schema_project(schema, chosen, count, &few_schema, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        lk_shared_batch_column(shared, chosen[i], &columns[i]);
    }
    if (rc == LK_OK) {
        lk_batch_of_columns(columns, count, length, &few);
        lk_shared_array *source = lk_array_share(&few);
        rc = lk_batch_cast(&few_schema, source, to, 0, out, err);
        lk_shared_array_unref(source);
    }
    lk_shared_array_unref(shared);
    lk_schema_release(&few_schema);
    free(columns);
    free(chosen);
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
    if (rc == LK_OK) {
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

static lk_rc keep_rows(loading *l, lk_err *err)
{
    lk_rollout_rows  *rows = l->rows;
    int64_t           count = l->batch.length;
    uint8_t          *selection = calloc(1, (size_t)count + 1);
    struct ArrowArray live = {0}, aligned = {0};
    LK_ASSERT(selection != NULL);
    bool last_counts = lk_schema_find(&l->schema, LK_LITERAL(TOMBSTONE)) >= 0 || has_deletions(l->dataset);
    rows->count = select_rows(l, last_counts, selection);
    lk_rc rc = LK_OK;
    if (rows->count == (size_t)count) {
        lk_array_move(&l->batch, &live);
    } else {
        rc = lk_array_filter(&l->schema, &l->batch, selection, (int64_t)rows->count, &live, err);
    }
    free(selection);
    if (rc != LK_OK) {
        return rc;
    }
    const struct ArrowArray *addresses = live.children[live.n_children - 1];
    lk_buf_append(&rows->storage, (const uint64_t *)addresses->buffers[1] + addresses->offset,
        rows->count * sizeof(uint64_t));
    rows->addresses = (const uint64_t *)(const void *)rows->storage.data;
    rc = lk_rollout_rows_align(&l->schema, &live, &rows->schema, &aligned, err);
    if (rc == LK_OK) {
        rows->batch = lk_array_share(&aligned);
    }
    return rc;
}

static lk_rc charge(lk_rollout_rows *rows, lk_budget *budget, lk_err *err)
{
    lk_dataset *dataset = atomic_load(&rows->dataset);
    rows->bytes = lk_array_bytes(&rows->schema, lk_shared_array_get(rows->batch)) +
                  (dataset == NULL ? 0 : lk_dataset_bytes(dataset)) + rows->storage.size;
    lk_rc rc = budget == NULL ? LK_OK : lk_budget_take(budget, rows->bytes, err);
    rows->budget = rc == LK_OK ? budget : NULL;
    return rc;
}

/* The rows of the generation's own table, or of the base table. */
static lk_rc load_rows(lk_rollout_rows *rows, struct lk_row_set *only, lk_budget *budget, lk_err *err)
{
    loading l = {.rows = rows, .only = only};
    lk_rc   rc = lk_rollout_rows_dataset(rows, &l.dataset, err);
    if (rc == LK_OK) {
        rc = scan_all(&l, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_rows_check(&l.schema, err);
    }
    if (rc == LK_OK) {
        rc = keep_rows(&l, err);
    }
    if (rc == LK_OK) {
        rc = charge(rows, budget, err);
    }
    lk_array_release(&l.batch);
    lk_schema_release(&l.schema);
    return rc;
}

/* -- from memory --------------------------------------------------------------------------------------------------- */

/* The known columns of the batches but the payload, as one batch. */
static lk_rc join(const struct ArrowSchema *schema, lk_shared_array *const *batches, size_t batch_count,
    struct ArrowSchema *few_schema, struct ArrowArray *out, lk_err *err)
{
    size_t            *chosen = calloc((size_t)schema->n_children + 1, sizeof *chosen), count = 0;
    struct ArrowArray *parts = calloc(batch_count + 1, sizeof *parts);
    struct ArrowArray *columns = calloc((size_t)schema->n_children + 1, sizeof *columns);
    LK_ASSERT(chosen != NULL && parts != NULL && columns != NULL);
    for (int64_t i = 0; i < schema->n_children; i++) {
        lk_record_column column =
            lk_record_column_of(lk_bytes_of(schema->children[i]->name), (lk_record_column)i);
        if (column != LK_RECORD_COLUMNS && column != LK_RECORD_COLUMN_binary_payload) {
            chosen[count++] = (size_t)i;
        }
    }
    for (size_t i = 0; i < batch_count; i++) {
        for (size_t j = 0; j < count; j++) {
            lk_shared_batch_column(batches[i], chosen[j], &columns[j]);
        }
        lk_batch_of_columns(columns, count, lk_shared_array_get(batches[i])->length, &parts[i]);
    }
    lk_rc rc = lk_schema_project(schema, chosen, count, few_schema, err);
    if (rc == LK_OK) {
        rc = lk_array_concat(few_schema, parts, batch_count, out, err);
    }
    for (size_t i = 0; i < batch_count; i++) {
        lk_array_release(&parts[i]);
    }
    free(columns);
    free(parts);
    free(chosen);
    return rc;
}

static lk_rc take_memory(lk_rollout_rows *rows, const struct ArrowSchema *schema,
    lk_shared_array *const *batches, size_t batch_count, lk_err *err)
{
    struct ArrowSchema few_schema = {0};
    struct ArrowArray  whole = {0}, aligned = {0};
    lk_rc              rc = join(schema, batches, batch_count, &few_schema, &whole, err);
    if (rc == LK_OK) {
        rows->count = (size_t)whole.length;
        rc = lk_rollout_rows_align(&few_schema, &whole, &rows->schema, &aligned, err);
    }
    if (rc == LK_OK) {
        rows->batch = lk_array_share(&aligned);
        for (uint64_t row = 0; row < rows->count; row++) { /* of fragment 0 */
            lk_buf_append(&rows->storage, &row, sizeof row);
        }
        rows->addresses = (const uint64_t *)(const void *)rows->storage.data;
    }
    lk_schema_release(&few_schema);
    return rc;
}

/* -- life -------------------------------------------------------------------------------------------------------- */

static lk_rollout_rows *new_rows(lk_uuid shard, uint64_t number, lk_bytes path)
{
    lk_rollout_rows *rows = calloc(1, sizeof *rows);
    char            *copy = malloc(path.size + 1);
    LK_ASSERT(rows != NULL && copy != NULL);
    atomic_init(&rows->refs, 1);
    atomic_init(&rows->dataset, NULL);
    rows->shard = shard;
    rows->number = number;
    memcpy(copy, path.data, path.size);
    rows->path = (lk_bytes){copy, path.size};
    lk_rollout_rows_schema(&rows->schema);
    return rows;
}

static lk_rollout_rows *new_generation(
    const lk_lance_env *env, lk_uuid shard, const lk_shard_generation *generation)
{
    lk_arena         arena = {0};
    lk_rollout_rows *rows = new_rows(shard, generation->number, generation->path);
    rows->env = *env;
    rows->env.store = lk_prefix_store_new(env->store, lk_shard_key(shard, rows->path, &arena));
    rows->env.files = NULL;
    lk_arena_close(&arena);
    return rows;
}

/* Ends making: rc is what became of it. */
static lk_rc give(lk_rollout_rows *rows, lk_rc rc, lk_rollout_rows **out, lk_err *err)
{
    if (rc != LK_OK) {
        lk_context(err, "generation %.*s", LK_FMT(rows->path));
        lk_rollout_rows_unref(rows);
    } else {
        *out = rows;
    }
    return rc;
}

lk_rc lk_rollout_rows_of_base(lk_dataset *base, lk_budget *budget, lk_uuid shard, uint64_t number,
    struct lk_row_set *addresses, lk_rollout_rows **out, lk_err *err)
{
    lk_rollout_rows *rows = new_rows(shard, number, LK_LITERAL(""));
    atomic_store(&rows->dataset, lk_dataset_ref(base));
    lk_rc rc = load_rows(rows, addresses, budget, err);
    if (rc != LK_OK) {
        lk_rollout_rows_unref(rows);
    } else {
        *out = rows;
    }
    return rc;
}

lk_rc lk_rollout_rows_load(const lk_lance_env *env, lk_uuid shard, const lk_shard_generation *generation,
    lk_rollout_rows **out, lk_err *err)
{
    lk_rollout_rows *rows = new_generation(env, shard, generation);
    return give(rows, load_rows(rows, NULL, env->budget, err), out, err);
}

lk_rc lk_rollout_rows_of(const lk_lance_env *env, lk_uuid shard, const lk_shard_generation *generation,
    const struct ArrowSchema *schema, lk_shared_array *const *batches, size_t batch_count,
    lk_rollout_rows **out, lk_err *err)
{
    lk_rollout_rows *rows = new_generation(env, shard, generation);
    lk_rc            rc = take_memory(rows, schema, batches, batch_count, err);
    if (rc == LK_OK) {
        rc = charge(rows, env->budget, err);
    }
    return give(rows, rc, out, err);
}

/* Of two who open it at once one keeps his. */
lk_rc lk_rollout_rows_dataset(lk_rollout_rows *rows, lk_dataset **out, lk_err *err)
{
    lk_dataset *present = atomic_load(&rows->dataset), *made = NULL;
    if (present == NULL) {
        lk_rc rc = lk_dataset_open_manifest(&rows->env, LK_LITERAL(FIRST_VERSION), &made, err);
        if (rc != LK_OK) {
            return rc;
        }
        if (atomic_compare_exchange_strong(&rows->dataset, &present, made)) {
            present = made;
        } else {
            lk_dataset_unref(made);
        }
    }
    *out = present;
    return LK_OK;
}

lk_rollout_rows *lk_rollout_rows_ref(lk_rollout_rows *rows)
{
    atomic_fetch_add(&rows->refs, 1);
    return rows;
}

void lk_rollout_rows_unref(lk_rollout_rows *rows)
{
    if (rows == NULL || atomic_fetch_sub(&rows->refs, 1) > 1) {
        return;
    }
    if (rows->budget != NULL) {
        lk_budget_give(rows->budget, rows->bytes);
    }
    lk_shared_array_unref(rows->batch);
    lk_schema_release(&rows->schema);
    lk_dataset_unref(atomic_load(&rows->dataset));
    lk_store_close(rows->env.store);
    lk_buf_deinit(&rows->storage);
    free((char *)(uintptr_t)rows->path.data);
    free(rows);
}

lk_bytes lk_rollout_rows_id(const lk_rollout_rows *rows, size_t row)
{
    return lk_cell_text(lk_shared_array_get(rows->batch)->children[LK_RECORD_COLUMN_id], (int64_t)row);
}

int lk_rollout_rows_order(const lk_rollout_rows *a, const lk_rollout_rows *b)
{
    int order = memcmp(&b->shard, &a->shard, sizeof a->shard);
    return order != 0 ? order : (b->number > a->number) - (b->number < a->number);
}
