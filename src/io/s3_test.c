/*
 * s3_test.c - the S3 store against a server that says what a test wants: answers that are lost, late, refused or
 * nonsense. What a real server makes of our requests is tests/interop/test_s3.py's subject.
 */
#include "io/s3.h"

#include "base/limits.h"
#include "io/s3_priv.h"
#include "net/http_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { STEPS_MAX = 16 };

typedef struct step { /* of the conversation: what is asked for, what is said */
    const char *method, *answer, *field, *value;
    int         status;    /* 0: the connection is closed instead */
    bool        keep_mark; /* the answer tells the mark of the first PUT */
} step;

typedef struct fixture {
    lk_http_server *server;
    lk_store       *store;
    lk_clock        clock; /* real, but it does not sleep */
    lk_arena        arena;
    lk_err          err;
    lk_mutex        mutex;
    const step     *steps;          /* guarded by mutex */
    size_t          count, at;      /* guarded by mutex */
    char            mark[64];       /* guarded by mutex */
    char            signature[512]; /* the last request's Authorization; guarded by mutex */
    bool            unexpected;     /* guarded by mutex */
} fixture;

static void admit(lk_http_exchange *exchange, void *context, uint64_t *body_max)
{
    *body_max = 64 << 20;
}

static const step *next_step(fixture *f, const lk_http_head *head)
{
    lk_bytes mark = {0}, signature = {0};
    lk_mutex_lock(&f->mutex);
    if (lk_http_head_field(head, "authorization", &signature)) {
        (void)snprintf(f->signature, sizeof f->signature, "%.*s", LK_FMT(signature));
    }
    const step *s = f->at < f->count ? &f->steps[f->at++] : NULL;
    if (s == NULL || !lk_bytes_equal(head->method, lk_bytes_of(s->method))) {
        f->unexpected = true;
        s = NULL;
    }
    if (f->mark[0] == '\0' && lk_http_head_field(head, LK_S3_MARK_HEADER, &mark) &&
        mark.size < sizeof f->mark) {
        memcpy(f->mark, mark.data, mark.size);
    }
    lk_mutex_unlock(&f->mutex);
    return s;
}

static void serve(lk_http_exchange *exchange, void *context)
{
    fixture    *f = context;
    const step *s = next_step(f, lk_http_request(exchange));
    lk_buf      body = {0};
    if (s != NULL && s->status == 0) {
        lk_http_begin(exchange, 200, "text/plain", 10); /* and no byte of it */
        lk_http_end(exchange);
        return;
    }
    if (s != NULL && s->field != NULL) {
        lk_http_add_field(exchange, s->field, lk_bytes_of(s->value));
    }
    if (s != NULL && s->keep_mark) {
        lk_http_add_field(exchange, LK_S3_MARK_HEADER, lk_bytes_of(f->mark));
    }
    lk_buf_append_text(&body, s == NULL           ? "<Error><Code>Unexpected</Code></Error>"
                              : s->answer != NULL ? s->answer
                                                  : "");
    lk_http_answer(exchange, s == NULL ? 418 : s->status, "application/xml", &body);
}

static uint64_t set_wall_ms; /* 0: the real one */

static uint64_t wall_ms(lk_clock *clock)
{
    return set_wall_ms > 0 ? set_wall_ms : lk_clock_wall_ms(lk_clock_real());
}

static uint64_t monotonic_ms(lk_clock *clock)
{
    return lk_clock_monotonic_ms(lk_clock_real());
}

static void no_sleep(lk_clock *clock, uint64_t ms)
{
    assert_true(ms <= LK_S3_BACKOFF_MS_MAX);
}

static const struct lk_clock_ops clock_ops = {wall_ms, monotonic_ms, no_sleep};

static int open_store(void **state)
{
    fixture              *f = calloc(1, sizeof *f);
    const lk_http_options server = {.address = "127.0.0.1:0", .admit = admit, .run = serve, .context = f};
    *state = f;
    f->clock.ops = &clock_ops;
    lk_mutex_init(&f->mutex, LK_RANK_LEAF);
    if (lk_http_server_open(&f->server, &server, &f->err) != LK_OK) {
        return 1;
    }
    const lk_s3_options options = {.access_key = "key",
        .secret_key = "secret",
        .endpoint = lk_arena_format(&f->arena, "http://%s", lk_http_server_address(f->server)).data,
        .timeout_ms = 60000,
        .clock = &f->clock,
        .random = lk_random_os()};
    return lk_s3_store_open(&f->store, LK_LITERAL("s3://bucket/prefix"), &options, &f->err) != LK_OK;
}

