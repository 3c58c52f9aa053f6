/*
 * predicate_kernels.c - see predicate_priv.h. Compiled at -O3: the loops are meant to be vectorised.
 *
 * Floats follow DuckDB: NaN equals NaN and is above every number. With a bound that is no NaN, plain IEEE
 * comparisons are right for =, <>, <, <=; > and >= are the negations of <= and <, which puts NaN above.
 */
#include "arrow/bits.h"
#include "arrow/predicate_priv.h"

/* The same loop for what every x86-64 has and for AVX2, chosen when the program is loaded. Sanitizers come too
 * late for that. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define FAST __attribute__((target_clones("avx2", "default")))
#else
#define FAST
#endif

__extension__ typedef __int128          int128;
__extension__ typedef unsigned __int128 uint128;

lk_comparable lk_comparable_of(const lk_type *type)
{
    if (type->dictionary) {
        return LK_COMPARABLE_NONE;
    }
    if (lk_type_is_unsigned(type->id)) {
        return LK_COMPARABLE_UNSIGNED;
    }
    if (lk_type_is_float(type->id)) {
        return LK_COMPARABLE_FLOAT;
    }
    if (lk_type_is_bytes(type->id) && type->id != LK_TYPE_FIXED_BINARY) {
        return LK_COMPARABLE_BYTES;
    }
    switch ((int)type->id) {
    case LK_TYPE_BOOL:
        return LK_COMPARABLE_BOOL;
    case LK_TYPE_INT8:
    case LK_TYPE_INT16:
    case LK_TYPE_INT32:
    case LK_TYPE_INT64:
    case LK_TYPE_DATE32:
    case LK_TYPE_DATE64:
    case LK_TYPE_TIME32:
    case LK_TYPE_TIME64:
    case LK_TYPE_TIMESTAMP:
    case LK_TYPE_DURATION:
        return LK_COMPARABLE_SIGNED;
    case LK_TYPE_FIXED_BINARY:
        return LK_COMPARABLE_FIXED_BYTES;
    case LK_TYPE_DECIMAL32:
    case LK_TYPE_DECIMAL64:
    case LK_TYPE_DECIMAL128:
        return LK_COMPARABLE_DECIMAL128;
    default:
        return LK_COMPARABLE_NONE;
    }
}

/* -- values ------------------------------------------------------------------------------------------ */

static int128 decimal_of(const lk_value *value)
{
    return (int128)(((uint128)(uint64_t)value->as.decimal128.high << 64) | value->as.decimal128.low);
}

static int128 load_int128(const void *at)
{
    int128 value;
    memcpy(&value, at, sizeof value);
    return value;
}

bool lk_value_is_nan(const lk_value *value)
{
    return value->kind == LK_VALUE_F64 && value->as.f64 != value->as.f64;
}

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

static int compare_floats(const lk_value *a, const lk_value *b)
{
    bool a_nan = lk_value_is_nan(a), b_nan = lk_value_is_nan(b);
    return a_nan || b_nan ? a_nan - b_nan : ORDER(a->as.f64, b->as.f64);
}

static bool as_integer(const lk_value *value, int128 *out)
{
    switch ((int)value->kind) {
    case LK_VALUE_I64:
        *out = value->as.i64;
        return true;
    case LK_VALUE_U64:
        *out = value->as.u64;
        return true;
    case LK_VALUE_DECIMAL128:
        *out = decimal_of(value);
        return true;
    default:
        return false;
    }
}

int lk_value_compare(const lk_value *a, const lk_value *b, bool *comparable)
{
    int128 x, y;
    *comparable = true;
    if (a->kind == LK_VALUE_BYTES && b->kind == LK_VALUE_BYTES) {
        int order = lk_bytes_compare(a->as.bytes, b->as.bytes);
        return ORDER(order, 0);
    }
    if (a->kind == LK_VALUE_F64 && b->kind == LK_VALUE_F64) {
        return compare_floats(a, b);
    }
    if (as_integer(a, &x) && as_integer(b, &y)) {
        return ORDER(x, y);
    }
    *comparable = false;
    return 0;
}

