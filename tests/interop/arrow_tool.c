/*
 * arrow_tool.c - drives the arrow room on IPC data for tests/interop/test_arrow_ipc.py: reads IN, does one
 * thing to every batch, writes OUT. Exit 0; or 1 and the client's message on stderr. Threads: none.
 */
#include "arrow/cast.h"
#include "arrow/ipc.h"
#include "arrow/predicate.h"
#include "arrow/schema.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct tool {
    lk_batches        *in;
    struct ArrowSchema schema; /* of OUT */
    lk_ipc_writer     *out;
    const char *const *arguments;
    int                argument_count;
    int64_t            row; /* rows read so far */
    lk_err             err;
} tool;

struct file_sink {
    lk_ipc_sink base;
    FILE       *file;
};

static lk_rc file_write(lk_ipc_sink *sink, const void *data, size_t size, lk_err *err)
{
    FILE *file = ((struct file_sink *)sink)->file;
    return fwrite(data, 1, size, file) == size ? LK_OK : lk_fail(err, LK_E_IO, "write");
}

static int64_t number(const tool *t, int index, int64_t fallback)
{
    return index < t->argument_count ? strtoll(t->arguments[index], NULL, 10) : fallback;
}

/* Whether a row of the whole input is kept: modulus and remainder bound of a hash of its number. */
static bool keep(const tool *t, int64_t row)
{
    uint64_t hash = (uint64_t)row * 2654435761U >> 7;
    return hash % (uint64_t)number(t, 0, 2) < (uint64_t)number(t, 1, 1);
}

/* -- what is done to a batch: takes *batch, fills *out ------------------------------------------------ */
typedef lk_rc (*deed)(tool *t, struct ArrowArray *batch, struct ArrowArray *out);

static lk_rc slice(tool *t, struct ArrowArray *batch, struct ArrowArray *out)
{
    int64_t          skip = number(t, 0, 0), drop = number(t, 1, 0), length = batch->length - skip - drop;
    lk_shared_array *shared = lk_array_share(batch);
    if (length >= 0 && number(t, 2, 0) == 0) {
        lk_shared_array_slice(shared, skip, length, out);
    } else if (length >= 0) {
        lk_shared_batch_slice(shared, skip, length, out);
    } else {
        lk_shared_array_slice(shared, 0, 0, out);
    }
    lk_shared_array_unref(shared);
    return LK_OK;
}

static lk_rc filter(tool *t, struct ArrowArray *batch, struct ArrowArray *out)
{
    uint8_t *selection = malloc((size_t)batch->length + 1);
    int64_t  count = 0;
    for (int64_t i = 0; i < batch->length; i++) {
        selection[i] = keep(t, t->row + i);
        count += selection[i];
    }
    lk_rc rc = lk_array_filter(&t->in->schema, batch, selection, count, out, &t->err);
    free(selection);
    return rc;
}

/* Rows backwards; every seventh of the result is null. */
static lk_rc take(tool *t, struct ArrowArray *batch, struct ArrowArray *out)
{
    int64_t *indices = malloc((size_t)(batch->length + 1) * sizeof *indices);
    for (int64_t i = 0; i < batch->length; i++) {
        indices[i] = i % 7 == 6 ? -1 : batch->length - 1 - i;
    }
    struct ArrowArray columns[64] = {0};
    lk_rc             rc = LK_OK;
    for (int64_t i = 0; rc == LK_OK && i < batch->n_children && i < 64; i++) {
        struct ArrowArray column;
        lk_shared_array  *shared = NULL;
        lk_array_move(batch->children[i], &column);
        shared = lk_array_share(&column);
        rc = lk_array_take(t->in->schema.children[i], lk_shared_array_get(shared), indices, batch->length,
            &columns[i], &t->err);
        lk_shared_array_unref(shared);
    }
    if (rc == LK_OK) {
        lk_batch_of_columns(columns, (size_t)batch->n_children, batch->length, out);
    }
    free(indices);
    return rc;
}

static lk_rc plain(tool *t, struct ArrowArray *batch, struct ArrowArray *out)
{
    return lk_array_decode_dictionaries(&t->in->schema, batch, out, &t->err);
}

static lk_rc cast(tool *t, struct ArrowArray *batch, struct ArrowArray *out)
{
    lk_shared_array *shared = lk_array_share(batch);
    lk_rc            rc = lk_batch_cast(&t->in->schema, shared, &t->schema, t->row, out, &t->err);
    lk_shared_array_unref(shared);
    return rc;
}

/* -- predicates as text: (= 0 i:5) (in 1 b:61 b:62) (null 0) (and P...) (prefix 2 b:6162) -------------- */
static const char *cursor;

static lk_bytes word(void)
{
    while (*cursor == ' ') {
        cursor++;
    }
    const char *first = cursor;
    while (*cursor != '\0' && strchr(" ()", *cursor) == NULL) {
        cursor++;
    }
    return (lk_bytes){first, (size_t)(cursor - first)};
}

