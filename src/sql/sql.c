/*
 * sql.c - the engine as its callers see it: started late, shared by all; chooses the path of each statement.
 *
 * States of the engine: IDLE -> STARTING -> READY; back to IDLE when the start failed (the next caller
 * tries again), and to STARTING when an internal error may have made it useless: then it is asked, and
 * replaced if it does not answer.
 * Threads: shared; state and instance are under mutex.
 */
#include "sql/sql.h"

#include "base/log.h"
#include "sql/cache_priv.h"
#include "sql/instance_priv.h"
#include "sql/parse_priv.h"
#include "sql/result_priv.h"
#include "sql/spill_priv.h"
#include "sql/straight_priv.h"

#include <stdlib.h>
#include <unistd.h>

enum { CACHED_BYTES_DEFAULT = 8 * 1024 * 1024 };

struct lk_sql {
    lk_spill spill;
    uint64_t memory_bytes, spill_bytes, thread_count, sql_bytes_max;
    lk_mutex mutex; /* rank SQL */
    lk_cond  changed;
    enum { IDLE, STARTING, READY } state; /* by mutex */
    lk_instance  *instance;               /* by mutex; set while READY */
    lk_sql_cache *cache;
};

lk_rc lk_sql_open(lk_sql **out, const lk_sql_options *options, lk_err *err)
{
    lk_spill spill = {0};
    lk_rc    rc = lk_spill_open(options->spill_directory, &spill, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_sql *sql = calloc(1, sizeof *sql);
    LK_ASSERT(sql != NULL);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    sql->spill = spill;
    sql->memory_bytes = options->memory_bytes;
    sql->spill_bytes = options->spill_bytes;
    sql->thread_count = options->thread_count > 0 ? options->thread_count : cores > 0 ? (uint64_t)cores : 1;
    sql->sql_bytes_max = options->sql_bytes_max;
    lk_mutex_init(&sql->mutex, LK_RANK_SQL);
    lk_cond_init(&sql->changed);
    sql->cache =
        lk_sql_cache_open(options->cached_bytes_max > 0 ? options->cached_bytes_max : CACHED_BYTES_DEFAULT);
    *out = sql;
    return LK_OK;
}

void lk_sql_close(lk_sql *sql)
{
    if (sql == NULL) {
        return;
    }
    lk_sql_cache_close(sql->cache);
    lk_instance_unref(sql->instance);
    lk_spill_close(&sql->spill);
    lk_cond_deinit(&sql->changed);
    lk_mutex_deinit(&sql->mutex);
    free(sql);
}

/* -- starting -------------------------------------------------------------------------------------- */

static lk_rc start(lk_sql *sql, lk_instance **out, lk_err *err)
{
    const lk_duck_options options = {.spill_path = sql->spill.path,
        .memory_bytes = sql->memory_bytes,
        .spill_bytes = sql->spill_bytes,
        .thread_count = sql->thread_count};
    return lk_instance_open(out, &options, err);
}

/* Waits until nobody else starts. Returns a reference to the instance if it is good; else this thread is
 * the one that starts (state STARTING) and *suspect is what must be looked at first, if anything. */
static lk_instance *take_or_claim(lk_sql *sql, lk_instance **suspect)
{
    lk_instance *taken = NULL;
    lk_mutex_lock(&sql->mutex);
    while (sql->state == STARTING) {
        lk_cond_wait(&sql->changed, &sql->mutex);
    }
    if (sql->state == READY && !atomic_load(&sql->instance->duck->suspect)) {
        taken = lk_instance_ref(sql->instance);
    } else {
        sql->state = STARTING;
        *suspect = sql->instance;
        sql->instance = NULL;
    }
    lk_mutex_unlock(&sql->mutex);
    return taken;
}

/* A reference to an instance that works; starts the first one, and a new one when the present one is
 * beyond use. */
static lk_rc acquire(lk_sql *sql, lk_instance **out, lk_err *err)
{
    lk_instance *suspect = NULL;
    *out = take_or_claim(sql, &suspect);
    if (*out != NULL) {
        return LK_OK;
    }
    lk_rc rc = LK_OK;
    if (suspect == NULL || !lk_duck_answers(suspect->duck)) {
        if (suspect != NULL) {
            lk_log(LK_LOG_SQL_RESTARTED, LK_LOG_N("spill_bytes", sql->spill_bytes));
        }
        lk_instance_unref(suspect);
        suspect = NULL;
        rc = start(sql, &suspect, err);
    }
    lk_mutex_lock(&sql->mutex);
    sql->instance = suspect;
    sql->state = rc == LK_OK ? READY : IDLE;
    *out = rc == LK_OK ? lk_instance_ref(suspect) : NULL;
    lk_cond_broadcast(&sql->changed);
    lk_mutex_unlock(&sql->mutex);
    return rc;
}

lk_rc lk_sql_warm(lk_sql *sql, lk_err *err)
{
    lk_instance *instance = NULL;
    lk_rc        rc = acquire(sql, &instance, err);
    lk_instance_unref(instance);
    return rc;
}

lk_instance *lk_sql_instance(lk_sql *sql)
{
    return sql->instance;
}

/* -- statements ------------------------------------------------------------------------------------ */

lk_rc lk_sql_parse(lk_sql *sql, lk_bytes text, lk_sql_statement **out, lk_err *err)
{
    if (text.size > sql->sql_bytes_max) {
        return lk_fail(err, LK_E_SQL_TOO_LARGE, "%zu bytes", text.size);
    }
    *out = lk_sql_cache_find(sql->cache, text);
    if (*out != NULL) {
        return LK_OK;
    }
    lk_instance *instance = NULL;
    lk_rc        rc = LK_OK;
    *out = lk_statement_simple(text);
    if (*out == NULL) {
        rc = acquire(sql, &instance, err);
    }
    if (rc == LK_OK && *out == NULL) {
        rc = lk_statement_parse(instance->duck, text, out, err);
    }
    lk_instance_unref(instance);
    if (rc == LK_OK) {
        lk_sql_cache_put(sql->cache, *out);
    }
    return rc;
}

/* Tries the straight path; *fits says whether *plan is one. */
static lk_rc plan_straight(const lk_sql_request *request, lk_straight *plan, bool *fits, lk_err *err)
{
    const lk_sql_statement *statement = request->statement;
    const lk_shape         *shape = request->engine_only ? NULL : statement->shape;
    *fits = false;
    if (shape == NULL || statement->sources[shape->source].listing != LK_LISTING_NONE) {
        return LK_OK;
    }
    const lk_table_snapshot *snapshot = request->snapshots[statement->sources[shape->source].table];
    return lk_straight_plan(shape, snapshot->ops->schema(snapshot), plan, fits, err);
}

static lk_rc open_engine(lk_sql *sql, const lk_sql_request *request, lk_batches **out, lk_err *err)
{
    const char *engine_sql = NULL;
    if (request->statement->parameter_count > 0) {
        lk_rc rc = lk_fail(err, LK_E_PLANNING, "parameters");
        (void)lk_detail(err, "the statement has parameters and no values for them");
        return rc;
    }
    lk_sql_request parsed = *request;
    lk_instance   *instance = NULL;
    lk_rc          rc = acquire(sql, &instance, err);
    if (rc == LK_OK) {
        rc = lk_statement_parsed(instance->duck, request->statement, &parsed.statement, err);
    }
    if (rc == LK_OK) {
        rc = lk_statement_engine_sql(instance->duck, parsed.statement, &engine_sql, err);
    }
    if (rc == LK_OK) {
        rc = lk_result_open(instance, &parsed, engine_sql, out, err);
    }
    lk_instance_unref(instance);
    return rc;
}

/* -- the first rows by an order ------------------------------------------------------------------------ */

/* Tries to have the engine find the winners by their keys, and to read the columns of those alone. */
static lk_rc plan_top(const lk_sql_request *request, lk_straight *plan, bool *fits, lk_err *err)
{
    const lk_sql_statement *statement = request->statement;
    const lk_shape         *top = request->engine_only ? NULL : statement->top;
    *fits = false;
    if (top == NULL || statement->sources[top->source].listing != LK_LISTING_NONE) {
        return LK_OK;
    }
    const lk_table_snapshot *snapshot = request->snapshots[statement->sources[top->source].table];
    if (snapshot->ops->take == NULL) {
        return LK_OK;
    }
    lk_rc rc = lk_straight_plan(top, snapshot->ops->schema(snapshot), plan, fits, err);
    plan->taken = *fits;
    return rc;
}

/* The addresses that the narrow statement gives, in its order. */
static lk_rc find_winners(lk_sql *sql, const lk_sql_request *request, lk_buf *out, lk_err *err)
{
    lk_batches    *found = NULL;
    lk_sql_request narrow = *request;
    narrow.statement = request->statement->narrow;
    lk_rc rc = open_engine(sql, &narrow, &found, err);
    while (rc == LK_OK) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(found, &batch, err);
        if (rc != LK_OK || batch.release == NULL) {
            break;
        }
        const struct ArrowArray *ids = batch.children[0];
        const uint64_t          *words = (const uint64_t *)ids->buffers[1] + ids->offset + batch.offset;
        lk_buf_append(out, words, (size_t)batch.length * sizeof *words);
        lk_array_release(&batch);
    }
    lk_batches_close(found);
    return rc;
}

