/* batch_test.c - ownership, slices, filter, take and concat (batch.h). */
#include "arrow/array_fixture.h"
#include "arrow/array_priv.h"
#include "arrow/bits.h"
#include "arrow/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* after the above: cmocka.h needs them */
#include <cmocka.h>

static const int64_t TEN[] = {0, 1, NONE, 3, 4, 5, NONE, 7, 8, 9};

/* A batch of one int64 column (TEN) and one utf8 column. */
static struct ArrowArray two_columns(void)
{
    static const char *const texts[] = {"a", "bb", NULL, "", "e", "f", "g", "h", "i", "jjj"};
    struct ArrowArray columns[2] = {make_integers("int64?", TEN, 10), make_texts("utf8?", texts, 10)}, batch;
    lk_batch_of_columns(columns, 2, 10, &batch);
    return batch;
}

static struct ArrowSchema two_columns_schema(void)
{
    static const char *const columns[] = {"n:int64?", "t:utf8?", NULL};
    return make_schema(columns);
}

static void a_slice_outlives_the_array_it_was_cut_from(void **state)
{
    struct ArrowSchema schema = two_columns_schema();
    struct ArrowArray  batch = two_columns(), slice;
    lk_shared_array   *shared = lk_array_share(&batch);
    assert_null(batch.release);
    lk_shared_array_slice(shared, 2, 3, &slice);
    lk_shared_array_unref(shared);
    assert_int_equal(slice.offset, 2);
    assert_values(&schema, &slice, "{null,null} {3,''} {4,'e'}");
    lk_array_release(&slice);
    lk_schema_release(&schema);
}

static void a_batch_slice_cuts_its_columns_and_starts_at_zero(void **state)
{
    struct ArrowSchema schema = two_columns_schema();
    struct ArrowArray  batch = two_columns(), slice, inner;
    lk_shared_array   *shared = lk_array_share(&batch);
    lk_shared_array_slice(shared, 1, 9, &slice);
    lk_shared_array *outer = lk_array_share(&slice);
    lk_shared_batch_slice(outer, 7, 2, &inner);
    assert_int_equal(inner.offset, 0);
    assert_int_equal(inner.children[0]->length, 2);
    assert_values(schema.children[0], inner.children[0], "8 9");
    assert_values(&schema, &inner, "{8,'i'} {9,'jjj'}");
    lk_shared_array_unref(outer);
    lk_shared_array_unref(shared);
    lk_array_release(&inner);
    lk_schema_release(&schema);
}

static void a_column_moved_out_of_a_slice_lives_on_its_own(void **state)
{
    struct ArrowSchema schema = two_columns_schema();
    struct ArrowArray  batch = two_columns(), slice, column;
    lk_shared_array   *shared = lk_array_share(&batch);
    lk_shared_batch_slice(shared, 8, 2, &slice);
    lk_shared_array_unref(shared);
    lk_array_move(slice.children[1], &column);
    lk_array_release(&slice);
    assert_values(schema.children[1], &column, "'i' 'jjj'");
    lk_array_release(&column);
    lk_schema_release(&schema);
}

static void a_slice_counts_its_nulls_anew(void **state)
{
    struct ArrowArray array = make_integers("int64?", TEN, 10), slice;
    lk_shared_array  *shared = lk_array_share(&array);
    lk_shared_array_slice(shared, 0, 10, &slice);
    assert_int_equal(slice.null_count, 2);
    lk_array_release(&slice);
    lk_shared_array_slice(shared, 3, 3, &slice);
    assert_int_equal(slice.null_count, -1);
    lk_array_release(&slice);
    lk_shared_array_unref(shared);
}

static void filter_keeps_selected_rows_in_order(void **state)
{
    static const uint8_t selection[] = {1, 0, 1, 0, 0, 0, 0, 1, 1, 1};
    struct ArrowSchema   schema = two_columns_schema();
    struct ArrowArray    batch = two_columns(), out;
    lk_err               err = {0};
    assert_int_equal(lk_array_filter(&schema, &batch, selection, 5, &out, &err), LK_OK);
    assert_values(&schema, &out, "{0,'a'} {null,null} {7,'h'} {8,'i'} {9,'jjj'}");
    assert_int_equal((uintptr_t)out.children[0]->buffers[1] % 64, 0);
    assert_int_equal(out.children[0]->null_count, 1);
    lk_array_release(&out);
    lk_array_release(&batch);
    lk_schema_release(&schema);
}

