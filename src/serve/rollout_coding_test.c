/* rollout_coding_test.c - coded bodies, whole, broken and endless. The coded texts were made with gzip 1.12 and zstd 1.5.4. */
#include "base/hash.h"
#include "serve/rollout_media.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* printf 'hello hello hello' | gzip -n; | zstd */
#define GZIP_HELLO "1f8b0800000000000003cb48cdc9c957c84090008088f9e511000000"
#define ZSTD_HELLO "28b52ffd04586500003068656c6c6f200100314a11a2ed1e0c"

static lk_buf bytes_of(const char *hex)
{
    lk_buf bytes = {0};
    size_t size = strlen(hex) / 2;
    lk_buf_append_zeros(&bytes, size);
    assert_true(lk_unhex(lk_bytes_of(hex), bytes.data, size));
    return bytes;
}

static lk_rc decode(lk_bytes coded, lk_rollout_coding coding, uint64_t max, lk_buf *out)
{
    lk_err err = {0};
    lk_buf_clear(out);
    return lk_rollout_body_decode(coded, coding, max, out, &err);
}

static void what_others_coded_is_decoded(void **state)
{
    static const struct {
        const char       *hex;
        lk_rollout_coding coding;
    } cases[] = {{GZIP_HELLO, LK_ROLLOUT_GZIP}, {ZSTD_HELLO, LK_ROLLOUT_ZSTD}};
    for (size_t i = 0; i < 2; i++) {
        lk_buf coded = bytes_of(cases[i].hex), out = {0};
        assert_int_equal(decode(lk_buf_view(&coded), cases[i].coding, 17, &out), LK_OK);
        assert_string_equal(out.data, "hello hello hello");
        assert_int_equal(decode(lk_buf_view(&coded), cases[i].coding, 16, &out), LK_E_TOO_LARGE);
        for (size_t cut = 0; cut < coded.size; cut++) {
            lk_bytes part = {coded.data, cut};
            assert_int_equal(decode(part, cases[i].coding, 100, &out), LK_E_INVALID_REQUEST);
        }
        lk_buf twice = {0}; /* both formats let members follow each other */
        lk_buf_append_bytes(&twice, lk_buf_view(&coded));
        lk_buf_append_bytes(&twice, lk_buf_view(&coded));
        assert_int_equal(decode(lk_buf_view(&twice), cases[i].coding, 100, &out), LK_OK);
        assert_int_equal(out.size, 34);
        lk_buf_append_text(&coded, "garbage");
        assert_int_equal(decode(lk_buf_view(&coded), cases[i].coding, 100, &out), LK_E_INVALID_REQUEST);
        lk_buf_deinit(&coded);
        lk_buf_deinit(&twice);
        lk_buf_deinit(&out);
    }
}

static lk_buf code_zeros(lk_rollout_coding coding, size_t count)
{
    static char         block[1024 * 1024];
    lk_buf              coded = {0};
    lk_rollout_encoder *encoder = lk_rollout_encoder_new(coding);
    for (size_t i = 0; i < count; i++) {
        lk_rollout_encode(encoder, (lk_bytes){block, sizeof block}, i + 1 == count, &coded);
    }
    lk_rollout_encoder_free(encoder);
    return coded;
}

static size_t peak_kib(void)
{
    char   line[128];
    size_t peak = 0;
    FILE  *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            peak = strtoull(line + 6, NULL, 10);
        }
    }
    fclose(file);
    return peak;
}

static void a_bomb_is_refused_without_being_held(void **state)
{
    for (lk_rollout_coding coding = LK_ROLLOUT_GZIP; coding <= LK_ROLLOUT_ZSTD; coding++) {
        lk_buf bomb = code_zeros(coding, 300), out = {0};
        size_t before = peak_kib();
        assert_true(bomb.size < 2 * 1024 * 1024);
        assert_int_equal(decode(lk_buf_view(&bomb), coding, 256 * 1024 * 1024, &out), LK_E_TOO_LARGE);
        assert_true(peak_kib() - before < 64 * 1024);
        lk_buf_deinit(&bomb);
        lk_buf_deinit(&out);
    }
}

