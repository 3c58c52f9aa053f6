/* table_fixture.c - see table_fixture.h. */
#include "sql/table_fixture.h"

#include "arrow/schema.h"
#include "arrow/type.h"
#include "base/file.h"
#include "base/rand.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void must(bool good)
{
    if (!good) {
        abort();
    }
}

/* -- an engine ------------------------------------------------------------------------------------- */

void sql_fixture_open(sql_fixture *f, uint64_t memory_bytes, uint64_t spill_bytes)
{
    lk_err err = {0};
    f->filters_stay = false;
    (void)snprintf(f->directory, sizeof f->directory, "/tmp/lake-sql-test-XXXXXX");
    must(mkdtemp(f->directory) != NULL);
    const lk_sql_options options = {.spill_directory = lk_bytes_of(f->directory),
        .memory_bytes = memory_bytes,
        .spill_bytes = spill_bytes,
        .thread_count = 2,
        .sql_bytes_max = 1024 * 1024};
    must(lk_sql_open(&f->sql, &options, &err) == LK_OK);
}

void sql_fixture_close(sql_fixture *f)
{
    lk_err err = {0};
    lk_sql_close(f->sql);
    must(lk_directory_remove(f->directory, &err) == LK_OK);
}

/* -- a table --------------------------------------------------------------------------------------- */

typedef struct table {
    lk_table_snapshot  base;
    struct ArrowSchema schema;
    lk_shared_array  **batches;
    size_t             batch_count;
    uint64_t           row_count;
    table_counters     counters;
} table;

struct lk_morsel_scan {
    table              *table;
    struct ArrowSchema  schema;
    size_t             *columns, column_count;
    const lk_predicate *predicate;
    uint64_t            left; /* of the limit; the plain scan only */
    lk_cancel          *cancel;
    atomic_size_t       next;
};

static const struct ArrowSchema *table_schema(const lk_table_snapshot *snapshot)
{
    return &((const table *)snapshot)->schema;
}

static uint64_t table_row_count(const lk_table_snapshot *snapshot)
{
    return ((const table *)snapshot)->row_count;
}

static size_t table_bytes(const lk_table_snapshot *snapshot)
{
    (void)snapshot;
    return 0;
}

static void table_free(lk_table_snapshot *snapshot)
{
    table *t = (table *)snapshot;
    for (size_t i = 0; i < t->batch_count; i++) {
        lk_shared_array_unref(t->batches[i]);
    }
    free(t->batches);
    lk_schema_release(&t->schema);
    free(t);
}

static lk_rc table_morsels(
    lk_table_snapshot *snapshot, const lk_scan_options *options, lk_morsel_scan **out, lk_err *err)
{
    table          *t = (table *)snapshot;
    lk_morsel_scan *scan = calloc(1, sizeof *scan);
    must(scan != NULL);
    scan->table = t;
    scan->predicate = options->predicate;
    scan->left = options->limit;
    scan->cancel = options->cancel;
    bool all = options->columns == NULL && !options->no_columns;
    scan->column_count = options->no_columns ? 0 : all ? (size_t)t->schema.n_children : options->column_count;
    scan->columns = calloc(scan->column_count + 1, sizeof *scan->columns);
    for (size_t i = 0; i < scan->column_count; i++) {
        scan->columns[i] = all ? i : options->columns[i];
    }
    atomic_fetch_add(&t->counters.scans, 1);
    atomic_store(&t->counters.columns, scan->column_count);
    atomic_store(&t->counters.filtered, options->predicate != NULL);
    lk_rc rc = lk_schema_project(&t->schema, scan->columns, scan->column_count, &scan->schema, err);
    *out = scan;
    return rc;
}

size_t lk_morsel_scan_count(const lk_morsel_scan *scan)
{
    return scan->table->batch_count;
}

const struct ArrowSchema *lk_morsel_scan_schema(const lk_morsel_scan *scan)
{
    return &scan->schema;
}

