/*
 * pb_table.c - see pb_table.h. Messages are decoded by protobuf-c into a scratch arena with a limit, then
 * copied into plain structs.
 */
#include "lance/pb_table.h"

#include "lance/wire.h"

#include "pb_table.pb-c.h"

/* -- memory ------------------------------------------------------------------------------------------ */

typedef struct scratch {
    ProtobufCAllocator allocator;
    lk_arena           arena;
    size_t             limit_bytes;
} scratch;

static void *scratch_take(void *context, size_t size)
{
    scratch *self = context;
    if (size > self->limit_bytes || self->arena.used_bytes > self->limit_bytes - size) {
        return NULL; /* protobuf-c gives up: the message asks for more than its size warrants */
    }
    return lk_arena_take(&self->arena, size);
}

static void scratch_free(void *context, void *memory)
{
    (void)context;
    (void)memory; /* the arena goes as a whole */
}

static ProtobufCMessage *scratch_unpack(
    scratch *self, const ProtobufCMessageDescriptor *type, lk_bytes message)
{
    *self = (scratch){.limit_bytes = message.size * LK_PB_MEMORY_FACTOR + (1 << 20)};
    self->allocator = (ProtobufCAllocator){scratch_take, scratch_free, self};
    return protobuf_c_message_unpack(type, &self->allocator, message.size, (const uint8_t *)message.data);
}

static lk_bytes copy_bytes(lk_arena *arena, ProtobufCBinaryData from)
{
    return lk_arena_copy(arena, (lk_bytes){(const char *)from.data, from.len});
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

/* -- decoding ---------------------------------------------------------------------------------------- */

static lk_metadata_pair *decode_pairs(lk_arena *arena, Lk__Pb__Entry *const *entries, size_t count)
{
    lk_metadata_pair *pairs = lk_arena_take(arena, count * sizeof *pairs);
    for (size_t i = 0; i < count; i++) {
        pairs[i].key = copy_bytes(arena, entries[i]->key);
        pairs[i].value = copy_bytes(arena, entries[i]->value);
    }
    return pairs;
}

static lk_field_record *decode_fields(lk_arena *arena, Lk__Pb__Field *const *fields, size_t count)
{
    lk_field_record *records = lk_arena_take(arena, count * sizeof *records);
    for (size_t index = 0; index < count; index++) {
        const Lk__Pb__Field *field = fields[index];
        records[index] = (lk_field_record){
            .name = copy_bytes(arena, field->name),
            .logical_type = copy_bytes(arena, field->logical_type),
            .id = field->id,
            .parent_id = field->parent_id,
            .nullable = field->nullable != 0,
            .metadata = decode_pairs(arena, field->metadata, field->n_metadata),
            .metadata_count = field->n_metadata,
        };
    }
    return records;
}

static const lk_base_path *decode_bases(lk_arena *arena, const Lk__Pb__Manifest *pb)
{
    lk_base_path *bases = lk_arena_take(arena, pb->n_base_paths * sizeof *bases);
    for (size_t index = 0; index < pb->n_base_paths; index++) {
        const Lk__Pb__BasePath *base = pb->base_paths[index];
        bases[index] = (lk_base_path){
            .id = base->id,
            .is_dataset_root = base->is_dataset_root != 0,
            .name = copy_bytes(arena, base->name),
            .path = copy_bytes(arena, base->path),
        };
    }
    return bases;
}

/* *base stays NULL without an id; false when the id names no base path. */
static bool find_base(const lk_manifest *manifest, bool has_id, uint32_t id, const lk_base_path **base)
{
    for (size_t i = 0; has_id && i < manifest->base_count; i++) {
        if (manifest->bases[i].id == id) {
            *base = &manifest->bases[i];
            return true;
        }
    }
    return !has_id;
}

static lk_rc decode_file(lk_manifest *manifest, const Lk__Pb__DataFile *pb, lk_data_file *out, lk_err *err)
{
    lk_arena *arena = &manifest->arena;
    if (pb->n_fields != pb->n_column_indices) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "data file %.*s: %zu fields, %zu columns", (int)pb->path.len,
            (const char *)pb->path.data, pb->n_fields, pb->n_column_indices);
    }
    *out = (lk_data_file){
        .path = copy_bytes(arena, pb->path),
        .fields = copy_array(arena, pb->fields, pb->n_fields, sizeof *pb->fields),
        .columns = copy_array(arena, pb->column_indices, pb->n_fields, sizeof *pb->column_indices),
        .field_count = pb->n_fields,
        .major = pb->file_major_version,
        .minor = pb->file_minor_version,
        .size_bytes = pb->file_size_bytes,
    };
    if (!find_base(manifest, pb->has_base_id != 0, pb->base_id, &out->base)) {
        return lk_fail(
            err, LK_E_CORRUPT_FILE, "data file names base path %u, which is not there", pb->base_id);
    }
    return LK_OK;
}

