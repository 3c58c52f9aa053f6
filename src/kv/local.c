/*
 * local.c - see local.h.
 *
 * Writers take turns by a flag, not by holding a mutex over the disk. A reader is counted in and out, so
 * that the writer whose turn it is can wait for them and swap the handle when it opens the files again.
 *
 * Invariants: db changes only in the hands of the writer whose turn it is, while readers == 0 and
 * reopening is set; broken means that the last write failed, so what the log holds is not known.
 * Threads: shared; mutex guards db, readers, writing, reopening and broken; changed tells of any change.
 */
#include "kv/local.h"

#include "base/file.h"
#include "base/limits.h"
#include "kv/kv_priv.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <rocksdb/c.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    WRITE_BUFFER_BYTES = 4 * 1024 * 1024,
    BLOCK_CACHE_BYTES = 4 * 1024 * 1024,
    LOG_TOTAL_BYTES_MAX = 16 * 1024 * 1024,
    INFO_LOG_BYTES_MAX = 1024 * 1024,
    OPEN_FILES_MAX = 64,
    DIRECTORY_MODE = 0700,
    /* RocksDB's numbers, which its C header does not name. */
    RECOVERY_TOLERATES_TORN_TAIL_ONLY = 0, /* a bad record with good ones after it stops the opening */
    INFO_LOG_LEVEL_WARN = 2,
};

struct local_kv {
    lk_kv                   base;
    char                   *directory;
    rocksdb_options_t      *options;
    rocksdb_readoptions_t  *read_options;
    rocksdb_writeoptions_t *write_options;
    lk_mutex                mutex;
    lk_cond                 changed;
    rocksdb_t              *db; /* NULL: it could not be opened again yet */
    unsigned                readers;
    bool                    writing, reopening, broken;
};

/* Takes message. What RocksDB says is text only; these are the parts that a caller can act on. */
static lk_rc fail(struct local_kv *self, char *message, const char *doing, lk_err *err)
{
    bool  lock = strstr(message, "While lock file") != NULL || strstr(message, "lock hold by") != NULL;
    lk_rc rc = lock                                                 ? LK_E_LOCKED
               : strstr(message, "No space left on device") != NULL ? LK_E_STORE_FULL
               : strstr(message, "Disk quota exceeded") != NULL     ? LK_E_STORE_FULL
               : strncmp(message, "Corruption", 10) == 0            ? LK_E_CORRUPT_RECORD
                                                                    : LK_E_KV_UNAVAILABLE;
    rc = lk_fail(err, rc, "%s %s: %s", doing, self->directory, message);
    rocksdb_free(message);
    return rc;
}

/* -- opening -- */

/* Small: the records are few, and an idle server should be too. */
static rocksdb_options_t *options_new(void)
{
    rocksdb_options_t                   *options = rocksdb_options_create();
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_cache_t                     *cache = rocksdb_cache_create_lru(BLOCK_CACHE_BYTES);
    rocksdb_block_based_options_set_block_cache(table, cache);
    rocksdb_options_set_block_based_table_factory(options, table);
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_paranoid_checks(options, 1);
    rocksdb_options_set_wal_recovery_mode(options, RECOVERY_TOLERATES_TORN_TAIL_ONLY);
    rocksdb_options_set_compression(options, rocksdb_no_compression);
    rocksdb_options_set_write_buffer_size(options, WRITE_BUFFER_BYTES);
    rocksdb_options_set_max_write_buffer_number(options, 2);
    rocksdb_options_set_max_total_wal_size(options, LOG_TOTAL_BYTES_MAX);
    rocksdb_options_set_max_open_files(options, OPEN_FILES_MAX);
    rocksdb_options_set_max_background_jobs(options, 2);
    rocksdb_options_set_table_cache_numshardbits(options, 2);
    rocksdb_options_set_info_log_level(options, INFO_LOG_LEVEL_WARN);
    rocksdb_options_set_max_log_file_size(options, INFO_LOG_BYTES_MAX);
    rocksdb_options_set_keep_log_file_num(options, 2);
    rocksdb_options_set_stats_dump_period_sec(options, 0);
    rocksdb_options_set_stats_persist_period_sec(options, 0);
    rocksdb_cache_destroy(cache);
    rocksdb_block_based_options_destroy(table);
    return options;
}

