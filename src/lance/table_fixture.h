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

/* A new table of those rows: version 1 is empty, then `appends` versions of `rows` rows each, counted on. */
void fixture_table(const lk_lance_env *env, int64_t first, int64_t rows, int64_t appends);

lk_dataset *fixture_open(const lk_lance_env *env, uint64_t version);

/* The ids (column 0, int64) that a scan gives, in its order; to be freed with lk_buf_deinit. */
lk_buf fixture_ids(const lk_lance_env *env, uint64_t version);

/* Copies the objects of a table without indices and branches. */
void fixture_copy(lk_store *from, lk_store *to);

/* How many objects (temporaries included) a directory holds. */
size_t fixture_count(lk_store *store, const char *directory);

/* The whole object, to be freed with lk_buf_deinit. */
lk_buf fixture_object(lk_store *store, const char *key);

#endif
