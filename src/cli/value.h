#ifndef LK_CLI_VALUE_H
#define LK_CLI_VALUE_H
/*
 * value.h - one Arrow value as text: JSON (for machines) or plain (for tables and CSV).
 *
 * JSON: integers beyond 2^53 are strings, binary is base64, timestamps RFC 3339, NaN and infinities are
 * strings, structs are objects, lists arrays. Plain: the same without quotes, binary as hexadecimal.
 * Threads: confined.
 */
#include "arrow/batch.h"

typedef struct lk_printer lk_printer; /* one column's shape, prepared once */

LK_MUST_CHECK lk_rc lk_printer_open(lk_printer **out, const struct ArrowSchema *field, lk_err *err);
void                lk_printer_close(lk_printer *printer); /* accepts NULL */

/* Binds the next array of the column (borrowed until the next bind). */
LK_MUST_CHECK lk_rc lk_printer_bind(lk_printer *printer, const struct ArrowArray *array, lk_err *err);

bool lk_printer_is_null(const lk_printer *printer, int64_t row);
bool lk_printer_is_number(const lk_printer *printer);                       /* tables align these right */
void lk_printer_json(const lk_printer *printer, int64_t row, lk_buf *out);  /* null as null */
void lk_printer_plain(const lk_printer *printer, int64_t row, lk_buf *out); /* null as nothing */

#endif
