#ifndef LK_LANCE_COMPRESS_H
#define LK_LANCE_COMPRESS_H
/*
 * compress.h - the byte compressions of Lance pages: LZ4 and zstd blocks, FSST texts.
 * LZ4: u32 size, raw block. zstd: u64 size, frame (old writers: the frame alone).
 * FSST (Boncz, Neumann, Leis, "FSST: Fast Random Access String Compression", 2020): one byte a symbol.
 *
 * Invariant: nothing is written past the room given, whatever the input says. Threads: lk_zstd is confined;
 * an lk_fsst is immutable.
 */
#include "base/bytes.h"
#include "base/err.h"
#include "lance/encoding.h"

typedef struct lk_zstd {
    void *state; /* reused from block to block */
} lk_zstd;
void lk_zstd_deinit(lk_zstd *zstd); /* idempotent */

/* The size after decompression, as the block states it. LK_E_CORRUPT_FILE, LK_E_LIMIT above 2 GiB. */
LK_MUST_CHECK lk_rc lk_decompressed_size(lk_scheme scheme, lk_bytes block, size_t *size, lk_err *err);

/* Decompresses into exactly `size` bytes. */
LK_MUST_CHECK lk_rc lk_decompress(
    lk_zstd *zstd, lk_scheme scheme, lk_bytes block, uint8_t *out, size_t size, lk_err *err);

/* Appends a block of these bytes (at most LK_COMPRESS_BYTES_MAX). level: of zstd, 0: its default. */
enum { LK_COMPRESS_BYTES_MAX = 0x7e000000 };
void lk_compress(lk_scheme scheme, int level, lk_bytes bytes, lk_buf *out);

enum { LK_FSST_CODES = 256, LK_FSST_ESCAPE = 255, LK_FSST_SYMBOL_BYTES = 8 };

typedef struct lk_fsst {
    bool     plain; /* values are stored as they are */
    uint8_t  count; /* codes below this have symbols */
    uint64_t symbols[LK_FSST_CODES];
    uint8_t  lengths[LK_FSST_CODES]; /* 0: no such code */
} lk_fsst;

LK_MUST_CHECK lk_rc lk_fsst_read_table(lk_bytes table, lk_fsst *out, lk_err *err);

/* Decodes one value; out has room for 8 bytes a code and 8 more. Returns the end, NULL for a bad code. */
uint8_t *lk_fsst_decode(const lk_fsst *fsst, const uint8_t *in, size_t size, uint8_t *out);

/* The same for neighbouring values as one stream: positions[i] is where the output of in[i] begins, behind
 * `base`; size + 1 of them. Without a branch a value, which is what short values cost. */
uint8_t *lk_fsst_decode_all(
    const lk_fsst *fsst, const uint8_t *in, size_t size, uint8_t *out, uint32_t base, uint32_t *positions);

#endif
