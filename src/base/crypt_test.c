/* crypt_test.c - published vectors (the GCM specification's, RFC 5869's), and that nothing forged opens. */
#include "base/crypt.h"

#include "base/hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static lk_bytes unhex(const char *text, uint8_t *out)
{
    lk_bytes hex = lk_bytes_of(text);
    assert_true(lk_unhex(hex, out, hex.size / 2));
    return (lk_bytes){(const char *)out, hex.size / 2};
}

/* Cases 13, 14 and 16 of McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B. */
static const struct {
    const char *key, *nonce, *plain, *associated, *sealed;
} cases[] = {
    {"0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000", "", "",
        "530f8afbc74536b9a963b4f1c4cb738b"},
    {"0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000",
        "00000000000000000000000000000000", "",
        "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16a"
        "edf5aa0d"
        "e657ba637b39",
        "feedfacedeadbeeffeedfacedeadbeefabaddad2",
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f6"
        "1e6393ba"
        "7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b"},
};

static void aes_256_gcm_matches_its_specification(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t  key[32], nonce[12], plain[64], associated[32], sealed[96];
        lk_bytes p = unhex(cases[i].plain, plain), a = unhex(cases[i].associated, associated);
        lk_bytes s = unhex(cases[i].sealed, sealed);
        lk_buf   out = {0}, back = {0};
        (void)unhex(cases[i].key, key);
        (void)unhex(cases[i].nonce, nonce);
        lk_aead_seal(key, nonce, a, p, &out);
        assert_true(lk_bytes_equal(lk_buf_view(&out), s));
        assert_true(lk_aead_open(key, nonce, a, s, &back));
        assert_true(lk_bytes_equal(lk_buf_view(&back), p));
        lk_buf_deinit(&out);
        lk_buf_deinit(&back);
    }
}

static void no_changed_bit_opens(void **state)
{
    uint8_t key[32] = {1}, nonce[12] = {2};
    lk_buf  sealed = {0}, out = {0};
    lk_aead_seal(key, nonce, LK_LITERAL("context"), LK_LITERAL("ticket"), &sealed);
    lk_buf_append_text(&out, "kept");
    for (size_t bit = 0; bit < sealed.size * 8; bit++) {
        sealed.data[bit / 8] = (char)(sealed.data[bit / 8] ^ 1 << bit % 8);
        assert_false(lk_aead_open(key, nonce, LK_LITERAL("context"), lk_buf_view(&sealed), &out));
        sealed.data[bit / 8] = (char)(sealed.data[bit / 8] ^ 1 << bit % 8);
    }
    for (size_t size = 0; size < sealed.size; size++) {
        assert_false(lk_aead_open(key, nonce, LK_LITERAL("context"), (lk_bytes){sealed.data, size}, &out));
    }
    assert_false(lk_aead_open(key, nonce, LK_LITERAL("other"), lk_buf_view(&sealed), &out));
    assert_string_equal(out.data, "kept");
    assert_true(lk_aead_open(key, nonce, LK_LITERAL("context"), lk_buf_view(&sealed), &out));
    assert_string_equal(out.data, "keptticket");
    lk_buf_deinit(&sealed);
    lk_buf_deinit(&out);
}

/* RFC 5869, appendix A.3: no salt, no info. */
static void hkdf_matches_rfc_5869(void **state)
{
    uint8_t secret[22], out[42];
    char    text[85];
    memset(secret, 0x0b, sizeof secret);
    lk_hkdf_sha256((lk_bytes){(const char *)secret, sizeof secret}, (lk_bytes){0}, out, sizeof out);
    lk_hex(out, sizeof out, text);
    assert_string_equal(
        text, "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

static void equality_compares_sizes_and_bytes(void **state)
{
    assert_true(lk_equal_constant_time(LK_LITERAL("abc"), LK_LITERAL("abc")));
    assert_false(lk_equal_constant_time(LK_LITERAL("abc"), LK_LITERAL("abd")));
    assert_false(lk_equal_constant_time(LK_LITERAL("abc"), LK_LITERAL("ab")));
    assert_true(lk_equal_constant_time((lk_bytes){0}, LK_LITERAL("")));
    char secret[] = "secret";
    lk_wipe(secret, sizeof secret);
    assert_memory_equal(secret, "\0\0\0\0\0\0", 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aes_256_gcm_matches_its_specification),
        cmocka_unit_test(no_changed_bit_opens),
        cmocka_unit_test(hkdf_matches_rfc_5869),
        cmocka_unit_test(equality_compares_sizes_and_bytes),
    };
    return cmocka_run_group_tests_name("crypt", tests, NULL, NULL);
}
