/* fuzz_cli_rollout.c - what users hand a rollout store's commands: objects that get an id stay what they were, token files are
 * taken line by line or refused. */
#include "cli/rollout_input.h"
#include "cli/rollout_tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_bytes          text = {(const char *)data, size}, id = {0}, again = {0};
    lk_buf            out = {0}, twice = {0};
    lk_err            err = {0};
    lk_rollout_tokens tokens = {0};
    if (lk_rollout_mint(text, (lk_uuid){0}, &out, &id)) {
        bool had = id.size > 0;
        LK_ASSERT(!had || (id.data >= text.data && id.data + id.size <= text.data + size));
        LK_ASSERT(had == lk_bytes_equal(lk_buf_view(&out), text));
        LK_ASSERT(lk_rollout_mint(lk_buf_view(&out), (lk_uuid){0}, &twice, &again) && again.size > 0);
        LK_ASSERT(lk_bytes_equal(lk_buf_view(&out), lk_buf_view(&twice))); /* one is enough */
    }
    if (lk_rollout_tokens_parse(&tokens, "tokens", text, &err) == LK_OK) {
        LK_ASSERT(tokens.count > 0 && tokens.count <= LK_ROLLOUT_TOKENS_MAX);
    }
    lk_rollout_tokens_deinit(&tokens);
    lk_buf_deinit(&out);
    lk_buf_deinit(&twice);
    return 0;
}
