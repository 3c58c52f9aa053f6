/*
 * index_list.c - which indices a version has: its index section taken apart.
 */
#include "lance/index_priv.h"
#include "lance/roaring_read.h"
#include "lance/wire.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct kind_name {
    lk_index_kind kind;
    const char   *name, *type;
} kind_name;

static const kind_name kinds[] = {
    {LK_INDEX_OTHER, "other", ""},
    {LK_INDEX_BTREE, "btree", "BTreeIndexDetails"},
    {LK_INDEX_BITMAP, "bitmap", "BitmapIndexDetails"},
    {LK_INDEX_ZONEMAP, "zonemap", "ZoneMapIndexDetails"},
};

const char *lk_index_kind_name(lk_index_kind kind)
{
    return kinds[kind].name;
}

static lk_index_kind kind_of(lk_bytes type)
{
    for (size_t i = 1; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (lk_bytes_equal(type, lk_bytes_of(kinds[i].type))) {
            return kinds[i].kind;
        }
    }
    return LK_INDEX_OTHER;
}

/* -- one message ------------------------------------------------------------------------------------------ */
static bool parse_uuid(lk_bytes message, lk_index *out)
{
    enum { UUID_BYTES = 1 };
    lk_wire_field part = {0};
    if (!lk_wire_next(&message, &part) || part.number != UUID_BYTES ||
        part.value.size != sizeof out->uuid.bytes) {
        return false;
    }
    memcpy(out->uuid.bytes, part.value.data, sizeof out->uuid.bytes);
    return true;
}

/* The last part of the type's name says which kind it is. */
static bool parse_details(lk_bytes message, lk_index *out)
{
    enum { ANY_TYPE = 1, ANY_VALUE = 2 };
    lk_wire_field part = {0};
    while (message.size > 0) {
        if (!lk_wire_next(&message, &part)) {
            return false;
        }
        if (part.number == ANY_VALUE) {
            out->details = part.value;
        }
        if (part.number == ANY_TYPE) {
            size_t at = part.value.size;
            while (at > 0 && part.value.data[at - 1] != '.' && part.value.data[at - 1] != '/') {
                at--;
            }
            out->type = (lk_bytes){part.value.data + at, part.value.size - at};
        }
    }
    return true;
}

static bool parse_file(lk_bytes message, lk_index_file *out)
{
    enum { FILE_PATH = 1, FILE_SIZE = 2 };
    lk_wire_field part = {0};
    while (message.size > 0) {
        if (!lk_wire_next(&message, &part)) {
            return false;
        }
        if (part.number == FILE_PATH) {
            out->path = part.value;
        } else if (part.number == FILE_SIZE) {
            out->size_bytes = part.varint;
        }
    }
    return true;
}

/* Packed or not. Room for as many as the message has bytes. */
static bool parse_field(lk_wire_field part, int32_t *fields, size_t *count)
{
    uint64_t id = part.varint;
    if (part.value.size == 0) {
        fields[(*count)++] = (int32_t)(uint32_t)id;
    }
    while (part.value.size > 0) {
        if (!lk_wire_take_varint(&part.value, &id)) {
            return false;
        }
        fields[(*count)++] = (int32_t)(uint32_t)id;
    }
    return true;
}

typedef struct parsed {
    lk_index      *out;
    int32_t       *fields;
    lk_index_file *files;
    lk_bytes      *bitmap;
    uint64_t       version;
    uint32_t      *base;
    bool          *has_base;
} parsed;

static bool parse_part(const lk_wire_field *part, parsed *p)
{
    switch (part->number) {
    case LK_INDEX_UUID:
        return parse_uuid(part->value, p->out);
    case LK_INDEX_FIELDS:
        return parse_field(*part, p->fields, &p->out->field_count);
    case LK_INDEX_NAME:
        p->out->name = part->value;
        return true;
    case LK_INDEX_DATASET_VERSION:
        p->out->dataset_version = part->varint;
        return true;
    case LK_INDEX_BITMAP_OF_FRAGMENTS:
        *p->bitmap = part->value;
        p->out->lists_fragments = part->value.size > 0;
        return true;
    case LK_INDEX_DETAILS:
        return parse_details(part->value, p->out);
    case LK_INDEX_VERSION:
        p->version = part->varint;
        return true;
    case LK_INDEX_CREATED_AT:
        p->out->created_at_ms = part->varint;
        return true;
    case LK_INDEX_BASE:
        *p->base = (uint32_t)part->varint;
        *p->has_base = true;
        return true;
    case LK_INDEX_FILES:
        return parse_file(part->value, &p->files[p->out->file_count++]);
    default:
        return true;
    }
}

