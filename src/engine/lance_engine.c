/* lance_engine.c - see lance_engine.h. */
#include "engine/lance_engine.h"

#include "arrow/ipc.h"
#include "base/limits.h"
#include "base/log.h"
#include "engine/commit.h"
#include "engine/history.h"
#include "engine/open_tables.h"
#include "io/local.h"
#include "lance/buffer_pool.h"

#include <stdlib.h>

#define PROPERTY_TENANT    LK_LITERAL("lake.append.tenant")
#define PROPERTY_OPERATION LK_LITERAL("lake.append.operation_id")
#define PROPERTY_DIGEST    LK_LITERAL("lake.append.payload_sha256")

/* With the pointer: a staging name may be swept between reading it and opening. Without: a version that was just
 * published gets its final name a moment later (commit.h), so a reader apart gives it that moment. */
enum { OPEN_ATTEMPTS = 3, NAME_ATTEMPTS = 20, NAME_PAUSE_MS = 10 };

typedef struct lance_engine {
    lk_engine               base;
    lk_lance_engine_options options;
    lk_open_tables         *tables;
    lk_budget               open_files;
    lk_buffer_pool         *buffers;
    lk_buf                  root;    /* with a slash at its end; empty: locations are absolute */
    lk_pool                *syncers; /* of local files; NULL for an engine that does not write them */
} lance_engine;

typedef struct lance_snapshot {
    lk_table_snapshot  base;
    lk_dataset        *dataset;
    lk_table_files    *files;
    struct ArrowSchema view; /* what statements see: values for dictionaries, bytes for blobs */
} lance_snapshot;

/* -- stores ----------------------------------------------------------------------------------------- */
/* Tables are known by the location below our root: it stays when the root is moved. */
static lk_bytes below_root(const lance_engine *engine, lk_bytes location)
{
    lk_bytes root = lk_buf_view(&engine->root); /* ends with a slash, or is empty */
    bool     ours = root.size > 0 && lk_bytes_starts(location, root);
    return ours ? (lk_bytes){location.data + root.size, location.size - root.size} : location;
}

static bool is_absolute(lk_bytes location)
{
    return location.size > 0 &&
           (location.data[0] == '/' || memmem(location.data, location.size, "://", 3) != NULL);
}

static lk_rc open_at(lance_engine *engine, lk_bytes root, lk_store **out, lk_err *err)
{
    lk_store_opener *opener = engine->options.opener;
    if (opener != NULL) {
        return opener->open(opener, root, out, err);
    }
    /* Nothing of ours is referenced before the committer's sync, so every file may wait for it. */
    return engine->options.volatile_files ? lk_local_store_open(out, root, false, err)
                                          : lk_local_store_open_late(out, root, engine->syncers, err);
}

