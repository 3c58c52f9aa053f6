#ifndef LK_IO_STORE_H
#define LK_IO_STORE_H
/*
 * store.h - where table files live: a local directory or a prefix of an S3 bucket. Keys are relative paths with '/'
 * (never "..", never absolute); the store knows its root.
 *
 * Every backend keeps these (store_contract_test.c):
 *   1. An object that is visible is whole. Objects are immutable; nobody writes into one.
 *   2. put and create return only when the object and its name are durable (local: fsync of file and
 *      directory, parents that were made included), unless the store was opened with durable = false.
 *   3. put_if_absent has exactly one winner; the loser is LK_OK with *created = false.
 *   4. Absence is LK_E_NOT_FOUND from open/size and a no-op for remove. ENOSPC is LK_E_STORE_FULL.
 *   5. A failed write leaves no visible object; a leftover temporary starts with ".tmp".
 *
 * Threads: shared; a reader may be used by many threads at once; a writer is confined.
 */
#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/thread.h"

typedef struct lk_store        lk_store;
typedef struct lk_store_reader lk_store_reader; /* one open object */
typedef struct lk_store_writer lk_store_writer; /* one object being written; invisible until finish */

typedef struct lk_store_range {
    uint64_t offset;
    size_t   size;
    void    *out; /* size bytes, the caller's */
} lk_store_range;

typedef struct lk_store_entry {
    lk_bytes name; /* one path segment, in the arena */
    bool     is_directory;
    uint64_t size;
    int64_t  modified_ms;
} lk_store_entry;

/* One of several objects that are wanted whole, at once. */
enum { LK_STORE_SMALL_BYTES = 64 * 1024 };
typedef struct lk_store_wanted {
    lk_bytes key;
    bool     found; /* false: there is no such object */
    bool     whole; /* false: it has more than LK_STORE_SMALL_BYTES, and can be opened */
    lk_bytes bytes; /* of a whole one, in the arena */
} lk_store_wanted;

/* An object whose bytes are written and whose name is still to be given. */
typedef struct lk_store_staged lk_store_staged;
struct lk_store_staged {
    lk_rc (*publish)(lk_store_staged *staged, bool *created, lk_err *err); /* ends it */
    void (*discard)(lk_store_staged *staged);                              /* ends it */
    /* NULL: publish. See lk_store_show. */
    lk_rc (*show)(lk_store_staged *staged, bool *created, lk_err *err); /* ends it */
};

struct lk_store_ops {
    lk_rc (*open)(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err);
    /* Reads all ranges, in any order, whole or not at all. A range past the end is LK_E_CORRUPT_FILE. */
    lk_rc (*read)(lk_store_reader *reader, const lk_store_range *ranges, size_t count, lk_err *err);
    void (*reader_close)(lk_store_reader *reader);
    /* NULL: opened and read one after the other. See lk_store_fetch. */
    lk_rc (*fetch)(lk_store *store, lk_store_wanted *wanted, size_t count, lk_arena *arena, lk_err *err);
    lk_rc (*create)(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err);
    /* NULL: create. The object has its name from the beginning, so rules 1 and 5 hold for it after finish and abandon only:
     * for directories into which nobody looks before an object elsewhere names them. LK_E_CONFLICT at once. */
    lk_rc (*create_in_place)(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err);
    lk_rc (*write)(lk_store_writer *writer, const void *data, size_t size, lk_err *err);
    /* Makes the object durable and visible under its key (which must be new: LK_E_CONFLICT). */
    lk_rc (*finish)(lk_store_writer *writer, lk_err *err); /* closes the writer, also when it fails */
    void (*abandon)(lk_store_writer *writer);              /* closes and removes what was written */
    lk_rc (*put_if_absent)(lk_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err);
    /* Lists one level below prefix (a directory key without trailing '/'; empty: the root), any order;
     * an absent directory lists as empty. Temporaries are listed too. */
    lk_rc (*list)(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
        size_t *count, lk_err *err);
    /* As list, but only the names: is_directory, size and modified_ms stay zero. NULL: list is used. */
    lk_rc (*list_names)(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
        size_t *count, lk_err *err);
    /* NULL: no cheaper than list_names. The first names in the order of their bytes, at least count_min of them when
     * there are so many. */
    lk_rc (*list_first)(lk_store *store, lk_bytes directory, size_t count_min, lk_arena *arena,
        lk_store_entry **entries, size_t *count, lk_err *err);
    /* NULL: nothing is ever put off. A store that was opened to sync late makes durable here, with their names,
     * all objects written through it so far; until then rule 2 does not hold for them. */
    lk_rc (*sync)(lk_store *store, lk_err *err);
    /* NULL: the store cannot. Gives an existing object a second name if that is free (*created). Visible at
     * once; durable after the next durable write or sync in its directory: only for names that can be given
     * again. LK_E_UNIMPLEMENTED where the file system has no links. */
    lk_rc (*alias)(lk_store *store, lk_bytes from, lk_bytes to, bool *created, lk_err *err);
    /* NULL: the store cannot. The one exception to rule 1: key names these bytes afterwards, whatever it named
     * before; readers see the old object or the new one, whole. For the few names that move (a tag). */
    lk_rc (*replace)(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err);
    /* NULL: replace. The same, neither durable nor awaited: for hints that readers do without. */
    lk_rc (*hint)(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err);
    /* NULL: nothing is written before it is published. See lk_store_stage. */
    lk_rc (*stage)(lk_store *store, lk_bytes key, lk_bytes bytes, lk_store_staged **out, lk_err *err);
    lk_rc (*remove)(lk_store *store, lk_bytes key, lk_err *err);
    lk_rc (*remove_tree)(lk_store *store, lk_bytes directory, lk_err *err);
    /* NULL: one after the other. Removes as `remove` does; after an error some may be gone. */
    lk_rc (*remove_many)(lk_store *store, const lk_bytes *keys, size_t count, lk_err *err);
    /* NULL: a crash leaves nothing but objects. Removes what writers left that began before this time (UTC, since
     * 1970) and never finished: nobody lists it, but it takes space. */
    lk_rc (*remove_unfinished)(lk_store *store, int64_t before_ms, size_t *count, lk_err *err);
    void (*close)(lk_store *store);
};

