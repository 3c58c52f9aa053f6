/*
 * stream_test.c - batches over a loopback call, both ways; pyarrow's bytes are tests/e2e's business. (LK_TSAN)
 */
#include "flight/stream.h"

#include "arrow/digest.h"
#include "arrow/schema.h"
#include "base/clock.h"
#include "base/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* -- a source of rows: n batches of m rows, column a counts up, column b is text -- */

typedef struct source {
    lk_batches base;
    int64_t    batch_rows, next_row;
    int        left, fail_after, delay_ms;
} source;

static atomic_int arrays_alive, pulled;

static void counted_release(struct ArrowArray *array)
{
    struct ArrowArray *inner = array->private_data;
    ArrowArrayRelease(inner);
    free(inner);
    array->release = NULL;
    atomic_fetch_sub(&arrays_alive, 1);
}

static void make_batch(const struct ArrowSchema *schema, int64_t first, int64_t rows, struct ArrowArray *out)
{
    struct ArrowArray *inner = calloc(1, sizeof *inner);
    assert_int_equal(ArrowArrayInitFromSchema(inner, schema, NULL), NANOARROW_OK);
    assert_int_equal(ArrowArrayStartAppending(inner), NANOARROW_OK);
    for (int64_t i = 0; i < rows; i++) {
        struct ArrowStringView text = {"row", 3};
        assert_int_equal(ArrowArrayAppendInt(inner->children[0], first + i), NANOARROW_OK);
        assert_int_equal((first + i) % 7 == 0 ? ArrowArrayAppendNull(inner->children[1], 1)
                                              : ArrowArrayAppendString(inner->children[1], text),
            NANOARROW_OK);
        assert_int_equal(ArrowArrayFinishElement(inner), NANOARROW_OK);
    }
    assert_int_equal(ArrowArrayFinishBuildingDefault(inner, NULL), NANOARROW_OK);
    *out = *inner;
    out->release = counted_release;
    out->private_data = inner;
    atomic_fetch_add(&arrays_alive, 1);
}

static lk_rc source_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    source *self = (source *)batches;
    *out = (struct ArrowArray){0};
    if (self->fail_after-- == 0) {
        return lk_fail(err, LK_E_QUERY_MEMORY, "as the test wanted");
    }
    if (self->left-- <= 0) {
        return LK_OK;
    }
    atomic_fetch_add(&pulled, 1);
    if (self->delay_ms > 0) {
        lk_clock_sleep_ms(lk_clock_real(), (uint64_t)self->delay_ms);
    }
    make_batch(&self->base.schema, self->next_row, self->batch_rows, out);
    self->next_row += self->batch_rows;
    return LK_OK;
}

static void schema_of_test(struct ArrowSchema *out)
{
    struct ArrowSchema columns[2] = {0};
    lk_err             err = {0};
    assert_int_equal(lk_column_parse(LK_LITERAL("a:int64"), &columns[0], &err), LK_OK);
    assert_int_equal(lk_column_parse(LK_LITERAL("b:utf8?"), &columns[1], &err), LK_OK);
    lk_schema_of_columns(columns, 2, out);
}

static source source_of(int batches, int64_t rows)
{
    source self = {.base.next = source_next, .batch_rows = rows, .left = batches, .fail_after = -1};
    schema_of_test(&self.base.schema);
    return self;
}

/* -- handlers -- */

typedef struct plan { /* what the next Get sends, and what the next Put told */
    int                      batches, fail_after, delay_ms;
    int64_t                  rows;
    lk_flight_send_options   send;
    lk_flight_sent           sent;
    lk_flight_reader_options read;
    uint64_t                 limit;
    lk_rc                    put_rc;
    uint64_t                 put_rows;
    char                     digest[LK_SHA256_HEX_SIZE + 1];
    char                     command[64];
    atomic_int               done, set; /* the others are set before `set` and read after `done` */
} plan;

static plan the_plan;

/* The test and the handler of its call see each other's writes; the network is no synchronisation in C. */
static void set_plan(void)
{
    atomic_store(&the_plan.done, 0);
    atomic_store(&the_plan.set, 1);
}

