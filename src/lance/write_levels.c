/* write_levels.c - see write_page_priv.h: definition and repetition levels of a chunk, plain, packed or as runs. */
#include "lance/bitpack.h"
#include "lance/cpu.h"
#include "lance/write_page_priv.h"

enum { RUN_MAX = 255, RUN_BYTES = 3, RUNS_HEADER_BYTES = 8 };

LK_VECTOR uint64_t lk_changes8(const uint8_t *words, uint64_t count)
{
    uint64_t changes = 0;
    for (uint64_t at = 1; at < count; at++) {
        changes += words[at] != words[at - 1];
    }
    return changes;
}

LK_VECTOR uint64_t lk_changes16(const char *words, uint64_t count)
{
    uint64_t changes = 0;
    for (uint64_t at = 1; at < count; at++) {
        changes += lk_load_u16(words + at * 2) != lk_load_u16(words + at * 2 - 2);
    }
    return changes;
}

LK_VECTOR uint64_t lk_count16(const char *words, uint64_t count, uint16_t wanted)
{
    uint64_t found = 0;
    for (uint64_t at = 0; at < count; at++) {
        found += lk_load_u16(words + at * 2) == wanted;
    }
    return found;
}

lk_level_plan lk_level_plan_of(uint64_t count, uint64_t changes, unsigned max, const lk_page_layout *layout)
{
    bool          few = count < LK_BITPACK_BLOCK;
    lk_level_plan plan = {few ? LK_LEVELS_PLAIN : LK_LEVELS_PACKED, lk_bit_length(max)};
    uint64_t      blocks = count / LK_BITPACK_BLOCK + 1, bits = few ? 16 : plan.width;
    uint64_t      runs = (changes + count / RUN_MAX + blocks) * RUN_BYTES + blocks * RUNS_HEADER_BYTES;
    if (layout->large_chunk && runs * 2 <= count * bits / 8) {
        plan.form = LK_LEVELS_RUNS;
    }
    return plan;
}

const lk_encoding *lk_level_encoding(const lk_level_plan *plan, lk_page_out *out)
{
    if (plan->form == LK_LEVELS_PLAIN) {
        return lk_page_node(out, LK_ENCODING_FLAT, 16);
    }
    if (plan->form == LK_LEVELS_PACKED) {
        lk_encoding *packed = lk_page_node(out, LK_ENCODING_OUT_OF_LINE_BITPACKING, 16);
        packed->values = lk_page_node(out, LK_ENCODING_FLAT, plan->width);
        return packed;
    }
    lk_encoding *runs = lk_page_node(out, LK_ENCODING_RLE, 0);
    runs->values = lk_page_node(out, LK_ENCODING_FLAT, 16);
    runs->lengths = lk_page_node(out, LK_ENCODING_FLAT, 8);
    return runs;
}

static void put_packed(const uint16_t *words, uint64_t count, unsigned width, lk_buf *data)
{
    uint16_t padded[LK_BITPACK_BLOCK] = {0};
    uint8_t  packed[2 * LK_BITPACK_BLOCK];
    size_t   block = lk_bitpack_bytes(width);
    for (uint64_t done = 0; done < count; done += LK_BITPACK_BLOCK) {
        uint64_t some = count - done < LK_BITPACK_BLOCK ? count - done : LK_BITPACK_BLOCK;
        if (some * 2 <= block) { /* a reader tells the two forms apart by the size */
            lk_buf_append(data, words + done, (size_t)some * 2);
        } else {
            memcpy(padded, words + done, (size_t)some * 2);
            lk_bitpack_pack(16, width, padded, packed);
            lk_buf_append(data, packed, block);
        }
    }
}

/* u64 bytes of the values, a u16 a run, then its length in a byte. */
static void put_runs(const uint16_t *words, uint64_t count, lk_buf *data)
{
    lk_buf lengths = {0};
    size_t header = data->size;
    lk_buf_append_zeros(data, RUNS_HEADER_BYTES);
    for (uint64_t at = 0; at < count;) {
        uint64_t end = at + 1;
        while (end < count && words[end] == words[at] && end - at < RUN_MAX) {
            end++;
        }
        uint8_t length = (uint8_t)(end - at);
        lk_buf_append(data, &words[at], 2);
        lk_buf_append(&lengths, &length, 1);
        at = end;
    }
    lk_store_u64(data->data + header, data->size - header - RUNS_HEADER_BYTES);
    lk_buf_append_bytes(data, lk_buf_view(&lengths));
    lk_buf_deinit(&lengths);
}

void lk_put_levels(const lk_level_plan *plan, const uint16_t *words, uint64_t count, lk_buf *data)
{
    if (plan->form == LK_LEVELS_PLAIN) {
        lk_buf_append(data, words, (size_t)count * 2);
    } else if (plan->form == LK_LEVELS_PACKED) {
        put_packed(words, count, plan->width, data);
    } else {
        put_runs(words, count, data);
    }
}