static lk_rc open_store(lance_engine *engine, lk_bytes location, lk_store **out, lk_err *err)
{
    lk_arena arena = {0};
    lk_bytes path = location;
    if (!is_absolute(location)) {
        path = lk_arena_format(&arena, "%.*s%.*s", LK_FMT(lk_buf_view(&engine->root)), LK_FMT(location));
    }
    lk_rc rc = open_at(engine, path, out, err);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc open_files(lance_engine *engine, lk_bytes location, lk_table_files **out, lk_err *err)
{
    lk_store *store = NULL;
    lk_rc     rc = open_store(engine, location, &store, err);
    if (rc == LK_OK) {
        const lk_lance_env env = {.clock = engine->options.clock,
            .random = engine->options.random,
            .pool = engine->options.pool,
            .budget = engine->options.budget,
            .buffers = engine->buffers,
            .open_files = &engine->open_files};
        *out = lk_table_files_new(store, &env);
    }
    return rc;
}

/* -- open ------------------------------------------------------------------------------------------- */
static lk_rc gone(lk_table_at at, lk_err *err)
{
    *err = (lk_err){0};
    return lk_fail(
        err, LK_E_SNAPSHOT_GONE, "version %llu of %.*s", (unsigned long long)at.version, LK_FMT(at.location));
}

static lk_rc find_manifest(lance_engine *engine, lk_table_at at, lk_arena *arena, lk_bytes *path, lk_err *err)
{
    bool found = false;
    if (engine->options.kv == NULL) {
        *path = lk_pointer_final_path(arena, at.version);
        return LK_OK;
    }
    lk_rc rc = lk_pointer_resolve(
        engine->options.kv, at.location, at.incarnation, at.version, arena, path, &found, err);
    return rc == LK_OK && !found ? gone(at, err) : rc;
}

static lk_rc open_manifest(
    lance_engine *engine, lk_table_at at, lk_table_files *files, lk_dataset **out, lk_err *err)
{
    bool  apart = engine->options.kv == NULL;
    lk_rc rc = LK_E_NOT_FOUND;
    for (int i = 0; rc == LK_E_NOT_FOUND && i < (apart ? NAME_ATTEMPTS : OPEN_ATTEMPTS); i++) {
        lk_arena arena = {0};
        lk_bytes path = {0};
        *err = (lk_err){0};
        if (apart && i > 0) {
            lk_clock_sleep_ms(engine->options.clock, NAME_PAUSE_MS);
        }
        rc = find_manifest(engine, at, &arena, &path, err);
        rc = rc == LK_OK ? lk_dataset_open_manifest(&files->env, path, out, err) : rc;
        lk_arena_close(&arena);
    }
    return rc == LK_E_NOT_FOUND ? gone(at, err) : rc;
}

/* One reference each. */
static lk_rc open_dataset(
    lance_engine *engine, lk_table_at at, lk_dataset **dataset, lk_table_files **files, lk_err *err)
{
    lk_rc rc = LK_OK;
    if (lk_open_tables_find(engine->tables, at.location, at.incarnation, at.version, dataset, files)) {
        return LK_OK;
    }
    if (*files == NULL) {
        rc = open_files(engine, at.location, files, err);
    }
    rc = rc == LK_OK ? open_manifest(engine, at, *files, dataset, err) : rc;
    if (rc == LK_OK && lk_dataset_version(*dataset) != at.version) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "the manifest of version %llu says %llu",
            (unsigned long long)at.version, (unsigned long long)lk_dataset_version(*dataset));
    }
    if (rc != LK_OK) {
        lk_dataset_unref(*dataset);
        lk_table_files_unref(*files);
        *dataset = NULL;
        *files = NULL;
        return rc;
    }
    lk_open_tables_add(engine->tables, at.location, at.incarnation, at.version, *dataset, *files);
    return LK_OK;
}

/* -- commits ---------------------------------------------------------------------------------------- */
static lk_rc read_only(lk_err *err)
{
    return lk_fail(err, LK_E_UNIMPLEMENTED, "this engine has no pointer and only reads");
}

/* After a commit: what is known of its outcome. LK_OK with *lost: it was somebody else's version. */
static lk_rc outcome(const lk_owned_committer *c, lk_rc rc, bool *lost, lk_err *err)
{
    *lost = false;
    if (rc != LK_OK && !c->claimed) {
        err->maybe_applied = false;
    }
    if (rc != LK_OK && c->lost) {
        *err = (lk_err){0};
        *lost = true;
        return LK_OK;
    }
    return rc;
}

static void keep_new(lance_engine *engine, lk_bytes location, const lk_owned_committer *c,
    lk_dataset *dataset, lk_table_files *files)
{
    uint64_t version = lk_dataset_version(dataset);
    atomic_store(&files->settled, c->named ? version : 0);
    lk_open_tables_add(engine->tables, location, c->incarnation, version, dataset, files);
}

static lk_rc create(lk_engine *base, const lk_create_request *request, uint64_t *version, lk_err *err)
{
    lance_engine      *engine = (lance_engine *)base;
    lk_owned_committer committer;
    lk_table_files    *files = NULL;
    lk_dataset        *dataset = NULL;
    struct ArrowSchema schema = {0};
    bool               lost = false;
    lk_bytes           location = below_root(engine, request->location);
    if (engine->options.kv == NULL) {
        return read_only(err);
    }
    lk_rc rc = open_files(engine, location, &files, err);
    if (rc != LK_OK) {
        return rc;
    }
    lk_owned_committer_init(&committer, engine->options.kv, engine->options.clock, engine->options.random,
        location, request->incarnation, request->terms);
    rc = lk_schema_decode_dictionaries(request->schema, &schema, err); /* rows are taken as their values */
    if (rc == LK_OK) {
        rc = lk_dataset_create(&files->env, &committer.base, &schema, NULL, &dataset, err);
    }
    lk_schema_release(&schema);
    rc = outcome(&committer, rc, &lost, err);
    if (lost) {
        rc = lk_fail(err, LK_E_CONFLICT, "create of %.*s lost", LK_FMT(location));
    }
    if (rc == LK_OK) {
        keep_new(engine, location, &committer, dataset, files);
    }
    *version = 1;
    lk_dataset_unref(dataset);
    lk_table_files_unref(files);
    return rc;
}

