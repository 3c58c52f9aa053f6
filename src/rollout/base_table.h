#ifndef LK_ROLLOUT_BASE_TABLE_H
#define LK_ROLLOUT_BASE_TABLE_H
/*
 * base_table.h - the Lance table of a rollout store: what merged rows lie in, and what says that shards lie beside it.
 *
 * Version 1 is the empty table, version 2 has the MemWAL index. Tables that others made are taken as they are: with the 31
 * columns of lance-context 0.6.3, with the 36 of 0.6.7 (which adds its five to a table that it opens), or with more, in any
 * order, as long as a record's own columns have their types.
 * Threads: stateless.
 */
#include "lance/dataset.h"
#include "rollout/records.h"

/* Creates it, index included. LK_E_TABLE_EXISTS when there is one; of two creators one wins. */
LK_MUST_CHECK lk_rc lk_base_table_create(
    const lk_lance_env *env, bool newer_columns, lk_dataset **out, lk_err *err);

/* The newest version. LK_E_NOT_FOUND when there is none (nothing is created); LK_E_UNSUPPORTED_FORMAT names the column
 * when it is not the table of a rollout store. */
LK_MUST_CHECK lk_rc lk_base_table_open(const lk_lance_env *env, lk_dataset **out, lk_err *err);

/* Makes the MemWAL index where it lacks: before the first write to a shard. Takes *table, gives the version that has it. */
LK_MUST_CHECK lk_rc lk_base_table_index(lk_dataset **table, lk_err *err);

/* Whether records can be written: LK_E_UNSUPPORTED_FORMAT names a column of the table that is not nullable and that records
 * do not have. */
LK_MUST_CHECK lk_rc lk_base_table_writable(const struct ArrowSchema *table, lk_err *err);

/*
 * Rows of some columns, in any order, as rows of the table's columns: absent ones are null, columns that the table does
 * not have are left out if all their values are null, and else refused (LK_E_SCHEMA_MISMATCH names the column).
 * Ownership: batch is borrowed.
 */
LK_MUST_CHECK lk_rc lk_base_table_align(const struct ArrowSchema *table, const struct ArrowSchema *schema,
    lk_shared_array *batch, struct ArrowArray *out, lk_err *err);

#endif
