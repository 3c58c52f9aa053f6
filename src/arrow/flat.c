/* flat.c - see flat_priv.h. */
#include "arrow/flat_priv.h"

void lk_flat_init(lk_flat *flat, lk_bytes bytes, size_t tables_max, size_t text_max)
{
    *flat = (lk_flat){(const uint8_t *)bytes.data, bytes.size, tables_max, text_max, false};
    flat->bad = bytes.size < 8 || bytes.size > INT32_MAX;
}

static bool holds(const lk_flat *flat, uint64_t at, uint64_t size)
{
    return at <= flat->size && size <= flat->size - at;
}

static lk_flat_table nothing(lk_flat *flat)
{
    return (lk_flat_table){.flat = flat};
}

static lk_flat_table malformed(lk_flat *flat)
{
    flat->bad = true;
    return nothing(flat);
}

static lk_flat_table table_at(lk_flat *flat, uint64_t at)
{
    if (flat->bad || at == 0 || !holds(flat, at, 4) || flat->tables_left == 0) {
        return malformed(flat);
    }
    flat->tables_left--;
    int64_t vtable = (int64_t)at - (int32_t)lk_load_u32(flat->data + at);
    if (vtable < 0 || !holds(flat, (uint64_t)vtable, 4)) {
        return malformed(flat);
    }
    lk_flat_table table = {flat, (uint32_t)at, (uint32_t)vtable, lk_load_u16(flat->data + vtable),
        lk_load_u16(flat->data + vtable + 2)};
    if (table.vtable_size < 4 || table.vtable_size % 2 != 0 || table.table_size < 4 ||
        !holds(flat, table.vtable, table.vtable_size) || !holds(flat, at, table.table_size)) {
        return malformed(flat);
    }
    return table;
}

lk_flat_table lk_flat_root(lk_flat *flat)
{
    return flat->bad ? nothing(flat) : table_at(flat, lk_load_u32(flat->data));
}

/* Where the field's size bytes stand; 0: absent or malformed. */
static uint32_t field_at(const lk_flat_table *table, unsigned field, size_t size)
{
    size_t slot = 4 + 2 * (size_t)field;
    if (table->at == 0 || table->flat->bad || slot + 2 > table->vtable_size) {
        return 0;
    }
    uint16_t offset = lk_load_u16(table->flat->data + table->vtable + slot);
    if (offset == 0) {
        return 0;
    }
    if (offset < 4 || offset + size > table->table_size) {
        table->flat->bad = true;
        return 0;
    }
    return table->at + offset;
}

int64_t lk_flat_i64(const lk_flat_table *table, unsigned field, int64_t fallback)
{
    uint32_t at = field_at(table, field, 8);
    return at == 0 ? fallback : (int64_t)lk_load_u64(table->flat->data + at);
}

int32_t lk_flat_i32(const lk_flat_table *table, unsigned field, int32_t fallback)
{
    uint32_t at = field_at(table, field, 4);
    return at == 0 ? fallback : (int32_t)lk_load_u32(table->flat->data + at);
}

int16_t lk_flat_i16(const lk_flat_table *table, unsigned field, int16_t fallback)
{
    uint32_t at = field_at(table, field, 2);
    return at == 0 ? fallback : (int16_t)lk_load_u16(table->flat->data + at);
}

uint8_t lk_flat_u8(const lk_flat_table *table, unsigned field, uint8_t fallback)
{
    uint32_t at = field_at(table, field, 1);
    return at == 0 ? fallback : table->flat->data[at];
}

/* Follows the offset stored at `at`. */
static uint64_t follow(const lk_flat *flat, uint32_t at)
{
    return (uint64_t)at + lk_load_u32(flat->data + at);
}

lk_flat_table lk_flat_child(const lk_flat_table *table, unsigned field)
{
    uint32_t at = field_at(table, field, 4);
    return at == 0 ? nothing(table->flat) : table_at(table->flat, follow(table->flat, at));
}

lk_flat_vector lk_flat_vector_of(const lk_flat_table *table, unsigned field, size_t element_size)
{
    lk_flat       *flat = table->flat;
    lk_flat_vector vector = {.flat = flat};
    uint32_t       at = field_at(table, field, 4);
    if (at == 0) {
        return vector;
    }
    uint64_t start = follow(flat, at);
    if (!holds(flat, start, 4)) {
        flat->bad = true;
        return vector;
    }
    uint32_t count = lk_load_u32(flat->data + start);
    if (!holds(flat, start + 4, (uint64_t)count * element_size)) {
        flat->bad = true;
        return vector;
    }
    vector.at = (uint32_t)start + 4;
    vector.count = count;
    return vector;
}

lk_bytes lk_flat_text(const lk_flat_table *table, unsigned field)
{
    lk_flat       *flat = table->flat;
    lk_flat_vector vector = lk_flat_vector_of(table, field, 1);
    if (vector.at == 0) {
        return (lk_bytes){0};
    }
    if (vector.count > flat->text_left) {
        flat->bad = true;
        return (lk_bytes){0};
    }
    flat->text_left -= vector.count;
    return (lk_bytes){(const char *)flat->data + vector.at, vector.count};
}

lk_flat_table lk_flat_element(const lk_flat_vector *vector, uint32_t index)
{
    if (index >= vector->count || vector->flat->bad) {
        return malformed(vector->flat);
    }
    return table_at(vector->flat, follow(vector->flat, vector->at + 4 * index));
}
