/* ticket.c - see ticket.h. Plaintext: u64 issued, u64 expires, then texts, each u32 size and bytes: principal,
 * tenant, sql; u32 table count; per table ns, name, engine, location, incarnation and u64 version. */
#include "query/ticket.h"

#include "base/crypt.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/limits.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    KEY_ID_SIZE = 16,
    HEADER_SIZE = 4 + 1 + KEY_ID_SIZE + LK_AEAD_NONCE_SIZE,
    VERSION = 4,
    FILE_MAX = 64 * 1024
};

static const char *const audiences[] = {"lake-query-statement-v1", "lake-query-prepared-v1"};
enum { AUDIENCES = sizeof audiences / sizeof audiences[0] };

typedef struct key {
    uint8_t id[KEY_ID_SIZE];
    uint8_t seal[AUDIENCES][LK_AEAD_KEY_SIZE];
} key;

struct lk_ticket_keys {
    lk_random *random;
    size_t     count; /* keys[0] seals */
    key        keys[LK_TICKET_KEYS_MAX];
};

/* -- keys ------------------------------------------------------------------------------------------ */
static lk_rc add_key(lk_ticket_keys *keys, lk_bytes secret, lk_err *err)
{
    if (secret.size < LK_TICKET_SECRET_MIN || secret.size > LK_TICKET_SECRET_MAX) {
        return lk_fail(err, LK_E_INVALID_CONFIG, "a ticket secret must have %d..%d bytes",
            LK_TICKET_SECRET_MIN, LK_TICKET_SECRET_MAX);
    }
    if (keys->count == LK_TICKET_KEYS_MAX) {
        return lk_fail(err, LK_E_INVALID_CONFIG, "more than %d ticket keys", LK_TICKET_KEYS_MAX);
    }
    key *k = &keys->keys[keys->count];
    for (size_t i = 0; i < AUDIENCES; i++) {
        lk_hkdf_sha256(secret, lk_bytes_of(audiences[i]), k->seal[i], sizeof k->seal[i]);
    }
    lk_hkdf_sha256(secret, LK_LITERAL("lake-query-ticket-key-id-v1"), k->id, sizeof k->id);
    for (size_t i = 0; i < keys->count; i++) {
        if (memcmp(keys->keys[i].id, k->id, KEY_ID_SIZE) == 0) {
            return lk_fail(err, LK_E_INVALID_CONFIG, "a ticket key is given twice");
        }
    }
    keys->count++;
    return LK_OK;
}

static lk_rc check_protected(const char *path, lk_err *err)
{
    struct stat status;
    if (lstat(path, &status) != 0 || !S_ISREG(status.st_mode) || (status.st_mode & 077) != 0) {
        return lk_fail(err, LK_E_INVALID_CONFIG, "%s must be a regular file with mode 0600", path);
    }
    return LK_OK;
}

static lk_rc load_ring(lk_ticket_keys *keys, const char *path, lk_err *err)
{
    lk_arena            arena = {0};
    lk_buf              text = {0};
    lk_bytes            active = {0};
    lk_json_texts       verification = {0};
    const lk_json_field fields[] = {
        {.name = "active", .type = LK_JSON_TEXT, .target = &active},
        {.name = "verification", .type = LK_JSON_TEXTS, .target = &verification, .optional = true},
    };
    lk_rc rc = check_protected(path, err);
    if (rc == LK_OK) {
        rc = lk_file_read(path, FILE_MAX, &text, err);
    }
    if (rc == LK_OK) {
        rc = lk_json_read(lk_buf_view(&text), fields, sizeof fields / sizeof fields[0], &arena, err);
    }
    if (rc == LK_OK) {
        rc = add_key(keys, active, err);
    }
    for (size_t i = 0; rc == LK_OK && i < verification.count; i++) {
        rc = add_key(keys, verification.items[i], err);
    }
    if (rc != LK_OK) {
        lk_context(err, "ticket keys file %s", path);
        err->rc = rc = LK_E_INVALID_CONFIG;
    }
    if (text.data != NULL) {
        lk_wipe(text.data, text.size);
    }
    lk_buf_deinit(&text);
    lk_arena_close(&arena);
    return rc;
}