static void filter_of_a_slice_looks_at_the_slice_only(void **state)
{
    static const uint8_t selection[] = {0, 1, 1};
    struct ArrowSchema   schema = two_columns_schema();
    struct ArrowArray    batch = two_columns(), slice, out;
    lk_err               err = {0};
    lk_shared_array     *shared = lk_array_share(&batch);
    lk_shared_array_slice(shared, 7, 3, &slice);
    assert_int_equal(lk_array_filter(&schema, &slice, selection, 2, &out, &err), LK_OK);
    assert_values(&schema, &out, "{8,'i'} {9,'jjj'}");
    assert_null(out.children[0]->buffers[0]); /* no null among them: no bitmap */
    lk_array_release(&out);
    lk_array_release(&slice);
    lk_shared_array_unref(shared);
    lk_schema_release(&schema);
}

static void take_repeats_rows_and_makes_nulls(void **state)
{
    static const int64_t     counts[] = {2, -1, 0, 3}, rows[] = {3, -1, 0, 0, 1};
    static const char *const types[] = {"list<int64>?", "large_list<int64>?", NULL};
    for (int i = 0; types[i] != NULL; i++) {
        struct ArrowSchema field = make_field(types[i], "l");
        struct ArrowArray  lists = make_lists(types[i], counts, 4), out;
        lk_err             err = {0};
        assert_int_equal(lk_array_take(&field, &lists, rows, 5, &out, &err), LK_OK);
        assert_values(&field, &out, "[2,3,4] null [0,1] [0,1] null");
        lk_array_release(&out);
        lk_array_release(&lists);
        lk_schema_release(&field);
    }
}

static void nulls_of_every_shape_can_be_made(void **state)
{
    struct ArrowSchema field =
        make_field("struct<a:int8,b:utf8,c:fixed_size_list<bool>(2),d:list<null>>?", "s");
    struct ArrowArray out;
    lk_err            err = {0};
    assert_int_equal(lk_array_nulls(&field, 3, &out, &err), LK_OK);
    assert_int_equal(lk_array_validate(&field, &out, &err), LK_OK);
    assert_values(&field, &out, "null null null");
    lk_array_release(&out);
    lk_schema_release(&field);
}

static void nulls_that_no_memory_could_hold_are_a_limit(void **state)
{
    struct ArrowSchema field =
        make_field("fixed_size_list<fixed_size_list<int8>(2147483647)>(2147483647)?", "x");
    struct ArrowArray out;
    lk_err            err = {0};
    assert_int_equal(lk_array_nulls(&field, 1 << 24, &out, &err), LK_E_LIMIT);
    assert_null(out.release);
    lk_schema_release(&field);
}

static void concat_joins_slices_and_skips_empty_ones(void **state)
{
    struct ArrowSchema schema = two_columns_schema();
    struct ArrowArray  batch = two_columns(), parts[3], out;
    lk_err             err = {0};
    lk_shared_array   *shared = lk_array_share(&batch);
    lk_shared_array_slice(shared, 8, 2, &parts[0]);
    lk_shared_array_slice(shared, 5, 0, &parts[1]);
    lk_shared_array_slice(shared, 1, 2, &parts[2]);
    assert_int_equal(lk_array_concat(&schema, parts, 3, &out, &err), LK_OK);
    assert_values(&schema, &out, "{8,'i'} {9,'jjj'} {1,'bb'} {null,null}");
    for (int i = 0; i < 3; i++) {
        lk_array_release(&parts[i]);
    }
    assert_int_equal(lk_array_concat(&schema, NULL, 0, &parts[0], &err), LK_OK);
    assert_int_equal(parts[0].length, 0);
    lk_array_release(&parts[0]);
    lk_array_release(&out);
    lk_shared_array_unref(shared);
    lk_schema_release(&schema);
}

