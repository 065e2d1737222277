/* cmd_run.c - osb run, exec and shell: a command or a terminal, in a new sandbox or in one. */
#include "osb/commands.h"

#include <errno.h>
#include <unistd.h>

#include "base/time.h"

/* What the shell of a new terminal runs, NULL for itself: the API of terminals takes no variables,
 * so the shell exports them, and is replaced by an interactive one when there is no command. */
static const char *terminal_command(struct cli *cli, const char *const *words)
{
    const char *const *variables = cli_texts(cli, "env", NULL);
    const char *command =
        words[0] ? cli_quote(cli, words) : "exec \"${BASH:-sh}\" ${BASH:+--norc --noprofile}";

    if (!variables)
        return words[0] ? command : NULL;
    return arena_printf(&cli->arena, "export %s; %s", cli_quote(cli, variables), command);
}

static int run_on_terminal(struct cli *cli, const char *const *words)
{
    char pty[OSB_ID_MAX];

    if (osb_pty_create(cli->sandbox, cli_text(cli, "workdir"), terminal_command(cli, words), pty) <
        0)
        return cli_failed(cli);
    return cli_terminal(cli, pty, 0);
}

/* Refuses what cannot be had with --tty: terminals are of the sandbox's own user, without limit. */
static int check_terminal(struct cli *cli)
{
    static const char *const names[] = {"uid", "command-timeout"};

    for (size_t i = 0; cli_flag(cli, "tty") && i < ARRAY_LEN(names); i++)
        if (parsed_value(&cli->line, names[i])) {
            cli_error(cli, "Usage",
                      "--%s does not go with --tty. Leave one out; in a terminal `su`, `setpriv` "
                      "and `timeout` do the same.",
                      names[i]);
            return EXIT_USAGE;
        }
    return 0;
}

/* The command as the options want it. */
static int run_inside(struct cli *cli, const char *const *words)
{
    struct osb_run run = {OSB_RUN};
    const struct value *uid = parsed_value(&cli->line, "uid");

    if (cli_flag(cli, "tty"))
        return run_on_terminal(cli, words);
    run.command = cli_quote(cli, words);
    run.cwd = cli_text(cli, "workdir");
    run.env = cli_pairs(cli, "env", &run.env_count);
    run.timeout_ms = cli_number(cli, "command-timeout", 0) * 1000;
    run.has_uid = uid != NULL;
    run.uid = uid ? (uint32_t)uid->number : 0;
    run.keep_stdin_open = cli_flag(cli, "interactive");
    return cli_run(cli, &run, NULL);
}

/* --- a new sandbox --- */

enum {
    LIFETIME_S = 600,
    RENEW_FIRST_MS = 1000,
    RENEW_MS = LIFETIME_S * 1000 / 3,
    PENDING_MS = LIFETIME_S * 1000, /* it expires then */
    READY_MS = 30 * 1000,
    STEP_MS = 500,
    POLL_FIRST_MS = 20, /* most sandboxes are ready at once, or a moment later */
    POLL_MS = 200,
};

/* As a task beside the command: a sandbox whose lifetime the user did not set lives as long as its
 * command, and for LIFETIME_S if we are killed. Renewals that fail are tried again. */
static void renew_task(struct osb_client *client, void *user)
{
    struct cli *cli = user;
    uint32_t wait_ms = RENEW_FIRST_MS;

    while (osb_sleep(client, wait_ms) == 0) {
        if (osb_sandbox_renew(client, osb_sandbox_id(cli->sandbox), LIFETIME_S, NULL) == -ECANCELED)
            return;
        wait_ms = RENEW_MS;
    }
}

static int run_and_renew(struct cli *cli, const char *const *words)
{
    struct osb_task *task = NULL;
    int status;

    if (osb_task_start(cli->client, renew_task, cli, &task) < 0)
        return cli_failed(cli);
    status = run_inside(cli, words);
    osb_task_cancel(task);
    (void)osb_task_join(task);
    return status;
}

/* Ctrl-C may come while the sandbox is deleted, or may have come just before. */
static int end_sandbox(struct cli *cli)
{
    const char *id = osb_sandbox_id(cli->sandbox);
    int r = osb_sandbox_delete(cli->client, id);

    if (r == -ECANCELED)
        r = osb_sandbox_delete(cli->client, id);
    return r < 0 && r != -ENOENT ? cli_failed(cli) : EXIT_OK;
}

/* Whether the sandbox is Pending: its image is pulled, or it waits for a machine. On a terminal the
 * server's message says how far that is. */
