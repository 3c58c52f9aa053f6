/*
 * s3_memory.c - object storage for benches: an S3 server whose objects are in its memory, and which answers no sooner than a
 * set time after a request has come, as one far away does. It costs little, so that what is measured has the processors.
 *
 *   s3_memory put=30 get=15
 *
 * Prints the port that it listens on at 127.0.0.1. Every line of its standard input is answered by one JSON object: requests of
 * each kind since it began, and the processor time that it used; it ends with its standard input. PUT, POST and DELETE take `put`
 * milliseconds, GET and HEAD `get`. Exit 0; 1 and a reason on stderr; 2 usage.
 *
 * It knows objects in one piece (PUT, with If-None-Match: *; GET with one range and If-Match; HEAD; DELETE), DeleteObjects and
 * ListObjectsV2. Everything else is 501; signatures are not looked at. Buckets need not be made. A write takes effect when it
 * comes, its answer waits.
 *
 * Threads: workers of the HTTP server make the answers, under one mutex; one thread sends each in its time. Answers of one delay
 * are due in the order in which they were made: there is a queue for each.
 */
#include "base/clock.h"
#include "base/thread.h"
#include "io/s3_xml.h"
#include "net/http_server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { SLOW, QUICK, DELAYS, LIST_MAX = 1000, BODY_MAX = 1 << 30 };
enum { PUTS, GETS, HEADS, DELETES, LISTS, KINDS };

static const char *const kind_names[KINDS] = {"put", "get", "head", "delete", "list"};
static const int         kind_delays[KINDS] = {SLOW, QUICK, QUICK, SLOW, QUICK};

typedef struct object {
    lk_bytes key; /* BUCKET/KEY; behind it its bytes */
    lk_bytes content, mark;
    uint64_t number; /* its ETag */
} object;

typedef struct answer {
    struct answer    *next;
    lk_http_exchange *exchange;
    int               status;
    lk_buf            body;
    uint64_t          due_us;
} answer;

typedef struct memory {
    uint64_t delay_us[DELAYS];
    lk_mutex objects_mutex;
    object **objects; /* by key; guarded by objects_mutex, as are the following */
    size_t   count, room;
    uint64_t made, requests[KINDS];
    lk_mutex mutex;
    lk_cond  changed;
    answer  *first[DELAYS], *last[DELAYS]; /* guarded by mutex, as is the following */
    bool     ended;
} memory;

static memory m;

/* -- objects ------------------------------------------------------------------------------------------------------- */

