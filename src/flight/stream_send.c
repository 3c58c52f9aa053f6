/*
 * stream_send.c - batches become FlightData: coalesced or split to a good size, encoded, sent by reference.
 *
 * The first batch goes out as it comes, so that a slow source shows its first rows at once. If a second one
 * follows, a helper thread pulls the rest into a short queue while this thread encodes and writes; what has
 * gathered in the queue when the writer is free becomes one message.
 *
 * Invariants: the order of rows is kept; the queue holds at most QUEUE_BYTES (and one batch more); the helper is
 * joined before lk_flight_send returns.
 *
 * Threads: the helper calls batches->next; everything else is the caller's. The queue's mutex has rank CALL.
 */
#include "flight/stream.h"

#include "base/clock.h"
#include "base/limits.h"

#include <stdlib.h>

enum {
    QUEUE_BATCHES_MAX = 256,
    QUEUE_BYTES = 4 * 1024 * 1024,
    MESSAGE_BYTES_MAX = 4 * 1024 * 1024, /* a larger batch is cut: Go clients take 16 MiB by default */
    LARGE_BYTES = 256 * 1024,            /* a batch of this size goes alone: joining it would only copy it */
    LINGER_MS = 5                        /* how long a small batch waits for company */
};

typedef struct sender {
    lk_flight_peer                peer;
    lk_batches                   *batches;
    const struct ArrowSchema     *schema;
    const lk_flight_send_options *options;
    lk_ipc_encoder               *encoder;
    lk_flight_sent                sent;
    bool                          coalesce;
} sender;

/* -- one message -- */

typedef struct outgoing { /* what the transport's slices point into */
    lk_ipc_message message;
    lk_buf         head;
} outgoing;

static void outgoing_free(void *context)
{
    outgoing *self = context;
    lk_ipc_message_deinit(&self->message);
    lk_buf_deinit(&self->head);
    free(self);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    LK_ASSERT(memory != NULL);
    return memory;
}

static lk_rc peer_write(lk_flight_peer peer, const lk_grpc_out *out, lk_err *err)
{
    return peer.call != NULL ? lk_grpc_call_write(peer.call, out, err)
                             : lk_grpc_rpc_write(peer.rpc, out, err);
}

static lk_rc write_head(sender *self, const lk_flight_data_head *head, lk_err *err)
{
    lk_buf bytes = {0};
    lk_flight_data_head_write(head, &bytes);
    self->sent.bytes += bytes.size;
    lk_rc rc = self->peer.call != NULL ? lk_grpc_call_write_bytes(self->peer.call, lk_buf_view(&bytes), err)
                                       : lk_grpc_rpc_write_bytes(self->peer.rpc, lk_buf_view(&bytes), err);
    lk_buf_deinit(&bytes);
    return rc;
}

static lk_rc write_schema(sender *self, lk_err *err)
{
    lk_buf header = {0};
    lk_rc  rc = lk_ipc_schema_encode(self->schema, LK_IPC_BARE, &header, err);
    if (rc == LK_OK) {
        lk_flight_data_head head = {.descriptor = self->options->descriptor, .header = lk_buf_view(&header)};
        rc = write_head(self, &head, err);
    }
    lk_buf_deinit(&header);
    return rc;
}

/* Takes the message's insides. */
static lk_rc write_message(sender *self, lk_ipc_message *message, lk_err *err)
{
    static const char zeros[64];
    outgoing         *held = allocate(1, sizeof *held);
    lk_ipc_message_move(message, &held->message);
    const lk_ipc_message *m = &held->message;
    lk_flight_data_head   head = {.header = m->header, .body_size = m->body_size};
    lk_flight_data_head_write(&head, &held->head);

    lk_bytes *pieces = allocate(1 + 2 * m->segment_count, sizeof *pieces);
    size_t    count = 0;
    pieces[count++] = lk_buf_view(&held->head);
    for (size_t i = 0; i < m->segment_count; i++) {
        if (m->segments[i].size > 0) {
            pieces[count++] = (lk_bytes){m->segments[i].data, m->segments[i].size};
        }
        if (m->segments[i].padding > 0) {
            pieces[count++] = (lk_bytes){zeros, m->segments[i].padding};
        }
    }
    self->sent.bytes += held->head.size + m->body_size;
    lk_grpc_out out = {pieces, count, outgoing_free, held};
    lk_rc       rc = peer_write(self->peer, &out, err);
    free(pieces);
    return rc;
}

