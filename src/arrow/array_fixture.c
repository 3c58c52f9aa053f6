/* array_fixture.c - see array_fixture.h. Reads values through nanoarrow's ArrowArrayView. */
#include "arrow/array_fixture.h"

#include "arrow/schema.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* after the above: cmocka.h needs them */
#include <cmocka.h>

struct ArrowSchema make_field(const char *type, const char *name)
{
    struct ArrowSchema field = {0};
    lk_err             err = {0};
    lk_rc              rc = lk_type_parse(lk_bytes_of(type), lk_bytes_of(name), &field, &err);
    assert_int_equal(rc, LK_OK);
    return field;
}

struct ArrowSchema make_schema(const char *const *columns)
{
    struct ArrowSchema fields[16], schema = {0};
    lk_err             err = {0};
    size_t             count = 0;
    for (; columns[count] != NULL; count++) {
        lk_rc rc = lk_column_parse(lk_bytes_of(columns[count]), &fields[count], &err);
        assert_int_equal(rc, LK_OK);
    }
    lk_schema_of_columns(fields, count, &schema);
    return schema;
}

static struct ArrowArray start(const char *type)
{
    struct ArrowSchema field = make_field(type, "");
    struct ArrowArray  array = {0};
    assert_int_equal(ArrowArrayInitFromSchema(&array, &field, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(&array), NANOARROW_OK);
    lk_schema_release(&field);
    return array;
}

static void finish(struct ArrowArray *array)
{
    assert_int_equal(ArrowArrayFinishBuildingDefault(array, NULL), NANOARROW_OK);
}

struct ArrowArray make_integers(const char *type, const int64_t *values, int64_t count)
{
    struct ArrowArray array = start(type);
    for (int64_t i = 0; i < count; i++) {
        int code =
            values[i] == NONE ? ArrowArrayAppendNull(&array, 1) : ArrowArrayAppendInt(&array, values[i]);
        assert_int_equal(code, NANOARROW_OK);
    }
    finish(&array);
    return array;
}

struct ArrowArray make_texts(const char *type, const char *const *values, int64_t count)
{
    struct ArrowArray array = start(type);
    for (int64_t i = 0; i < count; i++) {
        int code = values[i] == NULL ? ArrowArrayAppendNull(&array, 1)
                                     : ArrowArrayAppendString(&array, ArrowCharView(values[i]));
        assert_int_equal(code, NANOARROW_OK);
    }
    finish(&array);
    return array;
}

struct ArrowArray make_lists(const char *type, const int64_t *counts, int64_t count)
{
    struct ArrowArray array = start(type);
    int64_t           next = 0;
    for (int64_t i = 0; i < count; i++) {
        for (int64_t item = 0; item < counts[i]; item++) {
            assert_int_equal(ArrowArrayAppendInt(array.children[0], next++), NANOARROW_OK);
        }
        int code = counts[i] < 0 ? ArrowArrayAppendNull(&array, 1) : ArrowArrayFinishElement(&array);
        assert_int_equal(code, NANOARROW_OK);
    }
    finish(&array);
    return array;
}

static void describe(const struct ArrowArrayView *view, int64_t row, lk_buf *out);

static void describe_items(const struct ArrowArrayView *view, int64_t first, int64_t end, lk_buf *out)
{
    lk_buf_append_text(out, "[");
    for (int64_t i = first; i < end; i++) {
        lk_buf_append_text(out, i > first ? "," : "");
        describe(view->children[0], i, out);
    }
    lk_buf_append_text(out, "]");
}

static void describe(const struct ArrowArrayView *view, int64_t row, lk_buf *out)
{
    struct ArrowStringView text;
    if (ArrowArrayViewIsNull(view, row)) {
        lk_buf_append_text(out, "null");
        return;
    }
    switch ((int)view->storage_type) {
    case NANOARROW_TYPE_LIST:
    case NANOARROW_TYPE_LARGE_LIST:
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
        describe_items(view, ArrowArrayViewListChildOffset(view, row),
            ArrowArrayViewListChildOffset(view, row + 1), out);
        break;
    case NANOARROW_TYPE_STRUCT:
        lk_buf_append_text(out, "{");
        for (int64_t i = 0; i < view->n_children; i++) {
            lk_buf_append_text(out, i > 0 ? "," : "");
            describe(view->children[i], view->offset + row, out);
        }
        lk_buf_append_text(out, "}");
        break;
    case NANOARROW_TYPE_STRING:
    case NANOARROW_TYPE_LARGE_STRING:
    case NANOARROW_TYPE_BINARY:
        text = ArrowArrayViewGetStringUnsafe(view, row);
        lk_buf_format(out, "'%.*s'", (int)text.size_bytes, text.data);
        break;
    case NANOARROW_TYPE_DOUBLE:
    case NANOARROW_TYPE_FLOAT:
    case NANOARROW_TYPE_HALF_FLOAT:
        lk_buf_format(out, "%g", ArrowArrayViewGetDoubleUnsafe(view, row));
        break;
    default:
        lk_buf_format(out, "%" PRId64, ArrowArrayViewGetIntUnsafe(view, row));
    }
}

void describe_value(
    const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t row, lk_buf *out)
{
    struct ArrowArrayView view;
    assert_int_equal(ArrowArrayViewInitFromSchema(&view, schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayViewSetArray(&view, array, NULL), NANOARROW_OK);
    describe(&view, row, out);
    ArrowArrayViewReset(&view);
}

void assert_values(const struct ArrowSchema *schema, const struct ArrowArray *array, const char *expected)
{
    lk_buf text = {0};
    lk_buf_append_text(&text, "");
    for (int64_t row = 0; row < array->length; row++) {
        lk_buf_append_text(&text, row > 0 ? " " : "");
        describe_value(schema, array, row, &text);
    }
    assert_string_equal(text.data == NULL ? "" : text.data, expected);
    lk_buf_deinit(&text);
}
