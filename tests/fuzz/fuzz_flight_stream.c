/*
 * fuzz_flight_stream.c - a DoPut as a hostile client may send it: FlightData messages, each after its size as a
 * little-endian u32 (what is missing at the end is cut). The first byte holds the options. Whatever comes, the
 * reader ends, keeps to its limits, and every batch it hands out is valid.
 */
#include "flight/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct script {
    lk_flight_source base;
    lk_bytes         left, slices[2];
} script;

static lk_rc script_read(lk_flight_source *source, lk_grpc_message *out, bool *found, lk_err *err)
{
    script *self = (script *)source;
    (void)err;
    *out = (lk_grpc_message){0};
    *found = self->left.size >= 4;
    if (!*found) {
        return LK_OK;
    }
    size_t size = lk_load_u32(self->left.data), there = self->left.size - 4;
    size = size < there ? size : there;
    size_t half = size / 2;
    self->slices[0] = (lk_bytes){self->left.data + 4, half > 0 ? half : size};
    self->slices[1] = (lk_bytes){self->left.data + 4 + half, size - half};
    *out = (lk_grpc_message){self->slices, half > 0 ? 2 : (size > 0 ? 1 : 0), size, NULL};
    self->left = (lk_bytes){self->left.data + 4 + size, there - size};
    return LK_OK;
}

static void read_all(lk_flight_reader *reader)
{
    lk_batches       *batches = NULL;
    struct ArrowArray batch = {0};
    lk_err            err = {0};
    bool              more = lk_flight_reader_batches(reader, &batches, &err) == LK_OK;
    while (more) {
        more = lk_batches_next(batches, &batch, &err) == LK_OK && batch.release != NULL;
        if (more) {
            LK_ASSERT(lk_array_validate(&batches->schema, &batch, &err) == LK_OK);
            LK_ASSERT(batch.length > 0);
        }
        lk_array_release(&batch);
    }
    lk_batches_close(batches);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static lk_budget         budget;
    lk_flight_reader        *reader = NULL;
    bool                     present = false;
    lk_err                   err = {0};
    char                     digest[LK_SHA256_HEX_SIZE + 1];
    uint8_t                  choice = size > 0 ? data[0] : 0;
    script                   messages = {.base.read = script_read};
    lk_flight_reader_options options = {.stream_bytes_max = 1 << 20,
        .budget = &budget,
        .refuse_compressed = (choice & 1) != 0,
        .decode_dictionaries = (choice & 2) != 0,
        .digest = true,
        .refuse_empty_batches = true};
    messages.left = (lk_bytes){(const char *)data + 1, size > 0 ? size - 1 : 0};
    lk_budget_init(&budget, "fuzz", 16 << 20, NULL);
    if (lk_flight_reader_open(&reader, lk_flight_of_source(&messages.base), &options, &present, &err) ==
            LK_OK &&
        present) {
        read_all(reader);
        LK_ASSERT(lk_flight_reader_bytes(reader) <= size);
        lk_flight_reader_digest(reader, digest);
    }
    lk_flight_reader_close(reader);
    LK_ASSERT(budget.used_bytes == 0);
    return 0;
}
