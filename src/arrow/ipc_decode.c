/*
 * ipc_decode.c - messages to arrays (ipc.h): the part of lake that strangers talk to first.
 *
 * Invariants:
 *   1. A buffer is used only after its offset and length were found inside the body, and long enough for the
 *      rows its node declares; node and buffer counts must be used up exactly.
 *   2. Null counts are counted, not believed. Then lk_array_validate checks offsets, indices and text.
 *   3. Buffers that lie misaligned for their values are copied to an aligned block of the body.
 * Threads: a decoder is confined.
 */
#include "arrow/bits.h"
#include "arrow/ipc_priv.h"
#include "arrow/schema.h"
#include "base/limits.h"

#include <stdlib.h>

enum { BATCH_ROWS, BATCH_NODES, BATCH_BUFFERS, BATCH_COMPRESSION, BATCH_VIEW_BUFFERS };
enum { DICTIONARY_ID, DICTIONARY_DATA, DICTIONARY_DELTA };
enum { NODE_BYTES = 16, BUFFER_BYTES = 16, VIEW_BYTES = 16, VIEW_INLINE = 12 };

typedef struct dictionary {
    int64_t                   id;
    const struct ArrowSchema *schema; /* of the values, inside the decoder's schema */
    lk_shared_array          *values; /* NULL: not received yet */
    size_t                    deltas, charged;
} dictionary;

struct lk_ipc_decoder {
    lk_ipc_options     options;
    lk_ipc_schema      tree;
    struct ArrowSchema plain;        /* with decode_dictionaries */
    dictionary        *dictionaries; /* one per id */
    size_t             dictionary_count;
    size_t            *field_dictionary; /* of each dictionary-encoded field, in walk order */
    bool               started, failed;
};

/* One record batch's data while it is read. */
typedef struct reading {
    lk_ipc_decoder *decoder;
    lk_ipc_body    *body;
    lk_flat_vector  nodes, buffers, view_buffers; /* the last: how many buffers each field of views has */
    uint32_t        node, buffer, view;
    int             codec;
    size_t          next_field; /* among dictionary-encoded fields */
    lk_err         *err;
} reading;

/* -- nodes and buffers ------------------------------------------------------------------------------- */

static lk_rc next_node(reading *r, int64_t *length, int64_t *nulls)
{
    if (r->node >= r->nodes.count) {
        return lk_ipc_bad(r->err, "a record batch has too few nodes for its schema");
    }
    const uint8_t *at = lk_flat_data(&r->nodes) + (size_t)r->node++ * NODE_BYTES;
    *length = (int64_t)lk_load_u64(at);
    *nulls = (int64_t)lk_load_u64(at + 8);
    if (*length < 0 || *length > LK_ARRAY_LENGTH_MAX || *nulls < 0 || *nulls > *length) {
        return lk_ipc_bad(r->err, "a node's length or null count is out of range");
    }
    return LK_OK;
}

/* The next buffer's bytes, decompressed; *data is NULL when it is empty. */
static lk_rc next_buffer(reading *r, const uint8_t **data, size_t *size)
{
    if (r->buffer >= r->buffers.count) {
        return lk_ipc_bad(r->err, "a record batch has too few buffers for its schema");
    }
    const uint8_t *at = lk_flat_data(&r->buffers) + (size_t)r->buffer++ * BUFFER_BYTES;
    int64_t        offset = (int64_t)lk_load_u64(at), length = (int64_t)lk_load_u64(at + 8);
    int64_t        body_size = (int64_t)lk_ipc_body_size(r->body);
    if (offset < 0 || length < 0 || offset > body_size || length > body_size - offset) {
        return lk_ipc_bad(r->err, "a buffer lies outside the message body");
    }
    const uint8_t *start = (const uint8_t *)lk_ipc_body_data(r->body) + offset;
    *data = length == 0 ? NULL : start;
    *size = (size_t)length;
    if (r->codec == LK_CODEC_NONE || length == 0) {
        return LK_OK;
    }
    return lk_ipc_decompress(r->body, r->codec, (lk_bytes){(const char *)start, *size}, data, size, r->err);
}

