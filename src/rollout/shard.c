/* shard.c - see shard.h. */
#include "rollout/shard.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    CLAIM_TRIES = 16,
    COMMIT_TRIES = 10,
    HINT_SIZE_MAX = 4096,
    MANIFEST_SIZE_MAX = 64 * 1024 * 1024, /* about a million generations */
    AHEAD_OF_HINT = 4,                    /* far: versions that are asked for at once, first and at most */
    AHEAD_OF_KNOWN = 2,
    AHEAD_MAX = 16
};

#define WAL_DIRECTORY "_mem_wal"

/* -- objects ----------------------------------------------------------------------------------------------------- */

lk_bytes lk_shard_key(lk_uuid shard, lk_bytes name, lk_arena *arena)
{
    char id[LK_UUID_TEXT_SIZE + 1];
    lk_uuid_format(shard, id);
    return name.size == 0 ? lk_arena_format(arena, WAL_DIRECTORY "/%s", id)
                          : lk_arena_format(arena, WAL_DIRECTORY "/%s/%.*s", id, LK_FMT(name));
}

lk_bytes lk_shard_manifest_key(lk_uuid shard, uint64_t version, lk_arena *arena)
{
    char digits[LK_SHARD_POSITION_DIGITS + 1];
    lk_shard_position_format(version, digits);
    return lk_shard_key(shard, lk_arena_format(arena, "manifest/%s.binpb", digits), arena);
}

/* *found = false when there is no such object; one that is larger than it can be is damaged. */
static lk_rc read_object(lk_store *store, lk_bytes key, uint64_t size_max, lk_arena *arena, lk_bytes *out,
    bool *found, lk_err *err)
{
    lk_rc rc = lk_store_load_if_there(store, key, size_max, arena, out, found, err);
    if (rc == LK_E_LIMIT) {
        *err = (lk_err){0};
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "%.*s is larger than it can be", LK_FMT(key));
    }
    return rc;
}

/* Where it had other bytes, or none, when it was opened; local stores go on with those. */
static bool was_replaced(lk_rc rc)
{
    return rc == LK_E_SNAPSHOT_GONE || rc == LK_E_CORRUPT_FILE || rc == LK_E_NOT_FOUND;
}

typedef enum presence { ABSENT, EMPTIED, PRESENT } presence;

static lk_rc exists(
    lk_store *store, lk_uuid shard, uint64_t version, lk_arena *arena, presence *there, lk_err *err)
{
    uint64_t size = 0;
    bool     found = false;
    lk_rc    rc = lk_store_look(store, lk_shard_manifest_key(shard, version, arena), &found, &size, err);
    *there = !found ? ABSENT : size == 0 ? EMPTIED : PRESENT;
    return rc;
}

/* What the object of this version and shard says. */
static lk_rc decode(
    lk_uuid shard, uint64_t version, lk_bytes bytes, lk_arena *arena, lk_shard_manifest *out, lk_err *err)
{
    lk_rc rc = lk_shard_manifest_decode(bytes, arena, out, err);
    if (rc == LK_OK && (out->version != version || memcmp(&out->shard, &shard, sizeof shard) != 0)) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "shard manifest: it is of another version or shard");
    }
    if (rc != LK_OK) {
        lk_context(err, "%.*s", LK_FMT(lk_shard_manifest_key(shard, version, arena)));
    }
    return rc;
}

/* An object may be emptied between being opened and being read. */
static lk_rc read_version(lk_store *store, lk_uuid shard, uint64_t version, lk_arena *arena,
    lk_shard_manifest *out, presence *there, lk_err *err)
{
    lk_bytes key = lk_shard_manifest_key(shard, version, arena), bytes = {0};
    bool     found = false;
    lk_err   failure = {0}, looking = {0};
    lk_rc    rc = read_object(store, key, MANIFEST_SIZE_MAX, arena, &bytes, &found, &failure);
    *there = rc != LK_OK || !found ? ABSENT : bytes.size == 0 ? EMPTIED : PRESENT;
    if (was_replaced(rc)) { /* without a second look it cannot be called damaged */
        lk_rc looked = exists(store, shard, version, arena, there, &looking);
        failure = looked == LK_OK ? failure : looking;
        rc = looked != LK_OK ? looked : *there == EMPTIED ? LK_OK : rc;
    }
    if (rc != LK_OK) {
        *err = failure;
        return rc;
    }
    if (*there != PRESENT) {
        return LK_OK;
    }
    return decode(shard, version, bytes, arena, out, err);
}

