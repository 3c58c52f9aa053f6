/*
 * scan.c - DuckDB's table function over a pinned snapshot: lake_scan(run, source, reference).
 *
 * bind       the source's columns in their carrier types
 * pushdown   filters that lk_predicate holds exactly leave DuckDB; others still prune
 * init       opens the morsel scan with the columns and filters that are needed
 * exec       one chunk of 2,048 rows by reference into the morsel's own Arrow buffers
 * partition  the morsel's number, so that parallel scans keep the row order
 *
 * Threads: bind and init on the planning thread; exec on any number of DuckDB's, each with its local state.
 */
#include "sql/carrier_priv.h"
#include "sql/run_priv.h"

#include <stdlib.h>

enum { CHUNK_ROWS = 2048 };

typedef struct bound { /* one scan in one plan */
    lk_run         *run;
    lk_run_source  *source;
    size_t          reference;
    lk_scan_filters filters;
} bound;

typedef struct global {
    bound             *bound;
    lk_morsel_scan    *scan;    /* NULL for a listing */
    size_t            *columns; /* what DuckDB asked for, in its order */
    size_t            *places;  /* and where in a batch each lies */
    size_t             column_count;
    struct ArrowSchema carrier; /* of those columns */
    atomic_bool        listing_taken;
} global;

typedef struct local {
    duckdb_v2_arrow_importer_handle importer;
    bool                            draining; /* the importer still has rows of the morsel */
    size_t                          morsel;
} local;

/* -- failures -------------------------------------------------------------------------------------- */

static void fail_text(duckdb_v2_error_info_handle slot, const char *text)
{
    duckdb_v2_str message = lk_duck_str(lk_bytes_of(text));
    (void)duckdb_v2_error_info_set_code(slot, DUCKDB_V2_ERROR_INPUT_INVALID);
    (void)duckdb_v2_error_info_set_text(slot, &message);
}

void lk_run_fail(lk_run *run, const lk_err *failure, duckdb_v2_error_info_handle slot)
{
    lk_mutex_lock(&run->mutex);
    if (!run->failed) {
        run->failed = true;
        run->failure = *failure;
    }
    lk_mutex_unlock(&run->mutex);
    fail_text(slot, "the scan failed");
}

static bool check(bound *b, DUCKDB_V2_ERROR code, duckdb_v2_error_info_handle *info, const char *doing,
    duckdb_v2_error_info_handle slot)
{
    if (code == DUCKDB_V2_ERROR_NONE) {
        return true;
    }
    lk_err failure = {0};
    (void)lk_duck_fail(&failure, LK_DUCK_RUNNING, code, info, doing);
    lk_run_fail(b->run, &failure, slot);
    return false;
}

const struct ArrowSchema *lk_run_source_schema(const lk_run_source *source)
{
    if (source->with_rows.release != NULL) {
        return &source->with_rows;
    }
    return source->snapshot == NULL ? &source->listing_schema
                                    : source->snapshot->ops->schema(source->snapshot);
}

/* -- bind ------------------------------------------------------------------------------------------ */

static void bound_free(void *data)
{
    bound *b = data;
    lk_arena_close(&b->filters.arena);
    free(b);
}

static bool argument(duckdb_v2_function_bind_info_handle info, const char *name, uint64_t *out)
{
    duckdb_v2_value_handle value = NULL;
    duckdb_v2_str          parameter = lk_duck_str(lk_bytes_of(name));
    idx_t                  index = 0;
    bool                   found = false;
    bool good = duckdb_v2_function_bind_get_arg_index(info, &parameter, &index, &found, NULL) ==
                    DUCKDB_V2_ERROR_NONE &&
                found &&
                duckdb_v2_function_bind_get_arg_value(info, index, &value, NULL) == DUCKDB_V2_ERROR_NONE &&
                duckdb_v2_value_get_ubigint(value, out, NULL) == DUCKDB_V2_ERROR_NONE;
    (void)duckdb_v2_value_destroy(&value);
    return good;
}

