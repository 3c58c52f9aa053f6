/*
 * cast.c - columns that get values: new ones (computed) and old ones in another type (cast). Every fragment gets a data
 * file more, with the new columns alone; the rows stay where they are.
 *
 * A file has a value for every row, deleted ones too. Those are not computed (they may be what the change is to get rid
 * of): they are null, or where nothing may be null the value of a neighbour.
 *
 * On top of another tip only the fragments that are new or were changed are written again. A cast column gets a new field
 * id, so nobody who holds the old version takes the one for the other.
 */
#include "arrow/cast.h"
#include "arrow/schema.h"
#include "lance/alter.h"
#include "lance/columns_priv.h"
#include "lance/dataset_priv.h"
#include "lance/features.h"
#include "lance/fragment_write.h"
#include "lance/rebase.h"
#include "lance/row_lineage.h"
#include "lance/wire.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct filled { /* a fragment whose values are written */
    uint64_t id;
    lk_bytes raw;  /* what it was */
    lk_bytes file; /* the DataFile message */
    lk_bytes key;
} filled;

typedef struct fill {
    lk_change                 base; /* first: plan_fill gets this */
    lk_dataset               *dataset;
    const struct ArrowSchema *columns;
    const lk_column_source   *source;
    int32_t                   replaced; /* the field whose place the only column takes, or LK_FIELD_NONE */
    lk_lance_schema          *schema;   /* of the new columns, with their ids */
    int32_t                   first_id;
    filled                   *done; /* in the order of the last tip */
    size_t                    done_count;
} fill;

/* -- values for every row of a fragment ------------------------------------------------------------------------ */

typedef struct filling {
    fill              *fill;
    lk_fragment_writer writer;
    lk_batches        *values;
    const lk_deletion *deleted; /* NULL: none */
    uint64_t           rows, at;
    bool               nullable;
    lk_shared_array   *batch; /* in the columns' types; the last one is kept to the end */
} filling;

static bool is_deleted(const filling *f, uint64_t row)
{
    const uint64_t *bits = f->deleted == NULL ? NULL : lk_deletion_bits(f->deleted);
    return bits != NULL && (bits[row / 64] >> (row % 64) & 1) != 0;
}

/* Writes the values from the current batch for as many rows as it has, deleted ones in between. last: and those behind. */
static lk_rc write_values(filling *f, bool last, lk_err *err)
{
    const struct ArrowSchema *columns = &f->fill->schema->arrow;
    const struct ArrowArray  *batch = lk_shared_array_get(f->batch);
    struct ArrowArray         out = {0};
    lk_buf                    indices = {0};
    for (int64_t live = 0; f->at < f->rows; f->at++) {
        bool gone = is_deleted(f, f->at);
        if (live == batch->length && (!last || !gone)) {
            break;
        }
        int64_t stand_in = f->nullable ? -1 : live < batch->length ? live : live - 1;
        int64_t index = gone ? stand_in : live++;
        lk_buf_append(&indices, &index, sizeof index);
    }
    int64_t count = (int64_t)(indices.size / sizeof(int64_t));
    lk_rc   rc = lk_array_take(columns, batch, (const int64_t *)(const void *)indices.data, count, &out, err);
    lk_buf_deinit(&indices);
    return rc == LK_OK ? lk_fragment_writer_add(&f->writer, &out, err) : rc;
}

static lk_rc next_values(filling *f, bool *found, lk_err *err)
{
    struct ArrowArray batch = {0}, cast = {0};
    lk_rc             rc = LK_OK;
    do {
        lk_array_release(&batch);
        rc = lk_batches_next(f->values, &batch, err);
    } while (rc == LK_OK && batch.release != NULL && batch.length == 0);
    *found = rc == LK_OK && batch.release != NULL;
    if (!*found) {
        return rc;
    }
    lk_shared_array *shared = lk_array_share(&batch);
    rc = lk_batch_cast(&f->values->schema, shared, &f->fill->schema->arrow, (int64_t)f->at, &cast, err);
    lk_shared_array_unref(shared);
    if (rc == LK_OK) {
        f->batch = lk_array_share(&cast);
    }
    return rc;
}

