/*
 * pb_v20.c - see v20_encoding.h. Messages are unpacked into the caller's arena and never freed singly.
 * Invariant: parse_array is the only recursion over input, bounded by LK_ENCODING_DEPTH_MAX.
 */
#include "lance/encoding.h"
#include "lance/v20_encoding.h"

#include "pb_v20.pb-c.h"

#include <string.h>

static const char array_url[] = "/lance.encodings.ArrayEncoding";

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

static lk_bytes view(ProtobufCBinaryData data)
{
    return (lk_bytes){(const char *)data.data, data.len};
}

static void *unpack(const ProtobufCMessageDescriptor *type, lk_bytes message, lk_arena *arena)
{
    ProtobufCAllocator allocator = {arena_alloc, arena_free, arena};
    return protobuf_c_message_unpack(type, &allocator, message.size, (const uint8_t *)message.data);
}

/* What parsing carries along. */
typedef struct parser {
    lk_arena *arena;
    size_t    buffer_count;
} parser;

static lk_rc parse_array(
    const parser *self, lk_bytes message, unsigned depth, const lk_v20_array **out, lk_err *err);

static lk_rc unsupported(const char *name, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "encoding %s", name);
    lk_detail(err, "Lance 2.0 encoding %s", name);
    return rc;
}

static lk_rc parse_inner(const parser *self, bool present, ProtobufCBinaryData message, unsigned depth,
    const lk_v20_array **out, lk_err *err)
{
    if (!present) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "an encoding lacks the one inside it");
    }
    return parse_array(self, view(message), depth + 1, out, err);
}

static lk_rc parse_buffer(const parser *self, const Lk__Pbv__Buffer *pb, uint32_t *out, lk_err *err)
{
    *out = pb == NULL ? 0 : pb->buffer_index;
    if (pb != NULL && pb->buffer_type != 0) {
        return unsupported("with a buffer that is not the page's", err);
    }
    return *out < self->buffer_count
               ? LK_OK
               : lk_fail(err, LK_E_CORRUPT_FILE, "buffer %u of %zu", *out, self->buffer_count);
}

static lk_rc parse_scheme(const Lk__Pbv__Compression *pb, lk_v20_scheme *out, lk_err *err)
{
    lk_bytes scheme = pb == NULL ? (lk_bytes){0} : view(pb->scheme);
    *out = LK_V20_PLAIN;
    if (scheme.size == 0 || lk_bytes_equal(scheme, LK_LITERAL("none"))) {
        return LK_OK;
    }
    *out = lk_bytes_equal(scheme, LK_LITERAL("lz4")) ? LK_V20_LZ4 : LK_V20_ZSTD;
    return *out == LK_V20_LZ4 || lk_bytes_equal(scheme, LK_LITERAL("zstd"))
               ? LK_OK
               : unsupported("with a compression of an unknown scheme", err);
}

static lk_rc parse_flat(const parser *self, const Lk__Pbv__Flat *pb, lk_v20_array *out, lk_err *err)
{
    uint64_t bits = pb->bits_per_value;
    if (bits == 0 || bits > UINT32_MAX / 64 || (bits != 1 && bits % 8 != 0)) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "values of %llu bits", (unsigned long long)bits);
    }
    out->bits = (uint32_t)bits;
    lk_rc rc = parse_scheme(pb->compression, &out->scheme, err);
    return rc == LK_OK ? parse_buffer(self, pb->buffer, &out->buffer, err) : rc;
}

static lk_rc parse_packed(const parser *self, const Lk__Pbv__Bitpacked *pb, lk_v20_array *out, lk_err *err)
{
    uint64_t bits = pb->compressed_bits_per_value, word = pb->uncompressed_bits_per_value;
    if ((word != 8 && word != 16 && word != 32 && word != 64) || bits == 0 || bits > word) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "%llu bits packed into %llu", (unsigned long long)word,
            (unsigned long long)bits);
    }
    out->bits = (uint32_t)bits;
    out->word_bits = (uint32_t)word;
    out->is_signed = pb->has_signed_ && pb->signed_;
    return parse_buffer(self, pb->buffer, &out->buffer, err);
}

