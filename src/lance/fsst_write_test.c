/* fsst_write_test.c - what is coded comes back through the decoder, whatever it is; texts get smaller. */
#include "lance/fsst_write.h"

#include "lance/compress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VALUE_MAX = 4096 };

static lk_fsst_encoder *trained(lk_bytes sample, size_t piece)
{
    uint32_t         ends[1024];
    size_t           count = 0;
    lk_fsst_encoder *encoder = lk_fsst_encoder_new();
    for (size_t at = 0; at < sample.size && count < 1024; count++) {
        at = at + piece < sample.size ? at + piece : sample.size;
        ends[count] = (uint32_t)at;
    }
    lk_fsst_train(encoder, sample, ends, count);
    return encoder;
}

/* Codes a value, decodes it through the table as a file has it, and returns the size of the codes. */
static size_t round_trip(const lk_fsst_encoder *encoder, lk_bytes value)
{
    static uint8_t padded[VALUE_MAX + 8], codes[2 * VALUE_MAX], back[16 * VALUE_MAX + 8];
    lk_buf         table = {0};
    lk_fsst        decoder;
    lk_err         err = {0};
    memset(padded, 'z', sizeof padded); /* what lies behind the value must not matter */
    memcpy(padded, value.data, value.size);
    size_t size = lk_fsst_encode(encoder, padded, value.size, codes);
    assert_true(size <= 2 * value.size);
    lk_fsst_put_table(encoder, &table);
    assert_int_equal(table.size, LK_FSST_TABLE_BYTES);
    assert_int_equal(lk_fsst_read_table(lk_buf_view(&table), &decoder, &err), LK_OK);
    uint8_t *end = lk_fsst_decode(&decoder, codes, size, back);
    assert_non_null(end);
    assert_int_equal(end - back, value.size);
    assert_memory_equal(back, value.data, value.size);
    lk_buf_deinit(&table);
    return size;
}

static void text_comes_back_in_half_its_size(void **state)
{
    (void)state;
    static const char line[] =
        "the quick brown fox jumps over the lazy dog and runs away from a very angry bear; ";
    char sample[8 * sizeof line];
    for (size_t at = 0; at < sizeof sample; at++) {
        sample[at] = line[at % (sizeof line - 1)];
    }
    lk_fsst_encoder *encoder = trained((lk_bytes){sample, sizeof sample}, 80);
    assert_true(2 * round_trip(encoder, (lk_bytes){sample, 400}) < 400);
    for (size_t size = 0; size < 40; size++) { /* every end a value can have */
        (void)round_trip(encoder, (lk_bytes){sample + size, size});
    }
    lk_fsst_encoder_free(encoder);
}

static void bytes_without_a_symbol_are_escaped(void **state)
{
    (void)state;
    lk_fsst_encoder *encoder = trained(LK_LITERAL("aaaaaaaabbbbbbbbaaaaaaaabbbbbbbb"), 8);
    char             every[256];
    for (size_t byte = 0; byte < sizeof every; byte++) {
        every[byte] = (char)byte;
    }
    (void)round_trip(encoder, (lk_bytes){every, sizeof every});
    (void)round_trip(encoder, LK_LITERAL("\377\377\377"));
    lk_fsst_encoder_free(encoder);
}

static void zeros_are_bytes_like_others(void **state)
{
    (void)state;
    char sample[600] = {0};
    for (size_t at = 0; at < sizeof sample; at++) {
        sample[at] = at % 3 == 0 ? 'x' : '\0';
    }
    lk_fsst_encoder *encoder = trained((lk_bytes){sample, sizeof sample}, 50);
    for (size_t size = 0; size < 30; size++) {
        (void)round_trip(encoder, (lk_bytes){sample, size});
        (void)round_trip(encoder, (lk_bytes){sample + 1, size});
    }
    lk_fsst_encoder_free(encoder);
}

static void random_bytes_and_random_samples_come_back(void **state)
{
    (void)state;
    uint64_t random = 1;
    char     bytes[VALUE_MAX];
    for (unsigned letters = 1; letters <= 256; letters *= 2) {
        for (size_t at = 0; at < sizeof bytes; at++) {
            random = random * 6364136223846793005U + 1442695040888963407U;
            bytes[at] = (char)(random >> 40 & (letters - 1));
        }
        lk_fsst_encoder *encoder = trained((lk_bytes){bytes, sizeof bytes}, 1 + letters);
        (void)round_trip(encoder, (lk_bytes){bytes, sizeof bytes});
        lk_fsst_encoder_free(encoder);
    }
}

static void a_table_of_nothing_codes_everything(void **state)
{
    (void)state;
    lk_fsst_encoder *encoder = trained(LK_LITERAL(""), 8);
    assert_int_equal(round_trip(encoder, LK_LITERAL("ab")), 4);
    lk_fsst_encoder_free(encoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_comes_back_in_half_its_size),
        cmocka_unit_test(bytes_without_a_symbol_are_escaped),
        cmocka_unit_test(zeros_are_bytes_like_others),
        cmocka_unit_test(random_bytes_and_random_samples_come_back),
        cmocka_unit_test(a_table_of_nothing_codes_everything),
    };
    return cmocka_run_group_tests_name("lance/fsst_write", tests, NULL, NULL);
}
