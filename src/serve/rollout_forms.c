/* rollout_forms.c - see rollout_forms.h. */
#include "serve/rollout_forms.h"

#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "base/hash.h"
#include "rollout/cell.h"
#include "rollout/records_json.h"
#include "serve/rollout_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* -- the batch at hand ------------------------------------------------------------------------------------------------ */

typedef struct batches {
    lk_batches      *rows;
    rollout_answers *answers;
    size_t           charged;
    bool             began;
} batches;

static void give_back(batches *b)
{
    if (b->charged > 0) {
        lk_budget_give(&b->answers->budget, b->charged);
    }
    b->charged = 0;
}

lk_rc rollout_answers_refuse(rollout_answers *answers, uint64_t held, lk_err *err)
{
    atomic_fetch_add(&answers->rejections, 1);
    return lk_refuse(err, LK_E_LIMIT,
        "answers that readers take slowly hold %llu bytes (--max-answer-bytes); try again",
        (unsigned long long)held);
}

/* The next batch; the one before is not held any more. Released: there is none. */
static lk_rc take_batch(batches *b, struct ArrowArray *out, lk_err *err)
{
    lk_err ignored = {0};
    give_back(b);
    lk_rc rc = lk_batches_next(b->rows, out, err);
    if (rc != LK_OK || out->release == NULL) {
        return rc;
    }
    size_t size = lk_array_bytes(&b->rows->schema, out), held = atomic_load(&b->answers->budget.used_bytes);
    if (lk_budget_take(&b->answers->budget, size, &ignored) == LK_OK) {
        b->charged = size;
    } else if (!b->began && held > 0) { /* a lone one is let in */
        lk_array_release(out);
        return rollout_answers_refuse(b->answers, held, err);
    }
    b->began = true;
    return LK_OK;
}

static void close_batches(batches *b)
{
    give_back(b);
    lk_batches_close(b->rows);
}

/* -- texts ------------------------------------------------------------------------------------------------------------ */

enum { PAYLOAD_PIECE = 48 * 1024 }; /* a multiple of three: base64 of pieces is that of the whole */

typedef struct texts {
    rollout_source    base;
    batches           batches;
    struct ArrowArray batch;
    int64_t           row;
    int64_t           payload_column; /* -1: not asked for */
    lk_bytes          payload;        /* what is left of the row's */
    bool              in_payload, is_json, any, began;
    lk_bytes          next_cursor;
} texts;

static void begin_row(texts *t, lk_buf *out)
{
    const struct ArrowArray *payloads = t->payload_column < 0 ? NULL : t->batch.children[t->payload_column];
    lk_buf_append_text(out, !t->any ? "" : t->is_json ? "," : "\n");
    t->any = true;
    lk_record_write_json(&t->batches.rows->schema, &t->batch, t->row, out);
    if (payloads == NULL || !lk_cell_valid(payloads, t->row)) {
        t->row++;
        return;
    }
    int64_t        at = t->row + payloads->offset;
    const int64_t *ends = payloads->buffers[1];
    t->payload = (lk_bytes){(const char *)payloads->buffers[2] + ends[at], (size_t)(ends[at + 1] - ends[at])};
    t->in_payload = true;
    out->size--; /* the object's end */
    lk_buf_append_text(out, out->data[out->size - 1] == '{' ? "" : ",");
    lk_buf_append_text(out, "\"binary_payload\":\"");
}

static void go_on_payload(texts *t, lk_buf *out)
{
    lk_bytes piece = {t->payload.data, t->payload.size < PAYLOAD_PIECE ? t->payload.size : PAYLOAD_PIECE};
    lk_base64_append(out, piece);
    t->payload = (lk_bytes){t->payload.data + piece.size, t->payload.size - piece.size};
    if (t->payload.size == 0) {
        lk_buf_append_text(out, "\"}");
        t->in_payload = false;
        t->row++;
    }
}

static void end_text(const texts *t, lk_buf *out)
{
    if (!t->is_json) {
        lk_buf_append_text(out, t->any ? "\n" : "");
        return;
    }
    lk_buf_append_text(out, "]");
    if (t->next_cursor.size > 0) {
        lk_buf_format(out, ",\"next_cursor\":\"%.*s\"", LK_FMT(t->next_cursor));
    }
    lk_buf_append_text(out, "}");
}

