/*
 * resume.c - see resume.h. Generations are sought in what is loaded, then in their directories, then in the commits of
 * merges: those after the base version that the cursor names, and some before it, for a merge that was between its two steps.
 */
#include "rollout/resume.h"

#include "lance/manifest.h"
#include "lance/row_set.h"
#include "rollout/shard.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    VERSIONS_MAX = 4096,       /* of the base table that are looked through */
    VERSIONS_BEFORE = 256,     /* of them, before the cursor's */
    GENERATIONS_AT_ONCE = 256, /* of a tail's answer */
    NUMBERS_MAX = 1 << 17      /* of generations whose manifests are gone, of all shards */
};

typedef struct wanted { /* a generation that is in no directory */
    lk_uuid  shard;
    uint64_t number;
    bool     found;
} wanted;

typedef struct gathering {
    const lk_lance_env  *env;
    lk_rollout_form     *form;
    lk_rollout_snapshot *loaded; /* generations of which may be shared; may be NULL */
    lk_rollout_view     *view;   /* of which loaded is the last, or the newest: `now` */
    bool                 now;
    lk_buf               sources; /* of lk_rollout_rows * */
    lk_buf               wanted;  /* of wanted: by shard and number, ascending */
    size_t               left;    /* of wanted */
} gathering;

static void gathering_deinit(gathering *g)
{
    for (size_t i = 0; i < g->sources.size / sizeof(lk_rollout_rows *); i++) {
        lk_rollout_rows_unref(((lk_rollout_rows **)(void *)g->sources.data)[i]);
    }
    lk_buf_deinit(&g->sources);
    lk_buf_deinit(&g->wanted);
}

static void add_source(gathering *g, lk_rollout_rows *rows)
{
    lk_buf_append(&g->sources, &rows, sizeof(lk_rollout_rows *));
}

static void want(gathering *g, lk_uuid shard, uint64_t number)
{
    const wanted w = {.shard = shard, .number = number};
    lk_buf_append(&g->wanted, &w, sizeof w);
    g->left++;
}

/* Those that count more first. */
static int by_precedence(const void *a, const void *b)
{
    return lk_rollout_rows_order(*(lk_rollout_rows *const *)a, *(lk_rollout_rows *const *)b);
}

/* Moves the sources into a snapshot, which is sealed then. */
static void give_sources(gathering *g, lk_rollout_snapshot *snapshot)
{
    size_t count = g->sources.size / sizeof(lk_rollout_rows *);
    if (count > 0) {
        memcpy(snapshot->sources, g->sources.data, g->sources.size);
        qsort(snapshot->sources, count, sizeof(lk_rollout_rows *), by_precedence);
    }
    snapshot->source_count = count;
    g->sources.size = 0;
    lk_rollout_snapshot_seal(snapshot);
}

static lk_rc gone(lk_err *err, const char *what)
{
    return lk_refuse(
        err, LK_E_SNAPSHOT_GONE, "what the cursor goes on from is not there any more: %s; begin again", what);
}

/* -- merged generations ------------------------------------------------------------------------------------------------ */

static wanted *find_wanted(const gathering *g, lk_uuid shard, uint64_t number)
{
    wanted *all = (wanted *)(void *)g->wanted.data;
    size_t  low = 0, high = g->wanted.size / sizeof *all;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int    order = memcmp(&all[middle].shard, &shard, sizeof shard);
        order = order != 0 ? order : (all[middle].number > number) - (all[middle].number < number);
        if (order == 0) {
            return &all[middle];
        }
        *(order < 0 ? &low : &high) = order < 0 ? middle + 1 : middle;
    }
    return NULL;
}

typedef struct part { /* rows of one generation in the fragments of a merge */
    uint64_t number, rows;
} part;

static bool take_number(lk_bytes *text, char end, uint64_t *value)
{
    size_t at = 0;
    *value = 0;
    for (; at < text->size && text->data[at] >= '0' && text->data[at] <= '9' && at < 19; at++) {
        *value = *value * 10 + (uint64_t)(text->data[at] - '0');
    }
    if (at == 0 || (at < text->size && text->data[at] != end) || (at == text->size && end == ':')) {
        return false;
    }
    size_t taken = at < text->size ? at + 1 : at;
    *text = (lk_bytes){text->data + taken, text->size - taken};
    return true;
}

