#ifndef LK_ARROW_ARRAY_FIXTURE_H
#define LK_ARROW_ARRAY_FIXTURE_H
/* array_fixture.h - small arrays for this room's tests, built by nanoarrow so that ours are checked against it. */
#include "arrow/batch.h"

/* A field of the type text; fails the test when it does not read. */
struct ArrowSchema make_field(const char *type, const char *name);
/* A batch schema of "name:type" texts, NULL after the last. */
struct ArrowSchema make_schema(const char *const *columns);

#define NONE INT64_MIN /* a null among integers */
struct ArrowArray make_integers(const char *type, const int64_t *values, int64_t count);
struct ArrowArray make_texts(const char *type, const char *const *values, int64_t count); /* NULL: null */
/* Lists of int64: counts[i] items taken from a running 0, 1, 2, ...; a negative count is a null list. */
struct ArrowArray make_lists(const char *type, const int64_t *counts, int64_t count);

/* One value as text: "null", a number, or 'text'; lists in brackets; structs in braces. */
void describe_value(
    const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t row, lk_buf *out);
/* The whole array's values, blank between them, equal expected. */
void assert_values(const struct ArrowSchema *schema, const struct ArrowArray *array, const char *expected);

#endif
