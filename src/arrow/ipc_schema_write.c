/*
 * ipc_schema_write.c - schema messages and file footers, over the flatcc bindings (ipc.h, ipc_priv.h).
 *
 * Dictionary ids are 0, 1, 2, ... in the walk order of lk_ipc_schema. flatcc fails only when memory is out or
 * we misuse it, so its results are asserted. Threads: stateless.
 */
#include "arrow/ipc_priv.h"

#include <nanoarrow/flatcc_generated.h>
#include <stdlib.h>

#define ns(x) FLATBUFFERS_WRAP_NAMESPACE(org_apache_arrow_flatbuf, x)

typedef struct writing {
    flatcc_builder_t builder;
    int64_t          next_id;
} writing;

static void ok(int failed)
{
    LK_ASSERT(failed == 0);
}

/* -- types ------------------------------------------------------------------------------------------- */

static int write_number(flatcc_builder_t *b, const lk_type *type)
{
    int32_t bits = (int32_t)type->width * 8;
    if (lk_type_is_integer(type->id)) {
        return ns(Field_type_Int_create(b, bits, lk_type_is_signed(type->id)));
    }
    if (lk_type_is_float(type->id)) {
        return ns(Field_type_FloatingPoint_create(b, (int16_t)(type->id - LK_TYPE_FLOAT16)));
    }
    return ns(Field_type_Decimal_create(b, type->precision, type->scale, bits));
}

static int write_timestamp(flatcc_builder_t *b, const lk_type *type)
{
    ok(ns(Field_type_Timestamp_start(b)));
    ok(ns(Timestamp_unit_add(b, (int16_t)type->unit)));
    if (type->zone.size > 0) {
        ok(ns(Timestamp_timezone_create(b, type->zone.data, type->zone.size)));
    }
    return ns(Field_type_Timestamp_end(b));
}

static int write_nested(flatcc_builder_t *b, const struct ArrowSchema *schema, const lk_type *type)
{
    switch (type->layout) {
    case LK_LAYOUT_LIST64:
        return ns(Field_type_LargeList_create(b));
    case LK_LAYOUT_FIXED_LIST:
        return ns(Field_type_FixedSizeList_create(b, (int32_t)type->list_size));
    case LK_LAYOUT_STRUCT:
        return ns(Field_type_Struct__create(b));
    case LK_LAYOUT_LIST32:
    case LK_LAYOUT_NULL:
    case LK_LAYOUT_BITS:
    case LK_LAYOUT_FIXED:
    case LK_LAYOUT_BYTES32:
    case LK_LAYOUT_BYTES64:
        break;
    }
    return type->id == LK_TYPE_MAP
               ? ns(Field_type_Map_create(b, (schema->flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0))
               : ns(Field_type_List_create(b));
}

static int write_type(flatcc_builder_t *b, const struct ArrowSchema *schema, const lk_type *type)
{
    int16_t unit = (int16_t)type->unit;
    switch ((int)type->id) {
    case LK_TYPE_NULL:
        return ns(Field_type_Null_create(b));
    case LK_TYPE_BOOL:
        return ns(Field_type_Bool_create(b));
    case LK_TYPE_UTF8:
        return ns(Field_type_Utf8_create(b));
    case LK_TYPE_LARGE_UTF8:
        return ns(Field_type_LargeUtf8_create(b));
    case LK_TYPE_BINARY:
        return ns(Field_type_Binary_create(b));
    case LK_TYPE_LARGE_BINARY:
        return ns(Field_type_LargeBinary_create(b));
    case LK_TYPE_FIXED_BINARY:
        return ns(Field_type_FixedSizeBinary_create(b, (int32_t)type->width));
    case LK_TYPE_DATE32:
        return ns(Field_type_Date_create(b, ns(DateUnit_DAY)));
    case LK_TYPE_DATE64:
        return ns(Field_type_Date_create(b, ns(DateUnit_MILLISECOND)));
    case LK_TYPE_TIME32:
        return ns(Field_type_Time_create(b, unit, 32));
    case LK_TYPE_TIME64:
        return ns(Field_type_Time_create(b, unit, 64));
    case LK_TYPE_TIMESTAMP:
        return write_timestamp(b, type);
    case LK_TYPE_DURATION:
        return ns(Field_type_Duration_create(b, unit));
    case LK_TYPE_INTERVAL_MONTH:
        return ns(Field_type_Interval_create(b, ns(IntervalUnit_YEAR_MONTH)));
    case LK_TYPE_INTERVAL_DAY:
        return ns(Field_type_Interval_create(b, ns(IntervalUnit_DAY_TIME)));
    case LK_TYPE_INTERVAL_NANO:
        return ns(Field_type_Interval_create(b, ns(IntervalUnit_MONTH_DAY_NANO)));
    default:
        break;
    }
    return type->layout == LK_LAYOUT_FIXED ? write_number(b, type) : write_nested(b, schema, type);
}

/* -- fields ------------------------------------------------------------------------------------------ */

static lk_rc write_field(writing *w, const struct ArrowSchema *schema, lk_err *err);

static void write_pair(flatcc_builder_t *b, struct ArrowStringView key, struct ArrowStringView value)
{
    ok(ns(KeyValue_key_create(b, key.data, (size_t)key.size_bytes)));
    ok(ns(KeyValue_value_create(b, value.data, (size_t)value.size_bytes)));
}

/* Starts and ends one element of the metadata vector that is open in the builder. */
static void write_metadata(flatcc_builder_t *b, const char *metadata, int (*start)(flatcc_builder_t *),
    ns(KeyValue_ref_t) * (*end)(flatcc_builder_t *))
{
    struct ArrowMetadataReader reader;
    struct ArrowStringView     key, value;
    LK_ASSERT(ArrowMetadataReaderInit(&reader, metadata) == NANOARROW_OK);
    while (ArrowMetadataReaderRead(&reader, &key, &value) == NANOARROW_OK) {
        ok(start(b));
        write_pair(b, key, value);
        LK_ASSERT(end(b) != NULL);
    }
}

static lk_rc write_children(writing *w, const struct ArrowSchema *schema, lk_err *err)
{
    flatcc_builder_t *b = &w->builder;
    lk_rc             rc = LK_OK;
    ok(ns(Field_children_start(b)));
    for (int64_t i = 0; rc == LK_OK && i < schema->n_children; i++) {
        ok(ns(Field_children_push_start(b)));
        rc = write_field(w, schema->children[i], err);
        LK_ASSERT(ns(Field_children_push_end(b)) != NULL);
    }
    ok(ns(Field_children_end(b)));
    return rc;
}

static lk_rc refuse(const struct ArrowSchema *schema, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_INVALID_SCHEMA, "format %s in IPC", schema->format);
    return lk_detail(err, "column '%.100s' has a type that is not supported",
               schema->name == NULL ? "" : schema->name),
           rc;
}

