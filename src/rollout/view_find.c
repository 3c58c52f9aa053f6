/* view_find.c - rows of a snapshot by their ids: see view.h. */
#include "arrow/schema.h"
#include "rollout/cell.h"
#include "rollout/id_map.h"
#include "rollout/view.h"

#include <stdlib.h>

/* -- finding ids --------------------------------------------------------------------------------------------------- */

typedef struct finding {
    const lk_bytes *ids;
    size_t          count, found;
    size_t         *wanted;
    bool           *done;  /* by index of the id */
    lk_id_map      *left;  /* index of each id that is looked for in the base table */
    lk_buf          parts; /* of struct ArrowArray */
} finding;

static void add_row(finding *f, size_t index, struct ArrowArray *row)
{
    f->wanted[f->found++] = index;
    f->done[index] = true;
    lk_buf_append(&f->parts, row, sizeof *row);
}

/* The ids from `first` on that are in the same rows, of which memory lacks something: from the files. */
static lk_rc add_from_files(const lk_rollout_snapshot *snapshot, const lk_rollout_place *places, size_t first,
    lk_cancel *cancel, finding *f, lk_err *err)
{
    uint64_t         *rows = calloc(f->count - first, sizeof *rows);
    size_t           *indexes = calloc(f->count - first, sizeof *indexes), count = 0;
    struct ArrowArray taken = {0};
    LK_ASSERT(rows != NULL && indexes != NULL);
    for (size_t i = first; i < f->count; i++) {
        if (places[i].rows == places[first].rows) {
            rows[count] = places[i].row;
            indexes[count++] = i;
        }
    }
    lk_rc rc =
        lk_rollout_rows_take(places[first].rows, rows, count, &snapshot->form->schema, cancel, &taken, err);
    lk_shared_array *shared = rc == LK_OK ? lk_array_share(&taken) : NULL;
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        struct ArrowArray row = {0};
        lk_shared_batch_slice(shared, (int64_t)i, 1, &row);
        add_row(f, indexes[i], &row);
    }
    lk_shared_array_unref(shared);
    free(rows);
    free(indexes);
    return rc;
}

static lk_rc find_in_sources(lk_rollout_snapshot *snapshot, lk_cancel *cancel, finding *f, lk_err *err)
{
    lk_rollout_place *places = calloc(f->count + 1, sizeof *places);
    lk_rc             rc = LK_OK;
    LK_ASSERT(places != NULL);
    for (size_t i = 0; i < f->count; i++) {
        (void)lk_rollout_snapshot_place(snapshot, f->ids[i], &places[i]);
    }
    for (size_t i = 0; rc == LK_OK && i < f->count; i++) {
        struct ArrowArray row = {0};
        if (places[i].rows == NULL || f->done[i]) {
            continue;
        }
        if (places[i].rows->left_out != 0) {
            rc = add_from_files(snapshot, places, i, cancel, f, err);
        } else {
            lk_shared_batch_slice(places[i].rows->batch, (int64_t)places[i].row, 1, &row);
            add_row(f, i, &row);
        }
    }
    free(places);
    return rc;
}

/* Ids that the base table does not have need not be looked for in it. */
static lk_rc leave_out_absent(const lk_rollout_snapshot *snapshot, lk_cancel *cancel, finding *f, lk_err *err)
{
    if (snapshot->base_ids == NULL || f->found == f->count || !lk_rollout_snapshot_has_base(snapshot)) {
        return LK_OK;
    }
    bool *maybe = calloc(f->count + 1, sizeof *maybe);
    LK_ASSERT(maybe != NULL);
    lk_rc rc = lk_base_ids_ask(snapshot->base_ids, snapshot->base, f->ids, f->count, cancel, maybe, err);
    for (size_t i = 0; rc == LK_OK && i < f->count; i++) {
        f->done[i] = f->done[i] || !maybe[i];
    }
    free(maybe);
    return rc;
}

