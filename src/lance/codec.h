#ifndef LK_LANCE_CODEC_H
#define LK_LANCE_CODEC_H
/*
 * codec.h - how the values of one mini-block chunk become values of a column. A codec is an encoding made
 * ready: tables built, inner codecs chosen. One family per file enc_*.c; a new encoding is a new file and a
 * line in lk_codec_new.
 *
 * Invariants:
 *   1. A chunk is untrusted bytes: a codec reads inside chunk->buffers only.
 *   2. append writes the values of `count` rows at column->rows and completes none (see column.h).
 *   3. start + count <= chunk->values; the column has room.
 *
 * Ownership: codecs live in the arena of the page they belong to. Threads: codecs are immutable; a scratch is
 * confined.
 */
#include "lance/column.h"
#include "lance/compress.h"
#include "lance/encoding.h"

typedef struct lk_chunk {
    lk_bytes buffers[LK_VALUE_BUFFERS_MAX]; /* each starts at a multiple of 8 bytes */
    size_t   buffer_count;
    uint32_t values;
} lk_chunk;

/* Working memory of one decoding thread, reused from chunk to chunk. */
typedef struct lk_scratch {
    lk_buffer_pool *pool;
    lk_buffer       bytes;  /* chunks as read */
    lk_buffer       levels; /* definition levels of a chunk */
    lk_buffer       block;  /* one unpacked block */
    lk_buffer       words;  /* dictionary indices, run values */
    lk_buffer       plain;  /* a decompressed buffer */
    lk_zstd         zstd;
} lk_scratch;
void lk_scratch_deinit(lk_scratch *scratch); /* idempotent */

typedef struct lk_codec lk_codec;
struct lk_codec {
    /* Appends rows [start, start + count) of the chunk. */
    lk_rc (*append)(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
        lk_column *column, lk_scratch *scratch, lk_err *err);
    /* Fixed widths of whole bytes only, else NULL: the same as plain words to `out`, which has `room` bytes
     * (at least count * bits / 8; with room for the whole chunk some codecs write behind the last value). */
    lk_rc (*words)(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count, uint8_t *out,
        size_t room, lk_scratch *scratch, lk_err *err);
    uint32_t        bits;    /* a row; 0: variable */
    bool            nulls;   /* lists of values that are all null: for columns of these */
    bool            sliced;  /* a part of a chunk costs no more than its share */
    size_t          buffers; /* value buffers that a chunk must have */
    const lk_codec *inner;
    const void     *state;
    uint32_t        param; /* the family's own number */
};

/* Chooses and prepares. LK_E_UNSUPPORTED_FORMAT by name where there is no codec for the encoding. */
LK_MUST_CHECK lk_rc lk_codec_new(
    const lk_encoding *encoding, lk_arena *arena, const lk_codec **out, lk_err *err);

/* Whether the codec's values are what the column stores. LK_E_CORRUPT_FILE. */
LK_MUST_CHECK lk_rc lk_codec_check(const lk_codec *codec, const lk_column *column, lk_err *err);

/* The families. Each fills *out or fails. */
LK_MUST_CHECK lk_rc lk_flat_codec(const lk_encoding *encoding, lk_codec *out, lk_err *err);
LK_MUST_CHECK lk_rc lk_split_codec(const lk_encoding *encoding, lk_codec *out, lk_err *err);
LK_MUST_CHECK lk_rc lk_inline_codec(const lk_encoding *encoding, lk_codec *out, lk_err *err);
LK_MUST_CHECK lk_rc lk_run_codec(const lk_encoding *encoding, lk_codec *out, lk_err *err);
LK_MUST_CHECK lk_rc lk_variable_codec(const lk_encoding *encoding, lk_codec *out, lk_err *err);
LK_MUST_CHECK lk_rc lk_fsst_codec(const lk_encoding *encoding, lk_arena *arena, lk_codec *out, lk_err *err);
LK_MUST_CHECK lk_rc lk_general_codec(
    const lk_encoding *encoding, lk_arena *arena, lk_codec *out, lk_err *err);
LK_MUST_CHECK lk_rc lk_packed_codec(
    const lk_encoding *encoding, lk_arena *arena, const lk_codec **out, lk_err *err);
LK_MUST_CHECK lk_rc lk_fsl_codec(const lk_encoding *encoding, lk_arena *arena, lk_codec *out, lk_err *err);

/* -- dictionaries ---------------------------------------------------------------------------------- */
/* Bytes behind those of a dictionary's texts that may be read. */
enum { LK_DICTIONARY_SLACK = 32 };

typedef struct lk_dictionary {
    uint64_t  count;
    uint32_t  width;   /* bytes an item; 0: variable */
    uint32_t  bits;    /* of an item; 1 of a boolean, which takes a byte; 0: variable */
    uint64_t *offsets; /* variable: count + 1, ascending, within bytes */
    uint64_t  longest; /* variable: bytes of the longest item */
    uint8_t  *bytes;
    size_t    size;
} lk_dictionary;

/* Decodes a page's dictionary block into the arena. *size: what it takes there. */
LK_MUST_CHECK lk_rc lk_dictionary_read(const lk_encoding *encoding, lk_bytes block, uint64_t count,
    lk_arena *arena, lk_scratch *scratch, lk_dictionary **out, lk_err *err);

/* The bytes of item `index`, which is clamped. */
lk_bytes lk_dictionary_item(const lk_dictionary *dictionary, uint64_t index);

/* The codec whose rows are items of the dictionary, by the indices that `indices` decodes. */
LK_MUST_CHECK lk_rc lk_dictionary_codec(const lk_dictionary *dictionary, const lk_codec *indices,
    lk_arena *arena, const lk_codec **out, lk_err *err);

/* -- blocks: levels and dictionary items ------------------------------------------------------------- */
/* Decodes a block of `count` fixed-width words into out (room for count words). bits must be what the
 * encoding says. LK_E_CORRUPT_FILE, LK_E_UNSUPPORTED_FORMAT. */
LK_MUST_CHECK lk_rc lk_block_words(const lk_encoding *encoding, lk_bytes block, uint64_t count, uint32_t bits,
    uint8_t *out, lk_scratch *scratch, lk_err *err);

/* The width of the words in a block encoding; 0: variable. */
uint32_t lk_block_bits(const lk_encoding *encoding);

/* Run lengths to words; used by both the mini-block and the block form. */
LK_MUST_CHECK lk_rc lk_runs_expand(lk_bytes values, lk_bytes lengths, uint32_t value_bits, uint64_t start,
    uint64_t count, uint8_t *out, lk_err *err);

/* One FastLanes block inside untrusted bytes. */
LK_MUST_CHECK lk_rc lk_packed_words(lk_bytes packed, uint32_t word_bits, uint32_t width, uint64_t count,
    uint8_t *out, lk_scratch *scratch, lk_err *err);

/* Reads a definition-level block: count levels of 16 bits. */
LK_MUST_CHECK lk_rc lk_levels_read(const lk_encoding *encoding, lk_bytes block, uint64_t count, uint16_t *out,
    lk_scratch *scratch, lk_err *err);

#endif
