/* http_exchange.c - see http_server.h: what handlers call. */
#include "base/clock.h"
#include "base/json.h"
#include "net/http_server_priv.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct status_text {
    int         status;
    const char *reason, *code; /* code: of this server's own refusals */
} status_text;

static const status_text statuses[] = {
    {200, "OK", ""},
    {201, "Created", ""},
    {204, "No Content", ""},
    {206, "Partial Content", ""},
    {304, "Not Modified", ""},
    {400, "Bad Request", "INVALID_REQUEST"},
    {401, "Unauthorized", "UNAUTHENTICATED"},
    {403, "Forbidden", "FORBIDDEN"},
    {404, "Not Found", "NOT_FOUND"},
    {405, "Method Not Allowed", "METHOD_NOT_ALLOWED"},
    {408, "Request Timeout", "REQUEST_TIMEOUT"},
    {409, "Conflict", "CONFLICT"},
    {410, "Gone", "GONE"},
    {413, "Content Too Large", "TOO_LARGE"},
    {415, "Unsupported Media Type", "UNSUPPORTED_MEDIA_TYPE"},
    {416, "Range Not Satisfiable", "RANGE_NOT_SATISFIABLE"},
    {417, "Expectation Failed", "INVALID_REQUEST"},
    {429, "Too Many Requests", "BACKPRESSURE"},
    {431, "Request Header Fields Too Large", "TOO_LARGE"},
    {500, "Internal Server Error", "INTERNAL"},
    {501, "Not Implemented", "INVALID_REQUEST"},
    {503, "Service Unavailable", "OVERLOADED"},
    {505, "HTTP Version Not Supported", "INVALID_REQUEST"},
};

static const status_text *find(int status)
{
    size_t i = 0;
    while (i + 1 < sizeof statuses / sizeof statuses[0] && statuses[i].status != status) {
        i++;
    }
    return &statuses[i];
}

const char *lk_http_reason(int status)
{
    const status_text *found = find(status);
    return found->status == status ? found->reason : "Status";
}

uint64_t lk_http_now_ms(void)
{
    return lk_clock_monotonic_ms(lk_clock_real());
}

const lk_http_head *lk_http_request(const lk_http_exchange *exchange)
{
    return &exchange->head;
}

lk_bytes lk_http_body(const lk_http_exchange *exchange)
{
    return lk_buf_view(&exchange->body);
}

void lk_http_take_body(lk_http_exchange *exchange, lk_buf *out)
{
    *out = exchange->body;
    exchange->body = (lk_buf){0};
    lk_http_drop_body(exchange);
}

void lk_http_drop_body(lk_http_exchange *exchange)
{
    if (exchange->charged > 0) {
        atomic_fetch_sub(&exchange->connection->loop->server->body_bytes, exchange->charged);
    }
    exchange->charged = 0;
    lk_buf_deinit(&exchange->body);
}

lk_arena *lk_http_arena(lk_http_exchange *exchange)
{
    return &exchange->arena;
}

lk_cancel *lk_http_cancel(lk_http_exchange *exchange)
{
    return &exchange->cancel;
}

void lk_http_attach(lk_http_exchange *exchange, void *attachment)
{
    exchange->attachment = attachment;
}

void *lk_http_attachment(const lk_http_exchange *exchange)
{
    return exchange->attachment;
}

/* -- the queue ------------------------------------------------------------------------------------------------------- */

void lk_http_wake(http_connection *c)
{
    http_loop *loop = c->loop;
    uint64_t   one = 1;
    lk_mutex_lock(&loop->mutex);
    if (!c->waking) {
        c->waking = true;
        c->next_ready = loop->ready;
        loop->ready = c;
        (void)!write(loop->wake_fd, &one, sizeof one); /* full: it is awake already */
    }
    lk_mutex_unlock(&loop->mutex);
}

http_piece *lk_http_piece_new(lk_buf *bytes)
{
    if (bytes->size == 0) {
        lk_buf_deinit(bytes);
        return NULL;
    }
    http_piece *piece = calloc(1, sizeof *piece);
    LK_ASSERT(piece != NULL);
    piece->own = *bytes;
    piece->bytes = lk_buf_view(&piece->own);
    *bytes = (lk_buf){0};
    return piece;
}

void lk_http_pieces_free(http_piece *first)
{
    while (first != NULL) {
        http_piece *next = first->next;
        if (first->release != NULL) {
            first->release(first->context);
        }
        lk_buf_deinit(&first->own);
        free(first);
        first = next;
    }
}

void lk_http_queue(http_connection *c, http_piece *piece)
{
    if (lk_http_is_lent(piece)) {
        c->lent_bytes += piece->bytes.size;
    } else {
        c->queued_bytes += piece->bytes.size;
        atomic_fetch_add(&c->loop->server->queued_bytes, piece->bytes.size);
    }
    if (c->last == NULL) {
        c->first = piece;
    } else {
        c->last->next = piece;
    }
    c->last = piece;
}

