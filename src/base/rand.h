#ifndef LK_BASE_RAND_H
#define LK_BASE_RAND_H
/* rand.h - randomness as an interface: from the OS, or from a seed. Threads: the OS one is shared,
 * a seeded one is confined. */
#include <stddef.h>
#include <stdint.h>

typedef struct lk_random lk_random;

struct lk_random {
    void (*fill)(lk_random *random, void *out, size_t size);
};

typedef struct lk_seeded_random {
    lk_random base;
    uint64_t  state[4]; /* xoshiro256** (Blackman, Vigna; public domain) */
} lk_seeded_random;

lk_random *lk_random_os(void); /* constant; aborts when the OS has no randomness */
void       lk_seeded_random_init(lk_seeded_random *random, uint64_t seed);
uint64_t   lk_random_u64(lk_random *random);
uint64_t   lk_random_below(lk_random *random, uint64_t bound); /* uniform in [0, bound); bound > 0 */

#endif
