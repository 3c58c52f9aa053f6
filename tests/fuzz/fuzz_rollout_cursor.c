/* fuzz_rollout_cursor.c - cursors: what is read is written so that it reads as the same. */
#include "rollout/cursor.h"

#include "base/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const lk_rollout_cursor *a, const lk_rollout_cursor *b)
{
    return a->kind == b->kind && a->base_version == b->base_version && a->base_identity == b->base_identity &&
           a->pin_count == b->pin_count &&
           (a->kind == LK_ROLLOUT_CURSOR_TAIL ||
               (a->question == b->question && a->key.created_at == b->key.created_at &&
                   lk_bytes_equal(a->key.id, b->key.id) &&
                   lk_bytes_equal(a->key.rollout_id, b->key.rollout_id)));
}

/* The text of a message: its checksum is right, so what lies behind it is reached. */
static void put_text(const uint8_t *data, size_t size, lk_buf *out)
{
    lk_buf message = {0};
    char   crc[4];
    lk_buf_append(&message, data, size);
    lk_store_u32(crc, lk_crc32c(0, data, size));
    lk_buf_append(&message, crc, sizeof crc);
    lk_base64_append(out, lk_buf_view(&message));
    for (size_t i = 0; i < out->size; i++) {
        char c = out->data[i];
        out->data[i] = (char)(c == '+' ? '-' : c == '/' ? '_' : c);
    }
    lk_buf_deinit(&message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_arena          arena = {0};
    lk_err            err = {0};
    lk_buf            text = {0}, whole = {0};
    lk_rollout_cursor cursor, again;
    put_text(data, size, &whole);
    lk_rc as_text = lk_rollout_cursor_read((lk_bytes){(const char *)data, size}, &arena, &cursor, &err);
    LK_ASSERT(as_text == LK_OK || as_text == LK_E_INVALID_REQUEST);
    if (lk_rollout_cursor_read(lk_buf_view(&whole), &arena, &cursor, &err) == LK_OK &&
        lk_rollout_cursor_write(&cursor, &text, &err) == LK_OK) {
        LK_ASSERT(lk_rollout_cursor_read(lk_buf_view(&text), &arena, &again, &err) == LK_OK);
        LK_ASSERT(same(&cursor, &again));
    }
    lk_buf_deinit(&text);
    lk_buf_deinit(&whole);
    lk_arena_close(&arena);
    return 0;
}
