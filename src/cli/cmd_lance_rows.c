/* cmd_lance_rows.c - `lake lance update|merge`: rows of a Lance dataset that change in place, without a server. */
#include "cli/lance_frame.h"
#include "cli/lance_match.h"
#include "cli/lance_set.h"
#include "cli/report.h"
#include "cli/source.h"
#include "lance/alter.h"

#include <inttypes.h>
#include <string.h>

enum { UPDATE, MERGE };

static void report_rows(bool json, const lk_update_report *done, const lk_dataset *next)
{
    const lk_report_number numbers[] = {
        {"version", lk_dataset_version(next)},
        {"rows_updated", done->rows_updated},
        {"rows_inserted", done->rows_inserted},
        {"rows_deleted", done->rows_deleted},
        {"fragments_changed", done->fragments_changed},
        {"fragments_removed", done->fragments_removed},
        {"fragments_written", done->fragments_written},
    };
    lk_buf sentence = {0};
    lk_buf_format(&sentence,
        "updated %" PRIu64 " rows, inserted %" PRIu64 ", deleted %" PRIu64 ": version %" PRIu64,
        done->rows_updated, done->rows_inserted, done->rows_deleted, numbers[0].value);
    lk_report(json, sentence.data, numbers, sizeof numbers / sizeof numbers[0]);
    lk_buf_deinit(&sentence);
}

/* -- update --------------------------------------------------------------------------------------------- */

