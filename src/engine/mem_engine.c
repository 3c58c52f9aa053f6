/* mem_engine.c - see mem_engine.h. A manifest is JSON; a fragment is one Arrow IPC stream; the schema, which never
 * changes, is an object of its own. */
#include "engine/mem_engine.h"

#include "arrow/cast.h"
#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "base/json.h"
#include "base/uuid.h"
#include "engine/commit.h"
#include "engine/history.h"

#include <stdlib.h>

typedef struct mem_engine {
    lk_engine             base;
    lk_mem_engine_options options;
} mem_engine;

typedef struct manifest { /* in the arena it was read into */
    lk_commit_identity identity;
    uint64_t           rows;
    lk_json_texts      fragments;
} manifest;

typedef struct mem_snapshot {
    lk_table_snapshot  base;
    lk_store          *store;
    struct ArrowSchema schema;
    manifest           manifest;
    lk_arena           arena;
} mem_snapshot;

static void *take(size_t size)
{
    void *memory = calloc(1, size);
    LK_ASSERT(memory != NULL);
    return memory;
}

static lk_rc open_store(mem_engine *engine, lk_bytes location, lk_store **out, lk_err *err)
{
    return lk_mem_store_open(out, engine->options.disk, location, engine->options.hook, err);
}

#define SCHEMA_KEY LK_LITERAL("schema.ipc")

static lk_rc read_schema(lk_store *store, lk_arena *arena, struct ArrowSchema *out, lk_err *err)
{
    lk_bytes message = {0};
    lk_rc    rc = lk_store_load(store, SCHEMA_KEY, SIZE_MAX, arena, &message, err);
    return rc != LK_OK ? rc : lk_ipc_schema_decode(message, out, err);
}

/* -- manifests ------------------------------------------------------------------------------------ */
static void encode_manifest(const manifest *m, lk_bytes added, lk_buf *out)
{
    lk_json_writer w = {.out = out};
    lk_json_object(&w);
    lk_json_key(&w, "tenant");
    lk_json_text(&w, m->identity.tenant);
    lk_json_key(&w, "operation_id");
    lk_json_text(&w, m->identity.operation_id);
    lk_json_key(&w, "payload_sha256");
    lk_json_text(&w, m->identity.payload_sha256);
    lk_json_key(&w, "rows");
    lk_json_u64(&w, m->rows);
    lk_json_key(&w, "fragments");
    lk_json_array(&w);
    for (size_t i = 0; i < m->fragments.count; i++) {
        lk_json_text(&w, m->fragments.items[i]);
    }
    if (added.size > 0) {
        lk_json_text(&w, added);
    }
    lk_json_array_end(&w);
    lk_json_object_end(&w);
}

static lk_rc read_manifest(lk_store *store, lk_bytes key, lk_arena *arena, manifest *m, lk_err *err)
{
    lk_bytes            text = {0};
    const lk_json_field fields[] = {
        {"tenant", LK_JSON_TEXT, &m->identity.tenant, false, NULL},
        {"operation_id", LK_JSON_TEXT, &m->identity.operation_id, false, NULL},
        {"payload_sha256", LK_JSON_TEXT, &m->identity.payload_sha256, false, NULL},
        {"rows", LK_JSON_U64, &m->rows, false, NULL},
        {"fragments", LK_JSON_TEXTS, &m->fragments, false, NULL},
    };
    lk_rc rc = lk_store_load(store, key, SIZE_MAX, arena, &text, err);
    return rc != LK_OK ? rc : lk_json_read(text, fields, sizeof fields / sizeof fields[0], arena, err);
}

static lk_rc read_identity(
    void *context, lk_bytes path, lk_arena *arena, lk_commit_identity *out, bool *found, lk_err *err)
{
    manifest m = {0};
    lk_err   seen = {0};
    lk_rc    rc = read_manifest(context, path, arena, &m, &seen);
    *found = rc == LK_OK;
    *out = m.identity;
    if (rc != LK_OK && rc != LK_E_NOT_FOUND) {
        *err = seen;
        return rc;
    }
    return LK_OK;
}

static lk_rc load_version(
    mem_engine *engine, lk_store *store, lk_table_at at, lk_arena *arena, manifest *m, lk_err *err)
{
    lk_rc rc = LK_E_NOT_FOUND;
    for (int attempt = 0; rc == LK_E_NOT_FOUND && attempt < 3; attempt++) { /* a staging name may be swept */
        lk_bytes path = {0};
        bool     found = false;
        *err = (lk_err){0};
        rc = lk_pointer_resolve(
            engine->options.kv, at.location, at.incarnation, at.version, arena, &path, &found, err);
        if (rc == LK_OK && !found) {
            break;
        }
        rc = rc == LK_OK ? read_manifest(store, path, arena, m, err) : rc;
        if (rc == LK_OK) {
            return LK_OK;
        }
    }
    if (rc == LK_OK || rc == LK_E_NOT_FOUND) {
        *err = (lk_err){0};
        return lk_fail(err, LK_E_SNAPSHOT_GONE, "version of %.*s", LK_FMT(at.location));
    }
    return rc;
}

