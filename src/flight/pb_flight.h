#ifndef LK_FLIGHT_PB_FLIGHT_H
#define LK_FLIGHT_PB_FLIGHT_H
/*
 * pb_flight.h - the messages of Arrow Flight and Flight SQL as plain structs. Only this room knows the wire.
 *
 * Invariants:
 *   1. Reading is bounded by the bytes given, skips unknown fields, and lets the last of a repeated singular
 *      field win; malformed bytes are LK_E_INVALID_REQUEST. Views point into the input, arrays live in the arena.
 *   2. Writing leaves out what is empty or zero and puts fields in number order: the bytes are proto3's.
 *   3. An optional text or bytes field that is absent has data == NULL; one that is present and empty has not.
 *   4. Text fields are valid UTF-8 once read.
 *
 * Threads: stateless.
 */
#include "base/arena.h"
#include "base/bytes.h"
#include "base/err.h"

#define LK_FLIGHT_SERVICE      "arrow.flight.protocol.FlightService"
#define LK_FLIGHT_METHOD(name) "/arrow.flight.protocol.FlightService/" name

typedef struct lk_flight_list { /* repeated text or bytes */
    lk_bytes *items;
    size_t    count;
} lk_flight_list;

typedef struct lk_flight_time { /* google.protobuf.Timestamp */
    bool    present;
    int64_t seconds;
    int64_t nanos;
} lk_flight_time;

typedef enum lk_flight_descriptor_type {
    LK_FLIGHT_DESCRIPTOR_UNKNOWN = 0,
    LK_FLIGHT_DESCRIPTOR_PATH = 1,
    LK_FLIGHT_DESCRIPTOR_CMD = 2
} lk_flight_descriptor_type;

typedef struct lk_flight_descriptor {
    bool           present; /* as a field of another message */
    uint64_t       type;    /* lk_flight_descriptor_type */
    lk_bytes       cmd;
    lk_flight_list path;
} lk_flight_descriptor;

typedef struct lk_flight_ticket {
    bool     present;
    lk_bytes ticket;
} lk_flight_ticket;

typedef struct lk_flight_location {
    lk_bytes uri;
} lk_flight_location;

typedef struct lk_flight_endpoint {
    bool                present;
    lk_flight_ticket    ticket;
    lk_flight_location *locations;
    size_t              location_count;
    lk_flight_time      expiration_time;
    lk_bytes            app_metadata;
} lk_flight_endpoint;

typedef struct lk_flight_info {
    bool                 present;
    lk_bytes             schema; /* encapsulated IPC message */
    lk_flight_descriptor descriptor;
    lk_flight_endpoint  *endpoints;
    size_t               endpoint_count;
    int64_t              total_records, total_bytes; /* -1: unknown */
    bool                 ordered;
    lk_bytes             app_metadata;
} lk_flight_info;

typedef struct lk_flight_poll_info {
    lk_flight_info       info;
    lk_flight_descriptor descriptor; /* to poll with again; absent: done */
    bool                 progress_present;
    double               progress; /* 0 to 1 */
    lk_flight_time       expiration_time;
} lk_flight_poll_info;

typedef struct lk_flight_schema_result {
    lk_bytes schema; /* encapsulated IPC message */
} lk_flight_schema_result;

typedef struct lk_flight_put_result {
    lk_bytes app_metadata;
} lk_flight_put_result;

typedef struct lk_flight_action {
    lk_bytes type, body;
} lk_flight_action;

typedef struct lk_flight_result {
    lk_bytes body;
} lk_flight_result;

typedef struct lk_flight_action_type {
    lk_bytes type, description;
} lk_flight_action_type;

typedef struct lk_flight_criteria {
    lk_bytes expression;
} lk_flight_criteria;

typedef struct lk_flight_handshake { /* request and response */
    uint64_t protocol_version;
    lk_bytes payload;
} lk_flight_handshake;