/* -- comparing columns ------------------------------------------------------------------------------- */

#define LOOP(test)                                       \
    for (size_t i = 0; i < count; i++) {                 \
        out[i] = (uint8_t)((test) ? LK_TRUE : LK_FALSE); \
    }                                                    \
    return

/* compare_TYPE(in, count, compare, value, out) for a type with the machine's order. */
#define DEFINE_COMPARE(name, type)                                                                \
    FAST static void compare_##name(                                                              \
        const type *restrict in, size_t count, lk_compare compare, type v, uint8_t *restrict out) \
    {                                                                                             \
        switch (compare) {                                                                        \
        case LK_EQ:                                                                               \
            LOOP(in[i] == v);                                                                     \
        case LK_NE:                                                                               \
            LOOP(in[i] != v);                                                                     \
        case LK_LT:                                                                               \
            LOOP(in[i] < v);                                                                      \
        case LK_LE:                                                                               \
            LOOP(in[i] <= v);                                                                     \
        case LK_GT:                                                                               \
            LOOP(!(in[i] <= v));                                                                  \
        case LK_GE:                                                                               \
            LOOP(!(in[i] < v));                                                                   \
        }                                                                                         \
    }

DEFINE_COMPARE(i8, int8_t)
DEFINE_COMPARE(i16, int16_t)
DEFINE_COMPARE(i32, int32_t)
DEFINE_COMPARE(i64, int64_t)
DEFINE_COMPARE(u8, uint8_t)
DEFINE_COMPARE(u16, uint16_t)
DEFINE_COMPARE(u32, uint32_t)
DEFINE_COMPARE(u64, uint64_t)
DEFINE_COMPARE(f32, float)
DEFINE_COMPARE(f64, double)

/* Whether an order (-1, 0, 1 of row against value) satisfies the comparison. */
static inline bool satisfies(int order, lk_compare compare)
{
    switch (compare) {
    case LK_EQ:
        return order == 0;
    case LK_NE:
        return order != 0;
    case LK_LT:
        return order < 0;
    case LK_LE:
        return order <= 0;
    case LK_GT:
        return order > 0;
    case LK_GE:
        return order >= 0;
    }
    return false;
}

/* Every row stands in the same order to the value. */
static void constant(size_t count, int order, lk_compare compare, uint8_t *out)
{
    memset(out, satisfies(order, compare) ? LK_TRUE : LK_FALSE, count);
}

static void compare_signed(const lk_column_rows *rows, lk_compare compare, int128 wanted, uint8_t *out)
{
    unsigned bits = rows->type.width * 8;
    int128   max = ((int128)1 << (bits - 1)) - 1, min = -max - 1;
    if (wanted > max || wanted < min) {
        constant(rows->count, wanted > max ? -1 : 1, compare, out);
        return;
    }
    const char *in = (const char *)rows->array->buffers[1] + (size_t)rows->start * rows->type.width;
    const void *at = in;
    switch (rows->type.width) {
    case 1:
        compare_i8(at, rows->count, compare, (int8_t)wanted, out);
        return;
    case 2:
        compare_i16(at, rows->count, compare, (int16_t)wanted, out);
        return;
    case 4:
        compare_i32(at, rows->count, compare, (int32_t)wanted, out);
        return;
    default:
        compare_i64(at, rows->count, compare, (int64_t)wanted, out);
    }
}

static void compare_unsigned(const lk_column_rows *rows, lk_compare compare, int128 wanted, uint8_t *out)
{
    int128 max = ((int128)1 << (rows->type.width * 8)) - 1;
    if (wanted > max || wanted < 0) {
        constant(rows->count, wanted > max ? -1 : 1, compare, out);
        return;
    }
    const char *in = (const char *)rows->array->buffers[1] + (size_t)rows->start * rows->type.width;
    const void *at = in;
    switch (rows->type.width) {
    case 1:
        compare_u8(at, rows->count, compare, (uint8_t)wanted, out);
        return;
    case 2:
        compare_u16(at, rows->count, compare, (uint16_t)wanted, out);
        return;
    case 4:
        compare_u32(at, rows->count, compare, (uint32_t)wanted, out);
        return;
    default:
        compare_u64(at, rows->count, compare, (uint64_t)wanted, out);
    }
}