/* Moves data to an aligned block unless it stands at a multiple of alignment. */
static lk_rc align(reading *r, size_t alignment, const uint8_t **data, size_t size)
{
    if (*data == NULL || (uintptr_t)*data % alignment == 0) {
        return LK_OK;
    }
    void *copy = NULL;
    lk_rc rc = lk_ipc_body_extra(r->body, size, &copy, r->err);
    if (rc == LK_OK) {
        memcpy(copy, *data, size);
        *data = copy;
    }
    return rc;
}

/* Reads a buffer that must hold count values of width bytes each. */
static lk_rc values_buffer(reading *r, struct ArrowArray *out, int64_t buffer, int64_t count, size_t width)
{
    const uint8_t *data = NULL;
    size_t         size = 0, needed = 0;
    lk_rc          rc = next_buffer(r, &data, &size);
    if (rc != LK_OK) {
        return rc;
    }
    if (__builtin_mul_overflow((size_t)count, width, &needed) || needed > size) {
        return lk_ipc_bad(r->err, "a buffer is shorter than its rows need");
    }
    size_t alignment = width % 8 == 0 ? 8 : width % 4 == 0 ? 4 : width % 2 == 0 ? 2 : 1;
    rc = align(r, alignment, &data, needed);
    lk_array_borrow(out, buffer, data);
    return rc;
}

static lk_rc validity_buffer(reading *r, struct ArrowArray *out, int64_t declared_nulls)
{
    const uint8_t *data = NULL;
    size_t         size = 0;
    lk_rc          rc = next_buffer(r, &data, &size);
    if (rc != LK_OK) {
        return rc;
    }
    if (size == 0 || declared_nulls == 0) {
        return declared_nulls == 0 ? LK_OK : lk_ipc_bad(r->err, "a column has nulls but no validity bitmap");
    }
    if (size < lk_bits_size(out->length)) {
        return lk_ipc_bad(r->err, "a validity bitmap is shorter than its rows need");
    }
    out->null_count = out->length - lk_bits_count(data, 0, out->length);
    lk_array_borrow(out, 0, out->null_count == 0 ? NULL : data);
    return LK_OK;
}

/* Offsets of length rows; none need be there for no rows. *end is the last one. */
static lk_rc offsets_buffer(reading *r, struct ArrowArray *out, bool wide, int64_t *end)
{
    static const int64_t zero = 0;
    *end = 0;
    int64_t count = out->length == 0 ? 0 : out->length + 1;
    lk_rc   rc = values_buffer(r, out, 1, count, wide ? 8 : 4);
    if (rc != LK_OK) {
        return rc;
    }
    if (count == 0) {
        lk_array_borrow(out, 1, &zero);
        return LK_OK;
    }
    const void *offsets = out->buffers[1];
    *end = wide ? ((const int64_t *)offsets)[out->length] : ((const int32_t *)offsets)[out->length];
    return LK_OK;
}

static lk_rc bytes_buffers(reading *r, struct ArrowArray *out, bool wide)
{
    int64_t        end = 0;
    const uint8_t *data = NULL;
    size_t         size = 0;
    lk_rc          rc = offsets_buffer(r, out, wide, &end);
    if (rc == LK_OK) {
        rc = next_buffer(r, &data, &size);
    }
    if (rc == LK_OK && (end < 0 || (uint64_t)end > size)) {
        rc = lk_ipc_bad(r->err, "offsets reach beyond their data");
    }
    static const uint8_t none = 0;
    lk_array_borrow(out, 2, data == NULL ? &none : data);
    return rc;
}

/* -- views ------------------------------------------------------------------------------------------- */
/* The value of one row: inside its view, or in one of the field's buffers. */
static bool view_value(const uint8_t *view, const lk_bytes *buffers, size_t count, lk_bytes *out)
{
    uint32_t size = lk_load_u32(view);
    *out = (lk_bytes){(const char *)view + 4, size};
    if (size <= VIEW_INLINE) {
        return true;
    }
    uint32_t buffer = lk_load_u32(view + 8), offset = lk_load_u32(view + 12);
    if (buffer >= count || offset > buffers[buffer].size || size > buffers[buffer].size - offset) {
        return false;
    }
    out->data = buffers[buffer].data + offset;
    return true;
}

static bool is_valid(const struct ArrowArray *array, int64_t row)
{
    return array->buffers[0] == NULL || lk_bit(array->buffers[0], row);
}

