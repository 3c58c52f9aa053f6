/*
 * ipc_encode.c - record and dictionary batches to messages (ipc.h).
 *
 * Invariants:
 *   1. Segments point into the batch; bytes are copied only for a bitmap that starts inside a byte and for
 *      offsets that do not start at 0.
 *   2. A dictionary is sent when its values differ from those sent last under its id. The encoder keeps the
 *      last batch alive, so equal pointers mean equal values; else digests of the encoded values decide.
 *   3. An inner dictionary goes before the outer one that uses it.
 * Threads: an encoder is confined.
 */
#include "arrow/bits.h"
#include "arrow/ipc_priv.h"
#include "base/hash.h"

#include <nanoarrow/flatcc_generated.h>
#include <stdlib.h>

#define ns(x) FLATBUFFERS_WRAP_NAMESPACE(org_apache_arrow_flatbuf, x)

enum { BODY_ALIGNMENT = 8 };

/* What was sent last under one id. */
typedef struct sent {
    const struct ArrowArray *values; /* inside the encoder's last batch */
    bool                     any;
    int64_t                  length;
    uint8_t                  digest[32];
} sent;

struct lk_ipc_encoder {
    struct ArrowSchema schema;
    flatcc_builder_t   builder;
    sent              *dictionaries;
    size_t             dictionary_count;
    lk_shared_array   *last;
    bool               for_file;
};

/* Copies that a message needs; chained. */
struct owned {
    struct owned *next;
};

/* One message while it is being made. */
typedef struct making {
    lk_ipc_message *message;
    size_t          segment_room;
    ns(FieldNode_t) * nodes;
    ns(Buffer_t) * buffers;
    size_t  node_count, node_room, buffer_count, buffer_room;
    lk_err *err;
} making;

static void *grow(void *block, size_t *room, size_t count, size_t size)
{
    if (count < *room) {
        return block;
    }
    *room = *room == 0 ? 16 : 2 * *room;
    void *more = realloc(block, *room * size);
    LK_ASSERT(more != NULL);
    return more;
}

/* -- buffers ----------------------------------------------------------------------------------------- */

static void add_node(making *m, int64_t length, int64_t nulls)
{
    m->nodes = grow(m->nodes, &m->node_room, m->node_count, sizeof *m->nodes);
    m->nodes[m->node_count].length = length;
    m->nodes[m->node_count++].null_count = nulls;
}

static void add_buffer(making *m, const void *data, size_t size)
{
    lk_ipc_message *message = m->message;
    m->buffers = grow(m->buffers, &m->buffer_room, m->buffer_count, sizeof *m->buffers);
    m->buffers[m->buffer_count].offset = (int64_t)message->body_size;
    m->buffers[m->buffer_count++].length = (int64_t)size;
    if (size == 0) {
        return;
    }
    size_t padding = -size & (BODY_ALIGNMENT - 1);
    message->segments =
        grow(message->segments, &m->segment_room, message->segment_count, sizeof(lk_ipc_segment));
    message->segments[message->segment_count++] = (lk_ipc_segment){data, size, padding};
    message->body_size += size + padding;
}

static lk_rc owned_new(making *m, size_t size, void **out)
{
    struct owned *block = malloc(sizeof *block + 8 + size);
    if (block == NULL) {
        return lk_fail(m->err, LK_E_LIMIT, "no memory for %zu bytes", size);
    }
    block->next = m->message->owned;
    m->message->owned = block;
    *out = block + 1;
    return LK_OK;
}

static lk_rc add_bits(making *m, const uint8_t *bits, int64_t start, int64_t count)
{
    size_t size = lk_bits_size(count);
    if (bits == NULL || count == 0) {
        add_buffer(m, NULL, 0);
        return LK_OK;
    }
    if (start % 8 == 0) {
        add_buffer(m, bits + start / 8, size);
        return LK_OK;
    }
    void *copy = NULL;
    lk_rc rc = owned_new(m, size, &copy);
    if (rc == LK_OK) {
        memset(copy, 0, size);
        lk_bits_copy(bits, start, copy, 0, count);
        add_buffer(m, copy, size);
    }
    return rc;
}

static inline int64_t offset_at(const void *offsets, bool wide, int64_t index)
{
    return wide ? ((const int64_t *)offsets)[index] : ((const int32_t *)offsets)[index];
}

