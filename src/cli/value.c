/* value.c - see value.h. Dates follow the proleptic Gregorian calendar, days counted from 1970-01-01. */
#include "cli/value.h"

#include "base/hash.h"
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct lk_printer {
    struct ArrowSchemaView shape;
    struct ArrowArrayView  view; /* of the top: children and dictionaries hang below it */
    struct ArrowSchema     schema;
};

/* One node while walking down: the type that its schema says and the values that its array holds. */
typedef struct node {
    const struct ArrowSchema    *schema;
    const struct ArrowArrayView *view;
} node;

lk_rc lk_printer_open(lk_printer **out, const struct ArrowSchema *field, lk_err *err)
{
    struct ArrowError why = {0};
    lk_printer       *printer = calloc(1, sizeof *printer);
    LK_ASSERT(printer != NULL);
    lk_rc rc = lk_schema_copy(field, &printer->schema, err);
    if (rc == LK_OK &&
        (ArrowSchemaViewInit(&printer->shape, &printer->schema, &why) != NANOARROW_OK ||
            ArrowArrayViewInitFromSchema(&printer->view, &printer->schema, &why) != NANOARROW_OK)) {
        rc = lk_fail(err, LK_E_INVALID_SCHEMA, "%s", why.message);
    }
    if (rc != LK_OK) {
        lk_printer_close(printer);
        return rc;
    }
    *out = printer;
    return LK_OK;
}

void lk_printer_close(lk_printer *printer)
{
    if (printer != NULL) {
        ArrowArrayViewReset(&printer->view);
        lk_schema_release(&printer->schema);
        free(printer);
    }
}

lk_rc lk_printer_bind(lk_printer *printer, const struct ArrowArray *array, lk_err *err)
{
    struct ArrowError why = {0};
    if (ArrowArrayViewSetArray(&printer->view, array, &why) != NANOARROW_OK) {
        return lk_fail(err, LK_E_INVALID_IPC, "%s", why.message);
    }
    return LK_OK;
}

bool lk_printer_is_null(const lk_printer *printer, int64_t row)
{
    return ArrowArrayViewIsNull(&printer->view, row);
}

bool lk_printer_is_number(const lk_printer *printer)
{
    switch ((int)printer->shape.type) {
    case NANOARROW_TYPE_INT8:
    case NANOARROW_TYPE_INT16:
    case NANOARROW_TYPE_INT32:
    case NANOARROW_TYPE_INT64:
    case NANOARROW_TYPE_UINT8:
    case NANOARROW_TYPE_UINT16:
    case NANOARROW_TYPE_UINT32:
    case NANOARROW_TYPE_UINT64:
    case NANOARROW_TYPE_HALF_FLOAT:
    case NANOARROW_TYPE_FLOAT:
    case NANOARROW_TYPE_DOUBLE:
    case NANOARROW_TYPE_DECIMAL128:
    case NANOARROW_TYPE_DECIMAL256:
        return true;
    default:
        return false;
    }
}

static void print(node at, int64_t row, bool json, lk_buf *out);

static void quoted(bool json, lk_bytes text, lk_buf *out)
{
    if (json) {
        lk_json_text(&(lk_json_writer){.out = out}, text);
    } else {
        lk_buf_append_bytes(out, text);
    }
}

