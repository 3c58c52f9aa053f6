/* fuzz_serve_rollout.c - a path and, behind a question mark, parameters of a list: what is read lies in the request or the arena,
 * and filters name columns that can be filtered. */
#include "serve/rollout_query_text.h"
#include "serve/rollout_route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_arena              arena = {0};
    lk_err                err = {0};
    lk_rollout_target     target;
    lk_rollout_list_query query;
    lk_bytes              text = {(const char *)data, size};
    const char           *mark = size == 0 ? NULL : memchr(text.data, '?', size);
    lk_bytes              path = {text.data, mark == NULL ? size : (size_t)(mark - text.data)};
    lk_bytes              parameters = mark == NULL ? text : (lk_bytes){mark + 1, size - path.size - 1};
    if (lk_rollout_target_of(path, &arena, &target, &err) == LK_OK) {
        LK_ASSERT(target.resource < LK_ROLLOUT_RESOURCES && target.name.size + target.id.size <= size);
        LK_ASSERT(lk_rollout_resource_name(target.resource) != NULL);
    }
    if (lk_rollout_list_query_read(parameters, &arena, &query, &err) == LK_OK) {
        for (size_t i = 0; i < query.query.filter_count; i++) {
            const lk_rollout_filter *filter = &query.query.filters[i];
            LK_ASSERT(
                filter->column < LK_RECORD_COLUMNS && filter->column != LK_RECORD_COLUMN_binary_payload);
            for (size_t j = 0; j < filter->text_count; j++) {
                LK_ASSERT(filter->texts[j].data != NULL && lk_bytes_are_utf8(filter->texts[j]));
            }
        }
    }
    lk_arena_close(&arena);
    return 0;
}
