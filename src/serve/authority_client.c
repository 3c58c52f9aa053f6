/* authority_client.c - see authority_client.h. */
#include "serve/authority_client.h"

#include "arrow/digest.h"
#include "arrow/ipc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "flight/stream.h"
#include "serve/append_command.h"
#include "serve/meta_service.h"
#include "serve/table_actions.h"

#include <inttypes.h>
#include <stdlib.h>

enum { HEADERS_MAX = 3 };

typedef struct client {
    lk_authority     base;
    lk_grpc_channel *channel;
} client;

/* Headers and deadline of one call; the headers' values live in the arena. */
typedef struct call_options {
    lk_grpc_header      headers[HEADERS_MAX];
    lk_grpc_rpc_options rpc;
} call_options;

static void call_options_init(
    const lk_principal *who, lk_bytes ns, uint64_t timeout_ms, lk_cancel *cancel, call_options *out)
{
    *out = (call_options){0};
    size_t count = 0;
    if (who != NULL) {
        if (ns.size > 0) {
            out->headers[count++] = (lk_grpc_header){LK_HEADER_DELEGATED_NAMESPACE, ns};
        }
        out->headers[count++] = (lk_grpc_header){LK_HEADER_DELEGATED_TENANT, who->tenant};
    }
    out->rpc = (lk_grpc_rpc_options){.headers = out->headers,
        .header_count = count,
        .deadline_ms = lk_clock_monotonic_ms(lk_clock_real()) + timeout_ms,
        .cancel = cancel};
}

/* -- actions ------------------------------------------------------------------------------------------ */
static lk_rc read_result(lk_grpc_rpc *rpc, lk_arena *arena, lk_bytes *result, bool *present, lk_err *err)
{
    lk_grpc_message  message = {0};
    lk_flight_result body = {0};
    bool             found = false;
    lk_rc            rc = lk_grpc_rpc_read(rpc, &message, &found, err);
    if (rc == LK_OK && found) {
        lk_bytes bytes = lk_arena_copy(arena, lk_grpc_message_bytes(&message, arena));
        rc = lk_flight_result_read(bytes, arena, &body, err);
        *result = body.body;
    }
    *present = found;
    lk_grpc_message_release(&message);
    return rc;
}

/* Sends an action and takes its first result, if any. */
static lk_rc act(const client *self, const call_options *options, const char *type, lk_bytes body,
    lk_arena *arena, lk_bytes *result, bool *present, lk_err *err)
{
    lk_grpc_rpc *rpc = NULL;
    lk_buf       request = {0};
    lk_flight_action_write(&(lk_flight_action){lk_bytes_of(type), body}, &request);
    lk_rc rc = lk_grpc_rpc_open(&rpc, self->channel, LK_FLIGHT_METHOD("DoAction"), &options->rpc, err);
    if (rc == LK_OK) {
        rc = lk_grpc_rpc_write_bytes(rpc, lk_buf_view(&request), err);
    }
    if (rc == LK_OK) {
        rc = lk_grpc_rpc_writes_done(rpc, err);
    }
    if (rc == LK_OK) {
        rc = read_result(rpc, arena, result, present, err);
    }
    if (rc == LK_OK) {
        rc = lk_grpc_rpc_finish(rpc, err);
    }
    lk_grpc_rpc_close(rpc);
    lk_buf_deinit(&request);
    if (rc != LK_OK) {
        lk_context(err, "action %s", type);
    }
    return rc;
}

/* An action that must answer. */
static lk_rc ask(const client *self, const call_options *options, const char *type, lk_bytes body,
    lk_arena *arena, lk_bytes *result, lk_err *err)
{
    bool  present = false;
    lk_rc rc = act(self, options, type, body, arena, result, &present, err);
    if (rc == LK_OK && !present) {
        rc = lk_fail(err, LK_E_INTERNAL, "action %s answered nothing", type);
    }
    return rc;
}

static void write_table(lk_json_writer *w, lk_table_ref table)
{
    lk_json_object(w);
    lk_json_key(w, "namespace");
    lk_json_text(w, table.ns);
    lk_json_key(w, "name");
    lk_json_text(w, table.name);
}