struct lk_store {
    const struct lk_store_ops *ops;
    lk_bytes                   uri; /* root, for messages to operators */
    bool                       far; /* calls wait for a network: who has several makes them side by side */
};
struct lk_store_reader {
    lk_store *store;
};
struct lk_store_writer {
    lk_store *store;
};

/* LK_E_INVALID_REQUEST unless key is a relative path of non-empty segments, none of them "." or "..". */
LK_MUST_CHECK lk_rc lk_store_key_check(lk_bytes key, lk_err *err);

/* Every call blocks, so each asserts that the caller holds no mutex. */
static inline LK_MUST_CHECK lk_rc lk_store_open_object(
    lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    lk_assert_no_mutex();
    return store->ops->open(store, key, out, size, err);
}
static inline LK_MUST_CHECK lk_rc lk_store_read(
    lk_store_reader *reader, const lk_store_range *ranges, size_t count, lk_err *err)
{
    lk_assert_no_mutex();
    return reader->store->ops->read(reader, ranges, count, err);
}
static inline void lk_store_reader_close(lk_store_reader *reader)
{
    if (reader != NULL) {
        reader->store->ops->reader_close(reader);
    }
}
/* A whole object, in the arena. LK_E_NOT_FOUND; LK_E_LIMIT when it has more than size_max bytes. */
LK_MUST_CHECK lk_rc lk_store_load(
    lk_store *store, lk_bytes key, uint64_t size_max, lk_arena *arena, lk_bytes *out, lk_err *err);
/* The same where absence is no error. */
LK_MUST_CHECK lk_rc lk_store_load_if_there(lk_store *store, lk_bytes key, uint64_t size_max, lk_arena *arena,
    lk_bytes *out, bool *found, lk_err *err);
/* Whether there is such an object, and what size it has (0: there is none). */
LK_MUST_CHECK lk_rc lk_store_look(lk_store *store, lk_bytes key, bool *found, uint64_t *size, lk_err *err);
/* Small objects, side by side where the store is far; absence is no error. All that is held at once is `count` times
 * LK_STORE_SMALL_BYTES at most: who asks for many charges it. */
LK_MUST_CHECK lk_rc lk_store_fetch(
    lk_store *store, lk_store_wanted *wanted, size_t count, lk_arena *arena, lk_err *err);
