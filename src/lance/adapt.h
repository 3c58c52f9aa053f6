#ifndef LK_LANCE_ADAPT_H
#define LK_LANCE_ADAPT_H
/*
 * adapt.h - rows whose columns say the same as a table's in another form: values for a dictionary column and the
 * other way round, plain bytes for a blob. And the schema that a new table has for the one it was asked for.
 *
 * Threads: a stream is confined.
 */
#include "arrow/batch.h"

#include <stdbool.h>

/*
 * Rows as the table has them. *out is a stream over source (borrowed: the caller closes both, this one first), or
 * source itself when there is nothing to do. Columns that neither are the table's nor say the same are
 * LK_E_SCHEMA_MISMATCH. outside: blobs may be uris of objects outside of the table; else such a row is
 * LK_E_INVALID_REQUEST.
 */
LK_MUST_CHECK lk_rc lk_adapt_rows(
    const struct ArrowSchema *table, lk_batches *source, bool outside, lk_batches **out, lk_err *err);

/* What a new table of file version 2.<file_minor> has for this schema: since 2.2 blobs of plain bytes are of the
 * extension lance.blob.v2. *out is a copy. */
LK_MUST_CHECK lk_rc lk_adapt_schema(
    const struct ArrowSchema *asked, uint32_t file_minor, struct ArrowSchema *out, lk_err *err);

/* Whether a table of this schema must have files of version 2.2: it has maps, or blobs of lance.blob.v2. */
bool lk_schema_needs_2_2(const struct ArrowSchema *schema);

#endif
