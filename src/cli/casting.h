#ifndef LK_CLI_CASTING_H
#define LK_CLI_CASTING_H
/* casting.h - batches in another schema: columns by name, every value converted or refused by column and row (the first
 * is row 0). Threads: confined. */
#include "arrow/batch.h"

/* source is borrowed until *out is closed. LK_E_SCHEMA_MISMATCH names the column that does not fit. */
LK_MUST_CHECK lk_rc lk_casting_open(
    lk_batches *source, const struct ArrowSchema *schema, lk_batches **out, lk_err *err);

#endif
