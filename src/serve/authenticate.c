/* authenticate.c - see authenticate.h. */
#include "serve/authenticate.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/thread.h"
#include "flight/pb_flight.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { HANDSHAKE_BYTES_MAX = 64 * 1024 };
enum { PEERS_MAX = 1024, FREE_FAILURES = 5, DELAY_MS = 200, FORGET_MS = 60000 };

/* Failures per peer address: a fixed table, the slot chosen by hash, so strangers cannot make it grow. */
typedef struct peer {
    uint64_t hash, last_ms;
    unsigned failures;
} peer;

struct lk_authenticator {
    _Atomic(lk_principals *) principals;
    lk_mutex                 mutex; /* guards peers */
    peer                     peers[PEERS_MAX];
};

lk_authenticator *lk_authenticator_open(lk_principals *principals)
{
    lk_authenticator *a = calloc(1, sizeof *a);
    LK_ASSERT(a != NULL);
    atomic_init(&a->principals, principals);
    lk_mutex_init(&a->mutex, LK_RANK_SERVER);
    return a;
}

void lk_authenticator_close(lk_authenticator *a)
{
    if (a != NULL) {
        lk_mutex_deinit(&a->mutex);
        free(a);
    }
}

void lk_authenticator_set(lk_authenticator *a, lk_principals *principals)
{
    atomic_store(&a->principals, principals);
}

/* -- failures ---------------------------------------------------------------------------------------- */
static uint64_t peer_hash(lk_grpc_call *call)
{
    lk_bytes    text = lk_grpc_call_peer(call); /* without the port */
    const char *colon = memrchr(text.data, ':', text.size);
    size_t      size = colon != NULL ? (size_t)(colon - text.data) : text.size;
    uint8_t     digest[LK_SHA256_SIZE];
    lk_sha256_of((lk_bytes){text.data, size}, digest);
    return lk_load_u64(digest);
}

static bool must_wait(lk_authenticator *a, uint64_t hash, bool failed)
{
    uint64_t now = lk_clock_monotonic_ms(lk_clock_real());
    lk_mutex_lock(&a->mutex);
    peer *p = &a->peers[hash % PEERS_MAX];
    if (p->hash != hash || now - p->last_ms > FORGET_MS) {
        *p = (peer){.hash = hash};
    }
    p->failures += failed;
    p->last_ms = failed ? now : p->last_ms;
    bool wait = failed && p->failures > FREE_FAILURES;
    lk_mutex_unlock(&a->mutex);
    return wait;
}

static lk_rc refuse(lk_authenticator *a, lk_grpc_call *call, const char *why, lk_err *err)
{
    if (must_wait(a, peer_hash(call), true)) {
        lk_clock_sleep_ms(lk_clock_real(), DELAY_MS);
    }
    return lk_fail(err, LK_E_UNAUTHENTICATED, "%s", why);
}

/* -- credentials ------------------------------------------------------------------------------------- */
static bool strip(lk_bytes text, const char *scheme, lk_bytes *rest)
{
    size_t size = strlen(scheme);
    bool   match = text.size > size && strncasecmp(text.data, scheme, size) == 0;
    if (match) {
        *rest = (lk_bytes){text.data + size, text.size - size};
    }
    return match;
}

/* The token in an authorization header: a Bearer's, or the password of a Basic. */
static bool header_token(lk_bytes header, lk_buf *scratch, lk_bytes *token)
{
    lk_bytes basic = {0};
    if (strip(header, "Bearer ", token)) {
        return true;
    }
    if (!strip(header, "Basic ", &basic) || !lk_base64_decode(basic, true, scratch)) {
        return false;
    }
    const char *colon = memchr(scratch->data, ':', scratch->size);
    if (colon == NULL) {
        return false;
    }
    *token = (lk_bytes){colon + 1, scratch->size - (size_t)(colon + 1 - scratch->data)};
    return true;
}

static const lk_principal *caller(lk_authenticator *a, lk_grpc_call *call, lk_arena *arena, lk_bytes *token)
{
    lk_bytes            header = {0}, found = {0};
    lk_buf              scratch = {0};
    const lk_principal *who = NULL;
    if (lk_grpc_call_header(call, "authorization", &header) && header_token(header, &scratch, &found)) {
        *token = lk_arena_copy(arena, found);
        who = lk_principals_find(a->principals, found);
    }
    lk_buf_deinit(&scratch);
    return who;
}

static bool is_handshake(const lk_grpc_call *call)
{
    return lk_bytes_equal(lk_grpc_call_path(call), LK_LITERAL(LK_FLIGHT_METHOD("Handshake")));
}