/* Views become offsets and the bytes behind each other. */
static lk_rc gather_views(
    reading *r, struct ArrowArray *out, const uint8_t *views, const lk_bytes *buffers, size_t count)
{
    uint64_t total = 0;
    void    *offsets = NULL, *data = NULL;
    for (int64_t row = 0; row < out->length; row++) {
        lk_bytes value = {0};
        if (is_valid(out, row) && !view_value(views + row * VIEW_BYTES, buffers, count, &value)) {
            return lk_ipc_bad(r->err, "a view reaches beyond its buffer");
        }
        total += value.size;
    }
    if (total > INT32_MAX) {
        return lk_fail(r->err, LK_E_LIMIT, "views of more than 2 GiB in one record batch");
    }
    lk_rc rc = lk_ipc_body_extra(r->body, ((size_t)out->length + 1) * 4, &offsets, r->err);
    rc = rc == LK_OK ? lk_ipc_body_extra(r->body, (size_t)total + 1, &data, r->err) : rc;
    if (rc != LK_OK) {
        return rc;
    }
    int32_t *ends = offsets, end = 0;
    ends[0] = 0;
    for (int64_t row = 0; row < out->length; row++) {
        lk_bytes value = {0};
        if (is_valid(out, row) && view_value(views + row * VIEW_BYTES, buffers, count, &value) &&
            value.size > 0) {
            memcpy((char *)data + end, value.data, value.size);
            end += (int32_t)value.size;
        }
        ends[row + 1] = end;
    }
    lk_array_borrow(out, 1, offsets);
    lk_array_borrow(out, 2, data);
    return LK_OK;
}

static lk_rc view_buffers(reading *r, struct ArrowArray *out)
{
    const uint8_t *views = NULL;
    size_t         size = 0, count = 0;
    if (r->view >= r->view_buffers.count) {
        return lk_ipc_bad(r->err, "a record batch does not say how many buffers its views have");
    }
    uint64_t declared = lk_load_u64(lk_flat_data(&r->view_buffers) + (size_t)r->view++ * 8);
    lk_rc    rc = next_buffer(r, &views, &size);
    if (rc == LK_OK && (size / VIEW_BYTES < (size_t)out->length || declared > r->buffers.count - r->buffer)) {
        rc = lk_ipc_bad(r->err, "a record batch has too few views or buffers of views");
    }
    if (rc != LK_OK) {
        return rc;
    }
    lk_bytes *buffers = calloc((size_t)declared + 1, sizeof *buffers);
    LK_ASSERT(buffers != NULL);
    for (; rc == LK_OK && count < declared; count++) {
        const uint8_t *data = NULL;
        rc = next_buffer(r, &data, &size);
        buffers[count] = (lk_bytes){(const char *)data, data == NULL ? 0 : size};
    }
    rc = rc == LK_OK ? gather_views(r, out, views, buffers, count) : rc;
    free(buffers);
    return rc;
}

/* -- arrays ------------------------------------------------------------------------------------------ */

static lk_rc read_array(reading *r, const struct ArrowSchema *schema, struct ArrowArray *out);

static lk_rc read_values(
    reading *r, const struct ArrowSchema *schema, const lk_type *type, struct ArrowArray *out)
{
    int64_t end = 0;
    lk_rc   rc = LK_OK;
    switch (type->layout) {
    case LK_LAYOUT_NULL:
        out->null_count = out->length;
        return LK_OK;
    case LK_LAYOUT_BITS:
        return values_buffer(r, out, 1, (int64_t)lk_bits_size(out->length), 1);
    case LK_LAYOUT_FIXED:
        return values_buffer(r, out, 1, out->length, type->width);
    case LK_LAYOUT_BYTES32:
    case LK_LAYOUT_BYTES64:
        if (lk_ipc_schema_is_view(&r->decoder->tree, schema)) {
            return view_buffers(r, out);
        }
        return bytes_buffers(r, out, type->layout == LK_LAYOUT_BYTES64);
    case LK_LAYOUT_LIST32:
    case LK_LAYOUT_LIST64:
        rc = offsets_buffer(r, out, type->layout == LK_LAYOUT_LIST64, &end);
        break;
    case LK_LAYOUT_FIXED_LIST:
    case LK_LAYOUT_STRUCT:
        break;
    }
    for (int64_t i = 0; rc == LK_OK && i < schema->n_children; i++) {
        rc = read_array(r, schema->children[i], out->children[i]);
    }
    return rc;
}

