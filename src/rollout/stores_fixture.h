#ifndef LK_ROLLOUT_STORES_FIXTURE_H
#define LK_ROLLOUT_STORES_FIXTURE_H
/* stores_fixture.h - for this room's tests only: instances on one data directory of their own, and adds of a few rows. */
#include "rollout/stores.h"

extern char pods_root[64];

int pods_make_root(void **state);
int pods_remove_root(void **state);

lk_rollouts *pods_open(const char *instance);
lk_rollouts *pods_open_with(const char *instance, const lk_rollouts_options *more);
void         pods_must(lk_rc rc, const lk_err *err); /* fails the test with what it says */

lk_rollout_store *pods_create(lk_rollouts *pod, const char *name);
lk_rollout_store *pods_get(lk_rollouts *pod, const char *name);

/* One row, of this id and content (NULL: none). */
lk_rc    pods_add(lk_rollout_store *store, const char *id, const char *content, lk_err *err);
void     pods_must_add(lk_rollout_store *store, const char *id);
uint64_t pods_rows(lk_rollout_store *store);      /* of base and generations together, distinct ids */
uint64_t pods_base_rows(lk_rollout_store *store); /* of the base table */
size_t   pods_pending(lk_rollout_store *store);   /* unmerged generations, all shards */
size_t   pods_fragments(lk_rollout_store *store); /* of the base table */

/* Waits until there are so many, or fails the test after 20 s. */
void pods_wait(size_t (*count)(lk_rollout_store *store), lk_rollout_store *store, size_t at_most);

/* How many directories of generations lie in an instance's shard. */
size_t pods_directories(const char *store, const char *instance);
size_t pods_versions(const char *store); /* of its base table */

/* Bytes of all manifests of an instance's shard, and of the newest alone. */
uint64_t pods_manifest_bytes(const char *store, const char *instance, uint64_t *newest);

#endif
