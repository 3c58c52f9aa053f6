/* collect.c - see collect.h. */
#include "rollout/collect.h"

#include "base/hash.h"
#include "rollout/wal.h"

#include <stdlib.h>

/* -- directories of generations --------------------------------------------------------------------------------- */

/* <8 hex>_gen_<number>; 0: it is no generation's. */
static uint64_t generation_number(lk_bytes name)
{
    static const char middle[] = "_gen_";
    uint64_t          number = 0;
    uint32_t          salt;
    bool named = name.size > 13 && name.size <= 13 + 19 && memcmp(name.data + 8, middle, 5) == 0 &&
                 lk_unhex((lk_bytes){name.data, 8}, &salt, sizeof salt);
    for (size_t i = 13; named && i < name.size; i++) {
        named = name.data[i] >= '0' && name.data[i] <= '9';
        number = number * 10 + (uint64_t)(name.data[i] - '0');
    }
    return named ? number : 0;
}

static bool is_listed(const lk_shard_manifest *manifest, lk_bytes path)
{
    for (size_t i = 0; i < manifest->generation_count; i++) {
        if (lk_bytes_equal(manifest->generations[i].path, path)) {
            return true;
        }
    }
    return false;
}

static lk_rc list_directories(
    lk_store *store, lk_uuid shard, lk_arena *arena, lk_store_entry **entries, size_t *count, lk_err *err)
{
    return lk_store_list_names(store, lk_shard_key(shard, (lk_bytes){0}, arena), arena, entries, count, err);
}

/* -- manifests ---------------------------------------------------------------------------------------------------- */

static lk_rc has_bytes(lk_store *store, lk_uuid shard, uint64_t version, bool *has, lk_err *err)
{
    lk_arena arena = {0};
    uint64_t size = 0;
    bool     found = false; /* other software may have removed it */
    lk_rc    rc = lk_store_look(store, lk_shard_manifest_key(shard, version, &arena), &found, &size, err);
    lk_arena_close(&arena);
    *has = found && size > 0;
    return rc;
}

/* The first version before `end` that has bytes, as they are emptied in ascending order; end: none. */
static lk_rc find_whole(lk_store *store, lk_uuid shard, uint64_t end, uint64_t *first, lk_err *err)
{
    uint64_t low = 1, high = end;
    lk_rc    rc = LK_OK;
    while (rc == LK_OK && low < high) {
        uint64_t middle = low + (high - low) / 2;
        bool     has = false;
        rc = has_bytes(store, shard, middle, &has, err);
        low = has ? low : middle + 1;
        high = has ? middle : high;
    }
    *first = low;
    return rc;
}

/* `end` has bytes, so all before it are superseded. */
static lk_rc empty_before(
    lk_store *store, lk_uuid shard, uint64_t end, bool dry_run, uint64_t *count, lk_err *err)
{
    uint64_t version = end;
    lk_rc    rc = find_whole(store, shard, end, &version, err);
    for (int i = 0; rc == LK_OK && version < end && i < LK_ROLLOUT_EMPTIED_AT_ONCE; i++, version++) {
        lk_arena arena = {0};
        bool     has = false;
        rc = has_bytes(store, shard, version, &has, err); /* nothing is made where a store was deleted */
        if (rc == LK_OK && has && !dry_run) {
            lk_bytes key = lk_shard_manifest_key(shard, version, &arena);
            rc = lk_store_replace_soon(store, key, (lk_bytes){0}, err);
        }
        *count += rc == LK_OK && has;
        lk_arena_close(&arena);
    }
    return rc;
}

/* -- both ---------------------------------------------------------------------------------------------------------- */

lk_rc lk_rollout_collect_since(const lk_lance_env *env, lk_uuid shard, uint64_t version, bool dry_run,
    lk_rollout_collect_report *report, lk_err *err)
{
    lk_arena          arena = {0};
    lk_store_entry   *entries = NULL;
    lk_shard_manifest latest = {0}, past = {0};
    size_t            count = 0;
    bool              found = false, found_past = false;
    /* The directories first: one that is made after this look is not in the list. */
    lk_rc rc = version == 0 ? LK_OK : list_directories(env->store, shard, &arena, &entries, &count, err);
    if (rc == LK_OK && version > 0) {
        rc = lk_shard_at(env->store, shard, version, &arena, &past, &found_past, err);
    }
    if (rc == LK_OK && found_past) {
        rc = lk_shard_latest(env->store, shard, version, &arena, &latest, &found, err);
    }
    for (size_t i = 0; rc == LK_OK && found && i < count; i++) {
        lk_bytes name = entries[i].name;
        uint64_t number = generation_number(name);
        if (number == 0 || number >= past.current_generation || is_listed(&past, name) ||
            is_listed(&latest, name)) {
            continue;
        }
        report->directories++;
        rc = dry_run ? LK_OK : lk_store_remove_tree(env->store, lk_shard_key(shard, name, &arena), err);
    }
    if (rc == LK_OK && found_past) {
        rc = empty_before(env->store, shard, version, dry_run, &report->manifests, err);
    }
    lk_arena_close(&arena);
    return rc;
}

