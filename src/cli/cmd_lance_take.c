/*
 * cmd_lance_take.c - `lake lance scan|take`: rows of a Lance dataset on the terminal or into a file, without a server. A
 * condition is answered first, and only its rows are read.
 */
#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "base/file.h"
#include "cli/destination.h"
#include "cli/lance_env.h"
#include "cli/lance_where.h"
#include "cli/source.h"
#include "lance/row_ids.h"
#include "lance/row_set.h"
#include "lance/take.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

enum { SCAN, TAKE };

/* -- what both write ----------------------------------------------------------------------------------- */
static lk_rc find_columns(const struct ArrowSchema *schema, const char *list, lk_arena *arena,
    lk_scan_options *options, lk_err *err)
{
    if (list == NULL) {
        return LK_OK;
    }
    size_t *columns = lk_arena_take(arena, (strlen(list) + 1) * sizeof *columns);
    options->columns = columns;
    for (const char *at = list; at != NULL;) {
        const char *comma = strchr(at, ',');
        lk_bytes    name = {at, comma != NULL ? (size_t)(comma - at) : strlen(at)};
        int64_t     found = lk_schema_find(schema, name);
        if (found < 0) {
            return lk_cli_usage(
                err, "there is no column %.*s", (int)(name.size < 100 ? name.size : 100), name.data);
        }
        columns[options->column_count++] = (size_t)found;
        at = comma != NULL ? comma + 1 : NULL;
    }
    return LK_OK;
}

/* Where the rows go and as what, and how columns that are more than values are handed out: a file has one dictionary a
 * column, a stream one a batch, text none. */
static lk_rc choose_view(lk_destination *to, const char *blobs, lk_scan_options *options, lk_err *err)
{
    lk_rc rc = lk_destination_check(to, err);
    if (rc == LK_OK && blobs != NULL && strcmp(blobs, "described") != 0 && strcmp(blobs, "bytes") != 0) {
        return lk_cli_usage(err, "--blobs is described or bytes");
    }
    options->blobs = blobs != NULL && strcmp(blobs, "bytes") == 0 ? LK_BLOBS_BYTES : LK_BLOBS_DESCRIBED;
    options->dictionary_values = to->path != NULL || to->format != LK_OUTPUT_ARROW;
    return rc;
}

#define DESTINATION_ARGS(to, how)                                                                         \
    {"--blobs", LK_ARG_TEXT, &(how), "HOW", "blob columns: described (where they lie; default) or bytes", \
        false},                                                                                           \
        LK_DESTINATION_ARGS(to)

/* The switches that both have for columns beside the dataset's own. */
typedef struct meta_flags {
    bool id, address, offset, versions;
} meta_flags;

static unsigned meta_of(const meta_flags *flags)
{
    return (flags->id ? LK_META_ROW_ID : 0U) | (flags->address ? LK_META_ROW_ADDRESS : 0U) |
           (flags->offset ? LK_META_ROW_OFFSET : 0U) |
           (flags->versions ? LK_META_CREATED_AT | LK_META_UPDATED_AT : 0U);
}

#define META_ARGS(flags)                                                                    \
    {"--with-row-id", LK_ARG_FLAG, &(flags).id, NULL, "add the column _rowid", false},      \
        {"--with-row-address", LK_ARG_FLAG, &(flags).address, NULL, "add _rowaddr", false}, \
        {"--with-row-offset", LK_ARG_FLAG, &(flags).offset, NULL, "add _rowoffset", false}, \
    {                                                                                       \
        "--with-row-versions", LK_ARG_FLAG, &(flags).versions, NULL,                        \
            "add _row_created_at_version and _row_last_updated_at_version", false           \
    }

/* -- lists of rows --------------------------------------------------------------------------------------- */
static lk_rc parse_numbers(const char *text, const char *separators, lk_buf *out, lk_err *err)
{
    for (const char *at = text + strspn(text, separators); *at != '\0'; at += strspn(at, separators)) {
        char *end = NULL;
        errno = 0;
        uint64_t number = strtoull(at, &end, 10);
        if (end == at || errno != 0 || *at == '-' || (*end != '\0' && strchr(separators, *end) == NULL)) {
            return lk_cli_usage(err, "%.40s is not a row", at);
        }
        lk_buf_append(out, &number, sizeof number);
        at = end;
    }
    return LK_OK;
}

