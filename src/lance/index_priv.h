#ifndef LK_LANCE_INDEX_PRIV_H
#define LK_LANCE_INDEX_PRIV_H
/*
 * index_priv.h - what the index_*.c files share: the messages of an index section (index_list.c), and one reader for
 * each kind (index_btree.c, index_bitmap.c, index_zonemap.c).
 * Threads: stateless.
 */
#include "lance/dataset_priv.h"
#include "lance/index.h"

enum { LK_INDEX_SECTION_INDICES = 1 };

/* Of an IndexMetadata. */
enum {
    LK_INDEX_UUID = 1,
    LK_INDEX_FIELDS = 2,
    LK_INDEX_NAME = 3,
    LK_INDEX_DATASET_VERSION = 4,
    LK_INDEX_BITMAP_OF_FRAGMENTS = 5,
    LK_INDEX_DETAILS = 6,
    LK_INDEX_VERSION = 7,
    LK_INDEX_CREATED_AT = 8,
    LK_INDEX_BASE = 9,
    LK_INDEX_FILES = 10
};

/* Takes one message apart; covers and base stay unset. bitmap: as stored. False when it is malformed. */
bool lk_index_parse(
    lk_bytes message, lk_arena *arena, lk_index *out, lk_bytes *bitmap, uint32_t *base, bool *has_base);

#endif