static inline LK_MUST_CHECK lk_rc lk_store_create(
    lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    lk_assert_no_mutex();
    return store->ops->create(store, key, out, err);
}
static inline LK_MUST_CHECK lk_rc lk_store_create_in_place(
    lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    lk_assert_no_mutex();
    return store->ops->create_in_place == NULL ? store->ops->create(store, key, out, err)
                                               : store->ops->create_in_place(store, key, out, err);
}
static inline LK_MUST_CHECK lk_rc lk_store_write(
    lk_store_writer *writer, const void *data, size_t size, lk_err *err)
{
    lk_assert_no_mutex();
    return writer->store->ops->write(writer, data, size, err);
}
static inline LK_MUST_CHECK lk_rc lk_store_finish(lk_store_writer *writer, lk_err *err)
{
    lk_assert_no_mutex();
    return writer->store->ops->finish(writer, err);
}
static inline void lk_store_abandon(lk_store_writer *writer)
{
    if (writer != NULL) {
        writer->store->ops->abandon(writer);
    }
}
static inline LK_MUST_CHECK lk_rc lk_store_put_if_absent(
    lk_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    lk_assert_no_mutex();
    return store->ops->put_if_absent(store, key, bytes, created, err);
}
static inline LK_MUST_CHECK lk_rc lk_store_list(lk_store *store, lk_bytes directory, lk_arena *arena,
    lk_store_entry **entries, size_t *count, lk_err *err)
{
    lk_assert_no_mutex();
    return store->ops->list(store, directory, arena, entries, count, err);
}
static inline LK_MUST_CHECK lk_rc lk_store_list_names(lk_store *store, lk_bytes directory, lk_arena *arena,
    lk_store_entry **entries, size_t *count, lk_err *err)
{
    return store->ops->list_names == NULL
               ? store->ops->list(store, directory, arena, entries, count, err)
               : store->ops->list_names(store, directory, arena, entries, count, err);
}
/* True where the first names can be had without reading all: ask for them with lk_store_list_first. */
static inline bool lk_store_lists_in_order(const lk_store *store)
{
    return store->ops->list_first != NULL;
}
static inline LK_MUST_CHECK lk_rc lk_store_list_first(lk_store *store, lk_bytes directory, size_t count_min,
    lk_arena *arena, lk_store_entry **entries, size_t *count, lk_err *err)
{
    return store->ops->list_first(store, directory, count_min, arena, entries, count, err);
}
static inline LK_MUST_CHECK lk_rc lk_store_remove_unfinished(
    lk_store *store, int64_t before_ms, size_t *count, lk_err *err)
{
    *count = 0;
    return store->ops->remove_unfinished == NULL
               ? LK_OK
               : store->ops->remove_unfinished(store, before_ms, count, err);
}
static inline LK_MUST_CHECK lk_rc lk_store_sync(lk_store *store, lk_err *err)
{
    return store->ops->sync == NULL ? LK_OK : store->ops->sync(store, err);
}
/* LK_E_UNIMPLEMENTED where the store cannot. */
LK_MUST_CHECK lk_rc lk_store_replace(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err);
/* The same, neither durable nor awaited where the store can do so: for what may as well be undone by a crash. */
LK_MUST_CHECK lk_rc lk_store_replace_soon(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err);
/* Best effort, so without an error. */
void lk_store_hint(lk_store *store, lk_bytes key, lk_bytes bytes);
/*
 * put_if_absent in two steps, for a commit: a store that syncs late makes the bytes durable with the next lk_store_sync,
 * along with what they refer to; then publish gives them their name, durably, if it is free. bytes are copied.
 */
LK_MUST_CHECK lk_rc lk_store_stage(
    lk_store *store, lk_bytes key, lk_bytes bytes, lk_store_staged **out, lk_err *err);
/* The same for a store that writes nothing before it is published. */
LK_MUST_CHECK lk_rc lk_store_stage_later(
    lk_store *store, lk_bytes key, lk_bytes bytes, lk_store_staged **out);
static inline LK_MUST_CHECK lk_rc lk_store_publish(lk_store_staged *staged, bool *created, lk_err *err)
{
    lk_assert_no_mutex();
    return staged->publish(staged, created, err);
}
/* As publish, but for a name that a crash may take back: nobody waits until it is durable. */
static inline LK_MUST_CHECK lk_rc lk_store_show(lk_store_staged *staged, bool *created, lk_err *err)
{
    lk_assert_no_mutex();
    return staged->show == NULL ? staged->publish(staged, created, err) : staged->show(staged, created, err);
}
static inline void lk_store_discard(lk_store_staged *staged)
{
    if (staged != NULL) {
        staged->discard(staged);
    }
}
/* By alias where the store can, else by put_if_absent of the same bytes. */
LK_MUST_CHECK lk_rc lk_store_name_again(
    lk_store *store, lk_bytes from, lk_bytes to, lk_bytes bytes, bool *created, lk_err *err);
static inline LK_MUST_CHECK lk_rc lk_store_remove(lk_store *store, lk_bytes key, lk_err *err)
{
    lk_assert_no_mutex();
    return store->ops->remove(store, key, err);
}
LK_MUST_CHECK lk_rc lk_store_remove_many(lk_store *store, const lk_bytes *keys, size_t count, lk_err *err);
static inline LK_MUST_CHECK lk_rc lk_store_remove_tree(lk_store *store, lk_bytes directory, lk_err *err)
{
    lk_assert_no_mutex();
    return store->ops->remove_tree(store, directory, err);
}
static inline void lk_store_close(lk_store *store)
{
    if (store != NULL) {
        store->ops->close(store);
    }
}

#endif
