/* data_dir.c - see data_dir.h. */
#include "rollout/data_dir.h"

#include "base/clock.h"
#include "io/behind.h"
#include "io/gate.h"
#include "io/local.h"
#include "io/prefix.h"
#include "lance/versions.h"
#include "rollout/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SUFFIX ".rollout.lance"

enum {
    NAME_BYTES_MAX = 128,
    SYNC_THREADS = 8,
    SYNC_QUEUE = 64,
    FAR_THREADS = 32,
    FAR_QUEUE = 256,
    REMOVE_TRIES = 10,
    REMOVE_PAUSE_MS = 100
};

struct lk_data_dir {
    lk_store       *root;
    lk_pool        *syncers; /* NULL: local and not durable */
    lk_buf          location, path;
    bool            local, durable, borrowed;
    lk_store_counts counts; /* of all places */
};

/* -- names -------------------------------------------------------------------------------------------------------- */

static bool is_name_character(char c, bool first)
{
    bool word = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
    return word || (!first && (c == '.' || c == '-'));
}

lk_rc lk_rollout_name_check(lk_bytes name, lk_err *err)
{
    bool legal = name.size > 0 && name.size <= NAME_BYTES_MAX;
    for (size_t i = 0; legal && i < name.size; i++) {
        legal = is_name_character(name.data[i], i == 0);
    }
    if (!legal) {
        return lk_refuse(err, LK_E_INVALID_REQUEST,
            "a store's name is 1 to %d letters, digits, '_', '.' and '-', and begins with none of the last "
            "two",
            NAME_BYTES_MAX);
    }
    if (lk_bytes_equal(name, LK_LITERAL("_registry")) || lk_bytes_equal(name, LK_LITERAL("_stats"))) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "the name %.*s is reserved", LK_FMT(name));
    }
    return LK_OK;
}

static lk_bytes directory_of(lk_bytes name, lk_arena *arena)
{
    return lk_arena_format(arena, "%.*s" SUFFIX, LK_FMT(name));
}

lk_bytes lk_data_dir_uri(const lk_data_dir *dir, lk_bytes name, lk_arena *arena)
{
    return lk_arena_format(arena, "%.*s/%.*s" SUFFIX, LK_FMT(lk_buf_view(&dir->location)), LK_FMT(name));
}

/* -- the directory ------------------------------------------------------------------------------------------------- */

/* The scheme that a location begins with; "" for a path. "s3:x" is a slip, not a path. */
static lk_bytes scheme_of(lk_bytes location)
{
    static const char *const known[] = {"s3:", "gs:", "az:", "file:"};
    for (size_t i = 0; i + 3 <= location.size; i++) {
        if (memcmp(location.data + i, "://", 3) == 0 && memchr(location.data, '/', i) == NULL) {
            return (lk_bytes){location.data, i + 3};
        }
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (lk_bytes_starts(location, lk_bytes_of(known[i]))) {
            return lk_bytes_of(known[i]);
        }
    }
    return (lk_bytes){0};
}

static lk_rc open_local(lk_data_dir *dir, lk_bytes path, lk_err *err)
{
    lk_rc rc = lk_local_store_open(&dir->root, path, dir->durable, err);
    dir->local = true;
    lk_buf_append_bytes(&dir->path, path);
    while (dir->path.size > 1 && dir->path.data[dir->path.size - 1] == '/') {
        dir->path.size--;
    }
    lk_buf_append(&dir->path, "", 1); /* for statvfs */
    dir->path.size--;
    if (rc == LK_OK && dir->durable) {
        rc = lk_pool_open(&dir->syncers, "rollout-sync", SYNC_THREADS, SYNC_QUEUE, err);
    }
    return rc;
}

static lk_rc open_far(lk_data_dir *dir, lk_bytes location, const lk_s3_options *s3, lk_err *err)
{
    lk_rc rc = lk_s3_store_open(&dir->root, location, s3, err);
    return rc == LK_OK ? lk_pool_open(&dir->syncers, "rollout-put", FAR_THREADS, FAR_QUEUE, err) : rc;
}

