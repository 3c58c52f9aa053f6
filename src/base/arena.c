/*
 * arena.c - see arena.h. Takes are carved from chunks that double in size, from small ones on, for most arenas
 * hold little and every chunk is zeroed; a take too big to share one gets its own, behind the head. Under
 * AddressSanitizer each take is its own allocation, so that an overrun is seen.
 */
#include "base/arena.h"

#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#define ONE_TAKE_PER_CHUNK 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ONE_TAKE_PER_CHUNK 1
#endif
#endif
#ifndef ONE_TAKE_PER_CHUNK
#define ONE_TAKE_PER_CHUNK 0
#endif

enum { CHUNK_BYTES_MIN = 512 - 64, CHUNK_BYTES_MAX = 256 * 1024, SHARED_TAKE_MAX = 1024 };

struct lk_arena_chunk {
    struct lk_arena_chunk *next;
    size_t                 size, used;
    max_align_t            memory[];
};

static struct lk_arena_chunk *chunk_new(size_t size)
{
    struct lk_arena_chunk *chunk = calloc(1, sizeof *chunk + size);
    if (chunk == NULL) {
        abort();
    }
    chunk->size = size;
    return chunk;
}

static void *take_alone(lk_arena *arena, size_t size)
{
    struct lk_arena_chunk *chunk = chunk_new(size);
    chunk->used = size;
    if (arena->head == NULL) {
        arena->head = chunk;
    } else {
        chunk->next = arena->head->next;
        arena->head->next = chunk;
    }
    return chunk->memory;
}

static void *take_shared(lk_arena *arena, size_t size)
{
    struct lk_arena_chunk *head = arena->head;
    if (head == NULL || head->size - head->used < size) {
        size_t next_size = head == NULL ? CHUNK_BYTES_MIN : head->size * 2;
        next_size = next_size > CHUNK_BYTES_MAX ? CHUNK_BYTES_MAX : next_size < size ? size * 2 : next_size;
        struct lk_arena_chunk *chunk = chunk_new(next_size);
        chunk->next = head;
        arena->head = head = chunk;
    }
    void *taken = (char *)head->memory + head->used;
    head->used += size;
    return taken;
}

void *lk_arena_take(lk_arena *arena, size_t size)
{
    LK_ASSERT(size < SIZE_MAX / 2);
    arena->used_bytes += size;
    if (ONE_TAKE_PER_CHUNK) {
        return take_alone(arena, size);
    }
    size_t align = _Alignof(max_align_t);
    size_t rounded = size == 0 ? align : (size + align - 1) / align * align;
    return rounded > SHARED_TAKE_MAX ? take_alone(arena, rounded) : take_shared(arena, rounded);
}

lk_bytes lk_arena_copy(lk_arena *arena, lk_bytes bytes)
{
    return (lk_bytes){lk_arena_text(arena, bytes), bytes.size};
}

char *lk_arena_text(lk_arena *arena, lk_bytes bytes)
{
    char *data = lk_arena_take(arena, bytes.size + 1);
    if (bytes.size > 0) {
        memcpy(data, bytes.data, bytes.size);
    }
    return data;
}

lk_bytes lk_arena_format(lk_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    LK_ASSERT(n >= 0);
    char *data = lk_arena_take(arena, (size_t)n + 1);
    va_start(args, format);
    (void)vsnprintf(data, (size_t)n + 1, format, args);
    va_end(args);
    return (lk_bytes){data, (size_t)n};
}

void lk_arena_close(lk_arena *arena)
{
    while (arena->head != NULL) {
        struct lk_arena_chunk *next = arena->head->next;
        free(arena->head);
        arena->head = next;
    }
    arena->used_bytes = 0;
}

void lk_arena_close_wiped(lk_arena *arena)
{
    for (struct lk_arena_chunk *chunk = arena->head; chunk != NULL; chunk = chunk->next) {
        explicit_bzero(chunk->memory, chunk->size);
    }
    lk_arena_close(arena);
}
