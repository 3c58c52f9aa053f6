/*
 * merge.c - rows of a source and rows of a table that have the same key become one. Which have is the matcher's to
 * say; here its pairs and the source's rows are read side by side, once, and become the batches of an update.
 */
#include "arrow/cast.h"
#include "arrow/schema.h"
#include "lance/alter.h"
#include "lance/dataset_priv.h"
#include "lance/view.h"

#include <stdlib.h>

enum { BATCH_ROWS = 8192 };

/* A writer takes values for a dictionary column, and stores them as the table has them. */
static const lk_view taken_types = {.dictionary_values = true, .blobs = LK_BLOBS_STORED};

typedef struct merge {
    const lk_row_matcher   *matcher;
    const lk_merge_options *options;
    lk_dataset             *source;
} merge;

typedef struct pair_reader { /* the matcher's pairs, one after another */
    lk_batches       *pairs;
    struct ArrowArray batch;
    int64_t           at;
} pair_reader;

typedef struct picks { /* rows of one source batch, and the addresses of those that they replace */
    int64_t  rows[BATCH_ROWS];
    uint64_t addresses[BATCH_ROWS];
    uint8_t  valid[BATCH_ROWS / 8];
    int64_t  count;
} picks;

typedef struct merged_rows {
    lk_batches         base;
    const merge       *merge;
    struct ArrowSchema table; /* its columns, dictionaries as values */
    lk_batches        *rows;  /* of the source: columns and addresses */
    pair_reader        pairs;
    struct ArrowSchema from;      /* of the source's columns alone */
    struct ArrowArray  batch;     /* rows of the source in the table's types, or released */
    struct ArrowArray  addresses; /* theirs */
    int64_t            at;        /* the next of them */
    picks              picks;
} merged_rows;

/* -- pairs ---------------------------------------------------------------------------------------------------- */

/* *found = false when there is none any more. */
static lk_rc see_pair(pair_reader *r, bool *found, lk_err *err)
{
    while (r->batch.release == NULL || r->at == r->batch.length) {
        lk_array_release(&r->batch);
        r->at = 0;
        lk_rc rc = lk_batches_next(r->pairs, &r->batch, err);
        if (rc != LK_OK || r->batch.release == NULL) {
            *found = false;
            return rc;
        }
    }
    *found = true;
    return LK_OK;
}

static bool is_valid(const struct ArrowArray *column, int64_t row)
{
    const uint8_t *valid = column->buffers[0];
    int64_t        bit = column->offset + row;
    return valid == NULL || (valid[bit / 8] >> (bit % 8) & 1) != 0;
}

static uint64_t pair_value(const pair_reader *r, size_t side)
{
    const struct ArrowArray *column = r->batch.children[side];
    return ((const uint64_t *)column->buffers[1])[column->offset + r->batch.offset + r->at];
}

static bool is_matched(const pair_reader *r)
{
    return is_valid(r->batch.children[1], r->batch.offset + r->at);
}

/* -- picking rows ------------------------------------------------------------------------------------------------ */

static void pick(picks *p, int64_t row, bool matched, uint64_t address)
{
    p->rows[p->count] = row;
    p->addresses[p->count] = matched ? address : 0;
    p->valid[p->count / 8] |= (uint8_t)(matched << (p->count % 8));
    p->count++;
}

static lk_rc out_of_step(lk_err *err)
{
    return lk_fail(err, LK_E_INTERNAL, "the matcher's pairs are not in the order of the source's rows");
}

/* Goes on through the batch until it ends or enough rows are picked. */
static lk_rc pick_rows(merged_rows *self, lk_err *err)
{
    picks                  *out = &self->picks;
    const lk_merge_options *options = self->merge->options;
    const uint64_t         *own = (const uint64_t *)self->addresses.buffers[1] + self->addresses.offset;
    while (out->count < BATCH_ROWS && self->at < self->batch.length) {
        bool  found = false;
        lk_rc rc = see_pair(&self->pairs, &found, err);
        if (rc != LK_OK) {
            return rc;
        }
        uint64_t address = found ? pair_value(&self->pairs, 0) : UINT64_MAX;
        if (address < own[self->at]) {
            return out_of_step(err);
        }
        if (address > own[self->at]) { /* all pairs of that row were seen */
            self->at++;
            continue;
        }
        bool matched = is_matched(&self->pairs);
        if (matched ? options->update : options->insert) {
            pick(out, self->at, matched, matched ? pair_value(&self->pairs, 1) : 0);
        }
        self->pairs.at++;
    }
    return LK_OK;
}

