/* distinct.c - see distinct.h. */
#include "lance/distinct.h"

#include "base/err.h"

#include <stdlib.h>

enum { SLOTS_MIN = 64 };

static uint64_t mix(uint64_t word)
{
    word ^= word >> 32;
    word *= 0x9e3779b97f4a7c15ULL;
    return word ^ word >> 29;
}

static uint64_t hash(const lk_distinct *self, lk_bytes value)
{
    uint64_t state = self->seed ^ value.size, word = 0;
    size_t   at = 0;
    for (; at + 8 <= value.size; at += 8) {
        state = mix(state ^ lk_load_u64(value.data + at));
    }
    if (at < value.size) {
        memcpy(&word, value.data + at, value.size - at);
    }
    return mix(mix(state ^ word));
}

lk_bytes lk_distinct_get(const lk_distinct *self, uint32_t number)
{
    uint64_t start = number == 0 ? 0 : lk_load_u64(self->ends.data + (size_t)(number - 1) * 8);
    uint64_t end = lk_load_u64(self->ends.data + (size_t)number * 8);
    return (lk_bytes){self->bytes.data + start, (size_t)(end - start)};
}

/* The slot that holds the value, or where it belongs. */
static size_t find(const lk_distinct *self, lk_bytes value)
{
    size_t slot = (size_t)hash(self, value) & (self->slot_count - 1);
    while (self->slots[slot] != 0 && !lk_bytes_equal(lk_distinct_get(self, self->slots[slot] - 1), value)) {
        slot = (slot + 1) & (self->slot_count - 1);
    }
    return slot;
}

static void grow(lk_distinct *self)
{
    self->seed = self->slots == NULL ? mix((uint64_t)(uintptr_t)self) : self->seed;
    self->slot_count = self->slot_count == 0 ? SLOTS_MIN : self->slot_count * 2;
    free(self->slots);
    self->slots = calloc(self->slot_count, sizeof *self->slots);
    LK_ASSERT(self->slots != NULL);
    for (uint32_t number = 0; number < self->count; number++) {
        self->slots[find(self, lk_distinct_get(self, number))] = number + 1;
    }
}

uint32_t lk_distinct_add(lk_distinct *self, lk_bytes value)
{
    if (self->count >= self->slot_count / 2) {
        grow(self);
    }
    size_t slot = find(self, value);
    if (self->slots[slot] == 0) {
        lk_buf_append(&self->bytes, value.data, value.size);
        uint64_t end = self->bytes.size;
        lk_buf_append(&self->ends, &end, 8);
        self->slots[slot] = ++self->count;
    }
    return self->slots[slot] - 1;
}

size_t lk_distinct_capacity(const lk_distinct *self)
{
    return self->bytes.capacity + self->ends.capacity + self->slot_count * sizeof *self->slots;
}

void lk_distinct_clear(lk_distinct *self)
{
    lk_buf_clear(&self->bytes);
    lk_buf_clear(&self->ends);
    self->count = 0;
    if (self->slots != NULL) {
        memset(self->slots, 0, self->slot_count * sizeof *self->slots);
    }
}

void lk_distinct_deinit(lk_distinct *self)
{
    lk_buf_deinit(&self->bytes);
    lk_buf_deinit(&self->ends);
    free(self->slots);
    *self = (lk_distinct){0};
}
