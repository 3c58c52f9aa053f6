/*
 * row_id_list.c - new sequences of row ids: kept as runs while they grow, written as segments, each stretch in the
 * form that takes the fewest bytes.
 *
 * A stretch is a part that ascends without a wide gap. Short stretches that follow each other, as rows in no order
 * make them, are one array.
 */
#include "lance/row_ids_priv.h"
#include "lance/wire.h"

enum {
    GAP_MAX = 1 << 16,   /* a wider gap ends a stretch */
    STRETCH_MIN = 16,    /* ids; shorter ones are put together */
    READ_AT_ONCE = 1024, /* ids of a slice */
    SEGMENT_COST = 24    /* bytes around one, about */
};

typedef struct run {
    uint64_t start, count;
} run;

static const run *runs_of(const lk_id_list *list, size_t *count)
{
    *count = list->runs.size / sizeof(run);
    return (const run *)(const void *)list->runs.data;
}

void lk_id_list_add_range(lk_id_list *list, uint64_t start, uint64_t count)
{
    size_t used = list->runs.size / sizeof(run);
    run   *last = used == 0 ? NULL : (run *)(void *)list->runs.data + used - 1;
    list->count += count;
    if (last != NULL && last->start + last->count == start) {
        last->count += count;
    } else if (count > 0) {
        run added = {start, count};
        lk_buf_append(&list->runs, &added, sizeof added);
    }
}

void lk_id_list_add(lk_id_list *list, const uint64_t *ids, size_t count)
{
    for (size_t i = 0; i < count;) {
        size_t from = i++;
        while (i < count && ids[i] == ids[i - 1] + 1) {
            i++;
        }
        lk_id_list_add_range(list, ids[from], i - from);
    }
}

static void add_live(
    lk_id_list *list, const uint64_t *ids, uint64_t first, size_t count, const uint64_t *deleted)
{
    uint64_t live[READ_AT_ONCE];
    size_t   kept = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t row = first + i;
        live[kept] = ids[i];
        kept += (deleted[row / 64] >> (row % 64) & 1) == 0;
    }
    lk_id_list_add(list, live, kept);
}

void lk_id_list_add_slice(
    lk_id_list *list, const lk_row_ids *from, uint64_t first, uint64_t count, const uint64_t *deleted)
{
    uint64_t ids[READ_AT_ONCE];
    for (uint64_t end = first + count; first < end;) {
        size_t some = end - first < READ_AT_ONCE ? (size_t)(end - first) : READ_AT_ONCE;
        lk_row_ids_read(from, first, some, ids);
        if (deleted == NULL) {
            lk_id_list_add(list, ids, some);
        } else {
            add_live(list, ids, first, some, deleted);
        }
        first += some;
    }
}

void lk_id_list_deinit(lk_id_list *list)
{
    lk_buf_deinit(&list->runs);
    list->count = 0;
}

/* -- arrays ---------------------------------------------------------------------------------------------- */

typedef struct span { /* values that go into one array */
    uint64_t low, high, count;
} span;

static unsigned item_width(const span *values)
{
    uint64_t spread = values->high - values->low;
    return spread <= UINT16_MAX ? 2 : spread <= UINT32_MAX ? 4 : 8;
}

typedef struct array_writer {
    unsigned width;
    uint64_t base;
    lk_buf   items;
} array_writer;

static array_writer start_array(const span *values)
{
    unsigned width = item_width(values);
    return (array_writer){.width = width, .base = width == 8 ? 0 : values->low};
}

static void put_item(array_writer *array, uint64_t value)
{
    uint64_t offset = value - array->base;
    lk_buf_append(&array->items, &offset, array->width); /* the low bytes come first */
}

/* Appends the EncodedU64Array message as field `number`. */
static void end_array(array_writer *array, uint32_t number, lk_buf *out)
{
    enum { BASE = 1, ITEMS = 2 };
    lk_buf body = {0}, message = {0};
    if (array->base != 0) {
        lk_wire_put_u64(&body, BASE, array->base);
    }
    lk_wire_put_bytes(&body, ITEMS, lk_buf_view(&array->items));
    lk_wire_put_bytes(&message, array->width == 2 ? 1 : array->width == 4 ? 2 : 3, lk_buf_view(&body));
    lk_wire_put_bytes(out, number, lk_buf_view(&message));
    lk_buf_deinit(&body);
    lk_buf_deinit(&message);
    lk_buf_deinit(&array->items);
}

/* -- segments -------------------------------------------------------------------------------------------- */

static void put_segment(lk_buf *out, lk_id_segment_kind kind, const lk_buf *body)
{
    enum { SEGMENT = 1 };
    lk_buf segment = {0};
    lk_wire_put_bytes(&segment, (uint32_t)kind, lk_buf_view(body));
    lk_wire_put_bytes(out, SEGMENT, lk_buf_view(&segment));
    lk_buf_deinit(&segment);
}

static void put_ends(lk_buf *body, uint64_t start, uint64_t end)
{
    enum { START = 1, END = 2 };
    if (start != 0) {
        lk_wire_put_u64(body, START, start);
    }
    lk_wire_put_u64(body, END, end);
}

static void put_ranges(const run *runs, size_t count, lk_buf *out)
{
    for (size_t i = 0; i < count; i++) {
        lk_buf body = {0};
        put_ends(&body, runs[i].start, runs[i].start + runs[i].count);
        put_segment(out, LK_ID_RANGE, &body);
        lk_buf_deinit(&body);
    }
}

