#ifndef LK_CLI_ROLLOUT_LIVE_H
#define LK_CLI_ROLLOUT_LIVE_H
/*
 * rollout_live.h - the limits of a rollout server that may change while it runs: which they are, and the file that changes them.
 *
 * A line of the file is NAME=VALUE with a variable's name; blank lines and lines that begin with # are skipped. What it names goes
 * before flags and variables, as those cannot change. Threads: stateless.
 */
#include "base/arena.h"
#include "base/config.h"

/* Puts the file's limits into the settings; texts in the arena. *from_file: bits of what it named (lk_rollout_live_index). path NULL:
 * nothing. LK_E_INVALID_CONFIG names file, line and setting. */
LK_MUST_CHECK lk_rc lk_rollout_live_load(
    const char *path, lk_config *config, lk_arena *arena, uint64_t *from_file, lk_err *err);

/* Whether a setting (LK_SETTING) is one of them; its bit. */
bool lk_rollout_live_index(size_t setting, unsigned *index);

/* A line in the log for each that differs; how many. */
size_t lk_rollout_live_log(const lk_config *before, const lk_config *after);

#endif