void lk_morsel_scan_close(lk_morsel_scan *scan)
{
    lk_schema_release(&scan->schema);
    free(scan->columns);
    free(scan);
}

/* The rows of `whole` that pass, all columns. */
static lk_rc filter(const lk_morsel_scan *scan, struct ArrowArray *whole, lk_err *err)
{
    const struct ArrowSchema *schema = &scan->table->schema;
    size_t                   *every = calloc((size_t)schema->n_children + 1, sizeof *every);
    uint8_t                  *keep = calloc((size_t)whole->length + 1, 1);
    for (size_t i = 0; i < (size_t)schema->n_children; i++) {
        every[i] = i;
    }
    lk_rc rc =
        lk_predicate_evaluate(scan->predicate, schema, whole, every, (size_t)schema->n_children, keep, err);
    int64_t kept = 0;
    for (int64_t i = 0; i < whole->length; i++) {
        kept += keep[i];
    }
    struct ArrowArray out = {0};
    if (rc == LK_OK) {
        rc = lk_array_filter(schema, whole, keep, kept, &out, err);
    }
    free(every);
    free(keep);
    lk_array_release(whole);
    if (rc == LK_OK) {
        lk_array_move(&out, whole);
    }
    return rc;
}

static void project(const lk_morsel_scan *scan, struct ArrowArray *whole, struct ArrowArray *out)
{
    must(ArrowArrayInitFromType(out, NANOARROW_TYPE_STRUCT) == NANOARROW_OK);
    must(ArrowArrayAllocateChildren(out, (int64_t)scan->column_count) == NANOARROW_OK);
    out->length = whole->length;
    for (size_t i = 0; i < scan->column_count; i++) {
        lk_array_move(whole->children[scan->columns[i]], out->children[i]);
    }
    lk_array_release(whole);
}

lk_rc lk_morsel_scan_next(
    lk_morsel_scan *scan, struct ArrowArray *out, size_t *morsel_number, bool *done, lk_err *err)
{
    table *t = scan->table;
    size_t at = atomic_fetch_add(&scan->next, 1);
    *out = (struct ArrowArray){0};
    *done = at >= t->batch_count;
    if (*done) {
        return LK_OK;
    }
    int delay = atomic_load(&t->counters.delay_us);
    if (delay > 0) {
        (void)usleep((useconds_t)delay);
    }
    lk_rc rc = lk_cancel_check(scan->cancel, err);
    if (rc == LK_OK && (int)at + 1 == atomic_load(&t->counters.fail_at)) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "as the test asked");
    }
    if (rc != LK_OK) {
        return rc;
    }
    struct ArrowArray whole = {0};
    *morsel_number = at;
    lk_shared_array_slice(t->batches[at], 0, lk_shared_array_get(t->batches[at])->length, &whole);
    if (scan->predicate != NULL) {
        rc = filter(scan, &whole, err);
    }
    if (rc == LK_OK) {
        atomic_fetch_add(&t->counters.morsels, 1);
        atomic_fetch_add(&t->counters.rows, (size_t)whole.length);
        project(scan, &whole, out);
    }
    return rc;
}

typedef struct scan_batches {
    lk_batches      base;
    lk_morsel_scan *scan;
} scan_batches;

static lk_rc scan_next(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    scan_batches *self = (scan_batches *)batches;
    size_t        number = 0;
    bool          done = false;
    *out = (struct ArrowArray){0};
    if (self->scan->left == 0) {
        return LK_OK;
    }
    lk_rc rc = lk_morsel_scan_next(self->scan, out, &number, &done, err);
    if (rc != LK_OK || out->release == NULL) {
        return rc;
    }
    if ((uint64_t)out->length > self->scan->left) {
        struct ArrowArray cut = {0};
        lk_shared_array  *shared = lk_array_share(out);
        lk_shared_array_slice(shared, 0, (int64_t)self->scan->left, &cut);
        lk_shared_array_unref(shared);
        lk_array_move(&cut, out);
    }
    self->scan->left -= (uint64_t)out->length;
    return LK_OK;
}

