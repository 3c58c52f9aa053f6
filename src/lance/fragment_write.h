#ifndef LK_LANCE_FRAGMENT_WRITE_H
#define LK_LANCE_FRAGMENT_WRITE_H
/*
 * fragment_write.h - batches to new fragments of one data file each, cut at a number of rows. Every file is noted in
 * the change, which removes it when it fails. Threads: confined.
 */
#include "lance/change.h"
#include "lance/file_write.h"

/* What a writer of many files of one schema and version goes on with: the writer of the last one, and its memory. */
typedef struct lk_kept_file {
    lk_file_writer      *writer; /* or NULL */
    struct lk_page_crew *crew;
} lk_kept_file;
void   lk_kept_file_deinit(lk_kept_file *kept); /* accepts zero */
size_t lk_kept_file_capacity(const lk_kept_file *kept);

typedef struct lk_fragment_writer {
    lk_change             *change;
    const lk_lance_schema *schema;
    uint32_t               file_minor; /* of new files: the change's, unless set before the first row */
    int64_t                rows_max;   /* of a file */
    bool                   compact;    /* the files are, see lk_file_writer_compact; before the first row */
    lk_bytes               only_name;  /* of the one file that there will be; "": random names */
    lk_kept_file          *kept;       /* borrowed, of one fragment writer at a time; NULL: none */
    lk_file_writer        *writer;     /* the file being written, or NULL */
    struct lk_page_crew   *crew;       /* encodes its pages, file after file; kept's, if there is one */
    lk_bytes               file_name;  /* its name below data/ */
    lk_buf                 fragments;  /* of lk_fragment: every data file finished */
    int64_t                row_count;
} lk_fragment_writer;

/* Whether rows of this schema can be written: LK_E_INVALID_SCHEMA, LK_E_UNSUPPORTED_FORMAT name the column. A new table
 * has types only. */
LK_MUST_CHECK lk_rc lk_fragment_writer_check(const lk_lance_schema *schema, uint32_t file_minor, lk_err *err);
LK_MUST_CHECK lk_rc lk_fragment_writer_check_types(
    const struct ArrowSchema *schema, uint32_t file_minor, lk_err *err);

/* Borrows change and schema. rows_max 0: the default. */
void lk_fragment_writer_init(
    lk_fragment_writer *writer, lk_change *change, const lk_lance_schema *schema, uint64_t rows_max);
void lk_fragment_writer_deinit(lk_fragment_writer *writer); /* accepts zero */

/* Writes all of source; the last file is finished. A null where the schema has none is refused by value. */
LK_MUST_CHECK lk_rc lk_fragment_writer_write(lk_fragment_writer *writer, lk_batches *source, lk_err *err);
/* The same, batch by batch (moved in), and the end. */
LK_MUST_CHECK lk_rc lk_fragment_writer_add(lk_fragment_writer *writer, struct ArrowArray *take, lk_err *err);
LK_MUST_CHECK lk_rc lk_fragment_writer_end(lk_fragment_writer *writer, lk_err *err);
/* Removes the file that is not finished, after a failure: the rows may be written again. */
void lk_fragment_writer_abandon(lk_fragment_writer *writer);

/* What was written so far; ids are zero until numbered. */
lk_fragment *lk_fragment_writer_fragments(const lk_fragment_writer *writer, size_t *count);

/* Gives them the ids from `first` on. LK_E_LIMIT when there are not that many. */
LK_MUST_CHECK lk_rc lk_fragment_writer_number(lk_fragment_writer *writer, uint64_t first, lk_err *err);

#endif
