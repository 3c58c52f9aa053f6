/*
 * deletion.c - see deletion.h. Both kinds end in one bitmap over the fragment's rows; a row is checked against the
 * fragment before it is set.
 */
#include "lance/deletion.h"

#include "arrow/ipc.h"
#include "base/limits.h"
#include "lance/deletion_write.h"
#include "lance/roaring_read.h"

#include <inttypes.h>
#include <stdlib.h>

struct lk_deletion {
    uint64_t  rows;  /* of the fragment */
    uint64_t  count; /* bits set */
    uint64_t *words;
};

static lk_rc corrupt(lk_err *err, const char *what)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "%s", what);
}

static lk_rc add(lk_deletion *deletion, uint64_t row, lk_err *err)
{
    if (row >= deletion->rows) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "row %" PRIu64 " of %" PRIu64, row, deletion->rows);
    }
    uint64_t bit = UINT64_C(1) << (row % 64);
    if ((deletion->words[row / 64] & bit) != 0) { /* also bounds the work: no row is added twice */
        return lk_fail(err, LK_E_CORRUPT_FILE, "row %" PRIu64 " is given twice", row);
    }
    deletion->words[row / 64] |= bit;
    deletion->count++;
    return LK_OK;
}

/* -- Arrow file -------------------------------------------------------------------------------------- */

static lk_rc add_batch(lk_deletion *deletion, const struct ArrowArray *batch, lk_err *err)
{
    const struct ArrowArray *column = batch->children[0];
    if (column->null_count != 0 && column->buffers[0] != NULL) {
        return corrupt(err, "a null among the deleted rows");
    }
    const uint32_t *values = (const uint32_t *)column->buffers[1] + column->offset + batch->offset;
    for (int64_t i = 0; i < batch->length; i++) {
        lk_rc rc = add(deletion, values[i], err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

static lk_rc add_arrow(lk_deletion *deletion, lk_bytes file, lk_err *err)
{
    lk_batches *batches = NULL;
    lk_rc       rc = lk_ipc_open(lk_ipc_source_bytes(file), NULL, &batches, err);
    if (rc == LK_OK &&
        (batches->schema.n_children != 1 || strcmp(batches->schema.children[0]->format, "I") != 0 ||
            batches->schema.children[0]->dictionary != NULL)) {
        rc = corrupt(err, "not one column of uint32");
    }
    bool more = rc == LK_OK;
    while (more) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        if (more) {
            rc = add_batch(deletion, &batch, err);
            lk_array_release(&batch);
            more = rc == LK_OK;
        }
    }
    lk_batches_close(batches);
    return rc;
}

/* -- Roaring bitmap ------------------------------------------------------------------------------------ */

static lk_rc add_run(void *context, uint32_t first, uint32_t count, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (uint64_t row = first; rc == LK_OK && row < (uint64_t)first + count; row++) {
        rc = add(context, row, err);
    }
    return rc;
}

/* What is wrong with the Arrow file is wrong with the table, not with a request. */
static lk_rc add_arrow_file(lk_deletion *deletion, lk_bytes file, lk_err *err)
{
    lk_rc rc = add_arrow(deletion, file, err);
    if (rc != LK_E_INVALID_IPC) {
        return rc;
    }
    lk_err cause = *err;
    *err = (lk_err){0};
    return lk_fail(err, LK_E_CORRUPT_FILE, "%s", cause.detail);
}

/* -- reading ----------------------------------------------------------------------------------------- */

lk_rc lk_deletion_parse(
    lk_deletion_kind kind, lk_bytes file, uint64_t rows, uint64_t count, lk_deletion **out, lk_err *err)
{
    lk_deletion *deletion = calloc(1, sizeof *deletion);
    LK_ASSERT(deletion != NULL && rows <= UINT32_MAX);
    deletion->rows = rows;
    deletion->words = calloc((size_t)rows / 64 + 1, sizeof *deletion->words);
    lk_rc rc = deletion->words == NULL      ? lk_fail(err, LK_E_LIMIT, "no memory for %" PRIu64 " rows", rows)
               : kind == LK_DELETION_BITMAP ? lk_roaring_read(file, add_run, deletion, err)
                                            : add_arrow_file(deletion, file, err);
    if (rc == LK_OK && deletion->count != count) {
        rc = lk_fail(
            err, LK_E_CORRUPT_FILE, "%" PRIu64 " rows, the manifest says %" PRIu64, deletion->count, count);
    }
    if (rc != LK_OK) {
        lk_deletion_close(deletion);
        return rc;
    }
    *out = deletion;
    return LK_OK;
}

lk_rc lk_deletion_read(lk_store *store, const lk_fragment *fragment, lk_deletion **out, lk_err *err)
{
    lk_arena                arena = {0};
    lk_bytes                file = {0};
    const lk_deletion_file *in = &fragment->deletion;
    lk_bytes                key = lk_deletion_key(fragment->id, in, &arena);

    lk_rc rc = lk_store_load(store, key, LK_DELETION_BYTES_MAX, &arena, &file, err);
    if (rc == LK_OK) {
        rc = lk_deletion_parse(in->kind, file, fragment->physical_rows, in->count, out, err);
    }
    if (rc != LK_OK) {
        lk_context(err, "deletion file %.*s", LK_FMT(key));
    }
    lk_arena_close(&arena);
    return rc;
}

void lk_deletion_close(lk_deletion *deletion)
{
    if (deletion != NULL) {
        free(deletion->words);
        free(deletion);
    }
}

uint64_t lk_deletion_count(const lk_deletion *deletion)
{
    return deletion->count;
}

size_t lk_deletion_bytes(const lk_deletion *deletion)
{
    return sizeof *deletion + ((size_t)deletion->rows / 64 + 1) * sizeof *deletion->words;
}

const uint64_t *lk_deletion_bits(const lk_deletion *deletion)
{
    return deletion->words;
}

/* -- asking ------------------------------------------------------------------------------------------ */

/* The bits of word `index` that lie in [first, end). */
static uint64_t word_in_range(const lk_deletion *deletion, uint64_t index, uint64_t first, uint64_t end)
{
    uint64_t word = deletion->words[index];
    if (index == first / 64) {
        word &= UINT64_MAX << (first % 64);
    }
    if (index == end / 64) {
        word &= (UINT64_C(1) << (end % 64)) - 1;
    }
    return word;
}

uint64_t lk_deletion_count_range(const lk_deletion *deletion, uint64_t first, uint64_t count)
{
    uint64_t found = 0;
    if (deletion == NULL || count == 0) {
        return 0;
    }
    LK_ASSERT(first <= deletion->rows && count <= deletion->rows - first);
    for (uint64_t index = first / 64; index <= (first + count) / 64; index++) {
        found += (uint64_t)__builtin_popcountll(word_in_range(deletion, index, first, first + count));
    }
    return found;
}

uint64_t lk_deletion_clear(const lk_deletion *deletion, uint64_t first, uint64_t count, uint8_t *live)
{
    uint64_t cleared = 0;
    if (deletion == NULL || count == 0) {
        return 0;
    }
    LK_ASSERT(first <= deletion->rows && count <= deletion->rows - first);
    for (uint64_t index = first / 64; index <= (first + count) / 64; index++) {
        for (uint64_t word = word_in_range(deletion, index, first, first + count); word != 0;
             word &= word - 1) {
            live[index * 64 + (uint64_t)__builtin_ctzll(word) - first] = 0;
            cleared++;
        }
    }
    return cleared;
}
