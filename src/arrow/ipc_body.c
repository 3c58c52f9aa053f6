/*
 * ipc_body.c - bodies that arrays point into, and decompression (ipc.h, ipc_priv.h).
 *
 * Invariant: what a body and its extra blocks take is charged to the budget before it is allocated and given
 * back when the last array is gone. Threads: extras are added before the body is shared.
 */
#include "arrow/ipc_priv.h"

#include "base/limits.h"

#include <lz4frame.h>
#include <stdlib.h>
#include <zstd.h>

struct lk_ipc_body {
    lk_keeper  keeper;
    lk_budget *budget;
    size_t     charged; /* also counted without a budget, against LK_IPC_BODY_BYTES_MAX */
    void      *data;
    size_t     size;
    bool       borrowed; /* data: it is somebody else's */
    void     **extras;
    size_t     extra_count, extra_room;
};

static void free_body(lk_keeper *keeper)
{
    lk_ipc_body *body = (lk_ipc_body *)keeper;
    for (size_t i = 0; i < body->extra_count; i++) {
        free(body->extras[i]);
    }
    free(body->extras);
    if (!body->borrowed) {
        free(body->data);
    }
    if (body->budget != NULL) {
        lk_budget_give(body->budget, body->charged);
    }
    free(body);
}

static lk_rc charge(lk_ipc_body *body, size_t size, lk_err *err)
{
    if (size > LK_IPC_BODY_BYTES_MAX || body->charged > LK_IPC_BODY_BYTES_MAX - size) {
        lk_rc rc = lk_fail(err, LK_E_LIMIT, "IPC body of %zu bytes", size);
        return lk_detail(err, "one Arrow message holds more than %llu bytes",
                   (unsigned long long)LK_IPC_BODY_BYTES_MAX),
               rc;
    }
    lk_rc rc = body->budget == NULL ? LK_OK : lk_budget_take(body->budget, size, err);
    if (rc == LK_OK) {
        body->charged += size;
    }
    return rc;
}

lk_rc lk_ipc_body_new(size_t size, lk_budget *budget, lk_ipc_body **out, lk_err *err)
{
    lk_ipc_body *body = calloc(1, sizeof *body);
    LK_ASSERT(body != NULL);
    lk_keeper_init(&body->keeper, free_body);
    body->budget = budget;
    lk_rc rc = charge(body, size, err);
    if (rc == LK_OK) {
        rc = lk_block_new(size, &body->data, err);
    }
    if (rc != LK_OK) {
        lk_ipc_body_unref(body);
        return rc;
    }
    body->size = size;
    *out = body;
    return LK_OK;
}

lk_ipc_body *lk_ipc_body_of(lk_bytes bytes, lk_budget *budget)
{
    lk_ipc_body *body = calloc(1, sizeof *body);
    LK_ASSERT(body != NULL);
    lk_keeper_init(&body->keeper, free_body);
    body->budget = budget;
    body->data = (void *)(uintptr_t)bytes.data; /* only read */
    body->size = bytes.size;
    body->borrowed = true;
    return body;
}

void *lk_ipc_body_data(lk_ipc_body *body)
{
    return body->data;
}

size_t lk_ipc_body_size(const lk_ipc_body *body)
{
    return body->size;
}

void lk_ipc_body_unref(lk_ipc_body *body)
{
    if (body != NULL) {
        lk_keeper_unref(&body->keeper);
    }
}

lk_keeper *lk_ipc_body_keeper(lk_ipc_body *body)
{
    return &body->keeper;
}

lk_rc lk_ipc_body_extra(lk_ipc_body *body, size_t size, void **out, lk_err *err)
{
    lk_rc rc = charge(body, size, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (body->extra_count == body->extra_room) {
        size_t room = body->extra_room == 0 ? 8 : 2 * body->extra_room;
        void **more = realloc(body->extras, room * sizeof *more);
        LK_ASSERT(more != NULL);
        body->extras = more;
        body->extra_room = room;
    }
    rc = lk_block_new(size, out, err); /* what was charged is given back with the body */
    if (rc == LK_OK) {
        body->extras[body->extra_count++] = *out;
    }
    return rc;
}

/* -- decompression ----------------------------------------------------------------------------------- */

static bool unpack_lz4(lk_bytes in, void *out, size_t out_size)
{
    LZ4F_dctx *context = NULL;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION))) {
        return false;
    }
    size_t in_at = 0, out_at = 0, hint = 1;
    while (hint != 0) {
        size_t in_step = in.size - in_at, out_step = out_size - out_at;
        hint = LZ4F_decompress(context, (char *)out + out_at, &out_step, in.data + in_at, &in_step, NULL);
        if (LZ4F_isError(hint) || (in_step == 0 && out_step == 0)) {
            break;
        }
        in_at += in_step;
        out_at += out_step;
    }
    LZ4F_freeDecompressionContext(context);
    return hint == 0 && in_at == in.size && out_at == out_size;
}

static bool unpack_zstd(lk_bytes in, void *out, size_t out_size)
{
    size_t size = ZSTD_decompress(out, out_size, in.data, in.size);
    return !ZSTD_isError(size) && size == out_size;
}

lk_rc lk_ipc_decompress(
    lk_ipc_body *body, int codec, lk_bytes in, const uint8_t **out, size_t *out_size, lk_err *err)
{
    *out = NULL;
    *out_size = 0;
    if (in.size == 0) {
        return LK_OK;
    }
    if (in.size < 8) {
        return lk_ipc_bad(err, "a compressed buffer is cut short");
    }
    int64_t size = (int64_t)lk_load_u64(in.data);
    in = (lk_bytes){in.data + 8, in.size - 8};
    if (size == -1) { /* stored as it is, since compression did not pay */
        *out = (const uint8_t *)in.data;
        *out_size = in.size;
        return LK_OK;
    }
    if (size < 0) {
        return lk_ipc_bad(err, "a compressed buffer has a negative length");
    }
    void *block = NULL;
    lk_rc rc = lk_ipc_body_extra(body, (size_t)size, &block, err);
    if (rc != LK_OK) {
        return rc;
    }
    bool whole =
        codec == LK_CODEC_LZ4 ? unpack_lz4(in, block, (size_t)size) : unpack_zstd(in, block, (size_t)size);
    if (!whole) {
        return lk_ipc_bad(err, "a compressed buffer does not decompress to its length");
    }
    *out = block;
    *out_size = (size_t)size;
    return LK_OK;
}