static lk_rc write_batch(sender *self, lk_shared_array *batch, lk_err *err)
{
    lk_ipc_message *messages = NULL;
    size_t          count = 0;
    int64_t         rows = lk_shared_array_get(batch)->length;
    lk_rc           rc = lk_ipc_encode(self->encoder, batch, &messages, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = write_message(self, &messages[i], err);
    }
    lk_ipc_messages_free(messages, count);
    if (rc == LK_OK) {
        self->sent.rows += (uint64_t)rows;
        self->sent.batches++;
    }
    return rc;
}

/* -- size -- */

/* Rows that one message takes of this batch. */
static int64_t rows_per_message(const sender *self, const struct ArrowArray *batch)
{
    if (self->options->keep_batches || batch->length <= 1) {
        return batch->length;
    }
    size_t  bytes = lk_array_range_bytes(self->schema, batch, 0, batch->length);
    int64_t rows = LK_STREAM_BATCH_ROWS;
    if (bytes > MESSAGE_BYTES_MAX) {
        int64_t parts = (int64_t)(bytes / (MESSAGE_BYTES_MAX / 2)) + 1;
        int64_t even = batch->length / parts + 1;
        rows = even < rows ? even : rows;
    }
    return rows < batch->length ? rows : batch->length;
}

/* Takes the batch; writes it whole or in slices. */
static lk_rc send_batch(sender *self, struct ArrowArray *batch, lk_err *err)
{
    int64_t          length = batch->length, step = rows_per_message(self, batch);
    lk_shared_array *shared = lk_array_share(batch);
    lk_rc            rc = LK_OK;
    if (step == length) {
        rc = write_batch(self, shared, err);
    } else {
        for (int64_t at = 0; rc == LK_OK && at < length; at += step) {
            struct ArrowArray slice;
            lk_shared_array_slice(shared, at, step < length - at ? step : length - at, &slice);
            lk_shared_array *part = lk_array_share(&slice);
            rc = write_batch(self, part, err);
            lk_shared_array_unref(part);
        }
    }
    lk_shared_array_unref(shared);
    return rc;
}

/* Pulls the next batch, empty ones left out; released at the end and at the row limit. */
static lk_rc pull(sender *self, uint64_t *pulled, struct ArrowArray *out, lk_err *err)
{
    uint64_t limit = self->options->row_limit;
    lk_rc    rc = LK_OK;
    *out = (struct ArrowArray){0};
    if (limit != 0 && *pulled >= limit) {
        return LK_OK;
    }
    do {
        lk_array_release(out);
        rc = lk_batches_next(self->batches, out, err);
    } while (rc == LK_OK && out->release != NULL && out->length == 0);
    if (rc != LK_OK || out->release == NULL) {
        return rc;
    }
    if (limit != 0 && (uint64_t)out->length > limit - *pulled) {
        struct ArrowArray cut;
        lk_shared_array  *shared = lk_array_share(out);
        lk_shared_array_slice(shared, 0, (int64_t)(limit - *pulled), &cut);
        lk_shared_array_unref(shared);
        *out = cut;
    }
    *pulled += (uint64_t)out->length;
    return LK_OK;
}

/* -- the queue between helper and writer -- */

typedef struct queue {
    sender           *self;
    uint64_t          pulled;
    lk_mutex          mutex;
    lk_cond           changed;
    struct ArrowArray batches[QUEUE_BATCHES_MAX]; /* guarded, as are the rest */
    size_t            sizes[QUEUE_BATCHES_MAX];
    size_t            head, count, bytes;
    bool              stop, ended;
    lk_rc             rc; /* why the source ended */
    lk_err            err;
} queue;

