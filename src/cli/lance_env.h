#ifndef LK_CLI_LANCE_ENV_H
#define LK_CLI_LANCE_ENV_H
/*
 * lance_env.h - a dataset that stands alone, and what it needs to be read and changed: store, clock, workers and a
 * budget. Threads: confined; the pool's workers are joined by close.
 */
#include "base/budget.h"
#include "base/config.h"
#include "io/s3.h"
#include "lance/blob.h"
#include "lance/dataset.h"

typedef struct lk_cli_lance {
    const lk_config *config; /* set before opening; keys and endpoint of s3:// locations */
    lk_lance_env     env;
    lk_budget        budget;
    lk_dataset      *dataset; /* NULL until opened */
    const char      *branch;  /* of the URI; NULL: main */
    lk_store        *files;   /* all local files, for blobs that lie outside of the table */
    lk_blob_outside  outside;
} lk_cli_lance;

/* A local path, file:// or s3://BUCKET/PREFIX, with "?branch=NAME" for a branch's own versions; LK_E_USAGE for what is
 * not supported. The struct must stay where it is. Close it also after a failure. */
LK_MUST_CHECK lk_rc lk_cli_lance_open_store(lk_cli_lance *out, const char *uri, lk_err *err);
/* And the dataset; version 0: the newest. */
LK_MUST_CHECK lk_rc lk_cli_lance_open(lk_cli_lance *out, const char *uri, uint64_t version, lk_err *err);
void                lk_cli_lance_close(lk_cli_lance *lance); /* accepts zero */

/* How s3:// locations are reached, by the settings, whose texts it borrows. */
lk_s3_options lk_cli_s3_options(const lk_config *config);

#endif
