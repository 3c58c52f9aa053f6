/* writer.c - see writer.h. */
#include "rollout/writer.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    RUN_ENTRIES_MAX = 1024,     /* of a log, that become one generation */
    RUN_BYTES = 8 * 1024 * 1024 /* with the one that passes them */
};

struct lk_rollout_writer {
    lk_rollout_writer_options options;
    lk_shard_writer           shard;                     /* of whoever leads */
    uint64_t                  log_next, fenced_until_ms; /* of whoever leads */
    bool                      claimed;
    lk_generation_forms      *forms;
    lk_wal_form               log;      /* of whoever leads */
    lk_unsealed               unsealed; /* of whoever leads; empty unless claimed */
    bool      owes;   /* deferred, of whoever leads: the log may hold rows that are not visible */
    lk_thread sealer; /* deferred: runs seal_in_time */

    lk_mutex                mutex;
    lk_cond                 changed; /* an add is done, or nobody leads any more */
    lk_cond                 ending;
    lk_rollout_add         *first, *last; /* waiting; guarded by mutex, as are the following */
    bool                    leading, ended;
    lk_rollout_writer_stats stats;
};

/* -- one generation ---------------------------------------------------------------------------------------------- */

typedef struct listing { /* the change of a manifest that lists a generation */
    lk_bytes path;
    uint64_t number, log_position; /* log_position 0: no entry */
} listing;

static lk_rc list_generation(void *context, lk_arena *arena, lk_shard_manifest *next, lk_err *err)
{
    const listing *l = context;
    size_t         count = next->generation_count;
    if (next->current_generation != l->number) { /* nobody else gives numbers in our epoch */
        return lk_fail(err, LK_E_CONFLICT, "generation %" PRIu64 " is not the next any more", l->number);
    }
    lk_shard_generation *generations = lk_arena_take(arena, (count + 1) * sizeof *generations);
    if (count > 0) {
        memcpy(generations, next->generations, count * sizeof *generations);
    }
    generations[count] = (lk_shard_generation){.number = l->number, .path = l->path};
    next->generations = generations;
    next->generation_count = count + 1;
    next->current_generation++;
    next->replay_after = l->log_position > 0 ? l->log_position : next->replay_after;
    next->wal_last_seen = next->replay_after > next->wal_last_seen ? next->replay_after : next->wal_last_seen;
    return LK_OK;
}

