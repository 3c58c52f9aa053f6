/* rollout_output.c - see rollout_output.h. */
#include "serve/rollout_output.h"

#include "base/log.h"
#include "serve/rollout_service_priv.h"

enum { WORTH_CODING = 4096 };

typedef struct output { /* in the exchange's arena */
    rollout_source     *source;
    const char         *content_type;
    lk_rollout_coding   coding;
    lk_rollout_encoder *encoder;
    lk_buf              held;
    bool                began;
} output;

static output output_of(lk_http_exchange *exchange, const char *content_type)
{
    lk_http_add_field(exchange, "Vary", LK_LITERAL("Accept, Accept-Encoding"));
    return (output){
        .content_type = content_type, .coding = lk_rollout_answer_coding(lk_http_request(exchange))};
}

/* What is held as it goes on the wire. */
static void code(output *o, lk_http_exchange *exchange, bool last, lk_buf *out)
{
    if (o->coding == LK_ROLLOUT_IDENTITY) {
        *out = o->held;
        o->held = (lk_buf){0};
        return;
    }
    if (o->encoder == NULL) {
        o->encoder = lk_rollout_encoder_new(o->coding);
        lk_http_add_field(exchange, "Content-Encoding", lk_bytes_of(lk_rollout_coding_name(o->coding)));
    }
    lk_rollout_encode(o->encoder, lk_buf_view(&o->held), last, out);
    lk_buf_clear(&o->held);
}

static lk_rc send(output *o, lk_http_exchange *exchange, bool last, lk_err *err)
{
    lk_buf coded = {0};
    code(o, exchange, last, &coded);
    if (!o->began) {
        lk_http_begin(exchange, 200, o->content_type, UINT64_MAX);
        o->began = true;
    }
    return lk_http_write_buf(exchange, &coded, err);
}

static void close_output(output *o)
{
    if (o->source != NULL) {
        o->source->close(o->source);
    }
    lk_rollout_encoder_free(o->encoder);
    lk_buf_deinit(&o->held);
}

static void finish(output *o, lk_http_exchange *exchange)
{
    lk_err ignored = {0};
    lk_buf coded = {0};
    if (o->began) {
        lk_rc rc = send(o, exchange, true, &ignored);
        (void)rc; /* a peer that is gone needs no end */
        close_output(o);
        lk_http_end(exchange);
        return;
    }
    if (o->held.size < WORTH_CODING) {
        o->coding = LK_ROLLOUT_IDENTITY;
    }
    code(o, exchange, true, &coded);
    close_output(o);
    lk_http_answer(exchange, 200, o->content_type, &coded);
}

static void fail(output *o, lk_http_exchange *exchange, lk_err *err)
{
    close_output(o);
    if (o->began) { /* the peer hears of it by an answer that is cut */
        rollout_explain(lk_http_attachment(exchange), err);
        if (err->rc != LK_E_CANCELLED) {
            lk_log_error(LK_LOG_REQUEST_FAILED, err);
        }
        lk_http_abort(exchange);
    } else {
        rollout_fail(lk_http_attachment(exchange), err);
    }
}

/* Sends content of the source that needs no copy. *sent: there was some. */
static lk_rc send_loan(output *o, lk_http_exchange *exchange, bool *sent, lk_err *err)
{
    lk_http_loan loan = {0};
    bool         may = o->began && o->coding == LK_ROLLOUT_IDENTITY && o->source->lend != NULL;
    lk_rc        rc = may && o->held.size == 0 ? o->source->lend(o->source, &loan, err) : LK_OK;
    *sent = rc == LK_OK && loan.count > 0;
    return *sent ? lk_http_write_loan(exchange, &loan, err) : rc;
}

/* On, until the end or until the peer has enough for now. */
static void go_on(lk_http_exchange *exchange, void *context)
{
    output *o = context;
    lk_err  err = {0};
    lk_rc   rc = LK_OK;
    bool    more = true, is_head = lk_bytes_equal(lk_http_request(exchange)->method, LK_LITERAL("HEAD"));
    while (rc == LK_OK && more) {
        bool sent = false;
        rc = send_loan(o, exchange, &sent, &err);
        if (rc == LK_OK && !sent) {
            rc = o->source->next(o->source, &o->held, &more, &err);
        }
        if (rc == LK_OK && more && o->held.size >= ROLLOUT_PIECE) {
            rc = send(o, exchange, false, &err);
            more = !is_head; /* its answer was the beginning */
            sent = true;
        }
        if (rc == LK_OK && more && sent && !lk_http_await_room(exchange, go_on, o)) {
            return;
        }
    }
    if (rc == LK_OK) {
        finish(o, exchange);
    } else {
        fail(o, exchange, &err);
    }
}

void rollout_output_send(lk_http_exchange *exchange, const char *content_type, rollout_source *source)
{
    output *o = lk_arena_take(lk_http_arena(exchange), sizeof *o);
    *o = output_of(exchange, content_type);
    o->source = source;
    go_on(exchange, o);
}

void rollout_output_whole(lk_http_exchange *exchange, const char *content_type, lk_buf *content)
{
    output o = output_of(exchange, content_type);
    o.held = *content;
    *content = (lk_buf){0};
    finish(&o, exchange);
}
