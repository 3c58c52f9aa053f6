/*
 * rollout_add.c - records come in: a body of one of four types becomes records, the store takes them, 201 tells.
 *
 * body -> decoded -> records -> lk_rollout_store_add -> {"version", "ids", "count"}
 */
#include "base/clock.h"
#include "base/json.h"
#include "rollout/multipart.h"
#include "rollout/records_json.h"
#include "serve/rollout_media.h"
#include "serve/rollout_service_priv.h"

typedef struct add {
    rollout_call        *call;
    lk_rollout_body_type type;
    lk_bytes             body; /* decoded */
    lk_buf               decoded;
    size_t               charged; /* for decoded, to the service's memory */
    lk_records          *records;
} add;

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

static lk_rc take_payload(add *a, const lk_part *part, lk_err *err)
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

static lk_rc read_multipart(add *a, lk_err *err)
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
    lk_rc rc = lk_multipart_open(a->body, boundary, arena, &multipart, err);
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

static lk_rc decode(add *a, lk_err *err)
{
    const lk_http_head *head = lk_http_request(a->call->exchange);
    lk_rollout_service *s = a->call->service;
    lk_rollout_coding   coding;
    a->body = lk_http_body(a->call->exchange);
    lk_rc rc = lk_rollout_body_type_of(head, &a->type, err);
    if (rc == LK_OK) {
        rc = lk_rollout_body_coding_of(head, &coding, err);
    }
    if (rc != LK_OK || coding == LK_ROLLOUT_IDENTITY) {
        return rc;
    }
    rc = lk_rollout_body_decode(a->body, coding, s->options.body_max, &a->decoded, err);
    if (rc == LK_OK) {
        rc = lk_budget_take(&s->memory, a->decoded.size, err);
        a->charged = rc == LK_OK ? a->decoded.size : 0;
    }
    a->body = lk_buf_view(&a->decoded);
    return rc;
}

static lk_rc read_records(add *a, lk_err *err)
{
    lk_rc rc = lk_records_open(
        lk_clock_wall_ms(lk_clock_real()) * 1000, &a->call->service->memory, &a->records, err);
    if (rc != LK_OK) {
        return rc;
    }
    switch (a->type) {
    case LK_ROLLOUT_BODY_JSON:
        return lk_records_read_json(a->records, a->body, err);
    case LK_ROLLOUT_BODY_NDJSON:
        return lk_records_read_ndjson(a->records, a->body, err);
    case LK_ROLLOUT_BODY_MULTIPART:
        return read_multipart(a, err);
    case LK_ROLLOUT_BODY_ARROW:
        break;
    }
    return lk_refuse(err, LK_E_UNSUPPORTED_MEDIA, "no Arrow yet");
}

/* Everything of the answer but the version, which is known last. */
static void write_ids(const lk_records *records, lk_buf *out)
{
    lk_json_writer w = {.out = out};
    size_t         count = lk_records_count(records);
    lk_json_array(&w);
    for (size_t i = 0; i < count; i++) {
        lk_json_text(&w, lk_records_id(records, i));
    }
    lk_json_array_end(&w);
}

static void add_close(add *a)
{
    lk_records_close(a->records);
    if (a->charged > 0) {
        lk_budget_give(&a->call->service->memory, a->charged);
    }
    lk_buf_deinit(&a->decoded);
}

static lk_rc store_records(add *a, lk_buf *answer, lk_err *err)
{
    lk_rollout_store *store = NULL;
    lk_buf            ids = {0};
    uint64_t          version = 0;
    size_t            count = lk_records_count(a->records);
    lk_rc             rc = rollout_open_store(a->call, &store, err);
    if (rc == LK_OK) {
        write_ids(a->records, &ids);
        rc = lk_rollout_store_add(store, a->records, a->type == LK_ROLLOUT_BODY_MULTIPART, &version, err);
    }
    lk_rollout_store_unref(store);
    if (rc == LK_OK) {
        lk_buf_format(answer, "{\"version\":%llu,\"ids\":%.*s,\"count\":%zu}", (unsigned long long)version,
            LK_FMT(lk_buf_view(&ids)), count);
        atomic_fetch_add(&a->call->service->appends, 1);
        atomic_fetch_add(&a->call->service->records, count);
    }
    lk_buf_deinit(&ids);
    return rc;
}

lk_rc rollout_add(rollout_call *call, lk_err *err)
{
    add                 a = {.call = call};
    lk_buf              answer = {0};
    lk_rollout_service *s = call->service;
    uint64_t            queued = lk_http_body(call->exchange).size;
    atomic_fetch_add(&s->queued_bytes, queued);
    lk_rc rc = decode(&a, err);
    if (rc == LK_OK) {
        rc = read_records(&a, err);
    }
    if (rc == LK_OK) {
        rc = store_records(&a, &answer, err);
    }
    add_close(&a);
    atomic_fetch_sub(&s->queued_bytes, queued);
    if (rc == LK_OK) {
        rollout_answer_json(call, 201, &answer);
    }
    return rc;
}
