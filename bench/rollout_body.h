#ifndef LK_BENCH_ROLLOUT_BODY_H
#define LK_BENCH_ROLLOUT_BODY_H
/*
 * rollout_body.h - the records that the programs of the rollout benches add: short texts, and as many output tokens with
 * logprobs as asked for, an advantage beside them. Ids are "<run>-<request>-<row>", all numbers hexadecimal. Threads: a maker is confined.
 */
#include "base/bytes.h"
#include "base/err.h"

#include <stdbool.h>

typedef struct lk_body_maker {
    uint64_t run; /* another one for every process that adds to a store */
    uint64_t rows, tokens;
    bool     varied; /* lists are of many sizes and values, `tokens` long on average; in JSON only */
    lk_buf   lists;  /* of every record as JSON; private */
} lk_body_maker;

lk_body_maker lk_body_maker_of(uint64_t run, uint64_t rows, uint64_t tokens);
void          lk_body_maker_deinit(lk_body_maker *maker);

/* Appends the request: {"records": [...]}, or an Arrow stream of the columns that are set. */
void                lk_body_json(const lk_body_maker *maker, uint64_t request, lk_buf *out);
LK_MUST_CHECK lk_rc lk_body_arrow(const lk_body_maker *maker, uint64_t request, lk_buf *out, lk_err *err);

#endif