static lk_rc decode_deletion(
    const lk_manifest *manifest, const Lk__Pb__DeletionFile *pb, lk_deletion_file *out, lk_err *err)
{
    if (pb == NULL) {
        return LK_OK;
    }
    if (pb->file_type != 0 && pb->file_type != 1) {
        return lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "deletion file of type %d", pb->file_type);
    }
    *out = (lk_deletion_file){
        .kind = pb->file_type == 0 ? LK_DELETION_ARRAY : LK_DELETION_BITMAP,
        .read_version = pb->read_version,
        .id = pb->id,
        .count = pb->num_deleted_rows,
    };
    if (!find_base(manifest, pb->has_base_id != 0, pb->base_id, &out->base) ||
        (out->base != NULL && !out->base->is_dataset_root)) {
        return lk_fail(err, LK_E_CORRUPT_FILE,
            "deletion file names base path %u, which is not there or no table", pb->base_id);
    }
    return LK_OK;
}

static lk_rc decode_fragment(lk_manifest *manifest, const Lk__Pb__DataFragment *pb, lk_fragment *out,
    lk_pb_features *features, lk_err *err)
{
    lk_data_file *files = lk_arena_take(&manifest->arena, pb->n_files * sizeof *files);
    for (size_t i = 0; i < pb->n_files; i++) {
        lk_rc rc = decode_file(manifest, pb->files[i], &files[i], err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    features->overlays |= pb->n_overlays > 0;
    out->lineage_columns = (pb->column_row_ids != NULL ? LK_LINEAGE_ROW_IDS : 0U) |
                           (pb->column_created_at_versions != NULL ? LK_LINEAGE_CREATED_AT : 0U) |
                           (pb->column_last_updated_at_versions != NULL ? LK_LINEAGE_UPDATED_AT : 0U);
    features->external_row_ids |= pb->external_row_ids != NULL || pb->external_created_at_versions != NULL ||
                                  pb->external_last_updated_at_versions != NULL;
    out->id = pb->id;
    out->physical_rows = pb->physical_rows;
    out->files = files;
    out->file_count = pb->n_files;
    out->file_slot = manifest->file_count;
    out->row_ids = copy_bytes(&manifest->arena, pb->inline_row_ids);
    out->created_at_versions = copy_bytes(&manifest->arena, pb->inline_created_at_versions);
    out->updated_at_versions = copy_bytes(&manifest->arena, pb->inline_last_updated_at_versions);
    manifest->file_count += pb->n_files;
    return decode_deletion(manifest, pb->deletion_file, &out->deletion, err);
}

/* Where each fragment's bytes lie in body: the top-level fields number 2, in order. */
static bool locate_fragments(lk_bytes body, lk_fragment *fragments, size_t count)
{
    size_t        found = 0;
    lk_wire_field field = {0};
    while (body.size > 0) {
        if (!lk_wire_next(&body, &field)) {
            return false;
        }
        if (field.number == 2) {
            if (found == count) {
                return false;
            }
            fragments[found++].raw = field.value;
        }
    }
    return found == count;
}

static lk_rc decode_fragments(
    lk_manifest *out, const Lk__Pb__Manifest *pb, lk_pb_features *features, lk_err *err)
{
    lk_fragment *fragments = lk_arena_take(&out->arena, pb->n_fragments * sizeof *fragments);
    if (!locate_fragments(out->body, fragments, pb->n_fragments)) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "the manifest message is malformed");
    }
    for (size_t index = 0; index < pb->n_fragments; index++) {
        lk_rc rc = decode_fragment(out, pb->fragments[index], &fragments[index], features, err);
        if (rc != LK_OK) {
            lk_context(err, "fragment %zu", index);
            return rc;
        }
    }
    out->fragments = fragments;
    out->fragment_count = pb->n_fragments;
    return LK_OK;
}

