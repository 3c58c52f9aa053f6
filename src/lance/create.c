/* create.c - new tables, empty or with their first rows: version 1. */
#include "arrow/schema.h"
#include "lance/adapt.h"
#include "lance/change.h"
#include "lance/dataset_priv.h"
#include "lance/fragment_write.h"
#include "lance/row_lineage.h"
#include "lance/versions.h"

typedef struct creation {
    lk_change          base; /* first: plan_creation gets this */
    lk_lance_schema   *schema;
    lk_fragment_writer writer;
} creation;

/* The first fragments of a table that has no version to follow. */
static lk_rc number_fragments(
    creation *c, uint64_t flags, lk_arena *arena, lk_pb_new_version *version, lk_err *err)
{
    const lk_manifest nothing = {.reader_flags = flags};
    lk_rc             rc = lk_fragment_writer_number(&c->writer, 0, err);
    lk_fragment      *fragments = lk_fragment_writer_fragments(&c->writer, &version->fragment_count);
    version->fragments = fragments;
    for (size_t i = 0; rc == LK_OK && i < version->fragment_count; i++) {
        rc = lk_row_lineage_finish(NULL, &nothing, version, arena, &fragments[i], err);
    }
    version->has_fragment_id_max = version->fragment_count > 0;
    version->fragment_id_max = (uint32_t)(version->fragment_count - version->has_fragment_id_max);
    return rc;
}

static lk_rc plan_creation(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    (void)tip;
    creation *c = (creation *)change;
    lk_buf    message = {0};
    bool      stable = change->options != NULL && change->options->stable_row_ids;
    uint64_t  flags = stable ? (uint64_t)LK_FLAG_STABLE_ROW_IDS : 0;
    plan->version.reader_flags = plan->version.writer_flags = flags;
    plan->schema = c->schema;
    lk_rc rc = number_fragments(c, flags, arena, &plan->version, err);
    if (rc == LK_OK) {
        lk_pb_overwrite_encode(plan->version.fragments, plan->version.fragment_count, c->schema, &message);
        plan->operation = lk_arena_copy(arena, lk_buf_view(&message));
    }
    lk_buf_deinit(&message);
    return rc;
}

static const lk_change_ops creation_ops = {LK_OPERATION_OVERWRITE, NULL, plan_creation};

static lk_rc check_absent(const lk_lance_env *env, lk_err *err)
{
    lk_version latest = {0};
    bool       found = false;
    lk_rc      rc = lk_versions_latest(env->store, &latest, &found, err);
    return rc == LK_OK && found ? lk_fail(err, LK_E_TABLE_EXISTS, "a version exists already") : rc;
}

static lk_rc prepare(creation *c, const struct ArrowSchema *schema, lk_err *err)
{
    const lk_write_options *options = c->base.options;
    struct ArrowSchema      adapted = {0};
    lk_rc                   rc = lk_adapt_schema(schema, lk_change_file_minor(&c->base), &adapted, err);
    if (rc == LK_OK) {
        rc = lk_lance_schema_from_arrow(&adapted, &c->schema, err);
    }
    lk_schema_release(&adapted);
    if (rc == LK_OK) {
        rc = lk_fragment_writer_check_types(&c->schema->arrow, lk_change_file_minor(&c->base), err);
    }
    if (rc == LK_OK) {
        rc = check_absent(c->base.env, err);
    }
    lk_fragment_writer_init(
        &c->writer, &c->base, c->schema, options == NULL ? 0 : options->max_rows_per_file);
    return rc;
}

static lk_rc write_rows(creation *c, lk_batches *source, lk_err *err)
{
    lk_batches *rows = source;
    bool        outside = c->base.options != NULL && c->base.options->outside_blobs;
    lk_rc       rc = lk_adapt_rows(&c->schema->arrow, source, outside, &rows, err);
    if (rc == LK_OK) {
        rc = lk_fragment_writer_write(&c->writer, rows, err);
        err->maybe_applied = false; /* files alone change nothing */
    }
    if (rows != source) {
        lk_batches_close(rows);
    }
    return rc;
}

/* source: NULL for an empty table. */
static lk_rc create(const lk_lance_env *env, lk_committer *committer, const struct ArrowSchema *schema,
    lk_batches *source, const lk_write_options *options, lk_dataset **out, lk_err *err)
{
    lk_manifest     *committed = NULL;
    lk_write_options own = options == NULL ? (lk_write_options){0} : *options;
    if (own.file_version == LK_FILE_VERSION_DEFAULT && lk_schema_needs_2_2(schema)) {
        own.file_version = LK_FILE_VERSION_2_2;
    }
    creation c = {.base = {.ops = &creation_ops, .env = env, .committer = committer, .options = &own}};
    lk_rc    rc = prepare(&c, schema, err);
    if (rc == LK_OK && source != NULL) {
        rc = write_rows(&c, source, err);
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
    lk_fragment_writer_deinit(&c.writer);
    lk_change_deinit(&c.base);
    lk_lance_schema_close(c.schema);
    return rc;
}

lk_rc lk_dataset_create(const lk_lance_env *env, lk_committer *committer, const struct ArrowSchema *schema,
    const lk_write_options *options, lk_dataset **out, lk_err *err)
{
    return create(env, committer, schema, NULL, options, out, err);
}

lk_rc lk_dataset_create_filled(const lk_lance_env *env, lk_committer *committer, lk_batches *source,
    const lk_write_options *options, lk_dataset **out, lk_err *err)
{
    return create(env, committer, &source->schema, source, options, out, err);
}
