/* faulty.c - see faulty.h. */
#include "io/faulty.h"

#include <stdlib.h>

struct faulty_store {
    lk_store       base;
    lk_store      *under;
    lk_fault_plan *plan;
};

struct faulty_reader {
    lk_store_reader  base;
    lk_store_reader *under;
};

struct faulty_writer {
    lk_store_writer  base;
    lk_store_writer *under;
};

static void *small(size_t size)
{
    void *memory = calloc(1, size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

/* What the caller hears instead of the truth. */
static lk_rc fail(lk_fault fault, const char *call, bool writes, lk_err *err)
{
    lk_rc rc = fault == LK_FAULT_FULL                               ? LK_E_STORE_FULL
               : fault == LK_FAULT_DENIED || fault == LK_FAULT_TORN ? LK_E_IO
                                                                    : LK_E_STORE_UNAVAILABLE;
    rc = lk_fail(err, rc, "injected: %s meets fault %d", call, (int)fault);
    err->maybe_applied = writes && (fault == LK_FAULT_LOST || fault == LK_FAULT_REPLY_LOST);
    return rc;
}

static struct faulty_store *self_of(lk_store *store)
{
    return (struct faulty_store *)store;
}

static lk_rc faulty_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    struct faulty_store *self = self_of(store);
    lk_fault             fault = lk_fault_plan_next(self->plan, "open");
    if (fault != LK_FAULT_NONE) {
        return fail(fault, "open", false, err);
    }
    struct faulty_reader *reader = small(sizeof *reader);
    reader->base.store = store;
    lk_rc rc = lk_store_open_object(self->under, key, &reader->under, size, err);
    if (rc != LK_OK) {
        free(reader);
        return rc;
    }
    *out = &reader->base;
    return LK_OK;
}

static lk_rc faulty_read(lk_store_reader *reader, const lk_store_range *ranges, size_t count, lk_err *err)
{
    lk_fault fault = lk_fault_plan_next(self_of(reader->store)->plan, "read");
    if (fault != LK_FAULT_NONE) {
        return fail(fault, "read", false, err);
    }
    return lk_store_read(((struct faulty_reader *)reader)->under, ranges, count, err);
}

static void faulty_reader_close(lk_store_reader *reader)
{
    lk_store_reader_close(((struct faulty_reader *)reader)->under);
    free(reader);
}

static lk_rc faulty_create(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    struct faulty_store *self = self_of(store);
    lk_fault             fault = lk_fault_plan_next(self->plan, "create");
    if (fault != LK_FAULT_NONE) {
        return fail(fault, "create", true, err);
    }
    struct faulty_writer *writer = small(sizeof *writer);
    writer->base.store = store;
    lk_rc rc = lk_store_create(self->under, key, &writer->under, err);
    if (rc != LK_OK) {
        free(writer);
        return rc;
    }
    *out = &writer->base;
    return LK_OK;
}

static lk_rc faulty_write(lk_store_writer *writer, const void *data, size_t size, lk_err *err)
{
    lk_store_writer *under = ((struct faulty_writer *)writer)->under;
    lk_fault         fault = lk_fault_plan_next(self_of(writer->store)->plan, "write");
    size_t           part = fault == LK_FAULT_TORN ? size / 2 : size;
    bool  arrives = fault == LK_FAULT_NONE || fault == LK_FAULT_TORN || fault == LK_FAULT_REPLY_LOST;
    lk_rc rc = arrives ? lk_store_write(under, data, part, err) : LK_OK;
    return rc == LK_OK && fault != LK_FAULT_NONE ? fail(fault, "write", true, err) : rc;
}

static lk_rc faulty_finish(lk_store_writer *writer, lk_err *err)
{
    struct faulty_writer *self = (struct faulty_writer *)writer;
    lk_fault              fault = lk_fault_plan_next(self_of(writer->store)->plan, "finish");
    lk_rc                 rc = LK_OK;
    if (fault == LK_FAULT_NONE || fault == LK_FAULT_REPLY_LOST) {
        rc = lk_store_finish(self->under, err);
    } else {
        lk_store_abandon(self->under);
    }
    free(self);
    return rc == LK_OK && fault != LK_FAULT_NONE ? fail(fault, "finish", true, err) : rc;
}

static void faulty_abandon(lk_store_writer *writer)
{
    lk_store_abandon(((struct faulty_writer *)writer)->under);
    free(writer);
}

/* What a crash in the middle of a put leaves: part of the bytes, under a temporary's name. */
static lk_rc put_half(struct faulty_store *self, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    size_t directory = key.size;
    while (directory > 0 && key.data[directory - 1] != '/') {
        directory--;
    }
    lk_buf name = {0};
    bool   created = false;
    lk_buf_format(&name, "%.*s.tmp-torn-%llu", (int)directory, key.data,
        (unsigned long long)lk_fault_plan_calls(self->plan));
    lk_rc rc = lk_store_put_if_absent(
        self->under, lk_buf_view(&name), (lk_bytes){bytes.data, bytes.size / 2}, &created, err);
    lk_buf_deinit(&name);
    return rc;
}

static lk_rc faulty_put_if_absent(lk_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    struct faulty_store *self = self_of(store);
    lk_fault             fault = lk_fault_plan_next(self->plan, "put_if_absent");
    bool                 ignored = false;
    lk_rc                rc = LK_OK;
    if (fault == LK_FAULT_NONE) {
        return lk_store_put_if_absent(self->under, key, bytes, created, err);
    }
    if (fault == LK_FAULT_REPLY_LOST) {
        rc = lk_store_put_if_absent(self->under, key, bytes, &ignored, err);
    } else if (fault == LK_FAULT_TORN) {
        rc = put_half(self, key, bytes, err);
    }
    return rc == LK_OK ? fail(fault, "put_if_absent", true, err) : rc;
}

static lk_rc faulty_list(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    struct faulty_store *self = self_of(store);
    lk_fault             fault = lk_fault_plan_next(self->plan, "list");
    if (fault != LK_FAULT_NONE) {
        return fail(fault, "list", false, err);
    }
    return lk_store_list(self->under, directory, arena, entries, count, err);
}

static lk_rc faulty_list_names(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    struct faulty_store *self = self_of(store);
    lk_fault             fault = lk_fault_plan_next(self->plan, "list names");
    if (fault != LK_FAULT_NONE) {
        return fail(fault, "list names", false, err);
    }
    return lk_store_list_names(self->under, directory, arena, entries, count, err);
}

static lk_rc remove_with(lk_store *store, lk_bytes key, bool tree, lk_err *err)
{
    struct faulty_store *self = self_of(store);
    const char          *call = tree ? "remove_tree" : "remove";
    lk_fault             fault = lk_fault_plan_next(self->plan, call);
    lk_rc                rc = LK_OK;
    if (fault == LK_FAULT_NONE || fault == LK_FAULT_REPLY_LOST) {
        rc = tree ? lk_store_remove_tree(self->under, key, err) : lk_store_remove(self->under, key, err);
    }
    return rc == LK_OK && fault != LK_FAULT_NONE ? fail(fault, call, true, err) : rc;
}

static lk_rc faulty_remove(lk_store *store, lk_bytes key, lk_err *err)
{
    return remove_with(store, key, false, err);
}

static lk_rc faulty_remove_tree(lk_store *store, lk_bytes directory, lk_err *err)
{
    return remove_with(store, directory, true, err);
}

static lk_rc faulty_remove_unfinished(lk_store *store, int64_t before_ms, size_t *count, lk_err *err)
{
    struct faulty_store *self = self_of(store);
    lk_fault             fault = lk_fault_plan_next(self->plan, "remove_unfinished");
    bool                 arrives = fault == LK_FAULT_NONE || fault == LK_FAULT_REPLY_LOST;
    lk_rc rc = arrives ? lk_store_remove_unfinished(self->under, before_ms, count, err) : LK_OK;
    return rc == LK_OK && fault != LK_FAULT_NONE ? fail(fault, "remove_unfinished", true, err) : rc;
}

static void faulty_close(lk_store *store)
{
    lk_store_close(self_of(store)->under);
    free(store);
}

static lk_rc faulty_sync(lk_store *store, lk_err *err)
{
    struct faulty_store *self = self_of(store);
    lk_fault             fault = lk_fault_plan_next(self->plan, "sync");
    bool                 arrives = fault == LK_FAULT_NONE || fault == LK_FAULT_REPLY_LOST;
    lk_rc                rc = arrives ? lk_store_sync(self->under, err) : LK_OK;
    return rc == LK_OK && fault != LK_FAULT_NONE ? fail(fault, "sync", true, err) : rc;
}

static lk_rc faulty_alias(lk_store *store, lk_bytes from, lk_bytes to, bool *created, lk_err *err)
{
    struct faulty_store *self = self_of(store);
    if (self->under->ops->alias == NULL) {
        return lk_fail(err, LK_E_UNIMPLEMENTED, "no alias");
    }
    lk_fault fault = lk_fault_plan_next(self->plan, "alias");
    bool     done = false;
    bool     arrives = fault == LK_FAULT_NONE || fault == LK_FAULT_REPLY_LOST;
    lk_rc    rc = arrives ? self->under->ops->alias(self->under, from, to, &done, err) : LK_OK;
    *created = done && fault == LK_FAULT_NONE;
    return rc == LK_OK && fault != LK_FAULT_NONE ? fail(fault, "alias", true, err) : rc;
}

static lk_rc faulty_replace(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    struct faulty_store *self = self_of(store);
    lk_fault             fault = lk_fault_plan_next(self->plan, "replace");
    bool                 arrives = fault == LK_FAULT_NONE || fault == LK_FAULT_REPLY_LOST;
    lk_rc                rc = arrives                  ? lk_store_replace(self->under, key, bytes, err)
                              : fault == LK_FAULT_TORN ? put_half(self, key, bytes, err)
                                                       : LK_OK;
    return rc == LK_OK && fault != LK_FAULT_NONE ? fail(fault, "replace", true, err) : rc;
}

static const struct lk_store_ops faulty_ops = {
    .open = faulty_open,
    .read = faulty_read,
    .reader_close = faulty_reader_close,
    .create = faulty_create,
    .write = faulty_write,
    .finish = faulty_finish,
    .abandon = faulty_abandon,
    .put_if_absent = faulty_put_if_absent,
    .list = faulty_list,
    .list_names = faulty_list_names,
    .sync = faulty_sync,
    .alias = faulty_alias,
    .replace = faulty_replace,
    .remove = faulty_remove,
    .remove_tree = faulty_remove_tree,
    .remove_unfinished = faulty_remove_unfinished,
    .close = faulty_close,
};

lk_store *lk_faulty_store_new(lk_store *under, lk_fault_plan *plan)
{
    struct faulty_store *self = small(sizeof *self);
    *self =
        (struct faulty_store){.base = {&faulty_ops, under->uri, under->far}, .under = under, .plan = plan};
    return &self->base;
}
