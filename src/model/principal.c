/*
 * principal.c - see principal.h.
 *
 * Invariants: bindings never change after load; no two share a token; whatever held a token's text is
 * wiped before load returns. Messages name a binding by its position, never by its token.
 */
#include "model/principal.h"

#include "base/crypt.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "model/ids.h"

#include <stdlib.h>

enum { FILE_BYTES_MAX = 1024 * 1024, BINDINGS_MAX = 10000, PRINCIPAL_BYTES_MAX = 128 };

struct binding {
    lk_principal principal;
    uint8_t      digest[LK_SHA256_SIZE]; /* of the token */
};

struct lk_principals {
    lk_arena        arena;
    bool            required;
    struct binding *bindings;
    size_t          count;
};

/* What an HTTP header may carry after "Bearer ". */
static bool token_is_legal(lk_bytes token)
{
    for (size_t i = 0; i < token.size; i++) {
        if (token.data[i] <= ' ' || token.data[i] > '~') {
            return false;
        }
    }
    return token.size > 0;
}

static bool principal_id_is_legal(lk_bytes id)
{
    for (size_t i = 0; i < id.size; i++) {
        char c = id.data[i];
        bool alphanumeric = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!alphanumeric && (c == '\0' || strchr("-_.@:", c) == NULL)) {
            return false;
        }
    }
    return id.size >= 1 && id.size <= PRINCIPAL_BYTES_MAX;
}

static bool role_of(lk_bytes text, lk_role *out)
{
    static const char *const names[] = {
        [LK_ROLE_USER] = "user",
        [LK_ROLE_QUERY_SERVICE] = "query_service",
        [LK_ROLE_METADATA_PEER] = "metadata_peer",
        [LK_ROLE_ADMIN] = "admin",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (lk_bytes_equal(text, lk_bytes_of(names[i]))) {
            *out = (lk_role)i;
            return true;
        }
    }
    return false;
}

static int compare_bytes(const void *a, const void *b)
{
    return lk_bytes_compare(*(const lk_bytes *)a, *(const lk_bytes *)b);
}

/* Sorted, each once, in self's memory. */
static void set_grants(lk_principals *self, lk_principal *principal, lk_json_texts grants)
{
    if (grants.count > 0) {
        qsort(grants.items, grants.count, sizeof grants.items[0], compare_bytes);
    }
    principal->namespaces = lk_arena_take(&self->arena, grants.count * sizeof grants.items[0]);
    for (size_t i = 0; i < grants.count; i++) {
        if (i == 0 || !lk_bytes_equal(grants.items[i], grants.items[i - 1])) {
            principal->namespaces[principal->namespace_count++] =
                lk_arena_copy(&self->arena, grants.items[i]);
        }
    }
}

static lk_rc refuse(lk_err *err, size_t at, const char *rule)
{
    return lk_refuse(err, LK_E_INVALID_CONFIG, "principals file: binding %zu %s", at, rule);
}

static lk_rc check_binding(
    lk_bytes token, lk_bytes role, lk_json_texts grants, lk_principal *out, size_t at, lk_err *err)
{
    lk_err ignored = {0};
    if (!token_is_legal(token)) {
        return refuse(err, at, "has a token that is empty or not visible ASCII");
    }
    if (!principal_id_is_legal(out->id)) {
        return refuse(err, at, "has a principal_id that is not 1 to 128 of A-Z a-z 0-9 - _ . @ :");
    }
    if (lk_tenant_check(out->tenant, &ignored) != LK_OK) {
        return refuse(err, at, "has an invalid tenant_id");
    }
    if (!role_of(role, &out->role)) {
        return refuse(err, at, "has a role that is not user, query_service, metadata_peer or admin");
    }
    for (size_t i = 0; i < grants.count; i++) {
        if (lk_namespace_check(grants.items[i], &ignored) != LK_OK) {
            return refuse(err, at, "grants an invalid namespace");
        }
    }
    return out->role == LK_ROLE_USER && grants.count == 0 ? refuse(err, at, "is a user without namespaces")
                                                          : LK_OK;
}

static lk_rc parse_binding(
    lk_principals *self, lk_arena *secrets, lk_bytes raw, struct binding *out, size_t at, lk_err *err)
{
    lk_bytes            token = {0}, role = {0};
    lk_json_texts       grants = {0};
    const lk_json_field fields[] = {
        {.name = "token", .type = LK_JSON_TEXT, .target = &token},
        {.name = "principal_id", .type = LK_JSON_TEXT, .target = &out->principal.id},
        {.name = "tenant_id", .type = LK_JSON_TEXT, .target = &out->principal.tenant},
        {.name = "role", .type = LK_JSON_TEXT, .target = &role},
        {.name = "namespaces", .type = LK_JSON_TEXTS, .target = &grants},
    };
    lk_err cause = {0};
    if (lk_json_read(raw, fields, sizeof fields / sizeof fields[0], secrets, &cause) != LK_OK) {
        return lk_refuse(err, LK_E_INVALID_CONFIG, "principals file: binding %zu: %s", at, cause.detail);
    }
    lk_rc rc = check_binding(token, role, grants, &out->principal, at, err);
    if (rc == LK_OK) {
        lk_sha256_of(token, out->digest);
        out->principal.id = lk_arena_copy(&self->arena, out->principal.id);
        out->principal.tenant = lk_arena_copy(&self->arena, out->principal.tenant);
        set_grants(self, &out->principal, grants);
    }
    return rc;
}

