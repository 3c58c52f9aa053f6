/* rollout_input.c - see rollout_input.h. Texts are here, rows in rollout_rows.c. */
#include "cli/rollout_input.h"

#include "base/file.h"
#include "base/json.h"
#include "base/limits.h"
#include "cli/cli.h"
#include "cli/rollout_rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define DOCUMENT_BYTES_MAX (1024ULL * 1024 * 1024)

struct lk_rollout_input {
    const lk_rollout_input_options *options;
    bool                           *used; /* of the payloads */
    /* ndjson */
    FILE  *file;
    char  *line;
    size_t line_room;
    size_t line_size, line_number;
    bool   held; /* line is of the next group */
    /* json */
    lk_buf   document;
    lk_bytes elements; /* of its array, or its one object, behind those that were read */
    bool     is_array;
    size_t   next;
    size_t   counted; /* bytes of the document whose line ends are in line_number */
    size_t   before;  /* records of earlier groups */
    /* rows */
    lk_rollout_rows_in *rows;
};

/* -- ids ------------------------------------------------------------------------------------------------------------ */
static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static size_t skip_space(lk_bytes text, size_t at)
{
    while (at < text.size && is_space(text.data[at])) {
        at++;
    }
    return at;
}

/* Behind the string that begins at `at`. */
static size_t skip_string(lk_bytes text, size_t at)
{
    for (at++; at < text.size && text.data[at] != '"'; at++) {
        at += text.data[at] == '\\';
    }
    return at < text.size ? at + 1 : text.size;
}

/* Behind the value that begins at `at`. */
static size_t skip_value(lk_bytes text, size_t at)
{
    size_t depth = 0;
    while (at < text.size) {
        char c = text.data[at];
        bool opens = c == '{' || c == '[', closes = c == '}' || c == ']';
        if (depth == 0 && (c == ',' || closes || is_space(c))) {
            break;
        }
        at = c == '"' ? skip_string(text, at) : at + 1;
        depth += opens;
        depth -= closes;
        if (depth == 0 && (closes || c == '"')) {
            break;
        }
    }
    return at;
}

/* The value of a member of an object that `at` is in, without white space around it; empty: there is none. */
static lk_bytes find_member(lk_bytes o, size_t at, const char *name)
{
    while (at < o.size) {
        at = skip_space(o, at);
        if (at >= o.size || o.data[at] != '"') {
            break;
        }
        size_t key = at;
        at = skip_string(o, at);
        bool wanted = at - key == strlen(name) + 2 && memcmp(o.data + key + 1, name, strlen(name)) == 0;
        at = skip_space(o, at);
        if (at >= o.size || o.data[at] != ':') {
            break;
        }
        size_t start = skip_space(o, at + 1);
        at = skip_value(o, start);
        size_t end = at;
        while (end > start && is_space(o.data[end - 1])) {
            end--;
        }
        if (wanted) {
            return (lk_bytes){o.data + start, end - start};
        }
        at = skip_space(o, at);
        at += at < o.size && o.data[at] == ',';
    }
    return (lk_bytes){0};
}

bool lk_rollout_mint(lk_bytes object, lk_uuid fresh, lk_buf *out, lk_bytes *id)
{
    size_t at = skip_space(object, 0);
    if (at >= object.size || object.data[at] != '{') {
        return false;
    }
    at = skip_space(object, at + 1);
    *id = find_member(object, at, "id");
    if (id->size > 0) {
        lk_buf_append_bytes(out, object);
        return true;
    }
    char text[LK_UUID_TEXT_SIZE + 1];
    bool empty = at < object.size && object.data[at] == '}';
    lk_uuid_format(fresh, text);
    lk_buf_format(out, "{\"id\":\"%s\"%s", text, empty ? "" : ",");
    lk_buf_append(out, object.data + at, object.size - at);
    return true;
}

/* -- payloads -------------------------------------------------------------------------------------------------------- */

/* Whether the raw JSON text of an id is that of "ID=FILE". */
static bool is_of(lk_bytes raw, const char *payload, lk_arena *arena)
{
    lk_buf              object = {0};
    lk_bytes            id = {0};
    lk_err              ignored = {0};
    const lk_json_field fields[] = {{"id", LK_JSON_TEXT, &id, false, NULL}};
    const char         *equals = strchr(payload, '=');
    lk_buf_append_text(&object, "{\"id\":");
    lk_buf_append_bytes(&object, raw);
    lk_buf_append_text(&object, "}");
    bool same = lk_json_read(lk_buf_view(&object), fields, 1, arena, &ignored) == LK_OK && equals != NULL &&
                lk_bytes_equal(id, (lk_bytes){payload, (size_t)(equals - payload)});
    lk_buf_deinit(&object);
    return same;
}

