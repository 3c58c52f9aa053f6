/* rollout_query_text.c - see rollout_query_text.h. */
#include "serve/rollout_query_text.h"

#include "rollout/json_cursor.h"
#include "rollout/time_text.h"

enum { FILTER_TEXTS_MAX = 65536 };

bool lk_rollout_number_read(lk_bytes text, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < text.size; i++) {
        uint64_t digit = (uint64_t)(unsigned char)text.data[i] - '0';
        if (digit > 9 || *out > (UINT64_MAX - digit) / 10) {
            return false;
        }
        *out = *out * 10 + digit;
    }
    return text.size > 0;
}

/* -- filters -------------------------------------------------------------------------------------------------------- */

typedef struct filters {
    lk_json_cursor    c;
    lk_arena         *arena;
    lk_rollout_filter list[LK_RECORD_COLUMNS];
    size_t            count;
} filters;

static bool takes_texts(lk_record_column column)
{
    static const lk_record_column columns[] = {LK_RECORD_COLUMN_id, LK_RECORD_COLUMN_rollout_id,
        LK_RECORD_COLUMN_problem_id, LK_RECORD_COLUMN_dataset, LK_RECORD_COLUMN_policy_version,
        LK_RECORD_COLUMN_role, LK_RECORD_COLUMN_artifact_type, LK_RECORD_COLUMN_content_type};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        if (columns[i] == column) {
            return true;
        }
    }
    return false;
}

static bool take_copy(filters *f, lk_bytes *out)
{
    lk_bytes text;
    if (!lk_json_take_text(&f->c, &text)) {
        return false;
    }
    *out = text.size == 0 ? LK_LITERAL("") : lk_arena_copy(f->arena, text);
    return true;
}

/* {"in": [texts]}; the list grows by doubling, in the arena. */
static bool take_texts(filters *f, lk_rollout_filter *filter)
{
    lk_bytes key, *texts = lk_arena_take(f->arena, 8 * sizeof *texts);
    size_t   room = 8;
    if (!lk_json_take_key(&f->c, &key) || !lk_bytes_equal(key, LK_LITERAL("in")) ||
        !lk_json_accept(&f->c, '[')) {
        return lk_json_fail(&f->c, "expected a text or {\"in\": [texts]}");
    }
    for (bool more = !lk_json_accept(&f->c, ']'); more; more = lk_json_more(&f->c, ']')) {
        if (filter->text_count == FILTER_TEXTS_MAX) {
            return lk_json_fail(&f->c, "more than 65,536 texts");
        }
        if (filter->text_count == room) {
            lk_bytes *wider = lk_arena_take(f->arena, 2 * room * sizeof *wider);
            memcpy(wider, texts, room * sizeof *texts);
            texts = wider;
            room *= 2;
        }
        if (!take_copy(f, &texts[filter->text_count])) {
            return false;
        }
        filter->text_count++;
    }
    filter->texts = texts;
    if (f->c.wrong == NULL && lk_json_more(&f->c, '}')) {
        return lk_json_fail(&f->c, "expected nothing beside \"in\"");
    }
    return f->c.wrong == NULL;
}

/* {"gte": time, "lt": time}, one of them at least. */
static bool take_span(filters *f, lk_rollout_filter *filter)
{
    bool any = false;
    if (!lk_json_accept(&f->c, '{')) {
        return lk_json_fail(&f->c, "expected {\"gte\": time, \"lt\": time}");
    }
    filter->from = INT64_MIN;
    filter->to = INT64_MAX;
    do {
        lk_bytes key, text;
        if (!lk_json_take_key(&f->c, &key)) {
            return lk_json_fail(&f->c, "expected \"gte\" or \"lt\"");
        }
        bool from = lk_bytes_equal(key, LK_LITERAL("gte")), to = lk_bytes_equal(key, LK_LITERAL("lt"));
        if ((!from && !to) || !lk_json_take_text(&f->c, &text) ||
            !lk_time_read(text, from ? &filter->from : &filter->to)) {
            return lk_json_fail(&f->c, "expected \"gte\" or \"lt\" with an RFC 3339 time");
        }
        any = true;
    } while (lk_json_more(&f->c, '}'));
    return any && f->c.wrong == NULL;
}

