/* base_ids.c - see base_ids.h. The hashes stand in one open-addressed table, half full at most. */
#include "rollout/base_ids.h"

#include "arrow/schema.h"
#include "lance/manifest.h"
#include "lance/row_set.h"
#include "rollout/cell.h"
#include "rollout/id_map.h"

#include <stdlib.h>

enum { SLOTS_MIN = 1024, ADDRESSES_STEP = 4096 };

struct lk_base_ids {
    atomic_uint refs;
    lk_budget  *budget;
    lk_mutex    mutex;
    lk_cond     free;
    bool        busy; /* guarded by mutex; the rest is of whoever set it */

    uint64_t  *slots; /* 0: free */
    size_t     capacity, count;
    lk_id_map *read;  /* data files, by path */
    lk_arena   paths; /* of those */
    bool       over;  /* there is no room: nothing is known */
};

lk_base_ids *lk_base_ids_new(lk_budget *budget)
{
    lk_base_ids *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    atomic_init(&self->refs, 1);
    self->budget = budget;
    self->read = lk_id_map_new(0);
    lk_mutex_init(&self->mutex, LK_RANK_ENGINE);
    lk_cond_init(&self->free);
    return self;
}

lk_base_ids *lk_base_ids_ref(lk_base_ids *self)
{
    atomic_fetch_add(&self->refs, 1);
    return self;
}

static void drop_slots(lk_base_ids *self)
{
    if (self->budget != NULL && self->capacity > 0) {
        lk_budget_give(self->budget, self->capacity * sizeof *self->slots);
    }
    free(self->slots);
    self->slots = NULL;
    self->capacity = self->count = 0;
}

void lk_base_ids_unref(lk_base_ids *self)
{
    if (self == NULL || atomic_fetch_sub(&self->refs, 1) > 1) {
        return;
    }
    drop_slots(self);
    lk_id_map_free(self->read);
    lk_arena_close(&self->paths);
    lk_cond_deinit(&self->free);
    lk_mutex_deinit(&self->mutex);
    free(self);
}

/* -- hashes -------------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(lk_bytes id)
{
    uint64_t hash = lk_id_hash(id);
    return hash == 0 ? 1 : hash;
}

static void place(uint64_t *slots, size_t capacity, uint64_t hash, size_t *count)
{
    size_t at = (size_t)hash & (capacity - 1);
    while (slots[at] != 0 && slots[at] != hash) {
        at = (at + 1) & (capacity - 1);
    }
    *count += slots[at] == 0;
    slots[at] = hash;
}

static bool has(const lk_base_ids *self, uint64_t hash)
{
    size_t at = self->capacity == 0 ? 0 : (size_t)hash & (self->capacity - 1);
    while (self->capacity > 0 && self->slots[at] != 0) {
        if (self->slots[at] == hash) {
            return true;
        }
        at = (at + 1) & (self->capacity - 1);
    }
    return false;
}

/* Room for so many more. False: there is none, and nothing is known any more. */
static bool reserve(lk_base_ids *self, size_t more)
{
    size_t capacity = self->capacity < SLOTS_MIN ? SLOTS_MIN : self->capacity, count = 0;
    lk_err ignored = {0};
    while (capacity / 2 < self->count + more) {
        capacity *= 2;
    }
    if (capacity == self->capacity) {
        return true;
    }
    bool fits = self->count + more <= LK_ROLLOUT_BASE_IDS_MAX &&
                (self->budget == NULL ||
                    lk_budget_take(self->budget, capacity * sizeof *self->slots, &ignored) == LK_OK);
    uint64_t *slots = fits ? calloc(capacity, sizeof *slots) : NULL;
    LK_ASSERT(!fits || slots != NULL);
    for (size_t i = 0; fits && i < self->capacity; i++) {
        if (self->slots[i] != 0) {
            place(slots, capacity, self->slots[i], &count);
        }
    }
    drop_slots(self);
    self->over = !fits;
    if (fits) {
        self->slots = slots;
        self->capacity = capacity;
        self->count = count;
    }
    return fits;
}

/* -- files --------------------------------------------------------------------------------------------------------- */

static bool was_read(const lk_base_ids *self, const lk_fragment *fragment)
{
    lk_id_place ignored;
    bool        read = true;
    for (size_t i = 0; read && i < fragment->file_count; i++) {
        read = lk_id_map_find(self->read, fragment->files[i].path, &ignored);
    }
    return read;
}

