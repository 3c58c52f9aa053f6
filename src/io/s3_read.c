/*
 * s3_read.c - objects read in ranges (s3_priv.h). Opening asks for the last bytes, whose answer also tells the size:
 * one request opens a small object whole, and the footer of a large one.
 *
 * Invariant: every later request says If-Match, so bytes of two objects under one key are never mixed.
 * Threads: a reader is shared; its tail is guarded by the store's mutex, for the store may take it back.
 */
#include "io/s3_priv.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct lk_s3_reader {
    lk_store_reader base;
    lk_bytes        key, etag; /* behind the struct */
    uint64_t        size, tail_start;
    char           *tail; /* NULL: taken back; guarded by the store's mutex */
    size_t          slot; /* in tails[] while tail is not NULL */
} lk_s3_reader;

/* -- the tail ------------------------------------------------------------------------------------------- */

/* Takes data. The oldest tail makes room. */
static void remember_tail(lk_s3_store *store, lk_s3_reader *reader, char *data, uint64_t start)
{
    lk_mutex_lock(&store->mutex);
    reader->slot = store->tail_next++ % LK_S3_TAILS_MAX;
    lk_s3_reader *old = store->tails[reader->slot];
    char         *gone = old == NULL ? NULL : old->tail;
    if (old != NULL) {
        old->tail = NULL;
    }
    store->tails[reader->slot] = reader;
    reader->tail = data;
    reader->tail_start = start;
    lk_mutex_unlock(&store->mutex);
    free(gone);
}

void lk_s3_reader_close(lk_store_reader *base)
{
    lk_s3_reader *reader = (lk_s3_reader *)base;
    lk_s3_store  *store = (lk_s3_store *)base->store;
    lk_mutex_lock(&store->mutex);
    if (reader->tail != NULL) {
        store->tails[reader->slot] = NULL;
    }
    lk_mutex_unlock(&store->mutex);
    free(reader->tail);
    free(reader);
}

static bool from_tail(lk_s3_store *store, lk_s3_reader *reader, const lk_store_range *range)
{
    lk_mutex_lock(&store->mutex);
    bool here = reader->tail != NULL && range->offset >= reader->tail_start;
    if (here && range->size > 0) {
        memcpy(range->out, reader->tail + (range->offset - reader->tail_start), range->size);
    }
    lk_mutex_unlock(&store->mutex);
    return here;
}

/* -- open ----------------------------------------------------------------------------------------------- */

/* "bytes 5-9/10" or "bytes * /0": the number behind the slash. */
static bool whole_size(const lk_http_call *x, uint64_t *size)
{
    lk_bytes range = {0};
    if (!lk_http_call_header(x, "Content-Range", &range)) {
        return false;
    }
    size_t at = 0;
    while (at < range.size && range.data[at] != '/') {
        at++;
    }
    *size = 0;
    for (at++; at < range.size; at++) {
        if (range.data[at] < '0' || range.data[at] > '9' || *size > UINT64_MAX / 100) {
            return false;
        }
        *size = *size * 10 + (uint64_t)(range.data[at] - '0');
        if (at + 1 == range.size) {
            return true;
        }
    }
    return false;
}

static lk_s3_reader *new_reader(lk_s3_store *store, lk_bytes key, const lk_http_call *x, uint64_t size)
{
    lk_bytes etag = {"", 0};
    (void)lk_http_call_header(x, "ETag", &etag);
    lk_s3_reader *reader = calloc(1, sizeof *reader + key.size + etag.size);
    LK_ASSERT(reader != NULL);
    char *text = (char *)(reader + 1);
    memcpy(text, key.data, key.size);
    memcpy(text + key.size, etag.data, etag.size);
    reader->base.store = &store->base;
    reader->key = (lk_bytes){text, key.size};
    reader->etag = (lk_bytes){text + key.size, etag.size};
    reader->size = size;
    return reader;
}

