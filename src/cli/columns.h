#ifndef LK_CLI_COLUMNS_H
#define LK_CLI_COLUMNS_H
/* columns.h - a schema's columns for people and for machines: name, type, whether it is nullable. Threads: stateless. */
#include "arrow/batch.h"
#include "base/json.h"

#include <stdio.h>

void lk_columns_print(const struct ArrowSchema *schema, FILE *out); /* a line a column: `name  type?` */
void lk_columns_json(
    const struct ArrowSchema *schema, lk_json_writer *json); /* [{"name","type","nullable"}, …] */

#endif
