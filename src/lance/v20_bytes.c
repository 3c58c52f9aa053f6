/* v20_bytes.c - see v20_priv.h: rows of flat and packed page buffers, only the bytes that hold them. */
#include "arrow/bits.h"
#include "lance/bitpack.h"
#include "lance/v20_priv.h"

#include <stdlib.h>
#include <string.h>

enum { GAP_BYTES = 4096 }; /* reading over them is cheaper than reading again */

uint64_t lk_v20_row_count(const lk_page_rows *rows)
{
    uint64_t count = 0;
    for (size_t range = 0; range < rows->range_count; range++) {
        count += rows->ranges[range].count;
    }
    return count;
}

static const lk_page_buffer *buffer_of(const lk_page_rows *rows, const lk_v20_array *array)
{
    LK_ASSERT(array->buffer < rows->page->meta->buffer_count); /* pb_v20 saw to it */
    return &rows->page->meta->buffers[array->buffer];
}

static lk_rc short_buffer(lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "a page buffer is shorter than its rows");
}

/* Where a range lies, in units of `unit` bits, as bytes: first, and how many. */
static bool place(const lk_row_range *range, uint64_t unit, uint64_t size, uint64_t *first, uint64_t *bytes)
{
    uint64_t end = 0;
    if (__builtin_mul_overflow(range->start + range->count, unit, &end) || end > UINT64_MAX - 7) {
        return false;
    }
    *first = range->start * unit / 8;
    *bytes = (end + 7) / 8 - *first;
    return range->count == 0 || (end + 7) / 8 <= size;
}

/* The whole buffer, decompressed. */
static lk_rc decompress(
    const lk_page_rows *rows, const lk_v20_array *flat, lk_buffer *out, size_t *size, lk_err *err)
{
    lk_scratch           *scratch = rows->scratch;
    const lk_page_buffer *buffer = buffer_of(rows, flat);
    lk_scheme             scheme = flat->scheme == LK_V20_LZ4 ? LK_SCHEME_LZ4 : LK_SCHEME_ZSTD;
    *size = 0;
    if (buffer->size == 0) {
        return LK_OK;
    }
    lk_rc rc = lk_buffer_grow(scratch->pool, &scratch->bytes, 0, buffer->size, err);
    if (rc == LK_OK) {
        lk_store_range read = {buffer->offset, buffer->size, scratch->bytes.data};
        rc = lk_file_bytes(rows->file, &read, 1, err);
    }
    lk_bytes block = {(const char *)scratch->bytes.data, buffer->size};
    if (rc == LK_OK) {
        rc = lk_decompressed_size(scheme, block, size, err);
    }
    if (rc == LK_OK) {
        rc = lk_buffer_take(scratch->pool, *size + 8, out, err);
    }
    return rc == LK_OK ? lk_decompress(&scratch->zstd, scheme, block, out->data, *size, err) : rc;
}

/* Parts of a buffer, one after the other. */
typedef struct parts {
    lk_store_range *reads; /* in the file, into where they are wanted */
    size_t          count;
} parts;

/* Where the ranges lie in the file. */
static lk_rc find_parts(const lk_page_rows *rows, const lk_v20_array *array, const lk_row_range *ranges,
    uint64_t unit_bits, uint8_t *out, parts *found, lk_err *err)
{
    const lk_page_buffer *buffer = buffer_of(rows, array);
    for (size_t range = 0; range < found->count; range++) {
        uint64_t first = 0, bytes = 0;
        if (!place(&ranges[range], unit_bits, buffer->size, &first, &bytes)) {
            return short_buffer(err);
        }
        found->reads[range] = (lk_store_range){buffer->offset + first, (size_t)bytes, out};
        out += bytes;
    }
    return LK_OK;
}

/* Makes one read of neighbours with less between them than a read costs. Returns how many are left. */
static size_t join(const parts *wanted, lk_store_range *joined, size_t *size)
{
    size_t count = 0;
    *size = 0;
    for (size_t part = 0; part < wanted->count; part++) {
        const lk_store_range *next = &wanted->reads[part];
        lk_store_range       *last = count == 0 ? NULL : &joined[count - 1];
        if (last != NULL && next->offset <= last->offset + last->size + GAP_BYTES) {
            last->size = (size_t)(next->offset + next->size - last->offset);
        } else {
            joined[count++] = *next;
        }
    }
    for (size_t read = 0; read < count; read++) {
        *size += joined[read].size;
    }
    return count;
}

/* Reads the joined parts into scratch->plain, and from there what is wanted. */
static lk_rc read_joined(const lk_page_rows *rows, const parts *wanted, lk_store_range *joined, size_t count,
    size_t size, lk_err *err)
{
    lk_scratch *scratch = rows->scratch;
    lk_rc       rc = lk_buffer_grow(scratch->pool, &scratch->plain, 0, size + 8, err);
    if (rc != LK_OK) {
        return rc;
    }
    uint8_t *to = scratch->plain.data;
    for (size_t read = 0; read < count; read++) {
        joined[read].out = to;
        to += joined[read].size;
    }
    rc = lk_file_bytes(rows->file, joined, count, err);
    for (size_t part = 0, read = 0; rc == LK_OK && part < wanted->count; part++) {
        const lk_store_range *one = &wanted->reads[part];
        while (one->offset >= joined[read].offset + joined[read].size && read + 1 < count) {
            read++;
        }
        memcpy(one->out, (uint8_t *)joined[read].out + (one->offset - joined[read].offset), one->size);
    }
    return rc;
}

