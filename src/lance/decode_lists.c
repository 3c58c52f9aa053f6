/*
 * decode_lists.c - fields with lists or maps in them: leaves become streams of levels, and every list, struct and
 * leaf of the field is cut out of the stream of a leaf below it (the *teller*; they all tell the same).
 *
 * Invariant: a node that no file knows of stays released until the node around it, which knows how many there
 * are, makes it of nulls.
 */
#include "lance/decode_priv.h"

#include <stdlib.h>

/* Where the walk through the field is. */
typedef struct walk {
    lk_decoder *decoder;
    bool        is_list[LK_LAYERS_MAX]; /* the nodes above, outer to inner */
    size_t      depth;
    unsigned    lists;        /* among them */
    unsigned    offset_bytes; /* of the innermost list */
} walk;

static lk_rc decode_node(
    walk *self, const lk_field_source *source, struct ArrowArray *out, lk_stream **teller, lk_err *err);

static void free_stream(lk_stream *stream)
{
    if (stream != NULL) {
        lk_stream_deinit(stream);
        free(stream);
    }
}

static lk_rc push(walk *self, bool is_list, lk_err *err)
{
    if (self->depth + 1 >= LK_LAYERS_MAX) {
        return lk_fail(err, LK_E_LIMIT, "fields nest more than %d deep", LK_LAYERS_MAX);
    }
    self->is_list[self->depth++] = is_list;
    self->lists += is_list;
    return LK_OK;
}

static void pop(walk *self)
{
    self->lists -= self->is_list[--self->depth];
}

/* The layer of the node at the walk's depth, counted from the teller's leaf. */
static size_t layer_of(const walk *self, const lk_stream *teller)
{
    return teller->layer_count - 1 - self->depth;
}

/* -- leaves ---------------------------------------------------------------------------------------- */
static lk_rc read_stream(walk *self, lk_shape *shape, lk_stream *stream, lk_err *err)
{
    lk_buffer_pool *pool = self->decoder->scratch.pool;
    stream->layer_count = self->depth + 1;
    stream->lists = self->lists;
    for (size_t node = 0; node < self->depth; node++) {
        stream->is_list[self->depth - node] = self->is_list[node];
    }
    lk_rc rc = lk_column_init(&stream->values, shape->stored, 0, pool, NULL, 0, err);
    if (rc == LK_OK) {
        rc = lk_stream_begin(stream, self->decoder->rows, self->offset_bytes, pool, err);
    }
    if (rc == LK_OK) {
        lk_leaf_decode leaf = {.shape = shape, .column = &stream->values, .stream = stream};
        rc = lk_decode_pages(self->decoder, &leaf, err);
    }
    if (rc == LK_OK && stream->values.rows != lk_stream_slots(stream, 0)) {
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "a column has other values than levels");
    }
    if (rc == LK_OK && (stream->values.type.layout != LK_LAYOUT_NULL || stream->values.level_count > 0)) {
        rc = lk_stream_validity(stream, 0, &stream->values.validity, err);
    }
    return rc;
}

static lk_rc decode_leaf(
    walk *self, const lk_field_source *source, struct ArrowArray *out, lk_stream **teller, lk_err *err)
{
    if (source->file == NULL) {
        return LK_OK;
    }
    lk_stream *stream = calloc(1, sizeof *stream);
    LK_ASSERT(stream != NULL);
    lk_shape shape;
    lk_rc    rc = lk_shape_open(&shape, source, self->lists > 0, err);
    if (rc == LK_OK) {
        rc = read_stream(self, &shape, stream, err);
    }
    if (rc == LK_OK) {
        rc = lk_shape_finish(&shape, &stream->values, out, err);
    }
    lk_shape_close(&shape);
    if (rc != LK_OK) {
        free_stream(stream);
        return rc;
    }
    *teller = stream;
    return LK_OK;
}

