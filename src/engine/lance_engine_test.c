/* lance_engine_test.c - the Lance engine passes the contract of engine.h on local files, and keeps tables
 * open. */
#include "engine/engine_contract_fixture.h"

#include "base/file.h"
#include "engine/lance_engine.h"
#include "engine/mem_rows.h"
#include "engine/pointer.h"
#include "io/local.h"
#include "kv/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

typedef struct fixture {
    contract contract; /* first */
    char     root[64];
    char     location[128];
} fixture;

static int setup(void **state)
{
    fixture  *f = calloc(1, sizeof *f);
    contract *c = &f->contract;
    snprintf(f->root, sizeof f->root, "/tmp/lake-engine-XXXXXX");
    assert_non_null(mkdtemp(f->root));
    snprintf(f->location, sizeof f->location, "%s/ns/t/x.lance", f->root);
    c->location = lk_bytes_of(f->location);
    c->kv = lk_kv_mem_open(NULL);
    const lk_lance_engine_options options = {.kv = c->kv, .clock = lk_clock_real(), .random = lk_random_os()};
    assert_int_equal(lk_lance_engine_open(&c->engine, &options, &c->err), LK_OK);
    assert_int_equal(lk_local_store_open(&c->store, c->location, true, &c->err), LK_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    lk_err   err = {0};
    f->contract.engine->ops->close(f->contract.engine);
    lk_store_close(f->contract.store);
    lk_kv_close(f->contract.kv);
    lk_arena_close(&f->contract.arena);
    assert_int_equal(lk_directory_remove(f->root, &err), LK_OK);
    free(f);
    return 0;
}

int main(void)
{
    return engine_contract_run("lance_engine", setup, teardown);
}