static bool push(queue *q, struct ArrowArray *batch)
{
    size_t size = lk_array_range_bytes(q->self->schema, batch, 0, batch->length);
    lk_mutex_lock(&q->mutex);
    while (!q->stop && (q->count == QUEUE_BATCHES_MAX || (q->count > 0 && q->bytes + size > QUEUE_BYTES))) {
        lk_cond_wait(&q->changed, &q->mutex);
    }
    bool going = !q->stop;
    if (going) {
        size_t at = (q->head + q->count++) % QUEUE_BATCHES_MAX;
        lk_array_move(batch, &q->batches[at]);
        q->sizes[at] = size;
        q->bytes += size;
        lk_cond_broadcast(&q->changed);
    }
    lk_mutex_unlock(&q->mutex);
    lk_array_release(batch);
    return going;
}

static void fill(void *context)
{
    queue            *q = context;
    struct ArrowArray batch = {0};
    lk_err            err = {0};
    lk_rc             rc = LK_OK;
    bool              going = true;
    while (going) {
        rc = pull(q->self, &q->pulled, &batch, &err);
        going = rc == LK_OK && batch.release != NULL && push(q, &batch);
    }
    lk_mutex_lock(&q->mutex);
    q->ended = true;
    q->rc = rc;
    q->err = err;
    lk_cond_broadcast(&q->changed);
    lk_mutex_unlock(&q->mutex);
}

/* How many batches from the head make one message; with the mutex held. */
static size_t gather(const queue *q, bool *full)
{
    size_t  taken = 0, bytes = 0;
    int64_t rows = 0;
    *full = !q->self->coalesce;
    if (*full) {
        return q->count > 0 ? 1 : 0;
    }
    while (taken < q->count && !*full) {
        size_t at = (q->head + taken) % QUEUE_BATCHES_MAX;
        bool   large = q->sizes[at] >= LARGE_BYTES;
        bool   fits = rows + q->batches[at].length <= LK_STREAM_BATCH_ROWS &&
                    bytes + q->sizes[at] <= LK_STREAM_BATCH_BYTES && !large;
        if (taken > 0 && !fits) {
            *full = true;
            break;
        }
        rows += q->batches[at].length;
        bytes += q->sizes[at];
        taken++;
        *full = large || rows >= LK_STREAM_BATCH_ROWS || bytes >= LK_STREAM_BATCH_BYTES;
    }
    return taken;
}

/* Moves the batches of the next message out; *count = 0 at the end. */
static void take(queue *q, struct ArrowArray *out, size_t *count)
{
    bool     full = false;
    uint64_t patience = 0;
    lk_mutex_lock(&q->mutex);
    for (;;) {
        *count = gather(q, &full);
        if ((full && *count > 0) || q->ended) {
            break;
        }
        if (*count == 0) {
            lk_cond_wait(&q->changed, &q->mutex);
            continue;
        }
        patience = patience == 0 ? lk_clock_monotonic_ms(lk_clock_real()) + LINGER_MS : patience;
        if (!lk_cond_wait_until(&q->changed, &q->mutex, patience)) {
            *count = gather(q, &full);
            break;
        }
    }
    for (size_t i = 0; i < *count; i++) {
        lk_array_move(&q->batches[q->head], &out[i]);
        q->bytes -= q->sizes[q->head];
        q->head = (q->head + 1) % QUEUE_BATCHES_MAX;
        q->count--;
    }
    lk_cond_broadcast(&q->changed);
    lk_mutex_unlock(&q->mutex);
}

/* Sends count batches as one. */
static lk_rc send_gathered(sender *self, struct ArrowArray *batches, size_t count, lk_err *err)
{
    if (count == 1) {
        return send_batch(self, &batches[0], err);
    }
    struct ArrowArray whole = {0};
    lk_rc             rc = lk_array_concat(self->schema, batches, count, &whole, err);
    for (size_t i = 0; i < count; i++) {
        lk_array_release(&batches[i]);
    }
    return rc == LK_OK ? send_batch(self, &whole, err) : rc;
}

static lk_rc drain(sender *self, queue *q, lk_err *err)
{
    struct ArrowArray taken[QUEUE_BATCHES_MAX] = {0};
    size_t            count = 0;
    lk_rc             rc = LK_OK;
    do {
        take(q, taken, &count);
        rc = count > 0 ? send_gathered(self, taken, count, err) : LK_OK;
    } while (rc == LK_OK && count > 0);
    return rc;
}

