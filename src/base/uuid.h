#ifndef LK_BASE_UUID_H
#define LK_BASE_UUID_H
/* uuid.h - RFC 9562 ids: v7 for everything that is made (incarnations, operations, files), v5 for what a name gives. */
#include "base/bytes.h"
#include "base/clock.h"
#include "base/rand.h"

enum { LK_UUID_TEXT_SIZE = 36 };

typedef struct lk_uuid {
    uint8_t bytes[16];
} lk_uuid;

lk_uuid  lk_uuid_v7(lk_clock *clock, lk_random *random);
lk_uuid  lk_uuid_v5(lk_uuid name_space, lk_bytes name); /* the first bytes of SHA-1(name_space, name) */
bool     lk_uuid_parse(lk_bytes text, lk_uuid *out);    /* hyphenated form, any case */
void     lk_uuid_format(lk_uuid uuid, char out[LK_UUID_TEXT_SIZE + 1]); /* lower case */
int      lk_uuid_version(lk_uuid uuid);
uint64_t lk_uuid_v7_ms(lk_uuid uuid); /* the embedded Unix time */

#endif
