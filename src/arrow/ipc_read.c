/*
 * ipc_read.c - IPC streams and files from a source, as batches (ipc.h).
 *
 * A file is read by its footer when the source knows its size, else as the stream that it contains.
 * Invariants: lengths are compared with what the source still has before memory is taken; a message's header
 * and body are in memory one at a time. Threads: confined.
 */
#include "arrow/ipc_priv.h"
#include "base/file.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAGIC_BYTES = 6, HEAD_BYTES = 8, TAIL_BYTES = 10, BLOCK_BYTES = 24 };
enum { FOOTER_VERSION, FOOTER_SCHEMA, FOOTER_DICTIONARIES, FOOTER_BATCHES };

/* -- sources ----------------------------------------------------------------------------------------- */

struct file_source {
    lk_ipc_source base;
    int           fd;
    bool          seekable;
    char         *path;
};

static lk_rc file_read(
    lk_ipc_source *source, uint64_t offset, void *out, size_t size, size_t *got, lk_err *err)
{
    struct file_source *self = (struct file_source *)source;
    *got = 0;
    while (*got < size) {
        char   *to = (char *)out + *got;
        ssize_t count = self->seekable ? pread(self->fd, to, size - *got, (off_t)(offset + *got))
                                       : read(self->fd, to, size - *got);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return lk_fail_errno(err, errno, "read", self->path);
        }
        if (count == 0) {
            break;
        }
        *got += (size_t)count;
    }
    return LK_OK;
}

static void file_close(lk_ipc_source *source)
{
    struct file_source *self = (struct file_source *)source;
    if (self->fd > STDERR_FILENO) {
        close(self->fd);
    }
    free(self->path);
    free(self);
}

lk_rc lk_ipc_source_file(const char *path, lk_ipc_source **out, lk_err *err)
{
    struct stat status;
    int         fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0) {
        int error = errno;
        if (fd > STDERR_FILENO) {
            close(fd);
        }
        return lk_fail_errno(err, error, "open", path);
    }
    struct file_source *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->seekable = S_ISREG(status.st_mode);
    self->base =
        (lk_ipc_source){file_read, file_close, self->seekable ? (uint64_t)status.st_size : UINT64_MAX};
    self->fd = fd;
    self->path = strdup(path);
    *out = &self->base;
    return LK_OK;
}

struct bytes_source {
    lk_ipc_source base;
    lk_bytes      bytes;
};

static lk_rc bytes_read(
    lk_ipc_source *source, uint64_t offset, void *out, size_t size, size_t *got, lk_err *err)
{
    (void)err;
    lk_bytes bytes = ((struct bytes_source *)source)->bytes;
    size_t   left = offset < bytes.size ? bytes.size - (size_t)offset : 0;
    *got = size < left ? size : left;
    if (*got > 0) {
        memcpy(out, bytes.data + offset, *got);
    }
    return LK_OK;
}

static void bytes_close(lk_ipc_source *source)
{
    free(source);
}

lk_ipc_source *lk_ipc_source_bytes(lk_bytes bytes)
{
    struct bytes_source *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->base = (lk_ipc_source){bytes_read, bytes_close, bytes.size};
    self->bytes = bytes;
    return &self->base;
}

/* -- reading messages -------------------------------------------------------------------------------- */

typedef struct reader {
    lk_batches      base;
    lk_ipc_source  *source;
    lk_ipc_options  options;
    lk_ipc_decoder *decoder;
    uint64_t        position;
    bool            ended;
    lk_buf          header;
    lk_buf          head;   /* bytes already taken from the source, when it is a stream */
    lk_ipc_block   *blocks; /* files: the record batches, in order */
    size_t          block_count, next_block;
    bool            by_footer;
    uint64_t read_by_footer; /* never more than the file, so that a small footer makes no endless work */
} reader;

/* Reads exactly size bytes at the position; *whole = false at a clean end. */
static lk_rc read_some(reader *r, void *out, size_t size, size_t *got, lk_err *err)
{
    size_t from_head = 0;
    *got = 0;
    if (r->position < r->head.size) {
        from_head = r->head.size - (size_t)r->position;
        from_head = from_head < size ? from_head : size;
        memcpy(out, r->head.data + r->position, from_head);
    }
    lk_rc rc = LK_OK;
    if (from_head < size) {
        rc = r->source->read(
            r->source, r->position + from_head, (char *)out + from_head, size - from_head, got, err);
    }
    *got += from_head;
    r->position += *got;
    return rc;
}