/* Every file takes two bytes of the message at least, every field one. */
bool lk_index_parse(
    lk_bytes message, lk_arena *arena, lk_index *out, lk_bytes *bitmap, uint32_t *base, bool *has_base)
{
    size_t files = 0, fields = 0;
    *out = (lk_index){.raw = message};
    *bitmap = (lk_bytes){0};
    *has_base = false;
    lk_wire_field part = {0};
    for (lk_bytes rest = message; rest.size > 0;) {
        if (!lk_wire_next(&rest, &part)) {
            return false;
        }
        files += part.number == LK_INDEX_FILES;
        fields += part.number == LK_INDEX_FIELDS ? part.value.size + 1 : 0;
    }
    parsed p = {.out = out,
        .fields = lk_arena_take(arena, (fields + 1) * sizeof(int32_t)),
        .files = lk_arena_take(arena, (files + 1) * sizeof(lk_index_file)),
        .bitmap = bitmap,
        .base = base,
        .has_base = has_base};
    for (lk_bytes rest = message; rest.size > 0;) {
        if (!lk_wire_next(&rest, &part) || !parse_part(&part, &p)) {
            return false;
        }
    }
    out->fields = p.fields;
    out->files = p.files;
    lk_index_kind kind = out->field_count == 1 ? kind_of(out->type) : LK_INDEX_OTHER;
    out->addresses = p.version == LK_INDEX_VERSION_ADDRESSES && kind == LK_INDEX_BTREE;
    out->kind = p.version == LK_INDEX_VERSION_IDS || out->addresses ? kind : LK_INDEX_OTHER;
    return true;
}

/* -- what it covers --------------------------------------------------------------------------------------- */
static int by_id(const void *a, const void *b)
{
    const lk_fragment_number *left = a, *right = b;
    return (left->id > right->id) - (left->id < right->id);
}

const lk_fragment_number *lk_fragment_numbers(const lk_manifest *manifest, lk_arena *arena)
{
    lk_fragment_number *numbers = lk_arena_take(arena, (manifest->fragment_count + 1) * sizeof *numbers);
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        numbers[i] = (lk_fragment_number){manifest->fragments[i].id, i};
    }
    qsort(numbers, manifest->fragment_count, sizeof *numbers, by_id);
    return numbers;
}

size_t lk_fragment_lower_bound(const lk_fragment_number *numbers, size_t count, uint64_t id)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (numbers[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

size_t lk_fragment_number_of(const lk_fragment_number *numbers, size_t count, uint64_t id)
{
    size_t at = lk_fragment_lower_bound(numbers, count, id);
    return at < count && numbers[at].id == id ? numbers[at].number : SIZE_MAX;
}

typedef struct coverage {
    const lk_fragment_number *fragments;
    size_t                    count;
    lk_index                 *index;
} coverage;

static lk_rc cover(void *context, uint32_t first, uint32_t count, lk_err *err)
{
    const coverage *c = context;
    uint64_t        end = (uint64_t)first + count;
    (void)err;
    for (size_t at = lk_fragment_lower_bound(c->fragments, c->count, first);
         at < c->count && c->fragments[at].id < end; at++) {
        bool *covers = &c->index->covers[c->fragments[at].number];
        c->index->covered_count += !*covers;
        *covers = true;
    }
    return LK_OK;
}

/* -- the section ------------------------------------------------------------------------------------------ */
static const lk_base_path *find_base(const lk_manifest *manifest, uint32_t id)
{
    for (size_t i = 0; i < manifest->base_count; i++) {
        if (manifest->bases[i].id == id) {
            return &manifest->bases[i];
        }
    }
    return NULL;
}

static lk_rc list_one(
    const lk_manifest *manifest, lk_bytes message, coverage *of, lk_arena *arena, lk_index *out, lk_err *err)
{
    lk_bytes bitmap = {0};
    uint32_t base = 0;
    bool     has_base = false;
    if (!lk_index_parse(message, arena, out, &bitmap, &base, &has_base)) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "an index of %.*s is malformed", LK_FMT(manifest->key));
    }
    out->base = has_base ? find_base(manifest, base) : NULL;
    if (has_base && out->base == NULL) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "an index lies under base path %" PRIu32, base);
    }
    out->covers = lk_arena_take(arena, manifest->fragment_count + 1);
    of->index = out;
    lk_rc rc = bitmap.size == 0 ? LK_OK : lk_roaring_read(bitmap, cover, of, err);
    if (rc != LK_OK) {
        lk_context(err, "fragments of index %.*s", LK_FMT(out->name));
    }
    return rc;
}

lk_rc lk_index_list(lk_dataset *dataset, lk_arena *arena, const lk_index **out, size_t *count, lk_err *err)
{
    const lk_manifest *manifest = dataset->manifest;
    lk_bytes           section = {0};
    lk_wire_field      part = {0};
    coverage           of = {0};
    bool               found = false;
    *count = 0;
    *out = NULL;
    lk_rc rc = lk_manifest_index_section(dataset->env.store, manifest, arena, &section, &found, err);
    if (rc != LK_OK || !found || section.size == 0) {
        return rc;
    }
    size_t room = 0;
    for (lk_bytes rest = section; rest.size > 0; room++) {
        if (!lk_wire_next(&rest, &part)) {
            return lk_fail(
                err, LK_E_CORRUPT_FILE, "the index section of %.*s is malformed", LK_FMT(manifest->key));
        }
    }
    lk_index *list = lk_arena_take(arena, room * sizeof *list);
    of = (coverage){lk_fragment_numbers(manifest, arena), manifest->fragment_count, NULL};
    for (lk_bytes rest = section; rc == LK_OK && rest.size > 0;) {
        if (lk_wire_next(&rest, &part) && part.number == LK_INDEX_SECTION_INDICES) {
            rc = list_one(manifest, part.value, &of, arena, &list[(*count)++], err);
        }
    }
    *out = list;
    return rc;
}