static int close_store(void **state)
{
    fixture *f = *state;
    lk_store_close(f->store);
    lk_http_server_close(f->server);
    lk_mutex_deinit(&f->mutex);
    lk_arena_close(&f->arena);
    free(f);
    return 0;
}

static void expect(fixture *f, const step *steps, size_t count)
{
    f->steps = steps;
    f->count = count;
    f->at = 0;
    f->mark[0] = '\0';
    f->err = (lk_err){0};
}

static void assert_said_all(fixture *f)
{
    assert_false(f->unexpected);
    assert_int_equal(f->at, f->count);
}

#define EXPECT(f, ...)                  \
    const step steps[] = {__VA_ARGS__}; \
    expect(f, steps, sizeof steps / sizeof steps[0])

static lk_rc put(fixture *f, bool *created)
{
    *created = false;
    return lk_store_put_if_absent(f->store, LK_LITERAL("a"), LK_LITERAL("bytes"), created, &f->err);
}

static const char slow_down[] = "<Error><Code>SlowDown</Code></Error>";

static void a_busy_server_is_asked_again(void **state)
{
    fixture *f = *state;
    bool     created = false;
    EXPECT(f, {.method = "PUT", .status = 503, .answer = slow_down}, {.method = "PUT", .status = 500},
        {.method = "PUT", .status = 429},
        {.method = "PUT", .status = 409, .answer = "<Error><Code>ConditionalRequestConflict</Code></Error>"},
        {.method = "PUT", .status = 200});
    assert_int_equal(put(f, &created), LK_OK);
    assert_true(created);
    assert_said_all(f);
}

static void a_refusal_after_a_lost_answer_is_looked_into(void **state)
{
    fixture *f = *state;
    bool     created = false;
    EXPECT(f, {.method = "PUT", .status = 0}, {.method = "PUT", .status = 412},
        {.method = "HEAD", .status = 200, .keep_mark = true});
    assert_int_equal(put(f, &created), LK_OK);
    assert_true(created);
    assert_said_all(f);
}

static void anothers_object_is_anothers(void **state)
{
    fixture *f = *state;
    bool     created = true;
    EXPECT(f, {.method = "PUT", .status = 412},
        {.method = "HEAD", .status = 200, .field = LK_S3_MARK_HEADER, .value = "somebody"});
    assert_int_equal(put(f, &created), LK_OK);
    assert_false(created);
    assert_said_all(f);
}

static void without_metadata_the_bytes_decide(void **state)
{
    fixture *f = *state;
    bool     created = false;
    {
        EXPECT(f, {.method = "PUT", .status = 412}, {.method = "HEAD", .status = 200},
            {.method = "GET", .status = 200, .answer = "bytes"});
        assert_int_equal(put(f, &created), LK_OK);
        assert_true(created);
        assert_said_all(f);
    }
    {
        EXPECT(f, {.method = "PUT", .status = 412}, {.method = "HEAD", .status = 200},
            {.method = "GET", .status = 200, .answer = "other"});
        assert_int_equal(put(f, &created), LK_OK);
        assert_false(created);
        assert_said_all(f);
    }
}

static void what_nobody_can_find_out_may_have_been_done(void **state)
{
    fixture *f = *state;
    bool     created = false;
    step     silence[LK_S3_TRIES_MAX + 1] = {{0}};
    for (size_t i = 0; i < LK_S3_TRIES_MAX; i++) {
        silence[i] = (step){.method = "PUT", .status = 0};
    }
    silence[LK_S3_TRIES_MAX] = (step){.method = "HEAD", .status = 404};
    expect(f, silence, LK_S3_TRIES_MAX + 1);
    assert_int_equal(put(f, &created), LK_E_STORE_UNAVAILABLE);
    assert_true(f->err.maybe_applied);
    assert_said_all(f);
    silence[LK_S3_TRIES_MAX] = (step){.method = "HEAD", .status = 200, .keep_mark = true};
    expect(f, silence, LK_S3_TRIES_MAX + 1);
    assert_int_equal(put(f, &created), LK_OK);
    assert_true(created);
    assert_said_all(f);
}

