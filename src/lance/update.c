/*
 * update.c - rows that change: the new ones are written as new fragments, the old ones go (row_loss.h), in one version.
 *
 * The changer's batches are written as they come; the addresses in their last column say which rows they replace.
 */
#include "arrow/schema.h"
#include "base/limits.h"
#include "lance/alter.h"
#include "lance/change.h"
#include "lance/dataset_priv.h"
#include "lance/fragment_write.h"
#include "lance/rebase.h"
#include "lance/row_loss.h"
#include "lance/wire.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct update {
    lk_change             base; /* first: plan_update gets this */
    const lk_row_changer *changer;
    lk_dataset           *dataset;
    lk_row_set           *rows; /* that go: replaced ones and removed ones */
    lk_fragment_writer    writer;
    lk_row_loss           loss;
    uint64_t              replaced, inserted;
    bool                  moved; /* what was chosen changed meanwhile: choosing anew may help */
} update;

/* -- the rows of the changer, without their addresses ---------------------------------------------------------- */

typedef struct new_rows {
    lk_batches  base;
    lk_batches *changed;
    update     *update;
} new_rows;

/* Notes the addresses of one batch; null is a new row. */
static lk_rc note_addresses(update *u, const struct ArrowArray *column, lk_err *err)
{
    const uint64_t *addresses = (const uint64_t *)column->buffers[1] + column->offset;
    const uint8_t  *valid = column->buffers[0];
    int64_t         first = 0;
    uint64_t        before = lk_row_set_count(u->rows), count = 0;
    for (int64_t i = 0; i <= column->length; i++) {
        int64_t bit = column->offset + i;
        if (i < column->length && (valid == NULL || (valid[bit / 8] >> (bit % 8) & 1) != 0)) {
            continue;
        }
        lk_row_set_add(u->rows, addresses + first, (size_t)(i - first));
        count += (uint64_t)(i - first);
        first = i + 1;
    }
    u->replaced += count;
    u->inserted += (uint64_t)column->length - count;
    return lk_row_set_count(u->rows) == before + count
               ? LK_OK
               : lk_refuse(err, LK_E_INVALID_REQUEST, "a row would be changed twice");
}

static lk_rc next_new_rows(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    new_rows         *self = (new_rows *)batches;
    size_t            count = (size_t)self->base.schema.n_children;
    struct ArrowArray batch = {0}, addresses = {0};
    lk_rc             rc = lk_batches_next(self->changed, &batch, err);
    if (rc != LK_OK || batch.release == NULL) {
        return rc;
    }
    int64_t            length = batch.length;
    struct ArrowArray *columns = calloc(count + 1, sizeof *columns);
    lk_shared_array   *shared = lk_array_share(&batch);
    LK_ASSERT(columns != NULL);
    lk_shared_batch_column(shared, count, &addresses);
    rc = note_addresses(self->update, &addresses, err);
    for (size_t i = 0; i < count && rc == LK_OK; i++) {
        lk_shared_batch_column(shared, i, &columns[i]);
    }
    if (rc == LK_OK) {
        lk_batch_of_columns(columns, count, length, out);
    }
    lk_array_release(&addresses);
    lk_shared_array_unref(shared);
    free(columns);
    return rc;
}

static void close_new_rows(lk_batches *batches)
{
    lk_schema_release(&batches->schema);
}

/* The columns of a change: the version's and the addresses. */
static lk_rc check_columns(const update *u, const struct ArrowSchema *changed, lk_err *err)
{
    const struct ArrowSchema *own = lk_dataset_schema(u->dataset);
    if (changed->n_children != own->n_children + 1 ||
        strcmp(changed->children[own->n_children]->format, "L") != 0) {
        return lk_fail(err, LK_E_INTERNAL, "changed rows have %lld columns", (long long)changed->n_children);
    }
    return LK_OK;
}

static lk_rc write_rows(update *u, lk_batches *changed, lk_err *err)
{
    new_rows rows = {
        .base = {.next = next_new_rows, .close = close_new_rows}, .changed = changed, .update = u};
    lk_rc rc = check_columns(u, &changed->schema, err);
    if (rc == LK_OK) {
        rc = lk_schema_copy(lk_dataset_schema(u->dataset), &rows.base.schema, err);
    }
    if (rc == LK_OK) {
        rc = lk_fragment_writer_write(&u->writer, &rows.base, err);
        err->maybe_applied = false; /* files alone change nothing */
    }
    lk_batches_close(&rows.base);
    return rc;
}

