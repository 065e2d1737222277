#include "execd/files/file_view_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/url.h"
#include "execd/core/routes.h"
#include "execd/files/file_routes.h"
#include "execd/tree/fs.h"

enum {
    FD_LISTENER = 3,
    FD_CHANNEL = 4,
    FD_ROOT = 5, /* for fs_confine() */
    FD_PARK = 64,
    CONNECTIONS_MAX = 1024, /* as many as execd itself accepts */
    DRAIN_MS = 1000,
    LAST_DRAIN_MS = 100, /* the sandbox ends soon */
};

/* Checks the paths of the query; file_op_body() checks those of a body. */
static bool view_on_request(struct http_req *req)
{
    struct url_query_iter it;

    if (!execd_on_request(req))
        return false;
    http_req_be_patient(req); /* execd, which forwards it, limits the client's pauses */
    url_query_init(&it, req->head.query, &req->arena);
    while (url_query_next(&it) > 0)
        if (str_eq(it.key, STR("path")) && !file_view_admits(req, it.value))
            return false;
    return true;
}

/* --- the process --- */

struct view_server {
    struct loop *loop;
    struct http_server *http;
    struct execd_api api;
    struct loop_io channel;
    struct loop_signals signals;
    const char *over;
    bool ending;
};

static void on_drained(void *user)
{
    loop_stop(((struct view_server *)user)->loop);
}

/* Ends the watches and gives active requests a moment to finish. */
static void view_end(struct view_server *v, uint32_t drain_ms)
{
    if (v->ending)
        return;
    v->ending = true;
    directories_watch_end_all(&v->api, v->over);
    http_server_drain(v->http, drain_ms, on_drained, v);
}

/* The owner ends this process, or has exited. */
static void on_channel(struct loop_io *io, uint32_t events UNUSED)
{
    struct view_server *v = container_of(io, struct view_server, channel);

    loop_io_stop(v->loop, io);
    view_end(v, DRAIN_MS);
}

/* The sandbox ends: every process of it gets the signal. */
static void on_signal(struct loop_signals *s, int signo UNUSED)
{
    view_end(container_of(s, struct view_server, signals), LAST_DRAIN_MS);
}

static int watch_signals(struct view_server *v)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return loop_signals_start(v->loop, &v->signals, &set, on_signal, NULL);
}

static int view_serve(const struct file_view_task *task)
{
    static const struct http_route rows[] = {
        {.path = "", .group = &file_routes   },
        {.path = "", .group = &archive_routes},
    };
    static struct view_server v; /* one per process */
    struct http_server_conf conf = {
        .routes = rows,
        .route_count = ARRAY_LEN(rows),
        .user = &v.api,
        .on_request = view_on_request,
        .on_unrouted = execd_on_unrouted,
        .peer_pid = task->client,
        .connections_max = CONNECTIONS_MAX,
        .held_bytes_max = EXECD_HELD_BYTES_MAX,
    };
    int r = loop_new(&v.loop, NULL);

    if (r < 0)
        return r;
    v.over = task->plan->over;
    v.api = (struct execd_api){.view = task->plan->workspace};
    trim_init(&v.api.trim, v.loop);
    r = http_server_new(v.loop, &conf, &v.http, NULL);
    if (r >= 0)
        r = http_server_listen(v.http, FD_LISTENER, NULL);
    if (r >= 0)
        r = loop_io_start(v.loop, &v.channel, FD_CHANNEL, EPOLLIN, on_channel, NULL);
    if (r >= 0)
        r = watch_signals(&v);
    if (r >= 0)
        r = loop_run(v.loop, NULL);
    http_server_free(v.http); /* active uploads drop their temporary files here */
    return r;
}

/* Two passes, so that the descriptors do not overwrite each other. All others are closed, including
 * the spawn report. The root of fs_confine() is opened anew: from this root, and with these
 * privileges. */
static int place_descriptors(const struct file_view_task *task)
{
    int listener = fcntl(task->listener, F_DUPFD_CLOEXEC, FD_PARK);
    int channel = fcntl(task->channel, F_DUPFD_CLOEXEC, FD_PARK);
    int last = fs_is_confined() ? FD_ROOT : FD_CHANNEL;
    int r;

    if (listener < 0 || channel < 0 || dup3(listener, FD_LISTENER, O_CLOEXEC) < 0 ||
        dup3(channel, FD_CHANNEL, O_CLOEXEC) < 0)
        return -errno;
    r = fs_confine_again(FD_ROOT);
    if (r < 0)
        return r;
    return syscall(SYS_close_range, last + 1, ~0U, 0) < 0 ? -errno : 0;
}

int file_view_become(void *user, struct proc_step *ret_step)
{
    static const struct log_conf log = {.format = LOG_JSON_BRIEF, .fd = STDERR_FILENO};
    const struct file_view_task *task = user;
    int r = task->plan->enter(task->plan->user, ret_step);

    if (r < 0)
        return r;
    *ret_step = (struct proc_step){"hide the memory of", "the view"};
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) /* a change of ids may have reset it */
        return -errno;
    *ret_step = (struct proc_step){"open again", "the root of files"};
    r = place_descriptors(task);
    if (r < 0)
        return r;
    log_init(&log);              /* the log file was closed, and its number may be reused */
    _exit(view_serve(task) < 0); /* execd is single-threaded: malloc is safe after fork */
}
