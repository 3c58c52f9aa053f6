#ifndef LK_ROLLOUT_WAL_H
#define LK_ROLLOUT_WAL_H
/*
 * wal.h - write-ahead log entries of a shard. An entry is an Arrow IPC stream of one or more batches, whose schema says
 * in its metadata which epoch wrote it; entries are objects `wal/<position>.arrow`, positions from 1 without gaps.
 * An entry without batches is a fence: the claim of the epoch it names.
 *
 * Invariant: a position is written once; whoever finds the next one taken looks whether the shard was claimed.
 * Threads: stateless.
 */
#include "arrow/ipc.h"
#include "io/store.h"
#include "rollout/shard_manifest.h"

/* What a writer keeps from one entry to the next. */
typedef struct lk_wal_form {
    struct ArrowSchema schema; /* without the epoch */
    uint64_t           epoch;
    lk_ipc_encoder    *encoder;
    lk_buf             head, entry; /* the schema's message; the last entry */
} lk_wal_form;
void lk_wal_form_deinit(lk_wal_form *form); /* accepts zero */

/* The stream of these batches, in the form's memory until the next one or until the form rests. */
LK_MUST_CHECK lk_rc lk_wal_encode(lk_wal_form *form, const struct ArrowSchema *schema,
    lk_shared_array *const *batches, size_t count, uint64_t epoch, lk_bytes *out, lk_err *err);

/* Gives back the memory of a large entry; its owner is done with it. */
void lk_wal_form_rest(lk_wal_form *form);

/* As lk_store_stage: an entry that is written with what it is the log of, and gets its name afterwards. */
LK_MUST_CHECK lk_rc lk_wal_stage(
    lk_store *store, lk_uuid shard, uint64_t position, lk_bytes entry, lk_store_staged **out, lk_err *err);
/* Puts an entry at `position`. *created = false when one is there. Durable when it returns. */
LK_MUST_CHECK lk_rc lk_wal_put(
    lk_store *store, lk_uuid shard, uint64_t position, lk_bytes entry, bool *created, lk_err *err);

typedef struct lk_wal_entry {
    uint64_t    epoch;
    lk_batches *batches; /* close it; NULL: a fence */
} lk_wal_entry;

/* Reads the entry at `position`, whose bytes live in the arena. *found = false: there is none. LK_E_CORRUPT_FILE names the
 * object; LK_E_LIMIT for one above LK_WAL_ENTRY_BYTES_MAX. */
LK_MUST_CHECK lk_rc lk_wal_read(lk_store *store, lk_uuid shard, uint64_t position, lk_arena *arena,
    lk_wal_entry *out, bool *found, lk_err *err);

#define LK_WAL_ENTRY_BYTES_MAX (2ULL * 1024 * 1024 * 1024)

#endif
