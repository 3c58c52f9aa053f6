/* base_ids_test.c - which ids a base table may have: what any of its versions has is never missed, and few others are named. */
#include "rollout/base_ids.h"

#include "rollout/store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* "a+ b-": whether each may be there. */
static void expect(lk_base_ids *known, const char *expected)
{
    lk_err      err = {0};
    lk_dataset *newest = NULL;
    lk_buf      said = {0};
    lk_bytes    ids[8];
    bool        maybe[8];
    size_t      count = 0;
    for (const char *at = expected; *at != '\0'; at += 2 + (at[2] == ' ')) {
        ids[count++] = (lk_bytes){at, 1};
    }
    assert_int_equal(lk_dataset_open(&fixture.env, 0, &newest, &err), LK_OK);
    assert_int_equal(lk_base_ids_ask(known, newest, ids, count, NULL, maybe, &err), LK_OK);
    for (size_t i = 0; i < count; i++) {
        lk_buf_format(&said, "%s%c%c", i == 0 ? "" : " ", *ids[i].data, maybe[i] ? '+' : '-');
    }
    assert_string_equal(said.data, expected);
    lk_buf_deinit(&said);
    lk_dataset_unref(newest);
}

static void every_version_adds_what_its_files_have(void **state)
{
    lk_base_ids *known = lk_base_ids_new(NULL);
    expect(known, "a- b- c-");
    fixture_append_to_base("a b");
    expect(known, "a+ b+ c-");
    fixture_append_to_base("c");
    fixture_append_to_base("d");
    expect(known, "a+ b+ c+ d+ e-");
    lk_base_ids *late = lk_base_ids_new(NULL); /* all at once */
    expect(late, "a+ b+ c+ d+ e-");
    lk_base_ids_unref(late);
    lk_base_ids_unref(known);
}

static lk_dataset *tip(void)
{
    lk_err      err = {0};
    lk_dataset *newest = NULL;
    assert_int_equal(lk_dataset_open(&fixture.env, 0, &newest, &err), LK_OK);
    return newest;
}

/* Files whose ids were told are not read: so what they have besides stays unknown. Those of others are. */
static void what_is_learned_is_not_read_again(void **state)
{
    static const lk_bytes told[] = {{"c", 1}};
    lk_base_ids          *known = lk_base_ids_new(NULL);
    fixture_append_to_base("a b");
    lk_dataset *before = tip();
    fixture_append_to_base("c d");
    lk_dataset *after = tip();
    lk_base_ids_learn(known, before, after, told, 1);
    expect(known, "a+ b+ c+ d- e-");
    fixture_append_to_base("e");
    lk_dataset *last = tip();
    lk_base_ids_learn(known, before, last, told, 1); /* which is not the next one */
    expect(known, "a+ b+ c+ d- e+");
    lk_dataset_unref(before);
    lk_dataset_unref(after);
    lk_dataset_unref(last);
    lk_base_ids_unref(known);
}

static void without_room_anything_may_be_there(void **state)
{
    lk_budget budget = {0};
    fixture_append_to_base("a");
    lk_budget_init(&budget, "ids", 100, NULL);
    lk_base_ids *known = lk_base_ids_new(&budget);
    expect(known, "a+ z+");
    lk_base_ids_unref(known);
    assert_int_equal(atomic_load(&budget.used_bytes), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            every_version_adds_what_its_files_have, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(
            what_is_learned_is_not_read_again, fixture_open_store, fixture_close_store),
        cmocka_unit_test_setup_teardown(
            without_room_anything_may_be_there, fixture_open_store, fixture_close_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
