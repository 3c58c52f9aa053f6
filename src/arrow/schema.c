/* schema.c - see schema.h: building, metadata, comparison, limits. The type names are type_text.c. */
#include "arrow/schema.h"

#include "arrow/utf8.h"
#include "base/limits.h"

#include <stdio.h>
#include <stdlib.h>

#define FILE_KEY   "lake.type"
#define FILE_VALUE "FILE"

static void must(ArrowErrorCode code) /* nanoarrow's schema setters fail only when memory is out */
{
    LK_ASSERT(code == NANOARROW_OK);
}

static lk_bytes name_of(const struct ArrowSchema *field)
{
    return lk_bytes_of(field->name);
}

/* -- building ---------------------------------------------------------------------------------------- */

void lk_schema_start(struct ArrowSchema *out, size_t count)
{
    ArrowSchemaInit(out);
    must(ArrowSchemaSetFormat(out, "+s"));
    must(ArrowSchemaSetName(out, ""));
    must(ArrowSchemaAllocateChildren(out, (int64_t)count));
    out->flags = 0;
}

void lk_schema_of_columns(struct ArrowSchema *columns, size_t count, struct ArrowSchema *out)
{
    lk_schema_start(out, count);
    for (size_t i = 0; i < count; i++) {
        lk_schema_move(&columns[i], out->children[i]);
    }
}

lk_rc lk_schema_project(const struct ArrowSchema *schema, const size_t *columns, size_t count,
    struct ArrowSchema *out, lk_err *err)
{
    struct ArrowSchema made;
    lk_schema_start(&made, count);
    made.flags = schema->flags;
    must(ArrowSchemaSetMetadata(&made, schema->metadata));
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        LK_ASSERT(columns[i] < (size_t)schema->n_children);
        rc = lk_schema_copy(schema->children[columns[i]], made.children[i], err);
    }
    if (rc != LK_OK) {
        lk_schema_release(&made);
        out->release = NULL;
        return rc;
    }
    lk_schema_move(&made, out);
    return LK_OK;
}

void lk_schema_file(lk_bytes name, bool nullable, struct ArrowSchema *out)
{
    static const char *const members[][2] = {
        {"uri", "u"}, {"content_type", "u"}, {"size_bytes", "L"}, {"sha256", "u"}};
    lk_schema_start(out, 4);
    for (size_t i = 0; i < 4; i++) {
        ArrowSchemaInit(out->children[i]);
        must(ArrowSchemaSetFormat(out->children[i], members[i][1]));
        must(ArrowSchemaSetName(out->children[i], members[i][0]));
        out->children[i]->flags = 0;
    }
    lk_buf text = {0};
    lk_buf_append_bytes(&text, name);
    lk_buf_append(&text, "", 1);
    must(ArrowSchemaSetName(out, text.data));
    lk_buf_deinit(&text);
    out->flags = nullable ? ARROW_FLAG_NULLABLE : 0;
    struct ArrowBuffer metadata;
    must(ArrowMetadataBuilderInit(&metadata, NULL));
    must(ArrowMetadataBuilderAppend(&metadata, ArrowCharView(FILE_KEY), ArrowCharView(FILE_VALUE)));
    must(ArrowSchemaSetMetadata(out, (const char *)metadata.data));
    ArrowBufferReset(&metadata);
}

bool lk_schema_metadata(const struct ArrowSchema *schema, const char *key, lk_bytes *value)
{
    struct ArrowStringView found = {NULL, 0};
    if (schema->metadata == NULL || !ArrowMetadataHasKey(schema->metadata, ArrowCharView(key)) ||
        ArrowMetadataGetValue(schema->metadata, ArrowCharView(key), &found) != NANOARROW_OK) {
        return false;
    }
    *value = (lk_bytes){found.data, (size_t)found.size_bytes};
    return true;
}

