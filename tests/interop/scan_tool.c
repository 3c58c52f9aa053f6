/*
 * scan_tool.c - scans a table again and again, for tests and benchmarks that compare with pylance.
 *
 *   scan_tool DIR [options]     one scan for every line on standard input; prints for each
 *                               "rows batches milliseconds cpu-milliseconds"
 *     --columns 0,2,3           top-level fields (default: all)
 *     --equals COLUMN=INTEGER   keep the rows where an integer column has this value
 *     --less COLUMN=INTEGER
 *     --limit N --row-id --count --unordered
 *     --threads N               pool threads (0: none; default 2)
 *     --budget BYTES            scan memory
 *
 * Errors go to stderr as "NAME: detail (context)", exit status 1.
 */
#include "io/local.h"
#include "lance/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COLUMNS_MAX = 256 };

typedef struct tool {
    lk_scan_options    options;
    size_t             columns[COLUMNS_MAX];
    lk_predicate       predicate;
    lk_value           value;
    unsigned long      threads;
    unsigned long long budget_bytes;
} tool;

static int report(const lk_err *err)
{
    fprintf(stderr, "%s: %s (%.*s)\n", lk_rc_name(err->rc), err->detail, (int)err->len, err->context);
    return 1;
}

static void parse_columns(tool *self, const char *text)
{
    char *end = NULL;
    for (const char *at = text; *at != '\0' && self->options.column_count < COLUMNS_MAX;
         at = *end == ',' ? end + 1 : end) {
        self->columns[self->options.column_count++] = strtoul(at, &end, 10);
        if (end == at) {
            break;
        }
    }
    self->options.columns = self->columns;
}

static void parse_comparison(tool *self, lk_compare compare, const char *text)
{
    const char *equals = strchr(text, '=');
    self->value =
        (lk_value){.kind = LK_VALUE_I64, .as.i64 = equals == NULL ? 0 : strtoll(equals + 1, NULL, 10)};
    self->predicate = (lk_predicate){.kind = LK_PREDICATE_COMPARE,
        .column = strtoul(text, NULL, 10),
        .compare = compare,
        .values = &self->value,
        .value_count = 1};
    self->options.predicate = &self->predicate;
}

static bool parse(tool *self, int count, char **arguments)
{
    for (int at = 0; at < count; at++) {
        const char *name = arguments[at], *value = at + 1 < count ? arguments[at + 1] : "";
        if (strcmp(name, "--row-id") == 0) {
            self->options.meta = LK_META_ROW_ID;
            continue;
        }
        if (strcmp(name, "--count") == 0) {
            self->options.no_columns = true;
            continue;
        }
        if (strcmp(name, "--unordered") == 0) {
            self->options.unordered = true;
            continue;
        }
        at++;
        if (strcmp(name, "--columns") == 0) {
            parse_columns(self, value);
        } else if (strcmp(name, "--equals") == 0) {
            parse_comparison(self, LK_EQ, value);
        } else if (strcmp(name, "--less") == 0) {
            parse_comparison(self, LK_LT, value);
        } else if (strcmp(name, "--limit") == 0) {
            self->options.limit = strtoull(value, NULL, 10);
        } else if (strcmp(name, "--threads") == 0) {
            self->threads = strtoul(value, NULL, 10);
        } else if (strcmp(name, "--budget") == 0) {
            self->budget_bytes = strtoull(value, NULL, 10);
        } else {
            fprintf(stderr, "unknown option %s\n", name);
            return false;
        }
    }
    return true;
}

static lk_rc drain(lk_batches *rows, uint64_t *row_count, uint64_t *batch_count, lk_err *err)
{
    for (;;) {
        struct ArrowArray batch = {0};
        lk_rc             rc = lk_batches_next(rows, &batch, err);
        if (rc != LK_OK || batch.release == NULL) {
            return rc;
        }
        *row_count += (uint64_t)batch.length;
        *batch_count += 1;
        lk_array_release(&batch);
    }
}

/* Of all threads: what a scan costs, whoever else uses the machine. */
static double cpu_ms(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static lk_rc scan_once(lk_dataset *dataset, const tool *self, lk_err *err)
{
    lk_batches *rows = NULL;
    uint64_t    row_count = 0, batch_count = 0, begin = lk_clock_now_us();
    double      cpu = cpu_ms();
    lk_rc       rc = lk_dataset_scan(dataset, &self->options, &rows, err);
    if (rc == LK_OK) {
        rc = drain(rows, &row_count, &batch_count, err);
    }
    lk_batches_close(rows);
    if (rc == LK_OK) {
        printf("%" PRIu64 " %" PRIu64 " %.3f %.3f\n", row_count, batch_count,
            (double)(lk_clock_now_us() - begin) / 1000.0, cpu_ms() - cpu);
        fflush(stdout);
    }
    return rc;
}

static lk_rc run(const lk_lance_env *env, const tool *self, lk_err *err)
{
    lk_dataset *dataset = NULL;
    char        line[64];
    lk_rc       rc = lk_dataset_open(env, 0, &dataset, err);
    while (rc == LK_OK && fgets(line, sizeof line, stdin) != NULL) {
        rc = scan_once(dataset, self, err);
    }
    lk_dataset_unref(dataset);
    return rc;
}

int main(int argc, char **argv)
{
    tool      self = {.options = {.limit = UINT64_MAX}, .threads = 2};
    lk_err    err = {0};
    lk_store *store = NULL;
    lk_pool  *pool = NULL;
    lk_budget budget;
    if (argc < 2 || !parse(&self, argc - 2, argv + 2)) {
        fprintf(stderr, "usage: scan_tool DIR [options] <lines\n");
        return 2;
    }
    lk_budget_init(&budget, "scan", self.budget_bytes, NULL);
    if (lk_local_store_open(&store, lk_bytes_of(argv[1]), true, &err) != LK_OK ||
        (self.threads > 0 && lk_pool_open(&pool, "scan", self.threads, 64, &err) != LK_OK)) {
        return report(&err);
    }
    lk_lance_env env = {.store = store,
        .clock = lk_clock_real(),
        .random = lk_random_os(),
        .pool = pool,
        .budget = self.budget_bytes > 0 ? &budget : NULL};
    lk_rc        rc = run(&env, &self, &err);
    lk_pool_close(pool);
    lk_store_close(store);
    if (rc == LK_OK && budget.used_bytes != 0) {
        fprintf(stderr, "%zu bytes of the budget were not given back\n", (size_t)budget.used_bytes);
        return 1;
    }
    return rc == LK_OK ? 0 : report(&err);
}
