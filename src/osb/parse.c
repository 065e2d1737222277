/* parse.c - a command line against the table of commands. */
#include "osb/command.h"

#include <errno.h>
#include <unistd.h>

/* What is being read: the words that are left, and the options that count here. */
struct parser {
    struct arena *arena;
    struct parsed *out;
    const char *const *words;
    size_t count, at;
    const char **arguments;
    const struct option *lists[3]; /* NULL-terminated lists of options */
    struct err *e;
};

int duration_parse(struct str text, int64_t *ret_seconds)
{
    static const struct {
        char unit;
        int64_t seconds;
    } units[] = {
        {'h', 3600},
        {'m', 60  },
        {'s', 1   }
    };
    int64_t total = 0;
    uint64_t number;

    text = str_trim(text);
    if (str_to_u64_range(text, 0, INT32_MAX, &number) == 0) {
        *ret_seconds = (int64_t)number;
        return 0;
    }
    if (text.n == 0)
        return -EINVAL;
    for (size_t i = 0; i < ARRAY_LEN(units) && text.n > 0; i++) {
        size_t digits = str_find(text, units[i].unit);

        if (digits == text.n)
            continue;
        if (str_to_u64_range(str_make(text.p, digits), 0, INT32_MAX, &number) < 0)
            return -EINVAL;
        total += (int64_t)number * units[i].seconds;
        text = str_skip(text, digits + 1);
    }
    if (text.n > 0)
        return -EINVAL;
    *ret_seconds = total;
    return 0;
}

int mode_parse(struct str text, unsigned *ret_mode)
{
    unsigned mode = 0;

    if (text.n == 0 || text.n > 5)
        return -EINVAL;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '7')
            return -EINVAL;
        mode = mode * 8 + (unsigned)(text.p[i] - '0');
    }
    if (mode > 07777)
        return -EINVAL;
    *ret_mode = mode;
    return 0;
}

bool command_argument(const struct command *command, size_t index, struct argument *ret)
{
    struct str rest = str_of(command->arguments), word;

    for (size_t i = 0; str_cut(&rest, ' ', &word); i++) {
        if (i < index)
            continue;
        *ret = (struct argument){.name = word};
        if (str_starts(ret->name, STR("["))) {
            ret->name = str_make(word.p + 1, word.n - 2);
            ret->optional = true;
        }
        if (str_ends(ret->name, STR("..."))) {
            ret->name.n -= 3;
            ret->repeats = true;
        }
        return ret->name.n > 0;
    }
    return false;
}

const struct value *parsed_value(const struct parsed *p, const char *name)
{
    for (size_t i = p->value_count; i > 0; i--)
        if (strcmp(p->values[i - 1].option->name, name) == 0)
            return &p->values[i - 1];
    return NULL;
}

/* --- values of options --- */

static int fail(struct parser *p, const struct option *option, const char *why)
{
    return err_set(p->e, EINVAL, "Invalid value for '--%s': %s", option->name, why);
}

static int read_choice(struct parser *p, const struct option *option, struct value *v)
{
    struct str rest = str_of(option->value), word;
    char why[200];

    while (str_cut(&rest, '|', &word))
        if (str_eq_nocase(word, str_of(v->text))) {
            v->text = arena_strdup(p->arena, word);
            return v->text ? 0 : -ENOMEM;
        }
    snprintf(why, sizeof(why), "'%.60s' is not one of %.100s.", v->text, option->value);
    return fail(p, option, why);
}

static int read_number(struct parser *p, const struct option *option, struct value *v)
{
    int64_t max = option->max ? option->max : INT32_MAX;
    char why[160];

    if (str_to_i64(str_of(v->text), &v->number) < 0)
        snprintf(why, sizeof(why), "'%.60s' is not a valid integer.", v->text);
    else if (v->number < option->min || v->number > max)
        snprintf(why, sizeof(why), "%.30s is not in the range %lld to %lld.", v->text,
                 (long long)option->min, (long long)max);
    else
        return 0;
    return fail(p, option, why);
}