/* Against NaN: a row is equal when it is NaN and below otherwise. */
static void compare_to_nan(const double *in, size_t count, lk_compare compare, uint8_t *out)
{
    uint8_t number = satisfies(-1, compare) ? LK_TRUE : LK_FALSE,
            nan = satisfies(0, compare) ? LK_TRUE : LK_FALSE;
    for (size_t i = 0; i < count; i++) {
        out[i] = in[i] != in[i] ? nan : number;
    }
}

static const double *as_doubles(const lk_column_rows *rows, double *space)
{
    const char *in = (const char *)rows->array->buffers[1] + (size_t)rows->start * rows->type.width;
    if (rows->type.width == 8) {
        return (const double *)(const void *)in;
    }
    for (size_t i = 0; i < rows->count; i++) {
        space[i] = rows->type.width == 4
                       ? (double)((const float *)(const void *)in)[i]
                       : (double)lk_float16_to_float(((const uint16_t *)(const void *)in)[i]);
    }
    return space;
}

static void compare_float(const lk_column_rows *rows, lk_compare compare, double wanted, uint8_t *out)
{
    double space[LK_TRUTH_ROWS];
    float  narrow = (float)wanted;
    if (rows->type.width == 4 && (double)narrow == wanted) {
        compare_f32((const float *)rows->array->buffers[1] + rows->start, rows->count, compare, narrow, out);
        return;
    }
    const double *in = as_doubles(rows, space);
    if (wanted != wanted) {
        compare_to_nan(in, rows->count, compare, out);
    } else {
        compare_f64(in, rows->count, compare, wanted, out);
    }
}

static void compare_bool(const lk_column_rows *rows, lk_compare compare, int128 wanted, uint8_t *out)
{
    uint8_t bytes[LK_TRUTH_ROWS];
    lk_bits_expand(rows->array->buffers[1], rows->start, (int64_t)rows->count, bytes);
    compare_u8(bytes, rows->count, compare, wanted != 0, out);
}

/* out[i] = the low half of value i; false when some value needs its high half, as a null row's may. */
FAST static bool low_halves(const int64_t *restrict in, size_t count, int64_t *restrict out)
{
    int64_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        out[i] = in[2 * i];
        wrong |= in[2 * i + 1] ^ (in[2 * i] >> 63);
    }
    return wrong == 0;
}

static void compare_decimal(const lk_column_rows *rows, lk_compare compare, int128 wanted, uint8_t *out)
{
    int64_t narrow[LK_TRUTH_ROWS];
    if (rows->type.width < 16) {
        compare_signed(rows, compare, wanted, out);
        return;
    }
    const char *in = (const char *)rows->array->buffers[1] + (size_t)rows->start * 16;
    if (wanted == (int64_t)wanted && low_halves((const void *)in, rows->count, narrow)) {
        compare_i64(narrow, rows->count, compare, (int64_t)wanted, out);
        return;
    }
    for (size_t i = 0; i < rows->count; i++) {
        int128 value = load_int128(in + 16 * i);
        out[i] = satisfies(ORDER(value, wanted), compare) ? LK_TRUE : LK_FALSE;
    }
}

/* -- bytes ------------------------------------------------------------------------------------------- */

static inline lk_bytes bytes_at(const lk_column_rows *rows, size_t row)
{
    const char *data = rows->array->buffers[2];
    size_t      at = (size_t)rows->start + row;
    if (rows->type.layout == LK_LAYOUT_BYTES32) {
        const int32_t *offsets = rows->array->buffers[1];
        return (lk_bytes){data + offsets[at], (size_t)(offsets[at + 1] - offsets[at])};
    }
    if (rows->type.layout == LK_LAYOUT_BYTES64) {
        const int64_t *offsets = rows->array->buffers[1];
        return (lk_bytes){data + offsets[at], (size_t)(offsets[at + 1] - offsets[at])};
    }
    return (lk_bytes){(const char *)rows->array->buffers[1] + at * rows->type.width, rows->type.width};
}

