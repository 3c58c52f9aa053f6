/*
 * fsst_write.c - see fsst_write.h.
 *
 * A symbol of three bytes and more lives in the slot that its first three bytes hash to, one a slot; shorter ones in a
 * table by the next two bytes, which also says what to do when nothing fits: escape.
 */
#include "lance/fsst_write.h"

#include "lance/compress.h"

#include <stdlib.h>

enum {
    SLOT_BITS = 11,
    SLOTS = 1 << SLOT_BITS,
    ROUNDS = 5,
    CODES = 512, /* while training: 256 bytes that are escaped, then symbols */
    PAIR_SLOTS = 1 << 15,
    BEST = 448, /* candidates kept for 255 places: some collide */
    SYMBOL_MAX = LK_FSST_SYMBOL_BYTES,
    LENGTH_SHIFT = 12,
    ESCAPE_FLAG = 1 << 11
};

typedef struct symbol {
    uint64_t value;
    uint8_t  length;
} symbol;

typedef struct slot { /* empty: no word matches */
    uint64_t value, mask;
    uint16_t entry; /* as in shorts */
} slot;

typedef struct candidate {
    symbol   is;
    uint64_t gain;
} candidate;

struct lk_fsst_encoder {
    symbol   symbols[LK_FSST_CODES];
    size_t   count;
    slot     slots[SLOTS];
    uint16_t shorts[65536]; /* by the next two bytes: length, escape or not, code */
    /* training */
    uint32_t  singles[CODES];
    uint64_t  pair_keys[PAIR_SLOTS]; /* 0: free */
    uint32_t  pair_counts[PAIR_SLOTS];
    candidate best[BEST];
    size_t    best_count;
};

lk_fsst_encoder *lk_fsst_encoder_new(void)
{
    lk_fsst_encoder *encoder = calloc(1, sizeof *encoder);
    LK_ASSERT(encoder != NULL);
    return encoder;
}

void lk_fsst_encoder_free(lk_fsst_encoder *encoder)
{
    free(encoder);
}

static uint64_t mask_of(size_t length)
{
    return length >= 8 ? UINT64_MAX : ((uint64_t)1 << (8 * length)) - 1;
}

static size_t slot_of(uint64_t word)
{
    return (size_t)(((word & 0xffffff) * 0x9e3779b97f4a7c15U) >> (64 - SLOT_BITS));
}

/* -- the table ------------------------------------------------------------------------------------------ */
static void clear_table(lk_fsst_encoder *self)
{
    self->count = 0;
    for (size_t at = 0; at < SLOTS; at++) {
        self->slots[at] = (slot){.value = 1, .mask = 0};
    }
    for (size_t word = 0; word < 65536; word++) {
        self->shorts[word] = (uint16_t)(1 << LENGTH_SHIFT | ESCAPE_FLAG | (word & 0xff));
    }
}

static bool is_free(const lk_fsst_encoder *self, const symbol *is)
{
    return is->length < 3 || self->slots[slot_of(is->value)].mask == 0;
}

/* Symbols of two bytes must come after the ones of one, which would write over them. */
static void add_symbol(lk_fsst_encoder *self, const symbol *is)
{
    uint8_t code = (uint8_t)self->count;
    self->symbols[self->count++] = *is;
    if (is->length >= 3) {
        self->slots[slot_of(is->value)] =
            (slot){is->value, mask_of(is->length), (uint16_t)(is->length << LENGTH_SHIFT | code)};
    } else if (is->length == 2) {
        self->shorts[is->value] = (uint16_t)(2 << LENGTH_SHIFT | code);
    } else {
        for (size_t high = 0; high < 256; high++) {
            self->shorts[high << 8 | is->value] = (uint16_t)(1 << LENGTH_SHIFT | code);
        }
    }
}

/* -- coding --------------------------------------------------------------------------------------------- */
/* What to do next: length, escape or not, code. At least two bytes are left. The branch is meant: a processor goes on
 * with what it foretells, while without one every step waits for the last. */