/* -- writing -------------------------------------------------------------------------------------- */
typedef struct buffer_sink {
    lk_ipc_sink base;
    lk_buf      out;
} buffer_sink;

static lk_rc sink_write(lk_ipc_sink *sink, const void *data, size_t size, lk_err *err)
{
    (void)err;
    lk_buf_append(&((buffer_sink *)sink)->out, data, size);
    return LK_OK;
}

static lk_rc encode_rows(
    const struct ArrowSchema *schema, lk_batches *rows, lk_buf *out, uint64_t *count, lk_err *err)
{
    buffer_sink    sink = {.base.write = sink_write};
    lk_ipc_writer *writer = NULL;
    lk_rc          rc = lk_schema_compare(schema, &rows->schema, LK_SCHEMA_APPEND, err);
    if (rc == LK_OK) {
        rc = lk_ipc_writer_open(schema, LK_IPC_STREAM, &sink.base, &writer, err);
    }
    for (bool more = true; rc == LK_OK && more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        if (more) {
            rc = lk_batch_check_nulls(schema, &batch, (int64_t)*count, err);
            *count += (uint64_t)batch.length;
            lk_shared_array *shared = lk_array_share(&batch);
            rc = rc == LK_OK ? lk_ipc_writer_write(writer, shared, err) : rc;
            lk_shared_array_unref(shared);
        }
    }
    rc = rc == LK_OK ? lk_ipc_writer_finish(writer, err) : rc;
    lk_ipc_writer_close(writer);
    *out = sink.out;
    return rc;
}