static lk_rc next_text(rollout_source *source, lk_buf *out, bool *more, lk_err *err)
{
    texts *t = (texts *)source;
    lk_rc  rc = LK_OK;
    lk_buf_append_text(out, t->is_json && !t->began ? "{\"records\":[" : "");
    t->began = true;
    while (rc == LK_OK && *more && out->size < ROLLOUT_PIECE) {
        if (t->in_payload) {
            go_on_payload(t, out);
        } else if (t->batch.release != NULL && t->row < t->batch.length) {
            begin_row(t, out);
        } else {
            lk_array_release(&t->batch);
            t->row = 0;
            rc = take_batch(&t->batches, &t->batch, err);
            *more = rc != LK_OK || t->batch.release != NULL;
        }
    }
    if (rc == LK_OK && !*more) {
        end_text(t, out);
    }
    return rc;
}

static void close_texts(rollout_source *source)
{
    texts *t = (texts *)source;
    lk_array_release(&t->batch);
    close_batches(&t->batches);
    free(t);
}

static texts *texts_of(lk_batches *rows, rollout_answers *answers)
{
    texts *t = calloc(1, sizeof *t);
    LK_ASSERT(t != NULL);
    t->base = (rollout_source){next_text, close_texts, NULL};
    t->batches = (batches){.rows = rows, .answers = answers};
    t->payload_column = lk_schema_find(&rows->schema, LK_LITERAL("binary_payload"));
    return t;
}

rollout_source *rollout_json_source(lk_batches *rows, rollout_answers *answers, lk_bytes next_cursor)
{
    texts *t = texts_of(rows, answers);
    t->is_json = true;
    t->next_cursor = next_cursor;
    return &t->base;
}

rollout_source *rollout_ndjson_source(lk_batches *rows, rollout_answers *answers)
{
    return &texts_of(rows, answers)->base;
}

/* -- Arrow ------------------------------------------------------------------------------------------------------------ */

/* A batch as its messages, and what is lent of them; the last one who holds it gives the charge back. */
typedef struct lent_batch {
    atomic_uint     refs;
    lk_ipc_message *messages;
    size_t          count, charged;
    lk_budget      *budget;
} lent_batch;

typedef struct arrow {
    rollout_source  base;
    batches         batches;
    lk_batches     *plain; /* rows, until they have the table's types */
    lk_ipc_encoder *encoder;
    lent_batch     *batch;                  /* at hand */
    size_t          message, segment, sent; /* where its content goes on */
    bool            framed;                 /* the message's head is out */
    bool            ended;                  /* there is no batch any more */
} arrow;

static void drop_batch(lent_batch *batch)
{
    if (batch != NULL && atomic_fetch_sub_explicit(&batch->refs, 1, memory_order_acq_rel) == 1) {
        lk_ipc_messages_free(batch->messages, batch->count);
        if (batch->charged > 0) {
            lk_budget_give(batch->budget, batch->charged);
        }
        free(batch);
    }
}

static lk_rc begin_arrow(arrow *a, lk_buf *out, lk_err *err)
{
    lk_batches *rows = a->plain;
    a->plain = NULL;
    lk_rc rc = rollout_table_open(rows, &a->batches.rows, err);
    if (rc == LK_OK) {
        rc = lk_ipc_encoder_new(&a->batches.rows->schema, &a->encoder, err);
    }
    return rc == LK_OK ? lk_ipc_schema_encode(&a->batches.rows->schema, LK_IPC_ENCAPSULATED, out, err) : rc;
}

