#ifndef LK_LANCE_FILE_READ_H
#define LK_LANCE_FILE_READ_H
/*
 * file_read.h - one Lance data file, open for reading: footer, column metadata, pages, zone statistics.
 *
 * Invariants:
 *   1. Nothing in the file is believed: every offset, size and count is checked before it is used
 *      (LK_E_CORRUPT_FILE names file and reason); an encoding we do not read is LK_E_UNSUPPORTED_FORMAT by
 *      name, never wrong rows.
 *   2. Opening reads the tail once; column metadata is parsed when a column is first touched, page tables
 *      (chunk sizes, dictionaries, symbol tables) when a page is, and both are kept: a second read of the same
 *      rows touches only their pages.
 *
 * Ownership: _open/_ref/_unref shared. Threads: shared; the kept tables are guarded by the file's mutex, which
 * is never held across I/O.
 */
#include "base/arena.h"
#include "base/budget.h"
#include "base/bytes.h"
#include "base/err.h"
#include "io/store.h"
#include "lance/buffer_pool.h"

#include <nanoarrow/nanoarrow.h>

typedef struct lk_file_reader lk_file_reader;

/* Opens `key`. size_bytes: what the manifest says (0: unknown; a difference is LK_E_CORRUPT_FILE). The budget
 * (NULL: unlimited) is charged for what the file keeps and must outlive it. */
LK_MUST_CHECK lk_rc lk_file_reader_open(
    lk_store *store, lk_bytes key, uint64_t size_bytes, lk_budget *budget, lk_file_reader **out, lk_err *err);
lk_file_reader *lk_file_reader_ref(lk_file_reader *file);
void            lk_file_reader_unref(lk_file_reader *file); /* accepts NULL */

uint64_t lk_file_reader_rows(const lk_file_reader *file);
unsigned lk_file_reader_major(const lk_file_reader *file); /* as the footer says: 2.0 files say 0.3 */
unsigned lk_file_reader_minor(const lk_file_reader *file);
size_t   lk_file_reader_column_count(const lk_file_reader *file);
lk_bytes lk_file_reader_key(const lk_file_reader *file);
/* The encoded lance.file.Schema of the file's own descriptor; borrowed from the file. */
lk_bytes lk_file_reader_schema_bytes(const lk_file_reader *file);
size_t   lk_file_reader_bytes(lk_file_reader *file); /* memory that the open file keeps */

typedef struct lk_row_range {
    uint64_t start, count;
} lk_row_range;

typedef enum lk_column_kind {
    LK_COLUMN_PLAIN,
    LK_COLUMN_PACKED, /* a struct in one column */
    LK_COLUMN_BLOB    /* descriptors (the field is a struct) or bytes (large binary), see blob.h */
} lk_column_kind;

/* Which columns make up an Arrow field: a tree of the field's own shape. A dictionary column is decoded as what the
 * field says: a dictionary, or its values. */
typedef struct lk_field_source lk_field_source;
struct lk_field_source {
    const struct ArrowSchema     *field;
    lk_column_kind                kind;          /* leaf */
    bool                          is_dictionary; /* leaf: the table's field is, whatever `field` says */
    const struct lk_blob_outside *outside;       /* leaf: of blobs; NULL: external ones are refused */
    lk_file_reader               *file;   /* leaf: the file that holds it; NULL: in no file, all null */
    size_t                        column; /* leaf: its column in that file */
    lk_field_source *children; /* struct: one a child; a list of a 2.0 file has file and column too */
    size_t           child_count;
    bool             listed; /* struct without members: some file says that it is there */
};

/*
 * Decodes the rows of the ranges (ascending, apart, inside the file) one after the other into one array of
 * source->field's type. Reads only the chunks that hold them. Buffers are 64-byte aligned, come from the pool
 * and are charged to its budget until the array is released.
 */
LK_MUST_CHECK lk_rc lk_file_decode(const lk_field_source *source, const lk_row_range *ranges,
    size_t range_count, lk_buffer_pool *pool, struct ArrowArray *out, lk_err *err);

#endif
