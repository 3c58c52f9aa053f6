/* stream.c - see stream.h. */
#include "lance/stream.h"

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

static lk_rc append_reps(lk_stream *stream, const uint16_t *rep, uint64_t count, lk_err *err)
{
    uint16_t *to = (uint16_t *)(void *)stream->rep.data + stream->count;
    for (uint64_t at = 0; at < count; at++) {
        uint16_t level = rep == NULL ? 0 : rep[at];
        if (level > stream->lists) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "a repetition level of %u", level);
        }
        stream->rows += level == stream->lists;
        to[at] = level;
    }
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
    for (uint64_t at = 0; at < count; at++) {
        uint16_t level = def == NULL ? 0 : def[at];
        if (level >= levels) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "a definition level of %u", level);
        }
        to[at] = map[level];
    }
    return LK_OK;
}

lk_rc lk_stream_append(lk_stream *stream, const lk_page_layout *layout, const uint16_t *rep,
    const uint16_t *def, uint64_t count, lk_err *err)
{
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
lk_slots lk_stream_slots(const lk_stream *stream, size_t layer)
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
    return (lk_slots){(uint16_t)(stream->lists - outside), def};
}

static bool is_slot(const lk_stream *stream, lk_slots slots, uint64_t entry)
{
    return reps(stream)[entry] >= slots.rep && defs(stream)[entry] < slots.def;
}

uint64_t lk_stream_count(const lk_stream *stream, lk_slots slots)
{
    uint64_t count = 0;
    for (uint64_t entry = 0; entry < stream->count; entry++) {
        count += is_slot(stream, slots, entry);
    }
    return count;
}

/* Levels as lk_validity_append takes them, for the next slots from *entry on: 1 = null. */
static uint64_t next_levels(
    const lk_stream *stream, size_t layer, lk_slots slots, uint64_t *entry, uint16_t *levels, uint64_t room)
{
    uint16_t null = (uint16_t)(1 + 2 * layer), empty = stream->is_list[layer] ? (uint16_t)(null + 1) : null;
    uint64_t count = 0;
    for (; *entry < stream->count && count < room; (*entry)++) {
        if (is_slot(stream, slots, *entry)) {
            uint16_t def = defs(stream)[*entry];
            levels[count++] = def >= null && (def != empty || empty == null);
        }
    }
    return count;
}

lk_rc lk_stream_validity(const lk_stream *stream, size_t layer, lk_validity *out, lk_err *err)
{
    uint16_t levels[1024];
    lk_slots slots = lk_stream_slots(stream, layer);
    uint64_t total = lk_stream_count(stream, slots), entry = 0, done = 0;
    lk_rc    rc = LK_OK;
    while (rc == LK_OK && done < total) {
        uint64_t count = next_levels(stream, layer, slots, &entry, levels, 1024);
        rc = lk_validity_append(out, stream->values.pool, total, done, levels, count, 1, err);
        done += count;
    }
    return rc;
}

lk_rc lk_stream_offsets(const lk_stream *stream, size_t layer, unsigned width, lk_buffer *out, lk_err *err)
{
    lk_slots slots = lk_stream_slots(stream, layer);
    lk_slots items = {(uint16_t)(slots.rep - 1), (uint16_t)(1 + 2 * layer)};
    uint64_t total = lk_stream_count(stream, slots), item = 0, slot = 0;
    if (width == 4 && stream->count > INT32_MAX) {
        return lk_fail(err, LK_E_LIMIT, "more than 2^31 list items in one batch");
    }
    lk_rc rc = lk_buffer_take(stream->values.pool, (total + 1) * width, out, err);
    if (rc != LK_OK) {
        return rc;
    }
    for (uint64_t entry = 0; entry < stream->count; entry++) {
        if (is_slot(stream, slots, entry)) {
            memcpy(out->data + slot++ * width, &item, width);
        }
        item += is_slot(stream, items, entry);
    }
    memcpy(out->data + slot * width, &item, width);
    return LK_OK;
}
