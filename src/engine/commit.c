/* commit.c - see commit.h for the steps and their crash points. */
#include "engine/commit.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/uuid.h"

#include <inttypes.h>

enum { CLAIM_ATTEMPTS = 3 }; /* a settle by another thread may move the path under a claim, twice at most */

static lk_rc foreign(lk_bytes location, uint64_t version, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_FOREIGN_COMMIT, "version %" PRIu64 " of %.*s", version, LK_FMT(location));
    lk_detail(
        err, "another writer committed version %" PRIu64 " to this table; nothing was appended", version);
    lk_log_error(LK_LOG_FOREIGN_COMMIT, err);
    return rc;
}

/* Gives the manifest at `staging` its final name, or finds the same bytes there. */
static lk_rc give_final_name(
    lk_store *store, lk_bytes location, uint64_t version, lk_bytes staging, lk_bytes manifest, lk_err *err)
{
    lk_arena arena = {0};
    lk_bytes key = lk_pointer_final_path(&arena, version), present = {0};
    bool     created = false;
    lk_rc    rc = lk_store_name_again(store, staging, key, manifest, &created, err);
    if (rc == LK_OK && !created) {
        rc = lk_store_load(store, key, LK_MANIFEST_BYTES_MAX, &arena, &present, err);
    }
    if (rc == LK_OK && !created && !lk_bytes_equal(present, manifest)) {
        rc = foreign(location, version, err);
    }
    lk_arena_close(&arena);
    return rc;
}

static bool is_final(const lk_pointer *head)
{
    lk_arena arena = {0};
    bool     final = lk_bytes_equal(head->path, lk_pointer_final_path(&arena, head->version));
    lk_arena_close(&arena);
    return final;
}

