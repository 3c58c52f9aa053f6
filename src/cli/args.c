/* args.c - see args.h. */
#include "cli/args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { HELP_COLUMN = 30, HELP_WIDTH = 118 };

static const lk_arg *find_option(const lk_arg *args, size_t count, const char *word, size_t name_size)
{
    for (size_t i = 0; i < count; i++) {
        if (args[i].name[0] == '-' && strlen(args[i].name) == name_size &&
            strncmp(args[i].name, word, name_size) == 0) {
            return &args[i];
        }
    }
    return NULL;
}

static const lk_arg *next_operand(const lk_arg *args, size_t count, size_t taken)
{
    for (size_t i = 0; i < count; i++) {
        bool operand = args[i].kind == LK_ARG_OPERAND || args[i].kind == LK_ARG_OPTIONAL_OPERAND;
        if (operand && taken-- == 0) {
            return &args[i];
        }
    }
    return NULL;
}

static lk_rc set_number(const lk_arg *arg, const char *text, lk_err *err)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0) {
        return lk_refuse(err, LK_E_USAGE, "%s takes a whole number, not '%.64s'", arg->name, text);
    }
    *(uint64_t *)arg->target = value;
    return LK_OK;
}

static void add_text(const lk_arg *arg, const char *text, lk_arena *arena)
{
    lk_arg_texts *texts = arg->target;
    if (texts->items == NULL) {
        texts->items = lk_arena_take(arena, LK_ARG_TEXTS_MAX * sizeof *texts->items);
    }
    texts->items[texts->count++] = text;
}

static lk_rc set_option(const lk_arg *arg, const char *text, lk_arena *arena, lk_err *err)
{
    if (arg->kind == LK_ARG_U64) {
        return set_number(arg, text, err);
    }
    if (arg->kind == LK_ARG_TEXTS) {
        if (((lk_arg_texts *)arg->target)->count == LK_ARG_TEXTS_MAX) {
            return lk_refuse(err, LK_E_USAGE, "%s may be given %d times", arg->name, LK_ARG_TEXTS_MAX);
        }
        add_text(arg, text, arena);
        return LK_OK;
    }
    *(const char **)arg->target = text;
    return LK_OK;
}

static lk_rc parse_option(const lk_arg *args, size_t count, int argc, char **argv, int *at, bool *given,
    lk_arena *arena, lk_err *err)
{
    const char *word = argv[*at];
    const char *equals = strchr(word, '=');
    size_t      name_size = equals == NULL ? strlen(word) : (size_t)(equals - word);
    if (strcmp(word, "-o") == 0) { /* the one short form, as in cc and curl */
        word = "--output";
        name_size = strlen(word);
    }
    const lk_arg *arg = find_option(args, count, word, name_size);
    if (arg == NULL) {
        lk_rc rc = lk_fail(err, LK_E_USAGE, "unknown option");
        lk_detail(err, "unknown option %.64s; --help lists the options", word);
        return rc;
    }
    bool repeated = given[arg - args];
    given[arg - args] = true;
    if (repeated && arg->kind != LK_ARG_TEXTS) {
        return lk_refuse(err, LK_E_USAGE, "%s may be given once", arg->name);
    }
    if (arg->kind == LK_ARG_FLAG) {
        *(bool *)arg->target = true;
        if (equals != NULL) {
            return lk_refuse(err, LK_E_USAGE, "%s takes no value", arg->name);
        }
        return LK_OK;
    }
    if (equals == NULL && *at + 1 >= argc) {
        return lk_refuse(err, LK_E_USAGE, "%s needs a value: %s", arg->name, arg->value);
    }
    const char *text = equals != NULL ? equals + 1 : argv[++*at];
    return set_option(arg, text, arena, err);
}

static lk_rc check_required(const lk_arg *args, size_t count, size_t operands, const bool *given, lk_err *err)
{
    const lk_arg *operand = next_operand(args, count, operands);
    const lk_arg *missing = operand != NULL && operand->kind == LK_ARG_OPERAND ? operand : NULL;
    for (size_t i = 0; missing == NULL && i < count; i++) {
        missing = args[i].required && !given[i] ? &args[i] : NULL;
    }
    if (missing == NULL) {
        return LK_OK;
    }
    lk_rc rc = lk_fail(err, LK_E_USAGE, "%s missing", missing->name);
    lk_detail(err, "%s is missing (%s); see --help", missing->name, missing->help);
    return rc;
}

