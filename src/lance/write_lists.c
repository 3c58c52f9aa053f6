/* write_lists.c - see write_lists.h. */
#include "lance/write_lists.h"

#include "arrow/bits.h"

typedef struct walk {
    lk_leaf            *leaf;
    const lk_list_node *nodes;
} walk;

static void put_entry(lk_leaf *leaf, uint16_t rep, uint16_t def)
{
    lk_buf_append(&leaf->reps, &rep, 2);
    lk_buf_append(&leaf->defs, &def, 2);
}

/* Lists at this layer or further in: the rank of a list there. */
static unsigned rank_of(const lk_leaf *leaf, size_t layer)
{
    unsigned rank = 0;
    for (size_t inner = 0; inner <= layer; inner++) {
        rank += leaf->is_list[inner];
    }
    return rank;
}

/* `count` values of the leaf from `start`: the first repeats at `rep`, the others are its neighbours. */
static lk_rc put_values(walk *self, int64_t start, int64_t count, uint16_t rep, lk_err *err)
{
    lk_leaf                 *leaf = self->leaf;
    const struct ArrowArray *array = self->nodes[leaf->layer_count - 1].array;
    uint64_t                 before = leaf->rows;
    lk_rc                    rc = lk_leaf_append(leaf, array, start, count, NULL, err);
    if (rc != LK_OK || count == 0) {
        return rc;
    }
    size_t from = leaf->reps.size; /* of both: an entry has one of each */
    lk_buf_append_zeros(&leaf->reps, (size_t)count * 2);
    lk_buf_append_zeros(&leaf->defs, (size_t)count * 2);
    lk_store_u16(leaf->reps.data + from, rep);
    for (int64_t value = 0; leaf->has_marks && value < count; value++) {
        leaf->defs.data[from + (size_t)value * 2] = leaf->marks.data[before + (uint64_t)value] != 0;
    }
    return LK_OK;
}

static lk_rc put_slot(walk *self, size_t node, int64_t index, uint16_t rep, lk_err *err);

/* The items of a list; runs of plain values in one go. */
static lk_rc put_items(
    walk *self, size_t node, int64_t start, int64_t end, uint16_t rep, uint16_t next, lk_err *err)
{
    const struct ArrowArray *items = self->nodes[node + 1].array;
    lk_rc                    rc = LK_OK;
    if (node + 2 == self->leaf->layer_count) {
        return put_values(self, start + items->offset, end - start, rep, err);
    }
    for (int64_t item = start; rc == LK_OK && item < end; item++) {
        rc = put_slot(self, node + 1, item + items->offset, item == start ? rep : next, err);
    }
    return rc;
}

int64_t lk_list_offset(const lk_list_node *node, int64_t index)
{
    const char *offset = (const char *)node->array->buffers[1] + (size_t)index * node->offset_bytes;
    return node->offset_bytes == 4 ? (int64_t)lk_load_u32(offset) : (int64_t)lk_load_u64(offset);
}

static bool is_null(const struct ArrowArray *array, int64_t index)
{
    return array->n_buffers > 0 && array->null_count != 0 && array->buffers[0] != NULL &&
           !lk_bit(array->buffers[0], index);
}

/* A null at this layer: inside the innermost list it owns a value, around it not. */
static void put_null(lk_leaf *leaf, size_t layer, uint16_t rep)
{
    if (rank_of(leaf, layer) == 0) {
        lk_leaf_append_null(leaf);
    } else {
        leaf->hidden++;
    }
    put_entry(leaf, rep, (uint16_t)(1 + 2 * layer));
}

static lk_rc put_slot(walk *self, size_t node, int64_t index, uint16_t rep, lk_err *err)
{
    lk_leaf            *leaf = self->leaf;
    const lk_list_node *at = &self->nodes[node];
    size_t              layer = leaf->layer_count - 1 - node;
    if (layer == 0) {
        return put_values(self, index, 1, rep, err);
    }
    if (is_null(at->array, index)) {
        put_null(leaf, layer, rep);
        return LK_OK;
    }
    if (at->offset_bytes == 0) {
        return put_slot(self, node + 1, index + self->nodes[node + 1].array->offset, rep, err);
    }
    int64_t start = lk_list_offset(at, index), end = lk_list_offset(at, index + 1);
    if (start == end) {
        leaf->hidden++;
        put_entry(leaf, rep, (uint16_t)(2 + 2 * layer));
        return LK_OK;
    }
    return put_items(self, node, start, end, rep, (uint16_t)(rank_of(leaf, layer) - 1), err);
}

lk_rc lk_leaf_append_row(lk_leaf *leaf, const lk_list_node *nodes, int64_t row, lk_err *err)
{
    walk self = {leaf, nodes};
    leaf->list_rows++;
    return put_slot(&self, 0, row, (uint16_t)leaf->lists, err);
}
