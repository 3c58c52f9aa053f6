/* rollout_read.c - see rollout_read.h. */
#include "cli/rollout_read.h"

#include "arrow/ipc.h"
#include "base/json.h"
#include "base/thread.h"
#include "cli/progress.h"
#include "rollout/records_json.h"
#include "serve/rollout_query_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STORES_MAX = 1 << 20, PIECE_BYTES = 1024 * 1024 };

/* -- names ---------------------------------------------------------------------------------------------------------- */

/* {"stores":[{"name":…,"uri":…}, …]} */
static lk_rc names_of(lk_bytes answer, lk_arena *arena, lk_bytes **names, size_t *count, lk_err *err)
{
    lk_bytes            list = {0};
    lk_json_texts       stores = {0};
    const lk_json_field outside[] = {{"stores", LK_JSON_RAW, &list, false, NULL}};
    lk_rc               rc = lk_json_read(answer, outside, 1, arena, err);
    if (rc == LK_OK) {
        rc = lk_json_elements(list, STORES_MAX, arena, &stores, err);
    }
    *names = lk_arena_take(arena, (stores.count + 1) * sizeof **names);
    for (*count = 0; rc == LK_OK && *count < stores.count; ++*count) {
        lk_bytes            uri = {0};
        uint64_t            version = 0;
        const lk_json_field inside[] = {{"name", LK_JSON_TEXT, &(*names)[*count], false, NULL},
            {"uri", LK_JSON_TEXT, &uri, true, NULL}, {"version", LK_JSON_U64, &version, true, NULL}};
        rc = lk_json_read(stores.items[*count], inside, 3, arena, err);
    }
    return rc;
}

lk_rc lk_rollout_read_names(
    lk_rollout_target *target, lk_arena *arena, lk_bytes **names, size_t *count, lk_err *err)
{
    if (target->stores != NULL) {
        return lk_rollouts_list(target->stores, arena, names, count, err);
    }
    const lk_rollout_call call = {.method = "GET", .path = "/rollouts"};
    lk_buf                answer = {0};
    lk_rc                 rc = lk_rollout_remote_call(target->remote, &call, &answer, err);
    if (rc == LK_OK) {
        rc = names_of(lk_buf_view(&answer), arena, names, count, err);
    }
    lk_buf_deinit(&answer);
    return rc;
}

/* -- lists ---------------------------------------------------------------------------------------------------------- */
static void parameter(lk_buf *out, const char *name, lk_bytes value)
{
    lk_buf_append_text(out, out->size == 0 ? "?" : "&");
    lk_buf_append_text(out, name);
    lk_buf_append_text(out, "=");
    lk_rollout_path_escape(value, out);
}

const char *lk_rollout_question_text(const lk_rollout_list_args *args, lk_arena *arena)
{
    const struct {
        const char *name, *text;
        uint64_t    number, none;
    } parts[] = {{"filters", args->filters, 0, 0}, {"columns", args->columns, 0, 0},
        {"order", args->order, 0, 0}, {"limit", NULL, args->limit, UINT64_MAX},
        {"offset", NULL, args->offset, 0}, {"version", NULL, args->version, 0}};
    lk_buf out = {0};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char number[24];
        (void)snprintf(number, sizeof number, "%" PRIu64, parts[i].number);
        if (parts[i].text != NULL) {
            parameter(&out, parts[i].name, lk_bytes_of(parts[i].text));
        } else if (parts[i].number != parts[i].none) {
            parameter(&out, parts[i].name, lk_bytes_of(number));
        }
    }
    const char *text = lk_arena_text(arena, lk_buf_view(&out));
    lk_buf_deinit(&out);
    return text;
}

/* A list on its way from a server: a thread writes what arrives into a pipe, the batches are read from its other end. */
typedef struct arriving {
    lk_batches         base;
    lk_batches        *rows;
    lk_rollout_remote *remote;
    lk_rollout_call    call;
    lk_thread          thread;
    int                ends[2]; /* read, write; -1: closed */
    lk_err             err;     /* the call's, once the thread has ended */
    lk_rc              rc;
} arriving;

