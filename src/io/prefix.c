/* prefix.c - see prefix.h. Readers and writers are those of the store beneath: only keys differ. */
#include "io/prefix.h"

#include "io/wrap.h"

#include <stdlib.h>

typedef struct prefix_store {
    lk_wrap_store wrap;
    lk_buf        directory, uri;
} prefix_store;

/* The key beneath. The root itself ("", of lists) is the directory. */
static lk_rc below(const prefix_store *self, lk_arena *arena, bool list, lk_bytes *key, lk_err *err)
{
    lk_bytes directory = lk_buf_view(&self->directory);
    if (list && key->size == 0) {
        *key = directory;
        return LK_OK;
    }
    lk_rc rc = lk_store_key_check(*key, err);
    *key = rc == LK_OK ? lk_arena_format(arena, "%.*s/%.*s", LK_FMT(directory), LK_FMT(*key)) : *key;
    return rc;
}

static lk_rc enter(lk_wrap_store *wrap, lk_store_call *call, lk_err *err)
{
    const prefix_store *self = (const prefix_store *)wrap;
    if (call->verb == LK_STORE_VERB_SYNC) {
        return LK_OK;
    }
    if (call->verb == LK_STORE_VERB_REMOVE_MANY || call->verb == LK_STORE_VERB_FETCH) {
        lk_bytes *keys = lk_arena_take(&call->arena, (call->key_count + 1) * sizeof *keys);
        lk_rc     rc = LK_OK;
        for (size_t i = 0; rc == LK_OK && i < call->key_count; i++) {
            keys[i] = call->keys[i];
            rc = below(self, &call->arena, false, &keys[i], err);
        }
        call->keys = keys;
        return rc;
    }
    bool  list = lk_store_verb_kind(call->verb) == LK_STORE_LIST;
    lk_rc rc = below(self, &call->arena, list, &call->key, err);
    return rc == LK_OK && call->verb == LK_STORE_VERB_ALIAS ? below(self, &call->arena, false, &call->to, err)
                                                            : rc;
}

static void prefix_close(lk_store *store)
{
    prefix_store *self = (prefix_store *)store;
    lk_buf_deinit(&self->directory);
    lk_buf_deinit(&self->uri);
    free(self);
}

static prefix_store *prefix_new(lk_store *store, lk_bytes directory)
{
    prefix_store *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->wrap.enter = enter;
    lk_wrap_store_init(&self->wrap, store);
    self->wrap.ops.remove_unfinished = NULL; /* beneath it would look outside of the directory */
    self->wrap.ops.close = prefix_close;
    lk_buf_append_bytes(&self->directory, directory);
    lk_buf_format(&self->uri, "%.*s/%.*s", LK_FMT(store->uri), LK_FMT(directory));
    self->wrap.base.uri = lk_buf_view(&self->uri);
    return self;
}

lk_store *lk_prefix_store_new(lk_store *under, lk_bytes directory)
{
    return &prefix_new(under, directory)->wrap.base;
}

static lk_rc put_in_place(lk_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    lk_store_writer *writer = NULL;
    lk_rc            rc = lk_store_create_in_place(store, key, &writer, err);
    if (rc == LK_OK) {
        rc = lk_store_write(writer, bytes.data, bytes.size, err);
        if (rc != LK_OK) {
            lk_store_abandon(writer);
        }
    }
    rc = rc == LK_OK ? lk_store_finish(writer, err) : rc;
    *created = rc == LK_OK;
    return rc == LK_E_CONFLICT ? LK_OK : rc;
}

lk_store *lk_prefix_store_new_in_place(lk_store *under, lk_bytes directory)
{
    prefix_store *self = prefix_new(under, directory);
    if (self->wrap.ops.create_in_place != NULL) {
        self->wrap.ops.create = self->wrap.ops.create_in_place;
        self->wrap.ops.put_if_absent = put_in_place;
    }
    return &self->wrap.base;
}
