/*
 * page_tool.c - how the pages of a Lance data file (2.1, 2.2) are laid out, for the tests that ask which encoding a
 * writer chose.
 *
 *   page_tool FILE   a line a page: column, rows, layout[, "def" and "rep" of the levels], values[, "of" the dictionary]
 *
 * An encoding is written outside in: "general-zstd(variable32)", "rle(flat64,flat8)". Errors go to stderr, status 1.
 */
#include "lance/pb_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {"none", "flat", "variable", "constant", "packed", "inline", "fsst",
    "dictionary", "rle", "split", "general", "fsl", "packed-struct", "variable-packed-struct"};

static void print_encoding(const lk_encoding *encoding)
{
    const char *scheme = encoding->scheme == LK_SCHEME_ZSTD ? "-zstd" : "-lz4";
    printf("%s", names[encoding->kind]);
    if (encoding->kind == LK_ENCODING_GENERAL) {
        printf("%s", scheme);
    }
    if (encoding->kind == LK_ENCODING_FIXED_SIZE_LIST) {
        printf("%" PRIu32 "%s", encoding->items_per_value, encoding->has_validity ? "v" : "");
    } else if (encoding->bits > 0) {
        printf("%" PRIu32, encoding->bits);
    }
    const lk_encoding *parts[] = {encoding->values, encoding->lengths};
    const char        *before = "(";
    for (int part = 0; part < 2; part++) {
        if (parts[part] != NULL) {
            printf("%s", before);
            print_encoding(parts[part]);
            before = ",";
        }
    }
    printf("%s", *before == ',' ? ")" : "");
}

static void print_part(const char *name, const lk_encoding *encoding)
{
    if (encoding != NULL) {
        printf(" %s", name);
        print_encoding(encoding);
    }
}

static lk_rc print_column(size_t column, lk_bytes message, lk_err *err)
{
    lk_arena       arena = {0};
    lk_column_meta meta = {0};
    lk_rc          rc = lk_pb_column_meta(message, &arena, &meta, err);
    for (size_t page = 0; rc == LK_OK && page < meta.page_count; page++) {
        static const char *const kinds[] = {"", "miniblock", "constant", "fullzip", "blob"};
        lk_page_layout           layout = {0};
        rc = lk_pb_page_layout(meta.pages[page].encoding, &arena, &layout, err);
        if (rc == LK_OK) {
            printf("%zu %" PRIu64 " %s", column, meta.pages[page].rows, kinds[layout.kind]);
            print_part("rep=", layout.rep);
            print_part("def=", layout.def);
            print_part("", layout.values);
            print_part("of=", layout.dictionary);
            putchar('\n');
        }
    }
    lk_arena_close(&arena);
    return rc;
}

/* Footer: u64 columns, u64 column table, u64 globals, u32 globals, u32 columns, u16, u16, "LANC". */
static lk_rc print_file(lk_bytes file, lk_err *err)
{
    if (file.size < 40 || memcmp(file.data + file.size - 4, "LANC", 4) != 0) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "no footer");
    }
    const char *footer = file.data + file.size - 40;
    uint64_t    table = lk_load_u64(footer + 8), count = lk_load_u32(footer + 28);
    if (table > file.size || count > (file.size - table) / 16) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "no column table");
    }
    lk_rc rc = LK_OK;
    for (size_t column = 0; rc == LK_OK && column < count; column++) {
        uint64_t at = lk_load_u64(file.data + table + column * 16);
        uint64_t size = lk_load_u64(file.data + table + column * 16 + 8);
        if (at > file.size || size > file.size - at) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "no column");
        }
        rc = print_column(column, (lk_bytes){file.data + at, (size_t)size}, err);
    }
    return rc;
}

int main(int argc, char **argv)
{
    char   chunk[65536];
    lk_buf file = {0};
    lk_err err = {0};
    FILE  *in = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (in == NULL) {
        fprintf(stderr, "usage: page_tool FILE\n");
        return 2;
    }
    for (size_t size = 0; (size = fread(chunk, 1, sizeof chunk, in)) > 0;) {
        lk_buf_append(&file, chunk, size);
    }
    fclose(in);
    lk_rc rc = print_file(lk_buf_view(&file), &err);
    lk_buf_deinit(&file);
    if (rc != LK_OK) {
        fprintf(stderr, "%s: %s (%.*s)\n", lk_rc_name(err.rc), err.detail, (int)err.len, err.context);
    }
    return rc == LK_OK ? 0 : 1;
}