lk_rc lk_ticket_keys_open(lk_ticket_keys **out, const char *path, lk_random *random, lk_err *err)
{
    lk_ticket_keys *keys = calloc(1, sizeof *keys);
    LK_ASSERT(keys != NULL);
    keys->random = random;
    lk_rc rc = LK_OK;
    if (path != NULL) {
        rc = load_ring(keys, path, err);
    } else {
        char secret[LK_TICKET_SECRET_MIN];
        random->fill(random, secret, sizeof secret);
        rc = add_key(keys, (lk_bytes){secret, sizeof secret}, err);
        lk_wipe(secret, sizeof secret);
    }
    if (rc != LK_OK) {
        lk_ticket_keys_close(keys);
        return rc;
    }
    *out = keys;
    return LK_OK;
}

void lk_ticket_keys_close(lk_ticket_keys *keys)
{
    if (keys != NULL) {
        lk_wipe(keys, sizeof *keys);
        free(keys);
    }
}

/* -- seal ------------------------------------------------------------------------------------------ */
static void put_u32(lk_buf *out, size_t value)
{
    LK_ASSERT(value <= UINT32_MAX);
    char bytes[4];
    lk_store_u32(bytes, (uint32_t)value);
    lk_buf_append(out, bytes, sizeof bytes);
}

static void put_u64(lk_buf *out, uint64_t value)
{
    char bytes[8];
    lk_store_u64(bytes, value);
    lk_buf_append(out, bytes, sizeof bytes);
}

static void put_text(lk_buf *out, lk_bytes text)
{
    put_u32(out, text.size);
    lk_buf_append_bytes(out, text);
}

static void encode(const lk_principal *who, const lk_ticket *ticket, uint64_t now, uint64_t ttl, lk_buf *out)
{
    put_u64(out, now);
    put_u64(out, now + ttl);
    put_text(out, who->id);
    put_text(out, who->tenant);
    put_text(out, ticket->sql);
    put_u32(out, ticket->table_count);
    for (size_t i = 0; i < ticket->table_count; i++) {
        const lk_ticket_table *table = &ticket->tables[i];
        put_text(out, table->ns);
        put_text(out, table->name);
        put_text(out, table->engine);
        put_text(out, table->location);
        put_text(out, table->incarnation);
        put_u64(out, table->version);
    }
}

static void append_associated(lk_buf *out, const char *header, lk_audience audience)
{
    lk_buf_append(out, header, HEADER_SIZE);
    lk_buf_append_text(out, audiences[audience]);
}

void lk_ticket_seal(lk_ticket_keys *keys, lk_audience audience, const lk_principal *who,
    const lk_ticket *ticket, lk_clock *clock, uint64_t ttl_secs, lk_buf *out)
{
    const key *k = &keys->keys[0];
    lk_buf     plain = {0}, associated = {0};
    char       header[HEADER_SIZE] = {'L', 'Q', 'T', 'K', VERSION};
    char      *nonce = header + 5 + KEY_ID_SIZE;

    LK_ASSERT(ticket->table_count <= LK_STATEMENT_TABLES_MAX);
    memcpy(header + 5, k->id, KEY_ID_SIZE);
    keys->random->fill(keys->random, nonce, LK_AEAD_NONCE_SIZE);
    encode(who, ticket, lk_clock_wall_ms(clock) / 1000, ttl_secs, &plain);
    append_associated(&associated, header, audience);
    lk_buf_append(out, header, HEADER_SIZE);
    lk_aead_seal(
        k->seal[audience], (const uint8_t *)nonce, lk_buf_view(&associated), lk_buf_view(&plain), out);
    lk_buf_deinit(&plain);
    lk_buf_deinit(&associated);
}

/* -- open ------------------------------------------------------------------------------------------ */
typedef struct cursor {
    lk_bytes left;
    bool     ok; /* false once anything ran past the end */
} cursor;

static const char *get(cursor *c, size_t size)
{
    static const char zeros[8];
    if (!c->ok || c->left.size < size) {
        c->ok = false;
        return zeros;
    }
    const char *at = c->left.data;
    c->left = (lk_bytes){at + size, c->left.size - size};
    return at;
}

static uint64_t get_u64(cursor *c)
{
    return lk_load_u64(get(c, 8));
}
static uint32_t get_u32(cursor *c)
{
    return lk_load_u32(get(c, 4));
}

