/*
 * dataset.c - opening a table at one version and what an open version knows. Where its rows lie is source.c,
 * appending append.c, scanning scan.c.
 */
#include "lance/dataset_priv.h"

#include "lance/pb_table.h"
#include "lance/row_identity.h"
#include "lance/versions.h"

#include <inttypes.h>
#include <stdlib.h>

/* -- open -------------------------------------------------------------------------------------------- */

lk_dataset *lk_dataset_new(const lk_lance_env *env, lk_manifest *manifest, lk_file_cache *files)
{
    lk_dataset *dataset = calloc(1, sizeof *dataset);
    LK_ASSERT(dataset != NULL);
    atomic_init(&dataset->refs, 1);
    dataset->env = *env;
    dataset->manifest = manifest;
    files = files == NULL ? env->files : files;
    dataset->files = files == NULL ? lk_file_cache_new(env->store, env->budget, env->open_files)
                                   : lk_file_cache_ref(files);
    dataset->deletions = calloc(manifest->fragment_count + 1, sizeof(lk_deletion *));
    dataset->bases = calloc(manifest->base_count + 1, sizeof *dataset->bases);
    LK_ASSERT(dataset->deletions != NULL && dataset->bases != NULL);
    dataset->identity = lk_row_identity_new(manifest);
    lk_mutex_init(&dataset->mutex, LK_RANK_SCAN);
    return dataset;
}

lk_rc lk_dataset_open_manifest(const lk_lance_env *env, lk_bytes manifest_key, lk_dataset **out, lk_err *err)
{
    return lk_dataset_open_like(env, manifest_key, NULL, out, err);
}

lk_rc lk_dataset_open_like(
    const lk_lance_env *env, lk_bytes manifest_key, const lk_dataset *like, lk_dataset **out, lk_err *err)
{
    lk_manifest *manifest = NULL;
    lk_rc        rc =
        lk_manifest_read_like(env->store, manifest_key, like == NULL ? NULL : like->manifest, &manifest, err);
    if (rc == LK_OK) {
        *out = lk_dataset_new(env, manifest, NULL);
    }
    return rc;
}

static lk_rc open_named(
    const lk_lance_env *env, uint64_t version, lk_manifest_naming naming, lk_dataset **out, lk_err *err)
{
    lk_arena     arena = {0};
    lk_manifest *manifest = NULL;
    lk_bytes     key = lk_manifest_key(version, naming, &arena);
    lk_rc        rc = lk_manifest_read(env->store, key, &manifest, err);
    if (rc == LK_OK && manifest->version != version) {
        rc = lk_fail(
            err, LK_E_CORRUPT_FILE, "%.*s says it is version %" PRIu64, LK_FMT(key), manifest->version);
        lk_manifest_close(manifest);
    }
    if (rc == LK_OK) {
        *out = lk_dataset_new(env, manifest, NULL);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc open_latest(const lk_lance_env *env, lk_dataset **out, lk_err *err)
{
    lk_version latest = {0};
    bool       found = false;
    lk_rc      rc = lk_versions_latest(env->store, &latest, &found, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (!found) {
        return lk_fail(err, LK_E_NOT_FOUND, "no version of %.*s", LK_FMT(env->store->uri));
    }
    return open_named(env, latest.number, latest.naming, out, err);
}

lk_rc lk_dataset_open(const lk_lance_env *env, uint64_t version, lk_dataset **out, lk_err *err)
{
    if (version == 0) {
        return open_latest(env, out, err);
    }
    lk_err first = {0};
    lk_rc  rc = open_named(env, version, LK_MANIFEST_V2, out, &first);
    if (rc == LK_E_NOT_FOUND) {
        return open_named(env, version, LK_MANIFEST_V1, out, err);
    }
    if (rc != LK_OK) {
        *err = first;
    }
    return rc;
}

lk_dataset *lk_dataset_ref(lk_dataset *dataset)
{
    atomic_fetch_add_explicit(&dataset->refs, 1, memory_order_relaxed);
    return dataset;
}

void lk_dataset_unref(lk_dataset *dataset)
{
    if (dataset == NULL || atomic_fetch_sub_explicit(&dataset->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < dataset->manifest->fragment_count; i++) {
        lk_deletion_close(dataset->deletions[i]);
    }
    free(dataset->deletions);
    if (dataset->env.budget != NULL) {
        lk_budget_give(dataset->env.budget, dataset->deletion_bytes);
    }
    lk_row_identity_free(dataset->identity, dataset);
    for (size_t i = 0; i < dataset->manifest->base_count; i++) {
        lk_file_cache_unref(dataset->bases[i].files);
        lk_store_close(dataset->bases[i].store);
    }
    free(dataset->bases);
    lk_file_cache_unref(dataset->files);
    lk_manifest_close(dataset->manifest);
    lk_mutex_deinit(&dataset->mutex);
    free(dataset);
}

/* -- what a version knows ---------------------------------------------------------------------------- */

uint64_t lk_dataset_version(const lk_dataset *dataset)
{
    return dataset->manifest->version;
}

const struct ArrowSchema *lk_dataset_schema(const lk_dataset *dataset)
{
    return &dataset->manifest->schema->arrow;
}

uint64_t lk_dataset_row_count(const lk_dataset *dataset)
{
    return lk_manifest_rows(dataset->manifest);
}

const lk_manifest *lk_dataset_manifest(const lk_dataset *dataset)
{
    return dataset->manifest;
}

size_t lk_dataset_bytes(const lk_dataset *dataset)
{
    lk_dataset *self = (lk_dataset *)(uintptr_t)dataset; /* only the mutex is touched */
    lk_mutex_lock(&self->mutex);
    size_t deletion_bytes = self->deletion_bytes;
    lk_mutex_unlock(&self->mutex);
    return sizeof *dataset + lk_manifest_bytes(dataset->manifest) + lk_file_cache_bytes(self->files) +
           deletion_bytes + dataset->manifest->fragment_count * sizeof(lk_deletion *);
}

lk_rc lk_dataset_versions(
    const lk_lance_env *env, lk_arena *arena, uint64_t **versions, size_t *count, lk_err *err)
{
    lk_version *found = NULL;
    lk_rc       rc = lk_versions_list(env->store, arena, &found, count, err);
    if (rc != LK_OK) {
        return rc;
    }
    *versions = lk_arena_take(arena, *count * sizeof **versions);
    for (size_t i = 0; i < *count; i++) {
        (*versions)[i] = found[i].number;
    }
    return LK_OK;
}

lk_rc lk_dataset_property(
    lk_dataset *dataset, lk_bytes key, lk_arena *arena, lk_bytes *value, bool *found, lk_err *err)
{
    lk_bytes       message = {0};
    lk_transaction transaction = {0};
    *found = false;
    *value = (lk_bytes){"", 0};
    lk_rc rc = lk_manifest_transaction(dataset->env.store, dataset->manifest, arena, &message, found, err);
    if (rc != LK_OK || !*found) {
        return rc;
    }
    *found = false;
    rc = lk_pb_transaction_decode(message, arena, &transaction, err);
    for (size_t i = 0; i < transaction.property_count && rc == LK_OK && !*found; i++) {
        *found = lk_bytes_equal(transaction.properties[i].key, key);
        *value = *found ? transaction.properties[i].value : *value;
    }
    return rc;
}
