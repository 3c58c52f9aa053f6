#ifndef LK_ROLLOUT_RECORDS_ARROW_H
#define LK_ROLLOUT_RECORDS_ARROW_H
/*
 * records_arrow.h - records out of an Arrow IPC stream: the table's columns by name, in any order and any subset that has id and
 * rollout_id; types that mean the same are converted (arrow/cast.h). Columns of other names are skipped, null is as if the
 * field were not there.
 * Threads: stateless.
 */
#include "rollout/records.h"

/* Takes the stream, also when it fails: lists that are most of it are not copied, and keep it. No record at all is refused.
 * LK_E_INVALID_IPC, LK_E_SCHEMA_MISMATCH, LK_E_INVALID_REQUEST, LK_E_LIMIT. */
LK_MUST_CHECK lk_rc lk_records_read_arrow(lk_records *r, lk_buf *stream, lk_budget *budget, lk_err *err);

#endif
