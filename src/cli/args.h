#ifndef LK_CLI_ARGS_H
#define LK_CLI_ARGS_H
/*
 * args.h - command lines from tables: every command names its options and operands once; parsing, --help and
 * the errors come from that table.
 *
 * An option is `--name VALUE` or `--name=VALUE`, a flag is `--name`; options and operands mix; `--` ends options.
 * Anything unknown, repeated (unless many), missing or malformed is LK_E_USAGE with a detail that says what to do.
 * Threads: confined. Texts are borrowed from argv.
 */
#include "base/arena.h"
#include "base/err.h"

#include <stdio.h>

typedef enum lk_arg_kind {
    LK_ARG_FLAG,    /* target: bool */
    LK_ARG_TEXT,    /* target: const char * */
    LK_ARG_TEXTS,   /* target: lk_arg_texts; may be repeated */
    LK_ARG_U64,     /* target: uint64_t */
    LK_ARG_OPERAND, /* target: const char *; taken in table order */
    LK_ARG_OPTIONAL_OPERAND
} lk_arg_kind;

enum { LK_ARG_TEXTS_MAX = 10000 };

typedef struct lk_arg_texts {
    const char **items; /* in the arena */
    size_t       count;
} lk_arg_texts;

typedef struct lk_arg {
    const char *name; /* "--columns", or "NS.TABLE" for an operand */
    lk_arg_kind kind;
    void       *target;
    const char *value; /* what the value is called in help: "FILE"; NULL for flags */
    const char *help;
    bool        required;
} lk_arg;

typedef struct lk_command {
    const char *name;    /* "table create" */
    const char *summary; /* one line */
    const char *details; /* paragraphs and examples; NULL: none */
} lk_command;

/* The texts as the rest of lake takes them; borrowed. */
lk_bytes *lk_arg_texts_bytes(const lk_arg_texts *texts, lk_arena *arena);

/* Parses into the targets. *help = true when --help was given (nothing else is checked then). */
LK_MUST_CHECK lk_rc lk_args_parse(
    const lk_arg *args, size_t count, int argc, char **argv, lk_arena *arena, bool *help, lk_err *err);

void lk_args_help(const lk_command *command, const lk_arg *args, size_t count, FILE *out);

#endif
