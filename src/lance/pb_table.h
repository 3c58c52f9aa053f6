#ifndef LK_LANCE_PB_TABLE_H
#define LK_LANCE_PB_TABLE_H
/*
 * pb_table.h - the protobuf messages of a table to and from plain structs. The only file of the table level
 * that knows protobuf.
 *
 * Invariants:
 *   1. Decoding a message of n bytes takes at most LK_PB_MEMORY_FACTOR * n + 1 MiB of memory.
 *   2. A rewritten manifest holds every field of its base that lk_pb_manifest_append neither sets nor replaces,
 *      unknown ones included, byte for byte and in the same order.
 * Threads: stateless.
 */
#include "lance/manifest.h"

enum { LK_PB_MEMORY_FACTOR = 24 };

/* WriterVersion.version beside library "lake". */
#define LK_PB_WRITER_VERSION "0.1.0"

/* What a manifest says beyond lk_manifest, for the checks in manifest.c. */
typedef struct lk_pb_features {
    lk_bytes file_format, format_version; /* data_format; "" when absent */
    bool     fragment_tree;               /* fragments live outside the manifest */
    bool     overlays;                    /* a fragment has overlay files */
    bool     external_row_ids;            /* a fragment keeps row ids or versions in files of their own */
} lk_pb_features;

/* Fills out (whose body is set) and *features; all memory in out->arena. LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_pb_manifest_decode(
    lk_manifest *out, const lk_manifest *like, lk_pb_features *features, lk_err *err);

/* -- writing ---------------------------------------------------------------------------------------- */
typedef struct lk_pb_new_version { /* what a commit sets; everything else comes from the base */
    uint64_t           version, timestamp_ms;
    uint64_t           reader_flags, writer_flags;
    bool               has_fragment_id_max;
    uint32_t           fragment_id_max;
    const lk_fragment *fragments; /* added after those of the base */
    size_t             fragment_count;
    bool               replaces_fragments; /* raw_fragments stand where those of the base stood */
    const lk_bytes    *raw_fragments;      /* DataFragment messages */
    size_t             raw_fragment_count;
    bool               replaces_fields;
    const lk_bytes    *raw_fields; /* Field messages */
    size_t             raw_field_count;
    bool               sets_field_id_max; /* of tables that never reuse field ids */
    int32_t            field_id_max;
    bool               sets_next_row_id;
    uint64_t           next_row_id;
    lk_bytes           transaction_file; /* "" = none */
    bool               has_index_section;
    bool               no_transaction; /* the object has no section of it */
    uint64_t           index_section_offset, transaction_section_offset;
} lk_pb_new_version;

/* Appends the Manifest message of a new table without fragments. */
void lk_pb_manifest_create(
    const lk_lance_schema *schema, uint32_t file_minor, const lk_pb_new_version *version, lk_buf *out);

/* Appends the Manifest message that grows out of `base`, a decoded body (invariant 2). */
LK_MUST_CHECK lk_rc lk_pb_manifest_append(
    lk_bytes base, const lk_pb_new_version *version, lk_buf *out, lk_err *err);

/* -- transactions ------------------------------------------------------------------------------------ */
typedef enum lk_operation { /* Transaction.operation by field number */
    LK_OPERATION_UNKNOWN = 0,
    LK_OPERATION_APPEND = 100,
    LK_OPERATION_DELETE = 101,
    LK_OPERATION_OVERWRITE = 102,
    LK_OPERATION_CREATE_INDEX = 103,
    LK_OPERATION_REWRITE = 104,
    LK_OPERATION_MERGE = 105,
    LK_OPERATION_RESTORE = 106,
    LK_OPERATION_RESERVE_FRAGMENTS = 107,
    LK_OPERATION_UPDATE = 108,
    LK_OPERATION_PROJECT = 109,
    LK_OPERATION_UPDATE_CONFIG = 110,
    LK_OPERATION_DATA_REPLACEMENT = 111,
    LK_OPERATION_UPDATE_MEM_WAL_STATE = 112,
    LK_OPERATION_CLONE = 113,
    LK_OPERATION_UPDATE_BASES = 114,
    LK_OPERATION_DATA_OVERLAY = 115
} lk_operation;

typedef struct lk_transaction {
    uint64_t                read_version;
    lk_bytes                uuid;
    lk_operation            operation; /* one we have no name for: LK_OPERATION_UNKNOWN */
    const lk_metadata_pair *properties;
    size_t                  property_count;
} lk_transaction;

const char *lk_operation_name(lk_operation operation);

/* LK_E_CORRUPT_FILE when it is no Transaction. All memory in the arena. */
LK_MUST_CHECK lk_rc lk_pb_transaction_decode(
    lk_bytes message, lk_arena *arena, lk_transaction *out, lk_err *err);

/* Appends a transaction around `body`, the message of its operation. */
void lk_pb_transaction_encode(const lk_transaction *transaction, lk_bytes body, lk_buf *out);

/* The messages of the operations that add fragments; of a fragment: its id, files and rows. */
void lk_pb_append_encode(const lk_fragment *fragments, size_t count, lk_buf *out);
void lk_pb_overwrite_encode(
    const lk_fragment *fragments, size_t count, const lk_lance_schema *schema, lk_buf *out);

/* The Field messages of these records (pre-order), in the arena. */
const lk_bytes *lk_pb_fields_encode(const lk_field_record *records, size_t count, lk_arena *arena);

/* One DataFragment message: id, files and rows. */
void lk_pb_fragment_encode(const lk_fragment *fragment, lk_buf *out);
/* fragment->raw with this deletion file instead of the one it had. LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_pb_fragment_with_deletion(
    const lk_fragment *fragment, const lk_deletion_file *deletion, lk_buf *out, lk_err *err);

/* Appends a FileDescriptor: schema and row count. */
void lk_pb_file_descriptor(const lk_lance_schema *schema, uint64_t rows, lk_buf *out);

/* The schema inside a FileDescriptor as records; all memory in the arena. LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_pb_file_descriptor_decode(lk_bytes message, lk_arena *arena, lk_field_record **records,
    size_t *count, lk_metadata_pair **metadata, size_t *metadata_count, lk_err *err);

#endif
