/*
 * rollout_add.c - records come in: a body of one of four types becomes records, side by side on the workers; then what waits
 * for one store is stored together (rollout_group.c), and each is answered: {"version", "ids", "count"}.
 */
#include "serve/rollout_add.h"

#include "base/json.h"
#include "rollout/multipart.h"
#include "rollout/records_arrow.h"
#include "rollout/records_json.h"
#include "serve/rollout_media.h"

#include <time.h>

enum { SMALL_BODY = 16 * 1024 };

/* -- multipart ------------------------------------------------------------------------------------------------------ */

static bool record_index(lk_bytes name, uint64_t *index)
{
    *index = 0;
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] < '0' || name.data[i] > '9') {
            return false;
        }
        *index = *index * 10 + (uint64_t)(name.data[i] - '0');
    }
    return name.size > 0 && name.size < 10;
}

static lk_rc take_payload(rollout_add_call *a, const lk_part *part, lk_err *err)
{
    uint64_t index;
    if (!record_index(part->name, &index)) {
        return lk_refuse(err, LK_E_INVALID_REQUEST,
            "a part is named \"%.*s\"; after \"metadata\" parts have the number of their record",
            LK_FMT(part->name));
    }
    if (index >= lk_records_count(a->records)) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "part %llu has no record: there are %zu",
            (unsigned long long)index, lk_records_count(a->records));
    }
    return lk_records_set_payload(a->records, (size_t)index, part->content, true, err);
}

static lk_rc read_multipart(rollout_add_call *a, lk_bytes body, lk_err *err)
{
    lk_bytes     type = {0}, boundary;
    lk_multipart multipart;
    lk_part      part;
    bool         found = false;
    lk_arena    *arena = a->call->arena;
    (void)lk_http_head_field(lk_http_request(a->call->exchange), "content-type", &type);
    if (!lk_multipart_boundary(type, &boundary)) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "multipart/form-data without a boundary");
    }
    lk_rc rc = lk_multipart_open(body, boundary, arena, &multipart, err);
    if (rc == LK_OK) {
        rc = lk_multipart_next(&multipart, arena, &part, &found, err);
    }
    if (rc == LK_OK && (!found || !lk_bytes_equal(part.name, LK_LITERAL("metadata")))) {
        rc = lk_refuse(err, LK_E_INVALID_REQUEST, "the first part must be named \"metadata\"");
    }
    if (rc == LK_OK) {
        rc = lk_records_read_json(a->records, part.content, err);
    }
    while (rc == LK_OK && found) {
        rc = lk_multipart_next(&multipart, arena, &part, &found, err);
        if (rc == LK_OK && found) {
            rc = take_payload(a, &part, err);
        }
    }
    return rc;
}

/* -- the body -------------------------------------------------------------------------------------------------------- */

/* *body is decoded then; a->decoded holds it if it had to be. */
static lk_rc decode(rollout_add_call *a, lk_bytes *body, lk_err *err)
{
    lk_rollout_service *s = a->call->service;
    lk_rollout_coding   coding = LK_ROLLOUT_IDENTITY;
    *body = lk_http_body(a->call->exchange);
    lk_rc rc = lk_rollout_body_coding_of(lk_http_request(a->call->exchange), &coding, err);
    if (rc != LK_OK || coding == LK_ROLLOUT_IDENTITY) {
        return rc;
    }
    rc = lk_rollout_body_decode(*body, coding, atomic_load(&s->body_max), &a->decoded, err);
    if (rc == LK_OK) {
        rc = lk_budget_take(&s->memory, a->decoded.size, err);
        a->charged = rc == LK_OK ? a->decoded.size : 0;
    }
    *body = lk_buf_view(&a->decoded);
    return rc;
}

