/*
 * grow_tool.c - a table that grows by many small commits, with its upkeep; how long each took.
 *
 *   grow_tool DIR IN TIMES EVERY RETAIN   appends the Arrow file IN, TIMES times, one synced version each; after every
 *                                         EVERY appends compacts and leaves RETAIN versions (EVERY 0: never)
 *
 * One line of JSON for every EVERY (or TIMES) appends: the table's version, fragments, data files; medians of the time and
 * of the processor time of an append, and the time to open the table and read a row, in microseconds.
 */
#include "arrow/ipc.h"
#include "io/local.h"
#include "lance/alter.h"
#include "lance/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct growth {
    lk_lance_env env;
    const char  *input;
    uint64_t     every, retain;
    lk_dataset  *tip;
    uint64_t    *wall_ns, *cpu_ns; /* of the appends since the last line */
    size_t       count;
} growth;

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static uint64_t median_us(uint64_t *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 2] / 1000;
}

static void move_on(growth *g, lk_dataset *next)
{
    lk_dataset_unref(g->tip);
    g->tip = next;
}

static lk_rc append(growth *g, lk_err *err)
{
    lk_ipc_source *source = NULL;
    lk_batches    *rows = NULL;
    lk_dataset    *next = NULL;
    lk_rc          rc = lk_ipc_source_file(g->input, &source, err);
    if (rc == LK_OK) {
        rc = lk_ipc_open(source, NULL, &rows, err);
    }
    uint64_t wall = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (rc == LK_OK) {
        rc = lk_dataset_append(g->tip, lk_direct_committer(), rows, NULL, &next, err);
    }
    g->wall_ns[g->count] = now_ns(CLOCK_MONOTONIC) - wall;
    g->cpu_ns[g->count++] = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    lk_batches_close(rows);
    if (rc == LK_OK) {
        move_on(g, next);
    }
    return rc;
}

static lk_rc keep_up(growth *g, lk_err *err)
{
    lk_compact_report        compacted;
    lk_cleanup_report        cleaned;
    const lk_cleanup_options policy = {.retain = g->retain};
    lk_dataset              *next = NULL;
    lk_rc rc = lk_dataset_compact(g->tip, lk_direct_committer(), NULL, NULL, &compacted, &next, err);
    if (rc == LK_OK) {
        move_on(g, next);
        rc = lk_dataset_cleanup(&g->env, &policy, &cleaned, err);
    }
    return rc;
}

/* A new reader's first row. */
static lk_rc open_and_read(growth *g, uint64_t *ns, lk_err *err)
{
    uint64_t          start = now_ns(CLOCK_MONOTONIC);
    lk_scan_options   options = {.limit = 1};
    lk_dataset       *dataset = NULL;
    lk_batches       *rows = NULL;
    struct ArrowArray batch = {0};
    lk_rc             rc = lk_dataset_open(&g->env, 0, &dataset, err);
    if (rc == LK_OK) {
        rc = lk_dataset_scan(dataset, &options, &rows, err);
    }
    if (rc == LK_OK) {
        rc = lk_batches_next(rows, &batch, err);
    }
    lk_array_release(&batch);
    lk_batches_close(rows);
    lk_dataset_unref(dataset);
    *ns = now_ns(CLOCK_MONOTONIC) - start;
    return rc;
}

static lk_rc tell(growth *g, lk_err *err)
{
    uint64_t        ns = 0;
    lk_arena        arena = {0};
    lk_store_entry *files = NULL;
    size_t          file_count = 0;
    lk_rc           rc = open_and_read(g, &ns, err);
    if (rc == LK_OK) {
        rc = lk_store_list(g->env.store, LK_LITERAL("data"), &arena, &files, &file_count, err);
    }
    if (rc == LK_OK) {
        printf("{\"version\": %" PRIu64 ", \"fragments\": %zu, \"files\": %zu, \"append_us\": %" PRIu64
               ", \"cpu_us\": %" PRIu64 ", \"open_us\": %" PRIu64 "}\n",
            lk_dataset_version(g->tip), lk_dataset_manifest(g->tip)->fragment_count, file_count,
            median_us(g->wall_ns, g->count), median_us(g->cpu_ns, g->count), ns / 1000);
    }
    g->count = 0;
    lk_arena_close(&arena);
    return rc;
}

static lk_rc grow(growth *g, uint64_t times, lk_err *err)
{
    lk_rc    rc = lk_dataset_open(&g->env, 0, &g->tip, err);
    uint64_t line = g->every == 0 ? times : g->every;
    for (uint64_t i = 1; i <= times && rc == LK_OK; i++) {
        rc = append(g, err);
        if (rc == LK_OK && i % line == 0) {
            rc = tell(g, err); /* before the upkeep: the worst there is */
            rc = rc == LK_OK && g->every > 0 ? keep_up(g, err) : rc;
        }
    }
    return rc;
}

int main(int argc, char **argv)
{
    lk_err    err = {0};
    lk_store *store = NULL;
    if (argc != 6) {
        fprintf(stderr, "usage: grow_tool DIR IN TIMES EVERY RETAIN\n");
        return 2;
    }
    uint64_t times = strtoull(argv[3], NULL, 10);
    lk_rc    rc = lk_local_store_open(&store, lk_bytes_of(argv[1]), true, &err);
    growth   g = {
          .env = {.store = store, .clock = lk_clock_real(), .random = lk_random_os()},
          .input = argv[2],
          .every = strtoull(argv[4], NULL, 10),
          .retain = strtoull(argv[5], NULL, 10),
          .wall_ns = calloc(times + 1, sizeof(uint64_t)),
          .cpu_ns = calloc(times + 1, sizeof(uint64_t)),
    };
    LK_ASSERT(g.wall_ns != NULL && g.cpu_ns != NULL);
    if (rc == LK_OK) {
        rc = grow(&g, times, &err);
    }
    lk_dataset_unref(g.tip);
    lk_store_close(store);
    free(g.wall_ns);
    free(g.cpu_ns);
    if (rc != LK_OK) {
        fprintf(stderr, "%s: %s (%.*s)\n", lk_rc_name(err.rc), err.detail, (int)err.len, err.context);
    }
    return rc == LK_OK ? 0 : 1;
}
