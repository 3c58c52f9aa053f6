/* cmd_lance_verify.c - `lake lance verify`: whether a Lance dataset is what it says. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/lance_env.h"
#include "lance/verify.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct telling {
    bool           json;
    lk_buf         text; /* JSON: the damages so far, as an array's elements */
    lk_json_writer writer;
} telling;

static void tell(void *context, uint64_t version, lk_bytes what, const char *reason)
{
    telling *t = context;
    if (!t->json) {
        if (version > 0) {
            printf("version %" PRIu64 ": ", version);
        }
        printf("%.*s: %s\n", LK_FMT(what), reason);
        return;
    }
    lk_json_object(&t->writer);
    lk_json_key(&t->writer, "version");
    if (version > 0) {
        lk_json_u64(&t->writer, version);
    } else {
        lk_json_null(&t->writer);
    }
    lk_json_key(&t->writer, "object");
    lk_json_text(&t->writer, what);
    lk_json_key(&t->writer, "reason");
    lk_json_text(&t->writer, lk_bytes_of(reason));
    lk_json_object_end(&t->writer);
}

static void report(telling *t, const lk_verify_report *r)
{
    const struct {
        const char *key;
        uint64_t    value;
    } numbers[] = {{"versions", r->versions}, {"fragments", r->fragments}, {"data_files", r->data_files},
        {"deletion_files", r->deletion_files}, {"indices", r->indices}, {"references", r->references},
        {"rows", r->rows}, {"values", r->values}, {"damages", r->damages}};
    if (!t->json) {
        printf("%s: %" PRIu64 " version%s, %" PRIu64 " data files of %" PRIu64 " rows, %" PRIu64
               " values, %" PRIu64 " deletion files, %" PRIu64 " indices, %" PRIu64 " references\n",
            r->damages == 0 ? "whole" : "DAMAGED", r->versions, r->versions == 1 ? "" : "s", r->data_files,
            r->rows, r->values, r->deletion_files, r->indices, r->references);
        return;
    }
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_object(&w);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        lk_json_key(&w, numbers[i].key);
        lk_json_u64(&w, numbers[i].value);
    }
    lk_json_key(&w, "damage");
    lk_json_raw(&w, lk_buf_view(&t->text));
    lk_json_object_end(&w);
    printf("%.*s\n", LK_FMT(lk_buf_view(&text)));
    lk_buf_deinit(&text);
}

static int verify(lk_cli *cli, int argc, char **argv)
{
    const char       *uri = NULL;
    telling           t = {0};
    lk_verify_options options = {.damage = tell, .context = &t};
    lk_verify_report  done = {0};
    lk_cli_lance      lance = {.config = cli->config};
    lk_err            err = {0};
    int               code = 0;
    const lk_arg      args[] = {
             {"URI", LK_ARG_OPERAND, &uri, NULL, "directory of the dataset, or s3://BUCKET/PREFIX", false},
             {"--version", LK_ARG_U64, &options.version, "N", "this version instead of the latest", false},
             {"--all", LK_ARG_FLAG, &options.all_versions, NULL, "every version there is", false},
             {"--json", LK_ARG_FLAG, &t.json, NULL, "one JSON object", false},
    };
    if (!lk_cli_parse(
            cli, lk_cli_lance_verify_commands, args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    lk_rc rc = options.all_versions && options.version > 0
                   ? lk_cli_usage(&err, "--all and --version exclude each other")
                   : LK_OK;
    t.writer = (lk_json_writer){.out = &t.text};
    lk_json_array(&t.writer);
    if (rc == LK_OK) {
        rc = lk_cli_lance_open_store(&lance, uri, &err);
    }
    if (rc == LK_OK) {
        rc = lk_dataset_verify(&lance.env, &options, &done, &err);
        if (rc == LK_E_NOT_FOUND) {
            lk_detail(&err,
                options.version > 0 ? "%.100s has no such version; see lake lance versions"
                                    : "%.100s holds no Lance dataset",
                uri);
        }
    }
    lk_json_array_end(&t.writer);
    if (rc == LK_OK) {
        report(&t, &done);
    }
    lk_buf_deinit(&t.text);
    lk_cli_lance_close(&lance);
    return rc != LK_OK ? lk_cli_fail(&err) : done.damages > 0 ? 1 : 0;
}

const lk_cli_command lk_cli_lance_verify_commands[] = {
    {{"lance verify", "read all of a Lance dataset and check what can be checked",
         "Every page of every file is decoded; row counts, field ids, deletion files, statistics, indices, "
         "blobs, base\n"
         "paths, transactions, tags and branches are compared with what the version says of them. A line for "
         "every\n"
         "damage: the file and the reason. Exit status 0: whole; 1: damaged.\nExamples:\n"
         "  lake lance verify ./arm.lance\n  lake lance verify s3://robots/arm.lance --all --json"},
        verify},
    {{NULL, NULL, NULL}, NULL},
};