/* -- batches ------------------------------------------------------------------------------------------------------ */

typedef struct address_array { /* what an array of addresses is made of */
    const void *buffers[2];
    uint8_t     valid[BATCH_ROWS / 8];
    uint64_t    addresses[BATCH_ROWS];
} address_array;

static void release_addresses(struct ArrowArray *array)
{
    free(array->private_data);
    array->release = NULL;
}

static void addresses_of(const picks *p, struct ArrowArray *out)
{
    address_array *mine = malloc(sizeof *mine);
    LK_ASSERT(mine != NULL);
    memcpy(mine->valid, p->valid, sizeof mine->valid);
    memcpy(mine->addresses, p->addresses, sizeof mine->addresses);
    mine->buffers[0] = mine->valid;
    mine->buffers[1] = mine->addresses;
    *out = (struct ArrowArray){
        .length = p->count,
        .null_count = -1,
        .n_buffers = 2,
        .buffers = mine->buffers,
        .release = release_addresses,
        .private_data = mine,
    };
}

static lk_rc make_batch(merged_rows *self, struct ArrowArray *out, lk_err *err)
{
    size_t            count = (size_t)self->table.n_children;
    struct ArrowArray rows = {0};
    lk_rc rc = lk_array_take(&self->table, &self->batch, self->picks.rows, self->picks.count, &rows, err);
    if (rc != LK_OK) {
        return rc;
    }
    struct ArrowArray *columns = calloc(count + 1, sizeof *columns);
    lk_shared_array   *shared = lk_array_share(&rows);
    LK_ASSERT(columns != NULL);
    for (size_t i = 0; i < count; i++) {
        lk_shared_batch_column(shared, i, &columns[i]);
    }
    addresses_of(&self->picks, &columns[count]);
    lk_batch_of_columns(columns, count + 1, self->picks.count, out);
    lk_shared_array_unref(shared);
    free(columns);
    return LK_OK;
}

/* The source's next batch, in the table's types; released at the end. */
static lk_rc next_source(merged_rows *self, lk_err *err)
{
    size_t            count = (size_t)self->from.n_children;
    struct ArrowArray batch = {0}, rows = {0};
    lk_array_release(&self->batch);
    lk_array_release(&self->addresses);
    self->at = 0;
    lk_rc rc = lk_batches_next(self->rows, &batch, err);
    if (rc != LK_OK || batch.release == NULL) {
        return rc;
    }
    int64_t            length = batch.length;
    struct ArrowArray *columns = calloc(count + 1, sizeof *columns);
    lk_shared_array   *shared = lk_array_share(&batch);
    LK_ASSERT(columns != NULL);
    for (size_t i = 0; i < count; i++) {
        lk_shared_batch_column(shared, i, &columns[i]);
    }
    lk_shared_batch_column(shared, count, &self->addresses);
    lk_batch_of_columns(columns, count, length, &rows);
    lk_shared_array *source = lk_array_share(&rows);
    rc = lk_batch_cast(&self->from, source, &self->table, 0, &self->batch, err);
    lk_shared_array_unref(source);
    lk_shared_array_unref(shared);
    free(columns);
    return rc;
}

static lk_rc next_merged(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    merged_rows *self = (merged_rows *)batches;
    self->picks.count = 0;
    memset(self->picks.valid, 0, sizeof self->picks.valid);
    for (;;) {
        if (self->batch.release == NULL || self->at == self->batch.length) {
            lk_rc rc = next_source(self, err);
            if (rc != LK_OK || self->batch.release == NULL) {
                return rc;
            }
        }
        lk_rc rc = pick_rows(self, err);
        if (rc != LK_OK) {
            return rc;
        }
        if (self->picks.count > 0) {
            return make_batch(self, out, err);
        }
    }
}

static void close_merged(lk_batches *batches)
{
    merged_rows *self = (merged_rows *)batches;
    lk_batches_close(self->rows);
    lk_batches_close(self->pairs.pairs);
    lk_array_release(&self->pairs.batch);
    lk_array_release(&self->batch);
    lk_array_release(&self->addresses);
    lk_schema_release(&self->from);
    lk_schema_release(&self->table);
    lk_schema_release(&self->base.schema);
    free(self);
}