/* Whether we still own the shard, after somebody's log entry stood where ours should. */
static lk_rc check_claim(lk_rollout_writer *w, lk_err *err)
{
    lk_arena          arena = {0};
    lk_shard_manifest latest = {0};
    bool              found = false;
    lk_rc             rc = lk_shard_latest(
                    w->options.env->store, w->options.shard, w->shard.manifest.version, &arena, &latest, &found, err);
    if (rc == LK_OK && latest.writer_epoch > w->shard.epoch) {
        rc = lk_refuse(err, LK_E_SHARD_FENCED, "the shard is at epoch %" PRIu64 ", this writer's is %" PRIu64,
            latest.writer_epoch, w->shard.epoch);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc encode_log(lk_rollout_writer *w, const lk_generation_rows *rows, lk_bytes *entry, lk_err *err)
{
    return lk_wal_encode(&w->log, rows->schema, rows->batches, rows->batch_count, w->shard.epoch, entry, err);
}

static lk_rc write_log(lk_rollout_writer *w, const lk_generation_rows *rows, uint64_t *position, lk_err *err)
{
    lk_bytes entry;
    bool     created = false;
    lk_rc    rc = encode_log(w, rows, &entry, err);
    while (rc == LK_OK && !created) {
        *position = w->log_next++;
        rc = lk_wal_put(w->options.env->store, w->options.shard, *position, entry, &created, err);
        if (rc == LK_OK && !created) { /* a writer's that we fenced: it was not acknowledged */
            rc = check_claim(w, err);
        }
    }
    lk_wal_form_rest(&w->log);
    return rc;
}

/* Where every generation has its entry, nobody waits for that: its bytes are written with the other files, under no name. */
static lk_rc stage_log(
    lk_rollout_writer *w, const lk_generation_rows *rows, lk_store_staged **staged, lk_err *err)
{
    lk_bytes entry;
    lk_rc    rc = encode_log(w, rows, &entry, err);
    if (rc == LK_OK) {
        rc = lk_wal_stage(w->options.late, w->options.shard, w->log_next, entry, staged, err);
    }
    lk_wal_form_rest(&w->log); /* files of the same rows are written next */
    return rc;
}

/* It gets its name once a manifest says that the generation has its rows: no claim reads it any more, so it may get lost,
 * and rows that were not listed are not brought back by it. false: its place is taken. */
static bool show_log(lk_rollout_writer *w, lk_store_staged *entry)
{
    lk_err ignored = {0};
    bool   created = false;
    lk_rc  rc = lk_store_show(entry, &created, &ignored);
    w->log_next++;
    return rc != LK_OK || created;
}

/* Everything that nothing refers to yet: files, log entry (if `entry` is not NULL), the next manifest's bytes. Durable. */
static lk_rc write_wave(lk_rollout_writer *w, const lk_generation_rows *rows, listing *l,
    lk_store_staged **entry, lk_arena *arena, lk_err *err)
{
    lk_lance_env inside = *w->options.env;
    lk_rc        rc = LK_OK;
    inside.store = w->options.late;
    if (entry != NULL) {
        l->log_position = w->log_next;
        rc = stage_log(w, rows, entry, err);
    }
    if (rc == LK_OK) {
        rc = lk_generation_write(&inside, w->forms, w->options.shard, l->number, rows, arena, &l->path, err);
    }
    if (rc == LK_OK) {
        lk_shard_prepare(&w->shard, w->options.late, list_generation, l);
        rc = lk_store_sync(w->options.late, err);
    }
    return rc;
}

static void take_over(lk_rollout_writer *w, uint64_t position);

/* Files, sync, manifest. log_position: of the entry that holds these rows already; 0: none yet. */
static lk_rc store_rows(
    lk_rollout_writer *w, const lk_generation_rows *rows, uint64_t log_position, lk_err *err)
{
    lk_arena         arena = {0};
    listing          l = {.number = w->shard.manifest.current_generation, .log_position = log_position};
    lk_store_staged *entry = NULL;
    bool             logs = w->options.log && log_position == 0;
    lk_rc            rc = write_wave(w, rows, &l, logs ? &entry : NULL, &arena, err);
    if (rc != LK_OK) {
        lk_shard_unprepare(&w->shard);
    }
    err->maybe_applied = false; /* up to here nothing is listed */
    if (rc == LK_OK) {
        rc = lk_shard_commit(&w->shard, list_generation, &l, err);
    }
    if (rc == LK_OK) {
        const lk_shard_generation *listed = lk_shard_manifest_find(&w->shard.manifest, l.number);
        w->options.ops->flushed(w->options.context, &w->shard.manifest, listed, rows);
    } else if (!err->maybe_applied && l.path.size > 0) {
        lk_err ignored = {0};
        lk_rc  removed = lk_generation_remove(w->options.late, w->options.shard, l.path, &ignored);
        (void)removed; /* a later sweep finds it */
    }
    if (rc == LK_OK && logs) {
        if (!show_log(w, entry)) {
            take_over(w, l.log_position);
        }
    } else {
        lk_store_discard(entry);
    }
    lk_arena_close(&arena);
    return rc;
}

static void release_rows(lk_generation_rows *rows)
{
    for (size_t i = 0; i < rows->batch_count; i++) {
        lk_shared_array_unref(rows->batches[i]);
    }
    *rows = (lk_generation_rows){0};
}

/* -- the claim --------------------------------------------------------------------------------------------------- */

/* Rows of the log up to this position become a generation. */
static lk_rc replay_batches(lk_rollout_writer *w, lk_batches *batches, uint64_t position, lk_err *err)
{
    lk_arena           arena = {0};
    lk_generation_rows rows = {0};
    lk_rc              rc = w->options.ops->replay(w->options.context, batches, &arena, &rows, err);
    if (rc == LK_OK && rows.row_count > 0) {
        rc = store_rows(w, &rows, position, err);
    }
    if (rc == LK_OK) {
        lk_mutex_lock(&w->mutex);
        w->stats.replayed += rows.row_count;
        lk_mutex_unlock(&w->mutex);
    }
    release_rows(&rows);
    lk_arena_close(&arena);
    return rc;
}

/* A failure that may have left a log entry, or a manifest of ours that we did not see, ends the claim: the next one reads
 * what there is. Two writers of one shard must not take it from each other all the time. */
static void lose_claim(lk_rollout_writer *w, lk_rc rc)
{
    w->claimed = false;
    w->owes = w->owes || lk_unsealed_count(&w->unsealed) > 0;
    lk_unsealed_clear(&w->unsealed); /* it is in the log, which whoever claims the shard replays */
    if (rc == LK_E_SHARD_FENCED) {
        uint64_t wait_ms =
            LK_ROLLOUT_RECLAIM_MS / 2 + lk_random_below(w->options.env->random, LK_ROLLOUT_RECLAIM_MS);
        w->fenced_until_ms = lk_clock_monotonic_ms(w->options.env->clock) + wait_ms;
        lk_mutex_lock(&w->mutex);
        w->stats.fenced++;
        lk_mutex_unlock(&w->mutex);
    }
}

/* Where our entry should be, a writer that we fenced put one before it knew. Other software acknowledges rows by their entry
 * alone, and no claim would read this one, as our manifest is past it: so its rows become a generation now. */
static void take_over(lk_rollout_writer *w, uint64_t position)
{
    lk_arena     arena = {0};
    lk_wal_entry entry = {0};
    lk_err       ignored = {0};
    bool         found = false;
    lk_rc        rc =
        lk_wal_read(w->options.env->store, w->options.shard, position, &arena, &entry, &found, &ignored);
    if (rc == LK_OK && found && entry.batches != NULL && entry.epoch < w->shard.epoch) {
        rc = replay_batches(w, entry.batches, position, &ignored);
    }
    if (rc != LK_OK) { /* what follows begins with what there is */
        lose_claim(w, rc);
    }
    lk_batches_close(entry.batches);
    lk_arena_close(&arena);
}

/* Entries of the same columns, one behind the other. */
typedef struct log_run {
    lk_batches   base; /* the schema is the first entry's */
    lk_wal_entry entries[RUN_ENTRIES_MAX];
    size_t       count, at;
    lk_arena     arena; /* their bytes */
    uint64_t     end;   /* the position behind them, and behind fences among them */
    bool         more;  /* there may be entries from there on */
    bool         is_full;
    size_t       count_max;
} log_run;

static lk_rc next_of_run(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    log_run *run = (log_run *)batches;
    lk_rc    rc = LK_OK;
    *out = (struct ArrowArray){0};
    while (rc == LK_OK && out->release == NULL && run->at < run->count) {
        rc = lk_batches_next(run->entries[run->at].batches, out, err);
        run->at += rc == LK_OK && out->release == NULL;
    }
    return rc;
}

static void close_run(log_run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        lk_batches_close(run->entries[i].batches);
    }
    lk_arena_close(&run->arena);
}

/* Reads the entry at run->end. It is part of the run, a fence, or what the next run begins with. */
static lk_rc read_into_run(lk_rollout_writer *w, log_run *run, lk_err *err)
{
    lk_wal_entry *entry = &run->entries[run->count];
    lk_rc         rc =
        lk_wal_read(w->options.env->store, w->options.shard, run->end, &run->arena, entry, &run->more, err);
    if (rc == LK_OK && run->more && entry->epoch > w->shard.epoch) {
        rc = lk_refuse(err, LK_E_SHARD_FENCED,
            "log entry %" PRIu64 " is of epoch %" PRIu64 ", this writer's is %" PRIu64, run->end,
            entry->epoch, w->shard.epoch);
    }
    if (rc != LK_OK || !run->more || entry->batches == NULL) {
        lk_batches_close(entry->batches);
        run->end += rc == LK_OK && run->more;
        return rc;
    }
    if (run->count == 0) {
        run->base = (lk_batches){.next = next_of_run, .schema = entry->batches->schema};
    } else if (!lk_generation_same_columns(&run->base.schema, &entry->batches->schema)) {
        lk_batches_close(entry->batches);
        run->is_full = true;
        return LK_OK;
    }
    run->count++;
    run->end++;
    return LK_OK;
}

static bool is_full(const log_run *run)
{
    return run->count == run->count_max || run->arena.used_bytes >= RUN_BYTES || run->is_full;
}

/* The next run of the log, of so many entries at most, becomes a generation, as far as it can be read. */
static lk_rc replay_run(lk_rollout_writer *w, size_t count_max, bool *more, lk_err *err)
{
    log_run run = {.end = w->log_next, .more = true, .count_max = count_max};
    lk_err  unread = {0};
    lk_rc   read = LK_OK;
    while (read == LK_OK && run.more && !is_full(&run)) {
        read = read_into_run(w, &run, &unread);
    }
    lk_rc rc = run.count == 0 ? LK_OK : replay_batches(w, &run.base, run.end - 1, err);
    w->log_next = rc == LK_OK ? run.end : w->log_next;
    *more = run.more;
    close_run(&run);
    if (rc == LK_OK && read != LK_OK) {
        *err = unread;
    }
    return rc == LK_OK ? read : rc;
}

/* Entries that an earlier writer left behind its last flush. Where one of a run is damaged they are taken one by one: those
 * before it come to light. */
static lk_rc replay_log(lk_rollout_writer *w, lk_err *err)
{
    lk_rc  rc = LK_OK;
    size_t count_max = RUN_ENTRIES_MAX;
    w->log_next = w->shard.manifest.replay_after + 1;
    for (bool more = true; rc == LK_OK && more;) {
        rc = replay_run(w, count_max, &more, err);
        if (rc != LK_OK && !err->maybe_applied && rc != LK_E_SHARD_FENCED && count_max > 1) {
            *err = (lk_err){0};
            rc = LK_OK;
            count_max = 1;
            more = true;
        }
    }
    return rc;
}

static lk_rc claim(lk_rollout_writer *w, lk_err *err)
{
    if (w->claimed) {
        return LK_OK;
    }
    if (lk_clock_monotonic_ms(w->options.env->clock) < w->fenced_until_ms) {
        return lk_refuse(
            err, LK_E_SHARD_FENCED, "another writer claimed the shard; this one tries again later");
    }
    lk_shard_writer_deinit(&w->shard);
    lk_rc rc = lk_shard_claim(w->options.env->store, w->options.shard, &w->shard, err);
    if (rc == LK_OK) {
        w->shard.hints = w->options.env->store->far ? w->options.late : NULL;
        rc = replay_log(w, err);
    }
    w->claimed = rc == LK_OK;
    if (rc == LK_E_SHARD_FENCED) {
        lose_claim(w, rc);
    }
    return rc;
}

/* -- groups ------------------------------------------------------------------------------------------------------ */

/* What is to be written, decided while the shard is ours: an earlier writer's rows that the claim brought to light count. */
static lk_rc prepare(
    lk_rollout_writer *w, lk_rollout_add *adds, lk_arena *arena, lk_generation_rows *rows, lk_err *err)
{
    lk_rc rc = w->options.ops->prepare(w->options.context, adds, arena, rows, err);
    if (rc == LK_OK && rows->row_count > 0 && !w->claimed) {
        rc = claim(w, err);
        if (rc == LK_OK) {
            release_rows(rows);
            if (w->options.ops->claimed != NULL) {
                w->options.ops->claimed(w->options.context);
            }
            rc = w->options.ops->prepare(w->options.context, adds, arena, rows, err);
        }
    }
    return rc;
}

/* Acknowledged rows become a generation. Whoever leads calls it. */
static lk_rc seal(lk_rollout_writer *w, lk_err *err)
{
    if (lk_unsealed_count(&w->unsealed) == 0) {
        return LK_OK;
    }
    lk_generation_rows rows = lk_unsealed_rows(&w->unsealed);
    lk_rc              rc = store_rows(w, &rows, w->unsealed.position, err);
    if (rc == LK_OK) {
        lk_unsealed_clear(&w->unsealed);
    } else {
        lose_claim(w, rc); /* the next claim replays the log */
    }
    return rc;
}

/* The rows become a log entry and wait for a seal. A successor that claimed the shard before the entry was there may not
 * have seen it: so the claim is looked at afterwards. */
static lk_rc log_rows(lk_rollout_writer *w, const lk_generation_rows *rows, lk_err *err)
{
    uint64_t position = 0;
    lk_rc    rc = write_log(w, rows, &position, err);
    if (rc == LK_OK) {
        rc = check_claim(w, err);
    }
    if (rc == LK_OK) {
        rc = lk_unsealed_add(&w->unsealed, rows, position, lk_clock_monotonic_ms(w->options.env->clock), err);
    }
    return rc;
}

static lk_rc flush_deferred(
    lk_rollout_writer *w, lk_rollout_add *adds, lk_arena *arena, lk_generation_rows *rows, lk_err *err)
{
    lk_rc rc = LK_OK;
    if (!lk_unsealed_takes(&w->unsealed, rows)) { /* they are judged by what waits, once it is visible */
        rc = seal(w, err);
        if (rc == LK_OK) {
            release_rows(rows);
            rc = w->options.ops->prepare(w->options.context, adds, arena, rows, err);
        }
    }
    if (rc == LK_OK && rows->row_count > 0) {
        rc = log_rows(w, rows, err);
    }
    if (rc == LK_OK && lk_unsealed_is_full(&w->unsealed)) {
        lk_err later = {0};
        lk_rc  sealed = seal(w, &later);
        (void)sealed; /* it is logged all the same */
    }
    return rc;
}

/* A successor removes what we wrote and never listed: files that are gone may mean that the shard is another's. */
static lk_rc explain_loss(lk_rollout_writer *w, lk_rc rc, lk_err *err)
{
    lk_err looking = {0};
    if ((rc == LK_E_NOT_FOUND || rc == LK_E_IO) && !err->maybe_applied &&
        check_claim(w, &looking) == LK_E_SHARD_FENCED) {
        *err = looking;
        return LK_E_SHARD_FENCED;
    }
    return rc;
}

static lk_rc flush(lk_rollout_writer *w, lk_rollout_add *adds, uint64_t *row_count, lk_err *err)
{
    lk_arena           arena = {0};
    lk_generation_rows rows = {0};
    lk_rc              rc = prepare(w, adds, &arena, &rows, err);
    bool               writes = rc == LK_OK && rows.row_count > 0;
    if (writes) {
        rc = w->options.deferred ? flush_deferred(w, adds, &arena, &rows, err) : store_rows(w, &rows, 0, err);
    }
    if (rc != LK_OK && writes && w->claimed) {
        rc = explain_loss(w, rc, err);
        lose_claim(w, rc);
    }
    *row_count = rc == LK_OK ? rows.row_count : 0;
    release_rows(&rows);
    lk_arena_close(&arena);
    return rc;
}

/* Called with the mutex; nobody leads afterwards. */
static void stop_leading(lk_rollout_writer *w)
{
    w->leading = false;
    w->stats.epoch = w->shard.epoch;
    w->stats.pending_generations = w->shard.manifest.generation_count;
    w->stats.unsealed_rows = lk_unsealed_count(&w->unsealed);
    lk_cond_broadcast(&w->changed);
}

/* Waits for its turn. Called and left with the mutex. */
static void start_leading(lk_rollout_writer *w)
{
    while (w->leading) {
        lk_cond_wait(&w->changed, &w->mutex);
    }
    w->leading = true;
}

/* Flushes everything that waits. Called and left with the mutex. */
static void lead(lk_rollout_writer *w)
{
    lk_err   err = {0};
    uint64_t row_count = 0, count = 0;
    w->leading = true;
    if (w->options.group_commit_us > 0) { /* others may join until it begins */
        lk_mutex_unlock(&w->mutex);
        lk_clock_sleep_ms(w->options.env->clock, (w->options.group_commit_us + 999) / 1000);
        lk_mutex_lock(&w->mutex);
    }
    lk_rollout_add *group = w->first;
    w->first = w->last = NULL;
    lk_mutex_unlock(&w->mutex);
    lk_rc rc = flush(w, group, &row_count, &err);
    lk_mutex_lock(&w->mutex);
    for (lk_rollout_add *add = group, *next; add != NULL; add = next) {
        next = add->next; /* a done add is its caller's again */
        if (add->rc == LK_OK && rc != LK_OK) {
            add->rc = rc;
            add->err = err;
        }
        add->done = true;
        count++;
    }
    w->stats.flushes += row_count > 0;
    w->stats.adds += count;
    w->stats.rows += row_count;
    stop_leading(w);
}

void lk_rollout_writer_add_all(lk_rollout_writer *w, lk_rollout_add *adds)
{
    lk_rollout_add *last = adds;
    for (lk_rollout_add *add = adds; add != NULL; add = add->next) {
        add->rc = LK_OK;
        add->done = false;
        last = add;
    }
    lk_mutex_lock(&w->mutex);
    if (w->last == NULL) {
        w->first = adds;
    } else {
        w->last->next = adds;
    }
    w->last = last;
    while (!last->done) { /* whoever leads takes all that wait, and these came together */
        if (w->leading) {
            lk_cond_wait(&w->changed, &w->mutex);
        } else {
            lead(w);
        }
    }
    lk_mutex_unlock(&w->mutex);
}

lk_rc lk_rollout_writer_add(lk_rollout_writer *w, lk_rollout_add *add, lk_err *err)
{
    add->next = NULL;
    lk_rollout_writer_add_all(w, add);
    if (add->rc != LK_OK) {
        *err = add->err;
    }
    return add->rc;
}

lk_rc lk_rollout_writer_commit(lk_rollout_writer *w, lk_shard_change change, void *context, lk_err *err)
{
    lk_mutex_lock(&w->mutex);
    start_leading(w);
    lk_mutex_unlock(&w->mutex);
    lk_rc rc = claim(w, err);
    if (rc == LK_OK && change != NULL) {
        rc = lk_shard_commit(&w->shard, change, context, err);
    }
    if (rc != LK_OK && w->claimed) {
        lose_claim(w, rc);
    }
    lk_mutex_lock(&w->mutex);
    stop_leading(w);
    lk_mutex_unlock(&w->mutex);
    return rc;
}

lk_rc lk_rollout_writer_seal(lk_rollout_writer *w, lk_err *err)
{
    lk_mutex_lock(&w->mutex);
    start_leading(w);
    lk_mutex_unlock(&w->mutex);
    lk_rc rc = w->claimed ? seal(w, err) : LK_OK;
    lk_mutex_lock(&w->mutex);
    stop_leading(w);
    lk_mutex_unlock(&w->mutex);
    return rc;
}

void lk_rollout_writer_read_stats(lk_rollout_writer *w, lk_rollout_writer_stats *out)
{
    lk_mutex_lock(&w->mutex);
    *out = w->stats;
    lk_mutex_unlock(&w->mutex);
}

/* -- what waits for a seal ---------------------------------------------------------------------------------------- */

/* Whether the log has an entry that the next claim would replay. */
static lk_rc find_left(lk_rollout_writer *w, bool *left, lk_err *err)
{
    lk_arena          arena = {0};
    lk_shard_manifest latest = {0};
    lk_wal_entry      entry = {0};
    bool              found = false;
    *left = false;
    lk_rc rc = lk_shard_latest(w->options.env->store, w->options.shard, 0, &arena, &latest, &found, err);
    if (rc == LK_OK && found) {
        rc = lk_wal_read(
            w->options.env->store, w->options.shard, latest.replay_after + 1, &arena, &entry, left, err);
        lk_batches_close(entry.batches);
    }
    lk_arena_close(&arena);
    return rc;
}

/* Rows of the log that nobody sees are brought back by a claim: ones that an earlier process left, or a lost claim. */
static void seal_now(lk_rollout_writer *w)
{
    lk_err err = {0};
    bool   left = false;
    lk_rc  rc = LK_OK;
    if (w->claimed) {
        rc = seal(w, &err);
    } else {
        rc = find_left(w, &left, &err);
        rc = rc == LK_OK && left ? claim(w, &err) : rc;
    }
    w->owes = rc != LK_OK;
}

/* The sealer's thread. */
static void seal_in_time(void *context)
{
    lk_rollout_writer *w = context;
    uint64_t           interval = w->options.flush_interval_ms, step = interval < 20 ? 1 : interval / 20;
    lk_mutex_lock(&w->mutex);
    while (!w->ended) {
        (void)lk_cond_wait_until(&w->ending, &w->mutex, lk_thread_now_ms() + step);
        if (w->ended || w->leading) {
            continue;
        }
        uint64_t waited = lk_clock_monotonic_ms(w->options.env->clock) - w->unsealed.since_ms;
        bool     due = lk_unsealed_count(&w->unsealed) > 0 && waited + 2 * step >= interval;
        if (due || w->owes) {
            w->leading = true;
            lk_mutex_unlock(&w->mutex);
            seal_now(w);
            lk_mutex_lock(&w->mutex);
            stop_leading(w);
        }
    }
    lk_mutex_unlock(&w->mutex);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

lk_rollout_writer *lk_rollout_writer_new(const lk_rollout_writer_options *options)
{
    lk_err             err = {0};
    lk_rollout_writer *w = calloc(1, sizeof *w);
    LK_ASSERT(w != NULL && (!options->deferred || (options->log && options->flush_interval_ms > 0)));
    w->options = *options;
    w->options.late = options->late == NULL ? options->env->store : options->late;
    w->owes = options->deferred;
    w->forms = options->forms == NULL ? lk_generation_forms_new() : options->forms;
    lk_mutex_init(&w->mutex, LK_RANK_ENGINE);
    lk_cond_init(&w->changed);
    lk_cond_init(&w->ending);
    if (options->deferred) {
        lk_rc rc = lk_thread_start(&w->sealer, "sealer", seal_in_time, w, &err);
        LK_ASSERT(rc == LK_OK);
    }
    return w;
}

void lk_rollout_writer_free(lk_rollout_writer *w)
{
    lk_err ignored = {0};
    if (w == NULL) {
        return;
    }
    LK_ASSERT(w->first == NULL);
    lk_mutex_lock(&w->mutex);
    w->ended = true;
    lk_cond_broadcast(&w->ending);
    lk_mutex_unlock(&w->mutex);
    lk_thread_join(&w->sealer);
    lk_rc rc = w->claimed ? seal(w, &ignored) : LK_OK;
    (void)rc; /* else the next claim replays the log */
    lk_unsealed_clear(&w->unsealed);
    if (w->forms != w->options.forms) {
        lk_generation_forms_free(w->forms);
    }
    lk_wal_form_deinit(&w->log);
    lk_shard_writer_deinit(&w->shard);
    lk_cond_deinit(&w->ending);
    lk_cond_deinit(&w->changed);
    lk_mutex_deinit(&w->mutex);
    free(w);
}