static void wait_plan(void)
{
    for (int i = 0; i < 1000 && atomic_load(&the_plan.done) == 0; i++) {
        lk_clock_sleep_ms(lk_clock_real(), 2);
    }
    assert_int_equal(atomic_load(&the_plan.done), 1);
}

static lk_rc get(lk_grpc_call *call, void *context, lk_err *err)
{
    LK_ASSERT(atomic_load(&the_plan.set) == 1);
    lk_bytes request;
    source   rows = source_of(the_plan.batches, the_plan.rows);
    rows.fail_after = the_plan.fail_after;
    rows.delay_ms = the_plan.delay_ms;
    lk_rc rc = lk_grpc_call_request(call, &request, err);
    if (rc == LK_OK) {
        rc = lk_flight_send(lk_flight_of_call(call), &rows.base, &the_plan.send, &the_plan.sent, err);
    }
    lk_schema_release(&rows.base.schema);
    atomic_store(&the_plan.done, 1);
    return rc;
}

static lk_rc read_rows(lk_flight_reader *reader, lk_err *err)
{
    lk_batches       *rows = NULL;
    struct ArrowArray batch = {0};
    lk_rc             rc = lk_flight_reader_batches(reader, &rows, err);
    bool              more = rc == LK_OK;
    while (more) {
        rc = lk_batches_next(rows, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        lk_array_release(&batch);
    }
    lk_batches_close(rows);
    return rc;
}

static lk_rc put(lk_grpc_call *call, void *context, lk_err *err)
{
    LK_ASSERT(atomic_load(&the_plan.set) == 1);
    lk_flight_reader *reader = NULL;
    bool              present = false;
    lk_rc rc = lk_flight_reader_open(&reader, lk_flight_of_call(call), &the_plan.read, &present, err);
    if (rc == LK_OK && present) {
        const lk_flight_descriptor *descriptor = lk_flight_reader_descriptor(reader);
        if (descriptor != NULL) {
            (void)snprintf(the_plan.command, sizeof the_plan.command, "%.*s", LK_FMT(descriptor->cmd));
        }
        lk_flight_reader_restrict(reader, the_plan.limit, true);
        rc = read_rows(reader, err);
        the_plan.put_rows = lk_flight_reader_rows(reader);
        if (rc == LK_OK && the_plan.read.digest) {
            lk_flight_reader_digest(reader, the_plan.digest);
        }
    }
    lk_flight_reader_close(reader);
    the_plan.put_rc = rc;
    atomic_store(&the_plan.done, 1);
    return rc;
}

static const lk_grpc_method methods[] = {
    {LK_FLIGHT_METHOD("DoGet"), LK_GRPC_SERVER_STREAM, get, NULL, 0, 0, false},
    {LK_FLIGHT_METHOD("DoPut"), LK_GRPC_BIDI, put, NULL, 0, 0, false},
};

/* -- fixture -- */

static lk_grpc_server  *server;
static lk_grpc_channel *channel;
static lk_err           err;

static int open_both(void **state)
{
    lk_grpc_server_options options = {.address = "127.0.0.1:0",
        .methods = methods,
        .method_count = 2,
        .worker_count = 2,
        .message_bytes_max = LK_GRPC_PUT_MESSAGE_BYTES_MAX};
    the_plan = (plan){.fail_after = -1};
    atomic_store(&pulled, 0);
    assert_int_equal(lk_grpc_server_open(&server, &options, &err), LK_OK);
    lk_grpc_channel_options to = {.endpoint = lk_grpc_server_address(server)};
    assert_int_equal(lk_grpc_channel_open(&channel, &to, &err), LK_OK);
    return 0;
}

static int close_both(void **state)
{
    lk_grpc_channel_close(channel);
    lk_grpc_server_close(server);
    assert_int_equal(atomic_load(&arrays_alive), 0); /* nothing is kept, nothing is released twice */
    return 0;
}

typedef struct counts {
    int64_t rows, batches, nulls, largest;
    bool    ordered;
} counts;

static void look(const struct ArrowArray *batch, counts *c)
{
    const int64_t *a = (const int64_t *)batch->children[0]->buffers[1] + batch->children[0]->offset;
    for (int64_t i = 0; i < batch->length; i++) {
        c->ordered = c->ordered && a[i] == c->rows + i;
    }
    c->nulls += batch->children[1]->null_count;
    c->rows += batch->length;
    c->batches++;
    c->largest = batch->length > c->largest ? batch->length : c->largest;
}

static lk_rc fetch(counts *c)
{
    lk_grpc_rpc             *rpc = NULL;
    lk_flight_reader        *reader = NULL;
    lk_batches              *batches = NULL;
    struct ArrowArray        batch = {0};
    bool                     present = false;
    lk_flight_reader_options options = {0};
    *c = (counts){.ordered = true};
    set_plan();
    assert_int_equal(lk_grpc_rpc_open(&rpc, channel, LK_FLIGHT_METHOD("DoGet"), NULL, &err), LK_OK);
    assert_int_equal(lk_grpc_rpc_write_bytes(rpc, LK_LITERAL(""), &err), LK_OK);
    assert_int_equal(lk_grpc_rpc_writes_done(rpc, &err), LK_OK);
    lk_rc rc = lk_flight_reader_open(&reader, lk_flight_of_rpc(rpc), &options, &present, &err);
    rc = rc == LK_OK ? lk_flight_reader_batches(reader, &batches, &err) : rc;
    bool more = rc == LK_OK;
    while (more) {
        rc = lk_batches_next(batches, &batch, &err);
        more = rc == LK_OK && batch.release != NULL;
        if (more) {
            look(&batch, c);
        }
        lk_array_release(&batch);
    }
    lk_batches_close(batches);
    lk_flight_reader_close(reader);
    lk_grpc_rpc_close(rpc);
    wait_plan();
    return rc;
}

/* -- tests -- */

static void many_small_batches_arrive_in_order_as_few_large_ones(void **state)
{
    counts c;
    the_plan.batches = 400;
    the_plan.rows = 2048;
    assert_int_equal(fetch(&c), LK_OK);
    assert_int_equal(c.rows, 400 * 2048);
    assert_true(c.ordered);
    assert_int_equal(c.nulls, (400 * 2048 + 6) / 7);
    assert_true(c.batches < 200); /* 32 of these make 64 Ki rows; a slow source is not waited for */
    assert_true(c.largest <= LK_STREAM_BATCH_ROWS);
    assert_int_equal(the_plan.sent.rows, 400 * 2048);
    assert_int_equal(the_plan.sent.batches, c.batches);
}

static void a_huge_batch_is_cut(void **state)
{
    counts c;
    the_plan.batches = 1;
    the_plan.rows = 700001;
    assert_int_equal(fetch(&c), LK_OK);
    assert_int_equal(c.rows, 700001);
    assert_true(c.ordered);
    assert_true(c.largest <= LK_STREAM_BATCH_ROWS);
    assert_int_equal(c.nulls, (700001 + 6) / 7);
}

static void an_empty_result_is_one_schema_and_nothing_else(void **state)
{
    counts c;
    assert_int_equal(fetch(&c), LK_OK);
    assert_int_equal(c.batches, 0);
    the_plan.batches = 3; /* of no rows */
    assert_int_equal(fetch(&c), LK_OK);
    assert_int_equal(c.batches, 0);
}

static void the_first_batch_does_not_wait_for_the_second(void **state)
{
    lk_grpc_rpc    *rpc = NULL;
    lk_grpc_message message;
    bool            found = false;
    the_plan.batches = 2;
    the_plan.rows = 1;
    the_plan.delay_ms = 600;
    set_plan();
    assert_int_equal(lk_grpc_rpc_open(&rpc, channel, LK_FLIGHT_METHOD("DoGet"), NULL, &err), LK_OK);
    assert_int_equal(lk_grpc_rpc_write_bytes(rpc, LK_LITERAL(""), &err), LK_OK);
    assert_int_equal(lk_grpc_rpc_writes_done(rpc, &err), LK_OK);
    for (int i = 0; i < 2; i++) { /* schema, first batch */
        assert_int_equal(lk_grpc_rpc_read(rpc, &message, &found, &err), LK_OK);
        assert_true(found);
        lk_grpc_message_release(&message);
    }
    assert_int_equal(atomic_load(&the_plan.done), 0);
    assert_int_equal(lk_grpc_rpc_finish(rpc, &err), LK_OK);
    lk_grpc_rpc_close(rpc);
}

static void a_late_failure_comes_after_the_rows_before_it(void **state)
{
    counts c;
    the_plan.batches = 100;
    the_plan.rows = 100;
    the_plan.fail_after = 7;
    assert_int_equal(
        fetch(&c), LK_E_LIMIT); /* this server sends no lake.code, so only the gRPC code is known */
    assert_int_equal(c.rows, 700);
    assert_true(c.ordered);
    the_plan.fail_after = 1; /* before there is a second thread */
    assert_int_equal(fetch(&c), LK_E_LIMIT);
    assert_int_equal(c.rows, 100);
}

static void a_row_limit_stops_the_source(void **state)
{
    counts c;
    the_plan.batches = 100;
    the_plan.rows = 100;
    the_plan.send.row_limit = 250;
    assert_int_equal(fetch(&c), LK_OK);
    assert_int_equal(c.rows, 250);
    assert_int_equal(atomic_load(&pulled), 3);
}

static void a_reader_that_goes_away_stops_a_long_stream(void **state)
{
    lk_grpc_rpc    *rpc = NULL;
    lk_grpc_message message;
    bool            found = false;
    the_plan.batches = 1000000;
    the_plan.rows = 2048;
    set_plan();
    assert_int_equal(lk_grpc_rpc_open(&rpc, channel, LK_FLIGHT_METHOD("DoGet"), NULL, &err), LK_OK);
    assert_int_equal(lk_grpc_rpc_write_bytes(rpc, LK_LITERAL(""), &err), LK_OK);
    assert_int_equal(lk_grpc_rpc_writes_done(rpc, &err), LK_OK);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(lk_grpc_rpc_read(rpc, &message, &found, &err), LK_OK);
        lk_grpc_message_release(&message);
    }
    lk_grpc_rpc_close(rpc);
    wait_plan();
}

