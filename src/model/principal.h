#ifndef LK_MODEL_PRINCIPAL_H
#define LK_MODEL_PRINCIPAL_H
/*
 * principal.h - who asks, and what they may see. Read once from a token file or a principals file
 * (JSON, mode 0600, no symlink, at most 1 MiB); without either, everyone is `lake-development`, admin.
 * Only SHA-256 of tokens is kept. Threads: immutable once loaded.
 */
#include "base/arena.h"
#include "base/err.h"

typedef enum lk_role { LK_ROLE_USER, LK_ROLE_QUERY_SERVICE, LK_ROLE_METADATA_PEER, LK_ROLE_ADMIN } lk_role;

typedef struct lk_principal {
    lk_bytes  id, tenant;
    lk_role   role;
    lk_bytes *namespaces; /* grants, ascending */
    size_t    namespace_count;
} lk_principal;

typedef struct lk_principals lk_principals;

/* Both NULL: development principal. Both set: LK_E_INVALID_CONFIG. */
LK_MUST_CHECK lk_rc lk_principals_load(
    lk_principals **out, const char *token_file, const char *principals_file, lk_err *err);
void lk_principals_close(lk_principals *principals);
bool lk_principals_required(const lk_principals *principals); /* false: development */

/* Looks a bearer token up in constant time; NULL when nobody has it. Borrowed. */
const lk_principal *lk_principals_find(const lk_principals *principals, lk_bytes token);

bool lk_principal_may_use(const lk_principal *principal, lk_bytes ns);

#endif
