/* decode_lists_test.c - members of structs in lists that a file knows nothing of, beside some that it has. (Everything else
 * of lists is tests/interop's subject.) */
#include "lance/file_fixture.h"

#include "arrow/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void release_nothing(struct ArrowSchema *schema)
{
    schema->release = NULL;
}

static struct ArrowSchema field(
    const char *name, const char *format, struct ArrowSchema **children, int64_t count)
{
    return (struct ArrowSchema){.name = name,
        .format = format,
        .flags = ARROW_FLAG_NULLABLE,
        .n_children = count,
        .children = children,
        .release = release_nothing};
}

/* Rows [{1}, {2}], [{3}] of a list of structs with one member. */
static void write_rows(fixture_memory *store, struct ArrowSchema *list)
{
    static const int32_t offsets[] = {0, 2, 3}, numbers[] = {1, 2, 3};
    lk_lance_schema     *lance = NULL;
    lk_file_writer      *writer = NULL;
    lk_file_written      written;
    lk_arena             arena = {0};
    lk_err               err = {0};
    const void          *none[] = {NULL, NULL}, *places[] = {NULL, offsets}, *values[] = {NULL, numbers};
    struct ArrowArray    z = {.length = 3, .n_buffers = 2, .buffers = values}, *members[] = {&z};
    struct ArrowArray    item = {
           .length = 3, .n_buffers = 1, .buffers = none, .n_children = 1, .children = members};
    struct ArrowArray *items[] = {&item};
    struct ArrowArray  l = {
         .length = 2, .n_buffers = 2, .buffers = places, .n_children = 1, .children = items};
    struct ArrowArray *columns[] = {&l};
    struct ArrowArray  batch = {
         .length = 2, .n_buffers = 1, .buffers = none, .n_children = 1, .children = columns};
    struct ArrowSchema *fields[] = {list}, top = field("", "+s", fields, 1);
    assert_int_equal(lk_lance_schema_from_arrow(&top, &lance, &err), LK_OK);
    assert_int_equal(
        lk_file_writer_open(&store->base, LK_LITERAL("file"), lance, 1, NULL, &writer, &err), LK_OK);
    assert_int_equal(lk_file_writer_write(writer, &batch, &err), LK_OK);
    assert_int_equal(lk_file_writer_finish(writer, &arena, &written, &err), LK_OK);
    lk_arena_close(&arena);
    lk_lance_schema_close(lance);
}

static void a_list_keeps_its_offsets_behind_a_member_that_is_a_wider_one(void **state)
{
    (void)state;
    static const int32_t offsets[] = {0, 2, 3}, numbers[] = {1, 2, 3};
    struct ArrowSchema   z = field("z", "i", NULL, 0), *one[] = {&z}, item = field("item", "+s", one, 1);
    struct ArrowSchema  *in[] = {&item}, list = field("l", "+l", in, 1);
    struct ArrowSchema   n = field("item", "i", NULL, 0), *numbers_of[] = {&n},
                       y = field("y", "+L", numbers_of, 1);
    struct ArrowSchema *two[] = {&y, &z}, wider = field("item", "+s", two, 2), *wide[] = {&wider};
    struct ArrowSchema  asked = field("l", "+l", wide, 1);
    fixture_memory      store;
    lk_file_reader     *file = NULL;
    lk_err              err = {0};
    struct ArrowArray   out = {0};
    fixture_memory_init(&store);
    write_rows(&store, &list);
    lk_buffer_pool *pool = lk_buffer_pool_new(NULL);
    assert_int_equal(lk_file_reader_open(&store.base, LK_LITERAL("file"), 0, NULL, &file, &err), LK_OK);
    lk_field_source absent = {.field = &n};
    lk_field_source members[] = {
        {.field = &y, .children = &absent, .child_count = 1}, {.field = &z, .file = file}};
    lk_field_source    structs = {.field = &wider, .children = members, .child_count = 2};
    lk_field_source    source = {.field = &asked, .children = &structs, .child_count = 1};
    const lk_row_range all = {0, 2};
    assert_int_equal(lk_file_decode(&source, &all, 1, pool, &out, &err), LK_OK);
    assert_memory_equal(out.buffers[1], offsets, sizeof offsets);
    assert_int_equal(out.children[0]->children[0]->null_count, 3);
    assert_memory_equal(out.children[0]->children[1]->buffers[1], numbers, sizeof numbers);
    lk_array_release(&out);
    lk_file_reader_unref(file);
    lk_buffer_pool_close(pool);
    fixture_memory_deinit(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_keeps_its_offsets_behind_a_member_that_is_a_wider_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
