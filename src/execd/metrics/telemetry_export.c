#include "execd/metrics/telemetry_export.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/log.h"
#include "base/time.h"

enum { STATUS_TEXT_MAX = 32 };

static void export_done(struct telemetry_export *x, bool taken)
{
    if (x->conf.done)
        x->conf.done(x->conf.user, taken);
}

static void export_failed(struct telemetry_export *x, const char *why)
{
    uint64_t now = loop_now_ns(x->conf.loop);

    export_done(x, false);
    x->lost++;
    x->addr.size = 0;
    if (x->warned_ns && now - x->warned_ns < TELEMETRY_WARN_MS * TIME_NS_PER_MS)
        return;
    x->warned_ns = now;
    log_event(LOG_WARN, "the collector did not accept telemetry",
              LOG_STR("collector", x->conf.to->authority), LOG_STR("why", why),
              LOG_U64("lost", x->lost));
}

/* --- one request --- */

static void call_on_head(struct http_call *call)
{
    struct telemetry_export *x = call->user;

    x->status = call->head.status;
}

/* Ignores the body, but limits its size. */
static ssize_t call_on_body(struct http_call *call, struct str piece)
{
    struct telemetry_export *x = call->user;

    x->answer_bytes += piece.n;
    return x->answer_bytes > TELEMETRY_ANSWER_BYTES_MAX ? -EMSGSIZE : (ssize_t)piece.n;
}

static void call_on_end(struct http_call *call, int error)
{
    struct telemetry_export *x = call->user;
    char text[STATUS_TEXT_MAX];

    x->call = NULL;
    if (error) {
        export_failed(x, call->err.msg[0] ? call->err.msg : "the connection broke");
    } else if (x->status < 200 || x->status > 299) {
        (void)snprintf(text, sizeof(text), "status %d", x->status);
        export_failed(x, text);
    } else {
        x->lost = 0;
        export_done(x, true);
    }
}

static const struct http_call_ops call_ops = {
    .on_head = call_on_head,
    .on_body = call_on_body,
    .on_end = call_on_end,
};

static void export_send(struct telemetry_export *x)
{
    AUTO_BUF(body, TELEMETRY_BODY_BYTES_MAX);
    const struct telemetry_conf *to = x->conf.to;
    struct http_call_spec spec = {
        .addr = &x->addr,
        .method = HTTP_POST,
        .target = to->target,
        .host = to->authority,
        .headers = to->headers,
        .header_count = to->header_count,
        .head_ms = TELEMETRY_TIMEOUT_MS,
        .ops = &call_ops,
        .user = x,
    };
    struct err e = {0};
    int r = x->conf.make(x->conf.user, &body);

    if (r == -EAGAIN)
        return;
    if (r < 0)
        (void)err_sys(&e, -r, "encode it");
    spec.body = buf_str(&body);
    x->status = 0;
    x->answer_bytes = 0;
    x->call_ns = loop_now_ns(x->conf.loop);
    if (r < 0 || http_call_start(x->conf.client, &spec, &x->call, &e) < 0)
        export_failed(x, e.msg);
}

/* --- address --- */

static void lookup_stop(struct telemetry_export *x)
{
    int fd = x->lookup.fd;

    if (fd < 0)
        return;
    loop_io_stop(x->conf.loop, &x->lookup);
    fd_close(fd);
}

static void lookup_on_ready(struct loop_io *io, uint32_t events UNUSED)
{
    struct telemetry_export *x = container_of(io, struct telemetry_export, lookup);
    struct sock_addr addr;
    ssize_t n = read(io->fd, &addr, sizeof(addr));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    lookup_stop(x);
    if (n != (ssize_t)sizeof(addr)) {
        export_failed(x, "its name cannot be resolved");
        return;
    }
    x->addr = addr;
    export_send(x);
}

/* Runs in the child: DNS replies and files of the sandbox are parsed with no more privileges than
 * the workload has. */
static int lookup_run(void *user, struct proc_step *ret_step)
{
    const struct telemetry_export *x = user;
    struct sock_addr addr = {0};
    int r = child_settle(x->conf.place, &(struct child_user){0}, NULL, "lookup", ret_step);

    if (r < 0)
        return r;
    (void)prctl(PR_SET_NAME, "lookup");
    (void)syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
    (void)alarm(TELEMETRY_LOOKUP_S);
    if (sock_resolve(x->conf.to->host, x->conf.to->port, &addr, NULL) < 0)
        _exit(1);
    _exit(io_write_full(STDOUT_FILENO, str_make((const char *)&addr, sizeof(addr)),
                        DEADLINE_NEVER) < 0);
}

/* The child is reaped like any other. When it ends, for any reason, the pipe is closed. */
static int lookup_start(struct telemetry_export *x, struct err *e)
{
    static const char *const argv[] = {"lookup", NULL};
    struct proc_spec how = PROC_SPEC("/proc/self/exe", argv);
    auto_fd in = -EBADF, out = -EBADF, report = -EBADF;
    int ends[2], r;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_sys(e, errno, "make a pipe");
    in = ends[0];
    out = ends[1];
    how.stdio[1] = out;
    how.flags = PROC_NEW_GROUP | PROC_DIE_WITH_US;
    how.groups = &x->conf.place->groups;
    how.prepare = lookup_run;
    how.user = x;
    r = proc_spawn_start(&how, &pid, &report, e);
    if (r < 0)
        return r;
    r = loop_io_start(x->conf.loop, &x->lookup, in, EPOLLIN, lookup_on_ready, e);
    if (r < 0)
        return r;
    (void)take_fd(&in);
    return 0;
}

/* A numeric address needs no lookup. */
static bool find_address(struct telemetry_export *x)
{
    const struct telemetry_conf *to = x->conf.to;
    unsigned char bytes[sizeof(struct in6_addr)];
    struct err e = {0};
    int r;

    if (inet_pton(AF_INET, to->host, bytes) == 1 || inet_pton(AF_INET6, to->host, bytes) == 1)
        r = sock_resolve(to->host, to->port, &x->addr, &e);
    else
        r = lookup_start(x, &e);
    if (r < 0)
        export_failed(x, e.msg);
    return x->addr.size > 0;
}

/* --- timer --- */

static void export_on_due(struct loop_timer *t)
{
    struct telemetry_export *x = container_of(t, struct telemetry_export, timer);
    uint64_t now = loop_now_ns(x->conf.loop);

    loop_timer_set(x->conf.loop, t, now + x->conf.to->interval_ms * TIME_NS_PER_MS, export_on_due);
    if (x->call && now - x->call_ns >= TELEMETRY_TIMEOUT_MS * TIME_NS_PER_MS) {
        http_call_cancel(x->call);
        x->call = NULL;
        export_failed(x, "it does not answer");
    }
    if (x->call || x->lookup.fd >= 0)
        return;
    if (x->addr.size > 0 || find_address(x))
        export_send(x);
}

void telemetry_export_start(struct telemetry_export *x, const struct telemetry_export_conf *conf)
{
    *x = (struct telemetry_export){.conf = *conf, .lookup = {.fd = -EBADF}};
    loop_timer_after(conf->loop, &x->timer, conf->to->interval_ms, export_on_due);
}

void telemetry_export_stop(struct telemetry_export *x)
{
    loop_timer_stop(x->conf.loop, &x->timer);
    lookup_stop(x);
    if (x->call)
        http_call_cancel(x->call);
    x->call = NULL;
}
