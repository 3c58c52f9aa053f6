/*
 * gate.c - the network between a process and the bucket, as an lk_store. A write may get lost, be done without an answer,
 * or be done long after its sender gave up; everything may take its time while others run.
 */
#include "checks.h"
#include "lance/manifest.h"
#include "sim.h"
#include "world.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static process *process_of(lk_store *store)
{
    return (process *)(void *)((char *)store - offsetof(process, gate));
}

static lk_rc lost(const process *p, bool write, const char *call, lk_err *err)
{
    lk_rc rc = lk_fail(err, LK_E_STORE_UNAVAILABLE, "simulated: %s", call);
    err->maybe_applied = write && p->w->rule != RULE_UNKNOWN;
    return rc;
}

static bool is_manifest(lk_bytes key)
{
    return lk_bytes_starts(key, LK_LITERAL("_mem_wal/")) && key.size > 6 &&
           memcmp(key.data + key.size - 6, ".binpb", 6) == 0;
}

/* The version of a manifest of the table, by its name; 0: it is none. */
static uint64_t base_version(lk_bytes key)
{
    uint64_t number = 0;
    size_t   at = sizeof "_versions/" - 1;
    if (!lk_bytes_starts(key, LK_LITERAL("_versions/")) || key.size != at + 20 + sizeof ".manifest" - 1) {
        return 0;
    }
    for (size_t i = 0; i < 20; i++) {
        number = number * 10 + (uint64_t)(key.data[at + i] - '0');
    }
    return UINT64_MAX - number;
}

/* -- writes ----------------------------------------------------------------------------------------------------------- */

/* Now it is done. False: there was one already. */
static bool apply(world *w, lk_bytes key, lk_bytes bytes, bool blind)
{
    if (!blind && disk_find(&w->bucket, key) != NULL) {
        return false;
    }
    if (is_manifest(key) && bytes.size == 0) {
        check_emptied(w, key);
        if (w->rule == RULE_NAMES) {
            disk_remove(&w->bucket, key);
        } else {
            disk_put(&w->bucket, key, bytes, sim_wall_ms());
        }
        return true;
    }
    disk_put(&w->bucket, key, bytes, sim_wall_ms());
    if (is_manifest(key)) {
        check_manifest(w, key, bytes);
    } else if (base_version(key) > 0) {
        check_base(w, base_version(key));
    }
    return true;
}

typedef struct parcel { /* a write on its way; never freed while a dead sender may wait for it */
    world   *w;
    lk_buf   key, bytes;
    bool     blind;
    uint64_t delay_ms;
} parcel;

static void deliver(void *context)
{
    parcel *l = context;
    sim_sleep(l->delay_ms);
    bool done = apply(l->w, lk_buf_view(&l->key), lk_buf_view(&l->bytes), l->blind);
    sim_trace(
        &l->w->report, "late %s: %.*s", done ? "arrival" : "and too late", LK_FMT(lk_buf_view(&l->key)));
    lk_buf_deinit(&l->key);
    lk_buf_deinit(&l->bytes);
    free(l);
}

static void send_late(world *w, lk_bytes key, lk_bytes bytes, bool blind, uint64_t delay_ms)
{
    parcel *l = calloc(1, sizeof *l);
    LK_ASSERT(l != NULL);
    *l = (parcel){.w = w, .blind = blind, .delay_ms = delay_ms};
    lk_buf_append_bytes(&l->key, key);
    lk_buf_append_bytes(&l->bytes, bytes);
    w->late++;
    sim_spawn(SIM_NO_GROUP, deliver, l);
}

/* Rules that are left out: what is told done is done later. */
static bool postponed(const process *p, lk_bytes key)
{
    bool file = strstr(key.data, "_gen_") != NULL && sim_chance(4);
    return (p->w->rule == RULE_DRAIN && base_version(key) > 2) || (p->w->rule == RULE_FILES && file);
}

