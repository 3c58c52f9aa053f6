#ifndef LK_ROLLOUT_STORE_FIXTURE_H
#define LK_ROLLOUT_STORE_FIXTURE_H
/*
 * store_fixture.h - for this room's tests only: a store in a directory of its own, with writers of several instances.
 * Rows are given as a text: "a b=x" is a record a without content and a record b with the content x, a text that begins with
 * a brace is JSON, a record a line.
 */
#include "rollout/view.h"
#include "rollout/writer.h"

typedef struct fixture_store {
    char             root[64];
    lk_store        *store;
    lk_lance_env     env;
    lk_dataset      *base; /* version 2 */
    lk_rollout_view *view;
} fixture_store;

extern fixture_store fixture;

int fixture_open_store(void **state);
int fixture_close_store(void **state);

struct ArrowArray  fixture_records(const char *text); /* of the table's columns */
lk_rollout_writer *fixture_writer(const char *instance);
void               fixture_add(lk_rollout_writer *writer, const char *text);
void               fixture_append_to_base(const char *text); /* what a merge does */
lk_bytes           fixture_id(const struct ArrowArray *batch, int64_t row);

#endif
