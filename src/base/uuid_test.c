/* uuid_test.c - RFC 9562's examples of versions 5 and 7, spellings, and uniqueness. */
#include "base/uuid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* RFC 9562, appendix A.6: 2022-02-22T19:22:22Z. */
static void the_published_v7_example_is_understood(void **state)
{
    lk_uuid uuid;
    char    text[LK_UUID_TEXT_SIZE + 1];
    assert_true(lk_uuid_parse(LK_LITERAL("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"), &uuid));
    assert_int_equal(lk_uuid_version(uuid), 7);
    assert_int_equal(lk_uuid_v7_ms(uuid), 1645557742000);
    lk_uuid_format(uuid, text);
    assert_string_equal(text, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
}

static void only_the_hyphenated_form_is_read(void **state)
{
    static const char *const bad[] = {
        "",
        "017f22e279b07cc398c4dc0c0c07398f",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
        "017f22e2x79b0-7cc3-98c4-dc0c0c07398f",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
        "{17f22e2-79b0-7cc3-98c4-dc0c0c07398}",
        "017f22e2-79b0-7cc3-98c4-dc0c0c07398f ",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lk_uuid uuid;
        assert_false(lk_uuid_parse(lk_bytes_of(bad[i]), &uuid));
    }
}

static void a_new_id_holds_the_clock_and_the_variant(void **state)
{
    lk_manual_clock clock;
    lk_manual_clock_init(&clock, 1645557742000);
    lk_uuid first = lk_uuid_v7(&clock.base, lk_random_os());
    lk_uuid second = lk_uuid_v7(&clock.base, lk_random_os());
    assert_int_equal(lk_uuid_version(first), 7);
    assert_int_equal(first.bytes[8] >> 6, 2);
    assert_int_equal(lk_uuid_v7_ms(first), 1645557742000);
    assert_memory_not_equal(first.bytes, second.bytes, 16);
}

/* RFC 9562, appendix A.4: www.example.com in the DNS name space. */
static void the_published_v5_example_is_computed(void **state)
{
    lk_uuid dns;
    char    text[LK_UUID_TEXT_SIZE + 1];
    assert_true(lk_uuid_parse(LK_LITERAL("6ba7b810-9dad-11d1-80b4-00c04fd430c8"), &dns));
    lk_uuid_format(lk_uuid_v5(dns, LK_LITERAL("www.example.com")), text);
    assert_string_equal(text, "2ed6657d-e927-568b-95e1-2665a8aea6a2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_v7_example_is_understood),
        cmocka_unit_test(the_published_v5_example_is_computed),
        cmocka_unit_test(only_the_hyphenated_form_is_read),
        cmocka_unit_test(a_new_id_holds_the_clock_and_the_variant),
    };
    return cmocka_run_group_tests_name("uuid", tests, NULL, NULL);
}
