/*
 * index_lookup.c - a predicate's tree and the indices of the fields that it is over: each part that one field
 * decides is one question, AND narrows down, OR needs an answer from all. What an index does not decide is left to the
 * scan, which tests every row that was found.
 */
#include "lance/index_search.h"

#include <roaring/roaring.h>
#include <stdlib.h>

/* When fewer rows than one in so many are candidates, looking at them one by one beats reading all; ranges of rows pay
 * as soon as some can be left out. */
enum { ROWS_A_CANDIDATE = 16, CANDIDATES_MIN = 64, CANDIDATES_MAX = 8 * 1024 * 1024 };

struct lk_index_hits {
    lk_index_answer *answer;
    lk_budget       *budget;
    size_t           charged;
};

typedef struct lookup {
    lk_dataset               *dataset;
    lk_arena                  arena;
    const lk_index           *indices;
    size_t                    count;
    const lk_fragment_number *numbers;
    lk_buffer_pool           *pool;
    lk_cancel                *cancel;
    uint64_t                  rows_max;
} lookup;

static lk_rc ask(lookup *self, const lk_predicate *predicate, lk_index_answer **out, lk_err *err);

/* -- one field ------------------------------------------------------------------------------------------- */
static lk_rc ask_segment(lk_index_search *search, const lk_index *index, lk_err *err)
{
    switch (index->kind) {
    case LK_INDEX_BTREE:
        return lk_index_btree_search(search, index, err);
    case LK_INDEX_BITMAP:
        return lk_index_bitmap_search(search, index, err);
    case LK_INDEX_ZONEMAP:
        return lk_index_zonemap_search(search, index, err);
    case LK_INDEX_OTHER:
        break;
    }
    search->gave_up = true;
    return LK_OK;
}

/* A zone map says by itself which fragments it has. */
static void cover(lk_index_answer *answer, const lk_index *index)
{
    for (size_t i = 0; index->kind != LK_INDEX_ZONEMAP && i < answer->fragment_count; i++) {
        answer->covers[i] = answer->covers[i] || index->covers[i];
    }
}

/* Asks the segments of one kind over a field; *out stays NULL when there is none, or it gave up. An index in a newer
 * file version or encoding than we read says nothing, nor does one that there is no memory for. */
static lk_rc ask_kind(lookup *self, const lk_predicate *predicate, size_t field, lk_index_kind kind,
    lk_index_answer **out, lk_err *err)
{
    const lk_lance_field *of = &self->dataset->manifest->schema->fields[field];
    size_t                asked = 0;
    lk_rc                 rc = LK_OK;
    lk_index_search       search = {.dataset = self->dataset,
              .numbers = self->numbers,
              .pool = self->pool,
              .cancel = self->cancel,
              .rows_max = self->rows_max,
              .field = of->arrow,
              .predicate = predicate,
              .answer = lk_index_answer_new(self->dataset->manifest->fragment_count)};
    for (size_t i = 0; rc == LK_OK && i < self->count && !search.gave_up; i++) {
        const lk_index *index = &self->indices[i];
        if (index->kind == kind && index->fields[0] == of->id && index->covered_count > 0) {
            rc = ask_segment(&search, index, err);
            cover(search.answer, index);
            asked++;
        }
    }
    if (rc == LK_E_UNSUPPORTED_FORMAT || rc == LK_E_LIMIT) {
        *err = (lk_err){0};
        rc = LK_OK;
        search.gave_up = true;
    }
    if (rc == LK_OK && asked > 0 && !search.gave_up) {
        *out = search.answer;
    } else {
        lk_index_answer_free(search.answer);
    }
    return rc;
}

/* The same tree over column 0. */
static const lk_predicate *alone(lookup *self, const lk_predicate *predicate)
{
    lk_predicate        *out = lk_arena_take(&self->arena, sizeof *out);
    const lk_predicate **children =
        lk_arena_take(&self->arena, (predicate->child_count + 1) * sizeof *children);
    *out = *predicate;
    out->column = out->path_count = 0;
    out->path = NULL;
    out->children = children;
    for (size_t i = 0; i < predicate->child_count; i++) {
        children[i] = alone(self, predicate->children[i]);
    }
    return out;
}