/* Takes *bytes. Under the connection's mutex. */
static void queue(http_connection *c, lk_buf *bytes)
{
    http_piece *piece = c->gone ? NULL : lk_http_piece_new(bytes);
    if (piece != NULL) {
        lk_http_queue(c, piece);
    }
    lk_buf_deinit(bytes);
}

void lk_http_add_field(lk_http_exchange *exchange, const char *name, lk_bytes value)
{
    if (!lk_http_is_field_value(value)) {
        return; /* a line end in it would begin a field, or an answer, of somebody else's making */
    }
    lk_buf_format(&exchange->fields, "%s: %.*s\r\n", name, LK_FMT(value));
}

void lk_http_drop_fields(lk_http_exchange *exchange)
{
    lk_buf_deinit(&exchange->fields);
}

static void put_date(lk_buf *out)
{
    time_t    now = (time_t)(lk_clock_wall_ms(lk_clock_real()) / 1000);
    struct tm tm;
    char      text[40] = "";
    if (gmtime_r(&now, &tm) != NULL && strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0) {
        lk_buf_format(out, "Date: %s\r\n", text);
    }
}

void lk_http_begin(lk_http_exchange *exchange, int status, const char *content_type, uint64_t length)
{
    http_connection    *c = exchange->connection;
    const lk_http_head *head = &exchange->head;
    lk_buf              text = {0};
    bool                no_content = status == 204 || status == 304;
    exchange->status = status;
    exchange->bodiless = no_content || lk_bytes_equal(head->method, LK_LITERAL("HEAD"));
    exchange->chunked = length == UINT64_MAX && head->minor > 0 && !exchange->bodiless;
    exchange->left = exchange->bodiless ? 0 : length;
    exchange->close_after = exchange->close_after || !head->keep_alive || exchange->was_refused ||
                            (length == UINT64_MAX && head->minor == 0) ||
                            atomic_load(&c->loop->server->draining);
    lk_buf_format(&text, "HTTP/1.1 %d %s\r\n", status, lk_http_reason(status));
    put_date(&text);
    if (content_type != NULL && !no_content) {
        lk_buf_format(&text, "Content-Type: %s\r\n", content_type);
    }
    if (length != UINT64_MAX && !no_content) {
        lk_buf_format(&text, "Content-Length: %" PRIu64 "\r\n", length);
    } else if (exchange->chunked) {
        lk_buf_append_text(&text, "Transfer-Encoding: chunked\r\n");
    }
    if (exchange->close_after || head->minor == 0) {
        lk_buf_format(&text, "Connection: %s\r\n", exchange->close_after ? "close" : "keep-alive");
    }
    lk_buf_append_bytes(&text, lk_buf_view(&exchange->fields));
    lk_buf_append_text(&text, "\r\n");
    lk_mutex_lock(&c->mutex);
    LK_ASSERT(!c->began);
    c->began = true;
    queue(c, &text);
    lk_mutex_unlock(&c->mutex);
}

/* Waits for room. Under the connection's mutex. */
static lk_rc wait_room(http_connection *c, lk_err *err)
{
    while (!c->gone && !lk_http_has_room(c, 1)) {
        lk_cond_wait(
            &c->drained, &c->mutex); /* a peer that takes nothing is gone before long: the loop sees to it */
    }
    return c->gone ? lk_fail(err, LK_E_CANCELLED, "the peer is gone") : LK_OK;
}

/* The line in front of a chunk of content. Under the connection's mutex. */
static void queue_chunk_line(http_connection *c, size_t size)
{
    lk_buf line = {0};
    lk_buf_format(&line, "%zx\r\n", size);
    queue(c, &line);
}

/* Whether there is content to send at all: then `size` of it is, and the exchange counts it. */
static bool count_content(lk_http_exchange *exchange, size_t size)
{
    if (exchange->bodiless || size == 0) {
        return false;
    }
    LK_ASSERT(exchange->left >= size);
    exchange->left -= exchange->left == UINT64_MAX ? 0 : size;
    return true;
}

lk_rc lk_http_write_buf(lk_http_exchange *exchange, lk_buf *piece, lk_err *err)
{
    http_connection *c = exchange->connection;
    if (!count_content(exchange, piece->size)) {
        lk_buf_deinit(piece);
        return LK_OK;
    }
    lk_mutex_lock(&c->mutex);
    LK_ASSERT(c->began && !c->ended);
    lk_rc rc = wait_room(c, err);
    if (rc == LK_OK) {
        if (exchange->chunked) {
            queue_chunk_line(c, piece->size);
            lk_buf_append_text(piece, "\r\n");
        }
        queue(c, piece);
        lk_http_wake(c);
    }
    lk_mutex_unlock(&c->mutex);
    lk_buf_deinit(piece);
    return rc;
}

/* The pieces of a loan, the last of which ends it; NULL: it has no bytes. */
static http_piece *pieces_of(const lk_http_loan *loan)
{
    http_piece *first = NULL, **next = &first, *last = NULL;
    for (size_t part = 0; part < loan->count; part++) {
        if (loan->parts[part].size > 0) {
            last = calloc(1, sizeof *last);
            LK_ASSERT(last != NULL);
            last->bytes = loan->parts[part];
            *next = last;
            next = &last->next;
        }
    }
    if (last != NULL) {
        last->release = loan->release;
        last->context = loan->context;
    }
    return first;
}

