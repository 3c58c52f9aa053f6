/*
 * row_ids.c - see row_ids.h: the sequences as they are stored, parsed and read in place.
 *
 *   RowIdSequence { segments[]: U64Segment }
 *   U64Segment = range | range_with_holes | range_with_bitmap (lowest bit first) | sorted_array | array
 *
 * A segment finds its n-th id without being unpacked: by arithmetic, by a search among its holes, by ranks over
 * its bitmap, or in its array.
 */
#include "lance/row_ids.h"

#include "lance/row_ids_priv.h"
#include "lance/wire.h"

#include <inttypes.h>

enum { BLOCK_BITS = 512 }; /* of a bitmap: a rank each */

struct lk_id_segment {
    lk_id_segment_kind kind;
    uint32_t           width; /* bytes of an item of data: 2, 4 or 8; a bitmap's: 1 */
    uint64_t           first; /* ids in the segments before it */
    uint64_t           count; /* at least 1 */
    uint64_t           start; /* of the range; what an item is added to */
    uint64_t           base;  /* what the items of an array, or of the holes, are added to */
    const char        *data;  /* holes, bitmap or array */
    size_t             size;  /* of data */
    const uint32_t    *ranks; /* of a bitmap: ids before each block */
};

/* -- arrays ---------------------------------------------------------------------------------------------- */

static uint64_t item(const lk_id_segment *segment, uint64_t index)
{
    const char *at = segment->data + index * segment->width;
    switch (segment->width) {
    case 2:
        return segment->base + lk_load_u16(at);
    case 4:
        return segment->base + lk_load_u32(at);
    default:
        return lk_load_u64(at);
    }
}

static uint64_t item_count(const lk_id_segment *segment)
{
    return segment->size / segment->width;
}

static lk_rc corrupt(lk_err *err, const char *what)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "%s", what);
}

/* EncodedU64Array = u16_array {base, offsets} | u32_array {base, offsets} | u64_array {values}. */
static lk_rc parse_array(lk_bytes message, lk_id_segment *out, lk_err *err)
{
    static const uint32_t widths[] = {0, 2, 4, 8};
    enum { BASE = 1, OFFSETS = 2 };
    lk_wire_field field = {0}, array = {0};
    lk_bytes      items = {0};
    out->width = 0;
    while (message.size > 0) {
        if (!lk_wire_next(&message, &field)) {
            return corrupt(err, "an array of row ids is malformed");
        }
        if (field.number >= 1 && field.number <= 3) {
            array = field;
            out->width = widths[field.number];
        }
    }
    if (out->width == 0) {
        return corrupt(err, "an array of row ids has no kind that is known");
    }
    for (lk_bytes rest = array.value; rest.size > 0;) {
        if (!lk_wire_next(&rest, &field)) {
            return corrupt(err, "an array of row ids is malformed");
        }
        if (field.number == BASE) {
            out->base = field.varint;
        } else if (field.number == OFFSETS) {
            items = field.value;
        }
    }
    if (items.size % out->width != 0) {
        return corrupt(err, "an array of row ids is cut short");
    }
    out->base = out->width == 8 ? 0 : out->base;
    out->data = items.data;
    out->size = items.size;
    return LK_OK;
}

/* No item overflows or is no id, and, if they are to ascend, they do. */
static lk_rc check_items(const lk_id_segment *segment, bool ascending, lk_err *err)
{
    uint64_t count = item_count(segment), before = 0;
    for (uint64_t index = 0; index < count; index++) {
        uint64_t value = item(segment, index);
        if (value < segment->base || value == LK_ROW_ID_NONE) {
            return corrupt(err, "a row id does not fit 64 bits");
        }
        if (ascending && index > 0 && value <= before) {
            return corrupt(err, "row ids that should ascend do not");
        }
        before = value;
    }
    return LK_OK;
}

/* -- ranges ---------------------------------------------------------------------------------------------- */

typedef struct range {
    uint64_t start, end;
    bool     has_third;
    lk_bytes third; /* holes or bitmap */
} range;

