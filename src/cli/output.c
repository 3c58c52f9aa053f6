/* output.c - see output.h. A writer is three functions over one prepared printer per column. */
#include "cli/output.h"

#include "arrow/ipc.h"
#include "base/json.h"
#include "cli/value.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

typedef struct output {
    FILE        *file;
    lk_batches  *batches;
    lk_printer **printers;
    size_t       column_count;
    uint64_t     row_count;
    lk_buf       text;     /* the line being built */
    size_t      *widths;   /* table: in characters */
    lk_buf      *headings; /* table: the columns' names as they are shown */
    lk_buf       held;     /* table: measured rows, cells separated by NUL, waiting for widths */
    uint64_t     held_rows;
} output;

static const char *const names[] = {"table", "json", "ndjson", "csv", "arrow"};

lk_rc lk_output_format_parse(const char *text, lk_output_format *out, lk_err *err)
{
    for (size_t i = 0; text != NULL && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            *out = (lk_output_format)i;
            return LK_OK;
        }
    }
    if (text == NULL) {
        *out = LK_OUTPUT_TABLE;
        return LK_OK;
    }
    lk_rc rc = lk_fail(err, LK_E_USAGE, "unknown format");
    lk_detail(err, "--format is table, json, ndjson, csv or arrow, not '%.32s'", text);
    return rc;
}

static const char *column_name(const output *o, size_t column)
{
    const char *name = o->batches->schema.children[column]->name;
    return name == NULL ? "" : name;
}

static void flush_text(output *o)
{
    if (o->text.size > 0) {
        (void)fwrite(o->text.data, 1, o->text.size, o->file); /* finish_file looks at the outcome */
        lk_buf_clear(&o->text);
    }
}

/* -- json and ndjson ------------------------------------------------------------------------------- */
static void json_row(output *o, int64_t row)
{
    lk_buf_append_text(&o->text, "{");
    for (size_t i = 0; i < o->column_count; i++) {
        lk_buf_append_text(&o->text, i > 0 ? "," : "");
        lk_json_text(&(lk_json_writer){.out = &o->text}, lk_bytes_of(column_name(o, i)));
        lk_buf_append_text(&o->text, ":");
        lk_printer_json(o->printers[i], row, &o->text);
    }
    lk_buf_append_text(&o->text, "}");
}

static void json_begin(output *o)
{
    lk_buf_append_text(&o->text, "[");
}
static void json_each(output *o, int64_t row)
{
    lk_buf_append_text(&o->text, o->row_count > 0 ? ",\n" : "\n");
    json_row(o, row);
}
static void json_end(output *o)
{
    lk_buf_append_text(&o->text, "\n]\n");
}

static void ndjson_each(output *o, int64_t row)
{
    json_row(o, row);
    lk_buf_append_text(&o->text, "\n");
}

static void nothing(output *o)
{
    (void)o;
}

/* -- csv ------------------------------------------------------------------------------------------- */
static void csv_cell(output *o, lk_bytes cell)
{
    bool quote = cell.size == 0;
    for (size_t i = 0; i < cell.size && !quote; i++) {
        quote = strchr("\",\r\n", cell.data[i]) != NULL;
    }
    if (!quote) {
        lk_buf_append_bytes(&o->text, cell);
        return;
    }
    lk_buf_append_text(&o->text, "\"");
    for (size_t i = 0; i < cell.size; i++) {
        lk_buf_append(&o->text, "\"\"", cell.data[i] == '"' ? 1 : 0);
        lk_buf_append(&o->text, cell.data + i, 1);
    }
    lk_buf_append_text(&o->text, "\"");
}

static void csv_begin(output *o)
{
    for (size_t i = 0; i < o->column_count; i++) {
        lk_buf_append_text(&o->text, i > 0 ? "," : "");
        csv_cell(o, lk_bytes_of(column_name(o, i)));
    }
    lk_buf_append_text(&o->text, "\r\n");
}