/* -- structs --------------------------------------------------------------------------------------- */
/* A child without lists, of a struct outside all lists: it tells the struct's validity too. */
static lk_rc decode_plain(
    walk *self, const lk_field_source *source, lk_validity *own, struct ArrowArray *out, lk_err *err)
{
    size_t       count = self->depth; /* the struct itself is the innermost of them */
    lk_validity *parents = calloc(count, sizeof *parents);
    LK_ASSERT(parents != NULL);
    lk_rc rc = lk_decode_field(self->decoder, source, parents, count, out, err);
    if (own->bits.data == NULL && lk_source_present(source)) {
        *own = parents[0];
        parents[0] = (lk_validity){0};
    }
    for (size_t parent = 0; parent < count; parent++) {
        lk_buffer_give(&parents[parent].bits);
    }
    free(parents);
    return rc;
}

static lk_rc decode_members(walk *self, const lk_field_source *source, lk_validity *own,
    struct ArrowArray *out, lk_stream **teller, lk_err *err)
{
    lk_rc rc = push(self, false, err);
    if (rc != LK_OK) {
        return rc;
    }
    for (size_t child = 0; rc == LK_OK && child < source->child_count; child++) {
        const lk_field_source *member = &source->children[child];
        lk_stream             *told = NULL;
        rc = self->lists == 0 && !lk_source_has_lists(member)
                 ? decode_plain(self, member, own, out->children[child], err)
                 : decode_node(self, member, out->children[child], &told, err);
        if (*teller == NULL) {
            *teller = told;
        } else {
            free_stream(told);
        }
    }
    pop(self);
    return rc;
}

/* Members that no file knows become nulls; the others must be as many as the struct's rows. */
static lk_rc complete_members(
    walk *self, const lk_field_source *source, uint64_t rows, struct ArrowArray *out, lk_err *err)
{
    lk_rc rc = LK_OK;
    for (size_t child = 0; rc == LK_OK && child < source->child_count; child++) {
        struct ArrowArray *member = out->children[child];
        if (member->release == NULL) {
            rc = lk_decode_nulls(self->decoder, source->children[child].field, rows, member, err);
        } else if ((uint64_t)member->length != rows) {
            rc = lk_fail(err, LK_E_CORRUPT_FILE, "members of a struct differ in length");
        }
    }
    return rc;
}

static lk_rc decode_struct(
    walk *self, const lk_field_source *source, struct ArrowArray *out, lk_stream **teller, lk_err *err)
{
    lk_validity own = {0};
    if ((int64_t)source->child_count != source->field->n_children || source->child_count == 0) {
        lk_rc rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "packed or empty struct in a list");
        lk_detail(err, "Lance packed or empty struct inside a list");
        return rc;
    }
    struct ArrowArray made = {0};
    lk_column_node(&made, 0, 0, &(lk_buffer){0}, 1, source->child_count);
    lk_rc    rc = decode_members(self, source, &own, &made, teller, err);
    uint64_t rows = self->decoder->rows;
    if (rc == LK_OK && *teller != NULL) {
        lk_buffer_give(&own.bits);
        own = (lk_validity){0};
        rows = lk_stream_slots(*teller, layer_of(self, *teller));
        rc = lk_stream_validity(*teller, layer_of(self, *teller), &own, err);
    }
    bool known = *teller != NULL || (self->lists == 0 && lk_source_present(source));
    if (rc == LK_OK && known) {
        rc = complete_members(self, source, rows, &made, err);
    }
    if (rc == LK_OK && known) {
        made.length = (int64_t)rows;
        lk_column_set_validity(&made, &own);
        *out = made;
    } else {
        made.release(&made);
    }
    lk_buffer_give(&own.bits);
    return rc;
}

/* -- lists ----------------------------------------------------------------------------------------- */
static unsigned offset_bytes(const lk_field_source *source)
{
    return source->field->format[1] == 'L' ? 8 : 4;
}

