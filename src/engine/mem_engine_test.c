/* mem_engine_test.c - the memory engine passes the contract of engine.h. */
#include "engine/engine_contract_fixture.h"

#include "engine/mem_engine.h"
#include "kv/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct fixture {
    contract     contract; /* first */
    lk_mem_disk *disk;
} fixture;

static int setup(void **state)
{
    fixture  *f = calloc(1, sizeof *f);
    contract *c = &f->contract;
    f->disk = lk_mem_disk_new();
    c->kv = lk_kv_mem_open(NULL);
    c->location = LK_LITERAL("/tables/ns/t/x.lance");
    const lk_mem_engine_options options = {
        .kv = c->kv, .disk = f->disk, .clock = lk_clock_real(), .random = lk_random_os()};
    assert_int_equal(lk_mem_engine_open(&c->engine, &options, &c->err), LK_OK);
    assert_int_equal(lk_mem_store_open(&c->store, f->disk, c->location, (lk_mem_hook){0}, &c->err), LK_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    f->contract.engine->ops->close(f->contract.engine);
    lk_store_close(f->contract.store);
    lk_kv_close(f->contract.kv);
    lk_mem_disk_free(f->disk);
    lk_arena_close(&f->contract.arena);
    free(f);
    return 0;
}

int main(void)
{
    return engine_contract_run("mem_engine", setup, teardown);
}
