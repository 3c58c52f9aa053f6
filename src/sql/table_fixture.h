#ifndef LK_SQL_TABLE_FIXTURE_H
#define LK_SQL_TABLE_FIXTURE_H
/*
 * table_fixture.h - for this room's tests: an SQL engine in a temporary directory and tables in memory, whose
 * morsel scan stands in for the storage engine's (linked instead of it).
 * Threads: as the real ones.
 */
#include "sql/sql.h"

/* -- an engine ------------------------------------------------------------------------------------- */
typedef struct sql_fixture {
    lk_sql *sql;
    char    directory[64]; /* spill parent */
    bool    filters_stay;  /* for the statements that follow */
} sql_fixture;

void sql_fixture_open(sql_fixture *f, uint64_t memory_bytes, uint64_t spill_bytes);
void sql_fixture_close(sql_fixture *f);

/* -- a table --------------------------------------------------------------------------------------- */
/* Takes schema and batches (struct arrays). */
lk_table_snapshot *table_new(struct ArrowSchema *schema, struct ArrowArray *batches, size_t batch_count);

/* What its scans did, over all of them; atomics. */
typedef struct table_counters {
    atomic_size_t scans, morsels, rows; /* rows handed out */
    atomic_size_t columns;              /* of the last scan */
    atomic_bool   filtered;             /* the last scan had a predicate */
    atomic_int    delay_us;             /* set by tests: before every morsel */
    atomic_int    fail_at;              /* set by tests: morsel that fails with LK_E_CORRUPT_FILE; 0: none */
} table_counters;
table_counters *table_counters_of(lk_table_snapshot *table);

/*
 * The standard test table, row_count rows in batches of batch_rows, from a seed:
 *   id int64 not null (0, 1, ...); i32 int32; u8 uint8; u64 uint64; x float64 (NaN, -0.0, infinities); f
 *   float32; h float16; s utf8 (few values, empty, multibyte); ls large_utf8; bin binary; fsb
 *   fixed_size_binary(4); b bool; d date32; ts timestamp[us]; tz timestamp[ms,Europe/Berlin]; dur
 *   duration[ms]; dec decimal128(10,2); t32 time32[s]; big decimal256(50,0); Mixed int64 (a name with a
 *   capital letter)
 * Every column but id holds nulls.
 */
lk_table_snapshot *table_standard(size_t row_count, size_t batch_rows, uint64_t seed);

/* id int64 not null, x float64 not null, s utf8 not null of 16 bytes; fast to make. */
lk_table_snapshot *table_plain(size_t row_count, size_t batch_rows);

/* -- statements ------------------------------------------------------------------------------------ */
/* Parses and runs text with these tables in the order of lk_sql_statement_tables; the whole result in one
 * array (released when there are no rows) and its schema. */
lk_rc fixture_query(const sql_fixture *f, const char *text, lk_table_snapshot *const *tables,
    bool engine_only, struct ArrowSchema *schema, struct ArrowArray *rows, lk_err *err);

/* The same as text: columns split by '|', rows by '\n', null as NULL, floats as %.9g. Free it. */
char *fixture_text(const sql_fixture *f, const char *text, lk_table_snapshot *const *tables, bool engine_only,
    lk_err *err); /* "error NAME: detail" on failure */
char *fixture_format(const struct ArrowSchema *schema, const struct ArrowArray *rows);

#endif