/* Text before its first difference is rare to be long: eight bytes, the first one highest, decide most rows. */
typedef struct needle {
    lk_bytes value;
    uint64_t head;
} needle;

static inline uint64_t head_of(const char *data, size_t size, size_t readable)
{
    uint64_t head = 0;
    if (readable >= 8) {
        memcpy(&head, data, 8);
        head = __builtin_bswap64(head);
        return size >= 8 ? head : size == 0 ? 0 : head >> (64 - 8 * size) << (64 - 8 * size);
    }
    for (size_t i = 0; i < size && i < 8; i++) {
        head |= (uint64_t)(uint8_t)data[i] << (56 - 8 * i);
    }
    return head;
}

/* Shorter text is padded with zeros in its head, so unequal heads are in order and equal ones say nothing. */
static inline int order_bytes(lk_bytes row, size_t readable, const needle *n)
{
    uint64_t head = head_of(row.data, row.size, readable);
    if (head != n->head) {
        return head < n->head ? -1 : 1;
    }
    size_t size = row.size < n->value.size ? row.size : n->value.size;
    int    order = size <= 8 ? 0 : memcmp(row.data, n->value.data, size);
    return order != 0 ? order : ORDER(row.size, n->value.size);
}

static inline bool equals(lk_bytes row, size_t readable, const needle *n)
{
    return row.size == n->value.size && head_of(row.data, row.size, readable) == n->head &&
           (row.size <= 8 || memcmp(row.data + 8, n->value.data + 8, row.size - 8) == 0);
}

/* Where the column's bytes end, so that eight may be read at once before it. */
static const char *end_of_bytes(const lk_column_rows *rows)
{
    size_t rows_end = (size_t)(rows->array->offset + rows->array->length);
    if (rows->type.layout == LK_LAYOUT_FIXED) {
        return (const char *)rows->array->buffers[1] + rows_end * rows->type.width;
    }
    const char *data = rows->array->buffers[2];
    return rows->type.layout == LK_LAYOUT_BYTES32
               ? data + ((const int32_t *)rows->array->buffers[1])[rows_end]
               : data + ((const int64_t *)rows->array->buffers[1])[rows_end];
}

/* Which of the first rows of a column with 32-bit offsets equal the value; returns how many were decided: those
 * behind whose start eight bytes may be read. */
static size_t equal_texts(const lk_column_rows *rows, lk_bytes value, uint8_t *restrict out)
{
    const int32_t *offsets = (const int32_t *)rows->array->buffers[1] + rows->start;
    const char    *data = rows->array->buffers[2];
    int64_t        readable = end_of_bytes(rows) - data - 8;
    size_t         count = rows->count, head_size = value.size < 8 ? value.size : 8;
    uint64_t       wanted = 0, mask = 0;
    while (count > 0 && offsets[count - 1] > readable) {
        count--;
    }
    if (head_size > 0) {
        memcpy(&wanted, value.data, head_size);
        memset(&mask, 0xff, head_size);
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t head;
        memcpy(&head, data + offsets[i], 8);
        unsigned same = (unsigned)((head & mask) == wanted) &
                        (unsigned)((size_t)(offsets[i + 1] - offsets[i]) == value.size);
        out[i] = (uint8_t)(same * LK_TRUE); /* LK_FALSE is 0 */
    }
    for (size_t i = 0; value.size > 8 && i < count; i++) {
        if (out[i] == LK_TRUE && memcmp(data + offsets[i] + 8, value.data + 8, value.size - 8) != 0) {
            out[i] = LK_FALSE;
        }
    }
    return count;
}

