/* terminal.c - a terminal of a sandbox on the terminal of osb: raw mode, resize, detach. */
#include "osb/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/time.h"

enum { CTRL_P = 0x10, CTRL_Q = 0x11, CHUNK_BYTES = 32 * 1024 };

struct terminal {
    struct cli *cli;
    struct osb_pty *pty;
    int signals; /* signalfd: SIGWINCH, SIGTERM, SIGHUP */
    int signo;   /* the signal that ended it; 0 = none */
    bool held;   /* a Ctrl-P was typed and waits for the next key */
    bool detached, ended;
    int error;
};

static void resize(struct terminal *t)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row)
        osb_pty_resize(t->pty, size.ws_col, size.ws_row);
}

/* Passes what was typed; Ctrl-P Ctrl-Q stays here and detaches. */
static int type(struct terminal *t, const char *data, size_t n)
{
    char out[CHUNK_BYTES + 1];
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        if (t->held && data[i] == CTRL_Q) {
            t->detached = true;
            break;
        }
        if (t->held)
            out[used++] = CTRL_P;
        t->held = data[i] == CTRL_P;
        if (!t->held)
            out[used++] = data[i];
    }
    return used ? osb_pty_write(t->pty, out, used) : 0;
}

/* The keyboard and signals, as a task beside the one that prints. */
static void input_task(struct osb_client *client, void *user)
{
    struct terminal *t = user;
    bool eof = false;

    while (!t->ended && !t->detached) {
        struct pollfd fds[] = {
            {STDIN_FILENO, POLLIN, 0},
            {t->signals,   POLLIN, 0}
        };
        struct signalfd_siginfo info;
        char data[CHUNK_BYTES / 2];
        ssize_t n;
        int r = osb_wait_fd(client, eof ? t->signals : STDIN_FILENO, POLLIN, 100);

        if (r < 0)
            return;
        if (poll(fds, 2, 0) < 0)
            continue;
        if (fds[1].revents & POLLIN && read(t->signals, &info, sizeof(info)) == sizeof(info)) {
            if (info.ssi_signo != SIGWINCH) {
                t->signo = (int)info.ssi_signo;
                t->detached = true;
                return;
            }
            resize(t);
        }
        if (eof || !(fds[0].revents & (POLLIN | POLLHUP)))
            continue;
        n = read(STDIN_FILENO, data, sizeof(data));
        if (n == 0) {
            eof = true;
            r = type(t, "\004", 1); /* Ctrl-D: the end of what a shell reads */
        } else if (n > 0) {
            r = type(t, data, (size_t)n);
        }
        if (r < 0) {
            t->error = r;
            return;
        }
    }
}

static void output_loop(struct terminal *t)
{
    char data[CHUNK_BYTES];

    while (!t->detached && !t->error) {
        long n = osb_pty_read(t->pty, data, sizeof(data), 100);

        if (n == -ETIMEDOUT)
            continue;
        if (n < 0)
            t->error = (int)n;
        if (n <= 0)
            break;
        if (io_write_full(STDOUT_FILENO, str_make(data, (size_t)n), DEADLINE_NEVER) < 0)
            t->detached = true;
    }
    t->ended = true;
}

static bool make_raw(struct termios *ret_before)
{
    struct termios raw;

    if (tcgetattr(STDIN_FILENO, ret_before) < 0)
        return false;
    raw = *ret_before;
    cfmakeraw(&raw);
    return tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static int attach(struct terminal *t, const char *id)
{
    struct osb_task *task = NULL;
    struct termios before;
    bool raw = make_raw(&before);
    sigset_t set, old;

    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, &old);
    t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    resize(t);
    if (osb_task_start(t->cli->client, input_task, t, &task) == 0) {
        output_loop(t);
        osb_task_join(task);
    }
    if (raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    fd_close(t->signals);
    sigprocmask(SIG_SETMASK, &old, NULL);
    if (t->error)
        return cli_failed(t->cli);
    if (t->signo && cli_flag(t->cli, "rm"))
        return 128 + t->signo;
    if (t->detached) {
        t->cli->detached = true;
        fprintf(stderr, "\ndetached; osb shell %s --attach %s comes back\n",
                osb_sandbox_id(t->cli->sandbox), id);
        return EXIT_OK;
    }
    return osb_pty_exit_code(t->pty) < 0 ? 128 + SIGKILL : osb_pty_exit_code(t->pty);
}

int cli_terminal(struct cli *cli, const char *pty, int64_t since)
{
    struct terminal t = {.cli = cli, .signals = -EBADF};
    struct osb_pty_open how = {OSB_PTY_OPEN, .since = since, .takeover = true};
    int r;

    if (osb_pty_open(cli->sandbox, pty, &how, &t.pty) < 0)
        return cli_failed(cli);
    r = attach(&t, pty);
    if (!t.detached && !t.error && osb_pty_delete(cli->sandbox, pty) < 0 && cli->verbose)
        cli_failed(cli);
    osb_pty_close(t.pty);
    return r;
}
