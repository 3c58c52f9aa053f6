/* pack.c - see batch.h: an array's buffers, one behind the other, in one block. */
#include "arrow/array_priv.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

/* The block is this and the buffers behind it. */
typedef struct pack {
    lk_keeper keeper;
    char     *at; /* the next buffer */
} pack;

static void free_pack(lk_keeper *keeper)
{
    free(keeper);
}

static size_t padded(size_t size)
{
    return (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* Of the whole tree; 0 and false when a type is not known. */
static bool tree_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array, size_t *bytes)
{
    lk_type type;
    bool    known = lk_type_of(schema, &type) && !type.dictionary;
    for (int64_t i = 0; known && i < array->n_buffers; i++) {
        *bytes += padded(lk_array_buffer_bytes(&type, array, i));
    }
    for (int64_t i = 0; known && i < array->n_children; i++) {
        known = tree_bytes(schema->children[i], array->children[i], bytes);
    }
    return known;
}

static void place(
    const struct ArrowSchema *schema, const struct ArrowArray *array, pack *into, struct ArrowArray *out)
{
    lk_type type;
    bool    known = lk_type_of(schema, &type);
    LK_ASSERT(known);
    lk_array_start(out, array->length, array->n_buffers, array->n_children, false);
    out->offset = array->offset;
    out->null_count = lk_array_may_hold_nulls(array) ? array->null_count : 0;
    for (int64_t i = 0; i < array->n_buffers; i++) {
        size_t size = lk_array_buffer_bytes(&type, array, i);
        if (size == 0 && (i == 0 || array->buffers[i] == NULL)) {
            continue;
        }
        lk_array_borrow(out, i, into->at);
        memcpy(into->at, array->buffers[i], size);
        memset(into->at + size, 0, padded(size) - size);
        into->at += padded(size);
    }
    for (int64_t i = 0; i < array->n_children; i++) {
        place(schema->children[i], array->children[i], into, out->children[i]);
    }
    lk_array_keep(out, &into->keeper);
}

lk_rc lk_array_pack(
    const struct ArrowSchema *schema, const struct ArrowArray *array, struct ArrowArray *out, lk_err *err)
{
    size_t bytes = padded(sizeof(pack)) + ALIGNMENT; /* whole vectors may be read behind the last buffer */
    if (!tree_bytes(schema, array, &bytes)) {
        return lk_fail(err, LK_E_UNIMPLEMENTED, "an array of a type that is not packed");
    }
    pack *into = aligned_alloc(ALIGNMENT, bytes);
    if (into == NULL) {
        return lk_fail(err, LK_E_LIMIT, "no memory for an array of %zu bytes", bytes);
    }
    lk_keeper_init(&into->keeper, free_pack);
    into->at = (char *)into + padded(sizeof *into);
    place(schema, array, into, out);
    memset(into->at, 0, ALIGNMENT);
    lk_keeper_unref(&into->keeper);
    return LK_OK;
}
