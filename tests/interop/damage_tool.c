/*
 * damage_tool.c - reads a table again and again, each time with one byte of one of its files changed, or with one
 * file cut short.
 *
 *   damage_tool DIR STEP FIRST      every STEP-th byte, from FIRST on
 *
 * Prints a line for every file: key, how it was damaged ("flip" or "cut"), readings, those that failed, those that gave
 * the same rows, those that gave others, errors that name no file, and the slowest reading in ms; then the memory
 * it took, in KiB. The damage is done on the way from the store: nothing is written.
 *
 * Threads: none; decoding is on the caller's.
 */
#include "arrow/ipc.h"
#include "base/clock.h"
#include "io/local.h"
#include "lance/dataset.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { BUDGET_BYTES = 256 << 20 };

typedef struct damage {
    lk_store  base; /* first: the store's functions get this */
    lk_store *under;
    lk_bytes  key; /* what is damaged */
    uint64_t  at;
    uint8_t   mask; /* 0: cut at `at` instead */
} damage;

typedef struct damaged_reader {
    lk_store_reader  base;
    lk_store_reader *under;
    bool             hit;
    uint64_t         size;
} damaged_reader;

/* -- the store -------------------------------------------------------------------------------------------- */

static lk_rc damaged_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    damage          *self = (damage *)store;
    lk_store_reader *under = NULL;
    lk_rc            rc = lk_store_open_object(self->under, key, &under, size, err);
    if (rc != LK_OK) {
        return rc;
    }
    damaged_reader *reader = calloc(1, sizeof *reader);
    LK_ASSERT(reader != NULL);
    reader->base.store = store;
    reader->under = under;
    reader->hit = lk_bytes_equal(key, self->key);
    *size = reader->hit && self->mask == 0 && self->at < *size ? self->at : *size;
    reader->size = *size;
    *out = &reader->base;
    return LK_OK;
}

static lk_rc damaged_read(lk_store_reader *base, const lk_store_range *ranges, size_t count, lk_err *err)
{
    damaged_reader *reader = (damaged_reader *)base;
    const damage   *self = (const damage *)base->store;
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].offset > reader->size || ranges[i].size > reader->size - ranges[i].offset) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "%.*s ends too early", LK_FMT(self->key));
        }
    }
    lk_rc rc = lk_store_read(reader->under, ranges, count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        if (reader->hit && self->mask != 0 && self->at >= ranges[i].offset &&
            self->at - ranges[i].offset < ranges[i].size) {
            ((uint8_t *)ranges[i].out)[self->at - ranges[i].offset] ^= self->mask;
        }
    }
    return rc;
}

static void damaged_reader_close(lk_store_reader *base)
{
    lk_store_reader_close(((damaged_reader *)base)->under);
    free(base);
}

static lk_rc damaged_list(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    return lk_store_list(((damage *)store)->under, directory, arena, entries, count, err);
}

static const struct lk_store_ops damage_ops = {
    .open = damaged_open,
    .read = damaged_read,
    .reader_close = damaged_reader_close,
    .list = damaged_list,
};

/* -- reading ---------------------------------------------------------------------------------------------- */

typedef struct hash_sink {
    lk_ipc_sink base;
    uint64_t    hash; /* FNV-1a of everything written */
} hash_sink;

static lk_rc sink_write(lk_ipc_sink *sink, const void *data, size_t size, lk_err *err)
{
    hash_sink *self = (hash_sink *)sink;
    (void)err;
    for (size_t i = 0; i < size; i++) {
        self->hash = (self->hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3;
    }
    return LK_OK;
}

static lk_rc hash_rows(lk_batches *rows, hash_sink *sink, lk_err *err)
{
    lk_ipc_writer *writer = NULL;
    lk_rc          rc = lk_ipc_writer_open(&rows->schema, LK_IPC_STREAM, &sink->base, &writer, err);
    for (bool more = true; rc == LK_OK && more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, err);
        more = batch.release != NULL;
        if (rc == LK_OK && more) {
            lk_shared_array *shared = lk_array_share(&batch);
            rc = lk_ipc_writer_write(writer, shared, err);
            lk_shared_array_unref(shared);
        }
    }
    lk_ipc_writer_close(writer);
    return rc;
}

