/* cmd_lance.c - `lake lance info|versions|scan`: a Lance dataset in place, without a server. */
#include "arrow/schema.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/columns.h"
#include "cli/lance_env.h"
#include "cli/output.h"
#include "lance/manifest.h"
#include "lance/refs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

enum { INFO, VERSIONS, SCAN };

/* -- info -------------------------------------------------------------------------------------------- */
typedef struct ref_list {
    lk_ref *list;
    size_t  count;
} ref_list;

static void info_text(const lk_dataset *dataset, const ref_list *refs)
{
    const lk_manifest        *m = lk_dataset_manifest(dataset);
    const struct ArrowSchema *schema = lk_dataset_schema(dataset);
    printf("version      %" PRIu64 "\nrows         %" PRIu64
           "\nfragments    %zu\nfiles        %zu\nfile format  2.%" PRIu32 "\nwritten by   %.*s %.*s\n",
        m->version, lk_manifest_rows(m), m->fragment_count, m->file_count, m->file_minor,
        LK_FMT(m->writer_library), LK_FMT(m->writer_version));
    for (size_t i = 0; i < refs->count; i++) {
        const lk_ref *ref = &refs->list[i];
        printf("%-12s %.*s = version %" PRIu64 "%s%.*s\n", ref->kind == LK_REF_TAG ? "tag" : "branch",
            LK_FMT(ref->name), ref->version, ref->branch.size == 0 ? "" : " of ", LK_FMT(ref->branch));
    }
    putchar('\n');
    lk_columns_print(schema, stdout);
}

static void refs_json(lk_json_writer *w, const ref_list *refs)
{
    for (int kind = LK_REF_TAG; kind <= LK_REF_BRANCH; kind++) {
        lk_json_key(w, kind == LK_REF_TAG ? "tags" : "branches");
        lk_json_array(w);
        for (size_t i = 0; i < refs->count; i++) {
            if ((int)refs->list[i].kind == kind) {
                lk_json_object(w);
                lk_json_key(w, "name");
                lk_json_text(w, refs->list[i].name);
                lk_json_key(w, "version");
                lk_json_u64(w, refs->list[i].version);
                lk_json_key(w, "branch");
                lk_json_text(w, refs->list[i].branch.size == 0 ? LK_LITERAL("main") : refs->list[i].branch);
                lk_json_object_end(w);
            }
        }
        lk_json_array_end(w);
    }
}

static void info_json(const lk_dataset *dataset, const ref_list *refs)
{
    const lk_manifest        *m = lk_dataset_manifest(dataset);
    const struct ArrowSchema *schema = lk_dataset_schema(dataset);
    lk_buf                    text = {0};
    lk_json_writer            w = {.out = &text};
    const struct {
        const char *key;
        uint64_t    value;
    } numbers[] = {{"version", m->version}, {"rows", lk_manifest_rows(m)}, {"fragments", m->fragment_count},
        {"files", m->file_count}, {"deleted_rows", m->deleted_rows}, {"timestamp_ms", m->timestamp_ms}};
    lk_json_object(&w);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        lk_json_key(&w, numbers[i].key);
        lk_json_u64(&w, numbers[i].value);
    }
    lk_json_key(&w, "file_format");
    char format[16];
    (void)snprintf(format, sizeof format, "2.%" PRIu32, m->file_minor);
    lk_json_text(&w, lk_bytes_of(format));
    refs_json(&w, refs);
    lk_json_key(&w, "columns");
    lk_columns_json(schema, &w);
    lk_json_object_end(&w);
    printf("%.*s\n", LK_FMT(lk_buf_view(&text)));
    lk_buf_deinit(&text);
}