static bool into_pipe(void *context, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t some = write(((arriving *)context)->ends[1], at, size);
        if (some < 0 && errno != EINTR) {
            return false; /* whoever reads has enough */
        }
        at += some < 0 ? 0 : some;
        size -= some < 0 ? 0 : (size_t)some;
    }
    return true;
}

static void fetch(void *context)
{
    arriving *a = context;
    lk_buf    nothing = {0};
    a->rc = lk_rollout_remote_call(a->remote, &a->call, &nothing, &a->err);
    lk_buf_deinit(&nothing);
    (void)close(a->ends[1]);
}

static lk_rc next_arrived(lk_batches *base, struct ArrowArray *out, lk_err *err)
{
    return lk_batches_next(((arriving *)base)->rows, out, err);
}

static void close_arriving(lk_batches *base)
{
    arriving *a = (arriving *)base;
    lk_batches_close(a->rows);
    (void)close(a->ends[0]);
    lk_thread_join(&a->thread);
    lk_schema_release(&a->base.schema);
    free(a);
}

static lk_rc open_arriving(arriving *a, lk_err *err)
{
    const lk_ipc_options options = {.decode_dictionaries = true};
    char                 path[32];
    lk_ipc_source       *source = NULL;
    if (pipe2(a->ends, O_CLOEXEC) != 0) {
        return lk_fail(err, LK_E_IO, "pipe: %s", strerror(errno));
    }
    lk_rc rc = lk_thread_start(&a->thread, "lk-fetch", fetch, a, err);
    if (rc != LK_OK) {
        (void)close(a->ends[1]);
        return rc;
    }
    (void)snprintf(path, sizeof path, "/dev/fd/%d", a->ends[0]);
    rc = lk_ipc_source_file(path, &source, err);
    if (rc == LK_OK) {
        rc = lk_ipc_open(source, &options, &a->rows, err);
    }
    if (rc == LK_OK) {
        rc = lk_schema_copy(&a->rows->schema, &a->base.schema, err);
    }
    return rc;
}

static lk_rc list_there(lk_rollout_target *target, const char *name, const char *question, lk_arena *arena,
    lk_batches **out, lk_err *err)
{
    arriving *a = calloc(1, sizeof *a);
    LK_ASSERT(a != NULL);
    const char *rest = lk_arena_format(arena, "/records%s", question).data;
    a->base.next = next_arrived;
    a->base.close = close_arriving;
    a->remote = target->remote;
    a->call = (lk_rollout_call){.method = "GET",
        .path = lk_rollout_target_path(arena, name, rest),
        .accept = "application/vnd.apache.arrow.stream",
        .sink = into_pipe,
        .sink_context = a};
    lk_rc rc = open_arriving(a, err);
    *out = &a->base;
    if (rc != LK_OK) {
        lk_err why = {0};
        if (lk_rollout_read_close(&a->base, &why) != LK_OK) {
            *err = why;
            rc = why.rc;
        }
        *out = NULL;
    }
    return rc;
}

