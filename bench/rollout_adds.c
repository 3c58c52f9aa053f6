/*
 * rollout_adds.c - the rollout store's add path without a server, as rollout_add_bench.py measures it.
 *
 *   rollout_adds DIR adds=200 rows=1 tokens=0 threads=1 merge=0 fsync=always|never log=auto|always deferred=0 before=0
 *                varied=0
 *
 * Makes a store in DIR (or opens the one that is there) and adds `adds` requests of `rows` records with `tokens` output
 * tokens and logprobs each, from `threads` threads; every request is parsed from JSON first, as a server does. `before`
 * adds come first and are not measured. Prints one JSON object: latencies of an add in milliseconds, rows per second of
 * the whole, what the store counted. Exit 0; or 1 and the error on stderr. Threads: so many adders, and a pool for syncing.
 */
#include "io/local.h"
#include "rollout/records_json.h"
#include "rollout/store.h"
#include "rollout_body.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS_MAX = 256, ROWS_MAX = 65536 };

typedef struct plan {
    const char       *directory;
    uint64_t          adds, rows, tokens, threads, merge, deferred, before, varied;
    const char       *fsync, *log;
    lk_rollout_store *store;
    atomic_ullong     next;
    uint64_t         *took_us; /* per add */
    lk_body_maker     maker;
} plan;

typedef struct adder {
    plan     *p;
    lk_thread thread;
    lk_err    err;
    lk_rc     rc;
} adder;