/* One batch is written when the next is known: the last one also stands in for deleted rows at the end. */
static lk_rc write_all(filling *f, lk_err *err)
{
    bool  found = false;
    lk_rc rc = next_values(f, &found, err);
    while (rc == LK_OK && found) {
        lk_shared_array *current = f->batch;
        f->batch = NULL;
        rc = next_values(f, &found, err);
        lk_shared_array *next = f->batch;
        f->batch = current;
        if (rc == LK_OK) {
            rc = write_values(f, !found, err);
        }
        lk_shared_array_unref(current);
        f->batch = next;
    }
    if (rc == LK_OK && f->at != f->rows) {
        rc = lk_refuse(err, LK_E_INVALID_REQUEST, "there are not as many values as rows");
    }
    return rc == LK_OK ? lk_fragment_writer_end(&f->writer, err) : rc;
}

/* A dataset of one fragment. It is never committed. */
static lk_rc part_of(fill *f, const lk_manifest *tip, size_t fragment, lk_dataset **out, lk_err *err)
{
    lk_buf            object = {0};
    lk_manifest      *manifest = NULL;
    lk_pb_new_version version = {
        .version = tip->version,
        .timestamp_ms = tip->timestamp_ms,
        .reader_flags = tip->reader_flags,
        .writer_flags = tip->writer_flags,
        .replaces_fragments = true,
        .raw_fragments = &tip->fragments[fragment].raw,
        .raw_fragment_count = 1,
    };
    lk_rc rc = lk_change_object(tip->body, &version, &object, err);
    if (rc == LK_OK) {
        rc = lk_manifest_parse(lk_buf_view(&object), tip->key, &manifest, err);
    }
    if (rc == LK_OK) {
        *out = lk_dataset_new(&f->dataset->env, manifest, f->dataset->files);
    }
    lk_buf_deinit(&object);
    return rc;
}

/* The DataFile message inside a fragment's. */
static lk_bytes file_message(const lk_fragment *fragment, lk_arena *arena)
{
    enum { FRAGMENT_FILES = 2 };
    lk_buf        message = {0};
    lk_wire_field field = {0};
    lk_bytes      out = {0};
    lk_pb_fragment_encode(fragment, &message);
    for (lk_bytes rest = lk_buf_view(&message); rest.size > 0 && lk_wire_next(&rest, &field);) {
        if (field.number == FRAGMENT_FILES) {
            out = lk_arena_copy(arena, field.value);
        }
    }
    lk_buf_deinit(&message);
    return out;
}

static bool all_nullable(const struct ArrowSchema *columns)
{
    bool nullable = true;
    for (int64_t i = 0; i < columns->n_children; i++) {
        nullable &= (columns->children[i]->flags & ARROW_FLAG_NULLABLE) != 0;
    }
    return nullable;
}

static lk_rc fill_part(fill *f, lk_dataset *part, filled *out, lk_err *err)
{
    filling values = {
        .fill = f, .rows = part->manifest->physical_rows, .nullable = all_nullable(&f->schema->arrow)};
    lk_fragment_writer_init(&values.writer, &f->base, f->schema, values.rows);
    values.writer.file_minor = part->manifest->file_minor;
    lk_rc rc = lk_dataset_deletion(part, 0, &values.deleted, err);
    if (rc == LK_OK) {
        rc = f->source->open(f->source->context, part, &values.values, err);
    }
    if (rc == LK_OK) {
        rc = write_all(&values, err);
    }
    if (rc == LK_OK) {
        size_t             count = 0;
        const lk_fragment *written = lk_fragment_writer_fragments(&values.writer, &count);
        LK_ASSERT(count == 1);
        out->file = file_message(written, &f->base.arena);
        out->key = lk_data_file_key(written->files, &f->base.arena);
    }
    lk_shared_array_unref(values.batch);
    lk_batches_close(values.values);
    lk_fragment_writer_deinit(&values.writer);
    return rc;
}

