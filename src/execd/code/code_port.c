#include "execd/code/code_port.h"

#include "base/fd.h"
#include "base/log.h"
#include "execd/core/path.h"

enum { PORT_DEFAULT = 44771, BACKLOG = 8 };

static void code_port_on_accept(struct sock_listener *l UNUSED, int fd,
                                const struct sock_addr *peer UNUSED)
{
    fd_close(fd);
}

static uint16_t port_of(const char *const *env)
{
    uint16_t port;

    return str_to_u16(path_env(env, STR("JUPYTER_PORT")), &port) < 0 || port == 0 ? PORT_DEFAULT
                                                                                  : port;
}

void code_port_open(struct sock_listener *l, struct loop *loop, const char *const *env)
{
    struct sock_addr addr = {
        .size = sizeof(addr.v4),
        .v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
    };
    struct err e = {0};
    int fd, r;

    if (path_env(env, STR("JUPYTER_HOST")).n > 0)
        return;
    addr.v4.sin_port = htons(port_of(env));
    fd = sock_listen(&addr, BACKLOG, &e);
    r = fd < 0 ? fd : sock_listener_start(l, loop, fd, code_port_on_accept, &e);
    if (r >= 0)
        return;
    fd_close(fd);
    *l = (struct sock_listener){0};
    log_event(LOG_INFO, "cannot listen on the port that shows that code can run",
              LOG_STR("why", e.msg));
}

void code_port_close(struct sock_listener *l)
{
    sock_listener_stop(l);
}
