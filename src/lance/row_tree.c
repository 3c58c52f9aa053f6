/* row_tree.c - see row_tree.h. */
#include "lance/row_tree.h"

#include "lance/roaring_read.h"

typedef struct block {
    uint64_t         high;
    lk_row_tree_add *add;
    void            *context;
} block;

static lk_rc add_run(void *context, uint32_t first, uint32_t count, lk_err *err)
{
    const block *b = context;
    return b->add(b->context, b->high | first, count, err);
}

static bool take_u32(lk_bytes *rest, uint32_t *out)
{
    if (rest->size < 4) {
        return false;
    }
    *out = lk_load_u32(rest->data);
    *rest = (lk_bytes){rest->data + 4, rest->size - 4};
    return true;
}

lk_rc lk_row_tree_read(lk_bytes bytes, lk_row_tree_add *add, void *context, lk_err *err)
{
    uint32_t count = 0, high = 0, size = 0;
    lk_rc    rc = LK_OK;
    bool     good = take_u32(&bytes, &count);
    for (uint32_t i = 0; rc == LK_OK && good && i < count; i++) {
        good = take_u32(&bytes, &high) && take_u32(&bytes, &size) && size <= bytes.size;
        if (good) {
            block b = {(uint64_t)high << 32, add, context};
            rc = size == 0 ? add(context, b.high, UINT64_C(1) << 32, err)
                           : lk_roaring_read((lk_bytes){bytes.data, size}, add_run, &b, err);
            bytes = (lk_bytes){bytes.data + size, bytes.size - size};
        }
    }
    if (rc == LK_OK && (!good || bytes.size > 0)) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "a set of rows is cut short or too long");
    }
    return rc;
}