/* Puts batches with a descriptor; returns what the server said. */
static lk_rc send(int batches, int64_t rows, bool keep)
{
    lk_grpc_rpc           *rpc = NULL;
    source                 data = source_of(batches, rows);
    lk_flight_descriptor   descriptor = {.type = LK_FLIGHT_DESCRIPTOR_CMD, .cmd = LK_LITERAL("command")};
    lk_flight_send_options options = {.descriptor = &descriptor, .keep_batches = keep};
    set_plan();
    assert_int_equal(lk_grpc_rpc_open(&rpc, channel, LK_FLIGHT_METHOD("DoPut"), NULL, &err), LK_OK);
    lk_rc rc = lk_flight_send(lk_flight_of_rpc(rpc), &data.base, &options, NULL, &err);
    rc = rc == LK_OK ? lk_grpc_rpc_writes_done(rpc, &err) : rc;
    rc = rc == LK_OK ? lk_grpc_rpc_finish(rpc, &err) : rc;
    lk_grpc_rpc_close(rpc);
    lk_schema_release(&data.base.schema);
    wait_plan();
    return rc;
}

static void a_put_tells_descriptor_rows_and_the_digest_that_was_foretold(void **state)
{
    struct ArrowSchema schema;
    lk_shared_array   *arrays[3];
    char               digest[LK_SHA256_HEX_SIZE + 1];
    the_plan.read.digest = true;
    assert_int_equal(send(3, 1000, true), LK_OK);
    assert_string_equal(the_plan.command, "command");
    assert_int_equal(the_plan.put_rows, 3000);

    schema_of_test(&schema);
    for (int i = 0; i < 3; i++) {
        struct ArrowArray batch;
        make_batch(&schema, i * 1000, 1000, &batch);
        arrays[i] = lk_array_share(&batch);
    }
    assert_int_equal(lk_payload_digest(&schema, arrays, 3, digest, &err), LK_OK);
    assert_string_equal(digest, the_plan.digest);
    for (int i = 0; i < 3; i++) {
        lk_shared_array_unref(arrays[i]);
    }
    lk_schema_release(&schema);
}

