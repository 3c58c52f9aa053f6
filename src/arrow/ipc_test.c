/*
 * ipc_test.c - messages made by hand, as a hostile peer would; what the encoder copies; budgets (ipc.h).
 * Agreement with other implementations is tests/interop/test_arrow_ipc.py.
 */
#include "arrow/ipc.h"

#include "arrow/array_fixture.h"
#include "arrow/schema.h"
#include "base/limits.h"

#include <nanoarrow/flatcc_generated.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* after the above: cmocka.h needs them */
#include <cmocka.h>

#define ns(x) FLATBUFFERS_WRAP_NAMESPACE(org_apache_arrow_flatbuf, x)

/* -- making messages ---------------------------------------------------------------------------------- */

typedef struct hostile { /* one record or dictionary batch; whatever it claims is written */
    bool    dictionary, delta, compressed;
    int64_t id, rows, body_size;
    int64_t nodes[8], buffers[16]; /* pairs: length and nulls; offset and length */
    size_t  node_count, buffer_count;
} hostile;

static void write_batch(flatcc_builder_t *b, const hostile *h)
{
    ns(FieldNode_t) nodes[4];
    ns(Buffer_t) buffers[8];
    for (size_t i = 0; i < h->node_count; i++) {
        nodes[i].length = h->nodes[2 * i];
        nodes[i].null_count = h->nodes[2 * i + 1];
    }
    for (size_t i = 0; i < h->buffer_count; i++) {
        buffers[i].offset = h->buffers[2 * i];
        buffers[i].length = h->buffers[2 * i + 1];
    }
    ns(RecordBatch_length_add(b, h->rows));
    ns(RecordBatch_nodes_create(b, nodes, h->node_count));
    ns(RecordBatch_buffers_create(b, buffers, h->buffer_count));
    if (h->compressed) {
        ns(RecordBatch_compression_create(b, ns(CompressionType_ZSTD), ns(BodyCompressionMethod_BUFFER)));
    }
}

/* The bare header; freed by the caller with free. */
static lk_bytes make_message(const hostile *h)
{
    flatcc_builder_t builder, *b = &builder;
    size_t           size = 0;
    flatcc_builder_init(b);
    ns(Message_start_as_root(b));
    ns(Message_version_add(b, ns(MetadataVersion_V5)));
    if (h->dictionary) {
        ns(Message_header_DictionaryBatch_start(b));
        ns(DictionaryBatch_id_add(b, h->id));
        ns(DictionaryBatch_data_start(b));
        write_batch(b, h);
        ns(DictionaryBatch_data_end(b));
        ns(DictionaryBatch_isDelta_add(b, h->delta));
        ns(Message_header_DictionaryBatch_end(b));
    } else {
        ns(Message_header_RecordBatch_start(b));
        write_batch(b, h);
        ns(Message_header_RecordBatch_end(b));
    }
    ns(Message_bodyLength_add(b, h->body_size));
    ns(Message_end_as_root(b));
    void *data = flatcc_builder_finalize_buffer(b, &size);
    flatcc_builder_clear(b);
    return (lk_bytes){data, size};
}

static lk_ipc_decoder *decoder_of(const char *const *columns, const lk_ipc_options *options)
{
    struct ArrowSchema schema = make_schema(columns);
    struct ArrowArray  none;
    lk_buf             header = {0};
    lk_ipc_decoder    *decoder = NULL;
    lk_ipc_kind        kind;
    lk_err             err = {0};
    assert_int_equal(lk_ipc_schema_encode(&schema, LK_IPC_BARE, &header, &err), LK_OK);
    assert_int_equal(lk_ipc_decoder_new(options, &decoder, &err), LK_OK);
    assert_int_equal(lk_ipc_decode(decoder, lk_buf_view(&header), NULL, &kind, &none, &err), LK_OK);
    assert_int_equal(kind, LK_IPC_SCHEMA);
    lk_buf_deinit(&header);
    lk_schema_release(&schema);
    return decoder;
}

