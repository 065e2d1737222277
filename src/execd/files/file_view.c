#include "execd/files/file_view.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "execd/core/child_proc.h"
#include "execd/core/routes.h"
#include "execd/files/file_view_process.h"

enum {
    /* As many as execd may forward at once: beyond it connect(2) fails with EAGAIN. */
    LISTEN_BACKLOG = 1024,
    END_MS = 10 * 1000, /* for its last events and temporary files, on a slow machine */
};

struct file_view {
    struct child_proc process;
    struct sock_addr addr;
    int channel;
    struct err failure; /* of its start */
    struct file_views *all;
    struct list ending;
    struct loop_timer timer;
    bool is_ending;
};

void file_views_init(struct file_views *all, struct loop *loop, struct reaper *reaper)
{
    *all = (struct file_views){.loop = loop, .reaper = reaper};
    list_init(&all->ending);
}

/* --- the end --- */

static void view_forget(struct file_view *v)
{
    child_proc_stop(&v->process);
    loop_timer_stop(v->all->loop, &v->timer);
    if (v->is_ending)
        list_remove(&v->ending);
    free(v);
}

static void view_on_due(struct loop_timer *t)
{
    (void)kill(container_of(t, struct file_view, timer)->process.pid, SIGKILL);
}

void file_view_free(struct file_view *v)
{
    if (!v)
        return;
    fd_close(take_fd(&v->channel)); /* it sends its last events and exits */
    if (v->process.pid <= 0) {
        view_forget(v);
        return;
    }
    v->is_ending = true;
    list_push(&v->all->ending, &v->ending);
    loop_timer_after(v->all->loop, &v->timer, END_MS, view_on_due);
}

/* Does what the timer would do: the loop has ended. */
static void view_await(struct file_view *v)
{
    struct proc process;
    struct proc_exit how;

    if (proc_open(v->process.pid, &process) < 0)
        return;
    if (proc_wait(process.pidfd, v->timer.due_ns, &how) == -ETIMEDOUT)
        view_on_due(&v->timer);
    proc_close(&process);
}

void file_views_finish(struct file_views *all)
{
    for (struct list *at = all->ending.next, *next; at != &all->ending; at = next) {
        struct file_view *v = container_of(at, struct file_view, ending);

        next = at->next;
        view_await(v);
        view_forget(v);
    }
}

/* --- the start --- */

/* An abstract name chosen by the kernel (autobind), which exists as long as the socket. */
static int view_listen(struct sock_addr *ret, struct err *e)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = sizeof(ret->path);

    if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any.sun_family)) < 0 ||
        listen(fd, LISTEN_BACKLOG) < 0 || getsockname(fd, (struct sockaddr *)&ret->path, &size) < 0)
        return err_sys(e, errno, "make a socket");
    ret->size = size;
    ret->ours = true; /* verify the peer: the name may be taken by another process later */
    return take_fd(&fd);
}

/* Otherwise its owner finds out through file_view_serves. */
static void view_on_exit(struct child_proc *p, const struct proc_exit *how UNUSED)
{
    struct file_view *v = container_of(p, struct file_view, process);

    if (v->is_ending)
        view_forget(v);
}

static void view_on_start(struct child_proc *p, const struct err *why)
{
    if (why)
        container_of(p, struct file_view, process)->failure = *why;
}

static const struct child_proc_ops view_ops = {
    .name = "a view",
    .on_start = view_on_start,
    .on_exit = view_on_exit,
};

static int view_spawn(struct file_view *v, const struct file_view_plan *plan, struct err *e)
{
    const char *const argv[] = {"view", NULL};
    struct proc_spec how = PROC_SPEC("view", argv);
    struct proc_groups groups = plan->groups;
    struct file_view_task task = {.plan = plan, .client = getpid()};
    auto_fd listener = view_listen(&v->addr, e), theirs = -EBADF;
    int pair[2];

    if (listener < 0)
        return listener;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, errno, "make a channel");
    v->channel = pair[0];
    theirs = pair[1];
    task.listener = listener;
    task.channel = theirs;
    groups.dir_fd = -EBADF; /* so that fork() is used, see proc_spec.prepare */
    how.flags = PROC_NEW_SESSION;
    how.groups = &groups;
    how.prepare = file_view_become;
    how.user = &task;
    return child_proc_start(&v->process, v->all->loop, v->all->reaper, &how, &view_ops, e);
}

int file_view_start(struct file_views *all, const struct file_view_plan *plan,
                    struct file_view **ret, struct err *e)
{
    struct file_view *v = mem_new(struct file_view);
    int r;

    *v = (struct file_view){.all = all, .channel = -EBADF};
    r = view_spawn(v, plan, e);
    if (r < 0)
        file_view_free(v);
    else
        *ret = v;
    return r;
}

int file_view_failure(struct file_view *v, struct err *e)
{
    child_proc_check(&v->process);
    if (v->failure.code == 0)
        return 0;
    *e = v->failure;
    v->failure = (struct err){0};
    return -e->code;
}

/* --- use --- */

/* A process that just died has closed its channel, but may not have been reaped yet. */
bool file_view_serves(const struct file_view *v)
{
    struct pollfd p = {.fd = v->channel};

    return v->process.pid > 0 && (poll(&p, 1, 0) <= 0 || !(p.revents & POLLHUP));
}

static struct str target_behind(struct http_req *req, const char *param)
{
    struct str rest = req->head.path, query = req->head.query;

    if (param) {
        struct str value = http_req_param(req, param);

        rest = str_skip(rest, (size_t)(value.p + value.n - rest.p));
    }

    return str_of(
        arena_printf(&req->arena, "%.*s%s%.*s", STR_ARG(rest), query.p ? "?" : "", STR_ARG(query)));
}

void file_view_forward(const struct file_view *v, struct http_req *req, const char *param,
                       struct http_proxy_target *how)
{
    static const struct str drop = STR_INIT(EXECD_TOKEN_HEADER); /* the view requires no token */
    const struct execd_api *api = req->server_user;
    struct err e = {0};

    how->target = target_behind(req, param);
    if (!how->target.p) {
        (void)err_set(&e, ENOMEM, "no memory for this request");
        how->on_fail(how->user, req, 503, &e);
        how->on_end(how->user);
        return;
    }
    how->addr = &v->addr;
    how->drop = &drop;
    how->drop_count = 1;
    http_proxy_forward(req, api->proxy, how);
}
