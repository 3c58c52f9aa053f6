/*
 * s3_sign_test.c - the signatures that Amazon publishes: the examples of the S3 reference ("Signature Calculations
 * for the Authorization Header"), and those of the general test suite that need no path to be rewritten (S3 rewrites
 * none).
 */
#include "io/s3_sign.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define EMPTY_HASH  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define HEADERS_MAX 6

typedef struct published {
    const char *method, *path;
    lk_s3_pair  query[3];
    lk_s3_pair  headers[HEADERS_MAX];
    const char *payload_hash, *signature;
} published;

#define PAIR(name, value)            \
    {                                \
        {name, sizeof(name) - 1},    \
        {                            \
            value, sizeof(value) - 1 \
        }                            \
    }

static size_t count_of(const lk_s3_pair *pairs, size_t max)
{
    size_t count = 0;
    while (count < max && pairs[count].name.size > 0) {
        count++;
    }
    return count;
}

static void check(const published *p, const lk_s3_scope *scope)
{
    lk_arena             arena = {0};
    const lk_s3_signable request = {
        .method = lk_bytes_of(p->method),
        .path = lk_bytes_of(p->path),
        .query = p->query,
        .query_count = count_of(p->query, 3),
        .headers = p->headers,
        .header_count = count_of(p->headers, HEADERS_MAX),
        .payload_hash = lk_bytes_of(p->payload_hash),
    };
    const char *line = lk_arena_text(&arena, lk_s3_authorization(&request, scope, &arena));
    const char *signature = strstr(line, "Signature=");
    assert_non_null(signature);
    assert_string_equal(signature + 10, p->signature);
    uint8_t     key[LK_SHA256_SIZE];
    lk_s3_scope kept = *scope;
    lk_s3_day_key(scope, key);
    kept.day_key = key;
    kept.secret_key = LK_LITERAL("is not looked at");
    assert_string_equal(lk_arena_text(&arena, lk_s3_authorization(&request, &kept, &arena)), line);
    lk_arena_close(&arena);
}

static void the_examples_of_the_s3_reference_are_met(void **state)
{
    const lk_s3_scope scope = {LK_LITERAL("AKIAIOSFODNN7EXAMPLE"),
        LK_LITERAL("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"), LK_LITERAL("us-east-1"), LK_LITERAL("s3"),
        LK_LITERAL("20130524T000000Z"), NULL};
#define HOST PAIR("Host", "examplebucket.s3.amazonaws.com")
#define DATE PAIR("x-amz-date", "20130524T000000Z")
    const published all[] = {
        {"GET", "/test.txt", {{{0}, {0}}},
            {HOST, PAIR("Range", "bytes=0-9"), PAIR("x-amz-content-sha256", EMPTY_HASH), DATE}, EMPTY_HASH,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
        {"PUT", "/test%24file.text", {{{0}, {0}}},
            {PAIR("Date", "Fri, 24 May 2013 00:00:00 GMT"), HOST,
                PAIR("x-amz-content-sha256",
                    "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"),
                DATE, PAIR("x-amz-storage-class", "REDUCED_REDUNDANCY")},
            "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
        {"GET", "/", {PAIR("lifecycle", "")}, {HOST, PAIR("x-amz-content-sha256", EMPTY_HASH), DATE},
            EMPTY_HASH, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
        {"GET", "/", {PAIR("prefix", "J"), PAIR("max-keys", "2")},
            {HOST, PAIR("x-amz-content-sha256", EMPTY_HASH), DATE}, EMPTY_HASH,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
    };
#undef HOST
#undef DATE
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        check(&all[i], &scope);
    }
}

static void the_general_test_suite_is_met(void **state)
{
    const lk_s3_scope scope = {LK_LITERAL("AKIDEXAMPLE"),
        LK_LITERAL("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), LK_LITERAL("us-east-1"),
        LK_LITERAL("service"), LK_LITERAL("20150830T123600Z"), NULL};
#define HOST PAIR("Host", "example.amazonaws.com")
#define DATE PAIR("X-Amz-Date", "20150830T123600Z")
#define NO_QUERY  \
    {             \
        {         \
            {0},  \
            {     \
                0 \
            }     \
        }         \
    }
    const published all[] = {
        {"GET", "/", NO_QUERY, {HOST, DATE}, EMPTY_HASH,
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"}, /* get-vanilla */
        {"POST", "/", NO_QUERY, {HOST, DATE}, EMPTY_HASH,
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"}, /* post-vanilla */
        {"GET", "/", {PAIR("Param2", "value2"), PAIR("Param1", "value1")}, {HOST, DATE}, EMPTY_HASH,
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"}, /* query-order-key-case */
        {"GET", "/%E1%88%B4", NO_QUERY, {HOST, DATE}, EMPTY_HASH,
            "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"}, /* get-utf8 */
        {"GET", "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", NO_QUERY, {HOST, DATE},
            EMPTY_HASH,
            "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"}, /* get-unreserved */
        {"GET", "/", NO_QUERY,
            {HOST, PAIR("My-Header1", " value1"), PAIR("My-Header2", " \"a   b   c\""), DATE}, EMPTY_HASH,
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"}, /* value-trim */
        {"GET", "/", NO_QUERY, {HOST, PAIR("My-Header1", "value2,value2,value1"), DATE}, EMPTY_HASH,
            "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea"}, /* header-key-duplicate */
        {"POST", "/", NO_QUERY,
            {HOST, DATE,
                PAIR("X-Amz-Security-Token",
                    "AQoDYXdzEPT//////////"
                    "wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfI"
                    "eoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/"
                    "kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0"
                    "wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+"
                    "scqKmlzm8FDrypN"
                    "C9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA==")},
            EMPTY_HASH,
            "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"}, /* post-sts-header-before */
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        check(&all[i], &scope);
    }
}

static void what_must_be_encoded_is(void **state)
{
    lk_buf out = {0};
    lk_s3_encode(&out, LK_LITERAL("a/b c+d=e%\xE2\x82\xAC~"), true);
    assert_true(lk_bytes_equal(lk_buf_view(&out), LK_LITERAL("a/b%20c%2Bd%3De%25%E2%82%AC~")));
    lk_buf_clear(&out);
    lk_s3_encode(&out, LK_LITERAL("a/b"), false);
    assert_true(lk_bytes_equal(lk_buf_view(&out), LK_LITERAL("a%2Fb")));
    lk_buf_deinit(&out);
}

static void a_time_has_seconds_and_is_utc(void **state)
{
    lk_arena arena = {0};
    assert_true(lk_bytes_equal(lk_s3_time(1369353600999, &arena), LK_LITERAL("20130524T000000Z")));
    lk_arena_close(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_s3_reference_are_met),
        cmocka_unit_test(the_general_test_suite_is_met),
        cmocka_unit_test(what_must_be_encoded_is),
        cmocka_unit_test(a_time_has_seconds_and_is_utc),
    };
    return cmocka_run_group_tests_name("s3 sign", tests, NULL, NULL);
}