typedef struct lk_flight_basic_auth { /* the payload of a v1 handshake */
    lk_bytes username, password;
} lk_flight_basic_auth;

typedef struct lk_flight_cancel_info_request {
    lk_flight_info info;
} lk_flight_cancel_info_request;

typedef enum lk_flight_cancel_status {
    LK_FLIGHT_CANCEL_UNSPECIFIED = 0,
    LK_FLIGHT_CANCEL_CANCELLED = 1,
    LK_FLIGHT_CANCEL_CANCELLING = 2,
    LK_FLIGHT_CANCEL_NOT_CANCELLABLE = 3
} lk_flight_cancel_status;

typedef struct lk_flight_cancel_info_result {
    uint64_t status; /* lk_flight_cancel_status */
} lk_flight_cancel_info_result;

typedef struct lk_flight_renew_endpoint_request {
    lk_flight_endpoint endpoint;
} lk_flight_renew_endpoint_request;

#define LK_FLIGHT_MESSAGES(M) \
    M(descriptor)             \
    M(ticket)                 \
    M(endpoint)               \
    M(info)                   \
    M(poll_info)              \
    M(schema_result)          \
    M(put_result)             \
    M(action)                 \
    M(result)                 \
    M(action_type)            \
    M(criteria)               \
    M(handshake)              \
    M(basic_auth)             \
    M(cancel_info_request)    \
    M(cancel_info_result)     \
    M(renew_endpoint_request)

/* lk_flight_ticket_read(message, arena, &ticket, err), lk_flight_ticket_write(&ticket, out), … : rules above.
 * Read starts from zero; write appends. */
#define M(name)                                                                 \
    LK_MUST_CHECK lk_rc lk_flight_##name##_read(                                \
        lk_bytes message, lk_arena *arena, lk_flight_##name *out, lk_err *err); \
    void lk_flight_##name##_write(const lk_flight_##name *in, lk_buf *out);
LK_FLIGHT_MESSAGES(M)
#undef M

/* -- Flight SQL ------------------------------------------------------------------------------------------ */

typedef struct
    lk_flight_sql_statement { /* CommandStatementQuery, CommandStatementUpdate, create-prepared request */
    lk_bytes query, transaction_id /* optional */;
} lk_flight_sql_statement;

typedef struct
    lk_flight_sql_handle { /* TicketStatementQuery, prepared query, prepared update, close-prepared request */
    lk_bytes handle;
} lk_flight_sql_handle;

typedef struct lk_flight_sql_prepared { /* ActionCreatePreparedStatementResult */
    lk_bytes handle, dataset_schema, parameter_schema;
} lk_flight_sql_prepared;

typedef struct lk_flight_sql_get_db_schemas {
    lk_bytes catalog, db_schema_pattern; /* optional */
} lk_flight_sql_get_db_schemas;

typedef struct lk_flight_sql_get_tables {
    lk_bytes       catalog, db_schema_pattern, table_pattern; /* optional */
    lk_flight_list table_types;
    bool           include_schema;
} lk_flight_sql_get_tables;

typedef struct lk_flight_sql_get_sql_info {
    uint32_t *ids;
    size_t    id_count; /* 0: all */
} lk_flight_sql_get_sql_info;

typedef struct lk_flight_sql_get_type_info {
    bool    data_type_present;
    int64_t data_type;
} lk_flight_sql_get_type_info;

typedef struct lk_flight_sql_get_keys { /* primary, exported, imported */
    lk_bytes catalog, db_schema;        /* optional */
    lk_bytes table;
} lk_flight_sql_get_keys;

typedef struct lk_flight_sql_get_cross_reference {
    lk_bytes pk_catalog, pk_db_schema; /* optional */
    lk_bytes pk_table;
    lk_bytes fk_catalog, fk_db_schema; /* optional */
    lk_bytes fk_table;
} lk_flight_sql_get_cross_reference;

