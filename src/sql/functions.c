/* functions.c - see functions.h; the rows are in functions.def. */
#include "sql/functions.h"

#include <stdlib.h>

/* One list a letter; the other letters of the file are nothing here. */
#define F(name) name,
#define G(name)
#define T(name)
static const char *const pure[] = {
#include "sql/functions.def"
};
#undef F
#undef G
#define F(name)
#define G(name) name,
static const char *const growth[] = {
#include "sql/functions.def"
};
#undef G
#undef T
#define G(name)
#define T(name) name,
static const char *const tables[] = {
#include "sql/functions.def"
};
#undef F
#undef G
#undef T

enum { NAME_BYTES = 64 }; /* longer than any in the list */

static int by_name(const void *key, const void *row)
{
    return strcmp(key, *(const char *const *)row);
}

static bool holds(const char *const *list, size_t count, const char *name)
{
    return bsearch(name, list, count, sizeof list[0], by_name) != NULL;
}

static bool lower(lk_bytes name, char out[NAME_BYTES])
{
    if (name.size >= NAME_BYTES) {
        return false;
    }
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        out[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    out[name.size] = '\0';
    return memchr(name.data, '\0', name.size) == NULL;
}

lk_function_class lk_function_classify(lk_bytes name)
{
    char text[NAME_BYTES];
    if (name.size == 0 || !lower(name, text)) {
        return LK_FUNCTION_DENIED;
    }
    if (holds(growth, sizeof growth / sizeof growth[0], text)) {
        return LK_FUNCTION_GROWTH;
    }
    return holds(pure, sizeof pure / sizeof pure[0], text) ? LK_FUNCTION_PURE : LK_FUNCTION_DENIED;
}

bool lk_function_is_table(lk_bytes name)
{
    char text[NAME_BYTES];
    return name.size > 0 && lower(name, text) && holds(tables, sizeof tables / sizeof tables[0], text);
}
