/* local_authority.c - see local_authority.h. */
#include "meta/local_authority.h"

#include "arrow/ipc.h"
#include "base/limits.h"
#include "catalog/directory.h"
#include "meta/append.h"
#include "meta/create.h"
#include "meta/drop.h"
#include "meta/placement.h"

static bool is_service(const lk_principal *who)
{
    return who->role == LK_ROLE_QUERY_SERVICE || who->role == LK_ROLE_METADATA_PEER ||
           who->role == LK_ROLE_ADMIN;
}

static lk_rc authorize(const lk_principal *who, lk_table_ref table, lk_err *err)
{
    lk_rc rc = lk_table_ref_check(table, err);
    if (rc == LK_OK && !lk_principal_may_use(who, table.ns)) {
        rc = lk_fail(err, LK_E_DENIED, "%.*s on %.*s", LK_FMT(who->id), LK_FMT(table.ns));
    }
    return rc;
}

static uint64_t deadline_after(const lk_meta_env *env, uint64_t ms)
{
    return lk_clock_monotonic_ms(env->clock) + ms;
}

/* -- create, drop ---------------------------------------------------------------------------------- */
typedef struct statement { /* a create or drop that holds its table */
    lk_local_authority *authority;
    lk_table_lock      *lock;
    lk_arena            arena;
    bool                counted;
} statement;

static lk_rc begin(
    statement *d, lk_local_authority *authority, const lk_principal *who, lk_table_ref table, lk_err *err)
{
    const lk_meta_env *env = authority->env;
    uint64_t           deadline_ms = deadline_after(env, env->lock_wait_ms);
    *d = (statement){.authority = authority};
    lk_rc rc = authorize(who, table, err);
    rc = rc == LK_OK ? lk_admit_enter(authority->ddl, 0, deadline_ms, NULL, err) : rc;
    d->counted = rc == LK_OK;
    return rc == LK_OK ? lk_table_locks_take(env->locks, table, deadline_ms, NULL, &d->lock, err) : rc;
}

static void end(statement *d)
{
    lk_table_locks_release(d->authority->env->locks, d->lock);
    if (d->counted) {
        lk_admit_leave(d->authority->ddl, 0);
    }
    lk_arena_close(&d->arena);
}

static lk_rc create_table(lk_authority *base, const lk_principal *who, lk_table_ref table,
    const struct ArrowSchema *schema, lk_err *err)
{
    statement           d;
    lk_local_authority *self = (lk_local_authority *)base;
    lk_rc               rc = begin(&d, self, who, table, err);
    rc = rc == LK_OK ? lk_create_run(self->env, &d.arena, table, schema, err) : rc;
    end(&d);
    return rc;
}

static lk_rc drop_table(lk_authority *base, const lk_principal *who, lk_table_ref table, lk_err *err)
{
    statement           d;
    bool                dropped = false;
    lk_local_authority *self = (lk_local_authority *)base;
    lk_rc               rc = begin(&d, self, who, table, err);
    rc = rc == LK_OK ? lk_drop_run(self->env, &d.arena, table, &dropped, err) : rc;
    end(&d);
    if (dropped && self->recovery != NULL) {
        lk_recovery_kick(self->recovery);
    }
    return rc;
}

/* -- reads ----------------------------------------------------------------------------------------- */
static lk_rc load(
    const lk_meta_env *env, lk_table_ref table, lk_arena *arena, lk_registration *out, lk_err *err)
{
    lk_table_record record;
    bool            found = false;
    lk_rc           rc = lk_registry_load(env->kv, table, arena, &record, &found, err);
    if (rc == LK_OK && !found) {
        rc = lk_fail(err, LK_E_TABLE_NOT_FOUND, "no table %.*s.%.*s", LK_FMT(table.ns), LK_FMT(table.name));
    }
    *out = record.registration;
    return rc;
}

static lk_rc resolve(lk_authority *base, const lk_principal *who, lk_table_ref table, lk_arena *arena,
    lk_registration *out, lk_err *err)
{
    const lk_meta_env *env = ((lk_local_authority *)base)->env;
    lk_rc              rc = is_service(who) ? lk_table_ref_check(table, err) : authorize(who, table, err);
    rc = rc == LK_OK ? load(env, table, arena, out, err) : rc;
    if (rc == LK_OK) {
        out->location = lk_place_below(env->tables_root, out->location, arena);
    }
    return rc;
}

static lk_rc list_tables(lk_authority *base, const lk_principal *who, lk_bytes ns, lk_bytes continuation,
    size_t limit, lk_arena *arena, lk_name_page *out, lk_err *err)
{
    lk_rc rc = lk_namespace_check(ns, err);
    if (rc == LK_OK && !lk_principal_may_use(who, ns)) {
        rc = lk_fail(err, LK_E_DENIED, "%.*s on %.*s", LK_FMT(who->id), LK_FMT(ns));
    }
    lk_kv *kv = ((lk_local_authority *)base)->env->kv;
    return rc != LK_OK ? rc : lk_directory_tables(kv, ns, continuation, limit, arena, out, err);
}

