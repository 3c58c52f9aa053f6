/*
 * append.c - making tables and adding rows to them.
 *
 * An append writes, in this order, so that whatever stops it leaves the table as it was:
 *   data files    new names, referenced by nobody
 *   .txn          what we are about to do, for writers who must check against it
 *   manifest      through the committer: from here on the rows are there
 * When it fails for certain, the first two are removed; when the last step is unknown (maybe_applied), they
 * stay, because the table may already refer to them.
 */
#include "arrow/cast.h"
#include "arrow/schema.h"
#include "base/limits.h"
#include "base/uuid.h"
#include "lance/dataset_priv.h"
#include "lance/file_write.h"
#include "lance/pb_table.h"
#include "lance/rebase.h"
#include "lance/versions.h"

#include <inttypes.h>
#include <stdlib.h>

enum { ROWS_PER_FILE = 1 << 20, FILE_MINOR = 1 };

typedef struct change {
    const lk_lance_env     *env;
    lk_committer           *committer;
    const lk_write_options *options;
    const lk_lance_schema  *schema;
    lk_arena                arena;
    lk_file_writer         *writer;    /* the file being written, or NULL */
    lk_buf                  keys;      /* of lk_bytes: every data file begun */
    lk_buf                  fragments; /* of lk_fragment: every data file finished; ids are set at commit */
    int64_t                 row_count;
    lk_bytes                transaction_name; /* below _transactions/; "": only inline */
    lk_buf                  transaction;      /* the message */
    bool                    transaction_written;
} change;

static void change_deinit(change *c)
{
    lk_file_writer_abandon(c->writer);
    lk_buf_deinit(&c->keys);
    lk_buf_deinit(&c->fragments);
    lk_buf_deinit(&c->transaction);
    lk_arena_close(&c->arena);
}

static size_t fragment_count(const change *c)
{
    return c->fragments.size / sizeof(lk_fragment);
}

/* Removes what nobody refers to. What cannot be removed now is unreferenced and goes with a later cleanup. */
static void remove_leftovers(change *c)
{
    lk_err ignored = {0};
    lk_file_writer_abandon(c->writer);
    c->writer = NULL;
    for (size_t i = 0; i < c->keys.size / sizeof(lk_bytes); i++) {
        if (lk_store_remove(c->env->store, ((lk_bytes *)(void *)c->keys.data)[i], &ignored) != LK_OK) {
            ignored = (lk_err){0};
        }
    }
    if (c->transaction_written) {
        lk_bytes key = lk_arena_format(&c->arena, "_transactions/%.*s", LK_FMT(c->transaction_name));
        if (lk_store_remove(c->env->store, key, &ignored) != LK_OK) {
            ignored = (lk_err){0};
        }
    }
}

/* -- data files -------------------------------------------------------------------------------------- */

/* 24 binary digits, then hexadecimal: random in front, so that object stores spread the keys. */
static lk_bytes data_file_name(change *c)
{
    enum { BINARY_BYTES = 3, SIZE = 16 };
    uint8_t id[SIZE];
    lk_buf  name = {0};
    c->env->random->fill(c->env->random, id, sizeof id);
    for (unsigned bit = 0; bit < BINARY_BYTES * 8; bit++) {
        lk_buf_append(&name, (id[bit / 8] >> (7 - bit % 8) & 1) != 0 ? "1" : "0", 1);
    }
    for (unsigned i = BINARY_BYTES; i < SIZE; i++) {
        lk_buf_format(&name, "%02x", id[i]);
    }
    lk_buf_append_text(&name, ".lance");
    lk_bytes out = lk_arena_copy(&c->arena, lk_buf_view(&name));
    lk_buf_deinit(&name);
    return out;
}

static lk_rc begin_file(change *c, lk_err *err)
{
    lk_bytes name = data_file_name(c);
    lk_bytes key = lk_arena_format(&c->arena, "data/%.*s", LK_FMT(name));
    lk_buf_append(&c->keys, &key, sizeof key);
    return lk_file_writer_open(c->env->store, key, c->schema, c->env->budget, &c->writer, err);
}

static lk_bytes last_file_name(const change *c)
{
    lk_bytes key = ((lk_bytes *)(void *)c->keys.data)[c->keys.size / sizeof(lk_bytes) - 1];
    size_t   directory = sizeof "data/" - 1;
    return (lk_bytes){key.data + directory, key.size - directory};
}