static void a_packed_array_lives_in_one_block_of_its_own(void **state)
{
    struct ArrowSchema schema = two_columns_schema();
    struct ArrowArray  batch = two_columns(), slice, out, column;
    lk_err             err = {0};
    lk_shared_array   *shared = lk_array_share(&batch);
    lk_shared_batch_slice(shared, 2, 8, &slice);
    assert_int_equal(lk_array_pack(&schema, &slice, &out, &err), LK_OK);
    lk_array_release(&slice);
    lk_shared_array_unref(shared);
    assert_values(&schema, &out, "{null,null} {3,''} {4,'e'} {5,'f'} {null,'g'} {7,'h'} {8,'i'} {9,'jjj'}");
    lk_array_move(out.children[1], &column);
    lk_array_release(&out);
    assert_values(schema.children[1], &column, "null '' 'e' 'f' 'g' 'h' 'i' 'jjj'");
    lk_array_release(&column);
    assert_int_equal(lk_array_concat(&schema, NULL, 0, &slice, &err), LK_OK);
    assert_int_equal(lk_array_pack(&schema, &slice, &out, &err), LK_OK);
    assert_int_equal(out.length, 0);
    lk_array_release(&slice);
    lk_array_release(&out);
    lk_schema_release(&schema);
    schema = make_field("dictionary<int8,int64>", "d");
    assert_int_equal(lk_array_nulls(&schema, 2, &slice, &err), LK_OK);
    assert_int_equal(lk_array_pack(&schema, &slice, &out, &err), LK_E_UNIMPLEMENTED);
    lk_array_release(&slice);
    lk_schema_release(&schema);
}

/* Offsets alone decide, so no two gigabytes are needed to see the refusal. */
static void concat_refuses_text_that_32_bit_offsets_cannot_hold(void **state)
{
    static const int32_t offsets[] = {0, INT32_MAX};
    struct ArrowSchema   field = make_field("utf8", "t");
    struct ArrowArray    big, out;
    lk_err               err = {0};
    lk_array_start(&big, 1, 3, 0, false);
    lk_array_borrow(&big, 1, offsets);
    const struct ArrowArray twice[] = {big, big};
    assert_int_equal(lk_array_concat(&field, twice, 2, &out, &err), LK_E_LIMIT);
    assert_null(out.release);
    lk_array_release(&big);
    lk_schema_release(&field);
}

static void concat_refuses_more_values_than_the_index_type_names(void **state)
{
    struct ArrowSchema  field = make_field("dictionary<int8,int64>", "d"), values = make_field("int64", "");
    struct ArrowArray   parts[2], out;
    int64_t             numbers[100] = {0};
    static const int8_t index[] = {99};
    lk_err              err = {0};
    for (int i = 0; i < 2; i++) {
        struct ArrowArray dictionary = make_integers("int64", numbers, 100);
        lk_array_start(&parts[i], 1, 2, 0, true);
        lk_array_borrow(&parts[i], 1, index);
        lk_array_move(&dictionary, parts[i].dictionary);
    }
    assert_int_equal(lk_array_concat(&field, parts, 1, &out, &err), LK_OK);
    assert_int_equal(out.dictionary->length, 100);
    lk_array_release(&out);
    assert_int_equal(lk_array_concat(&field, parts, 2, &out, &err), LK_E_LIMIT);
    lk_array_release(&parts[0]);
    lk_array_release(&parts[1]);
    lk_schema_release(&field);
    lk_schema_release(&values);
}

static void validation_names_the_column_and_what_is_wrong(void **state)
{
    static const int32_t falling[] = {0, 2, 1}, inside[] = {0, 1, 2};
    static const char    text[] = "\xC3\xA9";
    struct ArrowSchema   field = make_field("utf8", "words");
    struct ArrowArray    array;
    lk_err               err = {0};
    lk_array_start(&array, 2, 3, 0, false);
    lk_array_borrow(&array, 1, falling);
    lk_array_borrow(&array, 2, text);
    assert_int_equal(lk_array_validate(&field, &array, &err), LK_E_INVALID_IPC);
    assert_string_equal(err.detail, "column 'words': offsets do not grow");
    lk_array_borrow(&array, 1, inside); /* cuts the character in two */
    assert_int_equal(lk_array_validate(&field, &array, &err), LK_E_INVALID_IPC);
    assert_string_equal(err.detail, "column 'words', row 0: text is not UTF-8");
    array.length = -1;
    assert_int_equal(lk_array_validate(&field, &array, &err), LK_E_INVALID_IPC);
    lk_array_release(&array);
    lk_schema_release(&field);
}

