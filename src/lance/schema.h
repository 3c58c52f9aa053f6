#ifndef LK_LANCE_SCHEMA_H
#define LK_LANCE_SCHEMA_H
/*
 * schema.h - a Lance schema: the Arrow schema and, for every Lance field, its id and its place.
 *
 * Invariants:
 *   1. fields[] is in pre-order: a field's subtree is fields[i .. end), children directly follow parents.
 *   2. Every field has one node of the Arrow tree. The item of a fixed-size list of plain values and the
 *      value of a dictionary are spelled inside the logical type: they have an Arrow node but no field.
 *   3. Ids are unique and >= 0. Files and fragments name columns by id, never by position or name.
 *
 * Logical types Lance knows but Arrow names otherwise (string, halffloat, decimal:128:10:2 ...) are parsed
 * and written here only. A type Lance cannot hold is LK_E_INVALID_SCHEMA with the column and the type as
 * detail; a logical type we do not know is LK_E_UNSUPPORTED_FORMAT.
 * Ownership: counted. Threads: immutable once built.
 */
#include "arrow/batch.h"
#include "base/arena.h"
#include "base/err.h"

#include <stdatomic.h>

enum { LK_FIELD_NONE = -1 };

typedef struct lk_lance_field {
    const struct ArrowSchema *arrow; /* this field's node; borrowed from the lk_lance_schema */
    int32_t                   id;
    int32_t                   parent_id; /* LK_FIELD_NONE at the top */
    size_t                    end;       /* index after the last field of this subtree */
    unsigned                  depth;     /* 0 at the top */
    bool                      leaf;      /* owns exactly one column in 2.1 and 2.2 files */
} lk_lance_field;

typedef struct lk_lance_schema {
    struct ArrowSchema arrow;  /* "+s"; children are the top-level fields in table order */
    lk_lance_field    *fields; /* pre-order, invariant 1 */
    size_t             field_count;
    size_t            *top;  /* index in fields[] of each top-level field: arrow.n_children of them */
    atomic_uint        refs; /* private */
} lk_lance_schema;

/* Keys of a field's metadata: whether it is (part of) the table's key, and its place in that, from 1. */
#define LK_LANCE_KEY          "lance-schema:unenforced-primary-key"
#define LK_LANCE_KEY_POSITION "lance-schema:unenforced-primary-key:position"

/* One field as the protobuf has it: the seam between this file and pb_table. */
typedef struct lk_metadata_pair {
    lk_bytes key, value;
} lk_metadata_pair;

typedef struct lk_field_record {
    lk_bytes                name, logical_type;
    int32_t                 id, parent_id;
    bool                    nullable;
    const lk_metadata_pair *metadata;
    size_t                  metadata_count;
} lk_field_record;

/* A new table's schema: ids in pre-order from 0, or from first_id on. Copies what it keeps. LK_E_LIMIT when there are
 * not that many. */
LK_MUST_CHECK lk_rc lk_lance_schema_from_arrow(
    const struct ArrowSchema *arrow, lk_lance_schema **out, lk_err *err);
LK_MUST_CHECK lk_rc lk_lance_schema_from_arrow_at(
    const struct ArrowSchema *arrow, int32_t first_id, lk_lance_schema **out, lk_err *err);

/* From a manifest or a data file: records in any order that has parents before children. */
LK_MUST_CHECK lk_rc lk_lance_schema_from_records(const lk_field_record *records, size_t count,
    const lk_metadata_pair *metadata, size_t metadata_count, lk_lance_schema **out, lk_err *err);

/* The records of this schema, pre-order, and its own metadata; texts live in the arena. */
void lk_lance_schema_records(const lk_lance_schema *schema, lk_arena *arena, const lk_field_record **records,
    size_t *count, const lk_metadata_pair **metadata, size_t *metadata_count);

lk_lance_schema *lk_lance_schema_ref(lk_lance_schema *schema);
void             lk_lance_schema_close(lk_lance_schema *schema); /* lets one reference go; accepts NULL */

/* The index in fields[] of this id; SIZE_MAX when there is none. */
size_t lk_lance_schema_find(const lk_lance_schema *schema, int32_t id);

/* Appends the FileDescriptor message of a data file (its global buffer 0): this schema and the row count. */
void lk_lance_schema_descriptor(const lk_lance_schema *schema, uint64_t rows, lk_buf *out);

#endif
