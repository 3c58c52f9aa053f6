/*
 * rows_fetch.c - generations of far storage, many at once (rows_priv.h). Of one that this software wrote only the data file is
 * asked for, whose name is known; its manifest is made again from that of another, which is asked for along with them
 * (generation.h, invariant 4). What was fetched is read as if it lay on a disk.
 *
 * Whatever does not fit, or cannot be read, is left: who loads it by itself says what is wrong with it.
 */
#include "base/each.h"
#include "io/held.h"
#include "lance/file_read.h"
#include "lance/manifest.h"
#include "rollout/generation.h"
#include "rollout/rows_priv.h"
#include "rollout/shard.h"

#include <stdlib.h>

#define DATA_KEY "data/" LK_GENERATION_FILE

enum { FETCHERS = 4, PART_MIN = 8, PART_MAX = 64 }; /* each fetcher has one part at a time */

typedef struct lot { /* all of them, in parts */
    const lk_lance_env *env;
    lk_rollout_form    *form;
    lk_rollout_wish    *wishes;
    size_t              count, part;
} lot;

typedef struct model { /* the first generation of a part: the others are like it */
    lk_dataset     *dataset;
    lk_file_reader *file;
    lk_alike       *alike;
} model;

/* -- one generation ------------------------------------------------------------------------------------------------ */

/* A generation whose bytes are here: its manifest and its file. */
typedef struct held_generation {
    lk_store_wanted objects[2];
    lk_lance_env    env;
} held_generation;

static void hold(held_generation *held, const lk_lance_env *env, lk_bytes manifest, lk_bytes file)
{
    held->objects[0] = (lk_store_wanted){LK_LITERAL(LK_GENERATION_MANIFEST), true, true, manifest};
    held->objects[1] = (lk_store_wanted){LK_LITERAL(DATA_KEY), true, true, file};
    held->env = *env;
    held->env.files = NULL;
    held->env.store = lk_held_store_new(env->store->uri, held->objects, 2);
}

/* One file of ours and nothing else. */
static bool is_ours(const lk_manifest *manifest)
{
    return manifest->fragment_count == 1 && manifest->fragments[0].file_count == 1 &&
           manifest->fragments[0].deletion.kind == LK_DELETION_NONE &&
           lk_bytes_equal(manifest->fragments[0].files[0].path, LK_LITERAL(LK_GENERATION_FILE));
}

static bool same_columns(const model *first, const lk_file_reader *file)
{
    return lk_file_reader_column_count(first->file) == lk_file_reader_column_count(file) &&
           lk_file_reader_minor(first->file) == lk_file_reader_minor(file) &&
           lk_bytes_equal(lk_file_reader_schema_bytes(first->file), lk_file_reader_schema_bytes(file));
}

/* *manifest: what the generation's would be; empty when its file does not tell. */
static void make_manifest(const model *first, const held_generation *held, lk_buf *manifest)
{
    lk_file_reader *file = NULL;
    lk_err          ignored = {0};
    if (lk_file_reader_open(held->env.store, LK_LITERAL(DATA_KEY), 0, held->env.budget, &file, &ignored) !=
            LK_OK ||
        !same_columns(first, file) ||
        lk_generation_manifest_like(lk_dataset_manifest(first->dataset), lk_file_reader_rows(file),
            held->objects[1].bytes.size, manifest, &ignored) != LK_OK) {
        lk_buf_clear(manifest);
    }
    lk_file_reader_unref(file);
}

static void load_like(const lot *l, const model *first, lk_bytes file, lk_rollout_wish *wish)
{
    held_generation held;
    lk_buf          manifest = {0};
    lk_dataset     *dataset = NULL;
    lk_err          ignored = {0};
    hold(&held, l->env, (lk_bytes){0}, file);
    make_manifest(first, &held, &manifest);
    held.objects[0].bytes = lk_buf_view(&manifest);
    if (manifest.size > 0 && lk_dataset_open_like(&held.env, LK_LITERAL(LK_GENERATION_MANIFEST),
                                 first->dataset, &dataset, &ignored) == LK_OK) {
        if (lk_rollout_rows_load_from(l->env, l->form, wish->shard, wish->generation, dataset, first->alike,
                &wish->rows, &ignored) != LK_OK) {
            wish->rows = NULL;
        }
    }
    lk_dataset_unref(dataset);
    lk_store_close(held.env.store);
    lk_buf_deinit(&manifest);
}

/* -- a part --------------------------------------------------------------------------------------------------------- */

static void close_model(model *first)
{
    lk_alike_free(first->alike);
    lk_file_reader_unref(first->file);
    lk_dataset_unref(first->dataset);
}

