/* checks.c - see checks.h. */
#include "checks.h"

#include "rollout/cell.h"
#include "rollout/query.h"
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>

void row_id(int client, int number, int row, char out[24])
{
    (void)snprintf(out, 24, "c%d-%d-%d", client, number, row);
}

/* -- always ----------------------------------------------------------------------------------------------------------- */

static shard_tip *tip_of(world *w, lk_uuid shard)
{
    for (int i = 0; i < PODS; i++) {
        if (memcmp(&w->tips[i].id, &shard, sizeof shard) == 0) {
            return &w->tips[i];
        }
    }
    return NULL;
}

static bool has_file(const world *w, lk_bytes directory, const char *below)
{
    lk_buf prefix = {0};
    lk_buf_format(&prefix, "%.*s/%s", LK_FMT(directory), below);
    size_t at = disk_from(&w->bucket, lk_buf_view(&prefix));
    bool   has = at < w->bucket.count && disk_has_prefix(&w->bucket.objects[at], lk_buf_view(&prefix));
    lk_buf_deinit(&prefix);
    return has;
}

static void check_files(world *w, const lk_shard_manifest *manifest, const lk_shard_generation *g)
{
    static const char *const parts[] = {"data/", "_versions/18446744073709551614.manifest",
        "bloom_filter.bin", "_pk_index/page_data.lance", "_pk_index/page_lookup.lance"};
    lk_arena                 arena = {0};
    lk_bytes                 directory = lk_shard_key(manifest->shard, g->path, &arena);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!has_file(w, directory, parts[i])) {
            sim_fail(&w->report, "version %" PRIu64 " lists generation %" PRIu64 ", which has no %s",
                manifest->version, g->number, parts[i]);
        }
    }
    lk_arena_close(&arena);
}

void check_manifest(world *w, lk_bytes key, lk_bytes bytes)
{
    lk_err            err = {0};
    lk_arena          arena = {0};
    lk_shard_manifest next;
    if (lk_shard_manifest_decode(bytes, &arena, &next, &err) != LK_OK) {
        sim_fail(&w->report, "%.*s: %s", LK_FMT(key), err.context);
        lk_arena_close(&arena);
        return;
    }
    shard_tip               *tip = tip_of(w, next.shard);
    const lk_shard_manifest *last = &tip->manifest;
    sim_trace(&w->report,
        "shard %d: version %" PRIu64 " epoch %" PRIu64 " next %" PRIu64 " listed %zu replayed %" PRIu64,
        (int)(tip - w->tips), next.version, next.writer_epoch, next.current_generation, next.generation_count,
        next.replay_after);
    if (next.version != last->version + 1) {
        sim_fail(&w->report, "version %" PRIu64 " of a shard follows %" PRIu64, next.version, last->version);
    } else if (next.writer_epoch < last->writer_epoch || next.writer_epoch > last->writer_epoch + 1 ||
               next.current_generation < last->current_generation || next.replay_after < last->replay_after) {
        sim_fail(&w->report, "version %" PRIu64 " of a shard: an epoch, a number or a position went back",
            next.version);
    }
    for (size_t i = 0; i < next.generation_count; i++) {
        const lk_shard_generation *g = &next.generations[i], *was = lk_shard_manifest_find(last, g->number);
        if (was == NULL && g->number < last->current_generation) {
            sim_fail(&w->report, "generation %" PRIu64 " was taken off and is back", g->number);
        } else if (was != NULL && !lk_bytes_equal(was->path, g->path)) {
            sim_fail(&w->report, "generation %" PRIu64 " moved", g->number);
        }
        check_files(w, &next, g);
    }
    lk_arena_close(&tip->arena);
    tip->arena = arena;
    tip->manifest = next;
}

/* Only what a newer one superseded is emptied. */
void check_emptied(world *w, lk_bytes key)
{
    lk_arena arena = {0};
    bool     superseded = false;
    for (int i = 0; i < PODS; i++) {
        for (uint64_t version = 1; version < w->tips[i].manifest.version; version++) {
            superseded =
                superseded || lk_bytes_equal(key, lk_shard_manifest_key(w->tips[i].id, version, &arena));
        }
    }
    if (!superseded) {
        sim_fail(&w->report, "%.*s is emptied, and nothing superseded it", LK_FMT(key));
    }
    lk_arena_close(&arena);
}

