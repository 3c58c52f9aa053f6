/*
 * stream_receive.c - FlightData becomes batches.
 *
 * One message at a time: its header and app_metadata are copied (they are small), its body is moved into aligned
 * memory, which the decoded batch then points into.
 *
 * Invariant: what a peer sends is counted before it is looked at, and looked at before it is decoded: sizes, then
 * the declared against the real body size, then ipc's own checks. Threads: confined.
 */
#include "flight/stream.h"

#include "arrow/digest.h"

#include <stdlib.h>

struct lk_flight_reader {
    lk_flight_peer           peer;
    lk_flight_reader_options options;
    lk_arena                 arena;
    lk_flight_descriptor     descriptor;
    bool                     has_descriptor;
    lk_ipc_decoder          *decoder; /* made with the first IPC message */
    lk_sha256                digest;
    uint64_t                 bytes, rows;

    /* the message that was read last and is not decoded yet */
    bool         pending, ended;
    lk_buf       header, app_metadata;
    lk_ipc_body *body;
};

static lk_rc invalid(lk_err *err, const char *why)
{
    lk_rc rc = lk_fail(err, LK_E_INVALID_IPC, "flight stream: %s", why);
    lk_detail(err, "%s", why);
    return rc;
}

/* -- one message -- */

static void copy_span(const lk_grpc_message *message, lk_flight_span span, lk_buf *out)
{
    lk_buf_clear(out);
    lk_buf_reserve(out, span.size);
    if (span.size > 0) {
        lk_grpc_message_copy(message, span.offset, span.size, out->data);
        out->size = span.size;
    }
}

static lk_rc move_body(
    lk_flight_reader *reader, const lk_grpc_message *message, lk_flight_span span, lk_err *err)
{
    if (span.size == 0) {
        return LK_OK;
    }
    lk_rc rc = lk_ipc_body_new(span.size, reader->options.budget, &reader->body, err);
    if (rc == LK_OK) {
        lk_grpc_message_copy(message, span.offset, span.size, lk_ipc_body_data(reader->body));
    }
    return rc;
}

static lk_bytes body_bytes(const lk_flight_reader *reader)
{
    return reader->body == NULL ? LK_LITERAL("")
                                : (lk_bytes){lk_ipc_body_data(reader->body), lk_ipc_body_size(reader->body)};
}

static lk_rc check_limit(const lk_flight_reader *reader, lk_err *err)
{
    uint64_t max = reader->options.stream_bytes_max;
    if (max == 0 || reader->bytes <= max) {
        return LK_OK;
    }
    lk_rc rc = lk_fail(err, LK_E_LIMIT, "stream of more than %llu bytes", (unsigned long long)max);
    lk_detail(err, "a stream may have %llu bytes; send it in several operations", (unsigned long long)max);
    return rc;
}

static lk_rc take_parts(lk_flight_reader *reader, const lk_grpc_message *message, lk_err *err)
{
    lk_flight_data_spans spans;
    lk_rc                rc = lk_flight_data_find(message->slices, message->slice_count, &spans, err);
    if (rc != LK_OK) {
        return rc;
    }
    copy_span(message, spans.header, &reader->header);
    copy_span(message, spans.app_metadata, &reader->app_metadata);
    rc = move_body(reader, message, spans.body, err);
    if (rc == LK_OK && reader->options.digest) {
        lk_payload_digest_part(&reader->digest, lk_buf_view(&reader->header));
        lk_payload_digest_part(&reader->digest, body_bytes(reader));
        lk_payload_digest_part(&reader->digest, lk_buf_view(&reader->app_metadata));
    }
    if (rc == LK_OK && spans.descriptor_present && reader->rows == 0 && !reader->has_descriptor) {
        char *bytes = lk_arena_take(&reader->arena, spans.descriptor.size + 1);
        lk_grpc_message_copy(message, spans.descriptor.offset, spans.descriptor.size, bytes);
        rc = lk_flight_descriptor_read(
            (lk_bytes){bytes, spans.descriptor.size}, &reader->arena, &reader->descriptor, err);
        reader->has_descriptor = rc == LK_OK;
        reader->descriptor.present = true;
    }
    return rc;
}

static lk_rc peer_read(lk_flight_peer peer, lk_grpc_message *out, bool *found, lk_err *err)
{
    if (peer.call != NULL) {
        return lk_grpc_call_read(peer.call, out, found, err);
    }
    return peer.rpc != NULL ? lk_grpc_rpc_read(peer.rpc, out, found, err)
                            : peer.source->read(peer.source, out, found, err);
}

/* Reads the next message into the pending place; ended when there is none. */
static lk_rc read_message(lk_flight_reader *reader, lk_err *err)
{
    lk_grpc_message message = {0};
    bool            found = false;
    lk_rc           rc = peer_read(reader->peer, &message, &found, err);
    if (rc != LK_OK) {
        return rc;
    }
    reader->ended = !found;
    reader->pending = found;
    if (found) {
        reader->bytes += message.size;
        rc = check_limit(reader, err);
        if (rc == LK_OK) {
            rc = take_parts(reader, &message, err);
        }
    }
    lk_grpc_message_release(&message);
    return rc;
}

static lk_rc check_body_size(const lk_flight_reader *reader, lk_err *err)
{
    lk_ipc_header about;
    lk_rc         rc = lk_ipc_peek(lk_buf_view(&reader->header), &about, err);
    if (rc == LK_OK && about.body_size != body_bytes(reader).size) {
        rc = invalid(err, "a message declares another body size than it has");
    }
    return rc;
}

