#ifndef LK_FLIGHT_PB_H
#define LK_FLIGHT_PB_H
/*
 * pb.h - protobuf by table: a struct and a list of its fields give both directions; and the wire by hand.
 *
 * Invariants: reading never leaves the bytes it was given, and allocates in proportion to them; nesting is as
 * deep as the tables are. Threads: stateless.
 */
#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"

typedef enum lk_pb_type {
    LK_PB_UINT,       /* uint64_t; enums too */
    LK_PB_INT,        /* int64_t; int32 and int64 on the wire */
    LK_PB_BOOL,       /* bool */
    LK_PB_BYTES,      /* lk_bytes, left out when empty */
    LK_PB_TEXT,       /* the same, UTF-8 */
    LK_PB_KEY,        /* text that is written even when empty (map entries) */
    LK_PB_OPT_BYTES,  /* lk_bytes, absent when data == NULL */
    LK_PB_OPT_TEXT,   /* the same, UTF-8 */
    LK_PB_OPT_INT,    /* int64_t, with a bool at `extra` */
    LK_PB_OPT_DOUBLE, /* double, with a bool at `extra` */
    LK_PB_TEXTS,      /* lk_bytes *, with a count at `extra`; UTF-8 */
    LK_PB_UINT32S,    /* uint32_t *, with a count at `extra`; packed, read either way */
    LK_PB_ONE,        /* a struct whose first member is `bool present` */
    LK_PB_MANY        /* struct *, with a count at `extra` */
} lk_pb_type;

typedef struct lk_pb_message lk_pb_message;

typedef struct lk_pb_field {
    uint32_t             number;
    lk_pb_type           type;
    size_t               offset, extra;
    const lk_pb_message *of; /* LK_PB_ONE, LK_PB_MANY */
} lk_pb_field;

struct lk_pb_message {
    const char        *name;
    size_t             size;   /* of the struct */
    const lk_pb_field *fields; /* ascending by number */
    size_t             field_count;
};

/* Fills *out (zeroed first). LK_E_INVALID_REQUEST naming the message. */
LK_MUST_CHECK lk_rc lk_pb_read(
    const lk_pb_message *message, lk_bytes bytes, lk_arena *arena, void *out, lk_err *err);
void lk_pb_write(const lk_pb_message *message, const void *in, lk_buf *out);

/* -- the wire, for what is coded by hand -- */

typedef struct lk_pb_cursor {
    const uint8_t *at, *end;
    bool           bad; /* sticky */
} lk_pb_cursor;

typedef struct lk_pb_item {
    uint32_t number, wire_type;
    uint64_t value; /* wire types 0, 1, 5 */
    lk_bytes bytes; /* wire type 2; data is never NULL */
} lk_pb_item;

enum { LK_PB_VARINT = 0, LK_PB_FIXED64 = 1, LK_PB_LENGTH = 2, LK_PB_FIXED32 = 5, LK_PB_VARINT_SIZE_MAX = 10 };

static inline lk_pb_cursor lk_pb_cursor_of(lk_bytes bytes)
{
    const uint8_t *start = (const uint8_t *)(bytes.data == NULL ? "" : bytes.data);
    return (lk_pb_cursor){start, start + bytes.size, false};
}

uint64_t lk_pb_varint(lk_pb_cursor *cursor);
bool     lk_pb_next(lk_pb_cursor *cursor, lk_pb_item *out); /* false at the end, and when bad */

void lk_pb_put_varint(lk_buf *out, uint64_t value);
void lk_pb_put_tag(lk_buf *out, uint32_t number, uint32_t wire_type);
void lk_pb_put_bytes(lk_buf *out, uint32_t number, lk_bytes bytes);
void lk_pb_put_uint(lk_buf *out, uint32_t number, uint64_t value);

#endif
