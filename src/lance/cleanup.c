/*
 * cleanup.c - old versions and what only they need.
 *
 *   look      every version is read: what stays refers to `needed`, what goes to `seen`
 *   hide      each manifest that goes gets a temporary's name and loses its own: from here on nobody opens it, and
 *             what it refers to is still known
 *   look again  at tags and newer versions, which may have come meanwhile
 *   remove    files that are not needed, if a version was seen to refer to them or they are old; the hidden
 *             manifests last
 *
 * Stopped between any two removals, every version that can be opened is whole, and the next cleanup finds the hidden
 * manifests and goes on.
 */
#include "base/limits.h"
#include "lance/alter.h"
#include "lance/name_set.h"
#include "lance/references.h"
#include "lance/refs.h"
#include "lance/versions.h"

#include <inttypes.h>

#define HIDDEN_PREFIX "_versions/.tmp-removed-"
#define MARKER_PREFIX "_versions/.tmp-cleanup-"

typedef struct old_version {
    lk_version version;
    bool       goes;   /* is to be hidden, or hidden by now */
    bool       hidden; /* has lost its name */
} old_version;

typedef struct cleanup {
    const lk_lance_env       *env;
    const lk_cleanup_options *options;
    lk_cleanup_report        *report;
    lk_arena                  arena;
    uint64_t                  now_ms, newest;
    old_version              *versions; /* ascending */
    size_t                    version_count;
    lk_name_set               needed, seen; /* keys that stay; keys that went out of use for certain */
} cleanup;

static lk_bytes hidden_key(uint64_t version, lk_arena *arena)
{
    return lk_arena_format(arena, HIDDEN_PREFIX "%" PRIu64 ".manifest", version);
}

/* -- which versions stay --------------------------------------------------------------------------------- */

/* Adds what the manifest of this name refers to. */
static lk_rc read_references(cleanup *c, lk_bytes key, lk_name_set *to, lk_err *err)
{
    lk_manifest *manifest = NULL;
    lk_rc        rc = lk_manifest_read(c->env->store, key, &manifest, err);
    if (rc == LK_OK) {
        rc = lk_references_add(c->env->store, manifest, to, err);
    }
    lk_manifest_close(manifest);
    return rc;
}

static lk_rc check_newest(const lk_manifest *manifest, lk_err *err)
{
    if (manifest->branch.size > 0) {
        return lk_refuse(err, LK_E_PRECONDITION,
            "this is the branch %.*s; what keeps its versions stands in the main table",
            LK_FMT(manifest->branch));
    }
    return lk_manifest_check_writable(manifest, err);
}

static lk_rc look_at_version(cleanup *c, size_t index, const lk_name_set *named, lk_err *err)
{
    lk_arena     arena = {0};
    lk_manifest *manifest = NULL;
    old_version *v = &c->versions[index];
    lk_bytes     key = lk_manifest_key(v->version.number, v->version.naming, &arena);
    uint64_t     retain = c->options->retain == 0 ? 1 : c->options->retain;
    bool         is_old = c->version_count - index > retain;
    lk_rc        rc = lk_manifest_read(c->env->store, key, &manifest, err);
    if (rc == LK_OK && index + 1 == c->version_count) {
        rc = check_newest(manifest, err);
    }
    if (rc == LK_OK) {
        uint64_t age_ms = c->now_ms > manifest->timestamp_ms ? c->now_ms - manifest->timestamp_ms : 0;
        bool     is_named = lk_name_set_has(named, lk_arena_format(&arena, "%" PRIu64, v->version.number));
        is_old = is_old && age_ms >= c->options->older_than_ms;
        c->report->versions_named += is_old && is_named;
        v->goes = is_old && !is_named;
        rc = lk_references_add(c->env->store, manifest, v->goes ? &c->seen : &c->needed, err);
    }
    lk_manifest_close(manifest);
    lk_arena_close(&arena);
    return rc;
}

