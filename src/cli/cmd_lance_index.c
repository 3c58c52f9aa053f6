/* cmd_lance_index.c - `lake lance index create|update|list|drop`: scalar indices of a Lance dataset in place. */
#include "base/json.h"
#include "cli/lance_frame.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "lance/index.h"
#include "lance/schema.h"

#include <inttypes.h>
#include <string.h>

enum { CREATE, UPDATE, LIST, DROP };

/* -- create and update ------------------------------------------------------------------------------------ */
static void show(void *progress, uint64_t rows, uint64_t rows_total)
{
    (void)rows_total;
    lk_progress_show(progress, rows);
}

static void report(bool json, const lk_index_report *done, const lk_dataset *next)
{
    const lk_report_number numbers[] = {
        {"version", lk_dataset_version(next)},
        {"rows", done->rows},
        {"fragments", done->fragments},
        {"size_bytes", done->size_bytes},
    };
    lk_buf sentence = {0};
    lk_buf_format(&sentence,
        "indexed %" PRIu64 " rows of %" PRIu64 " fragments, %" PRIu64 " bytes: version %" PRIu64, done->rows,
        done->fragments, done->size_bytes, numbers[0].value);
    lk_report(json, sentence.data, numbers, sizeof numbers / sizeof numbers[0]);
    lk_buf_deinit(&sentence);
}

static lk_rc parse_kind(const char *text, lk_index_kind *out, lk_err *err)
{
    *out = text == NULL || strcmp(text, "btree") == 0 ? LK_INDEX_BTREE
           : strcmp(text, "zonemap") == 0             ? LK_INDEX_ZONEMAP
                                                      : LK_INDEX_OTHER;
    return *out == LK_INDEX_OTHER ? lk_cli_usage(err, "--kind is btree or zonemap") : LK_OK;
}