static lk_rc parse_nullable(
    const parser *self, const Lk__Pbv__Nullable *pb, unsigned depth, lk_v20_array *out, lk_err *err)
{
    if (pb->all_nulls != NULL) {
        out->kind = LK_V20_ALL_NULL;
        return LK_OK;
    }
    if (pb->no_nulls != NULL) {
        const lk_v20_array *values = NULL;
        lk_rc rc = parse_inner(self, pb->no_nulls->has_values, pb->no_nulls->values, depth, &values, err);
        if (rc == LK_OK) {
            *out = *values;
        }
        return rc;
    }
    if (pb->some_nulls == NULL) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "an encoding does not say which values are null");
    }
    lk_rc rc =
        parse_inner(self, pb->some_nulls->has_validity, pb->some_nulls->validity, depth, &out->validity, err);
    if (rc == LK_OK && (out->validity->kind != LK_V20_FLAT || out->validity->bits != 1)) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "a validity that is not bits");
    }
    return rc == LK_OK ? parse_inner(self, pb->some_nulls->has_values, pb->some_nulls->values, depth,
                             &out->values, err)
                       : rc;
}

/* Ends of values: words of 64 bits without nulls of their own. */
static lk_rc parse_ends(const parser *self, bool present, ProtobufCBinaryData message, unsigned depth,
    const lk_v20_array **out, lk_err *err)
{
    lk_rc rc = parse_inner(self, present, message, depth, out, err);
    if (rc != LK_OK) {
        return rc;
    }
    const lk_v20_array *ends = *out;
    bool                words =
        (ends->kind == LK_V20_FLAT && ends->bits == 64) ||
        ((ends->kind == LK_V20_BITPACKED || ends->kind == LK_V20_BITPACKED_BLOCKS) && ends->word_bits == 64);
    return words ? LK_OK : lk_fail(err, LK_E_CORRUPT_FILE, "offsets that are not words of 64 bits");
}

static lk_rc parse_list(
    const parser *self, const Lk__Pbv__List *pb, unsigned depth, lk_v20_array *out, lk_err *err)
{
    out->adjustment = pb->null_offset_adjustment;
    out->item_count = pb->num_items;
    if (out->adjustment <= out->item_count) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a list's ends cannot be told from nulls");
    }
    return parse_ends(self, pb->has_offsets, pb->offsets, depth, &out->indices, err);
}

static lk_rc parse_binary(
    const parser *self, const Lk__Pbv__Binary *pb, unsigned depth, lk_v20_array *out, lk_err *err)
{
    out->adjustment = pb->null_adjustment;
    lk_rc rc = parse_ends(self, pb->has_indices, pb->indices, depth, &out->indices, err);
    if (rc == LK_OK) {
        rc = parse_inner(self, pb->has_bytes, pb->bytes, depth, &out->values, err);
    }
    if (rc == LK_OK && (out->values->kind != LK_V20_FLAT || out->values->bits != 8)) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "text that is not bytes");
    }
    return rc;
}

static lk_rc parse_dictionary(
    const parser *self, const Lk__Pbv__Dictionary *pb, unsigned depth, lk_v20_array *out, lk_err *err)
{
    out->item_count = pb->num_dictionary_items;
    lk_rc rc = parse_inner(self, pb->has_indices, pb->indices, depth, &out->indices, err);
    return rc == LK_OK ? parse_inner(self, pb->has_items, pb->items, depth, &out->values, err) : rc;
}

