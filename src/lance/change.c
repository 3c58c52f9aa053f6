/*
 * change.c - see change.h.
 */
#include "lance/change.h"

#include "base/limits.h"
#include "base/uuid.h"
#include "lance/dataset_priv.h"
#include "lance/features.h"
#include "lance/file_write.h"
#include "lance/index.h"
#include "lance/rebase.h"
#include "lance/versions.h"

#include <inttypes.h>

void lk_change_deinit(lk_change *change)
{
    lk_buf_deinit(&change->objects);
    lk_buf_deinit(&change->operation);
    lk_buf_deinit(&change->transaction);
    lk_arena_close(&change->arena);
}

void lk_change_wrote(lk_change *change, lk_bytes key)
{
    lk_buf_append(&change->objects, &key, sizeof key);
}

static void remove_quietly(lk_change *change, lk_bytes key)
{
    lk_err ignored = {0};
    if (lk_store_remove(change->env->store, key, &ignored) != LK_OK) {
        return; /* it goes with a later cleanup */
    }
}

static void remove_transaction(lk_change *change)
{
    if (change->transaction_name.size > 0) {
        remove_quietly(
            change, lk_arena_format(&change->arena, "_transactions/%.*s", LK_FMT(change->transaction_name)));
    }
    change->transaction_name = (lk_bytes){0};
}

void lk_change_discard(lk_change *change, lk_bytes key)
{
    remove_quietly(change, key);
}

static void discard_all(lk_change *change)
{
    for (size_t i = 0; i < change->objects.size / sizeof(lk_bytes); i++) {
        remove_quietly(change, ((lk_bytes *)(void *)change->objects.data)[i]);
    }
    lk_buf_clear(&change->objects);
}

void lk_change_undo(lk_change *change, const lk_err *err)
{
    if (!err->maybe_applied) {
        discard_all(change);
        remove_transaction(change);
    }
}

lk_rc lk_change_check_files(const lk_manifest *manifest, lk_err *err)
{
    return lk_file_writer_check_minor(manifest->file_minor, err);
}

uint32_t lk_change_file_minor(const lk_change *change)
{
    if (change->base != NULL) {
        return change->base->file_minor;
    }
    lk_file_version version =
        change->options == NULL ? LK_FILE_VERSION_DEFAULT : change->options->file_version;
    return version == LK_FILE_VERSION_DEFAULT ? 1 : (uint32_t)version - LK_FILE_VERSION_2_0;
}

/* -- transaction -------------------------------------------------------------------------------------- */

static void encode_transaction(lk_change *change, const char *uuid)
{
    const lk_write_options *options = change->options;
    size_t                  count = options == NULL ? 0 : options->property_count;
    lk_metadata_pair       *properties = lk_arena_take(&change->arena, count * sizeof *properties);
    for (size_t i = 0; i < count; i++) {
        properties[i] = (lk_metadata_pair){options->properties[i].key, options->properties[i].value};
    }
    lk_transaction transaction = {
        .read_version = change->base == NULL ? 0 : change->base->version,
        .uuid = lk_bytes_of(uuid),
        .operation = change->ops->operation,
        .properties = properties,
        .property_count = count,
    };
    lk_buf_clear(&change->transaction);
    lk_pb_transaction_encode(&transaction, lk_buf_view(&change->operation), &change->transaction);
}

/* Once for every operation planned: mostly one, but a plan may say something else on top of another tip. */
static lk_rc write_transaction(lk_change *change, const lk_manifest *tip, lk_bytes operation, lk_err *err)
{
    char uuid[LK_UUID_TEXT_SIZE + 1];
    bool created = false;
    bool external = tip == NULL || (tip->writer_flags & LK_FLAG_NO_TRANSACTION_FILES) == 0;
    if (change->transaction.size > 0 && lk_bytes_equal(lk_buf_view(&change->operation), operation)) {
        return LK_OK;
    }
    remove_transaction(change);
    lk_buf_clear(&change->operation);
    lk_buf_append_bytes(&change->operation, operation);
    lk_uuid_format(lk_uuid_v7(change->env->clock, change->env->random), uuid);
    encode_transaction(change, uuid);
    if (!external) {
        return LK_OK;
    }
    change->transaction_name = lk_arena_format(
        &change->arena, "%" PRIu64 "-%s.txn", change->base == NULL ? 0 : change->base->version, uuid);
    lk_bytes key = lk_arena_format(&change->arena, "_transactions/%.*s", LK_FMT(change->transaction_name));
    lk_rc    rc =
        lk_store_put_if_absent(change->env->store, key, lk_buf_view(&change->transaction), &created, err);
    if (rc == LK_OK && !created) {
        rc = lk_fail(err, LK_E_INTERNAL, "%.*s exists already", LK_FMT(key));
    }
    err->maybe_applied = false; /* a transaction file alone changes nothing */
    return rc;
}

