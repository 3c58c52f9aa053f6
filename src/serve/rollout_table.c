/* rollout_table.c - see rollout_table.h. A batch with more roles than 8-bit indices can tell apart goes out in pieces. */
#include "serve/rollout_table.h"

#include "arrow/schema.h"
#include "rollout/cell.h"
#include "rollout/records.h"

#include <stdlib.h>

typedef struct table {
    lk_batches       base;
    lk_batches      *rows;
    int64_t          role; /* its column; -1: not asked for */
    lk_shared_array *left; /* rows that did not go out yet, from `at` on */
    int64_t          at;
} table;

/* Gives every column the type and flags that the table has for its name. */
static lk_rc take_types(table *t, lk_err *err)
{
    struct ArrowSchema types = {0};
    size_t             chosen[LK_RECORD_COLUMNS];
    size_t             count = (size_t)t->rows->schema.n_children;
    LK_ASSERT(count <= LK_RECORD_COLUMNS);
    lk_record_schema(true, &types);
    for (size_t i = 0; i < count; i++) {
        const char *name = t->rows->schema.children[i]->name;
        chosen[i] = (size_t)lk_schema_find(&types, lk_bytes_of(name));
    }
    lk_rc rc = lk_schema_project(&types, chosen, count, &t->base.schema, err);
    t->role = lk_schema_find(&t->rows->schema, LK_LITERAL("role"));
    lk_schema_release(&types);
    return rc;
}

static size_t find_role(const lk_bytes *roles, size_t count, lk_bytes role)
{
    size_t i = 0;
    while (i < count && !lk_bytes_equal(roles[i], role)) {
        i++;
    }
    return i;
}

static bool append_role(struct ArrowArray *out, size_t index, bool is_new, lk_bytes role)
{
    struct ArrowStringView text = {role.data, (int64_t)role.size};
    return (!is_new || ArrowArrayAppendString(out->dictionary, text) == NANOARROW_OK) &&
           ArrowArrayAppendInt(out, (int64_t)index) == NANOARROW_OK;
}

/* Encodes roles from row `from` on, as many rows as the indices reach; *end is the row behind them. */
static lk_rc encode(const table *t, const struct ArrowArray *column, int64_t from, int64_t *end,
    struct ArrowArray *out, lk_err *err)
{
    lk_bytes roles[LK_RECORD_ROLES_MAX];
    size_t   count = 0;
    bool     built = ArrowArrayInitFromSchema(out, t->base.schema.children[t->role], NULL) == NANOARROW_OK &&
                 ArrowArrayStartAppending(out) == NANOARROW_OK;
    for (*end = from; built && *end < column->length; ++*end) {
        lk_bytes role = lk_cell_valid(column, *end) ? lk_cell_text(column, *end) : LK_LITERAL("");
        size_t   index = find_role(roles, count, role);
        if (index == LK_RECORD_ROLES_MAX) {
            break;
        }
        built = append_role(out, index, index == count, role);
        if (index == count) {
            roles[count++] = role;
        }
    }
    built = built && ArrowArrayFinishBuildingDefault(out, NULL) == NANOARROW_OK;
    return built ? LK_OK : lk_fail(err, LK_E_LIMIT, "no memory for a batch");
}

static lk_rc next_piece(table *t, struct ArrowArray *out, lk_err *err)
{
    struct ArrowArray roles = {0};
    int64_t           end = 0;
    lk_rc rc = encode(t, lk_shared_array_get(t->left)->children[t->role], t->at, &end, &roles, err);
    if (rc == LK_OK) {
        lk_shared_batch_slice(t->left, t->at, end - t->at, out);
        lk_array_release(out->children[t->role]);
        lk_array_move(&roles, out->children[t->role]);
        t->at = end;
    }
    lk_array_release(&roles);
    if (t->at == lk_shared_array_get(t->left)->length) {
        lk_shared_array_unref(t->left);
        t->left = NULL;
    }
    return rc;
}

static lk_rc next_batch(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    table *t = (table *)batches;
    *out = (struct ArrowArray){0};
    if (t->left == NULL) {
        struct ArrowArray batch = {0};
        lk_rc             rc = lk_batches_next(t->rows, &batch, err);
        if (rc != LK_OK || batch.release == NULL || t->role < 0 || batch.length == 0) {
            *out = batch;
            return rc;
        }
        t->left = lk_array_share(&batch);
        t->at = 0;
    }
    return next_piece(t, out, err);
}

static void close_table(lk_batches *batches)
{
    table *t = (table *)batches;
    lk_shared_array_unref(t->left);
    lk_batches_close(t->rows);
    lk_schema_release(&t->base.schema);
    free(t);
}

lk_rc rollout_table_open(lk_batches *rows, lk_batches **out, lk_err *err)
{
    table *t = calloc(1, sizeof *t);
    LK_ASSERT(t != NULL);
    t->base.next = next_batch;
    t->base.close = close_table;
    t->rows = rows;
    lk_rc rc = take_types(t, err);
    if (rc != LK_OK) {
        close_table(&t->base);
        return rc;
    }
    *out = &t->base;
    return LK_OK;
}