typedef enum lk_flight_sql_if_absent {
    LK_FLIGHT_SQL_IF_ABSENT_UNSPECIFIED,
    LK_FLIGHT_SQL_IF_ABSENT_CREATE,
    LK_FLIGHT_SQL_IF_ABSENT_FAIL
} lk_flight_sql_if_absent;
typedef enum lk_flight_sql_if_exists {
    LK_FLIGHT_SQL_IF_EXISTS_UNSPECIFIED,
    LK_FLIGHT_SQL_IF_EXISTS_FAIL,
    LK_FLIGHT_SQL_IF_EXISTS_APPEND,
    LK_FLIGHT_SQL_IF_EXISTS_REPLACE
} lk_flight_sql_if_exists;

typedef struct lk_flight_sql_option {
    lk_bytes key, value;
} lk_flight_sql_option;

typedef struct lk_flight_sql_ingest {
    struct {
        bool     present;
        uint64_t if_absent; /* lk_flight_sql_if_absent */
        uint64_t if_exists; /* lk_flight_sql_if_exists */
    } table_definition;
    lk_bytes              table;
    lk_bytes              schema, catalog; /* optional */
    bool                  temporary;
    lk_bytes              transaction_id; /* optional */
    lk_flight_sql_option *options;
    size_t                option_count;
} lk_flight_sql_ingest;

typedef struct lk_flight_sql_substrait {
    lk_bytes plan; /* opaque: we only need to recognise it */
} lk_flight_sql_substrait;

typedef struct lk_flight_sql_cancel_query { /* ActionCancelQueryRequest (deprecated): info is a FlightInfo */
    lk_bytes info;
} lk_flight_sql_cancel_query;

typedef struct lk_flight_sql_update_result { /* DoPutUpdateResult: not wrapped in Any */
    int64_t record_count;
} lk_flight_sql_update_result;

typedef struct lk_flight_sql_bind_result { /* DoPutPreparedStatementResult: not wrapped in Any */
    lk_bytes handle;                       /* optional */
} lk_flight_sql_bind_result;

LK_MUST_CHECK lk_rc lk_flight_sql_update_result_read(
    lk_bytes message, lk_arena *arena, lk_flight_sql_update_result *out, lk_err *err);
void                lk_flight_sql_update_result_write(const lk_flight_sql_update_result *in, lk_buf *out);
LK_MUST_CHECK lk_rc lk_flight_sql_bind_result_read(
    lk_bytes message, lk_arena *arena, lk_flight_sql_bind_result *out, lk_err *err);
void lk_flight_sql_bind_result_write(const lk_flight_sql_bind_result *in, lk_buf *out);

/* Everything that travels inside google.protobuf.Any: C(kind, wire name, union member). */
#define LK_FLIGHT_SQL_COMMANDS(C)                                           \
    C(STATEMENT_QUERY, "CommandStatementQuery", statement)                  \
    C(STATEMENT_UPDATE, "CommandStatementUpdate", statement)                \
    C(STATEMENT_SUBSTRAIT, "CommandStatementSubstraitPlan", substrait)      \
    C(STATEMENT_INGEST, "CommandStatementIngest", ingest)                   \
    C(STATEMENT_TICKET, "TicketStatementQuery", handle)                     \
    C(PREPARED_QUERY, "CommandPreparedStatementQuery", handle)              \
    C(PREPARED_UPDATE, "CommandPreparedStatementUpdate", handle)            \
    C(GET_CATALOGS, "CommandGetCatalogs", nothing)                          \
    C(GET_DB_SCHEMAS, "CommandGetDbSchemas", get_db_schemas)                \
    C(GET_TABLES, "CommandGetTables", get_tables)                           \
    C(GET_TABLE_TYPES, "CommandGetTableTypes", nothing)                     \
    C(GET_SQL_INFO, "CommandGetSqlInfo", get_sql_info)                      \
    C(GET_TYPE_INFO, "CommandGetXdbcTypeInfo", get_type_info)               \
    C(GET_PRIMARY_KEYS, "CommandGetPrimaryKeys", get_keys)                  \
    C(GET_EXPORTED_KEYS, "CommandGetExportedKeys", get_keys)                \
    C(GET_IMPORTED_KEYS, "CommandGetImportedKeys", get_keys)                \
    C(GET_CROSS_REFERENCE, "CommandGetCrossReference", get_cross_reference) \
    C(CREATE_PREPARED, "ActionCreatePreparedStatementRequest", statement)   \
    C(PREPARED, "ActionCreatePreparedStatementResult", prepared)            \
    C(CLOSE_PREPARED, "ActionClosePreparedStatementRequest", handle)        \
    C(CANCEL_QUERY, "ActionCancelQueryRequest", cancel_query)

