/*
 * rollout_service.c - see rollout_service.h: which method of which path is whose, who may call it, and what is looked at before
 * a body is read.
 */
#include "serve/rollout_service.h"

#include "base/clock.h"
#include "base/crypt.h"
#include "serve/rollout_add.h"
#include "serve/rollout_media.h"
#include "serve/rollout_service_priv.h"
#include "serve/rollout_tail.h"

#include <stdlib.h>

enum { CONTROL_BODY_MAX = 1024 * 1024, BACKLOG = 16384, WORKERS = 64 };

#define MEMORY_MIN (UINT64_C(256) << 20)
#define GIB        (UINT64_C(1) << 30)

#define OF_LIST "limit, offset, filters, order, columns, cursor, version, format, payload"
#define OF_TAIL "cursor, timeout_ms, filters, order, columns, format, payload"

/* clang-format off */
static const rollout_method methods[] = {
    {LK_ROLLOUT_HEALTH, "GET", LK_ROLLOUT_READ, true, ROLLOUT_BODY_NONE, rollout_health, NULL, false},
    {LK_ROLLOUT_READY, "GET", LK_ROLLOUT_READ, true, ROLLOUT_BODY_NONE, rollout_ready, NULL, false},
    {LK_ROLLOUT_METRICS, "GET", LK_ROLLOUT_READ, false, ROLLOUT_BODY_NONE, rollout_metrics, NULL, false},
    {LK_ROLLOUT_STORES, "GET", LK_ROLLOUT_READ, false, ROLLOUT_BODY_NONE, rollout_list_stores, "", false},
    {LK_ROLLOUT_STORES, "POST", LK_ROLLOUT_WRITE, false, ROLLOUT_BODY_CONTROL, rollout_create_store, "", false},
    {LK_ROLLOUT_STORE, "GET", LK_ROLLOUT_READ, false, ROLLOUT_BODY_NONE, rollout_get_store, "", false},
    {LK_ROLLOUT_STORE, "DELETE", LK_ROLLOUT_ADMIN, false, ROLLOUT_BODY_NONE, rollout_delete_store, "", false},
    {LK_ROLLOUT_STORE_SHORT, "GET", LK_ROLLOUT_READ, false, ROLLOUT_BODY_NONE, rollout_get_store, "", false},
    {LK_ROLLOUT_STORE_SHORT, "DELETE", LK_ROLLOUT_ADMIN, false, ROLLOUT_BODY_NONE, rollout_delete_store, "", false},
    {LK_ROLLOUT_STORE_SHORT, "POST", LK_ROLLOUT_WRITE, false, ROLLOUT_BODY_RECORDS, rollout_add, "flush", false},
    {LK_ROLLOUT_RECORDS, "POST", LK_ROLLOUT_WRITE, false, ROLLOUT_BODY_RECORDS, rollout_add, "flush", false},
    {LK_ROLLOUT_RECORDS, "GET", LK_ROLLOUT_READ, false, ROLLOUT_BODY_NONE, rollout_list, OF_LIST, true},
    {LK_ROLLOUT_RECORD, "GET", LK_ROLLOUT_READ, false, ROLLOUT_BODY_NONE, rollout_get, "version", true},
    {LK_ROLLOUT_BLOB, "GET", LK_ROLLOUT_READ, false, ROLLOUT_BODY_NONE, rollout_blob, "version, ct", true},
    {LK_ROLLOUT_TRAJECTORY, "GET", LK_ROLLOUT_READ, false, ROLLOUT_BODY_NONE, rollout_trajectory, "version, format", true},
    {LK_ROLLOUT_CHECKOUT, "POST", LK_ROLLOUT_READ, false, ROLLOUT_BODY_CONTROL, rollout_checkout, "", false},
    {LK_ROLLOUT_COMPACT, "POST", LK_ROLLOUT_ADMIN, false, ROLLOUT_BODY_CONTROL, rollout_compact, "", false},
    {LK_ROLLOUT_COMPACT_STATS, "GET", LK_ROLLOUT_READ, false, ROLLOUT_BODY_NONE, rollout_compact_stats, "", false},
    {LK_ROLLOUT_STATS, "GET", LK_ROLLOUT_READ, false, ROLLOUT_BODY_NONE, rollout_stats, "group_by, filters, version", true},
    {LK_ROLLOUT_TAIL, "GET", LK_ROLLOUT_READ, false, ROLLOUT_BODY_NONE, rollout_tail, OF_TAIL, true},
    {LK_ROLLOUT_MERGE, "POST", LK_ROLLOUT_ADMIN, false, ROLLOUT_BODY_CONTROL, rollout_merge, "", false},
};
/* clang-format on */