/* At last: of each shard's manifests the newest alone has bytes, and every name is there. */
static void check_chain(world *w, const shard_tip *tip)
{
    lk_arena arena = {0};
    for (uint64_t version = 1; version <= tip->manifest.version; version++) {
        lk_bytes           key = lk_shard_manifest_key(tip->id, version, &arena);
        const disk_object *object = disk_find(&w->bucket, key);
        if (object == NULL || (object->bytes.size > 0) != (version == tip->manifest.version)) {
            sim_fail(
                &w->report, "at last %.*s %s", LK_FMT(key), object == NULL ? "is gone" : "was never emptied");
        }
    }
    lk_arena_close(&arena);
}

void check_base(world *w, uint64_t version)
{
    sim_trace(&w->report, "base: version %" PRIu64, version);
    if (version != w->base_version + 1) {
        sim_fail(&w->report, "version %" PRIu64 " of the table follows %" PRIu64, version, w->base_version);
    }
    w->base_version = version;
}

void check_removal(world *w, lk_bytes key)
{
    lk_arena arena = {0};
    for (int i = 0; i < PODS; i++) {
        const shard_tip *tip = &w->tips[i];
        for (size_t k = 0; k < tip->manifest.generation_count; k++) {
            lk_bytes directory = lk_shard_key(tip->id, tip->manifest.generations[k].path, &arena);
            if (lk_bytes_starts(key, directory)) {
                sim_fail(&w->report, "%.*s is removed, and listed", LK_FMT(key));
            }
        }
    }
    lk_arena_close(&arena);
}

void check_owner(process *p)
{
    lk_rollout_store_stats stats;
    lk_rollout_store_read_stats(p->store, &stats);
    uint64_t epoch = stats.writer.epoch;
    if (epoch == 0 || p->pod == PODS) {
        return;
    }
    LK_ASSERT(epoch < sizeof p->w->owners[0] / sizeof p->w->owners[0][0]);
    unsigned *owner = &p->w->owners[p->pod][epoch];
    *owner = *owner == 0 ? p->group : *owner;
    if (*owner != p->group) {
        sim_fail(&p->w->report, "two processes have epoch %" PRIu64 " of shard %d", epoch, p->pod);
    }
}

/* -- when told, when read --------------------------------------------------------------------------------------------- */

void check_told(world *w, add *a, int contents)
{
    if (a->told != 0 && a->told != contents) {
        sim_fail(&w->report, "an id was acknowledged with two contents");
    }
    if (a->told == 0) {
        a->told = contents;
        a->told_at = ++w->events;
    }
}

typedef struct reading {
    int rows[CLIENTS][ADDS + 1][ROWS_MAX]; /* the contents that were read; 0: none */
} reading;

static void take_row(world *w, reading *r, lk_bytes id, lk_bytes contents)
{
    int client = -1, number = -1, row = -1;
    if (id.size < 24) {
        char text[24] = {0};
        memcpy(text, id.data, id.size);
        (void)sscanf(text, "c%d-%d-%d", &client, &number, &row);
    }
    bool known = client >= 0 && client < CLIENTS && number >= 0 && number <= ADDS && row >= 0 &&
                 row < w->adds[client][number].rows && contents.size == 1 && contents.data[0] >= '1' &&
                 contents.data[0] <= '2';
    if (!known || w->adds[client][number].tried[contents.data[0] - '0'] == 0) {
        sim_fail(&w->report, "a row that nobody sent: %.*s with %.*s", LK_FMT(id), LK_FMT(contents));
    } else if (r->rows[client][number][row] != 0) {
        sim_fail(&w->report, "%.*s is there twice", LK_FMT(id));
    } else {
        r->rows[client][number][row] = contents.data[0] - '0';
    }
}

static lk_rc read_batches(world *w, lk_batches *rows, reading *r, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (bool more = true; more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        for (int64_t i = 0; more && i < batch.length; i++) {
            take_row(w, r, lk_cell_text(batch.children[0], i), lk_cell_large(batch.children[1], i));
        }
        lk_array_release(&batch);
    }
    return rc;
}

