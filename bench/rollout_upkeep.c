/*
 * rollout_upkeep.c - what the upkeep of rollout stores costs, as rollout_upkeep_bench.py measures it.
 *
 *   rollout_upkeep DIR merging mib=1024 adds=400     adds of one row, before and while a merge of so many bytes runs
 *   rollout_upkeep DIR long adds=100000 merge=50     adds with merges by one client; memory at ten moments
 *   rollout_upkeep DIR idle stores=500 rows=0        memory of open stores that nobody uses, with so many rows each
 *   rollout_upkeep DIR space rows=200 merge=0        single-row adds, then a merge of all that is pending
 *
 * Prints one JSON object. Exit 0; or 1 and the error on stderr. Threads: one adder, one merger.
 */
#include "rollout/stores.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAYLOAD_BYTES = 1 << 20, GENERATION_ROWS = 16, MOMENTS = 10 };

typedef struct plan {
    const char       *directory;
    uint64_t          mib, adds, merge, stores, rows;
    lk_rollouts      *pod;
    lk_rollout_store *store;
    char             *payload;
} plan;

static lk_rc add_rows(lk_rollout_store *store, const char *prefix, uint64_t first, uint64_t count,
    lk_bytes payload, lk_err *err)
{
    lk_records *records = NULL;
    lk_rc       rc = lk_records_open(1700000000000000, NULL, &records, err);
    for (uint64_t i = first; rc == LK_OK && i < first + count; i++) {
        char id[48];
        (void)snprintf(id, sizeof id, "%s-%012" PRIu64, prefix, i);
        rc = lk_records_set_text(records, LK_RECORD_COLUMN_id, lk_bytes_of(id), err);
        if (rc == LK_OK) {
            rc = lk_records_set_text(records, LK_RECORD_COLUMN_rollout_id, LK_LITERAL("rollout"), err);
        }
        if (rc == LK_OK && payload.size > 0) {
            rc = lk_records_set_payload(records, (size_t)(i - first), payload, true, err);
        }
        if (rc == LK_OK) {
            rc = lk_records_end(records, err);
        }
    }
    if (rc == LK_OK) {
        rc = lk_rollout_store_add(store, records, false, NULL, err);
    }
    lk_records_close(records);
    return rc;
}