/* Nobody wants the rest: the source is told, if it listens to the call's flag, and the helper stops. */
static void stop(sender *self, queue *q)
{
    lk_mutex_lock(&q->mutex);
    bool running = !q->ended;
    q->stop = true;
    lk_cond_broadcast(&q->changed);
    lk_mutex_unlock(&q->mutex);
    if (running && self->peer.call != NULL) {
        atomic_store(&lk_grpc_call_cancel(self->peer.call)->set, true);
    }
}

static void queue_free(queue *q)
{
    for (; q->count > 0; q->count--) {
        lk_array_release(&q->batches[q->head]);
        q->head = (q->head + 1) % QUEUE_BATCHES_MAX;
    }
    lk_cond_deinit(&q->changed);
    lk_mutex_deinit(&q->mutex);
    free(q);
}

/* Sends the rest, second being the first of it, with the source on its own thread. */
static lk_rc send_on_two_threads(sender *self, uint64_t pulled, struct ArrowArray *second, lk_err *err)
{
    queue    *q = allocate(1, sizeof *q);
    lk_thread helper = {0};
    q->self = self;
    q->pulled = pulled;
    lk_mutex_init(&q->mutex, LK_RANK_CALL);
    lk_cond_init(&q->changed);
    (void)push(q, second);
    lk_rc rc = lk_thread_start(&helper, "lk-stream", fill, q, err);
    if (rc == LK_OK) {
        rc = drain(self, q, err);
        if (rc != LK_OK) {
            stop(self, q);
        }
        lk_thread_join(&helper);
        if (rc == LK_OK && q->rc != LK_OK) {
            *err = q->err;
            rc = q->rc;
        }
    }
    queue_free(q);
    return rc;
}

static lk_rc send_inline(sender *self, uint64_t pulled, struct ArrowArray *batch, lk_err *err)
{
    lk_rc rc = LK_OK;
    while (rc == LK_OK && batch->release != NULL) {
        rc = send_batch(self, batch, err);
        if (rc == LK_OK) {
            rc = pull(self, &pulled, batch, err);
        }
    }
    return rc;
}

static lk_rc send_all(sender *self, lk_err *err)
{
    struct ArrowArray batch = {0};
    uint64_t          pulled = 0;
    lk_rc             rc = pull(self, &pulled, &batch, err);
    if (rc != LK_OK || self->options->inline_only) {
        return rc == LK_OK ? send_inline(self, pulled, &batch, err) : rc;
    }
    if (batch.release != NULL) {
        rc = send_batch(self, &batch, err);
        if (rc == LK_OK) {
            rc = pull(self, &pulled, &batch, err);
        }
    }
    return rc == LK_OK && batch.release != NULL ? send_on_two_threads(self, pulled, &batch, err) : rc;
}

static bool has_dictionary(const struct ArrowSchema *schema)
{
    bool found = schema->dictionary != NULL;
    for (int64_t i = 0; !found && i < schema->n_children; i++) {
        found = has_dictionary(schema->children[i]);
    }
    return found;
}

lk_rc lk_flight_send(lk_flight_peer peer, lk_batches *batches, const lk_flight_send_options *options,
    lk_flight_sent *sent, lk_err *err)
{
    static const lk_flight_send_options defaults = {0};
    sender self = {.peer = peer, .batches = batches, .options = options == NULL ? &defaults : options};
    self.schema = self.options->schema == NULL ? &batches->schema : self.options->schema;
    self.coalesce = !self.options->keep_batches && !has_dictionary(self.schema);
    lk_rc rc = lk_ipc_encoder_new(self.schema, &self.encoder, err);
    if (rc == LK_OK) {
        rc = write_schema(&self, err);
    }
    if (rc == LK_OK) {
        rc = send_all(&self, err);
    }
    lk_ipc_encoder_free(self.encoder);
    if (sent != NULL) {
        *sent = self.sent;
    }
    return rc;
}
