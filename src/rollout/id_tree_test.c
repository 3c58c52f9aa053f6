/* id_tree_test.c - a tree of ids against a plain list of what it should say, over many random changes; copies that share. */
#include "rollout/id_tree.h"

#include "base/rand.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SOURCES = 40, ROWS = 50, IDS = 3000 };

typedef struct source {
    lk_rollout_rows    rows; /* only what the tree looks at */
    struct ArrowArray  batch, id;
    struct ArrowArray *children[1];
    const void        *buffers[3];
    int32_t            offsets[ROWS + 1];
    char               text[ROWS * 8];
    bool               in;
} source;

static source sources[SOURCES];

static void release(struct ArrowArray *array)
{
    array->release = NULL;
}

/* ROWS distinct ids of IDS many. */
static void make_source(lk_random *random, size_t i, uint64_t number)
{
    source  *s = &sources[i];
    uint64_t first = lk_random_below(random, IDS);
    *s = (source){.rows = {.number = number, .count = ROWS}};
    s->rows.shard.bytes[0] = (uint8_t)(i % 3);
    for (size_t row = 0; row < ROWS; row++) {
        (void)snprintf(s->text + 7 * row, 8, "id%05d", (int)((first + 13 * row) % IDS));
        s->offsets[row + 1] = (int32_t)(7 * (row + 1));
    }
    s->buffers[1] = s->offsets;
    s->buffers[2] = s->text;
    s->id = (struct ArrowArray){.length = ROWS, .n_buffers = 3, .buffers = s->buffers, .release = release};
    s->children[0] = &s->id;
    s->batch =
        (struct ArrowArray){.length = ROWS, .n_children = 1, .children = s->children, .release = release};
    struct ArrowArray moved = s->batch;
    s->rows.batch = lk_array_share(&moved);
}

static lk_bytes id_at(const source *s, size_t row)
{
    return (lk_bytes){s->text + 7 * row, 7};
}

/* What counts of the sources that are in: the first by lk_rollout_rows_order. */
static bool expected(lk_bytes id, lk_rollout_place *out)
{
    out->rows = NULL;
    for (size_t i = 0; i < SOURCES; i++) {
        for (size_t row = 0; sources[i].in && row < ROWS; row++) {
            if (lk_bytes_equal(id_at(&sources[i], row), id) &&
                (out->rows == NULL || lk_rollout_rows_order(&sources[i].rows, out->rows) < 0)) {
                *out = (lk_rollout_place){&sources[i].rows, row};
            }
        }
    }
    return out->rows != NULL;
}

static void check(const lk_id_tree *tree)
{
    size_t count = 0;
    for (size_t number = 0; number < IDS; number++) {
        char             text[8];
        lk_rollout_place right, found = {0};
        (void)snprintf(text, sizeof text, "id%05d", (int)number);
        bool is_there = expected(lk_bytes_of(text), &right);
        count += is_there;
        assert_int_equal(lk_id_tree_find(tree, lk_bytes_of(text), &found), is_there);
        assert_ptr_equal(found.rows, right.rows);
        if (is_there) {
            assert_int_equal(found.row, right.row);
        }
    }
    assert_int_equal(lk_id_tree_count(tree), count);
}

static lk_id_tree *tree_of_all(void)
{
    lk_id_tree *tree = lk_id_tree_new(NULL);
    for (size_t i = 0; i < SOURCES; i++) {
        if (sources[i].in) {
            lk_id_tree_add(tree, &sources[i].rows);
        }
    }
    return tree;
}

static void the_place_that_counts_is_found_in_whatever_order_generations_come(void **state)
{
    lk_random *random = lk_random_os();
    for (size_t i = 0; i < SOURCES; i++) {
        make_source(random, i, 1 + lk_random_below(random, 1000000));
        sources[i].in = true;
    }
    lk_id_tree *tree = tree_of_all();
    check(tree);
    lk_id_tree_free(tree);
}

static void a_changed_copy_leaves_the_tree_it_came_from_as_it_was(void **state)
{
    for (size_t i = 0; i < SOURCES; i++) {
        sources[i].in = i < SOURCES / 2;
    }
    lk_id_tree *first = tree_of_all(), *second = lk_id_tree_new(first);
    lk_id_tree_add(second, &sources[SOURCES - 1].rows);
    lk_id_tree_add(second, &sources[SOURCES - 2].rows);
    check(first);
    sources[SOURCES - 1].in = sources[SOURCES - 2].in = true;
    check(second);
    lk_id_tree_free(first);
    check(second);
    lk_id_tree_free(second);
}

/* Without copies, as its caller sees to: each source has ids of its own. */
static void what_was_added_can_be_removed(void **state)
{
    lk_id_tree *tree = lk_id_tree_new(NULL);
    for (size_t i = 0; i < SOURCES; i++) {
        sources[i].in = i < 4;
        for (size_t row = 0; i < 4 && row < ROWS; row++) {
            (void)snprintf(sources[i].text + 7 * row, 8, "id%05d", (int)(i * ROWS + row));
        }
        if (sources[i].in) {
            lk_id_tree_add(tree, &sources[i].rows);
        }
    }
    check(tree);
    lk_id_tree *fewer = lk_id_tree_new(tree);
    lk_id_tree_remove(fewer, &sources[1].rows);
    check(tree);
    sources[1].in = false;
    check(fewer);
    lk_id_tree_remove(fewer, &sources[0].rows);
    lk_id_tree_remove(fewer, &sources[2].rows);
    lk_id_tree_remove(fewer, &sources[3].rows);
    assert_int_equal(lk_id_tree_count(fewer), 0);
    lk_id_tree_free(tree);
    lk_id_tree_free(fewer);
}

static int forget_sources(void **state)
{
    for (size_t i = 0; i < SOURCES; i++) {
        lk_shared_array_unref(sources[i].rows.batch);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_place_that_counts_is_found_in_whatever_order_generations_come),
        cmocka_unit_test(a_changed_copy_leaves_the_tree_it_came_from_as_it_was),
        cmocka_unit_test(what_was_added_can_be_removed),
    };
    return cmocka_run_group_tests(tests, NULL, forget_sources);
}