/* DuckDB's own reading of the carrier schema decides the column types. */
static DUCKDB_V2_ERROR declare(bound *b, duckdb_v2_table_function_bind_info_handle result,
    duckdb_v2_context_handle context, duckdb_v2_error_info_handle *info)
{
    duckdb_v2_arrow_importer_handle importer = NULL;
    duckdb_v2_schema_handle         schema = NULL;
    idx_t                           count = 0;
    DUCKDB_V2_ERROR                 code =
        duckdb_v2_arrow_importer_create(context, &b->source->carrier, CHUNK_ROWS, &importer, info);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_arrow_importer_get_schema(importer, &schema, info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_schema_get_count(schema, &count, info);
    }
    for (idx_t i = 0; code == DUCKDB_V2_ERROR_NONE && i < count; i++) {
        duckdb_v2_str name = lk_duck_str(lk_bytes_of(b->source->carrier.children[i]->name)), ignored = {0};
        duckdb_v2_logical_type_handle type = NULL; /* borrowed */
        code = duckdb_v2_schema_get_field(schema, i, &ignored, &type, info);
        if (code == DUCKDB_V2_ERROR_NONE) {
            code = duckdb_v2_table_function_bind_add_result_column(result, &name, type, info);
        }
    }
    (void)duckdb_v2_schema_destroy(&schema);
    (void)duckdb_v2_arrow_importer_destroy(&importer);
    return code;
}

static uint64_t row_count(const lk_run_source *source)
{
    return source->snapshot == NULL ? (uint64_t)lk_shared_array_get(source->listing)->length
                                    : source->snapshot->ops->row_count(source->snapshot);
}

/* Which run, source and reference a call names; NULL (and the error slot filled) when it must not be
 * bound. */
static bound *new_bound(duckdb_v2_function_bind_info_handle info, duckdb_v2_error_info_handle slot)
{
    void    *runs = NULL;
    uint64_t id = 0, source = 0, reference = 0;
    lk_run  *run = NULL;
    if (duckdb_v2_function_bind_get_user_data(info, &runs, NULL) == DUCKDB_V2_ERROR_NONE &&
        argument(info, "run", &id) && argument(info, "source", &source) &&
        argument(info, "reference", &reference)) {
        run = lk_runs_find(runs, id);
    }
    if (run == NULL || source >= run->statement->source_count || reference >= run->reference_count) {
        fail_text(slot, "no such scan");
        return NULL;
    }
    if (run->references[reference].filtered) {
        run->copied = true;
        fail_text(slot, "a scan with filters cannot be copied");
        return NULL;
    }
    bound *b = calloc(1, sizeof *b);
    LK_ASSERT(b != NULL);
    b->run = run;
    b->source = &run->sources[source];
    b->reference = reference;
    return b;
}

static void on_bind(duckdb_v2_function_bind_info_handle info,
    duckdb_v2_table_function_bind_info_handle result, duckdb_v2_context_handle context,
    duckdb_v2_error_info_handle *slot)
{
    bound *b = new_bound(info, *slot);
    if (b == NULL) {
        return;
    }
    duckdb_v2_error_info_handle problem = NULL;
    duckdb_v2_opaque            data = {b, bound_free, NULL};
    DUCKDB_V2_ERROR             code = declare(b, result, context, &problem);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_table_function_bind_set_cardinality(result, row_count(b->source), true, &problem);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_function_bind_set_bind_data(info, &data, &problem);
    }
    if (!check(b, code, &problem, "bind scan", *slot)) {
        bound_free(b);
    }
}

/* Filters stay with DuckDB where tables are joined, and only prune here: one that a scan has taken over no longer
 * counts when rows are estimated, and a bad order of joins costs more than comparing again what the scan let through.
 * All references are bound before the first filter is offered. */
static bool filters_stay(const lk_run *run)
{
    return run->keeps_filters || run->reference_count > 1;
}

static void on_pushdown(duckdb_v2_table_function_filter_pushdown_info_handle info,
    duckdb_v2_context_handle context, duckdb_v2_error_info_handle *slot)
{
    (void)context;
    (void)slot;
    void *data = NULL;
    if (duckdb_v2_table_function_filter_pushdown_get_bind_data(info, &data, NULL) == DUCKDB_V2_ERROR_NONE) {
        bound *b = data;
        if (b->source->snapshot != NULL) {
            const struct ArrowSchema *schema = b->source->snapshot->ops->schema(b->source->snapshot);
            bool              taken = lk_scan_filters_offer(&b->filters, schema, filters_stay(b->run), info);
            lk_run_reference *reference = &b->run->references[b->reference];
            reference->filtered = reference->filtered || taken;
        }
    }
}