static lk_rc opened(lk_s3_store *store, lk_s3_call *call, lk_s3_reader **out, lk_err *err)
{
    lk_http_call *x = &call->http;
    uint64_t      size = x->body_in.size;
    if (x->status == 416) { /* an object of no bytes has no last bytes */
        if (!whole_size(x, &size)) {
            size = 0;
        }
        if (size != 0) {
            return lk_fail(err, LK_E_IO, "s3://%.*s/%.*s: no range of its %" PRIu64 " bytes can be had",
                LK_FMT(store->bucket), LK_FMT(call->key), size);
        }
        *out = new_reader(store, call->key, x, 0);
        return LK_OK;
    }
    if (x->status == 206 && (!whole_size(x, &size) || size < x->body_in.size)) {
        return lk_fail(err, LK_E_IO, "s3://%.*s/%.*s: an answer without its range", LK_FMT(store->bucket),
            LK_FMT(call->key));
    }
    *out = new_reader(store, call->key, x, size);
    if (x->body_in.size > 0) {
        remember_tail(store, *out, x->body_in.data, size - x->body_in.size);
        x->body_in = (lk_buf){0};
    }
    return LK_OK;
}

lk_rc lk_s3_open_object(lk_store *base, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    lk_s3_store  *store = (lk_s3_store *)base;
    lk_arena      arena = {0};
    lk_s3_call    call = {.method = "GET"};
    lk_s3_reader *reader = NULL;
    lk_s3_add_header(&call, LK_LITERAL("Range"), lk_arena_format(&arena, "bytes=-%d", (int)LK_S3_TAIL_BYTES));
    lk_rc rc = lk_s3_key(store, key, &arena, &call.key, err);
    if (rc == LK_OK) {
        rc = lk_s3_run_one(store, &call, err);
    }
    if (rc == LK_OK) {
        int status = call.http.status;
        rc = status == 206 || status == 200 || status == 416 ? opened(store, &call, &reader, err)
                                                             : lk_s3_fail(store, &call, err);
    }
    if (rc == LK_OK) {
        *out = &reader->base;
        *size = reader->size;
    }
    lk_s3_call_deinit(&call);
    lk_arena_close(&arena);
    return rc;
}

/* -- many small ones ------------------------------------------------------------------------------------ */

/* The last bytes are all of them when the object is small. */
static lk_rc take_whole(
    lk_s3_store *store, const lk_s3_call *call, lk_store_wanted *wanted, lk_arena *arena, lk_err *err)
{
    const lk_http_call *x = &call->http;
    uint64_t            size = x->body_in.size;
    lk_err              failure = {0};
    if (x->status != 206 && x->status != 200 && x->status != 416) {
        lk_rc rc = lk_s3_fail(store, call, &failure);
        *err = rc == LK_E_NOT_FOUND ? *err : failure;
        return rc == LK_E_NOT_FOUND ? LK_OK : rc;
    }
    bool told = x->status == 200 || whole_size(x, &size) || x->status == 416;
    if (!told || (x->status == 206 && size < x->body_in.size)) {
        return lk_fail(err, LK_E_IO, "s3://%.*s/%.*s: an answer without its range", LK_FMT(store->bucket),
            LK_FMT(call->key));
    }
    bool none = x->status == 416; /* it has no last bytes */
    wanted->found = true;
    wanted->whole = none || (size == x->body_in.size && size <= LK_STORE_SMALL_BYTES);
    wanted->bytes =
        wanted->whole && !none ? lk_arena_copy(arena, lk_buf_view(&x->body_in)) : (lk_bytes){"", 0};
    return LK_OK;
}

