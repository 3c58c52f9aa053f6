#ifndef LK_ARROW_FLAT_PRIV_H
#define LK_ARROW_FLAT_PRIV_H
/*
 * flat_priv.h - reads flatbuffers that a stranger made. (FlatBuffers "Internals": little-endian, offsets from
 * where they stand, tables with a vtable before or after them.)
 *
 * Invariants:
 *   1. No read leaves the buffer, whatever the offsets say.
 *   2. Work is bounded: a buffer whose offsets share or loop may visit `tables_left` tables and read
 *      `text_left` bytes of text, then it is malformed.
 *   3. An absent field is not an error: the getter leaves the default and reports it. Malformed sets `bad`,
 *      which stays; every later getter then gives its default. Check it once, at the end of a unit of work.
 * Threads: confined.
 */
#include "base/bytes.h"

typedef struct lk_flat {
    const uint8_t *data;
    size_t         size;
    size_t         tables_left, text_left;
    bool           bad;
} lk_flat;

typedef struct lk_flat_table {
    lk_flat *flat;
    uint32_t at; /* of the table; 0: an absent table, whose fields are all absent */
    uint32_t vtable;
    uint16_t vtable_size, table_size;
} lk_flat_table;

typedef struct lk_flat_vector {
    lk_flat *flat;
    uint32_t at;    /* of the first element */
    uint32_t count; /* 0 when absent */
} lk_flat_vector;

void          lk_flat_init(lk_flat *flat, lk_bytes bytes, size_t tables_max, size_t text_max);
lk_flat_table lk_flat_root(lk_flat *flat);

int64_t       lk_flat_i64(const lk_flat_table *table, unsigned field, int64_t fallback);
int32_t       lk_flat_i32(const lk_flat_table *table, unsigned field, int32_t fallback);
int16_t       lk_flat_i16(const lk_flat_table *table, unsigned field, int16_t fallback);
uint8_t       lk_flat_u8(const lk_flat_table *table, unsigned field, uint8_t fallback);
lk_flat_table lk_flat_child(const lk_flat_table *table, unsigned field);
lk_bytes      lk_flat_text(const lk_flat_table *table, unsigned field); /* data NULL: absent */
/* A vector of element_size-byte elements (4 for tables and texts), all inside the buffer. */
lk_flat_vector lk_flat_vector_of(const lk_flat_table *table, unsigned field, size_t element_size);
lk_flat_table  lk_flat_element(const lk_flat_vector *vector, uint32_t index); /* of a vector of tables */

static inline bool lk_flat_present(const lk_flat_table *table)
{
    return table->at != 0;
}

static inline const uint8_t *lk_flat_data(const lk_flat_vector *vector)
{
    return vector->flat->data + vector->at;
}

#endif