/* The newest of the manifests that were made before a moment; 0: there is none. */
static lk_rc version_before(lk_store *store, lk_uuid shard, int64_t before_ms, uint64_t *version, lk_err *err)
{
    lk_arena        arena = {0};
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    *version = 0;
    lk_rc rc = lk_store_list(
        store, lk_shard_key(shard, LK_LITERAL("manifest"), &arena), &arena, &entries, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        uint64_t number = 0;
        bool     named = lk_shard_position_parse(entries[i].name, LK_LITERAL(".binpb"), &number);
        if (named && entries[i].size > 0 && entries[i].modified_ms <= before_ms && number > *version) {
            *version = number;
        }
    }
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_rollout_collect(const lk_lance_env *env, lk_uuid shard, uint64_t grace_ms, bool dry_run,
    lk_rollout_collect_report *report, lk_err *err)
{
    uint64_t now_ms = lk_clock_wall_ms(env->clock), version = 0;
    int64_t  before_ms = now_ms > grace_ms ? (int64_t)(now_ms - grace_ms) : 0;
    lk_rc    rc = version_before(env->store, shard, before_ms, &version, err);
    return rc == LK_OK ? lk_rollout_collect_since(env, shard, version, dry_run, report, err) : rc;
}

lk_rc lk_rollout_count_orphans(
    const lk_lance_env *env, const lk_shard_manifest *latest, uint64_t *count, lk_err *err)
{
    lk_arena        arena = {0};
    lk_store_entry *entries = NULL;
    size_t          entry_count = 0;
    *count = 0;
    lk_rc rc = list_directories(env->store, latest->shard, &arena, &entries, &entry_count, err);
    for (size_t i = 0; rc == LK_OK && i < entry_count; i++) {
        uint64_t number = generation_number(entries[i].name);
        *count += number > 0 && number < latest->current_generation && !is_listed(latest, entries[i].name);
    }
    lk_arena_close(&arena);
    return rc;
}

/* -- log entries -------------------------------------------------------------------------------------------------- */

static lk_rc epoch_of(lk_store *store, lk_uuid shard, uint64_t position, uint64_t *epoch, lk_err *err)
{
    lk_arena     arena = {0};
    lk_wal_entry entry = {0};
    bool         found = false;
    lk_rc        rc = lk_wal_read(store, shard, position, &arena, &entry, &found, err);
    *epoch = found ? entry.epoch : 0;
    lk_batches_close(entry.batches);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc remove_entry(lk_store *store, lk_uuid shard, uint64_t position, lk_err *err)
{
    char     digits[LK_SHARD_POSITION_DIGITS + 1];
    lk_arena arena = {0};
    lk_shard_position_format(position, digits);
    lk_bytes key = lk_shard_key(shard, lk_arena_format(&arena, "wal/%s.arrow", digits), &arena);
    lk_rc    rc = lk_store_remove(store, key, err);
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_rollout_collect_log(
    const lk_lance_env *env, lk_uuid shard, bool dry_run, lk_rollout_collect_report *report, lk_err *err)
{
    lk_arena          arena = {0};
    uint64_t         *positions = NULL, last_epoch = 0;
    size_t            count = 0;
    lk_shard_manifest latest = {0};
    bool              found = false;
    lk_rc             rc = lk_shard_numbers(
                    env->store, shard, LK_LITERAL("wal"), LK_LITERAL(".arrow"), &arena, &positions, &count, err);
    if (rc == LK_OK) {
        rc = lk_shard_latest(env->store, shard, 0, &arena, &latest, &found, err);
    }
    for (size_t i = 0; rc == LK_OK && found && i + LK_ROLLOUT_LOG_KEPT < count; i++) {
        uint64_t epoch = 0;
        if (positions[i] > latest.replay_after) {
            break;
        }
        rc = epoch_of(env->store, shard, positions[i], &epoch, err);
        bool goes = rc == LK_OK && epoch == last_epoch; /* epochs begin at 1 */
        last_epoch = epoch;
        report->log_entries += goes;
        if (goes && !dry_run) {
            rc = remove_entry(env->store, shard, positions[i], err);
        }
    }
    lk_arena_close(&arena);
    return rc;
}
