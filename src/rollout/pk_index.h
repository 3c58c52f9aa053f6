#ifndef LK_ROLLOUT_PK_INDEX_H
#define LK_ROLLOUT_PK_INDEX_H
/*
 * pk_index.h - the ids of a generation in order, with their rows: what the reference's LSM reader looks keys up in.
 * Format: a BTREE index's files (Lance file version 2.0) in `_pk_index/`: page_data.lance (values, ids) of pages of 8,192
 * entries, page_lookup.lance (min, max, null_count, page_idx). Threads: stateless.
 */
#include "io/store.h"
#include "lance/schema.h"

/* The columns of the two files, made once, and the writers of the last ones. */
typedef struct lk_pk_index_form {
    struct ArrowSchema     data_columns, lookup_columns;
    lk_lance_schema       *data, *lookup;
    struct lk_file_writer *data_file, *lookup_file; /* or NULL */
} lk_pk_index_form;
LK_MUST_CHECK lk_rc lk_pk_index_form_init(
    lk_pk_index_form *form, lk_err *err);             /* deinit also after a failure */
void lk_pk_index_form_deinit(lk_pk_index_form *form); /* accepts zero */

/* Writes both files for rows 0 .. count-1 with these ids, which are distinct. store: rooted at the generation. */
LK_MUST_CHECK lk_rc lk_pk_index_write(
    lk_store *store, lk_pk_index_form *form, const lk_bytes *ids, size_t count, lk_err *err);

#endif
