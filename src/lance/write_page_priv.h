#ifndef LK_LANCE_WRITE_PAGE_PRIV_H
#define LK_LANCE_WRITE_PAGE_PRIV_H
/*
 * write_page_priv.h - what the layouts share: write_page.c chooses, write_constant.c, write_miniblock.c and
 * write_fullzip.c encode, write_levels.c and write_forms.c have the parts of a chunk. Threads: stateless.
 */
#include "lance/write_page.h"

enum {
    LK_CHUNK_VALUES_MAX = 4096, /* of a mini-block chunk, as the reference has at most */
    LK_CHUNK_FILL = 0xfe
};

/* -- levels ------------------------------------------------------------------------------------------- */
/* What a row's mark is as a definition level in this page; in lists, what an entry's level is. */
typedef struct lk_page_levels {
    uint16_t of_mark[2 * LK_LAYERS_MAX + 1];
    uint16_t max; /* 0: no levels */
    bool     all_leaf_null;
} lk_page_levels;

/* Level `index` of an entry (reps or defs of a leaf in lists). */
static inline uint16_t lk_entry_level(const lk_buf *words, uint64_t index)
{
    return lk_load_u16(words->data + index * 2);
}

/* Whether an entry owns a value: its level lies inside the innermost list. */
static inline bool lk_entry_visible(const lk_leaf *leaf, uint16_t def)
{
    size_t layer = 0;
    while (layer < leaf->layer_count && !leaf->is_list[layer]) {
        layer++;
    }
    return def < 1 + 2 * layer;
}

static inline unsigned lk_bit_length(unsigned value)
{
    return value == 0 ? 0 : 32 - (unsigned)__builtin_clz(value);
}

typedef enum lk_level_form { LK_LEVELS_PLAIN, LK_LEVELS_PACKED, LK_LEVELS_RUNS } lk_level_form;

typedef struct lk_level_plan {
    lk_level_form form;
    unsigned      width; /* bits of a packed level */
} lk_level_plan;

/* How `count` levels up to `max` that change `changes` times are stored. Runs are for files of 2.2. */
lk_level_plan lk_level_plan_of(uint64_t count, uint64_t changes, unsigned max, const lk_page_layout *layout);

/* How often neighbours differ. */
uint64_t lk_changes8(const uint8_t *words, uint64_t count);
uint64_t lk_changes16(const char *words, uint64_t count);
/* How many are `wanted`. */
uint64_t lk_count16(const char *words, uint64_t count, uint16_t wanted);

const lk_encoding *lk_level_encoding(const lk_level_plan *plan, lk_page_out *out);
void lk_put_levels(const lk_level_plan *plan, const uint16_t *words, uint64_t count, lk_buf *data);

/* -- values of a chunk (write_forms.c) ----------------------------------------------------------------- */
typedef enum lk_form { LK_FORM_FLAT, LK_FORM_PACKED, LK_FORM_RUNS, LK_FORM_SPLIT, LK_FORM_TEXT } lk_form;

/* The form that suits, and how many bytes the page's values take in it. */
lk_form lk_form_of(const lk_leaf *leaf, const lk_values *values, uint64_t *bytes);

/* How many values the chunk from `start` on has: a power of two, or all that are left. limit: bytes of text. */
uint64_t lk_form_chunk(lk_form form, const lk_values *values, uint64_t start, uint32_t limit);

/* Appends value buffer `index` of a chunk; a form has one, LK_FORM_RUNS two. */
void lk_form_put(
    lk_form form, const lk_values *values, size_t index, uint64_t start, uint64_t count, lk_buf *data);

const lk_encoding *lk_form_encoding(
    lk_form form, const lk_leaf *leaf, const lk_values *values, lk_page_out *out);

/* -- pages -------------------------------------------------------------------------------------------- */
lk_encoding       *lk_page_node(lk_page_out *out, lk_encoding_kind kind, uint32_t bits);
lk_encoding       *lk_page_wrap(lk_page_out *out, lk_scheme scheme, const lk_encoding *inner);
const lk_encoding *lk_page_text_encoding(uint32_t offset_bytes, lk_page_out *out);
const lk_encoding *lk_page_list_encoding(const lk_leaf *leaf, lk_page_out *out); /* around flat values */
void               lk_page_put_bits(lk_buf *data, const char *from, uint64_t start, uint64_t count);
void               lk_page_pad(lk_buf *out, size_t from, size_t multiple, char fill);

/* Pads with what a reader never looks at. */
static inline void lk_page_pad_chunk(lk_buf *out, size_t from)
{
    lk_page_pad(out, from, 8, (char)LK_CHUNK_FILL);
}

bool lk_page_constant(const lk_leaf *leaf, lk_page_out *out); /* false: the values are not all the same */
void lk_page_all_null(const lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out);
void lk_page_no_values(const lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out);

/* symbols: values are FSST codes of tools->table. items: values are indices into these; NULL: they are not. */
void lk_page_miniblock(const lk_leaf *leaf, const lk_values *values, bool symbols, const lk_values *items,
    const lk_page_levels *map, lk_page_out *out);
/* text: the encoding of variable values. */
/* What control words and sizes add to the values of a page of whole rows, at most; from so many bytes of values on they are put
 * between them where they lie. */
enum { LK_PAGE_IN_LEAF_BYTES = 1024 * 1024 };
size_t lk_zip_overhead(const lk_leaf *leaf);
void   lk_page_fullzip(const lk_leaf *leaf, const lk_values *values, const lk_encoding *text,
      const lk_page_levels *map, lk_page_out *out);

/* Empties out and chooses the layers of the leaf's page. */
void lk_page_begin(const lk_leaf *leaf, uint32_t file_minor, lk_page_out *out, lk_page_levels *map);
/* The page of a leaf that has no values, nothing but nulls or empty lists; false: it has some. */
bool lk_page_without_values(const lk_leaf *leaf, const lk_page_levels *map, lk_page_out *out);

#endif
