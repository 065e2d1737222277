/* main.c - osb, the command line of OpenSandbox. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "osb/cli.h"
#include "version.h"

enum { ARENA_BYTES_MAX = 512 * 1024 * 1024 };

static int show(struct buf *text)
{
    return cli_write(text->p, text->n) < 0 ? EXIT_FAILED : EXIT_OK;
}

static int show_help(const struct parsed *line)
{
    AUTO_BUF(text, DOC_BYTES_MAX);

    if (line->command)
        help_command(&text, line->command);
    else if (line->group)
        help_group(&text, line->group);
    else
        help_program(&text);
    return show(&text);
}

static int show_version(void)
{
    AUTO_BUF(text, 256);

    buf_addf(&text, "opensandbox, version %s\n", OPENSANDBOX_VERSION);
    return show(&text);
}

/* The format by name; -1 when it is none. */
static int format_of(const char *name)
{
    static const char *const names[] = {[FORMAT_TABLE] = "table",
                                        [FORMAT_JSON] = "json",
                                        [FORMAT_YAML] = "yaml",
                                        [FORMAT_RAW] = "raw"};

    for (int i = 0; i < (int)ARRAY_LEN(names); i++)
        if (str_eq_nocase(str_of(name), str_of(names[i])))
            return i;
    return -1;
}

static bool has_format(const char *formats, const char *name)
{
    struct str rest = str_of(formats), word;

    while (str_cut(&rest, ' ', &word))
        if (str_eq_nocase(word, str_of(name)))
            return true;
    return false;
}

/* The value of the first -o among the words of a command line, however wrong the others are; -1
 * when there is none. */
static int format_among(int argc, const char *const *argv)
{
    static const char *const names[] = {"--output=", "--output", "-o"};

    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        for (size_t k = 0; k < ARRAY_LEN(names); k++) {
            struct str word = str_of(argv[i]), name = str_of(names[k]);

            if (!str_starts(word, name))
                continue;
            if (word.n > name.n)
                return format_of(word.p + name.n);
            return i + 1 < argc ? format_of(argv[i + 1]) : -1;
        }
    return -1;
}

static int usage_error(struct cli *cli, const char *message)
{
    AUTO_BUF(text, DOC_BYTES_MAX);

    if (cli->errors == FORMAT_JSON || cli->errors == FORMAT_YAML) {
        cli_error(cli, "Usage", "%s", message);
        return EXIT_USAGE;
    }
    help_usage(&text, &cli->line);
    buf_addf(&text, "\nError: %s\n", message);
    fputs(text.p, stderr);
    return EXIT_USAGE;
}

/* -o of the command, or of the program, or of the file when the command has that format. */
static int choose_format(struct cli *cli)
{
    const char *formats = cli->line.command->formats, *name = cli_text(cli, "output");
    char message[200];

    if (!formats)
        return 0;
    if (!name && cli->settings.format && has_format(formats, cli->settings.format))
        name = cli->settings.format;
    if (name && !has_format(formats, name)) {
        snprintf(message, sizeof(message),
                 "Invalid value for '--output': '%.40s' is not one of: %s.", name, formats);
        return usage_error(cli, message);
    }
    if (name) {
        cli->format = (enum format)format_of(name);
    } else {
        struct str rest = str_of(formats), word;
        char first[16];

        str_cut(&rest, ' ', &word);
        cli->format =
            str_copy(first, sizeof(first), word) < 0 ? FORMAT_TABLE : (enum format)format_of(first);
    }
    cli->errors = cli->format;
    return 0;
}

static int run(struct cli *cli, int argc, const char *const *argv)
{
    struct err e = {0};
    int r = command_parse(&cli->arena, argc, argv, &cli->line, &e), wanted;

    /* What follows a command that takes words as they are may look like -o. */
    wanted = r < 0                     ? format_among(argc, argv)
             : cli_text(cli, "output") ? format_of(cli_text(cli, "output"))
                                       : -1;
    if (wanted >= 0)
        cli->errors = (enum format)wanted;
    if (r < 0)
        return usage_error(cli, e.msg);
    if (cli->line.version)
        return show_version();
    if (cli->line.help || !cli->line.command)
        return show_help(&cli->line);
    r = settings_load(cli, &e);
    if (r < 0)
        return cli_error(cli, "Configuration", "%s", e.msg);
    cli->verbose = cli_flag(cli, "verbose");
    cli->color = cli->settings.color && !cli_flag(cli, "no-color") && !getenv("NO_COLOR") &&
                 isatty(STDOUT_FILENO);
    r = choose_format(cli);
    if (r)
        return r;
    if (!(cli->line.command->flags & COMMAND_OFFLINE)) {
        r = cli_client(cli);
        if (r)
            return r;
    }
    return cli->line.command->run(cli);
}

int main(int argc, char **argv)
{
    struct cli cli = {.format = FORMAT_TABLE};
    int status;

    (void)signal(SIGPIPE, SIG_IGN);
    arena_init(&cli.arena, ARENA_BYTES_MAX);
    status = run(&cli, argc, (const char *const *)argv);
    osb_sandbox_free(cli.sandbox);
    osb_client_close(cli.client);
    arena_done(&cli.arena);
    return status;
}
