/* index_write.c - see index_write.h. */
#include "lance/index_write.h"

#include "lance/row_ids.h"

#include <stdlib.h>

enum { FILE_MINOR = 1 }; /* read by every release of the reference */

lk_rc lk_index_build_open(
    lk_index_build *build, const char *name, const lk_lance_schema *schema, lk_file_writer **out, lk_err *err)
{
    lk_change *change = build->change;
    lk_bytes   key = lk_arena_format(&change->arena, "%.*s/%s", LK_FMT(build->directory), name);
    lk_change_wrote(change, key);
    return lk_file_writer_open(change->env->store, key, schema, FILE_MINOR, change->env->budget, out, err);
}

lk_rc lk_index_build_finish(lk_index_build *build, const char *name, lk_file_writer *writer, lk_err *err)
{
    lk_file_written written = {0};
    lk_rc           rc = lk_file_writer_finish(writer, &build->change->arena, &written, err);
    build->files[build->file_count++] = (lk_index_file){lk_bytes_of(name), written.size_bytes};
    build->size_bytes += written.size_bytes;
    return rc;
}

typedef struct taking {
    lk_index_build *build;
    lk_index_take  *take;
    void           *context;
} taking;

static lk_rc take_rows(void *context, struct ArrowArray *values, struct ArrowArray *ids, lk_err *err)
{
    const taking *t = context;
    t->build->rows += (uint64_t)ids->length;
    lk_rc rc = t->take(t->context, values, ids, err);
    if (t->build->progress != NULL) {
        t->build->progress(t->build->progress_context, t->build->rows, t->build->rows_total);
    }
    return rc;
}

lk_rc lk_index_build_read(lk_index_build *build, lk_index_take *take, void *context, lk_err *err)
{
    const lk_manifest *manifest = build->source.dataset->manifest;
    taking             t = {build, take, context};
    lk_rc              rc = LK_OK;
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        build->rows_total +=
            build->covered[i] ? 0
                              : manifest->fragments[i].physical_rows - manifest->fragments[i].deletion.count;
    }
    for (size_t i = 0; rc == LK_OK && i < manifest->fragment_count; i++) {
        if (!build->covered[i]) {
            rc = lk_index_source_read(&build->source, i, take_rows, &t, err);
        }
    }
    return rc;
}

/* -- what is kept ---------------------------------------------------------------------------------------- */
static lk_rc keeps_address(const lk_index_build *build, const lk_index *old,
    const lk_fragment_number *numbers, uint64_t address, uint8_t *keeps, lk_err *err)
{
    lk_dataset        *dataset = build->source.dataset;
    const lk_manifest *manifest = dataset->manifest;
    const lk_deletion *deletion = NULL;
    uint64_t           row = address & UINT32_MAX;
    size_t             number = lk_fragment_number_of(numbers, manifest->fragment_count, address >> 32);
    *keeps = 0;
    if (address == LK_ROW_ID_NONE || number == SIZE_MAX || !old->covers[number] ||
        row >= manifest->fragments[number].physical_rows) {
        return LK_OK;
    }
    lk_rc rc = lk_dataset_deletion(dataset, number, &deletion, err);
    *keeps = rc == LK_OK && lk_deletion_count_range(deletion, row, 1) == 0;
    return rc;
}

lk_rc lk_index_build_keeps(const lk_index_build *build, const lk_index *old, uint64_t *ids, size_t count,
    uint8_t *keeps, lk_err *err)
{
    lk_dataset               *dataset = build->source.dataset;
    lk_arena                  arena = {0};
    const lk_fragment_number *numbers = lk_fragment_numbers(dataset->manifest, &arena);
    lk_rc                     rc = LK_OK;
    if (!old->addresses) {
        uint64_t *addresses = lk_arena_take(&arena, (count + 1) * sizeof *addresses);
        rc = lk_dataset_find_rows(dataset, ids, count, addresses, err);
        memcpy(ids, addresses, count * sizeof *ids);
    }
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = keeps_address(build, old, numbers, ids[i], &keeps[i], err);
    }
    lk_arena_close(&arena);
    return rc;
}
