#ifndef LK_ARROW_IPC_H
#define LK_ARROW_IPC_H
/*
 * ipc.h - Arrow IPC: messages (for Flight), streams and files, both directions.
 * (Arrow Columnar Format, "Serialization and Interprocess Communication"; metadata version V5, V4 read.)
 *
 * Invariants:
 *   1. Writing copies no column buffer: a message is its header and segments that point into the batch;
 *      only bitmaps and offsets of slices are realigned, into memory the message owns.
 *   2. Reading trusts nothing: every count, offset and length is checked against the bytes that are there
 *      before it is used, work is bounded by the input's size, decompression and bodies by the budget.
 *      What comes out has passed lk_array_validate.
 *   3. Decoded arrays point into the body (64-byte aligned, reference counted) and keep it alive.
 *   4. Unions, views, run-end encoding, big-endian data and tensors are refused; only writing knows dense
 *      unions (Flight SQL's SqlInfo is one).
 *
 * Errors: LK_E_INVALID_IPC with a detail, for everything wrong or refused in the bytes; LK_E_LIMIT for the
 * budget; sources and sinks pass their own. Threads: every object is confined; arrays are shareable.
 */
#include "arrow/batch.h"

/* -- options ---------------------------------------------------------------------------------------- */
typedef struct lk_ipc_options {   /* zero: every default */
    lk_budget *budget;            /* bodies and decompressed buffers; NULL: LK_IPC_BODY_BYTES_MAX a message */
    bool       refuse_compressed; /* LZ4_FRAME and ZSTD buffers are an error */
    bool       decode_dictionaries; /* readers: hand out plain values instead of dictionary arrays */
    bool       in_place; /* readers of bytes: arrays point into them, and must be gone before they are */
} lk_ipc_options;

/* -- schema messages --------------------------------------------------------------------------------- */
typedef enum lk_ipc_form {
    LK_IPC_ENCAPSULATED, /* continuation, length, flatbuffer, padded to 8: files, FlightInfo.schema */
    LK_IPC_BARE          /* the flatbuffer alone: FlightData.data_header */
} lk_ipc_form;

/* Appends the message to out. */
LK_MUST_CHECK lk_rc lk_ipc_schema_encode(
    const struct ArrowSchema *schema, lk_ipc_form form, lk_buf *out, lk_err *err);
/* Either form, recognised by its first bytes. Dictionary-encoded fields have ->dictionary set. */
LK_MUST_CHECK lk_rc lk_ipc_schema_decode(lk_bytes message, struct ArrowSchema *out, lk_err *err);

/* -- bodies ------------------------------------------------------------------------------------------ */
typedef struct lk_ipc_body lk_ipc_body; /* counted, 64-byte aligned bytes that arrays point into */

/* A new body of size bytes (charged to budget until the last array is gone; NULL: uncharged); the caller
 * fills lk_ipc_body_data before it is decoded. */
LK_MUST_CHECK lk_rc lk_ipc_body_new(size_t size, lk_budget *budget, lk_ipc_body **out, lk_err *err);
void               *lk_ipc_body_data(lk_ipc_body *body);
size_t              lk_ipc_body_size(const lk_ipc_body *body);
void lk_ipc_body_unref(lk_ipc_body *body); /* accepts NULL; the decoder takes its own reference */

/* -- encoding ---------------------------------------------------------------------------------------- */
typedef struct lk_ipc_segment {
    const void *data; /* NULL only when size is 0 */
    size_t      size;
    size_t      padding; /* this many zero bytes follow (0 to 63) */
} lk_ipc_segment;

typedef enum lk_ipc_kind { LK_IPC_SCHEMA, LK_IPC_DICTIONARY, LK_IPC_BATCH } lk_ipc_kind;

typedef struct lk_ipc_message {
    lk_ipc_kind      kind;
    lk_bytes         header;   /* the bare flatbuffer, owned by the message */
    lk_ipc_segment  *segments; /* the body, in order; empty ones are left out */
    size_t           segment_count;
    size_t           body_size; /* all segments with their padding: a multiple of 8 */
    lk_shared_array *batch;     /* keeps the segments alive */
    void            *owned;     /* realigned copies */
} lk_ipc_message;

typedef struct lk_ipc_encoder lk_ipc_encoder;
/* Copies schema. LK_E_INVALID_SCHEMA for a type IPC or lake cannot carry. */
LK_MUST_CHECK lk_rc lk_ipc_encoder_new(const struct ArrowSchema *schema, lk_ipc_encoder **out, lk_err *err);
/* As new: what it sent before is of another stream. */
void lk_ipc_encoder_restart(lk_ipc_encoder *encoder);
void lk_ipc_encoder_free(lk_ipc_encoder *encoder); /* accepts NULL; messages stay valid */

/*
 * The messages that carry one batch, in order: dictionaries that are new or changed since the last batch,
 * then the batch. *messages is an array of *count, freed with lk_ipc_messages_free. Each message holds a
 * reference to batch, so batch may be unreferenced at once.
 */
