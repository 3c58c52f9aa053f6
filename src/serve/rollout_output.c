/* rollout_output.c - see rollout_output.h. */
#include "serve/rollout_output.h"

enum { PIECE = 128 * 1024, WORTH_CODING = 4096 };

void rollout_output_open(rollout_output *o, lk_http_exchange *exchange, const char *content_type)
{
    *o = (rollout_output){.exchange = exchange,
        .content_type = content_type,
        .coding = lk_rollout_answer_coding(lk_http_request(exchange))};
    lk_http_add_field(exchange, "Vary", LK_LITERAL("Accept, Accept-Encoding"));
}

/* What is held as it goes on the wire. */
static void code(rollout_output *o, bool last, lk_buf *out)
{
    if (o->coding == LK_ROLLOUT_IDENTITY) {
        *out = o->held;
        o->held = (lk_buf){0};
        return;
    }
    if (o->encoder == NULL) {
        o->encoder = lk_rollout_encoder_new(o->coding);
        lk_http_add_field(o->exchange, "Content-Encoding", lk_bytes_of(lk_rollout_coding_name(o->coding)));
    }
    lk_rollout_encode(o->encoder, lk_buf_view(&o->held), last, out);
    lk_buf_clear(&o->held);
}

static lk_rc send(rollout_output *o, bool last, lk_err *err)
{
    lk_buf coded = {0};
    code(o, last, &coded);
    if (!o->began) {
        lk_http_begin(o->exchange, 200, o->content_type, UINT64_MAX);
        o->began = true;
    }
    return lk_http_write_buf(o->exchange, &coded, err);
}

lk_rc rollout_output_flush(rollout_output *o, lk_err *err)
{
    return o->held.size < PIECE ? LK_OK : send(o, false, err);
}

static void close_output(rollout_output *o)
{
    lk_rollout_encoder_free(o->encoder);
    lk_buf_deinit(&o->held);
}

void rollout_output_finish(rollout_output *o)
{
    lk_err ignored = {0};
    lk_buf coded = {0};
    if (o->began) {
        lk_rc rc = send(o, true, &ignored);
        (void)rc; /* a peer that is gone needs no end */
        close_output(o);
        lk_http_end(o->exchange);
        return;
    }
    if (o->held.size < WORTH_CODING) {
        o->coding = LK_ROLLOUT_IDENTITY;
    }
    code(o, true, &coded);
    close_output(o);
    lk_http_answer(o->exchange, 200, o->content_type, &coded);
}

bool rollout_output_abort(rollout_output *o)
{
    close_output(o);
    if (o->began) {
        lk_http_abort(o->exchange);
    }
    return !o->began;
}
