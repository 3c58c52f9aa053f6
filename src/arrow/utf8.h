#ifndef LK_ARROW_UTF8_H
#define LK_ARROW_UTF8_H
/* utf8.h - is it UTF-8 (RFC 3629: no surrogates, nothing above U+10FFFF, shortest forms only)? Stateless. */
#include "base/bytes.h"

bool lk_utf8_valid(const void *data, size_t size);
bool lk_ascii_only(const void *data, size_t size);

#endif
