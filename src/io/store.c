/* store.c - what every lk_store shares: which keys are legal, what not every body can. */
#include "io/store.h"

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
