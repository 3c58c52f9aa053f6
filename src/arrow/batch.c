/* batch.c - see batch.h and array_priv.h. Holders, sharing, slices, streams in memory. */
#include "arrow/array_priv.h"

#include <stdlib.h>

struct lk_shared_array {
    lk_keeper         keeper;
    struct ArrowArray array;
};

/* One block: this, then the buffer pointers, the owned blocks, the children's pointers and the children. */
struct holder {
    lk_keeper        *keeper;
    void            **owned;
    int64_t           buffer_count;
    struct ArrowArray dictionary;
};

static void *must_calloc(size_t size)
{
    void *block = calloc(1, size);
    if (block == NULL) {
        abort();
    }
    return block;
}

/* -- keepers and blocks ------------------------------------------------------------------------------ */

void lk_keeper_init(lk_keeper *keeper, void (*free_keeper)(lk_keeper *keeper))
{
    atomic_init(&keeper->refs, 1);
    keeper->free = free_keeper;
}

void lk_keeper_ref(lk_keeper *keeper)
{
    atomic_fetch_add_explicit(&keeper->refs, 1, memory_order_relaxed);
}

void lk_keeper_unref(lk_keeper *keeper)
{
    if (keeper == NULL) {
        return;
    }
    unsigned before = atomic_fetch_sub_explicit(&keeper->refs, 1, memory_order_acq_rel);
    LK_ASSERT(before > 0);
    if (before == 1) {
        keeper->free(keeper);
    }
}

lk_rc lk_block_new(size_t size, void **out, lk_err *err)
{
    if (size > SIZE_MAX - 192) {
        return lk_fail(err, LK_E_LIMIT, "a buffer of %zu bytes", size);
    }
    size_t padded = (size + 63) & ~(size_t)63;
    char  *block = aligned_alloc(64, padded + 64);
    if (block == NULL) {
        return lk_fail(err, LK_E_LIMIT, "no memory for a buffer of %zu bytes", size);
    }
    memset(block + size, 0, padded + 64 - size);
    *out = block;
    return LK_OK;
}

lk_rc lk_block_zero(size_t size, void **out, lk_err *err)
{
    lk_rc rc = lk_block_new(size, out, err);
    if (rc == LK_OK) {
        memset(*out, 0, size);
    }
    return rc;
}

/* -- arrays ------------------------------------------------------------------------------------------ */

static void release_holder(struct ArrowArray *array)
{
    struct holder *holder = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        lk_array_release(array->children[i]);
    }
    lk_array_release(array->dictionary);
    for (int64_t i = 0; i < holder->buffer_count; i++) {
        free(holder->owned[i]);
    }
    lk_keeper_unref(holder->keeper);
    free(holder);
    array->release = NULL;
}

void lk_array_start(
    struct ArrowArray *out, int64_t length, int64_t buffer_count, int64_t child_count, bool dictionary)
{
    size_t         buffers = (size_t)buffer_count, children = (size_t)child_count;
    size_t         pointers = 2 * buffers + children;
    struct holder *holder =
        must_calloc(sizeof *holder + pointers * sizeof(void *) + children * sizeof(struct ArrowArray));
    void             **at = (void **)(holder + 1);
    struct ArrowArray *child = (struct ArrowArray *)(void *)(at + pointers);
    holder->owned = at + buffers;
    holder->buffer_count = buffer_count;
    *out = (struct ArrowArray){
        .length = length,
        .n_buffers = buffer_count,
        .n_children = child_count,
        .buffers = (const void **)at,
        .children = children == 0 ? NULL : (struct ArrowArray **)(at + 2 * buffers),
        .dictionary = dictionary ? &holder->dictionary : NULL,
        .release = release_holder,
        .private_data = holder,
    };
    for (size_t i = 0; i < children; i++) {
        out->children[i] = &child[i];
    }
}

void lk_array_own(struct ArrowArray *array, int64_t buffer, void *block)
{
    struct holder *holder = array->private_data;
    LK_ASSERT(array->release == release_holder && buffer < holder->buffer_count);
    free(holder->owned[buffer]);
    holder->owned[buffer] = block;
    array->buffers[buffer] = block;
}

void lk_array_borrow(struct ArrowArray *array, int64_t buffer, const void *data)
{
    array->buffers[buffer] = data;
}

void lk_array_keep(struct ArrowArray *array, lk_keeper *keeper)
{
    struct holder *holder = array->private_data;
    LK_ASSERT(array->release == release_holder && holder->keeper == NULL);
    lk_keeper_ref(keeper);
    holder->keeper = keeper;
}

