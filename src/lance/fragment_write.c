/*
 * fragment_write.c - see fragment_write.h.
 */
#include "lance/fragment_write.h"

#include "arrow/cast.h"
#include "arrow/schema.h"
#include "lance/blob.h"
#include "lance/file_write.h"
#include "lance/write_crew.h"

enum { ROWS_PER_FILE = 1 << 20 };

lk_rc lk_fragment_writer_check_types(const struct ArrowSchema *schema, uint32_t file_minor, lk_err *err)
{
    return lk_file_writer_supports_all(schema, file_minor, err);
}

lk_rc lk_fragment_writer_check(const lk_lance_schema *schema, uint32_t file_minor, lk_err *err)
{
    return lk_fragment_writer_check_types(&schema->arrow, file_minor, err);
}

void lk_fragment_writer_init(
    lk_fragment_writer *w, lk_change *change, const lk_lance_schema *schema, uint64_t rows_max)
{
    *w = (lk_fragment_writer){
        .change = change,
        .schema = schema,
        .file_minor = lk_change_file_minor(change),
        .rows_max = rows_max == 0 || rows_max > INT64_MAX ? ROWS_PER_FILE : (int64_t)rows_max,
    };
}

void lk_fragment_writer_deinit(lk_fragment_writer *w)
{
    lk_file_writer_abandon(w->writer);
    if (w->kept == NULL) {
        lk_page_crew_close(w->crew);
    }
    lk_buf_deinit(&w->fragments);
    *w = (lk_fragment_writer){0};
}

/* 24 binary digits, then hexadecimal: random in front, so that object stores spread the keys. */
static lk_bytes data_file_name(lk_fragment_writer *w)
{
    enum { BINARY_BYTES = 3, SIZE = 16 };
    uint8_t id[SIZE];
    lk_buf  name = {0};
    w->change->env->random->fill(w->change->env->random, id, sizeof id);
    for (unsigned bit = 0; bit < BINARY_BYTES * 8; bit++) {
        lk_buf_append(&name, (id[bit / 8] >> (7 - bit % 8) & 1) != 0 ? "1" : "0", 1);
    }
    for (unsigned i = BINARY_BYTES; i < SIZE; i++) {
        lk_buf_format(&name, "%02x", id[i]);
    }
    lk_buf_append_text(&name, ".lance");
    lk_bytes out = lk_arena_copy(&w->change->arena, lk_buf_view(&name));
    lk_buf_deinit(&name);
    return out;
}

void lk_kept_file_deinit(lk_kept_file *kept)
{
    lk_file_writer_close(kept->writer);
    lk_page_crew_close(kept->crew);
    *kept = (lk_kept_file){0};
}

size_t lk_kept_file_capacity(const lk_kept_file *kept)
{
    return (kept->writer == NULL ? 0 : lk_file_writer_capacity(kept->writer)) +
           (kept->crew == NULL ? 0 : lk_page_crew_capacity(kept->crew));
}

static lk_rc open_file(lk_fragment_writer *w, lk_bytes key, lk_err *err)
{
    const lk_lance_env *env = w->change->env;
    if (w->kept == NULL || w->kept->writer == NULL) {
        return lk_file_writer_open(env->store, key, w->schema, w->file_minor, env->budget, &w->writer, err);
    }
    w->writer = w->kept->writer;
    w->kept->writer = NULL;
    return lk_file_writer_again(w->writer, env->store, key, err);
}

static void use_crew(lk_fragment_writer *w)
{
    bool           alone = w->change->options != NULL && w->change->options->alone;
    lk_page_crew **crew = w->kept == NULL ? &w->crew : &w->kept->crew;
    *crew = *crew == NULL ? lk_page_crew_new(alone ? NULL : w->change->env->pool) : *crew;
    w->crew = *crew;
    lk_file_writer_use_crew(w->writer, w->crew);
}

static lk_rc begin_file(lk_fragment_writer *w, lk_err *err)
{
    lk_bytes name = w->only_name.size > 0 ? w->only_name : data_file_name(w);
    lk_bytes key = lk_arena_format(&w->change->arena, "data/%.*s", LK_FMT(name));
    w->file_name = name;
    lk_change_wrote(w->change, key);
    lk_rc rc = open_file(w, key, err);
    if (rc == LK_OK) {
        use_crew(w);
        if (w->compact) {
            lk_file_writer_compact(w->writer);
        }
        if (w->kept != NULL) {
            lk_file_writer_keep(w->writer);
        }
    }
    return rc;
}