static inline uint32_t next_entry(const lk_fsst_encoder *self, const uint8_t *in, size_t rest)
{
    uint64_t    word = lk_load_u64(in);
    const slot *found = &self->slots[slot_of(word)];
    if ((word & found->mask) == found->value && found->entry >> LENGTH_SHIFT <= rest) {
        return found->entry;
    }
    return self->shorts[word & 0xffff];
}

/* The last byte of a value, which must not go with what follows. */
static inline uint32_t last_entry(const lk_fsst_encoder *self, const uint8_t *in)
{
    uint32_t entry = self->shorts[in[0]]; /* as if a zero followed */
    return entry >> LENGTH_SHIFT == 1 ? entry : 1U << LENGTH_SHIFT | ESCAPE_FLAG | in[0];
}

/* Without a branch: an escape is a code more. */
static inline uint8_t *put_entry(uint32_t entry, uint8_t *to)
{
    uint32_t escape = entry / ESCAPE_FLAG & 1;
    to[0] = (uint8_t)(entry | (0 - escape)); /* 255 */
    to[escape] = (uint8_t)entry;
    return to + 1 + escape;
}

size_t lk_fsst_encode(const lk_fsst_encoder *encoder, const uint8_t *value, size_t size, uint8_t *out)
{
    const uint8_t *end = value + size;
    uint8_t       *to = out;
    while (end - value >= 2) {
        uint32_t entry = next_entry(encoder, value, (size_t)(end - value));
        to = put_entry(entry, to);
        value += entry >> LENGTH_SHIFT;
    }
    if (value < end) {
        to = put_entry(last_entry(encoder, value), to);
    }
    return (size_t)(to - out);
}

/* -- training ------------------------------------------------------------------------------------------- */
/* 256 different escapes: training must tell the bytes apart. */
static size_t training_code(uint32_t entry)
{
    return (entry & ESCAPE_FLAG) != 0 ? entry & 0xff : 256U + (entry & 0xff);
}

static symbol symbol_of(const lk_fsst_encoder *self, size_t code)
{
    return code < 256 ? (symbol){code, 1} : self->symbols[code - 256];
}

static void count_pair(lk_fsst_encoder *self, size_t first, size_t second)
{
    uint64_t key = (first << 9 | second) + 1;
    size_t   at = (size_t)((key * 0x9e3779b97f4a7c15U) >> 49);
    for (size_t tries = 0; tries < 8; tries++, at = (at + 1) % PAIR_SLOTS) {
        if (self->pair_keys[at] == key || self->pair_keys[at] == 0) {
            self->pair_keys[at] = key;
            self->pair_counts[at]++;
            return;
        }
    } /* a full table has its most frequent pairs */
}

static void count_piece(lk_fsst_encoder *self, const uint8_t *in, const uint8_t *end)
{
    size_t before = CODES;
    while (in < end) {
        uint32_t entry = end - in >= 2 ? next_entry(self, in, (size_t)(end - in)) : last_entry(self, in);
        size_t   code = training_code(entry);
        self->singles[code]++;
        if (before < CODES) {
            count_pair(self, before, code);
        }
        if (entry >> LENGTH_SHIFT > 1) { /* its first byte alone, so that symbols can shrink again */
            self->singles[*in]++;
            if (before < CODES) {
                count_pair(self, before, *in);
            }
        }
        before = code;
        in += entry >> LENGTH_SHIFT;
    }
}

/* The least gain is at the root of the heap. */
static void sift_down(candidate *heap, size_t count, size_t at)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count) {
            return;
        }
        child += child + 1 < count && heap[child + 1].gain < heap[child].gain;
        if (heap[at].gain <= heap[child].gain) {
            return;
        }
        candidate moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
        at = child;
    }
}

static void offer(lk_fsst_encoder *self, symbol is, uint64_t gain)
{
    candidate *heap = self->best;
    if (self->best_count < BEST) {
        heap[self->best_count++] = (candidate){is, gain};
        for (size_t at = self->best_count / 2; self->best_count == BEST && at-- > 0;) {
            sift_down(heap, BEST, at);
        }
    } else if (gain > heap[0].gain) {
        heap[0] = (candidate){is, gain};
        sift_down(heap, BEST, 0);
    }
}

