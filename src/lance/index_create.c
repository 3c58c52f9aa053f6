/*
 * index_create.c - making, updating and dropping an index: its files first, then the commit (change.h).
 *
 * Others may commit while an index is made. What it covers is then what still is as it was in base, as for any index
 * (index_keep.c); only an index of the same name that came meanwhile does not go with it.
 */
#include "lance/columns_priv.h"
#include "lance/index_order.h"
#include "lance/index_write.h"
#include "lance/rebase.h"
#include "lance/row_ids.h"
#include "lance/wire.h"

#include <inttypes.h>
#include <roaring/roaring.h>
#include <stdlib.h>

typedef struct index_change {
    lk_change       base; /* first: plan_index gets this */
    lk_dataset     *dataset;
    lk_bytes        name;
    const lk_index *indices; /* of base */
    size_t          index_count;
    lk_buf          message; /* the new IndexMetadata; empty: only drop */
    lk_uuid         uuid;
} index_change;

/* -- committing ------------------------------------------------------------------------------------------ */
static bool is_of_base(const index_change *c, const lk_index *index)
{
    for (size_t i = 0; i < c->index_count; i++) {
        if (memcmp(c->indices[i].uuid.bytes, index->uuid.bytes, sizeof index->uuid.bytes) == 0) {
            return true;
        }
    }
    return false;
}

static lk_rc check_known(const index_change *c, const lk_index *index, lk_err *err)
{
    if (is_of_base(c, index)) {
        return LK_OK;
    }
    lk_rc rc = lk_fail(err, LK_E_CONFLICT, "index %.*s", LK_FMT(c->name));
    lk_detail(err, "index %.*s was made by another writer meanwhile",
        (int)(c->name.size < 100 ? c->name.size : 100), c->name.data);
    return rc;
}

/* The tip's section without the index of this name, which goes into the operation as removed. */
static lk_rc remove_index(
    const index_change *c, lk_bytes section, lk_arena *arena, lk_buf *left, lk_buf *operation, lk_err *err)
{
    enum { OPERATION_REMOVED = 2 };
    lk_wire_field part = {0};
    lk_rc         rc = LK_OK;
    while (rc == LK_OK && section.size > 0) {
        lk_index index = {0};
        lk_bytes bitmap = {0};
        uint32_t base = 0;
        bool     has_base = false;
        if (!lk_wire_next(&section, &part) ||
            (part.number == LK_INDEX_SECTION_INDICES &&
                !lk_index_parse(part.value, arena, &index, &bitmap, &base, &has_base))) {
            rc = lk_fail(err, LK_E_CORRUPT_FILE, "the index section is malformed");
        } else if (part.number == LK_INDEX_SECTION_INDICES && lk_bytes_equal(index.name, c->name)) {
            lk_wire_put_bytes(operation, OPERATION_REMOVED, part.value);
            rc = check_known(c, &index, err);
        } else {
            lk_buf_append_bytes(left, part.whole);
        }
    }
    return rc;
}

/* What the new index still covers in tip, as a section of one. */
static lk_rc add_index(const index_change *c, const lk_manifest *tip, lk_arena *arena, lk_buf *left,
    lk_buf *operation, lk_err *err)
{
    enum { OPERATION_NEW = 1 };
    lk_buf        section = {0};
    lk_bytes      kept = {0};
    lk_wire_field part = {0};
    lk_wire_put_bytes(&section, LK_INDEX_SECTION_INDICES, lk_buf_view(&c->message));
    lk_rc rc = lk_index_keep(c->base.base, tip, NULL, lk_buf_view(&section), arena, &kept, err);
    if (rc == LK_OK && kept.size == 0) {
        rc = lk_refuse(err, LK_E_CONFLICT, "the index's column was dropped meanwhile");
    }
    if (rc == LK_OK && lk_wire_next(&kept, &part)) {
        lk_wire_put_bytes(operation, OPERATION_NEW, part.value);
        lk_buf_append_bytes(left, part.whole);
    }
    lk_buf_deinit(&section);
    return rc;
}

