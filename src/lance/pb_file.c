/*
 * pb_file.c - see pb_file.h. Messages are unpacked into the caller's arena and never freed singly.
 * Invariant: parse_encoding is the only recursion over input, bounded by LK_ENCODING_DEPTH_MAX.
 */
#include "lance/pb_file.h"

#include "pb_file.pb-c.h"

#include <string.h>

typedef Lk__Pbf__CompressiveEncoding pb_encoding;

static const char layout_url[] = "/lance.encodings21.PageLayout";
static const char column_url[] = "/lance.encodings.ColumnEncoding";

/* -- reading --------------------------------------------------------------------------------------- */
static void *arena_alloc(void *arena, size_t size)
{
    return lk_arena_take(arena, size);
}

static void arena_free(void *arena, void *pointer)
{
    (void)arena;
    (void)pointer;
}

static const uint8_t *octets(lk_bytes bytes)
{
    return (const uint8_t *)bytes.data;
}

static lk_bytes view(ProtobufCBinaryData data)
{
    return (lk_bytes){(const char *)data.data, data.len};
}

static void *unpack(const ProtobufCMessageDescriptor *type, lk_bytes message, lk_arena *arena)
{
    ProtobufCAllocator allocator = {arena_alloc, arena_free, arena};
    return protobuf_c_message_unpack(type, &allocator, message.size, octets(message));
}

static lk_rc parse_encoding(
    lk_bytes message, unsigned depth, lk_arena *arena, const lk_encoding **out, lk_err *err);

static lk_rc unsupported(const char *name, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "encoding %s", name);
    lk_detail(err, "Lance encoding %s", name);
    return rc;
}

static lk_rc parse_bits(uint64_t bits, uint32_t *out, lk_err *err)
{
    if (bits > UINT32_MAX / 64) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "an encoding of %llu bits", (unsigned long long)bits);
    }
    *out = (uint32_t)bits;
    return LK_OK;
}

static lk_rc parse_inner(bool present, ProtobufCBinaryData message, unsigned depth, lk_arena *arena,
    const lk_encoding **out, lk_err *err)
{
    if (!present) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "an encoding lacks the one inside it");
    }
    return parse_encoding(view(message), depth + 1, arena, out, err);
}

static lk_rc parse_word(uint64_t bits, uint32_t *out, lk_err *err)
{
    if (bits != 8 && bits != 16 && bits != 32 && bits != 64) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "bit packing of %llu-bit words", (unsigned long long)bits);
    }
    *out = (uint32_t)bits;
    return LK_OK;
}

static lk_rc parse_general(
    const Lk__Pbf__General *pb, unsigned depth, lk_arena *arena, lk_encoding *out, lk_err *err)
{
    if (pb->compression == NULL || (pb->compression->scheme != 1 && pb->compression->scheme != 2)) {
        return unsupported("general compression of an unknown scheme", err);
    }
    out->scheme = (lk_scheme)pb->compression->scheme;
    return parse_inner(pb->has_values, pb->values, depth, arena, &out->values, err);
}

static lk_rc parse_list(
    const Lk__Pbf__FixedSizeList *pb, unsigned depth, lk_arena *arena, lk_encoding *out, lk_err *err)
{
    if (pb->items_per_value == 0 || pb->items_per_value > UINT32_MAX / 64) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a fixed-size list of %llu items",
            (unsigned long long)pb->items_per_value);
    }
    out->items_per_value = (uint32_t)pb->items_per_value;
    out->has_validity = pb->has_has_validity && pb->has_validity;
    return parse_inner(pb->has_values, pb->values, depth, arena, &out->values, err);
}

static lk_rc parse_fsst(
    const Lk__Pbf__Fsst *pb, unsigned depth, lk_arena *arena, lk_encoding *out, lk_err *err)
{
    if (!pb->has_symbol_table || pb->symbol_table.len > LK_SYMBOL_TABLE_BYTES_MAX) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "FSST symbol table of %zu bytes", pb->symbol_table.len);
    }
    out->symbol_table = view(pb->symbol_table);
    return parse_inner(pb->has_values, pb->values, depth, arena, &out->values, err);
}

