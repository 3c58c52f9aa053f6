/* merge.c - see merge.h. */
#include "rollout/merge.h"

#include "arrow/schema.h"
#include "base/hash.h"
#include "lance/row_set.h"
#include "rollout/base_table.h"
#include "rollout/cell.h"
#include "rollout/id_map.h"
#include "rollout/resume.h"

#include <inttypes.h>
#include <stdlib.h>

enum { BASE_TRIES = 10 };

typedef struct merging {
    const lk_lance_env             *env;
    const lk_rollout_merge_options *options;
    lk_rollout_snapshot            *snapshot;
    lk_rollout_rows               **chosen; /* the oldest first; borrowed from the snapshot */
    size_t                          chosen_count;
    uint8_t                       **kept; /* per chosen generation and row: it is appended */
    uint64_t                        kept_rows;
} merging;

/* -- which rows -------------------------------------------------------------------------------------------------------- */

static void choose_generations(merging *m, lk_uuid shard)
{
    size_t bytes = 0, most = m->options->generations_max;
    m->chosen = calloc(m->snapshot->source_count + 1, sizeof(lk_rollout_rows *));
    LK_ASSERT(m->chosen != NULL);
    for (size_t i = m->snapshot->source_count; i > 0; i--) { /* the oldest of a shard stands last */
        lk_rollout_rows *rows = m->snapshot->sources[i - 1];
        if (memcmp(&rows->shard, &shard, sizeof shard) != 0) {
            continue;
        }
        bytes += rows->bytes;
        bool full = (most > 0 && m->chosen_count == most) ||
                    (m->options->bytes_max > 0 && m->chosen_count > 0 && bytes > m->options->bytes_max);
        if (full) {
            break;
        }
        m->chosen[m->chosen_count++] = rows;
    }
    m->kept = calloc(m->chosen_count + 1, sizeof(uint8_t *));
    LK_ASSERT(m->kept != NULL);
    for (size_t i = 0; i < m->chosen_count; i++) {
        m->kept[i] = malloc(m->chosen[i]->count + 1);
        LK_ASSERT(m->kept[i] != NULL);
    }
}

/* Ids that the base table has: a stopped merge left them there, or another instance had the same record. */
static lk_rc find_in_base(lk_dataset *base, const merging *m, lk_id_map *found, lk_arena *texts, lk_err *err)
{
    lk_id_map *ids = lk_id_map_new(0);
    lk_buf     values = {0};
    for (size_t i = 0; i < m->chosen_count; i++) {
        for (size_t row = 0; row < m->chosen[i]->count; row++) {
            lk_bytes id = lk_rollout_rows_id(m->chosen[i], row);
            if (lk_id_map_add(ids, id, (lk_id_place){0})) {
                const lk_value value = {.kind = LK_VALUE_BYTES, .as.bytes = id};
                lk_buf_append(&values, &value, sizeof value);
            }
        }
    }
    const size_t          columns[] = {(size_t)lk_schema_find(lk_dataset_schema(base), LK_LITERAL("id"))};
    const lk_predicate    any = {.kind = LK_PREDICATE_IN,
           .column = columns[0],
           .values = (const lk_value *)(const void *)values.data,
           .value_count = values.size / sizeof(lk_value)};
    const lk_scan_options options = {.columns = columns,
        .column_count = 1,
        .predicate = &any,
        .limit = UINT64_MAX,
        .cancel = m->options->cancel};
    lk_batches           *batches = NULL;
    lk_rc                 rc = LK_OK;
    if (any.value_count > 0 && lk_dataset_row_count(base) > 0) {
        rc = lk_dataset_scan(base, &options, &batches, err);
    }
    for (bool more = batches != NULL && rc == LK_OK; more;) {
        struct ArrowArray batch = {0};
        rc = lk_batches_next(batches, &batch, err);
        more = rc == LK_OK && batch.release != NULL;
        for (int64_t row = 0; more && row < batch.length; row++) {
            lk_bytes id = lk_arena_copy(texts, lk_cell_text(batch.children[0], row));
            (void)lk_id_map_add(found, id, (lk_id_place){0});
        }
        lk_array_release(&batch);
    }
    lk_batches_close(batches);
    lk_buf_deinit(&values);
    lk_id_map_free(ids);
    return rc;
}