static lk_rc plan_index(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    const index_change *c = (const index_change *)change;
    lk_buf              left = {0}, operation = {0}, removed = {0};
    lk_bytes            section = plan->has_index_section ? plan->index_section : (lk_bytes){0};
    lk_rc               rc = remove_index(c, section, arena, &left, &removed, err);
    if (rc == LK_OK && c->message.size > 0) {
        rc = add_index(c, tip, arena, &left, &operation, err);
    }
    lk_buf_append_bytes(&operation, lk_buf_view(&removed));
    plan->operation = lk_arena_copy(arena, lk_buf_view(&operation));
    plan->has_index_section = left.size > 0;
    plan->index_section = lk_arena_copy(arena, lk_buf_view(&left));
    lk_buf_deinit(&left);
    lk_buf_deinit(&operation);
    lk_buf_deinit(&removed);
    return rc;
}

static const lk_change_ops index_ops = {LK_OPERATION_CREATE_INDEX, lk_rebase_keeps_rows, plan_index};

/* -- the message ----------------------------------------------------------------------------------------- */
static void put_files(const lk_index_build *build, lk_buf *out)
{
    enum { FILE_PATH = 1, FILE_SIZE = 2 };
    for (size_t i = 0; i < build->file_count; i++) {
        lk_buf file = {0};
        lk_wire_put_bytes(&file, FILE_PATH, build->files[i].path);
        lk_wire_put_u64(&file, FILE_SIZE, build->files[i].size_bytes);
        lk_wire_put_bytes(out, LK_INDEX_FILES, lk_buf_view(&file));
        lk_buf_deinit(&file);
    }
}

/* Every fragment of base. */
static void put_fragments(const lk_manifest *manifest, lk_buf *out)
{
    roaring_bitmap_t *all = roaring_bitmap_create();
    lk_buf            bitmap = {0};
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        roaring_bitmap_add(all, (uint32_t)manifest->fragments[i].id);
    }
    lk_buf_append_zeros(&bitmap, roaring_bitmap_portable_size_in_bytes(all));
    roaring_bitmap_portable_serialize(all, bitmap.data);
    lk_wire_put_bytes(out, LK_INDEX_BITMAP_OF_FRAGMENTS, lk_buf_view(&bitmap));
    lk_buf_deinit(&bitmap);
    roaring_bitmap_free(all);
}

static void make_message(index_change *c, const lk_index_build *build, lk_index_kind kind)
{
    enum { UUID_BYTES = 1, ANY_TYPE = 1 };
    const lk_manifest *manifest = c->dataset->manifest;
    lk_buf            *out = &c->message, inner = {0};
    lk_wire_put_bytes(&inner, UUID_BYTES, (lk_bytes){(const char *)c->uuid.bytes, sizeof c->uuid.bytes});
    lk_wire_put_bytes(out, LK_INDEX_UUID, lk_buf_view(&inner));
    lk_buf_clear(&inner);
    lk_wire_put_u64(out, LK_INDEX_FIELDS, (uint64_t)manifest->schema->fields[build->source.field].id);
    lk_wire_put_bytes(out, LK_INDEX_NAME, c->name);
    lk_wire_put_u64(out, LK_INDEX_DATASET_VERSION, manifest->version);
    put_fragments(manifest, out);
    lk_wire_put_bytes(&inner, ANY_TYPE,
        kind == LK_INDEX_BTREE ? LK_LITERAL("/lance.table.BTreeIndexDetails")
                               : LK_LITERAL("/lance.table.ZoneMapIndexDetails"));
    lk_wire_put_bytes(out, LK_INDEX_DETAILS, lk_buf_view(&inner));
    lk_buf_deinit(&inner);
    /* With stable row ids, as the newest release of the reference does: older ones leave such an index alone, where an
     * index by ids would keep entries of rows that got another value. */
    bool addresses = kind == LK_INDEX_BTREE && lk_dataset_has_stable_row_ids(c->dataset);
    lk_wire_put_u64(out, LK_INDEX_VERSION, addresses ? LK_INDEX_VERSION_ADDRESSES : LK_INDEX_VERSION_IDS);
    lk_wire_put_u64(out, LK_INDEX_CREATED_AT, lk_clock_wall_ms(c->base.env->clock));
    put_files(build, out);
}

/* -- building -------------------------------------------------------------------------------------------- */
static index_change new_change(lk_dataset *base, lk_committer *committer, const lk_write_options *options)
{
    return (index_change){
        .base = {.ops = &index_ops,
            .env = &base->env,
            .committer = committer,
            .options = options,
            .base = base->manifest},
        .dataset = base,
    };
}