static void scan_close(lk_batches *batches)
{
    scan_batches *self = (scan_batches *)batches;
    lk_morsel_scan_close(self->scan);
    lk_schema_release(&self->base.schema);
    free(self);
}

static lk_rc table_scan(
    lk_table_snapshot *snapshot, const lk_scan_options *options, lk_batches **out, lk_err *err)
{
    scan_batches *self = calloc(1, sizeof *self);
    must(self != NULL);
    self->base.next = scan_next;
    self->base.close = scan_close;
    lk_rc rc = table_morsels(snapshot, options, &self->scan, err);
    if (rc == LK_OK) {
        rc = lk_schema_copy(&self->scan->schema, &self->base.schema, err);
    }
    *out = &self->base;
    return rc;
}

static const struct lk_table_snapshot_ops table_ops = {.schema = table_schema,
    .row_count = table_row_count,
    .scan = table_scan,
    .morsels = table_morsels,
    .bytes = table_bytes,
    .free = table_free};

lk_table_snapshot *table_new(struct ArrowSchema *schema, struct ArrowArray *batches, size_t batch_count)
{
    table *t = calloc(1, sizeof *t);
    must(t != NULL);
    t->base.ops = &table_ops;
    atomic_init(&t->base.refs, 1);
    lk_schema_move(schema, &t->schema);
    t->batches = calloc(batch_count + 1, sizeof *t->batches);
    t->batch_count = batch_count;
    for (size_t i = 0; i < batch_count; i++) {
        t->row_count += (uint64_t)batches[i].length;
        t->batches[i] = lk_array_share(&batches[i]);
    }
    return &t->base;
}

table_counters *table_counters_of(lk_table_snapshot *snapshot)
{
    return &((table *)snapshot)->counters;
}

/* -- made-up rows ---------------------------------------------------------------------------------- */

static const char *const standard_columns[] = {"id:int64", "i32:int32?", "u8:uint8?", "u64:uint64?",
    "x:float64?", "f:float32?", "h:float16?", "s:utf8?", "ls:large_utf8?", "bin:binary?",
    "fsb:fixed_size_binary(4)?", "b:bool?", "d:date32?", "ts:timestamp[us]?",
    "tz:timestamp[ms,Europe/Berlin]?", "dur:duration[ms]?", "dec:decimal(10,2)?", "t32:time32[s]?",
    "big:decimal256(50,0)?", "Mixed:int64?"};
enum { STANDARD_COLUMNS = sizeof standard_columns / sizeof standard_columns[0] };

static double odd_double(uint64_t r)
{
    static const double odd[] = {0.0, -0.0, 1.0, -1.5, 0.1, 2.5, 1e300, -1e300, 100.25, 3.0};
    if (r % 13 == 0) {
        return (double)NAN;
    }
    if (r % 13 == 1) {
        return r & 64 ? (double)INFINITY : -(double)INFINITY;
    }
    return odd[r / 13 % (sizeof odd / sizeof odd[0])];
}

static const char *odd_text(uint64_t r)
{
    static const char *const texts[] = {"", "a", "ab", "abc", "b", "B", "\xC3\xA4", "zz top", "it's", "a%b",
        "x_y", "a text that is longer than twelve bytes"};
    return texts[r % (sizeof texts / sizeof texts[0])];
}

static void append_decimal(struct ArrowArray *column, int32_t bits, int64_t value)
{
    struct ArrowDecimal decimal;
    ArrowDecimalInit(&decimal, bits, bits == 128 ? 10 : 50, bits == 128 ? 2 : 0);
    ArrowDecimalSetInt(&decimal, value);
    must(ArrowArrayAppendDecimal(column, &decimal) == NANOARROW_OK);
}