/* Each id once, its newest row, unless base has it. */
static lk_rc choose_rows(merging *m, lk_dataset *base, lk_err *err)
{
    lk_arena   texts = {0}; /* of ids that base has */
    lk_id_map *seen = lk_id_map_new(0);
    lk_rc      rc = find_in_base(base, m, seen, &texts, err);
    m->kept_rows = 0;
    for (size_t i = m->chosen_count; rc == LK_OK && i > 0; i--) {
        const lk_rollout_rows *rows = m->chosen[i - 1];
        for (size_t row = 0; row < rows->count; row++) {
            bool keeps = lk_id_map_add(seen, lk_rollout_rows_id(rows, row), (lk_id_place){0});
            m->kept[i - 1][row] = keeps;
            m->kept_rows += keeps;
        }
    }
    lk_id_map_free(seen);
    lk_arena_close(&texts);
    return rc;
}

/* -- their rows as a stream ------------------------------------------------------------------------------------------- */

typedef struct row_stream {
    lk_batches     base;
    const merging *m;
    size_t         next; /* generation */
    lk_batches    *present;
} row_stream;

static lk_rc open_next(row_stream *s, lk_err *err)
{
    lk_rollout_rows *rows = s->m->chosen[s->next];
    const uint8_t   *kept = s->m->kept[s->next++];
    lk_row_set      *set = lk_row_set_new();
    for (size_t row = 0; row < rows->count; row++) {
        if (kept[row] != 0) {
            lk_row_set_add(set, &rows->addresses[row], 1);
        }
    }
    lk_dataset *dataset = NULL;
    lk_rc       rc = LK_OK;
    if (lk_row_set_count(set) > 0) {
        const lk_scan_options options = {.rows = set, .limit = UINT64_MAX, .cancel = s->m->options->cancel};
        rc = lk_rollout_rows_dataset(rows, &dataset, err);
        rc = rc == LK_OK ? lk_dataset_scan(dataset, &options, &s->present, err) : rc;
    }
    lk_row_set_free(set);
    return rc;
}

static lk_rc align(const row_stream *s, struct ArrowArray *batch, struct ArrowArray *out, lk_err *err)
{
    lk_shared_array *shared = lk_array_share(batch);
    lk_rc            rc = lk_base_table_align(&s->base.schema, &s->present->schema, shared, out, err);
    lk_shared_array_unref(shared);
    return rc;
}

static lk_rc next_rows(lk_batches *batches, struct ArrowArray *out, lk_err *err)
{
    row_stream *s = (row_stream *)batches;
    lk_rc       rc = LK_OK;
    *out = (struct ArrowArray){0};
    while (rc == LK_OK && (s->present != NULL || s->next < s->m->chosen_count)) {
        struct ArrowArray batch = {0};
        rc = s->present == NULL ? open_next(s, err) : LK_OK;
        if (rc != LK_OK || s->present == NULL) {
            continue;
        }
        rc = lk_batches_next(s->present, &batch, err);
        if (rc == LK_OK && batch.release != NULL) {
            return align(s, &batch, out, err);
        }
        lk_batches_close(s->present);
        s->present = NULL;
    }
    return rc;
}

/* -- the base table --------------------------------------------------------------------------------------------------- */

static lk_rc commit_once(lk_committer *committer, lk_store *store, uint64_t version, lk_bytes final_key,
    lk_bytes manifest, bool *won, lk_err *err)
{
    (void)committer;
    lk_committer *direct = lk_direct_committer();
    return direct->commit(direct, store, version, final_key, manifest, won, err);
}

