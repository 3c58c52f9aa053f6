#ifndef LK_LANCE_COLUMNS_PRIV_H
#define LK_LANCE_COLUMNS_PRIV_H
/*
 * columns_priv.h - the fields of a version as messages, for columns.c (which changes the manifest only) and cast.c
 * (which writes values). Threads: stateless.
 */
#include "lance/change.h"

typedef struct lk_raw_field {
    lk_bytes message;
    int32_t  id, parent_id;
} lk_raw_field;

typedef struct lk_field_list {
    lk_raw_field *items; /* parents before children, as in the manifest */
    size_t        count;
} lk_field_list;

/* Ids, ascending. */
typedef struct lk_id_set {
    int32_t *ids;
    size_t   count;
} lk_id_set;

LK_MUST_CHECK lk_rc lk_columns_list(
    const lk_manifest *manifest, lk_arena *arena, lk_field_list *out, lk_err *err);
lk_id_set       lk_columns_ids(const lk_field_list *list, lk_arena *arena);
const lk_bytes *lk_columns_messages(const lk_field_list *list, lk_arena *arena);

/* The field at a path: index in schema->fields. LK_E_NOT_FOUND. */
LK_MUST_CHECK lk_rc lk_columns_find(const lk_lance_schema *schema, lk_bytes path, size_t *out, lk_err *err);
/* The field of base in a later version. LK_E_CONFLICT. */
LK_MUST_CHECK lk_rc lk_columns_find_again(const lk_manifest *tip, int32_t id, size_t *out, lk_err *err);

LK_MUST_CHECK lk_rc lk_columns_check_name(
    const lk_lance_schema *schema, int32_t parent_id, lk_bytes name, lk_err *err);
/* Whether these columns may be added to this version. */
LK_MUST_CHECK lk_rc lk_columns_check_added(
    const struct ArrowSchema *columns, const lk_manifest *tip, bool have_values, lk_err *err);

/* The Field messages of new columns, whose ids count from first_id; *numbered (may be NULL) is their schema. */
LK_MUST_CHECK lk_rc lk_columns_encode(const struct ArrowSchema *columns, int32_t first_id, lk_arena *arena,
    const lk_bytes **out, size_t *count, lk_lance_schema **numbered, lk_err *err);

/* What the version's fields shall be: the plan's, and Project's or Merge's list of them. */
void lk_columns_set(
    const lk_bytes *messages, size_t count, uint32_t number, lk_change_plan *plan, lk_buf *operation);

/* The fragment's message without the files that hold none of these fields; keeps_one: one stays in any case, because the
 * reference does not read a fragment without files. */
LK_MUST_CHECK lk_rc lk_columns_prune(const lk_fragment *fragment, const lk_id_set *left, bool keeps_one,
    lk_arena *arena, lk_bytes *out, lk_err *err);

#endif
