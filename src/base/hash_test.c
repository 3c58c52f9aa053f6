/* hash_test.c - published vectors: FIPS 180-4, RFC 4231, RFC 3720, RFC 4648. */
#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_hex(const uint8_t *bytes, size_t size, const char *expected)
{
    char text[2 * LK_SHA256_SIZE + 1];
    lk_hex(bytes, size, text);
    assert_string_equal(text, expected);
}

static void sha256_matches_fips_180_4(void **state)
{
    static const struct {
        const char *message, *digest;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    uint8_t digest[LK_SHA256_SIZE];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_sha256_of(lk_bytes_of(cases[i].message), digest);
        assert_hex(digest, sizeof digest, cases[i].digest);
    }
}

static void sha256_in_pieces_matches_the_million_a(void **state)
{
    lk_sha256 hash;
    uint8_t   digest[LK_SHA256_SIZE];
    char      chunk[1000];
    memset(chunk, 'a', sizeof chunk);
    lk_sha256_init(&hash);
    for (int i = 0; i < 1000; i++) {
        lk_sha256_update(&hash, chunk, sizeof chunk);
    }
    lk_sha256_final(&hash, digest);
    lk_sha256_deinit(&hash);
    assert_hex(digest, sizeof digest, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void hmac_matches_rfc_4231(void **state)
{
    uint8_t mac[LK_SHA256_SIZE];
    char    key[131];
    memset(key, 0x0b, sizeof key);
    lk_hmac_sha256((lk_bytes){key, 20}, LK_LITERAL("Hi There"), mac);
    assert_hex(mac, sizeof mac, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    lk_hmac_sha256(LK_LITERAL("Jefe"), LK_LITERAL("what do ya want for nothing?"), mac);
    assert_hex(mac, sizeof mac, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    lk_hmac_sha256(
        (lk_bytes){key, 131}, LK_LITERAL("Test Using Larger Than Block-Size Key - Hash Key First"), mac);
    assert_hex(mac, sizeof mac, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* RFC 3720, appendix B.4 (bytes there are in transmission order), and the catalogue's check value. */
static void crc32c_matches_rfc_3720_with_and_without_the_instruction(void **state)
{
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    memset(ones, 0xFF, sizeof ones);
    for (int i = 0; i < 32; i++) {
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    const struct {
        const void *data;
        size_t      size;
        uint32_t    crc;
    } cases[] = {
        {zeros, 32, 0x8A9136AA},
        {ones, 32, 0x62A8AB43},
        {up, 32, 0x46DD794E},
        {down, 32, 0x113FDB5C},
        {"123456789", 9, 0xE3069283},
        {"", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(lk_crc32c(0, cases[i].data, cases[i].size), cases[i].crc);
        assert_int_equal(lk_crc32c_portable(0, cases[i].data, cases[i].size), cases[i].crc);
    }
    assert_int_equal(lk_crc32c(lk_crc32c(0, "1234", 4), "56789", 5), 0xE3069283);
}

static void hex_is_lower_case_both_ways(void **state)
{
    uint8_t bytes[2] = {0};
    assert_true(lk_unhex(LK_LITERAL("0aff"), bytes, 2));
    assert_memory_equal(bytes, "\x0A\xFF", 2);
    assert_false(lk_unhex(LK_LITERAL("0AFF"), bytes, 2));
    assert_false(lk_unhex(LK_LITERAL("0af"), bytes, 2));
    assert_false(lk_unhex(LK_LITERAL("0afg"), bytes, 2));
    assert_hex(bytes, 2, "0aff");
}

/* RFC 4648, section 10. */
static void base64_matches_rfc_4648(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_buf text = {0}, bytes = {0};
        lk_base64_append(&text, lk_bytes_of(cases[i][0]));
        assert_true(lk_bytes_equal(lk_buf_view(&text), lk_bytes_of(cases[i][1])));
        assert_true(lk_base64_decode(lk_bytes_of(cases[i][1]), false, &bytes));
        assert_true(lk_bytes_equal(lk_buf_view(&bytes), lk_bytes_of(cases[i][0])));
        lk_buf_deinit(&text);
        lk_buf_deinit(&bytes);
    }
}

static void base64_has_one_spelling_for_each_value(void **state)
{
    static const char *const bad[] = {
        "Z",
        "Zg",
        "Zg=",
        "Zg===",
        "=",
        "====",
        "Zh==",
        "Zm9=",
        "Zm9v=",
        "Zg==Zg==",
        "Zm 9",
        "Zm9-",
        "Zm9\n",
        "Z===",
    };
    lk_buf out = {0};
    lk_buf_append_text(&out, "kept");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(lk_base64_decode(lk_bytes_of(bad[i]), false, &out));
        assert_string_equal(out.data, "kept");
    }
    assert_true(lk_base64_decode(LK_LITERAL("Zg"), true, &out));
    assert_string_equal(out.data, "keptf");
    assert_false(lk_base64_decode(LK_LITERAL("Zg="), true, &out));
    lk_buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_matches_fips_180_4),
        cmocka_unit_test(sha256_in_pieces_matches_the_million_a),
        cmocka_unit_test(hmac_matches_rfc_4231),
        cmocka_unit_test(crc32c_matches_rfc_3720_with_and_without_the_instruction),
        cmocka_unit_test(hex_is_lower_case_both_ways),
        cmocka_unit_test(base64_matches_rfc_4648),
        cmocka_unit_test(base64_has_one_spelling_for_each_value),
    };
    return cmocka_run_group_tests_name("hash", tests, NULL, NULL);
}