static void decode_plain(lk_manifest *out, const Lk__Pb__Manifest *pb, lk_pb_features *features)
{
    lk_arena *arena = &out->arena;
    out->version = pb->version;
    if (pb->timestamp != NULL && pb->timestamp->seconds > 0 && pb->timestamp->seconds < INT64_MAX / 1000) {
        out->timestamp_ms =
            (uint64_t)pb->timestamp->seconds * 1000 + (uint64_t)(uint32_t)pb->timestamp->nanos / 1000000;
    }
    out->reader_flags = pb->reader_feature_flags;
    out->writer_flags = pb->writer_feature_flags;
    out->has_fragment_id_max = pb->has_max_fragment_id != 0;
    out->fragment_id_max = pb->max_fragment_id;
    out->has_field_id_max = pb->has_max_allocated_field_id != 0;
    out->field_id_max = pb->max_allocated_field_id;
    out->next_row_id = pb->next_row_id;
    out->transaction_file = copy_bytes(arena, pb->transaction_file);
    out->branch = copy_bytes(arena, pb->branch);
    if (pb->writer_version != NULL) {
        out->writer_library = copy_bytes(arena, pb->writer_version->library);
        out->writer_version = copy_bytes(arena, pb->writer_version->version);
    }
    out->config = decode_pairs(arena, pb->config, pb->n_config);
    out->config_count = pb->n_config;
    out->table_metadata = decode_pairs(arena, pb->table_metadata, pb->n_table_metadata);
    out->table_metadata_count = pb->n_table_metadata;
    out->has_index_section = pb->has_index_section != 0;
    out->index_section_offset = pb->index_section;
    out->has_transaction_section = pb->has_transaction_section || pb->has_transaction_section_old;
    out->transaction_section_offset =
        pb->has_transaction_section ? pb->transaction_section : pb->transaction_section_old;
    features->fragment_tree = pb->fragment_tree != NULL;
    if (pb->data_format != NULL) {
        features->file_format = copy_bytes(arena, pb->data_format->file_format);
        features->format_version = copy_bytes(arena, pb->data_format->version);
    }
}

static lk_rc decode_schema(lk_manifest *out, const Lk__Pb__Manifest *pb, lk_arena *arena, lk_err *err)
{
    const lk_field_record  *records = decode_fields(arena, pb->fields, pb->n_fields);
    const lk_metadata_pair *metadata = decode_pairs(arena, pb->schema_metadata, pb->n_schema_metadata);
    return lk_lance_schema_from_records(
        records, pb->n_fields, metadata, pb->n_schema_metadata, &out->schema, err);
}

/* The fields that a manifest begins with, when they are the whole schema as far as it is known here: "" otherwise. */
static lk_bytes leading_fields(const lk_manifest *manifest)
{
    lk_bytes      rest = manifest->body, none = {0};
    lk_wire_field field = {0};
    const char   *end = rest.data;
    while (rest.size > 0 && lk_wire_next(&rest, &field) && field.number == 1) {
        end = rest.data;
    }
    return manifest->schema->arrow.metadata != NULL
               ? none
               : (lk_bytes){manifest->body.data, (size_t)(end - manifest->body.data)};
}

/* The message without its schema when that is the one of `like`; NULL: it is not, or damaged. */
static const Lk__Pb__Manifest *unpack_like(scratch *memory, lk_bytes body, const lk_manifest *like)
{
    lk_bytes same = like == NULL ? (lk_bytes){0} : leading_fields(like);
    if (same.size == 0 || same.size > body.size || memcmp(same.data, body.data, same.size) != 0) {
        return NULL;
    }
    const lk_bytes          rest = {body.data + same.size, body.size - same.size};
    const Lk__Pb__Manifest *pb =
        (Lk__Pb__Manifest *)scratch_unpack(memory, &lk__pb__manifest__descriptor, rest);
    if (pb == NULL || pb->n_fields > 0 || pb->n_schema_metadata > 0) {
        lk_arena_close(&memory->arena);
        return NULL;
    }
    return pb;
}

