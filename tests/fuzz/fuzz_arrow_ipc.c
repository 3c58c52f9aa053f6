/*
 * fuzz_arrow_ipc.c - an Arrow stream or file as a stranger may make it; the first byte holds the options and
 * whether the source tells its size. Whatever comes: reading ends, what comes out is valid, survives being
 * filtered and written again as the same bytes' worth of rows, and the budget is whole at the end.
 */
#include "arrow/ipc.h"
#include "arrow/schema.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BUDGET_BYTES = 16 << 20, ROWS_FILTERED_MAX = 1 << 16 };

typedef struct counting_sink {
    lk_ipc_sink base;
    size_t      size;
} counting_sink;

static lk_rc count_bytes(lk_ipc_sink *sink, const void *data, size_t size, lk_err *err)
{
    volatile uint8_t last = size > 0 ? ((const uint8_t *)data)[size - 1] : 0; /* the segment is there */
    (void)last;
    (void)err;
    ((counting_sink *)sink)->size += size;
    return LK_OK;
}

static void filter_half(const struct ArrowSchema *schema, const struct ArrowArray *batch)
{
    struct ArrowArray out = {0};
    lk_err            err = {0};
    if (batch->length > ROWS_FILTERED_MAX) {
        return;
    }
    uint8_t *selection = malloc((size_t)batch->length + 1);
    int64_t  count = 0;
    for (int64_t i = 0; i < batch->length; i++) {
        selection[i] = i % 3 == 1;
        count += selection[i];
    }
    if (lk_array_filter(schema, batch, selection, count, &out, &err) == LK_OK) {
        LK_ASSERT(lk_array_validate(schema, &out, &err) == LK_OK && out.length == count);
    }
    lk_array_release(&out);
    free(selection);
}

static void read_all(lk_batches *batches, lk_ipc_container container)
{
    counting_sink     sink = {.base.write = count_bytes};
    lk_ipc_writer    *writer = NULL;
    struct ArrowArray batch = {0};
    lk_err            err = {0}, write_err = {0};
    bool writing = lk_ipc_writer_open(&batches->schema, container, &sink.base, &writer, &write_err) == LK_OK;
    LK_ASSERT(writing); /* what was read can be written */
    while (lk_batches_next(batches, &batch, &err) == LK_OK && batch.release != NULL) {
        LK_ASSERT(lk_array_validate(&batches->schema, &batch, &err) == LK_OK);
        (void)lk_array_bytes(&batches->schema, &batch);
        filter_half(&batches->schema, &batch);
        lk_shared_array *shared = lk_array_share(&batch);
        writing = writing && lk_ipc_writer_write(writer, shared, &write_err) == LK_OK;
        lk_shared_array_unref(shared);
    }
    if (writing) {
        LK_ASSERT(lk_ipc_writer_finish(writer, &write_err) == LK_OK);
    }
    lk_ipc_writer_close(writer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static lk_budget budget;
    uint8_t          choice = size > 0 ? data[0] : 0;
    lk_ipc_options   options = {.budget = &budget,
          .refuse_compressed = (choice & 1) != 0,
          .decode_dictionaries = (choice & 2) != 0,
          .in_place = (choice & 16) != 0};
    lk_bytes         bytes = {(const char *)data + 1, size > 0 ? size - 1 : 0};
    lk_ipc_source   *source = lk_ipc_source_bytes(bytes);
    lk_batches      *batches = NULL;
    lk_err           err = {0};
    lk_budget_init(&budget, "fuzz", BUDGET_BYTES, NULL);
    if ((choice & 4) != 0) {
        source->size = UINT64_MAX;
    }
    if (lk_ipc_open(source, &options, &batches, &err) == LK_OK) {
        read_all(batches, (choice & 8) != 0 ? LK_IPC_FILE : LK_IPC_STREAM);
        lk_batches_close(batches);
    }
    LK_ASSERT(budget.used_bytes == 0);
    return 0;
}
