/* cmd_table.c - `lake table create|list|describe|drop`: tables on a server. */
#include "arrow/ipc.h"
#include "arrow/schema.h"
#include "base/json.h"
#include "base/limits.h"
#include "cli/columns.h"
#include "cli/remote.h"
#include "cli/source.h"

#include <inttypes.h>

enum { CREATE, LIST, DESCRIBE, DROP };

/* -- create ------------------------------------------------------------------------------------------ */
static lk_rc create_on(
    lk_cli *cli, const lk_remote_args *where, const char *name, struct ArrowSchema *schema, lk_err *err)
{
    lk_table_ref table = {0};
    lk_remote    remote = {0};
    lk_rc        rc = lk_schema_check(schema, err);
    if (rc == LK_OK) {
        rc = lk_table_ref_parse(lk_bytes_of(name), &table, err);
    }
    if (rc == LK_OK) {
        rc = lk_remote_open(&remote, cli, where, err);
    }
    if (rc == LK_OK) {
        rc = remote.authority->ops->create_table(remote.authority, NULL, table, schema, err);
    }
    if (rc == LK_OK) {
        printf("created table %s\n", name);
    }
    lk_remote_close(&remote);
    return rc;
}

static int create(lk_cli *cli, int argc, char **argv)
{
    lk_remote_args     where = {0};
    const char        *name = NULL, *file = NULL;
    lk_source_options  source = {0};
    lk_arg_texts       columns = {0};
    struct ArrowSchema schema = {0};
    lk_err             err = {0};
    int                code = 0;
    const lk_arg       args[] = {
              {"NS.TABLE", LK_ARG_OPERAND, &name, NULL, "namespace and table name", false},
              {"--column", LK_ARG_TEXTS, &columns, "NAME:TYPE[?]", "a column; ? makes it nullable", false},
              {"--schema", LK_ARG_TEXT, &file, "FILE", "copy the schema of an Arrow, Parquet, CSV or NDJSON file",
                  false},
              {"--null", LK_ARG_TEXT, &source.null_text, "TEXT",
                  "with a CSV schema file: text that stands for null", false},
              LK_REMOTE_ARGS(where),
    };
    const lk_cli_command *command = &lk_cli_table_commands[CREATE];
    if (!lk_cli_parse(cli, command, args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    lk_rc rc = LK_OK;
    if ((columns.count > 0) == (file != NULL)) {
        rc = lk_cli_usage(&err, "give the columns, either by --column or by --schema");
    } else {
        rc = file != NULL
                 ? lk_source_schema(file, &source, &schema, &err)
                 : lk_columns_parse(lk_arg_texts_bytes(&columns, &cli->arena), columns.count, &schema, &err);
    }
    if (rc == LK_OK) {
        rc = create_on(cli, &where, name, &schema, &err);
    }
    lk_schema_release(&schema);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

/* -- list -------------------------------------------------------------------------------------------- */
typedef struct listing {
    lk_authority  *authority;
    lk_json_writer json;
    bool           as_json;
    lk_buf         text;
} listing;

static lk_rc list_namespace(listing *l, lk_bytes ns, lk_err *err)
{
    lk_arena     arena = {0};
    lk_name_page page = {0};
    lk_rc        rc = LK_OK;
    do {
        rc = l->authority->ops->list_tables(
            l->authority, NULL, ns, page.continuation, LK_PAGE_ITEMS_MAX, &arena, &page, err);
        for (size_t i = 0; rc == LK_OK && i < page.count; i++) {
            lk_bytes name = lk_arena_format(&arena, "%.*s.%.*s", LK_FMT(ns), LK_FMT(page.names[i]));
            if (l->as_json) {
                lk_json_text(&l->json, name);
            } else {
                printf("%.*s\n", LK_FMT(name));
            }
        }
    } while (rc == LK_OK && page.continuation.size > 0);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc list_all(listing *l, lk_err *err)
{
    lk_arena     arena = {0};
    lk_name_page page = {0};
    lk_rc        rc = LK_OK;
    do {
        rc = l->authority->ops->list_namespaces(
            l->authority, NULL, page.continuation, LK_PAGE_ITEMS_MAX, &arena, &page, err);
        for (size_t i = 0; rc == LK_OK && i < page.count; i++) {
            rc = list_namespace(l, page.names[i], err);
        }
    } while (rc == LK_OK && page.continuation.size > 0);
    lk_arena_close(&arena);
    return rc;
}

static int list(lk_cli *cli, int argc, char **argv)
{
    lk_remote_args where = {0};
    const char    *ns = NULL;
    lk_remote      remote = {0};
    listing        l = {0};
    lk_err         err = {0};
    int            code = 0;
    const lk_arg   args[] = {
          {"NAMESPACE", LK_ARG_OPTIONAL_OPERAND, &ns, NULL, "only this namespace", false},
          {"--json", LK_ARG_FLAG, &l.as_json, NULL, "one JSON array", false},
          LK_REMOTE_ARGS(where),
    };
    if (!lk_cli_parse(
            cli, &lk_cli_table_commands[LIST], args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    lk_rc rc = lk_remote_open(&remote, cli, &where, &err);
    if (rc == LK_OK) {
        l.authority = remote.authority;
        l.json.out = &l.text;
        lk_json_array(&l.json);
        rc = ns != NULL ? list_namespace(&l, lk_bytes_of(ns), &err) : list_all(&l, &err);
        lk_json_array_end(&l.json);
    }
    if (rc == LK_OK && l.as_json) {
        printf("%.*s\n", LK_FMT(lk_buf_view(&l.text)));
    }
    lk_buf_deinit(&l.text);
    lk_remote_close(&remote);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

/* -- describe ---------------------------------------------------------------------------------------- */
static void describe_text(const lk_registration *r, const struct ArrowSchema *schema)
{
    printf("table       %.*s.%.*s\nversion     %" PRIu64 "\nincarnation %.*s\nlocation    %.*s\n\n",
        LK_FMT(r->table.ns), LK_FMT(r->table.name), r->version, LK_FMT(r->incarnation), LK_FMT(r->location));
    lk_columns_print(schema, stdout);
}

static void describe_json(const lk_registration *r, const struct ArrowSchema *schema)
{
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_object(&w);
    lk_json_key(&w, "namespace");
    lk_json_text(&w, r->table.ns);
    lk_json_key(&w, "name");
    lk_json_text(&w, r->table.name);
    lk_json_key(&w, "version");
    lk_json_u64(&w, r->version);
    lk_json_key(&w, "incarnation");
    lk_json_text(&w, r->incarnation);
    lk_json_key(&w, "location");
    lk_json_text(&w, r->location);
    lk_json_key(&w, "columns");
    lk_columns_json(schema, &w);
    lk_json_object_end(&w);
    printf("%.*s\n", LK_FMT(lk_buf_view(&text)));
    lk_buf_deinit(&text);
}

static int describe(lk_cli *cli, int argc, char **argv)
{
    lk_remote_args     where = {0};
    const char        *name = NULL;
    bool               json = false;
    lk_table_ref       table = {0};
    lk_registration    registration = {0};
    struct ArrowSchema schema = {0};
    lk_remote          remote = {0};
    lk_err             err = {0};
    int                code = 0;
    const lk_arg       args[] = {
              {"NS.TABLE", LK_ARG_OPERAND, &name, NULL, "namespace and table name", false},
              {"--json", LK_ARG_FLAG, &json, NULL, "one JSON object", false},
              LK_REMOTE_ARGS(where),
    };
    if (!lk_cli_parse(
            cli, &lk_cli_table_commands[DESCRIBE], args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    lk_rc rc = lk_table_ref_parse(lk_bytes_of(name), &table, &err);
    if (rc == LK_OK) {
        rc = lk_remote_open(&remote, cli, &where, &err);
    }
    if (rc == LK_OK) {
        rc = remote.authority->ops->resolve(remote.authority, NULL, table, &cli->arena, &registration, &err);
    }
    if (rc == LK_OK) {
        rc = lk_ipc_schema_decode(registration.schema_ipc, &schema, &err);
    }
    if (rc == LK_OK) {
        (json ? describe_json : describe_text)(&registration, &schema);
    }
    lk_schema_release(&schema);
    lk_remote_close(&remote);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

/* -- drop -------------------------------------------------------------------------------------------- */
static int drop(lk_cli *cli, int argc, char **argv)
{
    lk_remote_args where = {0};
    const char    *name = NULL;
    lk_table_ref   table = {0};
    lk_remote      remote = {0};
    lk_err         err = {0};
    int            code = 0;
    const lk_arg   args[] = {
          {"NS.TABLE", LK_ARG_OPERAND, &name, NULL, "namespace and table name", false},
          LK_REMOTE_ARGS(where),
    };
    if (!lk_cli_parse(
            cli, &lk_cli_table_commands[DROP], args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    lk_rc rc = lk_table_ref_parse(lk_bytes_of(name), &table, &err);
    if (rc == LK_OK) {
        rc = lk_remote_open(&remote, cli, &where, &err);
    }
    if (rc == LK_OK) {
        rc = remote.authority->ops->drop_table(remote.authority, NULL, table, &err);
    }
    if (rc == LK_OK) {
        printf("dropped table %s\n", name);
    }
    lk_remote_close(&remote);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

const lk_cli_command lk_cli_table_commands[] = {
    [CREATE] = {{"table create", "create a table",
                    "Types are Arrow's names: int64 utf8 bool float32 timestamp[us,UTC] decimal(10,2) date32 "
                    "binary\n"
                    "fixed_size_list<float32>(768) list<int64> struct<a:int64,b:utf8?> file, also i64 and "
                    "f64. Examples:\n"
                    "  lake table create robots.steps --column episode:utf8 --column t:timestamp[us,UTC] "
                    "--column q:float64?\n"
                    "  lake table create robots.arms --schema arms.parquet"},
        create},
    [LIST] = {{"table list", "list tables", "One ns.table a line."}, list},
    [DESCRIBE] = {{"table describe", "show a table's version, place and columns", NULL}, describe},
    [DROP] = {{"table drop", "drop a table; dropping one that is not there succeeds", NULL}, drop},
    {{NULL, NULL, NULL}, NULL},
};
