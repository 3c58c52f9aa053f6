/*
 * update.c - rows that change: the new ones are written as new fragments, the old ones go (row_loss.h), in one version.
 *
 * The changer's batches are written as they come; the addresses in their last column say which rows they replace.
 */
#include "arrow/schema.h"
#include "lance/alter.h"
#include "lance/change.h"
#include "lance/dataset_priv.h"
#include "lance/fragment_write.h"
#include "lance/rebase.h"
#include "lance/row_lineage.h"
#include "lance/row_loss.h"
#include "lance/wire.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct update {
    lk_change             base; /* first: plan_update gets this */
    const lk_row_changer *changer;
    lk_dataset           *dataset;
    lk_row_set           *rows; /* that go: replaced ones and removed ones */
    lk_fragment_writer    moved_rows, added;
    bool                  stable;    /* rows have ids that they keep */
    lk_buf                addresses; /* then: of moved_rows, as they are written */
    lk_buf                batch;     /* addresses of one batch */
    lk_row_loss           loss;
    uint64_t              replaced, inserted;
    bool                  moved; /* what was chosen changed meanwhile: choosing anew may help */
    struct ArrowSchema    given; /* the changer's columns without the addresses; borrowed */
} update;

/* -- the changer's rows, without their addresses --------------------------------------------------------------- */

/* Notes the addresses of one batch; null is a new row. selection: 1 for each row that has one, else 0. */
static lk_rc note_addresses(
    update *u, const struct ArrowArray *column, uint8_t *selection, int64_t *found, lk_err *err)
{
    const uint64_t *addresses = (const uint64_t *)column->buffers[1] + column->offset;
    const uint8_t  *valid = column->buffers[0];
    uint64_t        before = lk_row_set_count(u->rows);
    size_t          count = 0;
    lk_buf_clear(&u->batch);
    lk_buf_reserve(&u->batch, (size_t)(column->length + 1) * sizeof(uint64_t));
    uint64_t *known = (uint64_t *)(void *)u->batch.data;
    for (int64_t i = 0; i < column->length; i++) {
        int64_t bit = column->offset + i;
        if (valid == NULL || (valid[bit / 8] >> (bit % 8) & 1) != 0) {
            selection[i] = 1;
            known[count++] = addresses[i];
        }
    }
    lk_row_set_add(u->rows, known, count);
    if (u->stable) {
        lk_buf_append(&u->addresses, known, count * sizeof *known);
    }
    *found = (int64_t)count;
    return lk_row_set_count(u->rows) == before + count
               ? LK_OK
               : lk_refuse(err, LK_E_INVALID_REQUEST, "a row would be changed twice");
}

/* The rows that are selected, or those that are not, of a batch. */
static lk_rc write_selected(update *u, lk_fragment_writer *writer, const struct ArrowArray *batch,
    const uint8_t *selection, int64_t count, lk_err *err)
{
    struct ArrowArray some = {0};
    if (count == 0) {
        return LK_OK;
    }
    lk_rc rc = lk_array_filter(&u->given, batch, selection, count, &some, err);
    return rc == LK_OK ? lk_fragment_writer_add(writer, &some, err) : rc;
}

static lk_rc write_batch(update *u, struct ArrowArray *batch, uint8_t *selection, int64_t found, lk_err *err)
{
    int64_t length = batch->length;
    u->replaced += (uint64_t)found;
    u->inserted += (uint64_t)(length - found);
    if (found == length || found == 0) {
        return lk_fragment_writer_add(found == 0 ? &u->added : &u->moved_rows, batch, err);
    }
    lk_rc rc = write_selected(u, &u->moved_rows, batch, selection, found, err);
    for (int64_t i = 0; i < length; i++) {
        selection[i] = !selection[i];
    }
    return rc == LK_OK ? write_selected(u, &u->added, batch, selection, length - found, err) : rc;
}

