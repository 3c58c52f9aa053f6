#ifndef LK_LANCE_V20_WRITE_H
#define LK_LANCE_V20_WRITE_H
/*
 * v20_write.h - the columns of a 2.0 file: batches in, pages out. Every field is a column, in pre-order: a leaf of
 * values, a list of ends (its items are the rows of the columns below), a struct of nothing. What is one column to
 * the table (packed structs, blobs) is one here too.
 *
 * Invariants:
 *   1. The items of one page of lists are whole pages of the columns below: none holds items of two.
 *   2. A struct is never null; LK_E_SCHEMA_MISMATCH names the column otherwise.
 *
 * Threads: confined.
 */
#include "lance/encoding.h"
#include "lance/schema.h"
#include "lance/stats.h"
#include "lance/v20_wide.h"

typedef struct lk_v20_writer lk_v20_writer;

typedef struct lk_v20_pages { /* of one column */
    int32_t             field_id;
    bool                is_blob;
    const lk_page_meta *pages;
    size_t              page_count;
} lk_v20_pages;

/* Whether the field (children included) is stored. LK_E_INVALID_SCHEMA names what is not. */
LK_MUST_CHECK lk_rc lk_v20_writer_supports(const struct ArrowSchema *field, lk_err *err);

/* For a schema whose fields are all supported, which is borrowed. */
LK_MUST_CHECK lk_rc lk_v20_writer_open(
    const lk_lance_schema *schema, const lk_page_sink *sink, lk_v20_writer **out, lk_err *err);
void lk_v20_writer_close(lk_v20_writer *writer); /* accepts NULL */
void lk_v20_writer_reset(lk_v20_writer *writer); /* no rows and no pages; memory kept */

LK_MUST_CHECK lk_rc lk_v20_writer_write(lk_v20_writer *writer, const struct ArrowArray *batch, lk_err *err);
LK_MUST_CHECK lk_rc lk_v20_writer_flush(lk_v20_writer *writer, lk_err *err); /* the rest, at the end */

size_t       lk_v20_writer_column_count(const lk_v20_writer *writer);
lk_v20_pages lk_v20_writer_pages(const lk_v20_writer *writer, size_t column);
size_t       lk_v20_writer_capacity(const lk_v20_writer *writer); /* memory held */
/* The columns' statistics, one column each; those without stay empty. */
lk_stats_writer *lk_v20_writer_stats(const lk_v20_writer *writer);

#endif
