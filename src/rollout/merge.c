/* merge.c - see merge.h. */
#include "rollout/merge.h"

#include "arrow/schema.h"
#include "lance/manifest.h"
#include "lance/row_set.h"
#include "rollout/base_table.h"
#include "rollout/cell.h"
#include "rollout/id_map.h"
#include "rollout/resume.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    LONE_FACTOR = 4,
    LONE_BYTES = 64 << 20
}; /* of memory, by what a generation takes in its files, and beside it */
enum { BASE_TRIES = 10, BATCH_BYTES = 4 << 20, BATCH_ROWS_MAX = 1 << 16 };

typedef struct merging {
    const lk_lance_env             *env;
    lk_rollout_view                *view;
    const lk_rollout_merge_options *options;
    lk_rollout_snapshot            *snapshot;
    lk_rollout_rows               **chosen; /* the oldest first; borrowed from the snapshot */
    size_t                          chosen_count, marked_count;
    uint8_t                       **kept; /* per chosen generation and row: it is appended */
    bool                            lone; /* one generation, in memory of its own */
    lk_lance_env                    lone_env;
    lk_budget                       lone_budget;
    bool                            narrow; /* batches of so few rows that their roles can be numbered */
    uint64_t                        kept_rows;
} merging;

uint64_t lk_rollout_stored_bytes(const lk_manifest *manifest)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < manifest->fragment_count; i++) {
        for (size_t file = 0; file < manifest->fragments[i].file_count; file++) {
            bytes += manifest->fragments[i].files[file].size_bytes;
        }
    }
    return bytes;
}

/* -- which rows -------------------------------------------------------------------------------------------------------- */

/* What merging a generation reads: payloads lie only in its file, where lists of one value take next to nothing. */
static lk_rc bytes_of(lk_rollout_rows *rows, uint64_t *bytes, lk_err *err)
{
    lk_dataset *dataset = NULL;
    lk_rc       rc = lk_rollout_rows_dataset(rows, &dataset, err);
    if (rc == LK_OK) {
        uint64_t stored = lk_rollout_stored_bytes(lk_dataset_manifest(dataset));
        uint64_t made = rows->bytes + rows->left_out_bytes;
        *bytes = stored > made ? stored : made;
    }
    lk_dataset_unref(dataset);
    return rc;
}

static lk_rc choose_generations(merging *m, lk_uuid shard, lk_err *err)
{
    size_t   most = m->options->generations_max == 0 ? SIZE_MAX : m->options->generations_max;
    uint64_t bytes = 0, bytes_most = m->options->bytes_max;
    lk_rc    rc = LK_OK;
    for (size_t i = m->snapshot->source_count; rc == LK_OK && i > 0;
         i--) { /* the oldest of a shard stands last */
        lk_rollout_rows *rows = m->snapshot->sources[i - 1];
        uint64_t         more = 0;
        if (memcmp(&rows->shard, &shard, sizeof shard) != 0) {
            continue;
        }
        rc = bytes_most == 0 ? LK_OK : bytes_of(rows, &more, err);
        bytes += more;
        if (m->chosen_count == most || (m->chosen_count > 0 && bytes > bytes_most && bytes_most > 0)) {
            break;
        }
        m->chosen[m->chosen_count++] = rows;
    }
    return rc;
}

static void make_room(merging *m)
{
    m->chosen = calloc(m->snapshot->source_count + 1, sizeof(lk_rollout_rows *));
    m->kept = calloc(m->snapshot->source_count + 1, sizeof(uint8_t *));
    LK_ASSERT(m->chosen != NULL && m->kept != NULL);
}

static void mark_rows(merging *m)
{
    for (size_t i = 0; i < m->chosen_count; i++) {
        m->kept[i] = malloc(m->chosen[i]->count + 1);
        LK_ASSERT(m->kept[i] != NULL);
    }
    m->marked_count = m->chosen_count;
}

/* The ids of the chosen generations that the base table may have, as values to look for; borrowed. */
static lk_rc choose_values(lk_dataset *base, const merging *m, lk_buf *values, lk_err *err)
{
    lk_id_map *distinct = lk_id_map_new(0);
    lk_buf     ids = {0};
    for (size_t i = 0; i < m->chosen_count; i++) {
        for (size_t row = 0; row < m->chosen[i]->count; row++) {
            lk_bytes id = lk_rollout_rows_id(m->chosen[i], row);
            if (lk_id_map_add(distinct, id, (lk_id_place){0})) {
                lk_buf_append(&ids, &id, sizeof id);
            }
        }
    }
    size_t          count = ids.size / sizeof(lk_bytes);
    const lk_bytes *all = (const lk_bytes *)(const void *)ids.data;
    bool           *maybe = calloc(count + 1, sizeof *maybe);
    LK_ASSERT(maybe != NULL);
    lk_rc rc = lk_base_ids_ask(m->snapshot->base_ids, base, all, count, m->options->cancel, maybe, err);
    for (size_t i = 0; rc == LK_OK && i < count; i++) {
        const lk_value value = {.kind = LK_VALUE_BYTES, .as.bytes = all[i]};
        lk_buf_append(values, &value, maybe[i] ? sizeof value : 0);
    }
    free(maybe);
    lk_buf_deinit(&ids);
    lk_id_map_free(distinct);
    return rc;
}