static lk_rc read_exactly(reader *r, void *out, size_t size, lk_err *err)
{
    size_t got = 0;
    lk_rc  rc = read_some(r, out, size, &got, err);
    if (rc == LK_OK && got < size) {
        return lk_ipc_bad(err, "the Arrow data is cut short");
    }
    return rc;
}

/* Refuses a length that the source cannot hold, before memory is taken for it. */
static lk_rc check_left(const reader *r, uint64_t size, lk_err *err)
{
    bool known = r->source->size != UINT64_MAX;
    if (known && (r->position > r->source->size || size > r->source->size - r->position)) {
        return lk_ipc_bad(err, "the Arrow data is cut short");
    }
    return LK_OK;
}

/* The size of the next header; 0 at the end of the stream. The old framing has no continuation marker. */
static lk_rc read_frame(reader *r, size_t *size, lk_err *err)
{
    uint32_t word = 0;
    size_t   got = 0;
    *size = 0;
    lk_rc rc = read_some(r, &word, 4, &got, err);
    if (rc != LK_OK || got == 0) {
        return rc;
    }
    if (got < 4) {
        return lk_ipc_bad(err, "the Arrow data is cut short");
    }
    if (word == LK_IPC_CONTINUATION) {
        rc = read_exactly(r, &word, 4, err);
    }
    if (rc == LK_OK && word > LK_IPC_HEADER_BYTES_MAX) {
        return lk_ipc_bad(err, "a message header of %u bytes; is this Arrow IPC data?", word);
    }
    *size = word;
    return rc;
}

/* false: the source has no bytes in memory, or not so many. */
static bool borrow_body(reader *r, uint64_t size, lk_ipc_body **out)
{
    if (r->source->read != bytes_read) {
        return false;
    }
    lk_bytes bytes = ((struct bytes_source *)r->source)->bytes;
    if (r->position > bytes.size || size > bytes.size - r->position) {
        return false;
    }
    *out = lk_ipc_body_of((lk_bytes){bytes.data + r->position, (size_t)size}, r->options.budget);
    r->position += size;
    return true;
}

static lk_rc read_body(reader *r, uint64_t size, lk_ipc_body **out, lk_err *err)
{
    lk_rc rc = check_left(r, size, err);
    if (rc == LK_OK && size > LK_IPC_BODY_BYTES_MAX) {
        rc = lk_fail(err, LK_E_LIMIT, "message body of %llu bytes", (unsigned long long)size);
    }
    if (rc == LK_OK && r->options.in_place && borrow_body(r, size, out)) {
        return LK_OK;
    }
    if (rc == LK_OK) {
        rc = lk_ipc_body_new((size_t)size, r->options.budget, out, err);
    }
    return rc == LK_OK ? read_exactly(r, lk_ipc_body_data(*out), (size_t)size, err) : rc;
}

/* Takes one message at the position. *found = false at the end of the stream. */
static lk_rc read_message(reader *r, bool *found, lk_ipc_kind *kind, struct ArrowArray *batch, lk_err *err)
{
    size_t        size = 0;
    lk_ipc_body  *body = NULL;
    lk_ipc_header header = {0};
    batch->release = NULL;
    *found = false;
    lk_rc rc = read_frame(r, &size, err);
    if (rc != LK_OK || size == 0) {
        return rc;
    }
    rc = check_left(r, size, err);
    if (rc == LK_OK) {
        lk_buf_clear(&r->header);
        lk_buf_reserve(&r->header, size);
        rc = read_exactly(r, r->header.data, size, err);
        r->header.size = size;
    }
    lk_bytes bytes = lk_buf_view(&r->header);
    if (rc == LK_OK) {
        rc = lk_ipc_peek(bytes, &header, err);
    }
    if (rc == LK_OK) {
        rc = read_body(r, header.body_size, &body, err);
    }
    if (rc == LK_OK) {
        rc = lk_ipc_decode(r->decoder, bytes, body, kind, batch, err);
        *found = true;
    }
    lk_ipc_body_unref(body);
    return rc;
}