static void a_put_over_its_limit_is_refused_as_it_comes(void **state)
{
    the_plan.limit = 100000;
    assert_int_equal(send(100, 1000, true), LK_E_LIMIT);
    assert_int_equal(the_plan.put_rc, LK_E_LIMIT);
    assert_true(the_plan.put_rows < 10000);
}

static void a_put_charges_its_bodies_to_the_budget(void **state)
{
    static lk_budget budget;
    lk_budget_init(&budget, "put", 4096, NULL);
    the_plan.read.budget = &budget;
    assert_int_equal(send(1, 1000, true), LK_E_LIMIT);
    assert_int_equal(atomic_load(&budget.used_bytes), 0);
    assert_int_equal(send(1, 10, true), LK_OK);
    assert_int_equal(atomic_load(&budget.used_bytes), 0);
}

/* Sends one raw FlightData and returns what the server made of it. */
static lk_rc send_raw(const lk_flight_data_head *head, lk_bytes body)
{
    lk_grpc_rpc *rpc = NULL;
    lk_buf       bytes = {0};
    lk_err       ignored = {0};
    lk_flight_data_head_write(head, &bytes);
    lk_buf_append_bytes(&bytes, body);
    set_plan();
    assert_int_equal(lk_grpc_rpc_open(&rpc, channel, LK_FLIGHT_METHOD("DoPut"), NULL, &err), LK_OK);
    if (lk_grpc_rpc_write_bytes(rpc, lk_buf_view(&bytes), &ignored) == LK_OK) {
        (void)(lk_grpc_rpc_writes_done(rpc, &ignored) == LK_OK);
    }
    (void)(lk_grpc_rpc_finish(rpc, &ignored) == LK_OK);
    lk_grpc_rpc_close(rpc);
    lk_buf_deinit(&bytes);
    wait_plan();
    return the_plan.put_rc;
}