enum { METHODS = sizeof methods / sizeof methods[0] };

/* -- before the body --------------------------------------------------------------------------------------------- */

static lk_bytes effective_method(const lk_http_head *head)
{
    return lk_bytes_equal(head->method, LK_LITERAL("HEAD")) ? LK_LITERAL("GET") : head->method;
}

static lk_rc find_method(rollout_call *call, lk_err *err)
{
    lk_bytes wanted = effective_method(lk_http_request(call->exchange));
    lk_buf   allow = {0};
    for (size_t i = 0; i < METHODS; i++) {
        if (methods[i].resource != call->target.resource) {
            continue;
        }
        if (lk_bytes_equal(wanted, lk_bytes_of(methods[i].name))) {
            call->method = &methods[i];
        }
        bool is_get = strcmp(methods[i].name, "GET") == 0;
        lk_buf_format(&allow, "%s%s", allow.size == 0 ? "" : ", ", is_get ? "GET, HEAD" : methods[i].name);
    }
    bool is_options = lk_bytes_equal(wanted, LK_LITERAL("OPTIONS"));
    if (call->method == NULL) {
        lk_http_add_field(call->exchange, "Allow", lk_buf_view(&allow));
    }
    if (is_options && call->service->options.cors) {
        lk_http_add_field(call->exchange, "Access-Control-Allow-Methods", lk_buf_view(&allow));
        lk_http_add_field(call->exchange, "Access-Control-Allow-Headers", LK_LITERAL("*, Authorization"));
        lk_http_add_field(call->exchange, "Access-Control-Max-Age", LK_LITERAL("86400"));
    }
    lk_buf_deinit(&allow);
    return call->method != NULL || is_options ? LK_OK : lk_refuse(err, LK_E_METHOD, "see the Allow field");
}

/* -- tokens ------------------------------------------------------------------------------------------------------- */

static lk_bytes keep(lk_buf *texts, lk_bytes text, size_t *at)
{
    lk_bytes kept = {texts->data + *at, text.size};
    memcpy(texts->data + *at, text.data, text.size);
    *at += text.size;
    return kept;
}

static rollout_tokens *new_tokens(const lk_rollout_token *items, size_t count)
{
    size_t          size = 0, at = 0;
    rollout_tokens *tokens = count == 0 ? NULL : calloc(1, sizeof *tokens);
    if (tokens == NULL) {
        LK_ASSERT(count == 0);
        return NULL;
    }
    atomic_init(&tokens->refs, 1);
    tokens->items = calloc(count, sizeof *tokens->items);
    LK_ASSERT(tokens->items != NULL);
    tokens->count = count;
    for (size_t i = 0; i < count; i++) {
        LK_ASSERT(items[i].secret.size > 0);
        size += items[i].secret.size;
    }
    lk_buf_append_zeros(&tokens->secrets, size);
    for (size_t i = 0; i < count; i++) {
        tokens->items[i] = (lk_rollout_token){keep(&tokens->secrets, items[i].secret, &at), items[i].role};
    }
    return tokens;
}

static rollout_tokens *take_tokens(lk_rollout_service *s)
{
    lk_mutex_lock(&s->mutex);
    rollout_tokens *tokens = s->tokens;
    if (tokens != NULL) {
        atomic_fetch_add(&tokens->refs, 1);
    }
    lk_mutex_unlock(&s->mutex);
    return tokens;
}

