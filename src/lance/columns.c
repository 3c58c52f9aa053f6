/*
 * columns.c - columns that are dropped, renamed, or added as null: no data file is written.
 *
 * Fields are known by their ids, so the edit is made on whatever version is the newest: the Field messages of that
 * version are kept byte for byte, but for the name that changes.
 */
#include "arrow/schema.h"
#include "lance/alter.h"
#include "lance/change.h"
#include "lance/columns_priv.h"
#include "lance/dataset_priv.h"
#include "lance/features.h"
#include "lance/rebase.h"
#include "lance/wire.h"

#include <inttypes.h>
#include <stdlib.h>

enum { MANIFEST_FIELDS = 1 };
enum { FIELD_NAME = 2, FIELD_ID = 3, FIELD_PARENT_ID = 4 };
enum { FRAGMENT_FILES = 2 };

typedef struct column_change {
    lk_change                 base; /* first: the plans get this */
    const int32_t            *dropped;
    size_t                    dropped_count;
    int32_t                   renamed;
    lk_bytes                  name;
    const struct ArrowSchema *added;
} column_change;

static lk_rc malformed(lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "the manifest message is malformed");
}

/* -- fields of a manifest ------------------------------------------------------------------------------- */

static bool read_ids(lk_raw_field *field)
{
    lk_bytes      rest = field->message;
    lk_wire_field part = {0};
    while (rest.size > 0) {
        if (!lk_wire_next(&rest, &part)) {
            return false;
        }
        if (part.number == FIELD_ID) {
            field->id = (int32_t)(uint32_t)part.varint;
        } else if (part.number == FIELD_PARENT_ID) {
            field->parent_id = (int32_t)(uint32_t)part.varint;
        }
    }
    return true;
}

lk_rc lk_columns_list(const lk_manifest *manifest, lk_arena *arena, lk_field_list *out, lk_err *err)
{
    lk_bytes      rest = manifest->body;
    lk_wire_field part = {0};
    out->items = lk_arena_take(arena, (manifest->schema->field_count + 1) * sizeof *out->items);
    while (rest.size > 0) {
        if (!lk_wire_next(&rest, &part)) {
            return malformed(err);
        }
        if (part.number != MANIFEST_FIELDS) {
            continue;
        }
        lk_raw_field *field = &out->items[out->count++];
        *field = (lk_raw_field){.message = part.value};
        if (out->count > manifest->schema->field_count || !read_ids(field)) {
            return malformed(err);
        }
    }
    return LK_OK;
}

static bool holds(const int32_t *ids, size_t count, int32_t id)
{
    size_t i = 0;
    while (i < count && ids[i] != id) {
        i++;
    }
    return i < count;
}

void lk_columns_set(
    const lk_bytes *messages, size_t count, uint32_t number, lk_change_plan *plan, lk_buf *operation)
{
    plan->version.replaces_fields = true;
    plan->version.raw_fields = messages;
    plan->version.raw_field_count = count;
    for (size_t i = 0; i < count; i++) {
        lk_wire_put_bytes(operation, number, messages[i]);
    }
}

/* -- paths ------------------------------------------------------------------------------------------------ */

static lk_rc no_such_column(lk_bytes path, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_NOT_FOUND, "column %.*s", LK_FMT(path));
    lk_detail(err, "there is no column %.*s", (int)(path.size < 100 ? path.size : 100), path.data);
    return rc;
}

/* The field of this name among the children of `parent` (LK_FIELD_NONE: the columns); SIZE_MAX: none. */
static size_t find_child(const lk_lance_schema *schema, int32_t parent_id, lk_bytes name)
{
    for (size_t i = 0; i < schema->field_count; i++) {
        const lk_lance_field *field = &schema->fields[i];
        if (field->parent_id == parent_id && lk_bytes_equal(lk_bytes_of(field->arrow->name), name)) {
            return i;
        }
    }
    return SIZE_MAX;
}

static bool is_struct(const lk_lance_field *field)
{
    return strcmp(field->arrow->format, "+s") == 0;
}

