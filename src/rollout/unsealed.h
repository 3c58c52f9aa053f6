#ifndef LK_ROLLOUT_UNSEALED_H
#define LK_ROLLOUT_UNSEALED_H
/*
 * unsealed.h - rows of log entries that are in no generation yet, in memory: what a writer with deferred visibility
 * acknowledged. They become one generation together.
 * Invariant: all have the same columns, and distinct ids. Ownership: batches are referenced. Threads: confined.
 */
#include "rollout/generation.h"
#include "rollout/id_map.h"

/* So many rows or bytes are sealed without waiting for the interval. */
enum { LK_ROLLOUT_UNSEALED_ROWS_MAX = 65536, LK_ROLLOUT_UNSEALED_BYTES_MAX = 64 * 1024 * 1024 };

typedef struct lk_unsealed {
    struct ArrowSchema schema; /* of the batches */
    lk_buf             batches, ids;
    lk_arena           texts; /* of ids */
    lk_id_map         *known;
    size_t             bytes;
    uint64_t           position; /* of the last entry */
    uint64_t           since_ms; /* monotonic, of the first */
} lk_unsealed;

size_t lk_unsealed_count(const lk_unsealed *unsealed); /* rows */

/* Whether rows can be added: the same columns, and no id that is there. */
bool lk_unsealed_takes(const lk_unsealed *unsealed, const lk_generation_rows *rows);
/* Adds the rows of the entry at a position; they stay the caller's, too. */
LK_MUST_CHECK lk_rc lk_unsealed_add(
    lk_unsealed *unsealed, const lk_generation_rows *rows, uint64_t position, uint64_t now_ms, lk_err *err);
bool lk_unsealed_is_full(const lk_unsealed *unsealed);

/* All of them; borrowed. */
lk_generation_rows lk_unsealed_rows(const lk_unsealed *unsealed);
void               lk_unsealed_clear(lk_unsealed *unsealed); /* accepts zero */

#endif
