/*
 * fuzz_lance_index.c - the files of an index, searched and checked; and by themselves what lies in them: a set of rows,
 * a bitmap, an index section's message.
 *
 *   u32 size, a file of this size (page_lookup.lance), another file (whichever the kind has)
 */
#include "lance/change.h"
#include "lance/index_search.h"
#include "lance/roaring_read.h"
#include "lance/row_tree.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS = 60 };

/* The input as the objects of a store. */
typedef struct object {
    lk_store_reader reader;
    const uint8_t  *data;
    size_t          size;
} object;

typedef struct objects {
    lk_store store;
    object   lookup, other;
} objects;

static lk_rc object_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    objects *self = (objects *)store;
    lk_bytes name = LK_LITERAL("page_lookup.lance");
    bool     is_lookup = key.size > name.size &&
                     lk_bytes_equal((lk_bytes){key.data + key.size - name.size, name.size}, name) &&
                     key.data[key.size - name.size - 1] == '/';
    if (memchr(key.data, '/', key.size) == NULL || key.data[0] != '_') {
        return lk_fail(err, LK_E_NOT_FOUND, "the table has no rows");
    }
    object *found = is_lookup ? &self->lookup : &self->other;
    *out = &found->reader;
    *size = found->size;
    return LK_OK;
}

static lk_rc object_read(lk_store_reader *reader, const lk_store_range *ranges, size_t count, lk_err *err)
{
    const object *self = (const object *)reader;
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].offset > self->size || ranges[i].size > self->size - ranges[i].offset) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "past the end");
        }
        memcpy(ranges[i].out, self->data + ranges[i].offset, ranges[i].size);
    }
    return LK_OK;
}

static void object_close(lk_store_reader *reader)
{
    (void)reader;
}

static const struct lk_store_ops ops = {
    .open = object_open, .read = object_read, .reader_close = object_close};

/* A table of two fragments with one column, whose rows nobody reads. */
static lk_dataset *make_table(const lk_lance_env *env)
{
    struct ArrowSchema  field = {.format = "l", .name = "a", .flags = ARROW_FLAG_NULLABLE};
    struct ArrowSchema *fields[] = {&field};
    struct ArrowSchema  arrow = {.format = "+s", .name = "", .n_children = 1, .children = fields};
    lk_lance_schema    *schema = NULL;
    lk_manifest        *manifest = NULL;
    lk_buf              body = {0}, image = {0};
    lk_err              err = {0};
    lk_fragment         fragments[] = {{.physical_rows = ROWS}, {.id = 1, .physical_rows = ROWS}};
    lk_pb_new_version   version = {.version = 1, .timestamp_ms = 1};
    LK_ASSERT(lk_lance_schema_from_arrow(&arrow, &schema, &err) == LK_OK);
    lk_pb_manifest_create(schema, 1, &version, &body);
    version.fragments = fragments;
    version.fragment_count = 2;
    LK_ASSERT(lk_change_object(lk_buf_view(&body), &version, &image, &err) == LK_OK);
    LK_ASSERT(
        lk_manifest_parse(lk_buf_view(&image), LK_LITERAL("_versions/1.manifest"), &manifest, &err) == LK_OK);
    lk_lance_schema_close(schema);
    lk_buf_deinit(&body);
    lk_buf_deinit(&image);
    return lk_dataset_new(env, manifest, NULL);
}