lk_rc lk_columns_find(const lk_lance_schema *schema, lk_bytes path, size_t *out, lk_err *err)
{
    lk_bytes rest = path;
    int32_t  parent_id = LK_FIELD_NONE;
    *out = find_child(schema, parent_id, path);
    if (*out != SIZE_MAX) { /* a column's own name may have dots */
        return LK_OK;
    }
    for (;;) {
        const char *dot = rest.size == 0 ? NULL : memchr(rest.data, '.', rest.size);
        size_t      size = dot == NULL ? rest.size : (size_t)(dot - rest.data);
        *out = find_child(schema, parent_id, (lk_bytes){rest.data, size});
        if (*out == SIZE_MAX || (dot != NULL && !is_struct(&schema->fields[*out]))) {
            return no_such_column(path, err);
        }
        if (dot == NULL) {
            return LK_OK;
        }
        parent_id = schema->fields[*out].id;
        rest = (lk_bytes){dot + 1, rest.size - size - 1};
    }
}

lk_rc lk_columns_check_name(const lk_lance_schema *schema, int32_t parent_id, lk_bytes name, lk_err *err)
{
    static const char *const reserved[] = {
        "_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"};
    if (name.size == 0 || memchr(name.data, '.', name.size) != NULL ||
        memchr(name.data, '\0', name.size) != NULL || !lk_bytes_are_utf8(name)) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "a column's name is not empty and has no dot");
    }
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        if (lk_bytes_equal(name, lk_bytes_of(reserved[i]))) {
            return lk_refuse(err, LK_E_INVALID_REQUEST, "the name %s is reserved", reserved[i]);
        }
    }
    if (find_child(schema, parent_id, name) != SIZE_MAX) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "there is a column %.*s already",
            (int)(name.size < 100 ? name.size : 100), name.data);
    }
    return LK_OK;
}

lk_rc lk_columns_find_again(const lk_manifest *tip, int32_t id, size_t *out, lk_err *err)
{
    *out = lk_lance_schema_find(tip->schema, id);
    if (*out != SIZE_MAX) {
        return LK_OK;
    }
    lk_rc rc = lk_fail(err, LK_E_CONFLICT, "field %d is not in version %" PRIu64, id, tip->version);
    lk_detail(err, "the column was dropped or changed meanwhile");
    return rc;
}

/* -- drop ------------------------------------------------------------------------------------------------- */

/* A struct must keep a field, and the table a column. */
static lk_rc check_left(const lk_manifest *tip, const lk_field_list *left, int32_t parent_id, lk_err *err)
{
    for (size_t i = 0; i < left->count; i++) {
        if (left->items[i].parent_id == parent_id) {
            return LK_OK;
        }
    }
    if (parent_id == LK_FIELD_NONE) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "a table keeps at least one column");
    }
    size_t parent = lk_lance_schema_find(tip->schema, parent_id);
    return lk_refuse(err, LK_E_INVALID_REQUEST, "\"%.60s\" would be left without fields; drop it instead",
        parent == SIZE_MAX ? "" : tip->schema->fields[parent].arrow->name);
}