static void append_value(struct ArrowArray *column, size_t c, size_t row, uint64_t r)
{
    static const int64_t   instants[] = {0, 1, -1, 1700000000, -86400, 86400, 1234567890, 1600000000};
    int64_t                small = (int64_t)(r % 21) - 10, instant = instants[r % 8];
    struct ArrowBufferView bytes = {.data.as_char = odd_text(r), .size_bytes = (int64_t)strlen(odd_text(r))};
    struct ArrowBufferView four = {.data.as_char = "abcdefgh" + r % 5, .size_bytes = 4};
    int                    rc = NANOARROW_OK;
    switch (c) {
    case 0:
        rc = ArrowArrayAppendInt(column, (int64_t)row);
        break;
    case 1:
    case 19:
        rc = ArrowArrayAppendInt(column, small);
        break;
    case 2:
        rc = ArrowArrayAppendUInt(column, r % 256);
        break;
    case 3:
        rc = ArrowArrayAppendUInt(column, r % 7 == 0 ? UINT64_MAX : r % 100);
        break;
    case 4:
        rc = ArrowArrayAppendDouble(column, odd_double(r));
        break;
    case 5:
        rc = ArrowArrayAppendDouble(column, fabs(odd_double(r)) > 1e30 ? 7.0 : odd_double(r));
        break;
    case 6:
        rc = ArrowArrayAppendDouble(column, fabs(odd_double(r)) > 1e30 ? 7.0 : odd_double(r));
        break;
    case 7:
    case 8:
        rc = ArrowArrayAppendString(column, ArrowCharView(odd_text(r)));
        break;
    case 9:
        rc = ArrowArrayAppendBytes(column, bytes);
        break;
    case 10:
        rc = ArrowArrayAppendBytes(column, four);
        break;
    case 11:
        rc = ArrowArrayAppendInt(column, (int64_t)(r & 1));
        break;
    case 12:
        rc = ArrowArrayAppendInt(column, instant / 86400);
        break;
    case 13:
        rc = ArrowArrayAppendInt(column, instant * 1000000 + (int64_t)(r % 3));
        break;
    case 14:
    case 15:
        rc = ArrowArrayAppendInt(column, instant * 1000 + (int64_t)(r % 3));
        break;
    case 16:
        append_decimal(column, 128, small * 25);
        break;
    case 17:
        rc = ArrowArrayAppendInt(column, (int64_t)(r % 86400));
        break;
    default:
        append_decimal(column, 256, small);
        break;
    }
    must(rc == NANOARROW_OK);
}

static void append_row(struct ArrowArray *batch, size_t row, lk_random *random)
{
    for (size_t c = 0; c < STANDARD_COLUMNS; c++) {
        uint64_t r = lk_random_u64(random) >> 8;
        if (c > 0 && r % 9 == 0) {
            must(ArrowArrayAppendNull(batch->children[c], 1) == NANOARROW_OK);
        } else {
            append_value(batch->children[c], c, row, r / 9);
        }
    }
    must(ArrowArrayFinishElement(batch) == NANOARROW_OK);
}

lk_table_snapshot *table_standard(size_t row_count, size_t batch_rows, uint64_t seed)
{
    lk_err             err = {0};
    struct ArrowSchema columns[STANDARD_COLUMNS], schema;
    memset(columns, 0, sizeof columns);
    for (size_t c = 0; c < STANDARD_COLUMNS; c++) {
        must(lk_column_parse(lk_bytes_of(standard_columns[c]), &columns[c], &err) == LK_OK);
    }
    lk_schema_of_columns(columns, STANDARD_COLUMNS, &schema);
    lk_seeded_random random;
    lk_seeded_random_init(&random, seed);
    size_t             count = (row_count + batch_rows - 1) / batch_rows;
    struct ArrowArray *batches = calloc(count + 1, sizeof *batches);
    for (size_t i = 0; i < count; i++) {
        must(ArrowArrayInitFromSchema(&batches[i], &schema, NULL) == NANOARROW_OK);
        must(ArrowArrayStartAppending(&batches[i]) == NANOARROW_OK);
        for (size_t row = i * batch_rows; row < (i + 1) * batch_rows && row < row_count; row++) {
            append_row(&batches[i], row, &random.base);
        }
        must(ArrowArrayFinishBuildingDefault(&batches[i], NULL) == NANOARROW_OK);
    }
    lk_table_snapshot *out = table_new(&schema, batches, count);
    free(batches);
    return out;
}

