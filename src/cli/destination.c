/* destination.c - see destination.h. */
#include "cli/destination.h"

#include "base/file.h"
#include "sql/file_sink.h"

#include <errno.h>
#include <inttypes.h>
#include <strings.h>
#include <unistd.h>

static bool ends_in(const char *path, const char *ending)
{
    size_t size = strlen(path), length = strlen(ending);
    return size >= length && strcasecmp(path + size - length, ending) == 0;
}

static lk_output_format format_of(const char *path)
{
    return ends_in(path, ".csv")      ? LK_OUTPUT_CSV
           : ends_in(path, ".json")   ? LK_OUTPUT_JSON
           : ends_in(path, ".ndjson") ? LK_OUTPUT_NDJSON
                                      : LK_OUTPUT_ARROW_FILE;
}

static lk_rc write_format(const lk_destination *to, lk_batches *rows, lk_output_format format, FILE *file,
    uint64_t *count, lk_err *err)
{
    return to->write != NULL ? to->write(rows, format, file, count, err)
                             : lk_output_write(rows, format, file, count, err);
}

static lk_rc write_path(
    const lk_destination *to, lk_batches *rows, const char *path, uint64_t *count, lk_err *err)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        return lk_fail_errno(err, errno, "write", path);
    }
    lk_rc rc = write_format(to, rows, format_of(to->path), file, count, err);
    if (fclose(file) != 0 && rc == LK_OK) {
        rc = lk_fail_errno(err, errno, "finish", path);
    }
    return rc;
}

/* Writes to a temporary beside the target and renames it, so that a failure leaves no half file. */
static lk_rc write_file(
    const lk_destination *to, lk_batches *rows, lk_arena *arena, uint64_t *count, lk_err *err)
{
    const char *temporary = lk_arena_format(arena, "%s.tmp%ld", to->path, (long)getpid()).data;
    lk_rc       rc = ends_in(to->path, ".parquet") ? lk_sql_parquet_write(rows, temporary, count, err)
                                                   : write_path(to, rows, temporary, count, err);
    if (rc == LK_OK && rename(temporary, to->path) != 0) {
        rc = lk_fail_errno(err, errno, "write", to->path);
    }
    if (rc != LK_OK) {
        (void)unlink(temporary);
    }
    return rc;
}

lk_rc lk_destination_write(lk_batches *rows, const lk_destination *to, lk_arena *arena, lk_err *err)
{
    uint64_t count = 0;
    lk_rc    rc = to->path != NULL ? write_file(to, rows, arena, &count, err)
                                   : write_format(to, rows, to->format, stdout, &count, err);
    if (rc == LK_OK) {
        fprintf(stderr, "%" PRIu64 " row%s\n", count, count == 1 ? "" : "s");
    }
    return rc;
}

lk_rc lk_destination_check(lk_destination *to, lk_err *err)
{
    if (to->path != NULL && to->format_name != NULL) {
        return lk_cli_usage(
            err, "--format is for stdout, a file has the format of its ending: leave one of them out");
    }
    if (to->path != NULL && strcmp(to->path, "-") == 0) {
        to->path = NULL;
        to->format_name = "arrow";
    }
    return lk_output_format_parse(to->format_name, &to->format, err);
}
