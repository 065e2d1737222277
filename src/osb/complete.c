/* complete.c - completion scripts and the manual page, made of the table of commands. */
#include "osb/command.h"

#include <errno.h>

/* --- what can follow a path --- */

static bool is_below(const char *name, const char *path)
{
    size_t n = strlen(path), skip = n ? n + 1 : 0;

    return strncmp(name, path, n) == 0 && strlen(name) > skip && (n == 0 || name[n] == ' ') &&
           !strchr(name + skip, ' ');
}

static void add_words_below(struct buf *out, const char *path)
{
    size_t skip = path[0] ? strlen(path) + 1 : 0;

    for (size_t i = 0; i < group_count; i++)
        if (is_below(group_table[i].path, path))
            buf_addf(out, "%s ", group_table[i].path + skip);
    for (size_t i = 0; i < command_count; i++)
        if (is_below(command_table[i].path, path))
            buf_addf(out, "%s ", command_table[i].path + skip);
}

static void add_option_words(struct buf *out, const struct option *list)
{
    for (const struct option *o = list; o && o->name; o++)
        buf_addf(out, "--%s ", o->name);
}

/* --- bash, and zsh by its emulation of bash --- */

/* The first argument is the id of a sandbox, which `osb ps -q` knows: 1 when only that is. */
static const char *ids_of(const struct command *c)
{
    struct argument first;

    if (!command_argument(c, 0, &first) || !str_eq(first.name, STR("ID")) ||
        str_starts(str_of(c->path), STR("template")))
        return "0";
    return first.repeats ? "9999" : "1";
}

/* Options that are followed by a value, by both of their names. */
static void add_takers(struct buf *out, const struct option *list)
{
    for (const struct option *o = list; o && o->name; o++) {
        if (o->kind == OPTION_FLAG)
            continue;
        buf_addf(out, "--%s ", o->name);
        if (o->letter)
            buf_addf(out, "-%c ", o->letter);
    }
}

/* A case per path: the words that may follow it. */
static void add_cases(struct buf *out)
{
    buf_add(out, STR("        '') words='"));
    add_words_below(out, "");
    add_option_words(out, root_options);
    buf_add(out, STR("'; takes=' "));
    add_takers(out, root_options);
    buf_add(out, STR("'; formats='table json yaml raw' ;;\n"));
    for (size_t i = 0; i < group_count; i++) {
        buf_addf(out, "        '%s') words='", group_table[i].path);
        add_words_below(out, group_table[i].path);
        buf_add(out, STR("--help' ;;\n"));
    }
    for (size_t i = 0; i < command_count; i++) {
        const struct command *c = &command_table[i];

        buf_addf(out, "        '%s') words='", c->path);
        add_option_words(out, c->options);
        buf_addf(out, "%s--help'; formats='%s'; ids=%s; takes=' -o --output ",
                 c->formats ? "--output " : "", c->formats ? c->formats : "", ids_of(c));
        add_takers(out, c->options);
        buf_add(out, STR("' ;;\n"));
    }
}

static void add_choices_of(struct buf *out, const char *path, const struct option *list)
{
    for (const struct option *o = list; o && o->name; o++) {
        if (o->kind != OPTION_CHOICE)
            continue;
        buf_addf(out, "        '%s --%s'", path, o->name);
        if (o->letter)
            buf_addf(out, "|'%s -%c'", path, o->letter);
        buf_add(out, STR(") words='"));
        for (const char *c = o->value; *c; c++)
            buf_add_char(out, *c == '|' ? ' ' : *c);
        buf_add(out, STR("' ;;\n"));
    }
}

/* A case per option of a command that takes one of several words. */
static void add_choices(struct buf *out)
{
    add_choices_of(out, "", root_options);
    for (size_t i = 0; i < command_count; i++)
        add_choices_of(out, command_table[i].path, command_table[i].options);
}

