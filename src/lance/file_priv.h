#ifndef LK_LANCE_FILE_PRIV_H
#define LK_LANCE_FILE_PRIV_H
/*
 * file_priv.h - what stands behind lk_file_reader, for the files that decode pages.
 *
 * Invariants:
 *   1. columns[c], its pages[p] and stats go from NULL to a value once (compare-and-swap; the loser frees its
 *      own) and stay until the file closes, so readers need no lock.
 *   2. A page that loaded is consistent with itself: chunk and value starts ascend, end at the buffer's and the
 *      page's ends, its buffers lie inside the file.
 * Threads: shared.
 */
#include "lance/codec.h"
#include "lance/file_read.h"
#include "lance/packed.h"
#include "lance/stats.h"
#include "lance/v20_encoding.h"

#include <stdatomic.h>

enum {
    LK_FILE_TAIL_BYTES = 64 * 1024, /* read at open; a smaller file is kept whole */
    LK_FILE_METADATA_BYTES_MAX = 256 * 1024 * 1024
};

/* A page made ready for decoding. */
typedef struct lk_page {
    const lk_page_meta *meta;
    lk_page_layout      layout;
    lk_arena            arena;
    const lk_codec     *codec;        /* mini-block, and full-zip of fixed values */
    size_t              chunk_count;  /* mini-block */
    uint32_t           *chunk_starts; /* chunk_count + 1, in units of 8 bytes into buffer 1 */
    uint32_t           *value_starts; /* chunk_count + 1 */
    uint32_t           *row_starts;   /* with lists: chunk_count + 1, rows that ended before the chunk */
    uint8_t            *continues;    /* with lists: the chunk begins inside row row_starts[chunk] */
    lk_fsst            *fsst;         /* full-zip FSST, and FSST of 2.0 */
    const lk_packed    *packed;       /* full-zip of variable packed structs */
    const lk_v20_array *v20;          /* of a 2.0 file, which has none of the above but fsst */
    uint64_t v20_key; /* of what its first buffer, decompressed, is kept under; the others follow */
    size_t   charged;
} lk_page;

typedef struct lk_file_column_state {
    lk_arena           arena;
    lk_column_meta     meta;
    size_t             charged;
    _Atomic(lk_page *) pages[];
} lk_file_column_state;

struct lk_file_reader {
    atomic_uint                      refs;
    lk_store_reader                 *object;
    lk_budget                       *budget;
    lk_arena                         arena;
    lk_bytes                         key;
    uint64_t                         size, rows;
    unsigned                         major, minor;
    uint8_t                         *window; /* the bytes [window_start, size) */
    uint64_t                         window_start;
    size_t                           charged;
    lk_bytes                         schema;
    size_t                           column_count;
    uint64_t                         column_table; /* position of (position, size) pairs: inside the window */
    size_t                           global_count;
    uint64_t                         global_table;
    _Atomic(lk_stats *)              stats;
    _Atomic(lk_file_column_state *) *columns;
    lk_mutex                         mutex; /* of files in far stores */
    struct lk_file_ahead            *ahead; /* what was fetched (file_ahead.h); by mutex */
};

/* Reads ranges of the file; those the window holds without I/O. A range outside is LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_file_bytes(
    lk_file_reader *file, const lk_store_range *ranges, size_t count, lk_err *err);

/* Copies ranges that were fetched ahead; false: not all were, and nothing may be in them. Of files in far stores. */
bool lk_file_ahead_serve(lk_file_reader *file, const lk_store_range *ranges, size_t count);

/* Whether a column without blobs is the same in both files, metadata and pages byte for byte in the same places; false also when
 * that cannot be told from what they keep. */
bool lk_file_same_column(lk_file_reader *known, const lk_file_reader *file, size_t index);

LK_MUST_CHECK lk_rc lk_file_column(
    lk_file_reader *file, size_t column, lk_file_column_state **out, lk_err *err);

/* Whether a column has rows_each rows for each of the file's (of a 2.0 file: always, its lists have them). */
bool lk_file_has_rows(const lk_file_reader *file, const lk_file_column_state *column, uint64_t rows_each);

/* The page made ready, read if it is not yet. */
LK_MUST_CHECK lk_rc lk_file_page(lk_file_reader *file, lk_file_column_state *column, size_t index,
    lk_scratch *scratch, const lk_page **out, lk_err *err);

void lk_page_free(lk_page *page);

/* The zone statistics, read on first use; without any zone when the file has none that we can read. Borrowed. */
lk_stats *lk_file_stats(lk_file_reader *file);

/* -- decoding: rows of one page, ranges relative to it, appended to the column ----------------------- */
typedef struct lk_page_rows {
    lk_file_reader     *file;
    const lk_page      *page;
    const lk_codec     *codec;  /* the page's; with indices only: of a dictionary, the one of its indices */
    const lk_row_range *ranges; /* ascending, apart, inside the page */
    size_t              range_count;
    lk_column          *column;
    lk_scratch         *scratch;
    lk_thresholds       thresholds;
    struct lk_stream   *stream; /* with lists: where levels go; column is its values */
} lk_page_rows;

LK_MUST_CHECK lk_rc lk_miniblock_rows(const lk_page_rows *rows, lk_err *err);
LK_MUST_CHECK lk_rc lk_fullzip_rows(const lk_page_rows *rows, lk_err *err);
LK_MUST_CHECK lk_rc lk_constant_rows(const lk_page_rows *rows, lk_err *err);

/* The same into rows->stream, for columns inside lists. */
LK_MUST_CHECK lk_rc lk_miniblock_entries(const lk_page_rows *rows, lk_err *err);
LK_MUST_CHECK lk_rc lk_fullzip_entries(const lk_page_rows *rows, lk_err *err);
LK_MUST_CHECK lk_rc lk_constant_entries(const lk_page_rows *rows, lk_err *err);

/* Takes a mini-block chunk apart: levels (how many, and their blocks; empty without) and value buffers. */
typedef struct lk_chunk_levels {
    uint32_t count;
    lk_bytes rep, def;
} lk_chunk_levels;
bool lk_miniblock_parse(
    const lk_page_layout *layout, lk_bytes bytes, uint32_t values, lk_chunk *out, lk_chunk_levels *levels);

/* Whether the file is 2.0: other pages than later ones have, and columns of their own for lists and structs. */
static inline bool lk_file_is_v20(const lk_file_reader *file)
{
    return file->major == 0 || file->minor == 0;
}

/* The bytes of the file that a range of rows is read from, where the page's tables tell; range: inside the page. */
bool lk_miniblock_span(const lk_page *page, const lk_row_range *range, uint64_t *offset, uint64_t *size);
bool lk_miniblock_lists_span(const lk_page *page, const lk_row_range *range, size_t *first, size_t *end);
bool lk_fullzip_span(const lk_page *page, const lk_row_range *range, uint64_t *offset, uint64_t *size);

/* Prepares what the layout keeps (called once, when the page loads). */
LK_MUST_CHECK lk_rc lk_miniblock_load(lk_file_reader *file, lk_page *page, lk_scratch *scratch, lk_err *err);
LK_MUST_CHECK lk_rc lk_fullzip_load(lk_page *page, lk_err *err);
LK_MUST_CHECK lk_rc lk_v20_load(lk_page *page, lk_err *err);

#endif