static lk_rc parse_rle(const Lk__Pbf__Rle *pb, unsigned depth, lk_arena *arena, lk_encoding *out, lk_err *err)
{
    lk_rc rc = parse_inner(pb->has_values, pb->values, depth, arena, &out->values, err);
    if (rc == LK_OK) {
        rc = parse_inner(pb->has_run_lengths, pb->run_lengths, depth, arena, &out->lengths, err);
    }
    return rc;
}

static lk_rc parse_packing(
    const Lk__Pbf__OutOfLineBitpacking *pb, unsigned depth, lk_arena *arena, lk_encoding *out, lk_err *err)
{
    lk_rc rc = parse_word(pb->uncompressed_bits_per_value, &out->bits, err);
    if (rc == LK_OK) {
        rc = parse_inner(pb->has_values, pb->values, depth, arena, &out->values, err);
    }
    if (rc == LK_OK && (out->values->kind != LK_ENCODING_FLAT || out->values->bits > out->bits)) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "out-of-line bit packing of something not packed bits");
    }
    return rc;
}

/* The kinds with nothing but numbers in them, and the ones we refuse. */
static lk_rc parse_leaf(const pb_encoding *pb, lk_encoding *out, lk_err *err)
{
    if (pb->flat != NULL) {
        out->kind = LK_ENCODING_FLAT;
        return pb->flat->data != NULL ? unsupported("flat with compressed data", err)
                                      : parse_bits(pb->flat->bits_per_value, &out->bits, err);
    }
    if (pb->inline_bitpacking != NULL) {
        out->kind = LK_ENCODING_INLINE_BITPACKING;
        return pb->inline_bitpacking->values != NULL
                   ? unsupported("inline bit packing with compressed values", err)
                   : parse_word(pb->inline_bitpacking->uncompressed_bits_per_value, &out->bits, err);
    }
    return unsupported(pb->constant != NULL             ? "constant inside a page"
                       : pb->has_dictionary             ? "dictionary inside an encoding"
                       : pb->packed_struct != NULL      ? "packed struct"
                       : pb->has_variable_packed_struct ? "variable packed struct"
                                                        : "of an unknown kind",
        err);
}

static lk_rc parse_kind(const pb_encoding *pb, unsigned depth, lk_arena *arena, lk_encoding *out, lk_err *err)
{
    if (pb->variable != NULL) {
        out->kind = LK_ENCODING_VARIABLE;
        if (pb->variable->values != NULL) {
            return unsupported("variable with compressed values", err);
        }
        return parse_inner(
            pb->variable->has_offsets, pb->variable->offsets, depth, arena, &out->lengths, err);
    }
    if (pb->out_of_line_bitpacking != NULL) {
        out->kind = LK_ENCODING_OUT_OF_LINE_BITPACKING;
        return parse_packing(pb->out_of_line_bitpacking, depth, arena, out, err);
    }
    if (pb->fsst != NULL) {
        out->kind = LK_ENCODING_FSST;
        return parse_fsst(pb->fsst, depth, arena, out, err);
    }
    if (pb->rle != NULL) {
        out->kind = LK_ENCODING_RLE;
        return parse_rle(pb->rle, depth, arena, out, err);
    }
    if (pb->byte_stream_split != NULL) {
        out->kind = LK_ENCODING_BYTE_STREAM_SPLIT;
        return parse_inner(pb->byte_stream_split->has_values, pb->byte_stream_split->values, depth, arena,
            &out->values, err);
    }
    if (pb->general != NULL) {
        out->kind = LK_ENCODING_GENERAL;
        return parse_general(pb->general, depth, arena, out, err);
    }
    if (pb->fixed_size_list != NULL) {
        out->kind = LK_ENCODING_FIXED_SIZE_LIST;
        return parse_list(pb->fixed_size_list, depth, arena, out, err);
    }
    return parse_leaf(pb, out, err);
}