void lk_array_mirror(const struct ArrowArray *array, lk_keeper *keeper, struct ArrowArray *out)
{
    lk_array_start(out, array->length, array->n_buffers, array->n_children, array->dictionary != NULL);
    out->offset = array->offset;
    out->null_count = array->null_count;
    for (int64_t i = 0; i < array->n_buffers; i++) {
        out->buffers[i] = array->buffers[i];
    }
    for (int64_t i = 0; i < array->n_children; i++) {
        lk_array_mirror(array->children[i], keeper, out->children[i]);
    }
    if (array->dictionary != NULL) {
        lk_array_mirror(array->dictionary, keeper, out->dictionary);
    }
    lk_array_keep(out, keeper);
}

void lk_array_release(struct ArrowArray *array)
{
    if (array != NULL && array->release != NULL) {
        array->release(array);
    }
}

void lk_schema_release(struct ArrowSchema *schema)
{
    if (schema != NULL && schema->release != NULL) {
        schema->release(schema);
    }
}

void lk_array_move(struct ArrowArray *from, struct ArrowArray *to)
{
    *to = *from;
    from->release = NULL;
}

void lk_schema_move(struct ArrowSchema *from, struct ArrowSchema *to)
{
    *to = *from;
    from->release = NULL;
}

lk_rc lk_schema_copy(const struct ArrowSchema *from, struct ArrowSchema *to, lk_err *err)
{
    if (ArrowSchemaDeepCopy(from, to) != NANOARROW_OK) {
        return lk_fail(err, LK_E_LIMIT, "no memory for a schema");
    }
    return LK_OK;
}

/* -- shared arrays and slices ------------------------------------------------------------------------ */

static void free_shared(lk_keeper *keeper)
{
    lk_shared_array *shared = (lk_shared_array *)keeper;
    lk_array_release(&shared->array);
    free(shared);
}

lk_shared_array *lk_array_share(struct ArrowArray *take)
{
    lk_shared_array *shared = must_calloc(sizeof *shared);
    lk_keeper_init(&shared->keeper, free_shared);
    lk_array_move(take, &shared->array);
    return shared;
}

lk_shared_array *lk_shared_array_ref(lk_shared_array *shared)
{
    lk_keeper_ref(&shared->keeper);
    return shared;
}

void lk_shared_array_unref(lk_shared_array *shared)
{
    if (shared != NULL) {
        lk_keeper_unref(&shared->keeper);
    }
}

const struct ArrowArray *lk_shared_array_get(const lk_shared_array *shared)
{
    return &shared->array;
}

lk_keeper *lk_shared_array_keeper(lk_shared_array *shared)
{
    return &shared->keeper;
}

/* Cuts a mirror to [offset, offset + length) of its own rows; a count of nulls is kept only if it must hold. */
static void cut(struct ArrowArray *array, int64_t offset, int64_t length)
{
    LK_ASSERT(offset >= 0 && length >= 0 && offset <= array->length - length);
    bool all_null = array->null_count == array->length && array->null_count > 0;
    if (length != array->length && array->null_count != 0) {
        array->null_count = all_null ? length : -1;
    }
    array->offset += offset;
    array->length = length;
}

void lk_shared_array_slice(lk_shared_array *shared, int64_t offset, int64_t length, struct ArrowArray *out)
{
    lk_array_mirror(&shared->array, &shared->keeper, out);
    cut(out, offset, length);
}

void lk_shared_batch_column(lk_shared_array *shared, size_t column, struct ArrowArray *out)
{
    const struct ArrowArray *batch = &shared->array;
    LK_ASSERT(column < (size_t)batch->n_children);
    lk_array_mirror(batch->children[column], &shared->keeper, out);
    cut(out, batch->offset, batch->length);
}

void lk_shared_batch_slice(lk_shared_array *shared, int64_t offset, int64_t length, struct ArrowArray *out)
{
    const struct ArrowArray *batch = &shared->array;
    LK_ASSERT(offset >= 0 && length >= 0 && offset <= batch->length - length);
    lk_array_start(out, length, 1, batch->n_children, false);
    for (int64_t i = 0; i < batch->n_children; i++) {
        lk_shared_batch_column(shared, (size_t)i, out->children[i]);
        cut(out->children[i], offset, length);
    }
}

void lk_batch_of_columns(struct ArrowArray *columns, size_t count, int64_t length, struct ArrowArray *out)
{
    lk_array_start(out, length, 1, (int64_t)count, false);
    for (size_t i = 0; i < count; i++) {
        LK_ASSERT(columns[i].release != NULL && columns[i].length == length);
        lk_array_move(&columns[i], out->children[i]);
    }
}

