/* cmd_lance_write.c - `lake lance write`: the rows of a file as a Lance dataset, without a server. */
#include "arrow/schema.h"
#include "cli/casting.h"
#include "cli/cli.h"
#include "cli/lance_env.h"
#include "cli/report.h"
#include "cli/source.h"
#include "lance/adapt.h"
#include "lance/alter.h"
#include "lance/manifest.h"
#include "lance/view.h"

#include <inttypes.h>
#include <string.h>

typedef enum write_mode { CREATE, APPEND, OVERWRITE } write_mode;

typedef struct job {
    const char      *uri, *path, *mode_text, *version_text;
    write_mode       mode;
    lk_write_options options;
    uint64_t         rows_per_file;
    bool             json;
} job;

static lk_rc choose(
    const char *text, const char *option, const char *const *words, size_t count, size_t *out, lk_err *err)
{
    lk_buf list = {0};
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = i;
            return LK_OK;
        }
        lk_buf_format(&list, "%s%s", i == 0 ? "" : i + 1 == count ? " or " : ", ", words[i]);
    }
    lk_rc rc = lk_cli_usage(err, "%s is %s, not '%.32s'", option, list.data, text);
    lk_buf_deinit(&list);
    return rc;
}

static lk_rc check_job(job *j, lk_err *err)
{
    static const char *const     modes[] = {"create", "append", "overwrite"};
    static const char *const     versions[] = {"2.0", "2.1", "2.2"};
    static const lk_file_version by_text[] = {LK_FILE_VERSION_2_0, LK_FILE_VERSION_2_1, LK_FILE_VERSION_2_2};
    size_t                       at = CREATE;
    lk_rc rc = j->mode_text == NULL ? LK_OK : choose(j->mode_text, "--mode", modes, 3, &at, err);
    j->mode = (write_mode)at;
    if (rc == LK_OK && j->version_text != NULL) {
        rc = choose(j->version_text, "--file-version", versions, 3, &at, err);
        j->options.file_version = rc == LK_OK ? by_text[at] : LK_FILE_VERSION_DEFAULT;
    }
    if (rc == LK_OK && j->mode == APPEND && (j->version_text != NULL || j->options.stable_row_ids)) {
        rc = lk_cli_usage(
            err, "--file-version and --stable-row-ids are a new table's; --mode append keeps what it has");
    }
    if (rc == LK_OK && j->mode == OVERWRITE && j->options.stable_row_ids) {
        rc =
            lk_cli_usage(err, "--stable-row-ids is a new table's; --mode overwrite keeps what the table has");
    }
    j->options.max_rows_per_file = (size_t)j->rows_per_file;
    return rc == LK_OK ? lk_source_check(j->path, err) : rc;
}

/* Types are the table's: what fits is converted, column by name; dictionaries and blobs come as their values, which the
 * append stores as the table has them. */
