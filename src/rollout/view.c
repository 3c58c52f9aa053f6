/* view.c - see view.h. */
#include "rollout/view.h"

#include "base/each.h"
#include "lance/manifest.h"
#include "rollout/shard.h"

#include <inttypes.h>
#include <stdlib.h>

enum { TRIES = 3, GIVEN_MAX = 64, CHECK_MS = 10000 /* between looks beyond the end of a chain */ };

typedef struct seen_shard { /* what is known of a shard */
    lk_uuid           id;
    lk_arena          arena;
    lk_shard_manifest manifest;   /* of version 0: none was read yet */
    lk_buf            room;       /* of its generations, once some were added */
    uint64_t          told;       /* a version that is said to be there */
    bool              moved;      /* since it was last looked at */
    uint64_t          checked_ms; /* when it was last looked whether the chain ends where it seems to */
} seen_shard;

struct lk_rollout_view {
    const lk_lance_env *env;

    lk_rollout_form *form;

    lk_mutex             mutex;
    lk_cond              refreshed;
    lk_cond              stirred;
    uint64_t             stirs;           /* guarded by mutex */
    bool                 refreshing;      /* guarded by mutex, as are the following three */
    bool                 ahead;           /* a refresh that nobody waits for is on its way */
    uint64_t             taken_ms;        /* when the refresh that finished last began */
    uint64_t             begun, finished; /* refreshes; finished: the last one that ended well */
    lk_rollout_snapshot *snapshot;        /* of that one; written by whoever refreshes, under the mutex */
    lk_rollout_rows    *given[GIVEN_MAX]; /* that need not be loaded; guarded by mutex, as is the following */
    size_t              given_count;
    atomic_ullong       wanted, loaded; /* generations, by snapshots */
    lk_arena            told_arena;     /* guarded by mutex, as are the following */
    lk_shard_manifest   told;           /* without generations; of version 0: none */
    lk_shard_generation told_added;
    lk_dataset         *given_base; /* a version that was committed here, or NULL */

    seen_shard  *shards; /* of whoever refreshes, as are the following */
    size_t       shard_count;
    lk_dataset  *base;
    lk_base_ids *base_ids;
    bool moved; /* what is known moved since snapshot was put together; a refresh that failed leaves it so */
};

/* -- what there is ------------------------------------------------------------------------------------------------- */

static void forget(seen_shard *shard)
{
    lk_arena_close(&shard->arena);
    lk_buf_deinit(&shard->room);
    *shard = (seen_shard){0};
}

/* Calls that wait for a network are made side by side. */
static lk_pool *helpers(const lk_rollout_view *view)
{
    return view->env->store->far ? view->env->pool : NULL;
}

/* Now and then, where looking is cheap: what lies behind a manifest that got lost would be hidden for good. */
static lk_rc check_end(const lk_rollout_view *view, seen_shard *shard, lk_arena *arena, lk_err *err)
{
    uint64_t now_ms = lk_clock_monotonic_ms(view->env->clock);
    lk_rc    rc = LK_OK;
    if (!view->env->store->far && now_ms - shard->checked_ms >= CHECK_MS && shard->manifest.version > 0) {
        rc = lk_shard_check_end(view->env->store, shard->id, shard->manifest.version, arena, err);
        shard->checked_ms = rc == LK_OK ? now_ms : shard->checked_ms;
    }
    return rc;
}

/* Brings one shard up to date. */
static lk_rc refresh_shard(const lk_rollout_view *view, seen_shard *shard, lk_err *err)
{
    lk_arena          arena = {0};
    lk_shard_manifest latest = {0};
    bool              found = false;
    lk_store         *store = view->env->store;
    uint64_t          known = shard->manifest.version, told = shard->told;
    lk_rc             rc = known == 0 ? lk_shard_latest(store, shard->id, told, &arena, &latest, &found, err)
                                      : lk_shard_newer(store, shard->id, known, told, &arena, &latest, &found, err);
    if (rc == LK_OK && !found) {
        rc = check_end(view, shard, &arena, err);
    }
    if (rc != LK_OK || !found) {
        lk_arena_close(&arena);
        return rc;
    }
    lk_arena_close(&shard->arena);
    shard->arena = arena;
    shard->manifest = latest;
    shard->moved = true;
    return LK_OK;
}

