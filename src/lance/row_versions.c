/*
 * row_versions.c - the versions of row_ids.h: RowDatasetVersionSequence { runs[]: { span U64Segment, version } },
 * of whose spans only the length counts.
 */
#include "lance/row_ids_priv.h"
#include "lance/wire.h"

#include <inttypes.h>

static lk_rc corrupt(lk_err *err, const char *what)
{
    return lk_fail(err, LK_E_CORRUPT_FILE, "%s", what);
}

static lk_rc parse_run(lk_bytes message, uint64_t *rows, uint64_t *version, lk_err *err)
{
    enum { SPAN = 1, VERSION = 2 };
    lk_wire_field field = {0};
    *rows = *version = 0;
    while (message.size > 0) {
        if (!lk_wire_next(&message, &field)) {
            return corrupt(err, "a run of row versions is malformed");
        }
        if (field.number == VERSION) {
            *version = field.varint;
        } else if (field.number == SPAN) {
            lk_rc rc = lk_id_segment_count(field.value, rows, err);
            if (rc != LK_OK) {
                return rc;
            }
        }
    }
    return LK_OK;
}

/* Every run takes at least two bytes of the message. */
lk_rc lk_row_versions_parse(
    lk_bytes message, uint64_t rows, lk_arena *arena, lk_row_versions *out, lk_err *err)
{
    lk_version_list list = {0};
    lk_wire_field   field = {0};
    lk_rc           rc = LK_OK;
    bool            absent = message.size == 0;
    while (message.size > 0 && rc == LK_OK) {
        uint64_t count = 0, version = 0;
        rc = lk_wire_next(&message, &field) ? LK_OK : corrupt(err, "a sequence of row versions is malformed");
        if (rc == LK_OK && field.number == 1) {
            rc = parse_run(field.value, &count, &version, err);
        }
        if (rc == LK_OK && count > rows - list.count) {
            rc = corrupt(err, "more row versions than rows");
        }
        if (rc == LK_OK) {
            lk_version_list_add(&list, version, count);
        }
    }
    if (rc == LK_OK && absent) {
        lk_version_list_add(&list, 1, rows);
    }
    if (rc == LK_OK && list.count < rows) {
        rc = lk_fail(
            err, LK_E_CORRUPT_FILE, "%" PRIu64 " row versions for %" PRIu64 " rows", list.count, rows);
    }
    if (rc == LK_OK) {
        out->runs = (const lk_version_run *)(const void *)lk_arena_copy(arena, lk_buf_view(&list.runs)).data;
        out->run_count = list.runs.size / sizeof(lk_version_run);
    }
    lk_version_list_deinit(&list);
    return rc;
}

static size_t run_of(const lk_row_versions *versions, uint64_t offset)
{
    size_t low = 0, high = versions->run_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (versions->runs[middle].end <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    LK_ASSERT(low < versions->run_count);
    return low;
}

uint64_t lk_row_versions_at(const lk_row_versions *versions, uint64_t offset)
{
    return versions->runs[run_of(versions, offset)].version;
}

void lk_row_versions_read(const lk_row_versions *versions, uint64_t first, uint64_t count, uint64_t *out)
{
    size_t run = count == 0 ? 0 : run_of(versions, first);
    for (uint64_t offset = first; offset < first + count; run++) {
        LK_ASSERT(run < versions->run_count);
        for (; offset < first + count && offset < versions->runs[run].end; offset++) {
            *out++ = versions->runs[run].version;
        }
    }
}

/* -- new ones -------------------------------------------------------------------------------------------- */

void lk_version_list_add(lk_version_list *list, uint64_t version, uint64_t count)
{
    size_t          used = list->runs.size / sizeof(lk_version_run);
    lk_version_run *last = used == 0 ? NULL : (lk_version_run *)(void *)list->runs.data + used - 1;
    list->count += count;
    if (last != NULL && last->version == version) {
        last->end = list->count;
    } else if (count > 0) {
        lk_version_run run = {list->count, version};
        lk_buf_append(&list->runs, &run, sizeof run);
    }
}

static uint64_t count_deleted(const uint64_t *deleted, uint64_t first, uint64_t count)
{
    uint64_t ones = 0;
    for (uint64_t row = first; deleted != NULL && row < first + count; row++) {
        ones += deleted[row / 64] >> (row % 64) & 1;
    }
    return ones;
}

void lk_version_list_add_slice(lk_version_list *list, const lk_row_versions *from, uint64_t first,
    uint64_t count, const uint64_t *deleted)
{
    size_t run = count == 0 ? 0 : run_of(from, first);
    for (uint64_t row = first, end = first + count; row < end; run++) {
        uint64_t stop = from->runs[run].end < end ? from->runs[run].end : end, rows = stop - row;
        lk_version_list_add(list, from->runs[run].version, rows - count_deleted(deleted, row, rows));
        row = stop;
    }
}

static void put_run(lk_buf *out, uint64_t start, uint64_t end, uint64_t version)
{
    enum { RUN = 1, SPAN = 1, VERSION = 2, START = 1, END = 2 };
    lk_buf range = {0}, span = {0}, run = {0};
    lk_wire_put_u64(&range, START, start);
    lk_wire_put_u64(&range, END, end);
    lk_wire_put_bytes(&span, LK_ID_RANGE, lk_buf_view(&range));
    lk_wire_put_bytes(&run, SPAN, lk_buf_view(&span));
    lk_wire_put_u64(&run, VERSION, version);
    lk_wire_put_bytes(out, RUN, lk_buf_view(&run));
    lk_buf_deinit(&range);
    lk_buf_deinit(&span);
    lk_buf_deinit(&run);
}

void lk_version_list_encode(const lk_version_list *list, lk_buf *out)
{
    const lk_version_run *runs = (const lk_version_run *)(const void *)list->runs.data;
    uint64_t              start = 0;
    for (size_t i = 0; i < list->runs.size / sizeof *runs; i++) {
        put_run(out, start, runs[i].end, runs[i].version);
        start = runs[i].end;
    }
}

void lk_version_list_deinit(lk_version_list *list)
{
    lk_buf_deinit(&list->runs);
    list->count = 0;
}
