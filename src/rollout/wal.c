/* wal.c - see wal.h. */
#include "rollout/wal.h"

#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "rollout/generation.h"
#include "rollout/shard.h"

#include <inttypes.h>
#include <stdio.h>

#define EPOCH_KEY "writer_epoch"

enum { ENTRY_KEPT_MAX = 8 * 1024 * 1024 }; /* memory for larger entries is given back */

/* -- writing ----------------------------------------------------------------------------------------------------- */

/* The schema with this epoch for all its metadata. */
static lk_rc stamp(const struct ArrowSchema *schema, uint64_t epoch, struct ArrowSchema *out, lk_err *err)
{
    char               text[24];
    struct ArrowBuffer metadata = {0};
    lk_rc              rc = lk_schema_copy(schema, out, err);
    if (rc != LK_OK) {
        return rc;
    }
    (void)snprintf(text, sizeof text, "%" PRIu64, epoch);
    LK_ASSERT(ArrowMetadataBuilderInit(&metadata, NULL) == NANOARROW_OK &&
              ArrowMetadataBuilderAppend(&metadata, ArrowCharView(EPOCH_KEY), ArrowCharView(text)) ==
                  NANOARROW_OK &&
              ArrowSchemaSetMetadata(out, (const char *)metadata.data) == NANOARROW_OK);
    ArrowBufferReset(&metadata);
    return LK_OK;
}

void lk_wal_form_deinit(lk_wal_form *form)
{
    lk_schema_release(&form->schema);
    lk_ipc_encoder_free(form->encoder);
    lk_buf_deinit(&form->head);
    lk_buf_deinit(&form->entry);
    *form = (lk_wal_form){0};
}

void lk_wal_form_rest(lk_wal_form *form)
{
    if (form->entry.size > ENTRY_KEPT_MAX) {
        lk_buf_deinit(&form->entry);
    }
}

static lk_rc make_form(lk_wal_form *form, const struct ArrowSchema *schema, uint64_t epoch, lk_err *err)
{
    struct ArrowSchema stamped = {0};
    if (form->encoder != NULL && form->epoch == epoch && lk_generation_same_columns(&form->schema, schema)) {
        return LK_OK;
    }
    lk_wal_form_deinit(form);
    lk_rc rc = lk_schema_copy(schema, &form->schema, err);
    if (rc == LK_OK) {
        rc = stamp(schema, epoch, &stamped, err);
    }
    if (rc == LK_OK) {
        rc = lk_ipc_schema_encode(&stamped, LK_IPC_ENCAPSULATED, &form->head, err);
    }
    if (rc == LK_OK) {
        rc = lk_ipc_encoder_new(&stamped, &form->encoder, err);
    }
    form->epoch = epoch;
    lk_schema_release(&stamped);
    return rc;
}

static void put_message(const lk_ipc_message *message, lk_buf *out)
{
    static const char zeros[64] = {0};
    lk_ipc_frame(message->header, out);
    lk_buf_reserve(out, message->body_size + 8); /* and the end */
    for (size_t i = 0; i < message->segment_count; i++) {
        lk_buf_append(out, message->segments[i].data, message->segments[i].size);
        lk_buf_append(out, zeros, message->segments[i].padding);
    }
}

static lk_rc put_batch(lk_wal_form *form, lk_shared_array *batch, lk_err *err)
{
    lk_ipc_message *messages = NULL;
    size_t          count = 0;
    lk_rc           rc = lk_ipc_encode(form->encoder, batch, &messages, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        put_message(&messages[i], &form->entry);
    }
    lk_ipc_messages_free(messages, count);
    return rc;
}

lk_rc lk_wal_encode(lk_wal_form *form, const struct ArrowSchema *schema, lk_shared_array *const *batches,
    size_t count, uint64_t epoch, lk_bytes *out, lk_err *err)
{
    static const unsigned char end[8] = {0xFF, 0xFF, 0xFF, 0xFF}; /* continuation, and nothing */
    lk_rc                      rc = make_form(form, schema, epoch, err);
    lk_buf_clear(&form->entry);
    lk_buf_append_bytes(&form->entry, lk_buf_view(&form->head));
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = put_batch(form, batches[i], err);
    }
    lk_buf_append(&form->entry, end, sizeof end);
    if (form->encoder != NULL) {
        lk_ipc_encoder_restart(form->encoder); /* it keeps no batch */
    }
    *out = lk_buf_view(&form->entry);
    return rc;
}

static lk_bytes entry_key(lk_uuid shard, uint64_t position, lk_arena *arena)
{
    char digits[LK_SHARD_POSITION_DIGITS + 1];
    lk_shard_position_format(position, digits);
    return lk_shard_key(shard, lk_arena_format(arena, "wal/%s.arrow", digits), arena);
}

lk_rc lk_wal_put(
    lk_store *store, lk_uuid shard, uint64_t position, lk_bytes entry, bool *created, lk_err *err)
{
    lk_arena arena = {0};
    lk_rc    rc = lk_store_put_if_absent(store, entry_key(shard, position, &arena), entry, created, err);
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_wal_stage(
    lk_store *store, lk_uuid shard, uint64_t position, lk_bytes entry, lk_store_staged **out, lk_err *err)
{
    lk_arena arena = {0};
    lk_rc    rc = lk_store_stage(store, entry_key(shard, position, &arena), entry, out, err);
    lk_arena_close(&arena);
    return rc;
}

/* -- reading ----------------------------------------------------------------------------------------------------- */

static lk_rc open_entry(lk_bytes bytes, lk_wal_entry *out, lk_err *err)
{
    lk_batches *batches = NULL;
    lk_bytes    text;
    lk_rc       rc = lk_ipc_open(lk_ipc_source_bytes(bytes), NULL, &batches, err);
    if (rc != LK_OK) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "it is no Arrow stream");
    }
    if (!lk_schema_metadata(&batches->schema, EPOCH_KEY, &text) || text.size == 0 || text.size > 19) {
        lk_batches_close(batches);
        return lk_fail(err, LK_E_CORRUPT_FILE, "it names no epoch");
    }
    out->epoch = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            lk_batches_close(batches);
            return lk_fail(err, LK_E_CORRUPT_FILE, "its epoch is no number");
        }
        out->epoch = out->epoch * 10 + (uint64_t)(text.data[i] - '0');
    }
    if (batches->schema.n_children == 0) { /* the empty schema of a fence */
        lk_batches_close(batches);
        batches = NULL;
    }
    out->batches = batches;
    return LK_OK;
}

lk_rc lk_wal_read(lk_store *store, lk_uuid shard, uint64_t position, lk_arena *arena, lk_wal_entry *out,
    bool *found, lk_err *err)
{
    lk_bytes key = entry_key(shard, position, arena), bytes = {0};
    *out = (lk_wal_entry){0};
    lk_rc rc = lk_store_load_if_there(store, key, LK_WAL_ENTRY_BYTES_MAX, arena, &bytes, found, err);
    if (rc == LK_OK && *found) {
        rc = open_entry(bytes, out, err);
    }
    if (rc != LK_OK) {
        lk_context(err, "%.*s", LK_FMT(key));
    }
    return rc;
}
