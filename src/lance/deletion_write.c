/*
 * deletion_write.c - deletion files: few rows as an Arrow file, many as a Roaring bitmap in its portable form.
 */
#include "lance/deletion_write.h"

#include "arrow/ipc.h"
#include "arrow/schema.h"

#include <inttypes.h>
#include <roaring/roaring.h>

enum { ARRAY_ROWS_BELOW = 5000 }; /* as the reference decides */

/* -- as a bitmap --------------------------------------------------------------------------------------- */

static void encode_bitmap(const roaring_bitmap_t *rows, lk_buf *out)
{
    lk_buf_reserve(out, roaring_bitmap_portable_size_in_bytes(rows));
    out->size += roaring_bitmap_portable_serialize(rows, out->data + out->size);
}

/* -- as an Arrow file ----------------------------------------------------------------------------------- */

typedef struct buffer_sink {
    lk_ipc_sink base;
    lk_buf     *out;
} buffer_sink;

static lk_rc sink_write(lk_ipc_sink *sink, const void *data, size_t size, lk_err *err)
{
    (void)err;
    lk_buf_append(((buffer_sink *)sink)->out, data, size);
    return LK_OK;
}

static lk_rc fill(struct ArrowArray *batch, const struct ArrowSchema *schema, const roaring_bitmap_t *rows)
{
    uint32_t *offsets = NULL;
    size_t    count = (size_t)roaring_bitmap_get_cardinality(rows);
    LK_ASSERT(ArrowArrayInitFromSchema(batch, schema, NULL) == NANOARROW_OK);
    struct ArrowBuffer *values = ArrowArrayBuffer(batch->children[0], 1);
    LK_ASSERT(ArrowBufferResize(values, (int64_t)(count * sizeof *offsets), false) == NANOARROW_OK);
    offsets = (uint32_t *)(void *)values->data;
    roaring_bitmap_to_uint32_array(rows, offsets);
    batch->length = batch->children[0]->length = (int64_t)count;
    LK_ASSERT(ArrowArrayFinishBuildingDefault(batch, NULL) == NANOARROW_OK);
    return LK_OK;
}

static lk_rc encode_array(const roaring_bitmap_t *rows, lk_buf *out, lk_err *err)
{
    struct ArrowSchema schema = {0};
    struct ArrowArray  batch = {0};
    lk_ipc_writer     *writer = NULL;
    buffer_sink        sink = {{sink_write}, out};
    lk_schema_start(&schema, 1);
    lk_rc rc = lk_column_parse(LK_LITERAL("row_id:uint32"), schema.children[0], err);
    if (rc == LK_OK) {
        rc = fill(&batch, &schema, rows);
    }
    if (rc == LK_OK) {
        rc = lk_ipc_writer_open(&schema, LK_IPC_FILE, &sink.base, &writer, err);
    }
    if (rc == LK_OK) {
        lk_shared_array *shared = lk_array_share(&batch);
        rc = lk_ipc_writer_write(writer, shared, err);
        lk_shared_array_unref(shared);
    }
    if (rc == LK_OK) {
        rc = lk_ipc_writer_finish(writer, err);
    }
    lk_ipc_writer_close(writer);
    lk_schema_release(&schema);
    return rc;
}

/* -- files ---------------------------------------------------------------------------------------------- */

lk_bytes lk_deletion_key(uint64_t fragment_id, const lk_deletion_file *file, lk_arena *arena)
{
    return lk_arena_format(arena, "_deletions/%" PRIu64 "-%" PRIu64 "-%" PRIu64 ".%s", fragment_id,
        file->read_version, file->id, file->kind == LK_DELETION_ARRAY ? "arrow" : "bin");
}

lk_rc lk_deletion_write(lk_store *store, uint64_t fragment_id, const lk_deletion_file *file,
    const struct roaring_bitmap_s *rows, lk_err *err)
{
    lk_arena arena = {0};
    lk_buf   bytes = {0};
    bool     created = false;
    lk_bytes key = lk_deletion_key(fragment_id, file, &arena);
    lk_rc    rc = LK_OK;
    if (file->kind == LK_DELETION_BITMAP) {
        encode_bitmap(rows, &bytes);
    } else {
        rc = encode_array(rows, &bytes, err);
    }
    if (rc == LK_OK) {
        rc = lk_store_put_if_absent(store, key, lk_buf_view(&bytes), &created, err);
    }
    if (rc == LK_OK && !created) {
        rc = lk_fail(err, LK_E_INTERNAL, "it exists already");
    }
    if (rc != LK_OK) {
        lk_context(err, "write %.*s", LK_FMT(key));
    }
    lk_buf_deinit(&bytes);
    lk_arena_close(&arena);
    return rc;
}

lk_deletion_file lk_deletion_name(
    const struct roaring_bitmap_s *rows, uint64_t read_version, lk_random *random)
{
    uint64_t count = roaring_bitmap_get_cardinality(rows);
    return (lk_deletion_file){
        .kind = count < ARRAY_ROWS_BELOW ? LK_DELETION_ARRAY : LK_DELETION_BITMAP,
        .read_version = read_version,
        .id = lk_random_u64(random) >> 1, /* some readers keep it signed */
        .count = count,
    };
}
