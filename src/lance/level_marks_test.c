/* level_marks_test.c - levels of every stored form against the levels themselves, one by one. */
#include "lance/level_marks.h"

#include "lance/bitpack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { COUNT_MAX = 3000 };

static const lk_encoding one_bit = {.kind = LK_ENCODING_FLAT, .bits = 1};
static const lk_encoding packed = {
    .kind = LK_ENCODING_OUT_OF_LINE_BITPACKING, .bits = 16, .values = &one_bit};
static const lk_encoding plain = {.kind = LK_ENCODING_FLAT, .bits = 16};

typedef struct fixture {
    lk_scratch     scratch;
    lk_page_layout layout;
    uint16_t       rep[COUNT_MAX + LK_BITPACK_BLOCK], def[COUNT_MAX + LK_BITPACK_BLOCK];
    uint8_t        block[COUNT_MAX];
} fixture;

static void open_fixture(fixture *f)
{
    *f = (fixture){.scratch.pool = lk_buffer_pool_new(NULL),
        .layout = {.layers = {LK_LAYER_NULLABLE_ITEM, LK_LAYER_NULL_AND_EMPTY_LIST}, .layer_count = 2}};
}

static void close_fixture(fixture *f)
{
    lk_buffer_pool *pool = f->scratch.pool;
    lk_scratch_deinit(&f->scratch);
    lk_buffer_pool_close(pool);
}

static void fill(uint16_t *levels, uint64_t count, uint64_t below, uint64_t seed)
{
    for (uint64_t at = 0; at < count; at++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        levels[at] = (uint16_t)(seed % below);
    }
}

/* Whole blocks, and the tail as a block or plain: always where it is no larger then, a reader tells them by the size. */
static lk_bytes pack(fixture *f, const uint16_t *levels, uint64_t count, bool plain_tail)
{
    size_t at = 0;
    for (uint64_t done = 0; done < count; done += LK_BITPACK_BLOCK) {
        uint64_t left = count - done;
        if (left * 2 <= lk_bitpack_bytes(1) || (plain_tail && left < LK_BITPACK_BLOCK)) {
            memcpy(f->block + at, levels + done, left * 2);
            at += left * 2;
        } else {
            lk_bitpack_pack(16, 1, levels + done, f->block + at);
            at += lk_bitpack_bytes(1);
        }
    }
    return (lk_bytes){(const char *)f->block, at};
}

/* set: of levels, bit by bit. */
static void check_bits(const uint64_t *bits, const uint16_t *levels, uint64_t count, unsigned set)
{
    for (uint64_t at = 0; at < count; at++) {
        assert_int_equal(bits[at / 64] >> at % 64 & 1, set >> levels[at] & 1);
    }
    assert_int_equal(bits[count / 64] >> count % 64, 0);
    assert_int_equal(bits[count / 64 + 1], 0);
}

static void packed_levels_of_any_number_keep_their_order(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    f.layout.rep = &packed;
    for (uint64_t count = 1; count < COUNT_MAX; count += count < 200 ? 1 : 37) {
        lk_marks marks = {0};
        lk_err   err = {0};
        memset(f.rep, 0, sizeof f.rep);
        fill(f.rep, count, 2, count + 1);
        assert_int_equal(lk_marks_read(&f.layout, pack(&f, f.rep, count, false), (lk_bytes){0}, count,
                             &f.scratch, &marks, &err),
            LK_OK);
        check_bits(marks.starts, f.rep, count, 1U << 1);
        if (count % LK_BITPACK_BLOCK < 500) { /* the tail is no larger than what the block has room for */
            assert_int_equal(lk_marks_read(&f.layout, pack(&f, f.rep, count, true), (lk_bytes){0}, count,
                                 &f.scratch, &marks, &err),
                LK_OK);
            check_bits(marks.starts, f.rep, count, 1U << 1);
        }
        assert_null(marks.hidden);
        assert_null(marks.nulls[0]);
        assert_null(marks.nulls[1]);
    }
    close_fixture(&f);
}

typedef struct meant {
    uint8_t  layers[4];
    size_t   layer_count;
    unsigned nulls[4], hidden; /* sets of levels */
    unsigned most;
} meant;

static void check_meaning(fixture *f, const meant *as, bool as_bits)
{
    const uint64_t count = 1777;
    lk_marks       marks = {0};
    lk_err         err = {0};
    memcpy(f->layout.layers, as->layers, sizeof as->layers);
    f->layout.layer_count = as->layer_count;
    f->layout.rep = &plain;
    f->layout.def = as_bits ? &packed : &plain;
    fill(f->rep, count, 2, 3);
    fill(f->def, count, as->most + 1U, 5 + as->most);
    lk_bytes rep = {(const char *)f->rep, count * 2}, def = {(const char *)f->def, count * 2};
    if (as_bits) {
        def = pack(f, f->def, count, false);
    }
    assert_int_equal(lk_marks_read(&f->layout, rep, def, count, &f->scratch, &marks, &err), LK_OK);
    for (size_t layer = 0; layer <= as->layer_count; layer++) {
        const uint64_t *bits = layer < as->layer_count ? marks.nulls[layer] : marks.hidden;
        unsigned        set = layer < as->layer_count ? as->nulls[layer] : as->hidden;
        assert_int_equal(bits != NULL, set != 0);
        if (bits != NULL) {
            check_bits(bits, f->def, count, set);
        }
    }
    f->def[count / 2] = (uint16_t)(as->most + 1);
    if (!as_bits) {
        assert_int_equal(
            lk_marks_read(&f->layout, rep, def, count, &f->scratch, &marks, &err), LK_E_CORRUPT_FILE);
    }
}

