#ifndef LK_CLI_ROLLOUT_FLAGS_H
#define LK_CLI_ROLLOUT_FLAGS_H
/*
 * rollout_flags.h - the flags of `lake rollout`: each stands for one setting and goes before its variable.
 *
 * The table of flags is here once; their help, default and range are those of base/config.def. An empty --instance-id is as
 * if it were not given. Threads: confined.
 */
#include "base/json.h"
#include "cli/cli.h"

enum { LK_ROLLOUT_FLAGS_MAX = 48 };

typedef struct lk_rollout_flags {
    size_t      count;
    const char *texts[LK_ROLLOUT_FLAGS_MAX]; /* as given; NULL: not given */
    bool        switches[LK_ROLLOUT_FLAGS_MAX];
} lk_rollout_flags;

/* The flags as arguments that fill *flags; at most LK_ROLLOUT_FLAGS_MAX of them go to args. Help texts are in the arena. */
size_t lk_rollout_flags_args(lk_rollout_flags *flags, lk_arena *arena, lk_arg *args);

/* Puts the flags that were given into the settings. LK_E_INVALID_CONFIG names the flag. */
LK_MUST_CHECK lk_rc lk_rollout_flags_apply(const lk_rollout_flags *flags, lk_config *config, lk_err *err);

/* Whether the setting (LK_SETTING) was set by its flag; the flag's name. */
bool        lk_rollout_flags_given(const lk_rollout_flags *flags, size_t setting);
const char *lk_rollout_flag_of(size_t setting);

/* Every setting of the rollout store as a line, or as an element of an array: its flag, variable, value and where that is
 * from; from_file: of a plan. */
void lk_rollout_flags_print(
    const lk_rollout_flags *flags, const lk_config *config, uint64_t from_file, lk_getenv get, FILE *out);
void lk_rollout_flags_json(const lk_rollout_flags *flags, const lk_config *config, uint64_t from_file,
    lk_getenv get, lk_json_writer *w);

#endif
