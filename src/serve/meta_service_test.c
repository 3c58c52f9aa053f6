/*
 * meta_service_test.c - the metadata service and its client over loopback, in front of an authority that only
 * remembers what it was asked; who may ask what, and what comes back.
 */
#include "serve/meta_service.h"

#include "arrow/digest.h"
#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "base/clock.h"
#include "base/limits.h"
#include "flight/pb_flight.h"
#include "flight/stream.h"
#include "serve/append_command.h"
#include "serve/authenticate.h"
#include "serve/authority_client.h"
#include "serve/health.h"
#include "serve/status.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define OPERATION        "01931d6c-7a00-7abc-8def-0123456789ab"
#define SECOND_OPERATION "01931d6c-7a00-7abc-8def-0123456789ac"

/* -- an authority that remembers -- */

typedef struct memory {
    lk_authority base;
    int          calls;
    char         tenant[65], ns[129], name[256], digest[65], schema_text[256];
    uint64_t     rows;
    lk_rc        answer; /* for the next call */
    const char  *detail;
    size_t       tables; /* that directory lists */
} memory;

static memory the_memory;

static lk_rc remember(const lk_principal *who, lk_table_ref table, lk_err *err)
{
    the_memory.calls++;
    (void)snprintf(the_memory.tenant, sizeof the_memory.tenant, "%.*s", LK_FMT(who->tenant));
    (void)snprintf(the_memory.ns, sizeof the_memory.ns, "%.*s", LK_FMT(table.ns));
    (void)snprintf(the_memory.name, sizeof the_memory.name, "%.*s", LK_FMT(table.name));
    if (!lk_principal_may_use(who, table.ns)) {
        return lk_fail(err, LK_E_DENIED, "as the real one does");
    }
    if (the_memory.answer != LK_OK) {
        lk_rc rc = lk_fail(err, the_memory.answer, "secret context");
        if (the_memory.detail != NULL) {
            lk_detail(err, "%s", the_memory.detail);
        }
        return rc;
    }
    return LK_OK;
}

static lk_rc m_create(lk_authority *a, const lk_principal *who, lk_table_ref table,
    const struct ArrowSchema *schema, lk_err *err)
{
    lk_buf text = {0};
    for (int64_t i = 0; i < schema->n_children; i++) {
        lk_buf_format(&text, "%s:", schema->children[i]->name);
        lk_type_format(schema->children[i], &text);
        lk_buf_append_text(&text, (schema->children[i]->flags & ARROW_FLAG_NULLABLE) != 0 ? "?;" : ";");
    }
    (void)snprintf(the_memory.schema_text, sizeof the_memory.schema_text, "%s", text.data);
    lk_buf_deinit(&text);
    return remember(who, table, err);
}

static lk_rc m_drop(lk_authority *a, const lk_principal *who, lk_table_ref table, lk_err *err)
{
    return remember(who, table, err);
}

static lk_registration registration_of(lk_table_ref table)
{
    return (lk_registration){.table = table,
        .location = LK_LITERAL("/d/tables/x.lance"),
        .engine = LK_LITERAL("lance"),
        .incarnation = LK_LITERAL(OPERATION),
        .version = UINT64_MAX,
        .schema_ipc = LK_LITERAL("\0schema\xff")};
}

static lk_rc m_resolve(lk_authority *a, const lk_principal *who, lk_table_ref table, lk_arena *arena,
    lk_registration *out, lk_err *err)
{
    lk_rc rc = remember(who, table, err);
    *out = registration_of(table);
    return rc;
}

static lk_rc m_list_tables(lk_authority *a, const lk_principal *who, lk_bytes ns, lk_bytes continuation,
    size_t limit, lk_arena *arena, lk_name_page *out, lk_err *err)
{
    lk_rc rc = remember(who, (lk_table_ref){ns, continuation}, err);
    *out = (lk_name_page){lk_arena_take(arena, 2 * sizeof(lk_bytes)), 2, LK_LITERAL("more \"here\"")};
    out->names[0] = LK_LITERAL("a");
    out->names[1] = LK_LITERAL("b");
    return rc;
}

static lk_rc m_list_namespaces(lk_authority *a, const lk_principal *who, lk_bytes continuation, size_t limit,
    lk_arena *arena, lk_name_page *out, lk_err *err)
{
    the_memory.calls++;
    *out = (lk_name_page){lk_arena_take(arena, sizeof(lk_bytes)), 1, {0}};
    out->names[0] = who->role == LK_ROLE_USER ? LK_LITERAL("granted") : LK_LITERAL("everything");
    return LK_OK;
}