/* Sends one hostile message (body_size zeros for a body, or body) and expects its refusal. */
static void expect_refused(
    const char *column, const lk_ipc_options *options, const hostile *h, const void *body, const char *detail)
{
    lk_ipc_decoder   *decoder = decoder_of((const char *[]){column, NULL}, options);
    lk_bytes          header = make_message(h);
    lk_ipc_body      *memory = NULL;
    struct ArrowArray batch;
    lk_ipc_kind       kind;
    lk_err            err = {0};
    assert_int_equal(lk_ipc_body_new((size_t)h->body_size, NULL, &memory, &err), LK_OK);
    memset(lk_ipc_body_data(memory), 0, (size_t)h->body_size);
    if (body != NULL) {
        memcpy(lk_ipc_body_data(memory), body, (size_t)h->body_size);
    }
    assert_int_equal(lk_ipc_decode(decoder, header, memory, &kind, &batch, &err), LK_E_INVALID_IPC);
    assert_string_equal(err.detail, detail);
    assert_null(batch.release);
    lk_ipc_body_unref(memory);
    lk_ipc_decoder_free(decoder);
    free((void *)(uintptr_t)header.data);
}

/* -- hostile messages --------------------------------------------------------------------------------- */

static void a_dictionary_batch_without_nodes_or_buffers_is_refused(void **state)
{
    hostile none = {.dictionary = true, .rows = 1000};
    expect_refused(
        "d:dictionary<int32,utf8>", NULL, &none, NULL, "a record batch has too few nodes for its schema");
    hostile node_only = {.dictionary = true, .rows = 1000, .nodes = {1000, 0}, .node_count = 1};
    expect_refused("d:dictionary<int32,utf8>", NULL, &node_only, NULL,
        "a record batch has too few buffers for its schema");
    hostile short_buffers = node_only;
    short_buffers.buffer_count = 2;
    expect_refused(
        "d:dictionary<int32,utf8>", NULL, &short_buffers, NULL, "a buffer is shorter than its rows need");
    hostile other_id = {.dictionary = true, .id = 7};
    expect_refused("d:dictionary<int32,utf8>", NULL, &other_id, NULL,
        "a dictionary batch has an id that the schema does not name");
}

static void counts_offsets_and_lengths_from_the_wire_are_checked(void **state)
{
    static const char *const outside = "a buffer lies outside the message body";
    static const char *const range = "a node's length or null count is out of range";
    hostile                  good = {.rows = 2,
                         .body_size = 16,
                         .nodes = {2, 0},
                         .node_count = 1,
                         .buffers = {0, 0, 0, 16},
                         .buffer_count = 2};
    struct {
        hostile     h;
        const char *detail;
    } cases[12] = {{good, outside}, {good, outside}, {good, outside}, {good, outside}, {good, range},
        {good, range}, {good, range}, {good, "a buffer is shorter than its rows need"},
        {good, "a column has nulls but no validity bitmap"}, {good, "a record batch is malformed"},
        {good, "column 'x' has 2 rows in a record batch of 3"},
        {good, "a record batch has more nodes or buffers than its schema"}};
    cases[0].h.buffers[2] = -8;
    cases[1].h.buffers[3] = -1;
    cases[2].h.buffers[2] = 8;
    cases[3].h.buffers[2] = INT64_MAX - 3;
    cases[4].h.nodes[0] = -1;
    cases[5].h.nodes[1] = 3;
    cases[6].h.nodes[0] = INT64_MAX;
    cases[7].h.nodes[0] = cases[7].h.rows = LK_ARRAY_LENGTH_MAX;
    cases[8].h.nodes[1] = 1;
    cases[9].h.rows = -2;
    cases[10].h.rows = 3;
    cases[11].h.buffer_count = 3;
    for (size_t i = 0; i < 12; i++) {
        expect_refused("x:int64?", NULL, &cases[i].h, NULL, cases[i].detail);
    }
}