static lk_rc finish_file(change *c, lk_err *err)
{
    lk_file_written written = {0};
    lk_file_writer *writer = c->writer;
    c->writer = NULL; /* finish closes it, also when it fails */
    lk_rc rc = lk_file_writer_finish(writer, &c->arena, &written, err);
    if (rc != LK_OK) {
        return rc;
    }
    int32_t *ids = lk_arena_take(&c->arena, written.column_count * sizeof *ids);
    int32_t *columns = lk_arena_take(&c->arena, written.column_count * sizeof *columns);
    for (size_t i = 0; i < written.column_count; i++) {
        ids[i] = written.columns[i].field_id;
        columns[i] = written.columns[i].column_index;
    }
    lk_data_file *file = lk_arena_take(&c->arena, sizeof *file);
    *file = (lk_data_file){
        .path = last_file_name(c),
        .fields = ids,
        .columns = columns,
        .field_count = written.column_count,
        .major = 2,
        .minor = FILE_MINOR,
        .size_bytes = written.size_bytes,
    };
    lk_fragment fragment = {.physical_rows = written.rows, .files = file, .file_count = 1};
    lk_buf_append(&c->fragments, &fragment, sizeof fragment);
    return LK_OK;
}

/* Writes rows [first, first + count) of the batch to the file being written. */
static lk_rc write_part(change *c, lk_shared_array *batch, int64_t first, int64_t count, lk_err *err)
{
    const struct ArrowArray *whole = lk_shared_array_get(batch);
    if (first == 0 && count == whole->length) {
        return lk_file_writer_write(c->writer, whole, err);
    }
    struct ArrowArray part = {0};
    lk_shared_array_slice(batch, first, count, &part);
    lk_rc rc = lk_file_writer_write(c->writer, &part, err);
    lk_array_release(&part);
    return rc;
}

static lk_rc write_batch(change *c, lk_shared_array *batch, lk_err *err)
{
    int64_t rows_max =
        c->options->max_rows_per_file == 0 ? ROWS_PER_FILE : (int64_t)c->options->max_rows_per_file;
    int64_t length = lk_shared_array_get(batch)->length;
    for (int64_t done = 0; done < length;) {
        lk_rc rc = c->writer == NULL ? begin_file(c, err) : LK_OK;
        if (rc != LK_OK) {
            return rc;
        }
        int64_t room = rows_max - (int64_t)lk_file_writer_rows(c->writer);
        int64_t count = length - done < room ? length - done : room;
        if ((rc = write_part(c, batch, done, count, err)) != LK_OK ||
            (count == room && (rc = finish_file(c, err)) != LK_OK)) {
            return rc;
        }
        done += count;
    }
    c->row_count += length;
    return LK_OK;
}

static lk_rc write_rows(change *c, lk_batches *source, lk_err *err)
{
    for (;;) {
        struct ArrowArray batch = {0};
        lk_rc             rc = lk_batches_next(source, &batch, err);
        if (rc != LK_OK) {
            return rc;
        }
        if (batch.release == NULL) {
            return c->writer == NULL ? LK_OK : finish_file(c, err);
        }
        rc = lk_batch_check_nulls(&c->schema->arrow, &batch, c->row_count, err);
        lk_shared_array *shared = lk_array_share(&batch);
        if (rc == LK_OK) {
            rc = write_batch(c, shared, err);
        }
        lk_shared_array_unref(shared);
        if (rc != LK_OK) {
            return rc;
        }
    }
}

/* -- transaction and manifest ------------------------------------------------------------------------ */

/* schema: makes the table; NULL: appends the change's fragments. */
static lk_rc write_transaction(
    change *c, uint64_t read_version, const lk_lance_schema *schema, bool external, lk_err *err)
{
    char              uuid[LK_UUID_TEXT_SIZE + 1];
    bool              created = false;
    lk_metadata_pair *properties = lk_arena_take(&c->arena, c->options->property_count * sizeof *properties);
    for (size_t i = 0; i < c->options->property_count; i++) {
        properties[i] = (lk_metadata_pair){c->options->properties[i].key, c->options->properties[i].value};
    }
    lk_uuid_format(lk_uuid_v7(c->env->clock, c->env->random), uuid);
    lk_transaction transaction = {
        .read_version = read_version,
        .uuid = lk_bytes_of(uuid),
        .properties = properties,
        .property_count = c->options->property_count,
    };
    lk_pb_transaction_encode(
        &transaction, (lk_fragment *)(void *)c->fragments.data, fragment_count(c), schema, &c->transaction);
    if (!external) {
        return LK_OK;
    }
    c->transaction_name = lk_arena_format(&c->arena, "%" PRIu64 "-%s.txn", read_version, uuid);
    c->transaction_written = true; /* also when it fails: it may be there */
    lk_bytes key = lk_arena_format(&c->arena, "_transactions/%.*s", LK_FMT(c->transaction_name));
    lk_rc    rc = lk_store_put_if_absent(c->env->store, key, lk_buf_view(&c->transaction), &created, err);
    if (rc == LK_OK && !created) {
        rc = lk_fail(err, LK_E_INTERNAL, "%.*s exists already", LK_FMT(key));
    }
    err->maybe_applied = false; /* a transaction file alone changes nothing */
    return rc;
}

