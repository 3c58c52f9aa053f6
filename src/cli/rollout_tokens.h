#ifndef LK_CLI_ROLLOUT_TOKENS_H
#define LK_CLI_ROLLOUT_TOKENS_H
/*
 * rollout_tokens.h - the file of bearer tokens that a rollout store accepts.
 *
 * A line is `ROLE TOKEN` with ROLE read, write or admin, or `TOKEN` alone, which is an admin's; empty lines and lines that
 * begin with # are skipped. A token is printable ASCII without blanks, and in the file once. What is wrong is told by its
 * line's number, never with its text.
 *
 * Ownership: _load/_deinit the caller's own struct; deinit wipes the texts. Threads: immutable once loaded.
 */
#include "base/arena.h"
#include "serve/rollout_service.h"

enum { LK_ROLLOUT_TOKENS_MAX = 10000 };

typedef struct lk_rollout_tokens {
    lk_rollout_token *items;
    size_t            count;
    lk_arena          arena; /* private */
} lk_rollout_tokens;

/* path NULL: none. LK_E_INVALID_CONFIG names file and line. Deinit also after a failure. */
LK_MUST_CHECK lk_rc lk_rollout_tokens_load(lk_rollout_tokens *out, const char *path, lk_err *err);
void                lk_rollout_tokens_deinit(lk_rollout_tokens *tokens); /* idempotent */

/* The same of a text; name is what messages call it. */
LK_MUST_CHECK lk_rc lk_rollout_tokens_parse(
    lk_rollout_tokens *out, const char *name, lk_bytes text, lk_err *err);

#endif
