#ifndef LK_QUERY_AUTHORITY_FIXTURE_H
#define LK_QUERY_AUTHORITY_FIXTURE_H
/*
 * authority_fixture.h - for this room's tests: an authority in memory that remembers what it was asked, keeps each
 * operation once, and fails where it is told to.
 *
 * Threads: confined, but for the catalog cache's own refreshes, which only read the tables.
 */
#include "catalog/authority.h"

enum { FAKE_TABLES_MAX = 32, FAKE_OPERATIONS_MAX = 64 };

typedef struct fake_table {
    char     ns[64], name[64], incarnation[16];
    lk_buf   schema_ipc;
    uint64_t version;
} fake_table;

typedef struct fake_operation {
    char     id[40], digest[72];
    int64_t  rows, sum; /* of the first column, an int64 */
    uint64_t bytes;
} fake_operation;

typedef struct fake_authority {
    lk_authority   base;
    fake_table     tables[FAKE_TABLES_MAX]; /* ascending */
    size_t         table_count;
    fake_operation operations[FAKE_OPERATIONS_MAX]; /* committed, in order */
    size_t         operation_count;
    size_t         append_calls, create_calls;
    uint64_t       generation;
    int            fail_append_at; /* the call (from 1) that fails with LK_E_AUTHORITY_UNAVAILABLE; 0: none */
    bool           created_meanwhile; /* another client makes the table between resolve and create */
} fake_authority;

void fake_authority_init(fake_authority *fake);
void fake_authority_deinit(fake_authority *fake);

/* Adds a table with columns like "n:int64 s:utf8?"; tables must come in ascending order. NULL: a schema that cannot
 * be decoded. */
void fake_authority_add(fake_authority *fake, const char *ns, const char *name, const char *columns);

/* A struct schema of columns like "n:int64 s:utf8?". */
void schema_of(const char *columns, struct ArrowSchema *out);

#endif