static lk_rc parse_encoding(
    lk_bytes message, unsigned depth, lk_arena *arena, const lk_encoding **out, lk_err *err)
{
    if (depth > LK_ENCODING_DEPTH_MAX) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "encodings nest more than %d deep", LK_ENCODING_DEPTH_MAX);
    }
    const pb_encoding *pb = unpack(&lk__pbf__compressive_encoding__descriptor, message, arena);
    if (pb == NULL) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "an encoding does not parse");
    }
    lk_encoding *encoding = lk_arena_take(arena, sizeof *encoding);
    *out = encoding;
    return parse_kind(pb, depth, arena, encoding, err);
}

static lk_rc parse_optional(
    bool present, ProtobufCBinaryData message, lk_arena *arena, const lk_encoding **out, lk_err *err)
{
    return present ? parse_encoding(view(message), 0, arena, out, err) : LK_OK;
}

static lk_rc parse_layers(const int32_t *layers, size_t count, lk_page_layout *out, lk_err *err)
{
    if (count == 0 || count > LK_LAYERS_MAX) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a page of %zu layers", count);
    }
    for (size_t layer = 0; layer < count; layer++) {
        if (layers[layer] < LK_LAYER_ALL_VALID_ITEM || layers[layer] > LK_LAYER_NULL_AND_EMPTY_LIST) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "unknown layer kind %d", layers[layer]);
        }
        out->layers[layer] = (uint8_t)layers[layer];
    }
    out->layer_count = count;
    return LK_OK;
}

static lk_rc parse_miniblock(
    const Lk__Pbf__MiniBlockLayout *pb, lk_arena *arena, lk_page_layout *out, lk_err *err)
{
    out->kind = LK_PAGE_MINIBLOCK;
    out->num_items = pb->num_items;
    out->num_dictionary_items = pb->num_dictionary_items;
    out->repetition_depth = pb->repetition_index_depth;
    out->large_chunk = pb->has_has_large_chunk && pb->has_large_chunk;
    if (!pb->has_value_compression || pb->num_buffers == 0 || pb->num_buffers > LK_VALUE_BUFFERS_MAX ||
        pb->repetition_index_depth > 1) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "mini-block page of %llu buffers, repetition depth %u",
            (unsigned long long)pb->num_buffers, pb->repetition_index_depth);
    }
    out->num_buffers = (uint32_t)pb->num_buffers;
    lk_rc rc = parse_layers(pb->layers, pb->n_layers, out, err);
    if (rc == LK_OK) {
        rc = parse_optional(pb->has_rep_compression, pb->rep_compression, arena, &out->rep, err);
    }
    if (rc == LK_OK) {
        rc = parse_optional(pb->has_def_compression, pb->def_compression, arena, &out->def, err);
    }
    if (rc == LK_OK) {
        rc = parse_optional(pb->has_dictionary, pb->dictionary, arena, &out->dictionary, err);
    }
    if (rc == LK_OK) {
        rc = parse_encoding(view(pb->value_compression), 0, arena, &out->values, err);
    }
    return rc;
}

static lk_rc parse_fullzip(
    const Lk__Pbf__FullZipLayout *pb, lk_arena *arena, lk_page_layout *out, lk_err *err)
{
    out->kind = LK_PAGE_FULLZIP;
    out->bits_rep = pb->bits_rep;
    out->bits_def = pb->bits_def;
    out->bits_per_value = pb->bits_per_value;
    out->bits_per_offset = pb->bits_per_offset;
    out->num_items = pb->num_items;
    out->num_visible_items = pb->num_visible_items;
    bool fixed = pb->bits_per_value > 0;
    bool variable = pb->bits_per_offset == 32 || pb->bits_per_offset == 64;
    if (fixed == variable || pb->bits_rep > 16 || pb->bits_def > 16 || !pb->has_value_compression) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "full-zip page of %u value and %u offset bits, levels %u+%u",
            pb->bits_per_value, pb->bits_per_offset, pb->bits_rep, pb->bits_def);
    }
    lk_rc rc = parse_layers(pb->layers, pb->n_layers, out, err);
    return rc == LK_OK ? parse_encoding(view(pb->value_compression), 0, arena, &out->values, err) : rc;
}

