/*
 * http_client.c - see http_client.h. Each call borrows a lane: a curl multi handle with its kept connections, and easy
 * handles to use again. Lanes are used last in, first out, so that a quiet client keeps few connections.
 *
 * Threads: mutex guards idle[]; a lane belongs to one call at a time.
 */
#include "net/http_client.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/thread.h"
#include "net/tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include <curl/curl.h>

enum { LANES_IDLE_MAX = 64, EASY_IDLE_MAX = 32, POLL_MS = 100 };

typedef struct lane {
    CURLM *multi;
    CURL  *easy[EASY_IDLE_MAX];
    size_t easy_count;
} lane;

struct lk_http_client {
    lk_http_client_options options;
    char                  *ca_file;
    lk_mutex               mutex;
    lane                  *idle[LANES_IDLE_MAX]; /* guarded by mutex */
    size_t                 idle_count;           /* guarded by mutex */
};

/* One exchange while it runs. */
typedef struct transfer {
    lk_http_call      *exchange;
    CURL              *easy;
    struct curl_slist *headers;
    uint64_t           moved_ms; /* when a byte last moved */
    curl_off_t         sent, got;
    bool               refused;
    char               curl_reason[CURL_ERROR_SIZE];
} transfer;

/* -- lanes ---------------------------------------------------------------------------------------------- */

static lane *take_lane(lk_http_client *client)
{
    lane *found = NULL;
    lk_mutex_lock(&client->mutex);
    if (client->idle_count > 0) {
        found = client->idle[--client->idle_count];
    }
    lk_mutex_unlock(&client->mutex);
    if (found == NULL) {
        found = calloc(1, sizeof *found);
        LK_ASSERT(found != NULL);
        found->multi = curl_multi_init();
        LK_ASSERT(found->multi != NULL);
        (void)curl_multi_setopt(found->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
        (void)curl_multi_setopt(found->multi, CURLMOPT_MAXCONNECTS, (long)client->options.at_once);
    }
    return found;
}

static void free_lane(lane *at)
{
    for (size_t i = 0; i < at->easy_count; i++) {
        curl_easy_cleanup(at->easy[i]);
    }
    (void)curl_multi_cleanup(at->multi);
    free(at);
}

static void give_lane(lk_http_client *client, lane *at)
{
    bool kept = false;
    lk_mutex_lock(&client->mutex);
    if (client->idle_count < LANES_IDLE_MAX) {
        client->idle[client->idle_count++] = at;
        kept = true;
    }
    lk_mutex_unlock(&client->mutex);
    if (!kept) {
        free_lane(at);
    }
}

static CURL *take_easy(lane *at)
{
    CURL *easy = at->easy_count > 0 ? at->easy[--at->easy_count] : curl_easy_init();
    LK_ASSERT(easy != NULL);
    return easy;
}

static void give_easy(lane *at, CURL *easy)
{
    if (at->easy_count < EASY_IDLE_MAX) {
        curl_easy_reset(easy);
        at->easy[at->easy_count++] = easy;
    } else {
        curl_easy_cleanup(easy);
    }
}

/* -- what curl tells us --------------------------------------------------------------------------------- */

static size_t on_header(char *data, size_t one, size_t size, void *context)
{
    transfer     *t = context;
    lk_http_call *x = t->exchange;
    (void)one;
    if (size >= 5 && memcmp(data, "HTTP/", 5) == 0) { /* an interim answer may have come before */
        lk_buf_clear(&x->headers_in);
        return size;
    }
    if (size > LK_HTTP_HEADERS_BYTES_MAX - x->headers_in.size) {
        t->refused = true;
        return 0;
    }
    lk_buf_append(&x->headers_in, data, size);
    return size;
}

static size_t on_body(char *data, size_t one, size_t size, void *context)
{
    transfer     *t = context;
    lk_http_call *x = t->exchange;
    long          status = 0;
    (void)one;
    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    if (x->sink != NULL && status == x->sink_status) {
        t->refused = !x->sink(x->sink_context, data, size);
    } else if (size > LK_HTTP_BODY_BYTES_MAX - x->body_in.size) {
        t->refused = true;
    } else {
        lk_buf_append(&x->body_in, data, size);
    }
    return t->refused ? 0 : size;
}

static int on_progress(
    void *context, curl_off_t get_total, curl_off_t got, curl_off_t put_total, curl_off_t sent)
{
    transfer *t = context;
    (void)get_total;
    (void)put_total;
    if (got != t->got || sent != t->sent) {
        t->got = got;
        t->sent = sent;
        t->moved_ms = lk_clock_monotonic_ms(lk_clock_real());
    }
    return 0;
}

/* -- one transfer --------------------------------------------------------------------------------------- */

static void add_header(transfer *t, const char *line)
{
    struct curl_slist *longer = curl_slist_append(t->headers, line);
    LK_ASSERT(longer != NULL);
    t->headers = longer;
}

static void set_headers(transfer *t)
{
    lk_buf line = {0};
    add_header(t, "Expect:");
    add_header(t, "Content-Type:");
    add_header(t, "Accept:");
    for (size_t i = 0; i < t->exchange->header_count; i++) {
        const lk_http_header *h = &t->exchange->headers[i];
        lk_buf_clear(&line);
        lk_buf_format(
            &line, h->value.size == 0 ? "%.*s;%.*s" : "%.*s: %.*s", LK_FMT(h->name), LK_FMT(h->value));
        add_header(t, line.data);
    }
    lk_buf_deinit(&line);
    (void)curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
}

static void set_up(const lk_http_client *client, transfer *t)
{
    lk_http_call *x = t->exchange;
    CURL         *easy = t->easy;
    (void)curl_easy_setopt(easy, CURLOPT_URL, x->url);
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L * 1024);
    (void)curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)client->options.connect_ms);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->curl_reason);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, t);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
    (void)curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    (void)curl_easy_setopt(easy, CURLOPT_XFERINFODATA, t);
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, t);
    if (client->ca_file != NULL) {
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, client->ca_file);
    }
    if (x->has_body) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, x->body.size == 0 ? "" : x->body.data);
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->body.size);
    }
    if (strcmp(x->method, "HEAD") == 0) {
        (void)curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    } else {
        (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, x->method);
    }
    set_headers(t);
}

