/* main.c - `lake`: reads the environment once, finds the command, runs it. */
#include "cli/cli.h"

#include "base/log.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef LK_VERSION
#define LK_VERSION "0.1.0"
#endif

static const lk_cli_command *const lists[] = {lk_cli_serve_commands, lk_cli_rollout_write_commands,
    lk_cli_rollout_read_commands, lk_cli_rollout_care_commands, lk_cli_rollout_commands,
    lk_cli_table_commands, lk_cli_append_commands, lk_cli_sql_commands, lk_cli_lance_commands,
    lk_cli_lance_change_commands, lk_cli_lance_rows_commands, lk_cli_lance_take_commands,
    lk_cli_lance_index_commands, lk_cli_lance_write_commands, lk_cli_lance_verify_commands,
    lk_cli_lance_blob_commands, lk_cli_selftest_commands, lk_cli_config_commands};
enum { LISTS = sizeof lists / sizeof lists[0] };

static void print_help(FILE *out)
{
    fputs("usage: lake COMMAND [options]\n\n"
          "lake keeps robot-training data as open Lance tables, with SQL over Arrow Flight.\n\n",
        out);
    for (size_t i = 0; i < LISTS; i++) {
        for (const lk_cli_command *c = lists[i]; c->about.name != NULL; c++) {
            fprintf(out, "  %-22s%s\n", c->about.name, c->about.summary);
        }
    }
    fputs("\n`lake COMMAND --help` explains one, with examples; `lake help settings` lists the settings.\n"
          "Start here:  lake serve --data-dir ./data     then:  lake selftest\n",
        out);
}

/* How many of argv's words the command's name takes, or 0. */
static int words_matched(const char *name, int argc, char **argv)
{
    int taken = 0;
    while (*name != '\0') {
        size_t size = strcspn(name, " ");
        if (taken == argc || strlen(argv[taken]) != size || strncmp(argv[taken], name, size) != 0) {
            return 0;
        }
        taken++;
        name += size + (name[size] == ' ');
    }
    return taken;
}

static const lk_cli_command *find(int argc, char **argv, int *taken)
{
    for (size_t i = 0; i < LISTS; i++) {
        for (const lk_cli_command *c = lists[i]; c->about.name != NULL; c++) {
            *taken = words_matched(c->about.name, argc, argv);
            if (*taken > 0) {
                return c;
            }
        }
    }
    return NULL;
}

/* The words that argv begins with as a text of this size, if some command's name begins with them: "lance index". */
static size_t group_size(int argc, char **argv, char *group, size_t size)
{
    size_t used = 0, matched = 0;
    for (int i = 0; i < argc && argv[i][0] != '-'; i++) {
        size_t word = strlen(argv[i]);
        if (used + word + 2 > size) {
            break;
        }
        memcpy(group + used, argv[i], word);
        used += word;
        group[used++] = ' ';
        bool begins = false;
        for (size_t list = 0; list < LISTS; list++) {
            for (const lk_cli_command *c = lists[list]; c->about.name != NULL; c++) {
                begins = begins || strncmp(c->about.name, group, used) == 0;
            }
        }
        matched = begins ? used : matched;
    }
    group[matched] = '\0';
    return matched;
}