typedef struct shard_look {
    lk_rollout_view *view;
    seen_shard     **shards;
    lk_arena         arena;
    lk_uuid         *ids; /* of the listing */
    size_t           count;
} shard_look;

/* Part 0 lists the shards, the others look at those that are known. */
static lk_rc look_at(void *context, size_t part, lk_err *err)
{
    shard_look *l = context;
    return part == 0 ? lk_shard_list(l->view->env->store, &l->arena, &l->ids, &l->count, err)
                     : refresh_shard(l->view, &l->view->shards[part - 1], err);
}

static lk_rc look_at_new(void *context, size_t part, lk_err *err)
{
    shard_look *l = context;
    return refresh_shard(l->view, l->shards[part], err);
}

/* The shards that the directory has now, with what is known of them: both lists are ascending. */
static void join_shards(lk_rollout_view *view, const lk_uuid *ids, size_t count)
{
    size_t      old = 0;
    seen_shard *shards = calloc(count + 1, sizeof *shards);
    LK_ASSERT(shards != NULL);
    for (size_t i = 0; i < count; i++) {
        while (old < view->shard_count && memcmp(&view->shards[old].id, &ids[i], sizeof ids[i]) < 0) {
            view->moved = true;
            forget(&view->shards[old++]);
        }
        bool known = old < view->shard_count && memcmp(&view->shards[old].id, &ids[i], sizeof ids[i]) == 0;
        shards[i] = known ? view->shards[old++] : (seen_shard){.id = ids[i]};
    }
    while (old < view->shard_count) {
        view->moved = true;
        forget(&view->shards[old++]);
    }
    free(view->shards);
    view->shards = shards;
    view->shard_count = count;
}

static void take_told(lk_rollout_view *view)
{
    lk_mutex_lock(&view->mutex);
    for (size_t i = 0; i < view->shard_count; i++) {
        seen_shard *shard = &view->shards[i];
        uint64_t    version =
            memcmp(&shard->id, &view->told.shard, sizeof shard->id) == 0 ? view->told.version : 0;
        shard->told = version > shard->told ? version : shard->told;
        if (shard->manifest.version > 0 && shard->manifest.version + 1 == version) {
            lk_shard_manifest_follow(
                &shard->manifest, &shard->arena, &shard->room, &view->told, &view->told_added, 1);
            shard->moved = true;
        }
    }
    lk_mutex_unlock(&view->mutex);
}

static lk_rc refresh_shards(lk_rollout_view *view, lk_err *err)
{
    shard_look l = {.view = view};
    size_t     new_count = 0;
    take_told(view);
    lk_rc rc = lk_each(helpers(view), view->shard_count + 1, look_at, &l, err);
    if (rc == LK_OK) {
        join_shards(view, l.ids, l.count);
        l.shards = lk_arena_take(&l.arena, (view->shard_count + 1) * sizeof *l.shards);
        for (size_t i = 0; i < view->shard_count; i++) {
            if (view->shards[i].manifest.version == 0) {
                l.shards[new_count++] = &view->shards[i];
            }
        }
        rc = lk_each(helpers(view), new_count, look_at_new, &l, err);
    }
    for (size_t i = 0; i < view->shard_count; i++) {
        view->moved |= view->shards[i].moved;
        view->shards[i].moved = false;
    }
    lk_arena_close(&l.arena);
    return rc;
}

/* Goes on to the version that was committed here, if it is newer. */
static void take_given_base(lk_rollout_view *view, bool *changed)
{
    lk_mutex_lock(&view->mutex);
    lk_dataset *given = view->given_base;
    view->given_base = NULL;
    lk_mutex_unlock(&view->mutex);
    if (given != NULL && lk_dataset_version(given) > lk_dataset_version(view->base)) {
        lk_dataset *last = view->base;
        view->base = given;
        given = last;
        *changed = true;
    }
    lk_dataset_unref(given);
}

