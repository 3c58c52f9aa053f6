/* rollout_input_test.c - ids that records get before they are sent, and how a file becomes groups. */
#include "cli/rollout_input.h"

#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char fresh_text[] = "00000000-0000-7000-8000-000000000001";

static bool mint(const char *object, lk_buf *out, lk_bytes *id)
{
    lk_uuid fresh = {.bytes = {[6] = 0x70, [8] = 0x80, [15] = 1}};
    *id = (lk_bytes){0};
    lk_buf_clear(out);
    bool ok = lk_rollout_mint(lk_bytes_of(object), fresh, out, id);
    lk_buf_append(out, "", 1);
    out->size--;
    return ok;
}

static void an_object_without_an_id_gets_one_and_stays_the_same_otherwise(void **state)
{
    static const char *const cases[][2] = {
        {"{\"rollout_id\":\"r\"}", "{\"id\":\"%s\",\"rollout_id\":\"r\"}"},
        {"  { \"a\" : {\"id\":1} }", "{\"id\":\"%s\",\"a\" : {\"id\":1} }"},
        {"{}", "{\"id\":\"%s\"}"},
        {"{ }", "{\"id\":\"%s\"}"},
        {"{\"a\":\"\\\"id\\\":1\",\"b\":[\"id\",{\"id\":2}]}",
            "{\"id\":\"%s\",\"a\":\"\\\"id\\\":1\",\"b\":[\"id\",{\"id\":2}]}"},
        {"{\"idx\":1,\"xid\":2}", "{\"id\":\"%s\",\"idx\":1,\"xid\":2}"},
    };
    lk_buf out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char        expected[256];
        lk_bytes    id;
        const char *hole = strstr(cases[i][1], "%s");
        (void)snprintf(expected, sizeof expected, "%.*s%s%s", (int)(hole - cases[i][1]), cases[i][1],
            fresh_text, hole + 2);
        assert_true(mint(cases[i][0], &out, &id));
        assert_string_equal(out.data, expected);
        assert_int_equal(id.size, 0);
    }
    lk_buf_deinit(&out);
}

static void an_id_that_is_there_is_found_wherever_it_stands(void **state)
{
    static const char *const cases[][2] = {
        {"{\"id\":\"x\"}", "\"x\""}, {"{\"a\":[1,{\"id\":3}],\"id\" : \"x y\" , \"b\":2}", "\"x y\""},
        {"{\"a\":\"}\",\"id\":\"q\\\"uo}te\"}", "\"q\\\"uo}te\""},
        {"{\"a\":1 , \"b\" : {} ,\n\"id\":\"y\"}", "\"y\""},
        {"{\"id\":17,\"a\":1}", "17"}, /* the store says that it is no text */
    };
    lk_buf out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lk_bytes id;
        assert_true(mint(cases[i][0], &out, &id));
        assert_string_equal(out.data, cases[i][0]);
        assert_true(lk_bytes_equal(id, lk_bytes_of(cases[i][1])));
    }
    lk_buf_deinit(&out);
}

static void what_is_cut_or_wrong_is_passed_on_or_refused_and_never_overrun(void **state)
{
    static const char text[] = "{\"a\":\"x\\\\\\\"y\",\"id\":\"z\\\\\",\"b\":[{\"c\":\"]\"}]}";
    lk_buf            out = {0};
    lk_bytes          id;
    for (size_t size = 0; size < sizeof text; size++) {
        char *cut = malloc(size + 1); /* of its exact size, for the sanitizers */
        assert_non_null(cut);
        memcpy(cut, text, size);
        lk_buf_clear(&out);
        id = (lk_bytes){0};
        bool ok = lk_rollout_mint((lk_bytes){cut, size}, (lk_uuid){0}, &out, &id);
        assert_int_equal(ok, size > 0);
        free(cut);
    }
    assert_false(mint("[1]", &out, &id));
    assert_false(mint("7", &out, &id));
    assert_false(mint("", &out, &id));
    lk_buf_deinit(&out);
}

/* -- groups ---------------------------------------------------------------------------------------------------------- */
static void write_file(char *path, const char *text)
{
    lk_err err = {0};
    int    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(lk_file_write_all(fd, path, lk_bytes_of(text), &err), LK_OK);
    assert_int_equal(close(fd), 0);
}