static lk_rc publish(mem_engine *engine, lk_store *store, lk_bytes location, lk_bytes incarnation,
    uint64_t version, lk_commit_terms terms, lk_bytes text, bool *won, lk_err *err)
{
    lk_owned_committer committer;
    lk_arena           arena = {0};
    lk_owned_committer_init(&committer, engine->options.kv, engine->options.clock, engine->options.random,
        location, incarnation, terms);
    lk_rc rc = committer.base.commit(
        &committer.base, store, version, lk_pointer_final_path(&arena, version), text, won, err);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc create(lk_engine *base, const lk_create_request *request, uint64_t *version, lk_err *err)
{
    mem_engine *engine = (mem_engine *)base;
    lk_store   *store = NULL;
    lk_buf      schema = {0}, text = {0};
    bool        won = false;
    lk_rc       rc = lk_ipc_schema_encode(request->schema, LK_IPC_ENCAPSULATED, &schema, err);
    if (rc == LK_OK) {
        rc = open_store(engine, request->location, &store, err);
    }
    if (rc == LK_OK) { /* there already, when a create is tried again */
        rc = lk_store_put_if_absent(store, SCHEMA_KEY, lk_buf_view(&schema), &won, err);
        err->maybe_applied = false;
        won = false;
    }
    if (rc == LK_OK) {
        encode_manifest(&(manifest){0}, (lk_bytes){0}, &text);
        rc = publish(engine, store, request->location, request->incarnation, 1, request->terms,
            lk_buf_view(&text), &won, err);
    }
    if (rc == LK_OK && !won) {
        rc = lk_fail(err, LK_E_CONFLICT, "create of %.*s lost", LK_FMT(request->location));
    }
    *version = 1;
    lk_store_close(store);
    lk_buf_deinit(&schema);
    lk_buf_deinit(&text);
    return rc;
}

static lk_rc reconcile(lk_engine *base, lk_table_at at, lk_bytes tenant, lk_bytes operation_id,
    lk_bytes payload_sha256, lk_reconciled *out, uint64_t *version, lk_err *err)
{
    mem_engine              *engine = (mem_engine *)base;
    lk_store                *store = NULL;
    const lk_commit_identity wanted = {tenant, operation_id, payload_sha256};
    lk_rc                    rc = open_store(engine, at.location, &store, err);
    if (rc == LK_OK) {
        const lk_history_reader reader = {read_identity, store};
        rc = lk_history_reconcile(engine->options.kv, at, &wanted, reader, out, version, err);
    }
    lk_store_close(store);
    return rc;
}

static lk_rc lost_append(mem_engine *engine, const lk_append_request *request, uint64_t *version, lk_err *err)
{
    lk_reconciled found = LK_RECONCILED_UNKNOWN;
    lk_rc         rc = reconcile(&engine->base, request->at, request->tenant, request->operation_id,
                request->payload_sha256, &found, version, err);
    if (rc != LK_OK || found == LK_RECONCILED_COMMITTED) {
        return rc;
    }
    return lk_fail(err, LK_E_CONFLICT, "append to %.*s lost", LK_FMT(request->at.location));
}

static lk_rc write_fragment(lk_store *store, mem_engine *engine, const struct ArrowSchema *schema,
    lk_batches *rows, lk_arena *arena, lk_bytes *key, uint64_t *count, lk_err *err)
{
    char   name[LK_UUID_TEXT_SIZE + 1];
    lk_buf bytes = {0};
    bool   created = false;
    lk_uuid_format(lk_uuid_v7(engine->options.clock, engine->options.random), name);
    *key = lk_arena_format(arena, "data/%s.arrow", name);
    lk_rc rc = encode_rows(schema, rows, &bytes, count, err);
    if (rc == LK_OK) {
        rc = lk_store_put_if_absent(store, *key, lk_buf_view(&bytes), &created, err);
        err->maybe_applied = false; /* an unreferenced fragment is nothing */
    }
    lk_buf_deinit(&bytes);
    return rc;
}

static lk_rc append(lk_engine *base, const lk_append_request *request, uint64_t *version, lk_err *err)
{
    mem_engine        *engine = (mem_engine *)base;
    lk_store          *store = NULL;
    lk_arena           arena = {0};
    struct ArrowSchema schema = {0};
    manifest           m = {0};
    lk_bytes           fragment = {0};
    lk_buf             text = {0};
    bool               won = false;
    lk_rc              rc = open_store(engine, request->at.location, &store, err);
    rc = rc == LK_OK ? load_version(engine, store, request->at, &arena, &m, err) : rc;
    rc = rc == LK_OK ? read_schema(store, &arena, &schema, err) : rc;
    if (rc == LK_OK) {
        rc = write_fragment(store, engine, &schema, request->rows, &arena, &fragment, &m.rows, err);
    }
    if (rc == LK_OK) {
        m.identity = (lk_commit_identity){request->tenant, request->operation_id, request->payload_sha256};
        encode_manifest(&m, fragment, &text);
        rc = publish(engine, store, request->at.location, request->at.incarnation, request->at.version + 1,
            request->terms, lk_buf_view(&text), &won, err);
        *version = request->at.version + 1;
    }
    if (rc == LK_OK && !won) {
        rc = lost_append(engine, request, version, err);
    }
    lk_buf_deinit(&text);
    lk_schema_release(&schema);
    lk_arena_close(&arena);
    lk_store_close(store);
    return rc;
}

/* -- head, remove, recover ------------------------------------------------------------------------- */
static lk_rc head(lk_engine *base, lk_table_at at, uint64_t *version, lk_err *err)
{
    mem_engine *engine = (mem_engine *)base;
    lk_arena    arena = {0};
    lk_pointer  current;
    lk_rc       rc = lk_pointer_load(engine->options.kv, at.location, &arena, &current, err);
    if (rc == LK_OK &&
        (current.state != LK_POINTER_LIVE || !lk_bytes_equal(current.incarnation, at.incarnation))) {
        rc = lk_fail(err, LK_E_SNAPSHOT_GONE, "no live dataset at %.*s", LK_FMT(at.location));
    }
    *version = rc == LK_OK ? current.version : 0;
    lk_arena_close(&arena);
    return rc;
}

static lk_rc remove_table(lk_engine *base, lk_table_at at, lk_commit_terms terms, lk_err *err)
{
    mem_engine *engine = (mem_engine *)base;
    lk_store   *store = NULL;
    lk_rc       rc = lk_pointer_delete(
              engine->options.kv, at.location, at.incarnation, terms.guard_key, terms.guard_value, err);
    if (rc == LK_OK) {
        rc = open_store(engine, (lk_bytes){0}, &store, err);
    }
    if (rc == LK_OK) {
        rc = lk_store_remove_tree(store, at.location, err);
    }
    lk_store_close(store);
    return rc;
}

typedef struct recovery {
    mem_engine     *engine;
    lk_commit_terms terms;
} recovery;

static lk_rc settle_one(void *context, lk_bytes location, lk_err *err)
{
    const recovery *r = context;
    lk_store       *store = NULL;
    lk_rc           rc = open_store(r->engine, location, &store, err);
    rc = rc == LK_OK ? lk_owned_settle(r->engine->options.kv, store, location, r->terms, err) : rc;
    lk_store_close(store);
    return rc;
}

static lk_rc recover(lk_engine *base, lk_commit_terms terms, lk_cancel *cancel, lk_err *err)
{
    recovery r = {(mem_engine *)base, terms};
    return lk_history_each_base(r.engine->options.kv, cancel, settle_one, &r, err);
}

/* -- reading --------------------------------------------------------------------------------------- */
typedef struct mem_scan {
    lk_batches      base;
    mem_snapshot   *snapshot; /* one reference */
    lk_scan_options options;
    size_t          fragment;
    lk_batches     *stream; /* of the open fragment */
    lk_arena        arena;
    uint64_t        left;
} mem_scan;

static lk_rc next_raw(mem_scan *scan, struct ArrowArray *out, lk_err *err)
{
    const lk_json_texts *fragments = &scan->snapshot->manifest.fragments;
    lk_rc                rc = LK_OK;
    while (
        rc == LK_OK && out->release == NULL && (scan->stream != NULL || scan->fragment < fragments->count)) {
        if (scan->stream == NULL) {
            lk_bytes bytes = {0};
            rc = lk_store_load(scan->snapshot->store, fragments->items[scan->fragment++], SIZE_MAX,
                &scan->arena, &bytes, err);
            rc = rc == LK_OK ? lk_ipc_open(lk_ipc_source_bytes(bytes), NULL, &scan->stream, err) : rc;
        }
        rc = rc == LK_OK ? lk_batches_next(scan->stream, out, err) : rc;
        if (rc == LK_OK && out->release == NULL) {
            lk_batches_close(scan->stream);
            scan->stream = NULL;
        }
    }
    return rc;
}

static lk_rc filter_rows(mem_scan *scan, struct ArrowArray *batch, lk_err *err)
{
    const struct ArrowSchema *schema = &scan->snapshot->schema;
    size_t                    columns = (size_t)schema->n_children, rows = (size_t)batch->length;
    lk_arena                  arena = {0};
    struct ArrowArray         kept = {0};
    size_t                   *all = lk_arena_take(&arena, columns * sizeof *all + 1);
    uint8_t                  *selection = lk_arena_take(&arena, rows + 1);
    int64_t                   selected = 0;
    for (size_t i = 0; i < columns; i++) {
        all[i] = i;
    }
    lk_rc rc = lk_predicate_evaluate(scan->options.predicate, schema, batch, all, columns, selection, err);
    for (size_t i = 0; i < rows; i++) {
        selected += selection[i];
    }
    if (rc == LK_OK) {
        rc = lk_array_filter(schema, batch, selection, selected, &kept, err);
    }
    if (rc == LK_OK) {
        lk_array_release(batch);
        lk_array_move(&kept, batch);
    }
    lk_arena_close(&arena);
    return rc;
}

static void cut(mem_scan *scan, struct ArrowArray *batch)
{
    if ((uint64_t)batch->length > scan->left) {
        struct ArrowArray whole = {0};
        lk_array_move(batch, &whole);
        lk_shared_array *shared = lk_array_share(&whole);
        lk_shared_array_slice(shared, 0, (int64_t)scan->left, batch);
        lk_shared_array_unref(shared);
    }
    scan->left -= (uint64_t)batch->length;
}

static lk_rc project(mem_scan *scan, struct ArrowArray *batch, lk_err *err)
{
    struct ArrowArray narrow = {0};
    int64_t           count = scan->base.schema.n_children;
    if (scan->options.columns == NULL && !scan->options.no_columns) {
        return LK_OK;
    }
    bool made = ArrowArrayInitFromType(&narrow, NANOARROW_TYPE_STRUCT) == NANOARROW_OK &&
                ArrowArrayAllocateChildren(&narrow, count) == NANOARROW_OK;
    if (!made || batch->offset != 0) {
        lk_array_release(&narrow);
        return lk_fail(err, LK_E_INTERNAL, "projection of a sliced batch");
    }
    for (int64_t i = 0; i < count; i++) {
        lk_array_move(batch->children[scan->options.columns[i]], narrow.children[i]);
    }
    narrow.length = batch->length;
    lk_array_release(batch);
    lk_array_move(&narrow, batch);
    return LK_OK;
}

static lk_rc scan_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    mem_scan *scan = (mem_scan *)batches;
    *out = (struct ArrowArray){0};
    if (scan->left == 0) {
        return LK_OK;
    }
    lk_rc rc = lk_cancel_check(scan->options.cancel, err);
    rc = rc == LK_OK ? next_raw(scan, out, err) : rc;
    if (rc != LK_OK || out->release == NULL) {
        return rc;
    }
    if (scan->options.predicate != NULL) {
        rc = filter_rows(scan, out, err);
    }
    rc = rc == LK_OK ? project(scan, out, err) : rc;
    if (rc == LK_OK) {
        cut(scan, out);
    } else {
        lk_array_release(out);
    }
    return rc;
}

