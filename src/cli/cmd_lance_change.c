/* cmd_lance_change.c - `lake lance tag|restore|...`: changes of a Lance dataset in place, without a server. */
#include "arrow/schema.h"
#include "base/json.h"
#include "cli/lance_compute.h"
#include "cli/lance_frame.h"
#include "cli/lance_where.h"
#include "cli/report.h"
#include "lance/alter.h"
#include "lance/refs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TAG_LIST,
    TAG_CREATE,
    TAG_MOVE,
    TAG_DELETE,
    RESTORE,
    DELETE,
    COLUMNS_ADD,
    COLUMNS_DROP,
    COLUMNS_RENAME,
    COLUMNS_CAST,
    CLEANUP,
    COMPACT
};

/* -- tag ------------------------------------------------------------------------------------------------ */

static void print_tags(const lk_ref *refs, size_t count, bool json)
{
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_array(&w);
    for (size_t i = 0; i < count; i++) {
        if (refs[i].kind != LK_REF_TAG) {
            continue;
        }
        if (!json) {
            printf("%-32.*s version %" PRIu64 "%s%.*s\n", LK_FMT(refs[i].name), refs[i].version,
                refs[i].branch.size == 0 ? "" : " of ", LK_FMT(refs[i].branch));
        }
        lk_json_object(&w);
        lk_json_key(&w, "name");
        lk_json_text(&w, refs[i].name);
        lk_json_key(&w, "version");
        lk_json_u64(&w, refs[i].version);
        lk_json_key(&w, "branch");
        lk_json_text(&w, refs[i].branch.size == 0 ? LK_LITERAL("main") : refs[i].branch);
        lk_json_object_end(&w);
    }
    lk_json_array_end(&w);
    if (json) {
        printf("%.*s\n", LK_FMT(lk_buf_view(&text)));
    }
    lk_buf_deinit(&text);
}

static int tag_list(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame f = {
        .cli = cli, .command = &lk_cli_lance_change_commands[TAG_LIST], .json_help = "one JSON array"};
    lk_ref *refs = NULL;
    size_t  count = 0;
    if (!lk_lance_frame_begin(&f, NULL, 0, argc, argv)) {
        return f.code;
    }
    lk_rc rc = lk_lance_frame_open(&f, 0);
    if (rc == LK_OK) {
        rc = lk_refs_list(f.lance.env.store, &cli->arena, &refs, &count, &f.err);
    }
    if (rc == LK_OK) {
        print_tags(refs, count, f.json);
    }
    return lk_lance_frame_end(&f, rc);
}

/* What became of a tag. version 0: it has none any more. */
static void tell_tag(bool json, const char *what, const char *name, uint64_t version)
{
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_object(&w);
    lk_json_key(&w, "tag");
    lk_json_text(&w, lk_bytes_of(name));
    if (version > 0) {
        lk_json_key(&w, "version");
        lk_json_u64(&w, version);
    }
    lk_json_object_end(&w);
    if (json) {
        printf("%.*s\n", LK_FMT(lk_buf_view(&text)));
    } else if (version > 0) {
        printf("%s tag %s: version %" PRIu64 "\n", what, name, version);
    } else {
        printf("%s tag %s\n", what, name);
    }
    lk_buf_deinit(&text);
}