/* Type ids are 0, 1, 2, ...: all that lake itself makes. */
static lk_rc write_union(writing *w, const struct ArrowSchema *schema, lk_err *err)
{
    flatcc_builder_t *b = &w->builder;
    ok(ns(Field_name_create_str(b, schema->name == NULL ? "" : schema->name)));
    ok(ns(Field_nullable_add(b, (schema->flags & ARROW_FLAG_NULLABLE) != 0)));
    ok(ns(Field_type_Union_start(b)));
    ok(ns(Union_mode_add(b, ns(UnionMode_Dense))));
    ok(ns(Union_typeIds_start(b)));
    for (int32_t i = 0; i < schema->n_children; i++) {
        LK_ASSERT(ns(Union_typeIds_push(b, &i)) != NULL);
    }
    ok(ns(Union_typeIds_end(b)));
    ok(ns(Field_type_Union_end(b)));
    return write_children(w, schema, err);
}

static lk_rc write_field(writing *w, const struct ArrowSchema *schema, lk_err *err)
{
    if (lk_ipc_is_union(schema)) {
        return write_union(w, schema, err);
    }
    flatcc_builder_t         *b = &w->builder;
    const struct ArrowSchema *values = schema->dictionary == NULL ? schema : schema->dictionary;
    lk_type                   type, value_type;
    if (!lk_type_of(schema, &type) || !lk_type_of(values, &value_type) ||
        (values != schema && value_type.dictionary)) {
        return refuse(schema, err);
    }
    ok(ns(Field_name_create_str(b, schema->name == NULL ? "" : schema->name)));
    ok(ns(Field_nullable_add(b, (schema->flags & ARROW_FLAG_NULLABLE) != 0)));
    if (type.dictionary) {
        ns(Int_ref_t) index = ns(Int_create(b, (int32_t)type.width * 8, lk_type_is_signed(type.id)));
        bool ordered = (schema->flags & ARROW_FLAG_DICTIONARY_ORDERED) != 0;
        ok(ns(Field_dictionary_create(b, w->next_id++, index, ordered, ns(DictionaryKind_DenseArray))));
    }
    ok(write_type(b, values, &value_type));
    lk_rc rc = write_children(w, values, err);
    if (schema->metadata != NULL) {
        ok(ns(Field_custom_metadata_start(b)));
        write_metadata(
            b, schema->metadata, ns(Field_custom_metadata_push_start), ns(Field_custom_metadata_push_end));
        ok(ns(Field_custom_metadata_end(b)));
    }
    return rc;
}