static void append_section(lk_buf *object, lk_bytes section)
{
    char size[4];
    lk_store_u32(size, (uint32_t)section.size);
    lk_buf_append(object, size, sizeof size);
    lk_buf_append_bytes(object, section);
}

/* Closes the object around the Manifest message that starts at `position`. */
static void append_footer(lk_buf *object, size_t position)
{
    char footer[16] = {0};
    lk_store_u32(object->data + position, (uint32_t)(object->size - position - 4));
    lk_store_u64(footer, position);
    lk_store_u16(footer + 10, 2);
    memcpy(footer + 12, "LANC", 4);
    lk_buf_append(object, footer, sizeof footer);
}

/* The sections in front of the message; *position is where its size goes. */
static lk_rc append_head(change *c, const lk_manifest *base, lk_pb_new_version *version, lk_buf *object,
    size_t *position, lk_err *err)
{
    lk_arena arena = {0};
    lk_bytes section = {0};
    bool     found = false;
    lk_rc    rc =
        base == NULL ? LK_OK : lk_manifest_index_section(c->env->store, base, &arena, &section, &found, err);
    if (rc == LK_OK) {
        version->has_index_section = found;
        version->index_section_offset = object->size;
        if (found) {
            append_section(object, section);
        }
        version->transaction_section_offset = object->size;
        append_section(object, lk_buf_view(&c->transaction));
        *position = object->size;
        lk_buf_append_zeros(object, 4);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc number_fragments(change *c, const lk_manifest *base, lk_pb_new_version *version, lk_err *err)
{
    size_t   count = fragment_count(c);
    uint64_t next = base->has_fragment_id_max ? (uint64_t)base->fragment_id_max + 1 : 0;
    if (count > UINT32_MAX - next) {
        return lk_fail(err, LK_E_LIMIT, "fragment ids of the table are used up");
    }
    lk_fragment *fragments = (lk_fragment *)(void *)c->fragments.data;
    for (size_t i = 0; i < count; i++) {
        fragments[i].id = next + i;
    }
    version->fragments = fragments;
    version->fragment_count = count;
    version->has_fragment_id_max = next + count > 0;
    version->fragment_id_max = (uint32_t)(next + count - (next + count > 0));
    return LK_OK;
}

/* The object of the version after base: base's message with our fragments. */
static lk_rc build_next(change *c, const lk_manifest *base, lk_buf *object, lk_err *err)
{
    size_t            position = 0;
    lk_pb_new_version version = {
        .version = base->version + 1,
        .timestamp_ms = lk_clock_wall_ms(c->env->clock),
        .reader_flags = base->reader_flags,
        .writer_flags = base->writer_flags,
        .transaction_file = c->transaction_name,
    };
    lk_rc rc = number_fragments(c, base, &version, err);
    if (rc == LK_OK) {
        rc = append_head(c, base, &version, object, &position, err);
    }
    if (rc == LK_OK) {
        rc = lk_pb_manifest_append(base->body, &version, object, err);
    }
    if (rc == LK_OK) {
        append_footer(object, position);
    }
    return rc;
}

/* -- committing -------------------------------------------------------------------------------------- */

static lk_rc conflict(uint64_t version, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_CONFLICT, "version %" PRIu64 " is taken", version);
    lk_detail(err, "another writer committed version %" PRIu64, version);
    return rc;
}

static lk_rc commit_once(
    change *c, lk_bytes key, uint64_t version, const lk_buf *object, lk_manifest **committed, lk_err *err)
{
    bool won = false;
    *committed = NULL;
    lk_rc rc =
        c->committer->commit(c->committer, c->env->store, version, key, lk_buf_view(object), &won, err);
    if (rc != LK_OK || !won) {
        return rc;
    }
    rc = lk_manifest_parse(lk_buf_view(object), key, committed, err);
    err->maybe_applied = rc != LK_OK; /* it is committed, whatever we make of it */
    return rc;
}

/* One try on top of tip; *committed stays NULL when somebody else has that version. */
static lk_rc try_next(change *c, const lk_manifest *tip, lk_manifest **committed, lk_err *err)
{
    lk_arena arena = {0};
    lk_buf   object = {0};
    lk_bytes key = lk_manifest_key(tip->version + 1, lk_manifest_key_naming(tip->key), &arena);
    lk_rc    rc = build_next(c, tip, &object, err);
    if (rc == LK_OK) {
        rc = commit_once(c, key, tip->version + 1, &object, committed, err);
    }
    lk_buf_deinit(&object);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc check_base(const lk_manifest *base, lk_err *err)
{
    lk_rc rc = lk_manifest_check_writable(base, err);
    if (rc == LK_OK && base->file_minor != FILE_MINOR) {
        rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "the table's files are version 2.%u", base->file_minor);
        lk_detail(err, "the table's files are version 2.%u; this build writes 2.%d only", base->file_minor,
            FILE_MINOR);
    }
    return rc;
}

static void back_off(const change *c, unsigned attempt)
{
    uint64_t most_ms = LK_COMMIT_BACKOFF_MS;
    for (unsigned i = 0; i < attempt && most_ms < LK_COMMIT_BACKOFF_MS_MAX; i++) {
        most_ms *= 2;
    }
    lk_clock_sleep_ms(c->env->clock, 1 + lk_random_below(c->env->random, most_ms));
}

/* Alone: every try looks for the newest version first, so a version that was cleaned away is never made
 * again. */
static lk_rc commit_alone(change *c, const lk_manifest *base, lk_manifest **committed, lk_err *err)
{
    uint64_t checked = base->version;
    for (unsigned attempt = 0; attempt < LK_COMMIT_ATTEMPTS_MAX; attempt++) {
        lk_manifest *tip = NULL;
        lk_rc        rc = lk_rebase_append(c->env->store, base, checked, &tip, err);
        if (rc == LK_OK && tip != NULL) {
            checked = tip->version;
            rc = check_base(tip, err);
        }
        if (rc == LK_OK) {
            rc = try_next(c, tip == NULL ? base : tip, committed, err);
        }
        lk_manifest_close(tip);
        if (rc != LK_OK || *committed != NULL) {
            return rc;
        }
        back_off(c, attempt);
    }
    lk_rc rc = lk_fail(err, LK_E_CONFLICT, "%d tries", LK_COMMIT_ATTEMPTS_MAX);
    lk_detail(err, "other writers were faster %d times", LK_COMMIT_ATTEMPTS_MAX);
    return rc;
}

static lk_rc commit_next(change *c, const lk_manifest *base, lk_manifest **committed, lk_err *err)
{
    if (c->committer->stands_alone) {
        return commit_alone(c, base, committed, err);
    }
    lk_rc rc = try_next(c, base, committed, err);
    return rc == LK_OK && *committed == NULL ? conflict(base->version + 1, err) : rc;
}

/* -- appending --------------------------------------------------------------------------------------- */

static lk_rc check_columns(const struct ArrowSchema *schema, lk_err *err)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        lk_rc rc = lk_file_writer_supports(schema->children[i], err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    return LK_OK;
}

/* Columns whose pages are not what their Arrow type suggests. */
static lk_rc check_layouts(const lk_lance_schema *schema, lk_err *err)
{
    for (size_t i = 0; i < schema->field_count; i++) {
        const lk_lance_field *field = &schema->fields[i];
        lk_bytes              blob = {0};
        bool                  is_packed = field->leaf && field->end > i + 1;
        if (is_packed || lk_schema_metadata(field->arrow, "lance-encoding:blob", &blob)) {
            lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "column %s", field->arrow->name);
            lk_detail(err, "column \"%.60s\" is a %s, which this build does not write", field->arrow->name,
                is_packed ? "packed struct" : "blob");
            return rc;
        }
    }
    return LK_OK;
}