static int create(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame   f = {.cli = cli, .command = &lk_cli_lance_index_commands[CREATE]};
    const char      *column = NULL, *kind = NULL, *name = NULL;
    lk_progress      progress = {.what = "rows"};
    lk_index_options options = {.progress = show, .progress_context = &progress};
    lk_index_report  done = {0};
    const lk_arg     args[] = {
            {"--column", LK_ARG_TEXT, &column, "NAME", "the column, or STRUCT.FIELD", true},
            {"--kind", LK_ARG_TEXT, &kind, "KIND", "btree (the default) finds rows, zonemap leaves blocks out",
                false},
            {"--name", LK_ARG_TEXT, &name, "NAME", "the index's name; else the column's and _idx", false},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    options.column = lk_bytes_of(column);
    options.name = lk_bytes_of(name);
    lk_rc rc = parse_kind(kind, &options.kind, &f.err);
    if (rc == LK_OK) {
        rc = lk_lance_frame_open(&f, 0);
    }
    if (rc == LK_OK) {
        rc = lk_index_create(f.lance.dataset, lk_direct_committer(), &options, NULL, &done, &f.next, &f.err);
        lk_progress_end(&progress);
    }
    if (rc == LK_OK) {
        report(f.json, &done, f.next);
    }
    return lk_lance_frame_end(&f, rc);
}

static int update(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame   f = {.cli = cli, .command = &lk_cli_lance_index_commands[UPDATE]};
    const char      *name = NULL;
    lk_progress      progress = {.what = "rows"};
    lk_index_options options = {.progress = show, .progress_context = &progress};
    lk_index_report  done = {0};
    const lk_arg     args[] = {
            {"NAME", LK_ARG_OPERAND, &name, NULL, "the index", false},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_rc rc = lk_lance_frame_open(&f, 0);
    if (rc == LK_OK) {
        rc = lk_index_update(f.lance.dataset, lk_direct_committer(), lk_bytes_of(name), &options, NULL, &done,
            &f.next, &f.err);
        lk_progress_end(&progress);
    }
    if (rc == LK_OK) {
        report(f.json, &done, f.next);
    }
    return lk_lance_frame_end(&f, rc);
}

/* -- list ------------------------------------------------------------------------------------------------- */

/* The path of a field: names joined by dots, "" when it is not there. */
static lk_bytes path_of(const lk_lance_schema *schema, int32_t id, lk_arena *arena)
{
    lk_bytes path = {0};
    for (size_t at = lk_lance_schema_find(schema, id); at != SIZE_MAX;
         at = lk_lance_schema_find(schema, schema->fields[at].parent_id)) {
        path = path.size == 0
                   ? lk_bytes_of(schema->fields[at].arrow->name)
                   : lk_arena_format(arena, "%s.%.*s", schema->fields[at].arrow->name, LK_FMT(path));
    }
    return path;
}

static void list_json(
    lk_json_writer *w, const lk_index *index, const lk_lance_schema *schema, lk_arena *arena)
{
    char uuid[LK_UUID_TEXT_SIZE + 1];
    lk_uuid_format(index->uuid, uuid);
    lk_json_object(w);
    lk_json_key(w, "name");
    lk_json_text(w, index->name);
    lk_json_key(w, "kind");
    lk_json_text(w, lk_bytes_of(lk_index_kind_name(index->kind)));
    lk_json_key(w, "type");
    lk_json_text(w, index->type);
    lk_json_key(w, "columns");
    lk_json_array(w);
    for (size_t i = 0; i < index->field_count; i++) {
        lk_json_text(w, path_of(schema, index->fields[i], arena));
    }
    lk_json_array_end(w);
    lk_json_key(w, "uuid");
    lk_json_text(w, lk_bytes_of(uuid));
    lk_json_key(w, "version");
    lk_json_u64(w, index->dataset_version);
    lk_json_key(w, "fragments_covered");
    lk_json_u64(w, index->covered_count);
    lk_json_object_end(w);
}

static void list_text(const lk_index *index, size_t fragments, const lk_lance_schema *schema, lk_arena *arena)
{
    lk_bytes kind =
        index->kind == LK_INDEX_OTHER ? index->type : lk_bytes_of(lk_index_kind_name(index->kind));
    lk_bytes column = index->field_count == 0 ? LK_LITERAL("-") : path_of(schema, index->fields[0], arena);
    printf("%-32.*s %-10.*s %-24.*s covers %zu of %zu fragments\n", LK_FMT(index->name), LK_FMT(kind),
        LK_FMT(column), index->covered_count, fragments);
}

static int list(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame  f = {.cli = cli,
         .command = &lk_cli_lance_index_commands[LIST],
         .json_help = "one JSON array, an object a segment"};
    uint64_t        version = 0;
    const lk_index *indices = NULL;
    size_t          count = 0;
    const lk_arg    args[] = {
           {"--version", LK_ARG_U64, &version, "N", "of this version instead of the latest", false},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_rc rc = lk_lance_frame_open(&f, version);
    if (rc == LK_OK) {
        rc = lk_index_list(f.lance.dataset, &cli->arena, &indices, &count, &f.err);
    }
    if (rc == LK_OK) {
        const lk_manifest *manifest = lk_dataset_manifest(f.lance.dataset);
        lk_buf             text = {0};
        lk_json_writer     w = {.out = &text};
        lk_json_array(&w);
        for (size_t i = 0; i < count; i++) {
            list_json(&w, &indices[i], manifest->schema, &cli->arena);
            if (!f.json) {
                list_text(&indices[i], manifest->fragment_count, manifest->schema, &cli->arena);
            }
        }
        lk_json_array_end(&w);
        if (f.json) {
            printf("%.*s\n", LK_FMT(lk_buf_view(&text)));
        }
        lk_buf_deinit(&text);
    }
    return lk_lance_frame_end(&f, rc);
}

/* -- drop ------------------------------------------------------------------------------------------------- */
static int drop(lk_cli *cli, int argc, char **argv)
{
    lk_lance_frame f = {.cli = cli, .command = &lk_cli_lance_index_commands[DROP]};
    const char    *name = NULL;
    const lk_arg   args[] = {
          {"NAME", LK_ARG_OPERAND, &name, NULL, "the index", false},
    };
    if (!lk_lance_frame_begin(&f, args, sizeof args / sizeof args[0], argc, argv)) {
        return f.code;
    }
    lk_rc rc = lk_lance_frame_open(&f, 0);
    if (rc == LK_OK) {
        rc = lk_index_drop(f.lance.dataset, lk_direct_committer(), lk_bytes_of(name), NULL, &f.next, &f.err);
    }
    return lk_lance_frame_end_with_version(&f, rc, "dropped");
}

const lk_cli_command lk_cli_lance_index_commands[] = {
    [CREATE] =
        {{"lance index create", "index a column of a Lance dataset",
             "Filters of every Lance library use it from then on. Rows that are added later are read as\n"
             "before, until the index is updated. An index of this name is replaced.\n"
             "Example:\n  lake lance index create ./points.lance --column id"},
            create},
    [UPDATE] = {{"lance index update", "make an index cover the rows that were added since",
                    "Example:\n  lake lance index update ./points.lance id_idx"},
        update},
    [LIST] = {{"lance index list", "list a Lance dataset's indices", NULL}, list},
    [DROP] = {{"lance index drop", "drop an index; its files go with a later cleanup", NULL}, drop},
    {{NULL, NULL, NULL}, NULL},
};