static lk_rc add_once(const plan *p, lk_bytes body, lk_err *err)
{
    lk_records *records = NULL;
    lk_rc       rc = lk_records_open(lk_clock_now_us(), NULL, &records, err);
    if (rc == LK_OK) {
        rc = lk_records_read_json(records, body, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_store_add(p->store, records, false, NULL, err);
    }
    lk_records_close(records);
    return rc;
}

static void run(void *context)
{
    adder *a = context;
    plan  *p = a->p;
    lk_buf body = {0};
    for (uint64_t i = atomic_fetch_add(&p->next, 1); a->rc == LK_OK && i < p->before + p->adds;
         i = atomic_fetch_add(&p->next, 1)) {
        body.size = 0;
        lk_body_json(&p->maker, i, &body);
        uint64_t start = lk_clock_now_us();
        a->rc = add_once(p, lk_buf_view(&body), &a->err);
        p->took_us[i] = lk_clock_now_us() - start;
        if (i + 1 == p->before) { /* one thread only: the others have not begun */
            break;
        }
    }
    lk_buf_deinit(&body);
}

static lk_rc run_all(plan *p, uint64_t threads, lk_err *err)
{
    adder adders[THREADS_MAX] = {0};
    lk_rc rc = LK_OK;
    for (uint64_t i = 0; i < threads && rc == LK_OK; i++) {
        adders[i].p = p;
        rc = lk_thread_start(&adders[i].thread, "adder", run, &adders[i], err);
    }
    for (uint64_t i = 0; i < threads; i++) {
        lk_thread_join(&adders[i].thread);
        if (rc == LK_OK && adders[i].rc != LK_OK) {
            rc = adders[i].rc;
            *err = adders[i].err;
        }
    }
    return rc;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static void print(const plan *p, uint64_t whole_us)
{
    lk_rollout_store_stats stats;
    uint64_t              *took = p->took_us + p->before;
    lk_rollout_store_read_stats(p->store, &stats);
    qsort(took, p->adds, sizeof *took, by_value);
    printf("{\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f,\"rows_per_s\":%.0f,\"flushes\":%" PRIu64
           ",\"pending\":%zu,\"merges\":%" PRIu64 ",\"merge_failures\":%" PRIu64 "}\n",
        (double)took[p->adds / 2] / 1e3, (double)took[p->adds - 1 - p->adds / 100] / 1e3,
        (double)took[p->adds - 1] / 1e3, (double)(p->adds * p->rows) * 1e6 / (double)whole_us,
        stats.writer.flushes, stats.writer.pending_generations, stats.merges, stats.merge_failures);
}

static lk_rc measure(plan *p, lk_err *err)
{
    lk_rc rc = p->before > 0 ? run_all(p, 1, err) : LK_OK;
    atomic_store(&p->next, p->before);
    uint64_t start = lk_clock_now_us();
    if (rc == LK_OK) {
        rc = run_all(p, p->threads, err);
    }
    if (rc == LK_OK) {
        print(p, lk_clock_now_us() - start);
    }
    return rc;
}

static lk_rc open_and_measure(plan *p, lk_err *err)
{
    bool               durable = strcmp(p->fsync, "never") != 0;
    lk_lance_env       env = {.clock = lk_clock_real(), .random = lk_random_os()};
    lk_store          *late = NULL, *merge_late = NULL;
    lk_pool           *pool = NULL;
    lk_rollout_options options = {.instance_id = LK_LITERAL("rollout-0"),
        .merge_after = p->merge,
        .log = strcmp(p->log, "always") == 0 ? LK_ROLLOUT_LOG_ALWAYS : LK_ROLLOUT_LOG_AUTO,
        .deferred = p->deferred > 0,
        .flush_interval_ms = p->deferred};
    lk_rc              rc = lk_local_store_open(&env.store, lk_bytes_of(p->directory), durable, err);
    if (rc == LK_OK && durable) {
        rc = lk_pool_open(&pool, "sync", 16, 256, err);
    }
    if (rc == LK_OK && durable) {
        rc = lk_local_store_open_late(&late, lk_bytes_of(p->directory), pool, err);
    }
    if (rc == LK_OK && durable) {
        rc = lk_local_store_open_late(&merge_late, lk_bytes_of(p->directory), pool, err);
    }
    options.merge_late = merge_late;
    if (rc == LK_OK) {
        lk_err exists = {0};
        rc = lk_rollout_store_create(&env, late, &options, &p->store, &exists);
        if (rc == LK_E_TABLE_EXISTS) {
            rc = lk_rollout_store_open(&env, late, &options, &p->store, err);
        }
    }
    if (rc == LK_OK) {
        rc = measure(p, err);
    }
    lk_rollout_store_unref(p->store);
    lk_store_close(merge_late);
    lk_store_close(late);
    lk_store_close(env.store);
    lk_pool_close(pool);
    return rc;
}

static bool read_word(plan *p, const char *word)
{
    const struct {
        const char *name;
        uint64_t   *number;
    } numbers[] = {{"adds=", &p->adds}, {"rows=", &p->rows}, {"tokens=", &p->tokens},
        {"threads=", &p->threads}, {"merge=", &p->merge}, {"deferred=", &p->deferred},
        {"before=", &p->before}, {"varied=", &p->varied}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        size_t size = strlen(numbers[i].name);
        if (strncmp(word, numbers[i].name, size) == 0) {
            *numbers[i].number = strtoull(word + size, NULL, 10);
            return true;
        }
    }
    if (strncmp(word, "fsync=", 6) == 0) {
        p->fsync = word + 6;
    } else if (strncmp(word, "log=", 4) == 0) {
        p->log = word + 4;
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    plan   p = {.adds = 200, .rows = 1, .threads = 1, .fsync = "always", .log = "auto"};
    lk_err err = {0};
    bool   good = argc >= 2;
    p.directory = good ? argv[1] : NULL;
    for (int i = 2; good && i < argc; i++) {
        good = read_word(&p, argv[i]);
    }
    if (!good || p.adds == 0 || p.threads == 0 || p.threads > THREADS_MAX || p.rows == 0 ||
        p.rows > ROWS_MAX) {
        fprintf(stderr, "usage: rollout_adds DIR [NAME=VALUE...], see rollout_adds.c\n");
        return 2;
    }
    p.took_us = calloc(p.before + p.adds + 1, sizeof *p.took_us);
    LK_ASSERT(p.took_us != NULL);
    p.maker = lk_body_maker_of((uint64_t)getpid(), p.rows, p.tokens);
    p.maker.varied = p.varied > 0 && p.tokens > 0;
    lk_rc rc = open_and_measure(&p, &err);
    lk_body_maker_deinit(&p.maker);
    free(p.took_us);
    if (rc != LK_OK) {
        fprintf(stderr, "%s: %s (%.*s)\n", lk_rc_name(err.rc), err.detail, (int)err.len, err.context);
    }
    return rc == LK_OK ? 0 : 1;
}