static void what_expands_a_lot_but_within_the_limit_is_taken(void **state)
{
    lk_buf coded = code_zeros(LK_ROLLOUT_ZSTD, 40), out = {0};
    lk_buf_append_text(&out, "before");
    lk_err err = {0};
    assert_int_equal(
        lk_rollout_body_decode(lk_buf_view(&coded), LK_ROLLOUT_ZSTD, 64 * 1024 * 1024, &out, &err), LK_OK);
    assert_int_equal(out.size, 6 + 40 * 1024 * 1024);
    assert_memory_equal(out.data, "before\0\0", 8);
    lk_buf_deinit(&coded);
    lk_buf_deinit(&out);
}

/* -- fields ------------------------------------------------------------------------------------------------------------ */

static lk_http_head head_of(const char *name, const char *value)
{
    static lk_http_field field;
    field = (lk_http_field){lk_bytes_of(name), lk_bytes_of(value)};
    return (lk_http_head){.fields = &field, .field_count = 1};
}

static void answers_take_the_form_that_is_liked_best(void **state)
{
    static const struct {
        const char       *accept;
        lk_rollout_format format;
    } cases[] = {{"*/*", LK_ROLLOUT_AS_JSON}, {"text/html, application/json;q=0.9", LK_ROLLOUT_AS_JSON},
        {"application/x-ndjson", LK_ROLLOUT_AS_NDJSON},
        {"application/json;q=0.5, application/vnd.apache.arrow.stream", LK_ROLLOUT_AS_ARROW},
        {"application/x-ndjson;q=0, application/json", LK_ROLLOUT_AS_JSON},
        {"Application/VND.apache.parquet ; q=0.001", LK_ROLLOUT_AS_PARQUET}, {"", LK_ROLLOUT_AS_JSON}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_http_head head = head_of("accept", cases[i].accept);
        assert_int_equal(lk_rollout_format_of(&head), cases[i].format);
    }
    lk_http_head gzip = head_of("accept-encoding", "gzip, deflate");
    assert_int_equal(lk_rollout_answer_coding(&gzip), LK_ROLLOUT_GZIP);
    lk_http_head none = head_of("accept-encoding", "gzip;q=0.0, br, zstd;q=0.000");
    assert_int_equal(lk_rollout_answer_coding(&none), LK_ROLLOUT_IDENTITY);
}

static void only_known_bodies_are_taken(void **state)
{
    lk_err               err = {0};
    lk_rollout_body_type type;
    lk_rollout_coding    coding;
    lk_http_head         json = head_of("content-type", "application/json; charset=utf-8");
    assert_int_equal(lk_rollout_body_type_of(&json, &type, &err), LK_OK);
    assert_int_equal(type, LK_ROLLOUT_BODY_JSON);
    lk_http_head csv = head_of("content-type", "text/csv");
    assert_int_equal(lk_rollout_body_type_of(&csv, &type, &err), LK_E_UNSUPPORTED_MEDIA);
    lk_http_head zstd = head_of("content-encoding", "ZSTD");
    assert_int_equal(lk_rollout_body_coding_of(&zstd, &coding, &err), LK_OK);
    assert_int_equal(coding, LK_ROLLOUT_ZSTD);
    lk_http_head two = head_of("content-encoding", "gzip, zstd");
    assert_int_equal(lk_rollout_body_coding_of(&two, &coding, &err), LK_E_UNSUPPORTED_MEDIA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_others_coded_is_decoded),
        cmocka_unit_test(a_bomb_is_refused_without_being_held),
        cmocka_unit_test(what_expands_a_lot_but_within_the_limit_is_taken),
        cmocka_unit_test(answers_take_the_form_that_is_liked_best),
        cmocka_unit_test(only_known_bodies_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
