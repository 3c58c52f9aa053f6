/* ingest.c - see ingest.h. */
#include "query/ingest.h"

#include "arrow/digest.h"
#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "base/hash.h"
#include "base/limits.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct ingestion {
    lk_authority       *authority;
    const lk_principal *who;
    const lk_ingest    *ingest;
    lk_batches         *source;
    lk_uuid             id;
    lk_shared_array    *batch;  /* the input batch being cut */
    int64_t             offset; /* its first row that is not yet taken */
    bool                ended;
    lk_ingested        *out;
} ingestion;

static lk_uuid operation_id(lk_uuid id, uint64_t number)
{
    enum { TIME_AND_VERSION = 6 };
    if (number == 0) {
        return id;
    }
    uint8_t text[16 + 8], digest[LK_SHA256_SIZE];
    memcpy(text, id.bytes, 16);
    lk_store_u64(text + 16, number);
    lk_sha256_of((lk_bytes){(const char *)text, sizeof text}, digest);
    lk_uuid out = id;
    memcpy(out.bytes + TIME_AND_VERSION, digest, 16 - TIME_AND_VERSION);
    out.bytes[6] = (uint8_t)((out.bytes[6] & 0x0F) | 0x70); /* version 7 */
    out.bytes[8] = (uint8_t)((out.bytes[8] & 0x3F) | 0x80); /* RFC 9562 variant */
    return out;
}

static lk_rc commit(ingestion *in, struct ArrowArray *rows, lk_err *err)
{
    char               id[LK_UUID_TEXT_SIZE + 1], digest[LK_SHA256_HEX_SIZE + 1];
    uint64_t           version = 0, count = (uint64_t)rows->length;
    struct ArrowSchema schema = {0};
    struct ArrowArray  slice = {0};
    lk_batches        *stream = NULL;
    lk_shared_array   *shared = lk_array_share(rows);

    lk_uuid_format(operation_id(in->id, in->out->operations), id);
    lk_rc rc = lk_payload_digest(&in->source->schema, &shared, 1, digest, err);
    if (rc == LK_OK) {
        rc = lk_schema_copy(&in->source->schema, &schema, err);
    }
    if (rc == LK_OK) {
        const lk_append_command command = {
            in->ingest->table, {id, LK_UUID_TEXT_SIZE}, {digest, LK_SHA256_HEX_SIZE}};
        lk_shared_array_slice(shared, 0, (int64_t)count, &slice);
        stream = lk_batches_of(&schema, &slice, 1);
        rc = in->authority->ops->append(
            in->authority, in->who, &command, stream, in->ingest->cancel, &version, err);
    }
    if (rc == LK_OK) {
        in->out->operations++;
        in->out->rows += count;
        if (in->ingest->progress != NULL) {
            in->ingest->progress(in->ingest->progress_context, in->out->rows);
        }
    }
    lk_batches_close(stream);
    lk_shared_array_unref(shared);
    return rc;
}

/* Makes in->batch hold a row that is not yet taken, or sets ended. */
static lk_rc refill(ingestion *in, lk_err *err)
{
    while (!in->ended && (in->batch == NULL || in->offset == lk_shared_array_get(in->batch)->length)) {
        struct ArrowArray next = {0};
        lk_rc             rc = lk_cancel_check(in->ingest->cancel, err);
        if (rc == LK_OK) {
            rc = lk_batches_next(in->source, &next, err);
        }
        if (rc != LK_OK) {
            return rc;
        }
        lk_shared_array_unref(in->batch);
        in->batch = NULL;
        in->offset = 0;
        in->ended = next.release == NULL;
        if (!in->ended) {
            in->batch = lk_array_share(&next);
        }
    }
    return LK_OK;
}

static uint64_t bytes_of_next(const ingestion *in, int64_t rows)
{
    return lk_array_range_bytes(&in->source->schema, lk_shared_array_get(in->batch), in->offset, rows);
}

/* How many of the batch's next rows join an operation that has `rows` rows of `bytes`; the first always does. */
static int64_t rows_that_fit(const ingestion *in, int64_t rows, uint64_t bytes)
{
    int64_t  left = lk_shared_array_get(in->batch)->length - in->offset, room = LK_APPEND_ROWS_MAX - rows;
    int64_t  fits = 0, least_not = (left < room ? left : room) + 1;
    uint64_t bytes_left = bytes < LK_INGEST_OPERATION_BYTES ? LK_INGEST_OPERATION_BYTES - bytes : 0;
    int64_t  try = least_not - 1;
    while (fits + 1 < least_not) { /* fits do, least_not do not; all of them are tried first */
        if (bytes_of_next(in, try) <= bytes_left) {
            fits = try;
        } else {
            least_not = try;
        }
        try = fits + (least_not - fits) / 2;
    }
    return rows == 0 && fits == 0 ? 1 : fits;
}

enum { PIECES_MAX = 4096 };

