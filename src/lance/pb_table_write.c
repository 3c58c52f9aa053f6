/*
 * pb_table_write.c - the writing half of pb_table.h: messages are laid out in a scratch arena and packed.
 */
#include "lance/pb_table.h"

#include "lance/wire.h"

#include "pb_table.pb-c.h"

static void pack(const ProtobufCMessage *message, lk_buf *out)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    lk_buf_reserve(out, size);
    out->size += protobuf_c_message_pack(message, (uint8_t *)out->data + out->size);
}

static ProtobufCBinaryData borrow(lk_bytes bytes)
{
    /* protobuf-c only reads what it packs. */
    return (ProtobufCBinaryData){bytes.size, (uint8_t *)(uintptr_t)bytes.data};
}

/* A copy of count items of size bytes; NULL for none. */
static void *copy_array(lk_arena *arena, const void *items, size_t count, size_t size)
{
    if (count == 0) {
        return NULL;
    }
    void *out = lk_arena_take(arena, count * size);
    memcpy(out, items, count * size);
    return out;
}

/* -- encoding ---------------------------------------------------------------------------------------- */

static Lk__Pb__Entry **encode_pairs(lk_arena *arena, const lk_metadata_pair *pairs, size_t count)
{
    Lk__Pb__Entry **entries = lk_arena_take(arena, count * sizeof *entries);
    Lk__Pb__Entry  *memory = lk_arena_take(arena, count * sizeof *memory);
    for (size_t index = 0; index < count; index++) {
        Lk__Pb__Entry *entry = entries[index] = &memory[index];
        lk__pb__entry__init(entry);
        entry->has_key = entry->has_value = 1;
        entry->key = borrow(pairs[index].key);
        entry->value = borrow(pairs[index].value);
    }
    return entries;
}

static int32_t field_kind(const lk_field_record *record, bool has_children)
{
    enum { PARENT = 0, REPEATED = 1, LEAF = 2 };
    if (!has_children) {
        return LEAF;
    }
    return lk_bytes_starts(record->logical_type, LK_LITERAL("list")) ||
                   lk_bytes_starts(record->logical_type, LK_LITERAL("large_list"))
               ? REPEATED
               : PARENT;
}

/* A field is a key by its metadata; readers of the format look at members of its own. */
static void mark_key(const lk_field_record *record, Lk__Pb__Field *field)
{
    for (size_t i = 0; i < record->metadata_count; i++) {
        lk_bytes value = record->metadata[i].value;
        uint32_t position = 0;
        if (lk_bytes_equal(record->metadata[i].key, LK_LITERAL(LK_LANCE_KEY))) {
            field->has_primary_key = field->primary_key = lk_bytes_equal(value, LK_LITERAL("true"));
        } else if (lk_bytes_equal(record->metadata[i].key, LK_LITERAL(LK_LANCE_KEY_POSITION))) {
            for (size_t at = 0; at < value.size && at < 9 && value.data[at] >= '0' && value.data[at] <= '9';
                 at++) {
                position = position * 10 + (uint32_t)(value.data[at] - '0');
            }
            field->has_primary_key_position = position > 0;
            field->primary_key_position = position;
        }
    }
}

static Lk__Pb__Field **encode_fields(lk_arena *arena, const lk_field_record *records, size_t count)
{
    Lk__Pb__Field **fields = lk_arena_take(arena, count * sizeof *fields);
    Lk__Pb__Field  *memory = lk_arena_take(arena, count * sizeof *memory);
    for (size_t index = 0; index < count; index++) {
        const lk_field_record *record = &records[index];
        bool                   has_children = index + 1 < count && records[index + 1].parent_id == record->id;
        Lk__Pb__Field         *field = fields[index] = &memory[index];
        lk__pb__field__init(field);
        field->type = field_kind(record, has_children);
        field->has_type = field->type != 0;
        field->has_name = record->name.size > 0;
        field->name = borrow(record->name);
        field->has_id = record->id != 0;
        field->id = record->id;
        field->has_parent_id = record->parent_id != 0;
        field->parent_id = record->parent_id;
        field->has_logical_type = 1;
        field->logical_type = borrow(record->logical_type);
        field->has_nullable = record->nullable;
        field->nullable = record->nullable;
        field->n_metadata = record->metadata_count;
        field->metadata = encode_pairs(arena, record->metadata, record->metadata_count);
        mark_key(record, field);
    }
    return fields;
}

typedef struct encoded_schema {
    Lk__Pb__Field **fields;
    Lk__Pb__Entry **metadata;
    size_t          field_count, metadata_count;
} encoded_schema;

