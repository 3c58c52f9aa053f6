/* mem_store.c - see mem_store.h. Objects are a list; tests hold hundreds, not millions. */
#include "engine/mem_store.h"

#include "base/thread.h"

#include <stdlib.h>

typedef struct object {
    struct object *next;
    lk_buf         key, bytes;
    unsigned refs; /* the tree's one, and one per reader: removal leaves readers alone; guarded by mutex */
} object;

struct lk_mem_disk {
    lk_mutex mutex;
    object  *objects; /* guarded by mutex */
};

typedef struct mem_store {
    lk_store     base;
    lk_mem_disk *disk;
    lk_buf       root;
    lk_mem_hook  hook;
} mem_store;

typedef struct mem_reader {
    lk_store_reader base;
    object         *object;
} mem_reader;

typedef struct mem_writer {
    lk_store_writer base;
    lk_buf          key, bytes;
} mem_writer;

static void *take(size_t size)
{
    void *memory = calloc(1, size);
    LK_ASSERT(memory != NULL);
    return memory;
}

lk_mem_disk *lk_mem_disk_new(void)
{
    lk_mem_disk *disk = take(sizeof *disk);
    lk_mutex_init(&disk->mutex, LK_RANK_IO);
    return disk;
}

static void unref(object *item)
{
    if (--item->refs == 0) {
        lk_buf_deinit(&item->key);
        lk_buf_deinit(&item->bytes);
        free(item);
    }
}

void lk_mem_disk_free(lk_mem_disk *disk)
{
    if (disk == NULL) {
        return;
    }
    while (disk->objects != NULL) {
        object *item = disk->objects;
        disk->objects = item->next;
        unref(item);
    }
    lk_mutex_deinit(&disk->mutex);
    free(disk);
}

size_t lk_mem_disk_object_count(lk_mem_disk *disk)
{
    size_t count = 0;
    lk_mutex_lock(&disk->mutex);
    for (const object *item = disk->objects; item != NULL; item = item->next) {
        count++;
    }
    lk_mutex_unlock(&disk->mutex);
    return count;
}

static lk_rc step(mem_store *store, const char *call, bool after, lk_err *err)
{
    lk_assert_no_mutex();
    return store->hook.run == NULL ? LK_OK : store->hook.run(store->hook.context, call, after, err);
}

static void full_key(const mem_store *store, lk_bytes key, lk_buf *out)
{
    lk_buf_append_bytes(out, lk_buf_view(&store->root));
    if (out->size > 0 && key.size > 0) {
        lk_buf_append_text(out, "/");
    }
    lk_buf_append_bytes(out, key);
}

static object **find(lk_mem_disk *disk, lk_bytes key)
{
    object **at = &disk->objects;
    while (*at != NULL && !lk_bytes_equal(lk_buf_view(&(*at)->key), key)) {
        at = &(*at)->next;
    }
    return at;
}

/* Takes *bytes when it puts. */
static bool put(mem_store *store, lk_bytes key, lk_buf *bytes)
{
    object *item = take(sizeof *item);
    full_key(store, key, &item->key);
    item->bytes = *bytes;
    item->refs = 1;
    lk_mutex_lock(&store->disk->mutex);
    object **at = find(store->disk, lk_buf_view(&item->key));
    bool     created = *at == NULL;
    if (created) {
        *at = item;
    }
    lk_mutex_unlock(&store->disk->mutex);
    if (created) {
        *bytes = (lk_buf){0};
    } else {
        lk_buf_deinit(&item->key);
        free(item);
    }
    return created;
}