static void offsets_and_text_from_the_wire_are_checked(void **state)
{
    hostile h = {.rows = 2,
        .body_size = 16,
        .nodes = {2, 0},
        .node_count = 1,
        .buffers = {0, 0, 0, 12, 12, 4},
        .buffer_count = 3};
    struct {
        int32_t offsets[3];
        char    text[4];
    } falls = {{0, 3, 2}, "abcd"}, negative = {{-1, 0, 2}, "abcd"}, beyond = {{0, 2, 5}, "abcd"},
      last_negative = {{0, 0, -1}, "abcd"}, split = {{0, 1, 2}, "\xC3\xA9"};
    expect_refused("x:utf8", NULL, &h, &falls, "column 'x': offsets do not grow");
    expect_refused("x:utf8", NULL, &h, &negative, "column 'x': offsets do not grow");
    expect_refused("x:utf8", NULL, &h, &beyond, "offsets reach beyond their data");
    expect_refused("x:utf8", NULL, &h, &last_negative, "offsets reach beyond their data");
    expect_refused("x:utf8", NULL, &h, &split, "column 'x', row 0: text is not UTF-8");
    hostile list = {.rows = 1,
        .body_size = 16,
        .nodes = {1, 0, 1, 0},
        .node_count = 2,
        .buffers = {0, 0, 0, 8, 0, 0, 8, 8},
        .buffer_count = 4};
    int32_t two_items[4] = {0, 2, 0, 0};
    expect_refused(
        "x:list<int64>", NULL, &list, two_items, "column 'item': has fewer rows than its parent needs");
}

static void indices_must_name_values_that_came(void **state)
{
    hostile h = {.rows = 1,
        .body_size = 8,
        .nodes = {1, 0},
        .node_count = 1,
        .buffers = {0, 0, 0, 4},
        .buffer_count = 2};
    expect_refused(
        "x:dictionary<int32,utf8>", NULL, &h, NULL, "column 'x', row 0: index outside the dictionary");
}

static void compressed_buffers_are_bounded_or_refused(void **state)
{
    hostile        h = {.rows = 1,
               .body_size = 16,
               .nodes = {1, 0},
               .node_count = 1,
               .buffers = {0, 0, 0, 16},
               .buffer_count = 2,
               .compressed = true};
    int64_t        negative[2] = {-2, 0}, garbage[2] = {8, 0x1234};
    lk_ipc_options refuse = {.refuse_compressed = true};
    expect_refused("x:int64", NULL, &h, negative, "a compressed buffer has a negative length");
    expect_refused("x:int64", NULL, &h, garbage, "a compressed buffer does not decompress to its length");
    expect_refused("x:int64", &refuse, &h, garbage,
        "compressed record batches are not accepted here; send them uncompressed");
    h.buffers[3] = 7;
    expect_refused("x:int64", NULL, &h, garbage, "a compressed buffer is cut short");
}

static void a_bomb_is_stopped_by_the_budget_before_it_unfolds(void **state)
{
    lk_budget         budget;
    lk_ipc_options    options = {.budget = &budget};
    hostile           h = {.rows = 1,
                  .body_size = 16,
                  .nodes = {1, 0},
                  .node_count = 1,
                  .buffers = {0, 0, 0, 16},
                  .buffer_count = 2,
                  .compressed = true};
    int64_t           claims[2] = {1LL << 40, 0};
    lk_ipc_body      *body = NULL;
    struct ArrowArray batch;
    lk_ipc_kind       kind;
    lk_err            err = {0};
    lk_budget_init(&budget, "test", 1 << 20, NULL);
    lk_ipc_decoder *decoder = decoder_of((const char *[]){"x:int64", NULL}, &options);
    lk_bytes        header = make_message(&h);
    assert_int_equal(lk_ipc_body_new(16, &budget, &body, &err), LK_OK);
    memcpy(lk_ipc_body_data(body), claims, 16);
    assert_int_equal(lk_ipc_decode(decoder, header, body, &kind, &batch, &err), LK_E_LIMIT);
    lk_ipc_body_unref(body);
    lk_ipc_decoder_free(decoder);
    assert_int_equal(budget.used_bytes, 0);
    free((void *)(uintptr_t)header.data);
}