/* No command is called so: the commands of its group are shown, if it has one. */
static int unknown(int argc, char **argv)
{
    char   group[64];
    size_t size = group_size(argc, argv, group, sizeof group);
    if (size == 0) {
        fprintf(stderr, "lake: unknown command '%s'; `lake --help` lists them\n", argv[0]);
        return 2;
    }
    bool  asked = argc > 0 && (strcmp(argv[argc - 1], "--help") == 0 || strcmp(argv[argc - 1], "-h") == 0);
    FILE *out = asked ? stdout : stderr;
    int   words = 0;
    for (size_t i = 0; i < size; i++) {
        words += group[i] == ' ';
    }
    if (!asked && words < argc && argv[words][0] != '-') {
        fprintf(out, "lake: there is no 'lake %s%.40s'; these there are:\n", group, argv[words]);
    } else if (!asked) {
        fprintf(out, "lake: 'lake %.*s' needs one more word:\n", (int)size - 1, group);
    }
    fprintf(out, "usage: lake %sCOMMAND [options]\n\n", group);
    for (size_t i = 0; i < LISTS; i++) {
        for (const lk_cli_command *c = lists[i]; c->about.name != NULL; c++) {
            if (strncmp(c->about.name, group, size) == 0) {
                fprintf(out, "  %-22s%s\n", c->about.name, c->about.summary);
            }
        }
    }
    fprintf(out, "\n`lake %sCOMMAND --help` explains one, with examples.\n", group);
    return asked ? 0 : 2;
}

static const char *from_environment(const char *name, void *context)
{
    (void)context;
    return getenv(name);
}

static lk_rc start_logging(const lk_config *config, lk_err *err)
{
    static const char *const levels[] = {"debug", "info", "warn", "error", "off"};
    bool                     json = strcmp(config->log_format, "json") == 0;
    if (!json && strcmp(config->log_format, "text") != 0) {
        return lk_fail(
            err, LK_E_INVALID_CONFIG, "the log format is text or json, not '%.32s'", config->log_format);
    }
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (strcmp(levels[i], config->log_level) == 0) {
            lk_log_init((lk_log_level)i, json);
            return LK_OK;
        }
    }
    return lk_fail(err, LK_E_INVALID_CONFIG, "the log level is debug, info, warn, error or off, not '%.32s'",
        config->log_level);
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

/* The settings as they would be without any; a bad one must not hide its own explanation. */
static const char *from_nothing(const char *name, void *context)
{
    (void)name;
    (void)context;
    return NULL;
}

/* `lake help`, `lake help settings`, `lake help COMMAND`. */
static int help(int argc, char **argv)
{
    if (argc == 0) {
        print_help(stdout);
        return 0;
    }
    lk_err    err = {0};
    lk_config config = {0};
    lk_rc     rc = lk_config_load(&config, from_nothing, NULL, &err);
    if (rc != LK_OK) {
        return lk_cli_fail(&err);
    }
    if (strcmp(argv[0], "settings") == 0) {
        puts(
            "Settings are environment variables, read once when a process starts; these are the defaults.\n");
        lk_config_print(&config, stdout);
        return 0;
    }
    int                   taken = 0;
    const lk_cli_command *command = find(argc, argv, &taken);
    if (command == NULL) {
        return unknown(argc, argv);
    }
    char   word[] = "--help", *ask[] = {word, NULL};
    lk_cli cli = {.config = &config, .get = from_nothing};
    int    code = command->run(&cli, 1, ask);
    lk_arena_close(&cli.arena);
    return code;
}

static int run(const lk_cli_command *command, int argc, char **argv)
{
    lk_err    err = {0};
    lk_config config = {0};
    lk_rc     rc = LK_OK;
    if (!asks_for_help(argc, argv)) { /* help never fails for a bad setting */
        rc = lk_config_load(&config, from_environment, NULL, &err);
        if (rc == LK_OK) {
            rc = start_logging(&config, &err);
        }
    }
    if (rc != LK_OK) {
        return lk_cli_fail(&err);
    }
    lk_cli cli = {.config = &config, .get = from_environment};
    int    code = command->run(&cli, argc, argv);
    lk_arena_close(&cli.arena);
    return code;
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a limit on files is an error of the write, as a full disk is */
    if (argc < 2) {
        print_help(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        return help(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("lake " LK_VERSION);
        return 0;
    }
    int                   taken = 0;
    const lk_cli_command *command = find(argc - 1, argv + 1, &taken);
    if (command == NULL) {
        return unknown(argc - 1, argv + 1);
    }
    return run(command, argc - 1 - taken, argv + 1 + taken);
}