static lk_rc open_object(lk_store *base, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    mem_store *store = (mem_store *)base;
    lk_buf     path = {0};
    lk_rc      rc = step(store, "open", false, err);
    if (rc != LK_OK) {
        return rc;
    }
    full_key(store, key, &path);
    lk_mutex_lock(&store->disk->mutex);
    object *item = *find(store->disk, lk_buf_view(&path));
    if (item != NULL) {
        item->refs++;
    }
    lk_mutex_unlock(&store->disk->mutex);
    lk_buf_deinit(&path);
    if (item == NULL) {
        return lk_fail(err, LK_E_NOT_FOUND, "no object %.*s", LK_FMT(key));
    }
    mem_reader *reader = take(sizeof *reader);
    *reader = (mem_reader){.base.store = base, .object = item};
    *out = &reader->base;
    *size = item->bytes.size;
    return LK_OK;
}

static lk_rc read_ranges(lk_store_reader *base, const lk_store_range *ranges, size_t count, lk_err *err)
{
    mem_reader *reader = (mem_reader *)base;
    lk_bytes    bytes = lk_buf_view(&reader->object->bytes);
    lk_rc       rc = step((mem_store *)base->store, "read", false, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        if (ranges[i].offset > bytes.size || ranges[i].size > bytes.size - ranges[i].offset) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "range past the end");
        }
        if (ranges[i].size > 0) {
            memcpy(ranges[i].out, bytes.data + ranges[i].offset, ranges[i].size);
        }
    }
    return rc;
}

static void reader_close(lk_store_reader *base)
{
    mem_reader  *reader = (mem_reader *)base;
    lk_mem_disk *disk = ((mem_store *)base->store)->disk;
    lk_mutex_lock(&disk->mutex);
    unref(reader->object);
    lk_mutex_unlock(&disk->mutex);
    free(reader);
}

static lk_rc create(lk_store *base, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    lk_rc rc = step((mem_store *)base, "create", false, err);
    if (rc == LK_OK) {
        mem_writer *writer = take(sizeof *writer);
        writer->base.store = base;
        lk_buf_append_bytes(&writer->key, key);
        *out = &writer->base;
    }
    return rc;
}

static lk_rc write_more(lk_store_writer *base, const void *data, size_t size, lk_err *err)
{
    (void)err;
    lk_buf_append(&((mem_writer *)base)->bytes, data, size);
    return LK_OK;
}

static void abandon(lk_store_writer *base)
{
    mem_writer *writer = (mem_writer *)base;
    lk_buf_deinit(&writer->key);
    lk_buf_deinit(&writer->bytes);
    free(writer);
}

static lk_rc finish(lk_store_writer *base, lk_err *err)
{
    mem_writer *writer = (mem_writer *)base;
    mem_store  *store = (mem_store *)base->store;
    lk_rc       rc = step(store, "finish", false, err);
    if (rc == LK_OK && !put(store, lk_buf_view(&writer->key), &writer->bytes)) {
        rc = lk_fail(err, LK_E_CONFLICT, "object %.*s exists", LK_FMT(lk_buf_view(&writer->key)));
    }
    rc = rc == LK_OK ? step(store, "finish", true, err) : rc;
    abandon(base);
    return rc;
}

static lk_rc put_if_absent(lk_store *base, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    mem_store *store = (mem_store *)base;
    lk_buf     copy = {0};
    *created = false;
    lk_rc rc = step(store, "put_if_absent", false, err);
    if (rc == LK_OK) {
        lk_buf_append_bytes(&copy, bytes);
        *created = put(store, key, &copy);
        lk_buf_deinit(&copy);
        rc = step(store, "put_if_absent", true, err);
    }
    return rc;
}

static void add_entry(lk_arena *arena, lk_store_entry *entries, size_t *count, lk_bytes rest, uint64_t size)
{
    const char *slash = memchr(rest.data, '/', rest.size);
    lk_bytes    name = {rest.data, slash == NULL ? rest.size : (size_t)(slash - rest.data)};
    for (size_t i = 0; i < *count; i++) {
        if (lk_bytes_equal(entries[i].name, name)) {
            return;
        }
    }
    entries[(*count)++] = (lk_store_entry){
        .name = lk_arena_copy(arena, name), .is_directory = slash != NULL, .size = slash == NULL ? size : 0};
}

