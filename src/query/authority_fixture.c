/* authority_fixture.c - see authority_fixture.h. */
#include "query/authority_fixture.h"

#include "arrow/ipc.h"
#include "arrow/schema.h"

#include <stdio.h>
#include <stdlib.h>

enum { COLUMNS_MAX = 16 };

static void must(bool good)
{
    if (!good) {
        abort();
    }
}

void schema_of(const char *columns, struct ArrowSchema *out)
{
    struct ArrowSchema fields[COLUMNS_MAX] = {0};
    size_t             count = 0;
    while (*columns != '\0') {
        lk_err err = {0};
        size_t size = strcspn(columns, " ");
        must(count < COLUMNS_MAX &&
             lk_column_parse((lk_bytes){columns, size}, &fields[count++], &err) == LK_OK);
        columns += size + (columns[size] == ' ');
    }
    lk_schema_of_columns(fields, count, out);
}

static fake_table *find(fake_authority *fake, lk_table_ref table)
{
    for (size_t i = 0; i < fake->table_count; i++) {
        if (lk_bytes_equal(lk_bytes_of(fake->tables[i].ns), table.ns) &&
            lk_bytes_equal(lk_bytes_of(fake->tables[i].name), table.name)) {
            return &fake->tables[i];
        }
    }
    return NULL;
}

static fake_table *add(fake_authority *fake, lk_bytes ns, lk_bytes name)
{
    must(fake->table_count < FAKE_TABLES_MAX);
    fake_table *table = &fake->tables[fake->table_count++];
    (void)snprintf(table->ns, sizeof table->ns, "%.*s", LK_FMT(ns));
    (void)snprintf(table->name, sizeof table->name, "%.*s", LK_FMT(name));
    (void)snprintf(table->incarnation, sizeof table->incarnation, "i%zu", fake->table_count);
    table->version = 1;
    fake->generation++;
    return table;
}

void fake_authority_add(fake_authority *fake, const char *ns, const char *name, const char *columns)
{
    fake_table *table = add(fake, lk_bytes_of(ns), lk_bytes_of(name));
    if (columns == NULL) {
        lk_buf_append_text(&table->schema_ipc, "not a schema");
        return;
    }
    lk_err             err = {0};
    struct ArrowSchema schema = {0};
    schema_of(columns, &schema);
    must(lk_ipc_schema_encode(&schema, LK_IPC_ENCAPSULATED, &table->schema_ipc, &err) == LK_OK);
    lk_schema_release(&schema);
}

/* -- the authority's calls ------------------------------------------------------------------------- */

static lk_rc create_table(
    lk_authority *a, const lk_principal *who, lk_table_ref ref, const struct ArrowSchema *schema, lk_err *err)
{
    (void)who;
    fake_authority *fake = (fake_authority *)a;
    fake->create_calls++;
    bool exists = find(fake, ref) != NULL;
    if (!exists) {
        fake_table *table = add(fake, ref.ns, ref.name);
        must(lk_ipc_schema_encode(schema, LK_IPC_ENCAPSULATED, &table->schema_ipc, err) == LK_OK);
    }
    return exists || fake->created_meanwhile ? lk_fail(err, LK_E_TABLE_EXISTS, "fake") : LK_OK;
}

static lk_rc drop_table(lk_authority *a, const lk_principal *who, lk_table_ref ref, lk_err *err)
{
    (void)a, (void)who, (void)ref;
    return lk_fail(err, LK_E_AUTHORITY_UNAVAILABLE, "fake");
}

static lk_registration registration(const fake_table *table)
{
    return (lk_registration){.table = {lk_bytes_of(table->ns), lk_bytes_of(table->name)},
        .location = LK_LITERAL("/fake"),
        .engine = LK_LITERAL("lance"),
        .incarnation = lk_bytes_of(table->incarnation),
        .version = table->version,
        .schema_ipc = lk_buf_view(&table->schema_ipc)};
}

static lk_rc resolve(lk_authority *a, const lk_principal *who, lk_table_ref ref, lk_arena *arena,
    lk_registration *out, lk_err *err)
{
    (void)who, (void)arena;
    const fake_table *table = find((fake_authority *)a, ref);
    if (table == NULL) {
        return lk_fail(err, LK_E_TABLE_NOT_FOUND, "fake");
    }
    *out = registration(table);
    return LK_OK;
}

