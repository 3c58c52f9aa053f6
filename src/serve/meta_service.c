/* meta_service.c - see meta_service.h. */
#include "serve/meta_service.h"

#include "base/json.h"
#include "base/limits.h"
#include "flight/pb_flight.h"
#include "flight/stream.h"
#include "serve/append_command.h"
#include "serve/table_actions.h"

#include <stdlib.h>

struct lk_meta_service {
    lk_authority    *authority;
    lk_budget       *budget;
    const lk_config *config;
};

/* -- who asks ----------------------------------------------------------------------------------------- */
typedef struct delegation {
    bool     has_namespace, has_tenant;
    lk_bytes ns, tenant;
} delegation;

static delegation delegation_of(const lk_grpc_call *call)
{
    delegation d = {0};
    d.has_namespace = lk_grpc_call_header(call, LK_HEADER_DELEGATED_NAMESPACE, &d.ns);
    d.has_tenant = lk_grpc_call_header(call, LK_HEADER_DELEGATED_TENANT, &d.tenant);
    return d;
}

static lk_rc denied(lk_err *err, const char *why)
{
    return lk_fail(err, LK_E_DENIED, "%s", why);
}

/* A service acts as a user of the delegated tenant that may use the delegated namespace alone. */
static lk_rc service_caller(const lk_principal *token, const delegation *d, lk_principal *out, lk_err *err)
{
    *out = (lk_principal){.id = token->id, .tenant = token->tenant, .role = token->role};
    lk_rc rc = d->has_tenant ? lk_tenant_check(d->tenant, err) : LK_OK;
    if (rc != LK_OK || !d->has_namespace) {
        return rc; /* only what needs no namespace: listings of the whole, catalog_snapshot */
    }
    if (!d->has_tenant) {
        return denied(err, "a service must name a tenant");
    }
    out->tenant = d->tenant;
    out->role = LK_ROLE_USER;
    return LK_OK;
}

static lk_rc caller(lk_grpc_call *call, lk_principal *out, lk_err *err)
{
    const lk_principal *token = lk_grpc_call_attachment(call);
    delegation          d = delegation_of(call);
    *out = *token;
    switch (token->role) {
    case LK_ROLE_USER:
        return d.has_namespace || d.has_tenant ? denied(err, "a user may not delegate") : LK_OK;
    case LK_ROLE_ADMIN:
        out->tenant = d.has_tenant ? d.tenant : token->tenant;
        return d.has_tenant ? lk_tenant_check(d.tenant, err) : LK_OK;
    case LK_ROLE_QUERY_SERVICE:
    case LK_ROLE_METADATA_PEER:
        break;
    }
    lk_rc rc = service_caller(token, &d, out, err);
    if (rc == LK_OK && d.has_namespace) {
        out->namespaces = lk_arena_take(lk_grpc_call_arena(call), sizeof *out->namespaces);
        out->namespaces[0] = d.ns;
        out->namespace_count = 1;
    }
    return rc;
}

static bool payload_verified(const lk_grpc_call *call)
{
    const lk_principal *token = lk_grpc_call_attachment(call);
    lk_bytes            value = {0};
    return token->role != LK_ROLE_USER && lk_grpc_call_header(call, LK_HEADER_PAYLOAD_VERIFIED, &value);
}

/* -- catalog_snapshot ----------------------------------------------------------------------------------- */
static lk_rc may_read_catalog(const lk_grpc_call *call, lk_err *err)
{
    const lk_principal *token = lk_grpc_call_attachment(call);
    if (token->role == LK_ROLE_USER || delegation_of(call).has_namespace) {
        return denied(err, "catalog_snapshot is for services");
    }
    return LK_OK;
}

static lk_rc write_entries(lk_json_writer *w, const lk_registration *items, size_t count, lk_err *err)
{
    enum { RESPONSE_BYTES_MAX = 64 * 1024 * 1024 };
    lk_buf registration = {0};
    lk_json_array(w);
    for (size_t i = 0; i < count; i++) {
        lk_buf_clear(&registration);
        lk_registration_write(&items[i], &registration);
        lk_json_object(w);
        lk_json_key(w, "namespace");
        lk_json_text(w, items[i].table.ns);
        lk_json_key(w, "name");
        lk_json_text(w, items[i].table.name);
        lk_json_key(w, "registration");
        lk_json_raw(w, lk_buf_view(&registration));
        lk_json_object_end(w);
        if (w->out->size > RESPONSE_BYTES_MAX) {
            lk_buf_deinit(&registration);
            return lk_fail(err, LK_E_LIMIT, "the catalog is larger than %d bytes", RESPONSE_BYTES_MAX);
        }
    }
    lk_json_array_end(w);
    lk_buf_deinit(&registration);
    return LK_OK;
}