static lk_rc open_root(lk_data_dir *dir, lk_bytes location, const lk_s3_options *s3, lk_err *err)
{
    lk_bytes scheme = scheme_of(location), file = LK_LITERAL("file://");
    if (location.size == 0) {
        return lk_refuse(err, LK_E_INVALID_CONFIG, "the data directory is empty");
    }
    if (scheme.size == 0) {
        return open_local(dir, location, err);
    }
    if (lk_bytes_equal(scheme, file) && location.size > file.size && location.data[file.size] == '/') {
        return open_local(dir, (lk_bytes){location.data + file.size, location.size - file.size}, err);
    }
    if (lk_bytes_equal(scheme, LK_LITERAL("s3://"))) {
        return s3 == NULL
                   ? lk_refuse(err, LK_E_INVALID_CONFIG, "s3:// needs keys and a region; none are given")
                   : open_far(dir, location, s3, err);
    }
    if (lk_bytes_equal(scheme, LK_LITERAL("gs://")) || lk_bytes_equal(scheme, LK_LITERAL("az://"))) {
        return lk_refuse(err, LK_E_INVALID_CONFIG,
            "%.*s is not supported: its conditional writes were never tried against a server; use s3://",
            LK_FMT(scheme));
    }
    return lk_refuse(err, LK_E_INVALID_CONFIG,
        "a data directory is a path, file:///PATH or s3://BUCKET/PREFIX, not %.*s", LK_FMT(scheme));
}

static lk_data_dir *new_dir(lk_bytes location)
{
    lk_data_dir *dir = calloc(1, sizeof *dir);
    LK_ASSERT(dir != NULL);
    lk_buf_append_bytes(&dir->location, location);
    while (dir->location.size > 1 && dir->location.data[dir->location.size - 1] == '/') {
        dir->location.size--;
    }
    return dir;
}

lk_data_dir *lk_data_dir_over(lk_store *root, lk_bytes location)
{
    lk_data_dir *dir = new_dir(location);
    dir->root = root;
    dir->borrowed = true;
    return dir;
}

lk_rc lk_data_dir_open(
    lk_data_dir **out, lk_bytes location, const lk_s3_options *s3, bool durable, lk_err *err)
{
    lk_data_dir *dir = new_dir(location);
    dir->durable = durable;
    lk_rc rc = open_root(dir, location, s3, err);
    if (rc == LK_OK) {
        *out = dir;
    } else {
        lk_data_dir_close(dir);
    }
    return rc;
}

void lk_data_dir_close(lk_data_dir *dir)
{
    if (dir != NULL) {
        if (!dir->borrowed) {
            lk_store_close(dir->root);
        }
        lk_pool_close(dir->syncers);
        lk_buf_deinit(&dir->location);
        lk_buf_deinit(&dir->path);
        free(dir);
    }
}

lk_rc lk_data_dir_room(const lk_data_dir *dir, uint64_t bytes, lk_err *err)
{
    struct statvfs disk;
    if (!dir->local || bytes == 0 || statvfs(dir->path.data, &disk) != 0) {
        return LK_OK; /* whoever writes says what is wrong with it */
    }
    uint64_t free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
    return free_bytes >= bytes ? LK_OK
                               : lk_refuse(err, LK_E_STORE_FULL,
                                     "the disk has %" PRIu64 " MiB free and adds stop below %" PRIu64
                                     "; free some, or lower the mark (--disk-low-bytes)",
                                     free_bytes >> 20, bytes >> 20);
}

bool lk_data_dir_is_local(const lk_data_dir *dir)
{
    return dir->local;
}

const char *lk_data_dir_path(const lk_data_dir *dir)
{
    return dir->local ? dir->path.data : NULL;
}