static void note_read(lk_base_ids *self, const lk_fragment *fragment)
{
    for (size_t i = 0; i < fragment->file_count; i++) {
        lk_bytes    path = fragment->files[i].path;
        lk_id_place ignored;
        if (!lk_id_map_find(self->read, path, &ignored)) {
            (void)lk_id_map_add(self->read, lk_arena_copy(&self->paths, path), (lk_id_place){0});
        }
    }
}

static void add_addresses(lk_row_set *set, const lk_fragment *fragment)
{
    uint64_t addresses[ADDRESSES_STEP];
    for (uint64_t row = 0; row < fragment->physical_rows;) {
        size_t count = 0;
        for (; count < ADDRESSES_STEP && row < fragment->physical_rows; row++) {
            addresses[count++] = fragment->id << 32 | row;
        }
        lk_row_set_add(set, addresses, count);
    }
}

static lk_rc read_rows(lk_base_ids *self, lk_dataset *base, lk_row_set *rows, lk_cancel *cancel, lk_err *err)
{
    const size_t          column = (size_t)lk_schema_find(lk_dataset_schema(base), LK_LITERAL("id"));
    const lk_scan_options options = {.columns = &column,
        .column_count = 1,
        .rows = rows,
        .limit = UINT64_MAX,
        .unordered = true,
        .cancel = cancel};
    lk_batches           *batches = NULL;
    lk_rc                 rc = lk_dataset_scan(base, &options, &batches, err);
    for (bool more = rc == LK_OK; more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        more = more && reserve(self, (size_t)batch.length);
        for (int64_t row = 0; more && row < batch.length; row++) {
            place(self->slots, self->capacity, hash_of(lk_cell_text(batch.children[0], row)), &self->count);
        }
        lk_array_release(&batch);
    }
    lk_batches_close(batches);
    return rc;
}

/* Reads the files of this version that were not read yet. */
static lk_rc catch_up(lk_base_ids *self, lk_dataset *base, lk_cancel *cancel, lk_err *err)
{
    const lk_manifest *manifest = lk_dataset_manifest(base);
    lk_row_set        *rows = lk_row_set_new();
    size_t             missing = 0;
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        missing += !was_read(self, &manifest->fragments[i]);
    }
    for (size_t i = 0; missing < manifest->fragment_count && i < manifest->fragment_count; i++) {
        if (!was_read(self, &manifest->fragments[i])) {
            add_addresses(rows, &manifest->fragments[i]);
        }
    }
    lk_rc rc = missing == 0
                   ? LK_OK
                   : read_rows(self, base, missing == manifest->fragment_count ? NULL : rows, cancel, err);
    for (size_t i = 0; rc == LK_OK && !self->over && missing > 0 && i < manifest->fragment_count; i++) {
        note_read(self, &manifest->fragments[i]);
    }
    lk_row_set_free(rows);
    return rc;
}

static void enter(lk_base_ids *self)
{
    lk_mutex_lock(&self->mutex);
    while (self->busy) {
        lk_cond_wait(&self->free, &self->mutex);
    }
    self->busy = true;
    lk_mutex_unlock(&self->mutex);
}

static void leave(lk_base_ids *self)
{
    lk_mutex_lock(&self->mutex);
    self->busy = false;
    lk_cond_signal(&self->free);
    lk_mutex_unlock(&self->mutex);
}

lk_rc lk_base_ids_ask(lk_base_ids *self, lk_dataset *base, const lk_bytes *wanted, size_t count,
    lk_cancel *cancel, bool *maybe, lk_err *err)
{
    enter(self);
    self->over = self->over || lk_dataset_row_count(base) > LK_ROLLOUT_BASE_IDS_MAX;
    lk_rc rc = self->over || lk_dataset_row_count(base) == 0 ? LK_OK : catch_up(self, base, cancel, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        maybe[i] = self->over || has(self, hash_of(wanted[i]));
    }
    leave(self);
    return rc;
}

void lk_base_ids_learn(
    lk_base_ids *self, lk_dataset *base, lk_dataset *next, const lk_bytes *ids, size_t count)
{
    const lk_manifest *before = lk_dataset_manifest(base), *after = lk_dataset_manifest(next);
    if (after->version != before->version + 1) {
        return; /* others added files, too */
    }
    enter(self);
    if (!self->over && reserve(self, count)) {
        for (size_t i = 0; i < count; i++) {
            place(self->slots, self->capacity, hash_of(ids[i]), &self->count);
        }
        for (size_t i = before->fragment_count; i < after->fragment_count; i++) {
            note_read(self, &after->fragments[i]);
        }
    }
    leave(self);
}