static void an_error_says_what_to_do(void **state)
{
    static const struct {
        int         status;
        const char *code, *word;
        lk_rc       rc;
    } cases[] = {
        {403, "SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY", LK_E_DENIED},
        {403, "RequestTimeTooSkewed", "clock", LK_E_DENIED},
        {404, "NoSuchBucket", "bucket", LK_E_INVALID_CONFIG},
        {400, "AuthorizationHeaderMalformed", "AWS_REGION", LK_E_INVALID_CONFIG},
        {507, "", "full", LK_E_STORE_FULL},
        {501, "NotImplemented", "If-None-Match", LK_E_UNIMPLEMENTED},
        {400, "Whatever", "Whatever", LK_E_IO},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool created = false;
        char text[96];
        (void)snprintf(text, sizeof text, "<Error><Code>%s</Code></Error>", cases[i].code);
        EXPECT(f, {.method = "PUT", .status = cases[i].status, .answer = text});
        assert_int_equal(put(f, &created), cases[i].rc);
        assert_non_null(strstr(f->err.detail, cases[i].word));
        assert_non_null(strstr(f->err.context, "s3://bucket/prefix/a"));
        assert_false(f->err.maybe_applied);
        assert_said_all(f);
    }
}

static void a_listing_goes_on_where_it_was_cut(void **state)
{
    fixture        *f = *state;
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    EXPECT(f,
        {.method = "GET",
            .status = 200,
            .answer =
                "<L><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextContinuationToken>t+/"
                "=</"
                "NextContinuationToken><Contents><Key>prefix/d/</Key></Contents><Contents><Key>prefix/d/"
                "a%20b</Key><Size>7</Size><LastModified>2009-10-12T17:50:30.250Z</LastModified></Contents></"
                "L>"},
        {.method = "GET",
            .status = 200,
            .answer = "<L><IsTruncated>false</IsTruncated><CommonPrefixes><Prefix>prefix/d/e/</Prefix>"
                      "</CommonPrefixes></L>"});
    assert_int_equal(lk_store_list(f->store, LK_LITERAL("d"), &f->arena, &entries, &count, &f->err), LK_OK);
    assert_int_equal(count, 2);
    assert_true(lk_bytes_equal(entries[0].name, LK_LITERAL("a b")));
    assert_int_equal(entries[0].size, 7);
    assert_int_equal(entries[0].modified_ms, 1255369830250);
    assert_true(lk_bytes_equal(entries[1].name, LK_LITERAL("e")));
    assert_true(entries[1].is_directory);
    assert_said_all(f);
}

static void nonsense_is_an_error(void **state)
{
    static const char *const bad[] = {"", "hello", "<a>", "<L><IsTruncated>true</IsTruncated></L>"};
    fixture                 *f = *state;
    for (size_t i = 1; i < sizeof bad / sizeof bad[0]; i++) {
        lk_store_entry *entries = NULL;
        size_t          count = 0;
        EXPECT(f, {.method = "GET", .status = 200, .answer = bad[i]});
        lk_rc rc = lk_store_list(f->store, LK_LITERAL("d"), &f->arena, &entries, &count, &f->err);
        assert_int_equal(rc, i == 1 ? LK_OK : LK_E_IO); /* text without elements lists nothing */
        assert_said_all(f);
    }
}

static void a_replaced_object_is_never_mixed_with_the_old_one(void **state)
{
    fixture         *f = *state;
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    char             out[4];
    EXPECT(f,
        {.method = "GET",
            .status = 206,
            .field = "Content-Range",
            .value = "bytes 999996-999999/1000000",
            .answer = "tail"},
        {.method = "GET", .status = 412});
    assert_int_equal(lk_store_open_object(f->store, LK_LITERAL("a"), &reader, &size, &f->err), LK_OK);
    assert_int_equal(size, 1000000);
    const lk_store_range end = {999996, 4, out}, start = {0, 4, out};
    assert_int_equal(lk_store_read(reader, &end, 1, &f->err), LK_OK);
    assert_memory_equal(out, "tail", 4);
    assert_int_equal(lk_store_read(reader, &start, 1, &f->err), LK_E_SNAPSHOT_GONE);
    assert_said_all(f);
    lk_store_reader_close(reader);
}

