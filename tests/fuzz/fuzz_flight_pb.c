/*
 * fuzz_flight_pb.c - every Flight and Flight SQL message. The first byte chooses the message; what is read must,
 * written and read again, give the same bytes.
 */
#include "flight/pb_flight.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TWICE(name, type)                                                                   \
    static void twice_##name(lk_bytes bytes, lk_arena *arena)                               \
    {                                                                                       \
        type   first, second;                                                               \
        lk_err err = {0};                                                                   \
        lk_buf once = {0}, again = {0};                                                     \
        if (lk_##name##_read(bytes, arena, &first, &err) == LK_OK) {                        \
            lk_##name##_write(&first, &once);                                               \
            LK_ASSERT(lk_##name##_read(lk_buf_view(&once), arena, &second, &err) == LK_OK); \
            lk_##name##_write(&second, &again);                                             \
            LK_ASSERT(lk_bytes_equal(lk_buf_view(&once), lk_buf_view(&again)));             \
        }                                                                                   \
        lk_buf_deinit(&once);                                                               \
        lk_buf_deinit(&again);                                                              \
    }

#define M(name) TWICE(flight_##name, lk_flight_##name)
LK_FLIGHT_MESSAGES(M)
#undef M
TWICE(flight_sql_command, lk_flight_sql_command)
TWICE(flight_sql_update_result, lk_flight_sql_update_result)
TWICE(flight_sql_bind_result, lk_flight_sql_bind_result)

/* FlightData, cut into slices of 7: every span lies inside. */
static void find(lk_bytes bytes, lk_arena *arena)
{
    lk_bytes            *slices = lk_arena_take(arena, (bytes.size / 7 + 1) * sizeof *slices);
    lk_flight_data_spans spans;
    lk_err               err = {0};
    size_t               count = 0;
    for (size_t at = 0; at < bytes.size; at += 7) {
        slices[count++] = (lk_bytes){bytes.data + at, bytes.size - at < 7 ? bytes.size - at : 7};
    }
    if (lk_flight_data_find(slices, count, &spans, &err) == LK_OK) {
        const lk_flight_span all[] = {spans.descriptor, spans.header, spans.app_metadata, spans.body};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            LK_ASSERT(all[i].offset <= bytes.size && all[i].size <= bytes.size - all[i].offset);
        }
    }
}

static void (*const targets[])(lk_bytes bytes, lk_arena *arena) = {
#define M(name) twice_flight_##name,
    LK_FLIGHT_MESSAGES(M)
#undef M
        twice_flight_sql_command,
    twice_flight_sql_update_result,
    twice_flight_sql_bind_result,
    find,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_arena arena = {0};
    if (size > 0) {
        targets[data[0] % (sizeof targets / sizeof *targets)](
            (lk_bytes){(const char *)data + 1, size - 1}, &arena);
    }
    lk_arena_close(&arena);
    return 0;
}
