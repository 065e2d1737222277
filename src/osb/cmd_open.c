/* cmd_open.c - osb open: the address of a port of a sandbox, shown, and in the browser. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "osb/commands.h"

extern char **environ;

static bool has_display(void)
{
    static const char *const names[] = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]);

        if (value && value[0])
            return true;
    }
    return false;
}

/* xdg-open returns once a browser has the address; what it prints is noise. */
static bool open_browser(const char *url)
{
    char program[] = "xdg-open", *argv[] = {program, (char *)(uintptr_t)url, NULL};
    posix_spawn_file_actions_t quiet;
    int status = 1;
    pid_t pid;

    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&pid, argv[0], &quiet, NULL, argv, environ) == 0)
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    posix_spawn_file_actions_destroy(&quiet);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool cli_open_browser(const char *url)
{
    return has_display() && open_browser(url);
}

/* A browser sends no headers of ours: an endpoint that wants some is asked for with a signature. */
static int get_endpoint(struct cli *cli, const char *id, uint16_t port, struct osb_answer **ret)
{
    int64_t seconds = cli_number(cli, "signed", 0);
    struct osb_answer *plain = NULL, *better = NULL;

    if (seconds > 0)
        return osb_endpoint_get_signed(cli->client, id, port, time(NULL) + seconds, ret);
    if (osb_endpoint_get(cli->client, id, port, &plain) < 0)
        return -1;
    if (osb_answer_count(plain, "headers") > 0 &&
        osb_endpoint_get_signed(cli->client, id, port, time(NULL) + 3600, &better) == 0) {
        osb_answer_free(plain);
        plain = better;
    }
    *ret = plain;
    return 0;
}

int open_port(struct cli *cli)
{
    const char *id = cli_argument(cli, 0);
    struct osb_answer *answer = NULL;
    const char *url;
    uint16_t port;
    bool opened;
    struct doc doc;

    if (str_to_u16(str_of(cli_argument(cli, 1)), &port) < 0 || port == 0) {
        cli_error(cli, "Usage", "'%s' is no port. Write 1 to 65535.", cli_argument(cli, 1));
        return EXIT_USAGE;
    }
    if (get_endpoint(cli, id, port, &answer) < 0)
        return cli_failed(cli);
    url = arena_printf(&cli->arena, "%s://%s",
                       str_starts(str_of(osb_client_base_url(cli->client)), STR("https:")) ? "https"
                                                                                           : "http",
                       osb_answer_text(answer, "endpoint"));
    for (size_t i = 0; i < osb_answer_count(answer, "headers"); i++)
        fprintf(stderr, "Requests must have the header %s; `osb port-forward %s %u` adds it.\n",
                osb_answer_key(answer, "headers", i), id, port);
    osb_answer_free(answer);
    opened = !cli_flag(cli, "print") && cli_open_browser(url);
    if (cli->format == FORMAT_TABLE)
        return printf("%s\n", url) < 0 || fflush(stdout) != 0 ? EXIT_FAILED : EXIT_OK;
    doc_begin(&doc);
    doc_text(&doc, "sandbox_id", id);
    doc_text(&doc, "url", url);
    json_member_bool(&doc.w, STR("opened"), opened);
    return cli_object(cli, NULL, &doc);
}