static bool take_condition(filters *f, lk_rollout_filter *filter)
{
    if (filter->column == LK_RECORD_COLUMN_include_in_training) {
        return lk_json_take_bool(&f->c, &filter->truth);
    }
    if (filter->column == LK_RECORD_COLUMN_created_at) {
        return take_span(f, filter);
    }
    if (lk_json_accept(&f->c, '{')) {
        return take_texts(f, filter);
    }
    lk_bytes *text = lk_arena_take(f->arena, sizeof *text);
    filter->texts = text;
    filter->text_count = 1;
    return take_copy(f, text);
}

static bool has_filter(const filters *f, lk_record_column column)
{
    size_t i = 0;
    while (i < f->count && f->list[i].column != column) {
        i++;
    }
    return i < f->count;
}

static lk_rc take_filter(filters *f, lk_err *err)
{
    lk_bytes key;
    if (!lk_json_take_key(&f->c, &key)) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "filters: %s", f->c.wrong);
    }
    lk_record_column column = lk_record_column_of(key, LK_RECORD_COLUMN_policy_version);
    if (!takes_texts(column) && column != LK_RECORD_COLUMN_created_at &&
        column != LK_RECORD_COLUMN_include_in_training) {
        return lk_refuse(err, LK_E_INVALID_REQUEST,
            "filters: no key \"%.60s\"; known are id, rollout_id, problem_id, dataset, role, content_type, "
            "policy_version, artifact_type, include_in_training, created_at",
            lk_arena_text(f->arena, key));
    }
    if (has_filter(f, column)) {
        return lk_refuse(
            err, LK_E_INVALID_REQUEST, "filters: \"%s\" is there twice", lk_record_column_name(column));
    }
    lk_rollout_filter *filter = &f->list[f->count++];
    *filter = (lk_rollout_filter){.column = column};
    if (!take_condition(f, filter)) {
        return lk_refuse(
            err, LK_E_INVALID_REQUEST, "filters: \"%s\": %s", lk_record_column_name(column), f->c.wrong);
    }
    return LK_OK;
}

static lk_rc read_filters(lk_bytes text, lk_arena *arena, lk_rollout_query *out, lk_err *err)
{
    filters *f = lk_arena_take(arena, sizeof *f);
    lk_rc    rc = LK_OK;
    f->arena = arena;
    lk_json_cursor_init(&f->c, text);
    if (!lk_json_accept(&f->c, '{')) {
        rc = lk_refuse(err, LK_E_INVALID_REQUEST, "filters: expected a JSON object");
    } else if (!lk_json_accept(&f->c, '}')) {
        do {
            rc = take_filter(f, err);
        } while (rc == LK_OK && lk_json_more(&f->c, '}'));
    }
    if (rc == LK_OK && (f->c.wrong != NULL || lk_json_peek(&f->c) != 0 || f->c.at != f->c.end)) {
        rc = lk_refuse(err, LK_E_INVALID_REQUEST, "filters: not one JSON object");
    }
    lk_json_cursor_deinit(&f->c);
    out->filters = f->list;
    out->filter_count = f->count;
    return rc;
}

/* -- the other parameters -------------------------------------------------------------------------------------------- */

static lk_rc wrong(const char *name, const char *expected, lk_err *err)
{
    return lk_refuse(err, LK_E_INVALID_REQUEST, "%s: expected %s", name, expected);
}

static lk_rc read_number(const char *name, lk_bytes text, uint64_t *out, lk_err *err)
{
    return lk_rollout_number_read(text, out) ? LK_OK : wrong(name, "a number that is not negative", err);
}

static lk_rc read_columns(lk_bytes text, uint64_t *out, lk_err *err)
{
    *out = 0;
    for (bool more = true; more;) {
        const char      *comma = text.size == 0 ? NULL : memchr(text.data, ',', text.size);
        lk_bytes         name = {text.data, comma == NULL ? text.size : (size_t)(comma - text.data)};
        lk_record_column column = lk_record_column_of(name, LK_RECORD_COLUMN_id);
        more = comma != NULL;
        if (column == LK_RECORD_COLUMNS) {
            return lk_refuse(err, LK_E_INVALID_REQUEST,
                "columns: no column \"%.*s\"; docs/ROLLOUT.md lists them", LK_FMT(name));
        }
        *out |= UINT64_C(1) << column;
        text = more ? (lk_bytes){comma + 1, text.size - name.size - 1} : (lk_bytes){0};
    }
    return LK_OK;
}