static void compare_equal(const lk_column_rows *rows, const needle *n, const char *end, uint8_t *out)
{
    size_t done = rows->type.layout == LK_LAYOUT_BYTES32 ? equal_texts(rows, n->value, out) : 0;
    for (size_t i = done; i < rows->count; i++) {
        lk_bytes row = bytes_at(rows, i);
        out[i] = equals(row, (size_t)(end - row.data), n) ? LK_TRUE : LK_FALSE;
    }
}

static void compare_bytes(const lk_column_rows *rows, lk_compare compare, lk_bytes value, uint8_t *out)
{
    needle      n = {value, head_of(value.data, value.size, value.size)};
    const char *end = rows->count == 0 ? NULL : end_of_bytes(rows);
    if (compare == LK_EQ || compare == LK_NE) {
        compare_equal(rows, &n, end, out);
        if (compare == LK_NE) {
            lk_truth_not(rows->count, out);
        }
        return;
    }
    for (size_t i = 0; i < rows->count; i++) {
        lk_bytes row = bytes_at(rows, i);
        out[i] = satisfies(order_bytes(row, (size_t)(end - row.data), &n), compare) ? LK_TRUE : LK_FALSE;
    }
}

void lk_truth_prefix(const lk_column_rows *rows, lk_bytes prefix, uint8_t *truth)
{
    for (size_t i = 0; i < rows->count; i++) {
        truth[i] = lk_bytes_starts(bytes_at(rows, i), prefix) ? LK_TRUE : LK_FALSE;
    }
}

/* -- all ---------------------------------------------------------------------------------------------- */

void lk_truth_compare(const lk_column_rows *rows, lk_compare compare, const lk_value *value, uint8_t *truth)
{
    int128 number = 0;
    (void)as_integer(value, &number);
    switch (rows->comparable) {
    case LK_COMPARABLE_BOOL:
        compare_bool(rows, compare, number, truth);
        return;
    case LK_COMPARABLE_SIGNED:
        compare_signed(rows, compare, number, truth);
        return;
    case LK_COMPARABLE_UNSIGNED:
        compare_unsigned(rows, compare, number, truth);
        return;
    case LK_COMPARABLE_FLOAT:
        compare_float(rows, compare, value->as.f64, truth);
        return;
    case LK_COMPARABLE_BYTES:
    case LK_COMPARABLE_FIXED_BYTES:
        compare_bytes(rows, compare, value->as.bytes, truth);
        return;
    case LK_COMPARABLE_DECIMAL128:
        compare_decimal(rows, compare, number, truth);
        return;
    case LK_COMPARABLE_NONE:
        break;
    }
    memset(truth, LK_NULL, rows->count);
}

/* -- keys ---------------------------------------------------------------------------------------------- */

bool lk_has_key(const lk_column_rows *rows)
{
    bool bytes = rows->comparable == LK_COMPARABLE_BYTES || rows->comparable == LK_COMPARABLE_FIXED_BYTES;
    return rows->comparable != LK_COMPARABLE_NONE && !bytes && rows->type.width <= 8;
}

static uint64_t key_of_float(double number)
{
    uint64_t bits = UINT64_MAX; /* NaN, whichever */
    number = number == 0 ? 0 : number;
    if (number == number) {
        memcpy(&bits, &number, 8);
    }
    return bits;
}

#define KEYS(type, key)                           \
    for (size_t i = 0; i < rows->count; i++) {    \
        const type value = ((const type *)at)[i]; \
        keys[i] = (key);                          \
    }                                             \
    return

static void integer_keys(const lk_column_rows *rows, const void *at, uint64_t *keys)
{
    bool is_unsigned = rows->comparable == LK_COMPARABLE_UNSIGNED;
    switch (rows->type.width) {
    case 1:
        KEYS(uint8_t, is_unsigned ? value : (uint64_t)(int8_t)value);
    case 2:
        KEYS(uint16_t, is_unsigned ? value : (uint64_t)(int16_t)value);
    case 4:
        KEYS(uint32_t, is_unsigned ? value : (uint64_t)(int32_t)value);
    default:
        KEYS(uint64_t, value);
    }
}

