/* help.c - help texts, made of the table of commands. */
#include "osb/command.h"

#include "base/utf8.h"

enum { HELP_COLUMN = 34 };

static void add_row(struct buf *out, const char *left, const char *right)
{
    size_t n = strlen(left);

    if (n + 2 > HELP_COLUMN)
        buf_addf(out, "  %s\n%*s%s\n", left, HELP_COLUMN + 2, "", right);
    else
        buf_addf(out, "  %-*s%s\n", HELP_COLUMN, left, right);
}

static const char *value_name(const struct option *o)
{
    static const char *const names[] = {
        [OPTION_TEXT] = "TEXT",         [OPTION_INT] = "INTEGER",    [OPTION_DURATION] = "DURATION",
        [OPTION_LIFETIME] = "DURATION", [OPTION_PAIR] = "KEY=VALUE", [OPTION_CHOICE] = "CHOICE",
        [OPTION_FILE] = "FILE",         [OPTION_MODE] = "MODE"};

    return o->value ? o->value : names[o->kind];
}

static void add_options(struct buf *out, const struct option *list, const char *formats)
{
    for (const struct option *o = list; o && o->name; o++) {
        char left[96], right[256];
        bool both = list == root_options && strcmp(o->name, "use-server-proxy") == 0;

        snprintf(left, sizeof(left), "%s%c%s--%s%s%s%s%s", o->letter ? "-" : "",
                 o->letter ? o->letter : ' ', o->letter ? ", " : "", o->name,
                 both ? " / --no-" : "", both ? o->name : "", o->kind == OPTION_FLAG ? "" : " ",
                 o->kind == OPTION_FLAG ? "" : value_name(o));
        snprintf(right, sizeof(right), "%s%s%s%s%s", o->help, formats ? " One of: " : "",
                 formats ? formats : "", formats ? "." : "",
                 o->flags & OPTION_REPEATS    ? " Repeatable."
                 : o->flags & OPTION_REQUIRED ? " [required]"
                                              : "");
        add_row(out, o->letter ? left : left + 1, right);
    }
}

/* The part of `name` behind `path` when that is one word more, or NULL. "" = the program. */
static const char *word_below(const char *name, const char *path)
{
    size_t n = strlen(path), skip = n ? n + 1 : 0;

    if (strncmp(name, path, n) != 0 || strlen(name) <= skip || (n > 0 && name[n] != ' '))
        return NULL;
    return strchr(name + skip, ' ') ? NULL : name + skip;
}

static void add_groups(struct buf *out, const char *path)
{
    for (size_t i = 0; i < group_count; i++) {
        const char *word = word_below(group_table[i].path, path);

        if (word)
            add_row(out, word, group_table[i].help);
    }
}

static void add_commands(struct buf *out, const char *path)
{
    for (size_t i = 0; i < command_count; i++) {
        const char *word = word_below(command_table[i].path, path);

        if (word)
            add_row(out, word, command_table[i].help);
    }
}

static void add_examples(struct buf *out, const char *examples)
{
    struct str rest = str_of(examples), line;

    buf_add(out, STR("\nExamples:\n"));
    while (str_cut(&rest, '\n', &line))
        if (line.n > 0)
            buf_addf(out, "  %.*s\n", STR_ARG(line));
}

void help_program(struct buf *out)
{
    buf_add(out, STR("osb - sandboxes for code that nobody has read\n\n"
                     "Usage: osb [OPTIONS] COMMAND [ARGS]...\n\n"
                     "  osb run -- echo hello     a sandbox for one command\n"
                     "  osb run -it               a shell in a new sandbox\n"
                     "  osb doctor                what is wrong, and how to mend it\n\n"
                     "Options:\n"));
    add_options(out, root_options, NULL);
    buf_add(out, STR("\nCommands:\n"));
    add_commands(out, "");
    buf_add(out, STR("\nGroups of commands:\n"));
    add_groups(out, "");
    buf_add(out, STR("\nosb COMMAND --help tells more. The manual: man osb\n"));
}

void help_group(struct buf *out, const struct group *group)
{
    buf_addf(out, "Usage: osb %s [OPTIONS] COMMAND [ARGS]...\n\n  %s\n\nOptions:\n", group->path,
             group->help);
    add_options(out, help_options, NULL);
    buf_add(out, STR("\nCommands:\n"));
    add_groups(out, group->path);
    add_commands(out, group->path);
}

static void add_usage(struct buf *out, const struct command *command)
{
    buf_addf(out, "Usage: osb %s [OPTIONS]%s%s\n", command->path, command->arguments[0] ? " " : "",
             command->arguments);
}

void help_command(struct buf *out, const struct command *command)
{
    add_usage(out, command);
    buf_addf(out, "\n  %s\n\nOptions:\n", command->help);
    add_options(out, command->options, NULL);
    if (command->formats)
        add_options(out, output_options, command->formats);
    add_options(out, help_options, NULL);
    if (command->examples)
        add_examples(out, command->examples);
}

void help_usage(struct buf *out, const struct parsed *p)
{
    const char *path = p->command ? p->command->path : p->group ? p->group->path : "";

    if (p->command)
        add_usage(out, p->command);
    else
        buf_addf(out, "Usage: osb %s%s[OPTIONS] COMMAND [ARGS]...\n", path, path[0] ? " " : "");
    buf_addf(out, "Try 'osb %s%s--help' for help.\n", path, path[0] ? " " : "");
}
