/* rollout_counts.c - see rollout_counts.h. */
#include "cli/rollout_counts.h"

#include "base/json.h"
#include "cli/rollout_read.h"
#include "rollout/count.h"
#include "rollout/time_text.h"
#include "serve/rollout_query_text.h"

enum { GROUPS_MAX = LK_ROLLOUT_GROUPS_MAX, COLUMNS = 4 };

typedef struct counts {
    lk_rollout_group *groups;
    size_t            count;
} counts;

/* -- in place --------------------------------------------------------------------------------------------------------- */
static lk_rc count_here(lk_rollout_target *target, const char *name, const char *by, const char *question,
    lk_arena *arena, counts *out, lk_err *err)
{
    lk_rollout_list_query asked;
    lk_rollout_store     *store = NULL;
    lk_rollout_snapshot  *snapshot = NULL;
    lk_record_column      column = lk_record_column_of(lk_bytes_of(by), LK_RECORD_COLUMN_policy_version);
    bool text = column != LK_RECORD_COLUMNS && (lk_record_column_kind(column) == LK_RECORD_TEXT ||
                                                   lk_record_column_kind(column) == LK_RECORD_ROLE);
    if (!text) {
        return lk_refuse(err, LK_E_INVALID_REQUEST,
            "--by takes a column of short texts, as policy_version, not %.50s", by);
    }
    lk_rc rc = lk_rollout_list_query_read(
        lk_bytes_of(question[0] == '?' ? question + 1 : question), arena, &asked, err);
    if (rc == LK_OK) {
        rc = lk_rollout_target_store(target, name, &store, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_store_snapshot(store, 0, &snapshot, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_count_by(snapshot, column, &asked.query, arena, &out->groups, &out->count, err);
    }
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_store_unref(store);
    return rc;
}

/* -- behind a server -------------------------------------------------------------------------------------------------- */
static lk_rc read_group(lk_bytes text, lk_arena *arena, lk_rollout_group *out, lk_err *err)
{
    lk_bytes            first = {0}, last = {0};
    const lk_json_field fields[] = {{"value", LK_JSON_TEXT, &out->value, true, NULL},
        {"rows", LK_JSON_U64, &out->rows, false, NULL},
        {"first_created_at", LK_JSON_TEXT, &first, false, NULL},
        {"last_created_at", LK_JSON_TEXT, &last, false, NULL}};
    lk_rc               rc = lk_json_read(text, fields, sizeof fields / sizeof fields[0], arena, err);
    if (rc == LK_OK &&
        (!lk_time_read(first, &out->first_created_at) || !lk_time_read(last, &out->last_created_at))) {
        rc = lk_fail(err, LK_E_INTERNAL, "what a server answered to stats: a time");
    }
    return rc;
}

static lk_rc read_groups(lk_bytes answer, lk_arena *arena, counts *out, lk_err *err)
{
    uint64_t            version = 0, pending = 0, rows = 0;
    lk_bytes            by = {0}, list = {0};
    lk_json_texts       elements = {0};
    const lk_json_field fields[] = {{"version", LK_JSON_U64, &version, true, NULL},
        {"pending_generations", LK_JSON_U64, &pending, true, NULL},
        {"group_by", LK_JSON_TEXT, &by, true, NULL}, {"groups", LK_JSON_RAW, &list, false, NULL},
        {"rows", LK_JSON_U64, &rows, true, NULL}};
    lk_rc               rc = lk_json_read(answer, fields, sizeof fields / sizeof fields[0], arena, err);
    if (rc == LK_OK) {
        rc = lk_json_elements(list, GROUPS_MAX, arena, &elements, err);
    }
    out->groups = lk_arena_take(arena, (elements.count + 1) * sizeof *out->groups);
    out->count = elements.count;
    for (size_t i = 0; i < elements.count && rc == LK_OK; i++) {
        rc = read_group(elements.items[i], arena, &out->groups[i], err);
    }
    return rc;
}

static lk_rc count_there(lk_rollout_target *target, const char *name, const char *by, const char *question,
    lk_arena *arena, counts *out, lk_err *err)
{
    lk_buf rest = {0}, answer = {0};
    lk_buf_format(&rest, "/stats%s%sgroup_by=", question, question[0] == '\0' ? "?" : "&");
    lk_rollout_path_escape(lk_bytes_of(by), &rest);
    lk_buf_append(&rest, "", 1);
    const lk_rollout_call call = {.method = "GET", .path = lk_rollout_target_path(arena, name, rest.data)};
    lk_rc                 rc = lk_rollout_remote_call(target->remote, &call, &answer, err);
    if (rc == LK_OK) {
        rc = read_groups(lk_buf_view(&answer), arena, out, err);
    }
    lk_buf_deinit(&rest);
    lk_buf_deinit(&answer);
    return rc;
}

/* -- both ------------------------------------------------------------------------------------------------------------- */
static int schema_of(const char *by, struct ArrowSchema *out)
{
    static const char *const names[] = {"rows", "first_created_at", "last_created_at"};
    ArrowSchemaInit(out);
    NANOARROW_RETURN_NOT_OK(ArrowSchemaSetTypeStruct(out, COLUMNS));
    NANOARROW_RETURN_NOT_OK(ArrowSchemaSetType(out->children[0], NANOARROW_TYPE_STRING));
    NANOARROW_RETURN_NOT_OK(ArrowSchemaSetName(out->children[0], by));
    NANOARROW_RETURN_NOT_OK(ArrowSchemaSetType(out->children[1], NANOARROW_TYPE_INT64));
    for (int i = 1; i < COLUMNS; i++) {
        if (i > 1) {
            NANOARROW_RETURN_NOT_OK(ArrowSchemaSetTypeDateTime(
                out->children[i], NANOARROW_TYPE_TIMESTAMP, NANOARROW_TIME_UNIT_MICRO, "UTC"));
        }
        NANOARROW_RETURN_NOT_OK(ArrowSchemaSetName(out->children[i], names[i - 1]));
    }
    return NANOARROW_OK;
}

static int append_group(struct ArrowArray *batch, const lk_rollout_group *g)
{
    const int64_t numbers[] = {(int64_t)g->rows, g->first_created_at, g->last_created_at};
    if (g->value.data == NULL) {
        NANOARROW_RETURN_NOT_OK(ArrowArrayAppendNull(batch->children[0], 1));
    } else {
        const struct ArrowStringView value = {g->value.data, (int64_t)g->value.size};
        NANOARROW_RETURN_NOT_OK(ArrowArrayAppendString(batch->children[0], value));
    }
    for (int i = 1; i < COLUMNS; i++) {
        NANOARROW_RETURN_NOT_OK(ArrowArrayAppendInt(batch->children[i], numbers[i - 1]));
    }
    return ArrowArrayFinishElement(batch);
}

static lk_batches *batches_of(const char *by, const counts *c)
{
    struct ArrowSchema schema;
    struct ArrowArray  batch;
    bool               ok = schema_of(by, &schema) == NANOARROW_OK &&
              ArrowArrayInitFromSchema(&batch, &schema, NULL) == NANOARROW_OK &&
              ArrowArrayStartAppending(&batch) == NANOARROW_OK;
    for (size_t i = 0; i < c->count && ok; i++) {
        ok = append_group(&batch, &c->groups[i]) == NANOARROW_OK;
    }
    LK_ASSERT(ok && ArrowArrayFinishBuildingDefault(&batch, NULL) == NANOARROW_OK);
    return lk_batches_of(&schema, &batch, 1);
}

lk_rc lk_rollout_counts(lk_rollout_target *target, const char *name, const char *by, const char *filters,
    lk_arena *arena, lk_batches **out, lk_err *err)
{
    const lk_rollout_list_args what = {.filters = filters, .limit = UINT64_MAX};
    const char                *question = lk_rollout_question_text(&what, arena);
    counts                     c = {0};
    lk_rc                      rc =
        (target->stores != NULL ? count_here : count_there)(target, name, by, question, arena, &c, err);
    *out = rc == LK_OK ? batches_of(by, &c) : NULL;
    return rc;
}