lk_rc lk_shard_at(lk_store *store, lk_uuid shard, uint64_t version, lk_arena *arena, lk_shard_manifest *out,
    bool *found, lk_err *err)
{
    presence there = ABSENT;
    lk_rc    rc = read_version(store, shard, version, arena, out, &there, err);
    *found = rc == LK_OK && there == PRESENT;
    return rc;
}

/* -- reading ----------------------------------------------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(lk_uuid));
}

lk_rc lk_shard_list(lk_store *store, lk_arena *arena, lk_uuid **shards, size_t *count, lk_err *err)
{
    lk_store_entry *entries = NULL;
    size_t          entry_count = 0;
    *count = 0;
    lk_rc rc = lk_store_list_names(store, LK_LITERAL(WAL_DIRECTORY), arena, &entries, &entry_count, err);
    if (rc != LK_OK) {
        return rc;
    }
    *shards = lk_arena_take(arena, entry_count * sizeof **shards);
    for (size_t i = 0; i < entry_count; i++) {
        *count += lk_uuid_parse(entries[i].name, &(*shards)[*count]);
    }
    qsort(*shards, *count, sizeof **shards, by_bytes);
    return LK_OK;
}

lk_rc lk_shard_hint(lk_store *store, lk_uuid shard, uint64_t *version, lk_err *err)
{
    lk_arena            arena = {0};
    const lk_json_field hint[] = {{.name = "version", .type = LK_JSON_U64, .target = version}};
    lk_bytes            bytes = {0};
    bool                found = false;
    lk_err              failure = {0}, ignored = {0};
    *version = 0;
    lk_rc rc = read_object(store, lk_shard_key(shard, LK_LITERAL("manifest/version_hint.json"), &arena),
        HINT_SIZE_MAX, &arena, &bytes, &found, &failure);
    if (rc != LK_OK && !was_replaced(rc)) {
        *err = failure;
    } else if (rc == LK_OK && found && lk_json_read(bytes, hint, 1, &arena, &ignored) != LK_OK) {
        *version = 0;
    }
    lk_arena_close(&arena);
    return was_replaced(rc) ? LK_OK : rc;
}

static int by_number(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

lk_rc lk_shard_numbers(lk_store *store, lk_uuid shard, lk_bytes directory, lk_bytes suffix, lk_arena *arena,
    uint64_t **numbers, size_t *count, lk_err *err)
{
    lk_store_entry *entries = NULL;
    size_t          entry_count = 0;
    *count = 0;
    lk_rc rc =
        lk_store_list_names(store, lk_shard_key(shard, directory, arena), arena, &entries, &entry_count, err);
    *numbers = lk_arena_take(arena, (entry_count + 1) * sizeof **numbers);
    for (size_t i = 0; rc == LK_OK && i < entry_count; i++) {
        *count += lk_shard_position_parse(entries[i].name, suffix, &(*numbers)[*count]);
    }
    qsort(*numbers, *count, sizeof **numbers, by_number);
    return rc;
}

lk_rc lk_shard_versions(
    lk_store *store, lk_uuid shard, lk_arena *arena, uint64_t **versions, size_t *count, lk_err *err)
{
    return lk_shard_numbers(
        store, shard, LK_LITERAL("manifest"), LK_LITERAL(".binpb"), arena, versions, count, err);
}

lk_rc lk_shard_highest(lk_store *store, lk_uuid shard, lk_arena *arena, uint64_t *highest, lk_err *err)
{
    uint64_t *versions = NULL;
    size_t    count = 0;
    lk_rc     rc = lk_shard_versions(store, shard, arena, &versions, &count, err);
    *highest = rc == LK_OK && count > 0 ? versions[count - 1] : 0;
    return rc;
}

/* Moves *version on to the first that is not there. */
static lk_rc find_end(lk_store *store, lk_uuid shard, lk_arena *arena, uint64_t *version, lk_err *err)
{
    presence there = PRESENT;
    lk_rc    rc = LK_OK;
    while (rc == LK_OK && there != ABSENT) {
        rc = exists(store, shard, *version, arena, &there, err);
        *version += rc == LK_OK && there != ABSENT;
    }
    return rc;
}

