/*
 * crash_tool.c - the rollout store, killed at each of its steps: processes that add, merge, collect, compact and fold over one real
 * directory kill themselves before or after a storage call of a step (crash_store.h); their successors go on, and in the end
 * everything that was acknowledged is there, once, whole, and nothing that was not sent; and nothing is left lying about.
 *
 *   crash_tool FIRST COUNT   runs seeds; says which one failed, and how; exit 1
 *
 * What was sent and acknowledged is kept in memory that the processes share. Threads: none.
 */
#include "crash_store.h"

#include "base/file.h"
#include "base/log.h"
#include "io/local.h"
#include "rollout/cell.h"
#include "rollout/collect.h"
#include "rollout/query.h"
#include "rollout/records_json.h"
#include "rollout/upkeep.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ADDS_MAX = 400, LIVES = 3, ACTIONS = 10 };

typedef struct ledger { /* shared */
    int     count;
    uint8_t rows[ADDS_MAX], acknowledged[ADDS_MAX], there[ADDS_MAX];
    char    failure[600];
} ledger;

typedef struct life {
    ledger           *book;
    lk_seeded_random  random;
    crash_plan        plan;
    lk_lance_env      env;
    lk_store         *store, *late, *merge_late;
    lk_rollout_store *rollout;
    const char       *root;
    bool              crashes;
} life;

/* The death of a process loses nothing that it wrote, only that of a machine does (test_power_loss.py): nothing is synced. */
int fsync(int fd)
{
    (void)fd;
    return 0;
}

int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