bool lk_schema_is_file(const struct ArrowSchema *field)
{
    lk_bytes value;
    if (!lk_schema_metadata(field, FILE_KEY, &value) || !lk_bytes_equal(value, LK_LITERAL(FILE_VALUE))) {
        return false;
    }
    struct ArrowSchema file;
    lk_err             ignored = {0};
    lk_schema_file(name_of(field), false, &file);
    bool same = lk_schema_compare(&file, field, LK_SCHEMA_APPEND, &ignored) == LK_OK;
    lk_schema_release(&file);
    return same;
}

int64_t lk_schema_find(const struct ArrowSchema *schema, lk_bytes name)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (lk_bytes_equal(name_of(schema->children[i]), name)) {
            return i;
        }
    }
    return -1;
}

/* -- comparing --------------------------------------------------------------------------------------- */

typedef struct comparison {
    lk_schema_match           match;
    const struct ArrowSchema *column; /* the top-level field we are in, for the message */
    lk_err                   *err;
} comparison;

static lk_rc differ(
    comparison *c, const char *what, const struct ArrowSchema *expected, const struct ArrowSchema *actual)
{
    lk_buf want = {0}, have = {0};
    lk_type_format(expected, &want);
    lk_type_format(actual, &have);
    lk_rc       rc = lk_fail(c->err, LK_E_SCHEMA_MISMATCH, "schemas differ: %s", what);
    const char *name = c->column == NULL || c->column->name == NULL ? "" : c->column->name;
    if (strcmp(what, "type") == 0) {
        lk_detail(c->err, "column '%.80s' is %.60s, but the table has %.60s", name, have.data, want.data);
    } else {
        lk_detail(c->err, "column '%.80s': %s differs from the table's", name, what);
    }
    lk_buf_deinit(&want);
    lk_buf_deinit(&have);
    return rc;
}

static bool same_metadata(const char *a, const char *b)
{
    struct ArrowMetadataReader reader;
    struct ArrowStringView     key, value, other;
    int64_t                    count = 0;
    must(ArrowMetadataReaderInit(&reader, a));
    while (ArrowMetadataReaderRead(&reader, &key, &value) == NANOARROW_OK) {
        other = (struct ArrowStringView){NULL, 0};
        count++;
        if (b == NULL || !ArrowMetadataHasKey(b, key) ||
            ArrowMetadataGetValue(b, key, &other) != NANOARROW_OK || other.size_bytes != value.size_bytes ||
            (value.size_bytes > 0 && memcmp(other.data, value.data, (size_t)value.size_bytes) != 0)) {
            return false;
        }
    }
    must(ArrowMetadataReaderInit(&reader, b));
    while (ArrowMetadataReaderRead(&reader, &key, &value) == NANOARROW_OK) {
        count--;
    }
    return count == 0;
}

static bool is_list(lk_type_id id)
{
    return id == LK_TYPE_LIST || id == LK_TYPE_LARGE_LIST || id == LK_TYPE_FIXED_LIST || id == LK_TYPE_MAP;
}

/* "d:12,2" is short for "d:12,2,128". */
static size_t decimal_size(const char *format)
{
    size_t      size = strlen(format);
    const char *first = strchr(format, ','), *second = first == NULL ? NULL : strchr(first + 1, ',');
    return second != NULL && strcmp(second, ",128") == 0 ? (size_t)(second - format) : size;
}

static bool same_format(const char *a, const char *b)
{
    if (strncmp(a, "d:", 2) != 0 || strncmp(b, "d:", 2) != 0) {
        return strcmp(a, b) == 0;
    }
    size_t size = decimal_size(a);
    return size == decimal_size(b) && memcmp(a, b, size) == 0;
}

static lk_rc compare_field(
    comparison *c, const struct ArrowSchema *expected, const struct ArrowSchema *actual, bool named);

static lk_rc compare_exactly(
    comparison *c, const struct ArrowSchema *expected, const struct ArrowSchema *actual)
{
    int64_t looked_at = ARROW_FLAG_NULLABLE | ARROW_FLAG_DICTIONARY_ORDERED | ARROW_FLAG_MAP_KEYS_SORTED;
    if ((expected->flags & looked_at) != (actual->flags & looked_at)) {
        return differ(c, "nullability", expected, actual);
    }
    return same_metadata(expected->metadata, actual->metadata) ? LK_OK
                                                               : differ(c, "metadata", expected, actual);
}

