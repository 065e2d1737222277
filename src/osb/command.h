/* command.h - the table of commands, from which parsing, help, completion and the manual are made.
 *
 * A row has the words of its command, its arguments and its options. Arguments are written as in
 * help: "ID" is one, "PATH..." one or more, "[SKILL]" one or none, "[COMMAND...]" any number. Only
 * the last may repeat. Nothing here blocks, and nothing is kept between calls. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct cli;

enum option_kind {
    OPTION_FLAG, /* takes no value */
    OPTION_TEXT,
    OPTION_INT,      /* from 0; `min` and `max` bound it */
    OPTION_DURATION, /* 90s, 10m, 1h30m, or seconds; the number is in seconds */
    OPTION_LIFETIME, /* the same, or "none": the number is then -1 */
    OPTION_PAIR,     /* KEY=VALUE */
    OPTION_CHOICE,   /* `value` lists what is allowed: "http|https"; case is ignored */
    OPTION_FILE,     /* a file that exists */
    OPTION_MODE,     /* permissions in octal digits: 644, 0755 */
};

enum option_flags { OPTION_REPEATS = 1, OPTION_REQUIRED = 2 };

struct option {
    const char *name; /* without dashes; NULL ends a list */
    char letter;      /* or 0 */
    uint8_t kind;     /* enum option_kind */
    uint8_t flags;    /* enum option_flags */
    const char *value;
    const char *help;
    int64_t min, max; /* of OPTION_INT; max 0 = no limit */
};

enum command_flags {
    COMMAND_TAIL = 1,    /* options end at the first word of the last argument */
    COMMAND_OFFLINE = 2, /* needs no client */
};

struct command {
    const char *path; /* "sandbox create" */
    const char *arguments;
    const char *formats; /* "table json yaml", the default first; NULL = the command has none */
    const char *help;    /* one line */
    int (*run)(struct cli *cli);
    const struct option *options; /* NULL = none but --help and --output */
    unsigned flags;               /* enum command_flags */
    const char *examples;         /* lines for a shell, each with its end; or NULL */
};

struct group {
    const char *path, *help;
};

/* table.c */
extern const struct command command_table[];
extern const size_t command_count;
extern const struct group group_table[];
extern const size_t group_count;
extern const struct option root_options[];
extern const struct option help_options[], output_options[];

struct value {
    const struct option *option;
    const char *text;
    int64_t number;
    bool negated; /* --no-NAME of a flag */
};

enum { PARSED_ARGUMENTS_MAX = 4096, PARSED_WORDS_MAX = 16384 };

/* What a command line says. Text borrows from argv. */
struct parsed {
    const struct command *command; /* NULL: show the help of `group` */
    const struct group *group;     /* NULL = of the program */
    bool help, version;
    struct value *values;
    size_t value_count, value_max;
    const char *const *arguments; /* all of them, in order */
    size_t argument_count;
};

/* Reads a command line; argv[0] is skipped. Memory comes from the arena. -EINVAL with a message for
 * a wrong one; ret->command or ret->group then says how far it was understood. */
int command_parse(struct arena *a, int argc, const char *const *argv, struct parsed *ret,
                  struct err *e);

/* The last value of an option, or NULL. */
const struct value *parsed_value(const struct parsed *p, const char *name);

/* "1h30m" to seconds. -EINVAL for other text. */
int duration_parse(struct str text, int64_t *ret_seconds);
/* "644" to 0644. -EINVAL for other text. */
int mode_parse(struct str text, unsigned *ret_mode);

/* The n-th argument of a command: its name without dots and brackets; false after the last. */
struct argument {
    struct str name;
    bool repeats, optional;
};
bool command_argument(const struct command *command, size_t index, struct argument *ret);

/* help.c: text at the end of `out`. */
void help_program(struct buf *out);
void help_group(struct buf *out, const struct group *group);
void help_command(struct buf *out, const struct command *command);
void help_usage(struct buf *out, const struct parsed *p); /* one line, for errors */
/* complete.c: scripts for "bash", "zsh", "fish", and "man", the manual page. -EINVAL for others. */
int help_generate(struct buf *out, const char *kind);