/* The list's node around its items. */
static lk_rc build_list(walk *self, const lk_field_source *source, lk_stream *teller,
    struct ArrowArray *items, struct ArrowArray *out, lk_err *err)
{
    unsigned    width = offset_bytes(source);
    size_t      layer = layer_of(self, teller);
    uint64_t    rows = lk_stream_slots(teller, layer), total = 0;
    lk_validity validity = {0};
    lk_buffer   buffers[2] = {0};
    lk_rc       rc = lk_stream_validity(teller, layer, &validity, err);
    if (rc == LK_OK) {
        rc = lk_stream_offsets(teller, layer, width, &buffers[1], err);
    }
    if (rc == LK_OK) {
        memcpy(&total, buffers[1].data + rows * width, width);
        rc = total == (uint64_t)items->length
                 ? LK_OK
                 : lk_fail(err, LK_E_CORRUPT_FILE, "a list has other items than its levels say");
    }
    if (rc != LK_OK) {
        lk_buffer_give(&validity.bits);
        lk_buffer_give(&buffers[1]);
        return rc;
    }
    buffers[0] = validity.bits;
    lk_column_node(out, rows, validity.null_count, buffers, 2, 1);
    *out->children[0] = *items;
    items->release = NULL;
    return LK_OK;
}

static lk_rc decode_list(
    walk *self, const lk_field_source *source, struct ArrowArray *out, lk_stream **teller, lk_err *err)
{
    struct ArrowArray items = {0};
    if (source->child_count != 1) {
        return lk_fail(err, LK_E_CORRUPT_FILE, "a list of %zu children", source->child_count);
    }
    unsigned outer = self->offset_bytes;
    lk_rc    rc = push(self, true, err);
    if (rc == LK_OK) {
        self->offset_bytes = offset_bytes(source);
        rc = decode_node(self, &source->children[0], &items, teller, err);
        self->offset_bytes = outer; /* of members behind this one */
        pop(self);
    }
    if (rc == LK_OK && *teller != NULL) {
        rc = build_list(self, source, *teller, &items, out, err);
    }
    if (items.release != NULL) {
        items.release(&items);
    }
    return rc;
}

/* Whoever writes such a file, nobody reads it; of one that is in no file its list makes nulls. */
static lk_rc refuse_vector(const lk_field_source *source, lk_err *err)
{
    if (!lk_source_present(source)) {
        return LK_OK;
    }
    const char *name = source->field->name;
    lk_rc       rc = lk_fail(err, LK_E_UNSUPPORTED_FORMAT, "fixed-size list of structs and lists");
    lk_detail(err, "column %s: fixed-size lists of structs with lists in or around them are not read",
        name == NULL ? "" : name);
    return rc;
}

static lk_rc decode_node(
    walk *self, const lk_field_source *source, struct ArrowArray *out, lk_stream **teller, lk_err *err)
{
    if (source->kind == LK_COLUMN_PLAIN && lk_is_list(source->field)) {
        return decode_list(self, source, out, teller, err);
    }
    if (lk_source_is_vector(source)) {
        return refuse_vector(source, err);
    }
    return lk_source_is_struct(source) ? decode_struct(self, source, out, teller, err)
                                       : decode_leaf(self, source, out, teller, err);
}

lk_rc lk_decode_lists(lk_decoder *decoder, const lk_field_source *source, struct ArrowArray *out, lk_err *err)
{
    walk       self = {.decoder = decoder};
    lk_stream *teller = NULL;
    lk_rc      rc = decode_node(&self, source, out, &teller, err);
    free_stream(teller);
    if (rc == LK_OK && out->release == NULL) {
        rc = lk_decode_nulls(decoder, source->field, decoder->rows, out, err);
    }
    if (rc == LK_OK && (uint64_t)out->length != decoder->rows) {
        out->release(out);
        rc = lk_fail(err, LK_E_CORRUPT_FILE, "a column has other rows than its levels say");
    }
    return rc;
}