static lk_rc ask_field(
    lookup *self, const lk_predicate *predicate, size_t field, lk_index_answer **out, lk_err *err)
{
    static const lk_index_kind best_first[] = {LK_INDEX_BTREE, LK_INDEX_BITMAP, LK_INDEX_ZONEMAP};
    const lk_predicate        *over_it = alone(self, predicate);
    lk_rc                      rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && *out == NULL && i < sizeof best_first / sizeof best_first[0]; i++) {
        rc = ask_kind(self, over_it, field, best_first[i], out, err);
    }
    return rc;
}

/* -- the tree -------------------------------------------------------------------------------------------- */

/* The field of a leaf, in schema->fields; SIZE_MAX: its path leads nowhere. */
static size_t field_of(const lk_lance_schema *schema, const lk_predicate *leaf)
{
    size_t field = schema->top[leaf->column];
    for (size_t depth = 0; depth < leaf->path_count; depth++) {
        const struct ArrowSchema *arrow = schema->fields[field].arrow;
        if (strcmp(arrow->format, "+s") != 0 || leaf->path[depth] >= (size_t)arrow->n_children ||
            schema->fields[field].leaf) {
            return SIZE_MAX;
        }
        field++;
        for (size_t child = 0; child < leaf->path[depth]; child++) {
            field = schema->fields[field].end;
        }
    }
    return field;
}

/* Whether a tree is over one field; *field is SIZE_MAX at first. */
static bool is_over_one(const lookup *self, const lk_predicate *predicate, size_t *field)
{
    bool inner = predicate->kind == LK_PREDICATE_AND || predicate->kind == LK_PREDICATE_OR ||
                 predicate->kind == LK_PREDICATE_NOT;
    if (!inner) {
        size_t its = field_of(self->dataset->manifest->schema, predicate);
        bool   same = its != SIZE_MAX && (*field == SIZE_MAX || *field == its);
        *field = its;
        return same;
    }
    bool one = predicate->child_count > 0;
    for (size_t i = 0; one && i < predicate->child_count; i++) {
        one = is_over_one(self, predicate->children[i], field);
    }
    return one;
}

/* Joins the children that are over the same field, so that a range is one question. */
static const lk_predicate *join(lookup *self, const lk_predicate *predicate, size_t first, bool *taken)
{
    size_t               field = SIZE_MAX, count = 0;
    const lk_predicate **same = lk_arena_take(&self->arena, predicate->child_count * sizeof *same);
    if (!is_over_one(self, predicate->children[first], &field)) {
        return predicate->children[first];
    }
    for (size_t i = first; i < predicate->child_count; i++) {
        size_t other = SIZE_MAX;
        if (!taken[i] && is_over_one(self, predicate->children[i], &other) && other == field) {
            same[count++] = predicate->children[i];
            taken[i] = true;
        }
    }
    lk_predicate *joined = lk_arena_take(&self->arena, sizeof *joined);
    *joined = (lk_predicate){.kind = predicate->kind, .children = same, .child_count = count};
    return count == 1 ? same[0] : joined;
}

static lk_rc ask_children(lookup *self, const lk_predicate *predicate, lk_index_answer **out, lk_err *err)
{
    bool  is_and = predicate->kind == LK_PREDICATE_AND, complete = true;
    bool *taken = lk_arena_take(&self->arena, predicate->child_count + 1);
    lk_rc rc = LK_OK;
    for (size_t i = 0; rc == LK_OK && i < predicate->child_count && (is_and || complete); i++) {
        lk_index_answer *one = NULL;
        if (taken[i]) {
            continue;
        }
        rc = ask(self, join(self, predicate, i, taken), &one, err);
        complete = complete && one != NULL;
        if (one != NULL && *out == NULL) {
            *out = one;
        } else if (one != NULL) {
            (is_and ? lk_index_answer_and : lk_index_answer_or)(*out, one);
            lk_index_answer_free(one);
        }
    }
    if (*out != NULL && (rc != LK_OK || (!is_and && !complete))) {
        lk_index_answer_free(*out);
        *out = NULL;
    }
    return rc;
}

