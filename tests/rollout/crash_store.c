/* crash_store.c - see crash_store.h. */
#include "crash_store.h"

#include "rollout/shard_manifest.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct crash_store {
    lk_store            base;
    struct lk_store_ops ops; /* without what the store beneath cannot */
    lk_store           *under;
    crash_plan         *plan;
} crash_store;

typedef struct crash_writer {
    lk_store_writer  base;
    lk_store_writer *under;
    crash_step       step;
} crash_writer;

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

static void end(bool dies)
{
    if (dies) {
        die();
    }
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
        return step_of_manifest(plan, bytes);
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

static crash_store *self_of(lk_store *store)
{
    return (crash_store *)store;
}

/* -- calls ------------------------------------------------------------------------------------------------------------ */

static lk_rc crash_open(lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    crash_store *s = self_of(store);
    bool         dies = s->plan->phase == PHASE_MERGE && begin(s->plan, CRASH_m1);
    lk_rc        rc = lk_store_open_object(s->under, key, out, size, err);
    end(dies);
    return rc;
}

static lk_rc crash_create(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    crash_store  *s = self_of(store);
    crash_writer *writer = calloc(1, sizeof *writer);
    LK_ASSERT(writer != NULL);
    writer->base.store = store;
    writer->step = step_of(s->plan, key, (lk_bytes){0});
    bool  dies = begin(s->plan, writer->step);
    lk_rc rc = lk_store_create(s->under, key, &writer->under, err);
    end(dies);
    if (rc != LK_OK) {
        free(writer);
        return rc;
    }
    *out = &writer->base;
    return LK_OK;
}

static lk_rc crash_write(lk_store_writer *base, const void *data, size_t size, lk_err *err)
{
    crash_writer *writer = (crash_writer *)base;
    bool          dies = begin(self_of(base->store)->plan, writer->step);
    lk_rc         rc = lk_store_write(writer->under, data, size, err);
    end(dies);
    return rc;
}

static lk_rc crash_finish(lk_store_writer *base, lk_err *err)
{
    crash_writer *writer = (crash_writer *)base;
    bool          dies = begin(self_of(base->store)->plan, writer->step);
    lk_rc         rc = lk_store_finish(writer->under, err);
    end(dies);
    free(writer);
    return rc;
}

static void crash_abandon(lk_store_writer *base)
{
    lk_store_abandon(((crash_writer *)base)->under);
    free(base);
}

static lk_rc crash_put(lk_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    crash_store *s = self_of(store);
    bool         dies = begin(s->plan, step_of(s->plan, key, bytes));
    lk_rc        rc = lk_store_put_if_absent(s->under, key, bytes, created, err);
    end(dies);
    return rc;
}

static lk_rc crash_list(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    return lk_store_list(self_of(store)->under, directory, arena, entries, count, err);
}

static lk_rc crash_list_names(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    return lk_store_list_names(self_of(store)->under, directory, arena, entries, count, err);
}

static lk_rc crash_list_first(lk_store *store, lk_bytes directory, size_t count_min, lk_arena *arena,
    lk_store_entry **entries, size_t *count, lk_err *err)
{
    return lk_store_list_first(self_of(store)->under, directory, count_min, arena, entries, count, err);
}

static lk_rc crash_sync(lk_store *store, lk_err *err)
{
    crash_store *s = self_of(store);
    bool         dies = begin(s->plan, CRASH_sync);
    lk_rc        rc = lk_store_sync(s->under, err);
    end(dies);
    return rc;
}

static lk_rc crash_alias(lk_store *store, lk_bytes from, lk_bytes to, bool *created, lk_err *err)
{
    crash_store *s = self_of(store);
    bool         dies = begin(s->plan, step_of(s->plan, to, (lk_bytes){0}));
    lk_rc        rc = s->under->ops->alias(s->under, from, to, created, err);
    end(dies);
    return rc;
}

static lk_rc crash_replace(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    crash_store *s = self_of(store);
    bool         dies = begin(s->plan, step_of(s->plan, key, bytes));
    lk_rc        rc = lk_store_replace(s->under, key, bytes, err);
    end(dies);
    return rc;
}

static lk_rc crash_hint(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    crash_store *s = self_of(store);
    bool         dies = begin(s->plan, CRASH_hint);
    lk_rc        rc = s->under->ops->hint(s->under, key, bytes, err);
    end(dies);
    return rc;
}

typedef struct crash_staged {
    lk_store_staged  base;
    lk_store_staged *under;
    crash_plan      *plan;
    crash_step       step;
} crash_staged;

static lk_rc crash_publish(lk_store_staged *base, bool *created, lk_err *err)
{
    crash_staged *staged = (crash_staged *)base;
    bool          dies = begin(staged->plan, staged->step);
    lk_rc         rc = lk_store_publish(staged->under, created, err);
    end(dies);
    free(staged);
    return rc;
}

static void crash_discard(lk_store_staged *base)
{
    lk_store_discard(((crash_staged *)base)->under);
    free(base);
}

static lk_rc crash_stage(lk_store *store, lk_bytes key, lk_bytes bytes, lk_store_staged **out, lk_err *err)
{
    crash_store  *s = self_of(store);
    crash_staged *staged = calloc(1, sizeof *staged);
    LK_ASSERT(staged != NULL);
    *staged = (crash_staged){
        .base = {crash_publish, crash_discard}, .plan = s->plan, .step = step_of(s->plan, key, bytes)};
    bool  dies = begin(s->plan, staged->step);
    lk_rc rc = lk_store_stage(s->under, key, bytes, &staged->under, err);
    end(dies);
    if (rc != LK_OK) {
        free(staged);
        return rc;
    }
    *out = &staged->base;
    return LK_OK;
}

static lk_rc crash_remove(lk_store *store, lk_bytes key, lk_err *err)
{
    crash_store *s = self_of(store);
    bool         dies = s->plan->phase == PHASE_COLLECT && begin(s->plan, CRASH_m5);
    lk_rc        rc = lk_store_remove(s->under, key, err);
    end(dies);
    return rc;
}

/* One object after the other, so that a removal can be stopped amid. */
static lk_rc crash_remove_tree(lk_store *store, lk_bytes directory, lk_err *err)
{
    crash_store    *s = self_of(store);
    lk_arena        arena = {0};
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    lk_rc           rc = lk_store_list(s->under, directory, &arena, &entries, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        lk_bytes key = lk_arena_format(&arena, "%.*s/%.*s", LK_FMT(directory), LK_FMT(entries[i].name));
        rc = entries[i].is_directory ? crash_remove_tree(store, key, err) : crash_remove(store, key, err);
    }
    if (rc == LK_OK) {
        rc = lk_store_remove_tree(s->under, directory, err);
    }
    lk_arena_close(&arena);
    return rc;
}

static void crash_close(lk_store *store)
{
    lk_store_close(self_of(store)->under);
    free(store);
}

lk_store *crash_store_new(lk_store *under, crash_plan *plan)
{
    crash_store *s = calloc(1, sizeof *s);
    LK_ASSERT(s != NULL);
    s->ops = (struct lk_store_ops){
        .open = crash_open, /* readers come from beneath, and so do their operations */
        .create = crash_create,
        .write = crash_write,
        .finish = crash_finish,
        .abandon = crash_abandon,
        .put_if_absent = crash_put,
        .list = crash_list,
        .list_names = crash_list_names,
        .list_first = under->ops->list_first == NULL ? NULL : crash_list_first,
        .sync = crash_sync,
        .alias = under->ops->alias == NULL ? NULL : crash_alias,
        .replace = under->ops->replace == NULL ? NULL : crash_replace,
        .hint = under->ops->hint == NULL ? NULL : crash_hint,
        .stage = under->ops->stage == NULL ? NULL : crash_stage,
        .remove = crash_remove,
        .remove_tree = crash_remove_tree,
        .close = crash_close,
    };
    s->base = (lk_store){.ops = &s->ops, .uri = under->uri};
    s->under = under;
    s->plan = plan;
    return &s->base;
}
