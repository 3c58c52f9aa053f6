/*
 * statement.c - plan and run, as query.h promises.
 *
 * A request is the same in both: a parsed statement, one pinned snapshot per table, and a directory when the
 * statement lists tables. Planning fills it from the catalog, running from the ticket.
 */
#include "base/limits.h"
#include "query/listing.h"
#include "query/query_priv.h"

#include <stdlib.h>

typedef struct request {
    lk_query           *query;
    const lk_principal *who;
    lk_arena            arena;
    lk_sql_statement   *statement;
    const lk_sql_table *tables;
    size_t              table_count;
    lk_bound_table     *bound;
    lk_table_snapshot **snapshots;
    lk_listing_view     view;
    lk_permit          *permit;
} request;

static void request_deinit(request *r)
{
    for (size_t i = 0; r->snapshots != NULL && i < r->table_count; i++) {
        lk_table_snapshot_unref(r->snapshots[i]);
    }
    lk_listing_unref(r->view.listing);
    lk_sql_statement_unref(r->statement);
    lk_permit_give(r->permit);
    lk_arena_close(&r->arena);
    *r = (request){0};
}

static lk_sql_request sql_request(request *r, lk_cancel *cancel)
{
    return (lk_sql_request){.statement = r->statement,
        .snapshots = r->snapshots,
        .directory = {.list = r->view.listing != NULL ? lk_listing_list : NULL, .context = &r->view},
        .cancel = cancel};
}

/* Gate, then grants; nothing outside the process has been asked when this returns. */
static lk_rc parse(request *r, lk_bytes sql, lk_err *err)
{
    lk_rc rc = lk_sql_parse(r->query->options.sql, sql, &r->statement, err);
    if (rc != LK_OK) {
        return rc;
    }
    r->tables = lk_sql_statement_tables(r->statement, &r->table_count);
    for (size_t i = 0; i < r->table_count; i++) {
        if (!lk_principal_may_use(r->who, r->tables[i].table.ns)) {
            return lk_fail(err, LK_E_DENIED, "namespace not granted");
        }
    }
    return LK_OK;
}

static lk_rc resolve(request *r, lk_err *err)
{
    lk_rc rc = LK_OK;
    r->bound = lk_arena_take(&r->arena, (r->table_count + 1) * sizeof *r->bound);
    for (size_t i = 0; rc == LK_OK && i < r->table_count; i++) {
        rc = lk_bind_resolve(r->query->options.bind, &r->tables[i], &r->arena, &r->bound[i], err);
    }
    return rc;
}

static lk_rc pin(request *r, lk_err *err)
{
    lk_rc rc = LK_OK;
    r->snapshots = lk_arena_take(&r->arena, (r->table_count + 1) * sizeof(lk_table_snapshot *));
    for (size_t i = 0; rc == LK_OK && i < r->table_count; i++) {
        rc = lk_bind_pin(r->query->options.bind, &r->bound[i], &r->snapshots[i], err);
        if (rc == LK_E_SNAPSHOT_GONE || rc == LK_E_NOT_FOUND) {
            /* Perhaps dropped behind our back: the next statement asks the authority. */
            lk_catalog_cache_changed(r->query->options.cache, r->bound[i].table);
        }
    }
    if (rc == LK_OK && lk_sql_statement_lists(r->statement)) {
        r->view.who = r->who;
        rc = lk_listing_get(r->query, &r->view.listing, err);
    }
    return rc;
}

static lk_rc admit(request *r, lk_cancel *cancel, lk_err *err)
{
    return lk_admission_take(r->query->admission, r->who->tenant, cancel, &r->permit, err);
}

/* -- planning -------------------------------------------------------------------------------------- */
static int compare_tables(const void *left, const void *right)
{
    const lk_ticket_table *a = left, *b = right;
    int                    order = lk_bytes_compare(a->ns, b->ns);
    order = order != 0 ? order : lk_bytes_compare(a->name, b->name);
    order = order != 0 ? order : lk_bytes_compare(a->incarnation, b->incarnation);
    return order != 0 ? order : (a->version > b->version) - (a->version < b->version);
}

/* The sorted set of what is bound: one table may be named twice, at one version in two spellings. */
static size_t ticket_tables(request *r, lk_ticket_table **out)
{
    lk_ticket_table *tables = lk_arena_take(&r->arena, (r->table_count + 1) * sizeof *tables);
    for (size_t i = 0; i < r->table_count; i++) {
        const lk_bound_table *b = &r->bound[i];
        tables[i] =
            (lk_ticket_table){b->table.ns, b->table.name, b->engine, b->location, b->incarnation, b->version};
    }
    qsort(tables, r->table_count, sizeof *tables, compare_tables);
    size_t count = 0;
    for (size_t i = 0; i < r->table_count; i++) {
        if (count == 0 || compare_tables(&tables[count - 1], &tables[i]) != 0) {
            tables[count++] = tables[i];
        }
    }
    *out = tables;
    return count;
}

