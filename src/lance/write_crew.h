#ifndef LK_LANCE_WRITE_CREW_H
#define LK_LANCE_WRITE_CREW_H
/*
 * write_crew.h - pages of a file being encoded on the threads of a pool, while the writer gathers the next rows.
 *
 * Invariants:
 *   1. Pages come back in the order in which they were given.
 *   2. Nobody waits for a task that a pool has not begun: the writer takes such a page back and encodes it itself. So
 *      a writer may itself run on the pool, and a pool that is busy or closing only makes it slower.
 *
 * Threads: a crew is confined to its writer; what the pool's tasks touch is guarded by each page's state.
 */
#include "base/thread.h"
#include "lance/write_page.h"

typedef struct lk_page_crew lk_page_crew;

typedef struct lk_page_job {
    lk_leaf     leaf;
    lk_page_out page;
    uint32_t    file_minor;
    size_t      column; /* whose page it is */
    _Atomic int state;
} lk_page_job;

lk_page_crew *lk_page_crew_new(lk_pool *pool);        /* NULL: all is done on the caller's thread */
void          lk_page_crew_clear(lk_page_crew *crew); /* drops what is under way */
void          lk_page_crew_close(lk_page_crew *crew); /* the same; accepts NULL */

bool lk_page_crew_full(const lk_page_crew *crew);

/* Whether a page of these rows is worth another thread, and there is one. */
bool lk_page_crew_shares(const lk_page_crew *crew, const lk_leaf *leaf);

/* Takes the rows of the leaf, which is empty afterwards; the crew is not full. */
void lk_page_crew_start(lk_page_crew *crew, lk_leaf *leaf, uint32_t file_minor, size_t column);

/* The oldest page, encoded, to be released; NULL: there is none. */
lk_page_job *lk_page_crew_finish(lk_page_crew *crew);
/* back: the column's own leaf gets its memory back, if it gathers nothing yet: no other column's rows fit it as well. */
void lk_page_crew_release(lk_page_crew *crew, lk_page_job *job, lk_leaf *back);

size_t lk_page_crew_capacity(
    const lk_page_crew *crew); /* memory held, of pages under way what they may take */

#endif
