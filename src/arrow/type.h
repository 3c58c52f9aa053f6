#ifndef LK_ARROW_TYPE_H
#define LK_ARROW_TYPE_H
/*
 * type.h - what a field's format string says, taken apart once: logical type, physical layout, parameters.
 *
 * Invariant: for every type lk_type_of accepts, lk_layout and width describe its buffers completely, so
 * kernels switch on the layout (nine cases) and never on the type. Threads: stateless.
 */
#include "base/bytes.h"

#include <nanoarrow/nanoarrow.h>

typedef enum lk_type_id {
    LK_TYPE_NULL,
    LK_TYPE_BOOL,
    LK_TYPE_INT8,
    LK_TYPE_INT16,
    LK_TYPE_INT32,
    LK_TYPE_INT64,
    LK_TYPE_UINT8,
    LK_TYPE_UINT16,
    LK_TYPE_UINT32,
    LK_TYPE_UINT64,
    LK_TYPE_FLOAT16,
    LK_TYPE_FLOAT32,
    LK_TYPE_FLOAT64,
    LK_TYPE_DECIMAL32,
    LK_TYPE_DECIMAL64,
    LK_TYPE_DECIMAL128,
    LK_TYPE_DECIMAL256,
    LK_TYPE_UTF8,
    LK_TYPE_LARGE_UTF8,
    LK_TYPE_BINARY,
    LK_TYPE_LARGE_BINARY,
    LK_TYPE_FIXED_BINARY,
    LK_TYPE_DATE32,
    LK_TYPE_DATE64,
    LK_TYPE_TIME32,
    LK_TYPE_TIME64,
    LK_TYPE_TIMESTAMP,
    LK_TYPE_DURATION,
    LK_TYPE_INTERVAL_MONTH,
    LK_TYPE_INTERVAL_DAY,
    LK_TYPE_INTERVAL_NANO,
    LK_TYPE_LIST,
    LK_TYPE_LARGE_LIST,
    LK_TYPE_FIXED_LIST,
    LK_TYPE_STRUCT,
    LK_TYPE_MAP
} lk_type_id;

/* How the buffers look. Every array but LK_LAYOUT_NULL has a validity bitmap in buffers[0] (or NULL). */
typedef enum lk_layout {
    LK_LAYOUT_NULL,       /* no buffers */
    LK_LAYOUT_BITS,       /* [1] one bit a value */
    LK_LAYOUT_FIXED,      /* [1] width bytes a value */
    LK_LAYOUT_BYTES32,    /* [1] int32 offsets, [2] bytes */
    LK_LAYOUT_BYTES64,    /* [1] int64 offsets, [2] bytes */
    LK_LAYOUT_LIST32,     /* [1] int32 offsets into child 0 (lists and maps) */
    LK_LAYOUT_LIST64,     /* [1] int64 offsets into child 0 */
    LK_LAYOUT_FIXED_LIST, /* list_size values of child 0 each */
    LK_LAYOUT_STRUCT      /* children side by side */
} lk_layout;

typedef enum lk_unit { LK_UNIT_SECOND, LK_UNIT_MILLI, LK_UNIT_MICRO, LK_UNIT_NANO } lk_unit;

typedef struct lk_type {
    lk_type_id id;
    lk_layout  layout;
    uint32_t   width;            /* bytes a value of LK_LAYOUT_FIXED */
    lk_unit    unit;             /* time, timestamp, duration */
    int32_t    precision, scale; /* decimals */
    int64_t    list_size;        /* LK_TYPE_FIXED_LIST */
    lk_bytes   zone;             /* LK_TYPE_TIMESTAMP; empty: none. Borrows from the schema */
    bool       dictionary;       /* the above describes the indices; the values are schema->dictionary */
} lk_type;

/* Takes schema->format apart. False for a malformed format and for types lake does not carry (unions,
 * views, run-end encoded). Children are not looked at, but their number is. */
bool lk_type_of(const struct ArrowSchema *schema, lk_type *out);

int64_t lk_layout_buffers(lk_layout layout); /* how many a layout has */

static inline bool lk_type_is_signed(lk_type_id id)
{
    return id >= LK_TYPE_INT8 && id <= LK_TYPE_INT64;
}
static inline bool lk_type_is_unsigned(lk_type_id id)
{
    return id >= LK_TYPE_UINT8 && id <= LK_TYPE_UINT64;
}
static inline bool lk_type_is_integer(lk_type_id id)
{
    return id >= LK_TYPE_INT8 && id <= LK_TYPE_UINT64;
}
static inline bool lk_type_is_float(lk_type_id id)
{
    return id >= LK_TYPE_FLOAT16 && id <= LK_TYPE_FLOAT64;
}
static inline bool lk_type_is_decimal(lk_type_id id)
{
    return id >= LK_TYPE_DECIMAL32 && id <= LK_TYPE_DECIMAL256;
}
static inline bool lk_type_is_bytes(lk_type_id id)
{
    return id >= LK_TYPE_UTF8 && id <= LK_TYPE_LARGE_BINARY;
}

float    lk_float16_to_float(uint16_t bits);
uint16_t lk_float16_of_float(float value); /* nearest, ties to even */

#endif
