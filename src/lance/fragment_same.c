/* fragment_same.c - see fragment_same.h. */
#include "lance/fragment_same.h"

bool lk_fragment_same_deletion(const lk_deletion_file *a, const lk_deletion_file *b)
{
    return a->kind == b->kind &&
           (a->kind == LK_DELETION_NONE || (a->read_version == b->read_version && a->id == b->id));
}

static bool same_base(const lk_base_path *a, const lk_base_path *b)
{
    return a == NULL ? b == NULL : b != NULL && a->id == b->id;
}

static bool same_file(const lk_data_file *a, const lk_data_file *b)
{
    size_t size = a->field_count * sizeof *a->fields;
    return lk_bytes_equal(a->path, b->path) && same_base(a->base, b->base) &&
           a->field_count == b->field_count && (size == 0 || memcmp(a->fields, b->fields, size) == 0) &&
           (size == 0 || memcmp(a->columns, b->columns, size) == 0);
}

bool lk_fragment_same_files(const lk_fragment *a, const lk_fragment *b)
{
    bool same = a->physical_rows == b->physical_rows && a->file_count == b->file_count;
    for (size_t i = 0; same && i < a->file_count; i++) {
        same = same_file(&a->files[i], &b->files[i]);
    }
    return same;
}