/* Offsets of rows [start, start + count), from 0; *first and *end are where their items lie. */
static lk_rc add_offsets(
    making *m, const void *offsets, bool wide, int64_t start, int64_t count, int64_t *first, int64_t *end)
{
    static const int64_t zero = 0;
    size_t               width = wide ? 8 : 4, size = (size_t)(count + 1) * width;
    *first = *end = 0;
    if (count == 0) {
        add_buffer(m, &zero, width);
        return LK_OK;
    }
    *first = offset_at(offsets, wide, start);
    *end = offset_at(offsets, wide, start + count);
    if (*first == 0) {
        add_buffer(m, (const char *)offsets + (size_t)start * width, size);
        return LK_OK;
    }
    void *copy = NULL;
    lk_rc rc = owned_new(m, size, &copy);
    for (int64_t i = 0; rc == LK_OK && i <= count; i++) {
        int64_t moved = offset_at(offsets, wide, start + i) - *first;
        if (wide) {
            ((int64_t *)copy)[i] = moved;
        } else {
            ((int32_t *)copy)[i] = (int32_t)moved;
        }
    }
    if (rc == LK_OK) {
        add_buffer(m, copy, size);
    }
    return rc;
}

/* -- arrays ------------------------------------------------------------------------------------------ */

static lk_rc add_rows(making *m, const struct ArrowSchema *schema, const struct ArrowArray *array,
    int64_t start, int64_t count);

static int64_t nulls_in(const struct ArrowArray *array, int64_t at, int64_t count)
{
    const uint8_t *bits = lk_array_validity(array);
    if (bits == NULL) {
        return 0;
    }
    if (array->null_count > 0 && count == array->length) {
        return array->null_count;
    }
    return count - lk_bits_count(bits, at, count);
}

static lk_rc add_bytes(making *m, const struct ArrowArray *array, bool wide, int64_t at, int64_t count)
{
    int64_t first = 0, end = 0;
    lk_rc   rc = add_offsets(m, array->buffers[1], wide, at, count, &first, &end);
    if (rc == LK_OK) {
        const char *data = array->buffers[2];
        add_buffer(m, end > first ? data + first : NULL, (size_t)(end - first));
    }
    return rc;
}

static lk_rc add_list(making *m, const struct ArrowSchema *schema, const struct ArrowArray *array, bool wide,
    int64_t at, int64_t count)
{
    int64_t first = 0, end = 0;
    lk_rc   rc = add_offsets(m, array->buffers[1], wide, at, count, &first, &end);
    return rc == LK_OK ? add_rows(m, schema->children[0], array->children[0], first, end - first) : rc;
}

static lk_rc add_values(making *m, const struct ArrowSchema *schema, const lk_type *type,
    const struct ArrowArray *array, int64_t at, int64_t count)
{
    lk_rc rc = LK_OK;
    switch (type->layout) {
    case LK_LAYOUT_NULL:
        return LK_OK;
    case LK_LAYOUT_BITS:
        return add_bits(m, array->buffers[1], at, count);
    case LK_LAYOUT_FIXED: {
        const char *data = array->buffers[1];
        size_t      width = type->width, size = (size_t)count * width;
        add_buffer(m, size == 0 ? NULL : data + (size_t)at * width, size);
        return LK_OK;
    }
    case LK_LAYOUT_BYTES32:
    case LK_LAYOUT_BYTES64:
        return add_bytes(m, array, type->layout == LK_LAYOUT_BYTES64, at, count);
    case LK_LAYOUT_LIST32:
    case LK_LAYOUT_LIST64:
        return add_list(m, schema, array, type->layout == LK_LAYOUT_LIST64, at, count);
    case LK_LAYOUT_FIXED_LIST:
        return add_rows(
            m, schema->children[0], array->children[0], at * type->list_size, count * type->list_size);
    case LK_LAYOUT_STRUCT:
        for (int64_t i = 0; rc == LK_OK && i < schema->n_children; i++) {
            rc = add_rows(m, schema->children[i], array->children[i], at, count);
        }
        return rc;
    }
    return LK_OK;
}

/* A dense union, whole: its offsets point into children that are sent as they are. */
static lk_rc add_union(
    making *m, const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t at, int64_t count)
{
    if (at != 0 || count != array->length) {
        return lk_fail(m->err, LK_E_INVALID_SCHEMA, "a slice of a union in IPC");
    }
    add_node(m, count, 0);
    add_buffer(m, array->buffers[0], (size_t)count);
    add_buffer(m, array->buffers[1], (size_t)count * sizeof(int32_t));
    lk_rc rc = LK_OK;
    for (int64_t i = 0; rc == LK_OK && i < schema->n_children; i++) {
        rc = add_rows(m, schema->children[i], array->children[i], 0, array->children[i]->length);
    }
    return rc;
}

