/*
 * v20_ends.c - see v20_priv.h: where values end, of texts in bytes and of lists in items. The first value of a page
 * begins at 0; an end of `adjustment` and more is that of a null. A range of rows needs the end before it, too.
 */
#include "lance/cpu.h"
#include "lance/v20_priv.h"

#include <stdlib.h>
#include <string.h>

LK_VECTOR static bool any_null(const uint64_t *ends, uint64_t count, uint64_t adjustment)
{
    uint64_t seen = 0;
    for (uint64_t row = 0; row < count; row++) {
        seen |= (uint64_t)(ends[row] >= adjustment);
    }
    return seen != 0;
}

/* Bits of the valid ones, from bit `at` of bits on. */
static void mark_valid(const uint64_t *ends, uint64_t count, uint64_t adjustment, uint8_t *bits, uint64_t at)
{
    for (uint64_t row = 0; row < count; row++, at++) {
        unsigned one = ends[row] < adjustment;
        unsigned kept = at % 8 == 0 ? 0 : bits[at / 8];
        bits[at / 8] = (uint8_t)(kept | one << (at % 8));
    }
}

/* Turns ends in the page, the first value beginning at `first`, into ends behind `base`. False when they do not
 * ascend. */
static bool relocate(
    const uint64_t *ends, uint64_t count, uint64_t adjustment, uint64_t first, uint64_t base, uint64_t *out)
{
    uint64_t before = first, wrong = 0;
    for (uint64_t row = 0; row < count; row++) {
        uint64_t end = ends[row] - (ends[row] >= adjustment ? adjustment : 0);
        wrong |= (uint64_t)(end < before);
        before = end;
        out[row] = end - first + base;
    }
    return wrong == 0;
}

/* The ends that the ranges need, the one before each range included. */
static lk_rc read_ends(const lk_page_rows *rows, const lk_v20_array *array, uint64_t *count, lk_err *err)
{
    lk_scratch   *scratch = rows->scratch;
    uint64_t      words = 0;
    lk_row_range *ranges = malloc((rows->range_count + 1) * sizeof *ranges);
    LK_ASSERT(ranges != NULL);
    for (size_t range = 0; range < rows->range_count; range++) {
        uint64_t extra = rows->ranges[range].start > 0;
        ranges[range] = (lk_row_range){rows->ranges[range].start - extra, rows->ranges[range].count + extra};
        words += ranges[range].count;
    }
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->words, 0, (words + 1) * sizeof(uint64_t), err);
    if (rc == LK_OK) {
        rc = lk_v20_words(
            rows, array->indices, ranges, rows->range_count, sizeof(uint64_t), scratch->words.data, err);
    }
    *count = words;
    free(ranges);
    return rc;
}

static lk_rc mark_nulls(
    const lk_page_rows *rows, const lk_v20_array *array, uint64_t words, lk_v20_ends *out, lk_err *err)
{
    lk_scratch     *scratch = rows->scratch;
    const uint64_t *ends = out->ends;
    uint64_t        at = 0;
    if (!any_null(ends, words, array->adjustment)) {
        return LK_OK;
    }
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->levels, 0, out->count / 8 + 8, err);
    for (size_t range = 0; rc == LK_OK && range < rows->range_count; range++) {
        ends += rows->ranges[range].start > 0;
        mark_valid(ends, rows->ranges[range].count, array->adjustment, scratch->levels.data, at);
        ends += rows->ranges[range].count;
        at += rows->ranges[range].count;
    }
    out->valid = rc == LK_OK ? scratch->levels.data : NULL;
    return rc;
}

lk_rc lk_v20_find_ends(const lk_page_rows *rows, const lk_v20_array *array, lk_v20_ends *out, lk_err *err)
{
    uint64_t adjustment = array->adjustment, words = 0, reached = 0;
    *out = (lk_v20_ends){.count = lk_v20_row_count(rows)};
    lk_rc rc = read_ends(rows, array, &words, err);
    out->ends = (uint64_t *)(void *)rows->scratch->words.data;
    if (rc == LK_OK) {
        rc = mark_nulls(rows, array, words, out, err);
    }
    out->spans = malloc((rows->range_count + 1) * sizeof *out->spans);
    LK_ASSERT(out->spans != NULL);
    uint64_t *from = out->ends, *to = from;
    for (size_t range = 0; rc == LK_OK && range < rows->range_count; range++) {
        uint64_t count = rows->ranges[range].count, first = 0;
        if (rows->ranges[range].start > 0) {
            first = *from++;
            first -= first >= adjustment ? adjustment : 0;
        }
        bool     ascend = relocate(from, count, adjustment, first, out->size, to);
        uint64_t size = count == 0 ? 0 : to[count - 1] - out->size;
        out->spans[range] = (lk_row_range){first, size};
        if (!ascend || first < reached || __builtin_add_overflow(out->size, size, &out->size)) {
            rc = lk_fail(err, LK_E_CORRUPT_FILE, "ends of values do not ascend");
        }
        reached = first + size; /* spans lie apart, as rows do */
        from += count;
        to += count;
    }
    return rc;
}

LK_VECTOR static void put32(const uint64_t *ends, uint64_t count, uint64_t base, uint32_t *out)
{
    for (uint64_t row = 0; row < count; row++) {
        out[row] = (uint32_t)(ends[row] + base);
    }
}

LK_VECTOR static void put64(const uint64_t *ends, uint64_t count, uint64_t base, uint64_t *out)
{
    for (uint64_t row = 0; row < count; row++) {
        out[row] = ends[row] + base;
    }
}

void lk_v20_put_ends(const lk_v20_ends *ends, uint64_t base, unsigned width, uint8_t *out)
{
    if (width == 4) {
        put32(ends->ends, ends->count, base, (uint32_t *)(void *)out);
    } else {
        put64(ends->ends, ends->count, base, (uint64_t *)(void *)out);
    }
}