static lk_rc read_table(lk_store *store, uint64_t *hash, lk_err *err)
{
    lk_budget budget;
    lk_budget_init(&budget, "damage", BUDGET_BYTES, NULL);
    lk_lance_env env = {
        .store = store, .clock = lk_clock_real(), .random = lk_random_os(), .budget = &budget};
    lk_scan_options options = {.limit = UINT64_MAX, .meta = LK_META_ALL};
    hash_sink       sink = {{sink_write}, 0xcbf29ce484222325};
    lk_dataset     *dataset = NULL;
    lk_batches     *rows = NULL;
    lk_rc           rc = lk_dataset_open(&env, 0, &dataset, err);
    if (rc == LK_OK) {
        rc = lk_dataset_scan(dataset, &options, &rows, err);
    }
    if (rc == LK_OK) {
        rc = hash_rows(rows, &sink, err);
    }
    *hash = sink.hash;
    lk_batches_close(rows);
    lk_dataset_unref(dataset);
    LK_ASSERT(budget.used_bytes == 0); /* whatever failed, everything was given back */
    return rc;
}

/* -- damage ------------------------------------------------------------------------------------------------- */

typedef struct outcome {
    uint64_t readings, failed, same, others, nameless, slowest_ms;
} outcome;

/* An error says which file, or which object of the table. */
static bool names_a_file(const lk_err *err)
{
    static const char *const names[] = {".lance", ".manifest", ".arrow", ".bin", ".idx"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (memmem(err->context, err->len, names[i], strlen(names[i])) != NULL) {
            return true;
        }
    }
    return false;
}

static void read_damaged(damage *store, uint64_t good, outcome *out)
{
    lk_err   err = {0};
    uint64_t hash = 0, before = lk_clock_now_us() / 1000;
    lk_rc    rc = read_table(&store->base, &hash, &err);
    uint64_t took = lk_clock_now_us() / 1000 - before;
    out->readings++;
    out->failed += rc != LK_OK;
    out->same += rc == LK_OK && hash == good;
    out->others += rc == LK_OK && hash != good;
    out->slowest_ms = took > out->slowest_ms ? took : out->slowest_ms;
    if (rc != LK_OK && !names_a_file(&err)) {
        out->nameless++;
        fprintf(stderr, "%.*s at %" PRIu64 " ^ %u: %s %.*s\n", LK_FMT(store->key), store->at, store->mask,
            lk_rc_name(err.rc), (int)err.len, err.context);
    }
}

static void report(lk_bytes key, const char *how, const outcome *o)
{
    printf("%.*s %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", LK_FMT(key),
        how, o->readings, o->failed, o->same, o->others, o->nameless, o->slowest_ms);
}

typedef struct plan {
    uint64_t step, first, good;
} plan;

static void damage_object(damage *store, lk_bytes key, uint64_t size, const plan *p)
{
    outcome flips = {0}, cuts = {0};
    store->key = key;
    for (store->at = p->first; store->at < size; store->at += p->step) {
        store->mask = (uint8_t)(store->at / p->step % 3 == 0 ? 0xff : 1U << (store->at % 8));
        read_damaged(store, p->good, &flips);
        if (store->at % 4 == p->first % 4) {
            store->mask = 0;
            read_damaged(store, p->good, &cuts);
        }
    }
    report(key, "flip", &flips);
    report(key, "cut", &cuts);
}

static lk_rc damage_all(damage *store, lk_bytes directory, const plan *p, lk_arena *arena, lk_err *err)
{
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    lk_rc           rc = lk_store_list(store->under, directory, arena, &entries, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        lk_bytes key = directory.size == 0
                           ? entries[i].name
                           : lk_arena_format(arena, "%.*s/%.*s", LK_FMT(directory), LK_FMT(entries[i].name));
        if (entries[i].is_directory) {
            rc = damage_all(store, key, p, arena, err);
        } else {
            damage_object(store, key, entries[i].size, p);
        }
    }
    return rc;
}

int main(int argc, char **argv)
{
    lk_arena arena = {0};
    lk_err   err = {0};
    damage   store = {.base = {.ops = &damage_ops, .uri = LK_LITERAL("damaged")}};
    if (argc != 4) {
        fprintf(stderr, "usage: damage_tool DIR STEP FIRST\n");
        return 2;
    }
    plan  p = {.step = strtoull(argv[2], NULL, 10), .first = strtoull(argv[3], NULL, 10)};
    lk_rc rc = lk_local_store_open(&store.under, lk_bytes_of(argv[1]), true, &err);
    if (rc == LK_OK) {
        rc = read_table(store.under, &p.good, &err);
    }
    if (rc == LK_OK) {
        rc = damage_all(&store, (lk_bytes){"", 0}, &p, &arena, &err);
    }
    struct rusage usage = {0};
    (void)getrusage(RUSAGE_SELF, &usage);
    printf("memory %ld\n", usage.ru_maxrss);
    if (rc != LK_OK) {
        fprintf(stderr, "%s %.*s\n", lk_rc_name(err.rc), (int)err.len, err.context);
    }
    lk_store_close(store.under);
    lk_arena_close(&arena);
    return rc == LK_OK ? 0 : 1;
}