/* Collects slices up to one operation's bounds. *count = 0 at the end of the stream. */
static lk_rc collect(ingestion *in, struct ArrowArray *pieces, size_t *count, lk_err *err)
{
    int64_t  rows = 0;
    uint64_t bytes = 0;
    *count = 0;
    while (*count < PIECES_MAX && rows < LK_APPEND_ROWS_MAX) {
        lk_rc rc = refill(in, err);
        if (rc != LK_OK || in->ended) {
            return rc;
        }
        int64_t fit = rows_that_fit(in, rows, bytes);
        if (fit == 0) {
            return LK_OK;
        }
        bytes += bytes_of_next(in, fit);
        lk_shared_array_slice(in->batch, in->offset, fit, &pieces[(*count)++]);
        in->offset += fit;
        rows += fit;
    }
    return LK_OK;
}

static lk_rc join_and_commit(ingestion *in, struct ArrowArray *pieces, size_t count, lk_err *err)
{
    if (count == 1) {
        return commit(in, &pieces[0], err);
    }
    struct ArrowArray whole = {0};
    lk_rc             rc = lk_array_concat(&in->source->schema, pieces, count, &whole, err);
    if (rc == LK_OK) {
        rc = commit(in, &whole, err);
    }
    return rc;
}

static lk_rc run_operations(ingestion *in, lk_err *err)
{
    struct ArrowArray *pieces = calloc(PIECES_MAX, sizeof *pieces);
    LK_ASSERT(pieces != NULL);
    lk_rc  rc = LK_OK;
    size_t count = 1;
    while (rc == LK_OK && count > 0) {
        rc = collect(in, pieces, &count, err);
        if (rc == LK_OK && count > 0) {
            rc = join_and_commit(in, pieces, count, err);
        }
        for (size_t i = 0; i < count; i++) {
            lk_array_release(&pieces[i]);
        }
    }
    free(pieces);
    return rc;
}

static lk_rc check_schema(ingestion *in, const lk_registration *table, lk_err *err)
{
    struct ArrowSchema expected = {0};
    lk_rc              rc = lk_ipc_schema_decode(table->schema_ipc, &expected, err);
    if (rc == LK_OK) {
        rc = lk_schema_compare(&expected, &in->source->schema, LK_SCHEMA_APPEND, err);
    }
    lk_schema_release(&expected);
    return rc;
}

/* Makes sure that the table is there, as the ingest's mode says, and that the rows fit it. */
static lk_rc open_table(ingestion *in, lk_err *err)
{
    lk_authority    *a = in->authority;
    const lk_ingest *ingest = in->ingest;
    lk_arena         arena = {0};
    lk_registration  now = {0};
    lk_rc            rc = a->ops->resolve(a, in->who, ingest->table, &arena, &now, err);
    if (rc == LK_OK && ingest->if_exists == LK_IF_EXISTS_FAIL) {
        rc = lk_fail(err, LK_E_TABLE_EXISTS, "ingest creates a table that exists");
        lk_detail(err, "ingest with mode append or create_append to add rows to it");
    } else if (rc == LK_OK) {
        rc = check_schema(in, &now, err);
    } else if (rc == LK_E_TABLE_NOT_FOUND && ingest->if_absent == LK_IF_ABSENT_CREATE) {
        rc = a->ops->create_table(a, in->who, ingest->table, &in->source->schema, err);
        if (rc == LK_E_TABLE_EXISTS && ingest->if_exists == LK_IF_EXISTS_APPEND) { /* somebody was quicker */
            rc = a->ops->resolve(a, in->who, ingest->table, &arena, &now, err);
            rc = rc == LK_OK ? check_schema(in, &now, err) : rc;
        }
    }
    lk_arena_close(&arena);
    return rc;
}

static void report_progress(const ingestion *in, lk_err *err)
{
    char before[LK_ERR_DETAIL_BYTES];
    memcpy(before, err->detail, sizeof before);
    lk_detail(err,
        "%.120s%s%" PRIu64
        " rows are committed; repeat with lake.operation_id %s to go on without duplicates",
        before, before[0] != '\0' ? "; " : "", in->out->rows, in->out->operation_id);
}

lk_rc lk_ingest_run(lk_authority *authority, const lk_principal *who, const lk_ingest *ingest,
    lk_batches *rows, lk_ingested *out, lk_err *err)
{
    ingestion in = {.authority = authority, .who = who, .ingest = ingest, .source = rows, .out = out};
    lk_arena  arena = {0};
    lk_bytes  id = {0};
    *out = (lk_ingested){0};

    lk_rc rc = lk_table_ref_check(ingest->table, err);
    if (rc == LK_OK && ingest->operation_id.size > 0) {
        rc = lk_operation_id_parse(ingest->operation_id, &arena, &id, err);
        LK_ASSERT(rc != LK_OK || lk_uuid_parse(id, &in.id));
    } else if (rc == LK_OK) {
        in.id = lk_uuid_v7(lk_clock_real(), lk_random_os());
    }
    if (rc == LK_OK) {
        lk_uuid_format(in.id, out->operation_id);
        rc = open_table(&in, err);
    }
    if (rc == LK_OK) {
        rc = run_operations(&in, err);
        if (rc != LK_OK) {
            report_progress(&in, err);
        }
    }
    lk_shared_array_unref(in.batch);
    lk_arena_close(&arena);
    return rc;
}