/* -- init ------------------------------------------------------------------------------------------ */

static void global_free(void *data)
{
    global *g = data;
    if (g->scan != NULL) {
        lk_morsel_scan_close(g->scan);
    }
    lk_schema_release(&g->carrier);
    free(g->columns);
    free(g->places);
    free(g);
}

static lk_rc read_columns(duckdb_v2_table_function_init_global_info_handle info, global *g, lk_err *err)
{
    const struct ArrowSchema *schema = lk_run_source_schema(g->bound->source);
    idx_t                     count = 0;
    (void)duckdb_v2_table_function_init_global_get_column_count(info, &count, NULL);
    g->columns = calloc(count + 1, sizeof *g->columns);
    LK_ASSERT(g->columns != NULL);
    for (idx_t i = 0; i < count; i++) {
        idx_t                       column = 0;
        duckdb_v2_error_info_handle problem = NULL;
        DUCKDB_V2_ERROR             code =
            duckdb_v2_table_function_init_global_get_column_index(info, i, &column, &problem);
        if (code != DUCKDB_V2_ERROR_NONE || column >= (idx_t)schema->n_children) {
            return lk_duck_fail(err, LK_DUCK_STARTING, code, &problem, "scan column");
        }
        if (!lk_carrier_exists(schema->children[column])) {
            lk_rc rc = lk_fail(err, LK_E_PLANNING, "no carrier for %s", schema->children[column]->format);
            (void)lk_detail(err, "column \"%.100s\" has a type that only a plain SELECT can read",
                schema->children[column]->name);
            return rc;
        }
        g->columns[g->column_count++] = column;
    }
    return LK_OK;
}

static lk_rc project_carrier(global *g, lk_err *err)
{
    const struct ArrowSchema *all = &g->bound->source->carrier;
    ArrowSchemaInit(&g->carrier);
    if (ArrowSchemaSetTypeStruct(&g->carrier, (int64_t)g->column_count) != NANOARROW_OK ||
        ArrowSchemaSetName(&g->carrier, "") != NANOARROW_OK) {
        return lk_fail(err, LK_E_LIMIT, "scan schema");
    }
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < g->column_count; i++) {
        lk_schema_release(g->carrier.children[i]);
        rc = lk_schema_copy(all->children[g->columns[i]], g->carrier.children[i], err);
    }
    return rc;
}

/* The table's own columns as they were asked for, behind them the row columns in their order. */
static void place_columns(global *g, size_t own, size_t *columns, lk_scan_options *options)
{
    static const unsigned metas[] = {LK_META_ROW_ID, LK_META_ROW_ADDRESS};
    for (size_t i = 0; i < g->column_count; i++) {
        if (g->columns[i] < own) {
            g->places[i] = options->column_count;
            columns[options->column_count++] = g->columns[i];
        } else {
            options->meta |= metas[g->columns[i] - own];
        }
    }
    size_t first = SIZE_MAX;
    for (size_t i = 0; i < g->column_count; i++) {
        first = g->columns[i] >= own && g->columns[i] < first ? g->columns[i] : first;
    }
    for (size_t i = 0; i < g->column_count; i++) {
        if (g->columns[i] >= own) {
            g->places[i] = options->column_count + (g->columns[i] - first);
        }
    }
}

static lk_rc open_scan(global *g, lk_err *err)
{
    bound             *b = g->bound;
    lk_table_snapshot *snapshot = b->source->snapshot;
    if (snapshot == NULL) {
        return LK_OK;
    }
    size_t *columns = calloc(g->column_count + 1, sizeof *columns);
    g->places = calloc(g->column_count + 1, sizeof *g->places);
    LK_ASSERT(columns != NULL && g->places != NULL);
    lk_scan_options options = {.columns = columns,
        .no_columns = g->column_count == 0,
        .predicate = lk_scan_filters_all(&b->filters),
        .limit = UINT64_MAX,
        .cancel = b->run->cancel};
    place_columns(g, (size_t)snapshot->ops->schema(snapshot)->n_children, columns, &options);
    lk_rc rc = snapshot->ops->morsels(snapshot, &options, &g->scan, err);
    free(columns);
    return rc;
}

