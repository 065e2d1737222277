#include "execd/core/child_proc.h"

#include <poll.h>
#include <signal.h>

#include "base/fd.h"

static void report_close(struct child_proc *p)
{
    int fd = p->report.fd;

    if (!p->reporting)
        return;
    p->reporting = false;
    loop_io_stop(p->loop, &p->report);
    fd_close(fd);
}

/* The owner may free `p` in its callback. */
static void report_take(struct child_proc *p)
{
    struct err e = {0};
    int r = proc_spawn_result(p->report.fd, p->ops->name, &e);

    report_close(p);
    p->ops->on_start(p, r < 0 ? &e : NULL);
}

static void report_on_ready(struct loop_io *io, uint32_t events UNUSED)
{
    report_take(container_of(io, struct child_proc, report));
}

static bool report_has_come(const struct child_proc *p)
{
    struct pollfd at = {.fd = p->report.fd, .events = POLLIN};

    return p->reporting && poll(&at, 1, 0) > 0;
}

void child_proc_check(struct child_proc *p)
{
    if (report_has_come(p))
        report_take(p);
}

/* The report of a process that has ended is complete. Only that of a process in an isolated session
 * may be missing: a child of the one that ended writes it, and may be stopped. It counts as started
 * then: waiting would block the loop. */
static void proc_on_exit(struct reaper_child *c, const struct proc_exit *how)
{
    struct child_proc *p = container_of(c, struct child_proc, reaped);
    bool stopped = false;

    p->pid = 0;
    p->stopped = &stopped;
    if (report_has_come(p)) {
        report_take(p);
    } else if (p->reporting) {
        report_close(p);
        p->ops->on_start(p, NULL);
    }
    if (stopped)
        return;
    p->stopped = NULL;
    p->ops->on_exit(p, how);
}

void child_proc_stop(struct child_proc *p)
{
    if (p->stopped)
        *p->stopped = true;
    p->stopped = NULL;
    if (p->ops)
        reaper_unwatch(&p->reaped);
    report_close(p);
    p->pid = 0;
}

int child_proc_start(struct child_proc *p, struct loop *loop, struct reaper *reaper,
                     const struct proc_spec *spec, const struct child_proc_ops *ops, struct err *e)
{
    auto_fd report = -EBADF;
    pid_t pid;
    int r = proc_spawn_start(spec, &pid, &report, e);

    if (r < 0)
        return r;
    *p = (struct child_proc){.pid = pid, .ops = ops, .loop = loop};
    reaper_watch(reaper, &p->reaped, pid, proc_on_exit);
    r = loop_io_start(loop, &p->report, report, EPOLLIN, report_on_ready, e);
    if (r < 0) {
        (void)kill(pid, SIGKILL);
        child_proc_stop(p);
        return r;
    }
    (void)take_fd(&report);
    p->reporting = true;
    return 0;
}