static lk_rc settle_head(lk_store *store, lk_bytes location, const lk_pointer *head, lk_err *err)
{
    lk_arena arena = {0};
    lk_bytes manifest = {0};
    lk_rc    rc = lk_store_load(store, head->path, LK_MANIFEST_BYTES_MAX, &arena, &manifest, err);
    if (rc == LK_OK) {
        rc = give_final_name(store, location, head->version, head->path, manifest, err);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc has_name(lk_store *store, uint64_t version, bool *has, lk_err *err)
{
    lk_arena arena = {0};
    uint64_t size = 0;
    lk_rc    rc = lk_store_look(store, lk_pointer_final_path(&arena, version), has, &size, err);
    lk_arena_close(&arena);
    return rc;
}

/* Nobody may have put a manifest above the head: it would be taken for ours by every reader in place. */
static lk_rc look_ahead(lk_owned_committer *c, lk_store *store, uint64_t version, lk_err *err)
{
    bool  taken = false;
    lk_rc rc = has_name(store, version, &taken, err);
    return rc == LK_OK && taken ? foreign(c->location, version, err) : rc;
}

static lk_rc load_predecessor(
    lk_owned_committer *c, uint64_t version, lk_arena *arena, lk_pointer *head, lk_err *err)
{
    lk_rc rc = lk_pointer_load(c->kv, c->location, arena, head, err);
    bool  live = rc == LK_OK && head->state == LK_POINTER_LIVE;
    bool  follows = version == 1 ? !live && head->state != LK_POINTER_DELETING
                                 : live && head->version + 1 == version &&
                                      lk_bytes_equal(head->incarnation, c->incarnation);
    c->lost = rc == LK_OK && !follows;
    return rc;
}

/* The head that the new version follows, its final name known to be ours. Its path may be moved to that name, and
 * the staging file swept, by a recovery that runs beside us: then it is looked at again. */
static lk_rc settle_predecessor(
    lk_owned_committer *c, lk_store *store, uint64_t version, lk_arena *arena, lk_pointer *head, lk_err *err)
{
    lk_rc rc = LK_E_NOT_FOUND;
    for (int attempt = 0; rc == LK_E_NOT_FOUND && attempt < CLAIM_ATTEMPTS; attempt++) {
        *err = (lk_err){0};
        rc = load_predecessor(c, version, arena, head, err);
        bool settled = head->version == c->settled || is_final(head);
        if (rc == LK_OK && !c->lost && head->state == LK_POINTER_LIVE && !settled) {
            rc = settle_head(store, c->location, head, err);
        }
    }
    return rc;
}

/* The atomic step. The path of the head may be moved to its final name meanwhile: that is not a loss. */
static lk_rc claim(lk_owned_committer *c, uint64_t version, lk_bytes staging, lk_arena *arena,
    lk_pointer *head, bool *applied, lk_err *err)
{
    const lk_pointer_claim next = {.base = c->location,
        .incarnation = c->incarnation,
        .version = version,
        .path = staging,
        .guard_key = c->terms.guard_key,
        .guard_value = c->terms.guard_value,
        .with = c->terms.with,
        .with_count = c->terms.with_count};
    lk_rc                  rc = lk_pointer_claim_next(c->kv, head, &next, applied, err);
    for (int attempt = 1; rc == LK_OK && !*applied && attempt < CLAIM_ATTEMPTS; attempt++) {
        lk_bytes before = head->raw;
        rc = load_predecessor(c, version, arena, head, err);
        if (rc != LK_OK || c->lost || lk_bytes_equal(before, head->raw)) {
            break;
        }
        rc = lk_pointer_claim_next(c->kv, head, &next, applied, err);
    }
    c->lost = rc == LK_OK && !*applied;
    return rc;
}

/* The version is committed: what fails from here is logged, and repaired by the next settle. */
static void name_and_sweep(lk_owned_committer *c, lk_store *store, uint64_t version, lk_bytes staging,
    lk_bytes manifest, const lk_pointer *head)
{
    lk_err ignored = {0};
    c->named = give_final_name(store, c->location, version, staging, manifest, &ignored) == LK_OK;
    if (!c->named && ignored.rc != LK_E_FOREIGN_COMMIT) {
        lk_log_error(LK_LOG_RECOVERY_FAILED, &ignored);
    }
    if (head->state == LK_POINTER_LIVE && !is_final(head)) {
        lk_err swept = {0};
        if (lk_store_remove(store, head->path, &swept) != LK_OK) {
            lk_log_error(LK_LOG_RECOVERY_FAILED, &swept);
        }
    }
}

static lk_rc run(lk_owned_committer *c, lk_store *store, uint64_t version, lk_bytes manifest, lk_arena *arena,
    bool *won, lk_err *err)
{
    char       name[LK_UUID_TEXT_SIZE + 1];
    lk_pointer head;
    bool       created = false;
    lk_rc      rc = settle_predecessor(c, store, version, arena, &head, err);
    if (rc != LK_OK || c->lost) {
        return rc;
    }
    rc = look_ahead(c, store, version, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_uuid_format(lk_uuid_v7(c->clock, c->random), name);
    lk_bytes staging = lk_arena_format(arena, "_versions/.tmp-lake-%s", name);
    rc = lk_store_put_if_absent(store, staging, manifest, &created, err);
    rc = rc == LK_OK ? lk_store_sync(store, err) : rc; /* rows, manifest, and the name that settle gave */
    if (rc != LK_OK) {
        err->maybe_applied = false; /* files that nothing names are nothing */
        return rc;
    }
    LK_ASSERT(created); /* a fresh UUID */
    c->claimed = true;
    rc = claim(c, version, staging, arena, &head, won, err);
    if (*won) {
        name_and_sweep(c, store, version, staging, manifest, &head);
    } else if (rc == LK_OK || !err->maybe_applied) {
        lk_err swept = {0};
        if (lk_store_remove(store, staging, &swept) != LK_OK) {
            lk_log_error(LK_LOG_RECOVERY_FAILED, &swept);
        }
    }
    return rc;
}

static lk_rc commit(lk_committer *committer, lk_store *store, uint64_t version, lk_bytes final_key,
    lk_bytes manifest, bool *won, lk_err *err)
{
    lk_owned_committer *c = (lk_owned_committer *)committer;
    lk_arena            arena = {0};
    LK_ASSERT(lk_bytes_equal(final_key, lk_pointer_final_path(&arena, version)));
    c->claimed = c->lost = c->named = *won = false;
    lk_rc rc = run(c, store, version, manifest, &arena, won, err);
    if (rc != LK_OK) {
        lk_context(err, "commit version %" PRIu64, version);
    }
    lk_arena_close(&arena);
    return rc;
}

void lk_owned_committer_init(lk_owned_committer *committer, lk_kv *kv, lk_clock *clock, lk_random *random,
    lk_bytes location, lk_bytes incarnation, lk_commit_terms terms)
{
    *committer = (lk_owned_committer){.base = {.commit = commit},
        .kv = kv,
        .clock = clock,
        .random = random,
        .location = location,
        .incarnation = incarnation,
        .terms = terms};
}

/* The head has no final name: it gets it, durably, and the pointer names it. */
static lk_rc finalize(
    lk_kv *kv, lk_store *store, lk_bytes location, const lk_pointer *head, lk_commit_terms terms, lk_err *err)
{
    bool  applied = false;
    lk_rc rc = settle_head(store, location, head, err);
    rc = rc == LK_OK ? lk_store_sync(store, err) : rc; /* the name outlives the staging file */
    if (rc == LK_OK) {
        rc = lk_pointer_finalize(kv, location, head, terms.guard_key, terms.guard_value, &applied, err);
    }
    return rc == LK_OK && applied ? lk_store_remove(store, head->path, err) : rc;
}

lk_rc lk_owned_settle(lk_kv *kv, lk_store *store, lk_bytes location, lk_commit_terms terms, lk_err *err)
{
    lk_arena   arena = {0};
    lk_pointer head, now;
    bool       named = true;
    lk_rc      rc = lk_pointer_load(kv, location, &arena, &head, err);
    if (rc == LK_OK && head.state == LK_POINTER_LIVE && !is_final(&head)) {
        rc = has_name(store, head.version, &named, err);
    }
    if (rc == LK_OK && !named) {
        rc = finalize(kv, store, location, &head, terms, err);
    }
    if (rc == LK_E_NOT_FOUND) { /* no staging file: a newer commit settled the head and swept it */
        *err = (lk_err){0};
        rc = lk_pointer_load(kv, location, &arena, &now, err);
        if (rc == LK_OK && lk_bytes_equal(now.raw, head.raw)) {
            rc = lk_fail(
                err, LK_E_CORRUPT_FILE, "no manifest %.*s of %.*s", LK_FMT(head.path), LK_FMT(location));
        }
    }
    lk_arena_close(&arena);
    return rc;
}