static lk_rc parse_fsst(
    const parser *self, const Lk__Pbv__Fsst *pb, unsigned depth, lk_v20_array *out, lk_err *err)
{
    if (!pb->has_symbol_table || pb->symbol_table.len > LK_SYMBOL_TABLE_BYTES_MAX) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "FSST symbol table of %zu bytes", pb->symbol_table.len);
    }
    out->symbol_table = view(pb->symbol_table);
    lk_rc rc = parse_inner(self, pb->has_binary, pb->binary, depth, &out->values, err);
    if (rc == LK_OK && out->values->kind != LK_V20_BINARY) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "FSST of something that is not text");
    }
    return rc;
}

static lk_rc parse_struct(
    const parser *self, const Lk__Pbv__PackedStruct *pb, unsigned depth, lk_v20_array *out, lk_err *err)
{
    const lk_v20_array **inner = lk_arena_take(self->arena, (pb->n_inner + 1) * sizeof(lk_v20_array *));
    lk_rc                rc = parse_buffer(self, pb->buffer, &out->buffer, err);
    for (size_t child = 0; rc == LK_OK && child < pb->n_inner; child++) {
        rc = parse_inner(self, true, pb->inner[child], depth, &inner[child], err);
    }
    out->inner = inner;
    out->inner_count = pb->n_inner;
    return rc;
}

static lk_rc parse_width(
    const parser *self, const Lk__Pbv__FixedSizeBinary *pb, unsigned depth, lk_v20_array *out, lk_err *err)
{
    out->dimension = pb->byte_width;
    lk_rc rc = parse_inner(self, pb->has_bytes, pb->bytes, depth, &out->values, err);
    if (rc == LK_OK && (pb->byte_width == 0 || out->values->kind != LK_V20_FLAT ||
                           (out->values->bits != 8 && out->values->bits != 8ULL * pb->byte_width))) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "text of %u bytes each in something else", pb->byte_width);
    }
    return rc;
}

static lk_rc parse_fixed_list(
    const parser *self, const Lk__Pbv__FixedSizeList *pb, unsigned depth, lk_v20_array *out, lk_err *err)
{
    out->dimension = pb->dimension;
    return parse_inner(self, pb->has_items, pb->items, depth, &out->values, err);
}

static lk_rc parse_nested(
    const parser *self, const Lk__Pbv__ArrayEncoding *pb, unsigned depth, lk_v20_array *out, lk_err *err)
{
    switch (out->kind) {
    case LK_V20_NULLABLE:
        return parse_nullable(self, pb->nullable, depth, out, err);
    case LK_V20_FIXED_SIZE_LIST:
        return parse_fixed_list(self, pb->fixed_size_list, depth, out, err);
    case LK_V20_LIST:
        return parse_list(self, pb->list, depth, out, err);
    case LK_V20_BINARY:
        return parse_binary(self, pb->binary, depth, out, err);
    case LK_V20_DICTIONARY:
        return parse_dictionary(self, pb->dictionary, depth, out, err);
    case LK_V20_FSST:
        return parse_fsst(self, pb->fsst, depth, out, err);
    case LK_V20_PACKED_STRUCT:
        return parse_struct(self, pb->packed_struct, depth, out, err);
    case LK_V20_FIXED_SIZE_BINARY:
        return parse_width(self, pb->fixed_size_binary, depth, out, err);
    case LK_V20_FLAT:
        return parse_flat(self, pb->flat, out, err);
    case LK_V20_BITPACKED:
        return parse_packed(self, pb->bitpacked, out, err);
    case LK_V20_BITPACKED_BLOCKS:
        return parse_packed(self, pb->bitpacked_for_non_neg, out, err);
    case LK_V20_STRUCT:
    case LK_V20_ALL_NULL:
    default:
        return LK_OK;
    }
}

