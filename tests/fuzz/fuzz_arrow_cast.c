/*
 * fuzz_arrow_cast.c - one text cast to every type it may become: it becomes a valid value, or a fault in words that
 * name column and row.
 */
#include "arrow/cast.h"
#include "arrow/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const targets[] = {"bool", "int8", "uint64", "float16", "float64", "decimal(9,2)",
    "decimal256(70,60)", "decimal128(38,38)", "date32", "date64", "time32[s]", "time64[ns]", "timestamp[s]",
    "timestamp[ns,UTC]", "duration[ms]", "fixed_size_binary(3)", "large_binary"};

static void start_text(lk_bytes text, struct ArrowSchema *schema, struct ArrowArray *array)
{
    lk_err                 err = {0};
    struct ArrowStringView view = {text.data, (int64_t)text.size};
    LK_ASSERT(lk_type_parse(LK_LITERAL("utf8?"), LK_LITERAL("c"), schema, &err) == LK_OK);
    LK_ASSERT(ArrowArrayInitFromSchema(array, schema, NULL) == NANOARROW_OK);
    LK_ASSERT(ArrowArrayStartAppending(array) == NANOARROW_OK);
    LK_ASSERT(ArrowArrayAppendNull(array, 1) == NANOARROW_OK);
    LK_ASSERT(ArrowArrayAppendString(array, view) == NANOARROW_OK);
    LK_ASSERT(ArrowArrayFinishBuildingDefault(array, NULL) == NANOARROW_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ArrowSchema from = {0};
    struct ArrowArray  array = {0};
    start_text((lk_bytes){(const char *)data, size}, &from, &array);
    lk_shared_array *shared = lk_array_share(&array);
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        struct ArrowSchema to = {0};
        struct ArrowArray  out = {0};
        lk_err             err = {0};
        LK_ASSERT(lk_type_parse(lk_bytes_of(targets[i]), LK_LITERAL("c"), &to, &err) == LK_OK);
        if (lk_array_cast(&from, shared, &to, 0, &out, &err) == LK_OK) {
            LK_ASSERT(out.length == 2 && lk_array_validate(&to, &out, &err) == LK_OK);
        } else {
            LK_ASSERT(err.rc == LK_E_SCHEMA_MISMATCH && err.detail[0] != '\0');
        }
        lk_array_release(&out);
        lk_schema_release(&to);
    }
    lk_shared_array_unref(shared);
    lk_schema_release(&from);
    return 0;
}