static lk_rc m_directory(lk_authority *a, lk_bytes known, lk_arena *arena, bool *modified,
    lk_bytes *generation, lk_registration **items, size_t *count, lk_err *err)
{
    the_memory.calls++;
    *generation = LK_LITERAL("g7");
    *modified = !lk_bytes_equal(known, *generation);
    *count = *modified ? the_memory.tables : 0;
    *items = lk_arena_take(arena, (the_memory.tables + 1) * sizeof **items);
    for (size_t i = 0; i < *count; i++) {
        (*items)[i] =
            registration_of((lk_table_ref){LK_LITERAL("robots"), lk_arena_format(arena, "t%06zu", i)});
    }
    return LK_OK;
}

static lk_rc m_append(lk_authority *a, const lk_principal *who, const lk_append_command *command,
    lk_batches *rows, lk_cancel *cancel, uint64_t *version, lk_err *err)
{
    struct ArrowArray batch = {0};
    lk_rc             rc = remember(who, command->table, err);
    bool              more = rc == LK_OK;
    (void)snprintf(the_memory.digest, sizeof the_memory.digest, "%.*s", LK_FMT(command->payload_sha256));
    while (more) {
        rc = lk_batches_next(rows, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        the_memory.rows += more ? (uint64_t)batch.length : 0;
        lk_array_release(&batch);
    }
    *version = 12345678901234567890U;
    return rc;
}

static void m_close(lk_authority *a)
{
    (void)a;
}

static const struct lk_authority_ops memory_ops = {
    m_create, m_drop, m_resolve, m_list_tables, m_list_namespaces, m_directory, m_append, m_close};

/* -- fixture: a server with principals, and a channel for each of them -- */

enum { USER, ADMIN, SERVICE, NOBODY, CHANNELS };
static const char *const tokens[CHANNELS] = {"user-token", "admin-token", "service-token", "wrong-token"};

typedef struct fixture {
    char              path[64];
    lk_principals    *principals;
    lk_authenticator *authenticator;
    lk_budget         budget;
    lk_config         config;
    lk_meta_service  *service;
    lk_health        *health;
    lk_grpc_method    methods[LK_META_METHODS + LK_HEALTH_METHODS + 1];
    lk_grpc_server   *server;
    lk_grpc_channel  *channels[CHANNELS];
    lk_authority     *clients[CHANNELS];
    lk_arena          arena;
    lk_err            err;
} fixture;

static const lk_bytes     granted = {"robots", 6};
static const lk_principal end_user = {.id = {"ann", 3},
    .tenant = {"acme", 4},
    .role = LK_ROLE_USER,
    .namespaces = (lk_bytes *)(uintptr_t)&granted,
    .namespace_count = 1};

static void write_principals(fixture *f)
{
    static const char text[] = "{\"bindings\":["
                               "{\"token\":\"user-token\",\"principal_id\":\"ann\",\"tenant_id\":\"acme\","
                               "\"role\":\"user\",\"namespaces\":[\"robots\"]},"
                               "{\"token\":\"admin-token\",\"principal_id\":\"root\",\"tenant_id\":\"home\","
                               "\"role\":\"admin\",\"namespaces\":[]},"
                               "{\"token\":\"service-token\",\"principal_id\":\"q1\",\"tenant_id\":\"infra\","
                               "\"role\":\"query_service\",\"namespaces\":[]}]}";
    (void)snprintf(f->path, sizeof f->path, "/tmp/lake-principals-XXXXXX");
    int fd = mkstemp(f->path);
    assert_true(fd >= 0 && fchmod(fd, 0600) == 0);
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
}

static int open_all(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    write_principals(f);
    the_memory = (memory){.base.ops = &memory_ops};
    f->config.append_max_stream_bytes = 1 << 20;
    lk_budget_init(&f->budget, "put", 64 << 20, NULL);
    assert_int_equal(lk_principals_load(&f->principals, NULL, f->path, &f->err), LK_OK);
    f->authenticator = lk_authenticator_open(f->principals);
    f->service = lk_meta_service_open(&the_memory.base, &f->budget, &f->config);
    f->health = lk_health_open(NULL, NULL);
    lk_meta_service_methods(f->service, f->methods);
    lk_health_methods(f->health, f->methods + LK_META_METHODS);
    f->methods[LK_META_METHODS + LK_HEALTH_METHODS] = lk_handshake_method(f->authenticator);
    lk_grpc_server_options options = {.address = "127.0.0.1:0",
        .methods = f->methods,
        .method_count = sizeof f->methods / sizeof *f->methods,
        .worker_count = 4,
        .admit = lk_authenticate,
        .translate = lk_status_translate,
        .context = f->authenticator};
    assert_int_equal(lk_grpc_server_open(&f->server, &options, &f->err), LK_OK);
    for (int i = 0; i < CHANNELS; i++) {
        lk_grpc_channel_options to = {
            .endpoint = lk_grpc_server_address(f->server), .token = lk_bytes_of(tokens[i])};
        assert_int_equal(lk_grpc_channel_open(&f->channels[i], &to, &f->err), LK_OK);
        assert_int_equal(lk_authority_client_open(&f->clients[i], f->channels[i], &f->err), LK_OK);
    }
    *state = f;
    return 0;
}

static int close_all(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < CHANNELS; i++) {
        f->clients[i]->ops->close(f->clients[i]);
        lk_grpc_channel_close(f->channels[i]);
    }
    lk_grpc_server_close(f->server);
    lk_health_close(f->health);
    lk_meta_service_close(f->service);
    lk_authenticator_close(f->authenticator);
    lk_principals_close(f->principals);
    unlink(f->path);
    assert_int_equal(atomic_load(&f->budget.used_bytes), 0);
    lk_arena_close(&f->arena);
    free(f);
    return 0;
}

