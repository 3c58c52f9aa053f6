/* generation.c - see generation.h. */
#include "rollout/generation.h"

#include "arrow/schema.h"
#include "io/prefix.h"
#include "lance/change.h"
#include "lance/fragment_write.h"
#include "lance/manifest.h"
#include "lance/pb_table.h"
#include "rollout/bloom.h"
#include "rollout/shard.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    FILE_MINOR = 1,
    COMPACT_ROWS = 64, /* a generation of so few is mostly what surrounds its rows */
    FORMS_MAX = 2,
    FORM_BYTES_MAX = 16 * 1024 * 1024
};

/* -- the rows as a stream ---------------------------------------------------------------------------------------- */

typedef struct row_stream {
    lk_batches                base;
    const lk_generation_rows *rows;
    size_t                    at;
} row_stream;

static lk_rc next_rows(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    row_stream *self = (row_stream *)batches;
    (void)err;
    *out = (struct ArrowArray){0};
    if (self->at < self->rows->batch_count) {
        lk_shared_array *batch = self->rows->batches[self->at++];
        lk_shared_batch_slice(batch, 0, lk_shared_array_get(batch)->length, out);
    }
    return LK_OK;
}

/* -- what is the same in every generation of a table --------------------------------------------------------------- */

static bool same_text(const char *a, const char *b)
{
    return strcmp(a == NULL ? "" : a, b == NULL ? "" : b) == 0;
}

static bool same_field(const struct ArrowSchema *a, const struct ArrowSchema *b);

bool lk_generation_same_columns(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    bool same = a->n_children == b->n_children;
    for (int64_t i = 0; same && i < a->n_children; i++) {
        same = same_field(a->children[i], b->children[i]);
    }
    return same;
}

static bool same_field(const struct ArrowSchema *a, const struct ArrowSchema *b)
{
    return same_text(a->name, b->name) && same_text(a->format, b->format) && a->flags == b->flags &&
           lk_generation_same_columns(a, b) && (a->dictionary == NULL) == (b->dictionary == NULL) &&
           (a->dictionary == NULL || same_field(a->dictionary, b->dictionary));
}

typedef struct generation_form {
    struct ArrowSchema schema;
    lk_lance_schema   *lance;
    lk_pool           *pool; /* of rows' crew */
    lk_buf             body; /* of the manifest, without a fragment */
    lk_kept_file       rows;
    lk_pk_index_form   ids;
} generation_form;

struct lk_generation_forms {
    lk_mutex mutex;
    generation_form
          *kept[FORMS_MAX]; /* that nobody writes with, the one used last behind; guarded by mutex */
    size_t count;           /* guarded by mutex */
};

static void free_form(generation_form *f)
{
    if (f != NULL) {
        lk_kept_file_deinit(&f->rows);
        lk_pk_index_form_deinit(&f->ids);
        lk_lance_schema_close(f->lance);
        lk_schema_release(&f->schema);
        lk_buf_deinit(&f->body);
        free(f);
    }
}

lk_generation_forms *lk_generation_forms_new(void)
{
    lk_generation_forms *forms = calloc(1, sizeof *forms);
    LK_ASSERT(forms != NULL);
    lk_mutex_init(&forms->mutex, LK_RANK_LEAF);
    return forms;
}

void lk_generation_forms_free(lk_generation_forms *forms)
{
    for (size_t i = 0; forms != NULL && i < forms->count; i++) {
        free_form(forms->kept[i]);
    }
    if (forms != NULL) {
        lk_mutex_deinit(&forms->mutex);
        free(forms);
    }
}

