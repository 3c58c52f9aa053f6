#ifndef LK_BASE_ERR_H
#define LK_BASE_ERR_H
/*
 * err.h - how a failure travels from the byte that was wrong to the gRPC trailer.
 *
 * Invariant: a function that returns something other than LK_OK has filled *err exactly once; one
 * that returns LK_OK left it alone. On the way up callers add context; nobody replaces the cause.
 */
#include <stdbool.h>
#include <stdint.h>

#define LK_MUST_CHECK   __attribute__((warn_unused_result))
#define LK_PRINTF(f, a) __attribute__((format(printf, f, a)))

typedef enum lk_rc {
    LK_OK = 0,
#define X(name, code, text) LK_E_##name,
#include "base/errors.def"
#undef X
    LK_RC_COUNT
} lk_rc;

/* The gRPC status codes, by their public numbers; serve/status asserts that they agree. */
typedef enum lk_code {
    LK_CODE_OK = 0,
    LK_CODE_CANCELLED = 1,
    LK_CODE_UNKNOWN = 2,
    LK_CODE_INVALID_ARGUMENT = 3,
    LK_CODE_DEADLINE_EXCEEDED = 4,
    LK_CODE_NOT_FOUND = 5,
    LK_CODE_ALREADY_EXISTS = 6,
    LK_CODE_PERMISSION_DENIED = 7,
    LK_CODE_RESOURCE_EXHAUSTED = 8,
    LK_CODE_FAILED_PRECONDITION = 9,
    LK_CODE_ABORTED = 10,
    LK_CODE_OUT_OF_RANGE = 11,
    LK_CODE_UNIMPLEMENTED = 12,
    LK_CODE_INTERNAL = 13,
    LK_CODE_UNAVAILABLE = 14,
    LK_CODE_DATA_LOSS = 15,
    LK_CODE_UNAUTHENTICATED = 16
} lk_code;

enum { LK_ERR_CONTEXT_BYTES = 512, LK_ERR_DETAIL_BYTES = 256 };

typedef struct lk_err {
    lk_rc    rc;            /* the value the failing function returned */
    bool     maybe_applied; /* a write failed after it left us: it may have happened */
    uint16_t len;
    char     context[LK_ERR_CONTEXT_BYTES]; /* for operators, innermost first; never sent out */
    char     detail[LK_ERR_DETAIL_BYTES];   /* for the caller, after the constant text; see lk_detail */
} lk_err;

/* Starts an error and returns rc, so a caller can write: return lk_fail(err, LK_E_X, ...); */
LK_MUST_CHECK lk_rc lk_fail(lk_err *err, lk_rc rc, const char *format, ...) LK_PRINTF(3, 4);

/* lk_fail whose text the caller of the request may see as well: context and detail in one. */
LK_MUST_CHECK lk_rc lk_refuse(lk_err *err, lk_rc rc, const char *format, ...) LK_PRINTF(3, 4);

/* Appends one frame of context to a failure that is passing through. */
void lk_context(lk_err *err, const char *format, ...) LK_PRINTF(2, 3);

/* Adds what the caller of the request may see: which column, which rule, what to do next. Never
 * storage paths, identities or another tenant's names. Overwrites an earlier detail; returns err->rc. */
lk_rc lk_detail(lk_err *err, const char *format, ...) LK_PRINTF(2, 3);

const char *lk_rc_text(lk_rc rc); /* the constant text a client may see */
const char *lk_rc_name(lk_rc rc); /* "TABLE_NOT_FOUND" */
lk_code     lk_rc_code(lk_rc rc); /* its gRPC status */

/* Writes "text" or "text: detail" (what the client is told) and returns out. */
const char *lk_err_message(const lk_err *err, char *out, unsigned long size);

/* A programmer's mistake: stopping is safer than committing. Stays on in release builds. */
#define LK_ASSERT(condition) ((condition) ? (void)0 : lk_assert_failed(#condition, __FILE__, __LINE__))
_Noreturn void lk_assert_failed(const char *condition, const char *file, int line);

#endif
