#include "execd/pty/pty_proc.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

enum {
    /* More than the kernel buffers of a terminal's unread output. */
    DRAIN_BYTES_MAX = 128 << 10,
    READS_MAX = 64, /* to fill one piece; a read from a terminal returns little */
};

static_assert((int)PTY_READ_BYTES <= (int)LOOP_SCRATCH_BYTES, "read into the loop's scratch");

static void proc_on_task(struct loop_task *t);

void pty_proc_init(struct pty_proc *p, struct loop *loop, struct reaper *reaper,
                   const struct pty_proc_ops *ops)
{
    static const enum pty_channel channels[PTY_ENDS] = {
        [PTY_END_IN] = PTY_CHANNEL_STDIN,
        [PTY_END_OUT] = PTY_CHANNEL_STDOUT,
        [PTY_END_ERR] = PTY_CHANNEL_STDERR,
    };

    *p = (struct pty_proc){.ops = ops, .loop = loop, .reaper = reaper, .slave = -EBADF};
    for (size_t i = 0; i < PTY_ENDS; i++)
        p->ends[i] = (struct pty_end){.proc = p, .fd = -EBADF, .channel = channels[i]};
}

/* --- descriptors --- */

static void end_on_ready(struct loop_io *io, uint32_t events);

static int end_watch(struct pty_end *end, uint32_t events, struct err *e)
{
    struct loop *loop = end->proc->loop;
    int r = 0;

    if (end->fd < 0 || events == end->watched)
        return 0;
    if (!events)
        loop_io_stop(loop, &end->io);
    else if (end->watched)
        loop_io_set(loop, &end->io, events);
    else
        r = loop_io_start(loop, &end->io, end->fd, events, end_on_ready, e);
    if (r >= 0)
        end->watched = events;
    return r;
}

static void end_close(struct pty_end *end)
{
    (void)end_watch(end, 0, NULL);
    fd_close(end->fd);
    end->fd = -EBADF;
    end->due = 0;
}

/* If watching fails, the descriptor is useless. It is closed, so that the process at the other end
 * does not wait for ever. */
static void end_watch_or_close(struct pty_end *end, uint32_t events)
{
    struct err e = {0};

    if (end_watch(end, events, &e) >= 0)
        return;
    (void)log_err(&e, "a terminal is lost");
    end_close(end);
}

static struct pty_end *input_end(struct pty_proc *p)
{
    return &p->ends[p->is_pty ? PTY_END_OUT : PTY_END_IN];
}

static void proc_watch_output(struct pty_proc *p)
{
    uint32_t wanted = p->paused || p->state == PTY_DRAINING ? 0 : EPOLLIN;

    for (size_t i = PTY_END_OUT; i < PTY_ENDS; i++)
        end_watch_or_close(&p->ends[i], (p->ends[i].watched & EPOLLOUT) | wanted);
}

static void proc_close_ends(struct pty_proc *p)
{
    for (size_t i = 0; i < PTY_ENDS; i++)
        end_close(&p->ends[i]);
    fd_close(p->slave);
    p->slave = -EBADF;
}

/* --- output --- */

