#ifndef LK_ENGINE_OPEN_TABLES_H
#define LK_ENGINE_OPEN_TABLES_H
/*
 * open_tables.h - datasets that are open, least recently used out first, and the store each lies in.
 *
 * Invariant: at most LK_ENGINE_OPEN_MAX entries, of LK_ENGINE_OPEN_BYTES_MAX together; of one table, a newer
 * version coming in pushes out all but the one before it. What a caller got stays valid for as long as its
 * references. Threads: shared; one mutex (ENGINE), never held while a file is read.
 */
#include "base/thread.h"
#include "lance/dataset.h"

/* One dataset directory: its store, environment and open data files, shared by every open version. */
typedef struct lk_table_files {
    atomic_uint          refs;
    lk_store            *store;
    lk_lance_env         env;
    atomic_uint_fast64_t settled; /* a version whose final name is known to be ours (commit.h) */
} lk_table_files;

/* Takes store. refs = 1. */
lk_table_files *lk_table_files_new(lk_store *store, const lk_lance_env *env);
lk_table_files *lk_table_files_ref(lk_table_files *files);
void            lk_table_files_unref(lk_table_files *files); /* accepts NULL */

typedef struct lk_open_tables lk_open_tables;

lk_open_tables *lk_open_tables_new(void);
void            lk_open_tables_free(lk_open_tables *tables); /* accepts NULL */

/* Finds an exact version: one reference each to *dataset and *files. False: *dataset is NULL, but *files may
 * still be the open directory. */
bool lk_open_tables_find(lk_open_tables *tables, lk_bytes location, lk_bytes incarnation, uint64_t version,
    lk_dataset **dataset, lk_table_files **files);

/* Keeps one more reference to both. */
void lk_open_tables_add(lk_open_tables *tables, lk_bytes location, lk_bytes incarnation, uint64_t version,
    lk_dataset *dataset, lk_table_files *files);
void lk_open_tables_forget(lk_open_tables *tables, lk_bytes location);

#endif
