/*
 * rollout_repeat.c - requests that may come again carry an Idempotency-Key: for ten minutes this instance answers the same
 * request of that key as it answered the first. Only success is remembered: whoever failed may try again. A request that
 * comes while the first is at work waits for its answer, without a thread.
 *
 *   begun --finish, 201--> remembered --ten minutes, or too many--> gone
 *     '-----finish, failure--> gone
 *
 * Threads: shared; mutex guards the table.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "serve/rollout_add.h"

#include <stdlib.h>

enum {
    KEY_BYTES_MAX = 256,
    REMEMBER_MS = 10 * 60 * 1000,
    BUCKETS = 1024,
    BYTES_MAX = 64 * 1024 * 1024 /* of remembered answers with what is around them: the oldest go first */
};

typedef struct waiter {
    struct waiter    *next;
    lk_http_exchange *exchange; /* this lies in its arena */
} waiter;

struct rollout_repeat {
    struct rollout_repeat *next;            /* of its bucket */
    struct rollout_repeat *older, *younger; /* of those that are remembered */
    uint8_t                name[LK_SHA256_SIZE], body[LK_SHA256_SIZE];
    uint64_t               until_ms;
    waiter                *waiters;
    lk_buf                 answer; /* of a 201 */
    bool                   done;
};

struct rollout_repeats {
    lk_mutex               mutex;
    struct rollout_repeat *buckets[BUCKETS]; /* guarded by mutex, as are the following */
    struct rollout_repeat *oldest, *youngest;
    size_t                 bytes;
};

struct rollout_repeats *rollout_repeats_new(void)
{
    struct rollout_repeats *repeats = calloc(1, sizeof *repeats);
    LK_ASSERT(repeats != NULL);
    lk_mutex_init(&repeats->mutex, LK_RANK_ADMISSION);
    return repeats;
}

static struct rollout_repeat **bucket_of(struct rollout_repeats *repeats, const uint8_t *name)
{
    return &repeats->buckets[lk_load_u16(name) % BUCKETS];
}

/* Takes it out of its bucket. */
static void unlink_repeat(struct rollout_repeats *repeats, struct rollout_repeat *r)
{
    struct rollout_repeat **at = bucket_of(repeats, r->name);
    while (*at != r) {
        at = &(*at)->next;
    }
    *at = r->next;
}

static size_t cost(const struct rollout_repeat *r)
{
    return sizeof *r + r->answer.size;
}

static void forget_oldest(struct rollout_repeats *repeats)
{
    struct rollout_repeat *r = repeats->oldest;
    repeats->oldest = r->younger;
    if (r->younger == NULL) {
        repeats->youngest = NULL;
    } else {
        r->younger->older = NULL;
    }
    repeats->bytes -= cost(r);
    unlink_repeat(repeats, r);
    lk_buf_deinit(&r->answer);
    free(r);
}

static void forget_expired(struct rollout_repeats *repeats, uint64_t now_ms)
{
    while (repeats->oldest != NULL && (repeats->oldest->until_ms <= now_ms || repeats->bytes > BYTES_MAX)) {
        forget_oldest(repeats);
    }
}

void rollout_repeats_free(struct rollout_repeats *repeats)
{
    if (repeats == NULL) {
        return;
    }
    while (repeats->oldest != NULL) {
        forget_oldest(repeats);
    }
    lk_mutex_deinit(&repeats->mutex);
    free(repeats);
}

static uint64_t now_ms(void)
{
    return lk_clock_monotonic_ms(lk_clock_real());
}

/* What the request is: its path and key, and its body. */
static void identify(const rollout_call *call, lk_bytes key, struct rollout_repeat *out)
{
    lk_sha256 hash;
    lk_bytes  path = lk_http_request(call->exchange)->path;
    lk_sha256_init(&hash);
    lk_sha256_update(&hash, path.data, path.size);
    lk_sha256_update(&hash, "", 1);
    lk_sha256_update(&hash, key.data, key.size);
    lk_sha256_final(&hash, out->name);
    lk_sha256_of(lk_http_body(call->exchange), out->body);
}

