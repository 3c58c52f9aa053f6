#ifndef LK_CLI_PROGRESS_H
#define LK_CLI_PROGRESS_H
/* progress.h - a line on stderr that counts, on a terminal only, once something takes over a second. Threads:
 * confined. */
#include <stdbool.h>
#include <stdint.h>

typedef struct lk_progress {
    const char *what; /* "rows" */
    uint64_t    started_us, shown_us;
    bool        visible;
} lk_progress;

void lk_progress_show(void *progress, uint64_t count); /* context first: fits callbacks */
void lk_progress_end(lk_progress *progress);           /* clears the line */

#endif