static lk_rc parse_range(lk_bytes message, range *out, lk_err *err)
{
    enum { START = 1, END = 2, THIRD = 3 };
    lk_wire_field field = {0};
    *out = (range){0};
    while (message.size > 0) {
        if (!lk_wire_next(&message, &field)) {
            return corrupt(err, "a range of row ids is malformed");
        }
        if (field.number == START) {
            out->start = field.varint;
        } else if (field.number == END) {
            out->end = field.varint;
        } else if (field.number == THIRD) {
            out->third = field.value;
            out->has_third = true;
        }
    }
    return out->start <= out->end ? LK_OK : corrupt(err, "a range of row ids ends before it starts");
}

static lk_rc parse_holes(const range *in, lk_id_segment *out, lk_err *err)
{
    lk_rc rc =
        in->has_third ? parse_array(in->third, out, err) : corrupt(err, "a range of row ids lacks its holes");
    if (rc == LK_OK) {
        rc = check_items(out, true, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    uint64_t count = item_count(out);
    if (count > 0 && (item(out, 0) < in->start || item(out, count - 1) >= in->end)) {
        return corrupt(err, "a hole lies outside its range of row ids");
    }
    out->count = in->end - in->start - count;
    return LK_OK;
}

/* The word of a bitmap that starts at this byte; what lies behind its end is zero. */
static uint64_t word_at(const lk_id_segment *segment, size_t byte)
{
    uint64_t word = 0;
    size_t   size = segment->size - byte < 8 ? segment->size - byte : 8;
    memcpy(&word, segment->data + byte, size);
    return word;
}

static lk_rc parse_bitmap(const range *in, lk_arena *arena, lk_id_segment *out, lk_err *err)
{
    uint64_t bits = in->end - in->start;
    size_t   size = in->third.size;
    if (bits / 8 + (bits % 8 != 0) != size) {
        return corrupt(err, "a bitmap of row ids has not the size of its range");
    }
    if (bits % 8 != 0 && (uint8_t)in->third.data[size - 1] >> (bits % 8) != 0) {
        return corrupt(err, "a bitmap of row ids goes on behind its range");
    }
    if (bits > UINT32_MAX) {
        return corrupt(err, "a bitmap of row ids is wider than a fragment");
    }
    uint32_t *ranks = lk_arena_take(arena, (size / (BLOCK_BITS / 8) + 1) * sizeof *ranks);
    out->data = in->third.data;
    out->size = size;
    out->ranks = ranks;
    out->width = 1;
    for (size_t byte = 0; byte < size; byte += 8) {
        if (byte % (BLOCK_BITS / 8) == 0) {
            ranks[byte / (BLOCK_BITS / 8)] = (uint32_t)out->count;
        }
        out->count += (uint64_t)__builtin_popcountll(word_at(out, byte));
    }
    return LK_OK;
}

/* -- segments -------------------------------------------------------------------------------------------- */

/* The last kind on the wire wins, as in any oneof. */
static lk_rc parse_segment(lk_bytes message, lk_arena *arena, lk_id_segment *out, lk_err *err)
{
    lk_wire_field field = {0}, body = {0};
    range         in = {0};
    lk_rc         rc = LK_OK;
    *out = (lk_id_segment){.first = out->first};
    while (message.size > 0) {
        if (!lk_wire_next(&message, &field)) {
            return corrupt(err, "a segment of row ids is malformed");
        }
        if (field.number >= LK_ID_RANGE && field.number <= LK_ID_ARRAY) {
            out->kind = (lk_id_segment_kind)field.number;
            body = field;
        }
    }
    if (out->kind == LK_ID_RANGE || out->kind == LK_ID_HOLES || out->kind == LK_ID_BITMAP) {
        rc = parse_range(body.value, &in, err);
        out->start = in.start;
    }
    if (rc != LK_OK) {
        return rc;
    }
    switch (out->kind) {
    case LK_ID_RANGE:
        out->count = in.end - in.start;
        return LK_OK;
    case LK_ID_HOLES:
        return parse_holes(&in, out, err);
    case LK_ID_BITMAP:
        return parse_bitmap(&in, arena, out, err);
    case LK_ID_SORTED_ARRAY:
    case LK_ID_ARRAY:
        rc = parse_array(body.value, out, err);
        out->count = rc == LK_OK ? item_count(out) : 0;
        return rc == LK_OK ? check_items(out, out->kind == LK_ID_SORTED_ARRAY, err) : rc;
    case LK_ID_UNKNOWN:
    default:
        return corrupt(err, "a segment of row ids has no kind that is known");
    }
}

lk_rc lk_id_segment_count(lk_bytes message, uint64_t *count, lk_err *err)
{
    lk_arena      arena = {0};
    lk_id_segment segment = {0};
    lk_rc         rc = parse_segment(message, &arena, &segment, err);
    *count = segment.count;
    lk_arena_close(&arena);
    return rc;
}

/* How many fields number 1 a message has; SIZE_MAX when it is malformed. */
static size_t count_segments(lk_bytes message)
{
    size_t        count = 0;
    lk_wire_field field = {0};
    while (message.size > 0) {
        if (!lk_wire_next(&message, &field)) {
            return SIZE_MAX;
        }
        count += field.number == 1;
    }
    return count;
}

lk_rc lk_row_ids_parse(lk_bytes message, uint64_t rows, lk_arena *arena, lk_row_ids *out, lk_err *err)
{
    size_t        room = count_segments(message);
    lk_wire_field field = {0};
    if (room == SIZE_MAX) {
        return corrupt(err, "a sequence of row ids is malformed");
    }
    lk_id_segment *segments = lk_arena_take(arena, room * sizeof *segments);
    *out = (lk_row_ids){.segments = segments};
    while (message.size > 0 && lk_wire_next(&message, &field)) {
        if (field.number != 1) {
            continue;
        }
        lk_id_segment *segment = &segments[out->segment_count];
        segment->first = out->count;
        lk_rc rc = parse_segment(field.value, arena, segment, err);
        if (rc == LK_OK && segment->count > rows - out->count) {
            rc = corrupt(err, "more row ids than rows");
        }
        if (rc != LK_OK) {
            return rc;
        }
        out->count += segment->count;
        out->segment_count += segment->count > 0;
    }
    if (out->count < rows) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "%" PRIu64 " row ids for %" PRIu64 " rows", out->count, rows);
    }
    return LK_OK;
}

