#ifndef LK_LANCE_WIRE_H
#define LK_LANCE_WIRE_H
/*
 * wire.h - one protobuf field after another, without knowing the message: what a rewrite that must keep
 * unknown fields needs. Threads: stateless.
 */
#include "base/bytes.h"

typedef struct lk_wire_field {
    uint32_t number;
    lk_bytes whole; /* tag included */
    lk_bytes value; /* of a length-delimited or fixed-width field; empty for a varint */
} lk_wire_field;

/* Takes the next field off *rest (which is not empty); false when it is malformed. Groups are. */
bool lk_wire_next(lk_bytes *rest, lk_wire_field *out);

#endif