/* Whether there is a version after the one we have. */
static lk_rc refresh_base(lk_rollout_view *view, bool *changed, lk_err *err)
{
    take_given_base(view, changed);
    const lk_manifest *manifest = lk_dataset_manifest(view->base);
    lk_arena           arena = {0};
    uint64_t           size = 0;
    bool               found = false;
    lk_dataset        *newest = NULL;
    lk_bytes key = lk_manifest_key(manifest->version + 1, lk_manifest_key_naming(manifest->key), &arena);
    lk_rc    rc = lk_store_look(view->env->store, key, &found, &size, err);
    lk_arena_close(&arena);
    if (rc != LK_OK || !found) {
        return rc;
    }
    rc = lk_dataset_open(view->env, 0, &newest, err);
    if (rc == LK_OK) {
        lk_dataset_unref(view->base);
        view->base = newest;
        *changed = true;
    }
    return rc;
}

/* -- putting it together ------------------------------------------------------------------------------------------- */

/* Sources are in the order in which they count: the higher shard id first, then the higher number. */
static int compare_sources(lk_uuid shard, uint64_t number, const lk_rollout_rows *rows)
{
    int order = memcmp(&rows->shard, &shard, sizeof shard);
    return order != 0 ? order : (rows->number > number) - (rows->number < number);
}

static bool is_source(lk_uuid shard, uint64_t number, const lk_rollout_rows *rows)
{
    return rows->number == number && memcmp(&rows->shard, &shard, sizeof shard) == 0;
}

/* The loaded rows of a generation, or NULL. *at: a place in the last snapshot, which moves on as generations are asked for
 * in that order. */
static lk_rollout_rows *find_loaded(
    const lk_rollout_snapshot *last, size_t *at, lk_uuid shard, const lk_shard_generation *g)
{
    while (last != NULL && *at < last->source_count && !is_source(shard, g->number, last->sources[*at]) &&
           compare_sources(shard, g->number, last->sources[*at]) > 0) {
        ++*at;
    }
    if (last == NULL || *at == last->source_count) {
        return NULL;
    }
    lk_rollout_rows *rows = last->sources[*at];
    bool             same = is_source(shard, g->number, rows) && lk_bytes_equal(rows->path, g->path);
    return same ? rows : NULL;
}

/* What this instance wrote itself and has in memory, or NULL. */
static lk_rollout_rows *find_given(lk_rollout_view *view, lk_uuid shard, const lk_shard_generation *g)
{
    lk_rollout_rows *found = NULL;
    lk_mutex_lock(&view->mutex);
    for (size_t i = 0; found == NULL && i < view->given_count; i++) {
        lk_rollout_rows *rows = view->given[i];
        if (compare_sources(shard, g->number, rows) == 0 && lk_bytes_equal(rows->path, g->path)) {
            found = lk_rollout_rows_ref(rows);
        }
    }
    lk_mutex_unlock(&view->mutex);
    return found;
}

static void forget_given(lk_rollout_view *view, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        lk_rollout_rows_unref(view->given[i]);
    }
    view->given_count -= count;
    memmove(view->given, view->given + count, view->given_count * sizeof(lk_rollout_rows *));
}

/* Nobody looked for long: the oldest is loaded by whoever does. */
void lk_rollout_view_give(lk_rollout_view *view, lk_rollout_rows *rows)
{
    lk_mutex_lock(&view->mutex);
    if (view->given_count == GIVEN_MAX) {
        forget_given(view, 1);
    }
    view->given[view->given_count++] = rows;
    lk_mutex_unlock(&view->mutex);
}

/* Generations that nobody has in memory yet, and their places among the sources. */
typedef struct missing {
    lk_rollout_wish *wishes;
    size_t          *places;
    size_t           count;
} missing;

/* The sources of one shard, the newest first. at: as of find_loaded. */
static void add_sources(
    lk_rollout_view *view, const seen_shard *shard, size_t *at, lk_rollout_snapshot *next, missing *m)
{
    for (size_t i = shard->manifest.generation_count; i > 0; i--) {
        const lk_shard_generation *g = &shard->manifest.generations[i - 1];
        lk_rollout_rows           *rows = find_loaded(view->snapshot, at, shard->id, g);
        rows = rows != NULL ? lk_rollout_rows_ref(rows) : find_given(view, shard->id, g);
        if (rows == NULL) {
            m->wishes[m->count] = (lk_rollout_wish){.shard = shard->id, .generation = g};
            m->places[m->count++] = next->source_count;
        }
        next->sources[next->source_count++] = rows;
    }
}