/* -- reading --------------------------------------------------------------------------------------------- */

static const lk_id_segment *segment_of(const lk_row_ids *ids, uint64_t offset)
{
    size_t low = 0, high = ids->segment_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (ids->segments[middle].first <= offset) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &ids->segments[low];
}

/* How many holes lie before the id number `index`. */
static uint64_t holes_before(const lk_id_segment *segment, uint64_t index)
{
    uint64_t low = 0, high = item_count(segment);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (item(segment, middle) - segment->start - middle <= index) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The place of the set bit number `index` (there is one). */
static uint64_t find_bit(const lk_id_segment *segment, uint64_t index)
{
    enum { BLOCK = BLOCK_BITS / 8 };
    size_t low = 0, high = (segment->size + BLOCK - 1) / BLOCK;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (segment->ranks[middle] <= index) {
            low = middle;
        } else {
            high = middle;
        }
    }
    size_t   byte = low * BLOCK;
    uint64_t left = index - segment->ranks[low], word = word_at(segment, byte), ones = 0;
    while ((ones = (uint64_t)__builtin_popcountll(word)) <= left) {
        left -= ones;
        byte += 8;
        word = word_at(segment, byte);
    }
    for (; left > 0; left--) {
        word &= word - 1;
    }
    return byte * 8 + (uint64_t)__builtin_ctzll(word);
}

