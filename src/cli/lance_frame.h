#ifndef LK_CLI_LANCE_FRAME_H
#define LK_CLI_LANCE_FRAME_H
/*
 * lance_frame.h - what every command has that works on a dataset in place: URI before its own words and --json behind them, the
 * dataset opened, the version it made, what went wrong, how it ends. Threads: confined to the main thread.
 */
#include "cli/cli.h"
#include "cli/lance_env.h"

typedef struct lk_lance_frame {
    lk_cli               *cli; /* set before _begin, as are the next two */
    const lk_cli_command *command;
    const char           *json_help; /* NULL: one JSON object */
    const char           *uri;
    bool                  json;
    lk_cli_lance          lance;
    lk_dataset           *next; /* what the command made of lance.dataset; NULL: nothing */
    lk_err                err;
    int                   code; /* the exit code, where _begin says no */
} lk_lance_frame;

enum { LK_LANCE_FRAME_ARGS_MAX = 12 };

/* Parses the command line: args, count of them, are what this command has of its own. False: return frame->code. */
bool lk_lance_frame_begin(lk_lance_frame *frame, const lk_arg *args, size_t count, int argc, char **argv);
/* Opens the dataset; version 0: the newest. */
LK_MUST_CHECK lk_rc lk_lance_frame_open(lk_lance_frame *frame, uint64_t version);
/* Closes everything, says what failed, and returns the exit code. */
int lk_lance_frame_end(lk_lance_frame *frame, lk_rc rc);
/* The same; where the command made a version, it is reported: "renamed: version 7". */
int lk_lance_frame_end_with_version(lk_lance_frame *frame, lk_rc rc, const char *what);

#endif
