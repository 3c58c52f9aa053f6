/* append.c - the steps; see append.h for what is durable when. */
#include "meta/append.h"

#include <inttypes.h>

enum { ATTEMPTS = 3 }; /* the base moved under us: only around a change of leader */

typedef struct run {
    lk_append      *a;
    lk_table_record table;
    lk_bytes        record_key;
    bool            done;
} run;

/* Reads: the registration to append to. */
static lk_rc load(run *r, lk_err *err)
{
    bool       found = false;
    lk_append *a = r->a;
    lk_rc      rc = lk_registry_load(a->env->kv, a->table, a->arena, &r->table, &found, err);
    if (rc == LK_OK && !found) {
        return lk_fail(err, LK_E_TABLE_NOT_FOUND, "no table");
    }
    if (rc == LK_OK && !lk_bytes_equal(r->table.registration.engine, a->env->engine->kind)) {
        return lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "engine %.*s", LK_FMT(r->table.registration.engine));
    }
    return rc;
}

/* Reads: the record of an earlier run. */
static lk_rc replay(run *r, lk_err *err)
{
    lk_append   *a = r->a;
    lk_operation record;
    lk_bytes     raw = {0};
    bool         found = false;
    r->record_key = lk_operation_key(a->arena, a->tenant, a->table, a->operation_id);
    lk_rc rc = lk_operation_load(a->env->kv, r->record_key, a->arena, &record, &raw, &found, err);
    if (rc != LK_OK || !found) {
        return rc;
    }
    if (!lk_bytes_equal(record.payload_sha256, a->payload_sha256)) {
        return lk_fail(err, LK_E_OPERATION_CONFLICT, "committed as version %" PRIu64, record.result_version);
    }
    if (!lk_bytes_equal(record.incarnation, r->table.registration.incarnation)) {
        return lk_fail(
            err, LK_E_OPERATION_RECREATED, "committed to incarnation %.*s", LK_FMT(record.incarnation));
    }
    a->version = record.result_version;
    a->replayed = r->done = true;
    return LK_OK;
}

enum { CHANGES = 3 };

/* The part of the atomic write that is ours: publication, record, expiry. */
static void build_changes(run *r, lk_kv_change changes[CHANGES])
{
    lk_append             *a = r->a;
    const lk_registration *table = &r->table.registration;
    const lk_operation     record = {.tenant = a->tenant,
            .table = a->table,
            .incarnation = table->incarnation,
            .operation_id = a->operation_id,
            .payload_sha256 = a->payload_sha256,
            .base_version = table->version,
            .result_version = table->version + 1,
            .committed_at = lk_now_secs(a->env)};
    lk_bytes              *values = lk_arena_take(a->arena, 2 * sizeof *values);
    values[0] = lk_operation_encode(a->arena, &record);
    values[1] = LK_LITERAL("{}");
    changes[0] = lk_registry_advance(&r->table, table->version + 1, a->arena);
    changes[1] = (lk_kv_change){.key = r->record_key, .value = &values[0]};
    changes[2] = (lk_kv_change){
        .key = lk_operation_expiry_key(a->arena, &record, r->record_key, a->env->retention_secs),
        .value = &values[1]};
}

/* A write that may have happened: the record knows. What cannot be learned stays the first error. */
static lk_rc settle(run *r, lk_rc failed, lk_err *err)
{
    lk_err unread = {0};
    if (!err->maybe_applied || replay(r, &unread) != LK_OK || !r->done) {
        return failed;
    }
    r->a->replayed = false;
    *err = (lk_err){0};
    return LK_OK;
}

/* Durable after: everything, in one write (append.h); before it, nothing that anybody sees. */
static lk_rc commit(run *r, lk_err *err)
{
    lk_append             *a = r->a;
    const lk_registration *table = &r->table.registration;
    lk_kv_change           changes[CHANGES];
    lk_append_request      request = {.at = {table->location, table->incarnation, table->version},
             .tenant = a->tenant,
             .operation_id = a->operation_id,
             .payload_sha256 = a->payload_sha256};
    lk_batches            *rows = NULL;
    if (!lk_bytes_equal(a->incarnation, table->incarnation)) {
        return lk_fail(err, LK_E_CONFLICT, "recreated while its rows were checked");
    }
    lk_rc rc = lk_fence_terms(&a->env->fence, a->arena, &request.terms, err);
    rc = rc == LK_OK ? lk_rows_stream(a->rows, &rows, err) : rc;
    if (rc != LK_OK) {
        return rc;
    }
    build_changes(r, changes);
    request.rows = rows;
    request.terms.with = changes;
    request.terms.with_count = CHANGES;
    rc = a->env->engine->ops->append(a->env->engine, &request, &a->version, err);
    lk_batches_close(rows);
    if (rc == LK_OK) {
        r->done = a->version == table->version + 1; /* else an earlier run's: its record is read again */
    } else if (rc == LK_E_CONFLICT) {
        *err = (lk_err){0};
        rc = lk_fence_check(&a->env->fence, &request.terms, err); /* LK_OK: look again */
    } else {
        rc = settle(r, rc, err);
    }
    return rc;
}

static const struct step {
    const char *name;
    lk_rc (*run)(run *r, lk_err *err);
} steps[] = {
    {"load", load},     /* the base is known */
    {"replay", replay}, /* done, if an earlier run got that far */
    {"commit", commit}, /* done */
};
enum { STEPS = sizeof steps / sizeof steps[0] };

lk_rc lk_append_run(lk_append *a, lk_err *err)
{
    run r = {.a = a};
    a->replayed = false;
    lk_rc rc = lk_operation_check_time(a->operation_id, lk_now_secs(a->env), a->env->retention_secs, err);
    for (int attempt = 0; rc == LK_OK && !r.done && attempt < ATTEMPTS; attempt++) {
        for (size_t i = 0; rc == LK_OK && !r.done && i < STEPS; i++) {
            lk_crash_point(a->env, steps[i].name);
            rc = steps[i].run(&r, err);
            if (rc != LK_OK) {
                lk_context(err, "append %.*s at %s", LK_FMT(a->operation_id), steps[i].name);
            }
        }
    }
    if (rc == LK_OK && !r.done) {
        rc = lk_fail(err, LK_E_CONFLICT, "the base moved %d times", ATTEMPTS);
    }
    return rc;
}
