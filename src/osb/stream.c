/* stream.c - a command in the foreground: its output as it comes, its exit status as ours. */
#include "osb/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/io.h"
#include "base/time.h"

/* What a signal handler must reach: the client whose call is to end. */
static struct osb_client *volatile interrupted_client;
static volatile sig_atomic_t interrupted;
static bool guarded;

/* The second signal ends a program that does not end by the first. Not SIGHUP: a terminal that is
 * closed sends it twice, by its shell and by the kernel. */
static void on_signal(int signo)
{
    if (interrupted && guarded && signo != SIGHUP) {
        (void)signal(signo, SIG_DFL);
        (void)raise(signo);
    }
    interrupted = signo;
    if (interrupted_client)
        osb_client_interrupt(interrupted_client);
}

int cli_interruptible(struct cli *cli, bool on)
{
    struct sigaction action = {.sa_handler = on || guarded ? on_signal : SIG_DFL};

    interrupted_client = on ? cli->client : NULL;
    sigaction(SIGINT, &action, NULL);
    if (on && guarded && interrupted) /* it came between two calls */
        osb_client_interrupt(cli->client);
    return on ? 0 : (int)interrupted;
}

void cli_guard(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_signal}, before;

    guarded = true;
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL); /* nohup stays as it is */
}

int cli_interrupted(void)
{
    return (int)interrupted;
}

enum { INPUT_BYTES = 256 * 1024 };

struct stream {
    struct cli *cli;
    struct osb_task *feeder; /* passes standard input on; NULL = none */
    char id[OSB_ID_MAX];
    bool open_line[2]; /* of stdout and stderr: a line without its end was written */
    bool broken;       /* nobody reads our output any more */
    bool feeds;        /* standard input goes to the command */
};

static int put(struct stream *s, int fd, const char *data, size_t bytes)
{
    if (io_write_full(fd, str_make(data, bytes), DEADLINE_NEVER) < 0)
        s->broken = true;
    return s->broken ? -1 : 0;
}

/* --- standard input --- */

/* What the command takes no more is dropped, as a pipe would. */
static bool pass_on(struct stream *s, const char *data, size_t bytes)
{
    struct osb_client *client = s->cli->client;
    int r = osb_command_write(s->cli->sandbox, s->id, data, bytes, bytes == 0);

    if (r < 0 && r != -ECANCELED && r != -EBUSY && r != -ENOENT)
        cli_warning(s->cli, "Standard input is not passed on any more: %s",
                    osb_error_message(osb_client_error(client)));
    return r == 0 && bytes > 0;
}

/* As a task beside the command. Files and /dev/null cannot be waited for, and need not be. */
static void feed_task(struct osb_client *client, void *user)
{
    struct stream *s = user;
    char *data = arena_alloc(&s->cli->arena, INPUT_BYTES);
    ssize_t n;
    int r;

    osb_client_set_timeout(client, -1); /* the command reads when it likes */
    while (data) {
        r = osb_wait_fd(client, STDIN_FILENO, POLLIN, -1);
        if (r < 0 && r != -EPERM)
            return;
        n = read(STDIN_FILENO, data, INPUT_BYTES);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            cli_warning(s->cli, "Standard input cannot be read: %s", strerror(errno));
        if (!pass_on(s, data, n > 0 ? (size_t)n : 0))
            return;
    }
}

static void feed_end(struct stream *s)
{
    if (!s->feeder)
        return;
    osb_task_cancel(s->feeder);
    (void)osb_task_join(s->feeder);
    s->feeder = NULL;
}

/* --- output --- */

/* Events have lines without their end. That of a line which has not ended, such as a prompt, is
 * written when another line comes, or at the end of all. */
static int on_event(void *user, const struct osb_event *event)
{
    enum osb_event_type type = osb_event_type(event);
    struct stream *s = user;
    size_t bytes = 0;
    const char *text = osb_event_text(event, &bytes);
    int fd = type == OSB_EVENT_STDOUT ? STDOUT_FILENO : STDERR_FILENO;
    bool *open_line;

    if (type == OSB_EVENT_INIT && text && str_copy(s->id, sizeof(s->id), str_of(text)) < 0)
        s->id[0] = '\0';
    if (type == OSB_EVENT_INIT && s->feeds && s->id[0] && !s->feeder &&
        osb_task_start(s->cli->client, feed_task, s, &s->feeder) < 0)
        return -1;
    if ((type != OSB_EVENT_STDOUT && type != OSB_EVENT_STDERR) || !text)
        return 0;
    open_line = &s->open_line[fd == STDERR_FILENO];
    if (*open_line && !osb_event_continues(event) && put(s, fd, "\n", 1) < 0)
        return -1;
    *open_line = osb_event_unfinished(event);
    if (put(s, fd, text, bytes) < 0)
        return -1;
    /* An empty line comes as its end. */
    return *open_line || (bytes == 1 && text[0] == '\n') ? 0 : put(s, fd, "\n", 1);
}

/* As shells report it: 128 and the signal. "signal: killed", "exit status 3", "timeout". */
static int status_of(const struct osb_execution *execution)
{
    static const struct {
        const char *word;
        int status;
    } words[] = {
        {"timeout",      EXIT_TIMED_OUT},
        {"timed out",    EXIT_TIMED_OUT},
        {"deadline",     EXIT_TIMED_OUT},
        {"killed",       128 + SIGKILL },
        {"terminated",   128 + SIGTERM },
        {"interrupt",    128 + SIGINT  },
        {"segmentation", 128 + SIGSEGV },
        {"abort",        128 + SIGABRT }
    };
    const char *text[] = {osb_execution_error_name(execution), osb_execution_error_value(execution),
                          osb_execution_traceback(execution)};
    int code = osb_execution_exit_code(execution);

    if (code >= 0)
        return code;
    if (!osb_execution_failed(execution))
        return EXIT_OK;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        for (size_t k = 0; k < ARRAY_LEN(text); k++)
            if (text[k] && strcasestr(text[k], words[i].word))
                return words[i].status;
    return EXIT_FAILED;
}

int cli_run(struct cli *cli, const struct osb_run *wanted, const char *session)
{
    struct stream s = {.cli = cli, .feeds = wanted->keep_stdin_open};
    struct osb_run run = *wanted;
    struct osb_execution *execution = NULL;
    int r, status;

    run.on_event = on_event;
    run.user = &s;
    run.discard = true;
    cli_interruptible(cli, true);
    r = session ? osb_session_run(cli->sandbox, session, &run, &execution)
                : osb_command_run(cli->sandbox, &run, &execution);
    feed_end(&s);
    cli_interruptible(cli, false);
    for (int i = 0; i < 2 && !s.broken; i++)
        if (s.open_line[i] && put(&s, i ? STDERR_FILENO : STDOUT_FILENO, "\n", 1) < 0)
            break;
    if (r < 0 && (interrupted || s.broken) && s.id[0]) {
        /* The command ends with us; its sandbox may go on. */
        if (osb_command_interrupt(cli->sandbox, s.id) < 0)
            cli_failed(cli);
        return 128 + (interrupted ? (int)interrupted : SIGPIPE);
    }
    if (r < 0 && interrupted)
        return 128 + (int)interrupted; /* the user knows why */
    if (r < 0)
        return cli_failed(cli);
    status = status_of(execution);
    if (status != EXIT_OK && osb_execution_exit_code(execution) < 0)
        cli_error(cli, "Execution Error", "%s: %s", osb_execution_error_name(execution),
                  osb_execution_error_value(execution));
    osb_execution_free(execution);
    return status;
}
