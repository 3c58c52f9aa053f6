#ifndef LK_LANCE_FILE_FIXTURE_H
#define LK_LANCE_FILE_FIXTURE_H
/* file_fixture.h - for this room's tests only: one object in memory, and batches of many types. */
#include "base/bytes.h"
#include "io/store.h"
#include "lance/file_read.h"
#include "lance/file_write.h"

/* A store of one object, whatever its key. reads: how many ranges were read, calls: in how many goes, of which
 * calls_ahead came before fixture_read decoded anything. Call number fails_at fails. Of a far one rows are read ahead. */
typedef struct fixture_memory {
    lk_store base;
    lk_buf   object;
    bool     exists;
    size_t   reads, calls, calls_ahead, fails_at;
    uint64_t read_bytes;
} fixture_memory;
void fixture_memory_init(fixture_memory *store);
void fixture_memory_deinit(fixture_memory *store);

/* A schema with one column of every storable kind: ints, floats, bool, texts short and long, lists, structs. */
void fixture_every_schema(struct ArrowSchema *out);

/* rows rows of it, from row `first`; nulls: a tenth of every nullable field. */
void fixture_every_rows(int64_t first, int64_t rows, bool nulls, struct ArrowArray *out);

/* Writes one file: `batches` batches of `rows` rows. */
void fixture_write(fixture_memory *store, int64_t rows, int64_t batches, bool nulls);

/* Opens the file and decodes `ranges` of every column; the first error is returned. */
lk_rc fixture_read(
    fixture_memory *store, const lk_row_range *ranges, size_t count, struct ArrowArray *out, lk_err *err);

/* Asserts that the rows are whole. */
void fixture_open_view(const struct ArrowArray *array, struct ArrowArrayView *view);

/* Asserts that rows [start, start + count) of expected are rows [at, ...) of actual. */
void fixture_same_rows(const struct ArrowArray *expected, int64_t start, const struct ArrowArray *actual,
    int64_t at, int64_t count);

#endif
