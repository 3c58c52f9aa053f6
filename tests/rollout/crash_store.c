/* crash_store.c - see crash_store.h. */
#include "crash_store.h"

#include "io/wrap.h"
#include "rollout/shard_manifest.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct crash_store {
    lk_wrap_store wrap;
    crash_plan   *plan;
} crash_store;

static const char *const names[] = {
#define X(name) #name,
    CRASH_STEPS(X)
#undef X
};

const char *crash_step_name(crash_step step)
{
    return names[step];
}

/* -- when ------------------------------------------------------------------------------------------------------------- */

static void die(void)
{
    (void)kill(getpid(), SIGKILL);
    for (;;) {
        (void)pause();
    }
}

/* The call of this step that is about to be made: true when the process dies right after it. */
static bool begin(crash_plan *plan, crash_step step)
{
    if (step != plan->step || plan->calls_until < 0 || plan->calls_until-- > 0) {
        return false;
    }
    if (!plan->after) {
        die();
    }
    return true;
}

static bool has(lk_bytes key, const char *part)
{
    size_t size = strlen(part);
    return key.size >= size && memmem(key.data, key.size, part, size) != NULL;
}

static crash_step step_of_manifest(crash_plan *plan, lk_bytes bytes)
{
    lk_arena          arena = {0};
    lk_err            err = {0};
    lk_shard_manifest manifest = {0};
    bool              claims = lk_shard_manifest_decode(bytes, &arena, &manifest, &err) == LK_OK &&
                  manifest.writer_epoch != plan->epoch;
    plan->epoch = manifest.writer_epoch;
    lk_arena_close(&arena);
    return claims ? CRASH_claim : plan->phase == PHASE_MERGE ? CRASH_m4 : CRASH_manifest;
}

/* Of a write. CRASH_STEP_COUNT: of none. */
static crash_step step_of(crash_plan *plan, lk_bytes key, lk_bytes bytes)
{
    if (has(key, "_gen_")) {
        return CRASH_files;
    }
    if (has(key, "/wal/")) {
        return CRASH_log;
    }
    if (has(key, ".binpb")) {
        return bytes.size == 0 ? CRASH_empty : step_of_manifest(plan, bytes);
    }
    if (has(key, "version_hint.json")) {
        return CRASH_hint;
    }
    switch (plan->phase) {
    case PHASE_CREATE:
    case PHASE_ADD:
        return CRASH_create;
    case PHASE_COMPACT:
        return CRASH_compact;
    case PHASE_FOLD:
        return CRASH_fold;
    case PHASE_MERGE:
        return has(key, "_versions/") ? CRASH_m3 : CRASH_m2;
    case PHASE_NONE:
    case PHASE_COLLECT:
        break;
    }
    return CRASH_STEP_COUNT;
}

/* -- calls ------------------------------------------------------------------------------------------------------------ */

/* CRASH_STEP_COUNT: of none. */
static crash_step step_of_call(crash_plan *plan, const lk_store_call *call)
{
    switch (lk_store_verb_kind(call->verb)) {
    case LK_STORE_OPEN:
        return plan->phase == PHASE_MERGE ? CRASH_m1 : CRASH_STEP_COUNT;
    case LK_STORE_REMOVE:
        return plan->phase == PHASE_COLLECT ? CRASH_m5 : CRASH_STEP_COUNT;
    case LK_STORE_WRITE:
        return call->verb == LK_STORE_VERB_SYNC    ? CRASH_sync
               : call->key.size == 0               ? (crash_step)(call->note / 2) /* goes on with an object */
               : call->verb == LK_STORE_VERB_ALIAS ? step_of(plan, call->to, (lk_bytes){0})
                                                   : step_of(plan, call->key, call->bytes);
    case LK_STORE_READ:
    case LK_STORE_LIST:
    case LK_STORE_KINDS:
        break;
    }
    return CRASH_STEP_COUNT;
}

/* The note: twice the step, plus one where the process dies after the call. */
static lk_rc enter(lk_wrap_store *wrap, lk_store_call *call, lk_err *err)
{
    crash_plan *plan = ((crash_store *)wrap)->plan;
    crash_step  step = step_of_call(plan, call);
    (void)err;
    call->note = (uint64_t)step * 2 + begin(plan, step);
    return LK_OK;
}

static lk_rc leave(lk_wrap_store *wrap, lk_store_call *call, lk_rc rc, lk_err *err)
{
    (void)wrap;
    (void)err;
    if (call->note % 2 == 1) {
        die();
    }
    return rc;
}

/* One object after the other, so that a removal can be stopped amid. */
static lk_rc crash_remove_tree(lk_store *store, lk_bytes directory, lk_err *err)
{
    lk_store       *under = ((crash_store *)store)->wrap.under;
    lk_arena        arena = {0};
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    lk_rc           rc = lk_store_list(under, directory, &arena, &entries, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        lk_bytes key = lk_arena_format(&arena, "%.*s/%.*s", LK_FMT(directory), LK_FMT(entries[i].name));
        rc = entries[i].is_directory ? crash_remove_tree(store, key, err) : lk_store_remove(store, key, err);
    }
    if (rc == LK_OK) {
        rc = lk_store_remove_tree(under, directory, err);
    }
    lk_arena_close(&arena);
    return rc;
}

static void crash_close(lk_store *store)
{
    lk_store_close(((crash_store *)store)->wrap.under);
    free(store);
}

lk_store *crash_store_new(lk_store *under, crash_plan *plan)
{
    crash_store *s = calloc(1, sizeof *s);
    LK_ASSERT(s != NULL);
    *s = (crash_store){.wrap = {.writers = true, .enter = enter, .leave = leave}, .plan = plan};
    lk_wrap_store_init(&s->wrap, under);
    s->wrap.ops.remove_tree = crash_remove_tree;
    s->wrap.ops.remove_many = NULL; /* one after the other, too */
    s->wrap.ops.remove_unfinished = NULL;
    s->wrap.ops.close = crash_close;
    return &s->wrap.base;
}
