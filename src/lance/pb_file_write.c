/*
 * pb_file_write.c - see pb_file.h: writing. Messages are packed from inside out into an arena of their own.
 * Invariant: every kind that a page of ours can have has its own function here; others are a programmer's mistake.
 */
#include "lance/pb_file.h"

#include "pb_file.pb-c.h"

#include <string.h>

typedef Lk__Pbf__CompressiveEncoding pb_encoding;

static const char layout_url[] = "/lance.encodings21.PageLayout";
static const char column_url[] = "/lance.encodings.ColumnEncoding";

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

static ProtobufCBinaryData pack_packed(pb_encoding *outer, const lk_encoding *encoding, lk_arena *arena)
{
    Lk__Pbf__PackedStruct packed = LK__PBF__PACKED_STRUCT__INIT;
    packed.n_bits_per_value = encoding->field_count;
    packed.bits_per_value = lk_arena_take(arena, encoding->field_count * sizeof(uint64_t));
    for (size_t field = 0; field < encoding->field_count; field++) {
        packed.bits_per_value[field] = encoding->fields[field].bits;
    }
    packed.has_values = true;
    packed.values = pack_encoding(encoding->values, arena);
    outer->packed_struct = &packed;
    return data_of(pack(&outer->base, arena));
}

static ProtobufCBinaryData pack_variable_packed(
    pb_encoding *outer, const lk_encoding *encoding, lk_arena *arena)
{
    Lk__Pbf__VariablePackedStruct packed = LK__PBF__VARIABLE_PACKED_STRUCT__INIT;
    Lk__Pbf__VariablePackedField *fields = lk_arena_take(arena, encoding->field_count * sizeof *fields);
    packed.n_fields = encoding->field_count;
    packed.fields = lk_arena_take(arena, encoding->field_count * sizeof(void *));
    for (size_t index = 0; index < encoding->field_count; index++) {
        const lk_packed_field *field = &encoding->fields[index];
        lk__pbf__variable_packed_field__init(&fields[index]);
        fields[index].has_value = true;
        fields[index].value = pack_encoding(field->values, arena);
        fields[index].has_bits_per_value = field->bits > 0;
        fields[index].bits_per_value = field->bits;
        fields[index].has_bits_per_length = field->length_bits > 0;
        fields[index].bits_per_length = field->length_bits;
        packed.fields[index] = &fields[index];
    }
    outer->variable_packed_struct = &packed;
    return data_of(pack(&outer->base, arena));
}

