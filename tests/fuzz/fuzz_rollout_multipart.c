/* fuzz_rollout_multipart.c - bodies of parts: every part lies within the body. */
#include "rollout/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_arena     arena = {0};
    lk_err       err = {0};
    lk_multipart m;
    lk_part      part;
    lk_bytes     body = {(const char *)data, size}, boundary;
    bool         found = true;
    (void)lk_multipart_boundary(body, &boundary);
    if (lk_multipart_open(body, LK_LITERAL("XX"), &arena, &m, &err) == LK_OK) {
        while (found && lk_multipart_next(&m, &arena, &part, &found, &err) == LK_OK) {
            LK_ASSERT(!found || (part.content.data >= body.data &&
                                    part.content.data + part.content.size <= body.data + body.size));
        }
    }
    lk_arena_close(&arena);
    return 0;
}