static lk_rc check_append(const lk_manifest *base, const struct ArrowSchema *rows, lk_err *err)
{
    lk_rc rc = check_base(base, err);
    if (rc == LK_OK) {
        rc = check_layouts(base->schema, err);
    }
    if (rc == LK_OK) {
        rc = check_columns(&base->schema->arrow, err);
    }
    return rc == LK_OK ? lk_schema_compare(&base->schema->arrow, rows, LK_SCHEMA_APPEND, err) : rc;
}

static const lk_write_options no_options;

lk_rc lk_dataset_append(lk_dataset *base, lk_committer *committer, lk_batches *source,
    const lk_write_options *options, lk_dataset **out, lk_err *err)
{
    const lk_manifest *manifest = base->manifest;
    lk_manifest       *committed = NULL;
    change             c = {
                    .env = &base->env,
                    .committer = committer,
                    .options = options == NULL ? &no_options : options,
                    .schema = manifest->schema,
    };
    lk_rc rc = check_append(manifest, &source->schema, err);
    if (rc == LK_OK) {
        rc = write_rows(&c, source, err);
        err->maybe_applied = false; /* files alone change nothing */
    }
    if (rc == LK_OK) {
        bool external = (manifest->writer_flags & LK_FLAG_NO_TRANSACTION_FILES) == 0;
        rc = write_transaction(&c, manifest->version, NULL, external, err);
    }
    if (rc == LK_OK) {
        rc = commit_next(&c, manifest, &committed, err);
    }
    if (rc == LK_OK) {
        *out = lk_dataset_new(&base->env, committed, base->files);
    } else {
        if (!err->maybe_applied) {
            remove_leftovers(&c);
        }
        lk_context(
            err, "append to version %" PRIu64 " of %.*s", manifest->version, LK_FMT(base->env.store->uri));
    }
    change_deinit(&c);
    return rc;
}

