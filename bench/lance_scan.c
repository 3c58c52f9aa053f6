/*
 * lance_scan.c - the Lance engine as the benchmarks measure it: batches in memory, nothing written.
 *
 *   lance_scan create DIR IN                 a new dataset with the schema of the Arrow stream IN
 *   lance_scan append DIR IN                 the rows of IN, a million a file
 *   lance_scan serve DIR                     for each line on standard input one measurement; prints "SECONDS ROWS":
 *     scan [COLUMNS]            every row; columns as 0,2,3
 *     any [COLUMNS]             the same, batches in any order
 *     equals C=V [COLUMNS]      rows where integer column C has value V
 *     take FILE [COLUMNS]       rows by offset; FILE holds them as little-endian u64
 *     open-scan, open-take FILE the same with a dataset opened for it
 *   lance_scan memory DIR                     one full scan; prints "PEAK_ANONYMOUS_BYTES ROWS"
 *
 * Exit 0; or 1 and the error on stderr. Threads: the scan's own pool, one worker a core; a sampler for memory.
 */
#include "arrow/ipc.h"
#include "base/file.h"
#include "io/local.h"
#include "lance/buffer_pool.h"
#include "lance/dataset.h"
#include "lance/take.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COLUMNS_MAX = 64, LINE_BYTES = 4096, SCAN_BYTES_MAX = 384 * 1024 * 1024 };

/* One measurement as asked for. */
typedef struct work {
    char            verb[16];
    size_t          columns[COLUMNS_MAX];
    lk_scan_options options;
    lk_predicate    predicate;
    lk_value        value;
    lk_take_rows    rows;
    uint64_t       *offsets;
    size_t          offset_count;
} work;

static lk_rc drain(lk_batches *batches, uint64_t *rows, lk_err *err)
{
    lk_rc rc = LK_OK;
    *rows = 0;
    for (bool more = true; rc == LK_OK && more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        *rows += more ? (uint64_t)batch.length : 0;
        lk_array_release(&batch);
    }
    lk_batches_close(batches);
    return rc;
}

static lk_rc perform(work *self, const lk_lance_env *env, lk_dataset *dataset, uint64_t *rows, lk_err *err)
{
    lk_batches *batches = NULL;
    lk_dataset *fresh = NULL;
    lk_rc       rc = LK_OK;
    if (strncmp(self->verb, "open-", 5) == 0) {
        rc = lk_dataset_open(env, 0, &fresh, err);
        dataset = fresh;
    }
    if (rc == LK_OK) {
        rc = self->offsets != NULL ? lk_dataset_take(dataset, &self->rows, &self->options, &batches, err)
                                   : lk_dataset_scan(dataset, &self->options, &batches, err);
    }
    if (rc == LK_OK) {
        rc = drain(batches, rows, err);
    }
    lk_dataset_unref(fresh);
    return rc;
}

/* -- the question ------------------------------------------------------------------------------------- */
static void parse_columns(work *self, const char *text)
{
    char *end = NULL;
    self->options.columns = self->columns;
    for (const char *at = text; *at != '\0' && self->options.column_count < COLUMNS_MAX;
         at = *end == ',' ? end + 1 : end) {
        self->columns[self->options.column_count++] = strtoul(at, &end, 10);
        if (end == at) {
            break;
        }
    }
}

static void parse_equals(work *self, const char *text)
{
    const char *sign = strchr(text, '=');
    self->value = (lk_value){.kind = LK_VALUE_I64, .as.i64 = sign == NULL ? 0 : strtoll(sign + 1, NULL, 10)};
    self->predicate = (lk_predicate){.kind = LK_PREDICATE_COMPARE,
        .column = strtoul(text, NULL, 10),
        .compare = LK_EQ,
        .values = &self->value,
        .value_count = 1};
    self->options.predicate = &self->predicate;
}

static lk_rc read_offsets(work *self, const char *path, lk_err *err)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return lk_fail(err, LK_E_IO, "cannot read %s", path);
    }
    (void)fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    self->offset_count = size < 0 ? 0 : (size_t)size / sizeof(uint64_t);
    self->offsets = malloc((self->offset_count + 1) * sizeof(uint64_t));
    LK_ASSERT(self->offsets != NULL);
    self->offset_count = fread(self->offsets, sizeof(uint64_t), self->offset_count, file);
    fclose(file);
    self->rows = (lk_take_rows){LK_TAKE_OFFSET, self->offsets, self->offset_count};
    return LK_OK;
}

static lk_rc parse(work *self, char *line, lk_err *err)
{
    const char *words[3] = {"", "", ""};
    char       *rest = line;
    size_t      count = 0;
    for (char *word = NULL; count < 3 && (word = strtok_r(NULL, " \n", &rest)) != NULL;) {
        words[count++] = word;
    }
    (void)snprintf(self->verb, sizeof self->verb, "%s", words[0]);
    self->options = (lk_scan_options){.limit = UINT64_MAX, .unordered = strcmp(words[0], "any") == 0};
    bool  argument = strstr(words[0], "take") != NULL || strcmp(words[0], "equals") == 0;
    lk_rc rc = LK_OK;
    if (strstr(words[0], "take") != NULL) {
        rc = read_offsets(self, words[1], err);
    } else if (argument) {
        parse_equals(self, words[1]);
    }
    const char *columns = words[argument ? 2 : 1];
    if (*columns != '\0') {
        parse_columns(self, columns);
    }
    return rc;
}

