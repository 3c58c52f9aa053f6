#ifndef LK_ENGINE_COMMIT_H
#define LK_ENGINE_COMMIT_H
/*
 * commit.h - the lk_committer of tables that lake owns: staging manifest, compare-and-set in the KV, final
 * name. Anyone may read such a table in place; only this decides what its next version is.
 *
 *   settle  the head's final name is ours (put if absent; other bytes there: foreign commit)
 *   look    nobody has put a manifest under the next version's final name (else: foreign commit)
 *   stage   _versions/.tmp-lake-<uuid>, whole; Lance readers ignore the name
 *   sync    it and the rows are durable (one sync for all files, where the store syncs late)
 *   claim   one atomic write: pointer, archive of the head, the caller's own changes; guarded  <- the commit
 *   name    the final name: a link to the staging file, or put-if-absent of the same bytes. It need not be
 *           durable: the sync of the next commit, or of lk_owned_settle, covers it
 *   sweep   the head's staging name goes (its final name became durable with the sync above)
 *
 * Crash points: before claim nothing happened (a staging file is left, unreferenced). After claim the version
 * is committed and readable through the pointer; the next commit, or lk_owned_settle, runs `settle` and so
 * gives it its final name. A foreign manifest is found by settle or look before anything is claimed on it.
 *
 * Threads: a committer is confined to one commit.
 */
#include "base/clock.h"
#include "base/rand.h"
#include "engine/engine.h"
#include "engine/pointer.h"
#include "lance/commit.h"

typedef struct lk_owned_committer {
    lk_committer    base; /* first */
    lk_kv          *kv;   /* borrowed, as all inputs */
    lk_clock       *clock;
    lk_random      *random;
    lk_bytes        location, incarnation;
    lk_commit_terms terms;
    uint64_t        settled; /* a version whose final name this process has seen to be ours; 0: none */
    /* Filled by the commit. */
    bool claimed; /* the atomic write was sent: before it, no failure can have committed anything */
    bool lost;    /* the claim lost: base, guard or a condition of terms.with */
    bool named;   /* the new version has its final name */
} lk_owned_committer;

void lk_owned_committer_init(lk_owned_committer *committer, lk_kv *kv, lk_clock *clock, lk_random *random,
    lk_bytes location, lk_bytes incarnation, lk_commit_terms terms);

/*
 * Gives the head of a live table its final name if a dead process left it without, and lets the pointer name it.
 * For a head that has one this is one look: whose it is, the next commit asks. Does nothing for a table that is
 * absent or being deleted, or when someone else moved it meanwhile. LK_E_FOREIGN_COMMIT when other bytes came
 * to lie there.
 */
LK_MUST_CHECK lk_rc lk_owned_settle(
    lk_kv *kv, lk_store *store, lk_bytes location, lk_commit_terms terms, lk_err *err);

#endif
