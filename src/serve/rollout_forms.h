#ifndef LK_SERVE_ROLLOUT_FORMS_H
#define LK_SERVE_ROLLOUT_FORMS_H
/*
 * rollout_forms.h - rows as content: JSON, a line each, Arrow batches or a Parquet file, made batch by batch, so that memory does
 * not grow with the answer. Payloads that were asked for are base64 in texts.
 * Threads: as rollout_output.h says.
 */
#include "arrow/batch.h"
#include "serve/rollout_output.h"

/* Writes rows to a new file of this name, as sql/file_sink.h does. */
typedef lk_rc (*rollout_parquet_writer)(lk_batches *rows, const char *path, uint64_t *count, lk_err *err);

/* What the answers of all readers hold: keys of lists, and of each the batch at hand. */
typedef struct rollout_answers {
    lk_budget     budget;
    atomic_ullong rejections;
} rollout_answers;

/* LK_E_LIMIT, counted, and why: so many bytes wait to be taken. */
LK_MUST_CHECK lk_rc rollout_answers_refuse(rollout_answers *answers, uint64_t held, lk_err *err);

/* Each takes rows. The batch at hand is charged to answers: the first one is refused when there is no room, later ones are not,
 * as an answer that began is not cut for want of it. next_cursor (empty: none) goes with JSON and is borrowed. */
rollout_source *rollout_json_source(lk_batches *rows, rollout_answers *answers, lk_bytes next_cursor);
rollout_source *rollout_ndjson_source(lk_batches *rows, rollout_answers *answers);
rollout_source *rollout_arrow_source(lk_batches *rows, rollout_answers *answers);
rollout_source *rollout_parquet_source(lk_batches *rows, rollout_parquet_writer write);

#endif