static void scan_close(lk_batches *batches)
{
    mem_scan *scan = (mem_scan *)batches;
    lk_batches_close(scan->stream);
    lk_schema_release(&scan->base.schema);
    lk_table_snapshot_unref(&scan->snapshot->base);
    lk_arena_close(&scan->arena);
    free(scan);
}

static lk_rc snapshot_scan(
    lk_table_snapshot *base, const lk_scan_options *options, lk_batches **out, lk_err *err)
{
    mem_snapshot *snapshot = (mem_snapshot *)base;
    if (options->meta != 0) {
        return lk_fail(err, LK_E_UNIMPLEMENTED, "row ids in the memory engine");
    }
    mem_scan *scan = take(sizeof *scan);
    scan->base.next = scan_next;
    scan->base.close = scan_close;
    scan->options = *options;
    scan->left = options->limit;
    lk_rc rc = LK_OK;
    if (options->columns != NULL || options->no_columns) {
        size_t count = options->no_columns ? 0 : options->column_count;
        rc = lk_schema_project(&snapshot->schema, options->columns, count, &scan->base.schema, err);
    } else {
        rc = lk_schema_copy(&snapshot->schema, &scan->base.schema, err);
    }
    if (rc != LK_OK) {
        free(scan);
        return rc;
    }
    scan->snapshot = (mem_snapshot *)lk_table_snapshot_ref(base);
    *out = &scan->base;
    return LK_OK;
}

