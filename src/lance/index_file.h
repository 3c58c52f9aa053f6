#ifndef LK_LANCE_INDEX_FILE_H
#define LK_LANCE_INDEX_FILE_H
/*
 * index_file.h - one file of an index: a Lance file that says by itself which columns it has.
 * Threads: confined; the files under it are shared.
 */
#include "lance/index_priv.h"
#include "lance/schema.h"

typedef struct lk_index_table {
    lk_file_reader         *file;
    lk_lance_schema        *schema;
    const lk_metadata_pair *metadata;
    size_t                  metadata_count;
    lk_arena                arena;
} lk_index_table;

/* Opens a file of the index, from the table's cache of open files. LK_E_CORRUPT_FILE, also when it is not there. */
LK_MUST_CHECK lk_rc lk_index_table_open(
    lk_dataset *dataset, const lk_index *index, const char *name, lk_index_table *out, lk_err *err);
void lk_index_table_close(lk_index_table *table); /* accepts zero */

/* The column of this name, with this format (NULL: any). LK_E_CORRUPT_FILE when there is none. */
LK_MUST_CHECK lk_rc lk_index_table_find(
    const lk_index_table *table, const char *name, const char *format, size_t *column, lk_err *err);
const struct ArrowSchema *lk_index_table_field(const lk_index_table *table, size_t column);

/* A number in the file's metadata; false: there is none. */
bool     lk_index_table_number(const lk_index_table *table, const char *key, uint64_t *out);
lk_bytes lk_index_table_text(const lk_index_table *table, const char *key); /* "" when there is none */

/* Decodes rows [first, first + count) of a column, which are there. */
LK_MUST_CHECK lk_rc lk_index_table_read(const lk_index_table *table, size_t column, uint64_t first,
    uint64_t count, lk_buffer_pool *pool, struct ArrowArray *out, lk_err *err);

#endif
