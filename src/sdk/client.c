/* client.c - see client.h: GetFlightInfo, then DoGet of each endpoint in turn. */
#include "sdk/client.h"

#include "flight/pb_flight.h"
#include "flight/stream.h"

#include <stdlib.h>

typedef struct result {
    lk_batches        base;
    lk_grpc_channel  *channel;
    lk_cancel        *cancel;
    lk_arena          arena; /* the FlightInfo */
    lk_flight_info    info;
    size_t            endpoint; /* the next one to open */
    lk_grpc_rpc      *rpc;
    lk_flight_reader *reader;
    lk_batches       *batches;
} result;

static void close_endpoint(result *self)
{
    lk_batches_close(self->batches);
    lk_flight_reader_close(self->reader);
    lk_grpc_rpc_close(self->rpc);
    self->batches = NULL;
    self->reader = NULL;
    self->rpc = NULL;
}

static lk_rc open_endpoint(result *self, lk_err *err)
{
    const lk_grpc_rpc_options      options = {.cancel = self->cancel};
    const lk_flight_reader_options reader_options = {.decode_dictionaries = true};
    lk_buf                         request = {0};
    bool                           present = false;
    lk_flight_ticket_write(&self->info.endpoints[self->endpoint++].ticket, &request);
    lk_rc rc = lk_grpc_rpc_open(&self->rpc, self->channel, LK_FLIGHT_METHOD("DoGet"), &options, err);
    if (rc == LK_OK) {
        rc = lk_grpc_rpc_write_bytes(self->rpc, lk_buf_view(&request), err);
    }
    if (rc == LK_OK) {
        rc = lk_grpc_rpc_writes_done(self->rpc, err);
    }
    if (rc == LK_OK) {
        rc =
            lk_flight_reader_open(&self->reader, lk_flight_of_rpc(self->rpc), &reader_options, &present, err);
    }
    if (rc == LK_OK && !present) {
        rc = lk_fail(err, LK_E_INVALID_IPC, "the server sent no schema");
    }
    if (rc == LK_OK) {
        rc = lk_flight_reader_batches(self->reader, &self->batches, err);
    }
    lk_buf_deinit(&request);
    return rc;
}

static lk_rc result_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    result *self = (result *)batches;
    for (;;) {
        lk_rc rc = lk_batches_next(self->batches, out, err);
        if (rc != LK_OK || out->release != NULL) {
            return rc;
        }
        rc = lk_grpc_rpc_finish(self->rpc, err);
        if (rc != LK_OK || self->endpoint == self->info.endpoint_count) {
            return rc;
        }
        close_endpoint(self);
        rc = open_endpoint(self, err);
        if (rc != LK_OK) {
            return rc;
        }
    }
}

static void result_close(lk_batches *batches)
{
    result *self = (result *)batches;
    close_endpoint(self);
    lk_schema_release(&self->base.schema);
    lk_arena_close(&self->arena);
    free(self);
}

static lk_rc plan(result *self, lk_bytes sql, lk_err *err)
{
    const lk_grpc_rpc_options options = {.cancel = self->cancel};
    lk_flight_sql_command     command = {.kind = LK_FLIGHT_SQL_STATEMENT_QUERY, .statement = {.query = sql}};
    lk_buf                    any = {0}, request = {0};
    lk_bytes                  reply = {0};
    lk_flight_sql_command_write(&command, &any);
    lk_flight_descriptor descriptor = {.type = LK_FLIGHT_DESCRIPTOR_CMD, .cmd = lk_buf_view(&any)};
    lk_flight_descriptor_write(&descriptor, &request);
    lk_rc rc = lk_grpc_unary(self->channel, LK_FLIGHT_METHOD("GetFlightInfo"), &options,
        lk_buf_view(&request), &self->arena, &reply, err);
    if (rc == LK_OK) {
        rc = lk_flight_info_read(reply, &self->arena, &self->info, err);
    }
    if (rc == LK_OK && self->info.endpoint_count == 0) {
        rc = lk_fail(err, LK_E_INTERNAL, "the server returned no endpoint");
    }
    lk_buf_deinit(&any);
    lk_buf_deinit(&request);
    return rc;
}

lk_rc lk_client_query(
    lk_grpc_channel *channel, lk_bytes sql, lk_cancel *cancel, lk_batches **out, lk_err *err)
{
    result *self = calloc(1, sizeof *self);
    LK_ASSERT(self != NULL);
    self->base = (lk_batches){.next = result_next, .close = result_close};
    self->channel = channel;
    self->cancel = cancel;
    lk_rc rc = plan(self, sql, err);
    if (rc == LK_OK) {
        rc = open_endpoint(self, err);
    }
    if (rc == LK_OK) {
        rc = lk_schema_copy(&self->batches->schema, &self->base.schema, err);
    }
    if (rc != LK_OK) {
        result_close(&self->base);
        return rc;
    }
    *out = &self->base;
    return LK_OK;
}