/* Calls an action with chosen headers; the first result's body, if any. */
static lk_rc act(fixture *f, int as, const lk_grpc_header *headers, size_t header_count, const char *type,
    const char *body, lk_bytes *result)
{
    lk_buf              request = {0};
    lk_bytes            reply = {0};
    lk_flight_result    first = {0};
    lk_grpc_rpc_options options = {.headers = headers, .header_count = header_count};
    lk_flight_action    action = {lk_bytes_of(type), lk_bytes_of(body)};
    lk_flight_action_write(&action, &request);
    lk_grpc_rpc    *rpc = NULL;
    lk_grpc_message message = {0};
    bool            found = false;
    lk_rc rc = lk_grpc_rpc_open(&rpc, f->channels[as], LK_FLIGHT_METHOD("DoAction"), &options, &f->err);
    rc = rc == LK_OK ? lk_grpc_rpc_write_bytes(rpc, lk_buf_view(&request), &f->err) : rc;
    rc = rc == LK_OK ? lk_grpc_rpc_writes_done(rpc, &f->err) : rc;
    rc = rc == LK_OK ? lk_grpc_rpc_read(rpc, &message, &found, &f->err) : rc;
    if (rc == LK_OK && found) {
        reply = lk_arena_copy(&f->arena, lk_grpc_message_bytes(&message, &f->arena));
        assert_int_equal(lk_flight_result_read(reply, &f->arena, &first, &f->err), LK_OK);
    }
    lk_grpc_message_release(&message);
    rc = rc == LK_OK ? lk_grpc_rpc_finish(rpc, &f->err) : rc;
    lk_grpc_rpc_close(rpc);
    lk_buf_deinit(&request);
    if (result != NULL) {
        *result = first.body;
    }
    return rc;
}

static lk_table_ref robots_arm(void)
{
    return (lk_table_ref){LK_LITERAL("robots"), LK_LITERAL("arm")};
}

/* -- actions -- */

static void a_service_acts_for_its_caller(void **state)
{
    fixture           *f = *state;
    lk_authority      *a = f->clients[SERVICE];
    struct ArrowSchema columns[2] = {0}, schema;
    lk_registration    found;
    assert_int_equal(lk_column_parse(LK_LITERAL("id:int64"), &columns[0], &f->err), LK_OK);
    assert_int_equal(lk_column_parse(LK_LITERAL("note:utf8?"), &columns[1], &f->err), LK_OK);
    lk_schema_of_columns(columns, 2, &schema);
    assert_int_equal(a->ops->create_table(a, &end_user, robots_arm(), &schema, &f->err), LK_OK);
    assert_string_equal(the_memory.schema_text, "id:int64;note:utf8?;");
    assert_string_equal(the_memory.tenant, "acme");
    assert_string_equal(the_memory.ns, "robots");
    assert_string_equal(the_memory.name, "arm");
    assert_int_equal(a->ops->drop_table(a, &end_user, robots_arm(), &f->err), LK_OK);
    assert_int_equal(a->ops->resolve(a, &end_user, robots_arm(), &f->arena, &found, &f->err), LK_OK);
    assert_true(found.version == UINT64_MAX);
    assert_true(lk_bytes_equal(found.schema_ipc, LK_LITERAL("\0schema\xff")));
    assert_true(lk_bytes_equal(found.location, LK_LITERAL("/d/tables/x.lance")));
    assert_true(lk_bytes_equal(found.incarnation, LK_LITERAL(OPERATION)));
    assert_int_equal(the_memory.calls, 3);
    lk_schema_release(&schema);
}

static void lists_come_in_pages_and_a_users_namespaces_are_its_grants(void **state)
{
    fixture      *f = *state;
    lk_authority *a = f->clients[SERVICE];
    lk_name_page  page;
    assert_int_equal(a->ops->list_tables(a, &end_user, LK_LITERAL("robots"), LK_LITERAL("after"), 2,
                         &f->arena, &page, &f->err),
        LK_OK);
    assert_string_equal(the_memory.name, "after");
    assert_int_equal(page.count, 2);
    assert_true(lk_bytes_equal(page.continuation, LK_LITERAL("more \"here\"")));
    assert_int_equal(
        a->ops->list_namespaces(a, &end_user, (lk_bytes){0}, 10, &f->arena, &page, &f->err), LK_OK);
    assert_true(page.count == 1 && lk_bytes_equal(page.names[0], LK_LITERAL("robots")));
    assert_int_equal(a->ops->list_namespaces(a, NULL, (lk_bytes){0}, 10, &f->arena, &page, &f->err), LK_OK);
    assert_true(page.count == 1 && lk_bytes_equal(page.names[0], LK_LITERAL("everything")));
}

