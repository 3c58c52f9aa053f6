#ifndef LK_SERVE_TABLE_ACTIONS_H
#define LK_SERVE_TABLE_ACTIONS_H
/*
 * table_actions.h - the table actions as JSON, the same on Metasrv and on Query: they differ only in the
 * lk_authority that answers.
 *
 *   create_table          {namespace, name, columns: ["name:type[?]", …] | schema_ipc_base64}   -> nothing
 *   drop_table            {namespace, name}                                                     -> nothing
 *   resolve               {namespace, name}                                                     -> registration
 *   list_tables           {namespace}                                                           -> [name, …]
 *   list_tables_page      {namespace, limit, continuation?}                                     -> page
 *   list_namespaces       (empty)                                                               -> [name, …]
 *   list_namespaces_page  {limit, continuation?}                                                -> page
 *
 * page: {"names": […], "continuation": null | text}. registration: {"location", "engine", "current_version",
 * "incarnation_id", "schema_ipc_base64"}. Unknown fields are refused. Threads: stateless.
 */
#include "catalog/authority.h"

typedef struct lk_table_action {
    const char *type, *description;
    bool        has_target; /* names a namespace */
    lk_rc (*run)(lk_authority *authority, const lk_principal *who, lk_bytes body, lk_arena *arena,
        lk_buf *result, lk_err *err);
} lk_table_action;

extern const lk_table_action lk_table_actions[];
extern const size_t          lk_table_action_count;

/* NULL: not a table action. run leaves result empty (data NULL) for actions that answer nothing. */
const lk_table_action *lk_table_action_find(lk_bytes type);

/* The registration's JSON, for catalog_snapshot too; and back (for clients), texts in the arena. */
void                lk_registration_write(const lk_registration *registration, lk_buf *out);
LK_MUST_CHECK lk_rc lk_registration_read(
    lk_bytes json, lk_table_ref table, lk_arena *arena, lk_registration *out, lk_err *err);

#endif
