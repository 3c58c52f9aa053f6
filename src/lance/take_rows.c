/*
 * take_rows.c - from addresses, row ids and offsets to rows that are there (take_priv.h).
 */
#include "lance/take_priv.h"

#include "lance/row_identity.h"
#include "lance/row_ids.h"

#include <inttypes.h>
#include <stdlib.h>

static lk_rc no_row(const char *what, uint64_t row, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_INVALID_REQUEST, "%s %" PRIu64, what, row);
    lk_detail(err, "the table has no row at %s %" PRIu64, what, row);
    return rc;
}

/* -- addresses ----------------------------------------------------------------------------------------- */
static bool is_deleted(const lk_deletion *deletion, uint64_t row)
{
    return deletion != NULL && (lk_deletion_bits(deletion)[row / 64] >> row % 64 & 1) != 0;
}

static lk_rc resolve_addresses(
    lk_dataset *dataset, const lk_take_rows *rows, lk_live_address *out, size_t *count, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < rows->count; i++) {
        size_t             at = 0;
        uint32_t           row = (uint32_t)rows->rows[i];
        const lk_deletion *deletion = NULL;
        if (!lk_dataset_fragment_number(dataset, (uint32_t)(rows->rows[i] >> 32), &at) ||
            row >= dataset->manifest->fragments[at].physical_rows) {
            rc = no_row("address", rows->rows[i], err);
        } else {
            rc = lk_dataset_deletion(dataset, at, &deletion, err);
        }
        if (rc == LK_OK && !is_deleted(deletion, row)) {
            out[(*count)++] = (lk_live_address){(uint32_t)at, row};
        }
    }
    return rc;
}

/* Stable ids: one that no row has is left out. */
static lk_rc resolve_ids(
    lk_dataset *dataset, const lk_take_rows *rows, lk_live_address *out, size_t *count, lk_err *err)
{
    uint64_t *addresses = malloc((rows->count + 1) * sizeof *addresses);
    LK_ASSERT(addresses != NULL);
    lk_rc rc = lk_dataset_find_rows(dataset, rows->rows, rows->count, addresses, err);
    for (size_t i = 0; rc == LK_OK && i < rows->count; i++) {
        size_t at = 0;
        if (addresses[i] != LK_ROW_ID_NONE &&
            lk_dataset_fragment_number(dataset, (uint32_t)(addresses[i] >> 32), &at)) {
            out[(*count)++] = (lk_live_address){(uint32_t)at, (uint32_t)addresses[i]};
        }
    }
    free(addresses);
    return rc;
}

/* -- offsets ------------------------------------------------------------------------------------------- */
typedef struct offset {
    uint64_t offset;
    size_t   place;
} offset;

static int by_offset(const void *left, const void *right)
{
    uint64_t a = ((const offset *)left)->offset, b = ((const offset *)right)->offset;
    return (a > b) - (a < b);
}

/* Walks through a fragment's live rows, forwards. */
typedef struct walker {
    const uint64_t *bits;         /* of deleted rows; NULL: none is */
    uint64_t        word, before; /* live rows before bits[word] */
} walker;

/* The row of the fragment's live row number `live`, which is there; not before the last one asked for. */
static uint32_t row_of(walker *self, uint64_t live)
{
    if (self->bits == NULL) {
        return (uint32_t)live;
    }
    uint64_t here = ~self->bits[self->word], ones = (uint64_t)__builtin_popcountll(here);
    while (self->before + ones <= live) {
        self->before += ones;
        here = ~self->bits[++self->word];
        ones = (uint64_t)__builtin_popcountll(here);
    }
    for (uint64_t skip = live - self->before; skip > 0; skip--) {
        here &= here - 1;
    }
    return (uint32_t)(self->word * 64 + (uint64_t)__builtin_ctzll(here));
}

static lk_rc walk_offsets(
    lk_dataset *dataset, const offset *sorted, size_t count, lk_live_address *out, lk_err *err)
{
    const lk_manifest *manifest = dataset->manifest;
    uint64_t           before = 0;
    size_t             at = 0;
    for (uint32_t index = 0; at < count && index < manifest->fragment_count; index++) {
        const lk_fragment *fragment = &manifest->fragments[index];
        uint64_t           live = fragment->physical_rows - fragment->deletion.count;
        walker             walk = {0};
        const lk_deletion *deletion = NULL;
        if (sorted[at].offset - before < live) {
            lk_rc rc = lk_dataset_deletion(dataset, index, &deletion, err);
            if (rc != LK_OK) {
                return rc;
            }
            walk.bits = deletion == NULL ? NULL : lk_deletion_bits(deletion);
        }
        for (; at < count && sorted[at].offset - before < live; at++) {
            out[sorted[at].place] = (lk_live_address){index, row_of(&walk, sorted[at].offset - before)};
        }
        before += live;
    }
    return at == count ? LK_OK : no_row("offset", sorted[at].offset, err);
}

static lk_rc resolve_offsets(
    lk_dataset *dataset, const lk_take_rows *rows, lk_live_address *out, size_t *count, lk_err *err)
{
    offset *sorted = malloc((rows->count + 1) * sizeof *sorted);
    LK_ASSERT(sorted != NULL);
    for (size_t i = 0; i < rows->count; i++) {
        sorted[i] = (offset){rows->rows[i], i};
    }
    qsort(sorted, rows->count, sizeof *sorted, by_offset);
    lk_rc rc = walk_offsets(dataset, sorted, rows->count, out, err);
    free(sorted);
    *count = rows->count;
    return rc;
}

lk_rc lk_take_resolve(
    lk_dataset *dataset, const lk_take_rows *rows, lk_live_address **out, size_t *count, lk_err *err)
{
    lk_live_address *found = malloc((rows->count + 1) * sizeof *found);
    if (found == NULL) {
        return lk_fail(err, LK_E_LIMIT, "no memory for %zu rows", rows->count);
    }
    *count = 0;
    lk_rc rc = LK_OK;
    if (rows->by == LK_TAKE_OFFSET) {
        rc = resolve_offsets(dataset, rows, found, count, err);
    } else if (rows->by == LK_TAKE_ROW_ID && lk_dataset_has_stable_row_ids(dataset)) {
        rc = resolve_ids(dataset, rows, found, count, err);
    } else {
        rc = resolve_addresses(dataset, rows, found, count, err);
    }
    if (rc != LK_OK) {
        free(found);
        return rc;
    }
    *out = found;
    return LK_OK;
}
