#ifndef LK_CLI_LANCE_SET_H
#define LK_CLI_LANCE_SET_H
/*
 * lance_set.h - new values of columns by SQL expressions over the old ones, as `column = expression` in an UPDATE.
 * The other columns are taken as they are. Threads: confined.
 */
#include "base/config.h"
#include "lance/alter.h"

typedef struct lk_cli_set lk_cli_set;

/* texts: "column=expression" each; condition NULL: all rows. Starts the engine. LK_E_USAGE for a text without '='; a
 * wrong column or expression fails when rows are changed. Borrows the texts. */
LK_MUST_CHECK lk_rc lk_cli_set_open(const lk_config *config, const lk_bytes *texts, size_t count,
    const char *condition, lk_cli_set **out, lk_err *err);
void                lk_cli_set_close(lk_cli_set *set); /* accepts NULL */

/* Borrowed; valid until close. */
const lk_row_changer *lk_cli_set_changer(const lk_cli_set *set);

#endif