void lk_column_keys(const lk_column_rows *rows, uint64_t *keys)
{
    double      space[LK_TRUTH_ROWS];
    uint8_t     bytes[LK_TRUTH_ROWS];
    const void *at = (const char *)rows->array->buffers[1] + (size_t)rows->start * rows->type.width;
    if (rows->comparable == LK_COMPARABLE_FLOAT) {
        at = as_doubles(rows, space);
        KEYS(double, key_of_float(value));
    }
    if (rows->comparable == LK_COMPARABLE_BOOL) {
        lk_bits_expand(rows->array->buffers[1], rows->start, (int64_t)rows->count, bytes);
        at = bytes;
        KEYS(uint8_t, value);
    }
    integer_keys(rows, at, keys);
}

bool lk_value_key(const lk_column_rows *rows, const lk_value *value, uint64_t *key)
{
    int128 number = 0;
    if (rows->comparable == LK_COMPARABLE_FLOAT) {
        *key = key_of_float(value->as.f64);
        return true;
    }
    (void)as_integer(value, &number);
    *key = (uint64_t)number;
    bool is_unsigned = rows->comparable == LK_COMPARABLE_UNSIGNED;
    return is_unsigned ? number >= 0 && number <= UINT64_MAX : number >= INT64_MIN && number <= INT64_MAX;
}

lk_value lk_value_at(const lk_column_rows *rows, size_t row)
{
    if (rows->comparable == LK_COMPARABLE_DECIMAL128) {
        const char *at = (const char *)rows->array->buffers[1] + ((size_t)rows->start + row) * 16;
        lk_value    value = {.kind = LK_VALUE_DECIMAL128};
        value.as.decimal128.low = lk_load_u64(at);
        value.as.decimal128.high = (int64_t)lk_load_u64(at + 8);
        return value;
    }
    return (lk_value){.kind = LK_VALUE_BYTES, .as.bytes = bytes_at(rows, row)};
}

void lk_truth_nulls(const lk_column_rows *rows, uint8_t *truth)
{
    uint8_t        valid[LK_TRUTH_ROWS];
    const uint8_t *bits = lk_array_validity(rows->array);
    if (bits == NULL) {
        return;
    }
    lk_bits_expand(bits, rows->start, (int64_t)rows->count, valid);
    for (size_t i = 0; i < rows->count; i++) {
        truth[i] = (uint8_t)(valid[i] ? truth[i] : LK_NULL);
    }
}

void lk_truth_is_null(const lk_column_rows *rows, bool wanted, uint8_t *truth)
{
    if (rows->type.layout == LK_LAYOUT_NULL) {
        memset(truth, wanted ? LK_TRUE : LK_FALSE, rows->count);
        return;
    }
    lk_bits_expand(lk_array_validity(rows->array), rows->start, (int64_t)rows->count, truth);
    uint8_t flip = wanted ? 1 : 0;
    for (size_t i = 0; i < rows->count; i++) {
        truth[i] = (uint8_t)((truth[i] ^ flip) << 1);
    }
}

void lk_truth_and(const uint8_t *restrict other, size_t count, uint8_t *restrict truth)
{
    for (size_t i = 0; i < count; i++) {
        truth[i] = truth[i] < other[i] ? truth[i] : other[i];
    }
}

void lk_truth_or(const uint8_t *restrict other, size_t count, uint8_t *restrict truth)
{
    for (size_t i = 0; i < count; i++) {
        truth[i] = truth[i] > other[i] ? truth[i] : other[i];
    }
}

void lk_truth_not(size_t count, uint8_t *truth)
{
    for (size_t i = 0; i < count; i++) {
        truth[i] = (uint8_t)(LK_TRUE - truth[i]);
    }
}

void lk_truth_select(const uint8_t *restrict truth, size_t count, uint8_t *restrict selection)
{
    for (size_t i = 0; i < count; i++) {
        selection[i] = truth[i] >> 1;
    }
}
