/*
 * buffer_pool.c - see buffer_pool.h. Idle buffers wait in one list a size class; classes are quarter steps
 * between powers of two, so a buffer wastes less than a fifth.
 */
#include "lance/buffer_pool.h"

#include "base/thread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, SMALLEST = 4096, STEPS = 4, CLASSES = 140 };

/* AddressSanitizer must see a buffer die to see who uses it afterwards. */
#ifdef __SANITIZE_ADDRESS__
static const bool may_idle = false;
#else
static const bool may_idle = true;
#endif

typedef struct idle {
    struct idle *next;
} idle;

enum { KEPT = 8 };

typedef struct kept {
    uint64_t key; /* 0: nothing */
    uint8_t *data;
    size_t   capacity, size;
} kept;

struct lk_buffer_pool {
    atomic_size_t refs; /* the owner's and one a buffer that is out */
    lk_budget    *budget;
    lk_mutex      mutex;
    idle         *lists[CLASSES]; /* by mutex */
    size_t        idle_bytes;     /* by mutex */
    kept          kept[KEPT];     /* by mutex */
    size_t        kept_bytes;     /* by mutex */
    size_t        next_kept;      /* by mutex: who goes next */
    bool          closed;         /* by mutex */
    atomic_ullong found, missed;  /* contents that were asked for */
};

/* The class whose buffers hold `size`, and how much they hold. */
static unsigned class_of(size_t size, size_t *capacity)
{
    size_t base = SMALLEST;
    unsigned class = 0;
    while (base < size && class + STEPS < CLASSES) {
        for (unsigned step = 1; step <= STEPS; step++) {
            class ++;
            if (base + base / STEPS * step >= size) {
                *capacity = base + base / STEPS * step;
                return class;
            }
        }
        base *= 2;
    }
    *capacity = base;
    return class;
}

lk_buffer_pool *lk_buffer_pool_new(lk_budget *budget)
{
    lk_buffer_pool *pool = calloc(1, sizeof *pool);
    LK_ASSERT(pool != NULL);
    pool->budget = budget;
    atomic_init(&pool->refs, 1);
    lk_mutex_init(&pool->mutex, LK_RANK_LEAF);
    return pool;
}

/* Takes every idle buffer off the lists; the caller frees the chain outside the mutex. */
static idle *drain(lk_buffer_pool *pool, size_t *bytes)
{
    idle *all = NULL;
    lk_mutex_lock(&pool->mutex);
    for (size_t class = 0; class < CLASSES; class ++) {
        while (pool->lists[class] != NULL) {
            idle *one = pool->lists[class];
            pool->lists[class] = one->next;
            one->next = all;
            all = one;
        }
    }
    *bytes = pool->idle_bytes;
    pool->idle_bytes = 0;
    for (size_t slot = 0; slot < KEPT; slot++) {
        kept *one = &pool->kept[slot];
        if (one->key != 0) {
            idle *link = (idle *)(void *)one->data;
            link->next = all;
            all = link;
            *bytes += one->capacity;
            *one = (kept){0};
        }
    }
    pool->kept_bytes = 0;
    lk_mutex_unlock(&pool->mutex);
    return all;
}

void lk_buffer_pool_trim(lk_buffer_pool *pool)
{
    size_t bytes = 0;
    idle  *all = drain(pool, &bytes);
    while (all != NULL) {
        idle *next = all->next;
        free(all);
        all = next;
    }
    if (pool->budget != NULL && bytes > 0) {
        lk_budget_give(pool->budget, bytes);
    }
}

static void unref(lk_buffer_pool *pool)
{
    if (atomic_fetch_sub_explicit(&pool->refs, 1, memory_order_acq_rel) == 1) {
        lk_mutex_deinit(&pool->mutex);
        free(pool);
    }
}

void lk_buffer_pool_close(lk_buffer_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    lk_mutex_lock(&pool->mutex);
    pool->closed = true;
    lk_mutex_unlock(&pool->mutex);
    lk_buffer_pool_trim(pool);
    unref(pool);
}

static void *reuse(lk_buffer_pool *pool, unsigned class, size_t capacity)
{
    lk_mutex_lock(&pool->mutex);
    idle *one = pool->lists[class];
    if (one != NULL) {
        pool->lists[class] = one->next;
        pool->idle_bytes -= capacity;
    }
    lk_mutex_unlock(&pool->mutex);
    return one;
}

static lk_rc charge(lk_buffer_pool *pool, size_t capacity, lk_err *err)
{
    lk_err first = {0};
    if (pool->budget == NULL || lk_budget_take(pool->budget, capacity, &first) == LK_OK) {
        return LK_OK;
    }
    lk_buffer_pool_trim(pool);
    return lk_budget_take(pool->budget, capacity, err);
}

bool lk_buffer_pool_is_roomy(const lk_buffer_pool *pool, size_t size)
{
    const lk_budget *budget = pool->budget;
    size_t           half = budget == NULL ? SIZE_MAX : budget->limit_bytes / 2;
    size_t used = budget == NULL ? 0 : atomic_load_explicit(&budget->used_bytes, memory_order_relaxed);
    return used < half && size <= half - used;
}