static lk_rc fill_fragment(fill *f, const lk_manifest *tip, size_t fragment, filled *out, lk_err *err)
{
    lk_dataset *part = NULL;
    *out = (filled){
        .id = tip->fragments[fragment].id,
        .raw = lk_arena_copy(&f->base.arena, tip->fragments[fragment].raw),
    };
    lk_rc rc = part_of(f, tip, fragment, &part, err);
    if (rc == LK_OK) {
        rc = fill_part(f, part, out, err);
    }
    lk_dataset_unref(part);
    return rc;
}

/* -- on top of a version ------------------------------------------------------------------------------------------ */

static void discard(fill *f, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        lk_change_discard(&f->base, f->done[i].key);
    }
}

/* Values for every fragment of tip: those of fragments that were done and did not change are kept. */
static lk_rc fill_all(fill *f, const lk_manifest *tip, lk_err *err)
{
    filled *all = lk_arena_take(&f->base.arena, (tip->fragment_count + 1) * sizeof *all);
    size_t  old = 0;
    lk_rc   rc = LK_OK;
    for (size_t i = 0; i < tip->fragment_count && rc == LK_OK; i++) {
        const lk_fragment *now = &tip->fragments[i];
        size_t             first = old;
        while (old < f->done_count && f->done[old].id < now->id) {
            old++;
        }
        discard(f, first, old);
        if (old < f->done_count && f->done[old].id == now->id) {
            all[i] = f->done[old++];
            if (lk_bytes_equal(all[i].raw, now->raw)) {
                continue;
            }
            discard(f, old - 1, old);
        }
        rc = fill_fragment(f, tip, i, &all[i], err);
    }
    discard(f, old, f->done_count);
    f->done = all;
    f->done_count = rc == LK_OK ? tip->fragment_count : 0;
    return rc;
}

/* The fields of the new version: with the new ones at the end, or where the old one was. */
static const lk_bytes *place_fields(const fill *f, const lk_field_list *list, const lk_bytes *added,
    size_t added_count, lk_arena *arena, size_t *count, lk_field_list *left)
{
    lk_bytes *all = lk_arena_take(arena, (list->count + added_count + 1) * sizeof *all);
    int32_t  *gone = lk_arena_take(arena, (list->count + 1) * sizeof *gone);
    size_t    gone_count = 0, place = SIZE_MAX;
    left->items = lk_arena_take(arena, (list->count + 1) * sizeof *left->items);
    for (size_t i = 0; i < list->count; i++) {
        lk_raw_field field = list->items[i];
        bool         below = field.id == f->replaced;
        for (size_t g = 0; g < gone_count && !below; g++) {
            below = field.parent_id == gone[g];
        }
        if (below) {
            place = gone_count == 0 ? left->count : place;
            gone[gone_count++] = field.id;
        } else {
            left->items[left->count++] = field;
        }
    }
    place = place == SIZE_MAX ? left->count : place;
    for (size_t i = 0; i < left->count; i++) {
        all[i < place ? i : i + added_count] = left->items[i].message;
    }
    memcpy(all + place, added, added_count * sizeof *all);
    *count = left->count + added_count;
    return all;
}