static void unref_tokens(rollout_tokens *tokens)
{
    if (tokens != NULL && atomic_fetch_sub(&tokens->refs, 1) == 1) {
        lk_wipe(tokens->secrets.data, tokens->secrets.size);
        lk_buf_deinit(&tokens->secrets);
        free(tokens->items);
        free(tokens);
    }
}

void lk_rollout_service_set_tokens(lk_rollout_service *s, const lk_rollout_token *items, size_t count)
{
    LK_ASSERT(s->has_tokens == (count > 0));
    rollout_tokens *fresh = new_tokens(items, count);
    lk_mutex_lock(&s->mutex);
    rollout_tokens *old = s->tokens;
    s->tokens = fresh;
    lk_mutex_unlock(&s->mutex);
    unref_tokens(old);
}

/* The role of the token that the request carries. Every token is compared, so that time tells nothing. */
static bool role_of(const rollout_call *call, lk_rollout_role *role)
{
    static const lk_bytes scheme = {"bearer ", 7};
    lk_bytes              value;
    bool                  known = false;
    if (!lk_http_head_field(lk_http_request(call->exchange), "authorization", &value) ||
        value.size <= scheme.size) {
        return false;
    }
    for (size_t i = 0; i < scheme.size; i++) {
        char c = value.data[i];
        if ((c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) != scheme.data[i]) {
            return false;
        }
    }
    lk_bytes        secret = {value.data + scheme.size, value.size - scheme.size};
    rollout_tokens *tokens = take_tokens(call->service);
    for (size_t i = 0; tokens != NULL && i < tokens->count; i++) {
        if (lk_equal_constant_time(secret, tokens->items[i].secret)) {
            *role = tokens->items[i].role;
            known = true;
        }
    }
    unref_tokens(tokens);
    return known;
}

static lk_rc authorize(const rollout_call *call, lk_err *err)
{
    lk_rollout_role role = LK_ROLLOUT_READ, due = call->method->role;
    if (!call->service->has_tokens || call->method->open) {
        return LK_OK;
    }
    if (!role_of(call, &role)) {
        return lk_fail(err, LK_E_UNAUTHENTICATED, "no token, or an unknown one");
    }
    if (call->target.resource == LK_ROLLOUT_CHECKOUT && call->service->options.shared_checkout) {
        due = LK_ROLLOUT_ADMIN; /* it moves all readers */
    }
    if (role < due) {
        return lk_refuse(err, LK_E_DENIED, "this needs a token with the role %s",
            due == LK_ROLLOUT_ADMIN ? "admin" : "write");
    }
    return LK_OK;
}

/* Whether a list of names has this one. */
static bool names(const char *list, lk_bytes name)
{
    lk_bytes rest = lk_bytes_of(list);
    bool     found = false;
    while (rest.size > 0 && !found) {
        const char *comma = memchr(rest.data, ',', rest.size);
        size_t      size = comma == NULL ? rest.size : (size_t)(comma - rest.data);
        size_t      used = comma == NULL ? size : size + 2;
        found = lk_bytes_equal((lk_bytes){rest.data, size}, name);
        rest = (lk_bytes){rest.data + used, rest.size - used};
    }
    return found;
}

/* A mistyped parameter would be answered with what nobody asked for. */
static lk_rc check_parameters(const rollout_call *call, lk_err *err)
{
    const char *known = call->method->parameters;
    lk_bytes    query = lk_http_request(call->exchange)->query, name, raw;
    while (known != NULL && query.size > 0) {
        if (!lk_http_query_next(&query, call->arena, &name, &raw)) {
            return lk_refuse(err, LK_E_INVALID_REQUEST, "the name of a parameter has a broken escape");
        }
        if (name.size + raw.size > 0 && !names(known, name)) {
            return lk_refuse(err, LK_E_INVALID_REQUEST, "there is no parameter \"%.*s\" here; %s%s",
                (int)(name.size < 40 ? name.size : 40), name.data,
                known[0] == '\0' ? "this request has none" : "known are ", known);
        }
    }
    return LK_OK;
}

uint64_t rollout_answer_bytes(lk_rollout_service *s)
{
    return atomic_load(&s->answers.budget.used_bytes) + lk_http_server_queued_bytes(s->server);
}