static void note_claim(process *p, lk_bytes bytes)
{
    lk_arena          arena = {0};
    lk_err            err = {0};
    lk_shard_manifest manifest;
    if (lk_shard_manifest_decode(bytes, &arena, &manifest, &err) == LK_OK) {
        p->claimed = manifest.writer_epoch > p->claimed ? manifest.writer_epoch : p->claimed;
    }
    lk_arena_close(&arena);
}

/* key ends with a NUL. */
static lk_rc send(
    process *p, const char *call, lk_bytes key, lk_bytes bytes, bool blind, bool *created, lk_err *err)
{
    world *w = p->w;
    *created = true;
    world_network(w);
    if (w->chaos && sim_chance(70)) {
        sim_trace(&w->report, "lost: %.*s", LK_FMT(key));
        return lost(p, true, call, err);
    }
    if (w->chaos && sim_chance(60)) {
        send_late(w, key, bytes, blind, sim_random(25000));
        sim_trace(&w->report, "delayed: %.*s", LK_FMT(key));
        sim_sleep(sim_random(5000));
        return lost(p, true, call, err);
    }
    if (postponed(p, key)) {
        send_late(w, key, bytes, blind, 1000 + sim_random(3000));
        return LK_OK;
    }
    *created = apply(w, key, bytes, blind);
    if (*created && !blind) {
        sim_trace(&w->report, "put %.*s", LK_FMT(key));
    }
    if (*created && is_manifest(key)) {
        note_claim(p, bytes);
    }
    world_network(w);
    if (w->chaos && sim_chance(70)) {
        sim_trace(&w->report, "no answer: %.*s", LK_FMT(key));
        return lost(p, true, call, err);
    }
    return LK_OK;
}

static lk_rc gate_put(lk_store *store, lk_bytes key, lk_bytes bytes, bool *created, lk_err *err)
{
    process *p = process_of(store);
    lk_arena arena = {0};
    lk_bytes text = lk_bytes_of(lk_arena_text(&arena, key));
    bool     blind = p->w->rule == RULE_ABSENT && is_manifest(key);
    lk_rc    rc = send(p, "put", text, bytes, blind, created, err);
    lk_arena_close(&arena);
    return rc;
}

static lk_rc gate_replace(lk_store *store, lk_bytes key, lk_bytes bytes, lk_err *err)
{
    lk_arena arena = {0};
    bool     created = false;
    lk_rc    rc = send(
           process_of(store), "replace", lk_bytes_of(lk_arena_text(&arena, key)), bytes, true, &created, err);
    lk_arena_close(&arena);
    return rc;
}

typedef struct gate_writer {
    lk_store_writer base;
    lk_buf          key, bytes;
} gate_writer;

static lk_rc gate_create(lk_store *store, lk_bytes key, lk_store_writer **out, lk_err *err)
{
    (void)err;
    gate_writer *writer = calloc(1, sizeof *writer);
    LK_ASSERT(writer != NULL);
    writer->base.store = store;
    lk_buf_append_bytes(&writer->key, key);
    lk_buf_append_text(&writer->key, "");
    *out = &writer->base;
    return LK_OK;
}

static lk_rc gate_write(lk_store_writer *base, const void *data, size_t size, lk_err *err)
{
    (void)err;
    lk_buf_append(&((gate_writer *)base)->bytes, data, size);
    return LK_OK;
}

static void gate_abandon(lk_store_writer *base)
{
    gate_writer *writer = (gate_writer *)base;
    lk_buf_deinit(&writer->key);
    lk_buf_deinit(&writer->bytes);
    free(writer);
}

static lk_rc gate_finish(lk_store_writer *base, lk_err *err)
{
    gate_writer *writer = (gate_writer *)base;
    process     *p = process_of(base->store);
    bool         created = false;
    lk_rc        rc =
        send(p, "finish", lk_buf_view(&writer->key), lk_buf_view(&writer->bytes), false, &created, err);
    if (rc == LK_OK && !created) {
        rc = lk_fail(err, LK_E_CONFLICT, "simulated: the object is there");
    }
    gate_abandon(base);
    return rc;
}