static lk_rc list_here(lk_rollout_target *target, const char *name, const char *question, lk_arena *arena,
    lk_batches **out, lk_err *err)
{
    lk_rollout_list_query asked;
    lk_rollout_store     *store = NULL;
    lk_rollout_snapshot  *snapshot = NULL;
    lk_bytes              text = lk_bytes_of(question[0] == '?' ? question + 1 : question);
    lk_rc                 rc = lk_rollout_list_query_read(text, arena, &asked, err);
    if (rc == LK_OK) {
        rc = lk_rollout_target_store(target, name, &store, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_store_snapshot(store, asked.version, &snapshot, err);
    }
    if (rc == LK_OK) {
        rc = lk_rollout_query_open(snapshot, &asked.query, out, err);
    }
    lk_rollout_snapshot_unref(snapshot);
    lk_rollout_store_unref(store);
    return rc;
}

lk_rc lk_rollout_read_list(lk_rollout_target *target, const char *name, const lk_rollout_list_args *args,
    lk_arena *arena, lk_batches **out, lk_err *err)
{
    const char *question = lk_rollout_question_text(args, arena);
    return (target->stores != NULL ? list_here : list_there)(target, name, question, arena, out, err);
}

lk_rc lk_rollout_read_close(lk_batches *rows, lk_err *err)
{
    if (rows == NULL || rows->close != close_arriving) {
        lk_batches_close(rows);
        return LK_OK;
    }
    arriving *a = (arriving *)rows;
    lk_batches_close(a->rows);
    a->rows = NULL;
    (void)close(a->ends[0]);
    a->ends[0] = -1;
    lk_thread_join(&a->thread);
    a->thread = (lk_thread){0};
    lk_rc rc = a->rc;
    *err = rc == LK_OK ? *err : a->err;
    close_arriving(rows);
    return rc == LK_E_CANCELLED ? LK_OK : rc; /* ended by us */
}

/* -- one record ----------------------------------------------------------------------------------------------------- */
static lk_rc no_record(lk_bytes id, lk_err *err)
{
    return lk_refuse(
        err, LK_E_NOT_FOUND, "no record has the id %.*s", (int)(id.size < 100 ? id.size : 100), id.data);
}

static const char *path_of(lk_arena *arena, const char *name, lk_bytes id, const char *behind)
{
    lk_buf rest = {0};
    lk_buf_append_text(&rest, "/records/");
    lk_rollout_path_escape(id, &rest);
    lk_buf_append_text(&rest, behind);
    lk_buf_append(&rest, "", 1);
    const char *path = lk_rollout_target_path(arena, name, rest.data);
    lk_buf_deinit(&rest);
    return path;
}

/* {"record":…} without what is around it: a record's metadata may be nested deeper than base/json reads. */
static lk_bytes record_of(lk_bytes answer)
{
    lk_bytes before = LK_LITERAL("{\"record\":");
    bool     whole = lk_bytes_starts(answer, before) && answer.data[answer.size - 1] == '}';
    return whole ? (lk_bytes){answer.data + before.size, answer.size - before.size - 1} : (lk_bytes){0};
}

static lk_rc get_there(
    lk_rollout_target *target, const char *name, lk_bytes id, lk_arena *arena, lk_buf *out, lk_err *err)
{
    const lk_rollout_call call = {.method = "GET", .path = path_of(arena, name, id, "")};
    lk_buf                answer = {0};
    lk_rc                 rc = lk_rollout_remote_call(target->remote, &call, &answer, err);
    lk_bytes              record = record_of(lk_buf_view(&answer));
    if (rc == LK_OK && record.size == 0) {
        rc = lk_fail(
            err, LK_E_INTERNAL, "what %s answered is no record", lk_rollout_remote_url(target->remote));
    } else if (rc == LK_OK && lk_bytes_equal(record, LK_LITERAL("null"))) {
        rc = no_record(id, err);
    }
    if (rc == LK_OK) {
        lk_buf_append_bytes(out, record);
    }
    lk_buf_deinit(&answer);
    return rc;
}

static lk_rc snapshot_of(lk_rollout_target *target, const char *name, lk_rollout_snapshot **out, lk_err *err)
{
    lk_rollout_store *store = NULL;
    lk_rc             rc = lk_rollout_target_store(target, name, &store, err);
    if (rc == LK_OK) {
        rc = lk_rollout_store_snapshot(store, 0, out, err);
    }
    lk_rollout_store_unref(store);
    return rc;
}

static lk_rc get_here(lk_rollout_target *target, const char *name, lk_bytes id, lk_buf *out, lk_err *err)
{
    lk_rollout_snapshot *snapshot = NULL;
    struct ArrowArray    rows = {0};
    struct ArrowSchema   schema = {0};
    size_t               wanted = 0;
    lk_rc                rc = snapshot_of(target, name, &snapshot, err);
    if (rc == LK_OK) {
        rc = lk_rollout_snapshot_find(snapshot, &id, 1, NULL, &rows, &wanted, err);
    }
    if (rc == LK_OK && rows.length == 0) {
        rc = no_record(id, err);
    }
    if (rc == LK_OK) {
        lk_rollout_rows_schema(&schema);
        lk_record_write_json(&schema, &rows, 0, out);
    }
    lk_schema_release(&schema);
    lk_array_release(&rows);
    lk_rollout_snapshot_unref(snapshot);
    return rc;
}

lk_rc lk_rollout_read_get(
    lk_rollout_target *target, const char *name, lk_bytes id, lk_arena *arena, lk_buf *out, lk_err *err)
{
    return target->stores != NULL ? get_here(target, name, id, out, err)
                                  : get_there(target, name, id, arena, out, err);
}

/* -- payloads ------------------------------------------------------------------------------------------------------- */
typedef struct outlet {
    FILE       *file;
    uint64_t    size;
    lk_progress progress;
} outlet;

static bool into_file(void *context, const void *data, size_t size)
{
    outlet *o = context;
    o->size += size;
    lk_progress_show(&o->progress, o->size);
    return fwrite(data, 1, size, o->file) == size;
}

static lk_rc blob_there(lk_rollout_target *target, const char *name, lk_bytes id, outlet *out, lk_err *err)
{
    lk_arena              arena = {0};
    lk_buf                nothing = {0};
    const lk_rollout_call call = {.method = "GET",
        .path = path_of(&arena, name, id, "/blob"),
        .sink = into_file,
        .sink_context = out,
        .ranged = true};
    lk_rc                 rc = lk_rollout_remote_call(target->remote, &call, &nothing, err);
    lk_buf_deinit(&nothing);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc copy_blob(lk_rollout_blob *blob, outlet *out, lk_err *err)
{
    char    *piece = malloc(PIECE_BYTES);
    lk_rc    rc = LK_OK;
    uint64_t size = lk_rollout_blob_size(blob);
    LK_ASSERT(piece != NULL);
    while (rc == LK_OK && out->size < size) {
        size_t some = size - out->size < PIECE_BYTES ? (size_t)(size - out->size) : PIECE_BYTES;
        rc = lk_rollout_blob_read(blob, out->size, piece, some, err);
        if (rc == LK_OK && !into_file(out, piece, some)) {
            rc = lk_fail(err, LK_E_IO, "write the payload");
        }
    }
    free(piece);
    return rc;
}

static lk_rc blob_here(lk_rollout_target *target, const char *name, lk_bytes id, outlet *out, lk_err *err)
{
    lk_rollout_snapshot *snapshot = NULL;
    lk_rollout_blob     *blob = NULL;
    bool                 found = false;
    lk_rc                rc = snapshot_of(target, name, &snapshot, err);
    if (rc == LK_OK) {
        rc = lk_rollout_blob_open(snapshot, id, NULL, &blob, &found, err);
    }
    if (rc == LK_OK && !found) {
        rc = no_record(id, err);
    } else if (rc == LK_OK && lk_rollout_blob_is_null(blob)) {
        rc = lk_refuse(err, LK_E_NOT_FOUND, "the record has no payload");
    }
    if (rc == LK_OK) {
        rc = copy_blob(blob, out, err);
    }
    lk_rollout_blob_close(blob);
    lk_rollout_snapshot_unref(snapshot);
    return rc;
}

lk_rc lk_rollout_read_blob(
    lk_rollout_target *target, const char *name, lk_bytes id, FILE *out, uint64_t *size, lk_err *err)
{
    outlet to = {.file = out, .progress = {.what = "bytes"}};
    lk_rc  rc = (target->stores != NULL ? blob_here : blob_there)(target, name, id, &to, err);
    lk_progress_end(&to.progress);
    if (rc == LK_OK && fflush(out) != 0) {
        rc = lk_fail(err, LK_E_IO, "write the payload: %s", strerror(errno));
    }
    *size = to.size;
    return rc;
}
