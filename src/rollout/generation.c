/* generation.c - see generation.h. */
#include "rollout/generation.h"

#include "io/prefix.h"
#include "lance/commit.h"
#include "rollout/bloom.h"
#include "rollout/pk_index.h"
#include "rollout/shard.h"

#include <inttypes.h>
#include <stdlib.h>

/* -- the rows as a stream ---------------------------------------------------------------------------------------- */

typedef struct row_stream {
    lk_batches                base;
    const lk_generation_rows *rows;
    size_t                    at;
} row_stream;

static lk_rc next_rows(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    row_stream *self = (row_stream *)batches;
    (void)err;
    *out = (struct ArrowArray){0};
    if (self->at < self->rows->batch_count) {
        lk_shared_array *batch = self->rows->batches[self->at++];
        lk_shared_batch_slice(batch, 0, lk_shared_array_get(batch)->length, out);
    }
    return LK_OK;
}

static lk_rc write_dataset(const lk_lance_env *env, const lk_generation_rows *rows, lk_err *err)
{
    row_stream       stream = {.base = {.next = next_rows}, .rows = rows};
    lk_dataset      *dataset = NULL;
    lk_write_options options = {
        .file_version = LK_FILE_VERSION_2_1, .max_rows_per_file = rows->row_count, .new_place = true};
    lk_rc rc = lk_schema_copy(rows->schema, &stream.base.schema, err);
    if (rc == LK_OK) {
        rc = lk_dataset_create_filled(env, lk_direct_committer(), &stream.base, &options, &dataset, err);
    }
    lk_dataset_unref(dataset);
    lk_schema_release(&stream.base.schema);
    return rc;
}

static lk_rc write_bloom(lk_store *store, const lk_generation_rows *rows, lk_err *err)
{
    bool     created = false;
    uint8_t *filter = calloc(1, LK_BLOOM_SIZE);
    LK_ASSERT(filter != NULL);
    for (size_t i = 0; i < rows->row_count; i++) {
        lk_bloom_add(filter, lk_bloom_hash(rows->ids[i]));
    }
    lk_rc rc = lk_store_put_if_absent(store, LK_LITERAL("bloom_filter.bin"),
        (lk_bytes){(const char *)filter, LK_BLOOM_SIZE}, &created, err);
    free(filter);
    return rc == LK_OK && !created ? lk_fail(err, LK_E_CONFLICT, "the generation's directory is in use") : rc;
}

/* -- the directory ----------------------------------------------------------------------------------------------- */

static lk_bytes new_path(lk_random *random, uint64_t number, lk_arena *arena)
{
    uint32_t salt = (uint32_t)lk_random_u64(random);
    return lk_arena_format(arena, "%08" PRIx32 "_gen_%" PRIu64, salt, number);
}

lk_rc lk_generation_write(const lk_lance_env *env, lk_uuid shard, uint64_t number,
    const lk_generation_rows *rows, lk_arena *arena, lk_bytes *path, lk_err *err)
{
    lk_lance_env inside = *env;
    *path = new_path(env->random, number, arena);
    inside.store = lk_prefix_store_new(env->store, lk_shard_key(shard, *path, arena));
    inside.files = NULL;
    lk_rc rc =
        write_bloom(inside.store, rows, err); /* the first object: whose it is, is whose the directory is */
    if (rc == LK_OK) {
        rc = write_dataset(&inside, rows, err);
    }
    if (rc == LK_OK) {
        rc = lk_pk_index_write(inside.store, rows->ids, rows->row_count, err);
    }
    if (rc != LK_OK) {
        err->maybe_applied = false; /* nothing refers to it */
        lk_context(err, "generation %" PRIu64, number);
    }
    lk_store_close(inside.store);
    return rc;
}

lk_rc lk_generation_remove(lk_store *store, lk_uuid shard, lk_bytes path, lk_err *err)
{
    lk_arena arena = {0};
    lk_rc    rc = lk_store_remove_tree(store, lk_shard_key(shard, path, &arena), err);
    lk_arena_close(&arena);
    return rc;
}