/* -- on top of a version --------------------------------------------------------------------------------------- */

static lk_rc moved(update *u, const lk_manifest *tip, const char *how, lk_err *err)
{
    u->moved = true;
    lk_rc rc = lk_fail(err, LK_E_CONFLICT, "%s in version %" PRIu64, how, tip->version);
    lk_detail(err, "%s meanwhile", how);
    return rc;
}

/* A column that base does not know would be null in the rows that move. */
static lk_rc check_no_new_column(update *u, const lk_manifest *tip, lk_err *err)
{
    for (size_t i = 0; i < tip->schema->field_count; i++) {
        if (lk_lance_schema_find(u->base.base->schema, tip->schema->fields[i].id) == SIZE_MAX) {
            return moved(u, tip, "columns were added", err);
        }
    }
    return LK_OK;
}

static int compare_ids(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* Keys were looked for in base's rows: there may be no others now. */
static lk_rc check_no_new_rows(update *u, const lk_manifest *tip, lk_arena *arena, lk_err *err)
{
    const lk_manifest *base = u->base.base;
    uint64_t          *known = lk_arena_take(arena, (base->fragment_count + 1) * sizeof *known);
    for (size_t i = 0; i < base->fragment_count; i++) {
        known[i] = base->fragments[i].id;
    }
    qsort(known, base->fragment_count, sizeof *known, compare_ids);
    for (size_t i = 0; i < tip->fragment_count; i++) {
        if (bsearch(&tip->fragments[i].id, known, base->fragment_count, sizeof *known, compare_ids) == NULL) {
            return moved(u, tip, "rows were added", err);
        }
    }
    return LK_OK;
}

static lk_rc number_fragments(update *u, const lk_manifest *tip, lk_pb_new_version *version, lk_err *err)
{
    uint64_t next = tip->has_fragment_id_max ? (uint64_t)tip->fragment_id_max + 1 : 0;
    lk_rc    rc = lk_fragment_writer_number(&u->writer, next, err);
    if (rc != LK_OK) {
        return rc;
    }
    version->fragments = lk_fragment_writer_fragments(&u->writer, &version->fragment_count);
    next += version->fragment_count;
    version->has_fragment_id_max = next > 0;
    version->fragment_id_max = (uint32_t)(next - (next > 0));
    return LK_OK;
}

static lk_rc check_tip(update *u, const lk_manifest *tip, lk_arena *arena, lk_err *err)
{
    lk_rc rc = lk_change_check_files(tip, err);
    if (rc == LK_OK) {
        rc = check_no_new_column(u, tip, err);
    }
    return rc == LK_OK && u->changer->by_key ? check_no_new_rows(u, tip, arena, err) : rc;
}

static lk_rc plan_update(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    enum { REMOVED_FRAGMENT_IDS = 1, UPDATED_FRAGMENTS = 2, NEW_FRAGMENTS = 3 };
    const lk_row_loss_fields fields = {UPDATED_FRAGMENTS, REMOVED_FRAGMENT_IDS};
    update                  *u = (update *)change;
    lk_buf                   operation = {0}, message = {0};
    lk_rc                    rc = check_tip(u, tip, arena, err);
    if (rc == LK_OK) {
        rc = lk_row_loss_plan(&u->loss, tip, fields, arena, plan, &operation, err);
        u->moved |= u->loss.moved;
    }
    if (rc == LK_OK) {
        rc = number_fragments(u, tip, &plan->version, err);
    }
    for (size_t i = 0; i < plan->version.fragment_count && rc == LK_OK; i++) {
        lk_buf_clear(&message);
        lk_pb_fragment_encode(&plan->version.fragments[i], &message);
        lk_wire_put_bytes(&operation, NEW_FRAGMENTS, lk_buf_view(&message));
    }
    plan->operation = lk_arena_copy(arena, lk_buf_view(&operation));
    lk_buf_deinit(&operation);
    lk_buf_deinit(&message);
    return rc;
}

static const lk_change_ops update_ops = {LK_OPERATION_UPDATE, lk_rebase_keeps_rows, plan_update};

/* -- updating --------------------------------------------------------------------------------------------------- */

static lk_rc check(const lk_manifest *base, lk_err *err)
{
    lk_rc rc = lk_manifest_check_writable(base, err);
    if (rc == LK_OK) {
        rc = lk_change_check_files(base, err);
    }
    return rc == LK_OK ? lk_fragment_writer_check(base->schema, base->file_minor, err) : rc;
}

static lk_rc change_rows(update *u, lk_err *err)
{
    lk_batches *changed = NULL;
    lk_rc       rc = check(u->base.base, err);
    if (rc == LK_OK) {
        rc = u->changer->change(u->changer->context, u->dataset, u->rows, &changed, err);
    }
    if (rc == LK_OK) {
        rc = write_rows(u, changed, err);
    }
    lk_batches_close(changed);
    return rc == LK_OK ? lk_row_loss_init(&u->loss, &u->base, u->dataset, u->rows, err) : rc;
}

static void make_report(const update *u, lk_update_report *report)
{
    uint64_t lost = 0;
    size_t   written = 0;
    lk_row_loss_count(&u->loss, &lost, &report->fragments_changed, &report->fragments_removed);
    (void)lk_fragment_writer_fragments(&u->writer, &written);
    report->rows_updated = u->replaced;
    report->rows_inserted = u->inserted;
    report->rows_deleted = lost - u->replaced;
    report->fragments_written = written;
}

static lk_rc commit(update *u, lk_update_report *report, lk_dataset **out, lk_err *err)
{
    lk_manifest *committed = NULL;
    if (u->loss.count == 0 && u->inserted == 0) {
        *out = lk_dataset_ref(u->dataset);
        return LK_OK;
    }
    lk_rc rc = lk_change_commit(&u->base, &committed, err);
    if (rc == LK_OK) {
        *out = lk_dataset_new(&u->dataset->env, committed, u->dataset->files);
        make_report(u, report);
    }
    return rc;
}

static lk_rc update_once(lk_dataset *version, lk_committer *committer, const lk_row_changer *changer,
    const lk_write_options *options, lk_update_report *report, bool *again, lk_dataset **out, lk_err *err)
{
    update u = {
        .base = {.ops = &update_ops,
            .env = &version->env,
            .committer = committer,
            .options = options,
            .base = version->manifest},
        .changer = changer,
        .dataset = version,
        .rows = lk_row_set_new(),
    };
    lk_fragment_writer_init(
        &u.writer, &u.base, version->manifest->schema, options == NULL ? 0 : options->max_rows_per_file);
    lk_rc rc = change_rows(&u, err);
    if (rc == LK_OK) {
        rc = commit(&u, report, out, err);
    }
    if (rc != LK_OK) {
        lk_change_undo(&u.base, err);
        lk_context(err, "update of version %" PRIu64 " of %.*s", version->manifest->version,
            LK_FMT(version->env.store->uri));
    }
    *again = rc == LK_E_CONFLICT && u.moved && !err->maybe_applied;
    lk_row_loss_deinit(&u.loss);
    lk_row_set_free(u.rows);
    lk_fragment_writer_deinit(&u.writer);
    lk_change_deinit(&u.base);
    return rc;
}

lk_rc lk_dataset_update(lk_dataset *base, lk_committer *committer, const lk_row_changer *changer,
    const lk_write_options *options, lk_update_report *report, lk_dataset **out, lk_err *err)
{
    lk_update_report ignored;
    lk_dataset      *version = lk_dataset_ref(base);
    lk_rc            rc = LK_OK;
    report = report == NULL ? &ignored : report;
    for (unsigned attempt = 0;; attempt++) {
        bool again = false;
        *report = (lk_update_report){0};
        rc = update_once(version, committer, changer, options, report, &again, out, err);
        if (!again || !committer->stands_alone || attempt + 1 == LK_COMMIT_ATTEMPTS_MAX) {
            break;
        }
        *err = (lk_err){0};
        lk_dataset_unref(version);
        version = NULL;
        rc = lk_dataset_open(&base->env, 0, &version, err);
        if (rc != LK_OK) {
            break;
        }
    }
    lk_dataset_unref(version);
    return rc;
}
