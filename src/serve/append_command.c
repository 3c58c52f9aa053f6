/* append_command.c - see append_command.h. */
#include "serve/append_command.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/limits.h"
#include "flight/pb_flight.h"

#include <inttypes.h>
#include <stdlib.h>

void lk_append_command_write(const lk_append_command *command, lk_buf *out)
{
    lk_buf         json = {0};
    lk_json_writer w = {.out = &json};
    lk_json_object(&w);
    lk_json_key(&w, "version");
    lk_json_u64(&w, 1);
    lk_json_key(&w, "namespace");
    lk_json_text(&w, command->table.ns);
    lk_json_key(&w, "table");
    lk_json_text(&w, command->table.name);
    lk_json_key(&w, "operation_id");
    lk_json_text(&w, command->operation_id);
    lk_json_key(&w, "payload_sha256");
    lk_json_text(&w, command->payload_sha256);
    lk_json_object_end(&w);
    const lk_flight_sql_command any = {
        .kind = LK_FLIGHT_SQL_OTHER, .type_url = LK_LITERAL(LK_APPEND_TYPE_URL), .value = lk_buf_view(&json)};
    lk_flight_sql_command_write(&any, out);
    lk_buf_deinit(&json);
}

static lk_rc invalid(lk_err *err, const char *why)
{
    lk_rc rc = lk_fail(err, LK_E_INVALID_APPEND, "%s", why);
    lk_detail(err, "%s", why);
    return rc;
}

lk_rc lk_append_command_read(lk_bytes json, lk_arena *arena, lk_append_command *out, lk_err *err)
{
    uint64_t            version = 0;
    const lk_json_field fields[] = {
        {.name = "version", .type = LK_JSON_U64, .target = &version},
        {.name = "namespace", .type = LK_JSON_TEXT, .target = &out->table.ns},
        {.name = "table", .type = LK_JSON_TEXT, .target = &out->table.name},
        {.name = "operation_id", .type = LK_JSON_TEXT, .target = &out->operation_id},
        {.name = "payload_sha256", .type = LK_JSON_TEXT, .target = &out->payload_sha256},
    };
    if (json.size > LK_APPEND_COMMAND_BYTES_MAX) {
        return invalid(err, "the command is longer than 64 KiB");
    }
    lk_rc rc = lk_json_read(json, fields, sizeof fields / sizeof fields[0], arena, err);
    if (rc != LK_OK) {
        err->rc = LK_E_INVALID_APPEND;
        return LK_E_INVALID_APPEND;
    }
    if (version != 1) {
        return invalid(err, "the command's version must be 1");
    }
    rc = lk_table_ref_check(out->table, err);
    if (rc == LK_OK) {
        rc = lk_operation_id_parse(out->operation_id, arena, &out->operation_id, err);
    }
    return rc == LK_OK ? lk_payload_digest_check(out->payload_sha256, err) : rc;
}

/* -- the server's half --------------------------------------------------------------------------------- */
typedef struct held { /* batches already received, streamed once more */
    lk_batches         base;
    struct ArrowArray *arrays;
    size_t             count, capacity, next;
} held;

static lk_rc held_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    (void)err;
    held *self = (held *)batches;
    *out = (struct ArrowArray){0};
    if (self->next < self->count) {
        lk_array_move(&self->arrays[self->next++], out);
    }
    return LK_OK;
}

static void held_deinit(held *self)
{
    for (size_t i = 0; i < self->count; i++) {
        lk_array_release(&self->arrays[i]);
    }
    free(self->arrays);
    lk_schema_release(&self->base.schema);
}

static void hold(held *self, struct ArrowArray *batch)
{
    if (self->count == self->capacity) {
        self->capacity = self->capacity > 0 ? self->capacity * 2 : 16;
        self->arrays = realloc(self->arrays, self->capacity * sizeof *self->arrays);
        LK_ASSERT(self->arrays != NULL);
    }
    lk_array_move(batch, &self->arrays[self->count++]);
}

static lk_rc receive_all(lk_flight_reader *reader, held *out, lk_err *err)
{
    lk_batches *rows = NULL;
    lk_rc       rc = lk_flight_reader_batches(reader, &rows, err);
    if (rc == LK_OK) {
        rc = lk_schema_copy(&rows->schema, &out->base.schema, err);
    }
    bool more = true;
    while (rc == LK_OK && more) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, err);
        more = batch.release != NULL;
        if (rc == LK_OK && more) {
            hold(out, &batch);
        }
    }
    lk_batches_close(rows);
    if (rc == LK_OK && out->count == 0) {
        rc = invalid(err, "the stream holds no rows");
    }
    return rc;
}

static lk_rc check_digest(lk_flight_reader *reader, const lk_append_command *command, lk_err *err)
{
    char digest[LK_SHA256_HEX_SIZE + 1];
    lk_flight_reader_digest(reader, digest);
    if (lk_bytes_equal(lk_bytes_of(digest), command->payload_sha256)) {
        return LK_OK;
    }
    return lk_fail(err, LK_E_DIGEST_MISMATCH, "payload has %s", digest);
}

static lk_rc reply(lk_grpc_call *call, uint64_t version, lk_err *err)
{
    lk_buf   message = {0};
    lk_bytes text = lk_arena_format(lk_grpc_call_arena(call), "%" PRIu64, version);
    lk_flight_put_result_write(&(lk_flight_put_result){text}, &message);
    lk_rc rc = lk_grpc_call_write_bytes(call, lk_buf_view(&message), err);
    lk_buf_deinit(&message);
    return rc;
}

lk_rc lk_append_serve(lk_authority *authority, const lk_principal *who, const lk_append_command *command,
    lk_grpc_call *call, lk_flight_reader *reader, uint64_t bytes_max, bool verified, lk_err *err)
{
    held     rows = {.base = {.next = held_next}};
    uint64_t version = 0;
    lk_flight_reader_restrict(reader, bytes_max, true);
    lk_grpc_call_lower_deadline(call, lk_clock_monotonic_ms(lk_clock_real()) + LK_PUT_TOTAL_MS);
    lk_rc rc = receive_all(reader, &rows, err);
    if (rc == LK_OK && !verified) {
        rc = check_digest(reader, command, err);
    }
    if (rc == LK_OK) {
        rc = authority->ops->append(
            authority, who, command, &rows.base, lk_grpc_call_cancel(call), &version, err);
    }
    held_deinit(&rows);
    return rc == LK_OK ? reply(call, version, err) : rc;
}