/* Adds rows [start, start + count) of array, counted from its own first row. */
static lk_rc add_rows(
    making *m, const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t start, int64_t count)
{
    lk_type type;
    if (lk_ipc_is_union(schema)) {
        return add_union(m, schema, array, array->offset + start, count);
    }
    if (!lk_type_of(schema, &type)) {
        return lk_fail(m->err, LK_E_INVALID_SCHEMA, "format %s in IPC", schema->format);
    }
    int64_t at = array->offset + start;
    if (type.layout == LK_LAYOUT_NULL) {
        add_node(m, count, count);
        return LK_OK;
    }
    int64_t nulls = nulls_in(array, at, count);
    add_node(m, count, nulls);
    lk_rc rc = add_bits(m, nulls == 0 ? NULL : array->buffers[0], at, count);
    return rc == LK_OK ? add_values(m, schema, &type, array, at, count) : rc;
}

/* -- headers ----------------------------------------------------------------------------------------- */

static void ok(int failed)
{
    LK_ASSERT(failed == 0); /* flatcc fails only when memory is out or it is misused */
}

static void write_batch(flatcc_builder_t *b, const making *m, int64_t rows)
{
    ok(ns(RecordBatch_length_add(b, rows)));
    ok(ns(RecordBatch_nodes_create(b, m->nodes, m->node_count)));
    ok(ns(RecordBatch_buffers_create(b, m->buffers, m->buffer_count)));
}

static void write_header(lk_ipc_encoder *encoder, making *m, int64_t rows, int64_t dictionary_id, bool delta)
{
    flatcc_builder_t *b = &encoder->builder;
    lk_ipc_message   *message = m->message;
    ok(flatcc_builder_reset(b));
    ok(ns(Message_start_as_root(b)));
    ok(ns(Message_version_add(b, ns(MetadataVersion_V5))));
    if (message->kind == LK_IPC_DICTIONARY) {
        ok(ns(Message_header_DictionaryBatch_start(b)));
        ok(ns(DictionaryBatch_id_add(b, dictionary_id)));
        ok(ns(DictionaryBatch_data_start(b)));
        write_batch(b, m, rows);
        ok(ns(DictionaryBatch_data_end(b)));
        ok(ns(DictionaryBatch_isDelta_add(b, delta)));
        ok(ns(Message_header_DictionaryBatch_end(b)));
    } else {
        ok(ns(Message_header_RecordBatch_start(b)));
        write_batch(b, m, rows);
        ok(ns(Message_header_RecordBatch_end(b)));
    }
    ok(ns(Message_bodyLength_add(b, (int64_t)message->body_size)));
    LK_ASSERT(ns(Message_end_as_root(b)) != 0);
    size_t size = flatcc_builder_get_buffer_size(b);
    char  *copy = malloc(size);
    LK_ASSERT(copy != NULL && flatcc_builder_copy_buffer(b, copy, size) != NULL);
    message->header = (lk_bytes){copy, size};
}

void lk_ipc_message_deinit(lk_ipc_message *message)
{
    free((void *)(uintptr_t)message->header.data);
    free(message->segments);
    lk_shared_array_unref(message->batch);
    struct owned *block = message->owned;
    while (block != NULL) {
        struct owned *next = block->next;
        free(block);
        block = next;
    }
    *message = (lk_ipc_message){0};
}

void lk_ipc_message_move(lk_ipc_message *from, lk_ipc_message *to)
{
    *to = *from;
    *from = (lk_ipc_message){0};
}

void lk_ipc_messages_free(lk_ipc_message *messages, size_t count)
{
    for (size_t i = 0; messages != NULL && i < count; i++) {
        lk_ipc_message_deinit(&messages[i]);
    }
    free(messages);
}

/* -- the list of messages of one batch --------------------------------------------------------------- */

typedef struct call {
    lk_ipc_encoder  *encoder;
    lk_shared_array *batch;
    lk_ipc_message  *messages;
    size_t           count, room;
    size_t           next_id;
    lk_err          *err;
} call;

static void push(call *c, lk_ipc_message *message)
{
    c->messages = grow(c->messages, &c->room, c->count, sizeof *c->messages);
    message->batch = lk_shared_array_ref(c->batch);
    lk_ipc_message_move(message, &c->messages[c->count++]);
}

static void making_done(making *m)
{
    free(m->nodes);
    free(m->buffers);
}

static void digest_of(const making *m, uint8_t digest[32])
{
    static const char zeros[BODY_ALIGNMENT] = {0};
    lk_sha256         hash;
    lk_sha256_init(&hash);
    lk_sha256_update(&hash, m->nodes, m->node_count * sizeof *m->nodes);
    lk_sha256_update(&hash, m->buffers, m->buffer_count * sizeof *m->buffers);
    for (size_t i = 0; i < m->message->segment_count; i++) {
        const lk_ipc_segment *segment = &m->message->segments[i];
        lk_sha256_update(&hash, segment->data, segment->size);
        lk_sha256_update(&hash, zeros, segment->padding);
    }
    lk_sha256_final(&hash, digest);
}