/* Reads as much as is available. 0: nothing now; negative: end of file or error. */
static ssize_t end_fill(const struct pty_end *end, char *room, size_t size)
{
    size_t n = 0;

    for (int i = 0; i < READS_MAX && n < size; i++) {
        ssize_t got = read(end->fd, room + n, size - n);

        if (got > 0)
            n += (size_t)got;
        else if (n > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
            break; /* end of file, if any, is read again next time */
        else
            return -1;
    }
    return (ssize_t)n;
}

/* False if nothing more was read, for now or for good. */
static bool end_read(struct pty_end *end)
{
    struct pty_proc *p = end->proc;
    char *room = loop_scratch(p->loop);
    size_t most = PTY_READ_BYTES;
    ssize_t n;

    if (p->state == PTY_DRAINING)
        most = min_size(most, end->due);
    n = end_fill(end, room, most);
    if (n < 0)
        end_close(end);
    if (n <= 0)
        return false;
    end->due -= min_size(end->due, (size_t)n);
    if (!p->ops->on_output(p, end->channel, str_make(room, (size_t)n)))
        pty_proc_pause(p);
    return true;
}

static void end_on_ready(struct loop_io *io, uint32_t events)
{
    struct pty_end *end = container_of(io, struct pty_end, io);
    struct pty_proc *p = end->proc;

    if (end == input_end(p) && events & (EPOLLOUT | EPOLLERR)) {
        (void)end_watch(end, end->watched & EPOLLIN, NULL);
        p->ops->on_room(p);
    }
    if (end->watched & EPOLLIN && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        (void)end_read(end);
}

void pty_proc_pause(struct pty_proc *p)
{
    p->paused = true;
    proc_watch_output(p);
}

void pty_proc_resume(struct pty_proc *p)
{
    if (!p->paused)
        return;
    p->paused = false;
    proc_watch_output(p);
    if (p->state == PTY_DRAINING)
        loop_defer(p->loop, &p->task, proc_on_task);
}

/* --- input --- */

ssize_t pty_proc_write(struct pty_proc *p, struct str data)
{
    struct pty_end *end = input_end(p);
    ssize_t n;

    if (p->state == PTY_IDLE || p->state == PTY_DRAINING)
        return (ssize_t)data.n; /* discarded, like input of a closing terminal */
    if (end->fd < 0)
        return -EPIPE;
    n = data.n ? write(end->fd, data.p, data.n) : 0;
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        if (!p->is_pty)
            end_close(end);
        return -EPIPE;
    }
    if (n < (ssize_t)data.n)
        end_watch_or_close(end, end->watched | EPOLLOUT);
    return n < 0 ? 0 : n;
}

void pty_proc_resize(struct pty_proc *p, uint16_t cols, uint16_t rows)
{
    struct winsize size = {.ws_row = rows, .ws_col = cols};

    if (p->is_pty && p->ends[PTY_END_OUT].fd >= 0)
        (void)ioctl(p->ends[PTY_END_OUT].fd, TIOCSWINSZ, &size);
}

void pty_proc_signal(const struct pty_proc *p, int signo)
{
    pid_t group = p->is_pty ? tcgetpgrp(p->ends[PTY_END_OUT].fd) : -1;

    if (p->child.pid == 0)
        return;
    (void)kill(group > 0 ? -group : -p->child.pid, signo);
}

/* --- ending --- */

/* Releases everything; the next shell may start. */
static void proc_forget(struct pty_proc *p)
{
    child_proc_stop(&p->child);
    proc_close_ends(p);
    p->paused = false;
    p->state = PTY_IDLE;
}

void pty_proc_done(struct pty_proc *p)
{
    if (p->child.pid > 0) {
        (void)kill(p->child.pid, SIGKILL); /* it may not lead a group yet */
        (void)kill(-p->child.pid, SIGKILL);
    }
    proc_forget(p);
}

/* Delivers the output that was pending when the leader ended, as fast as the viewer takes it. */
static void proc_on_task(struct loop_task *t)
{
    struct pty_proc *p = container_of(t, struct pty_proc, task);

    if (p->state != PTY_DRAINING)
        return;
    for (size_t i = PTY_END_OUT; i < PTY_ENDS; i++)
        while (p->ends[i].due > 0 && !p->paused)
            if (!end_read(&p->ends[i]))
                p->ends[i].due = 0;
    if (p->paused)
        return;
    proc_forget(p);
    p->ops->on_end(p, p->exit_code);
}

static void proc_on_start(struct child_proc *child, const struct err *why)
{
    struct pty_proc *p = container_of(child, struct pty_proc, child);

    if (why)
        proc_forget(p);
    else
        p->state = PTY_RUNNING;
    p->ops->on_start(p, why);
}

/* FIONREAD counts the bytes of a pipe. A terminal counts fewer than it holds, but delivers all of
 * them to a reader that reads until EAGAIN (the kernel flushes first). Another process may go on
 * writing, so DRAIN_BYTES_MAX limits this. */
static size_t end_due(const struct pty_end *end)
{
    int left = 0;

    if (end->fd < 0)
        return 0;
    if (end->proc->is_pty)
        return DRAIN_BYTES_MAX;
    return ioctl(end->fd, FIONREAD, &left) == 0 && left > 0 ? (size_t)left : 0;
}

static void proc_on_exit(struct child_proc *child, const struct proc_exit *how)
{
    struct pty_proc *p = container_of(child, struct pty_proc, child);

    p->exit_code = how->by_signal ? -1 : how->code;
    p->state = PTY_DRAINING;
    for (size_t i = PTY_END_OUT; i < PTY_ENDS; i++)
        p->ends[i].due = end_due(&p->ends[i]);
    for (size_t i = 0; i < PTY_ENDS; i++)
        (void)end_watch(&p->ends[i], 0, NULL); /* from here on, proc_on_task() reads */
    loop_defer(p->loop, &p->task, proc_on_task);
}

/* --- start --- */

/* Opens the slave by TIOCGPTPEER, which needs no path in our /dev; otherwise by path. */
static int open_slave(int master)
{
    char path[32];
    unsigned number;
    int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0)
        return fd;
    if (ioctl(master, TIOCGPTN, &number) < 0)
        return -errno;
    (void)snprintf(path, sizeof(path), "/dev/pts/%u", number);
    fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int open_terminal(struct pty_proc *p, struct err *e)
{
    struct pty_end *end = &p->ends[PTY_END_OUT];
    struct termios modes;
    int unlock = 0;

    end->fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (end->fd < 0)
        return err_sys(e, errno, "open /dev/ptmx");
    if (ioctl(end->fd, TIOCSPTLCK, &unlock) < 0)
        return err_sys(e, errno, "unlock a terminal");
    p->slave = open_slave(end->fd);
    if (p->slave < 0)
        return err_sys(e, -p->slave, "open a terminal");
    if (tcgetattr(p->slave, &modes) == 0) {
        modes.c_iflag |= IUTF8; /* so that erase removes a whole character */
        (void)tcsetattr(p->slave, TCSANOW, &modes);
    }
    pty_proc_resize(p, PTY_COLS, PTY_ROWS);
    return 0;
}

/* Opens stdin, stdout and stderr of the child. The caller closes them if they are pipes. */
static int open_ends(struct pty_proc *p, int stdio[PTY_ENDS], struct err *e)
{
    int r = 0;

    if (p->is_pty) {
        r = open_terminal(p, e);
        for (size_t i = 0; i < PTY_ENDS; i++)
            stdio[i] = p->slave;
        return r;
    }
    for (size_t i = 0; r >= 0 && i < PTY_ENDS; i++)
        r = fd_pipe(p->ends[i].channel == PTY_CHANNEL_STDIN ? FD_PIPE_WRITE : FD_PIPE_READ,
                    &p->ends[i].fd, &stdio[i], e);
    return r;
}

static int child_prepare(void *user, struct proc_step *ret_step)
{
    static const struct child_user as_ours = {.change = false};
    const struct pty_spec *spec = user;

    *ret_step = (struct proc_step){"take the terminal of", spec->argv[0]};
    if (spec->is_pty && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
        return -errno;
    return child_settle(spec->place, &as_ours, spec->cwd, spec->argv[0], ret_step);
}

static const struct child_proc_ops proc_child_ops = {
    .name = "a terminal's shell",
    .on_start = proc_on_start,
    .on_exit = proc_on_exit,
};

static int proc_spawn_on(struct pty_proc *p, const struct pty_spec *spec, const int stdio[PTY_ENDS],
                         struct err *e)
{
    struct proc_spec how = PROC_SPEC(spec->argv[0], spec->argv);
    struct pty_spec copy = *spec;

    how.env = spec->env;
    how.flags = PROC_NEW_SESSION;
    how.groups = &spec->place->groups;
    how.prepare = child_prepare;
    how.user = &copy;
    for (size_t i = 0; i < PTY_ENDS; i++)
        how.stdio[i] = stdio[i];
    return child_proc_start(&p->child, p->loop, p->reaper, &how, &proc_child_ops, e);
}

int pty_proc_start(struct pty_proc *p, const struct pty_spec *spec, struct err *e)
{
    int stdio[PTY_ENDS] = {-EBADF, -EBADF, -EBADF}, r;

    assert(p->state == PTY_IDLE);
    p->is_pty = spec->is_pty;
    r = open_ends(p, stdio, e);
    if (r >= 0)
        r = proc_spawn_on(p, spec, stdio, e);
    for (size_t i = 0; !p->is_pty && i < PTY_ENDS; i++)
        fd_close(stdio[i]);
    for (size_t i = PTY_END_OUT; r >= 0 && i < PTY_ENDS; i++)
        r = end_watch(&p->ends[i], EPOLLIN, e);
    if (r < 0) {
        pty_proc_done(p);
        return r;
    }
    p->state = PTY_STARTING;
    return 0;
}