/* -- bytes ------------------------------------------------------------------------------------------- */

size_t lk_array_buffer_bytes(const lk_type *type, const struct ArrowArray *array, int64_t index)
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

static size_t value_bytes(const lk_type *type, const struct ArrowArray *array)
{
    size_t bytes = 0;
    for (int64_t i = 1; array->length > 0 && i < array->n_buffers; i++) {
        bytes += lk_array_buffer_bytes(type, array, i);
    }
    return bytes;
}

size_t lk_array_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    lk_type type;
    if (!lk_type_of(schema, &type)) {
        return 0;
    }
    size_t size = value_bytes(&type, array);
    if (type.layout != LK_LAYOUT_NULL && array->buffers[0] != NULL) {
        size += (size_t)(array->offset + array->length + 7) / 8;
    }
    for (int64_t i = 0; i < array->n_children && !type.dictionary; i++) {
        size += lk_array_bytes(schema->children[i], array->children[i]);
    }
    if (type.dictionary && array->dictionary != NULL) {
        size += lk_array_bytes(schema->dictionary, array->dictionary);
    }
    return size;
}

static uint64_t span_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array, bool wide,
    bool list, int64_t at, int64_t count)
{
    if (count == 0) {
        return 0;
    }
    const void *offsets = array->buffers[1];
    int64_t     first = wide ? ((const int64_t *)offsets)[at] : ((const int32_t *)offsets)[at];
    int64_t     end = wide ? ((const int64_t *)offsets)[at + count] : ((const int32_t *)offsets)[at + count];
    uint64_t items = list ? lk_array_range_bytes(schema->children[0], array->children[0], first, end - first)
                          : (uint64_t)(end - first);
    return items + (uint64_t)count * (wide ? 8 : 4);
}

uint64_t lk_array_range_bytes(
    const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t start, int64_t count)
{
    lk_type  type;
    int64_t  at = array->offset + start;
    uint64_t size = 0;
    if (!lk_type_of(schema, &type)) {
        return 0;
    }
    switch (type.layout) {
    case LK_LAYOUT_NULL:
        return 0;
    case LK_LAYOUT_BITS:
        return (uint64_t)(count + 7) / 8;
    case LK_LAYOUT_FIXED:
        return (uint64_t)count * type.width;
    case LK_LAYOUT_BYTES32:
    case LK_LAYOUT_BYTES64:
        return span_bytes(schema, array, type.layout == LK_LAYOUT_BYTES64, false, at, count);
    case LK_LAYOUT_LIST32:
    case LK_LAYOUT_LIST64:
        return span_bytes(schema, array, type.layout == LK_LAYOUT_LIST64, true, at, count);
    case LK_LAYOUT_FIXED_LIST:
        return lk_array_range_bytes(
            schema->children[0], array->children[0], at * type.list_size, count * type.list_size);
    case LK_LAYOUT_STRUCT:
        for (int64_t i = 0; i < schema->n_children; i++) {
            size += lk_array_range_bytes(schema->children[i], array->children[i], at, count);
        }
        return size;
    }
    return 0;
}

/* -- a stream in memory ------------------------------------------------------------------------------ */

struct memory_batches {
    lk_batches         base;
    struct ArrowArray *items;
    size_t             count, next;
};

static lk_rc memory_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    (void)err;
    struct memory_batches *self = (struct memory_batches *)batches;
    out->release = NULL;
    if (self->next < self->count) {
        lk_array_move(&self->items[self->next++], out);
    }
    return LK_OK;
}

static void memory_close(lk_batches *batches)
{
    struct memory_batches *self = (struct memory_batches *)batches;
    for (size_t i = self->next; i < self->count; i++) {
        lk_array_release(&self->items[i]);
    }
    lk_schema_release(&self->base.schema);
    free(self->items);
    free(self);
}

lk_batches *lk_batches_of(struct ArrowSchema *schema, struct ArrowArray *batches, size_t count)
{
    struct memory_batches *self = must_calloc(sizeof *self);
    self->base.next = memory_next;
    self->base.close = memory_close;
    lk_schema_move(schema, &self->base.schema);
    self->items = must_calloc((count + 1) * sizeof *self->items);
    self->count = count;
    for (size_t i = 0; i < count; i++) {
        lk_array_move(&batches[i], &self->items[i]);
    }
    return &self->base;
}