static int update(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame   f = {.cli = cli, .command = &lk_cli_lance_rows_commands[UPDATE]};
    const char      *condition = NULL;
    lk_arg_texts     texts = {0};
    lk_cli_set      *set = NULL;
    lk_update_report done = {0};
    const lk_arg     args[] = {
            {"--set", LK_ARG_TEXTS, &texts, "COLUMN=SQL", "a column's new value", true},
            {"--where", LK_ARG_TEXT, &condition, "SQL", "only rows for which this is true", false},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_rc rc = lk_lance_frame_open(&f, 0);
    if (rc == LK_OK) {
        rc = lk_cli_set_open(
            cli->config, lk_arg_texts_bytes(&texts, &cli->arena), texts.count, condition, &set, &f.err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_update(
            f.lance.dataset, lk_direct_committer(), lk_cli_set_changer(set), NULL, &done, &f.next, &f.err);
    }
    if (rc == LK_OK) {
        report_rows(f.json, &done, f.next);
    }
    lk_cli_set_close(set);
    return lk_lance_frame_end(&f, rc);
}

/* -- merge ---------------------------------------------------------------------------------------------- */

/* The input as a dataset in the scratch directory: it is read more than once, and need not fit in memory. */
static lk_rc spool(const char *input, const char *directory, lk_arena *arena, lk_cli_lance *out, lk_err *err)
{
    const lk_source_options options = {0};
    lk_batches             *rows = NULL;
    lk_dataset             *empty = NULL;
    lk_bytes                path = lk_arena_format(arena, "%s/source.lance", directory);
    lk_rc                   rc = lk_source_open(input, &options, &rows, err);
    if (rc == LK_OK) {
        rc = lk_cli_lance_open_store(out, path.data, err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_create(&out->env, lk_direct_committer(), &rows->schema, NULL, &empty, err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_append(empty, lk_direct_committer(), rows, NULL, &out->dataset, err);
    }
    lk_dataset_unref(empty);
    lk_batches_close(rows);
    return rc;
}

/* One of two words; NULL: the first. */
static lk_rc choose(
    const char *option, const char *word, const char *yes, const char *no, bool *out, lk_err *err)
{
    *out = word == NULL ? *out : strcmp(word, yes) == 0;
    return word == NULL || *out || strcmp(word, no) == 0
               ? LK_OK
               : lk_cli_usage(err, "%s is %s or %s, not %.50s", option, yes, no, word);
}

typedef struct merge_words {
    const char *matched, *unmatched, *missing;
} merge_words;

static lk_rc parse_words(const merge_words *words, lk_merge_options *out, lk_err *err)
{
    lk_rc rc = choose("--when-matched", words->matched, "update", "nothing", &out->update, err);
    if (rc == LK_OK) {
        rc = choose("--when-not-matched", words->unmatched, "insert", "nothing", &out->insert, err);
    }
    return rc == LK_OK ? choose("--when-not-matched-by-source", words->missing, "delete", "nothing",
                             &out->delete_unmatched, err)
                       : rc;
}

static lk_rc merge_input(lk_cli *cli, lk_dataset *dataset, const char *input, const lk_arg_texts *keys,
    const lk_merge_options *options, lk_update_report *done, lk_dataset **next, lk_err *err)
{
    lk_cli_match *match = NULL;
    lk_cli_lance  source = {.config = cli->config};
    lk_rc         rc = lk_source_check(input, err);
    if (rc == LK_OK) {
        rc = lk_cli_match_open(cli->config, lk_arg_texts_bytes(keys, &cli->arena), keys->count, &match, err);
    }
    if (rc == LK_OK) {
        rc = spool(input, lk_cli_match_scratch(match), &cli->arena, &source, err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_merge(dataset, lk_direct_committer(), source.dataset, lk_cli_match_matcher(match),
            options, NULL, done, next, err);
    }
    lk_cli_lance_close(&source);
    lk_cli_match_close(match);
    return rc;
}

static int merge(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame   f = {.cli = cli, .command = &lk_cli_lance_rows_commands[MERGE]};
    const char      *input = NULL;
    lk_arg_texts     keys = {0};
    merge_words      words = {0};
    lk_merge_options options = {.update = true, .insert = true};
    lk_update_report done = {0};
    const lk_arg     args[] = {
            {"INPUT", LK_ARG_OPERAND, &input, NULL, "Arrow, Parquet, CSV or NDJSON file", false},
            {"--on", LK_ARG_TEXTS, &keys, "COLUMN", "the key", true},
            {"--when-matched", LK_ARG_TEXT, &words.matched, "update|nothing", "default: update", false},
            {"--when-not-matched", LK_ARG_TEXT, &words.unmatched, "insert|nothing", "default: insert", false},
            {"--when-not-matched-by-source", LK_ARG_TEXT, &words.missing, "delete|nothing",
                "rows of the dataset without a row in INPUT; default: nothing", false},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_rc rc = parse_words(&words, &options, &f.err);
    if (rc == LK_OK) {
        rc = lk_lance_frame_open(&f, 0);
    }
    if (rc == LK_OK) {
        rc = merge_input(cli, f.lance.dataset, input, &keys, &options, &done, &f.next, &f.err);
    }
    if (rc == LK_OK) {
        report_rows(f.json, &done, f.next);
    }
    return lk_lance_frame_end(&f, rc);
}

const lk_cli_command lk_cli_lance_rows_commands[] = {
    [UPDATE] = {{"lance update", "give rows of a Lance dataset other values",
                    "An expression is SQL over the row's old values; its result must fit the column's type.\n"
                    "Examples:\n  lake lance update ./arm.lance --set 'speed=speed * 2' --where 'robot = 3'\n"
                    "  lake lance update ./arm.lance --set label=NULL --set checked=true"},
        update},
    [MERGE] =
        {{"lance merge", "merge rows into a Lance dataset by key",
             "A row of INPUT whose key the dataset has takes that row's place, another is added. INPUT has "
             "the\n"
             "dataset's columns. No two of its rows may have the same key; a null is equal to nothing.\n"
             "Examples:\n  lake lance merge ./arm.lance new.parquet --on episode --on frame\n"
             "  lake lance merge ./arm.lance labels.arrow --on id --when-not-matched nothing"},
            merge},
    {{NULL, NULL, NULL}, NULL},
};
