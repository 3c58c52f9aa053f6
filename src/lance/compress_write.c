/* compress_write.c - see compress.h: blocks as readers expect them, a size in front. */
#include "lance/compress.h"

#include <lz4.h>
#include <zstd.h>

static void put_zstd(int level, lk_bytes bytes, lk_buf *out)
{
    size_t at = out->size, room = ZSTD_compressBound(bytes.size);
    lk_buf_reserve(out, 8 + room);
    lk_store_u64(out->data + at, bytes.size);
    size_t done = ZSTD_compress(out->data + at + 8, room, bytes.data, bytes.size, level);
    LK_ASSERT(!ZSTD_isError(done)); /* there is room for the worst */
    out->size += 8 + done;
}

static void put_lz4(lk_bytes bytes, lk_buf *out)
{
    size_t at = out->size;
    int    room = LZ4_compressBound((int)bytes.size);
    lk_buf_reserve(out, 4 + (size_t)room);
    lk_store_u32(out->data + at, (uint32_t)bytes.size);
    int done = LZ4_compress_default(bytes.data, out->data + at + 4, (int)bytes.size, room);
    LK_ASSERT(done > 0);
    out->size += 4 + (size_t)done;
}

void lk_compress(lk_scheme scheme, int level, lk_bytes bytes, lk_buf *out)
{
    LK_ASSERT(bytes.size <= LK_COMPRESS_BYTES_MAX);
    if (scheme == LK_SCHEME_ZSTD) {
        put_zstd(level, bytes, out);
    } else {
        put_lz4(bytes, out);
    }
}