/* One that was emptied between the two looks has newer ones behind it by now. */
static lk_rc follow_near(lk_store *store, lk_uuid shard, uint64_t start, lk_arena *arena,
    lk_shard_manifest *out, bool *found, lk_err *err)
{
    uint64_t version = start, end = 0;
    lk_rc    rc = find_end(store, shard, arena, &version, err);
    presence there = EMPTIED;
    while (rc == LK_OK && version > start && there == EMPTIED && version != end) {
        end = version;
        rc = read_version(store, shard, version - 1, arena, out, &there, err);
        if (rc == LK_OK && there == EMPTIED) {
            rc = find_end(store, shard, arena, &version, err);
        }
    }
    *found = rc == LK_OK && version > start && there == PRESENT;
    return rc == LK_OK && version > start && there == EMPTIED
               ? lk_fail(err, LK_E_CORRUPT_FILE, "%.*s is empty, and the newest",
                     LK_FMT(lk_shard_manifest_key(shard, version - 1, arena)))
               : rc;
}

/* The same, some versions at once: mostly the newest has come when it is known to be that. */
static lk_rc follow_far(lk_store *store, lk_uuid shard, uint64_t start, size_t ahead, lk_arena *arena,
    lk_shard_manifest *out, bool *found, lk_err *err)
{
    lk_arena        scratch = {0};
    lk_store_wanted wanted[AHEAD_MAX], last = {0};
    uint64_t        version = start;
    size_t          there = ahead;
    lk_rc           rc = LK_OK;
    while (rc == LK_OK && there == ahead) {
        ahead = version == start ? ahead : AHEAD_MAX;
        for (size_t i = 0; i < ahead; i++) {
            wanted[i] = (lk_store_wanted){.key = lk_shard_manifest_key(shard, version + i, &scratch)};
        }
        rc = lk_store_fetch(store, wanted, ahead, &scratch, err);
        for (there = 0; rc == LK_OK && there < ahead && wanted[there].found; there++) {
            last = wanted[there];
        }
        version += there;
    }
    bool any = rc == LK_OK && version > start, here = any && last.whole && last.bytes.size > 0;
    *found = here;
    if (here) {
        rc = decode(shard, version - 1, lk_arena_copy(arena, last.bytes), arena, out, err);
    } else if (any) { /* it is large, or was emptied */
        rc = follow_near(store, shard, version - 1, arena, out, found, err);
    }
    lk_arena_close(&scratch);
    return rc;
}

/* From `start`, which may be wrong, to the last version without a gap. ahead: far away, how many are asked for at first. */
static lk_rc follow(lk_store *store, lk_uuid shard, uint64_t start, size_t ahead, lk_arena *arena,
    lk_shard_manifest *out, bool *found, lk_err *err)
{
    return store->far ? follow_far(store, shard, start, ahead, arena, out, found, err)
                      : follow_near(store, shard, start, arena, out, found, err);
}

lk_rc lk_shard_check_end(lk_store *store, lk_uuid shard, uint64_t newest, lk_arena *arena, lk_err *err)
{
    presence there = ABSENT;
    uint64_t beyond = newest + 1;
    lk_rc    rc = LK_OK;
    while (rc == LK_OK && there == ABSENT && beyond < newest + LK_SHARD_LOOK_AHEAD) {
        rc = exists(store, shard, ++beyond, arena, &there, err);
    }
    if (rc != LK_OK || there == ABSENT) {
        return rc;
    }
    rc = exists(store, shard, newest + 1, arena, &there, err); /* it came before that one, so it was there */
    return rc == LK_OK && there == ABSENT
               ? lk_fail(err, LK_E_CORRUPT_FILE,
                     "%.*s (version %" PRIu64 ") is missing, and there is version %" PRIu64
                     ": rows may be hidden; an empty object in its place makes readers go on",
                     LK_FMT(lk_shard_manifest_key(shard, newest + 1, arena)), newest + 1, beyond)
               : rc;
}