static encoded_schema encode_schema(lk_arena *arena, const lk_lance_schema *schema)
{
    encoded_schema          out = {0};
    const lk_field_record  *records = NULL;
    const lk_metadata_pair *metadata = NULL;
    lk_lance_schema_records(schema, arena, &records, &out.field_count, &metadata, &out.metadata_count);
    out.fields = encode_fields(arena, records, out.field_count);
    out.metadata = encode_pairs(arena, metadata, out.metadata_count);
    return out;
}

static Lk__Pb__DataFile *encode_file(lk_arena *arena, const lk_data_file *file)
{
    Lk__Pb__DataFile *pb = lk_arena_take(arena, sizeof *pb);
    lk__pb__data_file__init(pb);
    pb->has_path = 1;
    pb->path = borrow(file->path);
    pb->n_fields = pb->n_column_indices = file->field_count;
    pb->fields = copy_array(arena, file->fields, file->field_count, sizeof *pb->fields);
    pb->column_indices = copy_array(arena, file->columns, file->field_count, sizeof *pb->column_indices);
    pb->has_file_major_version = file->major != 0;
    pb->file_major_version = file->major;
    pb->has_file_minor_version = file->minor != 0;
    pb->file_minor_version = file->minor;
    pb->has_file_size_bytes = file->size_bytes != 0;
    pb->file_size_bytes = file->size_bytes;
    pb->has_base_id = file->base != NULL;
    pb->base_id = file->base == NULL ? 0 : file->base->id;
    return pb;
}

static Lk__Pb__DataFragment **encode_fragments(lk_arena *arena, const lk_fragment *fragments, size_t count)
{
    Lk__Pb__DataFragment **out = lk_arena_take(arena, count * sizeof *out);
    Lk__Pb__DataFragment  *memory = lk_arena_take(arena, count * sizeof *memory);
    for (size_t index = 0; index < count; index++) {
        const lk_fragment    *fragment = &fragments[index];
        Lk__Pb__DataFragment *pb = out[index] = &memory[index];
        lk__pb__data_fragment__init(pb);
        pb->has_id = fragment->id != 0;
        pb->id = fragment->id;
        pb->has_physical_rows = fragment->physical_rows != 0;
        pb->physical_rows = fragment->physical_rows;
        pb->n_files = fragment->file_count;
        pb->has_inline_row_ids = fragment->row_ids.size > 0;
        pb->inline_row_ids = borrow(fragment->row_ids);
        pb->has_inline_created_at_versions = fragment->created_at_versions.size > 0;
        pb->inline_created_at_versions = borrow(fragment->created_at_versions);
        pb->has_inline_last_updated_at_versions = fragment->updated_at_versions.size > 0;
        pb->inline_last_updated_at_versions = borrow(fragment->updated_at_versions);
        pb->files = lk_arena_take(arena, fragment->file_count * sizeof(Lk__Pb__DataFile *));
        for (size_t i = 0; i < fragment->file_count; i++) {
            pb->files[i] = encode_file(arena, &fragment->files[i]);
        }
    }
    return out;
}

/* Sets what a commit sets; the caller adds the rest and packs. Everything it points to is in the arena. */
static void encode_version(lk_arena *arena, const lk_pb_new_version *version, Lk__Pb__Manifest *pb)
{
    lk__pb__manifest__init(pb);
    pb->n_fragments = version->fragment_count;
    pb->fragments = encode_fragments(arena, version->fragments, version->fragment_count);
    pb->has_max_allocated_field_id = version->sets_field_id_max;
    pb->max_allocated_field_id = version->field_id_max;
    pb->has_next_row_id = version->sets_next_row_id;
    pb->next_row_id = version->next_row_id;
    pb->has_version = 1;
    pb->version = version->version;
    pb->has_index_section = version->has_index_section;
    pb->index_section = version->index_section_offset;
    pb->timestamp = lk_arena_take(arena, sizeof *pb->timestamp);
    lk__pb__timestamp__init(pb->timestamp);
    pb->timestamp->has_seconds = 1;
    pb->timestamp->seconds = (int64_t)(version->timestamp_ms / 1000);
    pb->timestamp->nanos = (int32_t)(version->timestamp_ms % 1000) * 1000000;
    pb->timestamp->has_nanos = pb->timestamp->nanos != 0;
    pb->has_reader_feature_flags = version->reader_flags != 0;
    pb->reader_feature_flags = version->reader_flags;
    pb->has_writer_feature_flags = version->writer_flags != 0;
    pb->writer_feature_flags = version->writer_flags;
    pb->has_max_fragment_id = version->has_fragment_id_max;
    pb->max_fragment_id = version->fragment_id_max;
    pb->has_transaction_file = version->transaction_file.size > 0;
    pb->transaction_file = borrow(version->transaction_file);
    pb->writer_version = lk_arena_take(arena, sizeof *pb->writer_version);
    lk__pb__writer_version__init(pb->writer_version);
    pb->writer_version->has_library = pb->writer_version->has_version = 1;
    pb->writer_version->library = borrow(LK_LITERAL("lake"));
    pb->writer_version->version = borrow(LK_LITERAL(LK_PB_WRITER_VERSION));
    pb->has_transaction_section = !version->no_transaction;
    pb->transaction_section = version->transaction_section_offset;
}