static lk_rc next_in_stream(reader *r, struct ArrowArray *out, lk_err *err)
{
    lk_ipc_kind kind = LK_IPC_DICTIONARY;
    bool        found = true;
    lk_rc       rc = LK_OK;
    while (rc == LK_OK && found && kind == LK_IPC_DICTIONARY) {
        rc = read_message(r, &found, &kind, out, err);
    }
    r->ended = rc != LK_OK || !found;
    return rc;
}

/* -- files ------------------------------------------------------------------------------------------- */

static lk_rc read_block(
    reader *r, const lk_ipc_block *block, lk_ipc_kind wanted, struct ArrowArray *out, lk_err *err)
{
    lk_ipc_kind kind = LK_IPC_SCHEMA;
    bool        found = false;
    r->position = (uint64_t)block->offset;
    lk_rc rc = read_message(r, &found, &kind, out, err);
    r->read_by_footer += r->position - (uint64_t)block->offset;
    if (rc == LK_OK && r->read_by_footer > r->source->size) {
        lk_array_release(out);
        return lk_ipc_bad(err, "the file's footer names a message more than once");
    }
    if (rc == LK_OK && (!found || kind != wanted)) {
        lk_array_release(out);
        rc = lk_ipc_bad(err, "the file's footer names a message that is not there");
    }
    return rc;
}

static lk_rc next_in_file(reader *r, struct ArrowArray *out, lk_err *err)
{
    out->release = NULL;
    if (r->next_block == r->block_count) {
        r->ended = true;
        return LK_OK;
    }
    lk_rc rc = read_block(r, &r->blocks[r->next_block++], LK_IPC_BATCH, out, err);
    r->ended = rc != LK_OK;
    return rc;
}

static lk_rc block_at(
    const reader *r, const lk_flat_vector *vector, uint32_t index, lk_ipc_block *out, lk_err *err)
{
    const uint8_t *at = lk_flat_data(vector) + (size_t)index * BLOCK_BYTES;
    out->offset = (int64_t)lk_load_u64(at);
    out->header_size = (int32_t)lk_load_u32(at + 8);
    out->body_size = (int64_t)lk_load_u64(at + 16);
    if (out->offset < HEAD_BYTES || (uint64_t)out->offset >= r->source->size) {
        return lk_ipc_bad(err, "the file's footer points outside the file");
    }
    return LK_OK;
}

static lk_rc read_dictionaries(reader *r, const lk_flat_vector *vector, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (uint32_t i = 0; rc == LK_OK && i < vector->count; i++) {
        lk_ipc_block      block;
        struct ArrowArray none;
        rc = block_at(r, vector, i, &block, err);
        if (rc == LK_OK) {
            rc = read_block(r, &block, LK_IPC_DICTIONARY, &none, err);
        }
    }
    return rc;
}

static lk_rc list_batches(reader *r, const lk_flat_vector *vector, lk_err *err)
{
    r->blocks = calloc((size_t)vector->count + 1, sizeof *r->blocks);
    LK_ASSERT(r->blocks != NULL);
    r->block_count = vector->count;
    lk_rc rc = LK_OK;
    for (uint32_t i = 0; rc == LK_OK && i < vector->count; i++) {
        rc = block_at(r, vector, i, &r->blocks[i], err);
    }
    return rc;
}

static lk_rc take_footer(reader *r, lk_bytes footer, lk_err *err)
{
    lk_flat       flat;
    lk_ipc_schema schema;
    lk_flat_init(&flat, footer, (size_t)8 * LK_COLUMNS_MAX, LK_IPC_HEADER_BYTES_MAX);
    lk_flat_table  root = lk_flat_root(&flat);
    lk_flat_table  table = lk_flat_child(&root, FOOTER_SCHEMA);
    lk_flat_vector dictionaries = lk_flat_vector_of(&root, FOOTER_DICTIONARIES, BLOCK_BYTES);
    lk_flat_vector batches = lk_flat_vector_of(&root, FOOTER_BATCHES, BLOCK_BYTES);
    int            version = lk_flat_i16(&root, FOOTER_VERSION, 0);
    if (flat.bad || !lk_flat_present(&table) || version < LK_VERSION_V4 || version > LK_VERSION_V5) {
        return lk_ipc_bad(err, "the file's footer is malformed");
    }
    lk_rc rc = lk_ipc_schema_read(&table, &schema, err);
    if (rc == LK_OK) {
        rc = lk_ipc_decoder_take_schema(r->decoder, &schema, err);
    }
    if (rc == LK_OK) {
        rc = list_batches(r, &batches, err);
    }
    return rc == LK_OK ? read_dictionaries(r, &dictionaries, err) : rc;
}