/* began: events that had happened when the read began. */
static void judge(world *w, const reading *r, uint64_t began)
{
    for (int client = 0; client < CLIENTS; client++) {
        for (int number = 0; number <= ADDS; number++) {
            add       *a = &w->adds[client][number];
            const int *rows = r->rows[client][number];
            int        first = rows[0];
            for (int row = 1; row < a->rows; row++) {
                if (rows[row] != first) {
                    sim_fail(
                        &w->report, "half of an add: c%d-%d has %d and %d", client, number, first, rows[row]);
                }
            }
            bool due =
                !w->deferred || w->flushed || first != 0; /* deferred: it may be in the log alone, yet */
            if (a->told != 0 && a->told_at <= began && first != a->told && due) {
                sim_fail(&w->report, "c%d-%d was acknowledged with %d; a reader finds %d", client, number,
                    a->told, first);
            }
            if (a->seen != 0 && a->seen_at <= began && first != a->seen) {
                sim_fail(&w->report, "c%d-%d was there with %d; a reader finds %d", client, number, a->seen,
                    first);
            }
            if (a->seen == 0 && first != 0) {
                a->seen = first;
                a->seen_at = ++w->events;
            }
        }
    }
}

lk_rc check_read(process *p, lk_err *err)
{
    const lk_rollout_query query = {
        .columns = UINT64_C(1) << LK_RECORD_COLUMN_id | UINT64_C(1) << LK_RECORD_COLUMN_content,
        .order = LK_ROLLOUT_BY_ID,
        .limit = UINT64_MAX};
    reading              r = {0};
    uint64_t             began = p->w->events;
    lk_rollout_snapshot *snapshot = NULL;
    lk_batches          *rows = NULL;
    lk_rc                rc = lk_rollout_store_snapshot(p->store, 0, &snapshot, err);
    if (rc == LK_E_NOT_FOUND || rc == LK_E_SNAPSHOT_GONE) {
        sim_fail(&p->w->report, "there is no snapshot: %s", err->context);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_query_open(snapshot, &query, &rows, err);
    }
    if (rc == LK_OK) {
        rc = read_batches(p->w, rows, &r, err);
    }
    if (rc == LK_OK) {
        judge(p->w, &r, began);
        p->w->reads++;
    }
    lk_batches_close(rows);
    lk_rollout_snapshot_unref(snapshot);
    return rc;
}

/* -- at last ---------------------------------------------------------------------------------------------------------- */

static void check_base_rows(process *p, lk_dataset *base)
{
    world                *w = p->w;
    lk_err                err = {0};
    reading               r = {0};
    lk_batches           *rows = NULL;
    const size_t          columns[] = {LK_RECORD_COLUMN_id, LK_RECORD_COLUMN_content};
    const lk_scan_options options = {.columns = columns, .column_count = 2, .limit = UINT64_MAX};
    if (lk_dataset_scan(base, &options, &rows, &err) != LK_OK || read_batches(w, rows, &r, &err) != LK_OK) {
        sim_fail(&w->report, "the base table cannot be read: %s", err.context);
    }
    judge(w, &r, w->events);
    lk_batches_close(rows);
}

void check_at_last(process *p)
{
    world               *w = p->w;
    lk_err               err = {0};
    lk_rollout_snapshot *snapshot = NULL;
    lk_rc                rc = lk_rollout_store_snapshot(p->store, 0, &snapshot, &err);
    if (rc != LK_OK) {
        sim_fail(&w->report, "at last: %s", err.context);
        return;
    }
    if (snapshot->source_count != 0) {
        sim_fail(&w->report, "at last %zu generations are listed", snapshot->source_count);
    }
    check_base_rows(p, snapshot->base);
    lk_rollout_snapshot_unref(snapshot);
    for (int i = 0; i < PODS; i++) {
        check_chain(w, &w->tips[i]);
    }
    for (size_t i = 0; i < w->bucket.count; i++) {
        if (strstr(w->bucket.objects[i].key, "_gen_") != NULL) {
            sim_fail(&w->report, "%s was never collected", w->bucket.objects[i].key);
        }
    }
}