static lk_rc write_snapshot(
    bool modified, lk_bytes generation, const lk_registration *items, size_t count, lk_buf *out, lk_err *err)
{
    lk_json_writer w = {.out = out};
    lk_rc          rc = LK_OK;
    lk_json_object(&w);
    lk_json_key(&w, "status");
    lk_json_text(&w, modified ? LK_LITERAL("snapshot") : LK_LITERAL("not_modified"));
    lk_json_key(&w, "schema_version");
    lk_json_u64(&w, 1);
    lk_json_key(&w, "generation");
    lk_json_text(&w, generation);
    if (modified) {
        lk_json_key(&w, "registrations");
        rc = write_entries(&w, items, count, err);
    }
    lk_json_object_end(&w);
    return rc;
}

static lk_rc catalog_snapshot(
    lk_meta_service *service, lk_grpc_call *call, lk_bytes body, lk_buf *result, lk_err *err)
{
    enum { GENERATION_BYTES_MAX = 256 };
    lk_arena           *arena = lk_grpc_call_arena(call);
    uint64_t            version = 0;
    lk_bytes            known = {0}, generation = {0};
    bool                modified = false;
    lk_registration    *items = NULL;
    size_t              count = 0;
    const lk_json_field fields[] = {
        {.name = "schema_version", .type = LK_JSON_U64, .target = &version},
        {.name = "known_generation", .type = LK_JSON_TEXT, .target = &known, .optional = true},
    };
    lk_rc rc = may_read_catalog(call, err);
    if (rc == LK_OK) {
        rc = lk_json_read(body, fields, sizeof fields / sizeof fields[0], arena, err);
    }
    if (rc == LK_OK && (version != 1 || known.size > GENERATION_BYTES_MAX)) {
        rc = lk_fail(err, LK_E_INVALID_REQUEST, "schema_version or known_generation");
    }
    if (rc == LK_OK) {
        rc = service->authority->ops->directory(
            service->authority, known, arena, &modified, &generation, &items, &count, err);
    }
    return rc == LK_OK ? write_snapshot(modified, modified ? generation : known, items, count, result, err)
                       : rc;
}

/* Everything but the listing of namespaces has a target, which a service must have been delegated. */
static lk_rc check_delegated(const lk_principal *who, const lk_table_action *action, lk_err *err)
{
    bool service = who->role == LK_ROLE_QUERY_SERVICE || who->role == LK_ROLE_METADATA_PEER;
    return service && action->has_target ? denied(err, "a service without a delegation") : LK_OK;
}

/* -- DoAction -------------------------------------------------------------------------------------------- */
static lk_rc run_action(
    lk_meta_service *service, lk_grpc_call *call, const lk_flight_action *action, lk_buf *result, lk_err *err)
{
    lk_principal who = {0};
    if (lk_bytes_equal(action->type, LK_LITERAL("catalog_snapshot"))) {
        return catalog_snapshot(service, call, action->body, result, err);
    }
    const lk_table_action *known = lk_table_action_find(action->type);
    if (known == NULL) {
        return lk_fail(err, LK_E_UNKNOWN_META_ACTION, "unknown action");
    }
    lk_rc rc = caller(call, &who, err);
    if (rc == LK_OK) {
        rc = check_delegated(&who, known, err);
    }
    return rc == LK_OK
               ? known->run(service->authority, &who, action->body, lk_grpc_call_arena(call), result, err)
               : rc;
}

static lk_rc do_action(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_bytes         request = {0};
    lk_flight_action action = {0};
    lk_buf           result = {0}, message = {0};
    lk_rc            rc = lk_grpc_call_request(call, &request, err);
    if (rc == LK_OK) {
        rc = lk_flight_action_read(request, lk_grpc_call_arena(call), &action, err);
    }
    if (rc == LK_OK) {
        rc = run_action(context, call, &action, &result, err);
    }
    if (rc == LK_OK && result.data != NULL) {
        lk_flight_result_write(&(lk_flight_result){lk_buf_view(&result)}, &message);
        rc = lk_grpc_call_write_bytes(call, lk_buf_view(&message), err);
    }
    lk_buf_deinit(&result);
    lk_buf_deinit(&message);
    return rc;
}