static lk_rc gate_remove(lk_store *store, lk_bytes key, lk_err *err)
{
    process *p = process_of(store);
    world_network(p->w);
    if (p->w->chaos && sim_chance(100)) {
        return lost(p, true, "remove", err);
    }
    check_removal(p->w, key);
    disk_remove(&p->w->bucket, key);
    return LK_OK;
}

/* One object after the other, as a bucket does it. */
static lk_rc gate_remove_tree(lk_store *store, lk_bytes directory, lk_err *err)
{
    process *p = process_of(store);
    lk_buf   prefix = {0};
    lk_rc    rc = LK_OK;
    lk_buf_format(&prefix, "%.*s/", LK_FMT(directory));
    sim_trace(&p->w->report, "removes %.*s", LK_FMT(directory));
    for (bool more = true; rc == LK_OK && more;) {
        world_network(p->w);
        const disk *d = &p->w->bucket;
        size_t      at = disk_from(d, lk_buf_view(&prefix));
        more = at < d->count && disk_has_prefix(&d->objects[at], lk_buf_view(&prefix));
        if (more) {
            lk_arena arena = {0};
            rc = gate_remove(store, lk_arena_copy(&arena, lk_bytes_of(d->objects[at].key)), err);
            lk_arena_close(&arena);
        }
    }
    lk_buf_deinit(&prefix);
    return rc;
}

/* -- reads ------------------------------------------------------------------------------------------------------------ */

typedef struct gate_reader {
    lk_store_reader base;
    lk_buf          key;
    lk_buf          changed; /* RULE_FENCE: what is told instead */
} gate_reader;

/* Whether an object is told to be there. */
static bool is_hidden(const process *p, lk_bytes key)
{
    return p->w->rule == RULE_ORDER && p->pod == PODS && base_version(key) > p->base_before;
}

static void clip_epoch(const process *p, lk_bytes bytes, lk_buf *out)
{
    lk_arena          arena = {0};
    lk_err            err = {0};
    lk_shard_manifest manifest;
    if (lk_shard_manifest_decode(bytes, &arena, &manifest, &err) == LK_OK && p->claimed > 0 &&
        manifest.writer_epoch > p->claimed) {
        manifest.writer_epoch = p->claimed;
        lk_shard_manifest_encode(&manifest, out);
    }
    lk_arena_close(&arena);
}

static lk_rc gate_open_object(
    lk_store *store, lk_bytes key, lk_store_reader **out, uint64_t *size, lk_err *err)
{
    process *p = process_of(store);
    world_network(p->w);
    if (p->w->chaos && sim_chance(250)) {
        return lost(p, false, "open", err);
    }
    const disk_object *object = is_hidden(p, key) ? NULL : disk_find(&p->w->bucket, key);
    if (object == NULL) {
        return lk_refuse(err, LK_E_NOT_FOUND, "%.*s", LK_FMT(key));
    }
    gate_reader *reader = calloc(1, sizeof *reader);
    LK_ASSERT(reader != NULL);
    reader->base.store = store;
    lk_buf_append_bytes(&reader->key, key);
    if (p->w->rule == RULE_FENCE && is_manifest(key)) {
        clip_epoch(p, object->bytes, &reader->changed);
    }
    *size = reader->changed.size > 0 ? reader->changed.size : object->bytes.size;
    *out = &reader->base;
    return LK_OK;
}

