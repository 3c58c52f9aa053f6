/* cmd_lance_blob.c - `lake lance blob`: one blob of a Lance dataset, or a part of it, as a file. */
#include "arrow/schema.h"
#include "cli/cli.h"
#include "cli/lance_env.h"
#include "lance/take_blobs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PIECE_BYTES = 1024 * 1024 };

static lk_rc copy(lk_blob *blob, uint64_t offset, uint64_t size, FILE *file, lk_err *err)
{
    char *piece = malloc(PIECE_BYTES);
    LK_ASSERT(piece != NULL);
    lk_rc rc = LK_OK;
    while (rc == LK_OK && size > 0) {
        size_t some = size < PIECE_BYTES ? (size_t)size : PIECE_BYTES;
        rc = lk_blob_read(blob, offset, piece, some, err);
        if (rc == LK_OK && fwrite(piece, 1, some, file) != some) {
            rc = lk_fail(err, LK_E_IO, "write the output");
        }
        offset += some;
        size -= some;
    }
    free(piece);
    return rc;
}

/* Writes to a temporary beside the target and renames it, so that a failure leaves no half file. */
static lk_rc write_blob(
    lk_cli *cli, lk_blob *blob, uint64_t offset, uint64_t size, const char *path, lk_err *err)
{
    bool     to_stdout = strcmp(path, "-") == 0;
    lk_bytes temporary = lk_arena_format(&cli->arena, "%s.tmp%ld", path, (long)getpid());
    FILE    *file = to_stdout ? stdout : fopen(temporary.data, "wb");
    if (file == NULL) {
        return lk_fail(err, LK_E_IO, "cannot write %s", path);
    }
    lk_rc rc = copy(blob, offset, size, file, err);
    if (to_stdout) {
        return rc == LK_OK && fflush(file) != 0 ? lk_fail(err, LK_E_IO, "write the output") : rc;
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

static lk_rc open_blob(
    lk_dataset *dataset, const char *column, uint64_t row, lk_blob ***out, size_t *count, lk_err *err)
{
    int64_t            found = lk_schema_find(lk_dataset_schema(dataset), lk_bytes_of(column));
    const lk_take_rows rows = {LK_TAKE_OFFSET, &row, 1};
    if (found < 0) {
        return lk_cli_usage(err, "there is no column %.100s", column);
    }
    lk_rc rc = lk_dataset_take_blobs(dataset, &rows, (size_t)found, out, count, err);
    if (rc == LK_OK && (*count == 0 || (*out)[0] == NULL)) {
        rc = lk_fail(err, LK_E_NOT_FOUND, "row %" PRIu64 " is null", row);
        lk_detail(err, "row %" PRIu64 " has no blob: it is null", row);
    }
    return rc;
}

static int blob(lk_cli *cli, int argc, char **argv)
{
    const char  *uri = NULL, *column = NULL, *output = NULL;
    uint64_t     version = 0, row = 0, offset = 0, length = UINT64_MAX;
    lk_blob    **blobs = NULL;
    size_t       count = 0;
    lk_cli_lance o = {.config = cli->config};
    lk_err       err = {0};
    int          code = 0;
    const lk_arg args[] = {
        {"URI", LK_ARG_OPERAND, &uri, NULL, "directory of the dataset, or s3://BUCKET/PREFIX", false},
        {"--column", LK_ARG_TEXT, &column, "NAME", "the blob column", true},
        {"--row", LK_ARG_U64, &row, "N", "position in the dataset, from 0; deleted rows do not count", false},
        {"--offset", LK_ARG_U64, &offset, "N", "skip so many bytes", false},
        {"--length", LK_ARG_U64, &length, "N", "at most so many bytes", false},
        {"--version", LK_ARG_U64, &version, "N", "this version instead of the latest", false},
        {"--output", LK_ARG_TEXT, &output, "FILE", "file to write (-o FILE), or - for stdout", true},
    };
    if (!lk_cli_parse(
            cli, &lk_cli_lance_blob_commands[0], args, sizeof args / sizeof args[0], argc, argv, &code)) {
        return code;
    }
    lk_rc rc = lk_cli_lance_open(&o, uri, version, &err);
    if (rc == LK_OK) {
        rc = open_blob(o.dataset, column, row, &blobs, &count, &err);
    }
    if (rc == LK_OK) {
        uint64_t size = lk_blob_size(blobs[0]);
        offset = offset < size ? offset : size;
        length = length < size - offset ? length : size - offset;
        rc = write_blob(cli, blobs[0], offset, length, output, &err);
    }
    if (rc == LK_OK) {
        fprintf(stderr, "%" PRIu64 " bytes\n", length);
    }
    lk_blobs_close(blobs, count);
    lk_cli_lance_close(&o);
    return rc == LK_OK ? 0 : lk_cli_fail(&err);
}

const lk_cli_command lk_cli_lance_blob_commands[] = {
    {{"lance blob", "write one blob of a Lance dataset to a file",
         "The blob is read in pieces, whatever its size; lance scan --blobs bytes reads many.\n"
         "Examples:\n  lake lance blob ./arm.lance --column video --row 12 -o take12.mp4\n"
         "  lake lance blob ./arm.lance --column video --row 12 --length 4096 -o - | file -"},
        blob},
    {{NULL, NULL, NULL}, NULL},
};