static generation_form *new_form(const struct ArrowSchema *schema, lk_pool *pool, lk_err *err)
{
    const lk_pb_new_version empty = {.version = 1, .no_transaction = true};
    generation_form        *f = calloc(1, sizeof *f);
    LK_ASSERT(f != NULL);
    f->pool = pool;
    lk_rc rc = lk_schema_copy(schema, &f->schema, err);
    if (rc == LK_OK) {
        rc = lk_pk_index_form_init(&f->ids, err);
    }
    if (rc == LK_OK) {
        rc = lk_lance_schema_from_arrow(schema, &f->lance, err);
    }
    if (rc != LK_OK) {
        free_form(f);
        return NULL;
    }
    lk_pb_manifest_create(f->lance, FILE_MINOR, &empty, &f->body);
    return f;
}

/* One for these columns, which is the caller's until it is given back; NULL: err says why not. */
static generation_form *take_form(
    lk_generation_forms *forms, const struct ArrowSchema *schema, lk_pool *pool, lk_err *err)
{
    generation_form *found = NULL;
    lk_mutex_lock(&forms->mutex);
    for (size_t i = forms->count; i > 0 && found == NULL; i--) {
        generation_form *f = forms->kept[i - 1];
        if (f->pool == pool && lk_generation_same_columns(&f->schema, schema)) {
            found = f;
            forms->count--;
            memmove(
                &forms->kept[i - 1], &forms->kept[i], (forms->count - (i - 1)) * sizeof(generation_form *));
        }
    }
    lk_mutex_unlock(&forms->mutex);
    return found == NULL ? new_form(schema, pool, err) : found;
}

static void give_form(lk_generation_forms *forms, generation_form *f)
{
    generation_form *dropped = NULL;
    if (lk_kept_file_capacity(&f->rows) > FORM_BYTES_MAX) { /* one flush in a thousand is so large */
        lk_kept_file_deinit(&f->rows);
    }
    lk_mutex_lock(&forms->mutex);
    if (forms->count == FORMS_MAX) {
        dropped = forms->kept[0];
        forms->count--;
        memmove(&forms->kept[0], &forms->kept[1], forms->count * sizeof(generation_form *));
    }
    forms->kept[forms->count++] = f;
    lk_mutex_unlock(&forms->mutex);
    free_form(dropped);
}

/* -- the files ------------------------------------------------------------------------------------------------------ */

static lk_rc put_new(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    bool  created = false;
    lk_rc rc = lk_store_put_if_absent(store, key, bytes, &created, err);
    return rc == LK_OK && !created ? lk_fail(err, LK_E_CONFLICT, "the generation's directory is in use") : rc;
}

/* The manifest of the only version. It has no transaction: nobody ever commits beside it. */
static lk_rc write_manifest(
    const lk_lance_env *env, const generation_form *form, const lk_fragment *fragment, lk_err *err)
{
    lk_buf                  object = {0};
    const lk_pb_new_version version = {.version = 1,
        .timestamp_ms = lk_clock_wall_ms(env->clock),
        .has_fragment_id_max = true,
        .fragments = fragment,
        .fragment_count = 1,
        .no_transaction = true};
    lk_rc                   rc = lk_change_object(lk_buf_view(&form->body), &version, &object, err);
    if (rc == LK_OK) {
        rc = put_new(env->store, LK_LITERAL(LK_GENERATION_MANIFEST), lk_buf_view(&object), err);
    }
    lk_buf_deinit(&object);
    return rc;
}

lk_rc lk_generation_manifest_like(
    const lk_manifest *like, uint64_t rows, uint64_t size_bytes, lk_buf *object, lk_err *err)
{
    LK_ASSERT(like->fragment_count == 1 && like->fragments[0].file_count == 1);
    lk_data_file file = like->fragments[0].files[0];
    lk_fragment  fragment = like->fragments[0];
    file.size_bytes = size_bytes;
    fragment.files = &file;
    fragment.physical_rows = rows;
    const lk_pb_new_version version = {.version = 1,
        .timestamp_ms = like->timestamp_ms,
        .has_fragment_id_max = true,
        .replaces_fragments = true,
        .fragments = &fragment,
        .fragment_count = 1,
        .no_transaction = true};
    return lk_change_object(like->body, &version, object, err);
}

