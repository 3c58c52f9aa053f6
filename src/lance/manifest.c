/*
 * manifest.c - see manifest.h: frames the object, checks what it claims, answers questions about it. The
 * message itself is pb_table's.
 */
#include "lance/manifest.h"

#include "base/limits.h"
#include "lance/features.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FOOTER_SIZE = 16,
    FOOTER_MAJOR = 0,
    FOOTER_MINOR = 2,
    READ_AT_ONCE = 1 << 20 /* a manifest up to this size is read whole, with what lies before its message */
};

static const char magic[4] = {'L', 'A', 'N', 'C'};

/* -- fragments --------------------------------------------------------------------------------------- */

/* A path below data/: relative, no "..", no NUL. */
static bool path_is_safe(lk_bytes path)
{
    if (path.size == 0 || path.data[0] == '/' || memchr(path.data, '\0', path.size) != NULL) {
        return false;
    }
    for (size_t start = 0; start <= path.size;) {
        const char *slash = memchr(path.data + start, '/', path.size - start);
        size_t      end = slash == NULL ? path.size : (size_t)(slash - path.data);
        if (end - start == 2 && memcmp(path.data + start, "..", 2) == 0) {
            return false;
        }
        start = end + 1;
    }
    return true;
}

static lk_rc check_file(const lk_data_file *file, lk_err *err)
{
    if (file->major != 2 || file->minor > 2) {
        char name[48];
        (void)snprintf(name, sizeof name, "data files of version %u.%u", file->major, file->minor);
        return lk_refuse_feature(name, "read", err);
    }
    if (!path_is_safe(file->path)) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "data file path '%.*s'", LK_FMT(file->path));
    }
    for (size_t i = 0; i < file->field_count; i++) {
        if (file->columns[i] < -1) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "column index %d", file->columns[i]);
        }
    }
    return LK_OK;
}

static lk_rc check_fragment(const lk_fragment *fragment, lk_err *err)
{
    if (fragment->id > UINT32_MAX || fragment->physical_rows > UINT32_MAX) {
        return lk_fail(
            err, LK_E_CORRUPT_FILE, "id or row count %" PRIu64 " above 32 bits", fragment->physical_rows);
    }
    if (fragment->physical_rows == 0) {
        return lk_refuse_feature("a fragment that does not say its row count", "read", err);
    }
    if (fragment->deletion.count > fragment->physical_rows) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "%" PRIu64 " of %" PRIu64 " rows deleted",
            fragment->deletion.count, fragment->physical_rows);
    }
    for (size_t i = 0; i < fragment->file_count; i++) {
        lk_rc rc = check_file(&fragment->files[i], err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

static lk_rc check_fragments(lk_manifest *manifest, lk_err *err)
{
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        const lk_fragment *fragment = &manifest->fragments[i];
        lk_rc              rc = check_fragment(fragment, err);
        if (rc != LK_OK) {
            lk_context(err, "fragment %" PRIu64, fragment->id);
            return rc;
        }
        manifest->physical_rows += fragment->physical_rows;
        manifest->deleted_rows += fragment->deletion.count;
        if (!manifest->has_fragment_id_max || fragment->id > manifest->fragment_id_max) {
            manifest->fragment_id_max = (uint32_t)fragment->id; /* old writers did not record it */
            manifest->has_fragment_id_max = true;
        }
    }
    return LK_OK;
}

/* -- the object -------------------------------------------------------------------------------------- */

typedef struct image { /* the last `size` bytes of an object of `object_size` */
    char    *data;
    size_t   size;
    uint64_t object_size;
} image;

static lk_rc corrupt(lk_err *err, const char *what)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "%s", what);
}

/* Where the Manifest message lies; *start may be before the image. */
static lk_rc parse_footer(const image *view, uint64_t *start, lk_err *err)
{
    if (view->object_size < FOOTER_SIZE + 4 || view->size < FOOTER_SIZE) {
        return corrupt(err, "too small for a manifest");
    }
    const char *footer = view->data + view->size - FOOTER_SIZE;
    if (memcmp(footer + 12, magic, sizeof magic) != 0) {
        return corrupt(err, "does not end with LANC");
    }
    if (lk_load_u16(footer + 8) != FOOTER_MAJOR || lk_load_u16(footer + 10) != FOOTER_MINOR) {
        return lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "manifest layout %u.%u", lk_load_u16(footer + 8),
            lk_load_u16(footer + 10));
    }
    *start = lk_load_u64(footer);
    if (*start > view->object_size - FOOTER_SIZE - 4) {
        return corrupt(err, "the message's position lies outside");
    }
    return LK_OK;
}

