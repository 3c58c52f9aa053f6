/*
 * v20_dictionary.c - see v20_priv.h: pages that hold indices into items of their own. The items are read with the
 * page's rows: there are few of them, and they may be of any type, null among them.
 */
#include "arrow/bits.h"
#include "lance/v20_priv.h"

#include <stdlib.h>
#include <string.h>

typedef struct item {
    lk_bytes bytes; /* as lk_column_put takes them */
    bool     valid;
} item;

/* The items of a page. */
typedef struct dictionary {
    lk_column column; /* whose buffers the items lie in */
    uint8_t  *flags;  /* of booleans: a byte each */
    item     *items;
    uint64_t  count;
    unsigned  width; /* of an index */
} dictionary;

static void close_dictionary(dictionary *self)
{
    lk_column_deinit(&self->column);
    free(self->flags);
    free(self->items);
}

/* -- items ----------------------------------------------------------------------------------------- */
/* More than the page has bits for are not there. */
static lk_rc check_count(const lk_page_rows *rows, const lk_v20_array *array, lk_err *err)
{
    const lk_page_meta *meta = rows->page->meta;
    uint64_t            bits = 1;
    for (size_t buffer = 0; buffer < meta->buffer_count; buffer++) {
        bits += meta->buffers[buffer].size * 8;
    }
    return array->item_count <= bits
               ? LK_OK
               : lk_fail(err, LK_E_CORRUPT_FILE, "a dictionary of %llu items in too few bytes",
                     (unsigned long long)array->item_count);
}

static lk_bytes bytes_of(const dictionary *self, uint64_t row)
{
    const lk_column *column = &self->column;
    uint64_t         ends[2] = {0, 0};
    size_t           width = column->row_bits / 8;
    if (self->flags != NULL) {
        return (lk_bytes){(const char *)self->flags + row, 1};
    }
    if (column->offset_bytes == 0) {
        return (lk_bytes){(const char *)column->values.data + row * width, width};
    }
    for (size_t end = 0; end < 2; end++) {
        memcpy(&ends[end], column->values.data + (row + end) * column->offset_bytes, column->offset_bytes);
    }
    return (lk_bytes){(const char *)column->data.data + ends[0], (size_t)(ends[1] - ends[0])};
}

static void list_items(dictionary *self)
{
    const lk_column *column = &self->column;
    self->count = column->rows;
    self->items = malloc((self->count + 1) * sizeof *self->items);
    LK_ASSERT(self->items != NULL);
    if (column->type.layout == LK_LAYOUT_BITS) {
        self->flags = malloc(self->count + 1);
        LK_ASSERT(self->flags != NULL);
        lk_bits_expand(column->values.data, 0, (int64_t)self->count, self->flags);
    }
    for (uint64_t row = 0; row < self->count; row++) {
        self->items[row] =
            (item){bytes_of(self, row), lk_bit_or_one(column->validity.bits.data, (int64_t)row)};
    }
}

static lk_rc read_items(const lk_page_rows *rows, const lk_v20_array *array, const struct ArrowSchema *field,
    dictionary *out, lk_err *err)
{
    lk_row_range all = {0, array->item_count};
    lk_page_rows whole = *rows;
    whole.ranges = &all;
    whole.range_count = 1;
    whole.column = &out->column;
    lk_rc rc = check_count(rows, array, err);
    if (rc == LK_OK) {
        rc = lk_column_init(&out->column, field, array->item_count, rows->scratch->pool, NULL, 0, err);
    }
    if (rc == LK_OK) {
        rc = lk_v20_leaf(&whole, array->values, err);
    }
    if (rc == LK_OK) {
        list_items(out);
    }
    return rc;
}

/* -- indices --------------------------------------------------------------------------------------- */
/* Reads the items, and the indices into scratch->words. */
static lk_rc open_dictionary(const lk_page_rows *rows, const lk_v20_array *array,
    const struct ArrowSchema *field, dictionary *out, lk_err *err)
{
    lk_scratch         *scratch = rows->scratch;
    const lk_v20_array *indices = array->indices;
    if (array->kind != LK_V20_DICTIONARY) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a page of a dictionary column without a dictionary");
    }
    out->width = (indices->kind == LK_V20_FLAT ? indices->bits : indices->word_bits) / 8;
    if (out->width != 1 && out->width != 2 && out->width != 4 && out->width != 8) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "dictionary indices of an odd width");
    }
    lk_rc rc = read_items(rows, array, field, out, err);
    if (rc == LK_OK) {
        size_t size = (size_t)lk_v20_row_count(rows) * out->width + 8;
        rc = lk_buffer_grow(scratch->pool, &scratch->words, 0, size, err);
    }
    return rc == LK_OK ? lk_v20_words(rows, indices, rows->ranges, rows->range_count, out->width,
                             scratch->words.data, err)
                       : rc;
}

static uint64_t index_at(const lk_page_rows *rows, const dictionary *self, uint64_t row)
{
    uint64_t index = 0;
    memcpy(&index, rows->scratch->words.data + row * self->width, self->width);
    return index;
}

static lk_rc beyond(lk_err *err)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "an index beyond its dictionary");
}

