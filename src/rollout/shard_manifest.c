/*
 * shard_manifest.c - see shard_manifest.h. Field numbers are those of the Lance table format's ShardManifest; 5 and 7 are
 * retired there, 14 (values of sharding fields) is carried.
 */
#include "rollout/shard_manifest.h"

#include "lance/wire.h"

#include <stdlib.h>

enum {
    FIELD_VERSION = 1,
    FIELD_WRITER_EPOCH = 2,
    FIELD_REPLAY_AFTER = 3,
    FIELD_WAL_LAST_SEEN = 4,
    FIELD_CURRENT_GENERATION = 6,
    FIELD_GENERATIONS = 8,
    FIELD_SPEC_ID = 10,
    FIELD_SHARD_ID = 11,
    FIELD_STATUS = 15,
    FIELD_GENERATION_NUMBER = 1,
    FIELD_GENERATION_PATH = 2,
    FIELD_UUID_BYTES = 1,
    STATUS_SEALED = 1,
    WIRE_BYTES = 2,
};

typedef struct reading {
    lk_shard_manifest *out;
    lk_buf             generations; /* of lk_shard_generation */
    lk_buf             rest;
    bool               has_shard;
} reading;

static lk_rc damaged(lk_err *err, const char *what)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "shard manifest: %s", what);
}

/* One plain name of a directory: what is read becomes part of a key. */
static bool is_plain_name(lk_bytes path)
{
    bool dots = lk_bytes_equal(path, LK_LITERAL(".")) || lk_bytes_equal(path, LK_LITERAL(".."));
    return path.size > 0 && path.size <= 255 && !dots && memchr(path.data, '/', path.size) == NULL &&
           memchr(path.data, '\0', path.size) == NULL;
}

static lk_rc read_generation(lk_bytes message, reading *r, lk_arena *arena, lk_err *err)
{
    lk_shard_generation generation = {0};
    lk_buf              rest = {0};
    lk_rc               rc = LK_OK;
    while (rc == LK_OK && message.size > 0) {
        lk_wire_field field;
        if (!lk_wire_next(&message, &field)) {
            rc = damaged(err, "a generation is not a message");
        } else if (field.number == FIELD_GENERATION_NUMBER) {
            generation.number = field.varint;
        } else if (field.number == FIELD_GENERATION_PATH) {
            generation.path = lk_arena_copy(arena, field.value);
        } else {
            lk_buf_append_bytes(&rest, field.whole);
        }
    }
    if (rc == LK_OK && (generation.number == 0 || !is_plain_name(generation.path))) {
        rc = damaged(err, "a generation has no number or no name");
    }
    if (rc == LK_OK) {
        generation.rest = lk_arena_copy(arena, lk_buf_view(&rest));
        lk_buf_append(&r->generations, &generation, sizeof generation);
    }
    lk_buf_deinit(&rest);
    return rc;
}

static lk_rc read_shard_id(lk_bytes message, reading *r, lk_err *err)
{
    lk_wire_field field = {0};
    if (message.size == 0 || !lk_wire_next(&message, &field) || field.number != FIELD_UUID_BYTES ||
        field.value.size != sizeof r->out->shard.bytes) {
        return damaged(err, "the shard id is no UUID");
    }
    memcpy(r->out->shard.bytes, field.value.data, field.value.size);
    r->has_shard = true;
    return LK_OK;
}

static lk_rc read_field(const lk_wire_field *field, reading *r, lk_arena *arena, lk_err *err)
{
    switch (field->number) {
    case FIELD_VERSION:
        r->out->version = field->varint;
        return LK_OK;
    case FIELD_WRITER_EPOCH:
        r->out->writer_epoch = field->varint;
        return LK_OK;
    case FIELD_REPLAY_AFTER:
        r->out->replay_after = field->varint;
        return LK_OK;
    case FIELD_WAL_LAST_SEEN:
        r->out->wal_last_seen = field->varint;
        return LK_OK;
    case FIELD_CURRENT_GENERATION:
        r->out->current_generation = field->varint;
        return LK_OK;
    case FIELD_GENERATIONS:
        return read_generation(field->value, r, arena, err);
    case FIELD_SPEC_ID:
        r->out->spec_id = (uint32_t)field->varint;
        return field->varint <= UINT32_MAX ? LK_OK : damaged(err, "the sharding spec's number is too large");
    case FIELD_SHARD_ID:
        return read_shard_id(field->value, r, err);
    case FIELD_STATUS:
        r->out->sealed = field->varint == STATUS_SEALED;
        return field->varint <= STATUS_SEALED ? LK_OK : damaged(err, "the status is unknown");
    default:
        lk_buf_append_bytes(&r->rest, field->whole);
        return LK_OK;
    }
}