static void csv_each(output *o, int64_t row)
{
    lk_buf cell = {0};
    for (size_t i = 0; i < o->column_count; i++) {
        lk_buf_append_text(&o->text, i > 0 ? "," : "");
        if (!lk_printer_is_null(o->printers[i], row)) {
            lk_buf_clear(&cell);
            lk_printer_plain(o->printers[i], row, &cell);
            csv_cell(o, lk_buf_view(&cell));
        }
    }
    lk_buf_append_text(&o->text, "\r\n");
    lk_buf_deinit(&cell);
}

/* -- table ----------------------------------------------------------------------------------------- */
static size_t characters(lk_bytes text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size; i++) {
        count += ((unsigned char)text.data[i] & 0xC0) != 0x80;
    }
    return count;
}

/* Control characters would break the grid or drive the terminal: DEL, C0, and C1 (two bytes in UTF-8). */
static void blank_controls(lk_buf *cell)
{
    for (size_t i = 0; i < cell->size; i++) {
        unsigned char byte = (unsigned char)cell->data[i], next = 0;
        if (byte == 0xC2 && i + 1 < cell->size) {
            next = (unsigned char)cell->data[i + 1];
        }
        bool wide = next >= 0x80 && next < 0xA0;
        if (byte < ' ' || byte == 0x7F || wide) {
            cell->data[i] = ' ';
            cell->data[i + wide] = ' ';
        }
    }
}

/* A long cell ends in "...". */
static void shorten(lk_buf *cell)
{
    if (cell->size > LK_OUTPUT_CELL_MAX) {
        size_t end = LK_OUTPUT_CELL_MAX - 3;
        while (end > 0 && ((unsigned char)cell->data[end] & 0xC0) == 0x80) {
            end--;
        }
        cell->size = end;
        lk_buf_append_text(cell, "...");
    }
}

static void table_cell(output *o, size_t column, int64_t row, lk_buf *cell)
{
    lk_buf_clear(cell);
    if (lk_printer_is_null(o->printers[column], row)) {
        lk_buf_append_text(cell, "NULL");
        return;
    }
    lk_printer_plain(o->printers[column], row, cell);
    blank_controls(cell);
    shorten(cell);
}

static lk_bytes heading(const output *o, size_t column)
{
    return lk_buf_view(&o->headings[column]);
}

static void table_put(output *o, size_t column, lk_bytes cell)
{
    size_t width = characters(cell), pad = o->widths[column] > width ? o->widths[column] - width : 0;
    bool   right = lk_printer_is_number(o->printers[column]);
    lk_buf_append_text(&o->text, column > 0 ? " | " : " ");
    lk_buf_format(&o->text, "%*s%.*s", right ? (int)pad : 0, "", LK_FMT(cell));
    if (!right && column + 1 < o->column_count) {
        lk_buf_format(&o->text, "%*s", (int)pad, "");
    }
    lk_buf_append_text(&o->text, column + 1 == o->column_count ? "\n" : "");
}

static void table_release_held(output *o)
{
    if (o->column_count == 0) {
        return;
    }
    for (size_t i = 0; i < o->column_count; i++) {
        table_put(o, i, heading(o, i));
    }
    for (size_t i = 0; i < o->column_count; i++) {
        lk_buf_append_text(&o->text, i > 0 ? "+" : "");
        for (size_t dash = 0; dash < o->widths[i] + 2; dash++) {
            lk_buf_append_text(&o->text, "-");
        }
    }
    lk_buf_append_text(&o->text, "\n");
    const char *cell = o->held.data;
    for (uint64_t row = 0; row < o->held_rows; row++) {
        for (size_t i = 0; i < o->column_count; i++) {
            lk_bytes text = lk_bytes_of(cell);
            table_put(o, i, text);
            cell += text.size + 1;
        }
    }
    lk_buf_deinit(&o->held);
    o->held_rows = UINT64_MAX; /* released */
    flush_text(o);
}