lk_rc lk_buffer_take(lk_buffer_pool *pool, size_t size, lk_buffer *out, lk_err *err)
{
    size_t capacity = 0;
    unsigned class = class_of(size, &capacity);
    if (size > SIZE_MAX / 4 || capacity < size) {
        return lk_fail(err, LK_E_LIMIT, "a buffer of %zu bytes", size);
    }
    uint8_t *data = reuse(pool, class, capacity);
    if (data == NULL) {
        lk_rc rc = charge(pool, capacity, err);
        if (rc != LK_OK) {
            return rc;
        }
        data = aligned_alloc(ALIGNMENT, capacity);
        if (data == NULL) {
            if (pool->budget != NULL) {
                lk_budget_give(pool->budget, capacity);
            }
            return lk_fail(err, LK_E_LIMIT, "no memory for %zu bytes", capacity);
        }
    }
    (void)atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
    *out = (lk_buffer){data, capacity, pool};
    return LK_OK;
}

lk_rc lk_buffer_grow(lk_buffer_pool *pool, lk_buffer *buffer, size_t used, size_t size, lk_err *err)
{
    if (buffer->capacity >= size && buffer->data != NULL) {
        return LK_OK;
    }
    lk_buffer bigger = {0};
    size_t    wanted = buffer->capacity * 2 > size ? buffer->capacity * 2 : size;
    lk_rc     rc = lk_buffer_take(pool, buffer->data == NULL ? size : wanted, &bigger, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (used > 0) {
        memcpy(bigger.data, buffer->data, used);
    }
    lk_buffer_give(buffer);
    *buffer = bigger;
    return LK_OK;
}

void lk_buffer_give(lk_buffer *buffer)
{
    lk_buffer_pool *pool = buffer->pool;
    if (buffer->data == NULL) {
        return;
    }
    size_t capacity = 0;
    unsigned class = class_of(buffer->capacity, &capacity);
    lk_mutex_lock(&pool->mutex);
    bool keep = may_idle && !pool->closed && pool->idle_bytes + capacity <= LK_POOL_IDLE_BYTES_MAX;
    if (keep) {
        idle *one = (idle *)(void *)buffer->data;
        one->next = pool->lists[class];
        pool->lists[class] = one;
        pool->idle_bytes += capacity;
    }
    lk_mutex_unlock(&pool->mutex);
    if (!keep) {
        free(buffer->data);
        if (pool->budget != NULL) {
            lk_budget_give(pool->budget, capacity);
        }
    }
    *buffer = (lk_buffer){0};
    unref(pool);
}

/* -- contents worth finding again ------------------------------------------------------------------- */
uint64_t lk_buffer_key_new(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

/* Takes the next one out of its slot. By mutex. */
static kept forget(lk_buffer_pool *pool)
{
    kept *slot = &pool->kept[pool->next_kept], old = *slot;
    pool->next_kept = (pool->next_kept + 1) % KEPT;
    pool->kept_bytes -= old.capacity;
    *slot = (kept){0};
    return old;
}

void lk_buffer_keep(lk_buffer *buffer, uint64_t key, size_t size)
{
    lk_buffer_pool *pool = buffer->pool;
    kept            old[KEPT];
    size_t          count = 0;
    if (buffer->data == NULL || !may_idle || buffer->capacity > LK_POOL_KEPT_BYTES_MAX) {
        lk_buffer_give(buffer);
        return;
    }
    lk_mutex_lock(&pool->mutex);
    bool keep = !pool->closed;
    if (keep) {
        size_t slot = pool->next_kept;
        old[count++] = forget(pool);
        while (pool->kept_bytes + buffer->capacity > LK_POOL_KEPT_BYTES_MAX) {
            old[count++] = forget(pool);
        }
        pool->kept[slot] = (kept){key, buffer->data, buffer->capacity, size};
        pool->kept_bytes += buffer->capacity;
    }
    lk_mutex_unlock(&pool->mutex);
    if (!keep) {
        lk_buffer_give(buffer);
        return;
    }
    for (size_t index = 0; index < count; index++) {
        free(old[index].data);
        if (pool->budget != NULL && old[index].capacity > 0) {
            lk_budget_give(pool->budget, old[index].capacity);
        }
    }
    *buffer = (lk_buffer){0};
    unref(pool);
}

bool lk_buffer_find(lk_buffer_pool *pool, uint64_t key, lk_buffer *out, size_t *size)
{
    kept found = {0};
    lk_mutex_lock(&pool->mutex);
    for (size_t slot = 0; slot < KEPT && found.key == 0; slot++) {
        if (pool->kept[slot].key == key) {
            found = pool->kept[slot];
            pool->kept_bytes -= found.capacity;
            pool->kept[slot] = (kept){0};
        }
    }
    lk_mutex_unlock(&pool->mutex);
    (void)atomic_fetch_add_explicit(found.key != 0 ? &pool->found : &pool->missed, 1, memory_order_relaxed);
    if (found.key == 0) {
        return false;
    }
    (void)atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
    *out = (lk_buffer){found.data, found.capacity, pool};
    *size = found.size;
    return true;
}

void lk_buffer_pool_count(const lk_buffer_pool *pool, uint64_t *found, uint64_t *missed)
{
    *found = atomic_load(&pool->found);
    *missed = atomic_load(&pool->missed);
}