static int read_value(struct parser *p, const struct option *option, struct value *v)
{
    struct str text = str_of(v->text);
    unsigned mode;
    char why[200];

    switch (option->kind) {
    case OPTION_INT:
        return read_number(p, option, v);
    case OPTION_CHOICE:
        return read_choice(p, option, v);
    case OPTION_LIFETIME:
        if (str_eq_nocase(str_trim(text), STR("none"))) {
            v->number = -1;
            return 0;
        }
        /* fall through */
    case OPTION_DURATION:
        if (duration_parse(text, &v->number) == 0)
            return 0;
        snprintf(why, sizeof(why), "'%.60s' is no duration. Write 90s, 10m or 1h30m.", v->text);
        return fail(p, option, why);
    case OPTION_PAIR:
        if (str_find(text, '=') < text.n)
            return 0;
        snprintf(why, sizeof(why), "expected KEY=VALUE, got '%.60s'.", v->text);
        return fail(p, option, why);
    case OPTION_MODE:
        if (mode_parse(text, &mode) < 0) {
            snprintf(why, sizeof(why), "'%.30s' is no mode. Write octal digits: 644.", v->text);
            return fail(p, option, why);
        }
        v->number = mode;
        return 0;
    case OPTION_FILE:
        if (strcmp(v->text, "-") == 0 || access(v->text, F_OK) == 0)
            return 0;
        snprintf(why, sizeof(why), "Path '%.120s' does not exist.", v->text);
        return fail(p, option, why);
    default:
        return 0;
    }
}

/* --- options --- */

static const struct option *find_option(const struct parser *p, struct str name, char letter,
                                        bool *ret_negated)
{
    for (size_t l = 0; l < ARRAY_LEN(p->lists); l++)
        for (const struct option *o = p->lists[l]; o && o->name; o++) {
            *ret_negated = false;
            if (letter ? o->letter == letter : str_eq(str_of(o->name), name))
                return o;
            *ret_negated = true;
            if (!letter && o->kind == OPTION_FLAG && str_starts(name, STR("no-")) &&
                str_eq(str_skip(name, 3), str_of(o->name)))
                return o;
        }
    return NULL;
}

static int take_option(struct parser *p, const struct option *option, bool negated,
                       const char *text)
{
    struct value *v = &p->out->values[p->out->value_count];
    int r;

    if (p->out->value_count == p->out->value_max)
        return err_set(p->e, E2BIG, "Too many options.");
    *v = (struct value){.option = option, .text = text, .negated = negated};
    if (option->kind != OPTION_FLAG) {
        if (!v->text && p->at < p->count)
            v->text = p->words[p->at++];
        if (!v->text)
            return err_set(p->e, EINVAL, "Option '--%s' requires an argument.", option->name);
        r = read_value(p, option, v);
        if (r < 0)
            return r;
    } else if (text) {
        return err_set(p->e, EINVAL, "Option '--%s' does not take a value.", option->name);
    }
    p->out->value_count++;
    p->out->help |= strcmp(option->name, "help") == 0;
    p->out->version |= strcmp(option->name, "version") == 0;
    return 0;
}

static int read_long(struct parser *p, const char *word)
{
    struct str name = str_of(word + 2);
    size_t equals = str_find(name, '=');
    const char *text = equals < name.n ? name.p + equals + 1 : NULL;
    const struct option *option;
    bool negated;

    name.n = equals;
    option = find_option(p, name, 0, &negated);
    if (!option)
        return err_set(p->e, EINVAL, "No such option: --%.*s", STR_ARG(name));
    return take_option(p, option, negated, text);
}

/* -d, -it, -t5m, -t 5m */
static int read_letters(struct parser *p, const char *word)
{
    for (const char *c = word + 1; *c; c++) {
        bool negated;
        const struct option *option = find_option(p, STR_NONE, *c, &negated);
        int r;

        if (!option)
            return err_set(p->e, EINVAL, "No such option: -%c", *c);
        if (option->kind != OPTION_FLAG)
            return take_option(p, option, false, c[1] ? c + 1 : NULL);
        r = take_option(p, option, false, NULL);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] != '\0';
}

static int read_option(struct parser *p)
{
    const char *word = p->words[p->at++];

    return word[1] == '-' ? read_long(p, word) : read_letters(p, word);
}

/* --- commands --- */

/* Whether `path` begins with the words from `at` on; *ret_words is how many it has. */
static bool matches(const struct parser *p, const char *path, size_t *ret_words)
{
    struct str rest = str_of(path), word;
    size_t n = 0;

    while (str_cut(&rest, ' ', &word)) {
        if (p->at + n >= p->count || !str_eq(word, str_of(p->words[p->at + n])))
            return false;
        n++;
    }
    *ret_words = n;
    return true;
}

