#ifndef LK_ROLLOUT_RECORDS_JSON_H
#define LK_ROLLOUT_RECORDS_JSON_H
/*
 * records_json.h - records as JSON, both ways. Reading is strict: a wrong type, an integer out of range, NaN, a lone
 * surrogate, bad UTF-8 or base64 is LK_E_INVALID_REQUEST that names record, field and rule. Members that are no column are
 * skipped; null is as if it were not there. Writing leaves out nulls, empty relationships and the payload.
 * Threads: stateless.
 */
#include "rollout/records.h"

/* {"records": [...]}, nothing behind it. No record at all is refused. */
LK_MUST_CHECK lk_rc lk_records_read_json(lk_records *r, lk_bytes body, lk_err *err);

/* A record a line; empty lines are skipped. */
LK_MUST_CHECK lk_rc lk_records_read_ndjson(lk_records *r, lk_bytes body, lk_err *err);

/* Appends the record of this row as one JSON object. The batch has columns of these names and kinds in any order and
 * number; others are left out. A NaN or infinity is written as null. */
void lk_record_write_json(
    const struct ArrowSchema *schema, const struct ArrowArray *batch, int64_t row, lk_buf *out);

#endif
