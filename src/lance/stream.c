/* stream.c - see stream.h. */
#include "lance/stream.h"

#include "lance/cpu.h"

#include <string.h>

static const uint16_t *reps(const lk_stream *stream)
{
    return (const uint16_t *)(const void *)stream->rep.data;
}

static const uint16_t *defs(const lk_stream *stream)
{
    return (const uint16_t *)(const void *)stream->def.data;
}

void lk_stream_deinit(lk_stream *stream)
{
    lk_buffer_give(&stream->rep);
    lk_buffer_give(&stream->def);
    lk_column_deinit(&stream->values);
    lk_list_rows_deinit(&stream->flat);
    lk_buffer_give(&stream->marks);
}

lk_rc lk_stream_begin(
    lk_stream *stream, uint64_t rows, unsigned offset_bytes, lk_buffer_pool *pool, lk_err *err)
{
    size_t list = 0;
    while (list < stream->layer_count && !stream->is_list[list]) {
        list++;
    }
    stream->is_flat = stream->lists == 1 && stream->layer_count <= LK_MARK_LAYERS_MAX;
    return stream->is_flat
               ? lk_list_rows_init(&stream->flat, stream->layer_count, list, rows, offset_bytes, pool, err)
               : LK_OK;
}

lk_rc lk_stream_check(const lk_stream *stream, const lk_page_layout *layout, lk_err *err)
{
    bool same = stream->layer_count == layout->layer_count;
    for (size_t layer = 0; same && layer < stream->layer_count; layer++) {
        same = stream->is_list[layer] == lk_layer_is_list(layout->layers[layer]);
    }
    return same ? LK_OK : lk_fail(err, LK_E_CORRUPT_FILE, "a page of other layers than its column");
}

/* -- entries --------------------------------------------------------------------------------------- */
/* What each of the page's definition levels is here; returns how many there are. */
static unsigned level_map(const lk_page_layout *layout, uint16_t *map)
{
    unsigned level = 1;
    map[0] = 0;
    for (size_t layer = 0; layer < layout->layer_count; layer++) {
        uint8_t kind = layout->layers[layer];
        if (lk_layer_levels(kind) > 0 && kind != LK_LAYER_EMPTYABLE_LIST) {
            map[level++] = (uint16_t)(1 + 2 * layer);
        }
        if (kind == LK_LAYER_EMPTYABLE_LIST || kind == LK_LAYER_NULL_AND_EMPTY_LIST) {
            map[level++] = (uint16_t)(2 + 2 * layer);
        }
    }
    return level;
}

LK_VECTOR static uint16_t highest(const uint16_t *levels, uint64_t count)
{
    uint16_t most = 0;
    for (uint64_t at = 0; at < count; at++) {
        most = levels[at] > most ? levels[at] : most;
    }
    return most;
}

LK_VECTOR static uint64_t count_from(const uint16_t *levels, uint64_t count, uint16_t least)
{
    uint64_t found = 0;
    for (uint64_t at = 0; at < count; at++) {
        found += levels[at] >= least;
    }
    return found;
}

static lk_rc append_reps(lk_stream *stream, const uint16_t *rep, uint64_t count, lk_err *err)
{
    uint16_t *to = (uint16_t *)(void *)stream->rep.data + stream->count;
    if (rep == NULL) {
        memset(to, 0, count * sizeof *to);
    } else {
        memcpy(to, rep, count * sizeof *to);
    }
    uint16_t most = highest(to, count);
    if (most > stream->lists) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a repetition level of %u", most);
    }
    stream->rows += count_from(to, count, (uint16_t)stream->lists);
    return stream->count > 0 || count == 0 || to[0] == stream->lists
               ? LK_OK
               : lk_fail(err, LK_E_CORRUPT_FILE, "rows begin in the middle of one");
}

