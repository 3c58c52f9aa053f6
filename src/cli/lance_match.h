#ifndef LK_CLI_LANCE_MATCH_H
#define LK_CLI_LANCE_MATCH_H
/*
 * lance_match.h - rows of two datasets that have the same key, by a join of the SQL engine, which spills. Keys are equal
 * as SQL has it: null equals nothing. Threads: confined.
 */
#include "base/config.h"
#include "lance/alter.h"

typedef struct lk_cli_match lk_cli_match;

/* keys: columns that both have. Starts the engine; source and table are given with each call. Borrows the names. */
LK_MUST_CHECK lk_rc lk_cli_match_open(
    const lk_config *config, const lk_bytes *keys, size_t count, lk_cli_match **out, lk_err *err);
void lk_cli_match_close(lk_cli_match *match); /* accepts NULL */

/* A directory that lives as long as match, where a source may be put. */
const char *lk_cli_match_scratch(const lk_cli_match *match);

/* Borrowed; valid until close. */
const lk_row_matcher *lk_cli_match_matcher(const lk_cli_match *match);

#endif