/* Sets out->dictionary to what has been received under the field's id. */
static lk_rc attach_dictionary(reading *r, struct ArrowArray *out)
{
    dictionary *from = &r->decoder->dictionaries[r->decoder->field_dictionary[r->next_field++]];
    if (from->values == NULL) { /* allowed while every index is null; the validation decides */
        return lk_array_nulls(from->schema, 0, out->dictionary, r->err);
    }
    lk_array_mirror(lk_shared_array_get(from->values), lk_shared_array_keeper(from->values), out->dictionary);
    return LK_OK;
}

static size_t count_encoded(const struct ArrowSchema *schema)
{
    size_t                    count = schema->dictionary != NULL;
    const struct ArrowSchema *parent = schema->dictionary != NULL ? schema->dictionary : schema;
    for (int64_t i = 0; i < parent->n_children; i++) {
        count += count_encoded(parent->children[i]);
    }
    return count;
}

static lk_rc read_array(reading *r, const struct ArrowSchema *schema, struct ArrowArray *out)
{
    lk_type type;
    int64_t length = 0, nulls = 0;
    LK_ASSERT(lk_type_of(schema, &type)); /* the schema reader refused others */
    lk_rc rc = next_node(r, &length, &nulls);
    if (rc != LK_OK) {
        return rc;
    }
    lk_array_start(out, length, lk_layout_buffers(type.layout), type.dictionary ? 0 : schema->n_children,
        type.dictionary);
    lk_array_keep(out, lk_ipc_body_keeper(r->body));
    rc = type.layout == LK_LAYOUT_NULL ? LK_OK : validity_buffer(r, out, nulls);
    if (rc == LK_OK) {
        rc = read_values(r, schema, &type, out);
    }
    if (rc == LK_OK && type.dictionary) {
        rc = attach_dictionary(r, out);
        for (int64_t i = 0; i < schema->dictionary->n_children;
             i++) { /* their values came with the dictionary */
            r->next_field += count_encoded(schema->dictionary->children[i]);
        }
    }
    return rc;
}

/* -- record batches ---------------------------------------------------------------------------------- */

static lk_rc open_batch(reading *r, const lk_flat_table *batch, int64_t *rows)
{
    *rows = lk_flat_i64(batch, BATCH_ROWS, 0);
    r->nodes = lk_flat_vector_of(batch, BATCH_NODES, NODE_BYTES);
    r->buffers = lk_flat_vector_of(batch, BATCH_BUFFERS, BUFFER_BYTES);
    r->view_buffers = lk_flat_vector_of(batch, BATCH_VIEW_BUFFERS, 8);
    lk_flat_table compression = lk_flat_child(batch, BATCH_COMPRESSION);
    r->codec = LK_CODEC_NONE;
    if (lk_flat_present(&compression)) {
        r->codec = lk_flat_u8(&compression, 0, LK_CODEC_LZ4);
        if (lk_flat_u8(&compression, 1, 0) != 0 || r->codec > LK_CODEC_ZSTD) {
            return lk_ipc_bad(r->err, "an unknown compression");
        }
        if (r->decoder->options.refuse_compressed) {
            return lk_ipc_bad(
                r->err, "compressed record batches are not accepted here; send them uncompressed");
        }
    }
    if (batch->flat->bad || *rows < 0 || *rows > LK_ARRAY_LENGTH_MAX) {
        return lk_ipc_bad(r->err, "a record batch is malformed");
    }
    return LK_OK;
}

static lk_rc close_batch(reading *r)
{
    if (r->node != r->nodes.count || r->buffer != r->buffers.count || r->view != r->view_buffers.count) {
        return lk_ipc_bad(r->err, "a record batch has more nodes or buffers than its schema");
    }
    return LK_OK;
}

