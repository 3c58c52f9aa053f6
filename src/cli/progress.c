/* progress.c - see progress.h. */
#include "cli/progress.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum { QUIET_US = 1000000, REDRAW_US = 100000 };

void lk_progress_show(void *context, uint64_t count)
{
    lk_progress *p = context;
    uint64_t     now = lk_clock_now_us();
    if (p->started_us == 0) {
        p->started_us = now;
    }
    if (isatty(STDERR_FILENO) == 0 || now - p->started_us < QUIET_US || now - p->shown_us < REDRAW_US) {
        return;
    }
    static const char wheel[] = "|/-\\";
    uint64_t          rate = count * 1000000 / (now - p->started_us + 1);
    fprintf(
        stderr, "\r%c %" PRIu64 " %s, %" PRIu64 "/s\x1b[K", wheel[now / REDRAW_US % 4], count, p->what, rate);
    p->shown_us = now;
    p->visible = true;
}

void lk_progress_end(lk_progress *p)
{
    if (p->visible) {
        fputs("\r\x1b[K", stderr);
        p->visible = false;
    }
}