/* -- nothing but nulls ------------------------------------------------------------------------------- */
static lk_rc zeros(lk_decoder *decoder, uint64_t size, lk_buffer *out, lk_err *err)
{
    lk_rc rc = lk_buffer_take(decoder->scratch.pool, size, out, err);
    if (rc == LK_OK) {
        memset(out->data, 0, size);
    }
    return rc;
}

static lk_rc null_leaf(
    lk_decoder *decoder, const struct ArrowSchema *field, uint64_t rows, struct ArrowArray *out, lk_err *err)
{
    lk_column           column = {0};
    const lk_thresholds none = {.leaf = 1};
    lk_rc               rc = lk_column_init(&column, field, rows, decoder->scratch.pool, NULL, 0, err);
    if (rc == LK_OK) {
        rc = lk_column_nulls(&column, rows, 1, &none, err);
    }
    if (rc == LK_OK) {
        lk_column_finish(&column, out);
    }
    lk_column_deinit(&column);
    return rc;
}

static lk_rc null_dictionary(
    lk_decoder *decoder, const struct ArrowSchema *field, uint64_t rows, struct ArrowArray *out, lk_err *err)
{
    struct ArrowSchema indices = {.format = field->format, .name = field->name, .flags = ARROW_FLAG_NULLABLE};
    struct ArrowArray  values = {0};
    lk_rc              rc = null_leaf(decoder, field->dictionary, 0, &values, err);
    if (rc == LK_OK) {
        rc = null_leaf(decoder, &indices, rows, out, err);
    }
    if (rc == LK_OK) {
        lk_column_set_dictionary(out, &values);
    } else if (values.release != NULL) {
        values.release(&values);
    }
    return rc;
}

static lk_rc null_vector(
    lk_decoder *decoder, const struct ArrowSchema *field, uint64_t rows, struct ArrowArray *out, lk_err *err)
{
    lk_buffer validity = {0};
    uint64_t  size = 0;
    lk_rc     rc = lk_vector_size(field, rows, &size, err);
    if (rc == LK_OK) {
        rc = zeros(decoder, rows / 8 + 8, &validity, err);
    }
    if (rc != LK_OK) {
        return rc;
    }
    lk_column_node(out, rows, rows, &validity, 1, 1);
    rc = lk_decode_nulls(decoder, field->children[0], rows * size, out->children[0], err);
    if (rc != LK_OK) {
        out->release(out);
    }
    return rc;
}

lk_rc lk_decode_nulls(
    lk_decoder *decoder, const struct ArrowSchema *field, uint64_t rows, struct ArrowArray *out, lk_err *err)
{
    bool      list = lk_is_list(field);
    lk_buffer buffers[2] = {0};
    if (field->dictionary != NULL) {
        return null_dictionary(decoder, field, rows, out, err);
    }
    if (lk_is_vector(field)) {
        return null_vector(decoder, field, rows, out, err);
    }
    if (!list && !lk_is_struct(field)) {
        return null_leaf(decoder, field, rows, out, err);
    }
    unsigned width = field->format[1] == 'L' ? 8 : 4;
    lk_rc    rc = zeros(decoder, rows / 8 + 8, &buffers[0], err);
    if (rc == LK_OK && list) {
        rc = zeros(decoder, (rows + 1) * width, &buffers[1], err);
    }
    if (rc != LK_OK) {
        lk_buffer_give(&buffers[0]);
        return rc;
    }
    lk_column_node(out, rows, rows, buffers, list ? 2 : 1, (size_t)field->n_children);
    for (int64_t child = 0; rc == LK_OK && child < field->n_children; child++) {
        rc = lk_decode_nulls(decoder, field->children[child], list ? 0 : rows, out->children[child], err);
    }
    if (rc != LK_OK) {
        out->release(out);
    }
    return rc;
}
