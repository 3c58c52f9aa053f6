#ifndef LK_LANCE_NAME_SET_H
#define LK_LANCE_NAME_SET_H
/* name_set.h - a set of names: many versions refer to the same files. Threads: confined. */
#include "base/arena.h"

typedef struct lk_name_set { /* zero: empty */
    lk_arena  arena;
    lk_bytes *slots; /* by hash; data NULL: free */
    size_t    slot_count, count;
} lk_name_set;

void lk_name_set_add(lk_name_set *set, lk_bytes name); /* copies */
bool lk_name_set_has(const lk_name_set *set, lk_bytes name);
void lk_name_set_deinit(lk_name_set *set);

#endif
