/* fold_test.c - which small fragments of a base table become one: few are left after any history, and rows are not rewritten
 * again and again. */
#include "lance/alter.h"
#include "lance/manifest.h"
#include "rollout/records_json.h"
#include "rollout/store_priv.h"
#include "rollout/stores_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* One request of so many records: a merge makes a fragment of them. */
static void add_fragment_of(lk_rollout_store *s, const char *prefix, int number, int rows)
{
    lk_err      err = {0};
    lk_buf      lines = {0};
    lk_records *records = NULL;
    for (int i = 0; i < rows; i++) {
        lk_buf_format(&lines, "{\"id\":\"%s-%d-%d\",\"rollout_id\":\"r\"}\n", prefix, number, i);
    }
    pods_must(lk_records_open(77000000, NULL, &records, &err), &err);
    pods_must(lk_records_read_ndjson(records, lk_buf_view(&lines), &err), &err);
    pods_must(lk_rollout_store_add(s, records, false, NULL, &err), &err);
    lk_records_close(records);
    lk_buf_deinit(&lines);
    const lk_rollout_merge_options all = {0};
    lk_rollout_merge_report        report;
    pods_must(lk_rollout_store_merge(s, &all, &report, &err), &err);
}

static void small_fragments_between_large_ones_become_one(void **state)
{
    lk_err                    err = {0};
    bool                      folded = true;
    const lk_rollouts_options quiet = {.maintenance = {.off = true}};
    lk_rollouts              *pod = pods_open_with("rollout-0", &quiet);
    lk_rollout_store         *s = pods_create(pod, "rl");
    for (int i = 0; i < LK_ROLLOUT_FOLD_FRAGMENTS - 1; i++) {
        add_fragment_of(s, "small", i, 1 + i % 3);
        add_fragment_of(s, "large", i, LK_ROLLOUT_FOLD_ROWS);
    }
    pods_must(lk_rollout_store_fold(s, &folded, &err), &err);
    assert_false(folded);
    add_fragment_of(s, "small", 98, 1);
    add_fragment_of(s, "large", 98, LK_ROLLOUT_FOLD_ROWS);
    uint64_t rows = pods_rows(s);
    pods_must(lk_rollout_store_fold(s, &folded, &err), &err);
    assert_true(folded);
    assert_int_equal(pods_fragments(s), LK_ROLLOUT_FOLD_FRAGMENTS + 1);
    assert_int_equal(pods_rows(s), rows);
    assert_int_equal(pods_base_rows(s), rows);
    pods_must(lk_rollout_store_fold(s, &folded, &err), &err);
    assert_false(folded);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

/* -- a long history of merges, without their rows -------------------------------------------------------------------- */

enum { HISTORY_ROOM = 4096 };

typedef struct history {
    lk_manifest  manifest;
    lk_fragment  fragments[HISTORY_ROOM];
    lk_data_file files[HISTORY_ROOM];
    uint64_t     next_id, added, rewritten;
} history;

static void append(history *h, uint64_t rows, uint64_t bytes)
{
    size_t at = h->manifest.fragment_count++;
    assert_true(at < HISTORY_ROOM);
    h->files[at] = (lk_data_file){.size_bytes = bytes};
    h->fragments[at] =
        (lk_fragment){.id = h->next_id++, .physical_rows = rows, .files = &h->files[at], .file_count = 1};
}

/* What a compaction that gathers, or that takes all from an id on, makes of it: one fragment at the end. */
static void apply(history *h, const lk_compact_options *options)
{
    uint64_t rows = 0, bytes = 0;
    size_t   kept = 0;
    for (size_t i = 0; i < h->manifest.fragment_count; i++) {
        const lk_fragment *f = &h->fragments[i];
        bool               goes = options->gather_rows > 0 ? f->physical_rows < options->gather_rows &&
                                                   h->files[i].size_bytes < options->gather_bytes
                                                           : f->id >= options->first_id;
        rows += goes ? f->physical_rows : 0;
        bytes += goes ? h->files[i].size_bytes : 0;
        if (!goes) {
            h->files[kept] = h->files[i];
            h->fragments[kept] = h->fragments[i];
            h->fragments[kept].files = &h->files[kept];
            kept++;
        }
    }
    h->manifest.fragment_count = kept;
    h->rewritten += rows;
    append(h, rows, bytes);
}

static size_t count_small(const history *h)
{
    size_t count = 0;
    for (size_t i = 0; i < h->manifest.fragment_count; i++) {
        count += h->fragments[i].physical_rows < LK_ROLLOUT_FOLD_ROWS && h->files[i].size_bytes < 64 << 20;
    }
    return count;
}

/* odds: one merge of so many brings a large fragment. */
static void live_long(uint64_t seed, uint64_t odds)
{
    history           *h = calloc(1, sizeof *h);
    lk_seeded_random   random;
    lk_compact_options options;
    lk_seeded_random_init(&random, seed);
    h->manifest.fragments = h->fragments;
    for (int merge = 0; merge < 20000 && h->manifest.fragment_count < HISTORY_ROOM - 40; merge++) {
        bool large = lk_random_below(&random.base, odds) == 0, wide = lk_random_below(&random.base, 50) == 0;
        uint64_t rows = large ? LK_ROLLOUT_FOLD_ROWS
                              : 1 + lk_random_below(&random.base, 1 << lk_random_below(&random.base, 12));
        append(h, rows, wide ? 65 << 20 : rows * 500);
        h->added += rows;
        while (lk_rollout_plan_fold(&h->manifest, &options)) {
            apply(h, &options);
        }
        assert_true(count_small(h) < 2 * LK_ROLLOUT_FOLD_FRAGMENTS);
    }
    assert_true(h->rewritten < 16 * h->added); /* each row a few times, as its fragment doubles */
    free(h);
}

static void no_order_of_merges_leaves_ever_more_small_fragments(void **state)
{
    static const uint64_t odds[] = {1, 2, 3, 5, 16, 17, 40, 1000000};
    for (size_t i = 0; i < sizeof odds / sizeof *odds; i++) {
        live_long(i + 1, odds[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            small_fragments_between_large_ones_become_one, pods_make_root, pods_remove_root),
        cmocka_unit_test(no_order_of_merges_leaves_ever_more_small_fragments),
    };
    return cmocka_run_group_tests_name("fold", tests, NULL, NULL);
}