static bool is_pending(struct cli *cli, char message[OSB_MESSAGE_MAX])
{
    struct osb_answer *answer = NULL;
    const struct osb_info *info;
    bool pending;

    if (osb_sandbox_get(cli->client, osb_sandbox_id(cli->sandbox), &answer) < 0)
        return false;
    info = osb_info_at(answer, 0);
    pending = info && strcmp(osb_info_state(info), "Pending") == 0;
    if (pending)
        (void)snprintf(message, OSB_MESSAGE_MAX, "%s", osb_info_message(info));
    osb_answer_free(answer);
    return pending;
}

/* A large image takes longer to pull than a sandbox to begin: while that is Pending it has
 * PENDING_MS, then READY_MS, unless the user set a limit of all. */
static int wait_until_ready(struct cli *cli, uint32_t limit_ms)
{
    uint64_t all = deadline_in_ms(limit_ms ? limit_ms : PENDING_MS);
    uint64_t ready = deadline_in_ms(limit_ms ? limit_ms : READY_MS);
    bool shown = isatty(STDERR_FILENO), drawn = false, pending;
    uint32_t poll_ms = POLL_FIRST_MS;
    char message[OSB_MESSAGE_MAX] = "";
    int r;

    while ((r = osb_sandbox_wait_ready(cli->sandbox, STEP_MS, poll_ms)) == -ETIMEDOUT) {
        poll_ms = POLL_MS;
        pending = is_pending(cli, message);
        if (cli_interrupted())
            break;
        if (pending && !limit_ms)
            ready = deadline_in_ms(READY_MS);
        if (deadline_passed(pending ? all : ready))
            break;
        if (pending && shown && message[0])
            drawn = fprintf(stderr, "\r\033[K%.76s", message) > 0;
    }
    if (drawn)
        fputs("\r\033[K", stderr);
    if (cli_interrupted())
        return EXIT_OK;
    if (r == -ETIMEDOUT)
        return cli_error(cli, "Sandbox Error", "Sandbox %s was not ready in time%s%s",
                         osb_sandbox_id(cli->sandbox), message[0] ? "; the last of it: " : "",
                         message);
    return r < 0 ? cli_failed(cli) : EXIT_OK;
}

/* Only the wait can be interrupted: a request that is given up may have made a sandbox, whose id we
 * would not know. What fails to become ready is deleted. */
static int make_sandbox(struct cli *cli, struct osb_create *create)
{
    bool wait = !create->no_wait;
    int status = EXIT_OK;

    create->no_wait = true;
    if (osb_sandbox_create(cli->client, create, &cli->sandbox) < 0)
        return cli_failed(cli);
    if (!wait || cli_interrupted())
        return EXIT_OK;
    (void)cli_interruptible(cli, true);
    status = wait_until_ready(cli, create->ready_timeout_ms);
    (void)cli_interruptible(cli, false);
    if (status != EXIT_OK)
        (void)end_sandbox(cli);
    return status;
}

int run_new(struct cli *cli)
{
    const char *const *words = cli_arguments(cli, 0);
    struct osb_create create = {OSB_CREATE};
    int status = check_terminal(cli);
    bool ends = cli_flag(cli, "rm");

    cli->format = FORMAT_RAW;
    if (!status)
        status = cli_fill_create(cli, &create);
    if (status)
        return status;
    if (!words[0] && !cli_flag(cli, "tty")) {
        cli_error(cli, "Usage", "Nothing to run: osb run -it for a shell, osb run -- COMMAND...");
        return EXIT_USAGE;
    }
    if (ends)
        cli_guard();
    status = make_sandbox(cli, &create);
    if (status)
        return status;
    if (!cli_interrupted())
        status = create.timeout_s ? run_inside(cli, words) : run_and_renew(cli, words);
    if (cli_interrupted())
        status = 128 + cli_interrupted();
    if (ends && !cli->detached) {
        if (end_sandbox(cli) != EXIT_OK && status == EXIT_OK)
            status = EXIT_FAILED;
    } else if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "sandbox %s goes on; osb sandbox kill ends it, --rm ends it by itself\n",
                osb_sandbox_id(cli->sandbox));
    }
    return status;
}

int run_exec(struct cli *cli)
{
    int r = check_terminal(cli);

    cli->format = FORMAT_RAW;
    if (!r)
        r = cli_connect(cli);
    return r ? r : run_inside(cli, cli_arguments(cli, 1));
}

int run_shell(struct cli *cli)
{
    const char *attach = cli_text(cli, "attach");
    int r = cli_connect(cli);

    cli->format = FORMAT_RAW;
    if (r)
        return r;
    if (attach)
        return cli_terminal(cli, attach, 0);
    return run_on_terminal(cli, cli_arguments(cli, 1));
}
