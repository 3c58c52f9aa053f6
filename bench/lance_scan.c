/*
 * lance_scan.c - the Lance engine as scan_bench.py measures it: batches in memory, nothing written.
 *
 *   lance_scan create DIR IN   a new dataset with the schema of the Arrow stream IN
 *   lance_scan append DIR IN   the rows of IN, a million a file
 *   lance_scan scan DIR        for each line on standard input one full scan; prints "SECONDS ROWS"
 *
 * Exit 0; or 1 and the error on stderr. Threads: the scan's own pool, one worker a core.
 */
#include "arrow/ipc.h"
#include "io/local.h"
#include "lance/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static lk_rc scan_once(lk_dataset *dataset, uint64_t *rows, lk_err *err)
{
    lk_scan_options options = {.limit = UINT64_MAX};
    lk_batches     *batches = NULL;
    *rows = 0;
    lk_rc rc = lk_dataset_scan(dataset, &options, &batches, err);
    for (bool more = rc == LK_OK; more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        *rows += more ? (uint64_t)batch.length : 0;
        lk_array_release(&batch);
    }
    lk_batches_close(batches);
    return rc;
}

static lk_rc scan(const lk_lance_env *env, lk_err *err)
{
    char        line[64];
    lk_dataset *dataset = NULL;
    lk_rc       rc = lk_dataset_open(env, 0, &dataset, err);
    while (rc == LK_OK && fgets(line, sizeof line, stdin) != NULL) {
        uint64_t rows = 0, start = lk_clock_now_us();
        rc = scan_once(dataset, &rows, err);
        printf("%.6f %" PRIu64 "\n", (double)(lk_clock_now_us() - start) / 1e6, rows);
        fflush(stdout);
    }
    lk_dataset_unref(dataset);
    return rc;
}

static lk_rc write_rows(const lk_lance_env *env, bool create, const char *input, lk_err *err)
{
    lk_ipc_source *source = NULL;
    lk_batches    *rows = NULL;
    lk_dataset    *base = NULL, *made = NULL;
    lk_rc          rc = lk_ipc_source_file(input, &source, err);
    if (rc == LK_OK) {
        rc = lk_ipc_open(source, NULL, &rows, err);
    }
    if (rc == LK_OK && create) {
        rc = lk_dataset_create(env, lk_direct_committer(), &rows->schema, NULL, &made, err);
    } else if (rc == LK_OK) {
        rc = lk_dataset_open(env, 0, &base, err);
    }
    if (rc == LK_OK && !create) {
        rc = lk_dataset_append(base, lk_direct_committer(), rows, NULL, &made, err);
    }
    lk_batches_close(rows);
    lk_dataset_unref(base);
    lk_dataset_unref(made);
    return rc;
}

static lk_rc run(const char *verb, lk_bytes directory, const char *input, lk_err *err)
{
    lk_lance_env env = {.clock = lk_clock_real(), .random = lk_random_os()};
    long         cores = sysconf(_SC_NPROCESSORS_ONLN);
    lk_rc        rc = lk_local_store_open(&env.store, directory, true, err);
    if (rc == LK_OK) {
        rc = lk_pool_open(&env.pool, "scan", cores > 0 ? (size_t)cores : 1, 1024, err);
    }
    if (rc == LK_OK && strcmp(verb, "scan") == 0) {
        rc = scan(&env, err);
    } else if (rc == LK_OK) {
        rc = write_rows(&env, strcmp(verb, "create") == 0, input, err);
    }
    lk_pool_close(env.pool);
    lk_store_close(env.store);
    return rc;
}

int main(int argc, char **argv)
{
    lk_err err = {0};
    if (argc < 3 || (argc < 4 && strcmp(argv[1], "scan") != 0)) {
        fprintf(stderr, "usage: lance_scan create|append DIR IN | scan DIR\n");
        return 2;
    }
    if (run(argv[1], lk_bytes_of(argv[2]), argc > 3 ? argv[3] : NULL, &err) != LK_OK) {
        fprintf(
            stderr, "lance_scan: %s: %s (%.*s)\n", lk_rc_name(err.rc), err.detail, (int)err.len, err.context);
        return 1;
    }
    return 0;
}
