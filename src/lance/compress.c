/* compress.c - see compress.h. */
#include "lance/compress.h"

#include "lance/cpu.h"

#include <lz4.h>
#include <zstd.h>

static const uint32_t zstd_magic = 0xfd2fb528;
static const uint64_t fsst_magic = 0x46535354; /* "FSST" */
enum { DECOMPRESSED_MAX = INT32_MAX, ZSTD_CHECKSUM_RESERVED = 0x10 };

void lk_zstd_deinit(lk_zstd *zstd)
{
    (void)ZSTD_freeDCtx(zstd->state);
    zstd->state = NULL;
}

/* Old writers left the size out: the block begins with a frame header whose unused bit is zero. */
static bool bare_frame(lk_bytes block)
{
    return block.size >= 5 && lk_load_u32(block.data) == zstd_magic &&
           (block.data[4] & ZSTD_CHECKSUM_RESERVED) == 0;
}

static lk_rc damaged(const char *what, lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "%s", what);
}

lk_rc lk_decompressed_size(lk_scheme scheme, lk_bytes block, size_t *size, lk_err *err)
{
    uint64_t stated = 0;
    if (scheme == LK_SCHEME_LZ4) {
        if (block.size < 4) {
            return damaged("an LZ4 block without a size", err);
        }
        stated = lk_load_u32(block.data);
    } else if (bare_frame(block)) {
        stated = ZSTD_getFrameContentSize(block.data, block.size);
        if (stated == ZSTD_CONTENTSIZE_ERROR || stated == ZSTD_CONTENTSIZE_UNKNOWN) {
            return damaged("a zstd frame without a size", err);
        }
    } else {
        if (block.size < 8) {
            return damaged("a zstd block without a size", err);
        }
        stated = lk_load_u64(block.data);
    }
    if (stated > DECOMPRESSED_MAX) {
        return lk_fail(err, LK_E_LIMIT, "a block of %llu bytes", (unsigned long long)stated);
    }
    *size = (size_t)stated;
    return LK_OK;
}

static lk_rc unzstd(lk_zstd *zstd, lk_bytes frame, uint8_t *out, size_t size, lk_err *err)
{
    if (zstd->state == NULL) {
        zstd->state = ZSTD_createDCtx();
        LK_ASSERT(zstd->state != NULL);
    }
    size_t done = ZSTD_decompressDCtx(zstd->state, out, size, frame.data, frame.size);
    return done == size ? LK_OK : damaged("a zstd block is damaged", err);
}

lk_rc lk_decompress(lk_zstd *zstd, lk_scheme scheme, lk_bytes block, uint8_t *out, size_t size, lk_err *err)
{
    if (scheme == LK_SCHEME_ZSTD) {
        size_t skip = bare_frame(block) ? 0 : 8;
        return unzstd(zstd, (lk_bytes){block.data + skip, block.size - skip}, out, size, err);
    }
    if (size == 0) {
        return LK_OK;
    }
    if (block.size - 4 > INT32_MAX) {
        return damaged("an LZ4 block is too large", err);
    }
    int done = LZ4_decompress_safe(block.data + 4, (char *)out, (int)(block.size - 4), (int)size);
    return done >= 0 && (size_t)done == size ? LK_OK : damaged("an LZ4 block is damaged", err);
}

lk_rc lk_fsst_read_table(lk_bytes table, lk_fsst *out, lk_err *err)
{
    *out = (lk_fsst){0};
    if (table.size < 8 || lk_load_u64(table.data) >> 32 != fsst_magic) {
        return damaged("not an FSST symbol table", err);
    }
    uint64_t header = lk_load_u64(table.data);
    size_t   count = header & 0xff;
    out->plain = (header >> 24 & 1) == 0;
    out->count = (uint8_t)count;
    if (out->plain) {
        return LK_OK;
    }
    if (count > LK_FSST_ESCAPE || table.size < 8 + count * 9) {
        return damaged("an FSST symbol table is short", err);
    }
    for (size_t code = 0; code < count; code++) {
        uint8_t length = (uint8_t)table.data[8 + count * 8 + code];
        if (length == 0 || length > LK_FSST_SYMBOL_BYTES) {
            return damaged("an FSST symbol has no length", err);
        }
        out->symbols[code] = lk_load_u64(table.data + 8 + code * 8);
        out->lengths[code] = length;
    }
    return LK_OK;
}

