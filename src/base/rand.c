/* rand.c - see rand.h. The seeded generator is xoshiro256**, its state filled by splitmix64. */
#include "base/rand.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static void os_fill(lk_random *random, void *out, size_t size)
{
    (void)random;
    for (size_t done = 0; done < size;) {
        ssize_t n = getrandom((char *)out + done, size - done, 0);
        LK_ASSERT(n > 0 || errno == EINTR);
        done += n > 0 ? (size_t)n : 0;
    }
}

lk_random *lk_random_os(void)
{
    static lk_random os = {os_fill};
    return &os;
}

static uint64_t rotate(uint64_t value, int by)
{
    return value << by | value >> (64 - by);
}

static uint64_t seeded_next(uint64_t s[4])
{
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

static void seeded_fill(lk_random *random, void *out, size_t size)
{
    lk_seeded_random *self = (lk_seeded_random *)random;
    for (size_t done = 0; done < size; done += sizeof(uint64_t)) {
        uint64_t word = seeded_next(self->state);
        size_t   left = size - done;
        memcpy((char *)out + done, &word, left < sizeof word ? left : sizeof word);
    }
}

void lk_seeded_random_init(lk_seeded_random *random, uint64_t seed)
{
    random->base.fill = seeded_fill;
    for (int i = 0; i < 4; i++) {
        seed += 0x9E3779B97F4A7C15u;
        uint64_t z = seed;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        random->state[i] = z ^ z >> 31;
    }
}

uint64_t lk_random_u64(lk_random *random)
{
    uint64_t value;
    random->fill(random, &value, sizeof value);
    return value;
}

uint64_t lk_random_below(lk_random *random, uint64_t bound)
{
    LK_ASSERT(bound > 0);
    uint64_t skip = -bound % bound; /* 2^64 mod bound: values below it would make low results likelier */
    uint64_t value;
    do {
        value = lk_random_u64(random);
    } while (value < skip);
    return value % bound;
}