static void add_bash_functions(struct buf *out)
{
    buf_add(out, STR("_osb_words() {\n"
                     "    case $1 in\n"));
    add_cases(out);
    buf_add(out, STR("        *) return 1 ;;\n"
                     "    esac\n"
                     "}\n"
                     "_osb_values() {\n"
                     "    words=''\n"
                     "    case $1 in\n"
                     "        *' -o'|*' --output') words=$formats ;;\n"));
    add_choices(out);
    buf_add(out, STR("    esac\n"
                     "}\n"
                     "_osb_complete() {\n"
                     "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                     "    local path='' words='' formats='' takes='' ids=0 seen=0 i word\n"
                     "    _osb_words ''\n"
                     "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                     "        word=${COMP_WORDS[i]}\n"
                     "        if [[ $takes == *\" $word \"* ]]; then\n"
                     "            i=$((i + 1))\n"
                     "        elif [[ $word != -* ]]; then\n"
                     "            if _osb_words \"${path:+$path }$word\"; then\n"
                     "                path=${path:+$path }$word\n"
                     "            else\n"
                     "                seen=$((seen + 1))\n"
                     "            fi\n"
                     "        fi\n"
                     "    done\n"
                     "    if [[ $COMP_CWORD -gt 1 && $takes == *\" $prev \"* ]]; then\n"
                     "        _osb_values \"$path $prev\"\n"
                     "    elif [[ $cur != -* && $ids -gt $seen ]]; then\n"
                     "        words=$(osb ps -q 2>/dev/null)\n"
                     "    elif [[ $cur != -* && -n $path && $seen -gt 0 ]]; then\n"
                     "        words=''\n"
                     "    fi\n"
                     "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
                     "}\n"));
}

static void add_bash(struct buf *out)
{
    buf_add(out, STR("# Completion of osb for bash: source <(osb completion bash)\n"));
    add_bash_functions(out);
    buf_add(out, STR("complete -o default -F _osb_complete osb\n"));
}

/* The file is read at the first Tab when it is a file _osb of $fpath, and that Tab wants an answer.
 */
static void add_zsh(struct buf *out)
{
    buf_add(out, STR("#compdef osb\n"
                     "# Completion of osb for zsh: source <(osb completion zsh)\n"
                     "autoload -U +X bashcompinit && bashcompinit\n"));
    add_bash_functions(out);
    buf_add(out,
            STR("complete -o default -F _osb_complete osb\n"
                "[[ ${funcstack[1]} != _osb ]] || _bash_complete -o default -F _osb_complete\n"));
}

/* --- fish --- */

static void add_fish_text(struct buf *out, const char *text)
{
    buf_add_char(out, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            buf_add_char(out, '\\');
        buf_add_char(out, *text);
    }
    buf_add(out, STR("'\n"));
}

/* "__fish_seen_subcommand_from" knows no nesting, so the words typed so far are compared. */
static void add_fish_word(struct buf *out, const char *name, const char *help)
{
    const char *last = strrchr(name, ' ');
    int n = last ? (int)(last - name) : 0;

    buf_addf(out, "complete -c osb -f -n '__osb_at \"%.*s\"' -a %s -d ", n, name,
             last ? last + 1 : name);
    add_fish_text(out, help);
}

static void add_fish_options(struct buf *out, const char *path, const struct option *list)
{
    for (const struct option *o = list; o && o->name; o++) {
        buf_addf(out, "complete -c osb -n '__osb_at \"%s\"' -l %s ", path, o->name);
        if (o->letter)
            buf_addf(out, "-s %c ", o->letter);
        if (o->kind == OPTION_CHOICE) {
            buf_add(out, STR("-f -a '"));
            for (const char *c = o->value; *c; c++)
                buf_add_char(out, *c == '|' ? ' ' : *c);
            buf_add(out, STR("' "));
        }
        buf_addf(out, "%s-d ", o->kind == OPTION_FLAG ? "" : "-r ");
        add_fish_text(out, o->help);
    }
}

