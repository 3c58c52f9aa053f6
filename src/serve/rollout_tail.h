#ifndef LK_SERVE_ROLLOUT_TAIL_H
#define LK_SERVE_ROLLOUT_TAIL_H
/* rollout_tail.h - learners that wait for new rows. Threads: shared. */
#include "serve/rollout_service_priv.h"

LK_MUST_CHECK lk_rc rollout_tails_open(lk_rollout_service *service, struct rollout_tails **out, lk_err *err);
void                rollout_tails_close(struct rollout_tails *tails); /* nobody waits; accepts NULL */

/* Something was added here. */
void rollout_tails_stir(struct rollout_tails *tails);

#endif