static struct rollout_repeat *find(struct rollout_repeats *repeats, const uint8_t *name)
{
    struct rollout_repeat *r = *bucket_of(repeats, name);
    while (r != NULL && memcmp(r->name, name, LK_SHA256_SIZE) != 0) {
        r = r->next;
    }
    return r;
}

typedef enum outcome { FRESH, OTHER_BODY, WAITS, REMEMBERED } outcome;

/* Under the mutex. fresh is put in when the key is new; answer is a copy of what is remembered. */
static outcome look_up(rollout_call *call, struct rollout_repeat *fresh, lk_buf *answer)
{
    struct rollout_repeats *repeats = call->service->repeats;
    forget_expired(repeats, now_ms());
    struct rollout_repeat *known = find(repeats, fresh->name);
    if (known == NULL) {
        struct rollout_repeat **bucket = bucket_of(repeats, fresh->name);
        fresh->next = *bucket;
        *bucket = fresh;
        return FRESH;
    }
    if (memcmp(known->body, fresh->body, LK_SHA256_SIZE) != 0) {
        return OTHER_BODY;
    }
    if (known->done) {
        lk_buf_append_bytes(answer, lk_buf_view(&known->answer));
        return REMEMBERED;
    }
    waiter *w = lk_arena_take(call->arena, sizeof *w);
    *w = (waiter){known->waiters, call->exchange};
    known->waiters = w;
    return WAITS;
}

lk_rc rollout_repeat_begin(rollout_call *call, struct rollout_repeat **out, bool *answered, lk_err *err)
{
    struct rollout_repeats *repeats = call->service->repeats;
    lk_bytes                key = {0};
    lk_buf                  answer = {0};
    *out = NULL;
    *answered = false;
    if (!lk_http_head_field(lk_http_request(call->exchange), "idempotency-key", &key)) {
        return LK_OK;
    }
    if (key.size == 0 || key.size > KEY_BYTES_MAX) {
        return lk_refuse(err, LK_E_INVALID_REQUEST, "an Idempotency-Key has 1 to %d bytes", KEY_BYTES_MAX);
    }
    struct rollout_repeat *fresh = calloc(1, sizeof *fresh);
    LK_ASSERT(fresh != NULL);
    identify(call, key, fresh);
    lk_mutex_lock(&repeats->mutex);
    outcome found = look_up(call, fresh, &answer);
    lk_mutex_unlock(&repeats->mutex);
    if (found == FRESH) {
        *out = fresh;
        return LK_OK;
    }
    free(fresh);
    if (found == OTHER_BODY) {
        return lk_refuse(err, LK_E_CONFLICT, "this Idempotency-Key came before, with another body");
    }
    *answered = true;
    if (found == REMEMBERED) {
        lk_http_answer(call->exchange, 201, "application/json", &answer);
    }
    return LK_OK;
}

/* It is the youngest of those that are remembered now. Under the mutex. */
static void remember(struct rollout_repeats *repeats, struct rollout_repeat *r, lk_bytes body)
{
    lk_buf_append_bytes(&r->answer, body);
    r->done = true;
    r->until_ms = now_ms() + REMEMBER_MS;
    r->older = repeats->youngest;
    if (repeats->youngest == NULL) {
        repeats->oldest = r;
    } else {
        repeats->youngest->younger = r;
    }
    repeats->youngest = r;
    repeats->bytes += cost(r);
}

void rollout_repeat_finish(lk_rollout_service *s, struct rollout_repeat *r, int status, lk_bytes body)
{
    if (r == NULL) {
        return;
    }
    struct rollout_repeats *repeats = s->repeats;
    lk_mutex_lock(&repeats->mutex);
    waiter *waiters = r->waiters;
    r->waiters = NULL;
    if (status == 201) {
        remember(repeats, r, body);
    } else {
        unlink_repeat(repeats, r);
    }
    lk_mutex_unlock(&repeats->mutex);
    if (status != 201) {
        free(r);
    }
    for (waiter *w = waiters, *next; w != NULL; w = next) {
        lk_buf copy = {0};
        next = w->next; /* it lies in the exchange that is answered now */
        lk_buf_append_bytes(&copy, body);
        if (status == 429 || status == 503) {
            lk_http_add_field(w->exchange, "Retry-After", LK_LITERAL("1"));
        }
        lk_http_answer(w->exchange, status, "application/json", &copy);
    }
}
