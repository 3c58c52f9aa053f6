/* upkeep_test.c - what operators ask of a store: compaction, checks, collection, adoption; stopped anywhere. */
#include "rollout/stores_fixture.h"

#include "base/file.h"
#include "io/faulty.h"
#include "io/local.h"
#include "io/prefix.h"
#include "rollout/records_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void add_many(lk_rollout_store *s, const char *prefix, int count)
{
    for (int i = 0; i < count; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "%s-%d", prefix, i);
        pods_must_add(s, id);
    }
}

static void merge_all(lk_rollout_store *s)
{
    lk_err                         err = {0};
    lk_rollout_merge_report        report;
    const lk_rollout_merge_options all = {0};
    pods_must(lk_rollout_store_merge(s, &all, &report, &err), &err);
}

/* So many fragments of one row, and no fold before they are there. */
static void add_fragments(lk_rollout_store *s, const char *prefix, int count)
{
    for (int i = 0; i < count; i++) {
        char id[32];
        (void)snprintf(id, sizeof id, "%s-%d", prefix, i);
        pods_must_add(s, id);
        merge_all(s);
    }
}

static void a_compaction_says_what_it_did(void **state)
{
    lk_err                    err = {0};
    lk_rollout_compact_report report;
    lk_rollout_compact_stats  stats;
    lk_rollouts              *pod = pods_open("rollout-0");
    lk_rollout_store         *s = pods_create(pod, "rl");
    pods_must(lk_rollout_store_compact_stats(s, &stats, &err), &err);
    assert_int_equal(stats.total_compactions, 0);
    assert_int_equal(stats.last_ms, 0);
    add_fragments(s, "a", 5);
    pods_must(lk_rollout_store_compact(s, 0, &report, &err), &err);
    assert_int_equal(report.fragments_removed, 5);
    assert_int_equal(report.fragments_added, 1);
    assert_int_equal(report.files_removed, 5);
    assert_int_equal(report.files_added, 1);
    pods_must(lk_rollout_store_compact_stats(s, &stats, &err), &err);
    assert_int_equal(stats.total_fragments, 1);
    assert_int_equal(stats.total_compactions, 1);
    assert_true(stats.last_ms > 0);
    assert_false(stats.is_compacting);
    pods_must(lk_rollout_store_compact(s, 0, &report, &err), &err); /* nothing to do */
    assert_int_equal(report.fragments_removed, 0);
    assert_int_equal(pods_rows(s), 5);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

static void a_fold_takes_the_newest_and_leaves_large_ones(void **state)
{
    lk_err            err = {0};
    bool              folded = true;
    lk_rollouts      *pod = pods_open("rollout-0");
    lk_rollout_store *s = pods_create(pod, "rl");
    add_many(s, "old", 40); /* 40 generations become one fragment of 40 rows */
    merge_all(s);
    add_fragments(s, "a", LK_ROLLOUT_FOLD_FRAGMENTS - 2);
    pods_must(lk_rollout_store_fold(s, &folded, &err), &err);
    assert_false(folded);
    assert_int_equal(pods_fragments(s), LK_ROLLOUT_FOLD_FRAGMENTS - 1);
    add_fragments(s, "b", 1);
    pods_must(lk_rollout_store_fold(s, &folded, &err), &err);
    pods_wait(pods_fragments, s, 2);        /* or it was folded behind us */
    assert_int_equal(pods_fragments(s), 2); /* that of 40 rows is as it was */
    assert_int_equal(pods_rows(s), 40 + LK_ROLLOUT_FOLD_FRAGMENTS - 1);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

/* A request of so many records, each with a role of its own. */
static void add_roles(lk_rollout_store *s, int first, int count)
{
    lk_err      err = {0};
    lk_buf      lines = {0};
    lk_records *records = NULL;
    for (int i = first; i < first + count; i++) {
        lk_buf_format(&lines, "{\"id\":\"%d\",\"rollout_id\":\"r\",\"role\":\"role %d\"}\n", i, i);
    }
    pods_must(lk_records_open(77000000, NULL, &records, &err), &err);
    pods_must(lk_records_read_ndjson(records, lk_buf_view(&lines), &err), &err);
    pods_must(lk_rollout_store_add(s, records, false, NULL, &err), &err);
    lk_records_close(records);
    lk_buf_deinit(&lines);
}

static void requests_that_have_more_roles_together_than_a_batch_can_number_are_merged(void **state)
{
    lk_err                    err = {0};
    lk_rollout_compact_report report;
    const lk_rollouts_options late = {.store = {.deferred = true, .flush_interval_ms = 600000}};
    lk_rollouts              *pod = pods_open_with("rollout-0", &late);
    lk_rollout_store         *s = pods_create(pod, "rl");
    for (int round = 0; round < 2; round++) { /* each a generation of 200 roles, and a fragment */
        add_roles(s, round * 200, 100);
        add_roles(s, round * 200 + 100, 100);
        pods_must(lk_rollout_store_flush(s, &err), &err);
        assert_int_equal(pods_pending(s), 1);
        merge_all(s);
        assert_int_equal(pods_pending(s), 0);
    }
    assert_int_equal(pods_base_rows(s), 400);
    pods_must(lk_rollout_store_compact(s, 0, &report, &err), &err);
    assert_int_equal(pods_rows(s), 400);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

/* -- check ------------------------------------------------------------------------------------------------------------ */

typedef struct told {
    lk_buf shards, damages;
} told;

static void tell_shard(void *context, const lk_rollout_shard_state *shard)
{
    told *t = context;
    lk_buf_format(&t->shards, "%s v%d e%d g%d n%d r%d o%d;", shard->own ? "own" : "other",
        (int)shard->version, (int)shard->writer_epoch, (int)shard->current_generation,
        (int)shard->pending_generations, (int)shard->pending_rows, (int)shard->orphans);
}

static void tell_damage(void *context, lk_bytes object, const char *reason)
{
    told *t = context;
    lk_buf_format(&t->damages, "%.*s: %s\n", LK_FMT(object), reason);
}

static void check(lk_rollout_store *s, told *t, lk_rollout_fsck_report *report)
{
    lk_err                        err = {0};
    const lk_rollout_fsck_options options = {.shard = tell_shard, .damage = tell_damage, .context = t};
    *t = (told){0};
    pods_must(lk_rollout_store_fsck(s, &options, report, &err), &err);
    lk_buf_append(&t->shards, "", 1);
    lk_buf_append(&t->damages, "", 1);
}

static void forget(told *t)
{
    lk_buf_deinit(&t->shards);
    lk_buf_deinit(&t->damages);
}

static void a_check_lists_shards_and_finds_no_damage_in_what_is_whole(void **state)
{
    told                   t;
    lk_rollout_fsck_report report;
    lk_rollouts           *a = pods_open("rollout-0"), *b = pods_open("rollout-1");
    lk_rollout_store      *of_a = pods_create(a, "rl"), *of_b = pods_get(b, "rl");
    add_many(of_a, "a", 3);
    merge_all(of_a);
    add_many(of_a, "more", 1);
    add_many(of_b, "b", 2);
    check(of_a, &t, &report);
    assert_string_equal(t.damages.data, "");
    /* rollout-1 is 5644..., rollout-0 is c411...; a claim, three flushes, a drain and a flush make six versions */
    assert_string_equal(t.shards.data, "other v3 e1 g3 n2 r2 o0;own v6 e1 g5 n1 r1 o3;");
    assert_int_equal(report.base_rows, 3);
    assert_int_equal(report.shards, 2);
    assert_int_equal(report.generations, 3);
    assert_int_equal(report.generation_rows, 3);
    assert_int_equal(report.orphans, 3);
    assert_int_equal(report.damages, 0);
    forget(&t);
    lk_rollout_store_unref(of_a);
    lk_rollout_store_unref(of_b);
    lk_rollouts_close(a);
    lk_rollouts_close(b);
}

/* The path of the only file in a directory of the first generation. */
static void damage_generation(const char *instance, size_t at)
{
    lk_err          err = {0};
    lk_arena        arena = {0};
    lk_store       *root = NULL;
    lk_store_entry *entries = NULL, *files = NULL;
    char            shard[LK_UUID_TEXT_SIZE + 1];
    size_t          count = 0, file_count = 0;
    lk_uuid_format(lk_shard_of_instance(lk_bytes_of(instance)), shard);
    pods_must(lk_local_store_open(&root, lk_bytes_of(pods_root), false, &err), &err);
    lk_bytes directory = lk_arena_format(&arena, "rl.rollout.lance/_mem_wal/%s", shard);
    pods_must(lk_store_list_names(root, directory, &arena, &entries, &count, &err), &err);
    for (size_t i = 0; i < count && file_count == 0; i++) {
        if (memmem(entries[i].name.data, entries[i].name.size, "_gen_", 5) != NULL) {
            directory = lk_arena_format(&arena, "%.*s/%.*s/data", LK_FMT(directory), LK_FMT(entries[i].name));
            pods_must(lk_store_list_names(root, directory, &arena, &files, &file_count, &err), &err);
        }
    }
    assert_int_equal(file_count, 1);
    lk_bytes path =
        lk_arena_format(&arena, "%s/%.*s/%.*s", pods_root, LK_FMT(directory), LK_FMT(files[0].name));
    FILE *file = fopen(path.data, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -(long)at, SEEK_END), 0);
    assert_int_equal(fputs("\xff\xff\xff\xff", file) >= 0, true);
    (void)fclose(file);
    lk_store_close(root);
    lk_arena_close(&arena);
}

static void a_check_names_what_is_damaged_and_goes_on(void **state)
{
    told                   t;
    lk_rollout_fsck_report report;
    lk_rollouts           *pod = pods_open("rollout-0");
    lk_rollout_store      *s = pods_create(pod, "rl"), *sound = pods_create(pod, "sound");
    add_many(s, "a", 1);
    add_many(sound, "a", 1);
    damage_generation("rollout-0", 12); /* in the footer */
    check(s, &t, &report);
    assert_true(report.damages > 0);
    assert_non_null(strstr(t.damages.data, "_gen_1/data/"));
    assert_int_equal(report.base_version, 2); /* it went on */
    forget(&t);
    check(sound, &t, &report);
    assert_int_equal(report.damages, 0);
    forget(&t);
    lk_rollout_store_unref(s);
    lk_rollout_store_unref(sound);
    lk_rollouts_close(pod);
}

static void a_check_tells_of_a_manifest_that_is_missing_before_others(void **state)
{
    char                   path[256], shard[LK_UUID_TEXT_SIZE + 1];
    told                   t;
    lk_rollout_fsck_report report;
    lk_rollouts           *pod = pods_open("rollout-0");
    lk_rollout_store      *s = pods_create(pod, "rl");
    add_many(s, "a", 4); /* a claim and four flushes */
    lk_uuid_format(lk_shard_of_instance(LK_LITERAL("rollout-0")), shard);
    (void)snprintf(path, sizeof path, "%s/rl.rollout.lance/_mem_wal/%s/manifest/11%062d.binpb", pods_root,
        shard, 0); /* the third, its bits reversed */
    assert_int_equal(remove(path), 0);
    check(s, &t, &report);
    assert_int_equal(report.damages, 1);
    assert_non_null(strstr(t.damages.data, "version 3 is missing, and there is version 4"));
    forget(&t);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

/* -- collection and adoption -------------------------------------------------------------------------------------------- */

static void log_entries_go_but_those_that_somebody_may_need(void **state)
{
    lk_err                err = {0};
    lk_rollout_gc_report  report;
    lk_rollout_gc_options options = {.log = true, .dry_run = true};
    lk_rollouts          *pod = pods_open("rollout-0");
    lk_rollout_store     *s = pods_create(pod, "rl");
    add_many(s, "a", LK_ROLLOUT_LOG_KEPT + 4);
    pods_must(lk_rollout_store_collect(s, &options, &report, &err), &err);
    assert_int_equal(report.log_entries, 3); /* the first of the epoch stays, and the newest */
    options.dry_run = false;
    pods_must(lk_rollout_store_collect(s, &options, &report, &err), &err);
    assert_int_equal(report.log_entries, 3);
    pods_must(lk_rollout_store_collect(s, &options, &report, &err), &err);
    assert_int_equal(report.log_entries, 0);
    lk_rollouts      *second = pods_open("rollout-0"); /* the same instance again: a claim, another epoch */
    lk_rollout_store *again = pods_get(second, "rl");
    add_many(again, "b", LK_ROLLOUT_LOG_KEPT + 2);
    pods_must(lk_rollout_store_collect(again, &options, &report, &err), &err);
    assert_int_equal(
        report.log_entries, 65); /* 3 were gone; of 134 entries 64 stay, and the first of both epochs */
    assert_int_equal(pods_rows(again), 2 * LK_ROLLOUT_LOG_KEPT + 6);
    lk_rollout_store_unref(again);
    lk_rollouts_close(second);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

static void the_shard_of_an_instance_that_is_gone_is_merged_and_its_writer_fenced(void **state)
{
    lk_err                  err = {0};
    lk_rollout_merge_report report;
    lk_rollouts            *gone = pods_open("rollout-7"), *here = pods_open("rollout-0");
    lk_rollout_store       *of_gone = pods_create(gone, "rl"), *s = pods_get(here, "rl");
    add_many(of_gone, "a", 12);
    assert_int_equal(
        lk_rollouts_adopt(here, LK_LITERAL("rl"), LK_LITERAL("nobody"), &report, &err), LK_E_NOT_FOUND);
    err = (lk_err){0};
    assert_int_equal(lk_rollouts_adopt(here, LK_LITERAL("rl"), LK_LITERAL("rollout-0"), &report, &err),
        LK_E_INVALID_REQUEST);
    err = (lk_err){0};
    pods_must(lk_rollouts_adopt(here, LK_LITERAL("rl"), LK_LITERAL("rollout-7"), &report, &err), &err);
    assert_int_equal(report.generations, 12);
    assert_int_equal(report.rows, 12);
    assert_int_equal(pods_pending(s), 0);
    assert_int_equal(pods_base_rows(s), 12);
    assert_int_equal(pods_add(of_gone, "late", NULL, &err), LK_E_SHARD_FENCED); /* it was not gone */
    assert_int_equal(pods_rows(s), 12);
    lk_rollout_store_unref(of_gone);
    lk_rollout_store_unref(s);
    lk_rollouts_close(gone);
    lk_rollouts_close(here);
}

static void reads_are_refused_above_the_bound_that_was_set_and_work_again_below(void **state)
{
    lk_err                    err = {0};
    lk_rollout_snapshot      *snapshot = NULL;
    const lk_rollouts_options bounded = {.store = {.pending_warn = 2, .pending_max = 3}};
    lk_rollouts              *pod = pods_open_with("rollout-0", &bounded);
    lk_rollout_store         *s = pods_create(pod, "rl");
    add_many(s, "a", 3);
    assert_int_equal(pods_rows(s), 3);
    add_many(s, "b", 1);
    assert_int_equal(lk_rollout_store_snapshot(s, 0, &snapshot, &err), LK_E_STORE_UNAVAILABLE);
    assert_non_null(strstr(err.detail, "4 unmerged generations"));
    merge_all(s);
    assert_int_equal(pods_rows(s), 4);
    lk_rollout_store_unref(s);
    lk_rollouts_close(pod);
}

/* -- stopped anywhere --------------------------------------------------------------------------------------------------- */

typedef struct broken { /* an instance whose storage fails once */
    lk_fault_plan plan;
    lk_store     *root, *place;
    lk_lance_env  env;
    lk_rollouts  *pod;
} broken;

static void open_broken(broken *b)
{
    lk_err    err = {0};
    lk_store *under = NULL;
    *b = (broken){0};
    assert_int_equal(pods_make_root(NULL), 0);
    lk_fault_plan_init(&b->plan);
    pods_must(lk_local_store_open(&under, lk_bytes_of(pods_root), false, &err), &err);
    b->root = lk_faulty_store_new(under, &b->plan);
    const lk_rollouts_options options = {.root = b->root, .store = {.log = LK_ROLLOUT_LOG_ALWAYS}};
    b->pod = pods_open_with("rollout-0", &options);
}

/* The store rl with nobody behind it who could meet the fault instead. */
static lk_rollout_store *open_alone(broken *b)
{
    lk_err                   err = {0};
    lk_rollout_store        *s = NULL;
    const lk_rollout_options options = {.instance_id = LK_LITERAL("rollout-0"), .log = LK_ROLLOUT_LOG_ALWAYS};
    b->place = lk_prefix_store_new(b->root, LK_LITERAL("rl.rollout.lance"));
    b->env = (lk_lance_env){.store = b->place, .clock = lk_clock_real(), .random = lk_random_os()};
    pods_must(lk_rollout_store_create(&b->env, NULL, &options, &s, &err), &err);
    return s;
}

static void close_broken(broken *b)
{
    lk_rollouts_close(b->pod);
    lk_store_close(b->place);
    lk_store_close(b->root);
    lk_fault_plan_deinit(&b->plan);
    assert_int_equal(pods_remove_root(NULL), 0);
}

/* Each prepares, does its operation once with a fault and once without, and looks. False: no fault was met. */
static bool deletion(broken *b, lk_fault kind, int64_t calls)
{
    lk_err            err = {0};
    lk_rollout_store *s = pods_create(b->pod, "rl");
    add_many(s, "a", 3);
    merge_all(s);
    add_many(s, "b", 1);
    lk_rollout_store_unref(s);
    lk_fault_plan_arm(&b->plan, kind, calls);
    lk_rc rc = lk_rollouts_delete(b->pod, LK_LITERAL("rl"), &err);
    bool  fired = lk_fault_plan_fired(&b->plan);
    lk_fault_plan_arm(&b->plan, kind, -1);
    assert_true(rc == LK_OK || fired);
    err = (lk_err){0};
    lk_rc again = lk_rollouts_delete(b->pod, LK_LITERAL("rl"), &err);
    assert_true(again == LK_OK || again == LK_E_NOT_FOUND);
    assert_true(rc != LK_OK || again == LK_E_NOT_FOUND);
    s = pods_create(b->pod, "rl");
    assert_int_equal(pods_rows(s), 0);
    add_many(s, "a", 1);
    assert_int_equal(pods_rows(s), 1);
    lk_rollout_store_unref(s);
    return fired;
}

static bool creation(broken *b, lk_fault kind, int64_t calls)
{
    lk_err            err = {0};
    lk_rollout_store *s = NULL;
    lk_fault_plan_arm(&b->plan, kind, calls);
    lk_rc rc = lk_rollouts_create(b->pod, LK_LITERAL("rl"), &s, &err);
    bool  fired = lk_fault_plan_fired(&b->plan);
    lk_fault_plan_arm(&b->plan, kind, -1);
    assert_true(rc == LK_OK || fired);
    if (rc != LK_OK) { /* it may be there or not; either way the next one settles it */
        err = (lk_err){0};
        lk_rc again = lk_rollouts_create(b->pod, LK_LITERAL("rl"), &s, &err);
        if (again == LK_E_TABLE_EXISTS) {
            s = pods_get(b->pod, "rl");
        } else {
            pods_must(again, &err);
        }
    }
    add_many(s, "a", 2);
    assert_int_equal(pods_rows(s), 2);
    lk_rollout_store_unref(s);
    return fired;
}

static bool compaction(broken *b, lk_fault kind, int64_t calls)
{
    lk_err            err = {0};
    bool              folded = false;
    lk_rollout_store *s = open_alone(b);
    add_fragments(s, "a", 2);
    lk_fault_plan_arm(&b->plan, kind, calls);
    lk_rollout_compact_report report;
    lk_rc                     rc = lk_rollout_store_compact(s, 0, &report, &err);
    bool                      fired = lk_fault_plan_fired(&b->plan);
    lk_fault_plan_arm(&b->plan, kind, -1);
    assert_true(rc == LK_OK || fired);
    assert_int_equal(pods_rows(s), 2);
    err = (lk_err){0};
    pods_must(lk_rollout_store_compact(s, 0, &report, &err), &err);
    pods_must(lk_rollout_store_fold(s, &folded, &err), &err);
    assert_int_equal(pods_fragments(s), 1);
    add_fragments(s, "b", 1);
    assert_int_equal(pods_base_rows(s), 3);
    lk_rollout_store_unref(s);
    return fired;
}

static bool collection(broken *b, lk_fault kind, int64_t calls)
{
    lk_err                      err = {0};
    lk_rollout_gc_report        report;
    uint64_t                    newest = 0;
    const lk_rollout_gc_options options = {.all_shards = true, .log = true};
    lk_rollout_store           *s = open_alone(b);
    add_many(s, "a", 2);
    merge_all(s);
    add_many(s, "b", 1);
    lk_fault_plan_arm(&b->plan, kind, calls);
    lk_rc rc = lk_rollout_store_collect(s, &options, &report, &err);
    bool  fired = lk_fault_plan_fired(&b->plan);
    lk_fault_plan_arm(&b->plan, kind, -1);
    assert_true(rc == LK_OK || fired);
    assert_int_equal(pods_rows(s), 3);
    err = (lk_err){0};
    pods_must(lk_rollout_store_collect(s, &options, &report, &err), &err);
    assert_int_equal(pods_directories("rl", "rollout-0"), 1);
    assert_int_equal(pods_rows(s), 3);
    uint64_t left = pods_manifest_bytes("rl", "rollout-0", &newest);
    assert_int_equal(left, newest);
    lk_rollout_store_unref(s);
    return fired;
}

static bool adoption(broken *b, lk_fault kind, int64_t calls)
{
    lk_err                  err = {0};
    lk_rollout_merge_report report;
    lk_rollouts            *gone = pods_open("rollout-7");
    lk_rollout_store       *s = pods_create(gone, "rl");
    add_many(s, "a", 2);
    lk_rollout_store_unref(s);
    lk_rollouts_close(gone);
    lk_fault_plan_arm(&b->plan, kind, calls);
    lk_rc rc = lk_rollouts_adopt(b->pod, LK_LITERAL("rl"), LK_LITERAL("rollout-7"), &report, &err);
    bool  fired = lk_fault_plan_fired(&b->plan);
    lk_fault_plan_arm(&b->plan, kind, -1);
    assert_true(rc == LK_OK || fired);
    err = (lk_err){0};
    pods_must(lk_rollouts_adopt(b->pod, LK_LITERAL("rl"), LK_LITERAL("rollout-7"), &report, &err), &err);
    s = pods_get(b->pod, "rl");
    assert_int_equal(pods_pending(s), 0);
    assert_int_equal(pods_base_rows(s), 2);
    lk_rollout_store_unref(s);
    return fired;
}

static int64_t every = 11; /* one call of so many meets a fault; `test_rollout_upkeep all`: each */

/* The stores' own writes have met every kind of fault in their tests: two kinds in turn tell what the operations make of
 * it. */
static void stop_anywhere(bool (*operation)(broken *, lk_fault, int64_t), int64_t at_least)
{
    for (lk_fault kind = LK_FAULT_LOST; kind <= LK_FAULT_REPLY_LOST; kind++) {
        int64_t calls = every == 1 ? 0 : (kind - LK_FAULT_LOST) * 5;
        for (bool fired = true; fired; calls += every) {
            broken b;
            open_broken(&b);
            fired = operation(&b, kind, calls);
            close_broken(&b);
            assert_true(calls < 400);
        }
        assert_true(calls > at_least);
    }
}

static void a_deletion_that_fails_anywhere_is_ended_by_the_next(void **state)
{
    stop_anywhere(deletion, 5);
}

static void a_creation_that_fails_anywhere_leaves_a_name_that_works(void **state)
{
    stop_anywhere(creation, 4);
}

static void a_compaction_that_fails_anywhere_loses_nothing(void **state)
{
    stop_anywhere(compaction, 10);
}

static void a_collection_that_fails_anywhere_is_ended_by_the_next(void **state)
{
    stop_anywhere(collection, 5);
}

static void an_adoption_that_fails_anywhere_is_ended_by_the_next(void **state)
{
    stop_anywhere(adoption, 15);
}

#define T(test) cmocka_unit_test_setup_teardown(test, pods_make_root, pods_remove_root)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        T(a_compaction_says_what_it_did),
        T(a_fold_takes_the_newest_and_leaves_large_ones),
        T(requests_that_have_more_roles_together_than_a_batch_can_number_are_merged),
        T(a_check_lists_shards_and_finds_no_damage_in_what_is_whole),
        T(a_check_names_what_is_damaged_and_goes_on),
        T(a_check_tells_of_a_manifest_that_is_missing_before_others),
        T(log_entries_go_but_those_that_somebody_may_need),
        T(the_shard_of_an_instance_that_is_gone_is_merged_and_its_writer_fenced),
        T(reads_are_refused_above_the_bound_that_was_set_and_work_again_below),
        cmocka_unit_test(a_deletion_that_fails_anywhere_is_ended_by_the_next),
        cmocka_unit_test(a_creation_that_fails_anywhere_leaves_a_name_that_works),
        cmocka_unit_test(a_compaction_that_fails_anywhere_loses_nothing),
        cmocka_unit_test(a_collection_that_fails_anywhere_is_ended_by_the_next),
        cmocka_unit_test(an_adoption_that_fails_anywhere_is_ended_by_the_next),
    };
    every = argc == 2 && strcmp(argv[1], "all") == 0 ? 1 : every;
    return cmocka_run_group_tests_name("rollout upkeep", tests, NULL, NULL);
}