/* -- creating ---------------------------------------------------------------------------------------- */

static lk_rc table_exists(lk_err *err)
{
    return lk_fail(err, LK_E_TABLE_EXISTS, "a version exists already");
}

static lk_rc commit_first(change *c, lk_manifest **committed, lk_err *err)
{
    lk_arena          arena = {0};
    lk_buf            object = {0};
    size_t            position = 0;
    lk_pb_new_version version = {
        .version = 1,
        .timestamp_ms = lk_clock_wall_ms(c->env->clock),
        .transaction_file = c->transaction_name,
    };
    lk_rc rc = append_head(c, NULL, &version, &object, &position, err);
    if (rc == LK_OK) {
        lk_pb_manifest_create(c->schema, FILE_MINOR, &version, &object);
        append_footer(&object, position);
        rc = commit_once(c, lk_manifest_key(1, LK_MANIFEST_V2, &arena), 1, &object, committed, err);
    }
    if (rc == LK_OK && *committed == NULL) {
        rc = table_exists(err);
    }
    lk_buf_deinit(&object);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc check_absent(const lk_lance_env *env, lk_err *err)
{
    lk_version latest = {0};
    bool       found = false;
    lk_rc      rc = lk_versions_latest(env->store, &latest, &found, err);
    return rc == LK_OK && found ? table_exists(err) : rc;
}

lk_rc lk_dataset_create(const lk_lance_env *env, lk_committer *committer, const struct ArrowSchema *schema,
    const lk_write_options *options, lk_dataset **out, lk_err *err)
{
    lk_lance_schema *lance_schema = NULL;
    lk_manifest     *committed = NULL;
    change           c = {
                  .env = env,
                  .committer = committer,
                  .options = options == NULL ? &no_options : options,
    };
    lk_rc rc = lk_lance_schema_from_arrow(schema, &lance_schema, err);
    if (rc == LK_OK) {
        c.schema = lance_schema;
        rc = check_columns(&lance_schema->arrow, err);
    }
    if (rc == LK_OK) {
        rc = check_absent(env, err);
    }
    if (rc == LK_OK) {
        rc = write_transaction(&c, 0, lance_schema, true, err);
    }
    if (rc == LK_OK) {
        rc = commit_first(&c, &committed, err);
    }
    if (rc == LK_OK) {
        *out = lk_dataset_new(env, committed, NULL);
    } else {
        if (!err->maybe_applied) {
            remove_leftovers(&c);
        }
        lk_context(err, "create %.*s", LK_FMT(env->store->uri));
    }
    change_deinit(&c);
    lk_lance_schema_close(lance_schema);
    return rc;
}