/* -- values ---------------------------------------------------------------------------------------- */
/* The row's item; NULL: null. False: there is none of that index. */
static bool item_of(const dictionary *self, uint64_t index, bool null_first, const item **out)
{
    uint64_t number = index - null_first;
    bool     first = null_first && index == 0;
    *out = first || number >= self->count || !self->items[number].valid ? NULL : &self->items[number];
    return first || number < self->count;
}

/* The size of all texts, which are checked on the way. */
static lk_rc measure(const lk_page_rows *rows, const dictionary *self, uint64_t count, bool null_first,
    uint64_t *size, lk_err *err)
{
    *size = 0;
    for (uint64_t row = 0; row < count; row++) {
        const item *one = NULL;
        if (!item_of(self, index_at(rows, self, row), null_first, &one)) {
            return beyond(err);
        }
        *size += one == NULL ? 0 : one->bytes.size;
    }
    return LK_OK;
}

static void put_text(lk_column *column, uint64_t row, const item *one)
{
    uint8_t *ends = column->values.data + (column->rows + 1) * column->offset_bytes;
    if (one != NULL && one->bytes.size > 0) {
        memcpy(column->data.data + column->data_size, one->bytes.data, one->bytes.size);
        column->data_size += one->bytes.size;
    }
    memcpy(ends + row * column->offset_bytes, &column->data_size, column->offset_bytes);
}

static void put_fixed(lk_column *column, uint64_t row, const item *one)
{
    uint64_t at = column->rows + row;
    size_t   width = column->row_bits / 8;
    if (column->row_bits == 1) {
        bool    value = one != NULL && one->bytes.data[0] != 0;
        uint8_t kept = at % 8 == 0 ? 0 : column->values.data[at / 8];
        column->values.data[at / 8] = (uint8_t)(kept | value << (at % 8));
    } else if (one == NULL) {
        memset(column->values.data + at * width, 0, width);
    } else {
        memcpy(column->values.data + at * width, one->bytes.data, width);
    }
}

static lk_rc put_values(
    const lk_page_rows *rows, const dictionary *self, uint64_t count, bool null_first, lk_err *err)
{
    lk_column  *column = rows->column;
    lk_scratch *scratch = rows->scratch;
    uint64_t    size = 0, nulls = 0;
    lk_rc       rc = measure(rows, self, count, null_first, &size, err);
    if (rc == LK_OK && column->offset_bytes > 0) {
        rc = lk_column_reserve(column, size, err);
    }
    if (rc == LK_OK) {
        rc = lk_buffer_grow(scratch->pool, &scratch->levels, 0, count / 8 + 8, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    memset(scratch->levels.data, 0, count / 8 + 8);
    for (uint64_t row = 0; row < count; row++) {
        const item *one = NULL;
        (void)item_of(self, index_at(rows, self, row), null_first, &one);
        if (column->offset_bytes > 0) {
            put_text(column, row, one);
        } else {
            put_fixed(column, row, one);
        }
        nulls += one == NULL;
        scratch->levels.data[row / 8] |= (uint8_t)((one != NULL) << (row % 8));
    }
    return lk_v20_complete(column, nulls == 0 ? NULL : scratch->levels.data, count, err);
}

lk_rc lk_v20_expand(const lk_page_rows *rows, const lk_v20_array *array, bool null_first, lk_err *err)
{
    dictionary self = {0};
    lk_rc      rc = open_dictionary(rows, array, rows->column->field, &self, err);
    if (rc == LK_OK) {
        rc = put_values(rows, &self, lk_v20_row_count(rows), null_first, err);
    }
    close_dictionary(&self);
    return rc;
}

/* -- numbers --------------------------------------------------------------------------------------- */
/* The numbers of the items that occur; the others get none. */
static lk_rc put_numbers(
    const lk_page_rows *rows, const dictionary *self, uint64_t count, lk_shape *shape, lk_err *err)
{
    lk_column  *column = rows->column;
    lk_scratch *scratch = rows->scratch;
    size_t      width = column->row_bits / 8;
    uint64_t    nulls = 0;
    lk_rc       rc = lk_shape_number_start(shape, column->pool, self->count, err);
    if (rc == LK_OK) {
        rc = lk_buffer_grow(scratch->pool, &scratch->levels, 0, count / 8 + 8, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    memset(scratch->levels.data, 0, count / 8 + 8);
    for (uint64_t row = 0; row < count; row++) {
        uint64_t index = index_at(rows, self, row), number = 0;
        uint32_t found = 0;
        if (index >= self->count) {
            return beyond(err);
        }
        bool valid = self->items[index].valid;
        if (valid && (rc = lk_shape_number(shape, index, self->items[index].bytes, &found, err)) != LK_OK) {
            return rc;
        }
        number = found;
        nulls += !valid;
        memcpy(column->values.data + (column->rows + row) * width, &number, width);
        scratch->levels.data[row / 8] |= (uint8_t)(valid << (row % 8));
    }
    return lk_v20_complete(column, nulls == 0 ? NULL : scratch->levels.data, count, err);
}

lk_rc lk_v20_number(const lk_page_rows *rows, const lk_v20_array *array, lk_shape *shape, lk_err *err)
{
    dictionary self = {0};
    lk_rc      rc = open_dictionary(rows, array, shape->source->field->dictionary, &self, err);
    if (rc == LK_OK) {
        rc = put_numbers(rows, &self, lk_v20_row_count(rows), shape, err);
    }
    close_dictionary(&self);
    return rc;
}