static void put_holes(const run *runs, size_t count, lk_buf *out)
{
    enum { HOLES = 3 };
    lk_buf       body = {0};
    uint64_t     end = runs[count - 1].start + runs[count - 1].count;
    span         holes = {runs[0].start + runs[0].count, runs[count - 1].start - 1, 0};
    array_writer array = start_array(&holes);
    for (size_t i = 0; i + 1 < count; i++) {
        for (uint64_t hole = runs[i].start + runs[i].count; hole < runs[i + 1].start; hole++) {
            put_item(&array, hole);
        }
    }
    put_ends(&body, runs[0].start, end);
    end_array(&array, HOLES, &body);
    put_segment(out, LK_ID_HOLES, &body);
    lk_buf_deinit(&body);
}

static void put_bitmap(const run *runs, size_t count, lk_buf *out)
{
    enum { BITMAP = 3 };
    lk_buf   body = {0}, bits = {0};
    uint64_t start = runs[0].start, end = runs[count - 1].start + runs[count - 1].count;
    lk_buf_append_zeros(&bits, (size_t)((end - start + 7) / 8));
    for (size_t i = 0; i < count; i++) {
        for (uint64_t id = runs[i].start; id < runs[i].start + runs[i].count; id++) {
            bits.data[(id - start) / 8] =
                (char)((uint8_t)bits.data[(id - start) / 8] | 1U << ((id - start) % 8));
        }
    }
    put_ends(&body, start, end);
    lk_wire_put_bytes(&body, BITMAP, lk_buf_view(&bits));
    put_segment(out, LK_ID_BITMAP, &body);
    lk_buf_deinit(&bits);
    lk_buf_deinit(&body);
}

static void put_array(const run *runs, size_t count, const span *values, lk_id_segment_kind kind, lk_buf *out)
{
    lk_buf       segment = {0};
    array_writer array = start_array(values);
    for (size_t i = 0; i < count; i++) {
        for (uint64_t id = runs[i].start; id < runs[i].start + runs[i].count; id++) {
            put_item(&array, id);
        }
    }
    end_array(&array, (uint32_t)kind, &segment);
    lk_wire_put_bytes(out, 1, lk_buf_view(&segment));
    lk_buf_deinit(&segment);
}

/* A stretch in its smallest form. Readers walk segments one by one, so a stretch is cut into few of them. */
static void put_stretch(const run *runs, size_t count, const span *values, lk_buf *out)
{
    enum { RANGES_MAX = 64 };
    uint64_t slots = values->high - values->low + 1;
    span     holes = {runs[0].start + runs[0].count, runs[count - 1].start, slots - values->count};
    uint64_t as_ranges = count <= RANGES_MAX ? count * SEGMENT_COST : UINT64_MAX;
    uint64_t as_holes = SEGMENT_COST * 2 + holes.count * (count == 1 ? 0 : item_width(&holes));
    uint64_t as_bitmap = SEGMENT_COST + slots / 8;
    uint64_t as_array = SEGMENT_COST + values->count * item_width(values);
    if (count == 1 || (as_ranges <= as_holes && as_ranges <= as_bitmap && as_ranges <= as_array)) {
        put_ranges(runs, count, out);
    } else if (as_holes <= as_bitmap && as_holes <= as_array) {
        put_holes(runs, count, out);
    } else if (as_bitmap <= as_array) {
        put_bitmap(runs, count, out);
    } else {
        put_array(runs, count, values, LK_ID_SORTED_ARRAY, out);
    }
}

/* How many runs from here on make up a stretch. */
static size_t stretch_length(const run *runs, size_t count, span *values)
{
    size_t length = 1;
    *values = (span){runs[0].start, runs[0].start + runs[0].count - 1, runs[0].count};
    for (; length < count; length++) {
        const run *next = &runs[length];
        if (next->start <= values->high || next->start - values->high > GAP_MAX) {
            break;
        }
        values->high = next->start + next->count - 1;
        values->count += next->count;
    }
    return length;
}

static void widen(span *all, const span *more)
{
    *all = all->count == 0 ? *more
                           : (span){all->low < more->low ? all->low : more->low,
                                 all->high > more->high ? all->high : more->high, all->count + more->count};
}

/* The short stretches that were put together: runs [from, to). */
static void put_short(const run *runs, size_t from, size_t to, const span *values, lk_buf *out)
{
    if (to - from == 1) {
        put_ranges(runs + from, 1, out);
    } else if (to > from) {
        put_array(runs + from, to - from, values, LK_ID_ARRAY, out);
    }
}

void lk_id_list_encode(const lk_id_list *list, lk_buf *out)
{
    size_t     count = 0, from = 0, at = 0;
    const run *runs = runs_of(list, &count);
    span       pending = {0}, values = {0};
    while (at < count) {
        size_t length = stretch_length(runs + at, count - at, &values);
        if (values.count < STRETCH_MIN) {
            widen(&pending, &values);
        } else {
            put_short(runs, from, at, &pending, out);
            put_stretch(runs + at, length, &values, out);
            from = at + length;
            pending = (span){0};
        }
        at += length;
    }
    put_short(runs, from, at, &pending, out);
}