static void what_lies_under_a_null_need_not_be_text(void **state)
{
    static const int32_t offsets[] = {0, 1, 2};
    static const uint8_t valid[] = {1};
    struct ArrowSchema   field = make_field("utf8?", "t");
    struct ArrowArray    array;
    lk_err               err = {0};
    lk_array_start(&array, 2, 3, 0, false);
    array.null_count = 1;
    lk_array_borrow(&array, 0, valid);
    lk_array_borrow(&array, 1, offsets);
    lk_array_borrow(&array, 2, "a\xFF");
    assert_int_equal(lk_array_validate(&field, &array, &err), LK_OK);
    lk_array_release(&array);
    lk_schema_release(&field);
}

static void bytes_are_counted_for_rows_and_for_buffers(void **state)
{
    struct ArrowSchema schema = two_columns_schema();
    struct ArrowArray  batch = two_columns();
    assert_int_equal(lk_array_range_bytes(&schema, &batch, 0, 2), 2 * 8 + 2 * 4 + 3);
    assert_int_equal(lk_array_range_bytes(&schema, &batch, 9, 1), 8 + 4 + 3);
    assert_int_equal(lk_array_bytes(&schema, &batch), (10 * 8 + 2) + (11 * 4 + 11 + 2));
    lk_array_release(&batch);
    lk_schema_release(&schema);
}

static void batches_in_memory_come_once_and_in_order(void **state)
{
    struct ArrowSchema schema = two_columns_schema();
    struct ArrowArray  items[2] = {two_columns(), two_columns()}, out;
    lk_err             err = {0};
    lk_batches        *batches = lk_batches_of(&schema, items, 2);
    assert_null(schema.release);
    assert_int_equal(lk_batches_next(batches, &out, &err), LK_OK);
    assert_int_equal(out.length, 10);
    lk_array_release(&out);
    lk_batches_close(batches); /* releases the second */

    schema = two_columns_schema();
    batches = lk_batches_of(&schema, NULL, 0);
    assert_int_equal(lk_batches_next(batches, &out, &err), LK_OK);
    assert_null(out.release);
    lk_batches_close(batches);
}

/* Every start, target and length around the edges of bytes and words, against a loop over single bits. */
static void bitmaps_are_copied_counted_and_expanded_at_any_offset(void **state)
{
    uint8_t from[40], to[40], bytes[200];
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (uint8_t)(i * 151 + 7);
    }
    for (int64_t start = 0; start < 17; start += 3) {
        for (int64_t target = 0; target < 17; target += 4) {
            for (int64_t count = 0; count < 180; count += count < 20 ? 1 : 13) {
                memset(to, 0, sizeof to);
                lk_bits_copy(from, start, to, target, count);
                lk_bits_expand(from, start, count, bytes);
                int64_t ones = 0;
                for (int64_t i = 0; i < count; i++) {
                    assert_int_equal(lk_bit(to, target + i), lk_bit(from, start + i));
                    assert_int_equal(bytes[i], lk_bit(from, start + i));
                    ones += lk_bit(from, start + i);
                }
                assert_int_equal(lk_bits_count(from, start, count), ones);
                assert_int_equal(lk_bits_count(to, 0, 320), ones); /* and nothing outside */
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slice_outlives_the_array_it_was_cut_from),
        cmocka_unit_test(a_batch_slice_cuts_its_columns_and_starts_at_zero),
        cmocka_unit_test(a_column_moved_out_of_a_slice_lives_on_its_own),
        cmocka_unit_test(a_slice_counts_its_nulls_anew),
        cmocka_unit_test(filter_keeps_selected_rows_in_order),
        cmocka_unit_test(filter_of_a_slice_looks_at_the_slice_only),
        cmocka_unit_test(take_repeats_rows_and_makes_nulls),
        cmocka_unit_test(nulls_of_every_shape_can_be_made),
        cmocka_unit_test(nulls_that_no_memory_could_hold_are_a_limit),
        cmocka_unit_test(concat_joins_slices_and_skips_empty_ones),
        cmocka_unit_test(a_packed_array_lives_in_one_block_of_its_own),
        cmocka_unit_test(concat_refuses_text_that_32_bit_offsets_cannot_hold),
        cmocka_unit_test(concat_refuses_more_values_than_the_index_type_names),
        cmocka_unit_test(validation_names_the_column_and_what_is_wrong),
        cmocka_unit_test(what_lies_under_a_null_need_not_be_text),
        cmocka_unit_test(bytes_are_counted_for_rows_and_for_buffers),
        cmocka_unit_test(batches_in_memory_come_once_and_in_order),
        cmocka_unit_test(bitmaps_are_copied_counted_and_expanded_at_any_offset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
