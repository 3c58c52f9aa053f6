#ifndef LK_ARROW_IPC_PRIV_H
#define LK_ARROW_IPC_PRIV_H
/*
 * ipc_priv.h - what the IPC files share: bodies with their extra blocks, schemas with dictionary ids, the
 * numbers of the format. Threads: confined.
 */
#include "arrow/array_priv.h"
#include "arrow/flat_priv.h"
#include "arrow/ipc.h"

/* The union tags and field numbers of Arrow's Message, Schema, RecordBatch and File tables. */
enum { LK_MESSAGE_SCHEMA = 1, LK_MESSAGE_DICTIONARY = 2, LK_MESSAGE_BATCH = 3 };
enum { LK_VERSION_V4 = 3, LK_VERSION_V5 = 4 };
enum { LK_CODEC_NONE = -1, LK_CODEC_LZ4 = 0, LK_CODEC_ZSTD = 1 };
#define LK_IPC_CONTINUATION 0xFFFFFFFFU
#define LK_IPC_MAGIC        "ARROW1"

/* Starts an LK_E_INVALID_IPC whose detail is the text. */
LK_MUST_CHECK lk_rc lk_ipc_bad(lk_err *err, const char *format, ...) LK_PRINTF(2, 3);

/* A dense union: written, never read. */
static inline bool lk_ipc_is_union(const struct ArrowSchema *schema)
{
    return strncmp(schema->format, "+ud:", 4) == 0;
}

/* -- schemas ----------------------------------------------------------------------------------------- */
typedef struct lk_ipc_schema {
    struct ArrowSchema schema;
    /* The id of each dictionary-encoded field, in the order of a walk that visits a field, then (for a
     * dictionary) the children of its values, else its own children. */
    int64_t *ids;
    size_t   id_count;
    /* Fields that arrive as views and are handed out as utf8 or binary; by address. */
    const struct ArrowSchema **views;
    size_t                     view_count;
} lk_ipc_schema;
void lk_ipc_schema_deinit(lk_ipc_schema *schema);
bool lk_ipc_schema_is_view(const lk_ipc_schema *schema, const struct ArrowSchema *field);

/* From a Schema table; *out is released on error. */
LK_MUST_CHECK lk_rc lk_ipc_schema_read(const lk_flat_table *table, lk_ipc_schema *out, lk_err *err);

/* Opens a Message: its flatbuffer, version and header. */
typedef struct lk_ipc_envelope {
    lk_flat       flat;
    int           tag; /* LK_MESSAGE_... */
    lk_flat_table header;
    uint64_t      body_size;
} lk_ipc_envelope;
LK_MUST_CHECK lk_rc lk_ipc_envelope_open(lk_bytes header, lk_ipc_envelope *out, lk_err *err);

typedef struct lk_ipc_block { /* where a message lies in a file */
    int64_t offset, header_size, body_size;
} lk_ipc_block;
/* The footer's flatbuffer; appended to out. */
LK_MUST_CHECK lk_rc lk_ipc_footer_encode(const struct ArrowSchema *schema, const lk_ipc_block *dictionaries,
    size_t dictionary_count, const lk_ipc_block *batches, size_t batch_count, lk_buf *out, lk_err *err);

/* -- bodies ------------------------------------------------------------------------------------------ */
/* A body of bytes that outlive it. */
lk_ipc_body *lk_ipc_body_of(lk_bytes bytes, lk_budget *budget);
lk_keeper   *lk_ipc_body_keeper(lk_ipc_body *body);
/* A block that lives and is charged with the body (realigned or decompressed buffers). */
LK_MUST_CHECK lk_rc lk_ipc_body_extra(lk_ipc_body *body, size_t size, void **out, lk_err *err);
/* Decompresses one buffer (its 8-byte length prefix included) into an extra block of body. */
LK_MUST_CHECK lk_rc lk_ipc_decompress(
    lk_ipc_body *body, int codec, lk_bytes in, const uint8_t **out, size_t *out_size, lk_err *err);

/* -- dictionaries ------------------------------------------------------------------------------------ */
/* About what lk_array_decode_dictionaries would allocate. */
uint64_t lk_dictionaries_decoded_bytes(const struct ArrowSchema *schema, const struct ArrowArray *array);

/* -- encoder and decoder insides used by files -------------------------------------------------------- */
/* In a file a dictionary may only grow: a change that is no growth is LK_E_UNSUPPORTED_FORMAT. */
void lk_ipc_encoder_for_file(lk_ipc_encoder *encoder);
/* Gives the decoder a schema that came by another way (the footer); moves it in. */
LK_MUST_CHECK lk_rc lk_ipc_decoder_take_schema(lk_ipc_decoder *decoder, lk_ipc_schema *schema, lk_err *err);

#endif