static void messages_in_the_wrong_order_or_size_are_refused(void **state)
{
    lk_ipc_decoder   *decoder = NULL;
    struct ArrowArray batch;
    lk_ipc_kind       kind;
    lk_err            err = {0};
    hostile           h = {.rows = 0, .body_size = 8};
    lk_bytes          header = make_message(&h);
    assert_int_equal(lk_ipc_decoder_new(NULL, &decoder, &err), LK_OK);
    assert_int_equal(lk_ipc_decode(decoder, header, NULL, &kind, &batch, &err), LK_E_INVALID_IPC);
    assert_string_equal(err.detail, "a message body has 0 bytes where 8 are declared");
    assert_int_equal(lk_ipc_decode(decoder, header, NULL, &kind, &batch, &err), LK_E_INVALID_IPC);
    assert_string_equal(err.detail, "the stream has already failed");
    lk_ipc_decoder_free(decoder);
    free((void *)(uintptr_t)header.data);

    h.body_size = 0;
    header = make_message(&h);
    assert_int_equal(lk_ipc_decoder_new(NULL, &decoder, &err), LK_OK);
    assert_int_equal(lk_ipc_decode(decoder, header, NULL, &kind, &batch, &err), LK_E_INVALID_IPC);
    assert_string_equal(err.detail, "the first message is not a schema");
    lk_ipc_decoder_free(decoder);
    free((void *)(uintptr_t)header.data);
}

/* A Field whose children are the vector that holds it: sharing makes such buffers small and endless. */
static void a_schema_that_contains_itself_ends_with_an_error(void **state)
{
    struct ArrowSchema schema = make_schema((const char *[]){"s:struct<a:int8,b:int8>", NULL}), out;
    lk_buf             header = {0};
    lk_err             err = {0};
    size_t             refused = 0;
    assert_int_equal(lk_ipc_schema_encode(&schema, LK_IPC_BARE, &header, &err), LK_OK);
    for (size_t at = 0; at + 4 <= header.size; at += 4) { /* every offset field, pointed at every place */
        uint32_t before = lk_load_u32(header.data + at);
        for (uint32_t target = 0; target < header.size; target += 4) {
            lk_store_u32(header.data + at, target - (uint32_t)at);
            if (lk_ipc_schema_decode(lk_buf_view(&header), &out, &err) == LK_OK) {
                lk_schema_release(&out);
            } else {
                refused++;
            }
        }
        lk_store_u32(header.data + at, before);
    }
    assert_true(refused > header.size);
    lk_buf_deinit(&header);
    lk_schema_release(&schema);
}

/* -- encoding ------------------------------------------------------------------------------------------ */

