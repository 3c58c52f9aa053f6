/* fuzz_rollout_shard.c - shard manifests: what is decoded is encoded so that it decodes to the same. */
#include "rollout/shard_manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_arena          arena = {0};
    lk_err            err = {0};
    lk_buf            first = {0}, second = {0};
    lk_shard_manifest manifest, again;
    uint64_t          position;
    (void)lk_shard_position_parse((lk_bytes){(const char *)data, size}, LK_LITERAL(".binpb"), &position);
    if (lk_shard_manifest_decode((lk_bytes){(const char *)data, size}, &arena, &manifest, &err) == LK_OK) {
        lk_shard_manifest_encode(&manifest, &first);
        LK_ASSERT(lk_shard_manifest_decode(lk_buf_view(&first), &arena, &again, &err) == LK_OK);
        LK_ASSERT(again.generation_count == manifest.generation_count && again.version == manifest.version);
        lk_shard_manifest_encode(&again, &second);
        LK_ASSERT(lk_bytes_equal(lk_buf_view(&first), lk_buf_view(&second)));
    }
    lk_buf_deinit(&first);
    lk_buf_deinit(&second);
    lk_arena_close(&arena);
    return 0;
}
