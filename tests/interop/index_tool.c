/*
 * index_tool.c - filters a table, for tests that compare with DuckDB and pylance.
 *
 *   index_tool DIR [--threads N] [--budget BYTES] [--repeat N]
 *   index_tool DIR --verify 1 [...]     checks every index; one line of JSON a segment
 *
 * Every line of standard input is a predicate in prefix form:
 *
 *   and N P.. | or N P.. | not P | = COLUMN V | <> < <= > >= likewise | in COLUMN N V.. | prefix COLUMN V
 *   null COLUMN | notnull COLUMN
 *
 * where COLUMN is a number, or numbers joined by dots for members of structs,
 * with values i:-5 (integers, dates, bool), u:5, f:nan, b:HEX (text, bytes), d:LOW,HIGH (decimal). One line of JSON for
 * each: rows' ids in row order, how many rows were decoded for it, and the milliseconds of one of the repeats.
 * Errors go to stderr as "NAME: detail (context)", exit status 1.
 */
#include "io/local.h"
#include "lance/dataset.h"
#include "lance/index.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int report(const lk_err *err)
{
    fprintf(stderr, "%s: %s (%.*s)\n", lk_rc_name(err->rc), err->detail, (int)err->len, err->context);
    return 1;
}

/* -- predicates ------------------------------------------------------------------------------------------ */
typedef struct parser {
    char    *rest;
    lk_arena arena;
    bool     failed;
} parser;

static const char *word(parser *self)
{
    char *at = strtok_r(self->rest, " \n", &self->rest);
    self->failed = self->failed || at == NULL;
    return at == NULL ? "" : at;
}

static size_t number(parser *self)
{
    return strtoul(word(self), NULL, 10);
}

static lk_bytes from_hex(parser *self, const char *text)
{
    size_t size = strlen(text) / 2;
    char  *out = lk_arena_take(&self->arena, size + 1);
    for (size_t i = 0; i < size; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};
        out[i] = (char)strtoul(pair, NULL, 16);
    }
    return (lk_bytes){out, size};
}

static lk_value value(parser *self)
{
    const char *text = word(self), *at = strlen(text) < 2 ? "" : text + 2;
    char       *end = NULL;
    lk_value    out = {0};
    switch (text[0]) {
    case 'i':
        return (lk_value){.kind = LK_VALUE_I64, .as.i64 = strtoll(at, NULL, 10)};
    case 'u':
        return (lk_value){.kind = LK_VALUE_U64, .as.u64 = strtoull(at, NULL, 10)};
    case 'f':
        return (lk_value){.kind = LK_VALUE_F64, .as.f64 = strtod(at, NULL)};
    case 'b':
        return (lk_value){.kind = LK_VALUE_BYTES, .as.bytes = from_hex(self, at)};
    case 'd':
        out.kind = LK_VALUE_DECIMAL128;
        out.as.decimal128.low = strtoull(at, &end, 10);
        out.as.decimal128.high = strtoll(*end == ',' ? end + 1 : end, NULL, 10);
        return out;
    default:
        self->failed = true;
        return out;
    }
}

static const lk_predicate *predicate(parser *self);

static void children(parser *self, lk_predicate *out, size_t count)
{
    const lk_predicate **list = lk_arena_take(&self->arena, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count && !self->failed; i++) {
        list[i] = predicate(self);
    }
    out->children = list;
    out->child_count = count;
}

static void values(parser *self, lk_predicate *out, size_t count)
{
    lk_value *list = lk_arena_take(&self->arena, (count + 1) * sizeof *list);
    for (size_t i = 0; i < count && !self->failed; i++) {
        list[i] = value(self);
    }
    out->values = list;
    out->value_count = count;
}

/* ".1.0": the member of a struct, and so on inwards. */
static void parse_path(parser *self, const char *text, lk_predicate *out)
{
    size_t *path = lk_arena_take(&self->arena, (text == NULL ? 1 : strlen(text)) * sizeof *path);
    for (; text != NULL; text = strchr(text + 1, '.')) {
        path[out->path_count++] = strtoul(text + 1, NULL, 10);
    }
    out->path = path;
}

static const lk_predicate *predicate(parser *self)
{
    static const char *const signs[] = {"=", "<>", "<", "<=", ">", ">="};
    static const lk_compare  compares[] = {LK_EQ, LK_NE, LK_LT, LK_LE, LK_GT, LK_GE};
    const char              *name = word(self);
    lk_predicate            *out = lk_arena_take(&self->arena, sizeof *out);
    if (strcmp(name, "and") == 0 || strcmp(name, "or") == 0) {
        out->kind = name[0] == 'a' ? LK_PREDICATE_AND : LK_PREDICATE_OR;
        children(self, out, number(self));
        return out;
    }
    if (strcmp(name, "not") == 0) {
        out->kind = LK_PREDICATE_NOT;
        children(self, out, 1);
        return out;
    }
    const char *column = word(self);
    out->column = strtoul(column, NULL, 10);
    parse_path(self, strchr(column, '.'), out);
    if (strcmp(name, "null") == 0 || strcmp(name, "notnull") == 0) {
        out->kind = name[1] == 'u' ? LK_PREDICATE_IS_NULL : LK_PREDICATE_IS_NOT_NULL;
        return out;
    }
    out->kind = name[0] == 'i'   ? LK_PREDICATE_IN
                : name[0] == 'p' ? LK_PREDICATE_PREFIX
                                 : LK_PREDICATE_COMPARE;
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        out->compare = strcmp(name, signs[i]) == 0 ? compares[i] : out->compare;
    }
    values(self, out, name[0] == 'i' ? number(self) : 1);
    return out;
}