static lk_rc reconcile(lk_engine *base, lk_table_at at, lk_bytes tenant, lk_bytes operation_id,
    lk_bytes payload_sha256, lk_reconciled *out, uint64_t *version, lk_err *err);

static lk_rc lost_append(
    lance_engine *engine, const lk_append_request *request, uint64_t *version, lk_err *err)
{
    lk_reconciled found = LK_RECONCILED_UNKNOWN;
    lk_rc         rc = reconcile(&engine->base, request->at, request->tenant, request->operation_id,
                request->payload_sha256, &found, version, err);
    if (rc != LK_OK || found == LK_RECONCILED_COMMITTED) {
        return rc;
    }
    return lk_fail(err, LK_E_CONFLICT, "append to %.*s lost", LK_FMT(request->at.location));
}

static lk_rc append(lk_engine *base, const lk_append_request *asked, uint64_t *version, lk_err *err)
{
    lance_engine            *engine = (lance_engine *)base;
    lk_append_request        request = *asked;
    lk_owned_committer       committer;
    lk_table_files          *files = NULL;
    lk_dataset              *head = NULL, *next = NULL;
    const lk_commit_property properties[] = {{PROPERTY_TENANT, request.tenant},
        {PROPERTY_OPERATION, request.operation_id}, {PROPERTY_DIGEST, request.payload_sha256}};
    const lk_write_options   options = {.properties = properties, .property_count = 3};
    bool                     lost = false;
    if (engine->options.kv == NULL) {
        return read_only(err);
    }
    request.at.location = below_root(engine, asked->at.location);
    lk_rc rc = open_dataset(engine, request.at, &head, &files, err);
    if (rc == LK_OK) {
        lk_owned_committer_init(&committer, engine->options.kv, engine->options.clock, engine->options.random,
            request.at.location, request.at.incarnation, request.terms);
        committer.settled = atomic_load(&files->settled);
        rc = lk_dataset_append(head, &committer.base, request.rows, &options, &next, err);
        rc = outcome(&committer, rc, &lost, err);
        *version = request.at.version + 1;
    }
    if (lost) {
        rc = lost_append(engine, &request, version, err);
    } else if (rc == LK_OK) {
        keep_new(engine, request.at.location, &committer, next, files);
    }
    lk_dataset_unref(next);
    lk_dataset_unref(head);
    lk_table_files_unref(files);
    return rc;
}

