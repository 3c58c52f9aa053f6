/*
 * fuzz_lance_file.c - a data file: opened, and every column decoded as each of the types that a leaf can have,
 * the right one among them.
 */
#include "lance/file_priv.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROWS_MAX = 20000, COLUMNS_MAX = 48, DEPTH_MAX = 5 };

/* The input as the one object of a store. */
typedef struct object {
    lk_store        store;
    lk_store_reader reader;
    const uint8_t  *data;
    size_t          size;
} object;

static lk_rc object_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    (void)key;
    (void)err;
    object *self = (object *)store;
    self->reader.store = store;
    *out = &self->reader;
    *size = self->size;
    return LK_OK;
}

static lk_rc object_read(lk_store_reader *reader, const lk_store_range *ranges, size_t count, lk_err *err)
{
    const object *self = (const object *)reader->store;
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

static const char *const formats[] = {"c", "s", "i", "l", "d:38,0", "b", "u", "U", "w:300", "n"};

static void fill(struct ArrowSchema *field, lk_file_reader *file, size_t column, lk_field_source *out)
{
    bool leaf = field->n_children == 0 ||
                (strncmp(field->format, "+w", 2) == 0 && field->children[0]->n_children == 0);
    bool v20 = lk_file_is_v20(file), list = strchr("lL", field->format[1]) != NULL;
    *out = (lk_field_source){.field = field, .file = leaf || (v20 && list) ? file : NULL, .column = column};
    if (!leaf) { /* one child each, so the next source is free */
        out->children = out + 1;
        out->child_count = 1;
        fill(field->children[0], file, column + v20, out + 1);
    }
}

static void decode(lk_file_reader *file, size_t column, struct ArrowSchema *field, lk_buffer_pool *pool)
{
    uint64_t           rows = lk_file_reader_rows(file), count = rows < ROWS_MAX ? rows : ROWS_MAX;
    const lk_row_range ranges[] = {{0, count / 3}, {count / 3 + (count > 8), count / 2}};
    const lk_row_range end = {rows - count, count};
    lk_field_source    source[DEPTH_MAX];
    struct ArrowArray  out = {0};
    lk_err             err = {0}, again = {0};
    fill(field, file, column, source);
    if (count > 0 && lk_file_decode(source, ranges, 2, pool, &out, &err) == LK_OK) {
        out.release(&out);
    }
    if (count > 0 && lk_file_decode(source, &end, 1, pool, &out, &again) == LK_OK) {
        out.release(&out);
    }
}

static void decode_column(lk_file_reader *file, size_t column, lk_buffer_pool *pool)
{
    struct ArrowSchema  item = {.format = "f", .name = "item", .flags = ARROW_FLAG_NULLABLE};
    struct ArrowSchema *children[] = {&item};
    struct ArrowSchema  field = {.name = "v", .flags = ARROW_FLAG_NULLABLE};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        field.format = formats[i];
        decode(file, column, &field, pool);
    }
    field.format = "+w:4";
    field.n_children = 1;
    field.children = children;
    decode(file, column, &field, pool);
    item.format = "b";
    decode(file, column, &field, pool);
}

/* The item inside nodes of these formats, outer to inner. */
static void decode_nested(lk_file_reader *file, size_t column, const char *const *nodes, size_t count,
    const char *item, lk_buffer_pool *pool)
{
    struct ArrowSchema  fields[DEPTH_MAX] = {{0}};
    struct ArrowSchema *children[DEPTH_MAX];
    for (size_t i = 0; i <= count; i++) {
        fields[i] = (struct ArrowSchema){
            .format = i < count ? nodes[i] : item, .name = "v", .flags = ARROW_FLAG_NULLABLE};
        children[i] = &fields[i + (i < count)];
        fields[i].n_children = i < count;
        fields[i].children = i < count ? &children[i] : NULL;
    }
    decode(file, column, fields, pool);
}

static void decode_lists(lk_file_reader *file, size_t column, lk_buffer_pool *pool)
{
    static const char *const items[] = {"i", "l", "g", "u", "b"};
    static const char *const nodes[] = {"+s", "+l", "+s", "+L"};
    static const char *const vectors[] = {"+s", "+w:2", "+s"};
    for (size_t item = 0; item < sizeof items / sizeof items[0]; item++) {
        decode_nested(file, column, nodes + 1, 1, items[item], pool);
        decode_nested(file, column, nodes, 1, items[item], pool);
        decode_nested(file, column, nodes, 2, items[item], pool);
        decode_nested(file, column, nodes + 1, 3, items[item], pool);
        decode_nested(file, column, nodes + 1, 2, items[item], pool);
        decode_nested(file, column, vectors, 3, items[item], pool);
        decode_nested(file, column, vectors + 1, 2, items[item], pool);
    }
}

