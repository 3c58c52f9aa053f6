/* held.c - see held.h. */
#include "io/held.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct held_store {
    lk_store               base;
    const lk_store_wanted *objects;
    size_t                 count;
} held_store;

typedef struct held_reader {
    lk_store_reader        base;
    const lk_store_wanted *object;
} held_reader;

static lk_rc held_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    const held_store *self = (const held_store *)store;
    for (size_t i = 0; i < self->count; i++) {
        const lk_store_wanted *object = &self->objects[i];
        if (object->whole && lk_bytes_equal(object->key, key)) {
            held_reader *reader = calloc(1, sizeof *reader);
            LK_ASSERT(reader != NULL);
            *reader = (held_reader){{store}, object};
            *out = &reader->base;
            *size = object->bytes.size;
            return LK_OK;
        }
    }
    return lk_fail(err, LK_E_NOT_FOUND, "%.*s/%.*s is not held", LK_FMT(store->uri), LK_FMT(key));
}

static lk_rc held_read(lk_store_reader *reader, const lk_store_range *ranges, size_t count, lk_err *err)
{
    const lk_store_wanted *object = ((const held_reader *)reader)->object;
    size_t                 size = object->bytes.size;
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].size > size || ranges[i].offset > size - ranges[i].size) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "%.*s: %zu bytes at %" PRIu64 " end after its %zu bytes",
                LK_FMT(object->key), ranges[i].size, ranges[i].offset, size);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].size > 0) {
            memcpy(ranges[i].out, object->bytes.data + ranges[i].offset, ranges[i].size);
        }
    }
    return LK_OK;
}

static void held_reader_close(lk_store_reader *reader)
{
    free(reader);
}

/* -- what it cannot ------------------------------------------------------------------------------------- */

static lk_rc refuse(lk_store *store, lk_err *err)
{
    return lk_fail(err, LK_E_UNIMPLEMENTED, "%.*s is only read from", LK_FMT(store->uri));
}

static lk_rc held_create(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    (void)key;
    (void)out;
    return refuse(store, err);
}

static lk_rc held_put(lk_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    (void)key;
    (void)bytes;
    (void)created;
    return refuse(store, err);
}

static lk_rc held_list(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    (void)directory;
    (void)arena;
    (void)entries;
    (void)count;
    return refuse(store, err);
}

static lk_rc held_remove(lk_store *store, lk_bytes key, lk_err *err)
{
    (void)key;
    return refuse(store, err);
}

static void held_close(lk_store *store)
{
    free(store);
}

static const struct lk_store_ops held_ops = {
    .open = held_open,
    .read = held_read,
    .reader_close = held_reader_close,
    .create = held_create,
    .put_if_absent = held_put,
    .list = held_list,
    .remove = held_remove,
    .remove_tree = held_remove,
    .close = held_close,
};

lk_store *lk_held_store_new(lk_bytes uri, const lk_store_wanted *objects, size_t count)
{
    held_store *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    *self = (held_store){{.ops = &held_ops, .uri = uri}, objects, count};
    return &self->base;
}