static void a_server_without_ranges_is_found_out(void **state)
{
    fixture         *f = *state;
    lk_store_reader *reader = NULL;
    uint64_t         size = 0;
    char             out[4];
    EXPECT(f,
        {.method = "GET",
            .status = 206,
            .field = "Content-Range",
            .value = "bytes 999996-999999/1000000",
            .answer = "tail"},
        {.method = "GET", .status = 200, .answer = "0123"},
        {.method = "GET",
            .status = 206,
            .field = "Content-Range",
            .value = "bytes 0-3/77",
            .answer = "0123"});
    assert_int_equal(lk_store_open_object(f->store, LK_LITERAL("a"), &reader, &size, &f->err), LK_OK);
    const lk_store_range start = {0, 4, out};
    assert_int_equal(lk_store_read(reader, &start, 1, &f->err), LK_E_IO);
    assert_int_equal(lk_store_read(reader, &start, 1, &f->err), LK_E_IO);
    assert_said_all(f);
    lk_store_reader_close(reader);
}

static void write_large(fixture *f, lk_store_writer **writer)
{
    char *bytes = calloc(1, LK_S3_PART_BYTES);
    assert_int_equal(lk_store_create(f->store, LK_LITERAL("a"), writer, &f->err), LK_OK);
    assert_int_equal(lk_store_write(*writer, bytes, LK_S3_PART_BYTES, &f->err), LK_OK);
    free(bytes);
}

#define BEGUN                                                                       \
    {                                                                               \
        .method = "POST", .status = 200, .answer = "<R><UploadId>id</UploadId></R>" \
    }
#define PART                                                              \
    {                                                                     \
        .method = "PUT", .status = 200, .field = "ETag", .value = "\"e\"" \
    }

static void an_upload_whose_end_is_lost_is_looked_for(void **state)
{
    fixture         *f = *state;
    lk_store_writer *writer = NULL;
    EXPECT(f, BEGUN, PART, {.method = "POST", .status = 0},
        {.method = "POST", .status = 404, .answer = "<Error><Code>NoSuchUpload</Code></Error>"},
        {.method = "HEAD", .status = 200, .keep_mark = true});
    write_large(f, &writer);
    assert_int_equal(lk_store_finish(writer, &f->err), LK_OK);
    assert_said_all(f);
}

static void an_error_inside_a_success_is_an_error(void **state)
{
    fixture         *f = *state;
    lk_store_writer *writer = NULL;
    EXPECT(f, BEGUN, PART,
        {.method = "POST", .status = 200, .answer = "<Error><Code>InternalError</Code></Error>"},
        {.method = "POST", .status = 200, .answer = "<CompleteMultipartUploadResult/>"});
    write_large(f, &writer);
    assert_int_equal(lk_store_finish(writer, &f->err), LK_OK);
    assert_said_all(f);
}

static void an_upload_that_fails_is_aborted(void **state)
{
    fixture         *f = *state;
    lk_store_writer *writer = NULL;
    {
        EXPECT(f, BEGUN, {.method = "PUT", .status = 403}, {.method = "DELETE", .status = 204});
        write_large(f, &writer);
        assert_int_equal(lk_store_finish(writer, &f->err), LK_E_DENIED);
        assert_said_all(f);
    }
    {
        EXPECT(f, BEGUN, PART, {.method = "POST", .status = 412},
            {.method = "HEAD", .status = 200, .field = LK_S3_MARK_HEADER, .value = "somebody"},
            {.method = "DELETE", .status = 204});
        write_large(f, &writer);
        assert_int_equal(lk_store_finish(writer, &f->err), LK_E_CONFLICT);
        assert_said_all(f);
    }
}

