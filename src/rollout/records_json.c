/* records_json.c - see records_json.h: reading. */
#include "rollout/records_json.h"

#include "base/hash.h"
#include "rollout/json_numbers.h"
#include "rollout/time_text.h"

#include <inttypes.h>

typedef struct reader {
    lk_json_cursor c;
    lk_records    *records;
    lk_buf         bytes; /* a decoded payload, or a relationship's first text */
    lk_err        *err;
} reader;

/* What the cursor found wrong, as this record's (column LK_RECORD_COLUMNS: of none). */
static lk_rc wrong(reader *r, lk_record_column column, const char *start)
{
    size_t record = lk_records_count(r->records), at = (size_t)(r->c.at - start);
    if (column == LK_RECORD_COLUMNS) {
        return lk_refuse(r->err, LK_E_INVALID_REQUEST, "record %zu: %s at byte %zu", record, r->c.wrong, at);
    }
    return lk_refuse(r->err, LK_E_INVALID_REQUEST, "record %zu: field \"%s\": %s at byte %zu", record,
        lk_record_column_name(column), r->c.wrong, at);
}

/* -- lists of numbers: the hot loops ------------------------------------------------------------------------------ */

static bool put(struct ArrowBuffer *values, const void *value, int64_t size)
{
    return ArrowBufferAppend(values, value, size) == NANOARROW_OK;
}

static bool take_int32(lk_json_cursor *c, struct ArrowBuffer *values)
{
    int64_t value;
    if (!lk_json_take_integer(c, INT32_MIN, INT32_MAX, &value)) {
        return false;
    }
    int32_t narrow = (int32_t)value;
    return put(values, &narrow, sizeof narrow) || lk_json_fail(c, "no memory");
}

static bool take_int8(lk_json_cursor *c, struct ArrowBuffer *values)
{
    int64_t value;
    if (!lk_json_take_integer(c, INT8_MIN, INT8_MAX, &value)) {
        return false;
    }
    int8_t narrow = (int8_t)value;
    return put(values, &narrow, sizeof narrow) || lk_json_fail(c, "no memory");
}

static bool take_float(lk_json_cursor *c, struct ArrowBuffer *values)
{
    float value;
    return lk_json_take_float(c, &value) &&
           (put(values, &value, sizeof value) || lk_json_fail(c, "no memory"));
}

/* What comes next of plain elements, eight digits at a time. int8: few are sent, so they have no runs. */
static void take_run(lk_json_cursor *c, lk_record_column column, struct ArrowBuffer *values)
{
    enum { RUN = 512 };
    int32_t        integers[RUN];
    float          floats[RUN];
    lk_record_kind kind = lk_record_column_kind(column);
    for (size_t count = RUN; count == RUN && kind != LK_RECORD_INT8_LIST;) {
        bool whole = kind == LK_RECORD_INT32_LIST;
        count = whole ? lk_json_take_int32_run(c, integers, RUN) : lk_json_take_float_run(c, floats, RUN);
        if (count > 0 &&
            !put(values, whole ? (const void *)integers : floats, (int64_t)(count * sizeof(float)))) {
            lk_json_fail(c, "no memory");
            return;
        }
    }
}

static lk_rc take_numbers(
    reader *r, lk_record_column column, bool (*take)(lk_json_cursor *c, struct ArrowBuffer *values))
{
    struct ArrowBuffer *values;
    lk_rc               rc = lk_records_list_begin(r->records, column, &values, r->err);
    if (rc != LK_OK) {
        return rc;
    }
    if (!lk_json_accept(&r->c, '[')) {
        lk_json_fail(&r->c, "expected an array of numbers");
    } else if (!lk_json_accept(&r->c, ']')) {
        do {
            take_run(&r->c, column, values);
            if (lk_json_accept_null(&r->c)) {
                lk_records_list_null(r->records, column);
            } else if (!take(&r->c, values)) {
                break;
            }
        } while (lk_json_more(&r->c, ']'));
    }
    return r->c.wrong == NULL ? lk_records_list_end(r->records, column, r->err) : LK_OK;
}

/* -- relationships ------------------------------------------------------------------------------------------------- */

/* A member of one; texts are copied, for the next text would take the cursor's scratch. */
static bool take_member(reader *r, lk_bytes *target, lk_bytes *relation, lk_arena *arena,
    const float **weight, float *weight_value)
{
    lk_bytes key, text;
    if (!lk_json_take_key(&r->c, &key)) {
        return false;
    }
    lk_bytes *to = lk_bytes_equal(key, LK_LITERAL("target_id"))  ? target
                   : lk_bytes_equal(key, LK_LITERAL("relation")) ? relation
                                                                 : NULL;
    bool      is_weight = lk_bytes_equal(key, LK_LITERAL("weight"));
    if (lk_json_accept_null(&r->c)) {
        return true;
    }
    if (is_weight) {
        *weight = weight_value;
        return lk_json_take_float(&r->c, weight_value);
    }
    if (to == NULL) {
        return lk_json_take_value(&r->c, NULL);
    }
    if (!lk_json_take_text(&r->c, &text)) {
        return false;
    }
    *to = text.size == 0 ? LK_LITERAL("") : lk_arena_copy(arena, text);
    return true;
}