static int by_number(const void *a, const void *b)
{
    uint64_t left = ((const lk_shard_generation *)a)->number,
             right = ((const lk_shard_generation *)b)->number;
    return (left > right) - (left < right);
}

/* Writers add at the end, so there is mostly nothing to sort. */
static lk_rc check(const reading *r, lk_err *err)
{
    const lk_shard_manifest *m = r->out;
    if (m->version == 0 || m->version == UINT64_MAX || !r->has_shard) {
        return damaged(err, "it has no version or no shard id");
    }
    qsort(m->generations, m->generation_count, sizeof *m->generations, by_number);
    for (size_t i = 0; i < m->generation_count; i++) {
        if (m->generations[i].number >= m->current_generation ||
            (i > 0 && m->generations[i].number == m->generations[i - 1].number)) {
            return damaged(err, "a generation's number is given twice or not yet");
        }
    }
    return LK_OK;
}

lk_rc lk_shard_manifest_decode(lk_bytes bytes, lk_arena *arena, lk_shard_manifest *out, lk_err *err)
{
    *out = (lk_shard_manifest){0};
    reading r = {.out = out};
    lk_rc   rc = LK_OK;
    while (rc == LK_OK && bytes.size > 0) {
        lk_wire_field field;
        rc = lk_wire_next(&bytes, &field) ? read_field(&field, &r, arena, err)
                                          : damaged(err, "it is not a message");
    }
    if (rc == LK_OK) {
        lk_bytes generations = lk_buf_view(&r.generations);
        out->generation_count = generations.size / sizeof *out->generations;
        out->generations = lk_arena_take(arena, generations.size);
        if (generations.size > 0) {
            memcpy(out->generations, generations.data, generations.size);
        }
        out->rest = lk_arena_copy(arena, lk_buf_view(&r.rest));
        rc = check(&r, err);
    }
    lk_buf_deinit(&r.generations);
    lk_buf_deinit(&r.rest);
    return rc;
}

/* As the reference's encoder does: a zero is not written. */
static void put_u64(lk_buf *out, uint32_t number, uint64_t value)
{
    if (value != 0) {
        lk_wire_put_u64(out, number, value);
    }
}

static size_t generation_size(const lk_shard_generation *generation)
{
    return (generation->number == 0 ? 0 : 1 + lk_wire_varint_size(generation->number)) + 1 +
           lk_wire_varint_size(generation->path.size) + generation->path.size + generation->rest.size;
}

/* There may be thousands, and every flush writes all of them: so into place, without a buffer for each. */
static void put_generations(const lk_shard_manifest *manifest, lk_buf *out)
{
    size_t room = 0;
    for (size_t i = 0; i < manifest->generation_count; i++) {
        size_t size = generation_size(&manifest->generations[i]);
        room += 1 + lk_wire_varint_size(size) + size;
    }
    lk_buf_reserve(out, room);
    char *at = out->data + out->size;
    for (size_t i = 0; i < manifest->generation_count; i++) {
        const lk_shard_generation *generation = &manifest->generations[i];
        *at++ = (char)(FIELD_GENERATIONS << 3 | WIRE_BYTES);
        at = lk_wire_write_varint(at, generation_size(generation));
        if (generation->number != 0) {
            *at++ = (char)(FIELD_GENERATION_NUMBER << 3);
            at = lk_wire_write_varint(at, generation->number);
        }
        *at++ = (char)(FIELD_GENERATION_PATH << 3 | WIRE_BYTES);
        at = lk_wire_write_varint(at, generation->path.size);
        at = (char *)memcpy(at, generation->path.data, generation->path.size) + generation->path.size;
        if (generation->rest.size > 0) {
            at = (char *)memcpy(at, generation->rest.data, generation->rest.size) + generation->rest.size;
        }
    }
    out->size += room;
    out->data[out->size] = '\0';
    LK_ASSERT(at == out->data + out->size);
}

