/* ipc_dictionary.c - dictionary arrays to plain values, at any depth (ipc.h). Threads: stateless. */
#include "arrow/bits.h"
#include "arrow/gather_priv.h"
#include "arrow/ipc_priv.h"
#include "base/limits.h"

#include <stdlib.h>

static bool has_dictionary(const struct ArrowSchema *schema)
{
    bool found = schema->dictionary != NULL;
    for (int64_t i = 0; !found && i < schema->n_children; i++) {
        found = has_dictionary(schema->children[i]);
    }
    return found;
}

/* Makes *schema, which is ours, plain in place. */
static lk_rc make_plain(struct ArrowSchema *schema, lk_err *err)
{
    lk_rc rc = LK_OK;
    while (rc == LK_OK && schema->dictionary != NULL) {
        struct ArrowSchema values;
        rc = lk_schema_copy(schema->dictionary, &values, err);
        if (rc == LK_OK) {
            values.flags = (values.flags & ~ARROW_FLAG_NULLABLE) | (schema->flags & ARROW_FLAG_NULLABLE);
            LK_ASSERT(ArrowSchemaSetName(&values, schema->name) == NANOARROW_OK);
            LK_ASSERT(ArrowSchemaSetMetadata(&values, schema->metadata) == NANOARROW_OK);
            lk_schema_release(schema);
            lk_schema_move(&values, schema);
        }
    }
    for (int64_t i = 0; rc == LK_OK && i < schema->n_children; i++) {
        rc = make_plain(schema->children[i], err);
    }
    return rc;
}

lk_rc lk_schema_decode_dictionaries(const struct ArrowSchema *schema, struct ArrowSchema *out, lk_err *err)
{
    lk_rc rc = lk_schema_copy(schema, out, err);
    if (rc == LK_OK) {
        rc = make_plain(out, err);
    }
    if (rc != LK_OK) {
        lk_schema_release(out);
    }
    return rc;
}

static int64_t index_at(const lk_type *type, const void *indices, int64_t at)
{
    switch (type->width) {
    case 1:
        return ((const uint8_t *)indices)[at];
    case 2:
        return ((const uint16_t *)indices)[at];
    case 4:
        return ((const uint32_t *)indices)[at];
    default:
        return ((const int64_t *)indices)[at];
    }
}

uint64_t lk_dictionaries_decoded_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    uint64_t size = 0;
    lk_type  type;
    if (schema->dictionary == NULL) {
        for (int64_t i = 0; i < schema->n_children; i++) {
            size += lk_dictionaries_decoded_bytes(schema->children[i], array->children[i]);
        }
        return size;
    }
    LK_ASSERT(lk_type_of(schema, &type));
    const uint8_t *validity = lk_array_validity(array);
    for (int64_t i = 0; i < array->length; i++) {
        if (lk_bit_or_one(validity, array->offset + i)) {
            int64_t row = index_at(&type, array->buffers[1], array->offset + i);
            size += lk_array_range_bytes(schema->dictionary, array->dictionary, row, 1);
        }
    }
    return size;
}

/* The values each row names, gathered; a null index gives null. Indices were validated, so none is negative. */
static lk_rc decode_indices(
    const struct ArrowSchema *schema, const struct ArrowArray *array, struct ArrowArray *out, lk_err *err)
{
    lk_type type;
    LK_ASSERT(lk_type_of(schema, &type) && type.dictionary);
    int64_t *rows = malloc((size_t)(array->length + 1) * sizeof *rows);
    if (rows == NULL) {
        return lk_fail(err, LK_E_LIMIT, "no memory to decode %lld rows", (long long)array->length);
    }
    const uint8_t *validity = lk_array_validity(array);
    for (int64_t i = 0; i < array->length; i++) {
        bool valid = lk_bit_or_one(validity, array->offset + i);
        rows[i] = valid ? index_at(&type, array->buffers[1], array->offset + i) : -1;
    }
    lk_rc rc = lk_array_take(schema->dictionary, array->dictionary, rows, array->length, out, err);
    free(rows);
    return rc;
}

/* Replaces *array, owned, by its plain form. */
static lk_rc decode_in_place(const struct ArrowSchema *schema, struct ArrowArray *array, lk_err *err)
{
    lk_rc rc = LK_OK;
    if (schema->dictionary != NULL) {
        struct ArrowArray values;
        rc = decode_indices(schema, array, &values, err);
        if (rc != LK_OK) {
            return rc;
        }
        lk_array_release(array);
        lk_array_move(&values, array);
        return decode_in_place(schema->dictionary, array, err);
    }
    for (int64_t i = 0; rc == LK_OK && i < schema->n_children; i++) {
        if (has_dictionary(schema->children[i])) {
            rc = decode_in_place(schema->children[i], array->children[i], err);
        }
    }
    return rc;
}

lk_rc lk_array_decode_dictionaries(
    const struct ArrowSchema *schema, struct ArrowArray *take, struct ArrowArray *out, lk_err *err)
{
    struct ArrowArray array;
    lk_array_move(take, &array);
    out->release = NULL;
    uint64_t size = lk_dictionaries_decoded_bytes(schema, &array);
    lk_rc    rc = LK_OK;
    if (size > LK_IPC_BODY_BYTES_MAX) { /* few bytes on the wire can name a long value many times */
        rc = lk_fail(err, LK_E_LIMIT, "decoded dictionaries of %llu bytes", (unsigned long long)size);
    } else {
        rc = decode_in_place(schema, &array, err);
    }
    if (rc == LK_OK) {
        lk_array_move(&array, out);
    }
    lk_array_release(&array);
    return rc;
}