static lk_rc read_columns(reading *r, int64_t rows, struct ArrowArray *out)
{
    const struct ArrowSchema *schema = &r->decoder->tree.schema;
    lk_array_start(out, rows, 1, schema->n_children, false);
    lk_rc rc = LK_OK;
    for (int64_t i = 0; rc == LK_OK && i < schema->n_children; i++) {
        rc = read_array(r, schema->children[i], out->children[i]);
        if (rc == LK_OK && out->children[i]->length != rows) {
            rc = lk_ipc_bad(r->err, "column '%.100s' has %lld rows in a record batch of %lld",
                schema->children[i]->name, (long long)out->children[i]->length, (long long)rows);
        }
    }
    if (rc == LK_OK) {
        rc = close_batch(r);
    }
    return rc == LK_OK ? lk_array_validate(schema, out, r->err) : rc;
}

/* Dictionaries to values. The budget must have room for them; they are charged while they are made. */
static lk_rc plain_batch(
    lk_ipc_decoder *decoder, struct ArrowArray *made, struct ArrowArray *out, lk_err *err)
{
    lk_budget *budget = decoder->options.budget;
    uint64_t   size = lk_dictionaries_decoded_bytes(&decoder->tree.schema, made);
    lk_rc      rc = budget == NULL ? LK_OK : lk_budget_take(budget, (size_t)size, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = lk_array_decode_dictionaries(&decoder->tree.schema, made, out, err);
    if (budget != NULL) {
        lk_budget_give(budget, (size_t)size);
    }
    return rc;
}

static lk_rc take_batch(lk_ipc_decoder *decoder, const lk_flat_table *table, lk_ipc_body *body,
    struct ArrowArray *out, lk_err *err)
{
    reading           r = {.decoder = decoder, .body = body, .err = err};
    struct ArrowArray made = {0};
    int64_t           rows = 0;
    lk_rc             rc = open_batch(&r, table, &rows);
    if (rc == LK_OK) {
        rc = read_columns(&r, rows, &made);
    }
    if (rc == LK_OK && decoder->options.decode_dictionaries && decoder->tree.id_count > 0) {
        rc = plain_batch(decoder, &made, out, err);
    } else if (rc == LK_OK) {
        lk_array_move(&made, out);
    }
    lk_array_release(&made);
    return rc;
}

/* -- dictionaries ------------------------------------------------------------------------------------ */

static dictionary *find_dictionary(lk_ipc_decoder *decoder, int64_t id)
{
    for (size_t i = 0; i < decoder->dictionary_count; i++) {
        if (decoder->dictionaries[i].id == id) {
            return &decoder->dictionaries[i];
        }
    }
    return NULL;
}

/* The walk position of the first dictionary-encoded field below the values of dictionary `of`. */
static size_t first_inner_field(const lk_ipc_decoder *decoder, const dictionary *of)
{
    for (size_t i = 0; i < decoder->tree.id_count; i++) {
        if (&decoder->dictionaries[decoder->field_dictionary[i]] == of) {
            return i + 1;
        }
    }
    return 0;
}

static void drop_values(lk_ipc_decoder *decoder, dictionary *entry)
{
    lk_shared_array_unref(entry->values);
    entry->values = NULL;
    if (decoder->options.budget != NULL) {
        lk_budget_give(decoder->options.budget, entry->charged);
    }
    entry->charged = 0;
}

/* Joins new values to those that are there; the joined copy is charged while it is the current one. */
static lk_rc append_values(lk_ipc_decoder *decoder, dictionary *entry, struct ArrowArray *more, lk_err *err)
{
    const struct ArrowArray parts[] = {*lk_shared_array_get(entry->values), *more}; /* borrowed */
    struct ArrowArray       joined;
    if (++entry->deltas > LK_IPC_DELTAS_MAX) {
        return lk_ipc_bad(err, "more than %d deltas to one dictionary", LK_IPC_DELTAS_MAX);
    }
    size_t size = lk_array_bytes(entry->schema, &parts[0]) + lk_array_bytes(entry->schema, more);
    lk_rc  rc = decoder->options.budget == NULL ? LK_OK : lk_budget_take(decoder->options.budget, size, err);
    if (rc != LK_OK) {
        return rc;
    }
    rc = lk_array_concat(entry->schema, parts, 2, &joined, err);
    if (rc != LK_OK) {
        if (decoder->options.budget != NULL) {
            lk_budget_give(decoder->options.budget, size);
        }
        return rc;
    }
    drop_values(decoder, entry);
    entry->charged = size;
    entry->values = lk_array_share(&joined);
    return LK_OK;
}

static lk_rc take_dictionary(
    lk_ipc_decoder *decoder, const lk_flat_table *table, lk_ipc_body *body, lk_err *err)
{
    int64_t       id = lk_flat_i64(table, DICTIONARY_ID, 0), rows = 0;
    bool          delta = lk_flat_u8(table, DICTIONARY_DELTA, 0) != 0;
    lk_flat_table data = lk_flat_child(table, DICTIONARY_DATA);
    dictionary   *entry = find_dictionary(decoder, id);
    if (table->flat->bad || !lk_flat_present(&data)) {
        return lk_ipc_bad(err, "a dictionary batch is malformed");
    }
    if (entry == NULL) {
        return lk_ipc_bad(err, "a dictionary batch has an id that the schema does not name");
    }
    reading r = {
        .decoder = decoder, .body = body, .next_field = first_inner_field(decoder, entry), .err = err};
    struct ArrowArray values = {0};
    lk_rc             rc = open_batch(&r, &data, &rows);
    if (rc == LK_OK) {
        rc = read_array(&r, entry->schema, &values);
    }
    if (rc == LK_OK && values.length != rows) {
        rc = lk_ipc_bad(err, "a dictionary batch has another length than its values");
    }
    if (rc == LK_OK) {
        rc = close_batch(&r);
    }
    if (rc == LK_OK) {
        rc = lk_array_validate(entry->schema, &values, err);
    }
    if (rc == LK_OK && delta && entry->values != NULL) {
        rc = append_values(decoder, entry, &values, err);
    } else if (rc == LK_OK) {
        drop_values(decoder, entry);
        entry->values = lk_array_share(&values);
    }
    lk_array_release(&values);
    return rc;
}

/* -- the schema -------------------------------------------------------------------------------------- */

/* Gathers the values' schemas of dictionary-encoded fields, in walk order. */
static void list_values(const struct ArrowSchema *schema, const struct ArrowSchema **out, size_t *count)
{
    const struct ArrowSchema *parent = schema;
    if (schema->dictionary != NULL) {
        parent = schema->dictionary;
        out[(*count)++] = parent;
    }
    for (int64_t i = 0; i < parent->n_children; i++) {
        list_values(parent->children[i], out, count);
    }
}

static bool same_values(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    lk_buf one = {0}, two = {0};
    lk_type_format(a, &one);
    lk_type_format(b, &two);
    bool same = lk_bytes_equal(lk_buf_view(&one), lk_buf_view(&two));
    lk_buf_deinit(&one);
    lk_buf_deinit(&two);
    return same;
}

/* Fields that share an id must share the type of its values, and hold no dictionary inside. */
static lk_rc add_dictionary(
    lk_ipc_decoder *decoder, size_t field, const struct ArrowSchema *values, lk_err *err)
{
    dictionary *entry = find_dictionary(decoder, decoder->tree.ids[field]);
    if (entry == NULL) {
        entry = &decoder->dictionaries[decoder->dictionary_count++];
        *entry = (dictionary){.id = decoder->tree.ids[field], .schema = values};
    } else if (!same_values(entry->schema, values) || count_encoded(values) > 0) {
        return lk_ipc_bad(err, "two columns of different types share dictionary %lld", (long long)entry->id);
    }
    decoder->field_dictionary[field] = (size_t)(entry - decoder->dictionaries);
    return LK_OK;
}

lk_rc lk_ipc_decoder_take_schema(lk_ipc_decoder *decoder, lk_ipc_schema *schema, lk_err *err)
{
    decoder->tree = *schema;
    *schema = (lk_ipc_schema){0};
    size_t                     count = decoder->tree.id_count, listed = 0;
    const struct ArrowSchema **values = calloc(count + 1, sizeof *values);
    decoder->dictionaries = calloc(count + 1, sizeof *decoder->dictionaries);
    decoder->field_dictionary = calloc(count + 1, sizeof *decoder->field_dictionary);
    LK_ASSERT(values != NULL && decoder->dictionaries != NULL && decoder->field_dictionary != NULL);
    list_values(&decoder->tree.schema, values, &listed);
    LK_ASSERT(listed == count);
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = add_dictionary(decoder, i, values[i], err);
    }
    free(values);
    if (rc == LK_OK && decoder->options.decode_dictionaries) {
        rc = lk_schema_decode_dictionaries(&decoder->tree.schema, &decoder->plain, err);
    }
    decoder->started = rc == LK_OK;
    return rc;
}

