#ifndef LK_CLI_LANCE_COMPUTE_H
#define LK_CLI_LANCE_COMPUTE_H
/* lance_compute.h - the values of new columns by SQL expressions over the old ones. Threads: confined. */
#include "base/config.h"
#include "lance/alter.h"

typedef struct lk_cli_compute lk_cli_compute;

/* One expression for each child of columns. Starts the engine; a wrong expression fails when values are asked for.
 * Borrows both. */
LK_MUST_CHECK lk_rc lk_cli_compute_open(const lk_config *config, const struct ArrowSchema *columns,
    const lk_bytes *expressions, lk_cli_compute **out, lk_err *err);
void                lk_cli_compute_close(lk_cli_compute *compute); /* accepts NULL */

/* Borrowed; valid until close. */
const lk_column_source *lk_cli_compute_source(const lk_cli_compute *compute);

#endif
