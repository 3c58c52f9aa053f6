#ifndef LK_ROLLOUT_ROWS_H
#define LK_ROLLOUT_ROWS_H
/*
 * rows.h - a generation's rows as readers see them: one batch of its columns but the payload, in memory, without rows that
 * were deleted, are tombstones, or are older copies of an id. Lists that are large (LK_ROLLOUT_LISTS_KEPT) are left out, too,
 * unless storage is far: whoever wants them takes them from the files.
 *
 * Of an id that is there more than once counts the last row, or the first when the generation has neither deletions nor a
 * `_tombstone` column (as lance 7 writes them: newest first).
 *
 * Ownership: _load/_of/_ref/_unref shared. Threads: immutable.
 */
#include "lance/dataset.h"
#include "rollout/records.h"
#include "rollout/shard_manifest.h"

/* What all rows of a store share: the columns that they have. */
typedef struct lk_rollout_form {
    struct ArrowSchema schema; /* the record's, payload left out, no dictionaries, all nullable */
    struct ArrowSchema whole;  /* the same with the payload */
    atomic_uint        refs;   /* private */
} lk_rollout_form;
lk_rollout_form *lk_rollout_form_new(void); /* refs = 1 */
lk_rollout_form *lk_rollout_form_ref(lk_rollout_form *form);
void             lk_rollout_form_unref(lk_rollout_form *form); /* accepts NULL */

/* Bytes of a generation's lists that are kept in memory at most. */
enum { LK_ROLLOUT_LISTS_KEPT = 256 * 1024 };

typedef struct lk_rollout_rows {
    lk_uuid                   shard;
    uint64_t                  number;
    lk_bytes                  path;   /* below the shard's directory */
    const struct ArrowSchema *schema; /* of batch: the form's, null where the generation lacks a column */
    lk_shared_array          *batch;
    uint64_t                  left_out; /* a bit a column of schema: null in batch, whatever the files have */
    size_t                    left_out_bytes; /* what those would take in memory */
    const uint64_t           *addresses;      /* of each row in dataset */
    size_t                    count, bytes;
    /* private */
    atomic_uint      refs;
    lk_rollout_form *form;
    lk_lance_env     env;  /* rooted at the generation */
    lk_dataset      *base; /* of rows of the base table */
    lk_buf           storage;
    lk_budget       *budget;
} lk_rollout_rows;

/* LK_E_NOT_FOUND when the generation is gone (drained and collected); LK_E_CORRUPT_FILE names the file; LK_E_LIMIT. env->store
 * is rooted at the table's directory and outlives the rows. */
LK_MUST_CHECK lk_rc lk_rollout_rows_load(const lk_lance_env *env, lk_rollout_form *form, lk_uuid shard,
    const lk_shard_generation *generation, lk_rollout_rows **out, lk_err *err);

/* A generation that is to be loaded, and what became of it: rows NULL when it is gone. */
typedef struct lk_rollout_wish {
    lk_uuid                    shard;
    const lk_shard_generation *generation;
    lk_rollout_rows           *rows;
} lk_rollout_wish;

/* Loads many, on env->pool and the caller's thread, the caller's alone when the pool is busy. After an error no wish has rows. */
LK_MUST_CHECK lk_rc lk_rollout_rows_load_all(
    const lk_lance_env *env, lk_rollout_form *form, lk_rollout_wish *wishes, size_t count, lk_err *err);

/* Rows of a generation that was merged, from the base table: these addresses of a version of it, ascending and apart. Path is
 * "". LK_E_SNAPSHOT_GONE when the version was removed. */
LK_MUST_CHECK lk_rc lk_rollout_rows_of_base(lk_dataset *base, lk_budget *budget, lk_rollout_form *form,
    lk_uuid shard, uint64_t number, struct lk_row_set *addresses, lk_rollout_rows **out, lk_err *err);

/*
 * The rows of a generation that was just written, from memory: batches of a table's columns (borrowed, copied but for what is
 * left out), whose ids are distinct.
 */
LK_MUST_CHECK lk_rc lk_rollout_rows_of(const lk_lance_env *env, lk_rollout_form *form, lk_uuid shard,
    const lk_shard_generation *generation, const struct ArrowSchema *schema, lk_shared_array *const *batches,
    size_t batch_count, lk_rollout_rows **out, lk_err *err);
lk_rollout_rows    *lk_rollout_rows_ref(lk_rollout_rows *rows);
void                lk_rollout_rows_unref(lk_rollout_rows *rows); /* accepts NULL */

/* The generation as a table, for payloads and merges, opened anew: a new reference. LK_E_NOT_FOUND when it is gone. */
LK_MUST_CHECK lk_rc lk_rollout_rows_dataset(const lk_rollout_rows *rows, lk_dataset **out, lk_err *err);
/* The same of a generation, whose reading takes memory of this budget, not of the one that all share. */
LK_MUST_CHECK lk_rc lk_rollout_rows_dataset_within(
    const lk_rollout_rows *rows, lk_budget *budget, lk_dataset **out, lk_err *err);

/* Some of them from the files, in this order, in the columns of `to`, null where the generation lacks one. LK_E_SNAPSHOT_GONE
 * when the generation is gone. */
LK_MUST_CHECK lk_rc lk_rollout_rows_take(const lk_rollout_rows *rows, const uint64_t *places, size_t count,
    const struct ArrowSchema *to, lk_cancel *cancel, struct ArrowArray *out, lk_err *err);
/* The same of a table, by its rows' addresses. */
LK_MUST_CHECK lk_rc lk_rollout_take(lk_dataset *dataset, const uint64_t *addresses, size_t count,
    const struct ArrowSchema *to, lk_cancel *cancel, struct ArrowArray *out, lk_err *err);

lk_bytes lk_rollout_rows_id(const lk_rollout_rows *rows, size_t row);

/* Negative when a copy of an id in `a` counts more than one in `b`: of the higher shard id, of one shard the higher number. */
int lk_rollout_rows_order(const lk_rollout_rows *a, const lk_rollout_rows *b);

/* LK_E_CORRUPT_FILE unless rows of this schema have ids that are texts, and tombstones, if any, that are true or false. */
LK_MUST_CHECK lk_rc lk_rollout_rows_check(const struct ArrowSchema *schema, lk_err *err);

/* The columns that rows have: the record's, payload left out, no dictionaries, all nullable. */
void lk_rollout_rows_schema(struct ArrowSchema *out);
/* The same, made once for all: never released. */
const struct ArrowSchema *lk_rollout_rows_columns(void);

/* A batch of some of a table's columns (values, no dictionaries) as one of that schema: by name, absent ones null.
 * Takes *batch. */
LK_MUST_CHECK lk_rc lk_rollout_rows_align(const struct ArrowSchema *schema, struct ArrowArray *batch,
    const struct ArrowSchema *to, struct ArrowArray *out, lk_err *err);

#endif
