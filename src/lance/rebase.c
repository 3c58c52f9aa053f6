/*
 * rebase.c - see rebase.h.
 */
#include "lance/rebase.h"

#include "lance/versions.h"

#include <inttypes.h>
#include <string.h>

typedef bool goes_with(lk_operation other);

bool lk_rebase_keeps_rows(lk_operation other)
{
    switch (other) {
    case LK_OPERATION_APPEND:
    case LK_OPERATION_DELETE:
    case LK_OPERATION_CREATE_INDEX:
    case LK_OPERATION_REWRITE:
    case LK_OPERATION_MERGE:
    case LK_OPERATION_RESERVE_FRAGMENTS:
    case LK_OPERATION_UPDATE:
    case LK_OPERATION_PROJECT:
    case LK_OPERATION_UPDATE_CONFIG:
    case LK_OPERATION_DATA_REPLACEMENT:
    case LK_OPERATION_CLONE:
    case LK_OPERATION_UPDATE_BASES:
        return true;
    case LK_OPERATION_UNKNOWN:
    case LK_OPERATION_OVERWRITE:
    case LK_OPERATION_RESTORE:
    case LK_OPERATION_UPDATE_MEM_WAL_STATE:
    case LK_OPERATION_DATA_OVERLAY:
        break;
    }
    return false;
}

/* Whether `field` took the place of a column of base: the same name below the same parent, another id. */
static bool replaces(const lk_lance_schema *base, const lk_lance_field *field)
{
    for (size_t i = 0; i < base->field_count; i++) {
        const lk_lance_field *old = &base->fields[i];
        if (old->parent_id == field->parent_id && strcmp(old->arrow->name, field->arrow->name) == 0) {
            return true;
        }
    }
    return false;
}

lk_rc lk_rebase_check_columns(const lk_manifest *base, const lk_manifest *tip, lk_err *err)
{
    for (size_t i = 0; i < tip->schema->field_count; i++) {
        const lk_lance_field *field = &tip->schema->fields[i];
        if (lk_lance_schema_find(base->schema, field->id) != SIZE_MAX) {
            continue;
        }
        if ((field->arrow->flags & ARROW_FLAG_NULLABLE) == 0 || replaces(base->schema, field)) {
            lk_rc rc = lk_fail(err, LK_E_CONFLICT, "column %s changed in version %" PRIu64,
                field->arrow->name, tip->version);
            lk_detail(err, "column \"%.60s\" was changed meanwhile", field->arrow->name);
            return rc;
        }
    }
    return LK_OK;
}

static lk_rc check_operation(lk_store *store, const lk_manifest *theirs, goes_with *allowed, lk_err *err)
{
    lk_arena       arena = {0};
    lk_bytes       message = {0};
    lk_transaction transaction = {0};
    bool           found = false;
    if (allowed == NULL) {
        return LK_OK;
    }
    lk_rc rc = lk_manifest_transaction(store, theirs, &arena, &message, &found, err);
    if (rc == LK_OK && found) {
        rc = lk_pb_transaction_decode(message, &arena, &transaction, err);
    }
    if (rc == LK_OK && !allowed(transaction.operation)) {
        const char *name = found ? lk_operation_name(transaction.operation) : "commit without a transaction";
        rc = lk_fail(err, LK_E_CONFLICT, "version %" PRIu64 " is a %s", theirs->version, name);
        lk_detail(err, "version %" PRIu64 " (%s) was committed meanwhile", theirs->version, name);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc check_version(lk_store *store, const lk_version *version, goes_with *allowed, lk_err *err)
{
    lk_arena     arena = {0};
    lk_manifest *theirs = NULL;
    lk_rc        rc =
        lk_manifest_read(store, lk_manifest_key(version->number, version->naming, &arena), &theirs, err);
    if (rc == LK_OK) {
        rc = check_operation(store, theirs, allowed, err);
    }
    lk_manifest_close(theirs);
    lk_arena_close(&arena);
    return rc;
}

/* Every version above checked and below last must be there and go with the change. */
static lk_rc check_between(lk_store *store, uint64_t checked, uint64_t last, goes_with *allowed, lk_err *err)
{
    lk_arena    arena = {0};
    lk_version *versions = NULL;
    size_t      count = 0;
    uint64_t    next = checked + 1;
    lk_rc       rc = lk_versions_list(store, &arena, &versions, &count, err);
    for (size_t i = 0; i < count && rc == LK_OK && next < last; i++) {
        if (versions[i].number == next) {
            rc = check_version(store, &versions[i], allowed, err);
            next++;
        }
    }
    if (rc == LK_OK && next < last) {
        rc = lk_fail(err, LK_E_CONFLICT, "version %" PRIu64 " is gone", next);
        lk_detail(err, "version %" PRIu64 " was committed and removed meanwhile", next);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc check_all(lk_store *store, uint64_t checked, const lk_version *last, goes_with *allowed,
    lk_manifest **tip, lk_err *err)
{
    lk_arena arena = {0};
    bool     between = allowed != NULL && last->number > checked + 1;
    lk_rc    rc = between ? check_between(store, checked, last->number, allowed, err) : LK_OK;
    if (rc == LK_OK) {
        rc = lk_manifest_read(store, lk_manifest_key(last->number, last->naming, &arena), tip, err);
    }
    if (rc == LK_OK && last->number > checked) {
        rc = check_operation(store, *tip, allowed, err);
    }
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_rebase(lk_store *store, const lk_manifest *base, uint64_t checked,
    bool (*allowed)(lk_operation other), lk_manifest **tip, lk_err *err)
{
    lk_version last = {0};
    bool       found = false;
    *tip = NULL;
    lk_rc rc = lk_versions_latest(store, &last, &found, err);
    if (rc != LK_OK || !found || last.number <= base->version) {
        return rc;
    }
    rc = check_all(store, checked, &last, allowed, tip, err);
    if (rc != LK_OK) {
        lk_manifest_close(*tip);
        *tip = NULL;
    }
    return rc;
}