static void a_client_with_a_users_token_acts_as_that_user(void **state)
{
    fixture      *f = *state;
    lk_authority *a = f->clients[USER];
    lk_name_page  page;
    assert_int_equal(a->ops->drop_table(a, NULL, robots_arm(), &f->err), LK_OK);
    assert_string_equal(the_memory.tenant, "acme");
    assert_int_equal(a->ops->list_namespaces(a, NULL, (lk_bytes){0}, 10, &f->arena, &page, &f->err), LK_OK);
    assert_true(lk_bytes_equal(page.names[0], LK_LITERAL("granted")));
}

static void every_refusal_is_the_same(void **state)
{
    fixture             *f = *state;
    const char          *body = "{\"namespace\":\"robots\",\"name\":\"arm\"}";
    const lk_grpc_header right = {LK_HEADER_DELEGATED_NAMESPACE, LK_LITERAL("robots")};
    const lk_grpc_header wrong = {LK_HEADER_DELEGATED_NAMESPACE, LK_LITERAL("secret")};
    const lk_grpc_header tenant = {LK_HEADER_DELEGATED_TENANT, LK_LITERAL("other")};
    const struct {
        int            as;
        size_t         count;
        lk_grpc_header headers[2];
        const char    *body;
    } rows[] = {
        {USER, 0, {{0}}, "{\"namespace\":\"secret\",\"name\":\"arm\"}"},
        {USER, 1, {right}, body},
        {USER, 1, {tenant}, body},
        {SERVICE, 0, {{0}}, body},
        {SERVICE, 1, {tenant}, body},
        {SERVICE, 1, {right}, body}, /* no tenant */
        {SERVICE, 2, {wrong, tenant}, body},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        assert_int_equal(act(f, rows[i].as, rows[i].headers, rows[i].count, "drop_table", rows[i].body, NULL),
            LK_E_DENIED);
        assert_string_equal(lk_err_message(&f->err, text, sizeof text), "resource is not available");
    }
    const lk_grpc_header both[2] = {right, tenant};
    assert_int_equal(act(f, SERVICE, both, 2, "drop_table", body, NULL), LK_OK);
    assert_string_equal(the_memory.tenant, "other");
    assert_int_equal(act(f, ADMIN, &tenant, 1, "drop_table", body, NULL), LK_OK);
    assert_string_equal(the_memory.tenant, "other");
    assert_int_equal(act(f, ADMIN, NULL, 0, "drop_table", body, NULL), LK_OK);
    assert_string_equal(the_memory.tenant, "home");
}

static void nobody_gets_in_without_a_token(void **state)
{
    fixture      *f = *state;
    lk_authority *a = f->clients[NOBODY];
    lk_bytes      reply;
    assert_int_equal(a->ops->drop_table(a, NULL, robots_arm(), &f->err), LK_E_UNAUTHENTICATED);
    assert_int_equal(lk_grpc_unary(f->channels[NOBODY], "/grpc.health.v1.Health/Check", NULL, LK_LITERAL(""),
                         &f->arena, &reply, &f->err),
        LK_E_UNAUTHENTICATED);
    assert_int_equal(the_memory.calls, 0);
}

static void errors_come_back_as_they_were(void **state)
{
    static const lk_rc codes[] = {LK_E_TABLE_EXISTS, LK_E_TABLE_NOT_FOUND, LK_E_APPEND_IN_PROGRESS,
        LK_E_NOT_LEADER, LK_E_CORRUPT_RECORD, LK_E_STORE_FULL, LK_E_CONFLICT, LK_E_INTERNAL};
    fixture           *f = *state;
    lk_authority      *a = f->clients[SERVICE];
    the_memory.detail = "robots.arm, 7 rows";
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        the_memory.answer = codes[i];
        f->err = (lk_err){0};
        assert_int_equal(a->ops->drop_table(a, &end_user, robots_arm(), &f->err), codes[i]);
        assert_string_equal(f->err.detail, "robots.arm, 7 rows");
        assert_null(strstr(f->err.context, "secret context"));
    }
}