static int info(lk_cli *cli, int argc, char **argv)
{
    const char  *uri = NULL;
    uint64_t     version = 0;
    bool         json = false;
    lk_cli_lance o = {.config = cli->config};
    lk_err       err = {0};
    int          code = 0;
    const lk_arg args[] = {
        {"URI", LK_ARG_OPERAND, &uri, NULL, "directory of the dataset", false},
        {"--version", LK_ARG_U64, &version, "N", "this version instead of the latest", false},
        {"--json", LK_ARG_FLAG, &json, NULL, "one JSON object", false},
    };
    if (!lk_cli_parse(
            cli, &lk_cli_lance_commands[INFO], args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    ref_list found = {0};
    lk_rc    rc = lk_cli_lance_open(&o, uri, version, &err);
    if (rc == LK_OK) {
        rc = lk_refs_list(o.env.store, &cli->arena, &found.list, &found.count, &err);
    }
    if (rc == LK_OK) {
        (json ? info_json : info_text)(o.dataset, &found);
    }
    lk_cli_lance_close(&o);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

/* -- versions ---------------------------------------------------------------------------------------- */
static int versions(lk_cli *cli, int argc, char **argv)
{
    const char  *uri = NULL;
    bool         json = false;
    lk_cli_lance o = {.config = cli->config};
    uint64_t    *list = NULL;
    size_t       count = 0;
    lk_err       err = {0};
    int          code = 0;
    const lk_arg args[] = {
        {"URI", LK_ARG_OPERAND, &uri, NULL, "directory of the dataset", false},
        {"--json", LK_ARG_FLAG, &json, NULL, "one JSON array", false},
    };
    if (!lk_cli_parse(
            cli, &lk_cli_lance_commands[VERSIONS], args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    lk_rc rc = lk_cli_lance_open_store(&o, uri, &err);
    if (rc == LK_OK) {
        rc = lk_dataset_versions(&o.env, &cli->arena, &list, &count, &err);
    }
    if (rc == LK_OK && count == 0) {
        rc = lk_fail(&err, LK_E_NOT_FOUND, "%s", uri);
        lk_detail(&err, "%.100s holds no Lance dataset", uri);
    }
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        printf(json ? "%s%" PRIu64 : "%s%" PRIu64 "\n", json ? (i == 0 ? "[" : ",") : "", list[i]);
    }
    if (rc == LK_OK && json) {
        puts("]");
    }
    lk_cli_lance_close(&o);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

/* -- scan -------------------------------------------------------------------------------------------- */
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

/* Writes to a temporary beside the target and renames it, so that a failure leaves no half file. */
static lk_rc write_file(lk_batches *rows, const char *path, lk_arena *arena, uint64_t *count, lk_err *err)
{
    bool     to_stdout = strcmp(path, "-") == 0;
    lk_bytes temporary = lk_arena_format(arena, "%s.tmp%ld", path, (long)getpid());
    FILE    *file = to_stdout ? stdout : fopen(temporary.data, "wb");
    if (file == NULL) {
        return lk_fail(err, LK_E_IO, "cannot write %s", path);
    }
    lk_rc rc = lk_output_write(rows, to_stdout ? LK_OUTPUT_ARROW : LK_OUTPUT_ARROW_FILE, file, count, err);
    if (to_stdout) {
        return rc;
    }
    if (fclose(file) != 0 && rc == LK_OK) {
        rc = lk_fail(err, LK_E_IO, "cannot finish %s", path);
    }
    if (rc == LK_OK && rename(temporary.data, path) != 0) {
        rc = lk_fail(err, LK_E_IO, "cannot rename to %s", path);
    }
    if (rc != LK_OK) {
        (void)unlink(temporary.data);
    }
    return rc;
}

static int scan(lk_cli *cli, int argc, char **argv)
{
    const char     *uri = NULL, *columns = NULL, *output = NULL;
    uint64_t        version = 0, count = 0;
    bool            meta[4] = {0};
    lk_scan_options options = {.limit = UINT64_MAX};
    lk_batches     *rows = NULL;
    lk_cli_lance    o = {.config = cli->config};
    lk_err          err = {0};
    int             code = 0;
    const lk_arg    args[] = {
           {"URI", LK_ARG_OPERAND, &uri, NULL, "directory of the dataset", false},
           {"--columns", LK_ARG_TEXT, &columns, "A,B", "only these, in this order", false},
           {"--version", LK_ARG_U64, &version, "N", "this version instead of the latest", false},
           {"--limit", LK_ARG_U64, &options.limit, "N", "at most so many rows", false},
           {"--with-row-id", LK_ARG_FLAG, &meta[0], NULL, "add the column _rowid", false},
           {"--with-row-address", LK_ARG_FLAG, &meta[1], NULL, "add _rowaddr", false},
           {"--with-row-offset", LK_ARG_FLAG, &meta[2], NULL, "add _rowoffset", false},
           {"--with-row-versions", LK_ARG_FLAG, &meta[3], NULL,
               "add _row_created_at_version and _row_last_updated_at_version", false},
           {"--output", LK_ARG_TEXT, &output, "FILE",
               "Arrow file to write (-o FILE), or - for a stream on stdout", true},
    };
    if (!lk_cli_parse(
            cli, &lk_cli_lance_commands[SCAN], args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    options.meta = (meta[0] ? LK_META_ROW_ID : 0U) | (meta[1] ? LK_META_ROW_ADDRESS : 0U) |
                   (meta[2] ? LK_META_ROW_OFFSET : 0U) |
                   (meta[3] ? LK_META_CREATED_AT | LK_META_UPDATED_AT : 0U);
    lk_rc rc = lk_cli_lance_open(&o, uri, version, &err);
    if (rc == LK_OK) {
        rc = find_columns(lk_dataset_schema(o.dataset), columns, &cli->arena, &options, &err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_scan(o.dataset, &options, &rows, &err);
    }
    if (rc == LK_OK) {
        rc = write_file(rows, output, &cli->arena, &count, &err);
    }
    if (rc == LK_OK) {
        fprintf(stderr, "%" PRIu64 " rows\n", count);
    }
    lk_batches_close(rows);
    lk_cli_lance_close(&o);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

const lk_cli_command lk_cli_lance_commands[] = {
    [INFO] = {{"lance info", "show a Lance dataset in place", NULL}, info},
    [VERSIONS] = {{"lance versions", "list a Lance dataset's versions", NULL}, versions},
    [SCAN] = {{"lance scan", "read a Lance dataset into an Arrow file",
                  "Example:\n  lake lance scan ./data/tables/robots/arm/UUID.lance --columns t,q --limit 10 "
                  "-o out.arrow"},
        scan},
    {{NULL, NULL, NULL}, NULL},
};
