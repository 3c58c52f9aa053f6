#ifndef LK_CLI_ROLLOUT_INPUT_H
#define LK_CLI_ROLLOUT_INPUT_H
/*
 * rollout_input.h - records from a user's file or stdin, in groups that make one add each.
 *
 * Kinds, by the name's ending or by name: ndjson (.ndjson .jsonl: an object a line, read as it comes), json (.json: one object,
 * an array of objects, or {"records": [...]}), and rows: arrow, parquet, csv (cli/source.h).
 *
 * Invariants:
 *   1. A record without an id gets one here, before anything is sent: a group that is sent twice adds its records once.
 *   2. Memory is bounded by a group, but for json, which is held whole.
 * Threads: confined.
 */
#include "arrow/batch.h"
#include "base/uuid.h"

typedef struct lk_rollout_input lk_rollout_input;

typedef struct lk_rollout_input_options {
    const char *path; /* "-": stdin */
    const char *kind; /* ndjson, json, arrow, parquet or csv; NULL: by the ending; stdin: ndjson */
    uint64_t    rows_max, bytes_max; /* of a group; a record larger than that is a group of its own */
    /* "ID=FILE": the payload of the record of that id is that file's content. Not with rows. */
    const char *const *payloads;
    size_t             payload_count;
    lk_random         *random; /* for ids */
    lk_clock          *clock;
} lk_rollout_input_options;

typedef struct lk_rollout_payload {
    size_t index; /* of its record in the group */
    lk_buf bytes;
} lk_rollout_payload;

typedef struct lk_rollout_origin { /* where a record stood in the user's text */
    size_t line;                   /* from 1 */
    size_t start;                  /* in the group's json */
    size_t inserted;               /* bytes of the id that it got here, behind its brace */
} lk_rollout_origin;

/* One add: either records as text or rows. */
typedef struct lk_rollout_group_in {
    size_t              count;   /* 0: the input is at its end */
    size_t              before;  /* records of groups before it */
    lk_buf              json;    /* {"records":[...]} */
    lk_buf              origins; /* of lk_rollout_origin, one a record of json */
    lk_rollout_payload *payloads;
    size_t              payload_count;
    lk_shared_array    *rows;
} lk_rollout_group_in;

/* LK_E_USAGE, LK_E_NOT_FOUND, LK_E_INVALID_REQUEST. Borrows options and what it points to. */
LK_MUST_CHECK lk_rc lk_rollout_input_open(
    const lk_rollout_input_options *options, lk_rollout_input **out, lk_err *err);
LK_MUST_CHECK lk_rc lk_rollout_input_next(lk_rollout_input *input, lk_rollout_group_in *out, lk_err *err);
const struct ArrowSchema *lk_rollout_input_schema(
    const lk_rollout_input *input); /* of rows; NULL: it has text */
/* A failure of the group that speaks of a record of it, and of a byte of its text, speaks of the user's file, line and byte then. */
void lk_rollout_input_locate(const lk_rollout_input *input, const lk_rollout_group_in *group, lk_err *err);
/* At the end: LK_E_USAGE when a payload was given for an id that no record had. */
LK_MUST_CHECK lk_rc lk_rollout_input_finish(const lk_rollout_input *input, lk_err *err);
void                lk_rollout_input_close(lk_rollout_input *input);        /* accepts NULL */
void                lk_rollout_group_in_deinit(lk_rollout_group_in *group); /* idempotent */

/* Appends a JSON object's text with an id of its own if it has none. *id: the raw text of the value it has, empty if it had
 * none. False: it does not begin like an object. What is no valid JSON is passed on as it is: the store says what is wrong. */
bool lk_rollout_mint(lk_bytes object, lk_uuid fresh, lk_buf *out, lk_bytes *id);

#endif