/* A plan without the engine, or with it for the keys only; *fits: there is one, of this source. */
static lk_rc plan_short(
    const lk_sql_request *request, lk_straight *plan, size_t *source, bool *fits, lk_err *err)
{
    lk_rc rc = plan_straight(request, plan, fits, err);
    if (rc == LK_OK && *fits) {
        *source = request->statement->shape->source;
    } else if (rc == LK_OK) {
        rc = plan_top(request, plan, fits, err);
        *source = *fits ? request->statement->top->source : 0;
    }
    return rc;
}

lk_rc lk_sql_schema(lk_sql *sql, const lk_sql_request *request, struct ArrowSchema *out, lk_err *err)
{
    lk_straight plan = {0};
    lk_batches *result = NULL;
    size_t      source = 0;
    bool        fits = false;
    lk_rc       rc = plan_short(request, &plan, &source, &fits, err);
    if (rc == LK_OK && fits && plan.taken) { /* the keys must be columns, too */
        lk_sql_request narrow = *request;
        narrow.statement = request->statement->narrow;
        rc = open_engine(sql, &narrow, &result, err);
        lk_batches_close(result);
    }
    if (rc == LK_OK && fits) {
        lk_schema_move(&plan.schema, out);
    }
    if (fits) {
        lk_straight_close(&plan);
        return rc;
    }
    if (rc == LK_OK) {
        rc = open_engine(sql, request, &result, err);
    }
    if (rc == LK_OK) {
        lk_schema_move(&result->schema, out);
    }
    lk_batches_close(result);
    return rc;
}

lk_rc lk_sql_run(lk_sql *sql, const lk_sql_request *request, lk_batches **out, lk_err *err)
{
    lk_straight plan = {0};
    size_t      source = 0;
    bool        fits = false;
    lk_rc       rc = plan_short(request, &plan, &source, &fits, err);
    if (rc != LK_OK || !fits) {
        return rc == LK_OK ? open_engine(sql, request, out, err) : rc;
    }
    if (plan.taken) {
        rc = find_winners(sql, request, &plan.addresses, err);
    }
    if (rc != LK_OK) {
        lk_straight_close(&plan);
        return rc;
    }
    const lk_sql_source *from = &request->statement->sources[source];
    return lk_straight_run(&plan, request->snapshots[from->table], request->cancel, out, err);
}

bool lk_sql_result_is_straight(const lk_batches *result)
{
    return lk_straight_is(result);
}
