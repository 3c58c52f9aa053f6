/*
 * row_lineage.c - see row_lineage.h.
 */
#include "lance/row_lineage.h"

#include "lance/row_identity.h"
#include "lance/wire.h"

#include <inttypes.h>

void lk_row_lineage_deinit(lk_row_lineage *lineage)
{
    lk_id_list_deinit(&lineage->ids);
    lk_version_list_deinit(&lineage->created);
    lk_version_list_deinit(&lineage->updated);
}

typedef struct sequences {
    const lk_row_ids      *ids;
    const lk_row_versions *created, *updated;
} sequences;

static lk_rc find_sequences(lk_dataset *from, size_t fragment, sequences *out, lk_err *err)
{
    lk_rc rc = lk_dataset_row_ids(from, fragment, &out->ids, err);
    if (rc == LK_OK) {
        rc = lk_dataset_row_versions(from, fragment, LK_ROW_CREATED_AT, &out->created, err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_row_versions(from, fragment, LK_ROW_UPDATED_AT, &out->updated, err);
    }
    return rc;
}

lk_rc lk_row_lineage_keep(
    lk_row_lineage *lineage, lk_dataset *from, size_t fragment, uint64_t first, uint64_t count, lk_err *err)
{
    const lk_deletion *deletion = NULL;
    sequences          of = {0};
    if (!lk_dataset_has_stable_row_ids(from)) {
        return LK_OK;
    }
    lk_rc rc = find_sequences(from, fragment, &of, err);
    if (rc == LK_OK) {
        rc = lk_dataset_deletion(from, fragment, &deletion, err);
    }
    if (rc == LK_OK) {
        const uint64_t *deleted = deletion == NULL ? NULL : lk_deletion_bits(deletion);
        lk_id_list_add_slice(&lineage->ids, of.ids, first, count, deleted);
        lk_version_list_add_slice(&lineage->created, of.created, first, count, deleted);
        lk_version_list_add_slice(&lineage->updated, of.updated, first, count, deleted);
    }
    return rc;
}

lk_rc lk_row_lineage_move(
    lk_row_lineage *lineage, lk_dataset *from, const uint64_t *addresses, size_t count, lk_err *err)
{
    sequences of = {0};
    size_t    fragment = SIZE_MAX;
    lk_rc     rc = LK_OK;
    if (!lk_dataset_has_stable_row_ids(from)) {
        return LK_OK;
    }
    for (size_t i = 0; i < count && rc == LK_OK; i++) {
        uint32_t row = (uint32_t)addresses[i];
        if (i == 0 || addresses[i] >> 32 != addresses[i - 1] >> 32) {
            if (!lk_dataset_fragment_number(from, (uint32_t)(addresses[i] >> 32), &fragment)) {
                return lk_fail(err, LK_E_INTERNAL, "no row at address %" PRIu64, addresses[i]);
            }
            rc = find_sequences(from, fragment, &of, err);
        }
        if (rc == LK_OK && row >= of.ids->count) {
            rc = lk_fail(err, LK_E_INTERNAL, "no row at address %" PRIu64, addresses[i]);
        }
        if (rc == LK_OK) {
            lk_id_list_add_range(&lineage->ids, lk_row_ids_at(of.ids, row), 1);
            lk_version_list_add(&lineage->created, lk_row_versions_at(of.created, row), 1);
        }
    }
    return rc;
}

/* -- of a fragment ---------------------------------------------------------------------------------------- */

static lk_bytes keep(lk_buf *message, lk_arena *arena)
{
    lk_bytes kept = lk_arena_copy(arena, lk_buf_view(message));
    lk_buf_deinit(message);
    return kept;
}

/* The known ids, then new ones. */
static lk_bytes encode_ids(const lk_id_list *known, uint64_t start, uint64_t count, lk_arena *arena)
{
    lk_id_list all = {0};
    lk_buf     message = {0};
    lk_buf_append_bytes(&all.runs, lk_buf_view(&known->runs));
    all.count = known->count;
    lk_id_list_add_range(&all, start, count);
    lk_id_list_encode(&all, &message);
    lk_id_list_deinit(&all);
    return keep(&message, arena);
}

/* The known versions, then `version` up to `rows`. */
static lk_bytes encode_versions(
    const lk_version_list *known, uint64_t version, uint64_t rows, lk_arena *arena)
{
    lk_version_list all = {0};
    lk_buf          message = {0};
    lk_buf_append_bytes(&all.runs, lk_buf_view(&known->runs));
    all.count = known->count;
    lk_version_list_add(&all, version, rows - known->count);
    lk_version_list_encode(&all, &message);
    lk_version_list_deinit(&all);
    return keep(&message, arena);
}

lk_rc lk_row_lineage_finish(const lk_row_lineage *lineage, const lk_manifest *tip, lk_pb_new_version *version,
    lk_arena *arena, lk_fragment *fragment, lk_err *err)
{
    static const lk_row_lineage nothing;
    const lk_row_lineage       *known = lineage == NULL ? &nothing : lineage;
    uint64_t                    rows = fragment->physical_rows;
    if ((tip->reader_flags & LK_FLAG_STABLE_ROW_IDS) == 0) {
        return LK_OK;
    }
    LK_ASSERT(known->ids.count <= rows && known->created.count <= rows && known->updated.count <= rows);
    uint64_t next = version->sets_next_row_id ? version->next_row_id : tip->next_row_id;
    uint64_t added = rows - known->ids.count;
    if (added >= LK_ROW_ID_NONE - next) {
        return lk_fail(err, LK_E_LIMIT, "row ids of the table are used up");
    }
    fragment->row_ids = encode_ids(&known->ids, next, added, arena);
    fragment->created_at_versions = encode_versions(&known->created, version->version, rows, arena);
    fragment->updated_at_versions = encode_versions(&known->updated, version->version, rows, arena);
    version->next_row_id = next + added;
    version->sets_next_row_id = true;
    return LK_OK;
}

lk_rc lk_row_lineage_touch(const lk_manifest *tip, const lk_fragment *fragment, lk_bytes message,
    uint64_t version, lk_arena *arena, lk_bytes *out, lk_err *err)
{
    enum { INLINE_UPDATED = 7, COLUMN_UPDATED = 13 };
    static const lk_version_list nothing;
    lk_buf                       rest = {0}, touched = {0};
    *out = message;
    if ((tip->reader_flags & LK_FLAG_STABLE_ROW_IDS) == 0) {
        return LK_OK;
    }
    bool good = lk_wire_copy_without(message, INLINE_UPDATED, &rest) &&
                lk_wire_copy_without(lk_buf_view(&rest), COLUMN_UPDATED, &touched);
    lk_wire_put_bytes(
        &touched, INLINE_UPDATED, encode_versions(&nothing, version, fragment->physical_rows, arena));
    *out = keep(&touched, arena);
    lk_buf_deinit(&rest);
    return good ? LK_OK : lk_fail(err, LK_E_CORRUPT_FILE, "the message of a fragment is malformed");
}
