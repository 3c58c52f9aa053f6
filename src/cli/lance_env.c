/* lance_env.c - see lance_env.h. */
#include "cli/lance_env.h"

#include "cli/cli.h"
#include "io/local.h"
#include "lance/buffer_pool.h"

#include <string.h>
#include <unistd.h>

enum { SCAN_BYTES_MAX = 512 * 1024 * 1024, QUEUE_MAX = 1024 };

void lk_cli_lance_close(lk_cli_lance *o)
{
    lk_dataset_unref(o->dataset);
    lk_buffer_pool_close(o->env.buffers);
    lk_pool_close(o->env.pool);
    lk_store_close(o->env.store);
}

static lk_rc check_uri(const char *uri, lk_bytes *path, lk_err *err)
{
    static const char file[] = "file://";
    if (strncmp(uri, file, sizeof file - 1) == 0) {
        uri += sizeof file - 1;
    }
    if (strstr(uri, "://") != NULL) {
        return lk_cli_usage(err, "%.100s is not on a local path; object storage is not supported yet", uri);
    }
    *path = lk_bytes_of(uri);
    return LK_OK;
}

/* A shallow clone's rows lie in another local table. */
static lk_rc open_base(void *context, lk_bytes path, lk_store **out, lk_err *err)
{
    lk_arena arena = {0};
    (void)context;
    lk_rc rc = check_uri(lk_arena_text(&arena, path), &path, err);
    if (rc == LK_OK) {
        rc = lk_local_store_open(out, path, true, err);
    }
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_cli_lance_open_store(lk_cli_lance *out, const char *uri, lk_err *err)
{
    lk_bytes path = {0};
    long     cores = sysconf(_SC_NPROCESSORS_ONLN);
    lk_budget_init(&out->budget, "scan", SCAN_BYTES_MAX, NULL);
    out->env.clock = lk_clock_real();
    out->env.random = lk_random_os();
    out->env.budget = &out->budget;
    out->env.buffers = lk_buffer_pool_new(&out->budget);
    out->env.open_base = open_base;
    lk_rc rc = check_uri(uri, &path, err);
    if (rc == LK_OK) {
        rc = lk_local_store_open(&out->env.store, path, true, err);
    }
    if (rc == LK_OK) {
        rc = lk_pool_open(&out->env.pool, "scan", cores > 0 ? (size_t)cores : 1, QUEUE_MAX, err);
    }
    return rc;
}

lk_rc lk_cli_lance_open(lk_cli_lance *out, const char *uri, uint64_t version, lk_err *err)
{
    lk_rc rc = lk_cli_lance_open_store(out, uri, err);
    if (rc == LK_OK) {
        rc = lk_dataset_open(&out->env, version, &out->dataset, err);
        if (rc == LK_E_NOT_FOUND) {
            lk_detail(err,
                version == 0 ? "%.100s holds no Lance dataset"
                             : "%.100s has no such version; see lake lance versions",
                uri);
        }
    }
    return rc;
}