static void fail(ledger *book, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(ledger *book, const char *format, ...)
{
    va_list arguments;
    if (book->failure[0] == '\0') {
        va_start(arguments, format);
        (void)vsnprintf(book->failure, sizeof book->failure, format, arguments);
        va_end(arguments);
    }
}

static uint64_t below(life *l, uint64_t bound)
{
    return lk_random_below(&l->random.base, bound);
}

/* -- a process -------------------------------------------------------------------------------------------------------- */

static bool open_life(life *l)
{
    lk_err             err = {0};
    lk_store          *plain = NULL, *late = NULL, *merge_late = NULL;
    lk_rollout_options options = {.instance_id = below(l, 4) == 0 ? LK_LITERAL("b") : LK_LITERAL("a"),
        .merge_after = below(l, 4),
        .log = below(l, 2) == 0 || l->plan.step == CRASH_log ? LK_ROLLOUT_LOG_ALWAYS : LK_ROLLOUT_LOG_NEVER};
    bool               ready = lk_local_store_open(&plain, lk_bytes_of(l->root), false, &err) == LK_OK &&
                 lk_local_store_open_late(&late, lk_bytes_of(l->root), NULL, &err) == LK_OK &&
                 lk_local_store_open_late(&merge_late, lk_bytes_of(l->root), NULL, &err) == LK_OK;
    l->store = crash_store_new(plain, &l->plan);
    l->late = crash_store_new(late, &l->plan);
    l->merge_late = crash_store_new(merge_late, &l->plan);
    options.merge_late = l->merge_late;
    l->env = (lk_lance_env){.store = l->store, .clock = lk_clock_real(), .random = lk_random_os()};
    l->plan.phase = PHASE_CREATE;
    lk_rc rc = lk_rollout_store_open(&l->env, l->late, &options, &l->rollout, &err);
    if (ready && rc == LK_E_NOT_FOUND) {
        err = (lk_err){0};
        rc = lk_rollout_store_create(&l->env, l->late, &options, &l->rollout, &err);
    }
    l->plan.phase = PHASE_NONE;
    if (rc != LK_OK) {
        fail(l->book, "the store does not open: %s", err.context);
    }
    return rc == LK_OK;
}

static void close_life(life *l)
{
    lk_rollout_store_unref(l->rollout);
    lk_store_close(l->store);
    lk_store_close(l->late);
    lk_store_close(l->merge_late);
}

/* Sends the rows of an add, for the first time or again. */
static void send(life *l, int number)
{
    ledger     *book = l->book;
    lk_err      err = {0};
    lk_buf      lines = {0};
    lk_records *records = NULL;
    for (int row = 0; row < book->rows[number]; row++) {
        lk_buf_format(
            &lines, "{\"id\":\"%d-%d\",\"rollout_id\":\"r\",\"content\":\"%d\"}\n", number, row, number);
    }
    l->plan.phase = PHASE_ADD;
    lk_rc rc = lk_records_open(lk_clock_wall_ms(l->env.clock) * 1000, NULL, &records, &err);
    if (rc == LK_OK) {
        rc = lk_records_read_ndjson(records, lk_buf_view(&lines), &err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_store_add(l->rollout, records, false, NULL, &err);
    }
    l->plan.phase = PHASE_NONE;
    if (rc == LK_OK) {
        book->acknowledged[number] = 1;
    } else {
        fail(book, "an add fails: %s", err.context);
    }
    lk_records_close(records);
    lk_buf_deinit(&lines);
}

static void add(life *l)
{
    ledger *book = l->book;
    if (book->count == ADDS_MAX) {
        return;
    }
    int number = book->count;
    book->rows[number] = (uint8_t)(1 + below(l, 3));
    book->count++; /* from here on it may be there */
    send(l, number);
}

/* What a client does who heard nothing, or too late: the same rows again are a success and no more rows. */
static void add_again(life *l)
{
    ledger                *book = l->book;
    lk_rollout_store_stats before, after;
    int                    number = book->count - 1;
    while (number >= 0 && book->acknowledged[number] != 0) {
        number--;
    }
    if (number < 0 && book->count > 0) {
        number = (int)below(l, (uint64_t)book->count);
    }
    if (number < 0) {
        return;
    }
    lk_rollout_store_read_stats(l->rollout, &before);
    send(l, number);
    lk_rollout_store_read_stats(l->rollout, &after);
    if (book->there[number] != 0 && after.writer.rows != before.writer.rows) {
        fail(book, "add %d was there and is written again", number);
    }
}

static void merge(life *l)
{
    lk_err                         err = {0};
    const lk_rollout_merge_options options = {.generations_max = below(l, 3)};
    lk_rollout_merge_report        report;
    l->plan.phase = PHASE_MERGE;
    if (lk_rollout_store_merge(l->rollout, &options, &report, &err) != LK_OK) {
        fail(l->book, "a merge fails: %s", err.context);
    }
    l->plan.phase = PHASE_NONE;
}

static void collect(life *l)
{
    lk_err                    err = {0};
    lk_rollout_collect_report report = {0};
    l->plan.phase = PHASE_COLLECT;
    if (lk_rollout_collect(&l->env, lk_rollout_store_shard(l->rollout), 0, false, &report, &err) != LK_OK) {
        fail(l->book, "a collection fails: %s", err.context);
    }
    l->plan.phase = PHASE_NONE;
}

static void compact(life *l)
{
    lk_err                    err = {0};
    lk_rollout_compact_report report;
    l->plan.phase = PHASE_COMPACT;
    if (lk_rollout_store_compact(l->rollout, 0, &report, &err) != LK_OK) {
        fail(l->book, "a compaction fails: %s", err.context);
    }
    l->plan.phase = PHASE_NONE;
}

/* Merges one add after another until there are fragments enough, and folds them. */
static void fold(life *l)
{
    const lk_rollout_merge_options all = {0};
    lk_err                         err = {0};
    lk_rollout_compact_stats       stats;
    lk_rollout_merge_report        merged;
    bool                           folded = false;
    lk_rc                          rc = lk_rollout_store_compact_stats(l->rollout, &stats, &err);
    for (uint64_t i = stats.total_fragments; rc == LK_OK && i < LK_ROLLOUT_FOLD_FRAGMENTS; i++) {
        add(l);
        rc = lk_rollout_store_merge(l->rollout, &all, &merged, &err);
    }
    l->plan.phase = PHASE_FOLD;
    if (rc != LK_OK || lk_rollout_store_fold(l->rollout, &folded, &err) != LK_OK) {
        fail(l->book, "a fold fails: %s", err.context);
    } else if (!folded) {
        fail(l->book, "there is nothing to fold");
    }
    l->plan.phase = PHASE_NONE;
}

/* -- what is there ---------------------------------------------------------------------------------------------------- */

static void take_row(ledger *book, uint8_t seen[ADDS_MAX][3], lk_bytes id, lk_bytes content)
{
    char text[64] = {0};
    int  number = -1, row = -1, contents = -1;
    (void)snprintf(text, sizeof text, "%.*s %.*s", LK_FMT(id), LK_FMT(content));
    if (sscanf(text, "%d-%d %d", &number, &row, &contents) != 3 || number < 0 || number >= book->count ||
        row < 0 || row >= book->rows[number] || contents != number) {
        fail(book, "a row that nobody sent: %.*s", LK_FMT(id));
    } else if (seen[number][row]++ > 0) {
        fail(book, "row %.*s is there twice", LK_FMT(id));
    }
}

static void judge(ledger *book, uint8_t seen[ADDS_MAX][3])
{
    for (int number = 0; number < book->count; number++) {
        book->there[number] = seen[number][0];
        for (int row = 1; row < book->rows[number]; row++) {
            if (seen[number][row] != seen[number][0]) {
                fail(book, "half of add %d is there", number);
            }
        }
        if (book->acknowledged[number] != 0 && seen[number][0] == 0) {
            fail(book, "add %d was acknowledged and is gone", number);
        }
    }
}

static void check_rows(life *l)
{
    uint8_t                seen[ADDS_MAX][3] = {{0}};
    lk_err                 err = {0};
    lk_rollout_snapshot   *snapshot = NULL;
    lk_batches            *rows = NULL;
    const lk_rollout_query query = {
        .columns = UINT64_C(1) << LK_RECORD_COLUMN_id | UINT64_C(1) << LK_RECORD_COLUMN_content,
        .order = LK_ROLLOUT_BY_ID,
        .limit = UINT64_MAX};
    lk_rc rc = lk_rollout_store_snapshot(l->rollout, 0, &snapshot, &err);
    rc = rc == LK_OK ? lk_rollout_query_open(snapshot, &query, &rows, &err) : rc;
    for (bool more = rc == LK_OK; more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, &err);
        more = rc == LK_OK && batch.release != NULL;
        for (int64_t i = 0; more && i < batch.length; i++) {
            take_row(l->book, seen, lk_cell_text(batch.children[0], i), lk_cell_large(batch.children[1], i));
        }
        lk_array_release(&batch);
    }
    if (rc != LK_OK) {
        fail(l->book, "it cannot be read: %s", err.context);
    }
    judge(l->book, seen);
    lk_batches_close(rows);
    lk_rollout_snapshot_unref(snapshot);
}

static void report_damage(void *context, lk_bytes object, const char *reason)
{
    fail(context, "damaged: %.*s: %s", LK_FMT(object), reason);
}

/* Everything is merged, compacted and collected by its owners; then only the table is left. */
static void check_end(life *l)
{
    static const char *const      instances[] = {"a", "b"};
    lk_err                        err = {0};
    lk_rollout_fsck_report        report;
    const lk_rollout_fsck_options options = {.damage = report_damage, .context = l->book};
    check_rows(l);
    close_life(l);
    for (size_t i = 0; i < 2; i++) {
        const lk_rollout_options       owner = {.instance_id = lk_bytes_of(instances[i])};
        const lk_rollout_merge_options all = {0};
        lk_rollout_merge_report        merged;
        lk_rollout_collect_report      collected = {0};
        l->late = l->merge_late = NULL;
        if (lk_local_store_open(&l->store, lk_bytes_of(l->root), false, &err) != LK_OK) {
            fail(l->book, "at last: %s", err.context);
            return;
        }
        l->env.store = l->store;
        if (lk_rollout_store_open(&l->env, NULL, &owner, &l->rollout, &err) != LK_OK) {
            fail(l->book, "at last: %s", err.context);
            return;
        }
        add(l); /* numbers that dead flushes wanted are given */
        if (lk_rollout_store_merge(l->rollout, &all, &merged, &err) != LK_OK ||
            lk_rollout_collect(&l->env, lk_rollout_store_shard(l->rollout), 0, false, &collected, &err) !=
                LK_OK) {
            fail(l->book, "at last: %s", err.context);
        }
        check_rows(l);
        if (i == 0) {
            close_life(l);
        }
    }
    if (lk_rollout_store_fsck(l->rollout, &options, &report, &err) != LK_OK) {
        fail(l->book, "the check fails: %s", err.context);
    }
    if (report.generations != 0 || report.orphans != 0) {
        fail(l->book, "%d generations and %d orphans are left", (int)report.generations, (int)report.orphans);
    }
    close_life(l);
}

/* -- runs ------------------------------------------------------------------------------------------------------------- */

static void live(life *l)
{
    if (!open_life(l)) {
        return;
    }
    if (!l->crashes) {
        check_end(l);
        return;
    }
    check_rows(l);
    add_again(l);
    check_rows(l);
    if (l->plan.step == CRASH_fold) {
        fold(l);
    }
    for (int i = 0; i < ACTIONS; i++) {
        uint64_t what = below(l, 11);
        if (what < 5) {
            add(l);
        } else if (what < 7) {
            merge(l);
        } else if (what < 8) {
            compact(l);
        } else if (what < 9) {
            collect(l);
        } else if (what < 10) {
            add_again(l);
        } else {
            check_rows(l);
        }
    }
    close_life(l);
}

static void plan_life(life *l, uint64_t seed, int number)
{
    static const uint64_t calls[CRASH_STEP_COUNT] = {[CRASH_create] = 6,
        [CRASH_claim] = 2,
        [CRASH_log] = 3,
        [CRASH_files] = 60,
        [CRASH_sync] = 6,
        [CRASH_manifest] = 6,
        [CRASH_hint] = 4,
        [CRASH_m1] = 6,
        [CRASH_m2] = 10,
        [CRASH_m3] = 3,
        [CRASH_m4] = 3,
        [CRASH_m5] = 20,
        [CRASH_empty] = 8,
        [CRASH_compact] = 20,
        [CRASH_fold] = 12};
    lk_seeded_random_init(&l->random, seed * 16 + (uint64_t)number);
    l->plan.step = (crash_step)((seed * LIVES + (uint64_t)number) % CRASH_STEP_COUNT);
    l->plan.calls_until = (int64_t)below(l, calls[l->plan.step]);
    l->plan.after = below(l, 2) == 0;
    l->crashes = number < LIVES;
    l->plan.calls_until = l->crashes ? l->plan.calls_until : -1;
}

/* Counts, by step, of processes that were killed there. */
static bool run(uint64_t seed, ledger *book, uint64_t *killed)
{
    char   root[64];
    lk_err err = {0};
    memset(book, 0, sizeof *book);
    (void)snprintf(root, sizeof root, "%s/lake-crash-XXXXXX", P_tmpdir);
    if (mkdtemp(root) == NULL) {
        return false;
    }
    for (int number = 0; number <= LIVES && book->failure[0] == '\0'; number++) {
        life l = {.book = book, .root = root};
        int  status = 0;
        plan_life(&l, seed, number);
        pid_t child = fork();
        if (child == 0) {
            live(&l);
            _exit(0);
        }
        (void)waitpid(child, &status, 0);
        bool dead = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        killed[l.plan.step] += dead;
        if (child < 0 || (!dead && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))) {
            fail(book, "a process ends with status %d", status);
        }
        if (book->failure[0] != '\0') {
            printf("seed %llu, process %d (%s %s call %lld): %s\n", (unsigned long long)seed, number,
                l.plan.after ? "after" : "before", crash_step_name(l.plan.step),
                (long long)l.plan.calls_until, book->failure);
        }
    }
    bool held = book->failure[0] == '\0';
    return lk_directory_remove(root, &err) == LK_OK && held;
}

int main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1,
             count = argc > 2 ? strtoull(argv[2], NULL, 10) : 60;
    uint64_t killed[CRASH_STEP_COUNT] = {0}, failed = 0;
    ledger  *book = mmap(NULL, sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    lk_log_init(LK_LOG_OFF, false);
    if (book == MAP_FAILED) {
        return 1;
    }
    for (uint64_t seed = first; seed < first + count; seed++) {
        failed += !run(seed, book, killed);
    }
    printf("%llu runs, %llu failed; killed at", (unsigned long long)count, (unsigned long long)failed);
    for (crash_step step = 0; step < CRASH_STEP_COUNT; step++) {
        printf(" %s %llu", crash_step_name(step), (unsigned long long)killed[step]);
    }
    printf("\n");
    return failed > 0;
}
