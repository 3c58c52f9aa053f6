#ifndef LK_LANCE_ENCODING_H
#define LK_LANCE_ENCODING_H
/*
 * encoding.h - how a page says it is laid out: plain values, taken from or turned into protobuf by pb_file.
 *
 * Invariant: a parsed description has every part its kind needs (an lk_encoding that must have `values` has
 * them), numbers within the limits below, and no more than LK_ENCODING_DEPTH_MAX encodings inside each other.
 * Nothing is known of the page's bytes yet. Texts and nodes live in the arena. Threads: immutable.
 */
#include "base/arena.h"
#include "base/err.h"

enum {
    LK_ENCODING_DEPTH_MAX = 8, /* the reference nests four deep */
    LK_LAYERS_MAX = 64,        /* LK_SCHEMA_DEPTH_MAX structs and as many lists */
    LK_PACKED_FIELDS_MAX = 4096,
    LK_VALUE_BUFFERS_MAX = 12, /* of a chunk: fixed-size lists have one validity buffer a level */
    LK_PAGE_BUFFERS_MAX = 16,
    LK_SYMBOL_TABLE_BYTES_MAX = 8192 /* FSST writes 2,312 */
};

typedef enum lk_encoding_kind { /* = the field numbers of CompressiveEncoding */
    LK_ENCODING_NONE = 0,
    LK_ENCODING_FLAT = 1,
    LK_ENCODING_VARIABLE = 2,
    LK_ENCODING_CONSTANT = 3,
    LK_ENCODING_OUT_OF_LINE_BITPACKING = 4,
    LK_ENCODING_INLINE_BITPACKING = 5,
    LK_ENCODING_FSST = 6,
    LK_ENCODING_DICTIONARY = 7,
    LK_ENCODING_RLE = 8,
    LK_ENCODING_BYTE_STREAM_SPLIT = 9,
    LK_ENCODING_GENERAL = 10,
    LK_ENCODING_FIXED_SIZE_LIST = 11,
    LK_ENCODING_PACKED_STRUCT = 12,
    LK_ENCODING_VARIABLE_PACKED_STRUCT = 13
} lk_encoding_kind;

typedef enum lk_scheme { LK_SCHEME_LZ4 = 1, LK_SCHEME_ZSTD = 2 } lk_scheme;

typedef struct lk_encoding lk_encoding;

/* One member of a packed struct: `bits` wide, or after a length of `length_bits` bits. */
typedef struct lk_packed_field {
    const lk_encoding *values;
    uint32_t           bits, length_bits; /* one of them is 0 */
} lk_packed_field;

struct lk_encoding {
    lk_encoding_kind       kind;
    uint32_t               bits; /* FLAT: bits a value (0: packed away); bitpackings: of the unpacked word */
    uint32_t               items_per_value; /* FIXED_SIZE_LIST */
    bool                   has_validity;    /* FIXED_SIZE_LIST */
    lk_scheme              scheme;          /* GENERAL */
    lk_bytes               symbol_table;    /* FSST */
    const lk_encoding     *values;          /* out of line, FSST, RLE, split, GENERAL, list: what it holds */
    const lk_encoding     *lengths;         /* RLE: run lengths; VARIABLE: offsets */
    const lk_packed_field *fields;          /* both packed structs; the fixed one's have no values */
    size_t                 field_count;
};

typedef enum lk_layer { /* = RepDefLayer */
    LK_LAYER_ALL_VALID_ITEM = 1,
    LK_LAYER_ALL_VALID_LIST = 2,
    LK_LAYER_NULLABLE_ITEM = 3,
    LK_LAYER_NULLABLE_LIST = 4,
    LK_LAYER_EMPTYABLE_LIST = 5,
    LK_LAYER_NULL_AND_EMPTY_LIST = 6
} lk_layer;

static inline bool lk_layer_is_list(uint8_t layer)
{
    return layer != LK_LAYER_ALL_VALID_ITEM && layer != LK_LAYER_NULLABLE_ITEM;
}

/* Definition levels that the layer takes. */
static inline unsigned lk_layer_levels(uint8_t layer)
{
    return layer == LK_LAYER_NULL_AND_EMPTY_LIST ? 2 : layer >= LK_LAYER_NULLABLE_ITEM ? 1 : 0;
}

typedef enum lk_layout_kind { /* = the field numbers of PageLayout */
    LK_PAGE_MINIBLOCK = 1,
    LK_PAGE_CONSTANT = 2,
    LK_PAGE_FULLZIP = 3 /* 4, a blob's, is one of these with is_blob */
} lk_layout_kind;

typedef struct lk_page_layout {
    lk_layout_kind     kind;
    uint8_t            layers[LK_LAYERS_MAX]; /* inner to outer */
    size_t             layer_count;
    const lk_encoding *rep, *def, *values, *dictionary; /* NULL: absent */
    uint64_t           num_items;                       /* mini-block: values; full-zip: entries */
    /* mini-block */
    uint64_t num_dictionary_items;
    uint32_t num_buffers;
    uint32_t repetition_depth;
    bool     large_chunk;
    /* full-zip */
    uint32_t bits_rep, bits_def;
    uint32_t bits_per_value;  /* fixed values; 0: variable ones */
    uint32_t bits_per_offset; /* variable values: of a length */
    uint64_t num_visible_items;
    /* constant */
    bool     has_inline_value;
    lk_bytes inline_value;
    uint64_t num_rep_values, num_def_values;
    /* blob: everything above is the layout of the descriptors, this of the rows */
    bool    is_blob;
    uint8_t outer_layers[LK_LAYERS_MAX];
    size_t  outer_layer_count;
} lk_page_layout;

static inline bool lk_has_lists(const lk_page_layout *layout)
{
    bool lists = false;
    for (size_t layer = 0; layer < layout->layer_count; layer++) {
        lists = lists || lk_layer_is_list(layout->layers[layer]);
    }
    return lists;
}

/* The highest definition level of an entry that owns a value: what lies inside the innermost list. */
static inline unsigned lk_visible_level(const lk_page_layout *layout)
{
    unsigned level = 0;
    for (size_t layer = 0; layer < layout->layer_count && !lk_layer_is_list(layout->layers[layer]); layer++) {
        level += lk_layer_levels(layout->layers[layer]);
    }
    return level;
}

typedef struct lk_page_buffer {
    uint64_t offset, size;
} lk_page_buffer;

typedef struct lk_page_meta {
    uint64_t              rows, first_row;
    const lk_page_buffer *buffers;
    size_t                buffer_count;
    lk_bytes              encoding; /* the Any; lk_pb_page_layout takes it apart */
} lk_page_meta;

typedef struct lk_column_meta {
    const lk_page_meta *pages;
    size_t              page_count;
    uint64_t            rows;
} lk_column_meta;

#endif
