/* isolated_files.c - the routes of files and directories of a session, passed on to the process
 * that serves them inside (file_view.h), which is started by the first request. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "execd/answer.h"
#include "execd/file_routes.h"
#include "execd/file_view.h"
#include "execd/isolated_api.h"
#include "execd/isolated_api_internal.h"
#include "execd/routes.h"
#include "net/http_proxy.h"

enum {
    LISTEN_BACKLOG = 64,
    VIEW_END_MS = 10 * 1000, /* it has uploads to undo, and a machine may be slow */
};

struct isolated_view {
    struct reaper_child process;
    struct sock_addr addr;
    char token[ID_TOKEN_MAX];
    int channel;
    struct isolated_all *all;
    struct list ending; /* beside the others that are asked to end */
    struct loop_timer timer;
    bool is_ending;
};

static void view_forget(struct isolated_view *v)
{
    reaper_unwatch(&v->process);
    loop_timer_stop(isolated_loop(v->all), &v->timer);
    if (v->is_ending)
        list_remove(&v->ending);
    free(v);
}

static void view_on_due(struct loop_timer *t)
{
    (void)kill(container_of(t, struct isolated_view, timer)->process.pid, SIGKILL);
}

void isolated_view_free(struct isolated_view *v)
{
    if (!v)
        return;
    fd_close(take_fd(&v->channel)); /* it tells those who watch, and ends */
    if (v->process.pid <= 0) {
        view_forget(v);
        return;
    }
    v->is_ending = true;
    list_push(isolated_views_ending(v->all), &v->ending);
    loop_timer_after(isolated_loop(v->all), &v->timer, VIEW_END_MS, view_on_due);
}

/* Waits as the timer would, which no longer comes. */
static void view_await(struct isolated_view *v)
{
    struct proc process;
    struct proc_exit how;

    if (proc_open(v->process.pid, &process) < 0)
        return;
    if (proc_wait(process.pidfd, v->timer.due_ns, &how) == -ETIMEDOUT)
        view_on_due(&v->timer);
    proc_close(&process);
}

void isolated_views_finish(struct isolated_all *all)
{
    struct list *ending = isolated_views_ending(all);

    for (struct list *at = ending->next, *next; at != ending; at = next) {
        struct isolated_view *v = container_of(at, struct isolated_view, ending);

        next = at->next;
        view_await(v);
        view_forget(v);
    }
}

/* A name of the kernel's choice that only exists as long as its socket. */
static int view_listen(struct sock_addr *ret, struct err *e)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = sizeof(ret->path);

    if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any.sun_family)) < 0 ||
        listen(fd, LISTEN_BACKLOG) < 0 || getsockname(fd, (struct sockaddr *)&ret->path, &size) < 0)
        return err_sys(e, errno, "make a socket");
    ret->size = size;
    return take_fd(&fd);
}

/* The next request starts another. */
static void view_on_exit(struct reaper_child *c, const struct proc_exit *how UNUSED)
{
    struct isolated_view *v = container_of(c, struct isolated_view, process);

    if (v->is_ending)
        view_forget(v);
}

static int view_start(struct isolated *s, struct isolated_view *v, struct err *e)
{
    const char *const argv[] = {"view", NULL};
    struct proc_spec how = PROC_SPEC("view", argv);
    struct proc_groups groups = s->place.groups;
    struct file_view_plan plan = {
        .place = &s->place,
        .user = s->spec.user,
        .workspace = s->spec.workspace,
        .token = v->token,
        .file_bytes_max = s->upper[0] ? s->spec.upper_bytes : 0,
    };
    auto_fd listener = view_listen(&v->addr, e), theirs = -EBADF, report = -EBADF;
    int pair[2], r;
    pid_t pid;

    if (listener < 0)
        return listener;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_sys(e, errno, "make a channel");
    v->channel = pair[0];
    theirs = pair[1];
    plan.listener = listener;
    plan.channel = theirs;
    groups.dir_fd = -EBADF; /* it lives on as a copy of us */
    how.flags = PROC_NEW_SESSION;
    how.groups = &groups;
    how.prepare = file_view_become;
    how.user = &plan;
    r = proc_spawn_start(&how, &pid, &report, e);
    if (r >= 0)
        reaper_watch(isolated_reaper(s->all), &v->process, pid, view_on_exit);
    return r;
}

/* One that died a moment ago let go of its channel, and may not have been reaped yet. */
static bool view_serves(const struct isolated_view *v)
{
    struct pollfd p = {.fd = v->channel};

    return v->process.pid > 0 && (poll(&p, 1, 0) <= 0 || !(p.revents & POLLHUP));
}

static struct isolated_view *view_of(struct isolated *s, struct err *e)
{
    if (s->view && view_serves(s->view))
        return s->view;
    isolated_view_free(s->view);
    s->view = mem_new(struct isolated_view);
    s->view->channel = -EBADF;
    s->view->all = s->all;
    id_token(s->view->token);
    if (view_start(s, s->view, e) >= 0)
        return s->view;
    isolated_view_free(s->view);
    s->view = NULL;
    return NULL;
}

/* What stands behind the id, as it was written. */
static struct str target_of(struct http_req *req)
{
    struct str id = http_req_param(req, "id"), query = req->head.query;
    struct str rest = str_skip(req->head.path, (size_t)(id.p + id.n - req->head.path.p));

    return str_of(
        arena_printf(&req->arena, "%.*s%s%.*s", STR_ARG(rest), query.p ? "?" : "", STR_ARG(query)));
}

/* A session in use neither idles nor is committed. */
static void files_on_end(void *user)
{
    isolated_release(user);
}

static void files_on_fail(void *user, struct http_req *req, int status UNUSED,
                          const struct err *why)
{
    char ended[ISOLATED_WHY_MAX];

    if (isolated_why_ended(user, ended))
        answer_error(req, 413, "CONTENT_TOO_LARGE", "the session has ended: %s", ended);
    else
        answer_error(req, 500, "RUNTIME_ERROR", "the session's files cannot be reached: %s",
                     why->msg);
}

/* Only a watch has an end to tell; all others are broken transfers. */
static void files_on_cut(void *user, struct http_req *req, struct str tail)
{
    struct isolated *s = user;

    directories_watch_cut(req, tail,
                          s->state == ISOLATED_READY ? "the session's files cannot be reached"
                                                     : FILE_VIEW_OVER);
}

void isolated_files(struct http_req *req)
{
    const struct execd_api *api = req->server_user;
    struct isolated *s = isolated_need_living(req);
    struct isolated_view *v;
    struct http_header token = {STR("X-EXECD-ACCESS-TOKEN"), STR_NONE};
    struct http_proxy_target target = {
        .headers = &token,
        .header_count = 1,
        .on_fail = files_on_fail,
        .on_cut = str_ends(str_of(req->route->path), STR("/watch")) ? files_on_cut : NULL,
        .on_end = files_on_end,
        .user = s,
    };
    struct err e = {0};

    if (!s)
        return;
    if (s->spec.mode == BOX_RO && req->head.method != HTTP_GET) {
        answer_error(req, 403, "INVALID_REQUEST_BODY", "the workspace is read-only: %s",
                     s->spec.workspace);
        return;
    }
    v = view_of(s, &e);
    target.target = target_of(req);
    if (!v || !target.target.p) {
        answer_error(req, 500, "RUNTIME_ERROR", "the session's files cannot be reached: %s",
                     v ? "no memory" : e.msg);
        return;
    }
    target.addr = &v->addr;
    token.value = str_of(v->token);
    isolated_hold(s);
    http_proxy_forward(req, api->proxy, &target);
}
