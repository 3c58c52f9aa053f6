/* store_read.c - see store.h: lists that go on, and readers that wait. */
#include "rollout/resume.h"
#include "rollout/store_priv.h"

#include <stdlib.h>

/* -- cursors ------------------------------------------------------------------------------------------------------- */

static bool has_sources(const lk_rollout_snapshot *snapshot, lk_uuid shard)
{
    for (size_t i = 0; i < snapshot->source_count; i++) {
        if (memcmp(&snapshot->sources[i]->shard, &shard, sizeof shard) == 0) {
            return true;
        }
    }
    return false;
}

lk_rc lk_rollout_store_cursor(lk_rollout_store *store, const lk_rollout_snapshot *snapshot,
    const lk_rollout_query *query, const lk_rollout_key *last, lk_buf *out, lk_err *err)
{
    (void)store;
    if (query->order == LK_ROLLOUT_ANY) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "rows without an order have no cursor");
    }
    lk_rollout_cursor cursor = {.kind = LK_ROLLOUT_CURSOR_LIST,
        .base_version = lk_dataset_version(snapshot->base),
        .base_identity = lk_rollout_identity(snapshot->base),
        .question = lk_rollout_question(query),
        .pins = calloc(snapshot->pin_count + 1, sizeof *cursor.pins),
        .key = *last};
    LK_ASSERT(cursor.pins != NULL);
    for (size_t i = 0; i < snapshot->pin_count;
         i++) { /* a shard whose rows are all merged need not be named */
        if (has_sources(snapshot, snapshot->pins[i].shard)) {
            cursor.pins[cursor.pin_count++] = snapshot->pins[i];
        }
    }
    lk_rc rc = lk_rollout_cursor_write(&cursor, out, err);
    free(cursor.pins);
    return rc;
}

static lk_rc read_cursor(
    lk_bytes text, lk_rollout_cursor_kind kind, lk_arena *arena, lk_rollout_cursor *out, lk_err *err)
{
    lk_rc rc = lk_rollout_cursor_read(text, arena, out, err);
    if (rc == LK_OK && out->kind != kind) {
        rc = lk_refuse(err, LK_E_INVALID_REQUEST, "the cursor is of a %s",
            kind == LK_ROLLOUT_CURSOR_LIST ? "tail, not of a list" : "list, not of a tail");
    }
    return rc;
}

lk_rc lk_rollout_store_resume(lk_rollout_store *store, lk_bytes text, const lk_rollout_query *query,
    lk_arena *arena, lk_rollout_snapshot **out, lk_rollout_key *after, lk_err *err)
{
    lk_rollout_cursor cursor;
    lk_rc             rc = read_cursor(text, LK_ROLLOUT_CURSOR_LIST, arena, &cursor, err);
    if (rc == LK_OK && cursor.question != lk_rollout_question(query)) {
        rc = lk_refuse(
            err, LK_E_INVALID_REQUEST, "the cursor is of a list with other filters or another order");
    }
    if (rc == LK_OK) {
        *after = cursor.key;
        rc = lk_rollout_resume(&store->env, store->view, &cursor, out, err);
    }
    return rc;
}

/* -- waiting --------------------------------------------------------------------------------------------------------- */

/* Whether it is worth while to look again: false at the deadline. */
static lk_rc rest(lk_rollout_store *store, uint64_t stirs, uint64_t deadline_ms, lk_cancel *cancel,
    bool *again, lk_err *err)
{
    uint64_t now = lk_thread_now_ms(), until = now + LK_ROLLOUT_POLL_MS;
    lk_rc    rc = lk_cancel_check(cancel, err);
    *again = rc == LK_OK && now < deadline_ms;
    if (*again) {
        lk_rollout_view_rest(store->view, stirs, until < deadline_ms ? until : deadline_ms);
    }
    return rc;
}

/* How far `told` goes of what `now` has: from its base version the next tail looks for merges when it goes all the way. */
static lk_rc write_tail(const lk_rollout_cursor *seen, const lk_rollout_snapshot *now,
    const lk_rollout_snapshot *told, lk_buf *out, lk_err *err)
{
    lk_rollout_cursor cursor = {.kind = LK_ROLLOUT_CURSOR_TAIL,
        .base_version = lk_dataset_version(now->base),
        .base_identity = lk_rollout_identity(now->base),
        .pins = calloc(now->pin_count + 1, sizeof *cursor.pins)};
    LK_ASSERT(cursor.pins != NULL);
    for (size_t i = 0; i < now->pin_count; i++) {
        if (told->pins[i].next > 1) {
            cursor.pins[cursor.pin_count++] = told->pins[i];
        }
        if (told->pins[i].next < now->pins[i].next) {
            cursor.base_version = seen->base_version;
            cursor.base_identity = seen->base_identity;
        }
    }
    lk_rc rc = lk_rollout_cursor_write(&cursor, out, err);
    free(cursor.pins);
    return rc;
}

static lk_rc tail_once(lk_rollout_store *store, const lk_rollout_cursor *seen, lk_rollout_snapshot **out,
    lk_buf *next, lk_err *err)
{
    lk_rollout_snapshot *now = NULL;
    lk_rc                rc = lk_rollout_store_snapshot(store, 0, &now, err);
    if (rc == LK_OK && seen == NULL) {
        *out = lk_rollout_snapshot_new(now->form, now->base, 0, now->pin_count);
        (*out)->without_base = true;
        (*out)->pin_count = now->pin_count;
        memcpy((*out)->pins, now->pins, now->pin_count * sizeof *now->pins);
        lk_rollout_snapshot_seal(*out);
    } else if (rc == LK_OK) {
        rc = lk_rollout_since(&store->env, seen, now, out, err);
    }
    if (rc == LK_OK) {
        rc = write_tail(seen, now, *out, next, err);
    }
    lk_rollout_snapshot_unref(now);
    return rc;
}

lk_rc lk_rollout_store_tail(lk_rollout_store *store, lk_bytes text, uint64_t deadline_ms, lk_cancel *cancel,
    lk_rollout_snapshot **out, lk_buf *next, lk_err *err)
{
    lk_arena             arena = {0};
    lk_rollout_cursor    cursor;
    lk_rollout_snapshot *told = NULL;
    size_t               before = next->size;
    lk_rc                rc = LK_OK;
    if (text.size > 0) {
        rc = read_cursor(text, LK_ROLLOUT_CURSOR_TAIL, &arena, &cursor, err);
    }
    for (bool again = rc == LK_OK; rc == LK_OK && again;) {
        uint64_t stirs = lk_rollout_view_stirs(store->view);
        lk_rollout_snapshot_unref(told);
        told = NULL;
        next->size = before;
        rc = tail_once(store, text.size == 0 ? NULL : &cursor, &told, next, err);
        again = rc == LK_OK && text.size > 0 && told->row_count == 0;
        if (again) {
            rc = rest(store, stirs, deadline_ms, cancel, &again, err);
        }
    }
    if (rc != LK_OK) {
        next->size = before;
        lk_rollout_snapshot_unref(told);
    } else {
        *out = told;
    }
    lk_arena_close(&arena);
    return rc;
}