/* Where the key is, or belongs. */
static size_t place_of(lk_bytes key, bool *found)
{
    size_t low = 0, high = m.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (lk_bytes_compare(m.objects[middle]->key, key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *found = low < m.count && lk_bytes_equal(m.objects[low]->key, key);
    return low;
}

static object *new_object(lk_bytes key, lk_bytes content, lk_bytes mark)
{
    object *o = malloc(sizeof *o + key.size + content.size + mark.size + 1);
    LK_ASSERT(o != NULL);
    char    *at = (char *)(o + 1);
    lk_bytes parts[] = {key, content, mark};
    for (size_t i = 0; i < 3; i++) {
        if (parts[i].size > 0) {
            memcpy(at, parts[i].data, parts[i].size);
        }
        parts[i].data = at;
        at += parts[i].size;
    }
    *o = (object){.key = parts[0], .content = parts[1], .mark = parts[2], .number = ++m.made};
    return o;
}

/* false: there is one, and it stays. */
static bool put_object(lk_bytes key, lk_bytes content, lk_bytes mark, bool replaces)
{
    bool   found;
    size_t at = place_of(key, &found);
    if (found && !replaces) {
        return false;
    }
    if (!found) {
        if (m.count == m.room) {
            m.room = m.room == 0 ? 1024 : m.room * 2;
            m.objects = realloc(m.objects, m.room * sizeof(object *));
            LK_ASSERT(m.objects != NULL);
        }
        memmove(&m.objects[at + 1], &m.objects[at], (m.count - at) * sizeof(object *));
        m.objects[at] = NULL;
        m.count++;
    }
    free(m.objects[at]);
    m.objects[at] = new_object(key, content, mark);
    return true;
}

static void remove_object(lk_bytes key)
{
    bool   found;
    size_t at = place_of(key, &found);
    if (found) {
        free(m.objects[at]);
        m.count--;
        memmove(&m.objects[at], &m.objects[at + 1], (m.count - at) * sizeof(object *));
    }
}

/* -- requests ------------------------------------------------------------------------------------------------------ */

static lk_bytes field(lk_http_exchange *exchange, const char *name)
{
    lk_bytes value = {0};
    (void)lk_http_head_field(lk_http_request(exchange), name, &value);
    return value;
}

static lk_bytes parameter(lk_http_exchange *exchange, const char *name, bool *found)
{
    lk_bytes value = {0};
    if (!lk_http_query_value(
            lk_http_request(exchange)->query, name, lk_http_arena(exchange), &value, found)) {
        *found = false;
    }
    return value;
}

static bool has(lk_http_exchange *exchange, const char *name)
{
    bool found = false;
    (void)parameter(exchange, name, &found);
    return found;
}

static int fail(int status, const char *code, lk_buf *body)
{
    lk_buf_format(body, "<?xml version=\"1.0\"?><Error><Code>%s</Code></Error>", code);
    return status;
}

static void add_etag(lk_http_exchange *exchange, const object *o)
{
    lk_http_add_field(
        exchange, "ETag", lk_arena_format(lk_http_arena(exchange), "\"%" PRIu64 "\"", o->number));
}

static int put(lk_http_exchange *exchange, lk_bytes key, lk_buf *body)
{
    bool replaces = !lk_bytes_equal(field(exchange, "if-none-match"), LK_LITERAL("*"));
    if (lk_http_request(exchange)->query.size > 0) {
        return fail(501, "NotImplemented", body);
    }
    if (!put_object(key, lk_http_body(exchange), field(exchange, "x-amz-meta-lake-write"), replaces)) {
        return fail(412, "PreconditionFailed", body);
    }
    bool found;
    add_etag(exchange, m.objects[place_of(key, &found)]);
    return 200;
}

/* "bytes=5-9", "bytes=5-" or "bytes=-5", of so many; false: no part of them. */
static bool read_range(lk_bytes text, uint64_t size, uint64_t *start, uint64_t *end)
{
    char          copy[64];
    char         *after = copy;
    static size_t unit = sizeof "bytes=" - 1;
    if (text.size <= unit || text.size - unit >= sizeof copy) {
        return false;
    }
    memcpy(copy, text.data + unit, text.size - unit);
    copy[text.size - unit] = '\0';
    if (copy[0] == '-') {
        uint64_t last = strtoull(copy + 1, NULL, 10);
        *start = last < size ? size - last : 0;
        *end = size;
    } else {
        *start = strtoull(copy, &after, 10);
        *end = after[0] == '-' && after[1] != '\0' ? strtoull(after + 1, NULL, 10) + 1 : size;
        *end = *end < size ? *end : size;
    }
    return *start < *end;
}

static int get(lk_http_exchange *exchange, lk_bytes key, lk_buf *body)
{
    bool     found;
    size_t   at = place_of(key, &found);
    lk_bytes range = field(exchange, "range"), match = field(exchange, "if-match");
    if (!found) {
        return fail(404, "NoSuchKey", body);
    }
    const object *o = m.objects[at];
    uint64_t      start = 0, end = o->content.size;
    lk_arena     *arena = lk_http_arena(exchange);
    if (match.size > 0 && !lk_bytes_equal(match, lk_arena_format(arena, "\"%" PRIu64 "\"", o->number))) {
        return fail(412, "PreconditionFailed", body);
    }
    add_etag(exchange, o);
    if (o->mark.size > 0) {
        lk_http_add_field(exchange, "x-amz-meta-lake-write", o->mark);
    }
    if (range.size > 0 && !read_range(range, o->content.size, &start, &end)) {
        lk_http_add_field(exchange, "Content-Range", lk_arena_format(arena, "bytes */%zu", o->content.size));
        return fail(416, "InvalidRange", body);
    }
    if (range.size > 0) {
        lk_http_add_field(exchange, "Content-Range",
            lk_arena_format(arena, "bytes %" PRIu64 "-%" PRIu64 "/%zu", start, end - 1, o->content.size));
    }
    lk_buf_append(body, o->content.data + start, (size_t)(end - start));
    return range.size > 0 ? 206 : 200;
}

static int delete_many(lk_http_exchange *exchange, lk_bytes bucket, lk_buf *body)
{
    lk_arena    *arena = lk_http_arena(exchange);
    lk_xml       xml = lk_xml_of(lk_http_body(exchange));
    lk_xml_event event;
    bool         in_key = false;
    while ((event = lk_xml_next(&xml, arena)) != LK_XML_END && event != LK_XML_BROKEN) {
        if (event == LK_XML_TEXT && in_key) {
            remove_object(lk_arena_format(arena, "%.*s/%.*s", LK_FMT(bucket), LK_FMT(xml.value)));
        }
        in_key = event == LK_XML_OPEN && lk_bytes_equal(xml.value, LK_LITERAL("Key"));
    }
    lk_buf_append_text(body, "<?xml version=\"1.0\"?><DeleteResult></DeleteResult>");
    return 200;
}

/* -- listing ------------------------------------------------------------------------------------------------------- */

static void add_listed(lk_buf *body, const object *o, lk_bytes name, bool is_prefix)
{
    lk_buf_append_text(body, is_prefix ? "<CommonPrefixes><Prefix>" : "<Contents><Key>");
    (void)lk_xml_escape(body, name);
    if (is_prefix) {
        lk_buf_append_text(body, "</Prefix></CommonPrefixes>");
    } else {
        lk_buf_format(body,
            "</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified><Size>%zu</Size></Contents>",
            o->content.size);
    }
}

static int list(lk_http_exchange *exchange, lk_bytes bucket, lk_buf *body)
{
    bool      found, by_level = has(exchange, "delimiter"), more = false;
    lk_arena *arena = lk_http_arena(exchange);
    lk_bytes  token = parameter(exchange, "continuation-token", &found);
    lk_bytes  max = parameter(exchange, "max-keys", &found), last = {0};
    lk_bytes  prefix =
        lk_arena_format(arena, "%.*s/%.*s", LK_FMT(bucket), LK_FMT(parameter(exchange, "prefix", &found)));
    size_t count = 0, most = max.size > 0
                                 ? strtoull(lk_arena_format(arena, "%.*s", LK_FMT(max)).data, NULL, 10)
                                 : LIST_MAX;
    size_t at = place_of(lk_bytes_compare(prefix, token) < 0 ? token : prefix, &found);
    lk_buf_append_text(body, "<?xml version=\"1.0\"?><ListBucketResult>");
    while (at < m.count && lk_bytes_starts(m.objects[at]->key, prefix) && !(more = count == most)) {
        const object *o = m.objects[at];
        const char   *rest = o->key.data + prefix.size;
        const char   *slash = by_level ? memchr(rest, '/', o->key.size - prefix.size) : NULL;
        last = slash == NULL ? o->key : (lk_bytes){o->key.data, (size_t)(slash + 1 - o->key.data)};
        add_listed(
            body, o, (lk_bytes){last.data + bucket.size + 1, last.size - bucket.size - 1}, slash != NULL);
        count++;
        last = lk_arena_format(
            arena, slash == NULL ? "%.*s%c" : "%.*s\xff", LK_FMT(last), 1); /* what comes after it */
        at = place_of(last, &found);
    }
    lk_buf_format(body, "<IsTruncated>%s</IsTruncated>", more ? "true" : "false");
    if (more) {
        lk_buf_append_text(body, "<NextContinuationToken>");
        (void)lk_xml_escape(body, m.objects[at]->key);
        lk_buf_append_text(body, "</NextContinuationToken>");
    }
    lk_buf_append_text(body, "</ListBucketResult>");
    return 200;
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

static int answer_of(lk_http_exchange *exchange, lk_buf *body, int *kind)
{
    const lk_http_head *head = lk_http_request(exchange);
    lk_bytes            path = {0};
    *kind = GETS;
    if (!lk_http_decode(head->path, lk_http_arena(exchange), &path) || path.size < 2) {
        return fail(400, "InvalidURI", body);
    }
    path = (lk_bytes){path.data + 1, path.size - 1};
    bool is_bucket = memchr(path.data, '/', path.size) == NULL;
    if (lk_bytes_equal(head->method, LK_LITERAL("PUT")) && !is_bucket) {
        *kind = PUTS;
        return put(exchange, path, body);
    }
    if (lk_bytes_equal(head->method, LK_LITERAL("HEAD")) && !is_bucket) {
        *kind = HEADS;
        return get(exchange, path, body);
    }
    if (lk_bytes_equal(head->method, LK_LITERAL("DELETE")) && !is_bucket) {
        *kind = DELETES;
        remove_object(path);
        return 204;
    }
    if (lk_bytes_equal(head->method, LK_LITERAL("POST")) && is_bucket && has(exchange, "delete")) {
        *kind = DELETES;
        return delete_many(exchange, path, body);
    }
    if (lk_bytes_equal(head->method, LK_LITERAL("GET")) && is_bucket && has(exchange, "list-type")) {
        *kind = LISTS;
        return list(exchange, path, body);
    }
    return lk_bytes_equal(head->method, LK_LITERAL("GET")) && !is_bucket ? get(exchange, path, body)
                                                                         : fail(501, "NotImplemented", body);
}

static void admit(lk_http_exchange *exchange, void *context, uint64_t *body_max)
{
    (void)exchange;
    (void)context;
    *body_max = BODY_MAX;
}

static void run(lk_http_exchange *exchange, void *context)
{
    answer  *a = calloc(1, sizeof *a);
    uint64_t now_us = lk_clock_now_us();
    int      kind;
    (void)context;
    LK_ASSERT(a != NULL);
    a->exchange = exchange;
    lk_mutex_lock(&m.objects_mutex);
    a->status = answer_of(exchange, &a->body, &kind);
    m.requests[kind]++;
    lk_mutex_unlock(&m.objects_mutex);
    int delay = kind_delays[kind];
    lk_mutex_lock(&m.mutex);
    a->due_us = now_us + m.delay_us[delay];
    if (m.first[delay] == NULL) {
        m.first[delay] = a;
        lk_cond_signal(&m.changed);
    } else {
        m.last[delay]->next = a;
    }
    m.last[delay] = a;
    lk_mutex_unlock(&m.mutex);
}

static void send(answer *a)
{
    lk_http_answer(
        a->exchange, a->status, a->status >= 300 ? "application/xml" : "application/octet-stream", &a->body);
    lk_buf_deinit(&a->body);
    free(a);
}

/* The sender's thread. */
static void send_in_time(void *context)
{
    (void)context;
    lk_mutex_lock(&m.mutex);
    for (;;) {
        uint64_t now_us = lk_clock_now_us(), next_us = UINT64_MAX;
        answer  *due = NULL;
        for (int i = 0; i < DELAYS; i++) {
            answer *a = m.first[i];
            if (due == NULL && a != NULL && (a->due_us <= now_us || m.ended)) {
                due = a;
                m.first[i] = a->next;
            }
            next_us = m.first[i] != NULL && m.first[i]->due_us < next_us ? m.first[i]->due_us : next_us;
        }
        if (due != NULL) {
            lk_mutex_unlock(&m.mutex);
            send(due);
            lk_mutex_lock(&m.mutex);
        } else if (m.ended) {
            break;
        } else if (next_us == UINT64_MAX) {
            lk_cond_wait(&m.changed, &m.mutex);
        } else {
            (void)lk_cond_wait_until(
                &m.changed, &m.mutex, lk_thread_now_ms() + (next_us - now_us + 999) / 1000);
        }
    }
    lk_mutex_unlock(&m.mutex);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static void tell(void)
{
    struct rusage used;
    (void)getrusage(RUSAGE_SELF, &used);
    lk_mutex_lock(&m.objects_mutex);
    for (int i = 0; i < KINDS; i++) {
        printf("%s\"%s\":%" PRIu64, i == 0 ? "{" : ",", kind_names[i], m.requests[i]);
    }
    lk_mutex_unlock(&m.objects_mutex);
    printf(",\"processor_ms\":%ld}\n", (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 +
                                           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000);
    (void)fflush(stdout);
}

static bool read_delays(int argc, char **argv)
{
    bool good = true;
    for (int i = 1; i < argc; i++) {
        int delay = strncmp(argv[i], "put=", 4) == 0 ? SLOW : QUICK;
        good = good && (delay == SLOW || strncmp(argv[i], "get=", 4) == 0);
        m.delay_us[delay] = good ? strtoull(argv[i] + 4, NULL, 10) * 1000 : 0;
    }
    return good;
}

int main(int argc, char **argv)
{
    const lk_http_options options = {.address = "127.0.0.1:0",
        .loop_count = 1,
        .worker_count = 1,
        .backlog_max = 16384,
        .admit = admit,
        .run = run};
    lk_http_server       *server = NULL;
    lk_thread             sender = {0};
    lk_err                err = {0};
    int                   byte;
    if (!read_delays(argc, argv)) {
        fprintf(stderr, "usage: s3_memory [put=MS] [get=MS]\n");
        return 2;
    }
    lk_mutex_init(&m.objects_mutex, LK_RANK_LEAF);
    lk_mutex_init(&m.mutex, LK_RANK_LEAF);
    lk_cond_init(&m.changed);
    if (lk_thread_start(&sender, "sender", send_in_time, NULL, &err) != LK_OK ||
        lk_http_server_open(&server, &options, &err) != LK_OK) {
        fprintf(stderr, "s3_memory: %s\n", err.context);
        return 1;
    }
    printf("%s\n", strrchr(lk_http_server_address(server), ':') + 1);
    (void)fflush(stdout);
    while ((byte = getchar()) != EOF) {
        if (byte == '\n') {
            tell();
        }
    }
    lk_mutex_lock(&m.mutex);
    m.ended = true;
    lk_cond_signal(&m.changed);
    lk_mutex_unlock(&m.mutex);
    lk_http_server_close(server);
    lk_thread_join(&sender);
    for (size_t i = 0; i < m.count; i++) {
        free(m.objects[i]);
    }
    free(m.objects);
    return 0;
}