/* Every fragment with its new file. */
static lk_rc place_files(fill *f, const lk_manifest *tip, const lk_id_set *left, lk_arena *arena,
    lk_change_plan *plan, lk_buf *operation, lk_err *err)
{
    enum { FRAGMENT_FILES = 2, MERGE_FRAGMENTS = 1 };
    lk_bytes *raw = lk_arena_take(arena, (tip->fragment_count + 1) * sizeof *raw);
    lk_buf    message = {0};
    lk_rc     rc = LK_OK;
    for (size_t i = 0; i < tip->fragment_count && rc == LK_OK; i++) {
        lk_bytes pruned = {0};
        rc = lk_columns_prune(&tip->fragments[i], left, false, arena, &pruned, err);
        lk_buf_clear(&message);
        lk_buf_append_bytes(&message, pruned);
        lk_wire_put_bytes(&message, FRAGMENT_FILES, f->done[i].file);
        lk_bytes with_file = lk_arena_copy(arena, lk_buf_view(&message));
        if (rc == LK_OK) {
            rc = lk_row_lineage_touch(
                tip, &tip->fragments[i], with_file, plan->version.version, arena, &raw[i], err);
        }
        lk_wire_put_bytes(operation, MERGE_FRAGMENTS, raw[i]);
    }
    lk_buf_deinit(&message);
    plan->version.replaces_fragments = true;
    plan->version.raw_fragments = raw;
    plan->version.raw_fragment_count = tip->fragment_count;
    return rc;
}

/* The new fields for this tip; with other ids than before all is to be done again. */
static lk_rc number_fields(
    fill *f, const lk_manifest *tip, lk_arena *arena, const lk_bytes **fields, size_t *count, lk_err *err)
{
    int32_t first_id = lk_manifest_field_id_max(tip) + 1;
    if (f->schema != NULL && first_id != f->first_id) {
        discard(f, 0, f->done_count);
        f->done_count = 0;
    }
    lk_lance_schema_close(f->schema);
    f->schema = NULL;
    f->first_id = first_id;
    lk_rc rc = lk_columns_encode(f->columns, first_id, arena, fields, count, &f->schema, err);
    if (rc == LK_OK) {
        rc = lk_change_check_files(tip, err);
    }
    return rc == LK_OK ? lk_fragment_writer_check_types(&f->schema->arrow, tip->file_minor, err) : rc;
}

static lk_rc check_place(const fill *f, const lk_manifest *tip, lk_err *err)
{
    size_t field = 0;
    return f->replaced == LK_FIELD_NONE ? lk_columns_check_added(f->columns, tip, true, err)
                                        : lk_columns_find_again(tip, f->replaced, &field, err);
}

