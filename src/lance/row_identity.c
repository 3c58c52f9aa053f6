/*
 * row_identity.c - the row ids of an open version: each fragment's sequences, parsed when first asked for, and the
 * way from an id to its row.
 *
 * The way back is a list of runs {first id, rows, fragment, row offset}, ascending by id, of the rows that are not
 * deleted: an updated row's old place keeps its id, so only without deleted rows is an id that of one row.
 *
 * Invariant: what a slot holds never changes once it is set.
 * Threads: shared; slots are by the dataset's mutex, which is not held while something is made.
 */
#include "lance/row_identity.h"

#include "lance/row_ids_priv.h"

#include <inttypes.h>
#include <stdlib.h>

enum { IDS, CREATED_AT, UPDATED_AT, SEQUENCES }; /* in the order of the hidden fields */

typedef struct sequence {
    lk_arena        arena;
    lk_row_ids      ids;      /* of slot IDS */
    lk_row_versions versions; /* of the others */
    size_t          charged_bytes;
} sequence;

typedef struct id_run {
    uint64_t start;
    uint32_t count, fragment, offset; /* fragment: its number in the manifest */
} id_run;

typedef struct id_index {
    lk_budget *budget;
    id_run    *runs;
    size_t     count, room;
} id_index;

typedef struct place {
    uint32_t id, number;
} place;

struct lk_row_identity {
    sequence **sequences; /* SEQUENCES a fragment */
    id_index  *index;
    place     *places; /* fragments ascending by id */
};

static lk_rc charge(lk_budget *budget, size_t size, lk_err *err)
{
    return budget == NULL ? LK_OK : lk_budget_take(budget, size, err);
}

static void discharge(lk_budget *budget, size_t size)
{
    if (budget != NULL) {
        lk_budget_give(budget, size);
    }
}

static void free_sequence(sequence *self, lk_budget *budget)
{
    if (self == NULL) {
        return;
    }
    discharge(budget, self->charged_bytes);
    lk_arena_close(&self->arena);
    free(self);
}

static void free_index(id_index *self)
{
    if (self == NULL) {
        return;
    }
    discharge(self->budget, self->room * sizeof *self->runs);
    free(self->runs);
    free(self);
}

lk_row_identity *lk_row_identity_new(const lk_manifest *manifest)
{
    lk_row_identity *identity = calloc(1, sizeof *identity);
    LK_ASSERT(identity != NULL);
    if ((manifest->reader_flags & LK_FLAG_STABLE_ROW_IDS) != 0) {
        identity->sequences = calloc(manifest->fragment_count * SEQUENCES + 1, sizeof *identity->sequences);
        LK_ASSERT(identity->sequences != NULL);
    }
    return identity;
}

void lk_row_identity_free(lk_row_identity *identity, const lk_dataset *dataset)
{
    size_t slots = identity->sequences == NULL ? 0 : dataset->manifest->fragment_count * SEQUENCES;
    for (size_t i = 0; i < slots; i++) {
        free_sequence(identity->sequences[i], dataset->env.budget);
    }
    free(identity->sequences);
    free_index(identity->index);
    free(identity->places);
    free(identity);
}

bool lk_dataset_has_stable_row_ids(const lk_dataset *dataset)
{
    return dataset->identity->sequences != NULL;
}

/* -- sequences ------------------------------------------------------------------------------------------- */

/* What the manifest says of it, or the hidden column that it was put into. */
static lk_rc find_message(
    lk_dataset *dataset, size_t fragment, int which, lk_arena *arena, lk_bytes *out, lk_err *err)
{
    static const unsigned bits[] = {LK_LINEAGE_ROW_IDS, LK_LINEAGE_CREATED_AT, LK_LINEAGE_UPDATED_AT};
    const lk_fragment    *in = &dataset->manifest->fragments[fragment];
    if ((in->lineage_columns & bits[which]) != 0) {
        return lk_row_column_read(dataset, fragment, LK_FIELD_ROW_IDS - which, arena, out, err);
    }
    *out = which == IDS          ? in->row_ids
           : which == CREATED_AT ? in->created_at_versions
                                 : in->updated_at_versions;
    return LK_OK;
}

