/* index_search.c - see index_search.h. */
#include "lance/index_search.h"

#include "lance/row_ids.h"

#include <roaring/roaring.h>
#include <stdlib.h>

/* -- answers --------------------------------------------------------------------------------------------- */
lk_index_answer *lk_index_answer_new(size_t fragment_count)
{
    lk_index_answer *answer = calloc(1, sizeof *answer);
    LK_ASSERT(answer != NULL);
    answer->fragment_count = fragment_count;
    answer->covers = calloc(fragment_count + 1, sizeof *answer->covers);
    answer->rows = calloc(fragment_count + 1, sizeof *answer->rows);
    LK_ASSERT(answer->covers != NULL && answer->rows != NULL);
    return answer;
}

static void drop(lk_index_answer *answer, size_t fragment)
{
    if (answer->rows[fragment] != NULL) {
        roaring_bitmap_free(answer->rows[fragment]);
        answer->rows[fragment] = NULL;
    }
}

void lk_index_answer_free(lk_index_answer *answer)
{
    if (answer == NULL) {
        return;
    }
    for (size_t i = 0; i < answer->fragment_count; i++) {
        drop(answer, i);
    }
    free(answer->covers);
    free(answer->rows);
    free(answer);
}

uint64_t lk_index_answer_count(const lk_index_answer *answer)
{
    uint64_t count = 0;
    for (size_t i = 0; i < answer->fragment_count; i++) {
        count += answer->rows[i] == NULL ? 0 : roaring_bitmap_get_cardinality(answer->rows[i]);
    }
    return count;
}

size_t lk_index_answer_bytes(const lk_index_answer *answer)
{
    size_t bytes = answer->fragment_count * (sizeof *answer->covers + sizeof *answer->rows);
    for (size_t i = 0; i < answer->fragment_count; i++) {
        bytes += answer->rows[i] == NULL ? 0 : roaring_bitmap_size_in_bytes(answer->rows[i]);
    }
    return bytes;
}

static void take_rows(lk_index_answer *answer, lk_index_answer *from, size_t fragment)
{
    drop(answer, fragment);
    answer->rows[fragment] = from->rows[fragment];
    from->rows[fragment] = NULL;
}

void lk_index_answer_and(lk_index_answer *answer, lk_index_answer *other)
{
    for (size_t i = 0; i < answer->fragment_count; i++) {
        if (!answer->covers[i] && other->covers[i]) {
            take_rows(answer, other, i);
            answer->covers[i] = true;
        } else if (other->covers[i] && answer->rows[i] != NULL && other->rows[i] != NULL) {
            roaring_bitmap_and_inplace(answer->rows[i], other->rows[i]);
        } else if (other->covers[i]) {
            drop(answer, i); /* one of them has none */
        }
    }
}

void lk_index_answer_or(lk_index_answer *answer, lk_index_answer *other)
{
    for (size_t i = 0; i < answer->fragment_count; i++) {
        answer->covers[i] = answer->covers[i] && other->covers[i];
        if (!answer->covers[i]) {
            drop(answer, i);
        } else if (answer->rows[i] == NULL) {
            take_rows(answer, other, i);
        } else if (other->rows[i] != NULL) {
            roaring_bitmap_or_inplace(answer->rows[i], other->rows[i]);
        }
    }
}

/* -- rows ------------------------------------------------------------------------------------------------ */
enum { GIVE_ROWS = 4096 };

static void add_addresses(
    lk_index_search *search, const lk_index *index, const uint64_t *addresses, size_t count)
{
    const lk_manifest *manifest = search->dataset->manifest;
    size_t             number = SIZE_MAX;
    uint64_t           last = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        uint64_t id = addresses[i] >> 32, row = addresses[i] & UINT32_MAX;
        if (id != last) {
            number = lk_fragment_number_of(search->numbers, manifest->fragment_count, id);
            last = id;
        }
        if (number == SIZE_MAX || !index->covers[number] ||
            row >= manifest->fragments[number].physical_rows) {
            continue;
        }
        struct roaring_bitmap_s **rows = &search->answer->rows[number];
        if (*rows == NULL) {
            *rows = roaring_bitmap_create();
        }
        roaring_bitmap_add(*rows, (uint32_t)row);
    }
}

