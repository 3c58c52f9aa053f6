/* records_json_write.c - see records_json.h: writing. */
#include "arrow/type.h"
#include "base/json.h"
#include "rollout/float_text.h"
#include "rollout/records_json.h"
#include "rollout/time_text.h"

#include <math.h>

static bool is_valid(const struct ArrowArray *array, int64_t at)
{
    const uint8_t *bits = array->null_count == 0 ? NULL : array->buffers[0];
    return bits == NULL || ArrowBitGet(bits, at) != 0;
}

static lk_bytes bytes_at(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t at)
{
    const char *data = array->buffers[2];
    if (schema->format[0] == 'u' || schema->format[0] == 'z') {
        const int32_t *offsets = (const int32_t *)array->buffers[1] + at;
        return (lk_bytes){data + offsets[0], (size_t)(offsets[1] - offsets[0])};
    }
    const int64_t *offsets = (const int64_t *)array->buffers[1] + at;
    return (lk_bytes){data + offsets[0], (size_t)(offsets[1] - offsets[0])};
}

static int64_t integer_at(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t at)
{
    switch (schema->format[0]) {
    case 'c':
        return ((const int8_t *)array->buffers[1])[at];
    case 's':
        return ((const int16_t *)array->buffers[1])[at];
    case 'i':
        return ((const int32_t *)array->buffers[1])[at];
    default: /* int64, timestamp */
        return ((const int64_t *)array->buffers[1])[at];
    }
}

static void write_float(lk_json_writer *w, float value)
{
    char text[LK_FLOAT_TEXT_MAX];
    if (isfinite(value) == 0) {
        lk_json_null(w);
        return;
    }
    lk_json_raw(w, (lk_bytes){text, lk_float_write(value, text)});
}

static void write_time(lk_json_writer *w, int64_t us)
{
    char   text[LK_TIME_TEXT_MAX];
    size_t size = lk_time_write(us, text);
    if (size == 0) {
        lk_json_null(w);
        return;
    }
    lk_json_text(w, (lk_bytes){text, size});
}

static void write_numbers(
    lk_json_writer *w, const struct ArrowSchema *list, const struct ArrowArray *array, int64_t at)
{
    const int32_t            *offsets = (const int32_t *)array->buffers[1] + at;
    const struct ArrowArray  *items = array->children[0];
    const struct ArrowSchema *type = list->children[0];
    bool                      is_float = type->format[0] == 'f';
    lk_json_array(w);
    for (int64_t i = offsets[0] + items->offset; i < offsets[1] + items->offset; i++) {
        if (!is_valid(items, i)) {
            lk_json_null(w);
        } else if (is_float) {
            write_float(w, ((const float *)items->buffers[1])[i]);
        } else {
            lk_json_i64(w, integer_at(type, items, i));
        }
    }
    lk_json_array_end(w);
}

static void write_relationship(
    lk_json_writer *w, const struct ArrowSchema *schema, const struct ArrowArray *item, int64_t at)
{
    lk_json_object(w);
    for (int64_t i = 0; i < schema->n_children; i++) {
        const struct ArrowArray  *member = item->children[i];
        const struct ArrowSchema *type = schema->children[i];
        int64_t                   row = at + member->offset;
        if (!is_valid(item, at) || !is_valid(member, row)) {
            continue;
        }
        lk_json_key(w, type->name);
        if (type->format[0] == 'f') {
            write_float(w, ((const float *)member->buffers[1])[row]);
        } else {
            lk_json_text(w, bytes_at(type, member, row));
        }
    }
    lk_json_object_end(w);
}

/* Nothing at all for an empty list. */
static void write_relationships(lk_json_writer *w, const char *name, const struct ArrowSchema *list,
    const struct ArrowArray *array, int64_t at)
{
    const int32_t           *offsets = (const int32_t *)array->buffers[1] + at;
    const struct ArrowArray *items = array->children[0];
    if (offsets[0] == offsets[1]) {
        return;
    }
    lk_json_key(w, name);
    lk_json_array(w);
    for (int64_t i = offsets[0] + items->offset; i < offsets[1] + items->offset; i++) {
        write_relationship(w, list->children[0], items, i);
    }
    lk_json_array_end(w);
}

static void write_text(
    lk_json_writer *w, const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t at)
{
    if (schema->dictionary != NULL) {
        int64_t index = integer_at(schema, array, at) + array->dictionary->offset;
        lk_json_text(w, bytes_at(schema->dictionary, array->dictionary, index));
    } else {
        lk_json_text(w, bytes_at(schema, array, at));
    }
}

static void write_value(lk_json_writer *w, lk_record_kind kind, const struct ArrowSchema *schema,
    const struct ArrowArray *array, int64_t at)
{
    switch (kind) {
    case LK_RECORD_JSON:
        lk_json_raw(w, bytes_at(schema, array, at));
        break;
    case LK_RECORD_TIMESTAMP:
        write_time(w, integer_at(schema, array, at));
        break;
    case LK_RECORD_BOOL:
        lk_json_bool(w, ArrowBitGet(array->buffers[1], at) != 0);
        break;
    case LK_RECORD_INT32:
    case LK_RECORD_INT64:
        lk_json_i64(w, integer_at(schema, array, at));
        break;
    case LK_RECORD_FLOAT:
        write_float(w, ((const float *)array->buffers[1])[at]);
        break;
    case LK_RECORD_INT8_LIST:
    case LK_RECORD_INT32_LIST:
    case LK_RECORD_FLOAT_LIST:
        write_numbers(w, schema, array, at);
        break;
    case LK_RECORD_TEXT:
    case LK_RECORD_LARGE_TEXT:
    case LK_RECORD_ROLE:
    case LK_RECORD_RELATIONSHIPS:
    case LK_RECORD_BINARY:
        write_text(w, schema, array, at);
        break;
    }
}

void lk_record_write_json(
    const struct ArrowSchema *schema, const struct ArrowArray *batch, int64_t row, lk_buf *out)
{
    lk_json_writer   w = {.out = out};
    lk_record_column next = 0;
    lk_json_object(&w);
    for (int64_t i = 0; i < schema->n_children; i++) {
        const struct ArrowArray *array = batch->children[i];
        const char              *name = schema->children[i]->name;
        int64_t                  at = row + batch->offset + array->offset;
        lk_record_column         column = lk_record_column_of(lk_bytes_of(name), next);
        next = column + 1;
        if (column == LK_RECORD_COLUMNS || column == LK_RECORD_COLUMN_binary_payload ||
            !is_valid(array, at)) {
            continue;
        }
        if (column == LK_RECORD_COLUMN_relationships) {
            write_relationships(&w, name, schema->children[i], array, at);
            continue;
        }
        lk_json_key(&w, name);
        write_value(&w, lk_record_column_kind(column), schema->children[i], array, at);
    }
    lk_json_object_end(&w);
}