static lk_rc read_order(lk_bytes text, lk_rollout_order *out, lk_err *err)
{
    static const char *const names[] = {
        [LK_ROLLOUT_BY_TIME] = "time", [LK_ROLLOUT_BY_ID] = "id", [LK_ROLLOUT_ANY] = "none"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (lk_bytes_equal(text, lk_bytes_of(names[i]))) {
            *out = (lk_rollout_order)i;
            return LK_OK;
        }
    }
    return wrong("order", "time, id or none", err);
}

static lk_rc read_format(lk_bytes text, lk_rollout_format *out, lk_err *err)
{
    static const char *const names[] = {[LK_ROLLOUT_AS_JSON] = "json",
        [LK_ROLLOUT_AS_NDJSON] = "ndjson",
        [LK_ROLLOUT_AS_ARROW] = "arrow",
        [LK_ROLLOUT_AS_PARQUET] = "parquet"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (lk_bytes_equal(text, lk_bytes_of(names[i]))) {
            *out = (lk_rollout_format)i;
            return LK_OK;
        }
    }
    return wrong("format", "json, ndjson, arrow or parquet", err);
}

typedef enum parameter {
    LIMIT,
    OFFSET,
    FILTERS,
    ORDER,
    COLUMNS,
    CURSOR,
    VERSION,
    FORMAT,
    PAYLOAD,
    PARAMETERS
} parameter;

static lk_rc set(parameter which, lk_bytes value, lk_arena *arena, lk_rollout_list_query *out, lk_err *err)
{
    switch (which) {
    case LIMIT:
        return read_number("limit", value, &out->query.limit, err);
    case OFFSET:
        return read_number("offset", value, &out->query.offset, err);
    case FILTERS:
        return read_filters(value, arena, &out->query, err);
    case ORDER:
        return read_order(value, &out->query.order, err);
    case COLUMNS:
        return read_columns(value, &out->query.columns, err);
    case CURSOR:
        out->has_cursor = true;
        out->cursor = value;
        return LK_OK;
    case VERSION:
        return lk_rollout_number_read(value, &out->version) && out->version > 0
                   ? LK_OK
                   : wrong("version", "a version of the base table, from 1", err);
    case FORMAT:
        out->has_format = true;
        return read_format(value, &out->format, err);
    case PAYLOAD:
        out->inline_payload = true;
        return lk_bytes_equal(value, LK_LITERAL("inline")) ? LK_OK : wrong("payload", "inline", err);
    case PARAMETERS:
        break;
    }
    return LK_OK;
}

/* What does not go together. */
static lk_rc check(const lk_rollout_list_query *q, lk_err *err)
{
    if (!q->inline_payload && (q->query.columns >> LK_RECORD_COLUMN_binary_payload & 1) != 0) {
        return lk_refuse(err, LK_E_INVALID_REQUEST,
            "columns: payloads are read one at a time, by .../ID/blob, or with payload=inline");
    }
    if (q->has_cursor && (q->query.offset > 0 || q->version > 0 || q->query.order == LK_ROLLOUT_ANY)) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "a cursor goes without offset, version and order=none");
    }
    return LK_OK;
}

lk_rc lk_rollout_list_query_read(
    lk_bytes query_string, lk_arena *arena, lk_rollout_list_query *out, lk_err *err)
{
    static const char *const names[PARAMETERS] = {
        "limit", "offset", "filters", "order", "columns", "cursor", "version", "format", "payload"};
    lk_rc rc = LK_OK;
    *out = (lk_rollout_list_query){.query.limit = UINT64_MAX};
    for (size_t i = 0; rc == LK_OK && i < PARAMETERS; i++) {
        lk_bytes value = {0};
        bool     found = false;
        if (!lk_http_query_value(query_string, names[i], arena, &value, &found)) {
            rc = wrong(names[i], "a text without broken escapes", err);
        } else if (found) {
            rc = set((parameter)i, value, arena, out, err);
        }
    }
    return rc == LK_OK ? check(out, err) : rc;
}