/* The table's columns and one of addresses. */
static lk_rc changed_schema(const struct ArrowSchema *table, struct ArrowSchema *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    lk_schema_start(out, (size_t)table->n_children + 1);
    for (int64_t i = 0; rc == LK_OK && i < table->n_children; i++) {
        lk_schema_release(out->children[i]);
        rc = lk_schema_copy(table->children[i], out->children[i], err);
    }
    return rc == LK_OK ? lk_column_parse(LK_LITERAL("_rowaddr:uint64"), out->children[table->n_children], err)
                       : rc;
}

static lk_rc check_pairs(const lk_batches *pairs, lk_err *err)
{
    const struct ArrowSchema *schema = &pairs->schema;
    bool good = schema->n_children == 2 && strcmp(schema->children[0]->format, "L") == 0 &&
                strcmp(schema->children[1]->format, "L") == 0;
    return good ? LK_OK : lk_fail(err, LK_E_INTERNAL, "pairs are not two columns of addresses");
}

static lk_rc open_merged(merged_rows *self, lk_dataset *version, lk_err *err)
{
    const merge    *m = self->merge;
    lk_scan_options options = {
        .limit = UINT64_MAX, .meta = LK_META_ROW_ADDRESS, .batch_rows = BATCH_ROWS, .blobs = LK_BLOBS_STORED};
    lk_rc rc = lk_view_schema(lk_dataset_schema(version), taken_types, &self->table, err);
    if (rc == LK_OK) {
        rc = lk_schema_castable(lk_dataset_schema(m->source), &self->table, err);
    }
    if (rc == LK_OK) {
        rc = changed_schema(&self->table, &self->base.schema, err);
    }
    if (rc == LK_OK) {
        rc = lk_schema_copy(lk_dataset_schema(m->source), &self->from, err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_scan(m->source, &options, &self->rows, err);
    }
    if (rc == LK_OK) {
        rc = m->matcher->match(m->matcher->context, m->source, version, &self->pairs.pairs, err);
    }
    return rc == LK_OK ? check_pairs(self->pairs.pairs, err) : rc;
}

/* -- merging ------------------------------------------------------------------------------------------------------- */

/* A column that the source lacks would become null in every row that is updated. */
static lk_rc check_columns(const merge *m, const struct ArrowSchema *table, lk_err *err)
{
    const struct ArrowSchema *source = lk_dataset_schema(m->source);
    for (int64_t i = 0; i < table->n_children; i++) {
        if (lk_schema_find(source, lk_bytes_of(table->children[i]->name)) < 0) {
            return lk_refuse(
                err, LK_E_SCHEMA_MISMATCH, "the source has no column \"%.60s\"", table->children[i]->name);
        }
    }
    return LK_OK;
}

static lk_rc merge_rows(
    void *context, lk_dataset *version, lk_row_set *removed, lk_batches **out, lk_err *err)
{
    const merge *m = context;
    lk_rc        rc = check_columns(m, lk_dataset_schema(version), err);
    if (rc == LK_OK && m->options->delete_unmatched) {
        rc = m->matcher->unmatched(m->matcher->context, m->source, version, removed, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    merged_rows *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->base.next = next_merged;
    self->base.close = close_merged;
    self->merge = m;
    rc = open_merged(self, version, err);
    if (rc != LK_OK) {
        close_merged(&self->base);
        return rc;
    }
    *out = &self->base;
    return LK_OK;
}

/* Equal keys are the same value, but for floats, of which zero has two. */
static bool keeps_column(void *context, const struct ArrowSchema *column)
{
    const merge *m = context;
    return m->matcher->is_key != NULL && strchr("efg", column->format[0]) == NULL &&
           m->matcher->is_key(m->matcher->context, lk_bytes_of(column->name));
}

lk_rc lk_dataset_merge(lk_dataset *base, lk_committer *committer, lk_dataset *source,
    const lk_row_matcher *matcher, const lk_merge_options *merge_options, const lk_write_options *options,
    lk_update_report *report, lk_dataset **out, lk_err *err)
{
    merge          m = {matcher, merge_options, source};
    lk_row_changer changer = {
        .change = merge_rows, .keeps = keeps_column, .context = &m, .by_key = merge_options->insert};
    return lk_dataset_update(base, committer, &changer, options, report, out, err);
}
