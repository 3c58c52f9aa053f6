#ifndef LK_SERVE_ROLLOUT_QUERY_TEXT_H
#define LK_SERVE_ROLLOUT_QUERY_TEXT_H
/*
 * rollout_query_text.h - the parameters of a list as they stand in a URL: limit, offset, filters, order, columns, cursor,
 * version, format, payload.
 *
 * filters is a JSON object; its keys are id, rollout_id, problem_id, dataset, policy_version, role, artifact_type and
 * content_type (a text, or {"in": [texts]}), include_in_training (true or false) and created_at ({"gte": time, "lt": time}).
 * Threads: stateless.
 */
#include "rollout/query.h"
#include "serve/rollout_media.h"

typedef struct lk_rollout_list_query {
    lk_rollout_query  query;
    lk_bytes          cursor;  /* empty: none, or from the start */
    uint64_t          version; /* 0: none was asked for */
    lk_rollout_format format;
    bool              has_format, has_cursor; /* they were there */
    bool              inline_payload;         /* columns may name it */
} lk_rollout_list_query;

/* Memory in the arena. LK_E_INVALID_REQUEST names the parameter, of filters the key. */
LK_MUST_CHECK lk_rc lk_rollout_list_query_read(
    lk_bytes query_string, lk_arena *arena, lk_rollout_list_query *out, lk_err *err);

/* An unsigned decimal number and nothing else. */
bool lk_rollout_number_read(lk_bytes text, uint64_t *out);

#endif