/* One code at a time: the ends of values, and escapes. */
static uint8_t *decode_slowly(const lk_fsst *fsst, const uint8_t *in, const uint8_t *end, uint8_t *out)
{
    while (in < end) {
        uint8_t code = *in++;
        if (code == LK_FSST_ESCAPE) {
            if (in == end) {
                return NULL;
            }
            *out++ = *in++;
        } else {
            if (fsst->lengths[code] == 0) {
                return NULL;
            }
            memcpy(out, &fsst->symbols[code], 8);
            out += fsst->lengths[code];
        }
    }
    return out;
}

/* Whether one of the four bytes is 0xff. */
static bool has_escape(uint32_t codes)
{
    return ((~codes - 0x01010101U) & codes & 0x80808080U) != 0;
}

uint8_t *lk_fsst_decode(const lk_fsst *fsst, const uint8_t *in, size_t size, uint8_t *out)
{
    const uint8_t *end = in + size;
    while (end - in >= 4) {
        uint32_t codes = lk_load_u32(in);
        if (has_escape(codes)) {
            out = decode_slowly(fsst, in, in + (in[0] == LK_FSST_ESCAPE ? 2 : 1), out);
            if (out == NULL) {
                return NULL;
            }
            in += in[0] == LK_FSST_ESCAPE ? 2 : 1;
            continue;
        }
        uint8_t a = (uint8_t)codes, b = (uint8_t)(codes >> 8), c = (uint8_t)(codes >> 16),
                d = (uint8_t)(codes >> 24);
        memcpy(out, &fsst->symbols[a], 8);
        out += fsst->lengths[a];
        memcpy(out, &fsst->symbols[b], 8);
        out += fsst->lengths[b];
        memcpy(out, &fsst->symbols[c], 8);
        out += fsst->lengths[c];
        memcpy(out, &fsst->symbols[d], 8);
        out += fsst->lengths[d];
        if (fsst->lengths[a] == 0 || fsst->lengths[b] == 0 || fsst->lengths[c] == 0 ||
            fsst->lengths[d] == 0) {
            return NULL;
        }
        in += 4;
    }
    return decode_slowly(fsst, in, end, out);
}

/* Whether every byte is a symbol's code, without an escape. */
LK_VECTOR static bool all_below(const uint8_t *in, size_t size, uint8_t count)
{
    uint8_t highest = 0;
    for (size_t at = 0; at < size; at++) {
        highest = in[at] > highest ? in[at] : highest;
    }
    return size == 0 || highest < count;
}

uint8_t *lk_fsst_decode_all(
    const lk_fsst *fsst, const uint8_t *in, size_t size, uint8_t *out, uint32_t base, uint32_t *positions)
{
    uint8_t *begin = out - base;
    size_t   at = 0;
    if (all_below(in, size, fsst->count)) {
        uint32_t position = base;
        for (; at < size; at++) {
            uint8_t code = in[at];
            memcpy(begin + position, &fsst->symbols[code], 8);
            positions[at] = position;
            position += fsst->lengths[code];
        }
        positions[size] = position;
        return begin + position;
    }
    while (at < size) {
        positions[at] = (uint32_t)(out - begin);
        size_t step = in[at] == LK_FSST_ESCAPE ? 2 : 1;
        if (size - at < step) {
            return NULL;
        }
        out = decode_slowly(fsst, in + at, in + at + step, out);
        if (out == NULL) {
            return NULL;
        }
        positions[at + step - 1] = step == 2 ? (uint32_t)(out - begin) : positions[at];
        at += step;
    }
    positions[size] = (uint32_t)(out - begin);
    return out;
}