lk_rc lk_s3_fetch(lk_store *base, lk_store_wanted *wanted, size_t count, lk_arena *arena, lk_err *err)
{
    lk_s3_store *store = (lk_s3_store *)base;
    lk_arena     scratch = {0};
    lk_rc        rc = LK_OK;
    lk_s3_call  *calls = calloc(count + 1, sizeof *calls);
    lk_s3_call **list = lk_arena_take(&scratch, (count + 1) * sizeof(lk_s3_call *));
    lk_bytes     last = lk_arena_format(&scratch, "bytes=-%d", (int)LK_STORE_SMALL_BYTES);
    LK_ASSERT(calls != NULL);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        calls[i] = (lk_s3_call){.method = "GET"};
        lk_s3_add_header(&calls[i], LK_LITERAL("Range"), last);
        rc = lk_s3_key(store, wanted[i].key, &scratch, &calls[i].key, err);
        list[i] = &calls[i];
    }
    rc = rc == LK_OK ? lk_s3_run(store, list, count, err) : rc;
    for (size_t i = 0; i < count; i++) {
        rc = rc == LK_OK ? take_whole(store, &calls[i], &wanted[i], arena, err) : rc;
        lk_s3_call_deinit(&calls[i]);
    }
    free(calls);
    lk_arena_close(&scratch);
    return rc;
}

/* -- ranges --------------------------------------------------------------------------------------------- */

typedef struct piece { /* part of a range, at most LK_S3_RANGE_BYTES_MAX */
    uint64_t offset;
    size_t   size;
    char    *out;
} piece;

typedef struct fetch { /* one request: pieces that lie near each other, by offset */
    const piece *pieces;
    size_t       count;
    uint64_t     start, end, at; /* at: what has come */
    size_t       first;          /* pieces before it are full */
} fetch;

static int compare_pieces(const void *a, const void *b)
{
    const piece *left = a, *right = b;
    return (left->offset > right->offset) - (left->offset < right->offset);
}

static void begin_fetch(void *context)
{
    fetch *self = context;
    self->at = self->start;
    self->first = 0;
}

/* Copies what came to the pieces it belongs to; several may want the same bytes. */
static bool take_bytes(void *context, const void *data, size_t size)
{
    fetch   *self = context;
    uint64_t end = self->at + size;
    if (size > self->end - self->at) {
        return false;
    }
    for (size_t i = self->first; i < self->count && self->pieces[i].offset < end; i++) {
        const piece *p = &self->pieces[i];
        uint64_t     from = p->offset > self->at ? p->offset : self->at;
        uint64_t     to = p->offset + p->size < end ? p->offset + p->size : end;
        if (from < to) {
            memcpy(p->out + (from - p->offset), (const char *)data + (from - self->at), (size_t)(to - from));
        }
        self->first += i == self->first && p->offset + p->size <= end;
    }
    self->at = end;
    return true;
}

static piece *cut_ranges(
    lk_s3_store *store, lk_s3_reader *reader, const lk_store_range *ranges, size_t count, size_t *piece_count)
{
    size_t most = 0, made = 0;
    for (size_t i = 0; i < count; i++) {
        most += ranges[i].size / LK_S3_RANGE_BYTES_MAX + 1;
    }
    piece *pieces = calloc(most + 1, sizeof *pieces);
    LK_ASSERT(pieces != NULL);
    for (size_t i = 0; i < count; i++) {
        const lk_store_range *r = &ranges[i];
        for (size_t done = 0; done < r->size && (done > 0 || !from_tail(store, reader, r));) {
            size_t size = r->size - done < LK_S3_RANGE_BYTES_MAX ? r->size - done : LK_S3_RANGE_BYTES_MAX;
            pieces[made++] = (piece){r->offset + done, size, (char *)r->out + done};
            done += size;
        }
    }
    qsort(pieces, made, sizeof *pieces, compare_pieces);
    *piece_count = made;
    return pieces;
}

static size_t group_pieces(const piece *pieces, size_t count, fetch *fetches)
{
    size_t made = 0;
    for (size_t i = 0; i < count; i++) {
        const piece *p = &pieces[i];
        fetch       *last = made == 0 ? NULL : &fetches[made - 1];
        uint64_t     end = p->offset + p->size;
        if (last != NULL && p->offset <= last->end + LK_S3_RANGE_GAP_BYTES &&
            (end <= last->end || end - last->start <= LK_S3_RANGE_BYTES_MAX)) {
            last->count++;
            last->end = end > last->end ? end : last->end;
        } else {
            fetches[made++] = (fetch){.pieces = p, .count = 1, .start = p->offset, .end = end};
        }
    }
    return made;
}

