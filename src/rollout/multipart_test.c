/* multipart_test.c - bodies as Python's requests and Rust's reqwest write them, and what is none. */
#include "rollout/multipart.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* name=content; for every part, or what was wrong. */
static void read_all(const char *body, size_t size, const char *boundary, lk_buf *out)
{
    lk_arena     arena = {0};
    lk_err       err = {0};
    lk_multipart m;
    lk_part      part;
    bool         found = true;
    lk_buf_clear(out);
    lk_rc rc = lk_multipart_open((lk_bytes){body, size}, lk_bytes_of(boundary), &arena, &m, &err);
    while (rc == LK_OK && found) {
        rc = lk_multipart_next(&m, &arena, &part, &found, &err);
        if (rc == LK_OK && found) {
            lk_buf_format(out, "%.*s=", LK_FMT(part.name));
            lk_buf_append_bytes(out, part.content);
            lk_buf_append_text(out, ";");
        }
    }
    if (rc != LK_OK) {
        assert_int_equal(rc, LK_E_INVALID_REQUEST);
        lk_buf_format(out, "!%s", err.detail);
    }
    lk_arena_close(&arena);
}

static void gives(const char *body, const char *expected)
{
    lk_buf out = {0};
    read_all(body, strlen(body), "XX", &out);
    assert_string_equal(out.size == 0 ? "" : out.data, expected);
    lk_buf_deinit(&out);
}

static void parts_come_one_after_another(void **state)
{
    gives(
        "--XX\r\nContent-Disposition: form-data; name=\"metadata\"\r\nContent-Type: application/json\r\n\r\n"
        "{\"records\":[]}\r\n--XX\r\ncontent-disposition: form-data; filename=\"a;name=b\"; "
        "name=0\r\n\r\n\r\n--X\r\n-"
        "-XY\r\n--XX\r\nContent-Disposition: form-data; name=\"a\\\"b\"\r\n\r\n\r\n--XX--\r\nepilogue",
        "metadata={\"records\":[]};0=\r\n--X\r\n--XY;a\"b=;");
    gives("\r\n--XX \r\nContent-Disposition: form-data; name=x\r\n\r\ny\r\n--XX--", "x=y;");
    gives("--XX--", "");
}

static void what_is_no_body_of_parts_is_refused(void **state)
{
    gives("", "!multipart: the body does not begin with the boundary");
    gives("--XY\r\n", "!multipart: the body does not begin with the boundary");
    gives("--XXY\r\n", "!multipart: a boundary's line has no end");
    gives("--XX\r\n", "!multipart: the head of a part has no end");
    gives("--XX\r\nContent-Type: a\r\n\r\ny\r\n--XX--", "!multipart: a part has no name");
    gives("--XX\r\nContent-Disposition: form-data; name=\"x\r\n\r\ny\r\n--XX--",
        "!multipart: a part has no name");
    gives("--XX\r\nContent-Disposition: form-data; name=x\r\n\r\ny\r\n--X",
        "!multipart: a part has no end: the last boundary is missing");
    gives("--XX\r\nContent-Disposition: form-data; name=x\r\n\r\ny\r\n--XX",
        "x=y;!multipart: a boundary's line has no end");
}

static void content_is_any_bytes(void **state)
{
    static const char body[] =
        "--XX\r\nContent-Disposition: form-data; name=\"0\"\r\n\r\n\0\xff\r\n\0\r\n--XX--\r\n";
    lk_buf out = {0};
    read_all(body, sizeof body - 1, "XX", &out);
    assert_int_equal(out.size, 2 + 5 + 1);
    assert_memory_equal(out.data, "0=\0\xff\r\n\0;", 8);
    lk_buf_deinit(&out);
}

static void the_boundary_is_in_the_content_type(void **state)
{
    static const char *const known[][2] = {
        {"multipart/form-data; boundary=abc", "abc"},
        {"Multipart/Form-Data;charset=utf-8 ; x ;boundary=\"a b:c\"", "a b:c"},
        {"multipart/form-data; boundary=abc; charset=x", "abc"},
        {"multipart/form-data", NULL},
        {"multipart/form-data; boundary=", NULL},
        {"multipart/form-data; boundary=\"abc", NULL},
        {"multipart/mixed; boundary=abc", NULL},
        {"application/json", NULL},
        {"multipart/form-data; "
         "boundary=1234567890123456789012345678901234567890123456789012345678901234567890x",
            NULL},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        lk_bytes boundary;
        bool     found = lk_multipart_boundary(lk_bytes_of(known[i][0]), &boundary);
        assert_int_equal(found, known[i][1] != NULL);
        assert_true(!found || lk_bytes_equal(boundary, lk_bytes_of(known[i][1])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_come_one_after_another),
        cmocka_unit_test(what_is_no_body_of_parts_is_refused),
        cmocka_unit_test(content_is_any_bytes),
        cmocka_unit_test(the_boundary_is_in_the_content_type),
    };
    return cmocka_run_group_tests_name("multipart", tests, NULL, NULL);
}
