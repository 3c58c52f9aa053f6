#ifndef LK_ENGINE_ENGINE_CONTRACT_FIXTURE_H
#define LK_ENGINE_ENGINE_CONTRACT_FIXTURE_H
/*
 * engine_contract_fixture.h - the one suite that every lk_engine passes (engine.h). A body's test makes a
 * contract with its own setup and hands it to engine_contract_run.
 */
#include "engine/engine.h"

typedef struct contract {
    lk_engine *engine;
    lk_kv     *kv;
    lk_store  *store; /* of the location below, as a stranger would open it */
    lk_bytes   location;
    lk_arena   arena;
    lk_err     err;
} contract;

int engine_contract_run(const char *name, int (*setup)(void **state), int (*teardown)(void **state));

#endif
