/*
 * write_dictionary.c - see write_values.h: the different values of a page, and every value as an index into them.
 *
 * An open hash table of item numbers, at most half full. A glance at a sample comes first, as in the reference: values
 * that hardly repeat are not tried.
 */
#include "lance/bitpack.h"
#include "lance/write_values.h"

enum {
    VALUES_MIN = 100,
    ITEMS_MAX = 100000,
    CHUNK_BYTES = 24, /* of a chunk of indices, besides these */
    GLANCE_BLOCKS = 32,
    GLANCE_VALUES = 128 /* a block */
};

typedef struct builder {
    const lk_leaf   *leaf;
    const lk_values *values;
    lk_value_tools  *tools;
    uint32_t        *slots; /* item number + 1 */
    uint64_t         mask;
    uint32_t         width; /* of fixed values */
    uint64_t         count; /* items */
    uint64_t         items_max, bytes_max;
} builder;

static uint64_t mix(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)(a ^ 0x9e3779b97f4a7c15U) * (b ^ 0xe7037ed1a0b428dbU);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_of(lk_bytes value)
{
    uint64_t hash = value.size;
    size_t   at = 0;
    for (; at + 8 <= value.size; at += 8) {
        hash = mix(hash, lk_load_u64(value.data + at));
    }
    uint64_t rest = 0;
    if (at < value.size) {
        memcpy(&rest, value.data + at, value.size - at);
    }
    return mix(hash, rest);
}

static lk_bytes value_at(const builder *self, uint64_t index)
{
    if (self->width > 0) {
        return (lk_bytes){self->values->bytes + index * self->width, self->width};
    }
    uint64_t from = lk_values_end(self->values, index);
    return (lk_bytes){self->values->bytes + from, (size_t)(lk_values_end(self->values, index + 1) - from)};
}

static lk_bytes item_at(const builder *self, uint64_t item)
{
    const lk_value_tools *tools = self->tools;
    if (self->width > 0) {
        return (lk_bytes){tools->items.data + item * self->width, self->width};
    }
    uint64_t from = item == 0 ? 0 : lk_load_u64(tools->item_ends.data + (item - 1) * 8);
    return (lk_bytes){
        tools->items.data + from, (size_t)(lk_load_u64(tools->item_ends.data + item * 8) - from)};
}

static void open_slots(builder *self, uint64_t items)
{
    uint64_t slots = 64;
    while (slots < 2 * items) {
        slots *= 2;
    }
    lk_buf_clear(&self->tools->slots);
    lk_buf_append_zeros(&self->tools->slots, (size_t)slots * 4);
    lk_buf_clear(&self->tools->items);
    lk_buf_clear(&self->tools->item_ends);
    self->slots = (uint32_t *)(void *)self->tools->slots.data;
    self->mask = slots - 1;
    self->count = 0;
}

static uint32_t add_item(builder *self, lk_bytes value)
{
    lk_buf_append_bytes(&self->tools->items, value);
    if (self->width == 0) {
        uint64_t end = self->tools->items.size;
        lk_buf_append(&self->tools->item_ends, &end, 8);
    }
    return (uint32_t)self->count++;
}

static uint32_t find(builder *self, lk_bytes value)
{
    uint64_t at = hash_of(value) & self->mask;
    for (; self->slots[at] != 0; at = (at + 1) & self->mask) {
        if (lk_bytes_equal(item_at(self, self->slots[at] - 1), value)) {
            return self->slots[at] - 1;
        }
    }
    uint32_t item = add_item(self, value);
    self->slots[at] = item + 1;
    return item;
}

/* Whether the sample repeats: what it has of different values, carried over to all, is not too many. */
static bool worth_trying(builder *self)
{
    uint64_t count = self->values->count, seen = 0;
    if (count < GLANCE_BLOCKS * GLANCE_VALUES / 4) {
        return true;
    }
    open_slots(self, GLANCE_BLOCKS * GLANCE_VALUES);
    for (uint64_t block = 0; block < GLANCE_BLOCKS; block++) {
        uint64_t from = block * count / GLANCE_BLOCKS, end = (block + 1) * count / GLANCE_BLOCKS;
        for (uint64_t index = from; index < end && index < from + GLANCE_VALUES; index++, seen++) {
            (void)find(self, value_at(self, index));
        }
    }
    return self->count * 50 < seen * 49 && self->count * count / seen <= self->items_max;
}

static uint64_t dictionary_bytes(const builder *self)
{
    unsigned bits = self->count <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(self->count - 1);
    uint64_t offsets = self->width > 0 ? 0 : self->count * self->values->offset_bytes;
    uint64_t chunks = self->values->count / LK_BITPACK_BLOCK + 1;
    return self->tools->items.size + offsets + (self->values->count * bits + 7) / 8 + chunks * CHUNK_BYTES;
}

static bool build(builder *self)
{
    const lk_leaf *leaf = self->leaf;
    lk_buf        *indices = &self->tools->indices;
    lk_buf_clear(indices);
    lk_buf_append_zeros(indices, (size_t)self->values->count * 4);
    open_slots(self, self->items_max + 1);
    for (uint64_t index = 0; index < self->values->count; index++) {
        bool null = leaf->has_marks && leaf->marks.data[index] != 0; /* any index will do */
        if (!null) {
            lk_store_u32(indices->data + index * 4, find(self, value_at(self, index)));
        }
        if (self->count > self->items_max || self->tools->items.size > self->bytes_max) {
            return false;
        }
    }
    return self->count > 0;
}

bool lk_values_to_indices(
    const lk_leaf *leaf, uint64_t best_bytes, lk_values *values, lk_values *items, lk_value_tools *tools)
{
    const lk_field_options *options = &leaf->options;
    double                  allowed = (double)best_bytes * options->dictionary_ratio;
    builder  self = {.leaf = leaf, .values = values, .tools = tools, .width = values->bits / 8};
    uint64_t most = values->count / (options->dictionary_divisor == 0 ? 1 : options->dictionary_divisor);
    self.items_max = most < ITEMS_MAX ? most : ITEMS_MAX;
    self.bytes_max = options->dictionary_bytes < allowed ? options->dictionary_bytes : (uint64_t)allowed;
    if (values->count < VALUES_MIN || self.items_max == 0 || !worth_trying(&self) || !build(&self) ||
        (double)dictionary_bytes(&self) > allowed) {
        return false;
    }
    *items = (lk_values){.count = self.count,
        .bits = values->bits,
        .offset_bytes = values->offset_bytes,
        .bytes = tools->items.data,
        .ends = tools->item_ends.data};
    *values = (lk_values){.count = values->count, .bits = 32, .bytes = tools->indices.data};
    return true;
}
