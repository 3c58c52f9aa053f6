#ifndef LK_SERVE_APPEND_COMMAND_H
#define LK_SERVE_APPEND_COMMAND_H
/*
 * append_command.h - the named append on the wire: Any{type.googleapis.com/lake.file.Append, JSON {"version":1,
 * "namespace","table","operation_id","payload_sha256"}}, and the server's half of it, the same on Metasrv and on
 * Query. Threads: stateless.
 */
#include "catalog/authority.h"
#include "flight/stream.h"

#define LK_APPEND_TYPE_URL "type.googleapis.com/lake.file.Append"

/* Appends the Any. */
void lk_append_command_write(const lk_append_command *command, lk_buf *out);

/* Reads the JSON. LK_E_INVALID_APPEND, or the identifier's own error. Texts in the arena. */
LK_MUST_CHECK lk_rc lk_append_command_read(
    lk_bytes json, lk_arena *arena, lk_append_command *out, lk_err *err);

/*
 * Receives the rows of an append whose first message the reader holds, checks their digest (unless verified: the
 * sender, a service, has done so), lets the authority commit them and answers with the version. The stream
 * (bounded by bytes_max, uncompressed) is in memory until then.
 */
LK_MUST_CHECK lk_rc lk_append_serve(lk_authority *authority, const lk_principal *who,
    const lk_append_command *command, lk_grpc_call *call, lk_flight_reader *reader, uint64_t bytes_max,
    bool verified, lk_err *err);

#endif