/* Encodes values [start, start + count) of a dictionary into *message, header excluded. */
static lk_rc make_values(call *c, const struct ArrowSchema *schema, const struct ArrowArray *values,
    int64_t start, int64_t count, lk_ipc_message *message, making *m)
{
    *message = (lk_ipc_message){.kind = LK_IPC_DICTIONARY};
    *m = (making){.message = message, .err = c->err};
    return add_rows(m, schema, values, start, count);
}

/* Whether the first `before->length` values are those that were sent. */
static lk_rc has_grown(call *c, const struct ArrowSchema *schema, const struct ArrowArray *values,
    const sent *before, bool *grown)
{
    *grown = false;
    if (values->length <= before->length) {
        return LK_OK;
    }
    lk_ipc_message message;
    making         m;
    uint8_t        digest[32];
    lk_rc          rc = make_values(c, schema, values, 0, before->length, &message, &m);
    if (rc == LK_OK) {
        digest_of(&m, digest);
        *grown = memcmp(digest, before->digest, 32) == 0;
    }
    making_done(&m);
    lk_ipc_message_deinit(&message);
    return rc;
}

static lk_rc send_values(call *c, const struct ArrowSchema *schema, const struct ArrowArray *values,
    size_t id, int64_t start, bool delta)
{
    lk_ipc_message message;
    making         m;
    lk_rc          rc = make_values(c, schema, values, start, values->length - start, &message, &m);
    if (rc == LK_OK) {
        write_header(c->encoder, &m, values->length - start, (int64_t)id, delta);
        push(c, &message);
    }
    making_done(&m);
    lk_ipc_message_deinit(&message);
    return rc;
}

/* A dictionary of a file that has other values than before: its tail, when only that is new. */
static lk_rc send_growth(
    call *c, const struct ArrowSchema *schema, const struct ArrowArray *values, size_t id)
{
    bool  grown = false;
    lk_rc rc = has_grown(c, schema, values, &c->encoder->dictionaries[id], &grown);
    if (rc == LK_OK && !grown) {
        rc = lk_fail(c->err, LK_E_UNSUPPORTED_FORMAT, "dictionary %zu changes inside a file", id);
        lk_detail(c->err, "an Arrow file cannot replace a dictionary; write a stream instead");
    }
    return rc == LK_OK ? send_values(c, schema, values, id, c->encoder->dictionaries[id].length, true) : rc;
}

/* Only for flat values: nested ones are compared by digest. Both arrays are alive, so equal is equal. */
static bool same_buffers(const struct ArrowArray *a, const struct ArrowArray *b)
{
    bool same = a->length == b->length && a->offset == b->offset && a->n_children == 0;
    for (int64_t i = 0; same && i < a->n_buffers; i++) {
        same = a->buffers[i] == b->buffers[i];
    }
    return same;
}

static lk_rc send_dictionary(
    call *c, const struct ArrowSchema *schema, const struct ArrowArray *values, size_t id, bool inner_sent)
{
    sent *before = &c->encoder->dictionaries[id];
    if (before->any && same_buffers(before->values, values)) {
        before->values = values;
        return LK_OK;
    }
    lk_ipc_message message;
    making         m;
    uint8_t        digest[32];
    lk_rc          rc = make_values(c, schema, values, 0, values->length, &message, &m);
    if (rc == LK_OK) {
        digest_of(&m, digest);
    }
    making_done(&m);
    lk_ipc_message_deinit(&message);
    /* in a file an inner dictionary only grows, so values that name its old entries still hold */
    bool same =
        before->any && memcmp(digest, before->digest, 32) == 0 && (!inner_sent || c->encoder->for_file);
    if (rc == LK_OK && !same) {
        rc = before->any && c->encoder->for_file ? send_growth(c, schema, values, id)
                                                 : send_values(c, schema, values, id, 0, false);
    }
    if (rc == LK_OK) {
        *before = (sent){.values = values, .any = true, .length = values->length};
        memcpy(before->digest, digest, 32);
    }
    return rc;
}

