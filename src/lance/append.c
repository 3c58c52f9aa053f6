/*
 * append.c - adding rows to tables: data files first, then the commit (change.h).
 */
#include "arrow/cast.h"
#include "arrow/schema.h"
#include "lance/adapt.h"
#include "lance/change.h"
#include "lance/dataset_priv.h"
#include "lance/fragment_write.h"
#include "lance/rebase.h"
#include "lance/row_lineage.h"

#include <inttypes.h>
#include <stdlib.h>

/* -- the commit -------------------------------------------------------------------------------------- */

typedef struct append {
    lk_change          base; /* first: plan_append gets this */
    lk_fragment_writer writer;
    lk_buf             message; /* of the operation; names no fragment ids: the same on top of every tip */
} append;

static lk_rc number_fragments(
    append *a, const lk_manifest *tip, lk_arena *arena, lk_pb_new_version *version, lk_err *err)
{
    uint64_t next = tip->has_fragment_id_max ? (uint64_t)tip->fragment_id_max + 1 : 0;
    lk_rc    rc = lk_fragment_writer_number(&a->writer, next, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_fragment *fragments = lk_fragment_writer_fragments(&a->writer, &version->fragment_count);
    version->fragments = fragments;
    for (size_t i = 0; rc == LK_OK && i < version->fragment_count; i++) {
        rc = lk_row_lineage_finish(NULL, tip, version, arena, &fragments[i], err);
    }
    next += version->fragment_count;
    version->has_fragment_id_max = next > 0;
    version->fragment_id_max = (uint32_t)(next - (next > 0));
    return rc;
}

static lk_rc plan_append(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    append                 *a = (append *)change;
    const lk_write_options *options = change->options;
    lk_rc                   rc = lk_change_check_files(tip, err);
    if (rc == LK_OK) {
        rc = lk_rebase_check_columns(change->base, tip, err);
    }
    if (rc == LK_OK && options != NULL && options->accepts != NULL && tip->version != change->base->version) {
        rc = options->accepts(options->accepts_context, tip->version, err);
    }
    if (rc == LK_OK) {
        rc = number_fragments(a, tip, arena, &plan->version, err);
    }
    plan->operation = lk_buf_view(&a->message);
    return rc;
}

static const lk_change_ops append_ops = {LK_OPERATION_APPEND, lk_rebase_keeps_rows, plan_append};

/* -- appending --------------------------------------------------------------------------------------- */

static lk_rc check_append(const lk_manifest *base, lk_err *err)
{
    lk_rc rc = lk_manifest_check_writable(base, err);
    if (rc == LK_OK) {
        rc = lk_change_check_files(base, err);
    }
    if (rc == LK_OK) {
        rc = lk_fragment_writer_check(base->schema, base->file_minor, err);
    }
    return rc;
}

lk_rc lk_dataset_append(lk_dataset *base, lk_committer *committer, lk_batches *source,
    const lk_write_options *options, lk_dataset **out, lk_err *err)
{
    const lk_manifest *manifest = base->manifest;
    lk_manifest       *committed = NULL;
    lk_lance_env       env = base->env;
    env.store = options == NULL || options->late == NULL ? env.store : options->late;
    append a = {
        .base =
            {
                .ops = &append_ops,
                .env = &env,
                .committer = committer,
                .options = options,
                .base = manifest,
            },
    };
    lk_fragment_writer_init(
        &a.writer, &a.base, manifest->schema, options == NULL ? 0 : options->max_rows_per_file);
    lk_batches *rows = source;
    bool        outside = options != NULL && options->outside_blobs;
    lk_rc       rc = check_append(manifest, err);
    if (rc == LK_OK) {
        rc = lk_adapt_rows(&manifest->schema->arrow, source, outside, &rows, err);
    }
    if (rc == LK_OK) {
        rc = lk_fragment_writer_write(&a.writer, rows, err);
        err->maybe_applied = false; /* files alone change nothing */
    }
    if (rc == LK_OK) {
        size_t             count = 0;
        const lk_fragment *fragments = lk_fragment_writer_fragments(&a.writer, &count);
        lk_pb_append_encode(fragments, count, &a.message);
        rc = lk_change_commit(&a.base, &committed, err);
    }
    if (rc == LK_OK) {
        *out = lk_dataset_new(&base->env, committed, base->files);
    } else {
        lk_change_undo(&a.base, err);
        lk_context(
            err, "append to version %" PRIu64 " of %.*s", manifest->version, LK_FMT(base->env.store->uri));
    }
    if (rows != source) {
        lk_batches_close(rows);
    }
    lk_fragment_writer_deinit(&a.writer);
    lk_buf_deinit(&a.message);
    lk_change_deinit(&a.base);
    return rc;
}