/* Takes the batch apart: its columns and the addresses. */
static lk_rc write_changed(update *u, struct ArrowArray *take, lk_err *err)
{
    size_t             count = (size_t)lk_dataset_schema(u->dataset)->n_children;
    int64_t            length = take->length, found = 0;
    struct ArrowArray  addresses = {0}, rows = {0};
    struct ArrowArray *columns = calloc(count + 1, sizeof *columns);
    uint8_t           *selection = calloc((size_t)length + 1, 1);
    lk_shared_array   *shared = lk_array_share(take);
    LK_ASSERT(columns != NULL && selection != NULL);
    lk_shared_batch_column(shared, count, &addresses);
    for (size_t i = 0; i < count; i++) {
        lk_shared_batch_column(shared, i, &columns[i]);
    }
    lk_batch_of_columns(columns, count, length, &rows);
    lk_rc rc = note_addresses(u, &addresses, selection, &found, err);
    if (rc == LK_OK && length > 0) {
        rc = write_batch(u, &rows, selection, found, err);
    }
    lk_array_release(&rows);
    lk_array_release(&addresses);
    lk_shared_array_unref(shared);
    free(columns);
    free(selection);
    return rc;
}

static lk_rc write_rows(update *u, lk_batches *changed, lk_err *err)
{
    const struct ArrowSchema *own = lk_dataset_schema(u->dataset);
    if (changed->schema.n_children != own->n_children + 1 ||
        strcmp(changed->schema.children[own->n_children]->format, "L") != 0) {
        return lk_fail(err, LK_E_INTERNAL, "changed rows have other columns than the table");
    }
    u->given = changed->schema;
    u->given.n_children = own->n_children;
    for (;;) {
        struct ArrowArray batch = {0};
        lk_rc             rc = lk_batches_next(changed, &batch, err);
        if (rc == LK_OK && batch.release == NULL) {
            rc = lk_fragment_writer_end(&u->moved_rows, err);
            return rc == LK_OK ? lk_fragment_writer_end(&u->added, err) : rc;
        }
        if (rc == LK_OK) {
            rc = write_changed(u, &batch, err);
        }
        if (rc != LK_OK) {
            return rc;
        }
    }
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

/* The rows of this fragment are those of the addresses from number `first` on. */
static lk_rc keep_identity(update *u, const lk_manifest *tip, size_t first, lk_pb_new_version *version,
    lk_arena *arena, lk_fragment *fragment, lk_err *err)
{
    const uint64_t *addresses = (const uint64_t *)(const void *)u->addresses.data;
    lk_row_lineage  lineage = {0};
    if (!u->stable) {
        return LK_OK;
    }
    lk_rc rc =
        lk_row_lineage_move(&lineage, u->dataset, addresses + first, (size_t)fragment->physical_rows, err);
    if (rc == LK_OK) {
        rc = lk_row_lineage_finish(&lineage, tip, version, arena, fragment, err);
    }
    lk_row_lineage_deinit(&lineage);
    return rc;
}

/* Moved rows come first: their ids are known, and those of new rows follow. */
static lk_rc number_fragments(
    update *u, const lk_manifest *tip, lk_arena *arena, lk_pb_new_version *version, lk_err *err)
{
    size_t       moved_count = 0, added_count = 0;
    uint64_t     next = tip->has_fragment_id_max ? (uint64_t)tip->fragment_id_max + 1 : 0;
    lk_fragment *moved_rows = lk_fragment_writer_fragments(&u->moved_rows, &moved_count);
    lk_fragment *added = lk_fragment_writer_fragments(&u->added, &added_count);
    lk_fragment *all = lk_arena_take(arena, (moved_count + added_count + 1) * sizeof *all);
    lk_rc        rc = lk_fragment_writer_number(&u->moved_rows, next, err);
    if (rc == LK_OK) {
        rc = lk_fragment_writer_number(&u->added, next + moved_count, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    for (size_t i = 0, at = 0; i < moved_count + added_count && rc == LK_OK; i++) {
        all[i] = i < moved_count ? moved_rows[i] : added[i - moved_count];
        rc = i < moved_count ? keep_identity(u, tip, at, version, arena, &all[i], err)
                             : lk_row_lineage_finish(NULL, tip, version, arena, &all[i], err);
        at += (size_t)all[i].physical_rows;
    }
    version->fragments = all;
    version->fragment_count = moved_count + added_count;
    next += version->fragment_count;
    version->has_fragment_id_max = next > 0;
    version->fragment_id_max = (uint32_t)(next - (next > 0));
    return rc;
}

/* Where the moved rows went, for the indices. */
static const lk_index_moves *moves_of(update *u, const lk_pb_new_version *version, lk_arena *arena)
{
    const lk_lance_schema *schema = u->base.base->schema;
    lk_index_moves        *moves = lk_arena_take(arena, sizeof *moves);
    size_t                 columns = (size_t)schema->arrow.n_children;
    int32_t               *same = lk_arena_take(arena, (columns + 1) * sizeof *same);
    *moves = (lk_index_moves){.same = same};
    (void)lk_fragment_writer_fragments(&u->moved_rows, &moves->count);
    if (!u->stable || u->changer->keeps == NULL || moves->count == 0) {
        return NULL;
    }
    moves->first = version->fragments[0].id;
    for (size_t i = 0; i < columns; i++) {
        if (u->changer->keeps(u->changer->context, schema->arrow.children[i])) {
            same[moves->same_count++] = schema->fields[schema->top[i]].id;
        }
    }
    return moves;
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
        rc = number_fragments(u, tip, arena, &plan->version, err);
    }
    if (rc == LK_OK) {
        plan->moves = moves_of(u, &plan->version, arena);
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

/* All rows that go must be there, or one would come back. */
static lk_rc check_rows(const update *u, lk_err *err)
{
    uint64_t lost = 0, changed = 0, removed = 0;
    lk_row_loss_count(&u->loss, &lost, &changed, &removed);
    return lost == lk_row_set_count(u->rows)
               ? LK_OK
               : lk_refuse(err, LK_E_INVALID_REQUEST, "a row that is to be changed was deleted before");
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
    err->maybe_applied = false; /* files alone change nothing */
    if (rc == LK_OK) {
        rc = lk_row_loss_init(&u->loss, &u->base, u->dataset, u->rows, err);
    }
    return rc == LK_OK ? check_rows(u, err) : rc;
}

static void make_report(const update *u, lk_update_report *report)
{
    uint64_t lost = 0;
    size_t   moved_count = 0, added_count = 0;
    lk_row_loss_count(&u->loss, &lost, &report->fragments_changed, &report->fragments_removed);
    (void)lk_fragment_writer_fragments(&u->moved_rows, &moved_count);
    (void)lk_fragment_writer_fragments(&u->added, &added_count);
    report->rows_updated = u->replaced;
    report->rows_inserted = u->inserted;
    report->rows_deleted = lost - u->replaced;
    report->fragments_written = moved_count + added_count;
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

typedef struct chosen_update {
    lk_committer           *committer;
    const lk_row_changer   *changer;
    const lk_write_options *options;
    lk_update_report       *report;
    lk_dataset            **out;
} chosen_update;

static lk_rc update_once(void *context, lk_dataset *version, bool *again, lk_err *err)
{
    const chosen_update *self = context;
    update               u = {
                      .base = {.ops = &update_ops,
                          .env = &version->env,
                          .committer = self->committer,
                          .options = self->options,
                          .base = version->manifest},
                      .changer = self->changer,
                      .dataset = version,
                      .rows = lk_row_set_new(),
                      .stable = lk_dataset_has_stable_row_ids(version),
    };
    uint64_t rows_max = self->options == NULL ? 0 : self->options->max_rows_per_file;
    *self->report = (lk_update_report){0};
    lk_fragment_writer_init(&u.moved_rows, &u.base, version->manifest->schema, rows_max);
    lk_fragment_writer_init(&u.added, &u.base, version->manifest->schema, rows_max);
    lk_rc rc = change_rows(&u, err);
    if (rc == LK_OK) {
        rc = commit(&u, self->report, self->out, err);
    }
    if (rc != LK_OK) {
        lk_change_undo(&u.base, err);
        lk_context(err, "update of version %" PRIu64 " of %.*s", version->manifest->version,
            LK_FMT(version->env.store->uri));
    }
    *again = rc == LK_E_CONFLICT && u.moved && !err->maybe_applied;
    lk_row_loss_deinit(&u.loss);
    lk_row_set_free(u.rows);
    lk_fragment_writer_deinit(&u.moved_rows);
    lk_fragment_writer_deinit(&u.added);
    lk_buf_deinit(&u.addresses);
    lk_buf_deinit(&u.batch);
    lk_change_deinit(&u.base);
    return rc;
}

lk_rc lk_dataset_update(lk_dataset *base, lk_committer *committer, const lk_row_changer *changer,
    const lk_write_options *options, lk_update_report *report, lk_dataset **out, lk_err *err)
{
    lk_update_report ignored;
    chosen_update    self = {committer, changer, options, report == NULL ? &ignored : report, out};
    return lk_change_repeat(base, committer, update_once, &self, err);
}
