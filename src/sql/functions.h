#ifndef LK_SQL_FUNCTIONS_H
#define LK_SQL_FUNCTIONS_H
/* functions.h - which functions a statement may call: the allow-list of functions.def. Threads: constant. */
#include "base/bytes.h"

typedef enum lk_function_class {
    LK_FUNCTION_DENIED, /* not in the list: unknown, or known to read or change more than its arguments */
    LK_FUNCTION_PURE,
    LK_FUNCTION_GROWTH /* the size of the result is an argument */
} lk_function_class;

lk_function_class lk_function_classify(lk_bytes name); /* in an expression; any letter case */
bool              lk_function_is_table(lk_bytes name); /* in FROM */

#endif