static lk_rc parse_kind(const Lk__Pbv__ArrayEncoding *pb, lk_v20_kind *out, lk_err *err)
{
    const struct {
        const void *present;
        lk_v20_kind kind;
    } kinds[] = {{pb->flat, LK_V20_FLAT}, {pb->nullable, LK_V20_NULLABLE},
        {pb->fixed_size_list, LK_V20_FIXED_SIZE_LIST}, {pb->list, LK_V20_LIST}, {pb->struct_, LK_V20_STRUCT},
        {pb->binary, LK_V20_BINARY}, {pb->dictionary, LK_V20_DICTIONARY}, {pb->fsst, LK_V20_FSST},
        {pb->packed_struct, LK_V20_PACKED_STRUCT}, {pb->bitpacked, LK_V20_BITPACKED},
        {pb->fixed_size_binary, LK_V20_FIXED_SIZE_BINARY},
        {pb->bitpacked_for_non_neg, LK_V20_BITPACKED_BLOCKS}};
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++) {
        if (kinds[kind].present != NULL) {
            *out = kinds[kind].kind;
            return LK_OK;
        }
    }
    return unsupported("of an unknown kind", err);
}

static lk_rc parse_array(
    const parser *self, lk_bytes message, unsigned depth, const lk_v20_array **out, lk_err *err)
{
    if (depth > LK_ENCODING_DEPTH_MAX * 2) { /* every level of a list has a nullable around it */
        return lk_fail(err, LK_E_CORRUPT_FILE, "encodings nest too deep");
    }
    const Lk__Pbv__ArrayEncoding *pb = unpack(&lk__pbv__array_encoding__descriptor, message, self->arena);
    if (pb == NULL) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "an encoding does not parse");
    }
    lk_v20_array *array = lk_arena_take(self->arena, sizeof *array);
    *out = array;
    lk_rc rc = parse_kind(pb, &array->kind, err);
    return rc == LK_OK ? parse_nested(self, pb, depth, array, err) : rc;
}

lk_rc lk_pb_v20_page(
    lk_bytes any, size_t buffer_count, lk_arena *arena, const lk_v20_array **out, lk_err *err)
{
    const parser        self = {arena, buffer_count};
    const Lk__Pbv__Any *outer = unpack(&lk__pbv__any__descriptor, any, arena);
    if (outer == NULL) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a page's encoding does not parse");
    }
    if (!lk_bytes_equal(view(outer->type_url), lk_bytes_of(array_url))) {
        lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "page encoding of another file version");
        lk_detail(err, "a page encoding of another Lance file version");
        return rc;
    }
    return parse_array(&self, view(outer->value), 0, out, err);
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

static ProtobufCBinaryData pack_array(const lk_v20_array *array, lk_arena *arena);

static ProtobufCBinaryData pack_outer(const Lk__Pbv__ArrayEncoding *outer, lk_arena *arena)
{
    return data_of(pack(&outer->base, arena));
}

/* Around values without a validity of their own: every reader expects one that says so. */
static ProtobufCBinaryData pack_no_nulls(Lk__Pbv__ArrayEncoding *inner, lk_arena *arena)
{
    Lk__Pbv__ArrayEncoding outer = LK__PBV__ARRAY_ENCODING__INIT;
    Lk__Pbv__Nullable      nullable = LK__PBV__NULLABLE__INIT;
    Lk__Pbv__NoNull        none = LK__PBV__NO_NULL__INIT;
    none.has_values = true;
    none.values = pack_outer(inner, arena);
    nullable.no_nulls = &none;
    outer.nullable = &nullable;
    return pack_outer(&outer, arena);
}