static lk_rc read_parts(const lk_page_rows *rows, const parts *wanted, lk_err *err)
{
    lk_store_range *joined = malloc((wanted->count + 1) * sizeof *joined);
    LK_ASSERT(joined != NULL);
    size_t size = 0, count = join(wanted, joined, &size);
    lk_rc  rc = count < wanted->count ? read_joined(rows, wanted, joined, count, size, err)
                                      : lk_file_bytes(rows->file, wanted->reads, wanted->count, err);
    free(joined);
    return rc;
}

/* Copies ranges out of a whole buffer. *whole: they reach its end. */
static lk_rc copy_ranges(lk_bytes plain, const lk_row_range *ranges, size_t range_count, uint64_t unit_bits,
    uint8_t *out, bool *whole, lk_err *err)
{
    *whole = false;
    for (size_t range = 0; range < range_count; range++) {
        uint64_t first = 0, bytes = 0;
        if (!place(&ranges[range], unit_bits, plain.size, &first, &bytes)) {
            return short_buffer(err);
        }
        if (bytes > 0) {
            memcpy(out, plain.data + first, (size_t)bytes);
        }
        out += bytes;
        *whole = first + bytes == plain.size;
    }
    return LK_OK;
}

/* The parts of a buffer that is compressed as a whole. Rows are mostly asked for in order: it is kept until its last
 * byte was. */
static lk_rc copy_parts(const lk_page_rows *rows, const lk_v20_array *array, const lk_row_range *ranges,
    size_t range_count, uint64_t unit_bits, uint8_t *out, lk_err *err)
{
    lk_buffer_pool *pool = rows->scratch->pool;
    uint64_t        key = rows->page->v20_key + array->buffer;
    lk_buffer       buffer = {0};
    size_t          size = 0;
    bool            whole = false;
    lk_rc           rc = LK_OK;
    if (!lk_buffer_find(pool, key, &buffer, &size)) {
        rc = decompress(rows, array, &buffer, &size, err);
    }
    if (rc == LK_OK) {
        lk_bytes plain = {(const char *)buffer.data, size};
        rc = copy_ranges(plain, ranges, range_count, unit_bits, out, &whole, err);
    }
    if (rc == LK_OK && !whole) {
        lk_buffer_keep(&buffer, key, size);
    } else {
        lk_buffer_give(&buffer);
    }
    return rc;
}

/* The bytes that hold the ranges, those of one after those of the other. */
static lk_rc fetch(const lk_page_rows *rows, const lk_v20_array *array, const lk_row_range *ranges,
    size_t range_count, uint64_t unit_bits, uint8_t *out, lk_err *err)
{
    if (array->kind == LK_V20_FLAT && array->scheme != LK_V20_PLAIN) {
        return copy_parts(rows, array, ranges, range_count, unit_bits, out, err);
    }
    parts wanted = {malloc((range_count + 1) * sizeof *wanted.reads), range_count};
    LK_ASSERT(wanted.reads != NULL);
    lk_rc rc = find_parts(rows, array, ranges, unit_bits, out, &wanted, err);
    if (rc == LK_OK) {
        rc = read_parts(rows, &wanted, err);
    }
    free(wanted.reads);
    return rc;
}

lk_rc lk_v20_bytes(const lk_page_rows *rows, const lk_v20_array *flat, const lk_row_range *ranges,
    size_t range_count, uint64_t unit, uint8_t *out, lk_err *err)
{
    return unit > UINT64_MAX / 8 ? short_buffer(err)
                                 : fetch(rows, flat, ranges, range_count, unit * 8, out, err);
}

/* Room in scratch->bytes for what `fetch` gives of bits, or of values that are not whole bytes. */
static lk_rc fetch_bits(const lk_page_rows *rows, const lk_v20_array *array, const lk_row_range *ranges,
    size_t range_count, uint64_t unit, lk_buffer *to, lk_err *err)
{
    uint64_t size = 8, first = 0, bytes = 0;
    for (size_t range = 0; range < range_count; range++) {
        if (!place(&ranges[range], unit, UINT64_MAX, &first, &bytes)) {
            return short_buffer(err);
        }
        size += bytes;
    }
    lk_rc rc = lk_buffer_grow(rows->scratch->pool, to, 0, size, err);
    return rc == LK_OK ? fetch(rows, array, ranges, range_count, unit, to->data, err) : rc;
}

