/* write_values.c - see write_values.h: text into symbols, long values into blocks. */
#include "lance/write_values.h"

enum {
    SAMPLE_BYTES = 16 * 1024,
    PIECE_BYTES = 512, /* of one value in a sample */
    PIECES_MAX = 4096,
    SHORT_BYTES = 256,        /* of values that are coded several at a time */
    SYMBOLS_FROM = 32 * 1024, /* bytes of text: a table takes 2,312 */
    SYMBOLS_LONGEST = 5,      /* shorter texts gain nothing, as the reference found */
    BLOCKS_FROM = 32 * 1024   /* the longest value of a page whose values become blocks, and their bytes */
};

void lk_value_tools_deinit(lk_value_tools *tools)
{
    lk_buf *buffers[] = {&tools->bytes, &tools->ends, &tools->table, &tools->indices, &tools->items,
        &tools->item_ends, &tools->sample, &tools->slots};
    for (size_t at = 0; at < sizeof buffers / sizeof buffers[0]; at++) {
        lk_buf_deinit(buffers[at]);
    }
    lk_fsst_encoder_free(tools->fsst);
    tools->fsst = NULL;
}

lk_values lk_values_of(const lk_leaf *leaf)
{
    return (lk_values){.count = leaf->rows,
        .bits = leaf->row_bits,
        .offset_bytes = leaf->offset_bytes,
        .bytes = leaf->values.data,
        .ends = leaf->ends.data,
        .longest = leaf->longest};
}

/* -- samples -------------------------------------------------------------------------------------------- */
typedef struct sample {
    lk_bytes bytes;
    uint32_t ends[PIECES_MAX];
    size_t   count;
} sample;

/* Pieces of values spread over the page, from the `first` of every stride on. */
static void take_sample(const lk_values *values, uint64_t first, lk_buf *bytes, sample *out)
{
    uint64_t text = lk_values_end(values, values->count), mean = text / values->count + 1;
    uint64_t pieces = SAMPLE_BYTES / (mean < PIECE_BYTES ? mean : PIECE_BYTES) + 1;
    pieces = pieces > PIECES_MAX ? PIECES_MAX : pieces;
    uint64_t stride = values->count / pieces + 1;
    lk_buf_clear(bytes);
    out->count = 0;
    for (uint64_t index = first % stride; index < values->count && out->count < PIECES_MAX; index += stride) {
        uint64_t from = lk_values_end(values, index), size = lk_values_end(values, index + 1) - from;
        lk_buf_append(bytes, values->bytes + from, size > PIECE_BYTES ? PIECE_BYTES : (size_t)size);
        out->ends[out->count++] = (uint32_t)bytes->size;
    }
    out->bytes = lk_buf_view(bytes);
    lk_buf_append_zeros(bytes, 8); /* readable behind the last */
    out->bytes.data = bytes->data;
}

/* -- symbols -------------------------------------------------------------------------------------------- */
static size_t coded_size(const lk_fsst_encoder *encoder, const sample *of, lk_buf *scratch)
{
    size_t size = 0;
    lk_buf_clear(scratch);
    lk_buf_reserve(scratch, 2 * PIECE_BYTES);
    for (size_t piece = 0; piece < of->count; piece++) {
        uint32_t from = piece == 0 ? 0 : of->ends[piece - 1];
        size += lk_fsst_encode(encoder, (const uint8_t *)of->bytes.data + from, of->ends[piece] - from,
            (uint8_t *)scratch->data);
    }
    return size;
}

/* Trains on one sample and tries on another. */
static bool symbols_pay(const lk_leaf *leaf, const lk_values *values, lk_value_tools *tools)
{
    sample pieces;
    bool   asked = leaf->options.compression == LK_COMPRESSION_FSST;
    if (tools->fsst == NULL) {
        tools->fsst = lk_fsst_encoder_new();
    }
    take_sample(values, 0, &tools->sample, &pieces);
    lk_fsst_train(tools->fsst, pieces.bytes, pieces.ends, pieces.count);
    take_sample(values, values->count / 2, &tools->sample, &pieces);
    return asked || 2 * pieces.bytes.size >= 3 * coded_size(tools->fsst, &pieces, &tools->bytes);
}