LK_MUST_CHECK lk_rc lk_ipc_encode(
    lk_ipc_encoder *encoder, lk_shared_array *batch, lk_ipc_message **messages, size_t *count, lk_err *err);
void lk_ipc_messages_free(lk_ipc_message *messages, size_t count); /* accepts NULL */
/* Moves a message's insides out (so that they may live longer than the array of messages). */
void lk_ipc_message_move(lk_ipc_message *from, lk_ipc_message *to);
void lk_ipc_message_deinit(lk_ipc_message *message); /* idempotent */

/* The 8 + padded bytes that precede a body in a stream: continuation, length, header, padding. */
void lk_ipc_frame(lk_bytes header, lk_buf *out);

/* -- decoding ---------------------------------------------------------------------------------------- */
typedef struct lk_ipc_decoder lk_ipc_decoder;
LK_MUST_CHECK lk_rc lk_ipc_decoder_new(const lk_ipc_options *options, lk_ipc_decoder **out, lk_err *err);
void lk_ipc_decoder_free(lk_ipc_decoder *decoder); /* accepts NULL; decoded arrays stay valid */

typedef struct lk_ipc_header {
    lk_ipc_kind kind;
    uint64_t    body_size; /* as declared; the caller compares it with what arrived */
} lk_ipc_header;

/* Looks at a bare header without changing anything: what it is and how long its body must be. */
LK_MUST_CHECK lk_rc lk_ipc_peek(lk_bytes header, lk_ipc_header *out, lk_err *err);

/*
 * Takes the next message: bare header and its body (NULL: no body). The first must be a schema, which must
 * not come again. A dictionary is kept; a record batch fills *batch (released for the other kinds).
 * After an error the decoder is unusable.
 */
LK_MUST_CHECK lk_rc lk_ipc_decode(lk_ipc_decoder *decoder, lk_bytes header, lk_ipc_body *body,
    lk_ipc_kind *kind, struct ArrowArray *batch, lk_err *err);

/* The schema of lk_ipc_decode's batches; NULL before it came. With decode_dictionaries: the plain one. */
const struct ArrowSchema *lk_ipc_decoder_schema(const lk_ipc_decoder *decoder);

/* Replaces dictionary-encoded fields, at any depth, by their values. A tree without any is copied/moved. */
LK_MUST_CHECK lk_rc lk_schema_decode_dictionaries(
    const struct ArrowSchema *schema, struct ArrowSchema *out, lk_err *err);
LK_MUST_CHECK lk_rc lk_array_decode_dictionaries(
    const struct ArrowSchema *schema, struct ArrowArray *take, struct ArrowArray *out, lk_err *err);

/* -- streams and files -------------------------------------------------------------------------------- */
typedef struct lk_ipc_source lk_ipc_source;
struct lk_ipc_source {
    /* Reads up to size bytes at offset; *got < size only at the end. A source of unknown size is read at
     * strictly increasing offsets only. */
    lk_rc (*read)(lk_ipc_source *source, uint64_t offset, void *out, size_t size, size_t *got, lk_err *err);
    void (*close)(lk_ipc_source *source);
    uint64_t size; /* UINT64_MAX: unknown, a stream */
};
/* "-" is standard input. LK_E_NOT_FOUND, LK_E_IO. */
LK_MUST_CHECK lk_rc lk_ipc_source_file(const char *path, lk_ipc_source **out, lk_err *err);
lk_ipc_source      *lk_ipc_source_bytes(lk_bytes bytes); /* borrows bytes */

/* Opens an IPC stream or file, recognised by its magic (a file from a source of unknown size is read as the
 * stream inside it). Takes source, also when it fails. One batch is in memory at a time. */
LK_MUST_CHECK lk_rc lk_ipc_open(
    lk_ipc_source *source, const lk_ipc_options *options, lk_batches **out, lk_err *err);

typedef struct lk_ipc_sink lk_ipc_sink;
struct lk_ipc_sink {
    lk_rc (*write)(lk_ipc_sink *sink, const void *data, size_t size, lk_err *err);
};

typedef enum lk_ipc_container { LK_IPC_STREAM, LK_IPC_FILE } lk_ipc_container;
typedef struct lk_ipc_writer lk_ipc_writer;
/* Borrows sink. Writes the schema at once. */
LK_MUST_CHECK lk_rc lk_ipc_writer_open(const struct ArrowSchema *schema, lk_ipc_container container,
    lk_ipc_sink *sink, lk_ipc_writer **out, lk_err *err);
/* LK_E_UNSUPPORTED_FORMAT when a file would need a dictionary replaced (only streams can). */
LK_MUST_CHECK lk_rc lk_ipc_writer_write(lk_ipc_writer *writer, lk_shared_array *batch, lk_err *err);
LK_MUST_CHECK lk_rc lk_ipc_writer_finish(lk_ipc_writer *writer, lk_err *err); /* end marker, footer */
void lk_ipc_writer_close(lk_ipc_writer *writer); /* accepts NULL; without finish the output is cut short */

#endif