static lk_rc open_files(struct local_kv *self, rocksdb_t **db, lk_err *err)
{
    char *message = NULL;
    *db = rocksdb_open(self->options, self->directory, &message);
    return message == NULL ? LK_OK : fail(self, message, "open", err);
}

static bool has_room(const struct local_kv *self, uint64_t bytes)
{
    struct statvfs disk;
    return statvfs(self->directory, &disk) != 0 || (uint64_t)disk.f_bavail * disk.f_frsize >= bytes;
}

/* What opening replays into tables. */
static uint64_t log_bytes(const struct local_kv *self)
{
    uint64_t       bytes = 0;
    DIR           *directory = opendir(self->directory);
    struct dirent *entry;
    struct stat    status;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        const char *dot = strrchr(entry->d_name, '.');
        if (dot != NULL && strcmp(dot, ".log") == 0 &&
            fstatat(dirfd(directory), entry->d_name, &status, 0) == 0) {
            bytes += (uint64_t)status.st_size;
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return bytes;
}

/*
 * With the turn. Closes and opens the files, which replays the log into synced tables: after it, what is
 * read is what is on disk. Reads meanwhile wait.
 */
static lk_rc reopen(struct local_kv *self, lk_err *err)
{
    if (!has_room(self, LK_KV_REOPEN_BYTES_MIN)) {
        return lk_fail(err, LK_E_STORE_FULL, "%s has too little free space to open again", self->directory);
    }
    lk_mutex_lock(&self->mutex);
    self->reopening = true;
    while (self->readers > 0) {
        lk_cond_wait(&self->changed, &self->mutex);
    }
    rocksdb_t *db = self->db;
    self->db = NULL;
    lk_mutex_unlock(&self->mutex);
    if (db != NULL) {
        rocksdb_close(db);
    }
    lk_rc rc = open_files(self, &db, err);
    lk_mutex_lock(&self->mutex);
    self->db = rc == LK_OK ? db : NULL;
    self->broken = rc != LK_OK;
    self->reopening = false;
    lk_cond_broadcast(&self->changed);
    lk_mutex_unlock(&self->mutex);
    return rc;
}

/* -- turns and readers -- */

static void take_turn(struct local_kv *self)
{
    lk_mutex_lock(&self->mutex);
    while (self->writing) {
        lk_cond_wait(&self->changed, &self->mutex);
    }
    self->writing = true;
    lk_mutex_unlock(&self->mutex);
}

static void pass_turn(struct local_kv *self, bool broke)
{
    lk_mutex_lock(&self->mutex);
    self->writing = false;
    self->broken = self->broken || broke;
    lk_cond_broadcast(&self->changed);
    lk_mutex_unlock(&self->mutex);
}

static bool begin_read(struct local_kv *self)
{
    lk_mutex_lock(&self->mutex);
    while (self->reopening) {
        lk_cond_wait(&self->changed, &self->mutex);
    }
    bool open = self->db != NULL;
    self->readers += open;
    lk_mutex_unlock(&self->mutex);
    return open;
}

static void end_read(struct local_kv *self)
{
    lk_mutex_lock(&self->mutex);
    LK_ASSERT(self->readers > 0);
    self->readers--;
    if (self->reopening) {
        lk_cond_broadcast(&self->changed);
    }
    lk_mutex_unlock(&self->mutex);
}

/* Counts the caller in; when the files are shut since a failure, tries them once more. */
static lk_rc start_reading(struct local_kv *self, lk_err *err)
{
    if (begin_read(self)) {
        return LK_OK;
    }
    take_turn(self);
    lk_rc rc = self->db == NULL ? reopen(self, err) : LK_OK; /* only the one with the turn changes db */
    pass_turn(self, false);
    if (rc == LK_OK && !begin_read(self)) {
        rc = lk_fail(err, LK_E_KV_UNAVAILABLE, "%s is shut", self->directory);
    }
    return rc;
}

/* -- reading -- */

static lk_rc read_key(
    struct local_kv *self, lk_bytes key, rocksdb_pinnableslice_t **slice, lk_bytes *value, lk_err *err)
{
    char *message = NULL;
    *slice = rocksdb_get_pinned(self->db, self->read_options, key.data, key.size, &message);
    if (message != NULL) {
        return fail(self, message, "read", err);
    }
    *value = (lk_bytes){0};
    if (*slice != NULL) {
        value->data = rocksdb_pinnableslice_value(*slice, &value->size);
    }
    return LK_OK;
}

static lk_rc local_get(lk_kv *kv, lk_bytes key, lk_arena *arena, lk_bytes *value, bool *found, lk_err *err)
{
    struct local_kv         *self = (struct local_kv *)kv;
    rocksdb_pinnableslice_t *slice = NULL;
    lk_bytes                 present = {0};
    lk_rc                    rc = lk_kv_key_check(key, err);
    rc = rc == LK_OK ? start_reading(self, err) : rc;
    if (rc != LK_OK) {
        return rc;
    }
    rc = read_key(self, key, &slice, &present, err);
    if (rc == LK_OK) {
        *found = slice != NULL;
        if (*found) {
            *value = lk_arena_copy(arena, present);
        }
    }
    rocksdb_pinnableslice_destroy(slice);
    end_read(self);
    return rc;
}

static lk_bytes key_of(rocksdb_iterator_t *at)
{
    lk_bytes key;
    key.data = rocksdb_iter_key(at, &key.size);
    return key;
}

static bool matches(rocksdb_iterator_t *at, lk_bytes prefix)
{
    return rocksdb_iter_valid(at) && lk_bytes_starts(key_of(at), prefix);
}

static void collect(
    rocksdb_iterator_t *at, lk_bytes prefix, size_t limit, lk_arena *arena, lk_buf *page, lk_bytes *next)
{
    size_t     size = 0;
    lk_kv_item item = {0};
    for (size_t i = 0; i < limit && size < LK_KV_PAGE_BYTES_MAX && matches(at, prefix); i++) {
        lk_bytes value;
        value.data = rocksdb_iter_value(at, &value.size);
        item = (lk_kv_item){lk_arena_copy(arena, key_of(at)), lk_arena_copy(arena, value)};
        lk_buf_append(page, &item, sizeof item);
        size += item.key.size + item.value.size;
        rocksdb_iter_next(at);
    }
    *next =
        item.key.size > 0 && matches(at, prefix) ? lk_kv_cursor_make(prefix, item.key, arena) : (lk_bytes){0};
}

static void seek(rocksdb_iterator_t *at, lk_bytes prefix, lk_bytes last)
{
    lk_bytes from = last.size > 0 ? last : prefix;
    if (from.size == 0) {
        rocksdb_iter_seek_to_first(at);
        return;
    }
    rocksdb_iter_seek(at, from.data, from.size);
    if (last.size > 0 && rocksdb_iter_valid(at) && lk_bytes_equal(key_of(at), last)) {
        rocksdb_iter_next(at);
    }
}

static lk_rc local_scan(lk_kv *kv, lk_bytes prefix, lk_bytes after, size_t limit, lk_arena *arena,
    lk_kv_item **items, size_t *count, lk_bytes *next, lk_err *err)
{
    struct local_kv *self = (struct local_kv *)kv;
    lk_bytes         last = {0};
    lk_buf           page = {0};
    char            *message = NULL;
    lk_rc            rc = lk_kv_scan_check(prefix, after, limit, &last, err);
    rc = rc == LK_OK ? start_reading(self, err) : rc;
    if (rc != LK_OK) {
        return rc;
    }
    rocksdb_iterator_t *at = rocksdb_create_iterator(self->db, self->read_options);
    seek(at, prefix, last);
    collect(at, prefix, limit, arena, &page, next);
    rocksdb_iter_get_error(at, &message);
    rocksdb_iter_destroy(at);
    end_read(self);
    if (message != NULL) {
        rc = fail(self, message, "scan", err);
    } else {
        *count = page.size / sizeof **items;
        *items = (lk_kv_item *)(void *)lk_arena_copy(arena, lk_buf_view(&page)).data;
    }
    lk_buf_deinit(&page);
    return rc;
}

/* -- writing, with the turn -- */

static lk_rc check_one(struct local_kv *self, const lk_kv_change *change, bool *holds, lk_err *err)
{
    rocksdb_pinnableslice_t *slice = NULL;
    lk_bytes                 present = {0};
    if (change->any) {
        *holds = true;
        return LK_OK;
    }
    lk_rc rc = read_key(self, change->key, &slice, &present, err);
    *holds = rc == LK_OK && lk_kv_change_holds(change, slice != NULL, present);
    rocksdb_pinnableslice_destroy(slice);
    return rc;
}

static lk_rc check_all(struct local_kv *self, const lk_kv_write *write, bool *hold, lk_err *err)
{
    lk_kv_change guard = {.key = write->guard_key, .expected = &write->guard_value};
    lk_rc        rc = LK_OK;
    *hold = true;
    if (write->guard_key.size > 0) {
        rc = check_one(self, &guard, hold, err);
    }
    for (size_t i = 0; rc == LK_OK && *hold && i < write->change_count; i++) {
        rc = check_one(self, &write->changes[i], hold, err);
    }
    return rc;
}

/* One batch, one log record, synced before it returns. After a failure nobody knows what the log holds. */
static lk_rc apply(struct local_kv *self, const lk_kv_write *write, lk_err *err)
{
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    for (size_t i = 0; i < write->change_count; i++) {
        const lk_kv_change *change = &write->changes[i];
        if (change->value == NULL) {
            rocksdb_writebatch_delete(batch, change->key.data, change->key.size);
        } else {
            rocksdb_writebatch_put(
                batch, change->key.data, change->key.size, change->value->data, change->value->size);
        }
    }
    char *message = NULL;
    rocksdb_write(self->db, self->write_options, batch, &message);
    rocksdb_writebatch_destroy(batch);
    if (message == NULL) {
        return LK_OK;
    }
    lk_rc rc = fail(self, message, "write", err);
    err->maybe_applied = true;
    return rc;
}

static lk_rc local_write(lk_kv *kv, const lk_kv_write *write, bool *applied, lk_err *err)
{
    struct local_kv *self = (struct local_kv *)kv;
    bool             hold = false, broke = false;
    lk_rc            rc = lk_kv_write_check(write, err);
    if (rc != LK_OK) {
        return rc;
    }
    take_turn(self);
    rc = self->broken ? reopen(self, err) : LK_OK; /* only the one with the turn changes broken */
    rc = rc == LK_OK ? check_all(self, write, &hold, err) : rc;
    if (rc == LK_OK && hold) {
        rc = apply(self, write, err);
        broke = rc != LK_OK;
    }
    pass_turn(self, broke);
    if (rc == LK_OK) {
        *applied = hold;
    }
    return rc;
}

/* -- opening and closing -- */

static void local_close(lk_kv *kv)
{
    struct local_kv *self = (struct local_kv *)kv;
    if (self->db != NULL) {
        rocksdb_close(self->db);
    }
    rocksdb_options_destroy(self->options);
    rocksdb_readoptions_destroy(self->read_options);
    rocksdb_writeoptions_destroy(self->write_options);
    lk_cond_deinit(&self->changed);
    lk_mutex_deinit(&self->mutex);
    free(self->directory);
    free(self);
}

static const struct lk_kv_ops local_ops = {local_get, local_write, local_scan, local_close};

static struct local_kv *local_new(const char *directory, bool durable)
{
    struct local_kv *self = calloc(1, sizeof *self);
    if (self == NULL || (self->directory = strdup(directory)) == NULL) {
        abort();
    }
    self->base.ops = &local_ops;
    self->options = options_new();
    self->read_options = rocksdb_readoptions_create();
    self->write_options = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(self->write_options, durable);
    lk_mutex_init(&self->mutex, LK_RANK_KV);
    lk_cond_init(&self->changed);
    return self;
}

lk_rc lk_kv_local_open(lk_kv **out, const char *directory, bool durable, lk_err *err)
{
    lk_rc rc = lk_directory_make(directory, DIRECTORY_MODE, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (access(directory, R_OK | W_OK | X_OK) != 0) {
        return lk_fail_errno(err, errno, "use", directory);
    }
    struct local_kv *self = local_new(directory, durable);
    /* RocksDB aborts the process where its first writes find no room. */
    uint64_t needed = log_bytes(self) + LK_KV_OPEN_BYTES_MIN;
    if (!has_room(self, needed)) {
        rc = lk_fail(err, LK_E_STORE_FULL, "%s needs %" PRIu64 " free bytes to be opened", directory, needed);
    } else {
        rc = open_files(self, &self->db, err);
    }
    if (rc != LK_OK) {
        self->db = NULL;
        local_close(&self->base);
        return rc;
    }
    *out = &self->base;
    return LK_OK;
}
