/* verify.c - see verify.h: versions, and what they refer to. The rows are verify_data.c. */
#include "lance/verify.h"

#include "arrow/schema.h"
#include "lance/deletion_write.h"
#include "lance/index.h"
#include "lance/pb_table.h"
#include "lance/refs.h"
#include "lance/row_ids.h"
#include "lance/verify_priv.h"
#include "lance/versions.h"
#include "lance/view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* -- telling -------------------------------------------------------------------------------------------- */

void lk_verify_damage(lk_verify *v, lk_bytes what, const char *format, ...)
{
    char    reason[LK_ERR_CONTEXT_BYTES + LK_ERR_DETAIL_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    v->report->damages++;
    if (v->options->damage != NULL) {
        v->options->damage(v->options->context, v->version, what, reason);
    }
}

/* Errors of the table's bytes; the others are about looking at them. */
static bool means_damage(lk_rc rc)
{
    return rc == LK_E_CORRUPT_FILE || rc == LK_E_SNAPSHOT_GONE || rc == LK_E_NOT_FOUND ||
           rc == LK_E_UNSUPPORTED_FORMAT || rc == LK_E_INVALID_IPC || rc == LK_E_CORRUPT_RECORD;
}

lk_rc lk_verify_note(lk_verify *v, lk_rc rc, lk_bytes what, lk_err *err)
{
    if (rc == LK_OK || !means_damage(rc)) {
        return rc;
    }
    const char *kind = rc == LK_E_SNAPSHOT_GONE || rc == LK_E_NOT_FOUND ? "missing: "
                       : rc == LK_E_UNSUPPORTED_FORMAT                  ? "not supported: "
                                                                        : "";
    const char *detail = err->detail[0] != '\0' ? err->detail : "";
    lk_verify_damage(v, what, "%s%s%s%.*s", kind, detail, detail[0] != '\0' && err->len > 0 ? ": " : "",
        (int)err->len, err->context);
    *err = (lk_err){0};
    return LK_OK;
}

bool lk_verify_seen(lk_verify *v, lk_bytes name)
{
    bool seen = lk_name_set_has(&v->done, name);
    if (!seen) {
        lk_name_set_add(&v->done, name);
    }
    return seen;
}

/* -- a version's own numbers ---------------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static void check_fragment_ids(lk_verify *v, const lk_manifest *m)
{
    uint64_t *ids = calloc(m->fragment_count + 1, sizeof *ids);
    LK_ASSERT(ids != NULL);
    for (size_t i = 0; i < m->fragment_count; i++) {
        ids[i] = m->fragments[i].id;
        if (m->has_fragment_id_max && ids[i] > m->fragment_id_max) {
            lk_verify_damage(v, m->key, "fragment %" PRIu64 " is above the highest id given out, %" PRIu32,
                ids[i], m->fragment_id_max);
        }
    }
    qsort(ids, m->fragment_count, sizeof *ids, compare_ids);
    for (size_t i = 1; i < m->fragment_count; i++) {
        if (ids[i] == ids[i - 1]) {
            lk_verify_damage(v, m->key, "fragment %" PRIu64 " is listed twice", ids[i]);
        }
    }
    free(ids);
}

/* A field of the schema lies in at most one file of a fragment. */
static void check_fields(lk_verify *v, const lk_manifest *m, const lk_fragment *fragment)
{
    for (size_t field = 0; field < m->schema->field_count; field++) {
        int32_t id = m->schema->fields[field].id;
        size_t  times = 0;
        for (size_t file = 0; file < fragment->file_count; file++) {
            for (size_t i = 0; i < fragment->files[file].field_count; i++) {
                times += fragment->files[file].fields[i] == id;
            }
        }
        if (times > 1) {
            lk_verify_damage(
                v, m->key, "field %" PRId32 " lies %zu times in fragment %" PRIu64, id, times, fragment->id);
        }
    }
}

static lk_rc check_transaction(lk_verify *v, const lk_manifest *m, lk_err *err)
{
    lk_arena       arena = {0};
    lk_bytes       message = {0};
    lk_transaction transaction = {0};
    bool           found = false;
    lk_bytes       name = m->transaction_file.size == 0
                              ? m->key
                              : lk_arena_format(&arena, "_transactions/%.*s", LK_FMT(m->transaction_file));
    lk_rc          rc = LK_OK;
    if (m->transaction_file.size > 0 && !lk_verify_seen(v, name)) {
        lk_store_reader *reader = NULL;
        uint64_t         size = 0;
        rc = lk_verify_note(v, lk_store_open_object(v->env->store, name, &reader, &size, err), name, err);
        lk_store_reader_close(reader);
    }
    if (rc == LK_OK) {
        rc = lk_manifest_transaction(v->env->store, m, &arena, &message, &found, err);
        if (rc == LK_E_NOT_FOUND) { /* told above */
            *err = (lk_err){0};
            rc = LK_OK;
            found = false;
        }
    }
    if (rc == LK_OK && found) {
        rc = lk_pb_transaction_decode(message, &arena, &transaction, err);
    }
    if (rc == LK_OK && found && transaction.read_version > m->version) {
        lk_verify_damage(v, name, "it says that version %" PRIu64 " grew out of version %" PRIu64, m->version,
            transaction.read_version);
    }
    rc = lk_verify_note(v, rc, name, err);
    lk_arena_close(&arena);
    return rc;
}

/* -- rows by id ----------------------------------------------------------------------------------------- */

/* Ids of a fragment, all of them read; told when one is not below what was given out. */
static lk_rc check_row_ids(lk_verify *v, size_t fragment, lk_err *err)
{
    const lk_manifest *m = v->dataset->manifest;
    const lk_row_ids  *ids = NULL;
    lk_rc              rc = lk_dataset_row_ids(v->dataset, fragment, &ids, err);
    for (uint64_t row = 0; rc == LK_OK && row < ids->count; row++) {
        if (lk_row_ids_at(ids, row) >= m->next_row_id) {
            lk_verify_damage(v, m->key, "fragment %" PRIu64 ": row id %" PRIu64 " was never given out",
                m->fragments[fragment].id, lk_row_ids_at(ids, row));
            break;
        }
    }
    for (int kind = LK_ROW_CREATED_AT; rc == LK_OK && kind <= LK_ROW_UPDATED_AT; kind++) {
        const lk_row_versions *versions = NULL;
        rc = lk_dataset_row_versions(v->dataset, fragment, (lk_row_version_kind)kind, &versions, err);
    }
    return lk_verify_note(v, rc, m->key, err);
}

static lk_rc check_row_identity(lk_verify *v, lk_err *err)
{
    const lk_manifest *m = v->dataset->manifest;
    uint64_t           id = 0, address = 0;
    lk_rc              rc = LK_OK;
    if (!lk_dataset_has_stable_row_ids(v->dataset)) {
        return LK_OK;
    }
    for (size_t i = 0; rc == LK_OK && i < m->fragment_count; i++) {
        rc = check_row_ids(v, i, err);
    }
    if (rc == LK_OK && m->fragment_count > 0) { /* the way back knows an id of two rows */
        rc = lk_verify_note(v, lk_dataset_find_rows(v->dataset, &id, 1, &address, err), m->key, err);
    }
    return rc;
}

/* -- what a version refers to ----------------------------------------------------------------------------- */

static lk_rc check_deletions(lk_verify *v, size_t fragment, lk_err *err)
{
    lk_arena           arena = {0};
    const lk_fragment *in = &v->dataset->manifest->fragments[fragment];
    const lk_deletion *deletion = NULL;
    lk_rc              rc = LK_OK;
    if (in->deletion.kind != LK_DELETION_NONE) {
        lk_bytes key = lk_deletion_key(in->id, &in->deletion, &arena);
        if (!lk_verify_seen(v, key)) {
            v->report->deletion_files++;
            rc = lk_verify_note(v, lk_dataset_deletion(v->dataset, fragment, &deletion, err), key, err);
        }
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc check_index(lk_verify *v, const lk_index *index, lk_arena *arena, lk_err *err)
{
    lk_index_damage found = {0};
    char            uuid[LK_UUID_TEXT_SIZE + 1];
    lk_uuid_format(index->uuid, uuid);
    lk_bytes what = lk_arena_format(arena, "index %.*s (_indices/%s)", LK_FMT(index->name), uuid);
    v->report->indices++;
    for (size_t i = 0; i < index->field_count; i++) {
        if (lk_lance_schema_find(v->dataset->manifest->schema, index->fields[i]) >=
            v->dataset->manifest->schema->field_count) {
            lk_verify_damage(
                v, what, "it is over field %" PRId32 ", which the table has not", index->fields[i]);
            return LK_OK;
        }
    }
    lk_rc rc = lk_index_verify(v->dataset, index, v->options->cancel, &found, err);
    if (rc == LK_OK && found.missing + found.extra + found.wrong > 0) {
        lk_verify_damage(v, what,
            "%" PRIu64 " entries; %" PRIu64 " rows have none, %" PRIu64 " have no row, %" PRIu64
            " have another value than their row",
            found.entries, found.missing, found.extra, found.wrong);
    }
    return lk_verify_note(v, rc, what, err);
}

static lk_rc check_indices(lk_verify *v, lk_err *err)
{
    lk_arena        arena = {0};
    const lk_index *list = NULL;
    size_t          count = 0;
    lk_rc           rc = lk_verify_note(
                  v, lk_index_list(v->dataset, &arena, &list, &count, err), v->dataset->manifest->key, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        rc = check_index(v, &list[i], &arena, err);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc check_fragment(lk_verify *v, size_t fragment, lk_err *err)
{
    const lk_manifest *m = v->dataset->manifest;
    v->report->fragments++;
    check_fields(v, m, &m->fragments[fragment]);
    lk_rc rc = lk_cancel_check(v->options->cancel, err);
    if (rc == LK_OK) {
        rc = check_deletions(v, fragment, err);
    }
    return rc == LK_OK ? lk_verify_fragment_data(v, fragment, err) : rc;
}

static lk_rc check_opened(lk_verify *v, lk_err *err)
{
    const lk_manifest *m = v->dataset->manifest;
    size_t             before = v->report->damages;
    check_fragment_ids(v, m);
    lk_rc rc = lk_view_schema(&m->schema->arrow, (lk_view){0}, &v->view, err);
    if (rc == LK_OK) {
        rc = check_transaction(v, m, err);
    }
    for (size_t i = 0; rc == LK_OK && i < m->fragment_count; i++) {
        rc = check_fragment(v, i, err);
    }
    if (rc == LK_OK) {
        rc = check_row_identity(v, err);
    }
    if (rc == LK_OK && v->report->damages == before) { /* else it would only say the same again */
        rc = check_indices(v, err);
    }
    lk_schema_release(&v->view);
    return rc;
}

static lk_rc check_version(lk_verify *v, const lk_version *version, lk_err *err)
{
    lk_arena arena = {0};
    lk_bytes key = lk_manifest_key(version->number, version->naming, &arena);
    v->version = version->number;
    v->report->versions++;
    lk_rc rc = lk_dataset_open_manifest(v->env, key, &v->dataset, err);
    if (rc == LK_OK && v->dataset->manifest->version != version->number) {
        lk_verify_damage(v, key, "it says that it is version %" PRIu64, v->dataset->manifest->version);
    }
    rc = rc == LK_OK ? check_opened(v, err) : lk_verify_note(v, rc, key, err);
    lk_dataset_unref(v->dataset);
    v->dataset = NULL;
    lk_arena_close(&arena);
    return rc;
}

/* -- the table ------------------------------------------------------------------------------------------ */

/* Tags of main, and the versions that its branches grew from. */
static lk_rc check_refs(lk_verify *v, const lk_version *versions, size_t count, lk_err *err)
{
    lk_arena arena = {0};
    lk_ref  *refs = NULL;
    size_t   ref_count = 0;
    v->version = 0;
    lk_rc rc = lk_verify_note(
        v, lk_refs_list(v->env->store, &arena, &refs, &ref_count, err), LK_LITERAL("_refs"), err);
    for (size_t i = 0; rc == LK_OK && i < ref_count; i++) {
        bool on_main = refs[i].branch.size == 0 || lk_bytes_equal(refs[i].branch, LK_LITERAL("main"));
        bool found = false;
        for (size_t at = 0; at < count && !found; at++) {
            found = versions[at].number == refs[i].version;
        }
        v->report->references++;
        if (on_main && !found) {
            lk_bytes what = lk_arena_format(
                &arena, "%s %.*s", refs[i].kind == LK_REF_TAG ? "tag" : "branch", LK_FMT(refs[i].name));
            lk_verify_damage(v, what, "it names version %" PRIu64 ", which is not there", refs[i].version);
        }
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc check_versions(lk_verify *v, const lk_version *versions, size_t count, lk_err *err)
{
    const lk_verify_options *o = v->options;
    uint64_t                 wanted = o->version;
    bool                     found = false;
    lk_rc                    rc = LK_OK;
    if (count == 0) {
        return lk_fail(err, LK_E_NOT_FOUND, "no version of %.*s", LK_FMT(v->env->store->uri));
    }
    wanted = wanted == 0 ? versions[count - 1].number : wanted;
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        if (o->all_versions || versions[i].number == wanted) {
            found = true;
            rc = check_version(v, &versions[i], err);
        }
    }
    return rc == LK_OK && !found ? lk_fail(err, LK_E_NOT_FOUND, "version %" PRIu64, wanted) : rc;
}

lk_rc lk_dataset_verify(
    const lk_lance_env *env, const lk_verify_options *options, lk_verify_report *report, lk_err *err)
{
    lk_arena    arena = {0};
    lk_verify   v = {.env = env, .options = options, .report = report};
    lk_version *versions = NULL;
    size_t      count = 0;
    *report = (lk_verify_report){0};
    lk_rc rc = lk_versions_list(env->store, &arena, &versions, &count, err);
    if (rc == LK_OK) {
        rc = check_versions(&v, versions, count, err);
    }
    if (rc == LK_OK) {
        rc = check_refs(&v, versions, count, err);
    }
    lk_name_set_deinit(&v.done);
    lk_arena_close(&arena);
    return rc;
}