/* Commits what the change wrote, or takes it back. */
static lk_rc end_change(index_change *c, lk_rc rc, const char *what, lk_dataset **out, lk_err *err)
{
    const lk_manifest *base = c->base.base;
    lk_manifest       *committed = NULL;
    if (rc == LK_OK) {
        rc = lk_change_commit(&c->base, &committed, err);
    }
    if (rc == LK_OK) {
        *out = lk_dataset_new(&c->dataset->env, committed, c->dataset->files);
    } else {
        lk_change_undo(&c->base, err);
        lk_context(err, "%s index %.*s on version %" PRIu64 " of %.*s", what, LK_FMT(c->name), base->version,
            LK_FMT(c->base.env->store->uri));
    }
    return rc;
}

/* The segments of old are merged with the rows of the fragments that they do not cover. */
static lk_rc build_files(index_change *c, lk_index_kind kind, size_t field, const lk_index *const *old,
    size_t old_count, const lk_index_options *options, lk_index_report *report, lk_err *err)
{
    lk_dataset *dataset = c->dataset;
    size_t      count = dataset->manifest->fragment_count;
    char        uuid[LK_UUID_TEXT_SIZE + 1];
    bool       *covered = lk_arena_take(&c->base.arena, count + 1);
    c->uuid = lk_uuid_v7(dataset->env.clock, dataset->env.random);
    lk_uuid_format(c->uuid, uuid);
    lk_index_build build = {
        .change = &c->base,
        .source = {.dataset = dataset,
            .field = field,
            .cancel = options == NULL ? NULL : options->cancel,
            .pool = lk_buffer_pool_new(dataset->env.budget)},
        .directory = lk_arena_format(&c->base.arena, "_indices/%s", uuid),
        .old = old,
        .old_count = old_count,
        .covered = covered,
        .progress = options == NULL ? NULL : options->progress,
        .progress_context = options == NULL ? NULL : options->progress_context,
    };
    for (size_t i = 0; i < old_count; i++) {
        for (size_t fragment = 0; fragment < count; fragment++) {
            covered[fragment] = covered[fragment] || old[i]->covers[fragment];
        }
    }
    lk_rc rc =
        kind == LK_INDEX_BTREE ? lk_index_build_btree(&build, err) : lk_index_build_zonemap(&build, err);
    lk_buffer_pool_close(build.source.pool);
    if (rc == LK_OK) {
        make_message(c, &build, kind);
        *report = (lk_index_report){.rows = build.rows, .size_bytes = build.size_bytes};
        for (size_t fragment = 0; fragment < count; fragment++) {
            report->fragments += !covered[fragment];
        }
    }
    return rc;
}

/* -- create ---------------------------------------------------------------------------------------------- */
static bool lies_in_structs(const lk_lance_schema *schema, const lk_lance_field *field)
{
    bool structs = true;
    while (structs && field->parent_id != LK_FIELD_NONE) {
        field = &schema->fields[lk_lance_schema_find(schema, field->parent_id)];
        structs = strcmp(field->arrow->format, "+s") == 0;
    }
    return structs;
}

static lk_rc check_create(const index_change *c, const lk_index_options *index, size_t field, lk_err *err)
{
    const lk_lance_field *of = &c->dataset->manifest->schema->fields[field];
    if (index->kind != LK_INDEX_BTREE && index->kind != LK_INDEX_ZONEMAP) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "an index of kind %s is not made here",
            lk_index_kind_name(index->kind));
    }
    if (!of->leaf || !lk_index_orders(of->arrow) || !lies_in_structs(c->dataset->manifest->schema, of)) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "column %.*s has a type without an order",
            (int)(index->column.size < 100 ? index->column.size : 100), index->column.data);
    }
    for (size_t i = 0; i < c->index_count; i++) {
        const lk_index *other = &c->indices[i];
        if (lk_bytes_equal(other->name, c->name) && (other->field_count != 1 || other->fields[0] != of->id)) {
            return lk_refuse(err, LK_E_INVALID_REQUEST, "there is an index %.*s over another column",
                (int)(c->name.size < 100 ? c->name.size : 100), c->name.data);
        }
    }
    return LK_OK;
}

