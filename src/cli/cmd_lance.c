/* cmd_lance.c - `lake lance info|versions`: a Lance dataset in place, without a server. */
#include "base/json.h"
#include "base/log.h"
#include "cli/columns.h"
#include "cli/lance_frame.h"
#include "lance/manifest.h"
#include "lance/refs.h"
#include "lance/row_ids.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

enum { INFO, VERSIONS };

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
    printf("row ids      %s\n", lk_dataset_has_stable_row_ids(dataset) ? "stable" : "addresses");
    if (m->branch.size > 0) {
        printf("branch       %.*s\n", LK_FMT(m->branch));
    }
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
    lk_json_key(&w, "stable_row_ids");
    lk_json_bool(&w, lk_dataset_has_stable_row_ids(dataset));
    lk_json_key(&w, "branch");
    lk_json_text(&w, m->branch.size == 0 ? LK_LITERAL("main") : m->branch);
    refs_json(&w, refs);
    lk_json_key(&w, "columns");
    lk_columns_json(schema, &w);
    lk_json_object_end(&w);
    printf("%.*s\n", LK_FMT(lk_buf_view(&text)));
    lk_buf_deinit(&text);
}

static int info(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame f = {.cli = cli, .command = &lk_cli_lance_commands[INFO]};
    uint64_t       version = 0;
    const lk_arg   args[] = {
          {"--version", LK_ARG_U64, &version, "N", "this version instead of the latest", false},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    ref_list found = {0};
    lk_rc    rc = lk_lance_frame_open(&f, version);
    if (rc == LK_OK) {
        rc = lk_refs_list(f.lance.env.store, &cli->arena, &found.list, &found.count, &f.err);
    }
    if (rc == LK_OK) {
        (f.json ? info_json : info_text)(f.lance.dataset, &found);
    }
    return lk_lance_frame_end(&f, rc);
}

/* -- versions ---------------------------------------------------------------------------------------- */
static lk_rc made_at(const lk_lance_env *env, uint64_t version, char *text, size_t room, lk_err *err)
{
    lk_dataset *dataset = NULL;
    struct tm   broken;
    lk_rc       rc = lk_dataset_open(env, version, &dataset, err);
    if (rc != LK_OK) {
        return rc;
    }
    uint64_t ms = lk_dataset_manifest(dataset)->timestamp_ms;
    time_t   seconds = (time_t)(ms / 1000);
    char     day[32] = "";
    if (gmtime_r(&seconds, &broken) != NULL) {
        (void)strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &broken);
    }
    (void)snprintf(text, room, "%s.%03" PRIu64 "Z", day, ms % 1000);
    lk_dataset_unref(dataset);
    return LK_OK;
}

/* One line a version, or one JSON array: of numbers, or of objects where times are asked for. */
static lk_rc print_versions(
    const lk_lance_env *env, const uint64_t *list, size_t count, bool times, bool json, lk_err *err)
{
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_rc          rc = LK_OK;
    lk_json_array(&w);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        char at[64] = "";
        rc = times ? made_at(env, list[i], at, sizeof at, err) : LK_OK;
        if (rc == LK_OK && !json) {
            printf("%" PRIu64 "%s%s\n", list[i], times ? "  " : "", at);
        } else if (times) {
            lk_json_object(&w);
            lk_json_key(&w, "version");
            lk_json_u64(&w, list[i]);
            lk_json_key(&w, "timestamp");
            lk_json_text(&w, lk_bytes_of(at));
            lk_json_object_end(&w);
        } else {
            lk_json_u64(&w, list[i]);
        }
    }
    lk_json_array_end(&w);
    if (rc == LK_OK && json) {
        printf("%.*s\n", LK_FMT(lk_buf_view(&text)));
    }
    lk_buf_deinit(&text);
    return rc;
}

static int versions(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame f = {
        .cli = cli, .command = &lk_cli_lance_commands[VERSIONS], .json_help = "one JSON array"};
    bool         times = false;
    uint64_t    *list = NULL;
    size_t       count = 0;
    const lk_arg args[] = {
        {"--times", LK_ARG_FLAG, &times, NULL, "when each was made, too (reads every manifest)", false},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_rc rc = lk_cli_lance_open_store(&f.lance, f.uri, &f.err);
    if (rc == LK_OK) {
        rc = lk_dataset_versions(&f.lance.env, &cli->arena, &list, &count, &f.err);
    }
    if (rc == LK_OK && count == 0) {
        rc = lk_fail(&f.err, LK_E_NOT_FOUND, "%s", f.uri);
        lk_detail(&f.err, "%.100s holds no Lance dataset", f.uri);
    }
    if (rc == LK_OK) {
        rc = print_versions(&f.lance.env, list, count, times, f.json, &f.err);
    }
    return lk_lance_frame_end(&f, rc);
}

const lk_cli_command lk_cli_lance_commands[] = {
    [INFO] = {{"lance info", "show a Lance dataset in place", NULL}, info},
    [VERSIONS] = {{"lance versions", "list a Lance dataset's versions", NULL}, versions},
    {{NULL, NULL, NULL}, NULL},
};
