/*
 * lance_tool.c - the table engine from a command line, for the tests that compare it with pylance.
 *
 *   lance_tool create DIR IN [--file-version 2.N] [--stable-row-ids]  a new table with the schema of the Arrow file IN
 *   lance_tool append DIR IN [options]  the rows of IN as the next version; prints it
 *       --at N           on top of version N (default: the latest)
 *       --rows-per-file N
 *       --property K=V   into the transaction
 *       --outside        blobs may be uris
 *       --times N        appends IN N times, one version each
 *   lance_tool scan DIR OUT [--version N] [--row-id] [--with _rowaddr ...]; OUT is a file, or a stream where there are dictionaries
 *       --values         dictionaries as their values
 *       --bytes          blobs as their bytes
 *   lance_tool find DIR ID,ID... [--version N]  the addresses of rows by their ids; - where there is no such row
 *   lance_tool info DIR [--version N]   version, rows, fragments
 *   lance_tool flags DIR [--version N]  reader and writer feature flags
 *   lance_tool versions DIR
 *   lance_tool refs DIR                 tags and branches: kind, name, version
 *   lance_tool property DIR KEY [--version N]
 *
 * Errors go to stderr as "NAME: detail (context)", exit status 1.
 */
#include "arrow/ipc.h"
#include "io/local.h"
#include "lance/blob.h"
#include "lance/dataset.h"
#include "lance/manifest.h"
#include "lance/refs.h"
#include "lance/row_ids.h"
#include "lance/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct tool_options {
    uint64_t           version, rows_per_file, times;
    lk_file_version    file_version;
    lk_commit_property property;
    bool               has_property, stable_row_ids, values, bytes, outside;
    unsigned           meta;
} tool_options;

static int report(const lk_err *err)
{
    fprintf(stderr, "%s: %s (%.*s)%s\n", lk_rc_name(err->rc), err->detail, (int)err->len, err->context,
        err->maybe_applied ? " maybe applied" : "");
    return 1;
}

static bool parse_options(int count, char **arguments, tool_options *out)
{
    *out = (tool_options){.times = 1};
    for (int i = 0; i < count; i++) {
        const char *value = i + 1 < count ? arguments[i + 1] : "";
        if (strcmp(arguments[i], "--stable-row-ids") == 0) {
            out->stable_row_ids = true;
            continue;
        }
        if (strcmp(arguments[i], "--row-id") == 0) {
            out->meta |= LK_META_ROW_ID;
            continue;
        }
        if (strcmp(arguments[i], "--outside") == 0) {
            out->outside = true;
            continue;
        }
        if (strcmp(arguments[i], "--values") == 0 || strcmp(arguments[i], "--bytes") == 0) {
            out->values = out->values || arguments[i][2] == 'v';
            out->bytes = out->bytes || arguments[i][2] == 'b';
            continue;
        }
        i++;
        if (strcmp(arguments[i - 1], "--version") == 0 || strcmp(arguments[i - 1], "--at") == 0) {
            out->version = strtoull(value, NULL, 10);
        } else if (strcmp(arguments[i - 1], "--rows-per-file") == 0) {
            out->rows_per_file = strtoull(value, NULL, 10);
        } else if (strcmp(arguments[i - 1], "--file-version") == 0 && strncmp(value, "2.", 2) == 0) {
            out->file_version = (lk_file_version)(LK_FILE_VERSION_2_0 + (value[2] - '0'));
        } else if (strcmp(arguments[i - 1], "--times") == 0) {
            out->times = strtoull(value, NULL, 10);
        } else if (strcmp(arguments[i - 1], "--with") == 0) {
            out->meta |= lk_meta_column_find(lk_bytes_of(value));
        } else if (strcmp(arguments[i - 1], "--property") == 0 && strchr(value, '=') != NULL) {
            const char *equals = strchr(value, '=');
            out->property.key = (lk_bytes){value, (size_t)(equals - value)};
            out->property.value = lk_bytes_of(equals + 1);
            out->has_property = true;
        } else {
            fprintf(stderr, "unknown option %s\n", arguments[i - 1]);
            return false;
        }
    }
    return true;
}

static lk_rc open_input(const char *path, lk_batches **out, lk_err *err)
{
    lk_ipc_source *source = NULL;
    lk_rc          rc = lk_ipc_source_file(path, &source, err);
    return rc == LK_OK ? lk_ipc_open(source, NULL, out, err) : rc;
}

static lk_rc create(const lk_lance_env *env, const char *input, const tool_options *options, lk_err *err)
{
    lk_write_options write = {
        .file_version = options->file_version, .stable_row_ids = options->stable_row_ids};
    lk_batches *rows = NULL;
    lk_dataset *made = NULL;
    lk_rc       rc = open_input(input, &rows, err);
    if (rc == LK_OK) {
        rc = lk_dataset_create(env, lk_direct_committer(), &rows->schema, &write, &made, err);
    }
    lk_batches_close(rows);
    lk_dataset_unref(made);
    return rc;
}

