#ifndef LK_SERVE_ROLLOUT_SERVICE_PRIV_H
#define LK_SERVE_ROLLOUT_SERVICE_PRIV_H
/*
 * rollout_service_priv.h - what the files of the rollout service share: the service, one request of it, and the handlers.
 *
 * A handler gives the answer and returns LK_OK, or returns a failure and has answered nothing yet. Once an exchange is
 * answered it may be gone, and with it its arena and the call: a handler releases what it holds before that.
 *
 * Threads: the service is shared, its counters are atomic; a call is confined to whoever has its exchange.
 */
#include "base/budget.h"
#include "net/http_server.h"
#include "rollout/stores.h"
#include "serve/rollout_error.h"
#include "serve/rollout_forms.h"
#include "serve/rollout_route.h"
#include "serve/rollout_service.h"

typedef enum rollout_body_kind {
    ROLLOUT_BODY_NONE,
    ROLLOUT_BODY_CONTROL,
    ROLLOUT_BODY_RECORDS
} rollout_body_kind;

typedef struct rollout_call rollout_call;

typedef struct rollout_method {
    lk_rollout_resource resource;
    const char         *name; /* "GET"; HEAD counts as GET */
    lk_rollout_role     role;
    bool                open; /* to all, also when there are tokens */
    rollout_body_kind   body;
    lk_rc (*run)(rollout_call *call, lk_err *err);
    const char *parameters; /* that it knows, "a, b"; "": none. NULL: whatever there is */
    bool        is_long;    /* its answer may be larger than a peer takes at once */
} rollout_method;

enum { ROLLOUT_DURATION_BUCKETS = 12, ROLLOUT_DURATION_FIRST_US = 500, ROLLOUT_DURATION_FACTOR = 3 };

typedef struct rollout_duration { /* of requests of one resource */
    atomic_ullong buckets[ROLLOUT_DURATION_BUCKETS], count, sum_us;
} rollout_duration;

typedef enum rollout_stage { /* of a group of adds, on the worker that stores it */
    ROLLOUT_STAGE_READ,
    ROLLOUT_STAGE_STORE,
    ROLLOUT_STAGE_ANSWER,
    ROLLOUT_STAGES
} rollout_stage;

typedef struct rollout_tokens { /* immutable */
    atomic_size_t     refs;
    lk_rollout_token *items;
    size_t            count;
    lk_buf            secrets; /* that they point to */
} rollout_tokens;

struct lk_rollout_service {
    lk_rollout_service_options options;                          /* limits: see those below */
    atomic_ullong   body_max, queued_bytes_max, group_commit_us; /* limits; others are their keepers' */
    lk_http_server *server;
    lk_budget       memory; /* decoded bodies and the records made of them */
    rollout_answers answers;
    lk_buf          instance; /* what options point to */
    bool            has_tokens;
    struct rollout_repeats *repeats; /* rollout_repeat.c */
    struct rollout_groups  *groups;  /* rollout_group.c */
    struct rollout_tails   *tails;   /* rollout_tail.c */
    lk_mutex                mutex;
    struct rollout_pin     *pins;   /* guarded by mutex; rollout_upkeep.c */
    rollout_tokens         *tokens; /* guarded by mutex; NULL: open to all */
    atomic_bool             draining;
    atomic_ullong           queued_bytes; /* of adds whose bodies are in, and that are not answered */
    atomic_ullong           adds_in_flight;
    atomic_ullong           statuses[LK_ROLLOUT_RESOURCES][6]; /* by hundreds; 0: the peer went away */
    rollout_duration        durations[LK_ROLLOUT_RESOURCES];
    atomic_ullong           stage_us[ROLLOUT_STAGES];
    atomic_ullong appends, records, blob_bytes, budget_rejections, backpressure_rejections, body_timeouts;
};

struct rollout_call {
    lk_rollout_service   *service;
    lk_http_exchange     *exchange;
    lk_arena             *arena; /* the exchange's */
    const rollout_method *method;
    lk_rollout_target     target;
    uint64_t              started_us;
    bool                  is_handled; /* refused by its head, or run: what else answers is the server below */
    bool                  has_store;  /* it asked for one, after it noted removals */
    uint64_t              removals;
    unsigned              attempts;
    bool                  is_pinned; /* asks for one snapshot by a cursor or a version, no other will do */
};

/* -- handlers ------------------------------------------------------------------------------------------------ */
lk_rc rollout_health(rollout_call *call, lk_err *err);
lk_rc rollout_ready(rollout_call *call, lk_err *err);
lk_rc rollout_metrics(rollout_call *call, lk_err *err);

lk_rc rollout_create_store(rollout_call *call, lk_err *err);
lk_rc rollout_list_stores(rollout_call *call, lk_err *err);
lk_rc rollout_get_store(rollout_call *call, lk_err *err);
lk_rc rollout_delete_store(rollout_call *call, lk_err *err);

lk_rc rollout_add(rollout_call *call, lk_err *err);
lk_rc rollout_list(rollout_call *call, lk_err *err);
lk_rc rollout_trajectory(rollout_call *call, lk_err *err);
lk_rc rollout_get(rollout_call *call, lk_err *err);
lk_rc rollout_blob(rollout_call *call, lk_err *err);

lk_rc rollout_checkout(rollout_call *call, lk_err *err);
lk_rc rollout_merge(rollout_call *call, lk_err *err);
lk_rc rollout_compact(rollout_call *call, lk_err *err);
lk_rc rollout_compact_stats(rollout_call *call, lk_err *err);
lk_rc rollout_stats(rollout_call *call, lk_err *err);
lk_rc rollout_tail(rollout_call *call, lk_err *err);

/* -- rollout_failure.c --------------------------------------------------------------------------------------- */

/* Makes a failure what it means to whoever asked. */
void rollout_explain(rollout_call *call, lk_err *err);

/* Instead of an answer that has not begun: a read whose files went away begins anew, else the failure is the answer. The call is
 * gone. */
void rollout_fail(rollout_call *call, lk_err *err);
/* The call's handler, from its beginning. */
void rollout_run(rollout_call *call);

/* -- helpers ------------------------------------------------------------------------------------------------- */

/* The store that the path names. */
LK_MUST_CHECK lk_rc rollout_open_store(rollout_call *call, lk_rollout_store **out, lk_err *err);

/* The version that checkouts of shared scope let readers of a store see; 0: the newest, which it is set back to as well. */
void     rollout_pin(lk_rollout_service *service, lk_bytes name, uint64_t version);
uint64_t rollout_pinned(lk_rollout_service *service, lk_bytes name);
void     rollout_unpin_all(lk_rollout_service *service);

/* What readers' answers hold, the connections' queues with them. */
uint64_t rollout_answer_bytes(lk_rollout_service *service);

/* Answers with JSON, taking *body. */
void rollout_answer_json(rollout_call *call, int status, lk_buf *body);

/* A query parameter; *found. LK_E_INVALID_REQUEST for a broken escape. */
LK_MUST_CHECK lk_rc rollout_parameter(
    rollout_call *call, const char *name, lk_bytes *value, bool *found, lk_err *err);

#endif