static lk_rc take_relationship(reader *r)
{
    lk_bytes     target = {0}, relation = {0};
    float        value = 0;
    const float *weight = NULL;
    lk_arena     arena = {0};
    lk_rc        rc = LK_OK;
    if (!lk_json_accept(&r->c, '{')) {
        lk_json_fail(&r->c, "expected an object");
    } else if (!lk_json_accept(&r->c, '}')) {
        do {
            if (!take_member(r, &target, &relation, &arena, &weight, &value)) {
                break;
            }
        } while (lk_json_more(&r->c, '}'));
    }
    if (r->c.wrong == NULL && (target.data == NULL || relation.data == NULL)) {
        lk_json_fail(&r->c, "a relationship needs target_id and relation");
    }
    if (r->c.wrong == NULL) {
        rc = lk_records_add_relationship(r->records, target, relation, weight, r->err);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc take_relationships(reader *r, lk_record_column column)
{
    struct ArrowBuffer *none;
    lk_rc               rc = lk_records_list_begin(r->records, column, &none, r->err);
    if (rc == LK_OK && !lk_json_accept(&r->c, '[')) {
        lk_json_fail(&r->c, "expected an array of objects");
    } else if (rc == LK_OK && !lk_json_accept(&r->c, ']')) {
        do {
            rc = take_relationship(r);
        } while (rc == LK_OK && r->c.wrong == NULL && lk_json_more(&r->c, ']'));
    }
    return rc == LK_OK && r->c.wrong == NULL ? lk_records_list_end(r->records, column, r->err) : rc;
}

/* -- one record ---------------------------------------------------------------------------------------------------- */

static lk_rc take_integer(reader *r, lk_record_column column, int64_t min, int64_t max)
{
    int64_t value;
    return lk_json_take_integer(&r->c, min, max, &value)
               ? lk_records_set_integer(r->records, column, value, r->err)
               : LK_OK;
}

static lk_rc take_text(reader *r, lk_record_column column)
{
    lk_bytes text;
    return lk_json_take_text(&r->c, &text) ? lk_records_set_text(r->records, column, text, r->err) : LK_OK;
}

static lk_rc take_json(reader *r, lk_record_column column)
{
    lk_buf_clear(&r->bytes);
    return lk_json_take_value(&r->c, &r->bytes)
               ? lk_records_set_text(r->records, column, lk_buf_view(&r->bytes), r->err)
               : LK_OK;
}

static lk_rc take_time(reader *r, lk_record_column column)
{
    lk_bytes text;
    int64_t  us;
    if (lk_json_take_text(&r->c, &text) && !lk_time_read(text, &us)) {
        lk_json_fail(&r->c, "expected an RFC 3339 time");
    }
    return r->c.wrong == NULL ? lk_records_set_integer(r->records, column, us, r->err) : LK_OK;
}

static lk_rc take_payload(reader *r)
{
    lk_bytes text;
    lk_buf_clear(&r->bytes);
    if (lk_json_take_text(&r->c, &text) && !lk_base64_decode(text, false, &r->bytes)) {
        lk_json_fail(&r->c, "expected base64 (RFC 4648, padded)");
    }
    return r->c.wrong == NULL ? lk_records_set_payload(r->records, lk_records_count(r->records),
                                    lk_buf_view(&r->bytes), false, r->err)
                              : LK_OK;
}

static lk_rc take_value(reader *r, lk_record_column column)
{
    float value;
    bool  truth;
    switch (lk_record_column_kind(column)) {
    case LK_RECORD_TEXT:
    case LK_RECORD_LARGE_TEXT:
    case LK_RECORD_ROLE:
        return take_text(r, column);
    case LK_RECORD_JSON:
        return take_json(r, column);
    case LK_RECORD_TIMESTAMP:
        return take_time(r, column);
    case LK_RECORD_BOOL:
        return lk_json_take_bool(&r->c, &truth) ? lk_records_set_bool(r->records, column, truth, r->err)
                                                : LK_OK;
    case LK_RECORD_INT32:
        return take_integer(r, column, INT32_MIN, INT32_MAX);
    case LK_RECORD_INT64:
        return take_integer(r, column, INT64_MIN, INT64_MAX);
    case LK_RECORD_FLOAT:
        return lk_json_take_float(&r->c, &value) ? lk_records_set_float(r->records, column, value, r->err)
                                                 : LK_OK;
    case LK_RECORD_INT8_LIST:
        return take_numbers(r, column, take_int8);
    case LK_RECORD_INT32_LIST:
        return take_numbers(r, column, take_int32);
    case LK_RECORD_FLOAT_LIST:
        return take_numbers(r, column, take_float);
    case LK_RECORD_RELATIONSHIPS:
        return take_relationships(r, column);
    case LK_RECORD_BINARY:
        return take_payload(r);
    }
    return LK_OK;
}

/* start: where the body begins, for the places in messages. */
static lk_rc take_record(reader *r, const char *start)
{
    lk_record_column column = LK_RECORD_COLUMNS, next = 0;
    lk_rc            rc = LK_OK;
    if (!lk_json_accept(&r->c, '{')) {
        lk_json_fail(&r->c, "expected an object");
        return wrong(r, LK_RECORD_COLUMNS, start);
    }
    if (!lk_json_accept(&r->c, '}')) {
        do {
            lk_bytes key;
            column = lk_json_take_key(&r->c, &key) ? lk_record_column_of(key, next) : LK_RECORD_COLUMNS;
            if (column == LK_RECORD_COLUMNS) {
                (void)(r->c.wrong == NULL && lk_json_take_value(&r->c, NULL));
            } else if (!lk_json_accept_null(&r->c)) {
                rc = take_value(r, column);
            }
            next = column + 1; /* clients write the columns in their order */
        } while (rc == LK_OK && r->c.wrong == NULL && lk_json_more(&r->c, '}'));
    }
    if (rc == LK_OK && r->c.wrong != NULL) {
        rc = wrong(r, column, start);
    }
    return rc == LK_OK ? lk_records_end(r->records, r->err) : rc;
}

/* -- bodies -------------------------------------------------------------------------------------------------------- */

static lk_rc take_records(reader *r, const char *start)
{
    lk_rc rc = LK_OK;
    if (!lk_json_accept(&r->c, '[')) {
        lk_json_fail(&r->c, "\"records\" must be an array");
    } else if (lk_json_accept(&r->c, ']')) {
        lk_json_fail(&r->c, "\"records\" is empty");
    } else {
        do {
            rc = take_record(r, start);
        } while (rc == LK_OK && lk_json_more(&r->c, ']'));
    }
    return rc;
}

static lk_rc take_body(reader *r, lk_bytes body)
{
    lk_rc rc = LK_OK;
    bool  found = false;
    if (!lk_json_accept(&r->c, '{')) {
        lk_json_fail(&r->c, "expected an object with \"records\"");
    } else if (!lk_json_accept(&r->c, '}')) {
        do {
            lk_bytes key;
            if (!lk_json_take_key(&r->c, &key)) {
                break;
            }
            bool records = lk_bytes_equal(key, LK_LITERAL("records"));
            if (records && found) {
                lk_json_fail(&r->c, "\"records\" is given twice");
            } else if (records) {
                found = true;
                rc = take_records(r, body.data);
            } else {
                (void)lk_json_take_value(&r->c, NULL);
            }
        } while (rc == LK_OK && lk_json_more(&r->c, '}'));
    }
    if (rc == LK_OK && r->c.wrong == NULL && !found) {
        lk_json_fail(&r->c, "there are no \"records\"");
    }
    if (rc == LK_OK && r->c.wrong == NULL && (lk_json_peek(&r->c) != '\0' || r->c.at < r->c.end)) {
        lk_json_fail(&r->c, "something follows the object");
    }
    return rc == LK_OK && r->c.wrong != NULL ? wrong(r, LK_RECORD_COLUMNS, body.data) : rc;
}

lk_rc lk_records_read_json(lk_records *records, lk_bytes body, lk_err *err)
{
    reader r = {.records = records, .err = err};
    lk_json_cursor_init(&r.c, body);
    lk_rc rc = take_body(&r, body);
    lk_json_cursor_deinit(&r.c);
    lk_buf_deinit(&r.bytes);
    return rc;
}

lk_rc lk_records_read_ndjson(lk_records *records, lk_bytes body, lk_err *err)
{
    reader r = {.records = records, .err = err};
    lk_rc  rc = LK_OK;
    size_t before = lk_records_count(records);
    lk_json_cursor_init(&r.c, body);
    while (rc == LK_OK && (lk_json_peek(&r.c) != '\0' || r.c.at < r.c.end)) {
        const char *line_end = memchr(r.c.at, '\n', (size_t)(r.c.end - r.c.at)), *end = r.c.end;
        r.c.end = line_end == NULL ? end : line_end;
        rc = take_record(&r, body.data);
        if (rc == LK_OK && (lk_json_peek(&r.c) != '\0' || r.c.at < r.c.end)) {
            lk_json_fail(&r.c, "something follows the object on its line");
            rc = wrong(&r, LK_RECORD_COLUMNS, body.data);
        }
        r.c.end = end;
    }
    if (rc == LK_OK && lk_records_count(records) == before) {
        rc = lk_refuse(err, LK_E_INVALID_REQUEST, "there is no record");
    }
    lk_json_cursor_deinit(&r.c);
    lk_buf_deinit(&r.bytes);
    return rc;
}
