#ifndef LK_FLIGHT_STREAM_H
#define LK_FLIGHT_STREAM_H
/*
 * stream.h - batches over a call, both directions, on servers and clients.
 *
 * Sending: the schema first, then batches coalesced to LK_STREAM_BATCH_ROWS rows or LK_STREAM_BATCH_BYTES,
 * bodies as references to the batches' own buffers. While one message is sent the next batch is made.
 * Receiving: FlightData messages become batches; each body is moved once, into aligned memory; sizes are
 * counted as the bytes come, and the payload digest (arrow/digest) is computed on the way.
 *
 * Threads: confined. A long send pulls its batches on a helper thread (so the batches' next is called there).
 */
#include "arrow/batch.h"
#include "arrow/ipc.h"
#include "base/hash.h"
#include "base/thread.h"
#include "flight/pb_flight.h"
#include "net/grpc_client.h"
#include "net/grpc_server.h"

/* FlightData messages that come from no call: kept ones, and those of tests. */
typedef struct lk_flight_source lk_flight_source;
struct lk_flight_source {
    /* As lk_grpc_call_read; slices stay valid until the next read. */
    lk_rc (*read)(lk_flight_source *source, lk_grpc_message *out, bool *found, lk_err *err);
};

/* Either end of a call, or (to receive only) a source. One of them is set. */
typedef struct lk_flight_peer {
    lk_grpc_call     *call; /* server side */
    lk_grpc_rpc      *rpc;  /* client side */
    lk_flight_source *source;
} lk_flight_peer;

static inline lk_flight_peer lk_flight_of_call(lk_grpc_call *call)
{
    return (lk_flight_peer){.call = call};
}
static inline lk_flight_peer lk_flight_of_rpc(lk_grpc_rpc *rpc)
{
    return (lk_flight_peer){.rpc = rpc};
}
static inline lk_flight_peer lk_flight_of_source(lk_flight_source *source)
{
    return (lk_flight_peer){.source = source};
}

/* -- sending -- */

typedef struct lk_flight_send_options {     /* zero: every default */
    const lk_flight_descriptor *descriptor; /* on the first message (DoPut); NULL: none */
    const struct ArrowSchema   *schema;     /* sent instead of batches->schema: same types, other metadata */
    bool     keep_batches;                  /* one message a batch as it comes: no coalescing, no splitting */
    bool     inline_only;                   /* never pull on a helper thread */
    uint64_t row_limit;                     /* stop after so many rows; 0: no limit */
} lk_flight_send_options;

typedef struct lk_flight_sent {
    uint64_t rows, batches, bytes;
} lk_flight_sent;

/* Sends schema and batches to the end. batches is borrowed and consumed, not closed. A failing batch ends it
 * with that error after everything before it was sent. *sent (may be NULL) counts in every case. */
LK_MUST_CHECK lk_rc lk_flight_send(lk_flight_peer peer, lk_batches *batches,
    const lk_flight_send_options *options, lk_flight_sent *sent, lk_err *err);

/* -- receiving -- */

typedef struct lk_flight_reader lk_flight_reader;

typedef struct lk_flight_reader_options { /* zero: every default */
    uint64_t   stream_bytes_max;          /* sum of encoded message sizes; above: LK_E_LIMIT. 0: no limit */
    lk_budget *budget;                    /* bodies are charged to it; NULL: uncharged */
    bool       refuse_compressed;
    bool       decode_dictionaries;
    bool       digest;               /* compute the payload digest */
    bool       refuse_empty_batches; /* a batch of no rows is LK_E_INVALID_IPC */
} lk_flight_reader_options;

/* Reads the first message. *present = false: the peer ended without any (*out stays NULL). */
LK_MUST_CHECK lk_rc lk_flight_reader_open(lk_flight_reader **out, lk_flight_peer peer,
    const lk_flight_reader_options *options, bool *present, lk_err *err);

/* Narrows the options once the descriptor is known: bytes already received count too. Before the schema is read. */
void lk_flight_reader_restrict(lk_flight_reader *reader, uint64_t stream_bytes_max, bool refuse_compressed);

/* Sets the byte limit and whether compressed buffers are refused once the first message has told what this is; what
 * has come so far counts. Before the first batch is read. */
void lk_flight_reader_restrict(lk_flight_reader *reader, uint64_t stream_bytes_max, bool refuse_compressed);

/* Of the first message. Borrowed. */
const lk_flight_descriptor *lk_flight_reader_descriptor(const lk_flight_reader *reader);

/* Reads up to the schema, which stays the reader's. LK_E_INVALID_IPC when the stream has none. */
LK_MUST_CHECK lk_rc lk_flight_reader_schema(
    lk_flight_reader *reader, const struct ArrowSchema **schema, lk_err *err);

/* The batches, once; closing them leaves the reader open. Their schema is a copy. Reads up to the schema. */
LK_MUST_CHECK lk_rc lk_flight_reader_batches(lk_flight_reader *reader, lk_batches **out, lk_err *err);

/* Counts so far. */
uint64_t lk_flight_reader_rows(const lk_flight_reader *reader);
uint64_t lk_flight_reader_bytes(const lk_flight_reader *reader);

/* The digest of everything received; call once, after the last batch. Only with options.digest. */
void lk_flight_reader_digest(lk_flight_reader *reader, char hex[LK_SHA256_HEX_SIZE + 1]);

void lk_flight_reader_close(lk_flight_reader *reader); /* accepts NULL */

#endif
