/* fuzz_lance_deletion.c - a deletion file, as a bitmap and as an Arrow file. */
#include "lance/deletion.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int kind = LK_DELETION_ARRAY; kind <= LK_DELETION_BITMAP; kind++) {
        for (uint64_t count = 0; count < 20; count += 4) { /* the golden files delete 2, 4, 8 ... rows */
            lk_deletion *deletion = NULL;
            lk_err       err = {0};
            lk_bytes     bytes = {(const char *)data, size};
            if (lk_deletion_parse((lk_deletion_kind)kind, bytes, 100, count, &deletion, &err) == LK_OK) {
                LK_ASSERT(lk_deletion_count_range(deletion, 0, 100) == count);
                lk_deletion_close(deletion);
            }
        }
    }
    return 0;
}
