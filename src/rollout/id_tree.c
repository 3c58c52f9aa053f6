/* id_tree.c - see id_tree.h. */
#include "rollout/id_tree.h"

#include "rollout/id_map.h"

#include <stdlib.h>

enum { BITS = 6, WIDTH = 1 << BITS };

typedef struct place {
    uint64_t         hash;
    lk_rollout_rows *rows;
    uint32_t         row;
} place;

typedef struct leaf {
    atomic_uint refs;
    uint32_t    count, capacity;
    place       places[];
} leaf;

typedef struct node {
    atomic_uint refs;
    leaf       *leaves[WIDTH];
} node;

struct lk_id_tree {
    size_t count;
    node  *nodes[WIDTH];
};

static size_t node_of(uint64_t hash)
{
    return hash >> (64 - BITS);
}

static size_t leaf_of(uint64_t hash)
{
    return hash >> (64 - 2 * BITS) & (WIDTH - 1);
}

/* -- what is shared ------------------------------------------------------------------------------------------------- */

static void leaf_unref(leaf *l)
{
    if (l != NULL && atomic_fetch_sub(&l->refs, 1) == 1) {
        free(l);
    }
}

static void node_unref(node *n)
{
    if (n == NULL || atomic_fetch_sub(&n->refs, 1) > 1) {
        return;
    }
    for (size_t i = 0; i < WIDTH; i++) {
        leaf_unref(n->leaves[i]);
    }
    free(n);
}

/* The node in *at, of which nobody else has a reference: it may be changed. */
static node *own_node(node **at)
{
    node *shared = *at;
    if (shared != NULL && atomic_load(&shared->refs) == 1) {
        return shared;
    }
    node *own = calloc(1, sizeof *own);
    LK_ASSERT(own != NULL);
    atomic_init(&own->refs, 1);
    for (size_t i = 0; shared != NULL && i < WIDTH; i++) {
        own->leaves[i] = shared->leaves[i];
        if (own->leaves[i] != NULL) {
            atomic_fetch_add(&own->leaves[i]->refs, 1);
        }
    }
    node_unref(shared);
    *at = own;
    return own;
}

/* The same of a leaf, with room for so many places. */
static leaf *own_leaf(leaf **at, size_t room)
{
    leaf  *shared = *at;
    size_t count = shared == NULL ? 0 : shared->count;
    if (shared != NULL && atomic_load(&shared->refs) == 1 && shared->capacity >= room) {
        return shared;
    }
    size_t capacity = room <= 2 ? 2 : room + room / 4;
    leaf  *own = malloc(sizeof *own + capacity * sizeof(place));
    LK_ASSERT(own != NULL);
    atomic_init(&own->refs, 1);
    own->capacity = (uint32_t)capacity;
    own->count = (uint32_t)count;
    if (count > 0) {
        memcpy(own->places, shared->places, count * sizeof(place));
    }
    leaf_unref(shared);
    *at = own;
    return own;
}

lk_id_tree *lk_id_tree_new(const lk_id_tree *from)
{
    lk_id_tree *tree = calloc(1, sizeof *tree);
    LK_ASSERT(tree != NULL);
    if (from == NULL) {
        return tree;
    }
    *tree = *from;
    for (size_t i = 0; i < WIDTH; i++) {
        if (tree->nodes[i] != NULL) {
            atomic_fetch_add(&tree->nodes[i]->refs, 1);
        }
    }
    return tree;
}

void lk_id_tree_free(lk_id_tree *tree)
{
    if (tree == NULL) {
        return;
    }
    for (size_t i = 0; i < WIDTH; i++) {
        node_unref(tree->nodes[i]);
    }
    free(tree);
}

/* -- places ---------------------------------------------------------------------------------------------------------- */

/* The first place whose hash is not below. */
static size_t lower_bound(const leaf *l, uint64_t hash)
{
    size_t low = 0, high = l == NULL ? 0 : l->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (l->places[middle].hash < hash) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Where the id stands, or where it would (*found = false). */
static size_t position_of(const leaf *l, uint64_t hash, lk_bytes id, bool *found)
{
    size_t at = lower_bound(l, hash);
    for (*found = false; l != NULL && at < l->count && l->places[at].hash == hash; at++) {
        if (lk_bytes_equal(lk_rollout_rows_id(l->places[at].rows, l->places[at].row), id)) {
            *found = true;
            break;
        }
    }
    return at;
}

static void add_one(lk_id_tree *tree, lk_rollout_rows *rows, size_t row)
{
    lk_bytes id = lk_rollout_rows_id(rows, row);
    uint64_t hash = lk_id_hash(id);
    node    *n = own_node(&tree->nodes[node_of(hash)]);
    leaf   **at = &n->leaves[leaf_of(hash)], *l = *at;
    bool     found;
    size_t   position = position_of(l, hash, id, &found);
    if (found && lk_rollout_rows_order(rows, l->places[position].rows) >= 0) {
        return;
    }
    l = own_leaf(at, (l == NULL ? 0 : l->count) + (size_t)!found);
    if (!found) {
        memmove(&l->places[position + 1], &l->places[position], (l->count - position) * sizeof(place));
        l->count++;
        tree->count++;
    }
    l->places[position] = (place){hash, rows, (uint32_t)row};
}

void lk_id_tree_add(lk_id_tree *tree, lk_rollout_rows *rows)
{
    for (size_t row = 0; row < rows->count; row++) {
        add_one(tree, rows, row);
    }
}

void lk_id_tree_remove(lk_id_tree *tree, const lk_rollout_rows *rows)
{
    for (size_t row = 0; row < rows->count; row++) {
        lk_bytes id = lk_rollout_rows_id(rows, row);
        uint64_t hash = lk_id_hash(id);
        node    *n = tree->nodes[node_of(hash)];
        leaf    *l = n == NULL ? NULL : n->leaves[leaf_of(hash)];
        bool     found;
        size_t   position = position_of(l, hash, id, &found);
        if (!found || l->places[position].rows != rows) {
            continue;
        }
        n = own_node(&tree->nodes[node_of(hash)]);
        l = own_leaf(&n->leaves[leaf_of(hash)], l->count);
        l->count--;
        tree->count--;
        memmove(&l->places[position], &l->places[position + 1], (l->count - position) * sizeof(place));
    }
}

size_t lk_id_tree_count(const lk_id_tree *tree)
{
    return tree->count;
}

bool lk_id_tree_find(const lk_id_tree *tree, lk_bytes id, lk_rollout_place *out)
{
    uint64_t    hash = lk_id_hash(id);
    const node *n = tree->nodes[node_of(hash)];
    const leaf *l = n == NULL ? NULL : n->leaves[leaf_of(hash)];
    bool        found;
    size_t      position = position_of(l, hash, id, &found);
    if (found) {
        *out = (lk_rollout_place){l->places[position].rows, l->places[position].row};
    }
    return found;
}
