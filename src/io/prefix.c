/* prefix.c - see prefix.h. Readers and writers are those of the store beneath: only keys differ. */
#include "io/prefix.h"

#include <stdlib.h>

typedef struct prefix_store {
    lk_store            base;
    struct lk_store_ops ops; /* without what the store beneath cannot */
    lk_store           *under;
    lk_buf              directory, uri;
} prefix_store;

/* The key beneath, in *full, which the caller ends. The root itself ("") is the directory. */
static lk_bytes below(lk_store *store, lk_bytes key, lk_buf *full)
{
    const prefix_store *self = (const prefix_store *)store;
    lk_buf_append_bytes(full, lk_buf_view(&self->directory));
    if (key.size > 0) {
        lk_buf_append_text(full, "/");
        lk_buf_append_bytes(full, key);
    }
    return lk_buf_view(full);
}

static lk_store *under(lk_store *store)
{
    return ((prefix_store *)store)->under;
}

static lk_rc prefix_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    lk_buf full = {0};
    lk_rc  rc = lk_store_key_check(key, err);
    rc = rc == LK_OK ? lk_store_open_object(under(store), below(store, key, &full), out, size, err) : rc;
    lk_buf_deinit(&full);
    return rc;
}

static lk_rc prefix_create(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    lk_buf full = {0};
    lk_rc  rc = lk_store_key_check(key, err);
    rc = rc == LK_OK ? lk_store_create(under(store), below(store, key, &full), out, err) : rc;
    lk_buf_deinit(&full);
    return rc;
}

static lk_rc prefix_put(lk_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    lk_buf full = {0};
    lk_rc  rc = lk_store_key_check(key, err);
    rc = rc == LK_OK ? lk_store_put_if_absent(under(store), below(store, key, &full), bytes, created, err)
                     : rc;
    lk_buf_deinit(&full);
    return rc;
}

static lk_rc prefix_list(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    lk_buf full = {0};
    lk_rc  rc = lk_store_list(under(store), below(store, directory, &full), arena, entries, count, err);
    lk_buf_deinit(&full);
    return rc;
}

static lk_rc prefix_list_names(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    lk_buf full = {0};
    lk_rc  rc = lk_store_list_names(under(store), below(store, directory, &full), arena, entries, count, err);
    lk_buf_deinit(&full);
    return rc;
}

static lk_rc prefix_list_first(lk_store *store, lk_bytes directory, size_t count_min, lk_arena *arena,
    lk_store_entry **entries, size_t *count, lk_err *err)
{
    lk_buf full = {0};
    lk_rc  rc = lk_store_list_first(
         under(store), below(store, directory, &full), count_min, arena, entries, count, err);
    lk_buf_deinit(&full);
    return rc;
}

static lk_rc prefix_sync(lk_store *store, lk_err *err)
{
    return lk_store_sync(under(store), err);
}

static lk_rc prefix_alias(lk_store *store, lk_bytes from, lk_bytes to, bool *created, lk_err *err)
{
    lk_buf   full_from = {0}, full_to = {0};
    lk_bytes key_from = below(store, from, &full_from);
    lk_rc    rc = under(store)->ops->alias(under(store), key_from, below(store, to, &full_to), created, err);
    lk_buf_deinit(&full_from);
    lk_buf_deinit(&full_to);
    return rc;
}

static lk_rc prefix_replace(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    lk_buf full = {0};
    lk_rc  rc = lk_store_key_check(key, err);
    rc = rc == LK_OK ? lk_store_replace(under(store), below(store, key, &full), bytes, err) : rc;
    lk_buf_deinit(&full);
    return rc;
}

static lk_rc prefix_remove(lk_store *store, lk_bytes key, lk_err *err)
{
    lk_buf full = {0};
    lk_rc  rc = lk_store_key_check(key, err);
    rc = rc == LK_OK ? lk_store_remove(under(store), below(store, key, &full), err) : rc;
    lk_buf_deinit(&full);
    return rc;
}

static lk_rc prefix_remove_tree(lk_store *store, lk_bytes directory, lk_err *err)
{
    lk_buf full = {0};
    lk_rc  rc = lk_store_key_check(directory, err);
    rc = rc == LK_OK ? lk_store_remove_tree(under(store), below(store, directory, &full), err) : rc;
    lk_buf_deinit(&full);
    return rc;
}

static lk_rc prefix_remove_many(lk_store *store, const lk_bytes *keys, size_t count, lk_err *err)
{
    lk_arena  arena = {0};
    lk_bytes *full = lk_arena_take(&arena, (count + 1) * sizeof *full);
    lk_rc     rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        lk_bytes directory = lk_buf_view(&((prefix_store *)store)->directory);
        rc = lk_store_key_check(keys[i], err);
        full[i] = lk_arena_format(&arena, "%.*s/%.*s", LK_FMT(directory), LK_FMT(keys[i]));
    }
    rc = rc == LK_OK ? lk_store_remove_many(under(store), full, count, err) : rc;
    lk_arena_close(&arena);
    return rc;
}

static lk_rc prefix_hint(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    lk_buf full = {0};
    lk_rc  rc = lk_store_key_check(key, err);
    if (rc == LK_OK) {
        lk_store_hint(under(store), below(store, key, &full), bytes);
    }
    lk_buf_deinit(&full);
    return rc;
}

static lk_rc prefix_stage(lk_store *store, lk_bytes key, lk_bytes bytes, lk_store_staged **out, lk_err *err)
{
    lk_buf full = {0};
    lk_rc  rc = lk_store_key_check(key, err);
    rc = rc == LK_OK ? lk_store_stage(under(store), below(store, key, &full), bytes, out, err) : rc;
    lk_buf_deinit(&full);
    return rc;
}

static void prefix_close(lk_store *store)
{
    prefix_store *self = (prefix_store *)store;
    lk_buf_deinit(&self->directory);
    lk_buf_deinit(&self->uri);
    free(self);
}

lk_store *lk_prefix_store_new(lk_store *store, lk_bytes directory)
{
    prefix_store *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->ops = (struct lk_store_ops){
        .open = prefix_open, /* readers and writers come from beneath, and so do their operations */
        .create = prefix_create,
        .put_if_absent = prefix_put,
        .list = prefix_list,
        .list_names = prefix_list_names,
        .list_first = store->ops->list_first == NULL ? NULL : prefix_list_first,
        .sync = prefix_sync,
        .alias = store->ops->alias == NULL ? NULL : prefix_alias,
        .replace = store->ops->replace == NULL ? NULL : prefix_replace,
        .hint = prefix_hint,
        .stage = prefix_stage,
        .remove = prefix_remove,
        .remove_tree = prefix_remove_tree,
        .remove_many = store->ops->remove_many == NULL ? NULL : prefix_remove_many,
        .close = prefix_close,
    };
    self->under = store;
    lk_buf_append_bytes(&self->directory, directory);
    lk_buf_format(&self->uri, "%.*s/%.*s", LK_FMT(store->uri), LK_FMT(directory));
    self->base = (lk_store){.ops = &self->ops, .uri = lk_buf_view(&self->uri), .far = self->under->far};
    return &self->base;
}