static lk_http_outcome end_of(const transfer *t, CURLcode code)
{
    switch ((int)code) {
    case CURLE_OK:
        return LK_HTTP_ANSWERED;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_URL_MALFORMAT:
        return LK_HTTP_NOT_SENT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return LK_HTTP_UNTRUSTED;
    default:
        return t->refused ? LK_HTTP_REFUSED : LK_HTTP_BROKEN;
    }
}

static void end_transfer(lane *at, transfer *t, CURLcode code, const char *reason)
{
    lk_http_call *x = t->exchange;
    long          status = 0;
    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    x->end = end_of(t, code);
    x->status = x->end == LK_HTTP_ANSWERED ? (int)status : 0;
    if (x->end != LK_HTTP_ANSWERED) {
        const char *why = reason != NULL              ? reason
                          : t->refused                ? "the answer is not what was asked for"
                          : t->curl_reason[0] != '\0' ? t->curl_reason
                                                      : curl_easy_strerror(code);
        (void)snprintf(x->reason, sizeof x->reason, "%s", why);
    }
    (void)curl_multi_remove_handle(at->multi, t->easy);
    curl_slist_free_all(t->headers);
    give_easy(at, t->easy);
    t->easy = NULL;
}

static void begin_transfer(const lk_http_client *client, lane *at, transfer *t, lk_http_call *x)
{
    lk_buf_clear(&x->headers_in);
    lk_buf_clear(&x->body_in);
    x->reason[0] = '\0';
    *t = (transfer){.exchange = x, .easy = take_easy(at), .moved_ms = lk_clock_monotonic_ms(lk_clock_real())};
    set_up(client, t);
    LK_ASSERT(curl_multi_add_handle(at->multi, t->easy) == CURLM_OK);
}

/* -- a call --------------------------------------------------------------------------------------------- */

typedef struct call {
    const lk_http_client *client;
    lane                 *lane;
    transfer             *transfers; /* slots; easy == NULL: free */
    size_t                slots, running;
    lk_http_call        **waiting;
    size_t                waiting_count;
} call;

static void fill_slots(call *c)
{
    for (size_t i = 0; i < c->slots && c->waiting_count > 0; i++) {
        if (c->transfers[i].easy == NULL) {
            begin_transfer(c->client, c->lane, &c->transfers[i], *c->waiting);
            c->waiting++;
            c->waiting_count--;
            c->running++;
        }
    }
}