/* As the published format has it: levels are counted from the leaf outwards, of a list null before empty; what is inside of
 * a null is null, too. */
static void definition_levels_mean_what_the_layers_say(void **state)
{
    (void)state;
    enum {
        VALID = LK_LAYER_ALL_VALID_ITEM,
        NULLABLE = LK_LAYER_NULLABLE_ITEM,
        FULL = LK_LAYER_ALL_VALID_LIST
    };
    enum {
        NULLS = LK_LAYER_NULLABLE_LIST,
        EMPTIES = LK_LAYER_EMPTYABLE_LIST,
        BOTH = LK_LAYER_NULL_AND_EMPTY_LIST
    };
    enum { L1 = 1 << 1, L2 = 1 << 2, L3 = 1 << 3, L4 = 1 << 4, L5 = 1 << 5 };
    static const meant cases[] = {
        {{NULLABLE, BOTH}, 2, {L1, L2}, L2 | L3, 3},
        {{NULLABLE, FULL}, 2, {L1, 0}, 0, 1},
        {{VALID, NULLS}, 2, {0, L1}, L1, 1},
        {{VALID, EMPTIES}, 2, {0, 0}, L1, 1},
        {{VALID, BOTH}, 2, {0, L1}, L1 | L2, 2},
        {{NULLABLE, NULLABLE, BOTH, NULLABLE}, 4, {L1 | L2, L2, L3 | L5, L5}, L3 | L4 | L5, 5},
        {{VALID, NULLABLE, FULL, VALID}, 4, {L1, L1, 0, 0}, 0, 1},
        {{VALID, EMPTIES, NULLABLE}, 3, {0, L2, L2}, L1 | L2, 2},
        {{VALID, FULL, NULLABLE}, 3, {0, L1, L1}, L1, 1},
        {{VALID, NULLS, VALID, NULLABLE}, 4, {0, L1 | L2, L2, L2}, L1 | L2, 2},
    };
    fixture f;
    open_fixture(&f);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_meaning(&f, &cases[i], false);
        if (cases[i].most == 1) {
            check_meaning(&f, &cases[i], true);
        }
    }
    close_fixture(&f);
}

static void levels_that_end_early_or_repeat_deeper_are_damage(void **state)
{
    (void)state;
    fixture  f;
    lk_marks marks = {0};
    lk_err   err = {0};
    open_fixture(&f);
    f.layout.rep = &packed;
    fill(f.rep, 2000, 2, 9);
    lk_bytes block = pack(&f, f.rep, 2000, false);
    for (size_t size = 0; size < block.size; size += 8) {
        assert_int_equal(lk_marks_read(&f.layout, (lk_bytes){block.data, size}, (lk_bytes){0}, 2000,
                             &f.scratch, &marks, &err),
            LK_E_CORRUPT_FILE);
    }
    f.layout.rep = &plain;
    f.rep[40] = 2;
    block = (lk_bytes){(const char *)f.rep, 200};
    assert_int_equal(
        lk_marks_read(&f.layout, block, (lk_bytes){0}, 100, &f.scratch, &marks, &err), LK_E_CORRUPT_FILE);
    close_fixture(&f);
}

static void rows_are_found_from_any_entry(void **state)
{
    (void)state;
    fixture   f;
    lk_marks  marks = {0};
    lk_buffer into = {0};
    lk_err    err = {0};
    uint64_t  count = 500, passed = 0;
    open_fixture(&f);
    fill(f.rep, count, 2, 11);
    fill(f.def, count, 4, 13);
    assert_int_equal(lk_marks_of(&f.layout, f.rep, f.def, count, f.scratch.pool, &into, &marks, &err), LK_OK);
    for (uint64_t from = 0; from < count; from += 7) {
        uint64_t rows = 0, values = 0;
        for (uint64_t at = from; at < count; at++) {
            assert_int_equal(lk_marks_values(&marks, from, at), values);
            if (f.rep[at] == 1) {
                assert_int_equal(lk_marks_find(&marks, from, rows, &passed), at);
                assert_int_equal(passed, rows);
                rows++;
            }
            values += f.def[at] < 2;
        }
        assert_int_equal(lk_marks_find(&marks, from, rows, &passed), count);
        assert_int_equal(passed, rows);
    }
    lk_buffer_give(&into);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_levels_of_any_number_keep_their_order),
        cmocka_unit_test(definition_levels_mean_what_the_layers_say),
        cmocka_unit_test(levels_that_end_early_or_repeat_deeper_are_damage),
        cmocka_unit_test(rows_are_found_from_any_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