/* Ids that the base table has: a stopped merge left them there, or another instance had the same record. */
static lk_rc find_in_base(lk_dataset *base, const merging *m, lk_id_map *found, lk_arena *texts, lk_err *err)
{
    lk_buf                values = {0};
    lk_rc                 rc = choose_values(base, m, &values, err);
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
    if (rc == LK_OK && any.value_count > 0 && lk_dataset_row_count(base) > 0) {
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

/* Rows with payloads come a few at a time: memory does not depend on their width, but for a single one's. */
static size_t batch_rows(const merging *m, lk_dataset *dataset)
{
    const lk_manifest *manifest = lk_dataset_manifest(dataset);
    uint64_t           rows = manifest->physical_rows + 1;
    uint64_t           fit = BATCH_BYTES / (1 + lk_rollout_stored_bytes(manifest) / rows);
    uint64_t           most = m->narrow ? LK_RECORD_ROLES_MAX : BATCH_ROWS_MAX;
    return fit == 0 ? 1 : (size_t)(fit > most ? most : fit);
}

/* Far away, what takes long are calls, which are made side by side. */
static bool is_alone(const merging *m)
{
    return m->options->gentle && !m->env->store->far;
}

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
        rc = s->m->lone ? lk_rollout_rows_dataset_within(rows, s->m->env->budget, &dataset, err)
                        : lk_rollout_rows_dataset(rows, &dataset, err);
        if (rc == LK_OK) {
            const lk_scan_options options = {.rows = set,
                .limit = UINT64_MAX,
                .batch_rows = batch_rows(s->m, dataset),
                .alone = is_alone(s->m),
                .cancel = s->m->options->cancel};
            rc = lk_dataset_scan(dataset, &options, &s->present, err);
        }
    }
    lk_dataset_unref(dataset);
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

/* Whether the kept rows can follow a version that another made meanwhile: none of their ids is in it. */
static lk_rc accepts(void *context, uint64_t version, lk_err *err)
{
    const merging *m = context;
    lk_dataset    *base = NULL;
    lk_arena       texts = {0};
    lk_id_map     *taken = lk_id_map_new(0);
    lk_rc          rc = lk_dataset_open(m->env, version, &base, err);
    if (rc == LK_OK) {
        rc = find_in_base(base, m, taken, &texts, err);
    }
    for (size_t i = 0; rc == LK_OK && i < m->chosen_count; i++) {
        for (size_t row = 0; rc == LK_OK && row < m->chosen[i]->count; row++) {
            lk_id_place place;
            if (m->kept[i][row] != 0 &&
                lk_id_map_find(taken, lk_rollout_rows_id(m->chosen[i], row), &place)) {
                rc = lk_fail(
                    err, LK_E_CONFLICT, "version %" PRIu64 " has an id that is being merged", version);
            }
        }
    }
    lk_id_map_free(taken);
    lk_arena_close(&texts);
    lk_dataset_unref(base);
    return rc;
}

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

static lk_rc append_rows(merging *m, lk_dataset *base, lk_dataset **out, lk_err *err)
{
    row_stream s = {.base = {.next = next_rows}, .m = m};
    lk_buf     merged = {0};
    lk_store  *late = m->options->gentle || m->lone ? NULL : m->options->late;
    say_merged(m, &merged);
    const lk_commit_property property = {LK_LITERAL(LK_ROLLOUT_MERGED), lk_buf_view(&merged)};
    const lk_write_options   options = {.properties = &property,
          .property_count = 1,
          .alone = is_alone(m),
          .late = late,
          .accepts = accepts,
          .accepts_context = m};
    lk_rc                    rc = lk_schema_copy(lk_dataset_schema(base), &s.base.schema, err);
    if (rc == LK_OK) {
        rc = lk_dataset_append(
            base, late == NULL ? lk_direct_committer() : lk_late_committer(), &s.base, &options, out, err);
    }
    lk_buf_deinit(&merged);
    lk_batches_close(s.present);
    lk_schema_release(&s.base.schema);
    return rc;
}

/* Adds that were flushed together may have more roles than a batch can number: one more try, with fewer rows a batch. */
static bool try_narrow(merging *m, lk_rc rc)
{
    bool again = rc == LK_E_LIMIT && !m->narrow;
    m->narrow = m->narrow || again;
    return again;
}

/* Nobody here need read what was just written. */
static void hand_on(const merging *m, lk_dataset *base, lk_dataset *next)
{
    lk_buf ids = {0};
    for (size_t i = 0; i < m->chosen_count; i++) {
        for (size_t row = 0; row < m->chosen[i]->count; row++) {
            lk_bytes id = lk_rollout_rows_id(m->chosen[i], row);
            lk_buf_append(&ids, &id, m->kept[i][row] ? sizeof id : 0);
        }
    }
    const lk_bytes *added = (const lk_bytes *)(const void *)ids.data;
    lk_base_ids_learn(m->snapshot->base_ids, base, next, added, ids.size / sizeof *added);
    lk_buf_deinit(&ids);
    if (!m->lone) { /* else its memory is this merge's */
        lk_rollout_view_give_base(m->view, next);
    }
}

/* Appends what the newest base table does not have yet. */
static lk_rc append_to_base(merging *m, lk_rollout_merge_report *report, lk_err *err)
{
    lk_rc rc = LK_E_CONFLICT;
    for (int i = 0; rc == LK_E_CONFLICT && i < BASE_TRIES; i++) {
        lk_dataset *base = NULL, *next = NULL;
        *err = (lk_err){0};
        rc = LK_OK;
        if (i == 0 && !m->lone) { /* as new as the shard's manifest, and in memory */
            base = lk_dataset_ref(m->snapshot->base);
        } else {
            rc = lk_dataset_open(m->env, 0, &base, err);
        }
        if (rc == LK_OK) {
            rc = choose_rows(m, base, err);
        }
        if (rc == LK_OK && m->kept_rows > 0) {
            rc = append_rows(m, base, &next, err);
        }
        if (rc == LK_OK && next != NULL) {
            hand_on(m, base, next);
        }
        if (rc == LK_OK) {
            report->rows = m->kept_rows;
            report->base_version = lk_dataset_version(next == NULL ? base : next);
        }
        lk_dataset_unref(next);
        lk_dataset_unref(base);
        if (try_narrow(m, rc)) {
            rc = LK_E_CONFLICT;
        } else if (rc == LK_E_CONFLICT) {
            lk_clock_sleep_ms(m->env->clock, 1 + lk_random_below(m->env->random, UINT64_C(8) << i));
        }
    }
    return rc;
}

/* The shared budget has no room for one generation: it was taken in, and would stop all behind it for ever. */
static lk_rc make_lone(merging *m, lk_err *err)
{
    uint64_t bytes = 0;
    lk_rc    rc = bytes_of(m->chosen[0], &bytes, err);
    if (rc == LK_OK && bytes > (SIZE_MAX - LONE_BYTES) / LONE_FACTOR) {
        return lk_fail(err, LK_E_LIMIT, "a generation of %" PRIu64 " bytes", bytes);
    }
    if (rc == LK_OK) {
        lk_budget_init(
            &m->lone_budget, "merge of one generation", (size_t)bytes * LONE_FACTOR + LONE_BYTES, NULL);
        m->lone_env = *m->env;
        m->lone_env.budget = &m->lone_budget;
        m->lone_env.buffers = NULL; /* and nothing that outlives this merge holds some of it */
        m->lone_env.files = NULL;
        m->env = &m->lone_env;
        m->lone = true;
    }
    return rc;
}

/* As many of the chosen, from the oldest on, as there is memory for. */
static lk_rc append_what_fits(merging *m, lk_rollout_merge_report *report, lk_err *err)
{
    lk_rc rc = append_to_base(m, report, err);
    while (rc == LK_E_LIMIT && !m->lone) {
        *err = (lk_err){0};
        rc = m->chosen_count > 1 ? LK_OK : make_lone(m, err);
        m->chosen_count -= m->chosen_count / 2;
        rc = rc == LK_OK ? append_to_base(m, report, err) : rc;
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
    merging m = {.env = env, .view = view, .options = options};
    *report = (lk_rollout_merge_report){0};
    lk_rc rc = lk_rollout_view_take(view, &m.snapshot, err);
    if (rc != LK_OK) {
        return rc;
    }
    make_room(&m);
    rc = choose_generations(&m, shard, err);
    if (rc == LK_OK && m.chosen_count > 0) {
        mark_rows(&m);
        rc = append_what_fits(&m, report, err);
        if (rc == LK_OK) {
            rc = lk_rollout_writer_commit(writer, take_off, &m, err);
        }
        report->generations = rc == LK_OK ? m.chosen_count : 0;
    }
    for (size_t i = 0; i < m.marked_count; i++) {
        free(m.kept[i]);
    }
    free(m.kept);
    free(m.chosen);
    lk_rollout_snapshot_unref(m.snapshot);
    return rc;
}