/* The property's text: false when it is not one. parts: of part. */
static bool parse_merged(lk_bytes text, lk_uuid *shard, lk_buf *parts)
{
    bool sound = text.size > LK_UUID_TEXT_SIZE && text.data[LK_UUID_TEXT_SIZE] == ' ' &&
                 lk_uuid_parse((lk_bytes){text.data, LK_UUID_TEXT_SIZE}, shard);
    if (sound) {
        text = (lk_bytes){text.data + LK_UUID_TEXT_SIZE + 1, text.size - LK_UUID_TEXT_SIZE - 1};
    }
    while (sound && text.size > 0) {
        part p;
        sound = take_number(&text, ':', &p.number) && take_number(&text, ' ', &p.rows);
        lk_buf_append(parts, &p, sizeof p);
    }
    return sound;
}

/* Where row `row` of the last `total` rows of a version is; they are whole fragments. */
typedef struct trail {
    const lk_manifest *manifest;
    size_t             fragment; /* the present one, and the rows before it */
    uint64_t           before;
} trail;

static bool begin_trail(const lk_dataset *base, uint64_t total, trail *out)
{
    const lk_manifest *manifest = lk_dataset_manifest(base);
    uint64_t           rows = 0;
    size_t             first = manifest->fragment_count;
    while (first > 0 && rows < total) {
        rows += manifest->fragments[--first].physical_rows;
    }
    *out = (trail){manifest, first, 0};
    return rows == total;
}

static uint64_t address_of(trail *t, uint64_t row)
{
    while (row - t->before >= t->manifest->fragments[t->fragment].physical_rows) {
        t->before += t->manifest->fragments[t->fragment++].physical_rows;
    }
    return t->manifest->fragments[t->fragment].id << 32 | (row - t->before);
}

/* The rows of wanted generations that this version's merge brought; counted: they are in the base table that the snapshot
 * has, so they are no source. */
static lk_rc take_merged(gathering *g, lk_dataset *base, lk_bytes text, bool counted, lk_err *err)
{
    lk_buf      parts = {0};
    lk_uuid     shard;
    uint64_t    total = 0, row = 0, newest = 0;
    trail       t;
    lk_rc       rc = LK_OK;
    bool        sound = parse_merged(text, &shard, &parts);
    const part *p = (const part *)(const void *)parts.data;
    size_t      count = parts.size / sizeof *p;
    for (size_t i = 0; i < count; i++) {
        total += p[i].rows;
    }
    sound = sound && begin_trail(base, total, &t);
    lk_row_set *set = lk_row_set_new();
    for (size_t i = 0; sound && i < count; row += p[i++].rows) {
        wanted *w = find_wanted(g, shard, p[i].number);
        if (w == NULL) {
            continue;
        }
        g->left -= !w->found;
        w->found = true;
        newest = p[i].number > newest ? p[i].number : newest;
        for (uint64_t k = 0; k < p[i].rows; k++) {
            uint64_t address = address_of(&t, row + k);
            lk_row_set_add(set, &address, 1);
        }
    }
    if (!counted && lk_row_set_count(set) > 0) {
        lk_rollout_rows *rows = NULL;
        rc = lk_rollout_rows_of_base(base, g->env->budget, g->form, shard, newest, set, &rows, err);
        if (rc == LK_OK) {
            add_source(g, rows);
        }
    }
    lk_row_set_free(set);
    lk_buf_deinit(&parts);
    return rc;
}

static lk_rc look_at_version(gathering *g, uint64_t version, bool counted, lk_err *err)
{
    lk_arena    arena = {0};
    lk_dataset *base = NULL;
    lk_bytes    text = {0};
    bool        found = false;
    lk_err      opening = {0};
    lk_rc       rc = lk_dataset_open(g->env, version, &base, &opening);
    if (rc == LK_E_NOT_FOUND) {
        return LK_OK; /* removed: what it brought stays unfound */
    }
    if (rc != LK_OK) {
        *err = opening;
        return rc;
    }
    rc = lk_dataset_property(base, LK_LITERAL(LK_ROLLOUT_MERGED), &arena, &text, &found, err);
    if (rc == LK_OK && found) {
        rc = take_merged(g, base, text, counted, err);
    }
    lk_dataset_unref(base);
    lk_arena_close(&arena);
    return rc;
}

