/* create.c - see create.h. */
#include "meta/create.h"

#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/uuid.h"
#include "meta/placement.h"

typedef struct creation {
    const lk_meta_env        *env;
    lk_arena                 *arena;
    const struct ArrowSchema *schema;
    lk_registration           registration;
    lk_remains                remains;
    lk_bytes                  intent; /* exact bytes, once written */
    bool                      done;
} creation;

static lk_bytes fresh_id(creation *c)
{
    char text[LK_UUID_TEXT_SIZE + 1];
    lk_uuid_format(lk_uuid_v7(c->env->clock, c->env->random), text);
    return lk_arena_copy(c->arena, lk_bytes_of(text));
}

static lk_rc refuse_if_exists(creation *c, lk_err *err)
{
    lk_table_record present;
    bool            found = false;
    lk_rc           rc = lk_registry_load(c->env->kv, c->registration.table, c->arena, &present, &found, err);
    c->done =
        rc == LK_OK && found && lk_bytes_equal(present.registration.incarnation, c->registration.incarnation);
    return rc != LK_OK || !found || c->done ? rc
                                            : lk_fail(err, LK_E_TABLE_EXISTS, "incarnation %.*s",
                                                  LK_FMT(present.registration.incarnation));
}

/* Reads only: the name is free and the schema fits a record. */
static lk_rc check(creation *c, lk_err *err)
{
    lk_buf ipc = {0};
    lk_rc  rc = lk_schema_check(c->schema, err);
    rc = rc == LK_OK ? refuse_if_exists(c, err) : rc;
    rc = rc == LK_OK ? lk_ipc_schema_encode(c->schema, LK_IPC_ENCAPSULATED, &ipc, err) : rc;
    if (rc == LK_OK && ipc.size > LK_SCHEMA_IPC_BYTES_MAX) {
        rc = lk_fail(err, LK_E_INVALID_SCHEMA, "%zu bytes of schema", ipc.size);
        lk_detail(err, "a schema takes at most %d bytes as Arrow IPC", LK_SCHEMA_IPC_BYTES_MAX);
    }
    c->registration.schema_ipc = lk_arena_copy(c->arena, lk_buf_view(&ipc));
    lk_buf_deinit(&ipc);
    return rc;
}

/* Durable after: a note of where files are about to appear. */
static lk_rc intend(creation *c, lk_err *err)
{
    bool applied = false;
    c->intent = lk_remains_encode(c->arena, &c->remains);
    const lk_kv_change change = {
        .key = lk_remains_key(c->arena, LK_CREATE_PREFIX, &c->remains), .value = &c->intent};
    lk_rc rc = lk_fence_write(&c->env->fence, &change, 1, &applied, err);
    LK_ASSERT(rc != LK_OK || applied); /* a fresh UUID */
    return rc;
}

/* Durable after: the table, whole; or nothing but files that the intent names. */
static lk_rc commit_once(creation *c, lk_err *err)
{
    lk_kv_change      changes[1 + LK_REGISTRY_CHANGES_MAX];
    size_t            count = 0;
    lk_create_request request = {.location = c->registration.location,
        .incarnation = c->registration.incarnation,
        .schema = c->schema};
    lk_rc             rc = lk_fence_terms(&c->env->fence, c->arena, &request.terms, err);
    changes[count++] = (lk_kv_change){
        .key = lk_remains_key(c->arena, LK_CREATE_PREFIX, &c->remains), .expected = &c->intent};
    if (rc == LK_OK) {
        rc = lk_registry_insert(c->env->kv, &c->registration, fresh_id(c), c->arena, changes, &count, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    request.terms.with = changes;
    request.terms.with_count = count;
    rc = c->env->engine->ops->create(c->env->engine, &request, &c->registration.version, err);
    if (rc == LK_E_CONFLICT) { /* guard, name or counter: LK_OK means that the counter moved */
        *err = (lk_err){0};
        rc = lk_fence_check(&c->env->fence, &request.terms, err);
        return rc != LK_OK ? rc : refuse_if_exists(c, err);
    }
    if (rc != LK_OK && err->maybe_applied) { /* the registry knows */
        lk_err unread = {0};
        if (refuse_if_exists(c, &unread) == LK_OK && c->done) {
            *err = (lk_err){0};
            rc = LK_OK;
        }
    }
    c->done = rc == LK_OK;
    return rc;
}

static lk_rc commit(creation *c, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (int attempt = 0; rc == LK_OK && !c->done && attempt < LK_NAMESPACE_RACE_ATTEMPTS; attempt++) {
        rc = commit_once(c, err);
    }
    if (rc == LK_OK && !c->done) {
        rc = lk_fail(err, LK_E_CONFLICT, "create lost %d times", LK_NAMESPACE_RACE_ATTEMPTS);
    }
    return rc;
}

static const struct step {
    const char *name;
    lk_rc (*run)(creation *c, lk_err *err);
} steps[] = {
    {"check", check},   /* nothing yet */
    {"intend", intend}, /* recovery knows where to clean */
    {"commit", commit}, /* the table exists */
};
enum { STEPS = sizeof steps / sizeof steps[0] };

lk_rc lk_create_run(const lk_meta_env *env, lk_arena *arena, lk_table_ref table,
    const struct ArrowSchema *schema, lk_err *err)
{
    creation c = {.env = env, .arena = arena, .schema = schema};
    c.registration = (lk_registration){
        .table = table, .engine = env->engine->kind, .incarnation = fresh_id(&c), .version = 1};
    lk_rc rc = lk_place_table(table, c.registration.incarnation, arena, &c.registration.location, err);
    c.remains = (lk_remains){table, c.registration.location, c.registration.incarnation};
    for (size_t i = 0; rc == LK_OK && i < STEPS; i++) {
        lk_crash_point(env, steps[i].name);
        rc = steps[i].run(&c, err);
        if (rc != LK_OK) {
            lk_context(err, "create %.*s.%.*s at %s", LK_FMT(table.ns), LK_FMT(table.name), steps[i].name);
        }
    }
    if (rc != LK_OK && c.intent.size > 0 && !err->maybe_applied) {
        lk_err left = {0}; /* recovery will find the intent */
        if (lk_create_abandon(env, arena, &c.remains, c.intent, &left) != LK_OK) {
            lk_log_error(LK_LOG_RECOVERY_FAILED, &left);
        }
    }
    return rc;
}

lk_rc lk_create_abandon(
    const lk_meta_env *env, lk_arena *arena, const lk_remains *remains, lk_bytes raw, lk_err *err)
{
    bool               applied = false;
    const lk_kv_change changes[] = {
        {.key = lk_remains_key(arena, LK_CREATE_PREFIX, remains), .expected = &raw},
        {.key = lk_remains_key(arena, LK_DROP_PREFIX, remains), .value = &raw}};
    lk_crash_point(env, "abandon");
    lk_rc rc = lk_fence_write(&env->fence, changes, 2, &applied, err);
    if (rc != LK_OK || !applied) {
        return rc; /* not applied: the table came to be, or somebody else abandoned it */
    }
    return lk_drop_finish(env, arena, remains, raw, err);
}
