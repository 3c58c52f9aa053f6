/* drop.c - see drop.h. */
#include "meta/drop.h"

#include "base/json.h"
#include "base/limits.h"
#include "base/uuid.h"

lk_bytes lk_remains_key(lk_arena *arena, lk_bytes prefix, const lk_remains *remains)
{
    return lk_arena_format(arena, "%.*s%.*s/%.*s/%.*s", LK_FMT(prefix), LK_FMT(remains->table.ns),
        LK_FMT(remains->table.name), LK_FMT(remains->incarnation));
}

lk_bytes lk_remains_encode(lk_arena *arena, const lk_remains *remains)
{
    lk_buf         text = {0};
    lk_json_writer w = {.out = &text};
    lk_json_object(&w);
    lk_json_key(&w, "namespace");
    lk_json_text(&w, remains->table.ns);
    lk_json_key(&w, "table");
    lk_json_text(&w, remains->table.name);
    lk_json_key(&w, "location");
    lk_json_text(&w, remains->location);
    lk_json_key(&w, "incarnation_id");
    lk_json_text(&w, remains->incarnation);
    lk_json_object_end(&w);
    lk_bytes copy = lk_arena_copy(arena, lk_buf_view(&text));
    lk_buf_deinit(&text);
    return copy;
}

lk_rc lk_remains_decode(
    lk_bytes prefix, lk_bytes key, lk_bytes raw, lk_arena *arena, lk_remains *out, lk_err *err)
{
    const lk_json_field fields[] = {
        {"namespace", LK_JSON_TEXT, &out->table.ns, false, NULL},
        {"table", LK_JSON_TEXT, &out->table.name, false, NULL},
        {"location", LK_JSON_TEXT, &out->location, false, NULL},
        {"incarnation_id", LK_JSON_TEXT, &out->incarnation, false, NULL},
    };
    lk_err cause = {0};
    if (lk_json_read(raw, fields, sizeof fields / sizeof fields[0], arena, &cause) != LK_OK) {
        return lk_fail(err, LK_E_CORRUPT_RECORD, "%.*s: %s", LK_FMT(key), cause.context);
    }
    if (!lk_bytes_equal(lk_remains_key(arena, prefix, out), key) || out->location.size == 0) {
        return lk_fail(err, LK_E_CORRUPT_RECORD, "%.*s: not the record of its key", LK_FMT(key));
    }
    return LK_OK;
}

/* Durable after: the tombstone, and a directory without the table. *applied = false: somebody changed the
 * registration or the namespace's counter meanwhile. */
static lk_rc bury(
    const lk_meta_env *env, lk_arena *arena, const lk_table_record *record, bool *applied, lk_err *err)
{
    char                   generation[LK_UUID_TEXT_SIZE + 1];
    lk_kv_change           changes[1 + LK_REGISTRY_CHANGES_MAX];
    size_t                 count = 0;
    const lk_registration *table = &record->registration;
    const lk_remains       remains = {table->table, table->location, table->incarnation};
    lk_bytes               tombstone = lk_remains_encode(arena, &remains);
    lk_uuid_format(lk_uuid_v7(env->clock, env->random), generation);
    changes[count++] =
        (lk_kv_change){.key = lk_remains_key(arena, LK_DROP_PREFIX, &remains), .value = &tombstone};
    lk_rc rc = lk_registry_erase(env->kv, record, lk_bytes_of(generation), arena, changes, &count, err);
    return rc != LK_OK ? rc : lk_fence_write(&env->fence, changes, count, applied, err);
}

lk_rc lk_drop_run(const lk_meta_env *env, lk_arena *arena, lk_table_ref table, bool *dropped, lk_err *err)
{
    lk_table_record record;
    bool            found = false, applied = false;
    *dropped = false;
    for (int attempt = 0; attempt < LK_NAMESPACE_RACE_ATTEMPTS; attempt++) {
        lk_crash_point(env, "load");
        lk_rc rc = lk_registry_load(env->kv, table, arena, &record, &found, err);
        if (rc != LK_OK || !found) {
            return rc;
        }
        lk_crash_point(env, "bury");
        rc = bury(env, arena, &record, &applied, err);
        if (rc != LK_OK && err->maybe_applied) { /* the registry knows */
            lk_table_record now;
            lk_err          unread = {0};
            applied =
                lk_registry_load(env->kv, table, arena, &now, &found, &unread) == LK_OK &&
                !(found && lk_bytes_equal(now.registration.incarnation, record.registration.incarnation));
        }
        if (applied) {
            *err = (lk_err){0};
            *dropped = true;
            return LK_OK;
        }
        if (rc != LK_OK) {
            lk_context(err, "drop %.*s.%.*s", LK_FMT(table.ns), LK_FMT(table.name));
            return rc;
        }
    }
    return lk_fail(err, LK_E_CONFLICT, "drop lost %d times", LK_NAMESPACE_RACE_ATTEMPTS);
}

lk_rc lk_drop_finish(
    const lk_meta_env *env, lk_arena *arena, const lk_remains *remains, lk_bytes raw, lk_err *err)
{
    lk_commit_terms terms;
    bool            applied = false;
    lk_crash_point(env, "remove");
    lk_rc rc = lk_fence_terms(&env->fence, arena, &terms, err);
    if (rc == LK_OK) {
        const lk_table_at at = {.location = remains->location, .incarnation = remains->incarnation};
        rc = env->engine->ops->remove(env->engine, at, terms, err);
    }
    if (rc == LK_E_CONFLICT) { /* a lost guard looks like this to the engine */
        lk_err lost = {0};
        if (lk_fence_check(&env->fence, &terms, &lost) != LK_OK) {
            *err = lost;
            rc = lost.rc;
        }
    }
    if (rc == LK_OK) {
        lk_crash_point(env, "forget");
        const lk_kv_change change = {.key = lk_remains_key(arena, LK_DROP_PREFIX, remains), .expected = &raw};
        rc = lk_fence_write(
            &env->fence, &change, 1, &applied, err); /* not applied: somebody else finished it */
    }
    return rc;
}