static void print_real(double value, int digits, bool json, lk_buf *out)
{
    if (isnan(value) || isinf(value)) {
        quoted(json, lk_bytes_of(isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity"), out);
        return;
    }
    char text[40];
    for (int precision = digits - 2; precision <= digits; precision++) { /* the shortest that reads back */
        (void)snprintf(text, sizeof text, "%.*g", precision, value);
        bool same = digits > 10 ? strtod(text, NULL) == value : strtof(text, NULL) == (float)value;
        if (same) {
            break;
        }
    }
    lk_buf_append_text(out, text);
}

/* Howard Hinnant's civil_from_days, in whole days. */
static void print_day(int64_t days, lk_buf *out)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t day_of_era = z - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted = (5 * day_of_year + 2) / 153;
    int64_t day = day_of_year - (153 * shifted + 2) / 5 + 1;
    int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
    int64_t year = year_of_era + era * 400 + (month <= 2);
    lk_buf_format(out, "%04" PRId64 "-%02" PRId64 "-%02" PRId64, year, month, day);
}

static int64_t unit_per_second(enum ArrowTimeUnit unit, int *digits)
{
    static const int64_t scale[] = {1, 1000, 1000000, 1000000000};
    *digits = (int)unit * 3;
    return scale[unit];
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static void print_time(int64_t value, enum ArrowTimeUnit unit, lk_buf *out)
{
    int     digits = 0;
    int64_t scale = unit_per_second(unit, &digits);
    int64_t seconds = floor_divide(value, scale), rest = value - seconds * scale;
    lk_buf_format(
        out, "%02" PRId64 ":%02" PRId64 ":%02" PRId64, seconds / 3600, seconds / 60 % 60, seconds % 60);
    if (rest != 0) {
        lk_buf_format(out, ".%0*" PRId64, digits, rest);
    }
}

static void print_timestamp(const struct ArrowSchemaView *shape, int64_t value, lk_buf *out)
{
    int     digits = 0;
    int64_t day = 86400 * unit_per_second(shape->time_unit, &digits);
    int64_t days = floor_divide(value, day);
    print_day(days, out);
    lk_buf_append_text(out, "T");
    print_time(value - days * day, shape->time_unit, out);
    if (shape->timezone != NULL && shape->timezone[0] != '\0') {
        lk_buf_append_text(out, "Z"); /* stored instants are UTC whatever zone is shown */
    }
}

static void print_integer(const struct ArrowSchemaView *shape, node at, int64_t row, bool json, lk_buf *out)
{
    const int64_t exact = INT64_C(1) << 53;
    char          text[32];
    bool          big = false;
    if (shape->type == NANOARROW_TYPE_UINT64) {
        uint64_t value = ArrowArrayViewGetUIntUnsafe(at.view, row);
        big = value > (uint64_t)exact;
        (void)snprintf(text, sizeof text, "%" PRIu64, value);
    } else {
        int64_t value = ArrowArrayViewGetIntUnsafe(at.view, row);
        big = value > exact || value < -exact;
        (void)snprintf(text, sizeof text, "%" PRId64, value);
    }
    quoted(json && big, lk_bytes_of(text), out);
}

static void print_decimal(const struct ArrowSchemaView *shape, node at, int64_t row, bool json, lk_buf *out)
{
    struct ArrowDecimal decimal;
    ArrowDecimalInit(&decimal, shape->decimal_bitwidth, shape->decimal_precision, shape->decimal_scale);
    ArrowArrayViewGetDecimalUnsafe(at.view, row, &decimal);
    struct ArrowBuffer text = {0};
    ArrowBufferInit(&text);
    if (ArrowDecimalAppendStringToBuffer(&decimal, &text) == NANOARROW_OK) {
        quoted(json, (lk_bytes){(const char *)text.data, (size_t)text.size_bytes}, out);
    }
    ArrowBufferReset(&text);
}

static void print_binary(lk_bytes bytes, bool json, lk_buf *out)
{
    if (json) {
        lk_json_base64(&(lk_json_writer){.out = out}, bytes);
        return;
    }
    lk_buf_reserve(out, bytes.size * 2 + 1);
    lk_hex(bytes.data, bytes.size, out->data + out->size);
    out->size += bytes.size * 2;
}

static void print_struct(node at, int64_t row, bool json, lk_buf *out)
{
    lk_buf_append_text(out, "{");
    for (int64_t i = 0; i < at.schema->n_children; i++) {
        lk_buf_append_text(out, i > 0 ? (json ? "," : ", ") : "");
        quoted(json, lk_bytes_of(at.schema->children[i]->name), out);
        lk_buf_append_text(out, json ? ":" : ": ");
        print((node){at.schema->children[i], at.view->children[i]}, row + at.view->offset, json, out);
    }
    lk_buf_append_text(out, "}");
}

static void print_list(const struct ArrowSchemaView *shape, node at, int64_t row, bool json, lk_buf *out)
{
    int64_t slot = row + at.view->offset, first = slot * shape->fixed_size, end = first + shape->fixed_size;
    if (shape->type != NANOARROW_TYPE_FIXED_SIZE_LIST) {
        first = ArrowArrayViewListChildOffset(at.view, slot);
        end = ArrowArrayViewListChildOffset(at.view, slot + 1);
    }
    lk_buf_append_text(out, "[");
    for (int64_t i = first; i < end; i++) {
        lk_buf_append_text(out, i > first ? (json ? "," : ", ") : "");
        print((node){at.schema->children[0], at.view->children[0]}, i, json, out);
    }
    lk_buf_append_text(out, "]");
}

static lk_bytes bytes_at(node at, int64_t row)
{
    struct ArrowBufferView bytes = ArrowArrayViewGetBytesUnsafe(at.view, row);
    return (lk_bytes){bytes.data.as_char, (size_t)bytes.size_bytes};
}

/* Everything that is not a container or a number. */
static void print_other(const struct ArrowSchemaView *shape, node at, int64_t row, bool json, lk_buf *out)
{
    lk_buf text = {0};
    switch ((int)shape->type) {
    case NANOARROW_TYPE_DATE32:
        print_day(ArrowArrayViewGetIntUnsafe(at.view, row), &text);
        break;
    case NANOARROW_TYPE_DATE64:
        print_day(floor_divide(ArrowArrayViewGetIntUnsafe(at.view, row), 86400000), &text);
        break;
    case NANOARROW_TYPE_TIME32:
    case NANOARROW_TYPE_TIME64:
        print_time(ArrowArrayViewGetIntUnsafe(at.view, row), shape->time_unit, &text);
        break;
    case NANOARROW_TYPE_TIMESTAMP:
        print_timestamp(shape, ArrowArrayViewGetIntUnsafe(at.view, row), &text);
        break;
    case NANOARROW_TYPE_STRING:
    case NANOARROW_TYPE_LARGE_STRING:
        lk_buf_append_bytes(&text, bytes_at(at, row));
        break;
    default:
        lk_buf_format(&text, "<%s>", ArrowTypeString(shape->type));
        break;
    }
    quoted(json, lk_buf_view(&text), out);
    lk_buf_deinit(&text);
}

static void print_value(const struct ArrowSchemaView *shape, node at, int64_t row, bool json, lk_buf *out)
{
    switch ((int)shape->type) {
    case NANOARROW_TYPE_BOOL:
        lk_buf_append_text(out, ArrowArrayViewGetIntUnsafe(at.view, row) != 0 ? "true" : "false");
        return;
    case NANOARROW_TYPE_INT8:
    case NANOARROW_TYPE_INT16:
    case NANOARROW_TYPE_INT32:
    case NANOARROW_TYPE_INT64:
    case NANOARROW_TYPE_UINT8:
    case NANOARROW_TYPE_UINT16:
    case NANOARROW_TYPE_UINT32:
    case NANOARROW_TYPE_UINT64:
    case NANOARROW_TYPE_DURATION:
        print_integer(shape, at, row, json, out);
        return;
    case NANOARROW_TYPE_HALF_FLOAT:
    case NANOARROW_TYPE_FLOAT:
        print_real(ArrowArrayViewGetDoubleUnsafe(at.view, row), 9, json, out);
        return;
    case NANOARROW_TYPE_DOUBLE:
        print_real(ArrowArrayViewGetDoubleUnsafe(at.view, row), 17, json, out);
        return;
    case NANOARROW_TYPE_DECIMAL32:
    case NANOARROW_TYPE_DECIMAL64:
    case NANOARROW_TYPE_DECIMAL128:
    case NANOARROW_TYPE_DECIMAL256:
        print_decimal(shape, at, row, json, out);
        return;
    case NANOARROW_TYPE_BINARY:
    case NANOARROW_TYPE_LARGE_BINARY:
    case NANOARROW_TYPE_FIXED_SIZE_BINARY:
        print_binary(bytes_at(at, row), json, out);
        return;
    case NANOARROW_TYPE_STRUCT:
        print_struct(at, row, json, out);
        return;
    case NANOARROW_TYPE_LIST:
    case NANOARROW_TYPE_LARGE_LIST:
    case NANOARROW_TYPE_FIXED_SIZE_LIST:
    case NANOARROW_TYPE_MAP:
        print_list(shape, at, row, json, out);
        return;
    default:
        print_other(shape, at, row, json, out);
        return;
    }
}

static void print(node at, int64_t row, bool json, lk_buf *out)
{
    struct ArrowSchemaView shape;
    if (ArrowArrayViewIsNull(at.view, row) || ArrowSchemaViewInit(&shape, at.schema, NULL) != NANOARROW_OK) {
        lk_buf_append_text(out, "null");
    } else if (at.schema->dictionary != NULL) {
        int64_t index = ArrowArrayViewGetIntUnsafe(at.view, row);
        print((node){at.schema->dictionary, at.view->dictionary}, index, json, out);
    } else {
        print_value(&shape, at, row, json, out);
    }
}

void lk_printer_json(const lk_printer *printer, int64_t row, lk_buf *out)
{
    print((node){&printer->schema, &printer->view}, row, true, out);
}

void lk_printer_plain(const lk_printer *printer, int64_t row, lk_buf *out)
{
    if (!lk_printer_is_null(printer, row)) {
        print((node){&printer->schema, &printer->view}, row, false, out);
    }
}
