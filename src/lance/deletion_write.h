#ifndef LK_LANCE_DELETION_WRITE_H
#define LK_LANCE_DELETION_WRITE_H
/*
 * deletion_write.h - writes the deletion file of a fragment: all its deleted rows, old and new. Threads: stateless.
 */
#include "base/rand.h"
#include "lance/manifest.h"

struct roaring_bitmap_s; /* <roaring/roaring.h> */

/* A new file for these rows: its kind by their number, its id by chance. */
lk_deletion_file lk_deletion_name(
    const struct roaring_bitmap_s *rows, uint64_t read_version, lk_random *random);

lk_bytes lk_deletion_key(uint64_t fragment_id, const lk_deletion_file *file, lk_arena *arena);

LK_MUST_CHECK lk_rc lk_deletion_write(lk_store *store, uint64_t fragment_id, const lk_deletion_file *file,
    const struct roaring_bitmap_s *rows, lk_err *err);

#endif