/* The versions of this table that tags and branches name, as decimal numbers. */
static lk_rc read_names(cleanup *c, lk_name_set *named, lk_err *err)
{
    lk_arena arena = {0};
    lk_ref  *refs = NULL;
    size_t   count = 0;
    lk_rc    rc = lk_refs_list(c->env->store, &arena, &refs, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        if (refs[i].branch.size == 0 || lk_bytes_equal(refs[i].branch, LK_LITERAL("main"))) {
            lk_name_set_add(named, lk_arena_format(&arena, "%" PRIu64, refs[i].version));
        }
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc look(cleanup *c, lk_err *err)
{
    lk_version *list = NULL;
    lk_name_set named = {0};
    lk_rc       rc = lk_versions_list(c->env->store, &c->arena, &list, &c->version_count, err);
    if (rc == LK_OK && c->version_count == 0) {
        rc = lk_fail(err, LK_E_NOT_FOUND, "no version of %.*s", LK_FMT(c->env->store->uri));
    }
    if (rc == LK_OK) {
        rc = read_names(c, &named, err);
    }
    c->versions = lk_arena_take(&c->arena, (c->version_count + 1) * sizeof *c->versions);
    for (size_t i = 0; rc == LK_OK && i < c->version_count; i++) {
        c->versions[i].version = list[i];
        c->newest = list[i].number;
        rc = look_at_version(c, i, &named, err);
    }
    c->report->versions = c->version_count;
    lk_name_set_deinit(&named);
    return rc;
}

/* Other manifests in _versions/: hidden ones of an earlier cleanup, and detached versions, which stay. */
static lk_rc look_at_others(cleanup *c, lk_err *err)
{
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    lk_bytes        hidden = LK_LITERAL(HIDDEN_PREFIX), suffix = LK_LITERAL(".manifest");
    lk_rc rc = lk_store_list_names(c->env->store, LK_LITERAL("_versions"), &c->arena, &entries, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        lk_bytes name = entries[i].name;
        lk_bytes key = lk_arena_format(&c->arena, "_versions/%.*s", LK_FMT(name));
        bool     is_manifest = name.size > suffix.size &&
                           memcmp(name.data + name.size - suffix.size, suffix.data, suffix.size) == 0;
        if (lk_bytes_starts(key, hidden)) {
            rc = read_references(c, key, &c->seen, err);
        } else if (is_manifest && name.data[0] == 'd') {
            rc = read_references(c, key, &c->needed, err);
        }
    }
    return rc;
}

/* -- hiding -------------------------------------------------------------------------------------------------- */

/* Gives the object at `from` the name `to`, durably, then takes the old name away. */
static lk_rc move(cleanup *c, lk_bytes from, lk_bytes to, lk_err *err)
{
    lk_arena arena = {0};
    lk_bytes bytes = {0};
    bool     created = false;
    lk_rc    rc = lk_store_load(c->env->store, from, LK_MANIFEST_BYTES_MAX, &arena, &bytes, err);
    if (rc == LK_OK) {
        rc = lk_store_put_if_absent(c->env->store, to, bytes, &created, err);
    }
    if (rc == LK_OK) {
        rc = lk_store_remove(c->env->store, from, err);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc hide(cleanup *c, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < c->version_count; i++) {
        old_version *v = &c->versions[i];
        if (v->goes) {
            rc = move(c, lk_manifest_key(v->version.number, v->version.naming, &c->arena),
                hidden_key(v->version.number, &c->arena), err);
            v->hidden = rc == LK_OK;
            c->report->versions_removed += rc == LK_OK;
        }
    }
    return rc;
}

/* A removed name may come back after a power loss until its directory is synced, as it is by a new name. */
static lk_rc make_durable(cleanup *c, lk_err *err)
{
    bool     created = false;
    lk_bytes key = lk_arena_format(&c->arena, MARKER_PREFIX "%016" PRIx64, lk_random_u64(c->env->random));
    if (c->report->versions_removed == 0) {
        return LK_OK;
    }
    lk_rc rc = lk_store_put_if_absent(c->env->store, key, (lk_bytes){0}, &created, err);
    return rc == LK_OK ? lk_store_remove(c->env->store, key, err) : rc;
}

/* A version that got a name while it was hidden is shown again. */
static lk_rc show_named(cleanup *c, lk_err *err)
{
    lk_name_set named = {0};
    lk_rc       rc = read_names(c, &named, err);
    for (size_t i = 0; rc == LK_OK && i < c->version_count; i++) {
        old_version *v = &c->versions[i];
        if (v->hidden && lk_name_set_has(&named, lk_arena_format(&c->arena, "%" PRIu64, v->version.number))) {
            lk_bytes key = lk_manifest_key(v->version.number, v->version.naming, &c->arena);
            rc = move(c, hidden_key(v->version.number, &c->arena), key, err);
            v->hidden = rc != LK_OK;
            c->report->versions_removed -= rc == LK_OK;
            c->report->versions_named += rc == LK_OK;
            rc = rc == LK_OK ? read_references(c, key, &c->needed, err) : rc;
        }
    }
    lk_name_set_deinit(&named);
    return rc;
}

/* Versions that were committed since need their files too. */
static lk_rc look_at_newer(cleanup *c, lk_err *err)
{
    lk_version *list = NULL;
    size_t      count = 0;
    lk_rc       rc = lk_versions_list(c->env->store, &c->arena, &list, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        if (list[i].number > c->newest) {
            rc = read_references(
                c, lk_manifest_key(list[i].number, list[i].naming, &c->arena), &c->needed, err);
        }
    }
    return rc;
}

/* -- removing ------------------------------------------------------------------------------------------------- */

static bool is_old(const cleanup *c, int64_t modified_ms)
{
    return (int64_t)c->now_ms - modified_ms >= LK_CLEANUP_UNVERIFIED_MS;
}

/* A directory is as old as the newest object in it: blobs beside a data file that is still being written. */
static lk_rc directory_is_old(const cleanup *c, lk_bytes key, bool *old, lk_err *err)
{
    lk_arena        arena = {0};
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    lk_rc           rc = lk_store_list(c->env->store, key, &arena, &entries, &count, err);
    for (size_t i = 0; rc == LK_OK && *old && i < count; i++) {
        *old = entries[i].is_directory || is_old(c, entries[i].modified_ms);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc may_go(const cleanup *c, lk_bytes key, const lk_store_entry *entry, bool *goes, lk_err *err)
{
    bool known = c->options->delete_unverified || lk_name_set_has(&c->seen, key);
    *goes = !lk_name_set_has(&c->needed, key) && (known || is_old(c, entry->modified_ms));
    return *goes && !known && entry->is_directory ? directory_is_old(c, key, goes, err) : LK_OK;
}

/* Objects are only noted, to go together. */
static lk_rc remove_entry(cleanup *c, lk_bytes key, const lk_store_entry *entry, lk_buf *keys, lk_err *err)
{
    lk_rc rc = LK_OK;
    if (!entry->is_directory) {
        lk_buf_append(keys, &key, sizeof key);
    } else if (!c->options->dry_run) {
        rc = lk_store_remove_tree(c->env->store, key, err);
    }
    if (rc == LK_OK) {
        c->report->files_removed++;
        c->report->bytes_removed += entry->is_directory ? 0 : entry->size;
    }
    return rc;
}

static lk_rc remove_noted(cleanup *c, const lk_buf *keys, lk_err *err)
{
    return lk_store_remove_many(
        c->env->store, (const lk_bytes *)(void *)keys->data, keys->size / sizeof(lk_bytes), err);
}

static lk_rc sweep(cleanup *c, const char *directory, lk_err *err)
{
    lk_arena        arena = {0};
    lk_store_entry *entries = NULL;
    lk_buf          keys = {0}; /* of lk_bytes */
    size_t          count = 0;
    lk_rc           rc = lk_store_list(c->env->store, lk_bytes_of(directory), &arena, &entries, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        lk_bytes key = lk_arena_format(&arena, "%s/%.*s", directory, LK_FMT(entries[i].name));
        bool     goes = false;
        rc = may_go(c, key, &entries[i], &goes, err);
        if (rc == LK_OK && goes) {
            rc = remove_entry(c, key, &entries[i], &keys, err);
        }
    }
    if (rc == LK_OK && !c->options->dry_run) {
        rc = remove_noted(c, &keys, err);
    }
    lk_buf_deinit(&keys);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc sweep_all(cleanup *c, lk_err *err)
{
    static const char *const directories[] = {"data", "_deletions", "_indices", "_transactions"};
    lk_rc                    rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < sizeof directories / sizeof directories[0]; i++) {
        rc = sweep(c, directories[i], err);
    }
    return rc;
}

/* Hidden manifests, now that what they refer to is gone, and temporaries that nobody is writing any more. */
static lk_rc sweep_versions(cleanup *c, lk_err *err)
{
    lk_arena        arena = {0};
    lk_store_entry *entries = NULL;
    lk_buf          keys = {0}; /* of lk_bytes */
    size_t          count = 0;
    lk_rc           rc = lk_store_list(c->env->store, LK_LITERAL("_versions"), &arena, &entries, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        lk_bytes key = lk_arena_format(&arena, "_versions/%.*s", LK_FMT(entries[i].name));
        bool     hidden = lk_bytes_starts(key, LK_LITERAL(HIDDEN_PREFIX)) ||
                      lk_bytes_starts(key, LK_LITERAL(MARKER_PREFIX));
        bool goes = hidden;
        if (!hidden && lk_bytes_starts(entries[i].name, LK_LITERAL(".tmp"))) {
            rc = may_go(c, key, &entries[i], &goes, err);
        }
        if (rc == LK_OK && goes) {
            lk_buf_append(&keys, &key, sizeof key);
        }
    }
    if (rc == LK_OK) {
        rc = remove_noted(c, &keys, err);
    }
    lk_buf_deinit(&keys);
    lk_arena_close(&arena);
    return rc;
}

/* Objects that a writer began and never finished, which no listing shows. */
static lk_rc sweep_unfinished(cleanup *c, lk_err *err)
{
    int64_t before_ms = (int64_t)c->now_ms - (c->options->delete_unverified ? 0 : LK_CLEANUP_UNVERIFIED_MS);
    size_t  count = 0;
    lk_rc   rc = lk_store_remove_unfinished(c->env->store, before_ms, &count, err);
    c->report->files_removed += count;
    return rc;
}

static void count_only(cleanup *c)
{
    for (size_t i = 0; i < c->version_count; i++) {
        c->report->versions_removed += c->versions[i].goes;
    }
}

lk_rc lk_dataset_cleanup(
    const lk_lance_env *env, const lk_cleanup_options *options, lk_cleanup_report *report, lk_err *err)
{
    cleanup c = {.env = env, .options = options, .report = report, .now_ms = lk_clock_wall_ms(env->clock)};
    *report = (lk_cleanup_report){0};
    lk_rc rc = look(&c, err);
    if (rc == LK_OK) {
        rc = look_at_others(&c, err);
    }
    if (rc == LK_OK && options->dry_run) {
        count_only(&c);
        rc = sweep_all(&c, err);
    } else if (rc == LK_OK && (rc = hide(&c, err)) == LK_OK && (rc = show_named(&c, err)) == LK_OK &&
               (rc = make_durable(&c, err)) == LK_OK && (rc = look_at_newer(&c, err)) == LK_OK &&
               (rc = sweep_all(&c, err)) == LK_OK && (rc = sweep_versions(&c, err)) == LK_OK) {
        rc = sweep_unfinished(&c, err);
    }
    if (rc != LK_OK) {
        lk_context(err, "clean up %.*s", LK_FMT(env->store->uri));
    }
    lk_name_set_deinit(&c.needed);
    lk_name_set_deinit(&c.seen);
    lk_arena_close(&c.arena);
    return rc;
}
