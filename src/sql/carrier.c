/* carrier.c - see carrier_priv.h. */
#include "sql/carrier_priv.h"

#include "arrow/bits.h"
#include "arrow/cast.h"
#include "arrow/type.h"

#include <stdio.h>

static bool starts(const char *format, const char *prefix)
{
    return strncmp(format, prefix, strlen(prefix)) == 0;
}

static lk_rc set_format(struct ArrowSchema *field, const char *format, lk_err *err)
{
    return ArrowSchemaSetFormat(field, format) == NANOARROW_OK
               ? LK_OK
               : lk_fail(err, LK_E_LIMIT, "carrier %s", format);
}

/* -- schemas --------------------------------------------------------------------------------------- */

/* What DuckDB reads in the place of this format; NULL: the format itself. */
static const char *import_format(const char *format)
{
    if (strcmp(format, "e") == 0) {
        return "f";
    }
    return starts(format, "tD") ? "l" : NULL;
}

/* A decimal of few digits, which DuckDB holds in 64 bits: so it need not convert each value. */
static bool is_narrow_decimal(const struct ArrowSchema *field, lk_type *type)
{
    enum { DIGITS_MIN = 10, DIGITS_MAX = 18 };
    return starts(field->format, "d:") && lk_type_of(field, type) && type->id == LK_TYPE_DECIMAL128 &&
           type->precision >= DIGITS_MIN && type->precision <= DIGITS_MAX;
}

static lk_rc narrow_decimal_format(struct ArrowSchema *field, lk_err *err)
{
    lk_type type;
    char    format[32];
    if (!is_narrow_decimal(field, &type)) {
        return LK_OK;
    }
    (void)snprintf(format, sizeof format, "d:%d,%d,64", (int)type.precision, (int)type.scale);
    return set_format(field, format, err);
}

static lk_rc to_carrier(struct ArrowSchema *field, lk_err *err)
{
    const char *format = import_format(field->format);
    lk_rc       rc = format == NULL ? LK_OK : set_format(field, format, err);
    if (rc == LK_OK && ArrowSchemaSetMetadata(field, NULL) != NANOARROW_OK) {
        rc = lk_fail(err, LK_E_LIMIT, "carrier metadata");
    }
    bool map = strcmp(field->format, "+m") == 0; /* entries and keys of a map are never null */
    field->flags |= ARROW_FLAG_NULLABLE;
    for (int64_t i = 0; rc == LK_OK && i < field->n_children; i++) {
        rc = to_carrier(field->children[i], err);
        if (map) {
            field->children[i]->flags &= ~(int64_t)ARROW_FLAG_NULLABLE;
        }
    }
    return rc;
}

bool lk_carrier_exists(const struct ArrowSchema *field)
{
    lk_type type;
    if (!lk_type_of(field, &type) || type.id == LK_TYPE_DECIMAL256) {
        return false;
    }
    if (lk_type_is_decimal(type.id) && (type.scale < 0 || type.scale > type.precision)) {
        return false;
    }
    for (int64_t i = 0; i < field->n_children; i++) {
        if (!lk_carrier_exists(field->children[i])) {
            return false;
        }
    }
    return true;
}

lk_rc lk_carrier_schema(const struct ArrowSchema *schema, struct ArrowSchema *out, lk_err *err)
{
    lk_rc rc = lk_schema_copy(schema, out, err);
    if (rc == LK_OK && ArrowSchemaSetMetadata(out, NULL) != NANOARROW_OK) {
        rc = lk_fail(err, LK_E_LIMIT, "carrier metadata");
    }
    for (int64_t i = 0; rc == LK_OK && i < out->n_children; i++) {
        struct ArrowSchema *field = out->children[i];
        if (lk_carrier_exists(field)) {
            rc = to_carrier(field, err);
            if (rc == LK_OK) {
                rc = narrow_decimal_format(field, err);
            }
            continue;
        }
        /* Declared so that the other columns can be read; the scan refuses to read it. */
        struct ArrowSchema stand_in;
        ArrowSchemaInit(&stand_in);
        if (ArrowSchemaSetType(&stand_in, NANOARROW_TYPE_STRING) != NANOARROW_OK ||
            ArrowSchemaSetName(&stand_in, field->name) != NANOARROW_OK) {
            rc = lk_fail(err, LK_E_LIMIT, "carrier stand-in");
        }
        lk_schema_release(field);
        lk_schema_move(&stand_in, field);
    }
    return rc;
}

/* -- into the carrier ------------------------------------------------------------------------------ */

static bool has_format(const struct ArrowSchema *field, const char *prefix)
{
    bool found = starts(field->format, prefix);
    for (int64_t i = 0; !found && i < field->n_children; i++) {
        found = has_format(field->children[i], prefix);
    }
    return found;
}

/* Durations read as the integers they are. */
static lk_rc relabel_durations(struct ArrowSchema *field, lk_err *err)
{
    lk_rc rc = starts(field->format, "tD") ? set_format(field, "l", err) : LK_OK;
    for (int64_t i = 0; rc == LK_OK && i < field->n_children; i++) {
        rc = relabel_durations(field->children[i], err);
    }
    return rc;
}

