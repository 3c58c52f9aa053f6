#ifndef LK_ROLLOUT_CURSOR_H
#define LK_ROLLOUT_CURSOR_H
/*
 * cursor.h - where a reader stopped, as a text that it gives back: what it read is named by versions, never copied, so any
 * instance goes on from it and none remembers it.
 *
 * Two kinds. A list's cursor pins a snapshot (the base table's version, and of every shard with generations its manifest's)
 * and the key of the last row. A tail's pins how far every shard was seen.
 *
 * Invariants:
 *   1. A text is foreign: damaged, cut, of another kind, store or question (filters and order) is LK_E_INVALID_REQUEST that
 *      says which. A forged one reads what its reader may read anyway: it names versions and a key, nothing else.
 *   2. A text is at most LK_ROLLOUT_CURSOR_BYTES_MAX long and safe inside a URL.
 * Threads: stateless.
 */
#include "rollout/query.h"

enum { LK_ROLLOUT_CURSOR_BYTES_MAX = 24 * 1024 };

typedef enum lk_rollout_cursor_kind {
    LK_ROLLOUT_CURSOR_LIST = 1,
    LK_ROLLOUT_CURSOR_TAIL = 2
} lk_rollout_cursor_kind;

typedef struct lk_rollout_cursor {
    lk_rollout_cursor_kind kind;
    uint64_t        base_version, base_identity; /* identity: of that version's commit, so of the store */
    uint64_t        question;                    /* of a list: lk_rollout_question */
    lk_rollout_pin *pins;                        /* ascending by shard */
    size_t          pin_count;
    lk_rollout_key  key; /* of a list */
} lk_rollout_cursor;

/* What a query asks (filters and order, not columns, page or limit), as a number. */
uint64_t lk_rollout_question(const lk_rollout_query *query);

/* What tells a version of a table from the same version of another. */
uint64_t lk_rollout_identity(const lk_dataset *base);

/* LK_E_LIMIT when the text would be too long: too many shards have generations that nobody merged. */
LK_MUST_CHECK lk_rc lk_rollout_cursor_write(const lk_rollout_cursor *cursor, lk_buf *out, lk_err *err);

/* Everything points into the arena. LK_E_INVALID_REQUEST. */
LK_MUST_CHECK lk_rc lk_rollout_cursor_read(
    lk_bytes text, lk_arena *arena, lk_rollout_cursor *out, lk_err *err);

#endif