static void bodies_are_read_strictly_and_unknown_actions_refused(void **state)
{
    static const struct {
        const char *type, *body;
        lk_rc       rc;
    } rows[] = {
        {"drop_table", "{\"namespace\":\"robots\",\"name\":\"arm\",\"location\":\"x\"}",
            LK_E_INVALID_REQUEST},
        {"drop_table", "{\"namespace\":\"robots\"}", LK_E_INVALID_REQUEST},
        {"drop_table", "not json", LK_E_INVALID_REQUEST},
        {"create_table", "{\"namespace\":\"robots\",\"name\":\"arm\"}", LK_E_INVALID_REQUEST},
        {"create_table",
            "{\"namespace\":\"robots\",\"name\":\"arm\",\"columns\":[\"a:i64\"],\"schema_ipc_base64\":\"\"}",
            LK_E_INVALID_REQUEST},
        {"create_table", "{\"namespace\":\"robots\",\"name\":\"arm\",\"columns\":[\"a\"]}",
            LK_E_INVALID_SCHEMA},
        {"list_tables_page", "{\"namespace\":\"robots\",\"limit\":0}", LK_E_INVALID_REQUEST},
        {"list_tables_page", "{\"namespace\":\"robots\",\"limit\":257}", LK_E_INVALID_REQUEST},
        {"list_tables", "{\"namespace\":\"robots\"}", LK_E_LIMIT}, /* there is more: never a part */
        {"catalog_snapshot", "{\"schema_version\":2,\"known_generation\":null}", LK_E_INVALID_REQUEST},
        {"catalog_snapshot", "{}", LK_E_INVALID_REQUEST},
        {"no_such_action", "{}", LK_E_UNKNOWN_META_ACTION},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(act(f, ADMIN, NULL, 0, rows[i].type, rows[i].body, NULL), rows[i].rc);
    }
    assert_int_equal(
        act(f, ADMIN, NULL, 0, "create_table",
            "{\"namespace\":\"robots\",\"name\":\"arm\",\"columns\":[\"a:i64\",\"b:utf8?\"]}", NULL),
        LK_OK);
    assert_string_equal(the_memory.schema_text, "a:int64;b:utf8?;");
}

static void methods_that_are_not_metadatas_are_unimplemented(void **state)
{
    static const char *const paths[] = {LK_FLIGHT_METHOD("GetFlightInfo"), LK_FLIGHT_METHOD("DoGet"),
        LK_FLIGHT_METHOD("ListFlights"), LK_FLIGHT_METHOD("DoExchange"), "/other.Service/Method"};
    fixture                 *f = *state;
    lk_bytes                 reply;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        assert_int_equal(
            lk_grpc_unary(f->channels[ADMIN], paths[i], NULL, LK_LITERAL(""), &f->arena, &reply, &f->err),
            LK_E_UNIMPLEMENTED);
    }
}

/* -- catalog -- */

static void the_directory_comes_whole_once_and_then_not_at_all(void **state)
{
    fixture         *f = *state;
    lk_authority    *a = f->clients[SERVICE];
    bool             modified = false;
    lk_bytes         generation = {0};
    lk_registration *items = NULL;
    size_t           count = 0;
    the_memory.tables = 5000;
    assert_int_equal(
        a->ops->directory(a, (lk_bytes){0}, &f->arena, &modified, &generation, &items, &count, &f->err),
        LK_OK);
    assert_true(modified);
    assert_int_equal(count, 5000);
    assert_true(lk_bytes_equal(items[4999].table.name, LK_LITERAL("t004999")));
    assert_true(lk_bytes_equal(items[17].schema_ipc, LK_LITERAL("\0schema\xff")));
    assert_true(lk_bytes_equal(generation, LK_LITERAL("g7")));
    assert_int_equal(
        a->ops->directory(a, generation, &f->arena, &modified, &generation, &items, &count, &f->err), LK_OK);
    assert_false(modified);
}

static void the_directory_is_for_services_alone(void **state)
{
    fixture             *f = *state;
    const lk_grpc_header delegated = {LK_HEADER_DELEGATED_NAMESPACE, LK_LITERAL("robots")};
    const char          *body = "{\"schema_version\":1,\"known_generation\":null}";
    assert_int_equal(act(f, USER, NULL, 0, "catalog_snapshot", body, NULL), LK_E_DENIED);
    assert_int_equal(act(f, SERVICE, &delegated, 1, "catalog_snapshot", body, NULL), LK_E_DENIED);
    assert_int_equal(act(f, ADMIN, NULL, 0, "catalog_snapshot", body, NULL), LK_OK);
    assert_int_equal(act(f, SERVICE, NULL, 0, "catalog_snapshot", body, NULL), LK_OK);
}

/* -- appends -- */

typedef struct source {
    lk_batches base;
    int        left;
} source;