static lk_rc compare_children(
    comparison *c, const struct ArrowSchema *expected, const struct ArrowSchema *actual)
{
    lk_type type;
    bool    named = c->match == LK_SCHEMA_EXACT || !lk_type_of(expected, &type) || !is_list(type.id);
    lk_rc   rc = LK_OK;
    for (int64_t i = 0; rc == LK_OK && i < expected->n_children; i++) {
        /* what a list calls its items is not part of its type, nor what a map calls keys and values */
        rc = compare_field(c, expected->children[i], actual->children[i], named);
    }
    return rc;
}

static lk_rc compare_field(
    comparison *c, const struct ArrowSchema *expected, const struct ArrowSchema *actual, bool named)
{
    if (named && !lk_bytes_equal(name_of(expected), name_of(actual))) {
        return differ(c, "the name of a member", expected, actual);
    }
    if (!same_format(expected->format, actual->format) || expected->n_children != actual->n_children ||
        (expected->dictionary == NULL) != (actual->dictionary == NULL)) {
        return differ(c, "type", expected, actual);
    }
    lk_rc rc = c->match == LK_SCHEMA_EXACT ? compare_exactly(c, expected, actual) : LK_OK;
    if (rc == LK_OK && expected->dictionary != NULL) {
        rc = compare_field(c, expected->dictionary, actual->dictionary, false);
    }
    return rc == LK_OK ? compare_children(c, expected, actual) : rc;
}

static lk_rc compare_counts(
    const struct ArrowSchema *expected, const struct ArrowSchema *actual, int64_t at, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_SCHEMA_MISMATCH, "schemas differ at column %lld", (long long)at);
    if (at >= actual->n_children) {
        return lk_detail(err, "column '%.100s' is missing", expected->children[at]->name), rc;
    }
    if (at >= expected->n_children) {
        return lk_detail(err, "column '%.100s' is not in the table", actual->children[at]->name), rc;
    }
    return lk_detail(err, "column %lld is '%.80s', but the table has '%.80s'", (long long)at + 1,
               actual->children[at]->name, expected->children[at]->name),
           rc;
}

lk_rc lk_schema_compare(
    const struct ArrowSchema *expected, const struct ArrowSchema *actual, lk_schema_match match, lk_err *err)
{
    int64_t count = expected->n_children > actual->n_children ? expected->n_children : actual->n_children;
    for (int64_t i = 0; i < count; i++) {
        if (i >= expected->n_children || i >= actual->n_children ||
            !lk_bytes_equal(name_of(expected->children[i]), name_of(actual->children[i]))) {
            return compare_counts(expected, actual, i, err);
        }
        comparison c = {match, expected->children[i], err};
        lk_rc      rc = compare_field(&c, expected->children[i], actual->children[i], true);
        if (rc != LK_OK) {
            return rc;
        }
    }
    if (match == LK_SCHEMA_EXACT && !same_metadata(expected->metadata, actual->metadata)) {
        lk_rc rc = lk_fail(err, LK_E_SCHEMA_MISMATCH, "schema metadata differs");
        return lk_detail(err, "the schema's metadata differs from the table's"), rc;
    }
    return LK_OK;
}

/* -- limits ------------------------------------------------------------------------------------------ */

typedef struct check {
    const char *column;
    size_t      fields;
    bool        stored; /* structs without a member are allowed */
    lk_err     *err;
} check;