/* Room for one more answer? What readers took slowly is held until they take it, or are cut off. */
static lk_rc check_answers(rollout_call *call, lk_err *err)
{
    lk_rollout_service *s = call->service;
    uint64_t            held = rollout_answer_bytes(s);
    return held < atomic_load(&s->answers.budget.limit_bytes)
               ? LK_OK
               : rollout_answers_refuse(&s->answers, held, err);
}

/* Room for one more add? A lone one is always let in. */
static lk_rc check_queue(rollout_call *call, lk_err *err)
{
    lk_rollout_service *s = call->service;
    uint64_t            queued = atomic_load(&s->queued_bytes);
    uint64_t            more = lk_http_request(call->exchange)->content_length;
    if (queued == 0 || queued + more <= atomic_load(&s->queued_bytes_max)) {
        return LK_OK;
    }
    atomic_fetch_add(&s->backpressure_rejections, 1);
    return lk_refuse(
        err, LK_E_BACKPRESSURE, "%llu bytes of adds wait for storage", (unsigned long long)queued);
}

static lk_rc look_at_head(rollout_call *call, lk_err *err)
{
    const lk_http_head *head = lk_http_request(call->exchange);
    lk_rc               rc = lk_rollout_target_of(head->path, call->arena, &call->target, err);
    if (rc == LK_OK) {
        rc = find_method(call, err);
    }
    if (rc == LK_OK && call->method != NULL) {
        rc = authorize(call, err);
        rc = rc == LK_OK ? check_parameters(call, err) : rc;
        rc = rc == LK_OK && call->method->is_long ? check_answers(call, err) : rc;
    }
    if (rc == LK_OK && call->method != NULL && call->method->body == ROLLOUT_BODY_RECORDS) {
        lk_rollout_body_type type;
        lk_rollout_coding    coding;
        rc = lk_rollout_body_type_of(head, &type, err);
        rc = rc == LK_OK ? lk_rollout_body_coding_of(head, &coding, err) : rc;
        rc = rc == LK_OK ? check_queue(call, err) : rc;
    }
    return rc;
}

static void add_fields(const rollout_call *call)
{
    if (call->service->options.cors) {
        lk_http_add_field(call->exchange, "Access-Control-Allow-Origin", LK_LITERAL("*"));
    }
}

void rollout_run(rollout_call *call)
{
    lk_err err = {0};
    call->is_handled = true;
    if (call->attempts > 0) {
        add_fields(call);
    }
    if (call->method->run(call, &err) != LK_OK) {
        rollout_fail(call, &err);
    }
}

static void run(lk_http_exchange *exchange, void *context)
{
    (void)context;
    rollout_run(lk_http_attachment(exchange));
}

static void admit(lk_http_exchange *exchange, void *context, uint64_t *body_max)
{
    lk_rollout_service *s = context;
    lk_err              err = {0};
    rollout_call       *call = lk_arena_take(lk_http_arena(exchange), sizeof *call);
    *call = (rollout_call){.service = s,
        .exchange = exchange,
        .arena = lk_http_arena(exchange),
        .target.resource = LK_ROLLOUT_RESOURCES,
        .started_us = lk_clock_now_us()};
    lk_http_attach(exchange, call);
    add_fields(call);
    if (look_at_head(call, &err) != LK_OK) {
        call->is_handled = true;
        lk_rollout_refuse(exchange, &err);
        return;
    }
    if (call->method == NULL) { /* OPTIONS */
        call->is_handled = true;
        lk_http_answer(exchange, 204, NULL, NULL);
        return;
    }
    const uint64_t limits[] = {0, CONTROL_BODY_MAX, atomic_load(&s->body_max)};
    *body_max = limits[call->method->body];
    if (call->target.resource ==
        LK_ROLLOUT_HEALTH) { /* alive, though every worker may wait for a slow reader */
        run(exchange, s);
    }
}