static lk_rc load_missing(lk_rollout_view *view, lk_rollout_snapshot *next, const missing *m, lk_err *err)
{
    lk_rc rc = lk_rollout_rows_load_all(view->env, view->form, m->wishes, m->count, err);
    atomic_fetch_add(&view->loaded, m->count);
    for (size_t i = 0; rc == LK_OK && i < m->count; i++) {
        next->sources[m->places[i]] = m->wishes[i].rows;
    }
    for (size_t i = 0; rc == LK_OK && i < m->count; i++) {
        if (m->wishes[i].rows == NULL) {
            rc = lk_fail(err, LK_E_NOT_FOUND, "generation %.*s", LK_FMT(m->wishes[i].generation->path));
        }
    }
    return rc;
}

/* Two things that wait for storage, neither for the other. */
typedef struct assembly {
    lk_rollout_view     *view;
    lk_rollout_snapshot *next;
    const missing       *missing;
} assembly;

static lk_rc assemble(void *context, size_t part, lk_err *err)
{
    assembly *a = context;
    return part == 0 ? load_missing(a->view, a->next, a->missing, err)
                     : refresh_base(a->view, &a->view->moved, err);
}

/* looks: for a newer base table, too. */
static lk_rc put_together(lk_rollout_view *view, bool looks, lk_rollout_snapshot **out, lk_err *err)
{
    size_t room = 0, at = 0;
    for (size_t i = 0; i < view->shard_count; i++) {
        room += view->shards[i].manifest.generation_count;
    }
    missing m = {calloc(room + 1, sizeof *m.wishes), calloc(room + 1, sizeof *m.places), 0};
    LK_ASSERT(m.wishes != NULL && m.places != NULL);
    lk_rollout_snapshot *next = lk_rollout_snapshot_new(view->form, view->base, room, view->shard_count);
    next->base_ids = lk_base_ids_ref(view->base_ids);
    for (size_t i = 0; i < view->shard_count; i++) {
        const lk_shard_manifest *manifest = &view->shards[i].manifest;
        uint64_t                 end = manifest->current_generation;
        next->pins[next->pin_count++] = (lk_rollout_pin){view->shards[i].id, manifest->version,
            manifest->generation_count == 0 ? end : manifest->generations[0].number, end};
    }
    for (size_t i = view->shard_count; i > 0; i--) { /* the higher shard id counts more */
        add_sources(view, &view->shards[i - 1], &at, next, &m);
    }
    assembly a = {view, next, &m};
    lk_rc    rc = lk_each(helpers(view), looks ? 2 : 1, assemble, &a, err);
    free(m.wishes);
    free(m.places);
    if (rc != LK_OK) {
        lk_rollout_snapshot_unref(next);
        return rc;
    }
    lk_dataset_unref(next->base);
    next->base = lk_dataset_ref(view->base);
    lk_rollout_snapshot_seal_after(next, view->snapshot);
    *out = next;
    return LK_OK;
}

static lk_rc refresh_once(lk_rollout_view *view, lk_rollout_snapshot **out, lk_err *err)
{
    lk_rc rc = refresh_shards(view, err);
    bool  shards_moved = view->moved;
    if (rc == LK_OK && !shards_moved) {
        rc = refresh_base(view, &view->moved, err);
    }
    if (rc == LK_OK && view->moved) {
        rc = put_together(view, shards_moved, out, err);
        view->moved = rc != LK_OK;
    } else if (rc == LK_OK) {
        *out = lk_rollout_snapshot_ref(view->snapshot);
    }
    return rc;
}

/* A generation that is gone, or of which files are, was merged and collected: its shard has a newer manifest, and the base
 * table its rows. */
static bool was_collected(lk_rc rc)
{
    return rc == LK_E_NOT_FOUND || rc == LK_E_SNAPSHOT_GONE;
}