static lk_rc append(lk_cli_lance *lance, const job *j, lk_batches *source, lk_dataset **out, lk_err *err)
{
    const lk_view      view = {.dictionary_values = true, .blobs = LK_BLOBS_BYTES};
    struct ArrowSchema values = {0};
    lk_batches        *cast = NULL;
    lk_rc              rc = lk_view_schema(lk_dataset_schema(lance->dataset), view, &values, err);
    if (rc == LK_OK) {
        rc = lk_casting_open(source, &values, &cast, err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_append(lance->dataset, lk_direct_committer(), cast, &j->options, out, err);
    }
    lk_batches_close(cast);
    lk_schema_release(&values);
    return rc;
}

static lk_rc create(lk_cli_lance *lance, const job *j, lk_batches *source, lk_dataset **out, lk_err *err)
{
    lk_rc rc = lk_dataset_create_filled(&lance->env, lk_direct_committer(), source, &j->options, out, err);
    if (rc == LK_E_TABLE_EXISTS) {
        lk_detail(
            err, "%.100s holds a dataset; --mode append adds to it, overwrite replaces its rows", j->uri);
    }
    return rc;
}

static lk_rc write_rows(lk_cli_lance *lance, const job *j, lk_batches *source, lk_dataset **out, lk_err *err)
{
    lk_err none = {0};
    lk_rc  rc = lk_cli_lance_open_store(lance, j->uri, err);
    if (rc != LK_OK || j->mode == CREATE) {
        return rc == LK_OK ? create(lance, j, source, out, err) : rc;
    }
    rc = lk_dataset_open(&lance->env, 0, &lance->dataset, &none);
    if (rc == LK_E_NOT_FOUND && j->mode == OVERWRITE) {
        return create(lance, j, source, out, err);
    }
    if (rc != LK_OK) {
        *err = none;
        if (rc == LK_E_NOT_FOUND) {
            lk_detail(err, "%.100s holds no Lance dataset; --mode create makes one", j->uri);
        }
        return rc;
    }
    return j->mode == APPEND
               ? append(lance, j, source, out, err)
               : lk_dataset_overwrite(lance->dataset, lk_direct_committer(), source, &j->options, out, err);
}

/* What the version has more than the one before; all of it but for an append. */
static void report(const job *j, const lk_cli_lance *lance, const lk_dataset *next)
{
    const lk_manifest *m = lk_dataset_manifest(next),
                      *before = j->mode == APPEND ? lk_dataset_manifest(lance->dataset) : NULL;
    uint64_t               old_rows = before == NULL ? 0 : lk_manifest_rows(before);
    uint64_t               rows = lk_manifest_rows(m) - (lk_manifest_rows(m) < old_rows ? 0 : old_rows);
    const lk_report_number numbers[] = {
        {"version", m->version}, {"rows", lk_manifest_rows(m)}, {"fragments", m->fragment_count}};
    lk_buf sentence = {0};
    lk_buf_format(&sentence, "wrote %" PRIu64 " rows: version %" PRIu64, rows, m->version);
    lk_report(j->json, sentence.data, numbers, sizeof numbers / sizeof numbers[0]);
    lk_buf_deinit(&sentence);
}

static int run_write(lk_cli *cli, int argc, char **argv)
{
    job               j = {0};
    lk_source_options source_options = {0};
    lk_cli_lance      lance = {.config = cli->config};
    lk_batches       *source = NULL;
    lk_dataset       *next = NULL;
    lk_err            err = {0};
    int               code = 0;
    const lk_arg      args[] = {
             {"URI", LK_ARG_OPERAND, &j.uri, NULL, "directory of the dataset, or s3://BUCKET/PREFIX", false},
             {"FILE", LK_ARG_OPERAND, &j.path, NULL,
                 "Arrow (.arrow, or - for a stream on stdin), Parquet, CSV or NDJSON", false},
             {"--mode", LK_ARG_TEXT, &j.mode_text, "MODE", "create (default), append or overwrite", false},
             {"--file-version", LK_ARG_TEXT, &j.version_text, "2.1",
                 "of a new table's data files: 2.0, 2.1 or 2.2", false},
             {"--max-rows-per-file", LK_ARG_U64, &j.rows_per_file, "N", "default 1,048,576", false},
             {"--stable-row-ids", LK_ARG_FLAG, &j.options.stable_row_ids, NULL,
                 "a new table's rows keep their ids when they move", false},
             {"--outside-blobs", LK_ARG_FLAG, &j.options.outside_blobs, NULL,
                 "blobs may be uris of files outside of the dataset", false},
             {"--json", LK_ARG_FLAG, &j.json, NULL, "one JSON object", false},
    };
    if (!lk_cli_parse(
            cli, lk_cli_lance_write_commands, args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    lk_rc rc = check_job(&j, &err);
    source_options.keep_dictionaries = j.mode != APPEND;
    if (rc == LK_OK) {
        rc = lk_source_open(j.path, &source_options, &source, &err);
    }
    if (rc == LK_OK) {
        rc = write_rows(&lance, &j, source, &next, &err);
    }
    if (rc == LK_OK) {
        report(&j, &lance, next);
    }
    lk_dataset_unref(next);
    lk_batches_close(source);
    lk_cli_lance_close(&lance);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

const lk_cli_command lk_cli_lance_write_commands[] = {
    {{"lance write", "write a file's rows as a Lance dataset, in place",
         "One version has all the rows, or nothing is changed. --mode append converts the file's columns, by "
         "name, to "
         "the\ntable's types; --mode overwrite replaces rows and columns, and the old version stays until a "
         "cleanup.\nExamples:\n  lake lance write ./arm.lance steps.parquet\n"
         "  lake lance write s3://robots/arm.lance more.arrow --mode append\n"
         "  lake sql 'SELECT * FROM robots.steps' --format arrow | lake lance write ./copy.lance -"},
        run_write},
    {{NULL, NULL, NULL}, NULL},
};
