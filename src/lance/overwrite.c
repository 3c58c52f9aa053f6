/*
 * overwrite.c - all rows and columns of a table are replaced by others, in one version. The old versions stay.
 *
 * The new version grows out of the newest one: its configuration, paths and unknown fields stay; its schema, rows and
 * indices go. Fragment ids go on counting, so no address ever means another row.
 */
#include "arrow/schema.h"
#include "lance/adapt.h"
#include "lance/alter.h"
#include "lance/change.h"
#include "lance/dataset_priv.h"
#include "lance/features.h"
#include "lance/fragment_write.h"
#include "lance/row_lineage.h"
#include "lance/wire.h"

#include <inttypes.h>

typedef struct overwrite {
    lk_change          base; /* first: plan_overwrite gets this */
    lk_lance_schema   *schema;
    int32_t            first_id; /* of its fields: above every one there was, where ids are never reused */
    lk_fragment_writer writer;
} overwrite;

static bool goes_with_overwrite(lk_operation other)
{
    switch (other) {
    case LK_OPERATION_APPEND:
    case LK_OPERATION_DELETE:
    case LK_OPERATION_CREATE_INDEX:
    case LK_OPERATION_REWRITE:
    case LK_OPERATION_MERGE:
    case LK_OPERATION_RESTORE:
    case LK_OPERATION_RESERVE_FRAGMENTS:
    case LK_OPERATION_UPDATE:
    case LK_OPERATION_PROJECT:
    case LK_OPERATION_UPDATE_CONFIG:
    case LK_OPERATION_DATA_REPLACEMENT:
    case LK_OPERATION_CLONE:
    case LK_OPERATION_UPDATE_BASES:
    case LK_OPERATION_DATA_OVERLAY:
        return true;
    case LK_OPERATION_UNKNOWN:
    case LK_OPERATION_OVERWRITE:
    case LK_OPERATION_UPDATE_MEM_WAL_STATE:
        break;
    }
    return false;
}

/* -- on top of a version --------------------------------------------------------------------------------- */

enum { MANIFEST_FIELDS = 1, MANIFEST_SCHEMA_METADATA = 5, MANIFEST_DATA_FORMAT = 15 };
enum { FORMAT_NAME = 1, FORMAT_VERSION = 2, PAIR_KEY = 1, PAIR_VALUE = 2 };

static void put_metadata(lk_buf *body, const lk_metadata_pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        lk_buf pair = {0};
        lk_wire_put_bytes(&pair, PAIR_KEY, pairs[i].key);
        lk_wire_put_bytes(&pair, PAIR_VALUE, pairs[i].value);
        lk_wire_put_bytes(body, MANIFEST_SCHEMA_METADATA, lk_buf_view(&pair));
        lk_buf_deinit(&pair);
    }
}

static void put_format(lk_buf *body, uint32_t minor)
{
    lk_buf format = {0}, text = {0};
    lk_buf_format(&text, "2.%u", minor);
    lk_wire_put_bytes(&format, FORMAT_NAME, LK_LITERAL("lance"));
    lk_wire_put_bytes(&format, FORMAT_VERSION, lk_buf_view(&text));
    lk_wire_put_bytes(body, MANIFEST_DATA_FORMAT, lk_buf_view(&format));
    lk_buf_deinit(&format);
    lk_buf_deinit(&text);
}

/* The tip's body with the new schema, by itself a whole one. */
static lk_rc new_body(const overwrite *o, const lk_manifest *tip, lk_arena *arena, lk_bytes *out, lk_err *err)
{
    const lk_field_record  *records = NULL;
    const lk_metadata_pair *metadata = NULL;
    size_t                  count = 0, metadata_count = 0;
    lk_buf                  body = {0};
    lk_bytes                rest = tip->body;
    lk_wire_field           field = {0};
    lk_lance_schema_records(o->schema, arena, &records, &count, &metadata, &metadata_count);
    const lk_bytes *fields = lk_pb_fields_encode(records, count, arena);
    for (size_t i = 0; i < count; i++) {
        lk_wire_put_bytes(&body, MANIFEST_FIELDS, fields[i]);
    }
    while (rest.size > 0) {
        if (!lk_wire_next(&rest, &field)) {
            lk_buf_deinit(&body);
            return lk_fail(err, LK_E_CORRUPT_FILE, "the manifest message is malformed");
        }
        if (field.number != MANIFEST_FIELDS && field.number != MANIFEST_SCHEMA_METADATA &&
            field.number != MANIFEST_DATA_FORMAT) {
            lk_buf_append_bytes(&body, field.whole);
        }
    }
    put_metadata(&body, metadata, metadata_count);
    put_format(&body, o->writer.file_minor);
    *out = lk_arena_copy(arena, lk_buf_view(&body));
    lk_buf_deinit(&body);
    return LK_OK;
}