static lk_rc parse_constant(
    const Lk__Pbf__ConstantLayout *pb, lk_arena *arena, lk_page_layout *out, lk_err *err)
{
    out->kind = LK_PAGE_CONSTANT;
    out->has_inline_value = pb->has_inline_value;
    out->inline_value = view(pb->inline_value);
    out->num_rep_values = pb->num_rep_values;
    out->num_def_values = pb->num_def_values;
    lk_rc rc = parse_layers(pb->layers, pb->n_layers, out, err);
    if (rc == LK_OK) {
        rc = parse_optional(pb->has_rep_compression, pb->rep_compression, arena, &out->rep, err);
    }
    return rc == LK_OK ? parse_optional(pb->has_def_compression, pb->def_compression, arena, &out->def, err)
                       : rc;
}

lk_rc lk_pb_page_layout(lk_bytes any, lk_arena *arena, lk_page_layout *out, lk_err *err)
{
    const Lk__Pbf__Any *outer = unpack(&lk__pbf__any__descriptor, any, arena);
    if (outer == NULL) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a page's encoding does not parse");
    }
    if (!lk_bytes_equal(view(outer->type_url), lk_bytes_of(layout_url))) {
        lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "page encoding of another file version");
        lk_detail(err, "a page encoding of another Lance file version");
        return rc;
    }
    const Lk__Pbf__PageLayout *pb = unpack(&lk__pbf__page_layout__descriptor, view(outer->value), arena);
    if (pb == NULL) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a page layout does not parse");
    }
    *out = (lk_page_layout){0};
    if (pb->mini_block_layout != NULL) {
        return parse_miniblock(pb->mini_block_layout, arena, out, err);
    }
    if (pb->constant_layout != NULL) {
        return parse_constant(pb->constant_layout, arena, out, err);
    }
    if (pb->full_zip_layout != NULL) {
        return parse_fullzip(pb->full_zip_layout, arena, out, err);
    }
    return unsupported(pb->has_blob_layout ? "blob" : "page layout of an unknown kind", err);
}

static lk_rc parse_page(const Lk__Pbf__Page *pb, lk_arena *arena, lk_page_meta *out, lk_err *err)
{
    if (pb->n_buffer_offsets != pb->n_buffer_sizes || pb->n_buffer_offsets > LK_PAGE_BUFFERS_MAX) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a page of %zu buffer offsets and %zu sizes",
            pb->n_buffer_offsets, pb->n_buffer_sizes);
    }
    if (pb->encoding == NULL || pb->encoding->direct == NULL || !pb->encoding->direct->has_encoding) {
        return unsupported("stored apart from its page", err);
    }
    lk_page_buffer *buffers = lk_arena_take(arena, sizeof *buffers * (pb->n_buffer_offsets + 1));
    for (size_t buffer = 0; buffer < pb->n_buffer_offsets; buffer++) {
        buffers[buffer] = (lk_page_buffer){pb->buffer_offsets[buffer], pb->buffer_sizes[buffer]};
    }
    out->rows = pb->length;
    out->buffers = buffers;
    out->buffer_count = pb->n_buffer_offsets;
    out->encoding = view(pb->encoding->direct->encoding);
    return LK_OK;
}

