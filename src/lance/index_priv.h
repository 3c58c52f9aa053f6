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

/* IndexMetadata.index_version: a BTREE of version 1 has addresses where one of version 0 has stable row ids. */
enum { LK_INDEX_VERSION_IDS = 0, LK_INDEX_VERSION_ADDRESSES = 1 };

/* Takes one message apart; covers and base stay unset. bitmap: as stored. False when it is malformed. */
bool lk_index_parse(
    lk_bytes message, lk_arena *arena, lk_index *out, lk_bytes *bitmap, uint32_t *base, bool *has_base);

typedef struct lk_fragment_number {
    uint64_t id;
    size_t   number;
} lk_fragment_number;

/* A version's fragments by id, ascending; in the arena. */
const lk_fragment_number *lk_fragment_numbers(const lk_manifest *manifest, lk_arena *arena);
/* The first place whose id is not below. */
size_t lk_fragment_lower_bound(const lk_fragment_number *numbers, size_t count, uint64_t id);
/* The number of the fragment of this id, SIZE_MAX: there is none. */
size_t lk_fragment_number_of(const lk_fragment_number *numbers, size_t count, uint64_t id);

#endif