/* A user's namespaces are the grants, ascending, empty ones too; the continuation is the last one shown. */
static lk_rc list_grants(const lk_principal *who, lk_bytes continuation, size_t limit, lk_arena *arena,
    lk_name_page *out, lk_err *err)
{
    size_t first = 0;
    *out = (lk_name_page){0};
    lk_rc rc = lk_directory_check_page(continuation, limit, err);
    if (rc != LK_OK) {
        return rc;
    }
    while (first < who->namespace_count && continuation.size > 0 &&
           lk_bytes_compare(who->namespaces[first], continuation) <= 0) {
        first++;
    }
    size_t left = who->namespace_count - first;
    out->count = left < limit ? left : limit;
    out->names = lk_arena_take(arena, (out->count + 1) * sizeof *out->names);
    for (size_t i = 0; i < out->count; i++) {
        out->names[i] = lk_arena_copy(arena, who->namespaces[first + i]);
    }
    if (left > limit) {
        out->continuation = out->names[out->count - 1];
    }
    return LK_OK;
}

static lk_rc list_namespaces(lk_authority *base, const lk_principal *who, lk_bytes continuation, size_t limit,
    lk_arena *arena, lk_name_page *out, lk_err *err)
{
    lk_kv *kv = ((lk_local_authority *)base)->env->kv;
    return is_service(who) ? lk_directory_namespaces(kv, continuation, limit, arena, out, err)
                           : list_grants(who, continuation, limit, arena, out, err);
}

static lk_rc directory(lk_authority *base, lk_bytes known, lk_arena *arena, bool *modified,
    lk_bytes *generation, lk_registration **items, size_t *count, lk_err *err)
{
    const lk_meta_env *env = ((lk_local_authority *)base)->env;
    lk_rc              rc = lk_directory_read(env->kv, known, arena, modified, generation, items, count, err);
    for (size_t i = 0; rc == LK_OK && *modified && i < *count; i++) {
        (*items)[i].location = lk_place_below(env->tables_root, (*items)[i].location, arena);
    }
    return rc;
}

/* -- append ---------------------------------------------------------------------------------------- */
typedef struct appending {
    lk_local_authority *authority;
    lk_append           append;
    lk_rows             rows;
    lk_arena            arena;
    lk_cancel          *cancel;
    bool                admitted;
} appending;

static lk_rc check_rows(appending *s, lk_batches *source, lk_err *err)
{
    lk_registration    table;
    struct ArrowSchema schema = {0};
    lk_rc              rc = load(s->authority->env, s->append.table, &s->arena, &table, err);
    rc = rc == LK_OK ? lk_ipc_schema_decode(table.schema_ipc, &schema, err) : rc;
    if (rc == LK_OK) {
        rc = lk_rows_collect(&s->rows, &schema, source, s->authority->append_bytes_max, s->cancel, err);
    }
    s->append.rows = &s->rows;
    s->append.incarnation = table.incarnation;
    lk_schema_release(&schema);
    return rc;
}

static lk_rc run_locked(appending *s, lk_err *err)
{
    const lk_meta_env *env = s->authority->env;
    lk_table_lock     *lock = NULL;
    uint64_t           deadline_ms = deadline_after(env, env->lock_wait_ms);
    lk_rc rc = lk_table_locks_take(env->locks, s->append.table, deadline_ms, s->cancel, &lock, err);
    rc = rc == LK_OK ? lk_append_run(&s->append, err) : rc;
    lk_table_locks_release(env->locks, lock);
    return rc;
}

static lk_rc append(lk_authority *base, const lk_principal *who, const lk_append_command *command,
    lk_batches *rows, lk_cancel *cancel, uint64_t *version, lk_err *err)
{
    appending          s = {.authority = (lk_local_authority *)base, .cancel = cancel};
    const lk_meta_env *env = s.authority->env;
    s.append = (lk_append){.env = env,
        .arena = &s.arena,
        .table = command->table,
        .tenant = who->tenant,
        .payload_sha256 = command->payload_sha256};
    lk_rc rc = authorize(who, command->table, err);
    rc = rc == LK_OK ? lk_tenant_check(who->tenant, err) : rc;
    rc = rc == LK_OK ? lk_payload_digest_check(command->payload_sha256, err) : rc;
    if (rc == LK_OK) {
        rc = lk_operation_id_parse(command->operation_id, &s.arena, &s.append.operation_id, err);
    }
    if (rc == LK_OK) {
        uint64_t deadline_ms = deadline_after(env, s.authority->append_wait_ms);
        rc = lk_admit_enter(s.authority->appends, s.authority->append_bytes_max, deadline_ms, cancel, err);
        s.admitted = rc == LK_OK;
    }
    rc = rc == LK_OK ? check_rows(&s, rows, err) : rc;
    rc = rc == LK_OK ? run_locked(&s, err) : rc;
    *version = s.append.version;
    if (s.admitted) {
        lk_admit_leave(s.authority->appends, s.authority->append_bytes_max);
    }
    lk_rows_deinit(&s.rows);
    lk_arena_close(&s.arena);
    return rc;
}

static void close_nothing(lk_authority *base)
{
    (void)base;
}

static const struct lk_authority_ops ops = {.create_table = create_table,
    .drop_table = drop_table,
    .resolve = resolve,
    .list_tables = list_tables,
    .list_namespaces = list_namespaces,
    .directory = directory,
    .append = append,
    .close = close_nothing};

void lk_local_authority_init(lk_local_authority *authority, const lk_meta_env *env, lk_admit *appends,
    lk_admit *ddl, lk_recovery *recovery, uint64_t append_wait_ms, uint64_t append_bytes_max)
{
    *authority = (lk_local_authority){.base.ops = &ops,
        .env = env,
        .appends = appends,
        .ddl = ddl,
        .recovery = recovery,
        .append_wait_ms = append_wait_ms,
        .append_bytes_max = append_bytes_max};
}