static void decode_shape(lk_file_reader *file, size_t column, struct ArrowSchema *field, lk_column_kind kind,
    bool in_list, lk_buffer_pool *pool)
{
    uint64_t            rows = lk_file_reader_rows(file), count = rows < ROWS_MAX ? rows : ROWS_MAX;
    const lk_row_range  range = {rows - count, count};
    struct ArrowSchema *items[] = {field};
    struct ArrowSchema  list = {.format = "+l", .name = "v", .n_children = 1, .children = items};
    lk_field_source     source[2] = {{.field = &list, .children = source + 1, .child_count = 1},
            {.field = field, .kind = kind, .file = file, .column = column}};
    struct ArrowArray   out = {0};
    lk_err              err = {0};
    source[1].is_dictionary = field->dictionary != NULL;
    if (count > 0 && lk_file_decode(&source[!in_list], &range, 1, pool, &out, &err) == LK_OK) {
        out.release(&out);
    }
}

/* What is one column and yet more than values. */
static void decode_shapes(lk_file_reader *file, size_t column, lk_buffer_pool *pool)
{
    struct ArrowSchema  number = {.format = "i", .name = "a"}, wide = {.format = "g", .name = "b"};
    struct ArrowSchema  text = {.format = "u", .name = "data", .flags = ARROW_FLAG_NULLABLE};
    struct ArrowSchema  words = {.format = "l", .name = ""}, bits = {.format = "b", .name = ""};
    struct ArrowSchema  bytes = {.format = "Z", .name = "data", .flags = ARROW_FLAG_NULLABLE};
    struct ArrowSchema  inner = {.format = "+s", .name = "c", .n_children = 1};
    struct ArrowSchema *fixed[] = {&number, &wide}, *varied[] = {&number, &text, &inner}, *texts[] = {&text};
    struct ArrowSchema *stored[] = {&bytes, &text}, *described[] = {&number, &words};
    struct ArrowSchema *longer[] = {&number, &words, &words, &number, &text};
    inner.children = texts;
    struct ArrowSchema shapes[] = {{.format = "+s", .name = "v", .n_children = 2, .children = fixed},
        {.format = "+s", .name = "v", .n_children = 3, .children = varied}, {.format = "Z", .name = "v"},
        {.format = "+s", .name = "v", .n_children = 2, .children = described},
        {.format = "+s", .name = "v", .n_children = 5, .children = longer},
        {.format = "+s", .name = "v", .n_children = 2, .children = stored},
        {.format = "s", .name = "v", .dictionary = &text}, {.format = "i", .name = "v", .dictionary = &words},
        {.format = "c", .name = "v", .dictionary = &bits}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        lk_column_kind kind = i < 2 ? LK_COLUMN_PACKED : i < 6 ? LK_COLUMN_BLOB : LK_COLUMN_PLAIN;
        decode_shape(file, column, &shapes[i], kind, false, pool);
        if (!lk_file_is_v20(file)) {
            decode_shape(file, column, &shapes[i], kind, true, pool);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    object          self = {.store = {&ops, {"fuzz", 4}}, .data = data, .size = size};
    lk_budget       budget;
    lk_file_reader *file = NULL;
    lk_err          err = {0};
    lk_budget_init(&budget, "fuzz", 256 << 20, NULL);
    if (lk_file_reader_open(&self.store, LK_LITERAL("fuzz"), 0, &budget, &file, &err) != LK_OK) {
        return 0;
    }
    lk_buffer_pool *pool = lk_buffer_pool_new(&budget);
    size_t          columns = lk_file_reader_column_count(file);
    for (size_t column = 0; column < columns && column < COLUMNS_MAX; column++) {
        decode_column(file, column, pool);
        decode_lists(file, column, pool);
        decode_shapes(file, column, pool);
    }
    const lk_stats *stats = lk_file_stats(file);
    for (size_t zone = 0; zone < lk_stats_zone_count(stats) && zone < ROWS_MAX; zone++) {
        lk_column_stats known;
        (void)lk_stats_zone(stats, zone % (columns + 1), zone, &known);
    }
    lk_buffer_pool_close(pool);
    lk_file_reader_unref(file);
    LK_ASSERT(budget.used_bytes == 0);
    return 0;
}
