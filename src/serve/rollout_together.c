/*
 * rollout_together.c - the small JSON bodies of a group of adds are read into one batch: a batch has some forty columns, which
 * cost more than the row or two that most adds bring.
 *
 * A builder that refused something gives no batch. So when one body is refused, each of the group is read by itself, as a large
 * one is, and the faulty ones learn what is wrong with them.
 *
 * Threads: confined to the worker that stores the group.
 */
#include "rollout/records_json.h"
#include "serve/rollout_add.h"

#include <stdlib.h>

typedef struct shelf { /* the small ones of a group */
    rollout_add_call      **adds;
    lk_rollout_submission **submissions;
    size_t                 *counts;
    size_t                  count;
} shelf;

/* Takes the small ones out of the list. */
static void sort_out(rollout_add_call **adds, shelf *small)
{
    size_t count = 0;
    for (rollout_add_call *add = *adds; add != NULL; add = add->next) {
        count += add->is_small;
    }
    small->adds = calloc(count + 1, sizeof(rollout_add_call *));
    small->submissions = calloc(count + 1, sizeof(lk_rollout_submission *));
    small->counts = calloc(count + 1, sizeof(size_t));
    LK_ASSERT(small->adds != NULL && small->submissions != NULL && small->counts != NULL);
    for (rollout_add_call **at = adds; *at != NULL;) {
        rollout_add_call *add = *at;
        if (add->is_small) {
            small->submissions[small->count] = &add->submission;
            small->adds[small->count++] = add;
            *at = add->next;
        } else {
            at = &add->next;
        }
    }
}

static lk_rc read_all(shelf *small, lk_records *records, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < small->count; i++) {
        size_t before = lk_records_count(records);
        rc = lk_records_read_json(records, lk_http_body(small->adds[i]->call->exchange), err);
        small->counts[i] = lk_records_count(records) - before;
    }
    size_t first = 0;
    for (size_t i = 0; rc == LK_OK && i < small->count; i++) {
        rollout_add_note_ids(small->adds[i], records, first, small->counts[i]);
        first += small->counts[i];
    }
    return rc == LK_OK ? lk_rollout_submissions_init(
                             small->submissions, small->counts, small->count, records, false, err)
                       : rc;
}

/* false when one of them was refused: then nothing was read. */
static bool read_as_one(shelf *small)
{
    lk_err      err = {0};
    lk_records *records = NULL;
    lk_rc rc = lk_records_open(rollout_now_us(), &small->adds[0]->call->service->memory, &records, &err);
    rc = rc == LK_OK ? read_all(small, records, &err) : rc;
    for (size_t i = 0; rc != LK_OK && i < small->count; i++) {
        lk_buf_clear(&small->adds[i]->ids);
    }
    lk_records_close(records);
    return rc == LK_OK;
}

static void push(rollout_add_call **list, rollout_add_call *add)
{
    add->next = *list;
    *list = add;
}

rollout_add_call *rollout_read_together(rollout_add_call *adds)
{
    shelf small = {0};
    sort_out(&adds, &small);
    bool together = small.count > 0 && read_as_one(&small);
    for (size_t i = small.count; i > 0; i--) { /* in front, and in their order: they are of one batch */
        rollout_add_call *add = small.adds[i - 1];
        lk_err            err = {0};
        lk_rc             rc = together ? LK_OK : rollout_add_read(add, &err);
        if (rc == LK_OK) {
            push(&adds, add);
        } else {
            rollout_add_answer(add, rc, 0, &err);
        }
    }
    free(small.adds);
    free(small.submissions);
    free(small.counts);
    return adds;
}