static void seal(request *r, lk_bytes sql, lk_buf *out)
{
    const lk_query_options *o = &r->query->options;
    lk_ticket_table        *tables = NULL;
    size_t                  count = ticket_tables(r, &tables);
    lk_ticket               ticket = {.sql = sql, .tables = tables, .table_count = count};
    lk_ticket_seal(
        o->keys, LK_AUDIENCE_STATEMENT, r->who, &ticket, o->clock, o->config->ticket_ttl_secs, out);
}

static lk_rc check_parameters(const request *r, lk_err *err)
{
    size_t count = lk_sql_statement_parameter_count(r->statement);
    if (count == 0) {
        return LK_OK;
    }
    lk_rc rc = lk_fail(err, LK_E_INVALID_REQUEST, "%zu parameters", count);
    lk_detail(err,
        "the statement has %zu parameters, which are not supported; write the values into the text", count);
    return rc;
}

static lk_rc plan(request *r, lk_bytes sql, lk_cancel *cancel, struct ArrowSchema *schema, lk_err *err)
{
    lk_rc rc = parse(r, sql, err);
    if (rc == LK_OK) {
        rc = check_parameters(r, err);
    }
    if (rc == LK_OK) {
        rc = admit(r, cancel, err);
    }
    if (rc == LK_OK) {
        rc = resolve(r, err);
    }
    if (rc == LK_OK) {
        rc = pin(r, err);
    }
    if (rc == LK_OK) {
        lk_sql_request sql_run = sql_request(r, cancel);
        rc = lk_sql_schema(r->query->options.sql, &sql_run, schema, err);
    }
    return rc;
}

lk_rc lk_query_plan(
    lk_query *query, const lk_principal *who, lk_bytes sql, lk_cancel *cancel, lk_planned *out, lk_err *err)
{
    request r = {.query = query, .who = who};
    *out = (lk_planned){0};
    lk_rc rc = plan(&r, sql, cancel, &out->schema, err);
    if (rc == LK_OK) {
        seal(&r, sql, &out->ticket);
    }
    request_deinit(&r);
    return rc;
}

void lk_planned_deinit(lk_planned *planned)
{
    lk_schema_release(&planned->schema);
    lk_buf_deinit(&planned->ticket);
}

/* -- running --------------------------------------------------------------------------------------- */
typedef struct result {
    lk_batches  base;
    request     request;
    lk_batches *rows;
} result;

/* What a failure of the run means to the caller: a file that vanished took the pinned snapshot with it. */
static lk_rc run_failure(lk_rc rc, lk_err *err)
{
    if (rc == LK_E_DEADLINE || rc == LK_E_NOT_FOUND) {
        err->rc = rc = rc == LK_E_DEADLINE ? LK_E_EXECUTION_DEADLINE : LK_E_SNAPSHOT_GONE;
    }
    return rc;
}

static lk_rc result_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    result *self = (result *)batches;
    return run_failure(lk_batches_next(self->rows, out, err), err);
}

static void result_close(lk_batches *batches)
{
    result *self = (result *)batches;
    lk_batches_close(self->rows);
    lk_schema_release(&self->base.schema);
    request_deinit(&self->request);
    free(self);
}

/* Binds a table of the statement to the ticket's version of it: of several, the last is the highest, which is the
 * current one (an older one is there for time travel). */
static bool bind_from_ticket(
    const lk_sql_table *table, const lk_ticket *ticket, bool *used, lk_bound_table *out)
{
    bool found = false;
    for (size_t i = 0; i < ticket->table_count; i++) {
        const lk_ticket_table *t = &ticket->tables[i];
        bool same_name = lk_bytes_equal(t->ns, table->table.ns) && lk_bytes_equal(t->name, table->table.name);
        if (same_name && (table->when == LK_SQL_CURRENT || t->version == table->version)) {
            *out = (lk_bound_table){{t->ns, t->name}, t->engine, t->location, t->incarnation, t->version};
            used[i] = true;
            found = true;
        }
    }
    return found;
}

/* Every table of the statement must be in the ticket, and the other way round. */
static lk_rc bind_all_from_ticket(request *r, const lk_ticket *ticket, lk_err *err)
{
    bool *used = lk_arena_take(&r->arena, (ticket->table_count + 1) * sizeof *used);
    r->bound = lk_arena_take(&r->arena, (r->table_count + 1) * sizeof *r->bound);
    bool complete = true;
    for (size_t i = 0; i < r->table_count; i++) {
        complete = bind_from_ticket(&r->tables[i], ticket, used, &r->bound[i]) && complete;
    }
    for (size_t i = 0; i < ticket->table_count; i++) {
        complete = complete && used[i];
    }
    return complete ? LK_OK : lk_fail(err, LK_E_INVALID_TICKET, "tables of text and ticket differ");
}