/* What the sender of a request that the server below refused may do about it. */
static void explain(lk_http_exchange *exchange, void *context, int status, lk_buf *text)
{
    const rollout_call     *call = lk_http_attachment(exchange);
    const rollout_body_kind body =
        call == NULL || call->method == NULL ? ROLLOUT_BODY_NONE : call->method->body;
    (void)context;
    if (status == 413) {
        lk_buf_append_text(
            text, body == ROLLOUT_BODY_RECORDS ? "; send the records in several requests, or raise --max-body"
                  : body == ROLLOUT_BODY_CONTROL ? "; this path takes a JSON object of a few members"
                                                 : "; this request has none");
    } else if (status == 408 && body != ROLLOUT_BODY_NONE) {
        lk_buf_append_text(text, "; send it without such pauses, or raise --request-body-idle-timeout-secs");
    } else if (status == 503 && body == ROLLOUT_BODY_RECORDS) {
        lk_buf_append_text(text, "; try again, or raise --rollout-max-inflight-blob-bytes");
    } else if (status == 503) {
        lk_buf_append_text(text, "; try again");
    }
}

/* -- counting ----------------------------------------------------------------------------------------------------- */

static void count_duration(rollout_duration *d, uint64_t us)
{
    size_t bucket = 0;
    for (uint64_t limit_us = ROLLOUT_DURATION_FIRST_US;
         bucket + 1 < ROLLOUT_DURATION_BUCKETS && us > limit_us; limit_us *= ROLLOUT_DURATION_FACTOR) {
        bucket++;
    }
    atomic_fetch_add(&d->buckets[bucket], 1);
    atomic_fetch_add(&d->count, 1);
    atomic_fetch_add(&d->sum_us, us);
}

static void observe(lk_http_exchange *exchange, void *context, int status)
{
    lk_rollout_service *s = context;
    rollout_call       *call = lk_http_attachment(exchange);
    if (call != NULL && call->target.resource < LK_ROLLOUT_RESOURCES) {
        atomic_fetch_add(&s->statuses[call->target.resource][status / 100 % 6], 1);
        count_duration(&s->durations[call->target.resource == LK_ROLLOUT_STORE_SHORT ? LK_ROLLOUT_STORE
                                                                                     : call->target.resource],
            lk_clock_now_us() - call->started_us);
        atomic_fetch_add(&s->body_timeouts, !call->is_handled && status == 408);
        atomic_fetch_add(&s->budget_rejections, !call->is_handled && status == 503);
    }
}

/* -- helpers ------------------------------------------------------------------------------------------------------ */

lk_rc rollout_open_store(rollout_call *call, lk_rollout_store **out, lk_err *err)
{
    call->removals = lk_rollouts_removals(call->service->options.stores, call->target.name);
    call->has_store = true;
    return lk_rollouts_get(call->service->options.stores, call->target.name, out, err);
}

void rollout_answer_json(rollout_call *call, int status, lk_buf *body)
{
    lk_http_answer(call->exchange, status, "application/json", body);
}

