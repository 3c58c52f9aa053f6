/* list_rows_test.c - entries to offsets and validity, as Arrow's columnar format defines them. */
#include "lance/list_rows.h"

#include "arrow/bits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { ENTRIES = 1000 };

static const struct ArrowSchema field = {.format = "i", .name = "item", .flags = ARROW_FLAG_NULLABLE};
static const lk_page_layout     layout = {
        .layers = {LK_LAYER_NULLABLE_ITEM, LK_LAYER_NULL_AND_EMPTY_LIST}, .layer_count = 2};

typedef struct fixture {
    lk_buffer_pool *pool;
    lk_buffer       into;
    lk_column       column;
    lk_list_rows    lists;
} fixture;

static void open_fixture(fixture *f, uint64_t rows, unsigned width)
{
    lk_err err = {0};
    *f = (fixture){.pool = lk_buffer_pool_new(NULL)};
    assert_int_equal(lk_column_init(&f->column, &field, 0, f->pool, NULL, 0, &err), LK_OK);
    assert_int_equal(lk_list_rows_init(&f->lists, 2, 1, rows, width, f->pool, &err), LK_OK);
}

static void close_fixture(fixture *f)
{
    lk_list_rows_deinit(&f->lists);
    lk_column_deinit(&f->column);
    lk_buffer_give(&f->into);
    lk_buffer_pool_close(f->pool);
}

/* Entries and as many values as they own, like a page's decoder does. */
static lk_rc append(
    fixture *f, const uint16_t *rep, const uint16_t *def, uint64_t first, uint64_t end, uint64_t count)
{
    lk_marks marks = {0};
    lk_err   err = {0};
    lk_rc    rc = lk_marks_of(&layout, rep, def, count, f->pool, &f->into, &marks, &err);
    if (rc == LK_OK) {
        rc = lk_column_extend(&f->column, end - first, &err);
    }
    uint64_t before = f->lists.values;
    if (rc == LK_OK) {
        rc = lk_list_rows_append(&f->lists, &marks, first, end, &f->column, &err);
    }
    f->column.rows += rc == LK_OK ? f->lists.values - before : 0;
    return rc;
}

static void items_nulls_and_empty_lists_lie_where_arrow_has_them(void **state)
{
    (void)state;
    /* [[1, 2], null, [], [3, null, 4], [null]] */
    static const uint16_t rep[] = {1, 0, 1, 1, 1, 0, 0, 1}, def[] = {0, 0, 2, 3, 0, 1, 0, 1};
    static const uint32_t offsets[] = {0, 2, 2, 2, 5, 6};
    fixture               f;
    open_fixture(&f, 5, 4);
    assert_int_equal(append(&f, rep, def, 0, 8, 8), LK_OK);
    lk_list_rows_finish(&f.lists);
    assert_int_equal(f.lists.rows, 5);
    assert_int_equal(f.lists.values, 6);
    assert_memory_equal(f.lists.offsets.data, offsets, sizeof offsets);
    assert_int_equal(f.lists.validity[1].null_count, 1);
    assert_int_equal(f.lists.validity[1].bits.data[0] & 31, 29); /* all but the second */
    assert_int_equal(f.column.validity.null_count, 2);
    assert_int_equal(f.column.validity.bits.data[0] & 63, 23); /* all but the fourth and the sixth */
    close_fixture(&f);
}

static void nulls_of_structs_in_and_around_a_list_are_their_layers(void **state)
{
    (void)state;
    /* {[{1}, null, {null}]}, null, {null}, {[]}, {[{2}]} */
    static const uint16_t rep[] = {1, 0, 0, 1, 1, 1, 1}, def[] = {0, 2, 1, 5, 3, 4, 0};
    static const uint32_t offsets[] = {0, 3, 3, 3, 3, 4};
    static const uint8_t  valid[] = {9, 13, 25, 29}; /* leaf, struct in the list, list, struct around it */
    static const lk_page_layout deep = {.layers = {LK_LAYER_NULLABLE_ITEM, LK_LAYER_NULLABLE_ITEM,
                                            LK_LAYER_NULL_AND_EMPTY_LIST, LK_LAYER_NULLABLE_ITEM},
        .layer_count = 4};
    lk_marks                    marks = {0};
    lk_err                      err = {0};
    fixture                     f;
    open_fixture(&f, 5, 4);
    lk_list_rows_deinit(&f.lists);
    assert_int_equal(lk_list_rows_init(&f.lists, 4, 2, 5, 4, f.pool, &err), LK_OK);
    assert_int_equal(lk_marks_of(&deep, rep, def, 7, f.pool, &f.into, &marks, &err), LK_OK);
    assert_int_equal(lk_column_extend(&f.column, 7, &err), LK_OK);
    assert_int_equal(lk_list_rows_append(&f.lists, &marks, 0, 7, &f.column, &err), LK_OK);
    lk_list_rows_finish(&f.lists);
    assert_memory_equal(f.lists.offsets.data, offsets, sizeof offsets);
    for (size_t layer = 0; layer < 4; layer++) {
        const lk_validity *at = layer == 0 ? &f.column.validity : &f.lists.validity[layer];
        uint8_t            mask = layer < 2 ? 15 : 31;
        assert_int_equal(at->bits.data[0] & mask, valid[layer]);
        assert_int_equal(at->null_count, __builtin_popcount(mask) - __builtin_popcount(valid[layer]));
    }
    close_fixture(&f);
}

