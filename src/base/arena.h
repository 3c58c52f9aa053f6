#ifndef LK_BASE_ARENA_H
#define LK_BASE_ARENA_H
/*
 * arena.h - memory that lives exactly as long as one request.
 *
 * Invariant: nothing taken from an arena outlives lk_arena_close; nothing in it is freed singly.
 * Threads: confined to the request's thread.
 */
#include "base/bytes.h"

#include <stddef.h>

typedef struct lk_arena {
    struct lk_arena_chunk *head;
    size_t                 used_bytes;
} lk_arena;

void    *lk_arena_take(lk_arena *arena, size_t size); /* aligned, zeroed; aborts when out of memory */
lk_bytes lk_arena_copy(lk_arena *arena, lk_bytes bytes);
lk_bytes lk_arena_format(lk_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char    *lk_arena_text(lk_arena *arena, lk_bytes bytes); /* NUL-terminated copy, for other people's APIs */
void     lk_arena_close(lk_arena *arena);                /* idempotent */
void     lk_arena_close_wiped(lk_arena *arena);          /* for secrets: overwrites first */

#endif
