#ifndef LK_SIM_ROLLOUT_CHECKS_H
#define LK_SIM_ROLLOUT_CHECKS_H
/*
 * checks.h - what must be so, seen by somebody who looks at the bucket directly and hears every answer. They decide, not
 * examples.
 *
 *   always     a shard's manifests have no gaps, their epochs, generation numbers and log positions never fall; what is
 *              listed is there, whole; an epoch is one process's; no directory that is listed loses an object, and no manifest its
 *              contents but one that a newer one superseded
 *   when read  what was told before the read began is there, and what any reader saw before; each row once, the rows of an
 *              add all or none, with one content; nothing that nobody sent
 *   when told  an id is never acknowledged with two contents
 *   at last    every row lies in the base table, once; no generation is listed, no directory of one is left; every manifest
 *              is there by name, and only the newest has contents
 */
#include "world.h"

void check_manifest(world *w, lk_bytes key, lk_bytes bytes); /* of a shard, just put */
void check_base(world *w, uint64_t version);                 /* of the table, just put */
void check_emptied(world *w, lk_bytes key);                  /* a manifest, about to be emptied */
void check_removal(world *w, lk_bytes key);                  /* about to be removed */
void check_owner(process *p);
void check_told(world *w, add *a, int contents);

/* Reads everything. LK_OK: it could be read and was checked; else what the reader heard. */
lk_rc check_read(process *p, lk_err *err);
void  check_at_last(process *p); /* chaos is over, everything was merged and collected */

void row_id(int client, int number, int row, char out[24]);

#endif