static void make_batch(const struct ArrowSchema *schema, int64_t rows, struct ArrowArray *out)
{
    assert_int_equal(ArrowArrayInitFromSchema(out, schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(out), NANOARROW_OK);
    for (int64_t i = 0; i < rows; i++) {
        assert_int_equal(ArrowArrayAppendInt(out->children[0], i), NANOARROW_OK);
        assert_int_equal(ArrowArrayFinishElement(out), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(out, NULL), NANOARROW_OK);
}

static lk_rc source_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    source *self = (source *)batches;
    *out = (struct ArrowArray){0};
    if (self->left-- > 0) {
        make_batch(&self->base.schema, 100, out);
    }
    return LK_OK;
}

static source source_of(int batches)
{
    source             self = {.base.next = source_next, .left = batches};
    struct ArrowSchema column = {0};
    lk_err             err = {0};
    assert_int_equal(lk_column_parse(LK_LITERAL("a:int64"), &column, &err), LK_OK);
    lk_schema_of_columns(&column, 1, &self.base.schema);
    return self;
}

static lk_rc append(fixture *f, int as, const lk_principal *who, int batches, uint64_t *version)
{
    static const char       digest[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    lk_authority           *a = f->clients[as];
    source                  rows = source_of(batches);
    const lk_append_command command = {robots_arm(), LK_LITERAL(OPERATION), lk_bytes_of(digest)};
    lk_rc                   rc = a->ops->append(a, who, &command, &rows.base, NULL, version, &f->err);
    lk_schema_release(&rows.base.schema);
    return rc;
}

static void an_append_for_a_caller_keeps_the_digest_that_names_it(void **state)
{
    fixture *f = *state;
    uint64_t version = 0;
    assert_int_equal(append(f, SERVICE, &end_user, 3, &version), LK_OK);
    assert_true(version == 12345678901234567890U);
    assert_int_equal(the_memory.rows, 300);
    assert_string_equal(the_memory.tenant, "acme");
    assert_string_equal(
        the_memory.digest, "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff");
}

static void a_client_sends_the_digest_of_what_it_sends(void **state)
{
    fixture         *f = *state;
    uint64_t         version = 0;
    char             digest[LK_SHA256_HEX_SIZE + 1];
    source           rows = source_of(0);
    lk_shared_array *arrays[3];
    assert_int_equal(append(f, USER, NULL, 3, &version), LK_OK);
    for (int i = 0; i < 3; i++) {
        struct ArrowArray batch;
        make_batch(&rows.base.schema, 100, &batch);
        arrays[i] = lk_array_share(&batch);
    }
    assert_int_equal(lk_payload_digest(&rows.base.schema, arrays, 3, digest, &f->err), LK_OK);
    assert_string_equal(the_memory.digest, digest);
    for (int i = 0; i < 3; i++) {
        lk_shared_array_unref(arrays[i]);
    }
    lk_schema_release(&rows.base.schema);
}

static void an_append_that_fails_says_whether_it_may_have_happened(void **state)
{
    fixture *f = *state;
    uint64_t version = 0;
    the_memory.answer = LK_E_OPERATION_CONFLICT;
    assert_int_equal(append(f, SERVICE, &end_user, 1, &version), LK_E_OPERATION_CONFLICT);
    assert_false(f->err.maybe_applied);
    the_memory.answer = LK_E_KV_UNAVAILABLE;
    assert_int_equal(append(f, SERVICE, &end_user, 1, &version), LK_E_KV_UNAVAILABLE);
    assert_true(f->err.maybe_applied);
}

static void an_append_without_rows_or_with_too_many_bytes_changes_nothing(void **state)
{
    fixture *f = *state;
    uint64_t version = 0;
    assert_int_equal(append(f, SERVICE, &end_user, 0, &version), LK_E_INVALID_APPEND);
    assert_int_equal(append(f, SERVICE, &end_user, 2000, &version), LK_E_LIMIT);
    assert_false(f->err.maybe_applied);
    assert_int_equal(the_memory.rows, 0);
    assert_int_equal(append(f, NOBODY, &end_user, 1, &version), LK_E_UNAUTHENTICATED);
}

/* A put with a chosen JSON and digest, by hand. */
static lk_rc put(fixture *f, int as, const char *json, const lk_grpc_header *headers, size_t header_count)
{
    lk_grpc_rpc          *rpc = NULL;
    lk_buf                any = {0};
    source                rows = source_of(2);
    lk_grpc_rpc_options   options = {.headers = headers, .header_count = header_count};
    lk_flight_sql_command command = {
        .kind = LK_FLIGHT_SQL_OTHER, .type_url = LK_LITERAL(LK_APPEND_TYPE_URL), .value = lk_bytes_of(json)};
    lk_flight_sql_command_write(&command, &any);
    lk_flight_descriptor   descriptor = {.type = LK_FLIGHT_DESCRIPTOR_CMD, .cmd = lk_buf_view(&any)};
    lk_flight_send_options send = {.descriptor = &descriptor, .keep_batches = true};
    lk_rc rc = lk_grpc_rpc_open(&rpc, f->channels[as], LK_FLIGHT_METHOD("DoPut"), &options, &f->err);
    rc = rc == LK_OK ? lk_flight_send(lk_flight_of_rpc(rpc), &rows.base, &send, NULL, &f->err) : rc;
    rc = rc == LK_OK ? lk_grpc_rpc_writes_done(rpc, &f->err) : rc;
    rc = rc == LK_OK ? lk_grpc_rpc_finish(rpc, &f->err) : rc;
    lk_grpc_rpc_close(rpc);
    lk_buf_deinit(&any);
    lk_schema_release(&rows.base.schema);
    return rc;
}

#define COMMAND(version, digest)                                                                        \
    "{\"version\":" version ",\"namespace\":\"robots\",\"table\":\"arm\",\"operation_id\":\"" OPERATION \
    "\",\"payload_sha256\":\"" digest "\"}"
#define WRONG "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void a_wrong_digest_is_refused_whoever_claims_to_have_checked_it(void **state)
{
    fixture             *f = *state;
    const lk_grpc_header claims = {LK_HEADER_PAYLOAD_VERIFIED, LK_LITERAL("1")};
    assert_int_equal(put(f, USER, COMMAND("1", WRONG), NULL, 0), LK_E_DIGEST_MISMATCH);
    assert_int_equal(put(f, USER, COMMAND("1", WRONG), &claims, 1), LK_E_DIGEST_MISMATCH);
    assert_int_equal(the_memory.rows, 0);
    assert_int_equal(put(f, ADMIN, COMMAND("1", WRONG), &claims, 1), LK_OK); /* a service is believed */
    assert_int_equal(the_memory.rows, 200);
}

static void append_commands_are_read_strictly(void **state)
{
    fixture    *f = *state;
    const char *upper = "00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff";
    lk_bytes    text = lk_arena_format(&f->arena,
           "{\"version\":1,\"namespace\":\"robots\",\"table\":\"arm\",\"operation_id\":\"" OPERATION
           "\",\"payload_sha256\":\"%s\"}",
           upper);
    assert_int_equal(put(f, USER, COMMAND("2", WRONG), NULL, 0), LK_E_INVALID_APPEND);
    assert_int_equal(put(f, USER, "{\"version\":1}", NULL, 0), LK_E_INVALID_APPEND);
    assert_int_equal(put(f, USER, "[]", NULL, 0), LK_E_INVALID_APPEND);
    assert_int_equal(
        lk_rc_code(put(f, USER, lk_arena_text(&f->arena, text), NULL, 0)), LK_CODE_INVALID_ARGUMENT);
    assert_int_equal(the_memory.calls, 0);
}

/* -- health and handshake -- */

static lk_rc check(fixture *f, lk_bytes request, int *status)
{
    lk_bytes reply = {0};
    lk_rc    rc = lk_grpc_unary(
           f->channels[USER], "/grpc.health.v1.Health/Check", NULL, request, &f->arena, &reply, &f->err);
    *status = rc == LK_OK && reply.size == 2 && reply.data[0] == 8 ? reply.data[1] : -1;
    return rc;
}

static void health_is_told_for_the_process_and_for_flight(void **state)
{
    fixture *f = *state;
    int      status = 0;
    lk_bytes flight = LK_LITERAL("\x0a\x25"
                                 "arrow.flight.protocol.FlightService");
    flight.size = 2 + strlen(LK_FLIGHT_SERVICE);
    char request[64];
    memcpy(request, flight.data, flight.size);
    request[1] = (char)strlen(LK_FLIGHT_SERVICE);
    assert_int_equal(check(f, LK_LITERAL(""), &status), LK_OK);
    assert_int_equal(status, 1);
    assert_int_equal(check(f, (lk_bytes){request, flight.size}, &status), LK_OK);
    assert_int_equal(status, 1);
    assert_int_equal(check(f, LK_LITERAL("\x0a\x04nope"), &status), LK_E_NOT_FOUND);
    assert_int_equal(check(f, LK_LITERAL("\x0a\x09nope"), &status), LK_E_INVALID_REQUEST);
    lk_health_stop(f->health);
    assert_int_equal(check(f, LK_LITERAL(""), &status), LK_OK);
    assert_int_equal(status, 2);
}

static void a_watcher_hears_that_the_server_stops_and_then_the_end(void **state)
{
    fixture        *f = *state;
    lk_grpc_rpc    *rpc = NULL;
    lk_grpc_message message;
    bool            found = false;
    const char     *expected[] = {"\x08\x01", "\x08\x02"};
    assert_int_equal(
        lk_grpc_rpc_open(&rpc, f->channels[USER], "/grpc.health.v1.Health/Watch", NULL, &f->err), LK_OK);
    assert_int_equal(lk_grpc_rpc_write_bytes(rpc, LK_LITERAL(""), &f->err), LK_OK);
    assert_int_equal(lk_grpc_rpc_writes_done(rpc, &f->err), LK_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lk_grpc_rpc_read(rpc, &message, &found, &f->err), LK_OK);
        assert_true(found);
        assert_memory_equal(lk_grpc_message_bytes(&message, &f->arena).data, expected[i], 2);
        lk_grpc_message_release(&message);
        lk_health_stop(f->health);
    }
    assert_int_equal(lk_grpc_rpc_finish(rpc, &f->err), LK_OK);
    lk_grpc_rpc_close(rpc);
}

/* Shakes hands without a token of the channel's own; the bearer that comes back, or empty. */
static lk_rc shake(fixture *f, const char *authorization, lk_bytes payload, lk_bytes *bearer)
{
    lk_grpc_channel        *channel = NULL;
    lk_grpc_rpc            *rpc = NULL;
    lk_buf                  request = {0};
    lk_bytes                value = {0};
    lk_grpc_header          header = {"authorization", lk_bytes_of(authorization)};
    lk_grpc_rpc_options     options = {.headers = &header, .header_count = authorization == NULL ? 0 : 1};
    lk_grpc_channel_options to = {.endpoint = lk_grpc_server_address(f->server)};
    lk_flight_handshake_write(&(lk_flight_handshake){.payload = payload}, &request);
    assert_int_equal(lk_grpc_channel_open(&channel, &to, &f->err), LK_OK);
    lk_rc rc = lk_grpc_rpc_open(&rpc, channel, LK_FLIGHT_METHOD("Handshake"), &options, &f->err);
    rc = rc == LK_OK ? lk_grpc_rpc_write_bytes(rpc, lk_buf_view(&request), &f->err) : rc;
    rc = rc == LK_OK ? lk_grpc_rpc_writes_done(rpc, &f->err) : rc;
    rc = rc == LK_OK ? lk_grpc_rpc_finish(rpc, &f->err) : rc;
    if (rc == LK_OK && lk_grpc_rpc_metadata(rpc, "authorization", &value)) {
        *bearer = lk_arena_copy(&f->arena, value);
    }
    lk_grpc_rpc_close(rpc);
    lk_grpc_channel_close(channel);
    lk_buf_deinit(&request);
    return rc;
}

static void a_handshake_turns_a_password_into_a_bearer_token(void **state)
{
    static const char *const good[] = {
        "Basic YW55Ym9keTp1c2VyLXRva2Vu", /* anybody:user-token */
        "basic OnVzZXItdG9rZW4=",         /* :user-token */
        "Basic YTp1c2VyLXRva2Vu",         /* a:user-token */
        "Bearer user-token",
    };
    fixture *f = *state;
    lk_bytes bearer = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        bearer = (lk_bytes){0};
        assert_int_equal(shake(f, good[i], LK_LITERAL(""), &bearer), LK_OK);
        assert_true(lk_bytes_equal(bearer, LK_LITERAL("Bearer user-token")));
    }
    assert_int_equal(
        shake(f, "Basic OnVzZXItdG9rZW4", LK_LITERAL(""), &bearer), LK_OK); /* unpadded, as Go sends */
    lk_buf basic = {0};
    lk_flight_basic_auth_write(&(lk_flight_basic_auth){LK_LITERAL("u"), LK_LITERAL("user-token")}, &basic);
    bearer = (lk_bytes){0};
    assert_int_equal(shake(f, NULL, lk_buf_view(&basic), &bearer), LK_OK);
    assert_true(lk_bytes_equal(bearer, LK_LITERAL("Bearer user-token")));
    lk_buf_deinit(&basic);
    assert_int_equal(shake(f, NULL, LK_LITERAL(""), &bearer), LK_E_UNAUTHENTICATED);
    assert_int_equal(shake(f, "Basic !!!!", LK_LITERAL(""), &bearer), LK_E_UNAUTHENTICATED);
    assert_int_equal(
        shake(f, "Basic dTp3cm9uZw==", LK_LITERAL(""), &bearer), LK_E_UNAUTHENTICATED); /* u:wrong */
}

