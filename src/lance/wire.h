#ifndef LK_LANCE_WIRE_H
#define LK_LANCE_WIRE_H
/*
 * wire.h - one protobuf field after another, without knowing the message, read and written: what a rewrite that
 * must keep unknown fields needs. Threads: stateless.
 */
#include "base/bytes.h"

typedef struct lk_wire_field {
    uint32_t number;
    lk_bytes whole;  /* tag included */
    lk_bytes value;  /* of a length-delimited or fixed-width field; empty for a varint */
    uint64_t varint; /* of a varint, else 0 */
} lk_wire_field;

/* Takes the next field off *rest (which is not empty); false when it is malformed. Groups are. */
bool lk_wire_next(lk_bytes *rest, lk_wire_field *out);

/* Takes a varint off *rest, as packed fields have them; false when it is malformed. */
bool lk_wire_take_varint(lk_bytes *rest, uint64_t *value);

/* How many bytes a varint takes; written at `at`, which has room: behind it. */
enum { LK_WIRE_VARINT_MAX = 10 };
size_t lk_wire_varint_size(uint64_t value);
char  *lk_wire_write_varint(char *at, uint64_t value);

/* Append one field. A message may be put together from them in any order. */
void lk_wire_put_u64(lk_buf *out, uint32_t number, uint64_t value);
void lk_wire_put_bytes(lk_buf *out, uint32_t number, lk_bytes value);

/* Appends the message without its fields of this number; false when it is malformed. */
bool lk_wire_copy_without(lk_bytes message, uint32_t number, lk_buf *out);

#endif