void lk_shard_manifest_encode(const lk_shard_manifest *manifest, lk_buf *out)
{
    lk_buf id = {0};
    put_u64(out, FIELD_VERSION, manifest->version);
    put_u64(out, FIELD_WRITER_EPOCH, manifest->writer_epoch);
    put_u64(out, FIELD_REPLAY_AFTER, manifest->replay_after);
    put_u64(out, FIELD_WAL_LAST_SEEN, manifest->wal_last_seen);
    put_u64(out, FIELD_CURRENT_GENERATION, manifest->current_generation);
    put_generations(manifest, out);
    put_u64(out, FIELD_SPEC_ID, manifest->spec_id);
    lk_wire_put_bytes(
        &id, FIELD_UUID_BYTES, (lk_bytes){(const char *)manifest->shard.bytes, sizeof manifest->shard.bytes});
    lk_wire_put_bytes(out, FIELD_SHARD_ID, lk_buf_view(&id));
    put_u64(out, FIELD_STATUS, manifest->sealed ? STATUS_SEALED : 0);
    lk_buf_append_bytes(out, manifest->rest);
    lk_buf_deinit(&id);
}

void lk_shard_manifest_follow(lk_shard_manifest *kept, lk_arena *arena, lk_buf *room,
    const lk_shard_manifest *next, const lk_shard_generation *added, size_t count)
{
    size_t   before = kept->generation_count;
    lk_bytes rest = kept->rest;
    if ((char *)kept->generations != room->data) {
        lk_buf_clear(room);
        lk_buf_append(room, kept->generations, before * sizeof *added);
    }
    for (size_t i = 0; i < count; i++) {
        const lk_shard_generation copy = {.number = added[i].number,
            .path = lk_arena_copy(arena, added[i].path),
            .rest = lk_arena_copy(arena, added[i].rest)};
        lk_buf_append(room, &copy, sizeof copy);
    }
    *kept = *next;
    kept->rest = lk_bytes_equal(rest, next->rest) ? rest : lk_arena_copy(arena, next->rest);
    kept->generations = (lk_shard_generation *)(void *)room->data;
    kept->generation_count = before + count;
}

const lk_shard_generation *lk_shard_manifest_find(const lk_shard_manifest *manifest, uint64_t number)
{
    const lk_shard_generation wanted = {.number = number};
    return manifest->generation_count == 0 ? NULL
                                           : bsearch(&wanted, manifest->generations,
                                                 manifest->generation_count, sizeof wanted, by_number);
}

void lk_shard_position_format(uint64_t value, char out[LK_SHARD_POSITION_DIGITS + 1])
{
    for (unsigned digit = 0; digit < LK_SHARD_POSITION_DIGITS; digit++) {
        out[digit] = (value >> digit & 1) != 0 ? '1' : '0';
    }
    out[LK_SHARD_POSITION_DIGITS] = '\0';
}

bool lk_shard_position_parse(lk_bytes name, lk_bytes suffix, uint64_t *value)
{
    *value = 0;
    if (name.size != LK_SHARD_POSITION_DIGITS + suffix.size ||
        !lk_bytes_equal((lk_bytes){name.data + LK_SHARD_POSITION_DIGITS, suffix.size}, suffix)) {
        return false;
    }
    for (unsigned digit = 0; digit < LK_SHARD_POSITION_DIGITS; digit++) {
        if (name.data[digit] != '0' && name.data[digit] != '1') {
            return false;
        }
        *value |= (uint64_t)(name.data[digit] == '1') << digit;
    }
    return true;
}

lk_uuid lk_shard_of_instance(lk_bytes instance_id)
{
    static const lk_uuid oid = {
        {0x6b, 0xa7, 0xb8, 0x12, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30, 0xc8}};
    return lk_uuid_v5(oid, instance_id);
}
