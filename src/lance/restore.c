/*
 * restore.c - an old version once more, as the newest one. Nothing is copied: the new manifest names the old files.
 */
#include "lance/alter.h"
#include "lance/change.h"
#include "lance/dataset_priv.h"
#include "lance/wire.h"

#include <inttypes.h>

typedef struct restoration {
    lk_change    base; /* first: plan_restoration gets this */
    lk_manifest *old;
} restoration;

enum { STICKY_FLAGS = LK_FLAG_MIXED_FILE_VERSIONS | LK_FLAG_FIELD_IDS_NOT_REUSED };

static lk_bytes operation(uint64_t version, lk_arena *arena)
{
    enum { VERSION = 1 }; /* of Restore */
    lk_buf message = {0};
    lk_wire_put_u64(&message, VERSION, version);
    lk_bytes out = lk_arena_copy(arena, lk_buf_view(&message));
    lk_buf_deinit(&message);
    return out;
}

/* What a table learned to keep, it must not forget: an old version may come from before. */
static lk_rc check_kept(const lk_manifest *tip, const lk_manifest *old, lk_err *err)
{
    if (tip->has_field_id_max && !old->has_field_id_max) {
        return lk_refuse(err, LK_E_INVALID_REQUEST,
            "version %" PRIu64 " is from before field ids were never reused: it cannot be restored",
            old->version);
    }
    if ((tip->reader_flags & LK_FLAG_STABLE_ROW_IDS) != 0 &&
        (old->reader_flags & LK_FLAG_STABLE_ROW_IDS) == 0) {
        return lk_refuse(err, LK_E_INVALID_REQUEST,
            "version %" PRIu64 " is from before the table had stable row ids: it cannot be restored",
            old->version);
    }
    return LK_OK;
}

static lk_rc plan_restoration(
    lk_change *change, const lk_manifest *tip, lk_arena *arena, lk_change_plan *plan, lk_err *err)
{
    const lk_manifest *old = ((restoration *)change)->old;
    lk_pb_new_version *version = &plan->version;
    lk_rc              rc = check_kept(tip, old, err);
    if (rc != LK_OK) {
        return rc;
    }
    plan->operation = operation(old->version, arena);
    plan->body = old->body;
    version->reader_flags = old->reader_flags | (tip->reader_flags & STICKY_FLAGS);
    version->writer_flags = old->writer_flags | (tip->writer_flags & STICKY_FLAGS);
    /* Ids that were given out since are not given out again. */
    version->has_fragment_id_max = tip->has_fragment_id_max || old->has_fragment_id_max;
    version->fragment_id_max =
        tip->fragment_id_max > old->fragment_id_max ? tip->fragment_id_max : old->fragment_id_max;
    version->next_row_id = tip->next_row_id > old->next_row_id ? tip->next_row_id : old->next_row_id;
    version->sets_next_row_id = version->next_row_id > 0;
    version->sets_field_id_max = tip->has_field_id_max;
    version->field_id_max = tip->field_id_max > old->field_id_max ? tip->field_id_max : old->field_id_max;
    return lk_manifest_index_section(
        change->env->store, old, arena, &plan->index_section, &plan->has_index_section, err);
}

static const lk_change_ops restore_ops = {LK_OPERATION_RESTORE, NULL, plan_restoration};

static lk_rc check_restore(const lk_manifest *base, const lk_manifest *old, lk_err *err)
{
    lk_rc rc = lk_manifest_check_writable(base, err);
    return rc == LK_OK ? lk_manifest_check_writable(old, err) : rc;
}

lk_rc lk_dataset_restore(lk_dataset *base, lk_committer *committer, uint64_t version,
    const lk_write_options *options, lk_dataset **out, lk_err *err)
{
    lk_dataset  *old = NULL;
    lk_manifest *committed = NULL;
    restoration  r = {
         .base =
             {
                 .ops = &restore_ops,
                 .env = &base->env,
                 .committer = committer,
                 .options = options,
                 .base = base->manifest,
            },
    };
    lk_rc rc = lk_dataset_open(&base->env, version, &old, err);
    if (rc == LK_E_NOT_FOUND) {
        lk_detail(err, "there is no version %" PRIu64, version);
    }
    if (rc == LK_OK) {
        r.old = old->manifest;
        rc = check_restore(base->manifest, r.old, err);
    }
    if (rc == LK_OK) {
        rc = lk_change_commit(&r.base, &committed, err);
    }
    if (rc == LK_OK) {
        *out = lk_dataset_new(&base->env, committed, base->files);
    } else {
        lk_change_undo(&r.base, err);
        lk_context(err, "restore version %" PRIu64 " of %.*s", version, LK_FMT(base->env.store->uri));
    }
    lk_dataset_unref(old);
    lk_change_deinit(&r.base);
    return rc;
}
