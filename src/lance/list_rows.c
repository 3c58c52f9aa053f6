/* list_rows.c - see list_rows.h. */
#include "lance/list_rows.h"

#include "lance/cpu.h"

enum { AT_ONCE = 4 }; /* offsets of a word of marks */

#define NONE ((uint64_t)1 << 63) /* the lowest of no bits would be undefined */

lk_rc lk_list_rows_init(lk_list_rows *self, size_t layer_count, size_t list, uint64_t room,
    unsigned offset_bytes, lk_buffer_pool *pool, lk_err *err)
{
    *self =
        (lk_list_rows){.offset_bytes = offset_bytes, .room = room, .list = list, .layer_count = layer_count};
    return room < SIZE_MAX / 16
               ? lk_buffer_take(pool, (size_t)(room + 1 + AT_ONCE) * offset_bytes, &self->offsets, err)
               : lk_fail(err, LK_E_LIMIT, "%llu lists", (unsigned long long)room);
}

void lk_list_rows_deinit(lk_list_rows *self)
{
    lk_buffer_give(&self->offsets);
    for (size_t layer = 0; layer < LK_MARK_LAYERS_MAX; layer++) {
        lk_buffer_give(&self->validity[layer].bits);
    }
}

static uint64_t lowest(uint64_t bits)
{
    return bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

static unsigned ones(uint64_t word)
{
    return (unsigned)__builtin_popcountll(word);
}

/* -- offsets ------------------------------------------------------------------------------------------ */
static inline void put_offset(uint8_t *to, unsigned width, uint64_t offset)
{
    if (width == 4) {
        lk_store_u32(to, (uint32_t)offset);
    } else {
        lk_store_u64(to, offset);
    }
}

/* Where the rows begin that these entries start; returns how many. Every entry has a value. Most words have a few starts: so many
 * are put without asking, of which those that are none are overwritten; asking would be guessed wrong every other time. */
static inline __attribute__((always_inline)) uint64_t put_plain(
    const lk_marks *marks, uint64_t first, uint64_t end, uint64_t value, uint8_t *to, unsigned width)
{
    const uint8_t *begin = to;
    for (uint64_t at = first; at < end; at += 64, value += 64) {
        uint64_t starts = lk_marks_word(marks->starts, at) & lowest(end - at);
        unsigned count = ones(starts);
        for (unsigned i = 0; i < AT_ONCE; i++, starts &= starts - 1) {
            put_offset(to + i * width, width, value + (uint64_t)__builtin_ctzll(starts | NONE));
        }
        for (uint8_t *more = to + AT_ONCE * width; starts != 0; starts &= starts - 1, more += width) {
            put_offset(more, width, value + (uint64_t)__builtin_ctzll(starts));
        }
        to += (size_t)count * width;
    }
    return (uint64_t)(to - begin) / width;
}

/* The same where some have none; `value` is the one that the first of them has. */
static inline __attribute__((always_inline)) uint64_t put_hidden(
    const lk_marks *marks, uint64_t first, uint64_t end, uint64_t value, uint8_t *to, unsigned width)
{
    const uint8_t *begin = to;
    for (uint64_t at = first; at < end; at += 64) {
        uint64_t mask = lowest(end - at), starts = lk_marks_word(marks->starts, at) & mask;
        uint64_t hidden = lk_marks_word(marks->hidden, at) & mask;
        for (; starts != 0; starts &= starts - 1, to += width) {
            uint64_t before = (starts & -starts) - 1; /* the entries in front of this one */
            put_offset(to, width, value + ones(before) - (hidden == 0 ? 0 : ones(hidden & before)));
        }
        value += 64 - ones(hidden);
    }
    return (uint64_t)(to - begin) / width;
}

LK_VECTOR static uint64_t put_offsets(const lk_marks *marks, uint64_t first, uint64_t end, uint64_t value,
    bool hidden, uint8_t *to, unsigned width)
{
    if (hidden) {
        return width == 4 ? put_hidden(marks, first, end, value, to, 4)
                          : put_hidden(marks, first, end, value, to, 8);
    }
    return width == 4 ? put_plain(marks, first, end, value, to, 4)
                      : put_plain(marks, first, end, value, to, 8);
}

LK_VECTOR static uint64_t count_starts(const lk_marks *marks, uint64_t first, uint64_t end)
{
    uint64_t found = 0;
    for (uint64_t at = first; at < end; at += 64) {
        found += ones(lk_marks_word(marks->starts, at) & lowest(end - at));
    }
    return found;
}

/* -- validity ----------------------------------------------------------------------------------------- */
/* The bits of `word` where `chosen` has ones, moved together: bit by bit, or without the others, whichever are fewer. */
static inline __attribute__((always_inline)) uint64_t gather(uint64_t word, uint64_t chosen)
{
    uint64_t out = 0, count = ones(chosen);
    if (count <= 32) {
        for (unsigned to = 0; chosen != 0; chosen &= chosen - 1, to++) {
            out |= (word >> __builtin_ctzll(chosen) & 1) << to;
        }
        return out;
    }
    out = word;
    for (uint64_t others = ~chosen; others != 0;) { /* from the highest on */
        unsigned at = 63U - (unsigned)__builtin_clzll(others);
        uint64_t below = ((uint64_t)1 << at) - 1;
        out = (out & below) | (out >> 1 & ~below);
        others &= below;
    }
    return out & lowest(count);
}

/* A validity that has `at` bits. */
typedef struct picked {
    lk_validity    *validity;
    lk_buffer_pool *pool;
    uint64_t        capacity, at;
} picked;

/* Up to 64 bits behind those that are there; a bitmap has 8 bytes more than its capacity takes. */
static inline __attribute__((always_inline)) void put_bits(
    uint8_t *bits, uint64_t at, uint64_t word, unsigned count)
{
    uint8_t *to = bits + at / 8;
    unsigned shift = (unsigned)(at % 8);
    lk_store_u64(to, (to[0] & ((1U << shift) - 1)) | word << shift);
    if (shift + count > 64) {
        to[8] = (uint8_t)(word >> (64 - shift));
    }
}

/* Those of 64 entries that are chosen, valid but for `nulls`. */
static inline __attribute__((always_inline)) lk_rc put_valid(
    picked *to, uint64_t nulls, uint64_t chosen, lk_err *err)
{
    lk_rc    rc = LK_OK;
    unsigned count = ones(chosen);
    if (to->validity->bits.data != NULL) {
        to->validity->null_count += ones(nulls & chosen);
        put_bits(to->validity->bits.data, to->at, gather(~nulls, chosen), count);
    } else if ((nulls & chosen) != 0) { /* the first */
        uint64_t bits = gather(~nulls, chosen);
        rc = lk_validity_put(
            to->validity, to->pool, to->capacity, to->at, (const uint8_t *)&bits, 0, count, err);
    }
    to->at += count;
    return rc;
}

/* Of a layer whose values are the rows: the list, and what is around it. */
LK_VECTOR static lk_rc append_rows(
    picked to, const lk_marks *marks, const uint64_t *nulls, uint64_t first, uint64_t end, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (uint64_t at = first; rc == LK_OK && at < end; at += 64) {
        uint64_t starts = lk_marks_word(marks->starts, at) & lowest(end - at);
        rc = put_valid(&to, lk_marks_word(nulls, at), starts, err);
    }
    return rc;
}

/* Of a layer in the list: every entry that is shown has a value of it. */
LK_VECTOR static lk_rc append_items(
    picked to, const lk_marks *marks, const uint64_t *nulls, uint64_t first, uint64_t end, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (uint64_t at = first; rc == LK_OK && at < end; at += 64) {
        uint64_t shown = ~lk_marks_word(marks->hidden, at) & lowest(end - at);
        rc = put_valid(&to, lk_marks_word(nulls, at), shown, err);
    }
    return rc;
}

static lk_rc append_validity(lk_list_rows *self, size_t layer, const lk_marks *marks, uint64_t first,
    uint64_t end, lk_column *column, lk_err *err)
{
    lk_validity    *validity = layer == 0 ? &column->validity : &self->validity[layer];
    const uint64_t *nulls = marks->nulls[layer];
    if (nulls == NULL && validity->bits.data == NULL) {
        return LK_OK;
    }
    if (layer >= self->list) {
        return append_rows(
            (picked){validity, column->pool, self->room, self->rows}, marks, nulls, first, end, err);
    }
    lk_rc rc = LK_OK;
    if (validity->bits.data != NULL) { /* it grows with the column */
        size_t used = (size_t)(self->values + 7) / 8;
        rc = lk_buffer_grow(column->pool, &validity->bits, used, (size_t)column->capacity / 8 + 8, err);
    }
    picked to = {validity, column->pool, column->capacity, self->values};
    return rc == LK_OK ? append_items(to, marks, nulls, first, end, err) : rc;
}

/* -- entries ------------------------------------------------------------------------------------------ */
/* An entry without a value is a row of its own. */
static bool hides_inside(const lk_marks *marks, uint64_t first, uint64_t end)
{
    uint64_t wrong = 0;
    for (uint64_t at = first; at < end && marks->hidden != NULL; at += 64) {
        wrong |= lk_marks_word(marks->hidden, at) & ~lk_marks_word(marks->starts, at) & lowest(end - at);
    }
    return wrong != 0;
}

static lk_rc check(const lk_list_rows *self, const lk_marks *marks, uint64_t first, uint64_t end,
    uint64_t rows, uint64_t values, lk_err *err)
{
    if (self->rows == 0 && (lk_marks_word(marks->starts, first) & 1) == 0) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "rows begin in the middle of one");
    }
    if (hides_inside(marks, first, end)) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a null or empty list inside of another");
    }
    if (rows > self->room - self->rows) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "more rows than its pages have");
    }
    if (self->offset_bytes == 4 && self->values + values > INT32_MAX) {
        return lk_fail(err, LK_E_LIMIT, "more than 2^31 list items in one batch");
    }
    return LK_OK;
}

lk_rc lk_list_rows_append(
    lk_list_rows *self, const lk_marks *marks, uint64_t first, uint64_t end, lk_column *column, lk_err *err)
{
    if (first == end) {
        return LK_OK;
    }
    uint64_t rows = count_starts(marks, first, end), values = lk_marks_values(marks, first, end);
    lk_rc    rc = check(self, marks, first, end, rows, values, err);
    for (size_t layer = 0; rc == LK_OK && layer < self->layer_count; layer++) {
        rc = append_validity(self, layer, marks, first, end, column, err);
    }
    if (rc == LK_OK) {
        uint8_t *to = self->offsets.data + self->rows * self->offset_bytes;
        (void)put_offsets(marks, first, end, self->values, marks->hidden != NULL, to, self->offset_bytes);
        self->rows += rows;
        self->values += values;
    }
    return rc;
}

void lk_list_rows_finish(lk_list_rows *self)
{
    put_offset(self->offsets.data + self->rows * self->offset_bytes, self->offset_bytes, self->values);
}
