#ifndef LK_ENGINE_LANCE_ENGINE_H
#define LK_ENGINE_LANCE_ENGINE_H
/*
 * lance_engine.h - lk_engine over Lance datasets: files in an lk_store, versions decided by the pointer.
 *
 * Invariants:
 *   1. Exact versions are opened through the pointer and its archive; nothing is ever listed, and a manifest
 *      that lake did not commit is never opened.
 *   2. A commit carries the operation as transaction properties lake.append.tenant, .operation_id,
 *      .payload_sha256, for readers of the files and for reconcile.
 *   3. A table below `root` is known by its location there, whether a caller names it so or absolutely: files,
 *      pointers and registry may be moved together.
 *   4. The newest datasets stay open, LK_ENGINE_OPEN_MAX of them: an append to, or a read of, a table in use
 *      opens no file that it does not need.
 *
 * Threads: shared. The table of open datasets is guarded by one mutex (ENGINE); files are read without it.
 */
#include "base/budget.h"
#include "engine/engine.h"

/* Opens the store rooted at a directory key: a dataset, or the directory that holds datasets. */
typedef struct lk_store_opener lk_store_opener;
struct lk_store_opener {
    lk_rc (*open)(lk_store_opener *opener, lk_bytes root, lk_store **out, lk_err *err);
};

typedef struct lk_lance_engine_options { /* all borrowed; outlive the engine */
    lk_kv           *kv; /* NULL: a reader apart from the authority; opens final names only, writes nothing */
    lk_clock        *clock;
    lk_random       *random;
    lk_pool         *pool;           /* scans; NULL: on the caller's thread */
    lk_budget       *budget;         /* scan memory; NULL: unlimited */
    lk_store_opener *opener;         /* NULL: local directories */
    lk_bytes         root;           /* copied; where relative locations begin. Empty: all are absolute */
    bool             volatile_files; /* skip every fsync (tests and throw-away servers) */
    size_t           open_files_max; /* data files of all tables that may stay open; 0: LK_ENGINE_FILES_MAX */
} lk_lance_engine_options;

LK_MUST_CHECK lk_rc lk_lance_engine_open(
    lk_engine **out, const lk_lance_engine_options *options, lk_err *err);

#endif