static bool has_stable_ids(const lk_index_search *search, const lk_index *index)
{
    return !index->addresses && lk_dataset_has_stable_row_ids(search->dataset);
}

static lk_rc give_some(
    lk_index_search *search, const lk_index *index, const uint64_t *ids, size_t count, lk_err *err)
{
    uint64_t addresses[GIVE_ROWS];
    lk_rc    rc = LK_OK;
    search->found += count;
    search->gave_up = search->found > search->rows_max;
    if (has_stable_ids(search, index)) {
        rc = lk_dataset_find_rows(search->dataset, ids, count, addresses, err);
        ids = addresses;
    }
    if (rc == LK_OK && !search->gave_up) {
        add_addresses(search, index, ids, count);
    }
    return rc;
}

lk_rc lk_index_give(lk_index_search *search, const lk_index *index, const uint64_t *ids,
    const uint8_t *selection, size_t count, lk_err *err)
{
    uint64_t some[GIVE_ROWS];
    lk_rc    rc = LK_OK;
    for (size_t at = 0; rc == LK_OK && at < count && !search->gave_up;) {
        size_t taken = 0;
        for (; at < count && taken < GIVE_ROWS; at++) {
            some[taken] = ids[at];
            taken += selection == NULL || selection[at] != 0;
        }
        rc = taken == 0 ? LK_OK : give_some(search, index, some, taken, err);
    }
    return rc;
}

void lk_index_give_rows(lk_index_search *search, size_t fragment, uint64_t first, uint64_t count)
{
    struct roaring_bitmap_s **rows = &search->answer->rows[fragment];
    if (*rows == NULL) {
        *rows = roaring_bitmap_create();
    }
    roaring_bitmap_add_range(*rows, first, first + count);
}

/* Addresses: one run of a fragment's rows. */
static void add_run(lk_index_search *search, const lk_index *index, uint64_t first, uint64_t count)
{
    const lk_manifest *manifest = search->dataset->manifest;
    size_t             number = lk_fragment_number_of(search->numbers, manifest->fragment_count, first >> 32);
    uint64_t           row = first & UINT32_MAX;
    uint64_t           rows = number == SIZE_MAX ? 0 : manifest->fragments[number].physical_rows;
    if (row >= rows || !index->covers[number]) {
        return;
    }
    uint64_t some = count < rows - row ? count : rows - row;
    search->found += some;
    search->gave_up = search->found > search->rows_max;
    lk_index_give_rows(search, number, row, some);
}

lk_rc lk_index_give_run(
    lk_index_search *search, const lk_index *index, uint64_t first, uint64_t count, lk_err *err)
{
    uint64_t ids[GIVE_ROWS];
    lk_rc    rc = LK_OK;
    if (!has_stable_ids(search, index)) {
        add_run(search, index, first, count);
        return LK_OK;
    }
    while (rc == LK_OK && count > 0 && !search->gave_up) {
        size_t some = count < GIVE_ROWS ? (size_t)count : GIVE_ROWS;
        for (size_t i = 0; i < some; i++) {
            ids[i] = first + i;
        }
        rc = give_some(search, index, ids, some, err);
        first += some;
        count -= some;
    }
    return rc;
}

lk_rc lk_index_test(const lk_index_search *search, struct ArrowArray *values, uint8_t *selection, lk_err *err)
{
    const size_t        column = 0;
    struct ArrowSchema *field = (struct ArrowSchema *)(uintptr_t)search->field; /* it is only read */
    struct ArrowSchema  schema = {.format = "+s", .n_children = 1, .children = &field};
    struct ArrowArray   batch = {.length = values->length, .n_children = 1, .children = &values};
    return lk_predicate_evaluate(search->predicate, &schema, &batch, &column, 1, selection, err);
}

bool lk_index_same_type(const lk_index_search *search, const struct ArrowSchema *stored)
{
    const struct ArrowSchema *field = search->field;
    return strcmp(field->format, stored->format) == 0 && field->dictionary == NULL &&
           stored->dictionary == NULL && lk_predicate_supports(field);
}