static int compare_names(const void *a, const void *b)
{
    return lk_bytes_compare(*(const lk_bytes *)a, *(const lk_bytes *)b);
}

lk_rc lk_data_dir_list(lk_data_dir *dir, lk_arena *arena, lk_bytes **names, size_t *count, lk_err *err)
{
    static const size_t suffix = sizeof SUFFIX - 1;
    lk_store_entry     *entries = NULL;
    size_t              entry_count = 0;
    *count = 0;
    lk_rc rc = lk_store_list_names(dir->root, (lk_bytes){0}, arena, &entries, &entry_count, err);
    *names = lk_arena_take(arena, (entry_count + 1) * sizeof **names);
    for (size_t i = 0; rc == LK_OK && i < entry_count; i++) {
        lk_bytes name = entries[i].name;
        bool     ends = name.size > suffix && memcmp(name.data + name.size - suffix, SUFFIX, suffix) == 0;
        lk_err   ignored = {0};
        name.size -= ends ? suffix : 0;
        if (ends && lk_rollout_name_check(name, &ignored) == LK_OK) {
            (*names)[(*count)++] = name;
        }
    }
    qsort(*names, *count, sizeof **names, compare_names);
    return rc;
}

/* -- one store's place ----------------------------------------------------------------------------------------------- */

/* Local stores are opened on their own, so that those who sync one do not wait for files of another. */
static lk_rc place_locally(lk_data_dir *dir, lk_bytes name, lk_data_place *out, lk_err *err)
{
    lk_arena arena = {0};
    lk_bytes path =
        lk_arena_format(&arena, "%.*s/%.*s" SUFFIX, LK_FMT(lk_buf_view(&dir->path)), LK_FMT(name));
    lk_rc rc = lk_local_store_open(&out->beneath, path, dir->durable, err);
    if (rc == LK_OK && dir->durable) {
        lk_local_store_trickle(out->beneath); /* of merges in the background; adds have others */
        rc = lk_local_store_open_late(&out->late_beneath, path, dir->syncers, err);
    }
    if (rc == LK_OK && dir->durable) {
        rc = lk_local_store_open_late(&out->merge_beneath, path, dir->syncers, err);
    }
    lk_arena_close(&arena);
    return rc;
}

lk_store_counts *lk_data_dir_counts(lk_data_dir *dir)
{
    return &dir->counts;
}

lk_rc lk_data_dir_place(lk_data_dir *dir, lk_bytes name, lk_data_place *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    *out = (lk_data_place){0};
    if (dir->local) {
        rc = place_locally(dir, name, out, err);
    } else {
        lk_arena arena = {0};
        out->beneath = lk_prefix_store_new(dir->root, directory_of(name, &arena));
        lk_arena_close(&arena);
    }
    if (rc == LK_OK) {
        out->store = lk_gate_store_new(out->beneath, &dir->counts);
        out->late = out->late_beneath != NULL ? lk_gate_store_new(out->late_beneath, &dir->counts)
                    : out->store->far && dir->syncers != NULL ? lk_behind_store_new(out->store, dir->syncers)
                                                              : out->store;
        out->merge_late =
            out->merge_beneath == NULL ? NULL : lk_gate_store_new(out->merge_beneath, &dir->counts);
    } else {
        lk_data_place_close(out);
    }
    return rc;
}

void lk_data_place_shut(lk_data_place *place)
{
    lk_gate_shut(place->store);
    if (place->late_beneath != NULL) {
        lk_gate_shut(place->late);
    } /* else late is the gate, or stands before it */
    if (place->merge_late != NULL) {
        lk_gate_shut(place->merge_late);
    }
}

void lk_data_place_close(lk_data_place *place)
{
    if (place->late != place->store) {
        lk_store_close(place->late);
    }
    lk_store_close(place->merge_late);
    lk_store_close(place->store);
    lk_store_close(place->merge_beneath);
    lk_store_close(place->late_beneath);
    lk_store_close(place->beneath);
    *place = (lk_data_place){0};
}

