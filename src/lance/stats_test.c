/* stats_test.c - zone statistics are bounds, always: texts that are cut, NaN, nulls, extremes; damage is told. */
#include "lance/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static lk_type type_of(const char *format)
{
    lk_type            type;
    struct ArrowSchema schema;
    ArrowSchemaInit(&schema);
    assert_int_equal(ArrowSchemaSetFormat(&schema, format), NANOARROW_OK);
    assert_true(lk_type_of(&schema, &type));
    schema.release(&schema);
    return type;
}

/* Statistics of one column of `rows` rows. */
static lk_stats *stats_of(
    const char *format, const uint8_t *validity, const void *values, const char *bytes, uint64_t rows)
{
    lk_buf           buffer = {0};
    lk_stats        *stats = NULL;
    lk_err           err = {0};
    lk_type          type = type_of(format);
    lk_stats_writer *writer = lk_stats_writer_new(1);
    lk_stats_writer_column(writer, 0, &type);
    for (uint64_t row = 0; row < rows; row += 5000) { /* pieces do not fall on zones */
        uint64_t some = rows - row < 5000 ? rows - row : 5000;
        lk_stats_writer_add(writer, 0, validity, values, (const uint8_t *)bytes, row, some);
    }
    lk_stats_writer_encode(writer, rows, &buffer);
    assert_int_equal(lk_stats_parse(lk_buf_view(&buffer), &stats, &err), LK_OK);
    lk_stats_writer_free(writer);
    lk_buf_deinit(&buffer);
    return stats;
}

static void integers_have_their_extremes_zone_by_zone(void **state)
{
    (void)state;
    enum { ROWS = 20000 };
    int64_t        *values = calloc(ROWS, sizeof *values);
    lk_column_stats zone;
    assert_non_null(values);
    for (int64_t row = 0; row < ROWS; row++) {
        values[row] = row * 3 - 1000;
    }
    values[9000] = INT64_MIN;
    values[9001] = INT64_MAX;
    lk_stats *stats = stats_of("l", NULL, values, NULL, ROWS);
    assert_int_equal(lk_stats_zone_count(stats), 3);
    assert_true(lk_stats_zone(stats, 0, 0, &zone));
    assert_true(zone.has_min && zone.has_max && !zone.has_nan);
    assert_int_equal(zone.min.as.i64, -1000);
    assert_int_equal(zone.max.as.i64, 8191 * 3 - 1000);
    assert_int_equal(zone.row_count, 8192);
    assert_true(lk_stats_zone(stats, 0, 1, &zone));
    assert_true(zone.min.as.i64 == INT64_MIN && zone.max.as.i64 == INT64_MAX);
    assert_true(lk_stats_zone(stats, 0, 2, &zone));
    assert_int_equal(zone.row_count, ROWS - 2 * 8192);
    assert_int_equal(zone.max.as.i64, 19999 * 3 - 1000);
    assert_false(lk_stats_zone(stats, 0, 3, &zone));
    assert_false(lk_stats_zone(stats, 1, 0, &zone));
    lk_stats_unref(stats);
    free(values);
}

static void nulls_are_counted_and_never_bounds(void **state)
{
    (void)state;
    const int8_t    values[] = {-128, 5, 127, 7};
    const uint8_t   some = 0x0a, none = 0x00;
    lk_column_stats zone;
    lk_stats       *stats = stats_of("c", &some, values, NULL, 4);
    assert_true(lk_stats_zone(stats, 0, 0, &zone));
    assert_int_equal(zone.null_count, 2);
    assert_int_equal(zone.min.as.i64, 5);
    assert_int_equal(zone.max.as.i64, 7);
    lk_stats_unref(stats);
    stats = stats_of("c", &none, values, NULL, 4);
    assert_true(lk_stats_zone(stats, 0, 0, &zone));
    assert_int_equal(zone.null_count, 4);
    assert_false(zone.has_min || zone.has_max);
    lk_stats_unref(stats);
}

static void nan_is_flagged_and_no_bound(void **state)
{
    (void)state;
    const double    values[] = {1.5, NAN, -2.5, 0.0}, only[] = {NAN, NAN};
    lk_column_stats zone;
    lk_stats       *stats = stats_of("g", NULL, values, NULL, 4);
    assert_true(lk_stats_zone(stats, 0, 0, &zone));
    assert_true(zone.has_nan && zone.has_min);
    assert_true(zone.min.as.f64 == -2.5 && zone.max.as.f64 == 1.5);
    lk_stats_unref(stats);
    stats = stats_of("g", NULL, only, NULL, 2);
    assert_true(lk_stats_zone(stats, 0, 0, &zone));
    assert_true(zone.has_nan && !zone.has_min && !zone.has_max);
    lk_stats_unref(stats);
}

