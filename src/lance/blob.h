#ifndef LK_LANCE_BLOB_H
#define LK_LANCE_BLOB_H
/*
 * blob.h - large values that lie apart from their rows. A row holds a descriptor of where the bytes are:
 *
 *   2.1, 2.0  in the data file: struct<position: uint64, size: uint64>
 *   2.2       struct<kind: uint8, position: uint64, size: uint64, blob_id: uint32, blob_uri: string>; kinds:
 *             0 inline     in the data file
 *             1 packed     among others in data/<stem>/<name of blob_id>.blob
 *             2 dedicated  all of data/<stem>/<name of blob_id>.blob
 *             3 external   at blob_uri, or `size` bytes from `position` of it
 *   <stem> is the data file's name without ".lance", the name of an id its 32 bits, lowest first, as digits.
 *
 * Invariants: a descriptor is not believed (a range outside its file is LK_E_CORRUPT_FILE); bytes are read only for
 * rows that were asked for. Threads: stateless.
 */
#include "base/arena.h"
#include "io/store.h"
#include "lance/file_read.h"

typedef enum lk_blob_kind {
    LK_BLOB_INLINE = 0,
    LK_BLOB_PACKED = 1,
    LK_BLOB_DEDICATED = 2,
    LK_BLOB_EXTERNAL = 3
} lk_blob_kind;

enum {
    LK_BLOB_INLINE_BYTES_MAX = 64 * 1024,       /* up to here in the data file */
    LK_BLOB_PACKED_BYTES_MAX = 4 * 1024 * 1024, /* from here on a file of its own */
    LK_BLOB_PACK_BYTES_MAX = 1024 * 1024 * 1024 /* of a packed file, as the reference has it */
};

typedef struct lk_blob_descriptor {
    lk_blob_kind kind;
    uint64_t     position, size;
    uint32_t     id;
    lk_bytes     uri;
} lk_blob_descriptor;

/* Whether a table's field is a blob column: lance-encoding:blob on binary, or the extension lance.blob.v2. */
bool lk_is_blob(const struct ArrowSchema *field);
bool lk_is_blob_v2(const struct ArrowSchema *field);

/* Whether the field is a packed struct, by its metadata. */
bool lk_is_packed(const struct ArrowSchema *field);

/* The type of descriptors, named like the field. file_minor: 2 = the longer one. */
LK_MUST_CHECK lk_rc lk_blob_descriptor_schema(
    const struct ArrowSchema *field, unsigned file_minor, struct ArrowSchema *out, lk_err *err);

/* The type of the bytes: large binary, named like the field. */
LK_MUST_CHECK lk_rc lk_blob_bytes_schema(
    const struct ArrowSchema *field, struct ArrowSchema *out, lk_err *err);

/* The descriptor in row `row` of an array of either descriptor type; false: null. */
bool lk_blob_descriptor_at(const struct ArrowArray *descriptors, int64_t row, lk_blob_descriptor *out);

/* data/<stem>/<id>.blob of the data file `key`, in the arena. */
lk_bytes lk_blob_key(lk_bytes data_file, uint32_t id, lk_arena *arena);

/* Opens the object behind an external blob's uri; the caller closes it. */
typedef struct lk_blob_outside {
    lk_rc (*open)(void *context, lk_bytes uri, lk_store_reader **out, uint64_t *size, lk_err *err);
    void *context;
} lk_blob_outside;

/* The bytes of descriptors as an array of large binary, nulls where they are null. outside: NULL refuses external
 * blobs by name. */
LK_MUST_CHECK lk_rc lk_blob_read_all(lk_file_reader *file, const lk_blob_outside *outside,
    const struct ArrowArray *descriptors, lk_buffer_pool *pool, struct ArrowArray *out, lk_err *err);

/* The same as rows of a table's own blob type (struct<data, uri[, position, size]>, the field): bytes of blobs that the
 * table holds, uris of external ones, whose bytes are not read. */
LK_MUST_CHECK lk_rc lk_blob_read_stored(lk_file_reader *file, const struct ArrowSchema *field,
    const struct ArrowArray *descriptors, lk_buffer_pool *pool, struct ArrowArray *out, lk_err *err);

/* -- one blob ---------------------------------------------------------------------------------------- */
typedef struct lk_blob lk_blob; /* open: a file-like range */

LK_MUST_CHECK lk_rc lk_blob_open(lk_file_reader *file, const lk_blob_outside *outside,
    const lk_blob_descriptor *descriptor, lk_blob **out, lk_err *err);
uint64_t            lk_blob_size(const lk_blob *blob);
/* Reads [offset, offset + size), which must lie inside. */
LK_MUST_CHECK lk_rc lk_blob_read(lk_blob *blob, uint64_t offset, void *out, size_t size, lk_err *err);
void                lk_blob_close(lk_blob *blob); /* accepts NULL */
/* The object its bytes lie in; NULL: the data file. Borrowed. */
lk_store_reader *lk_blob_object(const lk_blob *blob);

#endif
