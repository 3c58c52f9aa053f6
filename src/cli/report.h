#ifndef LK_CLI_REPORT_H
#define LK_CLI_REPORT_H
/* report.h - how a command says what it did: one line on stdout, a sentence or (--json) an object of numbers.
 * Threads: confined to the main thread. */
#include "lance/dataset.h"

typedef struct lk_report_number {
    const char *key;
    uint64_t    value;
} lk_report_number;

void lk_report(bool json, const char *sentence, const lk_report_number *numbers, size_t count);

/* What most commands say: the version they made. */
void lk_report_version(bool json, const char *what, const lk_dataset *dataset);

#endif
