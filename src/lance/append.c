/*
 * append.c - making tables and adding rows to them: data files first, then the commit (change.h).
 */
#include "arrow/cast.h"
#include "arrow/schema.h"
#include "lance/adapt.h"
#include "lance/change.h"
#include "lance/dataset_priv.h"
#include "lance/fragment_write.h"
#include "lance/rebase.h"
#include "lance/row_lineage.h"
#include "lance/versions.h"

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
    append *a = (append *)change;
    lk_rc   rc = lk_change_check_files(tip, err);
    if (rc == LK_OK) {
        rc = lk_rebase_check_columns(change->base, tip, err);
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
    append             a = {
                    .base =
                        {
                            .ops = &append_ops,
                            .env = &base->env,
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

/* -- creating ---------------------------------------------------------------------------------------- */

typedef struct creation {
    lk_change              base; /* first: plan_creation gets this */
    const lk_lance_schema *schema;
} creation;

static lk_rc plan_creation(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    (void)tip;
    (void)err;
    lk_buf   message = {0};
    bool     stable = change->options != NULL && change->options->stable_row_ids;
    uint64_t flags = stable ? (uint64_t)LK_FLAG_STABLE_ROW_IDS : 0;
    plan->version.reader_flags = plan->version.writer_flags = flags;
    plan->schema = ((creation *)change)->schema;
    lk_pb_overwrite_encode(NULL, 0, plan->schema, &message);
    plan->operation = lk_arena_copy(arena, lk_buf_view(&message));
    lk_buf_deinit(&message);
    return LK_OK;
}

static const lk_change_ops creation_ops = {LK_OPERATION_OVERWRITE, NULL, plan_creation};

static lk_rc check_absent(const lk_lance_env *env, lk_err *err)
{
    lk_version latest = {0};
    bool       found = false;
    lk_rc      rc = lk_versions_latest(env->store, &latest, &found, err);
    return rc == LK_OK && found ? lk_fail(err, LK_E_TABLE_EXISTS, "a version exists already") : rc;
}

lk_rc lk_dataset_create(const lk_lance_env *env, lk_committer *committer, const struct ArrowSchema *schema,
    const lk_write_options *options, lk_dataset **out, lk_err *err)
{
    lk_lance_schema *lance_schema = NULL;
    lk_manifest     *committed = NULL;
    creation c = {.base = {.ops = &creation_ops, .env = env, .committer = committer, .options = options}};
    struct ArrowSchema adapted = {0};
    lk_rc              rc = lk_adapt_schema(schema, lk_change_file_minor(&c.base), &adapted, err);
    if (rc == LK_OK) {
        rc = lk_lance_schema_from_arrow(&adapted, &lance_schema, err);
    }
    if (rc == LK_OK) {
        c.schema = lance_schema;
        rc = lk_fragment_writer_check_types(&lance_schema->arrow, lk_change_file_minor(&c.base), err);
    }
    if (rc == LK_OK) {
        rc = check_absent(env, err);
    }
    if (rc == LK_OK) {
        rc = lk_change_commit(&c.base, &committed, err);
    }
    if (rc == LK_OK) {
        *out = lk_dataset_new(env, committed, NULL);
    } else {
        lk_change_undo(&c.base, err);
        lk_context(err, "create %.*s", LK_FMT(env->store->uri));
    }
    lk_change_deinit(&c.base);
    lk_schema_release(&adapted);
    lk_lance_schema_close(lance_schema);
    return rc;
}
