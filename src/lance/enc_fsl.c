/*
 * enc_fsl.c - fixed-size lists: the items of a row lie side by side; a level whose items may be null has a
 * bitmap of its own in front of the values.
 */
#include "lance/codec.h"

typedef struct shape {
    size_t   levels;
    uint32_t sizes[LK_LIST_LEVELS_MAX]; /* outer to inner */
    bool     has_validity[LK_LIST_LEVELS_MAX];
} shape;

static lk_rc same_shape(const shape *lists, const lk_column *column, lk_err *err)
{
    bool same = lists->levels == column->level_count;
    for (size_t level = 0; same && level < lists->levels; level++) {
        same = lists->sizes[level] == column->levels[level].size;
    }
    return same ? LK_OK : lk_fail(err, LK_E_CORRUPT_FILE, "a page of other fixed-size lists than its column");
}

static lk_rc append_items(
    const shape *lists, const lk_chunk *chunk, uint32_t start, uint32_t count, lk_column *column, lk_err *err)
{
    size_t buffer = 0;
    for (size_t level = 0; level < lists->levels; level++) {
        uint64_t       items = column->levels[level].items;
        const uint8_t *bits = NULL;
        if (lists->has_validity[level]) {
            if (chunk->buffers[buffer].size < (chunk->values * items + 7) / 8) {
                return lk_fail(err, LK_E_CORRUPT_FILE, "the validity of list items ends early");
            }
            bits = (const uint8_t *)chunk->buffers[buffer++].data;
        }
        lk_rc rc = lk_column_items(column, level, bits, start * items, count, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

static lk_rc list_append(const lk_codec *codec, const lk_chunk *chunk, uint32_t start, uint32_t count,
    lk_column *column, lk_scratch *scratch, lk_err *err)
{
    const shape *lists = codec->state;
    lk_rc        rc = same_shape(lists, column, err);
    if (rc == LK_OK) {
        rc = append_items(lists, chunk, start, count, column, err);
    }
    if (rc != LK_OK || codec->nulls) {
        return rc;
    }
    lk_chunk values = {.buffers = {chunk->buffers[codec->param]}, .buffer_count = 1, .values = chunk->values};
    return codec->inner->append(codec->inner, &values, start, count, column, scratch, err);
}

/* The innermost values, and the lists around them. */
static const lk_encoding *unwrap(const lk_encoding *encoding, shape *lists, uint64_t *items)
{
    while (encoding->kind == LK_ENCODING_FIXED_SIZE_LIST && lists->levels < LK_LIST_LEVELS_MAX) {
        lists->sizes[lists->levels] = encoding->items_per_value;
        lists->has_validity[lists->levels] = encoding->has_validity;
        lists->levels++;
        *items *= encoding->items_per_value;
        if (*items > UINT32_MAX) {
            return NULL;
        }
        encoding = encoding->values;
    }
    return encoding;
}

lk_rc lk_fsl_codec(const lk_encoding *encoding, lk_arena *arena, lk_codec *out, lk_err *err)
{
    shape             *lists = lk_arena_take(arena, sizeof *lists);
    uint64_t           items = 1;
    const lk_encoding *values = unwrap(encoding, lists, &items);
    if (values == NULL || values->bits * items > UINT32_MAX) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "fixed-size lists of too many items");
    }
    bool nulls = values->kind == LK_ENCODING_CONSTANT && lists->levels > 0;
    if (values->kind != LK_ENCODING_FLAT && !nulls) {
        lk_rc rc =
            lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "a fixed-size list of encoding %d", (int)values->kind);
        lk_detail(err, "Lance encoding fixed-size list of values that are not flat");
        return rc;
    }
    lk_codec   *inner = lk_arena_take(arena, sizeof *inner);
    lk_encoding row = *values;
    row.bits = (uint32_t)(values->bits * items);
    *out =
        (lk_codec){.append = list_append, .bits = row.bits, .sliced = true, .inner = inner, .state = lists};
    for (size_t level = 0; level < lists->levels; level++) {
        out->param += lists->has_validity[level];
    }
    out->buffers = out->param + 1;
    out->nulls = nulls;
    return nulls ? LK_OK : lk_flat_codec(&row, inner, err);
}