static lk_rc refresh(lk_rollout_view *view, lk_rollout_snapshot **out, lk_err *err)
{
    lk_err failure = {0};
    lk_rc  rc = refresh_once(view, out, &failure);
    for (int i = 1; was_collected(rc) && i < TRIES; i++) {
        failure = (lk_err){0};
        rc = refresh_once(view, out, &failure);
    }
    if (was_collected(rc)) {
        rc = lk_refuse(err, LK_E_STORE_UNAVAILABLE,
            "files that a manifest lists are missing, or were collected while they were read, again and "
            "again: %s",
            failure.context);
    } else if (rc != LK_OK) {
        *err = failure;
    }
    return rc;
}

/* -- what is said to be there -------------------------------------------------------------------------------------- */

void lk_rollout_view_give_base(lk_rollout_view *view, lk_dataset *base)
{
    lk_mutex_lock(&view->mutex);
    lk_dataset *last = view->given_base;
    view->given_base = lk_dataset_ref(base);
    lk_mutex_unlock(&view->mutex);
    lk_dataset_unref(last);
}

void lk_rollout_view_tell(
    lk_rollout_view *view, const lk_shard_manifest *manifest, const lk_shard_generation *added)
{
    lk_mutex_lock(&view->mutex);
    lk_arena_close(&view->told_arena);
    view->told = *manifest;
    view->told.rest = lk_arena_copy(&view->told_arena, manifest->rest);
    view->told_added = (lk_shard_generation){.number = added->number,
        .path = lk_arena_copy(&view->told_arena, added->path),
        .rest = lk_arena_copy(&view->told_arena, added->rest)};
    lk_mutex_unlock(&view->mutex);
}

typedef struct look_out {
    const lk_lance_env *env;
    lk_rollout_outlook *outlook;
} look_out;

static lk_rc read_hint(void *context, size_t part, lk_err *err)
{
    const look_out *l = context;
    return lk_shard_hint(l->env->store, l->outlook->shards[part], &l->outlook->versions[part], err);
}

lk_rc lk_rollout_look_out(const lk_lance_env *env, lk_rollout_outlook *out, lk_err *err)
{
    look_out l = {env, out};
    *out = (lk_rollout_outlook){0};
    lk_rc rc = lk_shard_list(env->store, &out->arena, &out->shards, &out->count, err);
    if (rc == LK_OK) {
        out->versions = lk_arena_take(&out->arena, (out->count + 1) * sizeof *out->versions);
        rc = lk_each(env->pool, out->count, read_hint, &l, err);
    }
    if (rc != LK_OK) {
        lk_rollout_outlook_deinit(out);
    }
    return rc;
}

void lk_rollout_outlook_deinit(lk_rollout_outlook *outlook)
{
    lk_arena_close(&outlook->arena);
    *outlook = (lk_rollout_outlook){0};
}

void lk_rollout_view_expect(lk_rollout_view *view, const lk_rollout_outlook *outlook)
{
    LK_ASSERT(view->shards == NULL);
    view->shards = calloc(outlook->count + 1, sizeof *view->shards);
    LK_ASSERT(view->shards != NULL);
    for (; view->shard_count < outlook->count; view->shard_count++) {
        view->shards[view->shard_count] = (seen_shard){
            .id = outlook->shards[view->shard_count], .told = outlook->versions[view->shard_count]};
    }
}

/* -- the cache ----------------------------------------------------------------------------------------------------- */

lk_rollout_view *lk_rollout_view_new(const lk_lance_env *env, lk_dataset *base)
{
    lk_rollout_view *view = calloc(1, sizeof *view);
    LK_ASSERT(view != NULL);
    view->env = env;
    view->base = lk_dataset_ref(base);
    view->form = lk_rollout_form_new();
    view->base_ids = lk_base_ids_new(env->budget);
    view->moved = true;
    lk_mutex_init(&view->mutex, LK_RANK_ENGINE);
    lk_cond_init(&view->refreshed);
    lk_cond_init(&view->stirred);
    return view;
}