/* -- removal --------------------------------------------------------------------------------------------------------- */

/* Everything but the table's versions and the mark, shards first: what lost them is an emptied table, never an older one. */
static lk_rc remove_contents(lk_store *place, lk_arena *arena, lk_err *err)
{
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    lk_rc           rc = lk_store_remove_tree(place, LK_LITERAL("_mem_wal"), err);
    if (rc == LK_OK) {
        rc = lk_store_list(place, (lk_bytes){0}, arena, &entries, &count, err);
    }
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        lk_bytes name = entries[i].name;
        if (entries[i].is_directory && !lk_bytes_equal(name, LK_LITERAL("_versions"))) {
            rc = lk_store_remove_tree(place, name, err);
        } else if (!entries[i].is_directory && !lk_bytes_equal(name, LK_LITERAL(LK_ROLLOUT_REMOVED_MARK))) {
            rc = lk_store_remove(place, name, err);
        }
    }
    return rc;
}

/* What an instance began before it knew may still appear: it goes, too. */
static lk_rc remove_all(lk_store *place, lk_err *err)
{
    lk_rc rc = LK_E_IO;
    for (int i = 0; rc != LK_OK && i < REMOVE_TRIES; i++) {
        lk_arena arena = {0};
        if (i > 0) {
            lk_clock_sleep_ms(lk_clock_real(), REMOVE_PAUSE_MS);
        }
        *err = (lk_err){0};
        rc = remove_contents(place, &arena, err);
        if (rc == LK_OK) {
            rc = lk_store_remove_tree(place, LK_LITERAL("_versions"), err);
        }
        lk_arena_close(&arena);
    }
    return rc;
}

/* A directory without anything in it: not more, as the name may have been taken again. */
static void remove_directory(lk_data_dir *dir, lk_bytes directory)
{
    if (dir->local) {
        lk_arena arena = {0};
        lk_bytes path =
            lk_arena_format(&arena, "%.*s/%.*s%c", LK_FMT(lk_buf_view(&dir->path)), LK_FMT(directory), '\0');
        (void)rmdir(path.data);
        lk_arena_close(&arena);
    }
}

static lk_rc remove_marked(lk_store *place, uint64_t notice_ms, lk_err *err)
{
    bool  created = false;
    lk_rc rc = lk_store_put_if_absent(place, LK_LITERAL(LK_ROLLOUT_REMOVED_MARK), (lk_bytes){0}, &created,
        err);                    /* empty: it needs no block */
    if (rc == LK_E_STORE_FULL) { /* a removal makes room; others notice when the table is gone */
        *err = (lk_err){0};
        rc = LK_OK;
    }
    if (rc == LK_OK) {
        lk_clock_sleep_ms(lk_clock_real(), notice_ms);
        rc = remove_all(place, err);
    }
    return rc == LK_OK ? lk_store_remove(place, LK_LITERAL(LK_ROLLOUT_REMOVED_MARK), err) : rc;
}

lk_rc lk_data_dir_remove(lk_data_dir *dir, lk_bytes name, uint64_t notice_ms, bool *found, lk_err *err)
{
    lk_arena   arena = {0};
    lk_version latest = {0};
    uint64_t   size = 0;
    lk_bytes   directory = directory_of(name, &arena);
    lk_store  *place = lk_prefix_store_new(dir->root, directory);
    lk_rc      rc = lk_store_look(place, LK_LITERAL(LK_ROLLOUT_REMOVED_MARK), found, &size, err);
    if (rc == LK_OK && !*found) {
        rc = lk_versions_latest(place, &latest, found, err);
    }
    if (rc == LK_OK && *found) {
        rc = remove_marked(place, notice_ms, err);
    }
    if (rc == LK_OK && *found) {
        remove_directory(dir, directory);
    }
    lk_store_close(place);
    lk_arena_close(&arena);
    return rc;
}