/* tag create and tag move: the same words, another verb. */
static int put_tag(lk_cli *cli, int row, int argc, char **argv)
{
    lk_lance_frame f = {.cli = cli, .command = &lk_cli_lance_change_commands[row]};
    const char    *name = NULL;
    uint64_t       version = 0;
    const lk_arg   args[] = {
          {"NAME", LK_ARG_OPERAND, &name, NULL, "letters, digits, '.', '-' and '_'", false},
          {"--version", LK_ARG_U64, &version, "N", "name this version instead of the latest", false},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_rc rc = lk_lance_frame_open(&f, version);
    if (rc == LK_OK && f.lance.branch != NULL) {
        rc = lk_cli_usage(&f.err, "tags are kept by the table itself: leave ?branch= out");
    }
    if (rc == LK_OK) {
        rc = (row == TAG_CREATE ? lk_tag_create : lk_tag_move)(f.lance.env.store, f.lance.env.clock,
            lk_bytes_of(name), lk_dataset_version(f.lance.dataset), &f.err);
    }
    if (rc == LK_OK) {
        tell_tag(f.json, row == TAG_CREATE ? "created" : "moved", name, lk_dataset_version(f.lance.dataset));
    }
    return lk_lance_frame_end(&f, rc);
}

static int tag_create(lk_cli *cli, int argc, char **argv)
{
    return put_tag(cli, TAG_CREATE, argc, argv);
}

static int tag_move(lk_cli *cli, int argc, char **argv)
{
    return put_tag(cli, TAG_MOVE, argc, argv);
}

static int tag_delete(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame f = {.cli = cli, .command = &lk_cli_lance_change_commands[TAG_DELETE]};
    const char    *name = NULL;
    const lk_arg   args[] = {
          {"NAME", LK_ARG_OPERAND, &name, NULL, "the tag", false},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_rc rc = lk_lance_frame_open(&f, 0);
    if (rc == LK_OK) {
        rc = lk_tag_delete(f.lance.env.store, lk_bytes_of(name), &f.err);
    }
    if (rc == LK_OK) {
        tell_tag(f.json, "deleted", name, 0);
    }
    return lk_lance_frame_end(&f, rc);
}

/* -- restore -------------------------------------------------------------------------------------------- */

static int restore(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame f = {.cli = cli, .command = &lk_cli_lance_change_commands[RESTORE]};
    uint64_t       version = 0;
    const lk_arg   args[] = {
          {"--version", LK_ARG_U64, &version, "N", "the version to have again", true},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_rc rc = version == 0 ? lk_cli_usage(&f.err, "versions count from 1") : LK_OK;
    if (rc == LK_OK) {
        rc = lk_lance_frame_open(&f, 0);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_restore(f.lance.dataset, lk_direct_committer(), version, NULL, &f.next, &f.err);
    }
    return lk_lance_frame_end_with_version(&f, rc, "restored");
}

/* -- delete --------------------------------------------------------------------------------------------- */

static void report_delete(bool json, const lk_delete_report *done, const lk_dataset *next)
{
    const lk_report_number numbers[] = {
        {"version", lk_dataset_version(next)},
        {"rows", done->rows},
        {"fragments_changed", done->fragments_changed},
        {"fragments_removed", done->fragments_removed},
    };
    lk_buf sentence = {0};
    lk_buf_format(&sentence, "deleted %" PRIu64 " rows: version %" PRIu64, done->rows, numbers[0].value);
    lk_report(json, sentence.data, numbers, sizeof numbers / sizeof numbers[0]);
    lk_buf_deinit(&sentence);
}

static int delete_rows(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame   f = {.cli = cli, .command = &lk_cli_lance_change_commands[DELETE]};
    const char      *condition = NULL;
    lk_cli_where    *where = NULL;
    lk_delete_report done = {0};
    const lk_arg     args[] = {
            {"--where", LK_ARG_TEXT, &condition, "SQL", "delete the rows for which this is true", true},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_rc rc = lk_lance_frame_open(&f, 0);
    if (rc == LK_OK) {
        rc = lk_cli_where_open(cli->config, condition, &where, &f.err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_delete(f.lance.dataset, lk_direct_committer(), lk_cli_where_selector(where), NULL,
            &done, &f.next, &f.err);
    }
    if (rc == LK_OK) {
        report_delete(f.json, &done, f.next);
    }
    lk_cli_where_close(where);
    return lk_lance_frame_end(&f, rc);
}

/* -- columns -------------------------------------------------------------------------------------------- */

static lk_rc parse_columns(lk_cli *cli, const lk_arg_texts *texts, struct ArrowSchema *out, lk_err *err)
{
    lk_rc rc = lk_columns_parse(lk_arg_texts_bytes(texts, &cli->arena), texts->count, out, err);
    for (int64_t i = 0; rc == LK_OK && i < out->n_children; i++) {
        out->children[i]->flags |= ARROW_FLAG_NULLABLE; /* there is no value yet, whatever was said */
    }
    return rc;
}

/* Columns whose values are expressions over the row. */
static lk_rc add_computed(lk_cli *cli, lk_dataset *dataset, const struct ArrowSchema *schema,
    const lk_arg_texts *values, lk_dataset **next, lk_err *err)
{
    lk_cli_compute *compute = NULL;
    lk_rc           rc = (size_t)schema->n_children == values->count
                             ? LK_OK
                             : lk_cli_usage(err, "say one --value for every --column, or none");
    if (rc == LK_OK) {
        rc = lk_cli_compute_open(cli->config, schema, lk_arg_texts_bytes(values, &cli->arena), &compute, err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_add_computed_columns(
            dataset, lk_direct_committer(), schema, lk_cli_compute_source(compute), NULL, next, err);
    }
    lk_cli_compute_close(compute);
    return rc;
}

static int columns_add(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame     f = {.cli = cli, .command = &lk_cli_lance_change_commands[COLUMNS_ADD]};
    lk_arg_texts       columns = {0}, values = {0};
    struct ArrowSchema schema = {0};
    const lk_arg       args[] = {
              {"--column", LK_ARG_TEXTS, &columns, "NAME:TYPE", "a column to add", true},
              {"--value", LK_ARG_TEXTS, &values, "SQL", "the columns' values, in the same order; else null", false},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_rc rc = lk_lance_frame_open(&f, 0);
    if (rc == LK_OK) {
        rc = parse_columns(cli, &columns, &schema, &f.err);
    }
    if (rc == LK_OK && values.count > 0) {
        rc = add_computed(cli, f.lance.dataset, &schema, &values, &f.next, &f.err);
    } else if (rc == LK_OK) {
        rc = lk_dataset_add_columns(f.lance.dataset, lk_direct_committer(), &schema, NULL, &f.next, &f.err);
    }
    lk_schema_release(&schema);
    return lk_lance_frame_end_with_version(&f, rc, "added");
}

static int columns_drop(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame f = {.cli = cli, .command = &lk_cli_lance_change_commands[COLUMNS_DROP]};
    lk_arg_texts   columns = {0};
    const lk_arg   args[] = {
          {"--column", LK_ARG_TEXTS, &columns, "NAME", "a column, or STRUCT.FIELD", true},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_bytes *paths = lk_arg_texts_bytes(&columns, &cli->arena);
    lk_rc     rc = lk_lance_frame_open(&f, 0);
    if (rc == LK_OK) {
        rc = lk_dataset_drop_columns(
            f.lance.dataset, lk_direct_committer(), paths, columns.count, NULL, &f.next, &f.err);
    }
    return lk_lance_frame_end_with_version(&f, rc, "dropped");
}

static int columns_rename(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame f = {.cli = cli, .command = &lk_cli_lance_change_commands[COLUMNS_RENAME]};
    const char    *from = NULL, *to = NULL;
    const lk_arg   args[] = {
          {"--column", LK_ARG_TEXT, &from, "NAME", "the column, or STRUCT.FIELD", true},
          {"--to", LK_ARG_TEXT, &to, "NAME", "its new name, without the struct's", true},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_rc rc = lk_lance_frame_open(&f, 0);
    if (rc == LK_OK) {
        rc = lk_dataset_rename_column(f.lance.dataset, lk_direct_committer(), lk_bytes_of(from),
            lk_bytes_of(to), NULL, &f.next, &f.err);
    }
    return lk_lance_frame_end_with_version(&f, rc, "renamed");
}

static int columns_cast(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame f = {.cli = cli, .command = &lk_cli_lance_change_commands[COLUMNS_CAST]};
    const char    *column = NULL, *type = NULL;
    const lk_arg   args[] = {
          {"--column", LK_ARG_TEXT, &column, "NAME", "the column", true},
          {"--to", LK_ARG_TEXT, &type, "TYPE", "its new type", true},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_rc rc = lk_lance_frame_open(&f, 0);
    if (rc == LK_OK) {
        rc = lk_dataset_cast_column(f.lance.dataset, lk_direct_committer(), lk_bytes_of(column),
            lk_bytes_of(type), NULL, &f.next, &f.err);
    }
    return lk_lance_frame_end_with_version(&f, rc, "converted");
}

/* -- cleanup -------------------------------------------------------------------------------------------- */

/* "90s", "30m", "12h", "14d", "2w". */
static lk_rc parse_duration(const char *text, uint64_t *ms, lk_err *err)
{
    static const struct {
        char     unit;
        uint64_t ms;
    } units[] = {{'s', 1000}, {'m', 60 * 1000}, {'h', 3600 * 1000}, {'d', 24 * 3600 * 1000},
        {'w', 7 * 24 * 3600 * 1000ULL}};
    enum { COUNT_MAX = 1000000 };
    uint64_t count = 0;
    size_t   digits = strspn(text, "0123456789");
    for (size_t i = 0; i < digits && count <= COUNT_MAX; i++) {
        count = count * 10 + (uint64_t)(text[i] - '0');
    }
    for (size_t i = 0; digits > 0 && count <= COUNT_MAX && i < sizeof units / sizeof units[0]; i++) {
        if (text[digits] == units[i].unit && text[digits + 1] == '\0') {
            *ms = count * units[i].ms;
            return LK_OK;
        }
    }
    return lk_cli_usage(err, "a duration is a number and s, m, h, d or w, as in 14d, not %.50s", text);
}

static void report_cleanup(bool json, bool dry_run, const lk_cleanup_report *done)
{
    const lk_report_number numbers[] = {
        {"versions", done->versions},
        {"versions_removed", done->versions_removed},
        {"versions_named", done->versions_named},
        {"files_removed", done->files_removed},
        {"bytes_removed", done->bytes_removed},
    };
    lk_buf sentence = {0};
    lk_buf_format(&sentence,
        "%s %" PRIu64 " of %" PRIu64 " versions and %" PRIu64 " files of %" PRIu64
        " bytes; tags and branches keep %" PRIu64 " old versions",
        dry_run ? "would remove" : "removed", done->versions_removed, done->versions, done->files_removed,
        done->bytes_removed, done->versions_named);
    lk_report(json, sentence.data, numbers, sizeof numbers / sizeof numbers[0]);
    lk_buf_deinit(&sentence);
}

static int clean_up(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame     f = {.cli = cli, .command = &lk_cli_lance_change_commands[CLEANUP]};
    const char        *older_than = NULL;
    lk_cleanup_options options = {0};
    lk_cleanup_report  done = {0};
    const lk_arg       args[] = {
              {"--retain", LK_ARG_U64, &options.retain, "N", "the newest N versions stay (default 1)", false},
              {"--older-than", LK_ARG_TEXT, &older_than, "D",
                  "younger versions stay: 90s, 30m, 12h, 14d, 2w (default 14d; with --retain alone 0s)", false},
              {"--delete-unverified", LK_ARG_FLAG, &options.delete_unverified, NULL,
                  "also files of the last 7 days that no version refers to: nobody may be writing", false},
              {"--dry-run", LK_ARG_FLAG, &options.dry_run, NULL, "only say what would go", false},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    older_than = older_than != NULL ? older_than : options.retain > 0 ? "0s" : "14d";
    lk_rc rc = parse_duration(older_than, &options.older_than_ms, &f.err);
    if (rc == LK_OK) {
        rc = lk_lance_frame_open(&f, 0);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_cleanup(&f.lance.env, &options, &done, &f.err);
    }
    if (rc == LK_OK) {
        report_cleanup(f.json, options.dry_run, &done);
    }
    return lk_lance_frame_end(&f, rc);
}

/* -- compact -------------------------------------------------------------------------------------------- */

static void report_compact(bool json, const lk_compact_report *done, const lk_dataset *next)
{
    const lk_report_number numbers[] = {
        {"version", lk_dataset_version(next)},
        {"versions", done->versions},
        {"rows", done->rows},
        {"fragments_before", done->fragments_before},
        {"fragments_after", done->fragments_after},
        {"fragments_rewritten", done->fragments_rewritten},
        {"fragments_written", done->fragments_written},
        {"deleted_rows_dropped", done->deleted_rows_dropped},
    };
    lk_buf sentence = {0};
    lk_buf_format(&sentence,
        "%" PRIu64 " fragments before, %" PRIu64 " now; %" PRIu64 " deleted rows dropped: version %" PRIu64,
        done->fragments_before, done->fragments_after, done->deleted_rows_dropped, numbers[0].value);
    lk_report(json, sentence.data, numbers, sizeof numbers / sizeof numbers[0]);
    lk_buf_deinit(&sentence);
}

static int compact(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame     f = {.cli = cli, .command = &lk_cli_lance_change_commands[COMPACT]};
    lk_compact_options options = {0};
    lk_compact_report  done = {0};
    const lk_arg       args[] = {
              {"--target-rows", LK_ARG_U64, &options.target_rows, "N",
                  "rows of a full fragment (default 1,048,576)", false},
              {"--target-bytes", LK_ARG_U64, &options.target_bytes, "N",
                  "bytes of a full fragment (default 16 GiB)", false},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_rc rc = lk_lance_frame_open(&f, 0);
    if (rc == LK_OK) {
        rc = lk_dataset_compact(
            f.lance.dataset, lk_direct_committer(), &options, NULL, &done, &f.next, &f.err);
    }
    if (rc == LK_OK) {
        report_compact(f.json, &done, f.next);
    } else if (done.versions > 0) {
        fprintf(stderr,
            "lake: before that, %" PRIu64 " versions were committed, with %" PRIu64
            " fragments instead of %" PRIu64 "; they stay, and the next compaction goes on from there\n",
            done.versions, done.fragments_after, done.fragments_before);
    }
    return lk_lance_frame_end(&f, rc);
}

const lk_cli_command lk_cli_lance_change_commands[] = {
    [TAG_LIST] = {{"lance tag list", "list a Lance dataset's tags", NULL}, tag_list},
    [TAG_CREATE] = {{"lance tag create", "give a version a name, which keeps it from cleanup",
                        "Example:\n  lake lance tag create ./arm.lance training-7 --version 12"},
        tag_create},
    [TAG_MOVE] = {{"lance tag move", "let a tag name another version", NULL}, tag_move},
    [TAG_DELETE] = {{"lance tag delete", "remove a tag; its version stays until a cleanup", NULL},
        tag_delete},
    [RESTORE] = {{"lance restore", "make an old version the newest one",
                     "Its rows, columns and indices are committed again as a new version; what came after it "
                     "stays in the history.\nExample:\n  lake lance restore ./arm.lance --version 12"},
        restore},
    [DELETE] =
        {{"lance delete", "delete a Lance dataset's rows by an SQL condition",
             "The condition is what may stand after WHERE. The rows stay in the older versions until a "
             "cleanup.\nExample:\n  lake lance delete ./arm.lance --where \"t < 1000 AND q IS NULL\""},
            delete_rows},
    [COLUMNS_ADD] = {{"lance columns add", "add columns to a Lance dataset, null in every row there is",
                         "Examples:\n  lake lance columns add ./arm.lance --column gripper:float32 --column "
                         "note:utf8\n"
                         "  lake lance columns add ./arm.lance --column fast:bool --value 'speed > 2'"},
        columns_add},
    [COLUMNS_DROP] =
        {{"lance columns drop", "drop columns of a Lance dataset",
             "Older versions keep them; their bytes go with a cleanup once no version needs the "
             "file.\nExample:\n  lake lance columns drop ./arm.lance --column note --column pose.w"},
            columns_drop},
    [COLUMNS_RENAME] = {{"lance columns rename", "rename a column of a Lance dataset",
                            "Example:\n  lake lance columns rename ./arm.lance --column q --to joints"},
        columns_rename},
    [COLUMNS_CAST] =
        {{"lance columns cast", "give a column of a Lance dataset another type",
             "Every value is converted, or nothing is changed: one that the new type cannot hold is an "
             "error.\nExample:\n  lake lance columns cast ./arm.lance --column speed --to float32"},
            columns_cast},
    [CLEANUP] = {{"lance cleanup", "remove a Lance dataset's old versions and the files only they need",
                     "The newest version, tagged versions and those that branches grew from always stay.\n"
                     "Examples:\n  lake lance cleanup ./arm.lance --older-than 30d --retain 10\n"
                     "  lake lance cleanup ./arm.lance --retain 1 --dry-run"},
        clean_up},
    [COMPACT] = {{"lance compact", "make a Lance dataset's small or worn fragments into full ones",
                     "Rewritten rows keep their order; where fragments in between are left alone, they come "
                     "after those.\n"
                     "The old files stay until a cleanup.\nExample:\n"
                     "  lake lance compact ./arm.lance && lake lance cleanup ./arm.lance --retain 1"},
        compact},
    {{NULL, NULL, NULL}, NULL},
};