/* Walks a field and sends its dictionaries, inner ones first; ids in the walk order of lk_ipc_schema. */
static lk_rc send_dictionaries(call *c, const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    const struct ArrowSchema *parent = schema;
    const struct ArrowArray  *rows = array;
    size_t                    id = c->next_id, sent_before = c->count;
    if (schema->dictionary != NULL) {
        c->next_id++;
        parent = schema->dictionary;
        rows = array->dictionary;
    }
    lk_rc rc = LK_OK;
    for (int64_t i = 0; rc == LK_OK && i < parent->n_children; i++) {
        rc = send_dictionaries(c, parent->children[i], rows->children[i]);
    }
    if (rc == LK_OK && schema->dictionary != NULL) {
        rc = send_dictionary(c, schema->dictionary, rows, id, c->count > sent_before);
    }
    return rc;
}

static lk_rc send_batch(call *c)
{
    const struct ArrowArray  *batch = lk_shared_array_get(c->batch);
    const struct ArrowSchema *schema = &c->encoder->schema;
    lk_ipc_message            message = {.kind = LK_IPC_BATCH};
    making                    m = {.message = &message, .err = c->err};
    lk_rc                     rc = LK_OK;
    for (int64_t i = 0; rc == LK_OK && i < schema->n_children; i++) {
        rc = add_rows(&m, schema->children[i], batch->children[i], batch->offset, batch->length);
    }
    if (rc == LK_OK) {
        write_header(c->encoder, &m, batch->length, 0, false);
        push(c, &message);
    }
    making_done(&m);
    lk_ipc_message_deinit(&message);
    return rc;
}

/* -- the encoder ------------------------------------------------------------------------------------- */

static size_t count_dictionaries(const struct ArrowSchema *schema)
{
    size_t                    count = schema->dictionary == NULL ? 0 : 1;
    const struct ArrowSchema *parent = schema->dictionary == NULL ? schema : schema->dictionary;
    for (int64_t i = 0; i < parent->n_children; i++) {
        count += count_dictionaries(parent->children[i]);
    }
    return count;
}

lk_rc lk_ipc_encoder_new(const struct ArrowSchema *schema, lk_ipc_encoder **out, lk_err *err)
{
    lk_buf unused = {0};
    lk_rc  rc = lk_ipc_schema_encode(schema, LK_IPC_BARE, &unused, err); /* refuses what cannot be carried */
    lk_buf_deinit(&unused);
    if (rc != LK_OK) {
        return rc;
    }
    lk_ipc_encoder *encoder = calloc(1, sizeof *encoder);
    LK_ASSERT(encoder != NULL && flatcc_builder_init(&encoder->builder) == 0);
    encoder->dictionary_count = count_dictionaries(schema);
    encoder->dictionaries = calloc(encoder->dictionary_count + 1, sizeof *encoder->dictionaries);
    LK_ASSERT(encoder->dictionaries != NULL);
    rc = lk_schema_copy(schema, &encoder->schema, err);
    if (rc != LK_OK) {
        lk_ipc_encoder_free(encoder);
        return rc;
    }
    *out = encoder;
    return LK_OK;
}

void lk_ipc_encoder_for_file(lk_ipc_encoder *encoder)
{
    encoder->for_file = true;
}

void lk_ipc_encoder_restart(lk_ipc_encoder *encoder)
{
    memset(encoder->dictionaries, 0, encoder->dictionary_count * sizeof *encoder->dictionaries);
    lk_shared_array_unref(encoder->last);
    encoder->last = NULL;
}

void lk_ipc_encoder_free(lk_ipc_encoder *encoder)
{
    if (encoder == NULL) {
        return;
    }
    flatcc_builder_clear(&encoder->builder);
    lk_shared_array_unref(encoder->last);
    lk_schema_release(&encoder->schema);
    free(encoder->dictionaries);
    free(encoder);
}

lk_rc lk_ipc_encode(
    lk_ipc_encoder *encoder, lk_shared_array *batch, lk_ipc_message **messages, size_t *count, lk_err *err)
{
    const struct ArrowArray *rows = lk_shared_array_get(batch);
    call                     c = {.encoder = encoder, .batch = batch, .err = err};
    LK_ASSERT(rows->n_children == encoder->schema.n_children);
    lk_rc rc = LK_OK;
    for (int64_t i = 0; encoder->dictionary_count > 0 && rc == LK_OK && i < rows->n_children; i++) {
        rc = send_dictionaries(&c, encoder->schema.children[i], rows->children[i]);
    }
    if (rc == LK_OK) {
        rc = send_batch(&c);
    }
    if (encoder->dictionary_count > 0) {
        lk_shared_array_ref(batch);
        lk_shared_array_unref(encoder->last);
        encoder->last = batch;
    }
    if (rc != LK_OK) {
        lk_ipc_messages_free(c.messages, c.count);
        return rc;
    }
    *messages = c.messages;
    *count = c.count;
    return LK_OK;
}
