/* field_options.c - see field_options.h. */
#include "lance/field_options.h"

#include "arrow/schema.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NUMBER_BYTES = 32, CHUNK_BYTES_MAX = 32 * 1024 };
static const uint64_t dictionary_bytes_max = 8 * 1024 * 1024; /* the reference's default */

typedef struct word {
    const char *text;
    int         value;
} word;

static const word compressions[] = {{"none", LK_COMPRESSION_NONE}, {"lz4", LK_COMPRESSION_LZ4},
    {"zstd", LK_COMPRESSION_ZSTD}, {"fsst", LK_COMPRESSION_FSST}, {NULL, 0}};
static const word structures[] = {
    {"miniblock", LK_STRUCTURE_MINIBLOCK}, {"fullzip", LK_STRUCTURE_FULLZIP}, {NULL, 0}};
static const word splits[] = {{"auto", LK_SPLIT_AUTO}, {"on", LK_SPLIT_ON}, {"off", LK_SPLIT_OFF}, {NULL, 0}};

static lk_rc refuse(const struct ArrowSchema *field, const char *key, lk_bytes value, lk_err *err)
{
    const char *name = field->name == NULL ? "" : field->name;
    lk_rc       rc = lk_fail(err, LK_E_INVALID_SCHEMA, "column %s: %s", name, key);
    lk_detail(err, "column %.60s: %s cannot be \"%.*s\"", name, key, value.size > 20 ? 20 : (int)value.size,
        value.data);
    return rc;
}

static lk_rc read_word(
    const struct ArrowSchema *field, const char *key, const word *words, int *out, lk_err *err)
{
    lk_bytes value = {0};
    if (!lk_schema_metadata(field, key, &value)) {
        return LK_OK;
    }
    for (; words->text != NULL; words++) {
        if (strlen(words->text) == value.size && strncasecmp(words->text, value.data, value.size) == 0) {
            *out = words->value;
            return LK_OK;
        }
    }
    return refuse(field, key, value, err);
}

/* A number from `low` to `high`; *out stays as it is for a text that is none. */
static bool read_number(lk_bytes value, double low, double high, double *out)
{
    char  text[NUMBER_BYTES];
    char *end = text;
    if (value.size == 0 || value.size >= sizeof text) {
        return false;
    }
    memcpy(text, value.data, value.size);
    text[value.size] = '\0';
    double number = strtod(text, &end);
    if (*end != '\0' || !(number >= low && number <= high)) {
        return false;
    }
    *out = number;
    return true;
}

typedef struct numbers {
    double level, dictionary_level, run_threshold, divisor, ratio, bytes, chunk_bytes;
} numbers;

/* Like the reference: a dictionary's bounds must be right, in other places what is no number is not there. */
static lk_rc read_numbers(const struct ArrowSchema *field, numbers *out, lk_err *err)
{
    const struct {
        const char *key;
        double      low, high;
        double     *value;
        bool        strict;
    } rows[] = {
        {"lance-encoding:compression-level", -100, 22, &out->level, false},
        {"lance-encoding:dict-values-compression-level", -100, 22, &out->dictionary_level, false},
        {"lance-encoding:rle-threshold", 0, 1, &out->run_threshold, false},
        {"lance-encoding:dict-divisor", 1, 1e15, &out->divisor, false},
        {"lance-encoding:dict-size-ratio", 1e-9, 1, &out->ratio, true},
        {"lance-encoding:dict-max-size", 0, 1e15, &out->bytes, true},
        {"lance-encoding:minichunk-size", 1, 1e9, &out->chunk_bytes, false},
    };
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        lk_bytes value = {0};
        if (lk_schema_metadata(field, rows[row].key, &value) &&
            !read_number(value, rows[row].low, rows[row].high, rows[row].value) && rows[row].strict) {
            return refuse(field, rows[row].key, value, err);
        }
    }
    return LK_OK;
}

lk_rc lk_field_options_read(
    const struct ArrowSchema *field, const struct ArrowSchema *root, lk_field_options *out, lk_err *err)
{
    numbers found = {.divisor = 2, .ratio = 0.8, .bytes = (double)dictionary_bytes_max};
    int     compression = LK_COMPRESSION_AUTO, items = LK_COMPRESSION_LZ4, structure = LK_STRUCTURE_AUTO,
        split = LK_SPLIT_AUTO;
    lk_err ignored = {0};
    lk_rc  rc = read_word(field, "lance-encoding:compression", compressions, &compression, err);
    if (rc == LK_OK) {
        rc = read_word(field, "lance-encoding:dict-values-compression", compressions, &items, err);
    }
    if (read_word(field, "lance-encoding:bss", splits, &split, &ignored) != LK_OK) {
        split = LK_SPLIT_AUTO;
    }
    if (rc == LK_OK) {
        rc = read_word(root, "lance-encoding:structural-encoding", structures, &structure, err);
    }
    if (rc == LK_OK) {
        rc = read_numbers(field, &found, err);
    }
    *out = (lk_field_options){
        .compression = (lk_compression)compression,
        .dictionary_compression = (lk_compression)items,
        .level = (int)found.level,
        .dictionary_level = (int)found.dictionary_level,
        .split = (lk_split)split,
        .structure = (lk_structure)structure,
        .run_threshold = found.run_threshold,
        .dictionary_divisor = (uint64_t)found.divisor,
        .dictionary_ratio = found.ratio,
        .dictionary_bytes = (uint64_t)found.bytes,
        .chunk_bytes = found.chunk_bytes >= CHUNK_BYTES_MAX ? 0 : (uint32_t)found.chunk_bytes,
    };
    return rc;
}
