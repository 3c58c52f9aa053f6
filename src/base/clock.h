#ifndef LK_BASE_CLOCK_H
#define LK_BASE_CLOCK_H
/*
 * clock.h - time as an interface. Durable deadlines use wall time; local ones monotonic time.
 * Threads: shared; the real clock has no state.
 */
#include <stdint.h>

typedef struct lk_clock lk_clock;

struct lk_clock_ops {
    uint64_t (*wall_ms)(lk_clock *clock);      /* UTC, since 1970 */
    uint64_t (*monotonic_ms)(lk_clock *clock); /* never goes back */
    void (*sleep_ms)(lk_clock *clock, uint64_t ms);
};

struct lk_clock {
    const struct lk_clock_ops *ops;
};

static inline uint64_t lk_clock_wall_ms(lk_clock *clock)
{
    return clock->ops->wall_ms(clock);
}
static inline uint64_t lk_clock_monotonic_ms(lk_clock *clock)
{
    return clock->ops->monotonic_ms(clock);
}
static inline void lk_clock_sleep_ms(lk_clock *clock, uint64_t ms)
{
    clock->ops->sleep_ms(clock, ms);
}

lk_clock *lk_clock_real(void);   /* constant; never closed */
uint64_t  lk_clock_now_us(void); /* the real monotonic clock in microseconds: measurements only */

/* A clock that a test moves by hand. */
typedef struct lk_manual_clock {
    lk_clock base;
    uint64_t wall_ms, monotonic_ms; /* sleep_ms advances both */
} lk_manual_clock;
void lk_manual_clock_init(lk_manual_clock *clock, uint64_t wall_ms);

#endif
