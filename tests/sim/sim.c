/* sim.c - see sim.h. Fibers are ucontext; the scheduler picks among the due ones by the seed. */
#include "sim.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define SWITCH_START(save, stack, size) __sanitizer_start_switch_fiber((save), (stack), (size))
#define SWITCH_DONE(saved, stack, size) __sanitizer_finish_switch_fiber((saved), (stack), (size))
#else
#define SWITCH_START(save, stack, size) ((void)(save), (void)(stack))
#define SWITCH_DONE(saved, stack, size) ((void)(saved))
#endif

enum { FIBERS_MAX = 1024, STACK_BYTES = 512 * 1024 };

typedef struct fiber {
    ucontext_t context;
    void      *stack; /* kept for the next user of the slot */
    void      *fake_stack;
    void (*run)(void *);
    void       *argument;
    const void *waits_for;
    uint64_t    wake_ms;
    unsigned    group, held;
    bool        alive, woken, parked;
} fiber;

static struct {
    ucontext_t  scheduler;
    const void *scheduler_stack;
    size_t      scheduler_stack_size;
    void       *scheduler_fake_stack;
    fiber       fibers[FIBERS_MAX];
    int         count, current;
    uint64_t    now_ms, seed, state;
    uint64_t    paused_until[SIM_GROUPS_MAX];
    bool        dead[SIM_GROUPS_MAX];
} s;

void sim_open(uint64_t seed)
{
    s.seed = seed;
    s.state = (seed + 1) * 0x9e3779b97f4a7c15u;
    s.now_ms = 100000;
    s.current = -1;
    memset(s.paused_until, 0, sizeof s.paused_until);
    memset(s.dead, 0, sizeof s.dead);
}

void sim_close(void)
{
    for (int i = 0; i < s.count; i++) {
        s.fibers[i].alive = false;
    }
}

uint64_t sim_seed(void)
{
    return s.seed;
}

uint64_t sim_random(uint64_t below)
{
    s.state ^= s.state << 13; /* xorshift64 (Marsaglia) */
    s.state ^= s.state >> 7;
    s.state ^= s.state << 17;
    return (s.state >> 11) % below;
}

bool sim_chance(uint64_t one_in)
{
    return sim_random(one_in) == 0;
}

uint64_t sim_now_ms(void)
{
    return s.now_ms;
}

unsigned sim_group(void)
{
    return s.current < 0 ? SIM_NO_GROUP : s.fibers[s.current].group;
}

unsigned *sim_held(void)
{
    static unsigned outside;
    return s.current < 0 ? &outside : &s.fibers[s.current].held;
}

static void back_to_scheduler(fiber *f)
{
    SWITCH_START(&f->fake_stack, s.scheduler_stack, s.scheduler_stack_size);
    swapcontext(&f->context, &s.scheduler);
    SWITCH_DONE(f->fake_stack, &s.scheduler_stack, &s.scheduler_stack_size);
}

static void trampoline(void)
{
    fiber *f = &s.fibers[s.current];
    SWITCH_DONE(NULL, &s.scheduler_stack, &s.scheduler_stack_size);
    for (;;) {
        f->run(f->argument);
        f->alive = false;
        f->parked = true;
        back_to_scheduler(f);
    }
}

static fiber *free_slot(void)
{
    for (int i = 0; i < s.count; i++) {
        if (!s.fibers[i].alive && i != s.current) {
            return &s.fibers[i];
        }
    }
    LK_ASSERT(s.count < FIBERS_MAX);
    return &s.fibers[s.count++];
}

static void make_stack(fiber *f)
{
    if (f->stack == NULL) {
        f->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        LK_ASSERT(f->stack != MAP_FAILED);
    }
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&f->context, trampoline, 0);
}

void sim_spawn(unsigned group, void (*run)(void *context), void *context)
{
    fiber *f = free_slot();
    LK_ASSERT(group < SIM_GROUPS_MAX && !s.dead[group]);
    if (!f->parked) {
        make_stack(f);
    }
    f->run = run;
    f->argument = context;
    f->waits_for = NULL;
    f->wake_ms = s.now_ms;
    f->group = group;
    f->held = 0;
    f->alive = true;
    f->woken = f->parked = false;
}

void sim_kill(unsigned group)
{
    LK_ASSERT(group != SIM_NO_GROUP && group != sim_group());
    s.dead[group] = true;
    for (int i = 0; i < s.count; i++) {
        if (s.fibers[i].group == group) {
            s.fibers[i].alive = false;
        }
    }
}

void sim_pause(unsigned group, uint64_t ms)
{
    s.paused_until[group] = s.now_ms + ms;
}

bool sim_wait(const void *object, uint64_t until_ms)
{
    fiber *f = &s.fibers[s.current];
    f->waits_for = object;
    f->wake_ms = until_ms;
    f->woken = false;
    back_to_scheduler(f);
    f->waits_for = NULL;
    return f->woken;
}

void sim_sleep(uint64_t ms)
{
    (void)sim_wait(NULL, s.now_ms + ms);
}

void sim_wake(const void *object)
{
    for (int i = 0; i < s.count; i++) {
        fiber *f = &s.fibers[i];
        if (f->alive && f->waits_for == object && object != NULL) {
            f->woken = true;
            f->wake_ms = s.now_ms;
            f->waits_for = NULL;
        }
    }
}

/* A due fiber, all equally likely; -1 when none is, and then when the next will be. */
static int pick(uint64_t *next_ms)
{
    int due = 0, chosen = -1;
    *next_ms = UINT64_MAX;
    for (int i = 0; i < s.count; i++) {
        const fiber *f = &s.fibers[i];
        if (!f->alive) {
            continue;
        }
        uint64_t paused = s.paused_until[f->group];
        uint64_t at = f->wake_ms > paused ? f->wake_ms : paused;
        if (at <= s.now_ms && sim_random((uint64_t)++due) == 0) {
            chosen = i;
        }
        *next_ms = at < *next_ms ? at : *next_ms;
    }
    return chosen;
}

bool sim_step(uint64_t until_ms)
{
    uint64_t next_ms = 0;
    int      chosen = pick(&next_ms);
    if (chosen < 0) {
        if (next_ms > until_ms) {
            return false;
        }
        s.now_ms = next_ms;
        chosen = pick(&next_ms);
    }
    fiber *f = &s.fibers[chosen];
    s.current = chosen;
    SWITCH_START(&s.scheduler_fake_stack, f->stack, STACK_BYTES);
    swapcontext(&s.scheduler, &f->context);
    SWITCH_DONE(s.scheduler_fake_stack, NULL, NULL);
    s.current = -1;
    return true;
}
