/* fuzz_lance_manifest.c - a manifest object: parsed, asked about, rewritten; and the same bytes as a transaction. */
#include "lance/manifest.h"
#include "lance/pb_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const lk_manifest *manifest)
{
    lk_arena          arena = {0};
    lk_err            err = {0}, append_err = {0};
    lk_bytes          section = {0};
    lk_transaction    transaction = {0};
    bool              found = false;
    lk_buf            next = {0};
    lk_pb_new_version version = {.version = 2};
    if (lk_manifest_index_section(NULL, manifest, &arena, &section, &found, &err) != LK_OK) {
        err = (lk_err){0};
    }
    if (manifest->has_transaction_section && manifest->transaction_file.size == 0 &&
        lk_manifest_transaction(NULL, manifest, &arena, &section, &found, &err) == LK_OK) {
        err = (lk_err){0};
        (void)!lk_pb_transaction_decode(section, &arena, &transaction, &err);
    }
    for (size_t i = 0; i < manifest->schema->field_count && manifest->fragment_count > 0; i++) {
        size_t  file = 0;
        int32_t column = 0;
        (void)lk_fragment_find(&manifest->fragments[0], manifest->schema->fields[i].id, &file, &column);
    }
    lk_lance_schema_descriptor(manifest->schema, 1, &next);
    lk_rc rc = lk_pb_manifest_append(manifest->body, &version, &next, &append_err);
    LK_ASSERT(rc == LK_OK); /* what was parsed can be rewritten */
    lk_buf_deinit(&next);
    lk_arena_close(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_manifest *manifest = NULL;
    lk_err       err = {0};
    lk_bytes     bytes = {(const char *)data, size};
    if (lk_manifest_parse(bytes, LK_LITERAL("fuzz"), &manifest, &err) == LK_OK) {
        use(manifest);
        lk_manifest_close(manifest);
    }
    lk_arena       arena = {0};
    lk_transaction transaction = {0};
    lk_err         transaction_err = {0};
    (void)!lk_pb_transaction_decode(bytes, &arena, &transaction, &transaction_err);
    lk_arena_close(&arena);
    return 0;
}