/* Begins where the hint says. */
static lk_rc find_newest(
    lk_store *store, lk_uuid shard, lk_arena *arena, lk_shard_manifest *out, bool *found, lk_err *err)
{
    uint64_t start = 0;
    lk_rc    rc = lk_shard_hint(store, shard, &start, err);
    if (rc == LK_OK && start > 0) {
        rc = follow(store, shard, start, AHEAD_OF_HINT, arena, out, found, err);
    }
    if (rc != LK_OK || *found) {
        return rc;
    }
    rc = lk_shard_highest(
        store, shard, arena, &start, err); /* there was no hint, or it pointed past the end */
    return rc == LK_OK && start > 0 ? follow(store, shard, start, AHEAD_OF_KNOWN, arena, out, found, err)
                                    : rc;
}

lk_rc lk_shard_latest(lk_store *store, lk_uuid shard, uint64_t known, lk_arena *arena, lk_shard_manifest *out,
    bool *found, lk_err *err)
{
    lk_rc rc = LK_OK;
    *found = false;
    if (known > 0) {
        rc = follow(store, shard, known, AHEAD_OF_HINT, arena, out, found, err);
    }
    if (rc == LK_OK && !*found) {
        rc = find_newest(store, shard, arena, out, found, err);
    }
    return rc == LK_OK && *found && known == 0 && !store->far
               ? lk_shard_check_end(store, shard, out->version, arena, err)
               : rc;
}

lk_rc lk_shard_newer(lk_store *store, lk_uuid shard, uint64_t known, uint64_t told, lk_arena *arena,
    lk_shard_manifest *out, bool *found, lk_err *err)
{
    lk_rc rc = LK_OK;
    *found = false;
    if (told > known) {
        rc = follow(store, shard, told, AHEAD_OF_KNOWN, arena, out, found, err);
    }
    return rc == LK_OK && !*found ? follow(store, shard, known + 1, 1, arena, out, found, err) : rc;
}

/* -- writing ----------------------------------------------------------------------------------------------------- */

/* PUT_THERE: the put failed, and yet such bytes are there: of this put, or of another's that had the same to say. */
typedef enum put_outcome { PUT_WON, PUT_THERE, PUT_LOST } put_outcome;

/* Puts the manifest as its version, or publishes what was prepared of it (NULL: nothing). What became of a put that failed
 * after it was sent is looked up. */
static lk_rc put_manifest(lk_store *store, const lk_shard_manifest *manifest, lk_bytes bytes,
    lk_store_staged *staged, lk_arena *arena, put_outcome *outcome, lk_err *err)
{
    lk_bytes key = lk_shard_manifest_key(manifest->shard, manifest->version, arena), there = {0};
    bool     created = false, found = false;
    lk_rc    rc = staged == NULL ? lk_store_put_if_absent(store, key, bytes, &created, err)
                                 : lk_store_publish(staged, &created, err);
    *outcome = rc == LK_OK && created ? PUT_WON : PUT_LOST;
    if (rc != LK_OK && err->maybe_applied) {
        lk_err looking = {0};
        if (read_object(store, key, MANIFEST_SIZE_MAX, arena, &there, &found, &looking) == LK_OK) {
            bool told = found && there.size > 0; /* emptied: whose it was cannot be told */
            *outcome = told && lk_bytes_equal(there, bytes) ? PUT_THERE : PUT_LOST;
            err->maybe_applied = !told; /* absent: it may still arrive */
            rc = told ? LK_OK : rc;
        }
    }
    return rc;
}

/* Best effort: a reader with a stale hint probes on. So it is not written every time. */
static void put_hint(lk_shard_writer *writer)
{
    const lk_shard_manifest *manifest = &writer->manifest;
    lk_arena                 arena = {0};
    if (writer->hints == NULL && writer->hinted > 0 &&
        manifest->version < writer->hinted + LK_SHARD_HINT_LAG) {
        return;
    }
    lk_bytes text = lk_arena_format(&arena, "{\"version\":%" PRIu64 "}", manifest->version);
    lk_store_hint(writer->hints == NULL ? writer->store : writer->hints,
        lk_shard_key(manifest->shard, LK_LITERAL("manifest/version_hint.json"), &arena), text);
    writer->hinted = manifest->version;
    lk_arena_close(&arena);
}