static void text_of(const char *const *texts, size_t count, lk_column_stats *zone, lk_stats **stats)
{
    int32_t offsets[8] = {0};
    char    bytes[512];
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(texts[i]);
        memcpy(bytes + offsets[i], texts[i], size);
        offsets[i + 1] = offsets[i] + (int32_t)size;
    }
    *stats = stats_of("u", NULL, offsets, bytes, count);
    assert_true(lk_stats_zone(*stats, 0, 0, zone));
}

static void long_texts_are_cut_into_bounds(void **state)
{
    (void)state;
    lk_column_stats   zone;
    lk_stats         *stats = NULL;
    const char *const short_ones[] = {"b", "", "abc"};
    text_of(short_ones, 3, &zone, &stats);
    assert_int_equal(zone.min.as.bytes.size, 0);
    assert_true(lk_bytes_equal(zone.max.as.bytes, LK_LITERAL("b")));
    lk_stats_unref(stats);
    const char *const long_ones[] = {"0123456789abcdefXYZ", "0123456789abcdef"};
    text_of(long_ones, 2, &zone, &stats);
    assert_true(lk_bytes_equal(zone.min.as.bytes, LK_LITERAL("0123456789abcdef")));
    assert_true(lk_bytes_equal(zone.max.as.bytes, LK_LITERAL("0123456789abcdeg")));
    lk_stats_unref(stats);
    const char *const carried[] = {"0123456789\xff\xff\xff\xff\xff\xff\xff"};
    text_of(carried, 1, &zone, &stats);
    assert_true(lk_bytes_equal(zone.max.as.bytes, LK_LITERAL("012345678:")));
    lk_stats_unref(stats);
    const char *const endless[] = {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"};
    text_of(endless, 1, &zone, &stats);
    assert_true(zone.has_min);
    assert_false(zone.has_max);
    lk_stats_unref(stats);
}

static void decimals_and_unsigned_keep_their_order(void **state)
{
    (void)state;
    const uint64_t  words[] = {5, 0, (uint64_t)-7, (uint64_t)-1}; /* 5 and -7 as 128-bit integers */
    const uint32_t  big[] = {1, 0xffffffffU};
    lk_column_stats zone;
    lk_stats       *stats = stats_of("d:20,2", NULL, words, NULL, 2);
    assert_true(lk_stats_zone(stats, 0, 0, &zone));
    assert_int_equal(zone.min.as.decimal128.high, -1);
    assert_int_equal(zone.min.as.decimal128.low, (uint64_t)-7);
    assert_int_equal(zone.max.as.decimal128.low, 5);
    lk_stats_unref(stats);
    stats = stats_of("I", NULL, big, NULL, 2);
    assert_true(lk_stats_zone(stats, 0, 0, &zone));
    assert_int_equal(zone.max.as.u64, 0xffffffffU);
    lk_stats_unref(stats);
}

static void damaged_statistics_are_refused(void **state)
{
    (void)state;
    const int32_t    values[] = {1, 2, 3};
    lk_type          type = type_of("i");
    lk_buf           buffer = {0};
    lk_stats_writer *writer = lk_stats_writer_new(2);
    lk_stats_writer_column(writer, 1, &type);
    lk_stats_writer_add(writer, 1, NULL, values, NULL, 0, 3);
    lk_stats_writer_encode(writer, 3, &buffer);
    for (size_t size = 0; size < buffer.size; size++) {
        lk_stats *stats = NULL;
        lk_err    err = {0};
        char     *cut = malloc(size + 1);
        assert_non_null(cut);
        memcpy(cut, buffer.data, size);
        assert_int_equal(lk_stats_parse((lk_bytes){cut, size}, &stats, &err), LK_E_CORRUPT_FILE);
        free(cut);
    }
    for (size_t at = 0; at < 28; at++) {
        lk_stats       *stats = NULL;
        lk_err          err = {0};
        lk_column_stats zone;
        buffer.data[at] = (char)~buffer.data[at];
        if (lk_stats_parse(lk_buf_view(&buffer), &stats, &err) == LK_OK) {
            (void)lk_stats_zone(stats, 1, lk_stats_zone_count(stats) - 1, &zone);
        }
        lk_stats_unref(stats);
        buffer.data[at] = (char)~buffer.data[at];
    }
    lk_stats_writer_free(writer);
    lk_buf_deinit(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_have_their_extremes_zone_by_zone),
        cmocka_unit_test(nulls_are_counted_and_never_bounds),
        cmocka_unit_test(nan_is_flagged_and_no_bound),
        cmocka_unit_test(long_texts_are_cut_into_bounds),
        cmocka_unit_test(decimals_and_unsigned_keep_their_order),
        cmocka_unit_test(damaged_statistics_are_refused),
    };
    return cmocka_run_group_tests_name("lance/stats", tests, NULL, NULL);
}