static void on_global(duckdb_v2_table_function_init_global_info_handle info, duckdb_v2_context_handle context,
    duckdb_v2_error_info_handle *slot)
{
    (void)context;
    void *data = NULL;
    if (duckdb_v2_table_function_init_global_get_bind_data(info, &data, NULL) != DUCKDB_V2_ERROR_NONE) {
        fail_text(*slot, "no scan");
        return;
    }
    global *g = calloc(1, sizeof *g);
    LK_ASSERT(g != NULL);
    g->bound = data;
    lk_err err = {0};
    lk_rc  rc = read_columns(info, g, &err);
    if (rc == LK_OK) {
        rc = project_carrier(g, &err);
    }
    if (rc == LK_OK) {
        rc = open_scan(g, &err);
    }
    if (rc != LK_OK) {
        lk_run_fail(g->bound->run, &err, *slot);
        global_free(g);
        return;
    }
    size_t morsels = g->scan == NULL ? 1 : lk_morsel_scan_count(g->scan);
    (void)duckdb_v2_table_function_init_global_set_max_threads(info, morsels == 0 ? 1 : morsels, NULL);
    duckdb_v2_opaque state = {g, global_free, NULL};
    (void)duckdb_v2_table_function_init_global_set_global_state(info, &state, NULL);
}

static void local_free(void *data)
{
    local *l = data;
    (void)duckdb_v2_arrow_importer_destroy(&l->importer);
    free(l);
}

static void on_local(duckdb_v2_table_function_init_local_info_handle info, duckdb_v2_context_handle context,
    duckdb_v2_error_info_handle *slot)
{
    void *data = NULL;
    if (duckdb_v2_table_function_init_local_get_global_state(info, &data, NULL) != DUCKDB_V2_ERROR_NONE) {
        fail_text(*slot, "no scan");
        return;
    }
    global *g = data;
    local  *l = calloc(1, sizeof *l);
    LK_ASSERT(l != NULL);
    duckdb_v2_error_info_handle problem = NULL;
    DUCKDB_V2_ERROR             code = DUCKDB_V2_ERROR_NONE;
    if (g->column_count > 0) {
        code = duckdb_v2_arrow_importer_create(context, &g->carrier, CHUNK_ROWS, &l->importer, &problem);
    }
    if (!check(g->bound, code, &problem, "scan importer", *slot)) {
        local_free(l);
        return;
    }
    duckdb_v2_opaque state = {l, local_free, NULL};
    (void)duckdb_v2_table_function_init_local_set_local_state(info, &state, NULL);
}

/* -- exec ------------------------------------------------------------------------------------------ */

/* A struct array of the asked columns over the shared listing. */
static lk_rc listing_batch(global *g, struct ArrowArray *out, lk_err *err)
{
    const struct ArrowArray *all = lk_shared_array_get(g->bound->source->listing);
    struct ArrowArray        whole = {0};
    if (ArrowArrayInitFromType(out, NANOARROW_TYPE_STRUCT) != NANOARROW_OK ||
        ArrowArrayAllocateChildren(out, (int64_t)g->column_count) != NANOARROW_OK) {
        return lk_fail(err, LK_E_LIMIT, "listing");
    }
    lk_shared_array_slice(g->bound->source->listing, 0, all->length, &whole);
    for (size_t i = 0; i < g->column_count; i++) {
        lk_array_move(whole.children[g->columns[i]], out->children[i]);
    }
    lk_array_release(&whole);
    out->length = all->length;
    return LK_OK;
}

/* Puts a batch's columns in DuckDB's order. */
static void reorder(const global *g, struct ArrowArray *batch)
{
    struct ArrowArray kept[8], *moved = g->column_count <= 8 ? kept : calloc(g->column_count, sizeof *moved);
    bool              ordered = true;
    LK_ASSERT(moved != NULL);
    for (size_t i = 0; i < g->column_count; i++) {
        ordered = ordered && g->places[i] == i;
    }
    for (size_t i = 0; !ordered && i < g->column_count; i++) {
        lk_array_move(batch->children[g->places[i]], &moved[i]);
    }
    for (size_t i = 0; !ordered && i < g->column_count; i++) {
        lk_array_move(&moved[i], batch->children[i]);
    }
    if (moved != kept) {
        free(moved);
    }
}