/* Under the connection's mutex. */
static void queue_loan(http_connection *c, http_piece *pieces, size_t size, bool chunked)
{
    lk_buf end = {0};
    if (chunked) {
        queue_chunk_line(c, size);
        lk_buf_append_text(&end, "\r\n");
    }
    for (http_piece *next = NULL; pieces != NULL; pieces = next) {
        next = pieces->next;
        pieces->next = NULL;
        lk_http_queue(c, pieces);
    }
    queue(c, &end);
    lk_http_wake(c);
}

lk_rc lk_http_write_loan(lk_http_exchange *exchange, const lk_http_loan *loan, lk_err *err)
{
    http_connection *c = exchange->connection;
    size_t           size = 0;
    for (size_t part = 0; part < loan->count; part++) {
        size += loan->parts[part].size;
    }
    if (!count_content(exchange, size)) {
        loan->release(loan->context);
        return LK_OK;
    }
    http_piece *pieces = pieces_of(loan);
    lk_mutex_lock(&c->mutex);
    LK_ASSERT(c->began && !c->ended);
    lk_rc rc = wait_room(c, err);
    if (rc == LK_OK) {
        queue_loan(c, pieces, size, exchange->chunked);
        pieces = NULL;
    }
    lk_mutex_unlock(&c->mutex);
    lk_http_pieces_free(pieces);
    return rc;
}

bool lk_http_await_room(lk_http_exchange *exchange, lk_http_go_on go_on, void *context)
{
    http_connection *c = exchange->connection;
    lk_mutex_lock(&c->mutex);
    LK_ASSERT(c->began && !c->ended && c->go_on == NULL);
    bool room = c->gone || lk_http_has_room(c, 1);
    if (!room) {
        c->go_on = go_on;
        c->go_on_context = context;
    }
    lk_mutex_unlock(&c->mutex);
    return room;
}

lk_rc lk_http_write(lk_http_exchange *exchange, lk_bytes piece, lk_err *err)
{
    lk_buf copy = {0};
    lk_buf_append_bytes(&copy, piece);
    return lk_http_write_buf(exchange, &copy, err);
}

void lk_http_end(lk_http_exchange *exchange)
{
    http_connection *c = exchange->connection;
    lk_buf           last = {0};
    if (exchange->chunked) {
        lk_buf_append_text(&last, "0\r\n\r\n");
    } else if (exchange->left != 0) {
        exchange->close_after = true; /* the peer sees that it is short */
    }
    lk_mutex_lock(&c->mutex);
    LK_ASSERT(c->began && !c->ended);
    queue(c, &last);
    c->ended = true;
    lk_http_wake(c); /* under the mutex: from here on the loop may free the connection once it has it */
    lk_mutex_unlock(&c->mutex);
}

void lk_http_abort(lk_http_exchange *exchange)
{
    exchange->chunked = false; /* no last chunk */
    exchange->close_after = true;
    lk_http_end(exchange);
}

void lk_http_answer(lk_http_exchange *exchange, int status, const char *content_type, lk_buf *body)
{
    lk_err ignored = {0};
    lk_buf none = {0};
    body = body == NULL ? &none : body;
    lk_http_begin(exchange, status, content_type, body->size);
    lk_rc rc = lk_http_write_buf(exchange, body, &ignored);
    (void)rc; /* a peer that is gone needs no answer */
    lk_http_end(exchange);
}

void lk_http_refuse(lk_http_exchange *exchange, int status, const char *why, ...)
{
    const lk_http_options *options = &exchange->connection->loop->server->options;
    lk_buf                 body = {0}, text = {0};
    lk_json_writer         w = {.out = &body};
    char                   sentence[256];
    va_list                values;
    va_start(values, why);
    (void)vsnprintf(sentence, sizeof sentence, why, values);
    va_end(values);
    lk_buf_append_text(&text, sentence);
    if (options->explain != NULL) {
        options->explain(exchange, options->context, status, &text);
    }
    lk_json_object(&w);
    lk_json_key(&w, "error");
    lk_json_object(&w);
    lk_json_key(&w, "code");
    lk_json_text(&w, lk_bytes_of(find(status)->code));
    lk_json_key(&w, "message");
    lk_json_text(&w, lk_buf_view(&text));
    lk_json_object_end(&w);
    lk_json_object_end(&w);
    lk_buf_deinit(&text);
    if (status == 503) {
        lk_http_add_field(exchange, "Retry-After", LK_LITERAL("1"));
    }
    lk_http_answer(exchange, status, "application/json", &body);
}

void lk_http_exchange_reset(lk_http_exchange *exchange)
{
    http_connection *c = exchange->connection;
    lk_http_drop_body(exchange);
    lk_arena_close(&exchange->arena);
    lk_buf_deinit(&exchange->fields);
    *exchange = (lk_http_exchange){.connection = c};
}