static lk_rc snapshot_morsels(
    lk_table_snapshot *base, const lk_scan_options *options, lk_morsel_scan **out, lk_err *err)
{
    (void)base, (void)options, (void)out;
    return lk_fail(err, LK_E_UNIMPLEMENTED, "morsels in the memory engine");
}

static const struct ArrowSchema *snapshot_schema(const lk_table_snapshot *base)
{
    return &((const mem_snapshot *)base)->schema;
}

static uint64_t snapshot_rows(const lk_table_snapshot *base)
{
    return ((const mem_snapshot *)base)->manifest.rows;
}

static size_t snapshot_bytes(const lk_table_snapshot *base)
{
    return sizeof(mem_snapshot) + ((const mem_snapshot *)base)->arena.used_bytes;
}

static void snapshot_free(lk_table_snapshot *base)
{
    mem_snapshot *snapshot = (mem_snapshot *)base;
    lk_schema_release(&snapshot->schema);
    lk_store_close(snapshot->store);
    lk_arena_close(&snapshot->arena);
    free(snapshot);
}

static const struct lk_table_snapshot_ops snapshot_ops = {.schema = snapshot_schema,
    .row_count = snapshot_rows,
    .scan = snapshot_scan,
    .morsels = snapshot_morsels,
    .bytes = snapshot_bytes,
    .free = snapshot_free};

static lk_rc open_version(lk_engine *base, lk_table_at at, lk_table_snapshot **out, lk_err *err)
{
    mem_engine   *engine = (mem_engine *)base;
    mem_snapshot *snapshot = take(sizeof *snapshot);
    snapshot->base.ops = &snapshot_ops;
    atomic_init(&snapshot->base.refs, 1);
    lk_rc rc = open_store(engine, at.location, &snapshot->store, err);
    rc = rc == LK_OK ? load_version(engine, snapshot->store, at, &snapshot->arena, &snapshot->manifest, err)
                     : rc;
    rc = rc == LK_OK ? read_schema(snapshot->store, &snapshot->arena, &snapshot->schema, err) : rc;
    if (rc != LK_OK) {
        snapshot_free(&snapshot->base);
        return rc;
    }
    *out = &snapshot->base;
    return LK_OK;
}

static void close_engine(lk_engine *base)
{
    free(base);
}

static const struct lk_engine_ops ops = {.create = create,
    .append = append,
    .reconcile = reconcile,
    .head = head,
    .remove = remove_table,
    .recover = recover,
    .open = open_version,
    .close = close_engine};

lk_rc lk_mem_engine_open(lk_engine **out, const lk_mem_engine_options *options, lk_err *err)
{
    (void)err;
    mem_engine *engine = take(sizeof *engine);
    engine->base = (lk_engine){.ops = &ops, .kind = LK_LITERAL("mem")};
    engine->options = *options;
    *out = &engine->base;
    return LK_OK;
}