/* A constant without a value. */
static ProtobufCBinaryData pack_null(pb_encoding *outer, lk_arena *arena)
{
    Lk__Pbf__Constant null = LK__PBF__CONSTANT__INIT;
    outer->constant = &null;
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

static ProtobufCBinaryData pack_symbols(pb_encoding *outer, const lk_encoding *encoding, lk_arena *arena)
{
    Lk__Pbf__Fsst fsst = LK__PBF__FSST__INIT;
    fsst.has_symbol_table = true;
    fsst.symbol_table = data_of(encoding->symbol_table);
    fsst.has_values = true;
    fsst.values = pack_encoding(encoding->values, arena);
    outer->fsst = &fsst;
    return data_of(pack(&outer->base, arena));
}

static ProtobufCBinaryData pack_runs(pb_encoding *outer, const lk_encoding *encoding, lk_arena *arena)
{
    Lk__Pbf__Rle runs = LK__PBF__RLE__INIT;
    runs.has_values = runs.has_run_lengths = true;
    runs.values = pack_encoding(encoding->values, arena);
    runs.run_lengths = pack_encoding(encoding->lengths, arena);
    outer->rle = &runs;
    return data_of(pack(&outer->base, arena));
}

static ProtobufCBinaryData pack_split(pb_encoding *outer, const lk_encoding *encoding, lk_arena *arena)
{
    Lk__Pbf__ByteStreamSplit split = LK__PBF__BYTE_STREAM_SPLIT__INIT;
    split.has_values = true;
    split.values = pack_encoding(encoding->values, arena);
    outer->byte_stream_split = &split;
    return data_of(pack(&outer->base, arena));
}

static ProtobufCBinaryData pack_general(pb_encoding *outer, const lk_encoding *encoding, lk_arena *arena)
{
    Lk__Pbf__General           general = LK__PBF__GENERAL__INIT;
    Lk__Pbf__BufferCompression compression = LK__PBF__BUFFER_COMPRESSION__INIT;
    compression.has_scheme = true;
    compression.scheme = (int32_t)encoding->scheme;
    general.compression = &compression;
    general.has_values = true;
    general.values = pack_encoding(encoding->values, arena);
    outer->general = &general;
    return data_of(pack(&outer->base, arena));
}

static ProtobufCBinaryData pack_word(pb_encoding *outer, const lk_encoding *encoding, lk_arena *arena)
{
    Lk__Pbf__Flat             flat = LK__PBF__FLAT__INIT;
    Lk__Pbf__InlineBitpacking packing = LK__PBF__INLINE_BITPACKING__INIT;
    if (encoding->kind == LK_ENCODING_FLAT) {
        flat.has_bits_per_value = true;
        flat.bits_per_value = encoding->bits;
        outer->flat = &flat;
    } else {
        packing.has_uncompressed_bits_per_value = true;
        packing.uncompressed_bits_per_value = encoding->bits;
        outer->inline_bitpacking = &packing;
    }
    return data_of(pack(&outer->base, arena));
}

static ProtobufCBinaryData pack_encoding(const lk_encoding *encoding, lk_arena *arena)
{
    pb_encoding outer = LK__PBF__COMPRESSIVE_ENCODING__INIT;
    switch (encoding->kind) {
    case LK_ENCODING_FLAT:
    case LK_ENCODING_INLINE_BITPACKING:
        return pack_word(&outer, encoding, arena);
    case LK_ENCODING_VARIABLE:
        return pack_variable(&outer, encoding, arena);
    case LK_ENCODING_FIXED_SIZE_LIST:
        return pack_list(&outer, encoding, arena);
    case LK_ENCODING_OUT_OF_LINE_BITPACKING:
        return pack_packing(&outer, encoding, arena);
    case LK_ENCODING_FSST:
        return pack_symbols(&outer, encoding, arena);
    case LK_ENCODING_RLE:
        return pack_runs(&outer, encoding, arena);
    case LK_ENCODING_BYTE_STREAM_SPLIT:
        return pack_split(&outer, encoding, arena);
    case LK_ENCODING_GENERAL:
        return pack_general(&outer, encoding, arena);
    case LK_ENCODING_PACKED_STRUCT:
        return pack_packed(&outer, encoding, arena);
    case LK_ENCODING_VARIABLE_PACKED_STRUCT:
        return pack_variable_packed(&outer, encoding, arena);
    case LK_ENCODING_CONSTANT:
        return pack_null(&outer, arena);
    case LK_ENCODING_NONE:
    case LK_ENCODING_DICTIONARY:
        break;
    }
    LK_ASSERT(!"an encoding that pages of ours do not have");
    return (ProtobufCBinaryData){0};
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

static void put_page(const lk_page_layout *layout, Lk__Pbf__PageLayout *page, lk_arena *arena, lk_buf *out)
{
    Lk__Pbf__PageLayout outer = LK__PBF__PAGE_LAYOUT__INIT;
    Lk__Pbf__BlobLayout blob = LK__PBF__BLOB_LAYOUT__INIT;
    int32_t             layers[LK_LAYERS_MAX];
    if (layout->is_blob) {
        for (size_t layer = 0; layer < layout->outer_layer_count; layer++) {
            layers[layer] = layout->outer_layers[layer];
        }
        blob.has_inner_layout = true;
        blob.inner_layout = data_of(pack(&page->base, arena));
        blob.n_layers = layout->outer_layer_count;
        blob.layers = layers;
        outer.blob_layout = &blob;
        page = &outer;
    }
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
    block.has_dictionary = block.has_num_dictionary_items = layout->dictionary != NULL;
    if (layout->dictionary != NULL) {
        block.dictionary = pack_encoding(layout->dictionary, arena);
        block.num_dictionary_items = layout->num_dictionary_items;
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
    put_page(layout, &page, arena, out);
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
    put_page(layout, &page, arena, out);
}

static void put_constant(const lk_page_layout *layout, int32_t *layers, lk_arena *arena, lk_buf *out)
{
    Lk__Pbf__PageLayout     page = LK__PBF__PAGE_LAYOUT__INIT;
    Lk__Pbf__ConstantLayout constant = LK__PBF__CONSTANT_LAYOUT__INIT;
    constant.n_layers = layout->layer_count;
    constant.layers = layers;
    constant.has_num_def_values = layout->num_def_values > 0;
    constant.num_def_values = layout->num_def_values;
    constant.has_num_rep_values = layout->num_rep_values > 0;
    constant.num_rep_values = layout->num_rep_values;
    constant.has_rep_compression = layout->rep != NULL;
    if (layout->rep != NULL) {
        constant.rep_compression = pack_encoding(layout->rep, arena);
    }
    constant.has_def_compression = layout->def != NULL;
    if (layout->def != NULL) {
        constant.def_compression = pack_encoding(layout->def, arena);
    }
    constant.has_inline_value = layout->has_inline_value;
    constant.inline_value = data_of(layout->inline_value);
    page.constant_layout = &constant;
    put_page(layout, &page, arena, out);
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

void lk_pb_put_column(const lk_page_meta *pages, size_t page_count, bool blob_v20, lk_buf *out)
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
    lk_bytes values =
        LK_LITERAL("\x0a\x00"); /* ColumnEncoding{values{}}; the other one has blob{inner{that}} */
    pack_any(column_url, blob_v20 ? LK_LITERAL("\x1a\x04\x0a\x02\x0a\x00") : values, &arena, &any);
    direct.has_encoding = true;
    direct.encoding = data_of(lk_buf_view(&any));
    encoding.direct = &direct;
    column.encoding = &encoding;
    lk_buf_append_bytes(out, pack(&column.base, &arena));
    lk_buf_deinit(&any);
    lk_arena_close(&arena);
}