lk_rc lk_pb_column_meta(lk_bytes message, lk_arena *arena, lk_column_meta *out, lk_err *err)
{
    const Lk__Pbf__ColumnMetadata *pb = unpack(&lk__pbf__column_metadata__descriptor, message, arena);
    if (pb == NULL) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "column metadata does not parse");
    }
    lk_page_meta *pages = lk_arena_take(arena, sizeof *pages * (pb->n_pages + 1));
    uint64_t      rows = 0;
    for (size_t page = 0; page < pb->n_pages; page++) {
        lk_rc rc = parse_page(pb->pages[page], arena, &pages[page], err);
        if (rc != LK_OK) {
            return rc;
        }
        pages[page].first_row = rows;
        if (__builtin_add_overflow(rows, pages[page].rows, &rows)) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "more rows than can be counted");
        }
    }
    *out = (lk_column_meta){pages, pb->n_pages, rows};
    return LK_OK;
}

lk_rc lk_pb_descriptor(lk_bytes message, lk_arena *arena, lk_bytes *schema, uint64_t *rows, lk_err *err)
{
    const Lk__Pbf__FileDescriptor *pb = unpack(&lk__pbf__file_descriptor__descriptor, message, arena);
    if (pb == NULL) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "the file descriptor does not parse");
    }
    *schema = view(pb->schema);
    *rows = pb->length;
    return LK_OK;
}

/* -- writing --------------------------------------------------------------------------------------- */
static ProtobufCBinaryData data_of(lk_bytes bytes)
{
    return (ProtobufCBinaryData){bytes.size, (uint8_t *)(uintptr_t)bytes.data};
}

static lk_bytes pack(const ProtobufCMessage *message, lk_arena *arena)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    char  *data = lk_arena_take(arena, size + 1);
    (void)protobuf_c_message_pack(message, (uint8_t *)data);
    return (lk_bytes){data, size};
}

static ProtobufCBinaryData pack_encoding(const lk_encoding *encoding, lk_arena *arena);

static ProtobufCBinaryData pack_variable(pb_encoding *outer, const lk_encoding *encoding, lk_arena *arena)
{
    Lk__Pbf__Variable variable = LK__PBF__VARIABLE__INIT;
    variable.has_offsets = true;
    variable.offsets = pack_encoding(encoding->lengths, arena);
    outer->variable = &variable;
    return data_of(pack(&outer->base, arena));
}

static ProtobufCBinaryData pack_list(pb_encoding *outer, const lk_encoding *encoding, lk_arena *arena)
{
    Lk__Pbf__FixedSizeList list = LK__PBF__FIXED_SIZE_LIST__INIT;
    list.has_items_per_value = true;
    list.items_per_value = encoding->items_per_value;
    list.has_has_validity = list.has_validity = encoding->has_validity;
    list.has_values = true;
    list.values = pack_encoding(encoding->values, arena);
    outer->fixed_size_list = &list;
    return data_of(pack(&outer->base, arena));
}

static ProtobufCBinaryData pack_packing(pb_encoding *outer, const lk_encoding *encoding, lk_arena *arena)
{
    Lk__Pbf__OutOfLineBitpacking packing = LK__PBF__OUT_OF_LINE_BITPACKING__INIT;
    packing.has_uncompressed_bits_per_value = true;
    packing.uncompressed_bits_per_value = encoding->bits;
    packing.has_values = true;
    packing.values = pack_encoding(encoding->values, arena);
    outer->out_of_line_bitpacking = &packing;
    return data_of(pack(&outer->base, arena));
}

/* The kinds that this build writes. */
static ProtobufCBinaryData pack_encoding(const lk_encoding *encoding, lk_arena *arena)
{
    pb_encoding               outer = LK__PBF__COMPRESSIVE_ENCODING__INIT;
    Lk__Pbf__Flat             flat = LK__PBF__FLAT__INIT;
    Lk__Pbf__InlineBitpacking packing = LK__PBF__INLINE_BITPACKING__INIT;
    if (encoding->kind == LK_ENCODING_VARIABLE) {
        return pack_variable(&outer, encoding, arena);
    }
    if (encoding->kind == LK_ENCODING_FIXED_SIZE_LIST) {
        return pack_list(&outer, encoding, arena);
    }
    if (encoding->kind == LK_ENCODING_OUT_OF_LINE_BITPACKING) {
        return pack_packing(&outer, encoding, arena);
    }
    if (encoding->kind == LK_ENCODING_INLINE_BITPACKING) {
        packing.has_uncompressed_bits_per_value = true;
        packing.uncompressed_bits_per_value = encoding->bits;
        outer.inline_bitpacking = &packing;
        return data_of(pack(&outer.base, arena));
    }
    LK_ASSERT(encoding->kind == LK_ENCODING_FLAT);
    flat.has_bits_per_value = true;
    flat.bits_per_value = encoding->bits;
    outer.flat = &flat;
    return data_of(pack(&outer.base, arena));
}