/* The ids that are left, as id IN (...). */
static const lk_predicate *left_ids(finding *f, size_t column, lk_arena *arena)
{
    lk_predicate *predicate = lk_arena_take(arena, sizeof *predicate);
    lk_value     *values = lk_arena_take(arena, (f->count + 1) * sizeof *values);
    for (size_t i = 0; i < f->count; i++) {
        if (!f->done[i]) {
            values[predicate->value_count++] = (lk_value){.kind = LK_VALUE_BYTES, .as.bytes = f->ids[i]};
            (void)lk_id_map_add(f->left, f->ids[i], (lk_id_place){.row = (uint32_t)i});
        }
    }
    predicate->kind = LK_PREDICATE_IN;
    predicate->column = column;
    predicate->values = values;
    return predicate->value_count == 0 ? NULL : predicate;
}

/* Takes *batch, rows of the base table. */
static lk_rc add_base_rows(const struct ArrowSchema *from, struct ArrowArray *batch,
    const struct ArrowSchema *schema, finding *f, lk_err *err)
{
    struct ArrowArray aligned = {0};
    lk_rc             rc = lk_rollout_rows_align(from, batch, schema, &aligned, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_shared_array         *shared = lk_array_share(&aligned);
    const struct ArrowArray *rows = lk_shared_array_get(shared);
    for (int64_t row = 0; row < rows->length; row++) {
        lk_id_place       place;
        struct ArrowArray one = {0};
        if (lk_id_map_find(f->left, lk_cell_text(rows->children[LK_RECORD_COLUMN_id], row), &place) &&
            !f->done[place.row]) {
            lk_shared_batch_slice(shared, row, 1, &one);
            add_row(f, place.row, &one);
        }
    }
    lk_shared_array_unref(shared);
    return LK_OK;
}

static lk_rc find_in_base(lk_rollout_snapshot *snapshot, const struct ArrowSchema *schema, lk_cancel *cancel,
    finding *f, lk_err *err)
{
    const struct ArrowSchema *table = lk_dataset_schema(snapshot->base);
    lk_arena                  arena = {0};
    lk_batches               *batches = NULL;
    size_t *columns = lk_arena_take(&arena, ((size_t)table->n_children + 1) * sizeof *columns);
    size_t  count = 0;
    lk_rc   rc = leave_out_absent(snapshot, cancel, f, err);
    for (int64_t i = 0; i < table->n_children; i++) {
        if (lk_schema_find(schema, lk_bytes_of(table->children[i]->name)) >= 0) {
            columns[count++] = (size_t)i;
        }
    }
    const lk_scan_options options = {.columns = columns,
        .column_count = count,
        .dictionary_values = true,
        .predicate = left_ids(f, (size_t)lk_schema_find(table, LK_LITERAL("id")), &arena),
        .limit = UINT64_MAX,
        .cancel = cancel};
    if (rc == LK_OK && options.predicate != NULL && lk_rollout_snapshot_has_base(snapshot)) {
        rc = lk_dataset_scan(snapshot->base, &options, &batches, err);
    }
    for (bool more = batches != NULL && rc == LK_OK; more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        rc = more ? add_base_rows(&batches->schema, &batch, schema, f, err) : rc;
        more = more && rc == LK_OK;
    }
    lk_batches_close(batches);
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_rollout_snapshot_find(lk_rollout_snapshot *snapshot, const lk_bytes *ids, size_t count,
    lk_cancel *cancel, struct ArrowArray *out, size_t *wanted, lk_err *err)
{
    const struct ArrowSchema *schema = &snapshot->form->schema;
    finding f = {.ids = ids, .count = count, .wanted = wanted, .done = calloc(count + 1, sizeof(bool))};
    LK_ASSERT(f.done != NULL);
    f.left = lk_id_map_new(0);
    lk_rc rc = find_in_sources(snapshot, cancel, &f, err);
    rc = rc == LK_OK ? find_in_base(snapshot, schema, cancel, &f, err) : rc;
    struct ArrowArray *arrays = (struct ArrowArray *)(void *)f.parts.data;
    if (rc == LK_OK) {
        rc = lk_array_concat(schema, arrays, f.found, out, err);
    }
    for (size_t i = 0; i < f.found; i++) {
        lk_array_release(&arrays[i]);
    }
    lk_buf_deinit(&f.parts);
    lk_id_map_free(f.left);
    free(f.done);
    return rc;
}
