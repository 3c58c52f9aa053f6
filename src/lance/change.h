#ifndef LK_LANCE_CHANGE_H
#define LK_LANCE_CHANGE_H
/*
 * change.h - one change of a table, from what it wants to its commit: what append, delete, restore and the others
 * share.
 *
 * A change writes, in this order, so that whatever stops it leaves the table as it was:
 *   its objects   data files, deletion files: new names, referenced by nobody
 *   .txn          what it is about to do, for writers who must check against it
 *   manifest      through the committer: from here on it is done
 * When it fails for certain, the first two are removed; when the last step is unknown (maybe_applied), they
 * stay, because the table may already refer to them.
 *
 * A committer that stands alone is given one version after another until it wins: before each try the versions
 * that others made since are looked at, and the change is planned anew on top of the newest one.
 *
 * Threads: confined.
 */
#include "lance/dataset.h"
#include "lance/index.h"
#include "lance/manifest.h"
#include "lance/pb_table.h"

typedef struct lk_change lk_change;

typedef struct lk_change_plan {        /* the version that shall follow the tip */
    lk_bytes               operation;  /* the operation's own message */
    lk_bytes               body;       /* the Manifest message it grows out of; the tip's unless set */
    const lk_lance_schema *schema;     /* of a new table, which grows out of nothing */
    uint32_t               file_minor; /* of its data files; lk_change_file_minor unless set */
    lk_pb_new_version      version;    /* what the plan leaves alone is as in the tip */
    bool                   has_index_section;
    lk_bytes index_section;      /* the tip's unless set, of which stays what still holds (lk_index_keep) */
    const lk_index_moves *moves; /* for that; NULL: none */
} lk_change_plan;

typedef struct lk_change_ops {
    lk_operation operation;
    /* Whether another's operation may have happened meanwhile. NULL: any may. */
    bool (*goes_with)(lk_operation other);
    /* Fills in the plan on top of tip (NULL: a new table), which is base or a later version; a tip that does not
     * allow it is LK_E_CONFLICT. What the plan points to lives in the arena, which ends with the try. */
    lk_rc (*plan)(
        lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err);
} lk_change_ops;

struct lk_change {
    const lk_change_ops    *ops;
    const lk_lance_env     *env;
    lk_committer           *committer;
    const lk_write_options *options; /* NULL: none */
    const lk_manifest      *base;    /* NULL: a new table */
    lk_arena                arena;
    lk_buf                  objects;          /* of lk_bytes: see lk_change_wrote */
    lk_buf                  operation;        /* what the transaction below says */
    lk_buf                  transaction;      /* the message */
    lk_bytes                transaction_name; /* below _transactions/; "": only inline */
};

void lk_change_deinit(lk_change *change);

/* Notes an object that nobody refers to unless the change is committed. Call it before the object is made. */
void lk_change_wrote(lk_change *change, lk_bytes key);

/* Removes an object of an earlier try that the next one does not use. */
void lk_change_discard(lk_change *change, lk_bytes key);

/*
 * Commits. *committed is the new version's manifest. LK_E_CONFLICT with a detail when another's commit does not
 * go with it (or, with a committer that does not stand alone, took the version), LK_E_TABLE_EXISTS for a new
 * table. After an error: lk_change_undo.
 */
LK_MUST_CHECK lk_rc lk_change_commit(lk_change *change, lk_manifest **committed, lk_err *err);

/* Removes what a failed change wrote, unless err says that it may be applied. What cannot be removed now is
 * unreferenced and goes with a later cleanup. */
void lk_change_undo(lk_change *change, const lk_err *err);

/* Runs once(base); where it says *again and the committer stands alone, again with the newest version, and so on for
 * LK_COMMIT_ATTEMPTS_MAX tries: for changes that choose rows, when those changed meanwhile. */
LK_MUST_CHECK lk_rc lk_change_repeat(lk_dataset *base, const lk_committer             *committer,
    lk_rc (*once)(void *context, lk_dataset *version, bool *again, lk_err *err), void *context, lk_err *err);

/* A manifest object of what `version` makes of a body, without transaction and indices: to read, not to commit. */
LK_MUST_CHECK lk_rc lk_change_object(
    lk_bytes body, const lk_pb_new_version *version, lk_buf *object, lk_err *err);

/* LK_E_UNSUPPORTED_FORMAT unless new data files may be written for this table. */
LK_MUST_CHECK lk_rc lk_change_check_files(const lk_manifest *manifest, lk_err *err);

/* New data files of this change are 2.<this>: the table's version, or what the options say of a new table. */
uint32_t lk_change_file_minor(const lk_change *change);

#endif
