#ifndef LK_ROLLOUT_DATA_DIR_H
#define LK_ROLLOUT_DATA_DIR_H
/*
 * data_dir.h - where the stores of a server lie: a local directory, or a prefix of a bucket, one directory a store.
 *
 *   {data dir}/{name}.rollout.lance/
 *
 * Threads: shared.
 */
#include "io/gate.h"
#include "io/s3.h"

typedef struct lk_data_dir lk_data_dir;

/*
 * location: a path, file://PATH, or s3://BUCKET[/PREFIX] with s3 (borrowed). durable = false: local files are not synced.
 * Nothing is made or asked for yet. LK_E_INVALID_CONFIG names what cannot be: other schemes, s3:// without s3.
 */
LK_MUST_CHECK lk_rc lk_data_dir_open(
    lk_data_dir **out, lk_bytes location, const lk_s3_options *s3, bool durable, lk_err *err);
/* Over a store that the caller opened there, which is borrowed. */
lk_data_dir *lk_data_dir_over(lk_store *root, lk_bytes location);

void lk_data_dir_close(lk_data_dir *dir); /* accepts NULL */

/* Whether it is a directory of this machine; its path, NULL when it is none. */
bool        lk_data_dir_is_local(const lk_data_dir *dir);
const char *lk_data_dir_path(const lk_data_dir *dir);

/* LK_E_STORE_FULL when the disk of a local directory has fewer bytes free for us. Storage of others is their concern. */
LK_MUST_CHECK lk_rc lk_data_dir_room(const lk_data_dir *dir, uint64_t bytes, lk_err *err);

/* 1 to 128 bytes [A-Za-z0-9_][A-Za-z0-9._-]*, but for two that are reserved: LK_E_INVALID_REQUEST. */
LK_MUST_CHECK lk_rc lk_rollout_name_check(lk_bytes name, lk_err *err);

/* {data dir}/{name}.rollout.lance in the arena, as it was given to _open. */
lk_bytes lk_data_dir_uri(const lk_data_dir *dir, lk_bytes name, lk_arena *arena);

/* The names of what lies there, ascending, in the arena. */
LK_MUST_CHECK lk_rc lk_data_dir_list(
    lk_data_dir *dir, lk_arena *arena, lk_bytes **names, size_t *count, lk_err *err);

/* Calls to storage through all places. */
lk_store_counts *lk_data_dir_counts(lk_data_dir *dir);

/* One store's own directory. */
typedef struct lk_data_place {
    lk_store *store; /* durable; behind a gate (io/gate.h) */
    lk_store *
        late; /* the same, for files that are synced together; the same pointer where that makes no difference */
    lk_store *merge_late; /* as late, for merges: who syncs must not hear of another's files; or NULL */
    lk_store *beneath, *late_beneath, *merge_beneath; /* private */
} lk_data_place;

LK_MUST_CHECK lk_rc lk_data_dir_place(lk_data_dir *dir, lk_bytes name, lk_data_place *out, lk_err *err);
void                lk_data_place_shut(lk_data_place *place);  /* all gates; waits for what is under way */
void                lk_data_place_close(lk_data_place *place); /* idempotent */

/*
 * Removes a store: marks it (LK_ROLLOUT_REMOVED_MARK), gives other instances notice_ms to see that, then removes all that lies in
 * its directory, the mark last: a removal that was stopped can be repeated, and until then nobody has a store of this name.
 * The places of this instance that lead there were shut. *found = false: there was none.
 */
LK_MUST_CHECK lk_rc lk_data_dir_remove(
    lk_data_dir *dir, lk_bytes name, uint64_t notice_ms, bool *found, lk_err *err);

#endif
