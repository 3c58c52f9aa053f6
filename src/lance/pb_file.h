#ifndef LK_LANCE_PB_FILE_H
#define LK_LANCE_PB_FILE_H
/*
 * pb_file.h - the protobuf messages of a data file to and from encoding.h; the only file that sees them.
 * Errors: LK_E_CORRUPT_FILE for what cannot be right, LK_E_UNSUPPORTED_FORMAT with the encoding's name as
 * detail for what we do not read. Threads: stateless.
 */
#include "base/arena.h"
#include "base/bytes.h"
#include "lance/encoding.h"

/* A ColumnMetadata message. Pages' first rows are counted here (the stored priority is a hint). */
LK_MUST_CHECK lk_rc lk_pb_column_meta(lk_bytes message, lk_arena *arena, lk_column_meta *out, lk_err *err);

/* The Any of a page: an encodings21.PageLayout, or an error. */
LK_MUST_CHECK lk_rc lk_pb_page_layout(lk_bytes any, lk_arena *arena, lk_page_layout *out, lk_err *err);

/* A FileDescriptor: the schema message inside it (borrowed) and the row count. */
LK_MUST_CHECK lk_rc lk_pb_descriptor(
    lk_bytes message, lk_arena *arena, lk_bytes *schema, uint64_t *rows, lk_err *err);

/* Appends the Any of a page layout. */
void lk_pb_put_layout(const lk_page_layout *layout, lk_buf *out);

/* Appends a ColumnMetadata of these pages (encoding = what lk_pb_put_layout made). */
void lk_pb_put_column(const lk_page_meta *pages, size_t page_count, bool blob_v20, lk_buf *out);

#endif
