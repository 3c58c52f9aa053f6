/*
 * rollout_reads.c - reading a rollout store without a server, as rollout_read_bench.py measures it.
 *
 *   rollout_reads DIR limit=200 gets=200 rounds=20
 *   rollout_reads DIR columns=output_tokens,output_logprobs,advantage rounds=5
 *   rollout_reads DIR blob=ID rounds=5
 *
 * The first: a list in the default order of at most `limit` rows as JSON by a handle that is opened anew (cold_ms: this is the
 * process's first work), then warm; then single records by id. The second: all rows in the snapshot's own order as Arrow batches of some columns:
 * their bytes and how fast. The third: a payload read in pieces of 1 MiB. Prints one JSON object. Exit 0; or 1 and the error
 * on stderr. Threads: its own and a pool of as many as there are processors.
 */
#include "arrow/batch.h"
#include "io/local.h"
#include "lance/buffer_pool.h"
#include "rollout/records_json.h"
#include "rollout/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PIECE = 1 << 20 };

typedef struct plan {
    const char  *directory, *columns, *blob;
    uint64_t     limit, gets, rounds;
    lk_lance_env env;
} plan;

static lk_rc open_store(plan *p, lk_rollout_store **out, lk_err *err)
{
    const lk_rollout_options options = {.instance_id = LK_LITERAL("reader")};
    return lk_rollout_store_open(&p->env, NULL, &options, out, err);
}

static double ms_since(uint64_t start_us)
{
    return (double)(lk_clock_now_us() - start_us) / 1e3;
}