static lk_rc parse_bindings(lk_principals *self, lk_arena *secrets, lk_bytes text, lk_err *err)
{
    lk_bytes            raw = {0};
    lk_json_texts       items = {0};
    lk_err              cause = {0};
    const lk_json_field field = {.name = "bindings", .type = LK_JSON_RAW, .target = &raw};
    lk_rc               rc = lk_json_read(text, &field, 1, secrets, &cause);
    rc = rc == LK_OK ? lk_json_elements(raw, BINDINGS_MAX, secrets, &items, &cause) : rc;
    if (rc != LK_OK) {
        return lk_refuse(err, LK_E_INVALID_CONFIG, "principals file: %s", cause.detail);
    }
    if (items.count == 0) {
        return lk_refuse(err, LK_E_INVALID_CONFIG, "principals file: at least one binding is needed");
    }
    self->bindings = lk_arena_take(&self->arena, items.count * sizeof self->bindings[0]);
    for (size_t i = 0; rc == LK_OK && i < items.count; i++) {
        struct binding *binding = &self->bindings[i];
        rc = parse_binding(self, secrets, items.items[i], binding, i, err);
        for (size_t j = 0; rc == LK_OK && j < i; j++) {
            if (memcmp(self->bindings[j].digest, binding->digest, sizeof binding->digest) == 0) {
                rc = refuse(err, i, "repeats the token of another");
            }
        }
    }
    self->count = items.count;
    return rc;
}

static lk_rc load_principals(lk_principals *self, const char *path, lk_err *err)
{
    lk_arena secrets = {0};
    lk_buf   text = {0};
    lk_rc    rc = lk_file_read_secret(path, false, FILE_BYTES_MAX, &text, err);
    rc = rc == LK_OK ? parse_bindings(self, &secrets, lk_buf_view(&text), err) : rc;
    lk_arena_close_wiped(&secrets);
    lk_wipe(text.data, text.capacity);
    lk_buf_deinit(&text);
    return rc;
}

static void set_only(lk_principals *self, const char *id, const char *tenant)
{
    self->bindings = lk_arena_take(&self->arena, sizeof self->bindings[0]);
    self->bindings[0].principal =
        (lk_principal){.id = lk_bytes_of(id), .tenant = lk_bytes_of(tenant), .role = LK_ROLE_ADMIN};
    self->count = 1;
}

static lk_rc load_token(lk_principals *self, const char *path, lk_err *err)
{
    lk_buf text = {0};
    lk_rc  rc = lk_file_read_secret(path, true, FILE_BYTES_MAX, &text, err);
    while (rc == LK_OK && text.size > 0 &&
           (text.data[text.size - 1] == '\n' || text.data[text.size - 1] == '\r')) {
        text.size--;
    }
    if (rc == LK_OK && !token_is_legal(lk_buf_view(&text))) {
        rc = lk_refuse(err, LK_E_INVALID_CONFIG, "%s: the token is empty or not visible ASCII", path);
    }
    if (rc == LK_OK) {
        set_only(self, "deployment-bearer", "deployment");
        lk_sha256_of(lk_buf_view(&text), self->bindings[0].digest);
    }
    lk_wipe(text.data, text.capacity);
    lk_buf_deinit(&text);
    return rc;
}

lk_rc lk_principals_load(
    lk_principals **out, const char *token_file, const char *principals_file, lk_err *err)
{
    if (token_file != NULL && principals_file != NULL) {
        return lk_refuse(err, LK_E_INVALID_CONFIG, "a token file and a principals file exclude each other");
    }
    lk_principals *self = calloc(1, sizeof *self);
    if (self == NULL) {
        abort();
    }
    self->required = token_file != NULL || principals_file != NULL;
    lk_rc rc = LK_OK;
    if (token_file != NULL) {
        rc = load_token(self, token_file, err);
    } else if (principals_file != NULL) {
        rc = load_principals(self, principals_file, err);
    } else {
        set_only(self, "lake-development", "development");
    }
    if (rc != LK_OK) {
        lk_principals_close(self);
        return rc;
    }
    *out = self;
    return LK_OK;
}

void lk_principals_close(lk_principals *principals)
{
    if (principals != NULL) {
        lk_arena_close(&principals->arena);
        free(principals);
    }
}

bool lk_principals_required(const lk_principals *principals)
{
    return principals->required;
}

const lk_principal *lk_principals_find(const lk_principals *principals, lk_bytes token)
{
    if (!principals->required) {
        return &principals->bindings[0].principal;
    }
    uint8_t             digest[LK_SHA256_SIZE];
    const lk_principal *found = NULL;
    lk_sha256_of(token, digest);
    for (size_t i = 0; i < principals->count; i++) { /* all of them: the time tells nothing */
        const struct binding *binding = &principals->bindings[i];
        lk_bytes              theirs = {(const char *)binding->digest, sizeof binding->digest};
        if (lk_equal_constant_time(theirs, (lk_bytes){(const char *)digest, sizeof digest})) {
            found = &binding->principal;
        }
    }
    return found;
}

bool lk_principal_may_use(const lk_principal *principal, lk_bytes ns)
{
    if (principal->role == LK_ROLE_ADMIN) {
        return true;
    }
    return principal->role == LK_ROLE_USER && principal->namespace_count > 0 &&
           bsearch(&ns, principal->namespaces, principal->namespace_count, sizeof ns, compare_bytes) != NULL;
}
