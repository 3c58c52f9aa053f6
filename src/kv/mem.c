/* mem.c - see mem.h. One sorted array: binary search, and a page is a slice. */
#include "kv/mem.h"

#include "base/limits.h"
#include "kv/faulty.h"
#include "kv/kv_priv.h"

#include <stdlib.h>

struct entry {
    lk_buf key, value;
};

struct mem_kv {
    lk_kv         base;
    lk_mutex      mutex;
    struct entry *entries; /* ascending by key; under mutex, as are the next two */
    size_t        count, capacity;
};

/* The first entry whose key is not below key. */
static size_t lower_bound(const struct mem_kv *self, lk_bytes key)
{
    size_t low = 0, high = self->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lk_bytes_compare(lk_buf_view(&self->entries[middle].key), key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool find(const struct mem_kv *self, lk_bytes key, size_t *at)
{
    *at = lower_bound(self, key);
    return *at < self->count && lk_bytes_equal(lk_buf_view(&self->entries[*at].key), key);
}

static lk_rc mem_get(lk_kv *kv, lk_bytes key, lk_arena *arena, lk_bytes *value, bool *found, lk_err *err)
{
    struct mem_kv *self = (struct mem_kv *)kv;
    size_t         at = 0;
    lk_rc          rc = lk_kv_key_check(key, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_mutex_lock(&self->mutex);
    *found = find(self, key, &at);
    if (*found) {
        *value = lk_arena_copy(arena, lk_buf_view(&self->entries[at].value));
    }
    lk_mutex_unlock(&self->mutex);
    return LK_OK;
}

static bool all_hold(const struct mem_kv *self, const lk_kv_write *write)
{
    lk_kv_change guard = {.key = write->guard_key, .expected = &write->guard_value};
    for (size_t i = 0; i <= write->change_count; i++) {
        const lk_kv_change *change = i == write->change_count ? &guard : &write->changes[i];
        size_t              at = 0;
        bool                found = find(self, change->key, &at);
        lk_bytes            present = found ? lk_buf_view(&self->entries[at].value) : (lk_bytes){0};
        if (change->key.size > 0 && !lk_kv_change_holds(change, found, present)) {
            return false;
        }
    }
    return true;
}

static void insert(struct mem_kv *self, size_t at, lk_bytes key)
{
    if (self->count == self->capacity) {
        self->capacity = self->capacity == 0 ? 64 : self->capacity * 2;
        self->entries = realloc(self->entries, self->capacity * sizeof self->entries[0]);
        if (self->entries == NULL) {
            abort();
        }
    }
    memmove(&self->entries[at + 1], &self->entries[at], (self->count - at) * sizeof self->entries[0]);
    self->entries[at] = (struct entry){0};
    lk_buf_append_bytes(&self->entries[at].key, key);
    self->count++;
}

static void erase(struct mem_kv *self, size_t at)
{
    lk_buf_deinit(&self->entries[at].key);
    lk_buf_deinit(&self->entries[at].value);
    self->count--;
    memmove(&self->entries[at], &self->entries[at + 1], (self->count - at) * sizeof self->entries[0]);
}

static void apply(struct mem_kv *self, const lk_kv_change *change)
{
    size_t at = 0;
    bool   found = find(self, change->key, &at);
    if (change->value == NULL) {
        if (found) {
            erase(self, at);
        }
        return;
    }
    if (!found) {
        insert(self, at, change->key);
    }
    lk_buf_clear(&self->entries[at].value);
    lk_buf_append_bytes(&self->entries[at].value, *change->value);
}

static lk_rc mem_write(lk_kv *kv, const lk_kv_write *write, bool *applied, lk_err *err)
{
    struct mem_kv *self = (struct mem_kv *)kv;
    lk_rc          rc = lk_kv_write_check(write, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_mutex_lock(&self->mutex);
    *applied = all_hold(self, write);
    for (size_t i = 0; *applied && i < write->change_count; i++) {
        apply(self, &write->changes[i]);
    }
    lk_mutex_unlock(&self->mutex);
    return LK_OK;
}

static bool matches(const struct mem_kv *self, size_t at, lk_bytes prefix)
{
    return at < self->count && lk_bytes_starts(lk_buf_view(&self->entries[at].key), prefix);
}

static lk_rc mem_scan(lk_kv *kv, lk_bytes prefix, lk_bytes after, size_t limit, lk_arena *arena,
    lk_kv_item **items, size_t *count, lk_bytes *next, lk_err *err)
{
    struct mem_kv *self = (struct mem_kv *)kv;
    lk_bytes       last = {0};
    lk_rc          rc = lk_kv_scan_check(prefix, after, limit, &last, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_mutex_lock(&self->mutex);
    size_t from = 0, size = 0;
    bool   there = find(self, last.size == 0 ? prefix : last, &from);
    from += there && last.size > 0;
    size_t to = from;
    while (to - from < limit && size < LK_KV_PAGE_BYTES_MAX && matches(self, to, prefix)) {
        size += self->entries[to].key.size + self->entries[to].value.size;
        to++;
    }
    *count = to - from;
    *items = lk_arena_take(arena, *count * sizeof **items);
    for (size_t i = 0; i < *count; i++) {
        (*items)[i].key = lk_arena_copy(arena, lk_buf_view(&self->entries[from + i].key));
        (*items)[i].value = lk_arena_copy(arena, lk_buf_view(&self->entries[from + i].value));
    }
    bool more = *count > 0 && matches(self, to, prefix);
    lk_mutex_unlock(&self->mutex);
    *next = more ? lk_kv_cursor_make(prefix, (*items)[*count - 1].key, arena) : (lk_bytes){0};
    return LK_OK;
}

static void mem_close(lk_kv *kv)
{
    struct mem_kv *self = (struct mem_kv *)kv;
    while (self->count > 0) {
        erase(self, self->count - 1);
    }
    free(self->entries);
    lk_mutex_deinit(&self->mutex);
    free(self);
}

static const struct lk_kv_ops mem_ops = {mem_get, mem_write, mem_scan, mem_close};

lk_kv *lk_kv_mem_open(lk_fault_plan *plan)
{
    struct mem_kv *self = calloc(1, sizeof *self);
    if (self == NULL) {
        abort();
    }
    self->base.ops = &mem_ops;
    lk_mutex_init(&self->mutex, LK_RANK_KV);
    return plan == NULL ? &self->base : lk_kv_faulty_new(&self->base, plan);
}