static void table_begin(output *o)
{
    o->widths = calloc(o->column_count + 1, sizeof *o->widths);
    o->headings = calloc(o->column_count + 1, sizeof *o->headings);
    LK_ASSERT(o->widths != NULL && o->headings != NULL);
    for (size_t i = 0; i < o->column_count; i++) {
        lk_buf_append_text(&o->headings[i], column_name(o, i));
        blank_controls(&o->headings[i]);
        shorten(&o->headings[i]);
        o->widths[i] = characters(heading(o, i));
    }
}

static void table_each(output *o, int64_t row)
{
    lk_buf cell = {0};
    bool   holding = o->row_count < LK_OUTPUT_MEASURED_ROWS;
    if (!holding && o->held_rows != UINT64_MAX) {
        table_release_held(o);
    }
    for (size_t i = 0; i < o->column_count; i++) {
        table_cell(o, i, row, &cell);
        lk_bytes text = lk_buf_view(&cell);
        if (holding) {
            size_t width = characters(text);
            o->widths[i] = width > o->widths[i] ? width : o->widths[i];
            lk_buf_append_bytes(&o->held, text);
            lk_buf_append(&o->held, "", 1);
        } else {
            table_put(o, i, text);
        }
    }
    o->held_rows += holding;
    lk_buf_deinit(&cell);
}

static void table_end(output *o)
{
    if (o->held_rows != UINT64_MAX) {
        table_release_held(o);
    }
}

/* -- a plan: DuckDB draws it on many lines, which a cell would squeeze into one -------------------------- */
static bool is_plan(const output *o)
{
    return o->column_count == 2 && strcmp(column_name(o, 0), "explain_key") == 0 &&
           strcmp(column_name(o, 1), "explain_value") == 0;
}

static void plan_each(output *o, int64_t row)
{
    lk_printer_plain(o->printers[1], row, &o->text);
    lk_buf_append_text(&o->text, "\n");
}

static const struct writer {
    void (*begin)(output *o);
    void (*each)(output *o, int64_t row);
    void (*end)(output *o);
} writers[] = {
    [LK_OUTPUT_TABLE] = {table_begin, table_each, table_end},
    [LK_OUTPUT_JSON] = {json_begin, json_each, json_end},
    [LK_OUTPUT_NDJSON] = {nothing, ndjson_each, nothing},
    [LK_OUTPUT_CSV] = {csv_begin, csv_each, nothing},
};
static const struct writer plan_writer = {nothing, plan_each, nothing};

static lk_rc write_batch(output *o, const struct writer *writer, const struct ArrowArray *batch, lk_err *err)
{
    enum { FLUSH_BYTES = 64 * 1024 };
    for (size_t i = 0; i < o->column_count; i++) {
        lk_rc rc = lk_printer_bind(o->printers[i], batch->children[i], err);
        if (rc != LK_OK) {
            return rc;
        }
    }
    for (int64_t row = 0; row < batch->length; row++, o->row_count++) {
        writer->each(o, row + batch->offset);
        if (o->text.size > FLUSH_BYTES) {
            flush_text(o);
        }
    }
    return LK_OK;
}

static lk_rc write_text(output *o, const struct writer *writer, lk_err *err)
{
    lk_rc rc = LK_OK;
    writer->begin(o);
    while (rc == LK_OK && ferror(o->file) == 0) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(o->batches, &batch, err);
        if (rc != LK_OK || batch.release == NULL) {
            break;
        }
        rc = write_batch(o, writer, &batch, err);
        lk_array_release(&batch);
    }
    if (rc == LK_OK) {
        writer->end(o);
        flush_text(o);
    }
    return rc;
}