static lk_rc open_file(reader *r, lk_err *err)
{
    char     tail[TAIL_BYTES];
    lk_buf   footer = {0};
    uint64_t size = r->source->size;
    if (size < HEAD_BYTES + TAIL_BYTES) {
        return lk_ipc_bad(err, "the Arrow file is cut short");
    }
    r->position = size - TAIL_BYTES;
    lk_rc rc = read_exactly(r, tail, TAIL_BYTES, err);
    if (rc != LK_OK) {
        return rc;
    }
    uint32_t footer_size = lk_load_u32(tail);
    if (memcmp(tail + 4, LK_IPC_MAGIC, MAGIC_BYTES) != 0 || footer_size > size - HEAD_BYTES - TAIL_BYTES ||
        footer_size > LK_IPC_FOOTER_BYTES_MAX) {
        return lk_ipc_bad(err, "the Arrow file has no footer (was it cut short?)");
    }
    r->position = size - TAIL_BYTES - footer_size;
    lk_buf_reserve(&footer, footer_size);
    rc = read_exactly(r, footer.data, footer_size, err);
    footer.size = footer_size;
    if (rc == LK_OK) {
        rc = take_footer(r, lk_buf_view(&footer), err);
    }
    r->by_footer = true;
    lk_buf_deinit(&footer);
    return rc;
}

/* -- opening ----------------------------------------------------------------------------------------- */

static lk_rc open_stream(reader *r, lk_err *err)
{
    lk_ipc_kind       kind = LK_IPC_BATCH;
    bool              found = false;
    struct ArrowArray none;
    lk_rc             rc = read_message(r, &found, &kind, &none, err);
    if (rc == LK_OK && !found) {
        rc = lk_ipc_bad(err, "there is no Arrow data");
    }
    return rc;
}

/* Reads the first bytes and opens what they announce. */
static lk_rc open_any(reader *r, lk_err *err)
{
    size_t got = 0;
    lk_buf_reserve(&r->head, HEAD_BYTES);
    lk_rc rc = read_some(r, r->head.data, HEAD_BYTES, &got, err);
    if (rc != LK_OK) {
        return rc;
    }
    r->head.size = got;
    bool is_file = got == HEAD_BYTES && memcmp(r->head.data, LK_IPC_MAGIC, MAGIC_BYTES) == 0;
    if (is_file && r->source->size != UINT64_MAX) {
        return open_file(r, err);
    }
    r->position = is_file ? HEAD_BYTES : 0;
    return open_stream(r, err);
}

static lk_rc reader_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    reader *r = (reader *)batches;
    out->release = NULL;
    if (r->ended) {
        return LK_OK;
    }
    return r->by_footer ? next_in_file(r, out, err) : next_in_stream(r, out, err);
}

static void reader_close(lk_batches *batches)
{
    reader *r = (reader *)batches;
    r->source->close(r->source);
    lk_ipc_decoder_free(r->decoder);
    lk_schema_release(&r->base.schema);
    lk_buf_deinit(&r->header);
    lk_buf_deinit(&r->head);
    free(r->blocks);
    free(r);
}

lk_rc lk_ipc_open(lk_ipc_source *source, const lk_ipc_options *options, lk_batches **out, lk_err *err)
{
    reader *r = calloc(1, sizeof *r);
    LK_ASSERT(r != NULL);
    r->base.next = reader_next;
    r->base.close = reader_close;
    r->source = source;
    if (options != NULL) {
        r->options = *options;
    }
    lk_rc rc = lk_ipc_decoder_new(&r->options, &r->decoder, err);
    if (rc == LK_OK) {
        rc = open_any(r, err);
    }
    if (rc == LK_OK) {
        rc = lk_schema_copy(lk_ipc_decoder_schema(r->decoder), &r->base.schema, err);
    }
    if (rc != LK_OK) {
        reader_close(&r->base);
        return rc;
    }
    *out = &r->base;
    return LK_OK;
}