static lk_rc grow_image(lk_store_reader *reader, image *view, size_t size, lk_err *err)
{
    char *data = realloc(view->data, size);
    if (data == NULL) {
        return lk_fail(err, LK_E_LIMIT, "no memory for a manifest of %zu bytes", size);
    }
    view->data = data;
    view->size = size;
    lk_store_range range = {view->object_size - size, size, data};
    return lk_store_read(reader, &range, 1, err);
}

static lk_rc load(lk_store *store, lk_bytes key, image *view, lk_err *err)
{
    lk_store_reader *reader = NULL;
    uint64_t         start = 0;
    lk_rc            rc = lk_store_open_object(store, key, &reader, &view->object_size, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (view->object_size > LK_MANIFEST_BYTES_MAX) {
        rc = lk_fail(err, LK_E_LIMIT, "a manifest of %" PRIu64 " bytes", view->object_size);
    } else if (view->object_size < FOOTER_SIZE + 4) {
        rc = corrupt(err, "too small for a manifest");
    } else {
        rc = grow_image(
            reader, view, view->object_size < READ_AT_ONCE ? (size_t)view->object_size : READ_AT_ONCE, err);
    }
    if (rc == LK_OK) {
        rc = parse_footer(view, &start, err);
    }
    if (rc == LK_OK && start < view->object_size - view->size) {
        rc = grow_image(reader, view, (size_t)(view->object_size - start), err);
    }
    lk_store_reader_close(reader);
    return rc;
}

static lk_rc frame(lk_manifest *out, const image *view, lk_err *err)
{
    uint64_t start = 0;
    lk_rc    rc = parse_footer(view, &start, err);
    if (rc != LK_OK) {
        return rc;
    }
    uint64_t image_start = view->object_size - view->size;
    if (start < image_start) {
        return corrupt(err, "the message's position lies outside");
    }
    const char *at = view->data + (start - image_start);
    uint64_t    size = view->object_size - start - 4 - FOOTER_SIZE;
    if (lk_load_u32(at) != size) {
        return corrupt(err, "the message's size is not what is there");
    }
    out->body_offset = start;
    out->body = (lk_bytes){at + 4, (size_t)size};
    out->head = image_start == 0 ? (lk_bytes){view->data, (size_t)start} : (lk_bytes){0};
    return LK_OK;
}

/* Takes the image's memory. */
static lk_rc open_image(image *view, lk_bytes key, const lk_manifest *like, lk_manifest **out, lk_err *err)
{
    lk_manifest *manifest = calloc(1, sizeof *manifest);
    LK_ASSERT(manifest != NULL);
    lk_pb_features features = {0};
    manifest->image = view->data;
    manifest->image_size = view->size;
    manifest->key = lk_arena_copy(&manifest->arena, key);
    lk_rc rc = frame(manifest, view, err);
    if (rc == LK_OK) {
        rc = lk_pb_manifest_decode(manifest, like, &features, err);
    }
    if (rc == LK_OK) {
        rc = lk_manifest_check_features(manifest, &features, err);
    }
    if (rc == LK_OK) {
        rc = check_fragments(manifest, err);
    }
    if (rc != LK_OK) {
        lk_manifest_close(manifest);
        return rc;
    }
    *out = manifest;
    return LK_OK;
}

lk_rc lk_manifest_read(lk_store *store, lk_bytes key, lk_manifest **out, lk_err *err)
{
    return lk_manifest_read_like(store, key, NULL, out, err);
}

lk_rc lk_manifest_read_like(
    lk_store *store, lk_bytes key, const lk_manifest *like, lk_manifest **out, lk_err *err)
{
    image view = {0};
    lk_rc rc = load(store, key, &view, err);
    if (rc == LK_OK) {
        rc = open_image(&view, key, like, out, err);
    } else {
        free(view.data);
    }
    if (rc != LK_OK) {
        lk_context(err, "manifest %.*s", LK_FMT(key));
    }
    return rc;
}

lk_rc lk_manifest_parse(lk_bytes object, lk_bytes key, lk_manifest **out, lk_err *err)
{
    image view = {malloc(object.size + 1), object.size, object.size};
    LK_ASSERT(view.data != NULL);
    if (object.size > 0) {
        memcpy(view.data, object.data, object.size);
    }
    lk_rc rc = open_image(&view, key, NULL, out, err);
    if (rc != LK_OK) {
        lk_context(err, "manifest %.*s", LK_FMT(key));
    }
    return rc;
}

void lk_manifest_close(lk_manifest *manifest)
{
    if (manifest == NULL) {
        return;
    }
    lk_lance_schema_close(manifest->schema);
    lk_arena_close(&manifest->arena);
    free(manifest->image);
    free(manifest);
}

/* -- what lies before the message -------------------------------------------------------------------- */

/* A section is a u32 size and that many bytes, somewhere before the message. */
static lk_rc read_section(lk_store *store, const lk_manifest *manifest, uint64_t offset, lk_arena *arena,
    lk_bytes *out, lk_err *err)
{
    lk_store_reader *reader = NULL;
    uint64_t         object_size = 0;
    char             prefix[4];
    if (offset > manifest->body_offset || manifest->body_offset - offset < sizeof prefix) {
        return corrupt(err, "a section lies outside");
    }
    lk_rc rc = LK_OK;
    if (manifest->head.size > 0) {
        memcpy(prefix, manifest->head.data + offset, sizeof prefix);
    } else {
        lk_store_range range = {offset, sizeof prefix, prefix};
        if ((rc = lk_store_open_object(store, manifest->key, &reader, &object_size, err)) != LK_OK ||
            (rc = lk_store_read(reader, &range, 1, err)) != LK_OK) {
            goto done;
        }
    }
    uint32_t size = lk_load_u32(prefix);
    if (size > manifest->body_offset - offset - sizeof prefix) {
        rc = corrupt(err, "a section is cut short");
        goto done;
    }
    offset += sizeof prefix;
    char *data = lk_arena_take(arena, (size_t)size + 1);
    if (reader == NULL) {
        memcpy(data, manifest->head.data + offset, size);
    } else if (size > 0) {
        lk_store_range range = {offset, size, data};
        rc = lk_store_read(reader, &range, 1, err);
    }
    *out = (lk_bytes){data, size};

done:
    lk_store_reader_close(reader);
    return rc;
}

lk_rc lk_manifest_index_section(lk_store *store, const lk_manifest *manifest, lk_arena *arena,
    lk_bytes *section, bool *found, lk_err *err)
{
    *found = manifest->has_index_section;
    if (!*found) {
        return LK_OK;
    }
    lk_rc rc = read_section(store, manifest, manifest->index_section_offset, arena, section, err);
    if (rc != LK_OK) {
        lk_context(err, "index section of %.*s", LK_FMT(manifest->key));
    }
    return rc;
}

static lk_rc read_transaction_file(
    lk_store *store, const lk_manifest *manifest, lk_arena *arena, lk_bytes *out, lk_err *err)
{
    if (!path_is_safe(manifest->transaction_file)) {
        return corrupt(err, "an unsafe name of a transaction file");
    }
    lk_bytes key = lk_arena_format(arena, "_transactions/%.*s", LK_FMT(manifest->transaction_file));
    return lk_store_load(store, key, LK_MANIFEST_BYTES_MAX, arena, out, err);
}

lk_rc lk_manifest_transaction(lk_store *store, const lk_manifest *manifest, lk_arena *arena,
    lk_bytes *transaction, bool *found, lk_err *err)
{
    lk_err inline_err = {0};
    if (manifest->has_transaction_section &&
        read_section(store, manifest, manifest->transaction_section_offset, arena, transaction,
            &inline_err) == LK_OK) {
        *found = true;
        return LK_OK;
    }
    *found = manifest->transaction_file.size > 0;
    if (!*found && inline_err.rc != LK_OK) {
        *err = inline_err;
        return inline_err.rc;
    }
    lk_rc rc = *found ? read_transaction_file(store, manifest, arena, transaction, err) : LK_OK;
    if (rc != LK_OK) {
        lk_context(err, "transaction of %.*s", LK_FMT(manifest->key));
    }
    return rc;
}

/* -- questions --------------------------------------------------------------------------------------- */

/* Ids are mostly consecutive, so the place is guessed before it is searched: tables may be wide. */
static size_t find_field(const lk_data_file *file, int32_t field_id)
{
    int64_t guess = file->field_count == 0 ? -1 : (int64_t)field_id - file->fields[0];
    if (guess >= 0 && (uint64_t)guess < file->field_count && file->fields[guess] == field_id) {
        return (size_t)guess;
    }
    size_t index = 0;
    while (index < file->field_count && file->fields[index] != field_id) {
        index++;
    }
    return index;
}

bool lk_fragment_find(const lk_fragment *fragment, int32_t field_id, size_t *file, int32_t *column)
{
    for (size_t f = 0; f < fragment->file_count; f++) {
        size_t index = find_field(&fragment->files[f], field_id);
        if (index < fragment->files[f].field_count) {
            *file = f;
            *column = fragment->files[f].columns[index];
            return true;
        }
    }
    return false;
}

bool lk_fragment_has_row_ids(const lk_fragment *fragment)
{
    return fragment->row_ids.size > 0 || (fragment->lineage_columns & LK_LINEAGE_ROW_IDS) != 0;
}

lk_bytes lk_data_file_key(const lk_data_file *file, lk_arena *arena)
{
    bool below_data = file->base == NULL || file->base->is_dataset_root;
    if (!below_data) {
        return file->path;
    }
    static const char prefix[] = {'d', 'a', 't', 'a', '/'}; /* by hand: plans ask for thousands of keys */
    char             *key = lk_arena_take(arena, sizeof prefix + file->path.size + 1);
    memcpy(key, prefix, sizeof prefix);
    memcpy(key + sizeof prefix, file->path.data, file->path.size);
    return (lk_bytes){key, sizeof prefix + file->path.size};
}

size_t lk_manifest_bytes(const lk_manifest *manifest)
{
    size_t a_field = sizeof(lk_lance_field) + sizeof(struct ArrowSchema) + 64; /* with its texts, about */
    return sizeof *manifest + manifest->arena.used_bytes + manifest->image_size +
           manifest->schema->field_count * a_field;
}

uint64_t lk_manifest_rows(const lk_manifest *manifest)
{
    return manifest->physical_rows - manifest->deleted_rows;
}

/* -- names ------------------------------------------------------------------------------------------- */

enum { V2_DIGITS = 20 };

static bool parse_digits(lk_bytes text, uint64_t *out)
{
    if (text.size == 0 || text.size > V2_DIGITS) {
        return false;
    }
    *out = 0;
    for (size_t index = 0; index < text.size; index++) {
        unsigned digit = (unsigned)text.data[index] - '0';
        if (digit > 9 || *out > (UINT64_MAX - digit) / 10) {
            return false;
        }
        *out = *out * 10 + digit;
    }
    return true;
}

bool lk_manifest_parse_name(lk_bytes name, uint64_t *version, lk_manifest_naming *naming)
{
    lk_bytes suffix = LK_LITERAL(".manifest");
    uint64_t number = 0;
    if (name.size <= suffix.size ||
        memcmp(name.data + name.size - suffix.size, suffix.data, suffix.size) != 0 ||
        !parse_digits((lk_bytes){name.data, name.size - suffix.size}, &number)) {
        return false;
    }
    *naming = name.size - suffix.size == V2_DIGITS ? LK_MANIFEST_V2 : LK_MANIFEST_V1;
    *version = *naming == LK_MANIFEST_V2 ? UINT64_MAX - number : number;
    return true;
}

lk_bytes lk_manifest_key(uint64_t version, lk_manifest_naming naming, lk_arena *arena)
{
    return naming == LK_MANIFEST_V1
               ? lk_arena_format(arena, "_versions/%" PRIu64 ".manifest", version)
               : lk_arena_format(arena, "_versions/%020" PRIu64 ".manifest", UINT64_MAX - version);
}

lk_manifest_naming lk_manifest_key_naming(lk_bytes key)
{
    uint64_t           version = 0;
    lk_manifest_naming naming = LK_MANIFEST_V2;
    size_t             at = key.size;
    while (at > 0 && key.data[at - 1] != '/') {
        at--;
    }
    bool numbered = lk_manifest_parse_name((lk_bytes){key.data + at, key.size - at}, &version, &naming);
    return numbered ? naming : LK_MANIFEST_V2; /* a staging name says nothing: what we write */
}