/* Finds all wanted generations among the merges around a base version. */
static lk_rc look_in_base(gathering *g, uint64_t version, uint64_t newest, bool before_counts, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (uint64_t i = version + 1; rc == LK_OK && g->left > 0 && i <= newest && i - version < VERSIONS_MAX;
         i++) {
        rc = look_at_version(g, i, false, err);
    }
    for (uint64_t i = version; rc == LK_OK && g->left > 0 && i > 0 && version - i < VERSIONS_BEFORE; i--) {
        rc = look_at_version(g, i, before_counts, err);
    }
    return rc == LK_OK && g->left > 0 ? gone(err, "rows were merged by other software, or versions removed")
                                      : rc;
}

/* -- a snapshot again --------------------------------------------------------------------------------------------------- */

static lk_rollout_rows *find_loaded(
    const lk_rollout_snapshot *snapshot, lk_uuid shard, const lk_shard_generation *g)
{
    lk_rollout_rows  key = {.shard = shard, .number = g->number};
    lk_rollout_rows *pointer = &key, **found = NULL;
    if (snapshot != NULL && snapshot->source_count > 0) {
        found = bsearch(
            &pointer, snapshot->sources, snapshot->source_count, sizeof(lk_rollout_rows *), by_precedence);
    }
    return found != NULL && lk_bytes_equal((*found)->path, g->path) ? *found : NULL;
}

/* Generations [from, to) of a shard: those that are listed as sources, the others wanted. */
static void gather_numbers(gathering *g, lk_uuid shard, uint64_t from, uint64_t to)
{
    const lk_rollout_snapshot *now = g->loaded;
    size_t                     at = now->source_count; /* the oldest of a shard stands last */
    while (at > 0 && memcmp(&now->sources[at - 1]->shard, &shard, sizeof shard) < 0) {
        at--;
    }
    for (uint64_t number = from; number < to; number++) {
        while (at > 0 && memcmp(&now->sources[at - 1]->shard, &shard, sizeof shard) == 0 &&
               now->sources[at - 1]->number < number) {
            at--;
        }
        bool listed = at > 0 && memcmp(&now->sources[at - 1]->shard, &shard, sizeof shard) == 0 &&
                      now->sources[at - 1]->number == number;
        if (listed) {
            add_source(g, lk_rollout_rows_ref(now->sources[at - 1]));
        } else {
            want(g, shard, number);
        }
    }
}

/* The manifest was emptied: what it listed is listed still, or was merged since, or before (look_in_base). */
static lk_rc gather_emptied(gathering *g, const lk_rollout_pin *pin, lk_err *err)
{
    lk_rc rc = LK_OK;
    if (!g->now) {
        lk_rollout_snapshot_unref(g->loaded);
        g->loaded = NULL;
        rc = lk_rollout_view_take(g->view, &g->loaded, err);
        g->now = rc == LK_OK;
    }
    if (rc == LK_OK && pin->next - pin->first > NUMBERS_MAX - g->left) {
        rc = gone(err, "too much was merged since");
    }
    if (rc == LK_OK) {
        gather_numbers(g, pin->shard, pin->first, pin->next);
    }
    return rc;
}

/* The generations of a shard at a version of its manifest. */
static lk_rc gather_shard(gathering *g, const lk_rollout_pin *pin, lk_err *err)
{
    lk_arena          arena = {0};
    lk_shard_manifest manifest;
    bool              found = false;
    lk_rc rc = lk_shard_at(g->env->store, pin->shard, pin->version, &arena, &manifest, &found, err);
    if (rc == LK_OK && !found) {
        rc = gather_emptied(g, pin, err);
    }
    size_t           count = rc == LK_OK && found ? manifest.generation_count : 0, wished = 0;
    lk_rollout_wish *wishes = calloc(count + 1, sizeof *wishes);
    LK_ASSERT(wishes != NULL);
    for (size_t i = 0; i < count; i++) {
        lk_rollout_rows *rows = find_loaded(g->loaded, pin->shard, &manifest.generations[i]);
        if (rows != NULL) {
            add_source(g, lk_rollout_rows_ref(rows));
        } else {
            wishes[wished++] = (lk_rollout_wish){.shard = pin->shard, .generation = &manifest.generations[i]};
        }
    }
    if (rc == LK_OK && wished > 0) {
        rc = lk_rollout_rows_load_all(g->env, g->form, wishes, wished, err);
    }
    for (size_t i = 0; rc == LK_OK && i < wished; i++) {
        if (wishes[i].rows != NULL) {
            add_source(g, wishes[i].rows);
        } else {
            want(g, pin->shard, wishes[i].generation->number);
        }
    }
    free(wishes);
    lk_arena_close(&arena);
    return rc;
}

