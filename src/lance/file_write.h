#ifndef LK_LANCE_FILE_WRITE_H
#define LK_LANCE_FILE_WRITE_H
/*
 * file_write.h - writes one Lance data file of version 2.0, 2.1 or 2.2: batches in, pages of about 8 MiB a column out, page by page.
 *
 * Invariants:
 *   1. Nothing is visible under the key before finish; finish returns when the store made it durable.
 *   2. What is buffered is at most one unfinished page per leaf column and a few pages under way, charged to the budget.
 *   3. Global buffer 0 is the file descriptor, global buffer 1, unless the file is compact, the zone statistics (stats.h).
 *
 * Threads: a writer is confined to one thread.
 */
#include "base/arena.h"
#include "base/budget.h"
#include "base/bytes.h"
#include "base/err.h"
#include "io/store.h"
#include "lance/schema.h"

typedef struct lk_file_writer lk_file_writer;

/* Where a leaf field went: DataFile.fields[i] and DataFile.column_indices[i] of the manifest. */
typedef struct lk_file_column {
    int32_t field_id;
    int32_t column_index;
} lk_file_column;

typedef struct lk_file_written {
    uint64_t              rows, size_bytes;
    const lk_file_column *columns; /* leaf fields in file order, in the arena given to finish */
    size_t                column_count;
    uint32_t              blob_count; /* files beside it: blobs 1 to this (lance/blob.h) */
} lk_file_written;

/* Opens `key` for rows of this schema (borrowed until the writer is closed), for a file of version 2.<file_minor>.
 * LK_E_INVALID_SCHEMA names the first field whose type such files do not store, LK_E_UNSUPPORTED_FORMAT a version
 * that is not written. budget may be NULL (unlimited). */
LK_MUST_CHECK lk_rc lk_file_writer_open(lk_store *store, lk_bytes key, const lk_lance_schema *schema,
    uint32_t file_minor, lk_budget *budget, lk_file_writer **out, lk_err *err);

/* Before the first row: pages are encoded by this crew (write_crew.h; borrowed until the writer is closed, for one
 * writer at a time). Without it: on the caller's thread. */
struct lk_page_crew;
void lk_file_writer_use_crew(lk_file_writer *writer, struct lk_page_crew *crew);

/* Before the first row: a file without statistics, and with less padding where readers let it be (in 2.0). For few rows, or
 * rows that are looked up and never scanned. */
void lk_file_writer_compact(lk_file_writer *writer);

/* Before the first row: a writer that is used again. After a finish that went well it is still there, without rows and with
 * its memory, for lk_file_writer_again, which begins another file of the same schema and version (and asks again for what
 * was asked for before the first row), or lk_file_writer_close. */
void lk_file_writer_keep(lk_file_writer *writer);
/* The same budget is charged. After an error the writer is as it was. */
LK_MUST_CHECK lk_rc lk_file_writer_again(lk_file_writer *writer, lk_store *store, lk_bytes key, lk_err *err);
size_t              lk_file_writer_capacity(const lk_file_writer *writer); /* memory held */
void                lk_file_writer_close(lk_file_writer *writer); /* one that was finished; accepts NULL */

/* Adds the rows of batch (borrowed; a struct array whose children are the columns, any offset). After an
 * error the writer can only be abandoned. */
LK_MUST_CHECK lk_rc lk_file_writer_write(lk_file_writer *writer, const struct ArrowArray *batch, lk_err *err);

uint64_t lk_file_writer_rows(const lk_file_writer *writer); /* rows written so far */

/* Writes the rest, makes the file durable and closes the writer, also when it fails; one that is kept only when it fails. */
LK_MUST_CHECK lk_rc lk_file_writer_finish(
    lk_file_writer *writer, lk_arena *arena, lk_file_written *out, lk_err *err);

void lk_file_writer_abandon(lk_file_writer *writer); /* removes what was written; accepts NULL */

LK_MUST_CHECK lk_rc lk_file_writer_check_minor(
    uint32_t file_minor, lk_err *err); /* LK_E_UNSUPPORTED_FORMAT */

/* lk_file_writer_supports for every column, and that no column stands behind an empty struct: pylance reads another in
 * its place. */
LK_MUST_CHECK lk_rc lk_file_writer_supports_all(
    const struct ArrowSchema *schema, uint32_t file_minor, lk_err *err);

/* Whether files of version 2.<file_minor> store the field (children included). False puts the reason into err->detail via
 * LK_E_INVALID_SCHEMA. */
LK_MUST_CHECK lk_rc lk_file_writer_supports(
    const struct ArrowSchema *field, uint32_t file_minor, lk_err *err);

#endif
