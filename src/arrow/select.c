/* select.c - filter, take, concat, nulls (batch.h): each turns its question into ranges for lk_gather. */
#include "arrow/gather_priv.h"

#include <stdlib.h>

/* Appends [start, start + length), joined to the last range when it continues it. */
static inline void add_range(lk_range *ranges, size_t *count, int64_t start, int64_t length)
{
    lk_range *last = *count == 0 ? NULL : &ranges[*count - 1];
    bool      joins = last != NULL &&
                 (start < 0 ? last->start < 0 : last->start >= 0 && last->start + last->length == start);
    if (joins) {
        last->length += length;
    } else {
        ranges[(*count)++] = (lk_range){start, length};
    }
}

/* The low bits of 64 selection bytes, as one word. */
static uint64_t pack_64(const uint8_t *selection)
{
    uint64_t word = 0;
    for (unsigned i = 0; i < 8; i++) {
        uint64_t bytes = lk_load_u64(selection + 8 * i);
        word |= ((bytes & 0x0101010101010101ULL) * 0x0102040810204080ULL >> 56) << (8 * i);
    }
    return word;
}

/* Adding its lowest bit to a word carries through the lowest run of ones: the sum's lowest bit is the run's end,
 * and what word and sum share is the rest. */
static size_t ranges_of_word(uint64_t word, int64_t base, lk_range *ranges, size_t count)
{
    if (word & 1) { /* may continue the range before */
        uint64_t sum = word + 1;
        add_range(ranges, &count, base, sum == 0 ? 64 : __builtin_ctzll(sum));
        word &= sum;
    }
    while (word != 0) {
        uint64_t sum = word + (word & -word);
        int      start = __builtin_ctzll(word), end = sum == 0 ? 64 : __builtin_ctzll(sum);
        ranges[count++] = (lk_range){base + start, end - start};
        word &= sum;
    }
    return count;
}

/* At most this many ranges come of 64 rows: every other row, and a last odd one. */
enum { RANGES_PER_WORD = 33 };

/* room: what the caller's count of selected rows allows; more is the caller's mistake. */
static size_t ranges_of_selection(const uint8_t *selection, int64_t rows, lk_range *ranges, size_t room)
{
    size_t  count = 0;
    int64_t at = 0;
    for (; at + 64 <= rows; at += 64) {
        LK_ASSERT(count + RANGES_PER_WORD <= room);
        count = ranges_of_word(pack_64(selection + at), at, ranges, count);
    }
    for (; at < rows; at++) {
        if (selection[at] & 1) {
            LK_ASSERT(count < room);
            add_range(ranges, &count, at, 1);
        }
    }
    return count;
}

static int64_t rows_of(const lk_range *ranges, size_t count)
{
    int64_t rows = 0;
    for (size_t r = 0; r < count; r++) {
        rows += ranges[r].length;
    }
    return rows;
}

static lk_rc gather_one(const struct ArrowSchema *schema, const struct ArrowArray *array,
    const lk_range *ranges, size_t count, int64_t rows, bool nulls, struct ArrowArray *out, lk_err *err)
{
    lk_segment segment = {
        .array = array, .ranges = ranges, .count = count, .scale = 1, .rows = rows, .nulls = nulls};
    return lk_gather(schema, &segment, 1, out, err);
}

lk_rc lk_array_filter(const struct ArrowSchema *schema, const struct ArrowArray *array,
    const uint8_t *selection, int64_t selected_count, struct ArrowArray *out, lk_err *err)
{
    out->release = NULL;
    int64_t   half = array->length / 2 + 1;
    size_t    room = (size_t)(selected_count < half ? selected_count : half) + RANGES_PER_WORD;
    lk_range *ranges = malloc(room * sizeof *ranges);
    if (ranges == NULL) {
        return lk_fail(err, LK_E_LIMIT, "no memory to filter %lld rows", (long long)array->length);
    }
    size_t count = ranges_of_selection(selection, array->length, ranges, room);
    LK_ASSERT(rows_of(ranges, count) == selected_count);
    lk_rc rc = gather_one(schema, array, ranges, count, selected_count, false, out, err);
    free(ranges);
    return rc;
}

