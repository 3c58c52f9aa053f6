#ifndef LK_LANCE_FRAGMENT_SAME_H
#define LK_LANCE_FRAGMENT_SAME_H
/* fragment_same.h - whether a fragment is what it was in another version, however it was written down. Threads:
 * stateless. */
#include "lance/manifest.h"

/* The same rows in the same columns of the same files; deletions apart. */
bool lk_fragment_same_files(const lk_fragment *a, const lk_fragment *b);
bool lk_fragment_same_deletion(const lk_deletion_file *a, const lk_deletion_file *b);

#endif
