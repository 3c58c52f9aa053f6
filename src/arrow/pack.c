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

/* How much of buffer `index` the rows need, those before the offset included. */
static size_t buffer_bytes(const lk_type *type, const struct ArrowArray *array, int64_t index)
{
    size_t end = (size_t)(array->offset + array->length);
    if (array->buffers[index] == NULL || type->layout == LK_LAYOUT_NULL) {
        return 0;
    }
    if (index == 0) {
        return lk_array_may_hold_nulls(array) ? (end + 7) / 8 : 0;
    }
    switch (type->layout) {
    case LK_LAYOUT_BITS:
        return (end + 7) / 8;
    case LK_LAYOUT_FIXED:
        return end * type->width;
    case LK_LAYOUT_LIST32:
        return (end + 1) * 4;
    case LK_LAYOUT_LIST64:
        return (end + 1) * 8;
    case LK_LAYOUT_BYTES32:
        return index == 1 ? (end + 1) * 4 : (size_t)((const int32_t *)array->buffers[1])[end];
    case LK_LAYOUT_BYTES64:
        return index == 1 ? (end + 1) * 8 : (size_t)((const int64_t *)array->buffers[1])[end];
    case LK_LAYOUT_NULL:
    case LK_LAYOUT_STRUCT:
    case LK_LAYOUT_FIXED_LIST:
        break;
    }
    return 0;
}

/* Of the whole tree; 0 and false when a type is not known. */
static bool tree_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array, size_t *bytes)
{
    lk_type type;
    bool    known = lk_type_of(schema, &type) && !type.dictionary;
    for (int64_t i = 0; known && i < array->n_buffers; i++) {
        *bytes += padded(buffer_bytes(&type, array, i));
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
        size_t size = buffer_bytes(&type, array, i);
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