/* -- scanning -------------------------------------------------------------------------------------------- */
typedef struct tool {
    lk_dataset   *dataset;
    unsigned long repeat;
} tool;

static void print_ids(const struct ArrowArray *batch, bool *first)
{
    const struct ArrowArray *ids = batch->children[0];
    const uint64_t          *at = (const uint64_t *)ids->buffers[1] + ids->offset;
    for (int64_t row = 0; row < batch->length; row++) {
        printf("%s%" PRIu64, *first ? "" : ",", at[row]);
        *first = false;
    }
}

static lk_rc drain(lk_morsel_scan *scan, bool print, lk_err *err)
{
    bool  done = false, first = true;
    lk_rc rc = LK_OK;
    while (rc == LK_OK && !done) {
        struct ArrowArray batch = {0};
        size_t            morsel = 0;
        rc = lk_morsel_scan_next(scan, &batch, &morsel, &done, err);
        if (rc == LK_OK && !done) {
            if (print && batch.length > 0) {
                print_ids(&batch, &first);
            }
            lk_array_release(&batch);
        }
    }
    return rc;
}

static lk_rc scan_once(const tool *self, const lk_predicate *filter, bool print, lk_err *err)
{
    size_t          none = 0;
    lk_scan_options options = {
        .columns = &none, .meta = LK_META_ROW_ID, .predicate = filter, .limit = UINT64_MAX};
    lk_morsel_scan *scan = NULL;
    lk_scan_stats   stats = {0};
    uint64_t        begin = lk_clock_now_us();
    lk_rc           rc = lk_dataset_morsel_scan(self->dataset, &options, &scan, err);
    if (rc == LK_OK && print) {
        printf("{\"ids\":[");
    }
    if (rc == LK_OK) {
        rc = drain(scan, print, err);
        lk_morsel_scan_stats(scan, &stats);
        lk_morsel_scan_close(scan);
    }
    if (rc == LK_OK && print) {
        printf("],\"decoded\":%" PRIu64 ",\"ms\":%.3f}\n", stats.rows_decoded,
            (double)(lk_clock_now_us() - begin) / 1000.0);
        fflush(stdout);
    }
    return rc;
}

static lk_rc run(const tool *self, lk_err *err)
{
    char  *line = NULL;
    size_t room = 0;
    lk_rc  rc = LK_OK;
    while (rc == LK_OK && getline(&line, &room, stdin) > 0) {
        parser              parse = {.rest = line};
        const lk_predicate *filter = predicate(&parse);
        if (parse.failed) {
            rc = lk_refuse(err, LK_E_USAGE, "not a predicate");
        }
        for (unsigned long i = self->repeat; rc == LK_OK && i > 0; i--) {
            rc = scan_once(self, filter, i == 1, err);
        }
        lk_arena_close(&parse.arena);
    }
    free(line);
    return rc;
}

static lk_rc verify(lk_dataset *dataset, lk_err *err)
{
    lk_arena        arena = {0};
    const lk_index *indices = NULL;
    size_t          count = 0;
    lk_rc           rc = lk_index_list(dataset, &arena, &indices, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        lk_index_damage damage = {0};
        rc = lk_index_verify(dataset, &indices[i], NULL, &damage, err);
        printf("{\"name\":\"%.*s\",\"entries\":%" PRIu64 ",\"missing\":%" PRIu64 ",\"extra\":%" PRIu64
               ",\"wrong\":%" PRIu64 "}\n",
            LK_FMT(damage.name), damage.entries, damage.missing, damage.extra, damage.wrong);
    }
    lk_arena_close(&arena);
    return rc;
}

int main(int argc, char **argv)
{
    tool               self = {.repeat = 1};
    unsigned long long threads = 0, budget_bytes = 0, checks = 0;
    lk_err             err = {0};
    lk_store          *store = NULL;
    lk_pool           *pool = NULL;
    lk_budget          budget;
    for (int at = 2; at + 1 < argc; at += 2) {
        unsigned long long n = strtoull(argv[at + 1], NULL, 10);
        threads = strcmp(argv[at], "--threads") == 0 ? n : threads;
        budget_bytes = strcmp(argv[at], "--budget") == 0 ? n : budget_bytes;
        checks = strcmp(argv[at], "--verify") == 0 ? n : checks;
        self.repeat = strcmp(argv[at], "--repeat") == 0 ? (unsigned long)n : self.repeat;
    }
    lk_budget_init(&budget, "scan", budget_bytes, NULL);
    if (argc < 2 || lk_local_store_open(&store, lk_bytes_of(argv[1]), true, &err) != LK_OK ||
        (threads > 0 && lk_pool_open(&pool, "scan", threads, 64, &err) != LK_OK)) {
        return report(&err);
    }
    lk_lance_env env = {.store = store,
        .clock = lk_clock_real(),
        .random = lk_random_os(),
        .pool = pool,
        .budget = budget_bytes > 0 ? &budget : NULL};
    lk_rc        rc = lk_dataset_open(&env, 0, &self.dataset, &err);
    if (rc == LK_OK) {
        rc = checks > 0 ? verify(self.dataset, &err) : run(&self, &err);
    }
    lk_dataset_unref(self.dataset);
    lk_pool_close(pool);
    lk_store_close(store);
    if (rc == LK_OK && budget.used_bytes != 0) {
        fprintf(stderr, "%zu bytes of the budget were not given back\n", (size_t)budget.used_bytes);
        return 1;
    }
    return rc == LK_OK ? 0 : report(&err);
}