static lk_value value_of(lk_bytes text, lk_arena *arena)
{
    lk_value    value = {0};
    const char *digits = lk_arena_text(arena, (lk_bytes){text.data + 2, text.size - 2});
    switch (text.data[0]) {
    case 'i':
        value.as.i64 = strtoll(digits, NULL, 10);
        value.kind = LK_VALUE_I64;
        break;
    case 'u':
        value.as.u64 = strtoull(digits, NULL, 10);
        value.kind = LK_VALUE_U64;
        break;
    case 'f':
        value.as.f64 = strtod(digits, NULL);
        value.kind = LK_VALUE_F64;
        break;
    case 'd': /* fits in 64 bits in the tests */
        value.as.decimal128.high = strtoll(digits, NULL, 10) >> 63;
        value.as.decimal128.low = (uint64_t)strtoll(digits, NULL, 10);
        value.kind = LK_VALUE_DECIMAL128;
        break;
    default: {
        size_t size = (text.size - 2) / 2;
        char  *bytes = lk_arena_take(arena, size + 1);
        for (size_t i = 0; i < size; i++) {
            char two[3] = {digits[2 * i], digits[2 * i + 1], '\0'};
            bytes[i] = (char)strtol(two, NULL, 16);
        }
        value.as.bytes = (lk_bytes){bytes, size};
        value.kind = LK_VALUE_BYTES;
    }
    }
    return value;
}

static const lk_predicate *predicate_of(lk_arena *arena)
{
    static const char *const names[] = {"=", "!=", "<", "<=", ">", ">="};
    lk_predicate            *p = lk_arena_take(arena, sizeof *p);
    cursor += strspn(cursor, " (");
    lk_bytes             name = word();
    lk_value            *values = lk_arena_take(arena, 64 * sizeof *values);
    const lk_predicate **children = lk_arena_take(arena, 64 * sizeof *children);
    p->values = values;
    p->children = children;
    p->kind = lk_bytes_equal(name, LK_LITERAL("and"))      ? LK_PREDICATE_AND
              : lk_bytes_equal(name, LK_LITERAL("or"))     ? LK_PREDICATE_OR
              : lk_bytes_equal(name, LK_LITERAL("not"))    ? LK_PREDICATE_NOT
              : lk_bytes_equal(name, LK_LITERAL("null"))   ? LK_PREDICATE_IS_NULL
              : lk_bytes_equal(name, LK_LITERAL("valid"))  ? LK_PREDICATE_IS_NOT_NULL
              : lk_bytes_equal(name, LK_LITERAL("in"))     ? LK_PREDICATE_IN
              : lk_bytes_equal(name, LK_LITERAL("prefix")) ? LK_PREDICATE_PREFIX
                                                           : LK_PREDICATE_COMPARE;
    for (int i = 0; i < 6; i++) {
        if (lk_bytes_equal(name, lk_bytes_of(names[i]))) {
            p->compare = (lk_compare)i;
        }
    }
    if (p->kind == LK_PREDICATE_AND || p->kind == LK_PREDICATE_OR || p->kind == LK_PREDICATE_NOT) {
        for (cursor += strspn(cursor, " "); *cursor == '('; cursor += strspn(cursor, " ")) {
            children[p->child_count++] = predicate_of(arena);
        }
    } else {
        p->column = (size_t)strtoul(word().data, NULL, 10);
        for (lk_bytes text = word(); text.size > 0; text = word()) {
            values[p->value_count++] = value_of(text, arena);
        }
    }
    cursor += *cursor == ')';
    return p;
}

/* PREDICATE [SKIP]: over the batch without its first SKIP rows, as a slice that keeps its offset. */
static lk_rc where(tool *t, struct ArrowArray *whole, struct ArrowArray *out)
{
    lk_arena          arena = {0};
    struct ArrowArray slice_of_it, *batch = &slice_of_it;
    int64_t           skip = number(t, 1, 0) > whole->length ? whole->length : number(t, 1, 0);
    lk_shared_array  *shared = lk_array_share(whole);
    lk_shared_array_slice(shared, skip, lk_shared_array_get(shared)->length - skip, batch);
    lk_shared_array_unref(shared);
    cursor = t->arguments[0];
    const lk_predicate *predicate = predicate_of(&arena);
    size_t              columns[64];
    for (size_t i = 0; i < 64; i++) {
        columns[i] = i;
    }
    uint8_t *selection = malloc((size_t)batch->length + 1);
    lk_rc    rc = lk_predicate_evaluate(
           predicate, &t->in->schema, batch, columns, (size_t)batch->n_children, selection, &t->err);
    int64_t count = 0;
    for (int64_t i = 0; rc == LK_OK && i < batch->length; i++) {
        count += selection[i];
    }
    if (rc == LK_OK) {
        rc = lk_array_filter(&t->in->schema, batch, selection, count, out, &t->err);
    }
    free(selection);
    lk_array_release(batch);
    lk_arena_close(&arena);
    return rc;
}