/* An object that was removed after it was opened is gone, as it is from a bucket. */
static lk_rc gate_read(lk_store_reader *base, const lk_store_range *ranges, size_t count, lk_err *err)
{
    gate_reader *reader = (gate_reader *)base;
    process     *p = process_of(base->store);
    world_network(p->w);
    if (p->w->chaos && sim_chance(250)) {
        return lost(p, false, "read", err);
    }
    const disk_object *object = disk_find(&p->w->bucket, lk_buf_view(&reader->key));
    if (object == NULL) {
        return lk_refuse(err, LK_E_NOT_FOUND, "%.*s", LK_FMT(lk_buf_view(&reader->key)));
    }
    lk_bytes bytes = reader->changed.size > 0 ? lk_buf_view(&reader->changed) : object->bytes;
    for (size_t i = 0; i < count; i++) {
        if (ranges[i].offset > bytes.size || ranges[i].size > bytes.size - ranges[i].offset) {
            return lk_fail(err, LK_E_CORRUPT_FILE, "a range past the end of %s", object->key);
        }
        memcpy(ranges[i].out, bytes.data + ranges[i].offset, ranges[i].size);
    }
    return LK_OK;
}

static void gate_reader_close(lk_store_reader *base)
{
    gate_reader *reader = (gate_reader *)base;
    lk_buf_deinit(&reader->key);
    lk_buf_deinit(&reader->changed);
    free(reader);
}

static void add_entry(
    const disk_object *object, size_t prefix_size, lk_arena *arena, lk_store_entry *entries, size_t *count)
{
    const char *rest = object->key + prefix_size, *slash = strchr(rest, '/');
    size_t      size = slash == NULL ? strlen(rest) : (size_t)(slash - rest);
    bool        same = *count > 0 && entries[*count - 1].is_directory && slash != NULL &&
                lk_bytes_equal(entries[*count - 1].name, (lk_bytes){rest, size});
    if (!same) {
        entries[(*count)++] = (lk_store_entry){.name = lk_arena_copy(arena, (lk_bytes){rest, size}),
            .is_directory = slash != NULL,
            .size = slash == NULL ? object->bytes.size : 0,
            .modified_ms = slash == NULL ? object->modified_ms : 0};
    }
}

static lk_rc gate_list(lk_store *store, lk_bytes directory, lk_arena *arena, lk_store_entry **entries,
    size_t *count, lk_err *err)
{
    process *p = process_of(store);
    world_network(p->w);
    if (p->w->chaos && sim_chance(200)) {
        return lost(p, false, "list", err);
    }
    const disk *d = &p->w->bucket;
    lk_buf      prefix = {0};
    if (directory.size > 0) {
        lk_buf_format(&prefix, "%.*s/", LK_FMT(directory));
    }
    if (lk_bytes_equal(directory, LK_LITERAL("_mem_wal"))) {
        p->base_before = p->w->base_version;
    }
    size_t from = disk_from(d, lk_buf_view(&prefix)), to = from;
    while (to < d->count && disk_has_prefix(&d->objects[to], lk_buf_view(&prefix))) {
        to++;
    }
    *entries = lk_arena_take(arena, (to - from + 1) * sizeof **entries);
    *count = 0;
    for (size_t i = from; i < to; i++) {
        if (!is_hidden(p, lk_bytes_of(d->objects[i].key))) {
            add_entry(&d->objects[i], prefix.size, arena, *entries, count);
        }
    }
    lk_buf_deinit(&prefix);
    world_network(p->w);
    return LK_OK;
}

static void gate_close(lk_store *store)
{
    (void)store;
}

static const struct lk_store_ops gate_ops = {
    .open = gate_open_object,
    .read = gate_read,
    .reader_close = gate_reader_close,
    .create = gate_create,
    .write = gate_write,
    .finish = gate_finish,
    .abandon = gate_abandon,
    .put_if_absent = gate_put,
    .list = gate_list,
    .replace = gate_replace,
    .remove = gate_remove,
    .remove_tree = gate_remove_tree,
    .close = gate_close,
};

void gate_open(process *p)
{
    p->gate = (lk_store){.ops = &gate_ops, .uri = LK_LITERAL("sim://bucket")};
}