/* Moves a manifest, encoded, into memory of the writer's own, so that what a try used can go. */
static lk_rc keep(lk_shard_writer *writer, lk_bytes bytes, lk_err *err)
{
    lk_arena          arena = {0};
    lk_shard_manifest copy;
    lk_rc             rc = lk_shard_manifest_decode(lk_arena_copy(&arena, bytes), &arena, &copy, err);
    if (rc != LK_OK) {
        lk_arena_close(&arena);
        return rc;
    }
    lk_arena_close(&writer->arena);
    writer->arena = arena;
    writer->manifest = copy;
    return LK_OK;
}

/* After a commit of ours: where generations were only added, what is known of the others stays where it is. */
static lk_rc move_on(lk_shard_writer *writer, const lk_shard_manifest *next, lk_bytes bytes, lk_err *err)
{
    lk_shard_manifest *known = &writer->manifest;
    size_t             before = known->generation_count;
    if (next->generation_count < before || (before > 0 && memcmp(next->generations, known->generations,
                                                              before * sizeof *known->generations) != 0)) {
        return keep(writer, bytes, err);
    }
    lk_shard_manifest_follow(known, &writer->arena, &writer->room, next, next->generations + before,
        next->generation_count - before);
    return LK_OK;
}

static lk_rc fenced(const lk_shard_manifest *latest, uint64_t epoch, lk_err *err)
{
    char id[LK_UUID_TEXT_SIZE + 1];
    lk_uuid_format(latest->shard, id);
    return lk_refuse(err, LK_E_SHARD_FENCED, "shard %s is at epoch %" PRIu64 ", this writer's is %" PRIu64,
        id, latest->writer_epoch, epoch);
}