void lk_pb_manifest_create(
    const lk_lance_schema *schema, uint32_t file_minor, const lk_pb_new_version *version, lk_buf *out)
{
    lk_arena                  arena = {0};
    Lk__Pb__Manifest          pb;
    Lk__Pb__DataStorageFormat format;

    encode_version(&arena, version, &pb);
    encoded_schema encoded = encode_schema(&arena, schema);
    pb.n_fields = encoded.field_count;
    pb.fields = encoded.fields;
    pb.n_schema_metadata = encoded.metadata_count;
    pb.schema_metadata = encoded.metadata;
    lk__pb__data_storage_format__init(&format);
    format.has_file_format = format.has_version = 1;
    format.file_format = borrow(LK_LITERAL("lance"));
    format.version = borrow(lk_arena_format(&arena, "2.%u", file_minor));
    pb.data_format = &format;
    pack(&pb.base, out);
    lk_arena_close(&arena);
}

enum { /* fields of Manifest */
    FIELDS = 1,
    FRAGMENTS = 2,
    VERSION = 3,
    AUX_DATA = 4,
    INDEX_SECTION = 6,
    TIMESTAMP = 7,
    TAG = 8,
    READER_FLAGS = 9,
    WRITER_FLAGS = 10,
    MAX_FRAGMENT_ID = 11,
    TRANSACTION_FILE = 12,
    WRITER_VERSION = 13,
    NEXT_ROW_ID = 14,
    TRANSACTION_SECTION_OLD = 21,
    TRANSACTION_SECTION = 23,
    MAX_ALLOCATED_FIELD_ID = 24
};

/* What encode_version sets and what belongs to one version only (auxiliary data, its tag). */
static bool is_set_by_commit(uint32_t number)
{
    switch (number) {
    case VERSION:
    case AUX_DATA:
    case INDEX_SECTION:
    case TIMESTAMP:
    case TAG:
    case READER_FLAGS:
    case WRITER_FLAGS:
    case MAX_FRAGMENT_ID:
    case TRANSACTION_FILE:
    case WRITER_VERSION:
    case TRANSACTION_SECTION_OLD:
    case TRANSACTION_SECTION:
        return true;
    default:
        return false;
    }
}

static bool is_replaced(const lk_pb_new_version *version, uint32_t number)
{
    switch (number) {
    case FIELDS:
        return version->replaces_fields;
    case FRAGMENTS:
        return version->replaces_fragments;
    case NEXT_ROW_ID:
        return version->sets_next_row_id;
    case MAX_ALLOCATED_FIELD_ID:
        return version->sets_field_id_max;
    default:
        return is_set_by_commit(number);
    }
}

static void put_all(lk_buf *out, uint32_t number, const lk_bytes *messages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        lk_wire_put_bytes(out, number, messages[i]);
    }
}

lk_rc lk_pb_manifest_append(lk_bytes base, const lk_pb_new_version *version, lk_buf *out, lk_err *err)
{
    lk_wire_field field = {0};
    put_all(out, FIELDS, version->raw_fields, version->raw_field_count);
    put_all(out, FRAGMENTS, version->raw_fragments, version->raw_fragment_count);
    while (base.size > 0) {
        if (!lk_wire_next(&base, &field)) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "the manifest message is malformed");
        }
        if (!is_replaced(version, field.number)) {
            lk_buf_append_bytes(out, field.whole);
        }
    }
    lk_arena         arena = {0};
    Lk__Pb__Manifest pb;
    encode_version(&arena, version, &pb); /* one message after another is their merger */
    pack(&pb.base, out);
    lk_arena_close(&arena);
    return LK_OK;
}

/* -- transactions ------------------------------------------------------------------------------------ */

