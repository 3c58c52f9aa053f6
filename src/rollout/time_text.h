#ifndef LK_ROLLOUT_TIME_TEXT_H
#define LK_ROLLOUT_TIME_TEXT_H
/* time_text.h - instants in microseconds since 1970 UTC as RFC 3339 texts. Years 0000 to 9999. Threads: stateless. */
#include "base/bytes.h"

enum { LK_TIME_TEXT_MAX = 32 };

/* Any offset; a lower-case t or z and a blank for the T, as RFC 3339 allows; digits below a microsecond are cut. A leap
 * second is the second after it. false when the text is none. */
bool lk_time_read(lk_bytes text, int64_t *us);

/* UTC with a Z and the fewest of 0, 3 or 6 fraction digits that are exact. Returns how many characters; no NUL. Nothing
 * (0) for an instant outside these years. */
size_t lk_time_write(int64_t us, char out[LK_TIME_TEXT_MAX]);

#endif