/* The next batch, if there is one. */
static lk_rc next_messages(arrow *a, lk_err *err)
{
    struct ArrowArray batch = {0};
    drop_batch(a->batch);
    a->batch = NULL;
    a->message = 0;
    lk_rc rc = take_batch(&a->batches, &batch, err);
    if (rc != LK_OK || batch.release == NULL) {
        a->ended = rc == LK_OK;
        return rc;
    }
    a->batch = calloc(1, sizeof *a->batch);
    LK_ASSERT(a->batch != NULL);
    *a->batch = (lent_batch){.charged = a->batches.charged, .budget = &a->batches.answers->budget};
    atomic_init(&a->batch->refs, 1);
    a->batches.charged = 0;
    lk_shared_array *shared = lk_array_share(&batch);
    rc = lk_ipc_encode(a->encoder, shared, &a->batch->messages, &a->batch->count, err);
    lk_shared_array_unref(shared);
    return rc;
}

static bool has_message(const arrow *a)
{
    return a->batch != NULL && a->message < a->batch->count;
}

/* Behind a part of a segment: to the next segment, or the next message. */
static void pass(arrow *a, const lk_ipc_message *message, size_t taken)
{
    a->sent += taken;
    if (a->segment < message->segment_count && a->sent == message->segments[a->segment].size) {
        a->segment++;
        a->sent = 0;
    }
    if (a->segment == message->segment_count) {
        a->message++;
        a->framed = false;
    }
}

static void put_frame(arrow *a, const lk_ipc_message *message, lk_buf *out)
{
    if (!a->framed) {
        lk_ipc_frame(message->header, out);
        a->framed = true;
        a->segment = a->sent = 0;
    }
}

/* What comes next of the message's segments, `room` at most; *padding: behind it. */
static lk_bytes rest_of(const arrow *a, const lk_ipc_message *message, size_t room, size_t *padding)
{
    if (a->segment == message->segment_count) {
        *padding = 0;
        return (lk_bytes){0};
    }
    const lk_ipc_segment *s = &message->segments[a->segment];
    size_t                left = s->size - a->sent, taken = left < room ? left : room;
    *padding = taken == left ? s->padding : 0;
    return (lk_bytes){taken == 0 ? NULL : (const char *)s->data + a->sent, taken};
}

/* A piece of the message at hand. */
static void go_on_message(arrow *a, lk_buf *out)
{
    const lk_ipc_message *message = &a->batch->messages[a->message];
    size_t                at = a->message;
    put_frame(a, message, out);
    do {
        size_t   padding = 0, room = out->size < ROLLOUT_PIECE ? ROLLOUT_PIECE - out->size : 0;
        lk_bytes some = rest_of(a, message, room, &padding);
        if (some.size > 0) {
            lk_buf_append_bytes(out, some);
        }
        lk_buf_append_zeros(out, padding);
        pass(a, message, some.size);
    } while (a->message == at && out->size < ROLLOUT_PIECE);
}

static lk_rc next_arrow(rollout_source *source, lk_buf *out, bool *more, lk_err *err)
{
    static const uint32_t end[2] = {UINT32_MAX, 0}; /* a continuation, and nothing behind it */
    arrow                *a = (arrow *)source;
    lk_rc                 rc = a->plain != NULL ? begin_arrow(a, out, err) : LK_OK;
    while (rc == LK_OK && !a->ended && out->size < ROLLOUT_PIECE) {
        if (has_message(a)) {
            go_on_message(a, out);
        } else {
            rc = next_messages(a, err);
        }
    }
    if (rc == LK_OK && a->ended) {
        lk_buf_append(out, end, sizeof end);
        *more = false;
    }
    return rc;
}

enum { LOAN_PARTS = 48 };

/* Some of a batch on its way to a peer. */
typedef struct loan {
    lent_batch *batch;
    lk_buf      frame;
    lk_bytes    parts[LOAN_PARTS];
    size_t      count, size;
} loan;

static void end_loan(void *context)
{
    loan *self = context;
    drop_batch(self->batch);
    lk_buf_deinit(&self->frame);
    free(self);
}

static void add_part(loan *self, lk_bytes part)
{
    if (part.size > 0) {
        self->parts[self->count++] = part;
        self->size += part.size;
    }
}

