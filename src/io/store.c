/* store.c - what every lk_store shares: which keys are legal, what not every body can. */
#include "io/store.h"

#include <inttypes.h>
#include <stdlib.h>

static bool segment_is_legal(const char *data, size_t size)
{
    bool dots = (size == 1 && data[0] == '.') || (size == 2 && data[0] == '.' && data[1] == '.');
    return size > 0 && !dots;
}

lk_rc lk_store_key_check(lk_bytes key, lk_err *err)
{
    bool   legal = key.size > 0 && memchr(key.data, '\0', key.size) == NULL;
    size_t from = 0;
    for (size_t at = 0; legal && at <= key.size; at++) {
        if (at == key.size || key.data[at] == '/') {
            legal = segment_is_legal(key.data + from, at - from);
            from = at + 1;
        }
    }
    return legal ? LK_OK : lk_fail(err, LK_E_INVALID_REQUEST, "illegal object key \"%.*s\"", LK_FMT(key));
}

/* -- whole objects -------------------------------------------------------------------------------------------------- */

static lk_rc open_if_there(
    lk_store *store, lk_bytes key, lk_store_reader **reader, uint64_t *size, lk_err *err)
{
    lk_err failure = {0};
    lk_rc  rc = lk_store_open_object(store, key, reader, size, &failure);
    if (rc != LK_OK && rc != LK_E_NOT_FOUND) {
        *err = failure;
        return rc;
    }
    return LK_OK;
}

static lk_rc read_whole(lk_store_reader *reader, uint64_t size, lk_arena *arena, lk_bytes *out, lk_err *err)
{
    char          *bytes = lk_arena_take(arena, (size_t)size + 1);
    lk_store_range range = {.size = (size_t)size, .out = bytes};
    *out = (lk_bytes){bytes, (size_t)size};
    return size == 0 ? LK_OK : lk_store_read(reader, &range, 1, err);
}

lk_rc lk_store_load_if_there(lk_store *store, lk_bytes key, uint64_t size_max, lk_arena *arena, lk_bytes *out,
    bool *found, lk_err *err)
{
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    lk_rc            rc = open_if_there(store, key, &reader, &size, err);
    *found = reader != NULL;
    if (*found) {
        rc = size > size_max ? lk_fail(err, LK_E_LIMIT, "%.*s has %" PRIu64 " bytes", LK_FMT(key), size)
                             : read_whole(reader, size, arena, out, err);
    }
    lk_store_reader_close(reader);
    return rc;
}

lk_rc lk_store_load(
    lk_store *store, lk_bytes key, uint64_t size_max, lk_arena *arena, lk_bytes *out, lk_err *err)
{
    bool  found = false;
    lk_rc rc = lk_store_load_if_there(store, key, size_max, arena, out, &found, err);
    return rc == LK_OK && !found ? lk_fail(err, LK_E_NOT_FOUND, "%.*s", LK_FMT(key)) : rc;
}

lk_rc lk_store_look(lk_store *store, lk_bytes key, bool *found, uint64_t *size, lk_err *err)
{
    lk_store_reader *reader = NULL;
    *size = 0;
    lk_rc rc = open_if_there(store, key, &reader, size, err);
    *found = reader != NULL;
    lk_store_reader_close(reader);
    return rc;
}

static lk_rc fetch_one(lk_store *store, lk_store_wanted *wanted, lk_arena *arena, lk_err *err)
{
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    lk_rc            rc = open_if_there(store, wanted->key, &reader, &size, err);
    wanted->found = reader != NULL;
    wanted->whole = wanted->found && size <= LK_STORE_SMALL_BYTES;
    if (wanted->whole) {
        rc = read_whole(reader, size, arena, &wanted->bytes, err);
    }
    lk_store_reader_close(reader);
    return rc;
}

lk_rc lk_store_fetch(lk_store *store, lk_store_wanted *wanted, size_t count, lk_arena *arena, lk_err *err)
{
    lk_assert_no_mutex();
    lk_rc rc = LK_OK;
    for (size_t i = 0; i < count; i++) {
        wanted[i] = (lk_store_wanted){.key = wanted[i].key};
    }
    if (store->ops->fetch != NULL) {
        return count == 0 ? LK_OK : store->ops->fetch(store, wanted, count, arena, err);
    }
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = fetch_one(store, &wanted[i], arena, err);
    }
    return rc;
}

lk_rc lk_store_name_again(
    lk_store *store, lk_bytes from, lk_bytes to, lk_bytes bytes, bool *created, lk_err *err)
{
    *created = false;
    lk_rc rc = LK_E_UNIMPLEMENTED;
    if (store->ops->alias != NULL) {
        rc = store->ops->alias(store, from, to, created, err);
    }
    if (rc == LK_E_UNIMPLEMENTED) {
        *err = (lk_err){0};
        rc = lk_store_put_if_absent(store, to, bytes, created, err);
    }
    return rc;
}

lk_rc lk_store_remove_many(lk_store *store, const lk_bytes *keys, size_t count, lk_err *err)
{
    lk_assert_no_mutex();
    if (store->ops->remove_many != NULL) {
        return store->ops->remove_many(store, keys, count, err);
    }
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = store->ops->remove(store, keys[i], err);
    }
    return rc;
}

lk_rc lk_store_replace(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    lk_assert_no_mutex();
    if (store->ops->replace == NULL) {
        return lk_fail(err, LK_E_UNIMPLEMENTED, "this store replaces no object");
    }
    return store->ops->replace(store, key, bytes, err);
}

lk_rc lk_store_replace_soon(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    return store->ops->hint == NULL ? lk_store_replace(store, key, bytes, err)
                                    : store->ops->hint(store, key, bytes, err);
}

void lk_store_hint(lk_store *store, lk_bytes key, lk_bytes bytes)
{
    lk_err ignored = {0};
    lk_rc  rc = lk_store_replace_soon(store, key, bytes, &ignored);
    (void)rc;
}

/* -- objects that are put when they are published --------------------------------------------------------------- */

typedef struct waiting_object {
    lk_store_staged base;
    lk_store       *store;
    lk_buf          key, bytes;
} waiting_object;

static void waiting_discard(lk_store_staged *staged)
{
    waiting_object *self = (waiting_object *)staged;
    lk_buf_deinit(&self->key);
    lk_buf_deinit(&self->bytes);
    free(self);
}

static lk_rc waiting_publish(lk_store_staged *staged, bool *created, lk_err *err)
{
    waiting_object *self = (waiting_object *)staged;
    lk_rc           rc =
        lk_store_put_if_absent(self->store, lk_buf_view(&self->key), lk_buf_view(&self->bytes), created, err);
    waiting_discard(staged);
    return rc;
}

lk_rc lk_store_stage(lk_store *store, lk_bytes key, lk_bytes bytes, lk_store_staged **out, lk_err *err)
{
    lk_assert_no_mutex();
    return store->ops->stage == NULL ? lk_store_stage_later(store, key, bytes, out)
                                     : store->ops->stage(store, key, bytes, out, err);
}

lk_rc lk_store_stage_later(lk_store *store, lk_bytes key, lk_bytes bytes, lk_store_staged **out)
{
    waiting_object *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    *self = (waiting_object){.base = {waiting_publish, waiting_discard, NULL}, .store = store};
    lk_buf_append_bytes(&self->key, key);
    lk_buf_append_bytes(&self->bytes, bytes);
    *out = &self->base;
    return LK_OK;
}
