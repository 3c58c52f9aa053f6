#ifndef LK_SERVE_ROLLOUT_LIST_H
#define LK_SERVE_ROLLOUT_LIST_H
/*
 * rollout_list.h - rows as an answer: what lists, trajectories and tails share.
 * Threads: a call is confined.
 */
#include "serve/rollout_query_text.h"
#include "serve/rollout_service_priv.h"

/* The request's parameters and Accept; a checkout of shared scope is its version when it names none. */
LK_MUST_CHECK lk_rc rollout_read_query(rollout_call *call, lk_rollout_list_query *out, lk_err *err);

/* Takes rows; the result, closed instead of them, holds a reference of the store that they are read from. */
lk_batches *rollout_hold_store(lk_batches *rows, lk_rollout_store *store);

/*
 * Answers with the rows of a stream, which it takes, in the form that the query says; next_cursor (empty: none) goes with them: in
 * JSON's object, else in the field Next-Cursor. The exchange is gone for the caller; query is not looked at any more, next_cursor
 * lives in the call's arena.
 */
void rollout_answer_rows(
    rollout_call *call, const lk_rollout_list_query *query, lk_batches *rows, lk_bytes next_cursor);

#endif
