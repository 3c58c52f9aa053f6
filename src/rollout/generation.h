#ifndef LK_ROLLOUT_GENERATION_H
#define LK_ROLLOUT_GENERATION_H
/*
 * generation.h - the rows of one flush: a Lance dataset of one version, one fragment and one file in a directory of its
 * shard, with the ids in order (`_pk_index/`) and as a Bloom filter (`bloom_filter.bin`).
 *
 * Invariants:
 *   1. Nothing refers to a generation before a shard manifest lists it, so its files are written in any order and made
 *      durable together.
 *   2. A directory's name is used once, also when writing fails.
 *   3. The ids of a generation that is written here are distinct, and its rows in the order in which they came.
 *   4. The data file of a generation that is written here has a name of its own, LK_GENERATION_FILE, and its manifest says
 *      nothing that does not follow from it and from the manifest of another generation of the same columns: whoever finds
 *      the file need not read the manifest.
 * Threads: stateless.
 */
#include "lance/dataset.h"
#include "lance/schema.h"
#include "rollout/pk_index.h"
#include "rollout/shard_manifest.h"

/* Below data/. Another name, should what the manifest says ever change. */
#define LK_GENERATION_FILE     "rows-1.lance"
#define LK_GENERATION_MANIFEST "_versions/18446744073709551614.manifest"

typedef struct lk_generation_rows {
    const struct ArrowSchema *schema;  /* the table's columns */
    lk_shared_array *const   *batches; /* of that schema */
    size_t                    batch_count;
    const lk_bytes           *ids; /* of all rows, in order */
    size_t                    row_count;
} lk_generation_rows;

/* What is kept from one generation to the next: everything that depends on the columns alone, and the memory of the files'
 * writers. Few are enough for all stores of a process: as many as are written at once. Threads: shared. */
typedef struct lk_generation_forms lk_generation_forms;
lk_generation_forms               *lk_generation_forms_new(void);
void                               lk_generation_forms_free(lk_generation_forms *forms); /* accepts NULL */

/* Whether the columns are the same, metadata left out. */
bool lk_generation_same_columns(const struct ArrowSchema *a, const struct ArrowSchema *b);

/*
 * Writes them. env->store is rooted at the table's own directory and may put off syncing: lk_store_sync makes durable what
 * was written, and is not called here. *path is the directory's name below the shard's, in the arena.
 */
LK_MUST_CHECK lk_rc lk_generation_write(const lk_lance_env *env, lk_generation_forms *forms, lk_uuid shard,
    uint64_t number, const lk_generation_rows *rows, lk_arena *arena, lk_bytes *path, lk_err *err);

/* What lk_generation_write made the manifest of a generation of so many rows and a file of so many bytes, if `like` is the
 * manifest of one whose file has the same schema. */
struct lk_manifest;
LK_MUST_CHECK lk_rc lk_generation_manifest_like(
    const struct lk_manifest *like, uint64_t rows, uint64_t size_bytes, lk_buf *object, lk_err *err);

/* Removes what lk_generation_write left; for one that no manifest lists. */
LK_MUST_CHECK lk_rc lk_generation_remove(lk_store *store, lk_uuid shard, lk_bytes path, lk_err *err);

#endif