lk_rc lk_v20_bits(
    const lk_page_rows *rows, const lk_v20_array *flat, uint64_t unit, uint8_t *out, uint64_t at, lk_err *err)
{
    uint64_t count = lk_v20_row_count(rows) * unit;
    lk_rc    rc = fetch_bits(rows, flat, rows->ranges, rows->range_count, unit, &rows->scratch->block, err);
    if (rc != LK_OK) {
        return rc;
    }
    const uint8_t *from = rows->scratch->block.data;
    if (at % 8 != 0) {
        out[at / 8] = (uint8_t)(out[at / 8] & ((1U << (at % 8)) - 1));
    }
    memset(out + (at + 7) / 8, 0, (at + count + 7) / 8 - (at + 7) / 8);
    for (size_t range = 0; range < rows->range_count; range++) {
        uint64_t first = 0, bytes = 0, some = rows->ranges[range].count * unit;
        (void)place(&rows->ranges[range], unit, UINT64_MAX, &first, &bytes);
        lk_bits_copy(from, (int64_t)(rows->ranges[range].start * unit % 8), out, (int64_t)at, (int64_t)some);
        from += bytes;
        at += some;
    }
    return LK_OK;
}

/* -- packed words ---------------------------------------------------------------------------------- */
static uint64_t take_bits(const uint8_t *bits, uint64_t at, unsigned width)
{
    uint64_t value = 0;
    for (unsigned done = 0; done < width;) {
        unsigned shift = (unsigned)(at % 8), some = 8 - shift < width - done ? 8 - shift : width - done;
        uint64_t part = ((uint64_t)bits[at / 8] >> shift) & ((1ULL << some) - 1);
        value |= part << done;
        done += some;
        at += some;
    }
    return value;
}

/* Values side by side, the highest bit a sign where it is said so. */
static lk_rc packed_words(const lk_page_rows *rows, const lk_v20_array *array, const lk_row_range *ranges,
    size_t range_count, unsigned width, uint8_t *out, lk_err *err)
{
    unsigned bits = array->bits;
    lk_rc    rc = fetch_bits(rows, array, ranges, range_count, bits, &rows->scratch->block, err);
    if (rc != LK_OK) {
        return rc;
    }
    const uint8_t *from = rows->scratch->block.data;
    for (size_t range = 0; range < range_count; range++) {
        uint64_t first = 0, bytes = 0, at = ranges[range].start * bits % 8;
        (void)place(&ranges[range], bits, UINT64_MAX, &first, &bytes);
        for (uint64_t row = 0; row < ranges[range].count; row++, at += bits, out += width) {
            uint64_t value = take_bits(from, at, bits);
            if (array->is_signed && bits < 64 && (value >> (bits - 1)) != 0) {
                value |= UINT64_MAX << bits;
            }
            memcpy(out, &value, width);
        }
        from += bytes;
    }
    return LK_OK;
}

/* Blocks of 1,024 values: those that a range touches are read, and of them its values kept. */
static lk_rc block_words(const lk_page_rows *rows, const lk_v20_array *array, const lk_row_range *range,
    unsigned width, uint8_t *out, lk_err *err)
{
    lk_scratch  *scratch = rows->scratch;
    size_t       size = lk_bitpack_bytes(array->bits);
    uint64_t     first = range->start / LK_BITPACK_BLOCK;
    uint64_t     end = (range->start + range->count + LK_BITPACK_BLOCK - 1) / LK_BITPACK_BLOCK;
    lk_row_range blocks = {first, range->count == 0 ? 0 : end - first};
    lk_rc        rc = fetch_bits(rows, array, &blocks, 1, (uint64_t)size * 8, &scratch->bytes, err);
    if (rc == LK_OK) {
        rc = lk_buffer_grow(scratch->pool, &scratch->block, 0, LK_BITPACK_BLOCK * 8UL, err);
    }
    for (uint64_t block = 0; rc == LK_OK && block < blocks.count; block++) {
        uint64_t begin = (first + block) * LK_BITPACK_BLOCK, stop = begin + LK_BITPACK_BLOCK;
        uint64_t from = range->start > begin ? range->start : begin;
        uint64_t to = range->start + range->count < stop ? range->start + range->count : stop;
        lk_bitpack_unpack(
            array->word_bits, array->bits, scratch->bytes.data + block * size, scratch->block.data);
        memcpy(out, scratch->block.data + (from - begin) * width, (size_t)(to - from) * width);
        out += (to - from) * width;
    }
    return rc;
}

lk_rc lk_v20_words(const lk_page_rows *rows, const lk_v20_array *array, const lk_row_range *ranges,
    size_t range_count, unsigned width, uint8_t *out, lk_err *err)
{
    bool flat = array->kind == LK_V20_FLAT, side = array->kind == LK_V20_BITPACKED;
    bool words = flat || side || array->kind == LK_V20_BITPACKED_BLOCKS;
    if (!words || (flat ? array->bits : array->word_bits) != width * 8) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "values of another width than their column's");
    }
    if (flat) {
        return lk_v20_bytes(rows, array, ranges, range_count, width, out, err);
    }
    if (side) {
        return packed_words(rows, array, ranges, range_count, width, out, err);
    }
    lk_rc rc = LK_OK;
    for (size_t range = 0; rc == LK_OK && range < range_count; range++) {
        rc = block_words(rows, array, &ranges[range], width, out, err);
        out += ranges[range].count * width;
    }
    return rc;
}
