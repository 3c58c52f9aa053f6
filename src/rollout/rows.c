/* rows.c - see rows.h. */
#include "rollout/rows_priv.h"

#include "arrow/cast.h"
#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "io/prefix.h"
#include "lance/nested.h"
#include "rollout/cell.h"
#include "rollout/generation.h"
#include "rollout/shard.h"

#include <pthread.h>
#include <stdlib.h>

enum { SHARED_FROM = 256 * 1024 }; /* bytes of rows */

/* -- columns ----------------------------------------------------------------------------------------------------- */

static void make_schema(bool payload, struct ArrowSchema *out)
{
    struct ArrowSchema records = {0}, values = {0};
    lk_err             err = {0};
    size_t             chosen[LK_RECORD_COLUMNS], count = 0;
    lk_record_schema(true, &records);
    lk_rc rc = lk_schema_decode_dictionaries(&records, &values, &err);
    for (size_t i = 0; i < LK_RECORD_COLUMNS; i++) {
        if (payload || i != LK_RECORD_COLUMN_binary_payload) {
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

void lk_rollout_rows_schema(struct ArrowSchema *out)
{
    make_schema(false, out);
}

static struct ArrowSchema read_columns; /* a constant, but for its making */

static void make_read_columns(void)
{
    make_schema(false, &read_columns);
}

const struct ArrowSchema *lk_rollout_rows_columns(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    LK_ASSERT(pthread_once(&once, make_read_columns) == 0);
    return &read_columns;
}

lk_rollout_form *lk_rollout_form_new(void)
{
    lk_rollout_form *form = calloc(1, sizeof *form);
    LK_ASSERT(form != NULL);
    atomic_init(&form->refs, 1);
    make_schema(false, &form->schema);
    make_schema(true, &form->whole);
    return form;
}

lk_rollout_form *lk_rollout_form_ref(lk_rollout_form *form)
{
    atomic_fetch_add(&form->refs, 1);
    return form;
}

void lk_rollout_form_unref(lk_rollout_form *form)
{
    if (form != NULL && atomic_fetch_sub(&form->refs, 1) == 1) {
        lk_schema_release(&form->schema);
        lk_schema_release(&form->whole);
        free(form);
    }
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

/* -- keeping ------------------------------------------------------------------------------------------------------- */

static lk_rc keep(lk_rollout_rows *rows, struct ArrowArray *take, lk_err *err)
{
    lk_rc rc = LK_OK;
    rows->count = (size_t)take->length;
    rows->batch = lk_array_share(take);
    rows->addresses = (const uint64_t *)(const void *)rows->storage.data;
    rows->bytes = lk_array_bytes(rows->schema, lk_shared_array_get(rows->batch)) + rows->storage.size;
    lk_budget *budget = rows->env.budget;
    rc = budget == NULL ? LK_OK : lk_budget_take(budget, rows->bytes, err);
    rows->budget = rc == LK_OK ? budget : NULL;
    return rc;
}

lk_rc lk_rollout_rows_leave_out(lk_rollout_rows *rows, struct ArrowArray *batch, lk_err *err)
{
    const struct ArrowSchema *schema = rows->schema;
    size_t                    count = (size_t)schema->n_children, kept = 0, bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes +=
            lk_is_list(schema->children[i]) ? lk_array_bytes(schema->children[i], batch->children[i]) : 0;
    }
    if (bytes < LK_ROLLOUT_LISTS_KEPT || rows->env.store->far) {
        return LK_OK;
    }
    rows->left_out_bytes = bytes;
    struct ArrowSchema few_schema = {0};
    struct ArrowArray  few = {0}, *columns = calloc(count + 1, sizeof *columns);
    size_t            *chosen = calloc(count + 1, sizeof *chosen);
    int64_t            length = batch->length;
    LK_ASSERT(columns != NULL && chosen != NULL && batch->offset == 0);
    for (size_t i = 0; i < count; i++) {
        if (lk_is_list(schema->children[i])) {
            rows->left_out |= UINT64_C(1) << i;
        } else {
            chosen[kept] = i;
            lk_array_move(batch->children[i], &columns[kept++]);
        }
    }
    lk_array_release(batch);
    lk_batch_of_columns(columns, kept, length, &few);
    lk_rc rc = lk_schema_project(schema, chosen, kept, &few_schema, err);
    if (rc == LK_OK) {
        rc = lk_rollout_rows_align(&few_schema, &few, schema, batch, err);
    }
    lk_array_release(&few);
    lk_schema_release(&few_schema);
    free(columns);
    free(chosen);
    return rc;
}

/* Kept rows are many and small: their buffers lie together. */
lk_rc lk_rollout_rows_keep(lk_rollout_rows *rows, const struct ArrowArray *batch, lk_err *err)
{
    struct ArrowArray packed = {0};
    lk_rc             rc = lk_array_pack(rows->schema, batch, &packed, err);
    return rc == LK_OK ? keep(rows, &packed, err) : rc;
}

/* -- from memory --------------------------------------------------------------------------------------------------- */

bool lk_rollout_same_type(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    bool same = strcmp(a->format, b->format) == 0 && a->n_children == b->n_children &&
                a->dictionary == NULL && b->dictionary == NULL;
    for (int64_t i = 0; same && i < a->n_children; i++) {
        same = lk_rollout_same_type(a->children[i], b->children[i]);
    }
    return same;
}

/* Where each of the columns `to` is in a table's schema; false: one is missing. As a rule they are in the same order. */
static bool find_all(const struct ArrowSchema *schema, const struct ArrowSchema *to, size_t *at)
{
    size_t next = 0, count = (size_t)schema->n_children;
    for (int64_t i = 0; i < to->n_children; i++, next++) {
        while (next < count && strcmp(schema->children[next]->name, to->children[i]->name) != 0) {
            next++;
        }
        if (next == count) {
            return false;
        }
        at[i] = next;
    }
    return true;
}

/* One batch whose columns are at these places, column by column: mostly they are shared as they are. */
static lk_rc align_columns(const struct ArrowSchema *schema, lk_shared_array *batch, const size_t *at,
    const struct ArrowSchema *to, struct ArrowArray *out, lk_err *err)
{
    size_t             count = (size_t)to->n_children;
    struct ArrowArray *columns = calloc(count + 1, sizeof *columns);
    lk_rc              rc = LK_OK;
    LK_ASSERT(columns != NULL);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        lk_shared_batch_column(batch, at[i], &columns[i]);
        if (!lk_rollout_same_type(schema->children[at[i]], to->children[i])) {
            lk_shared_array *column = lk_array_share(&columns[i]);
            rc = lk_array_cast(schema->children[at[i]], column, to->children[i], 0, &columns[i], err);
            lk_shared_array_unref(column);
        }
    }
    if (rc == LK_OK) {
        lk_batch_of_columns(columns, count, lk_shared_array_get(batch)->length, out);
    }
    for (size_t i = 0; rc != LK_OK && i < count; i++) {
        lk_array_release(&columns[i]);
    }
    free(columns);
    return rc;
}

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
    if (rc == LK_OK && batch_count == 1) { /* what is kept of it is packed anyhow */
        *out = parts[0];
        parts[0].release = NULL;
    } else if (rc == LK_OK) {
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

/* Rows of one request that are large are kept as they are: a copy would take longer than all else that is done to see them.
 * With payloads, or lists that are left out, they would keep those, too. */
static bool may_share(const lk_rollout_rows *rows, const struct ArrowSchema *schema,
    lk_shared_array *const *batches, size_t batch_count, const struct ArrowArray *aligned)
{
    int64_t at = lk_schema_find(schema, LK_LITERAL("binary_payload"));
    if (batch_count > 1 || rows->left_out != 0 || lk_array_bytes(rows->schema, aligned) < SHARED_FROM) {
        return false;
    }
    const struct ArrowArray *batch = lk_shared_array_get(batches[0]);
    return at < 0 || batch->children[at]->null_count == batch->children[at]->length;
}

static lk_rc take_memory(lk_rollout_rows *rows, const struct ArrowSchema *schema,
    lk_shared_array *const *batches, size_t batch_count, lk_err *err)
{
    struct ArrowSchema few_schema = {0};
    struct ArrowArray  whole = {0}, aligned = {0};
    size_t             at[LK_RECORD_COLUMNS];
    lk_rc              rc = LK_OK;
    if (batch_count == 1 && find_all(schema, rows->schema, at)) {
        rc = align_columns(schema, batches[0], at, rows->schema, &aligned, err);
    } else {
        rc = join(schema, batches, batch_count, &few_schema, &whole, err);
        rc = rc == LK_OK ? lk_rollout_rows_align(&few_schema, &whole, rows->schema, &aligned, err) : rc;
    }
    if (rc == LK_OK) {
        rc = lk_rollout_rows_leave_out(rows, &aligned, err);
    }
    if (rc == LK_OK) {
        for (uint64_t row = 0; row < (uint64_t)aligned.length; row++) { /* of fragment 0 */
            lk_buf_append(&rows->storage, &row, sizeof row);
        }
        rc = may_share(rows, schema, batches, batch_count, &aligned)
                 ? keep(rows, &aligned, err)
                 : lk_rollout_rows_keep(rows, &aligned, err);
    }
    lk_array_release(&aligned);
    lk_schema_release(&few_schema);
    return rc;
}

/* -- life -------------------------------------------------------------------------------------------------------- */

static lk_rollout_rows *new_rows(lk_rollout_form *form, lk_uuid shard, uint64_t number, lk_bytes path)
{
    lk_rollout_rows *rows = calloc(1, sizeof *rows);
    char            *copy = malloc(path.size + 1);
    LK_ASSERT(rows != NULL && copy != NULL);
    atomic_init(&rows->refs, 1);
    rows->shard = shard;
    rows->number = number;
    memcpy(copy, path.data, path.size);
    rows->path = (lk_bytes){copy, path.size};
    rows->form = lk_rollout_form_ref(form);
    rows->schema = &form->schema;
    return rows;
}

static lk_rollout_rows *new_generation(
    const lk_lance_env *env, lk_rollout_form *form, lk_uuid shard, const lk_shard_generation *generation)
{
    lk_arena         arena = {0};
    lk_rollout_rows *rows = new_rows(form, shard, generation->number, generation->path);
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
        if (rows->path.size > 0) {
            lk_context(err, "generation %.*s", LK_FMT(rows->path));
        }
        lk_rollout_rows_unref(rows);
    } else {
        *out = rows;
    }
    return rc;
}

lk_rc lk_rollout_rows_of_base(lk_dataset *base, lk_budget *budget, lk_rollout_form *form, lk_uuid shard,
    uint64_t number, struct lk_row_set *addresses, lk_rollout_rows **out, lk_err *err)
{
    lk_rollout_rows *rows = new_rows(form, shard, number, LK_LITERAL(""));
    rows->base = lk_dataset_ref(base);
    rows->env.budget = budget;
    return give(rows, lk_rollout_rows_read(rows, base, addresses, NULL, err), out, err);
}

static lk_rc open_generation(
    const lk_rollout_rows *rows, const lk_alike *alike, lk_dataset **out, lk_err *err)
{
    const lk_dataset *like = alike == NULL ? NULL : lk_alike_first(alike);
    return lk_dataset_open_like(&rows->env, LK_LITERAL(LK_GENERATION_MANIFEST), like, out, err);
}

lk_rc lk_rollout_rows_load(const lk_lance_env *env, lk_rollout_form *form, lk_uuid shard,
    const lk_shard_generation *generation, lk_rollout_rows **out, lk_err *err)
{
    return lk_rollout_rows_load_like(env, form, shard, generation, NULL, out, err);
}

lk_rc lk_rollout_rows_load_like(const lk_lance_env *env, lk_rollout_form *form, lk_uuid shard,
    const lk_shard_generation *generation, const lk_alike *alike, lk_rollout_rows **out, lk_err *err)
{
    lk_dataset      *dataset = NULL;
    lk_rollout_rows *rows = new_generation(env, form, shard, generation);
    lk_rc            rc = open_generation(rows, alike, &dataset, err);
    if (rc == LK_OK) {
        rc = lk_rollout_rows_read(rows, dataset, NULL, alike, err);
    }
    lk_dataset_unref(dataset);
    return give(rows, rc, out, err);
}

lk_rc lk_rollout_rows_load_from(const lk_lance_env *env, lk_rollout_form *form, lk_uuid shard,
    const lk_shard_generation *generation, lk_dataset *dataset, const lk_alike *alike, lk_rollout_rows **out,
    lk_err *err)
{
    lk_rollout_rows *rows = new_generation(env, form, shard, generation);
    return give(rows, lk_rollout_rows_read(rows, dataset, NULL, alike, err), out, err);
}

lk_rc lk_rollout_rows_of(const lk_lance_env *env, lk_rollout_form *form, lk_uuid shard,
    const lk_shard_generation *generation, const struct ArrowSchema *schema, lk_shared_array *const *batches,
    size_t batch_count, lk_rollout_rows **out, lk_err *err)
{
    lk_rollout_rows *rows = new_generation(env, form, shard, generation);
    return give(rows, take_memory(rows, schema, batches, batch_count, err), out, err);
}

lk_rc lk_rollout_rows_dataset(const lk_rollout_rows *rows, lk_dataset **out, lk_err *err)
{
    if (rows->base != NULL) {
        *out = lk_dataset_ref(rows->base);
        return LK_OK;
    }
    return open_generation(rows, NULL, out, err);
}

lk_rc lk_rollout_rows_dataset_within(
    const lk_rollout_rows *rows, lk_budget *budget, lk_dataset **out, lk_err *err)
{
    lk_lance_env env = rows->env;
    env.budget = budget;
    env.buffers = NULL;
    env.files = NULL;
    return lk_dataset_open_manifest(&env, LK_LITERAL(LK_GENERATION_MANIFEST), out, err);
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
    lk_dataset_unref(rows->base);
    lk_rollout_form_unref(rows->form);
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