static lk_rc parse(lk_dataset *dataset, size_t fragment, int which, sequence *out, lk_err *err)
{
    uint64_t rows = dataset->manifest->fragments[fragment].physical_rows;
    lk_bytes message = {0};
    lk_rc    rc = find_message(dataset, fragment, which, &out->arena, &message, err);
    if (rc == LK_OK && which == IDS && message.size == 0) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "the fragment has no row ids and the table has");
    }
    if (rc != LK_OK) {
        return rc;
    }
    return which == IDS ? lk_row_ids_parse(message, rows, &out->arena, &out->ids, err)
                        : lk_row_versions_parse(message, rows, &out->arena, &out->versions, err);
}

static lk_rc make_sequence(lk_dataset *dataset, size_t fragment, int which, sequence **out, lk_err *err)
{
    sequence *made = calloc(1, sizeof *made);
    LK_ASSERT(made != NULL);
    lk_rc rc = parse(dataset, fragment, which, made, err);
    if (rc == LK_OK) {
        size_t size = sizeof *made + made->arena.used_bytes;
        rc = charge(dataset->env.budget, size, err);
        made->charged_bytes = rc == LK_OK ? size : 0;
    }
    if (rc != LK_OK) {
        lk_context(err, "row ids of fragment %" PRIu64 " in %.*s", dataset->manifest->fragments[fragment].id,
            LK_FMT(dataset->manifest->key));
        free_sequence(made, dataset->env.budget);
        return rc;
    }
    *out = made;
    return LK_OK;
}