static void hostile_messages_are_refused(void **state)
{
    struct ArrowSchema schema;
    lk_buf             header = {0};
    schema_of_test(&schema);
    assert_int_equal(lk_ipc_schema_encode(&schema, LK_IPC_BARE, &header, &err), LK_OK);
    lk_flight_data_head no_header = {.body_size = 3};
    assert_int_equal(send_raw(&no_header, LK_LITERAL("abc")), LK_E_INVALID_IPC);
    lk_flight_data_head junk = {.header = LK_LITERAL("not a flatbuffer")};
    assert_int_equal(send_raw(&junk, LK_LITERAL("")), LK_E_INVALID_IPC);
    lk_flight_data_head other_size = {.header = lk_buf_view(&header), .body_size = 8};
    assert_int_equal(send_raw(&other_size, LK_LITERAL("12345678")), LK_E_INVALID_IPC);
    lk_flight_data_head longer = {.header = lk_buf_view(&header), .body_size = 1000};
    assert_int_equal(send_raw(&longer, LK_LITERAL("short")), LK_E_INVALID_REQUEST);
    lk_flight_data_head nothing = {0};
    assert_int_equal(send_raw(&nothing, LK_LITERAL("")), LK_E_INVALID_IPC); /* no schema ever came */
    lk_buf_deinit(&header);
    lk_schema_release(&schema);
}

#define T(name) cmocka_unit_test_setup_teardown(name, open_both, close_both)

int main(void)
{
    lk_grpc_open();
    const struct CMUnitTest tests[] = {
        T(many_small_batches_arrive_in_order_as_few_large_ones),
        T(a_huge_batch_is_cut),
        T(an_empty_result_is_one_schema_and_nothing_else),
        T(the_first_batch_does_not_wait_for_the_second),
        T(a_late_failure_comes_after_the_rows_before_it),
        T(a_row_limit_stops_the_source),
        T(a_reader_that_goes_away_stops_a_long_stream),
        T(a_put_tells_descriptor_rows_and_the_digest_that_was_foretold),
        T(a_put_over_its_limit_is_refused_as_it_comes),
        T(a_put_charges_its_bodies_to_the_budget),
        T(hostile_messages_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lk_grpc_close();
    return failed;
}