lk_table_snapshot *table_plain(size_t row_count, size_t batch_rows)
{
    lk_err             err = {0};
    struct ArrowSchema columns[3], schema;
    memset(columns, 0, sizeof columns);
    must(lk_column_parse(LK_LITERAL("id:int64"), &columns[0], &err) == LK_OK);
    must(lk_column_parse(LK_LITERAL("x:float64"), &columns[1], &err) == LK_OK);
    must(lk_column_parse(LK_LITERAL("s:utf8"), &columns[2], &err) == LK_OK);
    lk_schema_of_columns(columns, 3, &schema);
    size_t             count = (row_count + batch_rows - 1) / batch_rows;
    struct ArrowArray *batches = calloc(count + 1, sizeof *batches);
    for (size_t i = 0; i < count; i++) {
        must(ArrowArrayInitFromSchema(&batches[i], &schema, NULL) == NANOARROW_OK);
        must(ArrowArrayStartAppending(&batches[i]) == NANOARROW_OK);
        for (size_t row = i * batch_rows; row < (i + 1) * batch_rows && row < row_count; row++) {
            char text[24];
            (void)snprintf(text, sizeof text, "key-%08zu----", row * 40503 % 1000);
            must(ArrowArrayAppendInt(batches[i].children[0], (int64_t)row) == NANOARROW_OK);
            must(ArrowArrayAppendDouble(
                     batches[i].children[1], (double)(row * 2654435761U % 1000000) / 1000) == NANOARROW_OK);
            must(ArrowArrayAppendString(batches[i].children[2], ArrowCharView(text)) == NANOARROW_OK);
            must(ArrowArrayFinishElement(&batches[i]) == NANOARROW_OK);
        }
        must(ArrowArrayFinishBuildingDefault(&batches[i], NULL) == NANOARROW_OK);
    }
    lk_table_snapshot *out = table_new(&schema, batches, count);
    free(batches);
    return out;
}

/* -- statements ------------------------------------------------------------------------------------ */

enum { BATCHES_MAX = 4096 };

static lk_rc collect(lk_batches *result, struct ArrowSchema *schema, struct ArrowArray *rows, lk_err *err)
{
    struct ArrowArray *parts = calloc(BATCHES_MAX, sizeof *parts);
    size_t             count = 0;
    lk_rc              rc = lk_schema_copy(&result->schema, schema, err);
    for (bool more = rc == LK_OK; more;) {
        must(count < BATCHES_MAX);
        rc = lk_batches_next(result, &parts[count], err);
        more = rc == LK_OK && parts[count].release != NULL;
        if (more) {
            must(lk_array_validate(schema, &parts[count], err) == LK_OK);
            count++;
        }
    }
    if (rc == LK_OK && count > 0) {
        rc = lk_array_concat(schema, parts, count, rows, err);
    }
    for (size_t i = 0; i < count; i++) {
        lk_array_release(&parts[i]);
    }
    free(parts);
    return rc;
}

lk_rc fixture_query(const sql_fixture *f, const char *text, lk_table_snapshot *const *tables,
    bool engine_only, struct ArrowSchema *schema, struct ArrowArray *rows, lk_err *err)
{
    lk_sql_statement *statement = NULL;
    lk_batches       *result = NULL;
    *rows = (struct ArrowArray){0};
    *schema = (struct ArrowSchema){0};
    lk_rc                rc = lk_sql_parse(f->sql, lk_bytes_of(text), &statement, err);
    const lk_sql_request request = {.statement = statement,
        .snapshots = tables,
        .engine_only = engine_only,
        .filters_stay = f->filters_stay};
    if (rc == LK_OK) {
        rc = lk_sql_run(f->sql, &request, &result, err);
    }
    if (rc == LK_OK) {
        rc = collect(result, schema, rows, err);
    }
    lk_batches_close(result);
    lk_sql_statement_unref(statement);
    return rc;
}

