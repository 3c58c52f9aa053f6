#ifndef LK_CLI_ROLLOUT_READ_H
#define LK_CLI_ROLLOUT_READ_H
/*
 * rollout_read.h - reading rollout stores, the same from a server and in place. A question is one text, the query string of the
 * HTTP API, so both answer it by the same rules.
 *
 * Threads: confined; a list from a server arrives on a thread of its own, a pipe ahead of whoever reads.
 */
#include "cli/rollout_target.h"

#include "arrow/batch.h"

typedef struct lk_rollout_list_args {
    const char *filters, *columns, *order; /* NULL: none */
    uint64_t    limit, offset, version;    /* UINT64_MAX, 0, 0: none */
} lk_rollout_list_args;

/* The names of the stores, in the arena. */
LK_MUST_CHECK lk_rc lk_rollout_read_names(
    lk_rollout_target *target, lk_arena *arena, lk_bytes **names, size_t *count, lk_err *err);

/* Records as batches without dictionaries; lk_rollout_read_close ends them. Why they end early is known there: LK_E_INVALID_IPC
 * from the batches says only that they did. The target and the arena outlive them. */
LK_MUST_CHECK lk_rc lk_rollout_read_list(lk_rollout_target *target, const char *name,
    const lk_rollout_list_args *args, lk_arena *arena, lk_batches **out, lk_err *err);
LK_MUST_CHECK lk_rc lk_rollout_read_close(lk_batches *rows, lk_err *err);

/* Appends the record as JSON. LK_E_NOT_FOUND. */
LK_MUST_CHECK lk_rc lk_rollout_read_get(
    lk_rollout_target *target, const char *name, lk_bytes id, lk_arena *arena, lk_buf *out, lk_err *err);

/* Writes the payload. LK_E_NOT_FOUND: no such record, or it has none. */
LK_MUST_CHECK lk_rc lk_rollout_read_blob(
    lk_rollout_target *target, const char *name, lk_bytes id, FILE *out, uint64_t *size, lk_err *err);

/* "?limit=…&filters=…" in the arena; "" when everything is asked for. */
const char *lk_rollout_question_text(const lk_rollout_list_args *args, lk_arena *arena);

#endif