static void search(lk_dataset *dataset, const lk_index *index, const lk_predicate *predicate)
{
    lk_arena        arena = {0};
    lk_err          err = {0};
    lk_index_search search = {.dataset = dataset,
        .numbers = lk_fragment_numbers(dataset->manifest, &arena),
        .pool = lk_buffer_pool_new(dataset->env.budget),
        .rows_max = ROWS,
        .field = lk_dataset_schema(dataset)->children[0],
        .predicate = predicate,
        .answer = lk_index_answer_new(dataset->manifest->fragment_count)};
    lk_rc           rc = index->kind == LK_INDEX_BTREE    ? lk_index_btree_search(&search, index, &err)
                         : index->kind == LK_INDEX_BITMAP ? lk_index_bitmap_search(&search, index, &err)
                                                          : lk_index_zonemap_search(&search, index, &err);
    LK_ASSERT(rc != LK_OK || lk_index_answer_count(search.answer) <= (uint64_t)2 * ROWS);
    lk_index_answer_free(search.answer);
    lk_buffer_pool_close(search.pool);
    lk_arena_close(&arena);
}

static void search_all(const lk_lance_env *env)
{
    const lk_value     five = {.kind = LK_VALUE_I64, .as.i64 = 5};
    const lk_predicate predicates[] = {
        {.kind = LK_PREDICATE_COMPARE, .compare = LK_EQ, .values = &five, .value_count = 1},
        {.kind = LK_PREDICATE_COMPARE, .compare = LK_GE, .values = &five, .value_count = 1},
        {.kind = LK_PREDICATE_IS_NULL},
    };
    for (int kind = LK_INDEX_BTREE; kind <= LK_INDEX_ZONEMAP; kind++) {
        lk_dataset     *dataset = make_table(env);
        int32_t         field = 0;
        bool            covers[] = {true, kind != LK_INDEX_BTREE};
        lk_index_damage damage;
        lk_err          err = {0};
        const lk_index  index = {.kind = (lk_index_kind)kind,
             .name = LK_LITERAL("fuzz"),
             .fields = &field,
             .field_count = 1,
             .covers = covers,
             .covered_count = 1};
        for (size_t i = 0; i < sizeof predicates / sizeof predicates[0]; i++) {
            search(dataset, &index, &predicates[i]);
        }
        if (lk_index_verify(dataset, &index, NULL, &damage, &err) == LK_OK) {
            LK_ASSERT(damage.name.size == 4);
        }
        lk_dataset_unref(dataset);
    }
}

static lk_rc count_rows(void *context, uint64_t first, uint64_t count, lk_err *err)
{
    (void)first;
    (void)err;
    *(uint64_t *)context += count;
    return LK_OK;
}

static lk_rc count_values(void *context, uint32_t first, uint32_t count, lk_err *err)
{
    return count_rows(context, first, count, err);
}

static void parse(lk_bytes bytes)
{
    lk_arena arena = {0};
    lk_index index;
    lk_bytes bitmap = {0};
    uint32_t base = 0;
    bool     has_base = false;
    uint64_t count = 0;
    lk_err   first = {0}, second = {0};
    lk_rc    rc = lk_row_tree_read(bytes, count_rows, &count, &first);
    LK_ASSERT(rc != LK_OK || bytes.size >= 4);
    rc = lk_roaring_read(bytes, count_values, &count, &second);
    LK_ASSERT(rc != LK_OK || bytes.size >= 4);
    if (lk_index_parse(bytes, &arena, &index, &bitmap, &base, &has_base)) {
        LK_ASSERT(index.field_count <= bytes.size && index.file_count <= bytes.size);
    }
    lk_arena_close(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    objects   self = {.store = {&ops, {"fuzz", 4}}};
    lk_budget budget;
    parse((lk_bytes){(const char *)data, size});
    if (size < 4) {
        return 0;
    }
    size_t split = lk_load_u32(data) < size - 4 ? lk_load_u32(data) : size - 4;
    self.lookup = (object){{&self.store}, data + 4, split};
    self.other = (object){{&self.store}, data + 4 + split, size - 4 - split};
    lk_budget_init(&budget, "fuzz", 256 << 20, NULL);
    lk_lance_env env = {
        .store = &self.store, .clock = lk_clock_real(), .random = lk_random_os(), .budget = &budget};
    search_all(&env);
    LK_ASSERT(budget.used_bytes == 0);
    return 0;
}