static lk_rc write_dataset(
    const lk_lance_env *env, generation_form *form, const lk_generation_rows *rows, lk_err *err)
{
    row_stream         stream = {.base = {.schema = form->schema, .next = next_rows}, .rows = rows};
    lk_change          change = {.env = env};
    lk_fragment_writer writer = {0};
    size_t             count = 0;
    lk_fragment_writer_init(&writer, &change, form->lance, rows->row_count);
    writer.compact = rows->row_count <= COMPACT_ROWS;
    writer.only_name = LK_LITERAL(LK_GENERATION_FILE);
    writer.kept = &form->rows;
    lk_rc rc = lk_fragment_writer_write(&writer, &stream.base, err);
    if (rc == LK_OK) {
        rc = lk_fragment_writer_number(&writer, 0, err);
    }
    if (rc == LK_OK) {
        const lk_fragment *fragments = lk_fragment_writer_fragments(&writer, &count);
        rc = count == 1 ? write_manifest(env, form, fragments, err)
                        : lk_fail(err, LK_E_INTERNAL, "a generation of %zu files", count);
    }
    lk_fragment_writer_deinit(&writer);
    lk_change_deinit(&change);
    return rc;
}

static lk_rc write_bloom(lk_store *store, const lk_generation_rows *rows, lk_err *err)
{
    uint8_t *filter = calloc(1, LK_BLOOM_SIZE);
    LK_ASSERT(filter != NULL);
    for (size_t i = 0; i < rows->row_count; i++) {
        lk_bloom_add(filter, lk_bloom_hash(rows->ids[i]));
    }
    lk_rc rc =
        put_new(store, LK_LITERAL("bloom_filter.bin"), (lk_bytes){(const char *)filter, LK_BLOOM_SIZE}, err);
    free(filter);
    return rc;
}

/* -- the directory ----------------------------------------------------------------------------------------------- */

static lk_bytes new_path(lk_random *random, uint64_t number, lk_arena *arena)
{
    uint32_t salt = (uint32_t)lk_random_u64(random);
    return lk_arena_format(arena, "%08" PRIx32 "_gen_%" PRIu64, salt, number);
}

lk_rc lk_generation_write(const lk_lance_env *env, lk_generation_forms *forms, lk_uuid shard, uint64_t number,
    const lk_generation_rows *rows, lk_arena *arena, lk_bytes *path, lk_err *err)
{
    lk_lance_env inside = *env;
    *path = new_path(env->random, number, arena);
    inside.store = lk_prefix_store_new_in_place(env->store, lk_shard_key(shard, *path, arena));
    inside.files = NULL;
    inside.budget =
        NULL; /* rows were charged as they came in; what is read must not decide what can be written */
    generation_form *form = take_form(forms, rows->schema, env->pool, err);
    lk_rc            rc = form == NULL ? err->rc : LK_OK;
    if (rc == LK_OK) { /* the first object: whose it is, is whose the directory is */
        rc = write_bloom(inside.store, rows, err);
    }
    if (rc == LK_OK) {
        rc = write_dataset(&inside, form, rows, err);
    }
    if (rc == LK_OK) {
        rc = lk_pk_index_write(inside.store, &form->ids, rows->ids, rows->row_count, err);
    }
    if (rc != LK_OK) {
        err->maybe_applied = false; /* nothing refers to it */
        lk_context(err, "generation %" PRIu64, number);
    }
    if (form != NULL) {
        give_form(forms, form);
    }
    lk_store_close(inside.store);
    return rc;
}

lk_rc lk_generation_remove(lk_store *store, lk_uuid shard, lk_bytes path, lk_err *err)
{
    lk_arena arena = {0};
    lk_rc    rc = lk_store_remove_tree(store, lk_shard_key(shard, path, &arena), err);
    lk_arena_close(&arena);
    return rc;
}