static lk_rc create_table(lk_authority *authority, const lk_principal *who, lk_table_ref table,
    const struct ArrowSchema *schema, lk_err *err)
{
    client      *self = (client *)authority;
    lk_arena     arena = {0};
    lk_buf       ipc = {0}, body = {0};
    lk_bytes     nothing = {0};
    bool         present = false;
    call_options options;
    call_options_init(who, table.ns, LK_AUTHORITY_CALL_TIMEOUT_MS, NULL, &options);
    lk_rc rc = lk_ipc_schema_encode(schema, LK_IPC_ENCAPSULATED, &ipc, err);
    if (rc == LK_OK) {
        lk_json_writer w = {.out = &body};
        write_table(&w, table);
        lk_json_key(&w, "schema_ipc_base64");
        lk_json_base64(&w, lk_buf_view(&ipc));
        lk_json_object_end(&w);
        rc = act(self, &options, "create_table", lk_buf_view(&body), &arena, &nothing, &present, err);
    }
    lk_buf_deinit(&ipc);
    lk_buf_deinit(&body);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc drop_table(lk_authority *authority, const lk_principal *who, lk_table_ref table, lk_err *err)
{
    client        *self = (client *)authority;
    lk_arena       arena = {0};
    lk_buf         body = {0};
    lk_bytes       nothing = {0};
    bool           present = false;
    call_options   options;
    lk_json_writer w = {.out = &body};
    call_options_init(who, table.ns, LK_AUTHORITY_CALL_TIMEOUT_MS, NULL, &options);
    write_table(&w, table);
    lk_json_object_end(&w);
    lk_rc rc = act(self, &options, "drop_table", lk_buf_view(&body), &arena, &nothing, &present, err);
    lk_buf_deinit(&body);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc resolve(lk_authority *authority, const lk_principal *who, lk_table_ref table, lk_arena *arena,
    lk_registration *out, lk_err *err)
{
    client        *self = (client *)authority;
    lk_buf         body = {0};
    lk_bytes       json = {0};
    call_options   options;
    lk_json_writer w = {.out = &body};
    call_options_init(who, table.ns, LK_AUTHORITY_CALL_TIMEOUT_MS, NULL, &options);
    write_table(&w, table);
    lk_json_object_end(&w);
    lk_rc rc = ask(self, &options, "resolve", lk_buf_view(&body), arena, &json, err);
    if (rc == LK_OK) {
        lk_table_ref kept = {lk_arena_copy(arena, table.ns), lk_arena_copy(arena, table.name)};
        rc = lk_registration_read(json, kept, arena, out, err);
    }
    lk_buf_deinit(&body);
    return rc;
}

static lk_rc read_page(lk_bytes json, lk_arena *arena, lk_name_page *out, lk_err *err)
{
    lk_json_texts names = {0};
    *out = (lk_name_page){0};
    const lk_json_field fields[] = {
        {.name = "names", .type = LK_JSON_TEXTS, .target = &names},
        {.name = "continuation", .type = LK_JSON_TEXT, .target = &out->continuation, .optional = true},
    };
    lk_rc rc = lk_json_read(json, fields, sizeof fields / sizeof fields[0], arena, err);
    out->names = names.items;
    out->count = names.count;
    return rc;
}

static lk_rc list_page(const client *self, const call_options *options, const char *action, lk_bytes ns,
    lk_bytes continuation, size_t limit, lk_arena *arena, lk_name_page *out, lk_err *err)
{
    lk_buf         body = {0};
    lk_bytes       json = {0};
    lk_json_writer w = {.out = &body};
    lk_json_object(&w);
    if (ns.size > 0) {
        lk_json_key(&w, "namespace");
        lk_json_text(&w, ns);
    }
    lk_json_key(&w, "limit");
    lk_json_u64(&w, limit);
    if (continuation.size > 0) {
        lk_json_key(&w, "continuation");
        lk_json_text(&w, continuation);
    }
    lk_json_object_end(&w);
    lk_rc rc = ask(self, options, action, lk_buf_view(&body), arena, &json, err);
    lk_buf_deinit(&body);
    return rc == LK_OK ? read_page(json, arena, out, err) : rc;
}

static lk_rc list_tables(lk_authority *authority, const lk_principal *who, lk_bytes ns, lk_bytes continuation,
    size_t limit, lk_arena *arena, lk_name_page *out, lk_err *err)
{
    client      *self = (client *)authority;
    call_options options;
    call_options_init(who, ns, LK_AUTHORITY_CALL_TIMEOUT_MS, NULL, &options);
    return list_page(self, &options, "list_tables_page", ns, continuation, limit, arena, out, err);
}

/* A user's namespaces are its grants: nobody needs to be asked. */
static void list_grants(
    const lk_principal *who, lk_bytes continuation, size_t limit, lk_arena *arena, lk_name_page *out)
{
    *out = (lk_name_page){.names = lk_arena_take(arena, (who->namespace_count + 1) * sizeof(lk_bytes))};
    for (size_t i = 0; i < who->namespace_count; i++) {
        if (continuation.size > 0 && lk_bytes_compare(who->namespaces[i], continuation) <= 0) {
            continue;
        }
        if (out->count == limit) {
            out->continuation = out->names[limit - 1];
            return;
        }
        out->names[out->count++] = who->namespaces[i];
    }
}

static lk_rc list_namespaces(lk_authority *authority, const lk_principal *who, lk_bytes continuation,
    size_t limit, lk_arena *arena, lk_name_page *out, lk_err *err)
{
    client      *self = (client *)authority;
    call_options options;
    if (who != NULL && who->role == LK_ROLE_USER) {
        list_grants(who, continuation, limit, arena, out);
        return LK_OK;
    }
    call_options_init(NULL, (lk_bytes){0}, LK_AUTHORITY_CALL_TIMEOUT_MS, NULL, &options);
    return list_page(
        self, &options, "list_namespaces_page", (lk_bytes){0}, continuation, limit, arena, out, err);
}

/* -- directory ----------------------------------------------------------------------------------------- */
static lk_rc read_entry(lk_bytes json, lk_arena *arena, lk_registration *out, lk_err *err)
{
    lk_table_ref        table = {0};
    lk_bytes            registration = {0};
    const lk_json_field fields[] = {
        {.name = "namespace", .type = LK_JSON_TEXT, .target = &table.ns},
        {.name = "name", .type = LK_JSON_TEXT, .target = &table.name},
        {.name = "registration", .type = LK_JSON_RAW, .target = &registration},
    };
    lk_rc rc = lk_json_read(json, fields, sizeof fields / sizeof fields[0], arena, err);
    return rc == LK_OK ? lk_registration_read(registration, table, arena, out, err) : rc;
}

static lk_rc read_entries(lk_bytes json, lk_arena *arena, lk_registration **items, size_t *count, lk_err *err)
{
    lk_json_texts entries = {0};
    lk_rc         rc = lk_json_elements(json, LK_CATALOG_ENTRIES_MAX, arena, &entries, err);
    if (rc != LK_OK) {
        return rc;
    }
    *items = lk_arena_take(arena, (entries.count + 1) * sizeof **items);
    *count = entries.count;
    for (size_t i = 0; rc == LK_OK && i < entries.count; i++) {
        rc = read_entry(entries.items[i], arena, &(*items)[i], err);
        bool ascends = i == 0 || lk_table_ref_compare((*items)[i - 1].table, (*items)[i].table) < 0;
        if (rc == LK_OK && !ascends) {
            rc = lk_fail(err, LK_E_CORRUPT_RECORD, "catalog snapshot is not sorted");
        }
    }
    return rc;
}

static lk_rc read_snapshot(lk_bytes json, lk_bytes known, lk_arena *arena, bool *modified,
    lk_bytes *generation, lk_registration **items, size_t *count, lk_err *err)
{
    lk_bytes            status = {0}, entries = {0};
    uint64_t            version = 0;
    bool                has_entries = false;
    const lk_json_field fields[] = {
        {.name = "status", .type = LK_JSON_TEXT, .target = &status},
        {.name = "schema_version", .type = LK_JSON_U64, .target = &version},
        {.name = "generation", .type = LK_JSON_TEXT, .target = generation},
        {.name = "registrations",
            .type = LK_JSON_RAW,
            .target = &entries,
            .optional = true,
            .found = &has_entries},
    };
    lk_rc rc = lk_json_read(json, fields, sizeof fields / sizeof fields[0], arena, err);
    if (rc != LK_OK) {
        return rc;
    }
    *modified = lk_bytes_equal(status, LK_LITERAL("snapshot"));
    bool unmodified =
        lk_bytes_equal(status, LK_LITERAL("not_modified")) && lk_bytes_equal(*generation, known);
    if (version != 1 || (!*modified && !unmodified) || has_entries != *modified) {
        return lk_fail(err, LK_E_CORRUPT_RECORD, "catalog snapshot of an unknown form");
    }
    return *modified ? read_entries(entries, arena, items, count, err) : LK_OK;
}

static lk_rc directory(lk_authority *authority, lk_bytes known_generation, lk_arena *arena, bool *modified,
    lk_bytes *generation, lk_registration **items, size_t *count, lk_err *err)
{
    client        *self = (client *)authority;
    lk_buf         body = {0};
    lk_bytes       json = {0};
    call_options   options;
    lk_json_writer w = {.out = &body};
    call_options_init(NULL, (lk_bytes){0}, LK_AUTHORITY_CALL_TIMEOUT_MS, NULL, &options);
    lk_json_object(&w);
    lk_json_key(&w, "schema_version");
    lk_json_u64(&w, 1);
    lk_json_key(&w, "known_generation");
    if (known_generation.size > 0) {
        lk_json_text(&w, known_generation);
    } else {
        lk_json_null(&w);
    }
    lk_json_object_end(&w);
    *count = 0;
    lk_rc rc = ask(self, &options, "catalog_snapshot", lk_buf_view(&body), arena, &json, err);
    lk_buf_deinit(&body);
    return rc == LK_OK ? read_snapshot(json, known_generation, arena, modified, generation, items, count, err)
                       : rc;
}

/* -- append --------------------------------------------------------------------------------------------- */
typedef struct held { /* the operation's batches, streamed once their digest is known */
    lk_batches        base;
    lk_shared_array **arrays;
    size_t            count, capacity, next;
} held;

static lk_rc held_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    (void)err;
    held *self = (held *)batches;
    *out = (struct ArrowArray){0};
    if (self->next < self->count) {
        lk_shared_array *array = self->arrays[self->next++];
        lk_shared_array_slice(array, 0, lk_shared_array_get(array)->length, out);
    }
    return LK_OK;
}

static void held_deinit(held *self)
{
    for (size_t i = 0; i < self->count; i++) {
        lk_shared_array_unref(self->arrays[i]);
    }
    free(self->arrays);
}

static lk_rc hold_all(lk_batches *rows, held *out, lk_err *err)
{
    for (;;) {
        struct ArrowArray batch = {0};
        lk_rc             rc = lk_batches_next(rows, &batch, err);
        if (rc != LK_OK || batch.release == NULL) {
            return rc;
        }
        if (out->count == out->capacity) {
            out->capacity = out->capacity > 0 ? out->capacity * 2 : 16;
            out->arrays = realloc(out->arrays, out->capacity * sizeof(lk_shared_array *));
            LK_ASSERT(out->arrays != NULL);
        }
        out->arrays[out->count++] = lk_array_share(&batch);
    }
}

static lk_rc read_version(lk_grpc_rpc *rpc, uint64_t *version, lk_err *err)
{
    lk_arena             arena = {0};
    lk_grpc_message      message = {0};
    lk_flight_put_result result = {0};
    bool                 found = false;
    lk_rc                rc = lk_grpc_rpc_read(rpc, &message, &found, err);
    if (rc == LK_OK && found) {
        lk_bytes bytes = lk_arena_copy(&arena, lk_grpc_message_bytes(&message, &arena));
        rc = lk_flight_put_result_read(bytes, &arena, &result, err);
    }
    if (rc == LK_OK && found) {
        const char *text = lk_arena_text(&arena, result.app_metadata);
        char       *end = NULL;
        *version = strtoull(text, &end, 10);
        found = result.app_metadata.size > 0 && *end == '\0';
    }
    lk_grpc_message_release(&message);
    lk_arena_close(&arena);
    if (rc == LK_OK) {
        rc = lk_grpc_rpc_finish(rpc, err);
    }
    if (rc == LK_OK && !found) {
        rc = lk_fail(err, LK_E_INTERNAL, "append answered no version");
        err->maybe_applied = true;
    }
    return rc;
}

static lk_rc put(const client *self, const call_options *options, const lk_append_command *command,
    held *rows, uint64_t *version, lk_err *err)
{
    lk_grpc_rpc *rpc = NULL;
    lk_buf       any = {0};
    lk_append_command_write(command, &any);
    const lk_flight_descriptor descriptor = {.type = LK_FLIGHT_DESCRIPTOR_CMD, .cmd = lk_buf_view(&any)};
    /* The messages must be those that the digest was taken of: no coalescing. */
    const lk_flight_send_options send = {
        .descriptor = &descriptor, .keep_batches = true, .inline_only = true};
    lk_rc rc = lk_grpc_rpc_open(&rpc, self->channel, LK_FLIGHT_METHOD("DoPut"), &options->rpc, err);
    if (rc == LK_OK) {
        rc = lk_flight_send(lk_flight_of_rpc(rpc), &rows->base, &send, NULL, err);
        err->maybe_applied = err->maybe_applied && rc == LK_OK; /* nobody commits a stream without its end */
    }
    if (rc == LK_OK) {
        rc = lk_grpc_rpc_writes_done(rpc, err);
    }
    if (rc == LK_OK) {
        rc = read_version(rpc, version, err);
    }
    lk_grpc_rpc_close(rpc);
    lk_buf_deinit(&any);
    return rc;
}

/* A Query has compared the digest with its client's bytes, and sends on the digest that names the operation; a
 * client computes the digest of what it sends. */
static lk_rc append(lk_authority *authority, const lk_principal *who, const lk_append_command *command,
    lk_batches *rows, lk_cancel *cancel, uint64_t *version, lk_err *err)
{
    client           *self = (client *)authority;
    char              digest[LK_SHA256_HEX_SIZE + 1];
    held              kept = {.base = {.next = held_next}};
    lk_append_command sent = *command;
    call_options      options;
    call_options_init(who, command->table.ns, LK_AUTHORITY_APPEND_TIMEOUT_MS, cancel, &options);
    lk_rc rc = hold_all(rows, &kept, err);
    if (rc == LK_OK && who != NULL) {
        options.headers[options.rpc.header_count++] =
            (lk_grpc_header){LK_HEADER_PAYLOAD_VERIFIED, LK_LITERAL("1")};
    } else if (rc == LK_OK) {
        rc = lk_payload_digest(&rows->schema, kept.arrays, kept.count, digest, err);
        sent.payload_sha256 = (lk_bytes){digest, LK_SHA256_HEX_SIZE};
    }
    if (rc == LK_OK) {
        kept.base.schema = rows->schema; /* borrowed for the call */
        rc = put(self, &options, &sent, &kept, version, err);
    }
    held_deinit(&kept);
    return rc;
}

static void client_close(lk_authority *authority)
{
    free(authority);
}

static const struct lk_authority_ops ops = {
    create_table, drop_table, resolve, list_tables, list_namespaces, directory, append, client_close};

lk_rc lk_authority_client_open(lk_authority **out, lk_grpc_channel *channel, lk_err *err)
{
    (void)err;
    client *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->base.ops = &ops;
    self->channel = channel;
    *out = &self->base;
    return LK_OK;
}