/* Word by word: a line may hold any number of them. */
static lk_rc read_text(const char *path, lk_buf *out, lk_err *err)
{
    static const char separators[] = " ,\t\r\n";
    char              word[64];
    size_t            size = 0;
    FILE             *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    lk_rc             rc = file == NULL ? lk_fail(err, LK_E_NOT_FOUND, "cannot read %s", path) : LK_OK;
    for (int next = 0; rc == LK_OK && next != EOF;) {
        next = getc(file);
        bool ends = next == EOF || strchr(separators, next) != NULL;
        if (!ends && size + 1 < sizeof word) {
            word[size++] = (char)next;
        } else if (size > 0) {
            word[size] = '\0';
            size = 0;
            rc = parse_numbers(word, separators, out, err);
        }
    }
    if (file != NULL && file != stdin) {
        fclose(file);
    }
    return rc;
}

static bool is_arrow(const char *path)
{
    static const char magic[] = "ARROW1", stream[] = "\xff\xff\xff\xff";
    char              head[6] = {0};
    FILE             *file = fopen(path, "rb");
    size_t            got = file == NULL ? 0 : fread(head, 1, sizeof head, file);
    if (file != NULL) {
        fclose(file);
    }
    return got == sizeof head && (memcmp(head, magic, 6) == 0 || memcmp(head, stream, 4) == 0);
}

static bool is_parquet(const char *path)
{
    static const char ending[] = ".parquet";
    size_t            size = strlen(path);
    return size >= sizeof ending && strcmp(path + size - (sizeof ending - 1), ending) == 0;
}

static lk_rc add_ids(const struct ArrowArray *batch, lk_buf *out, lk_err *err)
{
    const struct ArrowArray *ids = batch->children[0];
    const uint64_t          *words = (const uint64_t *)ids->buffers[1] + ids->offset + batch->offset;
    if (ids->null_count != 0) {
        return lk_cli_usage(err, "the column of row ids holds nulls");
    }
    lk_buf_append(out, words, (size_t)batch->length * sizeof *words);
    return LK_OK;
}

static lk_rc open_arrow(const char *path, lk_batches **out, lk_err *err)
{
    lk_ipc_source *source = NULL;
    lk_rc          rc = lk_ipc_source_file(path, &source, err);
    return rc == LK_OK ? lk_ipc_open(source, NULL, out, err) : rc;
}

/* The first column of an Arrow or Parquet file: uint64 or int64. */
static lk_rc read_column(const char *path, lk_buf *out, lk_err *err)
{
    static const lk_source_options options = {0};
    lk_batches                    *rows = NULL;
    lk_rc rc = is_arrow(path) ? open_arrow(path, &rows, err) : lk_source_open(path, &options, &rows, err);
    const char *format = rc == LK_OK && rows->schema.n_children > 0 ? rows->schema.children[0]->format : "";
    if (rc == LK_OK && strcmp(format, "L") != 0 && strcmp(format, "l") != 0) {
        rc = lk_cli_usage(err, "the first column of %.100s is not uint64 or int64", path);
    }
    for (bool more = rc == LK_OK; rc == LK_OK && more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(rows, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        rc = more ? add_ids(&batch, out, err) : rc;
        lk_array_release(&batch);
    }
    lk_batches_close(rows);
    return rc;
}

static lk_rc read_ids(const char *path, lk_buf *out, lk_err *err)
{
    return is_arrow(path) || is_parquet(path) ? read_column(path, out, err) : read_text(path, out, err);
}

static const uint64_t *words_of(const lk_buf *list, size_t *count)
{
    *count = list->size / sizeof(uint64_t);
    return (const uint64_t *)(const void *)list->data;
}

/* -- scan -------------------------------------------------------------------------------------------------- */
static lk_rc add_rows_by_id(lk_dataset *dataset, const char *path, lk_row_set *out, lk_err *err)
{
    lk_buf          list = {0};
    size_t          count = 0, found = 0;
    lk_rc           rc = read_ids(path, &list, err);
    const uint64_t *ids = words_of(&list, &count);
    uint64_t       *addresses = malloc((count + 1) * sizeof *addresses);
    LK_ASSERT(addresses != NULL);
    if (rc == LK_OK) {
        rc = lk_dataset_find_rows(dataset, ids, count, addresses, err);
    }
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        if (addresses[i] != LK_ROW_ID_NONE) {
            addresses[found++] = addresses[i];
        }
    }
    lk_row_set_add(out, addresses, rc == LK_OK ? found : 0);
    free(addresses);
    lk_buf_deinit(&list);
    return rc;
}