static lk_rc ensure_decoder(lk_flight_reader *reader, lk_err *err)
{
    lk_ipc_options options = {.budget = reader->options.budget,
        .refuse_compressed = reader->options.refuse_compressed,
        .decode_dictionaries = reader->options.decode_dictionaries};
    return reader->decoder == NULL ? lk_ipc_decoder_new(&options, &reader->decoder, err) : LK_OK;
}

/* Decodes the pending message; *batch is filled only by record batches. A message without header says nothing. */
static lk_rc decode_pending(lk_flight_reader *reader, struct ArrowArray *batch, lk_err *err)
{
    lk_ipc_kind kind = LK_IPC_SCHEMA;
    lk_rc       rc = LK_OK;
    reader->pending = false;
    if (reader->header.size == 0) {
        rc = reader->body == NULL ? LK_OK : invalid(err, "a body without a header");
    } else {
        rc = check_body_size(reader, err);
        if (rc == LK_OK) {
            rc = ensure_decoder(reader, err);
        }
        if (rc == LK_OK) {
            rc =
                lk_ipc_decode(reader->decoder, lk_buf_view(&reader->header), reader->body, &kind, batch, err);
        }
    }
    lk_ipc_body_unref(reader->body);
    reader->body = NULL;
    return rc;
}

/* -- the stream -- */

lk_rc lk_flight_reader_open(lk_flight_reader **out, lk_flight_peer peer,
    const lk_flight_reader_options *options, bool *present, lk_err *err)
{
    static const lk_flight_reader_options defaults = {0};

    lk_flight_reader *reader = calloc(1, sizeof *reader);
    LK_ASSERT(reader != NULL);
    *out = NULL;
    *present = false;
    reader->peer = peer;
    reader->options = options == NULL ? defaults : *options;
    if (reader->options.digest) {
        lk_payload_digest_start(&reader->digest);
    }
    lk_rc rc = read_message(reader, err);
    if (rc != LK_OK || reader->ended) {
        lk_flight_reader_close(reader);
        return rc;
    }
    *present = true;
    *out = reader;
    return LK_OK;
}

void lk_flight_reader_restrict(lk_flight_reader *reader, uint64_t stream_bytes_max, bool refuse_compressed)
{
    LK_ASSERT(reader->decoder == NULL);
    reader->options.stream_bytes_max = stream_bytes_max;
    reader->options.refuse_compressed = refuse_compressed;
}

const lk_flight_descriptor *lk_flight_reader_descriptor(const lk_flight_reader *reader)
{
    return reader->has_descriptor ? &reader->descriptor : NULL;
}

static bool has_schema(const lk_flight_reader *reader)
{
    return reader->decoder != NULL && lk_ipc_decoder_schema(reader->decoder) != NULL;
}

lk_rc lk_flight_reader_schema(lk_flight_reader *reader, const struct ArrowSchema **schema, lk_err *err)
{
    lk_rc rc = check_limit(reader, err);
    while (rc == LK_OK && !has_schema(reader) && !reader->ended) {
        struct ArrowArray none = {0};
        rc = reader->pending ? decode_pending(reader, &none, err) : read_message(reader, err);
        lk_array_release(&none);
    }
    if (rc == LK_OK && !has_schema(reader)) {
        rc = invalid(err, "the stream holds no schema");
    }
    *schema = rc == LK_OK ? lk_ipc_decoder_schema(reader->decoder) : NULL;
    return rc;
}

static lk_rc next_batch(lk_flight_reader *reader, struct ArrowArray *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    *out = (struct ArrowArray){0};
    while (rc == LK_OK && out->release == NULL && !reader->ended) {
        rc = reader->pending ? decode_pending(reader, out, err) : read_message(reader, err);
    }
    if (rc == LK_OK && out->release != NULL) {
        reader->rows += (uint64_t)out->length;
        if (out->length == 0 && reader->options.refuse_empty_batches) {
            rc = invalid(err, "a batch holds no rows");
        }
    }
    if (rc != LK_OK) {
        lk_array_release(out);
    }
    return rc;
}

typedef struct received {
    lk_batches        base;
    lk_flight_reader *reader;
} received;

static lk_rc received_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    return next_batch(((received *)batches)->reader, out, err);
}

static void received_close(lk_batches *batches)
{
    lk_schema_release(&batches->schema);
    free(batches);
}

lk_rc lk_flight_reader_batches(lk_flight_reader *reader, lk_batches **out, lk_err *err)
{
    const struct ArrowSchema *schema = NULL;
    lk_rc                     rc = lk_flight_reader_schema(reader, &schema, err);
    *out = NULL;
    if (rc != LK_OK) {
        return rc;
    }
    received *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->base.next = received_next;
    self->base.close = received_close;
    self->reader = reader;
    rc = lk_schema_copy(schema, &self->base.schema, err);
    if (rc != LK_OK) {
        free(self);
        return rc;
    }
    *out = &self->base;
    return LK_OK;
}

uint64_t lk_flight_reader_rows(const lk_flight_reader *reader)
{
    return reader->rows;
}

uint64_t lk_flight_reader_bytes(const lk_flight_reader *reader)
{
    return reader->bytes;
}

void lk_flight_reader_digest(lk_flight_reader *reader, char hex[LK_SHA256_HEX_SIZE + 1])
{
    uint8_t digest[LK_SHA256_SIZE];
    LK_ASSERT(reader->options.digest);
    lk_sha256_final(&reader->digest, digest);
    lk_hex(digest, sizeof digest, hex);
}

void lk_flight_reader_close(lk_flight_reader *reader)
{
    if (reader == NULL) {
        return;
    }
    lk_sha256_deinit(&reader->digest);
    lk_ipc_decoder_free(reader->decoder);
    lk_ipc_body_unref(reader->body);
    lk_buf_deinit(&reader->header);
    lk_buf_deinit(&reader->app_metadata);
    lk_arena_close(&reader->arena);
    free(reader);
}
