#ifndef LK_ROLLOUT_RECORDS_H
#define LK_ROLLOUT_RECORDS_H
/*
 * records.h - rollout records on their way in: the columns of a rollout table (records.def), and a builder that takes
 * them field by field and gives one Arrow batch with defaults filled in and payloads checked.
 *
 * One record is one message of a trajectory. Fields may be set in any order, each once a record.
 *
 * Invariants:
 *   1. Every column has as many values as records were ended; a builder that refused something gives no batch.
 *   2. Memory follows the input; it is charged to the budget record by record.
 * Threads: confined.
 */
#include "arrow/batch.h"

typedef enum lk_record_kind {
    LK_RECORD_TEXT,
    LK_RECORD_LARGE_TEXT,
    LK_RECORD_JSON,      /* any JSON value, as its text */
    LK_RECORD_ROLE,      /* a text, dictionary-encoded with 8-bit indices */
    LK_RECORD_TIMESTAMP, /* microseconds since 1970, UTC */
    LK_RECORD_BOOL,
    LK_RECORD_INT32,
    LK_RECORD_INT64,
    LK_RECORD_FLOAT,
    LK_RECORD_INT8_LIST,
    LK_RECORD_INT32_LIST,
    LK_RECORD_FLOAT_LIST,
    LK_RECORD_RELATIONSHIPS, /* list of (target_id, relation, weight) */
    LK_RECORD_BINARY
} lk_record_kind;

typedef enum lk_record_column {
#define X(name, kind, nullable, newer) LK_RECORD_COLUMN_##name,
#include "rollout/records.def"
#undef X
    LK_RECORD_COLUMNS
} lk_record_column;

enum {
    LK_RECORD_ROLES_MAX = 128, /* distinct ones in a request: 8-bit indices */
    LK_RECORD_ID_BYTES_MAX = 1024,
    LK_RECORD_ROWS_MAX = 65536 /* of one request */
};

const char    *lk_record_column_name(lk_record_column column);
lk_record_kind lk_record_column_kind(lk_record_column column);
/* LK_RECORD_COLUMNS when there is no such column. `hint` is looked at first. */
lk_record_column lk_record_column_of(lk_bytes name, lk_record_column hint);

/* The schema of a table with (36 columns) or without (31) those that lance-context 0.6.3 does not know. */
void lk_record_schema(bool newer, struct ArrowSchema *out);
/* The 36, made once for all: never released. */
const struct ArrowSchema *lk_record_columns(void);

/* -- building ---------------------------------------------------------------------------------------------- */
typedef struct lk_records lk_records;

/* now_us: created_at of records that have none. budget: borrowed; NULL: unlimited. */
LK_MUST_CHECK lk_rc lk_records_open(uint64_t now_us, lk_budget *budget, lk_records **out, lk_err *err);
void                lk_records_close(lk_records *records); /* accepts NULL */

/*
 * Setters of the present record. A refusal (LK_E_INVALID_REQUEST) names record and field. Columns of the kind that the
 * setter is for only; texts must be UTF-8.
 */
LK_MUST_CHECK lk_rc lk_records_set_text(lk_records *r, lk_record_column column, lk_bytes text, lk_err *err);
LK_MUST_CHECK lk_rc lk_records_set_integer(
    lk_records *r, lk_record_column column, int64_t value, lk_err *err);
LK_MUST_CHECK lk_rc lk_records_set_float(lk_records *r, lk_record_column column, float value, lk_err *err);
LK_MUST_CHECK lk_rc lk_records_set_bool(lk_records *r, lk_record_column column, bool value, lk_err *err);

/* A list: begin, then its values straight into the buffer that begin gives (nulls by _list_null), then end. */
LK_MUST_CHECK lk_rc lk_records_list_begin(
    lk_records *r, lk_record_column column, struct ArrowBuffer **values, lk_err *err);
/* Room for `count` values more of the column's lists: they come list by list. */
LK_MUST_CHECK lk_rc lk_records_list_reserve(
    lk_records *r, lk_record_column column, int64_t count, lk_err *err);
void                lk_records_list_null(lk_records *r, lk_record_column column); /* adds one null value */
LK_MUST_CHECK lk_rc lk_records_list_end(lk_records *r, lk_record_column column, lk_err *err);
/* Before the first record: the values of the column's lists lie elsewhere already, `count` of them, aligned as their type is and
 * none null; end(context) is called when nobody needs them any more. So many records that hold them end their lists with
 * _list_end_at, of the number of values up to there. */
void lk_records_list_lend(lk_records *r, lk_record_column column, const void *values, int64_t count,
    void (*end)(void *context), void *context);
LK_MUST_CHECK lk_rc lk_records_list_end_at(
    lk_records *r, lk_record_column column, int64_t count, lk_err *err);

/* One of the record's relationships; a text with data NULL and a NULL weight are null. */
LK_MUST_CHECK lk_rc lk_records_add_relationship(
    lk_records *r, lk_bytes target_id, lk_bytes relation, const float *weight, lk_err *err);

/* The payload of a record (also of an earlier one), once. Copied unless borrow is set: then it must live until finish. */
LK_MUST_CHECK lk_rc lk_records_set_payload(
    lk_records *r, size_t record, lk_bytes payload, bool borrow, lk_err *err);

/* Ends the record: what it must have is there, what was not set is its default. */
LK_MUST_CHECK lk_rc lk_records_end(lk_records *r, lk_err *err);

size_t lk_records_count(const lk_records *r);
/* The id of a record that was ended; borrowed until the next record. */
lk_bytes lk_records_id(const lk_records *r, size_t record);
/* Whether a record came with its own created_at. */
bool lk_records_has_time(const lk_records *r, size_t record);

/*
 * Ends building: one batch with all columns. A record whose declared payload_size is not its payload's, or whose
 * payload_checksum starts with "sha256:" and is not its payload's, is LK_E_INVALID_REQUEST, and with payloads_due
 * one that declares a size and has no payload. A payload without a declared size gives it.
 */
LK_MUST_CHECK lk_rc lk_records_finish(lk_records *r, bool payloads_due, struct ArrowArray *out, lk_err *err);

#endif