lk_rc lk_array_take(const struct ArrowSchema *schema, const struct ArrowArray *array, const int64_t *indices,
    int64_t count, struct ArrowArray *out, lk_err *err)
{
    out->release = NULL;
    lk_range *ranges = malloc((size_t)(count + 1) * sizeof *ranges);
    if (ranges == NULL) {
        return lk_fail(err, LK_E_LIMIT, "no memory to take %lld rows", (long long)count);
    }
    size_t range_count = 0;
    bool   nulls = false;
    for (int64_t i = 0; i < count; i++) {
        LK_ASSERT(indices[i] >= -1 && indices[i] < array->length);
        nulls |= indices[i] < 0;
        add_range(ranges, &range_count, indices[i], 1);
    }
    lk_rc rc = gather_one(schema, array, ranges, range_count, count, nulls, out, err);
    free(ranges);
    return rc;
}

/* Picks as ranges, and runs of one array's as segments over them; returns how many. */
static size_t segments_of_picks(const struct ArrowArray *arrays, const lk_pick *picks, size_t count,
    lk_range *ranges, lk_segment *segments)
{
    size_t made = 0;
    for (size_t i = 0; i < count; ranges += segments[made - 1].count) {
        lk_segment *segment = &segments[made++];
        size_t      array = picks[i].array;
        *segment = (lk_segment){.array = &arrays[array], .ranges = ranges, .scale = 1};
        for (; i < count && picks[i].array == array; i++, segment->rows++) {
            LK_ASSERT(picks[i].row >= 0 && picks[i].row < arrays[array].length);
            add_range(ranges, &segment->count, picks[i].row, 1);
        }
    }
    return made;
}

lk_rc lk_array_pick(const struct ArrowSchema *schema, const struct ArrowArray *arrays, const lk_pick *picks,
    size_t count, struct ArrowArray *out, lk_err *err)
{
    out->release = NULL;
    lk_segment *segments = malloc((count + 1) * sizeof *segments);
    lk_range   *ranges = malloc((count + 1) * sizeof *ranges);
    lk_rc       rc = segments == NULL || ranges == NULL
                         ? lk_fail(err, LK_E_LIMIT, "no memory to pick %zu rows", count)
                         : lk_gather(schema, segments, segments_of_picks(arrays, picks, count, ranges, segments),
                               out, err);
    free(ranges);
    free(segments);
    return rc;
}

lk_rc lk_array_nulls(const struct ArrowSchema *schema, int64_t length, struct ArrowArray *out, lk_err *err)
{
    lk_range range = {-1, length};
    return gather_one(schema, NULL, &range, length > 0, length, true, out, err);
}

lk_rc lk_array_concat(const struct ArrowSchema *schema, const struct ArrowArray *arrays, size_t count,
    struct ArrowArray *out, lk_err *err)
{
    out->release = NULL;
    lk_segment *segments = calloc(count + 1, sizeof *segments);
    lk_range   *ranges = calloc(count + 1, sizeof *ranges);
    if (segments == NULL || ranges == NULL) {
        free(segments);
        free(ranges);
        return lk_fail(err, LK_E_LIMIT, "no memory to join %zu arrays", count);
    }
    for (size_t i = 0; i < count; i++) {
        ranges[i] = (lk_range){0, arrays[i].length};
        segments[i] = (lk_segment){
            .array = &arrays[i], .ranges = &ranges[i], .count = 1, .scale = 1, .rows = arrays[i].length};
    }
    lk_rc rc = lk_gather(schema, segments, count, out, err);
    free(ranges);
    free(segments);
    return rc;
}