static lk_rc open_printers(output *o, lk_err *err)
{
    lk_rc rc = LK_OK;
    o->column_count = (size_t)o->batches->schema.n_children;
    o->printers = calloc(o->column_count + 1, sizeof(lk_printer *));
    LK_ASSERT(o->printers != NULL);
    for (size_t i = 0; rc == LK_OK && i < o->column_count; i++) {
        rc = lk_printer_open(&o->printers[i], o->batches->schema.children[i], err);
    }
    return rc;
}

/* A reader that went away (head, a closed pager) is not our failure; a full disk is. */
static lk_rc finish_file(FILE *file, lk_err *err)
{
    if (fflush(file) == 0 && ferror(file) == 0) {
        return LK_OK;
    }
    if (errno == EPIPE) {
        return LK_OK;
    }
    return lk_fail(
        err, errno == ENOSPC ? LK_E_STORE_FULL : LK_E_IO, "writing the output: %s", strerror(errno));
}

/* -- arrow ----------------------------------------------------------------------------------------- */
typedef struct file_sink {
    lk_ipc_sink base;
    FILE       *file;
} file_sink;

static lk_rc sink_write(lk_ipc_sink *sink, const void *data, size_t size, lk_err *err)
{
    if (fwrite(data, 1, size, ((file_sink *)sink)->file) == size || errno == EPIPE) {
        return LK_OK;
    }
    return lk_fail(
        err, errno == ENOSPC ? LK_E_STORE_FULL : LK_E_IO, "writing the output: %s", strerror(errno));
}

static lk_rc copy_batches(lk_batches *batches, lk_ipc_writer *writer, uint64_t *row_count, lk_err *err)
{
    for (;;) {
        struct ArrowArray batch = {0};
        lk_rc             rc = lk_batches_next(batches, &batch, err);
        if (rc != LK_OK || batch.release == NULL) {
            return rc != LK_OK ? rc : lk_ipc_writer_finish(writer, err);
        }
        *row_count += (uint64_t)batch.length;
        lk_shared_array *shared = lk_array_share(&batch);
        rc = lk_ipc_writer_write(writer, shared, err);
        lk_shared_array_unref(shared);
        if (rc != LK_OK) {
            return rc;
        }
    }
}

static lk_rc write_arrow(
    lk_batches *batches, lk_ipc_container container, FILE *file, uint64_t *row_count, lk_err *err)
{
    file_sink      sink = {{sink_write}, file};
    lk_ipc_writer *writer = NULL;
    *row_count = 0;
    lk_rc rc = lk_ipc_writer_open(&batches->schema, container, &sink.base, &writer, err);
    if (rc == LK_OK) {
        rc = copy_batches(batches, writer, row_count, err);
    }
    lk_ipc_writer_close(writer);
    return rc == LK_OK ? finish_file(file, err) : rc;
}

lk_rc lk_output_write(
    lk_batches *batches, lk_output_format format, FILE *file, uint64_t *row_count, lk_err *err)
{
    if (format == LK_OUTPUT_ARROW || format == LK_OUTPUT_ARROW_FILE) {
        bool stream = format == LK_OUTPUT_ARROW;
        return write_arrow(batches, stream ? LK_IPC_STREAM : LK_IPC_FILE, file, row_count, err);
    }
    output o = {.file = file, .batches = batches};
    lk_rc  rc = open_printers(&o, err);
    if (rc == LK_OK) {
        bool plan = format == LK_OUTPUT_TABLE && is_plan(&o);
        rc = write_text(&o, plan ? &plan_writer : &writers[format], err);
    }
    if (rc == LK_OK) {
        rc = finish_file(file, err);
    }
    *row_count = o.row_count;
    for (size_t i = 0; o.printers != NULL && i < o.column_count; i++) {
        lk_printer_close(o.printers[i]);
    }
    for (size_t i = 0; o.headings != NULL && i < o.column_count; i++) {
        lk_buf_deinit(&o.headings[i]);
    }
    free(o.headings);
    free(o.printers);
    free(o.widths);
    lk_buf_deinit(&o.text);
    lk_buf_deinit(&o.held);
    return rc;
}