#define T(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    lk_grpc_open();
    const struct CMUnitTest tests[] = {
        T(a_service_acts_for_its_caller),
        T(lists_come_in_pages_and_a_users_namespaces_are_its_grants),
        T(a_client_with_a_users_token_acts_as_that_user),
        T(every_refusal_is_the_same),
        T(nobody_gets_in_without_a_token),
        T(errors_come_back_as_they_were),
        T(bodies_are_read_strictly_and_unknown_actions_refused),
        T(methods_that_are_not_metadatas_are_unimplemented),
        T(the_directory_comes_whole_once_and_then_not_at_all),
        T(the_directory_is_for_services_alone),
        T(an_append_for_a_caller_keeps_the_digest_that_names_it),
        T(a_client_sends_the_digest_of_what_it_sends),
        T(an_append_that_fails_says_whether_it_may_have_happened),
        T(an_append_without_rows_or_with_too_many_bytes_changes_nothing),
        T(a_wrong_digest_is_refused_whoever_claims_to_have_checked_it),
        T(append_commands_are_read_strictly),
        T(health_is_told_for_the_process_and_for_flight),
        T(a_watcher_hears_that_the_server_stops_and_then_the_end),
        T(a_handshake_turns_a_password_into_a_bearer_token),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lk_grpc_close();
    return failed;
}