static lk_rc plan_fill(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    enum { MERGE_SCHEMA = 2, MERGE_PRESERVES_NULLABILITY = 4 };
    fill           *f = (fill *)change;
    const lk_bytes *added = NULL;
    lk_field_list   list = {0}, left = {0};
    size_t          added_count = 0, count = 0;
    lk_buf          operation = {0};
    lk_rc           rc = check_place(f, tip, err);
    if (rc == LK_OK) {
        rc = number_fields(f, tip, arena, &added, &added_count, err);
    }
    if (rc == LK_OK) {
        rc = lk_columns_list(tip, arena, &list, err);
    }
    if (rc == LK_OK) {
        rc = fill_all(f, tip, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    const lk_bytes *fields = place_fields(f, &list, added, added_count, arena, &count, &left);
    const lk_id_set ids = lk_columns_ids(&left, arena);
    rc = place_files(f, tip, &ids, arena, plan, &operation, err);
    lk_columns_set(fields, count, MERGE_SCHEMA, plan, &operation);
    if (f->replaced == LK_FIELD_NONE && all_nullable(f->columns)) { /* rows without these columns are whole */
        lk_wire_put_u64(&operation, MERGE_PRESERVES_NULLABILITY, 1);
    }
    plan->operation = lk_arena_copy(arena, lk_buf_view(&operation));
    lk_buf_deinit(&operation);
    return rc;
}

static const lk_change_ops fill_ops = {LK_OPERATION_MERGE, lk_rebase_keeps_rows, plan_fill};

static lk_rc commit(lk_dataset *base, lk_committer *committer, const struct ArrowSchema *columns,
    const lk_column_source *source, int32_t replaced, const lk_write_options *options, lk_dataset **out,
    lk_err *err)
{
    lk_manifest *committed = NULL;
    fill         f = {
                .base = {.ops = &fill_ops,
                    .env = &base->env,
                    .committer = committer,
                    .options = options,
                    .base = base->manifest},
                .dataset = base,
                .columns = columns,
                .source = source,
                .replaced = replaced,
    };
    lk_rc rc = lk_manifest_check_writable(base->manifest, err);
    if (rc == LK_OK) {
        rc = lk_change_commit(&f.base, &committed, err);
    }
    if (rc == LK_OK) {
        *out = lk_dataset_new(&base->env, committed, base->files);
    } else {
        lk_change_undo(&f.base, err);
        lk_context(err, "columns of version %" PRIu64 " of %.*s", base->manifest->version,
            LK_FMT(base->env.store->uri));
    }
    lk_lance_schema_close(f.schema);
    lk_change_deinit(&f.base);
    return rc;
}

lk_rc lk_dataset_add_computed_columns(lk_dataset *base, lk_committer *committer,
    const struct ArrowSchema *columns, const lk_column_source *source, const lk_write_options *options,
    lk_dataset **out, lk_err *err)
{
    return commit(base, committer, columns, source, LK_FIELD_NONE, options, out, err);
}

/* -- cast ------------------------------------------------------------------------------------------------------- */

/* The values of a cast are those of the column: its name finds them. */
static lk_rc open_column(void *context, lk_dataset *part, lk_batches **out, lk_err *err)
{
    const char *name = context;
    int64_t     found = lk_schema_find(lk_dataset_schema(part), lk_bytes_of(name));
    size_t      column = (size_t)found;
    if (found < 0) {
        return lk_fail(err, LK_E_CONFLICT, "column %s was renamed", name);
    }
    lk_scan_options options = {.columns = &column, .column_count = 1, .limit = UINT64_MAX};
    return lk_dataset_scan(part, &options, out, err);
}

/* The column as it is, and as it shall be: schemas of one column. */
static lk_rc cast_schemas(const struct ArrowSchema *table, size_t column, lk_bytes type,
    struct ArrowSchema *old, struct ArrowSchema *new, lk_err *err)
{
    const struct ArrowSchema *field = table->children[column];
    lk_schema_start(new, 1);
    lk_rc rc = lk_schema_project(table, &column, 1, old, err);
    if (rc == LK_OK) {
        rc = lk_type_parse(type, lk_bytes_of(field->name), new->children[0], err);
    }
    if (rc == LK_OK) {
        new->children[0]->flags =
            (new->children[0]->flags & ~(int64_t)ARROW_FLAG_NULLABLE) | (field->flags & ARROW_FLAG_NULLABLE);
        rc = lk_schema_castable(old, new, err);
    }
    return rc;
}

lk_rc lk_dataset_cast_column(lk_dataset *base, lk_committer *committer, lk_bytes path, lk_bytes type,
    const lk_write_options *options, lk_dataset **out, lk_err *err)
{
    struct ArrowSchema     old = {0}, new = {0};
    size_t                 field = 0;
    const lk_lance_schema *schema = base->manifest->schema;
    lk_rc                  rc = lk_columns_find(schema, path, &field, err);
    if (rc == LK_OK && schema->fields[field].depth > 0) {
        rc = lk_refuse(err, LK_E_INVALID_REQUEST, "a field of a struct keeps its type");
    }
    if (rc != LK_OK) {
        return rc;
    }
    const char *name = schema->fields[field].arrow->name;
    size_t      column = (size_t)lk_schema_find(&schema->arrow, lk_bytes_of(name));
    rc = cast_schemas(&schema->arrow, column, type, &old, &new, err);
    if (rc == LK_OK) {
        const lk_column_source source = {open_column, (void *)(uintptr_t)name};
        rc = commit(base, committer, &new, &source, schema->fields[field].id, options, out, err);
    }
    lk_schema_release(&old);
    lk_schema_release(&new);
    return rc;
}