void lk_rollout_view_free(lk_rollout_view *view)
{
    if (view == NULL) {
        return;
    }
    lk_mutex_lock(&view->mutex);
    while (view->ahead) {
        lk_cond_wait(&view->refreshed, &view->mutex);
    }
    lk_mutex_unlock(&view->mutex);
    LK_ASSERT(!view->refreshing);
    for (size_t i = 0; i < view->shard_count; i++) {
        forget(&view->shards[i]);
    }
    forget_given(view, view->given_count);
    lk_rollout_snapshot_unref(view->snapshot);
    lk_dataset_unref(view->base);
    lk_dataset_unref(view->given_base);
    lk_rollout_form_unref(view->form);
    lk_base_ids_unref(view->base_ids);
    lk_arena_close(&view->told_arena);
    lk_cond_deinit(&view->refreshed);
    lk_cond_deinit(&view->stirred);
    lk_mutex_deinit(&view->mutex);
    free(view->shards);
    free(view);
}

/* One refresh serves all who asked before it began; whoever asks later needs a later one. */
lk_rc lk_rollout_view_take(lk_rollout_view *view, lk_rollout_snapshot **out, lk_err *err)
{
    lk_rc rc = LK_OK;
    lk_mutex_lock(&view->mutex);
    uint64_t needed = view->begun + 1;
    while (view->refreshing && view->finished < needed) {
        lk_cond_wait(&view->refreshed, &view->mutex);
    }
    if (view->finished < needed) {
        lk_rollout_snapshot *next = NULL;
        uint64_t             mine = ++view->begun;
        size_t               given = view->given_count; /* listed by now */
        uint64_t             now_ms = lk_clock_monotonic_ms(view->env->clock);
        view->refreshing = true;
        lk_mutex_unlock(&view->mutex);
        rc = refresh(view, &next, err);
        lk_mutex_lock(&view->mutex);
        if (rc == LK_OK) {
            lk_rollout_snapshot_unref(view->snapshot);
            view->snapshot = next;
            view->finished = mine;
            view->taken_ms = now_ms;
            forget_given(view, given < view->given_count ? given : view->given_count);
        }
        view->refreshing = false;
        lk_cond_broadcast(&view->refreshed);
    }
    if (rc == LK_OK) {
        *out = lk_rollout_snapshot_ref(view->snapshot);
        atomic_fetch_add(&view->wanted, view->snapshot->source_count);
    }
    lk_mutex_unlock(&view->mutex);
    return rc;
}

void lk_rollout_view_count(const lk_rollout_view *view, uint64_t *wanted, uint64_t *loaded)
{
    *wanted = atomic_load(&view->wanted);
    *loaded = atomic_load(&view->loaded);
}

static int by_order(const void *a, const void *b)
{
    return lk_rollout_rows_order(*(lk_rollout_rows *const *)a, *(lk_rollout_rows *const *)b);
}

/* Takes the rows of added, which the last snapshot need not have. */
static lk_rollout_snapshot *grow(const lk_rollout_snapshot *last, lk_rollout_rows **added, size_t count)
{
    lk_rollout_snapshot *next =
        lk_rollout_snapshot_new(last->form, last->base, last->source_count + count, last->pin_count);
    size_t at = 0;
    memcpy(next->pins, last->pins, last->pin_count * sizeof *last->pins);
    next->pin_count = last->pin_count;
    qsort(added, count, sizeof(lk_rollout_rows *), by_order);
    for (size_t i = 0; i < count || at < last->source_count;) {
        int order = i == count                 ? -1
                    : at == last->source_count ? 1
                                               : lk_rollout_rows_order(last->sources[at], added[i]);
        if (order <= 0) {
            next->sources[next->source_count++] = lk_rollout_rows_ref(last->sources[at++]);
        } else {
            next->sources[next->source_count++] = added[i];
        }
        if (order == 0) {
            lk_rollout_rows_unref(added[i]);
        }
        i += order >= 0;
    }
    lk_rollout_snapshot_seal_after(next, last);
    return next;
}

/* A task of the pool. */
static void refresh_ahead(void *context)
{
    lk_rollout_view     *view = context;
    lk_rollout_snapshot *snapshot = NULL;
    lk_err               ignored = {0};
    if (lk_rollout_view_take(view, &snapshot, &ignored) == LK_OK) {
        lk_rollout_snapshot_unref(snapshot);
    }
    lk_mutex_lock(&view->mutex);
    view->ahead = false;
    lk_cond_broadcast(&view->refreshed);
    lk_mutex_unlock(&view->mutex);
}