void lk_pb_transaction_encode(const lk_transaction *transaction, lk_bytes body, lk_buf *out)
{
    lk_arena            arena = {0};
    Lk__Pb__Transaction pb;

    lk__pb__transaction__init(&pb);
    pb.has_read_version = transaction->read_version != 0;
    pb.read_version = transaction->read_version;
    pb.has_uuid = 1;
    pb.uuid = borrow(transaction->uuid);
    pb.n_transaction_properties = transaction->property_count;
    pb.transaction_properties = encode_pairs(&arena, transaction->properties, transaction->property_count);
    pack(&pb.base, out);
    lk_wire_put_bytes(out, (uint32_t)transaction->operation, body);
    lk_arena_close(&arena);
}

void lk_pb_append_encode(const lk_fragment *fragments, size_t count, lk_buf *out)
{
    lk_arena       arena = {0};
    Lk__Pb__Append pb;
    lk__pb__append__init(&pb);
    pb.n_fragments = count;
    pb.fragments = encode_fragments(&arena, fragments, count);
    pack(&pb.base, out);
    lk_arena_close(&arena);
}

void lk_pb_overwrite_encode(
    const lk_fragment *fragments, size_t count, const lk_lance_schema *schema, lk_buf *out)
{
    lk_arena          arena = {0};
    Lk__Pb__Overwrite pb;
    encoded_schema    encoded = encode_schema(&arena, schema);
    lk__pb__overwrite__init(&pb);
    pb.n_fragments = count;
    pb.fragments = encode_fragments(&arena, fragments, count);
    pb.n_schema = encoded.field_count;
    pb.schema = encoded.fields;
    pb.n_schema_metadata = encoded.metadata_count;
    pb.schema_metadata = encoded.metadata;
    pack(&pb.base, out);
    lk_arena_close(&arena);
}

const lk_bytes *lk_pb_fields_encode(const lk_field_record *records, size_t count, lk_arena *arena)
{
    lk_bytes       *out = lk_arena_take(arena, (count + 1) * sizeof *out);
    Lk__Pb__Field **fields = encode_fields(arena, records, count);
    for (size_t i = 0; i < count; i++) {
        lk_buf message = {0};
        pack(&fields[i]->base, &message);
        out[i] = lk_arena_copy(arena, lk_buf_view(&message));
        lk_buf_deinit(&message);
    }
    return out;
}

/* -- fragments --------------------------------------------------------------------------------------- */

void lk_pb_fragment_encode(const lk_fragment *fragment, lk_buf *out)
{
    lk_arena arena = {0};
    pack(&encode_fragments(&arena, fragment, 1)[0]->base, out);
    lk_arena_close(&arena);
}

lk_rc lk_pb_fragment_with_deletion(
    const lk_fragment *fragment, const lk_deletion_file *deletion, lk_buf *out, lk_err *err)
{
    enum { DELETION_FILE = 3 }; /* of DataFragment */
    Lk__Pb__DeletionFile pb;
    lk_buf               message = {0};
    if (!lk_wire_copy_without(fragment->raw, DELETION_FILE, out)) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "the message of a fragment is malformed");
    }
    lk__pb__deletion_file__init(&pb);
    pb.has_file_type = deletion->kind == LK_DELETION_BITMAP;
    pb.file_type = deletion->kind == LK_DELETION_BITMAP;
    pb.has_read_version = pb.has_id = pb.has_num_deleted_rows = 1;
    pb.read_version = deletion->read_version;
    pb.id = deletion->id;
    pb.num_deleted_rows = deletion->count;
    pack(&pb.base, &message);
    lk_wire_put_bytes(out, DELETION_FILE, lk_buf_view(&message));
    lk_buf_deinit(&message);
    return LK_OK;
}

void lk_pb_file_descriptor(const lk_lance_schema *schema, uint64_t rows, lk_buf *out)
{
    lk_arena               arena = {0};
    Lk__Pb__FileDescriptor pb;
    Lk__Pb__Schema         pb_schema;

    encoded_schema encoded = encode_schema(&arena, schema);
    lk__pb__schema__init(&pb_schema);
    pb_schema.n_fields = encoded.field_count;
    pb_schema.fields = encoded.fields;
    pb_schema.n_metadata = encoded.metadata_count;
    pb_schema.metadata = encoded.metadata;
    lk__pb__file_descriptor__init(&pb);
    pb.schema = &pb_schema;
    pb.has_length = rows != 0;
    pb.length = rows;
    pack(&pb.base, out);
    lk_arena_close(&arena);
}