lk_rc lk_args_parse(
    const lk_arg *args, size_t count, int argc, char **argv, lk_arena *arena, bool *help, lk_err *err)
{
    bool  *given = lk_arena_take(arena, count * sizeof *given);
    size_t operands = 0;
    bool   options_ended = false;
    lk_rc  rc = LK_OK;

    *help = false;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            *help = true;
            return LK_OK;
        }
    }
    for (int i = 0; rc == LK_OK && i < argc; i++) {
        if (!options_ended && strcmp(argv[i], "--") == 0) {
            options_ended = true;
        } else if (!options_ended && argv[i][0] == '-' && argv[i][1] != '\0') {
            rc = parse_option(args, count, argc, argv, &i, given, arena, err);
        } else {
            const lk_arg *operand = next_operand(args, count, operands++);
            if (operand == NULL) {
                rc = lk_fail(err, LK_E_USAGE, "too many operands");
                lk_detail(err, "unexpected '%.64s'; see --help", argv[i]);
            } else {
                *(const char **)operand->target = argv[i];
            }
        }
    }
    return rc != LK_OK ? rc : check_required(args, count, operands, given, err);
}

static void print_usage(const lk_command *command, const lk_arg *args, size_t count, FILE *out)
{
    fprintf(out, "usage: lake %s", command->name);
    for (size_t i = 0; i < count; i++) {
        if (args[i].kind == LK_ARG_OPERAND) {
            fprintf(out, " %s", args[i].name);
        } else if (args[i].kind == LK_ARG_OPTIONAL_OPERAND) {
            fprintf(out, " [%s]", args[i].name);
        } else if (args[i].required) {
            fprintf(out, " %s %s", args[i].name, args[i].value);
        }
    }
    fprintf(out, " [options]\n\n%s\n", command->summary);
}

/* The text from HELP_COLUMN on, in lines of HELP_WIDTH; the cursor is at column `at`. */
static void print_wrapped(const char *text, int at, FILE *out)
{
    enum { ROOM = HELP_WIDTH - HELP_COLUMN };
    for (;;) {
        size_t size = strlen(text), cut = size;
        if (size > ROOM) {
            for (cut = ROOM; cut > 0 && text[cut] != ' '; cut--) {}
            cut = cut == 0 ? size : cut; /* a word that long stays whole */
        }
        fprintf(out, "%*s%.*s\n", HELP_COLUMN - at, "", (int)cut, text);
        if (cut == size) {
            return;
        }
        text += cut + 1;
        at = 0;
    }
}

void lk_args_help(const lk_command *command, const lk_arg *args, size_t count, FILE *out)
{
    print_usage(command, args, count, out);
    fputs("\n", out);
    for (size_t i = 0; i < count; i++) {
        int width = fprintf(out, "  %s%s%s", args[i].name, args[i].value != NULL ? " " : "",
            args[i].value != NULL ? args[i].value : "");
        if (width >= HELP_COLUMN) {
            fputs("\n", out);
            width = 0;
        }
        lk_arena    arena = {0};
        const char *repeats = args[i].kind == LK_ARG_TEXTS ? " (may be repeated)" : "";
        print_wrapped(lk_arena_format(&arena, "%s%s", args[i].help, repeats).data, width, out);
        lk_arena_close(&arena);
    }
    fprintf(out, "  %-*s%s\n", HELP_COLUMN - 2, "--help", "show this");
    if (command->details != NULL) {
        fprintf(out, "\n%s\n", command->details);
    }
}

lk_bytes *lk_arg_texts_bytes(const lk_arg_texts *texts, lk_arena *arena)
{
    lk_bytes *out = lk_arena_take(arena, (texts->count + 1) * sizeof *out);
    for (size_t i = 0; i < texts->count; i++) {
        out[i] = lk_bytes_of(texts->items[i]);
    }
    return out;
}