/* -- manifest ------------------------------------------------------------------------------------------ */

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

lk_rc lk_change_object(lk_bytes body, const lk_pb_new_version *version, lk_buf *object, lk_err *err)
{
    size_t position = object->size;
    lk_buf_append_zeros(object, 4);
    lk_rc rc = lk_pb_manifest_append(body, version, object, err);
    append_footer(object, position);
    return rc;
}

static lk_rc build_object(const lk_change *change, lk_change_plan *plan, lk_buf *object, lk_err *err)
{
    lk_pb_new_version *version = &plan->version;
    version->transaction_file = change->transaction_name;
    version->has_index_section = plan->has_index_section;
    version->index_section_offset = object->size;
    if (plan->has_index_section) {
        append_section(object, plan->index_section);
    }
    version->transaction_section_offset = object->size;
    append_section(object, lk_buf_view(&change->transaction));
    size_t position = object->size;
    lk_rc  rc = LK_OK;
    lk_buf_append_zeros(object, 4);
    if (plan->schema != NULL) {
        lk_pb_manifest_create(plan->schema, plan->file_minor, version, object);
    } else {
        rc = lk_pb_manifest_append(plan->body, version, object, err);
    }
    append_footer(object, position);
    return rc;
}

/* A plan that changes nothing: the tip, once more. */
static lk_rc start_plan(
    const lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    *plan = (lk_change_plan){
        .version = {.version = 1, .timestamp_ms = lk_clock_wall_ms(change->env->clock)},
        .file_minor = lk_change_file_minor(change),
    };
    if (tip == NULL) {
        return LK_OK;
    }
    plan->body = tip->body;
    plan->version.version = tip->version + 1;
    plan->version.reader_flags = tip->reader_flags;
    plan->version.writer_flags = tip->writer_flags;
    plan->version.has_fragment_id_max = tip->has_fragment_id_max;
    plan->version.fragment_id_max = tip->fragment_id_max;
    return lk_manifest_index_section(
        change->env->store, tip, arena, &plan->index_section, &plan->has_index_section, err);
}

/* -- committing ---------------------------------------------------------------------------------------- */

/* The object is read before it is published: what we could not read is not committed. What it says of itself then
 * decides its flags and the highest field id; when those are others than the tip's it is made once more. */
