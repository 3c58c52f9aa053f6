/* count.c - see count.h: a query's rows in the snapshot's own order, counted as they come. */
#include "rollout/count.h"

#include "arrow/schema.h"
#include "rollout/cell.h"
#include "rollout/id_map.h"

#include <stdlib.h>

typedef struct counting {
    lk_arena  *arena;
    lk_id_map *places; /* of values; row is the index among groups */
    lk_buf     groups; /* of lk_rollout_group */
    size_t     null_at;
    bool       has_null;
} counting;

static lk_rollout_group *group_at(counting *c, size_t index)
{
    return (lk_rollout_group *)(void *)c->groups.data + index;
}

static size_t new_group(counting *c, lk_bytes value)
{
    const lk_rollout_group group = {
        .value = value, .first_created_at = INT64_MAX, .last_created_at = INT64_MIN};
    lk_buf_append(&c->groups, &group, sizeof group);
    return c->groups.size / sizeof group - 1;
}

static size_t null_group(counting *c)
{
    if (!c->has_null) {
        c->null_at = new_group(c, (lk_bytes){0});
        c->has_null = true;
    }
    return c->null_at;
}

static size_t group_of(counting *c, lk_bytes value)
{
    lk_id_place place;
    if (!lk_id_map_find(c->places, value, &place)) {
        lk_bytes copy = value.size == 0 ? LK_LITERAL("") : lk_arena_copy(c->arena, value);
        place = (lk_id_place){0, (uint32_t)new_group(c, copy)};
        (void)lk_id_map_add(c->places, copy, place);
    }
    return place.row;
}

/* Columns: the one that is counted by, and created_at; either may be the first. */
static lk_rc count_batch(counting *c, const struct ArrowSchema *schema, const struct ArrowArray *batch,
    const char *by, lk_err *err)
{
    const struct ArrowArray *values = batch->children[lk_schema_find(schema, lk_bytes_of(by))];
    const struct ArrowArray *times = batch->children[lk_schema_find(schema, LK_LITERAL("created_at"))];
    for (int64_t row = 0; row < batch->length; row++) {
        size_t at = lk_cell_valid(values, row) ? group_of(c, lk_cell_text(values, row)) : null_group(c);
        if (c->groups.size / sizeof(lk_rollout_group) > LK_ROLLOUT_GROUPS_MAX) {
            return lk_refuse(err, LK_E_LIMIT, "more than %d different values of %s: narrow it by filters",
                (int)LK_ROLLOUT_GROUPS_MAX, by);
        }
        lk_rollout_group *group = group_at(c, at);
        group->rows++;
        if (lk_cell_valid(times, row)) {
            int64_t time = ((const int64_t *)times->buffers[1])[times->offset + row];
            group->first_created_at = time < group->first_created_at ? time : group->first_created_at;
            group->last_created_at = time > group->last_created_at ? time : group->last_created_at;
        }
    }
    return LK_OK;
}

static int by_value(const void *a, const void *b)
{
    const lk_rollout_group *x = a, *y = b;
    if (x->value.data == NULL || y->value.data == NULL) {
        return (x->value.data != NULL) - (y->value.data != NULL);
    }
    return lk_bytes_compare(x->value, y->value);
}

static void give_groups(counting *c, lk_rollout_group **groups, size_t *count)
{
    *count = c->groups.size / sizeof **groups;
    if (*count > 0) {
        qsort(c->groups.data, *count, sizeof **groups, by_value);
    }
    *groups = lk_arena_take(c->arena, (*count + 1) * sizeof **groups);
    memcpy(*groups, c->groups.data == NULL ? "" : c->groups.data, c->groups.size);
}

lk_rc lk_rollout_count_by(lk_rollout_snapshot *snapshot, lk_record_column by, const lk_rollout_query *query,
    lk_arena *arena, lk_rollout_group **groups, size_t *count, lk_err *err)
{
    counting         c = {.arena = arena};
    lk_batches      *batches = NULL;
    lk_rollout_query all = *query;
    lk_record_kind   kind = lk_record_column_kind(by);
    if (kind != LK_RECORD_TEXT && kind != LK_RECORD_ROLE) {
        return lk_refuse(
            err, LK_E_INVALID_REQUEST, "rows cannot be grouped by %s", lk_record_column_name(by));
    }
    all.order = LK_ROLLOUT_ANY;
    all.columns = UINT64_C(1) << by | UINT64_C(1) << LK_RECORD_COLUMN_created_at;
    all.offset = 0;
    all.limit = UINT64_MAX;
    all.after = NULL;
    c.places = lk_id_map_new(0);
    lk_rc rc = lk_rollout_query_open(snapshot, &all, &batches, err);
    for (bool more = rc == LK_OK; more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        if (more) {
            rc = count_batch(&c, &batches->schema, &batch, lk_record_column_name(by), err);
            more = rc == LK_OK;
        }
        lk_array_release(&batch);
    }
    if (rc == LK_OK) {
        give_groups(&c, groups, count);
    }
    lk_batches_close(batches);
    lk_id_map_free(c.places);
    lk_buf_deinit(&c.groups);
    return rc;
}
