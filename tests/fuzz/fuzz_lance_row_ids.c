/* fuzz_lance_row_ids.c - a sequence of row ids, and of row versions: parsed, read in every way, written and parsed again. */
#include "lance/row_ids.h"

#include <stdlib.h>

enum { ROWS_MAX = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_ids(const lk_row_ids *ids)
{
    uint64_t   all[ROWS_MAX], back[ROWS_MAX];
    lk_arena   arena = {0};
    lk_buf     message = {0};
    lk_id_list list = {0};
    lk_row_ids again = {0};
    lk_err     err = {0};
    lk_row_ids_read(ids, 0, ids->count, all);
    for (uint64_t row = 0; row < ids->count; row += 1 + row / 7) {
        LK_ASSERT(lk_row_ids_at(ids, row) == all[row] && all[row] != LK_ROW_ID_NONE);
        lk_row_ids_read(ids, row, ids->count - row, back);
        LK_ASSERT(memcmp(back, all + row, (ids->count - row) * sizeof *all) == 0);
    }
    lk_id_list_add_slice(&list, ids, 0, ids->count, NULL);
    lk_id_list_encode(&list, &message);
    lk_rc rc = lk_row_ids_parse(lk_buf_view(&message), ids->count, &arena, &again, &err);
    LK_ASSERT(rc == LK_OK);
    lk_row_ids_read(&again, 0, again.count, back);
    LK_ASSERT(memcmp(back, all, ids->count * sizeof *all) == 0);
    lk_id_list_deinit(&list);
    lk_buf_deinit(&message);
    lk_arena_close(&arena);
}

static void use_versions(const lk_row_versions *versions, uint64_t rows)
{
    uint64_t        all[ROWS_MAX];
    lk_version_list list = {0};
    lk_row_versions_read(versions, 0, rows, all);
    for (uint64_t row = 0; row < rows; row += 1 + row / 7) {
        LK_ASSERT(lk_row_versions_at(versions, row) == all[row]);
    }
    lk_version_list_add_slice(&list, versions, 0, rows, NULL);
    LK_ASSERT(list.count == rows);
    lk_version_list_deinit(&list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t counts[] = {0, 1, 3, 6, 20, 22, 30, 37, 60, 100, ROWS_MAX};
    lk_bytes              message = {(const char *)data, size};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        lk_arena        arena = {0};
        lk_row_ids      ids = {0};
        lk_row_versions versions = {0};
        lk_err          err = {0}, versions_err = {0};
        if (lk_row_ids_parse(message, counts[i], &arena, &ids, &err) == LK_OK) {
            use_ids(&ids);
        }
        if (lk_row_versions_parse(message, counts[i], &arena, &versions, &versions_err) == LK_OK) {
            use_versions(&versions, counts[i]);
        }
        LK_ASSERT(arena.used_bytes <= 64 * size + 8192);
        lk_arena_close(&arena);
    }
    return 0;
}