static lk_rc take_schema(lk_ipc_decoder *decoder, const lk_flat_table *table, lk_err *err)
{
    lk_ipc_schema schema;
    if (decoder->started) {
        return lk_ipc_bad(err, "a second schema message");
    }
    lk_rc rc = lk_ipc_schema_read(table, &schema, err);
    return rc == LK_OK ? lk_ipc_decoder_take_schema(decoder, &schema, err) : rc;
}

/* -- the decoder ------------------------------------------------------------------------------------- */

lk_rc lk_ipc_decoder_new(const lk_ipc_options *options, lk_ipc_decoder **out, lk_err *err)
{
    (void)err;
    lk_ipc_decoder *decoder = calloc(1, sizeof *decoder);
    LK_ASSERT(decoder != NULL);
    if (options != NULL) {
        decoder->options = *options;
    }
    *out = decoder;
    return LK_OK;
}

void lk_ipc_decoder_free(lk_ipc_decoder *decoder)
{
    if (decoder == NULL) {
        return;
    }
    for (size_t i = 0; i < decoder->dictionary_count; i++) {
        drop_values(decoder, &decoder->dictionaries[i]);
    }
    free(decoder->dictionaries);
    free(decoder->field_dictionary);
    lk_schema_release(&decoder->plain);
    lk_ipc_schema_deinit(&decoder->tree);
    free(decoder);
}

