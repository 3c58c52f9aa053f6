#ifndef LK_META_APPEND_H
#define LK_META_APPEND_H
/*
 * append.h - one idempotent append, from its rows to its published version.
 *
 *   load -> replay -> commit
 *
 * load    the table's registration: the base to append to. Reads only.
 * replay  the operation's record: if it is there, the operation is done. Reads only.
 * commit  the engine writes the rows and a staging manifest, then makes ONE atomic, guarded write:
 *
 *             guard    election/leader            exactly our leader record
 *             pointer  base        -> base + 1    the engine's version
 *             archive  absent      -> base        the engine's history
 *             tblv     base        -> base + 1    what readers are told
 *             record   absent      -> base + 1    what a replay is told
 *             expiry   absent      -> due hour    when the record may be forgotten
 *
 *         and gives the manifest its final name afterwards.
 *
 * Invariants, at every point where the process may die:
 *   1. The engine's version, the published version and the record exist together or not at all: there is no
 *      reserved, unpublished or ownerless state, hence no fence that a dead process could leave behind.
 *   2. Running the same operation again ends in the same version. Another payload under its id is refused.
 *   3. A deposed leader commits nothing: guard and pointer are compared in the write that decides.
 *   4. A rejection (schema, nulls, rows, time, base) happens before the atomic write and leaves nothing but
 *      files that no manifest names.
 *
 * Where a process may die, and what a rerun finds (K numbers: the classical crash matrix of this protocol):
 *   K1  before anything                             a fresh append
 *   K2 K3 (reserved, fenced)                        do not exist here
 *   K4  data files written                          a fresh append; unreferenced files
 *   K5 K6 staging manifest written                  a fresh append; one more unreferenced file
 *   K7  atomic write done, no final name            replay: done. The next commit or recovery gives the name
 *   K8..K11 (recorded, published, unfenced)         are the same state as K7: one write made them all
 *   K12 reply lost                                  replay: done
 * An error whose write may have happened is settled by reading the record; if that cannot be read either, the
 * error is passed on with maybe_applied, and the client repeats the same id.
 *
 * Threads: confined to the caller, who holds the table's lock.
 */
#include "meta/env.h"
#include "meta/operation.h"
#include "meta/rows.h"

typedef struct lk_append {
    const lk_meta_env *env;   /* borrowed, as all inputs */
    lk_arena          *arena; /* the request's */
    lk_table_ref       table;
    lk_bytes           tenant, operation_id, payload_sha256;
    lk_bytes           incarnation; /* whose schema rows were checked against */
    lk_rows           *rows;
    /* Filled by the run. */
    uint64_t version;
    bool     replayed; /* an earlier run had committed it */
} lk_append;

/*
 * Runs the operation to its end, from wherever an earlier run left it. LK_E_TABLE_NOT_FOUND,
 * LK_E_OPERATION_CONFLICT, _RECREATED, _EXPIRED, _FUTURE, LK_E_CONFLICT (the table was recreated while the
 * rows were checked, or moved under us), LK_E_FOREIGN_COMMIT, LK_E_NOT_LEADER, or what engine and KV say.
 * After any error the same call may be made again.
 */
LK_MUST_CHECK lk_rc lk_append_run(lk_append *a, lk_err *err);

#endif