/* Parts of one message: its head, then segments and what pads them. */
static void lend_message(arrow *a, loan *out)
{
    static const char     zeros[64] = {0};
    const lk_ipc_message *message = &a->batch->messages[a->message];
    size_t                at = a->message;
    put_frame(a, message, &out->frame);
    add_part(out, lk_buf_view(&out->frame));
    do {
        size_t   padding = 0;
        lk_bytes some = rest_of(a, message, ROLLOUT_LOAN - out->size, &padding);
        add_part(out, some);
        add_part(out, (lk_bytes){zeros, padding});
        pass(a, message, some.size);
    } while (a->message == at && out->size < ROLLOUT_LOAN && out->count + 2 <= LOAN_PARTS);
}

static lk_rc lend_arrow(rollout_source *source, lk_http_loan *out, lk_err *err)
{
    arrow *a = (arrow *)source;
    lk_rc  rc = LK_OK;
    while (rc == LK_OK && !a->ended && !has_message(a)) {
        rc = next_messages(a, err);
    }
    if (rc != LK_OK || a->ended) {
        return rc;
    }
    loan *made = calloc(1, sizeof *made);
    LK_ASSERT(made != NULL);
    made->batch = a->batch;
    atomic_fetch_add_explicit(&made->batch->refs, 1, memory_order_relaxed);
    lend_message(a, made);
    *out = (lk_http_loan){made->parts, made->count, end_loan, made};
    return LK_OK;
}

static void close_arrow(rollout_source *source)
{
    arrow *a = (arrow *)source;
    drop_batch(a->batch);
    lk_ipc_encoder_free(a->encoder);
    lk_batches_close(a->plain);
    close_batches(&a->batches);
    free(a);
}

rollout_source *rollout_arrow_source(lk_batches *rows, rollout_answers *answers)
{
    arrow *a = calloc(1, sizeof *a);
    LK_ASSERT(a != NULL);
    a->base = (rollout_source){next_arrow, close_arrow, lend_arrow};
    a->batches.answers = answers;
    a->plain = rows;
    return &a->base;
}

/* -- Parquet ---------------------------------------------------------------------------------------------------------- */

typedef struct parquet { /* such a file has its index at its end, so it is made as a file first */
    rollout_source         base;
    lk_batches            *rows;
    rollout_parquet_writer write;
    int                    fd;
} parquet;

static lk_rc make_file(parquet *p, lk_err *err)
{
    char     directory[] = P_tmpdir "/lake-parquet-XXXXXX", path[sizeof directory + 8];
    uint64_t count = 0;
    if (mkdtemp(directory) == NULL) {
        return lk_fail(err, LK_E_IO, "no temporary directory: %s", strerrordesc_np(errno));
    }
    (void)snprintf(path, sizeof path, "%s/rows", directory);
    lk_rc rc = p->write(p->rows, path, &count, err);
    p->fd = rc == LK_OK ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (rc == LK_OK && p->fd < 0) {
        rc = lk_fail(err, LK_E_IO, "a temporary file cannot be read: %s", strerrordesc_np(errno));
    }
    (void)unlink(path);
    (void)rmdir(directory);
    return rc;
}

static lk_rc next_parquet(rollout_source *source, lk_buf *out, bool *more, lk_err *err)
{
    parquet *p = (parquet *)source;
    lk_rc    rc = p->fd < 0 ? make_file(p, err) : LK_OK;
    if (rc != LK_OK) {
        return rc;
    }
    lk_buf_reserve(out, ROLLOUT_PIECE);
    ssize_t got = read(p->fd, out->data + out->size, ROLLOUT_PIECE);
    if (got < 0) {
        return lk_fail(err, LK_E_IO, "a temporary file could not be read back: %s", strerrordesc_np(errno));
    }
    out->size += (size_t)got;
    *more = got > 0;
    return LK_OK;
}

static void close_parquet(rollout_source *source)
{
    parquet *p = (parquet *)source;
    lk_batches_close(p->rows);
    if (p->fd >= 0) {
        close(p->fd);
    }
    free(p);
}

rollout_source *rollout_parquet_source(lk_batches *rows, rollout_parquet_writer write)
{
    parquet *p = calloc(1, sizeof *p);
    LK_ASSERT(p != NULL);
    *p = (parquet){{next_parquet, close_parquet, NULL}, rows, write, -1};
    return &p->base;
}
