/* wrap.c - see wrap.h. */
#include "io/wrap.h"

#include <stdlib.h>

const char *lk_store_verb_name(lk_store_verb verb)
{
    static const char *const names[] = {
#define X(name, text, kind) text,
        LK_STORE_VERBS(X)
#undef X
    };
    return names[verb];
}

lk_store_kind lk_store_verb_kind(lk_store_verb verb)
{
    static const lk_store_kind kinds[] = {
#define X(name, text, kind) kind,
        LK_STORE_VERBS(X)
#undef X
    };
    return kinds[verb];
}

static lk_store *under(lk_store *store)
{
    return ((lk_wrap_store *)store)->under;
}

static lk_rc enter(lk_store *store, lk_store_call *call, lk_err *err)
{
    lk_wrap_store *self = (lk_wrap_store *)store;
    lk_rc          rc = self->enter == NULL ? LK_OK : self->enter(self, call, err);
    if (rc != LK_OK) {
        lk_arena_close(&call->arena);
    }
    return rc;
}

static lk_rc leave(lk_store *store, lk_store_call *call, lk_rc rc, lk_err *err)
{
    lk_wrap_store *self = (lk_wrap_store *)store;
    rc = self->leave == NULL ? rc : self->leave(self, call, rc, err);
    lk_arena_close(&call->arena);
    return rc;
}

/* -- objects that are read ---------------------------------------------------------------------------------------- */

typedef struct wrap_reader {
    lk_store_reader  base;
    lk_store_reader *under;
} wrap_reader;

static lk_rc wrap_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    lk_store_call    call = {.verb = LK_STORE_VERB_OPEN, .key = key};
    lk_store_reader *reader = NULL;
    lk_rc            rc = enter(store, &call, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = leave(store, &call, lk_store_open_object(under(store), call.key, &reader, size, err), err);
    if (rc != LK_OK) {
        lk_store_reader_close(reader);
        return rc;
    }
    if (((lk_wrap_store *)store)->readers) {
        wrap_reader *wrapped = calloc(1, sizeof *wrapped);
        LK_ASSERT(wrapped != NULL);
        *wrapped = (wrap_reader){{store}, reader};
        reader = &wrapped->base;
    }
    *out = reader;
    return LK_OK;
}

static lk_rc wrap_read(lk_store_reader *reader, const lk_store_range *ranges, size_t count, lk_err *err)
{
    lk_store_call call = {.verb = LK_STORE_VERB_READ};
    lk_rc         rc = enter(reader->store, &call, err);
    return rc != LK_OK ? rc
                       : leave(reader->store, &call,
                             lk_store_read(((wrap_reader *)reader)->under, ranges, count, err), err);
}

static void wrap_reader_close(lk_store_reader *reader)
{
    lk_store_reader_close(((wrap_reader *)reader)->under);
    free(reader);
}

/* The keys are the caller's own afterwards. */
static lk_rc wrap_fetch(lk_store *store, lk_store_wanted *wanted, size_t count, lk_arena *arena, lk_err *err)
{
    lk_store_call    call = {.verb = LK_STORE_VERB_FETCH, .key_count = count};
    lk_bytes        *keys = lk_arena_take(&call.arena, (count + 1) * sizeof *keys);
    lk_store_wanted *inner = lk_arena_take(arena, (count + 1) * sizeof *inner);
    for (size_t i = 0; i < count; i++) {
        keys[i] = wanted[i].key;
    }
    call.keys = keys;
    lk_rc rc = enter(store, &call, err);
    if (rc != LK_OK) {
        return rc;
    }
    for (size_t i = 0; i < count; i++) {
        inner[i] = (lk_store_wanted){.key = call.keys[i]};
    }
    rc = lk_store_fetch(under(store), inner, count, arena, err);
    for (size_t i = 0; i < count; i++) {
        inner[i].key = wanted[i].key;
        wanted[i] = inner[i];
    }
    return leave(store, &call, rc, err);
}

/* -- objects that are written ------------------------------------------------------------------------------------- */

typedef struct wrap_writer {
    lk_store_writer  base;
    lk_store_writer *under;
    uint64_t         note;
} wrap_writer;