const struct ArrowSchema *lk_ipc_decoder_schema(const lk_ipc_decoder *decoder)
{
    if (!decoder->started) {
        return NULL;
    }
    return decoder->options.decode_dictionaries ? &decoder->plain : &decoder->tree.schema;
}

static lk_ipc_kind kind_of(int tag)
{
    return tag == LK_MESSAGE_SCHEMA       ? LK_IPC_SCHEMA
           : tag == LK_MESSAGE_DICTIONARY ? LK_IPC_DICTIONARY
                                          : LK_IPC_BATCH;
}

lk_rc lk_ipc_peek(lk_bytes header, lk_ipc_header *out, lk_err *err)
{
    lk_ipc_envelope envelope;
    lk_rc           rc = lk_ipc_envelope_open(header, &envelope, err);
    if (rc == LK_OK) {
        *out = (lk_ipc_header){kind_of(envelope.tag), envelope.body_size};
    }
    return rc;
}

static lk_rc take_message(lk_ipc_decoder *decoder, const lk_ipc_envelope *envelope, lk_ipc_body *body,
    struct ArrowArray *batch, lk_err *err)
{
    if (lk_ipc_body_size(body) != envelope->body_size) {
        return lk_ipc_bad(err, "a message body has %zu bytes where %llu are declared", lk_ipc_body_size(body),
            (unsigned long long)envelope->body_size);
    }
    if (envelope->tag == LK_MESSAGE_SCHEMA) {
        return take_schema(decoder, &envelope->header, err);
    }
    if (!decoder->started) {
        return lk_ipc_bad(err, "the first message is not a schema");
    }
    return envelope->tag == LK_MESSAGE_DICTIONARY ? take_dictionary(decoder, &envelope->header, body, err)
                                                  : take_batch(decoder, &envelope->header, body, batch, err);
}

lk_rc lk_ipc_decode(lk_ipc_decoder *decoder, lk_bytes header, lk_ipc_body *body, lk_ipc_kind *kind,
    struct ArrowArray *batch, lk_err *err)
{
    lk_ipc_envelope envelope;
    lk_ipc_body    *none = NULL;
    batch->release = NULL;
    lk_rc rc = decoder->failed ? lk_ipc_bad(err, "the stream has already failed")
                               : lk_ipc_envelope_open(header, &envelope, err);
    if (rc == LK_OK && body == NULL) {
        rc = lk_ipc_body_new(0, NULL, &none, err);
        body = none;
    }
    if (rc == LK_OK) {
        *kind = kind_of(envelope.tag);
        rc = take_message(decoder, &envelope, body, batch, err);
    }
    lk_ipc_body_unref(none);
    decoder->failed = rc != LK_OK;
    return rc;
}
