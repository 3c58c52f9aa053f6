#ifndef LK_LANCE_INDEX_WRITE_H
#define LK_LANCE_INDEX_WRITE_H
/*
 * index_write.h - the files of a new segment: what is kept of the old segments, and the rows of the fragments that they
 * do not cover. Threads: confined.
 */
#include "lance/change.h"
#include "lance/file_write.h"
#include "lance/index_search.h"
#include "lance/index_source.h"

typedef struct lk_index_build {
    lk_change             *change;
    lk_index_source        source;
    lk_bytes               directory; /* "_indices/<uuid>" */
    const lk_index *const *old;       /* segments whose entries are kept for the fragments that they cover */
    size_t                 old_count;
    const bool            *covered; /* by number of the fragment: by one of old */
    void (*progress)(void *context, uint64_t rows, uint64_t rows_total);
    void         *progress_context;
    size_t        run_bytes; /* 0: the default */
    uint64_t      rows, rows_total, size_bytes;
    lk_index_file files[2]; /* what was written */
    size_t        file_count;
} lk_index_build;

LK_MUST_CHECK lk_rc lk_index_build_btree(lk_index_build *build, lk_err *err);
LK_MUST_CHECK lk_rc lk_index_build_zonemap(lk_index_build *build, lk_err *err);

/* -- for both -- */
/* Opens a file of the segment; schema is the caller's and stays. */
LK_MUST_CHECK lk_rc lk_index_build_open(lk_index_build *build, const char *name,
    const lk_lance_schema *schema, lk_file_writer **out, lk_err *err);
LK_MUST_CHECK lk_rc lk_index_build_finish(
    lk_index_build *build, const char *name, lk_file_writer *writer, lk_err *err);
/* Reads the fragments that are not covered. */
LK_MUST_CHECK lk_rc lk_index_build_read(
    lk_index_build *build, lk_index_take *take, void *context, lk_err *err);
/* Whether an entry of an old segment is kept: its row is there, and in a fragment that the segment covers. Ids
 * become addresses. */
LK_MUST_CHECK lk_rc lk_index_build_keeps(const lk_index_build *build, const lk_index *old, uint64_t *ids,
    size_t count, uint8_t *keeps, lk_err *err);

#endif