static lk_rc check_fetch(
    const lk_s3_store *store, const lk_s3_reader *reader, const lk_s3_call *call, const fetch *f, lk_err *err)
{
    if (call->http.status == 404 || call->http.status == 412) {
        return lk_fail(err, LK_E_SNAPSHOT_GONE, "s3://%.*s/%.*s was %s while it was read",
            LK_FMT(store->bucket), LK_FMT(reader->key), call->http.status == 404 ? "removed" : "replaced");
    }
    if (call->http.status != 206) {
        return call->http.status >= 300 ? lk_s3_fail(store, call, err)
                                        : lk_fail(err, LK_E_IO, "s3://%.*s/%.*s: the server reads no ranges",
                                              LK_FMT(store->bucket), LK_FMT(reader->key));
    }
    uint64_t size = 0;
    if (f->at != f->end || !whole_size(&call->http, &size) || size != reader->size) {
        return lk_fail(err, LK_E_IO, "s3://%.*s/%.*s: the answer is not the range that was asked for",
            LK_FMT(store->bucket), LK_FMT(reader->key));
    }
    return LK_OK;
}

static lk_rc run_fetches(lk_s3_store *store, lk_s3_reader *reader, fetch *fetches, size_t count, lk_err *err)
{
    lk_arena     arena = {0};
    lk_s3_call  *calls = calloc(count + 1, sizeof *calls);
    lk_s3_call **list = lk_arena_take(&arena, (count + 1) * sizeof(lk_s3_call *));
    LK_ASSERT(calls != NULL);
    for (size_t i = 0; i < count; i++) {
        calls[i] = (lk_s3_call){.method = "GET",
            .key = reader->key,
            .begin = begin_fetch,
            .sink = take_bytes,
            .context = &fetches[i],
            .sink_status = 206};
        lk_s3_add_header(&calls[i], LK_LITERAL("Range"),
            lk_arena_format(&arena, "bytes=%" PRIu64 "-%" PRIu64, fetches[i].start, fetches[i].end - 1));
        if (reader->etag.size > 0) {
            lk_s3_add_header(&calls[i], LK_LITERAL("If-Match"), reader->etag);
        }
        list[i] = &calls[i];
    }
    lk_rc rc = lk_s3_run(store, list, count, err);
    for (size_t i = 0; i < count; i++) {
        if (rc == LK_OK) {
            rc = check_fetch(store, reader, &calls[i], &fetches[i], err);
        }
        lk_s3_call_deinit(&calls[i]);
    }
    free(calls);
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_s3_read(lk_store_reader *base, const lk_store_range *ranges, size_t count, lk_err *err)
{
    lk_s3_reader *reader = (lk_s3_reader *)base;
    lk_s3_store  *store = (lk_s3_store *)base->store;
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].size > reader->size || ranges[i].offset > reader->size - ranges[i].size) {
            return lk_fail(err, LK_E_CORRUPT_FILE,
                "s3://%.*s/%.*s: %zu bytes at %" PRIu64 " end after its %" PRIu64 " bytes",
                LK_FMT(store->bucket), LK_FMT(reader->key), ranges[i].size, ranges[i].offset, reader->size);
        }
    }
    size_t piece_count = 0;
    piece *pieces = cut_ranges(store, reader, ranges, count, &piece_count);
    fetch *fetches = calloc(piece_count + 1, sizeof *fetches);
    LK_ASSERT(fetches != NULL);
    size_t fetch_count = group_pieces(pieces, piece_count, fetches);
    lk_rc  rc = fetch_count == 0 ? LK_OK : run_fetches(store, reader, fetches, fetch_count, err);
    free(fetches);
    free(pieces);
    return rc;
}
