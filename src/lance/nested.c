/* nested.c - see nested.h. */
#include "lance/nested.h"

#include "arrow/type.h"
#include "lance/blob.h"
#include "lance/packed.h"

#include <string.h>

bool lk_is_list(const struct ArrowSchema *field)
{
    return strcmp(field->format, "+l") == 0 || strcmp(field->format, "+L") == 0 ||
           strcmp(field->format, "+m") == 0;
}

bool lk_is_struct(const struct ArrowSchema *field)
{
    return strcmp(field->format, "+s") == 0;
}

bool lk_is_vector(const struct ArrowSchema *field)
{
    return strncmp(field->format, "+w:", 3) == 0 && field->n_children == 1 &&
           lk_is_struct(field->children[0]);
}

bool lk_is_column(const struct ArrowSchema *field)
{
    return lk_is_blob(field) || lk_is_packed(field) ||
           (!lk_is_list(field) && !lk_is_struct(field) && !lk_is_vector(field));
}

bool lk_is_empty_struct(const struct ArrowSchema *field)
{
    return lk_is_struct(field) && field->n_children == 0 && !lk_is_blob(field) && !lk_is_packed(field);
}

lk_rc lk_vector_size(const struct ArrowSchema *field, uint64_t rows, uint64_t *size, lk_err *err)
{
    lk_type  type;
    uint64_t items = 0;
    if (!lk_type_of(field, &type) || type.layout != LK_LAYOUT_FIXED_LIST || type.list_size <= 0) {
        return lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "a fixed-size list of no items");
    }
    *size = (uint64_t)type.list_size;
    return __builtin_mul_overflow(rows, *size, &items) || items > INT64_MAX
               ? lk_fail(err, LK_E_LIMIT, "%llu fixed-size lists of %llu items", (unsigned long long)rows,
                     (unsigned long long)*size)
               : LK_OK;
}