static lk_rc list(
    lk_store *base, lk_bytes directory, lk_arena *arena, lk_store_entry **entries, size_t *count, lk_err *err)
{
    mem_store *store = (mem_store *)base;
    lk_buf     prefix = {0};
    *count = 0;
    lk_rc rc = step(store, "list", false, err);
    if (rc != LK_OK) {
        return rc;
    }
    full_key(store, directory, &prefix);
    if (prefix.size > 0) {
        lk_buf_append_text(&prefix, "/");
    }
    lk_mutex_lock(&store->disk->mutex);
    size_t total = 1;
    for (const object *item = store->disk->objects; item != NULL; item = item->next) {
        total++;
    }
    *entries = lk_arena_take(arena, total * sizeof **entries);
    for (const object *item = store->disk->objects; item != NULL; item = item->next) {
        lk_bytes key = lk_buf_view(&item->key);
        if (lk_bytes_starts(key, lk_buf_view(&prefix))) {
            lk_bytes rest = {key.data + prefix.size, key.size - prefix.size};
            add_entry(arena, *entries, count, rest, item->bytes.size);
        }
    }
    lk_mutex_unlock(&store->disk->mutex);
    lk_buf_deinit(&prefix);
    return LK_OK;
}

static lk_rc remove_one(lk_store *base, lk_bytes key, lk_err *err)
{
    mem_store *store = (mem_store *)base;
    lk_buf     path = {0};
    lk_rc      rc = step(store, "remove", false, err);
    if (rc != LK_OK) {
        return rc;
    }
    full_key(store, key, &path);
    lk_mutex_lock(&store->disk->mutex);
    object **at = find(store->disk, lk_buf_view(&path));
    if (*at != NULL) {
        object *item = *at;
        *at = item->next;
        unref(item);
    }
    lk_mutex_unlock(&store->disk->mutex);
    lk_buf_deinit(&path);
    return step(store, "remove", true, err);
}

static lk_rc remove_tree(lk_store *base, lk_bytes directory, lk_err *err)
{
    mem_store *store = (mem_store *)base;
    lk_buf     prefix = {0};
    lk_rc      rc = step(store, "remove_tree", false, err);
    if (rc != LK_OK) {
        return rc;
    }
    full_key(store, directory, &prefix);
    lk_buf_append_text(&prefix, "/");
    lk_mutex_lock(&store->disk->mutex);
    for (object **at = &store->disk->objects; *at != NULL;) {
        object *item = *at;
        if (lk_bytes_starts(lk_buf_view(&item->key), lk_buf_view(&prefix))) {
            *at = item->next;
            unref(item);
        } else {
            at = &item->next;
        }
    }
    lk_mutex_unlock(&store->disk->mutex);
    lk_buf_deinit(&prefix);
    return step(store, "remove_tree", true, err);
}

static void close_store(lk_store *base)
{
    mem_store *store = (mem_store *)base;
    lk_buf_deinit(&store->root);
    free(store);
}

static const struct lk_store_ops ops = {.open = open_object,
    .read = read_ranges,
    .reader_close = reader_close,
    .create = create,
    .write = write_more,
    .finish = finish,
    .abandon = abandon,
    .put_if_absent = put_if_absent,
    .list = list,
    .remove = remove_one,
    .remove_tree = remove_tree,
    .close = close_store};

lk_rc lk_mem_store_open(lk_store **out, lk_mem_disk *disk, lk_bytes root, lk_mem_hook hook, lk_err *err)
{
    (void)err;
    mem_store *store = take(sizeof *store);
    store->base.ops = &ops;
    store->disk = disk;
    store->hook = hook;
    lk_buf_append_bytes(&store->root, root);
    store->base.uri = lk_buf_view(&store->root);
    *out = &store->base;
    return LK_OK;
}