/* A version that another takes is a conflict, and not tried again on top of it: it may have brought the same ids. */
static lk_committer single_try = {.commit = commit_once, .stands_alone = false};

/* How many rows of which generation the version gets, for readers of a snapshot from before it. */
static void say_merged(const merging *m, lk_buf *out)
{
    char shard[LK_UUID_TEXT_SIZE + 1];
    lk_uuid_format(m->chosen[0]->shard, shard);
    lk_buf_append_text(out, shard);
    for (size_t i = 0; i < m->chosen_count; i++) {
        size_t rows = 0;
        for (size_t row = 0; row < m->chosen[i]->count; row++) {
            rows += m->kept[i][row];
        }
        lk_buf_format(out, " %" PRIu64 ":%zu", m->chosen[i]->number, rows);
    }
}

static lk_rc append_rows(const merging *m, lk_dataset *base, lk_dataset **out, lk_err *err)
{
    row_stream s = {.base = {.next = next_rows}, .m = m};
    lk_buf     merged = {0};
    say_merged(m, &merged);
    const lk_commit_property property = {LK_LITERAL(LK_ROLLOUT_MERGED), lk_buf_view(&merged)};
    const lk_write_options   options = {.properties = &property, .property_count = 1};
    lk_rc                    rc = lk_schema_copy(lk_dataset_schema(base), &s.base.schema, err);
    if (rc == LK_OK) {
        rc = lk_dataset_append(base, &single_try, &s.base, &options, out, err);
    }
    lk_buf_deinit(&merged);
    lk_batches_close(s.present);
    lk_schema_release(&s.base.schema);
    return rc;
}

/* Appends what the newest base table does not have yet. */
static lk_rc append_to_base(merging *m, lk_rollout_merge_report *report, lk_err *err)
{
    lk_rc rc = LK_E_CONFLICT;
    for (int i = 0; rc == LK_E_CONFLICT && i < BASE_TRIES; i++) {
        lk_dataset *base = NULL, *next = NULL;
        *err = (lk_err){0};
        rc = lk_dataset_open(m->env, 0, &base, err);
        if (rc == LK_OK) {
            rc = choose_rows(m, base, err);
        }
        if (rc == LK_OK && m->kept_rows > 0) {
            rc = append_rows(m, base, &next, err);
        }
        if (rc == LK_OK) {
            report->rows = m->kept_rows;
            report->base_version = lk_dataset_version(next == NULL ? base : next);
        }
        lk_dataset_unref(next);
        lk_dataset_unref(base);
        if (rc == LK_E_CONFLICT) {
            lk_clock_sleep_ms(m->env->clock, 1 + lk_random_below(m->env->random, UINT64_C(8) << i));
        }
    }
    return rc;
}

/* -- the shard -------------------------------------------------------------------------------------------------------- */

static bool was_chosen(const merging *m, uint64_t number)
{
    for (size_t i = 0; i < m->chosen_count; i++) {
        if (m->chosen[i]->number == number) {
            return true;
        }
    }
    return false;
}

static lk_rc take_off(void *context, lk_arena *arena, lk_shard_manifest *next, lk_err *err)
{
    const merging       *m = context;
    lk_shard_generation *left = lk_arena_take(arena, (next->generation_count + 1) * sizeof *left);
    size_t               count = 0;
    (void)err;
    for (size_t i = 0; i < next->generation_count; i++) {
        if (!was_chosen(m, next->generations[i].number)) {
            left[count++] = next->generations[i];
        }
    }
    next->generations = left;
    next->generation_count = count;
    return LK_OK;
}