static struct ArrowArray numbers_and_texts(void)
{
    static const int64_t     numbers[] = {1, 2, NONE, 4, 5, 6, 7, 8, 9, 10};
    static const char *const texts[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    struct ArrowArray columns[2] = {make_integers("int64?", numbers, 10), make_texts("utf8", texts, 10)},
                      batch;
    lk_batch_of_columns(columns, 2, 10, &batch);
    return batch;
}

static bool inside(const void *at, const void *buffer, size_t size)
{
    return (uintptr_t)at >= (uintptr_t)buffer && (uintptr_t)at < (uintptr_t)buffer + size;
}

static void a_message_points_into_the_batch_and_keeps_it_alive(void **state)
{
    struct ArrowSchema schema = make_schema((const char *[]){"n:int64?", "t:utf8", NULL});
    struct ArrowArray  batch = numbers_and_texts();
    const void        *numbers = batch.children[0]->buffers[1], *data = batch.children[1]->buffers[2];
    lk_ipc_encoder    *encoder = NULL;
    lk_ipc_message    *messages = NULL;
    size_t             count = 0;
    lk_err             err = {0};
    lk_shared_array   *shared = lk_array_share(&batch);
    assert_int_equal(lk_ipc_encoder_new(&schema, &encoder, &err), LK_OK);
    assert_int_equal(lk_ipc_encode(encoder, shared, &messages, &count, &err), LK_OK);
    lk_shared_array_unref(shared);
    lk_ipc_encoder_free(encoder);
    assert_int_equal(count, 1);
    assert_int_equal(messages[0].segment_count, 4); /* bitmap, numbers, offsets, text; no bitmap of text */
    assert_ptr_equal(messages[0].segments[1].data, numbers);
    assert_int_equal(messages[0].segments[1].size, 80);
    assert_ptr_equal(messages[0].segments[3].data, data);
    assert_memory_equal(messages[0].segments[3].data, "abcdefghij", 10);
    assert_int_equal(messages[0].segments[3].padding, 6);
    assert_int_equal(messages[0].body_size, 8 + 80 + 48 + 16);
    lk_ipc_messages_free(messages, count);
    lk_schema_release(&schema);
}

static void a_slice_copies_only_its_bitmap_and_offsets(void **state)
{
    struct ArrowSchema schema = make_schema((const char *[]){"n:int64?", "t:utf8", NULL});
    struct ArrowArray  batch = numbers_and_texts(), slice;
    const char        *numbers = batch.children[0]->buffers[1], *data = batch.children[1]->buffers[2];
    lk_ipc_encoder    *encoder = NULL;
    lk_ipc_message    *messages = NULL;
    size_t             count = 0;
    lk_err             err = {0};
    lk_shared_array   *whole = lk_array_share(&batch);
    lk_shared_array_slice(whole, 1, 3, &slice);
    lk_shared_array *shared = lk_array_share(&slice);
    assert_int_equal(lk_ipc_encoder_new(&schema, &encoder, &err), LK_OK);
    assert_int_equal(lk_ipc_encode(encoder, shared, &messages, &count, &err), LK_OK);
    const lk_ipc_segment *segments = messages[0].segments;
    assert_int_equal(messages[0].segment_count, 4);
    assert_int_equal(*(const uint8_t *)segments[0].data, 5); /* rows 1 to 3: valid, null, valid */
    assert_ptr_equal(segments[1].data, numbers + 8);
    assert_false(inside(segments[2].data, data, 10));
    assert_memory_equal(segments[2].data, ((const int32_t[]){0, 1, 2, 3}), 16);
    assert_ptr_equal(segments[3].data, data + 1);
    lk_ipc_messages_free(messages, count);
    lk_ipc_encoder_free(encoder);
    lk_shared_array_unref(shared);
    lk_shared_array_unref(whole);
    lk_schema_release(&schema);
}

/* -- both ways ------------------------------------------------------------------------------------------ */

static lk_ipc_body *body_of(const lk_ipc_message *message)
{
    lk_ipc_body *body = NULL;
    lk_err       err = {0};
    assert_int_equal(lk_ipc_body_new(message->body_size, NULL, &body, &err), LK_OK);
    char *at = lk_ipc_body_data(body);
    for (size_t i = 0; i < message->segment_count; i++) {
        memcpy(at, message->segments[i].data, message->segments[i].size);
        at += message->segments[i].size + message->segments[i].padding;
    }
    return body;
}

static void a_decoded_batch_points_into_its_body_and_outlives_the_decoder(void **state)
{
    static const char *const columns[] = {"n:int64?", "t:utf8", NULL};
    struct ArrowSchema       schema = make_schema(columns);
    struct ArrowArray        batch = numbers_and_texts(), out;
    lk_ipc_encoder          *encoder = NULL;
    lk_ipc_message          *messages = NULL;
    size_t                   count = 0;
    lk_ipc_kind              kind;
    lk_err                   err = {0};
    lk_shared_array         *shared = lk_array_share(&batch);
    assert_int_equal(lk_ipc_encoder_new(&schema, &encoder, &err), LK_OK);
    assert_int_equal(lk_ipc_encode(encoder, shared, &messages, &count, &err), LK_OK);
    lk_ipc_body    *body = body_of(&messages[0]);
    const char     *data = lk_ipc_body_data(body);
    lk_ipc_decoder *decoder = decoder_of(columns, NULL);
    assert_int_equal(lk_ipc_decode(decoder, messages[0].header, body, &kind, &out, &err), LK_OK);
    assert_int_equal(kind, LK_IPC_BATCH);
    assert_ptr_equal(out.children[0]->buffers[1], data + 8);
    lk_ipc_body_unref(body);
    lk_ipc_decoder_free(decoder);
    lk_ipc_messages_free(messages, count);
    lk_ipc_encoder_free(encoder);
    lk_shared_array_unref(shared);
    assert_values(
        &schema, &out, "{1,'a'} {2,'b'} {null,'c'} {4,'d'} {5,'e'} {6,'f'} {7,'g'} {8,'h'} {9,'i'} {10,'j'}");
    lk_array_release(&out);
    lk_schema_release(&schema);
}

typedef struct bytes_sink {
    lk_ipc_sink base;
    lk_buf      bytes;
} bytes_sink;

static lk_rc write_bytes(lk_ipc_sink *sink, const void *data, size_t size, lk_err *err)
{
    (void)err;
    lk_buf_append(&((bytes_sink *)sink)->bytes, data, size);
    return LK_OK;
}

static lk_bytes stream_of(const struct ArrowSchema *schema, struct ArrowArray *batch, bytes_sink *sink)
{
    lk_err           err = {0};
    lk_ipc_writer   *writer = NULL;
    lk_shared_array *shared = lk_array_share(batch);
    assert_int_equal(lk_ipc_writer_open(schema, LK_IPC_STREAM, &sink->base, &writer, &err), LK_OK);
    assert_int_equal(lk_ipc_writer_write(writer, shared, &err), LK_OK);
    assert_int_equal(lk_ipc_writer_finish(writer, &err), LK_OK);
    lk_ipc_writer_close(writer);
    lk_shared_array_unref(shared);
    return lk_buf_view(&sink->bytes);
}

/* Of the stream's only batch, read in place: where its first column's values are. */
static const char *read_in_place(
    lk_bytes stream, const struct ArrowSchema *schema, uint64_t size, const char *expected)
{
    static const lk_ipc_options options = {.in_place = true};
    lk_batches                 *batches = NULL;
    lk_err                      err = {0};
    struct ArrowArray           batch = {0};
    lk_ipc_source              *source = lk_ipc_source_bytes(stream);
    source->size = size;
    assert_int_equal(lk_ipc_open(source, &options, &batches, &err), LK_OK);
    assert_int_equal(lk_batches_next(batches, &batch, &err), LK_OK);
    assert_values(schema, &batch, expected);
    const char *values = batch.children[0]->buffers[1];
    lk_array_release(&batch);
    lk_batches_close(batches);
    return values;
}

static bool lies_in(const char *at, lk_bytes bytes)
{
    return (uintptr_t)at >= (uintptr_t)bytes.data && (uintptr_t)at < (uintptr_t)bytes.data + bytes.size;
}

static void bytes_are_read_in_place_where_they_are_aligned_and_whole(void **state)
{
    static const char *const columns[] = {"n:int64?", "t:utf8", NULL};
    static const char expected[] = "{1,'a'} {2,'b'} {null,'c'} {4,'d'} {5,'e'} {6,'f'} {7,'g'} {8,'h'} "
                                   "{9,'i'} {10,'j'}";
    static const lk_ipc_options options = {.in_place = true};
    struct ArrowSchema          schema = make_schema(columns);
    struct ArrowArray           batch = numbers_and_texts(), cut = {0};
    bytes_sink                  sink = {.base = {write_bytes}};
    lk_bytes                    stream = stream_of(&schema, &batch, &sink);
    assert_true(lies_in(read_in_place(stream, &schema, stream.size, expected), stream));
    assert_true(lies_in(read_in_place(stream, &schema, UINT64_MAX, expected), stream));
    char *odd = malloc(stream.size + 1);
    assert_non_null(odd);
    memcpy(odd + 1, stream.data, stream.size);
    lk_bytes moved = {odd + 1, stream.size};
    assert_false(lies_in(read_in_place(moved, &schema, moved.size, expected), moved));
    for (size_t lost = 9; lost < 64; lost += 8) { /* behind the end mark: the body is cut short */
        lk_ipc_source *source = lk_ipc_source_bytes((lk_bytes){stream.data, stream.size - lost});
        lk_batches    *batches = NULL;
        lk_err         err = {0};
        source->size = UINT64_MAX;
        assert_int_equal(lk_ipc_open(source, &options, &batches, &err), LK_OK);
        assert_int_equal(lk_batches_next(batches, &cut, &err), LK_E_INVALID_IPC);
        lk_batches_close(batches);
    }
    free(odd);
    lk_buf_deinit(&sink.bytes);
    lk_schema_release(&schema);
}

static void a_schema_reads_in_either_form_with_its_file_columns(void **state)
{
    struct ArrowSchema schema = make_schema(
        (const char *[]){"f:file?", "d:dictionary<int8,utf8>", "v:fixed_size_list<float32>(3)", NULL});
    for (int form = LK_IPC_ENCAPSULATED; form <= LK_IPC_BARE; form++) {
        struct ArrowSchema out;
        lk_buf             message = {0};
        lk_err             err = {0};
        assert_int_equal(lk_ipc_schema_encode(&schema, (lk_ipc_form)form, &message, &err), LK_OK);
        assert_int_equal(message.size % 8 == 0 || form == LK_IPC_BARE, 1);
        assert_int_equal(lk_ipc_schema_decode(lk_buf_view(&message), &out, &err), LK_OK);
        assert_int_equal(lk_schema_compare(&schema, &out, LK_SCHEMA_EXACT, &err), LK_OK);
        assert_true(lk_schema_is_file(out.children[0]));
        lk_schema_release(&out);
        lk_buf_deinit(&message);
    }
    lk_schema_release(&schema);
}

static void a_schema_with_a_refused_type_is_not_encoded(void **state)
{
    struct ArrowSchema schema = make_schema((const char *[]){"x:int8", NULL});
    lk_buf             message = {0};
    lk_err             err = {0};
    assert_int_equal(ArrowSchemaSetFormat(schema.children[0], "vu"), NANOARROW_OK);
    assert_int_equal(lk_ipc_schema_encode(&schema, LK_IPC_BARE, &message, &err), LK_E_INVALID_SCHEMA);
    assert_int_equal(message.size, 0);
    lk_schema_release(&schema);
}

static void big_endian_data_is_refused(void **state)
{
    flatcc_builder_t   builder, *b = &builder;
    size_t             size = 0;
    struct ArrowSchema out;
    lk_err             err = {0};
    flatcc_builder_init(b);
    ns(Message_start_as_root(b));
    ns(Message_version_add(b, ns(MetadataVersion_V5)));
    ns(Message_header_Schema_start(b));
    ns(Schema_endianness_add(b, ns(Endianness_Big)));
    ns(Message_header_Schema_end(b));
    ns(Message_end_as_root(b));
    void *data = flatcc_builder_finalize_buffer(b, &size);
    flatcc_builder_clear(b);
    assert_int_equal(lk_ipc_schema_decode((lk_bytes){data, size}, &out, &err), LK_E_INVALID_IPC);
    assert_string_equal(err.detail, "big-endian data is not supported");
    free(data);
}

static void what_is_no_arrow_data_is_told_so(void **state)
{
    static const char *const texts[] = {
        "", "x", "hello, this is not Arrow data at all", "ARROW1", "ARROW1\0\0", "PAR1........PAR1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        lk_batches *batches = NULL;
        lk_err      err = {0};
        assert_int_equal(
            lk_ipc_open(lk_ipc_source_bytes(lk_bytes_of(texts[i])), NULL, &batches, &err), LK_E_INVALID_IPC);
        assert_true(err.detail[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dictionary_batch_without_nodes_or_buffers_is_refused),
        cmocka_unit_test(counts_offsets_and_lengths_from_the_wire_are_checked),
        cmocka_unit_test(offsets_and_text_from_the_wire_are_checked),
        cmocka_unit_test(indices_must_name_values_that_came),
        cmocka_unit_test(compressed_buffers_are_bounded_or_refused),
        cmocka_unit_test(a_bomb_is_stopped_by_the_budget_before_it_unfolds),
        cmocka_unit_test(messages_in_the_wrong_order_or_size_are_refused),
        cmocka_unit_test(a_schema_that_contains_itself_ends_with_an_error),
        cmocka_unit_test(a_message_points_into_the_batch_and_keeps_it_alive),
        cmocka_unit_test(a_slice_copies_only_its_bitmap_and_offsets),
        cmocka_unit_test(a_decoded_batch_points_into_its_body_and_outlives_the_decoder),
        cmocka_unit_test(bytes_are_read_in_place_where_they_are_aligned_and_whole),
        cmocka_unit_test(a_schema_reads_in_either_form_with_its_file_columns),
        cmocka_unit_test(a_schema_with_a_refused_type_is_not_encoded),
        cmocka_unit_test(big_endian_data_is_refused),
        cmocka_unit_test(what_is_no_arrow_data_is_told_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
