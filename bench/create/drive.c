#include "create/drive.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "api/report.h"
#include "base/fd.h"
#include "base/mem.h"

enum { ANSWER_S_MAX = 30, BACKLOG = 16, LOOK_AGAIN_NS = 20000 };

static int box_address(const struct drive *d, uint64_t number, struct sockaddr_un *ret,
                       struct err *e)
{
    int n;

    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    n = snprintf(ret->sun_path, sizeof(ret->sun_path), "%s/%d-%llu", d->sockets, (int)getpid(),
                 (unsigned long long)number);
    return n < (int)sizeof(ret->sun_path) ? 0 : err_set(e, ENAMETOOLONG, "'%s'", d->sockets);
}

static int box_listen(const struct drive *d, uint64_t number, struct err *e)
{
    struct sockaddr_un addr;
    int r = box_address(d, number, &addr, e);
    auto_fd fd = r < 0 ? r : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (r < 0)
        return r;
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, BACKLOG) < 0)
        return err_sys(e, errno, "listen at '%s'", addr.sun_path);
    return take_fd(&fd);
}

static int box_plan(const struct drive *d, uint64_t number, struct plan *p, struct err *e)
{
    int r = 0;

    plan_init(p);
    (void)snprintf(p->id, sizeof(p->id), "bench-%d-%llu", (int)getpid(),
                   (unsigned long long)number);
    p->net = d->net;
    p->root = d->root < 0 ? PLAN_ROOT_HOST : PLAN_ROOT_DIR;
    p->layer_count = d->root >= 0;
    for (const char *const *arg = d->argv; r == 0 && *arg; arg++)
        r = plan_add_arg(p, str_of(*arg));
    if (r == 0)
        r = plan_add_env(p, STR("PATH"), STR("/usr/bin:/bin"));
    if (r == 0)
        r = plan_set_cwd(p, STR("/"));
    return r < 0 ? err_sys(e, -r, "make a plan") : 0;
}

int drive_ping(const struct drive *d, uint64_t number, struct err *e)
{
    struct str ask = STR("GET /ping HTTP/1.1\r\nHost: bench\r\n\r\n");
    struct timeval patience = {.tv_sec = ANSWER_S_MAX};
    auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un addr;
    char answer[512];
    ssize_t n;
    int r = box_address(d, number, &addr, e);

    if (r < 0)
        return r;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
        connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
        send(fd, ask.p, ask.n, MSG_NOSIGNAL) != (ssize_t)ask.n)
        return err_sys(e, errno, "ask execd");
    n = recv(fd, answer, sizeof(answer), 0);
    if (n < 0)
        return err_sys(e, errno, "hear from execd");
    if (!str_starts(str_make(answer, (size_t)n), STR("HTTP/1.1 200")))
        return err_set(e, EPROTO, "execd answered something else");
    return 0;
}

/* A log cannot be waited for. */
static int box_await_output(const struct box *box, struct err *e)
{
    uint64_t deadline = deadline_in_ms(ANSWER_S_MAX * 1000), written = 0;
    struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};

    while (!deadline_passed(deadline)) {
        AUTO_BUF(text, ENTRY_LOG_BYTES);
        int r = entry_log_read(box->handle.files[BROKER_FILE_LOG], 1, &text, &written);

        if (r == 0 && written > 0)
            return 0;
        (void)nanosleep(&pause, NULL);
    }
    return err_set(e, ETIMEDOUT, "no output");
}

int drive_create(const struct drive *d, struct broker_client *c, uint64_t number, struct box *ret,
                 struct err *e)
{
    auto_free struct plan *plan = mem_new(struct plan);
    auto_fd listener = -EBADF;
    uint64_t began;
    int r = box_plan(d, number, plan, e);

    if (r < 0)
        return r;
    listener = box_listen(d, number, e);
    if (listener < 0)
        return listener;
    ret->number = number;
    began = time_mono_ns();
    r = broker_spawn(c, plan, &d->root, NULL, listener, &ret->handle, e);
    if (r < 0)
        return r;
    r = d->until == DRIVE_PING ? drive_ping(d, number, e) : box_await_output(ret, e);
    ret->ms = drive_ms_since(began);
    return r;
}

int drive_remove(const struct drive *d, struct broker_client *c, struct box *box, struct err *e)
{
    struct sockaddr_un addr;
    int r = broker_remove(c, box->handle.sandbox.id, e);

    broker_handle_done(&box->handle);
    if (box_address(d, box->number, &addr, NULL) == 0)
        (void)unlink(addr.sun_path);
    return r;
}
