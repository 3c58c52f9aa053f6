#ifndef LK_LANCE_VIEW_H
#define LK_LANCE_VIEW_H
/*
 * view.h - the types in which a table's columns are handed out: dictionaries or their values, blobs as descriptors or
 * as bytes. A view has the fields of the table's schema in the same places; below a blob it has its own.
 * Threads: stateless.
 */
#include "base/err.h"

#include <nanoarrow/nanoarrow.h>
#include <stdbool.h>

typedef enum lk_blob_view {
    LK_BLOBS_DESCRIBED, /* as descriptors (lance/blob.h): no byte is read */
    LK_BLOBS_BYTES,     /* as large binary */
    LK_BLOBS_STORED     /* as the table's own type, which is what a writer takes */
} lk_blob_view;

typedef struct lk_view {
    bool         dictionary_values; /* dictionary columns as plain ones */
    lk_blob_view blobs;
} lk_view;

/* The schema `table` seen so. LK_E_LIMIT when memory is out. */
LK_MUST_CHECK lk_rc lk_view_schema(
    const struct ArrowSchema *table, lk_view view, struct ArrowSchema *out, lk_err *err);

/* Whether top-level field `column` is the same in two views of one table. */
bool lk_view_same(const struct ArrowSchema *left, const struct ArrowSchema *right, size_t column);

bool lk_schema_has_dictionary(const struct ArrowSchema *field); /* at any depth */
bool lk_schema_has_blob(const struct ArrowSchema *field);       /* of a table's schema, at any depth */

#endif