static void pack_any(const char *url, lk_bytes value, lk_arena *arena, lk_buf *out)
{
    Lk__Pbf__Any any = LK__PBF__ANY__INIT;
    any.has_type_url = true;
    any.type_url = data_of(lk_bytes_of(url));
    any.has_value = true;
    any.value = data_of(value);
    lk_buf_append_bytes(out, pack(&any.base, arena));
}

static void put_page(Lk__Pbf__PageLayout *page, lk_arena *arena, lk_buf *out)
{
    pack_any(layout_url, pack(&page->base, arena), arena, out);
}

static void put_miniblock(const lk_page_layout *layout, int32_t *layers, lk_arena *arena, lk_buf *out)
{
    Lk__Pbf__PageLayout      page = LK__PBF__PAGE_LAYOUT__INIT;
    Lk__Pbf__MiniBlockLayout block = LK__PBF__MINI_BLOCK_LAYOUT__INIT;
    block.has_rep_compression = layout->rep != NULL;
    if (layout->rep != NULL) {
        block.rep_compression = pack_encoding(layout->rep, arena);
    }
    block.has_repetition_index_depth = layout->repetition_depth > 0;
    block.repetition_index_depth = layout->repetition_depth;
    block.has_def_compression = layout->def != NULL;
    if (layout->def != NULL) {
        block.def_compression = pack_encoding(layout->def, arena);
    }
    block.has_value_compression = true;
    block.value_compression = pack_encoding(layout->values, arena);
    block.n_layers = layout->layer_count;
    block.layers = layers;
    block.has_num_buffers = true;
    block.num_buffers = layout->num_buffers;
    block.has_has_large_chunk = block.has_large_chunk = layout->large_chunk;
    block.has_num_items = layout->num_items > 0;
    block.num_items = layout->num_items;
    page.mini_block_layout = &block;
    put_page(&page, arena, out);
}

static void put_fullzip(const lk_page_layout *layout, int32_t *layers, lk_arena *arena, lk_buf *out)
{
    Lk__Pbf__PageLayout    page = LK__PBF__PAGE_LAYOUT__INIT;
    Lk__Pbf__FullZipLayout zip = LK__PBF__FULL_ZIP_LAYOUT__INIT;
    zip.has_bits_rep = layout->bits_rep > 0;
    zip.bits_rep = layout->bits_rep;
    zip.has_bits_def = layout->bits_def > 0;
    zip.bits_def = layout->bits_def;
    zip.has_bits_per_value = layout->bits_per_value > 0;
    zip.bits_per_value = layout->bits_per_value;
    zip.has_bits_per_offset = layout->bits_per_offset > 0;
    zip.bits_per_offset = layout->bits_per_offset;
    zip.has_num_items = zip.has_num_visible_items = true;
    zip.num_items = (uint32_t)layout->num_items;
    zip.num_visible_items = (uint32_t)layout->num_visible_items;
    zip.has_value_compression = true;
    zip.value_compression = pack_encoding(layout->values, arena);
    zip.n_layers = layout->layer_count;
    zip.layers = layers;
    page.full_zip_layout = &zip;
    put_page(&page, arena, out);
}

