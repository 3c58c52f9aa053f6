#ifndef LK_LANCE_V20_ENCODING_H
#define LK_LANCE_V20_ENCODING_H
/*
 * v20_encoding.h - how a page of a 2.0 file is encoded: a tree of array encodings whose leaves name buffers of
 * the page; taken from and turned into protobuf by pb_v20.c.
 *
 * Invariant: a parsed tree has every part its kinds need, buffer indices below the page's buffer count, and no
 * more than LK_ENCODING_DEPTH_MAX encodings inside each other. Nothing is known of the page's bytes yet. Nodes
 * and texts live in the arena. Threads: immutable.
 */
#include "base/arena.h"
#include "base/err.h"

typedef enum lk_v20_kind { /* = the field numbers of ArrayEncoding; nullable is three kinds */
    LK_V20_FLAT = 1,
    LK_V20_NULLABLE = 2, /* values and a validity */
    LK_V20_FIXED_SIZE_LIST = 3,
    LK_V20_LIST = 4,
    LK_V20_STRUCT = 5,
    LK_V20_BINARY = 6,
    LK_V20_DICTIONARY = 7,
    LK_V20_FSST = 8,
    LK_V20_PACKED_STRUCT = 9,
    LK_V20_BITPACKED = 10, /* values side by side */
    LK_V20_FIXED_SIZE_BINARY = 11,
    LK_V20_BITPACKED_BLOCKS = 12, /* FastLanes blocks of 1,024 values */
    LK_V20_ALL_NULL = 100
} lk_v20_kind;

typedef enum lk_v20_scheme { LK_V20_PLAIN, LK_V20_LZ4, LK_V20_ZSTD } lk_v20_scheme;

typedef struct lk_v20_array lk_v20_array;
struct lk_v20_array {
    lk_v20_kind         kind;
    uint32_t            bits;         /* FLAT: a value; packed: a packed value */
    uint32_t            word_bits;    /* packed: of a value, 8, 16, 32 or 64 */
    bool                is_signed;    /* BITPACKED: the highest packed bit is the sign */
    uint32_t            buffer;       /* FLAT, packed, PACKED_STRUCT: index of a page buffer */
    lk_v20_scheme       scheme;       /* FLAT: how the whole buffer is compressed */
    uint32_t            dimension;    /* FIXED_SIZE_LIST: items; FIXED_SIZE_BINARY: bytes */
    uint64_t            adjustment;   /* LIST, BINARY: an end of this and more is that of a null */
    uint64_t            item_count;   /* LIST: in the page; DICTIONARY: distinct */
    lk_bytes            symbol_table; /* FSST */
    const lk_v20_array *validity;     /* NULLABLE: bits */
    const lk_v20_array *indices;      /* LIST, BINARY: ends, 64 bits; DICTIONARY */
    const lk_v20_array *values; /* NULLABLE, FIXED_SIZE_LIST, BINARY, FIXED_SIZE_BINARY, FSST: what is inside;
                                          DICTIONARY: its items */
    const lk_v20_array *const *inner; /* PACKED_STRUCT: one a child */
    size_t                     inner_count;
};

/* The Any of a page with `buffer_count` buffers. LK_E_CORRUPT_FILE, LK_E_UNSUPPORTED_FORMAT by name. */
LK_MUST_CHECK lk_rc lk_pb_v20_page(
    lk_bytes any, size_t buffer_count, lk_arena *arena, const lk_v20_array **out, lk_err *err);

/* Appends the Any of an encoding. */
void lk_pb_v20_put_page(const lk_v20_array *array, lk_buf *out);

#endif