/* The fields of a Schema table that the caller has started. */
static lk_rc write_schema(writing *w, const struct ArrowSchema *schema, lk_err *err)
{
    flatcc_builder_t *b = &w->builder;
    lk_rc             rc = LK_OK;
    if (schema->format == NULL || strcmp(schema->format, "+s") != 0) {
        return refuse(schema, err);
    }
    ok(ns(Schema_endianness_add(b, ns(Endianness_Little))));
    ok(ns(Schema_fields_start(b)));
    for (int64_t i = 0; rc == LK_OK && i < schema->n_children; i++) {
        ok(ns(Schema_fields_push_start(b)));
        rc = write_field(w, schema->children[i], err);
        LK_ASSERT(ns(Schema_fields_push_end(b)) != NULL);
    }
    ok(ns(Schema_fields_end(b)));
    if (schema->metadata != NULL) {
        ok(ns(Schema_custom_metadata_start(b)));
        write_metadata(
            b, schema->metadata, ns(Schema_custom_metadata_push_start), ns(Schema_custom_metadata_push_end));
        ok(ns(Schema_custom_metadata_end(b)));
    }
    return rc;
}

/* -- messages ---------------------------------------------------------------------------------------- */

static lk_rc take_buffer(writing *w, lk_rc rc, lk_buf *out)
{
    if (rc == LK_OK) {
        size_t size = flatcc_builder_get_buffer_size(&w->builder);
        lk_buf_reserve(out, size);
        LK_ASSERT(flatcc_builder_copy_buffer(&w->builder, out->data + out->size, size) != NULL);
        out->size += size;
        out->data[out->size] = '\0';
    }
    flatcc_builder_clear(&w->builder);
    return rc;
}

static lk_rc encode_bare(const struct ArrowSchema *schema, lk_buf *out, lk_err *err)
{
    writing           w = {0};
    flatcc_builder_t *b = &w.builder;
    ok(flatcc_builder_init(b));
    ok(ns(Message_start_as_root(b)));
    ok(ns(Message_version_add(b, ns(MetadataVersion_V5))));
    ok(ns(Message_header_Schema_start(b)));
    lk_rc rc = write_schema(&w, schema, err);
    if (rc == LK_OK) {
        ok(ns(Message_header_Schema_end(b)));
        ok(ns(Message_bodyLength_add(b, 0)));
        LK_ASSERT(ns(Message_end_as_root(b)) != 0);
    }
    return take_buffer(&w, rc, out);
}

void lk_ipc_frame(lk_bytes header, lk_buf *out)
{
    uint32_t prefix[2] = {LK_IPC_CONTINUATION, (uint32_t)((header.size + 7) & ~(size_t)7)};
    lk_buf_append(out, prefix, 8);
    lk_buf_append_bytes(out, header);
    lk_buf_append_zeros(out, prefix[1] - header.size);
}

lk_rc lk_ipc_schema_encode(const struct ArrowSchema *schema, lk_ipc_form form, lk_buf *out, lk_err *err)
{
    lk_buf bare = {0};
    lk_rc  rc = encode_bare(schema, &bare, err);
    if (rc == LK_OK && form == LK_IPC_BARE) {
        lk_buf_append_bytes(out, lk_buf_view(&bare));
    } else if (rc == LK_OK) {
        lk_ipc_frame(lk_buf_view(&bare), out);
    }
    lk_buf_deinit(&bare);
    return rc;
}

static void write_blocks(ns(Block_t) * to, const lk_ipc_block *blocks, size_t count)
{
    LK_ASSERT(to != NULL || count == 0);
    for (size_t i = 0; i < count; i++) {
        to[i].offset = blocks[i].offset;
        to[i].metaDataLength = (int32_t)blocks[i].header_size;
        to[i].bodyLength = blocks[i].body_size;
    }
}

lk_rc lk_ipc_footer_encode(const struct ArrowSchema *schema, const lk_ipc_block *dictionaries,
    size_t dictionary_count, const lk_ipc_block *batches, size_t batch_count, lk_buf *out, lk_err *err)
{
    writing           w = {0};
    flatcc_builder_t *b = &w.builder;
    ok(flatcc_builder_init(b));
    ok(ns(Footer_start_as_root(b)));
    ok(ns(Footer_version_add(b, ns(MetadataVersion_V5))));
    ok(ns(Footer_schema_start(b)));
    lk_rc rc = write_schema(&w, schema, err);
    if (rc == LK_OK) {
        ok(ns(Footer_schema_end(b)));
        ok(ns(Footer_dictionaries_start(b)));
        write_blocks(ns(Footer_dictionaries_extend(b, dictionary_count)), dictionaries, dictionary_count);
        ok(ns(Footer_dictionaries_end(b)));
        ok(ns(Footer_recordBatches_start(b)));
        write_blocks(ns(Footer_recordBatches_extend(b, batch_count)), batches, batch_count);
        ok(ns(Footer_recordBatches_end(b)));
        LK_ASSERT(ns(Footer_end_as_root(b)) != 0);
    }
    return take_buffer(&w, rc, out);
}
