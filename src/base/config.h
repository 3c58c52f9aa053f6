#ifndef LK_BASE_CONFIG_H
#define LK_BASE_CONFIG_H
/*
 * config.h - settings, read once at start from the environment.
 *
 * Rows of config.def: N (a number with a range), S (text; NULL when unset), P (secret text; printed as (set)). A malformed or out-of-range
 * value is LK_E_INVALID_CONFIG naming the setting, before anything is opened.
 * Invariant: a lk_config that lk_config_load filled is in range in every field and never changes.
 */
#include "base/err.h"

#include <stddef.h>
#include <stdio.h>

typedef struct lk_config {
#define N(field, env, def, min, max, unit, help) uint64_t field;
#define S(field, env, def, help)                 const char *field;
#define P(field, env, help)                      const char *field;
#include "base/config.def"
#undef N
#undef S
#undef P
} lk_config;

/* A row as a command line sees it, for flags that stand for settings. */
typedef struct lk_setting {
    const char *env, *unit, *help;
    const char *def_text; /* of a text; NULL: unset */
    uint64_t    def, min, max;
    bool        is_text, is_secret;
} lk_setting;

#define LK_SETTING(field) offsetof(lk_config, field) /* names a row */

typedef const char *(*lk_getenv)(const char *name, void *context);

/* Text values stay valid as long as what get returned does. */
LK_MUST_CHECK lk_rc lk_config_load(lk_config *out, lk_getenv get, void *context, lk_err *err);
lk_setting          lk_config_setting(size_t setting); /* of LK_SETTING; a field that there is */
/* Gives one setting another value, as its variable would; what is wrong is told of `name` ("--port"). Text is borrowed. */
LK_MUST_CHECK lk_rc lk_config_set(
    lk_config *config, size_t setting, const char *name, const char *text, lk_err *err);
/* The value as it is shown: never a secret. NULL: unset. */
const char *lk_config_shown(const lk_config *config, size_t setting, char scratch[24]);
void        lk_config_print(
           const lk_config *config, FILE *out); /* every setting: name, value, unit, help; never a secret */
void lk_config_print_json(const lk_config *config, FILE *out);

#endif
