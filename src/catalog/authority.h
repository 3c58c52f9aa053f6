#ifndef LK_CATALOG_AUTHORITY_H
#define LK_CATALOG_AUTHORITY_H
/*
 * authority.h - what the query tier asks of the metadata authority. Bodies: meta (in process, over the
 * KV) and serve/authority_client (over Flight). Every call is made for a caller: a principal and tenant.
 * Threads: shared. Calls block.
 */
#include "arrow/batch.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/thread.h"
#include "model/ids.h"
#include "model/principal.h"

typedef struct lk_authority lk_authority;

typedef struct lk_registration {
    lk_table_ref table; /* in the arena of the call */
    lk_bytes     location, engine, incarnation;
    uint64_t     version;    /* the published one */
    lk_bytes     schema_ipc; /* encapsulated Arrow IPC schema message */
} lk_registration;

typedef struct lk_append_command {
    lk_table_ref table;
    lk_bytes     operation_id;   /* canonical UUIDv7 text */
    lk_bytes     payload_sha256; /* 64 hex digits over the rows as the client sent them */
} lk_append_command;

typedef struct lk_name_page {
    lk_bytes *names;
    size_t    count;
    lk_bytes  continuation; /* empty: no more */
} lk_name_page;

struct lk_authority_ops {
    lk_rc (*create_table)(lk_authority *a, const lk_principal *who, lk_table_ref table,
        const struct ArrowSchema *schema, lk_err *err);
    lk_rc (*drop_table)(
        lk_authority *a, const lk_principal *who, lk_table_ref table, lk_err *err); /* absent: LK_OK */
    /* LK_E_TABLE_NOT_FOUND when absent. */
    lk_rc (*resolve)(lk_authority *a, const lk_principal *who, lk_table_ref table, lk_arena *arena,
        lk_registration *out, lk_err *err);
    lk_rc (*list_tables)(lk_authority *a, const lk_principal *who, lk_bytes ns, lk_bytes continuation,
        size_t limit, lk_arena *arena, lk_name_page *out, lk_err *err);
    lk_rc (*list_namespaces)(lk_authority *a, const lk_principal *who, lk_bytes continuation, size_t limit,
        lk_arena *arena, lk_name_page *out, lk_err *err);
    /*
     * The whole directory at one generation. *modified = false when known_generation is still current;
     * otherwise items (ascending by namespace, name) and the new generation, in the arena.
     */
    lk_rc (*directory)(lk_authority *a, lk_bytes known_generation, lk_arena *arena, bool *modified,
        lk_bytes *generation, lk_registration **items, size_t *count, lk_err *err);
    /* Runs one append operation to its published version. rows is borrowed and consumed. */
    lk_rc (*append)(lk_authority *a, const lk_principal *who, const lk_append_command *command,
        lk_batches *rows, lk_cancel *cancel, uint64_t *version, lk_err *err);
    void (*close)(lk_authority *a);
};

struct lk_authority {
    const struct lk_authority_ops *ops;
};

#endif