static void add_fish(struct buf *out)
{
    buf_add(out, STR("# Completion of osb for fish: osb completion fish | source\n"
                     "function __osb_at\n"
                     "    set -l words (commandline -opc | string match -v -- '-*')[2..]\n"
                     "    set -l wanted (string split -n ' ' -- \"$argv[1]\")\n"
                     "    set -l n (count $wanted)\n"
                     "    test $n -eq 0; and test (count $words) -eq 0; and return 0\n"
                     "    test $n -gt 0; and test \"$words[1..$n]\" = \"$wanted\"\n"
                     "end\n"));
    add_fish_options(out, "", root_options);
    for (size_t i = 0; i < group_count; i++)
        add_fish_word(out, group_table[i].path, group_table[i].help);
    for (size_t i = 0; i < command_count; i++) {
        add_fish_word(out, command_table[i].path, command_table[i].help);
        add_fish_options(out, command_table[i].path, command_table[i].options);
        if (ids_of(&command_table[i])[0] != '0')
            buf_addf(out, "complete -c osb -n '__osb_at \"%s\"' -a '(osb ps -q 2>/dev/null)'\n",
                     command_table[i].path);
        if (command_table[i].formats)
            buf_addf(out, "complete -c osb -f -n '__osb_at \"%s\"' -l output -s o -r -a '%s'\n",
                     command_table[i].path, command_table[i].formats);
    }
}

/* --- the manual page --- */

static void add_roff(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '-' || *text == '\\')
            buf_add_char(out, '\\');
        if (*text == '\'')
            buf_add(out, STR("\\(aq")); /* an apostrophe would be printed as a curved one */
        else
            buf_add_char(out, *text);
    }
}

static void add_man_options(struct buf *out, const struct option *list)
{
    for (const struct option *o = list; o && o->name; o++) {
        buf_add(out, STR(".TP\n.B "));
        if (o->letter)
            buf_addf(out, "\\-%c, ", o->letter);
        buf_add(out, STR("\\-\\-"));
        add_roff(out, o->name);
        if (o->value) {
            buf_add(out, STR(" \\fI"));
            add_roff(out, o->value);
            buf_add(out, STR("\\fR"));
        }
        buf_add_char(out, '\n');
        add_roff(out, o->help);
        buf_add_char(out, '\n');
    }
}

static void add_man(struct buf *out)
{
    buf_add(out, STR(".TH OSB 1\n.SH NAME\nosb \\- command line of OpenSandbox\n"
                     ".SH SYNOPSIS\n.B osb\n[\\fIoptions\\fR] \\fIcommand\\fR "
                     "[\\fIarguments\\fR]\n.SH DESCRIPTION\n"
                     "osb creates sandboxes on an OpenSandbox server and works in them.\n"
                     ".SH OPTIONS\n"));
    add_man_options(out, root_options);
    buf_add(out, STR(".SH COMMANDS\n"));
    for (size_t i = 0; i < command_count; i++) {
        const struct command *c = &command_table[i];

        buf_add(out, STR(".SS osb "));
        add_roff(out, c->path);
        buf_add_char(out, ' ');
        add_roff(out, c->arguments);
        buf_add_char(out, '\n');
        add_roff(out, c->help);
        buf_add_char(out, '\n');
        if (c->formats)
            buf_addf(out, "Formats of \\-\\-output: %s.\n", c->formats);
        add_man_options(out, c->options);
        if (c->examples) {
            buf_add(out, STR(".PP\n.nf\n"));
            add_roff(out, c->examples);
            buf_add(out, STR(".fi\n"));
        }
    }
    buf_add(out, STR(".SH EXIT STATUS\n"
                     "0 after success, 1 when the server or the library reports an error, 2 for a "
                     "wrong command line. run, exec, shell, command run and session run end with "
                     "the status of the command inside; 124 when it ran out of time, 128 and the "
                     "number of the signal that ended it.\n"
                     ".SH FILES\n~/.opensandbox/config.toml\n"
                     ".SH ENVIRONMENT\nOPEN_SANDBOX_API_KEY, OPEN_SANDBOX_DOMAIN, "
                     "OPEN_SANDBOX_PROTOCOL, OPEN_SANDBOX_REQUEST_TIMEOUT, "
                     "OPEN_SANDBOX_USE_SERVER_PROXY, NO_COLOR\n"
                     ".SH SEE ALSO\nopensandbox(3)\n"));
}

int help_generate(struct buf *out, const char *kind)
{
    static const struct {
        const char *kind;
        void (*add)(struct buf *out);
    } makers[] = {
        {"bash", add_bash},
        {"zsh",  add_zsh },
        {"fish", add_fish},
        {"man",  add_man }
    };

    for (size_t i = 0; i < ARRAY_LEN(makers); i++)
        if (strcmp(kind, makers[i].kind) == 0) {
            makers[i].add(out);
            return 0;
        }
    return -EINVAL;
}