static lk_rc refuse(check *c, const char *format, int64_t number)
{
    char  rule[128];
    lk_rc rc = lk_fail(c->err, LK_E_INVALID_SCHEMA, "schema check");
    snprintf(rule, sizeof rule, format, (long long)number);
    if (c->column == NULL) {
        return lk_detail(c->err, "%s", rule), rc;
    }
    size_t size = strlen(c->column);
    int    shown = lk_utf8_valid(c->column, size) ? (int)(size > 80 ? 80 : size) : 0;
    return lk_detail(c->err, "column '%.*s': %s", shown, c->column, rule), rc;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the names, so that thousands of columns are no quadratic matter. */
static lk_rc check_unique(check *c, const struct ArrowSchema *parent)
{
    size_t       count = (size_t)parent->n_children;
    const char **names = malloc((count + 1) * sizeof *names);
    LK_ASSERT(names != NULL);
    for (size_t i = 0; i < count; i++) {
        names[i] = parent->children[i]->name;
    }
    qsort(names, count, sizeof *names, by_name);
    lk_rc rc = LK_OK;
    for (size_t i = 1; rc == LK_OK && i < count; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            c->column = names[i];
            rc = refuse(c, "two fields have this name", 0);
        }
    }
    free(names);
    return rc;
}

static lk_rc check_name(check *c, const struct ArrowSchema *field)
{
    lk_bytes name = name_of(field);
    if (name.size == 0) {
        return refuse(c, "a name is empty", 0);
    }
    if (name.size > LK_COLUMN_NAME_BYTES_MAX) {
        return refuse(c, "a name is longer than %lld bytes", LK_COLUMN_NAME_BYTES_MAX);
    }
    return lk_utf8_valid(name.data, name.size) ? LK_OK : refuse(c, "a name is not UTF-8", 0);
}

static lk_rc check_field(check *c, const struct ArrowSchema *field, bool named, int depth);

static lk_rc check_children(check *c, const struct ArrowSchema *field, bool named, int depth)
{
    lk_rc rc = LK_OK;
    for (int64_t i = 0; rc == LK_OK && i < field->n_children; i++) {
        if (depth == 0) {
            c->column = field->children[i]->name;
        }
        rc = check_field(c, field->children[i], named, depth + 1);
    }
    return rc == LK_OK && named ? check_unique(c, field) : rc;
}

static lk_rc check_type(check *c, const struct ArrowSchema *field, const lk_type *type)
{
    if (type->id == LK_TYPE_FIXED_LIST && type->list_size < 1) {
        return refuse(c, "a fixed-size list needs a size of at least 1", 0);
    }
    if (type->id == LK_TYPE_FIXED_BINARY && type->width < 1) {
        return refuse(c, "fixed-size binary needs a size of at least 1", 0);
    }
    if (!c->stored && type->id == LK_TYPE_STRUCT && field->n_children == 0) {
        return refuse(c, "a struct needs at least one member", 0);
    }
    return LK_OK;
}

static lk_rc check_field(check *c, const struct ArrowSchema *field, bool named, int depth)
{
    lk_type type;
    if (depth > LK_SCHEMA_DEPTH_MAX) {
        return refuse(c, "types nest deeper than %lld", LK_SCHEMA_DEPTH_MAX);
    }
    if (++c->fields > LK_COLUMNS_MAX) {
        return refuse(c, "the schema has more than %lld fields", LK_COLUMNS_MAX);
    }
    lk_rc rc = named ? check_name(c, field) : LK_OK;
    if (rc != LK_OK) {
        return rc;
    }
    if (!lk_type_of(field, &type)) {
        return refuse(c, "the type is not supported (unions, views and run-end encoding are not)", 0);
    }
    rc = check_type(c, field, &type);
    if (rc == LK_OK && type.dictionary) {
        rc = check_field(c, field->dictionary, false, depth + 1);
    }
    return rc == LK_OK ? check_children(c, field, type.id == LK_TYPE_STRUCT, depth) : rc;
}

static lk_rc check_schema(check *c, const struct ArrowSchema *schema)
{
    if (schema->format == NULL || strcmp(schema->format, "+s") != 0) {
        return refuse(c, "the schema is not a struct of columns", 0);
    }
    if (schema->n_children == 0) {
        return refuse(c, "a table needs at least one column", 0);
    }
    return check_children(c, schema, true, 0);
}

lk_rc lk_schema_check(const struct ArrowSchema *schema, lk_err *err)
{
    check c = {.err = err};
    return check_schema(&c, schema);
}

lk_rc lk_schema_check_stored(const struct ArrowSchema *schema, lk_err *err)
{
    check c = {.stored = true, .err = err};
    return check_schema(&c, schema);
}