static void what_cannot_be_opened_is_said_at_once(void **state)
{
    fixture            *f = *state;
    lk_store           *store = NULL;
    const lk_s3_options good = {.access_key = "k",
        .secret_key = "s",
        .timeout_ms = 1000,
        .clock = &f->clock,
        .random = lk_random_os()};
    lk_s3_options       none = good, far = good, odd = good, blank = good;
    none.secret_key = NULL;
    far.endpoint = "http://storage.example";
    odd.endpoint = "https://host/path";
    blank.access_key = "k\nx";
    const struct {
        const char          *uri;
        const lk_s3_options *options;
        lk_rc                rc;
    } cases[] = {
        {"s3://bucket/p", &none, LK_E_INVALID_CONFIG},
        {"s3://bucket/p", &far, LK_E_INSECURE},
        {"s3://bucket/p", &odd, LK_E_INVALID_CONFIG},
        {"s3://bucket/p", &blank, LK_E_INVALID_CONFIG},
        {"s3://UPPER/p", &good, LK_E_INVALID_CONFIG},
        {"s3://", &good, LK_E_INVALID_CONFIG},
        {"s3://bucket/a/../b", &good, LK_E_INVALID_REQUEST},
        {"http://bucket/a", &good, LK_E_INVALID_CONFIG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        f->err = (lk_err){0};
        assert_int_equal(
            lk_s3_store_open(&store, lk_bytes_of(cases[i].uri), cases[i].options, &f->err), cases[i].rc);
    }
    assert_int_equal(lk_s3_store_open(&store, LK_LITERAL("s3://bucket/a/"), &good, &f->err), LK_OK);
    assert_true(lk_bytes_equal(store->uri, LK_LITERAL("s3://bucket/a")));
    assert_true(
        lk_bytes_equal(((lk_s3_store *)store)->host, LK_LITERAL("bucket.s3.us-east-1.amazonaws.com")));
    lk_store_close(store);
}

/* What signs a day's requests is kept, and that of another day is another. */
static void a_request_after_midnight_is_signed_for_its_own_day(void **state)
{
    static const uint64_t times[] = {1440979199000, 1440979201000, 1440979202000, 1440979199000};
    fixture              *f = *state;
    lk_s3_store          *store = (lk_s3_store *)f->store;
    const step            steps[] = {{.method = "GET", .status = 404}};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        lk_store_reader *reader = NULL;
        uint64_t         size = 0;
        set_wall_ms = times[i];
        expect(f, steps, 1);
        assert_int_equal(
            lk_store_open_object(f->store, LK_LITERAL("a"), &reader, &size, &f->err), LK_E_NOT_FOUND);
        lk_bytes             time = lk_s3_time(times[i], &f->arena);
        const char          *none = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        const lk_s3_pair     headers[] = {{LK_LITERAL("Host"), store->host}, {LK_LITERAL("x-amz-date"), time},
                {LK_LITERAL("x-amz-content-sha256"), lk_bytes_of(none)},
                {LK_LITERAL("Range"), LK_LITERAL("bytes=-65536")}};
        const lk_s3_signable request = {.method = LK_LITERAL("GET"),
            .path = LK_LITERAL("/bucket/prefix/a"),
            .headers = headers,
            .header_count = 4,
            .payload_hash = lk_bytes_of(none)};
        const lk_s3_scope    scope = {.access_key = LK_LITERAL("key"),
               .secret_key = LK_LITERAL("secret"),
               .region = LK_LITERAL("us-east-1"),
               .service = LK_LITERAL("s3"),
               .time = time};
        assert_string_equal(
            f->signature, lk_arena_text(&f->arena, lk_s3_authorization(&request, &scope, &f->arena)));
    }
    set_wall_ms = 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_busy_server_is_asked_again),
        TEST(a_refusal_after_a_lost_answer_is_looked_into),
        TEST(anothers_object_is_anothers),
        TEST(without_metadata_the_bytes_decide),
        TEST(what_nobody_can_find_out_may_have_been_done),
        TEST(an_error_says_what_to_do),
        TEST(a_listing_goes_on_where_it_was_cut),
        TEST(nonsense_is_an_error),
        TEST(a_replaced_object_is_never_mixed_with_the_old_one),
        TEST(a_server_without_ranges_is_found_out),
        TEST(an_upload_whose_end_is_lost_is_looked_for),
        TEST(an_error_inside_a_success_is_an_error),
        TEST(an_upload_that_fails_is_aborted),
        TEST(what_cannot_be_opened_is_said_at_once),
        TEST(a_request_after_midnight_is_signed_for_its_own_day),
    };
    return cmocka_run_group_tests_name("s3", tests, NULL, NULL);
}