void lk_rollout_view_renew(lk_rollout_view *view)
{
    lk_err ignored = {0};
    lk_mutex_lock(&view->mutex);
    bool begins = view->env->pool != NULL && !view->ahead && !view->refreshing;
    view->ahead = view->ahead || begins;
    lk_mutex_unlock(&view->mutex);
    if (begins && lk_pool_submit(view->env->pool, refresh_ahead, view, &ignored) != LK_OK) {
        lk_mutex_lock(&view->mutex);
        view->ahead = false;
        lk_cond_broadcast(&view->refreshed);
        lk_mutex_unlock(&view->mutex);
    }
}

lk_rc lk_rollout_view_recall(lk_rollout_view *view, uint64_t age_ms, lk_rollout_snapshot **out, lk_err *err)
{
    lk_rollout_rows     *added[GIVEN_MAX];
    lk_rollout_snapshot *last = NULL;
    size_t               count = 0;
    uint64_t             now_ms = lk_clock_monotonic_ms(view->env->clock);
    lk_mutex_lock(&view->mutex);
    uint64_t known_ms = now_ms - view->taken_ms;
    if (view->snapshot != NULL && known_ms <= age_ms && view->given_count < GIVEN_MAX) {
        last = lk_rollout_snapshot_ref(view->snapshot);
        for (; count < view->given_count; count++) {
            added[count] = lk_rollout_rows_ref(view->given[count]);
        }
    }
    lk_mutex_unlock(&view->mutex);
    if (last == NULL) {
        return lk_rollout_view_take(view, out, err);
    }
    if (known_ms > age_ms / 2 || count > GIVEN_MAX / 2) {
        lk_rollout_view_renew(view); /* before it is too old: who asks again need not wait */
    }
    *out = grow(last, added, count);
    lk_rollout_snapshot_unref(last);
    return LK_OK;
}

lk_rollout_form *lk_rollout_view_form(const lk_rollout_view *view)
{
    return view->form;
}

lk_rollout_snapshot *lk_rollout_view_last(lk_rollout_view *view)
{
    lk_mutex_lock(&view->mutex);
    lk_rollout_snapshot *last = view->snapshot == NULL ? NULL : lk_rollout_snapshot_ref(view->snapshot);
    lk_mutex_unlock(&view->mutex);
    return last;
}

lk_rc lk_rollout_view_at(lk_rollout_view *view, uint64_t version, lk_rollout_snapshot **out, lk_err *err)
{
    lk_dataset *base = NULL;
    lk_err      failure = {0};
    lk_rc       rc = lk_dataset_open(view->env, version, &base, &failure);
    if (rc == LK_E_NOT_FOUND) {
        return lk_refuse(err, rc, "the base table has no version %" PRIu64, version);
    }
    if (rc != LK_OK) {
        *err = failure;
    } else {
        *out = lk_rollout_snapshot_new(view->form, base, 0, 0);
        lk_rollout_snapshot_seal(*out);
        lk_dataset_unref(base);
    }
    return rc;
}

/* -- waiting ------------------------------------------------------------------------------------------------------- */

void lk_rollout_view_stir(lk_rollout_view *view)
{
    lk_mutex_lock(&view->mutex);
    view->stirs++;
    lk_cond_broadcast(&view->stirred);
    lk_mutex_unlock(&view->mutex);
}

uint64_t lk_rollout_view_stirs(lk_rollout_view *view)
{
    lk_mutex_lock(&view->mutex);
    uint64_t stirs = view->stirs;
    lk_mutex_unlock(&view->mutex);
    return stirs;
}

void lk_rollout_view_rest(lk_rollout_view *view, uint64_t stirs, uint64_t deadline_ms)
{
    lk_mutex_lock(&view->mutex);
    bool in_time = true;
    while (in_time && view->stirs == stirs) {
        in_time = lk_cond_wait_until(&view->stirred, &view->mutex, deadline_ms);
    }
    lk_mutex_unlock(&view->mutex);
}