lk_rc lk_pb_manifest_decode(lk_manifest *out, const lk_manifest *like, lk_pb_features *features, lk_err *err)
{
    scratch                 memory;
    lk_rc                   rc = LK_OK;
    const Lk__Pb__Manifest *pb = unpack_like(&memory, out->body, like);
    bool                    alike = pb != NULL;
    if (pb == NULL) {
        pb = (Lk__Pb__Manifest *)scratch_unpack(&memory, &lk__pb__manifest__descriptor, out->body);
    }
    if (pb == NULL) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "the manifest message is malformed");
        goto done;
    }
    decode_plain(out, pb, features);
    out->bases = decode_bases(&out->arena, pb);
    out->base_count = pb->n_base_paths;
    if (alike) {
        out->schema = lk_lance_schema_ref(like->schema);
    } else {
        rc = decode_schema(out, pb, &memory.arena, err);
    }
    if (rc == LK_OK) {
        rc = decode_fragments(out, pb, features, err);
    }

done:
    lk_arena_close(&memory.arena);
    return rc;
}

lk_rc lk_pb_file_descriptor_decode(lk_bytes message, lk_arena *arena, lk_field_record **records,
    size_t *count, lk_metadata_pair **metadata, size_t *metadata_count, lk_err *err)
{
    scratch                       memory;
    lk_rc                         rc = LK_OK;
    const Lk__Pb__FileDescriptor *pb =
        (Lk__Pb__FileDescriptor *)scratch_unpack(&memory, &lk__pb__file_descriptor__descriptor, message);
    if (pb == NULL || pb->schema == NULL) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "the file descriptor is malformed");
    } else {
        *records = decode_fields(arena, pb->schema->fields, pb->schema->n_fields);
        *count = pb->schema->n_fields;
        *metadata = decode_pairs(arena, pb->schema->metadata, pb->schema->n_metadata);
        *metadata_count = pb->schema->n_metadata;
    }
    lk_arena_close(&memory.arena);
    return rc;
}

/* -- transactions ------------------------------------------------------------------------------------ */

const char *lk_operation_name(lk_operation operation)
{
    switch (operation) {
    case LK_OPERATION_UNKNOWN:
        return "unknown operation";
    case LK_OPERATION_APPEND:
        return "append";
    case LK_OPERATION_DELETE:
        return "delete";
    case LK_OPERATION_OVERWRITE:
        return "overwrite";
    case LK_OPERATION_CREATE_INDEX:
        return "create index";
    case LK_OPERATION_REWRITE:
        return "rewrite";
    case LK_OPERATION_MERGE:
        return "merge";
    case LK_OPERATION_RESTORE:
        return "restore";
    case LK_OPERATION_RESERVE_FRAGMENTS:
        return "reserve fragments";
    case LK_OPERATION_UPDATE:
        return "update";
    case LK_OPERATION_PROJECT:
        return "project";
    case LK_OPERATION_UPDATE_CONFIG:
        return "update config";
    case LK_OPERATION_DATA_REPLACEMENT:
        return "data replacement";
    case LK_OPERATION_UPDATE_MEM_WAL_STATE:
        return "update memwal state";
    case LK_OPERATION_CLONE:
        return "clone";
    case LK_OPERATION_UPDATE_BASES:
        return "update bases";
    case LK_OPERATION_DATA_OVERLAY:
        return "data overlay";
    }
    return "unknown operation";
}

/* The last operation on the wire wins, as in any oneof. */
static lk_operation find_operation(lk_bytes message)
{
    lk_operation  operation = LK_OPERATION_UNKNOWN;
    lk_wire_field field = {0};
    while (message.size > 0 && lk_wire_next(&message, &field)) {
        if (field.number >= LK_OPERATION_APPEND && field.number < 200) {
            operation =
                field.number <= LK_OPERATION_DATA_OVERLAY ? (lk_operation)field.number : LK_OPERATION_UNKNOWN;
        }
    }
    return operation;
}

lk_rc lk_pb_transaction_decode(lk_bytes message, lk_arena *arena, lk_transaction *out, lk_err *err)
{
    scratch                    memory;
    lk_rc                      rc = LK_OK;
    const Lk__Pb__Transaction *pb =
        (Lk__Pb__Transaction *)scratch_unpack(&memory, &lk__pb__transaction__descriptor, message);
    if (pb == NULL) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "the transaction message is malformed");
    } else {
        *out = (lk_transaction){
            .read_version = pb->read_version,
            .uuid = copy_bytes(arena, pb->uuid),
            .operation = find_operation(message),
            .properties = decode_pairs(arena, pb->transaction_properties, pb->n_transaction_properties),
            .property_count = pb->n_transaction_properties,
        };
    }
    lk_arena_close(&memory.arena);
    return rc;
}
