/*
 * write_supports.c - which fields data files of version 2.0, 2.1 and 2.2 store (file_write.h), each refused by name.
 */
#include "lance/blob.h"
#include "lance/file_write.h"
#include "lance/nested.h"
#include "lance/v20_write.h"
#include "lance/write_shape.h"

/* Around a field. */
typedef struct place {
    size_t   depth;
    bool     in_list, in_vector;
    uint32_t file_minor;
} place;

static lk_rc refuse(const struct ArrowSchema *field, const char *what, lk_err *err)
{
    const char *name = field->name == NULL ? "" : field->name;
    lk_rc       rc = lk_fail(err, LK_E_INVALID_SCHEMA, "column %s: %s", name, what);
    lk_detail(err, "column %s: %s", name, what);
    return rc;
}

static lk_rc check_leaf(const struct ArrowSchema *field, const place *at, lk_err *err)
{
    lk_leaf        leaf = {0};
    lk_write_shape shape;
    if (at->in_vector && lk_is_blob(field)) {
        return refuse(field, "fixed-size lists of structs hold no blobs", err);
    }
    lk_rc rc = lk_write_shape_open(&shape, field, at->file_minor, at->in_list, err);
    if (rc == LK_OK) {
        rc = lk_leaf_init(&leaf, lk_write_shape_stored(&shape), at->depth + 1, err);
    }
    lk_write_shape_close(&shape);
    return rc;
}

/* Lists of all kinds; inside: the place of what is in this one. */
static lk_rc check_lists(const struct ArrowSchema *field, const place *inside, lk_err *err)
{
    bool map = strcmp(field->format, "+m") == 0;
    if (map && inside->file_minor < 2) {
        return refuse(
            field, "files of version 2.0 and 2.1 hold no maps; create the table with file version 2.2", err);
    }
    if (lk_is_vector(field) && inside->file_minor < 2) {
        return refuse(field,
            "files of version 2.0 and 2.1 hold no fixed-size lists of structs; create the table with file "
            "version 2.2",
            err);
    }
    return inside->in_list && inside->in_vector
               ? refuse(field, "fixed-size lists of structs with lists in or around them cannot be read back",
                     err)
               : LK_OK;
}

static lk_rc check_field(const struct ArrowSchema *field, place at, lk_err *err)
{
    bool list = lk_is_list(field) && field->n_children == 1, vector = lk_is_vector(field);
    if (lk_is_column(field) || (!list && !vector && !lk_is_struct(field))) {
        return check_leaf(field, &at, err);
    }
    if (at.depth + 1 >= LK_LAYERS_MAX) {
        return refuse(field, "structs and lists nest too deep", err);
    }
    if (lk_is_empty_struct(field)) {
        return at.in_list || at.in_vector
                   ? refuse(field, "files of version 2.1 and 2.2 hold no empty structs in lists", err)
                   : LK_OK;
    }
    place inside = {at.depth + 1, at.in_list || list, at.in_vector || vector, at.file_minor};
    lk_rc rc = list || vector ? check_lists(field, &inside, err) : LK_OK;
    for (int64_t child = 0; rc == LK_OK && child < field->n_children; child++) {
        rc = check_field(field->children[child], inside, err);
    }
    return rc;
}

lk_rc lk_file_writer_check_minor(uint32_t file_minor, lk_err *err)
{
    if (file_minor <= 2) {
        return LK_OK;
    }
    lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "files of version 2.%u", file_minor);
    lk_detail(err, "this build does not write data files of version 2.%u", file_minor);
    return rc;
}

lk_rc lk_file_writer_supports(const struct ArrowSchema *field, uint32_t file_minor, lk_err *err)
{
    return file_minor == 0 ? lk_v20_writer_supports(field, err)
                           : check_field(field, (place){.file_minor = file_minor}, err);
}

/* The first field with a column behind an empty struct, of which *empty says whether there was one. */
static const struct ArrowSchema *behind_empty(const struct ArrowSchema *field, bool *empty)
{
    if (lk_is_empty_struct(field) || lk_is_column(field)) {
        *empty = *empty || lk_is_empty_struct(field);
        return *empty && !lk_is_empty_struct(field) ? field : NULL;
    }
    const struct ArrowSchema *found = NULL;
    for (int64_t child = 0; found == NULL && child < field->n_children; child++) {
        found = behind_empty(field->children[child], empty);
    }
    return found;
}

lk_rc lk_file_writer_supports_all(const struct ArrowSchema *schema, uint32_t file_minor, lk_err *err)
{
    lk_rc rc = LK_OK;
    bool  empty = false;
    for (int64_t child = 0; rc == LK_OK && child < schema->n_children; child++) {
        const struct ArrowSchema *field = schema->children[child], *behind = behind_empty(field, &empty);
        rc = lk_file_writer_supports(field, file_minor, err);
        if (rc == LK_OK && file_minor > 0 && behind != NULL) {
            rc = refuse(behind,
                "it stands behind an empty struct, where other readers of files of version 2.1 and 2.2 lose "
                "it; empty structs go last",
                err);
        }
    }
    return rc;
}