static bool symbols_allowed(const lk_leaf *leaf, const lk_values *values)
{
    bool     text = leaf->type.id == LK_TYPE_UTF8 || leaf->type.id == LK_TYPE_LARGE_UTF8;
    uint64_t bytes = values->offset_bytes == 0 ? 0 : lk_values_end(values, values->count);
    if (leaf->options.compression == LK_COMPRESSION_FSST) {
        return bytes > 0;
    }
    return leaf->options.compression == LK_COMPRESSION_AUTO && text && bytes >= SYMBOLS_FROM &&
           values->longest >= SYMBOLS_LONGEST;
}

static void encode_all(const lk_values *values, lk_value_tools *tools)
{
    uint64_t total = lk_values_end(values, values->count), from = 0;
    lk_buf  *out = &tools->bytes;
    lk_buf_clear(out);
    lk_buf_clear(&tools->ends);
    lk_buf_append_zeros(&tools->ends, (size_t)values->count * 8);
    for (uint64_t index = 0; index < values->count; index++) {
        uint64_t       end = lk_values_end(values, index + 1), size = end - from;
        const uint8_t *value = (const uint8_t *)values->bytes + from;
        if (out->capacity - out->size < 2 * size) {
            lk_buf_reserve(out, (size_t)(2 * size + (total - from) / 2));
        }
        if (size > 0 && end + 8 > total) { /* not 8 readable bytes behind it */
            lk_buf_clear(&tools->sample);
            lk_buf_append(&tools->sample, value, (size_t)size);
            lk_buf_append_zeros(&tools->sample, 8);
            value = (const uint8_t *)tools->sample.data;
        }
        uint8_t *to = (uint8_t *)out->data + out->size;
        out->size += size == 0 ? 0 : lk_fsst_encode(tools->fsst, value, (size_t)size, to);
        lk_store_u64(tools->ends.data + index * 8, out->size);
        from = end;
    }
}

static void become_variable(lk_values *values, const lk_value_tools *tools)
{
    values->bytes = tools->bytes.data;
    values->ends = tools->ends.data;
    values->longest = 0;
    for (uint64_t index = 0; index < values->count; index++) {
        uint64_t size = lk_values_end(values, index + 1) - lk_values_end(values, index);
        values->longest = size > values->longest ? size : values->longest;
    }
}

bool lk_values_to_symbols(const lk_leaf *leaf, lk_values *values, lk_value_tools *tools)
{
    if (!symbols_allowed(leaf, values) || !symbols_pay(leaf, values, tools)) {
        return false;
    }
    encode_all(values, tools);
    lk_buf_clear(&tools->table);
    lk_fsst_put_table(tools->fsst, &tools->table);
    become_variable(values, tools);
    return true;
}

/* -- blocks --------------------------------------------------------------------------------------------- */
/* Whether zstd makes a sample a tenth smaller: images and other compressed things it does not. */
static bool blocks_pay(const lk_values *values, lk_value_tools *tools)
{
    sample pieces;
    take_sample(values, 0, &tools->sample, &pieces);
    lk_buf_clear(&tools->bytes);
    lk_compress(LK_SCHEME_ZSTD, 1, pieces.bytes, &tools->bytes);
    return tools->bytes.size * 10 <= pieces.bytes.size * 9;
}

bool lk_values_to_blocks(const lk_leaf *leaf, lk_values *values, lk_value_tools *tools, lk_scheme *scheme)
{
    lk_compression asked = leaf->options.compression;
    if (values->offset_bytes == 0 || lk_values_end(values, values->count) < BLOCKS_FROM) {
        return false;
    }
    bool general = lk_compression_is_general(asked);
    if (!general &&
        (asked != LK_COMPRESSION_AUTO || values->longest <= BLOCKS_FROM || !blocks_pay(values, tools))) {
        return false;
    }
    *scheme = asked == LK_COMPRESSION_LZ4 ? LK_SCHEME_LZ4 : LK_SCHEME_ZSTD;
    lk_buf_clear(&tools->bytes);
    lk_buf_clear(&tools->ends);
    for (uint64_t index = 0; index < values->count; index++) {
        uint64_t from = lk_values_end(values, index), size = lk_values_end(values, index + 1) - from;
        if (!leaf->has_marks || leaf->marks.data[index] == 0) {
            lk_bytes value = {values->bytes + from, (size_t)size};
            lk_compress(*scheme, leaf->options.level, value, &tools->bytes);
        }
        uint64_t end = tools->bytes.size;
        lk_buf_append(&tools->ends, &end, 8);
    }
    become_variable(values, tools);
    return true;
}
