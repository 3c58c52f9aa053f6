#ifndef LK_ROLLOUT_FLOAT_TEXT_H
#define LK_ROLLOUT_FLOAT_TEXT_H
/*
 * float_text.h - 32-bit floats as JSON numbers, both ways without loss: reading rounds the decimal to the nearest float
 * (ties to even), writing gives the shortest decimal that reads back as the same float.
 * Threads: stateless.
 */
#include "base/bytes.h"

enum { LK_FLOAT_TEXT_MAX = 24 };

/*
 * The value of a JSON number that starts at `text`, which ends before `end`. *next is behind its last character. false when
 * there is none (RFC 8259: no leading zeros or plus, a digit on both sides of the point) or it exceeds the largest
 * float; then *next is undefined.
 */
bool lk_float_read(const char *text, const char *end, float *value, const char **next);

/* The value must be finite. Returns how many characters were written; no NUL. A whole number has a ".0", as the
 * reference's has; exponents are used from 1e16 up and below 1e-5. */
size_t lk_float_write(float value, char out[LK_FLOAT_TEXT_MAX]);

#endif