/* The next batch that has rows, its columns in their carriers; released when there is none. */
static lk_rc next_batch(global *g, local *l, struct ArrowArray *out, lk_err *err)
{
    const struct ArrowSchema *schema = lk_run_source_schema(g->bound->source);
    bool                      done = false;
    lk_rc                     rc = LK_OK;
    *out = (struct ArrowArray){0};
    if (g->scan == NULL) {
        return atomic_exchange(&g->listing_taken, true) ? LK_OK : listing_batch(g, out, err);
    }
    while (rc == LK_OK && out->release == NULL && !done) {
        rc = lk_morsel_scan_next(g->scan, out, &l->morsel, &done, err);
        if (rc == LK_OK && out->release != NULL && out->length == 0) {
            lk_array_release(out);
        }
    }
    if (rc == LK_OK && out->release != NULL) {
        reorder(g, out);
    }
    for (size_t i = 0; rc == LK_OK && out->release != NULL && i < g->column_count; i++) {
        rc =
            lk_carrier_import(schema->children[g->columns[i]], g->carrier.children[i], out->children[i], err);
    }
    if (rc != LK_OK) {
        lk_array_release(out);
    }
    return rc;
}

/* Points DuckDB's output vectors at the chunk's. */
static DUCKDB_V2_ERROR refer(duckdb_v2_data_chunk_handle chunk, duckdb_v2_data_chunk_handle out,
    size_t columns, duckdb_v2_error_info_handle *info)
{
    idx_t           rows = 0;
    DUCKDB_V2_ERROR code = duckdb_v2_data_chunk_get_size(chunk, &rows, info);
    for (size_t i = 0; code == DUCKDB_V2_ERROR_NONE && i < columns; i++) {
        duckdb_v2_vector_handle from = NULL, to = NULL;
        code = duckdb_v2_data_chunk_get_vector(chunk, i, &from, info);
        if (code == DUCKDB_V2_ERROR_NONE) {
            code = duckdb_v2_data_chunk_get_vector(out, i, &to, info);
        }
        if (code == DUCKDB_V2_ERROR_NONE) {
            code = duckdb_v2_vector_reference(to, from, info);
        }
        if (code == DUCKDB_V2_ERROR_NONE && i == 0) {
            code = duckdb_v2_vector_set_size(to, rows, info);
        }
    }
    return code;
}

/* One chunk into out; leaves it empty at the end of the scan. */
static lk_rc produce(global *g, local *l, duckdb_v2_data_chunk_handle out, lk_err *err)
{
    for (;;) {
        duckdb_v2_error_info_handle info = NULL;
        DUCKDB_V2_ERROR             code = DUCKDB_V2_ERROR_NONE;
        if (!l->draining) {
            struct ArrowArray batch = {0};
            lk_rc             rc = next_batch(g, l, &batch, err);
            if (rc != LK_OK || batch.release == NULL) {
                return rc;
            }
            code = duckdb_v2_arrow_importer_append(l->importer, &batch, true, true, &info);
            lk_array_release(&batch);
            l->draining = code == DUCKDB_V2_ERROR_NONE;
        }
        duckdb_v2_data_chunk_handle chunk = NULL;
        if (code == DUCKDB_V2_ERROR_NONE) {
            code = duckdb_v2_arrow_importer_next_chunk(l->importer, &chunk, &info);
        }
        bool drained = code == DUCKDB_V2_ERROR_NONE && chunk == NULL;
        if (code == DUCKDB_V2_ERROR_NONE && !drained) {
            code = refer(chunk, out, g->column_count, &info);
        }
        (void)duckdb_v2_data_chunk_destroy(&chunk);
        if (code != DUCKDB_V2_ERROR_NONE) {
            return lk_duck_fail(err, LK_DUCK_RUNNING, code, &info, "scan");
        }
        if (!drained) {
            return LK_OK;
        }
        l->draining = false;
    }
}

static void on_exec(duckdb_v2_table_function_exec_info_handle info, duckdb_v2_context_handle context,
    duckdb_v2_error_info_handle *slot)
{
    (void)context;
    void                       *global_state = NULL, *local_state = NULL;
    duckdb_v2_data_chunk_handle out = NULL;
    if (duckdb_v2_table_function_exec_get_global_state(info, &global_state, NULL) != DUCKDB_V2_ERROR_NONE ||
        duckdb_v2_table_function_exec_get_local_state(info, &local_state, NULL) != DUCKDB_V2_ERROR_NONE ||
        duckdb_v2_table_function_exec_get_output_chunk(info, &out, NULL) != DUCKDB_V2_ERROR_NONE) {
        fail_text(*slot, "no scan");
        return;
    }
    global *g = global_state;
    lk_err  err = {0};
    lk_rc   rc = lk_cancel_check(g->bound->run->cancel, &err);
    if (rc == LK_OK) {
        rc = produce(g, local_state, out, &err);
    }
    if (rc != LK_OK) {
        lk_run_fail(g->bound->run, &err, *slot);
    }
}

