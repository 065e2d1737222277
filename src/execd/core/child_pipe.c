#include "execd/core/child_pipe.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"

void child_pipe_init(struct child_pipe *p, struct loop *loop,
                     void (*on_ready)(struct child_pipe *p))
{
    *p = (struct child_pipe){.fd = -EBADF, .loop = loop, .on_ready = on_ready};
}

int child_pipe_open(struct child_pipe *p, int *ret_end, struct err *e)
{
    return fd_pipe(FD_PIPE_READ, &p->fd, ret_end, e);
}

static void pipe_on_ready(struct loop_io *io, uint32_t events UNUSED)
{
    struct child_pipe *p = container_of(io, struct child_pipe, io);

    p->on_ready(p);
}

int child_pipe_watch(struct child_pipe *p, struct err *e)
{
    int r = p->watched || p->fd < 0
                ? 0
                : loop_io_start(p->loop, &p->io, p->fd, EPOLLIN, pipe_on_ready, e);

    if (r >= 0)
        p->watched = p->fd >= 0;
    return r;
}

void child_pipe_ignore(struct child_pipe *p)
{
    if (p->watched)
        loop_io_stop(p->loop, &p->io);
    p->watched = false;
}

void child_pipe_close(struct child_pipe *p)
{
    child_pipe_ignore(p);
    fd_close(take_fd(&p->fd));
    p->due = 0;
}

size_t child_pipe_holds(const struct child_pipe *p)
{
    int n = 0;

    return p->fd >= 0 && ioctl(p->fd, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

void child_pipe_count(struct child_pipe *p)
{
    p->due = child_pipe_holds(p);
}

ssize_t child_pipe_read(struct child_pipe *p, char *room, size_t most)
{
    ssize_t n = p->fd < 0 ? 0 : read(p->fd, room, most);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0) {
        child_pipe_close(p);
        return -EPIPE;
    }
    p->due -= min_size(p->due, (size_t)n);
    return n;
}
