#ifndef LK_IO_WRAP_H
#define LK_IO_WRAP_H
/*
 * wrap.h - the frame of a store around another one: it gives every call to the store beneath. Who builds on it says what happens
 * before and after a call, and replaces the operations that are different.
 *
 * Invariants:
 *   1. An operation that the store beneath lacks is lacking here too: it is then made of others of this store (store.c), as who
 *      replaces those wants them.
 *   2. enter runs before the call and may change what is asked; if it fails, the call is not made: a writer or a staged object
 *      that was to be ended is abandoned. leave runs after a call that was made, and says how it ended.
 *   3. Of a call that failed *created is false.
 *
 * Threads: as the store beneath; enter and leave run on the caller's thread.
 */
#include "io/store.h"

/* name, what people and fault plans call it, kind */
#define LK_STORE_VERBS(X)                          \
    X(OPEN, "open", LK_STORE_OPEN)                 \
    X(READ, "read", LK_STORE_READ)                 \
    X(FETCH, "fetch", LK_STORE_OPEN)               \
    X(CREATE, "create", LK_STORE_WRITE)            \
    X(WRITE, "write", LK_STORE_WRITE)              \
    X(FINISH, "finish", LK_STORE_WRITE)            \
    X(PUT, "put_if_absent", LK_STORE_WRITE)        \
    X(ALIAS, "alias", LK_STORE_WRITE)              \
    X(REPLACE, "replace", LK_STORE_WRITE)          \
    X(HINT, "hint", LK_STORE_WRITE)                \
    X(STAGE, "stage", LK_STORE_WRITE)              \
    X(PUBLISH, "publish", LK_STORE_WRITE)          \
    X(SYNC, "sync", LK_STORE_WRITE)                \
    X(LIST, "list", LK_STORE_LIST)                 \
    X(LIST_NAMES, "list names", LK_STORE_LIST)     \
    X(LIST_FIRST, "list first", LK_STORE_LIST)     \
    X(REMOVE, "remove", LK_STORE_REMOVE)           \
    X(REMOVE_TREE, "remove_tree", LK_STORE_REMOVE) \
    X(REMOVE_MANY, "remove_many", LK_STORE_REMOVE) \
    X(REMOVE_UNFINISHED, "remove_unfinished", LK_STORE_REMOVE)

typedef enum lk_store_verb {
#define X(name, text, kind) LK_STORE_VERB_##name,
    LK_STORE_VERBS(X)
#undef X
} lk_store_verb;

typedef enum lk_store_kind {
    LK_STORE_OPEN,
    LK_STORE_READ,
    LK_STORE_WRITE,
    LK_STORE_LIST,
    LK_STORE_REMOVE,
    LK_STORE_KINDS
} lk_store_kind;

const char   *lk_store_verb_name(lk_store_verb verb);
lk_store_kind lk_store_verb_kind(lk_store_verb verb);

typedef struct lk_store_call {
    lk_store_verb   verb;
    lk_bytes        key;   /* empty: none, as of what continues an object, and the root as of lists */
    lk_bytes        to;    /* of an alias */
    lk_bytes        bytes; /* what is written */
    const lk_bytes *keys;  /* of fetch and remove_many */
    size_t          key_count;
    uint64_t
        note; /* enter's own; what create or stage leaves here is there again in write, finish, publish */
    lk_arena arena; /* lives until the call has ended */
} lk_store_call;

typedef struct lk_wrap_store lk_wrap_store;
struct lk_wrap_store {
    lk_store            base; /* first: it is the store */
    struct lk_store_ops ops;
    lk_store           *under;
    bool                readers, writers; /* whether objects that are read, or written, come by here, too */
    lk_rc (*enter)(lk_wrap_store *self, lk_store_call *call, lk_err *err);           /* NULL: nothing */
    lk_rc (*leave)(lk_wrap_store *self, lk_store_call *call, lk_rc rc, lk_err *err); /* NULL: nothing */
};

/*
 * Makes *self, which is zero but for readers, writers, enter and leave, a store around under, which it borrows. Its owner then
 * replaces operations of self->ops, ops.close among them: that one is not there yet.
 */
void lk_wrap_store_init(lk_wrap_store *self, lk_store *under);

#endif
