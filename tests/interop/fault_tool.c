/*
 * fault_tool.c - commits to a table on S3 through a store that fails by plan: every call of every commit is lost
 * once, done without an answer once, and done by half once.
 *
 *   fault_tool s3://BUCKET/PREFIX ENDPOINT KEY SECRET IN   the table is there; IN: an Arrow file of rows to append
 *
 * Each round makes one commit (an append, a delete, a compaction) with one fault and looks at the table through a store
 * without: a commit that succeeded is there, one that failed and may not have been applied is not, one of which nobody
 * knows is there as a whole or not at all; a try without a fault succeeds after it. Prints rounds, faults that were
 * met, commits that failed, and those of which nobody knew; the first thing that does not hold, and exits 1.
 */
#include "arrow/ipc.h"
#include "base/fault.h"
#include "io/faulty.h"
#include "io/s3.h"
#include "lance/alter.h"
#include "lance/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { CALLS_MAX = 200, ROUNDS_A_READING = 25 };

typedef struct trial {
    lk_lance_env  plain, faulty;
    lk_fault_plan plan;
    const char   *input;
    uint64_t      input_rows, rows, version; /* of the table as it must be */
    unsigned      rounds, met, failed, unclear;
} trial;

typedef lk_rc commit(trial *t, lk_dataset *base, lk_dataset **out, lk_err *err);

static void stop(const char *what, const trial *t, const lk_err *err)
{
    fprintf(stderr, "%s after %u rounds: %s %s (%.*s)\n", what, t->rounds, lk_rc_name(err->rc), err->detail,
        (int)err->len, err->context);
    exit(1);
}

/* -- commits ------------------------------------------------------------------------------------------- */
static lk_rc append(trial *t, lk_dataset *base, lk_dataset **out, lk_err *err)
{
    lk_ipc_source         *source = NULL;
    lk_batches            *rows = NULL;
    const lk_write_options options = {.max_rows_per_file = 40};
    lk_rc                  rc = lk_ipc_source_file(t->input, &source, err);
    if (rc == LK_OK) {
        rc = lk_ipc_open(source, NULL, &rows, err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_append(base, lk_direct_committer(), rows, &options, out, err);
    }
    lk_batches_close(rows);
    return rc;
}

/* The first row of the last fragment. */
static lk_rc delete_one(trial *t, lk_dataset *base, lk_dataset **out, lk_err *err)
{
    const lk_manifest *manifest = lk_dataset_manifest(base);
    const lk_fragment *last = &manifest->fragments[manifest->fragment_count - 1];
    uint64_t           row = last->deletion.count;
    uint64_t           address = last->id << 32 | row;
    lk_row_set        *rows = lk_row_set_new();
    (void)t;
    lk_row_set_add(rows, &address, 1);
    lk_rc rc =
        lk_dataset_delete_rows(base, lk_direct_committer(), rows, LK_LITERAL("first"), NULL, NULL, out, err);
    lk_row_set_free(rows);
    return rc;
}

static lk_rc compact(trial *t, lk_dataset *base, lk_dataset **out, lk_err *err)
{
    lk_compact_report report;
    (void)t;
    return lk_dataset_compact(base, lk_direct_committer(), NULL, NULL, &report, out, err);
}

/* -- the table ----------------------------------------------------------------------------------------- */
static uint64_t count_rows(trial *t, lk_dataset *dataset)
{
    lk_scan_options options = {.limit = UINT64_MAX}; /* every byte of every column */
    lk_batches     *rows = NULL;
    uint64_t        count = 0;
    lk_err          err = {0};
    lk_rc           rc = lk_dataset_scan(dataset, &options, &rows, &err);
    while (rc == LK_OK) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, &err);
        if (rc != LK_OK || batch.release == NULL) {
            break;
        }
        count += (uint64_t)batch.length;
        lk_array_release(&batch);
    }
    lk_batches_close(rows);
    if (rc != LK_OK) {
        stop("the table cannot be read", t, &err);
    }
    return count;
}

static void look(trial *t, uint64_t *rows, uint64_t *version)
{
    lk_dataset *latest = NULL;
    lk_err      err = {0};
    if (lk_dataset_open(&t->plain, 0, &latest, &err) != LK_OK) {
        stop("the table cannot be opened", t, &err);
    }
    *rows = lk_dataset_row_count(latest);
    if (t->rounds % ROUNDS_A_READING == 0 && count_rows(t, latest) != *rows) {
        stop("the table has other rows than it says", t, &err);
    }
    *version = lk_dataset_version(latest);
    lk_dataset_unref(latest);
}

static lk_rc once(trial *t, const lk_lance_env *env, commit *run, lk_err *err)
{
    lk_dataset *base = NULL, *made = NULL;
    lk_rc       rc = lk_dataset_open(env, 0, &base, err);
    if (rc == LK_OK) {
        rc = run(t, base, &made, err);
    }
    lk_dataset_unref(made);
    lk_dataset_unref(base);
    return rc;
}