static lk_rc append_defs(
    lk_stream *stream, const lk_page_layout *layout, const uint16_t *def, uint64_t count, lk_err *err)
{
    uint16_t  map[2 * LK_LAYERS_MAX + 1];
    unsigned  levels = level_map(layout, map);
    uint16_t *to = (uint16_t *)(void *)stream->def.data + stream->count;
    uint16_t  most = def == NULL ? 0 : highest(def, count);
    if (most >= levels) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a definition level of %u", most);
    }
    if (most == 0) {
        memset(to, 0, count * sizeof *to);
        return LK_OK;
    }
    stream->has_defs = true;
    for (uint64_t at = 0; at < count; at++) {
        to[at] = map[def[at]];
    }
    return LK_OK;
}

lk_rc lk_stream_append_marks(
    lk_stream *stream, const lk_marks *marks, uint64_t first, uint64_t end, lk_err *err)
{
    lk_rc rc = lk_list_rows_append(&stream->flat, marks, first, end, &stream->values, err);
    stream->rows = stream->flat.rows;
    stream->count += end - first;
    return rc;
}

static lk_rc append_flat(lk_stream *stream, const lk_page_layout *layout, const uint16_t *rep,
    const uint16_t *def, uint64_t count, lk_err *err)
{
    lk_marks marks = {0};
    lk_rc    rc = lk_marks_of(layout, rep, def, count, stream->values.pool, &stream->marks, &marks, err);
    return rc == LK_OK ? lk_stream_append_marks(stream, &marks, 0, count, err) : rc;
}

lk_rc lk_stream_append(lk_stream *stream, const lk_page_layout *layout, const uint16_t *rep,
    const uint16_t *def, uint64_t count, lk_err *err)
{
    if (stream->is_flat) {
        return append_flat(stream, layout, rep, def, count, err);
    }
    lk_buffer_pool *pool = stream->values.pool;
    uint64_t        used = stream->count * 2, size = (stream->count + count) * 2;
    lk_rc           rc = lk_buffer_grow(pool, &stream->rep, used, size, err);
    if (rc == LK_OK) {
        rc = lk_buffer_grow(pool, &stream->def, used, size, err);
    }
    if (rc == LK_OK) {
        rc = append_reps(stream, rep, count, err);
    }
    if (rc == LK_OK) {
        rc = append_defs(stream, layout, def, count, err);
    }
    if (rc == LK_OK) {
        stream->count += count;
    }
    return rc;
}

/* -- layers ---------------------------------------------------------------------------------------- */
/* Which entries are slots of a layer: rep of at least `rep`, def below `def`. */
typedef struct slots {
    uint16_t rep, def;
} slots;

static slots slots_of(const lk_stream *stream, size_t layer)
{
    unsigned outside = 0;
    size_t   nearest = stream->layer_count; /* the list around this layer */
    for (size_t above = stream->layer_count; above > layer + 1; above--) {
        if (stream->is_list[above - 1]) {
            outside++;
            nearest = above - 1;
        }
    }
    uint16_t def = nearest == stream->layer_count ? UINT16_MAX : (uint16_t)(1 + 2 * nearest);
    return (slots){(uint16_t)(stream->lists - outside), def};
}

static bool is_slot(const lk_stream *stream, slots of, uint64_t entry)
{
    return reps(stream)[entry] >= of.rep && defs(stream)[entry] < of.def;
}

LK_VECTOR static uint64_t count_slots(
    const uint16_t *rep, const uint16_t *def, uint64_t count, uint16_t least, uint16_t below)
{
    uint64_t found = 0;
    for (uint64_t at = 0; at < count; at++) {
        found += (rep[at] >= least) & (def[at] < below);
    }
    return found;
}

uint64_t lk_stream_slots(const lk_stream *stream, size_t layer)
{
    if (stream->is_flat) {
        return layer < stream->flat.list ? stream->flat.values : stream->flat.rows;
    }
    slots own = slots_of(stream, layer);
    return stream->has_defs ? count_slots(reps(stream), defs(stream), stream->count, own.rep, own.def)
                            : count_from(reps(stream), stream->count, own.rep);
}