static int by_gain(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->gain != b->gain) {
        return a->gain < b->gain ? 1 : -1;
    }
    if (a->is.length != b->is.length) {
        return a->is.length < b->is.length ? 1 : -1;
    }
    return a->is.value < b->is.value ? -1 : a->is.value > b->is.value;
}

static void offer_all(lk_fsst_encoder *self)
{
    self->best_count = 0;
    for (size_t code = 0; code < CODES; code++) {
        if (self->singles[code] > 0) {
            symbol   is = symbol_of(self, code);
            uint64_t weight = is.length == 1 ? 8 : is.length; /* a byte without a symbol costs two */
            offer(self, is, self->singles[code] * weight);
        }
    }
    for (size_t at = 0; at < PAIR_SLOTS; at++) {
        if (self->pair_keys[at] == 0 || self->pair_counts[at] < 2) {
            continue;
        }
        size_t key = (size_t)self->pair_keys[at] - 1;
        symbol first = symbol_of(self, key >> 9), second = symbol_of(self, key & 511);
        if (first.length + second.length <= SYMBOL_MAX) {
            symbol both = {
                first.value | second.value << (8 * first.length), (uint8_t)(first.length + second.length)};
            offer(self, both, (uint64_t)self->pair_counts[at] * both.length);
        }
    }
}

static bool has_symbol(const symbol *chosen, size_t count, const symbol *is)
{
    for (size_t at = 0; at < count; at++) {
        if (chosen[at].value == is->value && chosen[at].length == is->length) {
            return true;
        }
    }
    return false;
}

/* The best candidates become the table. Single bytes go in first: see add_symbol. */
static void choose_symbols(lk_fsst_encoder *self)
{
    symbol   chosen[LK_FSST_ESCAPE];
    size_t   count = 0;
    uint64_t taken[SLOTS / 64] = {0};
    qsort(self->best, self->best_count, sizeof self->best[0], by_gain);
    for (size_t at = 0; at < self->best_count && count < LK_FSST_ESCAPE; at++) {
        const symbol *is = &self->best[at].is;
        size_t        place = slot_of(is->value);
        bool          free_slot = is->length < 3 || (taken[place / 64] >> place % 64 & 1) == 0;
        if (free_slot && !has_symbol(chosen, count, is)) {
            chosen[count++] = *is;
            taken[place / 64] |= is->length < 3 ? 0 : (uint64_t)1 << place % 64;
        }
    }
    clear_table(self);
    for (int longer = 0; longer < 2; longer++) {
        for (size_t at = 0; at < count; at++) {
            if ((chosen[at].length > 1) == longer && is_free(self, &chosen[at])) {
                add_symbol(self, &chosen[at]);
            }
        }
    }
}

void lk_fsst_train(lk_fsst_encoder *self, lk_bytes sample, const uint32_t *ends, size_t count)
{
    uint8_t *bytes = calloc(1, sample.size + 8); /* words are loaded behind the end */
    LK_ASSERT(bytes != NULL);
    memcpy(bytes, sample.data, sample.size);
    clear_table(self);
    for (int round = 0; round < ROUNDS; round++) {
        memset(self->singles, 0, sizeof self->singles);
        memset(self->pair_keys, 0, sizeof self->pair_keys);
        memset(self->pair_counts, 0, sizeof self->pair_counts);
        for (size_t piece = 0; piece < count; piece++) {
            count_piece(self, bytes + (piece == 0 ? 0 : ends[piece - 1]), bytes + ends[piece]);
        }
        offer_all(self);
        choose_symbols(self);
    }
    free(bytes);
}

void lk_fsst_put_table(const lk_fsst_encoder *encoder, lk_buf *out)
{
    size_t   at = out->size, count = encoder->count;
    uint64_t header = (uint64_t)0x46535354 << 32 | (uint64_t)1 << 24 | count; /* "FSST", coded, symbols */
    lk_buf_append_zeros(out, LK_FSST_TABLE_BYTES);
    lk_store_u64(out->data + at, header);
    for (size_t code = 0; code < count; code++) {
        lk_store_u64(out->data + at + 8 + code * 8, encoder->symbols[code].value);
        out->data[at + 8 + count * 8 + code] = (char)encoder->symbols[code].length;
    }
}