uint64_t rollout_now_us(void)
{
    struct timespec now;
    LK_ASSERT(timespec_get(&now, TIME_UTC) == TIME_UTC);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static lk_rc read_records(rollout_add_call *a, lk_err *err)
{
    lk_rollout_body_type type;
    lk_bytes             body = {0};
    lk_rc                rc = lk_rollout_body_type_of(lk_http_request(a->call->exchange), &type, err);
    rc = rc == LK_OK ? decode(a, &body, err) : rc;
    rc = rc == LK_OK ? lk_records_open(rollout_now_us(), &a->call->service->memory, &a->records, err) : rc;
    if (rc != LK_OK) {
        return rc;
    }
    switch (type) {
    case LK_ROLLOUT_BODY_JSON:
        return lk_records_read_json(a->records, body, err);
    case LK_ROLLOUT_BODY_NDJSON:
        return lk_records_read_ndjson(a->records, body, err);
    case LK_ROLLOUT_BODY_ARROW:
        if (a->decoded.data == NULL) {
            lk_http_take_body(a->call->exchange, &a->decoded);
        }
        return lk_records_read_arrow(a->records, &a->decoded, &a->call->service->memory, err);
    case LK_ROLLOUT_BODY_MULTIPART:
        a->payloads_due = true;
        return read_multipart(a, body, err);
    }
    return LK_OK;
}

void rollout_add_note_ids(rollout_add_call *a, const lk_records *records, size_t first, size_t count)
{
    lk_json_writer w = {.out = &a->ids};
    a->count = count;
    lk_json_array(&w);
    for (size_t i = first; i < first + count; i++) {
        lk_json_text(&w, lk_records_id(records, i));
    }
    lk_json_array_end(&w);
}

lk_rc rollout_add_read(rollout_add_call *a, lk_err *err)
{
    lk_rc rc = read_records(a, err);
    if (rc == LK_OK) {
        rollout_add_note_ids(a, a->records, 0, lk_records_count(a->records));
        rc = lk_rollout_submission_init(&a->submission, a->records, a->payloads_due, err);
        lk_http_drop_body(a->call->exchange); /* its records are copies: it need not wait for storage */
        lk_buf_deinit(&a->decoded);
    }
    return rc;
}

/* Small bodies of the commonest kind cost more as batches of their own than they are worth. */
static bool is_small(const rollout_call *call)
{
    const lk_http_head  *head = lk_http_request(call->exchange);
    lk_err               ignored = {0};
    lk_rollout_body_type type;
    lk_rollout_coding    coding;
    return lk_http_body(call->exchange).size <= SMALL_BODY &&
           lk_rollout_body_type_of(head, &type, &ignored) == LK_OK && type == LK_ROLLOUT_BODY_JSON &&
           lk_rollout_body_coding_of(head, &coding, &ignored) == LK_OK && coding == LK_ROLLOUT_IDENTITY;
}

/* ?flush, ?flush=true, ?flush=1. */
static lk_rc read_flush(rollout_add_call *a, lk_err *err)
{
    lk_bytes value = {0};
    bool     found = false;
    lk_rc    rc = rollout_parameter(a->call, "flush", &value, &found, err);
    bool     no = lk_bytes_equal(value, LK_LITERAL("false")) || lk_bytes_equal(value, LK_LITERAL("0"));
    bool     yes = value.size == 0 || lk_bytes_equal(value, LK_LITERAL("true")) ||
               lk_bytes_equal(value, LK_LITERAL("1"));
    a->flush = found && yes;
    return rc == LK_OK && found && !yes && !no
               ? lk_refuse(err, LK_E_INVALID_REQUEST, "flush: expected true or false")
               : rc;
}

static lk_rc make_ready(rollout_add_call *a, lk_err *err)
{
    lk_rc rc = rollout_open_store(a->call, &a->store, err);
    if (rc == LK_OK) {
        rc = read_flush(a, err);
    }
    a->is_small = is_small(a->call);
    return rc == LK_OK && !a->is_small ? rollout_add_read(a, err) : rc;
}

/* -- answers ---------------------------------------------------------------------------------------------------------- */

static void release(rollout_add_call *a)
{
    lk_rollout_service *s = a->call->service;
    lk_rollout_submission_deinit(&a->submission);
    lk_records_close(a->records);
    lk_rollout_store_unref(a->store);
    lk_buf_deinit(&a->decoded);
    lk_buf_deinit(&a->ids);
    if (a->charged > 0) {
        lk_budget_give(&s->memory, a->charged);
    }
    atomic_fetch_sub(&s->queued_bytes, a->queued);
    atomic_fetch_sub(&s->adds_in_flight, 1);
}

void rollout_add_answer(rollout_add_call *a, lk_rc rc, uint64_t version, const lk_err *err)
{
    rollout_call       *call = a->call;
    lk_rollout_service *s = call->service;
    lk_rollout_status   status = {201, NULL};
    lk_buf              body = {0};
    if (rc == LK_OK) {
        lk_buf_format(&body, "{\"version\":%llu,\"ids\":%.*s,\"count\":%zu}", (unsigned long long)version,
            LK_FMT(lk_buf_view(&a->ids)), a->count);
        atomic_fetch_add(&s->appends, 1);
        atomic_fetch_add(&s->records, a->count);
    } else {
        lk_err why = *err;
        rollout_explain(call, &why);
        status = lk_rollout_status_of(why.rc);
        lk_rollout_error_body(call->exchange, &why, status, &body);
    }
    release(a);
    rollout_repeat_finish(s, a->repeat, status.status, lk_buf_view(&body));
    lk_http_answer(call->exchange, status.status, "application/json", &body);
}

lk_rc rollout_add(rollout_call *call, lk_err *err)
{
    rollout_add_call *a = lk_arena_take(call->arena, sizeof *a);
    bool              answered = false;
    a->call = call;
    lk_rc rc = rollout_repeat_begin(call, &a->repeat, &answered, err);
    if (rc != LK_OK || answered) {
        return rc;
    }
    a->queued = lk_http_body(call->exchange).size;
    atomic_fetch_add(&call->service->queued_bytes, a->queued);
    atomic_fetch_add(&call->service->adds_in_flight, 1);
    rc = make_ready(a, err);
    if (rc == LK_OK) {
        rollout_group_add(call->service, a);
    } else {
        rollout_add_answer(a, rc, 0, err);
    }
    return LK_OK;
}