/* Which rows a condition and a list of ids leave; *out = NULL: all. */
static lk_rc choose_rows(
    lk_cli *cli, lk_dataset *dataset, const char *condition, const char *ids, lk_row_set **out, lk_err *err)
{
    lk_cli_where *where = NULL;
    lk_rc         rc = LK_OK;
    if (ids != NULL) {
        *out = lk_row_set_new();
        rc = add_rows_by_id(dataset, ids, *out, err);
    }
    if (rc != LK_OK || condition == NULL) {
        return rc;
    }
    lk_row_set *true_for = lk_row_set_new();
    rc = lk_cli_where_open(cli->config, condition, &where, err);
    if (rc == LK_OK) {
        const lk_row_selector *selector = lk_cli_where_selector(where);
        rc = selector->select(selector->context, dataset, true_for, err);
    }
    lk_cli_where_close(where);
    if (*out == NULL) {
        *out = true_for;
    } else {
        lk_row_set_intersect(*out, true_for);
        lk_row_set_free(true_for);
    }
    return rc;
}

static int scan(lk_cli *cli, int argc, char **argv)
{
    const char     *uri = NULL, *columns = NULL, *condition = NULL, *ids = NULL;
    uint64_t        version = 0;
    lk_destination  to = {0};
    const char     *blobs = NULL;
    meta_flags      meta = {0};
    lk_scan_options options = {.limit = UINT64_MAX};
    lk_batches     *rows = NULL;
    lk_cli_lance    o = {.config = cli->config};
    lk_err          err = {0};
    int             code = 0;
    const lk_arg    args[] = {
           {"URI", LK_ARG_OPERAND, &uri, NULL, "directory of the dataset, or s3://BUCKET/PREFIX", false},
           {"--columns", LK_ARG_TEXT, &columns, "A,B", "only these, in this order", false},
           {"--version", LK_ARG_U64, &version, "N", "this version instead of the latest", false},
           {"--filter", LK_ARG_TEXT, &condition, "SQL", "only rows for which this is true", false},
           {"--row-ids", LK_ARG_TEXT, &ids, "FILE",
               "only rows with these ids: numbers, or an Arrow file's first column", false},
           {"--limit", LK_ARG_U64, &options.limit, "N", "at most so many rows", false},
           META_ARGS(meta),
           DESTINATION_ARGS(to, blobs),
    };
    if (!lk_cli_parse(
            cli, &lk_cli_lance_take_commands[SCAN], args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    options.meta = meta_of(&meta);
    lk_rc rc = choose_view(&to, blobs, &options, &err);
    if (rc == LK_OK) {
        rc = lk_cli_lance_open(&o, uri, version, &err);
    }
    if (rc == LK_OK) {
        rc = find_columns(lk_dataset_schema(o.dataset), columns, &cli->arena, &options, &err);
    }
    if (rc == LK_OK) {
        rc = choose_rows(cli, o.dataset, condition, ids, &options.rows, &err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_scan(o.dataset, &options, &rows, &err);
    }
    if (rc == LK_OK) {
        rc = lk_destination_write(rows, &to, &cli->arena, &err);
    }
    lk_batches_close(rows);
    lk_row_set_free(options.rows);
    lk_cli_lance_close(&o);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

/* -- take -------------------------------------------------------------------------------------------------- */
static lk_rc read_rows(const char *offsets, const char *ids, lk_buf *list, lk_take_rows *out, lk_err *err)
{
    if ((offsets == NULL) == (ids == NULL)) {
        return lk_cli_usage(err, "give --rows or --row-ids, one of them");
    }
    lk_rc rc = offsets != NULL ? parse_numbers(offsets, ", ", list, err) : read_ids(ids, list, err);
    out->by = offsets != NULL ? LK_TAKE_OFFSET : LK_TAKE_ROW_ID;
    out->rows = words_of(list, &out->count);
    return rc;
}

static int take(lk_cli *cli, int argc, char **argv)
{
    const char     *uri = NULL, *columns = NULL, *offsets = NULL, *ids = NULL;
    uint64_t        version = 0;
    lk_destination  to = {0};
    const char     *blobs = NULL;
    meta_flags      meta = {0};
    lk_scan_options options = {.limit = UINT64_MAX};
    lk_take_rows    wanted = {0};
    lk_buf          list = {0};
    lk_batches     *rows = NULL;
    lk_cli_lance    o = {.config = cli->config};
    lk_err          err = {0};
    int             code = 0;
    const lk_arg    args[] = {
           {"URI", LK_ARG_OPERAND, &uri, NULL, "directory of the dataset, or s3://BUCKET/PREFIX", false},
           {"--rows", LK_ARG_TEXT, &offsets, "N,N",
               "positions in the dataset, from 0; deleted rows do not count", false},
           {"--row-ids", LK_ARG_TEXT, &ids, "FILE",
               "row ids: numbers, or an Arrow or Parquet file's first column", false},
           {"--columns", LK_ARG_TEXT, &columns, "A,B", "only these, in this order", false},
           {"--version", LK_ARG_U64, &version, "N", "this version instead of the latest", false},
           META_ARGS(meta),
           DESTINATION_ARGS(to, blobs),
    };
    if (!lk_cli_parse(
            cli, &lk_cli_lance_take_commands[TAKE], args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    options.meta = meta_of(&meta);
    lk_rc rc = choose_view(&to, blobs, &options, &err);
    if (rc == LK_OK) {
        rc = read_rows(offsets, ids, &list, &wanted, &err);
    }
    if (rc == LK_OK) {
        rc = lk_cli_lance_open(&o, uri, version, &err);
    }
    if (rc == LK_OK) {
        rc = find_columns(lk_dataset_schema(o.dataset), columns, &cli->arena, &options, &err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_take(o.dataset, &wanted, &options, &rows, &err);
    }
    if (rc == LK_OK) {
        rc = lk_destination_write(rows, &to, &cli->arena, &err);
    }
    lk_batches_close(rows);
    lk_buf_deinit(&list);
    lk_cli_lance_close(&o);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

const lk_cli_command lk_cli_lance_take_commands[] = {
    [SCAN] = {{"lance scan", "show the rows of a Lance dataset, or write them to a file",
                  "The columns of a condition are read first, the others for its rows only.\n"
                  "Examples:\n  lake lance scan ./arm.lance --columns t,q --limit 10\n"
                  "  lake lance scan ./arm.lance --filter 'robot = 3' --format csv > robot3.csv\n"
                  "  lake lance scan ./arm.lance --filter \"robot = 3 AND speed > 0.5\" -o fast.parquet"},
        scan},
    [TAKE] = {{"lance take", "read chosen rows of a Lance dataset, in the order given",
                  "A row that is named twice comes twice. Ids of deleted rows are left out; in a table "
                  "with stable row ids, those that no row has, too.\n"
                  "Examples:\n  lake lance take ./arm.lance --rows 1,5,9\n"
                  "  lake lance scan ./arm.lance --filter 'reward > 1' --columns reward --with-row-id -o "
                  "ids.arrow\n"
                  "  lake lance take ./arm.lance --row-ids wanted.txt --columns image -o images.arrow"},
        take},
    {{NULL, NULL, NULL}, NULL},
};