/* One try: *outcome says whether it was decided. target: the epoch to take; 0 on the first try. */
static lk_rc try_claim(lk_store *store, lk_uuid shard, uint64_t *target, lk_shard_writer *out,
    lk_arena *arena, put_outcome *outcome, lk_err *err)
{
    lk_shard_manifest latest = {.shard = shard, .current_generation = 1};
    lk_buf            bytes = {0};
    bool              found = false;
    lk_rc             rc = lk_shard_latest(store, shard, 0, arena, &latest, &found, err);
    if (rc == LK_OK && found && store->far) { /* near, it was looked at already */
        rc = lk_shard_check_end(store, shard, latest.version, arena, err);
    }
    if (rc == LK_OK && latest.sealed) {
        rc = lk_refuse(err, LK_E_PRECONDITION, "the shard is sealed");
    } else if (rc == LK_OK && *target > 0 && latest.writer_epoch >= *target) {
        rc = fenced(&latest, *target, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    *target = *target > 0 ? *target : latest.writer_epoch + 1;
    latest.writer_epoch = *target;
    latest.version++;
    lk_shard_manifest_encode(&latest, &bytes);
    rc = put_manifest(store, &latest, lk_buf_view(&bytes), NULL, arena, outcome, err);
    if (rc == LK_OK && *outcome == PUT_WON) {
        *out = (lk_shard_writer){.store = store, .epoch = *target};
        rc = keep(out, lk_buf_view(&bytes), err);
        if (rc == LK_OK) {
            put_hint(out);
        }
    } else if (rc == LK_OK && *outcome == PUT_THERE) {
        *target =
            0; /* claims of the same epoch look alike: whose this one is cannot be told, so it is claimed again */
    }
    lk_buf_deinit(&bytes);
    return rc;
}

lk_rc lk_shard_claim(lk_store *store, lk_uuid shard, lk_shard_writer *out, lk_err *err)
{
    uint64_t target = 0;
    for (int i = 0; i < CLAIM_TRIES; i++) {
        lk_arena    arena = {0};
        put_outcome outcome = PUT_LOST;
        lk_rc       rc = try_claim(store, shard, &target, out, &arena, &outcome, err);
        lk_arena_close(&arena);
        if (rc != LK_OK || outcome == PUT_WON) {
            return rc;
        }
    }
    return lk_refuse(err, LK_E_CONFLICT, "the shard's manifest kept moving while it was claimed");
}

void lk_shard_unprepare(lk_shard_writer *writer)
{
    lk_store_discard(writer->staged);
    writer->staged = NULL;
    lk_buf_clear(&writer->prepared);
}

void lk_shard_writer_deinit(lk_shard_writer *writer)
{
    lk_shard_unprepare(writer);
    lk_buf_deinit(&writer->prepared);
    lk_buf_deinit(&writer->room);
    lk_arena_close(&writer->arena);
    *writer = (lk_shard_writer){0};
}

/* The manifest after the newest known one, in the arena. */
static lk_rc make_next(const lk_shard_writer *writer, lk_shard_change change, void *context, lk_arena *arena,
    lk_shard_manifest *next, lk_err *err)
{
    *next = writer->manifest;
    next->version++;
    next->writer_epoch = writer->epoch;
    return change(context, arena, next, err);
}

void lk_shard_prepare(lk_shard_writer *writer, lk_store *late, lk_shard_change change, void *context)
{
    lk_arena          arena = {0};
    lk_shard_manifest next;
    lk_err            ignored = {0};
    lk_shard_unprepare(writer);
    if (make_next(writer, change, context, &arena, &next, &ignored) == LK_OK) {
        lk_shard_manifest_encode(&next, &writer->prepared);
        if (lk_store_stage(late, lk_shard_manifest_key(next.shard, next.version, &arena),
                lk_buf_view(&writer->prepared), &writer->staged, &ignored) != LK_OK) {
            writer->staged = NULL;
        }
    }
    lk_arena_close(&arena);
}

static lk_rc try_commit(lk_shard_writer *writer, lk_shard_change change, void *context, lk_arena *arena,
    put_outcome *outcome, lk_err *err)
{
    lk_shard_manifest next;
    lk_rc             rc = make_next(writer, change, context, arena, &next, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (writer->prepared.size == 0) {
        lk_shard_manifest_encode(&next, &writer->prepared);
    }
    lk_bytes         bytes = lk_buf_view(&writer->prepared);
    lk_store_staged *staged = writer->staged;
    writer->staged = NULL;
    rc = put_manifest(writer->store, &next, bytes, staged, arena, outcome, err);
    if (rc == LK_OK && *outcome != PUT_LOST) { /* only this writer has this epoch */
        rc = move_on(writer, &next, bytes, err);
    }
    if (rc == LK_OK && *outcome != PUT_LOST) {
        put_hint(writer);
    }
    return rc;
}

/* After a lost put: somebody's manifest is there. */
static lk_rc look_again(lk_shard_writer *writer, lk_arena *arena, lk_err *err)
{
    lk_shard_manifest latest;
    bool              found = false;
    lk_rc             rc = lk_shard_latest(
                    writer->store, writer->manifest.shard, writer->manifest.version, arena, &latest, &found, err);
    if (rc == LK_OK && !found) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "the shard's manifests are gone");
    }
    if (rc == LK_OK && latest.writer_epoch > writer->epoch) {
        rc = fenced(&latest, writer->epoch, err);
    }
    if (rc == LK_OK) {
        lk_buf bytes = {0};
        lk_shard_manifest_encode(&latest, &bytes);
        rc = keep(writer, lk_buf_view(&bytes), err);
        lk_buf_deinit(&bytes);
    }
    return rc;
}

lk_rc lk_shard_commit(lk_shard_writer *writer, lk_shard_change change, void *context, lk_err *err)
{
    for (int i = 0; i < COMMIT_TRIES; i++) {
        lk_arena    arena = {0};
        put_outcome outcome = PUT_LOST;
        lk_rc       rc = try_commit(writer, change, context, &arena, &outcome, err);
        if (rc == LK_OK && outcome == PUT_LOST) {
            rc = look_again(writer, &arena, err);
        }
        lk_arena_close(&arena);
        lk_shard_unprepare(writer); /* it was of the manifest that was the newest */
        if (rc != LK_OK || outcome != PUT_LOST) {
            return rc;
        }
    }
    return lk_refuse(err, LK_E_CONFLICT, "the shard's manifest kept moving");
}