/* -- reconcile, head, remove, recover ----------------------------------------------------------------- */
static lk_rc read_identity(
    void *context, lk_bytes path, lk_arena *arena, lk_commit_identity *out, bool *found, lk_err *err)
{
    lk_table_files *files = context;
    lk_dataset     *dataset = NULL;
    lk_err          seen = {0};
    bool            has = false;
    lk_rc           rc = lk_dataset_open_manifest(&files->env, path, &dataset, &seen);
    *found = rc == LK_OK;
    if (rc != LK_OK) {
        if (rc != LK_E_NOT_FOUND) {
            *err = seen;
        }
        return rc == LK_E_NOT_FOUND ? LK_OK : rc;
    }
    rc = lk_dataset_property(dataset, PROPERTY_TENANT, arena, &out->tenant, &has, err);
    if (rc == LK_OK) {
        rc = lk_dataset_property(dataset, PROPERTY_OPERATION, arena, &out->operation_id, &has, err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_property(dataset, PROPERTY_DIGEST, arena, &out->payload_sha256, &has, err);
    }
    lk_dataset_unref(dataset);
    return rc;
}

static lk_rc reconcile(lk_engine *base, lk_table_at at, lk_bytes tenant, lk_bytes operation_id,
    lk_bytes payload_sha256, lk_reconciled *out, uint64_t *version, lk_err *err)
{
    lance_engine            *engine = (lance_engine *)base;
    lk_table_files          *files = NULL;
    const lk_commit_identity wanted = {tenant, operation_id, payload_sha256};
    at.location = below_root(engine, at.location);
    if (engine->options.kv == NULL) {
        return read_only(err);
    }
    lk_rc rc = open_files(engine, at.location, &files, err);
    if (rc == LK_OK) {
        const lk_history_reader reader = {read_identity, files};
        rc = lk_history_reconcile(engine->options.kv, at, &wanted, reader, out, version, err);
    }
    lk_table_files_unref(files);
    return rc;
}

static lk_rc head(lk_engine *base, lk_table_at at, uint64_t *version, lk_err *err)
{
    lance_engine *engine = (lance_engine *)base;
    lk_arena      arena = {0};
    lk_pointer    current;
    at.location = below_root(engine, at.location);
    if (engine->options.kv == NULL) {
        return read_only(err);
    }
    lk_rc rc = lk_pointer_load(engine->options.kv, at.location, &arena, &current, err);
    bool  live = current.state == LK_POINTER_LIVE && lk_bytes_equal(current.incarnation, at.incarnation);
    if (rc == LK_OK && !live) {
        rc = gone(at, err);
    }
    *version = rc == LK_OK ? current.version : 0;
    lk_arena_close(&arena);
    return rc;
}

/* "a/b/c.lance" -> "a/b" and "c.lance". */
static void split(lk_bytes location, lk_bytes *parent, lk_bytes *name)
{
    size_t at = location.size;
    while (at > 0 && location.data[at - 1] != '/') {
        at--;
    }
    *name = (lk_bytes){location.data + at, location.size - at};
    *parent = (lk_bytes){location.data, at > 1 ? at - 1 : at};
}

static lk_rc remove_table(lk_engine *base, lk_table_at at, lk_commit_terms terms, lk_err *err)
{
    lance_engine *engine = (lance_engine *)base;
    lk_bytes      parent, name;
    lk_store     *store = NULL;
    at.location = below_root(engine, at.location);
    if (engine->options.kv == NULL) {
        return read_only(err);
    }
    split(at.location, &parent, &name);
    lk_open_tables_forget(engine->tables, at.location);
    lk_rc rc = lk_pointer_delete(
        engine->options.kv, at.location, at.incarnation, terms.guard_key, terms.guard_value, err);
    rc = rc == LK_OK ? open_store(engine, parent, &store, err) : rc;
    rc = rc == LK_OK ? lk_store_remove_tree(store, name, err) : rc;
    lk_store_close(store);
    return rc;
}

typedef struct recovery {
    lance_engine   *engine;
    lk_commit_terms terms;
} recovery;

/* A table that cannot be settled is its own trouble: it is logged, and appends to it will say why. */
static lk_rc settle_one(void *context, lk_bytes location, lk_err *err)
{
    (void)err;
    const recovery *r = context;
    lk_err          failure = {0};
    lk_store       *store = NULL;
    lk_rc           rc = open_store(r->engine, location, &store, &failure);
    rc = rc == LK_OK ? lk_owned_settle(r->engine->options.kv, store, location, r->terms, &failure) : rc;
    if (rc != LK_OK && rc != LK_E_FOREIGN_COMMIT) {
        lk_log_error(LK_LOG_RECOVERY_FAILED, &failure);
    }
    lk_store_close(store);
    return LK_OK;
}

static lk_rc recover(lk_engine *base, lk_commit_terms terms, lk_cancel *cancel, lk_err *err)
{
    recovery r = {(lance_engine *)base, terms};
    return r.engine->options.kv == NULL
               ? read_only(err)
               : lk_history_each_base(r.engine->options.kv, cancel, settle_one, &r, err);
}

/* -- snapshots -------------------------------------------------------------------------------------- */
static const struct ArrowSchema *snapshot_schema(const lk_table_snapshot *base)
{
    return &((const lance_snapshot *)base)->view;
}

static lk_scan_options seen(const lk_scan_options *options)
{
    lk_scan_options out = *options;
    out.dictionary_values = true;
    out.blobs = LK_BLOBS_BYTES;
    return out;
}

static uint64_t snapshot_rows(const lk_table_snapshot *base)
{
    return lk_dataset_row_count(((const lance_snapshot *)base)->dataset);
}

static lk_rc snapshot_scan(
    lk_table_snapshot *base, const lk_scan_options *options, lk_batches **out, lk_err *err)
{
    const lk_scan_options mine = seen(options);
    return lk_dataset_scan(((lance_snapshot *)base)->dataset, &mine, out, err);
}

static lk_rc snapshot_morsels(
    lk_table_snapshot *base, const lk_scan_options *options, lk_morsel_scan **out, lk_err *err)
{
    const lk_scan_options mine = seen(options);
    return lk_dataset_morsel_scan(((lance_snapshot *)base)->dataset, &mine, out, err);
}

static lk_rc snapshot_take(lk_table_snapshot *base, const lk_take_rows *rows, const lk_scan_options *options,
    lk_batches **out, lk_err *err)
{
    const lk_scan_options mine = seen(options);
    return lk_dataset_take(((lance_snapshot *)base)->dataset, rows, &mine, out, err);
}

static size_t snapshot_bytes(const lk_table_snapshot *base)
{
    return sizeof(lance_snapshot) + lk_dataset_bytes(((const lance_snapshot *)base)->dataset);
}

static void snapshot_free(lk_table_snapshot *base)
{
    lance_snapshot *snapshot = (lance_snapshot *)base;
    lk_schema_release(&snapshot->view);
    lk_dataset_unref(snapshot->dataset);
    lk_table_files_unref(snapshot->files);
    free(snapshot);
}

static const struct lk_table_snapshot_ops snapshot_ops = {.schema = snapshot_schema,
    .row_count = snapshot_rows,
    .scan = snapshot_scan,
    .morsels = snapshot_morsels,
    .take = snapshot_take,
    .bytes = snapshot_bytes,
    .free = snapshot_free};

static lk_rc open_version(lk_engine *base, lk_table_at at, lk_table_snapshot **out, lk_err *err)
{
    lk_dataset     *dataset = NULL;
    lk_table_files *files = NULL;
    lance_engine   *engine = (lance_engine *)base;
    at.location = below_root(engine, at.location);
    lk_rc rc = open_dataset(engine, at, &dataset, &files, err);
    if (rc != LK_OK) {
        return rc;
    }
    lance_snapshot *snapshot = calloc(1, sizeof *snapshot);
    LK_ASSERT(snapshot != NULL);
    snapshot->base.ops = &snapshot_ops;
    atomic_init(&snapshot->base.refs, 1);
    snapshot->dataset = dataset;
    snapshot->files = files;
    rc = lk_view_schema(lk_dataset_schema(dataset), (lk_view){true, LK_BLOBS_BYTES}, &snapshot->view, err);
    if (rc != LK_OK) {
        snapshot_free(&snapshot->base);
        return rc;
    }
    *out = &snapshot->base;
    return LK_OK;
}

/* -- life ------------------------------------------------------------------------------------------- */
static void close_engine(lk_engine *base)
{
    lance_engine *engine = (lance_engine *)base;
    lk_open_tables_free(engine->tables);
    lk_buffer_pool_close(engine->buffers);
    lk_pool_close(engine->syncers);
    lk_buf_deinit(&engine->root);
    free(engine);
}

static const struct lk_engine_ops ops = {.create = create,
    .append = append,
    .reconcile = reconcile,
    .head = head,
    .remove = remove_table,
    .recover = recover,
    .open = open_version,
    .close = close_engine};

static void set_root(lance_engine *engine, lk_bytes root)
{
    while (root.size > 1 && root.data[root.size - 1] == '/') {
        root.size--;
    }
    if (root.size > 0) {
        lk_buf_append_bytes(&engine->root, root);
        lk_buf_append_text(&engine->root, "/");
    }
}

lk_rc lk_lance_engine_open(lk_engine **out, const lk_lance_engine_options *options, lk_err *err)
{
    lance_engine *engine = calloc(1, sizeof *engine);
    LK_ASSERT(engine != NULL);
    engine->base = (lk_engine){.ops = &ops, .kind = LK_LITERAL("lance")};
    engine->options = *options;
    engine->tables = lk_open_tables_new();
    engine->buffers = lk_buffer_pool_new(options->budget);
    set_root(engine, options->root);
    size_t files = options->open_files_max;
    lk_budget_init(&engine->open_files, "open files", files == 0 ? LK_ENGINE_FILES_MAX : files, NULL);
    if (options->kv != NULL && options->opener == NULL && !options->volatile_files) {
        lk_rc rc = lk_pool_open(&engine->syncers, "sync", LK_ENGINE_SYNC_THREADS, LK_ENGINE_SYNC_QUEUE, err);
        if (rc != LK_OK) {
            close_engine(&engine->base);
            return rc;
        }
    }
    *out = &engine->base;
    return LK_OK;
}
