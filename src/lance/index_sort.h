#ifndef LK_LANCE_INDEX_SORT_H
#define LK_LANCE_INDEX_SORT_H
/*
 * index_sort.h - (value, row id) pairs of a whole table in the order of their values, with bounded memory: what was
 * added is sorted into runs of LK_INDEX_RUN_BYTES, written as Lance files and merged at the end.
 *
 * Memory: about four times a run, charged to the budget while it is held. Threads: confined.
 */
#include "arrow/batch.h"
#include "base/thread.h"
#include "lance/change.h"
#include "lance/index_order.h"

enum { LK_INDEX_RUN_BYTES = 48 * 1024 * 1024 };

/* A source of pairs that are in order already: values and ids (uint64) of the next stretch; released: the end. */
typedef struct lk_index_run lk_index_run;
struct lk_index_run {
    lk_rc (*next)(lk_index_run *run, struct ArrowArray *values, struct ArrowArray *ids, lk_err *err);
    void (*close)(lk_index_run *run);
};

typedef struct lk_index_sorter lk_index_sorter;

/* Runs are written below `directory`, each noted in the change and removed when the sorter closes. Borrows all.
 * run_bytes 0: LK_INDEX_RUN_BYTES. */
lk_index_sorter *lk_index_sorter_new(lk_change *change, lk_bytes directory, const struct ArrowSchema *field,
    size_t run_bytes, lk_cancel *cancel);
void             lk_index_sorter_close(lk_index_sorter *sorter); /* accepts NULL */

/* Moves both arrays in: as many ids, uint64 without nulls, as values. */
LK_MUST_CHECK lk_rc lk_index_sorter_add(
    lk_index_sorter *sorter, struct ArrowArray *values, struct ArrowArray *ids, lk_err *err);
/* Takes the run. */
void lk_index_sorter_add_run(lk_index_sorter *sorter, lk_index_run *run);

/* Gives everything in order, in stretches. Both arrays are borrowed for the call. */
typedef lk_rc lk_index_sink(
    void *context, const struct ArrowArray *values, const struct ArrowArray *ids, lk_err *err);
LK_MUST_CHECK lk_rc lk_index_sorter_finish(
    lk_index_sorter *sorter, lk_index_sink *sink, void *context, lk_err *err);

/* The schema of such pairs as a Lance file has them: values (the field's type, nullable), ids. */
void lk_index_pair_schema(const struct ArrowSchema *field, struct ArrowSchema *out);

#endif
