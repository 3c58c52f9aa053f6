#ifndef LK_LANCE_FAULT_FIXTURE_H
#define LK_LANCE_FAULT_FIXTURE_H
/*
 * fault_fixture.h - for this room's tests only: a change is made again and again, each time with another of its calls to the
 * store failing, until one meets no fault.
 */
#include "base/fault.h"
#include "lance/table_fixture.h"

typedef struct fixture_faults {
    fixture_scratch scratch; /* new for every round */
    lk_fault_plan   plan;
    lk_fault        kind;
    int64_t         calls_until;
    bool            fired;
    lk_store       *plain, *faulty; /* over the same directory */
    lk_lance_env    env, faulty_env;
    const void     *context; /* the caller's */
} fixture_faults;

/*
 * Runs round for every kind of fault, and with each for the first, second, ... call through faulty_env after fixture_arm. A round
 * prepares over env, arms, makes its change over faulty_env, disarms, and checks what is there over env. More than calls_min calls
 * could fail.
 */
void fixture_every_call_fails(void (*round)(fixture_faults *f), const void *context, int64_t calls_min);

void fixture_arm(fixture_faults *f);
/* rc is what the change said: an error where a call failed, and only then. True: the change failed for certain, so nothing of it
 * may be there. */
bool fixture_disarm(fixture_faults *f, lk_rc rc, const lk_err *err);

#endif