static lk_rc create(lk_store *store, lk_bytes key, bool in_place, lk_store_writer **out, lk_err *err)
{
    lk_store_call    call = {.verb = LK_STORE_VERB_CREATE, .key = key};
    lk_store_writer *writer = NULL;
    lk_rc            rc = enter(store, &call, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = in_place ? lk_store_create_in_place(under(store), call.key, &writer, err)
                  : lk_store_create(under(store), call.key, &writer, err);
    rc = leave(store, &call, rc, err);
    if (rc != LK_OK) {
        lk_store_abandon(writer);
        return rc;
    }
    if (((lk_wrap_store *)store)->writers) {
        wrap_writer *wrapped = calloc(1, sizeof *wrapped);
        LK_ASSERT(wrapped != NULL);
        *wrapped = (wrap_writer){{store}, writer, call.note};
        writer = &wrapped->base;
    }
    *out = writer;
    return LK_OK;
}

static lk_rc wrap_create(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    return create(store, key, false, out, err);
}

static lk_rc wrap_create_in_place(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    return create(store, key, true, out, err);
}

static lk_rc wrap_write(lk_store_writer *writer, const void *data, size_t size, lk_err *err)
{
    wrap_writer  *self = (wrap_writer *)writer;
    lk_store_call call = {.verb = LK_STORE_VERB_WRITE, .bytes = {data, size}, .note = self->note};
    lk_rc         rc = enter(writer->store, &call, err);
    return rc != LK_OK ? rc
                       : leave(writer->store, &call,
                             lk_store_write(self->under, call.bytes.data, call.bytes.size, err), err);
}

static lk_rc wrap_finish(lk_store_writer *writer, lk_err *err)
{
    wrap_writer  *self = (wrap_writer *)writer;
    lk_store_call call = {.verb = LK_STORE_VERB_FINISH, .note = self->note};
    lk_rc         rc = enter(writer->store, &call, err);
    if (rc == LK_OK) {
        rc = leave(writer->store, &call, lk_store_finish(self->under, err), err);
    } else {
        lk_store_abandon(self->under);
    }
    free(self);
    return rc;
}

static void wrap_abandon(lk_store_writer *writer)
{
    lk_store_abandon(((wrap_writer *)writer)->under);
    free(writer);
}

static lk_rc wrap_put(lk_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    lk_store_call call = {.verb = LK_STORE_VERB_PUT, .key = key, .bytes = bytes};
    lk_rc         rc = enter(store, &call, err);
    *created = false;
    if (rc == LK_OK) {
        rc = lk_store_put_if_absent(under(store), call.key, call.bytes, created, err);
        rc = leave(store, &call, rc, err);
    }
    *created = *created && rc == LK_OK;
    return rc;
}

static lk_rc wrap_alias(lk_store *store, lk_bytes from, lk_bytes to, bool *created, lk_err *err)
{
    lk_store_call call = {.verb = LK_STORE_VERB_ALIAS, .key = from, .to = to};
    lk_rc         rc = enter(store, &call, err);
    *created = false;
    if (rc == LK_OK) {
        rc =
            leave(store, &call, under(store)->ops->alias(under(store), call.key, call.to, created, err), err);
    }
    *created = *created && rc == LK_OK;
    return rc;
}

static lk_rc wrap_replace(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    lk_store_call call = {.verb = LK_STORE_VERB_REPLACE, .key = key, .bytes = bytes};
    lk_rc         rc = enter(store, &call, err);
    return rc != LK_OK ? rc
                       : leave(store, &call, lk_store_replace(under(store), call.key, call.bytes, err), err);
}

static lk_rc wrap_hint(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    lk_store_call call = {.verb = LK_STORE_VERB_HINT, .key = key, .bytes = bytes};
    lk_rc         rc = enter(store, &call, err);
    return rc != LK_OK
               ? rc
               : leave(store, &call, under(store)->ops->hint(under(store), call.key, call.bytes, err), err);
}

typedef struct wrap_staged {
    lk_store_staged  base;
    lk_store        *store;
    lk_store_staged *under;
    uint64_t         note;
} wrap_staged;

static lk_rc name_staged(lk_store_staged *staged, bool durable, bool *created, lk_err *err)
{
    wrap_staged  *self = (wrap_staged *)staged;
    lk_store_call call = {.verb = LK_STORE_VERB_PUBLISH, .note = self->note};
    lk_rc         rc = enter(self->store, &call, err);
    *created = false;
    if (rc == LK_OK) {
        rc = durable ? lk_store_publish(self->under, created, err) : lk_store_show(self->under, created, err);
        rc = leave(self->store, &call, rc, err);
    } else {
        lk_store_discard(self->under);
    }
    *created = *created && rc == LK_OK;
    free(self);
    return rc;
}

static lk_rc wrap_publish(lk_store_staged *staged, bool *created, lk_err *err)
{
    return name_staged(staged, true, created, err);
}

static lk_rc wrap_show(lk_store_staged *staged, bool *created, lk_err *err)
{
    return name_staged(staged, false, created, err);
}

static void wrap_discard(lk_store_staged *staged)
{
    lk_store_discard(((wrap_staged *)staged)->under);
    free(staged);
}

static lk_rc wrap_stage(lk_store *store, lk_bytes key, lk_bytes bytes, lk_store_staged **out, lk_err *err)
{
    lk_store_call    call = {.verb = LK_STORE_VERB_STAGE, .key = key, .bytes = bytes};
    lk_store_staged *staged = NULL;
    lk_rc            rc = enter(store, &call, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = leave(store, &call, lk_store_stage(under(store), call.key, call.bytes, &staged, err), err);
    if (rc != LK_OK) {
        lk_store_discard(staged);
        return rc;
    }
    if (((lk_wrap_store *)store)->writers) {
        wrap_staged *wrapped = calloc(1, sizeof *wrapped);
        LK_ASSERT(wrapped != NULL);
        *wrapped = (wrap_staged){{wrap_publish, wrap_discard, wrap_show}, store, staged, call.note};
        staged = &wrapped->base;
    }
    *out = staged;
    return LK_OK;
}

static lk_rc wrap_sync(lk_store *store, lk_err *err)
{
    lk_store_call call = {.verb = LK_STORE_VERB_SYNC};
    lk_rc         rc = enter(store, &call, err);
    return rc != LK_OK ? rc : leave(store, &call, lk_store_sync(under(store), err), err);
}

/* -- lists ---------------------------------------------------------------------------------------------------------- */

static lk_rc wrap_list(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    lk_store_call call = {.verb = LK_STORE_VERB_LIST, .key = directory};
    lk_rc         rc = enter(store, &call, err);
    return rc != LK_OK
               ? rc
               : leave(store, &call, lk_store_list(under(store), call.key, arena, entries, count, err), err);
}

static lk_rc wrap_list_names(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    lk_store_call call = {.verb = LK_STORE_VERB_LIST_NAMES, .key = directory};
    lk_rc         rc = enter(store, &call, err);
    return rc != LK_OK ? rc
                       : leave(store, &call,
                             lk_store_list_names(under(store), call.key, arena, entries, count, err), err);
}

static lk_rc wrap_list_first(lk_store *store, lk_bytes directory, size_t count_min, lk_arena *arena,
    lk_store_entry **entries, size_t *count, lk_err *err)
{
    lk_store_call call = {.verb = LK_STORE_VERB_LIST_FIRST, .key = directory};
    lk_rc         rc = enter(store, &call, err);
    if (rc == LK_OK) {
        rc = lk_store_list_first(under(store), call.key, count_min, arena, entries, count, err);
        rc = leave(store, &call, rc, err);
    }
    return rc;
}

/* -- removing -------------------------------------------------------------------------------------------------------- */

static lk_rc wrap_remove(lk_store *store, lk_bytes key, lk_err *err)
{
    lk_store_call call = {.verb = LK_STORE_VERB_REMOVE, .key = key};
    lk_rc         rc = enter(store, &call, err);
    return rc != LK_OK ? rc : leave(store, &call, lk_store_remove(under(store), call.key, err), err);
}

static lk_rc wrap_remove_tree(lk_store *store, lk_bytes directory, lk_err *err)
{
    lk_store_call call = {.verb = LK_STORE_VERB_REMOVE_TREE, .key = directory};
    lk_rc         rc = enter(store, &call, err);
    return rc != LK_OK ? rc : leave(store, &call, lk_store_remove_tree(under(store), call.key, err), err);
}

static lk_rc wrap_remove_many(lk_store *store, const lk_bytes *keys, size_t count, lk_err *err)
{
    lk_store_call call = {.verb = LK_STORE_VERB_REMOVE_MANY, .keys = keys, .key_count = count};
    lk_rc         rc = enter(store, &call, err);
    return rc != LK_OK
               ? rc
               : leave(store, &call, lk_store_remove_many(under(store), call.keys, call.key_count, err), err);
}

static lk_rc wrap_remove_unfinished(lk_store *store, int64_t before_ms, size_t *count, lk_err *err)
{
    lk_store_call call = {.verb = LK_STORE_VERB_REMOVE_UNFINISHED};
    lk_rc         rc = enter(store, &call, err);
    return rc != LK_OK
               ? rc
               : leave(store, &call, lk_store_remove_unfinished(under(store), before_ms, count, err), err);
}

void lk_wrap_store_init(lk_wrap_store *self, lk_store *beneath)
{
    const struct lk_store_ops *can = beneath->ops;
    self->ops = (struct lk_store_ops){
        .open = wrap_open,
        .read = wrap_read,
        .reader_close = wrap_reader_close,
        .fetch = can->fetch == NULL ? NULL : wrap_fetch,
        .create = wrap_create,
        .create_in_place = can->create_in_place == NULL ? NULL : wrap_create_in_place,
        .write = wrap_write,
        .finish = wrap_finish,
        .abandon = wrap_abandon,
        .put_if_absent = wrap_put,
        .list = wrap_list,
        .list_names = can->list_names == NULL ? NULL : wrap_list_names,
        .list_first = can->list_first == NULL ? NULL : wrap_list_first,
        .sync = can->sync == NULL ? NULL : wrap_sync,
        .alias = can->alias == NULL ? NULL : wrap_alias,
        .replace = can->replace == NULL ? NULL : wrap_replace,
        .hint = can->hint == NULL ? NULL : wrap_hint,
        .stage = can->stage == NULL ? NULL : wrap_stage,
        .remove = wrap_remove,
        .remove_tree = wrap_remove_tree,
        .remove_many = can->remove_many == NULL ? NULL : wrap_remove_many,
        .remove_unfinished = can->remove_unfinished == NULL ? NULL : wrap_remove_unfinished,
    };
    self->under = beneath;
    self->base = (lk_store){.ops = &self->ops, .uri = beneath->uri, .far = beneath->far};
}
