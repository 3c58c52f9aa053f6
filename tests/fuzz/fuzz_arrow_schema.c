/*
 * fuzz_arrow_schema.c - types as text and schemas as messages. The first byte chooses. Text that is read gives a
 * type whose own text reads as the same type; a message that is read writes and reads as the same schema.
 */
#include "arrow/ipc.h"
#include "arrow/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* text -> type -> text -> type -> text: the two texts are equal. */
static void round_trip_text(lk_bytes text)
{
    struct ArrowSchema one = {0}, two = {0};
    lk_buf             first = {0}, second = {0};
    lk_err             err = {0};
    if (lk_type_parse(text, LK_LITERAL("c"), &one, &err) == LK_OK) {
        lk_type_format(&one, &first);
        LK_ASSERT(lk_type_parse(lk_buf_view(&first), LK_LITERAL("c"), &two, &err) == LK_OK);
        lk_type_format(&two, &second);
        LK_ASSERT(lk_bytes_equal(lk_buf_view(&first), lk_buf_view(&second)));
    }
    lk_schema_release(&one);
    lk_schema_release(&two);
    lk_buf_deinit(&first);
    lk_buf_deinit(&second);
}

static void round_trip_message(lk_bytes message)
{
    struct ArrowSchema one = {0}, two = {0};
    lk_buf             encoded = {0};
    lk_err             err = {0}, ignored = {0};
    if (lk_ipc_schema_decode(message, &one, &err) == LK_OK) {
        lk_rc checked = lk_schema_check(&one, &ignored); /* its answer is free, but it must answer */
        LK_ASSERT(checked == LK_OK || ignored.detail[0] != '\0');
        LK_ASSERT(lk_ipc_schema_encode(&one, LK_IPC_ENCAPSULATED, &encoded, &err) == LK_OK);
        if (encoded.size <= 1 << 20) { /* shared offsets may unfold to more than a header may hold */
            LK_ASSERT(lk_ipc_schema_decode(lk_buf_view(&encoded), &two, &err) == LK_OK);
            LK_ASSERT(lk_schema_compare(&one, &two, LK_SCHEMA_APPEND, &err) == LK_OK);
        }
    }
    lk_schema_release(&one);
    lk_schema_release(&two);
    lk_buf_deinit(&encoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    lk_bytes           bytes = {(const char *)data + 1, size > 0 ? size - 1 : 0};
    struct ArrowSchema column = {0};
    lk_err             err = {0};
    uint8_t            choice = size > 0 ? data[0] % 3 : 0;
    if (choice == 0) {
        round_trip_message(bytes);
    } else if (choice == 1) {
        round_trip_text(bytes);
    } else {
        lk_rc rc = lk_column_parse(bytes, &column, &err);
        LK_ASSERT((rc == LK_OK) == (column.release != NULL) && (rc == LK_OK || err.detail[0] != '\0'));
        lk_schema_release(&column);
    }
    return 0;
}