lk_rc lk_authenticate(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_authenticator *a = context;
    lk_bytes          token = {0};
    if (is_handshake(call)) { /* brings its own credentials */
        return LK_OK;
    }
    const lk_principal *who = lk_principals_required(a->principals)
                                  ? caller(a, call, lk_grpc_call_arena(call), &token)
                                  : lk_principals_find(a->principals, (lk_bytes){0});
    if (who == NULL) { /* at once: this is no thread to wait on, and a guess at a token is hopeless anyway */
        return lk_fail(err, LK_E_UNAUTHENTICATED, "no such token");
    }
    lk_grpc_call_set_attachment(call, who);
    return LK_OK;
}

/* -- Handshake ---------------------------------------------------------------------------------------- */
static lk_rc answer(lk_grpc_call *call, lk_bytes token, lk_err *err)
{
    lk_bytes header = lk_arena_format(lk_grpc_call_arena(call), "Bearer %.*s", LK_FMT(token));
    lk_buf   reply = {0};
    lk_grpc_call_add_initial(call, "authorization", header);
    lk_grpc_call_add_trailer(call, "authorization", header);
    lk_flight_handshake_write(&(lk_flight_handshake){.payload = token}, &reply);
    lk_rc rc = lk_grpc_call_write_bytes(call, lk_buf_view(&reply), err);
    lk_buf_deinit(&reply);
    return rc;
}

/* Flight's first handshake protocol: the first request carries BasicAuth{username, password}. */
static lk_rc payload_token(lk_grpc_call *call, lk_bytes *token, lk_err *err)
{
    lk_arena            *arena = lk_grpc_call_arena(call);
    lk_grpc_message      message = {0};
    lk_flight_handshake  request = {0};
    lk_flight_basic_auth basic = {0};
    bool                 found = false;
    lk_rc                rc = lk_grpc_call_read(call, &message, &found, err);
    if (rc == LK_OK && found) {
        lk_bytes bytes = lk_arena_copy(arena, lk_grpc_message_bytes(&message, arena));
        rc = lk_flight_handshake_read(bytes, arena, &request, err);
    }
    if (rc == LK_OK && request.payload.size > 0) {
        rc = lk_flight_basic_auth_read(request.payload, arena, &basic, err);
        *token = basic.password;
    }
    lk_grpc_message_release(&message);
    return rc;
}

static lk_rc handshake(lk_grpc_call *call, void *context, lk_err *err)
{
    lk_authenticator   *a = context;
    lk_bytes            token = {0};
    const lk_principal *who = caller(a, call, lk_grpc_call_arena(call), &token);
    if (who == NULL && token.size == 0) {
        lk_rc rc = payload_token(call, &token, err);
        if (rc != LK_OK) {
            return rc;
        }
        who = token.size > 0 ? lk_principals_find(a->principals, token) : NULL;
    }
    if (!lk_principals_required(a->principals)) { /* any credentials will do; later calls need none */
        return answer(call, token.size > 0 ? token : LK_LITERAL("development"), err);
    }
    return who != NULL ? answer(call, token, err) : refuse(a, call, "handshake with a wrong token", err);
}

lk_grpc_method lk_handshake_method(lk_authenticator *authenticator)
{
    return (lk_grpc_method){.path = LK_FLIGHT_METHOD("Handshake"),
        .kind = LK_GRPC_BIDI,
        .run = handshake,
        .context = authenticator,
        .request_bytes_max = HANDSHAKE_BYTES_MAX};
}

/* -- exposure ----------------------------------------------------------------------------------------- */
static bool insecure_allowed(const lk_config *config, bool *valid)
{
    const char *text = config->allow_insecure;
    bool        yes = text != NULL && (strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0);
    bool        no = text == NULL || strcasecmp(text, "false") == 0 || strcmp(text, "0") == 0;
    *valid = yes || no;
    return yes;
}

lk_rc lk_exposure_check(
    const char *address, const lk_config *config, const lk_principals *principals, bool tls, lk_err *err)
{
    bool loopback = false, valid = false;
    bool allowed = insecure_allowed(config, &valid);
    if (!valid) {
        return lk_fail(
            err, LK_E_INVALID_CONFIG, "the override for insecure listeners is true, false, 1 or 0");
    }
    lk_rc rc = lk_grpc_address_is_loopback(address, &loopback, err);
    if (rc != LK_OK || loopback) {
        return rc;
    }
    if (!lk_principals_required(principals)) {
        rc = lk_fail(err, LK_E_INSECURE, "%s without credentials", address);
        lk_detail(err, "configure a token file or a principals file (see lake config check)");
        return rc;
    }
    if (!tls && !allowed) {
        rc = lk_fail(err, LK_E_INSECURE, "%s without TLS", address);
        lk_detail(err, "configure a TLS certificate and key (see lake config check)");
        return rc;
    }
    if (!tls) {
        lk_log(LK_LOG_INSECURE_LISTENER, LK_LOG_T("address", lk_bytes_of(address)));
    }
    return LK_OK;
}