static void collect_ended(call *c)
{
    int      left = 0;
    CURLMsg *message = NULL;
    while ((message = curl_multi_info_read(c->lane->multi, &left)) != NULL) {
        char *mine = NULL;
        if (message->msg == CURLMSG_DONE) {
            CURLcode code = message->data.result;
            (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &mine);
            end_transfer(c->lane, (transfer *)(void *)mine, code, NULL);
            c->running--;
        }
    }
}

static void end_stalled(call *c)
{
    uint64_t now = lk_clock_monotonic_ms(lk_clock_real());
    for (size_t i = 0; i < c->slots; i++) {
        transfer *t = &c->transfers[i];
        if (t->easy != NULL && now - t->moved_ms > c->client->options.stall_ms && now > t->moved_ms) {
            end_transfer(c->lane, t, CURLE_OPERATION_TIMEDOUT, "no byte moved for too long");
            c->running--;
        }
    }
}

void lk_http_perform(lk_http_client *client, lk_http_call **exchanges, size_t count)
{
    size_t slots = count < client->options.at_once ? count : client->options.at_once;
    call   c = {.client = client, .waiting = exchanges, .waiting_count = count, .slots = slots};
    if (count == 0) {
        return;
    }
    c.lane = take_lane(client);
    c.transfers = calloc(slots, sizeof *c.transfers);
    LK_ASSERT(c.transfers != NULL);
    while (c.waiting_count > 0 || c.running > 0) {
        int running = 0;
        fill_slots(&c);
        LK_ASSERT(curl_multi_perform(c.lane->multi, &running) == CURLM_OK);
        collect_ended(&c);
        end_stalled(&c);
        if (c.running > 0 && (c.waiting_count == 0 || c.running == c.slots)) {
            (void)curl_multi_poll(c.lane->multi, NULL, 0, POLL_MS, NULL);
        }
    }
    free(c.transfers);
    give_lane(client, c.lane);
}

/* -- the client ----------------------------------------------------------------------------------------- */

lk_rc lk_http_client_open(lk_http_client **out, const lk_http_client_options *options, lk_err *err)
{
    lk_buf roots = {0};
    lk_rc  rc = options->ca_file == NULL ? LK_OK : lk_tls_roots_load(&roots, options->ca_file, err);
    lk_buf_deinit(&roots);
    if (rc == LK_OK && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        rc = lk_fail(err, LK_E_INTERNAL, "libcurl does not start");
    }
    if (rc != LK_OK) {
        return rc;
    }
    lk_http_client *client = calloc(1, sizeof *client);
    LK_ASSERT(client != NULL && options->at_once > 0);
    client->options = *options;
    if (options->ca_file != NULL) {
        client->ca_file = strdup(options->ca_file);
        LK_ASSERT(client->ca_file != NULL);
    }
    lk_mutex_init(&client->mutex, LK_RANK_LEAF);
    *out = client;
    return LK_OK;
}

void lk_http_client_close(lk_http_client *client)
{
    if (client == NULL) {
        return;
    }
    for (size_t i = 0; i < client->idle_count; i++) {
        free_lane(client->idle[i]);
    }
    lk_mutex_deinit(&client->mutex);
    free(client->ca_file);
    free(client);
    curl_global_cleanup();
}

/* -- answers -------------------------------------------------------------------------------------------- */

static lk_bytes trim(lk_bytes text)
{
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && strchr(" \t\r", text.data[text.size - 1]) != NULL) {
        text.size--;
    }
    return text;
}

bool lk_http_call_header(const lk_http_call *exchange, const char *name, lk_bytes *value)
{
    lk_bytes rest = lk_buf_view(&exchange->headers_in);
    size_t   name_size = strlen(name);
    while (rest.size > 0) {
        const char *end = memchr(rest.data, '\n', rest.size);
        size_t      size = end == NULL ? rest.size : (size_t)(end - rest.data);
        if (size > name_size && rest.data[name_size] == ':' && strncasecmp(rest.data, name, name_size) == 0) {
            *value = trim((lk_bytes){rest.data + name_size + 1, size - name_size - 1});
            return true;
        }
        size_t line = end == NULL ? size : size + 1;
        rest = (lk_bytes){rest.data + line, rest.size - line};
    }
    return false;
}

void lk_http_call_deinit(lk_http_call *exchange)
{
    lk_buf_deinit(&exchange->headers_in);
    lk_buf_deinit(&exchange->body_in);
}
