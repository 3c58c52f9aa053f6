#ifndef LK_ARROW_SCHEMA_H
#define LK_ARROW_SCHEMA_H
/*
 * schema.h - schemas built, compared, named in text and checked against the limits.
 * A schema is a struct field (format "+s") whose children are the columns. Threads: stateless.
 */
#include "arrow/batch.h"
#include "arrow/type.h"

/* -- types as text: Arrow's names, as the command line and error messages write them ---------------------
 * null bool int8..int64 uint8..uint64 float16 float32 float64 utf8 large_utf8 binary large_binary
 * fixed_size_binary(N) date32 date64 time32[s|ms] time64[us|ns] timestamp[UNIT] timestamp[UNIT,ZONE]
 * duration[UNIT] month_interval day_time_interval month_day_nano_interval
 * decimal(P,S) decimal32(P,S) decimal64(P,S) decimal128(P,S) decimal256(P,S)
 * list<T> large_list<T> fixed_size_list<T>(N) struct<name:T,...> map<K,V> dictionary<INDEX,T> file
 * Aliases: i8..i64 u8..u64 f16 f32 f64 string int(=int32) float(=float32) double date bytes.
 * A '?' after a type makes that field nullable; without it the field is not. A struct member may be
 * quoted ("a b":int64, "" inside for one quote). `file` is a FILE (below). */

/* Reads one type, with its optional '?', into *out (format, children, flags; name is `name`).
 * LK_E_INVALID_SCHEMA with a detail that shows the place and what was expected. */
LK_MUST_CHECK lk_rc lk_type_parse(lk_bytes text, lk_bytes name, struct ArrowSchema *out, lk_err *err);

/* The inverse, appended to out; '?' where nullable, except for the field itself. Never fails: a format
 * that lake does not carry is written as the C Data Interface spells it. */
void lk_type_format(const struct ArrowSchema *field, lk_buf *out);

/* Reads "name:type[?]" (the name ends at the first colon outside double quotes). */
LK_MUST_CHECK lk_rc lk_column_parse(lk_bytes text, struct ArrowSchema *out, lk_err *err);
/* The same for a whole schema: a struct of these columns. At most LK_COLUMNS_MAX. */
LK_MUST_CHECK lk_rc lk_columns_parse(
    const lk_bytes *texts, size_t count, struct ArrowSchema *out, lk_err *err);

/* -- building -------------------------------------------------------------------------------------- */
/* An empty struct schema with room for `count` children, each zero; fill them by moving fields in. */
void lk_schema_start(struct ArrowSchema *out, size_t count);
/* Moves *columns (count fields) into a new struct schema. */
void lk_schema_of_columns(struct ArrowSchema *columns, size_t count, struct ArrowSchema *out);
/* Copies the listed top-level fields, in that order (schema metadata kept). Indices must be in range. */
LK_MUST_CHECK lk_rc lk_schema_project(const struct ArrowSchema *schema, const size_t *columns, size_t count,
    struct ArrowSchema *out, lk_err *err);

/* FILE: struct<uri:utf8, content_type:utf8, size_bytes:uint64, sha256:utf8>, none nullable, and
 * field metadata lake.type = FILE. */
void lk_schema_file(lk_bytes name, bool nullable, struct ArrowSchema *out);
bool lk_schema_is_file(const struct ArrowSchema *field);

/* A value of key in a field's or schema's metadata; false when absent. Borrows. */
bool lk_schema_metadata(const struct ArrowSchema *schema, const char *key, lk_bytes *value);

/* The index of a top-level column, or -1. */
int64_t lk_schema_find(const struct ArrowSchema *schema, lk_bytes name);

/* -- comparing ------------------------------------------------------------------------------------- */
typedef enum lk_schema_match {
    LK_SCHEMA_EXACT, /* names, order, types, nullability and metadata */
    LK_SCHEMA_APPEND /* names, order and types; metadata and nullability are not looked at */
} lk_schema_match;

/* LK_E_SCHEMA_MISMATCH whose detail names the first column that differs, and how. */
LK_MUST_CHECK lk_rc lk_schema_compare(
    const struct ArrowSchema *expected, const struct ArrowSchema *actual, lk_schema_match match, lk_err *err);

/* Whether a table that is read with SQL may have this schema: 1 to LK_COLUMNS_MAX fields in all, nesting to LK_SCHEMA_DEPTH_MAX,
 * names UTF-8 of 1 to LK_COLUMN_NAME_BYTES_MAX bytes (list items may be unnamed), no name twice in one
 * struct, types of lk_type_of only, a member in every struct. LK_E_INVALID_SCHEMA names the column and the rule. */
LK_MUST_CHECK lk_rc lk_schema_check(const struct ArrowSchema *schema, lk_err *err);

/* The same for a Lance dataset, where a struct may be empty; SQL has no type for one. */
LK_MUST_CHECK lk_rc lk_schema_check_stored(const struct ArrowSchema *schema, lk_err *err);

#endif