typedef enum lk_flight_sql_kind {
    LK_FLIGHT_SQL_OTHER, /* a well-formed Any of a type that is not ours: type_url and value say which */
#define C(kind, name, member) LK_FLIGHT_SQL_##kind,
    LK_FLIGHT_SQL_COMMANDS(C)
#undef C
        LK_FLIGHT_SQL_KIND_COUNT
} lk_flight_sql_kind;

typedef struct lk_flight_sql_nothing {
    char unused;
} lk_flight_sql_nothing;

typedef struct lk_flight_sql_command {
    lk_flight_sql_kind kind;
    lk_bytes           type_url, value; /* of the Any; write uses them for LK_FLIGHT_SQL_OTHER only */
    union {
        lk_flight_sql_statement           statement;
        lk_flight_sql_handle              handle;
        lk_flight_sql_prepared            prepared;
        lk_flight_sql_get_db_schemas      get_db_schemas;
        lk_flight_sql_get_tables          get_tables;
        lk_flight_sql_get_sql_info        get_sql_info;
        lk_flight_sql_get_type_info       get_type_info;
        lk_flight_sql_get_keys            get_keys;
        lk_flight_sql_get_cross_reference get_cross_reference;
        lk_flight_sql_ingest              ingest;
        lk_flight_sql_substrait           substrait;
        lk_flight_sql_cancel_query        cancel_query;
        lk_flight_sql_nothing             nothing;
    };
} lk_flight_sql_command;

/* Opens an Any. A message that is no Any, or whose inside is malformed: LK_E_INVALID_REQUEST. */
LK_MUST_CHECK lk_rc lk_flight_sql_command_read(
    lk_bytes any, lk_arena *arena, lk_flight_sql_command *out, lk_err *err);
void        lk_flight_sql_command_write(const lk_flight_sql_command *in, lk_buf *out); /* appends the Any */
const char *lk_flight_sql_kind_name(
    lk_flight_sql_kind kind); /* "CommandStatementQuery"; "" for LK_FLIGHT_SQL_OTHER */

/* DoAction bodies (CreatePreparedStatement, ClosePreparedStatement, CancelQuery) and results are Anys too. */

/* -- FlightData: coded apart, so that bodies are never copied -------------------------------------------- */

/* The bytes that come before the body of an outgoing FlightData: every field and the body's tag and length. */
typedef struct lk_flight_data_head {
    const lk_flight_descriptor *descriptor; /* NULL: none */
    lk_bytes                    header, app_metadata;
    size_t                      body_size;
} lk_flight_data_head;

void lk_flight_data_head_write(const lk_flight_data_head *in, lk_buf *out);

/* Where the fields of an incoming FlightData lie: offset and size in its bytes (size 0, offset 0: absent). */
typedef struct lk_flight_span {
    size_t offset, size;
} lk_flight_span;

typedef struct lk_flight_data_spans {
    lk_flight_span descriptor, header, app_metadata, body;
    bool           descriptor_present;
} lk_flight_data_spans;

/* Finds the fields without touching the body; slices as of lk_grpc_message. LK_E_INVALID_REQUEST. */
LK_MUST_CHECK lk_rc lk_flight_data_find(
    const lk_bytes *slices, size_t slice_count, lk_flight_data_spans *out, lk_err *err);

#endif