/* Whether nothing moved since: every shard that has generations is where the cursor saw it. */
static bool is_same(const lk_rollout_snapshot *snapshot, const lk_rollout_cursor *cursor)
{
    size_t at = 0;
    if (snapshot == NULL || snapshot->without_base ||
        lk_dataset_version(snapshot->base) != cursor->base_version) {
        return false;
    }
    for (size_t i = 0; i < snapshot->source_count; i++) { /* a shard without a pin had none */
        size_t pin = 0;
        while (pin < cursor->pin_count &&
               memcmp(&cursor->pins[pin].shard, &snapshot->sources[i]->shard, sizeof(lk_uuid)) != 0) {
            pin++;
        }
        if (pin == cursor->pin_count) {
            return false;
        }
        while (i + 1 < snapshot->source_count &&
               memcmp(&snapshot->sources[i + 1]->shard, &snapshot->sources[i]->shard, sizeof(lk_uuid)) == 0) {
            i++;
        }
    }
    for (size_t i = 0; i < cursor->pin_count; i++) {
        while (at < snapshot->pin_count &&
               memcmp(&snapshot->pins[at].shard, &cursor->pins[i].shard, sizeof(lk_uuid)) < 0) {
            at++;
        }
        if (at == snapshot->pin_count || snapshot->pins[at].version != cursor->pins[i].version ||
            memcmp(&snapshot->pins[at].shard, &cursor->pins[i].shard, sizeof(lk_uuid)) != 0) {
            return false;
        }
    }
    return true;
}

static lk_rc check_identity(const lk_dataset *base, const lk_rollout_cursor *cursor, lk_err *err)
{
    return lk_rollout_identity(base) == cursor->base_identity
               ? LK_OK
               : lk_refuse(err, LK_E_INVALID_REQUEST, "the cursor is of another store");
}

static lk_rc open_base(
    const lk_lance_env *env, const lk_rollout_cursor *cursor, lk_dataset **out, lk_err *err)
{
    lk_err opening = {0};
    lk_rc  rc = cursor->base_version == 0 ? LK_E_NOT_FOUND
                                          : lk_dataset_open(env, cursor->base_version, out, &opening);
    if (rc == LK_E_NOT_FOUND) {
        return gone(err, "the base table's version was removed");
    }
    if (rc != LK_OK) {
        *err = opening;
        return rc;
    }
    return check_identity(*out, cursor, err);
}

static lk_rc newest_version(const lk_lance_env *env, uint64_t *version, lk_err *err)
{
    lk_dataset *base = NULL;
    lk_rc       rc = lk_dataset_open(env, 0, &base, err);
    if (rc == LK_OK) {
        *version = lk_dataset_version(base);
    }
    lk_dataset_unref(base);
    return rc;
}