static lk_rc serve(const lk_lance_env *env, lk_err *err)
{
    char        line[LINE_BYTES];
    lk_dataset *dataset = NULL;
    lk_rc       rc = lk_dataset_open(env, 0, &dataset, err);
    while (rc == LK_OK && fgets(line, sizeof line, stdin) != NULL) {
        work     self = {0};
        uint64_t rows = 0;
        rc = parse(&self, line, err);
        uint64_t start = lk_clock_now_us();
        if (rc == LK_OK) {
            rc = perform(&self, env, dataset, &rows, err);
        }
        printf("%.6f %" PRIu64 "\n", (double)(lk_clock_now_us() - start) / 1e6, rows);
        fflush(stdout);
        free(self.offsets);
    }
    lk_dataset_unref(dataset);
    return rc;
}

/* -- memory -------------------------------------------------------------------------------------------- */
static uint64_t anonymous_bytes(void)
{
    char     line[256];
    uint64_t kib = 0;
    FILE    *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "RssAnon:", 8) == 0) {
            kib = strtoull(line + 8, NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib * 1024;
}

static lk_rc memory(const lk_lance_env *env, lk_err *err)
{
    lk_scan_options options = {.limit = UINT64_MAX};
    lk_dataset     *dataset = NULL;
    lk_batches     *batches = NULL;
    uint64_t        rows = 0, peak = 0;
    lk_rc           rc = lk_dataset_open(env, 0, &dataset, err);
    if (rc == LK_OK) {
        rc = lk_dataset_scan(dataset, &options, &batches, err);
    }
    for (bool more = true; rc == LK_OK && more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        uint64_t now = anonymous_bytes(); /* with this batch and all that was read ahead */
        peak = now > peak ? now : peak;
        rows += more ? (uint64_t)batch.length : 0;
        lk_array_release(&batch);
    }
    lk_batches_close(batches);
    lk_dataset_unref(dataset);
    printf("%" PRIu64 " %" PRIu64 "\n", peak, rows);
    return rc;
}

/* -- writing ------------------------------------------------------------------------------------------- */
static lk_rc write_rows(
    const lk_lance_env *env, bool create, const char *input, const lk_write_options *options, lk_err *err)
{
    lk_ipc_source *source = NULL;
    lk_batches    *rows = NULL;
    lk_dataset    *base = NULL, *made = NULL;
    lk_rc          rc = lk_ipc_source_file(input, &source, err);
    if (rc == LK_OK) {
        rc = lk_ipc_open(source, NULL, &rows, err);
    }
    if (rc == LK_OK && create) {
        rc = lk_dataset_create(env, lk_direct_committer(), &rows->schema, options, &made, err);
    } else if (rc == LK_OK) {
        rc = lk_dataset_open(env, 0, &base, err);
    }
    if (rc == LK_OK && !create) {
        rc = lk_dataset_append(base, lk_direct_committer(), rows, options, &made, err);
    }
    lk_batches_close(rows);
    lk_dataset_unref(base);
    lk_dataset_unref(made);
    return rc;
}

static lk_rc run(char **argv, lk_err *err)
{
    const char  *verb = argv[1];
    lk_budget    budget;
    lk_lance_env env = {.clock = lk_clock_real(), .random = lk_random_os(), .budget = &budget};
    long         cores = sysconf(_SC_NPROCESSORS_ONLN);
    lk_budget_init(&budget, "scan", SCAN_BYTES_MAX, NULL);
    env.buffers = lk_buffer_pool_new(&budget);
    lk_rc rc = lk_local_store_open(&env.store, lk_bytes_of(argv[2]), true, err);
    if (rc == LK_OK) {
        rc = lk_pool_open(&env.pool, "scan", cores > 0 ? (size_t)cores : 1, 1024, err);
    }
    if (rc == LK_OK && strcmp(verb, "serve") == 0) {
        rc = serve(&env, err);
    } else if (rc == LK_OK && strcmp(verb, "memory") == 0) {
        rc = memory(&env, err);
    } else if (rc == LK_OK) {
        rc = write_rows(&env, strcmp(verb, "create") == 0, argv[3], NULL, err);
    }
    lk_buffer_pool_close(env.buffers);
    lk_pool_close(env.pool);
    lk_store_close(env.store);
    return rc;
}

int main(int argc, char **argv)
{
    lk_err err = {0};
    bool   reads = argc > 2 && (strcmp(argv[1], "serve") == 0 || strcmp(argv[1], "memory") == 0);
    if (argc < 3 || (argc < 4 && !reads)) {
        fprintf(stderr, "usage: lance_scan create|append DIR IN | serve|memory DIR\n");
        return 2;
    }
    if (run(argv, &err) != LK_OK) {
        fprintf(
            stderr, "lance_scan: %s: %s (%.*s)\n", lk_rc_name(err.rc), err.detail, (int)err.len, err.context);
        return 1;
    }
    return 0;
}