/* false: nothing can be told from it. */
static bool open_model(const lot *l, const held_generation *held, lk_rollout_wish *wish, model *out)
{
    lk_err ignored = {0};
    *out = (model){0};
    lk_rc rc =
        lk_dataset_open_manifest(&held->env, LK_LITERAL(LK_GENERATION_MANIFEST), &out->dataset, &ignored);
    if (rc != LK_OK || !is_ours(lk_dataset_manifest(out->dataset))) {
        return false;
    }
    rc =
        lk_file_reader_open(held->env.store, LK_LITERAL(DATA_KEY), 0, held->env.budget, &out->file, &ignored);
    if (rc == LK_OK && lk_alike_new(out->dataset, &l->form->schema, &out->alike, &ignored) != LK_OK) {
        out->alike = NULL;
    }
    return rc == LK_OK && lk_rollout_rows_load_from(l->env, l->form, wish->shard, wish->generation,
                              out->dataset, out->alike, &wish->rows, &ignored) == LK_OK;
}

static void load_all(const lot *l, lk_rollout_wish *wishes, const lk_store_wanted *files, size_t count,
    size_t model_at, lk_bytes manifest)
{
    held_generation held;
    model           first = {0};
    hold(&held, l->env, manifest, files[model_at].bytes);
    if (open_model(l, &held, &wishes[model_at], &first)) {
        for (size_t i = model_at + 1; i < count; i++) {
            if (files[i].whole) {
                load_like(l, &first, files[i].bytes, &wishes[i]);
            }
        }
    }
    close_model(&first);
    lk_store_close(held.env.store);
}

static lk_bytes key_of(const lk_rollout_wish *wish, const char *name, lk_arena *arena)
{
    return lk_shard_key(
        wish->shard, lk_arena_format(arena, "%.*s/%s", LK_FMT(wish->generation->path), name), arena);
}

/* The files, and behind them the manifest of the first; of another one when that is not here. */
static lk_rc fetch(const lot *l, lk_rollout_wish *wishes, size_t count, lk_arena *arena, lk_err *err)
{
    lk_store_wanted *wanted = lk_arena_take(arena, (count + 1) * sizeof *wanted);
    lk_store_wanted *manifest = &wanted[count];
    size_t           at = 0;
    for (size_t i = 0; i < count; i++) {
        wanted[i] = (lk_store_wanted){.key = key_of(&wishes[i], DATA_KEY, arena)};
    }
    *manifest = (lk_store_wanted){.key = key_of(&wishes[0], LK_GENERATION_MANIFEST, arena)};
    lk_rc rc = lk_store_fetch(l->env->store, wanted, count + 1, arena, err);
    while (at < count && !wanted[at].whole) {
        at++;
    }
    if (rc == LK_OK && at > 0 && at < count) {
        manifest->key = key_of(&wishes[at], LK_GENERATION_MANIFEST, arena);
        rc = lk_store_fetch(l->env->store, manifest, 1, arena, err);
    }
    if (rc == LK_OK && at < count && manifest->whole) {
        load_all(l, wishes, wanted, count, at, manifest->bytes);
    }
    return rc;
}

static lk_rc fetch_part(const lot *l, size_t from, lk_err *err)
{
    lk_arena arena = {0};
    lk_err   full = {0};
    size_t   count = l->count - from < l->part ? l->count - from : l->part;
    uint64_t most = (uint64_t)(count + 1) * LK_STORE_SMALL_BYTES;
    if (l->env->budget != NULL && lk_budget_take(l->env->budget, most, &full) != LK_OK) {
        return LK_OK; /* one by one they take less at a time */
    }
    lk_rc rc = fetch(l, l->wishes + from, count, &arena, err);
    lk_arena_close(&arena);
    if (l->env->budget != NULL) {
        lk_budget_give(l->env->budget, most);
    }
    return rc;
}

static lk_rc fetch_parts(void *context, size_t fetcher, lk_err *err)
{
    const lot *l = context;
    lk_rc      rc = LK_OK;
    for (size_t from = fetcher * l->part; rc == LK_OK && from < l->count; from += FETCHERS * l->part) {
        rc = fetch_part(l, from, err);
    }
    return rc;
}

lk_rc lk_rollout_rows_fetch(const lk_lance_env *env, lk_rollout_form *form, lk_pool *pool,
    lk_rollout_wish *wishes, size_t count, lk_err *err)
{
    lot l = {.env = env,
        .form = form,
        .wishes = wishes,
        .count = count,
        .part = (count + FETCHERS - 1) / FETCHERS};
    l.part = l.part < PART_MIN ? PART_MIN : l.part < PART_MAX ? l.part : PART_MAX;
    size_t parts = (count + l.part - 1) / l.part;
    return lk_each(pool, parts < FETCHERS ? parts : FETCHERS, fetch_parts, &l, err);
}