lk_rc lk_rollout_resume(const lk_lance_env *env, lk_rollout_view *view, const lk_rollout_cursor *cursor,
    lk_rollout_snapshot **out, lk_err *err)
{
    gathering g = {
        .env = env, .form = lk_rollout_view_form(view), .view = view, .loaded = lk_rollout_view_last(view)};
    lk_dataset *base = NULL;
    uint64_t    newest = 0;
    if (is_same(g.loaded, cursor)) {
        *out = g.loaded;
        lk_rc rc = check_identity((*out)->base, cursor, err);
        if (rc != LK_OK) {
            lk_rollout_snapshot_unref(*out);
        }
        return rc;
    }
    lk_rc rc = open_base(env, cursor, &base, err);
    for (size_t i = 0; rc == LK_OK && i < cursor->pin_count; i++) {
        rc = gather_shard(&g, &cursor->pins[i], err);
    }
    if (rc == LK_OK && g.left > 0) {
        rc = newest_version(env, &newest, err);
    }
    if (rc == LK_OK && g.left > 0) {
        rc = look_in_base(&g, cursor->base_version, newest, true, err);
    }
    if (rc == LK_OK) {
        *out = lk_rollout_snapshot_new(
            lk_rollout_view_form(view), base, g.sources.size / sizeof(lk_rollout_rows *), cursor->pin_count);
        (*out)->pin_count = cursor->pin_count;
        memcpy((*out)->pins, cursor->pins, cursor->pin_count * sizeof *cursor->pins);
        give_sources(&g, *out);
    }
    lk_dataset_unref(base);
    lk_rollout_snapshot_unref(g.loaded);
    gathering_deinit(&g);
    return rc;
}

/* -- what came since ----------------------------------------------------------------------------------------------------- */

static const lk_rollout_pin *find_pin(const lk_rollout_cursor *cursor, lk_uuid shard)
{
    for (size_t i = 0; i < cursor->pin_count; i++) {
        if (memcmp(&cursor->pins[i].shard, &shard, sizeof shard) == 0) {
            return &cursor->pins[i];
        }
    }
    return NULL;
}

/* The base version from which the next tail looks: this one's when all of it was taken. */
static lk_rc check_store(
    const lk_lance_env *env, const lk_rollout_cursor *cursor, const lk_dataset *now, lk_err *err)
{
    lk_dataset *base = NULL;
    lk_err      opening = {0};
    if (cursor->base_version == lk_dataset_version(now)) {
        return check_identity(now, cursor, err);
    }
    if (cursor->base_version > lk_dataset_version(now) || cursor->base_version == 0) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "the cursor is of another store");
    }
    lk_rc rc = lk_dataset_open(env, cursor->base_version, &base, &opening);
    if (rc == LK_OK) {
        rc = check_identity(base, cursor, err);
    } else if (rc == LK_E_NOT_FOUND) {
        rc = LK_OK; /* removed: what it was cannot be told */
    } else {
        *err = opening;
    }
    lk_dataset_unref(base);
    return rc;
}

lk_rc lk_rollout_since(const lk_lance_env *env, const lk_rollout_cursor *cursor, lk_rollout_snapshot *now,
    lk_rollout_snapshot **out, lk_err *err)
{
    gathering       g = {.env = env, .form = now->form, .loaded = now};
    size_t          room = GENERATIONS_AT_ONCE;
    lk_rollout_pin *pins = calloc(now->pin_count + 1, sizeof *pins);
    LK_ASSERT(pins != NULL);
    lk_rc rc = check_store(env, cursor, now->base, err);
    for (size_t i = 0; rc == LK_OK && i < now->pin_count; i++) {
        const lk_rollout_pin *seen = find_pin(cursor, now->pins[i].shard);
        uint64_t              from = seen == NULL || seen->next == 0 ? 1 : seen->next, to = now->pins[i].next;
        pins[i] = now->pins[i];
        if (from > to) {
            rc = lk_refuse(err, LK_E_INVALID_REQUEST, "the cursor is of another store");
        } else {
            uint64_t some = to - from < room ? to - from : room;
            gather_numbers(&g, pins[i].shard, from, from + some);
            room -= (size_t)some;
            pins[i].next = from + some;
            pins[i].first = pins[i].first < pins[i].next ? pins[i].first : pins[i].next;
        }
    }
    if (rc == LK_OK && g.left > 0) {
        rc = look_in_base(&g, cursor->base_version, lk_dataset_version(now->base), false, err);
    }
    if (rc == LK_OK) {
        *out = lk_rollout_snapshot_new(
            now->form, now->base, g.sources.size / sizeof(lk_rollout_rows *), now->pin_count);
        (*out)->without_base = true;
        (*out)->pin_count = now->pin_count;
        memcpy((*out)->pins, pins, now->pin_count * sizeof *pins);
        give_sources(&g, *out);
    }
    free(pins);
    gathering_deinit(&g);
    return rc;
}