/* Replaces *array by its cast. */
static lk_rc cast(
    const struct ArrowSchema *from, const struct ArrowSchema *to, struct ArrowArray *array, lk_err *err)
{
    struct ArrowArray out = {0};
    lk_shared_array  *shared = lk_array_share(array);
    lk_rc             rc = lk_array_cast(from, shared, to, 0, &out, err);
    lk_shared_array_unref(shared);
    if (rc == LK_OK) {
        lk_array_move(&out, array);
    }
    return rc;
}

/* out[i] = the low half of in[i]; false when some high half is not its sign. */
static bool low_halves(const int64_t *in, int64_t rows, int64_t *out)
{
    int64_t wrong = 0;
    for (int64_t row = 0; row < rows; row++) {
        out[row] = in[2 * row];
        wrong |= in[2 * row + 1] ^ (in[2 * row] >> 63);
    }
    return wrong == 0;
}

static bool null_rows_only(const struct ArrowArray *array)
{
    const int64_t *in = (const int64_t *)array->buffers[1] + 2 * array->offset;
    const uint8_t *valid = array->buffers[0];
    bool           good = true;
    for (int64_t row = 0; row < array->length; row++) {
        bool fits = in[2 * row + 1] == in[2 * row] >> 63;
        good = good && (fits || (valid != NULL && !lk_bit(valid, array->offset + row)));
    }
    return good;
}

static lk_rc narrow_decimals(struct ArrowArray *array, lk_err *err)
{
    struct ArrowArray out = {0};
    int64_t           rows = array->length;
    const int64_t    *in = (const int64_t *)array->buffers[1] + 2 * array->offset;
    if (ArrowArrayInitFromType(&out, NANOARROW_TYPE_INT64) != NANOARROW_OK ||
        ArrowBufferResize(ArrowArrayBuffer(&out, 1), rows * 8, false) != NANOARROW_OK) {
        lk_array_release(&out);
        return lk_fail(err, LK_E_LIMIT, "no memory for %lld decimals", (long long)rows);
    }
    if (!low_halves(in, rows, (int64_t *)(void *)ArrowArrayBuffer(&out, 1)->data) && !null_rows_only(array)) {
        lk_array_release(&out);
        return lk_fail(err, LK_E_CORRUPT_FILE, "a decimal of more digits than its type has");
    }
    if (array->null_count != 0 && array->buffers[0] != NULL) {
        struct ArrowBitmap *bits = ArrowArrayValidityBitmap(&out);
        if (ArrowBitmapReserve(bits, rows) != NANOARROW_OK) {
            lk_array_release(&out);
            return lk_fail(err, LK_E_LIMIT, "no memory for %lld bits", (long long)rows);
        }
        memset(bits->buffer.data, 0, (size_t)(rows + 7) / 8);
        lk_bits_copy(array->buffers[0], array->offset, bits->buffer.data, 0, rows);
        bits->buffer.size_bytes = (rows + 7) / 8;
        bits->size_bits = rows;
    }
    out.length = rows;
    out.null_count = array->null_count;
    if (ArrowArrayFinishBuildingDefault(&out, NULL) != NANOARROW_OK) {
        lk_array_release(&out);
        return lk_fail(err, LK_E_LIMIT, "decimals");
    }
    lk_array_release(array);
    lk_array_move(&out, array);
    return LK_OK;
}

lk_rc lk_carrier_import(
    const struct ArrowSchema *field, const struct ArrowSchema *carrier, struct ArrowArray *array, lk_err *err)
{
    lk_type type;
    if (is_narrow_decimal(field, &type)) {
        return narrow_decimals(array, err);
    }
    if (!has_format(field, "e")) {
        return LK_OK; /* every other carrier has the same buffers */
    }
    struct ArrowSchema from = {0};
    lk_rc              rc = lk_schema_copy(field, &from, err);
    if (rc == LK_OK) {
        rc = relabel_durations(&from, err);
    }
    if (rc == LK_OK) {
        rc = cast(&from, carrier, array, err);
    }
    lk_schema_release(&from);
    return rc;
}

/* -- and back -------------------------------------------------------------------------------------- */

static bool leaf_fits(const char *exported, const char *format)
{
    static const char *const rows[][2] = {{"f", "e"}, {"u", "U"}, {"z", "Z"}, {"z", "w:"}, {"tdD", "tdm"},
        {"ttu", "tts"}, {"ttu", "ttm"}, {"l", "tD"}, {"+l", "+L"}};
    if (strcmp(exported, format) == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(exported, rows[i][0]) == 0 && starts(format, rows[i][1])) {
            return true;
        }
    }
    bool zoned = starts(format, "ts") && strlen(format) > 4; /* tsu:UTC */
    return zoned && starts(exported, format[2] == 'n' ? "tsn:" : "tsu:") && strlen(exported) > 4;
}

