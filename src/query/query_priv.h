#ifndef LK_QUERY_QUERY_PRIV_H
#define LK_QUERY_QUERY_PRIV_H
/* query_priv.h - the query tier's state, for this room only. Threads: `listing` is guarded by mutex, the rest is
 * immutable or guards itself. */
#include "query/admit.h"
#include "query/query.h"

typedef struct lk_listing lk_listing; /* listing.h */

struct lk_query {
    lk_authority     forward; /* forward.c's body, first: it is the authority that callers see */
    lk_query_options options;
    lk_admission    *admission;
    lk_mutex         mutex;   /* rank QUERY */
    lk_listing      *listing; /* decoded directory of the newest generation seen; a reference */
};

extern const struct lk_authority_ops lk_forward_ops;

#endif