static lk_rc find_sequence(lk_dataset *dataset, size_t fragment, int which, sequence **out, lk_err *err)
{
    LK_ASSERT(lk_dataset_has_stable_row_ids(dataset));
    sequence **slot = &dataset->identity->sequences[fragment * SEQUENCES + (size_t)which], *made = NULL;
    lk_mutex_lock(&dataset->mutex);
    *out = *slot;
    lk_mutex_unlock(&dataset->mutex);
    if (*out != NULL) {
        return LK_OK;
    }
    lk_rc rc = make_sequence(dataset, fragment, which, &made, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_mutex_lock(&dataset->mutex);
    if (*slot == NULL) { /* nobody was faster */
        *slot = made;
        made = NULL;
    }
    *out = *slot;
    lk_mutex_unlock(&dataset->mutex);
    free_sequence(made, dataset->env.budget);
    return LK_OK;
}

lk_rc lk_dataset_row_ids(lk_dataset *dataset, size_t fragment, const lk_row_ids **out, lk_err *err)
{
    sequence *found = NULL;
    lk_rc     rc = find_sequence(dataset, fragment, IDS, &found, err);
    *out = rc == LK_OK ? &found->ids : NULL;
    return rc;
}

lk_rc lk_dataset_row_versions(
    lk_dataset *dataset, size_t fragment, lk_row_version_kind kind, const lk_row_versions **out, lk_err *err)
{
    sequence *found = NULL;
    lk_rc     rc =
        find_sequence(dataset, fragment, kind == LK_ROW_CREATED_AT ? CREATED_AT : UPDATED_AT, &found, err);
    *out = rc == LK_OK ? &found->versions : NULL;
    return rc;
}

/* -- from id to row -------------------------------------------------------------------------------------- */

static lk_rc add_run(id_index *index, const id_run *added, lk_err *err)
{
    id_run *last = index->count == 0 ? NULL : &index->runs[index->count - 1];
    if (last != NULL && last->fragment == added->fragment && last->start + last->count == added->start &&
        last->offset + last->count == added->offset) {
        last->count += added->count;
        return LK_OK;
    }
    if (index->count == index->room) {
        size_t room = index->room == 0 ? 64 : index->room * 2;
        lk_rc  rc = charge(index->budget, (room - index->room) * sizeof *index->runs, err);
        if (rc != LK_OK) {
            return rc;
        }
        id_run *runs = realloc(index->runs, room * sizeof *runs);
        LK_ASSERT(runs != NULL);
        index->runs = runs;
        index->room = room;
    }
    index->runs[index->count++] = *added;
    return LK_OK;
}

/* Rows of ids in a row, but those deleted. */
static lk_rc add_live(id_index *index, id_run rows, const uint64_t *deleted, lk_err *err)
{
    lk_rc    rc = LK_OK;
    uint64_t end = (uint64_t)rows.offset + rows.count, id_minus_row = rows.start - rows.offset;
    for (uint64_t row = rows.offset; rc == LK_OK && row < end;) {
        uint64_t from = row;
        while (row < end && (deleted == NULL || (deleted[row / 64] >> (row % 64) & 1) == 0)) {
            row = deleted == NULL ? end : row + 1;
        }
        if (row > from) {
            id_run live = {id_minus_row + from, (uint32_t)(row - from), rows.fragment, (uint32_t)from};
            rc = add_run(index, &live, err);
        }
        row += row < end; /* a deleted one */
    }
    return rc;
}

static lk_rc add_ids(
    id_index *index, size_t fragment, const lk_row_ids *ids, const uint64_t *deleted, lk_err *err)
{
    enum { BLOCK = 1024, LONG_RUN = 64 };
    uint64_t block[BLOCK];
    lk_rc    rc = LK_OK;
    for (uint64_t row = 0, start = 0, count = 0; rc == LK_OK && lk_row_ids_run(ids, row, &start, &count);) {
        if (count >= LONG_RUN) {
            id_run run = {start, (uint32_t)count, (uint32_t)fragment, (uint32_t)row};
            rc = add_live(index, run, deleted, err);
        } else {
            count = ids->count - row < BLOCK ? ids->count - row : BLOCK;
            lk_row_ids_read(ids, row, count, block);
            for (uint64_t i = 0; rc == LK_OK && i < count; i++) {
                id_run one = {block[i], 1, (uint32_t)fragment, (uint32_t)(row + i)};
                rc = add_live(index, one, deleted, err);
            }
        }
        row += count;
    }
    return rc;
}

static int compare_runs(const void *a, const void *b)
{
    const id_run *left = a, *right = b;
    return (left->start > right->start) - (left->start < right->start);
}

/* Sorts the runs; an id of two rows is refused. */
static lk_rc order_runs(id_index *index, lk_err *err)
{
    bool sorted = true;
    for (size_t i = 1; i < index->count && sorted; i++) {
        sorted = index->runs[i - 1].start < index->runs[i].start;
    }
    if (!sorted) {
        qsort(index->runs, index->count, sizeof *index->runs, compare_runs);
    }
    for (size_t i = 1; i < index->count; i++) {
        if (index->runs[i].start - index->runs[i - 1].start < index->runs[i - 1].count) {
            return lk_fail(
                err, LK_E_CORRUPT_FILE, "row id %" PRIu64 " is that of two rows", index->runs[i].start);
        }
    }
    return LK_OK;
}

static lk_rc make_index(lk_dataset *dataset, id_index **out, lk_err *err)
{
    id_index *index = calloc(1, sizeof *index);
    LK_ASSERT(index != NULL);
    index->budget = dataset->env.budget;
    lk_rc rc = LK_OK;
    for (size_t i = 0; i < dataset->manifest->fragment_count && rc == LK_OK; i++) {
        const lk_row_ids  *ids = NULL;
        const lk_deletion *deletion = NULL;
        rc = lk_dataset_row_ids(dataset, i, &ids, err);
        if (rc == LK_OK) {
            rc = lk_dataset_deletion(dataset, i, &deletion, err);
        }
        if (rc == LK_OK) {
            rc = add_ids(index, i, ids, deletion == NULL ? NULL : lk_deletion_bits(deletion), err);
        }
    }
    if (rc == LK_OK) {
        rc = order_runs(index, err);
    }
    if (rc != LK_OK) {
        free_index(index);
        lk_context(err, "row ids of version %" PRIu64, dataset->manifest->version);
        return rc;
    }
    *out = index;
    return LK_OK;
}

static lk_rc find_index(lk_dataset *dataset, const id_index **out, lk_err *err)
{
    id_index *made = NULL;
    lk_mutex_lock(&dataset->mutex);
    *out = dataset->identity->index;
    lk_mutex_unlock(&dataset->mutex);
    if (*out != NULL) {
        return LK_OK;
    }
    lk_rc rc = make_index(dataset, &made, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_mutex_lock(&dataset->mutex);
    if (dataset->identity->index == NULL) {
        dataset->identity->index = made;
        made = NULL;
    }
    *out = dataset->identity->index;
    lk_mutex_unlock(&dataset->mutex);
    free_index(made);
    return LK_OK;
}

/* The last run that starts at or before the id; NULL: none. */
static const id_run *run_before(const id_index *index, uint64_t id)
{
    size_t low = 0, high = index->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->runs[middle].start <= id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == 0 ? NULL : &index->runs[low - 1];
}

static uint64_t address_of(const lk_manifest *manifest, const id_index *index, uint64_t id)
{
    const id_run *run = run_before(index, id);
    if (run == NULL || id - run->start >= run->count) {
        return LK_ROW_ID_NONE;
    }
    return manifest->fragments[run->fragment].id << 32 | (run->offset + (id - run->start));
}

/* -- from address to row --------------------------------------------------------------------------------- */

static int compare_places(const void *a, const void *b)
{
    const place *left = a, *right = b;
    return (left->id > right->id) - (left->id < right->id);
}

static const place *places_of(lk_dataset *dataset)
{
    const lk_manifest *manifest = dataset->manifest;
    lk_mutex_lock(&dataset->mutex);
    place *places = dataset->identity->places;
    lk_mutex_unlock(&dataset->mutex);
    if (places != NULL) {
        return places;
    }
    place *made = calloc(manifest->fragment_count + 1, sizeof *made);
    LK_ASSERT(made != NULL);
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        made[i] = (place){(uint32_t)manifest->fragments[i].id, (uint32_t)i};
    }
    qsort(made, manifest->fragment_count, sizeof *made, compare_places);
    lk_mutex_lock(&dataset->mutex);
    if (dataset->identity->places == NULL) {
        dataset->identity->places = made;
        made = NULL;
    }
    places = dataset->identity->places;
    lk_mutex_unlock(&dataset->mutex);
    free(made);
    return places;
}

bool lk_dataset_fragment_number(lk_dataset *dataset, uint32_t id, size_t *number)
{
    place        key = {id, 0};
    const place *places = places_of(dataset);
    const place *found = bsearch(&key, places, dataset->manifest->fragment_count, sizeof key, compare_places);
    *number = found == NULL ? SIZE_MAX : found->number;
    return found != NULL;
}

/* The fragment whose live row this is; SIZE_MAX: there is no such row. */
static lk_rc live_row(lk_dataset *dataset, uint64_t address, size_t *fragment, lk_err *err)
{
    const lk_deletion *deletion = NULL;
    uint32_t           row = (uint32_t)address;
    if (!lk_dataset_fragment_number(dataset, (uint32_t)(address >> 32), fragment)) {
        return LK_OK;
    }
    if (row >= dataset->manifest->fragments[*fragment].physical_rows) {
        *fragment = SIZE_MAX;
        return LK_OK;
    }
    lk_rc rc = lk_dataset_deletion(dataset, *fragment, &deletion, err);
    if (rc == LK_OK && lk_deletion_count_range(deletion, row, 1) > 0) {
        *fragment = SIZE_MAX;
    }
    return rc;
}

lk_rc lk_dataset_find_rows(
    lk_dataset *dataset, const uint64_t *ids, size_t count, uint64_t *addresses, lk_err *err)
{
    if (!lk_dataset_has_stable_row_ids(dataset)) {
        return lk_dataset_row_ids_at(dataset, ids, count, addresses, err);
    }
    const id_index *index = NULL;
    lk_rc           rc = find_index(dataset, &index, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        addresses[i] = address_of(dataset->manifest, index, ids[i]);
    }
    return rc;
}

lk_rc lk_dataset_row_ids_at(
    lk_dataset *dataset, const uint64_t *addresses, size_t count, uint64_t *ids, lk_err *err)
{
    bool  stable = lk_dataset_has_stable_row_ids(dataset);
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        const lk_row_ids *of = NULL;
        size_t            fragment = SIZE_MAX;
        uint64_t          address = addresses[i];
        rc = live_row(dataset, address, &fragment, err);
        if (rc == LK_OK && stable && fragment != SIZE_MAX) {
            rc = lk_dataset_row_ids(dataset, fragment, &of, err);
        }
        ids[i] = fragment == SIZE_MAX ? LK_ROW_ID_NONE
                 : of == NULL         ? address
                                      : lk_row_ids_at(of, (uint32_t)address);
    }
    return rc;
}