lk_rc lk_index_create(lk_dataset *base, lk_committer *committer, const lk_index_options *index,
    const lk_write_options *options, lk_index_report *report, lk_dataset **out, lk_err *err)
{
    index_change    c = new_change(base, committer, options);
    lk_index_report ignored;
    size_t          field = 0;
    report = report == NULL ? &ignored : report;
    c.name = index->name.size > 0 ? index->name
                                  : lk_arena_format(&c.base.arena, "%.*s_idx", LK_FMT(index->column));
    lk_rc rc = lk_manifest_check_writable(base->manifest, err);
    if (rc == LK_OK) {
        rc = lk_columns_find(base->manifest->schema, index->column, &field, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_list(base, &c.base.arena, &c.indices, &c.index_count, err);
    }
    if (rc == LK_OK) {
        rc = check_create(&c, index, field, err);
    }
    if (rc == LK_OK) {
        rc = build_files(&c, index->kind, field, NULL, 0, index, report, err);
    }
    rc = end_change(&c, rc, "create", out, err);
    lk_buf_deinit(&c.message);
    lk_change_deinit(&c.base);
    return rc;
}

/* -- update and drop ------------------------------------------------------------------------------------- */

/* The segments of c->name, in the arena. LK_E_NOT_FOUND. */
static lk_rc find_segments(index_change *c, const lk_index ***out, size_t *count, lk_err *err)
{
    lk_rc rc = lk_index_list(c->dataset, &c->base.arena, &c->indices, &c->index_count, err);
    *out = lk_arena_take(&c->base.arena, (c->index_count + 1) * sizeof(const lk_index *));
    *count = 0;
    for (size_t i = 0; rc == LK_OK && i < c->index_count; i++) {
        if (lk_bytes_equal(c->indices[i].name, c->name)) {
            (*out)[(*count)++] = &c->indices[i];
        }
    }
    if (rc == LK_OK && *count == 0) {
        rc = lk_refuse(err, LK_E_NOT_FOUND, "there is no index %.*s",
            (int)(c->name.size < 100 ? c->name.size : 100), c->name.data);
    }
    return rc;
}

static lk_rc check_update(const lk_index *const *segments, size_t count, lk_err *err)
{
    for (size_t i = 0; i < count; i++) {
        lk_index_kind kind = segments[i]->kind;
        if (kind != segments[0]->kind || (kind != LK_INDEX_BTREE && kind != LK_INDEX_ZONEMAP)) {
            return lk_refuse(err, LK_E_UNSUPPORTED_FORMAT, "an index of type %.*s is not made here",
                (int)(segments[i]->type.size < 100 ? segments[i]->type.size : 100), segments[i]->type.data);
        }
    }
    return LK_OK;
}

static bool is_complete(const lk_dataset *dataset, const lk_index *const *segments, size_t count)
{
    return count == 1 && segments[0]->covered_count == dataset->manifest->fragment_count;
}

lk_rc lk_index_update(lk_dataset *base, lk_committer *committer, lk_bytes name, const lk_index_options *index,
    const lk_write_options *options, lk_index_report *report, lk_dataset **out, lk_err *err)
{
    index_change     c = new_change(base, committer, options);
    const lk_index **segments = NULL;
    lk_index_report  ignored;
    size_t           count = 0;
    report = report == NULL ? &ignored : report;
    *report = (lk_index_report){0};
    c.name = name;
    lk_rc rc = lk_manifest_check_writable(base->manifest, err);
    if (rc == LK_OK) {
        rc = find_segments(&c, &segments, &count, err);
    }
    if (rc == LK_OK) {
        rc = check_update(segments, count, err);
    }
    if (rc == LK_OK && is_complete(base, segments, count)) {
        *out = lk_dataset_ref(base);
    } else {
        size_t field = rc == LK_OK ? lk_lance_schema_find(base->manifest->schema, segments[0]->fields[0]) : 0;
        if (rc == LK_OK && field == SIZE_MAX) {
            rc = lk_fail(err, LK_E_CORRUPT_FILE, "index %.*s is over no column", LK_FMT(name));
        }
        if (rc == LK_OK) {
            rc = build_files(&c, segments[0]->kind, field, segments, count, index, report, err);
        }
        rc = end_change(&c, rc, "update", out, err);
    }
    lk_buf_deinit(&c.message);
    lk_change_deinit(&c.base);
    return rc;
}

lk_rc lk_index_drop(lk_dataset *base, lk_committer *committer, lk_bytes name, const lk_write_options *options,
    lk_dataset **out, lk_err *err)
{
    index_change     c = new_change(base, committer, options);
    const lk_index **segments = NULL;
    size_t           count = 0;
    c.name = name;
    lk_rc rc = lk_manifest_check_writable(base->manifest, err);
    if (rc == LK_OK) {
        rc = find_segments(&c, &segments, &count, err);
    }
    rc = end_change(&c, rc, "drop", out, err);
    lk_change_deinit(&c.base);
    return rc;
}
