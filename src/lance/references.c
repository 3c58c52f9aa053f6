/* references.c - see references.h. */
#include "lance/references.h"

#include "base/uuid.h"
#include "lance/deletion_write.h"
#include "lance/wire.h"

static void add_file(const lk_data_file *file, lk_arena *arena, lk_name_set *keys)
{
    lk_bytes suffix = LK_LITERAL(".lance"), key = lk_data_file_key(file, arena);
    if (file->base != NULL) {
        return;
    }
    lk_name_set_add(keys, key);
    if (key.size > suffix.size && memcmp(key.data + key.size - suffix.size, suffix.data, suffix.size) == 0) {
        lk_name_set_add(keys, (lk_bytes){key.data, key.size - suffix.size});
    }
}

static void add_fragment(const lk_fragment *fragment, lk_name_set *keys)
{
    lk_arena arena = {0};
    for (size_t i = 0; i < fragment->file_count; i++) {
        add_file(&fragment->files[i], &arena, keys);
    }
    if (fragment->deletion.kind != LK_DELETION_NONE && fragment->deletion.base == NULL) {
        lk_name_set_add(keys, lk_deletion_key(fragment->id, &fragment->deletion, &arena));
    }
    lk_arena_close(&arena);
}

/* IndexMetadata.uuid: a message with 16 bytes in field 1. */
static bool add_index(lk_bytes index, lk_name_set *keys)
{
    enum { INDEX_UUID = 1, UUID_BYTES = 1 };
    lk_wire_field part = {0}, inner = {0};
    while (index.size > 0) {
        if (!lk_wire_next(&index, &part)) {
            return false;
        }
        if (part.number != INDEX_UUID) {
            continue;
        }
        lk_uuid uuid;
        char    text[LK_UUID_TEXT_SIZE + 1], key[sizeof text + sizeof "_indices/"] = "_indices/";
        if (!lk_wire_next(&part.value, &inner) || inner.number != UUID_BYTES ||
            inner.value.size != sizeof uuid.bytes) {
            return false;
        }
        memcpy(uuid.bytes, inner.value.data, sizeof uuid.bytes);
        lk_uuid_format(uuid, text);
        memcpy(key + sizeof "_indices/" - 1, text, sizeof text);
        lk_name_set_add(keys, lk_bytes_of(key));
    }
    return true;
}

static lk_rc add_indices(lk_store *store, const lk_manifest *manifest, lk_name_set *keys, lk_err *err)
{
    enum { SECTION_INDICES = 1 };
    lk_arena      arena = {0};
    lk_bytes      section = {0};
    lk_wire_field part = {0};
    bool          found = false, good = true;
    lk_rc         rc = lk_manifest_index_section(store, manifest, &arena, &section, &found, err);
    while (rc == LK_OK && found && good && section.size > 0) {
        good =
            lk_wire_next(&section, &part) && (part.number != SECTION_INDICES || add_index(part.value, keys));
    }
    if (rc == LK_OK && !good) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "the index section of %.*s is malformed", LK_FMT(manifest->key));
    }
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_references_add(lk_store *store, const lk_manifest *manifest, lk_name_set *keys, lk_err *err)
{
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        add_fragment(&manifest->fragments[i], keys);
    }
    if (manifest->transaction_file.size > 0) {
        lk_arena arena = {0};
        lk_name_set_add(
            keys, lk_arena_format(&arena, "_transactions/%.*s", LK_FMT(manifest->transaction_file)));
        lk_arena_close(&arena);
    }
    return add_indices(store, manifest, keys, err);
}
