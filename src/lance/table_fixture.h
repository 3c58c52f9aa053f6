#ifndef LK_LANCE_TABLE_FIXTURE_H
#define LK_LANCE_TABLE_FIXTURE_H
/* table_fixture.h - for this room's tests only: tables written by pylance, scratch tables, small batches. */
#include "base/bytes.h"
#include "io/store.h"
#include "lance/dataset.h"

/* Opens tests/golden/lance/<name>.lance, which pylance 14 wrote (see the README there). */
lk_store *fixture_golden(const char *name);

/* A store over a new, empty directory below the system's temporary one. */
typedef struct fixture_scratch {
    char path[128];
} fixture_scratch;
lk_store *fixture_scratch_open(fixture_scratch *scratch);   /* makes the directory */
lk_store *fixture_scratch_reopen(fixture_scratch *scratch); /* another store over it */
void      fixture_scratch_remove(fixture_scratch *scratch);

lk_lance_env fixture_env(lk_store *store);

/* The schema (id int64 non-null, name utf8 nullable). */
void fixture_schema(struct ArrowSchema *out);

/* `batches` batches of `rows` rows each: id counts up from first, name is "n<id>", null where id % 5 == 3. */
lk_batches *fixture_rows(int64_t first, int64_t rows, int64_t batches);

/* The whole object, to be freed with lk_buf_deinit. */
lk_buf fixture_object(lk_store *store, const char *key);

#endif