static ProtobufCBinaryData pack_flat(const lk_v20_array *array, bool bare, lk_arena *arena)
{
    Lk__Pbv__ArrayEncoding outer = LK__PBV__ARRAY_ENCODING__INIT;
    Lk__Pbv__Flat          flat = LK__PBV__FLAT__INIT;
    Lk__Pbv__Buffer        buffer = LK__PBV__BUFFER__INIT;
    Lk__Pbv__Compression   compression = LK__PBV__COMPRESSION__INIT;
    buffer.has_buffer_index = array->buffer > 0;
    buffer.buffer_index = array->buffer;
    flat.has_bits_per_value = true;
    flat.bits_per_value = array->bits;
    flat.buffer = &buffer;
    if (array->scheme != LK_V20_PLAIN) {
        compression.has_scheme = true;
        compression.scheme = data_of(array->scheme == LK_V20_LZ4 ? LK_LITERAL("lz4") : LK_LITERAL("zstd"));
        flat.compression = &compression;
    }
    outer.flat = &flat;
    return bare ? pack_outer(&outer, arena) : pack_no_nulls(&outer, arena);
}

/* Values as they stand inside a nullable: without one of their own. */
static ProtobufCBinaryData pack_values(const lk_v20_array *array, bool bare, lk_arena *arena)
{
    Lk__Pbv__ArrayEncoding outer = LK__PBV__ARRAY_ENCODING__INIT;
    Lk__Pbv__FixedSizeList list = LK__PBV__FIXED_SIZE_LIST__INIT;
    if (array->kind == LK_V20_FLAT) {
        return pack_flat(array, bare, arena);
    }
    LK_ASSERT(array->kind == LK_V20_FIXED_SIZE_LIST);
    list.has_dimension = true;
    list.dimension = array->dimension;
    list.has_items = true;
    list.items = pack_array(array->values, arena);
    outer.fixed_size_list = &list;
    return bare ? pack_outer(&outer, arena) : pack_no_nulls(&outer, arena);
}

static ProtobufCBinaryData pack_nullable(const lk_v20_array *array, lk_arena *arena)
{
    Lk__Pbv__ArrayEncoding outer = LK__PBV__ARRAY_ENCODING__INIT;
    Lk__Pbv__Nullable      nullable = LK__PBV__NULLABLE__INIT;
    Lk__Pbv__SomeNull      some = LK__PBV__SOME_NULL__INIT;
    Lk__Pbv__AllNull       all = LK__PBV__ALL_NULL__INIT;
    outer.nullable = &nullable;
    if (array->kind == LK_V20_ALL_NULL) {
        nullable.all_nulls = &all;
        return pack_outer(&outer, arena);
    }
    some.has_validity = some.has_values = true;
    some.validity = pack_flat(array->validity, true, arena);
    some.values = pack_values(array->values, true, arena);
    nullable.some_nulls = &some;
    return pack_outer(&outer, arena);
}

static ProtobufCBinaryData pack_binary(const lk_v20_array *array, lk_arena *arena)
{
    Lk__Pbv__ArrayEncoding outer = LK__PBV__ARRAY_ENCODING__INIT;
    Lk__Pbv__Binary        binary = LK__PBV__BINARY__INIT;
    binary.has_indices = binary.has_bytes = binary.has_null_adjustment = true;
    binary.indices = pack_array(array->indices, arena);
    binary.bytes = pack_flat(array->values, true, arena);
    binary.null_adjustment = array->adjustment;
    outer.binary = &binary;
    return pack_outer(&outer, arena);
}

static ProtobufCBinaryData pack_list(const lk_v20_array *array, lk_arena *arena)
{
    Lk__Pbv__ArrayEncoding outer = LK__PBV__ARRAY_ENCODING__INIT;
    Lk__Pbv__List          list = LK__PBV__LIST__INIT;
    list.has_offsets = list.has_null_offset_adjustment = true;
    list.offsets = pack_array(array->indices, arena);
    list.null_offset_adjustment = array->adjustment;
    list.has_num_items = array->item_count > 0;
    list.num_items = array->item_count;
    outer.list = &list;
    return pack_outer(&outer, arena);
}

