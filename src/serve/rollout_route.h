#ifndef LK_SERVE_ROLLOUT_ROUTE_H
#define LK_SERVE_ROLLOUT_ROUTE_H
/*
 * rollout_route.h - what a path of the rollout service names. `/api/v1/rollouts/...` and, shorter, `/rollouts/...`, where
 * `/rollouts/NAME/ID` is a record too, unless ID begins with `records`, `checkout` or `compact` as a whole segment.
 *
 * An id may hold slashes: it is everything up to the end of the path, but for one trailing `/blob`, which asks for the
 * payload; then it is percent-decoded, once. So an id that ends in `/blob` is sent with `%2Fblob`.
 * Threads: stateless.
 */
#include "base/arena.h"
#include "base/err.h"

typedef enum lk_rollout_resource {
    LK_ROLLOUT_METRICS,       /* /metrics */
    LK_ROLLOUT_HEALTH,        /* /api/v1/health */
    LK_ROLLOUT_READY,         /* /api/v1/ready */
    LK_ROLLOUT_STORES,        /* /api/v1/rollouts */
    LK_ROLLOUT_STORE,         /* .../NAME */
    LK_ROLLOUT_STORE_SHORT,   /* /rollouts/NAME: takes records too */
    LK_ROLLOUT_RECORDS,       /* .../NAME/records */
    LK_ROLLOUT_RECORD,        /* .../NAME/records/ID */
    LK_ROLLOUT_BLOB,          /* .../NAME/records/ID/blob */
    LK_ROLLOUT_TRAJECTORY,    /* .../NAME/trajectories/ROLLOUT_ID */
    LK_ROLLOUT_TAIL,          /* .../NAME/tail */
    LK_ROLLOUT_STATS,         /* .../NAME/stats */
    LK_ROLLOUT_CHECKOUT,      /* .../NAME/checkout */
    LK_ROLLOUT_COMPACT,       /* .../NAME/compact */
    LK_ROLLOUT_COMPACT_STATS, /* .../NAME/compact/stats */
    LK_ROLLOUT_MERGE,         /* .../NAME/merge */
    LK_ROLLOUT_RESOURCES
} lk_rollout_resource;

typedef struct lk_rollout_target {
    lk_rollout_resource resource;
    lk_bytes            name, id; /* decoded, in the arena; id also of a trajectory */
} lk_rollout_target;

/* LK_E_NOT_FOUND: no such path; LK_E_INVALID_REQUEST: a broken percent escape. */
LK_MUST_CHECK lk_rc lk_rollout_target_of(lk_bytes path, lk_arena *arena, lk_rollout_target *out, lk_err *err);

/* A name for metrics: "records". */
const char *lk_rollout_resource_name(lk_rollout_resource resource);

#endif
