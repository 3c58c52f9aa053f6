/* unsealed.c - see unsealed.h. */
#include "rollout/unsealed.h"

#include "arrow/schema.h"

size_t lk_unsealed_count(const lk_unsealed *u)
{
    return u->ids.size / sizeof(lk_bytes);
}

bool lk_unsealed_takes(const lk_unsealed *u, const lk_generation_rows *rows)
{
    lk_id_place ignored;
    bool        takes = u->known == NULL || lk_generation_same_columns(&u->schema, rows->schema);
    for (size_t i = 0; takes && u->known != NULL && i < rows->row_count; i++) {
        takes = !lk_id_map_find(u->known, rows->ids[i], &ignored);
    }
    return takes;
}

lk_rc lk_unsealed_add(
    lk_unsealed *u, const lk_generation_rows *rows, uint64_t position, uint64_t now_ms, lk_err *err)
{
    if (u->known == NULL) {
        lk_rc rc = lk_schema_copy(rows->schema, &u->schema, err);
        if (rc != LK_OK) {
            return rc;
        }
        u->known = lk_id_map_new(rows->row_count);
        u->since_ms = now_ms;
    }
    for (size_t i = 0; i < rows->batch_count; i++) {
        lk_shared_array *batch = lk_shared_array_ref(rows->batches[i]);
        lk_buf_append(&u->batches, &batch, sizeof(lk_shared_array *));
        u->bytes += lk_array_bytes(&u->schema, lk_shared_array_get(batch));
    }
    for (size_t i = 0; i < rows->row_count; i++) {
        lk_bytes id = lk_arena_copy(&u->texts, rows->ids[i]);
        lk_buf_append(&u->ids, &id, sizeof id);
        (void)lk_id_map_add(u->known, id, (lk_id_place){0});
    }
    u->position = position;
    return LK_OK;
}

bool lk_unsealed_is_full(const lk_unsealed *u)
{
    return lk_unsealed_count(u) >= LK_ROLLOUT_UNSEALED_ROWS_MAX || u->bytes >= LK_ROLLOUT_UNSEALED_BYTES_MAX;
}

lk_generation_rows lk_unsealed_rows(const lk_unsealed *u)
{
    return (lk_generation_rows){.schema = &u->schema,
        .batches = (lk_shared_array *const *)(const void *)u->batches.data,
        .batch_count = u->batches.size / sizeof(lk_shared_array *),
        .ids = (const lk_bytes *)(const void *)u->ids.data,
        .row_count = lk_unsealed_count(u)};
}

void lk_unsealed_clear(lk_unsealed *u)
{
    for (size_t i = 0; i < u->batches.size / sizeof(lk_shared_array *); i++) {
        lk_shared_array_unref(((lk_shared_array **)(void *)u->batches.data)[i]);
    }
    lk_schema_release(&u->schema);
    lk_buf_deinit(&u->batches);
    lk_buf_deinit(&u->ids);
    lk_arena_close(&u->texts);
    lk_id_map_free(u->known);
    *u = (lk_unsealed){0};
}
