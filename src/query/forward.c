/* forward.c - see forward.h. */
#include "query/forward.h"

#include "query/query_priv.h"

static lk_rc authorize(const lk_principal *who, lk_table_ref table, lk_err *err)
{
    lk_rc rc = lk_table_ref_check(table, err);
    if (rc == LK_OK && !lk_principal_may_use(who, table.ns)) {
        rc = lk_fail(err, LK_E_DENIED, "namespace not granted");
    }
    return rc;
}

static lk_query *query_of(lk_authority *authority)
{
    return (lk_query *)authority;
}

static lk_rc forward_create(lk_authority *self, const lk_principal *who, lk_table_ref table,
    const struct ArrowSchema *schema, lk_err *err)
{
    const lk_query_options *o = &query_of(self)->options;
    lk_rc                   rc = authorize(who, table, err);
    if (rc == LK_OK) {
        rc = o->authority->ops->create_table(o->authority, who, table, schema, err);
        lk_catalog_cache_changed(o->cache, table); /* also when the reply was lost */
    }
    return rc;
}

static lk_rc forward_drop(lk_authority *self, const lk_principal *who, lk_table_ref table, lk_err *err)
{
    const lk_query_options *o = &query_of(self)->options;
    lk_rc                   rc = authorize(who, table, err);
    if (rc == LK_OK) {
        rc = o->authority->ops->drop_table(o->authority, who, table, err);
        lk_catalog_cache_changed(o->cache, table);
    }
    return rc;
}

static lk_rc forward_resolve(lk_authority *self, const lk_principal *who, lk_table_ref table, lk_arena *arena,
    lk_registration *out, lk_err *err)
{
    lk_rc rc = authorize(who, table, err);
    return rc != LK_OK ? rc : lk_catalog_cache_resolve(query_of(self)->options.cache, table, arena, out, err);
}

static lk_rc forward_list_tables(lk_authority *self, const lk_principal *who, lk_bytes ns,
    lk_bytes continuation, size_t limit, lk_arena *arena, lk_name_page *out, lk_err *err)
{
    lk_authority *a = query_of(self)->options.authority;
    lk_rc         rc = lk_namespace_check(ns, err);
    if (rc == LK_OK && !lk_principal_may_use(who, ns)) {
        rc = lk_fail(err, LK_E_DENIED, "namespace not granted");
    }
    return rc != LK_OK ? rc : a->ops->list_tables(a, who, ns, continuation, limit, arena, out, err);
}

static lk_rc forward_list_namespaces(lk_authority *self, const lk_principal *who, lk_bytes continuation,
    size_t limit, lk_arena *arena, lk_name_page *out, lk_err *err)
{
    lk_authority *a = query_of(self)->options.authority;
    return a->ops->list_namespaces(a, who, continuation, limit, arena, out, err);
}

static lk_rc forward_directory(lk_authority *self, lk_bytes known_generation, lk_arena *arena, bool *modified,
    lk_bytes *generation, lk_registration **items, size_t *count, lk_err *err)
{
    lk_authority *a = query_of(self)->options.authority;
    return a->ops->directory(a, known_generation, arena, modified, generation, items, count, err);
}

static lk_rc forward_append(lk_authority *self, const lk_principal *who, const lk_append_command *command,
    lk_batches *rows, lk_cancel *cancel, uint64_t *version, lk_err *err)
{
    const lk_query_options *o = &query_of(self)->options;
    lk_rc                   rc = authorize(who, command->table, err);
    if (rc == LK_OK) {
        rc = o->authority->ops->append(o->authority, who, command, rows, cancel, version, err);
    }
    if (rc == LK_OK) {
        lk_catalog_cache_appended(o->cache, command->table, *version);
    }
    return rc;
}

static void forward_close(lk_authority *self)
{
    (void)self;
}

const struct lk_authority_ops lk_forward_ops = {forward_create, forward_drop, forward_resolve,
    forward_list_tables, forward_list_namespaces, forward_directory, forward_append, forward_close};

lk_authority *lk_query_authority(lk_query *query)
{
    return &query->forward;
}