static uint64_t id_at(const lk_id_segment *segment, uint64_t index)
{
    switch (segment->kind) {
    case LK_ID_RANGE:
        return segment->start + index;
    case LK_ID_HOLES:
        return segment->start + index + holes_before(segment, index);
    case LK_ID_BITMAP:
        return segment->start + find_bit(segment, index);
    case LK_ID_SORTED_ARRAY:
    case LK_ID_ARRAY:
        return item(segment, index);
    case LK_ID_UNKNOWN:
    default:
        break;
    }
    LK_ASSERT(false); /* parse_segment let none in */
    return LK_ROW_ID_NONE;
}

uint64_t lk_row_ids_at(const lk_row_ids *ids, uint64_t offset)
{
    LK_ASSERT(offset < ids->count);
    const lk_id_segment *segment = segment_of(ids, offset);
    return id_at(segment, offset - segment->first);
}

static void read_range(const lk_id_segment *segment, uint64_t index, uint64_t count, uint64_t *out)
{
    for (uint64_t i = 0; i < count; i++) {
        out[i] = segment->start + index + i;
    }
}

static void read_holes(const lk_id_segment *segment, uint64_t index, uint64_t count, uint64_t *out)
{
    uint64_t hole = holes_before(segment, index), id = segment->start + index + hole;
    uint64_t holes = item_count(segment);
    for (uint64_t i = 0; i < count; i++, id++) {
        for (; hole < holes && item(segment, hole) == id; hole++) {
            id++;
        }
        out[i] = id;
    }
}

static void read_bitmap(const lk_id_segment *segment, uint64_t index, uint64_t count, uint64_t *out)
{
    uint64_t bit = find_bit(segment, index);
    size_t   byte = (size_t)(bit / 64 * 8);
    uint64_t word = word_at(segment, byte) & (UINT64_MAX << (bit % 64));
    for (uint64_t i = 0; i < count; i++) {
        while (word == 0) {
            byte += 8;
            word = word_at(segment, byte);
        }
        out[i] = segment->start + byte * 8 + (uint64_t)__builtin_ctzll(word);
        word &= word - 1;
    }
}

static void read_array(const lk_id_segment *segment, uint64_t index, uint64_t count, uint64_t *out)
{
    for (uint64_t i = 0; i < count; i++) {
        out[i] = item(segment, index + i);
    }
}

void lk_row_ids_read(const lk_row_ids *ids, uint64_t first, uint64_t count, uint64_t *out)
{
    LK_ASSERT(first <= ids->count && count <= ids->count - first);
    const lk_id_segment *segment = count == 0 ? NULL : segment_of(ids, first);
    while (count > 0) {
        uint64_t index = first - segment->first, left = segment->count - index;
        uint64_t some = left < count ? left : count;
        switch (segment->kind) {
        case LK_ID_RANGE:
            read_range(segment, index, some, out);
            break;
        case LK_ID_HOLES:
            read_holes(segment, index, some, out);
            break;
        case LK_ID_BITMAP:
            read_bitmap(segment, index, some, out);
            break;
        case LK_ID_SORTED_ARRAY:
        case LK_ID_ARRAY:
            read_array(segment, index, some, out);
            break;
        case LK_ID_UNKNOWN:
        default:
            LK_ASSERT(false);
        }
        first += some;
        out += some;
        count -= some;
        segment++;
    }
}

bool lk_row_ids_run(const lk_row_ids *ids, uint64_t offset, uint64_t *start, uint64_t *count)
{
    if (offset >= ids->count) {
        return false;
    }
    const lk_id_segment *segment = segment_of(ids, offset);
    uint64_t             index = offset - segment->first, end = segment->count;
    *start = id_at(segment, index);
    if (segment->kind == LK_ID_HOLES) {
        uint64_t hole = holes_before(segment, index);
        end = hole < item_count(segment) ? item(segment, hole) - segment->start - hole : end;
    } else if (segment->kind != LK_ID_RANGE) {
        end = index + 1;
    }
    *count = end - index;
    return true;
}