/* *out stays NULL when the indices do not help. */
static lk_rc ask(lookup *self, const lk_predicate *predicate, lk_index_answer **out, lk_err *err)
{
    size_t field = SIZE_MAX;
    if (is_over_one(self, predicate, &field)) {
        return ask_field(self, predicate, field, out, err);
    }
    if (predicate->kind == LK_PREDICATE_AND || predicate->kind == LK_PREDICATE_OR) {
        return ask_children(self, predicate, out, err);
    }
    return LK_OK;
}

/* -- hits ------------------------------------------------------------------------------------------------ */
static uint64_t covered_rows(const lookup *self, const lk_index_answer *answer)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < answer->fragment_count; i++) {
        rows += answer->covers[i] ? self->dataset->manifest->fragments[i].physical_rows : 0;
    }
    return rows;
}

/* Moves the answer into *out, or drops it when it does not pay or there is no memory for it. */
static void make_hits(const lookup *self, lk_index_answer *answer, lk_index_hits **out)
{
    uint64_t   count = lk_index_answer_count(answer), rows = covered_rows(self, answer);
    size_t     bytes = lk_index_answer_bytes(answer);
    lk_budget *budget = self->dataset->env.budget;
    lk_err     full = {0};
    if (count > rows - rows / 8 || (budget != NULL && lk_budget_take(budget, bytes, &full) != LK_OK)) {
        lk_index_answer_free(answer);
        return;
    }
    lk_index_hits *hits = calloc(1, sizeof *hits);
    LK_ASSERT(hits != NULL);
    *hits = (lk_index_hits){answer, budget, bytes};
    *out = hits;
}

static bool any_readable(const lookup *self)
{
    bool found = false;
    for (size_t i = 0; i < self->count; i++) {
        found = found || (self->indices[i].kind != LK_INDEX_OTHER && self->indices[i].covered_count > 0);
    }
    return found;
}

lk_rc lk_index_lookup(
    lk_dataset *dataset, const lk_predicate *predicate, lk_cancel *cancel, lk_index_hits **out, lk_err *err)
{
    lookup           self = {.dataset = dataset, .cancel = cancel};
    lk_index_answer *answer = NULL;
    uint64_t         most = dataset->manifest->physical_rows / ROWS_A_CANDIDATE + CANDIDATES_MIN;
    *out = NULL;
    if (!dataset->manifest->has_index_section) {
        return LK_OK;
    }
    lk_rc rc = lk_index_list(dataset, &self.arena, &self.indices, &self.count, err);
    if (rc == LK_OK && any_readable(&self)) {
        self.rows_max = most < CANDIDATES_MAX ? most : CANDIDATES_MAX;
        self.numbers = lk_fragment_numbers(dataset->manifest, &self.arena);
        self.pool = lk_buffer_pool_new(dataset->env.budget);
        rc = ask(&self, predicate, &answer, err);
        lk_buffer_pool_close(self.pool);
    }
    if (rc == LK_OK && answer != NULL) {
        make_hits(&self, answer, out);
    }
    lk_arena_close(&self.arena);
    return rc;
}

void lk_index_hits_free(lk_index_hits *hits)
{
    if (hits == NULL) {
        return;
    }
    if (hits->budget != NULL) {
        lk_budget_give(hits->budget, hits->charged);
    }
    lk_index_answer_free(hits->answer);
    free(hits);
}

bool lk_index_hits_fragment(const lk_index_hits *hits, size_t fragment, const struct roaring_bitmap_s **rows)
{
    *rows = hits->answer->rows[fragment];
    return hits->answer->covers[fragment];
}
