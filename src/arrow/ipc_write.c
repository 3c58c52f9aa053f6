/*
 * ipc_write.c - IPC streams and files to a sink (ipc.h).
 *
 * A file is the magic, the stream, and a footer that says where each message lies. Threads: confined.
 */
#include "arrow/ipc_priv.h"

#include <stdlib.h>

typedef struct blocks {
    lk_ipc_block *items;
    size_t        count, room;
} blocks;

struct lk_ipc_writer {
    lk_ipc_encoder    *encoder;
    lk_ipc_sink       *sink;
    lk_ipc_container   container;
    struct ArrowSchema schema;
    int64_t            position;
    blocks             dictionaries, batches;
    lk_buf             frame;
};

static lk_rc put(lk_ipc_writer *writer, const void *data, size_t size, lk_err *err)
{
    if (size == 0) {
        return LK_OK;
    }
    writer->position += (int64_t)size;
    return writer->sink->write(writer->sink, data, size, err);
}

static lk_rc put_magic(lk_ipc_writer *writer, size_t size, lk_err *err)
{
    static const char magic[8] = LK_IPC_MAGIC;
    return writer->container == LK_IPC_FILE ? put(writer, magic, size, err) : LK_OK;
}

static void note_block(blocks *list, int64_t offset, int64_t header_size, int64_t body_size)
{
    if (list->count == list->room) {
        list->room = list->room == 0 ? 64 : 2 * list->room;
        lk_ipc_block *more = realloc(list->items, list->room * sizeof *more);
        LK_ASSERT(more != NULL);
        list->items = more;
    }
    list->items[list->count++] = (lk_ipc_block){offset, header_size, body_size};
}

static lk_rc put_message(lk_ipc_writer *writer, const lk_ipc_message *message, lk_err *err)
{
    static const char zeros[64] = {0};
    int64_t           start = writer->position;
    lk_buf_clear(&writer->frame);
    lk_ipc_frame(message->header, &writer->frame);
    lk_rc rc = put(writer, writer->frame.data, writer->frame.size, err);
    for (size_t i = 0; rc == LK_OK && i < message->segment_count; i++) {
        const lk_ipc_segment *segment = &message->segments[i];
        rc = put(writer, segment->data, segment->size, err);
        if (rc == LK_OK) {
            rc = put(writer, zeros, segment->padding, err);
        }
    }
    if (writer->container == LK_IPC_FILE) {
        note_block(message->kind == LK_IPC_DICTIONARY ? &writer->dictionaries : &writer->batches, start,
            (int64_t)writer->frame.size, (int64_t)message->body_size);
    }
    return rc;
}

static lk_rc put_schema(lk_ipc_writer *writer, lk_err *err)
{
    lk_rc rc = lk_ipc_schema_encode(&writer->schema, LK_IPC_ENCAPSULATED, &writer->frame, err);
    if (rc == LK_OK) {
        rc = put_magic(writer, 8, err);
    }
    return rc == LK_OK ? put(writer, writer->frame.data, writer->frame.size, err) : rc;
}

lk_rc lk_ipc_writer_open(const struct ArrowSchema *schema, lk_ipc_container container, lk_ipc_sink *sink,
    lk_ipc_writer **out, lk_err *err)
{
    lk_ipc_writer *writer = calloc(1, sizeof *writer);
    LK_ASSERT(writer != NULL);
    writer->sink = sink;
    writer->container = container;
    lk_rc rc = lk_ipc_encoder_new(schema, &writer->encoder, err);
    if (rc == LK_OK && container == LK_IPC_FILE) {
        lk_ipc_encoder_for_file(writer->encoder);
    }
    if (rc == LK_OK) {
        rc = lk_schema_copy(schema, &writer->schema, err);
    }
    if (rc == LK_OK) {
        rc = put_schema(writer, err);
    }
    if (rc != LK_OK) {
        lk_ipc_writer_close(writer);
        return rc;
    }
    *out = writer;
    return LK_OK;
}

lk_rc lk_ipc_writer_write(lk_ipc_writer *writer, lk_shared_array *batch, lk_err *err)
{
    lk_ipc_message *messages = NULL;
    size_t          count = 0;
    lk_rc           rc = lk_ipc_encode(writer->encoder, batch, &messages, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = put_message(writer, &messages[i], err);
    }
    lk_ipc_messages_free(messages, count);
    return rc;
}

static lk_rc put_footer(lk_ipc_writer *writer, lk_err *err)
{
    lk_buf_clear(&writer->frame);
    lk_rc rc = lk_ipc_footer_encode(&writer->schema, writer->dictionaries.items, writer->dictionaries.count,
        writer->batches.items, writer->batches.count, &writer->frame, err);
    if (rc != LK_OK) {
        return rc;
    }
    uint32_t size = (uint32_t)writer->frame.size;
    lk_buf_append(&writer->frame, &size, 4);
    rc = put(writer, writer->frame.data, writer->frame.size, err);
    return rc == LK_OK ? put_magic(writer, 6, err) : rc;
}

lk_rc lk_ipc_writer_finish(lk_ipc_writer *writer, lk_err *err)
{
    static const uint32_t end[2] = {LK_IPC_CONTINUATION, 0};
    lk_rc                 rc = put(writer, end, 8, err);
    return rc == LK_OK && writer->container == LK_IPC_FILE ? put_footer(writer, err) : rc;
}

void lk_ipc_writer_close(lk_ipc_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    lk_ipc_encoder_free(writer->encoder);
    lk_schema_release(&writer->schema);
    lk_buf_deinit(&writer->frame);
    free(writer->dictionaries.items);
    free(writer->batches.items);
    free(writer);
}