static lk_rc append(const lk_lance_env *env, const char *input, const tool_options *options, lk_err *err)
{
    lk_dataset      *base = NULL;
    lk_write_options write = {
        .properties = &options->property,
        .property_count = options->has_property,
        .max_rows_per_file = options->rows_per_file,
        .outside_blobs = options->outside,
    };
    lk_rc rc = lk_dataset_open(env, options->version, &base, err);
    for (uint64_t i = 0; i < options->times && rc == LK_OK; i++) {
        lk_batches *rows = NULL;
        lk_dataset *next = NULL;
        rc = open_input(input, &rows, err);
        if (rc == LK_OK) {
            rc = lk_dataset_append(base, lk_direct_committer(), rows, &write, &next, err);
        }
        lk_batches_close(rows);
        if (rc == LK_OK) {
            lk_dataset_unref(base);
            base = next;
        }
    }
    if (rc == LK_OK) {
        printf("%" PRIu64 "\n", lk_dataset_version(base));
    }
    lk_dataset_unref(base);
    return rc;
}

typedef struct file_sink {
    lk_ipc_sink base;
    FILE       *file;
} file_sink;

static lk_rc sink_write(lk_ipc_sink *sink, const void *data, size_t size, lk_err *err)
{
    if (fwrite(data, 1, size, ((file_sink *)sink)->file) != size) {
        return lk_fail(err, LK_E_IO, "write the output");
    }
    return LK_OK;
}

static lk_rc copy_batches(lk_batches *scan, lk_ipc_writer *writer, lk_err *err)
{
    for (;;) {
        struct ArrowArray batch = {0};
        lk_rc             rc = lk_batches_next(scan, &batch, err);
        if (rc != LK_OK || batch.release == NULL) {
            return rc;
        }
        lk_shared_array *shared = lk_array_share(&batch);
        rc = lk_ipc_writer_write(writer, shared, err);
        lk_shared_array_unref(shared);
        if (rc != LK_OK) {
            return rc;
        }
    }
}

static lk_rc scan(lk_dataset *dataset, const char *output, const tool_options *options, lk_err *err)
{
    lk_batches     *rows = NULL;
    lk_ipc_writer  *writer = NULL;
    lk_scan_options scan_options = {.limit = UINT64_MAX,
        .meta = options->meta,
        .dictionary_values = options->values,
        .blobs = options->bytes ? LK_BLOBS_BYTES : LK_BLOBS_DESCRIBED};
    file_sink       sink = {{sink_write}, fopen(output, "wb")};
    lk_rc           rc = sink.file == NULL ? lk_fail(err, LK_E_IO, "open %s", output)
                                           : lk_dataset_scan(dataset, &scan_options, &rows, err);
    if (rc == LK_OK) {
        bool replaced = lk_schema_has_dictionary(&rows->schema); /* batch by batch: only a stream can */
        rc = lk_ipc_writer_open(
            &rows->schema, replaced ? LK_IPC_STREAM : LK_IPC_FILE, &sink.base, &writer, err);
    }
    if (rc == LK_OK) {
        rc = copy_batches(rows, writer, err);
    }
    if (rc == LK_OK) {
        rc = lk_ipc_writer_finish(writer, err);
    }
    lk_ipc_writer_close(writer);
    lk_batches_close(rows);
    if (sink.file != NULL && fclose(sink.file) != 0 && rc == LK_OK) {
        rc = lk_fail(err, LK_E_IO, "close %s", output);
    }
    return rc;
}