/* Levels as lk_validity_append takes them, for the next slots from *entry on: 1 = null. */
static uint64_t next_levels(
    const lk_stream *stream, size_t layer, slots own, uint64_t *entry, uint16_t *levels, uint64_t room)
{
    uint16_t null = (uint16_t)(1 + 2 * layer), empty = stream->is_list[layer] ? (uint16_t)(null + 1) : null;
    uint64_t count = 0;
    for (; *entry < stream->count && count < room; (*entry)++) {
        if (is_slot(stream, own, *entry)) {
            uint16_t def = defs(stream)[*entry];
            levels[count++] = def >= null && (def != empty || empty == null);
        }
    }
    return count;
}

lk_rc lk_stream_validity(lk_stream *stream, size_t layer, lk_validity *out, lk_err *err)
{
    uint16_t levels[1024];
    if (stream->is_flat && layer > 0) {
        *out = stream->flat.validity[layer];
        stream->flat.validity[layer] = (lk_validity){0};
    }
    if (stream->is_flat || !stream->has_defs) {
        return LK_OK; /* it is there, or nothing is null */
    }
    slots    own = slots_of(stream, layer);
    uint64_t total = lk_stream_slots(stream, layer), entry = 0, done = 0;
    lk_rc    rc = LK_OK;
    while (rc == LK_OK && done < total) {
        uint64_t count = next_levels(stream, layer, own, &entry, levels, 1024);
        rc = lk_validity_append(out, stream->values.pool, total, done, levels, count, 1, err);
        done += count;
    }
    return rc;
}

/* Without nulls and empty lists: every list has its items behind one another. Returns how many items there are. */
static uint64_t put_offsets(
    const lk_stream *stream, uint16_t list, uint16_t item, uint8_t *out, unsigned width)
{
    const uint16_t *rep = reps(stream);
    uint64_t        items = 0, slot = 0;
    for (uint64_t entry = 0; width == 4 && entry < stream->count; entry++) {
        lk_store_u32(out + slot * 4, (uint32_t)items); /* room for one more than there are */
        slot += rep[entry] >= list;
        items += rep[entry] >= item;
    }
    for (uint64_t entry = 0; width == 8 && entry < stream->count; entry++) {
        lk_store_u64(out + slot * 8, items);
        slot += rep[entry] >= list;
        items += rep[entry] >= item;
    }
    return items;
}

lk_rc lk_stream_offsets(lk_stream *stream, size_t layer, unsigned width, lk_buffer *out, lk_err *err)
{
    if (stream->is_flat) {
        LK_ASSERT(width == stream->flat.offset_bytes && layer == stream->flat.list);
        lk_list_rows_finish(&stream->flat);
        *out = stream->flat.offsets;
        stream->flat.offsets = (lk_buffer){0};
        return LK_OK;
    }
    slots    own = slots_of(stream, layer);
    slots    items = {(uint16_t)(own.rep - 1), (uint16_t)(1 + 2 * layer)};
    uint64_t total = lk_stream_slots(stream, layer), item = 0, slot = 0;
    if (width == 4 && stream->count > INT32_MAX) {
        return lk_fail(err, LK_E_LIMIT, "more than 2^31 list items in one batch");
    }
    lk_rc rc = lk_buffer_take(stream->values.pool, (total + 1) * width, out, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (!stream->has_defs) {
        item = put_offsets(stream, own.rep, items.rep, out->data, width);
        slot = total;
    }
    for (uint64_t entry = 0; stream->has_defs && entry < stream->count; entry++) {
        if (is_slot(stream, own, entry)) {
            memcpy(out->data + slot++ * width, &item, width);
        }
        item += is_slot(stream, items, entry);
    }
    memcpy(out->data + slot * width, &item, width);
    return LK_OK;
}