static void limit_time(lk_query *query, lk_cancel *cancel)
{
    uint64_t deadline =
        lk_clock_monotonic_ms(query->options.clock) + query->options.config->query_execution_timeout_ms;
    if (cancel != NULL && (cancel->deadline_ms == 0 || cancel->deadline_ms > deadline)) {
        cancel->deadline_ms = deadline;
    }
}

static lk_rc prepare_run(request *r, lk_bytes sealed, lk_cancel *cancel, lk_err *err)
{
    const lk_query_options *o = &r->query->options;
    lk_ticket               ticket = {0};
    lk_rc                   rc =
        lk_ticket_open(o->keys, LK_AUDIENCE_STATEMENT, r->who, sealed, o->clock, &r->arena, &ticket, err);
    if (rc == LK_OK) {
        rc = parse(r, ticket.sql, err);
        if (rc == LK_E_DENIED) { /* the grant was taken away since */
            err->rc = rc = LK_E_INVALID_TICKET;
        }
    }
    if (rc == LK_OK) {
        rc = bind_all_from_ticket(r, &ticket, err);
    }
    if (rc == LK_OK) {
        rc = admit(r, cancel, err);
    }
    return rc == LK_OK ? pin(r, err) : rc;
}

lk_rc lk_query_run(lk_query *query, const lk_principal *who, lk_bytes ticket, lk_cancel *cancel,
    lk_batches **out, lk_err *err)
{
    if (ticket.size > query->options.config->query_max_sql_bytes + LK_TICKET_OVERHEAD_BYTES_MAX) {
        return lk_fail(err, LK_E_SQL_TOO_LARGE, "ticket of %zu bytes", ticket.size);
    }
    result *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->base = (lk_batches){.next = result_next, .close = result_close};
    self->request = (request){.query = query, .who = who};
    limit_time(query, cancel);
    lk_rc rc = prepare_run(&self->request, ticket, cancel, err);
    if (rc == LK_OK) {
        lk_sql_request sql_run = sql_request(&self->request, cancel);
        rc = lk_sql_run(query->options.sql, &sql_run, &self->rows, err);
    }
    if (rc == LK_OK) {
        rc = lk_schema_copy(&self->rows->schema, &self->base.schema, err);
    }
    if (rc != LK_OK) {
        result_close(&self->base);
        return run_failure(rc, err);
    }
    *out = &self->base;
    return LK_OK;
}

/* -- prepared -------------------------------------------------------------------------------------- */
lk_rc lk_query_prepare(
    lk_query *query, const lk_principal *who, lk_bytes sql, lk_cancel *cancel, lk_prepared *out, lk_err *err)
{
    const lk_query_options *o = &query->options;
    request                 r = {.query = query, .who = who};
    *out = (lk_prepared){0};
    lk_rc rc = plan(&r, sql, cancel, &out->dataset, err);
    if (rc == LK_OK) {
        lk_ticket ticket = {.sql = sql};
        lk_ticket_seal(o->keys, LK_AUDIENCE_PREPARED, who, &ticket, o->clock, o->config->prepared_ttl_secs,
            &out->handle);
    }
    request_deinit(&r);
    return rc;
}

lk_rc lk_query_plan_prepared(lk_query *query, const lk_principal *who, lk_bytes handle, lk_cancel *cancel,
    lk_planned *out, lk_err *err)
{
    lk_arena  arena = {0};
    lk_ticket ticket = {0};
    lk_rc     rc = lk_ticket_open(
            query->options.keys, LK_AUDIENCE_PREPARED, who, handle, query->options.clock, &arena, &ticket, err);
    if (rc == LK_OK) {
        rc = lk_query_plan(query, who, ticket.sql, cancel, out, err);
    } else {
        *out = (lk_planned){0};
    }
    lk_arena_close(&arena);
    return rc;
}

void lk_prepared_deinit(lk_prepared *prepared)
{
    lk_schema_release(&prepared->dataset);
    lk_buf_deinit(&prepared->handle);
}

/* -- life ------------------------------------------------------------------------------------------ */
lk_query *lk_query_open(const lk_query_options *options)
{
    lk_query *query = calloc(1, sizeof *query);
    LK_ASSERT(query != NULL);
    query->forward.ops = &lk_forward_ops;
    query->options = *options;
    query->admission = lk_admission_open(options->config->query_max_concurrent,
        options->config->query_max_per_tenant, options->config->query_queue_timeout_ms);
    lk_mutex_init(&query->mutex, LK_RANK_QUERY);
    return query;
}

void lk_query_stop(lk_query *query)
{
    lk_admission_stop(query->admission);
}

void lk_query_close(lk_query *query)
{
    if (query != NULL) {
        lk_listing_unref(query->listing);
        lk_admission_close(query->admission);
        lk_mutex_deinit(&query->mutex);
        free(query);
    }
}
