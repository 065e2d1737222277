/* command_pipe.c - reads a command's output from its pipes into its logs and to its follower. */
#include <assert.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "execd/command/command_internal.h"

static_assert((int)COMMAND_READ_BYTES <= (int)LOOP_SCRATCH_BYTES, "read into the loop's scratch");

void command_pipe_free(struct command_pipe *p)
{
    if (p->command)
        p->command->pipes[p->which] = NULL;
    if (p->watched)
        loop_io_stop(p->all->loop, &p->io);
    fd_close(p->fd);
    if (p->left_over) {
        list_remove(&p->link);
        p->all->leftover_count--;
    }
    free(p);
}

void command_pipe_ignore(struct command_pipe *p)
{
    if (p->watched)
        loop_io_stop(p->all->loop, &p->io);
    p->watched = false;
}

/* Output is logged before the follower gets it, so that the client can request it again. */
static void command_take_output(struct command *c, enum command_stream which, struct str data)
{
    struct run *run = c->run;
    int r = command_log_add(&c->logs[which], data);

    if (r < 0 && !c->all->log_failed)
        log_event(LOG_WARN, "output of a command cannot be logged", LOG_I64("errno", -r));
    c->all->log_failed |= r < 0;
    if (!c->background && run && run->ops && !run->ops->on_output(run->user, which, data))
        run->paused = true;
}

bool command_pipe_read(struct command_pipe *p)
{
    struct run *run = p->command ? p->command->run : NULL;
    size_t most = COMMAND_READ_BYTES;
    char *room = loop_scratch(p->all->loop);
    ssize_t n;

    if (run && run->reaped)
        most = min_size(most, p->due);
    n = read(p->fd, room, most);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        command_pipe_free(p);
        return false;
    }
    p->due -= min_size(p->due, (size_t)n);
    if (p->command)
        command_take_output(p->command, p->which, str_make(room, (size_t)n));
    return true;
}

static void pipe_on_ready(struct loop_io *io, uint32_t events UNUSED)
{
    struct command_pipe *p = container_of(io, struct command_pipe, io);
    struct command *c = p->command;
    struct run *run = c ? c->run : NULL;

    (void)command_pipe_read(p);
    if (run && run->paused)
        for (size_t i = 0; i < COMMAND_STREAMS; i++)
            if (c->pipes[i])
                command_pipe_ignore(c->pipes[i]);
}

static int pipe_watch(struct command_pipe *p, struct err *e)
{
    int r = p->watched ? 0 : loop_io_start(p->all->loop, &p->io, p->fd, EPOLLIN, pipe_on_ready, e);

    p->watched = r >= 0;
    return r;
}

void command_pipe_watch_or_free(struct command_pipe *p)
{
    struct err e = {0};

    if (pipe_watch(p, &e) >= 0)
        return;
    (void)log_err(&e, "output of a command is lost");
    command_pipe_free(p);
}

int command_pipe_open(struct command *c, enum command_stream which, int *ret_end, struct err *e)
{
    auto_fd ours = -EBADF, theirs = -EBADF;
    struct command_pipe *p;
    int r = fd_pipe(FD_PIPE_READ, &ours, &theirs, e);

    if (r < 0)
        return r;
    p = mem_new(struct command_pipe);
    *p = (struct command_pipe){.fd = ours, .all = c->all, .which = which};
    r = pipe_watch(p, e);
    if (r < 0) {
        free(p);
        return r;
    }
    (void)take_fd(&ours);
    p->command = c;
    c->pipes[which] = p;
    *ret_end = take_fd(&theirs);
    return 0;
}

void command_pipe_leave_over(struct command_pipe *p)
{
    struct commands *all = p->all;

    p->left_over = true;
    list_push(&all->leftovers, &p->link);
    if (++all->leftover_count > LEFTOVERS_MAX)
        command_pipe_free(container_of(all->leftovers.next, struct command_pipe, link));
    command_pipe_watch_or_free(p);
}