/* Whether the table is as before, or as after the commit; else stops. */
static bool is_after(trial *t, int64_t change, const lk_err *err)
{
    uint64_t rows = 0, version = 0, after = (uint64_t)((int64_t)t->rows + change);
    look(t, &rows, &version);
    bool moved = version > t->version;
    if (rows != (moved && change != 0 ? after : t->rows)) {
        fprintf(stderr, "%" PRIu64 " rows at version %" PRIu64 ", not %" PRIu64 "\n", rows, version, after);
        stop("rows are lost or came twice", t, err);
    }
    t->rows = rows;
    t->version = version;
    return moved;
}

/* A compaction makes several versions, of which a failed one leaves the first; rows never change. */
static bool one_fault(trial *t, commit *run, int64_t change, lk_fault kind, int64_t calls_until)
{
    lk_err err = {0}, again = {0};
    t->rounds++;
    lk_fault_plan_arm(&t->plan, kind, calls_until);
    lk_rc rc = once(t, &t->faulty, run, &err);
    bool  fired = lk_fault_plan_fired(&t->plan);
    lk_fault_plan_arm(&t->plan, kind, -1);
    bool moved = is_after(t, change, &err);
    if (rc == LK_OK && !moved) {
        stop("an acknowledged commit is not there", t, &err);
    }
    if (rc != LK_OK && change != 0 && moved && !err.maybe_applied) {
        stop("a commit that failed is there", t, &err);
    }
    t->met += fired;
    t->failed += rc != LK_OK;
    t->unclear += rc != LK_OK && err.maybe_applied;
    if (rc != LK_OK && !moved) { /* the client's retry */
        if (once(t, &t->faulty, run, &again) != LK_OK || (!is_after(t, change, &again) && change != 0)) {
            stop("a retry failed", t, &again);
        }
    }
    return fired;
}

static void every_call(trial *t, commit *run, int64_t change)
{
    static const lk_fault kinds[] = {LK_FAULT_LOST, LK_FAULT_REPLY_LOST, LK_FAULT_TORN};
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        bool   fired = true;
        lk_err small = {0};
        if (once(t, &t->plain, compact, &small) != LK_OK) {
            stop("compact", t, &small);
        }
        (void)is_after(t, 0, &small);
        for (int64_t call = 0; fired && call < CALLS_MAX; call++) {
            lk_err err = {0};
            if (change == 0) { /* something to compact */
                if (once(t, &t->plain, append, &err) != LK_OK) {
                    stop("append", t, &err);
                }
                (void)is_after(t, (int64_t)t->input_rows, &err);
            }
            fired = one_fault(t, run, change, kinds[kind], call);
        }
        if (fired) {
            stop("a commit that makes calls without end", t, &(lk_err){0});
        }
    }
}

int main(int argc, char **argv)
{
    trial     t = {0};
    lk_err    err = {0};
    lk_store *plain = NULL, *under = NULL;
    if (argc != 6) {
        fprintf(stderr, "usage: fault_tool s3://BUCKET/PREFIX ENDPOINT KEY SECRET IN\n");
        return 2;
    }
    const lk_s3_options options = {.endpoint = argv[2],
        .access_key = argv[3],
        .secret_key = argv[4],
        .timeout_ms = 20000,
        .clock = lk_clock_real(),
        .random = lk_random_os()};
    if (lk_s3_store_open(&plain, lk_bytes_of(argv[1]), &options, &err) != LK_OK ||
        lk_s3_store_open(&under, lk_bytes_of(argv[1]), &options, &err) != LK_OK) {
        stop("store", &t, &err);
    }
    lk_fault_plan_init(&t.plan);
    lk_store *faulty = lk_faulty_store_new(under, &t.plan);
    t.plain = t.faulty = (lk_lance_env){.store = plain, .clock = options.clock, .random = options.random};
    t.faulty.store = faulty;
    t.input = argv[5];
    look(&t, &t.rows, &t.version);
    uint64_t before = t.rows;
    if (once(&t, &t.plain, append, &err) != LK_OK) {
        stop("append", &t, &err);
    }
    look(&t, &t.rows, &t.version);
    t.input_rows = t.rows - before;
    every_call(&t, append, (int64_t)t.input_rows);
    every_call(&t, delete_one, -1);
    every_call(&t, compact, 0);
    printf("{\"rounds\": %u, \"met\": %u, \"failed\": %u, \"unclear\": %u, \"rows\": %" PRIu64 "}\n",
        t.rounds, t.met, t.failed, t.unclear, t.rows);
    lk_store_close(faulty);
    lk_store_close(plain);
    lk_fault_plan_deinit(&t.plan);
    return 0;
}