static lk_rc add_payload(lk_rollout_input *in, lk_rollout_group_in *group, lk_bytes id, lk_err *err)
{
    const lk_rollout_input_options *o = in->options;
    lk_arena                        arena = {0};
    lk_rc                           rc = LK_OK;
    for (size_t i = 0; i < o->payload_count && rc == LK_OK && id.size > 0; i++) {
        if (!is_of(id, o->payloads[i], &arena)) {
            continue;
        }
        lk_rollout_payload *more =
            realloc(group->payloads, (group->payload_count + 1) * sizeof *group->payloads);
        LK_ASSERT(more != NULL);
        group->payloads = more;
        group->payloads[group->payload_count] = (lk_rollout_payload){.index = group->count};
        lk_buf *bytes = &group->payloads[group->payload_count++].bytes;
        in->used[i] = true;
        rc = lk_file_read(strchr(o->payloads[i], '=') + 1, DOCUMENT_BYTES_MAX, bytes, err);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc check_payloads(const lk_rollout_input_options *o, lk_err *err)
{
    for (size_t i = 0; i < o->payload_count; i++) {
        if (strchr(o->payloads[i], '=') == NULL) {
            return lk_cli_usage(err, "--payload is ID=FILE, not %.100s", o->payloads[i]);
        }
    }
    return LK_OK;
}

/* -- groups of texts --------------------------------------------------------------------------------------------------- */
static size_t group_bytes(const lk_rollout_group_in *group)
{
    size_t bytes = group->json.size;
    for (size_t i = 0; i < group->payload_count; i++) {
        bytes += group->payloads[i].bytes.size;
    }
    return bytes;
}

static bool is_full(const lk_rollout_input *in, const lk_rollout_group_in *group, size_t more)
{
    return group->count >= in->options->rows_max ||
           (group->count > 0 && group_bytes(group) + more > in->options->bytes_max);
}

static lk_rc add_object(
    lk_rollout_input *in, lk_rollout_group_in *group, lk_bytes object, size_t number, lk_err *err)
{
    lk_bytes id = {0};
    lk_buf_append_text(&group->json, group->count == 0 ? "{\"records\":[" : ",");
    lk_rollout_origin origin = {.line = in->line_number, .start = group->json.size};
    if (!lk_rollout_mint(object, lk_uuid_v7(in->options->clock, in->options->random), &group->json, &id)) {
        return lk_refuse(
            err, LK_E_INVALID_REQUEST, "%.100s: record %zu is no JSON object", in->options->path, number);
    }
    origin.inserted = id.size > 0 ? 0 : group->json.size - origin.start - object.size;
    lk_buf_append(&group->origins, &origin, sizeof origin);
    lk_rc rc = add_payload(in, group, id, err);
    group->count++;
    return rc;
}

/* The next line that is not empty into in->line; *size 0 at the end. */
static lk_rc read_line(lk_rollout_input *in, lk_bytes *line, lk_err *err)
{
    *line = (lk_bytes){0};
    while (line->size == 0) {
        errno = 0;
        ssize_t size = in->held ? (ssize_t)in->line_size : getline(&in->line, &in->line_room, in->file);
        if (size < 0) {
            return ferror(in->file) ? lk_fail_errno(err, errno, "read", in->options->path) : LK_OK;
        }
        in->line_number += !in->held;
        in->held = false;
        while (size > 0 && is_space(in->line[size - 1])) {
            in->line[--size] = '\0';
        }
        in->line_size = (size_t)size;
        *line = (lk_bytes){in->line, in->line_size};
    }
    return LK_OK;
}

static lk_rc next_lines(lk_rollout_input *in, lk_rollout_group_in *group, lk_err *err)
{
    lk_rc rc = LK_OK;
    while (rc == LK_OK) {
        lk_bytes line;
        rc = read_line(in, &line, err);
        if (rc != LK_OK || line.size == 0) {
            break;
        }
        if (is_full(in, group, line.size)) {
            in->held = true;
            break;
        }
        rc = add_object(in, group, line, in->line_number, err);
    }
    return rc;
}

/* The first of the elements that are left, taken off; empty: there is none. */
static lk_rc take_element(lk_rollout_input *in, lk_bytes *element, lk_err *err)
{
    lk_bytes text = in->elements;
    size_t   start = skip_space(text, 0), end = skip_value(text, start);
    *element = (lk_bytes){text.data + start, end - start};
    size_t after = skip_space(text, end);
    char   next = after < text.size ? text.data[after] : '\0';
    bool   at_end = !in->is_array ? after == text.size : next == ']';
    if (at_end && in->is_array) {
        after = skip_space(text, after + 1);
        at_end = after == text.size;
        in->is_array = false; /* nothing is left of it */
    }
    if (!at_end && (!in->is_array || next != ',')) {
        return lk_refuse(
            err, LK_E_INVALID_REQUEST, "%.100s: no JSON behind record %zu", in->options->path, in->next + 1);
    }
    after += !at_end;
    in->elements = (lk_bytes){text.data + after, text.size - after};
    return LK_OK;
}

/* Line ends of the document up to `at`. */
static void count_lines(lk_rollout_input *in, const char *at)
{
    size_t end = (size_t)(at - in->document.data);
    while (in->counted < end) {
        in->line_number += in->document.data[in->counted++] == '\n';
    }
}

static lk_rc next_elements(lk_rollout_input *in, lk_rollout_group_in *group, lk_err *err)
{
    lk_rc rc = LK_OK;
    while (rc == LK_OK && (in->elements.size > 0 || in->is_array)) {
        lk_bytes before = in->elements, object;
        bool     was_array = in->is_array;
        rc = take_element(in, &object, err);
        if (rc == LK_OK && object.size > 0 && is_full(in, group, object.size)) {
            in->elements = before;
            in->is_array = was_array;
            break;
        }
        bool empty = object.size == 0 && in->next == 0 && in->elements.size == 0; /* [] */
        if (rc == LK_OK && !empty) {
            count_lines(in, object.data);
            rc = add_object(in, group, object, ++in->next, err);
        }
    }
    return rc;
}

lk_rc lk_rollout_input_next(lk_rollout_input *in, lk_rollout_group_in *out, lk_err *err)
{
    *out = (lk_rollout_group_in){.before = in->before};
    if (in->rows != NULL) {
        lk_rc rc = lk_rollout_rows_in_next(in->rows, &out->rows, &out->count, err);
        in->before += out->count;
        return rc;
    }
    lk_rc rc = (in->file != NULL ? next_lines : next_elements)(in, out, err);
    if (rc == LK_OK && out->count > 0) {
        lk_buf_append_text(&out->json, "]}");
    }
    in->before += out->count;
    return rc;
}

/* -- where ------------------------------------------------------------------------------------------------------------ */

static bool read_number(const char *text, size_t *out, const char **rest)
{
    char *end;
    *out = strtoull(text, &end, 10);
    *rest = end;
    return end != text;
}

/* Line and byte in it of a byte of the group's text that lies in this record; without one, of the record. */
static void place_of(const lk_rollout_group_in *group, const lk_rollout_origin *origin, size_t byte,
    size_t *line, size_t *column)
{
    *line = origin->line;
    *column = 1;
    for (size_t i = origin->start + origin->inserted; i < byte && i < group->json.size; i++) {
        bool ends = group->json.data[i] == '\n';
        *line += ends;
        *column = ends ? 1 : *column + 1;
    }
}

void lk_rollout_input_locate(const lk_rollout_input *in, const lk_rollout_group_in *group, lk_err *err)
{
    static const char at_byte[] = " at byte ";
    const char       *name = strcmp(in->options->path, "-") == 0 ? "stdin" : in->options->path;
    char              said[LK_ERR_DETAIL_BYTES];
    lk_rc             rc = err->rc;
    lk_err            found = {.maybe_applied = err->maybe_applied};
    (void)snprintf(said, sizeof said, "%s", err->detail);
    const char *record = strstr(said, "record "), *what = NULL;
    size_t      index = 0, byte = 0, line = 0, column = 0;
    if (record == NULL || !read_number(record + 7, &index, &what) || index >= group->count) {
        return;
    }
    if (group->json.size == 0) {
        rc = lk_refuse(&found, rc, "%.80s row %zu%s", name, group->before + index + 1, what);
        LK_ASSERT(rc == found.rc);
        *err = found;
        return;
    }
    char       *at = strstr(said, at_byte);
    const char *end;
    bool        has_byte = at != NULL && read_number(at + sizeof at_byte - 1, &byte, &end) && *end == '\0';
    place_of(group, (const lk_rollout_origin *)(const void *)group->origins.data + index, has_byte ? byte : 0,
        &line, &column);
    if (has_byte) {
        *at = '\0';
        rc = lk_refuse(&found, rc, "%.80s line %zu, byte %zu%s", name, line, column, what);
    } else {
        rc = lk_refuse(&found, rc, "%.80s line %zu%s", name, line, what);
    }
    LK_ASSERT(rc == found.rc);
    *err = found;
}

/* -- opening --------------------------------------------------------------------------------------------------------- */
/* One record, an array of them, or {"records": [...]}. */
static lk_rc read_document(lk_rollout_input *in, lk_err *err)
{
    const char *path = in->options->path;
    lk_rc rc = strcmp(path, "-") == 0 ? lk_file_read_all(0, "stdin", DOCUMENT_BYTES_MAX, &in->document, err)
                                      : lk_file_read(path, DOCUMENT_BYTES_MAX, &in->document, err);
    lk_bytes text = lk_buf_view(&in->document);
    size_t   start = rc == LK_OK ? skip_space(text, 0) : text.size;
    text = (lk_bytes){text.data + start, text.size - start};
    if (text.size > 0 && text.data[0] == '{') {
        lk_bytes records = find_member(text, 1, "records");
        bool     wraps =
            records.size > 0 && records.data[0] == '[' && find_member(text, 1, "rollout_id").size == 0;
        text = wraps ? records : text;
    }
    in->line_number = 1;
    in->is_array = text.size > 0 && text.data[0] == '[';
    in->elements = in->is_array ? (lk_bytes){text.data + 1, text.size - 1} : text;
    return rc;
}

static lk_rc open_lines(lk_rollout_input *in, lk_err *err)
{
    const char *path = in->options->path;
    in->file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    return in->file != NULL ? LK_OK : lk_fail_errno(err, errno, "open", path);
}

static const char *kind_of(const lk_rollout_input_options *o)
{
    static const char *const endings[][2] = {{".ndjson", "ndjson"}, {".jsonl", "ndjson"}, {".json", "json"}};
    size_t                   size = strlen(o->path);
    if (o->kind != NULL || strcmp(o->path, "-") == 0) {
        return o->kind != NULL ? o->kind : "ndjson";
    }
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t length = strlen(endings[i][0]);
        if (size >= length && strcasecmp(o->path + size - length, endings[i][0]) == 0) {
            return endings[i][1];
        }
    }
    return "rows";
}

lk_rc lk_rollout_input_open(const lk_rollout_input_options *options, lk_rollout_input **out, lk_err *err)
{
    const char       *kind = kind_of(options);
    lk_rollout_input *in = calloc(1, sizeof *in);
    LK_ASSERT(in != NULL);
    *out = NULL;
    in->options = options;
    in->used = calloc(options->payload_count + 1, sizeof *in->used);
    LK_ASSERT(in->used != NULL);
    lk_rc rc = check_payloads(options, err);
    if (rc == LK_OK && strcmp(kind, "ndjson") == 0) {
        rc = open_lines(in, err);
    } else if (rc == LK_OK && strcmp(kind, "json") == 0) {
        rc = read_document(in, err);
    } else if (rc == LK_OK && options->payload_count > 0) {
        rc = lk_cli_usage(err, "--payload goes with JSON; rows have a column binary_payload");
    } else if (rc == LK_OK) {
        rc = lk_rollout_rows_in_open(options, kind, &in->rows, err);
    }
    if (rc != LK_OK) {
        lk_rollout_input_close(in);
        return rc;
    }
    *out = in;
    return LK_OK;
}

const struct ArrowSchema *lk_rollout_input_schema(const lk_rollout_input *in)
{
    return in->rows == NULL ? NULL : lk_rollout_rows_in_schema(in->rows);
}

lk_rc lk_rollout_input_finish(const lk_rollout_input *in, lk_err *err)
{
    for (size_t i = 0; i < in->options->payload_count; i++) {
        if (!in->used[i]) {
            return lk_cli_usage(err, "--payload %.100s: no record has that id", in->options->payloads[i]);
        }
    }
    return LK_OK;
}

void lk_rollout_input_close(lk_rollout_input *in)
{
    if (in == NULL) {
        return;
    }
    if (in->file != NULL && in->file != stdin) {
        (void)fclose(in->file);
    }
    free(in->line);
    free(in->used);
    lk_buf_deinit(&in->document);
    lk_rollout_rows_in_close(in->rows);
    free(in);
}

void lk_rollout_group_in_deinit(lk_rollout_group_in *group)
{
    for (size_t i = 0; i < group->payload_count; i++) {
        lk_buf_deinit(&group->payloads[i].bytes);
    }
    free(group->payloads);
    lk_buf_deinit(&group->json);
    lk_buf_deinit(&group->origins);
    lk_shared_array_unref(group->rows);
    *group = (lk_rollout_group_in){0};
}