static lk_bytes get_text(cursor *c)
{
    uint32_t    size = get_u32(c);
    const char *at = get(c, size);
    return c->ok ? (lk_bytes){at, size} : (lk_bytes){0};
}

static int compare_tables(const lk_ticket_table *a, const lk_ticket_table *b)
{
    int order = lk_bytes_compare(a->ns, b->ns);
    order = order != 0 ? order : lk_bytes_compare(a->name, b->name);
    order = order != 0 ? order : lk_bytes_compare(a->incarnation, b->incarnation);
    return order != 0 ? order : (a->version > b->version) - (a->version < b->version);
}

static bool decode_tables(cursor *c, lk_arena *arena, lk_ticket *out)
{
    out->table_count = get_u32(c);
    if (!c->ok || out->table_count > LK_STATEMENT_TABLES_MAX) {
        return false;
    }
    lk_ticket_table *tables = lk_arena_take(arena, (out->table_count + 1) * sizeof *tables);
    out->tables = tables;
    for (size_t i = 0; i < out->table_count; i++) {
        tables[i].ns = get_text(c);
        tables[i].name = get_text(c);
        tables[i].engine = get_text(c);
        tables[i].location = get_text(c);
        tables[i].incarnation = get_text(c);
        tables[i].version = get_u64(c);
        if (!c->ok || (i > 0 && compare_tables(&tables[i - 1], &tables[i]) >= 0)) {
            return false;
        }
    }
    return c->ok && c->left.size == 0;
}

static bool decode(lk_bytes plain, const lk_principal *who, uint64_t now, lk_arena *arena, lk_ticket *out)
{
    cursor c = {plain, true};
    out->issued_at_secs = get_u64(&c);
    out->expires_at_secs = get_u64(&c);
    lk_bytes principal = get_text(&c), tenant = get_text(&c);
    out->sql = get_text(&c);
    return c.ok && lk_equal_constant_time(principal, who->id) &&
           lk_equal_constant_time(tenant, who->tenant) && out->issued_at_secs <= now + LK_TICKET_SKEW_SECS &&
           out->expires_at_secs > now && out->expires_at_secs >= out->issued_at_secs && out->sql.size > 0 &&
           decode_tables(&c, arena, out);
}

static const key *find_key(const lk_ticket_keys *keys, const char *id)
{
    for (size_t i = 0; i < keys->count; i++) {
        if (memcmp(keys->keys[i].id, id, KEY_ID_SIZE) == 0) {
            return &keys->keys[i];
        }
    }
    return NULL;
}

static bool unseal(lk_ticket_keys *keys, lk_audience audience, lk_bytes sealed, lk_buf *plain)
{
    static const char magic[] = {'L', 'Q', 'T', 'K', VERSION};
    if (sealed.size < HEADER_SIZE + LK_AEAD_TAG_SIZE || memcmp(sealed.data, magic, sizeof magic) != 0) {
        return false;
    }
    const key *k = find_key(keys, sealed.data + 5);
    if (k == NULL) {
        return false;
    }
    lk_buf associated = {0};
    append_associated(&associated, sealed.data, audience);
    bool ok = lk_aead_open(k->seal[audience], (const uint8_t *)sealed.data + 5 + KEY_ID_SIZE,
        lk_buf_view(&associated), (lk_bytes){sealed.data + HEADER_SIZE, sealed.size - HEADER_SIZE}, plain);
    lk_buf_deinit(&associated);
    return ok;
}

lk_rc lk_ticket_open(lk_ticket_keys *keys, lk_audience audience, const lk_principal *who, lk_bytes sealed,
    lk_clock *clock, lk_arena *arena, lk_ticket *out, lk_err *err)
{
    lk_buf    plain = {0};
    lk_ticket ticket = {0};
    bool ok = unseal(keys, audience, sealed, &plain) && decode(lk_arena_copy(arena, lk_buf_view(&plain)), who,
                                                            lk_clock_wall_ms(clock) / 1000, arena, &ticket);
    lk_buf_deinit(&plain);
    if (!ok) {
        lk_rc rc = audience == LK_AUDIENCE_PREPARED ? LK_E_INVALID_PREPARED : LK_E_INVALID_TICKET;
        return lk_fail(err, rc, "ticket of %zu bytes refused", sealed.size);
    }
    *out = ticket;
    return LK_OK;
}