/* What the entries are, one by one. */
static void check_rows(
    const fixture *f, const uint16_t *rep, const uint16_t *def, uint64_t first, uint64_t end)
{
    uint64_t row = 0, value = 0, null_lists = 0, null_items = 0;
    for (uint64_t at = first; at < end; at++) {
        if (rep[at] == 1) {
            assert_int_equal(lk_load_u64(f->lists.offsets.data + row * 8), value);
            assert_int_equal(lk_bit(f->lists.validity[1].bits.data, (int64_t)row), def[at] != 2);
            null_lists += def[at] == 2;
            row++;
        }
        if (def[at] < 2) {
            assert_int_equal(lk_bit(f->column.validity.bits.data, (int64_t)value), def[at] == 0);
            null_items += def[at] == 1;
            value++;
        }
    }
    assert_int_equal(lk_load_u64(f->lists.offsets.data + row * 8), value);
    assert_int_equal(f->lists.rows, row);
    assert_int_equal(f->lists.values, value);
    assert_int_equal(f->lists.validity[1].null_count, null_lists);
    assert_int_equal(f->column.validity.null_count, null_items);
}

static void entries_may_come_in_any_pieces(void **state)
{
    (void)state;
    uint16_t rep[ENTRIES], def[ENTRIES];
    uint64_t random = 88172645463325252ULL;
    for (size_t at = 0; at < ENTRIES; at++) { /* nulls come late: the first words have none */
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        bool begins = at == 0 || random % 5 == 0;
        rep[at] = begins;
        def[at] = at < 300 ? 0 : (uint16_t)(begins ? random / 5 % 4 : random / 5 % 8 == 0);
    }
    for (uint64_t piece = 1; piece <= ENTRIES; piece = piece * 3 / 2 + 1) {
        fixture f;
        open_fixture(&f, ENTRIES, 8);
        for (uint64_t at = 0; at < ENTRIES; at += piece) {
            uint64_t end = at + piece < ENTRIES ? at + piece : ENTRIES;
            assert_int_equal(append(&f, rep, def, at, end, ENTRIES), LK_OK);
        }
        lk_list_rows_finish(&f.lists);
        check_rows(&f, rep, def, 0, ENTRIES);
        close_fixture(&f);
    }
}

static void what_no_rows_are_is_damage(void **state)
{
    (void)state;
    static const uint16_t middle[] = {0, 1}, rows[] = {1, 1, 1}, one[] = {1, 0}, none[] = {0, 0, 0},
                          null[] = {0, 2};
    fixture f;
    open_fixture(&f, 2, 4);
    assert_int_equal(append(&f, middle, none, 0, 2, 2), LK_E_CORRUPT_FILE); /* no row has begun */
    assert_int_equal(append(&f, rows, none, 0, 3, 3), LK_E_CORRUPT_FILE);   /* one more than there are */
    assert_int_equal(append(&f, one, null, 0, 2, 2), LK_E_CORRUPT_FILE);    /* a null list in a list */
    assert_int_equal(append(&f, one, none, 0, 2, 2), LK_OK);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_nulls_and_empty_lists_lie_where_arrow_has_them),
        cmocka_unit_test(nulls_of_structs_in_and_around_a_list_are_their_layers),
        cmocka_unit_test(entries_may_come_in_any_pieces),
        cmocka_unit_test(what_no_rows_are_is_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