static lk_rc finish_file(lk_fragment_writer *w, lk_err *err)
{
    lk_file_written written = {0};
    lk_file_writer *writer = w->writer;
    w->writer = NULL; /* finish closes it, also when it fails */
    lk_rc rc = lk_file_writer_finish(writer, &w->change->arena, &written, err);
    if (rc != LK_OK) {
        return rc;
    }
    if (w->kept != NULL) {
        w->kept->writer = writer;
    }
    lk_bytes key = lk_arena_format(&w->change->arena, "data/%.*s", LK_FMT(w->file_name));
    for (uint32_t id = 1; id <= written.blob_count; id++) {
        lk_change_wrote(w->change, lk_blob_key(key, id, &w->change->arena));
    }
    int32_t *ids = lk_arena_take(&w->change->arena, written.column_count * sizeof *ids);
    int32_t *columns = lk_arena_take(&w->change->arena, written.column_count * sizeof *columns);
    for (size_t i = 0; i < written.column_count; i++) {
        ids[i] = written.columns[i].field_id;
        columns[i] = written.columns[i].column_index;
    }
    lk_data_file *file = lk_arena_take(&w->change->arena, sizeof *file);
    *file = (lk_data_file){
        .path = w->file_name,
        .fields = ids,
        .columns = columns,
        .field_count = written.column_count,
        .major = 2,
        .minor = w->file_minor,
        .size_bytes = written.size_bytes,
    };
    lk_fragment fragment = {.physical_rows = written.rows, .files = file, .file_count = 1};
    lk_buf_append(&w->fragments, &fragment, sizeof fragment);
    return LK_OK;
}

/* Writes rows [first, first + count) of the batch to the file being written. */
static lk_rc write_part(
    lk_fragment_writer *w, lk_shared_array *batch, int64_t first, int64_t count, lk_err *err)
{
    const struct ArrowArray *whole = lk_shared_array_get(batch);
    if (first == 0 && count == whole->length) {
        return lk_file_writer_write(w->writer, whole, err);
    }
    struct ArrowArray part = {0};
    lk_shared_array_slice(batch, first, count, &part);
    lk_rc rc = lk_file_writer_write(w->writer, &part, err);
    lk_array_release(&part);
    return rc;
}

static lk_rc write_batch(lk_fragment_writer *w, lk_shared_array *batch, lk_err *err)
{
    int64_t length = lk_shared_array_get(batch)->length;
    for (int64_t done = 0; done < length;) {
        lk_rc rc = w->writer == NULL ? begin_file(w, err) : LK_OK;
        if (rc != LK_OK) {
            return rc;
        }
        int64_t room = w->rows_max - (int64_t)lk_file_writer_rows(w->writer);
        int64_t count = length - done < room ? length - done : room;
        if ((rc = write_part(w, batch, done, count, err)) != LK_OK ||
            (count == room && (rc = finish_file(w, err)) != LK_OK)) {
            return rc;
        }
        done += count;
    }
    w->row_count += length;
    return LK_OK;
}

lk_rc lk_fragment_writer_add(lk_fragment_writer *w, struct ArrowArray *take, lk_err *err)
{
    lk_rc            rc = lk_batch_check_nulls(&w->schema->arrow, take, w->row_count, err);
    lk_shared_array *shared = lk_array_share(take);
    if (rc == LK_OK) {
        rc = write_batch(w, shared, err);
    }
    lk_shared_array_unref(shared);
    return rc;
}

lk_rc lk_fragment_writer_end(lk_fragment_writer *w, lk_err *err)
{
    return w->writer == NULL ? LK_OK : finish_file(w, err);
}

void lk_fragment_writer_abandon(lk_fragment_writer *w)
{
    lk_file_writer_abandon(w->writer);
    w->writer = NULL;
}

lk_rc lk_fragment_writer_write(lk_fragment_writer *w, lk_batches *source, lk_err *err)
{
    for (;;) {
        struct ArrowArray batch = {0};
        lk_rc             rc = lk_batches_next(source, &batch, err);
        if (rc == LK_OK && batch.release == NULL) {
            return lk_fragment_writer_end(w, err);
        }
        if (rc == LK_OK) {
            rc = lk_fragment_writer_add(w, &batch, err);
        }
        if (rc != LK_OK) {
            return rc;
        }
    }
}

lk_fragment *lk_fragment_writer_fragments(const lk_fragment_writer *w, size_t *count)
{
    *count = w->fragments.size / sizeof(lk_fragment);
    return (lk_fragment *)(void *)w->fragments.data;
}

lk_rc lk_fragment_writer_number(lk_fragment_writer *w, uint64_t first, lk_err *err)
{
    size_t       count = 0;
    lk_fragment *fragments = lk_fragment_writer_fragments(w, &count);
    if (first > UINT32_MAX || count > UINT32_MAX - first) {
        return lk_fail(err, LK_E_LIMIT, "fragment ids of the table are used up");
    }
    for (size_t i = 0; i < count; i++) {
        fragments[i].id = first + i;
    }
    return LK_OK;
}
