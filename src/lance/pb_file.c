/*
 * pb_file.c - see pb_file.h: reading; pb_file_write.c writes. Messages are unpacked into the caller's arena and never freed singly.
 * Invariant: parse_encoding is the only recursion over input, bounded by LK_ENCODING_DEPTH_MAX.
 */
#include "lance/pb_file.h"

#include "pb_file.pb-c.h"

#include <string.h>

typedef Lk__Pbf__CompressiveEncoding pb_encoding;

static const char layout_url[] = "/lance.encodings21.PageLayout";

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
    if (pb->constant != NULL && !pb->constant->has_value) {
        out->kind = LK_ENCODING_CONSTANT; /* nothing but nulls */
        return LK_OK;
    }
    return unsupported(pb->constant != NULL ? "constant inside a page"
                       : pb->has_dictionary ? "dictionary inside an encoding"
                                            : "of an unknown kind",
        err);
}

static lk_rc parse_packed(
    const Lk__Pbf__PackedStruct *pb, unsigned depth, lk_arena *arena, lk_encoding *out, lk_err *err)
{
    if (pb->n_bits_per_value == 0 || pb->n_bits_per_value > LK_PACKED_FIELDS_MAX) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a packed struct of %zu members", pb->n_bits_per_value);
    }
    lk_packed_field *fields = lk_arena_take(arena, pb->n_bits_per_value * sizeof *fields);
    out->fields = fields;
    out->field_count = pb->n_bits_per_value;
    for (size_t field = 0; field < out->field_count; field++) {
        fields[field] = (lk_packed_field){0};
        lk_rc rc = parse_bits(pb->bits_per_value[field], &fields[field].bits, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return parse_inner(pb->has_values, pb->values, depth, arena, &out->values, err);
}

static lk_rc parse_packed_field(const Lk__Pbf__VariablePackedField *pb, unsigned depth, lk_arena *arena,
    lk_packed_field *out, lk_err *err)
{
    bool fixed = pb->has_bits_per_value && pb->bits_per_value > 0;
    bool variable = pb->has_bits_per_length && (pb->bits_per_length == 32 || pb->bits_per_length == 64);
    *out = (lk_packed_field){.length_bits = variable ? (uint32_t)pb->bits_per_length : 0};
    if (fixed == variable) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a member of a packed struct without a width");
    }
    lk_rc rc = fixed ? parse_bits(pb->bits_per_value, &out->bits, err) : LK_OK;
    return rc == LK_OK ? parse_inner(pb->has_value, pb->value, depth, arena, &out->values, err) : rc;
}

static lk_rc parse_variable_packed(
    const Lk__Pbf__VariablePackedStruct *pb, unsigned depth, lk_arena *arena, lk_encoding *out, lk_err *err)
{
    if (pb->n_fields == 0 || pb->n_fields > LK_PACKED_FIELDS_MAX) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a packed struct of %zu members", pb->n_fields);
    }
    lk_packed_field *fields = lk_arena_take(arena, pb->n_fields * sizeof *fields);
    out->fields = fields;
    out->field_count = pb->n_fields;
    lk_rc rc = LK_OK;
    for (size_t field = 0; rc == LK_OK && field < out->field_count; field++) {
        rc = parse_packed_field(pb->fields[field], depth, arena, &fields[field], err);
    }
    return rc;
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
    if (pb->packed_struct != NULL) {
        out->kind = LK_ENCODING_PACKED_STRUCT;
        return parse_packed(pb->packed_struct, depth, arena, out, err);
    }
    if (pb->variable_packed_struct != NULL) {
        out->kind = LK_ENCODING_VARIABLE_PACKED_STRUCT;
        return parse_variable_packed(pb->variable_packed_struct, depth, arena, out, err);
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

static lk_rc read_layers(const int32_t *layers, size_t count, uint8_t *out, size_t *out_count, lk_err *err)
{
    if (count == 0 || count > LK_LAYERS_MAX) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a page of %zu layers", count);
    }
    for (size_t layer = 0; layer < count; layer++) {
        if (layers[layer] < LK_LAYER_ALL_VALID_ITEM || layers[layer] > LK_LAYER_NULL_AND_EMPTY_LIST) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "unknown layer kind %d", layers[layer]);
        }
        out[layer] = (uint8_t)layers[layer];
    }
    *out_count = count;
    return LK_OK;
}

static lk_rc parse_layers(const int32_t *layers, size_t count, lk_page_layout *out, lk_err *err)
{
    return read_layers(layers, count, out->layers, &out->layer_count, err);
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

/* Of the layouts that may stand inside a blob's. */
static lk_rc parse_layout(const Lk__Pbf__PageLayout *pb, lk_arena *arena, lk_page_layout *out, lk_err *err)
{
    if (pb->mini_block_layout != NULL) {
        return parse_miniblock(pb->mini_block_layout, arena, out, err);
    }
    if (pb->constant_layout != NULL) {
        return parse_constant(pb->constant_layout, arena, out, err);
    }
    if (pb->full_zip_layout != NULL) {
        return parse_fullzip(pb->full_zip_layout, arena, out, err);
    }
    return unsupported("page layout of an unknown kind", err);
}

static lk_rc parse_blob(const Lk__Pbf__BlobLayout *pb, lk_arena *arena, lk_page_layout *out, lk_err *err)
{
    const Lk__Pbf__PageLayout *inner =
        pb->has_inner_layout ? unpack(&lk__pbf__page_layout__descriptor, view(pb->inner_layout), arena)
                             : NULL;
    if (inner == NULL) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a blob layout does not parse");
    }
    out->is_blob = true;
    lk_rc rc = read_layers(pb->layers, pb->n_layers, out->outer_layers, &out->outer_layer_count, err);
    return rc == LK_OK ? parse_layout(inner, arena, out, err) : rc;
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
    return pb->blob_layout != NULL ? parse_blob(pb->blob_layout, arena, out, err)
                                   : parse_layout(pb, arena, out, err);
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
