/* rows_take.c - see rows.h: rows read from files, by where they are. */
#include "arrow/schema.h"
#include "lance/take.h"
#include "rollout/rows.h"

#include <stdlib.h>

static lk_rc concat(const struct ArrowSchema *schema, lk_buf *list, struct ArrowArray *out, lk_err *err)
{
    struct ArrowArray *arrays = (struct ArrowArray *)(void *)list->data;
    size_t             count = list->size / sizeof *arrays;
    lk_rc              rc = LK_OK;
    if (count == 1) {
        lk_array_move(&arrays[0], out);
    } else {
        rc = lk_array_concat(schema, arrays, count, out, err);
    }
    for (size_t i = 0; i < count; i++) {
        lk_array_release(&arrays[i]);
    }
    lk_buf_deinit(list);
    return rc;
}

lk_rc lk_rollout_take(lk_dataset *dataset, const uint64_t *addresses, size_t count,
    const struct ArrowSchema *to, lk_cancel *cancel, struct ArrowArray *out, lk_err *err)
{
    const struct ArrowSchema *table = lk_dataset_schema(dataset);
    lk_batches               *batches = NULL;
    lk_buf                    list = {0};
    size_t                    columns[LK_RECORD_COLUMNS], column_count = 0;
    struct ArrowArray         whole = {0};
    for (int64_t i = 0; i < to->n_children; i++) {
        int64_t at = lk_schema_find(table, lk_bytes_of(to->children[i]->name));
        if (at >= 0) {
            columns[column_count++] = (size_t)at;
        }
    }
    const lk_take_rows    rows = {LK_TAKE_ADDRESS, addresses, count};
    const lk_scan_options options = {.columns = columns,
        .column_count = column_count,
        .dictionary_values = true,
        .limit = UINT64_MAX,
        .cancel = cancel};
    lk_rc                 rc = lk_dataset_take(dataset, &rows, &options, &batches, err);
    for (bool more = rc == LK_OK; more;) {
        struct ArrowArray batch = {0}, aligned = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        if (more) {
            rc = lk_rollout_rows_align(&batches->schema, &batch, to, &aligned, err);
            more = rc == LK_OK;
        }
        if (more) {
            lk_buf_append(&list, &aligned, sizeof aligned);
        }
    }
    lk_batches_close(batches);
    lk_rc joined = concat(to, &list, &whole, rc == LK_OK ? err : &(lk_err){0});
    rc = rc == LK_OK ? joined : rc;
    if (rc == LK_OK && whole.length != (int64_t)count) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "rows that were listed are gone");
    }
    if (rc == LK_OK) {
        lk_array_move(&whole, out);
    }
    lk_array_release(&whole);
    return rc;
}

lk_rc lk_rollout_rows_take(const lk_rollout_rows *rows, const uint64_t *places, size_t count,
    const struct ArrowSchema *to, lk_cancel *cancel, struct ArrowArray *out, lk_err *err)
{
    lk_dataset *dataset = NULL;
    lk_err      opening = {0};
    uint64_t   *addresses = calloc(count + 1, sizeof *addresses);
    LK_ASSERT(addresses != NULL);
    for (size_t i = 0; i < count; i++) {
        addresses[i] = rows->addresses[places[i]];
    }
    lk_rc rc = lk_rollout_rows_dataset(rows, &dataset, &opening);
    if (rc == LK_OK) {
        rc = lk_rollout_take(dataset, addresses, count, to, cancel, out, &opening);
    }
    if (rc == LK_E_NOT_FOUND) {
        rc = lk_refuse(err, LK_E_SNAPSHOT_GONE,
            "a generation was merged and collected since this snapshot: read from a new one");
    } else if (rc != LK_OK) {
        *err = opening;
    }
    lk_dataset_unref(dataset);
    free(addresses);
    return rc;
}