lk_rc rollout_parameter(rollout_call *call, const char *name, lk_bytes *value, bool *found, lk_err *err)
{
    lk_bytes query = lk_http_request(call->exchange)->query;
    *found = false;
    return lk_http_query_value(query, name, call->arena, value, found)
               ? LK_OK
               : lk_refuse(err, LK_E_INVALID_REQUEST, "the parameter \"%s\" has a broken escape", name);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

/* Copies of what the options point to. */
static void copy_options(lk_rollout_service *s)
{
    lk_rollout_service_options *o = &s->options;
    size_t                      size = o->instance_id.size + o->instance_source.size, at = 0;
    lk_buf_append_zeros(&s->instance, size);
    o->instance_id = size == 0 ? (lk_bytes){0} : keep(&s->instance, o->instance_id, &at);
    o->instance_source = size == 0 ? (lk_bytes){0} : keep(&s->instance, o->instance_source, &at);
    s->has_tokens = o->token_count > 0;
    s->tokens = new_tokens(o->tokens, o->token_count);
    o->tokens = NULL;
}

static uint64_t or_default(uint64_t value, uint64_t otherwise)
{
    return value > 0 ? value : otherwise;
}

/* What is made of bodies is about as large as they are, and the largest one must fit beside what others hold. */
static size_t memory_limit(uint64_t body_max, uint64_t blob_bytes_max)
{
    uint64_t bodies = blob_bytes_max < SIZE_MAX / 4 ? blob_bytes_max : SIZE_MAX / 4;
    uint64_t one = body_max < SIZE_MAX / 8 ? 3 * body_max : SIZE_MAX / 4;
    return MEMORY_MIN + bodies + one;
}

static lk_http_limits http_limits(const lk_rollout_limits *limits)
{
    return (lk_http_limits){.body_bytes_max = limits->blob_bytes_max,
        .body_idle_ms = limits->body_idle_ms,
        .write_idle_ms = limits->answer_idle_ms};
}

static void set_own_limits(lk_rollout_service *s, const lk_rollout_limits *limits)
{
    uint64_t body_max = or_default(limits->body_max, GIB),
             bodies = or_default(limits->blob_bytes_max, 2 * GIB);
    atomic_store(&s->body_max, body_max);
    atomic_store(&s->queued_bytes_max, or_default(limits->queued_bytes_max, GIB));
    atomic_store(&s->group_commit_us, limits->group_commit_us);
    lk_budget_set_limit(&s->memory, memory_limit(body_max, bodies));
    lk_budget_set_limit(&s->answers.budget, (size_t)or_default(limits->answer_bytes_max, GIB));
}

void lk_rollout_service_set_limits(lk_rollout_service *s, const lk_rollout_limits *limits)
{
    const lk_http_limits http = http_limits(limits);
    set_own_limits(s, limits);
    lk_http_server_set_limits(s->server, &http);
}

lk_rc lk_rollout_service_set_tls(lk_rollout_service *s, const lk_tls_identity *tls, lk_err *err)
{
    return lk_http_server_set_tls(s->server, tls, err);
}

lk_rc lk_rollout_service_open(
    lk_rollout_service **out, const lk_rollout_service_options *options, lk_err *err)
{
    lk_rollout_service *s = calloc(1, sizeof *s);
    LK_ASSERT(s != NULL && options->stores != NULL);
    s->options = *options;
    copy_options(s);
    s->repeats = rollout_repeats_new();
    s->groups = rollout_groups_new();
    lk_mutex_init(&s->mutex, LK_RANK_ADMISSION);
    lk_budget_init(&s->memory, "requests", SIZE_MAX, NULL);
    lk_budget_init(&s->answers.budget, "answers", SIZE_MAX, NULL);
    set_own_limits(s, &options->limits);
    const lk_http_options http = {.address = options->address,
        .tls = options->tls,
        .worker_count = WORKERS,
        .backlog_max = BACKLOG,
        .limits = http_limits(&options->limits),
        .admit = admit,
        .run = run,
        .observe = observe,
        .explain = explain,
        .context = s};
    lk_rc                 rc = rollout_tails_open(s, &s->tails, err);
    if (rc == LK_OK) {
        rc = lk_http_server_open(&s->server, &http, err);
    }
    if (rc != LK_OK) {
        lk_rollout_service_close(s);
        return rc;
    }
    *out = s;
    return LK_OK;
}

const char *lk_rollout_service_address(const lk_rollout_service *s)
{
    return lk_http_server_address(s->server);
}

lk_rc lk_rollout_service_drain(lk_rollout_service *s, uint64_t deadline_ms, lk_err *err)
{
    atomic_store(&s->draining, true);
    rollout_tails_stir(s->tails);
    return lk_http_server_drain(s->server, deadline_ms, err);
}

void lk_rollout_service_close(lk_rollout_service *s)
{
    if (s == NULL) {
        return;
    }
    lk_http_server_close(s->server);
    rollout_tails_close(s->tails);
    rollout_unpin_all(s);
    lk_mutex_deinit(&s->mutex);
    rollout_repeats_free(s->repeats);
    rollout_groups_free(s->groups);
    unref_tokens(s->tokens);
    lk_buf_deinit(&s->instance);
    free(s);
}