static size_t groups_of(const char *text, const char *kind, uint64_t rows, uint64_t bytes, size_t *counts)
{
    char                           path[] = "/tmp/lake-input-XXXXXX";
    lk_err                         err = {0};
    lk_rollout_input              *input = NULL;
    const lk_rollout_input_options options = {.path = path,
        .kind = kind,
        .rows_max = rows,
        .bytes_max = bytes,
        .random = lk_random_os(),
        .clock = lk_clock_real()};
    size_t                         groups = 0;
    write_file(path, text);
    assert_int_equal(lk_rollout_input_open(&options, &input, &err), LK_OK);
    for (bool more = true; more;) {
        lk_rollout_group_in group;
        assert_int_equal(lk_rollout_input_next(input, &group, &err), LK_OK);
        more = group.count > 0;
        if (more) {
            counts[groups++] = group.count;
            assert_true(lk_bytes_starts(lk_buf_view(&group.json), LK_LITERAL("{\"records\":[{")));
        }
        lk_rollout_group_in_deinit(&group);
    }
    lk_rollout_input_close(input);
    assert_int_equal(unlink(path), 0);
    return groups;
}

static void lines_and_elements_fill_groups_up_to_their_bounds(void **state)
{
    static const char lines[] =
        "{\"id\":\"1\"}\n\n{\"id\":\"2\"}\r\n  \n{\"id\":\"3\"}\n{\"id\":\"4\"}\n{\"id\":\"5\"}";
    static const char array[] =
        "[{\"id\":\"1\"},{\"id\":\"2\"},{\"id\":\"3\"}, {\"id\":\"4\"},{\"id\":\"5\"}]";
    size_t counts[8];
    for (int as_array = 0; as_array < 2; as_array++) {
        const char *text = as_array ? array : lines, *kind = as_array ? "json" : "ndjson";
        assert_int_equal(groups_of(text, kind, 2, 1000, counts), 3);
        assert_int_equal(counts[0] + counts[1] + counts[2], 5);
        assert_int_equal(counts[2], 1);
        assert_int_equal(groups_of(text, kind, 100, 1000, counts), 1);
        assert_int_equal(counts[0], 5);
        assert_int_equal(groups_of(text, kind, 100, 1, counts), 5); /* each too large: a group of its own */
    }
    assert_int_equal(groups_of("{\"records\":[{\"id\":\"1\"}]}", "json", 9, 99, counts), 1);
    assert_int_equal(groups_of("{\"id\":\"1\",\"rollout_id\":\"r\"}", "json", 9, 99, counts), 1);
    assert_int_equal(groups_of("", "ndjson", 9, 99, counts), 0);
    assert_int_equal(groups_of("", "json", 9, 99, counts), 0);
    assert_int_equal(groups_of(" [ ] ", "json", 9, 99, counts), 0);
    assert_int_equal(groups_of("{\"records\" : [ ] }", "json", 9, 99, counts), 0);
    assert_int_equal(
        groups_of("{\"x\":{\"records\":[1]},\"records\":[{},{\"a\":\"]},\"}]}", "json", 9, 99, counts), 1);
    assert_int_equal(counts[0], 2);
}

static void what_is_no_list_of_objects_is_told(void **state)
{
    static const char *const cases[] = {
        "[{\"id\":\"1\"} {\"id\":\"2\"}]", "[{},{}", "[{},]", "[{}]x", "{} {}", "[1]", "7", "[{}}]", "["};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char                           path[] = "/tmp/lake-input-XXXXXX";
        lk_err                         err = {0};
        lk_rollout_input              *input = NULL;
        lk_rollout_group_in            group;
        const lk_rollout_input_options options = {.path = path,
            .kind = "json",
            .rows_max = 10,
            .bytes_max = 1000,
            .random = lk_random_os(),
            .clock = lk_clock_real()};
        write_file(path, cases[i]);
        assert_int_equal(lk_rollout_input_open(&options, &input, &err), LK_OK);
        if (lk_rollout_input_next(input, &group, &err) != LK_E_INVALID_REQUEST) {
            fail_msg("%s was taken", cases[i]);
        }
        lk_rollout_group_in_deinit(&group);
        lk_rollout_input_close(input);
        assert_int_equal(unlink(path), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_without_an_id_gets_one_and_stays_the_same_otherwise),
        cmocka_unit_test(an_id_that_is_there_is_found_wherever_it_stands),
        cmocka_unit_test(what_is_cut_or_wrong_is_passed_on_or_refused_and_never_overrun),
        cmocka_unit_test(what_is_no_list_of_objects_is_told),
        cmocka_unit_test(lines_and_elements_fill_groups_up_to_their_bounds),
    };
    return cmocka_run_group_tests_name("rollout_input", tests, NULL, NULL);
}