static lk_rc property(lk_dataset *dataset, const char *key, lk_err *err)
{
    lk_arena arena = {0};
    lk_bytes value = {0};
    bool     found = false;
    lk_rc    rc = lk_dataset_property(dataset, lk_bytes_of(key), &arena, &value, &found, err);
    if (rc == LK_OK && found) {
        printf("%.*s\n", LK_FMT(value));
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc find(lk_dataset *dataset, const char *list, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (const char *at = list; rc == LK_OK && at != NULL;) {
        uint64_t id = strtoull(at, NULL, 10), address = 0, back = 0;
        rc = lk_dataset_find_rows(dataset, &id, 1, &address, err);
        if (rc == LK_OK && address != LK_ROW_ID_NONE) {
            rc = lk_dataset_row_ids_at(dataset, &address, 1, &back, err);
            if (rc == LK_OK && back != id) {
                rc = lk_fail(err, LK_E_INTERNAL, "the row of id %" PRIu64 " has id %" PRIu64, id, back);
            }
            printf("%" PRIu64 "\n", address);
        } else {
            puts("-");
        }
        at = strchr(at, ',');
        at = at == NULL ? NULL : at + 1;
    }
    return rc;
}

static lk_rc versions(const lk_lance_env *env, lk_err *err)
{
    lk_arena  arena = {0};
    uint64_t *numbers = NULL;
    size_t    count = 0;
    lk_rc     rc = lk_dataset_versions(env, &arena, &numbers, &count, err);
    for (size_t i = 0; i < count && rc == LK_OK; i++) {
        printf("%" PRIu64 "\n", numbers[i]);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc refs(const lk_lance_env *env, lk_err *err)
{
    lk_arena arena = {0};
    lk_ref  *list = NULL;
    size_t   count = 0;
    lk_rc    rc = lk_refs_list(env->store, &arena, &list, &count, err);
    for (size_t i = 0; i < count && rc == LK_OK; i++) {
        printf("%s %.*s %" PRIu64 "\n", list[i].kind == LK_REF_TAG ? "tag" : "branch", LK_FMT(list[i].name),
            list[i].version);
    }
    lk_arena_close(&arena);
    return rc;
}

static lk_rc with_dataset(const lk_lance_env *env, char **arguments, const tool_options *options, lk_err *err)
{
    const char *command = arguments[1];
    lk_dataset *dataset = NULL;
    lk_rc       rc = lk_dataset_open(env, options->version, &dataset, err);
    if (rc == LK_OK && strcmp(command, "scan") == 0) {
        rc = scan(dataset, arguments[3], options, err);
    } else if (rc == LK_OK && strcmp(command, "find") == 0) {
        rc = find(dataset, arguments[3], err);
    } else if (rc == LK_OK && strcmp(command, "property") == 0) {
        rc = property(dataset, arguments[3], err);
    } else if (rc == LK_OK && strcmp(command, "flags") == 0) {
        printf("%" PRIu64 " %" PRIu64 "\n", lk_dataset_manifest(dataset)->reader_flags,
            lk_dataset_manifest(dataset)->writer_flags);
    } else if (rc == LK_OK) {
        printf("%" PRIu64 " %" PRIu64 " %zu\n", lk_dataset_version(dataset), lk_dataset_row_count(dataset),
            lk_dataset_manifest(dataset)->fragment_count);
    }
    lk_dataset_unref(dataset);
    return rc;
}

static lk_rc run(const lk_lance_env *env, char **arguments, const tool_options *options, lk_err *err)
{
    const char *command = arguments[1];
    if (strcmp(command, "create") == 0) {
        return create(env, arguments[3], options, err);
    }
    if (strcmp(command, "append") == 0) {
        return append(env, arguments[3], options, err);
    }
    if (strcmp(command, "versions") == 0) {
        return versions(env, err);
    }
    if (strcmp(command, "refs") == 0) {
        return refs(env, err);
    }
    return with_dataset(env, arguments, options, err);
}

static lk_rc open_base(void *context, lk_bytes path, lk_store **out, lk_err *err)
{
    (void)context;
    return lk_local_store_open(out, path, true, err);
}

/* file:///a/b */
static lk_rc open_outside(void *context, lk_bytes uri, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    lk_store **store = context;
    lk_bytes   scheme = LK_LITERAL("file:///");
    if (!lk_bytes_starts(uri, scheme)) {
        return lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "%.*s", LK_FMT(uri));
    }
    lk_rc    rc = *store == NULL ? lk_local_store_open(store, LK_LITERAL("/"), true, err) : LK_OK;
    lk_bytes key = {uri.data + scheme.size, uri.size - scheme.size};
    return rc == LK_OK ? lk_store_open_object(*store, key, out, size, err) : rc;
}

int main(int argc, char **argv)
{
    tool_options options;
    lk_err       err = {0};
    lk_store    *store = NULL;
    if (argc < 3) {
        fprintf(
            stderr, "usage: lance_tool create|append|scan|find|info|flags|versions|refs|property DIR ...\n");
        return 2;
    }
    bool has_operand = strcmp(argv[1], "versions") != 0 && strcmp(argv[1], "info") != 0 &&
                       strcmp(argv[1], "refs") != 0 && strcmp(argv[1], "flags") != 0;
    int first = has_operand ? 4 : 3;
    if (argc < first || !parse_options(argc - first, argv + first, &options)) {
        return 2;
    }
    if (lk_local_store_open(&store, lk_bytes_of(argv[2]), true, &err) != LK_OK) {
        return report(&err);
    }
    lk_store       *root = NULL;
    lk_blob_outside outside = {open_outside, &root};
    lk_lance_env    env = {.store = store,
           .clock = lk_clock_real(),
           .random = lk_random_os(),
           .open_base = open_base,
           .blob_outside = &outside};
    lk_rc           rc = run(&env, argv, &options, &err);
    lk_store_close(store);
    lk_store_close(root);
    return rc == LK_OK ? 0 : report(&err);
}