static ProtobufCBinaryData pack_dictionary(const lk_v20_array *array, lk_arena *arena)
{
    Lk__Pbv__ArrayEncoding outer = LK__PBV__ARRAY_ENCODING__INIT;
    Lk__Pbv__Dictionary    dictionary = LK__PBV__DICTIONARY__INIT;
    dictionary.has_indices = dictionary.has_items = dictionary.has_num_dictionary_items = true;
    dictionary.indices = pack_array(array->indices, arena);
    dictionary.items = pack_array(array->values, arena);
    dictionary.num_dictionary_items = (uint32_t)array->item_count;
    outer.dictionary = &dictionary;
    return pack_outer(&outer, arena);
}

static ProtobufCBinaryData pack_fsst(const lk_v20_array *array, lk_arena *arena)
{
    Lk__Pbv__ArrayEncoding outer = LK__PBV__ARRAY_ENCODING__INIT;
    Lk__Pbv__Fsst          fsst = LK__PBV__FSST__INIT;
    fsst.has_binary = fsst.has_symbol_table = true;
    fsst.binary = pack_array(array->values, arena);
    fsst.symbol_table = data_of(array->symbol_table);
    outer.fsst = &fsst;
    return pack_outer(&outer, arena);
}

static ProtobufCBinaryData pack_struct(const lk_v20_array *array, lk_arena *arena)
{
    Lk__Pbv__ArrayEncoding outer = LK__PBV__ARRAY_ENCODING__INIT;
    Lk__Pbv__PackedStruct  packed = LK__PBV__PACKED_STRUCT__INIT;
    Lk__Pbv__Buffer        buffer = LK__PBV__BUFFER__INIT;
    buffer.has_buffer_index = array->buffer > 0;
    buffer.buffer_index = array->buffer;
    packed.buffer = &buffer;
    packed.n_inner = array->inner_count;
    packed.inner = lk_arena_take(arena, (array->inner_count + 1) * sizeof *packed.inner);
    for (size_t child = 0; child < array->inner_count; child++) {
        packed.inner[child] = pack_array(array->inner[child], arena);
    }
    outer.packed_struct = &packed;
    return pack_outer(&outer, arena);
}

/* The kinds that this build writes. */
static ProtobufCBinaryData pack_array(const lk_v20_array *array, lk_arena *arena)
{
    Lk__Pbv__ArrayEncoding outer = LK__PBV__ARRAY_ENCODING__INIT;
    Lk__Pbv__SimpleStruct  plain = LK__PBV__SIMPLE_STRUCT__INIT;
    switch (array->kind) {
    case LK_V20_NULLABLE:
    case LK_V20_ALL_NULL:
        return pack_nullable(array, arena);
    case LK_V20_BINARY:
        return pack_binary(array, arena);
    case LK_V20_LIST:
        return pack_list(array, arena);
    case LK_V20_DICTIONARY:
        return pack_dictionary(array, arena);
    case LK_V20_FSST:
        return pack_fsst(array, arena);
    case LK_V20_PACKED_STRUCT:
        return pack_struct(array, arena);
    case LK_V20_STRUCT:
        outer.struct_ = &plain;
        return pack_outer(&outer, arena);
    case LK_V20_FLAT:
    case LK_V20_FIXED_SIZE_LIST:
    case LK_V20_BITPACKED:
    case LK_V20_BITPACKED_BLOCKS:
    case LK_V20_FIXED_SIZE_BINARY:
    default:
        return pack_values(array, false, arena);
    }
}

static void pack_any(const char *url, ProtobufCBinaryData value, lk_arena *arena, lk_buf *out)
{
    Lk__Pbv__Any any = LK__PBV__ANY__INIT;
    any.has_type_url = any.has_value = true;
    any.type_url = data_of(lk_bytes_of(url));
    any.value = value;
    lk_buf_append_bytes(out, pack(&any.base, arena));
}

void lk_pb_v20_put_page(const lk_v20_array *array, lk_buf *out)
{
    lk_arena arena = {0};
    pack_any(array_url, pack_array(array, &arena), &arena, out);
    lk_arena_close(&arena);
}
