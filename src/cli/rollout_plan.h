#ifndef LK_CLI_ROLLOUT_PLAN_H
#define LK_CLI_ROLLOUT_PLAN_H
/*
 * rollout_plan.h - what a rollout server is going to be, worked out of the settings and checked before anything is opened
 * or written: who it is, where its data lie, who may call, how it is reached.
 *
 * The instance id is INSTANCE_ID (its flag goes before it), else HOSTNAME, else "default"; an empty one is none. A listener off
 * loopback needs TLS and tokens, or the override by name. Ownership: _make/_deinit the caller's own struct. Threads: immutable
 * once made.
 */
#include "base/uuid.h"
#include "cli/rollout_flags.h"
#include "cli/rollout_tokens.h"
#include "io/s3.h"
#include "net/tls.h"
#include "rollout/stores.h"

typedef struct lk_rollout_plan {
    const lk_config  *config;  /* borrowed, as all texts are; of _make: its own */
    const char       *address; /* HOST:PORT */
    const char       *data_dir;
    const char       *instance_id, *instance_source; /* "--instance-id", a variable's name, or "default" */
    lk_uuid           shard;
    const char       *directory; /* the data directory, when it is one of this machine; else NULL */
    lk_s3_options     s3;
    uint64_t          blob_bytes_max;
    lk_tls_identity   tls;
    lk_rollout_tokens tokens;
    uint64_t          from_file; /* bits of the limits that the limits file named (rollout_live.h) */
    lk_config         own;       /* private, as are the following: the settings with those limits */
    lk_arena          arena;
    /* What it was made of, to make it again. */
    const lk_config        *given;
    const lk_rollout_flags *flags;
    const char             *given_address, *given_data_dir;
} lk_rollout_plan;

/* address, data_dir: NULL, or in place of the settings'. flags: NULL: none. The settings and flags are borrowed, and the plan
 * stays where it is. LK_E_INVALID_CONFIG, LK_E_INSECURE. Deinit also after a failure. */
LK_MUST_CHECK lk_rc lk_rollout_plan_make(lk_rollout_plan *out, const lk_config *config,
    const lk_rollout_flags *flags, const char *address, const char *data_dir, lk_err *err);
/* Who and where alone, for commands that work without a server. */
LK_MUST_CHECK lk_rc lk_rollout_plan_place(lk_rollout_plan *out, const lk_config *config,
    const lk_rollout_flags *flags, const char *data_dir, lk_err *err);
/* What the stores are opened with; borrows the plan. */
lk_rollouts_options lk_rollout_plan_stores(const lk_rollout_plan *plan);
void                lk_rollout_plan_deinit(lk_rollout_plan *plan); /* accepts zero */

#endif