static int by_value(const void *a, const void *b)
{
    const double *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static double median(double *values, uint64_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return count == 0 ? 0 : values[count / 2];
}

/* -- lists and records ---------------------------------------------------------------------------------------------- */

/* Bytes that this process asked the kernel for. */
static unsigned long long bytes_read(void)
{
    unsigned long long bytes = 0;
    FILE              *io = fopen("/proc/self/io", "r");
    if (io == NULL || fscanf(io, "rchar: %llu", &bytes) != 1) {
        bytes = 0;
    }
    if (io != NULL) {
        (void)fclose(io);
    }
    return bytes;
}

/* ids: NULL, or where they go, one after the other with a NUL each. */
static lk_rc list_once(
    lk_rollout_store *store, uint64_t limit, lk_buf *json, lk_buf *ids, uint64_t *rows, lk_err *err)
{
    lk_rollout_snapshot   *snapshot = NULL;
    lk_batches            *batches = NULL;
    const lk_rollout_query query = {.limit = limit};
    lk_buf_clear(json);
    *rows = 0;
    lk_rc rc = lk_rollout_store_snapshot(store, 0, &snapshot, err);
    if (rc == LK_OK) {
        rc = lk_rollout_query_open(snapshot, &query, &batches, err);
    }
    for (bool more = rc == LK_OK; more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        for (int64_t row = 0; more && row < batch.length; row++) {
            size_t before = json->size;
            lk_record_write_json(&batches->schema, &batch, row, json);
            lk_buf_append(json, "\n", 1);
            if (ids != NULL) { /* {"id":"...", */
                const char *id = json->data + before + 7;
                lk_buf_append(ids, id, strcspn(id, "\""));
                lk_buf_append(ids, "", 1);
            }
        }
        *rows += more ? (uint64_t)batch.length : 0;
        lk_array_release(&batch);
    }
    lk_batches_close(batches);
    lk_rollout_snapshot_unref(snapshot);
    return rc;
}

static lk_rc get_once(lk_rollout_store *store, const char *id, lk_err *err)
{
    lk_rollout_snapshot *snapshot = NULL;
    struct ArrowArray    row = {0};
    size_t               wanted;
    lk_bytes             key = lk_bytes_of(id);
    lk_rc                rc = lk_rollout_store_snapshot(store, 0, &snapshot, err);
    if (rc == LK_OK) {
        rc = lk_rollout_snapshot_find(snapshot, &key, 1, NULL, &row, &wanted, err);
    }
    if (rc == LK_OK && row.length != 1) {
        rc = lk_fail(err, LK_E_NOT_FOUND, "record %s", id);
    }
    lk_array_release(&row);
    lk_rollout_snapshot_unref(snapshot);
    return rc;
}

static lk_rc run_lists(plan *p, lk_err *err)
{
    lk_rollout_store *store = NULL;
    lk_buf            json = {0}, ids = {0};
    uint64_t          rows = 0, start = lk_clock_now_us();
    double           *took = calloc(p->rounds + p->gets + 1, sizeof *took), cold = 0, warm = 0;
    LK_ASSERT(took != NULL);
    lk_rc rc = open_store(p, &store, err);
    if (rc == LK_OK) {
        rc = list_once(store, p->limit, &json, NULL, &rows, err);
        cold = ms_since(start);
    }
    for (uint64_t i = 0; rc == LK_OK && i < p->rounds; i++) {
        start = lk_clock_now_us();
        rc = list_once(store, p->limit, &json, NULL, &rows, err);
        took[i] = ms_since(start);
    }
    warm = median(took, p->rounds);
    if (rc == LK_OK) {
        rc = list_once(store, p->limit, &json, &ids, &rows, err);
    }
    const char *id = ids.data;
    for (uint64_t i = 0; rc == LK_OK && rows > 0 && i < p->gets; i++) {
        start = lk_clock_now_us();
        rc = get_once(store, id, err);
        took[i] = ms_since(start);
        id += strlen(id) + 1;
        id = id < ids.data + ids.size ? id : ids.data;
    }
    if (rc == LK_OK) {
        printf("{\"rows\":%llu,\"cold_ms\":%.3f,\"warm_ms\":%.3f,\"get_ms\":%.4f,\"read_bytes\":%llu}\n",
            (unsigned long long)rows, cold, warm, median(took, p->gets), bytes_read());
    }
    lk_rollout_store_unref(store);
    lk_buf_deinit(&json);
    lk_buf_deinit(&ids);
    free(took);
    return rc;
}

/* -- scans ------------------------------------------------------------------------------------------------------------ */

static uint64_t columns_of(const char *names)
{
    uint64_t columns = 0;
    while (*names != '\0') {
        size_t size = strcspn(names, ",");
        columns |= UINT64_C(1) << lk_record_column_of((lk_bytes){names, size}, 0);
        names += size + (names[size] == ',');
    }
    return columns;
}

static lk_rc scan_once(
    lk_rollout_store *store, uint64_t columns, uint64_t *rows, uint64_t *bytes, lk_err *err)
{
    lk_rollout_snapshot   *snapshot = NULL;
    lk_batches            *batches = NULL;
    const lk_rollout_query query = {.columns = columns, .order = LK_ROLLOUT_ANY, .limit = UINT64_MAX};
    *rows = *bytes = 0;
    lk_rc rc = lk_rollout_store_snapshot(store, 0, &snapshot, err);
    if (rc == LK_OK) {
        rc = lk_rollout_query_open(snapshot, &query, &batches, err);
    }
    for (bool more = rc == LK_OK; more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        if (more) {
            *rows += (uint64_t)batch.length;
            *bytes += lk_array_range_bytes(&batches->schema, &batch, 0, batch.length);
        }
        lk_array_release(&batch);
    }
    lk_batches_close(batches);
    lk_rollout_snapshot_unref(snapshot);
    return rc;
}

static lk_rc run_scans(plan *p, lk_err *err)
{
    lk_rollout_store *store = NULL;
    uint64_t          rows = 0, bytes = 0;
    double           *took = calloc(p->rounds + 1, sizeof *took);
    LK_ASSERT(took != NULL);
    lk_rc rc = open_store(p, &store, err);
    for (uint64_t i = 0; rc == LK_OK && i < p->rounds; i++) {
        uint64_t start = lk_clock_now_us();
        rc = scan_once(store, columns_of(p->columns), &rows, &bytes, err);
        took[i] = ms_since(start);
    }
    if (rc == LK_OK) {
        struct rusage usage;
        (void)getrusage(RUSAGE_SELF, &usage);
        double ms = median(took, p->rounds);
        printf("{\"rows\":%llu,\"bytes\":%llu,\"ms\":%.2f,\"gb_per_s\":%.3f,\"peak_mib\":%ld}\n",
            (unsigned long long)rows, (unsigned long long)bytes, ms, (double)bytes / ms / 1e6,
            usage.ru_maxrss / 1024);
    }
    lk_rollout_store_unref(store);
    free(took);
    return rc;
}

/* -- payloads ---------------------------------------------------------------------------------------------------------- */

static lk_rc read_blob(lk_rollout_store *store, lk_bytes id, char *piece, uint64_t *size, lk_err *err)
{
    lk_rollout_snapshot *snapshot = NULL;
    lk_rollout_blob     *blob = NULL;
    bool                 found = false;
    lk_rc                rc = lk_rollout_store_snapshot(store, 0, &snapshot, err);
    if (rc == LK_OK) {
        rc = lk_rollout_blob_open(snapshot, id, NULL, &blob, &found, err);
    }
    if (rc == LK_OK && !found) {
        rc = lk_fail(err, LK_E_NOT_FOUND, "record %.*s", LK_FMT(id));
    }
    *size = rc == LK_OK ? lk_rollout_blob_size(blob) : 0;
    for (uint64_t at = 0; rc == LK_OK && at < *size; at += PIECE) {
        rc = lk_rollout_blob_read(blob, at, piece, *size - at < PIECE ? (size_t)(*size - at) : PIECE, err);
    }
    lk_rollout_blob_close(blob);
    lk_rollout_snapshot_unref(snapshot);
    return rc;
}

static lk_rc run_blobs(plan *p, lk_err *err)
{
    lk_rollout_store *store = NULL;
    uint64_t          size = 0;
    char             *piece = malloc(PIECE);
    double           *took = calloc(p->rounds + 1, sizeof *took);
    LK_ASSERT(took != NULL && piece != NULL);
    lk_rc rc = open_store(p, &store, err);
    for (uint64_t i = 0; rc == LK_OK && i < p->rounds; i++) {
        uint64_t start = lk_clock_now_us();
        rc = read_blob(store, lk_bytes_of(p->blob), piece, &size, err);
        took[i] = ms_since(start);
    }
    if (rc == LK_OK) {
        double ms = median(took, p->rounds);
        printf("{\"bytes\":%llu,\"ms\":%.3f,\"gb_per_s\":%.3f}\n", (unsigned long long)size, ms,
            (double)size / ms / 1e6);
    }
    lk_rollout_store_unref(store);
    free(piece);
    free(took);
    return rc;
}

/* -- the command line -------------------------------------------------------------------------------------------------- */

static bool read_word(plan *p, const char *word)
{
    const struct {
        const char  *name;
        uint64_t    *number;
        const char **text;
    } words[] = {{"limit=", &p->limit, NULL}, {"gets=", &p->gets, NULL}, {"rounds=", &p->rounds, NULL},
        {"columns=", NULL, &p->columns}, {"blob=", NULL, &p->blob}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t size = strlen(words[i].name);
        if (strncmp(word, words[i].name, size) != 0) {
            continue;
        }
        if (words[i].number != NULL) {
            *words[i].number = strtoull(word + size, NULL, 10);
        } else {
            *words[i].text = word + size;
        }
        return true;
    }
    return false;
}

int main(int argc, char **argv)
{
    plan   p = {.limit = UINT64_MAX, .gets = 100, .rounds = 20};
    lk_err err = {0};
    bool   good = argc >= 2;
    p.directory = good ? argv[1] : NULL;
    for (int i = 2; good && i < argc; i++) {
        good = read_word(&p, argv[i]);
    }
    if (!good || p.rounds == 0) {
        fprintf(stderr, "usage: rollout_reads DIR [NAME=VALUE...], see rollout_reads.c\n");
        return 2;
    }
    lk_pool *pool = NULL;
    p.env = (lk_lance_env){.clock = lk_clock_real(), .random = lk_random_os()};
    lk_rc rc = lk_local_store_open(&p.env.store, lk_bytes_of(p.directory), true, &err);
    if (rc == LK_OK) {
        rc = lk_pool_open(&pool, "read", (size_t)sysconf(_SC_NPROCESSORS_ONLN), 1024, &err);
    }
    if (rc == LK_OK) {
        p.env.pool = pool;
        p.env.buffers = lk_buffer_pool_new(NULL);
        rc = p.blob != NULL      ? run_blobs(&p, &err)
             : p.columns != NULL ? run_scans(&p, &err)
                                 : run_lists(&p, &err);
        lk_buffer_pool_close(p.env.buffers);
    }
    lk_pool_close(pool);
    lk_store_close(p.env.store);
    if (rc != LK_OK) {
        fprintf(stderr, "%s: %s (%.*s)\n", lk_rc_name(err.rc), err.detail, (int)err.len, err.context);
    }
    return rc == LK_OK ? 0 : 1;
}