static lk_rc no_names(lk_name_page *out)
{
    *out = (lk_name_page){0};
    return LK_OK;
}

static lk_rc list_tables(lk_authority *a, const lk_principal *who, lk_bytes ns, lk_bytes continuation,
    size_t limit, lk_arena *arena, lk_name_page *out, lk_err *err)
{
    (void)a, (void)who, (void)ns, (void)continuation, (void)limit, (void)arena, (void)err;
    return no_names(out);
}

static lk_rc list_namespaces(lk_authority *a, const lk_principal *who, lk_bytes continuation, size_t limit,
    lk_arena *arena, lk_name_page *out, lk_err *err)
{
    (void)a, (void)who, (void)continuation, (void)limit, (void)arena, (void)err;
    return no_names(out);
}

static lk_rc directory(lk_authority *a, lk_bytes known, lk_arena *arena, bool *modified, lk_bytes *generation,
    lk_registration **items, size_t *count, lk_err *err)
{
    (void)err;
    fake_authority *fake = (fake_authority *)a;
    *generation = lk_arena_format(arena, "%llu", (unsigned long long)fake->generation);
    *modified = !lk_bytes_equal(known, *generation);
    *items = lk_arena_take(arena, (fake->table_count + 1) * sizeof **items);
    *count = fake->table_count;
    for (size_t i = 0; i < fake->table_count; i++) {
        (*items)[i] = registration(&fake->tables[i]);
    }
    return LK_OK;
}

static fake_operation read_operation(const lk_append_command *command, lk_batches *rows)
{
    lk_err         err = {0};
    fake_operation out = {0};
    (void)snprintf(out.id, sizeof out.id, "%.*s", LK_FMT(command->operation_id));
    (void)snprintf(out.digest, sizeof out.digest, "%.*s", LK_FMT(command->payload_sha256));
    for (struct ArrowArray batch = {0};; lk_array_release(&batch)) {
        struct ArrowArrayView view;
        must(lk_batches_next(rows, &batch, &err) == LK_OK);
        if (batch.release == NULL) {
            return out;
        }
        must(ArrowArrayViewInitFromSchema(&view, &rows->schema, NULL) == NANOARROW_OK);
        must(ArrowArrayViewSetArray(&view, &batch, NULL) == NANOARROW_OK);
        for (int64_t i = 0; i < batch.length; i++) {
            out.sum += ArrowArrayViewGetIntUnsafe(view.children[0], batch.offset + i);
        }
        ArrowArrayViewReset(&view);
        out.rows += batch.length;
        out.bytes += lk_array_range_bytes(&rows->schema, &batch, 0, batch.length);
    }
}

static lk_rc append(lk_authority *a, const lk_principal *who, const lk_append_command *command,
    lk_batches *rows, lk_cancel *cancel, uint64_t *version, lk_err *err)
{
    (void)who, (void)cancel;
    fake_authority *fake = (fake_authority *)a;
    fake_table     *table = find(fake, command->table);
    must(table != NULL);
    if (++fake->append_calls == (size_t)fake->fail_append_at) {
        return lk_fail(err, LK_E_AUTHORITY_UNAVAILABLE, "fake");
    }
    fake_operation now = read_operation(command, rows);
    *version = table->version;
    for (size_t i = 0; i < fake->operation_count; i++) {
        if (strcmp(fake->operations[i].id, now.id) == 0) {
            bool same = strcmp(fake->operations[i].digest, now.digest) == 0;
            return same ? LK_OK : lk_fail(err, LK_E_OPERATION_CONFLICT, "fake");
        }
    }
    must(fake->operation_count < FAKE_OPERATIONS_MAX);
    fake->operations[fake->operation_count++] = now;
    *version = ++table->version;
    return LK_OK;
}

static void close_nothing(lk_authority *a)
{
    (void)a;
}

void fake_authority_init(fake_authority *fake)
{
    static const struct lk_authority_ops ops = {
        create_table, drop_table, resolve, list_tables, list_namespaces, directory, append, close_nothing};
    *fake = (fake_authority){.base = {&ops}, .generation = 1};
}

void fake_authority_deinit(fake_authority *fake)
{
    for (size_t i = 0; i < fake->table_count; i++) {
        lk_buf_deinit(&fake->tables[i].schema_ipc);
    }
}