/* -- running ----------------------------------------------------------------------------------------- */

static lk_rc put(tool *t, struct ArrowArray *batch)
{
    lk_shared_array *shared = lk_array_share(batch);
    lk_rc            rc = lk_ipc_writer_write(t->out, shared, &t->err);
    lk_shared_array_unref(shared);
    return rc;
}

static lk_rc each(tool *t, deed act)
{
    lk_rc rc = LK_OK;
    for (;;) {
        struct ArrowArray batch, out = {0};
        rc = lk_batches_next(t->in, &batch, &t->err);
        if (rc != LK_OK || batch.release == NULL) {
            return rc;
        }
        int64_t rows = batch.length;
        rc = act(t, &batch, &out);
        lk_array_release(&batch);
        if (rc == LK_OK) {
            rc = put(t, &out);
        }
        lk_array_release(&out);
        t->row += rows;
        if (rc != LK_OK) {
            return rc;
        }
    }
}

static lk_rc concat(tool *t)
{
    struct ArrowArray batches[256], joined = {0};
    size_t            count = 0;
    lk_rc             rc = LK_OK;
    for (; rc == LK_OK && count < 256; count++) {
        rc = lk_batches_next(t->in, &batches[count], &t->err);
        if (rc != LK_OK || batches[count].release == NULL) {
            break;
        }
    }
    if (rc == LK_OK) {
        rc = lk_array_concat(&t->in->schema, batches, count, &joined, &t->err);
    }
    for (size_t i = 0; i < count; i++) {
        lk_array_release(&batches[i]);
    }
    return rc == LK_OK ? put(t, &joined) : rc;
}

/* OUT's schema: the columns given as text, the plain one, or IN's. */
static lk_rc out_schema(tool *t, deed act)
{
    if (act == plain) {
        return lk_schema_decode_dictionaries(&t->in->schema, &t->schema, &t->err);
    }
    if (act != cast) {
        return lk_schema_copy(&t->in->schema, &t->schema, &t->err);
    }
    struct ArrowSchema columns[64];
    size_t             count = 0;
    lk_rc              rc = LK_OK;
    for (; rc == LK_OK && (int)count < t->argument_count; count++) {
        rc = lk_column_parse(lk_bytes_of(t->arguments[count]), &columns[count], &t->err);
    }
    lk_schema_of_columns(columns, count, &t->schema);
    return rc;
}

static lk_rc run(tool *t, const char *verb, const char *in, lk_ipc_container container, lk_ipc_sink *sink)
{
    static const struct {
        const char *verb;
        deed        act;
    } deeds[] = {{"slice", slice}, {"filter", filter}, {"take", take}, {"plain", plain}, {"cast", cast},
        {"where", where}, {"concat", NULL}};
    lk_ipc_source *source = NULL;
    deed           act = NULL;
    for (size_t i = 0; i < sizeof deeds / sizeof deeds[0]; i++) {
        act = strcmp(verb, deeds[i].verb) == 0 ? deeds[i].act : act;
    }
    lk_rc rc = lk_ipc_source_file(in, &source, &t->err);
    if (rc == LK_OK) {
        rc = lk_ipc_open(source, NULL, &t->in, &t->err);
    }
    if (rc == LK_OK) {
        rc = out_schema(t, act);
    }
    if (rc == LK_OK) {
        rc = lk_ipc_writer_open(&t->schema, container, sink, &t->out, &t->err);
    }
    if (rc == LK_OK) {
        rc = act == NULL ? concat(t) : each(t, act);
    }
    return rc == LK_OK ? lk_ipc_writer_finish(t->out, &t->err) : rc;
}

int main(int count, char **arguments)
{
    if (count < 5) {
        fprintf(stderr,
            "usage: arrow_tool slice|filter|take|plain|cast|where|concat IN OUT stream|file [ARGUMENT...]\n");
        return 2;
    }
    struct file_sink sink = {{file_write}, fopen(arguments[3], "wb")};
    tool             t = {.arguments = (const char *const *)arguments + 5, .argument_count = count - 5};
    lk_ipc_container container = strcmp(arguments[4], "file") == 0 ? LK_IPC_FILE : LK_IPC_STREAM;
    lk_rc            rc = run(&t, arguments[1], arguments[2], container, &sink.base);
    if (rc != LK_OK) {
        char text[512];
        fprintf(stderr, "%s: %s\n", lk_rc_name(rc), lk_err_message(&t.err, text, sizeof text));
    }
    lk_ipc_writer_close(t.out);
    lk_batches_close(t.in);
    lk_schema_release(&t.schema);
    fclose(sink.file);
    return rc == LK_OK ? 0 : 1;
}