static void format_bytes(lk_buf *out, struct ArrowBufferView bytes)
{
    for (int64_t i = 0; i < bytes.size_bytes; i++) {
        lk_buf_format(out, "%02x", bytes.data.as_uint8[i]);
    }
}

static void format_value(
    const struct ArrowSchema *field, const struct ArrowArrayView *view, int64_t row, lk_buf *out)
{
    lk_type type;
    must(lk_type_of(field, &type));
    if (ArrowArrayViewIsNull(view, row)) {
        lk_buf_append_text(out, "NULL");
    } else if (lk_type_is_float(type.id)) {
        lk_buf_format(out, "%.9g", ArrowArrayViewGetDoubleUnsafe(view, row) + 0.0);
    } else if (type.id == LK_TYPE_UTF8 || type.id == LK_TYPE_LARGE_UTF8) {
        struct ArrowStringView text = ArrowArrayViewGetStringUnsafe(view, row);
        lk_buf_append(out, text.data, (size_t)text.size_bytes);
    } else if (lk_type_is_bytes(type.id) || type.id == LK_TYPE_FIXED_BINARY) {
        format_bytes(out, ArrowArrayViewGetBytesUnsafe(view, row));
    } else if (lk_type_is_decimal(type.id)) {
        struct ArrowDecimal decimal;
        ArrowDecimalInit(&decimal, type.id == LK_TYPE_DECIMAL128 ? 128 : 256, type.precision, type.scale);
        ArrowArrayViewGetDecimalUnsafe(view, row, &decimal);
        lk_buf_format(out, "%" PRId64, ArrowDecimalGetIntUnsafe(&decimal));
    } else if (lk_type_is_unsigned(type.id)) {
        lk_buf_format(out, "%" PRIu64, ArrowArrayViewGetUIntUnsafe(view, row));
    } else {
        lk_buf_format(out, "%" PRId64, ArrowArrayViewGetIntUnsafe(view, row));
    }
}

char *fixture_format(const struct ArrowSchema *schema, const struct ArrowArray *rows)
{
    struct ArrowArrayView view;
    lk_buf                out = {0};
    lk_buf_append_text(&out, "");
    lk_buf_reserve(&out, 1);
    if (rows->release != NULL) {
        must(ArrowArrayViewInitFromSchema(&view, schema, NULL) == NANOARROW_OK);
        must(ArrowArrayViewSetArray(&view, rows, NULL) == NANOARROW_OK);
        for (int64_t row = 0; row < rows->length; row++) {
            for (int64_t c = 0; c < schema->n_children; c++) {
                lk_buf_append_text(&out, c == 0 ? "" : "|");
                format_value(schema->children[c], view.children[c], row, &out);
            }
            lk_buf_append_text(&out, "\n");
        }
        ArrowArrayViewReset(&view);
    }
    return out.data;
}

char *fixture_text(
    const sql_fixture *f, const char *text, lk_table_snapshot *const *tables, bool engine_only, lk_err *err)
{
    struct ArrowSchema schema;
    struct ArrowArray  rows;
    char              *out = NULL;
    lk_rc              rc = fixture_query(f, text, tables, engine_only, &schema, &rows, err);
    if (rc == LK_OK) {
        out = fixture_format(&schema, &rows);
    } else {
        lk_buf message = {0};
        lk_buf_format(&message, "error %s: %s", lk_rc_name(rc), err->detail);
        out = message.data;
    }
    lk_array_release(&rows);
    lk_schema_release(&schema);
    return out;
}
