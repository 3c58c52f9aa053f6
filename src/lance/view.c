/* view.c - see view.h. */
#include "lance/view.h"

#include "arrow/ipc.h"
#include "lance/blob.h"

bool lk_schema_has_dictionary(const struct ArrowSchema *field)
{
    bool found = field->dictionary != NULL;
    for (int64_t child = 0; !found && child < field->n_children; child++) {
        found = lk_schema_has_dictionary(field->children[child]);
    }
    return found;
}

static bool same(const struct ArrowSchema *left, const struct ArrowSchema *right)
{
    if (left == right) {
        return true;
    }
    bool so = strcmp(left->format, right->format) == 0 && left->n_children == right->n_children &&
              (left->dictionary == NULL) == (right->dictionary == NULL);
    for (int64_t child = 0; so && child < left->n_children; child++) {
        so = same(left->children[child], right->children[child]);
    }
    return so;
}

bool lk_view_same(const struct ArrowSchema *left, const struct ArrowSchema *right, size_t column)
{
    return same(left->children[column], right->children[column]);
}

bool lk_schema_has_blob(const struct ArrowSchema *field)
{
    bool found = lk_is_blob(field);
    for (int64_t child = 0; !found && child < field->n_children; child++) {
        found = lk_schema_has_blob(field->children[child]);
    }
    return found;
}

/* Puts another type in the field's place. */
static lk_rc replace_blob(struct ArrowSchema *field, bool bytes, lk_err *err)
{
    struct ArrowSchema made;
    lk_rc              rc = bytes ? lk_blob_bytes_schema(field, &made, err)
                                  : lk_blob_descriptor_schema(field, lk_is_blob_v2(field) ? 2 : 1, &made, err);
    if (rc == LK_OK) {
        lk_schema_release(field);
        lk_schema_move(&made, field);
    }
    return rc;
}

static lk_rc replace_blobs(struct ArrowSchema *field, bool bytes, lk_err *err)
{
    if (lk_is_blob(field)) {
        return replace_blob(field, bytes, err);
    }
    lk_rc rc = LK_OK;
    for (int64_t child = 0; rc == LK_OK && child < field->n_children; child++) {
        rc = replace_blobs(field->children[child], bytes, err);
    }
    return rc;
}

lk_rc lk_view_schema(const struct ArrowSchema *table, lk_view view, struct ArrowSchema *out, lk_err *err)
{
    lk_rc rc = view.dictionary_values ? lk_schema_decode_dictionaries(table, out, err)
                                      : lk_schema_copy(table, out, err);
    bool  others = view.blobs != LK_BLOBS_STORED;
    if (rc == LK_OK && others && (rc = replace_blobs(out, view.blobs == LK_BLOBS_BYTES, err)) != LK_OK) {
        lk_schema_release(out);
    }
    return rc;
}
