#ifndef LK_LANCE_FIELD_OPTIONS_H
#define LK_LANCE_FIELD_OPTIONS_H
/*
 * field_options.h - what a field's metadata ("lance-encoding:...") asks of its pages. The reference's keys mean here
 * what they mean there; what is not asked for is chosen by looking at the values.
 *
 * Threads: immutable.
 */
#include "arrow/batch.h"
#include "base/err.h"

typedef enum lk_compression { /* of values, or of the items of a dictionary */
    LK_COMPRESSION_AUTO = 0,
    LK_COMPRESSION_NONE,
    LK_COMPRESSION_LZ4,
    LK_COMPRESSION_ZSTD,
    LK_COMPRESSION_FSST
} lk_compression;

typedef enum lk_structure {
    LK_STRUCTURE_AUTO = 0,
    LK_STRUCTURE_MINIBLOCK,
    LK_STRUCTURE_FULLZIP
} lk_structure;
typedef enum lk_split { LK_SPLIT_AUTO = 0, LK_SPLIT_OFF, LK_SPLIT_ON } lk_split;

typedef struct lk_field_options {
    lk_compression compression, dictionary_compression;
    int            level, dictionary_level; /* of zstd; 0: its default */
    lk_split       split;                   /* byte stream split, where there is a compression */
    lk_structure   structure;
    double         run_threshold;      /* runs a value at most; 0: by size alone */
    uint64_t       dictionary_divisor; /* at most one item in so many values */
    double         dictionary_ratio;   /* its size to that of the values */
    uint64_t       dictionary_bytes;   /* of the items */
    uint32_t       chunk_bytes;        /* of text in a mini-block; 0: the default */
} lk_field_options;

static inline bool lk_compression_is_general(lk_compression compression)
{
    return compression == LK_COMPRESSION_LZ4 || compression == LK_COMPRESSION_ZSTD;
}

/* Of a leaf field, in the column `root` (which alone says the structure). LK_E_INVALID_SCHEMA names a key whose value
 * means nothing. */
LK_MUST_CHECK lk_rc lk_field_options_read(
    const struct ArrowSchema *field, const struct ArrowSchema *root, lk_field_options *out, lk_err *err);

#endif