static void on_partition(duckdb_v2_table_function_partition_data_info_handle info,
    duckdb_v2_context_handle context, duckdb_v2_error_info_handle *slot)
{
    (void)context;
    (void)slot;
    void *data = NULL;
    if (duckdb_v2_table_function_partition_data_get_local_state(info, &data, NULL) == DUCKDB_V2_ERROR_NONE) {
        const local *l = data;
        (void)duckdb_v2_table_function_partition_data_set_batch_index(info, l->morsel, NULL);
    }
}

/* -- registration ---------------------------------------------------------------------------------- */

static DUCKDB_V2_ERROR add_parameters(duckdb_v2_factory_handle factory,
    duckdb_v2_table_function_handle function, duckdb_v2_error_info_handle *info)
{
    static const char *const            names[] = {"run", "source", "reference"};
    duckdb_v2_function_signature_handle signature = NULL;
    duckdb_v2_logical_type_handle       type = NULL;
    DUCKDB_V2_ERROR code = duckdb_v2_table_function_get_signature(function, &signature, info);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_factory_create_type_from_id(
            factory, DUCKDB_V2_LOGICAL_TYPE_ID_UBIGINT, NULL, NULL, 0, &type, info);
    }
    for (size_t i = 0; code == DUCKDB_V2_ERROR_NONE && i < 3; i++) {
        duckdb_v2_str name = lk_duck_str(lk_bytes_of(names[i]));
        code = duckdb_v2_function_signature_add_parameter(
            signature, &name, type, NULL, DUCKDB_V2_FUNCTION_PARAMETER_KIND_NAMED_ONLY, info);
    }
    (void)duckdb_v2_logical_type_destroy(&type);
    return code;
}

static DUCKDB_V2_ERROR set_callbacks(
    duckdb_v2_table_function_handle function, lk_runs *runs, duckdb_v2_error_info_handle *info)
{
    duckdb_v2_opaque user = {runs, NULL, NULL};
    DUCKDB_V2_ERROR  code = duckdb_v2_table_function_set_user_data(function, &user, info);
#define SET(call) code = code == DUCKDB_V2_ERROR_NONE ? (call) : code
    SET(duckdb_v2_table_function_set_bind_callback(function, on_bind, info));
    SET(duckdb_v2_table_function_set_init_global_callback(function, on_global, info));
    SET(duckdb_v2_table_function_set_init_local_callback(function, on_local, info));
    SET(duckdb_v2_table_function_set_exec_callback(function, on_exec, info));
    SET(duckdb_v2_table_function_set_projection_pushdown(function, true, info));
    SET(duckdb_v2_table_function_set_filter_pushdown_callback(function, on_pushdown, info));
    SET(duckdb_v2_table_function_set_partition_data_callback(function, on_partition, info));
#undef SET
    return code;
}

lk_rc lk_scan_register(duckdb_v2_connection_handle connection, lk_runs *runs, lk_err *err)
{
    duckdb_v2_error_info_handle     info = NULL;
    duckdb_v2_factory_handle        factory = NULL;
    duckdb_v2_table_function_handle function = NULL;
    duckdb_v2_str                   name = lk_duck_str(LK_LITERAL("lake_scan"));
    DUCKDB_V2_ERROR                 code = duckdb_v2_connection_get_factory(connection, &factory, &info);
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_table_function_create(factory, &function, &info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_table_function_set_name(function, &name, &info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = add_parameters(factory, function, &info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = set_callbacks(function, runs, &info);
    }
    if (code == DUCKDB_V2_ERROR_NONE) {
        code = duckdb_v2_connection_register_table_function(connection, function, &info);
    }
    (void)duckdb_v2_table_function_destroy(&function);
    return code == DUCKDB_V2_ERROR_NONE ? LK_OK
                                        : lk_duck_fail(err, LK_DUCK_STARTING, code, &info, "register scan");
}
