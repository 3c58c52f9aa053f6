#ifndef LK_QUERY_TICKET_H
#define LK_QUERY_TICKET_H
/*
 * ticket.h - a planned statement, sealed: any replica with the same keys can run it, nobody can read or
 * change it, and it is bound to the caller and to exact table versions.
 *
 * Envelope: "LQTK" | version u8 = 4 | key id 16 | nonce 12 | AES-256-GCM ciphertext | tag 16. The header and
 * the audience are authenticated. Keys: HKDF-SHA-256(secret, audience). Nonces are 96 random bits.
 *
 * Invariants:
 *   1. Opening checks length, magic, version, key, tag, time, principal and tenant; every failure is one
 *      opaque LK_E_INVALID_TICKET (LK_E_INVALID_PREPARED for the prepared audience).
 *   2. Decoding is canonical: trailing bytes, unsorted or repeated tables are refused.
 *
 * Threads: a key ring is immutable and shared.
 */
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/rand.h"
#include "model/principal.h"

typedef struct lk_ticket_keys lk_ticket_keys;

typedef enum lk_audience { LK_AUDIENCE_STATEMENT, LK_AUDIENCE_PREPARED } lk_audience;

typedef struct lk_ticket_table {
    lk_bytes ns, name, engine, location, incarnation;
    uint64_t version;
} lk_ticket_table;

typedef struct lk_ticket {
    lk_bytes               sql;
    const lk_ticket_table *tables; /* strictly ascending by (ns, name, incarnation, version) */
    size_t                 table_count;
    uint64_t               issued_at_secs, expires_at_secs; /* filled by seal */
} lk_ticket;

/* More than the names, places and versions of LK_STATEMENT_TABLES_MAX tables and the envelope need. */
enum { LK_TICKET_OVERHEAD_BYTES_MAX = 327680 };
enum {
    LK_TICKET_KEYS_MAX = 4,
    LK_TICKET_SECRET_MIN = 32,
    LK_TICKET_SECRET_MAX = 4096,
    LK_TICKET_SKEW_SECS = 30
};

/* path: JSON {"active":"...","verification":["..."]}, mode 0600, at most 64 KiB, secrets of 32..4096 bytes, at
 * most one active and three verification keys. NULL: one random key, good for this process only. */
LK_MUST_CHECK lk_rc lk_ticket_keys_open(
    lk_ticket_keys **out, const char *path, lk_random *random, lk_err *err);
void lk_ticket_keys_close(lk_ticket_keys *keys); /* wipes; accepts NULL */

/* Appends the sealed ticket to out. */
void lk_ticket_seal(lk_ticket_keys *keys, lk_audience audience, const lk_principal *who,
    const lk_ticket *ticket, lk_clock *clock, uint64_t ttl_secs, lk_buf *out);

/* Opens for this caller; texts live in the arena. */
LK_MUST_CHECK lk_rc lk_ticket_open(lk_ticket_keys *keys, lk_audience audience, const lk_principal *who,
    lk_bytes sealed, lk_clock *clock, lk_arena *arena, lk_ticket *out, lk_err *err);

#endif
