/* stores_fixture.c - see stores_fixture.h. */
#include "rollout/stores_fixture.h"

#include "base/file.h"
#include "io/local.h"
#include "lance/manifest.h"
#include "rollout/query.h"
#include "rollout/records_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

char pods_root[64];

int pods_make_root(void **state)
{
    (void)state;
    (void)snprintf(pods_root, sizeof pods_root, "%s/lake-stores-XXXXXX", P_tmpdir);
    return mkdtemp(pods_root) == NULL ? -1 : 0;
}

int pods_remove_root(void **state)
{
    lk_err err = {0};
    (void)state;
    return lk_directory_remove(pods_root, &err) == LK_OK ? 0 : -1;
}

void pods_must(lk_rc rc, const lk_err *err)
{
    if (rc != LK_OK) {
        fail_msg("%s: %s", lk_rc_name(rc), err->context);
    }
}

lk_rollouts *pods_open_with(const char *instance, const lk_rollouts_options *more)
{
    lk_err              err = {0};
    lk_rollouts        *pod = NULL;
    lk_rollouts_options options = *more;
    options.data_dir = lk_bytes_of(pods_root);
    options.store.instance_id = lk_bytes_of(instance);
    pods_must(lk_rollouts_open(&options, &pod, &err), &err);
    return pod;
}

lk_rollouts *pods_open(const char *instance)
{
    const lk_rollouts_options options = {.store = {.log = LK_ROLLOUT_LOG_ALWAYS}};
    return pods_open_with(instance, &options);
}

lk_rollout_store *pods_create(lk_rollouts *pod, const char *name)
{
    lk_err            err = {0};
    lk_rollout_store *s = NULL;
    pods_must(lk_rollouts_create(pod, lk_bytes_of(name), &s, &err), &err);
    return s;
}

lk_rollout_store *pods_get(lk_rollouts *pod, const char *name)
{
    lk_err            err = {0};
    lk_rollout_store *s = NULL;
    pods_must(lk_rollouts_get(pod, lk_bytes_of(name), &s, &err), &err);
    return s;
}

lk_rc pods_add(lk_rollout_store *s, const char *id, const char *content, lk_err *err)
{
    lk_buf      line = {0};
    lk_records *records = NULL;
    lk_buf_format(&line, "{\"id\":\"%s\",\"rollout_id\":\"r\"", id);
    if (content != NULL) {
        lk_buf_format(&line, ",\"content\":\"%s\"", content);
    }
    lk_buf_append_text(&line, "}\n");
    pods_must(lk_records_open(77000000, NULL, &records, err), err);
    pods_must(lk_records_read_ndjson(records, lk_buf_view(&line), err), err);
    lk_rc rc = lk_rollout_store_add(s, records, false, NULL, err);
    lk_records_close(records);
    lk_buf_deinit(&line);
    return rc;
}

void pods_must_add(lk_rollout_store *s, const char *id)
{
    lk_err err = {0};
    pods_must(pods_add(s, id, NULL, &err), &err);
}

static lk_rollout_snapshot *take(lk_rollout_store *s)
{
    lk_err               err = {0};
    lk_rollout_snapshot *snapshot = NULL;
    pods_must(lk_rollout_store_snapshot(s, 0, &snapshot, &err), &err);
    return snapshot;
}

uint64_t pods_rows(lk_rollout_store *s)
{
    lk_err                 err = {0};
    lk_rollout_snapshot   *snapshot = take(s);
    const lk_rollout_query query = {.order = LK_ROLLOUT_BY_ID, .limit = UINT64_MAX};
    lk_batches            *rows = NULL;
    uint64_t               count = 0;
    pods_must(lk_rollout_query_open(snapshot, &query, &rows, &err), &err);
    for (bool more = true; more;) {
        struct ArrowArray batch = {0};
        pods_must(lk_batches_next(rows, &batch, &err), &err);
        more = batch.release != NULL;
        count += more ? (uint64_t)batch.length : 0;
        lk_array_release(&batch);
    }
    lk_batches_close(rows);
    lk_rollout_snapshot_unref(snapshot);
    return count;
}

uint64_t pods_base_rows(lk_rollout_store *s)
{
    lk_rollout_snapshot *snapshot = take(s);
    uint64_t             rows = lk_dataset_row_count(snapshot->base);
    lk_rollout_snapshot_unref(snapshot);
    return rows;
}

size_t pods_pending(lk_rollout_store *s)
{
    lk_rollout_snapshot *snapshot = take(s);
    size_t               count = snapshot->source_count;
    lk_rollout_snapshot_unref(snapshot);
    return count;
}

size_t pods_fragments(lk_rollout_store *s)
{
    lk_rollout_snapshot *snapshot = take(s);
    size_t               count = lk_dataset_manifest(snapshot->base)->fragment_count;
    lk_rollout_snapshot_unref(snapshot);
    return count;
}

void pods_wait(size_t (*count)(lk_rollout_store *), lk_rollout_store *s, size_t at_most)
{
    size_t now = count(s);
    for (int i = 0; i < 2000 && now > at_most; i++) {
        lk_clock_sleep_ms(lk_clock_real(), 10);
        now = count(s);
    }
    assert_in_range(now, 0, at_most);
}

/* Names in a directory of the store that have this part and are no temporaries. */
static size_t count_names(const char *store, const char *directory, const char *part)
{
    lk_err          err = {0};
    lk_arena        arena = {0};
    lk_store       *root = NULL;
    lk_store_entry *entries = NULL;
    size_t          count = 0, found = 0;
    pods_must(lk_local_store_open(&root, lk_bytes_of(pods_root), false, &err), &err);
    lk_bytes path = lk_arena_format(&arena, "%s.rollout.lance/%s", store, directory);
    pods_must(lk_store_list_names(root, path, &arena, &entries, &count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        lk_bytes name = entries[i].name;
        found += name.data[0] != '.' && memmem(name.data, name.size, part, strlen(part)) != NULL;
    }
    lk_store_close(root);
    lk_arena_close(&arena);
    return found;
}

size_t pods_directories(const char *store, const char *instance)
{
    char directory[16 + LK_UUID_TEXT_SIZE] = "_mem_wal/";
    lk_uuid_format(lk_shard_of_instance(lk_bytes_of(instance)), directory + strlen(directory));
    return count_names(store, directory, "_gen_");
}

size_t pods_versions(const char *store)
{
    return count_names(store, "_versions", ".manifest");
}

uint64_t pods_manifest_bytes(const char *store, const char *instance, uint64_t *newest)
{
    lk_err          err = {0};
    lk_arena        arena = {0};
    lk_store       *root = NULL;
    lk_store_entry *entries = NULL;
    char            shard[LK_UUID_TEXT_SIZE + 1];
    size_t          count = 0;
    uint64_t        bytes = 0, version, highest = 0;
    lk_uuid_format(lk_shard_of_instance(lk_bytes_of(instance)), shard);
    pods_must(lk_local_store_open(&root, lk_bytes_of(pods_root), false, &err), &err);
    lk_bytes directory = lk_arena_format(&arena, "%s.rollout.lance/_mem_wal/%s/manifest", store, shard);
    pods_must(lk_store_list(root, directory, &arena, &entries, &count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        if (lk_shard_position_parse(entries[i].name, LK_LITERAL(".binpb"), &version)) {
            bytes += entries[i].size;
            *newest = version > highest ? entries[i].size : *newest;
            highest = version > highest ? version : highest;
        }
    }
    lk_store_close(root);
    lk_arena_close(&arena);
    return bytes;
}