static void put_constant(const lk_page_layout *layout, int32_t *layers, lk_arena *arena, lk_buf *out)
{
    Lk__Pbf__PageLayout     page = LK__PBF__PAGE_LAYOUT__INIT;
    Lk__Pbf__ConstantLayout constant = LK__PBF__CONSTANT_LAYOUT__INIT;
    constant.n_layers = layout->layer_count;
    constant.layers = layers;
    constant.has_num_def_values = layout->num_def_values > 0;
    constant.num_def_values = layout->num_def_values;
    page.constant_layout = &constant;
    put_page(&page, arena, out);
}

void lk_pb_put_layout(const lk_page_layout *layout, lk_buf *out)
{
    lk_arena arena = {0};
    int32_t  layers[LK_LAYERS_MAX];
    for (size_t layer = 0; layer < layout->layer_count; layer++) {
        layers[layer] = layout->layers[layer];
    }
    if (layout->kind == LK_PAGE_MINIBLOCK) {
        put_miniblock(layout, layers, &arena, out);
    } else if (layout->kind == LK_PAGE_FULLZIP) {
        put_fullzip(layout, layers, &arena, out);
    } else {
        LK_ASSERT(layout->kind == LK_PAGE_CONSTANT);
        put_constant(layout, layers, &arena, out);
    }
    lk_arena_close(&arena);
}

static void fill_page(const lk_page_meta *meta, Lk__Pbf__Page *page, Lk__Pbf__Encoding *encoding,
    Lk__Pbf__DirectEncoding *direct, lk_arena *arena)
{
    lk__pbf__page__init(page);
    lk__pbf__encoding__init(encoding);
    lk__pbf__direct_encoding__init(direct);
    direct->has_encoding = true;
    direct->encoding = data_of(meta->encoding);
    encoding->direct = direct;
    page->n_buffer_offsets = page->n_buffer_sizes = meta->buffer_count;
    page->buffer_offsets = lk_arena_take(arena, sizeof(uint64_t) * (meta->buffer_count + 1));
    page->buffer_sizes = lk_arena_take(arena, sizeof(uint64_t) * (meta->buffer_count + 1));
    for (size_t buffer = 0; buffer < meta->buffer_count; buffer++) {
        page->buffer_offsets[buffer] = meta->buffers[buffer].offset;
        page->buffer_sizes[buffer] = meta->buffers[buffer].size;
    }
    page->has_length = meta->rows > 0;
    page->length = meta->rows;
    page->encoding = encoding;
    page->has_priority = meta->first_row > 0;
    page->priority = meta->first_row;
}

void lk_pb_put_column(const lk_page_meta *pages, size_t page_count, lk_buf *out)
{
    lk_arena                 arena = {0};
    lk_buf                   any = {0};
    Lk__Pbf__ColumnMetadata  column = LK__PBF__COLUMN_METADATA__INIT;
    Lk__Pbf__Encoding        encoding = LK__PBF__ENCODING__INIT;
    Lk__Pbf__DirectEncoding  direct = LK__PBF__DIRECT_ENCODING__INIT;
    Lk__Pbf__Page           *pb = lk_arena_take(&arena, sizeof *pb * (page_count + 1));
    Lk__Pbf__Encoding       *encodings = lk_arena_take(&arena, sizeof *encodings * (page_count + 1));
    Lk__Pbf__DirectEncoding *directs = lk_arena_take(&arena, sizeof *directs * (page_count + 1));
    column.pages = lk_arena_take(&arena, sizeof(void *) * (page_count + 1));
    column.n_pages = page_count;
    for (size_t page = 0; page < page_count; page++) {
        fill_page(&pages[page], &pb[page], &encodings[page], &directs[page], &arena);
        column.pages[page] = &pb[page];
    }
    pack_any(column_url, LK_LITERAL("\x0a\x00"), &arena, &any); /* ColumnEncoding{values{}} */
    direct.has_encoding = true;
    direct.encoding = data_of(lk_buf_view(&any));
    encoding.direct = &direct;
    column.encoding = &encoding;
    lk_buf_append_bytes(out, pack(&column.base, &arena));
    lk_buf_deinit(&any);
    lk_arena_close(&arena);
}