bool lk_carrier_fits(const struct ArrowSchema *exported, const struct ArrowSchema *field)
{
    if (!leaf_fits(exported->format, field->format) || exported->n_children != field->n_children ||
        exported->dictionary != NULL || field->dictionary != NULL) {
        return false;
    }
    for (int64_t i = 0; i < field->n_children; i++) {
        if (!lk_carrier_fits(exported->children[i], field->children[i])) {
            return false;
        }
    }
    return true;
}

/* The type that lk_array_cast can reach: durations and fixed-size binary as what carried them. */
static lk_rc reachable(struct ArrowSchema *field, lk_err *err)
{
    lk_rc rc = LK_OK;
    if (starts(field->format, "tD")) {
        rc = set_format(field, "l", err);
    } else if (starts(field->format, "w:")) {
        rc = set_format(field, "z", err);
    }
    field->flags |= ARROW_FLAG_NULLABLE;
    for (int64_t i = 0; rc == LK_OK && i < field->n_children; i++) {
        rc = reachable(field->children[i], err);
    }
    return rc;
}

static bool same_buffers(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    bool same = strcmp(a->format, b->format) == 0 ||
                (starts(a->format, "ts") && strncmp(a->format, b->format, 4) == 0);
    for (int64_t i = 0; same && i < a->n_children; i++) {
        same = same_buffers(a->children[i], b->children[i]);
    }
    return same;
}

/* A new array over two buffers, which it takes. */
static lk_rc fixed_array(
    struct ArrowBuffer *bits, struct ArrowBuffer *rows, struct ArrowArray *out, lk_err *err)
{
    if (ArrowArrayInitFromType(out, NANOARROW_TYPE_FIXED_SIZE_BINARY) != NANOARROW_OK ||
        ArrowArraySetBuffer(out, 0, bits) != NANOARROW_OK ||
        ArrowArraySetBuffer(out, 1, rows) != NANOARROW_OK) {
        return lk_fail(err, LK_E_LIMIT, "fixed-size binary column");
    }
    return LK_OK;
}

/* Binary with offsets -> rows of `width` bytes; nulls become zeros. */
static lk_rc to_fixed(int32_t width, struct ArrowArray *array, lk_err *err)
{
    struct ArrowArray  out = {0};
    struct ArrowBuffer bits, rows;
    const uint8_t     *validity = array->buffers[0];
    const int32_t     *offsets = array->buffers[1];
    const char        *bytes = array->buffers[2];
    int64_t            size = 0;
    ArrowBufferInit(&bits);
    ArrowBufferInit(&rows);
    lk_rc rc = LK_OK;
    if (__builtin_mul_overflow(array->length, (int64_t)width, &size) ||
        ArrowBufferAppendFill(&rows, 0, size) != NANOARROW_OK ||
        (validity != NULL &&
            ArrowBufferAppendFill(&bits, 0, (int64_t)lk_bits_size(array->length)) != NANOARROW_OK)) {
        rc = lk_fail(err, LK_E_LIMIT, "fixed-size binary column");
    }
    for (int64_t i = 0; rc == LK_OK && i < array->length; i++) {
        int64_t at = array->offset + i;
        bool    valid = lk_bit_or_one(validity, at);
        if (valid && offsets[at + 1] - offsets[at] != width) {
            rc = lk_fail(err, LK_E_INTERNAL, "a blob of another size in a fixed-size column");
        } else if (valid) {
            memcpy(rows.data + i * width, bytes + offsets[at], (size_t)width);
        }
    }
    if (rc == LK_OK && validity != NULL) {
        lk_bits_copy(validity, array->offset, bits.data, 0, array->length);
    }
    if (rc == LK_OK) {
        rc = fixed_array(&bits, &rows, &out, err);
    }
    ArrowBufferReset(&bits);
    ArrowBufferReset(&rows);
    if (rc != LK_OK) {
        lk_array_release(&out);
        return rc;
    }
    out.length = array->length;
    out.null_count = array->null_count;
    lk_array_release(array);
    lk_array_move(&out, array);
    return LK_OK;
}

static lk_rc restore_fixed(const struct ArrowSchema *field, struct ArrowArray *array, lk_err *err)
{
    lk_type type;
    if (starts(field->format, "w:") && lk_type_of(field, &type)) {
        return to_fixed((int32_t)type.width, array, err);
    }
    lk_rc rc = LK_OK;
    for (int64_t i = 0; rc == LK_OK && i < field->n_children; i++) {
        rc = restore_fixed(field->children[i], array->children[i], err);
    }
    return rc;
}

lk_rc lk_carrier_restore(const struct ArrowSchema *exported, const struct ArrowSchema *field,
    struct ArrowArray *array, lk_err *err)
{
    struct ArrowSchema target = {0};
    lk_rc              rc = lk_schema_copy(field, &target, err);
    if (rc == LK_OK) {
        rc = reachable(&target, err);
    }
    if (rc == LK_OK && !same_buffers(exported, &target)) {
        rc = cast(exported, &target, array, err);
    }
    if (rc == LK_OK && has_format(field, "w:")) {
        rc = restore_fixed(field, array, err);
    }
    lk_schema_release(&target);
    return rc;
}
