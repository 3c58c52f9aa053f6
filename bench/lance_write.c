/*
 * lance_write.c - the Lance engine as write_bench.py measures it: rows of an Arrow stream become a new dataset.
 *
 *   lance_write IN   for each line "DIR sync|no-sync" on standard input one dataset made in DIR; prints "SECONDS"
 *
 * no-sync leaves out every fsync, as pylance does. Exit 0; or 1 and the error on stderr. Threads: one worker a core.
 */
#include "arrow/ipc.h"
#include "io/local.h"
#include "lance/dataset.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static lk_rc write_rows(const lk_lance_env *env, const char *input, lk_err *err)
{
    lk_ipc_source *source = NULL;
    lk_batches    *rows = NULL;
    lk_dataset    *empty = NULL, *made = NULL;
    lk_rc          rc = lk_ipc_source_file(input, &source, err);
    if (rc == LK_OK) {
        rc = lk_ipc_open(source, NULL, &rows, err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_create(env, lk_direct_committer(), &rows->schema, NULL, &empty, err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_append(empty, lk_direct_committer(), rows, NULL, &made, err);
    }
    lk_batches_close(rows);
    lk_dataset_unref(empty);
    lk_dataset_unref(made);
    return rc;
}

static lk_rc write_one(lk_lance_env *env, const char *input, char *line, lk_err *err)
{
    char    *space = strrchr(line, ' ');
    uint64_t start = lk_clock_now_us();
    if (space == NULL) {
        return lk_fail(err, LK_E_INVALID_REQUEST, "%s", line);
    }
    *space = '\0';
    lk_rc rc = lk_local_store_open(&env->store, lk_bytes_of(line), strcmp(space + 1, "no-sync") != 0, err);
    if (rc == LK_OK) {
        rc = write_rows(env, input, err);
    }
    lk_store_close(env->store);
    env->store = NULL;
    printf("%.6f\n", (double)(lk_clock_now_us() - start) / 1e6);
    fflush(stdout);
    return rc;
}

int main(int argc, char **argv)
{
    char         line[4096];
    lk_err       err = {0};
    lk_lance_env env = {.clock = lk_clock_real(), .random = lk_random_os()};
    long         cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (argc != 2) {
        fprintf(stderr, "usage: lance_write IN\n");
        return 2;
    }
    lk_rc rc = lk_pool_open(&env.pool, "write", cores > 0 ? (size_t)cores : 1, 64, &err);
    while (rc == LK_OK && fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        rc = write_one(&env, argv[1], line, &err);
    }
    lk_pool_close(env.pool);
    if (rc != LK_OK) {
        fprintf(stderr, "%s: %s (%.*s)\n", lk_rc_name(err.rc), err.detail, (int)err.len, err.context);
    }
    return rc == LK_OK ? 0 : 1;
}