static lk_rc build_and_read(const lk_change *change, lk_bytes key, lk_change_plan *plan, lk_buf *object,
    lk_manifest **out, lk_err *err)
{
    lk_pb_new_version *version = &plan->version;
    lk_rc              rc = build_object(change, plan, object, err);
    if (rc == LK_OK) {
        rc = lk_manifest_parse(lk_buf_view(object), key, out, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    lk_flags flags = lk_manifest_flags(*out);
    int32_t  field_id_max = (*out)->has_field_id_max ? lk_manifest_field_id_max(*out) : 0;
    if (flags.reader == version->reader_flags && flags.writer == version->writer_flags &&
        (!(*out)->has_field_id_max || field_id_max == (*out)->field_id_max)) {
        return LK_OK;
    }
    version->reader_flags = flags.reader;
    version->writer_flags = flags.writer;
    version->sets_field_id_max = (*out)->has_field_id_max;
    version->field_id_max = field_id_max;
    lk_manifest_close(*out);
    *out = NULL;
    lk_buf_clear(object);
    rc = build_object(change, plan, object, err);
    return rc == LK_OK ? lk_manifest_parse(lk_buf_view(object), key, out, err) : rc;
}

/* Takes the manifest, whose object this is. */
static lk_rc commit_object(
    lk_change *change, lk_manifest *manifest, const lk_buf *object, lk_manifest **committed, lk_err *err)
{
    bool  won = false;
    lk_rc rc = change->committer->commit(change->committer, change->env->store, manifest->version,
        manifest->key, lk_buf_view(object), &won, err);
    if (rc != LK_OK || !won) {
        lk_manifest_close(manifest);
        return rc;
    }
    *committed = manifest;
    return LK_OK;
}

/* The tip's indices, as they hold for the version that is planned. */
static lk_rc keep_indices(const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    const lk_pb_new_version *version = &plan->version;
    lk_buf                   object = {0};
    lk_manifest             *next = NULL;
    if (!version->replaces_fragments && !version->replaces_fields && plan->body.data == tip->body.data) {
        return LK_OK; /* rows were added */
    }
    lk_rc rc = lk_change_object(plan->body, version, &object, err);
    if (rc == LK_OK) {
        rc = lk_manifest_parse(lk_buf_view(&object), tip->key, &next, err);
    }
    if (rc == LK_OK) {
        rc = lk_index_keep(tip, next, plan->moves, plan->index_section, arena, &plan->index_section, err);
    }
    lk_manifest_close(next);
    lk_buf_deinit(&object);
    return rc;
}

static lk_rc make_plan(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    lk_rc       rc = start_plan(change, tip, arena, plan, err);
    const char *section = plan->index_section.data;
    if (rc == LK_OK) {
        rc = change->ops->plan(change, tip, arena, plan, err);
    }
    if (rc == LK_OK && tip != NULL && plan->has_index_section && plan->index_section.data == section) {
        rc = keep_indices(tip, arena, plan, err);
    }
    err->maybe_applied = false; /* objects alone change nothing */
    return rc;
}

/* One try on top of tip; *committed stays NULL when somebody else has that version. */
static lk_rc try_next(lk_change *change, const lk_manifest *tip, lk_manifest **committed, lk_err *err)
{
    lk_arena           arena = {0};
    lk_buf             object = {0};
    lk_change_plan     plan;
    lk_manifest       *manifest = NULL;
    lk_manifest_naming naming = tip == NULL ? LK_MANIFEST_V2 : lk_manifest_key_naming(tip->key);
    *committed = NULL;
    lk_rc rc = make_plan(change, tip, &arena, &plan, err);
    if (rc == LK_OK) {
        rc = write_transaction(change, tip, plan.operation, err);
    }
    if (rc == LK_OK) {
        lk_bytes key = lk_manifest_key(plan.version.version, naming, &arena);
        rc = build_and_read(change, key, &plan, &object, &manifest, err);
    }
    if (rc == LK_OK) {
        rc = commit_object(change, manifest, &object, committed, err);
    } else {
        lk_manifest_close(manifest);
    }
    lk_buf_deinit(&object);
    lk_arena_close(&arena);
    return rc;
}

static void back_off(const lk_change *change, unsigned attempt)
{
    uint64_t most_ms = LK_COMMIT_BACKOFF_MS;
    for (unsigned i = 0; i < attempt && most_ms < LK_COMMIT_BACKOFF_MS_MAX; i++) {
        most_ms *= 2;
    }
    lk_clock_sleep_ms(change->env->clock, 1 + lk_random_below(change->env->random, most_ms));
}

/* Alone: every try looks for the newest version first, so a version that was cleaned away is never made
 * again. */
static lk_rc commit_alone(lk_change *change, lk_manifest **committed, lk_err *err)
{
    const lk_manifest *base = change->base;
    uint64_t           checked = base->version;
    for (unsigned attempt = 0; attempt < LK_COMMIT_ATTEMPTS_MAX; attempt++) {
        lk_manifest *tip = NULL;
        lk_rc        rc = lk_rebase(change->env->store, base, checked, change->ops->goes_with, &tip, err);
        if (rc == LK_OK && tip != NULL) {
            checked = tip->version;
            rc = lk_manifest_check_writable(tip, err);
        }
        if (rc == LK_OK) {
            rc = try_next(change, tip == NULL ? base : tip, committed, err);
        }
        lk_manifest_close(tip);
        if (rc != LK_OK || *committed != NULL) {
            return rc;
        }
        back_off(change, attempt);
    }
    lk_rc rc = lk_fail(err, LK_E_CONFLICT, "%d tries", LK_COMMIT_ATTEMPTS_MAX);
    lk_detail(err, "other writers were faster %d times", LK_COMMIT_ATTEMPTS_MAX);
    return rc;
}

static lk_rc lost(const lk_change *change, lk_err *err)
{
    if (change->base == NULL) {
        return lk_fail(err, LK_E_TABLE_EXISTS, "a version exists already");
    }
    uint64_t version = change->base->version + 1;
    lk_rc    rc = lk_fail(err, LK_E_CONFLICT, "version %" PRIu64 " is taken", version);
    lk_detail(err, "another writer committed version %" PRIu64, version);
    return rc;
}

lk_rc lk_change_commit(lk_change *change, lk_manifest **committed, lk_err *err)
{
    *committed = NULL;
    if (change->base != NULL && change->committer->stands_alone) {
        return commit_alone(change, committed, err);
    }
    lk_rc rc = try_next(change, change->base, committed, err);
    return rc == LK_OK && *committed == NULL ? lost(change, err) : rc;
}

lk_rc lk_change_repeat(lk_dataset *base, const lk_committer                           *committer,
    lk_rc (*once)(void *context, lk_dataset *version, bool *again, lk_err *err), void *context, lk_err *err)
{
    lk_dataset *version = lk_dataset_ref(base);
    lk_rc       rc = LK_OK;
    for (unsigned attempt = 0; version != NULL; attempt++) {
        bool again = false;
        rc = once(context, version, &again, err);
        lk_dataset_unref(version);
        version = NULL;
        if (again && committer->stands_alone && attempt + 1 < LK_COMMIT_ATTEMPTS_MAX) {
            *err = (lk_err){0};
            rc = lk_dataset_open(&base->env, 0, &version, err);
        }
    }
    return rc;
}