static lk_rc send_type(lk_grpc_call *call, const char *type, const char *description, lk_err *err)
{
    lk_buf message = {0};
    lk_flight_action_type_write(
        &(lk_flight_action_type){lk_bytes_of(type), lk_bytes_of(description)}, &message);
    lk_rc rc = lk_grpc_call_write_bytes(call, lk_buf_view(&message), err);
    lk_buf_deinit(&message);
    return rc;
}

static lk_rc list_actions(lk_grpc_call *call, void *context, lk_err *err)
{
    (void)context;
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < lk_table_action_count; i++) {
        rc = send_type(call, lk_table_actions[i].type, lk_table_actions[i].description, err);
    }
    return rc == LK_OK ? send_type(call, "catalog_snapshot",
                             "the whole directory at one generation, for services", err)
                       : rc;
}

/* -- DoPut ------------------------------------------------------------------------------------------------ */
static lk_rc put(lk_meta_service *service, lk_grpc_call *call, lk_flight_reader *reader, lk_err *err)
{
    lk_arena                   *arena = lk_grpc_call_arena(call);
    const lk_flight_descriptor *descriptor = lk_flight_reader_descriptor(reader);
    lk_flight_sql_command       any = {0};
    lk_append_command           command = {0};
    lk_principal                who = {0};
    if (descriptor == NULL || descriptor->type != LK_FLIGHT_DESCRIPTOR_CMD) {
        return lk_fail(err, LK_E_INVALID_APPEND, "no command");
    }
    lk_rc rc = lk_flight_sql_command_read(descriptor->cmd, arena, &any, err);
    if (rc != LK_OK || !lk_bytes_equal(any.type_url, LK_LITERAL(LK_APPEND_TYPE_URL))) {
        return lk_fail(err, LK_E_INVALID_APPEND, "command is no lake.file.Append");
    }
    rc = lk_append_command_read(any.value, arena, &command, err);
    if (rc == LK_OK) {
        rc = caller(call, &who, err);
    }
    if (rc == LK_OK && !lk_principal_may_use(&who, command.table.ns)) {
        rc = denied(err, "namespace not granted");
    }
    if (rc == LK_OK) {
        rc = lk_append_serve(service->authority, &who, &command, call, reader,
            service->config->append_max_stream_bytes, payload_verified(call), err);
    }
    return rc;
}

static lk_rc do_put(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_meta_service               *service = context;
    lk_flight_reader              *reader = NULL;
    bool                           present = false;
    const lk_flight_reader_options options = {.budget = service->budget,
        .stream_bytes_max = service->config->append_max_stream_bytes,
        .refuse_compressed = true,
        .decode_dictionaries = true,
        .digest = true};
    lk_rc rc = lk_flight_reader_open(&reader, lk_flight_of_call(call), &options, &present, err);
    if (rc == LK_OK && !present) {
        rc = lk_fail(err, LK_E_INVALID_APPEND, "empty stream");
    }
    if (rc == LK_OK) {
        rc = put(service, call, reader, err);
    }
    lk_flight_reader_close(reader);
    return rc;
}

/* -- life -------------------------------------------------------------------------------------------------- */
lk_meta_service *lk_meta_service_open(lk_authority *authority, lk_budget *budget, const lk_config *config)
{
    lk_meta_service *service = calloc(1, sizeof *service);
    LK_ASSERT(service != NULL);
    *service = (lk_meta_service){authority, budget, config};
    return service;
}

void lk_meta_service_close(lk_meta_service *service)
{
    free(service);
}

void lk_meta_service_methods(lk_meta_service *service, lk_grpc_method out[LK_META_METHODS])
{
    const lk_grpc_method methods[LK_META_METHODS] = {
        {.path = LK_FLIGHT_METHOD("DoAction"), .kind = LK_GRPC_SERVER_STREAM, .run = do_action},
        {.path = LK_FLIGHT_METHOD("ListActions"), .kind = LK_GRPC_SERVER_STREAM, .run = list_actions},
        {.path = LK_FLIGHT_METHOD("DoPut"),
            .kind = LK_GRPC_BIDI,
            .run = do_put,
            .request_bytes_max = LK_GRPC_PUT_MESSAGE_BYTES_MAX,
            .idle_ms = LK_PUT_IDLE_MS},
    };
    for (size_t i = 0; i < LK_META_METHODS; i++) {
        out[i] = methods[i];
        out[i].context = service;
        out[i].request_bytes_max =
            methods[i].request_bytes_max > 0 ? methods[i].request_bytes_max : LK_GRPC_MESSAGE_BYTES_MAX;
    }
}
