/*
 * delete.c - rows go by being listed in deletion files (row_loss.h); data files stay as they are.
 */
#include "arrow/schema.h"
#include "lance/alter.h"
#include "lance/change.h"
#include "lance/dataset_priv.h"
#include "lance/rebase.h"
#include "lance/row_loss.h"
#include "lance/wire.h"

#include <inttypes.h>

typedef struct delete_change {
    lk_change   base; /* first: plan_delete gets this */
    lk_dataset *dataset;
    lk_row_loss loss;
    lk_bytes    text;
    bool        moved; /* rows changed meanwhile: choosing them anew may help */
} delete_change;

enum { UPDATED_FRAGMENTS = 1, DELETED_FRAGMENT_IDS = 2, PREDICATE = 3 }; /* of Delete */

static lk_rc plan_delete(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    delete_change           *d = (delete_change *)change;
    const lk_row_loss_fields fields = {UPDATED_FRAGMENTS, DELETED_FRAGMENT_IDS};
    lk_buf                   operation = {0};
    lk_rc                    rc = lk_row_loss_plan(&d->loss, tip, fields, arena, plan, &operation, err);
    if (d->text.size > 0) {
        lk_wire_put_bytes(&operation, PREDICATE, d->text);
    }
    plan->operation = lk_arena_copy(arena, lk_buf_view(&operation));
    lk_buf_deinit(&operation);
    return rc;
}

static const lk_change_ops delete_ops = {LK_OPERATION_DELETE, lk_rebase_keeps_rows, plan_delete};

/* -- deleting -------------------------------------------------------------------------------------------- */

static lk_rc delete_once(
    delete_change *d, lk_row_set *rows, lk_delete_report *report, lk_dataset **out, lk_err *err)
{
    const lk_manifest *base = d->base.base;
    lk_manifest       *committed = NULL;
    lk_rc              rc = lk_manifest_check_writable(base, err);
    if (rc == LK_OK) {
        rc = lk_row_loss_init(&d->loss, &d->base, d->dataset, rows, err);
    }
    if (rc == LK_OK && d->loss.count > 0) {
        rc = lk_change_commit(&d->base, &committed, err);
    }
    if (rc == LK_OK) {
        *out = committed == NULL ? lk_dataset_ref(d->dataset)
                                 : lk_dataset_new(&d->dataset->env, committed, d->dataset->files);
        lk_row_loss_count(&d->loss, &report->rows, &report->fragments_changed, &report->fragments_removed);
    } else {
        lk_change_undo(&d->base, err);
        lk_context(
            err, "delete from version %" PRIu64 " of %.*s", base->version, LK_FMT(d->base.env->store->uri));
    }
    d->moved = d->loss.moved;
    lk_row_loss_deinit(&d->loss);
    lk_change_deinit(&d->base);
    return rc;
}

static delete_change new_delete(
    lk_dataset *base, lk_committer *committer, lk_bytes text, const lk_write_options *options)
{
    return (delete_change){
        .base = {.ops = &delete_ops,
            .env = &base->env,
            .committer = committer,
            .options = options,
            .base = base->manifest},
        .dataset = base,
        .text = text,
    };
}

lk_rc lk_dataset_delete_rows(lk_dataset *base, lk_committer *committer, lk_row_set *rows, lk_bytes text,
    const lk_write_options *options, lk_delete_report *report, lk_dataset **out, lk_err *err)
{
    lk_delete_report ignored;
    delete_change    d = new_delete(base, committer, text, options);
    report = report == NULL ? &ignored : report;
    *report = (lk_delete_report){0};
    return delete_once(&d, rows, report, out, err);
}

/* -- by choice ------------------------------------------------------------------------------------------- */

typedef struct chosen_delete {
    lk_committer           *committer;
    const lk_row_selector  *selector;
    const lk_write_options *options;
    lk_delete_report       *report;
    lk_dataset            **out;
} chosen_delete;

static lk_rc choose_and_delete(void *context, lk_dataset *version, bool *again, lk_err *err)
{
    const chosen_delete *self = context;
    lk_row_set          *rows = lk_row_set_new();
    *self->report = (lk_delete_report){0};
    lk_rc rc = self->selector->select(self->selector->context, version, rows, err);
    if (rc == LK_OK) {
        delete_change d = new_delete(version, self->committer, self->selector->text, self->options);
        rc = delete_once(&d, rows, self->report, self->out, err);
        *again = rc == LK_E_CONFLICT && d.moved && !err->maybe_applied;
    }
    lk_row_set_free(rows);
    return rc;
}

lk_rc lk_dataset_delete(lk_dataset *base, lk_committer *committer, const lk_row_selector *selector,
    const lk_write_options *options, lk_delete_report *report, lk_dataset **out, lk_err *err)
{
    lk_delete_report ignored;
    chosen_delete    self = {committer, selector, options, report == NULL ? &ignored : report, out};
    return lk_change_repeat(base, committer, choose_and_delete, &self, err);
}

static lk_rc add_rows(lk_batches *scan, lk_row_set *rows, lk_err *err)
{
    for (;;) {
        struct ArrowArray batch = {0};
        lk_rc             rc = lk_batches_next(scan, &batch, err);
        if (rc != LK_OK || batch.release == NULL) {
            return rc;
        }
        const struct ArrowArray *ids = batch.children[0];
        lk_row_set_add(
            rows, (const uint64_t *)ids->buffers[1] + ids->offset + batch.offset, (size_t)batch.length);
        lk_array_release(&batch);
    }
}

static lk_rc check_columns(const lk_predicate_selector *selector, const lk_dataset *version, lk_err *err)
{
    lk_err difference = {0};
    if (lk_schema_compare(selector->schema, lk_dataset_schema(version), LK_SCHEMA_APPEND, &difference) ==
        LK_OK) {
        return LK_OK;
    }
    lk_rc rc = lk_fail(err, LK_E_CONFLICT, "%s", difference.detail);
    lk_detail(err, "the table's columns were changed meanwhile");
    return rc;
}

static lk_rc select_by_predicate(void *context, lk_dataset *version, lk_row_set *rows, lk_err *err)
{
    const lk_predicate_selector *selector = context;
    lk_batches                  *scan = NULL;
    size_t                       no_column = 0;
    lk_scan_options              options = {
                     .columns = &no_column,
                     .meta = LK_META_ROW_ADDRESS,
                     .predicate = selector->predicate,
                     .limit = UINT64_MAX,
                     .unordered = true,
                     .cancel = selector->cancel,
    };
    lk_rc rc = check_columns(selector, version, err);
    if (rc == LK_OK) {
        rc = lk_dataset_scan(version, &options, &scan, err);
    }
    if (rc == LK_OK) {
        rc = add_rows(scan, rows, err);
    }
    lk_batches_close(scan);
    return rc;
}

void lk_predicate_selector_init(lk_predicate_selector *selector, lk_dataset *base,
    const lk_predicate *predicate, lk_bytes text, lk_cancel *cancel)
{
    *selector = (lk_predicate_selector){
        .base = {select_by_predicate, selector, text},
        .schema = lk_dataset_schema(base),
        .predicate = predicate,
        .cancel = cancel,
    };
}