static lk_rc plan_overwrite(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    overwrite         *o = (overwrite *)change;
    lk_pb_new_version *version = &plan->version;
    lk_buf             message = {0};
    uint64_t           next = tip->has_fragment_id_max ? (uint64_t)tip->fragment_id_max + 1 : 0;
    if (tip->has_field_id_max && lk_manifest_field_id_max(tip) >= o->first_id) {
        return lk_refuse(err, LK_E_CONFLICT, "columns were added meanwhile");
    }
    lk_rc rc = lk_fragment_writer_number(&o->writer, next, err);
    if (rc == LK_OK) {
        rc = new_body(o, tip, arena, &plan->body, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    version->replaces_fragments = true; /* by none; these follow */
    lk_fragment *fragments = lk_fragment_writer_fragments(&o->writer, &version->fragment_count);
    version->fragments = fragments;
    for (size_t i = 0; i < version->fragment_count && rc == LK_OK; i++) {
        rc = lk_row_lineage_finish(NULL, tip, version, arena, &fragments[i], err);
    }
    version->has_fragment_id_max = next + version->fragment_count > 0;
    version->fragment_id_max = (uint32_t)(next + version->fragment_count - version->has_fragment_id_max);
    plan->has_index_section = false;
    lk_pb_overwrite_encode(version->fragments, version->fragment_count, o->schema, &message);
    plan->operation = lk_arena_copy(arena, lk_buf_view(&message));
    lk_buf_deinit(&message);
    return rc;
}

static const lk_change_ops overwrite_ops = {LK_OPERATION_OVERWRITE, goes_with_overwrite, plan_overwrite};

/* -- overwriting ------------------------------------------------------------------------------------------- */

static lk_rc prepare(overwrite *o, const struct ArrowSchema *schema, lk_err *err)
{
    const lk_write_options *options = o->base.options;
    uint32_t                minor = o->base.base->file_minor;
    struct ArrowSchema      adapted = {0};
    if (options != NULL && options->file_version != LK_FILE_VERSION_DEFAULT) {
        minor = (uint32_t)options->file_version - LK_FILE_VERSION_2_0;
    }
    lk_rc rc = lk_manifest_check_writable(o->base.base, err);
    if (rc == LK_OK) {
        rc = lk_adapt_schema(schema, minor, &adapted, err);
    }
    if (rc == LK_OK) {
        const lk_manifest *table = o->base.base;
        o->first_id = table->has_field_id_max ? lk_manifest_field_id_max(table) + 1 : 0;
        rc = lk_lance_schema_from_arrow_at(&adapted, o->first_id, &o->schema, err);
    }
    lk_schema_release(&adapted);
    if (rc == LK_OK) {
        rc = lk_fragment_writer_check_types(&o->schema->arrow, minor, err);
    }
    lk_fragment_writer_init(
        &o->writer, &o->base, o->schema, options == NULL ? 0 : options->max_rows_per_file);
    o->writer.file_minor = minor;
    return rc;
}

lk_rc lk_dataset_overwrite(lk_dataset *base, lk_committer *committer, lk_batches *source,
    const lk_write_options *options, lk_dataset **out, lk_err *err)
{
    lk_manifest *committed = NULL;
    overwrite    o = {
           .base = {.ops = &overwrite_ops,
               .env = &base->env,
               .committer = committer,
               .options = options,
               .base = base->manifest},
    };
    lk_batches *rows = source;
    bool        outside = options != NULL && options->outside_blobs;
    lk_rc       rc = prepare(&o, &source->schema, err);
    if (rc == LK_OK) {
        rc = lk_adapt_rows(&o.schema->arrow, source, outside, &rows, err);
    }
    if (rc == LK_OK) {
        rc = lk_fragment_writer_write(&o.writer, rows, err);
        err->maybe_applied = false; /* files alone change nothing */
    }
    if (rows != source) {
        lk_batches_close(rows);
    }
    if (rc == LK_OK) {
        rc = lk_change_commit(&o.base, &committed, err);
    }
    if (rc == LK_OK) {
        *out = lk_dataset_new(&base->env, committed, base->files);
    } else {
        lk_change_undo(&o.base, err);
        lk_context(err, "overwrite version %" PRIu64 " of %.*s", base->manifest->version,
            LK_FMT(base->env.store->uri));
    }
    lk_fragment_writer_deinit(&o.writer);
    lk_lance_schema_close(o.schema);
    lk_change_deinit(&o.base);
    return rc;
}