/* Takes the dropped fields and all below them out. */
static lk_rc drop_fields(
    const column_change *c, const lk_manifest *tip, lk_arena *arena, lk_field_list *list, lk_err *err)
{
    int32_t *gone = lk_arena_take(arena, (list->count + c->dropped_count + 1) * sizeof *gone);
    size_t   gone_count = c->dropped_count, left = 0;
    memcpy(gone, c->dropped, c->dropped_count * sizeof *gone);
    for (size_t i = 0; i < list->count; i++) {
        lk_raw_field field = list->items[i];
        if (holds(gone, gone_count, field.id) || holds(gone, gone_count, field.parent_id)) {
            gone[gone_count++] = field.id;
        } else {
            list->items[left++] = field;
        }
    }
    list->count = left;
    for (size_t i = 0; i < c->dropped_count; i++) {
        size_t  field = 0;
        lk_rc   rc = lk_columns_find_again(tip, c->dropped[i], &field, err);
        int32_t parent_id = rc == LK_OK ? tip->schema->fields[field].parent_id : LK_FIELD_NONE;
        if (rc == LK_OK && !holds(gone, gone_count, parent_id)) {
            rc = check_left(tip, list, parent_id, err);
        }
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

static int compare_ids(const void *a, const void *b)
{
    const int32_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

lk_id_set lk_columns_ids(const lk_field_list *list, lk_arena *arena)
{
    lk_id_set set = {lk_arena_take(arena, (list->count + 1) * sizeof(int32_t)), list->count};
    for (size_t i = 0; i < list->count; i++) {
        set.ids[i] = list->items[i].id;
    }
    qsort(set.ids, set.count, sizeof *set.ids, compare_ids);
    return set;
}

static bool is_left(const lk_id_set *left, int32_t id)
{
    return bsearch(&id, left->ids, left->count, sizeof id, compare_ids) != NULL;
}

static bool file_is_needed(const lk_data_file *file, const lk_id_set *left)
{
    size_t i = 0;
    while (
        i < file->field_count && file->fields[i] >= LK_FIELD_TOMBSTONE && !is_left(left, file->fields[i])) {
        i++;
    }
    return i < file->field_count;
}

/* The file that stays although it holds nothing any more: the reference does not read a fragment without files. */
static size_t last_resort(const lk_fragment *fragment, const lk_id_set *left)
{
    for (size_t i = 0; i < fragment->file_count; i++) {
        if (file_is_needed(&fragment->files[i], left)) {
            return SIZE_MAX;
        }
    }
    return 0;
}

lk_rc lk_columns_prune(const lk_fragment *fragment, const lk_id_set *left, bool keeps_one, lk_arena *arena,
    lk_bytes *out, lk_err *err)
{
    size_t        kept = keeps_one ? last_resort(fragment, left) : SIZE_MAX;
    lk_buf        message = {0};
    lk_bytes      rest = fragment->raw;
    lk_wire_field part = {0};
    size_t        file = 0;
    while (rest.size > 0) {
        if (!lk_wire_next(&rest, &part) || (part.number == FRAGMENT_FILES && file == fragment->file_count)) {
            lk_buf_deinit(&message);
            return malformed(err);
        }
        bool is_file = part.number == FRAGMENT_FILES;
        if (!is_file || file == kept || file_is_needed(&fragment->files[file], left)) {
            lk_buf_append_bytes(&message, part.whole);
        }
        file += is_file;
    }
    *out = lk_arena_copy(arena, lk_buf_view(&message));
    lk_buf_deinit(&message);
    return LK_OK;
}

static lk_rc prune_fragments(
    const lk_manifest *tip, const lk_id_set *left, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    lk_bytes *raw = lk_arena_take(arena, (tip->fragment_count + 1) * sizeof *raw);
    for (size_t i = 0; i < tip->fragment_count; i++) {
        lk_rc rc = lk_columns_prune(&tip->fragments[i], left, true, arena, &raw[i], err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    plan->version.replaces_fragments = true;
    plan->version.raw_fragments = raw;
    plan->version.raw_fragment_count = tip->fragment_count;
    return LK_OK;
}

const lk_bytes *lk_columns_messages(const lk_field_list *list, lk_arena *arena)
{
    lk_bytes *out = lk_arena_take(arena, (list->count + 1) * sizeof *out);
    for (size_t i = 0; i < list->count; i++) {
        out[i] = list->items[i].message;
    }
    return out;
}

/* A Project of the plan's fields; what they hold is as nullable as it was. */
static void set_project(const lk_bytes *messages, size_t count, lk_arena *arena, lk_change_plan *plan)
{
    enum { PROJECT_SCHEMA = 1, PROJECT_PRESERVES_NULLABILITY = 2 };
    lk_buf operation = {0};
    lk_columns_set(messages, count, PROJECT_SCHEMA, plan, &operation);
    lk_wire_put_u64(&operation, PROJECT_PRESERVES_NULLABILITY, 1);
    plan->operation = lk_arena_copy(arena, lk_buf_view(&operation));
    lk_buf_deinit(&operation);
}

static lk_rc plan_drop(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    lk_field_list list = {0};
    lk_rc         rc = lk_columns_list(tip, arena, &list, err);
    if (rc == LK_OK) {
        rc = drop_fields((column_change *)change, tip, arena, &list, err);
    }
    lk_id_set left = lk_columns_ids(&list, arena);
    if (rc == LK_OK) {
        rc = prune_fragments(tip, &left, arena, plan, err);
    }
    if (rc == LK_OK) {
        set_project(lk_columns_messages(&list, arena), list.count, arena, plan);
    }
    return rc;
}

/* -- rename ------------------------------------------------------------------------------------------------- */

static lk_rc rename_field(lk_raw_field *field, lk_bytes name, lk_arena *arena, lk_err *err)
{
    lk_buf message = {0};
    bool   good = lk_wire_copy_without(field->message, FIELD_NAME, &message);
    lk_wire_put_bytes(&message, FIELD_NAME, name);
    field->message = lk_arena_copy(arena, lk_buf_view(&message));
    lk_buf_deinit(&message);
    return good ? LK_OK : malformed(err);
}

static lk_rc plan_rename(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    const column_change *c = (const column_change *)change;
    lk_field_list        list = {0};
    size_t               field = 0;
    lk_rc                rc = lk_columns_find_again(tip, c->renamed, &field, err);
    if (rc == LK_OK) {
        rc = lk_columns_check_name(tip->schema, tip->schema->fields[field].parent_id, c->name, err);
    }
    if (rc == LK_OK) {
        rc = lk_columns_list(tip, arena, &list, err);
    }
    for (size_t i = 0; i < list.count && rc == LK_OK; i++) {
        if (list.items[i].id == c->renamed) {
            rc = rename_field(&list.items[i], c->name, arena, err);
        }
    }
    if (rc == LK_OK) {
        set_project(lk_columns_messages(&list, arena), list.count, arena, plan);
    }
    return rc;
}

/* -- add ---------------------------------------------------------------------------------------------------- */

lk_rc lk_columns_encode(const struct ArrowSchema *columns, int32_t first_id, lk_arena *arena,
    const lk_bytes **out, size_t *count, lk_lance_schema **numbered, lk_err *err)
{
    lk_lance_schema        *schema = NULL;
    const lk_field_record  *records = NULL;
    const lk_metadata_pair *metadata = NULL;
    size_t                  metadata_count = 0;
    lk_rc                   rc = lk_lance_schema_from_arrow_at(columns, first_id, &schema, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_lance_schema_records(schema, arena, &records, count, &metadata, &metadata_count);
    *out = lk_pb_fields_encode(records, *count, arena);
    if (numbered != NULL) {
        *numbered = schema;
    } else {
        lk_lance_schema_close(schema);
    }
    return LK_OK;
}

lk_rc lk_columns_check_added(
    const struct ArrowSchema *columns, const lk_manifest *tip, bool have_values, lk_err *err)
{
    for (int64_t i = 0; i < columns->n_children; i++) {
        const struct ArrowSchema *column = columns->children[i];
        lk_rc rc = lk_columns_check_name(tip->schema, LK_FIELD_NONE, lk_bytes_of(column->name), err);
        if (rc != LK_OK) {
            return rc;
        }
        if (!have_values && (column->flags & ARROW_FLAG_NULLABLE) == 0) {
            return lk_refuse(err, LK_E_INVALID_SCHEMA,
                "column \"%.60s\" has no value yet: it must be nullable", column->name);
        }
    }
    return columns->n_children > 0 ? LK_OK : lk_refuse(err, LK_E_INVALID_REQUEST, "no column is named");
}

static lk_rc plan_add(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    enum { MERGE_FRAGMENTS = 1, MERGE_SCHEMA = 2, MERGE_PRESERVES_NULLABILITY = 4 };
    const column_change *c = (const column_change *)change;
    const lk_bytes      *added = NULL;
    lk_field_list        list = {0};
    size_t               added_count = 0;
    lk_rc                rc = lk_columns_check_added(c->added, tip, false, err);
    if (rc == LK_OK) {
        rc = lk_columns_list(tip, arena, &list, err);
    }
    if (rc == LK_OK) {
        rc = lk_columns_encode(
            c->added, lk_manifest_field_id_max(tip) + 1, arena, &added, &added_count, NULL, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    lk_bytes *all = lk_arena_take(arena, (list.count + added_count + 1) * sizeof *all);
    memcpy(all, lk_columns_messages(&list, arena), list.count * sizeof *all);
    memcpy(all + list.count, added, added_count * sizeof *all);
    lk_buf operation = {0};
    for (size_t i = 0; i < tip->fragment_count; i++) {
        lk_wire_put_bytes(&operation, MERGE_FRAGMENTS, tip->fragments[i].raw);
    }
    lk_columns_set(all, list.count + added_count, MERGE_SCHEMA, plan, &operation);
    lk_wire_put_u64(&operation, MERGE_PRESERVES_NULLABILITY, 1);
    plan->operation = lk_arena_copy(arena, lk_buf_view(&operation));
    lk_buf_deinit(&operation);
    return LK_OK;
}

/* -- committing ------------------------------------------------------------------------------------------- */

static const lk_change_ops drop_ops = {LK_OPERATION_PROJECT, lk_rebase_keeps_rows, plan_drop};
static const lk_change_ops rename_ops = {LK_OPERATION_PROJECT, lk_rebase_keeps_rows, plan_rename};
static const lk_change_ops add_ops = {LK_OPERATION_MERGE, lk_rebase_keeps_rows, plan_add};

static column_change new_change(
    lk_dataset *base, lk_committer *committer, const lk_change_ops *ops, const lk_write_options *options)
{
    return (column_change){
        .base = {.ops = ops,
            .env = &base->env,
            .committer = committer,
            .options = options,
            .base = base->manifest},
    };
}

/* Takes the change. rc: what was found before. */
static lk_rc commit(column_change *c, lk_dataset *base, lk_rc rc, lk_dataset **out, lk_err *err)
{
    lk_manifest *committed = NULL;
    if (rc == LK_OK) {
        rc = lk_manifest_check_writable(base->manifest, err);
    }
    if (rc == LK_OK) {
        rc = lk_change_commit(&c->base, &committed, err);
    }
    if (rc == LK_OK) {
        *out = lk_dataset_new(&base->env, committed, base->files);
    } else {
        lk_change_undo(&c->base, err);
        lk_context(err, "columns of version %" PRIu64 " of %.*s", base->manifest->version,
            LK_FMT(base->env.store->uri));
    }
    lk_change_deinit(&c->base);
    return rc;
}

lk_rc lk_dataset_drop_columns(lk_dataset *base, lk_committer *committer, const lk_bytes *paths, size_t count,
    const lk_write_options *options, lk_dataset **out, lk_err *err)
{
    column_change c = new_change(base, committer, &drop_ops, options);
    int32_t      *ids = lk_arena_take(&c.base.arena, (count + 1) * sizeof *ids);
    lk_rc         rc = count > 0 ? LK_OK : lk_refuse(err, LK_E_INVALID_REQUEST, "no column is named");
    for (size_t i = 0; i < count && rc == LK_OK; i++) {
        size_t field = 0;
        rc = lk_columns_find(base->manifest->schema, paths[i], &field, err);
        ids[i] = rc == LK_OK ? base->manifest->schema->fields[field].id : LK_FIELD_NONE;
    }
    c.dropped = ids;
    c.dropped_count = count;
    return commit(&c, base, rc, out, err);
}

lk_rc lk_dataset_rename_column(lk_dataset *base, lk_committer *committer, lk_bytes path, lk_bytes name,
    const lk_write_options *options, lk_dataset **out, lk_err *err)
{
    column_change c = new_change(base, committer, &rename_ops, options);
    size_t        field = 0;
    lk_rc         rc = lk_columns_find(base->manifest->schema, path, &field, err);
    c.renamed = rc == LK_OK ? base->manifest->schema->fields[field].id : LK_FIELD_NONE;
    c.name = name;
    return commit(&c, base, rc, out, err);
}

lk_rc lk_dataset_add_columns(lk_dataset *base, lk_committer *committer, const struct ArrowSchema *columns,
    const lk_write_options *options, lk_dataset **out, lk_err *err)
{
    column_change c = new_change(base, committer, &add_ops, options);
    c.added = columns;
    return commit(&c, base, LK_OK, out, err);
}