/* The longest command or group that the next words name. */
static int find_command(struct parser *p)
{
    size_t words, longest = 0;

    for (size_t i = 0; i < command_count; i++)
        if (matches(p, command_table[i].path, &words) && words > longest) {
            longest = words;
            p->out->command = &command_table[i];
        }
    for (size_t i = 0; i < group_count; i++)
        if (matches(p, group_table[i].path, &words) && words > longest) {
            longest = words;
            p->out->command = NULL;
            p->out->group = &group_table[i];
        }
    p->at += longest;
    if (longest == 0)
        return err_set(p->e, EINVAL, "No such command '%.80s'.", p->words[p->at]);
    return 0;
}

static int read_arguments(struct parser *p)
{
    const struct command *command = p->out->command;
    struct argument argument;
    bool ended = false;
    size_t n = 0;
    int r;

    while (p->at < p->count) {
        const char *word = p->words[p->at];
        bool tail = (command->flags & COMMAND_TAIL) && n > 0 &&
                    command_argument(command, n - 1, &argument) && argument.repeats;

        if (!ended && !tail && strcmp(word, "--") == 0) {
            ended = true;
            p->at++;
        } else if (!ended && !tail && is_option(word)) {
            r = read_option(p);
            if (r < 0)
                return r;
        } else {
            if (n == PARSED_ARGUMENTS_MAX)
                return err_set(p->e, E2BIG, "More than %d arguments.", PARSED_ARGUMENTS_MAX);
            p->arguments[n++] = word;
            p->at++;
            ended |= tail;
        }
    }
    p->out->argument_count = n;
    return 0;
}

static int check_counts(struct parser *p)
{
    const struct command *command = p->out->command;
    size_t n = p->out->argument_count, i = 0;
    struct argument argument = {0};

    for (; command_argument(command, i, &argument); i++)
        if (!argument.optional && i >= n)
            return err_set(p->e, EINVAL, "Missing argument '%.*s'.", STR_ARG(argument.name));
    if (n > i && !argument.repeats)
        return err_set(p->e, EINVAL, "Got unexpected extra argument (%.80s)", p->arguments[i]);
    for (const struct option *o = command->options; o && o->name; o++)
        if ((o->flags & OPTION_REQUIRED) && !parsed_value(p->out, o->name))
            return err_set(p->e, EINVAL, "Missing option '--%s'.", o->name);
    return 0;
}

int command_parse(struct arena *a, int argc, const char *const *argv, struct parsed *ret,
                  struct err *e)
{
    struct parser p = {.arena = a, .out = ret, .words = argv, .at = 1, .e = e};
    /* One word may hold many letters, so values are counted by bytes. */
    size_t values = 1;
    int r;

    *ret = (struct parsed){0};
    if (argc > PARSED_WORDS_MAX)
        return err_set(e, E2BIG, "More than %d words.", PARSED_WORDS_MAX);
    p.count = (size_t)argc;
    for (size_t i = 1; i < p.count; i++)
        values += argv[i][0] == '-' && argv[i][1] != '-' ? min_size(strlen(argv[i]), 64) : 1;
    ret->values = arena_new_array(a, struct value, values);
    ret->value_max = values;
    p.arguments = arena_new_array(a, const char *, PARSED_ARGUMENTS_MAX + 1);
    if (!ret->values || !p.arguments)
        return err_set(e, ENOMEM, "out of memory");
    ret->arguments = p.arguments;

    p.lists[0] = root_options;
    while (p.at < p.count && is_option(argv[p.at])) {
        r = read_option(&p);
        if (r < 0)
            return r;
    }
    if (p.at == p.count || ret->help || ret->version)
        return 0;
    r = find_command(&p);
    if (r < 0)
        return r;
    if (!ret->command) {
        p.lists[0] = help_options;
        while (p.at < p.count && is_option(argv[p.at])) {
            r = read_option(&p);
            if (r < 0)
                return r;
        }
        if (p.at < p.count && !ret->help)
            return err_set(e, EINVAL, "No such command '%.80s'.", argv[p.at]);
        return 0;
    }
    p.lists[0] = ret->command->options;
    p.lists[1] = help_options;
    p.lists[2] = ret->command->formats ? output_options : NULL;
    r = read_arguments(&p);
    if (r < 0)
        return r;
    return ret->help ? 0 : check_counts(&p);
}