static uint64_t rss_bytes(void)
{
    FILE              *file = fopen("/proc/self/statm", "r");
    unsigned long long size = 0, resident = 0;
    bool               read = file != NULL && fscanf(file, "%llu %llu", &size, &resident) == 2;
    if (file != NULL) {
        (void)fclose(file);
    }
    return read ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static lk_rc open_pod(plan *p, bool durable, uint64_t merge_after, lk_err *err)
{
    const lk_rollouts_options options = {.data_dir = lk_bytes_of(p->directory),
        .store = {.instance_id = LK_LITERAL("rollout-0"), .merge_after = merge_after},
        .durable = durable,
        .maintenance = {.grace_ms = 1000}};
    lk_rc                     rc = lk_rollouts_open(&options, &p->pod, err);
    return rc == LK_OK ? lk_rollouts_create(p->pod, LK_LITERAL("s"), &p->store, err) : rc;
}

/* -- adds beside a merge ------------------------------------------------------------------------------------------- */

typedef struct merger {
    plan                   *p;
    atomic_bool             done;
    uint64_t                took_us;
    lk_rollout_merge_report report;
    lk_err                  err;
    lk_rc                   rc;
} merger;

static void merge_all(void *context)
{
    merger                        *m = context;
    const lk_rollout_merge_options all = {.gentle = true}; /* as the store's own upkeep runs it */
    lk_thread_lower();
    uint64_t start = lk_clock_now_us();
    m->rc = lk_rollout_store_merge(m->p->store, &all, &m->report, &m->err);
    m->took_us = lk_clock_now_us() - start;
    atomic_store(&m->done, true);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static double percentile_ms(uint64_t *took_us, uint64_t count, uint64_t percent)
{
    qsort(took_us, count, sizeof *took_us, by_value);
    return count == 0 ? 0 : (double)took_us[count - 1 - count * (100 - percent) / 100] / 1e3;
}

/* Adds until `until` is set, or so many. */
static lk_rc time_adds(
    plan *p, const char *prefix, atomic_bool *until, uint64_t *took_us, uint64_t *count, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (*count = 0; rc == LK_OK && *count < p->adds && (until == NULL || !atomic_load(until)); ++*count) {
        uint64_t start = lk_clock_now_us();
        rc = add_rows(p->store, prefix, *count, 1, (lk_bytes){0}, err);
        took_us[*count] = lk_clock_now_us() - start;
    }
    return rc;
}

static lk_rc merging(plan *p, lk_err *err)
{
    uint64_t *quiet = calloc(p->adds + 1, sizeof *quiet), *busy = calloc(p->adds + 1, sizeof *busy);
    uint64_t  quiet_count = 0, busy_count = 0;
    merger    m = {.p = p};
    lk_thread thread = {0};
    LK_ASSERT(quiet != NULL && busy != NULL);
    lk_rc rc = open_pod(p, true, 0, err);
    for (uint64_t i = 0; rc == LK_OK && i < p->mib; i += GENERATION_ROWS) {
        rc = add_rows(p->store, "big", i, GENERATION_ROWS, (lk_bytes){p->payload, PAYLOAD_BYTES}, err);
    }
    if (rc == LK_OK) {
        rc = time_adds(p, "quiet", NULL, quiet, &quiet_count, err);
    }
    if (rc == LK_OK) {
        rc = lk_thread_start(&thread, "merger", merge_all, &m, err);
    }
    if (rc == LK_OK) {
        rc = time_adds(p, "busy", &m.done, busy, &busy_count, err);
    }
    lk_thread_join(&thread);
    if (rc == LK_OK && m.rc != LK_OK) {
        rc = m.rc;
        *err = m.err;
    }
    if (rc == LK_OK) {
        printf("{\"quiet_p50_ms\":%.3f,\"quiet_p99_ms\":%.3f,", percentile_ms(quiet, quiet_count, 50),
            percentile_ms(quiet, quiet_count, 99));
        printf("\"busy_p50_ms\":%.3f,\"busy_p99_ms\":%.3f,\"adds_beside\":%" PRIu64
               ",\"merge_ms\":%.1f,\"rss_mib\":%.1f}\n",
            percentile_ms(busy, busy_count, 50), percentile_ms(busy, busy_count, 99), busy_count,
            (double)m.took_us / 1e3, (double)rss_bytes() / 1048576);
    }
    free(quiet);
    free(busy);
    return rc;
}

/* -- many adds ------------------------------------------------------------------------------------------------------- */

static lk_rc many_adds(plan *p, lk_err *err)
{
    double                 mib[MOMENTS] = {0};
    lk_rollout_store_stats stats;
    uint64_t               start = lk_clock_now_us();
    lk_rc                  rc = open_pod(p, false, p->merge, err);
    for (uint64_t i = 0; rc == LK_OK && i < p->adds; i++) {
        rc = add_rows(p->store, "row", i, 1, (lk_bytes){0}, err);
        mib[i * MOMENTS / p->adds] = (double)rss_bytes() / 1048576;
    }
    if (rc == LK_OK) {
        lk_rollout_store_read_stats(p->store, &stats);
        printf("{\"rss_mib\":[");
        for (int i = 0; i < MOMENTS; i++) {
            printf("%s%.1f", i == 0 ? "" : ",", mib[i]);
        }
        printf("],\"merges\":%" PRIu64 ",\"merge_failures\":%" PRIu64 ",\"adds_per_s\":%.0f}\n", stats.merges,
            stats.merge_failures, (double)p->adds * 1e6 / (double)(lk_clock_now_us() - start));
    }
    return rc;
}

/* -- many stores ------------------------------------------------------------------------------------------------------ */

static lk_rc idle(plan *p, lk_err *err)
{
    lk_rc    rc = open_pod(p, false, 0, err);
    uint64_t before = 0;
    for (uint64_t i = 0; rc == LK_OK && i < p->stores + 20; i++) {
        lk_rollout_store *store = NULL;
        char              name[32];
        (void)snprintf(name, sizeof name, "idle-%" PRIu64, i);
        rc = lk_rollouts_create(p->pod, lk_bytes_of(name), &store, err);
        if (rc == LK_OK && p->rows > 0) {
            rc = add_rows(store, "row", 0, p->rows, (lk_bytes){0}, err);
        }
        lk_rollout_store_unref(store);
        if (i == 19) { /* what the process needs once is there by now */
            (void)malloc_trim(0);
            before = rss_bytes();
        }
    }
    if (rc == LK_OK) {
        (void)malloc_trim(0);
        printf("{\"bytes_per_store\":%.0f}\n", ((double)rss_bytes() - (double)before) / (double)p->stores);
    }
    return rc;
}

/* -- bytes on disk ---------------------------------------------------------------------------------------------------- */

static lk_rc space(plan *p, lk_err *err)
{
    const lk_rollout_merge_options all = {0};
    lk_rollout_merge_report        report = {0};
    lk_rc                          rc = open_pod(p, false, p->merge, err);
    for (uint64_t i = 0; rc == LK_OK && i < p->rows; i++) {
        rc = add_rows(p->store, "row", i, 1, (lk_bytes){0}, err);
    }
    printf("{\"pending\":true}\n");
    (void)fflush(stdout);
    if (rc == LK_OK && getchar() != EOF) { /* the bench has measured the generations */
        rc = lk_rollout_store_merge(p->store, &all, &report, err);
    }
    if (rc == LK_OK) {
        lk_clock_sleep_ms(lk_clock_real(), 3000); /* the time of grace, and the collection after it */
        printf("{\"merged\":true}\n");
    }
    return rc;
}

static bool read_word(plan *p, const char *word)
{
    const struct {
        const char *name;
        uint64_t   *number;
    } numbers[] = {{"mib=", &p->mib}, {"adds=", &p->adds}, {"merge=", &p->merge}, {"stores=", &p->stores},
        {"rows=", &p->rows}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        size_t size = strlen(numbers[i].name);
        if (strncmp(word, numbers[i].name, size) == 0) {
            *numbers[i].number = strtoull(word + size, NULL, 10);
            return *numbers[i].number > 0 || numbers[i].number == &p->merge || numbers[i].number == &p->rows;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        lk_rc (*run)(plan *, lk_err *);
    } modes[] = {{"merging", merging}, {"long", many_adds}, {"idle", idle}, {"space", space}};
    plan   p = {.mib = 1024, .adds = 400, .stores = 500, .rows = 200};
    lk_err err = {0};
    lk_rc  rc = LK_E_USAGE;
    bool   good = argc >= 3;
    for (int i = 3; good && i < argc; i++) {
        good = read_word(&p, argv[i]);
    }
    p.payload = malloc(PAYLOAD_BYTES);
    LK_ASSERT(p.payload != NULL);
    lk_seeded_random random;
    lk_seeded_random_init(&random, 1);
    random.base.fill(&random.base, p.payload, PAYLOAD_BYTES);
    for (size_t i = 0; good && i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(argv[2], modes[i].name) == 0) {
            p.directory = argv[1];
            rc = modes[i].run(&p, &err);
        }
    }
    lk_rollout_store_unref(p.store);
    lk_rollouts_close(p.pod);
    free(p.payload);
    if (rc == LK_E_USAGE) {
        fprintf(stderr, "usage: rollout_upkeep DIR MODE [NAME=VALUE...], see rollout_upkeep.c\n");
        return 2;
    }
    if (rc != LK_OK) {
        fprintf(stderr, "%s: %s (%.*s)\n", lk_rc_name(err.rc), err.detail, (int)err.len, err.context);
    }
    return rc == LK_OK ? 0 : 1;
}