lk_rc lk_rollout_merge(const lk_lance_env *env, lk_rollout_view *view, lk_rollout_writer *writer,
    lk_uuid shard, const lk_rollout_merge_options *options, lk_rollout_merge_report *report, lk_err *err)
{
    merging m = {.env = env, .options = options};
    *report = (lk_rollout_merge_report){0};
    lk_rc rc = lk_rollout_view_take(view, &m.snapshot, err);
    if (rc != LK_OK) {
        return rc;
    }
    choose_generations(&m, shard);
    if (m.chosen_count > 0) {
        rc = append_to_base(&m, report, err);
        if (rc == LK_OK) {
            rc = lk_rollout_writer_commit(writer, take_off, &m, err);
        }
        report->generations = rc == LK_OK ? m.chosen_count : 0;
    }
    for (size_t i = 0; i < m.chosen_count; i++) {
        free(m.kept[i]);
    }
    free(m.kept);
    free(m.chosen);
    lk_rollout_snapshot_unref(m.snapshot);
    return rc;
}

/* -- collecting ------------------------------------------------------------------------------------------------------- */

/* <8 hex>_gen_<number>; 0: it is no generation's. */
static uint64_t generation_number(lk_bytes name)
{
    static const char middle[] = "_gen_";
    uint64_t          number = 0;
    uint32_t          salt;
    bool named = name.size > 13 && name.size <= 13 + 19 && memcmp(name.data + 8, middle, 5) == 0 &&
                 lk_unhex((lk_bytes){name.data, 8}, &salt, sizeof salt);
    for (size_t i = 13; named && i < name.size; i++) {
        named = name.data[i] >= '0' && name.data[i] <= '9';
        number = number * 10 + (uint64_t)(name.data[i] - '0');
    }
    return named ? number : 0;
}

static bool is_listed(const lk_shard_manifest *manifest, lk_bytes path)
{
    for (size_t i = 0; i < manifest->generation_count; i++) {
        if (lk_bytes_equal(manifest->generations[i].path, path)) {
            return true;
        }
    }
    return false;
}

/* When the directory was made, by its Bloom filter, which is its first object; 0 when it has none. */
static lk_rc age_of(
    lk_store *store, lk_bytes directory, uint64_t now_ms, lk_arena *arena, uint64_t *age_ms, lk_err *err)
{
    lk_store_entry *entries = NULL;
    size_t          count = 0;
    *age_ms = UINT64_MAX; /* an empty directory */
    lk_rc rc = lk_store_list(store, directory, arena, &entries, &count, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        if (!entries[i].is_directory) {
            uint64_t made = entries[i].modified_ms > 0 ? (uint64_t)entries[i].modified_ms : 0;
            uint64_t age = now_ms > made ? now_ms - made : 0;
            *age_ms = age < *age_ms ? age : *age_ms;
        }
    }
    return rc;
}

lk_rc lk_rollout_collect(const lk_lance_env *env, lk_uuid shard, uint64_t grace_ms, bool dry_run,
    lk_rollout_collect_report *report, lk_err *err)
{
    lk_arena          arena = {0};
    lk_store         *store = env->store;
    lk_store_entry   *entries = NULL;
    lk_shard_manifest latest = {0};
    size_t            count = 0;
    bool              found = false;
    *report = (lk_rollout_collect_report){0};
    /* The directories first: one that is made after this look is not in the list. */
    lk_rc rc =
        lk_store_list_names(store, lk_shard_key(shard, (lk_bytes){0}, &arena), &arena, &entries, &count, err);
    if (rc == LK_OK) {
        rc = lk_shard_latest(store, shard, 0, &arena, &latest, &found, err);
    }
    for (size_t i = 0; rc == LK_OK && found && i < count; i++) {
        uint64_t number = generation_number(entries[i].name), age_ms = 0;
        if (number == 0 || number >= latest.current_generation || is_listed(&latest, entries[i].name)) {
            continue;
        }
        lk_bytes directory = lk_shard_key(shard, entries[i].name, &arena);
        rc = age_of(store, directory, lk_clock_wall_ms(env->clock), &arena, &age_ms, err);
        if (rc == LK_OK && age_ms >= grace_ms) {
            report->directories++;
            rc = dry_run ? LK_OK : lk_store_remove_tree(store, directory, err);
        }
    }
    lk_arena_close(&arena);
    return rc;
}
